"""Counts on a public ladder of cells, measured so that every running total is accurate: what quantiles are made of.

A row falls into one of n cells between public bounds. What is released are noisy sums over the cells from
which every running total can be read (`tacit.accounting.strategies.RunningTotals`), and a quantile is where
the totals pass q n.

>>> ladder = CellLadder(Fraction(0), Fraction(100), 4)
>>> ladder.edges.tolist()
[0.0, 25.0, 50.0, 75.0, 100.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms import half_width

if TYPE_CHECKING:
    from tacit.accounting import RunningTotals

Floats = NDArray[np.float64]

#: Cells in all groups together, so that a question about many groups stays small.
MOST = 1 << 20


@dataclass(frozen=True)
class CellLadder:
    """`cells` cells of equal width between public bounds; the number of cells is a power of two.

    `whole`: how many whole numbers there are, where each has a cell of its own; cells beyond them stay empty.
    """

    lower: Fraction
    upper: Fraction
    cells: int
    whole: int | None = None

    @property
    def used(self) -> int:
        """How many cells a row can be in."""
        return self.cells if self.whole is None else self.whole

    @property
    def edges(self) -> Floats:
        """The ends of the cells."""
        return np.linspace(float(self.lower), float(self.upper), self.cells + 1)

    @property
    def totals(self) -> RunningTotals:
        """How the counts of the cells are measured."""
        from tacit.accounting import RunningTotals  # only quantiles need it, and loading it takes time

        return RunningTotals(self.cells)

    def encoder(self, law: str) -> NDArray[np.int64]:
        """What one row in each cell adds to the released numbers."""
        return self.totals.encoder(law)

    def error(self, law: str) -> float:
        """The typical deviation of a running total for noise of deviation 1 on each released number."""
        return self.totals.error(law)


def ladder_for(lower: Fraction, upper: Fraction, groups: int, *, whole: bool) -> CellLadder:
    """The ladder of a column: whole numbers have a cell each, where that needs no more cells. Fewer cells have less noise.

    >>> ladder_for(Fraction(0), Fraction(110), 4, whole=True)
    CellLadder(lower=Fraction(-1, 2), upper=Fraction(255, 2), cells=128, whole=111)
    >>> ladder_for(Fraction(0), Fraction(110), 4, whole=False).cells
    1024
    """
    most, count = cells_for(groups), upper - lower + 1
    if not whole or lower.denominator != 1 or upper.denominator != 1 or count > most:
        return CellLadder(lower, upper, most)
    cells, first = max(2, 1 << (int(count) - 1).bit_length()), lower - Fraction(1, 2)
    return CellLadder(first, first + cells, cells, int(count))


def cells_for(groups: int, finest: int = 1024) -> int:
    """How many cells: a power of two up to `finest`, fewer where there are many groups.

    >>> cells_for(100), cells_for(10**5), cells_for(10**9)
    (1024, 8, 2)
    """
    found = finest
    while found > 2 and found * groups > MOST:
        found //= 2
    return found


@lru_cache(maxsize=32)
def _wide(totals: RunningTotals, law: str, q: float, confidence: float) -> Floats:
    decoder = totals.decoder(law)
    return half_width(decoder - q * decoder[-1:], law, (1 + confidence) / 2)


def quantile(
    ladder: CellLadder, noisy: Floats, scale: float, law: str, q: float, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Value, low and high of the q-quantile for each row of released numbers.

    Let D be the running total minus q n. The quantile's cell is one where D is at least 0 while it is at most
    0 one cell before; those cells where neither is ruled out, each by half of the error, hold it with the
    confidence. One row is allowed for interpolation between rows; the least row is where D becomes at least
    1, the greatest where it ceases to be at most -1.
    """
    decoder = ladder.totals.decoder(law)
    tests = decoder - q * decoder[-1:]
    wide = scale * _wide(ladder.totals, law, q, confidence) + np.abs(tests).sum(axis=1) / 2
    here, there = {0.0: (1.0, 0.0), 1.0: (0.0, -1.0)}.get(q, (-1.0, 1.0))
    shift = noisy @ tests.T  # one line a group, one column a cell: D at the upper edge
    edges = ladder.edges
    before = np.concatenate([np.full((len(shift), 1), -np.inf), shift[:, :-1]], axis=1)
    possible = (shift >= here - wide) & (before <= there + np.concatenate([[0.0], wide[:-1]]))
    some = possible.any(axis=1)
    low = np.where(some, edges[:-1][possible.argmax(axis=1)], edges[0])
    high = np.where(some, edges[1:][ladder.cells - 1 - possible[:, ::-1].argmax(axis=1)], edges[-1])
    # The least and greatest of rows are few: only what stands out of the noise says where they are.
    above = shift > (wide if q == 0 else 0.0)
    upto = shift < (-wide if q == 1 else 0.0)
    first = np.where(above.any(axis=1), above.argmax(axis=1), ladder.cells - 1)
    last = np.where(upto.any(axis=1), ladder.cells - upto[:, ::-1].argmax(axis=1), 0)
    place = first if q == 0 else np.minimum(last, ladder.cells - 1) if q == 1 else (first + np.minimum(last, ladder.cells - 1)) / 2
    middles = (edges[:-1] + edges[1:]) / 2
    value = np.interp(place, np.arange(ladder.cells), middles)
    if ladder.whole is not None:
        # Of a cell with one number, that number is both ends.
        low, high = (np.clip(end, middles[0], middles[ladder.whole - 1]) for end in (low + 0.5, high - 0.5))
    return np.clip(value, low, high), low, high
