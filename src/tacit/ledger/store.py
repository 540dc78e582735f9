"""The database under the book: transactions, locks and the disk, on SQLite and PostgreSQL alike.

`Store` runs every transaction of the book. It promises that a writer is alone, that a *durable* transaction
is on the disk when the call returns, and that entries are never updated or deleted (triggers refuse it).
`BookFile` is a book in one SQLite file and needs the standard library only; `BookServer` is one on
PostgreSQL, through SQLAlchemy, which is imported for servers only.

>>> import pathlib, tempfile
>>> book = BookFile(str(pathlib.Path(tempfile.mkdtemp()) / "book.db"))
>>> with book.transaction("write") as connection:
...     _ = connection.execute("CREATE TABLE pages (number INTEGER)")
...     _ = connection.execute("INSERT INTO pages VALUES (7)")
>>> with book.transaction("read") as connection:
...     connection.execute("SELECT number FROM pages").fetchall()
[(7,)]
>>> book.close()
>>> store = Store("sqlite://")
Traceback (most recent call last):
tacit.ledger.errors.LedgerError: a book in memory forgets; give a file, such as sqlite:///tacit.db

One writer at a time
    SQLite: `BEGIN IMMEDIATE`, so that no transaction reads a total that another is about to change. It is
    retried at short random intervals until the timeout, so that no writer waits behind a long back-off.
    PostgreSQL: every writer locks the row of the head first, so there is one order of locks and no deadlock;
    readers see one consistent picture (`REPEATABLE READ`).

Durable
    PostgreSQL waits for the disk while committing. On SQLite the transaction is appended to the write-ahead
    log under the lock, and the log is synced right after the lock was given up, before the call returns: the
    next writer need not wait for the disk, and one sync serves all who wait for it. The log is written in
    order, so a synced spend implies all before it; SQLite itself syncs the log before it copies any of it
    into the file (`synchronous=NORMAL`). A transaction that only marks a reservation as done may share the
    next one's sync: after a power cut the mark can be missing, and the reservation is still spent.

The same file
    Every transaction looks whether the file is still the one that was opened, and a durable one looks again after
    it was synced. A book that was deleted, moved away or replaced under a live process grants nothing more.

Forks
    No connection is carried across a fork: a child opens its own, and never closes its parent's.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, unquote

from tacit.disk import sync_folder
from tacit.ledger.errors import LedgerBroken, LedgerBusy, LedgerError, LedgerUnwritable

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection as SqlConnection
    from sqlalchemy.engine import Engine

#: Whether this one is there says whether there is a book.
FACTS = "tacit_facts"
#: `{number}` is the type of an entry's number: in SQLite only a column of the type INTEGER is the number of the row itself.
#: - facts: the format of the book, and the secret under which contents are digested.
#: - head: the last entry; its row is the lock of all writers.
#: - entries: the book. Every other table can be rebuilt from it; the columns beside `body` and `hash` are copies for searching.
#:   One conclusion for each reservation.
#: - totals: running totals for each account and period; the period "" is the whole life.
TABLES = (
    "CREATE TABLE tacit_facts (name VARCHAR(40) NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name))",
    "CREATE TABLE tacit_head (id INTEGER NOT NULL, seq BIGINT NOT NULL, hash VARCHAR(64) NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE tacit_entries (seq {number} NOT NULL, kind VARCHAR(12) NOT NULL, account BIGINT, reservation BIGINT, "
    "question VARCHAR(64), body TEXT NOT NULL, hash VARCHAR(64) NOT NULL, PRIMARY KEY (seq), UNIQUE (reservation))",
    "CREATE TABLE tacit_accounts (id BIGINT NOT NULL, parent BIGINT, spec TEXT NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE tacit_names (name VARCHAR(200) NOT NULL, account BIGINT NOT NULL, PRIMARY KEY (name))",
    'CREATE TABLE tacit_identities ("key" VARCHAR(64) NOT NULL, account BIGINT NOT NULL, PRIMARY KEY ("key"))',
    "CREATE TABLE tacit_totals (account BIGINT NOT NULL, period VARCHAR(12) NOT NULL, body TEXT NOT NULL, PRIMARY KEY (account, period))",
)
INDEXES = (
    "CREATE INDEX ix_tacit_entries_account ON tacit_entries (account)",
    "CREATE INDEX ix_tacit_entries_question ON tacit_entries (question)",
)
TRIGGERS = {
    "sqlite": tuple(
        f"CREATE TRIGGER IF NOT EXISTS tacit_no_{verb.lower()} BEFORE {verb} ON tacit_entries "
        "BEGIN SELECT RAISE(ABORT, 'entries of the ledger are never changed'); END"
        for verb in ("UPDATE", "DELETE")
    ),
    "postgresql": (
        "CREATE OR REPLACE FUNCTION tacit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'entries of the ledger are never changed'; END $$",
        "DROP TRIGGER IF EXISTS tacit_no_change ON tacit_entries",
        "CREATE TRIGGER tacit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON tacit_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION tacit_append_only()",
    ),
}


#: The last entry, and the format of the book: whoever asks for the one must know the other.
HEAD = (
    "SELECT seq, hash, (SELECT value FROM tacit_facts WHERE name = 'format') FROM tacit_head WHERE id = 1"
)


def statements(kind: str) -> list[str]:
    """All of a new book's tables, indexes and triggers, in order, for "sqlite" or "postgresql"."""
    number = "INTEGER" if kind == "sqlite" else "BIGINT"
    return [table.format(number=number) for table in TABLES] + [*INDEXES, *TRIGGERS[kind]]


