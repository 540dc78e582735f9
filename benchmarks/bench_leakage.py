"""Leakage of channels at the sizes of the textbook's experiments: 10,000 x 10,000 dense and sparse, 100 x 100,000, a city of 400 x 115,600.

Time is processor time of one thread; memory is what a process of its own needed on top of its imports, the matrix included. "by hand" is
the one-line formula in numpy, which makes any matrix dense and holds the joint law as well. "4 rules" is one point of a curve: all rules
fitted to the examples, with their exact errors over every observation.

Run with `make bench`, or `python benchmarks/bench_leakage.py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from measure import busy, peak, report_peak, verdict

from tacit.audit import generator
from tacit.audit.leakage import Channel, convergence
from tacit.audit.leakage.builders import Grid, planar_geometric, planar_laplace, truncated_geometric

CITY = Grid(20, 20, 150)
MODULES = ["tacit.audit.leakage.estimators", "tacit.audit.leakage.builders", "matplotlib"]

SYSTEMS: dict[str, tuple[Callable[[], Channel], int]] = {
    "geometric 10,000 x 10,000 sparse": (lambda: truncated_geometric(10_000, 10_000, 2.0), 200_000),
    "geometric 10,000 x 10,000 dense": (lambda: truncated_geometric(10_000, 10_000, 2.0, sparse=False), 200_000),
    "geometric 10,000 x 1,000": (lambda: truncated_geometric(10_000, 1_000, 2.0), 200_000),
    "geometric 100 x 100,000": (lambda: truncated_geometric(100, 100_000, 0.002), 500_000),
    "planar geometric 400 x 115,600": (lambda: planar_geometric(CITY, CITY.around(7, 10), 4), 75_000),
    "planar Laplace 400 x 115,600": (lambda: planar_laplace(CITY, CITY.around(7, 10), 4), 75_000),
}


def timed(task: Callable[[], object]) -> tuple[float, object]:
    start = time.process_time()
    value = task()
    return time.process_time() - start, value


def by_hand(channel: Channel) -> float:
    """The Bayes risk as one writes it: fine where the matrix is small and the risk is not tiny."""
    matrix = channel.matrix.toarray() if channel.sparse else channel.matrix
    return float(1 - (matrix * channel.prior[:, None]).max(axis=0).sum())


#: What each system must stay within: seconds to build it and know its Bayes risk, seconds for a point of a curve, megabytes (the dense
#: matrix of 10,000 x 10,000 is 763 of them). The city's Laplace masses are integrals, which is what building it costs.
LIMITS = {
    "geometric 10,000 x 10,000 sparse": (5, 5, 700),
    "geometric 10,000 x 10,000 dense": (20, 5, 963),
    "geometric 10,000 x 1,000": (5, 5, 500),
    "geometric 100 x 100,000": (5, 5, 500),
    "planar geometric 400 x 115,600": (10, 5, 1000),
    "planar Laplace 400 x 115,600": (20, 5, 1000),
}
COLUMNS = (34, 8, 7, 10, 9, 9, 10, 6, 10, 9, 0)


def line(cells: tuple[str, ...]) -> None:
    """A row as soon as it is known: what ends early has said something."""
    words = [
        cell.ljust(width) if i in (0, len(cells) - 1) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, COLUMNS, strict=True))
    ]
    print("  ".join(words).rstrip(), flush=True)


def timings(name: str) -> tuple[tuple[float, ...], float, bool]:
    """Seconds of each step, the Bayes risk, and whether it is the one by hand. Then the system is let go."""
    build, examples = SYSTEMS[name]
    seconds, channel = timed(build)
    assert isinstance(channel, Channel)
    risk_seconds, risk = timed(channel.bayes_risk)
    hand_seconds, hand = timed(lambda: by_hand(channel))
    information_seconds, _ = timed(channel.mutual_information)
    sample_seconds, drawn = timed(lambda: channel.sample(examples, generator(1)))
    labels, columns = drawn  # type: ignore[misc]
    point_seconds, _ = timed(lambda: convergence(labels, columns, channel=channel, sizes=[examples]))
    found, by_the_formula = float(risk), float(hand)  # type: ignore[arg-type]
    spent = (seconds, risk_seconds, hand_seconds, information_seconds, sample_seconds, point_seconds)
    return spent, found, abs(found - by_the_formula) < 1e-9


def measured(name: str) -> bool:
    """One system, its row, and whether it stayed within its limits."""
    spent, risk, right = timings(name)
    memory, hand_memory = (peak(__file__, name, who) for who in ("ours", "hand"))
    exact, point, megabytes = LIMITS[name]
    met = right and spent[0] + spent[1] < exact and spent[-1] < point and memory < megabytes
    told = f"{SYSTEMS[name][1]:,} examples, R* = {risk:.6f}"
    line((name, *(f"{s:.2f}" for s in spent), f"{memory:.0f}", f"{hand_memory:.0f}", "PASS" if met else "FAIL", told))
    return met


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--peak":
        build, _ = SYSTEMS[sys.argv[2]]
        report_peak(MODULES, lambda: build().bayes_risk() if sys.argv[3] == "ours" else by_hand(build()))
        return 0
    print(busy())
    line(("system", "build s", "risk s", "by hand s", "I(S;O) s", "sample s", "4 rules s", "MB", "by hand MB", "", ""))
    met = [measured(name) for name in SYSTEMS]
    limits = "; ".join(f"{name}: {exact} s, {point} s, {megabytes} MB" for name, (exact, point, megabytes) in LIMITS.items())
    print(f"PASS is: the risk agrees with the one by hand to 1e-9, and build with risk, the four rules and memory stay within {limits}")
    return 0 if verdict("every system within its limits", all(met)) else 1


if __name__ == "__main__":
    sys.exit(main())
