"""A series is one thing: one account over all months, corrections as runs of their own, and figures over time
with honest intervals.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from tacit.ledger import BudgetExceeded, Ledger
from tacit.release import JobError, JobRun, run
from tacit.release.job import parse
from tacit.release.over_time import TimeSeries, differences, read_series, smoothed
from tacit.release.planning import plan
from tacit.release.standing import standing_of

TEXT = """
version: 1
title: "Meters, {period}"
purpose: Show how much is used.
sources: {meters: {path: "meters-{period}.parquet"}}
unit: {person: household, max_rows: 2, adjacency: add-remove}
budget: {epsilon: 1, delta: 0, reserve: 0}
series: {name: meters, every: month, budget: {epsilon: 2.5, delta: 0}, per: total}
columns:
  household: {type: integer}
  region: {type: text, categories: [north, south]}
  kwh: {type: number, bounds: [0, 10]}
outputs:
  - {name: by_region, sql: "SELECT region, COUNT(*) AS n, AVG(kwh) AS kwh FROM meters GROUP BY region",
  weight: 1, title: "In {month}/{year}"}
publication: {folder: "out-{period}", formats: [csv], confidence: 0.95}
"""


def months(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        draw = np.random.default_rng(number)
        table = pa.table({
            "household": np.repeat(np.arange(400), 2),
            "region": np.repeat(draw.choice(["north", "south"], 400), 2),
            "kwh": draw.uniform(0, 10, 800),
        })  # fmt: skip
        pq.write_table(table, folder / f"meters-{name}.parquet")


def month(folder: Path, period: str, text: str = TEXT, **how: object) -> JobRun:
    return run(parse(text, period=period), base=folder, report=False, **how)  # type: ignore[arg-type]


def test_placeholders_are_filled_and_a_period_is_needed(tmp_path: Path) -> None:
    job = parse(TEXT, period="2026-02")
    assert (job.title, job.publication.folder, job.sources["meters"].path) == (
        "Meters, 2026-02",
        "out-2026-02",
        "meters-2026-02.parquet",
    )
    assert job.outputs[0].title == "In 02/2026"
    assert plan(parse(TEXT)).outputs  # without a period it can be planned
    with pytest.raises(JobError, match="period"):
        run(parse(TEXT), base=tmp_path)
    for bad in ("2026", "2026-13", "february"):
        with pytest.raises(JobError, match="period"):
            parse(TEXT, period=bad)


def test_next_months_file_has_the_same_account_and_the_third_is_refused(tmp_path: Path) -> None:
    months(tmp_path, "2026-01", "2026-02", "2026-03")
    assert month(tmp_path, "2026-01").record["ledger"]["account"] == "meters"
    assert month(tmp_path, "2026-02").record["ledger"]["account"] == "meters"
    with Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}") as book:
        assert [account.name for account in book.accounts()] == ["meters"]
        stands = standing_of(plan(parse(TEXT, period="2026-03")), book)
        assert stands.known and "left" in stands.refused
    with pytest.raises(BudgetExceeded):
        month(tmp_path, "2026-03")
    assert not (tmp_path / "out-2026-03").exists()


def test_a_budget_per_period_is_one_for_every_month(tmp_path: Path) -> None:
    months(tmp_path, "2026-01", "2026-02", "2026-03")
    text = TEXT.replace("epsilon: 2.5", "epsilon: 1").replace("per: total", "per: period")
    for period in ("2026-01", "2026-02", "2026-03"):
        month(tmp_path, period, text)
    with Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}") as book:
        (account,) = book.accounts()
        assert [float(left) for left in account.left("2026-02").values()] == pytest.approx([0], abs=1e-6)
        assert float(account.total()["pure"]) == pytest.approx(3, abs=1e-5)


def test_a_file_that_feeds_the_same_unit_under_another_title_is_noticed_and_named(tmp_path: Path) -> None:
    months(tmp_path, "2026-01", "2026-02")
    month(tmp_path, "2026-01")
    other = TEXT.replace("Meters, {period}", "Something else").replace(
        ("series: {name: meters, every: month, budget: {epsilon: 2.5, delta: 0}, per: total}\n"), ""
    )
    other = other.replace("{period}", "2026-02")
    with Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}") as book:
        assert standing_of(plan(parse(other)), book).alike == ("meters",)
    done = run(parse(other), base=tmp_path, report=False)
    assert any("'meters' protects the same unit" in note for note in done.notes)


def test_another_unit_under_the_series_name_is_refused(tmp_path: Path) -> None:
    months(tmp_path, "2026-01", "2026-02")
    month(tmp_path, "2026-01")
    with pytest.raises(JobError, match="unit"):
        month(
            tmp_path, "2026-02", TEXT.replace("unit: {person: household, max_rows: 2,", "unit: {row: true,")
        )


def test_a_correction_is_a_run_of_its_own_from_the_reserve(tmp_path: Path) -> None:
    months(tmp_path, "2026-01")
    text = TEXT.replace("epsilon: 2.5, delta: 0", "epsilon: 2.5, delta: 0, reserve: 0.5")
    with pytest.raises(JobError, match="no release to correct"):
        month(tmp_path, "2026-01", text, correction="too early")
    first = month(tmp_path, "2026-01", text)
    before = (first.folder / "by_region.csv").read_bytes()
    again = month(tmp_path, "2026-01", text, correction="codes were swapped")
    assert again.folder.name == "out-2026-01-r1"
    assert (first.folder / "by_region.csv").read_bytes() == before
    assert again.record["corrects"] == {"folder": "out-2026-01", "reason": "codes were swapped"}
    with Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}") as book:
        entries = [entry for entry in book.entries() if entry.get("correction")]
        assert len(entries) == 1 and "correction of out-2026-01" in entries[0]["purpose"]
    assert (again.folder / "release.json").exists()
    assert (
        json.loads((again.folder / "release.json").read_text())["corrects"]["reason"] == "codes were swapped"
    )


# --- over time ---


def test_releases_are_read_and_compared(tmp_path: Path) -> None:
    months(tmp_path, "2026-01", "2026-02")
    folders = [month(tmp_path, period).folder for period in ("2026-01", "2026-02")]
    found = read_series(folders, "by_region", "n")
    assert (found.periods, found.groups) == (("2026-01", "2026-02"), (("north",), ("south",)))
    change = differences(found, 1)
    assert change.value.shape == (1, 2) and change.confidence == 0.95
    mean = differences(read_series(folders, "by_region", "kwh"), 1)
    assert mean.confidence == pytest.approx(0.9) and "both intervals must hold" in mean.notes[-1]
    with pytest.raises(JobError, match="there are by_region"):
        read_series(folders, "by_region", "m")
    with pytest.raises(JobError, match="no release"):
        read_series([tmp_path, tmp_path], "by_region", "n")


def series_of(values: np.ndarray, law: str, spread: float) -> TimeSeries:
    periods = tuple(f"{2020 + i // 12}-{i % 12 + 1:02}" for i in range(len(values)))
    told = {"law": law, "spreads": [spread], "rounding": 0.0}
    return TimeSeries(periods, ((),), values[:, None], None, None, (told,) * len(values), 0.95)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_differences_and_smoothed_figures_hold_the_truth_as_often_as_they_say(law: str) -> None:
    """400 series of 24 months. A share of .95 of 400 falls below .92 with a chance of .006; the stream is
    fixed, and the mutant, an interval that knows the noise of one figure only, falls far below.
    """
    draw = np.random.default_rng(7)
    truth = 1000 + np.cumsum(draw.uniform(-5, 5, 24))
    tries, held, smooth, narrow = 400, 0, 0, 0
    for _ in range(tries):
        noise = draw.normal(0, 20, 24) if law == "gaussian" else draw.laplace(0, 20, 24)
        found = series_of(truth + noise, law, 20.0)
        change = differences(found, 12)
        held += int(change.low[3, 0] <= truth[15] - truth[3] <= change.high[3, 0])
        half = (change.high[3, 0] - change.low[3, 0]) / 2
        narrow += int(abs(change.value[3, 0] - (truth[15] - truth[3])) <= half / np.sqrt(2))
    for _ in range(60):
        noise = draw.normal(0, 20, 24) if law == "gaussian" else draw.laplace(0, 20, 24)
        made = smoothed(series_of(truth + noise, law, 20.0), most_step=5.0)
        smooth += int(np.mean((made.low[:, 0] <= truth) & (truth <= made.high[:, 0])) >= 0.75)
    assert held / tries > 0.92
    assert smooth / 60 > 0.9
    if law == "gaussian":
        assert narrow / tries < 0.9


def test_gaussian_differences_are_the_closed_form() -> None:
    change = differences(series_of(np.arange(13.0), "gaussian", 3.0), 12)
    assert float(change.high[0, 0] - change.value[0, 0]) == pytest.approx(
        stats.norm.ppf(0.975) * 3 * np.sqrt(2), rel=1e-9
    )


def test_smoothing_says_what_it_is_about() -> None:
    found = series_of(np.arange(5.0), "gaussian", 1.0)
    mean = smoothed(found, width=1)
    assert mean.value[:, 0].tolist() == [0.5, 1.0, 2.0, 3.0, 3.5]
    assert "mean of these periods" in mean.notes[0]
    still = smoothed(found, most_step=1e9)
    assert still.value[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0], (
        "where the truth may jump, neighbours say nothing"
    )
    for bad in ({}, {"most_step": 1.0, "width": 1}, {"most_step": -1.0}):
        with pytest.raises(JobError):
            smoothed(found, **bad)  # type: ignore[arg-type]
