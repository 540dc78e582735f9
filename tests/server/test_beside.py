"""Nothing waits for a statement about rows but its own answer: a request that did would be a clock beside the grid.

The engine is held as a statement that runs holds it, with more questions under way than there are workers. Every route and every page
has to answer meanwhile. The mutant asks for types under the lock of statements, as the engines once did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from typing import Any

import pytest
from tests.ledger.conftest import postgres, postgres_url
from tests.server.house import ASK, House
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
        assert {found.status_code for found in asked} == {202}
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
        # the questions are still under way, and say nothing else
        assert {own_house.send("ben", "GET", f"/v1/questions/{one}").json()["state"] for one in held} <= {"quoted", "running"}
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
