"""A uniform subset of steps: delta when a record that is in k of t Gaussian sums is removed, both ends.

With Y_i the likelihood ratio of step i under Q and e_k the elementary symmetric polynomial, dP/dQ = R =
e_k(Y_1, ..., Y_t) / C(t, k), and delta = E_Q[(R - K)_+] with K = e^eps. R is no sum, but two sums say nearly
all about it: A of a = log(1 - q + q Y), the loss of one Poisson sampled step, and B of b, a second function
of Y. Where few steps of little noise decide, C of a third function is told as well (0206). Guarantees:

- Given (A, B) the mean and the mean square of R are known exactly: R^2 is a mean over two subsets, which
  share j steps with a hypergeometric chance, so that three products of transforms have the laws of (A, B)
  weighed by 1, R and R^2.
- From below, any statistic of the outputs may be looked at: delta >= sum over the values of (A, B) of (E[R;
  value] - K Q(value))_+.
- From above, E(X - K)_+ <= (E X - K + sqrt(E (X - K)^2)) / 2 (Scarf 1958), and where X is known to be at most
  m, E(X - K)_+ <= (m - K) / (m - x)^2 E(X - x)^2 for every x <= 2 K - m. Here R = e^A W with W <= e^-V I_0(V)
  / Bin(k; t, q), V being the sum of p (1 - p), p = q Y e^-a.
- From above, Y is first spread onto values at which a lies on a lattice, its mean kept: R is affine in each
  Y, so delta only grows.

Decision 0155 proves each line.

>>> low, high = subset_epsilon(GaussianRatio(1.0), 100, 5, 1e-5, 2.8, 3.0)
>>> 2.87 < low <= high < 2.9 and high - low < 1e-3 * high
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.engines.stop_loss import UNIT, crossing, log_mgf
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio
from tacit.accounting.pairs.pair import Array
from tacit.accounting.special import i0e, irfftn, ndtr, next_fast_len, rfftn
from tacit.errors import UnsupportedError

MOST = 64  # steps out of many that this is worth it for
_MASS_ERROR = 1e-11  # relative error of one step's masses and moments; the tests hold them against mpmath
_REACH = (4.0, 16.0)  # deviations of each of two sums beside A before its values come back
_SHARE = 1e-5  # of delta, for each of the rare events that are counted in full
_CHUNK = 1 << 14  # frequencies at a time
_CELLS = {1: 1 << 21, 2: 6_400_000}  # longest table, by the number of sums beside A
_NODES = 1 << 16  # longest lattice of one step
# Values of the other sums that are told apart, in turn, until the bracket is narrow; of two sums, their reach too.
_ONE: tuple[float, ...] = ()
_BANDS = (
    ((96,), _ONE),
    ((192,), _ONE),
    ((384,), _ONE),
    ((32, 24), _REACH),
    ((64, 48), (3.5, 14.0)),
    ((48, 24), (6.0, 12.0)),
)
_STEPS = 20_000
_FAR = 100.0  # the largest epsilon
NARROW = 8e-4  # relative width that is good enough
_LATTICE = 1e-4  # relative error of epsilon from the lattice in a, about


@dataclass(frozen=True)
class Steps:
    """One step's law of Y, twice: spread onto the values of a lattice in a, and cut into cells between them.

    `spread` has the masses of min(Y, top) spread onto the nodes, `cells` and `moments` the mass and the mean of Y times the mass of each
    cell [node, next node), the last one being [top, infinity). `beyond` is E[(Y - top)_+].
    """

    rate: float
    step: float
    ratio: Array
    spread: Array
    cells: Array
    moments: Array
    beyond: float

    @cached_property
    def a(self) -> Array:
        """log(1 - q + q Y) at the nodes."""
        return np.asarray(math.log1p(-self.rate) + self.step * np.arange(len(self.ratio)))

    @cached_property
    def p(self) -> Array:
        """The chance that a Poisson sampled step took part, given what it put out."""
        return np.asarray(self.rate * self.ratio * np.exp(-self.a))


def steps_of(ratio: GaussianRatio, rate: float, step: float, top: float) -> Steps:
    """The two discrete laws of one step, on nodes up to the first one beyond top.

    Masses are sums of positive terms, eight Gauss-Legendre nodes for each piece of z of at most 1/16, so nothing cancels.
    """
    count = math.ceil((math.log1p(rate * (top - 1)) - math.log1p(-rate)) / step) + 1
    if count > _NODES:
        raise UnsupportedError("the losses of one step spread too far")
    y = (1 - rate) / rate * np.expm1(step * np.arange(count + 1))
    z = np.clip(np.append(-39.0, ratio.z(y[1:])), -39.0, 39.0)
    grid = np.arange(-39 * 16, 39 * 16 + 1) / 16
    points = np.union1d(z, grid[(grid > z[0]) & (grid < z[-1])])
    x, w = np.polynomial.legendre.leggauss(8)
    left, width = points[:-1, None], np.diff(points)[:, None]
    cell = np.clip(np.searchsorted(z, points[:-1] + 0.5 * width[:, 0]) - 1, 0, count - 1)
    at = left + width * (x + 1) / 2
    mass = np.exp(-0.5 * at * at) * (w / 2 / math.sqrt(2 * math.pi)) * width
    value = np.exp(at / ratio.sigma - 0.5 / ratio.sigma**2)
    part = np.clip((value - y[cell][:, None]) / np.diff(y)[cell][:, None], 0.0, 1.0)
    up, down = (np.bincount(cell, (mass * share).sum(axis=1), count) for share in (part, 1 - part))
    above, beyond = ratio.tail(float(y[count]))
    return Steps(
        rate=rate,
        step=step,
        ratio=y,
        spread=np.append(down, above) + np.insert(up, 0, 0.0),
        cells=np.append(np.bincount(cell, mass.sum(axis=1), count), above),
        moments=np.append(np.bincount(cell, (mass * value).sum(axis=1), count), float(ndtr(-(ratio.z(y[count]) - 1 / ratio.sigma)))),
        beyond=beyond,
    )


@dataclass(frozen=True)
class Plan:
    """Rough numbers only: whatever is chosen here, the bounds computed from it hold."""

    rate: float
    slope: float  # -d log delta / d epsilon, about


def plan_for(ratio: GaussianRatio, steps: int, selected: int, epsilon: float) -> Plan:
    """The rate at which outputs around epsilon are expected to hide `selected` steps, and the tilt that makes them usual."""
    y, log_weight = ratio.sketch(math.inf)
    rate, theta = 0.8 * selected / steps, 1.0
    log_ways = math.lgamma(steps + 1) - math.lgamma(selected + 1) - math.lgamma(steps - selected + 1)
    for _ in range(24):
        a, p = np.log1p(rate * (y - 1)), rate * y / (1 + rate * (y - 1))
        log_binomial = log_ways + selected * math.log(rate) + (steps - selected) * math.log1p(-rate)
        low, high = -6.0, 8.0
        for _ in range(30):
            theta = math.exp((low + high) / 2)
            weight = np.exp(log_weight + theta * a - log_mgf(log_weight, a, theta))
            variance = steps * float(weight @ (p * (1 - p)))
            log_w = -0.5 * math.log(2 * math.pi * (variance + 0.16)) - log_binomial
            low, high = ((low + high) / 2, high) if steps * float(weight @ a) + log_w < epsilon else (low, (low + high) / 2)
        mean = steps * float(weight @ p)
        last, rate = rate, min(rate * math.sqrt(selected / mean), (1 + rate) / 2)
        if abs(rate - last) < 1e-4 * last:
            break
    return Plan(rate, max(theta, 1.2))


Law = Callable[[Sequence[Any]], Any]


def _power(x: Any, n: int) -> Any:
    """x^n by repeated squaring, a relative error of at most three roundings a factor."""
    result = None
    while n:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        if n:
            x = x * x
    return np.ones_like(x) if result is None else result


def laws_of(steps: int, selected: int) -> tuple[Law, Law, Law]:
    """The transforms of the laws of (A, B), weighed by 1, W and W^2, from those of one step weighed by 1; g, h; and g^2, g h, h^2.

    g = e^-a and h = Y e^-a are the factors of W for a step that is not in the subset, and for one that is.
    """
    least = max(0, 2 * selected - steps)
    ways = math.comb(steps, selected)
    shares = [math.comb(selected, j) * math.comb(steps - selected, selected - j) / ways for j in range(selected + 1)]

    def square(f: Sequence[Any]) -> Any:
        both, one = f[2] * f[0], f[1] * f[1]
        total = None
        power = np.ones_like(one)
        for j in range(selected, least - 1, -1):  # Horner's rule in `both`, with shares[j] one^(selected - j) for coefficients
            total = shares[j] * power if total is None else total * both + shares[j] * power
            power = power * one
        left = _power(f[2], least) * _power(f[0], max(0, steps - 2 * selected))
        return total * left

    return (
        lambda f: _power(f[0], steps),
        lambda f: _power(f[0], steps - selected) * _power(f[1], selected),
        square,
    )


@dataclass(frozen=True)
class Table:
    """Masses of (A, B), tilted by e^(theta A) and scaled, in a window: weighed by 1, by W, and by W^2, with the error of any one."""

    mass: list[Array]
    noise: list[float]


def _table(
    weights: list[list[Array]],
    laws: Sequence[Law],
    index: NDArray[np.signedinteger[Any]],
    shape: tuple[int, ...],
    degree: int,
    start: tuple[int, ...],
) -> Table:
    """One table for each law, by a transform of each list of weights; `index` is where the nodes lie in the folded table.

    Error model. A coefficient of a transform errs by at most e = c u log2(N) times the sum of the weights. So a law, a polynomial
    with positive coefficients, errs by at most its value at the moduli plus e, less its value at the moduli, plus its roundings; the
    inverse transform averages these errors and adds its own.
    """
    size = math.prod(shape)
    unit = 8 * UNIT * (math.log2(size) + 2)
    rounding = (16 * degree + 800) * UNIT + unit
    mass, noise = [], []
    for law, given in zip(laws, weights, strict=True):
        transforms = [rfftn(np.bincount(index, w, size).reshape(shape)) for w in given]
        errors, flat = [unit * float(w.sum()) for w in given], [f.reshape(-1) for f in transforms]
        spread = 0.0
        for first in range(0, flat[0].size, _CHUNK):  # in place, and in pieces that a cache holds
            parts = [f[first : first + _CHUNK] for f in flat]
            moduli = [np.abs(f) for f in parts]
            most = law([m + e for m, e in zip(moduli, errors, strict=True)])
            spread += float((most - law(moduli)).sum()) + rounding * float(most.sum())
            parts[0][:] = law(parts)
        value = irfftn(flat[0].reshape(transforms[0].shape), shape)
        del transforms, flat, parts
        mass.append(np.roll(value, [-(first % length) for first, length in zip(start, shape, strict=True)], range(len(shape))))
        noise.append(2 * spread / size)
    return Table(mass, noise)


@dataclass(frozen=True)
class Subset:
    """Both ends of delta at every epsilon from `floor` on, from masses of cells (already without their tilt)."""

    floor: float
    below: tuple[Array, Array]  # lower ends of E[R; cell], upper ends of Q(cell)
    lost: float
    q: tuple[Array, Array]  # lower and upper ends of Q(cell)
    p: tuple[Array, Array]  # of E[R; cell]
    square: Array  # upper end of E[R^2; cell]
    cap: Array  # R is at most this
    constant: float
    cells: int = 0  # of the whole table

    def lower(self, epsilon: float) -> float:
        p, q = self.below
        return max(0.0, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * (1 - 1e-9) - self.lost)

    def upper(self, epsilon: float) -> float:
        if epsilon < self.floor:
            return 1.0
        k = math.exp(epsilon)
        (q, most_q), (p, most_p), s, cap = self.q, self.p, self.square, self.cap
        first = np.maximum(s - 2 * k * p + k * k * most_q, 0.0)
        free = 0.5 * (most_p - k * q + np.sqrt(most_q * first))
        mean = most_p / most_q
        away = np.maximum(cap - mean, 1e-9 * cap)
        x = np.clip(mean - (s / most_q - mean * mean) / away, 0.0, 2 * k - cap)
        second = np.maximum(s - 2 * x * p + x * x * most_q, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounded = np.where((2 * k >= cap) & (cap > k), (cap - k) / (cap - x) ** 2 * second, np.inf)
        part = np.where(cap <= k, 0.0, np.maximum(np.minimum(np.minimum(free, bounded), most_p), 0.0))
        return min(1.0, float(part.sum()) * (1 + 1e-9) + self.constant)


def subset_for(
    ratio: GaussianRatio,
    steps: int,
    selected: int,
    floor: float,
    delta: float,
    bands: Sequence[int],
    reach: Sequence[float] = _REACH,
    coarse: float = 1.0,
) -> Subset:
    """Bounds good around epsilon = floor, where delta is about `delta`; upper ones hold from there on.

    Events that are so rare that they may count in full cost `_SHARE` of delta each: a ratio beyond the lattice, sums beyond the
    window, and a V below what A and B say. Each is bounded by Chernoff's inequality for P, times e^(theta A) where A matters.
    A lattice of which the table would be too long is made coarser.
    """
    if steps > _STEPS or floor > _FAR:
        raise UnsupportedError("the losses of all steps spread too far")
    plan = plan_for(ratio, steps, selected, floor)
    rate, theta = plan.rate, max(0.75 * plan.slope, 1.2)  # a little less of a tilt leaves a shorter window
    step = coarse * math.sqrt(12 * _LATTICE * max(floor, 1e-3) / steps / plan.slope)
    top = 2.0
    log_rare = math.log(_SHARE * delta)
    while selected * ratio.tail(top)[1] > math.exp(log_rare):
        top *= 1.05
    one = steps_of(ratio, rate, step, top)
    a, p = one.a, one.p
    v = p * (1 - p)
    with np.errstate(divide="ignore"):
        masses = [(np.log(m), np.log(f)) for m, f in ((one.spread, one.spread * one.ratio), (one.cells, one.moments))]
    log_total = log_mgf(masses[0][0], a, theta)
    usual = np.exp(masses[0][0] + theta * a - log_total)

    def limit(x: Array, tilt: float = 0.0, offset: float = 0.0, law: int = 0) -> float:
        """The least s with E_Q[R e^(tilt A - offset); sum of x >= s] <= _SHARE delta that Chernoff's inequality gives."""
        mean = float(usual @ x)
        deviation = math.sqrt(max(steps * float(usual @ (x - mean) ** 2), 1e-300))
        scale, least = math.sqrt(2 * abs(log_rare)) / deviation, math.inf
        centre, reach = 0.0, 6.0
        for points in (13, 7):  # the best of a coarse choice, then of a finer one around it
            logs = np.linspace(centre - reach, centre + reach, points)
            exponent = np.multiply.outer(scale * np.exp(logs), x) + tilt * a
            total = np.full(points, -offset)
            for times, log_weight in zip((steps - selected, selected), masses[law], strict=True):
                all_of = exponent + log_weight
                peak = all_of.max(axis=1)
                total += times * (peak + np.log(np.exp(all_of - peak[:, None]).sum(axis=1)))
            found = (total - log_rare) / (scale * np.exp(logs))
            least = min(least, float(found.min()))
            centre, reach = float(logs[int(np.argmin(found))]), 0.75
        return least + 1e-12 * abs(least)

    log_binomial = math.log(math.comb(steps, selected)) + selected * math.log(rate) + (steps - selected) * math.log1p(-rate)
    tilts = (0.0, 0.5 * (theta - 1), theta - 1)
    # R > K and W <= 1 / Bin put A above floor + log Bin
    least = max(0.0, max(-limit(-v, tilt, tilt * (floor + log_binomial)) for tilt in tilts))
    low = floor - math.log(float(i0e(least))) + log_binomial - 1e-9  # below, e^A W <= K whatever B is
    tilt = theta - 1
    high = max(limit(a, tilt, tilt * low, law) for law in (0, 1))
    period = max(high - low, (-log_rare + 1) / tilt)
    # The other statistics, less their tangents at a usual step: they round to nothing for most steps. Of a few the first served best;
    # the second is what the first leaves of p^2.
    centre = float(usual @ a)
    usual_p = 1 - (1 - rate) * math.exp(-centre)

    def bent(power: int) -> Array:
        """p^power less its tangent in a, for dp / da = 1 - p."""
        return np.asarray(p**power - usual_p**power - power * usual_p ** (power - 1) * (1 - usual_p) * (a - centre))

    rests = [bent(1) - 0.5 * bent(2)]
    if len(bands) > 1:
        rests.append(bent(2) - float(usual @ (bent(2) * rests[0])) / max(float(usual @ rests[0] ** 2), 1e-300) * rests[0])
    rounded: list[Any] = []
    firsts: list[int] = []
    sizes: list[int] = []
    told: list[Array] = [np.ones_like(a), a]
    for rest, values in zip(rests, bands, strict=True):
        if len(bands) > 1:  # modulo a few deviations
            deviation = math.sqrt(max(steps * float(usual @ (rest - float(usual @ rest)) ** 2), 1e-24))
            b, first, size = np.rint(rest * (values / (reach[len(rounded)] * deviation))), 0, values
        else:  # all that is not rare, so that the cap on R may depend on it
            unit = max((limit(rest, tilt, tilt * low) + limit(-rest, tilt, tilt * low)) / values, 1e-12)
            b = np.rint(rest / unit)
            first = -math.ceil(limit(-b, tilt, tilt * low))
            size = max(math.ceil(limit(b, tilt, tilt * low)) - first + 1, 2)
            told.append(b)
        rounded.append(b.astype(np.int64))
        firsts.append(first)
        sizes.append(next_fast_len(size))
    fit = np.linalg.lstsq(np.stack(told, axis=1) * np.sqrt(usual)[:, None], v * np.sqrt(usual), rcond=None)[0]
    margin = limit(np.stack(told, axis=1) @ fit - v, tilt, tilt * low)
    shape = (*sizes, next_fast_len(math.ceil(period / step) + 2, real=True))
    if (more := math.prod(shape) / _CELLS[len(bands)]) > 1:
        if coarse * more > 16:
            raise UnsupportedError("the losses of all steps spread too far")
        return subset_for(ratio, steps, selected, floor, delta, bands, reach, 1.1 * coarse * more)
    if low + shape[-1] * step > 300:
        raise UnsupportedError("the losses of all steps spread too far")
    begin = math.floor((low - steps * float(a[0])) / step)
    index = np.ravel_multi_index((*rounded, np.arange(len(a))), shape, mode="wrap")
    start = (*firsts, begin)
    g, h = np.exp(-a), one.ratio * np.exp(-a)
    laws = laws_of(steps, selected)
    weights = [[usual], [usual * g, usual * h], [usual * g * g, usual * g * h, usual * h * h]]
    place = steps * float(a[0]) + step * (begin + np.arange(shape[-1]))
    ratio_at = np.exp(place)
    with np.errstate(over="ignore"):
        scale = np.exp(np.minimum(steps * log_total - theta * place, 700.0))
    relative = 8 * (steps + 1) * _MASS_ERROR + 1e-11
    known = steps * fit[0] + fit[1] * place - margin
    if len(fit) > 2:
        known = known + fit[2] * (firsts[0] + np.arange(sizes[0]))[:, None]
    known = np.broadcast_to(known, shape)
    cap = i0e(np.maximum(known, least)) * math.exp(-log_binomial) * ratio_at * (1 + 1e-9)

    def ends(mass: Array, noise: float, factor: Array) -> tuple[Array, Array]:
        """Lower and upper ends of masses, without the tilt."""
        least, most = np.maximum(mass - noise, 0.0), np.maximum(mass, 0.0) + noise
        return least * factor * (1 - relative), most * factor * (1 + relative)

    def chosen(table: Table, which: int, cells: NDArray[np.signedinteger[Any]]) -> tuple[Array, Array]:
        factor = scale * ratio_at**which
        return ends(table.mass[which].reshape(-1)[cells], table.noise[which], factor[cells % shape[-1]])

    above = _table(weights, laws, index, shape, 2 * steps, start)
    cells = np.flatnonzero(cap > math.exp(floor))
    most_p = chosen(above, 1, cells)[1]
    # What hardly weighs is counted in full.
    order = np.append(np.sort(most_p), np.inf)
    heavy = order[int(np.searchsorted(np.cumsum(order), _SHARE * delta))]
    dropped = float(most_p[most_p < heavy].sum())
    cells = cells[most_p >= heavy]
    q, p_of, square = chosen(above, 0, cells), chosen(above, 1, cells), chosen(above, 2, cells)[1]
    del above, order, most_p  # a table of many cells at a time is enough
    parts = [w * np.exp(theta * a - log_total) for w in (one.cells, one.moments)]
    under = _table([[parts[0]], [parts[0] * g, parts[1] * g]], laws[:2], index, shape, steps, start)
    # What the window folds back: from above, bounded with the window's end; from below, its P-mass of at most
    # 1 comes down by the period.
    folded = math.exp(log_rare) + 2 * math.exp(-tilt * shape[-1] * step)
    far = slice(int(np.searchsorted(place, low)), None)
    p_low = ends(under.mass[1][..., far], under.noise[1], (scale * ratio_at)[far])[0]
    q_high = ends(under.mass[0][..., far], under.noise[0], scale[far])[1]
    useful = p_low > math.exp(floor) * q_high
    return Subset(
        floor=floor,
        below=(p_low[useful], q_high[useful]),
        lost=folded,
        q=q,
        p=p_of,
        square=square,
        cap=cap[np.unravel_index(cells, shape)],
        constant=(1 + 1e-6) * (dropped + 6 * math.exp(log_rare)),
        cells=math.prod(shape),
    )


