"""Joins: one person's rows meet only her own, and public tables multiply no more than is known."""

from __future__ import annotations

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


def test_multiplicity_of_public_joins_is_declared_or_counted(data: duckdb.DuckDBPyConnection) -> None:
    def count(statement: exp.Select) -> int:
        return int(data.execute(statement.sql(dialect="duckdb")).fetchall()[0][0])

    text = "SELECT COUNT(*) FROM visits JOIN codes USING (code)"
    assert relation(text, Catalog(TABLES, Unit.row(), count)).multiplicity == 2
    declared = {**TABLES, "codes": Table({"code": "VARCHAR", "name": "VARCHAR"}, public=True, at_most={("code",): 5})}
    assert relation(text, Catalog(declared, Unit.row())).multiplicity == 5
    with pytest.raises(Refused, match="at_most"):
        relation(text, Catalog(TABLES, Unit.row()))
    assert (
        relation(
            "SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT age FROM visits) t", Catalog(TABLES, Unit.row())
        ).multiplicity
        == 2
    )


def test_a_capped_unit_multiplies_its_caps_in_a_join() -> None:
    catalog = Catalog(TABLES, Unit("id", max_rows=4, capped=True))
    assert relation("SELECT COUNT(*) FROM visits v JOIN patients p ON v.id = p.pid", catalog).multiplicity == 4


def test_private_joins_need_a_person() -> None:
    with pytest.raises(Refused, match="only on a person"):
        relation("SELECT COUNT(*) FROM visits v JOIN patients p ON v.id = p.pid", Catalog(TABLES, Unit.row()))
    with pytest.raises(Refused, match="both private"):
        relation("SELECT COUNT(*) FROM visits v JOIN patients p ON v.age = p.pid")
    # A copy of the person under another name is still the person; a computed one is not.
    assert relation("SELECT COUNT(*) FROM (SELECT id AS who, age FROM visits) v JOIN patients p ON v.who = p.pid").person == "id"
    with pytest.raises(Refused, match="both private"):
        relation("SELECT COUNT(*) FROM (SELECT id + 0 AS who FROM visits) v JOIN patients p ON v.who = p.pid")


def test_names() -> None:
    with pytest.raises(TableError, match="several tables"):
        relation("SELECT MIN(code) FROM visits v JOIN codes c ON v.code = c.code")
    with pytest.raises(TableError, match="called v"):
        relation("SELECT COUNT(*) FROM visits v JOIN codes v ON v.code = v.code")
    with pytest.raises(TableError, match="no column who"):
        Catalog({"visits": Table({"age": "INTEGER"}, person="who")}, Unit("id", max_rows=1))
        relation("SELECT COUNT(*) FROM visits", Catalog({"visits": Table({"age": "INTEGER"}, person="who")}, Unit("id", max_rows=1)))


def test_left_joins_keep_the_rows_of_the_first_side(data: duckdb.DuckDBPyConnection) -> None:
    found = relation("SELECT COUNT(*) FROM visits v LEFT JOIN patients p ON v.id = p.pid AND p.sex = 'f'")
    rows = data.execute(
        f"SELECT id, COUNT(pid), COUNT(*) FROM {found.expression().sql(dialect='duckdb')} GROUP BY ALL ORDER BY 1"
    ).fetchall()
    # Both sides are capped at three before they meet, so the person with a thousand visits keeps three.
    assert [row for row in rows if row[0] is not None] == [(1, 2, 2), (2, 0, 1), (3, 0, 1), (7, 0, 3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT COUNT(*) FROM visits CROSS JOIN codes", "needs ON or USING"),
        ("SELECT COUNT(*) FROM visits v JOIN codes c ON v.code < c.code", "an equality"),
        ("SELECT COUNT(*) FROM visits v FULL JOIN codes c ON v.code = c.code", "INNER JOIN and LEFT JOIN"),
        ("SELECT COUNT(*) FROM codes c LEFT JOIN visits v ON v.code = c.code", "rows without an owner"),
        ("SELECT COUNT(*) FROM visits v JOIN codes c ON x.code = c.code", "not a table of this FROM"),
        ("SELECT COUNT(*) FROM visits v JOIN codes c ON v.nothing = c.code", "no column nothing"),
    ],
)
def test_joins_without_a_bound_are_refused(text: str, said: str) -> None:
    with pytest.raises(TableError, match=said):
        relation(text)
