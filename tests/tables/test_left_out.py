"""People who are left out: on three engines, every kind of question equals the same over the table without their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import parse_one
from tests.tables.engines import servers

from tacit.accounting import Guarantee
from tacit.tables import KINDS, Desk, LeftOut, Plan, Source, TableError, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import Spark
from tacit.tables.figures import integers

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT region, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY region",
    "SELECT region, AVG(age) AS a, VAR_POP(age) AS v FROM visits WHERE age > 20 GROUP BY region",
    "SELECT COUNT(DISTINCT id) AS people, COUNT(DISTINCT age) AS ages FROM visits",
    "SELECT MEDIAN(age) AS m FROM visits",
    "SELECT AVG(older) AS o FROM (SELECT age + 1 AS older FROM visits) v",
    "SELECT COUNT(*) AS n FROM (SELECT id, COUNT(*) AS c FROM visits GROUP BY id) p WHERE c > 1",
    "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.id = b.id",
    "SELECT MIN(age) AS low, MAX(age) AS high FROM visits",
    "SELECT COUNT(age) AS n, VAR_SAMP(age) AS v, STDDEV_POP(age) AS p, STDDEV_SAMP(age) AS s FROM visits",
    "SELECT COVAR_POP(age, age + 1) AS p, COVAR_SAMP(age, age + 1) AS s, CORR(age, age + 1) AS r FROM visits",
)
GONE = (3, 17)


def visits() -> pa.Table:
    draws = np.random.default_rng(11)
    return pa.table(
        {
            "id": pa.array(draws.integers(0, 30, 400)),
            "region": pa.array(draws.choice(["N", "S", "E"], 400).tolist()),
            "age": pa.array(draws.integers(0, 90, 400)),
        }
    )


def others() -> pa.Table:
    """The table with the rows of those people deleted."""
    table = visits()
    return table.filter(pc.invert(pc.is_in(table["id"], pa.array(GONE))))


def on_duckdb(table: pa.Table, gone: tuple[int, ...]) -> Any:
    engine = DuckDB(portable=True)
    engine.register("visits", table)
    engine.register("gone", pa.table({"person": pa.array(gone, pa.int64())}))
    return engine


def on_postgres(table: pa.Table, gone: tuple[int, ...]) -> Any:
    url = servers.postgres(f"left_out_{len(gone)}_{table.num_rows}")
    servers.load_postgres(url, "visits", table)
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS gone")
        connection.execute("CREATE TABLE gone AS SELECT id AS person FROM visits WHERE FALSE")
        for person in gone:
            connection.execute("INSERT INTO gone VALUES (%s)", (person,))
    return Postgres(url, portable=True)


def on_spark(table: pa.Table, gone: tuple[int, ...]) -> Any:
    engine = Spark(servers.spark().session, portable=True)
    engine.register("visits", table)
    engine.register("gone", pa.table({"person": pa.array(gone, pa.int64())}))
    return engine


def desk_on(engine: Any) -> Desk:
    columns = {"region": ["N", "S", "E"], "age": (0, 90), "older": (1, 91)}
    return Desk.of(Source.of(engine, name="visits"), Unit("id", max_rows=4), columns, dialect="duckdb")


def replayed(engine: Any, plan: Plan) -> tuple[Any, ...]:
    """The integers of a plan's statement under a recorded salt: the same rows give the same integers, on any engine."""
    found = integers(engine.run(plan.statement(engine, 12345)), plan)
    return found.groups, [part.tolist() for part in found.sums], found.people


def test_no_kind_of_question_is_missing() -> None:
    desk = desk_on(on_duckdb(visits(), ()))
    assert {part.kind for text in QUESTIONS for part in desk.question(text).aggregates} == set(KINDS)


@pytest.mark.parametrize(
    ("place", "questions"),
    [(on_duckdb, QUESTIONS), (on_postgres, QUESTIONS), (on_spark, QUESTIONS[::3]),
     *(pytest.param(place, QUESTIONS, marks=pytest.mark.slow) for place in (on_postgres, on_spark))],
)  # fmt: skip
def test_every_kind_of_question_equals_that_over_the_table_without_their_rows(
    place: Callable[..., Any], questions: tuple[str, ...]
) -> None:
    with_list = LeftOut(place(visits(), GONE), {"visits": "id"}, "gone")
    plans = [desk_on(with_list).plan(desk_on(with_list).question(text), Guarantee(epsilon=1, delta="1e-6")) for text in questions]
    found = [replayed(with_list, plan) for plan in plans]
    deleted = place(others(), ())
    wanted = [replayed(deleted, plan) for plan in plans]
    for text, one, other in zip(questions, found, wanted, strict=True):
        assert one == other, text
    # a test that would pass for a list without effect is none
    everyone = LeftOut(place(visits(), ()), {"visits": "id"}, "gone")
    assert [replayed(everyone, plan) for plan in plans] != wanted
    if place is on_postgres:
        for engine in (with_list.engine, deleted, everyone.engine):
            engine.close()


def test_the_statement_names_nobody() -> None:
    engine = LeftOut(on_duckdb(visits(), GONE), {"visits": "id"}, "gone")
    text = engine.without(parse_one("SELECT COUNT(*) FROM visits AS v WHERE age > 3")).sql("duckdb")
    assert "NOT EXISTS" in text and "17" not in text and text.count('AS "v"') == 1
    assert "gone" not in engine.without(parse_one("SELECT COUNT(*) FROM regions")).sql("duckdb")


def test_a_kept_statement_is_rewritten_once_and_sees_a_new_list() -> None:
    engine = LeftOut(on_duckdb(visits(), ()), {"visits": "id"}, "gone")
    desk = replace(desk_on(engine), loss=False)
    plan = desk.plan(desk.question("SELECT COUNT(DISTINCT id) AS n FROM visits"), Guarantee(epsilon=1))
    before = integers(engine.run(desk._statement(plan)[0]), plan)
    engine.engine.register("gone", pa.table({"person": pa.array(GONE, pa.int64())}))
    after = integers(engine.run(desk._statement(plan)[0]), plan)
    assert int(np.sum(before.sums[0])) - int(np.sum(after.sums[0])) == len(GONE)


def test_prices_do_not_change() -> None:
    plain, guarded = on_duckdb(visits(), GONE), LeftOut(on_duckdb(visits(), GONE), {"visits": "id"}, "gone")
    for text in QUESTIONS:
        plans = [desk_on(e).plan(desk_on(e).question(text), Guarantee(epsilon=1, delta="1e-6")) for e in (plain, guarded)]
        assert plans[0].event == plans[1].event, text


def test_a_source_without_people_is_refused() -> None:
    with pytest.raises(TableError):
        LeftOut(DuckDB(), {}, "gone")
