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
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pairs.finite import FinitePair, from_profile
from tacit.accounting.pairs.pair import Array, Pair, Trivial, single_delta
from tacit.accounting.special import gammaln
from tacit.errors import ParameterError

_UNIT = 2.0**-53
FEW = 150_000  # ways in which a crowd can share the outcomes: up to so many all are enumerated,
_CROWD = 1000  # in crowds of at most so many, whose factorials are known to 1e-11
_NODES = 1 << 16  # of one contour
_BLOCK = 1 << 17  # nodes that are worked out at once
_SMALL = 50.6  # a bound of e^-50.6 = 1e-22 is left out
_DEEP = 1e-18  # a law for composition is fine down to this delta,
_FINE = 64  # with so many losses a deviation


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


def _atoms(blanket: Blanket, epsilons: Array) -> tuple[Array, Array]:
    """The values of Z, a row for each epsilon, and their masses."""
    odds, more, a = math.exp(blanket.epsilon), np.expm1(epsilons), np.exp(epsilons)
    first = a * np.expm1(blanket.epsilon - epsilons)  # odds - a, without the difference of two close numbers
    values = np.stack([np.zeros_like(a), first, 1 - odds * a, -odds * more, -more], axis=1)
    kept, masses = _masses(blanket)
    return values[:, kept], masses


def _masses(blanket: Blanket) -> tuple[NDArray[np.bool_], Array]:
    """Which of the five outcomes there are (none in the blanket; favours the first, the second, both, neither), and their masses."""
    rest = max(0.0, 1 - 2 * blanket.one - blanket.both)
    masses = np.array([1 - blanket.mass, *(blanket.mass * np.array([blanket.one, blanket.one, blanket.both, rest]))])
    kept = masses > 1e-17  # what rounding leaves of nothing
    kept[1] = True  # all of delta comes from here, and a tiny mass stands against odds as large
    return kept, masses[kept] / masses[kept].sum()


def _tilted(values: Array, masses: Array, c: Array) -> tuple[Array, Array, Array]:
    """log E[exp(c Z)], the tilted masses and their means, a row for each c."""
    exponent = c[:, None] * values + np.log(masses)
    peak = exponent.max(axis=1)
    weight = np.exp(exponent - peak[:, None])
    total = weight.sum(axis=1)
    weight /= total[:, None]
    return peak + np.log(total), weight, (weight * values).sum(axis=1)


def premium(blanket: Blanket, people: int, epsilon: float, relative: float = 1e-5) -> float:
    """An upper bound on delta(epsilon), about so close to the blanket's own value where the crowd is not small.

    >>> round(premium(response(1.0, 3), 6, 0.9), 6)
    0.00348
    """
    return float(premiums(blanket, people, np.array([epsilon]), relative)[0])


