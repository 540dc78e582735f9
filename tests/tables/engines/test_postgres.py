"""PostgreSQL: read-only, total, and silent about what it saw."""

from __future__ import annotations

import math

import psycopg
import pytest
from sqlglot import exp, parse_one

from tacit.tables.engines.postgres import SMALLEST, Postgres, total
from tacit.tables.errors import EngineError, TableError
from tacit.tables.source import Source


def value(engine: Postgres, text: str) -> object:
    """One value of a statement written in PostgreSQL's SQL."""
    return engine.run(parse_one(f"SELECT {text} AS v", read="postgres")).column("v").to_pylist()[0]


PRODUCTS = [1e308, -1e308, 1e-200, -1e-200, 5e-324, 0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan]


def test_products_do_as_floats_do(pg: Postgres) -> None:
    rows = ", ".join(f"('{a!r}'::float8, '{b!r}'::float8)" for a in PRODUCTS for b in PRODUCTS)
    query = f"SELECT a, b, CAST(a AS DOUBLE PRECISION) * CAST(b AS DOUBLE PRECISION) AS p FROM (VALUES {rows}) AS v(a, b)"
    for row in pg.run(parse_one(query, read="postgres")).to_pylist():
        expected = row["a"] * row["b"]
        if 0 in (row["a"], row["b"]):
            expected = 0.0  # also where the other is infinite
        if math.isnan(expected) and 0 not in (row["a"], row["b"]):
            assert math.isnan(row["p"])
        elif abs(expected) < SMALLEST:
            assert row["p"] == 0
        else:
            assert row["p"] == expected


def test_what_is_missing_stays_missing(pg: Postgres) -> None:
    """NULL times zero was zero, and NULL as a whole number the least of them: both would have been counted."""
    rows = "(SELECT CAST(0 AS DOUBLE PRECISION) AS zero, CAST(NULL AS DOUBLE PRECISION) AS x) AS u"
    product = "CAST(zero AS DOUBLE PRECISION) * CAST(x AS DOUBLE PRECISION)"
    query = f"SELECT {product} AS p, CAST(FLOOR(x) AS BIGINT) AS w, CAST(FLOOR(zero) AS BIGINT) AS z FROM {rows}"
    assert pg.run(parse_one(query, read="postgres")).to_pylist() == [{"p": None, "w": None, "z": 0}]


def test_products_on_a_public_scale_need_no_logarithms(pg: Postgres) -> None:
    """Both sides are held within 1, so a product can only become too small; what is not held keeps the long form."""
    held = "(LEAST(GREATEST(CAST({} AS DOUBLE), CAST(-3.0 AS DOUBLE)), CAST(5.0 AS DOUBLE)) - CAST(1.0 AS DOUBLE)) / CAST({} AS DOUBLE)"
    for scale, short in (("4.0", True), ("2.0", False)):
        product = f"({held.format('x', scale)}) * ({held.format('who', scale)})"
        tree = parse_one(f"SELECT COUNT({product}) AS n FROM visits", read="duckdb")
        assert ("LN(" not in total(tree).sql("postgres")) is short
        assert pg.run(tree).num_rows == 1
    near = "(LEAST(GREATEST(CAST(x AS DOUBLE), CAST(-1.0 AS DOUBLE)), CAST(1.0 AS DOUBLE)) - CAST(0.0 AS DOUBLE)) / CAST(1.0 AS DOUBLE)"
    found = pg.run(parse_one(f"SELECT x, ({near}) * ({near}) AS p FROM visits", read="duckdb")).to_pylist()
    assert any(row["x"] is not None and 0 < abs(row["x"]) < 1e-150 for row in found)
    for row in found:
        if row["x"] is not None:
            value = 1.0 if math.isnan(row["x"]) else min(max(row["x"], -1.0), 1.0)
            assert abs(row["p"] - value * value) <= 1e-300


