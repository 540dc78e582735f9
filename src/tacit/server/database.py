"""The service's own tables: people, tokens, sessions, questions, purposes, decisions, releases, trainings.

They stand beside the book, in the same database, and hold no row of the data and no identifier of a data subject. The
book alone says what was spent; what is here says who may ask and where a question is.

>>> import pathlib, tempfile
>>> database = Database(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'service.db'}")
>>> with database.write() as connection:
...     _ = connection.execute(links.insert().values(hash="ab", person="ann", expires=1.0, used=None))
>>> with database.read() as connection:
...     connection.execute(sa.select(links.c.person)).scalar_one()
'ann'
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tacit.server.driver import File, Statement, Writer, begin
from tacit.server.errors import ServiceError

_META = sa.MetaData()
_ID = sa.String(64)
#: So many seconds a locked file is waited for.
WAIT = 30
#: The clock of a database server is compared with this machine's so often, in seconds.
COMPARE = 60.0
#: A query that names its values by `bindparam`.
Query = sa.Select[Any]


def _text(name: str, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, default="", **options)


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=True)


people = sa.Table(
    "service_people", _META,
    sa.Column("id", _ID, primary_key=True), _text("name"), sa.Column("subject", sa.String(500), unique=True, nullable=True),
    _text("roles"), sa.Column("datasets", sa.Text, nullable=True), sa.Column("active", sa.Boolean, nullable=False), _time("created"),
)  # fmt: skip
tokens = sa.Table(
    "service_tokens", _META,
    sa.Column("id", _ID, primary_key=True), sa.Column("hash", _ID, unique=True, nullable=False),
    sa.Column("person", _ID, nullable=False, index=True), _text("label"), _text("role"),
    sa.Column("datasets", sa.Text, nullable=True), sa.Column("epsilon_a_day", sa.Text, nullable=True),
    _time("created"), _time("expires"), _time("revoked"), _time("used"),
)  # fmt: skip
sessions = sa.Table(
    "service_sessions", _META,
    sa.Column("id", _ID, primary_key=True), sa.Column("hash", _ID, unique=True, nullable=False),
    sa.Column("person", _ID, nullable=False, index=True), _text("form_token"), _time("created"), _time("seen"), _time("ended"),
)  # fmt: skip
links = sa.Table(
    "service_links", _META,
    sa.Column("hash", _ID, primary_key=True), sa.Column("person", _ID, nullable=False), _time("expires"), _time("used"),
)  # fmt: skip
#: Sign-ins that are under way with an identity provider: state, nonce and verifier, once, for ten minutes.
sign_ins = sa.Table(
    "service_sign_ins", _META,
    sa.Column("state", _ID, primary_key=True), _text("browser"), _text("nonce"), _text("verifier"), _time("expires"),
)  # fmt: skip
questions = sa.Table(
    "service_questions", _META,
    sa.Column("id", _ID, primary_key=True), sa.Column("person", _ID, nullable=False, index=True), _text("token", index=True),
    sa.Column("key", _ID, nullable=False), _text("body"), _text("request"), _text("dataset"), _text("purpose"),
    _text("state", index=True), _text("price"), _text("epsilon"), sa.Column("entry", sa.BigInteger, nullable=True, index=True),
    sa.Column("answer", sa.Text, nullable=True), _text("detail"), _text("decided_by"), _text("reason"),
    sa.Column("estimate", sa.Double, nullable=False, default=0.0), _time("asked"), _time("started"), _time("ready"), _time("delivered"),
    sa.Column("share", _ID, nullable=True, unique=True), sa.UniqueConstraint("person", "key"),
)  # fmt: skip
claims = sa.Table(
    "service_claims", _META,
    sa.Column("question", _ID, primary_key=True), _text("worker"), sa.Column("lease", sa.Double, nullable=False, index=True),
    sa.Column("generation", sa.Integer, nullable=False),
)  # fmt: skip
#: Records that are written once and listed: purposes, decisions, trainings, requests of people about themselves.
records = sa.Table(
    "service_records", _META,
    sa.Column("kind", sa.String(20), primary_key=True), sa.Column("id", sa.String(100), primary_key=True),
    _text("person"), _text("body"), _time("made"),
)  # fmt: skip
releases = sa.Table(
    "service_releases", _META,
    sa.Column("id", _ID, primary_key=True), _text("dataset"), _text("person"), _text("state"), _text("folder"), _text("job"),
    _text("detail"), sa.Column("entry", sa.BigInteger, nullable=True), _time("made"), _time("started"), _time("ready"),
)  # fmt: skip


class Database:
    """Connections to the service's tables; safe to share between threads. A process opens its own."""

    def __init__(self, url: str) -> None:
        sqlite = url.startswith("sqlite")
        options: dict[str, Any] = {"connect_args": {"timeout": WAIT}} if sqlite else {"pool_pre_ping": True, "pool_size": 10}
        self.engine = sa.create_engine(url, **options)
        self.sqlite = sqlite
        self._ahead, self._compared = 0.0, -COMPARE
        if sqlite:
            sa.event.listen(self.engine, "connect", _prepare)
        with self._locked() as connection:
            self._compare(connection)
            _META.create_all(connection)
            for index in (*claims.indexes, *questions.indexes):  # tables that were there before may lack one
                index.create(connection, checkfirst=True)
        self.file = File(self.engine.url.database or "", wait=WAIT) if sqlite else None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to look with."""
        with self._answering(), self.engine.connect() as connection:
            yield connection

    def at_once(self, query: Query, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """The first row of a query, in some ten microseconds and without waiting for anyone: for what every request asks.

        None also where it cannot be had so, from a server or a locked file; `read` decides then.
        """
        found = self._quickly(query, values, most=1)
        return found[0] if found else None

    def rows(self, query: Query, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of a query: as `at_once` where they can be had so, and else as `read` has them."""
        found = self._quickly(query, values)
        if found is not None:
            return found
        with self.read() as connection:
            return [dict(row) for row in connection.execute(query, dict(values)).mappings()]

    def _quickly(self, query: Query, values: Mapping[str, Any], most: int | None = None) -> list[dict[str, Any]] | None:
        """The rows of a query, or the first `most`, by the driver itself; None where they cannot be had so."""
        return None if self.file is None else self.file.rows(query, values, most)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: all of it is stored, or nothing."""
        with self._answering(), self._begun() as connection:
            self._compare(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Change]:
        """A transaction as `write` has it, of statements that are used again and again and name their values by `bindparam`."""
        if self.file is None:
            with self.write() as connection:
                yield Through(connection)
            return
        with self._answering(), self.file.writing() as writer:
            yield writer

    @contextmanager
    def _locked(self) -> Iterator[Connection]:
        """A transaction that is alone, for making tables."""
        with self._begun() as connection:
            if not self.sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7407252)"))
            yield connection

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            if self.sqlite:
                _begin(connection.connection.driver_connection)
            yield connection

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """The database's complaint without the statement and its values."""
        failed = False
        try:
            yield
        except sa.exc.IntegrityError:
            raise
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, sqlite3.Error):
            failed = True
        if failed:
            raise ServiceError(code="unavailable")

    def clock(self) -> float:
        """The time that every process of a service goes by: one machine writes leases and times of the grid, another reads them.

        A file belongs to one machine. With a server it is the server's, compared once a minute where something is
        written: between machines an answer leaves within the milliseconds of a round trip of its time.
        """
        return time.time() + self._ahead

    def _compare(self, connection: Connection) -> None:
        if self.engine.dialect.name != "postgresql" or time.monotonic() - self._compared < COMPARE:
            return
        self._compared, found = time.monotonic(), list[tuple[float, float]]()
        for _ in range(3):
            before = time.time()
            there = connection.execute(sa.text("SELECT EXTRACT(EPOCH FROM clock_timestamp())")).scalar_one()
            after = time.time()
            found.append((after - before, float(there) - (before + after) / 2))
        self._ahead = min(found)[1]  # the quickest round trip is the most exact

    def key(self, name: str) -> bytes:
        """256 random bits that all processes of the service share, made by the first that asks for them."""
        there = sa.select(records.c.body).where(records.c.kind == "key", records.c.id == name)
        with self.read() as connection:
            found: str | None = connection.execute(there).scalar()
        if found is None:
            made = {"body": secrets.token_hex(32), "made": time.time()}
            values = {"kind": "key", "id": name, "person": "", **made}
            with suppress(sa.exc.IntegrityError), self.write() as connection:
                connection.execute(records.insert().values(**values))
            with self.read() as connection:
                found = connection.execute(there).scalar_one()
        return bytes.fromhex(found)

    def close(self) -> None:
        """Give the connections back."""
        if self.file is not None:
            self.file.close()
        self.engine.dispose()


class Through:
    """What `driver.Writer` is for a file, on a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, query: Statement, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of a query."""
        return [dict(row) for row in self._connection.execute(query, dict(values)).mappings()]

    def run(self, statement: Statement, values: Mapping[str, Any]) -> int:
        """How many rows a statement has changed."""
        # of an INSERT, SQLAlchemy keeps the number only where it is told to
        return self._connection.execute(statement, dict(values), execution_options={"preserve_rowcount": True}).rowcount


#: A transaction of a file, or of a server, with the same two calls.
Change = Writer | Through


def _begin(connection: Any) -> None:
    """Begin to write, on a connection that waits by itself otherwise."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        begin(connection, time.monotonic() + WAIT)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {1000 * WAIT}")


def _prepare(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # `_begun` begins
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA busy_timeout = {1000 * WAIT}")


def new_id() -> str:
    """A random name of 128 bits: it cannot be guessed, and tells nothing about when or how many.

    >>> len(new_id())
    32
    """
    return secrets.token_hex(16)
