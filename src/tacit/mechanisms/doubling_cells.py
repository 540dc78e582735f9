"""Cells that double in width on either side of 0, and the bounds that noisy counts of them give.

The cells are public and each value is in one of them, so their counts cost what one histogram costs; the
outermost cells whose counts stand out of the noise are the bounds, up to a factor of 2. `automatic_bounds`
uses whole numbers of granules, questions about tables use real values; both number their cells -bits .. bits.

>>> [tuple(map(int, cell_edges(cell))) for cell in (3, -1, 0)]
[(4, 8), (-2, -1), (-1, 1)]
>>> [tuple(map(int, cell_edges(cell, whole=True))) for cell in (3, 0)]
[(4, 7), (0, 0)]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class FoundBounds:
    """Bounds to clamp to. `found` is False where no cell stood out, and these are the public bounds for that case."""

    lower: Fraction
    upper: Fraction
    found: bool


def cell_numbers(bits: int) -> range:
    """The public cells, from the most negative to the most positive.

    >>> list(cell_numbers(2))
    [-2, -1, 0, 1, 2]
    """
    return range(-bits, bits + 1)


def cell_edges(cell: int, *, whole: bool = False) -> tuple[Fraction, Fraction]:
    """The ends of a cell: [-1, 1] is cell 0, (1, 2] and [-2, -1) are 1 and -1, and so on.

    With `whole` a cell k > 0 has the whole numbers of k bits, and 0 has a cell of its own.
    """
    if cell == 0:
        return (Fraction(0), Fraction(0)) if whole else (Fraction(-1), Fraction(1))
    low, high = Fraction(2) ** (abs(cell) - 1), Fraction(2) ** abs(cell) - (1 if whole else 0)
    return (low, high) if cell > 0 else (-high, -low)


def bounds_from(
    counts: Iterable[float], threshold: float, otherwise: tuple[Fraction, Fraction], *, whole: bool = False, step: Fraction = Fraction(1)
) -> FoundBounds:
    """The hull of the cells whose counts pass the threshold, in units of `step`; `otherwise` where none does.

    >>> bounds_from([0, 900, 0, 0, 7], 50, (Fraction(-9), Fraction(9)))
    FoundBounds(lower=Fraction(-2, 1), upper=Fraction(-1, 1), found=True)
    """
    told = list(counts)
    passing = [cell for cell, count in zip(cell_numbers(len(told) // 2), told, strict=True) if count > threshold]
    if not passing:
        return FoundBounds(*otherwise, False)
    lower, upper = cell_edges(passing[0], whole=whole)[0], cell_edges(passing[-1], whole=whole)[1]
    return FoundBounds(lower * step, upper * step, True)
