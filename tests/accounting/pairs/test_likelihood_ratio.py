"""Lattice laws of one step: relative error of the cells, the convex order, and its second order."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.accounting.finite_ratio import FiniteRatio

from tacit.accounting.pairs.likelihood_ratio import GaussianRatio, Law, contract, spread
from tacit.accounting.theorems import gaussian


def premium(law: Law, y: float) -> float:
    """E[(Y - y)_+] of a lattice law, the part above its top included."""
    return float(law.mass @ np.maximum(law.offset + law.grid - y, 0.0)) + law.infinite


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("offset", [0.0, 0.003])
def test_cells_have_the_relative_error_that_the_bounds_assume(sigma: float, offset: float) -> None:
    step, edge = 0.01, 0.01 if offset else -1.0
    low, high = GaussianRatio(sigma).cells(edge, offset, step, 60_000)
    with mpmath.workdps(60):
        s = 1 / mpmath.mpf(sigma)
        for i in (0, 1, 2, 7, 30, 63, 64, 99, 100, 105, 130, 300, 1_000, 3_999, 4_000, 20_000, 39_999, 40_000, 59_999):
            a, b = (mpmath.mpf(offset) + mpmath.mpf(step) * k for k in (i, i + 1))
            start = max(a, mpmath.mpf(edge)) if i == 0 else a
            ends = [mpmath.log(x) / s + s / 2 if x > 0 else mpmath.mpf(-60) for x in (start, b)]
            q, p = (mpmath.ncdf(ends[1] - shift) - mpmath.ncdf(ends[0] - shift) for shift in (0, s))
            exact_high = (p - a * q) / (b - a)
            if q > 1e-290:
                assert abs(high[i] / exact_high - 1) < 5e-13, i
                assert abs(low[i] / (q - exact_high) - 1) < 5e-13, i


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("step", [0.1, 0.01])
def test_spread_and_contraction_lie_above_and_below_in_the_convex_order(sigma: float, step: float) -> None:
    ratio = GaussianRatio(sigma)
    cells = math.ceil(30 / step)
    above, below = spread(ratio, step, cells), contract(ratio, step, cells)
    assert below is not None
    for law in (above, below):
        assert abs(law.mass.sum() - 1) < 1e-12
        assert abs(premium(law, 0.0) - 1) < 1e-11
        assert law.mass.min() >= 0
    for y in np.random.default_rng(1).uniform(0, 30, 300):
        exact = gaussian.delta(1 / sigma, math.log(y))
        assert premium(below, y) - 1e-14 <= exact <= premium(above, y) + 1e-14


def test_both_roundings_lose_a_second_order_amount() -> None:
    ratio, y = GaussianRatio(1.0), 1.27
    exact = gaussian.delta(1.0, math.log(y))
    for make in (spread, contract):
        errors = []
        for halving in range(3):
            law = make(ratio, 0.02 / 2**halving, 1000 * 2**halving)
            assert law is not None
            # the curves are polygons: average over a cell rather than sit on a node
            errors.append(np.mean([premium(law, y + 0.02 * k / 64) - gaussian.delta(1.0, math.log(y + 0.02 * k / 64)) for k in range(64)]))
        assert all(3.7 < abs(a / b) < 4.3 for a, b in itertools.pairwise(errors))
    assert exact > 0


@given(
    st.lists(st.tuples(st.floats(0.0, 6.0), st.floats(0.05, 1.0)), min_size=2, max_size=6),
    st.floats(0.05, 0.7),
)
def test_roundings_of_any_finite_ratio_are_ordered(pairs: list[tuple[float, float]], step: float) -> None:
    values, weights = np.array([y for y, _ in pairs]), np.array([w for _, w in pairs])
    weights /= weights.sum()
    mean = float(values @ weights)
    ratio = FiniteRatio(tuple(values / max(mean, 1.0)), tuple(weights))
    cells = math.ceil(max(ratio.ratios) / step) + 1
    above, below = spread(ratio, step, cells), contract(ratio, step, cells)
    for y in np.linspace(0.0, max(ratio.ratios) + step, 97):
        exact = ratio.tail(float(y))[1]
        assert premium(above, y) >= exact - 1e-12
        assert below is None or premium(below, y) <= exact + 1e-12
    assert below is None or abs(premium(below, 0.0) - ratio.tail(0.0)[1]) < 1e-12


def test_a_ratio_on_the_lattice_is_kept_as_it_is() -> None:
    ratio = FiniteRatio((0.5, 2.0), (2 / 3, 1 / 3))
    for law in (spread(ratio, 0.5, 4), contract(ratio, 0.5, 4)):
        assert law is not None
        found = {round(law.offset + x, 12): q for x, q in zip(law.grid, law.mass, strict=True) if q > 1e-15}
        assert found == pytest.approx({0.5: 2 / 3, 2.0: 1 / 3}, abs=1e-15)
