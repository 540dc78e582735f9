"""Private training steps beside plain torch and every mode of Opacus: time and memory on four models, clipping, noise and update included.

Times are medians of interleaved steps in one process on one thread; memory is what a few steps add to a process of their own that
already holds the model and the data. For each model three lines say PASS or FAIL: the multiple of the plain step that ours may take,
that no mode of Opacus is faster, and that ours takes at most twice the memory of plain.

Run with `make bench`, or `python benchmarks/bench_deep.py [rounds]`.
"""

from __future__ import annotations

import math
import sys
import warnings

import measure
from measure import Run, busy, medians, peak, report_peak, table, verdict

MEMORY = 2.0
DUEL, DUEL_ROUNDS = ("plain", "tacit"), 4  # these two alone again, and longer: a ratio near its target wants more turns
measure.TURNS = 3


def contest(label: str, rounds: int) -> tuple[dict[str, Run], float, dict[str, float]]:
    """The times of all contenders on one model, ours over plain's from a longer duel of the two, and the megabytes of these two."""
    from deep_models import CASES, CONTENDERS, Step

    made: dict[str, Step] = {}

    def lazily(name: str) -> Step:
        def run(turn: int) -> float:
            if name not in made:  # in the unmeasured round
                made[name] = CONTENDERS[name](CASES[label])
                made[name](0)
            return made[name](turn)

        return run

    found = medians({name: lazily(name) for name in CONTENDERS}, rounds)
    duel = medians({name: lazily(name) for name in DUEL}, DUEL_ROUNDS * rounds)
    return found, duel["tacit"].seconds / duel["plain"].seconds, {name: peak(__file__, label, name) for name in DUEL}


def main(rounds: int = 2) -> int:
    import torch
    from deep_models import CASES, CONTENDERS

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # a random walk on made-up data is meant here
    missed = 0
    for label, case in CASES.items():
        found, time, megabytes = contest(label, rounds)
        rows = []
        for name in CONTENDERS:
            run = found[name]
            times = ["", ""] if run.failed else [f"{run.seconds * 1e3:.1f}", f"{run.seconds / found['plain'].seconds:.2f}"]
            rows.append([name, *times, f"{megabytes[name]:.0f}" if name in megabytes else "", run.failed])
        print(f"{label}; {busy()}")
        table(["", "ms a step", "times plain", "MB", ""], rows)
        best = min((run.seconds for name, run in found.items() if name.startswith("opacus") and not run.failed), default=math.inf)
        space = megabytes["tacit"] / megabytes["plain"]
        for goal, value, limit in (
            (f"time at most {case.target:g} times plain", time, case.target),
            ("time at most that of the best mode of Opacus", time / (best / found["plain"].seconds), 1.0),
            (f"memory at most {MEMORY:g} times plain", space, MEMORY),
        ):
            met = value <= limit
            missed += not met
            print(f"{'PASS' if met else 'FAIL'}  {goal}: {value:.2f}")
        print(flush=True)
    return 0 if verdict("every model within its time and memory, and no slower than any mode of Opacus", not missed) else 1


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
