"""Projective-geometry response: reports are points of a finite geometry, and a value is supported by the points of its hyperplane.

The variance of the optimum, reports of two or three bytes, and a collector that needs one Fourier transform whatever the number of
reports (Feldman, Nelson, Nguyen, Talwar 2022). It is the default beyond few values.

>>> oracle = Projective(1000, epsilon=1)
>>> oracle.order, oracle.width, round(oracle.variance(1), 3)
(4, 2, 3.685)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.errors import ParameterError
from tacit.local.fields import LARGEST, Field, field, prime_power
from tacit.local.hadamard import walsh
from tacit.local.randomiser import Interval, Reports, SymbolRandomiser, Table, local_report, named, shares
from tacit.parameters import Number, count

MOST = 1 << 23  # cells of the collector's table: 53^4 is 1% above the optimum at epsilon 4 for 10,000 values


def best_geometry(size: int, epsilon: Number, most: int = MOST) -> tuple[int, int]:
    """The order of the field and the dimension with the least variance whose table is not too large.

    >>> best_geometry(10_000, 1)
    (4, 8)
    """
    odds = math.exp(float(epsilon))
    found = []
    for order in range(2, LARGEST + 1):
        if prime_power(order) is None:
            continue
        dimension = 2
        while (order**dimension - 1) // (order - 1) < size:
            dimension += 1
        if order**dimension <= most:
            found.append((_spread(order, dimension, odds), order**dimension, order, dimension))
    if not found:
        raise ParameterError(f"size {size:,} needs a table of more than {most:,} cells; use local hashing or a sketch")
    least = min(found)[0]
    # a table a little larger than the best one's is not worth a thousandth of the variance
    _, _, order, dimension = min((cells, spread, q, t) for spread, cells, q, t in found if spread <= 1.001 * least)
    return order, dimension


def _counts(order: int, dimension: int) -> tuple[int, int, int]:
    """All points, the points of a hyperplane, and those that two hyperplanes share."""
    points, plane, shared = ((order ** (dimension - k) - 1) // (order - 1) for k in (0, 1, 2))
    return points, plane, shared


def _spread(order: int, dimension: int, odds: float) -> float:
    """The variance of a person's contribution to the count of a value that the person does not hold."""
    points, plane, shared = _counts(order, dimension)
    r = 1 / (odds * plane + points - plane)
    held, other = odds * r * plane, r * (odds * shared + plane - shared)
    return other * (1 - other) / (held - other) ** 2


