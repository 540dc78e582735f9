"""The database under the book: tables, transactions, locks. SQLite and PostgreSQL run the same statements.

- One writer at a time. SQLite: `BEGIN IMMEDIATE`, retried at short random intervals until the timeout, so nobody waits behind a long
  back-off. PostgreSQL: the row of the head is locked first, always, so there is one order of locks and no deadlock.
- A *durable* transaction is on the disk when it returns. PostgreSQL does that while committing. On SQLite the transaction is appended to
  the write-ahead log under the lock, and the log is synced right after the lock was given up, before the call returns: the next writer
  need not wait for the disk, and one sync serves all who wait for it. The log is written in order, so a synced spend implies all before
  it; SQLite itself syncs the log before it copies any of it into the file (`synchronous=NORMAL`).
- A transaction that only marks a reservation as done may share the next one's sync: after a power cut the mark can be missing, and then
  the reservation stays spent without it.
- Entries are never updated or deleted; triggers say so to anybody who tries.

>>> store = Store("sqlite://")
Traceback (most recent call last):
tacit.ledger.errors.LedgerError: a book in memory forgets; give a file, such as sqlite:///tacit.db
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tacit.ledger.errors import LedgerBroken, LedgerBusy, LedgerError, LedgerUnwritable

_T = TypeVar("_T")

metadata = sa.MetaData()
#: Facts about the book itself: its format and the secret under which contents are digested.
facts = sa.Table("tacit_facts", metadata, sa.Column("name", sa.String(40), primary_key=True), sa.Column("value", sa.Text, nullable=False))
#: The last entry; its row is the lock of all writers.
head = sa.Table(
    "tacit_head",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
)
#: The book. Every other table can be rebuilt from it; the columns beside `body` and `hash` are copies for searching.
entries = sa.Table(
    "tacit_entries",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(12), nullable=False),
    sa.Column("account", sa.BigInteger, index=True),
    sa.Column("reservation", sa.BigInteger, unique=True),  # one conclusion for each reservation
    sa.Column("question", sa.String(64), index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
)
accounts = sa.Table(
    "tacit_accounts",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("parent", sa.BigInteger),
    sa.Column("spec", sa.Text, nullable=False),
)
names = sa.Table(
    "tacit_names", metadata, sa.Column("name", sa.String(200), primary_key=True), sa.Column("account", sa.BigInteger, nullable=False)
)
identities = sa.Table(
    "tacit_identities",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("account", sa.BigInteger, nullable=False),
)
#: Running totals for each account and period; the period "" is the whole life.
totals = sa.Table(
    "tacit_totals",
    metadata,
    sa.Column("account", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("period", sa.String(12), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

_FORBID = {
    "sqlite": [
        f"CREATE TRIGGER IF NOT EXISTS tacit_no_{verb.lower()} BEFORE {verb} ON tacit_entries "
        "BEGIN SELECT RAISE(ABORT, 'entries of the ledger are never changed'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE OR REPLACE FUNCTION tacit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'entries of the ledger are never changed'; END $$",
        "DROP TRIGGER IF EXISTS tacit_no_change ON tacit_entries",
        "CREATE TRIGGER tacit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON tacit_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION tacit_append_only()",
    ],
}


class Store:
    """Connections to one book; safe to share between threads, and usable in a child after a fork."""

    def __init__(self, url: str, *, timeout: float = 30.0) -> None:
        try:
            self.url = sa.make_url(url)
        except (SQLAlchemyError, TypeError) as reason:
            raise LedgerError("url must look like sqlite:///tacit.db or postgresql+psycopg://user@host/database") from reason
        self.kind = self.url.get_backend_name()
        if self.kind not in _FORBID:
            raise LedgerError(f"the ledger is kept in sqlite or postgresql, not in {self.kind}")
        if self.kind == "sqlite" and (self.url.database in (None, "", ":memory:") or "mode=memory" in url):
            raise LedgerError("a book in memory forgets; give a file, such as sqlite:///tacit.db")
        if not timeout > 0:
            raise LedgerError(f"timeout must be a positive number of seconds, not {timeout}")
        self.timeout = float(timeout)
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._log: tuple[int, int] | None = None  # the log whose directory entry is known to be on the disk
        self._turn = threading.Lock()  # threads of one process queue here instead of polling the file
        self._engine = self._connected()

    def _connected(self) -> Engine:
        if self.kind == "postgresql":
            engine = sa.create_engine(self.url, isolation_level="READ COMMITTED", pool_recycle=300)
            sa.event.listen(engine, "connect", self._prepare_postgresql)
            return engine
        engine = sa.create_engine(self.url, connect_args={"timeout": 0.0})
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _prepare_postgresql(self, connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(1000 * self.timeout)}")
        connection.commit()

    def engine(self) -> Engine:
        """The engine of this process: connections must not be carried across a fork."""
        if self._pid != os.getpid():
            self._engine.dispose(close=False)
            self._start()
        return self._engine

    def close(self) -> None:
        """Give the connections back; the store opens new ones when it is used again."""
        self.engine().dispose()

    # --- transactions -------------------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[Connection], _T], *, durable: bool = True) -> _T:
        """Run `work` alone, with the head locked; all of it is stored or nothing. `work` may run again after a collision."""

        def locked(connection: Connection) -> _T:
            if self.kind == "postgresql":
                cursor = connection.connection.cursor()
                if not durable:
                    cursor.execute("SET LOCAL synchronous_commit = off")
                cursor.execute("SELECT seq, hash FROM tacit_head WHERE id = 1 FOR UPDATE")
                # the row just locked is the head, so the first to ask need not read it again
                connection.info["tacit_head"] = cursor.fetchone()
            try:
                return work(connection)
            finally:
                connection.info.pop("tacit_head", None)

        engine = self.engine()
        with self._queued():
            result = self._patiently(engine, locked, {"tacit_write": True})
        if durable:
            self.sync()
        return result

    def sync(self) -> None:
        """Wait until everything that was written so far is on the disk (on SQLite; PostgreSQL has waited already)."""
        if self.kind != "sqlite":
            return
        path = str(self.url.database)
        try:
            # no lock of SQLite's is on the log, so opening and closing it beside SQLite is harmless
            log = os.open(f"{path}-wal", os.O_RDWR)
            try:
                os.fsync(log)
                found = os.fstat(log)
            finally:
                os.close(log)
            if self._log != (found.st_dev, found.st_ino):
                _sync_directory(os.path.dirname(os.path.abspath(path)))
                self._log = (found.st_dev, found.st_ino)
        except FileNotFoundError:
            pass  # the last connection of all was closed meanwhile: the log was copied into the file, synced and removed
        except OSError as reason:
            raise _explained(reason) from None

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Run `work` on one consistent picture of the book."""
        engine = self.engine()
        if self.kind == "postgresql":
            return self._patiently(engine, work, {"isolation_level": "REPEATABLE READ"})
        return self._patiently(engine, work, {"tacit_write": False})

    @contextmanager
    def _queued(self) -> Iterator[None]:
        turn = self._turn
        if not turn.acquire(timeout=self.timeout):
            raise LedgerBusy(_BUSY.format(self.timeout))
        try:
            yield
        finally:
            turn.release()

    def _patiently(self, engine: Engine, work: Callable[[Connection], _T], options: dict[str, Any]) -> _T:
        deadline = time.monotonic() + self.timeout
        options = {**options, "tacit_deadline": deadline}
        while True:
            try:
                with engine.connect().execution_options(**options) as connection, connection.begin():
                    return work(connection)
            except Exception as reason:
                original = reason.orig if isinstance(reason, DBAPIError) else reason
                if original is None or not isinstance(original, engine.dialect.loaded_dbapi.Error):
                    raise
                if not _is_busy(original):
                    raise _explained(original) from None
            if time.monotonic() > deadline:
                raise LedgerBusy(_BUSY.format(self.timeout))
            time.sleep(random.uniform(0.0005, 0.002))

    def exists(self) -> bool:
        """Whether there is a book here; asking creates nothing."""
        if self.kind == "sqlite" and not os.path.exists(self.url.database or ""):
            return False
        return self.read(lambda connection: bool(sa.inspect(connection).has_table(facts.name)))

    def create(self, first: Callable[[Connection], None]) -> None:
        """The tables and triggers, if they are not there yet, and whatever `first` writes; safe to run by many processes at once."""

        def build(connection: Connection) -> None:
            if self.kind == "postgresql":
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7407251)")
            if sa.inspect(connection).has_table(facts.name):
                return
            metadata.create_all(connection)
            for statement in _FORBID[self.kind]:
                connection.exec_driver_sql(statement)
            first(connection)

        with self._queued():
            self._patiently(self.engine(), build, {"tacit_write": True})
        self.sync()


_BUSY = "the book is locked by another connection for more than {0:g} seconds; nothing was spent by this call. Try again, or raise timeout="


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # transactions are opened by _begin_sqlite alone; the driver must not open its own
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=5000")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")  # Store.sync does the rest
    cursor.execute("PRAGMA busy_timeout=0")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    cursor = connection.connection.cursor()
    if not options.get("tacit_write"):
        cursor.execute("BEGIN")
        return
    while True:
        try:
            cursor.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as reason:
            # SQLite's own waiting backs off to a tenth of a second, behind which a newcomer overtakes; equal short waits are fair
            if not _is_busy(reason) or time.monotonic() > options.get("tacit_deadline", 0.0):
                raise
        time.sleep(random.uniform(0.0002, 0.0012))


def _sync_directory(path: str) -> None:
    """A new file's name is on the disk only when its directory is; systems that cannot open directories do this by themselves."""
    with suppress(PermissionError, IsADirectoryError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
