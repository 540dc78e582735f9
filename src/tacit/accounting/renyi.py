"""Rényi and concentrated differential privacy: curves of known mechanisms, and every conversion to and from (eps, delta).

A curve is an upper bound on the Rényi divergence of each order > 1, in both directions of the relation; infinity is a value.
Curves compose by addition, order by order, adaptively too (Steinke 2022, Lemma 3.30). Each conversion minimises over orders,
and any order gives a valid figure, so the result is an upper bound whatever the minimiser does.

>>> round(epsilon_from_curve(lambda a: 100 * randomised_response(a, 0.1), 1e-6), 8)
5.07310617
>>> round(zcdp_epsilon(0.5, 1e-6), 8)
5.22153444
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count, nonnegative, number, positive, probability

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

# Orders 1 + x for x from 1e-4 to 1e5, evenly in log x, and the small integers, where many curves are sharpest.
ORDERS: Array = np.unique(np.concatenate([1 + np.logspace(-4, 5, 145), np.arange(2.0, 65.0)]))
ORDERS.setflags(write=False)


def _orders(orders: ArrayLike) -> Array:
    a = np.asarray(orders, dtype=float)
    if not (a >= 1).all():
        raise ParameterError("order must be at least 1 (order 1 is the Kullback-Leibler divergence)")
    return a


# --- curves -----------------------------------------------------------------------------------------------------------


def _excess(x: Array) -> Array:
    """e^x - 1 - x, accurate near zero."""
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
    shifted = np.where(np.abs(z) < 0.5, p * _excess(-z), np.exp(np.log(p) - z) - p + p * z)
    out = np.empty(a.size)
    rows = max(1, 1_000_000 // max(z.size, 1))
    for start in range(0, a.size, rows):
        s = (a.ravel()[start : start + rows] - 1)[:, None]
        finite = np.where(np.isfinite(s), s, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            small = np.clip(finite * z, -1.0, 1.0)
            gain = (_excess(small) * p + finite * shifted).sum(1, keepdims=True) + finite * missing
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
        gain = ((s + 1) * _excess(small) + s * _excess(-(small + t))) / (2 * s + 1)
        near = np.log1p(gain) / s
        far = theta + (np.log((s + 1) / (2 * s + 1)) + np.log1p(s / (s + 1) * np.exp(-(2 * s + 1) * theta))) / s
    value = np.where(s * theta < 1, near, far)
    return np.where(a == np.inf, theta, np.where(a == 1, float(_excess(np.asarray(-theta))), value))


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

    >>> from tacit.accounting.gaussian import log_delta
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

    Tight for Gaussians up to the grid: size^2 times the curve. A concentrated curve rho a has this in closed form, `zcdp_group`.

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


# --- concentrated ---------------------------------------------------------------------------------------------------------


def rho_from_pure(eps: float) -> float:
    """Every eps-DP mechanism is (eps^2/2)-zCDP (Steinke 2022, Proposition 3.16).

    >>> rho_from_pure(0.1)
    0.005000000000000001
    """
    return float(nonnegative("eps", eps)) ** 2 / 2


def rho_from_range(width: float) -> float:
    """Losses in a range of the given width give (width^2/8)-zCDP (Steinke 2022, Lemma 3.32.5; Cesar and Rogers 2021).

    An eps-DP mechanism has width 2 eps; the exponential mechanism of parameter eps has width eps.

    >>> rho_from_range(2.0)
    0.5
    """
    return float(nonnegative("width", width)) ** 2 / 8


def zcdp_group(rho: float, size: int) -> float:
    """Groups of k under rho-zCDP: k^2 rho (Bun and Steinke 2016, Proposition 1.9).

    >>> zcdp_group(0.5, 3)
    4.5
    """
    return count("size", size) ** 2 * float(nonnegative("rho", rho))


def zcdp_epsilon_basic(rho: float, delta: float) -> float:
    """eps = rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016; Steinke 2022, Remark 3.15).

    >>> round(zcdp_epsilon_basic(0.5, 1e-6), 8)
    5.75652177
    """
    rho, delta = float(nonnegative("rho", rho)), float(probability("delta", delta))
    if rho == 0 or delta == 0:
        return 0.0 if rho == 0 else math.inf
    return rho + 2 * math.sqrt(rho * -math.log(delta))


def zcdp_delta_basic(rho: float, eps: float) -> float:
    """delta = exp(-(eps-rho)^2/(4 rho)), one where eps <= rho.

    >>> round(zcdp_delta_basic(0.5, 2.0), 8)
    0.32465247
    """
    rho, eps = float(nonnegative("rho", rho)), float(nonnegative("eps", eps))
    if rho == 0:
        return 0.0
    return math.exp(-((eps - rho) ** 2) / (4 * rho)) if eps > rho else 1.0


def zcdp_rho_basic(eps: float, delta: float) -> float:
    """The largest rho that `zcdp_epsilon_basic` turns into at most (eps, delta): (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))^2.

    >>> round(zcdp_rho_basic(1.0, 1e-6), 10)
    0.0174689048
    """
    eps, delta = float(nonnegative("eps", eps)), float(probability("delta", delta))
    if delta == 0:
        return 0.0
    log = -math.log(delta)
    rho = (eps / (math.sqrt(log + eps) + math.sqrt(log))) ** 2 if eps > 0 else 0.0
    while rho > 0 and zcdp_epsilon_basic(rho, delta) > eps:
        rho = math.nextafter(rho, 0.0)
    return rho


def zcdp_order(rho: float, eps: float) -> float:
    """The order that minimises `zcdp_delta`: the root of (2a - 1) rho - eps + log(1 - 1/a), increasing in a.

    >>> round(zcdp_order(0.5, 5.22153444), 4)
    5.907
    """
    rho, eps = float(positive("rho", rho)), float(nonnegative("eps", eps))
    low, high = 0.0, max(1.0, (eps / rho + 1) / 2, math.sqrt(1 / rho))  # bounds on a - 1
    while (1 + 2 * high) * rho - eps + math.log1p(-1 / (1 + high)) < 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if (1 + 2 * middle) * rho - eps + math.log(middle) - math.log1p(middle) < 0:
            low = middle
        else:
            high = middle
    return 1 + high


def zcdp_delta(rho: float, eps: float) -> float:
    """The improved conversion, valid for every eps >= 0 (Canonne, Kamath, Steinke 2020; Steinke 2022, Proposition 3.14).

    >>> round(zcdp_delta(0.5, 1.0), 10)
    0.2468463308
    """
    rho, eps = float(nonnegative("rho", rho)), float(nonnegative("eps", eps))
    if rho == 0:
        return 0.0
    a = zcdp_order(rho, eps)
    return float(rdp_delta(a, a * rho, eps))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The improved conversion at a given delta; the best order solves rho (a-1)^2 + log(a) = log(1/delta).

    >>> round(zcdp_epsilon(0.005, 1e-6), 8)
    0.42994147
    """
    rho, delta = float(nonnegative("rho", rho)), float(probability("delta", delta))
    if rho == 0 or delta == 1:
        return 0.0
    if delta == 0:
        return math.inf
    log = -math.log(delta)
    low, high = 0.0, min(math.sqrt(log / rho), math.expm1(min(log, 700.0)))
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if rho * middle**2 + math.log1p(middle) < log:
            low = middle
        else:
            high = middle
    # an order above 1 by less than an ulp gives nothing; the basic conversion is always valid
    return min(rdp_epsilon(1 + high, (1 + high) * rho, delta), zcdp_epsilon_basic(rho, delta))


