"""Noise that many clients draw and only the sum of which is seen: Rényi curves of both laws.

The sum of n discrete Gaussian variables is not discrete Gaussian, but as close to it as `gaussian_closeness`
says (tau). The sum of Skellam variables is Skellam. Queries are vectors of whole numbers, known by their l2
and l1 sensitivities.

>>> gaussian_closeness(1, 100) < 5.5e-4 < gaussian_closeness(0.99, 100)
True
>>> skellam([2, 8], variance=100, sensitivity=5, l1=25).round(6)
array([0.255625, 1.013125])
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting.theorems.renyi import Array, orders_above_one
from tacit.errors import ParameterError
from tacit.parameters import count, positive

LEAST_SIGMA = 0.5  # of a share: below it the theorem on sums of discrete Gaussians says nothing
_TERMS = 10**5
_UP = 1 + 1e-12  # rounding of a sum of terms that all have one sign


def gaussian_closeness(sigma: float, clients: int) -> float:
    """tau, rounded up: the sum of so many discrete Gaussians of parameter sigma has log-masses within tau of
    one discrete Gaussian's.

    tau = 10 sum over k < clients of exp(-2 pi^2 sigma^2 k / (k + 1)) (Kairouz, Liu, Steinke 2021, Theorem 11,
    for sigma >= 1/2). Terms fall in k, so what follows the first 100,000 is at most that often the next one.

    >>> round(gaussian_closeness(2, 100) * 1e17, 3), gaussian_closeness(0.4, 1)
    (7.157, 0.0)
    """
    sigma, terms = float(positive("sigma", sigma)), count("clients", clients) - 1
    if terms == 0:
        return 0.0
    if sigma < LEAST_SIGMA:
        raise ParameterError(
            f"sigma of a share must be at least {LEAST_SIGMA} for the theorem on sums, not {sigma}"
        )
    k = np.arange(1.0, min(terms, _TERMS) + 1)
    total = float(np.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)).sum())
    if terms > _TERMS:
        total += (terms - _TERMS) * math.exp(-2 * math.pi**2 * sigma**2 * (_TERMS + 1) / (_TERMS + 2))
    return 10 * total * _UP


def discrete_gaussian_sum(
    orders: ArrayLike, sigma: float, clients: int, sensitivity: float, l1: float, dimension: int
) -> Array:
    """The sum of so many discrete Gaussians of parameter sigma in each of `dimension` coordinates.

    With D = sensitivity / (sqrt(clients) sigma), D1 the same for l1 and tau of `gaussian_closeness`, the
    divergence of order a is at most the least of a D^2 / 2 + tau d, a (D^2 + 2 D1 tau + tau^2 d) / 2 and a (D
    + sqrt(d) tau)^2 / 2 (Kairouz, Liu, Steinke 2021, Proposition 14). The last two are zCDP guarantees, whose
    rho `discrete_gaussian_sum_rho` gives.

    >>> discrete_gaussian_sum([2.0], 3.2206, 1000, 101.843, 3258.98, 1024).round(4)
    array([1.])
    """
    a = orders_above_one(orders)
    tau = gaussian_closeness(sigma, clients)
    apart = float(positive("sensitivity", sensitivity)) / (math.sqrt(clients) * float(sigma))
    linear = a * discrete_gaussian_sum_rho(sigma, clients, sensitivity, l1, dimension)
    return np.asarray(np.minimum(a * (apart**2 / 2 * _UP) + tau * dimension, linear))


def discrete_gaussian_sum_rho(
    sigma: float, clients: int, sensitivity: float, l1: float, dimension: int
) -> float:
    """rho for which that sum is zCDP, rounded up.

    >>> round(discrete_gaussian_sum_rho(4, 100, 40, 1600, 1024), 9)
    0.5
    """
    tau, d = gaussian_closeness(sigma, clients), count("dimension", dimension)
    spread = math.sqrt(clients) * float(sigma)
    apart, apart_l1 = float(sensitivity) / spread, float(positive("l1", l1)) / spread
    return min(apart**2 + 2 * apart_l1 * tau + tau**2 * d, (apart + math.sqrt(d) * tau) ** 2) / 2 * _UP


def skellam(orders: ArrayLike, variance: float, sensitivity: float, l1: float) -> Array:
    """Skellam noise of this variance in each coordinate.

    At a *whole* order a the divergence is at most a D2^2 / (2 v) + min(((2 a - 1) D2^2 + 6 D1) / (4 v^2), 3
    D1 / (2 v)) (Agarwal, Kairouz, Liu 2021, Theorem 3.5). Between whole orders (a - 1) times the divergence
    is convex, so chords are bounds; below 2 the divergence is at most that of order 2.

    >>> skellam([1.5, 2, np.inf], variance=100, sensitivity=5, l1=25).round(6)
    array([0.255625, 0.255625,      inf])
    """
    a = orders_above_one(orders)
    v, d2 = float(positive("variance", variance)), float(positive("sensitivity", sensitivity)) ** 2
    d1 = float(positive("l1", l1))

    def scaled(whole: Array) -> Array:
        """(a - 1) times the bound at whole orders, zero at 1."""
        slack = np.minimum(((2 * whole - 1) * d2 + 6 * d1) / (4 * v * v), 3 * d1 / (2 * v))
        return np.asarray((whole - 1) * (whole * d2 / (2 * v) + slack))

    below = np.floor(np.where(np.isfinite(a), a, 2.0))
    part = np.where(np.isfinite(a), a, 2.0) - below
    with np.errstate(over="ignore"):
        chord = (1 - part) * scaled(below) + part * scaled(below + 1)
        value = chord / np.maximum(below - 1 + part, 2.0**-60)
    return np.where(np.isfinite(a), value * _UP, np.inf)
