"""A table with a column of every type that an engine has: without rows, with ordinary rows and with rows at the limits of each type.

`load` makes three tables, `every_empty`, `every_plain` and `every_extreme`, of the same columns, each row with an owner in `id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from tests.tables.engines import servers
from tests.tables.engines.places import Place

SIZES = ("empty", "plain", "extreme")
ODD = ("", " ", "NaN", "1e400", "x" * 300, "e\u0301\u200b", "\u202e\U0001f600", "it''s %_", "0001-01-01", "9999-12-31", "-0", "${HOME}")
DATES = ("0001-01-01", "9999-12-31", "1969-12-31", "2024-02-29")
TIMES = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.5", "2024-02-29 12:00:00")
UUIDS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")


@dataclass(frozen=True)
class Typed:
    """A column: its name, its native type, and values as SQL without the cast; `kind` is ours, or other where it cannot be asked about."""

    name: str
    native: str
    kind: str
    plain: tuple[str, ...]
    extreme: tuple[str, ...]


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(f"'{value}'" for value in values)


def _whole(name: str, native: str, low: int, high: int) -> Typed:
    return Typed(name, native, "integer", ("1", "2", "7", "12"), _texts((low, high, 0, low + 1, high - 1)))


def _reals(name: str, native: str, most: str, least: str) -> Typed:
    odd = ("NaN", "Infinity", "-Infinity", most, f"-{most}", least, f"-{least}", "-0.0", "0.1")
    return Typed(name, native, "float", ("1.5", "2", "0.25", "12"), _texts(odd))


def _decimals(name: str, native: str, digits: int, scale: int) -> Typed:
    most = ("9" * (digits - scale) or "0") + ("." + "9" * scale if scale else "")
    least = "0." + "0" * (scale - 1) + "1" if scale else "1"
    plain = ("0.5", "0") if digits == scale else ("1", "2", "12", "3")
    return Typed(name, native, "decimal", plain, _texts((most, f"-{most}", least, f"-{least}", "0")))


def _shared(text: str, stamp: str) -> list[Typed]:
    return [
        Typed("bo", "BOOLEAN", "boolean", ("true", "false"), ("true", "false")),
        Typed("vc", text, "text", _texts(("a", "b", "12", "2024-01-31")), _texts(ODD)),
        Typed("da", "DATE", "date", _texts(("2024-01-31", "2024-02-29")), _texts(DATES)),
        Typed("ts", stamp, "timestamp", _texts(("2024-01-31 12:00:00", "2024-02-29 01:02:03.5")), _texts(TIMES)),
    ]


def _others(listed: dict[str, tuple[str, tuple[str, ...]]]) -> list[Typed]:
    return [Typed(name, native, "other", values, values) for name, (native, values) in listed.items()]


DUCKDB = [
    *_shared("VARCHAR", "TIMESTAMP"),
    *(_whole(f"s{bits}", name, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
      for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"), (64, "BIGINT"), (128, "HUGEINT"))),
    *(_whole(f"u{bits}", name, 0, 2**bits - 1)
      for bits, name in ((8, "UTINYINT"), (16, "USMALLINT"), (32, "UINTEGER"), (64, "UBIGINT"))),
    _reals("f4", "FLOAT", "3.4e38", "1e-45"), _reals("f8", "DOUBLE", "1.7e308", "5e-324"),
    _decimals("d4", "DECIMAL(4,1)", 4, 1), _decimals("d18", "DECIMAL(18,3)", 18, 3), _decimals("d38", "DECIMAL(38,10)", 38, 10),
    _decimals("d0", "DECIMAL(38,0)", 38, 0), _decimals("dd", "DECIMAL(38,38)", 38, 38),
    Typed("uu", "UUID", "text", _texts(UUIDS[2:]), _texts(UUIDS)),
    Typed("en", "ENUM('a', 'b', 'it''s ][', '12')", "text", _texts(("a", "b")), _texts(("a", "it''s ][", "12"))),
    Typed("lv", "ENUM('low', 'medium', 'high')", "text", _texts(("low", "medium", "high")), _texts(("high", "low"))),
    Typed("sec", "TIMESTAMP_S", "timestamp", _texts(("2024-01-31 12:00:00",)), _texts((*TIMES, "infinity", "290000-01-01 00:00:00"))),
    Typed("ms", "TIMESTAMP_MS", "timestamp", _texts(("2024-01-31 12:00:00.5",)), _texts((*TIMES, "-infinity"))),
    Typed("ns", "TIMESTAMP_NS", "timestamp", _texts(("2024-01-31 12:00:00.5", "2024-01-31 12:00:00.500000001", "2024-02-29 01:02:03.5")),
          _texts(("1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806", "2024-01-01 00:00:00.000000001",
                  "2024-01-01 00:00:00.000000002", "1969-12-31 23:59:59.999999999", "2024-02-29 12:00:00"))),
    Typed("n2", "TIMESTAMP_NS", "timestamp", _texts(("2024-01-31 12:00:00.500000001", "2024-01-31 12:00:00")),
          _texts(("infinity", "-infinity", "2024-01-01 00:00:00.000000001", "1969-12-31 23:59:59.500000001"))),
    Typed("tz", "TIMESTAMPTZ", "timestamp", _texts(("2024-01-31 12:00:00+00",)), _texts(("0001-01-01 00:00:00+00", "9999-12-31 23:59:59+00",
          "infinity", "290000-01-01 00:00:00+00"))),
    Typed("far", "TIMESTAMP", "timestamp", _texts(("2024-01-31 12:00:00",)), _texts(("infinity", "-infinity", "290000-01-01 00:00:00"))),
    Typed("day", "DATE", "date", _texts(("2024-01-31",)), _texts(("infinity", "-infinity", "5000000-01-01", "4000-01-01 (BC)"))),
    *_others({
        "ti": ("TIME", _texts(("12:00:00", "23:59:59.999999", "00:00:00"))), "tt": ("TIMETZ", _texts(("12:00:00+01",))),
        "iv": ("INTERVAL", _texts(("1 day", "-3 months"))), "bl": ("BLOB", _texts(("a", "\\xFF\\x00"))), "bt": ("BIT", _texts(("01",))),
        "js": ("JSON", ("'{\"a\": 1}'", "'17'")), "li": ("INTEGER[]", ("[1, 2]", "[]", "[64]")),
        "lt": ("VARCHAR[]", ("['a']", "['b', NULL]")),
        "ar": ("INTEGER[2]", ("[1, 2]",)), "st": ("STRUCT(a INTEGER, b VARCHAR)", ("{'a': 1, 'b': 'x'}",)),
        "mp": ("MAP(VARCHAR, INTEGER)", ("MAP {'a': 1}",)), "un": ("UNION(n INTEGER, t VARCHAR)", ("1", "'a'")),
        "u128": ("UHUGEINT", ("1", f"'{2**128 - 1}'")),
        "bn": ("BIGNUM", _texts(("1", "9" * 60))), "tn": ("TIME_NS", _texts(("12:00:00.000000001",))),
    }),
]  # fmt: skip
POSTGRES = [
    *_shared("text", "timestamp"),
    _whole("s16", "smallint", -(2**15), 2**15 - 1), _whole("s32", "integer", -(2**31), 2**31 - 1),
    _whole("s64", "bigint", -(2**63), 2**63 - 1),
    _reals("f4", "real", "3.4e38", "1e-45"), _reals("f8", "double precision", "1.7e308", "5e-324"),
    _decimals("d4", "numeric(4,1)", 4, 1), _decimals("d38", "numeric(38,10)", 38, 10),
    _decimals("d60", "numeric(60,20)", 60, 20),
    Typed("dn", "numeric(38,10)", "decimal", ("1", "2.5"), _texts(("NaN", "1e27", "-1e27", "0.0000000001", "1.50"))),
    Typed("nl", "numeric", "decimal", ("1", "2.5"), _texts(("1e400", "-1e400", "1e-400", "1.0", "1.00", "12345678901234567890.5"))),
    Typed("nu", "numeric", "decimal", ("1", "2.5"), _texts(("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "1.0", "1.00"))),
    Typed("ch", "char(5)", "text", _texts(("a", "b")), _texts(("", "  a", "e\u0301", "a b"))),
    Typed("bp", "bpchar", "text", _texts(("a", "b")), _texts(("", "a  ", "a", " "))),
    Typed("v3", "varchar(9)", "text", _texts(("a", "b")), _texts(("", "a  ", "12"))),
    Typed("na", "name", "text", _texts(("a", "b")), _texts(("", "a  ", "e\u0301"))),
    Typed("uu", "uuid", "text", _texts(UUIDS[2:]), _texts(UUIDS)),
    Typed("tz", "timestamptz", "timestamp", _texts(("2024-01-31 12:00:00+00",)),
          _texts(("0001-01-01 00:00:00+00", "infinity", "-infinity", "290000-01-01 00:00:00+00", "4000-01-01 00:00:00+00 BC"))),
    Typed("far", "timestamp", "timestamp", _texts(("2024-01-31 12:00:00",)),
          _texts(("infinity", "-infinity", "290000-01-01 00:00:00", "4700-01-01 00:00:00 BC"))),
    Typed("day", "date", "date", _texts(("2024-01-31",)), _texts(("infinity", "-infinity", "5000000-01-01", "4700-01-01 BC"))),
    Typed("dom", "tacit_level", "integer", ("1", "7"), ("-5", "2147483647")),
    *_others({
        "ti": ("time", _texts(("12:00:00", "24:00:00"))), "tt": ("timetz", _texts(("12:00:00+01",))),
        "iv": ("interval", _texts(("1 day", "-3 months"))), "by": ("bytea", _texts(("a", "\\x00ff"))), "bt": ("bit(3)", _texts(("010",))),
        "vb": ("bit varying", _texts(("01",))), "js": ("json", ("'{\"a\": 1}'", "'17'")), "jb": ("jsonb", ("'{\"a\": 1}'", "'17'")),
        "li": ("integer[]", ("'{1,2}'", "'{}'")), "lt": ("text[]", ("'{a}'", "'{b,NULL}'")), "ir": ("int4range", ("'[1,5)'", "'empty'")),
        "nr": ("numrange", ("'[1,5)'",)), "dr": ("daterange", ("'[2024-01-01,2024-02-01)'",)), "mr": ("int4multirange", ("'{[1,5)}'",)),
        "mo": ("money", _texts(("12.99", "-1"))), "ip": ("inet", _texts(("10.0.0.1",))), "ci": ("cidr", _texts(("10.0.0.0/8",))),
        "ma": ("macaddr", _texts(("08:00:2b:01:02:03",))), "pt": ("point", _texts(("(1,2)",))),
        "tv": ("tsvector", _texts(("a b",))), "en": ("tacit_mood", _texts(("a", "b"))),
        "oi": ("oid", ("1",)), "qc": ('"char"', _texts(("a",))),
        "co": ("tacit_pair", ("'(1,a)'",)), "ls": ("pg_lsn", _texts(("16/B374D848",))),
    }),
]  # fmt: skip
SPARK = [
    *_shared("STRING", "TIMESTAMP_NTZ"),
    *(_whole(f"s{bits}", name, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
      for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INT"), (64, "BIGINT"))),
    _reals("f4", "FLOAT", "3.4e38", "1e-45"), _reals("f8", "DOUBLE", "1.7e308", "5e-324"),
    _decimals("d4", "DECIMAL(4,1)", 4, 1), _decimals("d38", "DECIMAL(38,10)", 38, 10), _decimals("d0", "DECIMAL(38,0)", 38, 0),
    Typed("tz", "TIMESTAMP", "timestamp", _texts(("2024-01-31 12:00:00",)), _texts(("0001-01-01 00:00:00", "9999-12-31 23:59:59"))),
    *_others({
        "bl": ("BINARY", _texts(("a",))), "li": ("ARRAY<INT>", ("array(1, 2)",)), "lt": ("ARRAY<STRING>", ("array('a')",)),
        "mp": ("MAP<STRING, INT>", ("map('a', 1)",)), "st": ("STRUCT<a: INT>", ("named_struct('a', 1)",)),
        "iv": ("INTERVAL DAY TO SECOND", ("INTERVAL '1 00:00:00' DAY TO SECOND",)),
        "ym": ("INTERVAL YEAR TO MONTH", ("INTERVAL '1-2' YEAR TO MONTH",)),
    }),
]  # fmt: skip
COLUMNS = {"duckdb": DUCKDB, "postgres": POSTGRES, "spark": SPARK}


def lines(columns: Sequence[Typed], size: str, people: int = 5) -> list[list[str]]:
    """The rows as SQL; in every column there is a NULL too, and each person has several rows that differ in every column."""
    if size == "empty":
        return []
    found = []
    for place in range(max(len(column.extreme) for column in columns) + 4):
        row = [str(place % people)]
        for step, column in enumerate(columns):
            values = (*(column.plain if size == "plain" else column.extreme), "NULL")
            row.append(f"CAST({values[(place + step) % len(values)]} AS {column.native})")
        found.append(row)
    return found


def load(place: Place, columns: Sequence[Typed] | None = None, prefix: str = "every_") -> None:
    """The three tables on an engine."""
    chosen = COLUMNS[place.name] if columns is None else columns
    for size in SIZES:
        put(place, f"{prefix}{size}", chosen, lines(chosen, size))


def put(place: Place, table: str, columns: Sequence[Typed], rows: Sequence[Sequence[str]]) -> None:
    """A table of these rows, each an `id` and a value for every column, as SQL."""
    names = ", ".join(["id", *(column.name for column in columns)])
    if place.name == "spark":
        nothing = ", ".join(["CAST(NULL AS BIGINT)", *(f"CAST(NULL AS {c.native})" for c in columns)])
        values = ", ".join(f"({text})" for text in (nothing, *(f"CAST({row[0]} AS BIGINT), {', '.join(row[1:])}" for row in rows)))
        session: Any = place.usual.session
        found = session.sql(f"SELECT * FROM VALUES {values} AS t({names}) WHERE id IS NOT NULL".replace("${", "$' || '{"))
        # Once and for all, in one part: as a view its rows would be planned and computed again in every statement.
        found.coalesce(1).localCheckpoint().createOrReplaceTempView(table)
        return
    made = f"CREATE TABLE {table} ({', '.join(['id BIGINT', *(f'{c.name} {c.native}' for c in columns)])})"
    filled = f"INSERT INTO {table} ({names}) VALUES {', '.join(f'({chr(44).join(row)})' for row in rows)}"
    if place.name == "duckdb":
        for engine in (place.usual, place.steady):
            with engine._lock:
                engine._forget(table)
                engine._connection.execute(f"DROP TABLE IF EXISTS {table}")
                engine._connection.execute(made)
                if rows:
                    engine._connection.execute(filled)
        return
    with psycopg.connect(servers.postgres("attacks")) as connection:
        types = "SELECT 1 FROM pg_type WHERE typname = 'tacit_mood'"
        if connection.execute(types).fetchone() is None:
            connection.execute("CREATE TYPE tacit_mood AS ENUM ('a', 'b')")
            connection.execute("CREATE TYPE tacit_pair AS (n integer, t text)")
            connection.execute("CREATE DOMAIN tacit_level AS integer CHECK (VALUE > -10)")
        connection.execute(f"DROP TABLE IF EXISTS {table} CASCADE".encode())
        connection.execute(made.encode())
        if rows:
            connection.execute(filled.encode())
