"""Laplace noise and the exponential mechanism: losses on a bounded interval, with a density that is uniform after half a tilt.

Both have Q-density proportional to exp(-l/2) in the loss l on (-theta, theta). Laplace noise adds an atom at each end; the worst
pair of the bounded-range class, to which the exponential mechanism belongs, has none. Poisson sampling keeps Q and maps the
loss through log(1 - q + q e^l).

>>> round(laplace(1.0).kappa(2.0) / 2, 10)  # the Rényi divergence of order 3
0.7468281411
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np

from tacit.accounting.closed_form import laplace_delta, rho_from_range
from tacit.accounting.pairs.pair import Array, Nodes, Pair, cumulant

_UNIT = 2.0**-53
_ORDER = 32
_MAX_NODES = 400_000


@cache
def _gauss() -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre on [-1, 1]; worked out when first needed, which for a single step is never."""
    x, w = np.polynomial.legendre.leggauss(_ORDER)
    return x, w


class HalfTiltPair(Pair):
    """Q-density scale * exp(-l/2) on (-theta, theta) and atoms of Q-mass edge e^-theta at theta and edge at -theta; P = e^l Q.

    With rate q < 1 the pair is ((1-q) Q + q P, Q); `reversed_` gives the two the other way round.
    """

    def __init__(self, theta: float, scale: float, edge: float, rate: float = 1.0, reversed_: bool = False) -> None:
        self.theta, self.scale, self.edge, self.rate, self.reversed_ = theta, scale, edge, rate, reversed_
        self.symmetric = rate == 1
        self._nodes = lru_cache(maxsize=64)(self._make_nodes)

    def __repr__(self) -> str:
        return f"HalfTiltPair(theta={self.theta}, edge={self.edge}, rate={self.rate}, reversed_={self.reversed_})"

    def sampled(self, rate: float) -> HalfTiltPair:
        """The pair of a Poisson sample, for the direction in which a record is removed."""
        if self.reversed_ or self.rate < 1:
            raise ValueError("sample the unsampled pair, then reverse it")
        return HalfTiltPair(self.theta, self.scale, self.edge, rate)

    def reverse(self) -> Pair:
        return HalfTiltPair(self.theta, self.scale, self.edge, self.rate, not self.reversed_)

    def _loss(self, base: Array) -> Array:
        if self.rate == 1:
            return base
        # log(1 - q + q e^l), which is l + log q where e^l overflows or swamps the rest
        large = base + math.log(self.rate) + np.log1p((1 - self.rate) / self.rate * np.exp(-np.maximum(base, 0.0)))
        return np.where(base > 20, large, np.log1p(self.rate * np.expm1(np.minimum(base, 20.0))))

    def _base(self, loss: Array) -> Array:
        """The unsampled loss that is mapped to `loss`, clipped to its interval."""
        if self.rate == 1:
            return np.clip(loss, -self.theta, self.theta)
        low, high = self._loss(np.array([-self.theta, self.theta]))
        inner = np.clip(loss, low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            small = np.log1p(np.expm1(np.minimum(inner, 20.0)) / self.rate)
        large = inner - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(inner, 1.0)))
        base = np.where(inner > 10, large, small)
        return np.where(loss <= low, -self.theta, np.where(loss >= high, self.theta, np.clip(base, -self.theta, self.theta)))

    def support(self) -> tuple[float, float]:
        low, high = self._loss(np.array([-self.theta, self.theta]))
        return (float(-high), float(-low)) if self.reversed_ else (float(low), float(high))

    def atoms(self) -> tuple[Array, Array]:
        if not self.edge:
            return np.empty(0), np.empty(0)
        base = np.array([-self.theta, self.theta])
        q = self.edge * np.array([1.0, math.exp(-self.theta)])
        loss = self._loss(base)
        return (-loss[::-1], q[::-1]) if self.reversed_ else (loss, q * np.exp(loss))

    def masses(self, edges: Array) -> tuple[Array, Array]:
        base = self._base(-edges[::-1] if self.reversed_ else edges)
        q = 2 * self.scale * np.exp(-base[:-1] / 2) * -np.expm1(-np.diff(base) / 2)
        p = 2 * self.scale * np.exp(base[:-1] / 2) * np.expm1(np.diff(base) / 2)
        mixed = (1 - self.rate) * q + self.rate * p
        return (q[::-1], mixed[::-1]) if self.reversed_ else (mixed, q)

    def hockey_stick(self, epsilon: float) -> tuple[float, float] | None:
        return laplace_delta(self.theta, epsilon) if self.edge and self.rate == 1 and not self.reversed_ else None

    def rho(self) -> float:
        return rho_from_range(self.theta) if self.rate == 1 and not self.edge else super().rho()

    def kappa(self, c: float) -> float:
        if self.rate == 1:  # closed form; the unsampled law is the same in both directions
            x = abs(c + 0.5) * self.theta
            # scale times the integral of exp((c + 1/2) l): scale 2 sinh(x) / |c + 1/2|
            log_sinh = x - math.log(2) + math.log(-math.expm1(-2 * x)) if x > 0 else -math.inf
            smooth = math.log(2 * self.scale) + (log_sinh - math.log(abs(c + 0.5)) if x > 0 else math.log(self.theta))
            if not self.edge:
                return smooth
            return float(np.logaddexp(smooth, math.log(self.edge) + np.logaddexp(c * self.theta, -(c + 1) * self.theta)))
        return cumulant(self._nodes, c)

    def nodes(self, c: float, reach: float) -> Nodes:
        return self._nodes(c, 2.0 ** math.ceil(math.log2(reach)) if reach > 0 else 0.0)

    def _make_nodes(self, c: float, reach: float) -> Nodes:
        # Gauss-Legendre on panels: on the ellipse the integrand exceeds its size on the panel by at most exp(growth), and
        # the relative error is (64/15) rho^(-2n) exp(growth) / (1 - rho^-2) (Trefethen 2013, Theorem 19.3).
        power = -c if self.reversed_ else c + 1
        half = min(0.5, 4.0 / (1 + abs(power)), 14.0 / reach if reach > 0 else 1.0)
        panels = max(1, math.ceil(self.theta / half))
        if panels * _ORDER > _MAX_NODES:
            raise OverflowError("too many quadrature nodes")
        half = self.theta / panels
        minor = min(2.0 / half, 4.0)  # within |Im l| <= 2 the argument of 1 - q + q e^l stays below 2
        rho, major = minor + math.hypot(1.0, minor), math.hypot(1.0, minor)
        growth = half * ((abs(power) + 0.5) * (major + 1) + reach * minor)
        truncation = (64 / 15) * math.exp(growth - 2 * _ORDER * math.log(rho)) / (1 - rho**-2)
        centres = -self.theta + half * (2 * np.arange(panels) + 1)
        x, w = _gauss()
        base = (centres[:, None] + half * x[None, :]).ravel()
        log_weight = np.log(self.scale) - base / 2 + np.log(half * np.tile(w, panels))
        if self.edge:
            base = np.append(base, [-self.theta, self.theta])
            log_weight = np.append(log_weight, [math.log(self.edge), math.log(self.edge) - self.theta])
        loss = self._loss(base)
        exponent = log_weight + power * loss
        peak = float(exponent.max())
        raw = np.exp(exponent - peak)
        total = float(raw.sum())
        weight = raw / total
        log_mgf = peak + math.log(total)
        magnitude = 4 + np.abs(power * loss) + np.abs(log_weight)
        rounding = 2 * _UNIT * float(np.dot(weight, magnitude))
        loss = -loss if self.reversed_ else loss
        return Nodes(loss, weight, log_mgf, truncation + rounding, truncation + rounding, 4 * _UNIT * float(np.abs(loss).max()))

    def decay(self, c: float, t: float) -> float:
        # Integration by parts over the density: f / l' has at most one turning point (its log-derivative is a constant plus a
        # multiple of l', which is monotone), so its variation is at most the sum of its ends.
        power = -c if self.reversed_ else c + 1
        base = np.array([-self.theta, self.theta])
        loss = self._loss(base)
        level = self.kappa(c)
        density = math.log(self.scale / self.rate) - 1.5 * base + (power + 1) * loss
        total = float(np.sum(np.exp(np.minimum(density - level, 700.0)))) * 2 / t
        if self.edge:
            total += float(np.sum(np.exp(math.log(self.edge) + np.array([0.0, -self.theta]) + power * loss - level)))
        return min(1.0, total)


