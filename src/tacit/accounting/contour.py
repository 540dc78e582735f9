"""Composition by a contour integral: delta(eps) to 12 digits from a few dozen nodes, whatever the number of steps.

For a composed privacy loss L with cumulant K(z) = log E[exp(z L)] and any c > 0,

    delta(eps) = (1 / 2 pi i) * integral over Re z = c of exp(K(z) - z eps) / (z (z + 1)) dz.

The trapezoidal rule with step h sums the same function on shifted arguments: it equals the sum over all integers m of
exp(c m W) delta(eps + m W), W = 2 pi / h (Poisson summation). Every term is positive, the term m = 0 is the truth, and Chernoff's bound caps the
others, so the aliasing error is one-sided and certified. Truncation is certified by `Pair.decay`, which bounds the integrand on the whole tail;
the quadrature of each cumulant and floating point come from `Nodes`. The line passes through the saddle point, so the relative
accuracy is the same at delta = 1e-20 as at 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bound import Bound
from tacit.accounting.mixture import MixturePair
from tacit.accounting.pairs import Array, Pair

METHOD = "privacy-loss distribution (contour integral)"
_UNIT = 2.0**-53
_WORK = 4_000_000  # frequencies times quadrature nodes that one line may take
_GOAL = 1e-13  # each certified error, relative to delta, that the line is laid out for

Components = Sequence[tuple[Pair, int]]


class Declined(Exception):
    """The contour would be too long or its tail cannot be bounded; the caller uses a grid instead."""


def cumulant(components: Components, c: float) -> float:
    """K(c), the sum of the steps' cumulants: the Rényi divergence of order c + 1, times c.

    >>> from tacit.accounting.mixture import gaussian
    >>> cumulant([(gaussian(1.0), 3)], 2.0)
    9.0
    """
    return sum(count * pair.kappa(c) for pair, count in components)


def descend(objective: Callable[[float], float], start: float, *, precision: float = 0.03) -> float:
    """A point near the minimum of a function of one positive number that falls and then rises; precise to a few percent."""
    ratio, x = 2.0, start
    best = objective(x)
    for direction in (ratio, 1 / ratio):
        while 1e-9 < x < 1e9:
            value = objective(x * direction)
            if not value < best:
                break
            x, best = x * direction, value
    left, right = x / ratio, x * ratio
    golden = (math.sqrt(5) - 1) / 2
    low, high = math.log(left), math.log(right)
    a, b = high - golden * (high - low), low + golden * (high - low)
    fa, fb = objective(math.exp(a)), objective(math.exp(b))
    while high - low > precision:
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - golden * (high - low)
            fa = objective(math.exp(a))
        else:
            low, a, fa = a, b, fb
            b = low + golden * (high - low)
            fb = objective(math.exp(b))
    return math.exp(a if fa < fb else b)


@dataclass(frozen=True, slots=True)
class Line:
    """The integrand on one vertical line, ready to be evaluated at any epsilon near the one it was laid out for."""

    components: Components
    c: float
    step: float
    exponent: NDArray[np.complex128]  # K(z) - K(c) at the nodes
    z: NDArray[np.complex128]
    level: float  # K(c)
    node_error: Array  # absolute error of exp(K(z) - K(c)) at each node
    level_error: float
    truncation: float  # bound on the part of the integral beyond the last node, over exp(K(c) - c eps)
    infinite: float

    def delta(self, epsilon: float) -> tuple[float, float, float, float]:
        """The trapezoidal sum, its slope in epsilon, and its errors below and above: truth in [value - below, value + above]."""
        scale = math.exp(self.level - self.c * epsilon)
        phase = np.exp(self.exponent - 1j * self.z.imag * epsilon)
        weights = np.full(len(self.z), self.step / math.pi)
        weights[0] *= 0.5
        kernel = 1.0 / (self.z * (self.z + 1.0))
        value = scale * float(np.dot(weights, (phase * kernel).real))
        slope = -scale * float(np.dot(weights, (phase / (self.z + 1.0)).real))
        size = np.abs(kernel) * weights
        # rounding of the phase: Im(exponent) and t * eps are large numbers that cancel
        rounding = 4 * _UNIT * (2 + np.abs(self.exponent.imag) + np.abs(self.z.imag * epsilon) + np.abs(self.exponent.real))
        error = float(np.dot(size, self.node_error + np.abs(phase) * rounding)) + self.truncation
        error = scale * error + abs(value) * (self.level_error + 4 * _UNIT * (abs(self.level) + abs(self.c * epsilon)))
        return value, slope, error + self.aliasing(epsilon, scale), error

    def aliasing(self, epsilon: float, scale: float) -> float:
        """What the shifted copies of the curve add to the sum, at most."""
        period = 2 * math.pi / self.step
        below = math.exp(-self.c * period) / -math.expm1(-self.c * period)
        top = sum(count * pair.support()[1] for pair, count in self.components)
        if epsilon + period >= top:
            return below
        above = math.inf
        for factor in (1.2, 1.5, 2.0, 3.0, 5.0, 9.0):
            c = self.c * factor
            level = cumulant(self.components, c)
            # sum over m >= 1 of exp(c0 m W) * exp(K(c) - c (eps + m W)), a geometric series
            log_first = level - c * epsilon - (c - self.c) * period
            if log_first < 700:
                above = min(above, math.exp(log_first) / -math.expm1(-(c - self.c) * period))
            if above < 1e-3 * _GOAL * scale:
                break
        return below + above


def _infinite(components: Components) -> float:
    return -math.expm1(sum(count * math.log1p(-pair.infinite) if pair.infinite < 1 else -math.inf for pair, count in components))


def _log_psi(pair: Pair, c: float, t: Array) -> tuple[NDArray[np.complex128], Array, float, float]:
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
    mean = float(np.dot(nodes.weight, nodes.loss))
    half = 0.5 * t[:, None] * (nodes.loss - mean)[None, :]
    sine, cosine = np.sin(half), np.cos(half)
    x = -2.0 * (sine * sine) @ nodes.weight
    y = 2.0 * (sine * cosine) @ nodes.weight
    exponent = 0.5 * np.log1p(np.maximum(2 * x + x * x + y * y, -1 + 1e-300)) + 1j * (np.arctan2(y, 1 + x) + t * mean)
    return exponent, np.full(len(t), nodes.error + 4 * _UNIT), nodes.log_mgf, nodes.log_error


def lay_out(components: Components, c: float, epsilon: float, log_delta: float) -> Line:
    """A line through c whose certified errors are about 1e-13 of delta, or `Declined`."""
    goal = log_delta + math.log(_GOAL)
    level = cumulant(components, c)
    log_scale = level - c * epsilon
    period = -goal / c
    top = sum(count * pair.support()[1] for pair, count in components)
    if math.isfinite(top):
        best = max(top - epsilon, 0.0)
    else:
        best = min((cumulant(components, c * f) - c * f * epsilon - goal) / (c * (f - 1)) for f in (1.2, 1.5, 2.0, 3.0, 5.0))
    period = 1.02 * max(period, best)
    step = 2 * math.pi / period

    def log_tail(t: float) -> float:
        return log_scale + sum(count * math.log(max(pair.decay(c, t), 1e-300)) for pair, count in components) - math.log(math.pi * t)

    reach = step
    while log_tail(reach) > goal:
        reach *= 1.25
        if reach / step > _WORK / 20:
            raise Declined("the characteristic function does not decay")
    t = step * np.arange(int(reach / step) + 2)
    exponent = np.zeros(len(t), dtype=np.complex128)
    growth = np.zeros(len(t))
    level, level_error = 0.0, 0.0
    for pair, count in components:
        log_psi, error, kappa, kappa_error = _log_psi(pair, c, t)
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
    return Line(components, c, step, exponent, c + 1j * t, level, node_error, level_error, truncation, _infinite(components))


def delta(components: Components, epsilon: float) -> Bound:
    """The bracket on delta at epsilon >= 0, for one direction.

    >>> from tacit.accounting.mixture import gaussian
    >>> found = delta([(gaussian(1.0), 1)], 1.0)
    >>> found.lower <= 0.126936737507 <= found.upper and found.width < 1e-12
    True
    """
    infinite = _infinite(components)
    if infinite == 1:
        return Bound(1.0, 1.0, METHOD)
    c = _saddle(components, epsilon)
    log_delta = cumulant(components, c) - c * epsilon - math.log(c) - math.log1p(c) - math.log1p(c * math.sqrt(_variance(components, c)))
    line = lay_out(components, c, epsilon, log_delta)
    value, _, below, above = line.delta(epsilon)
    return Bound(min(1.0, max(0.0, infinite + value - below)), min(1.0, max(0.0, infinite + value + above)), METHOD)


def _variance(components: Components, c: float) -> float:
    width = 1e-2 * c
    return max(
        0.0, (cumulant(components, c + width) - 2 * cumulant(components, c) + cumulant(components, c - width)) / (width * width)
    )


def _saddle(components: Components, epsilon: float) -> float:
    return descend(lambda c: cumulant(components, c) - c * epsilon - math.log(c) - math.log1p(c), 1.0)


def epsilon(components: Components, delta: float) -> Bound:
    """The bracket on the smallest epsilon >= 0 at a given delta in (0, 1), for one direction.

    >>> from tacit.accounting.mixture import poisson_gaussian
    >>> found = epsilon([(poisson_gaussian(0.01, 1.0), 1000)], 1e-5)
    >>> found.lower <= 1.8282366665165769 <= found.upper and found.width < 1e-9
    True
    """
    target = delta - _infinite(components)
    if target <= 0:
        return Bound(math.inf, math.inf, METHOD)

    def renyi(c: float) -> float:
        return (cumulant(components, c) - math.log(target) - math.log1p(c)) / c - math.log1p(1 / c)

    c = descend(renyi, 1.0)
    guess = max(renyi(c), 0.0)
    for _ in range(8):
        line = lay_out(components, c, guess, math.log(target))
        root = _newton(line, guess, target)
        if root <= 0:
            value, _, below, above = line.delta(0.0)
            if value + above <= target:
                return Bound(0.0, 0.0, METHOD)
            root = 0.0
        value, slope, below, above = line.delta(root)
        if below + above <= 1e-9 * target or abs(root - guess) * c < 0.5:
            break
        guess, c = root, _saddle(components, max(root, 0.0))
    return _bracket_root(line, root, target)


def _newton(line: Line, guess: float, target: float) -> float:
    """Newton on the log of delta, which is concave and nearly straight in epsilon."""
    x = guess
    for _ in range(60):
        value, slope, below, _ = line.delta(x)
        if value <= 0 or slope >= 0:
            x -= 1.0 / line.c
            continue
        move = (math.log(value) - math.log(target)) * value / -slope
        move = max(min(move, 8 / line.c), -8 / line.c)
        x += move
        if x < 0:
            return 0.0 if line.delta(0.0)[0] <= target else max(x, 0.0)
        if abs(move) <= 1e-15 * (1 + abs(x)):
            break
    return x


def _bracket_root(line: Line, root: float, target: float) -> Bound:
    """Step outwards until the certified ends are on the right sides."""
    value, slope, below, above = line.delta(root)
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
