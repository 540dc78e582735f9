"""Partition selection (set union): which keys may be published when the keys themselves come from private data.

A key that only one person has must hardly ever appear. Every person counts for at most `keys` keys, and a key is published by a noisy rule:
Laplace or Gaussian noise on the number of people who have it and a threshold; the optimal rule of Desfontaines et al.
2022; or several rounds, DP-SIPS. `best_selection` takes the one that is expected to keep most.

>>> from tacit.calculus import AddRemove, Anything, Rows, Space
>>> people = Space(Rows(Anything()), AddRemove())      # one row a person: the collection of keys she has
>>> plan = people >> optimal_selection(epsilon=1, delta=1e-6, keys=2)
>>> plan.release([{"flu"}] * 500 + [{"flu", "gout"}]).value
['flu']
>>> plan.event(1)
Repeated(event=ApproxDP(epsilon=1, delta=1e-06), count=2)

In a table, `Identifiers` names the person and `column` the key. Which keys count for a person with too many of them is drawn at random.
Keys are published in the order of their text, not of the data.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np

from tacit.accounting import ApproxDP, Composed, Event, Gaussian, Group, ParameterError, sigma_for
from tacit.mechanisms.exponential import above
from tacit.mechanisms.key_selection import (
    LONGEST,
    Array,
    Holdings,
    KeySelection,
    LaplaceSelection,
    OptimalSelection,
    checked_keys,
    identity,
    in_order,
    optimal_probabilities,
    optimal_selection,
    plain_key,
)
from tacit.noise import rounded_gaussian
from tacit.parameters import Number, count, positive, probability

__all__ = [
    "GaussianSelection", "Holdings", "KeySelection", "LaplaceSelection", "OptimalSelection", "SipsSelection", "best_selection", "identity",
    "optimal_probabilities", "optimal_selection", "plain_key",
]  # fmt: skip

FINE = 1 << 10  # granules of the Gaussian lattice in one person
STEPS = 20  # parts of delta that are shared out between noise and threshold
CAREFUL = 16  # up to so many keys of a person each number of them is bounded with care


def _gaussian_tail(x: float) -> float:
    """P(Z >= x) for a standard normal Z."""
    return math.erfc(x / math.sqrt(2)) / 2


def gaussian_tail_bound(bar: float, weight: float, sigma: float) -> float:
    """P(sigma Z >= bar - weight), rounded up.

    x = (bar - weight) / sigma is off by at most four roundings of (|bar| + |weight|) / sigma, and a step dx changes the tail by a factor of
    at most exp((|x| + 1) dx).
    """
    x, size = (bar - weight) / sigma, (abs(bar) + abs(weight)) / sigma
    return above(_gaussian_tail(x) * math.exp(min(1.0, (abs(x) + 2) * (size + abs(x) + 1) * 2.0**-50)))


@dataclass(frozen=True)
class GaussianSelection(KeySelection):
    """Keys whose weight plus Gaussian noise of deviation `sigma` reaches the threshold, with that noisy weight.

    A person with m keys gives each of them weight 1 / sqrt(m), so that all her weight has length 1 however many she has.

    Guarantee
        Statement: for d people coming or going, the composition of a Gaussian mechanism of noise multiplier sigma / d and of a
        (0, delta)-private one; for d = 1, delta is the most of m P(noise >= threshold - 1 / sqrt(m)) over m up to `keys`.
        Conditions: each person counts for at most `keys` keys, which is enforced; keys that nobody has are never published. Weights are
        rounded down to a lattice and the noise to the nearest point of it, which can only make the price smaller.
        Proved in: Gopi et al. 2020, Theorem 5.1 (weighted Gaussian); Wilson et al. 2020. As for `LaplaceSelection`, with lengths in
        place of sums. d people have at most keys * d keys of their own, each of weight at most d.
        Note: the threshold covers every m, not only m = keys, because a person with one key gives it all her weight.
    """

    sigma: Number
    threshold: Number
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))

    @classmethod
    def proof(cls) -> str:
        return "Gopi et al. 2020, Theorem 5.1; Wilson et al. 2020, section 3.4"

    @property
    def granules(self) -> Array:
        """The weight of a person with m keys, in granules, rounded down."""
        return np.array([0, *(math.isqrt(FINE * FINE // m) for m in range(1, self.keys + 1))])

    def select(self, holdings: Holdings) -> dict[Hashable, float]:
        found = self.reached(holdings)
        return {holdings.names[k]: found[k] for k in in_order(holdings, found)}

    def reached(self, holdings: Holdings) -> dict[int, float]:
        """The numbers of the published keys, with their noisy weights."""
        present, totals = holdings.capped(self.keys).weights(self.granules)
        noisy = totals + rounded_gaussian(Fraction(self.sigma) * FINE, size=len(present))
        # Rounded noise reaches the threshold only if the noise itself comes within half a granule of it; one granule more covers that.
        bar = math.ceil(Fraction(self.threshold) * FINE) + 1
        return {int(k): int(n) / FINE for k, n in zip(present, noisy, strict=True) if n >= bar}

    def price(self, people: int) -> Event:
        bar, sigma = float(self.threshold), float(self.sigma)
        if people == 1:
            return Composed(Gaussian(self.sigma), ApproxDP(0, min(1.0, _own(bar, sigma, self.keys))))
        delta = above(self.keys * people * gaussian_tail_bound(bar, people, sigma))
        return Composed(Group(Gaussian(self.sigma), people), ApproxDP(0, min(1.0, delta)))

    def chance(self, people: float) -> float:
        return self._chance(people, self.keys)

    def _chance(self, people: float, held: float) -> float:
        return _gaussian_tail((float(self.threshold) - people / math.sqrt(max(1.0, held))) / float(self.sigma))

    @classmethod
    def for_budget(cls, epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> Self:
        """The rule with about the least number of people needed that costs at most (epsilon, delta) for one person.

        >>> GaussianSelection.for_budget(1, 1e-6, keys=10).people_needed()
        75
        """
        budget = float(positive("epsilon", epsilon)), float(positive("delta", delta))
        return cls.for_split(epsilon, delta, Fraction(_best_step(*budget, count("keys", keys)), STEPS), keys, column)

    @classmethod
    def for_split(cls, epsilon: Number, delta: Number, share: Number, keys: int = 1, column: str | None = None) -> Self:
        """The rule that spends a share of delta on the noise and the rest on the threshold."""
        total, part = float(positive("delta", delta)), float(probability("share", share))
        sigma = above(sigma_for(float(positive("epsilon", epsilon)), total * part))
        return cls(sigma, _threshold(sigma, total * (1 - part), count("keys", keys)), keys, column)


@lru_cache(maxsize=256)
def _best_step(epsilon: float, delta: float, keys: int) -> int:
    """How many of `STEPS` parts of delta the noise should have. The threshold first falls with it and then rises, so a few are tried."""

    def threshold(step: int) -> float:
        sigma = above(sigma_for(epsilon, delta * step / STEPS))
        return _threshold(sigma, delta * (1 - step / STEPS), keys)

    low, high = 1, STEPS - 1
    known: dict[int, float] = {}
    while high > low:
        middle = (low + high) // 2
        for step in (middle, middle + 1):
            if step not in known:
                known[step] = threshold(step)
        low, high = (low, middle) if known[middle] <= known[middle + 1] else (middle + 1, high)
    return low


@lru_cache(maxsize=256)
def _threshold(sigma: float, delta: float, keys: int) -> float:
    """A threshold that a person's own keys reach with probability at most delta, whatever their number."""
    low, high = 1.0, 1.0 + sigma
    while _own(high, sigma, keys) > delta:
        low, high = high, high + sigma
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _own(middle, sigma, keys) <= delta else (middle, high)
    return high


