"""Random allocation: each record takes part in one of t steps (balls in bins), alone and over epochs.

None of the pinned peers prices it. The figures to beat are those of the research package PLD_accounting, measured once on two noisy
cores and quoted here, not run; Poisson sampling at rate 1/t stands beside ours for scale.

Run with `make bench`, or `python benchmarks/bench_allocation.py [rounds]`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from measure import busy, medians, table, verdict

from tacit.accounting import Adjacency, Bound, Gaussian, Poisson, RandomAllocation, Repeated, Sampled, account

DELTA, SIGMA = 1e-5, 1.0
WIDTH, SECONDS = 1e-3, 1.0


@dataclass(frozen=True)
class Case:
    steps: int
    epochs: int
    published: tuple[float, float] | None = None  # the research package's bracket
    seconds: float = float("nan")  # and its time


CASES = (
    Case(100, 1, (0.6085, 0.6356), 1.4),
    Case(1000, 1, (0.1364, 0.1422), 32.0),
    Case(100, 60),
    Case(234, 60, seconds=395.0),
    Case(1000, 60),
)


def cost(case: Case, turn: int, poisson: bool = False) -> Bound:
    noise = Gaussian(SIGMA * (1 + 1e-13 * turn))
    if poisson:
        event = Repeated(Sampled(Poisson(1 / case.steps), noise), case.steps * case.epochs)
    else:
        event = Repeated(Sampled(RandomAllocation(case.steps), noise), case.epochs)
    return account(event, Adjacency.ADD_REMOVE).epsilon(DELTA)


def main(rounds: int = 3) -> int:
    print(busy())
    print(f"sigma = {SIGMA}, delta = {DELTA}, each record in 1 of t steps, add/remove")
    rows, inside, narrow, quick = [], True, True, True
    for case in CASES:
        found = medians({"allocation": lambda k, c=case: cost(c, k), "Poisson": lambda k, c=case: cost(c, k, poisson=True)}, rounds)
        run, poisson = found["allocation"], found["Poisson"]
        if run.failed:
            rows.append([f"1 of {case.steps}, {case.epochs} epochs", *[""] * 6, run.failed])
            narrow = False
            continue
        bracket: Bound = run.value
        theirs = "" if case.published is None else "[{}, {}]".format(*case.published)
        ratio = "" if case.seconds != case.seconds else f"{case.seconds / run.seconds:.0f}"
        tighter = "" if case.published is None else f"{(case.published[1] - case.published[0]) / bracket.width:.0e}"
        rows.append(
            [
                f"1 of {case.steps}, {case.epochs} epochs",
                f"[{bracket.lower:.6f}, {bracket.upper:.6f}]",
                f"{bracket.width:.0e}",
                f"{1e3 * run.seconds:.0f}",
                "" if poisson.failed else f"{poisson.value.upper:.6f}",
                theirs,
                f"{tighter} / {ratio}" if ratio or tighter else "",
                "",
            ]
        )
        if case.published is not None:
            inside &= case.published[0] <= bracket.lower and bracket.upper <= case.published[1]
            quick &= run.seconds < SECONDS
        narrow &= bracket.width <= WIDTH
    table(["", "tacit", "width", "ms", "Poisson", "PLD_accounting (quoted)", "tighter / faster, times", ""], rows)
    met = verdict("inside the research package's brackets", inside)
    met &= verdict(f"at most {WIDTH:g} wide", narrow)
    met &= verdict(f"one epoch in under {SECONDS:g} s", quick)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
