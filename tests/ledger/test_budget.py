"""Budgets: one currency each, exact, and read back as written."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.ledger import Budget, LedgerError
from tacit.ledger.budget import order_of

AMOUNTS = st.fractions(min_value=0, max_value=100)


@given(AMOUNTS, st.fractions(min_value=0, max_value=Fraction(99, 100)), st.fractions(min_value=0, max_value=1))
def test_a_budget_is_read_back_as_it_was_written(amount: Fraction, delta: Fraction, reserve: Fraction) -> None:
    for budget in (
        Budget(epsilon=amount, reserve=reserve),
        Budget(epsilon=amount, delta=delta, reserve=reserve),
        Budget(rho=amount, reserve=reserve),
        Budget(mu=amount, reserve=reserve),
        Budget(renyi={Fraction(3, 2): amount, 8: delta}, reserve=reserve),
    ):
        assert Budget.from_record(json.loads(json.dumps(budget.to_record()))) == budget
        if "/" not in repr(budget):  # a decimal can be typed again as it is shown; a fraction is shown to be read
            assert eval(repr(budget), {"Budget": Budget}) == budget
        assert all(usable == (1 - reserve) * budget.limits[name] for name, usable in budget.usable(correction=False).items())
        assert budget.usable(correction=True) == budget.limits


def test_limits_are_in_the_additive_measure() -> None:
    assert Budget(mu=3).limits == {"mu2": 9}
    assert Budget(epsilon=1, delta=1e-6).limits == {"epsilon": 1, "delta": Fraction(1, 10**6)}
    assert Budget(epsilon=1, delta=0) == Budget(epsilon=1)
    assert Budget(renyi={8: 1, 2: "1/2"}).limits == {"renyi:2": Fraction(1, 2), "renyi:8": 1}
    assert [order_of(name) for name in Budget(renyi={2.5: 1}).limits] == [Fraction(5, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one currency"),
        ({"epsilon": 1, "rho": 1}, "one currency"),
        ({"delta": 1e-6}, "one currency"),
        ({"rho": 1, "delta": 1e-6}, "delta belongs to epsilon"),
        ({"epsilon": -1}, "epsilon must be zero or more"),
        ({"epsilon": 1, "delta": 1}, "delta must be below 1"),
        ({"epsilon": float("inf")}, "finite"),
        ({"mu": float("nan")}, "finite"),
        ({"renyi": {}}, "empty"),
        ({"renyi": {1: 1}}, "greater than 1"),
        ({"renyi": {2: 1, "2": 1}}, "twice"),
        ({"rho": 1, "reserve": 2}, "reserve must be a share"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_wrong_budgets_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        Budget(**arguments)  # type: ignore[arg-type]
