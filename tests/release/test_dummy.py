"""Made-up data: the same for the same edition, awkward where real data are, and true to a schema."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.release.jobs import changed
from tests.release.test_units import CALLS, CLINIC

from tacit.release.dummy import DIAGNOSES, REGIONS, SCHEMA, dummy, tables_for, visits, write_visits
from tacit.release.job import parse
from tacit.release.sources import opened
from tacit.tables.errors import TableError
from tacit.tables.relation import Column, Schema

TABLE = visits(60_000)


def column(name: str) -> np.ndarray:
    return TABLE[name].to_numpy()


def test_visits_are_awkward() -> None:
    many = np.unique(column("patient_id"), return_counts=True)[1]
    assert np.median(many) <= 3 < 40 < many.max(), "a few patients come very often"
    cost = TABLE["cost"].drop_null().to_numpy()
    assert np.isnan(cost).sum() > 50 and TABLE["cost"].null_count > 200
    real = cost[~np.isnan(cost)]
    assert real.mean() > 1.4 * np.median(real) and (real > 5000).any(), "costs are skewed and leave their declared bounds"
    found = {row["values"]: row["counts"] for row in pc.value_counts(TABLE["diagnosis"]).to_pylist()}
    assert set(found) == {*DIAGNOSES, None}
    assert 0 < found["rare metabolic"] < 100 < 10_000 < found["injury"]
    assert min(found, key=lambda name: found[name]) == "rare metabolic"
    ages = TABLE["age"].drop_null().to_numpy()
    assert ages.min() == 0 and 90 < ages.max() <= 110
    assert set(TABLE["region"].drop_null().to_pylist()) == set(REGIONS)


def test_the_declared_schema_is_that_of_the_table() -> None:
    assert list(SCHEMA.columns) == TABLE.column_names
    types = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(), "DATE": pa.date32()}
    for name, declared in SCHEMA.columns.items():
        assert TABLE.schema.field(name).type == types[declared.type or ""]
        assert declared.nullable or TABLE[name].null_count == 0


def test_a_patient_keeps_region_and_age() -> None:
    known = TABLE.filter(pc.is_valid(TABLE["region"]))
    both = known.group_by("patient_id").aggregate([("region", "count_distinct")])
    assert set(both["region_count_distinct"].to_pylist()) == {1}
    ids = TABLE["patient_id"].to_numpy()
    assert len(np.unique(ids)) > 60_000 // 8, "identifiers do not collide"


def test_the_edition_decides(tmp_path: Path) -> None:
    # text of the table, because NaN differs from itself
    assert str(visits(500).to_pydict()) == str(visits(500).to_pydict()) != str(visits(500, edition=1).to_pydict())
    written = pq.read_table(write_visits(tmp_path / "visits.parquet", 500))
    assert str(written.to_pydict()) == str(visits(500).to_pydict())


def test_a_million_rows_take_seconds() -> None:
    began = time.process_time()
    assert visits(1_000_000).num_rows == 1_000_000
    assert time.process_time() - began < 10


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_few_rows(rows: int) -> None:
    assert visits(rows).num_rows == dummy(SCHEMA, rows, person="patient_id").num_rows == rows


@pytest.mark.parametrize("rows", [-1, 1.5, True, 10**10])
def test_a_silly_number_of_rows_is_refused(rows: object) -> None:
    for made in (visits, lambda n: dummy(SCHEMA, n)):
        with pytest.raises(TableError, match="rows must be a whole number"):
            made(rows)  # type: ignore[arg-type]


def test_dummy_stays_within_what_is_declared() -> None:
    table = dummy(SCHEMA, 4000, person="patient_id")
    assert table.schema.types == TABLE.schema.types
    for name, declared in SCHEMA.columns.items():
        values = table[name].drop_null().to_pylist()
        assert declared.nullable == (len(values) < 4000), name
        if declared.categories is not None:
            assert set(values) == set(declared.categories)
        if declared.bounds is not None:
            assert declared.bounds[0] <= min(values) < max(values) <= declared.bounds[1]
    counts = np.unique(table["patient_id"].to_numpy(), return_counts=True)[1]
    assert 3 < counts.mean() < 5


@given(
    low=st.floats(-1e6, 1e6),
    width=st.just(0.0) | st.floats(1e-250, 1e6),  # closer bounds are refused: see `Interval`
    kind=st.sampled_from([None, "BIGINT", "DOUBLE", "DECIMAL(10,2)", "integer"]),
    rows=st.integers(0, 50),
)
def test_bounds_hold(low: float, width: float, kind: str | None, rows: int) -> None:
    values = dummy(Schema({"x": Column(kind, bounds=(low, low + width), nullable=False)}), rows)["x"].to_pylist()
    assert len(values) == rows
    slack = 1 if kind in ("BIGINT", "integer") else 1e-6  # a whole number between 0.2 and 0.3 does not exist
    assert all(low - slack <= value <= low + width + slack for value in values)


@pytest.mark.parametrize("kind", ["BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "VARCHAR(20)", "UUID", "REAL", None])
def test_every_type_has_values(kind: str | None) -> None:
    table = dummy(Schema({"x": Column(kind)}), 200)
    assert 0 < table["x"].null_count < 40 and len(set(table["x"].to_pylist())) > 1


def test_unknown_types_and_people_are_refused() -> None:
    with pytest.raises(TableError, match="columns\\['x'\\] has the type 'GEOMETRY'"):
        dummy(Schema({"x": Column("GEOMETRY")}), 1)
    with pytest.raises(TableError, match="person must name a column of the schema, not 'y'"):
        dummy(Schema({"x": Column("BIGINT")}), 1, person="y")


# --- tables for a job --------------------------------------------------------------------------------------------------------------------


def test_foreign_keys_lead_somewhere() -> None:
    tables = tables_for(parse(CLINIC), 400)
    assert {name: table.num_rows for name, table in tables.items()} == {"person": 100, "visit": 100, "drug": 400}
    people, visits = tables["person"]["id"].to_pylist(), tables["visit"]["id"].to_pylist()
    assert len(set(people)) == 100 and len(set(visits)) == 100, "keys are keys"
    assert set(tables["visit"]["person_id"].to_pylist()) <= set(people) and set(tables["drug"]["visit_id"].to_pylist()) <= set(visits)
    assert max(Counter(tables["drug"]["visit_id"].to_pylist()).values()) > 8, "some have many rows"
    assert tables == tables_for(parse(CLINIC), 400) and tables != tables_for(parse(CLINIC), 400, edition=8)


@pytest.mark.parametrize("kind", ["text", "integer"])
def test_edges_meet(kind: str) -> None:
    table = tables_for(parse(CALLS.replace("{type: text}", f"{{type: {kind}}}")), 2000)["calls"]
    pairs = list(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))
    assert all(a != b for a, b in pairs) and {a for a, _ in pairs} & {b for _, b in pairs}
    assert any((b, a) in set(pairs) for a, b in pairs), "calls are returned"
    assert len(set(map(frozenset, pairs))) < len(pairs) < 3 * len(set(map(frozenset, pairs))), "and repeated"


@given(rows=st.integers(1, 60), most=st.integers(1, 5))
def test_what_is_declared_to_be_capped_is(rows: int, most: int) -> None:
    unit = "{edge: [src, dst], max_rows: 2, adjacency: add-remove}"
    node = tables_for(parse(CALLS.replace(unit, f"{{node: [src, dst], max_rows: {most}, capped: true, adjacency: add-remove}}")), rows)[
        "calls"
    ]
    degree = Counter([*node["src"].to_pylist(), *node["dst"].to_pylist()])
    assert node.num_rows and max(degree.values()) <= most
    person = changed(("max_rows: 3,", f"max_rows: {most}, rows_per_group: 1, capped: true,"))
    assert max(Counter(tables_for(person, rows)["visits"]["patient_id"].to_pylist()).values()) == 1


def test_dates_lie_about_the_period() -> None:
    job = changed(
        ("max_rows: 3, adjacency", "max_rows: 3, window: month, when: day, adjacency"),
        ("columns:", "period: 2026-02\ncolumns:\n  day: {type: timestamp}\n  paid: {type: decimal, bounds: [0, 9]}"),
    )
    table = tables_for(job, 1000)["visits"]
    inside = [day.month == 2 and day.year == 2026 for day in table["day"].to_pylist()]
    assert 900 < sum(inside) < 1000
    assert pa.types.is_decimal(table.schema.field("paid").type)
    assert opened(job, Path(), {"visits": table}).engine.dialect == "duckdb", "the types are those that the job declares"


@pytest.mark.parametrize("kind", ["text", "integer", "number", "decimal", "date"])
def test_a_few_people_have_many_rows(kind: str) -> None:
    """So that a rehearsal shows what a cap cuts off: of four rows a person on average, one in two hundred has more than twelve."""
    job = changed(("patient_id: {type: text}", f"patient_id: {{type: {kind}}}"))
    table = tables_for(job, 20_000)["visits"]
    many = sorted(Counter(table["patient_id"].to_pylist()).values())
    assert many[len(many) // 2] <= 4 and many[-len(many) // 200] > 12 < many[-1]
    assert opened(job, Path(), {"visits": table}).engine.dialect == "duckdb"
