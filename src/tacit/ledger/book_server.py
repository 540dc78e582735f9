"""A book on a PostgreSQL server, through SQLAlchemy, which is imported for nobody else.

- The row of the head is locked first by every writer, always, so there is one order of locks and no deadlock.
- Readers see one consistent picture (`REPEATABLE READ`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tacit.ledger.errors import LedgerError
from tacit.ledger.store import FACTS, Purpose

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

_WRONG = "url must look like sqlite:///tacit.db or postgresql+psycopg://user@host/database"


class BookServer:
    """The connections of one process to the server; safe to share between threads."""

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
        """Only asking the server tells."""
        return True

    def has_tables(self, connection: Connection) -> bool:
        """Whether there is a book in the database."""
        import sqlalchemy as sa

        return bool(sa.inspect(connection).has_table(FACTS))

    @contextmanager
    def transaction(self, purpose: Purpose, *, durable: bool = True) -> Iterator[Connection]:
        """A connection inside a transaction; with `durable` off, the disk is not waited for."""
        options = {"isolation_level": "REPEATABLE READ"} if purpose == "read" else {}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            cursor = connection.connection.cursor()
            if purpose == "create":
                cursor.execute("SELECT pg_advisory_xact_lock(7407251)")
            if purpose == "write":
                if not durable:
                    cursor.execute("SET LOCAL synchronous_commit = off")
                cursor.execute("SELECT seq, hash FROM tacit_head WHERE id = 1 FOR UPDATE")
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
