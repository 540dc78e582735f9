"""Partition selection (set union): which keys may be published when the keys themselves come from private data.

A key that only one person has must hardly ever appear. Each person counts for at most `keys` keys, drawn at random among
their own, and a key is published by a noisy rule: Laplace or Gaussian noise on the number of people who have it and a
threshold; the optimal rule of Desfontaines et al. 2022; or several rounds, DP-SIPS. `best_selection` takes the rule that is
expected to keep most keys.

>>> from tacit.calculus import AddRemove, Anything, Rows, Space
>>> people = Space(Rows(Anything()), AddRemove())  # one row a person: the collection of that person's keys
>>> plan = people >> optimal_selection(epsilon=1, delta=1e-6, keys=2)
>>> plan.release([{"flu"}] * 500 + [{"flu", "gout"}]).value
['flu']
>>> plan.event(1)
Repeated(event=ApproxDP(epsilon=1, delta=1e-06), count=2)

In a table, `Identifiers` names the person and `column` the key. A key is published as it is if it is a plain value, and as
its text otherwise; what is missing is no key, and a row whose person is missing is left out. Keys are
published in the order of their text, not of the data.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import (
    ApproxDP,
    Composed,
    DiscreteLaplace,
    Event,
    Gaussian,
    Group,
    NoOp,
    ParameterError,
    Repeated,
    calibrate,
    sigma_for,
)
from tacit.calculus import (
    AddRemove,
    DomainError,
    Hamming,
    Identifiers,
    Measurement,
    MetricError,
    Records,
    ReplaceOne,
    Rows,
    Space,
    keys,
    listed,
    owners,
)
from tacit.mechanisms.accuracy import failure, least_that_keeps
from tacit.mechanisms.exponential import above
from tacit.mechanisms.mechanism import Mechanism
from tacit.noise import bernoulli, discrete_laplace, exp_bounds, permutation, rounded_gaussian
from tacit.parameters import Number, count, positive, probability

Array = NDArray[np.int64]
BITS = 128  # of the optimal rule's probabilities, beyond those of delta
LONGEST = 10**5  # people in the longest table of them
FINE = 1 << 10  # granules of the Gaussian lattice in one person
STEPS = 20  # parts of delta that are shared out between noise and threshold
CAREFUL = 16  # up to so many keys of a person each number of them is bounded with care


@dataclass(frozen=True)
class Holdings:
    """Pairs (person, key), each once, as whole numbers, and the keys they stand for."""

    people: Array
    keys: Array
    names: tuple[Hashable, ...]

    def capped(self, most: int) -> Holdings:
        """At most so many keys for each person, drawn at random; a function of each person's own pairs."""
        order = permutation(len(self.people))
        order = order[np.argsort(self.people[order], kind="stable")]
        people = self.people[order]
        starts = np.flatnonzero(np.diff(people, prepend=-1))
        place = np.arange(len(people)) - np.repeat(starts, np.diff(np.append(starts, len(people))))
        kept = order[place < most]
        return replace(self, people=self.people[kept], keys=self.keys[kept])

    def without(self, found: Array) -> Holdings:
        """What is left when some keys are known."""
        kept = ~np.isin(self.keys, found)
        return replace(self, people=self.people[kept], keys=self.keys[kept])

    def weights(self, granules: Array) -> tuple[Array, Array]:
        """The keys that are held, and for each the sum of its people's weights; `granules[m]` is that of a person with m keys."""
        held = np.bincount(self.people, minlength=1)
        present, place = np.unique(self.keys, return_inverse=True)
        totals = np.zeros(len(present), dtype=np.int64)
        np.add.at(totals, place, granules[held[self.people]])
        return present, totals


#: Types that are published as they are; anything else is published as its text, so that nothing hidden in an object travels along.
PLAIN = (str, bytes, bool, int, float, datetime.date, datetime.datetime, datetime.time, Decimal, Fraction)


