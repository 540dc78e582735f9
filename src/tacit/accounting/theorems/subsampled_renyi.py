"""Rényi curves of sampled mechanisms: what sampling does to a curve, as upper bounds, always the least of the valid ones.

`base` is a curve: a function from an array of orders > 1 to bounds on the Rényi divergence in *both* directions of the base
relation. Poisson sampling takes add/remove to add/remove; a fixed-size sample without replacement takes replace-one to
replace-one (a clipped sum then has twice the sensitivity). References "Steinke" are to Steinke (2022), section 3.6.

>>> unit_gaussian = lambda a: a / 2                                  # sensitivity 1, noise 1
>>> best([2, 8, 32], 0.05, unit_gaussian).round(10)
array([4.28650440e-03, 6.01268914e-01, 1.29076312e+01])
>>> gaussian([1.5, 2.5], rate=0.05, noise_multiplier=1).round(10)     # exact, at any real order
array([0.00305433, 0.00567253])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.special import gammaln, logsumexp
from tacit.accounting.theorems.amplification import amplified_epsilon
from tacit.accounting.theorems.renyi import checked_curve, exp_excess, interpolate, orders_above_one
from tacit.errors import ParameterError, UnsupportedError
from tacit.parameters import Number, positive, probability

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]
Direction = Literal["remove", "add", "both"]
Scheme = Literal["poisson", "without replacement"]

_LARGEST = 1 << 14  # the largest order at which binomial sums are evaluated; beyond it `single_order` is as good
_NODES = 1 << 16  # the largest quadrature


def _log_expm1(x: Array) -> Array:
    """log(e^x - 1) for x >= 0, without overflow; -infinity at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-x)))


def _binomial_sum(order: int, log_terms: Array, rate: float, *, dilute: bool) -> float:
    """log(1 + sum_(k=2)^a C(a,k) q^k (1-q)^(a-k) e^log_terms[k-2]), rounded up; without the factor (1-q)^(a-k) unless `dilute`."""
    k = np.arange(2.0, order + 1)
    terms = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1) + k * math.log(rate) + log_terms[: order - 1]
    if dilute:
        terms = terms + (order - k) * math.log1p(-rate)
    total = float(logsumexp(terms)) if np.max(terms) < math.inf else math.inf
    finite = np.abs(terms[np.isfinite(terms)])
    rounding = 2e-15 * (float(gammaln(order + 1)) + (float(finite.max()) if finite.size else 0.0))
    return float(np.logaddexp(0.0, total + rounding))


def _from_integers(orders: Array, value: Callable[[int], float]) -> Array:
    """A curve known at integer orders, at real ones: (a-1) eps(a) is convex in a, so chords between integers bound it from above."""
    finite = orders[orders <= _LARGEST]
    if finite.size == 0:
        return np.full(orders.shape, math.inf)
    grid = np.unique(np.concatenate([np.floor(finite), np.ceil(finite), [2.0]]))
    grid = grid[grid >= 2]
    values = np.array([value(int(a)) for a in grid])
    result = interpolate(np.minimum(orders, _LARGEST), grid, values)
    return np.where(orders <= _LARGEST, result, math.inf)


# ---- Poisson sampling, add/remove ---------------------------------------------------------------------------------------------------


def poisson(orders: ArrayLike, rate: Number, base: Curve) -> Array:
    """The sharp bound for Poisson sampling (Steinke, Theorem 3.33), at integer orders; convexity interpolates between them.

    log(sum_k C(a,k) (1-q)^(a-k) q^k e^((k-1) eps(k))) / (a-1), where the terms k = 0, 1 carry 1. Subtracting the binomial
    identity leaves a sum of (e^((k-1) eps(k)) - 1), so tiny rates keep their relative accuracy. That the other direction is no
    worse when `base` bounds both is Steinke, Theorem 3.34. At infinite order: log(1 + q(e^eps - 1)).

    >>> poisson([2, 2.5, 3], 0.05, lambda a: a / 2).round(10)
    array([0.0042865 , 0.00626966, 0.00726124])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    if q in (0.0, 1.0):
        return np.zeros(a.shape) if q == 0 else checked_curve(base, a) + 0.0
    flat = a.ravel()
    finite = flat[flat <= _LARGEST]
    k = np.arange(2.0, math.ceil(finite.max() if finite.size else 2.0) + 1)
    log_terms = _log_expm1((k - 1) * checked_curve(base, k))
    result = _from_integers(flat, lambda order: _binomial_sum(order, log_terms, q, dilute=True) / (order - 1))
    if np.isinf(flat).any():
        result = np.where(np.isinf(flat), amplified_epsilon(q, checked_curve(base, flat)), result)
    return result.reshape(a.shape)


def single_order(orders: ArrayLike, rate: Number, base: Curve) -> Array:
    """a/(a-1) log(1 - q + q e^((1-1/a) eps(a))) at any real order, from that order alone (Steinke, Proposition 3.41).

    >>> single_order([2, 32], 0.05, lambda a: a / 2).round(8)
    array([ 0.06384224, 12.90763484])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    shrink = 1 - 1 / a
    return np.asarray(amplified_epsilon(q, shrink * checked_curve(base, a)) / shrink)


