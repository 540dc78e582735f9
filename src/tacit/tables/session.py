"""A session ties a source, a unit, a ledger account and an analyst together.

It is a `Desk` whose every answer is paid for: planned and priced without data, reserved in the ledger, drawn once. Use it to ask
questions one at a time; a release job plans many at once.

>>> import pyarrow as pa
>>> visits = pa.table({"id": [1, 1, 2, 3], "region": ["N", "S", "N", "N"], "age": [30, 31, 44, 60]})
>>> import pathlib, tempfile
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(visits, unit=Unit("id", max_rows=2), budget=Budget(epsilon=1, delta="1e-6"), name="visits", ledger=book)
>>> answer = session.sql("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region",
...     bounds={"age": (0, 100)}, keys={"region": ["N", "S"]}, epsilon=0.5)
>>> answer.to_arrow().column_names
['region', 'n', 'n_low', 'n_high', 'age', 'age_low', 'age_high']
>>> float(session.left()["epsilon"]) >= 0.5
True

**Bounds and caps for a price** are found by noisy counts over public cells that double in width. The cells are public
and each row (or person) is in one of them, so this is an ordinary question: COUNT(*) by a public key. Bounds are the
outermost cells that stand out of the noise; a cap is where the wanted share of people stays below. Where nothing
stands out, the whole public range is returned, and says so.

>>> cap_from([500, 300, 150, 60, 0], 0.9, 1000, 20)
4
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tacit.accounting import Event, Guarantee, ParameterError
from tacit.exact import Typed
from tacit.ledger import Account, Budget, BudgetExceeded, DataIdentity, Ledger, Payment, days, paying, price, share_of_step
from tacit.mechanisms import FoundBounds, bounds_from, cell_edges, cell_numbers, half_width
from tacit.parameters import probability
from tacit.tables.answer import NOT_PRIVATE, Answer
from tacit.tables.builder import Query
from tacit.tables.desk import Desk, Price, Words, frozen, price_for_accuracy
from tacit.tables.engines.engine import Engine
from tacit.tables.errors import EngineError, Refused, TableError
from tacit.tables.figures import Released, expected
from tacit.tables.plan import Plan
from tacit.tables.question import Aggregate, Key, Question
from tacit.tables.relation import Schema
from tacit.tables.source import Source
from tacit.tables.statement import rows_of
from tacit.tables.unit import Auto, Unit

#: Cells on either side of 0: values up to 2^40 in size are told apart.
CELLS = 40
#: The chance that a cell without rows passes for one with rows, over all cells.
BETA = 1e-3
#: What bounds are at most, where nothing stands out.
WIDEST = (-Fraction(2) ** CELLS, Fraction(2) ** CELLS)
if TYPE_CHECKING:
    from tacit.tables.sandbox import MadeUp

CELL, COUNT, ROWS = "cell", "rows", "rows_"


@dataclass(frozen=True)
class Search:
    """A count over public cells: the question, and the cells."""

    question: Question
    cells: list[int]


def bounds_search(about: Question, value: str | exp.Expression) -> Search:
    """How many of a question's rows have a value in each cell."""
    number = exp.cast(exp.column(value, quoted=True) if isinstance(value, str) else value.copy(), "DOUBLE")
    counted = (Aggregate("count", None, COUNT),)
    return Search(Question(rows_of(about), (Key(_cell(number), CELL),), counted, about.where), list(cell_numbers(CELLS)))


def cap_search(about: Question, unit: Unit) -> tuple[Search, Unit]:
    """How many people have so many of a question's rows, in doubling cells; and the unit that this is asked for.

    The statement groups by person, so each has one line, and nothing is left to cap.
    """
    if unit.person is None:
        raise Refused("a cap is for people: Unit('patient_id', max_rows=auto(epsilon=0.1))")
    if unit.window is not None:
        raise Refused("a cap is found for all periods at once, so a unit with a window needs a number: max_rows=12")
    column = exp.column(unit.person, quoted=True)
    counted = exp.alias_(exp.Count(this=exp.Star()), ROWS, quoted=True)
    people = exp.Select(expressions=[column, counted]).from_(rows_of(about), copy=False)
    if about.where is not None:
        people = people.where(about.where.copy(), copy=False)
    people.set("group", exp.Group(expressions=[column.copy()]))
    inner = exp.Subquery(this=people, alias=exp.TableAlias(this=exp.to_identifier("people_", quoted=True)))
    key = Key(_cell(exp.cast(exp.column(ROWS, quoted=True), "DOUBLE")), CELL)
    alone = Unit(unit.person, max_rows=1, adjacency=unit.adjacency, capped=True)
    return Search(Question(inner, (key,), (Aggregate("count", None, COUNT),)), list(range(CELLS + 1))), alone


