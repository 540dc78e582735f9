"""The same plan with the same salt gives the same integers on DuckDB, PostgreSQL, Spark and Spark Connect."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sqlglot import exp, parse_one

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import Engine
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import Spark
from tacit.tables.plan import Settings, make
from tacit.tables.question import Aggregate, Key, Question
from tacit.tables.released import integers
from tacit.tables.split import Spend
from tacit.tables.unit import Unit

from .conftest import TEXTS, odd_table

SPEND = Spend(epsilon=Fraction(1), delta=Fraction(1, 10**6))


def asked(keys: list[str], *aggregates: tuple[str, str | None], other: str | None = None) -> Question:
    """A question about the odd table."""
    figures = [
        Aggregate(kind, None if value is None else parse_one(value), f"f{i}", None if other is None else parse_one(other))
        for i, (kind, value) in enumerate(aggregates)
    ]
    return Question(exp.to_table("visits"), tuple(Key(parse_one(key), key) for key in keys), tuple(figures))


REGIONS: dict[str, Any] = {"region": TEXTS}
FLAGS: dict[str, Any] = {"flag": [True, False, None]}
#: name: question, unit, bounds, keys. Caps bind everywhere: sixty rows a person.
CASES: dict[str, tuple[Question, Unit, dict[str, Any], dict[str, Any]]] = {
    "rows": (asked(["region"], ("count", None), ("avg", "x")), Unit("id", max_rows=5), {"x": (-1, 2)}, REGIONS),
    "groups": (
        asked(["region"], ("sum", "x"), ("count_value", "x")),
        Unit("id", max_groups=3, rows_per_group=2),
        {"x": (0, 1e290)},
        REGIONS,
    ),
    "half": (asked([], ("sum", "x")), Unit("who", max_rows=40), {"x": (-(2.0**27), 2.0**27)}, {}),
    "float people": (asked(["region"], ("sum", "x")), Unit("who", max_rows=7), {"x": (-1, 1)}, REGIONS),
    "instants": (asked([], ("count", None), ("sum", "n")), Unit("at", max_rows=7), {"n": (-(10**18), 10**18)}, {}),
    "texts": (asked([], ("count", None), ("sum", "t")), Unit("id", max_rows=7), {"t": (0, 10)}, {}),
    "private keys": (asked(["region"], ("count", None), ("sum", "x")), Unit("id", max_groups=3, rows_per_group=2), {"x": (-1, 1)}, {}),
    "tiny": (
        asked(["flag"], ("var", "x"), ("quantile", "x"), ("count_distinct", "region"), ("count_person", None)),
        Unit("id", max_groups=1, rows_per_group=6),
        {"x": (-1e-5, 1e-5)},
        FLAGS,
    ),
    "declared": (
        asked(["region", "flag"], ("count", None), ("avg", "x"), ("count_value", "n")),
        Unit("id", max_rows=5, capped=True),
        {"x": (-1, 2)},
        {"region": [*TEXTS[:9], "nowhere"], **FLAGS},
    ),
    "declared floats": (asked(["who"], ("sum", "x")), Unit.row(), {"x": (-1, 2)}, {"who": [0.0, 2.5, 1e300, 7.0]}),
    "consecutive": (asked(["id"], ("count", None), ("avg", "x")), Unit("who", max_rows=7), {"x": (-1, 2)}, {"id": [1, 2, 3, 4]}),
    "declared consecutive": (
        asked(["id"], ("count", None), ("avg", "x"), ("count_value", "n")),
        Unit("who", max_rows=5, capped=True),
        {"x": (-1, 2)},
        {"id": [1, 2, 3, 4]},
    ),
    "pairs": (asked(["region"], ("covariance", "x"), other="n"), Unit("id", max_rows=6), {"x": (-1, 1), "n": (-(10**17), 10**19)}, REGIONS),
}


def sums(engine: Engine, case: str, salt: int = 12345) -> list[tuple[Any, ...]]:
    """Groups with all their integers, in one order."""
    question, unit, bounds, keys = CASES[case]
    plan = make(question, unit, engine, Settings(bounds=bounds, keys=keys), SPEND)
    exact = integers(engine.run(plan.statement(engine, salt)), plan)
    rows = [row.tolist() for row in exact.sums]
    each = [row if len(row) == len(exact.groups) else [row] * len(exact.groups) for row in rows]
    return sorted(zip(exact.groups, exact.people, *each, strict=True), key=repr)


@pytest.mark.parametrize("case", CASES)
def test_postgres_agrees_with_duckdb(case: str, duck: DuckDB, pg: Postgres) -> None:
    assert sums(pg, case) == sums(duck, case)


def test_spark_agrees_with_duckdb(duck: DuckDB, spark: Spark) -> None:
    """One test, so that one process starts one Java; the cases that differ most, because Spark takes seconds for each."""
    for case in ("groups", "instants", "tiny", "declared consecutive"):
        assert sums(spark, case) == sums(duck, case), case


def test_spark_connect_agrees_with_duckdb(duck: DuckDB, connected: Spark) -> None:
    """A client and a server, and gRPC between them: still the same integers."""
    assert "connect" in type(connected.session).__module__
    assert sums(connected, "instants") == sums(duck, "instants")


@pytest.mark.slow
def test_spark_agrees_with_duckdb_on_everything(duck: DuckDB, spark: Spark, connected: Spark) -> None:
    truth = {case: sums(duck, case) for case in CASES}
    for engine in (spark, connected):
        assert {case: sums(engine, case) for case in CASES} == truth


def test_the_caps_bind(duck: DuckDB) -> None:
    """Without this, agreement would be agreement on everything: other salts keep other rows."""
    assert len({repr(sums(duck, "rows", salt)) for salt in range(4)}) == 4
    assert sum(row[2] for row in sums(duck, "rows")) == 9 * 5  # nine people, five rows each


def test_rounding_is_half_up_everywhere(duck: DuckDB, pg: Postgres) -> None:
    """Bounds 2^28 wide have granularity 1: 0.5 becomes 1, -0.5 becomes 0, 2.5 becomes 3, as floor(x + 1/2) says."""
    question, rows = asked([], ("sum", "x")), odd_table().to_pylist()
    for value, whole in ((0.5, 1), (-0.5, 0), (2.5, 3), (-0.0, 0), (5e-324, 0)):
        people = len({row["id"] for row in rows if row["x"] == value and row["id"] is not None})
        assert people
        only = Question(question.relation, (), question.aggregates, exp.EQ(this=exp.column("x"), expression=_double(value)))
        for engine in (duck, pg):
            plan = make(only, Unit("id", max_rows=1), engine, Settings(bounds={"x": (-(2.0**27), 2.0**27)}), SPEND)
            assert plan.shares[0].measure.granularity == 1
            assert int(integers(engine.run(plan.statement(engine, 1)), plan).sums[0][0]) == whole * people


def _double(value: float) -> exp.Expression:
    literal = exp.cast(exp.Literal.number(repr(abs(value))), "DOUBLE")
    return exp.Neg(this=literal) if value < 0 else literal


def test_the_native_order_is_not_the_portable_one(pg: Postgres) -> None:
    """The mutant: engines left to their own hash functions keep different rows, and the comparison says so."""
    duck, native = DuckDB(threads=1), DuckDB(threads=1, portable=True)
    for engine in (duck, native):
        engine.register("visits", odd_table())
    assert sums(duck, "rows") != sums(pg, "rows") == sums(native, "rows")
