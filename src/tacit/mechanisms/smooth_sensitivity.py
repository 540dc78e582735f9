"""Smooth sensitivity: noise scaled to how much a statistic can change *near* the data, where the scale gives nothing away.

The scale is private, so it never passes through floating point. It is one of a public ladder of scales s_0 < s_1 < ... ;
neighbouring data sets stand on the same rung or on adjacent ones; and all answers are whole granules, whatever the rung. Use it for
medians and quantiles of data with public bounds and a public number of rows.

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
from typing import Any, Protocol

import numpy as np

from tacit import noise
from tacit.accounting import ApproxDP, Event, Group, NoOp, ParameterError, PureDP
from tacit.calculus import DomainError, Hamming, Measurement, MetricError, ReplaceOne, Space
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
    """The ceil(q n)-th smallest of n values, n public; the lower bound where there are none."""

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
        """A_k = max over 0 <= t <= k + 1 of x_(m+t) - x_(m+t-k-1); exact. (Printed with +k-1 in the textbook: erratum E13.)

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
    A_k is the larger of theirs.
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
        Conditions: replace-one or Hamming distance, so the number of rows is public; whole values in public bounds; a statistic whose
        sensitivities are as `Statistic` asks.
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
        lower, upper, granularity = bounded_rows(space, self.statistic.name)
        low, high = self.statistic.range(lower, upper)
        rungs = ladder(high - low, self.epsilon, self.delta, self.tail)

        def answer(data: Any) -> int | float:
            values = np.asarray(data, dtype=np.int64)
            near = self.statistic.sensitivities(values, lower, upper, len(rungs.scales))
            found = self.statistic.value(values, lower, upper) + rungs.draw(rungs.rung(near))
            cut = min(max(found, low), high)
            return cut if granularity is None else from_lattice(cut, granularity)

        proved = isinstance(self.statistic, (Quantile, InterquartileRange))
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


def bounded_rows(space: Space, what: str) -> tuple[int, int, Fraction | None]:
    """The bounds of whole-numbered rows of public number, in granules, and the granularity; or a refusal."""
    if not isinstance(space.metric, (ReplaceOne, Hamming)):
        raise MetricError(f"the {what} needs ReplaceOne() or Hamming(), where the number of rows is public, not {space.metric}")
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
