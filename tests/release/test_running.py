"""Runs of jobs: one reservation, each output drawn once, all published or nothing, whatever happens in between."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.release.jobs import CANARY, book, changed, visits

from tacit import noise
from tacit.accounting import account, from_json
from tacit.ledger import BudgetExceeded, Ledger
from tacit.release import record
from tacit.release.errors import CheckFailed, JobError, OutputLost
from tacit.release.job import Job
from tacit.release.running import JobRun, RunStep, run
from tacit.release.work import Journal
from tacit.tables import Desk
from tacit.tables.errors import EngineError

JOB = changed()
FILES = {"by_region.csv", "by_region.parquet", "overall.csv", "overall.parquet", "release.json", "registry.yaml", "datapackage.json"}


class Stopped(BaseException):
    """The power fails."""


def _run(base: Path, job: Job = JOB, ledger: Ledger | None = None, **options: Any) -> JobRun:
    return run(job, base=base, ledger=ledger or book(base), tables={"visits": visits()}, report=False, **options)


def _journal(base: Path) -> Journal:
    return Journal().take((base / ".out.run").read_bytes())


def _entries(ledger: Ledger, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in ledger.entries() if entry["kind"] == kind]


def _spent(ledger: Ledger) -> Fraction:
    return ledger.accounts()[0].spent()["rho"] if ledger.accounts() else Fraction(0)


def test_a_run_publishes_everything_and_leaves_nothing_else(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    done = _run(tmp_path, ledger=ledger)
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    assert {file.name for file in tmp_path.iterdir()} - {"tacit.db", "tacit.db-wal", "tacit.db-shm"} == {"out"}
    assert _spent(ledger) == done.plan.charge["rho"] <= Fraction(1, 2)
    assert len(_entries(ledger, "reserve")) == len(_entries(ledger, "commit")) == 1
    assert done.private and not done.resumed and done.entry == _entries(ledger, "reserve")[0]["seq"]
    assert ledger.verify().ok
    assert "all of her rows" in done.unit_text and done.title == "Visits"


def test_the_tables_are_the_answers(tmp_path: Path) -> None:
    done = _run(tmp_path)
    table = parquet.read_table(tmp_path / "out" / "by_region.parquet")
    assert table.column("region").to_pylist() == ["north", "south"]
    assert table.column("n").to_pylist() == done.answers["by_region"]["n"].tolist()
    overall = csv.read_csv(tmp_path / "out" / "overall.csv").to_pylist()[0]
    raw = done.answers["overall"].raw_figures
    assert raw is not None and overall["n_raw"] == raw["n"].value[0]
    assert overall["n"] == max(round(overall["n_raw"]), 0)
    assert abs(overall["n"] - 241) < 60  # 240 rows and the canary's; the deviation is 7, so this fails once in 1e15 runs


def test_the_record_can_be_checked_by_machine(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    done = _run(tmp_path, ledger=ledger)
    content = json.loads((tmp_path / "out" / "release.json").read_text())
    assert content == json.loads(json.dumps(done.record))
    event = from_json(json.dumps(content["event"]))
    assert event == done.plan.event
    assert content["total"]["rho"]["upper"] >= account(event).rho().lower
    assert content["total"]["epsilon at delta 1e-06"]["upper"] == account(event).epsilon(1e-6).upper
    assert content["job"]["hash"] == JOB.digest() and len(content["code"]["hash"]) == 64
    assert content["private"] is True and content["mark"] == "private"
    assert ledger.verify(head=content["ledger"]["head"]).ok
    assert "path" not in json.dumps(content["job"]["content"]["sources"])
    assert set(content["files"]) == FILES
    import yaml

    record.check_registry(yaml.safe_load((tmp_path / "out" / "registry.yaml").read_text()))


def test_a_seeded_run_says_so_everywhere(tmp_path: Path) -> None:
    with noise.test_mode(1):
        done = _run(tmp_path)
    assert not done.private
    assert json.loads((tmp_path / "out" / "release.json").read_text())["mark"].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in (tmp_path / "out" / "overall.csv").read_text()
    assert "status: Draft" in (tmp_path / "out" / "registry.yaml").read_text()


#: Every step of a run of this job, in order.
STEPS: list[tuple[str, str | None]] = [
    *((name, None) for name in ("planned", "prepared", "reserved")),
    *((name, output) for output in ("by_region", "overall") for name in ("drawing", "begun", "drawn", "stored")),
    *((name, None) for name in ("checked", "written", "staged", "concluded", "published", "finished")),
]


def test_progress_tells_every_step(tmp_path: Path) -> None:
    seen: list[RunStep] = []
    _run(tmp_path, progress=seen.append)
    assert [(step.name, step.output) for step in seen] == STEPS
    assert [step.done for step in seen] == sorted(step.done for step in seen)
    assert {step.total for step in seen} == {2}


@pytest.mark.parametrize("stop", STEPS, ids=lambda stop: " ".join(filter(None, stop)))
def test_a_stop_between_any_two_steps_publishes_all_or_nothing(tmp_path: Path, stop: tuple[str, str | None]) -> None:
    """Stop after a step; then run again. Nothing is half there, nothing is drawn twice for one price, nothing is spent twice."""

    def stopper(step: RunStep) -> None:
        if (step.name, step.output) == stop:
            raise Stopped

    ledger = book(tmp_path)
    with pytest.raises(Stopped):
        _run(tmp_path, ledger=ledger, progress=stopper)
    out = tmp_path / "out"
    assert not out.exists() or {file.name for file in out.iterdir()} == FILES
    assert out.exists() == (stop[0] in ("published", "finished"))
    spent = _spent(ledger)
    assert (spent > 0) == (stop[0] not in ("planned", "prepared"))
    if stop[0] == "finished":
        return
    if stop[0] in ("begun", "drawn"):
        with pytest.raises(OutputLost, match=str(stop[1])):
            _run(tmp_path, ledger=ledger)
        assert not out.exists() and _spent(ledger) == spent
        return
    before = (out / "overall.csv").read_bytes() if out.exists() else None
    done = _run(tmp_path, ledger=ledger)
    assert {file.name for file in out.iterdir()} == FILES
    assert before is None or (out / "overall.csv").read_bytes() == before
    assert len(_entries(ledger, "reserve")) == len(_entries(ledger, "commit")) == 1
    assert _spent(ledger) == done.plan.charge["rho"]
    assert {file.name for file in tmp_path.iterdir()} - {"tacit.db", "tacit.db-wal", "tacit.db-shm"} == {"out"}


def test_what_was_stored_is_published_not_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draws: Counter[str] = Counter()
    plain = Desk.draw

    def counted(self: Desk, plan: Any) -> Any:
        draws[str(plan.question.aggregates)] += 1
        return plain(self, plan)

    monkeypatch.setattr(Desk, "draw", counted)
    ledger = book(tmp_path)

    def stopper(step: RunStep) -> None:
        if step.name == "checked":
            raise Stopped

    with pytest.raises(Stopped):
        _run(tmp_path, ledger=ledger, progress=stopper)
    kept = _journal(tmp_path).drawn("overall")
    done = _run(tmp_path, ledger=ledger)
    assert done.resumed and set(draws.values()) == {1} and len(draws) == 2
    assert kept is not None and next(iter(done.answers["overall"].raw.values())) == kept["released"]["sums"][0]


def _lose(base: Path, ledger: Ledger, job: Job) -> None:
    def stopper(step: RunStep) -> None:
        if (step.name, step.output) == ("drawn", "overall"):
            raise Stopped

    with pytest.raises(Stopped):
        _run(base, job, ledger, progress=stopper)


def test_a_lost_output_can_be_paid_for_again(tmp_path: Path) -> None:
    job = changed(("{rho: 0.5}", "{rho: 0.5, reserve: 0.5}"))
    ledger = book(tmp_path)
    _lose(tmp_path, ledger, job)
    first = _spent(ledger)
    done = _run(tmp_path, job, ledger, lost="correct")
    assert _spent(ledger) > first and _spent(ledger) <= Fraction(1, 2)
    reserved = _entries(ledger, "reserve")
    assert len(reserved) == 2 and reserved[1]["correction"] and not reserved[0].get("correction")
    assert done.record["ledger"]["corrections"] == 1 and len(done.event.events) == 2  # type: ignore[attr-defined]
    assert account(done.event).rho().upper > float(first)
    assert done.answers["overall"].entry == reserved[1]["seq"]


def test_a_correction_without_a_reserve_is_refused_and_publishes_nothing(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    _lose(tmp_path, ledger, JOB)
    with pytest.raises(BudgetExceeded):
        _run(tmp_path, ledger=ledger, lost="correct")
    assert not (tmp_path / "out").exists()


def test_a_lost_output_can_be_left_out(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    _lose(tmp_path, ledger, JOB)
    done = _run(tmp_path, ledger=ledger, lost="leave out")
    assert done.left_out == ("overall",) and set(done.answers) == {"by_region"}
    assert json.loads((tmp_path / "out" / "release.json").read_text())["left_out"] == ["overall"]
    assert not (tmp_path / "out" / "overall.csv").exists()


def test_a_second_run_on_the_same_data_is_refused_before_anything_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = book(tmp_path)
    _run(tmp_path, ledger=ledger)
    spent = _spent(ledger)
    monkeypatch.setattr(Desk, "draw", lambda *_: pytest.fail("drawn"))
    with pytest.raises(BudgetExceeded):
        _run(tmp_path, changed(("folder: out", "folder: again")), ledger)
    assert _spent(ledger) == spent and not (tmp_path / "again").exists()


def test_a_folder_that_is_there_is_never_touched(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(JobError, match="never overwritten"):
        _run(tmp_path, ledger=ledger)
    assert not ledger.accounts()  # refused before anything was booked
    (tmp_path / "out" / "mine.txt").rename(tmp_path / "mine.txt")
    (tmp_path / "out").rmdir()

    def intruder(step: RunStep) -> None:
        if step.name == "concluded":
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "other.txt").write_text("other")

    with pytest.raises(JobError, match="never overwritten"):
        _run(tmp_path, ledger=ledger, progress=intruder)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["other.txt"]
    (tmp_path / "out").rename(tmp_path / "aside")
    done = _run(tmp_path, ledger=ledger)
    assert done.resumed and len(_entries(ledger, "reserve")) == 1


def test_a_failed_check_holds_the_whole_release_and_keeps_the_charge(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    job = changed(("weight: 1, postprocess", "weight: 1, checks: {n: {least: 1.0e+6}}, postprocess"))
    with pytest.raises(CheckFailed, match="between 1e"):
        _run(tmp_path, job, ledger)
    assert not (tmp_path / "out").exists() and _spent(ledger) > Fraction(49, 100)


def test_a_check_with_one_end_passes_and_is_recorded(tmp_path: Path) -> None:
    done = _run(tmp_path, changed(("weight: 1, postprocess", "weight: 1, checks: {n: {least: 0}}, postprocess")))
    assert done.record["job"]["content"]["outputs"][1]["checks"] == {"n": {"least": 0.0, "most": None}}
    assert "overall: n is between 0 and inf: passed" in [str(finding) for finding in done.findings]


def test_a_changed_job_does_not_take_over_an_unfinished_run(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    _lose(tmp_path, ledger, JOB)
    with pytest.raises(JobError, match="another version"):
        _run(tmp_path, changed(("Plan beds.", "Plan more beds.")), ledger)


def test_an_unfinished_run_is_not_finished_on_other_data(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    _lose(tmp_path, ledger, JOB)
    with pytest.raises(JobError, match="or of its data"):
        run(JOB, base=tmp_path, ledger=ledger, tables={"visits": visits(50)}, report=False, lost="leave out")


def test_another_ledger_does_not_pay_for_what_was_begun(tmp_path: Path) -> None:
    _lose(tmp_path, book(tmp_path), JOB)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(JobError, match="another ledger"):
        _run(tmp_path, ledger=book(other))


def test_an_engine_that_fails_says_nothing_and_the_job_stays_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tacit.tables.engines.duckdb import DuckDB

    def broken(*_: Any) -> pa.Table:
        raise ValueError(f"row {CANARY} is malformed")

    parquet.write_table(visits(), tmp_path / "visits.parquet")
    monkeypatch.setattr(DuckDB, "run", broken)
    ledger = book(tmp_path)
    with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
        run(JOB, base=tmp_path, ledger=ledger, report=False)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert CANARY not in str(chain)
        chain = chain.__cause__ or chain.__context__
    assert CANARY not in caplog.text
    assert _spent(ledger) > Fraction(49, 100) and not (tmp_path / "out").exists()
    monkeypatch.undo()
    with pytest.raises(OutputLost):
        run(JOB, base=tmp_path, ledger=ledger, report=False)


def test_no_value_of_the_data_is_in_anything_that_is_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        done = _run(tmp_path)
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or CANARY.encode() not in file.read_bytes()
    shown = "".join(capsys.readouterr())
    assert CANARY not in caplog.text + shown + repr(done)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="lost must be"):
        _run(tmp_path, lost="retry")


def test_the_report_is_published_with_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("tacit.release.report")
    run(JOB, base=tmp_path, ledger=book(tmp_path), tables={"visits": visits()})
    assert "Plan beds." in (tmp_path / "out" / "report.html").read_text()
    assert CANARY not in (tmp_path / "out" / "report.html").read_text()


def test_a_job_in_rho_is_paid_from_an_account_in_epsilon_and_delta(tmp_path: Path) -> None:
    """The account charges the epsilon of the job's event at the delta that the job names, and no more than both."""
    job = changed(
        ("budget: {rho: 0.5}", "budget: {rho: 0.01, delta: 1e-7}\naccount: {name: clinic, budget: {epsilon: 2, delta: 1e-6}}"),
    )
    ledger = book(tmp_path)
    with noise.test_mode(3):
        done = run(job, base=tmp_path, ledger=ledger, tables={"visits": visits()}, report=False)
    left = ledger.account("clinic").left()
    spent = 2 - float(left["epsilon"])
    # Whatever event costs rho lies below rho + 2 sqrt(rho log(1 / delta)) = 0.813 (Bun and Steinke 2016, Proposition 1.3).
    assert 0.3 < spent <= 0.01 + 2 * math.sqrt(0.01 * math.log(1e7)) + 1e-9
    assert left["delta"] == Fraction(9, 10**7)
    assert done.plan.delta == Fraction(1, 10**7) and done.plan.cost.upper == pytest.approx(spent, rel=1e-6)


def test_a_delta_beside_rho_must_be_one() -> None:
    for wrong in ("0", "1", "-1e-6"):
        with pytest.raises(JobError, match="delta beside rho"):
            changed(("{rho: 0.5}", f"{{rho: 0.5, delta: {wrong}}}"))


def test_another_budget_for_the_same_data_needs_the_account(tmp_path: Path) -> None:
    """The first job opened it; the second is told to name it, and with it there is one budget for both."""
    ledger = book(tmp_path)
    run(changed(), base=tmp_path, ledger=ledger, tables={"visits": visits()}, report=False)
    other = (("rho: 0.5", "rho: 0.1"), ("folder: out", "folder: more"))
    with pytest.raises(JobError, match=r"budget: .*declare account: \{name: \.\.\., budget: \.\.\.\}"):
        run(changed(*other), base=tmp_path, ledger=ledger, tables={"visits": visits()}, report=False)
    named = (*other, ("budget: {rho: 0.1}", "account: {name: Visits, budget: {rho: 0.5}}\nbudget: {rho: 0.1}"))
    with pytest.raises(ValueError, match="refuses"):
        run(changed(*named), base=tmp_path, ledger=ledger, tables={"visits": visits()}, report=False)
