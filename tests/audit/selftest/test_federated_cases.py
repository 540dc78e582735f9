"""Federations under attack: right sums keep their claims, and the six sabotaged builds are caught."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import federated_cases
from tacit.audit.selftest.case import Case, Mutant


def test_there_are_six_sabotages() -> None:
    assert len(federated_cases.mutants()) == 6


@pytest.mark.parametrize("mutant", federated_cases.mutants(), ids=lambda mutant: mutant.name)
def test_a_sabotage_is_caught_and_the_right_build_is_not(mutant: Mutant) -> None:
    assert mutant.caught(seed=1) and not mutant.caught(seed=2, broken=False)


@pytest.mark.parametrize("case", federated_cases.cases(), ids=lambda case: case.name)
def test_a_sum_keeps_its_claim_and_the_attack_reaches_its_floor(case: Case) -> None:
    assert case.tried(seed=1).passed, case.tried(seed=1).reason