def laplace(theta: float) -> HalfTiltPair:
    """Laplace noise of scale 1/theta times the l1 sensitivity."""
    return HalfTiltPair(theta, math.exp(-theta / 2) / 4, 0.5)


def bounded_range(epsilon: float) -> HalfTiltPair:
    """The pair that dominates every mechanism whose losses lie in a range of width epsilon, as the exponential mechanism's do.

    Its hockey-stick curve is the upper envelope of all two-point pairs with losses t and t - epsilon (Dong, Durfee, Rogers 2020,
    Lemma 3.4): (e^(epsilon/2) - sqrt(alpha))^2 / (e^epsilon - 1), which is smooth.
    """
    return HalfTiltPair(epsilon, math.exp(-epsilon / 2) / (-2 * math.expm1(-epsilon)), 0.0)


def bounded_range_divergence(epsilon: float, orders: Array) -> Array:
    """The largest Rényi divergence, at each order > 1, of any mechanism whose losses lie in a range of width epsilon.

    The order's power is convex in e^loss, so for losses in [t - epsilon, t] two points are the worst, and their law is fixed by its mean 1.
    The worst t has a closed form: with y = e^-epsilon, e^-t = a (y - y^a) / ((a - 1) (1 - y^a)). The divergence is at most
    a epsilon^2 / 8 (Cesar and Rogers 2021), which takes over where rounding would spoil the closed form, and below that of the pair of
    `bounded_range`, which takes the worst t for every alpha at once.

    >>> bounded_range_divergence(1.0, np.array([1.5, 2.0, 100.0])).round(6)
    array([0.183113, 0.240229, 0.948066])
    """
    a = np.atleast_1d(np.asarray(orders, dtype=float))
    with np.errstate(all="ignore"):
        simple = np.fmin(a * (epsilon * epsilon / 8) * (1 + 4 * _UNIT), epsilon)  # of infinity times a square that underflows, epsilon
        before, after, whole = (np.log(-np.expm1(-k * epsilon)) for k in (a - 1, a, 1.0))
        place = np.log(a / (a - 1)) - epsilon + before - after
        terms = np.stack([-a * place, -epsilon + before, -np.log(a - 1), np.full_like(a, -whole)])
        size = a * (np.abs(np.log(a / (a - 1))) + epsilon + np.abs(before) + np.abs(after)) + np.abs(terms[1:]).sum(axis=0)
        found = (terms.sum(axis=0) + 16 * _UNIT * size) / (a - 1)
    return np.asarray(np.where(np.isfinite(found), np.clip(found, 0.0, simple), simple))
