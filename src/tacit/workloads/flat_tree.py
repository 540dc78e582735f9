"""Flat stretches of a column, found by halving: a stretch is cut in two as long as it bends too much.

How far a stretch is from flat, min over c of sum |x_i - c|, is at least what its halves are from flat together. So PrivTree's
argument carries over from counts to this distance, and all decisions together have one price, however deep they go.
Where a single cell stands out the stretch around it is narrowed level by level, which is what questions about ranges
need; a partition of least total distance (`tacit.workloads.dawa.Partition`) narrows nothing unless it can cut the cell out.

>>> tree = FlatTree((16,), Fraction(2))
>>> tree.edges(np.array([0] * 8 + [500] * 4 + [0] * 4)).issuperset({0, 8, 12, 16})
True
>>> round(float(FlatTree((16,), Fraction(1, 100)).scale), 2)
400.25
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.workloads.privtree import Tree

#: The largest epsilon of a row that is used: the proof needs a step of more than a row.
MOST = Fraction(2)


@dataclass(frozen=True)
class FlatTree(Tree):
    """Which stretches are halved: `Tree` on distances from flat instead of counts, for one column.

    Guarantee
        Statement: publishing the tree costs epsilon for a unit of `reach` rows, whatever its depth.
        Conditions: with e = epsilon / reach, at most 2: a stretch at level l at distance c from flat is halved iff
        max(c - l step, bar) + Laplace noise > 0, noise of a scale s with s e >= 3 + exp(1 / s), step at least s ln 2, bar at
        least -step.
        Proved here: a row is in one stretch of every level, a path, and moves its distance by at most 1, up or down, since the
        distance is a minimum of functions that a row moves by 1; other stretches stay. Along the path distances do not grow, as those
        of the halves add up to at most that of the whole; so u = c - l step falls by at least `step` a level, on both of
        two neighbouring tables. Moving x to x' at most 1 away changes ln P(x + noise > 0) by at most 1 / s, and by at most
        exp(-x / s) / s where both are at least x >= 0. The last stretch of the path, which is kept whole: at most 1 / s. Of
        the others, those that the bar holds on both tables lose nothing. Let v be the last that it does not hold on both,
        and w the one before it. They lose at most 1 / s each. The k-th one before w has u at least k step - 1 on both
        tables: on that table where the bar does not hold v its u is at least k step, and the other is at most 1 away. So all
        of these lose at most exp(1 / s) (1/2 + 1/4 + ...) / s. Together (3 + exp(1 / s)) / s. Rounding as in `Tree`.
        Several rows: one after the other.
        Unlike counts, distances may rise at some levels and fall at others with the same row, hence 3 + exp(1 / s) where counts have 3.
    """

    @property
    def row(self) -> Fraction:
        """The epsilon of one row; a large one is used only up to where the proof holds."""
        return min(self.epsilon / self.reach, MOST)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise, in rows: exp(1 / s) is at most exp(e / 4), as s is at least 4 / e."""
        above = Fraction(math.floor(math.exp(float(self.row) / 4) * 2**30) + 2, 2**30)
        return (3 + above) / self.row

    def pyramid(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """How far the stretches of every level are from flat; the last one of a level ends with the column."""
        (size,) = self.shape
        found = []
        for level in range(self.depth + 1):
            (wide,) = self.widths(level)
            full = size // wide
            flat = from_flat(counts[: full * wide].reshape(full, wide)) if full else np.zeros(0, dtype=np.int64)
            rest = from_flat(counts[None, full * wide :]) if size > full * wide else flat[:0]
            found.append(np.concatenate([flat, rest]))
        return found

    def edges(self, counts: NDArray[np.int64]) -> set[int]:
        """Where stretches begin and end. The caller has paid."""
        low, high = self.spans(self.draw(counts))
        return {*low[:, 0].tolist(), *high[:, 0].tolist()}


def from_flat(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row of counts, its distance from a flat one: min over c of sum |x_i - c|.

    >>> from_flat(np.array([[1, 1, 5], [2, 2, 2]])).tolist()
    [4, 0]
    """
    width = rows.shape[1]
    if width == 1:
        return np.zeros(len(rows), dtype=np.int64)
    half = width // 2
    parts = np.partition(rows, (half - 1, width - half), axis=1)
    return np.asarray(parts[:, width - half :].sum(axis=1) - parts[:, :half].sum(axis=1))
