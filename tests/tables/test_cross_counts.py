"""Counts of many tables by one statement, beside counting in Python: words of packed cells, caps, values in no cell."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables.engines.servers import load_postgres, postgres

from tacit.tables import Brackets, Cut, Desk, Source, TableError, Unit

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


#: Whole numbers of all sizes, at cells' ends and beside them, and what is no value.
ODD = [None, 0, 1, 2, 5, 9, 10, 11, -1, -7, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
EDGES = [
    (0, 1, 2, 3, 4, 5), (-7, -6, -5), (2**53 - 1, 2**53), (2**53, 2**53 + 2, 2**53 + 4), (0, 2, 5, 10), (5, 6), (-0.5, 0.5, 1.5),
    tuple(range(12)),
]  # fmt: skip


def place_of(value: float | None, edges: tuple[float, ...], outside: bool) -> int | None:
    """The cell of a value as the words say it: from one edge up to the next, which only the last includes; open with `outside`."""
    if value is None or math.isnan(value):
        return None
    inner = [edge for edge in edges[1:-1] if float(edge) <= float(value)]
    return len(inner) if outside or float(edges[0]) <= float(value) <= float(edges[-1]) else None


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.int32()])
def test_cells_are_found_as_the_words_say(kind: pa.DataType, edges: tuple[float, ...], outside: bool) -> None:
    values = [one for one in ODD if one is None or kind != pa.int32() or -(2**31) <= one < 2**31]
    if kind == pa.float64():
        values = [one if one is None else float(one) for one in values]
        values += [math.nan, math.inf, -math.inf, 0.5, -0.0, 1.9999999999999998, -5e-324]
    desk = Desk.of(Source.of(pa.table({"id": range(len(values)), "x": pa.array(values, kind)}), name="t"), Unit("id", max_rows=1))
    found = Cut.of(desk, {"x": Brackets(edges)}, outside=outside).counts([("x",)])[("x",)]
    cells = [place_of(value, edges, outside) for value in values]
    expected = np.bincount([len(edges) - 1 if cell is None else cell for cell in cells], minlength=len(edges))
    assert found.tolist() == (expected if outside else expected[:-1]).tolist()


@pytest.mark.parametrize("ends", [(0, 9), (-7, -7), (2**53 - 3, 2**53), (2**60, 2**60 + 5), (-(2**53), -(2**53) + 2)])
def test_whole_bounds_take_what_lies_beyond_into_the_outermost_cells(ends: tuple[int, int]) -> None:
    table = pa.table({"id": range(len(ODD)), "x": pa.array(ODD, pa.int64())})
    desk = Desk.of(Source.of(table, name="t"), Unit("id", max_rows=1), {"x": ends})
    found = Cut.of(desk, ["x"]).counts([("x",)])[("x",)]
    # Comparisons are of floats, so that beyond 2^53 neighbours may share a cell.
    cells = [sum(float(end) <= float(value) for end in range(ends[0] + 1, ends[1] + 1)) for value in ODD if value is not None]
    assert found.tolist() == np.bincount(cells, minlength=ends[1] - ends[0] + 1).tolist()


def test_ten_thousand_cells_are_one_short_statement_or_fourteen_comparisons_deep() -> None:
    """A chain of ten thousand comparisons a row did not end in 100 s for 200,000 rows."""
    table = pa.table({"id": range(3), "x": [0, 5000, 9999], "y": [0.0, 5000.5, 9999.0]})
    desk = Desk.of(Source.of(table, name="t"), Unit("id", max_rows=1))
    edges = tuple(range(10_001))
    whole = Cut.of(desk, {"x": Brackets(edges)})
    assert len(whole.statement([("x",)]).sql()) < 5_000
    assert np.flatnonzero(whole.counts([("x",)])[("x",)]).tolist() == [0, 5000, 9999]
    uneven = Cut.of(desk, {"y": Brackets(edges[:2001])})
    deepest = max(len(cases_around(case)) for case in uneven.question.keys[0].value.find_all(exp.Case))
    assert deepest <= 13
    assert np.flatnonzero(uneven.counts([("y",)])[("y",)]).tolist() == [0]


#: Days in and around the edges below, moments within a day, and what is no day.
DAY_EDGES = [tuple(datetime.date(2026, month, 1) for month in range(1, 8)), (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
             (datetime.date(1, 1, 1), datetime.date(1582, 10, 15), datetime.date(9999, 12, 31))]  # fmt: skip
MOMENTS = [
    None, *(datetime.datetime(*day) for day in [
        (1, 1, 1), (1582, 10, 4), (1582, 10, 15), (2025, 12, 31, 23, 59, 59, 999999), (2026, 1, 1), (2026, 1, 1, 12), (2026, 1, 2),
        (2026, 2, 28), (2026, 6, 30, 23, 59, 59), (2026, 7, 1), (2026, 7, 1, 0, 0, 1), (9999, 12, 30), (9999, 12, 31),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("edges", DAY_EDGES)
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ns")])
def test_days_are_found_among_edges_that_are_dates(kind: pa.DataType, edges: tuple[datetime.date, ...], outside: bool) -> None:
    """From the first day of a cell up to the day before the next; open at both ends with `outside`, and never a NULL within."""
    near = [one for one in MOMENTS if kind != pa.timestamp("ns") or one is None or 1700 < one.year < 2200]
    values = [one if one is None or kind != pa.date32() else one.date() for one in near]
    desk = Desk.of(Source.of(pa.table({"id": range(len(values)), "x": pa.array(values, kind)}), name="t"), Unit("id", max_rows=1))
    found = Cut.of(desk, {"x": Brackets(edges)}, outside=outside).counts([("x",)])[("x",)]
    expected = [0] * (len(edges) - 1 + outside)
    for one in near:
        if one is None or not (outside or edges[0] <= one.date() < edges[-1]):
            place = len(edges) - 1 if outside else None
        else:
            place = sum(edge <= one.date() for edge in edges[1:-1])
        if place is not None:
            expected[place] += 1
    assert found.tolist() == expected


def test_a_number_among_dates_is_refused() -> None:
    desk = Desk.of(Source.of(pa.table({"id": [1], "x": [1]}), name="t"), Unit("id", max_rows=1))
    with pytest.raises(TableError, match="x must be a date"):
        Cut.of(desk, {"x": Brackets(DAY_EDGES[0])})
    with pytest.raises(TableError, match="rising order"):
        Brackets((DAY_EDGES[0][1], DAY_EDGES[0][0]))


def cases_around(node: exp.Expression) -> list[exp.Expression]:
    """The cases around a case."""
    found, at = [], node.parent
    while at is not None:
        found += [at] if isinstance(at, exp.Case) else []
        at = at.parent
    return found


def test_postgres_finds_the_same_cells() -> None:
    url = postgres("cells")
    values: list[float | None] = [*(one if one is None else float(one) for one in ODD), math.nan, math.inf, -math.inf, 0.5, -5e-324]
    columns = {"whole": pa.array(ODD + [None] * 5, pa.int64()), "number": pa.array(values, pa.float64())}
    load_postgres(url, "t", pa.table({"id": pa.array(range(len(values)), pa.int64()), **columns}))
    source = Source.of(url, table="t")
    for edges, outside, name in itertools.product(EDGES, (False, True), columns):
        found = Cut.of(Desk.of(source, Unit("id", max_rows=1)), {name: Brackets(edges)}, outside=outside).counts([(name,)])[(name,)]
        cells = [place_of(value, edges, outside) for value in columns[name].to_pylist()]
        expected = np.bincount([len(edges) - 1 if cell is None else cell for cell in cells], minlength=len(edges))
        assert found.tolist() == (expected if outside else expected[:-1]).tolist(), (edges, outside, name)
    source.close()
