"""Report noisy max: add noise to every score, and publish which candidate came out on top, never its noisy score.

Noise on integers makes ties, and ties need a rule with a proof. Here they need none, because the draw is that of continuous noise:

* exponential noise of scale b is a whole part, geometric of the same scale, plus a fraction that is independent of it. Scores are whole, so
  the candidate on top has the greatest score plus whole part, and among those that tie it is the one with the greatest of several
  independent fractions of one law: each with the same chance. *Geometric noise with ties broken at random is exponential noise.*
* the maximum with Gumbel noise is the exponential mechanism, and is drawn as that.

`permute_and_flip` has the law of exponential noise and draws it another way: candidates in random order, a coin for each, and
the first head wins. The best candidate's coin always shows heads, so one pass suffices. Its expected error is never larger
than the exponential mechanism's at the same epsilon, and at best half of it.

>>> from tacit.calculus import Integers, LInfinity, Space, Vectors
>>> plan = Space(Vectors(Integers(), 3), LInfinity()) >> noisy_max(scale=4)
>>> plan.release([0, 1_000, 3])
Release(1, PureDP(epsilon=Fraction(1, 2)))
>>> (Space(Vectors(Integers(), 3), LInfinity()) >> permute_and_flip(epsilon=1)).release([0, 10_000, 3])
Release(1, PureDP(epsilon=Fraction(1, 1)))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self, get_args

import numpy as np

from tacit.accounting import ParameterError
from tacit.calculus import WORD, Measurement, Space
from tacit.mechanisms.exponential import Scores, above, as_array, least_epsilon, scores_of
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.selection_laws import exponential_law, permute_and_flip_law
from tacit.mechanisms.verify import Interval
from tacit.noise import bernoulli_exp, choose, geometric, permutation, uniform_integers
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
        rate = 1 / Fraction(self.scale)
        run: Callable[[Any], int]
        if self.noise == "exponential":
            run, privacy = self._exponential(scores), scores.pure(rate)
            proof = "Ding et al. 2021; McKenna and Sheldon 2020, Theorem 1"
        else:
            run, privacy = (lambda values: choose(as_array(values), multiplier=rate * scores.granularity)), scores.bounded_range(rate)
            proof = "Gumbel noise is the exponential mechanism: Durfee and Rogers 2019, Lemma 4.2"
        name = f"noisy_max(scale={self.scale}, noise={self.noise!r})"
        return Measurement(
            space, run, privacy, name, proof, accuracy=lambda beta: self.accuracy(beta, candidates=scores.length)
        )

    def distribution(self, value: Sequence[Number], *, bits: int = 128) -> dict[int, Interval]:
        """The probability of every candidate for these scores, enclosed in fractions.

        >>> {i: round(float(low), 6) for i, (low, _) in noisy_max(scale=1).distribution([0, 1]).items()}
        {0: 0.18394, 1: 0.81606}
        """
        rate = 1 / Fraction(self.scale)
        return permute_and_flip_law(value, rate, bits) if self.noise == "exponential" else exponential_law(value, rate, bits)

    def _exponential(self, scores: Scores) -> Callable[[Any], int]:
        granules = Fraction(self.scale) / scores.granularity

        def run(values: Any) -> int:
            found, noise = as_array(values), geometric(granules, size=scores.length)
            if noise.dtype == object or int(noise.max()) >= WORD:  # scores are at most WORD, so that otherwise sums stay below 2^63
                found, noise = found.astype(object), noise.astype(object)
            noisy = found + noise
            top = np.flatnonzero(noisy == noisy.max())
            return int(top[uniform_integers(len(top))])

        return run

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

        name, proof = f"permute_and_flip(epsilon={self.epsilon})", "McKenna and Sheldon 2020, Theorem 1"
        return Measurement(
            space, run, scores.pure(rate), name, proof, accuracy=lambda beta: self.accuracy(beta, candidates=scores.length)
        )

    def distribution(self, value: Sequence[Number], *, bits: int = 128) -> dict[int, Interval]:
        """The probability of every candidate for these scores, enclosed in fractions.

        >>> {i: round(float(low), 6) for i, (low, _) in permute_and_flip(epsilon=2).distribution([0, 1]).items()}
        {0: 0.18394, 1: 0.81606}
        """
        return permute_and_flip_law(value, Fraction(self.epsilon) / 2, bits)

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
        return cls(least_epsilon(lambda epsilon: cls(epsilon).accuracy(beta, candidates), alpha))

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
