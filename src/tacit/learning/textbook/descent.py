"""Noisy gradient descent as in the textbook: on all rows, or on batches in three scenarios.

`GradientDescent` uses all rows, `StochasticDescent` batches of them. Each step adds noise to the sum of
clipped per-person gradients and projects onto the constraint set. Privacy rests on clipping alone; no
convexity or smoothness is needed. For convex Lipschitz losses the average of the points has the optimal
excess risk.

>>> from tacit.learning.textbook.sets import L2Ball
>>> round(book_multiplier(100, 1.0, 1e-5), 4)
50.0258
>>> plan = GradientDescent.plan(Guarantee(epsilon=1, delta=1e-5), Adjacency.ADD_REMOVE, L2Ball(10), clip=1.0, rows=1000, steps=100)
>>> round(plan.multiplier, 4)
37.3063
>>> plan = StochasticDescent.plan("pure", size=1000, batch=100, steps=100, clip=0.5, epsilon=1.0)
>>> round(plan.noise, 10)  # on the mean gradient: as the closed form says
0.1044210404
>>> StochasticDescent.plan("poisson", size=1000, batch=100, steps=100, clip=1.0, epsilon=1.0, delta=1e-5).noise < 0.0427761139
True

The scenarios of stochastic descent, each with the sampler that its price is for:

1. "pure": batches without replacement, gradients clipped in l1, Laplace noise; epsilon-DP when one person is replaced.
2. "full-batch": every step uses all people, clipped in l2, Gaussian noise; concentrated DP when one person is
   replaced.
3. "poisson": each person joins a batch with probability batch/size, clipped in l2, Gaussian noise; when one
   person is added or removed. The divisor is the expected batch, fixed and public: the size of the batch that
   was drawn is private.

The object that samples is the object that is priced. `tacit.accounting.theorems.dpsgd` has the same scenarios as closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import (
    Adjacency,
    Event,
    Gaussian,
    Guarantee,
    Laplace,
    ParameterError,
    Poisson,
    Repeated,
    Sampled,
    WithoutReplacement,
    calibrate,
    pure_without_replacement,
)
from tacit.learning.textbook.sets import ConstraintSet
from tacit.mechanisms import farthest, noisy_l1_sum, noisy_sum
from tacit.noise import bernoulli, permutation
from tacit.parameters import count, positive

Array = NDArray[np.float64]
#: The gradient of every person's loss at a point: one row for each person.
Gradients = Callable[[Array], Array]
#: The same for the people with these indices.
BatchGradients = Callable[[Array, NDArray[np.int64]], Array]
Scenario = Literal["pure", "full-batch", "poisson"]
MOST_STEPS = 2000


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
        cls, guarantee: Guarantee, adjacency: Adjacency, constraint: ConstraintSet, *, clip: float,
        rows: int, steps: int | None = None, length: float | None = None, book_calibration: bool = False,
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


@dataclass(frozen=True)
class StochasticDescent:
    """A plan: the scenario, its noise multiplier, and the event.

    Guarantee
        Statement: the whole path costs `event`, under the relation that the scenario names.
        Conditions: none on the loss; gradients are clipped as whole numbers.
        Proved in: Balle, Barthe, Gaboardi 2018 (sampling without replacement); Steinke 2022, section 3 (concentrated and Rényi); the
        accountant prices the third scenario exactly. Corrections to the slides' recipes: see `tacit.accounting.theorems.dpsgd`.
    """

    scenario: Scenario
    size: int
    batch: int
    steps: int
    clip: float
    multiplier: float
    event: Event

    @classmethod
    def plan(
        cls, scenario: Scenario, *, size: int, steps: int, clip: float, epsilon: float, delta: float = 0.0, batch: int | None = None
    ) -> StochasticDescent:
        """The least noise for so many steps. `size` is public; the first scenario needs no delta, the others do."""
        n, t, bound = count("size", size), count("steps", steps), float(positive("clip", clip))
        m = n if batch is None or scenario == "full-batch" else count("batch", batch)
        if m > n:
            raise ParameterError(f"batch must be at most size ({n}), not {m}")
        if scenario == "pure":
            recipe = pure_without_replacement(size=n, batch=m, steps=t, clip=bound, epsilon=epsilon)
            guarantee, adjacency = Guarantee(epsilon=epsilon).positive(), Adjacency.REPLACE_ONE
            multiplier, step = recipe.noise * m / (2 * bound), 1e-13
            while not guarantee.keeps(_event(scenario, n, m, t, multiplier), adjacency):
                multiplier, step = multiplier * (1 + step), 2 * step
        elif scenario == "full-batch":
            guarantee, adjacency = Guarantee(epsilon=epsilon, delta=delta).positive(), Adjacency.REPLACE_ONE
            _, mu = guarantee.settle(lambda mu: _event(scenario, n, m, t, math.sqrt(t) / mu), adjacency)
            multiplier = math.sqrt(t) / mu
        elif scenario == "poisson":
            Guarantee(epsilon=epsilon, delta=delta).positive()
            multiplier = calibrate(lambda sigma: _event(scenario, n, m, t, sigma), epsilon=epsilon, delta=delta)
        else:
            raise ParameterError(f"scenario must be 'pure', 'full-batch' or 'poisson', not {scenario!r}")
        return cls(scenario, n, m, t, bound, multiplier, _event(scenario, n, m, t, multiplier))

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency.ADD_REMOVE if self.scenario == "poisson" else Adjacency.REPLACE_ONE

    @property
    def noise(self) -> float:
        """The Laplace scale, or the standard deviation, of the noise on a coordinate of the mean gradient."""
        return self.multiplier * self.clip * (1 if self.scenario == "poisson" else 2) / self.batch

    def sample(self, people: int) -> NDArray[np.int64]:
        """The members of one batch, drawn as priced; under "poisson" each person joins independently."""
        if self.scenario == "poisson":
            return np.flatnonzero(bernoulli(Fraction(self.batch, self.size), people)).astype(np.int64)
        if people != self.size:
            raise ParameterError(f"this scenario is priced for {self.size} people, a public number; plan for the size of the data")
        return np.arange(people) if self.batch == self.size else np.asarray(permutation(people)[: self.batch], dtype=np.int64)

    def run(
        self, gradients: BatchGradients, people: int, constraint: ConstraintSet, *, length: float
    ) -> Array:
        """Projected steps of `length` against the noisy mean gradient; the average of the second half of the points."""
        theta = constraint.project(np.zeros(constraint.dimension))
        total, first = np.zeros_like(theta), self.steps // 2
        summed = noisy_l1_sum if self.scenario == "pure" else noisy_sum
        for t in range(self.steps):
            chosen = self.sample(people)
            noisy = summed(gradients(theta, chosen), bound=self.clip, multiplier=self.multiplier, adjacency=self.adjacency)
            theta = constraint.project(theta - length * noisy / self.batch)
            if t >= first:
                total = total + theta
        return total / (self.steps - first)


def _event(scenario: str, size: int, batch: int, steps: int, multiplier: float) -> Event:
    if scenario == "poisson":
        return Repeated(Sampled(Poisson(Fraction(batch, size)), Gaussian(multiplier)), steps)
    if scenario == "full-batch":
        return Repeated(Gaussian(multiplier, adjacency=Adjacency.REPLACE_ONE), steps)
    step: Event = Laplace(multiplier, adjacency=Adjacency.REPLACE_ONE)
    return Repeated(Sampled(WithoutReplacement(size, batch), step) if batch < size else step, steps)
