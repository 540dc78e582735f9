"""Attacks through keys that are selected privately: values that can be stored and not handed over.

A date after the year 9999, infinity as a date, a number that is none: were one of them in the data, and only then, the answer would fail.
A row with such a key is in no group; the others' groups are as they were.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.tables.engines import servers
from tests.tables.engines.places import Place

from tacit.tables import Unit
from tacit.tables.figures import Exact, integers
from tacit.tables.plan import Plan

#: For each engine: the key, and rows of it in the engine's own words, the last of which is an ordinary one.
KEYS = [
    ("duckdb", "date", ["DATE 'infinity'", "DATE '-infinity'", "DATE '10000-01-01'", "DATE '4000-01-01 (BC)'", "DATE '2026-01-01'"]),
    ("duckdb", "timestamp", ["TIMESTAMP 'infinity'", "TIMESTAMP '20000-01-01'", "TIMESTAMP '2026-01-01 12:00:00'"]),
    ("duckdb", "nanoseconds", ["CAST('2026-01-01 12:00:00.123456789' AS TIMESTAMP_NS)", "CAST('2026-01-01 12:00:00' AS TIMESTAMP_NS)"]),
    ("duckdb", "float", ["CAST('NaN' AS DOUBLE)", "CAST('-NaN' AS DOUBLE)", "CAST(0.5 AS DOUBLE)"]),
    ("postgres", "date", ["DATE 'infinity'", "DATE '-infinity'", "DATE '10000-01-01'", "DATE '4000-01-01 BC'", "DATE '2026-01-01'"]),
    ("postgres", "timestamp", ["TIMESTAMP 'infinity'", "TIMESTAMP '20000-01-01'", "TIMESTAMP '2026-01-01 12:00:00'"]),
    ("postgres", "number", ["NUMERIC 'NaN'", "NUMERIC 'Infinity'", "NUMERIC '1e400'", "NUMERIC '1e-300'", "NUMERIC '1.5'"]),
    ("postgres", "float", ["FLOAT8 'NaN'", "FLOAT8 '0.5'"]),
    ("spark", "date", ["DATE '10000-01-01'", "DATE '-4000-01-01'", "DATE '2026-01-01'"]),
    ("spark", "timestamp", ["TIMESTAMP_NTZ '20000-01-01 00:00:00'", "TIMESTAMP_NTZ '2026-01-01 12:00:00'"]),
    ("spark", "float", ["CAST('NaN' AS DOUBLE)", "CAST(0.5 AS DOUBLE)"]),
]


def made(place: Place, values: list[str]) -> None:
    """A table of people with a key each."""
    rows = " UNION ALL ".join(f"SELECT CAST({i} AS BIGINT) AS id, {value} AS k" for i, value in enumerate(values))
    if place.name == "postgres":
        with psycopg.connect(servers.postgres("attacks")) as connection:
            connection.execute(b"DROP TABLE IF EXISTS hostile")
            connection.execute(f"CREATE TABLE hostile AS {rows}".encode())
    elif place.name == "spark":
        place.usual.session.sql(rows).localCheckpoint().createOrReplaceTempView("hostile")
    else:
        for connection in (place.usual._connection, place.usual._beside):  # what is temporary is seen by its own connection alone
            connection.execute(f"CREATE OR REPLACE TEMP VIEW hostile AS {rows}")


def asked(place: Place, plan: Plan) -> Exact:
    return integers(place.usual.run(plan.statement(place.usual, 1)), plan)


@pytest.mark.parametrize(("place", "kind", "values"), KEYS, indirect=["place"], ids=[f"{engine}-{kind}" for engine, kind, _ in KEYS])
def test_no_key_makes_the_answer_fail(place: Place, kind: str, values: list[str]) -> None:
    found: list[Any] = []
    for rows in (values[-1:], values):
        made(place, rows)
        session = place.session(Unit("id", max_rows=1), loss=False, name="hostile")
        plan = session.plan("SELECT k, COUNT(*) AS n FROM hostile GROUP BY k", epsilon=1)
        exact = asked(place, plan)
        found.append({group: people for group, people in zip(exact.groups, exact.people, strict=True)})
    assert found[0].items() <= found[1].items()
    assert len(found[0]) == 1 and set(found[1].values()) == {1}


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_number_has_one_text(place: Place) -> None:
    """1.5 and 1.50 are one group, and which of the two is handed over would follow from where the rows lie."""
    for values in (["NUMERIC '1.5'", "NUMERIC '1.500'", "NUMERIC '20'"], ["NUMERIC '1.500'", "NUMERIC '1.5'", "NUMERIC '20.0'"]):
        made(place, values)
        session = place.session(Unit("id", max_rows=1), loss=False, name="hostile")
        exact = asked(place, session.plan("SELECT k, COUNT(*) AS n FROM hostile GROUP BY k", epsilon=1))
        assert sorted(str(values[0]) for _, values in exact.groups) == ["1.5", "20"]
