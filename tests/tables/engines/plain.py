"""Questions against the engine's own plain SQL: a table with one column of each awkward type, on each engine.

The oracle is the engine itself, which runs the question as it stands. With a huge epsilon the noise is nothing, so an answer is the plain
one or it is wrong.
"""

from __future__ import annotations

import datetime
import decimal
import math
from functools import cache
from typing import Any

import psycopg
from tests.tables.engines import places, servers
from tests.tables.engines.places import Place

from tacit.ledger import Budget
from tacit.tables import Session, Unit

TABLE = "numbers"
COLUMNS = {
    "id": ("BIGINT", "bigint", "BIGINT"),
    "d": ("DECIMAL(12,2)", "numeric(12,2)", "DECIMAL(12,2)"),
    "w": ("DECIMAL(38,10)", "numeric", "DECIMAL(38,10)"),
    "e": ("DECIMAL(18,3)", "numeric(18,3)", "DECIMAL(18,3)"),
    "r": ("FLOAT", "real", "FLOAT"),
    "x": ("DOUBLE", "double precision", "DOUBLE"),
    "i": ("INTEGER", "integer", "INT"),
    "k": ("SMALLINT", "smallint", "SMALLINT"),
    "b": ("BIGINT", "bigint", "BIGINT"),
    "day": ("DATE", "date", "DATE"),
    "at": ("TIMESTAMP", "timestamp", "TIMESTAMP_NTZ"),
    "s": ("VARCHAR", "text", "STRING"),
    "f": ("BOOLEAN", "boolean", "BOOLEAN"),
}
_DAYS = ["0001-01-01", "0001-01-02", "9999-12-31", "9999-12-30", "2024-02-29", "1970-01-01", "2023-12-31", "1969-12-31"]
_TIMES = ["0001-01-01 00:00:00", "9999-12-31 00:00:00", "9999-12-31 23:59:59.999999", "9999-12-30 12:00:00", "2024-02-29 13:14:15"]
VALUES: dict[str, list[str | None]] = {
    "d": ["12.99", "12.98", "-12.99", "0.10", "0.30", "0.00", "9999999999.99", "-9999999999.99", "2.50", "3.50", "-2.50", "0.50", None],
    "w": ["12.99", "0.1", "0.3", "-0.5", "1234567890123456789012345678.0000000001", "0.0000000001", "9007199254740993", None],
    "e": ["1.005", "2.675", "-1.005", "0.125", "-2.500", "2.500", "1.500", "999999999999999.999", None],
    "r": ["0.1", "0.2", "0.5", "-2.5", "16777216", "3.4e38", "1e-40", None],
    "x": ["0.1", "0.2", "0.3", "0.5", "-0.5", "2.5", "-2.5", "-1.5", "1e300", "1e-300", "9007199254740993", None],
    "i": ["0", "1", "-1", "7", "-7", "10", "2147483647", "-2147483648", None],
    "k": ["0", "1", "2", "3", "-7", None],
    "b": ["9007199254740993", "9007199254740992", "-9007199254740993", "9223372036854775807", "-9223372036854775808", "7", "-7", "0", None],
    "day": [*_DAYS, None],
    "at": [*_TIMES, None],
    "s": ["a", "b", "=1+1", "", None],
    "f": ["true", "false", None],
}
ROWS = 240
UNIT = Unit("id", max_rows=ROWS, capped=True)


def rows() -> list[dict[str, str | None]]:
    """Every value of every column, at strides that meet each other."""
    names = list(VALUES)
    return [
        {"id": str(i % 40), **{name: VALUES[name][(i * (2 * place + 1) + i // 13) % len(VALUES[name])] for place, name in enumerate(names)}}
        for i in range(ROWS)
    ]


def _literal(text: str | None, kind: str) -> str:
    return f"CAST(NULL AS {kind})" if text is None else f"CAST('{text}' AS {kind})"


@cache
def filled(name: str) -> Place:
    """The engine with the table in it."""
    place, which = places.place(name), places.ENGINES.index(name)
    kinds = {column: kind[which] for column, kind in COLUMNS.items()}
    declared = ", ".join(f'"{column}" {kind}' for column, kind in kinds.items())
    lines = ", ".join("(" + ", ".join(_literal(row[c], kinds[c]) for c in kinds) + ")" for row in rows())
    if name == "postgres":
        with psycopg.connect(servers.postgres("attacks")) as connection:
            connection.execute(f"CREATE TABLE {TABLE} ({declared})".encode())
            connection.execute(f"INSERT INTO {TABLE} VALUES {lines}".encode())
    elif name == "duckdb":
        place.usual._connection.execute(f"CREATE TABLE {TABLE} ({declared})")
        place.usual._connection.execute(f"INSERT INTO {TABLE} VALUES {lines}")
    else:
        place.usual.session.sql(f"SELECT * FROM VALUES {lines} AS v({', '.join(f'`{c}`' for c in kinds)})").createOrReplaceTempView(TABLE)
    return place


@cache
def session(name: str) -> Session:
    """A session on the table, with money for anything."""
    return filled(name).session(UNIT, Budget(epsilon=10**15, delta="1e-6"), name=TABLE, loss=False)


def near(value: Any, expected: Any, within: float) -> bool:
    """Whether a figure or a key is what the engine says."""
    if isinstance(expected, datetime.datetime) and type(value) is datetime.date:
        expected = expected.date() if expected.time() == datetime.time() else expected
    if isinstance(value, datetime.datetime) and type(expected) is datetime.date:
        value = value.date() if value.time() == datetime.time() else value
    if expected is None or isinstance(expected, (str, bool, datetime.date)):
        return bool(value == expected) or (expected is None and isinstance(value, float) and math.isnan(value))
    if value is None or isinstance(value, str):
        return False
    if isinstance(expected, float) and not math.isfinite(expected):
        return bool(float(value) == expected) or (math.isnan(expected) and math.isnan(float(value)))
    return abs(decimal.Decimal(value) - decimal.Decimal(expected)) <= decimal.Decimal(within) * max(1, abs(decimal.Decimal(expected)))


def compared(name: str, text: str, *, within: float = 1e-6, oracle: str | None = None, **options: Any) -> tuple[list[Any], list[Any]]:
    """The answer's lines and the plain query's that differ."""
    here = session(name)
    question = here.desk.question(text)
    plain = filled(name).raw(oracle or text)
    keys = [key.name for key in question.keys]
    shown = [output.name for output in question.outputs] or [*keys, *(a.name for a in question.aggregates)]
    if keys and "keys" not in options:
        lines = list(dict.fromkeys(tuple(row[shown.index(key)] for key in keys) for row in plain))
        options["keys"] = lines if len(keys) > 1 else {keys[0]: [line[0] for line in lines]}
    answer = here.ask(question, epsilon=10**9, **options)
    columns = {**answer.keys, **answer.figures}
    values = [columns[n].value.tolist() if n in answer.figures else list(columns[n]) for n in shown]  # type: ignore[union-attr]
    found = [tuple(line) for line in zip(*values, strict=True)]
    left, unmatched = list(plain), []
    for line in found:
        hit = next((row for row in left if all(near(a, b, within) for a, b in zip(line, row, strict=True))), None)
        if hit is None:
            unmatched.append(line)
        else:
            left.remove(hit)
    return unmatched, left
