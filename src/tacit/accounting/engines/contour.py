"""Composition by a contour integral: delta(eps) to 12 digits from a few dozen nodes, whatever the number of steps.

For a composed privacy loss L with cumulant K(z) = log E[exp(z L)] and any c > 0,

    delta(eps) = (1 / 2 pi i) * integral over Re z = c of exp(K(z) - z eps) / (z (z + 1)) dz.

The trapezoidal rule with step h sums the same function on shifted arguments: it equals the sum over all integers m of
exp(c m W) delta(eps + m W), W = 2 pi / h (Poisson summation). The term m = 0 is the truth. Those with m > 0 are capped by Chernoff's bound.
Those with m < 0 are known but for a left tail, delta(-x) = 1 - E[exp(-x-L)] + E[(exp(-x-L) - 1)_+] = 1 - E[min(1, exp(-x-L))], and are
subtracted (times P's finite mass, where that is not 1); so the aliasing error is certified.
Truncation is certified by `Pair.decay`, which bounds the integrand on the whole tail; the
quadrature of each cumulant and floating point come from `Nodes`. The line passes near the saddle point, so the relative accuracy is
the same at delta = 1e-20 as at 1e-5.

`plan` decides where to lay the line, from the composed cumulant on the real axis and the saddle-point estimate
of the whole privacy curve. Nothing of that is certified: it decides which computation is cheap.

>>> from tacit.accounting.pairs.mixture import gaussian
>>> table = plan([(gaussian(1.0), 1)], np.array([4.0]))
>>> float(table.mean[0])  # the tilted loss of a Gaussian has mean c + 1/2
4.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bound import Bound
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Array, Pair, inflated
from tacit.accounting.pairs.part import Part

Components = Sequence[tuple[Pair, int]]
Complex = NDArray[np.complex128]


class Declined(Exception):
    """The contour would be too long or its tail cannot be bounded; the caller uses a grid instead."""


def cumulant(components: Components, c: float) -> float:
    """K(c), the sum of the steps' cumulants: the Rényi divergence of order c + 1, times c.

    >>> from tacit.accounting.pairs.mixture import gaussian
    >>> cumulant([(gaussian(1.0), 3)], 2.0)
    9.0
    """
    return sum(count * pair.kappa(c) for pair, count in components)


@dataclass(frozen=True, slots=True)
class Plan:
    """K and its derivatives on a grid of tilts: enough to choose the line, and a saddle-point estimate of the whole curve."""

    c: Array
    level: Array
    mean: Array
    variance: Array

    @property
    def epsilon(self) -> Array:
        """The epsilon whose saddle point each tilt is."""
        return self.mean - 1 / self.c - 1 / (self.c + 1)

    @property
    def log_delta(self) -> Array:
        """The saddle-point estimate of log delta there."""
        curvature = self.variance + self.c**-2 + (self.c + 1) ** -2
        return self.level - self.c * self.epsilon - np.log(self.c) - np.log1p(self.c) - 0.5 * np.log(2 * math.pi * curvature)


def plan(components: Components, c: Array) -> Plan:
    """Tabulate the composed cumulant on the real axis."""
    found = tabulated(components, c)
    if found is None:
        raise Declined("a pair has no quadrature")
    return found


def tabulated(components: Components, c: Array) -> Plan | None:
    """The same, or None where a pair has no quadrature."""
    level, mean, variance = np.zeros(len(c)), np.zeros(len(c)), np.zeros(len(c))
    for pair, count in components:
        found = pair.moments(c)
        if found is None:
            return None
        k0, k1, k2 = found
        level, mean, variance = level + count * k0, mean + count * k1, variance + count * k2
    return Plan(c, level, mean, variance)


#: Tilts around one that is nearly right, as multiples of it, and the same with a few far ones.
_NEAR = np.geomspace(0.25, 1.6, 33)
_AROUND = np.concatenate([_NEAR, [2.0, 3.0, 5.0]])


@lru_cache(maxsize=64)
def _coarse(low: float, high: float) -> Array:
    """The tilts of a coarse plan; the same few ranges are asked for again and again."""
    found = np.geomspace(low, high, 25)
    found.flags.writeable = False
    return found


def search(components: Components, inside: Callable[[Plan], NDArray[np.bool_]]) -> Plan:
    """A fine plan around the tilt at which `inside` turns from true to false, found from a coarse one."""
    low, high = 1e-2, 1e2
    for _ in range(12):
        try:
            coarse = plan(components, _coarse(low, high))
        except OverflowError:
            high = math.sqrt(low * high)
            if high < 4 * low:
                raise Declined("the tilt is out of reach") from None
            continue
        flags = inside(coarse)
        if flags[-1]:
            low, high = high / 4, high * 100
        elif not flags[0]:
            low, high = low / 100, low * 4
        else:
            k = int(np.argmin(flags))
            centre = float(coarse.c[k])
            try:
                return plan(components, centre * _AROUND)
            except OverflowError:
                return plan(components, centre * _NEAR)
    raise Declined("no saddle point in reach")


def _spread(loss: Array, weight: Array, t: float) -> float:
    """A bound on |sum_j w_j exp(i s l_j)| for every s in [t, 2t].

    1 - |psi(s)|^2 = E[1 - cos(s (L - L'))] is at least 2 s^2 / pi^2 times E[(L - L')^2] over pairs closer than pi / (2t): those in the same
    or in neighbouring bins of width pi / (4t).
    """
    if (loss.max() - loss.min()) * t > 1e12:  # every loss in a bin of its own
        return 1.0
    bins = np.floor((loss - loss.min()) * (4 * t / math.pi)).astype(np.int64)
    labels, bins = np.unique(bins, return_inverse=True)
    mass = np.bincount(bins, weight)
    mean = np.bincount(bins, weight * loss) / np.maximum(mass, 1e-300)
    square = np.bincount(bins, weight * (loss - mean[bins]) ** 2)
    near = np.diff(labels) == 1
    pairs = 2 * float(np.dot(mass, square))
    cross = mass[1:] * square[:-1] + mass[:-1] * square[1:] + mass[1:] * mass[:-1] * np.diff(mean) ** 2
    pairs += 2 * float(cross[near].sum())
    return math.sqrt(max(0.0, 1 - 2 * t * t / math.pi**2 * pairs))


def tail(pair: Pair, c: float, t: float) -> float:
    """A bound on the tilted characteristic function that holds for every frequency >= t."""
    bound = pair.decay(c, t)
    if isinstance(pair, MixturePair | Part) or bound < 0.25:
        return bound
    nodes = pair.nodes(c, 0.0)
    if nodes is None or pair.decay(c, 1e12 * t) == 1.0:
        return bound
    worst = 0.0
    for _ in range(40):  # in doubling bands, until the monotone bound alone is below what the bands have given
        worst = max(worst, min(pair.decay(c, t), _spread(nodes.loss, nodes.weight, t) + 1e-12))
        t *= 2
        far = pair.decay(c, t)
        if far <= worst or worst == 1.0:
            return worst
    return max(worst, far)


@dataclass(frozen=True, slots=True)
class Jumps:
    """Bounds on P(L > x) by the largest single loss: where a heavy tail makes Chernoff's bound weak.

    Either some step's loss exceeds a, which a union bound caps, or none does, and Chernoff's bound holds for the truncated losses
    with a far larger tilt.
    """

    x: Array
    log_tail: Array

    def series(self, c: float, level: Array, tilts: Array, epsilon: float, period: float) -> float:
        """sum over m >= 1 of exp(c m W) P(L > eps + m W): eight terms from the table, the rest by Chernoff's bound."""
        m = np.arange(1, 9)
        place = np.searchsorted(self.x, epsilon + m * period, side="right") - 1
        if place[0] < 0 or not len(tilts):
            return math.inf
        near = float(np.exp(np.minimum(c * m * period + self.log_tail[place], 700.0)).sum())
        return near + geometric(level - tilts * epsilon - 9 * (tilts - c) * period, (tilts - c) * period)


def binned(pair: Pair, reach: float) -> tuple[Array, Array]:
    """Losses up to `reach`, with masses that bound every moment exp(c L) with c >= 0 or c <= -1 from above.

    Bins are fine where the loss is concentrated; each bin's mass goes to its ends so that P and Q both keep theirs, and what lies
    below the first bin is moved up to it. What lies above `reach` is left out.
    """
    low, high = pair.support()
    found = pair.moments(np.zeros(1))
    if found is None:
        raise Declined("a pair has no quadrature")
    _, mean, variance = found
    scale = math.sqrt(float(variance[0])) / 20
    low = max(low, float(mean[0]) - 400 * scale)
    top_loss = max(min(high, reach), low)
    edges = low + scale * np.sinh(np.linspace(0, math.asinh((top_loss - low) / scale), 3000))
    p, q = pair.masses(edges)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        top = np.nan_to_num((p - q * np.exp(edges[:-1])) / -np.expm1(-np.diff(edges)), nan=0.0)
    top = np.clip(top, 0.0, p)
    loss, mass = pair.atoms()
    inside = loss <= top_loss
    below = pair.masses(np.array([-np.inf, edges[0]]))[0]
    return np.concatenate([edges[:-1], edges[1:], [edges[0]], loss[inside]]), np.concatenate([p - top, top, below, mass[inside]])


def find_jumps(components: Components, reach: float) -> Jumps:
    """Tabulate the tail on losses up to `reach`."""
    x = np.geomspace(reach * 1e-4, reach, 60)
    laws = [(*binned(pair, reach), count) for pair, count in components]
    log_tail = np.full(len(x), 0.0)
    for i, point in enumerate(x):
        for share in (1.02, 1.5, 2.0, 3.0):
            a = point / share
            c = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]) / a
            union, level = 0.0, np.zeros(len(c))
            for place, mass, count in laws:
                inside = place < a
                union += count * float(mass[~inside].sum() + max(0.0, 1 - float(mass.sum())))
                level += count * np.log(np.maximum(np.exp(np.minimum(c[:, None] * place[inside], 700.0)) @ mass[inside], 1e-300))
            rest = float(np.min(inflated(level) - c * point))
            log_tail[i] = min(log_tail[i], float(np.logaddexp(math.log(max(union, 1e-300)), rest)))
    return Jumps(x, np.minimum.accumulate(log_tail))


