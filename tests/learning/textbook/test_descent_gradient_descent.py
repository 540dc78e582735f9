"""Textbook descent: the step on a quadratic by hand, clipping enforced, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.textbook.descent import GradientDescent
from tacit.learning.textbook.sets import Everything, L2Ball
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


def test_without_noise_it_is_projected_descent_with_the_average_of_the_points_visited() -> None:
    targets = np.array([[0.9, 0.0], [0.7, 0.2]])
    plan = GradientDescent.plan(Guarantee(rho=1e16), AR, L2Ball(2, 0.5), clip=5.0, rows=2, steps=4, length=0.25)
    theta, total = np.zeros(2), np.zeros(2)
    for _ in range(4):
        total += theta
        theta = theta - 0.25 * (2 * theta - targets.sum(axis=0))
        theta *= min(1, 0.5 / max(np.linalg.norm(theta), 1e-12))
    with test_mode(1):
        assert plan.run(lambda at: at - targets) == pytest.approx(total / 4, abs=1e-5)


def test_a_wild_gradient_counts_for_its_clip() -> None:
    plan = GradientDescent.plan(Guarantee(rho=1e16), AR, Everything(1), clip=1.0, rows=1, steps=2, length=1.0)
    with test_mode(1):
        assert plan.run(lambda at: np.array([[1e300]])) == pytest.approx([-0.5], abs=1e-5)


def test_refusals() -> None:
    guarantee, adjacency = Guarantee(epsilon=1, delta=1e-6), AR
    with pytest.raises(ParameterError, match="length"):
        GradientDescent.plan(guarantee, adjacency, Everything(2), clip=1.0, rows=10, steps=2)
    with pytest.raises(ParameterError, match="book_calibration"):
        GradientDescent.plan(Guarantee(rho=1), AR, L2Ball(2), clip=1.0, rows=10, steps=2, book_calibration=True)
    assert GradientDescent.plan(guarantee, adjacency, L2Ball(2), clip=1.0, rows=10**6).steps == 2000
