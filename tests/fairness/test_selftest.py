"""The self-test of fairness: every right release stays under its claim, and every fault is caught."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import Case, Mutant
from tacit.fairness import selftest

CASES = [pytest.param(case, marks=pytest.mark.slow if case.slow else (), id=case.name) for case in selftest.cases()]


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_under_its_claim_and_at_its_floor(case: Case) -> None:
    found = case.tried(error=1e-6, seed=5)
    assert found.passed, found.reason


@pytest.mark.parametrize("mutant", selftest.mutants(), ids=lambda one: one.name)
def test_every_mutant_is_caught_and_its_right_form_is_not(mutant: Mutant) -> None:
    assert mutant.caught(error=1e-6, seed=6) and not mutant.caught(error=1e-6, seed=6, broken=False)


def test_the_part_needs_no_extra() -> None:
    assert selftest.part().name == "fairness" and selftest.part().missing == []
