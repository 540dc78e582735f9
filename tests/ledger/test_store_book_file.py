"""Transactions on a file: whole or nothing, on kept connections, never across a fork."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.ledger.store import IDLE, BookFile


@pytest.fixture
def book(tmp_path: Path) -> Iterator[BookFile]:
    found = BookFile(str(tmp_path / "book.db"))
    with found.transaction("create") as connection:
        connection.execute("CREATE TABLE pages (number INTEGER)")
    yield found
    found.close()


def pages(book: BookFile) -> list[int]:
    with book.transaction("read") as connection:
        return [row[0] for row in connection.execute("SELECT number FROM pages ORDER BY number")]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_is_raised_undoes_the_transaction(book: BookFile, error: type[BaseException]) -> None:
    with pytest.raises(error), book.transaction("write") as connection:
        connection.execute("INSERT INTO pages VALUES (1)")
        raise error
    assert pages(book) == []
    with book.transaction("write") as connection:
        connection.execute("INSERT INTO pages VALUES (2)")
    assert pages(book) == [2]


def test_a_statement_that_fails_undoes_the_others(book: BookFile) -> None:
    with pytest.raises(sqlite3.OperationalError), book.transaction("write") as connection:
        connection.execute("INSERT INTO pages VALUES (1)")
        connection.execute("INSERT INTO nowhere VALUES (1)")
    assert pages(book) == []


def test_there_is_one_writer_and_readers_see_what_was_there(book: BookFile) -> None:
    with book.transaction("write") as first:
        first.execute("INSERT INTO pages VALUES (1)")
        with pytest.raises(sqlite3.OperationalError) as found, book.transaction("write"):
            pass
        assert found.value.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
        assert pages(book) == []
    assert pages(book) == [1]


def test_a_reader_keeps_its_picture(book: BookFile) -> None:
    with book.transaction("read") as reader:
        before = reader.execute("SELECT COUNT(*) FROM pages").fetchone()
        with book.transaction("write") as writer:
            writer.execute("INSERT INTO pages VALUES (1)")
        assert reader.execute("SELECT COUNT(*) FROM pages").fetchone() == before
    assert pages(book) == [1]


def test_connections_are_kept_but_not_all(book: BookFile) -> None:
    blocks = [book.transaction("read") for _ in range(IDLE + 3)]
    connections = [block.__enter__() for block in blocks]
    assert len(set(map(id, connections))) == IDLE + 3
    for block in blocks:
        block.__exit__(None, None, None)
    again = [book.transaction("read") for _ in range(IDLE)]
    assert {id(block.__enter__()) for block in again} <= set(map(id, connections))
    for block in again:
        block.__exit__(None, None, None)
    book.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connections[0].execute("SELECT 1")
    assert pages(book) == []  # new ones are opened when they are asked for


def test_commits_are_appended_to_the_log_and_left_for_the_store_to_sync(book: BookFile) -> None:
    """WAL and synchronous=NORMAL: the store syncs once, after the lock was given up."""
    with book.transaction("read") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (0,)


FORKED = """
import os, sys
from fractions import Fraction
from tacit.accounting import PureDP
from tacit.ledger import Budget, Ledger
book = Ledger.open(sys.argv[1])
account = book.account("visits", Budget(epsilon=1))
account.spend(PureDP(Fraction(1, 8)))
idle = book.store.database()._idle
before = {id(connection) for connection in idle}
child = os.fork()
if child == 0:
    account.spend(PureDP(Fraction(1, 8)))
    own = book.store.database()._idle
    kept = {id(connection) for part in book.store._inherited for connection in part}
    os._exit(0 if kept == before and not before & {id(connection) for connection in own} else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
account.spend(PureDP(Fraction(1, 8)))
print(account.spent()["pure"], book.verify().ok)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_uses_its_own_connections_and_closes_none_of_its_parents(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, f"sqlite:///{tmp_path / 'book.db'}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == ["3/8", "True"], run.stderr
