"""Privacy losses on a lattice: the composition is computed exactly but for certified rounding, however small delta is.

A `Lattice` puts P-mass p[i] on the loss offset + step (start + i). `compose` takes many of them and returns brackets that hold the
exact delta(eps) and eps(delta) of the composition.

Tilting. With K(t) = log E[exp(t L)] of the composed finite loss and any t > 0,

    delta(eps) = infinite + exp(K(t) - t eps) E~[g(L - eps)],      g(x) = exp(-t x) (1 - exp(-x)) for x > 0, else 0,

where E~ is the expectation under the law tilted by exp(t L). The payoff g is at most t^t / (t + 1)^(t + 1) < 1, so an absolute error of
the tilted law is the same error, relative, of delta: 1e-30 is as easy as 1e-3. Tilted factors compose by a discrete Fourier transform of
length N. Three errors enter, and every bracket contains them:

- wrap-around: mass outside a window of N points, at most 2 exp(-CUT) by Chernoff's bound on the tilted law, counts with the largest payoff;
- transforms: an entry is a sum of terms, each rounded at most 5 log2 N + 10 times, so it is off by that many units of 2^-53 times |p|_1;
  the power `count` multiplies this, and Parseval and Cauchy-Schwarz carry it to the payoff;
- rounding of tilts and masses: a relative error of every weight of a factor, to the power `count`.

After many compositions only the low frequencies are left. Then a few hundred values of the characteristic function are computed
from centred moments, log f to relative accuracy, and the payoff is summed as a geometric series; no array of length N exists.

>>> coin = Lattice(step=0.2, offset=-0.1, start=0, p=np.array([1.0, math.exp(0.1)]) / (1 + math.exp(0.1)))
>>> found = compose([(coin, 1000)]).epsilon(1e-6)
>>> round(found.upper, 6), found.width < 1e-9
(19.344671, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bound import Bound
from tacit.accounting.errors import ParameterError, UnsupportedError
from tacit.accounting.pairs import Array

Complex = NDArray[np.complex128]

METHOD = "lattice, tilted FFT"
UNIT = 2.0**-53
CUT = 36.0  # -log of the tilted mass left outside the window, each side
LARGEST = 2**21  # points of one transform
POINTS = 2_000_000  # points of the joint law of all lattices but the longest, where steps differ
_BLOCK = 256  # points whose exponential sums are taken at once
_LOOSE = 1e-25  # tilted mass of one factor whose relative accuracy does not matter
_TERMS = 14  # Taylor terms of a block's characteristic function: 0.25^14 / 14! is 4e-20


@dataclass(frozen=True, eq=False)
class Lattice:
    """P-mass p[i] at the loss offset + step (start + i), and `infinite` at infinity.

    What the figures are uncertain by: each mass by the factor 1 +- `rounding`, each loss by `jitter`, and `infinite` by `cut`, a part of
    it that counts in upper bounds only. The masses need not add up to 1: what is missing has loss minus infinity.
    """

    step: float
    offset: float
    start: int
    p: Array
    infinite: float = 0.0
    cut: float = 0.0
    rounding: float | Array = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.step < math.inf and math.isfinite(self.offset)):
            raise ParameterError(f"step must be positive and finite and offset finite, not {self.step} and {self.offset}")
        if not (0 <= self.cut <= self.infinite <= 1):
            raise ParameterError(f"0 <= cut <= infinite <= 1 must hold, not cut={self.cut}, infinite={self.infinite}")
        if self.p.ndim != 1 or not len(self.p) or not np.all(np.isfinite(self.p)) or np.any(self.p < 0):
            raise ParameterError("p must be a one-dimensional array of finite masses, none negative and not empty")

    @property
    def losses(self) -> Array:
        """The loss of every point.

        >>> Lattice(0.5, 0.25, -1, np.array([0.5, 0.5])).losses
        array([-0.25,  0.25])
        """
        return np.asarray(self.offset + self.step * (self.start + np.arange(len(self.p))), dtype=float)

    def refined(self, step: float) -> Lattice:
        """The same law on a lattice that is a whole number of times finer.

        >>> Lattice(0.5, 0.0, 1, np.array([0.5, 0.5])).refined(0.25).p
        array([0.5, 0. , 0.5])
        """
        ratio = round(self.step / step)
        if ratio == 1 and step == self.step:
            return self
        if ratio < 1 or (len(self.p) - 1) * ratio >= LARGEST:
            raise UnsupportedError(f"a lattice of {len(self.p)} points cannot be refined from step {self.step} to {step}")
        p = np.zeros((len(self.p) - 1) * ratio + 1)
        p[::ratio] = self.p
        rounding = self.rounding
        if isinstance(rounding, np.ndarray):
            rounding = np.repeat(rounding, ratio)[: len(p)]
        # how far the old points are from the new ones, rounding of this very computation included
        reach = max(abs(self.start), abs(self.start + len(self.p) - 1))
        drift = reach * (abs(self.step - ratio * step) + 2 * UNIT * self.step)
        return Lattice(step, self.offset, self.start * ratio, p, self.infinite, self.cut, rounding, self.jitter + drift)


def common_step(steps: Sequence[float], finest: float = 2.0**-20) -> float | None:
    """The largest step of which all are whole multiples, up to a few roundings; None if it would be below `finest` of the largest.

    >>> round(common_step([0.2, 0.3]), 12), common_step([0.2, 0.2 * math.sqrt(2)])
    (0.1, None)
    """
    largest = max(steps)
    result = largest
    for step in sorted(steps, reverse=True):
        a, b = result, step
        while b > 1e-9 * largest * max(1.0, a / largest):  # Euclid, where a remainder of this size is rounding
            a, b = b, abs(a - b * round(a / b))
            if b and a < finest * largest:
                return None
        result = a
    # Euclid's last remainder carries the error of all the others; the smallest step is the best ruler.
    smallest = min(steps)
    result = smallest / round(smallest / result)
    return result if all(abs(s / result - round(s / result)) <= 2.0**-46 * (s / result) for s in steps) else None


def compose(components: Sequence[tuple[Lattice, int]]) -> Composition:
    """The composition of `count` copies of each lattice.

    Lattices whose steps are multiples of one step share one transform. Others are first composed each on its own and then joined point
    by point, which is refused if all but the longest have more than 2e6 points together.

    >>> coin = Lattice(2.0, -1.0, 0, np.array([1.0, math.e]) / (1 + math.e))
    >>> compose([(coin, 2)]).delta(1.0).upper - 0.3378347121 < 1e-10
    True
    """
    kept = [(lattice, count) for lattice, count in components if count]
    if not kept:
        kept = [(Lattice(1.0, 0.0, 0, np.ones(1)), 1)]
    groups: list[list[tuple[Lattice, int]]] = []
    for lattice, count in kept:
        for group in groups:
            step = common_step([group[0][0].step, lattice.step], 2.0**-10)
            if step is not None and all((len(x.p) - 1) * round(x.step / step) < LARGEST for x, _ in [*group, (lattice, count)]):
                group[:] = [(x.refined(step), n) for x, n in [*group, (lattice, count)]]
                break
        else:
            groups.append([(lattice, count)])
    return Composition([[_Factor(lattice, count) for lattice, count in group] for group in groups])


class _Factor:
    """One lattice, trimmed to its support, and how often it is used."""

    def __init__(self, lattice: Lattice, count: int) -> None:
        support = np.flatnonzero(lattice.p)
        first, last = (int(support[0]), int(support[-1])) if len(support) else (0, 0)
        self.lattice, self.count, self.step = lattice, count, lattice.step
        self.empty = not len(support)
        self.start = lattice.start + first
        self.p = lattice.p[first : last + 1]
        rounding = lattice.rounding
        self.rounding = rounding[first : last + 1] if isinstance(rounding, np.ndarray) else rounding

    @cached_property
    def log_p(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.p))

    @cached_property
    def loss(self) -> Array:
        return np.asarray(self.lattice.offset + self.step * (self.start + np.arange(len(self.p))), dtype=float)

    @cached_property
    def sketch(self) -> tuple[Array, Array]:
        """Some 2,000 points to search a tilt with: the top thousand as they are, the rest in blocks. They decide speed, not truth."""
        head = len(self.p) - 1024
        if head <= 1024:
            return self.loss, self.log_p
        width = -(-head // 1024)
        edges = np.arange(0, head, width)
        mass = np.add.reduceat(self.p[:head], edges)
        mean = np.add.reduceat(self.p[:head] * self.loss[:head], edges) / np.maximum(mass, 1e-300)
        keep = mass > 0
        with np.errstate(divide="ignore"):
            return np.concatenate([mean[keep], self.loss[head:]]), np.concatenate([np.log(mass[keep]), self.log_p[head:]])

    def exact_cumulant(self, t: float) -> float:
        """log E[exp(t L)], to rounding."""
        exponent = self.log_p + t * self.loss
        peak = float(exponent.max())
        return peak + math.log(float(np.exp(exponent - peak).sum()))


def _cumulants(factors: Sequence[_Factor], t: float) -> tuple[float, float, float]:
    """K and its first two derivatives, on the sketches."""
    level = mean = variance = 0.0
    for factor in factors:
        loss, log_p = factor.sketch
        exponent = log_p + t * loss
        peak = float(exponent.max())
        weight = np.exp(exponent - peak)
        total = float(weight.sum())
        centre = float(np.dot(weight, loss)) / total
        level += factor.count * (peak + math.log(total))
        mean += factor.count * centre
        variance += factor.count * float(np.dot(weight, (loss - centre) ** 2)) / total
    return level, mean, variance


def _crossing(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-2) -> float:
    """Where an increasing function of x > 0 turns positive, to a relative tolerance; an end if it does not."""
    if function(low) >= 0:
        return low
    x = min(max(1.0, low), high)
    while function(x) < 0:
        if x >= high:
            return high
        low, x = x, min(8 * x, high)
    high = x
    while high > (1 + tolerance) * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


@dataclass(frozen=True)
class _Tilted:
    """One factor tilted by exp(t L): weights that sum to 1 on the points index - anchor, and log E[exp(t (L - anchor loss))]."""

    weight: Array
    anchor: int
    level: float
    spoiled: float  # relative error of every weight, but for weights that add up to less than _LOOSE
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


def _tilt(factor: _Factor, t: float) -> _Tilted:
    step = t * factor.step
    anchor = int(np.argmax(factor.log_p + step * np.arange(len(factor.p))))
    slope = step * (np.arange(len(factor.p)) - anchor)
    size = np.abs(slope)
    if slope[-1] < 600 and factor.p[anchor] > 1e-250:
        raw = factor.p / factor.p[anchor] * np.exp(slope)
    else:  # the same in logarithms, which are rounded too
        raw = np.exp(factor.log_p - factor.log_p[anchor] + slope)
        size = np.where(raw > 0, 2 * size + 2 * np.abs(factor.log_p) + 2 * abs(float(factor.log_p[anchor])), 0.0)
    total = float(raw.sum())
    weight = raw / total
    level = float(factor.log_p[anchor]) + math.log(total)
    error = UNIT * (8 + math.log2(len(raw)) + 2 * abs(level) + 2 * abs(math.log(total)) + size) + factor.rounding
    return _Tilted(weight, anchor, level, float(np.max(error[weight * len(weight) > _LOOSE])), factor.count)


def _peak_payoff(t: float) -> float:
    """The largest value of exp(-t x) (1 - exp(-x))."""
    return math.exp(t * math.log(t) - (t + 1) * math.log1p(t)) if t > 0 else 1.0


class _Law(Protocol):
    def payoff(self, x: float) -> tuple[float, float]:
        """E~[g(Y - x)] and a bound on its error, where Y is the composed loss less that of the anchors."""
        ...


@dataclass(frozen=True)
class _Points:
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
class _Window:
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

    points: _Points
    window: _Window

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
class _Spectrum:
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
        numerator = -math.expm1(-start) + np.exp(decay) * (math.exp(-start) - math.exp(-self.step))
        return np.asarray(math.exp(-self.tilt * start) * numerator / (np.expm1(decay) * np.expm1(decay - self.step)))


def _rounds(size: int) -> float:
    """The relative error of a transform of `size` points."""
    return UNIT * (5 * math.log2(max(size, 2)) + 10)


def _fast_size(least: int) -> int:
    """The smallest 2^a 3^b >= least with b <= 2."""
    return min(base << max(0, math.ceil(math.log2(least / base))) for base in (1, 3, 9)) if least > 1 else 1


def _transform(parts: Sequence[_Tilted], size: int) -> list[tuple[Complex, float, int]]:
    """Every part's characteristic function at the frequencies 2 pi m / size, with a bound on its error, and the part's count."""
    result = []
    for part in parts:
        folded = np.bincount(part.index % size, weights=part.weight, minlength=size)
        result.append((np.fft.rfft(folded), _rounds(size) + UNIT * (len(part.weight) // size + 8), part.count))
    return result


def _outside(parts: Sequence[_Tilted]) -> float:
    """Tilted mass that the window leaves out, or that is not known to a relative accuracy."""
    return 2 * math.exp(-CUT) + _LOOSE * sum(part.count for part in parts)


def _dense(parts: Sequence[_Tilted], t: float, step: float, first: int, last: int) -> _Window:
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
    return _Window(t, step, first, np.maximum(masses[np.arange(first, last + 1) % size], 0.0), error, _outside(parts))


def _sparse(parts: Sequence[_Tilted], t: float, step: float, first: int, last: int) -> _Spectrum | None:
    """The composed law by its low frequencies, where all others are certified to be negligible; None where they are not."""
    if sum(part.count for part in parts) < 16:
        return None
    period = last - first + 1
    longest = max(len(part.weight) for part in parts)
    size = _fast_size(max(min(8 * longest, 2**20), 2 * longest, 4096))
    cut = 32 + math.log(period)
    bound = np.zeros(size // 2 + 1)
    for (entries, rounded, count), part in zip(_transform(parts, size), parts, strict=True):
        # |f'| <= E|K - mean|, and the nearest transformed frequency is at most pi / size away
        bound += count * np.log(np.minimum(np.abs(entries) + rounded + part.deviation * math.pi / size, 1.0))
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
        miss = frequency * (120 * UNIT * distance + 2 * part.spoiled * part.deviation) + 1e-19
        growth += part.count * np.log1p(miss / np.sqrt(np.maximum(1 + squared, 1e-300)))
    mean = math.fsum(part.count * part.mean for part in parts)
    phase = 4 * UNIT * frequency * (abs(mean) + sum(part.count * (1 + abs(part.mean)) for part in parts))
    absolute = np.exp(log_f.real)
    error = absolute * (np.expm1(np.minimum(growth, 600.0)) + phase + 8 * UNIT * np.minimum(np.abs(log_f), 1e9))
    return _Spectrum(t, step, period, first, last, mean, np.exp(log_f), error, math.exp(-cut), _outside(parts))


def _blocks(part: _Tilted, reach: float) -> tuple[Array, Array, float]:
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


class Composition:
    """What `compose` returns: groups of factors, each group with one step."""

    def __init__(self, groups: list[list[_Factor]]) -> None:
        self.groups = groups
        self.factors = [factor for group in groups for factor in group]
        self.void = any(factor.empty for factor in self.factors)  # no finite loss at all
        self.jitter = self.top = upper = lower = 0.0
        for factor in self.factors:
            lattice, count = factor.lattice, factor.count
            reach = abs(lattice.offset) + factor.step * max(abs(factor.start), abs(factor.start + len(factor.p)))
            self.jitter += count * (lattice.jitter + 8 * UNIT * reach)
            self.top += count * float(factor.loss[-1])
            spoiled = float(np.max(factor.rounding)) + 4 * UNIT
            upper += count * _log_rest(lattice.infinite * (1 + spoiled))
            lower += count * _log_rest((lattice.infinite - lattice.cut) * (1 - spoiled))
        self.infinite = (max(0.0, -math.expm1(lower)) * (1 - 4 * UNIT), min(1.0, max(0.0, -math.expm1(upper)) * (1 + 4 * UNIT)))
        self._cache: tuple[float, _Law, float, float, float] | None = None
        self._estimates: dict[float, tuple[float, float, float]] = {}

    @cached_property
    def _tilts(self) -> tuple[float, float]:
        """Below the first a tilt changes nothing; beyond the second only the largest loss is left."""
        spread = math.sqrt(_cumulants(self.factors, 0.0)[2])
        finest = min(factor.step for factor in self.factors)
        return min(0.1 / max(spread, 1e-12), 1.0), max(200.0 / finest, 2.0)

    def _saddle(self, t: float) -> tuple[float, float]:
        """The epsilon whose saddle point is t, and an estimate of log delta there."""
        level, mean, variance = _cumulants(self.factors, t)
        epsilon = mean - 1 / t - 1 / (t + 1)
        curvature = variance + t**-2 + (t + 1) ** -2
        return epsilon, level - t * epsilon - math.log(t) - math.log1p(t) - 0.5 * math.log(2 * math.pi * curvature)

    def _tilt_for_epsilon(self, epsilon: float) -> float:
        low, high = self._tilts
        below = min(max(_cumulants(self.factors, 0.0)[1] - epsilon, 0.0), 1e100)
        return _crossing(lambda t: self._saddle(t)[0] - epsilon, min(low, 1 / (1 + below)), high)

    def _law(self, t: float) -> tuple[float, _Law, float, float, float]:
        """The tilted law, the loss of the anchors, K(t) less t times that, and the relative error of the whole."""
        if self._cache is not None and self._cache[0] == t:
            return self._cache
        level = spoiled = anchor = 0.0
        laws: list[_Points | _Window] = []
        result: _Law
        for group in self.groups:
            parts = [_tilt(factor, t) for factor in group]
            for part, factor in zip(parts, group, strict=True):
                level += part.count * part.level
                spoiled += part.count * part.spoiled + 4 * UNIT * part.count * abs(part.level)
                anchor += part.count * (factor.lattice.offset + factor.step * (factor.start + part.anchor))
            if len(parts) == 1 and parts[0].count == 1:
                laws.append(_Points(t, np.asarray(group[0].step * parts[0].index, dtype=float), parts[0].weight, _LOOSE))
                continue
            first, last = self._window(group, parts, t)
            sparse = _sparse(parts, t, group[0].step, first, last) if len(self.groups) == 1 and last - first > 2048 else None
            if sparse is not None:
                result = sparse
                break
            if (last - first) * max(1.0, len(parts) / 4) >= LARGEST:
                raise UnsupportedError(f"the composed loss covers {last - first} lattice points; use a coarser grid")
            laws.append(_dense(parts, t, group[0].step, first, last))
        else:
            result = _joined(laws)
        self._cache = (t, result, anchor, level, spoiled)
        return self._cache

    def _window(self, group: list[_Factor], parts: list[_Tilted], t: float) -> tuple[int, int]:
        """Steps from the anchors between which all but 2 exp(-CUT) of the tilted composed mass lies, by Chernoff's bound."""
        step, ends = group[0].step, []
        level, _, variance = _cumulants(group, t)
        exact = math.fsum(f.count * f.exact_cumulant(t) for f in group)
        anchor = math.fsum(f.count * float(f.loss[part.anchor]) for f, part in zip(group, parts, strict=True))
        guess = math.sqrt(2 * CUT / max(variance, 1e-300))
        for sign in (-1, 1):

            def excess(s: float, sign: int = sign) -> float:
                there, mean, _ = _cumulants(group, t + sign * s)
                return s * sign * mean - (there - level) - CUT

            s = _crossing(excess, guess / 64, max(64 * guess, 1.0), 0.05)
            reach = (math.fsum(f.count * f.exact_cumulant(t + sign * s) for f in group) - exact + CUT + 1e-3) / s - sign * anchor
            end = sum(f.count * (part.anchor if sign < 0 else len(f.p) - 1 - part.anchor) for f, part in zip(group, parts, strict=True))
            ends.append(min(math.floor(reach / step) + 1, end))
        return -ends[0], ends[1]

    def _finite(self, t: float, epsilon: float, side: int) -> float:
        """The part of delta from finite losses: an upper bound (side 1), a lower bound (-1) or the estimate between them (0)."""
        value, error = self._payoff(t, epsilon, side)
        return max(value + side * error, 0.0)

    def _payoff(self, t: float, epsilon: float, side: int) -> tuple[float, float]:
        """The finite part of delta and a bound on its error, after moving every loss by its uncertainty to the given side."""
        if self.void or epsilon - side * self.jitter >= self.top + (side > 0) * self.jitter:
            return 0.0, 0.0
        _, law, anchor, level, spoiled = self._law(t)
        x = epsilon - anchor - side * (self.jitter + 4 * UNIT * (abs(epsilon) + abs(anchor)))
        value, error = law.payoff(x)
        relative = spoiled + 8 * UNIT * (1 + abs(level) + t * abs(x))
        scale = math.exp(min(level - t * x, 700.0))
        return scale * value, scale * (error + (abs(value) + error) * math.expm1(min(relative, 700.0)))

    def delta(self, epsilon: float) -> Bound:
        """The bracket on delta at any real epsilon."""
        low, high = self.infinite
        if epsilon == -math.inf:
            return Bound(1.0, 1.0, METHOD)
        if self.void or epsilon >= self.top + 2 * self.jitter:
            return Bound(low, high, METHOD)
        t = self._tilt_for_epsilon(epsilon)
        return Bound(min(1.0, low + self._finite(t, epsilon, -1)), min(1.0, high + self._finite(t, epsilon, 1)), METHOD)

    def epsilon(self, delta: float) -> Bound:
        """The bracket on the smallest epsilon >= 0 at this delta; infinite where none will do."""
        low = self._root(delta - self.infinite[0], -1)
        high = self._root(delta - self.infinite[1], 1)
        return Bound(low, max(low, high), METHOD)

    def _root(self, target: float, side: int) -> float:
        """The safe side of the smallest epsilon >= 0 at which the finite part of delta is at most `target`."""
        if target < 0:
            return math.inf
        ceiling = max(self.top + side * self.jitter, 0.0)
        if self.void or ceiling == 0 or target >= 1:
            return 0.0
        if target < 1e-290:  # no double can tell this from none at all
            return ceiling if side > 0 or target == 0 else self._root(1e-290, side)
        if target not in self._estimates:
            self._estimates[target] = self._estimate(target)
        t, root, slope = self._estimates[target]
        # Step outwards from the estimate until the certified figure is on the right side.
        certified = self._finite(t, root, side)
        miss = max(side * (certified - target), 0.0)
        pad = 2 * UNIT * abs(root) + 1.02 * miss / max(slope, 1e-300)
        end = root
        while side * (certified - target) > 0:
            if (side > 0 and end >= ceiling) or (side < 0 and end <= 0):
                break
            end = min(max(root + side * pad, 0.0), ceiling)
            certified = self._finite(t, end, side)
            pad *= 2
        return end

    def _estimate(self, target: float) -> tuple[float, float, float]:
        """The tilt, the root of the estimate and minus its slope there."""
        goal = math.log(target)
        t = _crossing(lambda s: goal - self._saddle(s)[1], *self._tilts)
        guess = self._saddle(t)[0]

        def height(epsilon: float) -> float:
            """log(delta / target) above the root, delta / target - 1 below it, where delta may vanish."""
            nonlocal t
            value, error = self._payoff(t, epsilon, 0)
            if error > 0.01 * max(value, target):  # this tilt does not reach so far
                t = self._tilt_for_epsilon(epsilon)
                value, _ = self._payoff(t, epsilon, 0)
            return value / target - 1 if value < target else math.log(value / target)

        for _ in range(5):
            stride = 0.1 / t
            high = low = min(max(guess, 0.0), self.top)
            above = below = height(high)
            while above > 0 and high < self.top:
                low, below = high, above
                high, stride = min(high + stride, self.top), 4 * stride
                above = height(high)
            while below <= 0 and low > 0:
                high, above = low, below
                low, stride = max(low - stride, 0.0), 4 * stride
                below = height(low)
            guess = _secant(height, low, below, high, above) if below > 0 > above else (high if below > 0 else 0.0)
            if self._payoff(t, guess, 0)[1] <= 1e-9 * target:
                break
            better = self._tilt_for_epsilon(guess)
            if abs(math.log(better / t)) < 0.05:
                break
            t = better
        nearby = max(guess - 1e-3 / (t + 1), 0.0)
        slope = (self._finite(t, nearby, 0) - self._finite(t, guess, 0)) / (guess - nearby) if guess > nearby else 0.0
        return t, guess, slope


