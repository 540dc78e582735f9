"""Budgets: one currency each, exact, and read back as written."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Guarantee
from tacit.accounting.guarantee import order_of
from tacit.ledger import Budget, Ledger, LedgerError

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
        ({}, "no default"),
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


def test_a_guarantee_or_its_text_is_a_budget() -> None:
    whole = Guarantee(epsilon=1, delta=1e-6)
    expected = Budget(epsilon=1, delta=1e-6)
    assert Budget(whole) == Budget("eps=1, delta=1e-6") == Budget.of(whole) == Budget.of("eps=1,delta=1e-6") == expected
    assert Budget.of(Budget(rho=1, reserve="1/2")) == Budget("rho=1", reserve=0.5)
    for wrong in (1, None, {"epsilon": 1}):
        with pytest.raises(LedgerError, match="budget must be a Budget"):
            Budget.of(wrong)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="not both"):
        Budget(whole, epsilon=1)


def test_stored_bytes_are_those_of_old_books() -> None:
    stored = json.dumps(Budget(epsilon=1, delta=1e-6, reserve="1/20").to_record())
    assert stored == '{"currency": "approximate", "amounts": {"epsilon": "1", "delta": "1/1000000"}, "reserve": "1/20"}'
    assert json.dumps(Budget(mu=1.5).to_record()) == '{"currency": "mu", "amounts": {"mu": "3/2"}, "reserve": "0"}'


def test_a_period_is_the_window_of_the_account(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    monthly = book.account("visits", Budget(epsilon=1, period="month"))
    assert monthly.spec.window == "month" and monthly.budget == Budget(epsilon=1)
    assert book.account("visits", Budget(epsilon=1, period="month")).spec == monthly.spec
    assert repr(Budget(epsilon=1, period="month")) == "Budget(epsilon=1, period='month')"
    with pytest.raises(LedgerError, match="window must be the budget's period"):
        book.account("other", Budget(epsilon=1, period="month"), window="day")
    assert book.account("third", "rho=0.1").budget == Budget(rho=0.1)