Purpose = Literal["read", "write", "create"]
#: How many connections are kept open for the next transaction. More may work at once, and are then closed.
IDLE = 8


class BookFile:
    """The connections of one process to the file; safe to share between threads."""

    kind = "sqlite"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: str, same: tuple[int, int] | None = None) -> None:
        self.path = path
        self.same = same  # device and number of the file, once it was opened
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        # what is not closed by hand is closed with the last reference, in the process that opened it
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
        """A connection inside a transaction, committed at the end, rolled back after any exception.

        A locked file raises at once (`Store` waits), and `durable` is left to `Store.sync`.
        """
        self.check()
        connection = self._taken()
        whole = False
        try:
            connection.execute("BEGIN" if purpose == "read" else "BEGIN IMMEDIATE")
            self.check()
            yield connection
            connection.execute("COMMIT")
            whole = True
        finally:
            if not whole:
                whole = _rolled_back(connection)
            self._given_back(connection, usable=whole)

    def check(self) -> None:
        """Refuse a file that is not the one that was opened: what is booked in a deleted file is booked nowhere."""
        found: tuple[int, int] | None = None
        with suppress(OSError):
            there = os.stat(self.path)
            found = there.st_dev, there.st_ino
        if self.same is not None and found != self.same:
            raise LedgerError(code="ledger-replaced")

    def _taken(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        connection = _connected(self.path)
        if self.same is None:
            with suppress(OSError):
                there = os.stat(self.path)
                self.same = there.st_dev, there.st_ino
        return connection

    def _given_back(self, connection: sqlite3.Connection, *, usable: bool) -> None:
        with self._lock:
            if usable and len(self._idle) < IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that are not in use; new ones are opened when they are needed."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def leave_behind(self) -> list[sqlite3.Connection]:
        """In a child after a fork: the parent's connections. They must be held for good, because letting them go would close them."""
        self._finalizer.detach()
        return self._idle


def _connected(path: str) -> sqlite3.Connection:
    """A connection that begins no transaction of its own (`BookFile.transaction` does) or waits for locks."""
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


def _looking(path: str) -> sqlite3.Connection:
    """A connection that cannot write."""
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True, timeout=5.0, isolation_level=None)


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


_WRONG = "url must look like sqlite:///tacit.db or postgresql+psycopg://user@host/database"


class BookServer:
    """The connections of one process to a PostgreSQL server; safe to share between threads."""

    kind = "postgresql"

    def __init__(self, url: str, timeout: float) -> None:
        try:
            import sqlalchemy as sa
        except ImportError as missing:
            raise LedgerError("a ledger on a server needs SQLAlchemy; run pip install sqlalchemy") from missing
        try:
            self._url = sa.make_url(url)
        except (sa.exc.SQLAlchemyError, TypeError) as reason:
            raise LedgerError(_WRONG) from reason
        kind = self._url.get_backend_name()
        if kind != self.kind:
            raise LedgerError(f"the ledger is kept in sqlite or postgresql, not in {kind}")
        self._timeout = timeout
        self.engine: Engine = sa.create_engine(self._url, isolation_level="READ COMMITTED", pool_recycle=300)
        sa.event.listen(self.engine, "connect", self._prepare)
        self.errors: tuple[type[Exception], ...] = (self.engine.dialect.loaded_dbapi.Error,)

    def _prepare(self, connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(1000 * self._timeout)}")
        connection.commit()

    def exists(self) -> bool:
        """Always: only a query (`has_tables`) can tell."""
        return True

    def has_tables(self, connection: SqlConnection) -> bool:
        """Whether there is a book in the database."""
        import sqlalchemy as sa

        return bool(sa.inspect(connection).has_table(FACTS))

    @contextmanager
    def transaction(self, purpose: Purpose, *, durable: bool = True) -> Iterator[SqlConnection]:
        """A connection inside a transaction; with `durable` off, the disk is not waited for."""
        options = {"isolation_level": "REPEATABLE READ"} if purpose == "read" else {}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            cursor = connection.connection.cursor()
            if purpose == "create":
                cursor.execute("SELECT pg_advisory_xact_lock(7407251)")
            if purpose == "write":
                if not durable:
                    cursor.execute("SET LOCAL synchronous_commit = off")
                cursor.execute(f"{HEAD} FOR UPDATE OF tacit_head")
                # the row just locked is the head, so the first to ask need not read it again
                connection.info["tacit_head"] = cursor.fetchone()
            try:
                yield connection
            finally:
                connection.info.pop("tacit_head", None)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def leave_behind(self) -> object:
        """In a child after a fork: the connections are the parent's, and are not closed here."""
        self.engine.dispose(close=False)
        return None


