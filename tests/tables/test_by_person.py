"""Sub-queries by person: her own rows only, and no aggregate of them can fail."""

from __future__ import annotations

import duckdb
import pytest

from tacit.tables.errors import TableError
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


def test_by_person_values(data: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS n, AVG(age) AS a, MAX(code) AS c FROM visits GROUP BY id HAVING COUNT(*) < 5) t"
    found = relation(text)
    assert found.rows_per_person == 1 and found.names == ("id", "n", "a", "c")
    rows = data.execute(f"SELECT id, n, a, c FROM {found.expression().sql(dialect='duckdb')} ORDER BY id NULLS LAST").fetchall()
    assert rows == [(1, 2, 30.5, "b"), (2, 1, 40.0, "a"), (3, 1, None, "z"), (None, 1, 5.0, "a")]
    assert relation("SELECT COUNT(*) FROM (SELECT id, code, COUNT(*) AS n FROM visits GROUP BY id, code) t").rows_per_person is None


@pytest.mark.parametrize(
    ("aggregate", "wanted"),
    [
        ("COUNT(*)", [2, 1, 1]),
        ("COUNT(age)", [2, 1, 0]),
        ("COUNT(DISTINCT code)", [2, 1, 1]),
        ("SUM(age)", [61.0, 40.0, None]),
        ("AVG(age) + 1", [31.5, 41.0, None]),
        ("MIN(age)", [30, 40, None]),
        ("MAX(code)", ["b", "a", "z"]),
        ("CASE WHEN COUNT(*) > 1 THEN SUM(age) ELSE 0 END", [61.0, 0.0, 0.0]),
    ],
)
def test_aggregates_of_a_persons_rows(data: duckdb.DuckDBPyConnection, aggregate: str, wanted: list[object]) -> None:
    found = relation(f"SELECT COUNT(*) FROM (SELECT id, {aggregate} AS x FROM visits GROUP BY id) t")
    rows = data.execute(f"SELECT x FROM {found.expression().sql(dialect='duckdb')} WHERE id <= 3 ORDER BY id").fetchall()
    assert [row[0] for row in rows] == wanted


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("SELECT code, COUNT(*) AS n FROM visits GROUP BY code", "must GROUP BY the person"),
        ("SELECT id, age FROM visits GROUP BY id", "neither aggregated nor in the GROUP BY"),
        ("SELECT id, COUNT(*) FROM visits GROUP BY id", "a name"),
        ("SELECT id, MEDIAN(age) AS m FROM visits GROUP BY id", "not allowed in a sub-query by person"),
        ("SELECT id, SUM(code) AS s FROM visits GROUP BY id", "needs numbers"),
        ("SELECT id, COUNT(*) AS n FROM visits GROUP BY ROLLUP (id)", "ROLLUP"),
        ("SELECT id + 1 AS who, COUNT(*) AS n FROM visits GROUP BY id + 1", "must GROUP BY the person"),
        ("SELECT COUNT(*) AS n FROM visits", "aggregates over all people"),
        ("SELECT id, COUNT(*) AS n FROM visits GROUP BY 3", "place of a column"),
    ],
)
def test_what_is_nobodys_is_refused(inner: str, said: str) -> None:
    with pytest.raises(TableError, match=said):
        relation(f"SELECT COUNT(*) AS n FROM ({inner}) t")
