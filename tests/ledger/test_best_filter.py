"""Accounts with filter="best": the book admits as long as one filter holds, says which refuse, and old books stay as they were."""

from __future__ import annotations

import math
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from tacit.accounting import ApproxDP, Gaussian, NonPrivate, PureDP
from tacit.ledger import AdaptiveFilter, Budget, BudgetExceeded, Filter, Ledger, LedgerError, PriceError, alternatives, share_of_step
from tacit.ledger.budget import ORDERS, SHARES, largest_step, standing

TENTH = PureDP(Fraction(1, 10))


def opened(folder: Path, budget: Budget, **terms):
    ledger = Ledger.open(f"sqlite:///{folder / 'book.db'}")
    return ledger, ledger.account("visits", budget, **terms)


def admitted(account, event, most: int = 400, **terms) -> int:
    for count in range(most):
        try:
            account.spend(event, **terms)
        except BudgetExceeded:
            return count
    return most


def by_hand(order: int, delta: float) -> float:
    """epsilon - R at which exp((a - 1) (R - epsilon)) / (a - 1) * (1 - 1/a)^a is delta."""
    return (order * math.log(1 - 1 / order) - math.log(order - 1) - math.log(delta)) / (order - 1)


def test_the_limits_are_those_of_the_theorems() -> None:
    """Advanced composition stops where v / 2 + sqrt(2 log(1/d) v) is epsilon, order a where the conversion's delta is d."""
    found = alternatives(Budget(epsilon=6, delta="4e-6", filter="best"))
    v = float(found["advanced"]["squares"])
    assert v / 2 + math.sqrt(2 * math.log(1e6) * v) == pytest.approx(6, rel=1e-10) and found["basic"]["epsilon"] == 6
    assert v / 2 + math.sqrt(2 * math.log(1e6) * v) <= 6
    for order in ORDERS:
        exact = 6 - by_hand(order, 2e-6 / len(ORDERS))
        if exact <= 0:
            assert f"renyi:{order}" not in found
        else:
            assert exact * (1 - 1e-10) < float(found[f"renyi:{order}"][f"renyi:{order}"]) <= exact
    assert sum(SHARES.values()) == 1
    assert alternatives(Budget(epsilon=1, delta=1e-6)) == {"approximate": {"epsilon": 1, "delta": Fraction(1, 10**6)}}


def test_a_hundred_questions_of_a_tenth_cost_1_8_times_less_than_adding(tmp_path: Path) -> None:
    """5.422 by order 6 (by hand in `test_adaptive`), 5.757 by advanced composition, 10 by adding; the usual account admits 54."""
    ledger, account = opened(tmp_path, Budget(epsilon="5.423", delta="4e-6", filter="best"))
    assert admitted(account, TENTH) == 100
    assert 10 / 5.423 > 1.8 and account.spent()["epsilon"] == 10
    assert 5.422 < float(account.spent().standing()["epsilon"]) < 5.423
    usual = ledger.account("usual", Budget(epsilon="5.423", delta="4e-6"))
    assert admitted(usual, TENTH) == 54
    with pytest.raises(BudgetExceeded) as refusal:
        account.spend(TENTH)
    said = str(refusal.value)
    assert "basic would reach 10.1" in said and "advanced would reach 5.7" in said and "renyi:6 would reach 5.4" in said
    assert "What fits: epsilon 0.0" in said and "by renyi:6" in said
    assert account.spent()["epsilon"] == 10  # a refusal costs nothing
    assert ledger.verify().ok
    assert "5.42" in str(account.spent())


def test_the_book_and_the_filter_in_memory_admit_the_same(tmp_path: Path) -> None:
    mixed = [TENTH, Gaussian(20), PureDP(Fraction(1, 3)), Gaussian(7), TENTH] * 12
    _, account = opened(tmp_path, Budget(epsilon=3, delta=1e-5, filter="best"))
    running, booked, kept = AdaptiveFilter(3, 1e-5), [], []
    for event in mixed:
        try:
            account.spend(event)
            booked.append(True)
        except BudgetExceeded:
            booked.append(False)
        try:
            running = running.admit(event)
            kept.append(True)
        except BudgetExceeded:
            kept.append(False)
    assert booked == kept and 3 < sum(booked) < len(mixed)


def test_gaussian_noise_goes_by_its_divergences_without_any_delta(tmp_path: Path) -> None:
    """The least over orders a of T a / (2 s^2) and what the tight conversion adds, by hand: more than with log(1/d) / (a - 1)."""
    ledger, account = opened(tmp_path, Budget(epsilon=2, delta=1e-6, filter="best"))
    count = admitted(account, Gaussian(20))
    share = 0.5e-6 / len(ORDERS)
    most = max(int((2 - by_hand(a, share)) * 800 / a) for a in ORDERS)
    assert abs(count - most) <= 1 and count > max(int((2 - math.log(1 / share) / (a - 1)) * 800 / a) for a in ORDERS) > 30
    with pytest.raises(LedgerError, match="no bound on epsilon"):
        account.spent()["epsilon"]
    assert 1.5 < float(account.spent().standing()["epsilon"]) <= 2 and account.left()["epsilon"] < Fraction(1, 2)
    assert ledger.verify().ok


def test_deltas_of_steps_come_from_their_share(tmp_path: Path) -> None:
    _, account = opened(tmp_path, Budget(epsilon=5, delta="4e-6", filter="best"))
    account.spend(ApproxDP(0.1, 5e-7), delta="5e-7")
    with pytest.raises(BudgetExceeded, match="share of delta for steps has 5e-07 left"):
        account.spend(ApproxDP(0.1, 6e-7), delta="6e-7")
    account.spend(ApproxDP(0.1, 5e-7), delta="5e-7")
    with pytest.raises(BudgetExceeded, match="no filter has a price"):
        account.spend(NonPrivate())


