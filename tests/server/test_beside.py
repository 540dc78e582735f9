"""Nothing waits for a statement about rows but its own answer: a request that did would be a clock beside the grid.

The engine is held as a statement that runs holds it, with more questions under way than there are workers. Every route and every page
has to answer meanwhile. The mutant asks for types under the lock of statements, as the engines once did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlglot import parse_one
from tests.ledger.conftest import postgres, postgres_url
from tests.server.house import ASK, SQL, House
from tests.server.test_access import PEOPLE, Objects, routes

from tacit.server.access import PUBLIC

__all__ = ["postgres", "postgres_url"]  # fixtures
#: Longer than any request takes on a busy machine. Nothing is let go before all have answered.
PATIENCE = 60
PAGES = {
    "ann": ["/", "/ask?dataset=visits", "/datasets/visits", "/history", "/me", "/plain/visits", "/models", "/releases"],
    "olga": ["/", "/budget", "/book", "/purposes", "/subjects", "/models", "/history"],
    "cleo": ["/", "/releases", "/models"],
}


@contextmanager
def running(house: House, questions: int = 4) -> Iterator[list[str]]:
    """A statement runs and does not end; so many questions wait for it. Their numbers."""
    engine: Any = house.service.datasets["visits"].source.engine
    with engine._lock:
        asked = [house.ask("ben", f"held-question-{turn}", wait=0, epsilon=f"0.001{turn}") for turn in range(questions)]
        assert {found.status_code for found in asked} <= {202}
        yield [found.json()["id"] for found in asked]


def soon(what: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What a call gives, unless it waits."""
    found: Future[Any] = Future()
    threading.Thread(target=lambda: found.set_result(what()), daemon=True).start()
    return found.result(patience)


def price(house: House, turn: int) -> int:
    """The price of a question that was not planned before."""
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {turn}"
    return int(house.send("ann", "POST", "/v1/price", {**ASK, "sql": sql}).status_code)


def test_every_route_answers_while_a_statement_runs(own_house: House) -> None:
    objects = Objects(own_house)
    with running(own_house) as held:
        for method, template, action in routes(own_house):
            if action in PUBLIC or action == "watch_question":
                continue
            for role in ("analyst", "curator", "officer"):
                path, body = objects.path(template, "own"), objects.bodies.get(action)
                body = {"role": role} if action == "make_token" else body
                send = lambda m=method, p=path, b=body, r=role: own_house.send(PEOPLE[r], m, p, b, idempotency_key=f"a-key-for-{r}")  # noqa: E731
                assert soon(send).status_code < 500, action
        for turn in range(3):
            assert soon(lambda turn=turn: price(own_house, turn)) == 200
        dry = {**ASK, "sql": "SELECT AVG(age) AS a FROM visits", "epsilons": ["0.1", "0.2"]}
        dry.pop("epsilon")
        assert soon(lambda: own_house.send("ann", "POST", "/v1/price", dry)).status_code == 200
        # the questions are still under way, those that wait for the engine like the one that has it
        assert {own_house.send("ben", "GET", f"/v1/questions/{one}").json()["state"] for one in held} == {"running"}
    ended = [own_house.send("ben", "GET", f"/v1/questions/{one}", prefer="wait=50").json()["state"] for one in held]
    assert set(ended) == {"answered"}


def test_every_page_answers_while_a_statement_runs(own_house: House) -> None:
    mine = own_house.ask("ann", "a-question-of-ann").json()["id"]
    browsers = {person: own_house.browser(person) for person in PAGES}
    with running(own_house):
        for person, paths in PAGES.items():
            for path in [*paths, *([f"/questions/{mine}"] if person == "ann" else [])]:
                found = soon(lambda path=path, person=person: browsers[person].get(path))
                assert found.status_code in (200, 303, 404), path
    assert all(browsers["ann"].get(path).status_code == 200 for path in ("/ask?dataset=visits", "/history", "/me"))


def test_sixty_prices_at_once_answer_while_a_statement_runs(own_house: House) -> None:
    """More than the threads that serve requests: none of them is held by the statement."""
    with running(own_house), ThreadPoolExecutor(60) as pool:
        found = list(pool.map(lambda turn: price(own_house, turn % 20), range(60), timeout=PATIENCE))
    assert set(found) == {200}