def _secant(height: Callable[[float], float], low: float, below: float, high: float, above: float) -> float:
    """The root of a decreasing function in a bracket: false position with halved ends (Illinois), and bisection where that creeps."""
    kept, width = 0, high - low
    for turn in range(120):
        if high - low <= 2 * UNIT * high:
            break
        middle = low + (high - low) * below / (below - above)
        if turn % 3 == 2:
            if high - low > 0.5 * width:
                middle = 0.5 * (low + high)
            width = high - low
        middle = min(max(middle, low + UNIT * high), high - UNIT * high)
        value = height(middle)
        if abs(value) < 1e-15:
            return middle
        if value > 0:
            low, below = middle, value
            above *= 0.5 if kept > 0 else 1.0
            kept = 1
        else:
            high, above = middle, value
            below *= 0.5 if kept < 0 else 1.0
            kept = -1
    return high


def _log_rest(infinite: float) -> float:
    return math.log1p(-infinite) if infinite < 1 else -math.inf


def _joined(laws: list[_Points | _Window]) -> _Law:
    """The law of the sum of independent losses: all but the longest point by point, the longest by running sums."""
    *short, longest = sorted(laws, key=lambda law: len(law.mass))
    if not short:
        return longest
    whole = isinstance(longest, _Points)
    result = _Points(longest.tilt, np.zeros(1), np.ones(1), 0.0)
    for each in [*short, longest] if whole else short:
        law = each
        if isinstance(law, _Window):
            loss = np.asarray(law.step * np.arange(law.first, law.first + len(law.mass)), dtype=float)
            law = _Points(law.tilt, loss, law.mass, law.outside + math.sqrt(len(law.mass)) * law.error)
        if len(result.loss) * len(law.loss) > POINTS:
            raise UnsupportedError("lattices of different steps are too fine to be joined exactly; use a grid")
        loss = np.add.outer(result.loss, law.loss).ravel()
        mass = np.multiply.outer(result.mass, law.mass).ravel()
        order = np.argsort(loss)
        result = _Points(result.tilt, loss[order], mass[order], (result.error + law.error) * (1 + 1e-9) + 4 * UNIT)
    return _Joint(result, longest) if isinstance(longest, _Window) else result
