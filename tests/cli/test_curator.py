"""The curator's commands: all errors at once, the check of the data, where a job stands in the ledger, and
releases that are held back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from tacit.accounting import Laplace
from tacit.cli import jobs
from tacit.cli.app import Commands

APP = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
jobs.register(APP)
JOB = """
version: 1
title: Visits
purpose: Plan beds.
sources: {visits: {path: visits.parquet}}
unit: {row: true, adjacency: add-remove}
budget: {epsilon: 1, delta: 0}
expected: {people: 4000, rows: 4000}
columns:
  region: {type: text, categories: [north, south]}
  age: {type: integer, bounds: [0, 110]}
outputs:
  - {name: by_region, sql: "SELECT region, COUNT(*) AS n FROM visits GROUP BY region", weight: 1}
publication: {folder: release, formats: [csv], confidence: 0.95}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job whose file has half of its regions in capitals, which the job does not declare."""
    rows = {"region": ["north", "South"] * 2000, "age": [-9, 40] * 2000}
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet")
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    return tmp_path / "job.yaml"


def tacit(*words: object, status: int = 0) -> Any:
    found = CliRunner().invoke(APP, [str(word) for word in words])
    assert found.exit_code == status, found.output
    return found


def test_validate_tells_all_errors_at_once(job: Path) -> None:
    text = (
        JOB.replace("confidence: 0.95", "confidence: 95")
        .replace("{row: true,", "{rows: true,")
        .replace("age: {type: integer", "age: {type: int")
    )
    job.write_text(text, encoding="utf-8")
    found = tacit("validate", job, status=2)
    assert all(
        place in found.output
        for place in ("unit.rows", "columns.age.type", "publication.confidence", "3 errors")
    )
    errors = json.loads(tacit("validate", job, "--json", status=2).stdout)["errors"]
    assert len(errors) == 3
    job.write_text(
        JOB.replace("title: Visits", "title: ???").replace("purpose: Plan beds.", "purpose: ???"),
        encoding="utf-8",
    )
    assert "line 3" in (output := tacit("validate", job, status=2).output) and "line 4" in output


def test_check_data_is_marked_and_names_what_is_wrong(job: Path, tmp_path: Path) -> None:
    found = tacit("check-data", job).stdout
    assert found.startswith("NOT PRIVATE")
    assert "'South' differs from 'south' only in capitals" in found and "missing: [-9]" in found
    assert json.loads(tacit("check-data", job, "--json").stdout)["mark"].startswith("NOT PRIVATE")
    tacit("check-data", job, "--out", tmp_path / "check.not-private.txt", status=2)
    (tmp_path / "notes").mkdir()
    tacit("check-data", job, "--out", tmp_path / "notes" / "check.not-private.txt")
    assert (
        (tmp_path / "notes" / "check.not-private.txt").read_text(encoding="utf-8").startswith("NOT PRIVATE")
    )


def test_a_release_that_does_not_add_up_is_held_back_until_it_is_accepted(job: Path) -> None:
    held = tacit("run", job, "--yes", status=1)
    assert "--accept" in held.output and not (job.parent / "release").exists()
    told = json.loads(tacit("run", job, "--yes", "--accept", "--json").stdout)
    assert told["resumed"] and "expected.rows" in told["accepted"][0]
    stands = json.loads(tacit("plan", job, "--quick", "--json").stdout)["ledger"]
    assert stands["known"] and "left" in stands["refused"]
    assert "REFUSED" in tacit("plan", job, "--quick").stdout


def test_the_analyst_of_a_run_is_the_user_of_the_system_and_must_be_named_among_several(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The officer's page had "not named" for every run of a job."""
    from tacit.ledger import Budget, Ledger

    monkeypatch.setenv("LOGNAME", "olga")
    pq.write_table(pa.table({"region": ["north", "south"] * 2000, "age": [30, 40] * 2000}), job.parent / "visits.parquet")
    tacit("run", job, "--yes")
    with Ledger.open(f"sqlite:///{job.parent / 'tacit.db'}") as book:
        assert book.analysts() == ["olga"]
        other = book.account("other", Budget(epsilon=1))
        other.spend(Laplace(noise_multiplier=10), purpose="a count by Ann", analyst="ann")
    monkeypatch.setenv("LOGNAME", "omar")
    found = tacit("run", job, "--yes", "--correction", "once more", status=2).output
    assert "several analysts" in found and "ann, olga" in found


def test_a_period_is_for_a_series(job: Path) -> None:
    assert "series" in tacit("plan", job, "--period", "2026-02", status=2).output
    assert "one of --lag" in tacit("series", job.parent, "--output", "a", "--figure", "n", status=2).output


def test_reports_for_one_audience_and_with_an_audit(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit import release
    from tacit.release import audited

    real = audited.audit_job
    monkeypatch.setattr(release, "audit_job", lambda found: real(found, trials=150), raising=False)
    pq.write_table(pa.table({"region": ["north", "south"] * 2000, "age": [30, 40] * 2000}), job.parent / "visits.parquet")
    tacit("run", job, "--yes")
    folder, page = job.parent / "release", job.parent / "page.html"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    tacit("report", folder, "--audience", "public", status=2)  # a page of its own needs a place
    tacit("report", folder, "--audience", "press", "--out", page, status=2)
    tacit("report", folder, "--audience", "public", "--out", page)
    text = page.read_text(encoding="utf-8")
    assert "each as likely as the one above" in text and "For reviewers" not in text
    told = json.loads(tacit("report", folder, "--audience", "officer", "--audit", job, "--out", page, "--json").stdout)
    assert 0 <= told["audit"]["lower"] <= told["audit"]["upper"] and "the audit, from below" in page.read_text(encoding="utf-8")
    job.write_text(JOB.replace("weight: 1", "weight: 2"), encoding="utf-8")
    tacit("report", folder, "--audit", job, "--out", page, status=2)  # another job
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
