"""`kind: fairness` in a job: planned, paid for, drawn, published and reported like any output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tacit.release import JobError, plan, run
from tacit.release.job import Job, parse
from tacit.release.kinds import fairness, find

TEXT = """
version: 1
title: Awards
purpose: Are awards given alike?
sources: {awards: {path: awards.parquet}}
unit: {person: id, max_rows: 1, adjacency: add-remove}
budget: {epsilon: 1, delta: 0}
expected: {rows: 4000}
columns:
  id: {type: integer}
  sex: {type: text, categories: [F, M]}
  due: {type: integer, categories: [0, 1]}
  given: {type: integer, categories: [0, 1]}
outputs:
  - {name: fair, kind: fairness, source: awards, label: due, prediction: given, positive: 1, groups: [sex], weight: 1NOTIONS}
publication: {folder: out, formats: [csv], confidence: 0.95}
"""


def job(notions: str = "", **changes: str) -> Job:
    text = TEXT.replace("NOTIONS", notions)
    for old, new in changes.items():
        text = text.replace(old, new)
    return parse(text)


@pytest.fixture
def awards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    made = np.random.default_rng(1)
    sex, due = made.choice(["F", "M", "zebra-7719"], 4000, p=[0.5, 0.49, 0.01]), made.integers(0, 2, 4000)
    given = np.where(made.random(4000) < 0.9 - 0.15 * (sex == "F"), due, 1 - due)
    table = pa.table({"id": np.arange(4000), "sex": sex, "due": due, "given": given})
    parquet.write_table(table, tmp_path / "awards.parquet")
    monkeypatch.chdir(tmp_path)
    return table


def test_a_release(awards: pa.Table, tmp_path: Path) -> None:
    run(job(", notions: [equalized_odds, demographic_parity]"))
    rates = csv.read_csv(tmp_path / "out" / "fair_rates.csv").to_pylist()
    sex, due, given = (np.array(awards.column(name).to_pylist()) for name in ("sex", "due", "given"))
    for value in ("F", "M"):
        true = given[(sex == value) & (due == 1)].mean()
        row = next(row for row in rates if row["sex"] == value and row["rate"] == "true_positive_rate")
        assert row["low"] - 0.03 < true < row["high"] + 0.03 and row["high"] - row["low"] < 0.1
    gaps = csv.read_csv(tmp_path / "out" / "fair_gaps.csv").to_pylist()
    assert [row["notion"] for row in gaps] == ["equalized_odds"] * 2 + ["demographic_parity"] * 2
    record = json.loads((tmp_path / "out" / "release.json").read_text())
    assert "zebra" not in json.dumps(record)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "equalized odds" in page and "cannot both hold" in page and "zebra" not in page


def test_one_price_as_a_table_of_counts(awards: pa.Table) -> None:
    planned = plan(job())["fair"]
    assert planned.size == 8 and planned.noise == "laplace"
    assert planned.portion.spend.admits(planned.event, planned.output.counted.desk.unit.adjacency)
    assert find("fairness") is fairness


def test_notices() -> None:
    found = plan(job(", notions: [equalized_odds, demographic_parity]", **{"rows: 4000": "rows: 40"}))
    rules = {notice.rule for notice in found.warnings}
    assert {"notions exclude each other", "rates mostly noise"} <= rules


@pytest.mark.parametrize(
    "changes",
    [
        {"positive: 1": "positive: 2"},
        {"groups: [sex]": "groups: [id]"},
        {"groups: [sex]": "groups: [due]"},
        {"groups: [sex]": "groups: []"},
        {"source: awards": "source: prizes"},
        {"prediction: given": "prediction: nothing"},
    ],
)
def test_refusals(changes: dict[str, Any]) -> None:
    with pytest.raises(JobError):
        plan(job(**changes))
    with pytest.raises(JobError):
        plan(job(", notions: [equality]"))