_T = TypeVar("_T")
#: A connection inside a transaction: sqlite3's own, or SQLAlchemy's. `run` runs a statement on either.
Connection = Any


class Opened:
    """Whether this process, or a parent that it was forked from, has opened a book (see `made_up`)."""

    here = False


class Store:
    """Connections to one book; safe to share between threads, and usable in a child after a fork."""

    def __init__(self, url: str, *, timeout: float = 30.0) -> None:
        if not timeout > 0:
            raise LedgerError(f"timeout must be a positive number of seconds, not {timeout}")
        Opened.here = True
        self.timeout = float(timeout)
        self._where = url
        self._path = file_of(url)
        self._inherited: list[object] = []  # a parent's connections, which must not be closed here
        self._start()
        self.kind = self._database.kind

    @property
    def url(self) -> str:
        """Where the book is."""
        return self._where

    def _start(self) -> None:
        self._pid = os.getpid()
        self._log: tuple[int, int] | None = None  # the log whose directory entry is known to be on the disk
        self._turn = threading.Lock()  # threads of one process queue here instead of polling the file
        self._database = self._opened(getattr(getattr(self, "_database", None), "same", None))

    def _opened(self, same: tuple[int, int] | None) -> BookFile | BookServer:
        if self._path is not None:
            return BookFile(self._path, same)
        return BookServer(self._where, self.timeout)

    def database(self) -> BookFile | BookServer:
        """The connections of this process: they must not be carried across a fork."""
        if self._pid != os.getpid():
            self._inherited.append(self._database.leave_behind())
            self._start()
        return self._database

    def engine(self) -> Engine:
        """SQLAlchemy's engine, for a book on a server."""
        engine: Engine | None = getattr(self.database(), "engine", None)
        if engine is None:
            raise LedgerError("a book in a file has no engine; open the file with sqlite3")
        return engine

    def close(self) -> None:
        """Give the connections back; the store opens new ones when it is used again."""
        self.database().close()

    # --- transactions -------------------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[Connection], _T], *, durable: bool = True) -> _T:
        """Run `work` alone, with the head locked; all of it is stored or nothing. `work` may run again after a collision."""
        database = self.database()
        with self._queued():
            result = self._patiently(database, work, "write", durable=durable)
        if durable:
            self.sync()
            if isinstance(database, BookFile):
                database.check()
        return result

    def sync(self) -> None:
        """Wait until everything that was written so far is on the disk (on SQLite; PostgreSQL has waited already)."""
        if self._path is None:
            return
        try:
            # no lock of SQLite's is on the log, so opening and closing it beside SQLite is harmless
            log = os.open(f"{self._path}-wal", os.O_RDWR)
            try:
                os.fsync(log)
                found = os.fstat(log)
            finally:
                os.close(log)
            if self._log != (found.st_dev, found.st_ino):
                sync_folder(os.path.dirname(os.path.abspath(self._path)))
                self._log = (found.st_dev, found.st_ino)
        except FileNotFoundError:
            pass  # the last connection of all was closed meanwhile: the log was copied into the file, synced and removed
        except OSError as reason:
            raise _explained(reason) from None

    def read(self, work: Callable[[Connection], _T], *, timeout: float | None = None) -> _T:
        """Run `work` on one consistent picture of the book. `timeout`: how long to wait where it is locked, if not as long as ever."""
        return self._patiently(self.database(), work, "read", timeout=timeout)

    @contextmanager
    def _queued(self) -> Iterator[None]:
        turn = self._turn
        if not turn.acquire(timeout=self.timeout):
            raise LedgerBusy(_BUSY.format(self.timeout))
        try:
            yield
        finally:
            turn.release()

    def _patiently(
        self, database: BookFile | BookServer, work: Callable[[Connection], _T], purpose: Purpose, *, durable: bool = True,
        timeout: float | None = None,
    ) -> _T:  # fmt: skip
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        lost = False
        while True:
            try:
                with database.transaction(purpose, durable=durable) as connection:
                    return work(connection)
            except Exception as reason:
                if purpose == "read" and not lost and getattr(reason, "connection_invalidated", False):
                    lost = True  # the server was started again since the connection was used: whoever reads may look once more
                    continue
                original = getattr(reason, "orig", None) or reason  # the driver's own error, where SQLAlchemy has wrapped it
                if not isinstance(original, database.errors):
                    raise
                if not _is_busy(original):
                    raise _explained(original) from None
            if time.monotonic() >= deadline:
                raise LedgerBusy(_BUSY.format(self.timeout))
            time.sleep(random.uniform(0.0002, 0.0012))

    def format_found(self) -> str | None:
        """The format of a book in a file, read without changing the file in any way; None where it cannot be told so."""
        if self._path is None or not os.path.isfile(self._path):
            return None
        with suppress(sqlite3.Error, OSError), closing(_looking(self._path)) as connection:
            row = connection.execute("SELECT value FROM tacit_facts WHERE name = 'format'").fetchone()
            return None if row is None else str(row[0])
        return None

    def exists(self) -> bool:
        """Whether there is a book here; asking creates nothing."""
        database = self.database()
        return database.exists() and self.read(database.has_tables)

    def create(self, first: Callable[[Connection], None]) -> None:
        """Make the tables and triggers, if there are none, and run `first`. Processes may call it at once."""
        database = self.database()

        def build(connection: Connection) -> None:
            if not database.has_tables(connection):
                for statement in statements(self.kind):
                    run(connection, statement)
                first(connection)

        with self._queued():
            self._patiently(database, build, "create")
        self.sync()


