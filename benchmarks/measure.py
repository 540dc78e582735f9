"""How the benchmarks measure: medians after a warm-up, all contenders in turn in one process, memory in a process of its own.

Times are seconds of processor time on one thread: on a busy machine they swing less than the clock on the wall.

>>> seconds = medians({"sum": lambda k: sum(range(1000))}, rounds=3)
>>> seconds["sum"].failed, seconds["sum"].value
('', 499500)
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before anybody imports numpy
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 20.0  # seconds after which a contender is not run again
QUICK, TURNS = 0.2, 5  # a contender faster than this has so many turns a round, so that its median is as steady as the others'


class Missing(Exception):
    """The package is not installed, or cannot do this task."""


@dataclass
class Run:
    """What one contender did: the value of its first run, the seconds of the others, or why there are none."""

    value: Any = None
    times: list[float] = field(default_factory=list)
    failed: str = ""

    @property
    def seconds(self) -> float:
        return statistics.median(self.times) if self.times else float("nan")


def medians(contenders: dict[str, Callable[[int], Any]], rounds: int) -> dict[str, Run]:
    """Run every contender once unmeasured, then in turn, so that a busy moment hits all alike.

    Each is called with a number that differs from turn to turn and must be worked into the input, so that nobody answers from a cache;
    0 asks for the exact problem.
    """
    runs = {name: Run() for name in contenders}
    turn = 0
    for k in range(rounds + 1):
        for name, task in contenders.items():
            run = runs[name]
            for _ in range(TURNS if run.times and run.seconds < QUICK else 1):
                if run.failed or (run.times and max(run.times) > PATIENCE):
                    break
                turn += 1
                _once(run, task, turn, warm=k == 0)
    return runs


def _once(run: Run, task: Callable[[int], Any], turn: int, *, warm: bool) -> None:
    start = time.process_time()
    try:
        value = task(0 if warm else turn)
    except Missing as reason:
        run.failed = str(reason)
        return
    except Exception as error:  # a peer may fail in any way; the benchmark says so and goes on
        run.failed = f"{type(error).__name__}: {error}".splitlines()[0][:48]
        return
    seconds = time.process_time() - start
    if warm:
        run.value = value
    if not warm or seconds > PATIENCE:
        run.times.append(seconds)


def peak(script: str, *arguments: str) -> float:
    """Megabytes that `script --peak arguments` needed over what its imports did; NaN where it failed. See `report_peak`."""
    run = subprocess.run([sys.executable, script, "--peak", *arguments], capture_output=True, text=True, timeout=600, check=False)
    return float(run.stdout.split()[-1]) if run.returncode == 0 and run.stdout.split() else float("nan")


def report_peak(modules: Sequence[str], task: Callable[[], object]) -> None:
    """In the child: print by how much the task raised the resident memory over that after the imports."""
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    before = _resident("VmRSS")
    with suppress(OSError):  # forget the peak that the imports left behind
        Path("/proc/self/clear_refs").write_text("5")
    task()
    print(_resident("VmHWM") - before)


def _resident(which: str) -> float:
    """Megabytes resident now (VmRSS) or at the peak (VmHWM); Linux only."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 2**10


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, the first and the last to the left and the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        cells = [cell.ljust(w) if i in (0, len(row) - 1) else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip())


def busy() -> str:
    """One line on how far the timings can be trusted."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    note = "busy: read the ratios, not the seconds" if load > 0.7 * cores else "quiet"
    return f"load {load:.1f} on {cores} cores ({note})"


def verdict(goal: str, met: bool) -> bool:
    print(f"target: {goal}: {'met' if met else 'MISSED'}")
    return met
