"""What data subjects may demand: withdrawal, objection, erasure, restoring, and access (chapter 16).

A person's rows are left out of every later statement of the purposes they withdrew from, by an anti-join on the person
(`tables.LeftOut`). What was spent is not refunded, and what was released stands; the pages say so. Identifiers live in a
database of the curator's own, under their data set and purpose, and never in the book, in a log or in an answer. An answer to
a request for access is made on demand and not kept.

The day is the epoch of kept answers, not the erasure: a new epoch at each erasure would tell every analyst that someone left.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tacit.server.access import Caller, check
from tacit.server.config import Configuration
from tacit.server.datasets import Dataset
from tacit.server.driver import File
from tacit.server.errors import ConfigurationError, ServiceError, not_found
from tacit.server.purposes import Purposes
from tacit.server.requests import SubjectRequest
from tacit.tables import Source

_META = sa.MetaData()
#: One row for a person and a purpose; the purpose "" is all of them, those to come included.
subjects = sa.Table(
    "tacit_subjects", _META,
    sa.Column("dataset", sa.String(63), primary_key=True), sa.Column("person", sa.String(200), primary_key=True),
    sa.Column("purpose", sa.String(63), primary_key=True), sa.Column("state", sa.String(12), nullable=False),
    sa.Column("made", sa.Double, nullable=False),
)  # fmt: skip
#: Counts the changes of a data set, so that each process knows when its lists are old.
changes = sa.Table(
    "tacit_subject_changes", _META,
    sa.Column("dataset", sa.String(63), primary_key=True), sa.Column("number", sa.BigInteger, nullable=False),
)  # fmt: skip
_NUMBER = sa.select(changes.c.number).where(changes.c.dataset == sa.bindparam("dataset"))
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_TEXT = ("VARCHAR", "TEXT", "STRING")
#: What is said to whoever carries out a request.
TOLD = (
    "From now on the person's rows are left out of every statement of these purposes. What was spent is not refunded, and what "
    "was released before stands: noise cannot be taken out of figures that others have."
)


class Subjects:
    """The people of each data set who are left out, and of which purposes."""

    def __init__(self, configuration: Configuration, datasets: Mapping[str, Dataset], purposes: Purposes) -> None:
        self.datasets, self.purposes = datasets, purposes
        url = configuration.subjects.database or f"sqlite:///{(configuration.base / 'subjects.db').resolve()}"
        if url == configuration.url:
            raise ConfigurationError("subjects.database: identifiers are kept apart from the book; give another database")
        self._engine = sa.create_engine(url, **({"connect_args": {"timeout": 30}} if url.startswith("sqlite") else {}))
        path = self._engine.url.database if url.startswith("sqlite") else None
        self._file = File(path, wait=0) if path else None
        with self._engine.begin() as connection:
            for table in _META.sorted_tables:  # several processes start at once, and each may be the first
                connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
        if self._engine.url.get_backend_name() == "sqlite" and self._engine.url.database:
            with suppress(OSError):
                os.chmod(self._engine.url.database, 0o600)  # who withdrew is nobody else's to read
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Give the connections back."""
        if self._file is not None:
            self._file.close()
        self._engine.dispose()

    # --- requests -----------------------------------------------------------------------------------------------------

    def withdraw(self, caller: Caller, request: SubjectRequest) -> dict[str, Any]:
        """Take consent back for the named purposes."""
        return self._carry_out(caller, "subject_withdraw", request, "withdrawn")

    def object(self, caller: Caller, request: SubjectRequest) -> dict[str, Any]:
        """Object to the named purposes, or to all."""
        return self._carry_out(caller, "subject_object", request, "objected")

    def erase(self, caller: Caller, request: SubjectRequest) -> dict[str, Any]:
        """Leave the person out of everything, purposes to come included. Deleting the rows themselves is the curator's."""
        if request.purposes is not None:
            raise ServiceError(code="subject-refused", fields={"purposes": "an erasure is for all purposes; leave it out"})
        return self._carry_out(caller, "subject_erase", request, "erased")

    def restore(self, caller: Caller, request: SubjectRequest) -> dict[str, Any]:
        """Take a person in again who asks for it; what was erased stays out."""
        dataset, purposes, person = self._checked(caller, "subject_restore", request)
        with self._engine.begin() as connection:
            mine = sa.and_(subjects.c.dataset == dataset.name, subjects.c.person == person)
            back = sa.and_(mine, subjects.c.purpose.in_(purposes), subjects.c.state != "erased")
            connection.execute(subjects.delete().where(back))
            self._changed(connection, dataset.name)
        return {"done": True, "told": "From now on the person's rows are in the statements of these purposes again."}

    def _carry_out(self, caller: Caller, action: str, request: SubjectRequest, state: str) -> dict[str, Any]:
        dataset, purposes, person = self._checked(caller, action, request)
        with self._engine.begin() as connection:
            mine = sa.and_(subjects.c.dataset == dataset.name, subjects.c.person == person)
            erased = connection.execute(sa.select(subjects.c.made).where(mine, subjects.c.state == "erased")).first() is not None
            # who was erased stays erased: a withdrawal that took its place could be restored
            for purpose in () if erased else purposes:
                connection.execute(subjects.delete().where(mine, subjects.c.purpose == purpose))
                values = {"dataset": dataset.name, "person": person, "purpose": purpose, "state": state, "made": time.time()}
                connection.execute(subjects.insert().values(**values))
            self._changed(connection, dataset.name)
        # the same words whether the person has rows or not: nobody looks
        return {"done": True, "told": TOLD}

    def access(self, caller: Caller, request: SubjectRequest) -> dict[str, Any]:
        """What a person may know: purposes, sources and what they stopped. Made on demand, kept nowhere."""
        dataset, _, person = self._checked(caller, "subject_access", request)
        with self._engine.connect() as connection:
            mine = sa.and_(subjects.c.dataset == dataset.name, subjects.c.person == person)
            rows = connection.execute(sa.select(subjects.c.purpose, subjects.c.state, subjects.c.made).where(mine)).fetchall()
        return {
            "dataset": dataset.name,
            "sources": list(dataset.job.sources),
            "columns": [column["name"] for table in dataset.schema() if not table["public"] for column in table["columns"]],
            "purposes": [purpose.record() for purpose in self.purposes.all() if dataset.name in purpose.spec.datasets],
            "stopped": [{"purpose": row.purpose or "all", "state": row.state, "since": row.made} for row in rows],
            "unit": dataset.unit(),
        }

    def _checked(self, caller: Caller, action: str, request: SubjectRequest) -> tuple[Dataset, list[str], str]:
        check(caller, action, datasets=[request.dataset])
        dataset = self.datasets.get(request.dataset)
        if dataset is None:
            raise not_found()
        if not dataset.people_columns():
            raise ServiceError(code="subject-refused", fields={"dataset": "its rows do not say whose they are"})
        known = {purpose.id for purpose in self.purposes.all() if request.dataset in purpose.spec.datasets}
        if request.purposes is not None and not set(request.purposes) <= known:
            raise ServiceError(code="subject-refused", fields={"purposes": "names no purpose of this data set"})
        # one text for one person: 7 and 007 are the same
        person = str(_identifier(dataset, request.person))
        return dataset, [""] if request.purposes is None else list(request.purposes), person

    def _changed(self, connection: sa.Connection, dataset: str) -> None:
        more = changes.update().where(changes.c.dataset == dataset).values(number=changes.c.number + 1)
        if not connection.execute(more).rowcount:
            connection.execute(changes.insert().values(dataset=dataset, number=1))

    # --- lists in the engine ------------------------------------------------------------------------------------------

    def refresh(self, dataset: Dataset, purpose: str) -> None:
        """Bring the list that a purpose's statements leave out up to date, before a question is drawn."""
        if not dataset.people_columns():
            return
        with self._lock:
            seen = self._seen.get((dataset.name, purpose))
            if seen is None or seen != self._changes(dataset):
                self._seen[dataset.name, purpose] = self._listed(dataset, dataset.source.engine, purpose)

    def guard(self, dataset: Dataset, source: Source) -> Source:
        """A source of a release without those who are left out of everything; the list is brought into its own engine."""
        if not dataset.people_columns():
            return source
        self._listed(dataset, source.engine, "")
        return dataset.guarded("", source)

    def _changes(self, dataset: Dataset) -> int:
        """The number of the last change."""
        asked = {"dataset": dataset.name}
        quick = None if self._file is None else self._file.rows(_NUMBER, asked)  # every question asks this
        if quick is not None:
            return int(quick[0]["number"]) if quick else 0
        with self._engine.connect() as connection:
            return connection.execute(_NUMBER, asked).scalar() or 0

    def _gone(self, dataset: Dataset, purpose: str) -> tuple[int, list[Any]]:
        """The number of a change that the list holds at least, and the people who are left out."""
        number = self._changes(dataset)
        with self._engine.connect() as connection:
            gone = sa.and_(subjects.c.dataset == dataset.name, subjects.c.purpose.in_(("", purpose)))
            people = connection.execute(sa.select(subjects.c.person).where(gone).distinct()).scalars().all()
        return number, [_identifier(dataset, person) for person in people]

    def _listed(self, dataset: Dataset, engine: Any, purpose: str) -> int:
        """Bring a purpose's list into an engine; the number of the change that it holds."""
        name = dataset.listed(purpose)
        if hasattr(engine, "register"):
            number, people = self._gone(dataset, purpose)
            kind = pa.int64() if _kind(dataset) == "whole" else pa.string()
            engine.register(name, pa.table({"person": pa.array(people, kind)}))
            return number
        return self._listed_in_database(dataset, name, lambda: self._gone(dataset, purpose))

    def _listed_in_database(self, dataset: Dataset, name: str, gone: Callable[[], tuple[int, list[Any]]]) -> int:
        # a list in the database of the data: it is the curator's own
        import psycopg
        from psycopg import sql

        table, column = next(iter(dataset.people_columns().items()))
        address = next(source.url for source in dataset.job.sources.values() if source.url is not None)
        plain = re.sub(r"^postgresql\+\w+://", "postgresql://", address)
        target, home = sql.Identifier(name), sql.SQL(".").join(map(sql.Identifier, table.split(".")))
        with psycopg.connect(plain) as connection:
            # processes share the list: who has the lock reads who is gone, so that an older list never takes a newer one's place
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))
            number, people = gone()
            made = sql.SQL("CREATE TABLE IF NOT EXISTS {} AS SELECT {} AS person FROM {} WHERE FALSE")
            connection.execute(made.format(target, sql.Identifier(column), home))
            connection.execute(sql.SQL("DELETE FROM {}").format(target))
            if people:
                rows = connection.cursor()
                rows.executemany(sql.SQL("INSERT INTO {} (person) VALUES (%s)").format(target), [(person,) for person in people])
        return number


def _kind(dataset: Dataset) -> str:
    """How people are told apart: by a whole number, or by a text. Other types are compared by engines in ways of their own."""
    table, column = next(iter(dataset.people_columns().items()))
    found = dataset.source.columns(table)[column].upper().partition("(")[0]
    if found in _WHOLE:
        return "whole"
    if found in _TEXT:
        return "text"
    raise ServiceError(code="subject-refused", fields={"dataset": "people are told apart by a type that is not supported here"})


def _identifier(dataset: Dataset, person: str) -> Any:
    """A person as the data have them."""
    if _kind(dataset) == "text":
        return person
    if not re.fullmatch(r"-?[0-9]{1,19}", person) or not -(2**63) <= int(person) < 2**63:
        raise ServiceError(code="subject-refused", fields={"person": "must be a whole number, as in the data"})
    return int(person)