def analytic(orders: ArrayLike, rate: Number, base: Curve, auxiliary: float | None = None) -> Array:
    """log(1 + (e/2) a(a-1) q^2 (e^eps(2) - 1) + ((a-1)q)^w e^((w-1) eps(w)))/(a-1), least over w >= a (Steinke, Proposition 3.40).

    Any w is valid, so the search needs no proof; `auxiliary` fixes it. Holds for q <= 1 - 1/e and is infinite beyond.

    >>> analytic([2, 3], 0.05, lambda a: a / 2).round(6)
    array([0.013802, 0.026826])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    if auxiliary is not None and not np.all(a <= auxiliary):
        raise ParameterError(f"auxiliary must be at least every order, not {auxiliary}")
    if q == 0:
        return np.zeros(a.shape)
    if q > 1 - 1 / math.e:
        return np.full(a.shape, math.inf)
    second = float(_log_expm1(checked_curve(base, np.array([2.0])))[0])

    def value(order: float) -> float:
        first = 1 - math.log(2) + math.log(order) + math.log(order - 1) + 2 * math.log(q) + second
        w = order * np.concatenate([[1.0], 1 + np.geomspace(1e-3, 1e3, 61)]) if auxiliary is None else np.array([float(auxiliary)])
        least = math.inf
        for _ in range(4):
            log_rest = w * math.log((order - 1) * q) + (w - 1) * checked_curve(base, w)
            at = int(np.argmin(log_rest))
            least = min(least, float(log_rest[at]))
            w = np.linspace(w[max(at - 1, 0)], w[min(at + 1, len(w) - 1)], 33)
        return float(np.logaddexp(0.0, np.logaddexp(first, least))) / (order - 1)

    return np.array([value(float(x)) if x < math.inf else math.inf for x in a.ravel()]).reshape(a.shape)


def lower(orders: ArrayLike, rate: Number, base: Curve) -> Array:
    """eps(a) - a/(a-1) log(1/q): no bound for a pair whose divergence is exactly eps(a) can be smaller (Steinke, section 3.6).

    >>> lower([6, 8], 0.05, lambda a: a / 2).round(8)
    array([0.        , 0.57630597])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    if q == 0:
        return np.zeros(a.shape)
    return np.maximum(0.0, checked_curve(base, a) + math.log(q) / (1 - 1 / a))


def truncated_concentrated(rate: Number, rho: Number) -> tuple[float, float]:
    """(10 q^2 rho, w): sampling a rho-concentrated mechanism is that truncated-concentrated, eps(a) <= 10 q^2 rho a for 1 < a < w.

    Steinke, Theorem 3.37. For planning and asymptotics; `best` is always smaller. Refuses where the theorem does not apply:
    it needs q <= 1/2, rho <= 1 and w = min(log(1/q)/(4 rho), 1 + q^(-1/4)) >= 3 + 2 log(1/rho)/log(1/q).

    >>> truncated_concentrated(1e-3, 0.1)
    (1.00...e-06, 6.623413...)
    """
    q, r = float(positive("rate", rate)), float(positive("rho", rho))
    if q > 0.5 or r > 1:
        raise UnsupportedError(f"this theorem needs rate <= 1/2 and rho <= 1, not rate={q}, rho={r}; use best() instead")
    w = min(math.log(1 / q) / (4 * r), 1 + q**-0.25)
    need = 3 + 2 * math.log(1 / r) / math.log(1 / q)
    if w < need:
        raise UnsupportedError(f"this theorem needs w >= {need:.6g} and has w = {w:.6g} at rate={q}, rho={r}; use best() instead")
    return 10 * q * q * r, w


# ---- the sampled Gaussian, exactly --------------------------------------------------------------------------------------------------


