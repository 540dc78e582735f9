"""Private training steps beside plain torch and every mode of Opacus: time and memory on four models, clipping, noise and update included.

Times are medians of interleaved steps in one process on one thread; memory is what a few steps add to a process of their own that
already holds the model and the data. The target of a row is the multiple of the plain step that ours may take; besides, ours
may be slower than no mode of Opacus, and take at most twice the memory of plain.

Run with `make bench`, or `python benchmarks/bench_deep.py [rounds]`.
"""

from __future__ import annotations

import math
import sys

import measure
from measure import Run, busy, medians, peak, report_peak, table, verdict

MEMORY = 2.0
measure.TURNS = 3


def contest(label: str, rounds: int) -> tuple[dict[str, Run], dict[str, float]]:
    """The times of all contenders on one model, and the megabytes of those that ran."""
    from deep_models import CASES, CONTENDERS, Step

    def lazily(name: str) -> Step:
        made: list[Step] = []

        def run(turn: int) -> float:
            if not made:  # in the unmeasured round
                made.append(CONTENDERS[name](CASES[label]))
                made[0](0)
            return made[0](turn)

        return run

    found = medians({name: lazily(name) for name in CONTENDERS}, rounds)
    return found, {name: peak(__file__, label, name) for name in CONTENDERS if not found[name].failed}


def main(rounds: int = 3) -> int:
    import torch
    from deep_models import CASES, CONTENDERS

    torch.set_num_threads(1)
    missed = []
    for label, case in CASES.items():
        found, megabytes = contest(label, rounds)
        rows = []
        best = min((run.seconds for name, run in found.items() if name.startswith("opacus") and not run.failed), default=math.inf)
        for name in CONTENDERS:
            run = found[name]
            if run.failed:
                rows.append([name, "", "", "", "", run.failed])
                continue
            time, space = run.seconds / found["plain"].seconds, megabytes[name] / megabytes["plain"]
            goals = {}
            if name == "tacit":
                goals = {
                    f"time <= {case.target:g}": time <= case.target,
                    "no slower than Opacus": run.seconds <= best,
                    f"memory <= {MEMORY:g}": space <= MEMORY,
                }
            missed += [f"{label}: {goal}" for goal, met in goals.items() if not met]
            verdicts = "; ".join(f"{goal}: {'PASS' if met else 'MISSED'}" for goal, met in goals.items())
            rows.append([name, f"{run.seconds * 1e3:.1f}", f"{time:.2f}", f"{megabytes[name]:.0f}", f"{space:.2f}", verdicts])
        print(f"{label}; {busy()}")
        table(["", "ms a step", "times plain", "MB", "times plain", ""], rows)
        print(flush=True)
    for goal in missed:
        print(f"missed: {goal}")
    return 0 if verdict("every row within its time and memory, and no slower than any mode of Opacus", not missed) else 1


def memory(label: str, name: str) -> None:
    """In the child: a few steps of one contender."""
    import torch
    from deep_models import CASES, CONTENDERS

    torch.set_num_threads(1)
    torch.nn.Linear(2, 2)(torch.ones(2, 2)).sum().backward()  # what the first backward pass loads
    step = CONTENDERS[name](CASES[label])
    report_peak([], lambda: [step(turn) for turn in range(5)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        memory(*sys.argv[2:])
    else:
        sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
