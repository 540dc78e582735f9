"""Private selection: run a mechanism a random number of times, publish the best run only. The price is a small multiple of one run.

The number of runs K is secret and drawn once: a negative binomial law cut to K >= 1 with shape `shape` > -1 (1: geometric, the scheme
of Liu and Talwar 2019; 0: logarithmic), or a Poisson law (shape infinite), for which K = 0 publishes a fixed symbol. "Best" means
any total order on the outputs that was fixed in advance. The bounds sharpen Theorems 2 and 6 of Papernot and Steinke (2022); the
relation is that of the base.

>>> pure(0.1, shape=1), pure(0.1, shape=0)                    # 3 epsilon for geometric, 2 epsilon for logarithmic
(0.30000000000000004, 0.2)
>>> renyi([8.0], lambda a: a * 0.005, mean=10, shape=0).round(3)    # one run costs 0.04 at this order
array([0.417])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.special import gammaln
from tacit.accounting.theorems.conversions import delta_from_curve, minimise
from tacit.accounting.theorems.renyi import checked_curve, orders_above_one
from tacit.errors import ParameterError
from tacit.parameters import Number, count, nonnegative, number, positive, probability

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]
Profile = Callable[[Any], Any]
Law = Callable[[Array], tuple[Array, Array]]  # log f'(1 - e^t) and its derivative in t, for the generating function f of K

_AUXILIARY: Array = 1 + np.logspace(-3, 4, 113)  # any orders give a valid bound; these are close enough to the best ones


def _shape(shape: Number) -> float:
    eta = float(number("shape", shape))
    if not -1 < eta < math.inf:
        raise ParameterError(f"shape must be greater than -1 and finite, not {eta}; 1 is geometric, 0 logarithmic")
    return eta


def _log_expm1(x: float) -> float:
    return x + math.log(-math.expm1(-x)) if x > 0 else -math.inf


def _log_mean(log_inverse: float, eta: float) -> float:
    """log E[K] as a function of u = log(1/gamma): E[K] = eta (e^u - 1)/(1 - e^(-eta u)), or (e^u - 1)/u for shape 0."""
    u = log_inverse
    if u == 0:
        return 0.0
    if eta == 0:
        return _log_expm1(u) - math.log(u)
    return math.log(abs(eta)) + _log_expm1(u) - (math.log(-math.expm1(-eta * u)) if eta > 0 else _log_expm1(-eta * u))


# ---- the number of runs -------------------------------------------------------------------------------------------------------------


def mean_for(gamma: Number, shape: Number = 1) -> float:
    """The mean number of runs of a truncated negative binomial with parameter `gamma` in (0, 1].

    >>> mean_for(0.1, 1)
    9.99999999...
    """
    g = float(probability("gamma", positive("gamma", gamma)))
    log_mean = _log_mean(-math.log(g), _shape(shape))
    return math.exp(log_mean) if log_mean < 709 else math.inf


def _log_inverse_gamma(mean: Number, shape: Number) -> float:
    """log(1/gamma) for a mean number of runs, rounded up: fewer stops, more runs, a larger bound."""
    m, eta = float(positive("mean", mean)), _shape(shape)
    if m < 1:
        raise ParameterError(f"mean must be at least 1 for a run count of at least one, not {m}")
    if m == 1:
        return 0.0
    target = math.log(m) + 1e-14
    low, high = 0.0, 1.0
    while _log_mean(high, eta) < target:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _log_mean(middle, eta) < target else (low, middle)
    return high


def gamma_for(mean: Number, shape: Number = 1) -> float:
    """The parameter of the truncated negative binomial whose mean number of runs is `mean`, rounded so that the mean is not less.

    >>> gamma_for(10, 1)
    0.09999999999...
    """
    return math.exp(-_log_inverse_gamma(mean, shape))


def run_probability(runs: int, gamma: Number, shape: Number = 1) -> float:
    """P[K = runs]: (1-gamma)^k/(gamma^-eta - 1) prod_(l<k) (l + eta)/(l + 1), or (1-gamma)^k/(k log(1/gamma)) for shape 0.

    >>> round(run_probability(3, 0.5, 1), 12)
    0.125
    """
    k, eta = count("runs", runs), _shape(shape)
    g = float(probability("gamma", positive("gamma", gamma)))
    if g == 1:
        return float(k == 1)
    u, log_power = -math.log(g), k * math.log1p(-g)
    if eta == 0:
        return math.exp(log_power - math.log(k) - math.log(u))
    if eta == 1:
        return math.exp(log_power - _log_expm1(u))
    log_product = float(gammaln(k + eta) - gammaln(eta) - gammaln(k + 1))
    return math.exp(log_power + log_product - (_log_expm1(eta * u) if eta > 0 else math.log(-math.expm1(eta * u))))


# ---- pure privacy -------------------------------------------------------------------------------------------------------------------


def pure(epsilon: Number, shape: Number = 1) -> float:
    """(2 + shape) epsilon, whatever the mean (Liu and Talwar 2019 for shape 1; Papernot and Steinke 2022, Theorem 2 at infinite orders).

    >>> pure(1, 1)
    3.0
    """
    return (2 + _shape(shape)) * float(nonnegative("epsilon", epsilon))


def pure_poisson(epsilon: Number, mean: Number) -> float:
    """epsilon + mean tanh(epsilon/2) for a Poisson number of runs.

    Proof: the chance of publishing y is Q(y) times an average of f' over chances q of one event, f'(q) = mean e^(mean(q-1)). Between
    neighbours Q(y) changes by e^epsilon, and q by at most the total variation tanh(epsilon/2) of an epsilon-private mechanism.

    >>> pure_poisson(0.1, 10)
    0.599583...
    """
    e = float(nonnegative("epsilon", epsilon))
    return e + float(positive("mean", mean)) * math.tanh(e / 2)


# ---- Rényi --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """What is known of one run: its curve on a grid of orders, a guarantee of infinite order, its profile."""

    values: Array
    pure: float
    profile: Profile | None

    def delta(self, x: Array) -> Array:
        """delta at each epsilon, the smaller of what the curve and the profile give (Steinke 2022, Lemma 3.32.8)."""
        with np.errstate(invalid="ignore"):
            log_delta = (_AUXILIARY - 1) * (self.values + np.log1p(-1 / _AUXILIARY) - x[:, None]) - np.log(_AUXILIARY)
        delta = np.exp(np.minimum(np.min(log_delta, axis=1), 0.0))
        delta = np.where(x >= self.pure, 0.0, delta)
        return delta if self.profile is None else np.minimum(delta, np.clip(np.asarray(self.profile(x), dtype=np.float64), 0.0, 1.0))

    def constraints(self, t: Array) -> tuple[Array, Array]:
        """At the left and right end of each interval of `t`: the log of the largest chance s' that goes with a chance s = e^t.

        One event has chance s under one data set and s' under its neighbour. The curve allows s' <= (s e^eps(b))^(1-1/b) for every
        order b; delta(x) allows s' <= e^x s + delta(x) and, for the complement, 1 - s' >= (1 - s - delta(x)) e^-x. Each interval keeps
        the one constraint that is best at its middle, so that within an interval log s' is a known, smooth function.
        """
        middle, x = (t[1:] + t[:-1]) / 2, np.append(0.0, np.geomspace(1e-3, 300, 160))
        delta = self.delta(x)
        kappa, shift = np.append(1 - 1 / _AUXILIARY, [1.0, 0.0]), np.append(self.values, [self.pure, 0.0])  # infinite order, and s' <= 1
        with np.errstate(divide="ignore"):
            factor, offset = np.append(x, -x), np.log(np.append(delta, -np.expm1(-x) + delta * np.exp(-x)))
        power = np.argmin(kappa[:, None] * (middle + shift[:, None]), axis=0)
        line = np.argmin(np.logaddexp(factor[:, None] + middle, offset[:, None]), axis=0)

        def both(at: Array) -> tuple[Array, Array]:
            return kappa[power] * (at + shift[power]), np.logaddexp(factor[line] + at, offset[line])

        by_power, by_line = both(middle)
        left, right = (np.where(by_power <= by_line, *both(at)) for at in (t[:-1], t[1:]))
        return left, right


def _worst(run: _Run, law: Law, scale: float) -> Callable[[float], float]:
    """For each order a, sup of a log f'(1-s) - (a-1) log f'(1-s') over chances s, s' of one event that the run allows, rounded up.

    f is the generating function of K. As functions of log s, log f'(1-s) is concave and -log f'(1-s') convex for each single
    constraint; so on an interval a tangent and a chord bound them, both are linear, and the ends decide. No search can miss.
    """
    t = np.linspace(-scale - 40, 0.0, 4097)
    half = (t[1] - t[0]) / 2
    left, right = run.constraints(t)
    value, slope = law((t[1:] + t[:-1]) / 2)
    ends = [(value - half * slope, law(left)[0]), (value + half * slope, law(right)[0])]
    ends.append((law(np.array([-math.inf]))[0], law(left[:1])[0]))  # all that is left of the grid; the constraints grow with s

    def worst(a: float) -> float:
        result = max(float(np.max(a * first - (a - 1) * second)) for first, second in ends)
        return result + 1e-13 * (abs(result) + a)

    return worst


def curve(
    base: Curve, mean: Number, shape: Number = 1, *, profile: Profile | None = None, pure_epsilon: float = math.inf
) -> Callable[[ArrayLike], Array]:
    """The Rényi curve of the best of K runs, from the curve of one run (in both directions); shape infinite means a Poisson number.

    eps(a) + sup log(f'(q)^a f'(q')^(1-a))/(a-1), where f is the generating function of K and q, q' are the chances of one event under two
    neighbours (Papernot and Steinke 2022, Lemma 7). The supremum is over what the curve allows at all orders together, and the
    privacy profile and the pure guarantee of one run where given; it is much smaller than their Theorems 2 and 6 (`theorem`,
    `theorem_poisson`), which bound it by one order. With a Poisson number the outcome "no run" adds its probability to the moment.

    `base` is evaluated on a grid once, here, and later only at the orders asked for.

    >>> curve(lambda a: a * 0.005, mean=10, shape=1)([2.0, 8.0]).round(2), theorem([2.0, 8.0], lambda a: a * 0.005, mean=10).round(2)
    (array([2.31, 0.43]), array([2.73, 0.79]))
    """
    run = _Run(checked_curve(base, _AUXILIARY), float(pure_epsilon), profile)
    log_mean: float
    empty = -math.inf  # log P[K = 0]
    if shape == math.inf:
        m = float(positive("mean", mean))
        log_mean, empty, limit = math.log(m), -m, pure_poisson(run.pure, m) if run.pure < math.inf else math.inf
        sharp = _worst(run, lambda t: (log_mean - m * np.exp(np.minimum(t, 700)), -m * np.exp(np.minimum(t, 700))), max(0.0, log_mean))

        def with_theorem(order: float) -> float:  # its line need not be among those of the grid
            return min(sharp(order), log_mean + (order - 1) * m * float(run.delta(np.array([-math.log1p(-1 / order)]))[0]))

        worst: Callable[[float], float] = with_theorem
    else:
        eta, u = _shape(shape), _log_inverse_gamma(mean, shape)
        log_mean, limit = _log_mean(u, eta), pure(run.pure, eta) if run.pure < math.inf else math.inf
        log_rest = math.log(-math.expm1(-u)) if u > 0 else -math.inf

        def law(t: Array) -> tuple[Array, Array]:
            part = np.logaddexp(-u, log_rest + t)  # log(gamma + (1-gamma) s)
            return log_mean - (1 + eta) * (u + part), -(1 + eta) * np.exp(log_rest + t - part)

        worst = _worst(run, law, u)

    def value(order: float, eps: float) -> float:
        if order == math.inf or eps == math.inf:
            return limit
        return min(limit, float(np.logaddexp(empty, (order - 1) * eps + worst(order))) / (order - 1))

    def evaluate(orders: ArrayLike) -> Array:
        a = orders_above_one(orders)
        return np.array([value(float(x), float(v)) for x, v in zip(a.flat, checked_curve(base, a).flat, strict=True)]).reshape(a.shape)

    return evaluate


def renyi(
    orders: ArrayLike, base: Curve, mean: Number, shape: Number = 1, *, profile: Profile | None = None, pure_epsilon: float = math.inf
) -> Array:
    """`curve` at the given orders.

    >>> renyi([2.0, np.inf], lambda a: np.full_like(a, 0.1), mean=4, shape=1, pure_epsilon=0.1).round(6)
    array([0.3, 0.3])
    """
    return curve(base, mean, shape, profile=profile, pure_epsilon=pure_epsilon)(orders)


def theorem(orders: ArrayLike, base: Curve, mean: Number, shape: Number = 1) -> Array:
    """eps(a) + (1+eta)((1 - 1/b) eps(b) + log(1/gamma)/b) + log(mean)/(a-1), least over b >= 1 (Papernot and Steinke 2022, Theorem 2).

    >>> theorem([8.0], lambda a: a * 0.005, mean=10, shape=0).round(6)
    array([0.632825])
    """
    a, eta, u = orders_above_one(orders), _shape(shape), _log_inverse_gamma(mean, shape)

    def auxiliary(b: Array) -> Array:
        return np.asarray((1 - 1 / b) * np.asarray(base(b), dtype=np.float64) + u / b)

    least = min(u, minimise(auxiliary)[1])  # b = 1 leaves log(1/gamma)
    return np.asarray(checked_curve(base, a) + (1 + eta) * least + _log_mean(u, eta) / (a - 1))


def theorem_poisson(orders: ArrayLike, base: Curve, mean: Number, profile: Profile | None = None) -> Array:
    """log(e^-mean + mean e^((a-1)(eps(a) + mean delta)))/(a-1), where delta is that of one run at e^epsilon = 1 + 1/(a-1).

    Papernot and Steinke 2022, Theorem 6, plus the probability e^-mean that there is no run at all. The short form
    eps(a) + mean delta + log(mean)/(a-1) leaves that out, and is even negative for small means. delta comes from `profile` where
    given, else from the curve.

    >>> theorem_poisson([8.0], lambda a: a * 0.005, mean=10).round(6)
    array([0.468312])
    """
    a, m = orders_above_one(orders), float(positive("mean", mean))

    def value(order: float, eps: float) -> float:
        if order == math.inf or eps == math.inf:
            return math.inf
        allowed = -math.log1p(-1 / order)
        delta = min(1.0, float(profile(allowed))) if profile is not None else delta_from_curve(base, allowed)
        return float(np.logaddexp(-m, math.log(m) + (order - 1) * (eps + m * delta))) / (order - 1)

    return np.array([value(float(x), float(v)) for x, v in zip(a.flat, checked_curve(base, a).flat, strict=True)]).reshape(a.shape)
