"""Relations: whatever is done to rows, each still belongs to one person, and no more of them than stated come from one row."""

from __future__ import annotations

import duckdb
import pytest

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
