"""The Gaussian mechanism: whole numbers, or values on a lattice, plus Gaussian noise rounded to the same lattice.

It is the textbook mechanism followed by rounding, so everything known about real Gaussian noise prices it, in any dimension, and every
output is a multiple of the public granularity.

>>> from tacit.calculus import AddRemove, Integers, Rows, count
>>> plan = Space(Rows(Integers()), AddRemove()) >> count() >> gaussian(sigma=4)
>>> plan.event(1), plan.event(2)
(Gaussian(noise_multiplier=4), Gaussian(noise_multiplier=2))
>>> round(GaussianMechanism.for_epsilon(1, 1e-5).sigma, 6)
3.730632
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from tacit.accounting import Event, Gaussian, ParameterError, account, sigma_for
from tacit.calculus import L2, Measurement, Space
from tacit.exact import root
from tacit.mechanisms.accuracy import failure, gaussian_error, largest_scale, rounded_up
from tacit.mechanisms.mechanism import Additive, numbers_of
from tacit.mechanisms.noisy_sums import NoisySums, tidy
from tacit.parameters import Number, number, positive

PROOF = "post-processing of the Gaussian mechanism (Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2022, Theorem 2.7)"
ADVICE = "L1 distances bound Euclidean ones, so cast them first (an L1 to L2 cast is free), or use laplace(scale)"


def whole_length(distance: Number) -> Fraction:
    """The largest Euclidean length of a whole vector within a distance, rounded up: the root of the whole part of its square.

    >>> whole_length(Fraction(3, 2)) ** 2 >= 2 > whole_length(Fraction(7, 5)) ** 2
    True
    """
    return root(Fraction(math.floor(Fraction(distance) ** 2)))


@dataclass(frozen=True)
class GaussianMechanism(Additive):
    """Adds round(Z) to each coordinate, Z independent normal of standard deviation sigma, in the unit of the answer.

    Guarantee
        Statement: inputs at distance d are told apart no better than N(0, sigma^2) and N(d, sigma^2): one use costs Gaussian(sigma/d).
        Conditions: whole numbers or lattice values under the absolute difference, vectors of them under L2.
        Proved in: for whole x, round(x + Z) = x + round(Z), which post-processes the textbook mechanism; turned so that the
        difference of two inputs lies along one axis, spherical noise leaves one coordinate to tell them apart by (Dong, Roth, Su 2022,
        Theorem 2.7). Its (epsilon, delta) is exact for every epsilon (Balle and Wang 2018, Theorem 8).
        Correction: the textbook's Theorem 1.12 admits delta = 0, for which sigma is infinite; delta must be positive (E12).
    """

    sigma: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "gaussian", L2, ADVICE)
        noise = NoisySums.of_scale("gaussian", numbers.granules("sigma", self.sigma))

        def privacy(distance: Number) -> Event:
            return noise.moving(whole_length(distance)).event

        return self.adding(space, numbers, noise.draw, privacy, f"gaussian(sigma={self.sigma})", PROOF)

    def accuracy(self, beta: Number, *, dimension: int = 1, granularity: Number = 0) -> float:
        """The error that is exceeded with probability at most beta; a granularity takes the rounding into account, exactly.

        >>> round(gaussian(1).accuracy(0.05), 6), gaussian(1).accuracy(0.05, granularity=1)
        (1.959964, 2.0)
        """
        return gaussian_error(self.sigma, beta, dimension, granularity)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, dimension: int = 1, granularity: Number = 0) -> Self:
        """The largest sigma whose error stays within alpha except with probability beta.

        >>> round(GaussianMechanism.for_accuracy(10, 0.05).sigma, 6)
        5.102135
        """
        wanted = float(positive("alpha", alpha))
        guess = wanted / math.sqrt(2 - 2 * math.log(failure(beta)))
        return cls(largest_scale(lambda sigma: gaussian_error(sigma, beta, dimension, granularity) <= wanted, guess))

    @classmethod
    def for_epsilon(
        cls, epsilon: Number, delta: Number, sensitivity: Number = 1, *, calibration: Literal["analytic", "classical"] = "analytic"
    ) -> Self:
        """The least sigma at which Euclidean distance `sensitivity` costs at most (epsilon, delta), rounded up.

        `classical` is the older sqrt(2 ln(1.25/delta)) / epsilon, proved only up to epsilon 1 (Dwork and Roth 2014, Theorem A.1).

        >>> round(GaussianMechanism.for_epsilon(1, 1e-5, calibration="classical").sigma, 6)
        4.844805
        """
        target, slack = float(positive("epsilon", epsilon)), float(number("delta", delta))
        if not 0 < slack < 1:
            raise ParameterError(f"delta must be strictly between 0 and 1, such as 1e-6, not {slack}: Gaussian noise has no pure epsilon")
        width = float(positive("sensitivity", sensitivity))
        width = width if width >= sensitivity else math.nextafter(width, math.inf)
        if target > epsilon:
            target = math.nextafter(target, 0.0)
        if calibration == "analytic":
            sigma, nudge = sigma_for(target, slack, width), 2.0**-50
            # the accountant prices the quotient with a rounding of its own, about 1e-12: it has the last word
            while account(Gaussian(Fraction(sigma) / Fraction(width))).epsilon(slack).upper > epsilon:
                sigma, nudge = sigma * (1 + nudge), 2 * nudge
            return cls(sigma)
        if calibration == "classical":
            if target > 1:
                raise ParameterError(
                    f"the classical calibration is proved only for epsilon up to 1, not {target}; leave it out for the analytic one"
                )
            return cls(rounded_up(math.sqrt(2 * math.log(1.25 / slack)) * width / target))
        raise ParameterError(f"calibration must be 'analytic' or 'classical', not {calibration!r}")

    @classmethod
    def for_rho(cls, rho: Number, sensitivity: Number = 1) -> Self:
        """The least sigma at which distance `sensitivity` costs at most rho-zCDP: sensitivity / sqrt(2 rho), rounded up.

        >>> GaussianMechanism.for_rho(Fraction(1, 8)).sigma
        2
        """
        return cls(tidy(root(Fraction(positive("sensitivity", sensitivity)) ** 2 / (2 * Fraction(positive("rho", rho))))))


def gaussian(sigma: Number) -> GaussianMechanism:
    """Gaussian noise of this standard deviation, in the unit of the answer."""
    return GaussianMechanism(sigma)
