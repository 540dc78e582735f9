"""The book on both databases: budgets are exact, refusals cost nothing, names buy nothing, other processes see everything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.accounting import ZCDP, Adjacency, ApproxDP, Gaussian, Group, Laplace, PureDP, Repeated
from tacit.ledger import Budget, BudgetExceeded, DataIdentity, Ledger, LedgerError, PriceError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def ledger(url: str):  # type: ignore[no-untyped-def]
    with Ledger.open(url) as book:
        yield book


def run_elsewhere(code: str, *arguments: str) -> str:
    """Run code in a new process, as another user of the same book would."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, timeout=600)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_ten_tenths_fit_in_one_and_nothing_more(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    for _ in range(10):
        account.spend(PureDP(0.1))
    head, spent = ledger.head(), account.spent()
    with pytest.raises(BudgetExceeded) as refusal:
        account.spend(PureDP(1e-12))
    assert refusal.value.left == {"pure": 0}
    assert refusal.value.asked == {"pure": Fraction(1, 10**12)}
    assert refusal.value.account == "visits"
    assert "nothing" in refusal.value.fits
    assert ledger.head() == head and account.spent() == spent
    assert account.spent()["pure"] == 1
    assert ledger.verify().ok


def test_the_tiniest_spends_are_not_lost(ledger: Ledger) -> None:
    """Subnormal prices beside large ones: a float total would not move; the exact one does, and the budget ends exactly."""
    tiny = Fraction("5e-324")
    account = ledger.account("visits", Budget(epsilon=1 + 2 * tiny))
    account.spend(PureDP(1))
    for _ in range(2):
        account.spend(PureDP(5e-324))
    assert account.spent()["pure"] == 1 + 2 * tiny and float(account.spent()["pure"]) == 1.0
    with pytest.raises(BudgetExceeded):
        account.spend(PureDP(5e-324))
    assert ledger.verify().ok


def test_the_float_sum_would_have_been_wrong() -> None:
    """The mutant: a float ledger leaves false room after ten tenths."""
    assert sum([0.1] * 10) + 1e-17 <= 1 and 0.4 + 0.2 > 0.6


@pytest.mark.parametrize(
    ("budget", "event", "times", "extra"),
    [
        (Budget(epsilon=1, delta="1e-6"), ApproxDP(0.1, 1e-7), 10, ApproxDP(1e-12, 0)),
        (Budget(rho="0.1"), Gaussian(10), 20, ZCDP(1e-12)),
        (Budget(rho=Fraction(1, 2)), PureDP(Fraction(1, 10)), 100, PureDP(1e-6)),
        (Budget(mu=1), Gaussian(2), 4, Gaussian(10**6)),
        (Budget(renyi={2: "0.1", 8: "0.4"}), Gaussian(10), 10, ZCDP(1e-12)),
    ],
    ids=["approximate", "rho", "rho-of-pure", "mu", "renyi"],
)
def test_every_currency_is_exact_to_the_last_crumb(
    ledger: Ledger, budget: Budget, event: object, times: int, extra: object
) -> None:
    account = ledger.account("visits", budget)
    for _ in range(times):
        account.spend(event)  # type: ignore[arg-type]
    with pytest.raises(BudgetExceeded):
        account.spend(extra)  # type: ignore[arg-type]
    assert any(value == 0 for value in account.left().values())
    assert ledger.verify().ok


def test_a_refusal_says_what_is_left_what_was_asked_and_what_fits(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(rho=Fraction(1, 10)))
    account.spend(ZCDP(Fraction(8, 100)))
    message = r"asked rho 0.08, left rho 0.02 of rho 0.1; nothing was spent.*at most rho 0.02, which is 2 times"
    with pytest.raises(BudgetExceeded, match=message):
        account.spend(Gaussian(Fraction(5, 2)))
    account.spend(Gaussian(5))  # twice the noise does fit, exactly
    assert account.left() == {"rho": 0}


def test_another_process_sees_the_spend_and_gets_no_fresh_budget(ledger: Ledger, url: str) -> None:
    ledger.account("visits", Budget(epsilon=1)).spend(PureDP(0.75))
    code = """
import sys
from tacit.accounting import PureDP
from tacit.ledger import *
book = Ledger.open(sys.argv[1])
account = book.account("visits", Budget(epsilon=1))
try:
    account.spend(PureDP(0.5))
except BudgetExceeded as refusal:
    print("refused, left", refusal.left["pure"])
account.spend(PureDP(0.25))
print(book.verify().ok)
"""
    assert run_elsewhere(code, url) == "refused, left 1/4\nTrue"
    assert ledger.account("visits").left() == {"pure": 0}


