"""The attacks on payments are caught, and the right versions stand the same attack."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import ledger_cases
from tacit.audit.selftest.case import Mutant


@pytest.mark.parametrize("mutant", ledger_cases.mutants(), ids=lambda mutant: mutant.name)
def test_two_draws_for_one_price_are_caught(mutant: Mutant) -> None:
    assert mutant.caught(seed=3)
    assert not mutant.caught(seed=3, broken=False)
