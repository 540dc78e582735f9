"""How far an answer that combines many noisy sums may be off.

A combination of Gaussian noises is Gaussian. A combination of Laplace noises lies between Laplace and Gaussian, as its
fourth moment tells: it is taken as a sum of m equal Laplace variables with the same second and fourth moments, whose
law is known (the variance-gamma law).

>>> widths = half_widths(np.array([1.0]), np.array([1.0]), "laplace", 0.95)
>>> round(float(widths[0]), 3)  # one Laplace variable of scale 1: log 20
2.996
>>> round(float(half_widths(np.array([4.0]), None, "gaussian", 0.95)[0]), 4)
3.9199
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtr

from tacit.mechanisms import Law
from tacit.workloads.workload import Array

#: Numbers of variables at which quantiles are worked out; in between they are interpolated.
GRID = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 16.0, 20.0, 32.0, 64.0, 128.0, 1024.0)


def half_widths(squares: Array, fourths: Array | None, law: Law, confidence: float) -> Array:
    """What each combination exceeds with probability 1 - confidence, for noise of scale 1.

    `squares` and `fourths` are the sums of squares and of fourth powers of its weights. Without fourth powers a
    Laplace combination gets the widest of the family, which is never too narrow for confidences of 0.9 and more.
    """
    if law == "gaussian":
        return np.asarray(np.sqrt(squares) * -NormalDist().inv_cdf((1 - confidence) / 2))
    grid = quantiles(confidence)
    if fourths is None:
        return np.asarray(np.sqrt(2 * squares) * grid.max())
    equal = np.maximum(squares, 1e-300) ** 2 / np.maximum(fourths, 1e-300)
    return np.asarray(np.sqrt(2 * squares) * np.interp(np.log(equal), np.log(GRID), grid))


def lifts(squares: Array, fourths: Array | None, law: Law) -> Array:
    """What moving figures below 0 to 0 adds on average to a figure that is truly 0: half the mean size of its noise.

    For one Laplace variable of scale b that is b / 2, for a normal one of deviation s it is s / sqrt(2 pi). Without fourth
    powers a Laplace combination gets the normal figure, the largest of the family.

    >>> lifts(np.array([9.0]), np.array([81.0]), "laplace").round(9).tolist()
    [1.5]
    """
    if law == "gaussian":
        return np.asarray(np.sqrt(squares / (2 * math.pi)))
    if fourths is None:
        return np.asarray(np.sqrt(squares / math.pi))
    equal = np.maximum(squares, 1e-300) ** 2 / np.maximum(fourths, 1e-300)
    # sqrt(2 G) Z has the mean size sqrt(2 / pi) * sqrt(2) * Gamma(m + 1/2) / Gamma(m).
    sizes = np.exp(gammaln(equal + 0.5) - gammaln(equal)) / np.sqrt(equal)
    return np.asarray(np.sqrt(squares / math.pi) * sizes)


@lru_cache(maxsize=32)
def quantiles(confidence: float) -> Array:
    """The quantile of |sum of m Laplace variables| over its deviation, for each m of the grid.

    The sum is sqrt(2 G) Z with G of the Gamma law with shape m and Z normal.
    """
    points = (np.arange(20_000) + 0.5) / 20_000
    found = []
    for m in GRID:
        deviations = np.sqrt(2 * gammaincinv(m, points))
        low, high = 0.0, 60.0
        for _ in range(60):
            middle = (low + high) / 2
            outside = float((2 * ndtr(-middle * math.sqrt(2 * m) / deviations)).mean())
            low, high = (middle, high) if outside > 1 - confidence else (low, middle)
        found.append((low + high) / 2)
    return np.array(found)
