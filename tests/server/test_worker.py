"""What a question takes: one plan, one statement, and four transactions that write, however many are under way. Counted, not timed.

The numbers before each of these was mended: two plans for a question beside seventy others, a statement for each pair of questions
of one price, six transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.server.house import House
from tests.server.test_beside import reserves, running, until

from tacit.ledger import Ledger
from tacit.server.database import Database
from tacit.tables import Desk
from tacit.tables import desk as desk_module
from tacit.tables.engines import duckdb as duckdb_module


def counted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[int]:
    """How often a function is called from now on: one element for each call."""
    calls, real = list[int](), getattr(where, name)

    def counting(*given: Any, **named: Any) -> Any:
        calls.append(1)
        return real(*given, **named)

    monkeypatch.setattr(where, name, counting)
    return calls


def transactions(monkeypatch: pytest.MonkeyPatch, house: House) -> Counter[str]:
    """Which of the two, the service's tables and the book, writes how often from now on."""
    found, store = Counter[str](), type(house.service.ledger.store)
    for where, call, name in ((Database, "write", "tables"), (Database, "writing", "tables"), (store, "write", "book")):
        real: Callable[..., Any] = getattr(where, call)

        def counting(self: Any, *given: Any, name: str = name, real: Callable[..., Any] = real, **named: Any) -> Any:
            found[name] += 1
            return real(self, *given, **named)

        monkeypatch.setattr(where, call, counting)
    return found


