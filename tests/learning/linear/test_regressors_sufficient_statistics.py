"""One noisy matrix: the least-squares fit without noise, the noise it is priced for, and stability where noise is all there is."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.learning.linear import regressors as sufficient_statistics
from tacit.learning.linear.regressors import MomentPlan
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


def test_without_noise_it_is_least_squares() -> None:
    generator = np.random.default_rng(0)
    U = generator.uniform(-1, 1, size=(300, 3))
    y = np.clip(U @ np.array([0.4, -0.3, 0.0]) + 0.1 + generator.normal(size=300) / 20, -1, 1)
    exact = np.linalg.lstsq(np.hstack([U, np.ones((300, 1))]), y, rcond=None)[0]
    with test_mode(1):
        found = MomentPlan.make(Guarantee(rho=1e10), AR, 3).run(U, y)
    assert np.append(found.coef[0], found.intercept) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_where_noise_is_all_there_is_the_fit_stays_small(rows: int) -> None:
    with test_mode(2):
        fits = [MomentPlan.make(Guarantee(epsilon=0.1, delta=1e-6), AR, 5).run(np.zeros((rows, 5)), np.zeros(rows)) for _ in range(30)]
    assert np.isfinite([f.coef for f in fits]).all()
    assert np.median([np.abs(f.coef).max() for f in fits]) < 2, "noise over noise, not noise over nothing"


def test_the_noise_that_is_drawn_is_the_noise_that_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    real = sufficient_statistics.noisy_second_moment
    monkeypatch.setattr(sufficient_statistics, "noisy_second_moment", lambda rows, **told: drawn.append(told) or real(rows, **told))
    plan = MomentPlan.make(Guarantee(epsilon=1, delta=1e-6), AR, 2)
    plan.run(np.zeros((3, 2)), np.zeros(3))
    assert drawn == [{"bound": 1.0, "multiplier": plan.multiplier, "adjacency": plan.adjacency}]


def test_one_release_costs_one_gaussian() -> None:
    guarantee, adjacency = Guarantee(epsilon=1, delta=1e-6), Adjacency.REPLACE_ONE
    plan = MomentPlan.make(guarantee, adjacency, 4)
    assert float(plan.event.noise_multiplier) == plan.multiplier  # type: ignore[attr-defined]
    assert 0.9999 < guarantee.typed_price(plan.event, adjacency).upper <= 1
