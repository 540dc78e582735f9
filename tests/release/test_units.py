"""Jobs whose unit is a node or an edge: read, checked, planned, run and told in words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.release.jobs import book

from tacit.noise import test_mode
from tacit.release.errors import JobError
from tacit.release.job import parse
from tacit.release.planning import plan
from tacit.release.record import registry_record
from tacit.release.running import run
from tacit.tables import Unit

CLINIC = """
version: 1
title: Drugs by ward
purpose: Plan the pharmacy.
sources:
  person: {path: person.parquet}
  visit: {path: visit.parquet}
  drug: {path: drug.parquet}
unit: {node: person.id, max_rows: 4, adjacency: add-remove}
budget: {epsilon: 2, delta: 1e-6}
columns:
  person.id: {type: integer}
  visit.id: {type: integer}
  visit.person_id: {type: integer, references: person.id}
  ward: {type: text, table: visit, categories: [x, y]}
  visit_id: {type: integer, table: drug, references: visit.id}
  drug.price: {type: number, bounds: [0, 10]}
outputs:
  - name: by_ward
    sql: SELECT v.ward AS ward, COUNT(*) AS drugs, AVG(d.price) AS price FROM drug d JOIN visit v ON d.visit_id = v.id GROUP BY v.ward
    weight: 1
  - {name: people, sql: SELECT COUNT(DISTINCT person_id) AS people FROM drug, weight: 1}
publication: {folder: out, formats: [csv], confidence: 0.95}
"""
CALLS = """
version: 1
title: Calls
purpose: Plan lines.
sources: {calls: {path: calls.parquet}}
unit: {edge: [src, dst], max_rows: 2, adjacency: add-remove}
budget: {epsilon: 1, delta: 0}
columns:
  src: {type: text}
  dst: {type: text}
outputs:
  - {name: total, sql: SELECT COUNT(*) AS calls FROM calls, weight: 1}
publication: {folder: out, formats: [csv], confidence: 0.95}
"""


def clinic() -> dict[str, pa.Table]:
    return {
        "person": pa.table({"id": list(range(50))}),
        "visit": pa.table({"id": list(range(100)), "person_id": [i // 2 for i in range(100)], "ward": ["x", "y"] * 50}),
        "drug": pa.table({"visit_id": [i % 100 for i in range(300)], "price": [float(i % 12) for i in range(300)]}),
    }


def test_a_job_about_people_in_three_tables(tmp_path: Path) -> None:
    job = parse(CLINIC)
    assert job.unit.typed() == Unit.node("person.id", max_rows=4)
    assert [str(link) for link in job.schema_().links] == ["visit.person_id -> person.id", "drug.visit_id -> visit.id"]
    assert sorted(job.columns_of("visit")) == ["id", "person_id", "ward"] and sorted(job.columns_of("person")) == ["id"]
    with test_mode(5):
        done = run(job, base=tmp_path, ledger=book(tmp_path), tables=clinic(), report=True)
    # Four of each person's six drugs are counted: 200 in all.
    assert abs(float(done.answers["by_ward"]["drugs"].sum()) - 200) < 60
    assert abs(float(done.answers["people"]["people"][0]) - 50) < 30
    assert done.unit_text.startswith("Each person (person_id)")
    assert registry_record(done.plan, date="2026-01-01", private=True)["privacy_loss"]["privacy_unit"] == "person"
    assert "person" in (done.folder / "report.html").read_text()


def test_each_table_of_a_job_is_known_to_the_book(tmp_path: Path) -> None:
    """Another job about one of the tables alone meets the account of all of them."""
    ledger = book(tmp_path)
    run(parse(CLINIC), base=tmp_path, ledger=ledger, tables=clinic(), report=False)
    single = CLINIC.replace("title: Drugs by ward", "title: Visits").replace("folder: out", "folder: more")
    single = single.replace("  person: {path: person.parquet}\n", "").replace("  drug: {path: drug.parquet}\n", "")
    start, end = single.index("  person.id"), single.index("publication:")
    output = "outputs:\n  - {name: all, sql: SELECT COUNT(*) AS n FROM visit, weight: 1}\n"
    single = f"{single[:start]}  person_id: {{type: integer}}\n{output}{single[end:]}"
    single = single.replace("node: person.id", "person: person_id")
    with pytest.raises(ValueError, match=r"unit|refuses"):
        run(parse(single), base=tmp_path, ledger=ledger, tables={"visit": clinic()["visit"]}, report=False)


@pytest.mark.parametrize(
    ("unit", "wanted", "word"),
    [
        ("{edge: [src, dst], max_rows: 2, adjacency: add-remove}", Unit.edge("src", "dst", max_rows=2), "edge"),
        (
            "{edge: [src, dst], max_rows: 2, directed: true, adjacency: add-remove}",
            Unit.edge("src", "dst", max_rows=2, directed=True),
            "edge",
        ),
        (
            "{node: [src, dst], max_rows: 9, capped: true, adjacency: add-remove}",
            Unit.node(ends=("src", "dst"), max_rows=9, capped=True),
            "node",
        ),
    ],
    ids=["edge", "directed", "node"],
)
def test_a_job_about_edges(tmp_path: Path, unit: str, wanted: Unit, word: str) -> None:
    job = parse(CALLS.replace("{edge: [src, dst], max_rows: 2, adjacency: add-remove}", unit))
    assert job.unit.typed() == wanted
    rows = pa.table({"src": ["a", "b"] * 40, "dst": ["b", "a"] * 40})
    with test_mode(3):
        done = run(job, base=tmp_path, ledger=book(tmp_path), tables={"calls": rows}, report=True)
    counted = {"node": 80, "edge": 4 if wanted.directed else 2}[word]
    assert abs(float(done.answers["total"]["calls"][0]) - counted) < 80
    assert done.unit_text.startswith(f"Each {word}") and f"each {word}" in (done.folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{node: person.id, max_rows: 4", "{node: person.id, person: id, max_rows: 4", "a unit is one of"),
        ("{node: person.id, max_rows: 4", "{node: person.code, max_rows: 4", "is not in columns"),
        ("{node: person.id, max_rows: 4", "{node: person.id", "a cap is needed"),
        ("{node: person.id, max_rows: 4", "{node: person.id, directed: true, max_rows: 4", "directed belongs"),
        ("{node: person.id, max_rows: 4", "{node: [visit_id, price], max_rows: 4", "no cap on the edges of a node can be enforced"),
        ("references: visit.id", "references: visit.number", "columns.visit_id.references"),
        ("ward: {type: text, table: visit,", "ward: {type: text,", "columns.ward needs table"),
        ("person.id: {type", "patient.id: {type", "names no source"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(old: str, new: str, said: str) -> None:
    with pytest.raises(JobError, match=said):
        parse(CLINIC.replace(old, new))


def test_an_undeclared_key_is_refused_with_what_to_declare() -> None:
    with pytest.raises(JobError, match=r"no declared foreign key leads from drug to person\.id"):
        plan(parse(CLINIC.replace(", references: visit.id", "")))
