"""The protocol of kinds: the headcount of docs/kinds.md is planned, paid, lost, resumed, reported and recorded as a table is."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.release.jobs import CANARY, TEXT, book, visits
from tests.test_docs import blocks_of

from tacit import noise
from tacit.accounting import account, from_json
from tacit.ledger import Ledger
from tacit.release import JobError, JobRun, OutputLost, RunStep, kinds, plan, record, run
from tacit.release.job import Job, parse
from tacit.release.report import read, render
from tacit.tables import EngineError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kinds.md"
OUTPUTS = "outputs:\n  - {name: people, kind: headcount, title: People, source: visits, weight: 2}"


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The kind of the page, for the time of one test."""
    module = types.ModuleType("headcount")
    monkeypatch.setitem(sys.modules, "headcount", module)
    for block in blocks_of(PAGE.read_text(encoding="utf-8")):
        if block.language == "python" and ">>>" not in block.text:
            exec(compile(block.text, str(PAGE), "exec"), vars(module))
    made = vars(module)["Headcount"]()
    monkeypatch.setitem(kinds.KINDS, "headcount", made)
    yield made


def _job(budget: str = "{rho: 0.5}", *pairs: tuple[str, str]) -> Job:
    text = TEXT.replace("outputs:", OUTPUTS).replace("{rho: 0.5}", budget)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


class Stopped(BaseException):
    """The power fails."""


def _run(base: Path, ledger: Ledger, job: Job | None = None, stop: tuple[str, str | None] | None = None, **options: Any) -> JobRun:
    def stopper(step: RunStep) -> None:
        if (step.name, step.output) == stop:
            raise Stopped

    return run(job or _job(), base=base, ledger=ledger, tables={"visits": visits()}, progress=stopper, **options)


@pytest.mark.parametrize("budget", ["{rho: 0.5}", "{epsilon: 1, delta: 1e-6}", "{epsilon: 1, delta: 0}"])
def test_kinds_share_one_budget(budget: str) -> None:
    found = plan(_job(budget))
    assert [output.spec.kind for output in found.outputs] == ["headcount", "table", "table"]
    assert found.outputs[0].portion.part > found.outputs[1].portion.part
    limit = found.job.budget.typed().limits
    assert all(found.charge[name] <= limit[name] for name in limit)
    assert found.event.events[0] == found.outputs[0].event  # type: ignore[attr-defined]


def test_an_accuracy_may_be_asked_of_any_kind() -> None:
    job = _job("{epsilon: 1, delta: 1e-6}", ("source: visits, weight: 2", "source: visits, accuracy: {within: 20, confidence: 0.9}"))
    found = plan(job)["people"]
    assert found.errors_at(0.9)["people"] <= 20 < found.errors_at(0.9)["people"] * 1.2


def test_a_run_publishes_files_record_and_report(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    done = _run(tmp_path, ledger)
    assert abs(done.answers["people"]["people"] - 121) < 60 and done.private
    assert json.loads((done.folder / "people.json").read_text()) == done.answers["people"]
    content = json.loads((done.folder / "release.json").read_text())
    first = content["outputs"][0]
    assert first["kind"] == "headcount" and first["source"] == "visits" and "kind" not in content["outputs"][1]
    assert from_json(json.dumps(first["event"])) == done.plan["people"].event and "people.json" in content["files"]
    assert content["job"]["content"]["outputs"][0]["source"] == "visits"
    registered = yaml.safe_load((done.folder / "registry.yaml").read_text())
    record.check_registry(registered)
    assert registered["basic"]["data_product_type"] == "Number of people; Tables of aggregates"
    page = (done.folder / "report.html").read_text()
    assert f"<p>{done.answers['people']['people']} people, within" in page and "The outputs" in page
    assert "A headcount is about all people at once. Every group of a table" in page
    assert render(read(done.folder / "report.html")) == page
    assert "people: is a whole number: passed" in [str(finding) for finding in done.findings]
    assert ledger.verify().ok and account(done.event).rho().upper <= 0.5 + 1e-9


@pytest.mark.parametrize("stop", [("reserved", None), ("stored", "people"), ("stored", "overall"), ("staged", None), ("published", None)])
def test_a_run_that_is_stopped_goes_on_and_draws_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, stop: tuple[str, str | None]
) -> None:
    drawn, draw = list[dict[str, Any]](), kind.draw
    monkeypatch.setattr(kind, "draw", lambda planned: drawn.append(draw(planned)) or drawn[-1])  # type: ignore[func-returns-value]
    ledger = book(tmp_path)
    with pytest.raises(Stopped):
        _run(tmp_path, ledger, stop=stop)
    done = _run(tmp_path, ledger)
    assert done.resumed and len(drawn) == 1 and done.answers["people"]["people"] == drawn[0]["people"]
    assert [entry["kind"] for entry in ledger.entries()].count("reserve") == 1


