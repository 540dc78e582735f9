"""A book in one SQLite file, through the standard library alone: connections, and transactions that end as they should.

- A transaction is committed when its block ends, and rolled back when anything at all is raised in it.
- Writers begin with `BEGIN IMMEDIATE`, so that nobody reads a total that another is about to change.
- Connections are kept for the next one who asks. None is carried across a fork: a child opens its own, and never closes its parent's.

>>> import pathlib, tempfile
>>> book = BookFile(str(pathlib.Path(tempfile.mkdtemp()) / "book.db"))
>>> with book.transaction("write") as connection:
...     _ = connection.execute("CREATE TABLE pages (number INTEGER)")
...     _ = connection.execute("INSERT INTO pages VALUES (7)")
>>> with book.transaction("read") as connection:
...     connection.execute("SELECT number FROM pages").fetchall()
[(7,)]
>>> book.close()
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from tacit.ledger.layout import FACTS

Purpose = Literal["read", "write", "create"]
#: Connections kept open for the next one who asks; more than this work at the same time, and are closed afterwards.
IDLE = 8


class BookFile:
    """The connections of one process to the file; safe to share between threads."""

    kind = "sqlite"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        # what nobody closes is closed with the last reference, in the process that opened it
        self._finalizer = weakref.finalize(self, _close_all, self._idle, os.getpid())

    def exists(self) -> bool:
        """Whether the file is there; asking does not make it."""
        return os.path.exists(self.path)

    def has_tables(self, connection: sqlite3.Connection) -> bool:
        """Whether there is a book in it."""
        query = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
        return bool(connection.execute(query, (FACTS,)).fetchone()[0])

    @contextmanager
    def transaction(self, purpose: Purpose, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction. A locked file raises at once; `Store` waits. `durable` is `Store.sync`'s affair here."""
        connection = self._taken()
        whole = False
        try:
            connection.execute("BEGIN" if purpose == "read" else "BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            whole = True
        finally:
            if not whole:
                whole = _rolled_back(connection)
            self._given_back(connection, usable=whole)

    def _taken(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _connected(self.path)

    def _given_back(self, connection: sqlite3.Connection, *, usable: bool) -> None:
        with self._lock:
            if usable and len(self._idle) < IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what nobody is using; new connections are opened when they are asked for."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def leave_behind(self) -> list[sqlite3.Connection]:
        """In a child after a fork: the parent's connections. They must be held for good, because letting them go would close them."""
        self._finalizer.detach()
        return self._idle


def _connected(path: str) -> sqlite3.Connection:
    """A connection in which transactions are begun by nobody but `BookFile.transaction`, and which never waits for a lock by itself."""
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # Store.sync does the rest
        # SQLite's own waiting backs off to a tenth of a second, behind which a newcomer overtakes; equal short waits are fair
        connection.execute("PRAGMA busy_timeout=0")
    except BaseException:
        connection.close()
        raise
    return connection


def _rolled_back(connection: sqlite3.Connection) -> bool:
    """Undo what was begun; whether the connection can be used again."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return True
    return False


def _close_all(connections: list[sqlite3.Connection], pid: int) -> None:
    if os.getpid() == pid:
        while connections:
            connections.pop().close()
