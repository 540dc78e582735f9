"""Attacks on two convex solvers from samples of their outputs: below the claim, and sabotaged variants above it.

The worst case for a sum of clipped gradients: all the others cancel, one person pushes one way at the clip. The attacker sees the released
model, projected on that person's direction and binned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.attacks.attack import Draw, lower_bound

from tacit.accounting import Adjacency, Guarantee, account
from tacit.learning.linear.losses import squared
from tacit.learning.linear.perturbation import OutputPerturbation
from tacit.learning.textbook.descent import GradientDescent
from tacit.learning.textbook.sets import Everything

AR = Adjacency.ADD_REMOVE

EPSILON, DELTA, N = 1.0, 0.05, 500


def descent(multiplier_factor: float, gradients: np.ndarray, steps: int = 2) -> Draw:
    """The last of two noisy steps carries both noises and twice the signal; the average of the points is half of the first step."""
    plan = GradientDescent.plan(Guarantee(epsilon=EPSILON, delta=DELTA), AR, Everything(1), clip=1.0, rows=3, steps=steps, length=1.0)
    plan = replace(plan, multiplier=plan.multiplier * multiplier_factor)

    def run(n: int) -> list[int]:
        return [int(np.floor(4 * plan.run(lambda theta: gradients)[0])) for _ in range(n)]

    return run


def test_descent_leaks_no_more_than_claimed_and_less_noise_is_caught() -> None:
    """Only the first of two steps shows in the average of the points, so the attack sees part of the price."""
    without, with_one = np.zeros((0, 1)), np.array([[-5.0]])  # far beyond the clip
    found = lower_bound(descent(1.0, without), descent(1.0, with_one), N, delta=DELTA)
    assert 0 <= found <= EPSILON
    assert lower_bound(descent(0.2, without), descent(0.2, with_one), N, delta=DELTA) > EPSILON


def test_a_gradient_that_is_not_clipped_is_caught() -> None:
    class Unclipped(GradientDescent):
        def run(self, gradients: object, start: object = None) -> np.ndarray:
            wide = replace(GradientDescent(**self.__dict__), clip=100.0, multiplier=self.multiplier / 100)
            return wide.run(gradients)  # type: ignore[arg-type]

    plan = GradientDescent.plan(Guarantee(epsilon=EPSILON, delta=DELTA), AR, Everything(1), clip=1.0, rows=3, steps=2, length=1.0)
    broken = Unclipped(**plan.__dict__)

    def draws(gradients: np.ndarray) -> Draw:
        return lambda n: [int(np.floor(4 * broken.run(lambda theta: gradients)[0])) for _ in range(n)]

    assert lower_bound(draws(np.zeros((0, 1))), draws(np.array([[-5.0]])), 300, delta=DELTA) > EPSILON


def output(factor: float, rows: np.ndarray, labels: np.ndarray) -> Draw:
    plan = OutputPerturbation.plan(Guarantee(epsilon=EPSILON, delta=DELTA), AR, squared(1.0), 1, ridge=1.0)
    plan = replace(plan, scale=plan.scale * factor)

    def run(n: int) -> list[int]:
        return [int(np.floor(3 * plan.run(rows, labels)[0])) for _ in range(n)]

    return run


def test_output_perturbation_leaks_no_more_than_claimed_and_the_mean_losss_sensitivity_is_caught() -> None:
    """The mutant divides the sensitivity by four rows, as if the loss were a mean."""
    rows, labels = np.array([[0.01], [0.01], [0.01], [1.0]]), np.array([0.0, 0.0, 0.0, 1e6])
    for factor, caught in ((1.0, False), (1 / 4, True)):
        found = lower_bound(output(factor, rows[:3], labels[:3]), output(factor, rows, labels), N, delta=DELTA)
        assert (found > EPSILON) == caught
    plan = OutputPerturbation.plan(Guarantee(epsilon=EPSILON, delta=DELTA), AR, squared(1.0), 1, ridge=1.0)
    assert account(plan.event).epsilon(DELTA).upper <= EPSILON
