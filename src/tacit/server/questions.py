"""Questions: price them, ask them, wait for them, read them. The service's desk for analysts and the officer.

Everything here takes the caller first and looks into the one table of `access`. What may be refused is refused before
anything is booked; an answer is seen when the grid lets it out, whatever became of it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from tacit.accounting import Refusal
from tacit.exact import exact
from tacit.ledger import Account, price
from tacit.server.access import Caller, check
from tacit.server.claims import Claims, Row
from tacit.server.config import Configuration
from tacit.server.database import Database, new_id, questions
from tacit.server.datasets import Dataset, columns_of
from tacit.server.errors import PROBLEMS, ServiceError, not_found, of_refusal
from tacit.server.grid import Grid
from tacit.server.purposes import Purpose, Purposes
from tacit.server.requests import Ask, Decide, PriceRequest, Statement
from tacit.server.worker import Worker
from tacit.tables import Answer, Plan, Session, answer_from, price_record

#: What a question that was paid for and lost says.
LOST = "The answer was lost after it was paid for. It is never drawn again, and the reason is withheld, because it may depend on the data."

#: What makes planning slow: SELECTs and JOINs of one question, and prices times items of one curve.
PARTS, FIGURES = 40, 5000
_PARTS, _COMMA = re.compile(r"\b(?:select|join)\b", re.IGNORECASE), re.compile(",")

Rows = list[dict[str, Any]]
#: A person approves, so whoever waits for it looks every few seconds.
WAITING = 3.0


#: The first of the questions that have an entry's answer, or the question itself.
_FIRST = (
    sa.select(questions.c.state, questions.c.started, questions.c.estimate, questions.c.ready)
    .where(sa.or_(
        questions.c.id == sa.bindparam("id"),
        sa.and_(questions.c.entry == sa.bindparam("entry"), questions.c.dataset == sa.bindparam("dataset"),
                questions.c.state == sa.literal_column("'stored'")),
    ))
    .order_by(questions.c.started)
)  # fmt: skip


class Questions:
    """The questions of a service."""

    def __init__(
        self, configuration: Configuration, database: Database, datasets: Mapping[str, Dataset], purposes: Purposes,
        claims: Claims, worker: Worker, grid: Grid,
    ) -> None:  # fmt: skip
        self.configuration, self.database, self.datasets, self.purposes = configuration, database, datasets, purposes
        self.claims, self.worker, self.grid = claims, worker, grid

    # --- before asking ------------------------------------------------------------------------------------------------

    def _at(self, caller: Caller, action: str, request: Statement) -> tuple[Purpose, Session]:
        check(caller, action, datasets=[request.dataset])
        dataset, purpose = self.datasets.get(request.dataset), self.purposes.find(request.purpose)
        if dataset is None or purpose is None or request.dataset not in purpose.spec.datasets:
            raise not_found()
        return purpose, dataset.session(purpose, caller.person)

    def _planned(self, caller: Caller, action: str, request: Statement, options: Mapping[str, Any]) -> tuple[Plan, Session]:
        """The plan of a question that its purpose allows. No data is touched."""
        purpose, session = self._at(caller, action, request)
        if len(_PARTS.findall(request.sql)) > PARTS:
            raise ServiceError(f"a question has at most {PARTS} SELECTs and JOINs; ask for parts of it", code="question-refused")
        try:
            with self.worker.turn():
                question = session.desk.question(request.sql)
                used = columns_of(question, session.desk.catalog.columns)
                purpose.allow(request.dataset, used, [part.kind for part in question.aggregates], person=session.desk.unit.person)
                return session.plan(question, **options), session
        except Refusal as error:
            found = of_refusal(error)
        except (ArithmeticError, RecursionError, MemoryError):
            # planning touches no data: it was the numbers, or the size, of the question
            found = ServiceError("these numbers are beyond what can be planned with; use less extreme ones", code="question-refused")
        raise found

    def price(self, caller: Caller, request: PriceRequest) -> dict[str, Any]:
        """What a question costs, how exact it would be, and whether the budget allows it; or a curve of prices."""
        curve = request.curve()
        asked = [request.options()] if curve is None else curve
        if len(asked) * len(_COMMA.findall(request.sql)) > FIGURES:
            raise ServiceError("a curve of so many figures takes too long; ask for fewer at once", code="question-refused")
        prices = []
        left: Mapping[str, Fraction] | None = None
        for one in asked:
            plan, session = self._planned(caller, "price", request, one)
            left = session.account.left(request.period) if left is None else left
            cost = charge(session.account, plan)
            prices.append(
                {
                    **price_record(session.desk.price(plan, request.rows)),
                    "charge": _floats(cost),
                    "fits": all(cost[name] <= left[name] for name in cost if name in left),
                    "approval": self.needs_approval(plan),
                }
            )
        found = {"dataset": request.dataset, "purpose": request.purpose, "left": _floats(left or {})}
        return {**found, **prices[0]} if curve is None else {**found, "prices": prices}

    def explain(self, caller: Caller, request: PriceRequest) -> str:
        """The plan in words: the statement, how far one unit reaches, the noise, the errors to expect. No data is touched."""
        plan, session = self._planned(caller, "explain", request, request.options())
        return session.desk.explain(plan, request.rows)

    def dry_run(self, caller: Caller, request: Statement) -> Answer:
        """The answer of made-up rows: it costs nothing, and is marked NOT PRIVATE."""
        plan, _ = self._planned(caller, "explain", request, request.options())
        try:
            return self.datasets[request.dataset].dry_run(request.sql, plan, request.options())
        except Refusal as error:
            found = of_refusal(error)
        raise found

    def needs_approval(self, plan: Plan) -> bool:
        """Whether the officer must approve a price."""
        above = self.configuration.limits.approve_above
        return above is not None and epsilon_of(plan) > exact("approve_above", above.epsilon)

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(self, caller: Caller, request: Ask, key: str) -> dict[str, Any]:
        """File a question and have it answered. The same key and request are the same question, however often they are sent."""
        if not 8 <= len(key) <= 200 or not key.isascii() or not key.isprintable():
            raise ServiceError(code="key-missing")
        check(caller, "ask", datasets=[request.dataset])
        digest, body = hashlib.sha256(key.encode()).hexdigest(), request.body()
        known = self.claims.find(caller.person, digest)
        if known is None:
            plan, session = self._planned(caller, "ask", request, request.options())
            self._fits(session.account, plan, request.period)
            epsilon = epsilon_of(plan)
            values = {
                "person": caller.person, "token": caller.token, "key": digest, "body": hashlib.sha256(body.encode()).hexdigest(),
                "request": body, "dataset": request.dataset, "purpose": request.purpose, "epsilon": str(epsilon),
                "state": "waiting" if self.needs_approval(plan) else "quoted",
                "price": json.dumps(price_record(session.desk.price(plan))),
                "estimate": self.configuration.grid.estimates.get(request.dataset, 0.0),
            }  # fmt: skip
            limits = self.configuration.limits
            known = self.worker.file(
                values, daily=caller.epsilon_a_day, waiting=limits.waiting, each=limits.waiting_each
            )
        if known["state"] == "quoted":
            # also one that was filed before: whoever filed it may be gone, and a claim has one owner
            self.worker.submit(known["id"])
        if known["body"] != hashlib.sha256(body.encode()).hexdigest():
            raise ServiceError(code="key-other-body")
        return self.view(known)

    def _fits(self, account: Account, plan: Plan, period: str | None) -> None:
        """Refuse at once what the book would refuse: the price and what is left are public. The book decides again when it books."""
        left, asked = account.left(period), charge(account, plan)
        short = [name for name in asked if name in left and asked[name] > left[name]]
        if short:
            name = "epsilon" if short[0] == "pure" else short[0]
            fits = f"{name} of at most {float(left[short[0]]):.4g} fits" if left[short[0]] > 0 else "nothing is left"
            words = f"asked {name} {float(asked[short[0]]):.6g}, left {float(left[short[0]]):.6g}"
            raise ServiceError(words, code="budget-exceeded", left=left, asked=asked, fits=fits)

    # --- reading ------------------------------------------------------------------------------------------------------

    def row(self, caller: Caller, question: str, action: str = "read_question") -> Row:
        """A question that the caller may see, as it stands."""
        return self._theirs(caller, action, self.claims.row(question))

    def at_once(self, caller: Caller, question: str) -> Row | None:
        """The same, where nothing has to be waited for; None means that `row` has to be asked."""
        row = self.claims.at_once(question)
        return None if row is None else self._theirs(caller, "read_question", row)

    def _theirs(self, caller: Caller, action: str, row: Row | None) -> Row:
        if row is None:
            raise not_found()
        check(caller, action, owner=row["person"], datasets=[row["dataset"]])
        return row

    def read(self, caller: Caller, question: str) -> dict[str, Any]:
        """A question as its owner, or the officer, may see it now. The officer sees what was asked and paid, and no answer."""
        row = self.row(caller, question)
        own = row["person"] == caller.person
        return self.view(row, answer=own, entry=not own)

    def shared(self, caller: Caller, share: str) -> dict[str, Any]:
        """A question that was shared with everyone who may see its data set."""
        with self.database.read() as connection:
            found = connection.execute(sa.select(questions).where(questions.c.share == share)).mappings().first()
        row = None if found is None else dict(found)
        if row is None or not share:
            raise not_found()
        check(caller, "read_shared", datasets=[row["dataset"]])
        view = self.view(row)
        view.pop("decision", None)  # what the officer wrote is for who asked
        return view

    def share(self, caller: Caller, question: str) -> str:
        """A name under which others who may see the data set can read this question and its answer."""
        row = self.row(caller, question, "share_question")
        if row["share"]:
            return str(row["share"])
        name = new_id()
        with self.database.write() as connection:
            fresh = sa.and_(questions.c.id == question, questions.c.share.is_(None))
            connection.execute(questions.update().where(fresh).values(share=name))
        return str(self.row(caller, question, "share_question")["share"])

    def all_shared(self, caller: Caller, *, most: int = 50) -> Rows:
        """Answers that others shared, of the data sets that the caller may see, newest first, without the answers themselves."""
        check(caller, "read_shared")
        theirs = sa.and_(questions.c.share.is_not(None), questions.c.person != caller.person)
        with self.database.read() as connection:
            query = sa.select(questions).where(theirs).order_by(questions.c.asked.desc()).limit(200)
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [self.view(row, answer=False) for row in rows if caller.may_see(row["dataset"])][:most]

    def list(self, caller: Caller, *, before: float | None = None, most: int = 50) -> Rows:
        """The caller's questions, or everyone's for the officer, newest first, without answers."""
        scope = check(caller, "list_questions")
        query = sa.select(questions).order_by(questions.c.asked.desc(), questions.c.id).limit(max(1, min(most, 200)))
        if scope == "own":
            query = query.where(questions.c.person == caller.person)
        if before is not None:
            query = query.where(questions.c.asked < before)
        with self.database.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [self.view(row, answer=False, entry=scope == "any") for row in rows if caller.may_see(row["dataset"])]

    def due(self, row: Mapping[str, Any]) -> float | None:
        """When the outcome of a question may be seen; None while it has none."""
        if row["state"] == "declined":
            return float(row["ready"] or row["started"])
        if row["state"] not in ("stored", "lost", "refused"):
            return None
        return self._on_grid(row) + self.grid.spread(row["id"])

    def _on_grid(self, row: Mapping[str, Any]) -> float:
        """The time of the grid that belongs to an outcome; it is its date, and it leaves a little later."""
        return self.grid.due(row["started"], estimate=row["estimate"], ready=row["ready"])

    def next_look(self, row: Mapping[str, Any], now: float) -> float:
        """When to look at a question again: nothing can be seen between two times of the grid."""
        if row["state"] == "waiting":
            return now + WAITING
        if self.grid.step == 0:
            return now + 0.005
        due = self.due(row)
        if due is not None and due > now:
            return due
        return float(row["started"]) + self.grid.wait(row["estimate"], now - row["started"] + 1e-6)

    def seen(self, row: Mapping[str, Any]) -> bool:
        """Whether the outcome may be seen now."""
        due = self.due(row)
        return due is not None and due <= self.claims.clock()

    def shown(self, row: Mapping[str, Any]) -> str:
        """The state that is told. One that waits for a worker looks like one that has one: that depends on the statements of others."""
        if not self.seen(row):
            return "waiting" if row["state"] == "waiting" else "running"
        return "answered" if row["state"] == "stored" else str(row["state"])

    def view(
        self, row: Mapping[str, Any], *, answer: bool = True, first: float | None = None, entry: bool = False
    ) -> dict[str, Any]:
        """A question as JSON. Until the grid lets it out, an outcome looks like work under way.

        `first` is what `drawn` says, if known. `entry` is for those who may read the book: entries are numbered in the
        order of bookings and of ends, so that the numbers of an analyst's own questions would tell between which of
        them a statement ended.
        """
        seen, state = self.seen(row), self.shown(row)
        # also of one that is lost, which has no date: it must not leave sooner than an answer
        first = self._drawn(row) if first is None and seen and row["state"] in ("stored", "lost") else first
        found: dict[str, Any] = {
            "id": row["id"], "state": state, "dataset": row["dataset"], "purpose": row["purpose"], "person": row["person"],
            "request": json.loads(row["request"]), "price": json.loads(row["price"]), "asked": _when(row["asked"]),
            "entry": row["entry"] if seen and entry else None, "share": row["share"],
            "answered": _when(first) if seen and state == "answered" else None,
        }  # fmt: skip
        if row["decided_by"]:
            found["decision"] = {"by": row["decided_by"], "reason": row["reason"]}
        if state == "lost":
            found["detail"] = LOST
        if state == "refused" and row["detail"]:
            told = json.loads(row["detail"])
            found["detail"] = told["message"]
            found["problem"] = {"type": f"/problems/{told['code']}", "title": PROBLEMS[told["code"]].title}
        if answer:
            found["answer"] = {**json.loads(row["answer"]), "entry": None} if state == "answered" else None
        return found

    def drawn(self, row: Mapping[str, Any]) -> float | None:
        """The same as `_drawn`, where nothing has to be waited for; None means that `view` has to ask."""
        asked = {"entry": row["entry"], "dataset": row["dataset"], "id": row["id"]}
        found = self.database.at_once(_FIRST, asked)
        if found is None or found["ready"] is None or row["ready"] is None:
            return None
        return min(self._on_grid(found), self._on_grid(row))

    def _drawn(self, row: Mapping[str, Any]) -> float:
        """When the answer was first let out: one from the book keeps its date. Not when it was drawn, which the rows have a say in."""
        same = sa.and_(questions.c.entry == row["entry"], questions.c.dataset == row["dataset"], questions.c.state == "stored")
        with self.database.read() as connection:
            query = sa.select(questions.c.state, questions.c.started, questions.c.estimate, questions.c.ready)
            found: Sequence[Mapping[str, Any]] = [dict(one) for one in connection.execute(query.where(same)).mappings()]
        return min(map(self._on_grid, found or [row]))

    def answer(self, caller: Caller, question: str) -> Answer:
        """The answer as an object, for pages and files. Refused while there is none; lost is lost."""
        view = self.read(caller, question)
        return self.answer_of(view)

    def answer_of(self, view: Mapping[str, Any]) -> Answer:
        """The answer in a view."""
        if view["state"] == "lost":
            raise ServiceError(code="lost")
        if view.get("answer") is None:
            raise ServiceError(code="not-answered")
        return answer_from(view["answer"])

    def delivered(self, view: Mapping[str, Any]) -> None:
        """Note that an answer was handed out."""
        if view["state"] == "answered":
            self.claims.delivered(view["id"])

    def wait(self, caller: Caller, question: str, seconds: float) -> dict[str, Any]:
        """The question when its outcome may be seen, or as it is after so many seconds. It blocks: for pages without scripts and tests."""
        until = self.claims.clock() + seconds
        while True:
            row = self.row(caller, question)
            now = self.claims.clock()
            if self.seen(row) or now >= until:
                return self.view(row, answer=row["person"] == caller.person)
            time.sleep(max(0.001, min(self.next_look(row, now), until) - now))

    # --- the officer --------------------------------------------------------------------------------------------------

    def approvals(self, caller: Caller) -> Rows:
        """Questions that wait for the officer."""
        check(caller, "list_approvals")
        query = sa.select(questions).where(questions.c.state == "waiting").order_by(questions.c.asked)
        with self.database.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [self.view(row, answer=False) for row in rows if caller.may_see(row["dataset"])]

    def decide(self, caller: Caller, question: str, request: Decide) -> dict[str, Any]:
        """Approve or decline a question that waits."""
        row = self.row(caller, question, "approve")
        state = "quoted" if request.decision == "approve" else "declined"
        if row["state"] != "waiting" or not self.claims.decide(question, state, decided_by=caller.person, reason=request.reason):
            raise ServiceError(code="not-waiting")
        if state == "quoted":
            self.worker.submit(question)
        return self.view(self.row(caller, question, "approve"), answer=False)


def charge(account: Account, plan: Plan) -> dict[str, Fraction]:
    """What a plan costs in the currency of an account."""
    return price(plan.event, tuple(account.budget.limits), plan.unit.adjacency, delta=plan.spend.delta or None)


def epsilon_of(plan: Plan) -> Fraction:
    """The epsilon that a plan is about: as asked, or the certified one of its event at delta 1e-6."""
    from tacit.accounting import account as cost_of

    if plan.spend.epsilon is not None:
        return plan.spend.epsilon
    upper = cost_of(plan.event, plan.unit.adjacency).epsilon(1e-6).upper
    if not math.isfinite(upper):
        raise ServiceError("this price is beyond what can be planned with; ask for less", code="question-refused")
    return Fraction(upper)


def _floats(amounts: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float(value) for name, value in amounts.items()}


def _when(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
