"""Noisy top-k: the k best candidates in order, by peeling: choose one with the exponential mechanism, set it aside, repeat.

It has the same law as Gumbel noise on all scores and the k greatest in order (Durfee and Rogers 2019). Its price is that of
k bounded-range mechanisms, which the accountant composes tightly.

>>> from tacit.accounting import PureDP, Repeated, account
>>> from tacit.calculus import Integers, LInfinity, Space, Vectors
>>> plan = Space(Vectors(Integers(), 40), LInfinity()) >> top_k(20, epsilon=Fraction(1, 10))
>>> plan.event(1)
Repeated(event=Exponential(epsilon=Fraction(1, 10), monotone=False), count=20)
>>> sharp, plain = (account(e).epsilon(1e-6).upper for e in (plan.event(1), Repeated(PureDP(0.1), 20)))
>>> round(sharp, 2), round(plain, 2)
(0.98, 1.79)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit import accounting
from tacit.accounting import Event, NoOp, Repeated
from tacit.calculus import DomainError, Measurement, Space
from tacit.mechanisms.exponential import above, as_array, least_epsilon, scores_of
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.selection_laws import top_k_law
from tacit.mechanisms.verify import Interval
from tacit.noise import choose
from tacit.parameters import Number, count, positive, probability


@dataclass(frozen=True)
class TopK(Mechanism):
    """k candidates in order, each chosen from those left with probability proportional to exp(epsilon * score / 2).

    Guarantee
        Statement: a composition of k mechanisms of bounded range epsilon * d at L-infinity distance d of the scores; epsilon * d / 2 each
        where scores are monotone or d is in L1. In particular k * epsilon * d-DP.
        Conditions: candidates are public; scores are whole numbers (of granules); noisy scores are not published.
        Proved in: Durfee and Rogers 2019, Lemmas 4.1 and 4.2 (peeling is one-shot Gumbel); composition: Dong, Durfee and Rogers 2020,
        through the pair that dominates every mechanism of that range, as each choice depends on those before.
    """

    k: int
    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", count("k", self.k))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def bind(self, space: Space) -> Measurement:
        scores = scores_of(space, "top_k")
        if self.k > scores.length:
            raise DomainError(f"k must be at most the number of candidates, and {self.k} > {scores.length}")
        rate = Fraction(self.epsilon) / 2

        def run(values: Any) -> list[int]:
            left, places, found = as_array(values), np.arange(scores.length), []
            for _ in range(self.k):
                place = choose(left, multiplier=rate * scores.granularity)
                found.append(int(places[place]))
                left, places = np.delete(left, place), np.delete(places, place)
            return found

        each = scores.bounded_range(rate)

        def privacy(distance: Number) -> Event:
            event = each(distance)
            return event if isinstance(event, NoOp) else Repeated(event, self.k)

        name, proof = f"top_k({self.k}, epsilon={self.epsilon})", "Durfee and Rogers 2019, Lemmas 4.1 and 4.2"
        return Measurement(
            space, run, privacy, name, proof, accuracy=lambda beta: self.accuracy(beta, candidates=scores.length)
        )

    def distribution(self, value: Sequence[Number], *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        """The probability of every ordered choice for these scores, enclosed in fractions.

        >>> round(float(top_k(2, epsilon=2).distribution([0, 0, 1])[2, 0][0]), 6)
        0.288058
        """
        return top_k_law(value, self.k, Fraction(self.epsilon) / 2, bits)

    def accuracy(self, beta: Number, candidates: int = 2) -> float:
        """Every chosen score is within this of the best score not chosen before it, except with probability `beta` for all k together.

        >>> top_k(5, epsilon=1).accuracy(0.05, candidates=100)
        18.42068...
        """
        total, chance = count("candidates", candidates), positive("beta", probability("beta", beta))
        return above(2 / float(self.epsilon) * max(0.0, math.log(total) + math.log(self.k) - math.log(chance))) if total > 1 else 0.0

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, candidates: int = 2, k: int = 1) -> Self:
        """The mechanism with the least epsilon that keeps an error of `alpha` except with probability `beta`.

        >>> top_k(5, 1).for_accuracy(10, 0.05, candidates=100, k=5).accuracy(0.05, candidates=100) <= 10
        True
        """
        return cls(k, least_epsilon(lambda epsilon: cls(k, epsilon).accuracy(beta, candidates), alpha))

    @classmethod
    def for_epsilon(cls, k: int, epsilon: Number, delta: Number = 0, sensitivity: Number = 1, *, monotone: bool = False) -> Self:
        """The mechanism that costs at most (epsilon, delta) in total for scores of this sensitivity.

        >>> top_k(1, 1).for_epsilon(10, 1)
        TopK(k=10, epsilon=Fraction(1, 10))
        >>> top_k(1, 1).for_epsilon(50, 1, delta=1e-6).epsilon > Fraction(1, 50)
        True
        """
        times = (2 if monotone else 1) / Fraction(positive("sensitivity", sensitivity))
        total, runs = Fraction(positive("epsilon", epsilon)), count("k", k)
        each = total / runs
        if delta:
            found = accounting.calibrate(
                lambda e: Repeated(accounting.Exponential(e), runs), epsilon=float(total), delta=float(delta), start=float(each)
            )
            each = max(each, Fraction(found))
        return cls(runs, each * times)


def top_k(k: int, epsilon: Number) -> TopK:
    """The k best candidates in order; each choice costs epsilon for each unit of sensitivity, in bounded range.

    >>> top_k(3, epsilon=0.5)
    TopK(k=3, epsilon=0.5)
    """
    return TopK(k, epsilon)
