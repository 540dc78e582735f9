"""Workers killed with -9 at random: every delivered answer has its entry, no key is drawn twice, no account is over budget.

The long form (a minute, 64 clients, a kill every 200 ms, both databases) is slow; the short one is in every run. What is killed
when is the machine's, so nothing here depends on it: the assertions hold for every interleaving.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect
from tests.ledger.conftest import postgres, postgres_url
from tests.server.house import House
from tests.server.test_beside import until

from tacit.server import Service, driver, load
from tacit.server.driver import File

__all__ = ["postgres", "postgres_url"]  # fixtures
ROOT = Path(__file__).resolve().parents[2]


def killed(folder: Path, *, seconds: float, every: float, workers: int, threads: int, calm: float) -> int:
    """Workers that are killed at random; how many were. A client that hangs is found by the time limit."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    numbers = [str(number) for number in (seconds, every, workers, threads, calm)]
    words = [sys.executable, str(ROOT / "tests" / "server" / "hammer.py"), str(folder), *numbers]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, timeout=seconds + 180, check=True)
    return int(done.stdout)


def check(service: Service, folder: Path) -> dict[str, int]:
    """What must hold whatever was killed when; how many outcomes of each kind were delivered."""
    entries = list(service.ledger.entries())
    keys = [entry["key"] for entry in entries if entry["kind"] == "reserve"]
    assert len(keys) == len(set(keys)), "a key was booked twice"
    reserved = {entry["seq"]: entry for entry in entries if entry["kind"] == "reserve"}
    concluded = [entry["reservation"] for entry in entries if entry["kind"] == "commit"]
    assert len(concluded) == len(set(concluded)) and set(concluded) <= set(reserved)
    found = service.ledger.verify()
    assert found.ok, str(found)
    for account in service.ledger.accounts():
        assert all(account.spent()[name] <= limit for name, limit in account.budget.limits.items())
    delivered: dict[str, set[Any]] = defaultdict(set)
    counted: dict[str, int] = defaultdict(int)
    for file in folder.glob("delivered-*"):
        for line in file.read_text().splitlines():
            try:
                key, state, entry, figure = json.loads(line)
            except ValueError:
                continue  # a line that the kill cut off
            counted[state] += 1
            if state == "answered":
                assert entry in reserved and entry in concluded, "an answer without its entry"
            delivered[key].add((state, entry, figure))
    assert all(len(outcomes) == 1 for outcomes in delivered.values()), "one key has two outcomes"
    return counted


def run(house_in: Callable[..., House], folder: Path, database: str, **how: Any) -> tuple[dict[str, int], int]:
    placed = f"database: {json.dumps(database)}\n" if database else ""
    changes = [
        ("limits: {", f"{placed}limits: {{lease: 2 s, waiting: 100000, "),
        ("epsilon: 2\n", "epsilon: 3\n"),
    ]
    house_in(folder, *changes).service.close()
    kills = killed(folder, **how)
    with Service.open(load(folder / "service.yaml")) as service:
        for _ in range(300):  # what was left is decided by whoever comes next
            service.worker.sweep()
            if not service.claims.expired() and not service.worker._held:
                break
            time.sleep(0.1)
        return check(service, folder), kills


