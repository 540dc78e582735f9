"""Permute and flip: the exponential mechanism's better sibling. Candidates in random order, a coin for each, the first head wins.

The best candidate's coin always shows heads, so one pass suffices. Its expected error is never larger than the exponential mechanism's at
the same epsilon, and at best half of it.

>>> from tacit.calculus import Integers, LInfinity, Space, Vectors
>>> plan = Space(Vectors(Integers(), 3), LInfinity()) >> permute_and_flip(epsilon=1)
>>> plan.release([0, 10_000, 3])
Release(1, PureDP(epsilon=Fraction(1, 1)))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from tacit.accounting import Event, NoOp, PureDP
from tacit.calculus import Measurement, Space
from tacit.mechanisms.exponential import above, as_array, scores_of
from tacit.mechanisms.mechanism import Mechanism
from tacit.noise import bernoulli_exp, permutation
from tacit.parameters import Number, count, positive, probability


@dataclass(frozen=True)
class PermuteAndFlip(Mechanism):
    """In random order, candidate i is taken with probability exp(epsilon * (score_i - best) / 2).

    Guarantee
        Statement: at L-infinity distance d of the scores, epsilon * d-DP; half of that where scores are monotone or d is in L1.
        Conditions: candidates are public; scores are whole numbers (of granules).
        Proved in: McKenna and Sheldon 2020, Theorem 1; never worse than the exponential mechanism by their Theorem 3. The same law as
        `noisy_max` with exponential noise of scale 2 / epsilon (Ding et al. 2021), which gives a second proof.
        Note: unlike the exponential mechanism it has no bounded range of width epsilon, so its event is a pure guarantee.
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def bind(self, space: Space) -> Measurement:
        scores = scores_of(space, "permute_and_flip")
        rate = Fraction(self.epsilon) / 2

        def run(values: Any) -> int:
            found: list[int] = as_array(values).tolist()
            best = max(found)
            for candidate in permutation(scores.length).tolist():
                if bernoulli_exp((best - found[candidate]) * scores.granularity * rate):
                    return int(candidate)
            return found.index(best)  # never reached: the best one's coin is certain

        def privacy(distance: Number) -> Event:
            price = rate * scores.spread(distance)
            return PureDP(price) if price else NoOp()

        return Measurement(
            space, run, privacy, f"permute_and_flip(epsilon={self.epsilon})", "McKenna and Sheldon 2020, Theorem 1",
            accuracy=lambda beta: self.accuracy(beta, candidates=scores.length),
        )  # fmt: skip

    def accuracy(self, beta: Number, candidates: int = 2) -> float:
        """How far the chosen score is from the best, except with probability `beta`: (2 / epsilon) ln((candidates - 1) / beta).

        A candidate that is worse by t has a coin with heads at most exp(-epsilon t / 2) of the time, and there are candidates - 1 of them.

        >>> permute_and_flip(epsilon=1).accuracy(0.05, candidates=3)
        7.37775...
        """
        total, chance = count("candidates", candidates), positive("beta", probability("beta", beta))
        return above(2 / float(self.epsilon) * max(0.0, math.log(total - 1) - math.log(chance))) if total > 1 else 0.0

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, candidates: int = 2) -> Self:
        """The mechanism with the least epsilon whose chosen score is within `alpha` of the best except with probability `beta`.

        >>> permute_and_flip(1).for_accuracy(10, 0.05, candidates=3).accuracy(0.05, candidates=3) <= 10
        True
        """
        error = float(positive("alpha", alpha))
        found = cls(above(cls(1).accuracy(beta, candidates) / error) or 1)
        while found.accuracy(beta, candidates) > error:
            found = cls(above(float(found.epsilon)))
        return found

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Number = 1, *, monotone: bool = False) -> Self:
        """The mechanism that costs exactly `epsilon` for scores of this sensitivity.

        >>> permute_and_flip(1).for_epsilon(1, sensitivity=4)
        PermuteAndFlip(epsilon=Fraction(1, 4))
        """
        return cls(Fraction(positive("epsilon", epsilon)) * (2 if monotone else 1) / Fraction(positive("sensitivity", sensitivity)))


def permute_and_flip(epsilon: Number) -> PermuteAndFlip:
    """Permute and flip on a vector of scores; it costs epsilon for each unit of sensitivity.

    >>> permute_and_flip(epsilon=0.5)
    PermuteAndFlip(epsilon=0.5)
    """
    return PermuteAndFlip(epsilon)
