"""Faults of reading are caught, and the code without them is not."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import reading_mutants
from tacit.audit.selftest.case import Mutant

ALL = [*reading_mutants.mutants(), *reading_mutants.learning_mutants()]


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    # 1e-8 each: a right version is called broken with probability at most 6e-8, if the seed were fresh.
    assert mutant.caught(error=1e-8, seed=12)
    assert mutant.caught(error=1e-8, seed=12, broken=False) == ""
    assert mutant.what.endswith(".") and mutant.what != mutant.name
