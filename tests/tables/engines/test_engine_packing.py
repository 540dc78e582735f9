"""Packing: what goes in comes out, whatever the ranges and whatever a row says."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import WIDTH, Packed, Packing

ENDS = st.integers(-(2**61), 2**61)
RANGES = st.lists(st.tuples(ENDS, ENDS).map(sorted), min_size=1, max_size=6)
ENGINE = DuckDB(threads=1)


def through(ranges: dict[str, tuple[int, int]], columns: dict[str, list[int]], apart: list[str]) -> dict[str, list[int]]:
    """The columns, packed and unpacked by DuckDB."""
    ENGINE.register("t", pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
    rows = exp.Select(expressions=[exp.column(name, quoted=True) for name in columns]).from_("t")
    packed = Packed.of(rows, apart, ranges)
    found = ENGINE.run(packed.unpacked(packed.rows)).to_pydict()
    return {name: [int(value) for value in values] for name, values in found.items()}


@settings(max_examples=40)
@given(RANGES, st.data())
@example([[0, 2**61], [0, 1], [-1, 0]], None)
def test_columns_come_back(ranges: list[list[int]], data: st.DataObject | None) -> None:
    named = {f"c{i}": (low, high) for i, (low, high) in enumerate(ranges)}
    inside = {
        name: [low, high, (low + high) // 2, *([] if data is None else [data.draw(st.integers(low, high))])]
        for name, (low, high) in named.items()
    }
    assert through(named, inside, []) == inside
    assert through(named, inside, ["c0"]) == inside


def test_a_value_beyond_its_range_is_held_and_spoils_no_other() -> None:
    ranges = {"a": (0, 9), "b": (-3, 3), "c": (0, 1)}
    found = through(ranges, {"a": [10**12, -1, 5], "b": [-(10**12), 4, 0], "c": [1, 0, 7]}, [])
    assert found == {"a": [9, 0, 5], "b": [-3, 3, 0], "c": [1, 0, 1]}


def test_words_are_not_too_wide_and_share_bits_with_nobody() -> None:
    packing = Packing.of({"g": (0, 99), "a": (-5, 5), "b": (0, 2**50), "c": (0, 2**61 - 1), "d": (0, 1), "wide": (-(2**63), 2**63)})
    assert "wide" not in packing.places
    for word in range(packing.count):
        taken = [bit for index, shift, width, _, _ in packing.places.values() if index == word for bit in range(shift, shift + width)]
        assert len(taken) == len(set(taken)) and max(taken) < WIDTH


def test_one_column_is_left_as_it_is() -> None:
    rows = exp.select("a", "b").from_("t")
    assert Packed.of(rows, ["a"], {"a": (0, 1), "b": (0, 1)}).rows is rows
