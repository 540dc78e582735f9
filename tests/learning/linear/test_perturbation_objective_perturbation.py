"""Objective perturbation: the tail of its privacy loss, the exact pure ratio in one dimension, plans, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, rayleigh

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.linear.losses import huber, logistic, smoothed_hinge
from tacit.learning.linear.perturbation import DISTANCE, ObjectivePerturbation, least_ridge, tail
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


@given(epsilon=st.floats(0.05, 10), mu=st.floats(0.01, 2), determinant=st.floats(0, 2))
def test_the_tail_is_that_of_the_bound_on_the_loss(epsilon: float, mu: float, determinant: float) -> None:
    one = (epsilon - determinant - mu**2 / 2) / mu
    two = (epsilon - determinant - 2 * mu**2) / (2 * mu)
    assert tail(epsilon, mu, determinant, Adjacency.ADD_REMOVE) == pytest.approx(min(1.0, 2 * norm.sf(one)) if one > 0 else 1.0)
    assert tail(epsilon, mu, determinant, Adjacency.REPLACE_ONE) == pytest.approx(rayleigh.sf(two) if two > 0 else 1.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_exact_minimisers_density_ratio_stays_within_epsilon(epsilon: float) -> None:
    """One dimension, pure: log density is that of the tilt plus the log of the second derivative, for any two neighbouring data sets."""
    plan = ObjectivePerturbation.plan(Guarantee(epsilon=epsilon, delta=0), AR, logistic, 1, ridge=None)
    assert plan.ridge >= least_ridge(0.98 * epsilon, 0.25)
    generator = np.random.default_rng(1)
    theta = np.linspace(-60, 60, 6001)
    worst = 0.0
    for _ in range(20):
        rows, y = generator.uniform(-1, 1, size=4), generator.integers(0, 2, size=4).astype(float)

        def log_density(count: int, rows: np.ndarray = rows, y: np.ndarray = y) -> np.ndarray:
            s = theta[:, None] * rows[None, :count]
            slope = (rows[:count] * (1 / (1 + np.exp(-s)) - y[:count])).sum(axis=1) + plan.ridge * theta
            bend = (rows[:count] ** 2 / (4 * np.cosh(s / 2) ** 2)).sum(axis=1) + plan.ridge
            return np.asarray(-np.abs(slope) / plan.scale + np.log(bend))

        worst = max(worst, float(np.abs(log_density(4) - log_density(3)).max()))
    assert 0.3 * epsilon < worst <= 0.98 * epsilon


def test_a_smaller_ridge_would_break_the_ratio() -> None:
    """The mutant: the determinant of a tenth of the least ridge alone costs more than its half of epsilon."""
    ridge = least_ridge(1.0, 0.25)
    assert math.log1p(0.25 / ridge) == pytest.approx(0.5)
    assert math.log1p(0.25 / (ridge / 10)) > 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("loss", [logistic, huber(0.5), smoothed_hinge(0.5)], ids=lambda loss: loss.name)
def test_plans_keep_their_promise(loss: object, adjacency: Adjacency, delta: float) -> None:
    guarantee = Guarantee(epsilon=2, delta=delta)
    plan = ObjectivePerturbation.plan(guarantee, adjacency, loss, 5)  # type: ignore[arg-type]
    assert 1.95 < guarantee.typed_price(plan.event, adjacency).upper <= 2
    assert plan.output_scale > 2 * DISTANCE * math.sqrt(5) / 0.04, "the distance to the exact minimiser is paid for"
    if delta:
        determinant = loss.rank * math.log1p(loss.curvature / plan.ridge)  # type: ignore[attr-defined]
        assert tail(0.98 * 2, loss.slope / plan.scale, determinant, adjacency) <= delta  # type: ignore[attr-defined]
        # the mutant that forgets the determinant overspends where it is not negligible
        assert determinant > 0


def test_with_much_data_it_finds_the_minimum() -> None:
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(20_000, 2)) / 3
    y = (generator.random(20_000) < 1 / (1 + np.exp(-(rows @ np.array([3.0, -2.0]))))).astype(float)
    with test_mode(1):
        found = ObjectivePerturbation.plan(Guarantee(epsilon=1, delta=1e-6), AR, logistic, 2).run(rows, y)
    assert found == pytest.approx([3.0, -2.0], abs=0.35)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_people_the_model_is_the_tilt_over_the_ridge(delta: float) -> None:
    plan = ObjectivePerturbation.plan(Guarantee(epsilon=1, delta=delta), AR, logistic, 2000)
    with test_mode(3):
        found = plan.run(np.zeros((0, 2000)), np.zeros(0))
    deviation = plan.scale * (math.sqrt(2) if delta == 0 else 1) / plan.ridge
    assert found.std() == pytest.approx(deviation, rel=0.1)


def test_rho_is_refused() -> None:
    with pytest.raises(ParameterError, match="rho"):
        ObjectivePerturbation.plan(Guarantee(rho=1), AR, logistic, 2)
