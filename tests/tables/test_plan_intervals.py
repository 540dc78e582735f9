"""Public bounds of expressions: every value of every row lies within them, and nothing is claimed where nothing is declared."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tacit.tables.expressions import total
from tacit.tables.plan import derived


def read(text: str) -> exp.Expression:
    return parse_one(f"SELECT {text}", read="duckdb").expressions[0]


_NUMBERS = {"a": "DOUBLE", "c": "INTEGER"}


@given(
    st.recursive(
        st.sampled_from(["a", "c", "2", "-3", "0.5", "10"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["ABS", "FLOOR", "CEIL", "SQRT", "LN", "EXP", "ROUND"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
            st.tuples(st.sampled_from(["LEAST", "GREATEST", "COALESCE", "NULLIF"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
            st.tuples(inner, inner).map(lambda t: f"CASE WHEN a > c THEN {t[0]} ELSE {t[1]} END"),
            inner.map(lambda t: f"POWER({t}, 2)"),
            inner.map(lambda t: f"MOD(CAST({t} AS BIGINT), 5)"),
        ),
        max_leaves=6,
    )
)
def test_values_lie_in_the_interval(text: str) -> None:
    value = total(read(text), _NUMBERS)
    found = derived(value.sql, {"a": (-2, 3), "c": (1, 4)})
    if found is None:
        return
    points = [(a, c) for a in (-2.0, -1.5, -1e-9, 0.0, 0.7, 3.0, None) for c in (1, 2, 4, None)]
    listed = ", ".join(f"({'NULL' if a is None else repr(a)}::DOUBLE, {'NULL' if c is None else c}::INTEGER)" for a, c in points)
    results = duckdb.execute(f"SELECT {value.sql.sql(dialect='duckdb')} FROM (VALUES {listed}) AS v(a, c)").fetchall()
    for (result,) in results:
        if result is not None:
            slack = 1e-12 * max(1.0, abs(float(result)))  # the engine's own roundings; the statement clamps to the interval in any case
            assert float(found.lower) - slack <= float(result) <= float(found.upper) + slack


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a * 2 + 1", -3, 7),
        ("a * a", -6, 9),
        ("POWER(a, 2)", 0, 9),
        ("ABS(a)", 0, 3),
        ("c / 2", Fraction(1, 2), 2),
        ("1 / c", Fraction(1, 4), 1),
        ("LEAST(GREATEST(z, 0), 10)", 0, 10),
        ("CASE WHEN z > 1 THEN 1 ELSE 0 END", 0, 1),
        ("CAST(z > 1 AS INTEGER)", 0, 1),
        ("COALESCE(a, 5)", -2, 5),
        ("EXTRACT(MONTH FROM d)", 1, 12),
        ("MOD(CAST(z AS BIGINT), 7)", -6, 6),
        ("LEAST(a, c)", -2, 4),
        ("CASE WHEN z > 1 THEN a END", -2, 3),
        ("-a", -3, 2),
    ],
)
def test_intervals(text: str, low: Fraction, high: Fraction) -> None:
    types = {**_NUMBERS, "z": "DOUBLE", "d": "DATE"}
    found = derived(total(read(text), types).sql, {"a": (-2, 3), "c": (1, 4)})
    assert found is not None
    # Ends that are no floating-point numbers are rounded outward.
    assert low - Fraction(1, 10**9) <= found.lower <= low
    assert high <= found.upper <= high + Fraction(1, 10**9)


@pytest.mark.parametrize(
    "text", ["z", "a / z", "1 / a", "EXP(z)", "LEAST(z, 3)", "POWER(a, c)", "LENGTH(s)", "GREATEST(a, z)", "COALESCE(z, 1)"]
)
def test_no_interval_where_there_is_none(text: str) -> None:
    types = {**_NUMBERS, "z": "DOUBLE", "s": "VARCHAR"}
    found = derived(total(read(text), types).sql, {"a": (-2, 3), "c": (1, 4)})
    assert found is None or text == "POWER(a, c)"


def test_a_null_skipped_by_least_does_not_narrow() -> None:
    """LEAST(a, b) is b where a is NULL: taking the least upper end of both would be wrong."""
    found = derived(total(read("LEAST(a, c)"), _NUMBERS).sql, {"a": (-2, 3), "c": (1, 40)})
    assert found is not None and found.upper == 40
    assert duckdb.execute("SELECT LEAST(NULL, 40)").fetchone() == (40,)
