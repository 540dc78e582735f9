"""The self-test of vision: cases under their claims and at their floors, mutants caught, right forms not."""

from __future__ import annotations

import pytest

from tacit.applications.vision.selftest import cases, mutants
from tacit.audit.selftest import Case, Mutant


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_cases_keep_their_claims(case: Case) -> None:
    found = case.tried(error=1e-6, seed=5, quick=True)
    assert found.passed, found.reason


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_cases_reach_their_floors(case: Case) -> None:
    found = case.tried(error=1e-6, seed=6)
    assert found.passed, (found.reason, found.verdict.share)


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_mutants_are_caught_and_what_is_right_is_not(mutant: Mutant) -> None:
    assert mutant.caught(seed=7) and not mutant.caught(seed=7, broken=False)
