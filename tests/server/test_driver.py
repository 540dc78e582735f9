"""Transactions by SQLite's driver: whole or not at all, one writer at a time, and nothing is left behind by one that fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.test_database import BY_HASH, BY_PERSON, writer

from tacit.server.database import Database, links
from tacit.server.driver import KEPT, File
from tacit.server.errors import ServiceError

PUT = links.insert()
USE = links.update().where(links.c.hash == sa.bindparam("of")).values(used=sa.bindparam("at"))


def link(name: str) -> dict[str, Any]:
    return {"hash": name, "person": "ann", "expires": 1.0, "used": None}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'service.db'}")
    yield found
    found.close()


@pytest.fixture
def file(database: Database) -> File:
    assert database.file is not None
    return database.file


def test_a_transaction_tells_what_it_changed_and_reads_what_it_wrote(database: Database) -> None:
    with database.writing() as one:
        assert one.run(PUT, link("ab")) == 1
        assert one.run(USE, {"of": "ab", "at": 2.0}) == 1 and one.run(USE, {"of": "cd", "at": 2.0}) == 0
        assert one.rows(BY_HASH, {"hash": "ab"}) == [{**link("ab"), "used": 2.0}]
        assert database.at_once(BY_HASH, {"hash": "ab"}) is None, "others see it when it is whole"
    assert database.at_once(BY_HASH, {"hash": "ab"}) is not None


def test_what_fails_is_undone_and_the_connection_is_used_again(database: Database, file: File) -> None:
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), database.writing() as one:
            one.run(PUT, link("ab"))
            raise ZeroDivisionError
    assert database.at_once(BY_HASH, {"hash": "ab"}) is None and len(file.writers) == 1
    with database.writing() as one:
        one.run(PUT, link("ab"))
    with pytest.raises(ServiceError) as told, database.writing() as one:
        one.run(PUT, link("ab"))
    assert told.value.code == "unavailable" and "ab" not in str(told.value)
    assert len(file.writers) == 1 and not file.writers[0].in_transaction


def test_a_full_disk_stores_nothing_and_is_told_as_unavailable(database: Database, file: File) -> None:
    with database.writing() as one:
        pages = one.rows(sa.text("PRAGMA page_count"), {})[0]["page_count"]
        one.run(sa.text(f"PRAGMA max_page_count = {pages}"), {})  # of this connection, as a disk that has no room
    with pytest.raises(ServiceError) as told, database.writing() as one:
        for number in range(10_000):
            one.run(PUT, link(f"{number:060d}"))
    assert told.value.code == "unavailable"
    assert database.rows(BY_PERSON, {"person": "ann"}) == [] and not file.writers[0].in_transaction
    file.writers.pop().close()
    with database.writing() as one:
        one.run(PUT, link("ab"))
    assert len(database.rows(BY_PERSON, {"person": "ann"})) == 1


def test_a_file_that_stays_locked_is_unavailable(database: Database, file: File) -> None:
    other = writer(database)
    file.wait = 0.1
    with pytest.raises(ServiceError) as told, database.writing() as one:
        one.run(PUT, link("ab"))
    assert told.value.code == "unavailable"
    # a thread of this process that writes for too long is the same
    other.execute("ROLLBACK")
    other.close()
    with database.writing() as one:
        one.run(PUT, link("ab"))
        found: list[str] = []

        def second() -> None:
            try:
                with database.writing() as late:
                    late.run(PUT, link("cd"))
            except ServiceError as error:
                found.append(error.code)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert found == ["unavailable"] and database.at_once(BY_HASH, {"hash": "cd"}) is None
    file.wait = 30.0
    with database.writing() as one:
        one.run(PUT, link("cd"))


MANY = """
import sys
from tacit.server.database import Database, links
database = Database(sys.argv[1])
for number in range(40):
    with database.writing() as one:
        one.run(links.insert(), {"hash": f"{sys.argv[2]}-{number}", "person": "ann", "expires": 1.0, "used": None})
"""


def test_threads_and_processes_that_write_at_once_lose_nothing(database: Database, file: File) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    others = [subprocess.Popen([sys.executable, "-c", MANY, url, name]) for name in ("one", "two")]

    def put(name: str) -> None:
        for number in range(40):
            with database.writing() as one:
                one.run(PUT, link(f"{name}-{number}"))

    threads = [threading.Thread(target=put, args=(f"thread-{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(timeout=60) for other in others] == [0, 0]
    assert len(database.rows(BY_PERSON, {"person": "ann"})) == 14 * 40
    assert 1 <= len(file.writers) <= KEPT


DIES = """
import os, signal, sys
from tacit.server.database import Database, links
database = Database(sys.argv[1])
with database.writing() as one:
    one.run(links.insert(), {"hash": "ab", "person": "ann", "expires": 1.0, "used": None})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_while_it_writes_stores_nothing_and_locks_nothing(database: Database) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    assert subprocess.run([sys.executable, "-c", DIES, url], check=False).returncode == -9
    with database.writing() as one:
        assert one.rows(BY_HASH, {"hash": "ab"}) == [] and one.run(PUT, link("ab")) == 1


def test_statements_are_put_into_words_once(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    first = file.text(BY_HASH)
    monkeypatch.setattr(type(BY_HASH), "compile", lambda *_, **__: pytest.fail("again"))
    assert file.text(BY_HASH) is first and ":hash" in first


def test_whoever_looks_waits_for_nobody_who_writes(database: Database) -> None:
    """A reader waits for nobody, and sees what was there before."""
    with database.writing() as one:
        one.run(PUT, link("ab"))
        assert database.rows(BY_PERSON, {"person": "ann"}) == []
    assert len(database.rows(BY_PERSON, {"person": "ann"})) == 1
