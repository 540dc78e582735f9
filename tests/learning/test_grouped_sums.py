"""Tables of sums: right without noise, never moved farther than the price says, and with the noise that is priced."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.accounting import Adjacency
from tacit.learning.grouped_sums import _totals, farthest_table, noisy_table
from tacit.noise import test_mode

BOTH = [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]
ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-2, 2))


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
    total, width, views = _totals(rows[:2], cells[:2], 2, 1.0, counts)
    without = _totals(rows[1:2], cells[1:2], 2, 1.0, counts)[0]
    exchanged = _totals(rows[1:], cells[1:], 2, 1.0, counts)[0]
    for other, adjacency in ((without, Adjacency.ADD_REMOVE), (exchanged, Adjacency.REPLACE_ONE)):
        moved = [int(x) for x in (total - other).ravel()]
        assert sum(x * x for x in moved) <= (farthest_table(views, adjacency, counts=counts) * width) ** 2


def test_the_sensitivity_of_one_view_would_be_too_small_for_two() -> None:
    """The mutant forgets that a person is in every view: the same person moves two views by more than one row's length."""
    total, width, _ = _totals(np.ones((1, 1)), np.zeros((1, 2), dtype=np.int64), 1, 1.0, True)
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
