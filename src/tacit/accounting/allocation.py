"""Random allocation (balls in bins): each record takes part in exactly one of t steps, chosen uniformly. Priced from both sides.

Guarantees: with P the t noisy sums when the record is there and Q when it is not, dP/dQ = S/t, where S = Y_1 + ... + Y_t and the
Y_i are independent likelihood ratios of one step under Q (Chua et al. 2024; Feldman and Shenfeld 2025). So, writing K = t e^eps,

    delta when the record is removed = E_Q[(S - K)_+] / t,        when it is added = e^eps E_Q[(t e^-eps - S)_+] / t,

which are stop-loss premiums of a sum of independent non-negative variables. Both are convex in each Y_i, hence grow when Y is
replaced by a law that is larger in the convex order: a mean-preserving spread onto a lattice gives an upper bound, a
mean-preserving contraction onto a lattice a lower bound, both with second-order error. The law of the sum comes from one Fourier
transform of the exponentially tilted lattice law, whose rounding, wrap-around and truncation are bounded and added to the bracket.

>>> bound = allocation_bracket(1.0, 100, delta=1e-5)
>>> 0.6085 < bound.lower <= bound.upper < 0.6356, bound.width < 1e-5
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Protocol

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from tacit.accounting import compose, gaussian, grid, lattice, mixture
from tacit.accounting.bound import Bound
from tacit.accounting.errors import ParameterError, UnsupportedError
from tacit.accounting.finite import FinitePair
from tacit.accounting.pairs import Array, Pair
from tacit.accounting.parameters import Number, count, number, positive, probability

_UNIT = 2.0**-53
_MASS_ERROR = 5e-13  # relative error of one step's lattice masses, tilting included; the tests hold it against mpmath
_NATS = 34.0  # exp(-34) = 2e-15 of the tilted law may lie outside the window of the transform
_COARSE = 1 << 16
_FAR = 100.0  # where log(t e^eps) would be beyond this only the simple bounds are given
_EFFORT = 1 << 20  # lattice points of all windows of one side of a law together
_POINTS = 1 << 20  # longest lattice of one step, and of one window of the sum


class Ratio(Protocol):
    """The likelihood ratio Y = dP/dQ of one step, as a random variable under Q."""

    def __hash__(self) -> int: ...

    def sketch(self, top: float) -> tuple[Array, Array]:
        """Values of min(Y, top) in increasing order and log-weights: a rough quadrature that plans, and never enters a bound."""

    def tail(self, y: float) -> tuple[float, float]:
        """Q(Y > y) and E_Q[(Y - y)_+], the latter with the P-mass that Q does not have."""

    def head(self, y: float) -> tuple[float, float]:
        """Q(Y <= y) and E_Q[Y; Y <= y]."""

    def cells(self, edge: float, offset: float, step: float, count: int) -> tuple[Array, Array]:
        """The mass in each cell from offset + i step to the next, of Y > edge only, split linearly onto the cell's two ends."""


