"""Sums over people: float rows are clipped, put on an integer lattice, summed in integers and given exact noise.

Floating point enters only before the lattice. A row's integers are checked against the bound as integers, so
the sensitivity of the sum is what the price says, not what rounding left of it; and outputs for neighbouring
data share one support. Use it wherever each person adds a vector of bounded length: gradients, moments,
counts by class, sums by cluster.

>>> from tacit.noise import test_mode
>>> rows = np.array([[3.0, 4.0], [0.3, 0.4], [float("nan"), 1e308]])
>>> with test_mode(1):
...     noisy_sum(rows, bound=1.0, multiplier=1e-3, adjacency=Adjacency.ADD_REMOVE).round(1)
array([0.9, 2.2])
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, ParameterError
from tacit.mechanisms.noisy_sums import Law, NoisySums
from tacit.parameters import count, positive

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
LATTICE_BITS = 24
LEAST, MOST = 2.0**-900, 2.0**900  # a bound outside has no lattice in floats: its granule, or what is worth one, is 0 or infinite
CELLS = 1 << 17  # entries of a block of rows: 1 MB of floats, which stays in a cache
FACTOR_BITS = 16  # of either factor of a product
HALF_ROOT = Fraction(math.isqrt(1 << 63) + 1, 1 << 32)  # the root of 1/2, rounded up
FACTOR_BLOCK = 1 << 20  # people whose products add up below 2^53


def bits_for(dimension: int) -> int:
    """How many bits a bound is divided into, so that squared lengths of lattice rows are exact in int64.

    >>> bits_for(10), bits_for(10**6)
    (24, 20)
    """
    return max(8, min(LATTICE_BITS, (61 - max(dimension, 1).bit_length()) // 2))


def checked_bound(bound: float) -> float:
    """The largest length of a row, which is public: a positive number that floats can divide and multiply by.

    >>> checked_bound(0.5)
    0.5
    """
    found = float(positive("bound", bound))
    if not LEAST <= found <= MOST:
        raise ParameterError(f"bound must be between {LEAST:.3g} and {MOST:.3g}, where floats can count in parts of it; scale the rows")
    return found


def finite_rows(rows: Array) -> Array:
    """Rows as floats of 64 bits: NaN is 0, and what is larger than 1e150 is cut, so that its square is a float."""
    with np.errstate(over="ignore"):  # numbers of more bits
        wide = np.asarray(rows, dtype=np.float64)
    return np.clip(np.where(np.isnan(wide), 0.0, wide), -1e150, 1e150)


def clip_rows(rows: Array, bound: float) -> Array:
    """Rows scaled down to Euclidean length at most `bound`; NaN counts as 0 and infinities as huge: no value raises.

    Rows of any type of number are read as floats of 64 bits first: in fewer bits neither the cut nor the lattice would hold.

    >>> clip_rows(np.array([[3.0, 4.0], [0.0, 0.0], [np.inf, 0.0]], dtype=np.float16), 1.0)
    array([[0.6, 0.8],
           [0. , 0. ],
           [1. , 0. ]])
    """
    checked_bound(bound)
    finite = finite_rows(rows)
    largest = np.abs(finite).max(axis=1, keepdims=True, initial=0.0)
    unit = finite / np.where(largest > 0, largest, 1.0)
    length = largest * np.sqrt((unit * unit).sum(axis=1, keepdims=True))
    found: Array = finite * (bound / np.maximum(length, bound))
    return found


def to_lattice(rows: Array, bound: float) -> tuple[Integers, int]:
    """Rows in units of bound / 2^bits, cut towards zero, and 2^bits: no row is longer than that, as an exact statement about integers.

    Cutting towards zero shortens every coordinate, so it never lengthens a row; the factor below 1 covers the
    roundings of the clipping. A row that were too long all the same would count as zero. Coordinates are looked at one by
    one first: a square of 64 bits goes round, and would pass for a short one.

    >>> to_lattice(np.array([[3.0, 4.0]]), 1.0)[0].tolist()
    [[10066329, 13421772]]
    """
    width, bound = 1 << bits_for(rows.shape[1]), checked_bound(bound)
    clipped = clip_rows(rows, bound) * (width / bound * (1 - 2.0**-40))
    cut = np.trunc(clipped)
    whole = np.where(np.abs(cut) <= width, cut, 0.0).astype(np.int64)
    within = (np.abs(cut) <= width).all(axis=1, keepdims=True) & ((whole * whole).sum(axis=1, keepdims=True) <= width * width)
    return np.where(within, whole, 0), width


def farthest(bound: float, adjacency: Adjacency) -> float:
    """How far one person can move a sum of rows of length at most `bound`: adding one, or exchanging one for its opposite.

    >>> farthest(1.0, Adjacency.ADD_REMOVE), farthest(1.0, Adjacency.REPLACE_ONE)
    (1.0, 2.0)
    """
    return 2 * bound if adjacency is Adjacency.REPLACE_ONE else bound


def farthest_moment(bound: float, adjacency: Adjacency) -> float:
    """How far one person can move a sum of x x^T over rows of length at most `bound`, in the Frobenius norm.

    Two such matrices are never opposite: |x x^T - y y^T|^2 = |x|^4 + |y|^4 - 2 <x, y>^2 is at most 2 bound^4,
    with equality for orthogonal rows of full length. Exchanging a person therefore costs sqrt(2) times what
    adding one does, not twice.

    >>> farthest_moment(3.0, Adjacency.ADD_REMOVE), round(farthest_moment(3.0, Adjacency.REPLACE_ONE), 3)
    (9.0, 12.728)
    """
    return bound * bound * (math.sqrt(2.0) if adjacency is Adjacency.REPLACE_ONE else 1.0)


def moment_span(adjacency: Adjacency) -> int:
    """The same for rows of `FactorRows`, whose products are exact: a bound in granules.

    >>> moment_span(Adjacency.ADD_REMOVE) == 1 << 32, round(moment_span(Adjacency.REPLACE_ONE) / (1 << 32), 6)
    (True, 1.414214)
    """
    width = 1 << (2 * FACTOR_BITS)
    return math.isqrt(2 * width * width) + 1 if adjacency is Adjacency.REPLACE_ONE else width


def _span(dimension: int, adjacency: Adjacency) -> int:
    """How far one person can move a sum of lattice rows, in granules."""
    return int(farthest(1.0, adjacency)) << bits_for(dimension)


def noisy_sum(rows: Array, *, bound: float, multiplier: float, adjacency: Adjacency) -> Array:
    """The sum of the rows, each clipped to length `bound`, plus Gaussian noise of `multiplier` times what one person can change.

    Guarantee
        Statement: costs Gaussian(multiplier) under the relation given.
        Proved in: the lattice rows have integer length at most 2^bits, so one person moves the integer sum by
        at most that, twice that when exchanged; rounded Gaussian noise on integers post-processes the
        textbook mechanism (Dong, Roth, Su 2022, Theorem 2.7).
    """
    block = max(1, CELLS // max(rows.shape[1], 1))
    blocks = (rows[start : start + block] for start in range(0, max(len(rows), 1), block))
    return _released(blocks, rows.shape[1], bound, multiplier, adjacency, _span(rows.shape[1], adjacency))


@dataclass(frozen=True)
class FactorRows:
    """Rows on a lattice of 2^16 granules a bound, held as whole floats: one factor of `noisy_outer_sum`, made once for many sums."""

    values: Array
    granule: float  # what 1 is worth

    @classmethod
    def of(cls, rows: Array, bound: float) -> FactorRows:
        """Rows clipped to length `bound` and rounded; no row of integers is longer than 2^16, which is checked as integers.

        >>> FactorRows.of(np.array([[3.0, 4.0], [float("nan"), 0.5]]), 1.0).values.tolist()
        [[39321.0, 52427.0], [0.0, 32767.0]]
        """
        width, values = 1 << FACTOR_BITS, np.empty(rows.shape)
        checked_bound(bound)
        # rounding to the nearest lengthens a row by at most half the root of its width
        spare = max(1 - (math.sqrt(rows.shape[1]) / 2 + 1) / width, 0.5)
        block = max(1, CELLS // max(rows.shape[1], 1))
        for start in range(0, len(rows), block):
            whole = _factor(rows[start : start + block], bound, width * spare / bound)
            whole[~(np.abs(whole) <= width)] = 0.0  # before squares of 64 bits, which go round
            if rows.shape[1] > 1:
                squares = whole.astype(np.int64)
                whole[(squares * squares).sum(axis=1) > width * width] = 0.0
            values[start : start + block] = whole
        return cls(values, bound / (width * spare))


def _factor(rows: Array, bound: float, scale: float) -> Array:
    """A block of rows, clipped, in whole granules."""
    if rows.shape[1] > 1:
        return np.rint(clip_rows(rows, bound) * scale)
    return np.rint(np.clip(finite_rows(rows), -bound, bound) * scale)


def noisy_outer_sum(left: FactorRows, right: FactorRows, *, multiplier: float, adjacency: Adjacency) -> Array:
    """The sum of left_i right_i^T over people, with Gaussian noise on every entry of `multiplier` times what one person can change.

    Guarantee
        Statement: costs Gaussian(multiplier).
        Proved in: a person's product of two integer rows has Frobenius norm |left_i| |right_i|, at most 2^32, exactly. Entries are
        at most 2^32 too, so a block of 2^20 people adds up below 2^53: the floats of a matrix product hold every partial sum
        exactly, in whatever order. The rest is as for `noisy_sum`.
    """
    total = _products(left, right)
    moved = int(farthest(1.0, adjacency)) << (2 * FACTOR_BITS)
    found: Array = _noise("gaussian", multiplier, moved, 1, adjacency).release(total) * (left.granule * right.granule)
    return found


def noisy_second_moment(rows: Array, *, bound: float, multiplier: float, adjacency: Adjacency) -> Array:
    """The sum of x x^T over rows clipped to length `bound`, plus a symmetric matrix of Gaussian noise.

    Entries beside the diagonal stand in the matrix twice and are released once, with half the noise variance of a diagonal one:
    measured in these scales a person moves the release by the Frobenius norm of x x^T, which is |x|^2.

    Guarantee
        Statement: costs Gaussian(multiplier). Proved in: `NoisySums` with two scales; sums of products of integers are exact as
        in `noisy_outer_sum`, and `moment_span` bounds them, also for two people who are exchanged.
    """
    dimension, half = rows.shape[1], FactorRows.of(rows, bound)
    total = _products(half, half)
    scale = Fraction(multiplier) * moment_span(adjacency)
    noise = NoisySums("gaussian", (scale, scale * HALF_ROOT), multiplier, adjacency)
    upper = np.triu_indices(dimension, 1)
    matrix = np.zeros((dimension, dimension))
    matrix[upper] = noise.release(total[upper], 1)
    matrix = matrix + matrix.T
    matrix[np.diag_indices(dimension)] = noise.release(np.diag(total), 0)
    return matrix * half.granule**2


def _products(left: FactorRows, right: FactorRows) -> Integers:
    """The sum of left_i right_i^T in granules, exactly."""
    total = np.zeros((left.values.shape[1], right.values.shape[1]), dtype=np.int64)
    for start in range(0, len(left.values), FACTOR_BLOCK):
        part = slice(start, start + FACTOR_BLOCK)
        total += (left.values[part].T @ right.values[part]).astype(np.int64)
    return total


def _noise(law: Law, multiplier: float, moved: int | Fraction, width: int, adjacency: Adjacency) -> NoisySums:
    """Noise of `multiplier` times the `moved` granules of one person, where a bound has `width` granules."""
    return NoisySums.of_multiplier(law, multiplier, moved, granularity=Fraction(1, width), adjacency=adjacency)


def _released(
    blocks: Iterable[Array], dimension: int, bound: float, multiplier: float, adjacency: Adjacency, moved: int
) -> Array:
    width = 1 << bits_for(dimension)
    total = np.zeros(dimension, dtype=np.int64)
    for block in blocks:
        total += to_lattice(block, bound)[0].sum(axis=0)
    return _noise("gaussian", multiplier, moved, width, adjacency).release(total) * bound


def noisy_l1_sum(rows: Array, *, bound: float, multiplier: float, adjacency: Adjacency) -> Array:
    """The sum of the rows, each clipped to *l1* length `bound`, plus Laplace noise of `multiplier` times what one person can change.

    Guarantee
        Statement: costs Laplace(multiplier), that is 1/multiplier-DP, under the relation given.
        Proved in: as for `noisy_sum`, with absolute values for squares; l1 distances and Laplace noise
        (Dwork, McSherry, Nissim, Smith 2006).
    """
    width, bound = 1 << LATTICE_BITS, checked_bound(bound)
    finite = finite_rows(rows)
    length = np.abs(finite).sum(axis=1, keepdims=True)
    clipped = finite * (bound / np.maximum(length, bound)) * (width / bound * (1 - 2.0**-40))
    whole = np.trunc(clipped)
    total = np.where(np.abs(whole).sum(axis=1, keepdims=True) <= width, whole, 0.0).astype(np.int64).sum(axis=0)
    moved = int(farthest(1.0, adjacency)) * width
    released: Array = _noise("laplace", multiplier, moved, width, adjacency).release(total) * bound
    return released


def noisy_count(rows: int, *, multiplier: float, adjacency: Adjacency) -> float:
    """The number of rows, with Gaussian noise where it is private, at least 1; under replace-one it is public and exact.

    >>> noisy_count(7, multiplier=10, adjacency=Adjacency.REPLACE_ONE)
    7.0
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return float(max(rows, 1))
    width = 1 << LATTICE_BITS
    return max(_noise("gaussian", multiplier, width, width, adjacency).release(rows * width), 1.0)