def test_a_forked_child_may_go_on_using_the_book(sqlite_url: str) -> None:
    code = """
import os, sys
from tacit.accounting import PureDP
from tacit.ledger import *
book = Ledger.open(sys.argv[1])
account = book.account("visits", Budget(epsilon=1))
account.spend(PureDP(0.25))
child = os.fork()
account.spend(PureDP(0.25))
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(account.spent()["pure"], book.verify().ok)
"""
    assert run_elsewhere(code, sqlite_url) == "3/4 True"


# --- names and data ------------------------------------------------------------------------------------------------------------------


def test_a_copy_of_the_file_and_a_second_name_share_one_budget(ledger: Ledger, tmp_path: Path) -> None:
    first, copy = tmp_path / "visits.csv", tmp_path / "other.csv"
    first.write_text("age\n31\n40\n")
    shutil.copy(first, copy)
    one = ledger.account("visits", Budget(epsilon=1), data=DataIdentity.file(first))
    one.spend(PureDP(1))
    two = ledger.account("innocent name", Budget(epsilon=1), data=DataIdentity.file(copy))
    assert two.spec.id == one.spec.id
    with pytest.raises(BudgetExceeded):
        two.spend(PureDP(Fraction(1, 10**9)))
    with pytest.raises(LedgerError, match="terms never change"):
        ledger.account("third name", Budget(epsilon=5), data=DataIdentity.file(copy))
    assert ledger.account("innocent name").spec.id == one.spec.id
    assert [entry["name"] for entry in ledger.entries() if entry["kind"] == "alias"] == ["innocent name"]
    copy.write_text("age\n31\n41\n")
    assert ledger.account("really other data", Budget(epsilon=1), data=DataIdentity.file(copy)).spec.id != one.spec.id
    assert ledger.verify().ok


def test_known_data_gets_no_second_account_below_another_parent(ledger: Ledger) -> None:
    source = DataIdentity.source("postgresql://db.example.org/health", table="visits")
    organisation = ledger.account("organisation", Budget(epsilon=3))
    data = organisation.child("visits", Budget(epsilon=1), data=source)
    other = ledger.account("other organisation", Budget(epsilon=3))
    with pytest.raises(LedgerError, match="already has an account"):
        other.child("visits again", Budget(epsilon=1), data=source)
    below = data.child("marketing", Budget(epsilon=1), data=source)
    assert below.spec.parent == data.spec.id
    assert ledger.account("a view of it", data=source).spec.id == data.spec.id


def test_an_identity_may_be_added_but_not_moved(ledger: Ledger) -> None:
    one = ledger.account("a", Budget(epsilon=1), data="first")
    ledger.account("b", Budget(epsilon=1), data="second")
    assert ledger.account("a", data=["first", "third"]).spec.id == one.spec.id
    assert ledger.account("c", data="third").spec.id == one.spec.id
    with pytest.raises(LedgerError, match="belongs to another account"):
        ledger.account("a", data="second")
    with pytest.raises(LedgerError, match="different accounts"):
        ledger.account("d", data=["first", "second"])


def test_the_book_stores_no_digest_of_the_data_itself(sqlite_url: str, tmp_path: Path) -> None:
    import hashlib

    content = tmp_path / "data.csv"
    content.write_text("secret\n")
    with Ledger.open(sqlite_url) as ledger:
        identity = DataIdentity.file(content)
        ledger.account("a", Budget(epsilon=1), data=identity)
        stored = "".join(str(entry) for entry in ledger.entries())
    assert hashlib.sha256(b"secret\n").hexdigest() not in stored
    assert identity.digest.hex() not in stored and identity.digest.hex() not in repr(identity)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"rule": "max", "adjacency": Adjacency.REPLACE_ONE}, "two-largest"),
        ({"rule": "two-largest"}, "rule='max'"),
        ({"rule": "best"}, "rule must be one of"),
        ({"rule": "max", "collusion": False}, "two levels"),
        ({"window": "fortnight"}, "window must be one of"),
        ({"adjacency": "add"}, "adjacency must be"),
    ],
    ids=["max-replace", "two-add", "unknown", "collusion", "window", "adjacency"],
)
def test_terms_that_do_not_go_together_are_refused(ledger: Ledger, terms: dict[str, object], message: str) -> None:
    head = ledger.head()
    with pytest.raises(LedgerError, match=message):
        ledger.account("a", Budget(epsilon=1), **terms)  # type: ignore[arg-type]
    assert ledger.head() == head


