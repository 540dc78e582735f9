"""From Rényi and concentrated differential privacy to (eps, delta) and back: every figure is a valid bound, on the safe side.

Each conversion minimises over orders, and any order gives a valid figure, so the result is an upper bound whatever the minimiser does; a
budget (`zcdp_rho`, `zcdp_rho_basic`) is rounded down until its own conversion keeps to (eps, delta). Infinity is a value. The curves that
are converted come from `tacit.accounting.theorems.renyi`.

>>> from tacit.accounting.theorems.renyi import randomised_response
>>> round(epsilon_from_curve(lambda a: 100 * randomised_response(a, 0.1), 1e-6), 8)
5.07310617
>>> round(zcdp_epsilon(0.5, 1e-6), 8)
5.22153444
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting.theorems.renyi import Array, Curve
from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, number, positive, probability

# --- concentrated ---------------------------------------------------------------------------------------------------------


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
    return 1 + _above(lambda s: (1 + 2 * s) * rho - eps + math.log(s) - math.log1p(s) < 0, low, high)


def _above(below: Callable[[float], bool], low: float, high: float) -> float:
    """The end, above, of where `below` holds, by bisection to the last bit."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return high


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
    start = min(math.sqrt(log / rho), math.expm1(min(log, 700.0)))
    high = _above(lambda s: rho * s**2 + math.log1p(s) < log, 0.0, start)
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
    _, rho = minimise(lambda a: -rdp_budget(a, eps, delta) / a)
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


def _tcdp(rho: float, omega: float, delta: float) -> tuple[float, float, float]:
    last = float(number("omega", omega))
    if last <= 1:
        raise ParameterError(f"omega must be greater than 1, not {last}")
    return float(nonnegative("rho", rho)), last, float(probability("delta", delta))


def tcdp_epsilon_basic(rho: float, omega: float, delta: float) -> float:
    """(rho, omega)-tCDP to (eps, delta) by the basic conversion (Bun, Dwork, Rothblum, Steinke 2018, Lemma 6).

    >>> round(tcdp_epsilon_basic(0.1, 6.0, 1e-6), 9)
    3.363102112
    """
    rho, omega, delta = _tcdp(rho, omega, delta)
    if delta == 0 or rho == 0 or -math.log(delta) <= (omega - 1) ** 2 * rho:
        return zcdp_epsilon_basic(rho, delta)
    return rho * omega - math.log(delta) / (omega - 1)


def tcdp_epsilon(rho: float, omega: float, delta: float) -> float:
    """(rho, omega)-tCDP to (eps, delta) by the improved conversion at the best order up to omega.

    >>> round(tcdp_epsilon(0.1, 6.0, 1e-6), 9)
    2.822428661
    """
    rho, omega, delta = _tcdp(rho, omega, delta)
    # the objective decreases up to the best order of zCDP, so the last order allowed is best if that one is not
    slope = rho * (omega - 1) ** 2 + math.log(omega) + math.log(delta) if delta > 0 and omega < math.inf else math.inf
    return zcdp_epsilon(rho, delta) if slope >= 0 or rho == 0 else rdp_epsilon(omega, omega * rho, delta)


def minimise(objective: Curve) -> tuple[float, float]:
    """(order, value) of the least objective over orders > 1: a grid in log(a - 1), then finer grids round the best point.

    Every order gives a valid figure, so what is found is one too, whether or not it is the least.

    >>> order, value = minimise(lambda a: a + 4 / (a - 1))
    >>> round(order, 3), round(value, 9)
    (3.0, 5.0)
    """
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

    >>> from tacit.accounting.theorems import renyi
    >>> round(epsilon_from_curve(lambda a: renyi.gaussian(a, 1.0), 1e-5), 6)  # the exact Gaussian has 4.377
    4.728387
    """
    delta = float(probability("delta", delta))
    if delta == 0:
        return rdp_epsilon(np.inf, curve(np.asarray(np.inf)), 0.0)
    return max(0.0, minimise(lambda a: _epsilons(a, np.asarray(curve(a)), delta))[1])


def order_from_curve(curve: Curve, delta: float) -> float:
    """The order at which `epsilon_from_curve` is reached.

    >>> from tacit.accounting.theorems import renyi
    >>> round(order_from_curve(lambda a: 100 * renyi.randomised_response(a, 0.1), 1e-6), 3)
    6.326
    """
    delta = float(probability("delta", delta))
    return math.inf if delta == 0 else minimise(lambda a: _epsilons(a, np.asarray(curve(a)), delta))[0]


def delta_from_curve(curve: Curve, eps: float) -> float:
    """The least delta of the improved conversion over all real orders > 1.

    >>> from tacit.accounting.theorems import renyi
    >>> round(delta_from_curve(lambda a: renyi.gaussian(a, 1.0), 1.0), 9)
    0.246846331
    """
    eps = float(nonnegative("eps", eps))

    def log_delta(a: Array) -> Array:
        return np.asarray((a - 1) * (curve(a) - eps + np.log1p(-1 / a)) - np.log(a))

    return min(1.0, math.exp(min(0.0, minimise(log_delta)[1])))
