"""Post-processing of released values: SQL's three-valued logic, and never an exception."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
import pytest
from sqlglot import exp, parse_one

from tacit.tables.dialects import TRUNCATING
from tacit.tables.errors import Refused, TableError
from tacit.tables.question import aggregated, evaluate, rank, recast, whole

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


# --- terms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "wanted"), [("0.25", Fraction(1, 4)), (".5", Fraction(1, 2)), ("1", Fraction(1)), ("1.", Fraction(1))])
def test_ranks(text: str, wanted: Fraction) -> None:
    assert rank(exp.Literal.number(text)) == wanted


@pytest.mark.parametrize("text", ["1.5", "-0.5", "x", "'a'", "ARRAY[0.5]", "0.5 + 0"])
def test_what_is_no_rank(text: str) -> None:
    with pytest.raises(TableError, match="rank"):
        rank(parse_one(text, read="duckdb"))


def test_limits() -> None:
    assert whole("LIMIT", exp.Literal.number(10)) == 10
    for wrong in (None, exp.Literal.number("1.5"), exp.Literal.number("9" * 10), exp.column("n"), exp.Neg(this=exp.Literal.number(1))):
        with pytest.raises(TableError, match="OFFSET must be a whole number"):
            whole("OFFSET", wrong)


@pytest.mark.parametrize(
    ("kind", "truncates", "wanted"),
    [("DOUBLE", False, -2.75), ("BIGINT", False, -3), ("BIGINT", True, -2), ("DECIMAL(9, 1)", False, -2.7), ("DECIMAL(9)", False, -3)],
)
def test_released_numbers_are_cast(kind: str, truncates: bool, wanted: float) -> None:
    tree = parse_one(f"CAST(x AS {kind})")
    assert isinstance(tree, exp.Cast)
    if truncates:
        tree.meta[TRUNCATING] = True
    assert evaluate(recast(tree), {"x": -2.75}) == wanted
    with pytest.raises(TableError, match="not to"):
        recast(exp.cast(exp.column("x"), "TEXT"))


def test_aggregates_with_what_belongs_to_them() -> None:
    for text in ("COUNT(*)", "SUM(x) FILTER (WHERE x > 1)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)", "ANY_VALUE(x)"):
        assert aggregated(parse_one(text, read="duckdb")) is not None
    for text in ("x", "x + COUNT(*)", "ROUND(AVG(x))"):
        assert aggregated(parse_one(text, read="duckdb")) is None
