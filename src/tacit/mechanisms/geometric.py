"""The geometric mechanism: integer noise of mass proportional to exp(-|k|/scale), the discrete Laplace law.

It is the best integer noise of its epsilon for every user of a count (Ghosh, Roughgarden, Sundararajan 2012). With bounds the
answer is clamped to them, which costs nothing.

>>> from tacit.calculus import AddRemove, Integers, Rows, count
>>> plan = Space(Rows(Integers()), AddRemove()) >> count() >> geometric(scale=2)
>>> plan.event(1), plan.event(3)
(DiscreteLaplace(scale=2, sensitivity=1), DiscreteLaplace(scale=2, sensitivity=3))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit import noise
from tacit.accounting import DiscreteLaplace, Event, NoOp, ParameterError
from tacit.calculus import L1, DomainError, Measurement, Space
from tacit.mechanisms.accuracy import failure, in_granules, largest_scale, per_coordinate
from tacit.mechanisms.mechanism import Additive, numbers_of
from tacit.mechanisms.noisy_sums import tidy
from tacit.mechanisms.verify import Interval, exp_bracket
from tacit.parameters import Number, count, positive

PROOF = "Ghosh, Roughgarden, Sundararajan 2012; the law is the discrete Laplace law (Inusah and Kozubowski 2006)"
ADVICE = "for Euclidean distances use discrete_gaussian(sigma), or cast them to L1 first, which costs the square root of the dimension"


def tail(scale: float, error: int) -> float:
    """P[|Z| > error] for whole `error` >= 0: 2 a^(error + 1) / (1 + a) with a = exp(-1/scale).

    >>> round(1 - tail(2.0, 0), 6)  # the mass at 0, tanh(1/4)
    0.244919
    """
    return 2 * math.exp(-(error + 1) / scale) / (1 + math.exp(-1 / scale))


def geometric_error(scale: float, each: float) -> int:
    """The smallest whole error that a draw exceeds with probability at most `each`."""
    least = scale * (math.log(2 / each) - math.log1p(math.exp(-1 / scale))) - 1
    found = max(0, math.ceil(least))
    while tail(scale, found) * (1 + 1e-13 * (1 + (found + 1) / scale)) > each:
        found += max(1, int(found * 1e-15))
    return found


@dataclass(frozen=True)
class GeometricMechanism(Additive):
    """Adds Z to each coordinate, P[Z = k] = tanh(1/(2 scale)) exp(-|k|/scale); the scale is in the unit of the answer.

    Guarantee
        Statement: inputs at distance d cost DiscreteLaplace(scale, floor(d)) in granules: (d/scale)-DP, attained.
        Conditions: whole numbers or lattice values under the absolute difference, vectors of them under L1.
        Proved in: the ratio of two masses is exp((|k - d| - |k|)/scale). Several coordinates: the curve f_a between Z and Z + a is linear
        between the corners F(j), and 1 - f_a maps corners to corners, so f_b(1 - f_a) = f_(a+b) for whole a and b, as for
        `laplace`: moving many coordinates costs no more than moving one by as much. Clamping to public bounds is post-processing.
        Correction: none.
    """

    scale: Number
    lower: int | None = None
    upper: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        for name in ("lower", "upper"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else count(name, value, least=-(10**400)))
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ParameterError(f"lower must not exceed upper, and {self.lower} > {self.upper}; swap them")

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "geometric", L1, ADVICE)
        if not numbers.whole and (self.lower is not None or self.upper is not None):
            raise DomainError("lower and upper are for integer answers; on a lattice clamp the answer afterwards with post(...)")
        granules = numbers.granules("scale", self.scale)

        def privacy(distance: Number) -> Event:
            steps = math.floor(distance)
            return DiscreteLaplace(tidy(granules), steps) if steps else NoOp()

        noisy = self.adding(space, numbers, lambda size: noise.discrete_laplace(granules, size), privacy, self.name, PROOF)
        return replace(noisy, function=lambda value: self.clamped(noisy.function(value)))

    @property
    def name(self) -> str:
        """How the mechanism was written."""
        bounds = "".join(f", {name}={value}" for name, value in (("lower", self.lower), ("upper", self.upper)) if value is not None)
        return f"geometric(scale={self.scale}{bounds})"

    def clamped(self, answer: Any) -> Any:
        """An answer moved into the public bounds."""
        if self.lower is None and self.upper is None:
            return answer
        if isinstance(answer, int):
            low = answer if self.lower is None else max(self.lower, answer)
            return low if self.upper is None else min(self.upper, low)
        return np.array([self.clamped(int(one)) for one in answer.tolist()], dtype=answer.dtype)

    def accuracy(self, beta: Number, *, dimension: int = 1, granularity: Number = 1) -> float:
        """The error that is exceeded with probability at most beta, from the mass function: a whole number of granules.

        >>> geometric(2).accuracy(0.05), geometric(2).accuracy(0.05, dimension=10)
        (6.0, 10.0)
        """
        step = Fraction(positive("granularity", granularity))
        return in_granules(geometric_error(float(Fraction(self.scale) / step), per_coordinate(beta, dimension)), step)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, dimension: int = 1, granularity: Number = 1) -> Self:
        """The largest scale whose error stays within alpha except with probability beta.

        >>> round(GeometricMechanism.for_accuracy(5, 0.05).scale, 4)
        1.8581
        """
        wanted = float(positive("alpha", alpha))
        guess = wanted / -math.log(failure(beta))
        return cls(largest_scale(lambda s: cls(s).accuracy(beta, dimension=dimension, granularity=granularity) <= wanted, guess))

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Number = 1) -> Self:
        """The scale at which distance `sensitivity` costs epsilon, exactly.

        >>> GeometricMechanism.for_epsilon(Fraction(1, 2))
        GeometricMechanism(scale=2, lower=None, upper=None)
        """
        return cls(tidy(Fraction(positive("sensitivity", sensitivity)) / Fraction(positive("epsilon", epsilon))))

    @property
    def variance(self) -> float:
        """2a / (1 - a)^2 with a = exp(-1/scale), on whole numbers.

        >>> round(geometric(2).variance, 6)
        7.835396
        """
        return 0.5 / math.sinh(0.5 / float(self.scale)) ** 2 if self.scale > 1e-3 else 0.0

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        """The probability of every answer, each between two fractions; only with both bounds, so that there are finitely many.

        >>> law = geometric(1, lower=0, upper=2).distribution(1)
        >>> [round(float(low), 6) for low, _ in law.values()]
        [0.268941, 0.462117, 0.268941]
        """
        if self.lower is None or self.upper is None:
            raise ParameterError("an unbounded mechanism has infinitely many answers; give lower and upper to enumerate them")
        rate = 1 / Fraction(self.scale)
        centre = min(max(int(value), -(10**400)), 10**400)

        def beyond(steps: int) -> Interval:
            """P[Z >= steps] for any whole steps."""
            if steps <= 0:
                low, high = beyond(1 - steps)
                return 1 - high, 1 - low
            low, high = exp_bracket(-rate * steps, bits)
            unit = exp_bracket(-rate, bits)
            return low / (1 + unit[1]), high / (1 + unit[0])

        found: dict[int, Interval] = {}
        unit = exp_bracket(-rate, bits)
        zero = ((1 - unit[1]) / (1 + unit[1]), (1 - unit[0]) / (1 + unit[0]))
        for answer in range(self.lower, self.upper + 1):
            if self.lower == self.upper:
                found[answer] = (Fraction(1), Fraction(1))
            elif answer == self.lower:
                found[answer] = beyond(centre - answer)
            elif answer == self.upper:
                found[answer] = beyond(answer - centre)
            else:
                decay = exp_bracket(-rate * abs(answer - centre), bits)
                found[answer] = (zero[0] * decay[0], zero[1] * decay[1])
        return found


def geometric(scale: Number, *, lower: int | None = None, upper: int | None = None) -> GeometricMechanism:
    """Discrete Laplace noise of this scale; with `lower` and `upper`, the truncated geometric mechanism."""
    return GeometricMechanism(scale, lower, upper)
