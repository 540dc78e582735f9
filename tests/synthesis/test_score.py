"""Scores: whole granules that one row moves by at most one row's granules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.noise import test_mode as seeded
from tacit.synthesis.estimate import NoisyMarginal, fit
from tacit.synthesis.score import distances, model_counts


def test_a_row_moves_a_distance_by_at_most_one_row() -> None:
    draws = np.random.default_rng(0)
    worst = 0
    for _ in range(300):
        counts = draws.integers(0, 5, (3, 4))
        expected = draws.normal(2, 2, (3, 4))
        more = counts.copy()
        more.flat[draws.integers(12)] += 1
        before, after = (distances([c], [expected], granules=64)[0] for c in (counts, more))
        worst = max(worst, abs(int(after) - int(before)))
    assert worst == 64


def test_distances_equal_the_plain_sum() -> None:
    counts, expected = np.array([[3, 0], [5, 2]]), np.array([[2.5, 0.25], [6.0, 2.0]])
    assert distances([counts], [expected], granules=4).tolist() == [4 * 1.75]


def test_the_model_is_counted_on_its_own_rows() -> None:
    table = np.array([[50.0, 10.0], [0.0, 40.0]])
    model = fit((2, 2), [NoisyMarginal((0, 1), table, 1.0)], steps=2000)
    with seeded(2):
        both, first = model_counts(model, [(0, 1), (0,)])
    assert np.abs(both - table).max() <= 1
    assert np.abs(first - [60, 40]).max() <= 1


def test_many_rows_are_counted_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 rows in parts of 32: as many as the model estimates, with its table; none at all where it estimates none."""
    table = np.array([[50.0, 10.0], [0.0, 40.0]])
    model = fit((2, 2), [NoisyMarginal((0, 1), table, 1.0)], steps=2000)
    monkeypatch.setattr("tacit.synthesis.score.TOGETHER", 32)
    with seeded(2):
        both, first = model_counts(model, [(0, 1), (0,)])
        (none,) = model_counts(replace(model, total=0.0), [(0, 1)])
    assert both.sum() == first.sum() == 100 and none.tolist() == [[0, 0], [0, 0]]
    assert np.abs(both - table).max() <= 4  # a row for each of four parts: their shares are rounded one by one


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wide", [1e17, 1e19, 1e300, np.inf, np.nan])
def test_no_expectation_makes_a_distance_overflow(wide: float) -> None:
    """At a tiny price what noise makes one expect can lie beyond 64 bits; a row then moved the distance by 2^64."""
    expected = np.array([[wide, -1.0], [2.0, wide]])
    before, after = (int(distances([np.array(c)], [expected], granules=64)[0]) for c in ([[0, 0], [3, 1]], [[1, 0], [3, 1]]))
    assert before > 0 and abs(after - before) == 64
