"""The rate card: its table by hand, hard instances of the stated length, and a non-private solver that is caught."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.learning.textbook.descent import GradientDescent
from tacit.learning.textbook.rates import RateCard, hard_instance, linear_excess, too_good_to_be_private
from tacit.learning.textbook.sets import L2Ball
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


def test_the_table() -> None:
    card = RateCard.of(dimension=64, rows=10**5, epsilon=0.5, delta=1e-8, strength=0.1)
    logs = 8 * math.log(10)
    assert card.convex == pytest.approx(8 * math.sqrt(logs) / 0.5) and card.lower == 16
    assert card.strongly_convex == pytest.approx(64 * logs / (1e5 * 0.1 * 0.25))
    assert card.population == pytest.approx(1 / math.sqrt(1e5) + 8 * math.sqrt(logs) / (0.5e5))
    pure = RateCard.of(dimension=64, rows=10**5, epsilon=0.5)
    assert pure.convex == 128 == pure.lower and RateCard.of(dimension=64, rows=50, epsilon=0.5).lower == 50


@pytest.mark.parametrize(("rows", "dimension", "epsilon", "pure"), [(1000, 16, 0.1, False), (101, 9, 1.0, False), (500, 10, 0.5, True)])
def test_hard_instances_are_on_the_cube_with_a_sum_of_the_stated_length(rows: int, dimension: int, epsilon: float, pure: bool) -> None:
    points = hard_instance(rows, dimension, epsilon, pure=pure)
    assert points.shape == (rows, dimension) and np.allclose(np.abs(points), 1 / math.sqrt(dimension))
    aim = min(rows, (dimension if pure else math.sqrt(dimension)) / epsilon)
    assert abs(np.linalg.norm(points.sum(axis=0)) - aim) <= 1.5


def test_a_solver_without_noise_is_caught_and_a_private_one_is_not() -> None:
    p, n, epsilon, delta = 20, 400, 0.5, 1e-6
    honest = GradientDescent.plan(Guarantee(epsilon=epsilon, delta=delta), AR, L2Ball(p), clip=1.0, rows=n, steps=30)
    exact = GradientDescent.plan(Guarantee(rho=1e14), AR, L2Ball(p), clip=1.0, rows=n, steps=30, length=1.0)
    with test_mode(7):
        excess: dict[str, list[float]] = {"honest": [], "exact": []}
        for _ in range(5):
            points = hard_instance(n, p, epsilon)
            for name, plan in (("honest", honest), ("exact", exact)):
                theta = plan.run(lambda at, points=points: -points)  # type: ignore[misc]
                # the average starts at 0, so compare the last direction
                excess[name].append(linear_excess(points, theta / max(float(np.linalg.norm(theta)), 1e-12)))
    known = {"dimension": p, "rows": n, "epsilon": epsilon, "delta": delta}
    assert not too_good_to_be_private(excess["honest"], **known)  # type: ignore[arg-type]
    assert too_good_to_be_private(excess["exact"], **known)  # type: ignore[arg-type]
