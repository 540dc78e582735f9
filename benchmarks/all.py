"""Every benchmark in turn, each with a limit of time: what it prints is shown and kept, and a summary says who met its targets.

    make bench                                  all of them
    .venv/bin/python benchmarks/all.py deep ledger      those whose names contain one of the words

The tables are written to `bench-results/<name>.txt` beside a `summary.txt`, and a `run.json` with date, commit and
machine, from which `tools/comparison.py` writes a page. A script that is not done after `LIMIT` is stopped and named;
the others still run. Exit status 1 if any missed a target, failed or was stopped.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "bench-results"
#: Seconds for one script. The slowest takes about a third of it on two quiet cores.
LIMIT = 1800.0


def chosen(words: list[str]) -> list[Path]:
    """The scripts whose name contains one of the words; all of them for none.

    >>> [script.name for script in chosen(["ledger"])]
    ['bench_ledger.py']
    """
    scripts = sorted(HERE.glob("bench_*.py"))
    return [script for script in scripts if not words or any(word in script.stem for word in words)]


def run(script: Path, limit: float = LIMIT) -> tuple[str, float]:
    """Run one script, show and keep what it prints, and say how it ended and how many seconds it took."""
    print(f"\n== {script.stem}", flush=True)
    began = time.monotonic()
    with (RESULTS / f"{script.stem}.txt").open("w", encoding="utf-8") as kept:
        # A group of its own, so that what a stopped script has started is stopped with it.
        process = subprocess.Popen(
            [sys.executable, "-u", str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        assert process.stdout is not None
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True
            os.killpg(process.pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                kept.write(line)
            status = process.wait()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    seconds = time.monotonic() - began
    if stopped:
        return f"stopped after {limit:.0f} s", seconds
    return {0: "met its targets", 1: "missed a target"}.get(status, f"failed with status {status}"), seconds


def circumstances() -> dict[str, object]:
    """When, on which commit and on what machine; a commit with changes that are not in it is marked.

    >>> sorted(circumstances())
    ['commit', 'cores', 'date', 'machine', 'python']
    """

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": (git("rev-parse", "--short", "HEAD") or "unknown") + changed,
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def main() -> int:
    scripts = chosen(sys.argv[1:])
    if not scripts:
        print(f"no benchmark is called like that; there are: {', '.join(script.stem for script in chosen([]))}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    began = circumstances()
    ended = {script.stem: run(script) for script in scripts}
    lines = [f"{name:24} {how:26} {seconds:7.0f} s" for name, (how, seconds) in ended.items()]
    (RESULTS / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    each = {name: {"ended": how, "seconds": seconds} for name, (how, seconds) in ended.items()}
    kept = {**began, "full": scripts == chosen([]), "scripts": each}
    (RESULTS / "run.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print("\n== summary", *lines, f"\nthe tables are in {RESULTS.name}/", sep="\n")
    return int(any(how != "met its targets" for how, _ in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
