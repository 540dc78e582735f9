"""What is measured in place of the questions: strategies for one column, and their exact errors.

A strategy is a list of blocks of whole-numbered sums over a column's cells, each measured with noise of its own
scale. The questions are answered from the measurements by least squares, so the error of every answer follows
from the strategy alone and is known before any data is touched. `Levels` adds up neighbouring cells at several
widths and needs no matrix; `Dense` is any whole-numbered matrix.

>>> ranges = Need.of(AllRanges(4))
>>> squared_error(identity(4), ranges, "laplace"), round(squared_error(levels(4, 2), ranges, "laplace"), 6)
(40.0, 125.142857)
>>> whole = levels(4, 2)
>>> counts = np.array([3, 1, 4, 1])
>>> [block.tolist() for block in whole.measure(counts, 0)]
[[9], [4, 5], [3, 1, 4, 1]]
>>> np.round(whole.solve(whole.gather(whole.measure(counts, 0), 0), 0), 9).tolist()
[3.0, 1.0, 4.0, 1.0]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.exact import root
from tacit.mechanisms import Law
from tacit.workloads.workload import AllRanges, Array, Factor, Identity, Prefix, Ranges, Total, overlap_squares

#: Entries of a matrix and weights of levels are multiples of this; the matrix that is priced is the rounded one.
UNIT = Fraction(1, 2**18)
#: Measurements at a time while the spread of answers is worked out.
CHUNK = 32


@dataclass(frozen=True)
class Need:
    """What is asked about one column, in all terms of a workload together: factors with the weight of each."""

    factors: tuple[tuple[float, Factor], ...]

    @staticmethod
    def of(*factors: Factor) -> Need:
        """Each factor with weight 1."""
        return Need(tuple((1.0, factor) for factor in factors))

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.factors[0][1].size

    def gram(self) -> Array:
        """The weighted sum of the Gram matrices."""
        return np.asarray(sum(weight * factor.gram() for weight, factor in self.factors))

    def heaped(self, block: int) -> float:
        """The weighted sum of what the factors heap up in blocks of so many cells."""
        return sum(weight * factor.heaped(block) for weight, factor in self.factors)


class Strategy(ABC):
    """Sums of one column's cells, in blocks. Block k is measured with noise of scale 1 / weights[k]."""

    size: int
    weights: tuple[Fraction, ...]
    #: The largest entry of its blocks: how far one row can move one of the whole-numbered sums.
    largest: int = 1

    @abstractmethod
    def norm(self, law: Law) -> Fraction:
        """How far one row of the table moves all sums, each in its scale; never below the truth."""

    @abstractmethod
    def error(self, need: Need) -> float:
        """The summed squared error of the answers for noise of deviation 1 at weight 1."""

    @abstractmethod
    def measure(self, counts: NDArray[Any], axis: int) -> list[NDArray[Any]]:
        """The sums of each block along an axis, in whole numbers."""

    @abstractmethod
    def gather(self, values: Sequence[NDArray[Any]], axis: int) -> Array:
        """Measured values back on the cells, each times the square of its weight: the right-hand side of least squares."""

    @abstractmethod
    def solve(self, gathered: Array, axis: int) -> Array:
        """The least-squares estimate of the cells."""

    @abstractmethod
    def powers(self, factor: Factor, fourth: bool) -> tuple[Array, Array | None]:
        """For each answer the sum of squares, and of fourth powers, of what noise of scale 1 / weight adds to it."""


# --- sums of neighbouring cells ---


