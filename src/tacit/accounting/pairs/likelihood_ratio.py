"""The likelihood ratio of one step, and lattice laws above and below it in the convex order: what random allocation adds up.

Guarantees: `spread` is larger than the capped ratio in the convex order and `contract` is smaller, both with its mean, so that every
expectation of a convex function of a sum of such ratios lies between the two. Both errors are of second order in the step.

>>> law = spread(GaussianRatio(1.0), 0.01, 1000)
>>> bool(abs(law.mass.sum() - 1) < 1e-12)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Protocol

import numpy as np

from tacit.accounting.pairs.pair import Array
from tacit.accounting.special import ndtr
from tacit.accounting.theorems import gaussian
from tacit.parameters import Number, positive


class Ratio(Protocol):
    """The likelihood ratio Y = dP/dQ of one step, as a random variable under Q."""

    def __hash__(self) -> int: ...

    def sketch(self, top: float) -> tuple[Array, Array]:
        """Values of min(Y, top) in increasing order and log-weights: a rough quadrature that plans, and never enters a bound."""

    def tail(self, y: float) -> tuple[float, float]:
        """Q(Y > y) and E_Q[(Y - y)_+], the latter with the P-mass that Q does not have."""

    def head(self, y: float) -> tuple[float, float]:
        """Q(Y <= y) and E_Q[Y; Y <= y]."""

    def cells(self, edge: float, offset: float, step: float, count: int) -> tuple[Array, Array]:
        """The mass in each cell from offset + i step to the next, of Y > edge only, split linearly onto the cell's two ends."""


