"""Total expressions: each form against Python's own arithmetic, intervals against brute force, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.tables.random_expressions import TYPES, Expressions, rows

from tacit.tables.dialects import spoken
from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import total
from tacit.tables.values import column

DATA = rows(80)


@pytest.fixture(scope="module")
def table() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE TABLE t (n INTEGER, {', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (len(TYPES) + 1))})", [(n, *row) for n, row in enumerate(DATA)])
    return connection


def read(text: str) -> exp.Expression:
    return spoken(parse_one(f"SELECT {text}", read="duckdb"), "duckdb").expressions[0]


def values(connection: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    sql = total(read(text), TYPES).sql.sql(dialect="duckdb")
    return [row[0] for row in connection.execute(f"SELECT {sql} FROM t ORDER BY n").fetchall()]


def constant(text: str) -> Any:
    sql = total(read(text), {}).sql.sql(dialect="duckdb")
    return duckdb.execute(f"SELECT {sql}").fetchone()[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("7 / 2", 3.5),
        ("1 / 0", None),
        ("0.0 / 0", None),
        ("SQRT(-1)", None),
        ("SQRT(9)", 3),
        ("LN(0)", None),
        ("LN(-2)", None),
        ("LN(EXP(2))", 2),
        ("LOG10(1000)", 3),
        ("LOG(1000)", 3),
        ("LOG2(8)", 3),
        ("EXP(1000)", None),
        ("POWER(10, 400)", None),
        ("POWER(-2, 3)", -8),
        ("POWER(2, 0.5)", 2**0.5),
        ("POWER(0, -1)", None),
        ("POWER(-8, 0.5)", None),
        ("1e100 * 1e100", None),
        ("1e-100 * 1e-100", 0),
        ("1e100 - 1e100", 0),
        ("ROUND(2.5)", 3),
        ("ROUND(-2.5)", -3),
        ("ROUND(1.2345, 2)", 1.23),
        ("FLOOR(-1.5)", -2),
        ("CEIL(1.2)", 2),
        ("ABS(-3)", 3),
        ("MOD(17, 5)", 2),
        ("LEAST(3, NULL, 2)", 2),
        ("GREATEST(3, NULL, 2)", 3),
        ("COALESCE(NULL, 4)", 4),
        ("NULLIF(3, 3)", None),
        ("CAST('12.5' AS DOUBLE)", 12.5),
        ("CAST('abc' AS DOUBLE)", None),
        ("CAST('1e400' AS DOUBLE)", None),
        ("CAST('nan' AS DOUBLE)", None),
        ("CAST(' 7' AS DOUBLE)", None),
        ("CAST(2.5 AS INTEGER)", 3),
        ("CAST('99999999999999999999' AS BIGINT)", None),
        ("CAST(TRUE AS INTEGER)", 1),
        ("LENGTH('añb')", 3),
        ("SUBSTRING('abcdef', 2, 3)", "bcd"),
        ("LEFT('abc', 2)", "ab"),
        ("UPPER('a') || LOWER('B')", "Ab"),
        ("CONCAT('a', NULL, 'b')", "ab"),
        ("'a' || NULL", None),
        ("TRIM('  a ')", "a"),
        ("YEAR(CAST('2020-02-29' AS DATE))", 2020),
        ("EXTRACT(QUARTER FROM DATE '2020-11-02')", 4),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
        ("IF(1 > 2, 1, 2)", 2),
        ("5 BETWEEN 1 AND 5", True),
        ("3 NOT IN (1, 2)", True),
        ("'abc' NOT LIKE 'a%'", False),
        ("'abc' ILIKE 'AB_'", True),
        ("NULL IS NULL", True),
        ("(1 > 2) IS FALSE", True),
        ("1 IS DISTINCT FROM NULL", True),
        ("-(-3)", 3),
        ("'3' < 4", True),
        ("TRUNC(-2.7)", -2),
        ("TRUNC(2.7)", 2),
        ("SIGN(-3)", -1),
        ("SIGN(0)", 0),
        ("7 // 2", 3),
        ("-7 // 2", -3),
        ("7 // 0", None),
        ("CAST(1 / 2 AS INTEGER)", 0),
        ("CAST(3 / 2 AS INTEGER)", 2),
        ("CAST(-1 / 2 AS INTEGER)", 0),
        ("CAST(-5 / 2 AS INTEGER)", -2),
        ("CAST(7 / 3 AS DECIMAL(5, 2))", 2.33),
        ("RIGHT('abc', 2)", "bc"),
        ("CONCAT('a', 7)", "a7"),
        ("STARTS_WITH('abc', 'ab')", True),
        ("STARTS_WITH('b', 'ab')", False),
        ("DATE '2024-03-01' - DATE '2024-02-01'", 29),
        ("DATE_DIFF('day', DATE '2024-03-01', DATE '2024-02-28')", -2),
        ("EXTRACT(ISODOW FROM DATE '2024-02-29')", 4),
        ("EXTRACT(DOW FROM DATE '2024-03-03')", 0),
        ("EXTRACT(DOW FROM DATE '0001-01-02')", 2),
        ("DAYOFWEEK(DATE '2024-03-02')", 6),
        ("EXTRACT(WEEK FROM DATE '2021-01-03')", 53),
        ("DAYOFYEAR(DATE '2024-12-31')", 366),
        ("YEAR(DATE '2024-01-31' + INTERVAL 11 MONTH)", 2024),
        ("DAY(DATE '2024-01-31' + INTERVAL 1 MONTH)", 29),
        ("DAY(DATE '2024-03-31' - INTERVAL 1 WEEK)", 24),
        ("5 IN (1, NULL)", None),
    ],
)
def test_values(text: str, wanted: Any) -> None:
    found = constant(text)
    assert (found is None) == (wanted is None)
    found = float(found) if isinstance(found, Decimal) else found
    assert found == (
        pytest.approx(wanted, rel=1e-12, abs=1e-200) if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) else wanted
    )


@pytest.mark.parametrize(
    "text",
    [
        "RANDOM() < 1",
        "NOW()",
        "CURRENT_DATE = d",
        "my_function(i)",
        "(SELECT 1)",
        "EXISTS (SELECT 1)",
        "i IN (SELECT 1)",
        "COUNT(*) OVER ()",
        "SUM(i)",
        "*",
        "s + 1",
        "s > 3",
        "i = 'x' AND f",
        "i AND f",
        "s LIKE u",
        "s LIKE 'a\\%'",
        "CAST(s AS JSON)",
        "CAST(x AS VARCHAR)",
        "CAST(s AS BOOLEAN)",
        "SUBSTRING(s, i)",
        "SUBSTRING(s, -1)",
        "MOD(i, 0)",
        "MOD(i, b)",
        "MOD(x, 2)",
        "ROUND(x, i)",
        "ROUND(x, 99)",
        "x // 2",
        "s ~ u",
        "d + 1",
        "d - t",
        "d - x",
        "d + INTERVAL 3 HOUR",
        "d + INTERVAL 1001 YEAR",
        "DATE_DIFF('month', d, d)",
        "DATE_DIFF('day', t, t)",
        "s + u",
        "t AT TIME ZONE 'UTC'",
        "STARTS_WITH(s, u)",
        "RIGHT(s, i)",
        "strftime(d, '%Y')",
        "EXTRACT(EPOCH FROM t)",
        "DATE_TRUNC('century', d)",
        "YEAR(s)",
        "d >= 'tomorrow'",
        "x IN (y, 1)",
        "CASE WHEN f THEN 1 ELSE 'a' END",
        "missing + 1",
        "CAST(x AS DECIMAL(38, 40))",
        "LOG(i, x)",
        "REPEAT(s, 1000)",
        "SLEEP(1)",
        "i[1]",
        "1e999 + x",
        "GETENV('HOME')",
        "x IS y",
        "TRIM(BOTH 'a' FROM s)",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(TableError) as caught:
        total(read(text), TYPES)
    assert len(str(caught.value)) > 20


def test_refusals_name_the_function_and_the_alternatives() -> None:
    with pytest.raises(Refused, match=r"MY_FUNCTION is not one of the functions.*COALESCE"):
        total(read("my_function(i)"), TYPES)


@pytest.mark.parametrize("count", [50, pytest.param(600, marks=pytest.mark.slow)])
def test_no_random_expression_fails(table: duckdb.DuckDBPyConnection, count: int) -> None:
    made = present = 0
    for seed in range(count):
        stream = Expressions(seed)
        try:
            found = values(table, stream.any(1 + seed % 4))
        except TableError:
            continue
        made += 1
        present += sum(value is not None for value in found)
        assert not any(isinstance(value, float) and not math.isfinite(value) for value in found)
    assert made > 0.8 * count and present > 20 * count


@pytest.mark.parametrize(
    "text", ["x / y", "LN(x)", "SQRT(x)", "CAST(s AS DOUBLE) + 0", "CAST(s AS DATE)", "POWER(10, x)", "b * b", "MOD(CAST(x AS BIGINT), 7)"]
)
def test_the_plain_form_fails_or_is_not_finite_where_the_total_one_is_not(table: duckdb.DuckDBPyConnection, text: str) -> None:
    """The rows are nasty enough to tell: what the user wrote raises an error, or gives infinity, on them."""
    try:
        plain = [row[0] for row in table.execute(f"SELECT {text} FROM t").fetchall()]
        broken = any(isinstance(value, float) and not math.isfinite(value) for value in plain)
    except duckdb.Error:
        broken = True
    assert broken
    assert not any(isinstance(value, float) and not math.isfinite(value) for value in values(table, text))


def test_arithmetic_is_that_of_doubles(table: duckdb.DuckDBPyConnection) -> None:
    for row, found in zip(DATA, values(table, "i * x + 1"), strict=True):
        i, x = row[0], row[2]
        if i is None or x is None or not abs(x) < 1e150:
            assert found is None
        elif i == 0 or x == 0 or abs(x) > 1e-100:
            assert found == i * x + 1


def test_texts_do_not_grow_without_limit() -> None:
    text = "s" + " || s" * 40
    sql = total(read(text), TYPES).sql.sql(dialect="duckdb")
    found = duckdb.execute(f"SELECT LENGTH({sql}) FROM (SELECT REPEAT('x', 1000000) AS s)").fetchone()
    assert found == (41 * 10_000,)


def test_large_expressions_are_refused_and_long_chains_stay_small() -> None:
    assert len(total(read("x" + " * x" * 8), TYPES).sql.sql(dialect="duckdb")) < 6_000
    assert len(total(read("i" + " + i" * 40), TYPES).sql.sql(dialect="duckdb")) < 6_000
    cast, case = "s", "i"
    for _ in range(14):
        cast = f"CAST(CAST(CAST({cast} AS DOUBLE) AS BIGINT) AS VARCHAR)"
        case = f"CASE {case} WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 END"
    for bomb in (cast, case, "x" + " * x" * 60):
        with pytest.raises(Refused, match="too large"):
            total(read(bomb), TYPES)


def test_zoned_timestamps_and_unknown_types() -> None:
    assert column("t", "TIMESTAMP WITH TIME ZONE").kind == "instant"
    for text in ("t = t", "YEAR(t)", "CAST(t AS DATE)", "CAST(t AS VARCHAR)", "DATE_TRUNC('day', t)", "DATE_DIFF('day', t, t)"):
        with pytest.raises(Refused, match="AT TIME ZONE 'UTC'"):
            total(read(text), {"t": "TIMESTAMP WITH TIME ZONE"})
    with pytest.raises(TableError, match="constant name"):
        total(read("t AT TIME ZONE 'Middle-earth'"), {"t": "TIMESTAMP WITH TIME ZONE"})
    assert total(read("t IS NULL"), {"t": "STRUCT(a INTEGER)"}).kind == "boolean"
    assert total(read("q > 3"), lambda node: column(node.name, None)).sql.sql("duckdb").startswith("(NULLIF(NULLIF(LEAST(GREATEST(TRY_CAST")


@pytest.mark.parametrize("ticks", [2**63 - 2, 2**63 - 308, -(2**63), -(2**63) + 2, -(2**63) + 300, 2**63 - 1, -(2**63) + 1, 0])
def test_the_ends_of_nanoseconds_are_compared_without_an_error(ticks: int) -> None:
    connection = duckdb.connect()
    connection.register("t", pa.table({"ns": pa.array([ticks], pa.int64()).view(pa.timestamp("ns"))}))
    for edge in ("2262-04-11 23:47:16.854776", "1677-09-21 00:12:43.145224"):
        for operator in ("<", "<=", ">", ">=", "=", "<>"):
            made = total(read(f"ns {operator} TIMESTAMP '{edge}'"), {"ns": "TIMESTAMP_NS"}, boolean=True).sql
            assert connection.execute(f"SELECT {made.sql(dialect='duckdb')} FROM t").fetchone()
