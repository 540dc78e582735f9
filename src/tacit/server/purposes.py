"""Purposes and decisions: what questions are for, what they may use, and who set their budgets (chapter 16).

Each question names a purpose. A purpose says who uses which statistics and why; vague ones are refused. It allows some
columns and kinds of figures, has a budget of its own below the data set's, and ends; past its end nothing is answered, and
what is kept of it is due to be deleted. Decisions record who set an epsilon, why, and which alternatives there were.

>>> from tacit.server.config import EXAMPLE, parse
>>> purpose = Purpose("bed-planning", parse(EXAMPLE).purposes["bed-planning"])
>>> purpose.ended(datetime.date(2027, 12, 31)), purpose.ended(datetime.date(2028, 1, 1))
(False, True)
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from tacit.accounting import Refusal
from tacit.server.config import PurposeSpec, VaguePurpose
from tacit.server.database import Database, new_id, records
from tacit.server.errors import ServiceError, not_found
from tacit.server.requests import NewDecision, NewPurpose

_COUNT = sa.select(sa.func.count().label("many")).where(records.c.kind == sa.bindparam("kind"))
#: What differential privacy addresses of the harms of chapter 16 (Solove's taxonomy), and what it leaves to others.
HARMS: Mapping[str, tuple[str, ...]] = {
    "addressed": ("disclosure",),
    "partly": ("identification", "aggregation"),
    "not addressed": ("collection", "insecurity", "invasion", "use for something else"),
}
#: The eight principles, each with where the evidence for it is.
PRINCIPLES: Mapping[str, str] = {
    "lawfulness and fairness": "the legal basis of each purpose, in the curator's words",
    "purpose limitation": "each question names a purpose, and the book records it",
    "data minimisation": "allowed columns and kinds of each purpose; caps of the unit",
    "accuracy": "an interval beside every figure",
    "storage limitation": "the end date of each purpose",
    "integrity and confidentiality": "errors that depend on the data are withheld; answers leave on a time grid",
    "accountability": "the book, its head, and who decided",
    "transparency": "the plain-language page, and what each release used",
}


@dataclass(frozen=True)
class Purpose:
    """A purpose with its name. `fixed`: it stands in the service's file."""

    id: str
    spec: PurposeSpec
    fixed: bool = True

    def ended(self, today: datetime.date | None = None) -> bool:
        """Whether its last day is past; all of that day, in UTC, counts."""
        return (today or datetime.datetime.now(datetime.UTC).date()) > self.spec.until

    def record(self) -> dict[str, Any]:
        """The purpose as JSON."""
        return {
            "id": self.id,
            **self.spec.model_dump(mode="json"),
            "ended": self.ended(),
            "retention_due": self.ended(),
            "fixed": self.fixed,
        }

    def allow(self, dataset: str, columns: Iterable[str], kinds: Iterable[str], *, person: str | None = None) -> None:
        """Refuse a question that the purpose does not allow; nothing was spent. The unit's own column is always allowed."""
        if dataset not in self.spec.datasets:
            raise not_found()
        if self.ended():
            raise ServiceError(code="purpose-ended")
        if self.spec.columns is not None:
            beyond = sorted(set(columns) - {name for name in (*self.spec.columns, person) if name is not None})
            if beyond:
                raise ServiceError(f"the purpose does not allow column {beyond[0]}", code="purpose-refused")
        if self.spec.kinds is not None:
            other = sorted(set(kinds) - set(self.spec.kinds))
            if other:
                raise ServiceError(f"the purpose does not allow {other[0]}", code="purpose-refused")


class Records:
    """Records of one kind that are written once and listed: purposes, decisions, trainings."""

    def __init__(self, database: Database, kind: str) -> None:
        self.database, self.kind = database, kind

    def add(self, name: str, person: str, body: Mapping[str, Any]) -> None:
        """A new record; a name that is taken is refused."""
        values = {"kind": self.kind, "id": name, "person": person, "body": json.dumps(body), "made": time.time()}
        try:
            with self.database.write() as connection:
                connection.execute(records.insert().values(**values))
        except sa.exc.IntegrityError:
            taken = True
        else:
            taken = False
        if taken:
            raise ServiceError(code="taken")

    def count(self) -> int:
        """How many there are."""
        found = self.database.at_once(_COUNT, {"kind": self.kind})
        if found is not None:
            return int(found["many"])
        with self.database.read() as connection:
            return int(connection.execute(_COUNT, {"kind": self.kind}).scalar_one())

    def all(self) -> list[dict[str, Any]]:
        """Every record, oldest first."""
        query = sa.select(records).where(records.c.kind == self.kind).order_by(records.c.made, records.c.id)
        with self.database.read() as connection:
            rows = connection.execute(query).fetchall()
        return [{**json.loads(row.body), "id": row.id, "by": row.person, "made": row.made} for row in rows]


class Purposes:
    """The purposes of the service's file, and those that a curator added since."""

    def __init__(self, database: Database, fixed: Mapping[str, PurposeSpec], datasets: Iterable[str]) -> None:
        self._fixed = {name: Purpose(name, spec) for name, spec in fixed.items()}
        self._datasets = frozenset(datasets)
        self._added = Records(database, "purpose")
        self._known: tuple[int, dict[str, Purpose]] = (0, {})

    def all(self) -> list[Purpose]:
        """Every purpose."""
        return [*self._fixed.values(), *self._found().values()]

    def find(self, name: str) -> Purpose | None:
        """A purpose by its name."""
        return self._fixed.get(name) or self._found().get(name)

    def _found(self) -> dict[str, Purpose]:
        many = self._added.count()
        if many != self._known[0]:  # records are only ever added
            own = ("id", "by", "made")
            kept = self._added.all()
            read = {r["id"]: Purpose(r["id"], _spec({k: v for k, v in r.items() if k not in own}), fixed=False) for r in kept}
            self._known = len(kept), read
        return self._known[1]

    def add(self, person: str, request: NewPurpose) -> Purpose:
        """A new purpose of a curator."""
        given = request.model_dump(mode="json", exclude={"id"})
        unknown = sorted(set(request.datasets) - self._datasets)
        if unknown:
            raise ServiceError(code="invalid", fields={"datasets": "names no data set"})
        if request.id in self._fixed:
            raise ServiceError(code="taken")
        made = Purpose(request.id, _spec(given), fixed=False)
        self._added.add(request.id, person, given)
        return made


def _spec(given: Mapping[str, Any]) -> PurposeSpec:
    """A purpose from JSON; what the service's file would refuse is refused here too."""
    fault, code = "", "invalid"
    try:
        return PurposeSpec.model_validate({**given, "until": datetime.date.fromisoformat(given["until"])})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        fault = str(first["msg"]).removeprefix("Value error, ")
        code = "purpose-vague" if isinstance(first.get("ctx", {}).get("error"), VaguePurpose) else code
    except Refusal as error:
        fault = error.message
    raise ServiceError(fault, code=code, fields={"purpose": fault})


class Decisions:
    """Who set which epsilon, when, why, what else was considered, and who reviewed it."""

    def __init__(self, database: Database) -> None:
        self._records = Records(database, "decision")

    def all(self) -> list[dict[str, Any]]:
        """Every decision, oldest first."""
        return self._records.all()

    def add(self, person: str, request: NewDecision) -> str:
        """Record a decision."""
        name = new_id()
        self._records.add(name, person, request.model_dump(mode="json"))
        return name
