"""No argument of a parsed question is passed over: every node has a list of those it understands, checked against sqlglot's."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialects
from tests.tables.people import session_on

from tacit.tables import Refused, TableError, Unit, grammar
from tacit.tables.relation import Catalog, Table
from tacit.tables.sql import parse

VERSION = tuple(int(part) for part in sqlglot.__version__.split(".")[:2])
CATALOG = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER", "name": "VARCHAR", "f": "BOOLEAN"})}, Unit("id", max_rows=3))


def test_the_installed_sqlglot_is_one_that_was_tested_and_pyproject_pins_the_same_range() -> None:
    assert grammar.LOWEST <= VERSION < grammar.BEYOND
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    (pinned,) = re.findall(r'"sqlglot([^"]*)"', text)
    assert pinned == ">={}.{},<{}.{}".format(*grammar.LOWEST, *grammar.BEYOND)


@pytest.mark.parametrize("node", sorted(grammar.NODES, key=lambda node: node.__name__), ids=lambda node: node.__name__)
def test_every_argument_of_every_accepted_node_is_understood_passed_over_on_purpose_or_refused(node: type[exp.Expression]) -> None:
    parts = (grammar.NODES[node], grammar.NO_MATTER.get(node, frozenset()), grammar.REFUSED.get(node, frozenset()))
    assert set(node.arg_types) <= set().union(*parts), "sqlglot has other arguments than those that were looked at"
    assert sum(map(len, parts)) == len(set().union(*parts)), "an argument stands twice"


def test_a_new_argument_of_a_newer_sqlglot_is_noticed_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exp.Between, "arg_types", {**exp.Between.arg_types, "twice": False})
    with pytest.raises(AssertionError, match="other arguments"):
        test_every_argument_of_every_accepted_node_is_understood_passed_over_on_purpose_or_refused(exp.Between)
    tree = sqlglot.parse_one("SELECT COUNT(*) FROM visits WHERE age BETWEEN 1 AND 2")
    tree.find(exp.Between).set("twice", True)  # type: ignore[union-attr]
    with pytest.raises(Refused, match="BETWEEN with twice") as refused:
        grammar.check(tree)
    assert refused.value.code == "argument-unknown"


@pytest.mark.parametrize(
    ("text", "dialect", "code"),
    [
        ("SELECT COUNT(*) FROM visits WHERE age BETWEEN SYMMETRIC 9 AND 2", "postgres", "argument-unknown"),
        ("SELECT COUNT(*) FROM visits WHERE TRIM(LEADING 'x' FROM name) = 'a'", "postgres", "argument-unknown"),
        ("SELECT COUNT(*) FROM visits WHERE FLOOR(age, 2) = 1", "snowflake", "argument-unknown"),
        ("SELECT APPROX_COUNT_DISTINCT(name, 0.5) AS n FROM visits", "spark", "argument-unknown"),
        ("SELECT COUNT(*) AS n FROM visits ORDER BY n WITH FILL", "clickhouse", "argument-unknown"),
        ("SELECT COUNT(*) FROM visits WHERE visits.age(+) = 1", "oracle", "argument-unknown"),
        ("SELECT COUNT(*) FROM visits WHERE nowhere.visits.age = 1", "postgres", "argument-unknown"),
    ],
)  # fmt: skip
def test_what_no_reader_looks_at_is_refused_with_a_code(text: str, dialect: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text, dialect, CATALOG)
    assert refused.value.code == code


TESTS = {
    "age IS NOT NULL": 750, "NOT age IS NULL": 750, "age IS NULL": 250, "age NOTNULL": 750, "age ISNULL": 250,
    "(age > 3) IS NOT UNKNOWN": 750,
    "(age > 3) IS UNKNOWN": 250, "f IS NOT TRUE": 600, "f IS NOT FALSE": 800, "f IS TRUE": 400, "age NOT IN (1, 2)": 450,
    "age NOT BETWEEN 1 AND 2": 450, "name NOT LIKE 'a%'": 500, "name NOT ILIKE 'A%'": 500, "age IS NOT DISTINCT FROM 3": 150,
    "NOT (age IS NOT NULL)": 250, "NOT name NOT LIKE 'a%'": 500, "age IS NOT NULL AND name NOT LIKE 'a%'": 375,
}  # fmt: skip


def made_up() -> pa.Table:
    """1,000 rows: one in four without an age, the others' from 0 to 4; two in five true, one in five false."""
    ages, there = [], 0
    for i in range(1000):
        ages.append(None if i % 4 == 0 else there % 5)
        there += i % 4 != 0
    return pa.table({"id": list(range(1000)), "age": pa.array(ages, pa.int32()),
                     "name": ["a" if i // 4 % 2 else "b" for i in range(1000)],
                     "f": [(True, True, False, None, None)[i % 5] for i in range(1000)]})  # fmt: skip


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    """What was answered to each question: most dialects read a condition as the same question, which is then asked once."""
    rows, plain = made_up(), duckdb.connect()
    plain.register("visits", rows)
    for condition, wanted in TESTS.items():
        assert plain.execute(f"SELECT COUNT(*) FROM visits WHERE {condition}").fetchone() == (wanted,), condition
    return {}


@pytest.mark.parametrize("dialect", [d.value for d in Dialects if d.value])
def test_negations_mean_what_they_say_in_every_dialect(dialect: str, counted: dict[str, int]) -> None:
    """The oracle is DuckDB's plain count, checked against numbers that were worked out by hand."""
    session = session_on(made_up(), Unit.row(), "eps=1e12, delta=1e-6", dialect=dialect, loss=False)
    answered = 0
    for condition, wanted in TESTS.items():
        try:
            question = session.desk.question(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}")
        except TableError:
            continue  # a word that the dialect does not have
        if repr(question) not in counted:
            counted[repr(question)] = round(float(session.ask(question, epsilon=10**6)["n"][0]))
        assert counted[repr(question)] == wanted, (dialect, condition)
        answered += 1
    assert answered >= 8 or dialect in ("dax", "prql")  # no SQL


def test_the_old_reader_that_passed_over_negate_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: negations as sqlglot has them, and arguments that are not looked at."""
    monkeypatch.setattr(grammar, "plain", lambda tree: tree)
    monkeypatch.setattr(grammar, "only", lambda node: None)
    with pytest.raises(AssertionError):
        test_negations_mean_what_they_say_in_every_dialect("postgres", {})


@pytest.mark.parametrize(("dialect", "wanted"), [("duckdb", 1.0), ("bigquery", None), ("mysql", None), ("snowflake", None)])
def test_least_of_a_missing_value_is_the_dialects(dialect: str, wanted: float | None) -> None:
    rows = pa.table({"id": [1, 2], "a": pa.array([None, 5], pa.int32()), "b": [1, 9]})
    session = session_on(rows, Unit.row(), "eps=1e12, delta=1e-6", dialect=dialect, loss=False)
    found = session.sql("SELECT COUNT(*) AS n FROM visits WHERE LEAST(a, b) = 1", epsilon=10**6)
    assert round(float(found["n"][0])) == (0 if wanted is None else 1)
    having = session.sql("SELECT COUNT(*) AS n FROM visits HAVING GREATEST(COUNT(*), NULLIF(1, 1)) > 0", epsilon=10**6)
    assert having.rows == (0 if wanted is None else 1)


def test_ordinal_counts_from_one() -> None:
    rows = pa.table({"id": list(range(101)), "x": [float(i) for i in range(101)]})
    session = session_on(rows, Unit.row(), "eps=1e12, delta=1e-6", dialect="bigquery", loss=False, columns={"x": (0, 100)})
    for place in ("OFFSET(1)", "ORDINAL(2)", "SAFE_OFFSET(1)", "1"):
        found = session.sql(f"SELECT APPROX_QUANTILES(x, 4)[{place}] AS q FROM visits", epsilon=10**6)
        assert abs(float(found["q"][0]) - 25) < 1, place
