"""Sums over people: the integer sensitivity is a fact about integers, the noise has the variance it is priced for, nothing raises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.accounting import Adjacency
from tacit.mechanisms import (
    FactorRows,
    bits_for,
    clip_rows,
    farthest_moment,
    farthest_table,
    noisy_count,
    noisy_l1_sum,
    noisy_outer_sum,
    noisy_second_moment,
    noisy_sum,
    noisy_table,
    row_sums,
    to_lattice,
)
from tacit.mechanisms.row_sums import moment_span, table_totals
from tacit.noise import test_mode

ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-3, 3))


@given(rows=arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=ANY), bound=st.floats(1e-3, 1e3))
def test_no_row_is_longer_than_the_bound_as_whole_numbers(rows: np.ndarray, bound: float) -> None:
    whole, width = to_lattice(rows, bound)
    for row in whole.tolist():
        assert sum(x * x for x in row) <= width * width  # exact: Python integers


def test_the_rounding_to_nearest_would_be_too_long() -> None:
    """The mutant: rounding to the nearest granule instead of towards zero, without the margin, lengthens a row."""
    rows = np.full((1, 50), 1 / math.sqrt(50))
    _, width = to_lattice(rows, 1.0)
    nearest = np.rint(rows * width).astype(object)
    assert (nearest * nearest).sum() > width * width
    assert (to_lattice(rows, 1.0)[0].astype(object) ** 2).sum() <= width * width


def test_nothing_about_the_values_raises() -> None:
    rows = np.array([[np.nan, np.inf], [-np.inf, 1e308], [5e-324, 0.0]])
    for function in (noisy_sum, noisy_l1_sum, noisy_second_moment):
        assert np.isfinite(function(rows, bound=1.0, multiplier=1.0, adjacency=Adjacency.ADD_REMOVE)).all()
        assert np.isfinite(function(rows[:0], bound=1.0, multiplier=1.0, adjacency=Adjacency.REPLACE_ONE)).all()
    assert np.isfinite(clip_rows(rows, 1.0)).all()


def test_sums_equal_plain_sums_of_clipped_rows_up_to_the_lattice() -> None:
    generator = np.random.default_rng(0)
    rows, other = generator.normal(size=(40, 3)), generator.normal(size=(40, 2))
    clipped = rows * np.minimum(1, 1 / np.linalg.norm(rows, axis=1, keepdims=True))
    quiet = {"multiplier": 1e-9, "adjacency": Adjacency.ADD_REMOVE}
    room = 40 * 2.0**-22
    assert noisy_sum(rows, bound=1.0, **quiet) == pytest.approx(clipped.sum(axis=0), abs=room)
    assert noisy_second_moment(rows, bound=1.0, **quiet) == pytest.approx(clipped.T @ clipped, abs=40 * 2.0**-15)
    shrunk = rows / np.maximum(1, np.abs(rows).sum(axis=1, keepdims=True))
    assert noisy_l1_sum(rows, bound=1.0, **quiet) == pytest.approx(shrunk.sum(axis=0), abs=room)
    left, right = FactorRows.of(rows, 10.0), FactorRows.of(other, 10.0)
    assert noisy_outer_sum(left, right, **quiet) == pytest.approx(rows.T @ other, abs=40 * 10 * 2.0**-15)


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).normal(size=(57, 4))
    with test_mode(1):
        whole = noisy_second_moment(rows, bound=2.0, multiplier=3.0, adjacency=Adjacency.ADD_REMOVE)
    monkeypatch.setattr(row_sums, "CELLS", 50)
    monkeypatch.setattr(row_sums, "FACTOR_BLOCK", 10)
    with test_mode(1):
        assert noisy_second_moment(rows, bound=2.0, multiplier=3.0, adjacency=Adjacency.ADD_REMOVE) == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_noise_has_the_variance_that_is_priced(adjacency: Adjacency) -> None:
    """Gaussian and Laplace, entry by entry; exchanging a person needs twice the noise. 20,000 draws: 4 sigma of a variance are 4 %."""
    d, multiplier, bound = 20_000, 3.0, 2.0
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    empty = np.zeros((1, d))
    with test_mode(5):
        gaussian = noisy_sum(empty, bound=bound, multiplier=multiplier, adjacency=adjacency)
        laplace = noisy_l1_sum(empty, bound=bound, multiplier=multiplier, adjacency=adjacency)
        square = noisy_second_moment(np.zeros((1, 200)), bound=bound, multiplier=multiplier, adjacency=adjacency)
    assert gaussian.var() == pytest.approx((factor * multiplier * bound) ** 2, rel=0.05)
    assert laplace.var() == pytest.approx(2 * (factor * multiplier * bound) ** 2, rel=0.1)
    beside = square[np.triu_indices(200, 1)]
    exchanged = 2 if adjacency is Adjacency.REPLACE_ONE else 1  # in the square: orthogonal rows are sqrt(2) apart, never opposite
    assert beside.var() == pytest.approx(exchanged * (multiplier * bound**2) ** 2 / 2, rel=0.05)
    assert np.allclose(square, square.T)


def lattice_moment(row: np.ndarray, bound: float) -> list[list[int]]:
    """What one person adds to the integer matrix, in Python's integers."""
    whole = [int(value) for value in FactorRows.of(row[None], bound).values[0]]
    return [[one * other for other in whole] for one in whole]


