"""Post-processing of released values: SQL's three-valued logic, and never an exception."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from sqlglot import parse_one

from tacit.tables.errors import Refused
from tacit.tables.question import evaluate

ROW = {"a": 3.0, "b": 0.0, "c": None}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a / b", None),
        ("a + c", None),
        ("LN(b)", None),
        ("EXP(a * 1000)", None),
        ("SQRT(-a)", None),
        ("ROUND(a / 7, 2)", 0.43),
        ("POWER(-a, 0.5)", None),
    ],
)
def test_arithmetic(text: str, wanted: float | None) -> None:
    assert evaluate(parse_one(text), ROW) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "a > 1 AND c > 1",
        "a > 5 AND c > 1",
        "a > 1 OR c > 1",
        "a > 5 OR c > 1",
        "NOT c > 1",
        "c IS NULL",
        "a BETWEEN 1 AND 3",
        "a IN (1, 3)",
        "a IN (1, NULL)",
        "COALESCE(c, a)",
        "NULLIF(a, 3)",
        "LEAST(a, b, c)",
        "GREATEST(a, c)",
        "CASE WHEN a > 1 THEN b ELSE a END",
        "CASE WHEN c > 1 THEN b END",
        "ABS(-a) + FLOOR(1.5)",
    ],
)
def test_as_an_engine_has_it(text: str) -> None:
    found: Any = duckdb.execute(f"SELECT {text} FROM (SELECT 3.0::DOUBLE AS a, 0.0::DOUBLE AS b, NULL::DOUBLE AS c)").fetchone()
    assert evaluate(parse_one(text, read="duckdb"), ROW) == found[0]


def test_what_it_does_not_know_is_refused() -> None:
    with pytest.raises(Refused, match="UPPER"):
        evaluate(parse_one("UPPER(a)"), ROW)