# Sums by cell: each person adds one clipped row to one cell in each of several views


def farthest_table(views: int, adjacency: Adjacency, *, laplace: bool = False, counts: bool = False) -> Fraction:
    """How far one person can move a table of sums in the norm of the noise, where a row has length 1 in each view; rounded up.

    A person who comes or goes moves each view by one row: sqrt(views) in Euclidean norm, `views` in l1. One
    who is exchanged moves it by two, which may add up; rows of `counts` have no negative entries, so two of
    them are at most sqrt(2) apart.

    >>> float(farthest_table(4, Adjacency.ADD_REMOVE)), float(farthest_table(4, Adjacency.ADD_REMOVE, laplace=True))
    (2.0, 4.0)
    """
    exchanged = adjacency is Adjacency.REPLACE_ONE
    if laplace:
        return Fraction(views * (2 if exchanged else 1))
    squared = views * ((2 if counts else 4) if exchanged else 1)
    root = math.isqrt(squared)
    if root * root == squared:
        return Fraction(root)
    return Fraction(math.nextafter(math.sqrt(squared), math.inf))


def noisy_table(
    rows: Array, cells: Integers, *, size: int, bound: float, multiplier: float, adjacency: Adjacency,
    laplace: bool = False, counts: bool = False,
) -> Array:  # fmt: skip
    """For each view and each cell of `size`, the sum of the rows of the people there, with noise: (views, size, width of a row).

    `cells[i, v]` says in which cell of view v person i is; outside 0 .. size - 1 the person counts for nothing
    there. Rows are clipped to Euclidean length `bound`; for Laplace noise they must be one number wide, so
    that both lengths are the same.

    >>> from tacit.noise import test_mode
    >>> rows, cells = np.array([[1.0], [1.0], [float("nan")]]), np.array([[0], [2], [-1]])
    >>> with test_mode(1):
    ...     noisy_table(rows, cells, size=3, bound=1.0, multiplier=1e-3, adjacency=Adjacency.ADD_REMOVE).round(2).ravel()
    array([1., 0., 1.])

    Guarantee
        Statement: costs Gaussian(multiplier), or Laplace(multiplier) with `laplace`, under the relation
        given.
        Conditions: cells and rows of a person depend on that person's values and on what was released before,
        not on other people.
        Proved in: one person's part of the integer table is their lattice row, once in each view; its length is
        at most `farthest_table` times that of a lattice row. Rounded noise on integers post-processes the
        textbook mechanism.
    """
    total, width, views = table_totals(rows, cells, count("size", size), bound, counts)
    if laplace and rows.shape[1] != 1:
        raise ValueError("Laplace noise is for rows of one number: their l1 length is then their Euclidean length")
    law: Law = "laplace" if laplace else "gaussian"
    moved = farthest_table(views, adjacency, laplace=laplace, counts=counts) * width
    return _noise(law, multiplier, moved, width, adjacency).release(total) * bound


def table_totals(rows: Array, cells: Integers, size: int, bound: float, counts: bool) -> tuple[Integers, int, int]:
    """The table of `noisy_table` without noise, in granules; the granules in a bound; the number of views."""
    whole, width = to_lattice(np.maximum(np.nan_to_num(rows), 0.0) if counts else rows, bound)
    views = cells.shape[1]
    total = np.zeros((views, size, rows.shape[1]), dtype=np.int64)
    for view in range(views):
        inside = (cells[:, view] >= 0) & (cells[:, view] < size)
        np.add.at(total[view], cells[inside, view], whole[inside])
    return total, width, views
