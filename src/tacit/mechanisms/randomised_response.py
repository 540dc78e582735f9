"""Randomised response: each person answers a question with a known chance of not telling the truth.

`from_coins` is Warner's interview with two coins; `randomised_response` spends a given epsilon on one of k categories. Draws
are exact: the odds of a true answer are e^epsilon to 1, not a float near it. Both estimate shares from the reports.

>>> coins = from_coins()
>>> round(coins.epsilon, 7), coins.estimate(yes=400, n=1000)  # ln 3; 300 of 1000 have the property
(1.0986123, 300.0)
>>> mechanism = randomised_response(epsilon=1)
>>> round(mechanism.keep, 7), round(mechanism.n_required(alpha=0.01, beta=0.05))
(0.7310586, 234135)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit import noise
from tacit.accounting import Event, NoOp, ParameterError, PureDP, RandomizedResponse, Repeated
from tacit.calculus import Categories, DomainError, Hamming, Integers, Measurement, MetricError, ReplaceOne, Rows, Space, Vectors, as_number
from tacit.mechanisms.accuracy import failure, rounded_up
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.verify import Interval, exp_bracket, max_divergence
from tacit.parameters import Number, count, positive, probability

Interval_ = tuple[float, float]
How = Literal["chebyshev", "normal", "hoeffding"]
PROOF = "Warner 1965; textbook Theorem 1.17; k categories: Kairouz, Bonawitz, Ramage 2016"


@dataclass(frozen=True)
class RandomisedResponse(Mechanism):
    """Reports the true one of k categories with odds e^epsilon to 1 against each other one.

    Guarantee
        Statement: for any two true answers of one person the report costs RandomizedResponse(epsilon, k), which is epsilon-DP and
        attains it; d people who change their answers cost d of them.
        Conditions: replace-one in one person's answer (a local protocol: no collector is trusted). In order under `Hamming`; under
        `ReplaceOne` the reports are sorted, since the order of the rows would otherwise tell.
        Proved in: the ratio of two columns of the channel is e^epsilon, 1 or e^-epsilon.
        Correction: the textbook's estimator has (p - 1) outside the sum over people (E1); it belongs inside:
        (mean - (1 - p)) / (2p - 1). A wrong answer has probability 1 - p, not p (E7).
    """

    epsilon: Number
    categories: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "categories", count("categories", self.categories, least=2))

    @property
    def keep(self) -> float:
        """The probability p of a true answer, e^epsilon / (e^epsilon + k - 1)."""
        return 1 / (1 + (self.categories - 1) * math.exp(-float(self.epsilon)))

    @property
    def each_other(self) -> float:
        """The probability q of each other answer."""
        shrink = math.exp(-float(self.epsilon))
        return shrink / (1 + (self.categories - 1) * shrink)

    @property
    def gap(self) -> float:
        """p - q, by which estimates divide: tanh(epsilon/2) for two categories."""
        return -math.expm1(-float(self.epsilon)) / (1 + (self.categories - 1) * math.exp(-float(self.epsilon)))

    def bind(self, space: Space) -> Measurement:
        element = space.domain.element if isinstance(space.domain, (Rows, Vectors)) else None
        if isinstance(element, Categories):
            listed: tuple[Any, ...] = element.values
        elif isinstance(element, Integers) and element.lower == 0 and element.upper is not None:
            listed = tuple(range(element.upper + 1))
        else:
            raise DomainError(f"randomised_response needs rows of public categories, or of integers from 0, not {space.domain}")
        if len(listed) != self.categories:
            raise DomainError(f"categories is {self.categories} and the domain has {len(listed)}; make them agree")
        if not isinstance(space.metric, (Hamming, ReplaceOne)):
            raise MetricError(f"every person answers, so their number is public: use Hamming() or ReplaceOne(), not {space.metric}")
        ordered = isinstance(space.metric, Hamming)
        place = {value: index for index, value in enumerate(listed)}
        whole = isinstance(element, Integers)

        def function(data: Any) -> Any:
            given = data.tolist() if isinstance(data, np.ndarray) else data
            reports = self.privatise(np.array([place.get(value, 0) for value in given], dtype=np.int64))
            reports = reports if ordered else np.sort(reports)
            return reports if whole else [listed[index] for index in reports.tolist()]

        def privacy(distance: Number) -> Event:
            people = math.floor(distance)
            one = RandomizedResponse(self.epsilon, self.categories)
            return NoOp() if not people else one if people == 1 else Repeated(one, people)

        return Measurement(space, function, privacy, f"randomised_response({self.epsilon}, {self.categories})", PROOF)

    def privatise(self, answers: NDArray[Any] | Sequence[int] | int) -> Any:
        """Reports for true answers 0 .. k - 1, drawn exactly. What is not a category counts as category 0, without an error.

        >>> randomised_response(1000, 3).privatise([0, 2, 1]).tolist()
        [0, 2, 1]
        """
        if isinstance(answers, int):
            return int(self.privatise(np.array([answers]))[0])
        if isinstance(answers, np.ndarray) and answers.dtype.kind not in "iub":
            raise ParameterError(f"answers must be integers 0 to {self.categories - 1}, not an array of {answers.dtype}")
        # Of a list each answer is read by itself: one that is no whole number would make numpy read all of them as floats or texts.
        given = answers.astype(np.int64) if isinstance(answers, np.ndarray) else np.array([_whole(one) for one in answers], np.int64)
        known = np.where((given >= 0) & (given < self.categories), given, 0)
        # the report is the truth moved round by a step that is 0 with odds e^epsilon to 1 against each other one
        moved = noise.choose([self.epsilon] + [0] * (self.categories - 1), size=given.shape)
        return (known + moved) % self.categories

    def estimate(self, reports: NDArray[Any] | Sequence[int]) -> NDArray[np.float64]:
        """Unbiased estimates of the share of each category among the people who reported.

        >>> randomised_response(1).estimate([1, 1, 1, 0]).round(4).tolist()
        [-0.041, 1.041]
        """
        found = np.asarray(reports, dtype=np.int64)
        if not found.size:
            raise ParameterError("reports is empty; give the report of at least one person")
        seen = np.bincount(np.clip(found, 0, self.categories - 1), minlength=self.categories) / found.size
        return np.asarray((seen - self.each_other) / self.gap)

    def estimate_share(self, reports: NDArray[Any] | Sequence[int], category: int = 1) -> float:
        """The estimate for one category; for two, (mean - (1 - p)) / (2p - 1)."""
        return float(self.estimate(reports)[count("category", category, least=0)])

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of an estimated share given the people's true answers; for two categories it does not depend on them.

        q(1 - q) / (p - q)^2 for a category that no person holds, e^epsilon / (e^epsilon - 1)^2 for two categories, over n.

        >>> round(randomised_response(1).variance(1), 6), round(randomised_response(1, 4).variance(1), 5)
        (0.920674, 1.59807)
        """
        p, q = self.keep, self.each_other
        held = float(probability("share", share))
        return (held * p * (1 - p) + (1 - held) * q * (1 - q)) / self.gap**2 / count("n", n)

    def worst_variance(self, n: int) -> float:
        """The variance of an estimated share over people drawn from a population, at its largest: 1 / (4 (p - q)^2 n)."""
        return 1 / (4 * self.gap**2 * count("n", n))

    def radius(self, n: int, beta: Number, how: How = "chebyshev") -> float:
        """How far the estimate of one share is from the population's, except with probability beta.

        Chebyshev and Hoeffding hold for every n; `normal` is the usual approximation, and no bound.

        >>> [round(randomised_response(1).radius(1000, 0.05, how), 6) for how in ("chebyshev", "hoeffding", "normal")]
        [0.153015, 0.092935, 0.06706]
        """
        fail = failure(beta)
        match how:
            case "chebyshev":
                return rounded_up(math.sqrt(self.worst_variance(n) / fail))
            case "hoeffding":
                return rounded_up(math.sqrt(math.log(2 / fail) / (2 * count("n", n))) / self.gap)
            case "normal":
                return float(-ndtri(fail / 2)) * math.sqrt(self.worst_variance(n))
        raise ParameterError(f"how must be 'chebyshev', 'hoeffding' or 'normal', not {how!r}")

    def ci(self, reports: NDArray[Any] | Sequence[int], beta: Number = 0.05, how: How = "hoeffding", category: int = 1) -> Interval_:
        """An interval for the population's share of a category that misses it with probability at most beta."""
        centre, width = self.estimate_share(reports, category), self.radius(len(reports), beta, how)
        return centre - width, centre + width

    def n_required(self, alpha: Number, beta: Number) -> int:
        """How many people give an error within alpha except with probability beta, by Chebyshev.

        >>> randomised_response(0.1).n_required(0.01, 0.05)
        20033342
        """
        return math.ceil(rounded_up(1 / (4 * failure(beta) * self.gap**2 * float(positive("alpha", alpha)) ** 2)))

    @classmethod
    def eps_required(cls, alpha: Number, beta: Number, n: int) -> float:
        """The epsilon at which n people answering yes or no give an error within alpha except with probability beta, by Chebyshev.

        >>> round(RandomisedResponse.eps_required(0.01, 0.05, 20033342), 6)
        0.1
        """
        needed = 1 / (2 * float(positive("alpha", alpha)) * math.sqrt(failure(beta) * count("n", n)))
        if needed >= 1:
            raise ParameterError(f"no epsilon suffices: true answers of {n} people err by more than alpha; ask more, or raise alpha")
        return rounded_up(2 * math.atanh(needed))

    def accuracy(self, beta: Number, *, n: int = 1) -> float:
        """The error of an estimated share over n people that is exceeded with probability at most beta."""
        return min(self.radius(n, beta, "chebyshev"), self.radius(n, beta, "hoeffding"))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, n: int = 1) -> Self:
        """The smallest epsilon for yes or no at which n people give an error within alpha except with probability beta.

        >>> round(RandomisedResponse.for_accuracy(0.05, 0.05, n=10_000).epsilon, 4)
        0.5572
        """
        wide = math.sqrt(min(1 / (4 * failure(beta)), math.log(2 / failure(beta)) / 2) / count("n", n)) / float(positive("alpha", alpha))
        if wide >= 1:
            raise ParameterError(f"no epsilon suffices: true answers of {n} people err by more than alpha; ask more, or raise alpha")
        return cls(rounded_up(2 * math.atanh(wide) * (1 + 1e-12)))

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        """The probability of every report, each between two fractions."""
        true = count("value", value, least=0)
        if true >= self.categories:
            raise ParameterError(f"value must be below categories, {self.categories}")
        low, high = exp_bracket(self.epsilon, bits)
        others = self.categories - 1
        kept = (low / (low + others), high / (high + others))
        other = (1 / (high + others), 1 / (low + others))
        return {report: kept if report == true else other for report in range(self.categories)}