def geometric(log_first: Array, log_ratio: Array) -> float:
    """The smallest of several geometric series, given the logs of first term and of one over the ratio."""
    if not len(log_first):
        return math.inf
    return float(np.min(np.exp(np.minimum(log_first, 700.0)) / -np.expm1(-log_ratio)))


__all__ = ["METHOD", "Declined", "Line", "Plan", "cumulant", "delta", "epsilon", "lay_out", "plan", "search"]

METHOD = "privacy-loss distribution (contour integral)"
_UNIT = 2.0**-53
_FEW = 100_000  # copies of a pair up to which a few roundings of its characteristic function are nothing
_WORK = 12_000_000  # frequencies times quadrature nodes that one line may take
_GOAL = 1e-13  # each certified error, relative to delta, that the line is laid out for
_CANCEL = 1e4  # the known copies may exceed delta by this factor before they are subtracted


class Curve(Protocol):
    """A privacy curve near one epsilon."""

    @property
    def c(self) -> float:
        """About minus the slope of log delta."""
        ...

    def delta(self, epsilon: float) -> tuple[float, float, float, float]:
        """Delta, its slope in epsilon, and its errors below and above."""
        ...


@dataclass(frozen=True)
class Line:
    """The integrand on one vertical line, ready to be evaluated at any epsilon near the one it was laid out for."""

    c: float
    step: float
    exponent: NDArray[np.complex128]  # K(z) - K(c) at the nodes
    z: NDArray[np.complex128]
    level: float  # K(c)
    node_error: Array  # absolute error of exp(K(z) - K(c)) at each node
    level_error: float
    truncation: float  # bound on the part of the integral beyond the last node, over exp(K(c) - c eps)
    log_p: float  # K(0): the log of P's finite mass
    log_q: float  # K(-1): the log of Q's mass where P has any
    bottom: float  # the smallest and the largest finite loss
    top: float
    right: tuple[Array, Array]  # tilts c' > c, and upper bounds on K(c')
    jumps: Jumps | None  # a sharper bound on the right tail, where it was needed
    left: tuple[Array, Array]  # tilts s, and upper bounds on K(-s)
    flat: bool  # the copies to the left are taken as 1, with 0 <= s <= 1; otherwise as 1 - E[exp(-x-L)], with s >= 1

    @cached_property
    def _fixed(self) -> tuple[Complex, Array, Complex, Complex, Array, Array, Array]:
        """What every epsilon needs of the nodes: i t and |t|, z + 1, the kernel, the rule's weights, and |Im| and |Re| of the exponent."""
        after = self.z + 1.0
        weights: Array = np.full(len(self.z), self.step / math.pi)
        weights[0] *= 0.5
        t = self.z.imag
        turn: Complex = np.asarray(1j * t, dtype=np.complex128)
        return turn, np.abs(t), after, 1.0 / (self.z * after), weights, 2 + np.abs(self.exponent.imag), np.abs(self.exponent.real)

    def delta(self, epsilon: float) -> tuple[float, float, float, float]:
        """The integral, its slope in epsilon, and its errors below and above: truth in [value - below, value + above]."""
        turn, t, after, kernel, weights, sideways, along = self._fixed
        scale = math.exp(min(self.level - self.c * epsilon, 700.0))
        phase = np.exp(self.exponent - turn * epsilon)
        value = scale * float(np.dot(weights, (phase * kernel).real))
        slope = -scale * float(np.dot(weights, (phase / after).real))
        size = np.abs(kernel) * weights
        # rounding of the phase: Im(exponent) and t * eps are large numbers that cancel
        rounding = 4 * _UNIT * (sideways + t * abs(epsilon) + along)
        error = scale * (float(np.dot(size, self.node_error + np.abs(phase) * rounding)) + self.truncation)
        error += abs(value) * (self.level_error + 4 * _UNIT * (abs(self.level) + abs(self.c * epsilon)))
        # the copies m < 0, as far as they are known exactly
        period = 2 * math.pi / self.step
        first = math.exp(self.log_p - self.c * period) / -math.expm1(-self.c * period)
        second = 0.0
        if not self.flat:
            second = math.exp(self.log_q + epsilon - (self.c + 1) * period) / -math.expm1(-(self.c + 1) * period)
        value -= first - second
        slope += second
        error += (first + second) * 8 * _UNIT * (1 + self.c * period) + second * self.level_error
        right, left = self.aliasing(epsilon)
        return value, slope, error + right + (0.0 if self.flat else left), error + (left if self.flat else 0.0)

    def aliasing(self, epsilon: float) -> tuple[float, float]:
        """What the unknown parts of the copies to the right add to the sum, and those to the left add to it or, if `flat`, take from it."""
        period = 2 * math.pi / self.step
        right = left = 0.0
        if epsilon + period < self.top:
            # sum over m >= 1 of exp(c m W) * exp(K(c') - c' (eps + m W)) for the best c' > c: a geometric series
            c, level = self.right
            above = geometric(level - c * epsilon - (c - self.c) * period, (c - self.c) * period)
            if self.jumps is not None:
                above = min(above, self.jumps.series(self.c, level, c, epsilon, period))
            right = above
        if epsilon - period > self.bottom:
            # sum over m >= 1 of exp(-c m W) * exp(K(-s) - s (m W - eps)) for the best s >= 1, or s <= 1 if flat
            s, level = self.left
            left = geometric(level + s * epsilon - (s + self.c) * period, (s + self.c) * period)
        return right, left


