"""Gaussian pairs and their mixtures: the Gaussian mechanism, Poisson sampling of it, groups, and replacement under sampling.

P is a mixture of unit Gaussians centred at shifts >= 0 and Q one at shifts <= 0, so the loss grows with the output u. The
cumulant integral of exp(z L) is analytic in a strip around the real line, where the trapezoidal rule converges
exponentially (Trefethen and Weideman 2014, Theorem 5.1); the strip also bounds the characteristic function at every frequency.

>>> round(poisson_gaussian(0.01, 1.0).kappa(1.0), 13)  # log of 1 + q^2 (e - 1), the second-order moment
0.0001718134221
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache

import numpy as np

from tacit.accounting.pairs.pair import Array, Nodes, Pair, cumulant
from tacit.accounting.special import ndtr

_UNIT = 4 * 2.0**-53  # four roundings for each that is counted: pairwise sums, library functions and weights each add theirs
_CUT = 13.0  # standard deviations kept beyond the outermost centre: exp(-13^2/2) = 2e-37
_MAX_NODES = 200_000
_FEW = 8  # components up to which plain floats are faster than arrays
_LINES = np.linspace(0.05, 1.0, 24)  # shares of the widest strip that are tried
_HALVES = 0.5 ** np.arange(18.0)[:, None]  # shares of the highest bend that are tried


def log_mixture(log_weights: Array, shifts: Array, u: Array) -> Array:
    """log sum_k w_k exp(m_k u - m_k^2/2), with small relative error where it is near zero."""
    if len(shifts) == 1 and shifts[0] == 0 == log_weights[0]:
        return np.zeros(len(u))
    if len(shifts) == 2 and shifts[0] == 0:
        return _log_two(float(log_weights[0]), float(log_weights[1]), float(shifts[1]), u)
    exponent = shifts[:, None] * u[None, :] - 0.5 * shifts[:, None] ** 2
    excess = np.einsum("k,kj->j", np.exp(log_weights), np.expm1(np.minimum(exponent, 30.0)))
    small = np.log1p(np.maximum(excess, -0.6))
    far = (exponent.max(axis=0) >= 30.0) | (excess <= -0.5)
    if far.any():
        terms = exponent[:, far] + log_weights[:, None]
        peak = terms.max(axis=0)
        small[far] = peak + np.log(np.exp(terms - peak).sum(axis=0))
    return np.asarray(small)


def _log_two(log_rest: float, log_weight: float, shift: float, u: Array) -> Array:
    """The same for one component at 0 and one elsewhere, as under Poisson sampling: what stands at 0 has no excess."""
    exponent = shift * u
    exponent -= 0.5 * shift * shift
    excess = np.minimum(exponent, 30.0)
    np.expm1(excess, out=excess)
    excess *= float(np.exp(log_weight))
    far = (exponent >= 30.0) | (excess <= -0.5)
    np.log1p(np.maximum(excess, -0.6, out=excess), out=excess)
    if far.any():
        term = exponent[far] + log_weight
        peak = np.maximum(term, log_rest)
        excess[far] = peak + np.log(np.exp(log_rest - peak) + np.exp(term - peak))
    return excess


@cache
def _gauss(order: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre on [-1, 1]."""
    x, w = np.polynomial.legendre.leggauss(order)
    return x, w


