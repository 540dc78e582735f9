"""`kind: synthesis` in a job: rows and measured marginals, published like any output."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.release.kinds.test_workload import JOB, PAIRS, job_with, visits

from tacit.cli import main
from tacit.release import plan, run
from tacit.release.dummy import DIAGNOSES, REGIONS, SEXES
from tacit.release.dummy import visits as demonstration
from tacit.release.errors import JobError
from tacit.release.job import parse
from tacit.release.kinds.synthesis import MadeRows, MadeTables, described
from tacit.release.planning import notices

ROWS = "{name: rows, kind: synthesis, source: visits, columns: [region, sex, nights, cost], weight: 3}"


def test_the_commands_show_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Plan, run and report in words: no output is left out, and none is printed as code."""
    monkeypatch.chdir(tmp_path)
    parquet.write_table(visits(), "visits.parquet")
    Path("job.yaml").write_text(JOB.format(output=f"{PAIRS}\n  - {ROWS}", folder="out", adjacency="add-remove"))
    for command in (["plan", "job.yaml"], ["run", "job.yaml", "--yes"], ["report", "out"]):
        assert main(command) == 0
    shown = capsys.readouterr().out
    assert "not known before" in shown and "made-up rows of 4 columns" in shown and "48 answers" in shown
    assert "workload   pairs" in shown and "synthesis  rows" in shown
    assert "array(" not in shown and "Fraction(" not in shown


def test_a_job_publishes_rows_and_marginals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = job_with(ROWS)
    planned = plan(job)
    assert planned.cost.upper <= 4
    done = run(job, tables={"visits": visits()})
    made = parquet.read_table(done.folder / "rows.parquet")
    assert made.column_names == ["region", "sex", "nights", "cost"]
    assert abs(made.num_rows - 6000) < 600
    assert set(made["region"].to_pylist()) <= {"north", "south", None}
    assert all(value is None or 0 <= value <= 7 for value in made["nights"].to_pylist())
    marginals = json.loads((done.folder / "rows_marginals.json").read_text())
    assert ["region"] in [one["columns"] for one in marginals["marginals"]]
    assert all(len(one["counts"]) > 0 and one["deviation"] > 0 for one in marginals["marginals"])
    page = (done.folder / "report.html").read_text()
    assert "made-up rows" in page
    record = json.loads((done.folder / "release.json").read_text())
    assert next(o for o in record["outputs"] if o["name"] == "rows")["method"] == "auto"


@pytest.mark.parametrize(("epsilon", "told"), [("4", False), ("0.02", True)])
def test_a_budget_too_small_for_pairs_is_told_before_payment(epsilon: str, told: bool) -> None:
    text = JOB.format(output=ROWS, folder="out", adjacency="add-remove").replace("epsilon: 4", f"epsilon: {epsilon}")
    assert ("small-budget" in [notice.rule for notice in notices(plan(parse(text)))]) == told


@pytest.mark.parametrize(
    "output",
    [
        "{name: r, kind: synthesis, source: visits, columns: [], weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region, region], weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [nothing], weight: 1}",
        "{name: r, kind: synthesis, source: other, columns: [region], weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region], method: magic, weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region, sex], target: nights, weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region, sex], target: sex, method: mst, weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region, sex], constraints: [{order: [region, sex]}], weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region, sex], constraints: [{}], weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region], constraints: [{impossible: {region: [north, south]}}], weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region], accuracy: {within: 5, confidence: 0.95}}",
        "{name: r, kind: synthesis, source: visits, columns: [cost], bins: {cost: [5, 1]}, weight: 1}",
        "{name: r, kind: synthesis, source: visits, columns: [region], bins: {cost: [1, 5]}, weight: 1}",
    ],
)
def test_what_makes_no_sense_is_refused_without_data(output: str) -> None:
    with pytest.raises(JobError):
        plan(job_with(output))


def test_a_job_with_a_target_and_constraints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = (
        "[{impossible: {region: [north], sex: [f]}}, {order: [nights, cost]}, "
        "{determines: {source: region, target: sex, values: {south: f}}}]"
    )
    job = job_with(ROWS.replace("weight: 3", f"target: cost, weight: 3, bins: {{cost: [0, 2, 4, 8]}}, constraints: {rules}"))
    done = run(job, tables={"visits": visits()})
    made = parquet.read_table(done.folder / "rows.parquet").to_pylist()
    assert {row["sex"] for row in made if row["region"] == "south"} == {"f"}
    assert not [row for row in made if row["region"] == "north" and row["sex"] == "f"]
    assert not [row for row in made if None not in (row["nights"], row["cost"]) and row["nights"] > row["cost"]]


