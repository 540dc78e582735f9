"""The life of a question, and who works on it: a table of claims in place of a broker.

    quoted -> [waiting ->] running -> stored -> delivered
    refused, declined: nothing was spent.     lost: paid for, and never drawn again.

A claim carries a worker, a lease and a generation. Every step names the generation, so that a worker whose lease ran out
changes nothing more. Who files a question that waits for nobody claims it in the same transaction. The claims
say who works; the book alone says what was paid: a question's key is booked with its spend, so a question that
two workers take for theirs is still drawn once. "Reserved" is a question that is running and has its entry in
the book.

>>> sorted(after("running"))
['lost', 'quoted', 'refused', 'stored']
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from tacit.server.database import Change, Database, claims, new_id, questions
from tacit.server.errors import ServiceError
from tacit.server.grid import Grid

#: Which state may follow which. A question goes back from running to quoted where the book says that nothing was booked.
STEPS: Mapping[str, frozenset[str]] = {
    "quoted": frozenset({"running", "refused"}),
    "waiting": frozenset({"quoted", "declined"}),
    "running": frozenset({"stored", "lost", "refused", "quoted"}),
    "stored": frozenset(),
    "lost": frozenset(),
    "refused": frozenset(),
    "declined": frozenset(),
}
#: States in which nothing happens any more.
ENDED = frozenset(state for state, following in STEPS.items() if not following)
_DAY = 86400.0
_BY_ID = sa.select(questions).where(questions.c.id == sa.bindparam("id"))
_BY_KEY = (
    sa.select(questions)
    .where(questions.c.person == sa.bindparam("person"))
    .where(questions.c.key == sa.bindparam("key"))
)
_CLAIM = sa.select(claims).where(claims.c.question == sa.bindparam("question"))
_HELD = (
    sa.select(claims.c.generation, questions.c.started, questions.c.estimate)
    .join(questions, questions.c.id == claims.c.question)
    .where(claims.c.question == sa.bindparam("question"))
    .with_for_update(of=claims)
)
#: Questions whose outcome cannot be seen yet, whether there is one or not: few, however many were asked before.
_UNDER_WAY = sa.union(
    sa.select(questions.c.id).where(
        sa.or_(
            questions.c.state == sa.literal_column("'quoted'"),
            questions.c.state == sa.literal_column("'running'"),
        )
    ),
    sa.select(claims.c.question).where(claims.c.lease > sa.bindparam("now")),
).subquery()
_OTHERS = sa.select(sa.func.count()).where(_UNDER_WAY.c.id != sa.bindparam("id"))
_THEIRS = sa.select(sa.func.count()).where(questions.c.person == sa.bindparam("person"), questions.c.id != sa.bindparam("id"))
#: How many are under way beside a question, how many of those are its person's, and how many of theirs wait for the officer.
_MANY = sa.select(
    _OTHERS.scalar_subquery().label("under_way"),
    _THEIRS.select_from(_UNDER_WAY.join(questions, questions.c.id == _UNDER_WAY.c.id)).scalar_subquery().label("own"),
    _THEIRS.where(questions.c.state == sa.literal_column("'waiting'")).scalar_subquery().label("to_approve"),
)
_SPENT = sa.select(questions.c.epsilon).where(
    questions.c.token == sa.bindparam("token"),
    questions.c.asked >= sa.bindparam("today"),
    questions.c.state.not_in([sa.literal_column("'refused'"), sa.literal_column("'declined'")]),
)
_ONE_BY_ONE = sa.text("SELECT pg_advisory_xact_lock(hashtext(:person))")
#: A new question, unless its key is there: in a file, and on a server.
_FILE = {True: sqlite.insert(questions).on_conflict_do_nothing(), False: postgresql.insert(questions).on_conflict_do_nothing()}
_NEW_CLAIM = claims.insert()
_HOLD = claims.update().where(claims.c.question == sa.bindparam("of")).values(lease=sa.bindparam("until"))
_SAME = ("person", "dataset", "purpose", "epsilon")
#: Those among them that have a question's account and price, and came before it.
_BEFORE = (
    sa.select(questions)
    .join(_UNDER_WAY, _UNDER_WAY.c.id == questions.c.id)
    .where(*(questions.c[name] == sa.bindparam(name) for name in _SAME))
    .where(
        sa.tuple_(questions.c.started, questions.c.id) < sa.tuple_(sa.bindparam("started"), sa.bindparam("id"))
    )
)
#: What a column holds in a question that does not say it.
_UNSAID = {column.name: getattr(column.default, "arg", None) for column in questions.columns}
#: A question as it stands, by the names of its columns.
Row = dict[str, Any]


def after(state: str) -> frozenset[str]:
    """The states that may follow."""
    return STEPS[state]


class Claims:
    """The questions of a service, for one worker. `clock` is for tests of leases."""

    def __init__(
        self, database: Database, *, lease: float = 60.0, clock: Callable[[], float] = time.time, grid: Grid | None = None
    ) -> None:
        self.database, self.lease, self.clock, self.grid = database, lease, clock, grid or Grid(0)
        self.worker = f"{_machine()}:{os.getpid()}:{new_id()[:8]}"

    # --- filing -------------------------------------------------------------------------------------------------------

    def find(self, person: str, key: str) -> Row | None:
        """The question that a person sent under a key."""
        return _only(self.database.rows(_BY_KEY, {"person": person, "key": key}))

    def file(
        self, values: Mapping[str, Any], *, daily: Fraction | None = None, waiting: int = 10**9,
        each: int = 10**9, mine: bool = False,
    ) -> tuple[Row, bool]:  # fmt: skip
        """A new question, or the one that is there under its key; and whether it is new.

        `daily` is what the token may spend in a day, `waiting` how many questions may be under way at once, and
        `each` how many of one person. With `mine`, a quoted question is filed as a claim of this worker, of the
        first generation: what `take` would do in a second transaction.
        """
        with self.database.writing() as writer:
            if not self.database.sqlite:
                # one question of a person after the other: two of one token must not both see the day's sum
                # without the other
                writer.run(_ONE_BY_ONE, {"person": values["person"]})
            # here, so that of two equal questions the one that is seen first is the earlier one
            now = self.clock()
            filed = {**_UNSAID, "id": new_id(), "asked": now, "started": now, **values}
            if mine:
                filed["state"] = _after(filed["state"], "running")
            # first: whoever sends a question again has its row, whatever the limits are; what is beyond them is undone
            if not writer.run(_FILE[self.database.sqlite], filed):
                row = _only(writer.rows(_BY_KEY, {"person": values["person"], "key": values["key"]}))
                if row is None:
                    raise ServiceError(code="unavailable")
                return row, False
            if daily is not None:
                self._within(writer, filed, daily, now)
            [found] = writer.rows(_MANY, {"now": now, "person": values["person"], "id": filed["id"]})
            # those that wait for the officer too, who reads them one by one
            if (own := found["own"] + found["to_approve"]) >= each:
                words = f"at most {each} questions of one person are under way or wait for approval at a time"
                raise ServiceError(words, code="queue-full", waiting=own)
            if found["under_way"] >= waiting:
                raise ServiceError(code="queue-full", waiting=found["under_way"])
            if mine:
                writer.run(_NEW_CLAIM, {"question": filed["id"], "worker": self.worker, "lease": now + self.lease, "generation": 1})
        return filed, True

    def _within(self, writer: Change, filed: Row, daily: Fraction, now: float) -> None:
        spent = writer.rows(_SPENT, {"token": filed["token"], "today": now - now % _DAY})
        total = sum((Fraction(found["epsilon"]) for found in spent if found["epsilon"]), Fraction(0))
        if total > daily:
            raise ServiceError(code="daily-limit")

    def row(self, question: str) -> Row | None:
        """A question as it stands."""
        return _only(self.database.rows(_BY_ID, {"id": question}))

    def at_once(self, question: str) -> Row | None:
        """A question as it stands, where nothing has to be waited for; None means that `row` has to be asked."""
        return self.database.at_once(_BY_ID, {"id": question})

    # --- working ------------------------------------------------------------------------------------------------------

    def take(self, question: str) -> int | None:
        """Claim a quoted question that no live worker has; the generation, or None."""
        now = self.clock()
        with self.database.write() as connection:
            held = connection.execute(sa.select(claims).where(claims.c.question == question).with_for_update()).first()
            if held is not None and held.lease > now and held.worker != self.worker and not self._died(held.worker):
                return None
            generation = 1 if held is None else held.generation + 1
            if not self._step(connection, question, "quoted", "running"):
                return None
            values = {"worker": self.worker, "lease": now + self.lease, "generation": generation}
            if held is None:
                connection.execute(claims.insert().values(question=question, **values))
            else:
                connection.execute(claims.update().where(claims.c.question == question).values(**values))
        return generation

    def held(self, question: str) -> int | None:
        """The generation in which this worker has a question; None where it has none, or another took over."""
        found = _only(self.database.rows(_CLAIM, {"question": question}))
        return None if found is None or found["worker"] != self.worker else int(found["generation"])

    def renew(self, held: Iterable[str]) -> None:
        """Hold on to questions that are still worked on."""
        names = list(held)
        if names:
            mine = sa.and_(claims.c.question.in_(names), claims.c.worker == self.worker)
            with self.database.write() as connection:
                connection.execute(claims.update().where(mine).values(lease=self.clock() + self.lease))

    def end(self, question: str, generation: int, state: str, **values: Any) -> bool:
        """A step of the worker whose generation is the latest; False where another has taken over."""
        values["state"] = _after("running", state)
        with self.database.writing() as writer:
            held = _only(writer.rows(_HELD, {"question": question}))
            if held is None or held["generation"] != generation:
                return False
            if values.get("ready") is not None:
                # it is held until its outcome may be seen: a place that is free before would tell when the engine was done
                due = self.grid.due(held["started"], estimate=held["estimate"], ready=values["ready"])
                writer.run(_HOLD, {"of": question, "until": due})
            ended = {f"new_{name}": value for name, value in values.items()}
            return bool(writer.run(_ended(*sorted(values)), {"of": question, **ended}))

    def next_time(self, row: Mapping[str, Any]) -> float:
        """The next time of the grid at which the outcome of a question may be seen, if it has one then."""
        now = self.clock()
        if self.grid.step == 0:
            return now + 0.005
        took = (row["ready"] or now + 1e-6) - row["started"]
        return float(row["started"]) + self.grid.wait(row["estimate"], took)

    def before(self, row: Mapping[str, Any]) -> list[Row]:
        """The person's questions of the same price for the same purpose that began before this one and cannot be seen yet."""
        known = {name: row[name] for name in (*_SAME, "started", "id")}
        return self.database.rows(_BEFORE, {"now": self.clock(), **known})

    def decide(self, question: str, state: str, **values: Any) -> bool:
        """The officer's step: from waiting to quoted, or to declined."""
        with self.database.write() as connection:
            return self._step(connection, question, "waiting", state, started=self.clock(), **values)

    def delivered(self, question: str) -> None:
        """An answer was handed out."""
        fresh = sa.and_(questions.c.id == question, questions.c.delivered.is_(None))
        with self.database.write() as connection:
            connection.execute(questions.update().where(fresh).values(delivered=self.clock()))

    def expired(self, *, own: bool = False) -> list[tuple[str, str, int]]:
        """Questions that no worker holds any more: their number, state and generation. `own` adds those that this worker has claimed."""
        now = self.clock()
        held = (claims.c.generation, claims.c.lease, claims.c.worker)
        query = sa.select(questions.c.id, questions.c.state, *held).outerjoin(claims, claims.c.question == questions.c.id)
        left = sa.or_(
            questions.c.state == "running",
            # filed, and the worker was gone before it could claim it
            sa.and_(questions.c.state == "quoted", questions.c.started <= now - self.lease),
        )
        with self.database.read() as connection:
            rows = connection.execute(query.where(left)).fetchall()
        mine = self.worker if own else ""
        gone = [row for row in rows if row.state == "quoted" or row.lease <= now or row.worker == mine or self._died(row.worker)]
        return [(str(row.id), str(row.state), int(row.generation or 0)) for row in gone]

    def _died(self, worker: str) -> bool:
        """Whether a worker was a process of this machine that is no more: its questions need not wait for the lease.

        Only what is certain counts. A process of another machine, or another's with the same number, is waited for.
        """
        machine, number = worker.rpartition(":")[0].rpartition(":")[::2]
        if worker == self.worker or machine != _machine() or not number.isdigit():
            return False
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False

    def _step(self, connection: Connection, question: str, before: str, state: str, **values: Any) -> bool:
        values["state"] = _after(before, state)
        there = sa.and_(questions.c.id == question, questions.c.state == before)
        return bool(connection.execute(questions.update().where(there).values(**values)).rowcount)


@lru_cache(maxsize=1)
def _machine() -> str:
    """Where numbers of processes mean the same: one boot of one machine, and one container of it. Elsewhere, nowhere else."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        known = f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        known = f"{socket.gethostname()} {secrets.token_hex(16)}"
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def _after(before: str, state: str) -> str:
    """The state, where it may follow."""
    if state not in STEPS[before]:
        raise ServiceError(code="unavailable")
    return state


@lru_cache
def _ended(*names: str) -> sa.Update:
    """The last step of a question that is running, which sets these columns."""
    running = sa.and_(questions.c.id == sa.bindparam("of"), questions.c.state == sa.literal_column("'running'"))
    return questions.update().where(running).values({name: sa.bindparam(f"new_{name}") for name in names})


def _only(rows: list[Row]) -> Row | None:
    return rows[0] if rows else None
