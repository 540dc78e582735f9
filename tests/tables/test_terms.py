"""Terms of a question: ranks, limits and casts against Python's own reading of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sqlglot import exp, parse_one

from tacit.tables.dialects import TRUNCATING
from tacit.tables.errors import TableError
from tacit.tables.question import evaluate
from tacit.tables.terms import aggregated, rank, recast, whole


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
