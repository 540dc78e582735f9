"""`kind: workload` in a job: planned, paid, drawn once, published and reported like any output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from tacit.noise import test_mode as seeded
from tacit.release import plan, run
from tacit.release.errors import JobError
from tacit.release.job import parse
from tacit.release.kinds import find

JOB = """
version: 1
title: Visits
purpose: Plan beds.
sources: {{visits: {{path: visits.parquet}}}}
unit: {{person: patient_id, max_rows: 2, adjacency: {adjacency}}}
budget: {{epsilon: 4, delta: 1e-6}}
expected: {{rows: 6000}}
columns:
  patient_id: {{type: integer}}
  region: {{type: text, categories: [north, south]}}
  sex: {{type: text, categories: [f, m]}}
  nights: {{type: integer, bounds: [0, 7]}}
  cost: {{type: number, bounds: [0, 100]}}
outputs:
  - {{name: by_region, sql: "SELECT region, COUNT(*) AS n FROM visits GROUP BY region", weight: 1}}
  - {output}
publication: {{folder: {folder}, formats: [csv, parquet], confidence: 0.95}}
"""
PAIRS = "{name: pairs, kind: workload, source: visits, marginals: {of: [region, sex, nights], up_to: 2}, weight: 3}"
STAYS = "{name: stays, kind: workload, source: visits, ranges: {nights: all}, weight: 3}"
COSTS = "{name: costs, kind: workload, source: visits, marginals: {of: [cost], ways: 1}, cells: {cost: [0, 10, 50, 100]}, weight: 3}"


def job_with(output: str, folder: Path | str = "release", adjacency: str = "add-remove"):  # type: ignore[no-untyped-def]
    return parse(JOB.format(output=output, folder=folder, adjacency=adjacency))


def visits(rows: int = 6000) -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table(
        {
            "patient_id": np.arange(rows) // 2,
            "region": random.choice(["north", "south"], rows),
            "sex": random.choice(["f", "m"], rows),
            "nights": random.integers(-2, 12, rows),
            "cost": random.random(rows) * 100,
        }
    )


def test_a_job_publishes_consistent_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = visits()
    done = run(job_with(PAIRS), tables={"visits": table})
    names = sorted(file.name for file in done.folder.iterdir())
    assert {"pairs_region.csv", "pairs_region_sex.csv", "pairs_sex_nights.parquet"} <= set(names)
    pairs = csv.read_csv(done.folder / "pairs_region_sex.csv").to_pylist()
    single = {line["region"]: line["value"] for line in csv.read_csv(done.folder / "pairs_region.csv").to_pylist()}
    rows = table.to_pylist()
    for region, value in single.items():
        assert sum(line["value"] for line in pairs if line["region"] == region) == pytest.approx(value, abs=1e-6)
        assert abs(value - sum(row["region"] == region for row in rows)) < 200
    ends = {line["nights"]: line for line in csv.read_csv(done.folder / "pairs_nights.csv").to_pylist()}
    # values beyond the bounds are moved to them, as in tables
    assert abs(ends[7]["value"] - sum(row["nights"] >= 7 for row in rows)) < 200
    record = json.loads((done.folder / "release.json").read_text())
    own = next(output for output in record["outputs"] if output["name"] == "pairs")
    assert own["kind"] == "workload" and own["answers"]["region by sex"] == 4
    page = (done.folder / "report.html").read_text()
    assert "region by nights" in page and "agree on them" in page


def test_whole_figures_stand_beside_the_unbiased_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(job_with(PAIRS.replace("weight", "whole: true, weight")), tables={"visits": visits()})
    pairs = csv.read_csv(done.folder / "pairs_sex_nights.csv").to_pylist()
    single = {line["sex"]: line["whole"] for line in csv.read_csv(done.folder / "pairs_sex.csv").to_pylist()}
    assert all(isinstance(line["whole"], int) and line["whole"] >= 0 for line in pairs)
    for sex, value in single.items():
        assert sum(line["whole"] for line in pairs if line["sex"] == sex) == value
    assert {"value", "low", "high"} <= set(pairs[0])
    page = (done.folder / "report.html").read_text()
    assert "They are biased" in page and "an empty cell gains up to" in page
    assert "whole figures" in (done.folder / "registry.yaml").read_text()


def test_whole_figures_that_cannot_be_are_refused_before_payment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.workloads.reconstruct.MOST_OF_TABLES", 10)
    found = plan(job_with(PAIRS.replace("weight", "whole: true, weight")))
    (notice,) = [n for n in found.warnings if n.rule == "no-whole-figures"]
    assert notice.refuses and "at most 10" in notice.text


@pytest.mark.parametrize("output", [PAIRS, STAYS, COSTS])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_plan_fits_and_foretells(output: str, adjacency: str, tmp_path: Path) -> None:
    found = plan(job_with(output, adjacency=adjacency))
    own = found.outputs[1]
    assert found.cost.upper <= 4
    assert all(np.isfinite(error) and error > 0 for error in own.errors.values())
    assert "GROUPING SETS" in find("workload").explain(own)[1]


def test_what_is_foretold_is_what_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of answers outside 95 % over many answers of one seeded draw: 36 ranges, at most 8 outside."""
    monkeypatch.chdir(tmp_path)
    table = visits()
    with seeded(5):
        done = run(job_with(STAYS), tables={"visits": table})
    nights = np.clip(table["nights"].to_numpy(), 0, 7)
    outside = 0
    lines = csv.read_csv(done.folder / "stays_nights.csv").to_pylist()
    assert len(lines) == 36
    for line in lines:
        first, _, last = str(line["nights"]).partition(" to ")
        truth = int(((nights >= int(first)) & (nights <= int(last or first))).sum())
        outside += not line["low"] <= truth <= line["high"]
    assert outside <= 8


