"""The law of a composed privacy loss, tilted: by one Fourier transform, or by its low frequencies alone; every error is bounded.

`tilt` turns masses p on a lattice into weights proportional to p exp(t L) that sum to 1. `dense` and `sparse` compose such factors, and
`joined` adds independent losses whose steps differ. What comes out is a `Law`: its `payoff(x)` is E~[g(Y - x)], with
g(y) = exp(-t y) (1 - exp(-y)) for y > 0 and else 0, and a bound on the error of that figure. Y is the loss less that of the anchors, the
heaviest points of the factors. g is at most t^t / (t + 1)^(t + 1), so the bounds are of the order of rounding whatever delta is.

The errors that are bounded:

- wrap-around: what lies outside the window, which the caller bounds, counts with the largest payoff;
- transforms: an entry is a sum of terms, each rounded at most 5 log2 N + 10 times, so it is off by that many units of 2^-53 times |p|_1;
  the power `count` multiplies this, and Parseval and Cauchy-Schwarz carry it to the payoff;
- rounding of tilts and masses: a relative error of every weight of a factor, to the power `count`, which `spoiled` bounds for all at once.

After many compositions only the low frequencies are left. Then a few hundred values of the characteristic function are computed
from centred moments, log f to relative accuracy, and the payoff is summed as a geometric series; no array of length N exists.

>>> half = np.array([0.5, 0.5])
>>> parts = [tilt(half, np.log(half), 0.0, step=1.0, t=1.0, count=2)]
>>> value, error = dense(parts, 1.0, 1.0, -2, 0, 0.0).payoff(-1.0)  # only the top point is above -1, by 1
>>> weight = 1 / (1 + math.exp(-1))
>>> abs(value - weight**2 * math.exp(-1) * (1 - math.exp(-1))) <= error < 1e-13
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pairs.pair import Array
from tacit.errors import UnsupportedError

Complex = NDArray[np.complex128]

UNIT = 2.0**-53
CUT = 36.0  # -log of the tilted mass left outside the window, each side
POINTS = 2_000_000  # points of the joint law of all lattices but the longest, where steps differ
_BLOCK = 256  # points whose exponential sums are taken at once
_TERMS = 14  # Taylor terms of a block's characteristic function: 0.25^14 / 14! is 4e-20


@dataclass(frozen=True)
class Tilted:
    """One factor tilted by exp(t L): weights that sum to 1 on the points index - anchor, and log E[exp(t (L - anchor loss))]."""

    weight: Array
    anchor: int
    level: float
    error: Array  # relative error of every weight
    count: int

    @cached_property
    def index(self) -> NDArray[np.int64]:
        return np.arange(len(self.weight), dtype=np.int64) - self.anchor

    @cached_property
    def mean(self) -> float:
        return float(np.dot(self.weight, self.index))

    @cached_property
    def deviation(self) -> float:
        return float(np.dot(self.weight, np.abs(self.index - self.mean)))


def tilt(p: Array, log_p: Array, rounding: float | Array, step: float, t: float, count: int) -> Tilted:
    """Masses p, each off by the factor 1 +- rounding, on points a `step` of loss apart, tilted by exp(t L); `count` copies of them.

    >>> tilt(np.array([0.5, 0.5]), np.log([0.5, 0.5]), 0.0, math.log(3), 1.0, 1).weight.round(9)
    array([0.25, 0.75])
    """
    slope_step = t * step
    anchor = int(np.argmax(log_p + slope_step * np.arange(len(p))))
    slope = slope_step * (np.arange(len(p)) - anchor)
    size = np.abs(slope)
    if slope[-1] < 600 and p[anchor] > 1e-250:
        raw = p / p[anchor] * np.exp(slope)
    else:  # the same in logarithms, which are rounded too
        raw = np.exp(log_p - log_p[anchor] + slope)
        size = np.where(raw > 0, 2 * size + 2 * np.abs(log_p) + 2 * abs(float(log_p[anchor])), 0.0)
    total = float(raw.sum())
    weight = raw / total
    level = float(log_p[anchor]) + math.log(total)
    error = UNIT * (8 + math.log2(len(raw)) + 2 * abs(level) + 2 * abs(math.log(total)) + size) + rounding
    return Tilted(weight, anchor, level, np.where(weight > 0, error, 0.0), count)


def spoiled(parts: Sequence[Tilted]) -> tuple[float, float]:
    """The relative error of the composed law, but for a share of its mass that is returned with it.

    A composed mass is a sum of products, and the relative error of a product adds up those of its factors. That sum is at most count times
    the largest; or, but for a share exp(-CUT) of the outcomes, what Chernoff's bound on it says.
    """
    most = sum(part.count * float(part.error.max()) for part in parts)
    if most <= 1e-11:
        return most, 0.0
    moments = [(part.count, float(np.dot(part.weight, part.error)), float(np.dot(part.weight, part.error**2))) for part in parts]
    variance = sum(n * max(second - mean * mean, 0.0) for n, mean, second in moments)
    rate = min(math.sqrt(2 * CUT / max(variance, 1e-300)), 600 / max(float(part.error.max()) for part in parts))
    level = sum(part.count * math.log(float(np.dot(part.weight, np.exp(rate * part.error)))) for part in parts)
    return min(most, (level + CUT) / rate * (1 + 1e-6)), math.exp(-CUT)


def _peak_payoff(t: float) -> float:
    """The largest value of exp(-t x) (1 - exp(-x))."""
    return math.exp(t * math.log(t) - (t + 1) * math.log1p(t)) if t > 0 else 1.0


class Law(Protocol):
    def payoff(self, x: float) -> tuple[float, float]:
        """E~[g(Y - x)] and a bound on its error, where Y is the composed loss less that of the anchors."""
        ...


@dataclass(frozen=True)
class Points:
    """The tilted composed law, point by point: losses in increasing order and their masses."""

    tilt: float
    loss: Array
    mass: Array
    error: float  # sum of the absolute errors of the masses

    def payoff(self, x: float) -> tuple[float, float]:
        first, last = (int(np.searchsorted(self.loss, end, side="right")) for end in (x, x + 60 / self.tilt))
        above = self.loss[first:last] - x
        value = float(np.sum(self.mass[first:last] * (np.exp(-self.tilt * above) * -np.expm1(-above))))
        # each payoff is off by the rounding of t x, at most 60; those beyond x + 60 / t were left out
        return value, self.error * _peak_payoff(self.tilt) + 150 * UNIT * value + (math.exp(-60) if last < len(self.loss) else 0.0)


@dataclass(frozen=True)
class Window:
    """The tilted composed law on consecutive lattice points."""

    tilt: float
    step: float
    first: int
    mass: Array
    error: float  # root of the sum of squared errors of the masses
    outside: float

    @cached_property
    def tables(self) -> tuple[Array, Array, float]:
        """With x = step k - f, g(step (k + m) - x) = exp(-t f) (gain[m] + (1 - exp(-f)) keep[m]); and a bound on its norm for f <= step."""
        distance = self.step * np.arange(min(len(self.mass), math.ceil(60 / (self.tilt * self.step)) + 1))
        decay = np.exp(-self.tilt * distance)
        gain, keep = decay * -np.expm1(-distance), decay * np.exp(-distance)
        return gain, keep, float(np.linalg.norm(gain) - math.expm1(-self.step) * np.linalg.norm(keep))

    def payoff(self, x: float) -> tuple[float, float]:
        gain, keep, norm = self.tables
        k = self.first if x < self.step * self.first else math.floor(x / self.step) + 1
        mass = self.mass[k - self.first : k - self.first + len(gain)]
        above = max(self.step * k - x, 0.0)
        lift = -math.expm1(-above)
        # summed pairwise, so few roundings; what is beyond 60 / t pays at most exp(-60)
        value = math.exp(-self.tilt * above) * float((mass * gain[: len(mass)]).sum() + lift * (mass * keep[: len(mass)]).sum())
        if above > self.step:  # below the window: the lift may be as large as 1
            norm += float(np.linalg.norm(keep))
        return value, self.error * norm + self.outside * _peak_payoff(self.tilt) + 200 * UNIT * value + math.exp(-60)


@dataclass(frozen=True)
class _Joint:
    """The sum of a loss known point by point and one on a window of another step."""

    points: Points
    window: Window

    @cached_property
    def tables(self) -> tuple[Array, Array]:
        """Sums of the window's masses from each point upwards, weighted by gain and by keep."""
        step, tilt = self.window.step, self.window.tilt
        keep = _filtered(self.window.mass, (tilt + 1) * step)
        gain = _filtered(np.append(keep[1:], 0.0), tilt * step) * (math.exp(-tilt * step) * -math.expm1(-step))
        return np.append(gain, 0.0), np.append(keep, 0.0)

    def payoff(self, x: float) -> tuple[float, float]:
        gain, keep = self.tables
        window, tilt = self.window, self.window.tilt
        here = x - self.points.loss
        k = np.clip(np.floor(here / window.step) + 1, window.first, window.first + len(window.mass))
        above = np.maximum(window.step * k - here, 0.0)
        place = k.astype(int) - window.first
        value = float(np.sum(self.points.mass * np.exp(-tilt * above) * (gain[place] - np.expm1(-above) * keep[place])))
        limit = (self.points.error + window.outside + math.sqrt(len(window.mass)) * window.error) * _peak_payoff(tilt)
        return value, limit + (200 + 4 * _BLOCK + len(gain) / 64) * UNIT * value


