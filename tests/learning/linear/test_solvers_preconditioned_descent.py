"""Plans within their promise, a geometry that is round where the budget allows, and a descent that finds the optimum without noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Composed, Gaussian, Guarantee, Repeated
from tacit.learning.linear import solvers as preconditioned_descent
from tacit.learning.linear.solvers import COUNT_SHARE, Plan, descend, geometry, regressor_schedule, shrink
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


@settings(max_examples=20)
@given(
    epsilon=st.floats(0.05, 20),
    features=st.integers(1, 100),
    rows=st.one_of(st.none(), st.integers(1, 10**6)),
    adjacency=st.sampled_from([Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]),
)
def test_every_plan_keeps_its_promise_and_spends_it(epsilon: float, features: int, rows: int | None, adjacency: Adjacency) -> None:
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6)
    for make in (Plan.classifier, Plan.regressor):
        plan = make(guarantee, adjacency, features=features, rows=rows)
        assert 0.999 * epsilon < guarantee.typed_price(plan.event, adjacency).upper <= epsilon
        assert isinstance(plan.event, Composed)
        last = plan.event.events[-1]
        assert isinstance(last, Repeated) and isinstance(last.event, Gaussian)
        assert float(last.event.noise_multiplier) == pytest.approx(plan.step_multiplier) and last.count == plan.steps
        paid = sum(1 / float(e.noise_multiplier) ** 2 for e in plan.event.events[:-1] if isinstance(e, Gaussian))
        shares = plan.centre_share + plan.shape_share + (0 if rows is not None else COUNT_SHARE)
        assert paid == pytest.approx(shares * plan.mu**2)


@pytest.mark.parametrize("rows", [None, 3000])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_the_noise_that_is_drawn_is_the_noise_that_is_priced(rows: int | None, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release of a fit, in order, against the event; and each is told the relation of the promise."""
    drawn: list[float] = []

    def spied(function: Any) -> Any:
        def call(*arguments: Any, multiplier: float, adjacency: Adjacency, **others: Any) -> Any:
            drawn.append(multiplier)
            assert adjacency is Adjacency.ADD_REMOVE
            return function(*arguments, multiplier=multiplier, adjacency=adjacency, **others)

        return call

    for name in ("noisy_count", "noisy_sum", "noisy_second_moment", "noisy_outer_sum"):
        monkeypatch.setattr(preconditioned_descent, name, spied(getattr(preconditioned_descent, name)))
    guarantee, adjacency = Guarantee(epsilon=1, delta=1e-6), AR
    plan = getattr(Plan, kind)(guarantee, adjacency, features=2, rows=rows)
    U = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    space = geometry(U, plan, normalise=True)
    descend(U, lambda s: s, plan, space, regressor_schedule(plan, space), start=np.zeros(1), normalise=True)
    priced: list[float] = []
    for part in plan.event.events:
        priced += [float(part.event.noise_multiplier)] * part.count if isinstance(part, Repeated) else [float(part.noise_multiplier)]
    assert drawn == pytest.approx(priced, rel=1e-12)


def test_a_step_moves_by_noise_of_the_priced_size() -> None:
    """No people at all: what the model shows after one step is noise of multiplier times clip times reach, over the rows declared."""
    plan = Plan.regressor(Guarantee(epsilon=0.1, delta=1e-6), AR, features=1000, rows=100, steps=1)
    assert plan.shape_share == 0 == plan.centre_share
    with test_mode(4):
        space = geometry(np.zeros((0, 1000)), plan, normalise=False)
        schedule = regressor_schedule(plan, space)
        found = descend(np.zeros((0, 1000)), lambda s: s, plan, space, schedule, start=np.zeros(1), normalise=False)
    step = float(schedule.slope_steps[0]) / 100 / (0.5 * math.sqrt(1000))
    assert found.coef.std() == pytest.approx(plan.step_multiplier * 0.7 * math.sqrt(2) * step, rel=0.1)