def zcdp_rho(eps: float, delta: float) -> float:
    """The largest rho that `zcdp_epsilon` turns into at most (eps, delta), rounded down. Any order gives a valid rho.

    >>> round(zcdp_rho(1.0, 1e-5), 10)
    0.0305565952
    """
    eps, delta = float(nonnegative("eps", eps)), float(probability("delta", delta))
    if delta == 0:
        return 0.0
    if delta == 1:
        return math.inf
    _, rho = _minimise(lambda a: -rdp_budget(a, eps, delta) / a)
    rho = max(-rho, zcdp_rho_basic(eps, delta))
    factor = 1 - 1e-15
    while rho > 0 and zcdp_epsilon(rho, delta) > eps:
        rho, factor = rho * factor, factor * factor
    return rho


# --- Rényi to (eps, delta) and back ----------------------------------------------------------------------------------------


def rdp_epsilon_basic(orders: ArrayLike, values: ArrayLike, delta: float) -> float:
    """The least eps(a) + log(1/delta)/(a-1) over the given orders (Mironov 2017, Proposition 3).

    >>> round(rdp_epsilon_basic(10.0, 1.0, 1e-5), 9)
    2.279213941
    """
    a, v, delta = np.asarray(orders, dtype=float), np.asarray(values, dtype=float), float(probability("delta", delta))
    if delta == 0:
        return float(np.min(np.where(a == np.inf, v, np.inf)))
    with np.errstate(divide="ignore"):
        return max(0.0, float(np.min(np.where(a > 1, v - math.log(delta) / (a - 1), np.inf))))