@pytest.mark.parametrize(
    "output",
    [
        "{name: w, kind: workload, source: visits, weight: 1}",
        "{name: w, kind: workload, source: nothing, ranges: {nights: all}, weight: 1}",
        "{name: w, kind: workload, source: visits, ranges: {nights: some}, weight: 1}",
        "{name: w, kind: workload, source: visits, ranges: {cost: all}, weight: 1}",
        "{name: w, kind: workload, source: visits, marginals: {of: [region], up_to: 2}, weight: 1}",
        "{name: w, kind: workload, source: visits, marginals: {of: [region]}, weight: 1}",
        "{name: w, kind: workload, source: visits, marginals: {of: [zzz], ways: 1}, weight: 1}",
        "{name: w, kind: workload, source: visits, marginals: {of: [cost], ways: 1}, cells: {cost: [5, 1]}, weight: 1}",
        "{name: w, kind: workload, source: visits, marginals: {of: [sex], ways: 1}, where: 'sex = (SELECT 1)', weight: 1}",
    ],
)
def test_what_makes_no_sense_is_refused_without_data(output: str) -> None:
    with pytest.raises(JobError):
        plan(job_with(output))


REGIONS = (
    "{name: places, kind: workload, source: visits, weight: 3, whole: true, regions: {column: region, by: [sex], "
    "hierarchy: {upper: [north], lower: [south]}, unprotected: {upper: 3100}}}"
)


def test_regions_name_what_is_not_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(job_with(REGIONS), tables={"visits": visits()})
    lines = {(line["region"], line["sex"]): line for line in csv.read_csv(done.folder / "places_region_sex.csv").to_pylist()}
    assert len(lines) == 10 and lines["upper", "f"]["whole"] + lines["upper", "m"]["whole"] == 3100
    for sex in "fm":
        assert lines["upper", sex]["whole"] + lines["lower", sex]["whole"] == lines["all", sex]["whole"]
    said = "exact totals of region, given by the curator and not protected: upper"
    assert said in (done.folder / "report.html").read_text()
    assert said in " ".join((done.folder / "registry.yaml").read_text().split())
    record = json.loads((done.folder / "release.json").read_text())
    assert next(output for output in record["outputs"] if output["name"] == "places")["unprotected"] == [said]


@pytest.mark.parametrize(
    "regions",
    [
        "{column: region, hierarchy: {upper: [north], lower: {deep: [south]}}}",
        "{column: region, hierarchy: {upper: [north]}, unprotected: {nowhere: 1}}",
        "{column: region, hierarchy: {upper: [north]}, unprotected: {all: 1, north: 2}}",
        "{column: zzz, hierarchy: {upper: [north]}}",
        "{column: region, hierarchy: {}}",
    ],
)
def test_regions_that_make_no_sense_are_refused_without_data(regions: str) -> None:
    with pytest.raises(JobError):
        plan(job_with(f"{{name: w, kind: workload, source: visits, weight: 1, regions: {regions}}}"))
    with pytest.raises(JobError):
        plan(job_with(REGIONS.replace("whole", "ranges: {nights: all}, whole")))


def test_a_series_over_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = (
        "{name: weeks, kind: workload, source: visits, weight: 3, whole: true, "
        "series: {column: day, start: 2026-01-01, step: week, periods: 4, by: [sex]}}"
    )
    days = (np.datetime64("2026-01-01") + np.arange(6000) % 40).astype("datetime64[D]")
    table = visits().append_column("day", pa.array(days))
    text = JOB.format(output=output, folder="release", adjacency="add-remove").replace("  cost:", "  day: {type: date}\n  cost:")
    done = run(parse(text), tables={"visits": table})
    lines = {(str(line["day"]), line["sex"]): line for line in csv.read_csv(done.folder / "weeks_sex_day.csv").to_pylist()}
    assert len(lines) == 20
    truth = int(((table["sex"].to_numpy(zero_copy_only=False) == "f") & (np.arange(6000) % 40 < 28)).sum())
    whole = lines["2026-01-01 to 2026-01-22", "f"]
    assert abs(whole["value"] - truth) < 200 and whole["whole"] >= 0
    for wrong in ("step: hour", "start: 2026-99-01", "periods: 0", "column: sex"):
        name = wrong.split(":")[0]
        kept = [part for part in ("column: day", "start: 2026-01-01", "step: week", "periods: 4") if not part.startswith(name)]
        bad = f"{{name: w, kind: workload, source: visits, weight: 1, series: {{{', '.join([*kept, wrong])}}}}}"
        with pytest.raises(JobError):
            plan(parse(text.replace(output, bad)))


