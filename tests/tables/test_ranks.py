"""Ladders: the decoder inverts the encoder, sensitivities are the matrices' own, quantiles lie in their intervals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import laplace as laplace_law

from tacit.accounting.strategies import FINE
from tacit.mechanisms import half_width
from tacit.tables.ranks import CellLadder, cells_for, ladder_for, quantile

SIZES = [2, 4, 16, 32, 64, 256]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("cells", SIZES)
def test_running_totals_come_back(cells: int, law: str) -> None:
    ladder = CellLadder(Fraction(0), Fraction(1), cells)
    counts = np.random.default_rng(cells).integers(0, 1000, cells)
    released = ladder.encoder(law) @ counts
    np.testing.assert_allclose(ladder.totals.decoder(law) @ released, np.cumsum(counts), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("cells", SIZES)
def test_sensitivities_are_those_of_the_columns(cells: int) -> None:
    ladder = CellLadder(Fraction(0), Fraction(1), cells)
    columns = ladder.encoder("gaussian").T.tolist()
    assert ladder.totals.square() == max(sum(v * v for v in column) for column in columns)
    assert ladder.totals.absolute() == max(sum(abs(v) for v in column) for column in ladder.encoder("laplace").T.tolist())
    assert (ladder.encoder("gaussian") >= 0).all()  # exchanged rows rely on one sign


def test_the_square_root_is_better_than_counting_cells() -> None:
    """The error of a running total in units of the noise multiplier: about 1 + log(n)/pi, where plain counts have sqrt(n/2)."""
    ladder = CellLadder(Fraction(0), Fraction(1), 256)
    error = ladder.error("gaussian") * np.sqrt(ladder.totals.square())
    assert error < 1 + np.log(256) / np.pi + 0.1 < np.sqrt(256 / 2)
    terms = [float(np.prod([(2 * j - 1) / (2 * j) for j in range(1, k + 1)])) for k in range(256)]
    assert ladder.totals.square() / FINE**2 == pytest.approx(sum(term**2 for term in terms), rel=1e-3)


def test_widths_are_exact_or_safe() -> None:
    draw = np.random.default_rng(5)
    assert half_width([2.0], "laplace", 0.95)[0] == pytest.approx(2 * laplace_law.ppf(0.975))
    for weights in ([1.0, 1.0], [3.0, 1.0, 0.5], [1.0] * 30):
        sums = np.abs(draw.laplace(size=(200_000, len(weights))) @ np.array(weights))
        width = half_width(weights, "laplace", 0.95)[0]
        assert (sums > width).mean() < 0.05
        assert width < 2.2 * np.quantile(sums, 0.95)


def test_cells_follow_the_number_of_groups() -> None:
    assert [cells_for(groups) for groups in (1, 1024, 1025, 10**6, 10**7)] == [1024, 1024, 512, 2, 2]


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_without_noise_the_quantile_is_in_its_cell(q: float) -> None:
    ladder = CellLadder(Fraction(0), Fraction(64), 64)
    rows = np.random.default_rng(3).uniform(5, 50, 4000)
    counts = np.histogram(rows, ladder.edges)[0]
    for law in ("gaussian", "laplace"):
        value, low, high = quantile(ladder, (ladder.encoder(law) @ counts)[None, :].astype(float), 1e-9, law, q, 0.95)
        true = np.quantile(rows, q)
        assert low[0] <= true <= high[0]
        # Rounding to whole numbers is 2^-16 of a row for the square root, and half a row for each of a tree's nodes.
        assert law == "laplace" or (abs(value[0] - true) <= 1.5 and high[0] - low[0] <= 3)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.75, 1.0])
def test_whole_numbers_have_a_cell_each(q: float, law: str) -> None:
    """Without noise the interval is a number or two; numpy's quantile, which interpolates between rows, lies in it."""
    ladder = ladder_for(Fraction(-3), Fraction(40), 1, whole=True)
    assert (ladder.cells, ladder.used) == (64, 44)
    for seed in range(20):
        rows = np.random.default_rng(seed).integers(-3, 41, 50 + seed)
        counts = np.bincount(rows + 3, minlength=64)
        released = (ladder.encoder(law) @ counts)[None, :].astype(float)
        value, low, high = (float(part[0]) for part in quantile(ladder, released, 1e-9, law, q, 0.95))
        assert low <= np.quantile(rows, q) <= high and low == int(low) and high == int(high) and low <= value <= high
        if q in (0.0, 1.0) and law == "gaussian":  # a tree's nodes are rounded to half a row each, which may hide a single one
            assert value == (rows.min() if q == 0 else rows.max())


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("q", [0.0, 0.5, 0.9, 1.0])
def test_intervals_of_whole_numbers_keep_their_confidence(q: float, law: str) -> None:
    """400 draws at 80%: a right interval fails more than 110 times with a chance below 1e-4, and the seed is fixed."""
    ladder, draw = ladder_for(Fraction(0), Fraction(20), 1, whole=True), np.random.default_rng(8)
    rows = draw.binomial(20, 0.4, 900)
    released = (ladder.encoder(law) @ np.bincount(rows, minlength=ladder.cells)).astype(float)
    scale = 25.0 * (FINE if law == "gaussian" else 1)
    noise = draw.normal(0, scale, (400, len(released))) if law == "gaussian" else draw.laplace(0, scale, (400, len(released)))
    _, low, high = quantile(ladder, released + noise, scale, law, q, 0.8)
    missed = int(((np.quantile(rows, q) < low) | (np.quantile(rows, q) > high)).sum())
    assert missed <= 110
    assert (high - low).mean() < 20  # and it says something


def test_other_columns_and_wide_ones_keep_equal_cells() -> None:
    assert ladder_for(Fraction(0), Fraction(2000), 1, whole=True) == CellLadder(Fraction(0), Fraction(2000), 1024)
    assert ladder_for(Fraction(0), Fraction(100), 10**5, whole=True) == CellLadder(Fraction(0), Fraction(100), 8)
    assert ladder_for(Fraction(1, 2), Fraction(9), 1, whole=True).whole is None
    assert ladder_for(Fraction(7), Fraction(7), 1, whole=True).cells == 2
