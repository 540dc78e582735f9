"""`kind: profile`: the table question it stands for, with a clamp that must be declared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.applications.energy import made_up_homes
from tacit.release import JobError, plan, run
from tacit.release.job import parse

JOB = """
version: 1
title: Load profile
purpose: Show when households use energy, so that the grid can be planned.
sources:
  meters: {path: meters.parquet}
unit: {person: household, max_groups: 48, rows_per_group: 1, adjacency: add-remove}
budget: {epsilon: 1000, delta: 0}
columns:
  household: {type: integer}
  interval: {type: integer}
  kwh: {type: number}
outputs:
  - {name: day, kind: profile, source: meters, interval: interval, value: kwh, intervals: {first: 0, last: 47}, clamp: [0, 2], weight: 1}
publication: {folder: release, formats: [csv], confidence: 0.95}
"""


def test_it_is_the_table_that_it_stands_for() -> None:
    profile = plan(parse(JOB))
    hours = ", ".join(map(str, range(48)))
    asked = f'sql: "SELECT interval, SUM(kwh) AS kwh FROM meters GROUP BY interval", keys: {{interval: [{hours}]}}'
    text = JOB.replace("kwh: {type: number}", "kwh: {type: number, bounds: [0, 2]}")
    before, _, rest = text.partition("kind: profile")
    text = before + asked + rest[rest.index(", weight") :]
    table = plan(parse(text))
    assert profile["day"].event == table["day"].event and profile["day"].errors == table["day"].errors
    assert profile["day"].size == 48 and profile["day"].spec.kind == "profile"


def test_it_is_published_with_a_report(tmp_path: Path) -> None:
    homes = made_up_homes(40)
    done = run(parse(JOB), base=tmp_path, tables={"meters": homes.table()})
    found = done.answers["day"].to_arrow().column("kwh").to_numpy()
    np.testing.assert_allclose(found, homes.kwh.sum(axis=0), atol=3)  # scale 48 * 2 / 1000 for each of 48 intervals
    assert {file.name for file in done.folder.iterdir()} == {"day.csv", "datapackage.json", "registry.yaml", "release.json", "report.html"}
    assert done.record["outputs"][0]["kind"] == "profile"
    assert "what most households do" in (done.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (", clamp: [0, 2]", "", "clamp: is missing"),
        ("clamp: [0, 2]", "clamp: [2, 0]", "least below most"),
        ("{first: 0, last: 47}", "[1, 1]", "each once"),
        ("{first: 0, last: 47}", "[]", "each once"),
        ("{first: 0, last: 47}", "{first: 5, last: 4}", "first to last"),
        ("value: kwh", "value: watts", "watts is not in columns"),
    ],
)
def test_what_is_missing_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(JobError, match=words):
        parse(JOB.replace(old, new, 1))


def test_a_source_must_be_private_and_there() -> None:
    with pytest.raises(JobError, match="no private source"):
        plan(parse(JOB.replace("source: meters", "source: others")))
