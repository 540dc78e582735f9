"""Where to lay the contour: the composed cumulant on the real axis, and the saddle-point estimate of the whole privacy curve.

Nothing here is certified except `upper_levels`; it only decides which computation is cheap.

>>> from tacit.accounting.mixture import gaussian
>>> table = plan([(gaussian(1.0), 1)], np.array([4.0]))
>>> float(table.mean[0])  # the tilted loss of a Gaussian has mean c + 1/2
4.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pairs import Array, Pair

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


@dataclass(frozen=True, slots=True)
class Plan:
    """K and its derivatives on a grid of tilts: enough to choose the line, and a saddle-point estimate of the whole curve."""

    c: Array
    level: Array
    mean: Array
    variance: Array

    @property
    def epsilon(self) -> Array:
        """The epsilon whose saddle point each tilt is."""
        return self.mean - 1 / self.c - 1 / (self.c + 1)

    @property
    def log_delta(self) -> Array:
        """The saddle-point estimate of log delta there."""
        curvature = self.variance + self.c**-2 + (self.c + 1) ** -2
        return self.level - self.c * self.epsilon - np.log(self.c) - np.log1p(self.c) - 0.5 * np.log(2 * math.pi * curvature)


def plan(components: Components, c: Array) -> Plan:
    """Tabulate the composed cumulant on the real axis."""
    found = tabulated(components, c)
    if found is None:
        raise Declined("a pair has no quadrature")
    return found


def tabulated(components: Components, c: Array) -> Plan | None:
    """The same, or None where a pair has no quadrature."""
    level, mean, variance = np.zeros(len(c)), np.zeros(len(c)), np.zeros(len(c))
    for pair, count in components:
        found = pair.moments(c)
        if found is None:
            return None
        k0, k1, k2 = found
        level, mean, variance = level + count * k0, mean + count * k1, variance + count * k2
    return Plan(c, level, mean, variance)


def search(components: Components, inside: Callable[[Plan], NDArray[np.bool_]]) -> Plan:
    """A fine plan around the tilt at which `inside` turns from true to false, found from a coarse one."""
    low, high = 1e-2, 1e2
    for _ in range(12):
        try:
            coarse = plan(components, np.geomspace(low, high, 25))
        except OverflowError:
            high = math.sqrt(low * high)
            if high < 4 * low:
                raise Declined("the tilt is out of reach") from None
            continue
        flags = inside(coarse)
        if flags[-1]:
            low, high = high / 4, high * 100
        elif not flags[0]:
            low, high = low / 100, low * 4
        else:
            k = int(np.argmin(flags))
            centre = float(coarse.c[k])
            try:
                return plan(components, centre * np.concatenate([np.geomspace(0.25, 1.6, 33), [2.0, 3.0, 5.0]]))
            except OverflowError:
                return plan(components, centre * np.geomspace(0.25, 1.6, 33))
    raise Declined("no saddle point in reach")


def upper_levels(components: Components, c: Array) -> Array | None:
    """Upper bounds on K at several tilts; None where a pair has no quadrature."""
    found = tabulated(components, c)
    return None if found is None else inflated(found.level)


def inflated(level: Array) -> Array:
    """Planning figures are accurate to about 1e-13 of their terms; this makes them upper bounds."""
    return level + 1e-9 * (1 + np.abs(level))