def _log_gap(power: float, ell: Array) -> Array:
    """log of (1+y)^c - 1 - c y with ell = log(1+y), for c > 1 or c < 0: a convex function minus its tangent, so never negative."""
    scaled = power * ell
    large = np.maximum(scaled, ell) > 300
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        near = np.log(np.maximum(exp_excess(np.minimum(scaled, 301)) - power * exp_excess(np.minimum(ell, 301)), 0.0))
        by_power = scaled + np.log1p(-np.minimum(power * np.exp(ell - scaled) + (1 - power) * np.exp(-scaled), 1.0))
        by_line = ell + math.log(abs(power)) + np.log1p(-(1 + 1 / abs(power)) * np.exp(-np.maximum(ell, 0)))
    return np.where(large, np.where(scaled >= ell, by_power, by_line), near)


def _log_moment(power: float, rate: float, mu: float) -> float:
    """log E[(1 - q + q e^(mu z - mu^2/2))^c] for z normal and c > 1 or c < 0; infinity where the quadrature would be too large.

    The trapezoidal rule is wrong by at most 2 e^(-2 pi d/h) times the integral moved by i d, if no singularity lies between; the nearest
    is at i pi/mu. There the Gaussian grows by e^(d^2/2) and, for negative c, the power by cos(mu d/2)^c; h makes it all e^-80.
    As E[y] = 0 only the non-negative part beyond the tangent is summed, so tiny moments keep their relative accuracy.
    """

    def log_integrand(z: Array) -> Array:
        return -z * z / 2 + _log_gap(power, np.asarray(amplified_epsilon(rate, mu * z - mu * mu / 2)))

    d = min(2 / mu, math.sqrt(80 / (0.5 + max(0.0, -power) * mu * mu / 8)))
    step = 2 * math.pi * d / (80 + d * d / 2 + min(0.0, power) * math.log(math.cos(mu * d / 2)))
    left, right = min(0.0, power) * mu - 14, max(1.0, power) * mu + 14
    if (right - left) / min(step, 0.25) > _NODES:
        return math.inf
    scan = np.linspace(left, right, max(64, math.ceil((right - left) / 0.25)))
    height = log_integrand(scan)
    kept = np.flatnonzero(height > height.max() - 60)
    left, right = scan[max(kept[0] - 1, 0)], scan[min(kept[-1] + 1, len(scan) - 1)]
    z = np.arange(left, right + step, step)
    total = float(logsumexp(log_integrand(z))) + math.log(step) - 0.5 * math.log(2 * math.pi)
    rounding = 1e-12 + 1e-15 * max(left * left, right * right)
    return float(np.logaddexp(0.0, total + rounding))


def gaussian(orders: ArrayLike, rate: Number, noise_multiplier: Number, direction: Direction = "both") -> Array:
    """The exact Rényi divergence of the Poisson-sampled Gaussian at real orders, in one direction or the larger of the two.

    "remove" is D((1-q)N(0) + qN(1) || N(0)) and always the larger one, "add" the reverse (Mironov, Talwar, Zhang 2019). Where a
    quadrature would be too large (orders in the tens of thousands, or little noise) the value is the smaller of two close upper bounds.

    >>> gaussian([2, 8], 0.05, 1, "add").round(10)
    array([0.00332903, 0.00973661])
    """
    a, q, mu = orders_above_one(orders), float(probability("rate", rate)), 1 / float(positive("noise_multiplier", noise_multiplier))
    if direction not in ("remove", "add", "both"):
        raise ParameterError(f"direction must be 'remove', 'add' or 'both', not {direction!r}")
    if q == 0:
        return np.zeros(a.shape)
    if q == 1:
        return a * (mu * mu / 2)
    add = direction == "add"

    def base(x: Array) -> Array:
        return x * (mu * mu / 2)

    bound = np.minimum(poisson(a, q, base), single_order(a, q, base))

    def value(order: float, upper: float) -> float:
        if order == math.inf:
            return -math.log1p(-q) if add else math.inf
        if not add and order == int(order) and order <= _LARGEST:
            return upper  # the sharp formula is exact at integers
        exact = _log_moment(1 - order if add else order, q, mu) / (order - 1)
        return min(exact, upper, -math.log1p(-q) if add else math.inf)

    return np.array([value(float(x), float(u)) for x, u in zip(a.flat, bound.flat, strict=True)]).reshape(a.shape)


# ---- fixed-size samples, replace-one ------------------------------------------------------------------------------------------------