def _cell(number: exp.Expression) -> exp.Expression:
    """The cell of a number: comparisons only, so that no engine can fail on it; NULL and NaN are in none that is listed."""
    ifs = [exp.If(this=_between(number, -1, 1), true=exp.Literal.number(0))]
    for power in range(1, CELLS + 1):
        last = power == CELLS
        for sign in (1, -1):
            ends = (2.0 ** (power - 1), sys.float_info.max if last else 2.0**power)
            low, high = ends if sign > 0 else (-ends[1], -ends[0])
            ifs.append(exp.If(this=_between(number, low, high), true=_signed(sign * power)))
    return exp.cast(exp.Case(ifs=ifs), "BIGINT")


def _between(number: exp.Expression, low: float, high: float) -> exp.Expression:
    return exp.Between(this=number.copy(), low=exp.cast(_signed(low), "DOUBLE"), high=exp.cast(_signed(high), "DOUBLE"))


def _signed(value: float) -> exp.Expression:
    literal = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=literal) if value < 0 else literal


def afford(account: Account, planned: Sequence[Plan], period: str | None = None) -> None:
    """Refuse several questions that do not fit together into what is left, before the first of them is paid."""
    left, limits = account.left(period), tuple(account.budget.limits)
    charges = [price(plan.event, limits, plan.unit.adjacency, delta=plan.spend.delta or None) for plan in planned]
    asked = {name: sum((charge[name] for charge in charges), Fraction(0)) for name in limits}
    short = [name for name in limits if name in left and asked[name] > left[name]]
    if short:
        shown = f"{short[0]} {float(asked[short[0]]):g}, and {float(left[short[0]]):g} is left"
        raise BudgetExceeded(
            f"the question and the bounds and caps to be found for it cost {shown}; nothing was spent. Declare them, or ask for less",
            account=account.name,
            left=left,
            asked=asked,
            fits="bounds and caps that are declared cost nothing",
        )


def threshold(answer: Answer) -> float:
    """What the noise of no cell exceeds, except with a small probability over all cells."""
    law, deviation = answer.noise[0].law, answer.noise[0].deviation
    scale = deviation / (2**0.5 if law == "laplace" else 1.0)
    return float(half_width([scale], law, 1 - 2 * BETA / answer.rows)[0])


def cap_from(counts: Sequence[float], share: float, most: int, threshold: float) -> int:
    """The least cell's end that so large a share of people does not exceed; cells that do not stand out count as empty.

    >>> cap_from([500, 300, 150, 60, 0], 0.9, 1000, 20)
    4
    """
    kept = [count if count > threshold else 0.0 for count in counts]
    running = np.cumsum(kept)
    if not running[-1] > 0:
        return 1
    place = int(np.argmax(running >= share * running[-1]))
    return max(1, min(most, int(cell_edges(place)[1])))


class SameData(UserWarning):
    """The rows of a new session are known to the book under another name."""

    def __init__(self, account: str = "") -> None:
        super().__init__(
            f"these rows are the data of account {account!r}, under another name or in another format: its budget "
            "pays. If they are other people's rows, say new_dataset=True"
        )


class Options(TypedDict, total=False):
    """What a question takes beside its text; `Session.sql` says what each means."""

    guarantee: Guarantee | str | None
    epsilon: Typed | None
    delta: Typed | None
    rho: Typed | None
    mu: Typed | None
    bounds: Mapping[str, Any] | None
    keys: Any  # a mapping of lists, or a list of combinations
    weights: Mapping[str, Any] | None
    law: str | None
    loss: bool | None
    period: str | None
    accuracy: Mapping[str, Any] | None