_BUSY = "the book is locked by another connection for more than {0:g} seconds; nothing was spent by this call. Try again, or raise timeout="


def run(connection: Connection, statement: str, values: Sequence[Any] = ()) -> Any:
    """Execute a statement whose places for values are written as question marks, on either database; the driver's own cursor."""
    cursor = _cursor(connection)
    cursor.execute(_written(connection, statement), values)
    return cursor


def run_many(connection: Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """The same for each row of values."""
    _cursor(connection).executemany(_written(connection, statement), rows)


def stream(connection: Connection, statement: str) -> Iterator[tuple[Any, ...]]:
    """Every row that a statement finds, in portions: a book may be larger than memory."""
    if isinstance(connection, sqlite3.Connection):
        yield from connection.execute(statement)
        return
    with connection.connection.cursor(name="tacit_stream") as cursor:  # named: the server keeps the rows that were not asked for yet
        cursor.itersize = 2000
        cursor.execute(statement)
        yield from cursor


def _cursor(connection: Connection) -> Any:
    return connection.cursor() if isinstance(connection, sqlite3.Connection) else connection.connection.cursor()


def _written(connection: Connection, statement: str) -> str:
    return statement if isinstance(connection, sqlite3.Connection) else statement.replace("?", "%s")


def file_of(url: str) -> str | None:
    """The path in a URL of SQLite; None for any other database.

    >>> file_of("sqlite:///tacit.db"), file_of("sqlite:////var/lib/tacit.db"), file_of("postgresql+psycopg://host/db")
    ('tacit.db', '/var/lib/tacit.db', None)
    """
    kind, mark, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not mark or kind.partition("+")[0] != "sqlite":
        return None
    path, _, options = rest.removeprefix("/").partition("?")
    path = unquote(path)
    if path in ("", ":memory:") or "mode=memory" in options:
        raise LedgerError("a book in memory forgets; give a file, such as sqlite:///tacit.db")
    if options or not rest.startswith("/") or kind not in ("sqlite", "sqlite+pysqlite"):
        raise LedgerError("url: a file is written sqlite:/// and its path, with no driver, host or options; see timeout= of Ledger.open")
    return path


def _is_busy(reason: BaseException) -> bool:
    code = getattr(reason, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED
    return getattr(reason, "sqlstate", None) in ("55P03", "40001", "40P01")  # lock timeout, serialisation failure, deadlock


def _explained(reason: BaseException) -> LedgerError:
    """The database's complaint without the statement and its parameters."""
    code = getattr(reason, "sqlite_errorcode", None)
    if (code is not None and code & 0xFF in (11, 26)) or getattr(reason, "sqlstate", None) in ("XX001", "XX002"):
        return LedgerBroken("the database file is damaged; restore a copy and run verify with the last head you remember")
    return LedgerUnwritable(
        f"the book could not be read or written ({type(reason).__name__}"
        f"{f', code {code}' if code is not None else ''}); the spend is not granted. Check free space, permissions and the connection"
    )
