"""Report noisy max: add noise to every score, and publish which candidate came out on top, never its noisy score.

Noise on integers makes ties, and ties need a rule with a proof. Here they need none, because the draw is that of continuous noise:

* exponential noise of scale b is a whole part, geometric of the same scale, plus a fraction that is independent of it. Scores are whole, so
  the candidate on top has the greatest score plus whole part, and among those that tie it is the one with the greatest of several
  independent fractions of one law: each with the same chance. *Geometric noise with ties broken at random is exponential noise.*
* the maximum with Gumbel noise is the exponential mechanism, and is drawn as that.

>>> from tacit.calculus import Integers, LInfinity, Space, Vectors
>>> plan = Space(Vectors(Integers(), 3), LInfinity()) >> noisy_max(scale=4)
>>> plan.release([0, 1_000, 3])
Release(1, PureDP(epsilon=Fraction(1, 2)))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self, get_args

import numpy as np

from tacit import accounting
from tacit.accounting import Event, NoOp, ParameterError, PureDP
from tacit.calculus import Measurement, Space
from tacit.calculus.domains import WORD
from tacit.mechanisms.exponential import Scores, above, as_array, scores_of
from tacit.mechanisms.mechanism import Mechanism
from tacit.noise import choose, geometric, uniform_integers
from tacit.parameters import Number, count, positive, probability

Noise = Literal["exponential", "gumbel"]


@dataclass(frozen=True)
class NoisyMax(Mechanism):
    """The candidate whose score plus noise of this scale is greatest.

    Guarantee
        Statement: at L-infinity distance d of the scores, (2 d / scale)-DP; d / scale where scores are monotone or d is in L1. Gumbel noise
        moreover has bounded range of that width.
        Conditions: candidates are public; scores are whole numbers (of granules); only the candidate is published.
        Proved in: Ding et al. 2021 (exponential noise; it is the permute-and-flip mechanism of McKenna and Sheldon 2020). In short: it
        depends on differences of scores only, so let all scores grow by between 0 and s, the spread. Given all other noise, candidate
        i wins if its own exceeds some t; t grows or falls by at most s, and P(noise > t) = exp(-max(t, 0) / scale) changes by at most a
        factor exp(s / scale). For Gumbel noise see `exponential`.
    """

    scale: Number
    noise: Noise = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        if self.noise not in get_args(Noise):
            raise ParameterError(f"noise must be one of {', '.join(get_args(Noise))}, not {self.noise!r}")

    def bind(self, space: Space) -> Measurement:
        scores = scores_of(space, "noisy_max")
        run, privacy, proof = self._exponential(scores) if self.noise == "exponential" else self._gumbel(scores)
        return Measurement(
            space, run, privacy, f"noisy_max(scale={self.scale}, noise={self.noise!r})", proof,
            accuracy=lambda beta: self.accuracy(beta, candidates=scores.length),
        )  # fmt: skip

    def _exponential(self, scores: Scores) -> tuple[Callable[[Any], int], Callable[[Number], Event], str]:
        granules = Fraction(self.scale) / scores.granularity

        def run(values: Any) -> int:
            found, noise = as_array(values), geometric(granules, size=scores.length)
            if noise.dtype == object or int(noise.max()) >= WORD:  # scores are at most WORD, so that otherwise sums stay below 2^63
                found, noise = found.astype(object), noise.astype(object)
            noisy = found + noise
            top = np.flatnonzero(noisy == noisy.max())
            return int(top[uniform_integers(len(top))])

        def privacy(distance: Number) -> Event:
            price = scores.spread(distance) / Fraction(self.scale)
            return PureDP(price) if price else NoOp()

        return run, privacy, "Ding et al. 2021; McKenna and Sheldon 2020, Theorem 1"

    def _gumbel(self, scores: Scores) -> tuple[Callable[[Any], int], Callable[[Number], Event], str]:
        rate = 1 / Fraction(self.scale)

        def run(values: Any) -> int:
            return choose(as_array(values), multiplier=rate * scores.granularity)

        def privacy(distance: Number) -> Event:
            price = rate * scores.spread(distance)
            return accounting.Exponential(price, monotone=scores.one_sided) if price else NoOp()

        return run, privacy, "Gumbel noise is the exponential mechanism: Durfee and Rogers 2019, Lemma 4.2"

    def accuracy(self, beta: Number, candidates: int = 2) -> float:
        """How far the chosen score is from the best, except with probability `beta`: scale * ln(candidates / beta) with Gumbel noise.

        With exponential noise, candidates - 1: the best one's noise is at least 0, so only the noise of the others can be at fault.

        >>> noisy_max(scale=2).accuracy(0.05, candidates=3)
        7.37775...
        """
        total = count("candidates", candidates)
        chance = positive("beta", probability("beta", beta))
        others = total - 1 if self.noise == "exponential" else total
        return above(float(self.scale) * max(0.0, math.log(others) - math.log(chance))) if total > 1 else 0.0

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, candidates: int = 2) -> Self:
        """The mechanism with the largest scale whose chosen score is within `alpha` of the best except with probability `beta`.

        >>> noisy_max(1).for_accuracy(10, 0.05, candidates=3).accuracy(0.05, candidates=3) <= 10
        True
        """
        error = float(positive("alpha", alpha))
        unit = cls(1).accuracy(beta, candidates)
        found = cls(error / unit if unit else error)
        while found.accuracy(beta, candidates) > error:
            found = cls(math.nextafter(float(found.scale), 0.0))
        return found

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Number = 1, *, monotone: bool = False) -> Self:
        """The mechanism that costs exactly `epsilon` for scores of this sensitivity.

        >>> noisy_max(1).for_epsilon(1, sensitivity=4)
        NoisyMax(scale=Fraction(8, 1), noise='exponential')
        """
        return cls((1 if monotone else 2) * Fraction(positive("sensitivity", sensitivity)) / Fraction(positive("epsilon", epsilon)))


def noisy_max(scale: Number, noise: Noise = "exponential") -> NoisyMax:
    """Report noisy max with exponential or Gumbel noise of this scale, in the unit of the scores.

    >>> noisy_max(scale=2)
    NoisyMax(scale=2, noise='exponential')
    """
    return NoisyMax(scale, noise)