@dataclass(frozen=True)
class CoinResponse:
    """A yes-or-no answer by two coins: with probability `truth` the truth, else yes with probability `yes`. All in fractions."""

    truth: Fraction = Fraction(1, 2)
    yes: Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        object.__setattr__(self, "truth", Fraction(probability("truth", self.truth)))
        object.__setattr__(self, "yes", Fraction(probability("yes", self.yes)))
        if self.truth == 0:
            raise ParameterError("truth must be positive: answers that never depend on the truth cannot be estimated from")

    def chance(self, has: bool) -> Fraction:
        """P[yes] for a person who has the property, or has not.

        >>> CoinResponse().chance(True), CoinResponse().chance(False)
        (Fraction(3, 4), Fraction(1, 4))
        """
        return self.truth * has + (1 - self.truth) * self.yes

    def distribution(self, value: bool, *, bits: int = 128) -> dict[int, Fraction]:
        """The probability of no (0) and yes (1)."""
        return {0: 1 - self.chance(value), 1: self.chance(value)}

    @property
    def epsilon(self) -> float:
        """The exact price, rounded up; infinite where an answer can give a person away."""
        return max_divergence(self.distribution(True), self.distribution(False)).upper

    @property
    def event(self) -> Event:
        """The price as an event; coins with a fair second toss are randomised response, others any mechanism of their epsilon."""
        if self.epsilon == math.inf:
            raise ParameterError("these coins give some people away: truth must be below 1 and yes strictly between 0 and 1")
        return RandomizedResponse(self.epsilon) if self.yes == Fraction(1, 2) else PureDP(self.epsilon)

    def privatise(self, answers: NDArray[Any] | Sequence[int]) -> NDArray[np.int64]:
        """Reports (0 or 1) for true answers; both coins are tossed for every person."""
        given = answers if isinstance(answers, np.ndarray) else np.array([_whole(one) != 0 for one in answers], dtype=bool)
        first = noise.bernoulli(self.truth, given.shape)
        second = noise.bernoulli(self.yes, given.shape)
        return np.where(first == 1, given.astype(bool).astype(np.int64), second)

    def estimate(self, yes: int, n: int) -> float:
        """How many of n people have the property, from the number of yes: unbiased; 2 yes - n/2 for two fair coins."""
        return float((Fraction(yes) - n * (1 - self.truth) * self.yes) / self.truth)

    def accuracy(self, beta: Number, *, n: int = 1) -> float:
        """The error of an estimated share over n people drawn from a population that is exceeded with probability at most beta.

        By Hoeffding, or by Chebyshev with a variance of at most 1/4 a report, whichever is less.

        >>> round(from_coins().accuracy(0.05, n=10_000), 6)
        0.027162
        """
        fail = failure(beta)
        wide = math.sqrt(min(1 / (4 * fail), math.log(2 / fail) / 2) / count("n", n))
        return rounded_up(wide / float(self.truth))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, n: int = 1, yes: Number = Fraction(1, 2)) -> Self:
        """The coins that tell the truth as seldom as n people allow who are to err within alpha except with probability beta.

        >>> found = CoinResponse.for_accuracy(0.05, 0.05, n=10_000)
        >>> found.accuracy(0.05, n=10_000) <= 0.05, round(found.epsilon, 4)
        (True, 0.5572)
        """
        goal = float(positive("alpha", alpha))
        needed = cls(Fraction(1), Fraction(yes)).accuracy(beta, n=n) / goal
        if needed >= 1:
            raise ParameterError(f"no coins suffice: true answers of {n} people err by more than alpha; ask more, or raise alpha")
        parts = 1 << 40  # a whole number of 2^-40 parts keeps draws exact and short
        truth = min(parts, math.ceil(rounded_up(needed * (1 + 1e-12)) * parts))
        return cls(Fraction(truth, parts), Fraction(yes))


def _whole(answer: object) -> int:
    """One answer as a whole number; -1 for what is none. It never raises."""
    found = as_number(answer)
    return int(found) if abs(found) < 2**62 and float(found).is_integer() else -1


def from_coins(p_truth: Number = Fraction(1, 2), p_yes: Number = Fraction(1, 2)) -> CoinResponse:
    """Warner's interview by coins: tell the truth with probability p_truth, else say yes with probability p_yes."""
    return CoinResponse(Fraction(p_truth), Fraction(p_yes))


def randomised_response(epsilon: Number, categories: int = 2) -> RandomisedResponse:
    """Randomised response over this many categories that costs epsilon a person."""
    return RandomisedResponse(epsilon, categories)
