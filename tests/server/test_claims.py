"""Claims: one worker at a time, leases that run out, and a worker that comes back too late and changes nothing."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.ledger.conftest import postgres, postgres_url

from tacit.server.claims import ENDED, STEPS, Claims
from tacit.server.database import Database, claims, questions
from tacit.server.errors import ServiceError

__all__ = ["postgres", "postgres_url"]  # fixtures


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'service.db'}")
    yield found
    found.close()


def values(key: str = "k", **changed: Any) -> dict[str, Any]:
    return {"person": "ann", "token": "t", "key": key, "body": "b", "request": "{}", "dataset": "visits", "purpose": "p",
            "state": "quoted", "epsilon": "1/10", "price": "{}", "estimate": 0.0, **changed}  # fmt: skip


def filed(claims: Claims, key: str = "k", **changed: Any) -> str:
    row, new = claims.file(values(key, **changed))
    assert new
    return str(row["id"])


def test_one_worker_has_a_question_until_its_lease_runs_out(database: Database) -> None:
    clock = [1000.0]
    first, second = (Claims(database, lease=10, clock=lambda: clock[0]) for _ in range(2))
    question = filed(first)
    assert first.take(question) == 1 and second.take(question) is None
    clock[0] += 9
    first.renew([question])
    clock[0] += 9
    assert second.expired() == []
    clock[0] += 2
    assert second.expired() == [(question, "running", 1)]
    # it is quoted again only where the book has no entry; then another generation has it
    assert second.end(question, 1, "quoted") and second.take(question) == 2
    assert not first.end(question, 1, "stored", answer="{}"), "a worker that came back too late"
    assert second.end(question, 2, "stored", answer="{}", ready=clock[0])
    assert second.take(question) is None and second.expired() == []


def test_a_question_is_a_claim_of_its_worker_in_the_transaction_that_files_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, begun, real = [1000.0], list[int](), database.writing
    monkeypatch.setattr(database, "writing", lambda: begun.append(1) or real())
    first, second = (Claims(database, lease=10, clock=lambda: clock[0]) for _ in range(2))
    row, new = first.file(values("k"), mine=True)
    question = str(row["id"])
    assert new and len(begun) == 1 and row == first.row(question) and row["state"] == "running"
    assert first.held(question) == 1 and second.held(question) is None and second.take(question) is None
    # the same key is the same question, whoever sends it, and claims nothing
    again, new = second.file(values("k"), mine=True)
    assert not new and again == row and first.held(question) == 1
    with database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(claims)).scalar_one() == 1
    # as for one that was taken: after the lease another may have it, and who had it first changes nothing more
    clock[0] += 11
    assert second.expired() == [(question, "running", 1)] and second.end(question, 1, "quoted") and second.take(question) == 2
    assert first.held(question) is None and second.held(question) == 2
    assert not first.end(question, 1, "stored", answer="{}") and second.end(question, 2, "stored", answer="{}", ready=clock[0])


def test_one_that_waits_for_the_officer_is_no_claim(database: Database) -> None:
    mine = Claims(database)
    with pytest.raises(ServiceError):
        mine.file(values("k", state="waiting"), mine=True)
    assert mine.find("ann", "k") is None, "nothing was filed"


def test_which_questions_are_under_way_and_which_were_before(database: Database) -> None:
    """Held against the same rule in Python, over questions of every state, lease, person and price."""
    clock, pick = [1000.0], random.Random(random.random())
    mine = Claims(database, lease=10, clock=lambda: clock[0])
    rows, leases = list[dict[str, Any]](), dict[str, float]()
    for number in range(120):
        clock[0] = 1000.0 + number // 3  # three of each time, which their names put in an order
        row, _ = mine.file(values(f"k{number}", person=pick.choice(["ann", "ben"]), epsilon=pick.choice(["1/10", "1/5"]),
                                  purpose=pick.choice(["p", "q"])))  # fmt: skip
        state = pick.choice([*STEPS])
        with database.write() as connection:
            connection.execute(questions.update().where(questions.c.id == row["id"]).values(state=state))
            if pick.random() < 0.6:
                leases[row["id"]] = clock[0] + pick.choice([0.5, 30.0])
                held = {"worker": "w", "lease": leases[row["id"]], "generation": 1}
                connection.execute(claims.insert().values(question=row["id"], **held))
        rows.append({**row, "state": state})
    under_way = {r["id"] for r in rows if r["state"] in ("quoted", "running") or leases.get(r["id"], 0) > clock[0]}
    assert 20 < len(under_way) < 100
    for row in rows:
        same = [r for r in rows if all(r[name] == row[name] for name in ("person", "dataset", "purpose", "epsilon"))]
        first = {r["id"] for r in same if r["id"] in under_way and (r["started"], r["id"]) < (row["started"], row["id"])}
        assert {found["id"] for found in mine.before(row)} == first
    with pytest.raises(ServiceError) as told:
        mine.file(values("one-more"), waiting=len(under_way))
    assert told.value.facts["waiting"] == len(under_way)
    assert mine.file(values("one-more"), waiting=len(under_way) + 1)[1]


def test_a_question_whose_worker_died_before_it_claimed_it_is_found(database: Database) -> None:
    clock = [1000.0]
    claims = Claims(database, lease=10, clock=lambda: clock[0])
    question = filed(claims)
    assert claims.expired() == []
    clock[0] += 11
    assert claims.expired() == [(question, "quoted", 0)]


def test_a_worker_of_this_machine_that_was_killed_is_not_waited_for(database: Database) -> None:
    dead, other = (subprocess.Popen([sys.executable, "-c", "pass"]) for _ in range(2))
    for process in (dead, other):
        process.wait()
    clock = [1000.0]
    first, second, away = (Claims(database, lease=60, clock=lambda: clock[0]) for _ in range(3))
    machine = first.worker.partition(":")[0]
    first.worker, away.worker = f"{machine}:{dead.pid}:ab", f"elsewhere:{other.pid}:ab"
    mine, theirs, ours = filed(first, "k1"), filed(away, "k2"), filed(second, "k3")
    assert first.take(mine) == 1 and away.take(theirs) == 1 and second.take(ours) == 1
    assert second.expired() == [(mine, "running", 1)], "one of another machine may be alive, and one's own is"
    assert {found[0] for found in second.expired(own=True)} == {mine, ours}
    assert second.end(mine, 1, "quoted") and second.take(mine) == 2
    clock[0] += 61
    assert {found[0] for found in second.expired()} == {mine, theirs, ours}


def test_a_key_is_filed_once(database: Database) -> None:
    claims = Claims(database)
    question = filed(claims)
    row = claims.row(question)
    assert row is not None
    again, new = claims.file({**{name: row[name] for name in row if name not in ("id", "asked", "started")}})
    assert not new and again["id"] == question


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_beyond_a_limit_leaves_nothing_behind(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    """The row is put in first and the limits are looked at after it: it is undone, and the same key may be filed again later."""
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path / 'service.db'}"
    database = Database(url)
    try:
        claims = Claims(database)
        question = filed(claims, "first")
        for limits in ({"waiting": 1}, {"each": 1}, {"daily": Fraction(3, 20)}):
            with pytest.raises(ServiceError) as refusal:
                claims.file(values("second"), mine=True, **limits)  # type: ignore[arg-type]
            assert refusal.value.code == ("daily-limit" if "daily" in limits else "queue-full")
            assert claims.find("ann", "second") is None
            # what is there under its key is found, whatever the limits
            assert claims.file(values("first"), **limits)[0]["id"] == question  # type: ignore[arg-type]
        # exactly at each limit, it is filed
        row, new = claims.file(values("second"), mine=True, waiting=2, each=2, daily=Fraction(1, 5))
        assert new and claims.row(row["id"]) == row and claims.held(row["id"]) == 1
        assert claims.file(values("second"), mine=True) == (row, False)
        assert claims.end(row["id"], 1, "stored", answer="{}", ready=claims.clock(), entry=3)
        assert claims.row(row["id"])["answer"] == "{}"  # type: ignore[index]
    finally:
        database.close()


def test_a_full_queue_is_refused(database: Database) -> None:
    claims = Claims(database)
    filed(claims)
    row = claims.row(filed(claims, "k2"))
    assert row is not None
    with pytest.raises(ServiceError) as caught:
        claims.file({**{n: row[n] for n in row if n not in ("id", "asked", "started")}, "key": "k3"}, waiting=2)
    assert caught.value.code == "queue-full"


def test_one_person_does_not_take_all_places(database: Database) -> None:
    """Who asks without waiting for answers is refused before others are."""
    claims = Claims(database)
    for number in range(3):
        claims.file(values(key=f"of-ann-{number}"), waiting=10, each=3)
    with pytest.raises(ServiceError) as refusal:
        claims.file(values(key="one-too-many"), waiting=10, each=3)
    assert refusal.value.code == "queue-full" and refusal.value.facts["waiting"] == 3
    assert claims.file(values(key="of-ann-0"), waiting=10, each=3)[1] is False, "what is there under its key is no new one"
    assert claims.file(values("of-ben", person="ben"), waiting=10, each=3)[1]
    for number in range(3):
        assert claims.file(values(f"for-the-officer-{number}", person="eve", state="waiting"), waiting=5, each=3)[1]
    with pytest.raises(ServiceError):
        claims.file(values("one-more-for-the-officer", person="eve", state="waiting"), waiting=5, each=3)
    row = claims.find("ann", "of-ann-0")
    assert row is not None
    generation = claims.take(row["id"])
    assert generation is not None
    claims.end(row["id"], generation, "stored", ready=claims.clock())
    assert claims.file(values(key="room-again"), waiting=10, each=3)[1]


def test_the_earlier_of_two_questions_is_the_one_that_is_filed_first(database: Database) -> None:
    """Equal questions are answered one after the other, by when they began: who waits to write has not begun."""
    path = database.engine.url.database
    assert path is not None
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(Claims(database).file(values(key="it-waits"))[0]))
    thread.start()
    time.sleep(0.3)
    freed = time.time()
    other.rollback()
    thread.join(20)
    assert found[0]["started"] >= freed and found[0]["asked"] >= freed


def test_no_step_is_skipped(database: Database) -> None:
    claims = Claims(database)
    question = filed(claims, state="waiting")
    assert claims.take(question) is None, "a question that waits for the officer is nobody's"
    assert claims.decide(question, "declined", decided_by="olga") and not claims.decide(question, "quoted")
    assert {"stored", "lost", "refused", "declined"} == ENDED
    assert "running" not in STEPS["lost"] and "quoted" not in STEPS["lost"], "what is lost is never drawn again"
    with pytest.raises(ServiceError):
        claims.end(filed(claims, "k9"), 1, "delivered") or claims._step(None, "x", "running", "delivered")  # type: ignore[arg-type]
