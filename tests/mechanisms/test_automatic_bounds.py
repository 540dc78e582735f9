"""Automatic bounds: charged, never read for free, with a public fallback."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Gaussian, Laplace, ParameterError
from tacit.calculus import AddRemove, DomainError, Integers, Lattice, Reals, ReplaceOne, Rows, Space
from tacit.mechanisms import automatic_bounds, cell_edges, gaussian, laplace
from tacit.mechanisms import cell_numbers as cells_of
from tacit.mechanisms.automatic_bounds import counts
from tacit.noise import test_mode

ROWS = Space(Rows(Integers()), AddRemove())


@given(st.integers(1, 62), st.lists(st.integers(-(2**70), 2**70), max_size=20))
def test_cells_are_disjoint_and_hold_every_value(bits: int, data: list[int]) -> None:
    found = counts(np.array(data, dtype=object) if data else np.array([], dtype=np.int64), bits)
    cells = [cell_edges(cell, whole=True) for cell in cells_of(bits)]
    assert all(cells[i][1] + 1 == cells[i + 1][0] for i in range(2 * bits))
    limit = 2**bits - 1
    held = [min(max(x, -limit), limit) for x in data]
    assert found.tolist() == [sum(low <= x <= high for x in held) for low, high in cells]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20))
def test_machine_words_are_counted_as_big_integers_are(data: list[int]) -> None:
    """Near powers of two a detour over floating point would put 2^53 - 1 and its like into the wrong cell."""
    extra = [2**k - d for k in (53, 54, 61) for d in (0, 1)]
    assert np.array_equal(counts(np.array(data + extra, dtype=np.int64), 62), counts(np.array(data + extra, dtype=object), 62))


def test_the_price_is_that_of_one_histogram() -> None:
    assert (ROWS >> automatic_bounds(laplace(2))).event(1) == Laplace(2)
    replaced = Space(Rows(Integers()), ReplaceOne()) >> automatic_bounds(laplace(2))
    assert replaced.event(1) == Laplace(1, adjacency=Adjacency.REPLACE_ONE)
    assert (ROWS >> automatic_bounds(gaussian(2))).event(1) == Gaussian(2)


def test_bounds_are_found_within_a_factor_of_two() -> None:
    data = np.random.default_rng(2).integers(-300, 5000, 20_000)
    with test_mode(101):
        found = (ROWS >> automatic_bounds(laplace(2))).release(data).value
    assert found.found
    assert -511 <= found.lower <= -255 and 4095 <= found.upper <= 8191


def test_a_lattice_gets_bounds_in_its_own_unit() -> None:
    cents = Space(Rows(Lattice(Fraction(1, 100))), AddRemove())
    with test_mode(102):
        found = (cents >> automatic_bounds(laplace(1))).release([500] * 1000).value
    assert (found.lower, found.upper) == (Fraction(256, 100), Fraction(511, 100))
    # so they can be clamped to: both are multiples of the granularity
    assert Lattice(Fraction(1, 100), found.lower, found.upper)


@pytest.mark.parametrize("data", [[], [10**9], [float("nan")] * 3], ids=["nobody", "one outlier", "NaN"])
def test_few_rows_give_the_public_fallback(data: list[Any]) -> None:
    plan = ROWS >> automatic_bounds(laplace(2), fallback=(-10, 10), beta=1e-6)
    with test_mode(103):
        found = plan.release(data).value
    assert not found.found and (found.lower, found.upper) == (-10, 10)
    with test_mode(103):
        whole = (ROWS >> automatic_bounds(laplace(2), bits=10, beta=1e-6)).release(data).value
    assert (whole.lower, whole.upper) == (-1023, 1023)


def test_one_outlier_does_not_move_the_bounds() -> None:
    plan = ROWS >> automatic_bounds(laplace(2), beta=1e-6)
    with test_mode(104):
        found = plan.release([5] * 1000 + [10**11]).value
    assert (found.lower, found.upper) == (4, 7)


def test_empty_cells_pass_as_rarely_as_stated() -> None:
    beta, runs = 0.2, 2000
    plan = ROWS >> automatic_bounds(laplace(5), beta=beta)
    with test_mode(105):
        passed = sum(plan.release([]).value.found for _ in range(runs))
    # one-sided: only noise upwards passes, half of what the threshold allows for
    assert passed <= runs * beta
    assert passed > runs * beta / 4
    assert abs(passed - runs * (1 - math.sqrt(1 - beta))) < 6 * math.sqrt(runs * 0.1)


def test_what_it_cannot_stand_on_is_refused() -> None:
    with pytest.raises(DomainError, match="round_to"):
        Space(Rows(Reals()), AddRemove()) >> automatic_bounds(laplace(1))
    with pytest.raises(ParameterError, match="bits"):
        automatic_bounds(laplace(1), bits=63)
    with pytest.raises(ParameterError, match="beta"):
        automatic_bounds(laplace(1), beta=0)
    with pytest.raises(ParameterError, match="fallback"):
        automatic_bounds(laplace(1), fallback=(1, 0))