def _epsilons(a: Array, v: Array, delta: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        gain, price = np.log1p(-1 / a), -(math.log(delta) + np.log(a)) / (a - 1)
        value = v + gain + price + 1e-15 * (v - gain + np.abs(price))  # rounded up: at large orders delta is sensitive to an ulp
        value = np.where(a == np.inf, v, np.where(a > 1, value, np.inf))
    return np.where(np.isnan(value), np.inf, value)


def rdp_epsilon(orders: ArrayLike, values: ArrayLike, delta: float) -> float:
    """The least eps(a) + log(1 - 1/a) - log(delta a)/(a-1), never negative (Canonne, Kamath, Steinke 2020; Steinke 2022, Lemma 3.32.8).

    >>> round(rdp_epsilon(10.0, 1.0, 1e-5), 9)
    1.918010637
    """
    a, v, delta = np.asarray(orders, dtype=float), np.asarray(values, dtype=float), float(probability("delta", delta))
    if delta == 0:
        return float(np.min(np.where(a == np.inf, v, np.inf)))
    return max(0.0, float(np.min(_epsilons(a, v, delta))))


def rdp_delta(orders: ArrayLike, values: ArrayLike, eps: float) -> float:
    """The least e^((a-1)(eps(a)-eps)) (1/a) (1-1/a)^(a-1), valid for every eps >= 0.

    >>> round(rdp_delta(10.0, 1.0, 1.918010637), 12)
    1e-05
    """
    a, v, eps = np.asarray(orders, dtype=float), np.asarray(values, dtype=float), float(nonnegative("eps", eps))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = (a - 1) * (v - eps + np.log1p(-1 / a)) - np.log(a)
        log = np.where(a == np.inf, np.where(v <= eps, -np.inf, np.inf), np.where(a > 1, log, np.inf))
        return min(1.0, math.exp(min(0.0, float(np.min(np.where(np.isnan(log), np.inf, log))))))


def rdp_budget(orders: ArrayLike, eps: float, delta: float) -> Array:
    """The divergence each order may have for (eps, delta): eps - log(1 - 1/a) + log(delta a)/(a-1); negative where the order is of no use.

    >>> rdp_budget([10.0], 1.918010637, 1e-5).round(8)
    array([1.])
    """
    a, eps, delta = np.asarray(orders, dtype=float), float(nonnegative("eps", eps)), float(probability("delta", delta))
    if delta == 0:
        return np.where(a == np.inf, eps, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a == np.inf, eps, eps - np.log1p(-1 / a) + (math.log(delta) + np.log(a)) / (a - 1))


def rdp_tail(order: float, value: float, eps: float) -> float:
    """P[privacy loss > eps] <= exp(-(a-1)(eps - eps(a))): the loss is subexponential.

    >>> rdp_tail(2.0, 1.0, 1.0)
    1.0
    """
    order, value, eps = float(number("order", order)), float(number("value", value)), float(number("eps", eps))
    return min(1.0, math.exp(min(0.0, -(order - 1) * (eps - value))))


def tcdp_epsilon_basic(rho: float, omega: float, delta: float) -> float:
    """(rho, omega)-tCDP to (eps, delta) by the basic conversion (Bun, Dwork, Rothblum, Steinke 2018, Lemma 6).

    >>> round(tcdp_epsilon_basic(0.1, 6.0, 1e-6), 9)
    3.363102112
    """
    rho, omega, delta = float(nonnegative("rho", rho)), float(number("omega", omega)), float(probability("delta", delta))
    if omega <= 1:
        raise ParameterError(f"omega must be greater than 1, not {omega}")
    if delta == 0 or rho == 0 or -math.log(delta) <= (omega - 1) ** 2 * rho:
        return zcdp_epsilon_basic(rho, delta)
    return rho * omega - math.log(delta) / (omega - 1)


def tcdp_epsilon(rho: float, omega: float, delta: float) -> float:
    """(rho, omega)-tCDP to (eps, delta) by the improved conversion at the best order up to omega.

    >>> round(tcdp_epsilon(0.1, 6.0, 1e-6), 9)
    2.822428661
    """
    rho, omega, delta = float(nonnegative("rho", rho)), float(number("omega", omega)), float(probability("delta", delta))
    if omega <= 1:
        raise ParameterError(f"omega must be greater than 1, not {omega}")
    # the objective decreases up to the best order of zCDP, so the last order allowed is best if that one is not
    slope = rho * (omega - 1) ** 2 + math.log(omega) + math.log(delta) if delta > 0 and omega < math.inf else math.inf
    return zcdp_epsilon(rho, delta) if slope >= 0 or rho == 0 else rdp_epsilon(omega, omega * rho, delta)


def _minimise(objective: Curve) -> tuple[float, float]:
    """(order, value) of the least objective over orders > 1: a grid in log(a - 1), then finer grids round the best point."""
    low, high = math.log(1e-6), math.log(1e7)
    best, least = math.inf, math.inf
    for points in (129, 65, 65, 65, 65):
        log_s = np.linspace(low, high, points)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            values = np.asarray(objective(1 + np.exp(log_s)), dtype=float)
        values = np.where(np.isnan(values), np.inf, values)
        at = int(np.argmin(values))
        if values[at] < least:
            best, least = 1 + math.exp(log_s[at]), float(values[at])
        if not math.isfinite(values[at]):
            break
        low, high = float(log_s[max(at - 1, 0)]), float(log_s[min(at + 1, points - 1)])
    return best, least


def epsilon_from_curve(curve: Curve, delta: float) -> float:
    """The least eps of the improved conversion over all real orders > 1 of a curve given as a function.

    >>> round(epsilon_from_curve(lambda a: gaussian(a, 1.0), 1e-5), 6)  # the exact Gaussian has 4.377
    4.728387
    """
    delta = float(probability("delta", delta))
    if delta == 0:
        return rdp_epsilon(np.inf, curve(np.asarray(np.inf)), 0.0)
    return max(0.0, _minimise(lambda a: _epsilons(a, np.asarray(curve(a)), delta))[1])


def order_from_curve(curve: Curve, delta: float) -> float:
    """The order at which `epsilon_from_curve` is reached.

    >>> round(order_from_curve(lambda a: 100 * randomised_response(a, 0.1), 1e-6), 3)
    6.326
    """
    delta = float(probability("delta", delta))
    return math.inf if delta == 0 else _minimise(lambda a: _epsilons(a, np.asarray(curve(a)), delta))[0]


def delta_from_curve(curve: Curve, eps: float) -> float:
    """The least delta of the improved conversion over all real orders > 1.

    >>> round(delta_from_curve(lambda a: gaussian(a, 1.0), 1.0), 9)
    0.246846331
    """
    eps = float(nonnegative("eps", eps))

    def log_delta(a: Array) -> Array:
        return np.asarray((a - 1) * (curve(a) - eps + np.log1p(-1 / a)) - np.log(a))

    return min(1.0, math.exp(min(0.0, _minimise(log_delta)[1])))
