"""Tables in a job: questions with everything SQL may say of released values, joins, periods; and whether what was drawn is sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.release.jobs import book, changed, visits

from tacit import noise
from tacit.release.errors import JobError
from tacit.release.kinds import table
from tacit.release.planning import plan
from tacit.release.running import run
from tacit.tables import Answer, Figures

COUNT = "SELECT COUNT(*) AS n FROM visits, weight: 1, postprocess: {nonnegative: [n], whole: [n]}"
MANY = ("rho: 0.5", "rho: 5000")


def test_having_order_and_limit_are_about_released_values(tmp_path: Path) -> None:
    job = changed(
        (COUNT, "'SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING n > 100 ORDER BY n DESC LIMIT 1', weight: 1"), MANY
    )
    done = run(job, base=tmp_path, ledger=book(tmp_path), tables={"visits": visits()}, report=False)
    # 180 north and 60 south; noise of deviation below one
    assert done.answers["overall"].keys["region"] == ["north"] and done.answers["overall"].rows == 1


def test_a_figure_may_be_computed_of_others(tmp_path: Path) -> None:
    job = changed((COUNT, "'SELECT SUM(age) / COUNT(*) AS each FROM visits', weight: 1, checks: {each: {least: 0, most: 110}}"), MANY)
    done = run(job, base=tmp_path, ledger=book(tmp_path), tables={"visits": visits()}, report=False)
    truth = sum(i % 90 for i in range(240)) / 241
    assert done.answers["overall"]["each"][0] == pytest.approx(truth, abs=1)


def test_a_job_may_be_written_in_another_dialect(tmp_path: Path) -> None:
    """What is cast to a whole number loses its half in Spark, and is rounded to the even one in DuckDB."""
    figure = "'SELECT SUM(CAST(age / 2 AS INT)) AS half FROM visits', weight: 1"
    truths = {"dialect: Spark\n": sum(i % 90 // 2 for i in range(240)), "": sum(round(i % 90 / 2) for i in range(240))}
    assert abs(truths[""] - truths["dialect: Spark\n"]) > 50
    for said, truth in truths.items():
        job = changed((COUNT, figure), MANY, ("outputs:", f"{said}outputs:"))
        place = tmp_path / str(len(said))
        place.mkdir()
        done = run(job, base=place, ledger=book(place), tables={"visits": visits()}, report=False)
        assert done.answers["overall"]["half"][0] == pytest.approx(truth, abs=10)
    assert changed(("outputs:", "dialect: spark\noutputs:")).digest() != changed().digest()
    with pytest.raises(JobError, match="dialect must be the name of one"):
        changed(("outputs:", "dialect: latin\noutputs:"))


def test_bounds_belong_to_a_column_and_not_to_its_namesake() -> None:
    """A sum of ages is called age here; the declared ages say nothing about it."""
    sql = "'SELECT AVG(age) AS mean FROM (SELECT patient_id, SUM(age) AS age FROM visits GROUP BY patient_id) AS p', weight: 1"
    with pytest.raises(JobError, match="bounds"):
        plan(changed((COUNT, sql)))


def test_a_public_table_may_be_joined(tmp_path: Path) -> None:
    job = changed(
        ("{path: visits.parquet}", "{path: visits.parquet}, regions: {path: regions.parquet, public: true}"),
        *((f"{name}: {{type:", f"{name}: {{table: visits, type:") for name in ("patient_id", "region", "ward", "age")),
        ("outputs:", "  zone: {table: regions, type: text, categories: [cold, warm]}\n  name: {table: regions, type: text}\noutputs:"),
        (COUNT, "'SELECT r.zone, COUNT(*) AS n FROM visits v JOIN regions r ON v.region = r.name GROUP BY r.zone', weight: 1"),
        MANY,
    )
    regions = pa.table({"name": ["north", "south"], "zone": ["cold", "warm"]})
    done = run(job, base=tmp_path, ledger=book(tmp_path), tables={"visits": visits(), "regions": regions}, report=False)
    assert done.answers["overall"]["n"] == pytest.approx([180, 60], abs=5)
    assert plan(job).outputs[1].groups == 2


def test_a_price_in_the_question_is_refused() -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 3, delta = 0.01) COUNT(*) AS n FROM visits"
    with pytest.raises(JobError, match="leave OPTIONS out"):
        plan(changed((COUNT, f"'{sql}', weight: 1")))


def test_a_unit_with_a_window_is_asked_about_one_period(tmp_path: Path) -> None:
    import datetime

    days = [datetime.date(2026, 1 + i % 2, 1 + i % 28) for i in range(241)]
    job = changed(
        ("adjacency: add-remove}", "adjacency: add-remove, window: month, when: day}\nperiod: 2026-01"),
        ("outputs:", "  day: {type: date}\noutputs:"),
        MANY,
    )
    ledger = book(tmp_path)
    table = visits().append_column("day", pa.array(days))
    done = run(job, base=tmp_path, ledger=ledger, tables={"visits": table}, report=False)
    assert done.answers["overall"]["n"][0] == pytest.approx(121, abs=5)
    assert ledger.accounts()[0].spent("2026-01")["rho"] == done.plan.charge["rho"]
    assert done.record["unit"]["period"] == "2026-01"


def test_keys_selected_privately_drop_the_lonely(tmp_path: Path) -> None:
    """The canary's ward has one person: it appears with probability at most delta, and in test mode with this seed it does not."""
    job = changed(
        ("rho: 0.5", "epsilon: 4, delta: 1e-6"),
        (COUNT, "'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward', keys: private, weight: 1"),
    )
    with noise.test_mode(5):
        done = run(job, base=tmp_path, ledger=book(tmp_path), tables={"visits": visits()}, report=False)
    assert sorted(done.answers["overall"].keys["ward"]) == ["A", "B"]
    assert not done.private