def test_the_geometry_makes_rows_round() -> None:
    generator = np.random.default_rng(0)
    U = np.clip(0.3 + generator.normal(size=(20_000, 3)) @ np.array([[0.2, 0.1, 0.0], [0.0, 0.05, 0.0], [0.0, 0.0, 0.02]]), -1, 1)
    plan = Plan.classifier(Guarantee(epsilon=5, delta=1e-6), AR, features=3, rows=20_000)
    with test_mode(1):
        found = geometry(U, plan, normalise=False)
    rows = found.apply(U)
    values = np.linalg.eigvalsh(np.cov(rows.T))
    plain = np.linalg.eigvalsh(np.cov(U.T))
    assert plain.max() / plain.min() > 50 and values.max() / values.min() < 3
    assert np.abs(rows.mean(axis=0)).max() < 0.1
    assert 0.3 < np.median(np.linalg.norm(rows, axis=1)) < 1.2


def test_a_private_count_is_close_and_never_below_its_noise() -> None:
    plan = Plan.classifier(Guarantee(epsilon=1, delta=1e-6), AR, features=2, rows=None)
    with test_mode(2):
        many = geometry(np.zeros((5000, 2)), plan, normalise=True)
        none = geometry(np.zeros((0, 2)), plan, normalise=True)
    deviation = plan.multiplier(COUNT_SHARE)
    assert abs(many.rows - 5000) < 5 * deviation and none.rows >= deviation


def test_without_noise_a_least_squares_descent_ends_at_the_least_squares_fit() -> None:
    generator = np.random.default_rng(3)
    U = generator.uniform(-0.5, 0.5, size=(4000, 3))
    y = U @ np.array([0.5, -0.2, 0.1]) + 0.1 + generator.normal(size=4000) / 100
    plan = Plan.regressor(Guarantee(rho=1e9), AR, features=3, rows=4000, steps=30)
    with test_mode(1):
        space = geometry(U, plan, normalise=False)
        schedule = regressor_schedule(plan, space, decay=1.0)
        found = descend(U, lambda s: s - y[:, None], plan, space, schedule, start=np.zeros(1), normalise=False)
    exact = np.linalg.lstsq(np.hstack([U, np.ones((4000, 1))]), y, rcond=None)[0]
    assert np.append(found.coef[0], found.intercept) == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize("penalty", [1.0, 300.0, 1e7])
def test_without_noise_a_penalised_descent_ends_at_the_ridge_fit(penalty: float) -> None:
    """Any penalty, also one that would make an explicit step diverge; the intercept is not penalised."""
    generator = np.random.default_rng(4)
    U = generator.choice([-0.4, 0.4], size=(2000, 3))  # rows of one length: none is weighted down
    y = U @ np.array([0.5, -0.2, 0.1]) + 0.1 + generator.normal(size=2000) / 100
    plan = Plan.regressor(Guarantee(rho=1e9), AR, features=3, rows=2000, steps=40)
    with test_mode(1):
        space = geometry(U, plan, normalise=False)
        schedule = regressor_schedule(plan, space, decay=1.0)
        found = descend(U, lambda s: s - y[:, None], plan, space, schedule, start=np.zeros(1), normalise=False, penalty=penalty)
    joined = np.hstack([U, np.ones((2000, 1))])
    exact = np.linalg.solve(joined.T @ joined + np.diag([penalty] * 3 + [0.0]), joined.T @ y)
    assert np.append(found.coef[0], found.intercept) == pytest.approx(exact, abs=2e-3)


def test_with_few_people_a_classifier_takes_one_step_with_all_of_the_budget() -> None:
    guarantee, adjacency = Guarantee(epsilon=0.1, delta=1e-5), AR
    few, more = (Plan.classifier(guarantee, adjacency, features=13, rows=rows) for rows in (142, 455))
    assert (few.steps, few.centre_share, few.shape_share, few.descent_share) == (1, 0, 0, 1) and more.steps == 12
    assert few.step_multiplier == pytest.approx(1 / guarantee.gaussian_mu, rel=1e-6)


@given(st.integers(1, 50), st.floats(0.01, 10))
def test_shrinking_never_lengthens_and_vanishes_in_noise(dimension: int, deviation: float) -> None:
    estimate = np.full(dimension, deviation)
    assert np.abs(shrink(estimate, deviation)).max() < 1e-9  # its energy is exactly what noise alone has
    assert np.linalg.norm(shrink(10 * estimate, deviation)) == pytest.approx(0.99 * 10 * deviation * math.sqrt(dimension))
    assert shrink(np.zeros(dimension), deviation).tolist() == [0.0] * dimension
