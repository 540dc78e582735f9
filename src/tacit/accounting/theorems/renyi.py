"""Rényi curves: those of known mechanisms, those of finite pairs and of privacy profiles, and how curves combine.

A curve is an upper bound on the Rényi divergence of each order > 1, in both directions of the relation; infinity is a value.
Curves compose by addition, order by order, adaptively too (Steinke 2022, Lemma 3.30). What a curve means in terms of (eps, delta), and
concentrated privacy, are in `tacit.accounting.theorems.conversions`.

>>> randomised_response([2.0, np.inf], 0.1).round(6)
array([0.009959, 0.1     ])
>>> compose([gaussian([2.0, 8.0], 1.0), laplace([2.0, 8.0], 0.5)], counts=[3, 1]).round(6)
array([ 3.200304, 12.410268])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.special import logsumexp
from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, number, positive

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

# Orders 1 + x for x from 1e-4 to 1e5, evenly in log x, and the small integers, where many curves are sharpest.
# They are sorted here: np.unique would load numpy's masked arrays.
ORDERS: Array = np.array(sorted({*(1 + np.logspace(-4, 5, 145)).tolist(), *np.arange(2.0, 65.0).tolist()}))
ORDERS.setflags(write=False)


def _orders(orders: ArrayLike) -> Array:
    a = np.asarray(orders, dtype=float)
    if not (a >= 1).all():
        raise ParameterError("order must be at least 1 (order 1 is the Kullback-Leibler divergence)")
    return a


# --- curves -----------------------------------------------------------------------------------------------------------


def orders_above_one(orders: ArrayLike) -> Array:
    """Orders as an array, refused unless all are greater than 1.

    >>> orders_above_one([2, 3])
    array([2., 3.])
    """
    a = np.asarray(orders, dtype=np.float64)
    if not np.all(a > 1):
        raise ParameterError("orders must be greater than 1 (and not NaN)")
    return a


def checked_curve(base: Curve, orders: Array) -> Array:
    """A curve at an array of orders; infinity is fine, NaN and negative values are refused."""
    values = np.broadcast_to(np.asarray(base(orders), dtype=np.float64), orders.shape)
    if not np.all(values >= 0):
        raise ParameterError("base must give a divergence of zero or more at every order; it gave a negative number or NaN")
    return values


def exp_excess(x: Array) -> Array:
    """e^x - 1 - x, accurate near zero.

    >>> exp_excess(np.array([1e-9, 1.0])).round(24)
    array([5.00000000e-19, 7.18281828e-01])
    """
    small = np.clip(x, -0.5, 0.5)
    series = np.zeros_like(small)
    for n in range(18, 1, -1):
        series = (1 + series) * small / n
    return np.where(np.abs(x) < 0.5, series * small, np.expm1(x) - x)


def from_losses(orders: ArrayLike, losses: ArrayLike, masses: ArrayLike, *, missing: float = 0.0) -> Array:
    """The curve of a pair whose privacy loss takes finitely many values with the given masses (under the first distribution).

    Small moments use E[e^(sZ)] - 1 = E[g(sZ) + s g(-Z)] + s missing, g(x) = e^x - 1 - x, a sum of positive terms: the linear ones
    cancel because E[e^-Z] = 1 - missing, where `missing` is the mass of the second distribution outside the support of the first.
    So the curve keeps its relative accuracy where it is tiny. Mass at a loss of +infinity is allowed.

    >>> from_losses([2.0], [0.1, -0.1], [1 / (1 + math.exp(-0.1)), 1 / (1 + math.exp(0.1))]).round(9)
    array([0.00995858])
    """
    a = _orders(orders)
    z, p = np.asarray(losses, dtype=float), np.asarray(masses, dtype=float)
    z, p = z[p > 0], p[p > 0]
    if np.isposinf(z).any():
        return np.full(a.shape, np.inf)
    # p g(-z), with the large e^-z never alone: p e^-z is a probability
    shifted = np.where(np.abs(z) < 0.5, p * exp_excess(-z), np.exp(np.log(p) - z) - p + p * z)
    out = np.empty(a.size)
    rows = max(1, 1_000_000 // max(z.size, 1))
    for start in range(0, a.size, rows):
        s = (a.ravel()[start : start + rows] - 1)[:, None]
        finite = np.where(np.isfinite(s), s, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            small = np.clip(finite * z, -1.0, 1.0)
            gain = (exp_excess(small) * p + finite * shifted).sum(1, keepdims=True) + finite * missing
            near = np.where(finite > 0, np.log1p(gain) / finite, shifted.sum() + missing)
            top = (finite * z).max(1, keepdims=True)
            far = (top + np.log((p * np.exp(finite * z - top)).sum(1, keepdims=True))) / finite
        value = np.where(finite * np.abs(z).max() < 1, near, far)
        out[start : start + rows] = np.where(np.isfinite(s), value, z.max())[:, 0]
    return np.maximum(out, 0.0).reshape(a.shape)


def from_masses(orders: ArrayLike, p: ArrayLike, q: ArrayLike) -> Array:
    """The Rényi divergence of two finite distributions, E_Q[(P/Q)^a]: the power is inside the expectation.

    >>> from_masses([2.0, np.inf], [0.75, 0.25], [0.5, 0.5]).round(6)
    array([0.223144, 0.405465])
    """
    first, second = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    with np.errstate(divide="ignore"):
        losses = np.where(first > 0, np.log(np.maximum(first, 5e-324)) - np.log(second), 0.0)
    return from_losses(orders, losses, first, missing=float(second[first == 0].sum()))


def gaussian(orders: ArrayLike, mu: float) -> Array:
    """Gaussian noise with sensitivity/sigma = mu: a mu^2/2 (Steinke 2022, Lemma 3.32.4). Also bounds the discrete Gaussian.

    >>> gaussian([2.0, 10.0], 1.0)
    array([1., 5.])
    """
    mu = float(nonnegative("mu", mu))
    return _orders(orders) * (mu * mu / 2) if mu > 0 else np.zeros_like(_orders(orders))


def gaussian_unequal(orders: ArrayLike, shift: float, sigma: float, sigma_other: float) -> Array:
    """D_a(N(shift, sigma^2) || N(0, sigma_other^2)), infinite from the order where the integral diverges (Gil, Alajaji, Linder 2013).

    >>> gaussian_unequal([2.0], 1.0, 1.0, 1.0)
    array([1.])
    """
    a = _orders(orders)
    s, t = float(positive("sigma", sigma)), float(positive("sigma_other", sigma_other))
    shift = float(number("shift", shift))
    spread = (1 - a) * s**2 + a * t**2
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = (np.log(spread) / 2 - (1 - a) * math.log(s) - a * math.log(t)) / (1 - a)
        value = np.where(spread > 0, a * shift**2 / (2 * spread) + rest, np.inf)
    kl = math.log(t / s) + (s**2 + shift**2) / (2 * t**2) - 0.5
    return np.where(a == 1, kl, value)


def discrete_gaussian(orders: ArrayLike, sigma: float, sensitivity: int = 1) -> Array:
    """Discrete Gaussian noise, exactly: a mu^2/2 plus the log-ratio of two theta sums, which is never positive
    (Canonne, Kamath, Steinke 2020, Proposition 5); zero at orders that are multiples of 1/sensitivity.

    >>> discrete_gaussian([1.5, 2.0], 0.5).round(6)
    array([2.942461, 4.      ])
    """
    a = _orders(orders)
    sigma, step = float(positive("sigma", sigma)), count("sensitivity", sensitivity)
    width = min(math.ceil(40 * sigma) + 1, 10**6)
    x = np.arange(-width, width + 1.0)
    base = float(logsumexp(-(x**2) / (2 * sigma**2)))
    out = np.empty(a.size)
    for i, order in enumerate(a.flat):
        mean = order * step * step / (2 * sigma**2)
        offset = (order * step) % 1.0
        # beyond sigma = 8 the two sums agree to exp(-2 pi^2 sigma^2) < 1e-500
        if sigma > 8 or offset == 0 or not math.isfinite(order) or order == 1:
            out[i] = mean
            continue
        out[i] = mean + min(0.0, float(logsumexp(-((x - offset) ** 2) / (2 * sigma**2))) - base) / (order - 1)
    return out.reshape(a.shape)


def randomised_response(orders: ArrayLike, eps: float, categories: int = 2) -> Array:
    """Randomised response among `categories` answers; with two it is the largest curve of any eps-DP mechanism (Bun and Steinke 2016).

    >>> randomised_response([2.0, 10.0, np.inf], 1.0).round(10)
    array([0.73532566, 0.96519315, 1.        ])
    """
    eps, k = float(nonnegative("eps", eps)), count("categories", categories, least=2)
    low = math.exp(-eps)
    keep = 1 / (1 + (k - 1) * low)
    return from_losses(orders, [eps, -eps, 0.0], [keep, keep * low, (k - 2) * keep * low])


def laplace(orders: ArrayLike, theta: float) -> Array:
    """Laplace noise with sensitivity/scale = theta (Mironov 2017, Proposition 6), with the cancellation at small theta removed.

    >>> laplace([3.0], 1.0).round(10)
    array([0.74682814])
    """
    a = _orders(orders)
    theta = float(nonnegative("theta", theta))
    s = np.where(np.isfinite(a), a - 1, 1.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        small = np.minimum(s * theta, 1.0)
        t = np.where(s > 0, small / np.where(s > 0, s, 1.0), theta)
        gain = ((s + 1) * exp_excess(small) + s * exp_excess(-(small + t))) / (2 * s + 1)
        near = np.log1p(gain) / s
        far = theta + (np.log((s + 1) / (2 * s + 1)) + np.log1p(s / (s + 1) * np.exp(-(2 * s + 1) * theta))) / s
    value = np.where(s * theta < 1, near, far)
    return np.where(a == np.inf, theta, np.where(a == 1, float(exp_excess(np.asarray(-theta))), value))


def discrete_laplace(orders: ArrayLike, scale: float, sensitivity: int = 1) -> Array:
    """Two-sided geometric noise, mass proportional to exp(-|x|/scale): the loss takes sensitivity + 1 values.

    >>> bool(np.isclose(discrete_laplace([2.0], 10.0)[0], randomised_response([2.0], 0.1)[0]))
    True
    """
    scale, step = float(positive("scale", scale)), count("sensitivity", sensitivity)
    x = np.arange(step + 1.0)
    end = 1 / (1 + math.exp(-1 / scale))
    masses = math.tanh(1 / (2 * scale)) * np.exp(-x / scale)
    masses[0], masses[-1] = end, end * math.exp(-step / scale)
    return from_losses(orders, (step - 2 * x) / scale, masses)


def from_log_profile(order: float, log_profile: Curve, log_reverse: Curve | None = None, *, cutoff: float = math.inf) -> float:
    """An upper bound on the Rényi divergence from the logarithm of the privacy profile (Balle, Barthe, Gaboardi 2018, Theorem 6).

    E[e^(sL)] = 1 + s(s+1) int_0^inf e^(s e) delta(e) + e^(-(s+1) e) delta_reverse(e) de, order s + 1. A profile is convex in e^eps,
    so the chords used here lie above it. Past the last node (`cutoff` if the profile is zero from there on) the profile is continued
    at its last rate of decay, which needs log delta to be concave there; if it decays more slowly than e^(-s eps) the answer is infinite.

    >>> from tacit.accounting.theorems.gaussian import log_delta
    >>> round(from_log_profile(4.0, lambda e: log_delta(1.0, e)), 4)
    2.0
    """
    s = float(number("order", order)) - 1
    if not 0 < s < math.inf:
        raise ParameterError(f"order must be greater than 1 and finite, not {order}")
    end = float(positive("cutoff", cutoff)) if cutoff != math.inf else math.inf
    forward = _log_moment(s, log_profile, end)
    backward = _log_moment(-(s + 1), log_reverse or log_profile, end)
    return float(np.logaddexp(0.0, math.log(s * (s + 1)) + np.logaddexp(forward, backward))) / s


def _log_moment(rate: float, log_profile: Curve, end: float) -> float:
    """log of int e^(rate e) delta(e) de with delta replaced by its chords in u = e^e, on nodes refined where the chords matter."""
    nodes = np.append(0.0, np.logspace(-6, 8, 57))
    nodes = np.append(nodes[nodes < end], end) if end < math.inf else nodes
    values = np.asarray(log_profile(nodes))
    for _ in range(40):
        pieces, smooth = _chords(rate, nodes, values)
        total, likely = float(logsumexp(pieces)), float(logsumexp(smooth))
        # a chord exceeds the curve by about its distance from the exponential through the same two points
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.exp(pieces - likely) - np.exp(np.minimum(smooth, pieces) - likely)
        coarse = np.flatnonzero(~(excess <= 1e-6 * max(1.0, abs(rate)) / nodes.size))
        if coarse.size == 0 or nodes.size > 30_000 or total == -math.inf:
            break
        left, width = nodes[coarse], np.diff(nodes)[coarse]
        fresh = np.unique(np.concatenate([left + width * part for part in (0.25, 0.5, 0.75)]))
        order = np.argsort(np.concatenate([nodes, fresh]), kind="stable")
        nodes = np.concatenate([nodes, fresh])[order]
        values = np.concatenate([values, np.asarray(log_profile(fresh))])[order]
    if end < math.inf or values[-1] == -np.inf:
        return total
    decay = (values[-2] - values[-1]) / (nodes[-1] - nodes[-2])
    return float(np.logaddexp(total, rate * nodes[-1] + values[-1] - math.log(decay - rate))) if decay > rate else math.inf


def _chords(rate: float, nodes: Array, values: Array) -> tuple[Array, Array]:
    """For each interval, the logs of int e^(rate e) times the chord in e^e, and times the exponential, through its two ends."""
    h, base = np.diff(nodes), rate * nodes[:-1] + values[:-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # chord = delta(left) (1 - w) + delta(right) w with w = (e^x - 1)/(e^h - 1), 0 <= x <= h; scaled by e^(-max(rate,0) h)
        whole, weighted = _exp_integral(rate, h), _exp_integral(rate + 1, h)
        share = np.exp(weighted - whole - np.log(np.expm1(np.minimum(h, 700.0))) - np.maximum(h - 700.0, 0.0))
        share = np.clip(share - 1 / np.expm1(h), 0.0, 1.0)
        drop = np.minimum(values[1:] - values[:-1], 0.0)
        chord = base + whole + np.log1p(-share * -np.expm1(drop))
        smooth = np.where(np.isfinite(drop), base + _exp_integral(rate + drop / h, h), -np.inf)
    return np.where(np.isnan(chord), -np.inf, chord), np.where(np.isnan(smooth), -np.inf, smooth)


def _exp_integral(rate: float | Array, h: Array) -> Array:
    """log of int_0^h e^(rate x) dx."""
    x = np.asarray(rate * h)
    size = np.abs(x)
    unit = np.where(size < 1e-8, 0.0, np.log(-np.expm1(-np.maximum(size, 1e-300))) - np.log(np.maximum(size, 1e-300)))
    return np.asarray(np.log(h) + unit + np.maximum(x, 0.0))


# --- combining curves ---------------------------------------------------------------------------------------------------


def compose(curves: Sequence[ArrayLike], counts: Sequence[int] | None = None) -> Array:
    """The curve of an adaptive composition, on a common grid of orders: the sum.

    >>> compose([[0.1, 0.2], [1.0, np.inf]], counts=[10, 1])
    array([ 2., inf])
    """
    if not curves:
        raise ParameterError("curves is empty; compose at least one")
    times = [1] * len(curves) if counts is None else [count("counts", c) for c in counts]
    return np.asarray(np.sum([t * np.asarray(c, dtype=float) for t, c in zip(times, curves, strict=True)], axis=0))


def interpolate(orders: ArrayLike, grid: ArrayLike, values: ArrayLike) -> Array:
    """A curve known on a sorted grid, at any order: (a-1) D_a is convex in a and vanishes at 1, so chords bound it from above.

    >>> interpolate([1.5, 3.0, 9.0], [2.0, 4.0], [1.0, 2.0]).round(6)
    array([1.  , 1.75,  inf])
    """
    a, g, v = _orders(orders), np.asarray(grid, dtype=float), np.asarray(values, dtype=float)
    g, v = g[np.isfinite(v)], v[np.isfinite(v)]
    if g.size == 0:
        return np.full(a.shape, np.inf)
    chord = np.interp(a, np.append(1.0, g), np.append(0.0, (g - 1) * v))
    # a divergence is also monotone in the order, so the next grid point bounds it too
    following = np.append(v, np.inf)[np.searchsorted(g, a)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > g[-1], np.inf, np.minimum(np.where(a > 1, chord / (a - 1), v[0]), following))


def triangle(order: float, split: float, first: Curve, second: Curve) -> float:
    """D_a(P||R) <= a'/(a'-1) D_b(P||Q) + D_a'(Q||R) with b = a(a'-1)/(a'-a), for 1 < a = order < a' = split.

    This is Steinke 2022, Lemma 3.32.7 with the order that its proof uses; the printed statement has a smaller b and is false.

    >>> triangle(2.0, 4.0, lambda a: gaussian(a, 1.0), lambda a: gaussian(a, 1.0))  # truth: 2 * 2^2 / 2
    4.0
    """
    a, b = float(positive("order", order)), float(positive("split", split))
    if not 1 < a < b:
        raise ParameterError(f"orders must satisfy 1 < order < split, not order={a}, split={b}")
    inner = np.asarray(a * (b - 1) / (b - a))
    return b / (b - 1) * float(first(inner)) + float(second(np.asarray(b)))


def group(orders: ArrayLike, curve: Curve, size: int) -> Array:
    """The curve for groups of `size` records, by halving the group with `triangle` and the best split on a grid.

    Tight for Gaussians up to the grid: size^2 times the curve. For a concentrated curve, rho a, `conversions.zcdp_group` is that exactly.

    >>> bool(abs(group([2.0], lambda a: gaussian(a, 1.0), 2)[0] - 4) < 0.02)
    True
    """
    a, size = _orders(orders), count("size", size)
    if size == 1:
        return np.asarray(curve(a))
    one, other = _group_part(curve, (size + 1) // 2), _group_part(curve, size // 2)
    finite = np.where(np.isfinite(a), a, 2.0).ravel()[:, None]
    base = np.maximum(finite, 1 + 1e-9)  # a divergence is monotone in its order
    b = base + np.logspace(-4, 4, 321) * (base - 0.9)
    with np.errstate(invalid="ignore"):
        values = b / (b - 1) * one(base * (b - 1) / (b - base)) + other(b)
    least = np.nanmin(np.column_stack([values, np.full(a.size, np.inf)]), axis=1).reshape(a.shape)
    if np.isinf(a).any():
        least = np.where(np.isinf(a), size * np.asarray(curve(np.asarray(np.inf))), least)
    return np.asarray(least)


def _group_part(curve: Curve, size: int) -> Curve:
    """The curve of a smaller group as a function: tabulated once, then interpolated from above."""
    if size == 1:
        return curve
    table = group(ORDERS, curve, size)
    return lambda a: interpolate(a, ORDERS, table)
