"""Sums over people by cell: every person adds one clipped row to one cell in each of several views, and the whole table gets exact noise.

Counts by class, sums by cluster, gradients by node and bin are all of this kind. Rows are put on an integer lattice first, so the
sensitivity is a statement about integers: sqrt(views) times the length of a row.

>>> from tacit.noise import test_mode
>>> rows, cells = np.array([[1.0], [1.0], [float("nan")]]), np.array([[0], [2], [-1]])
>>> with test_mode(1):
...     noisy_table(rows, cells, size=3, bound=1.0, multiplier=1e-3, adjacency=Adjacency.ADD_REMOVE).round(2).ravel()
array([1., 0., 1.])
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency
from tacit.accounting.parameters import count, positive
from tacit.learning.noisy_sums import to_lattice
from tacit.noise import from_lattice, rounded_gaussian, rounded_laplace

Array = NDArray[np.float64]
Cells = NDArray[np.int64]


def farthest_table(views: int, adjacency: Adjacency, *, laplace: bool = False, counts: bool = False) -> Fraction:
    """How far one person can move the table in the norm of the noise, where her row has length 1 in each view; rounded up.

    A person who comes or goes moves each view by one row: sqrt(views) in Euclidean norm, `views` in l1. One who is exchanged moves it by
    two, which may add up; rows of `counts` have no negative entries, so two of them are at most sqrt(2) apart.

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
    rows: Array,
    cells: Cells,
    *,
    size: int,
    bound: float,
    multiplier: float,
    adjacency: Adjacency,
    laplace: bool = False,
    counts: bool = False,
) -> Array:
    """For each view and each cell of `size`, the sum of the rows of the people there, with noise: an array (views, size, width of a row).

    `cells[i, v]` says in which cell of view v person i is; outside 0 .. size - 1 she counts for nothing there. Rows are clipped to
    Euclidean length `bound`; for Laplace noise they must be one number wide, so that both lengths are the same.

    Guarantee
        Statement: costs Gaussian(multiplier), or Laplace(multiplier) with `laplace`, under the relation given.
        Conditions: cells and rows of a person depend on her values and on what was released before, not on other people.
        Proved in: one person's part of the integer table is her lattice row, once in each view; its length is at most
        `farthest_table` times that of a lattice row. Rounded noise on integers post-processes the textbook mechanism.
    """
    total, width, views = _totals(rows, cells, count("size", size), bound, counts)
    if laplace and rows.shape[1] != 1:
        raise ValueError("Laplace noise is for rows of one number: their l1 length is then their Euclidean length")
    granules = Fraction(positive("multiplier", multiplier)) * farthest_table(views, adjacency, laplace=laplace, counts=counts) * width
    draw = rounded_laplace if laplace else rounded_gaussian
    noise = np.asarray(draw(granules, total.size)).reshape(total.shape)
    released: Array = from_lattice(total + noise, Fraction(1, width)) * bound
    return released


def _totals(rows: Array, cells: Cells, size: int, bound: float, counts: bool) -> tuple[NDArray[np.int64], int, int]:
    whole, width = to_lattice(np.maximum(np.nan_to_num(rows), 0.0) if counts else rows, bound)
    views = cells.shape[1]
    total = np.zeros((views, size, rows.shape[1]), dtype=np.int64)
    for view in range(views):
        inside = (cells[:, view] >= 0) & (cells[:, view] < size)
        np.add.at(total[view], cells[inside, view], whole[inside])
    return total, width, views
