"""The Laplace mechanism: whole numbers, or values on a lattice, plus Laplace noise rounded to the same lattice.

It is the textbook mechanism followed by rounding, so it has the textbook's price, 1/scale for each unit of distance, and none of its
floating-point leaks: every output is a multiple of the public granularity.

>>> from tacit.calculus import AddRemove, Integers, Rows, clamp, count, total
>>> counted = Space(Rows(Integers()), AddRemove()) >> count() >> laplace(scale=2)
>>> counted.event(1)
Laplace(noise_multiplier=2)
>>> summed = Space(Rows(Integers()), AddRemove()) >> clamp(0, 10) >> total() >> laplace(scale=2)
>>> summed.event(1)  # ten times as sensitive: epsilon 5 instead of 1/2
Laplace(noise_multiplier=Fraction(1, 5))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from tacit.accounting import Event
from tacit.calculus import L1, Measurement, Space
from tacit.mechanisms.accuracy import failure, laplace_error, largest_scale
from tacit.mechanisms.mechanism import Additive, numbers_of
from tacit.mechanisms.noisy_sums import NoisySums, tidy
from tacit.parameters import Number, positive

PROOF = "post-processing of the Laplace mechanism (Dwork, McSherry, Nissim, Smith 2006; textbook Theorem 1.9)"
ADVICE = "for Euclidean distances use gaussian(sigma), or cast them to L1 first, which costs the square root of the dimension"


@dataclass(frozen=True)
class LaplaceMechanism(Additive):
    """Adds round(Z) to each coordinate, Z independent of density exp(-|z|/scale) / (2 scale); the scale is in the unit of the answer.

    Guarantee
        Statement: inputs at distance d are told apart no better than two Laplace laws of this scale shifted by d: one use costs
        Laplace(scale/d), and is (d/scale)-DP.
        Conditions: whole numbers or lattice values under the absolute difference, vectors of them under L1; d counted in granules may be
        rounded down, since differences are whole.
        Proved in: for whole x, round(x + Z) = x + round(Z), which post-processes the textbook mechanism (Theorem 1.9). In several
        dimensions the whole trade-off curve, not only epsilon, is that of one coordinate: let f_a be the curve between Z and Z + a.
        Thresholds are optimal tests, since the density is log-concave, so f_a(x) = F(F^-1(1 - x) - a), and f_b(1 - f_a) = f_(a+b).
        Moving two coordinates by a and b, one after the other, gives a curve of at least f_b(1 - f_a), as in the proof of group
        privacy (Dong, Roth, Su 2022).
        Correction: the textbook's proof keeps a product over coordinates in its fourth line that must be gone (E5).
    """

    scale: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "laplace", L1, ADVICE)
        noise = NoisySums.of_scale("laplace", numbers.granules("scale", self.scale))

        def privacy(distance: Number) -> Event:
            return noise.moving(math.floor(distance)).event

        return self.adding(space, numbers, noise.draw, privacy, f"laplace(scale={self.scale})", PROOF)

    def accuracy(self, beta: Number, *, dimension: int = 1, granularity: Number = 0) -> float:
        """The error that is exceeded with probability at most beta; a granularity takes the rounding into account, exactly.

        >>> round(laplace(1).accuracy(0.05), 4), laplace(1).accuracy(0.05, granularity=1)
        (2.9957, 3.0)
        """
        return laplace_error(self.scale, beta, dimension, granularity)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, dimension: int = 1, granularity: Number = 0) -> Self:
        """The largest scale whose error stays within alpha except with probability beta.

        >>> round(1 / LaplaceMechanism.for_accuracy(10, 0.05).scale, 6)  # the epsilon of a count
        0.299573
        """
        wanted = float(positive("alpha", alpha))
        guess = wanted / -math.log(failure(beta))
        return cls(largest_scale(lambda scale: laplace_error(scale, beta, dimension, granularity) <= wanted, guess))

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Number = 1) -> Self:
        """The scale at which distance `sensitivity` costs epsilon, exactly. Both are in the unit of the answer.

        >>> LaplaceMechanism.for_epsilon(Fraction(1, 2), sensitivity=10)
        LaplaceMechanism(scale=20)
        """
        return cls(tidy(Fraction(positive("sensitivity", sensitivity)) / Fraction(positive("epsilon", epsilon))))

    @property
    def variance(self) -> float:
        """The variance of the noise before it is rounded to the lattice: 2 scale^2.

        >>> laplace(2).variance
        8.0
        """
        return 2 * float(self.scale) ** 2


def laplace(scale: Number) -> LaplaceMechanism:
    """Laplace noise of this scale, in the unit of the answer.

    >>> laplace(scale=0)
    Traceback (most recent call last):
    tacit.errors.ParameterError: scale must be positive and finite, not 0
    """
    return LaplaceMechanism(scale)
