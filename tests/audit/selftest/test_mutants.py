"""What is caught is the fault: the same code without it is not."""

from __future__ import annotations

import pytest

from tacit.audit.selftest import loop_cases, mutants, table_cases, training
from tacit.audit.selftest.case import Mutant

BULK = [*mutants.bulk_mutants(), *training.mutants(), *loop_cases.mutants(), *table_cases.mutants()]


@pytest.mark.parametrize("mutant", BULK, ids=lambda mutant: mutant.name)
def test_caught_with_its_fault_and_not_without(mutant: Mutant) -> None:
    # 1e-8 each: a right version is called broken in one of two million runs of this file, if the seed were fresh.
    assert mutant.caught(error=1e-8, seed=12)
    assert mutant.caught(error=1e-8, seed=12, broken=False) == ""


def test_every_fault_is_said_in_words() -> None:
    listed = [*mutants.MUTANTS, *BULK]
    assert len({mutant.name for mutant in listed}) == len(listed) >= 40
    for mutant in listed:
        assert mutant.what.endswith(".") and mutant.what != mutant.name, mutant.name


def test_the_known_kinds_of_fault_are_there() -> None:
    names = " ".join(mutant.name for mutant in [*mutants.MUTANTS, *BULK])
    wanted = (
        "sparse vector: Roth",
        "sensitivity wrong",
        "floating point",
        "priced as Poisson",
        "six tries",
        "microbatch",
        "divisor",
        "seed used",
    )
    assert [kind for kind in wanted if kind not in names] == []
