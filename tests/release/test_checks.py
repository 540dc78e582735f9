"""Checks of outputs: a sound answer passes, and every way of being unsound is caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.release.jobs import changed

from tacit import noise
from tacit.release import checks
from tacit.release.desk import Desk, answered
from tacit.release.errors import CheckFailed
from tacit.release.planning import plan
from tacit.release.sources import blank
from tacit.tables.answer import Answer, Figures

JOB = changed()
PLAN = plan(JOB)


def _answers() -> dict[str, Answer]:
    desk = Desk(JOB, blank(JOB))
    with noise.test_mode(3):
        return {o.name: answered(o.plan, desk.draw(o.plan), o.spec, 0.95, False, None) for o in PLAN.outputs}


ANSWERS = _answers()


def _spoilt(part: str, value: float) -> Answer:
    good = ANSWERS["by_region"].figures["n"]
    parts = {name: np.array(getattr(good, name)) for name in ("value", "low", "high")}
    parts[part][0] = value
    return replace(ANSWERS["by_region"], figures={**ANSWERS["by_region"].figures, "n": Figures(**parts)})


def _keys(values: list[Any]) -> Answer:
    return replace(ANSWERS["by_region"], keys={"region": values})


def test_sound_answers_pass_every_check() -> None:
    found = checks.passed(PLAN, ANSWERS)
    assert len(found) >= 14 and all(finding.passed for finding in found)
    assert str(found[0]) == "by_region: has the figures that were asked for: passed"


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
    with pytest.raises(CheckFailed, match=check):
        checks.passed(PLAN, {**ANSWERS, "by_region": answer})


def test_declared_ranges_are_checked() -> None:
    limited = plan(changed(("weight: 1, postprocess", "weight: 1, checks: {n: {least: -100, most: 100}}, postprocess")))
    assert all(finding.passed for finding in checks.findings(limited["overall"], ANSWERS["overall"]))
    beyond = plan(changed(("weight: 1, postprocess", "weight: 1, checks: {n: {least: 1000}}, postprocess")))
    assert [f.check for f in checks.findings(beyond["overall"], ANSWERS["overall"]) if not f.passed] == ["n is between 1000 and inf"]
