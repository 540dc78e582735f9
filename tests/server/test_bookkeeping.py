"""What is kept of accounts and callers between requests: it is never older than the database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.house import House

from tacit.ledger import LedgerBusy


def accounts(house: House, person: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.send(person, "GET", "/v1/accounts").json()
    return found


def read(house: House, person: str, number: str) -> dict[str, Any]:
    answer = house.send(person, "GET", f"/v1/accounts/{number}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_an_account_that_is_kept_follows_the_book(own_house: House) -> None:
    """After each spend, of the caller and of another analyst below the same purpose, every view is what the book says afresh."""
    house, book = own_house, own_house.service.book
    caller = house.service.register.by_token(house.token("ann"))
    assert caller is not None
    mine = next(one["id"] for one in accounts(house, "ann") if one["purpose"] == "bed-planning")
    assert book.account_at_once(caller, mine) is None, "it was not read yet"
    before = read(house, "ann", mine)
    kept = book.account_at_once(caller, mine)
    assert kept is not None and json.loads(kept) == before == read(house, "ann", mine)
    for turn, person in enumerate(("ann", "ben")):
        assert house.ask(person, f"spend-of-{person}", epsilon=f"0.1{turn}").json()["state"] == "answered"
        assert book.account_at_once(caller, mine) is None, "the book has another total"
        after = read(house, "ann", mine)
        assert after["left"]["epsilon"] < before["left"]["epsilon"]
        assert after == book.account(caller, mine)
        before = after
    assert before["spent"]["epsilon"] == pytest.approx(0.1, rel=1e-4), "what the other spent is in what is left, and not in what is spent"


def test_what_is_kept_for_one_caller_is_not_shown_to_another(own_house: House) -> None:
    house = own_house
    mine = accounts(house, "ann")[0]["id"]
    read(house, "ann", mine)
    ben = house.service.register.by_token(house.token("ben"))
    assert ben is not None and house.service.book.account_at_once(ben, mine) is None
    assert house.send("ben", "GET", f"/v1/accounts/{mine}").status_code == 404


def test_a_decision_of_the_ledger_makes_what_is_kept_old(own_house: House) -> None:
    """A stamp that saw totals alone would miss an amended budget: the mutant of this test."""
    account = own_house.service.datasets["visits"].account
    before = account.stamp()
    assert account.stamp() == before
    child = account.child(f"{account.name}/of-its-own", account.budget)
    assert account.stamp() == before and child.stamp() == before, "an account without a spend changes no total"
    assert own_house.ask("ann", "another-question").json()["state"] == "answered"
    assert account.stamp() != before


def test_a_locked_file_is_no_answer(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be had at once is asked for in the ordinary way; nothing waits in the loop."""
    house, book = own_house, own_house.service.book
    caller = house.service.register.by_token(house.token("ann"))
    assert caller is not None
    mine = accounts(house, "ann")[0]["id"]
    before = read(house, "ann", mine)
    path = house.service.database.engine.url.database
    assert path is not None

    def busy(*_: object, timeout: float | None = None, **__: object) -> None:
        assert timeout == 0
        raise LedgerBusy("locked")

    with monkeypatch.context() as patch:
        patch.setattr(type(house.service.ledger.store), "read", busy)
        assert book.account_at_once(caller, mine) is None
    house.service.database.file.readers.append(sqlite3.connect(":memory:"))  # it has none of the tables
    assert house.service.register.at_once(token=house.token("ann")) is None
    assert read(house, "ann", mine) == before


def test_a_token_or_session_that_ended_is_known_at_once(own_house: House, house_in: Callable[..., House]) -> None:
    register = own_house.service.register
    issued = register.issue("ann", role="analyst")
    assert register.at_once(token=issued.text) is None, "its first use is to be written down"
    assert register.by_token(issued.text) == register.at_once(token=issued.text) is not None
    register.revoke_token(issued.id)
    assert register.at_once(token=issued.text) is None and register.by_token(issued.text) is None
    secret = register.begin("ann")
    assert secret is not None
    caller = register.at_once(session=secret)
    assert caller is not None and caller == register.by_session(secret)
    register.end(caller.session)
    assert register.at_once(session=secret) is None
    short = register.issue("ann", role="analyst", days=1)
    assert register.by_token(short.text) is not None
    clock, register.clock = register.clock, lambda: clock() + 86401.0
    try:
        assert register.at_once(token=short.text) is None and register.by_token(short.text) is None
    finally:
        register.clock = clock
    for nothing in ("", "x", "tacit_" + "0" * 60, "'; DROP TABLE service_people; --"):
        assert register.at_once(token=nothing) is None and register.at_once(session=nothing) is None


@pytest.mark.parametrize("quick", [True, False])
def test_who_may_still_ask_is_asked_each_time(own_house: House, monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    """A question was filed under a token of a person; nothing of them is remembered until it is drawn."""
    register = own_house.service.register
    monkeypatch.setattr(register.database, "sqlite", quick)  # a server is asked in the ordinary way
    token, other = register.issue("ann", role="analyst"), register.issue("ben", role="analyst")
    assert register.still("ann", token.id, "visits") and register.still("ann", "", "visits")
    assert not register.still("ann", "no-such-token", "visits") and not register.still("nobody", token.id, "visits")
    assert not register.still("ann", token.id, "another") and not register.still("olga", "", "visits")
    register.revoke_token(token.id)
    assert not register.still("ann", token.id, "visits") and register.still("ann", "", "visits")
    register.add("ben", roles=["curator"], datasets=["visits"])
    assert not register.still("ben", other.id, "visits")
    register.add("ben", roles=["analyst"], datasets=None)
    assert register.still("ben", other.id, "another"), "all data sets"
    register.add("ben", roles=["analyst"], datasets=[])
    assert not register.still("ben", other.id, "visits")
