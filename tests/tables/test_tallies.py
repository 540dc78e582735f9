"""Measures added up with as few columns as they need: the integers are those of a count in Python."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.measure import Interval, Measure, measure_name, null_count, present_count, row_count, squares, total
from tacit.tables.tallies import Tallies, whole

V = exp.column("v", quoted=True)
ENGINE = DuckDB(threads=1)
PRESENT = exp.And(
    this=exp.Not(this=exp.Is(this=exp.Paren(this=V.copy()), expression=exp.null())), expression=exp.Not(this=ENGINE.is_nan(V.copy()))
)
INTERVAL = Interval(-3, 10)
VALUES = st.none() | st.sampled_from([math.nan, math.inf, -math.inf, -3.0, 10.0, -0.0, 1e308, 5e-324]) | st.floats(-20, 20)


def sums(measures: list[Measure], values: list[float | None], tallies: Tallies | None = None) -> list[int]:
    """What the engine adds up."""
    tallies = tallies or Tallies.of(measures)
    ENGINE.register("t", pa.table({"v": pa.array(values, pa.float64())}))
    columns = [exp.alias_(tallies.measures[i].integer.copy(), measure_name(i), quoted=True) for i in tallies.columns]
    rows = exp.Select(expressions=columns or [V.copy()]).from_("t")
    added = [exp.alias_(tallies.added(i, lambda name: exp.column(name, quoted=True)), f"added_{i}") for i in range(len(measures))]
    found = ENGINE.run(exp.Select(expressions=added).from_(exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier("r")))))
    return [int(column[0].as_py() or 0) for column in found.columns]


def counted(values: list[float | None]) -> dict[str, int]:
    """The oracle, row by row."""
    there = [v for v in values if v is not None and not math.isnan(v)]
    step, centre = float(INTERVAL.granularity), float(INTERVAL.centre)
    added = sum(math.floor((min(max(v, -3.0), 10.0) - centre) / step + 0.5) for v in there)
    return {"rows": len(values), "sum": added, "null": len(values) - len(there), "value": len(there)}


def measures() -> dict[str, Measure]:
    return {
        "rows": row_count(),
        "sum": total("v", V, PRESENT, INTERVAL, centred=True),
        "null": null_count("v", PRESENT),
        "value": present_count("v", PRESENT),
    }


NAMES = [("rows", "sum", "null"), ("null", "value"), ("value", "sum", "null", "rows"), ("rows",), ("sum",)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", NAMES, ids="-".join)
@settings(max_examples=25)
@given(values=st.lists(VALUES, max_size=12))
def test_the_sums_are_those_of_a_count_in_python(names: tuple[str, ...], values: list[float | None]) -> None:
    expected = counted(values)
    assert sums([measures()[name] for name in names], values) == [expected[name] for name in names]


def test_the_rows_without_a_value_are_not_the_rows_with_it() -> None:
    """The mutant, through the same count."""
    asked, values = [measures()[name] for name in ("rows", "sum", "null")], [1.0, None, math.nan, 2.0, 3.0]
    right = Tallies.of(asked)
    assert right.counts == (None, None, 1) and right.lacking == (False, False, True) and right.columns == (1,)
    wrong = Tallies(right.measures, right.counts, (False, False, False))
    assert sums(asked, values)[2] == 2 != sums(asked, values, wrong)[2] == 3


def test_only_a_sum_under_the_same_condition_is_counted() -> None:
    """A value that is there says nothing of another."""
    other = exp.column("w", quoted=True)
    asked = [measures()["sum"], null_count("w", exp.Not(this=exp.Is(this=other, expression=exp.null())))]
    assert Tallies.of(asked).counts == (None, 1)


def test_squares_lend_their_column_too() -> None:
    asked = [squares("v", V, PRESENT, INTERVAL), measures()["null"]]
    assert Tallies.of(asked).counts == (None, 0)
    values: list[Any] = [None, 3.5, math.nan, -50.0]
    unit = [(min(max(v, -3.0), 10.0) - float(INTERVAL.centre)) / float(INTERVAL.half) for v in (3.5, -50.0)]
    assert sums(asked, values) == [sum(math.floor((u * u - 0.5) * 2**28 + 0.5) for u in unit), 2]


def test_what_is_a_whole_number_is_not_cast_again() -> None:
    nothing = exp.Case(ifs=[exp.If(this=PRESENT.copy(), true=exp.cast(V.copy(), "BIGINT"))])
    assert whole(nothing) and whole(measures()["sum"].integer)
    assert not whole(exp.Literal.number(1)) and not whole(exp.cast(V.copy(), "DOUBLE")) and not whole(measures()["value"].integer)