def plain_key(value: object) -> Hashable | None:
    """A key as it would be published; None for a missing value or NaN."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if type(value) in PLAIN:
        return cast(Hashable, value)
    try:
        return tuple(plain_key(part) for part in value) if type(value) is tuple else str(value)
    except (Exception, SystemExit, GeneratorExit):  # what an object in the data does must not show; a tuple may be nested too deep
        return None


def identity(key: Hashable) -> Hashable:
    """What makes two keys the same: their text. 1, 1.0 and True are equal in Python; which one is published must depend on no row."""
    return key if type(key) is str else keys([key])[0]


def holdings_of(rows: Iterable[tuple[Hashable, object]]) -> Holdings:
    """Number the people and the keys of pairs (person, their keys); a person may appear twice. A text or a number is one key.

    >>> holdings = holdings_of([("ann", ["flu", "gout"]), ("bob", ["flu"]), ("ann", ["flu"])])
    >>> holdings.names, holdings.weights(np.array([0, 1, 1]))[1].tolist()
    (('flu', 'gout'), [2, 1])
    """
    persons: dict[Hashable, int] = {}
    numbers: dict[Hashable, int] = {}
    names: list[Hashable] = []
    pairs: dict[tuple[int, int], None] = {}
    for person, row in rows:
        who = persons.setdefault(person, len(persons))
        for value in row if isinstance(row, (list, tuple, set, frozenset, np.ndarray)) else (row,):
            key = plain_key(value)
            if key is None:
                continue
            number = numbers.setdefault(identity(key), len(numbers))
            if number == len(names):
                names.append(key)
            pairs[who, number] = None
    flat = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return Holdings(flat[:, 0], flat[:, 1], tuple(names))


def _reader(space: Space, column: str | None) -> tuple[Callable[[Any], Holdings], int]:
    """How to read holdings from a space, and how many people come or go at distance 1."""
    domain = space.domain
    if not isinstance(domain, Rows):
        raise DomainError(f"keys are selected from rows, one for each person, or from a table with Identifiers, not from {domain}")
    if isinstance(domain.element, Records):
        if not isinstance(space.metric, Identifiers):
            raise MetricError(f"selecting keys of a table needs Identifiers(person), not {space.metric}")
        person = space.metric.column
        if column is None or column not in domain.element:
            raise DomainError(f"column must name the key's column, one of {', '.join(domain.element.names)}")

        def read(data: Any) -> Holdings:
            pairs = zip(owners(data, person), listed(data[column]), strict=True)
            return holdings_of((who, [key]) for who, key in pairs if who is not None)

        return read, 1
    match space.metric:
        case AddRemove():
            return lambda data: holdings_of(enumerate(data)), 1
        case ReplaceOne() | Hamming():
            return lambda data: holdings_of(enumerate(data)), 2
    raise MetricError(f"selecting keys has no price under {space.metric}; use AddRemove() with one row a person")


def in_order(holdings: Holdings, found: Iterable[int]) -> list[int]:
    """Keys in an order that says nothing about the data."""
    return sorted(found, key=lambda i: (type(holdings.names[i]).__name__, _shown(holdings.names[i])))


def _shown(key: Hashable) -> str:
    """The text of a key; a key that Python will not write, such as a very long integer, by what makes it this key."""
    try:
        return repr(key)
    except ValueError:
        return repr(identity(key))


class KeySelection(Mechanism):
    """A rule that publishes keys from private data. `proof` names where its price is proved."""

    proof: ClassVar[str]
    keys: int
    column: str | None

    def select(self, holdings: Holdings) -> Any:
        """The published keys, from holdings that are not capped yet."""
        raise NotImplementedError

    def price(self, people: int) -> Event:
        """The event for so many people coming or going."""
        raise NotImplementedError

    def chance(self, people: float) -> float:
        """The probability that a key which so many people have, each counting for `keys` keys, is published. An estimate to plan with."""
        raise NotImplementedError

    def bind(self, space: Space) -> Measurement:
        read, step = _reader(space, self.column)

        def privacy(distance: Number) -> Event:
            people = math.floor(distance) * step
            return self.price(people) if people else NoOp()

        return Measurement(space, lambda data: self.select(read(data)), privacy, type(self).__name__, self.proof)

    def kept(self, people: Sequence[int], held: float | None = None) -> float:
        """How many keys are expected to be published, for a public guess of how many people have each and how many keys each person has."""
        share = min(1.0, self.keys / held) if held else 1.0
        return sum(self.chance(n * share) for n in people)

    def people_needed(self, probability: float = 0.5) -> int:
        """The least number of people for which a key is published with this probability."""
        high = 1
        while self.chance(high) < probability:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.chance(middle) >= probability else (middle, high)
        return high


    def missed(self, people: int) -> float:
        """The probability, from above, that a key which so many people have is not published, where no person has more than `keys` keys."""
        raise NotImplementedError

    @classmethod
    def for_budget(cls, epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> Self:
        """The rule of this kind that costs at most (epsilon, delta) for one person."""
        raise NotImplementedError

    @classmethod
    def possible(cls, epsilon: float, delta: Number, keys: int) -> bool:
        """Whether there is a rule of this kind for a budget."""
        return True

    def accuracy(self, beta: Number, *, among: int = 1) -> float:
        """The least number of people who must have a key for it to be published; `among` such keys are published together except with
        probability beta, if no person has more than `keys` keys.

        >>> optimal_selection(epsilon=1, delta=1e-6).accuracy(0.05), LaplaceSelection.for_budget(1, 1e-6).accuracy(0.05)
        (16.0, 17.0)
        """
        share = failure(beta) / count("among", among)
        high = 1
        while self.missed(high) > share:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.missed(middle) <= share else (middle, high)
        return float(high)

    @classmethod
    def for_accuracy(  # the least epsilon depends on delta
        cls, alpha: Number, beta: Number, *, delta: Number, keys: int = 1, column: str | None = None, among: int = 1
    ) -> Self:
        """The rule of this kind with the least epsilon, to a thousandth, that publishes keys which alpha people have, `among` of them
        together except with probability beta.

        >>> found = OptimalSelection.for_accuracy(20, 0.05, delta=1e-6)
        >>> found.accuracy(0.05) <= 20, found.epsilon < 1
        (True, True)
        """
        goal = float(positive("alpha", alpha))

        def keeps(epsilon: float) -> bool:
            return cls.possible(epsilon, delta, keys) and cls.for_budget(epsilon, delta, keys, column).accuracy(beta, among=among) <= goal

        return cls.for_budget(least_that_keeps(keeps, 1e-3), delta, keys, column)


def checked_keys(rule: KeySelection) -> None:
    """Refuse what is not a positive number of keys."""
    object.__setattr__(rule, "keys", count("keys", rule.keys))


@dataclass(frozen=True)
class LaplaceSelection(KeySelection):
    """Keys whose number of people plus discrete Laplace noise reaches the threshold, with that noisy number.

    Guarantee
        Statement: for d people coming or going, the composition of `keys` discrete Laplace mechanisms of sensitivity d, and of a
        (0, delta)-private one with delta = keys * d * P(noise >= threshold - d).
        Conditions: each person counts for at most `keys` keys, which is enforced; keys that no person has are never published.
        Proved in: Korolova et al. 2009 and Wilson et al. 2020, for one person. Keys that only one side has are published there with
        probability at most delta in all, and otherwise both sides say nothing about them; on the others the noise does its usual work.
        d people have at most keys * d keys of their own, of at most d people each; their other keys move by at most
        keys * d in total, and unit moves of several numbers tell less than the same move of one.
    """

    proof = "Korolova et al. 2009; Wilson et al. 2020, section 3.4"
    scale: Number
    threshold: int
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "threshold", count("threshold", self.threshold))

    def select(self, holdings: Holdings) -> dict[Hashable, int]:
        present, totals = holdings.capped(self.keys).weights(np.ones(self.keys + 1, dtype=np.int64))
        noisy = totals + discrete_laplace(self.scale, size=len(present))
        found = {int(k): int(n) for k, n in zip(present, noisy, strict=True) if n >= self.threshold}
        return {holdings.names[k]: found[k] for k in in_order(holdings, found)}

    def price(self, people: int) -> Event:
        chance = laplace_tail_bound(self.threshold - people, Fraction(self.scale))
        noise = Repeated(DiscreteLaplace(self.scale, people), self.keys)
        return Composed(noise, ApproxDP(0, min(Fraction(1), self.keys * people * chance)))

    def chance(self, people: float) -> float:
        return _laplace_tail(self.threshold - math.floor(people), float(self.scale))

    def missed(self, people: int) -> float:
        # people + noise < threshold, and the noise is symmetric
        return min(1.0, above(_laplace_tail(people - self.threshold + 1, float(self.scale)) * (1 + 1e-12)))

    @classmethod
    def for_budget(cls, epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> Self:
        """The rule with the lowest threshold that costs at most (epsilon, delta) for one person: pure noise, all of delta to the threshold.

        >>> LaplaceSelection.for_budget(1, 1e-6, keys=10).threshold
        156
        """
        k = count("keys", keys)
        share, scale = Fraction(positive("delta", delta)) / k, k / Fraction(positive("epsilon", epsilon))
        threshold = max(2, math.floor(float(scale) * -math.log(2 * float(share))))  # a tail of exp(-t / scale) / 2 is about right
        while threshold > 2 and laplace_tail_bound(threshold - 2, scale) <= share:
            threshold -= 1
        while laplace_tail_bound(threshold - 1, scale) > share:
            threshold += 1
        return cls(scale, threshold, k, column)


def _laplace_tail(least: int, scale: float) -> float:
    """P(noise >= least) for discrete Laplace noise."""
    ratio = math.exp(-1 / scale)
    upper = math.exp(-max(least, 1 - least) / scale) / (1 + ratio)
    return upper if least >= 1 else 1 - upper


def laplace_tail_bound(least: int, scale: Fraction) -> Fraction:
    """The same, rounded up, and at least 2^-1000, so that it never counts as nothing.

    >>> float(laplace_tail_bound(100, Fraction(10)))
    2.383...e-05
    """
    if least < 1:
        return Fraction(1)
    bits = 64 + min(1000, math.ceil(2 * least / scale))
    reached, ratio = exp_bounds(least / scale, bits)[1], exp_bounds(1 / scale, bits)[0]
    return max(Fraction(reached, (1 << bits) + ratio), Fraction(1, 1 << 1000))


@dataclass(frozen=True)
class OptimalSelection(KeySelection):
    """A key that n people have is published with the largest probability that (epsilon, delta) allows for each key.

    Guarantee
        Statement: for d people coming or going, `keys` times an (epsilon, delta)-private mechanism of group size d.
        Conditions: each person counts for at most `keys` keys, which is enforced.
        Proved in: Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1: pi(0) = 0 and
        pi(n + 1) = min(e^epsilon pi(n) + delta, 1 - e^-epsilon (1 - pi(n) - delta), 1). Each key is treated alone, also one that
        no person has. Here e^epsilon is rounded down, and each pi(n + 1) too, which keeps both inequalities and the order.
    """

    proof = "Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1"
    epsilon: Number
    delta: Number
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", positive("delta", probability("delta", self.delta)))

    @property
    def probabilities(self) -> list[Fraction]:
        """pi(0), pi(1), ... up to the first that is 1, as fractions.

        >>> [float(p) for p in optimal_selection(epsilon=1, delta=0.25).probabilities]
        [0.0, 0.25, 0.816060..., 1.0]
        """
        bits, found = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        return [Fraction(p, 1 << bits) for p in found]

    def distribution(self, value: int, *, bits: int = 128) -> dict[bool, Fraction]:
        """Whether one key that so many people have is published: exact, whatever `bits` are asked for.

        >>> optimal_selection(epsilon=1, delta=Fraction(1, 4)).distribution(1)
        {True: Fraction(1, 4), False: Fraction(3, 4)}
        """
        found = self.probabilities
        chance = found[min(value, len(found) - 1)]
        return {True: chance, False: 1 - chance}

    def select(self, holdings: Holdings) -> list[Hashable]:
        present, totals = holdings.capped(self.keys).weights(np.ones(self.keys + 1, dtype=np.int64))
        bits, table = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        people = np.minimum(totals, len(table) - 1)
        found: list[int] = []
        for n in np.unique(people).tolist():
            group = present[people == n]
            found.extend(group[bernoulli(Fraction(table[n], 1 << bits), size=len(group)) == 1].tolist())
        return [holdings.names[k] for k in in_order(holdings, found)]

    def price(self, people: int) -> Event:
        each = Repeated(ApproxDP(self.epsilon, self.delta), self.keys)
        return each if people == 1 else Group(each, people)

    def chance(self, people: float) -> float:
        bits, table = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        return table[min(math.floor(people), len(table) - 1)] / (1 << bits)

    def missed(self, people: int) -> float:
        bits, table = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        left = (1 << bits) - table[min(people, len(table) - 1)]
        return above(float(Fraction(left, 1 << bits))) if left else 0.0

    @classmethod
    def possible(cls, epsilon: float, delta: Number, keys: int) -> bool:
        return math.log1p(keys * epsilon / float(delta)) * keys / epsilon <= LONGEST

    @classmethod
    def for_budget(cls, epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> Self:
        """The rule with about the least number of people needed that costs at most (epsilon, delta) for one person.

        Equal shares for each key; or, for a person with many keys, more than that, by optimal composition of what a part of delta buys.

        >>> OptimalSelection.for_budget(1, 1e-6, keys=10).people_needed() <= 133
        True
        """
        k, total = count("keys", keys), Fraction(positive("delta", delta))
        rules = [cls(Fraction(positive("epsilon", epsilon)) / k, total / k, k, column)]
        for share in (Fraction(1, 2), Fraction(3, 4)) if k > 1 else ():
            each = total * share / k

            def event(value: float, each: Fraction = each) -> Event:
                return Repeated(ApproxDP(value, each), k)

            start = float(rules[0].epsilon)
            rules.append(cls(calibrate(event, epsilon=float(epsilon), delta=float(total), start=start), each, k, column))
        return min(rules, key=lambda rule: rule.people_needed())


@lru_cache(maxsize=16)
def optimal_probabilities(epsilon: Fraction, delta: Fraction) -> tuple[int, list[int]]:
    """Some number of bits, and 2^bits pi(n) for n = 0, 1, ... up to the first that is 1; all rounded down.

    >>> bits, found = optimal_probabilities(Fraction(1), Fraction(1, 4))
    >>> [round(p / 2**bits, 6) for p in found]
    [0.0, 0.25, 0.81606, 1.0]
    """
    if math.log1p(float(epsilon / delta)) / float(epsilon) > LONGEST:
        raise ParameterError(f"epsilon is too small for the optimal rule: more than {LONGEST} people are needed; use GaussianSelection")
    bits = BITS + max(0, delta.denominator.bit_length() - delta.numerator.bit_length())
    one, gift = 1 << bits, math.floor(delta * (1 << bits))
    inverse = exp_bounds(epsilon, bits)[1]  # e^-epsilon from above, and hence e^epsilon from below
    growth = one * one // inverse
    found = [0]
    while found[-1] < one:
        last = found[-1]
        found.append(min((growth * last >> bits) + gift, one + (-inverse * (one - last - gift) >> bits), one))
    return bits, found


def optimal_selection(epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> OptimalSelection:
    """The optimal rule; (epsilon, delta) is the price of one key of a person, who has up to `keys`.

    >>> optimal_selection(epsilon=1, delta=1e-6)
    OptimalSelection(epsilon=1, delta=1e-06, keys=1, column=None)
    """
    return OptimalSelection(epsilon, delta, keys, column)


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

    A person with m keys gives each of them weight 1 / sqrt(m), so that the weights have length 1 whatever m is.

    Guarantee
        Statement: for d people coming or going, the composition of a Gaussian mechanism of noise multiplier sigma / d and of a
        (0, delta)-private one; for d = 1, delta is the most of m P(noise >= threshold - 1 / sqrt(m)) over m up to `keys`.
        Conditions: each person counts for at most `keys` keys, which is enforced; keys that no person has are never published. Weights are
        rounded down to a lattice and the noise to the nearest point of it, which can only make the price smaller.
        Proved in: Gopi et al. 2020, Theorem 5.1 (weighted Gaussian); Wilson et al. 2020. As for `LaplaceSelection`, with lengths in
        place of sums. d people have at most keys * d keys of their own, each of weight at most d.
        Note: the threshold covers every m, not only m = keys, because a person with one key gives it weight 1.
    """

    proof = "Gopi et al. 2020, Theorem 5.1; Wilson et al. 2020, section 3.4"
    sigma: Number
    threshold: Number
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))

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

    def missed(self, people: int) -> float:
        """A person gives at least 1 / sqrt(keys) less a granule; the bar is at most two granules above the threshold, and the noise is
        rounded by at most half of one."""
        sure = people * int(self.granules[-1]) / FINE
        return gaussian_tail_bound(sure - float(self.threshold) - 3 / FINE, 0.0, float(self.sigma))

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
    """The largest probability that one person's own keys reach the threshold, over the number of them; rounded up.

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

    proof = "Swanberg, Desfontaines and Haney 2023, Theorem 1"
    rounds: tuple[GaussianSelection, ...]
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "rounds", tuple(self.rounds))
        if not self.rounds or any(rule.keys != self.keys for rule in self.rounds):
            raise ParameterError(f"rounds must be at least one GaussianSelection, each with keys={self.keys}")

    def select(self, holdings: Holdings) -> list[Hashable]:
        found: list[int] = []
        for rule in self.rounds:
            found.extend(rule.reached(holdings.without(np.array(found, dtype=np.int64))))
        return [holdings.names[k] for k in in_order(holdings, found)]

    def price(self, people: int) -> Event:
        return Composed(*(rule.price(people) for rule in self.rounds))

    def chance(self, people: float) -> float:
        return 1 - math.prod(1 - rule.chance(people) for rule in self.rounds)

    def missed(self, people: int) -> float:
        # noises are independent, and what earlier rounds publish only makes other keys heavier
        return min(1.0, above(math.prod(rule.missed(people) for rule in self.rounds)))

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

        Half of delta goes to the noise, and the rest in equal parts to the thresholds.

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
    if OptimalSelection.possible(float(epsilon), delta, keys):
        rules.append(OptimalSelection.for_budget(epsilon, delta, keys, column))
    if not len(people):
        return min(rules, key=lambda rule: rule.people_needed())
    return max(rules, key=lambda rule: rule.kept(people, held))