def test_workers_killed_at_random(house_in: Callable[..., House], tmp_path: Path) -> None:
    counted, kills = run(house_in, tmp_path, "", seconds=10, every=0.7, workers=2, threads=3, calm=6)
    assert kills >= 3 and counted["answered"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_minute_of_kills(house_in: Callable[..., House], tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    database = "" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    counted, kills = run(house_in, tmp_path, database, seconds=90, every=0.2, workers=4, threads=16, calm=30)
    print(kind, dict(counted), "kills:", kills)
    assert kills >= 20 and counted["answered"] >= 10


STEPS = ("file", "held", "take", "row", "end")


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_dies_between_any_two_steps(own_house: House, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The database goes away at one step of the worker: the question is answered or lost later, and paid for at most once."""
    service, real = own_house.service, getattr(own_house.service.claims, step)
    failures = [True]

    def broken(*given: Any, **named: Any) -> Any:
        if failures and (step != "row" or given):
            failures.pop()
            if step == "file":
                real(*given, **named)  # filed and claimed, and nobody was told
            raise OSError("the disk is full")
        return real(*given, **named)

    monkeypatch.setattr(service.claims, step, broken)
    monkeypatch.setattr(service.claims, "lease", 0.2)
    try:
        view = own_house.ask("ann", "a-key-through-a-fault", wait=0).json()
    except Exception:
        view = own_house.ask("ann", "a-key-through-a-fault", wait=0).json()
    until = time.monotonic() + 20
    while view.get("state") not in ("answered", "lost") and time.monotonic() < until:
        time.sleep(0.25)
        service.worker.sweep()
        view = own_house.ask("ann", "a-key-through-a-fault", wait=1).json()
    assert view["state"] == "answered"
    reserves = [entry for entry in service.ledger.entries() if entry["kind"] == "reserve"]
    assert len(reserves) == 1 and service.ledger.verify().ok


# --- the database under a service -------------------------------------------------------------------------------------


def settled(house: House, key: str, **changed: Any) -> Any:
    """The outcome of a question, asked for again until it has one."""
    until = time.monotonic() + 30
    while True:
        found = house.ask("ann", key, wait=1, **changed)
        assert found.status_code in (200, 202, 503), found.text
        if found.json().get("state") in ("answered", "lost", "refused"):
            return found.json()
        assert time.monotonic() < until, found.text
        house.service.worker.sweep()
        time.sleep(0.05)


def paid_once(house: House, *keys: str) -> None:
    """Each delivered answer has its entry, and no key has two."""
    entries = [entry for entry in house.service.ledger.entries() if entry["kind"] == "reserve"]
    booked = [entry["key"] for entry in entries]
    assert len(booked) == len(set(booked)) <= len(keys)
    assert house.service.ledger.verify().ok


def counted_calls(monkeypatch: pytest.MonkeyPatch, fail_at: int, raised: Callable[[], BaseException]) -> list[int]:
    """Every statement to the service's tables or the book is counted; the one with this number fails, once."""
    calls, real = [0], DefaultDialect.do_execute

    def counted(self: Any, cursor: Any, statement: str, parameters: Any, context: Any = None) -> Any:
        calls[0] += 1
        if calls[0] == fail_at:
            raise raised()
        return real(self, cursor, statement, parameters, context)

    by_driver = driver.sent

    def counted_of_driver(connection: Any, text: str, values: Any = None) -> Any:
        calls[0] += 1
        if calls[0] == fail_at:
            raise raised()
        return by_driver(connection, text, values)

    monkeypatch.setattr(DefaultDialect, "do_execute", counted)
    monkeypatch.setattr(driver, "sent", counted_of_driver)
    return calls


@pytest.mark.parametrize("part", range(4))
def test_a_full_disk_or_a_cut_connection_at_every_statement(own_house: House, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """The database fails at each statement in turn, from filing a question to delivering it; the same key ends once."""
    monkeypatch.setattr(own_house.service.claims, "lease", 0.1)
    keys, reached, at = list[str](), True, part + 1
    own_house.token("ann")
    while reached and at < 60:
        words = "database or disk is full" if at % 2 else "disk I/O error"
        with monkeypatch.context() as patch:
            calls = counted_calls(patch, at, lambda words=words: sqlite3.OperationalError(words))
            key = f"through-a-fault-{at:03d}"
            own_house.ask("ann", key, wait=1, epsilon=f"0.0001{at:03d}")
            reached = calls[0] >= at
        view = settled(own_house, key, epsilon=f"0.0001{at:03d}")
        assert view["state"] in ("answered", "lost")
        keys.append(key)
        at += 4
    paid_once(own_house, *keys)
    assert len(keys) > 2


def test_a_disk_that_is_full_for_a_while_costs_no_answer_twice(
    house_in: Callable[..., House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite is held to the pages that it has: nothing can be filed or booked. Then there is room again."""
    house = house_in(tmp_path)
    try:
        assert house.ask("ann", "before-it-was-full").json()["state"] == "answered"
        def holding(connection: Any, *_: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

        engine, file, real = house.service.database.engine, house.service.database.file, File._opened
        assert file is not None

        def small(self: File, wait: float) -> sqlite3.Connection:
            connection = real(self, wait)
            pages = connection.execute("PRAGMA page_count").fetchone()["page_count"]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            return connection

        engine.dispose()
        file.close()
        sa.event.listen(engine, "connect", holding)
        monkeypatch.setattr(File, "_opened", small)
        statuses = {house.ask("ann", f"while-it-was-full-{n}", wait=0, epsilon=f"0.0002{n:02d}").status_code for n in range(40)}
        assert statuses <= {200, 202, 503} and 503 in statuses, statuses
        sa.event.remove(engine, "connect", holding)
        monkeypatch.setattr(File, "_opened", real)
        engine.dispose()
        file.close()
        for number in range(40):
            view = settled(house, f"while-it-was-full-{number}", epsilon=f"0.0002{number:02d}")
            assert view["state"] in ("answered", "lost")
        paid_once(house, "before-it-was-full", *(f"while-it-was-full-{n}" for n in range(40)))
    finally:
        house.service.close()


def test_a_database_server_that_is_started_again(house_in: Callable[..., House], tmp_path: Path, postgres_url: str) -> None:
    """Every connection of the server is cut while questions are under way, again and again; none is drawn twice, none hangs."""
    house = house_in(tmp_path, extra=f'database: "{postgres_url}"\n')
    admin = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    stop, cuts = threading.Event(), [0]

    def cut() -> None:
        everyone = (
            "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        while not stop.wait(0.4):
            with admin.connect() as connection:
                cuts[0] += int(connection.execute(sa.text(everyone)).scalar_one())

    cutter = threading.Thread(target=cut)
    cutter.start()
    keys = [f"through-a-restart-{n:02d}" for n in range(12)]
    try:
        for number, key in enumerate(keys):
            house.ask("ann", key, wait=0, epsilon=f"0.0003{number:02d}")
        assert until(lambda: cuts[0] > 0), "a quick machine files all of them before the first cut"
    finally:
        stop.set()
        cutter.join()
    try:
        views = [settled(house, key, epsilon=f"0.0003{number:02d}") for number, key in enumerate(keys)]
        assert cuts[0] > 0 and sum(view["state"] == "answered" for view in views) > len(keys) // 2
        paid_once(house, *keys)
    finally:
        house.service.close()
        admin.dispose()
