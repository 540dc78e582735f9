"""What people read about the book is what the book says."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tacit.accounting import Gaussian, PureDP
from tacit.ledger import Budget, Ledger
from tacit.ledger.report import plot_spending, spends, standings, timeline


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        top = book.account("top", Budget(epsilon=2, delta="1e-6"))
        child = top.child("child", Budget(epsilon=1, delta="1e-6"))
        child.spend(PureDP(0.25))
        child.spend(Gaussian(20), delta="5e-7")
        top.spend(PureDP(0.5))
        months = book.account("months", Budget(mu=1), window="month")
        for period, noise in (("2026-01", 4), ("2026-02", 2), ("2026-01", 4)):
            months.spend(Gaussian(noise), period=period)
        book.account("empty", Budget(renyi={2: 1}))
        yield book


def test_standings_agree_with_the_accounts(ledger: Ledger) -> None:
    found = {row.account: row for row in standings(ledger)}
    assert list(found) == ["top", "child", "months", "empty"]
    assert [row.depth for row in found.values()] == [0, 1, 0, 0]
    for name in ("top", "child"):
        account = ledger.account(name)
        assert found[name].spent == str(account.spent())
        assert found[name].share == pytest.approx(max(float(account.spent()[c] / limit) for c, limit in account.budget.limits.items()))
    assert found["child"].share == 0.5  # delta is the scarcer one
    assert (found["months"].spent, found["months"].left) == ("mu 0.5 in 2026-02", "mu 0.866025 in 2026-02")
    assert (found["empty"].share, found["empty"].entries, found["top"].entries, found["child"].entries) == (0, 0, 1, 2)
    assert [row.account for row in standings(ledger, account="top")] == ["top", "child"]


def test_a_reserve_is_said_beside_the_budget(tmp_path: Path) -> None:
    """Without the words, 95 % used and nothing left would look like a mistake."""
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        book.account("kept", Budget(epsilon=1, reserve="0.05")).spend(PureDP(Fraction(19, 20)))
        (row,) = standings(book)
    assert row.budget == "epsilon 1 (5 % of it for corrections only)"
    assert (row.spent, row.left, row.share) == ("epsilon 0.95", "epsilon 0", pytest.approx(0.95))


def test_spends_in_order_with_their_prices(ledger: Ledger) -> None:
    rows = spends(ledger)
    assert [row.account for row in rows] == ["child", "child", "top", "months", "months", "months"]
    assert rows[0].price == "epsilon 0.25, delta 0" and rows[3].price == "mu 0.25"
    assert [row.entry for row in spends(ledger, last=2)] == [row.entry for row in rows[-2:]]
    assert spends(ledger, last=0) == []
    assert [row.account for row in spends(ledger, account="top")] == ["child", "child", "top"]


def test_the_timeline_ends_where_the_accounts_stand(ledger: Ledger) -> None:
    found = timeline(ledger)
    assert {name: rows[-1][1] for name, rows in found.items()} == {row.account: row.share for row in standings(ledger) if row.share}
    for rows in found.values():
        assert [used for _, used in rows] == sorted(used for _, used in rows)


def test_the_picture_shows_the_fullest_accounts_and_says_what_it_hides() -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    lines = {f"account {i}": [(start, i / 40), (start + datetime.timedelta(days=i), i / 20)] for i in range(1, 16)}
    ax = plot_spending(lines).axes[0]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0] == "account 15 (75 %)" and len(labels) == 12
    assert ax.get_legend().get_title().get_text() == "account; 3 more accounts are not drawn"
    first = ax.get_lines()[0]
    assert list(first.get_ydata()) == [0.0, 15 / 40, 15 / 20, 15 / 20]
    assert plot_spending({}).axes[0].get_legend() is None
