"""The service's own tables in SQLite: whoever wants to write waits for who writes, and what every request asks is read without waiting."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from tests.ledger.conftest import postgres, postgres_url

from tacit.server import database as module
from tacit.server import driver
from tacit.server.database import Database, links
from tacit.server.errors import ServiceError

__all__ = ["postgres", "postgres_url"]  # fixtures
BY_PERSON = sa.select(links).where(links.c.person == sa.bindparam("person")).order_by(links.c.hash)
BY_HASH = sa.select(links).where(links.c.hash == sa.bindparam("hash"))


def put(database: Database, name: str) -> None:
    with database.write() as connection:
        connection.execute(links.insert().values(hash=name, person="ann", expires=1.0, used=None))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'service.db'}")


def writer(database: Database) -> sqlite3.Connection:
    """Someone else who has begun to write to the file."""
    path = database.engine.url.database
    assert path is not None
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_writer_waits_for_another_and_goes_on_at_once(database: Database) -> None:
    other = writer(database)
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    began = time.monotonic()
    put(database, "ab")
    assert time.monotonic() - began >= 0.29
    assert database.at_once(BY_HASH, {"hash": "ab"}) == {"hash": "ab", "person": "ann", "expires": 1.0, "used": None}
    other.close()


def test_a_file_that_stays_locked_is_unavailable_and_the_connection_is_good_afterwards(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = writer(database)
    with monkeypatch.context() as patch:
        patch.setattr(module, "WAIT", 0)
        with pytest.raises(ServiceError) as told:
            put(database, "ab")
    assert told.value.code == "unavailable" and "locked" not in str(told.value)
    assert database.at_once(BY_HASH, {"hash": "ab"}) is None, "readers do not wait for a writer"
    other.execute("ROLLBACK")
    put(database, "ab")
    assert database.at_once(BY_HASH, {"hash": "ab"}) is not None
    other.close()


def test_many_writers_lose_nothing(database: Database) -> None:
    threads = [threading.Thread(target=lambda n=n: [put(database, f"{n}-{i}") for i in range(20)]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(links)).scalar_one() == 120


def test_rows_that_cannot_be_had_at_once_are_read(database: Database) -> None:
    put(database, "ab")
    wanted = [{"hash": "ab", "person": "ann", "expires": 1.0, "used": None}]
    assert database.rows(BY_HASH, {"hash": "ab"}) == wanted and database.rows(BY_HASH, {"hash": "cd"}) == []
    put(database, "ac")
    assert len(database.rows(BY_PERSON, {"person": "ann"})) == 2
    assert database.at_once(BY_PERSON, {"person": "ann"}) == wanted[0], "the first alone"
    database.file.readers[:] = [sqlite3.connect(":memory:")]  # it has none of the tables
    assert database.at_once(BY_HASH, {"hash": "ab"}) is None
    database.file.readers[:] = [sqlite3.connect(":memory:")]
    assert database.rows(BY_HASH, {"hash": "ab"}) == wanted
    assert database.file.readers == [], "a connection that failed is not used again"
    database.file = None
    assert database.rows(BY_HASH, {"hash": "ab"}) == wanted


def test_who_looks_waits_for_nobody_who_looks(database: Database) -> None:
    """Each has a connection alone: one whose thread is not let on would hold up the loop."""
    put(database, "ab")
    held: list[bool] = []

    class Slow(sqlite3.Connection):
        def execute(self, *given: object) -> sqlite3.Cursor:
            if not held:
                held.append(True)
                assert database.at_once(BY_HASH, {"hash": "ab"}) is not None, "while another reads"
            return super().execute(*given)  # type: ignore[arg-type]

    slow = sqlite3.connect(database.engine.url.database or "", factory=Slow, isolation_level=None, check_same_thread=False)
    slow.row_factory = sqlite3.Row
    database.file.readers[:] = [slow]
    assert database.at_once(BY_HASH, {"hash": "ab"}) is not None and held == [True]
    assert len(database.file.readers) == 2


def test_no_more_readers_are_kept_than_said(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    put(database, "ab")
    monkeypatch.setattr(driver, "KEPT", 1)
    spare = sqlite3.connect(database.engine.url.database or "", isolation_level=None, check_same_thread=False)
    spare.row_factory = sqlite3.Row

    class Filling(sqlite3.Connection):
        def execute(self, *given: object) -> sqlite3.Cursor:
            database.file.readers.append(spare)
            return super().execute(*given)  # type: ignore[arg-type]

    database.file.readers[:] = [sqlite3.connect(database.engine.url.database or "", factory=Filling, isolation_level=None)]
    database.file.readers[0].row_factory = sqlite3.Row
    assert database.at_once(BY_HASH, {"hash": "ab"}) is not None
    assert database.file.readers == [spare]
    database.close()
    assert database.file.readers == []


def test_a_server_is_not_asked_in_the_loop(database: Database) -> None:
    put(database, "ab")
    assert database.at_once(BY_HASH, {"hash": "ab"}) is not None
    database.file = None
    assert database.at_once(BY_HASH, {"hash": "ab"}) is None


def test_all_machines_go_by_the_clock_of_the_server(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is ahead would show an answer when it is stored, and take questions away from workers that are alive."""
    with monkeypatch.context() as patch:
        ahead = SimpleNamespace(time=lambda: time.time() + 100, monotonic=time.monotonic, sleep=time.sleep)
        patch.setattr(module, "time", ahead)
        fast = Database(postgres_url)
        assert abs(fast.clock() - time.time()) < 5  # both are on one machine, and the round trip is milliseconds; 100 s would be missed
        fast._ahead, fast._compared = 0.0, -module.COMPARE  # an hour later the clock has run away
        assert fast.clock() - time.time() > 95
        put(fast, "compared where something is written")
        assert abs(fast.clock() - time.time()) < 5
        fast.close()
    slow = Database(postgres_url)
    assert abs(slow.clock() - time.time()) < 5
    assert slow.key("grid") == slow.key("grid") != slow.key("another")
    slow.close()


def test_a_file_belongs_to_one_machine_and_goes_by_its_clock(database: Database) -> None:
    assert database._ahead == 0.0 and abs(database.clock() - time.time()) < 5
