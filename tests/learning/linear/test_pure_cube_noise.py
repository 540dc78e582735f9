"""Cube noise: its law against brute force, its deviation, and that a person moves a sum of the box no farther than is priced."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare

from tacit.accounting import Adjacency
from tacit.learning.linear import pure as module
from tacit.learning.linear.pure import box_lattice, box_scale, cube_noise, deviation, noisy_box_sum
from tacit.noise import geometric, test_mode


@pytest.mark.parametrize("d", [1, 2, 5])
def test_kept_sums_of_geometric_variables_have_the_law_of_the_radius(d: int) -> None:
    """In fractions: the law of the sum times the chance to be kept, over (2r + 1)^d, is the same for every r."""
    ratios = set()
    for r in range(30):
        kept = math.prod((Fraction(2 * r + 1, 2 * (r + j)) for j in range(1, d + 1)), start=Fraction(1))
        assert 0 < kept <= 1
        ratios.add(math.comb(r + d, d) * kept / (2 * r + 1) ** d)
    assert ratios == {Fraction(1, 2**d * math.factorial(d))}


def fits(drawn: np.ndarray, scale: float) -> float:
    """The p-value of a chi-squared test of the pairs |x|, |y| up to 4, and the rest, against the law summed by brute force."""
    grid = np.arange(-60, 61)
    weight = np.exp(-np.maximum(np.abs(grid)[:, None], np.abs(grid)[None, :]) / scale)
    weight /= weight.sum()
    sizes = np.abs(grid)
    cells = list(itertools.product(range(5), range(5)))
    expected = [weight[np.ix_(sizes == a, sizes == b)].sum() for a, b in cells]
    seen = [int(((np.abs(drawn[:, 0]) == a) & (np.abs(drawn[:, 1]) == b)).sum()) for a, b in cells]
    n = len(drawn)
    return float(chisquare([*seen, n - sum(seen)], np.array([*expected, 1 - sum(expected)]) * n).pvalue)


def test_the_law_in_two_dimensions() -> None:
    with test_mode(5):
        drawn = np.array([cube_noise(2, 2) for _ in range(3000)])
        # the mutant: every sum of geometric variables is kept
        radii = geometric(2, (3000, 3)).sum(axis=1)
        mutant = np.array([np.random.default_rng(i).integers(-r, r + 1, 2) for i, r in enumerate(radii.tolist())])
    assert fits(drawn, 2.0) > 1e-3
    assert fits(mutant, 2.0) < 1e-9


@pytest.mark.parametrize("d", [1, 3, 30])
def test_the_deviation_is_that_of_the_law(d: int) -> None:
    scale = 2000.0
    r = np.arange(int(scale * (d + 1 + 40 * math.sqrt(d + 1))), dtype=np.float64)
    logs = d * np.log(2 * r + 1) - r / scale
    law = np.exp(logs - logs.max())
    variance = float((law / law.sum()) @ (r * (r + 1) / 3))
    assert math.sqrt(variance) / scale == pytest.approx(deviation(d), rel=1e-3)


def test_a_scale_beyond_machine_integers_and_a_draw_of_the_right_size() -> None:
    with test_mode(2):
        huge = cube_noise(10**30, 3)
        many = cube_noise(1 << 24, 4000) / (1 << 24)
    assert max(abs(value) for value in huge.tolist()) > 10**28
    # uniform in a cube whose half side is Gamma(4001): 4001 +- 63
    assert many.std() == pytest.approx(deviation(4000), rel=0.1) and abs(many).max() < 4001 + 8 * 64


row = arrays(np.float64, 3, elements=st.floats(allow_nan=True, allow_infinity=True, width=64))


@given(row, row)
def test_one_person_moves_the_integers_by_no_more_than_is_priced(one: np.ndarray, other: np.ndarray) -> None:
    a, b = box_lattice(one[None])[0], box_lattice(other[None])[0]
    assert np.abs(a).max() <= float(box_scale(1.0, Adjacency.ADD_REMOVE)) == 1 << 24
    assert np.abs(a - b).max() <= float(box_scale(1.0, Adjacency.REPLACE_ONE)) == 1 << 25


def test_the_price_is_reached_by_the_corner_and_broken_by_half_the_noise() -> None:
    """The largest ratio of the laws around two neighbouring sums, by enumeration: exp(epsilon) exactly; the mutant has half the scale."""
    shift, epsilon = np.array([2, -2]), 0.7
    points = np.array(list(itertools.product(range(-9, 10), repeat=2)))
    change = np.abs(points).max(axis=1) - np.abs(points - shift).max(axis=1)
    assert np.abs(change).max() / (2 / epsilon) == pytest.approx(epsilon)
    assert np.abs(change).max() / (1 / epsilon) > epsilon


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], ids=str)
def test_the_sum_and_the_noise_that_is_drawn(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    scales = []

    def none(scale: Fraction, dimension: int) -> np.ndarray:
        scales.append(scale)
        return np.zeros(dimension, dtype=np.int64)

    monkeypatch.setattr(module, "cube_noise", none)
    found = noisy_box_sum(np.array([[0.5, 9.0], [0.25, -0.5], [np.nan, np.inf]]), epsilon=0.25, adjacency=adjacency)
    assert found.tolist() == [0.75, 1.5]
    assert scales == [(4 if adjacency is Adjacency.ADD_REMOVE else 8) * (1 << 24)]