def _bisect(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The smallest point in [low, high], to 1%, from which a decreasing function stays at or below the target."""
    if function(low) <= target:
        return low
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if function(middle) <= target else (middle, high)
    return high


def _pull(log_weights: Array, shifts: Array, u: float) -> float:
    """The mean distance from 0 of the component that output u came from."""
    if len(shifts) == 1:
        return abs(float(shifts[0]))
    if len(shifts) > _FEW:
        exponents = log_weights + shifts * u - 0.5 * shifts * shifts
        size = np.exp(exponents - exponents.max())
        return float(np.dot(size, np.abs(shifts)) / size.sum())
    places = shifts.tolist()
    terms = [weight + shift * u - 0.5 * shift * shift for weight, shift in zip(log_weights.tolist(), places, strict=True)]
    top = max(terms)
    sizes = [math.exp(term - top) for term in terms]
    pull = sum(size * abs(shift) for size, shift in zip(sizes, places, strict=True))
    return float(pull / sum(sizes))


class MixturePair(Pair):
    """P = sum w_k N(+m_k, 1) against Q = sum v_k N(-n_k, 1), with all m_k, n_k >= 0 in units of the noise's standard deviation."""

    def __init__(self, up: Sequence[tuple[float, float]], down: Sequence[tuple[float, float]] = ((0.0, 1.0),)) -> None:
        self.up = tuple((float(m), float(w)) for m, w in up if w > 0)
        self.down = tuple((float(n), float(v)) for n, v in down if v > 0)
        self._m, self._lw = np.array([m for m, _ in self.up]), np.log([w for _, w in self.up])
        self._n, self._lv = np.array([n for n, _ in self.down]), np.log([v for _, v in self.down])
        self.symmetric = self.up == self.down or len(self.up) == len(self.down) == 1
        # Only with components at 0 and one other place does the mixture stay away from 0 up to an angle of pi.
        self._angle = math.pi if len(self.up) <= 2 and len(self.down) == 1 and self.up[0][0] == 0 else math.pi / 2
        #: The range of outputs and the widest step by what they depend on: a few dozen floats.
        self._ranges: dict[float, tuple[float, float]] = {}
        self._strips: dict[tuple[float, float, float], float] = {}

    # Many pairs are made only to be reversed or merged, so their caches are made when they are first used.

    @cached_property
    def _nodes(self) -> Callable[[float, float], Nodes]:
        return lru_cache(maxsize=24)(self._make_nodes)

    @cached_property
    def _panels(self) -> Callable[[float, float], Nodes]:
        return lru_cache(maxsize=16)(self._make_panels)

    @cached_property
    def _tails(self) -> Callable[[float], tuple[Array, Array]]:
        return lru_cache(maxsize=8)(self._make_tails)

    @cached_property
    def _plain(self) -> tuple[bool, bool]:
        """Whether P, and whether Q, is the normal law itself: its logarithm over the normal one is 0."""
        return self.up == ((0.0, 1.0),), self.down == ((0.0, 1.0),)

    @cached_property
    def _farthest(self) -> tuple[float, float]:
        """The largest shift of either side."""
        return max(m for m, _ in self.up), max(n for n, _ in self.down)

    def __repr__(self) -> str:
        return f"MixturePair(up={self.up}, down={self.down})"

    def reverse(self) -> Pair:
        return MixturePair(self.down, self.up)

    @property
    def shifts(self) -> tuple[Array, Array]:
        """How far P's components lie above 0, and Q's below."""
        return self._m, self._n

    @property
    def strip(self) -> float:
        """The angle up to which neither density vanishes off the real line."""
        return self._angle

    def log_up(self, u: Array) -> Array:
        """log of P's density over the normal one."""
        return log_mixture(self._lw, self._m, u)

    def log_down(self, u: Array) -> Array:
        """log of Q's density over the normal one."""
        return log_mixture(self._lv, -self._n, u)

    def loss(self, u: Array) -> Array:
        """The privacy loss at output u."""
        return self.log_up(u) - self.log_down(u)

    def support(self) -> tuple[float, float]:
        return self._support

    @cached_property
    def _support(self) -> tuple[float, float]:
        m, n = self._m, self._n
        low = self._lw[m.argmin()] - self._lv[n.argmin()] if m.min() == 0 and n.max() == 0 else -math.inf
        high = self._lw[m.argmin()] - self._lv[n.argmin()] if n.min() == 0 and m.max() == 0 else math.inf
        return float(low), float(high)

    def rho(self) -> float:
        """Half the square of the largest shift, as though every draw had it."""
        return 0.5 * (max(m for m, _ in self.up) + max(n for n, _ in self.down)) ** 2

    def kappa(self, c: float) -> float:
        if len(self.up) == len(self.down) == 1:
            return 0.5 * c * (c + 1) * (self.up[0][0] + self.down[0][0]) ** 2
        if c in (0, -1):  # P's mass and Q's
            return 0.0
        return cumulant(self._nodes, c)

    def nodes(self, c: float, reach: float) -> Nodes:
        low, high = self.range(c)
        width = high - low
        # the uniform rule must resolve exp(i t L) where L is steepest, though hardly any mass may be there
        return self._nodes(c, reach) if width / self._strip(c, reach, 44.0) < 5000 else self._panels(c, reach)

    def moments(self, c: Array) -> tuple[Array, Array, Array]:
        if len(self.up) == len(self.down) == 1:
            mu2 = (self._m[0] + self._n[0]) ** 2
            return 0.5 * c * (c + 1) * mu2, (c + 0.5) * mu2, np.full(len(c), mu2)
        u, step = self._outputs(float(c.min()), 0.0, 30.0, float(c.max()))
        a, b = log_mixture(self._lw, self._m, u), log_mixture(self._lv, -self._n, u)
        loss = a - b
        weight = c[:, None] * loss
        weight += math.log(step) - 0.5 * math.log(2 * math.pi) - 0.5 * u * u + a
        peak = weight.max(axis=1, keepdims=True)
        weight -= peak
        np.exp(weight, out=weight)
        total = weight.sum(axis=1)
        mean = weight @ loss / total
        second = np.maximum(weight @ (loss * loss) / total - mean * mean, 1e-300)
        return peak[:, 0] + np.log(total), mean, second

    def _outputs(self, c: float, reach: float, digits: float, c_high: float | None = None) -> tuple[Array, float]:
        """Trapezoidal nodes for the tilts from c to c_high, from 13 standard deviations below the lowest centre to 13 above the highest."""
        tilts = [c] if c_high is None else [c, c_high]
        step = min(0.65, *(self._strip(x, reach, digits) for x in tilts))
        ends = [self.range(x) for x in tilts]
        low, high = min(e[0] for e in ends), max(e[1] for e in ends)
        size = int((high - low) / step) + 2
        if size > _MAX_NODES:
            raise OverflowError("too many quadrature nodes")
        return low + step * np.arange(size, dtype=np.float64), step

    def range(self, c: float) -> tuple[float, float]:
        """Outputs beyond which the log of the tilted density falls away at slope 13 or more."""
        found = self._ranges.get(c)
        if found is None:
            if len(self._ranges) > 1000:
                self._ranges.clear()
            found = self._ranges[c] = self._find_range(c)
        return found

    def _find_range(self, c: float) -> tuple[float, float]:
        far, near = self._farthest
        centre = (c + 1) * far + c * near
        low, high = min(centre, 0.0) - _CUT, max(centre, 0.0) + _CUT

        def slope(u: float) -> float:
            return -u + (c + 1) * _pull(self._lw, self._m, u) + c * _pull(self._lv, -self._n, u)

        # Where the loss is bounded the pull of the far component fades, monotonically, and the density ends long before the centre.
        if high > 30 and c > 0 and far == 0 and self._n.min() == 0:
            high = _bisect(slope, -_CUT, _CUT, high)
        if low < -30 and c < -1 and near == 0 and self._m.min() == 0:
            low = -_bisect(lambda u: -slope(-u), -_CUT, _CUT, -low)
        return low, high

    def _strip(self, c: float, reach: float, digits: float) -> float:
        """The widest step whose aliasing error, relative to E exp(c L), is at most exp(-digits) for all frequencies up to reach."""
        found = self._strips.get((c, reach, digits))
        if found is None:
            if len(self._strips) > 1000:
                self._strips.clear()
            found = self._strips[c, reach, digits] = self._find_strip(c, reach, digits)
        return found

    def _find_strip(self, c: float, reach: float, digits: float) -> float:
        m, n = self._farthest
        widest = min(0.98 * self._angle / max(m, n, 1e-300), 12.0)
        d = widest * _LINES
        growth = 0.5 * d * d + reach * (m + n) * d
        if max(c * n, -(c + 1) * m) > 150 and (m == 0 or n == 0):
            growth = growth - 0.5 * d * d + self._swell(c, d)
            return float((2 * math.pi * d / (digits + math.log(4) + growth)).max())
        # A mixture with positive weights is largest on the real line, and at least its value there times the cosine of the angle.
        for power, shift in ((c + 1.0, m), (-c, n)):
            if power < 0 and shift > 0:
                cosine = np.cos(shift * d)
                keep = cosine > 0.05
                d, growth = d[keep], (growth + power * np.log(np.maximum(cosine, 0.05)))[keep]
        return float((2 * math.pi * d / (digits + math.log(4) + growth)).max())

    def _swell(self, c: float, d: Array) -> Array:
        """log of how much larger the integral of |exp(c L)| is on the line u + id than on the real one, from a fine sum."""
        low, high = self.range(c)
        u = np.linspace(low, high, 600)[None, :]

        def polar(log_weights: Array, shifts: Array) -> Array:
            value = np.zeros((len(d), u.shape[1]), dtype=np.complex128)
            terms = log_weights[:, None] + shifts[:, None] * u - 0.5 * shifts[:, None] ** 2
            peak = terms.max(axis=0)
            for term, shift in zip(terms, shifts, strict=True):
                value += np.exp(term - peak) * np.exp(1j * shift * d)[:, None]
            return np.asarray(peak + np.log(np.maximum(np.abs(value), 1e-300)))

        grid = np.concatenate([np.zeros(1), d])
        d = grid
        exponent = 0.5 * (d[:, None] ** 2 - u * u) + (c + 1) * polar(self._lw, self._m) - c * polar(self._lv, -self._n)
        peak = exponent.max(axis=1)
        total = peak + np.log(np.exp(exponent - peak[:, None]).sum(axis=1))
        return np.asarray(total[1:] - total[0] + 0.1)

    def _make_nodes(self, c: float, reach: float) -> Nodes:
        digits = 44.0
        u, step = self._outputs(c, reach, digits)
        return self._weighed(c, u, np.full(len(u), math.log(step)), math.exp(-digits), step)

    def _weighed(self, c: float, u: Array, log_width: Array, truncation: float, step: float) -> Nodes:
        """Nodes at the outputs u with quadrature weights exp(log_width), whose rule is right to a relative `truncation`."""
        a, b = log_mixture(self._lw, self._m, u), log_mixture(self._lv, -self._n, u)
        half = 0.5 * u * u
        normal = -half - 0.5 * math.log(2 * math.pi) + log_width
        tilted, other = (c + 1) * a, c * b
        growth = tilted - other
        magnitude = np.abs(tilted) + np.abs(other)
        log_weight = normal + growth
        peak = float(log_weight.max())
        raw = np.exp(log_weight - peak)
        total = float(raw.sum())
        weight = raw / total
        relative = _UNIT * (4 + 4 * magnitude + half)
        if float(growth.max()) < 30.0:
            base, bend = np.exp(normal), np.expm1(growth)
            excess = float(np.dot(base, bend))
            log_mgf = math.log1p(excess)
            log_error = float(np.dot(base, 4 * _UNIT * np.exp(growth) * magnitude + _UNIT * np.abs(bend) * (4 + half))) / (1 + excess)
        else:
            log_mgf = peak + math.log(total)
            log_error = float(np.dot(weight, relative)) + 4 * _UNIT * abs(log_mgf)
        # Beyond either end the log of the integrand falls at slope 13 or more, so what is cut is at most 1/13 of the last density.
        cut = float(weight[0] + weight[-1]) / (step * _CUT)
        alias = truncation
        loss = a - b
        spread = np.abs(loss - float(np.dot(weight, loss)))
        slope = float(np.dot(weight, relative * spread + 4 * _UNIT * (np.abs(a) + np.abs(b))))
        return Nodes(loss, weight, log_mgf, 2 * alias + 2 * cut, log_error + 2 * alias + 2 * cut, slope)

    def _make_panels(self, c: float, reach: float) -> Nodes:
        """Gauss-Legendre panels, each as wide as the local steepness of the loss allows.

        On the ellipse around a panel the integrand exceeds its size on the real line by at most exp(y^2/2 + t arg) and cosine powers, where
        arg grows with the real part; the error of n points is then (64/15) rho^(-2n) times that (Trefethen 2013, Theorem 19.3).
        """
        base = self._nodes(c, 0.0)
        u, _ = self._outputs(c, 0.0, 44.0)
        spare = 1e-24
        start = float(u[max(0, int(np.searchsorted(np.cumsum(base.weight), spare)) - 1)])
        end = float(u[len(u) - 1 - max(0, int(np.searchsorted(np.cumsum(base.weight[::-1]), spare)) - 1)])
        order, aspect = 32, 2.0
        stretch = math.hypot(1.0, aspect) - 1
        gain = 2 * order * math.asinh(aspect)
        widest = min(0.5, 0.4 / max(float(self._m.max()), float(self._n.max()), 0.1))

        def angle(log_weights: Array, shifts: Array, at: float, y: float) -> float:
            terms = log_weights + shifts * at - 0.5 * shifts * shifts
            size = np.exp(terms - terms.max())
            return abs(math.atan2(float(np.dot(size, np.sin(shifts * y))), float(np.dot(size, np.cos(shifts * y)))))

        centres, halves, log_error = [], [], -math.inf
        at, half = start, widest
        while at < end:
            half = min(2 * half, widest)
            while True:
                y, extra = aspect * half, stretch * half
                turn = angle(self._lw, self._m, at + 2 * half + extra, y) + angle(self._lv, -self._n, at - extra, y)
                cosine = max(0.0, -(c + 1)) * float(self._m.max()) + max(0.0, c) * float(self._n.max())
                growth = 0.5 * y * y + reach * turn + cosine * y * y
                if growth <= 44:
                    break
                half *= min(0.9, 40 / growth)
            centres.append(at + half)
            halves.append(half)
            log_error = max(log_error, growth - gain)
            at += 2 * half
            if len(centres) * order > _MAX_NODES:
                raise OverflowError("too many quadrature nodes")
        x, w = _gauss(order)
        width = np.array(halves)
        outputs = (np.array(centres)[:, None] + width[:, None] * x).ravel()
        log_width = (np.log(width)[:, None] + np.log(w)).ravel()
        # the tilted density is at most about 1 per unit of output; panels and their surroundings add up to its length
        truncation = 64 / 15 * math.exp(log_error) * (end - start + 2) * 4
        found = self._weighed(c, outputs, log_width, truncation, 1.0)
        return replace(found, log_mgf=base.log_mgf, log_error=base.log_error, error=found.error + 4 * spare)

    def bends(self, outputs: Array, most: float = math.inf) -> tuple[Array, Array]:
        """Several bent contours u + i y(u): y and its derivative, all at most `most` high."""
        m, n = self._farthest
        widest = min(0.9 * min(self._angle, math.pi / 2 if n > 0 else math.pi) / max(m, n), most)
        # The bend that gives the exact Gaussian decay at low frequencies solves an Ornstein-Uhlenbeck equation driven by L'.
        bend, slope = np.zeros(len(outputs)), np.zeros(len(outputs))
        x, w = _gauss(24)
        for shifts, log_weights, sign in ((self._m, self._lw, 1.0), (self._n, self._lv, -1.0)):
            for shift, log_weight in zip(shifts.tolist(), log_weights.tolist(), strict=True):
                if shift == 0:
                    continue
                theta = 0.5 * shift * (x + 1)[:, None]
                terms = np.exp(np.minimum(log_weight + sign * theta * outputs - 0.5 * theta * theta, 300.0)) * (0.5 * shift * w)[:, None]
                bend += terms.sum(axis=0)
                slope += sign * (theta * terms).sum(axis=0)
        scale = widest * _HALVES[:16] / float(np.interp(0.0, outputs, bend))
        curved = widest * np.tanh(scale * bend / widest)
        level = np.broadcast_to(widest * _HALVES, (18, len(outputs)))
        dy = np.concatenate([(1 - (curved / widest) ** 2) * scale * slope, np.zeros(level.shape)])
        return np.concatenate([curved, level]), dy

    def polar(self, side: int, u: Array, y: Array) -> tuple[Array, Array]:
        """log of the size and the angle of P's density (side 0) or Q's (side 1), over the normal one, at u + iy; a row for each y."""
        log_weights, shifts = (self._lw, self._m) if side == 0 else (self._lv, -self._n)
        if self._plain[side]:
            return np.zeros(1), np.zeros(1)
        y = y[:, None] if y.ndim == 1 else y
        terms = log_weights[:, None] + shifts[:, None] * u - 0.5 * shifts[:, None] ** 2
        peak = terms.max(axis=0)
        value = np.zeros((y.shape[0], len(u)), dtype=np.complex128)
        for term, shift in zip(terms, shifts, strict=True):
            value += np.exp(term - peak) * (np.exp(1j * shift * y) if shift else 1.0)
        return np.asarray(peak + np.log(np.maximum(np.abs(value), 1e-300))), np.angle(value)

    def bent(self, c: float, outputs: Array, step: float, most: float = math.inf) -> tuple[Array, Array]:
        """On those contours: log of |exp((c+it) L)| times the normal density at t = 0, and the angles that t multiplies."""
        y, dy = self.bends(outputs, most)
        log_a, arg_a = self.polar(0, outputs, y)
        log_b, arg_b = self.polar(1, outputs, y)
        log_weight = 0.5 * (y * y - outputs**2) + 0.5 * np.log1p(dy * dy) - 0.5 * math.log(2 * math.pi) + math.log(step)
        return log_weight + (c + 1) * log_a - c * log_b, arg_a - arg_b

    def _make_tails(self, c: float) -> tuple[Array, Array]:
        """For several bent contours u + i y(u): the tilted log-weights of |exp((c+it) L)| at t = 0, and the angles that t multiplies."""
        outputs, step = self._outputs(c, 0.0, 44.0)
        if len(outputs) > 30_000:
            raise OverflowError("too many outputs for all contours at once")
        log_weight, angle = self.bent(c, outputs, step)
        log_weight = log_weight - self._nodes(c, 0.0).log_mgf
        # outputs of no weight on any contour are left out, and what they could add is counted in `decay`
        keep = log_weight.max(axis=0) > -55
        return log_weight[:, keep], angle[:, keep]

    def decay(self, c: float, t: float) -> float:
        # Moving the contour to u + i y(u) turns the phase exp(i t L) into the real factor exp(-t arg), and arg >= 0: so the
        # bound at t holds for every larger frequency as well.
        if len(self.up) == len(self.down) == 1:
            return math.exp(-0.5 * (self._m[0] + self._n[0]) ** 2 * t * t)
        log_weight, angle = self._tails(c)
        return min(1.0, float(np.exp(np.minimum(log_weight - t * angle, 600.0)).sum(axis=1).min()) + 1e-20)

    def invert(self, loss: Array) -> Array:
        """The output at which the loss takes each value; infinite beyond the ends of the support."""
        low, high = self.support()
        result = np.where(loss <= low, -np.inf, np.where(loss >= high, np.inf, 0.0))
        inside = (loss > low) & (loss < high)
        target = loss[inside]
        if len(self.up) == len(self.down) == 1:
            m, n = self._m[0], self._n[0]
            if m + n > 0:
                result[inside] = (target + 0.5 * (m * m - n * n)) / (m + n)
            return result
        if len(self.down) == 1 and self._n[0] == 0 and len(self.up) == 2 and self._m[0] == 0:
            q, m = math.exp(self._lw[1]), self._m[1]
            # log((e^l - (1-q)) / q) without cancellation at either end
            shifted = np.where(target > 1.0, target + np.log1p(-(1 - q) * np.exp(-np.maximum(target, 1.0))), 0.0)
            near = np.log(np.maximum(np.expm1(np.minimum(target, 1.0)) + q, 1e-320))
            result[inside] = (np.where(target > 1.0, shifted, near) - math.log(q)) / m + 0.5 * m
            return result
        if len(self.up) == 1 and self._m[0] == 0:
            return -np.asarray(MixturePair(self.down, self.up).invert(-loss))
        if len(self.down) == 1 and self._n[0] == 0 and self._m[0] == 0 and np.all(self._m[1:] > 0):
            # the other components alone: log sum_k w_k exp(m_k u - m_k^2/2) is convex with slopes from the least shift to the largest,
            # so Newton's steps from the right, where one component alone would reach the goal, go down to the root
            goal = np.log(np.maximum(np.expm1(np.minimum(target, 1.0)) + math.fsum(w for _, w in self.up[1:]), 1e-320))
            goal = np.where(target > 1.0, target + np.log1p(-self.up[0][1] * np.exp(-np.maximum(target, 1.0))), goal)
            base, shifts = self._lw[1:, None] - 0.5 * self._m[1:, None] ** 2, self._m[1:, None]
            start = np.min((goal[None, :] - base) / shifts, axis=0, initial=np.inf)
            if len(target) > 2048 and np.all(np.diff(target) >= 0):  # of many losses in order, a few from scratch and the others from there
                places = np.unique(np.append(np.arange(0, len(target), 32), len(target) - 1))
                # the slope lies between the least shift and the largest, so one step from the left of the root lands to its right
                start = np.minimum(start, np.interp(target, target[places], self.invert(target[places])))
            u = start
            for _ in range(40):
                terms = base + shifts * u[None, :]
                peak = terms.max(axis=0)
                size = np.exp(terms - peak)
                total = size.sum(axis=0)
                move = (peak + np.log(total) - goal) * total / (size * shifts).sum(axis=0)
                u = u - move
                if np.all(np.abs(move) <= 1e-13 * (1 + np.abs(u))):  # the next step would be its square
                    break
            result[inside] = u
            return result
        if self.up == self.down and len(self.up) == 2 and self._m[0] == 0:
            # with x = m u: sinh(x - l/2) = ((1-q)/q) e^(m^2/2) sinh(l/2)
            m, ratio = self._m[1], float(self._lw[0] - self._lw[1]) + 0.5 * float(self._m[1]) ** 2
            size = np.abs(target)
            log_sine = ratio + 0.5 * size + np.log(np.maximum(-np.expm1(-size), 1e-320))  # of twice the right-hand side
            direct = math.exp(min(ratio, 300.0)) * np.sinh(np.minimum(0.5 * size, 300.0))
            sine = np.where((ratio < 300) & (size < 600), direct, 0.5 * np.exp(np.minimum(log_sine, 50.0)))
            turned = np.where((log_sine > 50) & (size > 0), log_sine, np.arcsinh(np.where(size > 0, sine, 0.0)))
            result[inside] = (0.5 * target + np.copysign(turned, target)) / m
            return result
        left, right = np.full(target.shape, -1.0), np.full(target.shape, 1.0)
        while np.any(grow := (self.loss(left) > target)):
            left[grow] *= 2
        while np.any(grow := (self.loss(right) < target)):
            right[grow] *= 2
        for _ in range(64):
            middle = 0.5 * (left + right)
            above = self.loss(middle) > target
            left, right = np.where(above, left, middle), np.where(above, middle, right)
        result[inside] = 0.5 * (left + right)
        return result

    def hockey_stick(self, epsilon: float) -> tuple[float, float] | None:
        # P beyond u less e^eps times Q beyond u, both relative to a normal law: where neither differs much from it, nothing else cancels
        if len(self.up) == len(self.down) == 1 or epsilon > 1:
            return None
        u = self.invert(np.array([float(epsilon)]))
        if not np.isfinite(u[0]):
            return None
        base = float(ndtr(-u)[0])
        gain = np.exp(self._lw) * (ndtr(self._m - u) - base)
        loss = np.exp(self._lv) * (base - ndtr(-self._n - u)) * math.exp(epsilon)
        less = math.expm1(epsilon) * base
        value = float(gain.sum() + loss.sum()) - less
        # tails are right to a relative 2^-46, and their arguments to a rounding; those at 0 cancel exactly
        size = np.exp(self._lw[self._m > 0]).sum() + math.exp(epsilon) * np.exp(self._lv[self._n > 0]).sum()
        reach = float(ndtr(float(self._m.max()) - u)[0])
        error = (2.0**-46 + 2.0**-50 * float(u[0]) ** 2) * (float(size) * (reach + base) + less) + 2.0**-50 * value
        return max(0.0, value - error), min(1.0, max(0.0, value) + error)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        u = self.invert(np.asarray(edges, dtype=float))

        def mass(shifts: Array, log_weights: Array) -> Array:
            total = np.zeros(len(u) - 1)
            for shift, log_weight in zip(shifts, log_weights, strict=True):
                x = u - shift
                # each interval by the tail it is nearer to, so that small masses keep their digits
                k = int(np.count_nonzero(x[:-1] <= -x[1:]))
                total[:k] += math.exp(log_weight) * np.diff(ndtr(x[: k + 1]))
                total[k:] -= math.exp(log_weight) * np.diff(ndtr(-x[k:]))
            return total

        return mass(self._m, self._lw), mass(-self._n, self._lv)


def gaussian(noise_multiplier: float, group: int = 1) -> MixturePair:
    """The Gaussian mechanism on data sets that differ in a group of records."""
    return MixturePair([(group / noise_multiplier, 1.0)])


def poisson_gaussian(rate: float, noise_multiplier: float, group: int = 1) -> Pair:
    """Removal of a group of records from a Poisson-sampled Gaussian sum: each enters with probability `rate` (Ganesh 2024 for groups)."""
    weights = [math.comb(group, k) * rate**k * (1 - rate) ** (group - k) for k in range(group + 1)]
    return MixturePair([(k / noise_multiplier, w) for k, w in enumerate(weights)])


def poisson_gaussian_replaced(rate: float, noise_multiplier: float) -> Pair:
    """Replacement of one record in a Poisson-sampled Gaussian sum of clipped terms: from +1 to -1 where it enters."""
    parts = [(0.0, 1 - rate), (1 / noise_multiplier, rate)]
    return MixturePair(parts, parts)
