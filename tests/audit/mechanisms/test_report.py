"""The one call: every mutant is caught, every right version is not, and the report says what it is."""

from __future__ import annotations

import json

import pytest
from tests.audit.broken import MUTANTS, Mutant, count, half_noise, reset

from tacit.accounting import Adjacency, ParameterError
from tacit.audit.claim import Claim
from tacit.audit.mechanisms.neighbours import Neighbours, neighbours
from tacit.audit.mechanisms.report import MechanismReport, audit_mechanism
from tacit.calculus import AddRemove, Integers, Rows, Space, clamp, total
from tacit.mechanisms import laplace


def audited(mutant: Mutant, *, broken: bool) -> MechanismReport:
    function = mutant.broken if broken else mutant.right
    reset(11)
    # 99.9% for each report: over the right versions of all mutants, a false alarm in one run of fifty; with a seed, the same on every run.
    return audit_mechanism(function, mutant.claim, neighbours=mutant.pairs, trials=mutant.trials, confidence=0.999, seed=11)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught(mutant: Mutant) -> None:
    assert audited(mutant, broken=True).broken


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_right_version_passes(mutant: Mutant) -> None:
    report = audited(mutant, broken=False)
    assert not report.broken, str(report)


def test_the_report_says_what_was_tried_and_goes_through_json() -> None:
    reset(1)
    report = audit_mechanism(half_noise, "eps=1", data=[1, 2, 3], trials=5000, confidence=0.999, seed=1)
    read = json.loads(json.dumps(report.to_json()))
    assert report.broken and read["broken"] and read["confidence"] == 0.999
    assert Claim.from_json(read["claim"]) == report.claim == Claim.of(epsilon=1)
    assert all(verdict["attack"] and verdict["game"] and verdict["trials"] == 5000 for verdict in read["verdicts"])
    assert "BROKEN" in str(report) and f"{len(report.pairs)} pairs of inputs tried" in str(report) and len(report.pairs) > 10
    assert report.worst.broken and report.worst.evidence.lower > 1


def test_nothing_found_is_never_called_safe() -> None:
    reset(2)
    report = audit_mechanism(count, "eps=1", trials=2000, confidence=0.999, seed=2)  # built-in data sets
    text = str(report) + json.dumps(report.to_json())
    assert not report.broken and "no proof" in text and "safe" not in text.lower()
    assert any("whole numbers" in pair for pair in report.pairs) and any("floats" in pair for pair in report.pairs)


def test_a_plan_of_ours_under_both_relations() -> None:
    plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 10) >> total() >> laplace(scale=10)
    pair = Neighbours("a large row", [3, 1], [3, 1, 99])

    def run(rows: list[int]) -> int:
        return int(plan.release(rows).value)

    report = audit_mechanism(run, "eps=1", neighbours=[pair], trials=2000, confidence=0.999, seed=3)
    assert not report.broken and report.worst.share > 0.5 and not report.divergences
    exchanged = Claim.of(epsilon=1, adjacency="replace-one")
    report = audit_mechanism(run, exchanged, neighbours=neighbours([0, 1], "replace-one")[:2], deep=1, trials=500, confidence=0.999, seed=3)
    assert report.claim.adjacency is Adjacency.REPLACE_ONE and not any(verdict.broken for verdict in report.verdicts)


@pytest.mark.parametrize(
    ("claim", "broken"), [("eps=1,delta=1e-6", False), ("eps=0.6,delta=1e-3", True), ("mu=1.2", False), ("rho=0.05", True)]
)
def test_claims_in_every_currency(claim: str, broken: bool) -> None:
    reset(4)
    # A count with discrete Laplace noise of scale 1: epsilon 1; its best test has mu 1.07 at most; rho would be 0.35.
    assert audit_mechanism(count, claim, data=[1], trials=20_000, confidence=0.99, seed=4).broken is broken


def test_the_clock_is_a_warning_and_no_refutation() -> None:
    def slow(rows: list[int]) -> int:
        sum(range(20_000 * (len(rows) > 1)))
        return 0

    report = audit_mechanism(slow, "eps=1", neighbours=[([1], [1, 1])], trials=100, timing=60, seed=5)
    assert report.timing is not None and report.timing.found and not report.broken
    assert any("time a call takes" in text for text in report.warnings)


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="no pair of inputs"):
        audit_mechanism(len, "eps=1", data=[])
    with pytest.raises(ParameterError, match="not understood"):
        audit_mechanism(len, "epsilonn=1")
