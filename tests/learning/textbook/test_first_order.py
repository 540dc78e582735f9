"""More first-order methods: priced as they draw, at their rates without noise, and within what noise allows with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning import (
    Box,
    FollowTheLeader,
    L1Ball,
    L2Ball,
    NoisySteps,
    SupportSelection,
    cutting_planes,
    frank_wolfe,
    mirror_descent,
    online_to_batch,
)
from tacit.learning.textbook import first_order
from tacit.learning.textbook.first_order import UNITS, lowest
from tacit.noise import test_mode

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
QUIET = Guarantee(rho=1e12)
ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-2, 2))


def quadratic(points: np.ndarray) -> Any:
    """Gradients of |theta - point|^2 / 2 for every person."""
    return lambda theta: theta - points


@pytest.mark.parametrize("method", [frank_wolfe, mirror_descent, cutting_planes])
def test_what_is_drawn_is_what_is_priced(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []
    real = first_order.noisy_sum

    def spied(rows: np.ndarray, **told: Any) -> np.ndarray:
        drawn.append(told["multiplier"])
        assert told["bound"] == 2.0 and told["adjacency"] is AR
        return real(rows, **told)

    monkeypatch.setattr(first_order, "noisy_sum", spied)
    guarantee = Guarantee(epsilon=1, delta=1e-6)
    plan = NoisySteps.plan(guarantee, AR, clip=2.0, steps=7)
    last = {frank_wolfe: L2Ball(2), cutting_planes: L2Ball(2)}.get(method)
    method(plan, quadratic(np.ones((5, 2))), *([last] if last else [2, 0.1]))
    assert drawn == [plan.multiplier] * 7 and guarantee.keeps(plan.event, AR)


@given(arrays(np.float64, 3, elements=st.floats(-5, 5)))
def test_the_lowest_point_is_the_lowest_of_all(direction: np.ndarray) -> None:
    """Against corners and many points of each set."""
    around = np.random.default_rng(0).normal(size=(200, 3))
    for area in (L2Ball(3, radius=2.0), L1Ball(3, radius=2.0), Box(3, -1.0, 2.5)):
        found = lowest(area, direction)
        assert area.contains(found)
        assert found @ direction <= min(float(area.project(3 * point) @ direction) for point in around) + 1e-9


@pytest.mark.parametrize("area", [L2Ball(3), L1Ball(3), Box(3, -0.5, 0.5)])
@pytest.mark.parametrize("steps", [20, 200])
def test_frank_wolfe_without_noise_keeps_its_rate(area: Any, steps: int) -> None:
    """Excess of the mean loss at most 2 Gamma / (T + 2), Gamma the squared diameter for this loss; a constant step (Algorithm 5 as
    printed) leaves a part of the way."""
    point = np.array([0.9, -0.2, 0.4])
    plan = NoisySteps.plan(QUIET, AR, clip=10.0, steps=steps)
    theta, best = frank_wolfe(plan, quadratic(point[None]), area), area.project(point)
    excess = (np.sum((theta - point) ** 2) - np.sum((best - point) ** 2)) / 2
    assert area.contains(theta) and excess <= 2 * area.diameter(2) ** 2 / (steps + 2) + 1e-4


def test_mirror_descent_without_noise_keeps_its_bound() -> None:
    """Linear losses on the simplex: the excess of the mean is at most ln p / (length T) + length G^2 / 2."""
    costs = np.array([0.3, -0.5, 0.1, 0.8])
    for steps, length in ((50, 0.2), (400, 0.1)):
        plan = NoisySteps.plan(QUIET, AR, clip=2.0, steps=steps)
        shares = mirror_descent(plan, lambda theta: costs[None], 4, length)
        assert shares.sum() == pytest.approx(1) and shares.min() >= 0
        assert float(costs @ shares) - costs.min() <= math.log(4) / (length * steps) + length * 0.8**2 / 2


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_cutting_planes_without_noise_halve_their_way(dimension: int) -> None:
    """After T steps the volume is at most exp(-T / (2 (p + 1))) of the ball's, so the distance to the optimum of |theta - point| falls
    as its p-th root, times the condition of the ellipsoid; 40 p^2 steps are enough for a thousandth."""
    point = np.array([0.5, -0.3, 0.2])[:dimension]
    plan = NoisySteps.plan(QUIET, AR, clip=5.0, steps=40 * dimension**2)
    assert cutting_planes(plan, quadratic(point[None]), L2Ball(dimension)) == pytest.approx(point, abs=2e-3)


@pytest.mark.parametrize("method", ["frank-wolfe", "cutting planes"])
def test_with_noise_the_optimum_is_found_within_its_noise(method: str) -> None:
    """The mean of 4,000 points at epsilon 1: within .1; the mutant, points of the opposite sign, is 1 away."""
    points = 0.5 + np.random.default_rng(1).normal(0, 0.1, (4000, 2))
    plan = NoisySteps.plan(Guarantee(epsilon=1, delta=1e-6), AR, clip=1.5, steps=30)
    with test_mode(3):
        area = L2Ball(2)
        theta = (frank_wolfe if method == "frank-wolfe" else cutting_planes)(plan, quadratic(points), area)
    assert np.linalg.norm(theta - 0.5) < 0.1 < np.linalg.norm(theta + 0.5)


def test_online_to_batch_excess_is_at_most_the_regret() -> None:
    """Convex losses: the loss of the mean point is at most the mean of the losses along the way (6.50), against the best fixed point."""
    people = np.random.default_rng(2).uniform(-1, 1, (64, 2)) + np.array([0.5, 0.0])
    leader = FollowTheLeader.plan(QUIET, L2Ball(2), n=64, clip=3.0, ridge=8.0)
    seen: list[np.ndarray] = []

    def gradient(point: np.ndarray) -> Any:
        def at(theta: np.ndarray) -> np.ndarray:
            seen.append(theta)
            return theta - point

        return at

    mean = online_to_batch(leader, [gradient(point) for point in people])
    best = L2Ball(2).project(people.mean(axis=0))
    regret = sum(np.sum((t - p) ** 2) - np.sum((best - p) ** 2) for t, p in zip(seen, people, strict=True)) / 2
    excess = sum(np.sum((mean - p) ** 2) - np.sum((best - p) ** 2) for p in people) / 2
    assert mean == pytest.approx(np.mean(seen, axis=0), abs=1e-6) and excess <= regret + 1e-6
    private = FollowTheLeader.plan(Guarantee(epsilon=1, delta=1e-6), L2Ball(2), n=3, clip=1, ridge=1)
    assert np.isfinite(online_to_batch(private, [None] * 9)).all()


@given(X=arrays(np.float64, (4, 3), elements=ANY), y=arrays(np.float64, 4, elements=ANY))
def test_a_person_moves_the_scores_of_a_support_by_at_most_the_units(X: np.ndarray, y: np.ndarray) -> None:
    moved = SupportSelection.scores(X, y) - SupportSelection.scores(X[:3], y[:3])
    assert np.abs(moved).max() <= UNITS


def test_a_support_is_found_where_features_are_apart() -> None:
    """Three of forty features, independent signs: all found at epsilon 1 with 4,000 people; none of the other labels' are."""
    generator = np.random.default_rng(5)
    X = generator.choice([-1.0, 1.0], (4000, 40))
    y = np.clip((X[:, 3] + X[:, 17] - X[:, 30]) / 3 + generator.normal(0, 0.1, 4000), -1, 1)
    for relation in (AR, RO):
        plan = SupportSelection.plan(Guarantee(epsilon=1, delta=0), relation, size=3)
        with test_mode(1):
            assert sorted(plan.run(X, y)) == [3, 17, 30]
    assert Guarantee(epsilon=1, delta=0).keeps(plan.event, RO)
    with pytest.raises(ParameterError, match="at most the number of features"):
        plan.run(X[:, :2], y)
