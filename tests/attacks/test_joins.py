"""Joins that multiply rows (the failures that elastic sensitivity was blamed for): one person's rows stay within the caps whatever the
data are.

Neighbours differ by one person with any number of rows in any table. What reaches the sums after the caps is measured on both and
compared with what the unit declares. The mutant, a self-join on something else than the person, is run too: it breaks every cap, and the
language refuses it.
"""

from __future__ import annotations

import random

import duckdb
import pytest

from tacit.tables.errors import Refused
from tacit.tables.relation import Catalog, Relation, Table
from tacit.tables.sql import parse
from tacit.tables.unit import Unit

CAP = 3
CATALOG = Catalog(
    {
        "visits": Table({"id": "BIGINT", "k": "INTEGER"}),
        "other": Table({"id": "BIGINT", "k": "INTEGER"}),
        "codes": Table({"k": "INTEGER", "name": "VARCHAR"}, public=True),
    },
    Unit("id", max_rows=CAP),
)
QUESTIONS = [
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.id = b.id",
    "SELECT COUNT(*) FROM visits a JOIN other b ON a.id = b.id AND a.k <= b.k",
    "SELECT COUNT(*) FROM visits a LEFT JOIN other b USING (id)",
    "SELECT COUNT(*) FROM visits JOIN codes USING (k)",
    "SELECT COUNT(*) FROM (SELECT k FROM visits UNION ALL SELECT k FROM other) t JOIN codes USING (k)",
    "SELECT COUNT(*) FROM (SELECT id, MAX(k) AS k FROM visits GROUP BY id) a JOIN other b ON a.id = b.id",
    "WITH w AS (SELECT id AS who, k FROM visits WHERE k > 0) SELECT COUNT(*) FROM w JOIN other o ON w.who = o.id JOIN codes c ON c.k = o.k",
]


def database(people: dict[int, tuple[list[int], list[int]]]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE visits (id BIGINT, k INTEGER); CREATE TABLE other (id BIGINT, k INTEGER)")
    connection.execute("CREATE TABLE codes AS SELECT i % 3 AS k, 'x' AS name FROM range(9) r(i)")
    for who, both in people.items():
        for table, values in zip(("visits", "other"), both, strict=True):
            if values:
                connection.execute(f"INSERT INTO {table} SELECT {who}, UNNEST({values})")
    return connection


def capped(connection: duckdb.DuckDBPyConnection, source: str) -> dict[int, int]:
    """Rows of each person after the cap, as the statement applies it to the question's rows."""
    rows = connection.execute(f'SELECT "id", LEAST(COUNT(*), {CAP}) FROM {source} WHERE "id" IS NOT NULL GROUP BY 1').fetchall()
    return {int(who): int(count) for who, count in rows}


@pytest.mark.parametrize("text", QUESTIONS, ids=[str(i) for i in range(len(QUESTIONS))])
def test_one_person_moves_no_more_than_the_cap_and_nobody_else(text: str) -> None:
    relation = parse(text, "duckdb", CATALOG).relation
    assert isinstance(relation, Relation)
    source = relation.expression().sql(dialect="duckdb")
    rng = random.Random(3)
    for size in (1, 5, 300):
        people = {who: tuple([rng.randrange(4) for _ in range(rng.randrange(5))] for _ in range(2)) for who in range(6)}
        heavy = {**people, 99: ([rng.randrange(4) for _ in range(size)], [rng.randrange(4) for _ in range(size)])}
        without, including = capped(database(people), source), capped(database(heavy), source)  # type: ignore[arg-type]
        assert {who: n for who, n in including.items() if who != 99} == without
        assert including.get(99, 0) <= CAP


def test_the_mutant_breaks_the_cap_and_is_refused() -> None:
    """A join on k: one person's rows change how many rows everybody else has."""
    mutant = '(SELECT a."id" FROM visits a JOIN visits b ON a.k = b.k) t'
    people = {who: ([1, 2], []) for who in range(6)}
    heavy = {**people, 99: ([1] * 50, [])}
    without, including = (
        capped(database({w: ([], []) for w in people} | {0: ([1], [])}), mutant),
        capped(database({0: ([1], []), 99: heavy[99]}), mutant),
    )
    assert {who: n for who, n in including.items() if who != 99} != without
    for on in ("a.k = b.k", "a.id = b.k", "a.id <> b.id AND a.k = b.k", "a.id + 0 = b.id + 0", "a.id = b.id OR a.k = b.k"):
        with pytest.raises(Refused):
            parse(f"SELECT COUNT(*) FROM visits a JOIN visits b ON {on}", "duckdb", CATALOG)
