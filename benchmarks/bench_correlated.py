"""Correlated noise: error of running sums beside independent noise at the same price, and what a step of noise costs.

Errors are factors: the largest standard deviation of a running sum when the whole run costs Gaussian(1), from the factorisation's formula.
`sens` of one participation and of five passes. Times are processor time a step and parameter, at a million parameters where memory allows.

Run with `make bench`, or `python benchmarks/bench_correlated.py [parameters]`.
"""

from __future__ import annotations

import sys
import time

import torch
from measure import busy, table, verdict

from tacit.deep.correlated import Buffered, SquareRoot, Strategy, Toeplitz, Tree, banded, buffered, max_error, stream_of
from tacit.deep.correlated.noise import UNIT
from tacit.deep.noise import add_noise

EPOCHS = 5
NEAR = 1.02  # the light strategy may err this much more than the square root, which keeps all earlier noise
SLOW = 3.0  # and take this many times the time of independent noise


def contenders(n: int, times: int) -> dict[str, Strategy]:
    apart = n // times
    bands = min(apart, 64)
    return {
        "independent": Toeplitz([1], n),
        "tree": Tree(n),
        "tree, reduced": Tree(n, reduced=True),
        "square root": SquareRoot(n),
        f"banded, {bands}": banded(n, bands, participations=times, separation=apart),
        "4 buffers": buffered(n, 4, participations=times, separation=apart),
    }


def nanoseconds(strategy: Strategy, parameters: int, steps: int) -> float:
    """A step's noise, a parameter, once the buffers are full."""
    stream = stream_of(strategy, parameters)
    sums = torch.zeros(parameters, dtype=torch.float64)
    release = lambda row: add_noise(row, UNIT)  # noqa: E731
    for _ in range(steps):
        stream.step(sums.clone(), release)
    begun = time.process_time()
    for _ in range(steps):
        stream.step(sums.clone(), release)
    return (time.process_time() - begun) / steps / parameters * 1e9


def main(parameters: int = 10**6) -> int:
    torch.set_num_threads(1)
    print(busy())
    rows, near = [], True
    for times in (1, EPOCHS):
        for n in (100, 1000, 10_000):
            made = contenders(n, times)
            found = {name: max_error(strategy, times, n // times, True) for name, strategy in made.items()}
            rows.append([f"{n} steps, {times} pass{'es' if times > 1 else ''}", *(f"{value:.3f}" for value in found.values())])
            near &= found["4 buffers"] <= NEAR * found["square root"]
            names = [name.partition(",")[0] if "banded" in name else name for name in made]
    table(["largest error", *names], rows)
    steps = 16
    timed = {
        "independent": Toeplitz([1], 1000),
        "tree": Tree(1000),
        "tree, reduced": Tree(1000, reduced=True),
        "banded, 16": banded(1000, 16),
        "4 buffers": buffered(1000, 4),
    }
    spent = {name: nanoseconds(strategy, parameters, steps) for name, strategy in timed.items()}
    small = max(1000, parameters // 10)
    spent["square root, 256 of 256 steps"] = nanoseconds(SquareRoot(256), small, 128)
    lines = [[name, f"{value:.1f}", f"{value / spent['independent']:.1f}"] for name, value in spent.items()]
    table(["", "ns a step and parameter", "times independent"], lines)
    assert isinstance(timed["4 buffers"], Buffered)
    met = verdict(f"four buffers within {100 * (NEAR - 1):.0f} % of the square root's error", near)
    met &= verdict(f"four buffers in {SLOW:g} times the time of independent noise", spent["4 buffers"] <= SLOW * spent["independent"])
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