DATED = """
version: 1
title: Stays
purpose: Show how long people stay.
sources: {stays: {path: stays.parquet}}
unit: {person: id, max_rows: 1, adjacency: add-remove}
budget: {epsilon: 2, delta: 1e-7}
columns:
  id: {type: integer}
  ward: {type: text, categories: [A, B]}
  admitted: {type: date}
  left: {type: timestamp}
outputs:
  - name: rows
    kind: synthesis
    source: stays
    columns: [ward, admitted, left]
    dates: {admitted: {start: 2026-01-01, step: month, periods: 6}, left: {start: 2026-01-01, step: month, periods: 6}}
    constraints: [{order: [admitted, left]}]
    weight: 1
publication: {folder: out, formats: [csv, parquet], confidence: 0.99}
"""


MOMENT = pa.timestamp("us")


def stays(count: int = 4000) -> pa.Table:
    """Everybody of ward A comes in January and February, of B from March to June; two dates lie outside and two are missing."""
    random = np.random.default_rng(3)
    wards = random.choice(["A", "B"], count)
    first = [datetime.date(2026, int(random.integers(1, 3) if ward == "A" else random.integers(3, 7)), 15) for ward in wards]
    last = [datetime.datetime.combine(day, datetime.time(13)) + datetime.timedelta(days=int(random.integers(0, 10))) for day in first]
    first[:4] = [None, datetime.date(1970, 1, 1), datetime.date(2030, 1, 1), None]
    return pa.table({"id": range(count), "ward": wards, "admitted": pa.array(first, pa.date32()), "left": pa.array(last, MOMENT)})


def test_dates_are_made_up_in_their_periods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(parse(DATED), tables={"stays": stays()})
    made = parquet.read_table(done.folder / "rows.parquet")
    assert str(made.schema.field("admitted").type) == str(made.schema.field("left").type) == "date32[day]"
    rows = made.to_pylist()
    days = [row["admitted"] for row in rows if row["admitted"] is not None]
    assert len(days) > 3800 and min(days) >= datetime.date(2026, 1, 1) and max(days) <= datetime.date(2026, 6, 30)
    assert not [row for row in rows if None not in (row["admitted"], row["left"]) and row["admitted"] > row["left"]]
    in_time = [row["admitted"].month <= 2 for row in rows if row["ward"] == "A" and row["admitted"] is not None]
    assert sum(in_time) > 0.95 * len(in_time) > 0
    assert (done.folder / "rows.csv").read_text().splitlines()[0] == '"ward","admitted","left"'
    page = (done.folder / "report.html").read_text()
    assert "2026-02-01 to 2026-02-28" in page and 'aria-label="rows by admitted"' in page


def test_pictures_have_the_intervals_that_the_report_speaks_of() -> None:
    """At 99 % half an interval is 2.5758 deviations, not 1.96."""
    planned = plan(parse(DATED))["rows"]
    measured = {"columns": ["ward"], "counts": [5.0, 7.0, 0.0], "deviation": 10.0}
    (table,) = described(planned, MadeTables((MadeRows({"ward": []}, [measured], True),), True))["tables"]
    (part,) = table["parts"]
    assert part["high"][0] - part["value"][0] == pytest.approx(25.758, abs=0.3) and table["more"] == 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("dates: {admitted: {start: 2026-01-01, step: month, periods: 6}, ", "dates: {", "admitted is a date, and has no bins"),
        ("step: month", "step: months", "step must be day, week, month"),
        ("periods: 6", "periods: 0", "there must be 1 to"),
        ("dates: {", "dates: {ward: {start: 2026-01-01, step: day, periods: 6}, ", "ward must be a date"),
        ("{admitted: {start", "{day: {start", "dates names 'day'"),
        ("    weight: 1", "    bins: {left: [0, 1]}\n    weight: 1", "left stands in bins and in dates"),
    ],
)
def test_dates_that_make_no_sense_are_refused_with_what_to_do(old: str, new: str, told: str) -> None:
    assert old in DATED
    with pytest.raises(JobError, match=told):
        plan(parse(DATED.replace(old, new)))


LEVELS = """
  - name: hospital
    kind: synthesis
    levels:
      - {name: patients, columns: [region, sex], key: patient_id, rows_of: visits}
      - {name: visits, columns: [nights, cost], of: patients, by: patient_id, most: 2, key: visit_id,
         bins: {cost: [0, 50, 100], nights: [0, 2, 4, 8]}}
    weight: 3
"""


