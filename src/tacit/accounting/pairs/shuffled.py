"""Shuffled local reports: how much less the crowd tells of one of its members than the member's own report does.

Each of n people sends one report of a randomiser with parameter epsilon_0, and only the multiset of reports is seen. Part of every
person's output law does not depend on the value: the blanket, of mass gamma (Balle, Bell, Gascon, Nissim 2019). With the likelihood
ratios of the two values over the blanket, which for the randomisers here are gamma or gamma e^epsilon_0,

    delta(eps) = (1/n) E[(Z_1 + ... + Z_n)_+],   Z independent: 0 outside the blanket, else (one of two) - e^eps (one of two),

where a report in the blanket favours the first value only or the second only (mass `one` each), both (`both`) or neither. For any
randomiser at all the same formula holds with the clones of Feldman, McMillan and Talwar 2021 as the blanket. What hides the
person's own neutral outcome in the crowd (Lemma 3.5 of their sequel of 2022, withdrawn; "variation ratio", 2024) is *not* an upper
bound and is not used: three categories, epsilon_0 = 1, n = 6, delta = 1e-3 cost .972, not .862.

Guarantees: `ShuffledPair` dominates, for replacement of one person's value, every pair of output laws of n honest reports. The
expectation is a contour integral. Its trapezoidal sum errs upwards; truncation and rounding are bounded and added.

>>> shuffled = ShuffledPair(response(1.0, 2), 10_000)
>>> round(single_delta(shuffled, 0.0432062)[1] * 1e6, 4)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np

from tacit.accounting.pairs.finite import FinitePair, from_profile
from tacit.accounting.pairs.pair import Array, Pair, Trivial, single_delta
from tacit.accounting.special import gammaln
from tacit.errors import ParameterError

_UNIT = 2.0**-53
FEW = 150_000  # ways in which a crowd can share the outcomes: up to so many all are enumerated,
_CROWD = 1000  # in crowds of at most so many, whose factorials are known to 1e-11
_NODES = 1 << 16  # of one contour
_DEEP = 1e-18  # a law for composition is fine down to this delta
_FINE = 800  # and has so many losses up to there


@dataclass(frozen=True)
class Blanket:
    """What of a randomiser of parameter `epsilon` does not depend on the value.

    `mass` is gamma. Of the blanket, `one` favours one of two given values and not the other (and as much the other way round) and
    `both` favours both. `factor` is 1 where the blanket is the whole common part of the randomiser's laws.
    """

    epsilon: float
    mass: float
    one: float
    both: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.mass <= 1 + 1e-12 and self.one > 0 and self.both >= 0 and 2 * self.one + self.both <= 1 + 1e-12):
            raise ParameterError("a blanket needs a mass in (0, 1] and shares that add up to at most 1")


def response(epsilon: float, categories: int) -> Blanket:
    """The blanket of randomised response with so many categories.

    >>> round(response(1.0, 2).mass, 6)
    0.537883
    """
    return Blanket(epsilon, categories / (math.exp(epsilon) + categories - 1), 1 / categories)


def clones(epsilon: float) -> Blanket:
    """What every randomiser of parameter epsilon has: a share e^-epsilon of all people are clones of the one in question, one way or
    the other (Feldman, McMillan, Talwar 2021, Theorem 3.2).

    >>> round(clones(1.0).mass, 6)
    0.367879
    """
    odds = math.exp(epsilon)
    return Blanket(epsilon, 1 / odds, 0.5, 0.0, 2 * odds / (odds + 1))


def _atoms(blanket: Blanket, epsilon: float) -> tuple[Array, Array]:
    """The values of Z and their masses."""
    odds, more, a = math.exp(blanket.epsilon), math.expm1(epsilon), math.exp(epsilon)
    first = a * math.expm1(blanket.epsilon - epsilon)  # odds - a, without the difference of two close numbers
    values = np.array([0.0, first, 1 - odds * a, -odds * more, -more])
    rest = max(0.0, 1 - 2 * blanket.one - blanket.both)
    masses = np.array([1 - blanket.mass, *(blanket.mass * np.array([blanket.one, blanket.one, blanket.both, rest]))])
    kept = masses > 1e-17  # what rounding leaves of nothing
    kept[1] = True  # all of delta comes from here, and a tiny mass stands against odds as large
    return values[kept], masses[kept] / masses[kept].sum()


def _tilted(values: Array, masses: Array, c: float) -> tuple[float, Array, float]:
    """log E[exp(c Z)], the tilted masses and their mean."""
    exponent = c * values + np.log(masses)
    peak = float(exponent.max())
    weight = np.exp(exponent - peak)
    total = float(weight.sum())
    weight = weight / total
    return peak + math.log(total), weight, float(weight @ values)


def premium(blanket: Blanket, people: int, epsilon: float, relative: float = 1e-5) -> float:
    """An upper bound on delta(epsilon), about so close to the blanket's own value where the crowd is not small.

    Error model. The trapezoidal sum with step h over Re t = c equals the sum over all integers m of e^(c m W) E[(S - m W)_+],
    W = 2 pi / h (Poisson summation): the term m = 0 is the truth and the others are positive. Nodes are left out where
    |phi(c + iy) / phi(c)|^2 <= 1 - 2 w_a w_b (1 - cos(y D)), for one pair of atoms at distance D, makes them small, and beyond so many
    periods 2 pi / D; h divides the period, so the bound takes the same values in each.

    >>> round(premium(response(1.0, 3), 6, 0.9), 6)
    0.00348
    """
    if epsilon >= blanket.epsilon:
        return 0.0
    values, masses = _atoms(blanket, epsilon)
    if people <= _CROWD and math.comb(people + len(values) - 1, people) <= FEW:
        return min(1.0, blanket.factor * _enumerated(values, masses, people) * (1 + 1e-10))
    low, high = 1e-9, 1.0

    def past(c: float) -> bool:
        return people * _tilted(values, masses, c)[2] > 2 / c

    while not past(high):
        low, high = high, 4 * high
        if high > 1e6:
            return 1.0
    while high > 1.0001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if past(middle) else (middle, high)
    c = high
    level, weight, mean = _tilted(values, masses, c)
    spread = math.sqrt(people * float(weight @ (values - mean) ** 2) + 2 / c**2)

    def apart(pair: tuple[int, int]) -> float:
        return float(weight[pair[0]] * weight[pair[1]]) * float(values[pair[0]] - values[pair[1]]) ** 2

    first, second = max(combinations(range(len(values)), 2), key=apart)
    distance, joint = abs(float(values[first] - values[second])), float(weight[first] * weight[second])
    period = 2 * math.pi / distance
    points = max(9, math.ceil(14 * spread / distance)) | 1  # odd, so that a period is the mirror image of itself
    h = period / points
    place = np.arange(-(points // 2), points // 2 + 1)
    bound = np.exp(-people * joint * (1 - np.cos(2 * math.pi * place / points)))
    centre = bound > 1e-22
    near = place[centre]
    inside, outside = float(bound[centre].sum()), float(bound[~centre].sum()) + 1e-300
    edge = h * max(1.0, float(np.abs(near).max()))
    # what lies outside the centres, in all periods; and the centres beyond the last period
    missing = outside * (1 / edge**2 + math.pi**2 / period**2)
    rough = math.sqrt(2 * math.pi) / (h * spread * c**2)
    lobes = int(min(max(2, 2 / relative * inside / (period**2 * rough)), max(2, _NODES // len(near))))
    missing += 2 * inside / (period**2 * lobes)
    total, rounding, largest = 0.0, 0.0, float(np.abs(values).max())
    for start in range(0, lobes + 1, max(1, (1 << 15) // len(near))):
        k = np.arange(start, min(start + max(1, (1 << 15) // len(near)), lobes + 1))
        y = h * (near + points * k[:, None])
        phi = sum((w * np.exp(1j * (v * y)) for v, w in zip(values, weight, strict=True)), start=np.zeros(y.shape, dtype=complex))
        with np.errstate(divide="ignore"):
            term = np.exp(people * np.log(phi)) / (c + 1j * y) ** 2
        both_ways = np.where(k == 0, 1.0, 2.0)[:, None]
        total += float((both_ways * term.real).sum())
        rounding += float((both_ways * np.abs(term) * (people * _UNIT * (16 + 4 * np.abs(y) * largest) + 64 * _UNIT)).sum())
    found = h / (2 * math.pi) * (total + missing + rounding)
    exponent = people * level + people * _UNIT * (16 + 16 * c * largest)
    return min(1.0, blanket.factor * math.exp(min(exponent, 700.0)) * found / people * (1 + 1e-12))


def _enumerated(values: Array, masses: Array, people: int) -> float:
    """(1/n) E[(Z_1 + ... + Z_n)_+] over all ways in which n people share the values, from above: a sum that rounding may have taken
    below 0 counts with all that rounding can do."""
    counts, ways = _shares(len(values), people)
    sums = counts @ values + 8 * _UNIT * (counts @ np.abs(values))
    positive = sums > 0
    return float(np.exp(ways[positive] + counts[positive] @ np.log(masses)) @ sums[positive]) / people


@lru_cache(maxsize=16)
def _shares(parts: int, people: int) -> tuple[Array, Array]:
    """All lists of so many counts that add up to `people`, and the logarithm of how many orders each stands for."""
    bars = np.array(list(combinations(range(people + parts - 1), parts - 1)), dtype=np.int64).reshape(-1, parts - 1)
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), people + parts - 1)])
    counts = np.diff(ends, axis=1) - 1.0
    return counts, gammaln(people + 1.0) - gammaln(counts + 1.0).sum(axis=1)


class ShuffledPair(FinitePair):
    """The symmetric pair of a blanket: single questions are answered by the contour, compositions by a law of some hundred losses.

    Replacing one person's value moves the other way with the same curve, so one direction answers for both. The law is the polygon
    through upper bounds of the curve, which is convex in e^epsilon, so it dominates.
    """

    symmetric = True

    def __init__(self, blanket: Blanket, people: int) -> None:
        self.blanket, self.people = blanket, people
        self.infinite = self.reverse_infinite = self.cut = self.rounding = 0.0
        self.step, self.offset, self.start = None, 0.0, 0
        self._known: dict[float, float] = {}

    def __repr__(self) -> str:
        return f"ShuffledPair({self.blanket!r}, {self.people})"

    def hockey_stick(self, epsilon: float) -> tuple[float, float]:
        """The bound at epsilon >= 0, as an interval that the pair's own value is in."""
        if epsilon not in self._known:
            self._known[epsilon] = premium(self.blanket, self.people, epsilon)
        return self._known[epsilon] * (1 - 1e-5), self._known[epsilon]

    def least_epsilon(self, delta: float) -> float:
        """The least epsilon >= 0 whose bound is at most delta: looked for with rough bounds, found with fine ones."""
        if self.hockey_stick(0.0)[1] <= delta:
            return 0.0
        rough = self._least(delta, (0.0, self.blanket.epsilon), 1e-4, lambda e: premium(self.blanket, self.people, e, 3e-3))
        # both are bounds from above, so that the fine search ends at `rough` or below
        below = 0.99 * rough
        if self.hockey_stick(below)[1] <= delta:
            below = 0.0
        return self._least(delta, (below, rough), 1e-9, lambda e: self.hockey_stick(e)[1])

    def _least(self, delta: float, ends: tuple[float, float], width: float, bound: Callable[[float], float]) -> float:
        """False position on log delta, between an end whose bound is above delta and one whose bound is not."""
        low, high = ends
        # towards epsilon_0 the bound falls to 0 at once, so the far end counts as far below delta
        left = math.log(max(bound(low) / delta, 1.0))
        right = -60.0 if high >= self.blanket.epsilon else math.log(max(bound(high), 1e-300) / delta)
        for turn in range(100):
            middle = low + (high - low) * (0.5 if turn % 4 == 3 or left == right else left / (left - right))
            middle = min(max(middle, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
            if not low < middle < high or high - low < width * high:
                break
            found = bound(middle)
            if found > delta:
                low, left = middle, math.log(found / delta)
            else:
                high, right = middle, math.log(max(found, 1e-300) / delta)
        return high

    def support(self) -> tuple[float, float]:
        return -self.blanket.epsilon, self.blanket.epsilon

    def reverse(self) -> ShuffledPair:
        return self

    @cached_property
    def _law(self) -> FinitePair:
        low, high = 0.0, self.blanket.epsilon
        while high - low > 0.01 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if premium(self.blanket, self.people, middle, 0.01) > _DEEP else (low, middle)
        fine = np.linspace(0.0, high, _FINE + 1)
        coarse = np.linspace(high, self.blanket.epsilon, 50)[1:] if high < self.blanket.epsilon else np.empty(0)
        epsilons = [float(e) for e in np.concatenate([fine, coarse])]
        deltas = np.minimum.accumulate([premium(self.blanket, self.people, e, 3e-5) for e in epsilons])
        return from_profile(list(zip(epsilons, deltas.tolist(), strict=True)))

    # The law takes a second and single questions do without it, so the two attributes of a finite pair are worked out when asked for.
    @cached_property
    def losses(self) -> Array:  # type: ignore[override]
        """The losses of the law that compositions use."""
        return self._law.losses

    @cached_property
    def log_p(self) -> Array:  # type: ignore[override]
        """The logarithms of their masses."""
        return self._law.log_p


# --- from below: exact laws of concrete data ---


def merged(p: Array, q: Array, bins: int = 1 << 13) -> Pair:
    """The pair of two mass functions on one set of outcomes, outcomes of nearly the same likelihood ratio seen as one.

    Seeing less is post-processing, so this is a lower bound on what the outcomes tell. Masses that the outcomes lack count as one more
    outcome.

    >>> merged(np.array([0.75, 0.25]), np.array([0.25, 0.75])).losses.round(6)
    array([-1.098612,  1.098612])
    """
    seen = (p > 1e-250) & (q > 1e-250)
    p, q = p[seen], q[seen]
    ratio = np.log(p) - np.log(q)
    low, high = float(ratio.min()), float(ratio.max())
    if high - low < 1e-13:
        return Trivial()
    where = np.minimum(((ratio - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    ours, theirs = np.bincount(where, p, bins), np.bincount(where, q, bins)
    kept = ours > 0
    ours, theirs = np.append(ours[kept], max(0.0, 1 - float(p.sum()))), np.append(theirs[kept], max(0.0, 1 - float(q.sum())))
    # what was cut off is joined to the most likely outcome that is left
    middle = int(np.argmax(ours[:-1]))
    ours[middle], theirs[middle] = ours[middle] + ours[-1], theirs[middle] + theirs[-1]
    losses = np.log(ours[:-1]) - np.log(theirs[:-1])
    order = np.argsort(losses, kind="stable")
    losses, ours = losses[order], ours[order]
    apart = np.append(True, np.diff(losses) > 0)
    return FinitePair(losses[apart], np.log(np.bincount(np.cumsum(apart) - 1, ours)), rounding=1e-9)


@lru_cache(maxsize=32)
def attained(epsilon: float, categories: int, people: int) -> tuple[Pair, Pair]:
    """What n shuffled randomised responses really tell of one person, for one choice of the others: a lower bound, both directions.

    All others hold the person's first value, or all a third one. The counts of the two values in question are seen; in large crowds
    only the count of one of them.

    >>> low = attained(1.0, 3, 1000)[0]
    >>> single_delta(low, 0.1305)[0] > 1e-6
    True
    """
    odds = math.exp(epsilon)
    others, u = people - 1, 1 / (odds + categories - 1)
    keep, lie = odds * u, (categories - 1) * u  # not 1 - keep, of which nothing is left beyond epsilon 37
    if categories == 2 or people * u > 5000:
        crowd = _binomial(others, u)
        same, more = np.append(crowd, 0.0), np.insert(crowd, 0, 0.0)
        p, q = same * (1 - u) + more * u, same * lie + more * keep
        kept = _uncut(others, u)
        pair = merged(p[kept], q[kept])
        return pair, pair.reverse()
    found = [_two_counts(others, first, keep, u) for first in ((keep, u) if people <= 100 else (u,))]
    return max(found, key=lambda both: single_delta(both[0], 0.9 * epsilon)[0])


def _two_counts(others: int, first: float, keep: float, u: float) -> tuple[Pair, Pair]:
    """Both directions of the law of two counts, where each of the others adds to the first with this probability, to the second with u."""
    low, high = _window(others, first)
    a = np.arange(low, high + 1, dtype=float)[:, None]
    low, high = _window(others, u)
    b = np.arange(low, high + 1, dtype=float)[None, :]
    rest = others - a - b
    safe, none = np.maximum(rest, 0.0), max(1 - first - u, 1e-300)
    exponent = gammaln(others + 1.0) - gammaln(a + 1) - gammaln(b + 1) - gammaln(safe + 1)
    exponent = exponent + a * math.log(first) + b * math.log(u) + safe * math.log(none)
    crowd = np.pad(np.where(rest >= 0, np.exp(exponent), 0.0), 1)
    here, left, below = crowd[1:, 1:], crowd[:-1, 1:], crowd[1:, :-1]  # the others', short of one in the first or the second count
    neither = 1 - keep - u
    p, q = keep * left + u * below + neither * here, u * left + keep * below + neither * here
    kept = _uncut(others, first), _uncut(others, u)
    pair = merged(p[kept].ravel(), q[kept].ravel())
    return pair, pair.reverse()


def _window(people: int, share: float) -> tuple[int, int]:
    """Counts of a binomial law outside of which lies less than 1e-17."""
    reach = 9 * math.sqrt(people * share * (1 - share)) + 30
    return max(0, math.floor(people * share - reach)), min(people, math.ceil(people * share + reach))


def _uncut(people: int, share: float) -> slice:
    """The counts of a window, and one more, without ends at which the neighbour was cut off."""
    low, high = _window(people, share)
    return slice(0 if low == 0 else 1, None if high == people else -1)


def _binomial(people: int, share: float) -> Array:
    """The binomial masses on their window, by the ratio of neighbours."""
    first, last = _window(people, share)
    k = np.arange(first, last, dtype=float)
    steps = np.log(people - k) - np.log(k + 1) + math.log(share) - math.log1p(-share)
    exponent = np.insert(np.cumsum(steps), 0, 0.0)
    mass = np.exp(exponent - exponent.max())
    return np.asarray(mass / mass.sum())
