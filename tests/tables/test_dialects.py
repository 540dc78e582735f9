"""What a word means in each dialect: marks against the dialects' own manuals, and that a mark survives copies."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from tacit.tables.dialects import OTHER_WEEK, SUNDAY, TO_EVEN, TRUNCATING, known_dialect, spoken
from tacit.tables.errors import TableError


def marked(text: str, dialect: str) -> exp.Expression:
    return spoken(parse_one(f"SELECT {text}", read=dialect), dialect).copy().expressions[0]


@pytest.mark.parametrize(
    ("dialect", "mark"),
    [("spark", TRUNCATING), ("tsql", TRUNCATING), ("sqlite", TRUNCATING), ("duckdb", TO_EVEN), ("postgres", TO_EVEN), ("bigquery", None)],
)
def test_casts_to_whole_numbers(dialect: str, mark: str | None) -> None:
    assert {name for name in marked("CAST(x AS INT)", dialect).meta if name in (TRUNCATING, TO_EVEN)} == ({mark} if mark else set())


@pytest.mark.parametrize(
    ("dialect", "text", "sunday"),
    [
        ("duckdb", "DAYOFWEEK(d)", 0),
        ("mysql", "DAYOFWEEK(d)", 1),
        ("spark", "DAYOFWEEK(d)", 1),
        ("snowflake", "DAYOFWEEK(d)", 0),
        ("bigquery", "EXTRACT(DAYOFWEEK FROM d)", 1),
        ("postgres", "EXTRACT(DOW FROM d)", 0),
        ("spark", "EXTRACT(DOW FROM d)", 1),
        ("trino", "EXTRACT(DOW FROM d)", None),
        ("tsql", "DATEPART(weekday, d)", None),  # it hangs on a setting of the server
    ],
)
def test_the_number_of_sunday(dialect: str, text: str, sunday: int | None) -> None:
    assert marked(text, dialect).meta.get(SUNDAY) == sunday


def test_weeks() -> None:
    for dialect, text in (("tsql", "DATETRUNC(week, d)"), ("bigquery", "EXTRACT(WEEK FROM d)"), ("mysql", "WEEK(d)")):
        assert marked(text, dialect).meta[OTHER_WEEK] == dialect
    for dialect, text in (("postgres", "EXTRACT(WEEK FROM d)"), ("spark", "WEEKOFYEAR(d)"), ("duckdb", "DATE_TRUNC('week', d)")):
        assert OTHER_WEEK not in marked(text, dialect).meta


def test_names_that_the_parser_leaves_alone() -> None:
    assert marked("STDEVP(x)", "tsql") == exp.StddevPop(this=exp.column("x"))
    assert marked("VARP(x)", "tsql") == exp.VariancePop(this=exp.column("x"))
    assert marked("std(x)", "spark") == exp.StddevSamp(this=exp.column("x"))
    assert isinstance(marked("VARP(x)", "duckdb"), exp.Anonymous)
    assert isinstance(marked("CONVERT(VARCHAR(10), d, 120)", "tsql"), exp.Convert)  # a style writes dates in its own way
    assert marked("CONVERT(INT, x)", "tsql").meta[TRUNCATING]
    assert marked("r'a'", "bigquery") == exp.Literal.string("a")


def test_dialects_that_are_none_are_refused() -> None:
    assert known_dialect("TSQL") == "tsql"
    for name in ("", "latin", None, 3):
        with pytest.raises(TableError, match="such as 'duckdb'"):
            known_dialect(name)  # type: ignore[arg-type]
