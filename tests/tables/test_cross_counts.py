"""Counts of many tables by one statement, beside counting in Python: words of packed cells, caps, values in no cell."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tacit.tables import Brackets, Cut, Desk, Source, Unit

WIDE = {f"c{n}": tuple(range(size)) for n, size in enumerate((2, 20, 17, 1, 30, 16, 9, 31, 28, 7, 12, 25, 19, 31, 40))}


def people(rows: int, each: int = 1) -> pa.Table:
    """People with so many rows each, in columns of `WIDE`; some values are in no cell, some are missing."""
    draws = np.random.default_rng(rows)
    columns: dict[str, object] = {"id": np.arange(rows) // each}
    for name, cells in WIDE.items():
        values = draws.integers(-1, len(cells) + 1, rows)
        columns[name] = pa.array([None if place % 11 == 3 else int(value) for place, value in enumerate(values)], pa.int64())
    return pa.table(columns)


def counted(table: pa.Table, names: tuple[str, ...], outside: bool) -> Counter[tuple[int, ...]]:
    """The same counts in Python, for a table whose rows are all kept."""
    found: Counter[tuple[int, ...]] = Counter()
    for row in table.to_pylist():
        cells = {name: row[name] if row[name] in WIDE[name] else len(WIDE[name]) for name in WIDE}
        if outside or all(cells[name] < len(WIDE[name]) for name in names):
            found[tuple(cells[name] for name in names)] += 1
    return found


@pytest.mark.parametrize("each", [1, 3])
def test_packed_cells_come_back_as_they_were(each: int) -> None:
    """With caps that no person reaches every row counts, in words of 62 bits as by hand."""
    assert sum(max(1, len(cells).bit_length()) for cells in WIDE.values())  == 65  # more than the 62 of one word
    table = people(300, each)
    desk = Desk.of(Source.of(table, name="people"), Unit("id", max_rows=each))
    cut = Cut.of(desk, WIDE, outside=True)
    tables = [*((name,) for name in WIDE), *itertools.pairwise(WIDE), ("c9", "c0", "c5")]
    found = cut.counts([(), *tables])
    for names in tables:
        expected = counted(table, names, True)
        assert found[names].shape == tuple(len(WIDE[name]) + 1 for name in names)
        assert dict(zip(map(tuple, np.argwhere(found[names]).tolist()), found[names][found[names] > 0].tolist(), strict=True)) == expected
    assert int(found[()]) == 300


def test_without_outside_a_row_in_no_cell_counts_in_no_table() -> None:
    table = people(400)
    desk = Desk.of(Source.of(table, name="people"), Unit("id", max_rows=1))
    names = ("c2", "c6", "c9")
    found = Cut.of(desk, {name: WIDE[name] for name in names}).counts([names])[names]
    assert dict(zip(map(tuple, np.argwhere(found).tolist()), found[found > 0].tolist(), strict=True)) == counted(table, names, False)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_person_with_a_thousand_rows_counts_at_most_as_often_as_stated(most: int) -> None:
    """Person 0 has 1,000 rows, others one; every table has the same total, and nothing of person 0 beyond the cap."""
    table = pa.table({"id": [0] * 1000 + list(range(1, 51)), "x": [7] * 1000 + [1] * 50, "y": list(range(1000)) + [5] * 50})
    desk = Desk.of(Source.of(table, name="t"), Unit("id", max_rows=most))
    found = Cut.of(desk, {"x": [1, 7], "y": Brackets((0, 500, 1000))}, outside=True).counts([("x",), ("x", "y"), ("y",), ()])
    assert found[("x",)].tolist() == [50, most, 0]
    assert int(found[()]) == 50 + most == int(found[("y",)].sum()) == int(found[("x", "y")].sum())


def test_which_row_of_a_person_is_kept_is_even() -> None:
    """2,000 people with three rows each and a cap of 1: each cell holds a third, within 5 standard errors (6e-7 of right code)."""
    table = pa.table({"id": [place // 3 for place in range(6000)], "x": [place % 3 for place in range(6000)]})
    desk = Desk.of(Source.of(table, name="t"), Unit("id", max_rows=1))
    found = Cut.of(desk, {"x": [0, 1, 2]}).counts([("x",)])[("x",)]
    assert found.sum() == 2000
    assert np.abs(found - 2000 / 3).max() < 5 * math.sqrt(2000 * 2 / 9)


def test_strange_values_change_no_shape() -> None:
    """NaN, infinities, 1e308 and an empty table have the shapes that were declared."""
    odd = pa.table({"id": range(5), "x": [math.nan, math.inf, -math.inf, 1e308, None]})
    for table, total in ((odd, 5), (odd.slice(0, 0), 0)):
        desk = Desk.of(Source.of(table, name="t"), Unit("id", max_rows=1))
        found = Cut.of(desk, {"x": Brackets((0, 1, 2))}, outside=True).counts([("x",), ()])
        assert found[("x",)].shape == (3,) and int(found[()]) == total == int(found[("x",)].sum())
