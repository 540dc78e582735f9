"""What an import costs: seconds and memory over a bare interpreter, ours beside the peers.

Every figure is the median of fresh interpreters, run in turn so that a busy moment hits all alike.
A package that is not installed is printed as such.

Run with `make bench`, or `python benchmarks/bench_import.py [rounds]`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

TARGET = 0.15  # seconds over bare Python for `import tacit`
BARE = "bare Python"
STATEMENTS = {
    BARE: "pass",
    "tacit": "import tacit",
    "tacit.accounting": "import tacit.accounting",
    "numpy": "import numpy",
    "dp_accounting": "import dp_accounting",
    "dp_accounting, with PLD": "import dp_accounting; import dp_accounting.pld",
    "prv_accountant": "import prv_accountant",
    "autodp": "import autodp.rdp_acct",
    "opendp": "import opendp.prelude",
}
# Linux counts the peak in KiB, macOS in bytes.
PEAK = "import resource, sys; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == 'darwin' else 2**10))"


def once(statement: str) -> tuple[float, float] | None:
    """Seconds and peak megabytes of one fresh interpreter, or None if the statement fails."""
    start = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", f"{statement}\n{PEAK}"], capture_output=True, text=True, env=os.environ)
    seconds = time.perf_counter() - start
    return (seconds, float(run.stdout.splitlines()[-1])) if run.returncode == 0 else None


def main(rounds: int = 7) -> int:
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in STATEMENTS}
    for name, statement in STATEMENTS.items():  # once unmeasured, so that nobody pays for compiling bytecode or a cold disk
        if once(statement) is None:
            del runs[name]
    for _ in range(rounds):
        for name in runs:
            measured = once(STATEMENTS[name])
            if measured is not None:
                runs[name].append(measured)
    median = {name: tuple(statistics.median(column) for column in zip(*rows, strict=True)) for name, rows in runs.items()}
    bare_seconds, bare_memory = median[BARE]
    ours = max(median["tacit"][0] - bare_seconds, 1e-4) if "tacit" in median else float("nan")

    print(f"{'import':<26}{'s over bare':>12}{'MB over bare':>14}{'times tacit':>13}")
    for name in STATEMENTS:
        if name not in median:
            print(f"{name:<26}{'not installed':>12}")
            continue
        seconds, memory = median[name][0] - bare_seconds, median[name][1] - bare_memory
        note = "" if name == BARE else f"{seconds / ours:>13.1f}"
        print(f"{name:<26}{seconds:>12.3f}{memory:>14.1f}{note}")
    met = ours < TARGET
    print(f"target: import tacit under {TARGET} s over bare Python: {'met' if met else 'MISSED'} ({ours:.3f} s)")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
