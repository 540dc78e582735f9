"""Private Frank-Wolfe: walk towards corners of the l1 ball, each chosen by the exponential mechanism.

A step needs only the best corner, not the gradient. So noise enters through a choice among 2 p candidates,
and the error grows with the logarithm of the dimension only: use it for sparse models of many features. Two
corrections to the textbook: the loss is a *sum*, so scores move by L1 |C|_1 whatever n (the printed scale is
n times too small, and breaks privacy); and the step is 2/(t+2), since a constant step 1/T leaves 1/e of the
initial error.

>>> plan = FrankWolfe.plan(Guarantee(epsilon=1, delta=1e-6), Adjacency.ADD_REMOVE, L1Ball(200), gradient_bound=2.0, steps=40)
>>> round(plan.step_epsilon, 4), plan.sensitivity
(0.0698, 2.0)
>>> round(laplace_scale(2.0, 252, 1.0, 1e-6), 1)  # the textbook's, without its division by n, for comparison
333.8
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ZCDP, Adjacency, Event, Exponential, Guarantee, ParameterError, Repeated, zcdp_rho
from tacit.learning.textbook.sets import L1Ball
from tacit.mechanisms import bits_for
from tacit.noise import choose
from tacit.parameters import count, positive

Array = NDArray[np.float64]
Gradients = Callable[[Array], Array]
ROWS = 1 << 13  # people summed at a time


def laplace_scale(sensitivity: float, steps: int, epsilon: float, delta: float) -> float:
    """Theorem 6.21's Laplace scale for a summed loss: sensitivity * sqrt(8 T ln(1/delta)) / epsilon. A noisy minimum of scores that can
    move either way needs twice that; the exponential mechanism used here needs neither."""
    return sensitivity * math.sqrt(8 * steps * math.log(1 / delta)) / epsilon


def theory_steps(curvature: float, rows: int, epsilon: float, sensitivity: float) -> int:
    """Theorem 6.22: Gamma^(2/3) (n epsilon)^(2/3) / (L1 |C|_1)^(2/3); longer than pays in practice.

    >>> theory_steps(4.0, 2000, 1.0, 2.0) - 1  # rounded up
    251
    """
    return max(1, math.ceil(math.pow(curvature * rows * epsilon / sensitivity, 2 / 3)))


def steps_for(rows: int, epsilon: float) -> int:
    """How many steps to take: 0.1 (n epsilon)^0.6, found by simulation to balance the noise of a step with their number.

    >>> steps_for(2000, 1.0), steps_for(20_000, 1.0)
    (10, 38)
    """
    return max(3, round(0.1 * math.pow(count("rows", rows) * float(positive("epsilon", epsilon)), 0.6)))


@dataclass(frozen=True)
class FrankWolfe:
    """A plan on the l1 ball: steps, epsilon of each choice, and the event.

    Guarantee
        Statement: each choice has bounded range `step_epsilon`, hence costs step_epsilon^2/8 zCDP; the steps compose.
        Conditions: every coordinate of a person's gradient is cut to `gradient_bound`, as whole numbers.
        Proved in: Talwar, Thakurta, Zhang 2015; Dong, Durfee, Rogers 2020 for the range; Bun and Steinke 2016 for the composition. Adding a
        person moves each score by at most sensitivity = gradient_bound * radius, up or down: a range of twice that.
        Correction: Algorithm 6 divides the scale by n (E1) and prices a noisy minimum at half its cost; its step 1/(T+2) does not converge
        (E3).
    """

    guarantee: Guarantee
    adjacency: Adjacency
    ball: L1Ball
    gradient_bound: float
    steps: int
    step_epsilon: float
    event: Event

    @classmethod
    def plan(cls, guarantee: Guarantee, adjacency: Adjacency, ball: L1Ball, *, gradient_bound: float, steps: int) -> FrankWolfe:
        """The most decisive choices that keep the guarantee."""
        turns, bound = count("steps", steps), float(positive("gradient_bound", gradient_bound))
        if guarantee.pure:
            assert guarantee.floats.epsilon is not None
            each = guarantee.floats.epsilon / turns * (1 - 1e-9)
            return cls(guarantee, adjacency, ball, bound, turns, each, Repeated(Exponential(each, adjacency=adjacency), turns))
        if guarantee.floats.mu is not None:
            raise ParameterError("choices by the exponential mechanism are priced in epsilon or rho, not in mu; give epsilon or rho")
        if guarantee.floats.rho is None:
            assert guarantee.floats.epsilon is not None and guarantee.floats.delta is not None
            total = zcdp_rho(guarantee.floats.epsilon, guarantee.floats.delta)
        else:
            total = guarantee.floats.rho
        total *= 1 - 1e-9
        event: Event = Repeated(ZCDP(total / turns, adjacency=adjacency), turns)
        while not guarantee.keeps(event, adjacency):
            total *= 1 - 1e-6
            event = Repeated(ZCDP(total / turns, adjacency=adjacency), turns)
        return cls(guarantee, adjacency, ball, bound, turns, math.sqrt(8 * total / turns) * (1 - 1e-12), event)

    @property
    def sensitivity(self) -> float:
        """How far adding a person moves the score of a corner; it does not depend on the number of people."""
        return self.gradient_bound * self.ball.radius

    def scores(self, gradients: Array) -> NDArray[np.int64]:
        """The scores of all corners, in granules: the inner products with the summed gradient, plus corners before minus corners."""
        width, total = float(1 << bits_for(1)), np.zeros(self.ball.dimension, dtype=np.int64)
        for start in range(0, len(gradients), ROWS):
            block = gradients[start : start + ROWS] * (width / self.gradient_bound)
            np.nan_to_num(block, copy=False, nan=0.0, posinf=width, neginf=-width)
            # whole numbers of at most 24 bits: so few of them add up in floating point without rounding
            total += np.trunc(np.clip(block, -width, width, out=block), out=block).sum(axis=0).astype(np.int64)
        return np.concatenate([total, -total])

    def run(self, gradients: Gradients, start: Array | None = None) -> Array:
        """The last point; it is a mixture of at most `steps` corners, so at most that many coordinates are not zero."""
        width = 1 << bits_for(1)
        pairs = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        # weights exp(-step_epsilon score / (2 sensitivity)): scores that move by up to `width` granules either way have a range of 2 width
        rate = Fraction(self.step_epsilon) / (2 * pairs * width)
        theta = np.zeros(self.ball.dimension) if start is None else np.asarray(start, dtype=np.float64)
        for t in range(self.steps):
            corner = choose(-self.scores(gradients(theta)), multiplier=rate)
            target = np.zeros(self.ball.dimension)
            target[corner % self.ball.dimension] = self.ball.radius * (1 if corner < self.ball.dimension else -1)
            theta = theta + 2 / (t + 2) * (target - theta)
        return theta
