"""The portable order: what is hashed, recomputed here by hand with hashlib."""

from __future__ import annotations

import datetime
import hashlib
import math
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tacit.tables.engines.duckdb import DuckDB

FLOATS = st.floats(allow_nan=True, allow_infinity=True)


def text_of(value: Any) -> str | None:
    """The canonical text, said again without SQL."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        near = 2.0**62 if math.isnan(value) else min(max(value, -(2.0**62)), 2.0**62)
        floor = math.floor(near)
        return f"{floor}.{math.floor((near - float(floor)) * 2.0**52)}"
    if isinstance(value, datetime.datetime):
        return str((value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1))
    return str(value)


def key_of(salt: int, values: list[Any]) -> str:
    parts = [("|~" if text is None else text.replace("|", "||")) + "|;" for text in map(text_of, values)]
    return hashlib.md5((str(salt) + "".join(parts)).encode()).hexdigest()


@cache
def _engine() -> DuckDB:
    return DuckDB(threads=1, portable=True)


def keys_from_duckdb(salt: int, table: pa.Table) -> list[str]:
    engine = _engine()
    engine.register("t", table)
    key = engine.shuffle_key(salt, [exp.column(name, quoted=True) for name in table.column_names])
    found = engine.run(exp.Select(expressions=[exp.alias_(key, "k")]).from_("t"))
    return [str(value) for value in found.column("k").to_pylist()]


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=4)
ROWS = st.lists(st.tuples(FLOATS | st.none(), TEXTS | st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=50)


@settings(max_examples=12)
@given(ROWS)
@example([(-0.0, "|", 0), (0.0, "||", 0), (1e-320, "", 1), (-1e-320, None, -1), (1e308, "|;", 2)])
def test_the_key_is_md5_of_canonical_texts(rows: list[tuple[float | None, str | None, int]]) -> None:
    types = (pa.float64(), pa.string(), pa.int64())
    columns = [pa.array([row[i] for row in rows], types[i]) for i in range(3)]
    assert keys_from_duckdb(42, pa.table(columns, names=["a", "b", "c"])) == [key_of(42, list(row)) for row in rows]


def test_times_dates_and_booleans() -> None:
    at = datetime.datetime(2026, 1, 31, 10, 0, 0, 250_000, tzinfo=datetime.UTC)
    rows = [(at, datetime.date(2026, 1, 31), True), (None, None, False)]
    types = (pa.timestamp("us", "UTC"), pa.date32(), pa.bool_())
    columns = [pa.array([row[i] for row in rows], types[i]) for i in range(3)]
    assert keys_from_duckdb(3, pa.table(columns, names=["a", "b", "c"])) == [key_of(3, list(row)) for row in rows]


def test_no_two_lists_of_values_look_alike() -> None:
    pairs = [("a|", "b"), ("a", "|b"), ("a|;b", ""), ("", "a|;b"), ("|~", None), (None, "|~"), (None, None)]
    table = pa.table({"a": pa.array([p[0] for p in pairs], pa.string()), "b": pa.array([p[1] for p in pairs], pa.string())})
    assert len(set(keys_from_duckdb(1, table))) == len(pairs)


def test_another_salt_gives_another_order() -> None:
    table = pa.table({"a": list(range(50))})
    found = [keys_from_duckdb(salt, table) for salt in (1, 2)]
    orders = [sorted(range(50), key=keys.__getitem__) for keys in found]
    assert orders[0] != orders[1]