@dataclass(frozen=True)
class Levels(Strategy):
    """Sums of neighbouring cells: level l has blocks of `widths[l]` cells, each width a multiple of the next.

    The last width is 1. The column is filled up with empty cells to the first width. The levels' Gram matrices
    commute: on the differences between neighbouring levels all of them are numbers, so error and least squares
    need no matrix (the two passes of Hay et al. 2010 are the case of equal weights).
    """

    size: int
    widths: tuple[int, ...]
    weights: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        assert self.widths[-1] == 1 and all(wide % narrow == 0 for wide, narrow in pairwise(self.widths))
        assert len(self.weights) == len(self.widths) and self.weights[-1] > 0

    @property
    def padded(self) -> int:
        """The cells with those filled up."""
        return -(-self.size // self.widths[0]) * self.widths[0]

    def norm(self, law: Law) -> Fraction:
        if law == "laplace":
            return sum(self.weights, Fraction(0))
        return root(sum((weight**2 for weight in self.weights), Fraction(0)))

    @cached_property
    def eigenvalues(self) -> Array:
        """What the Gram matrix is on the differences between level j and the level above it."""
        terms = np.array([float(w) ** 2 * s for w, s in zip(self.weights, self.widths, strict=True)])
        return np.asarray(terms[::-1].cumsum()[::-1])

    def error(self, need: Need) -> float:
        return float((differences(need, self.widths) / self.eigenvalues).sum())

    def _blocks(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        """The counts with the axis first and filled up."""
        moved = np.moveaxis(counts, axis, 0)
        filling = np.zeros((self.padded - self.size, *moved.shape[1:]), dtype=counts.dtype)
        return np.concatenate([moved, filling]) if len(filling) else moved

    def measure(self, counts: NDArray[Any], axis: int) -> list[NDArray[Any]]:
        moved = self._blocks(counts, axis)
        return [
            np.moveaxis(moved.reshape(-1, width, *moved.shape[1:]).sum(axis=1), 0, axis) for width in self.widths
        ]

    def gather(self, values: Sequence[NDArray[Any]], axis: int) -> Array:
        found: Array | None = None
        for value, width, weight in zip(values, self.widths, self.weights, strict=True):
            spread = np.repeat(np.moveaxis(value, axis, 0).astype(np.float64), width, axis=0) * float(weight) ** 2
            found = spread if found is None else found + spread
        assert found is not None
        return np.moveaxis(found, 0, axis)

    def solve(self, gathered: Array, axis: int) -> Array:
        moved = np.moveaxis(gathered, axis, 0)
        found, above = np.zeros_like(moved), None
        for width, eigenvalue in zip(self.widths, self.eigenvalues, strict=True):
            means = moved.reshape(-1, width, *moved.shape[1:]).mean(axis=1)
            here = np.repeat(means, width, axis=0)
            found += (here if above is None else here - above) / eigenvalue
            above = here
        return np.moveaxis(found[: self.size], 0, axis)

    def powers(self, factor: Factor, fourth: bool) -> tuple[Array, Array | None]:
        ends = range_ends(factor)
        if ends is None or (fourth and self.size <= 2048):
            return dense_powers(self, factor)
        squares, above = np.zeros(factor.questions), None
        for width, eigenvalue in zip(self.widths, self.eigenvalues, strict=True):
            here = overlap_squares(*ends, width) / width
            squares += (here if above is None else here - above) / eigenvalue
            above = here
        return squares, None


def range_ends(factor: Factor) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The first and last cell of each question; None where a question is no range."""
    match factor:
        case Identity():
            return np.arange(factor.size), np.arange(factor.size)
        case Total():
            return np.array([0]), np.array([factor.size - 1])
        case Prefix():
            return np.zeros(factor.size, dtype=np.int64), np.arange(factor.size)
        case AllRanges():
            first, last = np.triu_indices(factor.size)
            return first, last
        case Ranges():
            ends = np.array(factor.ends, dtype=np.int64)
            return ends[:, 0], ends[:, 1]
    return None


def differences(need: Need, widths: Sequence[int]) -> Array:
    """How much of the questions lies between each level and the one above it (g_j of Levels)."""
    heaped = np.array([need.heaped(width) / width for width in widths])
    return np.diff(heaped, prepend=0.0).clip(min=0.0)


def identity(size: int) -> Levels:
    """Each cell by itself."""
    return Levels(size, (1,), (Fraction(1),))


def widths_for(size: int, branching: int) -> tuple[int, ...]:
    """Widths that grow by one factor until a block holds the whole column.

    >>> widths_for(10, 3)
    (27, 9, 3, 1)
    """
    widths = [1]
    while widths[0] < size:
        widths.insert(0, widths[0] * branching)
    return tuple(widths)


def levels(size: int, branching: int, weights: Sequence[float] | None = None) -> Levels:
    """A tree: blocks of branching^j cells at every level, with equal weights if none are given.

    Levels of weight 0 are left out.
    """
    widths = widths_for(size, branching)
    if weights is None:
        return Levels(size, widths, (Fraction(1),) * len(widths))
    rounded = [max(0, round(weight / max(weights) / UNIT)) for weight in weights]
    rounded[-1] = max(1, rounded[-1])
    kept = [(width, weight * UNIT) for width, weight in zip(widths, rounded, strict=True) if weight]
    return Levels(size, tuple(width for width, _ in kept), tuple(weight for _, weight in kept))


# --- any matrix ---


@dataclass(frozen=True, eq=False)
class Dense(Strategy):
    """A matrix of whole numbers, in units of 1 / weight: its sums are measured as they are, in one block."""

    matrix: NDArray[np.int64] = field(repr=False)
    weights: tuple[Fraction, ...] = (Fraction(1),)

    @staticmethod
    def rounded(matrix: Array) -> Dense:
        """A real matrix on the lattice. What is priced, and inverted, is the rounded one."""
        return Dense(np.rint(matrix / float(UNIT)).astype(np.int64), (UNIT,))

    @property
    def size(self) -> int:  # type: ignore[override]
        return int(self.matrix.shape[1])

    def norm(self, law: Law) -> Fraction:
        if law == "laplace":
            return Fraction(int(np.abs(self.matrix).sum(axis=0).max())) * self.weights[0]
        wide = self.matrix.astype(object)
        return root(Fraction(int((wide**2).sum(axis=0).max()))) * self.weights[0]

    @property
    def largest(self) -> int:  # type: ignore[override]
        return int(np.abs(self.matrix).max())

    @cached_property
    def covariance(self) -> Array:
        """The covariance of the estimated cells for noise of deviation 1 at weight 1."""
        real = self.matrix * float(self.weights[0])
        return np.asarray(np.linalg.inv(real.T @ real))

    def error(self, need: Need) -> float:
        return float((need.gram() * self.covariance).sum())

    def measure(self, counts: NDArray[Any], axis: int) -> list[NDArray[Any]]:
        return [np.moveaxis(np.tensordot(self.matrix.astype(counts.dtype), counts, axes=(1, axis)), 0, axis)]

    def gather(self, values: Sequence[NDArray[Any]], axis: int) -> Array:
        real = self.matrix.astype(np.float64) * float(self.weights[0]) ** 2
        return np.moveaxis(np.tensordot(real.T, values[0].astype(np.float64), axes=(1, axis)), 0, axis)

    def solve(self, gathered: Array, axis: int) -> Array:
        return np.moveaxis(np.tensordot(self.covariance, gathered, axes=(1, axis)), 0, axis)

    def powers(self, factor: Factor, fourth: bool) -> tuple[Array, Array | None]:
        return dense_powers(self, factor) if fourth else (factor.spread(self.covariance), None)


def dense_powers(strategy: Strategy, factor: Factor) -> tuple[Array, Array]:
    """Sums of squares and of fourth powers of the matrix that makes answers of measurements, some columns at a time."""
    squares, fourths = np.zeros(factor.questions), np.zeros(factor.questions)
    whole = replace(strategy, size=strategy.padded) if isinstance(strategy, Levels) else strategy
    sums = whole.measure(np.eye(whole.size), 0)
    for block, weight in zip(sums, strategy.weights, strict=True):
        for start in range(0, len(block), CHUNK):
            # Unit noise at weight w enters the estimate as solve(w * row).
            part = whole.solve(block[start : start + CHUNK].T * float(weight), 0)[: strategy.size]
            answers = factor.answer(part, 0)
            squares += (answers**2).sum(axis=1)
            fourths += (answers**4).sum(axis=1)
    return squares, fourths


def squared_error(strategy: Strategy, need: Need, law: Law) -> float:
    """The summed squared error of the answers at the unit price: Laplace noise at epsilon 1, Gaussian noise at sigma 1."""
    return (2 if law == "laplace" else 1) * float(strategy.norm(law)) ** 2 * strategy.error(need)


def haar(size: int) -> Dense:
    """The Haar wavelet: the total, and at every level the difference between the halves of each block.

    >>> round(squared_error(haar(4), Need.of(AllRanges(4)), "laplace"), 6)
    108.0
    """
    width = widths_for(size, 2)[0]
    rows = [np.ones(width, dtype=np.int64)]
    step = width
    while step > 1:
        for start in range(0, width, step):
            row = np.zeros(width, dtype=np.int64)
            row[start : start + step // 2], row[start + step // 2 : start + step] = 1, -1
            rows.append(row)
        step //= 2
    kept = np.array(rows)[:, :size]
    return Dense(kept[np.abs(kept).sum(axis=1) > 0])


def rms(strategy: Strategy, need: Need, law: Law) -> float:
    """The root of the mean squared error over the questions, at the unit price."""
    questions = sum(factor.questions for _, factor in need.factors)
    return math.sqrt(squared_error(strategy, need, law) / questions)