MAP = "{name: map, kind: workload, source: visits, weight: 3, whole: true, map: {x: {column: cost, low: 0, high: 100, cells: 5}, y: {%s}}}"


def test_a_map_publishes_cells_and_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = visits()
    done = run(job_with(MAP % "column: nights, low: 0, high: 8, cells: 4"), tables={"visits": table})
    cells = csv.read_csv(done.folder / "map_cost_nights.csv").to_pylist()
    boxes = csv.read_csv(done.folder / "map_cost_nights_2.csv").to_pylist()
    assert len(cells) == 20 and len(boxes) == 150
    (everything,) = [line for line in boxes if (line["cost"], line["nights"]) == ("0.0 to 100.0", "0.0 to 8.0")]
    assert sum(line["value"] for line in cells) == pytest.approx(everything["value"], abs=1e-6)
    assert sum(line["whole"] for line in cells) == everything["whole"]
    nights = table["nights"].to_numpy()
    assert abs(everything["value"] - int(((nights >= 0) & (nights <= 8)).sum())) < 250
    for wrong in ("cost, low: 0, high: 8", "nights, low: 8, high: 0", "sex, low: 0, high: 8"):
        with pytest.raises(JobError):
            plan(job_with(MAP % f"column: {wrong}, cells: 4"))


def test_a_view_is_counted_in_place_of_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    view = "SELECT v.sex, w.floor FROM visits v JOIN wards w ON v.region = w.region WHERE v.nights > 2"
    output = f'{{name: floors, kind: workload, source: visits, view: "{view}", marginals: {{of: [sex, floor], up_to: 2}}, weight: 3}}'
    text = JOB.format(output=output, folder="release", adjacency="add-remove")
    text = text.replace("{visits: {path: visits.parquet}}", "{visits: {path: visits.parquet}, wards: {path: wards.parquet, public: true}}")
    for column in ("patient_id", "region", "sex", "nights", "cost"):
        text = text.replace(f"  {column}:", f"  visits.{column}:")
    more = "  wards.floor: {type: text, categories: [upper, lower]}\n  wards.region: {type: text}\n"
    text = text.replace("  visits.cost:", f"{more}  visits.cost:")
    table = visits()
    wards = pa.table({"region": ["north", "south"], "floor": ["upper", "lower"]})
    done = run(parse(text), tables={"visits": table, "wards": wards})
    lines = csv.read_csv(done.folder / "floors_sex_floor.csv").to_pylist()
    for line in lines:
        region = {"upper": "north", "lower": "south"}[line["floor"]]
        truth = sum(r["sex"] == line["sex"] and r["region"] == region and r["nights"] > 2 for r in table.to_pylist())
        assert abs(line["value"] - truth) < 250
    with pytest.raises(JobError):
        plan(parse(text.replace("source: visits,", "source: visits, where: 'nights > 1',")))
    with pytest.raises(JobError):
        plan(parse(text.replace("v.region = w.region", "v.region < w.region")))


@pytest.mark.parametrize(("more", "words", "total"), [
    ("", "only if region and sex all have a value in some cell", 3000), (", other: true", "every row counts", 6000),
])  # fmt: skip
def test_a_job_says_which_rows_count_and_may_count_all(
    more: str, words: str, total: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the rows have no region: their sex counts only where the job asks for a cell for the others."""
    monkeypatch.chdir(tmp_path)
    table = visits()
    holes = pa.array([None if place % 2 else value for place, value in enumerate(table["region"].to_pylist())], pa.string())
    table = table.set_column(table.column_names.index("region"), "region", holes)
    asked = "marginals: {of: [region, sex], ways: 1}, weight: 3" + more
    job = job_with(f"{{name: pairs, kind: workload, source: visits, {asked}}}")
    planned = next(one for one in plan(job).outputs if one.name == "pairs")
    assert words in find("workload").explain(planned)[0]
    with seeded(1):
        done = run(job, tables={"visits": table})
    assert words in (done.folder / "report.html").read_text().replace("Every row", "every row")
    assert abs(sum(line["value"] for line in csv.read_csv(done.folder / "pairs_sex.csv").to_pylist()) - total) < 300


def test_a_cell_for_the_others_stands_in_no_range() -> None:
    with pytest.raises(JobError, match="stands in no range"):
        plan(job_with("{name: stays, kind: workload, source: visits, ranges: {nights: all}, other: true, weight: 3}"))