@named
@dataclass(frozen=True)
class Projective(SymbolRandomiser):
    """A random point of the projective space over the field of `order` elements, one of the value's hyperplane with the better odds."""

    order: int = 0
    dimension: int = 0

    kind: ClassVar[str] = "projective"
    largest: ClassVar[int] = 1 << 32
    block: ClassVar[int] = 1 << 18

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.order:
            order, dimension = best_geometry(self.size, self.epsilon)
            object.__setattr__(self, "order", order)
            object.__setattr__(self, "dimension", dimension)
        count("order", self.order, least=2)
        count("dimension", self.dimension, least=2)
        # sizes first: a protocol may come from elsewhere, and large numbers would keep this busy
        if self.order > LARGEST or prime_power(self.order) is None:
            raise ParameterError(f"order must be a power of a prime, at most {LARGEST}")
        if self.dimension > 64 or self.order**self.dimension > MOST or _counts(self.order, self.dimension)[0] < self.size:
            raise ParameterError(f"order and dimension must give at least {self.size:,} points in at most {MOST:,} cells")

    @property
    def field(self) -> Field:
        """The field."""
        return field(self.order)

    @property
    def symbols(self) -> int:
        return int(self.order**self.dimension)

    @property
    def held(self) -> float:
        points, plane, _ = _counts(self.order, self.dimension)
        return self.odds * plane / (self.odds * plane + points - plane)

    @property
    def other(self) -> float:
        points, plane, shared = _counts(self.order, self.dimension)
        return (self.odds * shared + plane - shared) / (self.odds * plane + points - plane)

    @property
    def event(self) -> LocalReport:
        points, plane, shared = _counts(self.order, self.dimension)
        mass = points / (self.odds * plane + points - plane)
        return local_report(self.epsilon, mass, (plane - shared) / points, shared / points)

    @cached_property
    def _points(self) -> NDArray[np.int64]:
        """The canonical vectors of the values: those whose first digit that is not 0 is 1, in order."""
        t, q, found, length = self.dimension, self.order, [], 0
        for lead in range(t - 1, -1, -1):  # the 1 stands here, what follows is free
            free = t - 1 - lead
            numbers = np.arange(min(q**free, self.size - length))
            rows = np.zeros((len(numbers), t), dtype=np.int64)
            rows[:, lead] = 1
            for k in range(free):
                rows[:, t - 1 - k] = numbers // q**k % q
            found.append(rows)
            length += len(numbers)
            if length >= self.size:
                break
        return np.concatenate(found)

    @cached_property
    def _canonical(self) -> NDArray[np.bool_]:
        """Which numbers are points: those whose first digit that is not 0 is 1. A byte for each cell of the collector's table."""
        found = np.zeros(self.symbols, dtype=np.bool_)
        for place in range(self.dimension):
            found[self.order**place : 2 * self.order**place] = True
        return found

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        points, plane, _ = _counts(self.order, self.dimension)
        inside, outside = shares(self.epsilon, plane, points - plane, bits)
        own, f, found = self._points[value], self.field, {}
        for number in range(1, self.symbols):
            digits = self._digits(np.array([number]))[0]
            if digits[np.flatnonzero(digits)[0]] != 1:
                continue
            product = 0
            for a, b in zip(own, digits, strict=True):
                product = int(f.plus[product, f.times[a, b]])
            found[number] = inside if product == 0 else outside
        return found

    def _digits(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        worth = self.order ** np.arange(self.dimension - 1, -1, -1)
        return numbers[:, None] // worth % self.order

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        points, plane, _ = _counts(self.order, self.dimension)
        inside = noise.odds_bits(self.epsilon, len(values), heads=plane, tails=points - plane)
        f, n, t, q = self.field, len(values), self.dimension, self.order
        own = self._points[values]
        pivot = np.argmax(own == 1, axis=1)  # the first digit that is not 0
        found, open_ = np.empty(n, dtype=np.int64), np.arange(n)
        while len(open_):
            m = len(open_)
            drawn = noise.uniform_integers(q**t, m)
            vector, mine, at = self._digits(drawn), own[open_], np.arange(m)
            vector[at, pivot[open_]] = 0
            product = np.zeros(m, dtype=np.int64)
            for k in range(t):
                product = f.plus[product, f.times[mine[:, k], vector[:, k]]]
            # the wanted product: 0 on the hyperplane, any other element off it
            wanted = np.where(inside[open_], 0, 1 + noise.uniform_integers(q - 1, m))
            vector[at, pivot[open_]] = f.plus[wanted, f.minus[product]]
            first = np.argmax(vector != 0, axis=1)
            scale = f.inverse[vector[at, first]]
            vector = f.times[scale[:, None], vector]
            found[open_] = vector @ (q ** np.arange(t - 1, -1, -1))
            open_ = open_[found[open_] == 0]  # the zero vector is no point: again, for those on a hyperplane only
        return self._short(found)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found, whole = super().from_bytes(rows)
        return found, whole & self._canonical[np.where(whole, found, 0).astype(np.intp)]

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        f, digits, own = self.field, self._digits(reports.astype(np.int64)), self._points[values]
        product = np.zeros((len(reports), len(values)), dtype=np.int64)
        for k in range(self.dimension):
            product = f.plus[product, f.times[digits[:, k][:, None], own[:, k]]]
        return np.asarray(product == 0)

    def support(self, table: Table, n: int) -> Table:
        # C(v) = (1/q) sum over z of H(z u_v), with H the transform of the counts over the additive group
        f, t = self.field, self.dimension
        shape = (f.prime,) * (f.degree * t)
        transform = np.fft.rfftn(table.reshape(shape).astype(np.float64)) if f.prime > 2 else None
        worth = f.prime ** np.arange(f.degree - 1, -1, -1)
        total = np.full(self.size, float(n))
        signs = walsh(table) if transform is None else None
        for z in range(1, f.order):
            scaled = f.times[z, self._points]  # each digit of z u_v
            # an element's number has its lowest digit last, as the axes of the table do
            name = f.dual[scaled][:, :, ::-1] @ worth
            if signs is not None:
                index = name @ (f.order ** np.arange(t - 1, -1, -1))
                total += signs[index]
            else:
                assert transform is not None
                total += _real_part(transform, f.dual[scaled][:, :, ::-1].reshape(self.size, -1), f.prime)
        return np.rint(total / f.order).astype(np.int64)


def _real_part(transform: NDArray[np.complex128], index: NDArray[np.int64], prime: int) -> NDArray[np.float64]:
    """The real part of a real table's transform at these places; the half that was not stored is the other's mirror image."""
    last = index[:, -1]
    stored = last < transform.shape[-1]
    place = np.where(stored[:, None], index, -index % prime)
    return np.asarray(transform[tuple(place.T)].real)
