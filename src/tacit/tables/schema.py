"""What is public about tables: types, bounds and categories of columns, and foreign keys. Nothing of it is ever read from the data.

>>> schema = Schema.of({"age": (0, 110), "region": ["N", "S"], "cost": Column(bounds=(0, 5000), nullable=False)})
>>> schema.bounds["age"], schema.categories["region"]
((0, 110), ('N', 'S'))

Where there are several tables, a column may be named with its table, and one that names a row of another table says so:

>>> schema = Schema.of({"visit.person_id": Column(references="person.id"), "visit.cost": (0, 50), "drug.cost": (0, 80)})
>>> str(schema.links[0]), schema.bounds["cost"]
('visit.person_id -> person.id', (0, 80))

`dummy` makes up rows for a schema, from a seed, for writing and rehearsing questions without seeing the data. They
are drawn from what is declared and nothing else. The same edition gives the same rows.

>>> table = dummy(Schema.of({"region": ["N", "S"], "age": (0, 110), "id": "BIGINT"}), 3)
>>> table.num_rows, table.column_names
(3, ['region', 'age', 'id'])
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from tacit.tables.errors import TableError
from tacit.tables.keys import kind_of
from tacit.tables.plan import interval_of
from tacit.tables.question import Question
from tacit.tables.relation import Field, Relation
from tacit.tables.statistics import Interval
from tacit.tables.unit import Link, links_of, parted


@dataclass(frozen=True)
class Column:
    """One column: its type (as the engine writes it), its bounds if it is a number, its categories if it has a public list of them.

    `references` names the table and key that its values are rows of: a foreign key, such as 'person.id'.
    """

    type: str | None = None
    bounds: tuple[Any, Any] | None = None
    categories: tuple[Any, ...] | None = None
    nullable: bool = True
    references: str | None = None

    def __post_init__(self) -> None:
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(self.categories))
        if self.references is not None:
            parted("references", self.references)
        if self.bounds is not None:
            if len(tuple(self.bounds)) != 2:
                raise TableError("bounds must be two numbers, such as (0, 100)")
            object.__setattr__(self, "bounds", tuple(self.bounds))


@dataclass(frozen=True)
class Schema:
    """The public columns of a session's tables, by name, or by table and name: 'visit.cost'."""

    columns: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bare = [name for name, column in self.columns.items() if column.references is not None and "." not in name]
        if bare:
            raise TableError(f"columns[{bare[0]!r}] references another table, so its own must be named too, such as 'visit.{bare[0]}'")

    @staticmethod
    def of(given: Schema | Mapping[str, Any] | None) -> Schema:
        """From a mapping: a pair of numbers is bounds, a list is categories, a text is a type."""
        if given is None:
            return Schema()
        if isinstance(given, Schema):
            return given
        return Schema({name: _column(name, value) for name, value in given.items()})

    @property
    def bounds(self) -> dict[str, Any]:
        """Bounds by column. Values are clamped to them, so where two tables bound a name differently, the wider hold for both."""
        found: dict[str, Any] = {name: column.bounds for name, column in self.columns.items() if column.bounds is not None}
        for name, (low, high) in list(found.items()):
            bare = name.rpartition(".")[2]
            if bare != name:
                known = found.get(bare, (low, high))
                found[bare] = (min(known[0], low), max(known[1], high))
        return found

    @property
    def categories(self) -> dict[str, tuple[Any, ...]]:
        """Public categories by column; a name that two tables list differently has none without its table."""
        found = {name: column.categories for name, column in self.columns.items() if column.categories is not None}
        for bare in {name.rpartition(".")[2] for name in found if "." in name} - set(found):
            lists = {listed for name, listed in found.items() if name.rpartition(".")[2] == bare}
            if len(lists) == 1:
                found[bare] = lists.pop()
        return found

    def bounds_of(self, question: Question, columns: Set[str]) -> dict[str, Any]:
        """Bounds by the names that a question has for its columns; `columns` are the names in the tables themselves.

        A renamed column keeps its bounds. A computed one, such as SUM(cost) AS cost by person, does not take those of its namesake.
        """
        declared, fields = self.bounds, _fields(question)
        found = dict(declared)
        for name in columns - {field_.name for field_ in fields} if fields else ():
            # A column that is not there: its bounds are not those of a figure that is called so.
            found.pop(name, None)
        for field_ in fields:
            own = _declared(declared, field_.declared_as)
            if own is not None:
                found[field_.name] = own
            elif field_.name in columns and field_.declared_as.rpartition(".")[2] != field_.name:
                found.pop(field_.name, None)
        return found

    def categories_of(self, question: Question, columns: Set[str]) -> dict[str, tuple[Any, ...]]:
        """Public categories by the names of a question's keys, as with bounds: those of UPPER(region) AS region are not the region's."""
        found, known = self.categories, {field_.name: field_ for field_ in _fields(question)}
        keys: dict[str, tuple[Any, ...]] = {}
        for key in question.keys:
            inner = key.value.this if isinstance(key.value, exp.Cast) else key.value
            field_ = known.get(inner.name) if isinstance(inner, exp.Column) else None
            own = _declared(found, field_.declared_as) if field_ is not None else None
            if own is None and (not known or key.name not in columns):
                own = found.get(key.name)
            if own is not None:
                keys[key.name] = own
        return keys

    @property
    def links(self) -> tuple[Link, ...]:
        """The declared foreign keys."""
        return links_of({name: column.references for name, column in self.columns.items() if column.references is not None})

    def interval(self, name: str) -> Interval | None:
        """The bounds of a column as an interval."""
        bounds = self.bounds.get(name)
        return None if bounds is None else interval_of(name, bounds)


def _fields(question: Question) -> tuple[Field, ...]:
    return (question.relation.fields or ()) if isinstance(question.relation, Relation) else ()


def _declared(found: Mapping[str, Any], name: str) -> Any:
    """What is declared of 'visits.age' under this name, or under its column's alone."""
    return found.get(name, found.get(name.rpartition(".")[2])) if name else None


def _column(name: str, value: Any) -> Column:
    if isinstance(value, Column):
        return value
    if isinstance(value, str):
        return Column(type=value)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in value):
        return Column(bounds=value)
    if isinstance(value, Mapping):
        unknown = set(value) - {"type", "bounds", "categories", "nullable", "references"}
        if unknown:
            raise TableError(f"columns[{name!r}] may say type, bounds, categories, nullable and references, not {sorted(unknown)[0]!r}")
        return Column(**value)
    if isinstance(value, Sequence):
        return Column(categories=tuple(value))
    raise TableError(f"columns[{name!r}] must be bounds such as (0, 100), a list of categories, a type, or a Column")


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
        if _zoned(kind):
            columns[name] = columns[name].cast(pa.timestamp("us", tz="UTC"))
    return pa.table(columns)


def _public(schema: Schema, table: str, name: str, kind: str) -> Column | None:
    declared = schema.columns.get(f"{table}.{name}") or schema.columns.get(name) or Column()
    wanted = None if kind.rstrip().endswith("]") else _PLAIN.get(kind_of(kind))
    if wanted is None and not declared.categories:
        return None
    return Column(wanted, declared.bounds, declared.categories, declared.nullable)


def _zoned(kind: str) -> bool:
    name = kind.upper()
    return name.startswith("TIMESTAMP") and "WITHOUT" not in name and any(mark in name for mark in ("WITH TIME ZONE", "TZ", "LTZ"))


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
