"""The discrete Gaussian mechanism: integer noise of mass proportional to exp(-k^2 / (2 sigma^2)).

For one number it is priced from its own mass function; for a vector `gaussian` costs less, since it is priced as real
Gaussian noise in every dimension.

>>> from tacit.calculus import AddRemove, Integers, Rows, count
>>> plan = Space(Rows(Integers()), AddRemove()) >> count() >> discrete_gaussian(sigma=4)
>>> plan.event(1)
DiscreteGaussian(sigma=4, sensitivity=1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np

from tacit import noise
from tacit.accounting import ZCDP, DiscreteGaussian, Event, NoOp, ParameterError, calibrate
from tacit.calculus import L2, Measurement, Space
from tacit.exact import root
from tacit.mechanisms.accuracy import failure, gaussian_error, in_granules, largest_scale, per_coordinate
from tacit.mechanisms.mechanism import Additive, numbers_of
from tacit.mechanisms.noisy_sums import tidy
from tacit.parameters import Number, count, number, positive

PROOF = "Canonne, Kamath, Steinke 2020, Theorem 4 and Theorem 14"
ADVICE = "L1 distances bound Euclidean ones, so cast them first (an L1 to L2 cast is free), or use geometric(scale)"
#: Beyond this sigma the tail is bounded by the continuous law's instead of summed.
SUMMED = 1e4


@lru_cache(maxsize=256)
def _tails(sigma: float) -> np.ndarray:
    """P[|Z| > k] for k = 0, 1, 2, ... down to where it underflows."""
    most = min(math.ceil(39 * sigma) + 1, 500_000)
    mass = np.exp(-0.5 * (np.arange(most + 1) / sigma) ** 2)
    beyond = 2 * np.cumsum(mass[::-1])[::-1]
    found: np.ndarray = np.append(beyond[1:], 0.0) / (beyond[0] - 1)
    return found


def discrete_gaussian_error(sigma: float, each: float) -> int:
    """A whole error that a draw exceeds with probability at most `each`; the smallest one up to sigma 10,000.

    Beyond that, P[Z >= m] <= P[N(0, sigma^2) >= m - 1] (Canonne, Kamath, Steinke 2020, Proposition 25).
    """
    if sigma <= SUMMED and each > 1e-290:
        # sums of positive terms: a relative error below 1e-11
        return int(np.argmax(_tails(sigma) * (1 + 1e-11) <= each))
    return math.ceil(gaussian_error(sigma, each)) + 1


@dataclass(frozen=True)
class DiscreteGaussianMechanism(Additive):
    """Adds Z to each coordinate, P[Z = k] proportional to exp(-k^2/(2 sigma^2)); sigma is in the unit of the answer.

    Guarantee
        Statement: one number at distance d costs DiscreteGaussian(sigma, floor(d)) in granules, priced from its own mass function. A vector
        at distance d costs ZCDP(floor(d^2) / (2 sigma^2)); where floor(d^2) = 1 only one coordinate can move, and by one granule, so it
        costs DiscreteGaussian(sigma, 1).
        Conditions: whole numbers or lattice values under the absolute difference, vectors of them under L2.
        Proved in: Canonne, Kamath, Steinke 2020, Theorem 14 (concentrated DP, coordinates add up) and Theorem 7 (the exact curve).
        Correction: none. `gaussian` costs as a real Gaussian does in every dimension; prefer it for vectors.
    """

    sigma: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "discrete_gaussian", L2, ADVICE)
        granules = numbers.granules("sigma", self.sigma)

        def privacy(distance: Number) -> Event:
            square = math.floor(Fraction(distance) ** 2)
            if not square:
                return NoOp()
            if numbers.length in (None, 1) or square == 1:
                return DiscreteGaussian(tidy(granules), math.isqrt(square))
            return ZCDP(tidy(square / (2 * granules**2)))

        name = f"discrete_gaussian(sigma={self.sigma})"
        return self.adding(space, numbers, lambda size: noise.discrete_gaussian(granules, size), privacy, name, PROOF)

    def accuracy(self, beta: Number, *, dimension: int = 1, granularity: Number = 1) -> float:
        """The error that is exceeded with probability at most beta, from the mass function: a whole number of granules.

        >>> discrete_gaussian(4).accuracy(0.05)
        8.0
        """
        step = Fraction(positive("granularity", granularity))
        return in_granules(discrete_gaussian_error(float(Fraction(self.sigma) / step), per_coordinate(beta, dimension)), step)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, dimension: int = 1, granularity: Number = 1) -> Self:
        """The largest sigma whose error stays within alpha except with probability beta.

        >>> DiscreteGaussianMechanism.for_accuracy(8, 0.05).accuracy(0.05)
        8.0
        """
        wanted = float(positive("alpha", alpha))
        guess = wanted / math.sqrt(2 - 2 * math.log(failure(beta)))
        return cls(largest_scale(lambda s: cls(s).accuracy(beta, dimension=dimension, granularity=granularity) <= wanted, guess))

    @classmethod
    def for_epsilon(cls, epsilon: Number, delta: Number, sensitivity: int = 1) -> Self:
        """The least sigma at which one whole number that moves by `sensitivity` costs at most (epsilon, delta).

        >>> round(DiscreteGaussianMechanism.for_epsilon(1, 1e-5).sigma, 3)
        3.74
        """
        slack = float(number("delta", delta))
        if not 0 < slack < 1:
            raise ParameterError(f"delta must be strictly between 0 and 1, such as 1e-6, not {slack}: Gaussian noise has no pure epsilon")
        step = count("sensitivity", sensitivity)
        start = step * max(0.2, math.sqrt(2 * math.log(1.25 / slack)) / float(positive("epsilon", epsilon)) / 1.3)
        return cls(calibrate(lambda sigma: DiscreteGaussian(sigma, step), epsilon=float(epsilon), delta=slack, start=start))

    @classmethod
    def for_rho(cls, rho: Number, sensitivity: Number = 1) -> Self:
        """The least sigma at which Euclidean distance `sensitivity` costs at most rho-zCDP: sensitivity / sqrt(2 rho), rounded up.

        >>> DiscreteGaussianMechanism.for_rho(Fraction(1, 8)).sigma
        2
        """
        return cls(tidy(root(Fraction(positive("sensitivity", sensitivity)) ** 2 / (2 * Fraction(positive("rho", rho))))))


def discrete_gaussian(sigma: Number) -> DiscreteGaussianMechanism:
    """Discrete Gaussian noise of parameter sigma, in the unit of the answer."""
    return DiscreteGaussianMechanism(sigma)
