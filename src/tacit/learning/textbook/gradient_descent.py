"""Noisy gradient descent as in the textbook: full batch, projected, averaged; its privacy rests on clipping alone.

Each step adds Gaussian noise to the sum of clipped per-person gradients and projects onto the constraint set. No convexity or smoothness
is needed for privacy; for convex Lipschitz losses the average of the iterates has the optimal excess risk.

>>> round(book_multiplier(100, 1.0, 1e-5), 4)
50.0258
>>> plan = GradientDescent.plan(Guarantee(epsilon=1, delta=1e-5), Adjacency.ADD_REMOVE, L2Ball(10), clip=1.0, rows=1000, steps=100)
>>> round(plan.multiplier, 4)
37.3063
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee, ParameterError, Repeated
from tacit.learning.textbook.sets import ConstraintSet, L2Ball
from tacit.mechanisms import farthest, noisy_sum
from tacit.parameters import count, positive

Array = NDArray[np.float64]
#: The gradient of every person's loss at a point: one row for each person.
Gradients = Callable[[Array], Array]
MOST_STEPS = 2000

__all__ = ["GradientDescent", "Gradients", "L2Ball", "book_multiplier", "excess_bound", "final_excess_bound", "step_length"]


def book_multiplier(steps: int, epsilon: float, delta: float) -> float:
    """Theorem 6.10: sqrt(2 T (ln(1/delta) + epsilon)) / epsilon. Valid at every epsilon, and 1.3 to 1.45 times what is needed."""
    return math.sqrt(2 * count("steps", steps) * (math.log(1 / delta) + epsilon)) / epsilon


def excess_bound(rows: int, dimension: int, steps: int, clip: float, diameter: float, multiplier: float) -> float:
    """Expected excess of the summed convex loss at the best fixed step: L |C| sqrt((n^2 + p lambda^2) / T); (6.47) with any multiplier.

    >>> round(excess_bound(1000, 10, 100_000, 1.0, 2.0, book_multiplier(100_000, 1.0, 1e-6)), 3)
    35.003
    """
    return clip * diameter * math.sqrt((rows**2 + dimension * multiplier**2) / steps)


def final_excess_bound(dimension: int, clip: float, diameter: float, epsilon: float, delta: float) -> float:
    """(6.48): the same at T = n^2 epsilon^2 / p.

    >>> round(final_excess_bound(10, 1.0, 2.0, 1.0, 1e-6), 3)
    42.165
    """
    return clip * diameter * math.sqrt(3 * dimension * (math.log(1 / delta) + epsilon)) / epsilon


def step_length(rows: int, dimension: int, steps: int, clip: float, diameter: float, multiplier: float) -> float:
    """The best fixed step for the bound: |C| / (L sqrt(T (n^2 + p lambda^2))).

    >>> f"{step_length(1000, 10, 100_000, 1.0, 2.0, book_multiplier(100_000, 1.0, 1e-6)):.4e}"
    '1.1427e-06'
    """
    return diameter / (clip * math.sqrt(steps * (rows**2 + dimension * multiplier**2)))


@dataclass(frozen=True)
class GradientDescent:
    """A plan: steps, noise, step length and event, fixed before the data is touched.

    Guarantee
        Statement: the whole path costs Repeated(Gaussian(multiplier), steps).
        Conditions: none on the loss; every gradient is clipped to length `clip`.
        Proved in: Bassily, Smith, Thakurta 2014; Theorem 6.10, here with the exact price of Gaussian noise instead of its bound.
        Correction: the noise is N(0, sigma^2 I); the average is over the points at which gradients were taken, as the regret argument
        needs.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    constraint: ConstraintSet
    clip: float
    steps: int
    multiplier: float
    length: float
    event: Event

    @classmethod
    def plan(
        cls,
        guarantee: Guarantee,
        adjacency: Adjacency,
        constraint: ConstraintSet,
        *,
        clip: float,
        rows: int,
        steps: int | None = None,
        length: float | None = None,
        book_calibration: bool = False,
    ) -> GradientDescent:
        """The least noise for so many steps; without `steps`, n^2 mu^2 / p of them, at most 2000. `rows` is a public number.

        `book_calibration` uses the closed form of Theorem 6.10 instead of the exact price.
        """
        bound, n = float(positive("clip", clip)), count("rows", rows)
        theory = min(MOST_STEPS, round((n * guarantee.gaussian_mu) ** 2 / constraint.dimension))
        chosen = max(1, theory) if steps is None else count("steps", steps)
        if book_calibration:
            if guarantee.floats.epsilon is None or not guarantee.floats.delta:
                raise ParameterError("book_calibration needs epsilon and a positive delta")
            multiplier = book_multiplier(chosen, guarantee.floats.epsilon, guarantee.floats.delta)
            event: Event = Repeated(Gaussian(multiplier, adjacency=adjacency), chosen)
        else:
            event, mu = guarantee.settle(lambda mu: Repeated(Gaussian(math.sqrt(chosen) / mu, adjacency=adjacency), chosen), adjacency)
            multiplier = math.sqrt(chosen) / mu
        if length is None:
            width = constraint.diameter(2)
            if not math.isfinite(width):
                raise ParameterError("length is missing: an unbounded set has no best step; give length=, or a bounded set")
            length = step_length(n, constraint.dimension, chosen, bound, width, farthest(multiplier, adjacency))
        return cls(guarantee, adjacency, constraint, bound, chosen, multiplier, float(length), event)

    def run(self, gradients: Gradients, start: Array | None = None) -> Array:
        """The average of the points at which gradients were taken; the whole path is private, so any of it could be published."""
        theta = self.constraint.project(np.zeros(self.constraint.dimension) if start is None else np.asarray(start, dtype=np.float64))
        total = np.zeros_like(theta)
        for _ in range(self.steps):
            total = total + theta
            noisy = noisy_sum(gradients(theta), bound=self.clip, multiplier=self.multiplier, adjacency=self.adjacency)
            theta = self.constraint.project(theta - self.length * noisy)
        return total / self.steps
