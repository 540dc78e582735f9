"""Made-up rows for a declared schema, from a seed, for writing and rehearsing questions without seeing the data.

They are about no person, and are drawn from what is declared and nothing else. The same edition gives the same rows.

>>> table = dummy(Schema.of({"region": ["N", "S"], "age": (0, 110), "id": "BIGINT"}), 3)
>>> table.num_rows, table.column_names
(3, ['region', 'age', 'id'])
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.tables.engines.types import kind_of, zoned
from tacit.tables.errors import TableError
from tacit.tables.relation import Column, Schema

EPOCH = datetime.date(1970, 1, 1)
_MISSING = 0.05
_DAY = (datetime.date(2025, 1, 1) - EPOCH).days
Mask = NDArray[np.bool_]

WHOLE = {"BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "INT64", "INT32", "UBIGINT", "UINTEGER", "HUGEINT", "LONG"}
REAL = {"DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC", "FLOAT64", "DOUBLE PRECISION"}
_PLAIN = {
    "integer": "BIGINT",
    "float": "DOUBLE",
    "decimal": "DECIMAL",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
TEXT = {"VARCHAR", "TEXT", "STRING", "CHAR", "UUID", "CHARACTER VARYING", "BPCHAR"}


def dummy(schema: Schema, rows: int, *, person: str | None = None, edition: int = 7) -> pa.Table:
    """Rows that fit a declared schema, each column drawn by itself, evenly over its categories or between its bounds.

    The `person` column gets about four rows a person. A column that declares neither gets values of its type that mean nothing.

    >>> dummy(Schema.of({"ward": ["A"], "id": "BIGINT"}), 8, person="id")["ward"].to_pylist().count("A") > 0
    True
    """
    check_rows(rows)
    if person is not None and person not in schema.columns:
        raise TableError(f"person must name a column of the schema, not {person!r}; there are {', '.join(schema.columns) or 'none'}")
    draws = np.random.default_rng(edition)
    made = {}
    for name, column in schema.columns.items():
        people = max(1, rows // 4) if name == person else None
        missing = draws.random(rows) < _MISSING if column.nullable and name != person else None
        made[name] = _values(name, column, rows, people, missing, draws)
    return pa.table(made)


def like(types: Mapping[str, str], schema: Schema, table: str, rows: int, *, person: str | None = None, edition: int = 7) -> pa.Table:
    """Rows with the columns of a table, as its engine declares them, within what is public about them. No row of it is read.

    A column of a type that has no made-up values, such as a list, is there and empty.

    >>> like({"age": "INTEGER", "seen": "TIMESTAMP WITH TIME ZONE", "tags": "VARCHAR[]"}, Schema.of({"age": (0, 9)}), "t", 2).schema.types
    [DataType(int64), TimestampType(timestamp[us, tz=UTC]), DataType(null)]
    """
    known = {name: _public(schema, table, name, kind) for name, kind in types.items()}
    made = dummy(Schema({name: column for name, column in known.items() if column is not None}), rows, person=person, edition=edition)
    columns = {name: pa.nulls(rows) if column is None else made.column(name) for name, column in known.items()}
    for name, kind in types.items():
        if zoned(kind):
            columns[name] = columns[name].cast(pa.timestamp("us", tz="UTC"))
    return pa.table(columns)


def _public(schema: Schema, table: str, name: str, kind: str) -> Column | None:
    declared = schema.columns.get(f"{table}.{name}") or schema.columns.get(name) or Column()
    wanted = _PLAIN.get(kind_of(kind))
    if wanted is None and not declared.categories:
        return None
    return Column(wanted, declared.bounds, declared.categories, declared.nullable)


def _values(name: str, column: Column, rows: int, people: int | None, missing: Mask | None, draws: np.random.Generator) -> pa.Array:
    kind = (column.type or "").upper().split("(")[0].strip()
    if column.categories:
        return labels(column.categories, draws.integers(0, len(column.categories), rows), missing)
    whole = kind in WHOLE or (not kind and people is not None)
    if column.bounds is not None and people is None:
        low, high = (float(Fraction(str(end))) for end in column.bounds)
        values = low + (high - low) * draws.random(rows)
        return typed(np.floor(values).clip(low, high).astype(np.int64) if whole else values, kind, missing)
    numbers = draws.integers(0, people or max(1, rows), rows)
    if whole:
        return pa.array(numbers, mask=missing)
    if kind in REAL or not kind:
        return typed(numbers.astype(np.float64), kind, missing)
    if kind == "BOOLEAN":
        return pa.array(numbers % 2 == 0, mask=missing)
    if kind == "DATE":
        return pa.array(_DAY + (numbers % 365).astype(np.int32), mask=missing, type=pa.int32()).cast(pa.date32())
    if kind.startswith("TIMESTAMP"):
        return pa.array((_DAY + numbers % 365) * 86_400_000_000, mask=missing).cast(pa.timestamp("us"))
    if kind in TEXT:
        return pa.array([f"{name} {number}" for number in numbers.tolist()], mask=missing)
    raise TableError(f"columns[{name!r}] has the type {column.type!r}, which dummy data does not know; use BIGINT, DOUBLE, VARCHAR or DATE")


def typed(values: NDArray[Any], kind: str, missing: Mask | None) -> pa.Array:
    """Numbers of the declared type."""
    found = pa.array(values, mask=missing)
    return pc.round(found, 6).cast(pa.decimal128(38, 9)) if kind in ("DECIMAL", "NUMERIC") else found


def labels(names: Sequence[Any], chosen: NDArray[Any], missing: Mask | None) -> pa.Array:
    """Names by their places."""
    return pa.DictionaryArray.from_arrays(pa.array(chosen.astype(np.int32), mask=missing), pa.array(list(names))).dictionary_decode()


def check_rows(rows: int) -> None:
    """Refuse what is no number of rows."""
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= 10**9:
        raise TableError(f"rows must be a whole number between 0 and 1e9, not {rows!r}")
