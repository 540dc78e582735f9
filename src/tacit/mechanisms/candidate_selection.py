"""Private selection over candidates: try a private mechanism many times, publish only the best try, pay for about two or three.

The number of tries is random, drawn once from a public law, and secret. That makes the price independent of it: with a fixed
number of tries, or one that is published, the price would grow with it. The score may look at a try's output only: the
private mechanism itself must compute it, for instance as part of what it returns. The time taken tells how many tries there
were, which is outside the guarantee; hide it where an attacker can measure it.

>>> from tacit.accounting import account
>>> from tacit.calculus import AddRemove, Integers, Rows, Space
>>> from tacit.mechanisms.quantile import median
>>> rows = Space(Rows(Integers(0, 100)), AddRemove())
>>> tries = candidate_selection([rows >> median(epsilon=Fraction(1, 10))], score=lambda value: -value, mean=10)
>>> plan = rows >> tries
>>> plan.event(1)
Selection(event=Exponential(epsilon=Fraction(1, 10), monotone=False), mean=10, shape=1)
>>> account(plan.event(1)).epsilon(1e-9).upper <= 0.3
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

from tacit.accounting import Event, NoOp, ParameterError, Selection, gamma_for, mean_for
from tacit.calculus import CalculusError, Measurement, Space
from tacit.mechanisms.mechanism import Mechanism
from tacit.noise import bernoulli, uniform_integers
from tacit.parameters import Number, nonnegative, number, positive, probability

Score = Callable[[Any], float]
POISSON = math.inf


def stop_for(mean: Number, shape: Number) -> Fraction:
    """The parameter gamma of the truncated negative binomial as a fraction, rounded up: the mean is at most `mean`.

    >>> stop_for(10, 1)
    Fraction(1, 10)
    """
    exact = Fraction(positive("mean", mean))
    if shape == 1 or exact == 1:
        return 1 / exact
    gamma = gamma_for(mean, shape)
    while gamma < 1 and mean_for(gamma, shape) > float(exact) * (1 - 1e-12):
        gamma *= 1 + 1e-12
    return min(Fraction(gamma), Fraction(1))


def draw_runs(mean: Number, shape: Number) -> int:
    """How many tries: a truncated negative binomial law of this mean and shape (1 geometric, 0 logarithmic), or Poisson for infinity.

    >>> draw_runs(1, 1), draw_runs(5, 0) >= 1, draw_runs(Fraction(1, 10**9), POISSON)
    (1, True, 0)
    """
    if shape == POISSON:
        return _poisson(Fraction(positive("mean", mean)))
    eta, gamma = Fraction(nonnegative("shape", shape)), stop_for(mean, shape)
    if gamma == 1:
        return 1
    while True:
        runs = _negative_binomial(eta, gamma) if eta > 1 else _thinned(eta, gamma)
        if runs:
            return runs


def _failures(gamma: Fraction) -> int:
    """k with probability gamma (1 - gamma)^k: coins until the first that stops."""
    total, block = 0, max(16, math.ceil(2 / gamma))
    while True:
        stops = bernoulli(gamma, size=min(block, 1 << 16)).nonzero()[0]
        if len(stops):
            return total + int(stops[0])
        total += min(block, 1 << 16)


def _thinned(eta: Fraction, gamma: Fraction) -> int:
    """k >= 1 with probability proportional to (1 - gamma)^k prod_(1 <= i < k) (i + eta)/(i + 1), for 0 <= eta <= 1.

    A geometric k is kept with the probability of the product, a coin for each factor; 0 stands for one that is not kept.
    """
    runs = 1 + _failures(gamma)
    if eta == 0:
        return runs if bernoulli(Fraction(1, runs)) else 0
    return runs if eta == 1 or all(bernoulli((i + eta) / (i + 1)) for i in range(1, runs)) else 0


def _negative_binomial(eta: Fraction, gamma: Fraction) -> int:
    """k >= 0 with the negative binomial law of any shape: a sum of geometric laws and one of a shape below 1."""
    total = sum(_failures(gamma) for _ in range(math.floor(eta)))
    rest = eta - math.floor(eta)
    while rest:
        tries = _failures(gamma)
        if all(bernoulli((i + rest) / (i + 1)) for i in range(tries)):
            return total + tries
    return total


def _poisson(mean: Fraction) -> int:
    """A Poisson number, as the sum of Poisson numbers with means up to 1: k of chance 2^-(k+1), kept with chance (2 m)^k / (2 k!)."""
    parts = math.ceil(mean)
    total, each = 0, mean / parts
    for _ in range(parts):
        while True:
            k = _failures(Fraction(1, 2))
            if bernoulli((2 * each) ** k / (2 * math.factorial(k))):
                total += k
                break
    return total


@dataclass(frozen=True)
class CandidateSelection(Mechanism):
    """The best of a random number of tries, each of a candidate drawn at random.

    Guarantee
        Statement: `Selection` of the event that all candidates share: for pure epsilon and a negative binomial number of tries,
        (2 + shape) epsilon, whatever the mean and the number of candidates.
        Conditions: each try is independent; candidates are public and have the same event at every distance; `score` is a function of the
        output alone; the number of tries is not published. Where Poisson gives no try the answer is None.
        Proved in: Liu and Talwar 2019, Theorem 1.3; Papernot and Steinke 2022, Theorems 2 and 6. A try of a candidate drawn at random has
        the candidates' common price, as which one it is does not depend on the data. Earlier tries win ties: given their
        number tries are exchangeable, so that is a tie broken at random, part of a total order fixed in advance.
    """

    candidates: tuple[Measurement, ...]
    score: Score = field(compare=False, repr=False)
    mean: Number
    shape: Number = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        if not self.candidates or not all(isinstance(each, Measurement) for each in self.candidates):
            raise ParameterError("candidates must be measurements such as rows >> median(epsilon=1), at least one")
        object.__setattr__(self, "mean", positive("mean", self.mean))
        if number("shape", self.shape) < 0:
            raise ParameterError(f"shape must be zero or more, or infinite for a Poisson number of tries, not {self.shape}")
        if self.shape != POISSON and self.mean < 1:
            raise ParameterError(f"mean must be at least 1 for a number of tries of at least one, not {self.mean}")

    def bind(self, space: Space) -> Measurement:
        bound = tuple(candidate.bind(space) for candidate in self.candidates)
        if len({repr(candidate.event(1)) for candidate in bound}) > 1:
            raise CalculusError("all candidates must have the same event: calibrate them to one price, so that the choice costs the same")

        def run(data: Any) -> Any:
            best, top = None, -math.inf
            for turn in range(draw_runs(self.mean, self.shape)):
                output = bound[uniform_integers(len(bound))].function(data)
                value = _finite(self.score(output))
                if turn == 0 or value > top:
                    best, top = output, value
            return best

        def privacy(distance: Number) -> Event:
            events = {repr(event): event for event in (candidate.privacy(distance) for candidate in bound)}
            if len(events) > 1:
                raise CalculusError(f"candidates have different events at distance {distance}; calibrate them to one price")
            event = next(iter(events.values()))
            return NoOp() if isinstance(event, NoOp) else Selection(event, self.mean, self.shape)

        unproved = tuple(dict.fromkeys(claim for candidate in bound for claim in candidate.unproved))
        proof = None if unproved else "Liu and Talwar 2019, Theorem 1.3; Papernot and Steinke 2022, Theorems 2 and 6"
        return Measurement(space, run, privacy, f"candidate_selection(mean={self.mean}, shape={self.shape})", proof, unproved)

    def missed(self, share: Number) -> float:
        """The probability that no try is among the best `share` of all possible ones: the generating function of the number at 1 - share.

        With a geometric number of mean m it is (1 - share) / (1 + (m - 1) share).
        """
        s = float(probability("share", share))
        if self.shape == POISSON:
            return math.exp(-float(self.mean) * s)
        gamma, eta = float(stop_for(self.mean, self.shape)), float(self.shape)
        if gamma == 1:
            return 1 - s
        left = (1 - gamma) * (1 - s)
        if eta == 0:
            return math.log1p(-left) / math.log(gamma)
        return math.expm1(-eta * math.log1p(-left)) / math.expm1(-eta * math.log(gamma))

    def accuracy(self, beta: Number) -> float:
        """The share of all possible tries that the published one is among, except with probability `beta`: `missed(share) <= beta`."""
        chance = float(positive("beta", probability("beta", beta)))
        if self.missed(1) > chance:
            return math.inf
        low, high = 0.0, 1.0
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self.missed(middle) <= chance else (middle, high)
        return high

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, candidates: Sequence[Measurement] = (), score: Score = float, shape: Number = 1
    ) -> Self:
        """With about the least mean for which the published try is among the best share `alpha`, except with probability `beta`."""
        share, chance = positive("alpha", probability("alpha", alpha)), positive("beta", probability("beta", beta))

        def fails(mean: Fraction) -> bool:
            return cls(tuple(candidates), score, mean, shape).missed(share) > chance

        low = high = Fraction(1)
        while fails(high):
            low, high = high, 2 * high
        while high - low > high / 1000:
            middle = (low + high) / 2
            low, high = (middle, high) if fails(middle) else (low, middle)
        return cls(tuple(candidates), score, high, shape)


def _finite(value: Any) -> float:
    """A score as a number; what is not a number ranks last."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return -math.inf
    return -math.inf if math.isnan(found) else found


def candidate_selection(candidates: Sequence[Measurement], score: Score, mean: Number, shape: Number = 1) -> CandidateSelection:
    """The best of a random number of private tries: about `mean` of them; shape 1 geometric, 0 logarithmic, infinite Poisson."""
    return CandidateSelection(tuple(candidates), score, mean, shape)
