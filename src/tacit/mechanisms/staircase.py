"""The staircase mechanism on integers: the noise with the least expected error of all that cost a given epsilon.

Its mass is constant on steps of one sensitivity and falls by e^epsilon from step to step; within a step the first `share` values stand
one level higher. With sensitivity 1 it is the geometric mechanism.

>>> from tacit.calculus import AddRemove, Integers, Rows, clamp, total
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 10) >> total() >> staircase(epsilon=2, sensitivity=10)
>>> plan.event(1)
PureDP(epsilon=2)
>>> StaircaseMechanism(2, 10).expected_error < 10 / 2  # Laplace noise of the same price errs by 5 on average
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit import noise
from tacit.accounting import Event, NoOp, ParameterError, PureDP
from tacit.calculus import L1, Measurement, MetricError, Space
from tacit.mechanisms.accuracy import failure, in_granules
from tacit.mechanisms.mechanism import Mechanism, add, numbers_of
from tacit.mechanisms.noisy_sums import tidy
from tacit.mechanisms.verify import Interval, exp_bracket
from tacit.parameters import Number, positive

PROOF = "Geng and Viswanath 2014 (discrete setting, Theorem 7): the level changes by at most one within one sensitivity"
#: How many residues are listed for one exact choice among them.
LISTED = 1 << 16


@dataclass(frozen=True)
class StaircaseMechanism(Mechanism):
    """Adds Z, P[Z = k] proportional to exp(-epsilon * level(|k|)), level(m) = floor((m + D - r) / D), D the sensitivity, r the share.

    Guarantee
        Statement: inputs at distance at most D cost PureDP(epsilon); at distance d, PureDP(epsilon * ceil(d / D)).
        Conditions: one whole number (or value on a lattice) under the absolute difference; D and r whole numbers of granules, 1 <= r <= D.
        Proved in: ||j| - |k|| <= D moves the level by at most one, since level(m + D) = level(m) + 1 and levels never fall. A distance
        beyond D is ceil(d / D) moves of at most D each.
        Correction: the law for real numbers draws a uniform inside a step in floating point; here steps are whole, and draws exact.
    """

    epsilon: Number
    sensitivity: Number = 1
    share: Number | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "sensitivity", positive("sensitivity", self.sensitivity))
        if self.share is not None:
            object.__setattr__(self, "share", positive("share", self.share))
            if self.share > self.sensitivity:
                raise ParameterError(f"share must not exceed sensitivity, and {self.share} > {self.sensitivity}")

    def steps(self, granularity: Fraction = Fraction(1)) -> tuple[int, int]:
        """Sensitivity and share in granules: the sensitivity rounded up, the share, where not given, the best one."""
        wide = math.ceil(Fraction(self.sensitivity) / granularity)
        if self.share is not None:
            return wide, min(wide, max(1, round(Fraction(self.share) / granularity)))
        return wide, best_share(float(self.epsilon), wide)

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "staircase", L1, "use laplace(scale) or gaussian(sigma)")
        if numbers.dimension > 1:
            raise MetricError("staircase is proved for one number; for vectors use laplace(scale) under L1 or gaussian(sigma) under L2")
        wide, share = self.steps(numbers.granularity)
        epsilon = Fraction(self.epsilon)
        _drawable(epsilon, wide, share)

        def privacy(distance: Number) -> Event:
            moves = -(-math.floor(distance) // wide)
            return PureDP(tidy(moves * epsilon)) if moves else NoOp()

        return Measurement(
            space,
            lambda value: add(numbers, value, staircase_draw(epsilon, wide, share, numbers.length)),
            privacy,
            f"staircase(epsilon={self.epsilon}, sensitivity={self.sensitivity})",
            PROOF,
            accuracy=lambda beta: self.accuracy(beta, granularity=numbers.granularity),
        )

    def accuracy(self, beta: Number, *, granularity: Number = 1) -> float:
        """The error that is exceeded with probability at most beta, from the mass function.

        >>> staircase(2, 10).accuracy(0.05)
        13.0
        """
        step = Fraction(positive("granularity", granularity))
        wide, share = self.steps(step)
        epsilon, each = float(self.epsilon), failure(beta)
        low, high = -1, 1
        while tail(epsilon, wide, share, high) * (1 + 1e-12) > each:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if tail(epsilon, wide, share, middle) * (1 + 1e-12) > each else (low, middle)
        return in_granules(high, step)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, sensitivity: Number = 1, granularity: Number = 1) -> Self:
        """The smallest epsilon whose error stays within alpha except with probability beta, to a relative 1e-9.

        >>> StaircaseMechanism.for_accuracy(13, 0.05, sensitivity=10).epsilon <= 2
        True
        """
        wanted = float(positive("alpha", alpha))
        if wanted < granularity:
            raise ParameterError(f"alpha must be at least one granule, {granularity}, not {wanted}")

        def keeps(epsilon: float) -> bool:
            return cls(epsilon, sensitivity).accuracy(beta, granularity=granularity) <= wanted

        high = 1.0
        while not keeps(high):
            high *= 2
            if high > 1e4:
                raise ParameterError("no epsilon below 10,000 keeps this accuracy; raise alpha or beta")
        low = high / 2
        while keeps(low):
            low, high = low / 2, low
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return cls(high, sensitivity)

    @property
    def expected_error(self) -> float:
        """The mean of |Z| on whole numbers."""
        wide, share = self.steps()
        return expected_magnitude(float(self.epsilon), wide, share)

    def distribution(self, value: int, *, bits: int = 128, reach: int = 8) -> dict[Any, Interval]:
        """The probability of every answer within `reach` steps of 0, and of all others on either side, each between two fractions.

        The value itself must lie well within the reach. Farther out the law repeats itself, step by step.

        >>> law = staircase(1, 1).distribution(0)
        >>> round(float(law[0][0]), 6)  # tanh(1/2)
        0.462117
        """
        wide, share = self.steps()
        if abs(value) > reach * wide // 2:
            raise ParameterError(f"value must lie within {reach * wide // 2} of 0 to be enumerated; raise reach")
        epsilon = Fraction(self.epsilon)
        low, high = exp_bracket(-epsilon, bits)
        total = (
            2 * (share + (wide - share) * low) / (1 - low) - 1,
            2 * (share + (wide - share) * high) / (1 - high) - 1,
        )
        edge = reach * wide
        levels = [exp_bracket(-epsilon * level, bits) for level in range(2 * reach + 3)]
        found: dict[Any, Interval] = {}
        for answer in range(-edge, edge + 1):
            mass = levels[(abs(answer - value) + wide - share) // wide]
            found[answer] = (mass[0] / total[1], mass[1] / total[0])
        for side, first in (("below", edge + 1 + value), ("above", edge + 1 - value)):
            whole, rest = divmod(first, wide)
            # the rest of the step in which the first of them lies, then all further steps
            ends = [
                levels[whole][i] * (max(0, share - rest) + (wide - max(share, rest)) * b + (share + (wide - share) * b) * b / (1 - b))
                for i, b in enumerate((low, high))
            ]
            found[side] = (ends[0] / total[1], ends[1] / total[0])
        return found


def tail(epsilon: float, wide: int, share: int, error: int) -> float:
    """P[|Z| > error] for whole `error` >= -1."""
    if error < 0:
        return 1.0
    decay = math.exp(-epsilon)
    step = share + (wide - share) * decay
    whole, rest = divmod(error + 1, wide)
    # values beyond `error` in its own step, then all further steps
    inside = max(0, share - rest) + (wide - max(share, rest)) * decay
    return 2 * math.exp(-epsilon * whole) * (inside + step * decay / -math.expm1(-epsilon)) / (2 * step / -math.expm1(-epsilon) - 1)


def expected_magnitude(epsilon: float, wide: int, share: int) -> float:
    """E|Z|: with k steps passed and t inside one, the sum of (k D + t) over both levels.

    >>> a = math.exp(-0.5)
    >>> abs(expected_magnitude(0.5, 1, 1) - 2 * a / (1 - a * a)) < 1e-12  # the geometric mechanism's
    True
    """
    decay, gap = math.exp(-epsilon), -math.expm1(-epsilon)
    weight = share + (wide - share) * decay
    inside = (share * (share - 1) + (wide * (wide - 1) - share * (share - 1)) * decay) / 2
    return 2 * (wide * weight * decay / gap**2 + inside / gap) / (2 * weight / gap - 1)


def best_share(epsilon: float, wide: int) -> int:
    """The share with the least expected error: next to D / (1 + e^(epsilon/2)), the real optimum, or at an end.

    >>> [best_share(e, 100) for e in (0.1, 2, 10)]
    [49, 27, 1]
    """
    real = wide / (1 + math.exp(min(epsilon / 2, 700.0)))
    near = {1, wide, *(min(wide, max(1, math.floor(real) + i)) for i in (-1, 0, 1, 2))}
    return min(sorted(near), key=lambda share: expected_magnitude(epsilon, wide, share))


def _drawable(epsilon: Fraction, wide: int, share: int) -> None:
    """Refuse, before any data is near, a law whose exact draw would take too long."""
    if wide > LISTED and share * 64 < wide:
        raise ParameterError(
            f"sensitivity is {wide} granules and share only {share}, which draws slowly; use a coarser granularity, or laplace(scale)"
        )


def staircase_draw(epsilon: Fraction, wide: int, share: int, size: int | None = None) -> Any:
    """Exact draws: the step is geometric, the place in it has one of two weights, and of 0 and -0 one is thrown back.

    How many are thrown back is independent of those that are kept, so the time tells nothing about them.

    >>> abs(staircase_draw(Fraction(50), 3, 1)) < 30
    True
    """
    wanted = 1 if size is None else size
    pieces: list[np.ndarray] = []
    missing = wanted
    while missing:
        step = noise.geometric(1 / epsilon, missing)
        place, kept = _places(epsilon, wide, share, missing)
        sign = noise.uniform_integers(2, missing)
        if step.dtype == object or wide > 2**31 or bool((step > 2**30).any()):
            step, place = step.astype(object), place.astype(object)
        size_ = step * wide + place
        kept = kept & ~((size_ == 0) & (sign == 1)).astype(bool)
        pieces.append(np.where(sign == 1, -size_, size_)[kept])
        missing -= len(pieces[-1])
    found = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
    return int(found[0]) if size is None else found


def _places(epsilon: Fraction, wide: int, share: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Places 0 .. D - 1 with weight 1 below the share and e^-epsilon from there on; the second array says which to keep."""
    if share == wide:
        return noise.uniform_integers(wide, number), np.ones(number, dtype=bool)
    if wide <= LISTED and share * 4 < wide:
        return noise.choose([Fraction(0)] * share + [-epsilon] * (wide - share), number), np.ones(number, dtype=bool)
    place = noise.uniform_integers(wide, number)
    return place, (place < share) | (noise.bernoulli_exp(epsilon, number) == 1)


def staircase(epsilon: Number, sensitivity: Number = 1, share: Number | None = None) -> StaircaseMechanism:
    """Staircase noise that costs epsilon at distance `sensitivity`; both in the unit of the answer."""
    return StaircaseMechanism(epsilon, sensitivity, share)