def test_what_is_left_is_admitted_and_twice_as_much_is_not(tmp_path: Path) -> None:
    _, account = opened(tmp_path, Budget(epsilon=3, delta="1e-5", filter="best"))
    for spent in (30, 1, 1):
        for _ in range(spent):
            account.spend(TENTH)
        left = account.left()["epsilon"]
        assert left > 0
        more = PureDP(left * 2)
        with pytest.raises(BudgetExceeded):
            account.spend(more)
    account.spend(PureDP(account.left()["epsilon"] * Fraction(999, 1000)))


def test_a_child_of_such_an_account_and_one_above_it(tmp_path: Path) -> None:
    """Either may be the one that refuses, and each by its own rule."""
    ledger, _ = opened(tmp_path, Budget(epsilon="5.423", delta="4e-6", filter="best"))
    child = ledger.account("child", Budget(epsilon=2), parent="visits")
    assert admitted(child, TENTH) == 20
    other = ledger.account("other", Budget(epsilon=40, delta="1e-6", filter="best"), parent="visits")
    assert admitted(other, TENTH) == 80
    with pytest.raises(BudgetExceeded, match="'visits', above 'other'"):
        other.spend(TENTH)
    # a parent that adds needs an epsilon of every spend below it
    adding = ledger.account("adding", Budget(epsilon=1, delta=1e-6))
    below = ledger.account("below", Budget(epsilon=1, delta=1e-6, filter="best"), parent="adding")
    with pytest.raises(PriceError, match="delta"):
        below.spend(Gaussian(20))
    below.spend(Gaussian(20), delta=1e-8)
    assert ledger.verify().ok and adding.spent()["epsilon"] > 0


def test_periods_have_their_own_sums(tmp_path: Path) -> None:
    _, account = opened(tmp_path, Budget(epsilon=1, delta=1e-6, filter="best"), window="month")
    assert admitted(account, TENTH, period="2026-01") == admitted(account, TENTH, period="2026-02") == 10


@pytest.mark.parametrize("bad", [{"epsilon": 1}, {"rho": 1}, {"epsilon": 1, "delta": 1e-6, "reserve": 0.1}, {"epsilon": 0, "delta": 1e-6}])
def test_budgets_that_have_nothing_to_share_are_refused(bad: dict) -> None:
    with pytest.raises(LedgerError, match="filter"):
        Budget(**bad, filter="best")
    with pytest.raises(LedgerError, match="filter must be"):
        Budget(epsilon=1, delta=1e-6, filter="lucky")


def test_terms_without_a_proof_are_refused(tmp_path: Path) -> None:
    ledger, account = opened(tmp_path, Budget(epsilon=1, delta=1e-6, filter="best"))
    for terms in ({"rule": "max"}, {"collusion": False}):
        with pytest.raises(LedgerError, match="proved for totals that add up"):
            ledger.account("parts", Budget(epsilon=1, delta=1e-6, filter="best"), **terms)
    with pytest.raises(LedgerError, match="fixed at the beginning"):
        ledger.governance.amend("visits", "more is needed", budget=Budget(epsilon=2, delta=1e-6))
    with pytest.raises(LedgerError, match="AdaptiveFilter"):
        Filter(Budget(epsilon=1, delta=1e-6, filter="best"))
    with pytest.raises(LedgerError, match="never change"):
        ledger.account("visits", Budget(epsilon=1, delta=1e-6))
    assert account.budget.filter == "best"


def test_the_record_says_so_and_usual_budgets_are_written_as_before() -> None:
    several, usual = Budget(epsilon=1, delta=1e-6, filter="best"), Budget(epsilon=1, delta=1e-6)
    assert Budget.from_record(several.to_record()) == several != usual
    assert "filter" not in usual.to_record() and repr(several) == "Budget(epsilon=1, delta=1e-6, filter='best')"
    assert set(usual.to_record()) == {"currency", "amounts", "reserve"}


def test_an_edited_total_or_filter_is_found(tmp_path: Path) -> None:
    """Were the filter of a stored account changed, or a sum of squares made smaller, `verify` says so."""
    ledger, account = opened(tmp_path, Budget(epsilon=1, delta=1e-6, filter="best"))
    account.spend(TENTH)
    with sqlite3.connect(tmp_path / "book.db") as book:
        book.execute("UPDATE tacit_totals SET body = REPLACE(body, '1/100', '1/1000')")
    assert not ledger.verify().ok


def test_the_share_of_a_question_lasts_as_long_as_the_filter() -> None:
    budget = Budget(epsilon=6, delta="4e-6", filter="best")
    squares, steps = alternatives(budget)["advanced"]["squares"], SHARES["steps"] * Fraction("4e-6")
    for epsilon in (Fraction(1, 100), Fraction(1, 10), Fraction(1)):
        questions = max(squares / epsilon**2, 6 / epsilon)
        assert share_of_step(budget, epsilon) * questions <= steps * (1 + Fraction(1, 10**9))
    assert share_of_step(Budget(epsilon=2, delta=1e-6), Fraction(1)) == Fraction(1, 2 * 10**6)


def test_the_standing_of_an_unused_account_is_nothing() -> None:
    budget = Budget(epsilon=6, delta="4e-6", filter="best")
    assert standing(budget, {"epsilon": Fraction(0), "renyi:2": Fraction(0)}) == {"epsilon": 0, "delta": 0}
    assert largest_step(budget, {}) == {"epsilon": 6, "delta": Fraction(1, 10**6)}
