"""Propose, test, release: a bound on the local sensitivity is proposed; if the data is far from breaking it, the answer gets little noise.

The distance to the nearest data set that breaks the bound changes by at most one between neighbours, so it is tested with noise. Where the
test fails the answer is None, which is an answer like any other: it is paid for, and it says nothing that was not paid for.

>>> from tacit.calculus import Integers, ReplaceOne, Rows
>>> plan = Space(Rows(Integers(0, 1000), size=1001), ReplaceOne()) >> propose_median(bound=5, epsilon=2, delta=1e-6)
>>> plan.event(1)
ApproxDP(epsilon=2, delta=1e-06, adjacency=Adjacency.REPLACE_ONE)
>>> plan.release([1000] * 500 + [0] * 501).value is None  # half and half: one change moves the median from end to end
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit import noise
from tacit.accounting import ApproxDP, Event, Group, NoOp, ParameterError
from tacit.calculus import DomainError, Measurement, Space
from tacit.mechanisms.accuracy import failure, in_granules, least_that_keeps, rounded_up
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.smooth_sensitivity import InterquartileRange, Quantile, Statistic, bounded_rows, check_distance
from tacit.noise import from_lattice
from tacit.parameters import Number, number, positive


def distance_to_unstable(sensitivities: np.ndarray, bound: int) -> int:
    """The number of changes after which the local sensitivity may exceed the bound: the first k with A_k > bound, else how many were given.

    As A_k(x) <= A_(k+1)(x') for neighbours, the distance differs by at most 1 between them; it is 0 where the bound is broken already.

    >>> distance_to_unstable(np.array([1, 2, 3, 10]), 2)
    2
    """
    broken = np.flatnonzero(np.asarray(sensitivities) > bound)
    return int(broken[0]) if len(broken) else len(sensitivities)


def threshold(epsilon: Number, delta: Number) -> int:
    """The least t with P(Z > t) <= delta, Z two-sided geometric of scale 1/epsilon: q^(t+1) / (1 + q) with q = e^-epsilon.

    >>> threshold(1, 1e-6), math.ceil(math.log(1e6))
    (13, 14)
    """
    rate, log_delta = float(epsilon), math.log(delta)
    found = max(0, math.ceil(-(log_delta + math.log1p(math.exp(-rate))) / rate - 1))
    # the last digits of the logarithms must not decide
    while -rate * (found + 1) - math.log1p(math.exp(-rate)) > log_delta - 1e-12 * abs(log_delta):
        found += 1
    return found


@dataclass(frozen=True)
class ProposeTestRelease(Mechanism):
    """A statistic with Laplace noise for the proposed bound, or None where the data is too near to breaking it.

    Half of epsilon pays for the test, half for the answer. `bound` is in the unit of the answer.

    Guarantee
        Statement: (epsilon, delta)-DP for one change; d changes cost what group privacy says.
        Conditions: replace-one or Hamming distance, or add/remove for quantiles and the interquartile range; whole values in public
        bounds; a statistic whose sensitivities are as `Statistic` asks.
        Proved in: Dwork and Lei 2009, re-derived. If a neighbouring pair's answers differ by at most the bound, test and answer are
        epsilon/2-DP each, and the pair costs epsilon with no delta. If they differ by more, both data sets break the bound, both
        have distance 0, and either passes with probability q^(t+1) / (1 + q) <= delta, q = e^(-epsilon/2); what else can be seen is the
        failed test, which is epsilon/2-DP. So one delta is paid, once, and not for each half.
    """

    statistic: Quantile | InterquartileRange | Statistic
    bound: Number
    epsilon: Number
    delta: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", positive("bound", self.bound))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if not 0 < number("delta", self.delta) < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1, such as 1e-6, not {self.delta}")

    @property
    def share(self) -> Fraction:
        """What the test costs, and the answer costs as much."""
        return Fraction(self.epsilon) / 2

    def bind(self, space: Space) -> Measurement:
        statistic = self.statistic
        check_distance(statistic, space)
        lower, upper, granularity = bounded_rows(space, statistic.name, add_remove=True)
        low, high = statistic.range(lower, upper)
        allowed = math.floor(Fraction(self.bound) / (granularity or 1))
        if allowed < 1:
            raise DomainError(f"bound must be at least one granule, {granularity or 1}, not {self.bound}; propose a larger one")
        passing = threshold(self.share, self.delta)
        # a distance far above the threshold is as good as any larger one, and cutting it off changes no distance between neighbours
        most = 4 * passing + 4

        def answer(data: Any) -> int | float | None:
            values = np.asarray(data, dtype=np.int64)
            distance = distance_to_unstable(statistic.sensitivities(values, lower, upper, most), allowed)
            # both draws are always made, so that the time does not tell more than the answer
            tested = distance + int(noise.discrete_laplace(1 / self.share)) > passing
            found = statistic.value(values, lower, upper) + int(noise.discrete_laplace(allowed / self.share))
            cut = min(max(found, low), high)
            return None if not tested else cut if granularity is None else from_lattice(cut, granularity)

        proved = isinstance(self.statistic, (Quantile, InterquartileRange))
        name = f"propose-test-release of the {self.statistic.name}"
        return Measurement(space, answer, self._privacy, name, "Dwork and Lei 2009; see Guarantee" if proved else None)

    def _privacy(self, distance: Number) -> Event:
        changes = math.floor(distance)
        single = ApproxDP(self.epsilon, self.delta)
        return NoOp() if not changes else single if changes == 1 else Group(single, changes)

    def accuracy(self, beta: Number, *, granularity: Number = 1) -> float:  # the error needs public facts
        """The error of an answer that is given, on multiples of a granularity; no answer is no error.

        >>> propose_median(bound=5, epsilon=2, delta=1e-6).accuracy(0.05)
        15.0
        """
        step = Fraction(positive("granularity", granularity))
        allowed = math.floor(Fraction(self.bound) / step)
        if allowed < 1:
            raise ParameterError(f"bound must be at least one granule, {granularity}, not {self.bound}")
        scale = float(allowed / self.share)
        # P(|Z| > t) = 2 q^(t+1) / (1 + q)
        wanted = (math.log(2) - math.log1p(math.exp(-1 / scale)) - math.log(failure(beta))) * scale - 1
        return in_granules(max(0, math.ceil(rounded_up(wanted))), step)

    @classmethod
    def for_accuracy(  # the error needs public facts
        cls, alpha: Number, beta: Number, *, bound: Number, delta: Number, changes: int | None = None, granularity: Number = 1,
        statistic: Quantile | InterquartileRange | Statistic | None = None,
    ) -> Self:  # fmt: skip
        """The least epsilon, to a thousandth, at which an answer that is given is off by more than alpha with probability at most beta.

        With `changes`, a public guess of how many changes the data is from breaking the bound, no answer counts as an error too, and the
        test and the noise fail with probability at most beta together. The median by default.

        >>> found = ProposeTestRelease.for_accuracy(15, 0.05, bound=5, delta=1e-6)
        >>> found.accuracy(0.05), round(found.epsilon, 2)
        (15.0, 1.93)
        >>> near = ProposeTestRelease.for_accuracy(15, 0.05, bound=5, delta=1e-6, changes=12)
        >>> near.epsilon > found.epsilon, near.refusal(12) < 0.05
        (True, True)
        """
        of, goal, fail = Quantile(Fraction(1, 2)) if statistic is None else statistic, float(positive("alpha", alpha)), failure(beta)

        def keeps(epsilon: float) -> bool:
            rule = cls(of, bound, epsilon, delta)
            refused = 0.0 if changes is None else rule.refusal(changes) * (1 + 1e-9)
            return refused < fail and rule.accuracy(fail - refused, granularity=granularity) <= goal

        return cls(of, bound, least_that_keeps(keeps, 1e-3), delta)

    def refusal(self, changes: int) -> float:
        """The probability of None where the data is `changes` replacements away from breaking the bound.

        >>> round(propose_median(bound=5, epsilon=2, delta=1e-6).refusal(30), 9)
        3e-08
        """
        gap = threshold(self.share, self.delta) - changes
        rate = float(self.share)
        below = math.exp(-rate * abs(gap)) / (1 + math.exp(-rate))
        return below if gap < 0 else 1 - math.exp(-rate) * below


def propose_test_release(statistic: Statistic, *, bound: Number, epsilon: Number, delta: Number) -> ProposeTestRelease:
    """Any statistic that knows its sensitivity near the data, under a proposed bound."""
    return ProposeTestRelease(statistic, bound, epsilon, delta)


def propose_median(*, bound: Number, epsilon: Number, delta: Number) -> ProposeTestRelease:
    """The (lower) median under a proposed bound on its local sensitivity."""
    return ProposeTestRelease(Quantile(Fraction(1, 2)), bound, epsilon, delta)


def propose_interquartile_range(*, bound: Number, epsilon: Number, delta: Number) -> ProposeTestRelease:
    """The interquartile range, the usual first estimate of a scale, under a proposed bound."""
    return ProposeTestRelease(InterquartileRange(), bound, epsilon, delta)