def _own(threshold: float, sigma: float, keys: int) -> float:
    """The most likely that one person's own keys reach the threshold, over how many of them she has; rounded up.

    Of many numbers only those are bounded with care that come near the greatest: floating-point tails are right to a millionth by far.
    """
    if keys <= CAREFUL:
        return above(max(m * gaussian_tail_bound(threshold, 1 / math.sqrt(m), sigma) for m in range(1, keys + 1)))
    from scipy.special import log_ndtr

    many = np.arange(1, keys + 1, dtype=float)
    rough = np.log(many) + log_ndtr((1 / np.sqrt(many) - threshold) / sigma)
    near = np.flatnonzero(rough >= rough.max() - 1e-6 - 1e-9 * abs(rough.max())) + 1
    # Where all tails underflow to the least number there is, the most keys count most.
    return above(max(m * gaussian_tail_bound(threshold, 1 / math.sqrt(m), sigma) for m in (*near.tolist(), keys)))


@dataclass(frozen=True)
class SipsSelection(KeySelection):
    """DP-SIPS: several rounds of Gaussian selection with growing budgets; keys that are known make room for others.

    Guarantee
        Statement: the composition of its rounds.
        Conditions: each person counts for at most `keys` keys in each round, which is enforced.
        Proved in: Swanberg, Desfontaines and Haney 2023, Theorem 1. Taking away keys that are already published is done to each person's
        keys alone, so each round is a `GaussianSelection` chosen by what is public.
    """

    rounds: tuple[GaussianSelection, ...]
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "rounds", tuple(self.rounds))
        if not self.rounds or any(rule.keys != self.keys for rule in self.rounds):
            raise ParameterError(f"rounds must be at least one GaussianSelection, each with keys={self.keys}")

    @classmethod
    def proof(cls) -> str:
        return "Swanberg, Desfontaines and Haney 2023, Theorem 1"

    def select(self, holdings: Holdings) -> list[Hashable]:
        found: list[int] = []
        for rule in self.rounds:
            found.extend(rule.reached(holdings.without(np.array(found, dtype=np.int64))))
        return [holdings.names[k] for k in in_order(holdings, found)]

    def price(self, people: int) -> Event:
        return Composed(*(rule.price(people) for rule in self.rounds))

    def chance(self, people: float) -> float:
        return 1 - math.prod(1 - rule.chance(people) for rule in self.rounds)

    def kept(self, people: Sequence[int], held: float | None = None) -> float:
        """As for one rule, with every person's number of keys falling by the share of pairs that earlier rounds published."""
        holds = float(held or self.keys)
        missing = np.ones(len(people))
        sizes = np.asarray(people, dtype=float)
        for rule in self.rounds:
            now = holds * float((missing * sizes).sum() / max(1.0, float(sizes.sum())))
            share = min(1.0, self.keys / now) if now else 1.0
            missing *= [1 - rule._chance(n * share, min(now, self.keys)) for n in sizes.tolist()]
        return float((1 - missing).sum())

    @classmethod
    def for_budget(cls, epsilon: Number, delta: Number, keys: int = 1, column: str | None = None, rounds: int = 3) -> Self:
        """Rounds whose noise falls by sqrt(2) from one to the next, at most (epsilon, delta) for one person in total.

        Half of delta goes to the noise, in equal parts to the thresholds the rest.

        >>> len(SipsSelection.for_budget(1, 1e-6, keys=10).rounds)
        3
        """
        many, half = count("rounds", rounds), float(positive("delta", delta)) / 2
        sigma = sigma_for(float(positive("epsilon", epsilon)), half)
        # Gaussian mechanisms compose to one with the sum of 1 / sigma^2, of which round i gets 2^i parts.
        sigmas = [above(sigma * math.sqrt((2**many - 1) / 2**i)) for i in range(many)]
        most = count("keys", keys)
        return cls(tuple(GaussianSelection(s, _threshold(s, half / many, most), most) for s in sigmas), most, column)


def best_selection(
    epsilon: Number, delta: Number, keys: int = 1, column: str | None = None, *, people: Sequence[int] = (), held: float | None = None
) -> KeySelection:
    """The rule of all that is expected to keep most keys, at most (epsilon, delta) for one person.

    `people` is a public guess of how many people have each key, `held` of how many keys a person has. Without a guess the rule that
    needs the fewest people for an even chance is taken.

    >>> type(best_selection(1, 1e-6, keys=1)).__name__, type(best_selection(1, 1e-6, keys=50)).__name__
    ('OptimalSelection', 'GaussianSelection')
    """
    rules: list[KeySelection] = [
        rule.for_budget(epsilon, delta, keys, column) for rule in (GaussianSelection, LaplaceSelection, SipsSelection)
    ]
    if math.log1p(keys * float(epsilon) / float(delta)) * keys / float(epsilon) <= LONGEST:
        rules.append(OptimalSelection.for_budget(epsilon, delta, keys, column))
    if not len(people):
        return min(rules, key=lambda rule: rule.people_needed())
    return max(rules, key=lambda rule: rule.kept(people, held))
