"""Reserve, run, commit; what failed stays spent; answers kept; periods; analysts; marks of test mode; no value of the data in the book."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tacit import noise
from tacit.accounting import Adjacency, DiscreteLaplace, Event, Gaussian, Laplace, PureDP
from tacit.calculus import AddRemove, Integers, Measurement, Release, Rows, Space, UnprovedError
from tacit.ledger import Budget, BudgetExceeded, DataIdentity, Ledger, LedgerError, PriceError, ReleaseFailed, journal

CANARY = "canary-7f3a91"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as book:
        yield book


def kinds(ledger: Ledger) -> list[str]:
    return [entry["kind"] for entry in ledger.entries()]


def test_reserve_run_commit(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    with account.reserve(PureDP(0.25), purpose="table 1", analyst="ann", question={"sql": "SELECT COUNT(*)"}) as reservation:
        assert account.spent()["pure"] == Fraction(1, 4)  # booked before the data is touched
        assert reservation.status == "open"
        reservation.commit()
    assert reservation.status == "done"
    assert kinds(ledger)[-2:] == ["reserve", "commit"]
    entry = list(ledger.entries())[-2]
    assert (entry["purpose"], entry["analyst"], entry["question"]) == ("table 1", "ann", {"sql": "SELECT COUNT(*)"})
    assert ledger.verify().ok and ledger.verify().open == ()


def test_leaving_the_block_concludes(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    with account.reserve(PureDP(0.25)) as reservation:
        pass
    assert reservation.status == "done"
    with pytest.raises(LedgerError, match="already done"):
        reservation.commit()


def test_an_exception_leaves_the_reservation_spent_and_its_text_outside(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    with pytest.raises(ZeroDivisionError), account.reserve(PureDP(0.25)) as reservation:
        raise ZeroDivisionError(f"row {CANARY}")
    assert reservation.status == "failed"
    assert account.spent()["pure"] == Fraction(1, 4)
    last = list(ledger.entries())[-1]
    assert last["status"] == "failed" and set(last) == {"kind", "account", "reservation", "status", "time", "private", "seq", "previous"}
    account.spend(PureDP(0.25))  # a retry is a new spend
    assert account.spent()["pure"] == Fraction(1, 2)


def test_an_abandoned_reservation_is_spent_and_named(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    reservation = account.reserve(PureDP(1))
    found = ledger.verify()
    assert found.ok and found.open == (reservation.receipt.entry,)
    with pytest.raises(BudgetExceeded):
        account.spend(PureDP(0.1))


def test_a_reservation_is_concluded_once_even_by_two_holders(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    reservation = account.reserve(PureDP(0.5))
    account._conclude(reservation.receipt, "done", None, None, True)
    with pytest.raises(LedgerError, match="concluded before"):
        reservation.commit()
    assert ledger.verify().ok


# --- releases ---------------------------------------------------------------------------------------------------------------------------


@dataclass
class Fake:
    """A measurement that counts its runs and can fail."""

    price: Event
    answer: Any = 7
    error: Exception | None = None
    runs: int = 0

    def event(self, distance: Any) -> Event:
        return self.price

    def release(self, data: Any, distance: Any) -> Any:
        self.runs += 1
        if self.error:
            raise self.error
        return self.answer


def test_a_refused_measurement_never_sees_the_data(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    measurement = Fake(PureDP(2))
    with pytest.raises(BudgetExceeded):
        account.release(measurement, data=[1])
    assert measurement.runs == 0


def test_a_failing_measurement_is_charged_and_says_nothing(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    measurement = Fake(PureDP(0.25), error=ValueError(CANARY))
    with pytest.raises(ReleaseFailed) as failure:
        account.release(measurement, data=[CANARY])
    assert failure.value.__context__ is None and failure.value.__cause__ is None
    assert CANARY not in str(failure.value)
    assert measurement.runs == 1  # never tried again for the same price
    assert account.spent()["pure"] == Fraction(1, 4)
    assert list(ledger.entries())[-1]["status"] == "failed"


def test_invocations_and_spends_agree(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    measurement = Fake(PureDP(0.25))
    for _ in range(6):
        try:
            account.release(measurement, data=[1])
        except BudgetExceeded:
            continue
    assert measurement.runs == 4 == kinds(ledger).count("reserve") == kinds(ledger).count("commit")


def counting() -> Any:
    def noisy(rows: list[int]) -> int:
        return len(rows) + int(noise.discrete_laplace(10))

    return Measurement(
        Space(Rows(Integers()), AddRemove()), noisy, lambda distance: DiscreteLaplace(10, distance), "noisy count", proof="Laplace"
    )


def test_a_measurement_of_the_calculus_is_released_at_its_distance(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    found = account.release(counting(), [1, 2, 3], distance=2, purpose="how many")
    assert isinstance(found, Release) and found.private
    assert account.spent()["pure"] == Fraction(1, 5)


def test_what_has_no_proof_is_refused_before_it_is_booked(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    head = ledger.head()
    claimed = Measurement(Space(Rows(Integers()), AddRemove()), lambda rows: 0, lambda distance: PureDP(0), "mine")
    with pytest.raises(UnprovedError):
        account.release(claimed, [1])
    assert ledger.head() == head


# --- answers kept -----------------------------------------------------------------------------------------------------------------------


def test_an_identical_question_is_answered_from_the_book_for_nothing(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1), cache=True)
    measurement = Fake(PureDP(1), answer=[1, {"a": 2.5}])
    first = account.release(measurement, data=[1], question={"b": 1, "a": [2]})
    again = account.release(measurement, data=[1], question={"a": [2], "b": 1})  # the order of keys makes no other question
    assert first == again and measurement.runs == 1
    assert account.spent()["pure"] == 1
    for other in ({"question": {"a": [3], "b": 1}}, {}):
        with pytest.raises(BudgetExceeded):
            account.release(measurement, data=[1], **other)
    with pytest.raises(BudgetExceeded):
        account.release(Fake(PureDP(0.5)), data=[1], question={"b": 1, "a": [2]})  # another event is another question
    assert ledger.verify().ok


def test_another_period_is_another_question(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1), cache=True, window="month")
    measurement = Fake(PureDP(0.5))
    for period in ("2026-01", "2026-02", "2026-01"):
        account.release(measurement, data=[1], question="q", period=period)
    assert measurement.runs == 2
    assert account.spent("2026-01")["pure"] == account.spent("2026-02")["pure"] == Fraction(1, 2)


def test_answers_are_kept_only_where_the_curator_allows(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    measurement = Fake(PureDP(0.25))
    for _ in range(2):
        account.release(measurement, data=[1], question="same")
    assert measurement.runs == 2 and account.spent()["pure"] == Fraction(1, 2)
    assert all("answer" not in entry for entry in ledger.entries())
    with account.reserve(PureDP(0.1), question="same") as reservation, pytest.raises(LedgerError, match="cache=True"):
        reservation.commit(answer=1)


def test_an_answer_without_a_json_form_is_given_but_not_kept(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1), cache=True)
    measurement = Fake(PureDP(0.25), answer=float("nan"))
    for _ in range(2):
        account.release(measurement, data=[1], question="q")
    assert measurement.runs == 2
    with account.reserve(PureDP(0.1), question="q") as reservation, pytest.raises(LedgerError, match="JSON") as complaint:
        reservation.commit(answer={CANARY})
    assert CANARY not in str(complaint.value)


def test_an_analyst_does_not_get_another_account_s_answers(ledger: Ledger) -> None:
    """Where analysts do not pool answers, handing over a kept one would be a disclosure that nobody paid for."""
    top = ledger.account("visits", Budget(epsilon=1), collusion=False)
    ann, bob = (top.child(name, Budget(epsilon=1), cache=True) for name in ("ann", "bob"))
    measurement = Fake(PureDP(1))
    ann.release(measurement, data=[1], question="q")
    bob.release(measurement, data=[1], question="q")
    assert measurement.runs == 2
    assert bob.spent()["pure"] == 1 and top.spent()["pure"] == 1
    assert top.assumptions() == ["visits: assuming analysts do not pool answers"]


# --- test mode --------------------------------------------------------------------------------------------------------------------------


def test_what_was_drawn_in_test_mode_is_marked_and_never_served_as_private(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1), cache=True)
    with noise.test_mode(1):
        receipt = account.spend(PureDP(0.1))
        marked = account.release(counting(), [1, 2], question="q")
        again = account.release(counting(), [1, 2], question="q")
    assert not receipt.private and "NOT PRIVATE" in str(receipt)
    assert not marked.private and not again.private and again.value == marked.value
    fresh = account.release(counting(), [1, 2], question="q")
    assert fresh.private
    assert [entry["private"] for entry in ledger.entries() if "private" in entry] == [False, False, False, True, True]


def test_a_seeded_draw_inside_a_reservation_is_noticed(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    with account.reserve(PureDP(0.1)), noise.test_mode(1):
        noise.discrete_laplace(10)
    with account.reserve(PureDP(0.1)):
        noise.discrete_laplace(10)
    assert [entry["private"] for entry in ledger.entries() if entry["kind"] == "commit"] == [False, True]


# --- periods and trees --------------------------------------------------------------------------------------------------------------------


def test_a_budget_for_each_month_and_a_total_over_any_stretch(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1), window="month", unit="user-month")
    for period, amount in (("2026-01", "0.5"), ("2026-01", "0.5"), ("2026-02", "0.25"), ("2026-03", "1")):
        account.spend(PureDP(Fraction(amount)), period=period)
    with pytest.raises(BudgetExceeded, match="for 2026-01"):
        account.spend(PureDP(0.1), period="2026-01")
    assert account.left("2026-02") == {"pure": Fraction(3, 4)}
    assert account.total("2026-01", "2026-02")["pure"] == Fraction(5, 4)
    assert account.total("2026-01-31", "2026-02-01")["pure"] == Fraction(5, 4)
    assert account.total("2026-Q1")["pure"] == Fraction(9, 4) == account.total()["pure"]
    assert account.total(until="2025-12-31")["pure"] == 0
    assert account.spent("2026-03")["pure"] == 1 and account.spent()["pure"] == Fraction(9, 4)
    for wrong in (None, "2026", "2026-13", "January"):
        with pytest.raises(LedgerError, match="period"):
            account.spend(PureDP(0.1), period=wrong)
    assert ledger.verify().ok


def test_the_trace_of_spec_06_on_disk(ledger: Ledger) -> None:
    top = ledger.account("P", Budget(epsilon=1))
    split = top.child("Q", Budget(epsilon=1), rule="max")
    parts = [split.child(f"C{i}", Budget(epsilon=1)) for i in range(3)]
    for child, amount, expected in [(0, "0.3", "0.3"), (1, "0.5", "0.5"), (0, "0.1", "0.5"), (0, "0.2", "0.6"), (2, "0.6", "0.6")]:
        parts[child].spend(PureDP(Fraction(amount)))
        assert top.spent()["pure"] == Fraction(expected)
    head = ledger.head()
    with pytest.raises(BudgetExceeded) as refusal:
        parts[2].spend(PureDP(0.5))
    assert refusal.value.left == {"pure": Fraction(2, 5)} and ledger.head() == head
    parts[2].spend(PureDP(0.4))
    assert top.spent()["pure"] == 1 and ledger.verify().ok
    assert "disjoint" in top.assumptions()[0]


def test_an_ancestor_refuses_by_name(ledger: Ledger) -> None:
    organisation = ledger.account("organisation", Budget(epsilon=1))
    first, second = (organisation.child(name, Budget(epsilon=1)) for name in ("visits", "lab"))
    first.spend(PureDP(0.75))
    with pytest.raises(BudgetExceeded, match="'organisation', above 'lab'") as refusal:
        second.spend(PureDP(0.5))
    assert refusal.value.account == "organisation" and refusal.value.left == {"pure": Fraction(1, 4)}
    assert second.spent()["pure"] == 0


def test_children_inherit_and_cannot_leave_the_family(ledger: Ledger) -> None:
    top = ledger.account("P", Budget(epsilon=1), window="month", unit="patient", adjacency=Adjacency.REPLACE_ONE)
    child = top.child("C", Budget(epsilon=1))
    assert (child.spec.window, child.spec.unit, child.spec.adjacency) == ("month", "patient", Adjacency.REPLACE_ONE)
    for terms, message in (({"window": "day"}, "window"), ({"unit": "row"}, "unit"), ({"adjacency": Adjacency.ADD_REMOVE}, "adjacency")):
        with pytest.raises(LedgerError, match=f"{message} must be that of the parent"):
            top.child("D", Budget(epsilon=1), **terms)


def test_a_reserve_is_for_corrections(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1, reserve=Fraction(1, 10)))
    account.spend(PureDP(0.9))
    with pytest.raises(BudgetExceeded, match="reserve is kept for corrections"):
        account.spend(PureDP(0.1))
    account.spend(PureDP(0.1), correction=True, purpose="republish table 3")
    assert account.left(correction=True) == {"pure": 0} and ledger.verify().ok


def test_spent_in_every_currency_that_is_known(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(rho=1))
    account.spend(PureDP(Fraction(1, 2)))
    assert account.spent().known() == {"pure": Fraction(1, 2), "rho": Fraction(1, 8)}
    account.spend(Gaussian(2))
    assert account.spent().known() == {"rho": Fraction(1, 4)}
    with pytest.raises(LedgerError, match="no bound on pure"):
        account.spent()["pure"]
    assert account.odometer("1e-6").epsilon > 0
    assert str(account.spent()) == "rho 0.25"


def test_a_delta_share_is_asked_for_and_charged(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=2, delta="1e-6"))
    with pytest.raises(PriceError, match="pass delta="):
        account.spend(Gaussian(5))
    account.spend(Gaussian(5), delta="5e-7")
    assert account.left()["delta"] == Fraction(5, 10**7)
    with pytest.raises(BudgetExceeded):
        account.spend(Gaussian(50), delta="6e-7")
    for wrong in (-1, 1, "x"):
        with pytest.raises(LedgerError, match="delta must be"):
            account.spend(Gaussian(50), delta=wrong)


# --- nothing of the data ------------------------------------------------------------------------------------------------------------------


def test_no_value_of_the_data_reaches_the_book_or_its_files(sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"name": CANARY, "age": 31}]
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.account("visits", Budget(epsilon=1), data=DataIdentity.rows(rows))
        account.release(Fake(PureDP(0.1), answer=CANARY), data=rows, question="how many?")
        with pytest.raises(ReleaseFailed):
            account.release(Fake(PureDP(0.1), error=KeyError(CANARY)), data=rows)
        with pytest.raises(KeyError), account.reserve(PureDP(0.1)):
            raise KeyError(CANARY)
        with pytest.raises(BudgetExceeded) as refusal:
            account.release(Fake(Laplace(0.1)), data=rows)
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        dump = "\n".join(sqlite3.connect(tmp_path / "book.db").iterdump())
    assert CANARY.encode() not in files
    assert CANARY not in dump and CANARY not in caplog.text and CANARY not in str(refusal.value)
    assert "how many?" in dump  # the probe does see what is in the book


def test_a_kept_answer_is_in_the_book_because_the_curator_said_so(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.account("visits", Budget(epsilon=1), cache=True)
        account.release(Fake(PureDP(0.1), answer="published-answer"), data=[CANARY], question="q")
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"published-answer" in files and CANARY.encode() not in files


def test_totals_have_one_order_whether_they_are_remembered_or_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    account = ledger.account("order", Budget(epsilon=1, delta="1e-6"))
    account.spend(Laplace(10), purpose="a table of visits by region")
    remembered = list(account.spent().totals)
    monkeypatch.setattr(journal, "_WRITTEN", {})
    assert list(account.spent().totals) == remembered == ["epsilon", "delta", "pure", "rho"]


def test_looking_for_an_answer_takes_as_long_in_a_long_book(tmp_path: Path) -> None:
    """An account with a thousand answers was read from end to end before every new question."""
    steps = list[int]()
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as ledger:
        account = ledger.account("busy", Budget(epsilon=100), data=[DataIdentity("d", b"1")])
        connection = sqlite3.connect(tmp_path / "book.db")
        for many in (0, 1000):
            first = connection.execute("SELECT MAX(seq) FROM tacit_entries").fetchone()[0]
            rows = [(first + n, "commit", account.spec.id, -first - n, f"{many}-{n}", "{}", f"{n}") for n in range(1, many + 1)]
            insert = "INSERT INTO tacit_entries (seq, kind, account, reservation, question, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
            connection.executemany(insert, rows)
            connection.commit()
            counted = list[int]()
            connection.set_progress_handler(lambda counted=counted: counted.append(1), 1)  # type: ignore[misc]
            assert journal.stored_answer(connection, account.spec.id, "never asked", private=True) is None  # type: ignore[arg-type]
            connection.set_progress_handler(None, 1)
            steps.append(len(counted))
        connection.close()
    assert steps[1] <= steps[0] + 5, "the thousand entries are not looked at"