def frobenius_square(left: list[list[int]], right: list[list[int]] | None = None) -> int:
    other = right or [[0] * len(left)] * len(left)
    return sum((a - b) ** 2 for one, two in zip(left, other, strict=True) for a, b in zip(one, two, strict=True))


@given(
    rows=arrays(np.float64, st.tuples(st.just(2), st.integers(1, 7)), elements=ANY),
    bound=st.floats(1e-2, 1e2),
)
def test_two_exchanged_moments_are_within_the_span(rows: np.ndarray, bound: float) -> None:
    left, right = (lattice_moment(row, bound) for row in rows)
    assert frobenius_square(left, right) <= moment_span(Adjacency.REPLACE_ONE) ** 2
    assert frobenius_square(left) <= moment_span(Adjacency.ADD_REMOVE) ** 2


@given(rows=arrays(np.float64, st.tuples(st.just(3), st.integers(1, 5)), elements=ANY), bound=st.floats(1e-2, 1e2))
def test_one_person_moves_a_sum_of_products_by_at_most_its_span(rows: np.ndarray, bound: float) -> None:
    """The integers that get noise, with and without the last person; the factors are whole, and no longer than 2^16."""
    left, right = FactorRows.of(rows[:, :1], 1.0), FactorRows.of(rows, bound)
    assert (right.values == np.rint(right.values)).all()
    with_all, without = row_sums._products(left, right), row_sums._products(
        FactorRows.of(rows[:2, :1], 1.0), FactorRows.of(rows[:2], bound))
    assert sum(int(x) ** 2 for x in (with_all - without).ravel()) <= 1 << 64


