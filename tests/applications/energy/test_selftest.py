"""The self-test of energy: every right release stays under its claim, and every fault is caught."""

from __future__ import annotations

import pytest

from tacit.applications.energy import selftest

CASES, MUTANTS = {one.name: one for one in selftest.cases()}, {one.name: one for one in selftest.mutants()}


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_under_its_claim_and_at_its_floor(name: str) -> None:
    found = CASES[name].tried(error=1e-8, quick=True)
    assert found.passed, found.reason


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught_and_its_right_form_is_not(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.caught(error=1e-8) and not mutant.caught(error=1e-8, broken=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_case_with_all_its_samples(name: str) -> None:
    found = CASES[name].tried(error=1e-8)
    assert found.passed, found.reason


def test_the_part_names_what_it_needs() -> None:
    found = selftest.part()
    assert found.name == "energy" and found.missing == []
    assert {name.partition(":")[0] for name in (*CASES, *MUTANTS)} == {"energy"}
