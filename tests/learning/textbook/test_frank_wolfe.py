"""Frank-Wolfe: the law of a choice against the exponential mechanism's, sparse points of the ball, pure and zCDP promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee, account
from tacit.learning.textbook.frank_wolfe import FrankWolfe
from tacit.learning.textbook.sets import L1Ball
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


@pytest.mark.parametrize("guarantee", [Guarantee(epsilon=1), Guarantee(epsilon=1, delta=1e-6), Guarantee(rho=0.1)], ids=str)
def test_plans_keep_their_guarantee(guarantee: Guarantee) -> None:
    plan = FrankWolfe.plan(guarantee, AR, L1Ball(5), gradient_bound=1.0, steps=7)
    assert guarantee.keeps(plan.event, AR)
    total = 7 * plan.step_epsilon if guarantee.pure else 7 * plan.step_epsilon**2 / 8
    if guarantee.floats.rho is not None:
        assert total == pytest.approx(guarantee.floats.rho, rel=1e-6)
    elif guarantee.pure:
        assert total == pytest.approx(1, rel=1e-6)
    else:
        assert account(plan.event).epsilon(1e-6).upper > 0.999


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_first_corner_has_the_exponential_mechanisms_law(adjacency: Adjacency) -> None:
    """Chi-square of 3000 first steps against exp(-eps0 score / (2 sensitivity)), at 1e-6; exchanging a person halves the exponent."""
    plan = FrankWolfe.plan(Guarantee(epsilon=4, delta=0), adjacency, L1Ball(2, 3.0), gradient_bound=0.5, steps=1)
    gradients = np.array([[0.5, -0.2], [0.1, 0.3]])
    scores = 3.0 * np.concatenate([gradients.sum(axis=0), -gradients.sum(axis=0)])
    rate = plan.step_epsilon / (2 * plan.sensitivity) / (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    law = np.exp(-rate * scores) / np.exp(-rate * scores).sum()
    with test_mode(2):
        ends = [plan.run(lambda theta: gradients) for _ in range(3000)]
    corners = np.array([[3, 0], [0, 3], [-3, 0], [0, -3]])
    counts = np.array([sum(np.array_equal(end, corner) for end in ends) for corner in corners])
    assert counts.sum() == 3000
    assert ((counts - 3000 * law) ** 2 / (3000 * law)).sum() < 30.7  # 1e-6 at 3 degrees of freedom


def test_points_stay_in_the_ball_and_are_sparse() -> None:
    plan = FrankWolfe.plan(Guarantee(epsilon=1, delta=1e-6), AR, L1Ball(300, 2.0), gradient_bound=1.0, steps=9)
    with test_mode(1):
        theta = plan.run(lambda at: np.full((4, 300), math.nan))
    assert L1Ball(300, 2.0).contains(theta) and (theta != 0).sum() <= 9
