"""Attacks on automatic bounds: the one person with the largest value, and bounds read from the data as the mutant."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

import numpy as np
from tests.attacks.attack import Draw, lower_bound

from tacit.calculus import AddRemove, Integers, Rows, Space
from tacit.mechanisms import automatic_bounds, laplace
from tacit.mechanisms.automatic_bounds import counts

N = 1500


def draws(data: list[int], scale: Fraction) -> Draw:
    # few cells and a generous beta, so that the threshold is within reach of a single row
    plan = Space(Rows(Integers()), AddRemove()) >> automatic_bounds(laplace(scale), bits=2, beta=0.9)

    def run(n: int) -> list[Hashable]:
        return [(found.lower, found.upper, found.found) for found in (plan.function(np.array(data)) for _ in range(n))]

    return run


def test_one_row_leaks_at_most_what_is_claimed() -> None:
    claimed = 1.0
    found = lower_bound(draws([1, 1], Fraction(1)), draws([1, 1, 3], Fraction(1)), N)
    assert 0.3 < found <= claimed
    assert lower_bound(draws([1, 1], Fraction(1, 3)), draws([1, 1, 3], Fraction(1, 3)), N) > claimed


def test_bounds_read_from_the_data_are_caught() -> None:
    """The mutant: minimum and maximum for free. One row tells the two data sets apart for certain."""

    def free(data: list[int]) -> Draw:
        return lambda n: [(min(data), max(data))] * n

    assert lower_bound(free([1, 1]), free([1, 1, 3]), N) > 4


def test_replayed_on_neighbours_the_cells_move_by_one() -> None:
    base = np.array([5, -3, 10**9])
    for row in (0, 1, -1, 2**61, -(2**61), 10**18):
        moved = np.abs(counts(base, 40) - counts(np.append(base, row), 40))
        assert moved.sum() == 1 and len(moved) == 81