def test_scaling_by_constants_never_fails(pg: Postgres) -> None:
    for scaled in (
        "CAST(x AS DOUBLE PRECISION) * CAST(1e-290 AS DOUBLE PRECISION)",
        "CAST(x AS DOUBLE PRECISION) / CAST(1e290 AS DOUBLE PRECISION)",
    ):
        query = f"SELECT COUNT(v) AS n FROM (SELECT {scaled} AS v FROM visits) AS s"
        assert pg.run(parse_one(query, read="postgres")).num_rows == 1
        with psycopg.connect(pg._connection.info.dsn) as raw, pytest.raises(psycopg.errors.NumericValueOutOfRange):
            raw.execute(f"SELECT {scaled} FROM visits WHERE x = 5e-324 OR x = 1e-200".encode())  # what it would do by itself


def test_decimals_beyond_floats(pg: Postgres) -> None:
    found = (
        pg.run(parse_one("SELECT id, CAST(amount AS DOUBLE PRECISION) AS v FROM wide ORDER BY id", read="postgres")).column("v").to_pylist()
    )
    assert [v if v is None or math.isfinite(v) else repr(v) for v in found] == [None, None, None, "nan", "inf", 1.5, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRY_CAST('12' AS BIGINT)", None),
        ("TRY_CAST(t AS BIGINT)", [None, -3, 1, 3]),
        ("TRY_CAST(t AS DATE)", [None]),
        ("TRY_CAST(t AS BOOLEAN)", [None, True]),
    ],
)
def test_try_cast(text: str, expected: list[object] | None, pg: Postgres) -> None:
    tree = parse_one(f"SELECT DISTINCT {text} AS v FROM visits", read="duckdb")
    found = pg.run(tree).column("v").to_pylist()
    if expected is None:
        assert found == [12]
    else:
        assert {None if v is None else v for v in found} == set(expected)


def test_too_large_for_an_integer(pg: Postgres) -> None:
    query = parse_one("SELECT CAST(FLOOR(CAST(x AS DOUBLE)) AS BIGINT) AS v FROM visits WHERE x > 1e300 OR x < -1e300", read="duckdb")
    assert set(pg.run(query).column("v").to_pylist()) == {2**63 - 1024, None}  # at the lower end it cannot be told from nothing


def test_nothing_can_be_written(pg: Postgres) -> None:
    for text in ("CREATE TABLE gone (a INT)", "DELETE FROM visits", "INSERT INTO wide VALUES (9, 9)"):
        with pytest.raises(EngineError):
            pg.run(parse_one(text, read="postgres"))
    assert value(pg, "(SELECT COUNT(*) FROM wide)") == 7


def test_a_statement_that_takes_too_long_is_ended(postgres_server: str) -> None:
    engine = Postgres(postgres_server, timeout=2)  # time enough for a busy server to say 1
    with pytest.raises(EngineError):
        engine.run(parse_one("SELECT PG_SLEEP(30)", read="postgres"))
    assert value(engine, "1") == 1
    engine.close()
    with pytest.raises(TableError, match="timeout must be a number of seconds above 0"):
        Postgres(postgres_server, timeout=0)


def test_errors_say_nothing_of_a_row(pg: Postgres) -> None:
    with pytest.raises(EngineError) as caught:
        pg.run(exp.Select(expressions=[exp.Anonymous(this="secret", expressions=[exp.column("region")])]).from_("visits"))
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_wrong_address_is_explained_without_the_password() -> None:
    with pytest.raises(TableError, match="cannot be reached") as caught:
        Postgres("postgresql://ann:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(TableError, match="postgresql://user"):
        Postgres("mysql://localhost/x")


def test_wide_sums_come_back_whole(pg: Postgres) -> None:
    found = pg.run(parse_one("SELECT SUM(CAST(9223372036854775807 AS BIGINT)) AS s FROM visits", read="postgres"))
    assert found.column("s").to_pylist()[0] == 600 * (2**63 - 1)


def test_the_text_that_is_sent_is_the_prepared_one() -> None:
    tree = parse_one("SELECT CAST(a AS DOUBLE) FROM t")
    assert "PG_INPUT_IS_VALID" in total(tree).sql("postgres")
    assert total(total(tree)).sql("postgres") == total(tree).sql("postgres")


def test_a_source_by_its_address(postgres_server: str) -> None:
    source, capitals = (Source.of(postgres_server, table=name) for name in ("visits", "Visits"))
    assert source.columns("visits")["at"] == "TIMESTAMP WITH TIME ZONE"
    assert source.identity() == capitals.identity()  # a budget of its own is not had by capitals
    source.close()
    capitals.close()
