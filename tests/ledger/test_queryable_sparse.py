"""The sparse vector as a conversation: opened by spawn and by ask, charged once, frozen where interleaving is not proved."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.calculus import AddRemove, Integers, Rows, Space, count
from tacit.ledger import Budget, BudgetExceeded, Frozen, LedgerError, queryable
from tacit.mechanisms import above_threshold
from tacit.noise import test_mode

ROWS = Space(Rows(Integers(0, 9)), AddRemove())
MANY = ROWS >> count()


def sparse(**changes):
    return above_threshold(**{"epsilon": Fraction(1, 4), "threshold": 1000, "aboves": 1, **changes})


@pytest.mark.parametrize("door", ["spawn", "ask"])
def test_the_sparse_vector_is_opened_paid_once_and_answers(door: str) -> None:
    data = queryable(list(range(9)), ROWS, Budget(epsilon=1))
    with test_mode(1):
        talk = getattr(data, door)(sparse())
        assert data.spent == {"pure": Fraction(1, 4)}
        assert [talk.ask(MANY).value for _ in range(20)] == [False] * 20
    assert data.spent == {"pure": Fraction(1, 4)}
    with pytest.raises(BudgetExceeded):
        data.spawn(sparse(epsilon=1))


@pytest.mark.parametrize("concurrent", [True, False])
def test_an_older_one_goes_on_where_that_is_proved_and_is_frozen_elsewhere(concurrent: bool) -> None:
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=2), concurrent=concurrent)
    with test_mode(2):
        older, younger = data.spawn(sparse()), data.spawn(sparse())
        assert younger.ask(MANY).value is False
        if concurrent:
            assert older.ask(MANY).value is False
        else:
            with pytest.raises(Frozen, match="interrupted"):
                older.ask(MANY)


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_bound_plan_is_frozen_too(concurrent: bool) -> None:
    """Through a bound plan the older sparse vector used to answer on, whatever was asked in between."""
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=2), concurrent=concurrent)
    with test_mode(3):
        older = data.ask(ROWS >> sparse()).value
        assert older.ask(MANY) is False and older.left == 1
        data.ask(ROWS >> sparse())
        if concurrent:
            assert older.ask(MANY) is False
        else:
            with pytest.raises(Frozen, match="interrupted"):
                older.ask(MANY)


def test_what_answers_once_is_not_spawned() -> None:
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=2))
    for once in (count(), ROWS >> count()):
        with pytest.raises(LedgerError, match="answers once"):
            data.spawn(once)
    assert data.spent == {"pure": 0}
