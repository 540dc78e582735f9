"""Relations: whatever is done to rows, each still belongs to one person, and no more of them than stated come from one row."""

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


def people(data: duckdb.DuckDBPyConnection, text: str) -> list[tuple[int | None, int]]:
    """Rows of each person."""
    source = relation(text).expression().sql(dialect="duckdb")
    return data.execute(f'SELECT "id", COUNT(*) FROM {source} WHERE "id" IS NOT NULL GROUP BY ALL ORDER BY 1').fetchall()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT COUNT(*) FROM visits", [(1, 2), (2, 1), (3, 1), (7, 1000)]),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits WHERE age >= 31) t", [(1, 1), (2, 1), (7, 969)]),
        ("SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) t", [(1, 1), (2, 1), (3, 1), (7, 1)]),
        ("SELECT COUNT(*) FROM visits JOIN codes USING (code)", [(1, 3), (2, 2), (7, 2000)]),
        ("SELECT COUNT(*) FROM visits LEFT JOIN codes USING (code)", [(1, 3), (2, 2), (3, 1), (7, 2000)]),
        ("SELECT COUNT(*) FROM codes JOIN visits USING (code)", [(1, 3), (2, 2), (7, 2000)]),
        ("SELECT COUNT(*) FROM visits v JOIN patients p ON v.id = p.pid", [(1, 2), (2, 1)]),
        ("SELECT COUNT(*) FROM patients", [(1, 1), (2, 1), (9, 1)]),
        ("SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT age + 1 AS b FROM visits) t", [(1, 4), (2, 2), (3, 2), (7, 2000)]),
        (
            "WITH a AS (SELECT * FROM visits), b AS (SELECT age, code FROM a) SELECT COUNT(*) FROM b JOIN codes ON b.code = codes.code",
            [(1, 3), (2, 2), (7, 2000)],
        ),
        # A million rows must not become a million times as many: each side is capped at 3 first.
        ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.id = b.id", [(1, 4), (2, 1), (3, 1), (7, 9)]),
    ],
)
def test_rows_and_their_people(data: duckdb.DuckDBPyConnection, text: str, wanted: list[tuple[int, int]]) -> None:
    assert people(data, text) == wanted


def test_by_person_values(data: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS n, AVG(age) AS a, MAX(code) AS c FROM visits GROUP BY id HAVING COUNT(*) < 5) t"
    found = relation(text)
    assert found.rows_per_person == 1 and found.names == ("id", "n", "a", "c")
    rows = data.execute(f"SELECT id, n, a, c FROM {found.expression().sql(dialect='duckdb')} ORDER BY id NULLS LAST").fetchall()
    assert rows == [(1, 2, 30.5, "b"), (2, 1, 40.0, "a"), (3, 1, None, "z"), (None, 1, 5.0, "a")]
    assert relation("SELECT COUNT(*) FROM (SELECT id, code, COUNT(*) AS n FROM visits GROUP BY id, code) t").rows_per_person is None


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


def test_names_with_quotes_stay_names() -> None:
    odd = 'v"; DROP TABLE visits; --'
    found = relation(
        f'SELECT COUNT(*) FROM "{odd.replace(chr(34), chr(34) * 2)}"', Catalog({odd: Table({"id": "BIGINT"})}, Unit("id", max_rows=1))
    )
    assert found.expression().sql(dialect="duckdb") == '"v""; DROP TABLE visits; --"'


def test_a_unit_within_a_period_takes_no_sub_queries() -> None:
    """A renamed date would bring every period's rows into one."""
    tables = {"visits": Table({"id": "BIGINT", "day": "DATE"})}
    catalog = Catalog(tables, Unit("id", max_rows=3, window="month", when="day"))
    assert relation("SELECT COUNT(*) FROM visits", catalog).names == ("id", "day")
    with pytest.raises(Refused, match="period"):
        relation("SELECT COUNT(*) FROM (SELECT DATE '2026-01-01' AS day FROM visits) t", catalog)
