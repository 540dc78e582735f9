"""The same plan with the same salt gives the same integers on DuckDB, PostgreSQL, Spark and Spark Connect."""

from __future__ import annotations

import datetime
import gc
import hashlib
import math
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tacit.accounting import Guarantee
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import Engine, constant, last_text, never_failing, unlinked
from tacit.tables.engines.postgres import Postgres, total
from tacit.tables.engines.spark import Spark
from tacit.tables.figures import integers
from tacit.tables.plan import Settings, make
from tacit.tables.question import Aggregate, Key, Question
from tacit.tables.unit import Unit

from .conftest import TEXTS, odd_table

SPEND = Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6))


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


# --- total --------------------------------------------------------------------------------------------------


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


# --- order --------------------------------------------------------------------------------------------------


FLOATS = st.floats(allow_nan=True, allow_infinity=True)


def text_of(value: Any) -> str | None:
    """The canonical text, said again without SQL."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        near = 2.0**62 if math.isnan(value) else min(max(value, -(2.0**62)), 2.0**62)
        floor = math.floor(near)
        return f"{floor}.{math.floor((near - float(floor)) * 2.0**52)}"
    if isinstance(value, datetime.datetime):
        return str((value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1))
    return str(value)


def key_of(salt: int, values: list[Any]) -> str:
    parts = [("|~" if text is None else text.replace("|", "||")) + "|;" for text in map(text_of, values)]
    return hashlib.md5((str(salt) + "".join(parts)).encode()).hexdigest()


@cache
def _engine() -> DuckDB:
    return DuckDB(threads=1, portable=True)


def keys_from_duckdb(salt: int, table: pa.Table) -> list[str]:
    engine = _engine()
    engine.register("t", table)
    key = engine.shuffle_key(salt, [exp.column(name, quoted=True) for name in table.column_names])
    found = engine.run(exp.Select(expressions=[exp.alias_(key, "k")]).from_("t"))
    return [str(value) for value in found.column("k").to_pylist()]


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=4)
ROWS = st.lists(st.tuples(FLOATS | st.none(), TEXTS | st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=50)


@settings(max_examples=12)
@given(ROWS)
@example([(-0.0, "|", 0), (0.0, "||", 0), (1e-320, "", 1), (-1e-320, None, -1), (1e308, "|;", 2)])
def test_the_key_is_md5_of_canonical_texts(rows: list[tuple[float | None, str | None, int]]) -> None:
    types = (pa.float64(), pa.string(), pa.int64())
    columns = [pa.array([row[i] for row in rows], types[i]) for i in range(3)]
    assert keys_from_duckdb(42, pa.table(columns, names=["a", "b", "c"])) == [key_of(42, list(row)) for row in rows]


def test_times_dates_and_booleans() -> None:
    at = datetime.datetime(2026, 1, 31, 10, 0, 0, 250_000, tzinfo=datetime.UTC)
    rows = [(at, datetime.date(2026, 1, 31), True), (None, None, False)]
    types = (pa.timestamp("us", "UTC"), pa.date32(), pa.bool_())
    columns = [pa.array([row[i] for row in rows], types[i]) for i in range(3)]
    assert keys_from_duckdb(3, pa.table(columns, names=["a", "b", "c"])) == [key_of(3, list(row)) for row in rows]


def test_no_two_lists_of_values_look_alike() -> None:
    pairs = [("a|", "b"), ("a", "|b"), ("a|;b", ""), ("", "a|;b"), ("|~", None), (None, "|~"), (None, None)]
    table = pa.table({"a": pa.array([p[0] for p in pairs], pa.string()), "b": pa.array([p[1] for p in pairs], pa.string())})
    assert len(set(keys_from_duckdb(1, table))) == len(pairs)


def test_another_salt_gives_another_order() -> None:
    table = pa.table({"a": list(range(50))})
    found = [keys_from_duckdb(salt, table) for salt in (1, 2)]
    orders = [sorted(range(50), key=keys.__getitem__) for keys in found]
    assert orders[0] != orders[1]


STATEMENT = "SELECT r, SUM(CASE WHEN x > 1 THEN LEAST(x, 5) ELSE 0 END) AS s FROM (SELECT * FROM t WHERE NOT x IS NULL) AS q GROUP BY r"


@pytest.mark.parametrize("freed", [True, False])
def test_a_tree_without_links_is_freed_where_it_is_dropped(freed: bool) -> None:
    tree = parse_one(STATEMENT)
    if freed:
        unlinked(tree)
    gc.collect()
    gc.disable()
    try:
        del tree
        left = gc.collect()
    finally:
        gc.enable()
    assert left == 0 if freed else left > 50, "with its links it waits for the collector of garbage"


def test_a_tree_without_links_says_the_same_and_a_copy_has_them() -> None:
    tree = parse_one(STATEMENT)
    text, nodes = tree.sql("duckdb"), len(list(tree.walk()))
    unlinked(tree)
    assert tree.sql("duckdb") == text and len(list(tree.walk())) == nodes
    assert all(node.parent is None for node in tree.walk())
    copied = tree.copy()
    assert all(node.parent is not None for node in copied.walk() if node is not copied)
    assert last_text(copied, "duckdb") == text and all(node.parent is None for node in copied.walk())
