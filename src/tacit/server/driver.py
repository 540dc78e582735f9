"""SQLite's own driver, for the few statements that every question asks or writes: they take a tenth of the time that they take elsewhere.

A statement is one of SQLAlchemy's that names its values by `bindparam` and is used again and again, because its text is kept. Whoever
looks waits for nobody. Whoever writes is alone in the process first, then in the file, and has it for as long as the statements take:
each of them lets other threads run, so that few of them is what keeps other processes from waiting.

>>> import pathlib, tempfile
>>> pages = sa.Table("pages", sa.MetaData(), sa.Column("number", sa.Integer, primary_key=True))
>>> file = File(str(pathlib.Path(tempfile.mkdtemp()) / "pages.db"), wait=1)
>>> with file.writing() as writer:
...     made = writer.run(sa.text("CREATE TABLE pages (number INTEGER PRIMARY KEY)"), {})
...     writer.run(pages.insert(), {"number": 7})
1
>>> file.rows(sa.select(pages).where(pages.c.number == sa.bindparam("number")), {"number": 7})
[{'number': 7}]
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

#: What is asked or written again and again.
Statement = sa.Select[Any] | sa.Insert | sa.Update | sa.TextClause
_NAMED = sqlite.dialect(paramstyle="named")
#: So many connections to look with, and so many to write with, are kept for the next who need one.
KEPT = 8
#: Whoever waits for the file looks again so often, in seconds. SQLite itself would soon look ten times a second
#: only, and the book's writers, who do not wait so long, would always come first.
AGAIN = 0.0005


class Writer:
    """A transaction of a file."""

    def __init__(self, file: File, connection: sqlite3.Connection) -> None:
        self._file, self._connection = file, connection

    def rows(self, query: Statement, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of a query."""
        return [dict(row) for row in sent(self._connection, self._file.text(query), values)]

    def run(self, statement: Statement, values: Mapping[str, Any]) -> int:
        """How many rows a statement has changed."""
        return sent(self._connection, self._file.text(statement), values).rowcount


class File:
    """Connections of the driver to one file; safe to share between threads. A process opens its own."""

    def __init__(self, path: str, *, wait: float) -> None:
        self.path, self.wait = path, wait
        self.readers: list[sqlite3.Connection] = []
        self.writers: list[sqlite3.Connection] = []
        self._texts: dict[Statement, str] = {}
        self._turn = threading.Lock()  # threads of one process queue here, and one of them looks at the file

    def text(self, statement: Statement) -> str:
        """What a statement is in SQL."""
        found = self._texts.get(statement)
        if found is None:
            found = self._texts[statement] = str(statement.compile(dialect=_NAMED))
        return found

    def rows(self, query: Statement, values: Mapping[str, Any], most: int | None = None) -> list[dict[str, Any]] | None:
        """The rows of a query, or the first `most`; None where they cannot be had without waiting.

        Whoever reads has a connection alone: the driver lets other threads run, and the loop must not wait for one
        of them that waits to go on.
        """
        reader: sqlite3.Connection | None = None
        with suppress(IndexError):
            reader = self.readers.pop()
        found: list[dict[str, Any]] | None = None
        with suppress(sqlite3.Error):
            if reader is None:
                reader = self._opened(0)
            found = [dict(row) for row in islice(reader.execute(self.text(query), dict(values)), most)]
        if reader is not None:
            _kept(self.readers, reader, usable=found is not None)
        return found

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """A transaction: all of it is stored, or nothing. `sqlite3.OperationalError` where the file stays locked."""
        until = time.monotonic() + self.wait
        if not self._turn.acquire(timeout=self.wait):
            raise sqlite3.OperationalError("other threads of this process write for too long")
        try:
            connection: sqlite3.Connection | None = None
            with suppress(IndexError):
                connection = self.writers.pop()
            connection = connection or self._opened(self.wait)
            whole = False
            try:
                begin(connection, until)
                yield Writer(self, connection)
                sent(connection, "COMMIT")
                whole = True
            finally:
                if not whole:
                    with suppress(sqlite3.Error):
                        connection.rollback()
                        whole = True
                _kept(self.writers, connection, usable=whole)
        finally:
            self._turn.release()

    def _opened(self, wait: float) -> sqlite3.Connection:
        """A connection that waits for nobody by itself, once it is open."""
        found = sqlite3.connect(self.path, timeout=wait, isolation_level=None, check_same_thread=False)
        found.row_factory = sqlite3.Row
        if wait:  # to write
            found.execute("PRAGMA synchronous = NORMAL")
            found.execute("PRAGMA busy_timeout = 0")
        return found

    def close(self) -> None:
        """Close the connections that are not in use."""
        for kept in (self.readers, self.writers):
            while kept:
                kept.pop().close()


def _kept(connections: list[sqlite3.Connection], connection: sqlite3.Connection, *, usable: bool) -> None:
    if usable and len(connections) < KEPT:
        connections.append(connection)
    else:
        connection.close()


def sent(connection: Any, text: str, values: Mapping[str, Any] | None = None) -> sqlite3.Cursor:
    """A statement of a transaction: tests have each of them fail."""
    found: sqlite3.Cursor = connection.execute(text, dict(values or {}))
    return found


def begin(connection: Any, until: float) -> None:
    """Begin to write, on a connection that does not wait by itself; `until` is when to give up.

    The driver would begin with a read lock, and two who both want to write would never agree.
    """
    while True:
        try:
            sent(connection, "BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                raise
        time.sleep(AGAIN)
