"""What data subjects may demand: withdrawal, objection, erasure, restoring, and access (chapter 16).

A person's rows are left out of every later statement of the purposes they withdrew from, by an anti-join on the person
(`tables.LeftOut`). What was spent is not refunded, and what was released stands; the pages say so. Identifiers live in a
database of the curator's own, under their data set and purpose, and never in the book, in a log or in an answer. An answer to
a request for access is made on demand and not kept.

The day is the epoch of kept answers, not the erasure: a new epoch at each erasure would tell every analyst that someone left.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tacit.server.access import Caller, check
from tacit.server.config import Configuration
from tacit.server.datasets import LISTED, Dataset
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
        self._engine = sa.create_engine(url)
        _META.create_all(self._engine)
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Give the connections back."""
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
            for purpose in purposes:
                same = sa.and_(subjects.c.dataset == dataset.name, subjects.c.person == person, subjects.c.purpose == purpose)
                connection.execute(subjects.delete().where(same))
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
            number, people = self._gone(dataset, purpose, self._seen.get((dataset.name, purpose)))
            if people is not None:
                self._listed(dataset, dataset.source.engine, LISTED + purpose, people)
                self._seen[dataset.name, purpose] = number

    def guard(self, dataset: Dataset, source: Source) -> Source:
        """A source of a release without those who are left out of everything; the list is brought into its own engine."""
        if not dataset.people_columns():
            return source
        _, people = self._gone(dataset, "", None)
        self._listed(dataset, source.engine, LISTED, people or [])
        return dataset.guarded("", source)

    def _gone(self, dataset: Dataset, purpose: str, seen: int | None) -> tuple[int, list[Any] | None]:
        """The number of the last change, and the people who are left out; None for them where `seen` is that number."""
        with self._engine.connect() as connection:
            number = connection.execute(sa.select(changes.c.number).where(changes.c.dataset == dataset.name)).scalar() or 0
            if seen == number:
                return number, None
            gone = sa.and_(subjects.c.dataset == dataset.name, subjects.c.purpose.in_(("", purpose)))
            people = connection.execute(sa.select(subjects.c.person).where(gone).distinct()).scalars().all()
        return number, [_identifier(dataset, person) for person in people]

    def _listed(self, dataset: Dataset, engine: Any, name: str, people: list[Any]) -> None:
        kind = pa.int64() if _kind(dataset) == "whole" else pa.string()
        if hasattr(engine, "register"):
            engine.register(name, pa.table({"person": pa.array(people, kind)}))
            return
        # a list in the database of the data: it is the curator's own
        import psycopg
        from psycopg import sql

        table, column = next(iter(dataset.people_columns().items()))
        address = next(source.url for source in dataset.job.sources.values() if source.url is not None)
        plain = re.sub(r"^postgresql\+\w+://", "postgresql://", address)
        target, home = sql.Identifier(name), sql.SQL(".").join(map(sql.Identifier, table.split(".")))
        with psycopg.connect(plain) as connection:
            made = sql.SQL("CREATE TABLE IF NOT EXISTS {} AS SELECT {} AS person FROM {} WHERE FALSE")
            connection.execute(made.format(target, sql.Identifier(column), home))
            connection.execute(sql.SQL("DELETE FROM {}").format(target))
            if people:
                rows = connection.cursor()
                rows.executemany(sql.SQL("INSERT INTO {} (person) VALUES (%s)").format(target), [(person,) for person in people])


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
