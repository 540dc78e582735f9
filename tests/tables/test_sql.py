"""SQL questions: what each form means, what is refused and why, and that garbage never gets past a TableError."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables.people import Repeatable, exact_sums, loss_between, planned, random_rows, session_on, table

from tacit.noise import test_mode
from tacit.tables import Unit
from tacit.tables.builder import Query
from tacit.tables.errors import Refused, TableError
from tacit.tables.question import Aggregate, Question
from tacit.tables.relation import Catalog, Relation, Table
from tacit.tables.sql import parse

COLUMNS = {"id": "BIGINT", "age": "INTEGER", "region": "VARCHAR", "cost": "DOUBLE", "day": "DATE", "code": "VARCHAR", "flag": "BOOLEAN"}
CATALOG = Catalog(
    {
        "visits": Table(COLUMNS),
        "patients": Table({"id": "BIGINT", "sex": "VARCHAR"}),
        "codes": Table({"code": "VARCHAR", "name": "VARCHAR"}, public=True),
    },
    Unit("id", max_rows=3),
)


def ask(text: str, dialect: str = "duckdb") -> Question:
    return parse(text, dialect, CATALOG)


def one(aggregate: str, dialect: str = "duckdb") -> Aggregate:
    (found,) = ask(f"SELECT {aggregate} AS a FROM visits", dialect).aggregates
    return found


@pytest.mark.parametrize(
    ("text", "dialect", "kind", "quantile"),
    [
        ("COUNT(*)", "duckdb", "count", None),
        ("COUNT(1)", "duckdb", "count", None),
        ("COUNT(age)", "duckdb", "count_value", None),
        ("COUNT(DISTINCT id)", "duckdb", "count_person", None),
        ("COUNT(DISTINCT region)", "postgres", "count_distinct", None),
        ("SUM(cost)", "spark", "sum", None),
        ("AVG(age)", "duckdb", "avg", None),
        ("VARIANCE(age)", "duckdb", "var_samp", None),
        ("VAR_SAMP(age)", "postgres", "var_samp", None),
        ("VAR_POP(age)", "duckdb", "var_pop", None),
        ("STDDEV(age)", "duckdb", "stddev_samp", None),
        ("STDDEV_POP(age)", "duckdb", "stddev_pop", None),
        ("STDDEV_SAMP(age)", "spark", "stddev_samp", None),
        ("MEDIAN(age)", "duckdb", "quantile", "1/2"),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)", "postgres", "quantile", "9/10"),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age DESC)", "postgres", "quantile", "1/10"),
        ("QUANTILE_CONT(age, 0.25)", "duckdb", "quantile", "1/4"),
        ("PERCENTILE_CONT(age, 0.25)", "bigquery", "quantile", "1/4"),
        ("APPROX_QUANTILES(age, 4)[OFFSET(3)]", "bigquery", "quantile", "3/4"),
        ("APPROX_QUANTILE(age, 0.3)", "duckdb", "quantile", "3/10"),
        ("MIN(age)", "duckdb", "min", "0"),
        ("MAX(age)", "duckdb", "max", "1"),
        ("COVAR_POP(age, cost)", "duckdb", "covar_pop", None),
        ("COVAR_SAMP(age, cost)", "duckdb", "covar_samp", None),
        ("CORR(age, cost)", "postgres", "corr", None),
        ("COUNT_IF(age > 3)", "duckdb", "count_value", None),
        ("COUNT(*) FILTER (WHERE age > 3)", "duckdb", "count_value", None),
        ("COUNTIF(flag)", "bigquery", "count_value", None),
    ],
)
def test_aggregates(text: str, dialect: str, kind: str, quantile: str | None) -> None:
    found = one(text, dialect)
    assert found.kind == kind and found.quantile == (None if quantile is None else Fraction(quantile))
    assert (found.other is not None) == (kind in ("covar_pop", "covar_samp", "corr"))


def test_filter_is_a_case() -> None:
    assert one("SUM(age) FILTER (WHERE region = 'N')") == one("SUM(CASE WHEN region = 'N' THEN age END)")
    assert one("COUNT_IF(age > 3)") == one("COUNT(CASE WHEN age > 3 THEN 1 END)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT v.region, COUNT(*) AS n FROM visits AS v GROUP BY v.region",
        "SELECT REGION, COUNT(*) AS n FROM VISITS GROUP BY region",
        "select region as region, count(*) as n from visits group by region",
    ],
)
def test_ways_to_write_one_question(text: str) -> None:
    found = ask(text)
    assert [key.value.sql() for key in found.keys] == ['"region"']
    assert found.aggregates == (Aggregate("count", None, "n"),) and isinstance(found.relation, Relation)
    assert found.relation == ask("SELECT COUNT(*) FROM visits").relation


def test_keys_may_be_expressions_and_aliases() -> None:
    texts = ["GROUP BY YEAR(day)", "GROUP BY y", "GROUP BY 1"]
    first, *others = [ask(f"SELECT YEAR(day) AS y, COUNT(*) AS n FROM visits {end}") for end in texts]
    assert all(other == first for other in others) and first.keys[0].name == "y"


def test_arithmetic_of_aggregates_is_computed_of_released_values() -> None:
    found = ask(
        "SELECT region, ROUND(SUM(cost) / COUNT(*), 1) AS each, COUNT(*) AS n FROM visits GROUP BY region "
        "HAVING n > 10 ORDER BY each DESC, 1 LIMIT 7"
    )
    assert [a.kind for a in found.aggregates] == ["sum", "count", "count"][: len(found.aggregates)]
    assert [o.name for o in found.outputs] == ["region", "each", "n"] and found.limit == 7
    assert [order.descending for order in found.order] == [True, False] and found.having is not None
    names = {a.name for a in found.aggregates} | {"region"}
    for tree in [found.having, *(o.value for o in found.outputs), *(o.value for o in found.order)]:
        assert {node.name for node in tree.find_all(type(found.outputs[0].value))} <= names


def test_hidden_aggregates_of_having_are_measured() -> None:
    found = ask("SELECT region, AVG(age) AS a FROM visits GROUP BY region HAVING COUNT(*) > 5")
    assert [a.kind for a in found.aggregates] == ["avg", "count"] and [o.name for o in found.outputs] == ["region", "a"]


def test_values_are_total() -> None:
    found = ask("SELECT AVG(cost / age) AS a FROM visits WHERE LN(cost) > 1")
    assert "NULLIF" in found.aggregates[0].value.sql() and "NULLIF" in found.where.sql()  # type: ignore[union-attr]


def test_a_plain_column_stays_plain() -> None:
    """So that engines can use their statistics."""
    found = ask("SELECT AVG(age) FROM visits WHERE age >= 18 AND region = 'N'")
    assert found.aggregates[0].value.sql() == '"age"'  # type: ignore[union-attr]
    assert found.where.sql() == '(("age" >= 18) AND ("region" = \'N\'))'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * FROM visits", "never released"),
        ("SELECT age FROM visits", "never released"),
        ("SELECT region FROM visits GROUP BY region", "no aggregate"),
        ("SELECT DISTINCT region FROM visits", "DISTINCT"),
        ("SELECT SUM(age) OVER () FROM visits", "window"),
        ("SELECT id, COUNT(*) FROM visits GROUP BY id", "single people"),
        ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.region = b.region", "both private"),
        ("SELECT COUNT(*) FROM visits a, visits b", "ON or USING"),
        ("SELECT COUNT(*) FROM visits CROSS JOIN codes", "ON or USING"),
        ("SELECT COUNT(*) FROM visits v RIGHT JOIN codes c ON v.code = c.code", "INNER JOIN and LEFT"),
        ("SELECT COUNT(*) FROM codes c LEFT JOIN visits v ON v.code = c.code", "without an owner"),
        ("SELECT COUNT(*) FROM codes", "public"),
        ("SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(age) FROM visits)", "sub-query"),
        ("SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM visits", "one SELECT"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION SELECT age FROM visits) t", "UNION ALL"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits EXCEPT SELECT age FROM visits) t", "UNION ALL"),
        ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a FROM r) SELECT COUNT(*) FROM r", "recursive"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits LIMIT 3) t", "LIMIT"),
        ("SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM visits) t", "GROUP BY the person"),
        ("SELECT COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) t", "GROUP BY the person"),
        ("SELECT SUM(DISTINCT age) FROM visits", "DISTINCT"),
        ("SELECT COUNT(*) FROM (SELECT region AS id FROM visits) t", "person's column"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT age FROM visits) t", "DISTINCT"),
        ("SELECT AVG(region) FROM visits", "numbers"),
        ("SELECT LISTAGG(region) FROM visits", "aggregates"),
        ("SELECT COUNT(*) FROM visits TABLESAMPLE (10 PERCENT)", "nothing else"),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "functions and files"),
        ("SELECT COUNT(*) FROM '/etc/passwd'", ""),
        ("SELECT COUNT(*) FROM nowhere", "no table"),
        ("SELECT AVG(nothing) FROM visits", "no column"),
        ("DROP TABLE visits", "SELECT"),
        ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "one statement"),
        ("SELECT COUNT(*)", "FROM"),
        ("", "empty"),
        ("SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER () = 1", "QUALIFY"),
        ("SELECT COUNT(*) AS n, SUM(age) AS n FROM visits", "two columns"),
        ("SELECT COUNT(*) FROM visits ORDER BY age", "neither"),
        ("SELECT COUNT(*) FROM visits GROUP BY 9", "from 1 to 1"),
        ("SELECT COUNT(*) FROM visits LIMIT x", "LIMIT"),
        ("SELECT STRING_AGG(region, ',') FROM visits", "aggregates"),
        ("SELECT COUNT(*) INTO x FROM visits", "write"),
        ("SELECT ANY_VALUE(age) FROM visits", ""),
    ],
)
def test_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(TableError, match=f"(?i){reason}"):
        ask(text)


def test_bigquery() -> None:
    found = parse(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, delta = 1e-6, max_groups_contributed = 2, privacy_unit_column = id,"
        " group_selection_strategy = PUBLIC_GROUPS) region, SUM(cost, contribution_bounds_per_group => (-1.5, 100)) AS s,"
        " COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits GROUP BY region",
        "bigquery",
        CATALOG,
    )
    assert (found.asked.epsilon, found.asked.delta, found.asked.max_groups, found.asked.rows_per_group) == ("0.5", "1e-6", 2, 1)
    assert found.asked.public_groups and found.asked.person == "id"
    assert [(a.kind, a.name, a.bounds) for a in found.aggregates] == [("sum", "s", (Fraction(-3, 2), 100)), ("sum", "n", (0, 5))]
    assert isinstance(found.relation, Relation) and 'GROUP BY "id", "region"' in found.relation.expression().sql()


def test_bigquery_bounds_per_row() -> None:
    found = parse(
        "SELECT WITH DIFFERENTIAL_PRIVACY AVG(age, contribution_bounds_per_row => (0, 90)), COUNT(*) AS n FROM visits", "bigquery", CATALOG
    )
    assert [(a.kind, a.bounds) for a in found.aggregates] == [("avg", (0, 90)), ("count", None)]
    found = parse(
        "SELECT WITH DIFFERENTIAL_PRIVACY PERCENTILE_CONT(age, 0.5, contribution_bounds_per_row => (0, 90)) AS m FROM visits",
        "bigquery",
        CATALOG,
    )
    assert found.aggregates[0].quantile == Fraction(1, 2) and found.aggregates[0].bounds == (0, 90)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=nan) COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, epsilon=2) COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS",
        "SELECT WITH DIFFERENTIAL_PRIVACY",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(x=1) COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column=age) COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY SUM(cost, contribution_bounds_per_group => (5, 1)) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY 'open",
        "SELECT WITH DIFFERENTIAL_PRIVACY SUM(cost, contribution_bounds_per_group => (a, 1)) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY SUM(cost, contribution_bounds_per_group => (0, 1)), AVG(age) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY age FROM visits)",
    ],
)
def test_bigquery_garbage(text: str) -> None:
    with pytest.raises(TableError):
        parse(text, "bigquery", CATALOG)


# ---- garbage ------------------------------------------------------------------------------------------------------------------------

_WORDS = st.sampled_from(
    [
        "SELECT",
        "FROM",
        "visits",
        "WHERE",
        "GROUP",
        "BY",
        "region",
        "COUNT(*)",
        "SUM(",
        "AVG(",
        "age",
        "cost",
        ")",
        "(",
        ",",
        "+",
        "-",
        "*",
        "/",
        "'a'",
        "1",
        "1e9",
        "NULL",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "JOIN",
        "codes",
        "ON",
        "USING",
        "code",
        "UNION",
        "ALL",
        "WITH",
        "AS",
        "t",
        "HAVING",
        "ORDER",
        "LIMIT",
        "OVER",
        "PARTITION",
        "DISTINCT",
        "EXISTS",
        "::",
        "[",
        "]",
        "{",
        "}",
        ";",
        "--",
        "/*",
        "*/",
        '"',
        "`",
        "$1",
        "?",
        "@x",
        "é",
        "😀",
        "\\",
        "INTERVAL",
        "CAST",
        "FILTER",
    ]
)
_GOOD = (
    "WITH w AS (SELECT age + 1 AS a, region, code FROM visits WHERE cost > 1.5) SELECT region, ROUND(SUM(a) / COUNT(*), 1) AS r FROM w "
    "JOIN codes USING (code) WHERE a BETWEEN 1 AND 9 GROUP BY region HAVING COUNT(*) > 3 ORDER BY r DESC LIMIT 5"
)


def answered(text: str, dialect: str = "duckdb") -> bool:
    try:
        parse(text, dialect, CATALOG)
    except TableError:
        return False
    return True


@settings(max_examples=150)
@given(st.lists(_WORDS, max_size=30).map(" ".join), st.sampled_from(["duckdb", "postgres", "spark", "bigquery"]))
def test_random_words(text: str, dialect: str) -> None:
    answered(text, dialect)
    answered(f"SELECT COUNT(*), {text} FROM visits", dialect)


@settings(max_examples=80)
@given(st.text(max_size=80))
def test_random_text(text: str) -> None:
    answered(text)
    answered(f"SELECT COUNT(*) FROM visits WHERE {text}")


def test_truncated_sql() -> None:
    assert answered(_GOOD)
    results = [answered(_GOOD[:end]) for end in range(0, len(_GOOD), 3)]
    assert not all(results)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000,
        "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 5_000 + "flag",
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 300 + "flag" + ")" * 300,
        "SELECT COUNT(*) FROM visits WHERE age > " + "1 + " * 3_000 + "1",
        "SELECT " + "x" * 1_000_000,
        "SELECT " * 5_000,
        "SELECT COUNT(*) FROM " + "(SELECT age FROM " * 60 + "visits" + ") AS t" * 60,
        "\0",
        "SELECT '\ud800' FROM visits",
        "SELECT COUNT(*) FROM visits WHERE age = " + "9" * 5_000,
        "SELECT SUM(" * 200,
        "CASE " * 2_000,
        "WITH " + "a AS (SELECT 1), " * 500,
    ],
    ids=[str(i) for i in range(13)],
)
def test_deep_and_long_garbage(text: str) -> None:
    assert not answered(text)


def test_not_text() -> None:
    with pytest.raises(TableError, match="must be text"):
        parse(7, "duckdb", CATALOG)  # type: ignore[arg-type]


def test_without_a_catalogue_only_one_table() -> None:
    found = parse('SELECT region, AVG("age") FROM "visits" WHERE age > 3 GROUP BY region', "duckdb")
    assert found.relation.sql() == '"visits"'  # type: ignore[union-attr]
    with pytest.raises(Refused, match="session"):
        parse("SELECT COUNT(*) FROM visits JOIN codes USING (code)", "duckdb")


def test_an_interval_needs_its_place() -> None:
    """The ends of n are shown as n_low and n_high; a key or figure of that name would be overwritten."""
    for other in ("n_low", "n_high"):
        with pytest.raises(TableError, match=f"{other} is where the interval of n stands"):
            parse(f"SELECT region AS {other}, COUNT(*) AS n FROM visits GROUP BY region", "duckdb")


@pytest.mark.parametrize("text", ["ALTER TABLE t FOO BAR", "CALL foo()", "GRANT x", "EXPLAIN SELECT COUNT(*) FROM t"])
def test_a_question_that_the_parser_does_not_know_is_not_logged(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TableError):
        parse(text, "postgres")
    assert not caplog.records


# --- histogram ----------------------------------------------------------------------------------------------


TYPES = {"id": "BIGINT", "region": "VARCHAR", "age": "DOUBLE", "cost": "DOUBLE"}
BINNED = Catalog({"visits": Table(TYPES)}, Unit("id", max_rows=3))
TEXT = "SELECT HISTOGRAM(age, 0, 18, 65.5, 100) AS n FROM visits"


def counted(text: str, rows: Any, unit: Unit) -> list[int]:
    engine = Repeatable(threads=1, portable=True)
    engine.register("visits", rows)
    plan = planned(parse(text, "duckdb", Catalog({"visits": Table(TYPES)}, unit)), unit, engine, keys={})
    return [int(n) for n in exact_sums(plan, engine).sums[0]]


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.sampled_from([0.0, -0.0, 18.0, 65.5, 100.0, 1.0])), max_size=30),
    edges=st.lists(st.floats(-200, 200).map(lambda x: round(x, 2)), min_size=2, max_size=6, unique=True).map(sorted),
)
def test_bins_count_as_numpy_counts(values: list[float | None], edges: list[float]) -> None:
    rows = table([(i, "N", value, 0.0) for i, value in enumerate(values)])
    found = counted(f"SELECT HISTOGRAM(age, {', '.join(f'{edge:f}' for edge in edges)}) AS n FROM visits", rows, Unit("id", max_rows=1))
    inside = [value for value in values if value is not None and np.isfinite(value)]
    assert found == np.histogram(inside, edges)[0].tolist()


def test_all_bins_together_cost_what_one_count_costs() -> None:
    session = session_on([], Unit("id", max_rows=3))
    fine = session.plan("SELECT HISTOGRAM(age, " + ", ".join(map(str, range(101))) + ") AS n FROM visits", epsilon=1, loss=False)
    one = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, loss=False)
    assert fine.keys.count == 100 and fine.event == one.event
    assert fine.shares[0].scale == one.shares[0].scale  # the mutant, a budget divided over bins, would have a hundred times as much


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_one_person_moves_the_bins_no_further_than_the_price(law: str) -> None:
    unit = Unit("id", max_rows=4)
    engine = Repeatable(threads=1, portable=True)
    rows = random_rows(5)
    engine.register("visits", table(rows))
    asked = parse("SELECT region, HISTOGRAM(age, 0, 1, 50, 100) AS n FROM visits GROUP BY region", "duckdb", BINNED)
    plan = planned(asked, unit, engine, law=law)
    base = exact_sums(plan, engine)
    for person in range(6):
        engine.register("visits", table([row for row in rows if row[0] != person]))
        assert loss_between(plan, base, exact_sums(plan, engine)) <= 1 + 1e-9


def test_an_answer_has_a_row_for_each_bin(tmp_path: Path) -> None:
    session = session_on(random_rows(3), Unit("id", max_rows=3))
    with test_mode(2):
        answer = session.sql(TEXT + " ORDER BY n DESC", epsilon=1)
    assert sorted(answer.keys["age"]) == ["[0, 18)", "[18, 65.5)", "[65.5, 100]"]
    assert answer["n"].tolist() == sorted(answer["n"], reverse=True)
    figure = answer.plot(path=str(tmp_path / "bins.png"))
    bars = {(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in figure.axes[0].patches}
    assert bars == {(0, 18), (18, 47.5), (65.5, 34.5)} and (tmp_path / "bins.png").stat().st_size > 1000


def test_categories_are_counted() -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "region": ["N", "S", "N", "other"], "age": [1.0] * 4, "cost": [1.0] * 4})
    assert counted("SELECT HISTOGRAM(region, 'S', 'N', 'W') AS n FROM visits", rows, Unit("id", max_rows=1)) == [1, 2, 0]
    session = session_on(rows, Unit("id", max_rows=1), columns={"region": ["N", "S"]})
    with test_mode(1):
        assert session.sql("SELECT HISTOGRAM(region) AS n FROM visits", epsilon=1).keys["region"] == ["N", "S"]


def test_the_builder_means_the_same() -> None:
    query = Query.of("visits", BINNED)
    assert query.histogram("age", "n", bins=[0, 18, 65.5, 100]).question == parse(TEXT, "duckdb", BINNED)
    even = query.histogram("age", "n", bins=4, bounds=(-10, 10)).question
    assert even == parse("SELECT HISTOGRAM(age, -10, -5, 0, 5, 10) AS n FROM visits", "duckdb", BINNED)
    both = query.group_by("region").histogram("LEAST(age, 9)", "n", bins=[0, 5, 9]).question
    assert both == parse("SELECT region, HISTOGRAM(LEAST(age, 9), 0, 5, 9) AS n FROM visits GROUP BY 1", "duckdb", BINNED)
    assert [key.name for key in both.keys] == ["region", "bin"]
    assert query.histogram("region", bins=["N"]).question.keys[0].listed == ("N",)
    for wrong in (
        {"bins": 5},
        {"bins": 0, "bounds": (0, 1)},
        {"bins": [1]},
        {"bins": [2, 1]},
        {"bins": [1, "a"]},
        {"bins": [0, float("inf")]},
    ):
        with pytest.raises((TableError, ValueError)):
            _ = query.histogram("age", **wrong).question  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT HISTOGRAM() FROM visits",
        "SELECT HISTOGRAM(age, 5) FROM visits",
        "SELECT HISTOGRAM(age, 5, 5) FROM visits",
        "SELECT HISTOGRAM(age, 5, age) FROM visits",
        "SELECT HISTOGRAM(age, 5, 'x') FROM visits",
        "SELECT HISTOGRAM(age, 1 + 1, 3) FROM visits",
        "SELECT HISTOGRAM(region, 'N', 'N') FROM visits",
        "SELECT HISTOGRAM(region, 1, 2) FROM visits",
        "SELECT HISTOGRAM(age, 0, 1) / 2 FROM visits",
        "SELECT HISTOGRAM(age, 0, 1), HISTOGRAM(cost, 0, 1) FROM visits",
        "SELECT HISTOGRAM(age, 0, 1), AVG(cost) FROM visits",
        "SELECT HISTOGRAM(age, 0, 1) FILTER (WHERE age > 0) FROM visits",
        "SELECT COUNT(*) FROM visits HAVING HISTOGRAM(age, 0, 1) > 2",
        "SELECT HISTOGRAM(age, 0, 1) AS n FROM visits GROUP BY 1",
        "SELECT HISTOGRAM(age, 0, 1) AS n FROM visits ORDER BY 1",
        "SELECT HISTOGRAM(id, 'x') AS n FROM visits",
        f"SELECT HISTOGRAM(age, {', '.join(map(str, range(600)))}) FROM visits",
    ],
)
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        session_on([], Unit("id", max_rows=1)).plan(parse(text, "duckdb", BINNED), epsilon=1)


def test_a_job_knows_the_bins_of_its_question() -> None:
    from tests.release.jobs import changed

    from tacit.release.planning import plan

    job = changed(("SELECT COUNT(*) AS n FROM visits", "'SELECT HISTOGRAM(age, 0, 50, 110) AS n FROM visits'"))
    assert plan(job)["overall"].groups == 2


def test_refusals_say_what_to_write() -> None:
    with pytest.raises(Refused, match="ask for other aggregates in a question of their own"):
        parse("SELECT HISTOGRAM(age, 0, 1), AVG(cost) FROM visits", "duckdb", BINNED)
