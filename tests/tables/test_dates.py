"""Dates against Python's own calendar, moments against its zones, and nothing where engines or the calendar end."""

from __future__ import annotations

import datetime
import zoneinfo

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tacit.tables.dialects import spoken
from tacit.tables.expressions import total

TYPES = {"d": "DATE", "e": "DATE", "t": "TIMESTAMP", "z": "TIMESTAMP WITH TIME ZONE"}
INSIDE = st.dates(datetime.date(1, 1, 2), datetime.date(9999, 12, 30))


def value(text: str, dialect: str = "duckdb", **columns: object) -> object:
    sql = total(spoken(parse_one(f"SELECT {text}", read=dialect), dialect).expressions[0], TYPES).sql
    chosen = ", ".join(f"CAST(? AS {TYPES[name]}) AS {name}" for name in columns)
    found = duckdb.execute(f"SELECT {sql.sql(dialect='duckdb')} FROM (SELECT {chosen})", list(columns.values())).fetchone()
    assert found is not None
    return found[0]


@settings(max_examples=25)
@given(INSIDE, INSIDE)
def test_days_and_weekdays(day: datetime.date, other: datetime.date) -> None:
    assert value("DATE_DIFF('day', d, e)", d=day, e=other) == value("e - d", d=day, e=other) == (other - day).days
    assert value("EXTRACT(ISODOW FROM d)", d=day) == day.isoweekday()
    assert value("EXTRACT(DOW FROM d)", d=day) == day.isoweekday() % 7
    assert value("DAYOFWEEK(d)", "mysql", d=day) == day.isoweekday() % 7 + 1
    assert value("EXTRACT(WEEK FROM d)", d=day) == day.isocalendar().week
    assert value("DAYOFYEAR(d)", d=day) == day.timetuple().tm_yday


@settings(max_examples=25)
@given(INSIDE, st.integers(-1000, 1000))
def test_dates_are_moved(day: datetime.date, count: int) -> None:
    sign = "-" if count < 0 else "+"
    months = 12 * day.year + day.month - 1 + count
    wanted: datetime.date | None = None
    if 12 <= months < 120_000:
        last = [31, 29 if _leap(months // 12) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][months % 12]
        wanted = datetime.date(months // 12, months % 12 + 1, min(day.day, last))
    edges = (datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
    assert value(f"d {sign} INTERVAL {abs(count)} MONTH", d=day) == (None if wanted in edges else wanted)
    week = day.toordinal() + 7 * count
    inside = 1 < week < datetime.date.max.toordinal()
    assert value(f"d {sign} INTERVAL {abs(count)} WEEK", d=day) == (datetime.date.fromordinal(week) if inside else None)


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@settings(max_examples=20)
@given(st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2037, 1, 1)), st.sampled_from(["UTC", "Europe/Oslo", "Asia/Kolkata"]))
def test_a_moment_has_the_date_of_a_zone(moment: datetime.datetime, zone: str) -> None:
    there = moment.replace(tzinfo=datetime.UTC).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
    assert value(f"z AT TIME ZONE '{zone}'", z=f"{moment.isoformat()}+00") == there


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("z AT TIME ZONE 'UTC'", {"z": "infinity"}),
        ("z AT TIME ZONE 'Asia/Kolkata'", {"z": "290000-01-01 00:00:00+00"}),
        ("t + INTERVAL 1000 YEAR", {"t": "290000-01-01"}),
        ("d - INTERVAL 1 DAY", {"d": "-infinity"}),
        ("EXTRACT(ISODOW FROM d)", {"d": "-infinity"}),
        ("DATE_DIFF('day', d, e)", {"d": "infinity", "e": "2024-01-01"}),
    ],
)
def test_beyond_the_calendar_there_is_nothing(text: str, row: dict[str, str]) -> None:
    assert value(text, **row) is None


def test_every_engine_has_the_words() -> None:
    """PostgreSQL and Spark compute the same (tests/attacks/test_expressions.py); here, that each part is written as they write it."""
    sql = total(parse_one("DATE_DIFF('day', d, e)", read="duckdb"), TYPES).sql
    written = {dialect: sql.sql(dialect=dialect) for dialect in ("duckdb", "postgres", "spark")}
    assert "DATE_DIFF('DAY'" in written["duckdb"] and "DATEDIFF(" in written["spark"] and " - CAST(" in written["postgres"]
    assert isinstance(sql, exp.Cast)
