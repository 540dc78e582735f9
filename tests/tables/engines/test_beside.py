"""What is public is asked beside a statement that runs: types, names, what views are made of, counts of public tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from tacit.accounting import Guarantee
from tacit.tables import Desk, LeftOut, Source, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import run_aside
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import ZONE, Spark

PATIENCE = 60.0
TYPED = "(SELECT CAST(id AS BIGINT) + 1 AS k, region FROM visits WHERE x > 0) AS typed_"


def started(what: Callable[[], Any]) -> Future[Any]:
    found: Future[Any] = Future()

    def work() -> None:
        try:
            found.set_result(what())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return found


def looked_at(engine: Any) -> None:
    """All that planning asks of an engine."""
    table = exp.to_table("visits", quoted=True)
    assert engine.columns(table)["region"]
    assert engine.columns(parse_one(f"SELECT * FROM {TYPED}").args["from_"].this)["k"]
    assert run_aside(engine, parse_one("SELECT COUNT(*) AS n FROM visits WHERE FALSE")).to_pydict() == {"n": [0]}


def test_a_real_statement_of_duckdb_runs_meanwhile(duck: DuckDB) -> None:
    running = started(lambda: duck.run(parse_one("SELECT COUNT(*) AS n FROM RANGE(100000000000) AS r(i) WHERE i % 7 = 3", read="duckdb")))
    while not duck._lock.locked():
        time.sleep(0.01)
    try:
        started(lambda: looked_at(duck)).result(PATIENCE)
        assert not running.done(), "the statement must outlast what is asked beside it"
    finally:
        duck._connection.interrupt()
    with pytest.raises(Exception, match="statement"):
        running.result(PATIENCE)
    assert duck.run(parse_one("SELECT COUNT(*) AS n FROM visits")).to_pydict() == {"n": [600]}


def test_a_real_statement_of_postgresql_runs_meanwhile(pg: Postgres) -> None:
    running = started(lambda: pg.run(parse_one("SELECT pg_sleep(600)", read="postgres")))
    while not pg._lock.locked():
        time.sleep(0.01)
    try:
        started(lambda: looked_at(pg)).result(PATIENCE)
        started(lambda: pg.relations("visits")).result(PATIENCE)
        assert not running.done()
    finally:
        pg._connection.cancel_safe()
    with pytest.raises(Exception, match="statement"):
        running.result(PATIENCE)


def test_a_statement_of_spark_runs_meanwhile(spark: Spark) -> None:
    with spark._lock:
        started(lambda: looked_at(spark)).result(PATIENCE)


@pytest.mark.parametrize("which", ["duck", "pg", "spark"])
def test_the_mutant_waits(which: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = request.getfixturevalue(which)
    monkeypatch.setattr(engine, "_beside_lock", engine._lock)
    with engine._lock:
        late = started(lambda: looked_at(engine))
        with pytest.raises(TooLate):
            late.result(1)
    late.result(PATIENCE)


def test_a_file_of_duckdb_with_views(tmp_path: Path) -> None:
    path = str(tmp_path / "data.duckdb")
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE raw (id BIGINT, region VARCHAR, x DOUBLE)")
        made.execute("CREATE VIEW visits AS SELECT id, UPPER(region) AS region, x FROM raw WHERE id > 0")
    engine = DuckDB(path)
    with engine._lock:
        started(lambda: looked_at(engine)).result(PATIENCE)
        assert started(lambda: engine.tables()).result(PATIENCE) == ["raw", "visits"]
        assert started(lambda: engine.bases("visits")).result(PATIENCE) == ["raw"]
    # it may read nothing else than the first connection may
    engine.only([])
    for connection in (engine._connection, engine._beside):
        with pytest.raises(duckdb.Error):
            connection.execute(f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'")
        with pytest.raises(duckdb.Error):
            connection.execute("SET TimeZone = 'Europe/Berlin'")
    engine.close()


def test_a_plan_that_counts_rows_of_a_public_table() -> None:
    tables = {"visits": {"id": [1, 2], "region": ["N", "S"]}, "regions": {"region": ["N", "S"], "size": [3, 4]}}
    source = Source.several({name: pa.table(columns) for name, columns in tables.items()}, public=["regions"])
    source.engine.register("gone", pa.table({"person": [2]}))  # type: ignore[attr-defined]
    guarded = LeftOut(source.engine, {"visits": "id"}, "gone")
    desk = Desk.of(Source(guarded, source.tables, source.public), Unit("id", max_rows=2), {"size": (0, 9)})
    sql = "SELECT COUNT(*) AS n FROM visits JOIN regions ON visits.region = regions.region WHERE size > 3"
    with source.engine._lock:  # type: ignore[attr-defined]
        plan = started(lambda: desk.plan(desk.question(sql), Guarantee(epsilon=1))).result(PATIENCE)
    assert plan.unit.person == "id"
    # and whoever asks for a private table in this way still does not see those who left
    assert run_aside(guarded, parse_one("SELECT COUNT(*) AS n FROM visits")).to_pydict() == {"n": [1]}


def test_statements_of_spark_beside_each_other_keep_their_zone(spark: Spark) -> None:
    spark.session.conf.set(ZONE, "Asia/Tokyo")
    try:
        with spark._in_utc():
            with spark._in_utc():
                assert spark.session.conf.get(ZONE) == "UTC"
            assert spark.session.conf.get(ZONE) == "UTC", "the one that ends must not take the zone from the one that runs"
        assert spark.session.conf.get(ZONE) == "Asia/Tokyo"
    finally:
        spark.session.conf.set(ZONE, "UTC")