@lru_cache(maxsize=8)
def _gauss_legendre(points: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(points)
    return (x + 1) / 2, w / 2


@dataclass(frozen=True)
class GaussianRatio:
    """Y = exp(z/sigma - 1/(2 sigma^2)) with z standard normal: one Gaussian sum of l2 sensitivity 1.

    >>> GaussianRatio(1.0).tail(1.0)[1] == gaussian.delta(1.0, 0.0)
    True
    """

    sigma: float

    def sketch(self, top: float) -> tuple[Array, Array]:
        end = min(float(self.z(top)), 20 + 1 / self.sigma)
        fine = end - 0.125 * np.array([0.85, 0.68, 0.5, 0.37, 0.25, 0.17, 0.1, 0.05, 0.02, 0.0])  # tilts make the last stretch count
        z = np.concatenate([np.arange(min(-20.0, end - 4), end - 0.125, 0.125), fine])
        weight = np.exp(-0.5 * z * z) * np.diff(np.concatenate([z[:1], (z[1:] + z[:-1]) / 2, z[-1:]])) / math.sqrt(2 * math.pi)
        weight[-1] += ndtr(-end)
        return np.exp(np.clip(z / self.sigma - 0.5 / self.sigma**2, -700, 700)), np.log(np.maximum(weight, 1e-320))

    def z(self, y: float | Array) -> Array:
        """The z at which the ratio is y."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.sigma * np.log(y) + 0.5 / self.sigma)

    def tail(self, y: float) -> tuple[float, float]:
        return float(ndtr(-self.z(y))), gaussian.delta(1 / self.sigma, math.log(y)) if y > 0 else 1.0

    def head(self, y: float) -> tuple[float, float]:
        z = float(self.z(y))
        return float(ndtr(z)), float(ndtr(z - 1 / self.sigma))

    def cells(self, edge: float, offset: float, step: float, count: int) -> tuple[Array, Array]:
        low, high = np.zeros(count), np.zeros(count)
        wide = max(self.sigma, 1.0)
        # Near zero a cell spans many scales of Y: integrate over short pieces of z. The integrands are positive, so nothing cancels.
        first = min(count, int(64 * wide) + 64)
        edges = offset + step * np.arange(first + 1, dtype=float)
        edges[0] = max(edge, offset)
        ends = np.clip(self.z(edges), -39.0, 39.0)
        grid = np.arange(-39 * 16, 39 * 16 + 1) / 16
        points = np.union1d(ends, grid[(grid > ends[0]) & (grid < ends[-1])])
        u, w = _gauss_legendre(8)
        left, width = points[:-1, None], np.diff(points)[:, None]
        cell = np.clip(np.searchsorted(ends, points[:-1] + 0.5 * width[:, 0]) - 1, 0, first - 1)
        z = left + width * u
        mass = np.exp(-0.5 * z * z) * (w / math.sqrt(2 * math.pi)) * width
        part = (np.exp(z / self.sigma - 0.5 / self.sigma**2) - offset) / step - cell[:, None]
        high[:first] = np.bincount(cell, (mass * np.clip(part, 0, 1)).sum(axis=1), first)
        low[:first] = np.bincount(cell, (mass * np.clip(1 - part, 0, 1)).sum(axis=1), first)
        # Further out a cell is narrow and a few nodes in y are exact to rounding: the exponent changes by at most 40 wide/i in cell i.
        stops = [first, *(min(count, max(first, int(far * wide))) for far in (4e3, 4e4)), count]
        for points_per_cell, start, stop in zip((5, 3, 2), stops[:-1], stops[1:], strict=True):
            left = offset + step * np.arange(start, stop)
            for node, weight in zip(*_gauss_legendre(points_per_cell), strict=True):
                y = left + step * node
                z = self.sigma * np.log(y) + 0.5 / self.sigma
                mass = np.exp(-0.5 * z * z) * (weight * step * self.sigma / math.sqrt(2 * math.pi)) / y
                high[start:stop] += node * mass
                low[start:stop] += (1 - node) * mass
        return low, high


def _ratio(sigma: Number | Ratio) -> Ratio:
    return GaussianRatio(float(positive("sigma", sigma))) if isinstance(sigma, (Real, bool)) else sigma  # type: ignore[return-value]


@dataclass(frozen=True)
class FiniteRatio:
    """A step with finitely many outcomes: ratios dP/dQ and their Q-masses; what the P-masses lack to 1 lies where Q has no mass.

    >>> FiniteRatio((0.5, 2.0), (2 / 3, 1 / 3)).head(1.0)
    (0.6666666666666666, 0.3333333333333333)
    """

    ratios: tuple[float, ...]
    masses: tuple[float, ...]

    def _arrays(self) -> tuple[Array, Array]:
        order = np.argsort(self.ratios)
        return np.asarray(self.ratios)[order], np.asarray(self.masses)[order]

    def sketch(self, top: float) -> tuple[Array, Array]:
        y, q = self._arrays()
        return np.minimum(y, top), np.log(q)

    def tail(self, y: float) -> tuple[float, float]:
        ratio, q = self._arrays()
        above = ratio > y
        return float(q[above].sum()), max(0.0, 1 - float(q @ ratio)) + float(q[above] @ (ratio[above] - y))

    def head(self, y: float) -> tuple[float, float]:
        ratio, q = self._arrays()
        below = ratio <= y
        return float(q[below].sum()), float(q[below] @ ratio[below])

    def cells(self, edge: float, offset: float, step: float, count: int) -> tuple[Array, Array]:
        ratio, q = self._arrays()
        inside = (ratio > edge) & (ratio <= offset + step * count)
        place = (ratio[inside] - offset) / step
        cell = np.clip(np.floor(place).astype(np.intp), 0, count - 1)
        part = np.clip(place - cell, 0, 1)
        low, high = (np.bincount(cell, q[inside] * share, count).astype(float) for share in (1 - part, part))
        return low, high


@dataclass(frozen=True)
class Law:
    """Masses of a stand-in for min(Y, top) at offset + step * (0, 1, 2, ...); `infinite` is E[(Y - top)_+], kept apart."""

    offset: float
    step: float
    mass: Array
    top: float
    infinite: float

    @property
    def grid(self) -> Array:
        """The places, less the offset."""
        return np.asarray(self.step * np.arange(len(self.mass), dtype=float))


def spread(ratio: Ratio, step: float, cells: int) -> Law:
    """A law above min(Y, top) in the convex order: every cell's mass goes to its two ends, mean kept (connect the dots).

    >>> law = spread(GaussianRatio(1.0), 0.01, 10000)
    >>> mean = float(law.mass @ np.arange(10001)) * law.step
    >>> bool(abs(law.mass.sum() - 1) < 1e-12), abs(mean + law.infinite - 1) < 1e-12
    (True, True)
    """
    low, high = ratio.cells(-1.0, 0.0, step, cells)
    top = step * cells
    above, infinite = ratio.tail(top)
    mass = np.append(low, above)
    mass[1:] += high
    return Law(0.0, step, mass, top, infinite)


def contract(ratio: Ratio, step: float, cells: int) -> Law | None:
    """A law below min(Y, top) in the convex order, by a second-order amount; None where the lattice is too coarse for one.

    Let H(y) = E[(Y - y)_+], convex. The chord over a cell lies above H by at most the height of the triangle it makes with the end
    tangents, low * high / (low + high) * step. Lowering H by this height at both ends of the cell puts the chord below H, and so does
    lowering by high * step at the left end alone, or by low * step at the right end alone: better where the cell is lopsided, and
    needed where the other end has to stay above the lines mean - y and 0, which keeps mass and mean. The polygon through the lowered
    values then lies below H, and its greatest convex minorant, which has kinks on nodes only, is the stop-loss curve of the law
    returned. The part of Y below one step is first contracted to its mean, which becomes the lattice's offset.
    """
    below, moment = ratio.head(step)
    offset = min(moment / below, step) if below > 0 else 0.0
    low, high = ratio.cells(step, offset, step, cells)
    top = offset + step * cells
    above, infinite = ratio.tail(top)
    mass = np.append(low, above)
    mass[1:] += high
    mass[0] += below
    # In units of the step: E[(y - Y)_+] and E[(Y - y)_+] at the nodes, and by how much the latter is lowered.
    left = np.concatenate([[0.0], np.cumsum(np.cumsum(mass)[:-1])])
    right = np.concatenate([[0.0], np.cumsum(np.cumsum(mass[::-1])[:-1])])[::-1]
    height = np.divide(low * high, low + high, out=np.zeros(cells), where=low + high > 0)
    no_left, no_right = height > left[:-1] / 2, height > right[1:] / 2
    only_right = no_left | (~no_right & (low < high / 3))
    only_left = ~only_right & (no_right | (high < low / 3))
    only_left[0], only_right[0], only_left[-1], only_right[-1] = False, True, True, False
    at_left = np.where(only_left, high, np.where(only_right, 0.0, height))
    at_right = np.where(only_left, 0.0, np.where(only_right, low, height))
    drop = np.maximum(np.append(at_left, 0.0), np.insert(at_right, 0, 0.0))
    if (drop > left).any() or (drop > right).any():
        return None
    mass -= np.diff(np.diff(drop, prepend=drop[0], append=drop[-1]))
    return Law(offset, step, _convex(mass, np.arange(cells + 1.0)), top, infinite)


def _convex(mass: Array, place: Array) -> Array:
    """Second differences of the greatest convex minorant of a polygon, from those of the polygon.

    A node of negative mass is a dent upwards: replace it by the chord between its neighbours, that is, share its mass between them.
    """
    todo = [int(i) for i in np.flatnonzero(mass < 0)]
    mass = mass.copy()
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    while todo:
        i = todo.pop()
        if mass[i] >= 0:
            continue
        a, b = before.get(i, i - 1), after.get(i, i + 1)
        if a < 0 or b >= len(mass):
            mass[i] = 0.0  # rounding only: the end tangents bound the polygon from below
            continue
        share = (place[i] - place[a]) / (place[b] - place[a])
        mass[a] += (1 - share) * mass[i]
        mass[b] += share * mass[i]
        mass[i] = 0.0
        after[a], before[b] = b, a
        todo += [k for k in (a, b) if mass[k] < 0]
    return mass


@dataclass(frozen=True)
class _Plan:
    """How to compute E[(sign (S - K))_+] near one K: where to cap Y, how to tilt, and which window the tilted sum keeps to."""

    slope: float  # -d log E[(sign (S - K))_+] / d (sign K), about
    log_premium: float  # log E[(sign (S - K))_+], about
    theta: float
    top: float
    low: float
    high: float
    eta_low: float
    eta_high: float
    eta_rest: float


def _log_mgfs(log_weight: Array, y: Array, theta: Array) -> Array:
    exponent = np.multiply.outer(theta, y) + log_weight
    peak = exponent.max(axis=-1)
    return np.asarray(peak + np.log(np.exp(exponent - peak[..., None]).sum(axis=-1)))


def _log_mgf(log_weight: Array, y: Array, theta: float) -> float:
    exponent = log_weight + theta * y
    peak = float(exponent.max())
    return peak + math.log(float(np.exp(exponent - peak).sum()))


def _plan(ratio: Ratio, steps: int, at: float, sign: int, reach: float) -> _Plan:
    """Rough numbers only: whatever is chosen here, the bounds computed from it hold."""
    value, log_value = ratio.sketch(math.inf)
    share = np.exp(log_value)
    top = reach * (1 + 1e-9)
    y, log_weight = ratio.sketch(top)
    weight = np.exp(log_weight)
    mean = float(weight @ y)
    spread_out = max(math.sqrt(steps * float(weight @ (y - mean) ** 2)), 1e-12 * steps * mean, 1e-300)
    eta = np.exp(np.linspace(-6.0, 9.0, 31)) / spread_out
    rest = -((steps - 1) * _log_mgfs(log_weight, y, -eta) + _NATS) / eta
    eta_rest = float(eta[np.argmax(rest)])
    if sign > 0:
        # The other steps add at least `rest`, so one step above top - rest alone puts the sum above every K in reach.
        top = max(top - max(0.0, float(rest.max())), 0.01 * top)
        y, log_weight = ratio.sketch(top)
    steepest = max(60 / spread_out, 1e3 / at) if sign > 0 else 60 / spread_out + 30.0 * steps / at
    rough = np.exp(np.linspace(math.log(0.1 / max(spread_out, at)), math.log(steepest), 40))

    def chernoff(y: Array, log_weight: Array) -> tuple[Array, Array, int]:
        """log of theta^-2 E[exp(sign theta (S - K))] at several theta, more of them near the best."""
        near = int(np.argmin(steps * _log_mgfs(log_weight, y, sign * rough) - sign * rough * at - 2 * np.log(rough)))
        theta = np.unique(np.append(rough, np.geomspace(rough[max(near - 1, 0)], rough[min(near + 1, 39)], 24)))
        level = steps * _log_mgfs(log_weight, y, sign * theta) - sign * theta * at - 2 * np.log(theta)
        return theta, level, int(np.argmin(level))

    theta, level, best = chernoff(y, log_weight)
    log_premium = float(level[best]) - math.log(3 * max(spread_out, 1 / float(theta[best])))
    if sign > 0:
        # Either many steps share the excess or one large jump makes it; the saddle alone is far off for the latter.
        small, log_small = ratio.sketch(max((at - steps * mean) / 3, 1 + spread_out, 2 * at / steps))
        slopes, shared, lowest = chernoff(small, log_small)
        one = steps * float(share @ np.maximum(value - max(at - (steps - 1) * float(np.exp(log_small) @ small), 0.0), 0.0))
        log_premium = float(shared[lowest]) - math.log(3 * max(spread_out, 1 / float(slopes[lowest])))
        log_premium = float(np.logaddexp(log_premium, math.log(one) if one > 0 else -math.inf))
    log_premium = min(log_premium, math.log(steps))
    stop_loss = np.cumsum((share * value)[::-1])[::-1] - value * np.cumsum(share[::-1])[::-1]
    negligible = np.flatnonzero(steps * stop_loss <= 1e-10 * math.exp(log_premium))
    cap = float(value[negligible[0]]) if len(negligible) else math.inf
    if sign < 0:
        # So large a step is as good as lost to the lower tail, whose tilt weighs it with exp(-40).
        eta_rest = float(theta[best])
        cap = min(cap, (40.0 - _log_mgf(log_weight, y, -eta_rest)) / eta_rest)
    if cap < top:
        top = cap
        y, log_weight = ratio.sketch(top)
        theta, level, best = chernoff(y, log_weight)
    chosen = best
    if sign > 0:
        # A weaker tilt leaves fewer large jumps and so a shorter window; take it as long as rounding stays a ten-millionth of the whole.
        weight, small = np.exp(log_weight), np.minimum(y, 2.0)
        body = math.sqrt(steps * float(weight @ (small - weight @ small) ** 2))
        rounding = level + math.log(2e-14 * steps / max(body, 1e-5 * at))
        chosen = min(best, int(np.argmax(rounding <= log_premium - 16))) if (rounding <= log_premium - 16).any() else best
    tilt = sign * float(theta[chosen])
    centre = _log_mgf(log_weight, y, tilt)
    tilted = np.exp(log_weight + tilt * y - centre)
    middle = float(tilted @ y)
    eta = np.exp(np.linspace(-7.0, 7.0, 29)) / max(math.sqrt(steps * float(tilted @ (y - middle) ** 2)), 1e-3 * spread_out)
    high = (steps * (_log_mgfs(log_weight, y, tilt + eta) - centre) + _NATS) / eta
    low = -(steps * (_log_mgfs(log_weight, y, tilt - eta) - centre) + _NATS) / eta
    first, last = float(low.max()), min(float(high.min()), steps * top)
    return _Plan(
        slope=float(theta[best]),
        log_premium=log_premium,
        theta=tilt,
        top=top,
        low=first if first > 0.2 * (last - first) else 0.0,  # a sharp lower end is not worth it where the window is wide anyway
        high=last,
        eta_low=float(eta[np.argmax(low)]),
        eta_high=float(eta[np.argmin(high)]),
        eta_rest=eta_rest,
    )


@dataclass(frozen=True)
class _Sum:
    """The law of the sum of `steps` lattice laws on one side of a threshold, un-tilted: E[(sign (S - K))_+] with its error."""

    sign: int
    theta: float
    at: float
    floor: float  # sums were kept from here on
    place: Array
    mass: Array  # tail sums of the masses beyond each place, scaled
    moment: Array
    log_scale: float
    unit_noise: float  # of one lattice mass
    lattice: float
    outside: float  # tilted mass beyond the window, wrapped around or lost
    relative: float  # error of the lattice masses of one step, to the power of the steps
    rounding: float  # of the tail sums

    def premium(self, threshold: Array) -> tuple[Array, Array]:
        """E[(sign (S - K))_+] at each K, and a bound on its error."""
        k = self.sign * threshold
        first = np.searchsorted(self.place, k, side="right")
        scale, mass, moment = math.exp(self.log_scale), self.mass[first], self.moment[first]
        noise = (self.unit_noise * (1 / (self.theta * self.lattice) + 1 / math.e) + self.outside / math.e) / self.theta
        with np.errstate(over="ignore", invalid="ignore"):  # so far from the threshold it was made for, a sum says nothing
            value = scale * (moment - (k - self.at) * mass)
            summing = scale * self.rounding * (np.abs(moment) + np.abs((k - self.at) * mass))
            growth = np.exp(np.minimum(self.log_scale - self.theta * (k - self.at), 700.0))
            error = growth * noise + np.abs(value) * self.relative + summing
        known = np.isfinite(value) & np.isfinite(error) & (k >= self.floor)
        return np.where(known, value, 0.0), np.where(known, error, np.inf)

    def masses(self, threshold: Array) -> Array:
        """An upper bound on the mass between consecutive thresholds, taken in order away from the bulk."""
        k = self.sign * threshold
        first = np.searchsorted(self.place, k, side="right")
        scale, mass = math.exp(self.log_scale), self.mass[first]
        with np.errstate(over="ignore", invalid="ignore"):
            growth = np.exp(np.minimum(self.log_scale - self.theta * (k[:-1] - self.at), 700.0))
            noise = growth * (self.unit_noise * (np.diff(first) + 1) + self.outside) + scale * self.rounding * np.abs(mass[:-1])
            found = scale * np.maximum(mass[:-1] - mass[1:], 0.0) * (1 + self.relative) + noise
        return np.where((k[:-1] >= self.floor) & np.isfinite(found), found, np.inf)


def _sum(law: Law, steps: int, at: float, sign: int, plan: _Plan) -> _Sum:
    """The law of the sum by one transform of the tilted law.

    Error model. The tilted masses w sum to 1, so each Fourier coefficient has error at most e = c u log2(N) (each is a sum of w_j
    times a path of at most log2(N) butterflies). Its t-th power errs by t |f|^(t-1) e plus t times the error of its angle; the inverse
    averages these errors and adds its own. Wrapped-around mass is the tilted mass outside the window, bounded by Chernoff.
    """
    step, theta = law.step, plan.theta
    grid = law.grid
    with np.errstate(divide="ignore"):
        exponent = np.log(law.mass) + theta * grid
    log_total = _log_mgf(exponent, grid, 0.0)
    weight = np.exp(exponent - log_total)
    first = max(0, math.floor((plan.low - steps * law.offset) / step))
    last = min(math.ceil((plan.high - steps * law.offset) / step), steps * (len(grid) - 1))
    size = next_fast_len(max(last - first + 2, 64), real=True)
    outside = 0.0
    if first > 0:
        log_below = steps * (_log_mgf(exponent, grid, -plan.eta_low) - log_total) + plan.eta_low * step * first
        outside += math.exp(min(0.0, log_below))
    if first + size <= steps * (len(grid) - 1):
        log_above = steps * (_log_mgf(exponent, grid, plan.eta_high) - log_total) - plan.eta_high * step * (first + size)
        outside += math.exp(min(0.0, log_above))
    folded = np.zeros(-(-len(weight) // size) * size)
    folded[: len(weight)] = weight
    transform = rfft(folded.reshape(-1, size).sum(axis=0))
    error = 8 * _UNIT * (math.log2(size) + 2)
    modulus = np.abs(transform)
    keep = modulus > math.exp(-90 / steps)
    power = np.zeros_like(transform)
    power[keep] = np.exp(steps * (np.log(modulus[keep]) + 1j * np.angle(transform[keep])))
    average = 2 * float(np.abs(power).sum()) / size
    dropped = math.exp((steps - 1) * math.log(math.exp(-90 / steps) + 2 * error))
    average_less = 2 * float(np.exp((steps - 1) * np.log(modulus[keep] + 2 * error)).sum()) / size + dropped
    unit_noise = steps * error * average_less + (error + (8 * steps + 400) * _UNIT) * average + math.exp(-90.0)
    mass = np.roll(irfft(power, size), -(first % size))
    place = steps * law.offset + step * np.arange(first, first + size)
    if sign < 0:
        place, mass = -place[::-1], mass[::-1]
    tilt, origin = abs(theta), sign * at
    kept = int(np.searchsorted(place, origin - 25 / tilt))
    place, mass = place[kept:], mass[kept:]
    mass = mass * np.exp(-tilt * (place - origin))
    return _Sum(
        sign=sign,
        theta=tilt,
        at=origin,
        floor=origin - 25 / tilt if kept else -math.inf,
        place=place,
        mass=np.append(np.cumsum(mass[::-1])[::-1], 0.0),
        moment=np.append(np.cumsum((mass * (place - origin))[::-1])[::-1], 0.0),
        log_scale=min(steps * log_total - theta * (at - steps * law.offset), 700.0),
        unit_noise=unit_noise,
        lattice=step,
        outside=outside,
        relative=math.expm1(8 * steps * _MASS_ERROR),
        rounding=4 * size * _UNIT,
    )


@dataclass(frozen=True)
class _Tail:
    """Both ends of E[(sign (S - K))_+] / t for K on one side of a threshold."""

    steps: int
    upper_sum: _Sum
    lower_sum: _Sum | None
    upper_constant: float
    lower_constant: float
    reach: float

    def bounds(self, threshold: Array) -> tuple[Array, Array]:
        """Lower and upper end at each K between the bulk and the reach of the tail; the lower one may be negative."""
        value, error = self.upper_sum.premium(threshold)
        upper = (value + error + self.upper_constant) / self.steps
        if self.lower_sum is None:
            return np.zeros_like(upper), upper
        value, error = self.lower_sum.premium(threshold)
        lower = (value - error + self.lower_constant) / self.steps
        return np.where(threshold <= self.reach, lower, 0.0), upper

    def slope(self, at: float) -> float:
        """About -d log E[(sign (S - K))_+] / d (sign log K)."""
        above = self.upper_sum
        mass = math.exp(above.log_scale) * float(above.mass[np.searchsorted(above.place, above.sign * at, side="right")])
        return at * mass / max(float(above.premium(np.array([at]))[0][0]) + self.upper_constant, 1e-320)

    def masses(self, threshold: Array) -> Array:
        """An upper bound on how much the slope of the lower end's curve, in K, changes between consecutive thresholds."""
        return np.zeros(len(threshold) - 1) if self.lower_sum is None else self.lower_sum.masses(threshold)


def _tail(
    ratio: Ratio, steps: int, at: float, sign: int, accuracy: Callable[[float], float], reach: float = 0.0, points: int = _POINTS
) -> _Tail:
    """The tail around K = at, good up to K = reach; `accuracy` says which relative error to aim for, given -d log / d log K.

    With Y' = min(Y, M), S' its sum and r = E[(Y - M)_+] per step, S' <= S gives E[(S'-K)_+] <= E[(S-K)_+] <= E[(S'-K)_+] + t r; and where
    one step above M puts S' above K whatever the others do, but for an event of probability f, the excess counts in
    full: E[(S-K)_+] >= E[(S'-K)_+] + t r (1 - f). Below, E[(K-S')_+] - t r f <= E[(K-S)_+] <= E[(K-S')_+].
    """
    reach = max(at, reach)
    plan = _plan(ratio, steps, at, sign, reach)
    step = 2 * math.sqrt(accuracy(plan.slope * at) / steps) / plan.slope
    step = min(step, (plan.high - plan.low) / 500, plan.top / 60)
    step = max(step, (plan.high - plan.low) / points, plan.top / points)
    cells = math.ceil(plan.top / step)
    above, below = spread(ratio, step, cells), contract(ratio, step, cells)

    def fails(top: float) -> float:
        """Chernoff's bound on the chance that the other steps, capped at `top`, stay below reach - top."""
        short, eta = reach - top, plan.eta_rest
        if short <= 0:
            return 0.0
        # Spreading and capping lower make the moment of exp(-eta Y) larger, so the smaller of two such figures holds.
        moments = []
        for law in (spread(ratio, 0.02 / eta, 2000), above):
            with np.errstate(divide="ignore"):
                moments.append(_log_mgf(np.log(law.mass), law.grid, -eta))
        moments[0] = float(np.logaddexp(moments[0], math.log(max(ratio.tail(top)[0], 1e-300)) - eta * top))
        return min(1.0, math.exp(min(0.0, (steps - 1) * min(moments) + eta * short)) * (1 + 1e-3))

    excess = steps * above.infinite * (1 + 1e-11)
    if below is None:
        lower_constant = 0.0
    elif sign > 0:
        lower_constant = steps * below.infinite * (1 - 1e-11) * (1 - fails(below.top))
    else:
        lower_constant = -steps * below.infinite * (1 + 1e-11) * fails(below.top)
    return _Tail(
        steps,
        _sum(above, steps, at, sign, plan),
        None if below is None else _sum(below, steps, at, sign, plan),
        excess if sign > 0 else 0.0,
        lower_constant,
        reach,
    )


def _weighted(sign: int, epsilon: float) -> float:
    """delta is this times E[(sign (S - K))_+] / t."""
    return 1.0 if sign > 0 else math.exp(epsilon)


def _delta_once(ratio: Ratio, steps: int, epsilon: float, sign: int, relative: float, points: int = _POINTS) -> tuple[float, float]:
    """Both ends of delta(epsilon), epsilon >= 0, in the remove (sign 1) or add (sign -1) direction of one epoch."""
    at = steps * math.exp(sign * epsilon)
    lower, upper = _tail(ratio, steps, at, sign, lambda slope: relative * max(1.0, slope), points=points).bounds(np.array([at]))
    weight = _weighted(sign, epsilon)
    return min(1.0, max(0.0, weight * float(lower[0]))), min(1.0, weight * float(upper[0]))


def _epsilon_once(ratio: Ratio, steps: int, delta: float, sign: int, most: float, tolerance: float) -> tuple[float, float]:
    """Both ends of the smallest epsilon >= 0 with delta(epsilon) <= delta in one direction; `most` is known to be enough."""
    log_target = math.log(delta) + math.log(steps)

    def rough(epsilon: float) -> float:
        at = steps * math.exp(sign * epsilon)
        return _plan(ratio, steps, at, sign, at).log_premium + (0.0 if sign > 0 else epsilon) - log_target

    if _delta_once(ratio, steps, 0.0, sign, 1e-3, _COARSE)[1] <= delta:
        return 0.0, 0.0
    low, high = 1e-7 * most, most
    for _ in range(10):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rough(middle) > 0 else (low, middle)
    guess, points = math.sqrt(low * high), _COARSE
    for _ in range(14):  # Newton's method on log delta; the ends below are checked, however far it came
        at = steps * math.exp(sign * guess)
        tail = _tail(ratio, steps, at, sign, lambda slope: 1e-3, points=points)
        lower, upper = (float(x[0]) for x in tail.bounds(np.array([at])))
        if upper > 1.2 * lower and points < _POINTS // 4:
            points *= 4
            continue
        slope = max(tail.slope(at) - (0.0 if sign > 0 else 1.0), 1e-3)
        move = (math.log(max(upper * steps, 1e-320)) + (0.0 if sign > 0 else guess) - log_target) / slope
        guess += min(max(move, -guess / 2), (most - guess) / 2)
        if abs(move) * slope < 0.03:
            break
    at = steps * math.exp(sign * guess)
    for margin in (0.003, 0.1, 2.0):
        margin = (margin + 2 * min(1.0, max(0.0, 1 - lower / max(upper, 1e-320)))) / slope
        tail = _tail(ratio, steps, at, sign, lambda slope: min(tolerance, 1e-4 * guess) * slope, at * math.exp(margin) * (1 + 1e-9))
        least, enough = (_root(tail, steps, delta, sign, guess, margin, end) for end in (0, 1))
        if least > 0.0 and enough < most:
            break
    return max(0.0, least), min(most, enough)


def _root(tail: _Tail, steps: int, delta: float, sign: int, guess: float, margin: float, end: int) -> float:
    """The largest epsilon within the margin where the lower end exceeds delta, or the smallest where the upper one does not."""

    def above(epsilon: float) -> bool:
        value = tail.bounds(np.array([steps * math.exp(sign * epsilon)]))[end]
        return not _weighted(sign, epsilon) * float(value[0]) <= delta

    low, high = max(0.0, guess - margin), guess + margin
    if not above(low):
        return low if end else 0.0
    if above(high):
        return math.inf if end else high
    while high - low > 4e-16 * high + 1e-300:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if above(middle) else (low, middle)
    return high if end else low


def _side(ratio: Ratio, steps: int, step: float, length: int, sign: int, budget: float) -> tuple[Array, Array]:
    """Node values, at K/t = exp(sign step i), of a curve above and of one whose polygon lies below E[(sign (S - K))_+] / t.

    A few windows cover the range, each with its own tilt and lattice. In each the lower curve is convex, so its chord between
    two nodes exceeds it by at most a quarter of the change of slope times the distance: that much is taken off at the nodes.
    Windows far below the deltas that will be asked for need less accuracy.
    """
    k = steps * np.exp(sign * step * np.arange(length + 1))
    upper = np.ones(length + 1) if sign > 0 else k / steps
    lower = np.full(length + 1, math.inf)
    first = 0
    points = max(_COARSE // 4, min(_POINTS // 2, int(_EFFORT / max(1.0, length * step / 0.7))))
    while first < length:
        last = length
        if steps == 1:
            mass, value = np.array([ratio.tail(float(x)) if sign > 0 else ratio.head(float(x)) for x in k]).T
            low = high = value if sign > 0 else k * mass - value
            bend, slack = np.abs(np.diff(mass)) + 1e-12 * mass.max(), 1e-11 * (high + k * mass)
        else:
            slope = _plan(ratio, steps, k[first], sign, k[first]).slope
            ahead = min(max(k[first] + sign * 14 / slope, 0.5 * k[first]), 2 * k[first])
            slope = 0.5 * (slope + _plan(ratio, steps, ahead, sign, ahead).slope)
            inside = np.flatnonzero(np.abs(k[first:] - k[first]) <= 14 / slope)
            last = min(first + max(int(inside[-1]), 1), first + math.ceil(0.7 / step), length)
            ease = max(1.0, 1e6 * budget / max(float(upper[first]), 1e-300))
            centre, reach = float(k[first + (7 * (last - first)) // 10]), float(max(k[first], k[last])) * (1 + 1e-9)
            tail = _tail(ratio, steps, centre, sign, _accuracy(step, ease), reach, points)
            low, high = tail.bounds(k[first : last + 1])
            bend, slack = tail.masses(k[first : last + 1]), 1e-11 * high
        part = slice(first, last + 1)
        with np.errstate(over="ignore"):
            gap = 0.25 * bend * np.abs(np.diff(k[part])) / steps
        upper[part] = np.minimum(upper[part], high + slack)
        lower[part] = np.minimum(lower[part], low - slack - np.maximum(np.append(gap, 0.0), np.insert(gap, 0, 0.0)))
        first = last
    return np.minimum.accumulate(upper), lower


def _accuracy(step: float, ease: float) -> Callable[[float], float]:
    """The relative error that is no worse than what rounding losses to the lattice adds."""
    return lambda slope: min(0.03, (step * slope) ** 2 / 8 * ease)


def _floor(lower: Array) -> Array:
    """Zero from the node before the first negative one on: the polygon may only be lowered."""
    result = lower.copy()
    result[max(int(np.argmax(np.append(~(lower >= 0), True))) - 1, 0) :] = 0.0
    return result


@lru_cache(maxsize=32)
def _laws(ratio: Ratio, steps: int, step: float, budget: float) -> tuple[FinitePair, FinitePair]:
    """One epoch, record removed, with losses on multiples of step: a pair that is dominated by the true one, and one that dominates it."""
    counts = []
    for sign in (-1, 1):

        def small(loss: float, sign: int = sign) -> bool:
            at = steps * math.exp(sign * loss)
            if steps == 1:
                return (ratio.tail(at)[1] if sign > 0 else ratio.head(at)[0]) <= budget
            return _plan(ratio, steps, at, sign, at).log_premium - math.log(at if sign < 0 else steps) <= math.log(budget)

        low, high = 0.0, step
        while not small(high):
            low, high = high, 2 * high
            if high > _FAR:
                raise UnsupportedError(f"the losses of one epoch exceed {_FAR}")
        while high - low > max(step, 0.02 * high):
            middle = (low + high) / 2
            low, high = (low, middle) if small(middle) else (middle, high)
        counts.append(max(math.ceil(high / step), 2))
    if sum(counts) > 1 << 19:
        raise UnsupportedError(f"the losses of one epoch spread over {sum(counts)} steps of {step}; ask for a larger tolerance")
    left_upper, left_lower = _side(ratio, steps, step, counts[0], -1, budget)
    right_upper, right_lower = _side(ratio, steps, step, counts[1], 1, budget)
    index = np.arange(-counts[0], counts[1] + 1)
    alpha = np.exp(step * index)
    pairs = []
    for left, right, dominates in ((_floor(left_lower), _floor(right_lower), False), (left_upper, right_upper, True)):
        left[0] = right[0] = min(left[0], right[0])
        if dominates:
            left, right = np.minimum.accumulate(left), np.minimum.accumulate(right)
        # The curve's slopes below and above alpha = 1, the former less -1, so that both tails keep their relative accuracy.
        below = np.diff(left[::-1]) / np.diff(alpha[: counts[0] + 1])
        above = np.diff(right) / np.diff(alpha[counts[0] :])
        start = left[-1] / alpha[0]
        q = np.concatenate([[start], np.diff(below, prepend=start), [1 + above[0] - below[-1]], np.diff(above, append=0.0)])
        q = _convex(q, np.insert(alpha, 0, 0.0))
        with np.errstate(divide="ignore"):
            log_p = np.minimum(np.log(q[1:]) + step * index, 0.0)
        kept = np.flatnonzero(q[1:] > 0)
        part = slice(int(kept[0]), int(kept[-1]) + 1)
        infinite, reverse_infinite = (float(right[-1]), float(q[0])) if dominates else (0.0, 0.0)
        losses, start_at = np.asarray(step * index[part], dtype=float), int(index[part][0])
        pairs.append(FinitePair(losses, log_p[part], infinite=infinite, reverse_infinite=reverse_infinite, step=step, start=start_at))
    return pairs[0], pairs[1]


class AllocationPair(FinitePair):
    """One epoch of one-of-`steps` allocation as a pair with its losses log(S/t) on multiples of `step`, to compose with other pairs.

    rounding "up" dominates the epoch and "down" is dominated by it, so upper bounds must come from the first and lower ones from the
    second. P-mass beyond the lattice, about `budget`, counts as infinite loss.

    >>> pair = AllocationPair(1.0, 100, "remove", "up")
    >>> lattice.compose([(pair.lattice(), 1)]).epsilon(1e-5).upper - 0.62094 < 1e-5
    True
    """

    def __init__(
        self,
        sigma: Number | Ratio,
        steps: int,
        direction: str = "remove",
        rounding: str = "up",
        *,
        step: float = 1e-3,
        budget: float = 1e-15,
    ) -> None:
        if direction not in ("remove", "add"):
            raise ParameterError(f"direction must be 'remove' or 'add', not {direction!r}")
        if rounding not in ("up", "down"):
            raise ParameterError(f"rounding must be 'up' or 'down', not {rounding!r}")
        pair = _laws(_ratio(sigma), count("steps", steps), step, budget)[rounding == "up"]
        pair = pair if direction == "remove" else pair.reverse()
        super().__init__(
            pair.losses, pair.log_p, infinite=pair.infinite, reverse_infinite=pair.reverse_infinite, step=step, start=pair.start
        )


@dataclass(frozen=True)
class _Score:
    """P- and Q-law of a sum of rounded scores over all steps, tilted by exp(theta T) and scaled, around one epsilon."""

    place: Array
    theta: float
    log_scale: tuple[float, float]
    mass: tuple[Array, Array]
    noise: tuple[float, float]
    outside: float
    relative: float

    def delta(self, epsilon: float) -> float:
        """A lower bound on P(T >= c) - e^epsilon Q(T >= c), for the best c."""
        exponents = [self.log_scale[0] - self.theta * self.place, self.log_scale[1] + epsilon - self.theta * self.place]
        start = int(np.argmax(np.maximum(*exponents) < 600)) if np.maximum(*exponents)[-1] < 600 else len(self.place) - 1
        gain, cost = (np.exp(np.minimum(e[start:], 600.0)) for e in exponents)
        net = gain * (self.mass[0][start:] * (1 - self.relative) - self.noise[0])
        net -= cost * (self.mass[1][start:] * (1 + self.relative) + self.noise[1])
        return max(0.0, float((np.cumsum(net[::-1])[::-1] - self.outside * gain).max()) * (1 - 1e-9))


def _score(ratio: GaussianRatio, steps: int, selected: int, epochs: int, near: float) -> _Score:
    """The law of T = sum of rounded scores log(1 - q + q Y), q = selected / steps, over all steps of all epochs.

    The score is the loss of one Poisson sampled step, so T is close to the loss of the whole; and being a function of the outputs it
    can only lose. Its two laws are powers of one step's, whichever steps were chosen. The tilt makes it good around epsilon = near.
    """
    s, q, uses = 1 / ratio.sigma, selected / steps, (steps * epochs - selected * epochs, selected * epochs)
    y, log_weight = ratio.sketch(math.inf)
    weight, score = np.exp(log_weight), np.log1p(q * (y - 1))
    deviation = math.sqrt(max(float(weight @ score**2) - float(weight @ score) ** 2, 1e-300))
    unit = deviation / 32 * max(1.0, math.sqrt(sum(uses)) * 1e3 / _POINTS)
    low, high = (math.floor(x / unit) for x in np.log1p(q * (np.exp(s * np.array([-12.0, 12.0 + s]) - s * s / 2) - 1)))
    index = np.arange(low, min(high, low + _POINTS) + 1)
    ends = np.expm1(unit * (index[1:] - 0.5)) / q + 1  # ratios at which the rounded score goes up
    z = np.concatenate([[-math.inf], ratio.z(np.maximum(ends, 0.0)), [math.inf]])
    laws = [np.where(v[:-1] > 0, ndtr(-v[:-1]) - ndtr(-v[1:]), ndtr(v[1:]) - ndtr(v[:-1])) for v in (z, z - s)]
    with np.errstate(divide="ignore"):
        logs = [np.log(law) for law in laws]
    powers = (uses, (sum(uses), 0))  # how many steps have the law without and with the record: under P, then under Q

    def cumulant(theta: float, times: tuple[int, int]) -> float:
        return math.fsum(n * _log_mgf(log, unit * index, theta) for log, n in zip(logs, times, strict=True) if n)

    theta = min((float(c) for c in np.exp(np.linspace(-7.0, 5.0, 25))), key=lambda c: cumulant(c, uses) - c * near)
    tilted = [np.exp(log + theta * unit * index - _log_mgf(log, unit * index, theta)) for log in logs]
    mean = sum(n * float(w @ index) for w, n in zip(tilted, uses, strict=True))
    width = math.sqrt(sum(n * float(w @ (index - w @ index) ** 2) for w, n in zip(tilted, uses, strict=True)))
    size = next_fast_len(min(_POINTS, int(24 * width) + len(index)), real=True)
    first = int(mean) - size // 2
    place = unit * np.arange(first, first + size)
    error = 8 * _UNIT * (math.log2(size) + 2)
    transforms = [rfft(np.bincount((index - low) % size, w, size)) for w in tilted]
    modulus, angle = [np.abs(f) for f in transforms], [np.angle(f) for f in transforms]
    mass, noise = [], []
    for times in powers:
        used = [(n, m, a) for n, m, a in zip(times, modulus, angle, strict=True) if n]
        with np.errstate(divide="ignore"):
            power = np.exp(sum(n * np.log(m) for n, m, _ in used))
        most = np.exp(sum(n * np.log(m + 2 * error) for n, m, _ in used))
        turned = power * np.exp(1j * sum(n * a for n, _, a in used))
        mass.append(np.roll(irfft(turned, size), -((first - low * sum(uses)) % size)))
        noise.append(2 * float((most - power + (16 * sum(uses) * _UNIT + error + 400 * _UNIT) * power).sum()) / size)
    level = cumulant(theta, uses)
    etas = [float(x) for x in np.exp(np.linspace(-3.0, 3.0, 13)) * 6 / max(width * unit, 1e-300)]
    above = min(cumulant(theta + eta, uses) - level - eta * float(place[-1]) for eta in etas)
    below = min(cumulant(theta - eta, uses) - level + eta * float(place[0]) for eta in etas)
    return _Score(
        place=place,
        theta=theta,
        log_scale=(level, cumulant(theta, powers[1])),
        mass=(mass[0], mass[1]),
        noise=(noise[0], noise[1]),
        outside=math.exp(min(above, 0.0)) + math.exp(min(below, 0.0)),
        relative=1e-12 * (1 + sum(uses)),
    )


_EXACT = "closed form"
_METHOD = "random allocation, spread and contracted lattices"
_Others = Sequence[tuple[Pair, Pair, int]]


def _directed(others: _Others, direction: int) -> list[tuple[Pair, int]]:
    return [(add if direction else remove, n) for remove, add, n in others]


def _gaussian(mu: float, delta: float | None, epsilon: float | None) -> Bound:
    if delta is not None:
        value = gaussian.epsilon(mu, delta)
        return Bound(max(0.0, value * (1 - 1e-11) - 1e-15), value * (1 + 1e-11) + 1e-15 if value else 0.0, _EXACT)
    assert epsilon is not None
    value = gaussian.delta(mu, epsilon)
    return Bound(value * (1 - 1e-11), min(1.0, value * (1 + 1e-11) + 5e-324), _EXACT)


def _once(ratio: Ratio, steps: int, most: float, delta: float | None, epsilon: float | None, tolerance: float) -> Bound:
    """One epoch by itself; the add direction is worked out only where it could be the worse one."""
    if delta is not None:
        lower, upper = _epsilon_once(ratio, steps, delta, 1, most, tolerance)
        if _delta_once(ratio, steps, lower, -1, 1e-3, _COARSE)[1] > delta:
            least, enough = _epsilon_once(ratio, steps, delta, -1, most, tolerance)
            lower, upper = max(lower, least), max(upper, enough)
        return Bound(lower, upper, _METHOD)
    assert epsilon is not None
    lower, upper = _delta_once(ratio, steps, epsilon, 1, 0.1 * tolerance)
    if _delta_once(ratio, steps, epsilon, -1, 1e-3, _COARSE)[1] > lower:
        least, most = _delta_once(ratio, steps, epsilon, -1, 0.1 * tolerance)
        lower, upper = max(lower, least), max(upper, most)
    return Bound(lower, upper, _METHOD)


def _composed(
    ratio: Ratio,
    blocks: Sequence[tuple[int, int]],
    others: _Others,
    delta: float | None,
    epsilon: float | None,
    level: float,
    tolerance: float,
) -> Bound:
    """The bracket of (steps, count) one-of-steps epochs and other pairs, on a lattice refined until it is narrow enough."""
    total = sum(n for _, n in blocks)
    value, log_weight = ratio.sketch(1e3)
    weight = np.exp(log_weight)
    deviation = math.sqrt(float(weight @ (value - 1) ** 2) / min(t for t, _ in blocks))
    step = min(deviation, 1.0) / 48

    def ask(up: bool, direction: int) -> Bound:
        known = [(_laws(ratio, steps, step, budget)[up], n) for steps, n in blocks]
        pairs = [(pair.reverse() if direction else pair, n) for pair, n in known]
        if others:
            aim = 10 * tolerance if epsilon is None else 100 * tolerance
            return grid.bracket([*pairs, *_directed(others, direction)], delta=delta, epsilon=epsilon, tolerance=aim)
        composition = lattice.compose([(found, n) for pair, n in pairs if (found := pair.lattice()) is not None])
        return composition.epsilon(delta) if delta is not None else composition.delta(epsilon or 0.0)

    width = math.inf
    for _ in range(4):
        budget = 1e-8 * level / total
        upper = max(ask(True, direction).upper for direction in (0, 1))
        lower = min(upper, max(ask(False, direction).lower for direction in (0, 1)))
        missed = delta is None and 1e-30 < upper < 1e-4 * level  # the lattice was cut far above the delta found, which matters
        level = level if delta is not None else max(lower, 1e-3 * upper, 1e-300)
        narrow = 20 * tolerance * min(max(1.0, upper), 1e4) if delta is not None else 200 * tolerance * upper
        longest = max(len(_laws(ratio, steps, step, budget)[True].losses) for steps, _ in blocks)
        finer = step * max(math.sqrt(0.6 * narrow / max(upper - lower, 1e-300)), 0.02, longest / 30_000)
        done = upper - lower <= narrow or upper - lower > 0.5 * width or not finer < 0.8 * step
        # many windows make a law dear, and the windows' own accuracy its limit
        if not missed and (done or (longest * step > 14 and upper - lower <= 0.02 * upper)):
            break
        step, width = (step, math.inf) if missed else (finer, upper - lower)
    return Bound(lower, upper, _METHOD)


def allocation_bracket(
    sigma: Number | Ratio,
    steps: int,
    selected: int = 1,
    epochs: int = 1,
    others: _Others = (),
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    tolerance: float = 1e-6,
) -> Bound:
    """The bracket on epsilon at `delta`, or delta at `epsilon`, where a record enters `selected` of `steps` sums in each of `epochs`.

    `sigma` is the noise multiplier of one sum; `others` are further (remove pair, add pair, count) composed with the epochs. The larger
    of the two directions is bounded. One epoch is solved directly; several, or others, on a lattice of losses.

    More than one step out of t, from above: a random partition of the steps into k blocks of sizes floor(t/k) and ceil(t/k), and one
    uniform step from each block, together are a uniform k-subset, by symmetry. Given the partition the blocks are independent
    epochs of one step each, and Q does not depend on it; the hockey stick is convex in P, so the k-fold composition dominates (Feldman
    and Shenfeld 2025). From below: any function of the outputs, here a sum of scores that is close to the loss.

    Guarantee: add/remove or zero-out, Gaussian sums of l2 sensitivity 1, records allocated independently and uniformly, all outputs seen.

    >>> found = allocation_bracket(1.0, 100, epochs=10, delta=1e-5)
    >>> round(found.lower, 3), round(found.upper, 3)
    (1.701, 1.702)
    """
    ratio = _ratio(sigma)
    steps, selected, epochs = count("steps", steps), count("selected", selected), count("epochs", epochs)
    if selected > steps:
        raise ParameterError(f"selected must be at most steps ({steps}), not {selected}")
    if (delta is None) == (epsilon is None):
        raise ParameterError("give exactly one of delta and epsilon")
    others = [other for other in others if other[2]]
    if delta is not None:
        delta = float(probability("delta", delta))
        if delta in (0.0, 1.0):
            bounded = not isinstance(ratio, GaussianRatio)
            return Bound(0.0, 0.0, _EXACT) if delta else Bound(0.0 if bounded else math.inf, math.inf, "Gaussian noise has no largest loss")
    if epsilon is not None:
        epsilon = float(number("epsilon", epsilon))
        if epsilon < 0:
            # HS_a(P||Q) = 1 - a + a HS_1/a(Q||P), whatever P and Q are
            found = allocation_bracket(ratio, steps, selected, epochs, others, epsilon=-epsilon, tolerance=tolerance)
            base, scale = -math.expm1(epsilon), math.exp(epsilon)
            return Bound(max(0.0, base + scale * found.lower - 4e-16), min(1.0, base + scale * found.upper + 4e-16), found.method)
        if epsilon == math.inf:
            if any(pair.infinite >= 1 for other in others for pair in other[:2]):
                return Bound(1.0, 1.0, _EXACT)
            own = 0.0 if isinstance(ratio, GaussianRatio) else selected * epochs * math.log1p(-ratio.tail(1e300)[1])
            leak = max(-math.expm1(own + sum(n * math.log1p(-pair.infinite) for pair, n in _directed(others, i))) for i in (0, 1))
            return Bound(leak, leak, _EXACT)
    plain, floor = _simple(ratio, steps, selected, epochs, others, delta, epsilon)
    if selected == steps and isinstance(ratio, GaussianRatio):
        return plain
    if selected == epochs == 1 and not others:
        most = plain.upper if delta is not None else math.inf
        if (most if epsilon is None else epsilon) + math.log(steps) > _FAR:
            return Bound(floor, plain.upper, plain.method)
        found = _once(ratio, steps, most, delta, epsilon, tolerance)
    else:
        size, longer = divmod(steps, selected)
        longer = longer if size < 50 else 0  # a shorter block dominates a longer one, and here by little
        blocks = [(t, n * epochs) for t, n in ((size, selected - longer), (size + 1, longer)) if n]
        try:
            coarser = 1 if selected == 1 else 20  # the two ends are further apart than any lattice makes them
            found = _composed(ratio, blocks, others, delta, epsilon, delta or max(floor, 1e-12), coarser * tolerance)
        except (UnsupportedError, OverflowError):
            return Bound(floor, plain.upper, plain.method)
        if selected > 1:
            found = Bound(_score_floor(ratio, steps, selected, epochs, found.upper, delta, epsilon), found.upper, found.method)
    upper, method = (found.upper, found.method) if found.upper <= plain.upper else (plain.upper, plain.method)
    return Bound(min(max(found.lower, floor), upper), upper, method)


def _simple(
    ratio: Ratio, steps: int, selected: int, epochs: int, others: _Others, delta: float | None, epsilon: float | None
) -> tuple[Bound, float]:
    """Figures without any lattice: the bracket were the chosen steps known, which is an upper bound, and a lower bound.

    The latter is the larger of two: the sum of all outputs is Gaussian, and the likelihood ratio of all subsets is at least the
    largest, so (sum_A r_A - a)_+ >= sum_A (r_A - a)_+ gives delta(eps) >= delta of the known steps at eps + log of the number of subsets.
    """
    if not isinstance(ratio, GaussianRatio):
        alone_too = delta is not None and selected == epochs == 1 and not others
        return Bound(0.0, 1.0 if delta is None else _enough(ratio, delta) if alone_too else math.inf, _METHOD), 0.0
    alone = math.sqrt(selected * epochs) / ratio.sigma
    # C(t, k) <= (e t / k)^k, exact for one step
    ways = epochs * (math.log(steps) if selected == 1 else selected * (1 + math.log(steps / selected))) * (1 + 1e-12) + 1e-12
    if delta is not None:
        floor = max(0.0, _gaussian(alone, delta, None).lower - ways)
    else:
        floor = _gaussian(alone, None, (epsilon or 0.0) + ways).lower
    results = []
    for mu in (alone, selected * math.sqrt(epochs / steps) / ratio.sigma):
        if not others:
            results.append(_gaussian(mu, delta, epsilon))
            continue
        sides = []
        for direction in (0, 1):
            parts = [(mixture.gaussian(1 / mu), 1), *_directed(others, direction)]
            sides.append(compose.epsilon(parts, delta) if delta is not None else compose.delta(parts, epsilon or 0.0))
        results.append(sides[0].worst(sides[1]))
    return results[0], max(floor, results[1].lower)


def _enough(ratio: Ratio, delta: float) -> float:
    """An epsilon that is enough for one step alone, and so for one of many, in both directions."""
    epsilon = 1.0
    while max(ratio.tail(math.exp(epsilon))[1], ratio.head(math.exp(-epsilon))[0]) > delta:
        epsilon *= 2
        if epsilon > _FAR:
            return math.inf
    return epsilon


def _score_floor(
    ratio: Ratio, steps: int, selected: int, epochs: int, upper: float, delta: float | None, epsilon: float | None
) -> float:
    """The best lower bound from the sum of scores, on epsilon or delta."""
    if not isinstance(ratio, GaussianRatio):
        return 0.0
    if epsilon is not None:
        return min(upper, _score(ratio, steps, selected, epochs, epsilon).delta(epsilon))
    assert delta is not None
    low, near = 0.0, upper
    for _ in range(2):
        score = _score(ratio, steps, selected, epochs, near)
        high = upper
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if score.delta(middle) > delta else (low, middle)
        near = low
    return low
