"""The Python builder: every method gives the same question as the SQL it stands for."""

from __future__ import annotations

import pytest

from tacit.tables.builder import Query
from tacit.tables.errors import TableError
from tacit.tables.relation import Catalog, Table
from tacit.tables.sql import parse
from tacit.tables.unit import Unit

CATALOG = Catalog(
    {
        "visits": Table({"id": "BIGINT", "age": "INTEGER", "region": "VARCHAR", "cost": "DOUBLE", "day": "DATE", "code": "VARCHAR"}),
        "codes": Table({"code": "VARCHAR", "name": "VARCHAR"}, public=True),
    },
    Unit("id", max_rows=3),
)
VISITS = Query.of("visits", CATALOG)


@pytest.mark.parametrize(
    ("query", "sql"),
    [
        (VISITS.count(), "SELECT COUNT(*) FROM visits"),
        (VISITS.count("n", of="age"), "SELECT COUNT(age) AS n FROM visits"),
        (
            VISITS.where("age > 3").where("region = 'N' OR age < 9").sum("cost", "s"),
            "SELECT SUM(cost) AS s FROM visits WHERE age > 3 AND (region = 'N' OR age < 9)",
        ),
        (VISITS.group_by("region").mean("age * 2", "a"), "SELECT region, AVG(age * 2) AS a FROM visits GROUP BY region"),
        (VISITS.group_by(y="YEAR(day)").count("n"), "SELECT YEAR(day) AS y, COUNT(*) AS n FROM visits GROUP BY y"),
        (
            VISITS.count_distinct("id", "p").median("age").min("age").max("age"),
            "SELECT COUNT(DISTINCT id) AS p, MEDIAN(age), MIN(age), MAX(age) FROM visits",
        ),
        (VISITS.variance("age").stddev("age", sample=False), "SELECT VARIANCE(age), STDDEV_POP(age) FROM visits"),
        (VISITS.quantile("age", 0.9, "q"), "SELECT QUANTILE_CONT(age, 0.9) AS q FROM visits"),
        (VISITS.covariance("age", "cost").correlation("age", "cost"), "SELECT COVAR_SAMP(age, cost), CORR(age, cost) FROM visits"),
        (
            VISITS.group_by("region").agg("SUM(cost) / COUNT(*)", "each").having("COUNT(*) > 5").order_by("each", descending=True).limit(3),
            "SELECT region, SUM(cost) / COUNT(*) AS each FROM visits GROUP BY region HAVING COUNT(*) > 5 ORDER BY each DESC LIMIT 3",
        ),
        (
            VISITS.join("codes", using="code").group_by("name").count("n"),
            "SELECT name, COUNT(*) AS n FROM visits JOIN codes USING (code) GROUP BY name",
        ),
        (
            Query.of("visits AS v", CATALOG).join("codes AS c", "v.code = c.code", how="left").group_by("c.name").count("n"),
            "SELECT c.name, COUNT(*) AS n FROM visits v LEFT JOIN codes c ON v.code = c.code GROUP BY c.name",
        ),
        (
            VISITS.where("age > 3").select("region", older="age + 1").mean("older"),
            "SELECT AVG(older) FROM (SELECT region, age + 1 AS older FROM visits WHERE age > 3) AS rows",
        ),
        (VISITS.per_person(n="COUNT(*)").mean("n"), "SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) AS people"),
        (
            VISITS.select("age").union(VISITS.select("age")).count(),
            "SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT age FROM visits) AS both_",
        ),
    ],
    ids=[str(i) for i in range(15)],
)
def test_same_as_sql(query: Query, sql: str) -> None:
    assert query.question == parse(sql, "duckdb", CATALOG)


@pytest.mark.parametrize(
    "text",
    [
        "age; DROP TABLE visits",
        "age, cost",
        "age FROM codes",
        "age AS a",
        "1 UNION SELECT 2",
        "age) FROM visits --",
        "",
        "((",
        "age GROUP BY 1",
        "SELECT 1",
    ],
)
def test_nothing_can_be_smuggled_into_an_expression(text: str) -> None:
    for make in (VISITS.where, VISITS.sum, VISITS.agg, VISITS.having):
        with pytest.raises(TableError):
            make(text).count("n").question  # noqa: B018


@pytest.mark.parametrize(
    "name", ["visits; DROP TABLE visits", "visits, codes", "(SELECT 1)", "visits WHERE 1=1", "nowhere", "", "read_csv('x')"]
)
def test_nothing_can_be_smuggled_into_a_table(name: str) -> None:
    with pytest.raises(TableError):
        Query.of(name, CATALOG).count().question  # noqa: B018


def test_names_are_quoted() -> None:
    found = VISITS.count('n" FROM codes --').question
    assert found.aggregates[0].name == 'n" FROM codes --'
    assert '"n"" FROM codes --"' in VISITS.count('n" FROM codes --').tree.sql()


def test_order_of_calls_and_asking() -> None:
    with pytest.raises(TableError, match="rows first"):
        VISITS.count().select("age")
    with pytest.raises(TableError, match="no session"):
        VISITS.count().ask(epsilon=1)
    asked = Query.of("visits", CATALOG, asker=lambda question, epsilon: (question.aggregates[0].kind, epsilon)).count().ask(epsilon=1)
    assert asked == ("count", 1)
    with pytest.raises(TableError, match="inner"):
        VISITS.join("codes", using="code", how="full")


def test_nulls_stand_where_the_dialect_has_them() -> None:
    for dialect, first in (("duckdb", False), ("spark", True)):
        query = Query.of("visits", CATALOG, dialect).group_by("region").count("n").order_by("region")
        text = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY region"
        assert query.question == parse(text, dialect, CATALOG) and query.question.order[0].nulls_first is first


def test_a_name_is_text() -> None:
    for wrong in (3, ""):
        with pytest.raises(TableError, match="the name of a figure must be text"):
            VISITS.count(wrong)  # type: ignore[arg-type]
