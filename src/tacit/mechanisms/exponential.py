"""The exponential mechanism: one of finitely many public candidates, better ones exponentially more likely.

The draw is exact: the probability of each candidate is the textbook's, whatever the scores. Its price is the sharp one, a
*bounded range* of privacy losses, which composes for about half of what as many pure guarantees would cost. The module also
has what all selections by scores share (`Scores`).

>>> from tacit.calculus import Integers, LInfinity, Space, Vectors
>>> plan = Space(Vectors(Integers(), 3), LInfinity()) >> exponential(epsilon=1)
>>> plan.release([0, 10_000, 3])
Release(1, Exponential(epsilon=Fraction(1, 1), monotone=False))
>>> plan.event(2)
Exponential(epsilon=Fraction(2, 1), monotone=False)
>>> (Space(Vectors(Integers(), 3), LInfinity(monotone=True)) >> exponential(epsilon=1)).event(1)
Exponential(epsilon=Fraction(1, 2), monotone=True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from numpy.typing import NDArray

from tacit import accounting
from tacit.accounting import Event, NoOp, ParameterError, PureDP
from tacit.calculus import L1, DomainError, Integers, Lattice, LInfinity, Measurement, MetricError, Space, Vectors, granule
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.selection_laws import exponential_law
from tacit.mechanisms.verify import Interval
from tacit.noise import choose, exp_bounds
from tacit.parameters import Number, count, positive, probability


@dataclass(frozen=True)
class Scores:
    """What a selection mechanism must know about the scores it stands on: the length, the real size of one granule, and the metric.

    A selection that depends only on differences of scores is priced by their *spread*: how much more one candidate's score can move than
    another's between two inputs. Adding a constant to all scores of one input changes nothing, so with spread s one may assume that every
    score of the second input is as large as that of the first or larger, by at most s.
    """

    length: int
    granularity: Fraction
    metric: LInfinity | L1

    @property
    def one_sided(self) -> bool:
        """Whether the spread is the distance itself rather than twice that."""
        return isinstance(self.metric, L1) or self.metric.monotone

    def spread(self, distance: Number) -> Fraction:
        """The largest spread of scores at this distance, in real units. Scores are whole, so a part of a granule counts for nothing.

        Each score moves by at most the L-infinity distance, up or down: twice that. Monotone scores move one way only: once. In
        L1, what goes up and what goes down share the distance: once.
        """
        whole = math.floor(distance)
        return self.granularity * (whole if self.one_sided else 2 * whole)

    def pure(self, rate: Fraction) -> Callable[[Number], Event]:
        """The privacy map of a selection whose losses are at most `rate` times the spread."""

        def privacy(distance: Number) -> Event:
            price = rate * self.spread(distance)
            return PureDP(price) if price else NoOp()

        return privacy

    def bounded_range(self, rate: Fraction) -> Callable[[Number], Event]:
        """The privacy map of a selection whose losses lie in an interval of `rate` times the spread."""

        def privacy(distance: Number) -> Event:
            price = rate * self.spread(distance)
            return accounting.Exponential(price, monotone=self.one_sided) if price else NoOp()

        return privacy


def scores_of(space: Space, what: str) -> Scores:
    """The scores that a selection mechanism is put on, or a refusal."""
    domain, metric = space.domain, space.metric
    if not isinstance(domain, Vectors) or not isinstance(domain.element, (Integers, Lattice)):
        raise DomainError(f"{what} selects by a vector of whole scores, one for each public candidate, not by {domain}; round scores first")
    if not isinstance(metric, (LInfinity, L1)):
        raise MetricError(f"{what} needs the distance of scores in LInfinity() or L1(), not {metric}; insert a step that converts it")
    return Scores(domain.length, granule(domain.element), metric)


def as_array(scores: Any) -> NDArray[Any]:
    """Whole scores as an array of int64, or of Python integers where they are large."""
    return Integers().enforce(scores)


def above(value: float) -> float:
    """A float that is at least the real number of which `value` is the result of a few roundings."""
    return math.nextafter(value * (1 + 2**-48), math.inf)


def least_epsilon(accuracy: Callable[[Number], float], alpha: Number) -> Number:
    """The least epsilon, up to rounding, at which an error that falls like 1 / epsilon is at most alpha.

    >>> least_epsilon(lambda epsilon: 3 / epsilon, 6) >= 0.5
    True
    """
    error = float(positive("alpha", alpha))
    found = above(accuracy(1) / error)
    while accuracy(found) > error:
        found = above(found)
    return found


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Candidate i with probability proportional to exp(epsilon * score_i / 2).

    Guarantee
        Statement: at L-infinity distance d of the scores, all privacy losses lie in an interval of width epsilon * d, so the mechanism is
        epsilon * d-DP, and as a bounded-range mechanism composes better than that. With monotone scores, or d in L1, the width is
        epsilon * d / 2.
        Conditions: candidates are public and do not depend on the data; scores are whole numbers (of granules).
        Proved in: McSherry and Talwar 2007, Theorem 6; Durfee and Rogers 2019, Corollary 3.1, for the range. The loss of candidate i is
        epsilon / 2 times the change of its score, minus the same number for all i; so losses spread as the changes do, over 2 d, or
        over d where all changes have one sign or share d between them.
        Correction: the last line of the proof of Theorem 1.16 in the source text has ln(|H| / delta) where ln(|H| / beta) is meant.
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def bind(self, space: Space) -> Measurement:
        scores = scores_of(space, "exponential")
        rate = Fraction(self.epsilon) / 2

        return Measurement(
            space,
            lambda values: choose(as_array(values), multiplier=rate * scores.granularity),
            scores.bounded_range(rate),
            f"exponential(epsilon={self.epsilon})",
            "McSherry and Talwar 2007, Theorem 6; Durfee and Rogers 2019",
            accuracy=lambda beta: self.accuracy(beta, candidates=scores.length),
        )

    def distribution(self, value: Sequence[Number], *, bits: int = 128) -> dict[int, Interval]:
        """The probability of every candidate for these scores, enclosed in fractions.

        >>> {i: round(float(low), 6) for i, (low, _) in exponential(epsilon=2).distribution([0, 1]).items()}
        {0: 0.268941, 1: 0.731059}
        """
        return exponential_law(value, Fraction(self.epsilon) / 2, bits)

    def accuracy(self, beta: Number, candidates: int = 2, optimal: int = 1) -> float:
        """How far the chosen score is from the best, except with probability `beta`: (2 / epsilon) ln(candidates / (optimal * beta)).

        `optimal` is a public lower bound on the number of candidates that share the best score; one is always true.

        >>> exponential(epsilon=1).accuracy(0.05, candidates=3)
        8.18868...
        """
        total, best = count("candidates", candidates), count("optimal", optimal)
        if best > total:
            raise ParameterError(f"optimal must be at most candidates, and {best} > {total}")
        chance = positive("beta", probability("beta", beta))
        return above(2 / float(self.epsilon) * max(0.0, math.log(total / best) - math.log(chance))) if total > best else 0.0

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, candidates: int = 2, optimal: int = 1) -> Self:
        """The mechanism with the least epsilon whose chosen score is within `alpha` of the best except with probability `beta`.

        >>> exponential(epsilon=1).for_accuracy(10, 0.05, candidates=3).accuracy(0.05, candidates=3) <= 10
        True
        """
        return cls(least_epsilon(lambda epsilon: cls(epsilon).accuracy(beta, candidates, optimal), alpha))

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Number = 1, *, monotone: bool = False) -> Self:
        """The mechanism that costs exactly `epsilon` for scores of this sensitivity.

        >>> exponential(1).for_epsilon(1, sensitivity=4)
        Exponential(epsilon=Fraction(1, 4))
        """
        return cls(Fraction(positive("epsilon", epsilon)) * (2 if monotone else 1) / Fraction(positive("sensitivity", sensitivity)))

    def probabilities(self, scores: Sequence[Number], bits: int = 128) -> list[tuple[Fraction, Fraction]]:
        """Each candidate's probability for *public* scores (in real units), between two fractions. For audits: nothing is drawn.

        >>> low, high = exponential(2).probabilities([0, 1])[1]
        >>> low <= high, round(float(low), 6)
        (True, 0.731059)
        """
        exact = [Fraction(score) for score in scores]
        weights = [exp_bounds((max(exact) - score) * Fraction(self.epsilon) / 2, bits) for score in exact]
        low, high = sum(w[0] for w in weights), sum(w[1] for w in weights)
        return [(Fraction(w[0], w[0] + high - w[1]), Fraction(w[1], w[1] + low - w[0])) for w in weights]


def exponential(epsilon: Number) -> Exponential:
    """The exponential mechanism on a vector of scores: weights exp(epsilon * score / 2); it costs epsilon for each unit of sensitivity.

    >>> exponential(epsilon=0.5)
    Exponential(epsilon=0.5)
    """
    return Exponential(epsilon)
