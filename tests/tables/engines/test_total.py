"""A prepared statement is total, and is prepared once."""

from __future__ import annotations

from sqlglot import exp, parse_one

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.postgres import total
from tacit.tables.engines.total import constant, never_failing


def test_casts_of_rows_are_tried_and_literals_stay() -> None:
    found = never_failing(
        parse_one("SELECT CAST(a AS BIGINT), CAST(-1.5 AS DOUBLE), CAST(CAST(b AS DOUBLE) AS BIGINT) FROM t", read="duckdb")
    )
    assert found.sql("duckdb") == "SELECT TRY_CAST(a AS BIGINT), CAST(-1.5 AS DOUBLE), TRY_CAST(TRY_CAST(b AS DOUBLE) AS BIGINT) FROM t"
    # sqlglot writes a bare CAST for Spark unless it is told that the cast is safe
    assert found.sql("spark").count("TRY_CAST") == 3


def test_preparing_twice_changes_nothing_and_the_original_stays() -> None:
    tree = parse_one("SELECT SUM(CAST(a AS DOUBLE) * 0.5) FROM t")
    before = tree.sql()
    for prepare in (never_failing, total):
        once = prepare(tree)
        assert prepare(once) is once
        assert prepare(once.copy()).sql("postgres") == once.sql("postgres")
    assert tree.sql() == before


def test_greatest_skips_null_as_the_engines_do() -> None:
    clamp = exp.Greatest(this=exp.column("a"), expressions=[exp.Literal.number(0)])
    assert "CASE" in clamp.sql("duckdb")  # what would be written otherwise
    text = never_failing(exp.Select(expressions=[clamp]).from_("t")).sql("duckdb")
    assert text == "SELECT GREATEST(a, 0) FROM t"


def test_constant() -> None:
    assert constant(parse_one("-CAST(1 AS DOUBLE)")) and constant(parse_one("(NULL)"))
    assert not constant(parse_one("a")) and not constant(parse_one("-a"))


def test_a_failing_cast_in_a_plain_statement_is_null() -> None:
    import pyarrow as pa

    engine = DuckDB(threads=1)
    engine.register("t", pa.table({"a": ["1", "x", None, "1e400", "9999999999999999999"]}))
    assert engine.run(parse_one("SELECT SUM(CAST(a AS BIGINT)) AS s, COUNT(*) AS n FROM t")).to_pylist() == [{"s": 1, "n": 5}]