def premiums(blanket: Blanket, people: int, epsilons: Array, relative: float = 1e-5, deep: float = math.inf) -> Array:
    """Upper bounds on delta at many epsilons at once, about so close; where delta lies z deviations out, z > deep, z^2 times less close.

    Error model. The trapezoidal sum with step h over Re t = c equals the sum over all integers m of e^(c m W) E[(S - m W)_+],
    W = 2 pi / h (Poisson summation): the term m = 0 is the truth and the others are positive. Nodes are left out where
    |phi(c + iy) / phi(c)|^2 <= 1 - 2 w_a w_b (1 - cos(y D)), for one pair of atoms at distance D, makes them small, and beyond so many
    periods 2 pi / D; h divides the period, so the bound takes the same values in each.

    >>> premiums(response(1.0, 2), 10_000, np.array([0.0, 0.04])).round(6).tolist()
    [0.005027, 3e-06]
    """
    found = np.zeros(len(epsilons))
    asked = np.flatnonzero(epsilons < blanket.epsilon)
    if not len(asked):
        return found
    values, masses = _atoms(blanket, epsilons[asked])
    if people <= _CROWD and math.comb(people + len(masses) - 1, people) <= FEW:
        found[asked] = np.minimum(1.0, _enumerated(blanket, people, np.exp(epsilons[asked])) * (1 + 1e-10))
        return found
    c = _tilts(values, masses, people)
    found[asked] = 1.0  # where no tilt is large enough
    asked, values, c = asked[c < math.inf], values[c < math.inf], c[c < math.inf]
    if not len(asked):
        return found
    level, weight, mean = _tilted(values, masses, c)
    spread = np.sqrt(people * (weight * (values - mean[:, None]) ** 2).sum(axis=1) + 2 / c**2)
    # the pair of atoms that tells most
    first, second = np.array(list(combinations(range(len(masses)), 2))).T
    gaps, joints = np.abs(values[:, first] - values[:, second]), weight[:, first] * weight[:, second]
    best = (np.arange(len(asked)), np.argmax(joints * gaps**2, axis=1))
    distance, joint = gaps[best], joints[best]
    period = 2 * math.pi / distance
    points = np.maximum(9, np.ceil(14 * spread / distance)).astype(np.int64) | 1  # odd, so that a period mirrors itself
    h = period / points

    def small(place: Array) -> Array:
        return np.asarray(np.exp(-people * joint * (1 - np.cos(2 * math.pi * place / points))))

    angle = np.arccos(np.maximum(-1.0, 1 - _SMALL / np.maximum(people * joint, 1e-300)))  # from here on the bound is below e^-_SMALL
    half = np.minimum(points // 2, np.floor(points * angle / (2 * math.pi)).astype(np.int64))
    outside = (points - 2 * half - 1) * small(half + 1) + 1e-300  # it falls towards the middle of a period
    width = 2 * half + 1
    reach = np.arange(int(half.max()) + 1)
    bound = np.exp(-people * joint[:, None] * (1 - np.cos(2 * math.pi * reach / points[:, None])))
    inside = 2 * np.where(reach <= half[:, None], bound, 0.0).sum(axis=1) - 1
    edge = h * np.maximum(1.0, half)
    # what lies outside the centres, in all periods; and the centres beyond the last period
    missing = outside * (1 / edge**2 + math.pi**2 / period**2)
    rough = math.sqrt(2 * math.pi) / (h * spread * c**2)
    close = relative * np.maximum(1.0, (c * spread / deep) ** 2)
    wanted = np.maximum(2, 2 / close * inside / (period**2 * rough))
    lobes = np.minimum(wanted, np.maximum(2, _NODES // width)).astype(np.int64)
    missing += 2 * inside / (period**2 * lobes)
    total, rounding = _integrated(values, weight, people, c, h, np.stack([points, half, lobes]))
    sums = h / (2 * math.pi) * (total + missing + rounding)
    exponent = people * level + people * _UNIT * (16 + 16 * c * np.abs(values).max(axis=1))
    with np.errstate(over="ignore", invalid="ignore"):
        deltas = blanket.factor * np.exp(np.minimum(exponent, 700.0)) * sums / people * (1 + 1e-12)
    found[asked] = np.where(deltas < 1, deltas, 1.0)  # what is beyond floating point is no bound
    return found


def _tilts(values: Array, masses: Array, people: int) -> Array:
    """Near the saddle point of each row: n times the tilted mean is about 2 / c. Any c is valid; infinity where none is found."""
    low, high = np.full(len(values), 1e-9), np.ones(len(values))

    def past(c: Array) -> NDArray[np.bool_]:
        return np.asarray(people * _tilted(values, masses, c)[2] > 2 / c)

    while (short := ~past(high) & (high < 1e6)).any():
        low, high = np.where(short, high, low), np.where(short, 4 * high, high)
    lost = high > 1e6
    while (high > 1.0001 * low).any():
        middle = np.sqrt(low * high)
        far = past(middle)
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    return np.where(lost, math.inf, high)


def _integrated(values: Array, weight: Array, people: int, c: Array, h: Array, nodes: NDArray[np.int64]) -> tuple[Array, Array]:
    """The sum of the integrand's real part over each row's nodes, and what rounding can do to it.

    Nodes of all rows stand one after the other. A row's are those within `half` of a multiple of `points`, in `lobes` periods each way.
    """
    points, half, lobes = nodes
    width = 2 * half + 1
    each = width * (lobes + 1)
    total, rounding = np.zeros(len(c)), np.zeros(len(c))
    largest = np.abs(values).max(axis=1)
    start = 0
    while start < len(c):
        stop = start + max(1, int(np.searchsorted(np.cumsum(each[start:]), _BLOCK, side="right")))
        row = np.repeat(np.arange(start, stop), each[start:stop])
        first = np.cumsum(each[start:stop]) - each[start:stop]
        number = np.arange(len(row)) - first[row - start]
        lobe, place = np.divmod(number, width[row])
        y = h[row] * (place - half[row] + points[row] * lobe)
        real, imaginary = np.zeros(len(row)), np.zeros(len(row))
        for v, w in zip(values.T, weight.T, strict=True):
            if not v.any():
                real += w[row]
                continue
            turned = v[row] * y
            real += w[row] * np.cos(turned)
            imaginary += w[row] * np.sin(turned)
        tilt = c[row]
        square = tilt**2 + y**2
        with np.errstate(divide="ignore"):
            size = np.exp(people / 2 * np.log(real**2 + imaginary**2)) / square * np.where(lobe == 0, 1.0, 2.0)
        angle = people * np.arctan2(imaginary, real)
        term = size * (np.cos(angle) * (tilt**2 - y**2) + np.sin(angle) * (2 * tilt * y)) / square
        total[start:stop] = np.add.reduceat(term, first)
        lost = size * (people * _UNIT * (16 + 4 * np.abs(y) * largest[row]) + 64 * _UNIT)
        rounding[start:stop] = np.add.reduceat(lost, first)
        start = stop
    return total, rounding


def _enumerated(blanket: Blanket, people: int, odds: Array) -> Array:
    """(1/n) E[(Z_1 + ... + Z_n)_+] over all ways in which n people share the outcomes, from above, at each e^epsilon.

    Each Z is (one of two) - e^epsilon (one of two), so the sum is X - e^epsilon Y, positive where X / Y is larger: sums over these, the
    largest ratio first, answer for every epsilon. Rounding can do no more than is added.
    """
    ratios, first, second = _ordered(blanket, people)
    place = np.searchsorted(-ratios, -odds, side="left")
    lost = 4 * _UNIT * (len(ratios) + people) * (first[place] + odds * second[place])
    return np.asarray(blanket.factor / people * (np.maximum(first[place] - odds * second[place], 0.0) + lost))


@lru_cache(maxsize=16)
def _ordered(blanket: Blanket, people: int) -> tuple[Array, Array, Array]:
    """Ratios X / Y of all ways to share the outcomes, the largest first, and the sums of the masses times X, and times Y, of all above."""
    kept, masses = _masses(blanket)
    odds = math.exp(blanket.epsilon)
    counts, ways = _shares(len(masses), people)
    x, y = (counts @ np.array(each)[kept] for each in ([0.0, odds, 1.0, odds, 1.0], [0.0, 1.0, odds, odds, 1.0]))
    mass = np.exp(ways + counts @ np.log(masses))
    ratio = np.divide(x, y, out=np.zeros_like(x), where=y > 0)  # not one report in the blanket tells nothing
    order = np.argsort(-ratio, kind="stable")
    return ratio[order], *(np.insert(np.cumsum((mass * each)[order]), 0, 0.0) for each in (x, y))


@lru_cache(maxsize=16)
def _shares(parts: int, people: int) -> tuple[Array, Array]:
    """All lists of so many counts that add up to `people`, and the logarithm of how many orders each stands for."""
    total = math.comb(people + parts - 1, people) * (parts - 1)
    bars = np.fromiter(chain.from_iterable(combinations(range(people + parts - 1), parts - 1)), dtype=np.int64, count=total)
    bars = bars.reshape(-1, parts - 1)
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
        top = self.blanket.epsilon
        high = top
        for _ in range(2):  # the least of a list of epsilons at which delta is below _DEEP, twice
            some = high * np.linspace(0.0, 1.0, 33)[1:]
            below = premiums(self.blanket, self.people, some, 0.1) <= _DEEP
            high = float(some[int(np.argmax(below))]) if below.any() else high
        # evenly over the first deviations, of which a delta of 1e-18 is nearly nine away; then ever wider, and a few beyond
        sigma = high / 8.8
        steps = np.append(np.full(round(3.5 * _FINE), 1.0), 1.02 ** np.arange(1, 400)) * (sigma / _FINE)
        fine = np.insert(np.cumsum(steps), 0, 0.0)
        coarse = np.linspace(high, top, 50)[1:] if high < top else np.empty(0)
        epsilons = np.concatenate([fine[fine < high], [high], coarse])
        deltas = premiums(self.blanket, self.people, epsilons[: len(epsilons) - len(coarse)], 1.2e-5, 1.7)
        deltas = np.minimum.accumulate(np.concatenate([deltas, premiums(self.blanket, self.people, coarse, 1.0)]))
        return from_profile(list(zip(epsilons.tolist(), deltas.tolist(), strict=True)))

    # The law takes some time and single questions do without it, so the two attributes of a finite pair are worked out when asked for.
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
    none = max(1 - first - u, 1e-300)
    # the rest is one of few whole numbers, so its part of the exponent is looked up
    least = max(0, int(rest[-1, -1]))
    known = np.arange(least, max(least, int(rest[0, 0])) + 1, dtype=float)
    left_over = (known * math.log(none) - gammaln(known + 1))[(np.maximum(rest, least) - least).astype(np.int64)]
    exponent = gammaln(others + 1.0) - gammaln(a + 1) + a * math.log(first) + (b * math.log(u) - gammaln(b + 1)) + left_over
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