def without_replacement_group(orders: ArrayLike, rate: Number, base: Curve) -> Array:
    """Fixed-size sampling by a step through the sample without the record (Steinke, section 3.7), base and result under replace-one.

    D_a(qP + (1-q)R || qP' + (1-q)R) <= s/(s-1) B(a(s-1)/(s-a)) + B(s), least over s > a, where B is the Poisson-type bound on
    each half. The order a(s-1)/(s-a) is the one the proof gives; the two printed versions are smaller and false.

    >>> without_replacement_group([2], 0.01, lambda a: a / 8).round(10)
    array([0.0001141...])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    top = min(4096.0, 4 * float(np.max(a[np.isfinite(a)], initial=2.0)) + 64)
    grid = np.unique(np.concatenate([np.arange(2.0, 65), np.round(np.geomspace(64, max(top, 65), 160))]))
    values = np.minimum(np.minimum(poisson(grid, q, base), single_order(grid, q, base)), checked_curve(base, grid))

    def value(order: float) -> float:
        if order == math.inf:
            return 2 * float(poisson(np.array(math.inf), q, base))
        split = grid[grid > order]
        if split.size == 0:
            return math.inf
        half = interpolate(order * (split - 1) / (split - order), grid, values)
        return float(np.min(split / (split - 1) * half + values[grid > order]))

    return np.array([value(float(x)) for x in a.ravel()]).reshape(a.shape)


def without_replacement_moments(orders: ArrayLike, rate: Number, base: Curve, pure_epsilon: float = math.inf) -> Array:
    """Fixed-size sampling by the moments of the ratio (Wang, Balle, Kasiviswanathan 2019, Theorem 9), base and result under replace-one.

    Proof: with q = m/n both output laws share (1-q)R, so their ratio is 1 + q (P - P')/W, W = (1-q)R + qP', and its a-th moment is
    1 + sum_(j>=2) C(a,j) q^j E_W[((P-P')/W)^j], the first moment being zero. x^j/w^(j-1) is jointly convex, so each moment is at most
    that of three mutual neighbours p, p', r: for j = 2 at most 2 E_r[((p-r)/r)^2] + 2 E_r[((p'-r)/r)^2] <= 4(e^eps(2) - 1), and for every j
    at most E_r[(p^j + p'^j)/r^j] <= 2 e^((j-1) eps(j)), or with |p - p'| <= (e^pure - 1) min(p, p') a factor (e^pure - 1)^j instead of 2.

    >>> without_replacement_moments([2], 0.01, lambda a: a / 8).round(10)
    array([0.0001136])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    if q == 0:
        return np.zeros(a.shape)
    flat = a.ravel()
    finite = flat[flat <= _LARGEST]
    j = np.arange(2.0, math.ceil(finite.max() if finite.size else 2.0) + 1)
    curve = checked_curve(base, j)
    log_pure = float(_log_expm1(np.asarray(float(pure_epsilon))))
    log_terms = (j - 1) * curve + np.minimum(math.log(2), j * log_pure)
    log_terms[0] = min(log_terms[0], math.log(4) + float(_log_expm1(curve[:1])[0]))
    return _from_integers(flat, lambda order: _binomial_sum(order, log_terms, q, dilute=False) / (order - 1)).reshape(a.shape)


def without_replacement_convex(orders: ArrayLike, rate: Number, base: Curve) -> Array:
    """log(1 - q + q e^((a-1) eps(a)))/(a-1): with chance 1-q the samples agree, and e^((a-1)D) is jointly convex.

    Best at very large orders. At infinite order it is log(1 + q(e^eps - 1)) (Balle, Barthe, Gaboardi 2018, Theorem 9).

    >>> without_replacement_convex([2.0, np.inf], 0.1, lambda a: np.ones_like(a)).round(10)
    array([0.15856508, 0.15856508])
    """
    a, q = orders_above_one(orders), float(probability("rate", rate))
    scale = np.where(np.isinf(a), 1.0, a - 1)
    return np.asarray(amplified_epsilon(q, scale * checked_curve(base, a)) / scale)


def best(orders: ArrayLike, rate: Number, base: Curve, scheme: Scheme = "poisson", pure_epsilon: float = math.inf) -> Array:
    """The least of all valid bounds, never more than the unsampled curve.

    For "poisson", base and result are under add/remove; for "without replacement" (rate m/n) under replace-one.

    >>> best([2], 0.01, lambda a: a / 8, "without replacement").round(10)
    array([0.0001136])
    """
    a = orders_above_one(orders)
    if scheme == "poisson":
        bounds = [poisson(a, rate, base), single_order(a, rate, base), analytic(a, rate, base)]
    elif scheme == "without replacement":
        moments = without_replacement_moments(a, rate, base, pure_epsilon)
        bounds = [without_replacement_group(a, rate, base), moments, without_replacement_convex(a, rate, base)]
    else:
        raise ParameterError(f"scheme must be 'poisson' or 'without replacement', not {scheme!r}")
    return np.asarray(np.minimum.reduce([*bounds, checked_curve(base, a)]))
