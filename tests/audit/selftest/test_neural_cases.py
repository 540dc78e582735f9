"""The sabotages of neural synthesizers are caught, each by what it does, and the same synthesizers without them are not."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import neural_cases
from tacit.audit.selftest.case import Mutant

BY = {
    "a critic without noise": "output",
    "a maker that sees rows": "output",
    "rows counted": "scale",
    "teachers share rows": "sensitivity",
    "votes unpaid": "price",
}


@pytest.mark.parametrize("mutant", neural_cases.mutants(), ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    expected = BY[mutant.name.removeprefix("neural: ")]
    assert mutant.caught(seed=3).startswith(f"replay: {expected}")
    assert mutant.caught(seed=3, broken=False) == ""