@lru_cache(maxsize=8)
def _gauss_legendre(points: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(points)
    return (x + 1) / 2, w / 2


@dataclass(frozen=True)
class GaussianRatio:
    """Y = exp(z/sigma - 1/(2 sigma^2)) with z standard normal: one Gaussian sum of l2 sensitivity 1.

    >>> GaussianRatio(1.0).tail(1.0)[1] == gaussian.delta(1.0, 0.0)
    True
    """

    sigma: float

    def sketch(self, top: float) -> tuple[Array, Array]:
        end = min(float(self.z(top)), 20 + 1 / self.sigma)
        fine = end - 0.125 * np.array([0.85, 0.68, 0.5, 0.37, 0.25, 0.17, 0.1, 0.05, 0.02, 0.0])  # tilts make the last stretch count
        z = np.concatenate([np.arange(min(-20.0, end - 4), end - 0.125, 0.125), fine])
        weight = np.exp(-0.5 * z * z) * np.diff(np.concatenate([z[:1], (z[1:] + z[:-1]) / 2, z[-1:]])) / math.sqrt(2 * math.pi)
        weight[-1] += ndtr(-end)
        return np.exp(np.clip(z / self.sigma - 0.5 / self.sigma**2, -700, 700)), np.log(np.maximum(weight, 1e-320))

    def z(self, y: float | Array) -> Array:
        """The z at which the ratio is y."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.sigma * np.log(y) + 0.5 / self.sigma)

    def tail(self, y: float) -> tuple[float, float]:
        return float(ndtr(-self.z(y))), gaussian.delta(1 / self.sigma, math.log(y)) if y > 0 else 1.0

    def head(self, y: float) -> tuple[float, float]:
        z = float(self.z(y))
        return float(ndtr(z)), float(ndtr(z - 1 / self.sigma))

    def cells(self, edge: float, offset: float, step: float, count: int) -> tuple[Array, Array]:
        low, high = np.zeros(count), np.zeros(count)
        wide = max(self.sigma, 1.0)
        # Near zero a cell spans many scales of Y: integrate over short pieces of z. The integrands are positive, so nothing cancels.
        first = min(count, int(64 * wide) + 64)
        edges = offset + step * np.arange(first + 1, dtype=float)
        edges[0] = max(edge, offset)
        ends = np.clip(self.z(edges), -39.0, 39.0)
        grid = np.arange(-39 * 16, 39 * 16 + 1) / 16
        points = np.union1d(ends, grid[(grid > ends[0]) & (grid < ends[-1])])
        u, w = _gauss_legendre(8)
        left, width = points[:-1, None], np.diff(points)[:, None]
        cell = np.clip(np.searchsorted(ends, points[:-1] + 0.5 * width[:, 0]) - 1, 0, first - 1)
        z = left + width * u
        mass = np.exp(-0.5 * z * z) * (w / math.sqrt(2 * math.pi)) * width
        part = (np.exp(z / self.sigma - 0.5 / self.sigma**2) - offset) / step - cell[:, None]
        high[:first] = np.bincount(cell, (mass * np.clip(part, 0, 1)).sum(axis=1), first)
        low[:first] = np.bincount(cell, (mass * np.clip(1 - part, 0, 1)).sum(axis=1), first)
        # Further out a cell is narrow and a few nodes in y are exact to rounding: the exponent changes by at most 40 wide/i in cell i.
        stops = [first, *(min(count, max(first, int(far * wide))) for far in (4e3, 4e4)), count]
        for points_per_cell, start, stop in zip((5, 3, 2), stops[:-1], stops[1:], strict=True):
            left = offset + step * np.arange(start, stop)
            for node, weight in zip(*_gauss_legendre(points_per_cell), strict=True):
                y = left + step * node
                z = self.sigma * np.log(y) + 0.5 / self.sigma
                mass = np.exp(-0.5 * z * z) * (weight * step * self.sigma / math.sqrt(2 * math.pi)) / y
                high[start:stop] += node * mass
                low[start:stop] += (1 - node) * mass
        return low, high


def as_ratio(sigma: Number | Ratio) -> Ratio:
    if isinstance(sigma, (int, float, Fraction, Real)):
        return GaussianRatio(float(positive("sigma", sigma)))
    return sigma


@dataclass(frozen=True)
class Law:
    """Masses of a stand-in for min(Y, top) at offset + step * (0, 1, 2, ...); `infinite` is E[(Y - top)_+], kept apart."""

    offset: float
    step: float
    mass: Array
    top: float
    infinite: float

    @property
    def grid(self) -> Array:
        """The places, less the offset."""
        return np.asarray(self.step * np.arange(len(self.mass), dtype=float))


def spread(ratio: Ratio, step: float, cells: int) -> Law:
    """A law above min(Y, top) in the convex order: every cell's mass goes to its two ends, mean kept (connect the dots).

    >>> law = spread(GaussianRatio(1.0), 0.01, 10000)
    >>> mean = float(law.mass @ np.arange(10001)) * law.step
    >>> bool(abs(law.mass.sum() - 1) < 1e-12), abs(mean + law.infinite - 1) < 1e-12
    (True, True)
    """
    low, high = ratio.cells(-1.0, 0.0, step, cells)
    top = step * cells
    above, infinite = ratio.tail(top)
    mass = np.append(low, above)
    mass[1:] += high
    return Law(0.0, step, mass, top, infinite)


def contract(ratio: Ratio, step: float, cells: int) -> Law | None:
    """A law below min(Y, top) in the convex order, by a second-order amount; None where the lattice is too coarse for one.

    Let H(y) = E[(Y - y)_+], convex. The chord over a cell lies above H by at most the height of the triangle it makes with the end
    tangents, low * high / (low + high) * step. Lowering H by this height at both ends of the cell puts the chord below H, and so does
    lowering by high * step at the left end alone, or by low * step at the right end alone: better where the cell is lopsided, and
    needed where the other end has to stay above the lines mean - y and 0, which keeps mass and mean. The polygon through the lowered
    values then lies below H, and its greatest convex minorant, which has kinks on nodes only, is the stop-loss curve of the law
    returned. The part of Y below one step is first contracted to its mean, which becomes the lattice's offset.
    """
    below, moment = ratio.head(step)
    offset = min(moment / below, step) if below > 0 else 0.0
    low, high = ratio.cells(step, offset, step, cells)
    top = offset + step * cells
    above, infinite = ratio.tail(top)
    mass = np.append(low, above)
    mass[1:] += high
    mass[0] += below
    # In units of the step: E[(y - Y)_+] and E[(Y - y)_+] at the nodes, and by how much the latter is lowered.
    left = np.concatenate([[0.0], np.cumsum(np.cumsum(mass)[:-1])])
    right = np.concatenate([[0.0], np.cumsum(np.cumsum(mass[::-1])[:-1])])[::-1]
    height = np.divide(low * high, low + high, out=np.zeros(cells), where=low + high > 0)
    no_left, no_right = height > left[:-1] / 2, height > right[1:] / 2
    only_right = no_left | (~no_right & (low < high / 3))
    only_left = ~only_right & (no_right | (high < low / 3))
    only_left[0], only_right[0], only_left[-1], only_right[-1] = False, True, True, False
    at_left = np.where(only_left, high, np.where(only_right, 0.0, height))
    at_right = np.where(only_left, 0.0, np.where(only_right, low, height))
    drop = np.maximum(np.append(at_left, 0.0), np.insert(at_right, 0, 0.0))
    if (drop > left).any() or (drop > right).any():
        return None
    mass -= np.diff(np.diff(drop, prepend=drop[0], append=drop[-1]))
    return Law(offset, step, convex_minorant(mass, np.arange(cells + 1.0)), top, infinite)


def convex_minorant(mass: Array, place: Array) -> Array:
    """Second differences of the greatest convex minorant of a polygon, from those of the polygon.

    A node of negative mass is a dent upwards: replace it by the chord between its neighbours, that is, share its mass between them.
    """
    todo = [int(i) for i in np.flatnonzero(mass < 0)]
    mass = mass.copy()
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    while todo:
        i = todo.pop()
        if mass[i] >= 0:
            continue
        a, b = before.get(i, i - 1), after.get(i, i + 1)
        if a < 0 or b >= len(mass):
            mass[i] = 0.0  # rounding only: the end tangents bound the polygon from below
            continue
        share = (place[i] - place[a]) / (place[b] - place[a])
        mass[a] += (1 - share) * mass[i]
        mass[b] += share * mass[i]
        mass[i] = 0.0
        after[a], before[b] = b, a
        todo += [k for k in (a, b) if mass[k] < 0]
    return mass
