"""What the self-test attacks in health: right releases keep their claims, printed faults are caught."""

from __future__ import annotations

import pytest

from tacit.applications.health import selftest
from tacit.audit.selftest import Case, Mutant


@pytest.mark.parametrize("case", selftest.cases(), ids=lambda case: case.name)
def test_under_its_claim_and_at_its_floor(case: Case) -> None:
    # A right case is called broken with probability at most 1e-6, if the seed were fresh.
    found = case.tried(error=1e-6, seed=5)
    assert found.passed, found.reason


@pytest.mark.parametrize("mutant", selftest.mutants(), ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    assert mutant.caught(seed=3)
    assert mutant.caught(seed=3, broken=False) == ""
    assert mutant.what.endswith(".")
