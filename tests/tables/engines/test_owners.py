"""Owners along foreign keys and pairs of ends are the same rows on DuckDB, PostgreSQL and Spark, to the integer."""

from __future__ import annotations

import random
import warnings
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from tests.tables.engines import servers

from tacit.accounting import Guarantee
from tacit.tables import Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import Engine
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import Spark
from tacit.tables.figures import integers
from tacit.tables.plan import Settings, make
from tacit.tables.relation import Catalog, Table
from tacit.tables.source import Source
from tacit.tables.sql import parse
from tacit.tables.statement import salt_marked
from tacit.tables.unit import links_of

LINKS = {"stay.person_id": "human.id", "drug.stay_id": "stay.id"}
NAMES = ["a", "ab", "b", "", ":", "1:", "ü", "é", "名", None]
#: name: question, unit.
CASES = {
    "two links": ("SELECT COUNT(*) AS n, SUM(price) AS s FROM drug", Unit.node("human.id", max_rows=3)),
    "along a key": (
        "SELECT s.ward AS ward, SUM(d.price) AS s FROM drug d JOIN stay s ON d.stay_id = s.id GROUP BY s.ward",
        Unit.node("human.id", max_groups=1, rows_per_group=2),
    ),
    "people": ("SELECT COUNT(DISTINCT human_id) AS n FROM drug", Unit.node("human.id", max_rows=3)),
    "edges": ("SELECT COUNT(*) AS n, COUNT(DISTINCT src_dst_) AS e FROM calls", Unit.edge("src", "dst", max_rows=2)),
    "arrows": ("SELECT COUNT(*) AS n FROM calls", Unit.edge("src", "dst", max_rows=1, directed=True)),
    "numbers": ("SELECT COUNT(*) AS n FROM wires", Unit.edge("one", "two", max_rows=1)),
    "nodes": ("SELECT COUNT(*) AS n FROM calls", Unit.node(ends=("src", "dst"), max_rows=60, capped=True)),
}


def tables() -> dict[str, pa.Table]:
    rng = random.Random(4)
    stays = [(i, rng.choice([0, 0, 0, *range(6), None]), rng.choice("xyz")) for i in range(40)]
    drugs = [(rng.randrange(45), rng.choice([1.0, 2.5, None, 1e308])) for _ in range(150)]
    return {
        "human": pa.table({"id": pa.array(range(6), pa.int64())}),
        "stay": pa.table(
            {
                "id": pa.array([s[0] for s in stays], pa.int64()),
                "person_id": pa.array([s[1] for s in stays], pa.int64()),
                "ward": [s[2] for s in stays],
            }
        ),
        "drug": pa.table({"stay_id": pa.array([d[0] for d in drugs], pa.int64()), "price": pa.array([d[1] for d in drugs], pa.float64())}),
        "calls": pa.table({end: pa.array([rng.choice(NAMES) for _ in range(120)], pa.string()) for end in ("src", "dst")}),
        "wires": pa.table({end: pa.array([rng.randrange(-3, 12) for _ in range(60)], pa.int64()) for end in ("one", "two")}),
    }


def sums(engine: Engine, case: str) -> list[Any]:
    text, unit = CASES[case]
    names = ["calls"] if "calls" in text else ["wires"] if "wires" in text else ["human", "stay", "drug"]
    source = Source.of(engine, name="clinic", table=names)
    catalog = Catalog({name: Table(source.columns(name)) for name in names}, unit, None, salt_marked(engine), links_of(LINKS))
    if "drug" not in names:
        catalog = Catalog(catalog.tables, unit, None, salt_marked(engine))
    settings = Settings(bounds={"price": (0, 10)}, keys={"ward": ["x", "y"]})
    plan = make(parse(text, engine.dialect, catalog), unit, engine, settings, Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
    return [row.tolist() for row in integers(engine.run(plan.statement(engine, 77)), plan).sums]


@pytest.fixture(scope="module")
def duck() -> DuckDB:
    engine = DuckDB(threads=1, portable=True)
    for name, table in tables().items():
        engine.register(name, table)
    return engine


def test_duckdb_counts_what_is_there(duck: DuckDB) -> None:
    """An oracle that shares no code: owners followed by hand, capped, counted."""
    found = {name: table.to_pylist() for name, table in tables().items()}
    owner = {stay["id"]: stay["person_id"] for stay in found["stay"]}
    each = [owner.get(drug["stay_id"]) for drug in found["drug"]]
    assert sums(duck, "two links")[0] == [sum(min(3, each.count(person)) for person in range(6))]
    pairs = [tuple(sorted((c["src"], c["dst"]))) for c in found["calls"] if c["src"] is not None and c["dst"] is not None]
    assert sums(duck, "edges")[:2] == [[sum(min(2, pairs.count(pair)) for pair in set(pairs))], [len(set(pairs))]]
    arrows = [(c["src"], c["dst"]) for c in found["calls"] if c["src"] is not None and c["dst"] is not None]
    assert sums(duck, "arrows")[0] == [len(set(arrows))]
    assert sums(duck, "nodes")[0] == [120]


def test_postgres_agrees_with_duckdb(duck: DuckDB) -> None:
    url = servers.postgres("owners")
    for name, table in tables().items():
        servers.load_postgres(url, name, table)
    engine = Postgres(url, portable=True)
    try:
        assert {case: sums(engine, case) for case in CASES} == {case: sums(duck, case) for case in CASES}
    finally:
        engine.close()


def test_spark_agrees_with_duckdb(duck: DuckDB) -> None:
    engine = Spark(servers.spark().session.newSession(), portable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, table in tables().items():
            engine.register(name, table)
        for case in ("along a key", "edges", "nodes"):
            assert sums(engine, case) == sums(duck, case), case
