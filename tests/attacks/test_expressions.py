"""A row must not be able to make a question fail: random expressions of nasty rows raise nothing on any engine, and mean the same on all.

Whether an error is raised would itself be an answer (a division by zero "if this person is in the data"). The mutant is the expression as
the user wrote it: the same rows make it fail.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.tables.engines import places
from tests.tables.engines.places import Place
from tests.tables.random_expressions import TYPES, Expressions, rows

from tacit.tables.dialects import spoken
from tacit.tables.errors import TableError
from tacit.tables.expressions import total
from tacit.tables.forms import dated
from tacit.tables.values import Value

DATA = rows(60, seed=5)
#: As many expressions are asked for at once, so that a slow engine is asked few times.
BATCH = 20


def batches(count: int) -> list[list[tuple[str, exp.Expression]]]:
    made: list[tuple[str, exp.Expression]] = []
    seed = 1000
    while len(made) < count * BATCH:
        seed += 1
        text = Expressions(seed).any(1 + seed % 3)
        try:
            tree = spoken(parse_one(f"SELECT {text}", read="duckdb"), "duckdb")
            value = total(tree.expressions[0], TYPES)
            # As a key is handed over: a date that was moved beyond the calendar can be compared, and not be shown.
            made.append((text, dated(Value(value.sql, value.kind)) if value.kind in ("date", "timestamp") else value.sql))
        except TableError:
            continue
    return [made[start : start + BATCH] for start in range(0, len(made), BATCH)]


def asked(place: Place, batch: list[tuple[str, exp.Expression]]) -> list[tuple[Any, ...]]:
    """The expressions of all rows, as a question sends them to the engine."""
    chosen = [exp.column("n"), *(exp.alias_(sql.copy(), f"c{i}") for i, (_, sql) in enumerate(batch))]
    found = place.usual.run(exp.Select(expressions=chosen).from_("t").order_by("n"))
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


KINDS = {
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "BOOLEAN": pa.bool_(),
    "DECIMAL(18,3)": pa.decimal128(18, 3),
}


def rows_on(place: Place) -> Callable[[str], list[tuple[Any, ...]]]:
    """The nasty rows on an engine, and a way to ask about them without any preparation."""
    columns = [pa.array(list(values), KINDS[kind]) for values, kind in zip(zip(*DATA, strict=True), TYPES.values(), strict=True)]
    place.load("t", pa.table([pa.array(range(len(DATA)), pa.int32()), *columns], names=["n", *TYPES]))
    return place.raw


def same(first: Any, second: Any) -> bool:
    if isinstance(first, (int, float, Decimal)) and isinstance(second, (int, float, Decimal)):
        first, second = Fraction(first), Fraction(second)
        return abs(first - second) <= Fraction(1, 10**9) * max(Fraction(1), abs(first), abs(second))
    return bool(first == second)


@pytest.mark.parametrize(
    ("place", "count", "least"), [("postgres", 3, 800), ("spark", 2, 500)], indirect=["place"], ids=["postgres", "spark"]
)
def test_no_engine_fails_and_all_agree(place: Place, count: int, least: int) -> None:
    """Each of the others against DuckDB."""
    assert compared(place, count) > least


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgres", "spark"], indirect=True)
def test_they_agree_on_many_more(place: Place) -> None:
    assert compared(place, 40) > 10_000


def compared(place: Place, count: int) -> int:
    """How many values were there to compare."""
    duck, present = places.place("duckdb"), 0
    rows_on(duck)
    rows_on(place)
    for batch in batches(count):
        for left, right in zip(asked(duck, batch), asked(place, batch), strict=True):
            for (text, _), a, b in zip(batch, left[1:], right[1:], strict=True):
                present += a is not None
                assert same(a, b), text
    return present


FAILING = [
    *(
        ("postgres", text)
        for text in ("x / y", "LN(x)", "CAST(s AS DATE)", "CAST(s AS DOUBLE PRECISION)", "x * y", "EXP(x)", "SQRT(x)", "b + b")
    ),
    *(("duckdb", text) for text in ("CAST(s AS DATE)", "CAST(s AS DOUBLE)", "b + b", "CAST(x AS BIGINT)")),
    *(("spark", text) for text in ("x / y", "CAST(s AS DATE)", "b + b")),
]


@pytest.mark.parametrize(("place", "text"), FAILING, indirect=["place"], ids=["-".join(case) for case in FAILING])
def test_the_mutant_fails_on_these_rows(place: Place, text: str) -> None:
    """As the user wrote it, the engine raises because of a row."""
    ask = rows_on(place)
    with pytest.raises(Exception):  # noqa: B017 - each engine has exceptions of its own
        ask(f"SELECT {text} AS v FROM t")
    dialect = place.usual.dialect
    sql = total(parse_one(f"SELECT {text}", read=dialect).expressions[0], TYPES).sql.sql(dialect=dialect)
    assert len(ask(f"SELECT {sql} AS v FROM t")) == len(DATA)
