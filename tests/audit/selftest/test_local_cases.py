"""Local reports in the self-test: the six sabotages are caught, and the same code without them is not."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import local_cases
from tacit.audit.selftest.case import Case, Mutant

SABOTAGES = {
    "floating-point noise", "hash chosen by the value", "memory lost at a restart", "flips in the wrong direction",
    "batch smaller than priced", "one person twice",
}  # fmt: skip


def test_every_sabotage_of_the_specification_is_there() -> None:
    assert {mutant.name.removeprefix("local: ") for mutant in local_cases.mutants()} >= SABOTAGES


@pytest.mark.parametrize("mutant", local_cases.mutants(), ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    assert "epsilon" in mutant.caught(seed=3)
    assert mutant.caught(seed=3, broken=False) == ""
    assert mutant.what.endswith(".")


@pytest.mark.parametrize("case", local_cases.cases(), ids=lambda case: case.name)
def test_under_its_claim_and_at_its_floor(case: Case) -> None:
    found = case.tried(error=1e-8, seed=4)
    assert found.passed, found.reason