def test_a_question_takes_four_transactions(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filed and claimed, reserved, committed, ended. Its token, its key and who may still ask are only read."""
    assert own_house.ask("ann", "the-first-question").json()["state"] == "answered"
    written = transactions(monkeypatch, own_house)
    assert own_house.ask("ann", "the-second-question", epsilon="0.2").json()["state"] == "answered"
    assert written == {"tables": 2, "book": 2}


def test_the_book_is_asked_about_the_key_of_one_who_may_ask_no_more(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was booked is handed out; what was not is refused, and nothing is booked."""
    service = own_house.service
    assert own_house.ask("ann", "while-she-might").json()["state"] == "answered"
    before = reserves(own_house)
    service.worker.still = lambda person, token, dataset: False
    written = transactions(monkeypatch, own_house)
    view = own_house.ask("ann", "of-one-who-may-not", epsilon="0.2").json()
    assert view["state"] == "refused" and reserves(own_house) == before and written["book"] == 1


def test_seventy_questions_under_way_are_planned_once_each(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker draws by the plan that told the price; it was forgotten by then where more than some sixty were under way."""
    planned = counted(monkeypatch, desk_module.plans, "prepare")
    before, many = reserves(own_house), 70
    worker = own_house.service.worker
    monkeypatch.setattr(worker, "to_book", 60.0)
    monkeypatch.setattr(worker, "to_plan", 0.0)
    with running(own_house, 0):
        worker._turns.acquire()  # nobody books until all are filed
        try:
            for turn in range(many):
                sql, person = f"SELECT COUNT(*) AS n FROM visits WHERE age > {turn}", ("ann", "ben")[turn % 2]  # 64 at most of one
                asked = own_house.ask(person, f"one-of-seventy-{turn}", wait=0, sql=sql, epsilon=f"0.0001{turn:02d}")
                assert asked.status_code == 202
            assert len(planned) == many
        finally:
            worker._turns.release()
        assert until(lambda: reserves(own_house) == before + many)
    assert len(planned) == many


def test_planning_and_booking_have_one_turn_and_go_on_without_it(
    own_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another has it, planning and booking wait for some seconds, and the question is answered without it."""
    worker = own_house.service.worker
    assert 0 < worker.to_plan <= worker.to_book <= 5
    assert own_house.ask("ann", "the-first-one").json()["state"] == "answered"  # it opens the accounts
    planning, booking = list[bool](), list[bool]()
    real, book = desk_module.plans.prepare, type(own_house.service.ledger.store).write

    def prepare(*given: Any, **named: Any) -> Any:
        planning.append(worker._mine.turn)
        return real(*given, **named)

    def write(self: Any, *given: Any, **named: Any) -> Any:
        if self is own_house.service.ledger.store:
            booking.append(getattr(worker._mine, "turn", False))
        return book(self, *given, **named)

    monkeypatch.setattr(desk_module.plans, "prepare", prepare)
    monkeypatch.setattr(type(own_house.service.ledger.store), "write", write)
    sql = "SELECT COUNT(*) AS n FROM visits WHERE age > {}"
    assert own_house.ask("ann", "with-the-turn", sql=sql.format(31)).json()["state"] == "answered"
    assert planning == [True] and len(booking) == 2 and all(booking), "reserved and committed in the turn"
    monkeypatch.setattr(worker, "to_plan", 0.01)
    monkeypatch.setattr(worker, "to_book", 0.01)
    worker._turns.acquire()
    try:
        assert own_house.ask("ann", "without-the-turn", sql=sql.format(32)).json()["state"] == "answered"
    finally:
        worker._turns.release()
    assert planning == [True, False] and len(booking) == 4 and not any(booking[2:])
    assert own_house.ask("ann", "with-it-again", sql=sql.format(33)).json()["state"] == "answered"
    assert planning[2:] == [True] and all(booking[4:])


def test_a_statement_is_written_in_turn_and_runs_outside(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """To write a text is work of the interpreter, which one question at a time does; rows are the engine's work, for which nobody waits."""
    worker, writing, ran = own_house.service.worker, list[bool](), list[bool]()
    write, fetched = duckdb_module.last_text, duckdb_module._fetched

    def written(*given: Any) -> str:
        writing.append(getattr(worker._mine, "turn", False))
        return write(*given)

    def run(*given: Any) -> Any:
        ran.append(getattr(worker._mine, "turn", False))
        return fetched(*given)

    monkeypatch.setattr(duckdb_module, "last_text", written)
    monkeypatch.setattr(duckdb_module, "_fetched", run)
    assert own_house.ask("ann", "written-in-turn", epsilon="0.041").json()["state"] == "answered"
    assert writing == [True] and ran == [False]


def test_a_question_that_is_worked_on_here_is_not_looked_up(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one who waits looks at the row when it is filed and when it ends, however often the grid lets answers out meanwhile."""
    looks = counted(monkeypatch, own_house.service.claims, "at_once")
    worker = own_house.service.worker
    monkeypatch.setattr(worker, "to_book", 1.5)
    worker._turns.acquire()
    try:
        view = own_house.ask("ann", "looked-up-twice", epsilon="0.03").json()
    finally:
        worker._turns.release()
    assert view["state"] == "answered" and not worker.at_work(view["id"])
    assert len(looks) <= 4, "it took a second and a half, in which the grid has seven times"


def test_who_lost_the_data_set_while_a_question_is_worked_on_is_told_nothing(
    own_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is not looked up while it is worked on, and is once more before anything is told, for who the person is then."""
    service, worker = own_house.service, own_house.service.worker
    monkeypatch.setattr(worker, "to_book", 3.0)
    again = service.register.again_at_once

    def without(caller: Any) -> Any:
        found = again(caller)
        return None if found is None else replace(found, datasets=frozenset())

    worker._turns.acquire()
    try:
        monkeypatch.setattr(worker, "to_plan", 0.0)
        monkeypatch.setattr(service.register, "again_at_once", without)
        told = own_house.ask("ann", "of-one-who-lost-it", wait=1, epsilon="0.04")
    finally:
        worker._turns.release()
    assert told.status_code == 404 and "running" not in told.text


def test_questions_of_one_price_are_compared_by_one_statement_each(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    written = counted(monkeypatch, Desk, "text_of")
    before, many = reserves(own_house), 8
    with running(own_house, 0):
        for turn in range(many):
            sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {turn}"
            assert own_house.ask("ben", f"of-one-price-{turn}", wait=0, sql=sql, epsilon="0.001").status_code == 202
        assert until(lambda: reserves(own_house) == before + many)
    assert len(written) <= 2 * many, "one to compare, and one of the session, which tells the book what was asked"


def test_what_is_kept_of_a_statement_is_its_own_questions(own_house: House) -> None:
    """Two people, two purposes, one text: each question has a digest under its own name, and nobody's is found under another's."""
    worker = own_house.service.worker
    asked = [("ann", "bed-planning"), ("ben", "bed-planning"), ("ann", "cost-report")]
    rows = []
    for person, purpose in asked:
        view = own_house.ask(person, f"of-{person}-{purpose}", purpose=purpose).json()
        row = own_house.service.claims.row(view["id"])
        assert row is not None and worker._statement(row) is not None
        rows.append(row)
    assert set(worker._statements) == {row["id"] for row in rows}
    assert own_house.service.claims.before(rows[1]) == [], "another person's question is never compared"


def test_a_worker_that_is_closed_files_and_claims_nothing(own_house: House) -> None:
    """The question waits for whoever comes next, in this process or another."""
    service = own_house.service
    service.worker.close()
    view = own_house.ask("ann", "after-the-end-of-it", wait=0).json()
    row = service.claims.row(view["id"])
    assert row is not None and row["state"] == "quoted" and service.claims.held(view["id"]) is None
    assert not service.worker._held and isinstance(service.ledger, Ledger)


def test_one_that_another_worker_took_over_is_not_drawn_here(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that slept beyond its lease finds that it has the question no more, before it reserves anything."""
    service, before = own_house.service, reserves(own_house)
    monkeypatch.setattr(service.claims, "held", lambda question: None)
    monkeypatch.setattr(service.worker, "_draw", lambda *given: pytest.fail("drawn"))
    own_house.ask("ann", "taken-by-another-one", wait=0)
    assert until(lambda: not service.worker._held) and reserves(own_house) == before


def test_a_question_that_no_thread_could_be_had_for_is_taken_up_later(
    own_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, failures = own_house.service, [True]
    real = service.worker._pool.submit

    def none(*given: Any) -> Any:
        if failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        return real(*given)

    monkeypatch.setattr(service.worker._pool, "submit", none)
    monkeypatch.setattr(service.worker, "sweep", lambda: None)  # not before this test has looked
    with pytest.raises(RuntimeError):
        row = {"state": "quoted", **{name: "" for name in ("person", "token", "body", "request", "dataset", "purpose")}}
        service.worker.file({**row, "key": "no-thread", "epsilon": "0", "price": "{}", "estimate": 0.0})
    assert not service.worker._held
    asked = service.claims.find("", "no-thread")
    assert asked is not None and [one for one, *_ in service.claims.expired(own=True)] == [asked["id"]]