_Ends = tuple[float, float]
_Improve = Callable[[float, float, Sequence[int], Sequence[float]], tuple[_Ends, int]]


def _narrowed(low: float, high: float, narrow: float, improve: _Improve) -> _Ends:
    """Both ends after one table and another, until they are within `narrow` of each other, relatively.

    One sum beside A is told in more values while this helps, and while halving the width with each doubling would
    be enough; then two sums are, on tables that are small enough.
    """
    width, stalled, told, per_pair = math.inf, False, 0, 0.0
    most = max(bands[0] for bands, _ in _BANDS if len(bands) == 1)
    for bands, reach in _BANDS:
        if len(bands) == 1 and (stalled or (high - low) * told > narrow * high * most):
            continue
        if len(bands) > 1 and per_pair * math.prod(bands) > _CELLS[2]:
            continue
        (low, high), cells = improve(low, high, bands, reach)
        if high - low <= narrow * high:
            break
        stalled, width = high - low > 0.8 * width, high - low
        told = bands[0] if len(bands) == 1 else told
        per_pair = cells / math.prod(bands) if len(bands) > 1 else 0.0
    return low, high


def subset_epsilon(ratio: GaussianRatio, steps: int, selected: int, delta: float, low: float, high: float) -> tuple[float, float]:
    """Both ends of the larger of `low` and the epsilon at delta of the removed record; `high` is known to be enough."""

    def improve(low: float, high: float, bands: Sequence[int], reach: Sequence[float]) -> tuple[_Ends, int]:
        known = subset_for(ratio, steps, selected, low, delta, bands, reach)
        low, high = crossing(known.lower, delta, low, high, 1e-6)[0], crossing(known.upper, delta, low, high, 1e-6)[1]
        return (low, high), known.cells

    return _narrowed(low, high, NARROW, improve)


def subset_delta(ratio: GaussianRatio, steps: int, selected: int, epsilon: float, low: float, high: float) -> tuple[float, float]:
    """Both ends of delta at epsilon of the removed record, which is known to lie between `low` and `high`."""

    def improve(low: float, high: float, bands: Sequence[int], reach: Sequence[float]) -> tuple[_Ends, int]:
        known = subset_for(ratio, steps, selected, epsilon, max(low, 1e-300), bands, reach)
        return (max(low, known.lower(epsilon)), min(high, known.upper(epsilon))), known.cells

    low, high = _narrowed(low, high, 10 * NARROW, improve)
    return low, max(low, high)
