"""Keys: a spend that is sent again under its key is booked once, on both databases, in threads, and in old books."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting import PureDP
from tacit.ledger import Account, Budget, KeyKnown, Ledger, LedgerError, ReleaseFailed

TENTH = PureDP(Fraction(1, 10))
OPENED: list[Ledger] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Books are closed after each test: a server's connections are not left to the collector."""
    yield
    while OPENED:
        OPENED.pop().close()


def opened(url: str) -> Account:
    OPENED.append(Ledger.open(url))
    return OPENED[-1].account("visits", Budget(epsilon=1))


def paid(account: Account, key: str = "k", body: str = "b", drawn: list[int] | None = None) -> Any:
    with account.paying(TENTH, key=key, body=body) as payment:
        if payment.cached:
            return payment.answer
        if drawn is not None:
            drawn.append(1)
        payment.keep({"n": 7})
    return {"n": 7}


@pytest.mark.parametrize("place", ["sqlite_url", "postgres_url"])
def test_the_same_key_and_body_give_the_first_answer_for_nothing(place: str, request: pytest.FixtureRequest) -> None:
    account = opened(request.getfixturevalue(place))
    drawn: list[int] = []
    assert [paid(account, drawn=drawn) for _ in range(3)] == [{"n": 7}] * 3
    assert drawn == [1] and account.left() == {"pure": Fraction(9, 10)}
    with pytest.raises(LedgerError) as other:
        paid(account, body="another")
    assert other.value.code == "key-other-body"
    paid(account, key="k2", drawn=drawn)
    assert drawn == [1, 1] and account.ledger.verify().ok
    found = account.booked("k")
    assert found is not None and found[1:] == ("done", True) and account.booked("k3") is None


@pytest.mark.parametrize("place", ["sqlite_url", "postgres_url"])
def test_threads_under_one_key_draw_once(place: str, request: pytest.FixtureRequest) -> None:
    account = opened(request.getfixturevalue(place))
    drawn: list[int] = []

    def one(_: int) -> str:
        try:
            paid(account, drawn=drawn)
        except KeyKnown as error:
            return str(error.facts["status"])
        return "answered"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(32)))
    # those who came while the first was at work are told so, and draw nothing
    assert drawn == [1] and "answered" in found and set(found) <= {"answered", "open"}
    assert account.spent()["pure"] == Fraction(1, 10)


def test_what_kept_no_answer_is_never_drawn_again(sqlite_url: str) -> None:
    account = opened(sqlite_url)
    with pytest.raises(ReleaseFailed), account.paying(TENTH, key="k", body="b"):
        raise ValueError("a row")
    with pytest.raises(KeyKnown) as failed:
        paid(account)
    assert failed.value.facts["status"] == "failed" and failed.value.facts["entry"] == 4
    account.paying(TENTH, key="open", body="b").open()
    with pytest.raises(KeyKnown) as open_:
        paid(account, key="open")
    assert open_.value.facts["status"] == "open"
    assert account.spent()["pure"] == Fraction(2, 10)


def test_a_spend_returns_its_first_receipt(sqlite_url: str) -> None:
    account = opened(sqlite_url)
    first = account.spend(TENTH, key="k", body="b")
    assert account.spend(TENTH, key="k", body="b") == first and account.spent()["pure"] == Fraction(1, 10)


def test_keys_belong_to_an_account(sqlite_url: str) -> None:
    account = opened(sqlite_url)
    below = account.child("ann", Budget(epsilon=1))
    drawn: list[int] = []
    paid(account, drawn=drawn)
    paid(below, drawn=drawn)
    assert drawn == [1, 1]


def test_a_refused_spend_leaves_its_key_free(sqlite_url: str) -> None:
    account = opened(sqlite_url)
    with pytest.raises(LedgerError):
        account.spend(PureDP(2), key="k", body="b")
    assert account.booked("k") is None
    account.spend(TENTH, key="k", body="b")


def test_no_key_is_stored_in_plain(sqlite_url: str) -> None:
    account = opened(sqlite_url)
    paid(account, key="a key to be kept to oneself", body="so is this")
    assert not any("kept to oneself" in str(entry) or "so is this" in str(entry) for entry in account.ledger.entries())


def test_verify_finds_a_key_that_was_taken_out(sqlite_url: str) -> None:
    """Mutant: without its row in the table, a key would be booked a second time."""
    account = opened(sqlite_url)
    paid(account)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("DELETE FROM tacit_keys")
    connection.close()
    found = account.ledger.verify()
    assert not found.ok and "tacit_keys" in str(found)


def test_a_book_from_before_keys_opens_and_verifies(sqlite_url: str) -> None:
    account = opened(sqlite_url)
    account.spend(TENTH)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert "tacit_keys" not in names and account.ledger.verify().ok
    paid(account)
    assert account.ledger.verify().ok


@pytest.mark.parametrize("terms", [{"key": 3}, {"key": "k", "body": b"x"}, {"body": "without a key"}])
def test_bad_keys_are_refused(sqlite_url: str, terms: dict[str, Any]) -> None:
    account = opened(sqlite_url)
    with pytest.raises(LedgerError):
        account.spend(TENTH, **terms)
    assert account.spent()["pure"] == 0
