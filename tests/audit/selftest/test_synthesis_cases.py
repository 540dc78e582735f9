"""The sabotages of synthesizers are caught, each by what it does, and the same synthesizers without them are not."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import synthesis_cases
from tacit.audit.selftest.case import Case, Mutant

BY = {
    "categories from the data": "control flow",
    "bins from the data": "output",
    "as many rows as the data": "output",
    "max_rows not in one-ways": "sensitivity",
    "max_rows not in scores": "sensitivity",
    "max_rows not in marginals": "sensitivity",
    "scores against the true total": "sensitivity",
    "noise once for two measurements": "output",
    "annealing beyond the filter": "price",
    "an evaluation unpaid": "output",
    "a missing value raises": "control flow",
    "an undeclared value raises": "control flow",
    "an empty table is refused": "control flow",
    "noise for one parent's rows": "sensitivity",
}


def test_every_sabotage_of_the_specification_is_there() -> None:
    assert {mutant.name.removeprefix("synthesis: ") for mutant in synthesis_cases.mutants()} >= set(BY)


@pytest.mark.parametrize("mutant", synthesis_cases.mutants(), ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    expected = BY.get(mutant.name.removeprefix("synthesis: "), "")
    assert mutant.caught(seed=3).startswith(f"replay: {expected}")
    assert mutant.caught(seed=3, broken=False) == ""
    assert mutant.what.endswith(".")


@pytest.mark.parametrize("case", synthesis_cases.cases(), ids=lambda case: case.name)
def test_under_its_claim_and_at_its_floor(case: Case) -> None:
    # A right case is called broken with probability at most 1e-6, if the seed were fresh.
    assert case.tried(error=1e-6, seed=5).passed
