"""Smooth sensitivity: noise scaled to how much a statistic can change *near* the data, where the scale gives nothing away.

The scale is private, so it never passes through floating point. It is one of a public ladder of scales s_0 < s_1 < ... ;
neighbouring data sets stand on the same rung or on adjacent ones; and all answers are whole granules, whatever the rung. Use it for
medians and quantiles of data with public bounds, whether a row is exchanged or added and removed.

>>> from tacit.calculus import Integers, ReplaceOne, Rows
>>> plan = Space(Rows(Integers(0, 1000), size=101), ReplaceOne()) >> smooth_median(epsilon=1)
>>> plan.event(1), 0 <= plan.release(range(101)).value <= 1000
(PureDP(epsilon=1, adjacency=Adjacency.REPLACE_ONE), True)

**The ladder.** Let A_k(x) bound the local sensitivity of every data set within k changes of x, so that A_k(x) <= A_(k+1)(x') for
neighbours. Rung j admits changes up to a public T_j, nondecreasing in j. The rung of x is the least j >= 0 with A_k(x) <= T_(j+k) for
all k. If x' stands on rung j', then A_k(x) <= A_(k+1)(x') <= T_(j'+1+k), so x stands on j'+1 at most: rungs of neighbours differ by at most
1. This is the e^beta-smooth bound of Nissim, Raskhodnikova and Smith 2007 rounded up to powers of e^beta, with nothing left to rounding
errors; and the statistic changes by at most A_0 <= T_min(j, j'). What remains is a finite list of pairs of laws, and each is checked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, Self

import numpy as np

from tacit import noise
from tacit.accounting import ApproxDP, Event, Group, NoOp, ParameterError, PureDP
from tacit.calculus import AddRemove, DomainError, Hamming, Measurement, MetricError, ReplaceOne, Space
from tacit.mechanisms.accuracy import failure, least_that_keeps, rounded_up
from tacit.mechanisms.mechanism import Mechanism, whole_rows
from tacit.noise import from_lattice
from tacit.parameters import Number, count, number, positive, probability

LARGEST = 2**60  # widths beyond would overflow a word in a difference
MOST_RUNGS = 50_000
_GRAIN = 2**30  # denominators of the scales
_MARGIN = 1 + 1e-9  # every logarithm below is good to 1e-13; the price is raised by this


def smooth_sensitivity(sensitivity_at: Callable[[int], float], most: int, beta: float) -> float:
    """max over k <= most of e^(-beta k) A_k: the textbook's definition (4.8.1), for study; the mechanisms use the ladder.

    >>> round(smooth_sensitivity(lambda k: min(k + 1, 10), 9, 0.5), 7)
    1.2130613
    """
    return max(math.exp(-beta * k) * sensitivity_at(k) for k in range(count("most", most, least=0) + 1))


class Statistic(Protocol):
    """A whole-numbered statistic that knows its sensitivity near the data.

    `sensitivities(data, most)` returns A_0 .. A_most for one data set. The guarantee rests on A_0 bounding the change to any neighbour
    and on A_k(x) <= A_(k+1)(x') for neighbours.
    """

    @property
    def name(self) -> str: ...
    def range(self, lower: int, upper: int) -> tuple[int, int]: ...
    def value(self, data: np.ndarray, lower: int, upper: int) -> int: ...
    def sensitivities(self, data: np.ndarray, lower: int, upper: int, most: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Quantile:
    """The ceil(q n)-th smallest of n values; the lower bound where there are none. For exchanged, added and removed rows alike."""

    q: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", probability("q", self.q))

    @property
    def name(self) -> str:
        return f"quantile {self.q}"

    def range(self, lower: int, upper: int) -> tuple[int, int]:
        return lower, upper

    def rank(self, n: int) -> int:
        """The position in order, from 1."""
        return min(max(1, math.ceil(Fraction(self.q) * n)), n)

    def value(self, data: np.ndarray, lower: int, upper: int) -> int:
        return int(np.sort(data)[self.rank(len(data)) - 1]) if len(data) else lower

    def sensitivities(self, data: np.ndarray, lower: int, upper: int, most: int) -> np.ndarray:
        """A_k = max over 0 <= t <= k + 1 of x_(m+t) - x_(m+t-k-1); exact for exchanged rows. (Printed with +k-1: erratum E13.)

        Rows that come and go: with one row more or less the rank m stays or moves by 1, and the value stays between x_(m-1) and x_(m+1),
        so it moves by at most A_0. x_(b) - x_(a) of the old rows is at most x_(b+1) - x_(a) of one row more, and x_(b) - x_(a-1) of one
        row less. A pair a >= m-k-1, b = a+k+1 <= m+k+1 becomes one of A_(k+1) there, so A_k(x) <= A_(k+1)(x') holds as well.

        >>> Quantile(Fraction(1, 2)).sensitivities(np.arange(1, 10), 0, 10, 3).tolist()
        [1, 2, 3, 4]
        """
        n, rank = len(data), self.rank(len(data))
        places = np.arange(rank - most - 1, rank + most + 2) - 1
        values = np.sort(data).astype(np.int64)
        near = np.where(places < 0, lower, np.where(places >= n, upper, values[np.clip(places, 0, n - 1)] if n else lower))
        middle = most + 1
        widest = [int((near[middle : middle + k + 2] - near[middle - k - 1 : middle + 1]).max()) for k in range(most + 1)]
        return np.array(widest, dtype=np.int64)


@dataclass(frozen=True)
class InterquartileRange:
    """The third quartile minus the first.

    One replacement moves all order statistics one way, so the range changes by no more than one of the two quartiles does:
    A_k is the larger of theirs. The same holds for a row that comes to n others (and for one that goes, which is the same pair). Its rank
    rises by one for the first quartile only where 4 divides n, and stays for the third only where 4 divides n + 1. A quartile rises only
    if its rank does, and falls only if it stays; so the first cannot rise while the third falls. For the first to fall the new row must
    lie below it, and then the third falls or stays.
    """

    @property
    def name(self) -> str:
        return "interquartile range"

    def range(self, lower: int, upper: int) -> tuple[int, int]:
        return 0, upper - lower

    def value(self, data: np.ndarray, lower: int, upper: int) -> int:
        return _UPPER.value(data, lower, upper) - _LOWER.value(data, lower, upper)

    def sensitivities(self, data: np.ndarray, lower: int, upper: int, most: int) -> np.ndarray:
        found: np.ndarray = np.maximum(_UPPER.sensitivities(data, lower, upper, most), _LOWER.sensitivities(data, lower, upper, most))
        return found


_LOWER, _UPPER = Quantile(Fraction(1, 4)), Quantile(Fraction(3, 4))


def check_distance(statistic: Quantile | InterquartileRange | Statistic, space: Space) -> None:
    """Refuse rows that come and go for a statistic whose sensitivities are known for exchanged rows alone."""
    if isinstance(space.metric, AddRemove) and not isinstance(statistic, (Quantile, InterquartileRange)):
        raise MetricError(f"the {statistic.name} has no sensitivities for rows that come and go; use ReplaceOne() for a public number")


@dataclass(frozen=True)
class HeavyTail:
    """Mass proportional to 1 / (s^tail + |k|^tail) on the integers, tail 2 (a discrete Cauchy law) or 4 (finite variance).

    The sum over all k is known in closed form: (pi / s) coth(pi s) for tail 2, and for tail 4, with u = sqrt(2) pi s,
    pi / (sqrt(2) s^3) (sinh u + sin u) / (cosh u - cos u). So the privacy loss is bounded on paper.

    *Tail 2.* Between scales 1 and c and a shift a, (c^2 + (z - a)^2) / (1 + z^2) lies between the eigenvalues of
    [[1, -a], [-a, a^2 + c^2]], whose product is c^2. So the loss is at most arccosh((1 + a^2 + c^2) / (2 c)), the distance of (0, 1) and
    (a, c) in the hyperbolic half-plane, plus what tanh adds.

    *Tail 4.* A shift by d moves log(s^4 + k^4) by at most 3^(3/4) d/s, the largest slope; from s to
    c s the log-mass changes by log(N_s / N_cs) less a term between 0 and 4 log c; the two are added.
    """

    tail: int = 2

    def __post_init__(self) -> None:
        if self.tail not in (2, 4):
            raise ParameterError(f"tail must be 2 (Cauchy) or 4 (finite variance), not {self.tail}: only there the sum is in closed form")

    def log_total(self, scale: float) -> float:
        """The logarithm of the sum over all k of 1 / (s^tail + |k|^tail)."""
        if self.tail == 2:
            return math.log(math.pi / scale) - math.log(math.tanh(math.pi * scale))
        u = math.sqrt(2) * math.pi * scale
        # both parts divided by e^u / 2, which overflows otherwise
        up = -math.expm1(-2 * u) + 2 * math.exp(-u) * math.sin(u)
        down = 1 + math.exp(-2 * u) - 2 * math.exp(-u) * math.cos(u)
        return math.log(math.pi / math.sqrt(2)) - 3 * math.log(scale) + math.log(up / down)

    def loss(self, narrow: float, wide: float, shift: float) -> float:
        """A bound on the loss between two scales and centres `shift` narrow scales apart, in both directions."""
        ratio, change = wide / narrow, self.log_total(narrow) - self.log_total(wide)
        if self.tail == 2:
            # arccosh(1 + y) = log1p(y + sqrt(y (2 + y))) keeps its digits where y is tiny
            y = ((ratio - 1) ** 2 + shift**2) / (2 * ratio)
            return math.log1p(y + math.sqrt(y * (2 + y))) + abs(change - math.log(ratio))
        return max(change, 4 * math.log(ratio) - change) + 3**0.75 * shift

    def beyond(self, scale: float, error: int) -> float:
        """P(|K| > error) from above: the mass at k is at most the integral of 1 / (s^tail + x^tail) from k - 1 to k.

        >>> HeavyTail(2).beyond(1.0, 0), round(HeavyTail(2).beyond(10.0, 1000), 5), round(HeavyTail(4).beyond(10.0, 1000), 9)
        (0.996..., 0.00637, 3e-07)
        """
        u = error / scale
        if self.tail == 2:
            integral = math.atan2(1.0, u) / scale
        else:
            from scipy.special import hyp2f1

            below = u * hyp2f1(1, 0.25, 1.25, -(u**4)) if u < 1 else 0.0
            rest = math.pi / (2 * math.sqrt(2)) - below if u < 1 else hyp2f1(1, 0.75, 1.75, -(u**-4)) / (3 * u**3)
            integral = float(rest) / scale**3
        return min(1.0, 2 * integral * math.exp(-self.log_total(scale)) * _MARGIN)

    def draw(self, scale: Fraction) -> int:
        """Exact rejection from blocks that double: whether a proposal is kept is decided in whole numbers."""
        base = math.ceil(scale)
        top, under = scale.numerator**self.tail, scale.denominator**self.tail
        while True:
            block = 0 if noise.uniform_integers(3) == 0 else 1 + _coin_run()
            start, width = (0, base) if block == 0 else (base << (block - 1), base << (block - 1))
            size = start + int(noise.uniform_integers(width))
            negative = noise.uniform_integers(2) == 1
            # The envelope has weight 4^-(block - 1) in a block, which is above s^g / (s^g + k^g) there because k >= s 2^(block - 1).
            weight = top << (2 * max(0, block - 1))
            keep = noise.uniform_integers(top + under * size**self.tail) < weight
            if keep and not (negative and size == 0):
                return -size if negative else size


def _coin_run() -> int:
    """The number of heads before the first tail."""
    run = 0
    while True:
        word = int(noise.uniform_integers(2**32))
        if word:
            return run + (word & -word).bit_length() - 1
        run += 32


@dataclass(frozen=True)
class TwoSidedGeometric:
    """Mass proportional to exp(-|k| / s), the discrete Laplace law; between two scales the loss is unbounded, so a delta is needed.

    The sampler is that of Canonne, Kamath and Steinke 2020, which needs no table: building one would show in time that a scale is new.
    """

    def peaks(self, narrow: float, wide: float) -> float:
        """The logarithm of the ratio of the two laws at their centres."""
        return math.log(math.tanh(1 / (2 * narrow)) / math.tanh(1 / (2 * wide)))

    def loss(self, narrow: float, wide: float, shift: float) -> float:
        """A bound on the loss of the narrower law against the wider one; the other direction needs `delta`."""
        return self.peaks(narrow, wide) + shift

    def delta(self, narrow: float, wide: float, shift: float, epsilon: float) -> float:
        """A bound on the hockey-stick divergence of the wider law from the narrower one, moved by `shift` narrow scales.

        The loss grows linearly on either side of the centre, with slope 1/narrow - 1/wide, and passes epsilon once. From a point K beyond,
        the sum of P(k) - e^epsilon Q(k) is tail_P(K) - e^epsilon tail_Q(K), largest over real K where P/(e^epsilon Q) is
        h = wide (1 - e^(-1/wide)) / (narrow (1 - e^(-1/narrow))), and there equal to tail_P(K) (1 - narrow/wide).
        The other direction is bounded by `loss`.
        """
        spread = wide / narrow - 1
        height = math.log(wide / narrow) + math.log(math.expm1(-1 / wide) / math.expm1(-1 / narrow))
        reach = epsilon + self.peaks(narrow, wide) + height
        tails = math.exp(-(reach - shift) / spread) + math.exp(-(reach + shift) / spread)
        return tails * spread / (1 + spread) / (1 + math.exp(-1 / wide))

    def beyond(self, scale: float, error: int) -> float:
        """P(|K| > error) = 2 q^(error + 1) / (1 + q) with q = e^(-1 / scale), rounded up."""
        return min(1.0, 2 * math.exp(-(error + 1) / scale) / (1 + math.exp(-1 / scale)) * _MARGIN)

    def draw(self, scale: Fraction) -> int:
        while True:
            remainder = int(noise.uniform_integers(scale.numerator))
            if not noise.bernoulli_exp(Fraction(remainder, scale.numerator)):
                continue
            size = (remainder + scale.numerator * int(noise.geometric(1))) // scale.denominator
            negative = noise.uniform_integers(2) == 1
            if not (negative and size == 0):
                return -size if negative else size


@dataclass(frozen=True)
class Ladder:
    """Public scales, the change T_j that each rung covers, and the price: the largest over all pairs of adjacent rungs.

    >>> ladder(1000, epsilon=1, delta=None, tail=2).epsilon <= 1
    True
    """

    law: HeavyTail | TwoSidedGeometric
    scales: tuple[Fraction, ...]
    covers: tuple[int, ...]
    epsilon: float
    delta: float

    def rung(self, sensitivities: Sequence[int] | np.ndarray) -> int:
        """The least j with A_k <= T_(j+k) for every k; beyond the top A_k is covered by the whole width."""
        needed = np.searchsorted(np.array(self.covers), np.asarray(sensitivities), side="left")
        return max(0, int((needed - np.arange(len(needed))).max()))

    def draw(self, rung: int) -> int:
        return self.law.draw(self.scales[rung])

    def error(self, rung: int, beta: float, most: int) -> int:
        """The least whole error that a draw on this rung exceeds with probability at most beta; never more than `most`."""
        scale = float(self.scales[rung])
        low, high = -1, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.law.beyond(scale, middle) <= beta else (middle, high)
        return high


@lru_cache(maxsize=64)
def ladder(width: int, epsilon: Number, delta: Number | None, tail: int) -> Ladder:
    """The ladder for a statistic within `width` granules: epsilon is shared equally by the shift and the change of scale."""
    if not 0 <= width <= LARGEST:
        raise DomainError(f"the statistic spans {width} granules, and at most 2^60 are supported; choose a coarser granularity")
    target = float(epsilon)
    if delta is None:
        # for tail 2 the two parts add like the sides of a right angle; for tail 4 a change of scale by c costs 3 log c
        share = target / math.sqrt(2) if tail == 2 else target / 6
        return _build(HeavyTail(tail), width, min(share, math.log(2)), target, 0.0)
    limit = float(delta)
    climb = min(target / math.log(1 / limit), math.log(2))
    while True:
        found = _build(TwoSidedGeometric(), width, climb, target, limit)
        if found.delta <= limit:
            return found
        climb *= 0.98


def _build(law: HeavyTail | TwoSidedGeometric, width: int, climb: float, target: float, limit: float) -> Ladder:
    """Rungs e^climb apart, up to the one that covers the width, with the largest shift that the target leaves."""
    if climb * MOST_RUNGS < math.log(max(4.0, width / target)) + 10:
        raise ParameterError(
            f"epsilon is too small for {width} granules: more than {MOST_RUNGS} rungs would be needed; raise it, or coarsen"
        )
    scales = [Fraction(1)]
    while float(scales[-1]) * target < 16 * (width + 1):
        scales.append(Fraction(round(math.exp(climb * len(scales)) * _GRAIN), _GRAIN))
    pairs = [(float(low), float(high)) for low, high in itertools.pairwise(scales)]
    hardest = max(pairs, key=lambda pair: law.loss(pair[0], pair[1], 0.0))

    def loss(pair: tuple[float, float], shift: float) -> float:
        """Neighbours on adjacent rungs, and on the same one, which is worse where the shift is large."""
        return max(law.loss(pair[0], pair[1], shift), law.loss(pair[0], pair[0], shift)) * _MARGIN

    low, high = 0.0, 2 * target if limit == 0 else target / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(hardest, middle) <= target else (low, middle)
    shift = low * (1 - 1e-6)
    covers = [math.floor(Fraction(shift) * scale) for scale in scales]
    top = next(j for j, covered in enumerate(covers) if covered >= width)
    price = max((loss(pair, shift) for pair in pairs), default=0.0)
    worst = 0.0
    if isinstance(law, TwoSidedGeometric):
        worst = max((law.delta(narrow, wide, shift, target) for narrow, wide in pairs), default=0.0) * _MARGIN
    if price > target:
        raise ParameterError(f"no ladder was found for epsilon {target}; this should not happen, please report it")
    return Ladder(law, tuple(scales[: top + 1]), tuple(covers[: top + 1]), price, worst)


@dataclass(frozen=True)
class SmoothSensitivity(Mechanism):
    """A statistic plus noise of its own rung's scale, moved into the statistic's public range.

    Guarantee
        Statement: epsilon-DP without `delta` (heavy-tailed noise), (epsilon, delta)-DP with it (discrete Laplace noise); d changes cost
        what group privacy says.
        Conditions: replace-one or Hamming distance, or add/remove (where the number of rows is private) for quantiles and the
        interquartile range; whole values in public bounds; a statistic whose sensitivities are as `Statistic` asks.
        Proved in: the module's text for the rungs; `HeavyTail` and `TwoSidedGeometric` for the laws; after Nissim, Raskhodnikova and Smith
        2007, section 2.
        Correction: smoothness is S(x) <= e^(beta d) S(x'), not the additive form printed in 4.8.1 (E13). The customary Cauchy calibration
        beta = epsilon/6, scale 6S/epsilon is valid but four times too wide: shift and dilation together cost sqrt(a^2 + beta^2), nearly, so
        that beta = epsilon/sqrt(2), scale sqrt(2) S/epsilon keeps epsilon. The customary Laplace calibration states delta, and its textbook
        proof gives delta (1 + e^(epsilon/2)) / 2; here delta is computed for every pair of rungs.
    """

    statistic: Quantile | InterquartileRange | Statistic
    epsilon: Number
    delta: Number | None = None
    tail: int = 2
    proof: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        HeavyTail(self.tail)
        if self.delta is not None and not 0 < number("delta", self.delta) < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1, or be left out for pure epsilon, not {self.delta}")

    def bind(self, space: Space) -> Measurement:
        statistic = self.statistic
        check_distance(statistic, space)
        lower, upper, granularity = bounded_rows(space, statistic.name, add_remove=True)
        low, high = statistic.range(lower, upper)
        rungs = ladder(high - low, self.epsilon, self.delta, self.tail)

        def answer(data: Any) -> int | float:
            values = np.asarray(data, dtype=np.int64)
            near = statistic.sensitivities(values, lower, upper, len(rungs.scales))
            found = statistic.value(values, lower, upper) + rungs.draw(rungs.rung(near))
            cut = min(max(found, low), high)
            return cut if granularity is None else from_lattice(cut, granularity)

        proved = isinstance(statistic, (Quantile, InterquartileRange))
        name = f"smooth sensitivity of the {self.statistic.name}"
        proof = "Nissim, Raskhodnikova, Smith 2007; see Guarantee" if proved else self.proof
        return Measurement(space, answer, self._privacy, name, proof)

    def _privacy(self, distance: Number) -> Event:
        changes = math.floor(distance)
        if not changes:
            return NoOp()
        if self.delta is None:
            return PureDP(self.epsilon if changes == 1 else Fraction(self.epsilon) * changes)
        single = ApproxDP(self.epsilon, self.delta)
        return single if changes == 1 else Group(single, changes)

    def accuracy(  # the error needs public facts
        self, beta: Number, *, space: Space, near: Sequence[int] | np.ndarray = ()
    ) -> float:
        """The error on rows of a space that is exceeded with probability at most beta, *if* the sensitivities near the data are at most
        `near`: A_0, A_1, ... in granules, a public guess. What `near` does not name counts as the whole width, so without it this is the
        error on the worst data. `measured_accuracy` buys what holds for the data at hand.

        >>> from tacit.calculus import Integers, ReplaceOne, Rows
        >>> ages = Space(Rows(Integers(0, 1000), size=101), ReplaceOne())
        >>> even = [10 * (k + 1) for k in range(100)]  # rows ten apart near the median
        >>> smooth_median(epsilon=1).accuracy(0.05, space=ages, near=even), smooth_median(epsilon=1).accuracy(0.05, space=ages)
        (204.0, 1000.0)
        """
        width, step = self._width(space)
        rungs = ladder(width, self.epsilon, self.delta, self.tail)
        return _in_units(rungs.error(_rung(rungs, near, width), failure(beta), width), step)

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, space: Space, near: Sequence[int] | np.ndarray = (),
        statistic: Quantile | InterquartileRange | Statistic | None = None, delta: Number | None = None, tail: int = 2,
    ) -> Self:  # fmt: skip
        """The least epsilon, to a thousandth, whose error exceeds alpha with probability at most beta on rows like `near`; the median by
        default.

        >>> from tacit.calculus import Integers, ReplaceOne, Rows
        >>> ages = Space(Rows(Integers(0, 1000), size=101), ReplaceOne())
        >>> even = [10 * (k + 1) for k in range(100)]
        >>> round(SmoothSensitivity.for_accuracy(204, 0.05, space=ages, near=even).epsilon, 2) <= 1
        True
        """
        goal, of = float(positive("alpha", alpha)), Quantile(Fraction(1, 2)) if statistic is None else statistic

        def keeps(epsilon: float) -> bool:
            return cls(of, epsilon, delta, tail).accuracy(beta, space=space, near=near) <= goal

        return cls(of, least_that_keeps(keeps, 1e-3), delta, tail)

    def measured_accuracy(self, *, epsilon: Number, beta: Number) -> MeasuredAccuracy:
        """A step that releases, for this epsilon, an error that this mechanism exceeds on the same rows with probability at most beta."""
        return MeasuredAccuracy(self, epsilon, beta)

    def _width(self, space: Space) -> tuple[int, Fraction]:
        lower, upper, granularity = bounded_rows(space, self.statistic.name, add_remove=True)
        check_distance(self.statistic, space)
        low, high = self.statistic.range(lower, upper)
        return high - low, granularity or Fraction(1)


def _rung(rungs: Ladder, near: Sequence[int] | np.ndarray, width: int) -> int:
    """The rung of sensitivities of which only the first are known."""
    known = [min(int(value), width) for value in near][: len(rungs.scales) + 1]
    return min(rungs.rung([*known, *([width] * (len(rungs.scales) + 1 - len(known)))]), len(rungs.scales) - 1)


def _in_units(error: int, step: Fraction) -> float:
    return float(error * step) if step == 1 else rounded_up(float(error * step))


@dataclass(frozen=True)
class MeasuredAccuracy(Mechanism):
    """How far a smooth-sensitivity answer on these rows may be off: an accuracy that depends on the data, and is paid for.

    The rung that the rows stand on gets two-sided geometric noise and a margin that the noise falls below with probability beta / 2;
    the answer's own noise has the other half. What is released is the error of that rung, which is public given the rung.

    Guarantee
        Statement: d changes cost d * epsilon, beside what the answer costs.
        Conditions: those of the mechanism.
        Proved in: the rungs of neighbours differ by at most 1 (the module's text); the geometric mechanism; the rest is post-processing.
        In the manner of APEx (Ge, He, Ilyas and Machanavajjhala 2019), whose data-dependent accuracies are bought as well.
    """

    answer: SmoothSensitivity
    epsilon: Number
    beta: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        failure(self.beta)

    def margin(self) -> int:
        """The least t with P(noise < -t) <= beta / 2.

        >>> smooth_median(epsilon=1).measured_accuracy(epsilon=1, beta=0.05).margin()
        3
        """
        rate = float(self.epsilon)
        wanted = -(math.log(float(self.beta) / 2) + math.log1p(math.exp(-rate))) / rate - 1
        return max(0, math.ceil(rounded_up(wanted)))

    def bind(self, space: Space) -> Measurement:
        width, step = self.answer._width(space)
        lower, upper, _ = bounded_rows(space, self.answer.statistic.name, add_remove=True)
        statistic = self.answer.statistic
        rungs = ladder(width, self.answer.epsilon, self.answer.delta, self.answer.tail)
        margin, top, share = self.margin(), len(rungs.scales) - 1, float(self.beta) / 2

        def told(data: Any) -> float:
            near = statistic.sensitivities(np.asarray(data, dtype=np.int64), lower, upper, len(rungs.scales))
            shown = min(rungs.rung(near), top) + int(noise.discrete_laplace(1 / Fraction(self.epsilon))) + margin
            return _in_units(rungs.error(min(max(shown, 0), top), share, width), step)

        def privacy(distance: Number) -> Event:
            changes = math.floor(distance)
            return PureDP(Fraction(self.epsilon) * changes) if changes else NoOp()

        proved = isinstance(statistic, (Quantile, InterquartileRange))
        proof = "neighbouring rungs differ by at most 1; see Guarantee" if proved else self.answer.proof
        return Measurement(space, told, privacy, f"accuracy of the {statistic.name}", proof)

    def accuracy(self, beta: Number, *, rungs: int) -> float:
        """By how much a tight error is multiplied: the noise stays within its quantile except with probability beta, so the released error
        belongs to a rung at most so far above the true one; as a number of rungs, at most `rungs`."""
        rate = float(self.epsilon)
        off = (math.log(2) - math.log1p(math.exp(-rate)) - math.log(failure(beta))) / rate - 1
        return float(min(count("rungs", rungs), max(0, math.ceil(rounded_up(off))) + self.margin()))

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, answer: SmoothSensitivity, rungs: int = 10**6
    ) -> Self:
        """The least epsilon, to a thousandth, at which the released error is at most alpha rungs above, except with probability beta."""
        goal = float(positive("alpha", alpha))
        return cls(answer, least_that_keeps(lambda e: cls(answer, e, beta).accuracy(beta, rungs=rungs) <= goal, 1e-3), beta)


def bounded_rows(space: Space, what: str, *, add_remove: bool = False) -> tuple[int, int, Fraction | None]:
    """The bounds of whole-numbered rows, in granules, and the granularity; or a refusal. Their number is public unless `add_remove`."""
    if not isinstance(space.metric, (ReplaceOne, Hamming, AddRemove) if add_remove else (ReplaceOne, Hamming)):
        wanted = "AddRemove(), ReplaceOne() or Hamming()" if add_remove else "ReplaceOne() or Hamming(), where the number of rows is public"
        raise MetricError(f"the {what} needs {wanted}, not {space.metric}")
    low, high, granularity = whole_rows(space, f"the {what}", vectors=True)
    if max(abs(low), abs(high), high - low) > LARGEST:
        raise DomainError("values must lie within 2^60 granules; choose a coarser granularity")
    return low, high, granularity


def smooth_quantile(q: Number, *, epsilon: Number, delta: Number | None = None, tail: int = 2) -> SmoothSensitivity:
    """The q-quantile with noise of its smooth sensitivity; with `delta` the noise is Laplace, without it heavy-tailed."""
    return SmoothSensitivity(Quantile(q), epsilon, delta, tail)


def smooth_median(*, epsilon: Number, delta: Number | None = None, tail: int = 2) -> SmoothSensitivity:
    """The (lower) median with noise of its smooth sensitivity."""
    return smooth_quantile(Fraction(1, 2), epsilon=epsilon, delta=delta, tail=tail)


def smooth_interquartile_range(*, epsilon: Number, delta: Number | None = None, tail: int = 2) -> SmoothSensitivity:
    """The interquartile range with noise of its smooth sensitivity."""
    return SmoothSensitivity(InterquartileRange(), epsilon, delta, tail)
