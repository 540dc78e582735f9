"""FROM: sub-queries, CTEs and unions carry the person along, or are refused with the reason."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.relation import Catalog, Relation, Table
from tacit.tables.sql import parse
from tacit.tables.unit import Unit

TABLES = {
    "visits": Table({"id": "BIGINT", "age": "INTEGER", "code": "VARCHAR"}),
    "patients": Table({"pid": "BIGINT", "sex": "VARCHAR"}, person="pid"),
    "codes": Table({"code": "VARCHAR", "name": "VARCHAR"}, public=True),
}
CATALOG = Catalog(TABLES, Unit("id", max_rows=3))


@pytest.fixture(scope="module")
def data() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        "CREATE TABLE visits AS SELECT * FROM (VALUES (1, 30, 'a'), (1, 31, 'b'), (2, 40, 'a'), (3, NULL, 'z'), (NULL, 5, 'a')) "
        "v(id, age, code)"
    )
    connection.execute("CREATE TABLE patients AS SELECT * FROM (VALUES (1, 'f'), (2, 'm'), (9, 'f')) p(pid, sex)")
    connection.execute("CREATE TABLE codes AS SELECT * FROM (VALUES ('a', 'A'), ('a', 'AA'), ('b', 'B')) c(code, name)")
    connection.execute("INSERT INTO visits SELECT 7, i, 'a' FROM range(1000) r(i)")
    return connection


def relation(text: str, catalog: Catalog = CATALOG) -> Relation:
    found = parse(text, "duckdb", catalog).relation
    assert isinstance(found, Relation)
    return found


def test_names_with_quotes_stay_names() -> None:
    odd = 'v"; DROP TABLE visits; --'
    found = relation(
        f'SELECT COUNT(*) FROM "{odd.replace(chr(34), chr(34) * 2)}"', Catalog({odd: Table({"id": "BIGINT"})}, Unit("id", max_rows=1))
    )
    assert found.expression().sql(dialect="duckdb") == '"v""; DROP TABLE visits; --"'


def test_a_column_may_name_the_one_table_of_from_and_no_other() -> None:
    assert relation("SELECT COUNT(*) FROM visits v WHERE V.age > 3").names == ("id", "age", "code")
    with pytest.raises(TableError, match=r"^w is not a table of this FROM; there are v$"):
        relation("SELECT COUNT(*) FROM visits v WHERE w.age > 3")
    with pytest.raises(TableError, match=r"^w is not a table of this FROM; there are v, c$"):
        relation("SELECT COUNT(*) FROM visits v JOIN codes c ON v.code = c.code WHERE w.age > 3")


def test_a_unit_within_a_period_takes_no_sub_queries() -> None:
    """A renamed date would bring every period's rows into one."""
    tables = {"visits": Table({"id": "BIGINT", "day": "DATE"})}
    catalog = Catalog(tables, Unit("id", max_rows=3, window="month", when="day"))
    assert relation("SELECT COUNT(*) FROM visits", catalog).names == ("id", "day")
    with pytest.raises(Refused, match="period"):
        relation("SELECT COUNT(*) FROM (SELECT DATE '2026-01-01' AS day FROM visits) t", catalog)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT COUNT(*) FROM (SELECT DISTINCT age FROM visits) t", "DISTINCT"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits LIMIT 5) t", "LIMIT"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits OFFSET 5) t", "OFFSET"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION SELECT age FROM visits) t", "UNION ALL"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT name FROM codes) t", "public and a private"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT code FROM visits) t", "same type"),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT age, code FROM visits) t", "same number of columns"),
        ("SELECT COUNT(*) FROM (SELECT age + 1 FROM visits) t", "a name"),
        ("SELECT COUNT(*) FROM (SELECT ABS(age) FROM visits) t", "a name"),
        ("SELECT COUNT(*) FROM (SELECT age AS id FROM visits) t", "the person's column"),
        ("SELECT COUNT(*) FROM (SELECT age AS a, code AS a FROM visits) t", "called a"),
        ("WITH RECURSIVE t AS (SELECT age FROM visits) SELECT COUNT(*) FROM t", "recursive"),
        ("WITH t(a, b) AS (SELECT age FROM visits) SELECT COUNT(*) FROM t", "name every one"),
        ("WITH t(a) AS (SELECT * FROM visits) SELECT COUNT(*) FROM t", "name every one"),
        ("SELECT COUNT(*) FROM read_csv('x.csv')", "functions and files"),
        ("SELECT COUNT(*) FROM visits TABLESAMPLE (10 PERCENT)", "no sample"),
        ("SELECT COUNT(*) FROM nowhere", "there is no table nowhere"),
    ],
)
def test_what_mixes_people_is_refused(text: str, said: str) -> None:
    with pytest.raises(TableError, match=said):
        relation(text)


