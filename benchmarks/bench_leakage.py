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

from measure import busy, peak, report_peak, table, verdict

from tacit.audit.channel import Channel
from tacit.audit.channel_builders import Grid, planar_geometric, truncated_geometric
from tacit.audit.experiment import generator
from tacit.audit.leakage_convergence import convergence
from tacit.audit.planar_laplace import planar_laplace

CITY = Grid(20, 20, 150)
MODULES = ["tacit.audit.leakage_convergence", "tacit.audit.planar_laplace", "matplotlib"]

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


def measured(name: str) -> tuple[list[str], float, float]:
    build, examples = SYSTEMS[name]
    seconds, channel = timed(build)
    assert isinstance(channel, Channel)
    risk_seconds, risk = timed(channel.bayes_risk)
    hand_seconds, hand = timed(lambda: by_hand(channel))
    information_seconds, _ = timed(channel.mutual_information)
    sample_seconds, drawn = timed(lambda: channel.sample(examples, generator(1)))
    labels, columns = drawn  # type: ignore[misc]
    point_seconds, _ = timed(lambda: convergence(labels, columns, channel=channel, sizes=[examples]))
    assert abs(float(risk) - float(hand)) < 1e-9  # type: ignore[arg-type]
    weighed = "10,000 x 10,000" in name  # the others are small
    memory, hand_memory = (peak(__file__, name, who) if weighed else float("nan") for who in ("ours", "hand"))
    row = [name, *(f"{s:.2f}" for s in (seconds, risk_seconds, hand_seconds, information_seconds, sample_seconds, point_seconds))]
    megabytes = [f"{m:.0f}" if weighed else "" for m in (memory, hand_memory)]
    return [*row, *megabytes, f"{examples:,} examples, R* = {risk:.6f}"], seconds + risk_seconds, point_seconds


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--peak":
        build, _ = SYSTEMS[sys.argv[2]]
        report_peak(MODULES, lambda: build().bayes_risk() if sys.argv[3] == "ours" else by_hand(build()))
        return 0
    print(busy())
    rows, exact, points = [], {}, {}
    for name in SYSTEMS:
        row, exact[name], points[name] = measured(name)
        rows.append(row)
    header = ["system", "build s", "risk s", "by hand s", "I(S;O) s", "sample s", "4 rules s", "MB", "by hand MB", ""]
    table(header, rows)
    sparse, dense = list(SYSTEMS)[:2]
    needed = {row[0]: float(row[7] or "nan") for row in rows}
    met = [
        verdict("sparse 10,000 x 10,000 built and its Bayes risk known in 5 s, within 700 MB", exact[sparse] < 5 and needed[sparse] < 700),
        verdict("dense 10,000 x 10,000 in 20 s, with at most 200 MB beyond the matrix (763 MB)", exact[dense] < 20 and needed[dense] < 963),
        verdict("a point of a curve, all four rules, in 5 s for every system", all(s < 5 for s in points.values())),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