def test_sums_of_products_are_exact_at_the_largest_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full block of the largest factors adds up below 2^53, so no float rounds: against integers. Twice the bits would not do."""
    ones = FactorRows(np.full((1 << 12, 1), 65535.0), 1.0)
    odd = FactorRows(np.where(np.arange(1 << 12) % 2, 65535.0, 65534.0)[:, None], 1.0)
    exact = sum(65535 * (65535 if i % 2 else 65534) for i in range(1 << 12))
    assert int(row_sums._products(ones, odd)[0, 0]) == exact
    assert row_sums.FACTOR_BLOCK * (1 << 2 * row_sums.FACTOR_BITS) <= 1 << 53 < row_sums.FACTOR_BLOCK * (1 << 4 * row_sums.FACTOR_BITS)
    monkeypatch.setattr(row_sums, "FACTOR_BLOCK", 100)
    assert int(row_sums._products(ones, odd)[0, 0]) == exact


def test_orthogonal_rows_reach_the_span_and_the_smaller_one_would_not_hold() -> None:
    """Brute force over pairs: nothing beyond sqrt(2), orthogonal rows at sqrt(2), so the noise of adding one person is too little (the
    mutant), and that of a sum of arbitrary vectors, twice, more than is needed."""
    left, right = (lattice_moment(row, 1.0) for row in np.eye(3)[:2])
    apart = math.sqrt(frobenius_square(left, right))
    assert apart > moment_span(Adjacency.ADD_REMOVE)
    assert 0.9999 < apart / moment_span(Adjacency.REPLACE_ONE) <= 1
    assert farthest_moment(2.0, Adjacency.REPLACE_ONE) == pytest.approx(4 * math.sqrt(2))
    assert farthest_moment(2.0, Adjacency.ADD_REMOVE) == 4
    around = [np.array([math.cos(angle), math.sin(angle)]) for angle in np.linspace(0, math.pi, 181)]
    lengths = [np.linalg.norm(np.outer(around[0], around[0]) - np.outer(y, y)) for y in around]
    assert max(lengths) == pytest.approx(math.sqrt(2)) and int(np.argmax(lengths)) == 90


def test_the_count_is_noisy_only_where_it_is_private() -> None:
    assert noisy_count(12, multiplier=100.0, adjacency=Adjacency.REPLACE_ONE) == 12
    with test_mode(1):
        drawn = [noisy_count(1000, multiplier=5.0, adjacency=Adjacency.ADD_REMOVE) for _ in range(400)]
    assert np.mean(drawn) == pytest.approx(1000, abs=1.25) and np.std(drawn) == pytest.approx(5, rel=0.2)
    assert min(noisy_count(0, multiplier=5.0, adjacency=Adjacency.ADD_REMOVE) for _ in range(10)) >= 1


@given(st.integers(1, 10**7))
def test_squared_lengths_fit_into_a_word(dimension: int) -> None:
    assert dimension * (1 << 2 * bits_for(dimension)) < 1 << 63


# ---- tables: sums by cell ---------------------------------------------------------------------------------------

BOTH = [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]


def test_sums_are_those_of_a_loop() -> None:
    generator = np.random.default_rng(0)
    rows, cells = generator.uniform(-0.5, 0.5, (40, 2)), generator.integers(-1, 4, (40, 3))
    with test_mode(1):
        found = noisy_table(rows, cells, size=3, bound=1.0, multiplier=1e-6, adjacency=Adjacency.ADD_REMOVE)
    expected = np.zeros((3, 3, 2))
    for row, places in zip(rows, cells, strict=True):
        for view, cell in enumerate(places):
            if 0 <= cell < 3:
                expected[view, cell] += row
    assert found == pytest.approx(expected, abs=40 * 2**-23 + 1e-4)


@given(
    rows=arrays(np.float64, (3, 2), elements=ANY),
    cells=arrays(np.int64, (3, 3), elements=st.integers(-1, 2)),
    counts=st.booleans(),
)
def test_one_person_moves_the_table_by_at_most_the_sensitivity(rows: np.ndarray, cells: np.ndarray, counts: bool) -> None:
    """In exact integers: without the first person, and with the first exchanged for the last."""
    total, width, views = table_totals(rows[:2], cells[:2], 2, 1.0, counts)
    without = table_totals(rows[1:2], cells[1:2], 2, 1.0, counts)[0]
    exchanged = table_totals(rows[1:], cells[1:], 2, 1.0, counts)[0]
    for other, adjacency in ((without, Adjacency.ADD_REMOVE), (exchanged, Adjacency.REPLACE_ONE)):
        moved = [int(x) for x in (total - other).ravel()]
        assert sum(x * x for x in moved) <= (farthest_table(views, adjacency, counts=counts) * width) ** 2


def test_the_sensitivity_of_one_view_would_be_too_small_for_two() -> None:
    """The mutant forgets that a person is in every view: the same person moves two views by more than one row's length."""
    total, width, _ = table_totals(np.ones((1, 1)), np.zeros((1, 2), dtype=np.int64), 1, 1.0, True)
    moved = math.sqrt(sum(int(x) ** 2 for x in total.ravel()))
    assert moved > 1.4 * float(farthest_table(1, Adjacency.ADD_REMOVE)) * width
    assert moved <= float(farthest_table(2, Adjacency.ADD_REMOVE)) * width


@pytest.mark.parametrize("adjacency", BOTH, ids=lambda a: a.name)
@pytest.mark.parametrize("laplace", [False, True], ids=["gaussian", "laplace"])
def test_the_noise_is_what_is_priced(adjacency: Adjacency, laplace: bool) -> None:
    """2,000 cells, 2 views: the variance is within 5 of its own deviations of the textbook's; half the noise would be caught."""
    empty, cells = np.zeros((0, 1)), np.zeros((0, 2), dtype=np.int64)
    with test_mode(4):
        found = noisy_table(empty, cells, size=1000, bound=3.0, multiplier=2.0, adjacency=adjacency, laplace=laplace)
    far = {(False, 0): math.sqrt(2), (False, 1): 2 * math.sqrt(2), (True, 0): 2.0, (True, 1): 4.0}[laplace, BOTH.index(adjacency)]
    deviation = 3.0 * 2.0 * far * (math.sqrt(2) if laplace else 1)
    kurtosis = 6 if laplace else 3
    error = 5 * math.sqrt((kurtosis - 1) / 2000)
    ratio = float((found**2).mean()) / deviation**2
    assert abs(ratio - 1) < error < 0.3
    assert abs(ratio / 4 - 1) > error


def test_laplace_noise_wants_rows_of_one_number() -> None:
    with pytest.raises(ValueError, match="one number"):
        noisy_table(
            np.zeros((1, 2)), np.zeros((1, 1), dtype=np.int64), size=1, bound=1, multiplier=1, adjacency=BOTH[0], laplace=True
        )  # fmt: skip