#: What `sql`, `ask`, `price` and `explain` take beside the question.
OPTIONS = tuple(Options.__annotations__)


class Left(dict[str, Fraction]):
    """What is left of a budget: exact fractions by component, shown as numbers that are never too large."""

    def __repr__(self) -> str:
        return ", ".join(f"{name} {rounded_down(value)}" for name, value in self.items())


def rounded_down(value: Fraction, digits: int = 6) -> str:
    """A number to so many digits, never above it.

    >>> rounded_down(Fraction(2, 3)), rounded_down(Fraction(1, 2)), rounded_down(Fraction(1, 3_000_000))
    ('0.666666', '0.5', '3.33333e-7')
    """
    exactly = Context(prec=60, rounding=ROUND_FLOOR).divide(Decimal(value.numerator), Decimal(value.denominator))
    short = Context(prec=digits, rounding=ROUND_FLOOR).plus(exactly).normalize()
    return f"{short:f}" if -5 < short.adjusted() < 15 else f"{short:e}"


class Session:
    """Ask private questions about a table; every answer is paid for from one account.

    `columns` says what is public about the table (a `Schema`, or a mapping of bounds and categories); `public` are tables to join with that
    hold nothing private. Without a ledger, the book is the one
    that TACIT_LEDGER names, or `tacit.db` in this directory. With `cache`, the same question about the same rows with the same price is
    answered from the book, for nothing; rows are compared where they are a frame or files, and a table of a database is asked again.
    `loss=False` leaves out what the caps cut off; it is otherwise measured too, with a 2000th of each question's
    budget where noise is Gaussian and a 50th where it is Laplace. `dialect` is the SQL that questions are written in, 'bigquery' say;
    without it, the engine's own. Rows that the book knows under another name, or in another format, share that account's budget, with a
    `SameData` warning; `new_dataset=True` says that they are other people's. `data` names the data set, beside what its rows say.
    `analyst` is who asks: without it the user of the system, unless several analysts use the book and this user is none of them.
    `ledger` is an open one, a file's name or a URL. `types` declares the columns of a CSV file, which says nothing of them itself.

    Several people who ask about the same data share a `Desk` and have an account each, below that of the data:
    `Session(desk, name="visits", account=account, analyst="ann")`.
    """

    def __init__(
        self, source: Any, *, unit: Unit | None = None, budget: Budget | Guarantee | str | None = None, name: str,
        columns: Schema | Mapping[str, Any] | None = None, public: Mapping[str, Any] | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None, data: DataIdentity | str | None = None,
        analyst: str | None = None, confidence: float = 0.95, cache: bool = False, loss: bool = True,
        dialect: str | None = None, new_dataset: bool = False, types: Mapping[str, str] | None = None,
        account: Account | None = None,
    ) -> None:
        if account is not None:
            self._at(source, name, account, analyst, unit, budget, ledger)
            return
        if budget is None:
            raise TableError("budget must say how much may be spent in all: Budget(epsilon=1, delta='1e-6'); or give account=")
        if not isinstance(unit, Unit):
            raise TableError("unit must say whom the guarantee protects: Unit('patient_id', max_rows=12), or Unit.row()")
        if not 0 < float(probability("confidence", confidence)) < 1:
            raise TableError(f"confidence must lie between 0 and 1, such as 0.95, not {confidence}")
        self.name = name
        found = (
            Source.several({name: source, **public}, public=list(public), types={name: types} if types else None)
            if public
            else Source.of(source, name=name, types=types)
        )
        self.desk = Desk.of(found, unit, columns, dialect=dialect, confidence=float(confidence), loss=loss)
        self._check_unit()
        self.made_up: MadeUp | None = None
        self.ledger = Ledger.of(os.environ.get("TACIT_LEDGER", "tacit.db") if ledger is None else ledger)
        self.analyst = self.ledger.analyst(analyst)
        self.account: Account = self.ledger.account(
            name,
            budget,
            data=[*([] if data is None else [data]), *found.identities(self.ledger.knows)],
            new_dataset=new_dataset,
            unit=self.unit.whom,
            adjacency=unit.adjacency,
            window=unit.window,
            cache=cache or None,
            called=unit.called,
        )
        if self.account.name != name:
            warnings.warn(SameData(self.account.name), stacklevel=2)

    def _at(
        self, desk: Any, name: str, account: Account, analyst: str | None, unit: Unit | None, budget: object, ledger: object
    ) -> None:
        """A session at a desk that is there already, paid for from an account that is."""
        if not isinstance(desk, Desk) or unit is not None or budget is not None or ledger is not None:
            raise TableError("with account=, the source is a Desk, which has a unit, and the account has a budget and a book")
        if account.spec.unit != desk.unit.whom or account.spec.adjacency is not desk.unit.adjacency:
            raise TableError(f"account {account.name!r} protects another unit than this desk: {account.spec.unit}, not {desk.unit.whom}")
        self.name, self.desk, self.made_up = name, desk, None
        self.ledger, self.account = account.ledger, account
        self.analyst = self.ledger.analyst(analyst)

    def _check_unit(self) -> None:
        """Refuse a person's column that is not there before an account is opened for it: the terms of an account never change."""
        private = [name for name in self.source.tables if name not in self.source.public]
        if self.unit.person is None or self.unit.ends is not None or self.unit.key is not None or len(private) != 1:
            return
        columns = self.desk.catalog.tables[private[0]].columns or {}
        if self.unit.person.lower() not in {name.lower() for name in columns}:
            raise TableError(
                f"the unit's column {self.unit.person!r} is not in {private[0]}; there are {', '.join(columns)}. No account was opened"
            )

    @property
    def unit(self) -> Unit:
        """Whom the guarantee protects. A cap that is found privately is in it from then on."""
        return self.desk.unit

    @property
    def source(self) -> Source:
        """The tables."""
        return self.desk.source

    @property
    def engine(self) -> Engine:
        """Where the rows are."""
        return self.desk.engine

    @property
    def schema(self) -> Schema:
        """What is public about the columns."""
        return self.desk.schema

    @property
    def private(self) -> bool:
        """Whether answers are about people; those of a sandbox are not, and say NOT PRIVATE."""
        return self.made_up is None

    def left(self, period: str | None = None) -> Left:
        """What is left of the budget, as exact fractions that are shown as numbers."""
        return Left(self.account.left(period))

    def __repr__(self) -> str:
        about = ", ".join(f"{name} {text}" for name, text in self._about().items())
        return f"Session({self.name!r}: {about})"

    def _about(self) -> dict[str, str]:
        """What a session says of itself. Nothing of it is read from rows."""
        left = "by period" if self.account.spec.window else repr(self.left())
        found = {"protects": repr(self.unit), "budget": str(self.account.budget), "left": left}
        found |= {"tables": ", ".join(self.source.tables)} | ({"analyst": self.analyst} if self.analyst else {})
        return found if self.private else {"mark": f"{NOT_PRIVATE}: made-up rows", **found}

    def _repr_html_(self) -> str:
        import html  # for notebooks alone

        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in self._about().items())
        columns = "".join(
            f"<tr><td>{html.escape(table)}</td><td>{html.escape(', '.join(self.source.columns(table)))}</td></tr>"
            for table in self.source.tables
        )
        head = f"<caption>Session {html.escape(self.name)}</caption>"
        return f"<table>{head}{rows}</table><table><caption>columns</caption>{columns}</table>"

    # --- made-up rows -------------------------------------------------------------------------------------------------------------

    @classmethod
    def sandbox(
        cls, columns: Schema | Mapping[str, Any] | None = None, *, unit: Unit | None = None,
        budget: Budget | Guarantee | str = "eps=10, delta=1e-6", name: str = "visits", rows: int = 20_000,
        edition: int = 7, confidence: float = 0.95, dialect: str | None = None,
    ) -> Session:  # fmt: skip
        """A session to learn with: made-up rows, a ledger that is thrown away, and answers marked NOT PRIVATE.

        Without `columns` it is a table of hospital visits; with them, rows that fit what is declared, as `dummy`
        makes them, for practising on the table to come. The same edition has the same rows and gives the same
        answers in the same order, so that an example can be printed and run again.

        >>> session = Session.sandbox()
        >>> session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).private
        False
        """
        from tacit.tables.sandbox import VISITS, MadeUp, like_declared, made_up_visits

        made_up = MadeUp.of(edition)
        declared = VISITS if columns is None else Schema.of(columns)
        whom = unit or (Unit("patient_id", max_rows=8) if columns is None else None)
        if whom is None:
            raise TableError("unit must say which of the columns tells people apart: Unit('patient_id', max_rows=12)")
        table = made_up_visits(rows, edition) if columns is None else like_declared(declared, rows, whom, edition)
        ledger = Ledger.open(os.path.join(made_up.folder, "sandbox.db"))
        made = cls(
            table, unit=whom, budget=budget, name=name, columns=declared, ledger=ledger, confidence=confidence, dialect=dialect
        )
        made.made_up = made_up
        return made

    # --- before asking ------------------------------------------------------------------------------------------------------------

    def plan(self, question: Question | str, **options: Unpack[Options]) -> Plan:
        """What would be measured, with which noise, at which price. Nothing is spent and no data is touched."""
        return self._planned(self.desk, self.desk.question(question), options)

    def price(
        self, question: Question | str | Query, *, rows: int = 1000, epsilon: Typed | None = None,
        guarantee: Guarantee | str | None = None, delta: Typed | None = None, rho: Typed | None = None,
        mu: Typed | None = None, bounds: Mapping[str, Any] | None = None, keys: Any = None,
        weights: Mapping[str, Any] | None = None, law: str | None = None, loss: bool | None = None,
        period: str | None = None, accuracy: Mapping[str, Any] | None = None,
    ) -> Price:  # fmt: skip
        """The cost of a question and the error of each figure, for a group of so many rows. Nothing is spent and no data is touched.

        With `accuracy={"n": 50}` in place of a price: what it costs to have these figures within so much, with the session's confidence.
        """
        options = Options(guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu, bounds=bounds, keys=keys)
        options |= Options(weights=weights, law=law, loss=loss, period=period, accuracy=accuracy)
        return self.desk.price(self._planned(self.desk, self._read(question), options, rows), rows)

    def explain(self, question: Question | str | Query, *, rows: int = 1000, **options: Unpack[Options]) -> Words:
        """The plan in words: the statement, how far one unit reaches at each step, the noise, the errors to expect. No data is touched."""
        return Words(self.desk.explain(self._planned(self.desk, self._read(question), options, rows), rows))

    def _read(self, question: Question | str | Query) -> Question:
        return question.question if isinstance(question, Query) else self.desk.question(question)

    def dummy(self, rows: int = 1000, *, table: str | None = None, edition: int = 7) -> pa.Table:
        """Made-up rows with the columns of a table, within what was declared, for writing questions. No row is read, nothing is paid.

        `tacit.Session(session.dummy(), name="visits", unit=session.unit, budget=...)` answers the same questions about made-up people.
        """
        from tacit.tables.dummy import like

        name = self.source.tables[0] if table is None else table
        types = self.source.columns(name)
        person = self.unit.person if self.unit.person in types else None
        return like(types, self.schema, name.rpartition(".")[2], rows, person=person, edition=edition)

    # --- asking -------------------------------------------------------------------------------------------------------------------

    def sql(
        self, text: str, *, epsilon: Typed | None = None, purpose: str = "",
        guarantee: Guarantee | str | None = None, delta: Typed | None = None, rho: Typed | None = None,
        mu: Typed | None = None, bounds: Mapping[str, Any] | None = None, keys: Any = None,
        weights: Mapping[str, Any] | None = None, law: str | None = None, loss: bool | None = None,
        period: str | None = None, accuracy: Mapping[str, Any] | None = None, key: str = "", body: str = "",
    ) -> Answer:  # fmt: skip
        """Answer a question in SQL; `epsilon` (or rho, mu: the account's currency) is the price of the whole question, or `guarantee`
        says it: a `Guarantee` or its text, such as "eps=0.1, delta=1e-7".

        `bounds`, `keys`: what is public about values and groups, where the session's columns do not say it. `weights`: how much of the
        budget each figure deserves. `accuracy`: errors wanted in place of a price. `period`: which period, for units with a window.
        `key` and `body` are those of `paying`: a question that is sent twice under one key is drawn once.
        """
        options = Options(guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu, bounds=bounds, keys=keys)
        options |= Options(weights=weights, law=law, loss=loss, period=period, accuracy=accuracy)
        return self.ask(self.desk.question(text), purpose=purpose, key=key, body=body, **options)

    def query(self, table: str | None = None) -> Query:
        """The same questions in Python: `session.query().group_by("region").count("n").ask(epsilon=0.1)`."""
        name = self.source.tables[0] if table is None else table
        return Query.of(name, self.desk.catalog, self.desk.dialect, self.ask)

    def ask(
        self, question: Question | Query, *, purpose: str = "", key: str = "", body: str = "", **options: Unpack[Options]
    ) -> Answer:
        """Reserve, run, commit. Everything that can be refused is refused before; what fails after is spent and says nothing of why."""
        question = self._read(question)
        _check(options)
        if key and (self.unit.automatic or any(isinstance(found, Auto) for found in dict(options.get("bounds") or {}).values())):
            raise TableError("a key is for one payment; find bounds and caps first, session.find_bounds(...), then ask under a key")
        if self.made_up is not None:
            with self.made_up.drawn():
                return self._asked_of(question, purpose, key, body, options)
        return self._asked_of(question, purpose, key, body, options)

    def _asked_of(self, question: Question, purpose: str, key: str, body: str, options: Mapping[str, Any]) -> Answer:
        self._foresee(question, options)
        notes: list[str] = []
        cap = self.unit.max_rows
        if isinstance(cap, Auto):
            most = self.find_cap(question, epsilon=cap.epsilon, quantile=cap.quantile, most=cap.most, purpose=purpose)
            self.desk = replace(self.desk, unit=self.unit.with_cap(most))
            notes.append(f"cap found privately: max_rows={most}, for {float(cap.epsilon):g}")
        options, found = self._settle_bounds(question, purpose, options)
        return self._answered(self.desk, question, purpose, options, (*notes, *found), key, body)

    def _answered(
        self, desk: Desk, question: Question, purpose: str, options: Mapping[str, Any], notes: tuple[str, ...] = (),
        key: str = "", body: str = "",
    ) -> Answer:  # fmt: skip
        """The one path to an answer: plan, pay, draw, keep."""
        plan = self._planned(desk, question, options)
        asked = self._asked(desk, plan) if self.account.spec.cache else None
        delta = plan.spend.delta if plan.spend.epsilon is not None else Fraction(1, 10**6)
        advice = "session.explain(...) shows the statement"
        period = options.get("period")
        with self.paying(plan.event, plan.spend, purpose, advice, period=period, question=asked, key=key, body=body) as payment:
            if payment.cached:
                released, text = Released.from_record(cast("Mapping[str, Any]", payment.answer)), ""
            else:
                released, text = desk.draw(plan)
                payment.keep(released.to_record() if asked is not None or key else None)
        return desk.answer(plan, released, delta=delta, private=payment.private, entry=payment.entry, text=text, notes=notes)

    def paying(
        self, event: Event, spend: Guarantee, purpose: str = "", advice: str = "", *,
        period: str | None = None, question: object = None, key: str = "", body: str = "",
    ) -> Payment:  # fmt: skip
        """A payment by this session's account, for its analyst, for what is drawn from its tables; `spend` is what was asked for.

        Everything that a session, a workload or a stream takes from the tables is paid for in this way, so that it
        fails in the same words (an `EngineError` with the `advice` at its end).
        """
        return paying(
            self.account, event, purpose=purpose, analyst=self.analyst, delta=spend.delta or None,
            period=period, question=question, key=key, body=body, error=EngineError, advice=advice,
        )  # fmt: skip

    # --- what a question costs ----------------------------------------------------------------------------------------------------

    def _planned(self, desk: Desk, question: Question, options: Mapping[str, Any], rows: int = 1000) -> Plan:
        """The plan of a question. It follows from public things only, so for the same ones it is not made again."""
        known = frozen({name: value for name, value in options.items() if value is not None})  # None is: not given
        key = None if known is None else (desk.unit, self.account.budget, rows, known)
        return desk.recalled(key, (question, desk.engine, desk.schema), lambda: self._newly_planned(desk, question, options, rows))

    def _newly_planned(self, desk: Desk, question: Question, options: Mapping[str, Any], rows: int) -> Plan:
        _check(options)
        if desk.unit.automatic:
            raise Refused("the cap is still to be found: ask a question first, or session.find_cap(...); then prices are known")
        given = {name: value for name, value in options.items() if value is not None}
        written = {} if "guarantee" in given else {"epsilon": question.asked.epsilon, "delta": question.asked.delta}
        options = {"epsilon": None, "delta": None, **written, **given}
        if self.account.budget.currency != "approximate":
            options["delta"] = None if options["delta"] == question.asked.delta else options["delta"]
        declared = {name: options.get(name) for name in ("bounds", "keys", "weights", "law", "loss")}
        span = None if desk.unit.window is None else days(desk.unit.window, options.get("period"))
        wanted = options.get("accuracy")

        def planned(spend: Guarantee) -> Plan:
            return desk.plan(question, spend, **declared, period=span)

        if wanted is None:
            return planned(self.spend_of(*(options.get(name) for name in ("guarantee", "epsilon", "delta", "rho", "mu"))))
        if any(options.get(name) is not None for name in ("guarantee", "epsilon", "rho", "mu")):
            raise TableError("give accuracy or a price, not both")

        def at(amount: Fraction) -> Plan:
            name = {"approximate": "epsilon", "pure": "epsilon", "rho": "rho", "mu": "mu"}.get(self.account.budget.currency)
            if name is None:
                raise TableError("accuracy needs an account in epsilon, rho or mu")
            given: dict[str, Any] = dict.fromkeys(("guarantee", "epsilon", "rho", "mu")) | {"delta": options.get("delta"), name: amount}
            return planned(self.spend_of(**given))

        return price_for_accuracy(at, wanted, lambda plan: expected(plan, rows, desk.confidence))

    def spend_of(
        self,
        guarantee: Guarantee | str | None = None,
        epsilon: Typed | None = None,
        delta: Typed | None = None,
        rho: Typed | None = None,
        mu: Typed | None = None,
    ) -> Guarantee:
        """The price of a question, in the account's currency; nothing is spent.

        Beside a shorthand epsilon, its share of delta is as asked, or in proportion to epsilon.
        """
        currency, limits = self.account.budget.currency, self.account.budget.limits
        fits = {"approximate": "epsilon", "pure": "epsilon", "rho": "rho", "mu": "mu"}.get(currency)
        needed = f"the account counts in {fits or currency}, so a question needs {fits or 'rho'}=, its price in all"
        if guarantee is None and sum(amount is not None for amount in (epsilon, rho, mu)) != 1:
            raise TableError(needed)
        if delta is not None and currency != "approximate":
            raise TableError("delta: the account has none; leave it out, or open the account with Budget(epsilon=..., delta=...)")
        try:
            asked = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
        except ParameterError as error:
            raise TableError(str(error)) from None
        if fits is not None and getattr(asked, fits) is None:
            raise TableError(needed)
        if asked.delta and currency != "approximate":
            raise TableError(f"guarantee: the account has no delta, and {asked} has one")
        if guarantee is not None or delta is not None or asked.epsilon is None or "delta" not in limits or not limits["epsilon"]:
            return asked
        return Guarantee(epsilon=asked.epsilon, delta=share_of_step(self.account.budget, asked.epsilon))

    def _asked(self, desk: Desk, plan: Plan) -> dict[str, Any] | None:
        """What makes two questions the same: the rows, the statement without its salt, the price, and the noise that it was split into.

        Rows are told by their content as it is now. A table of a database is known by its address alone and may have changed, as may a
        public table that is joined, so nothing is kept then.
        """
        rows = desk.source.fingerprints()
        by_address = self.engine.dialect == "postgres" or any(identity.kind in ("source", "declared", "server") for identity in rows)
        if desk.source.public or by_address:
            return None
        # Under the book's own secret, as accounts have them: a bare digest of rows would let guesses about them be tested.
        kept = self.ledger.store.read(lambda book: sorted(identity.key(self.ledger.secret(book)) for identity in rows))
        text = desk.text_of(plan)
        noise_of = [f"{share.law} {share.scale}" for share in plan.shares]
        return {
            "rows": kept, "statement": text,
            "spend": plan.spend.words, "unit": repr(plan.unit), "event": repr(plan.event), "noise": noise_of,
            **({"epoch": desk.epoch} if desk.epoch else {}),
        }

    # --- bounds and caps for a price ----------------------------------------------------------------------------------------------

    def find_bounds(
        self, question: Question | str, value: str | exp.Expression, *, epsilon: Typed, period: str | None = None, purpose: str = ""
    ) -> FoundBounds:
        """Bounds for a column over a question's rows, up to powers of two, by noisy counts: an answer of its own, paid for."""
        search = bounds_search(self.desk.question(question), value)
        answer = self._answered(self.desk, search.question, purpose or "bounds", self._counting(search, epsilon, period))
        return bounds_from(answer[COUNT].tolist(), threshold(answer), WIDEST)

    def find_cap(
        self,
        question: Question | str,
        *,
        epsilon: Typed,
        quantile: float = 0.95,
        most: int = 1024,
        period: str | None = None,
        purpose: str = "",
    ) -> int:
        """A cap on rows that about this share of people does not exceed, by noisy counts: an answer of its own, paid for."""
        search, alone = cap_search(self.desk.question(question), self.unit)
        options = self._counting(search, epsilon, period)
        answer = self._answered(replace(self.desk, unit=alone), search.question, purpose or "cap", options)
        return cap_from(answer[COUNT].tolist(), quantile, most, threshold(answer))

    def _counting(self, search: Search, epsilon: Typed, period: str | None) -> dict[str, Any]:
        """The options of a count over public cells, in the account's currency."""
        currency = self.account.budget.currency
        amount = {"epsilon" if currency in ("approximate", "pure") else currency: epsilon}
        return {"keys": {CELL: search.cells}, "loss": False, **amount, **({} if period is None else {"period": period})}

    def _foresee(self, question: Question, options: Mapping[str, Any]) -> None:
        """Refuse now what would be refused after bounds and caps were paid for: all of it is planned and priced before any of it is."""
        bounds, cap = dict(options.get("bounds") or {}), self.unit.max_rows
        sought = {name: declared for name, declared in bounds.items() if isinstance(declared, Auto)}
        if not sought and not isinstance(cap, Auto):
            return
        if options.get("accuracy") is not None:
            raise TableError(
                "accuracy has no price before bounds and caps are known; find them first, session.find_bounds(...), or give a price"
            )
        period = options.get("period")
        planned: list[Plan] = []
        settled = self.desk
        if isinstance(cap, Auto):
            search, alone = cap_search(question, self.unit)
            priced = self._counting(search, cap.epsilon, period)
            planned.append(self._planned(replace(self.desk, unit=alone), search.question, priced))
            settled = replace(self.desk, unit=self.unit.with_cap(cap.most))
        for name, declared in sought.items():
            search = bounds_search(question, name)
            planned.append(self._planned(settled, search.question, self._counting(search, declared.epsilon, period)))
        widest = dict.fromkeys(sought, WIDEST)
        planned.append(self._planned(settled, question, {**options, "bounds": {**bounds, **widest}}))
        afford(self.account, planned, period)

    def _settle_bounds(self, question: Question, purpose: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        bounds, notes = dict(options.get("bounds") or {}), []
        for name, declared in list(bounds.items()):
            if isinstance(declared, Auto):
                found = self.find_bounds(question, name, epsilon=declared.epsilon, period=options.get("period"), purpose=purpose)
                bounds[name] = (found.lower, found.upper)
                word = "found privately" if found.found else "not found, the widest taken"
                notes.append(f"bounds of {name} {word}: ({float(found.lower):g}, {float(found.upper):g}), for {float(declared.epsilon):g}")
        return ({**options, "bounds": bounds} if notes else dict(options)), notes


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that are none, or that do not say what they are about."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise TableError(f"{unknown[0]!r} is no option of a question; there are {', '.join(OPTIONS)}")
    for name, example in (("bounds", "(0, 110)"), ("weights", "2")):
        if options.get(name) is not None and not isinstance(options[name], Mapping):
            raise TableError(f"{name} must say which is whose, such as {name}={{'age': {example}}}")