@pytest.mark.parametrize(
    "budget",
    [Budget(epsilon=1, delta="1e-6"), Budget(rho=1), Budget(mu=1), Budget(renyi={2: 1})],
    ids=["approximate", "rho", "mu", "renyi"],
)
def test_parallel_composition_on_growing_data_needs_pure_epsilon(ledger: Ledger, budget: Budget) -> None:
    with pytest.raises(LedgerError, match="growing data is proved for pure epsilon only"):
        ledger.account("a", budget, rule="max", growing=True)
    ledger.account("fixed", budget, rule="max")
    ledger.account("sum", budget, rule="sum", growing=True)
    ledger.account("pure", Budget(epsilon=1), rule="max", growing=True)


# --- one entry for a plan, group privacy, early stopping -----------------------------------------------------------------------------


def test_a_two_stable_child_costs_the_parent_four_times_the_rho(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(rho=1))
    receipt = account.spend(Group(ZCDP(Fraction(1, 10)), 2))
    assert receipt.charge["rho"] == Fraction(4, 10)
    # in pure epsilon a group of two costs twice as much: the maps differ, the message carries the event
    assert ledger.account("pure", Budget(epsilon=1)).spend(Group(PureDP(Fraction(1, 10)), 2)).charge["pure"] == Fraction(1, 5)


def test_a_plan_stopped_at_40_of_100_steps_leaves_60_percent(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(rho="0.1"))
    step = ZCDP(Fraction(1, 1000))
    for _ in range(40):
        account.spend(step)
    assert account.left()["rho"] == Fraction(6, 100)
    account.spend(Repeated(step, 60))
    assert account.left()["rho"] == 0


def test_a_fixed_plan_is_one_entry_priced_by_its_loss_distribution(ledger: Ledger) -> None:
    """100 Laplace steps of 0.1: advanced composition at 1e-6 says 6.3082 (spec 06, A5.2), basic 10; one entry costs less than both."""
    account = ledger.account("visits", Budget(epsilon=10, delta="1e-6"))
    plan = Repeated(Laplace(10), 100)
    receipt = account.spend(plan, delta="1e-6")
    assert receipt.charge["epsilon"] is not None and 4 < receipt.charge["epsilon"] < Fraction("6.3082")
    assert receipt.charge["delta"] == Fraction(1, 10**6)
    assert sum(entry["kind"] == "spend" for entry in ledger.entries()) == 1
    with pytest.raises(PriceError, match="pass delta="):
        ledger.account("other", Budget(epsilon=1, delta="1e-6")).spend(Gaussian(10))


def test_what_has_no_price_is_refused_and_costs_nothing(ledger: Ledger) -> None:
    from tacit.accounting import NonPrivate

    account = ledger.account("visits", Budget(epsilon=1))
    head = ledger.head()
    for event in (Gaussian(1), NonPrivate(), ApproxDP(0.1, 1e-6)):
        with pytest.raises(PriceError):
            account.spend(event)
    with pytest.raises(LedgerError, match="event must be an event"):
        account.spend(0.1)  # type: ignore[arg-type]
    assert ledger.head() == head


# --- the stored form -----------------------------------------------------------------------------------------------------------------


def test_entries_cannot_be_changed_through_the_database(ledger: Ledger, url: str) -> None:
    ledger.account("visits", Budget(epsilon=1)).spend(PureDP(0.5))
    engine = sa.create_engine(url)  # another program than ours, on either database
    for statement in ("UPDATE tacit_entries SET body = '{}' WHERE seq = 3", "DELETE FROM tacit_entries WHERE seq = 3"):
        with pytest.raises(sa.exc.DBAPIError, match="never changed"), engine.begin() as connection:
            connection.exec_driver_sql(statement)
    engine.dispose()
    assert ledger.verify().ok


def test_a_url_must_name_something_that_lasts(tmp_path: Path) -> None:
    for wrong in ("sqlite://", "sqlite:///:memory:", "mysql://host/db", "nonsense"):
        with pytest.raises(LedgerError):
            Ledger.open(wrong)
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.open(f"sqlite:///{tmp_path / 'none.db'}", create=False)
    assert not (tmp_path / "none.db").exists()
