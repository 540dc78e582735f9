"""Total forms: what is certain of a value's size holds for every row, and each guard stands where it must."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.forms import (
    GREATEST,
    LEAST,
    arithmetic,
    as_date,
    as_whole,
    exponential,
    flushed,
    limited,
    logarithm,
    number,
    public,
    read_number,
    settled,
    written,
)
from tacit.tables.values import Value, column


def of(value: Value, x: float | None, y: float | None = 1.0) -> float | None:
    """The value in a row where a is x and b is y."""
    text = f"SELECT {value.sql.sql(dialect='duckdb')} FROM (SELECT ?::DOUBLE AS a, ?::DOUBLE AS b)"
    return duckdb.execute(text, [x, y]).fetchone()[0]  # type: ignore[index,no-any-return]


A, B = number(column("a", "DOUBLE")), number(column("b", "DOUBLE"))
ANY = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -0.0, 1e150, -1e150, 1e308, 5e-324, math.inf, math.nan]))


@settings(deadline=None)
@given(x=ANY, y=ANY, operator=st.sampled_from([exp.Add, exp.Sub, exp.Mul, exp.Div]))
def test_arithmetic_is_finite_or_null_and_as_large_as_stated(x: float | None, y: float | None, operator: type[exp.Expression]) -> None:
    value = settled(arithmetic(operator(), A, B))
    found = of(value, x, y)
    assert found is None or (math.isfinite(found) and abs(found) <= value.most <= GREATEST)
    assert found is None or found == 0 or abs(found) >= min(value.least, LEAST**2)


@settings(max_examples=40, deadline=None)
@given(x=ANY)
def test_functions_of_one_value_are_within_their_size(x: float | None) -> None:
    for value in (logarithm(A), exponential(A), flushed(A), as_whole(A)):
        found = of(value, x)
        assert found is None or (math.isfinite(found) and abs(found) <= value.most)


def test_limits_are_not_reached() -> None:
    inside = limited(exp.column("a"), exp.Literal.number("-1"), exp.Literal.number("1"))
    value = Value(inside, "float")
    assert [of(value, x) for x in (-1.0, -0.5, 0.0, 1.0, 2.0, math.nan, math.inf, None)] == [None, -0.5, 0.0, None, None, None, None, None]


def test_texts_are_read_as_numbers_or_null() -> None:
    value = read_number(Value(exp.column("t"), "text"))
    for text, wanted in (("1", 1.0), ("-2.5", -2.5), ("1e3", 1000.0), ("x", None), ("", None), ("nan", None), ("1e999", None)):
        found = duckdb.execute(f"SELECT {value.sql.sql(dialect='duckdb')} FROM (SELECT ?::VARCHAR AS t)", [text]).fetchone()
        assert found == (wanted,), text


def test_constants_carry_their_value() -> None:
    assert public(Fraction(3)).constant == 3 and public(Fraction(3)).most == 3
    assert number(public(Fraction(0))).least == math.inf  # a zero never makes a product small
    assert written("2026-02-28", "date").constant == "2026-02-28"
    for wrong, kind in (("2026-02-30", "date"), ("yesterday", "date"), ("2026-01-01T00:00:00+01:00", "timestamp")):
        with pytest.raises(TableError, match=r"timestamp|date"):
            written(wrong, kind)


def test_types_decide_what_a_column_is() -> None:
    kinds = {t: column("x", t).kind for t in ("INTEGER", "HUGEINT", "DOUBLE", "DECIMAL(9,2)", "VARCHAR", "BOOLEAN", "DATE", "BLOB")}
    assert kinds == {
        "INTEGER": "integer", "HUGEINT": "decimal", "DOUBLE": "real", "DECIMAL(9,2)": "decimal", "VARCHAR": "text",
        "BOOLEAN": "boolean", "DATE": "date", "BLOB": "other",
    }  # fmt: skip
    assert column("x", "TIMESTAMP WITH TIME ZONE").kind == "instant" and column("x", None).kind == "any"
    with pytest.raises(Refused, match="needs numbers"):
        number(column("x", "DATE"))
    with pytest.raises(Refused, match="needs a text"):
        as_date(column("x", "INTEGER"), "date")