def _infinite(components: Components) -> float:
    return -math.expm1(sum(count * math.log1p(-pair.infinite) if pair.infinite < 1 else -math.inf for pair, count in components))


def _log_psi(pair: Pair, c: float, t: Array, count: int) -> tuple[NDArray[np.complex128], Array, float, float]:
    """log of the tilted characteristic function on the line, the error of the function, and kappa(c) with its error."""
    if isinstance(pair, MixturePair) and len(pair.up) == len(pair.down) == 1:
        mu2 = (pair.up[0][0] + pair.down[0][0]) ** 2
        exponent = -0.5 * mu2 * t * t + 1j * t * mu2 * (c + 0.5)
        return exponent, np.zeros(len(t)), 0.5 * c * (c + 1) * mu2, 4 * _UNIT * c * (c + 1) * mu2
    nodes = pair.nodes(c, float(t[-1]))
    if nodes is None:
        raise Declined("no quadrature")
    if len(t) * len(nodes.loss) > _WORK:
        raise Declined("too much work")
    spread = float(np.dot(nodes.weight, np.abs(nodes.loss - float(np.dot(nodes.weight, nodes.loss)))))
    if len(t) * len(nodes.loss) > 100_000 and count <= (20 * _FEW if isinstance(pair, Part) else _FEW):
        size = _products(nodes.loss, nodes.weight, t)
        error = nodes.error + 16 * _UNIT + t * (nodes.slope + 16 * _UNIT * spread)
        return size, error, nodes.log_mgf, nodes.log_error
    if len(t) * len(nodes.loss) > 1_000_000:
        parts = [_characteristic(nodes.loss, nodes.weight, piece) for piece in np.array_split(t, len(t) * len(nodes.loss) // 500_000 + 1)]
        exponent = np.concatenate(parts)
    else:
        exponent = _characteristic(nodes.loss, nodes.weight, t)
    # sums of sines and cosines: relative to their terms, which are at most t |l - mean|
    error = nodes.error + t * (nodes.slope + 16 * _UNIT * spread)
    return exponent, error, nodes.log_mgf, nodes.log_error


def _products(loss: Array, weight: Array, t: Array) -> NDArray[np.complex128]:
    """The same where an absolute error of a few roundings will do: t = step (a B + b), so all exponentials are products of two."""
    mean = float(np.dot(weight, loss))
    block = max(1, math.isqrt(len(t)))
    turn = 1j * (t[1] - t[0]) * (loss - mean)
    fine = np.exp(turn[:, None] * np.arange(block)) * weight[:, None]
    coarse = np.exp(turn[None, :] * (block * np.arange(-(-len(t) // block)))[:, None])
    value = (coarse @ fine).ravel()[: len(t)]
    return np.asarray(np.log(np.maximum(np.abs(value), 1e-300)) + 1j * (np.angle(value) + t * mean))


def _characteristic(loss: Array, weight: Array, t: Array) -> NDArray[np.complex128]:
    """log sum_j w_j exp(i t l_j), centred so that small exponents keep their relative accuracy."""
    mean = float(np.dot(weight, loss))
    half = 0.5 * t[:, None] * (loss - mean)[None, :]
    sine, cosine = np.sin(half), np.cos(half, out=half)
    cosine *= sine
    sine *= sine
    x, y = -2.0 * (sine @ weight), 2.0 * (cosine @ weight)
    # near 1 the logarithm of the modulus needs its small parts; near 0 those would cancel
    near = x > -0.5
    log_size = np.where(near, 0.5 * np.log1p(np.where(near, 2 * x + x * x + y * y, 0.0)), np.log(np.maximum(np.hypot(1 + x, y), 1e-300)))
    return np.asarray(log_size + 1j * (np.arctan2(y, 1 + x) + t * mean))


def lay_out(
    components: Components, table: Plan, epsilon: float, log_delta: float, *, ways: float = 0.0, most: float = math.inf, goal: float = _GOAL
) -> Line:
    """The cheapest line whose certified errors are about `goal` of delta, or `Declined`.

    Every figure is multiplied by exp(`ways`), which `table` contains already. No line of more than `most` frequencies is laid.
    """
    goal = log_delta + math.log(goal)
    height = table.level - table.c * epsilon
    saddle = int(np.argmin(height - np.log(table.c) - np.log1p(table.c)))
    bottom = sum(count * pair.support()[0] for pair, count in components)
    top = sum(count * pair.support()[1] for pair, count in components)
    log_p = ways + cumulant(components, 0.0)
    spread = math.sqrt(float(table.variance[0]))
    # Where losses spread over many units, exp(-L) is too steep a tilt for their left tail, and 1 is known well enough.
    flat = spread > 8.0
    slopes = np.array([0.25, 1.0, 3.0, 9.0]) / spread
    # a heavy left tail admits only gentle tilts
    if not flat and slopes[0] > 1.0:
        slopes = np.append(slopes, np.geomspace(1.0, slopes[0], 4))
    slopes = np.unique(np.minimum(1.0, slopes) if flat else np.maximum(1.0, np.append(slopes, 1.0)))
    while True:
        try:
            left = inflated(plan(components, -slopes).level) + ways
            break
        except OverflowError:
            slopes = np.unique(slopes / 4 if flat else np.maximum(1.0, slopes / 4))
            if slopes[-1] <= 1.0:
                raise Declined("the left tail is out of reach") from None
    choices = []
    rise, lead = height - goal, left + slopes * epsilon - goal
    rises, tilts, variances = rise.tolist(), table.c.tolist(), table.variance.tolist()
    known = math.log1p(math.exp(min(log_p - log_delta, 690.0)) / _CANCEL)
    for i in range(saddle + 1):
        if height[i] - height[saddle] > 2.0 and i < saddle:
            continue
        c = tilts[i]
        right = rise[i + 1 :] / (table.c[i + 1 :] - c)
        above = min(float(right.min()) if len(right) else math.inf, max(top - epsilon, 0.0))
        below = min(float((lead / (slopes + c)).min()), max(epsilon - bottom, 0.0))
        reach = math.sqrt(2 * max(rises[i], 1.0) / variances[i])
        choices.append((c, above, max(below, known / c), reach))
    jumps = None
    best = min((1.02 * max(above, least) * reach, c, 1.02 * max(above, least), reach) for c, above, least, reach in choices)
    if best[0] > 2 * math.pi * most:
        raise Declined("a shorter line may do")
    if best[0] > 2 * math.pi * 300 and math.isfinite(best[2]) and top == math.inf:
        # a long line because the right tail is heavy: look for a shorter period with a sharper bound on that tail
        jumps = find_jumps(components, epsilon + 10 * best[2])
        for c, above, least, reach in choices[:: max(1, len(choices) // 8)]:
            beyond = table.c > c
            for period in np.geomspace(least, max(above, least), 24):
                if jumps.series(c, inflated(table.level[beyond]), table.c[beyond], epsilon, float(period)) <= math.exp(goal):
                    best = min(best, (1.02 * float(period) * reach, c, 1.02 * float(period), reach))
                    break
    _, c, period, reach = best
    if not math.isfinite(best[0]):
        raise Declined("the curve's tail cannot be bounded on this line")
    step = 2 * math.pi / period
    log_scale = float(np.interp(c, table.c, height))

    def log_tail(t: float) -> float:
        return log_scale + sum(count * math.log(max(tail(pair, c, t), 1e-300)) for pair, count in components) - math.log(math.pi * t)

    reach = max(reach, step)
    if log_tail(max(reach, step * min(_WORK / 20, 4 * most))) > goal:  # atoms, or too few steps: give up before any work is done
        raise Declined("the characteristic function does not decay in reach")
    while log_tail(reach) > goal:
        reach *= 1.3
        if reach / step > _WORK / 20:
            break
    if reach / step > _WORK / 20:
        raise Declined("the line would be too long")
    t: Array = step * np.arange(int(reach / step) + 2, dtype=np.float64)
    exponent = np.zeros(len(t), dtype=np.complex128)
    growth = np.zeros(len(t))
    level, level_error = ways, 2 * _UNIT * abs(ways)
    for pair, count in components:
        log_psi, error, kappa, kappa_error = _log_psi(pair, c, t, count)
        exponent += count * log_psi
        size = np.exp(log_psi.real)
        growth += count * np.log1p(error / np.maximum(size, 1e-300))
        level += count * kappa
        level_error += count * kappa_error
    node_error = np.exp(exponent.real) * np.expm1(np.minimum(growth, 600.0))
    # Beyond the last node, in doubling bands: decay at the start of a band bounds the whole of it.
    truncation, start = 0.0, float(t[-1])
    for _ in range(60):
        bound = math.exp(log_tail(start) - log_scale)
        truncation += bound
        if bound < 1e-30:
            break
        start *= 2
    beyond = table.c > c
    log_q = ways + cumulant(components, -1.0)
    far = (table.c[beyond], inflated(table.level[beyond]))
    z = np.asarray(c + 1j * t, dtype=np.complex128)
    return Line(
        c, step, exponent, z, level, node_error, level_error, truncation, log_p, log_q, bottom, top, far, jumps, (slopes, left), flat
    )


def delta(components: Components, epsilon: float, *, most: float = math.inf) -> Bound:
    """The bracket on delta at epsilon >= 0, for one direction, by a line of at most `most` frequencies.

    >>> from tacit.accounting.pairs.mixture import gaussian
    >>> found = delta([(gaussian(1.0), 1)], 1.0)
    >>> round(found.upper, 11), found.width < 1e-12
    (0.12693673751, True)
    """
    infinite = _infinite(components)
    if infinite == 1:
        return Bound(1.0, 1.0, METHOD)
    table = search(components, lambda p: p.epsilon < epsilon)
    log_delta = float(np.interp(epsilon, table.epsilon, table.log_delta))
    value, _, below, above = lay_out(components, table, epsilon, log_delta, most=most).delta(epsilon)
    return Bound(min(1.0, max(0.0, infinite + value - below)), min(1.0, max(0.0, infinite + value + above)), METHOD)


def epsilon(components: Components, delta: float, *, most: float = math.inf) -> Bound:
    """The bracket on the smallest epsilon >= 0 at a given delta in (0, 1), for one direction, on lines of at most `most` nodes.

    >>> from tacit.accounting.pairs.mixture import poisson_gaussian
    >>> found = epsilon([(poisson_gaussian(0.01, 1.0), 1000)], 1e-5)
    >>> found.lower <= 1.8282366665165769 <= found.upper and found.width < 1e-9
    True
    """
    target = delta - _infinite(components)
    if target <= 0:
        return Bound(math.inf, math.inf, METHOD)
    log_target = math.log(target)
    table = search(components, lambda p: p.log_delta > log_target)
    guess = max(float(np.interp(-log_target, -table.log_delta, table.epsilon)), 0.0)
    for _ in range(6):
        line = lay_out(components, table, guess, log_target, most=most)
        value, _, _, above = line.delta(0.0)
        if value + above <= target:
            return Bound(0.0, 0.0, METHOD)
        root = newton(line, guess, target)
        _, _, below, above = line.delta(root)
        if below + above <= 1e-9 * target or abs(root - guess) * line.c < 0.1:
            break
        guess = root
    return bracket_root(line, root, target)


def newton(line: Curve, guess: float, target: float) -> float:
    """Newton on the log of delta, kept inside a bracket that every evaluation tightens."""
    low, high, x = 0.0, math.inf, guess
    for _ in range(80):
        value, slope, _, _ = line.delta(x)
        if value > target:
            low = max(low, x)
        else:
            high = min(high, x)
        if high <= 0:
            return 0.0
        move = (math.log(value) - math.log(target)) * value / -slope if value > 0 > slope else math.nan
        if abs(move) <= 1e-14 * x:
            return x
        x_next = x + move
        if not low <= x_next <= high:
            x_next = 0.5 * (low + high) if math.isfinite(high) else 2 * low + 1 / line.c
        if math.isfinite(high) and high - low <= 1e-15 * high:
            return x_next
        x = x_next
    return x


def bracket_root(line: Curve, root: float, target: float) -> Bound:
    """Step outwards until the certified ends are on the right sides."""
    _, slope, below, above = line.delta(root)
    if slope >= 0:
        raise Declined("the curve is flat to working precision")
    pad = 2 * _UNIT * abs(root)
    high, low = root + above / -slope + pad, max(0.0, root - below / -slope - pad)
    for _ in range(60):
        v, _, _, a = line.delta(high)
        if v + a <= target:
            break
        high += (high - root) + pad + 1e-300
    else:
        raise Declined("no certified upper end")
    for _ in range(60):
        if low <= 0:
            low = 0.0
            break
        v, _, b, _ = line.delta(low)
        if v - b >= target:
            break
        low -= (root - low) + pad + 1e-300
    return Bound(max(low, 0.0), high, METHOD)
