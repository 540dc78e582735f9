"""The mutants of odd types, views, ties and joins are caught, and the real code on the same rows is not."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import type_cases
from tacit.audit.selftest.case import Mutant


@pytest.mark.parametrize("mutant", type_cases.mutants(), ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    assert mutant.caught(seed=3)
    assert not mutant.caught(seed=3, broken=False)
