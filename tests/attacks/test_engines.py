"""Attacks on engines: rows made to fail a statement. Whether an error is raised must not depend on the data."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.tables.engines import servers
from tests.tables.engines.places import Place

from tacit.accounting import Guarantee
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import ZONE
from tacit.tables.figures import integers
from tacit.tables.plan import Settings, make
from tacit.tables.question import Aggregate, Question
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


def rows_on(place: Place) -> Place:
    ids, texts = list(range(len(NASTY))), TEXTS[: len(NASTY)]
    place.load("t", pa.table({"id": ids, "x": pa.array(NASTY, pa.float64()), "s": pa.array(texts, pa.string())}))
    return place


def run(place: Place, kinds: Sequence[str], column: str, bounds: tuple[float, float]) -> list[Any]:
    figures = tuple(Aggregate(kind, parse_one(column), f"f{i}") for i, kind in enumerate(kinds))
    engine, unit = place.usual, Unit("id", max_rows=1)
    spend = Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    plan = make(Question(exp.to_table("t"), (), figures), unit, engine, Settings(bounds={column: bounds}), spend)
    exact = integers(engine.run(plan.statement(engine, 1)), plan)
    for share, sums in zip(plan.shares, exact.sums, strict=True):
        measure = share.measure
        if measure.over == "rows":
            # thirteen people with one row each: no sum can be beyond thirteen times the most that a row may add
            assert abs(int(sums[0])) <= len(NASTY) * measure.most
    return [sums.tolist() for sums in exact.sums]


#: One kind a statement on the quick engines, all at once on Spark.
ASKED = [*((engine, (kind,)) for engine in ("duckdb", "postgres") for kind in KINDS), ("spark", KINDS)]


@pytest.mark.parametrize(("place", "kinds"), ASKED, indirect=["place"], ids=[f"{engine}-{'-'.join(kinds)}" for engine, kinds in ASKED])
def test_no_float_makes_a_statement_fail(place: Place, kinds: tuple[str, ...]) -> None:
    rows_on(place)
    for bounds in BOUNDS[:: 3 if place.slow else 1]:
        assert run(place, kinds, "x", bounds)


def test_no_text_makes_a_statement_fail(place: Place) -> None:
    rows_on(place)
    for kinds in [("sum", "avg", "var")] if place.slow else [("sum",), ("avg",), ("var",)]:
        try:
            found = run(place, kinds, "s", (0, 10))
        except ValueError:
            continue  # a planner that refuses sums of texts does so by the type, which is public
        assert found


#: What each engine does by itself: the same kind of statement without preparation raises, and only because of certain rows.
MUTANTS = {
    "duckdb": "SELECT SUM(CAST(s AS DOUBLE)) FROM t WHERE {}",
    "postgres": "SELECT SUM((x / 2) * (x / 2)) FROM t WHERE {}",
    "spark": "SELECT SUM(CAST(s AS DOUBLE)) FROM t WHERE {}",
}


def test_the_server_by_itself_would_fail(place: Place) -> None:
    """The mutant."""
    rows_on(place)
    with pytest.raises(Exception):  # noqa: B017 - each engine has exceptions of its own
        place.raw(MUTANTS[place.name].format("abs(x) < 1e-100 OR s = 'x'"))
    assert len(place.raw(MUTANTS[place.name].format("x = 1 AND s <> 'x' AND s = '1'"))) == 1


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_backslash_ends_no_text(place: Place) -> None:
    """A server set to read backslashes as escapes takes what follows a text for SQL, and one that sends Latin letters fails on others."""
    place.load("t", pa.table({"id": [1, 2, 3], "s": pa.array(["a\\", "b", "Ω"], pa.string())}))
    url = servers.postgres("attacks")
    options = "-c%20standard_conforming_strings%3Doff%20-c%20client_encoding%3DLATIN1%20-c%20DateStyle%3DGerman"
    set_otherwise = f"{url}{'&' if '?' in url else '?'}options={options}"
    statement = parse_one("SELECT COUNT(*) AS n, MAX(s) AS s FROM t WHERE s IN ('a\\', ' OR TRUE --', 'Ω')", read="postgres")
    engine = Postgres(set_otherwise)
    assert engine.run(statement).to_pylist() == [{"n": 2, "s": "Ω"}]
    dates = parse_one("SELECT CAST(CAST(s AS DATE) AS TEXT) AS d FROM (SELECT '2026-01-31' AS s) AS q", read="postgres")
    assert engine.run(dates).to_pylist() == [{"d": "2026-01-31"}]
    engine.close()
    with psycopg.connect(set_otherwise) as own, pytest.raises((psycopg.Error, UnicodeError)):  # the mutant: the server as it is set
        own.execute(statement.sql(dialect="postgres").encode()).fetchall()


@pytest.mark.parametrize("place", ["spark"], indirect=True)
def test_an_instant_has_one_date_whatever_the_session_is_set_to(place: Place) -> None:
    """Late on the last day of a month here is the next month further east: a unit's row would be in two periods, and be paid for once."""
    moment = datetime.datetime(2026, 1, 31, 20, tzinfo=datetime.UTC)
    place.load("t", pa.table({"id": [1], "at": pa.array([moment], pa.timestamp("us", tz="UTC"))}))
    statement = parse_one("SELECT CAST(CAST(at AS DATE) AS STRING) AS d FROM t", read="spark")
    zone = place.usual.session.conf.get(ZONE)
    try:
        for name in ("UTC", "Asia/Tokyo"):
            place.usual.session.conf.set(ZONE, name)
            assert place.usual.run(statement).to_pylist() == [{"d": "2026-01-31"}]
            assert place.usual.session.conf.get(ZONE) == name  # whose session it is keeps its own
        assert place.raw(statement.sql(dialect="spark"))[0][0] == "2026-02-01"  # the mutant: in the session's zone
    finally:
        place.usual.session.conf.set(ZONE, zone)