def test_the_mutant_waits(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = own_house.service.datasets["visits"].source.engine
    with running(own_house), monkeypatch.context() as changed:
        changed.setattr(engine, "_beside_lock", engine._lock)
        with pytest.raises(TooLate):
            soon(lambda: price(own_house, 17), patience=2)
    assert soon(lambda: price(own_house, 18)) == 200


# --- what a request could tell about the end of a statement


def reserves(house: House) -> int:
    return sum(entry["kind"] == "reserve" for entry in house.service.ledger.entries())


def until(what: Callable[[], bool], patience: float = PATIENCE) -> bool:
    end = time.monotonic() + patience
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def ready(house: House, question: str) -> bool:
    row = house.service.claims.row(question)
    return row is not None and row["state"] in ("stored", "lost", "refused")


def test_a_price_is_booked_whatever_statements_run(own_house: House) -> None:
    """More questions than turns: each is booked at once, because the account shows when."""
    before = reserves(own_house)
    with running(own_house, 6):
        assert until(lambda: reserves(own_house) == before + 6)


def test_the_mutant_books_when_a_statement_ends(own_house: House) -> None:
    own_house.service.datasets["visits"].outside = nullcontext  # the turn is kept while the engine works
    worker = own_house.service.worker
    worker.to_plan, worker.to_book = 0.0, PATIENCE
    before = reserves(own_house)
    with running(own_house, 6):
        assert not until(lambda: reserves(own_house) > before + 1, patience=1)
    assert until(lambda: reserves(own_house) == before + 6)


def test_a_place_in_the_queue_is_free_when_the_outcome_may_be_seen(house_in: Callable[..., House], tmp_path: Path) -> None:
    late = ("step: 0.01 s", "step: 0.01 s, estimates: {visits: 4 s}")
    house = house_in(tmp_path, late, ("limits: {", "limits: {waiting: 1, "))
    try:
        asked = house.ask("ben", "the-first-question", wait=0)
        assert asked.status_code == 202 and until(lambda: ready(house, asked.json()["id"]))
        full = house.ask("ann", "another-question", wait=0, epsilon="0.2")
        assert full.json()["type"].endswith("queue-full"), "its answer is stored, and must not be known to be"
        row = house.service.claims.row(asked.json()["id"])
        assert row is not None
        house.service.claims.clock = lambda: row["started"] + 6
        assert house.ask("ann", "another-question", wait=0, epsilon="0.2").status_code == 202
    finally:
        house.service.close()


def test_a_refusal_of_the_worker_leaves_on_the_grid(house_in: Callable[..., House], tmp_path: Path) -> None:
    """When a worker comes to a question depends on the statements before it."""
    house = house_in(tmp_path, ("step: 0.01 s", "step: 0.01 s, estimates: {visits: 4 s}"))
    try:
        house.service.worker.still = lambda person, token, dataset: False
        asked = house.ask("ben", "of-one-who-may-not", wait=0).json()["id"]
        assert until(lambda: ready(house, asked))
        row = house.service.claims.row(asked)
        assert row is not None and row["state"] == "refused"
        house.service.claims.clock = lambda: row["started"] + 3.9
        assert house.send("ben", "GET", f"/v1/questions/{asked}").json()["state"] == "running"
        house.service.claims.clock = lambda: row["started"] + 6
        assert house.send("ben", "GET", f"/v1/questions/{asked}").json()["state"] == "refused"
    finally:
        house.service.close()


def test_the_price_of_an_equal_question_does_not_tell_whether_the_first_is_done(house_in: Callable[..., House], tmp_path: Path) -> None:
    house = house_in(tmp_path, ("step: 0.01 s", "step: 0.01 s, estimates: {visits: 1 s}"))
    try:
        before, said = reserves(house), SQL.replace("COUNT(*)", "COUNT( * )")
        with running(house, 0):  # the first is not done
            first = house.ask("ben", "asked-once-only", wait=0).json()["id"]
            second = house.ask("ben", "asked-once-more", wait=0, sql=said).json()["id"]
            other = house.ask("ben", "asked-otherwise", wait=0, sql="SELECT COUNT(*) AS n FROM visits").json()["id"]
            assert until(lambda: reserves(house) == before + 2) and not until(lambda: reserves(house) > before + 2, patience=0.5)
        assert until(lambda: ready(house, first))
        third = house.ask("ben", "asked-a-third-time", wait=0).json()["id"]  # the first is done, and cannot be seen yet
        views = [house.send("ben", "GET", f"/v1/questions/{one}", prefer="wait=50").json() for one in (first, second, third, other)]
        assert [view["state"] for view in views] == ["answered"] * 4
        assert len({house.entry(view) for view in views[:3]}) == 1 and reserves(house) == before + 2
        rows = [house.service.claims.row(view["id"]) for view in views[:3]]
        assert all(row is not None and rows[0] is not None and row["ready"] >= rows[0]["started"] + 1 for row in rows[1:])
    finally:
        house.service.close()


def test_no_number_of_the_book_tells_when_a_statement_ended(own_house: House) -> None:
    """Bookings and ends are numbered together: two questions of one analyst are next to each other unless a statement ended between."""
    with running(own_house, 1) as held:
        assert until(lambda: reserves(own_house) == 1)  # two that are filed at once may be booked in either order
        second = own_house.ask("ben", "while-the-first-runs", wait=0, epsilon="0.002").json()["id"]
        assert until(lambda: reserves(own_house) == 2)
    asked = [own_house.send("ben", "GET", f"/v1/questions/{one}", prefer="wait=50").json() for one in (*held, second)]
    asked.append(own_house.ask("ben", "after-it-ended", epsilon="0.003").json())
    numbers = [own_house.entry(view) or 0 for view in asked]
    assert numbers[1] == numbers[0] + 1 and numbers[2] > numbers[1] + 1, "the numbers do tell"
    views = [*asked, *own_house.send("ben", "GET", "/v1/questions").json()]
    views.append(own_house.send("ann", "GET", f"/v1/shared/{own_house.service.questions.share(_caller(own_house), asked[0]['id'])}").json())
    for view in views:
        assert view["state"] == "answered" and view["entry"] is None and (view.get("answer") or {"entry": None})["entry"] is None
    page = own_house.browser("ben").get(f"/questions/{second}").text
    assert "19 times in 20" in page and "entry" not in page
    told = own_house.send("olga", "GET", f"/v1/questions/{second}").json()
    assert told["entry"] == numbers[1] and "answer" not in told
    assert {view["entry"] for view in own_house.send("olga", "GET", "/v1/questions").json()} == set(numbers)


def _caller(house: House) -> Any:
    return house.service.register.by_token(house.token("ben"))


def test_an_erasure_does_not_wait_for_a_statement(own_house: House) -> None:
    dataset, subjects = own_house.service.datasets["visits"], own_house.service.subjects
    person = pq.read_table(dataset.base / "visits.parquet", columns=["patient_id"])["patient_id"][0].as_py()
    count = parse_one(f"SELECT COUNT(*) AS n FROM visits WHERE patient_id = {person}")
    engine: Any = dataset.desk_for("bed-planning").engine
    subjects.refresh(dataset, "bed-planning")
    assert engine.run(count.copy()).to_pydict()["n"][0] > 0
    with running(own_house, 0):
        found = own_house.send("olga", "POST", "/v1/subjects/erase", {"dataset": "visits", "person": str(person)})
        assert found.status_code == 200
        soon(lambda: subjects.refresh(dataset, "bed-planning"))
    assert engine.run(count.copy()).to_pydict() == {"n": [0]}


def test_an_outcome_is_read_without_a_thread_and_lost_ones_take_the_same_way(own_house: House) -> None:
    mine = own_house.ask("ann", "read-without-a-thread").json()
    row = own_house.service.claims.row(mine["id"])
    assert row is not None
    questions = own_house.service.questions
    assert questions.drawn(row) == questions._drawn(row)
    due = questions.due(row)
    assert due is not None and due == questions._drawn(row) + questions.grid.spread(row["id"])
    assert questions.drawn({**row, "state": "running", "ready": None}) is None, "nothing is told of one that is not done"
    lost = {**row, "state": "lost", "entry": None, "answer": None}
    assert questions.drawn(lost) is not None and questions.view(lost)["answered"] is None
    again = own_house.ask("ann", "read-from-the-book").json()
    copy = own_house.service.claims.row(again["id"])
    assert copy is not None and copy["entry"] == row["entry"] and questions.drawn(copy) == questions.drawn(row)