def _filtered(x: Array, rate: float) -> Array:
    """Sums over m >= 0 of x[k + m] exp(-rate m), block by block, so that no power leaves the range of doubles."""
    width = max(1, min(_BLOCK, int(300 / rate)))
    result = np.zeros(-(-len(x) // width) * width)
    result[: len(x)] = x
    rows = result.reshape(-1, width)
    power = np.exp(-rate * np.arange(width))
    rows[:] = np.cumsum((rows * power)[:, ::-1], axis=1)[:, ::-1] / power
    for row, later in zip(rows[-2::-1], rows[:0:-1], strict=True):
        row += later[0] * (power[::-1] * math.exp(-rate))
    return result[: len(x)]


@dataclass(frozen=True)
class Spectrum:
    """The tilted composed law by the low frequencies of its characteristic function, period `period` steps."""

    tilt: float
    step: float
    period: int
    first: int  # the window: steps from the anchors
    last: int
    mean: float
    value: Complex  # E~ exp(i w (K - mean)) at w = 2 pi m / period, m = 0, 1, ...
    error: Array
    dropped: float  # bound on the value at every other frequency
    outside: float

    def payoff(self, x: float) -> tuple[float, float]:
        limit = self.outside * _peak_payoff(self.tilt)
        r = self.first if x < self.step * self.first else math.floor(x / self.step) + 1
        if r > self.last:
            return 0.0, limit
        terms = self.last - r + 1
        frequency = 2 * math.pi / self.period * np.arange(len(self.value), dtype=float)
        start = max(self.step * r - x, 0.0)
        head = self._series(start, frequency)
        tail = self._series(start + self.step * terms, frequency)
        turn = np.exp(-1j * (2 * math.pi / self.period) * (np.arange(len(self.value)) * terms % self.period))
        series = head - turn * tail
        phase = np.exp(-1j * frequency * (r - self.mean))
        weight = np.full(len(self.value), 2.0 / self.period)
        weight[0] = 1.0 / self.period
        value = float(np.dot(weight, (self.value * phase * series).real))
        size = np.abs(head) + np.abs(tail)
        rounding = UNIT * (100 + 8 * np.abs(frequency * (r - self.mean)))
        error = float(np.dot(weight, np.abs(self.value) * size * rounding + self.error * np.abs(series)))
        return value, error + self.dropped * float(size[0]) + limit

    def _series(self, start: float, frequency: Array) -> Complex:
        """Sum over k >= 0 of exp(-i w k) g(start + step k); the numerators of the two geometric series are subtracted before dividing."""
        decay = -self.tilt * self.step - 1j * frequency
        numerator = -math.expm1(-start) + np.exp(decay) * (math.exp(-self.step) * math.expm1(self.step - start))
        return np.asarray(math.exp(-self.tilt * start) * numerator / (np.expm1(decay) * np.expm1(decay - self.step)))


def _rounds(size: int) -> float:
    """The relative error of a transform of `size` points."""
    return UNIT * (5 * math.log2(max(size, 2)) + 10)


def _fast_size(least: int) -> int:
    """The smallest 2^a 3^b >= least with b <= 2."""
    return min(base << max(0, math.ceil(math.log2(least / base))) for base in (1, 3, 9)) if least > 1 else 1


def _transform(parts: Sequence[Tilted], size: int) -> list[tuple[Complex, float, int]]:
    """Every part's characteristic function at the frequencies 2 pi m / size, with a bound on its error, and the part's count."""
    result = []
    for part in parts:
        folded = np.bincount(part.index % size, weights=part.weight, minlength=size)
        result.append((np.fft.rfft(folded), _rounds(size) + UNIT * (len(part.weight) // size + 8), part.count))
    return result


def dense(parts: Sequence[Tilted], t: float, step: float, first: int, last: int, outside: float) -> Window:
    """The composed law on the window first..last by one transform."""
    size = _fast_size(last - first + 1)
    modulus, phase, upper = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
    with np.errstate(divide="ignore"):
        for entries, error, count in _transform(parts, size):
            absolute = np.abs(entries)
            modulus += count * np.log(absolute)
            phase += count * np.angle(entries)
            upper += count * np.log(absolute * (1 + 8 * UNIT) + error)
    absolute = np.exp(modulus)
    slack = np.exp(upper) * (1 + 4 * UNIT) - absolute
    twice = np.full(size // 2 + 1, 2.0)
    twice[0] = 1.0
    if size % 2 == 0:
        twice[-1] = 1.0
    masses = np.fft.irfft(absolute * np.exp(1j * phase), size)
    error = math.sqrt(float(np.dot(twice, slack**2)) / size) + _rounds(size) * math.sqrt(float(np.dot(twice, absolute**2)) / size)
    # a true mass is not negative, so neither is a better estimate
    return Window(t, step, first, np.maximum(masses[np.arange(first, last + 1) % size], 0.0), error, outside)


def sparse(parts: Sequence[Tilted], t: float, step: float, first: int, last: int, outside: float) -> Spectrum | None:
    """The composed law by its low frequencies, where all others are certified to be negligible; None where they are not."""
    if sum(part.count for part in parts) < 16:
        return None
    period = last - first + 1
    longest = max(len(part.weight) for part in parts)
    size = _fast_size(max(min(8 * longest, 2**20), 2 * longest, 4096))
    cut = 32 + math.log(period)
    bound = np.zeros(size // 2)  # of log |f| between two neighbouring transformed frequencies
    for (entries, rounded, count), part in zip(_transform(parts, size), parts, strict=True):
        # |f''| <= E (K - mean)^2, so f is that close to its chords
        bend = float(np.dot(part.weight, (part.index - part.mean) ** 2)) * (2 * math.pi / size) ** 2 / 8
        absolute = np.abs(entries) + rounded + bend
        bound += count * np.log(np.minimum(np.maximum(absolute[1:], absolute[:-1])[: size // 2], 1.0))
    highest = int(np.flatnonzero(bound > -cut)[-1]) + 1
    reach = 2 * math.pi * highest / size
    number = min(math.ceil(reach * period / (2 * math.pi)) + 1, period // 2)
    if highest > size // 4 or number > 20_000:
        return None
    frequency = 2 * math.pi / period * np.arange(number, dtype=float)
    log_f = np.zeros(number, dtype=np.complex128)
    growth = np.zeros(number)
    for part in parts:
        centres, moments, distance = _blocks(part, reach)
        if len(centres) * number > 8_000_000:
            return None
        z = _centred(centres, moments, frequency / reach, reach)
        squared = 2 * z.real + z.real**2 + z.imag**2  # |f|^2 - 1
        with np.errstate(divide="ignore"):
            log_f += part.count * (0.5 * np.log1p(np.maximum(squared, -1.0)) + 1j * np.arctan2(z.imag, 1 + z.real))
        skew = float(np.dot(part.weight * part.error, np.abs(part.index - part.mean)))
        miss = frequency * (120 * UNIT * distance + 2 * skew) + 1e-19
        growth += part.count * np.log1p(miss / np.sqrt(np.maximum(1 + squared, 1e-300)))
    mean = math.fsum(part.count * part.mean for part in parts)
    phase = 4 * UNIT * frequency * (abs(mean) + sum(part.count * (1 + abs(part.mean)) for part in parts))
    absolute = np.exp(log_f.real)
    error = absolute * (np.expm1(np.minimum(growth, 600.0)) + phase + 8 * UNIT * np.minimum(np.abs(log_f), 1e9))
    return Spectrum(t, step, period, first, last, mean, np.exp(log_f), error, math.exp(-cut), outside)


def _blocks(part: Tilted, reach: float) -> tuple[Array, Array, float]:
    """Distances of block centres from the mean, the blocks' scaled central moments, and the mean size of both distances.

    A block is short against the highest frequency, and no longer than the law is wide.
    """
    width = max(1, min(len(part.weight), int(0.5 / reach), int(2 * part.deviation) + 1))
    number = -(-len(part.weight) // width)
    padded = np.zeros(number * width)
    padded[: len(part.weight)] = part.weight
    rows = padded.reshape(number, width)
    inside = np.arange(width) - (width - 1) / 2
    moments = np.zeros((number, _TERMS))
    power = np.ones(width)
    for order in range(_TERMS if width > 1 else 1):
        moments[:, order] = (rows * power).sum(axis=1)
        power = power * (reach * inside) / (order + 1)
    centres = np.asarray(width * np.arange(number) + ((width - 1) / 2 - part.anchor - part.mean), dtype=float)
    return centres, moments, float(np.dot(moments[:, 0], np.abs(centres)) + (rows * np.abs(inside)).sum())


def _centred(centres: Array, moments: Array, share: Array, reach: float) -> Complex:
    """E exp(i w (K - mean)) - 1 at w = share * reach; terms are as small as w times a distance, so small values keep their accuracy."""
    result = np.zeros(len(share), dtype=np.complex128)
    powers = (1j * share[:, None]) ** np.arange(1, _TERMS)
    for rows in np.array_split(np.arange(len(share)), max(1, len(share) * len(centres) // 2**18)):
        angle = (reach * share[rows])[:, None] * centres[None, :]
        half = np.sin(angle / 2)
        turn = -2 * half * half + 1j * np.sin(angle)
        inner = powers[rows] @ moments[:, 1:].T
        result[rows] = (turn * moments[:, 0]).sum(axis=1) + ((1 + turn) * inner).sum(axis=1)
    return result


def joined(laws: list[Points | Window]) -> Law:
    """The law of the sum of independent losses: all but the longest window point by point, that one by running sums."""
    *short, longest = sorted(laws, key=lambda law: (isinstance(law, Window), len(law.mass)))
    if not short:
        return longest
    whole = isinstance(longest, Points)
    result = Points(longest.tilt, np.zeros(1), np.ones(1), 0.0)
    for each in [*short, longest] if whole else short:
        law = each
        if isinstance(law, Window):
            loss = np.asarray(law.step * np.arange(law.first, law.first + len(law.mass)), dtype=float)
            law = Points(law.tilt, loss, law.mass, law.outside + math.sqrt(len(law.mass)) * law.error)
        if len(result.loss) * len(law.loss) > POINTS:
            raise UnsupportedError("lattices of different steps are too fine to be joined exactly; use a grid")
        loss = np.add.outer(result.loss, law.loss).ravel()
        mass = np.multiply.outer(result.mass, law.mass).ravel()
        order = np.argsort(loss)
        result = Points(result.tilt, loss[order], mass[order], (result.error + law.error) * (1 + 1e-9) + 4 * UNIT)
    return _Joint(result, longest) if isinstance(longest, Window) else result