def test_a_lost_draw_is_paid_again_or_left_out(tmp_path: Path) -> None:
    job, ledger = _job("{rho: 0.5, reserve: 0.5}"), book(tmp_path)
    with pytest.raises(Stopped):
        _run(tmp_path, ledger, job, ("drawn", "people"))
    with pytest.raises(OutputLost):
        _run(tmp_path, ledger, job)
    done = _run(tmp_path, ledger, job, lost="correct")
    assert done.record["ledger"]["corrections"] == 1
    more = tmp_path / "more"
    more.mkdir()
    with pytest.raises(Stopped):
        _run(more, book(more), job, ("drawn", "people"))
    rest = _run(more, book(more), job, lost="leave out")
    assert "people" not in rest.answers and "This number was left out." in (rest.folder / "report.html").read_text()


def test_what_goes_wrong_in_a_draw_is_withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    def broken(planned: Any) -> dict[str, Any]:
        raise ValueError(f"{CANARY} is no number")

    monkeypatch.setattr(kind, "draw", broken)
    with pytest.raises(EngineError) as caught:
        _run(tmp_path, book(tmp_path))
    error: BaseException | None = caught.value
    while error is not None:
        assert CANARY not in str(error)
        error = error.__cause__ or error.__context__


def test_a_draw_from_a_seed_is_marked(tmp_path: Path) -> None:
    with noise.test_mode(4):
        done = _run(tmp_path, book(tmp_path))
    assert not done.private and done.answers["people"]["private"] is False


def test_faults_of_a_block_name_their_place() -> None:
    with pytest.raises(JobError, match=r"outputs\[0\].sourse: there is no such field; did you mean source\?; outputs\[0\] has accuracy"):
        _job("{rho: 0.5}", ("source: visits", "sourse: visits"))
    with pytest.raises(JobError, match=r"outputs\[0\].source: is missing"):
        _job("{rho: 0.5}", (", source: visits", ""))
    with pytest.raises(JobError, match=r"outputs\[0\]: kind must be table or workload or .* or headcount; did you mean headcount\?"):
        _job("{rho: 0.5}", ("kind: headcount", "kind: head_count"))
    with pytest.raises(JobError, match=r"outputs\[0\].source: names no private source"):
        plan(_job("{rho: 0.5}", ("source: visits", "source: wards")))


def test_a_table_is_meant_where_no_kind_is_given() -> None:
    said = parse(TEXT.replace("{name: overall,", "{name: overall, kind: table,"))
    assert said == parse(TEXT) and said.digest() == parse(TEXT).digest()


def test_a_rehearsal_says_what_it_does_not_compare() -> None:
    from tacit.release.rehearsal import rehearse
    from tacit.release.tuner import suggestions

    job = _job("{epsilon: 1, delta: 1e-6}")
    found = rehearse(job, {"visits": visits()}, data="dummy", runs=2)
    assert "no table but headcount" in found.left_out["people"] and found.lines
    assert suggestions(job) is not None and isinstance(visits(), pa.Table)
