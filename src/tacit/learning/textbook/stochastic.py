"""Stochastic gradient descent in three scenarios, each with the sampler that its price is for.

1. "pure": batches without replacement, gradients clipped in l1, Laplace noise; epsilon-DP when one person is replaced.
2. "full-batch": every step uses everybody, clipped in l2, Gaussian noise; concentrated DP when one person is replaced.
3. "poisson": everybody joins each batch with probability batch/size, clipped in l2, Gaussian noise; when one person is added or removed.
The divisor
   is the expected batch, fixed and public: the size of the batch that was drawn is private.

The object that samples is the object that is priced. `tacit.accounting.theorems.dpsgd` has the same scenarios as closed forms.

>>> plan = StochasticDescent.plan("pure", size=1000, batch=100, steps=100, clip=0.5, epsilon=1.0)
>>> round(plan.noise, 10)  # on the mean gradient: as the closed form says
0.1044210404
>>> StochasticDescent.plan("poisson", size=1000, batch=100, steps=100, clip=1.0, epsilon=1.0, delta=1e-5).noise < 0.0427761139
True
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
)
from tacit.accounting.theorems.dpsgd import pure_without_replacement
from tacit.learning.textbook.sets import ConstraintSet
from tacit.mechanisms import noisy_l1_sum, noisy_sum
from tacit.noise import bernoulli, permutation
from tacit.parameters import count, positive

Array = NDArray[np.float64]
Scenario = Literal["pure", "full-batch", "poisson"]
#: The gradients of the people with these indices at a point: one row for each.
Gradients = Callable[[Array, NDArray[np.int64]], Array]


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
        """The members of one batch, drawn as priced. In the third scenario everybody decides alone, whatever the number of people."""
        if self.scenario == "poisson":
            found: NDArray[np.int64] = np.flatnonzero(bernoulli(Fraction(self.batch, self.size), people)).astype(np.int64)
            return found
        if people != self.size:
            raise ParameterError(f"this scenario is priced for {self.size} people, a public number; plan for the size of the data")
        return np.arange(people) if self.batch == self.size else np.asarray(permutation(people)[: self.batch], dtype=np.int64)

    def run(self, gradients: Gradients, people: int, constraint: ConstraintSet, *, length: float) -> Array:
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
