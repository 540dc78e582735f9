"""The six questions before a release: read without defaults, held against the job, shown in plan, report and record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.release.kinds.test_model import TEXT as TRAINING
from typer.testing import CliRunner

from tacit.cli.app import app
from tacit.noise import test_mode as seeded
from tacit.release import QUESTIONS, JobError, described_preparation, parse, plan, report, run, tables_for
from tacit.release.job import EXAMPLE
from tacit.server.requests import NewModel

ANSWERS: dict[str, dict[str, Any]] = {
    "unit": {"answer": "a patient with all visits", "protects": "person"},
    "complexity": {"answer": "counts by region are enough", "baseline": "by_region"},
    "attack_model": {"answer": "anyone may read the tables", "sees": "everything", "inputs": "trusted"},
    "environment": {"answer": "a server of the hospital", "logs": "curator"},
    "data_window": {"answer": "visits of 2025, once", "again": "never"},
    "accuracy_needed": {"answer": "beds are planned in tens", "within": {"by_region.visits": 40}},
}


def written(base: str = EXAMPLE, **changed: dict[str, Any]) -> str:
    """A job with the six answers, some of them changed."""
    answers = {name: {**answer, **changed.get(name, {})} for name, answer in ANSWERS.items()}
    return base + yaml.safe_dump({"preparation": answers})


def test_answers_are_told_with_what_follows_from_them() -> None:
    told = described_preparation(plan(parse(written())))
    assert [one["name"] for one in told] == list(QUESTIONS) == list(ANSWERS)
    assert [one["question"] for one in told] == [question for question, _ in QUESTIONS.values()]
    assert [one["answer"] for one in told] == [answer["answer"] for answer in ANSWERS.values()]
    assert told[0]["follows"] == ["checked: the job's unit protects all of a person's rows"]
    assert told[1]["follows"] == ["simple baseline: by_region"]
    assert len(told[2]["follows"]) == 2 and all(len(one["follows"]) == 1 for one in told[3:])
    other = described_preparation(plan(parse(written(attack_model={"sees": "answers", "inputs": "anyone"}))))
    assert set(other[2]["follows"]).isdisjoint(told[2]["follows"])


def test_the_service_asks_the_same_six() -> None:
    from tacit.server.pages import models

    assert models.QUESTIONS is QUESTIONS
    assert set(QUESTIONS) < set(NewModel.model_fields)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_no_answer_and_no_decision_has_a_default(name: str) -> None:
    for field in [None, *ANSWERS[name]]:
        answers = {key: dict(value) for key, value in ANSWERS.items()}
        if field is None:
            del answers[name]
        else:
            del answers[name][field]
        with pytest.raises(JobError, match=rf"preparation\.{name}{'' if field is None else rf'.{field}'}"):
            parse(EXAMPLE + yaml.safe_dump({"preparation": answers}))
    with pytest.raises(JobError, match=name):
        parse(written(**{name: {"answer": " "}}))
    with pytest.raises(JobError, match=name):
        parse(written(**{name: {"stranger": 1}}))


SERIES = "series: {name: visits, every: month, budget: {epsilon: 12, delta: 1e-5}, per: total}\nperiod: 2026-03\n"


@pytest.mark.parametrize(
    ("changed", "base", "place"),
    [
        ({"unit": {"protects": "row"}}, EXAMPLE, "preparation.unit.protects"),
        ({"complexity": {"baseline": "by_ward"}}, EXAMPLE, "preparation.complexity.baseline"),
        ({"data_window": {"again": "same data"}}, EXAMPLE, "preparation.data_window.again"),
        ({}, EXAMPLE.replace("visits.parquet", '"visits-{period}.parquet"').replace("folder: release", 'folder: "r-{period}"') + SERIES,
         "preparation.data_window.again"),
        ({"accuracy_needed": {"within": {"by_ward.visits": 1}}}, EXAMPLE, "preparation.accuracy_needed.within"),
        ({"accuracy_needed": {"within": {"by_region": 1}}}, EXAMPLE, "preparation.accuracy_needed.within"),
    ],
)
def test_what_the_job_contradicts_is_refused(changed: dict[str, Any], base: str, place: str) -> None:
    with pytest.raises(JobError) as caught:
        parse(written(base, **changed))
    assert caught.value.place == place


def test_what_agrees_is_taken() -> None:
    shared = EXAMPLE + "account: {name: all, budget: {epsilon: 3, delta: 1e-5}}\n"
    assert parse(written(shared, data_window={"again": "same data"})).preparation is not None
    rows = EXAMPLE.replace("{person: patient_id, max_rows: 4, adjacency: add-remove}", "{row: true, adjacency: add-remove}")
    assert parse(written(rows, unit={"protects": "row"})).preparation is not None


def test_limits_are_held_against_the_plan() -> None:
    planned = plan(parse(written()))
    foretold = planned["by_region"].errors["visits"]
    for within, verdict, rules in ((foretold * 1.01, ": met", []), (foretold * 0.99, ": NOT met", ["accuracy missed"])):
        found = plan(parse(written(accuracy_needed={"within": {"by_region.visits": within}})))
        assert described_preparation(found)[5]["follows"][0].endswith(verdict)
        assert [notice.rule for notice in found.warnings if notice.rule.startswith("accuracy")] == rules
    unknown = plan(parse(written(accuracy_needed={"within": {"by_region.sum": 1}})))
    assert [notice.rule for notice in unknown.warnings if notice.rule.startswith("accuracy")] == ["accuracy unknown"]
    assert "by_region.visits" in str(unknown.warnings[-1]) and "nothing is foretold" in described_preparation(unknown)[5]["follows"][0]
    assert described_preparation(plan(parse(written(accuracy_needed={"within": {}}))))[5]["follows"] == ["no limit was set"]


def test_a_training_without_answers_or_without_a_baseline_is_told() -> None:
    assert "six questions" in [notice.rule for notice in plan(parse(TRAINING)).warnings]
    assert "six questions" not in [notice.rule for notice in plan(parse(EXAMPLE)).warnings]
    answered = written(TRAINING, complexity={"baseline": "none"}, accuracy_needed={"within": {}})
    assert [notice.rule for notice in plan(parse(answered)).warnings if notice.place.startswith("preparation")] == ["no baseline"]
    # a logistic regression is a linear model, so it is simple; one of trees is not
    own = {"complexity": {"baseline": "again"}, "accuracy_needed": {"within": {}}}
    assert parse(written(TRAINING, **own)).preparation is not None
    grown = TRAINING.replace("estimator: LogisticRegression", "estimator: RandomForestClassifier")
    grown = grown.replace("save: [json, npz, onnx, joblib]", "save: [json]")
    assert grown != TRAINING
    with pytest.raises(JobError, match="linear model") as refused:
        parse(written(grown, **own))
    assert refused.value.place == "preparation.complexity.baseline"


def test_a_job_without_answers_keeps_its_fingerprint() -> None:
    plain, answered = parse(EXAMPLE), parse(written())
    assert "preparation" not in json.dumps(plain.model_dump(mode="json", exclude_none=True))
    assert plain.digest() == "58a02f3df4d25604054389e1b31f89cb6d866bc2dd0d9aff44586ba26d3ad61f" and answered.digest() != plain.digest()


def test_answers_are_in_plan_report_and_record(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(written(), encoding="utf-8")
    shown = CliRunner().invoke(app, ["plan", str(job), "--quick"])
    assert shown.exit_code == 0 and "Six questions before it" in shown.output and "beds are planned in tens" in shown.output
    told = json.loads(CliRunner().invoke(app, ["plan", str(job), "--quick", "--json"]).output)
    assert [one["name"] for one in told["preparation"]] == list(QUESTIONS)
    parsed = parse(written())
    with seeded(1):
        run(parsed, base=tmp_path, tables=tables_for(parsed, 200))
    kept = json.loads((tmp_path / "release" / "release.json").read_text(encoding="utf-8"))
    assert kept["preparation"] == described_preparation(plan(parsed)) and kept["job"]["content"]["preparation"]["unit"] == ANSWERS["unit"]
    page = (tmp_path / "release" / "report.html").read_text(encoding="utf-8")
    assert all(question.replace("'", "&#39;") in page for question, _ in QUESTIONS.values()) and "beds are planned in tens" in page
    assert "preparation" not in report.AUDIENCES["public"] and "preparation" in report.AUDIENCES["officer"]


def test_a_job_without_answers_has_none_in_its_plan_and_record(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(EXAMPLE, encoding="utf-8")
    told = json.loads(CliRunner().invoke(app, ["plan", str(tmp_path / "job.yaml"), "--quick", "--json"]).output)
    assert "preparation" not in told
    parsed = parse(EXAMPLE)
    with seeded(1):
        run(parsed, base=tmp_path, tables=tables_for(parsed, 200))
    kept = json.loads((tmp_path / "release" / "release.json").read_text(encoding="utf-8"))
    assert "preparation" not in kept and "preparation" not in kept["job"]["content"]
    assert "Six questions" not in (tmp_path / "release" / "report.html").read_text(encoding="utf-8")