def test_a_job_publishes_tables_that_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = job_with(LEVELS.strip().removeprefix("- "))
    done = run(job, tables={"visits": visits()})
    people, stays = (parquet.read_table(done.folder / f"hospital_{name}.parquet") for name in ("patients", "visits"))
    assert people.column_names == ["patient_id", "region", "sex"] and stays.column_names == ["patient_id", "visit_id", "nights", "cost"]
    whose = Counter(stays["patient_id"].to_pylist())
    assert set(whose) == set(people["patient_id"].to_pylist()) and max(whose.values()) <= 2
    assert abs(people.num_rows - 3000) < 300 and str(stays.schema.field("nights").type) == "int64"
    marginals = json.loads((done.folder / "hospital_visits_marginals.json").read_text())
    assert "patients.region" in marginals["cells"] and ["nights"] in [one["columns"] for one in marginals["marginals"]]
    page = (done.folder / "report.html").read_text()
    assert page.count('aria-label="rows by number of visits"') == 1  # measured twice, shown once
    assert "<h3>patients</h3>" in page and "<h3>visits</h3>" in page and "number of visits" in page
    record = json.loads((done.folder / "release.json").read_text())
    assert [one["name"] for one in next(o for o in record["outputs"] if o["name"] == "hospital")["levels"]] == ["patients", "visits"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind: synthesis", "kind: synthesis\n    source: visits"),
        ("key: patient_id, rows_of: visits", "rows_of: visits"),
        ("of: patients", "of: people"),
        ("most: 2", "most: 0"),
        ("rows_of: visits", "rows_of: stays"),
        ("bins: {cost:", "bins: {costs:"),
        ("columns: [nights, cost]", "columns: [nights, nothing]"),
        ("weight: 3", "method: histogram\n    weight: 3"),
    ],
)
def test_levels_that_make_no_sense_are_refused_without_data(old: str, new: str) -> None:
    assert old in LEVELS
    with pytest.raises(JobError):
        plan(job_with(LEVELS.strip().removeprefix("- ").replace(old, new, 1)))


PAIRS_OF_FOUR = (
    "{name: pairs, kind: workload, source: visits, marginals: {of: [region, sex, age, diagnosis], up_to: 2}, "
    "accuracy: {within: 150, confidence: 0.95}}"
)
STAYS = "{name: stays, kind: workload, source: visits, ranges: {nights: all}, weight: 1}"
MADE = (
    "{name: synthetic_visits, kind: synthesis, source: visits, columns: [region, sex, age, diagnosis, nights, cost], target: cost, "
    "method: auto, weight: 5}"
)


def test_pairs_ranges_and_rows_of_the_demonstration_from_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three outputs of three kinds in one job: an accuracy that is asked for is planned for, and rows come beside what was measured."""
    monkeypatch.chdir(tmp_path)
    text = f"""
version: 1
title: Hospital visits
purpose: Plan beds.
sources: {{visits: {{path: visits.parquet}}}}
unit: {{person: patient_id, max_rows: 12, adjacency: add-remove}}
budget: {{epsilon: 8, delta: 1e-9}}
expected: {{rows: 20000, people: 5000}}
columns:
  patient_id: {{type: integer}}
  region: {{type: text, categories: [{", ".join(REGIONS)}]}}
  sex: {{type: text, categories: [{", ".join(SEXES)}]}}
  age: {{type: integer, bounds: [0, 110]}}
  diagnosis: {{type: text, categories: [{", ".join(DIAGNOSES)}]}}
  nights: {{type: integer, bounds: [0, 30]}}
  cost: {{type: number, bounds: [0, 50000]}}
outputs:
  - {PAIRS_OF_FOUR}
  - {STAYS}
  - {MADE}
publication: {{folder: release, formats: [csv, parquet], confidence: 0.95}}
"""
    real = demonstration(20_000)
    done = run(parse(text), tables={"visits": real})
    names = {file.name for file in done.folder.iterdir()}
    assert {"pairs_age_diagnosis.csv", "stays_nights.csv", "synthetic_visits.parquet", "synthetic_visits_marginals.json"} <= names
    off = []
    for line in parquet.read_table(done.folder / "pairs_region.parquet").to_pylist():
        assert line["high"] - line["value"] <= 150.5
        off.append(line["value"] - sum(region == line["region"] for region in real["region"].to_pylist()))
    assert max(map(abs, off)) < 2500  # rows beyond twelve of a patient are not counted, nor those without a sex or an age
    made = parquet.read_table(done.folder / "synthetic_visits.parquet")
    assert made.column_names == ["region", "sex", "age", "diagnosis", "nights", "cost"] and abs(made.num_rows - 19_000) < 1500
    assert (done.folder / "report.html").read_text().count('class="picture"') > 10
