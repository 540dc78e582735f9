"""Cells that double in width cover the line once, and bounds are the hull of what stands out."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tacit.mechanisms import FoundBounds, bounds_from, cell_edges, cell_numbers

BITS = 40
WIDEST = (-Fraction(2) ** BITS, Fraction(2) ** BITS)


def test_cells_tile_the_line() -> None:
    ends = [cell_edges(cell) for cell in cell_numbers(BITS)]
    assert all(a[1] == b[0] for a, b in pairwise(ends))
    assert (ends[0][0], ends[-1][1]) == WIDEST


def test_whole_cells_hold_every_whole_number_once() -> None:
    ends = [cell_edges(cell, whole=True) for cell in cell_numbers(BITS)]
    assert all(a[1] + 1 == b[0] for a, b in pairwise(ends))
    assert ends[BITS] == (0, 0) and ends[-1][1] == 2**BITS - 1


@given(st.lists(st.floats(-50, 1000), min_size=2 * BITS + 1, max_size=2 * BITS + 1), st.booleans())
def test_bounds_are_the_hull_of_what_stands_out(counts: list[float], whole: bool) -> None:
    step = Fraction(1, 100)
    found = bounds_from(counts, 60, WIDEST, whole=whole, step=step)
    passing = [cell for cell, count in zip(cell_numbers(BITS), counts, strict=True) if count > 60]
    assert found.found == bool(passing) and found.lower <= found.upper
    for cell in passing:
        low, high = cell_edges(cell, whole=whole)
        assert found.lower <= low * step and high * step <= found.upper


def test_where_nothing_stands_out_the_public_bounds_are_told() -> None:
    assert bounds_from([60.0] * 5, 60, WIDEST, step=Fraction(1, 7)) == FoundBounds(*WIDEST, False)
