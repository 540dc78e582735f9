"""The exponential mechanism on a grid: its law against the closed form, its range against brute force, its draws against its law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.textbook.exponential_erm import GRANULES, ExponentialERM
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE

GRID = np.linspace(-1, 1, 9)[:, None]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=9, max_size=9))
def test_one_persons_scores_never_spread_by_more_than_the_width(values: list[float]) -> None:
    plan = ExponentialERM(Guarantee(epsilon=1, delta=0), AR, GRID, lipschitz=1.0)
    scores = plan.scores(np.array([values]))
    assert scores.min() >= 0 and scores.max() <= GRANULES


def test_draws_follow_the_law() -> None:
    """Chi-square of 3000 draws against exp(-c L) on the grid, at level 1e-6; and against the mutant with half the exponent."""
    plan = ExponentialERM(Guarantee(epsilon=3, delta=0), AR, GRID, lipschitz=1.0)
    data = np.array([0.5, 0.5, -0.25])
    total = np.abs(data[:, None] - GRID[:, 0]).sum(axis=0)
    with test_mode(3):
        drawn = np.array([plan.run(lambda grid: np.abs(data[:, None] - grid[:, 0]))[0] for _ in range(3000)])
    counts = np.array([(drawn == point).sum() for point in GRID[:, 0]])

    def statistic(c: float) -> float:
        law = np.exp(-c * total) / np.exp(-c * total).sum()
        return float(((counts - 3000 * law) ** 2 / (3000 * law)).sum())

    assert statistic(plan.exponent) < 43 < statistic(plan.exponent / 2)  # 43: the 1e-6 quantile of 8 degrees of freedom


def test_refusals() -> None:
    with pytest.raises(ParameterError):
        ExponentialERM(Guarantee(epsilon=1, delta=0), AR, np.zeros(3), lipschitz=1.0)
    with pytest.raises(ParameterError):
        ExponentialERM(Guarantee(rho=1), AR, GRID, lipschitz=1.0)