def test_sub_queries_may_not_be_nested_without_end() -> None:
    text = "visits"
    for _ in range(25):
        text = f"(SELECT age FROM {text}) t"
    with pytest.raises(TableError, match="nested"):
        relation(f"SELECT COUNT(*) FROM {text}")


def test_a_view_sees_those_before_it_and_none_after() -> None:
    both = "WITH a AS (SELECT age FROM visits), b AS (SELECT age FROM a) SELECT COUNT(*) FROM b"
    assert relation(both).names == ("age",) and relation(both).person == "id"
    with pytest.raises(TableError, match="there is no table b"):
        relation("WITH a AS (SELECT age FROM b), b AS (SELECT age FROM visits) SELECT COUNT(*) FROM a")


#: Rows of five people, with ties, NULLs and doubles; the last has many.
PEOPLE = [
    (1, 30, "a"),
    (1, 30, "a"),
    (1, None, "b"),
    (2, 30, "a"),
    (2, 31, None),
    (3, 5, "a"),
    (4, 30, "b"),
    *((5, n % 3, "a") for n in range(9)),
]
OWN = [
    "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY age, code) AS place FROM visits",
    "SELECT *, RANK() OVER (PARTITION BY code, id ORDER BY age DESC) AS place FROM visits WHERE age > 3",
    "SELECT age, DENSE_RANK() OVER (PARTITION BY id ORDER BY age + 1 NULLS FIRST) AS place FROM visits",
    "SELECT DISTINCT id, code FROM visits",
    "SELECT DISTINCT age, id AS who FROM visits",
    "SELECT id, age FROM visits UNION SELECT id, age + 1 AS age FROM visits",
    "SELECT id, COUNT_IF(age > 3) AS n, COUNT(*) FILTER (WHERE code = 'a') AS m, BOOL_OR(age > 29) AS old FROM visits GROUP BY id",
]
MIXING = [
    "SELECT id, age, ROW_NUMBER() OVER (ORDER BY age, id) AS place FROM visits",
    "SELECT MIN(id) AS id, age FROM visits GROUP BY age",
]


@cache
def everybody_but(gone: int | None) -> duckdb.DuckDBPyConnection:
    """The table without one person's rows."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE visits (id BIGINT, age INTEGER, code VARCHAR)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", [row for row in PEOPLE if row[0] != gone])
    return connection


def others(query: str, gone: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Everybody else's rows of a query, with and without one person's rows in the table."""
    found = []
    for connection in (everybody_but(None), everybody_but(gone)):
        table = connection.execute(query)
        place = [column[0] for column in table.description].index("id")
        found.append(sorted((row for row in table.fetchall() if row[place] != gone), key=repr))
    return found[0], found[1]


@pytest.mark.parametrize("text", OWN)
def test_nobody_s_rows_change_anybody_else_s(text: str) -> None:
    found = relation(f"SELECT COUNT(*) FROM ({text}) AS t")
    query = exp.Select(expressions=[exp.Star()]).from_(found.expression()).sql(dialect="duckdb")
    for gone in range(1, 6):
        left, right = others(query, gone)
        assert left == right and left


@pytest.mark.parametrize("text", MIXING)
def test_rows_that_mix_people_are_seen_to(text: str) -> None:
    """The mutants: what is refused would have changed other people's rows."""
    assert any(left != right for left, right in (others(text, gone) for gone in range(1, 6)))
    with pytest.raises(TableError):
        relation(f"SELECT COUNT(*) FROM ({text}) AS t")