# --- checks

JOB = changed()
PLAN = plan(JOB)


def _answers() -> dict[str, Answer]:
    with noise.test_mode(3):
        return {o.spec.name: table.result(o, table.draw(o), False, None) for o in PLAN.outputs}


ANSWERS = _answers()


def _spoilt(part: str, value: float) -> Answer:
    good = ANSWERS["by_region"].figures["n"]
    parts = {name: np.array(getattr(good, name)) for name in ("value", "low", "high")}
    parts[part][0] = value
    return replace(ANSWERS["by_region"], figures={**ANSWERS["by_region"].figures, "n": Figures(**parts)})


def _keys(values: list[Any]) -> Answer:
    return replace(ANSWERS["by_region"], keys={"region": values})


def test_sound_answers_pass_every_check() -> None:
    found = [check for output in PLAN.outputs for check in table.checks(output, ANSWERS[output.spec.name])]
    assert len(found) >= 14 and all(passed for _, passed in found)
    assert found[0] == ("has the figures that were asked for", True)


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        (_spoilt("value", float("nan")), "n is finite"),
        (_spoilt("high", float("inf")), "n is finite"),
        (_spoilt("low", 1e9), "in its interval"),
        (_keys(["north", "north"]), "appears twice"),
        (_keys(["north", "west"]), "every declared group"),
        (_keys(["north"]), "value for every group"),
        (replace(ANSWERS["by_region"], keys={"area": ["north", "south"]}), "keys that were asked for"),
        (replace(ANSWERS["by_region"], figures={"n": ANSWERS["by_region"].figures["n"]}), "figures that were asked for"),
    ],
    ids=["nan", "infinite", "interval", "twice", "missing", "short", "keys", "figures"],
)
def test_an_unsound_answer_is_caught(answer: Answer, check: str) -> None:
    failed = [said for said, passed in table.checks(PLAN["by_region"], answer) if not passed]
    assert any(check in said for said in failed)


def test_declared_ranges_are_checked() -> None:
    limited = plan(changed(("weight: 1, postprocess", "weight: 1, checks: {n: {least: -100, most: 100}}, postprocess")))
    assert all(passed for _, passed in table.checks(limited["overall"], ANSWERS["overall"]))
    beyond = plan(changed(("weight: 1, postprocess", "weight: 1, checks: {n: {least: 1000}}, postprocess")))
    assert [said for said, passed in table.checks(beyond["overall"], ANSWERS["overall"]) if not passed] == ["n is between 1000 and inf"]


def test_the_report_says_who_pays_for_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative error by size of a group, what moving counts below 0 to 0 adds, and thresholds that misjudge."""
    from tacit.fairness import clipping_bias, threshold_error

    planned = plan(changed())["by_region"]
    rows = table.described(planned, None)["who_pays"]["rows"]
    share = next(s for s in planned.plan.shares if s.measure.name == "rows")
    assert [row["size"] for row in rows] == [10, 100, 1000, 10_000]
    small = rows[0]
    assert small["relative"] == pytest.approx(share.deviation / 10, rel=1e-3)
    law, scale = ("gaussian", share.deviation) if share.law == "gaussian" else ("laplace", share.spread)
    assert small["lift"] == pytest.approx(clipping_bias(10, scale, law), rel=1e-3)  # type: ignore[arg-type]
    assert small["misjudged"] == pytest.approx(threshold_error(10, threshold=10 / 1.2, scale=scale, law=law), rel=1e-3)  # type: ignore[arg-type]
    assert "Who pays for the noise?" in table.section(table.described(planned, None), "95%")
