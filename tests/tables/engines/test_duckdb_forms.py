"""The quick forms say what the plain ones say: numbers are Python's, and bounds are asked first only where nothing else is asked."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.duckdb_forms import direct
from tacit.tables.measure import Interval, total

DOUBLES = DuckDB(threads=1)

@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=60)
def test_a_number_is_read_as_python_has_it(number: float) -> None:
    """The oracle: Python's own floating-point number."""
    statement = exp.select(exp.alias_(exp.cast(exp.Literal.number(repr(abs(number))), "DOUBLE"), "x"))
    assert DOUBLES.run(statement).column(0)[0].as_py() == abs(number)


EDGES = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 0.5, 2.0**53]


@given(ends=st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).filter(lambda ends: ends[0] < ends[1]), more=st.lists(st.floats()))
@settings(max_examples=40)
def test_the_bounds_are_asked_first_and_nothing_else_changes(ends: tuple[float, float], more: list[float]) -> None:
    """floor((clamp(x) - centre) * k + 1/2) where x is there: the integers are Python's, at the bounds and one step beside them too."""
    low, high = ends
    beside = [math.nextafter(end, way) for end in ends for way in (-math.inf, math.inf)]
    values = [*EDGES, low, high, *beside, *more]
    DOUBLES.register("t", pa.table({"i": range(len(values)), "x": pa.array(values, pa.float64())}))
    x = exp.column("x", quoted=True)
    present = exp.And(
        this=exp.Not(this=exp.Is(this=exp.Paren(this=x.copy()), expression=exp.null())), expression=exp.Not(this=DOUBLES.is_nan(x.copy()))
    )
    interval = Interval(low, high)
    measure = total("x", x, present, interval, centred=True)
    statement = exp.select("i", exp.alias_(measure.integer, "n")).from_("t").order_by("i")
    text = DOUBLES.prepare(statement).sql("duckdb")
    assert text.count("CASE") == 1 and text.index("BETWEEN") < text.index("'inf'") and "ISNAN" not in text
    scale, centre = float(1 / measure.granularity), float(interval.centre)
    expected = [
        0 if v is None or math.isnan(v) else math.floor((min(max(v, low), high) - centre) * scale + 0.5) for v in values
    ]
    assert DOUBLES.run(statement).column("n").to_pylist() == expected


@pytest.mark.parametrize(
    "condition",
    ['NOT "y" IS NULL', 'NOT "x" IS NULL AND "y" > 0', '"x" > 1', 'NOT "x" IS NULL OR "y" > 0', 'NOT "x" IS NULL AND NOT ISNAN("y")'],
)
def test_a_condition_about_anything_else_is_asked_first(condition: str) -> None:
    """The mutant would take a value within its bounds although the condition does not hold."""
    text = f'SELECT CASE WHEN {condition} THEN LEAST(GREATEST("x", 0.0), 10.0) ELSE -1 END AS n FROM t'
    engine = DuckDB(threads=1)
    rows = {"x": [0.5, None, 50.0, math.nan, 3.0], "y": [None, 1.0, math.nan, -1.0, 2.0]}
    engine.register("t", pa.table({name: pa.array(values, pa.float64()) for name, values in rows.items()}))
    statement = parse_one(text, read="duckdb")
    first = engine.prepare(statement).find(exp.Case)
    assert first is not None and first.args["ifs"][0].this.find(exp.Between) is None
    plain = duckdb.connect()
    plain.register("t", pa.table({name: pa.array(values, pa.float64()) for name, values in rows.items()}))
    assert engine.run(statement).column(0).to_pylist() == [row[0] for row in plain.execute(text).fetchall()]


def test_a_condition_about_the_value_itself_is_asked_second() -> None:
    text = 'SELECT CASE WHEN NOT "x" IS NULL AND NOT ISNAN("x") THEN LEAST(GREATEST("x", 0.0), 10.0) ELSE -1 END AS n FROM t'
    engine = DuckDB(threads=1)
    engine.register("t", pa.table({"x": pa.array([0.5, None, 50.0, math.nan, -3.0])}))
    first = engine.prepare(parse_one(text, read="duckdb")).find(exp.Case)
    assert first is not None and isinstance(first.args["ifs"][0].this, exp.Between)
    assert engine.run(parse_one(text, read="duckdb")).column(0).to_pylist() == [0.5, -1, 10, -1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('SELECT TRY_CAST("v" AS DOUBLE) FROM "q"', 'SELECT "v" FROM READ_PARQUET(\'a\') AS "q"'),
        ('SELECT TRY_CAST("z"."v" AS DOUBLE) FROM "q" AS "z"', 'SELECT "z"."v" FROM READ_PARQUET(\'a\') AS "z"'),
        ('SELECT TRY_CAST("w" AS DOUBLE) FROM "q"', 'SELECT TRY_CAST("w" AS DOUBLE) FROM READ_PARQUET(\'a\') AS "q"'),
        ('SELECT TRY_CAST("v" AS BIGINT) FROM "q"', 'SELECT TRY_CAST("v" AS BIGINT) FROM READ_PARQUET(\'a\') AS "q"'),
        ('SELECT TRY_CAST("v" AS DOUBLE) FROM "other"', None),
        ('SELECT TRY_CAST("v" AS DOUBLE) FROM "main"."q"', None),
        ('WITH "q" AS (SELECT \'x\' AS "v") SELECT TRY_CAST("v" AS DOUBLE) FROM "q"', None),
        (
            'SELECT TRY_CAST("v" AS DOUBLE) FROM "q" JOIN "p" ON "a" = "b"',
            'SELECT TRY_CAST("v" AS DOUBLE) FROM READ_PARQUET(\'a\') AS "q" JOIN "p" ON "a" = "b"',
        ),
        (
            'SELECT (SELECT MAX(TRY_CAST("v" AS DOUBLE)) FROM "p") FROM "q"',
            'SELECT (SELECT MAX(TRY_CAST("v" AS DOUBLE)) FROM "p") FROM READ_PARQUET(\'a\') AS "q"',
        ),
    ],
)
def test_only_what_a_column_of_the_table_itself_is_cast_to_is_dropped(text: str, expected: str | None) -> None:
    tree = parse_one(text, read="duckdb")
    direct(tree, {"q": {"v": "DOUBLE", "w": "VARCHAR"}}, {"q": parse_one("READ_PARQUET('a')", read="duckdb")})
    assert tree.sql("duckdb") == (text if expected is None else expected)


def test_files_are_read_as_their_view_would_be(tmp_path: Path) -> None:
    """Odd names and all; and a name that comes to mean something else is read as that."""
    where = tmp_path / "a 'quoted' name.parquet"
    pq.write_table(pa.table({"v": [1.5, 2.5], "odd \"name\"": [1, 2]}), where)
    engine = DuckDB(threads=1)
    engine.parquet('the "table"', [str(where)])
    table = exp.to_table('"the ""table"""')
    assert engine.columns(table) == {"v": "DOUBLE", 'odd "name"': "BIGINT"}
    statement = exp.select(exp.alias_(exp.Sum(this=exp.cast(exp.column("v", quoted=True), "DOUBLE")), "s")).from_(table)
    assert "read_parquet" in engine._written(statement)[0].lower() and "TRY_CAST" not in engine._written(statement)[0]
    assert engine.run(statement).to_pydict() == {"s": [4.0]}
    engine._connection.execute('DROP VIEW "the ""table"""')
    engine.register('the "table"', pa.table({"v": ["1", "x", None]}))
    assert "TRY_CAST" in engine._written(statement)[0]
    assert engine.run(statement).to_pydict() == {"s": [1.0]}
