"""A session ties a source, a unit, a ledger account and an analyst together.

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
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tacit import noise
from tacit.accounting import Guarantee, ParameterError
from tacit.exact import Typed
from tacit.ledger import Account, Budget, DataIdentity, Ledger
from tacit.ledger.errors import LedgerError
from tacit.ledger.spec import days
from tacit.mechanisms import FoundBounds, bounds_from, cell_numbers, half_width
from tacit.parameters import probability
from tacit.tables import automatic, outputs
from tacit.tables import plan as plans
from tacit.tables.answer import Answer
from tacit.tables.builder import Query
from tacit.tables.dialects import known_dialect
from tacit.tables.engines.engine import KEPT, Engine
from tacit.tables.errors import EngineError, Refused, TableError
from tacit.tables.explain import Price, explained, price_for_accuracy, priced
from tacit.tables.plan import Plan, Settings
from tacit.tables.question import Question
from tacit.tables.recall import Recall, frozen
from tacit.tables.relation import Catalog, Table
from tacit.tables.released import Released, integers, release
from tacit.tables.schema import Schema
from tacit.tables.source import Source
from tacit.tables.sql import parse
from tacit.tables.statement import needs_salt, rows_of, salt_marked
from tacit.tables.unit import Auto, Unit

#: What `sql`, `ask`, `price` and `explain` take beside the question.
OPTIONS = ("guarantee", "epsilon", "delta", "rho", "mu", "bounds", "keys", "weights", "law", "loss", "period", "accuracy")


@dataclass
class _Known:
    """What is known of a question before it is asked; the statement and its text, where they can be sent again as they are.

    `held` are the objects that it was worked out from: as long as they are held, no other objects have their numbers.
    """

    held: tuple[object, ...]
    plan: Plan
    period: str | None
    statement: exp.Select | None = None
    text: str = ""


class Session:
    """Ask private questions about a table; every answer is paid for from one account.

    `columns` says what is public about the table (a `Schema`, or a mapping of bounds and categories); `public` are tables to join with that
    hold nothing private. Without a ledger, the book is the one
    that TACIT_LEDGER names, or `tacit.db` in this directory. With `cache`, the same question with the same price is answered from the
    book, for nothing. `loss=False` leaves out what the caps cut off; it is otherwise measured too, with a 2000th of each question's
    budget where noise is Gaussian and a 50th where it is Laplace. `dialect` is the SQL that questions are written in, 'bigquery' say;
    without it, the engine's own.
    """

    def __init__(
        self,
        source: Any,
        *,
        unit: Unit,
        budget: Budget | Guarantee | str,
        name: str,
        columns: Schema | Mapping[str, Any] | None = None,
        public: Mapping[str, Any] | None = None,
        ledger: Ledger | None = None,
        data: DataIdentity | str | None = None,
        analyst: str = "",
        confidence: float = 0.95,
        cache: bool = False,
        loss: bool = True,
        dialect: str | None = None,
    ) -> None:
        if not isinstance(unit, Unit):
            raise TableError("unit must say whom the guarantee protects: Unit('patient_id', max_rows=12), or Unit.row()")
        if not 0 < float(probability("confidence", confidence)) < 1:
            raise TableError(f"confidence must lie between 0 and 1, such as 0.95, not {confidence}")
        self.unit = unit
        self.name = name
        self.analyst = analyst
        self.confidence = float(confidence)
        self.schema = Schema.of(columns)
        self.loss = loss
        self.source = Source.several({name: source, **public}, public=list(public)) if public else Source.of(source, name=name)
        self.engine: Engine = self.source.engine
        self.dialect = self.engine.dialect if dialect is None else known_dialect(dialect)
        self._parsed, self._plans = Recall(), Recall()
        self._check_unit()
        self.ledger = ledger or Ledger.open(os.environ.get("TACIT_LEDGER", "sqlite:///tacit.db"))
        self.account: Account = self.ledger.account(
            name,
            budget,
            data=self.source.identities() if data is None else data,
            unit=unit.whom,
            adjacency=unit.adjacency,
            window=unit.window,
            cache=cache or None,
        )

    def _check_unit(self) -> None:
        """Refuse a person's column that is not there before an account is opened for it: the terms of an account never change."""
        private = [name for name in self.source.tables if name not in self.source.public]
        if self.unit.person is None or self.unit.ends is not None or self.unit.key is not None or len(private) != 1:
            return
        columns = self.source.columns(private[0])
        if self.unit.person.lower() not in {name.lower() for name in columns}:
            raise TableError(
                f"the unit's column {self.unit.person!r} is not in {private[0]}; there are {', '.join(columns)}. No account was opened"
            )

    def left(self, period: str | None = None) -> Mapping[str, Fraction]:
        """What is left of the budget."""
        return self.account.left(period)

    # --- before asking ------------------------------------------------------------------------------------------------------------

    def plan(self, question: Question | str, **options: Any) -> Plan:
        """What would be measured, with which noise, at which price. Nothing is spent and no data is touched."""
        return self._planned(self._question(question), options).plan

    def price(self, question: Question | str, *, rows: int = 1000, **options: Any) -> Price:
        """The cost of a question and the error of each figure, for a group of so many rows. Nothing is spent and no data is touched.

        With `accuracy={"n": 50}` in place of a price: what it costs to have these figures within so much, with the session's confidence.
        """
        return priced(self._planned(self._question(question), options, rows).plan, rows, self.confidence)

    def explain(self, question: Question | str, *, rows: int = 1000, **options: Any) -> str:
        """The plan in words: the statement, how far one unit reaches at each step, the noise, the errors to expect. No data is touched."""
        plan = self._planned(self._question(question), options, rows).plan
        return explained(plan, plan.statement(self.engine, 0).sql(dialect=self.engine.dialect, pretty=True), rows, self.confidence)

    def dummy(self, rows: int = 1000, *, table: str | None = None, edition: int = 7) -> pa.Table:
        """Made-up rows with the columns of a table, within what was declared, for writing questions. No row is read, nothing is paid.

        `tacit.Session(session.dummy(), name="visits", unit=session.unit, budget=...)` answers the same questions about nobody.
        """
        from tacit.tables.dummy import like

        name = self.source.tables[0] if table is None else table
        types = self.source.columns(name)
        person = self.unit.person if self.unit.person in types else None
        return like(types, self.schema, name.rpartition(".")[2], rows, person=person, edition=edition)

    # --- asking -------------------------------------------------------------------------------------------------------------------

    def sql(self, text: str, *, purpose: str = "", **options: Any) -> Answer:
        """Answer a question in SQL; `epsilon` (or rho, mu: the account's currency) is the price of the whole question, or `guarantee`
        says it: a `Guarantee` or its text, such as "eps=0.1, delta=1e-7".

        `bounds`, `keys`: what is public about values and groups, where the session's columns do not say it. `weights`: how much of the
        budget each figure deserves. `accuracy`: errors wanted in place of a price. `period`: which period, for units with a window.
        """
        return self.ask(self._question(text), purpose=purpose, **options)

    def query(self, table: str | None = None) -> Query:
        """The same questions in Python: `session.query().group_by("region").count("n").ask(epsilon=0.1)`."""
        return Query.of(self.source.tables[0] if table is None else table, self.catalog, self.dialect, self.ask)

    def ask(self, question: Question, *, purpose: str = "", **options: Any) -> Answer:
        """Reserve, run, commit. Everything that can be refused is refused before; what fails after is spent and says nothing of why."""
        notes: list[str] = []
        _check(options)
        self._foresee(question, options)
        if self.unit.automatic:
            notes.append(self._settle_cap(question, purpose, options.get("period")))
        options, found = self._settle_bounds(question, purpose, options)
        known = self._planned(question, options)
        plan = known.plan
        asked = self._asked(plan) if self.account.spec.cache else None
        reservation = self.account.reserve(
            plan.event, purpose=purpose, analyst=self.analyst, delta=plan.spend.delta or None, period=known.period, question=asked
        )
        if reservation.cached:
            kept = Released.from_record(reservation.answer)  # type: ignore[arg-type]
            return self._answer(plan, kept, reservation.receipt.private, "", reservation.receipt.entry, (*notes, *found))
        with reservation:
            statement, text = self._statement(known)
            with noise.watch() as seen:
                released = self._released(plan, statement)
            record = released.to_record() if asked is not None else None
            reservation.commit(record if record is None or _plain(record) else None)
        return self._answer(plan, released, seen.private, text, reservation.receipt.entry, (*notes, *found))

    def _statement(self, known: _Known) -> tuple[exp.Select, str]:
        """The statement with a salt of its own, and its text; the same again where the engine itself draws."""
        if known.statement is not None:
            return known.statement, known.text
        found = known.plan.statement(self.engine, noise.uniform_integers(2**60))
        text = found.sql(dialect=self.engine.dialect)
        if not needs_salt(known.plan.question, known.plan.wanted, self.engine):
            found.meta[KEPT] = True
            known.statement, known.text = found, text
        return found, text

    def _released(self, plan: Plan, statement: exp.Select) -> Released:
        failed = False
        released: Released | None = None
        try:
            released = release(integers(self.engine.run(statement), plan), plan)
        except Exception:
            failed = True
        if failed or released is None:
            # raised outside the handler, so that no traceback leads back to the data
            raise EngineError("the question failed after the data was touched; it stays spent. session.explain(...) shows the statement")
        return released

    def _answer(self, plan: Plan, released: Released, private: bool, text: str, entry: int, notes: tuple[str, ...] = ()) -> Answer:
        return outputs.answer_of(
            plan,
            released,
            delta=plan.spend.delta if plan.spend.epsilon is not None else Fraction(1, 10**6),
            confidence=self.confidence,
            private=private,
            entry=entry,
            statement=text,
            notes=notes,
        )

    # --- what is public, and what a question costs --------------------------------------------------------------------------------

    def _question(self, question: Question | str) -> Question:
        if not isinstance(question, str):
            return question
        return self._parsed.get((question, self.dialect), lambda: parse(question, self.dialect, self.catalog))

    @cached_property
    def catalog(self) -> Catalog:
        """The session's tables and what is public about them; read once, and no row of a private table."""
        tables = {name: Table(self.source.columns(name), public=name in self.source.public) for name in self.source.tables}
        return Catalog(tables, self.unit, self._counted, salt_marked(self.engine), self.schema.links)

    def _counted(self, statement: exp.Select) -> int:
        """A number about public tables only."""
        return int(self.engine.run(statement).column(0).to_pylist()[0] or 0)

    def _unit_for(self, question: Question) -> Unit:
        """The session's unit with the caps that the question itself asks for; whom it protects cannot be changed by asking."""
        asked = question.asked
        if asked.person is not None and asked.person != self.unit.person:
            raise TableError(f"privacy_unit_column must be the session's own unit, {self.unit!r}; leave it out")
        if asked.max_groups is None and asked.rows_per_group is None:
            return self.unit
        if self.unit.person is None or self.unit.capped:
            raise TableError("max_groups_contributed: this session's unit is not capped by the question; leave it out")
        groups = asked.max_groups or self.unit.max_groups
        rows = asked.rows_per_group or self.unit.rows_per_group or (self.unit.most_rows if groups is not None else None)
        return replace(self.unit, max_groups=groups, rows_per_group=rows)

    def _planned(self, question: Question, options: Mapping[str, Any], rows: int = 1000) -> _Known:
        """The plan of a question. It follows from public things only, so for the same ones it is not made again."""
        known = frozen(options)
        parts = (id(question), id(self.engine), id(self.schema), self.unit, self.account.budget, self.loss, self.confidence, rows, known)
        return self._plans.get(None if known is None else parts, lambda: self._newly_planned(question, options, rows))

    def _newly_planned(self, question: Question, options: Mapping[str, Any], rows: int) -> _Known:
        _check(options)
        if self.unit.automatic:
            raise Refused("the cap is still to be found: ask a question first, or session.find_cap(...); then prices are known")
        written = {} if options.get("guarantee") is not None else {"epsilon": question.asked.epsilon, "delta": question.asked.delta}
        options = {"epsilon": None, "delta": None, **written, **_given(options)}
        if self.account.budget.currency != "approximate":
            options["delta"] = None if options["delta"] == question.asked.delta else options["delta"]
        period, unit = options.get("period"), self._unit_for(question)
        held = (question, self.engine, self.schema)
        settings = self._settings(question, options, None if self.unit.window is None else days(self.unit.window, period))
        wanted = options.get("accuracy")
        if wanted is None:
            spend = self._spend(*(options.get(name) for name in ("guarantee", "epsilon", "delta", "rho", "mu")))
            return _Known(held, plans.make(question, unit, self.engine, settings, spend), period)
        if any(options.get(name) is not None for name in ("guarantee", "epsilon", "rho", "mu")):
            raise TableError("give accuracy or a price, not both")

        def planned(amount: Fraction) -> Plan:
            name = {"approximate": "epsilon", "pure": "epsilon", "rho": "rho", "mu": "mu"}.get(self.account.budget.currency)
            if name is None:
                raise TableError("accuracy needs an account in epsilon, rho or mu")
            given: dict[str, Any] = dict.fromkeys(("guarantee", "epsilon", "rho", "mu")) | {"delta": options.get("delta"), name: amount}
            return plans.make(question, unit, self.engine, settings, self._spend(**given))

        return _Known(held, price_for_accuracy(planned, wanted, rows, self.confidence), period)

    def _settings(self, question: Question, options: Mapping[str, Any], span: Any) -> Settings:
        """What the question declares, over what the session's columns say."""
        keys = options.get("keys")
        columns = self.catalog.columns
        if keys is None or isinstance(keys, Mapping):
            keys = {**self.schema.categories_of(question, columns), **(keys or {})}
            _check_keys(question, keys)
        bounds = {**self.schema.bounds_of(question, columns), **(options.get("bounds") or {})}
        loss = options.get("loss")
        return Settings(bounds, keys, options.get("weights") or {}, options.get("law"), self.loss if loss is None else bool(loss), span)

    def _spend(
        self,
        guarantee: Guarantee | str | None,
        epsilon: Typed | None,
        delta: Typed | None,
        rho: Typed | None,
        mu: Typed | None,
    ) -> Guarantee:
        """The price of a question. Beside a shorthand epsilon, its share of delta is as asked, or in proportion to epsilon."""
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
        return Guarantee(epsilon=asked.epsilon, delta=min(limits["delta"] * asked.epsilon / limits["epsilon"], limits["delta"]))

    def _asked(self, plan: Plan) -> dict[str, Any]:
        """What makes two questions the same: the statement without its salt, the price, and the noise that it was split into."""
        text = plan.statement(self.engine, 0).sql(dialect=self.engine.dialect)
        noise_of = [f"{share.law} {share.scale}" for share in plan.shares]
        return {"statement": text, "spend": plan.spend.words, "unit": repr(plan.unit), "event": repr(plan.event), "noise": noise_of}

    # --- bounds and caps for a price ----------------------------------------------------------------------------------------------

    def find_bounds(
        self, question: Question | str, value: str | exp.Expression, *, epsilon: Typed, period: str | None = None, purpose: str = ""
    ) -> FoundBounds:
        """Bounds for a column over a question's rows, up to powers of two, by noisy counts: an answer of its own, paid for."""
        asked, options = self._bounds_asked(self._question(question), value, epsilon, period)
        answer = self.ask(asked, purpose=purpose or "bounds", **options)
        return bounds_from(answer[automatic.COUNT].tolist(), _threshold(answer), automatic.WIDEST)

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
        alone, asked, options = self._cap_asked(self._question(question), epsilon, period)
        answer = alone.ask(asked, purpose=purpose or "cap", **options)
        return automatic.cap_from(answer[automatic.COUNT].tolist(), quantile, most, _threshold(answer))

    def _bounds_asked(
        self, about: Question, value: str | exp.Expression, epsilon: Typed, period: str | None
    ) -> tuple[Question, dict[str, Any]]:
        column = exp.column(value, quoted=True) if isinstance(value, str) else value
        question = automatic.bounds_question(rows_of(about), column, about.where)
        return question, self._counting(list(cell_numbers(automatic.CELLS)), epsilon, period)

    def _cap_asked(self, about: Question, epsilon: Typed, period: str | None) -> tuple[Session, Question, dict[str, Any]]:
        if self.unit.person is None:
            raise Refused("a cap is for people: Unit('patient_id', max_rows=auto(epsilon=0.1))")
        if self.unit.window is not None:
            raise Refused("a cap is found for all periods at once, so a unit with a window needs a number: max_rows=12")
        asked, listed = automatic.cap_question(rows_of(about), self.unit.person, about.where)
        # One line a person, because the statement groups by person: nothing is left to cap.
        alone = Unit(self.unit.person, max_rows=1, adjacency=self.unit.adjacency, capped=True)
        return self._with(alone), asked, self._counting(listed, epsilon, period)

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
        settled = self
        if isinstance(cap, Auto):
            alone, asked, priced = self._cap_asked(question, cap.epsilon, period)
            planned.append(alone._planned(asked, priced).plan)
            settled = self._with(self.unit.with_cap(cap.most))
        for name, declared in sought.items():
            asked, priced = settled._bounds_asked(question, name, declared.epsilon, period)
            planned.append(settled._planned(asked, priced).plan)
        widest = dict.fromkeys(sought, automatic.WIDEST)
        planned.append(settled._planned(question, {**options, "bounds": {**bounds, **widest}}).plan)
        automatic.afford(self.account, planned, period)

    def _with(self, unit: Unit) -> Session:
        other = object.__new__(Session)
        other.__dict__ = {**self.__dict__, "unit": unit}
        return other

    def _counting(self, listed: list[int], epsilon: Typed, period: str | None) -> dict[str, Any]:
        """The options of a count over public cells, in the account's currency."""
        currency = self.account.budget.currency
        amount = {"epsilon" if currency in ("approximate", "pure") else currency: epsilon}
        return {"keys": {automatic.CELL: listed}, "loss": False, **amount, **({} if period is None else {"period": period})}

    def _settle_cap(self, question: Question, purpose: str, period: str | None) -> str:
        wanted = self.unit.max_rows
        assert isinstance(wanted, Auto)
        cap = self.find_cap(question, epsilon=wanted.epsilon, quantile=wanted.quantile, most=wanted.most, purpose=purpose)
        self.unit = self.unit.with_cap(cap)
        return f"cap found privately: max_rows={cap}, for {float(wanted.epsilon):g}"

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


def _check_keys(question: Question, keys: Mapping[Any, Any]) -> None:
    """Refuse a list for something else where a key has none: it is likely meant for that key, whose values would be selected privately."""
    named = {name for given in keys for name in (given if isinstance(given, tuple) else (given,))}
    grouped = [key.name for key in question.keys]
    missing = [key.name for key in question.keys if key.listed is None and key.name not in named]
    unknown = sorted(str(name) for name in named - set(grouped))
    if missing and unknown:
        raise TableError(
            f"keys names {unknown[0]!r}, which the question is not grouped by, and not {missing[0]!r}; leave it out, or say "
            f"keys={{{missing[0]!r}: None}} to have its values selected privately"
        )


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _threshold(answer: Answer) -> float:
    """What the noise of no cell exceeds, except with a small probability over all cells."""
    law, deviation = answer.noise[0].law, answer.noise[0].deviation
    scale = deviation / (2**0.5 if law == "laplace" else 1.0)
    return float(half_width([scale], law, 1 - 2 * automatic.BETA / answer.rows)[0])


def _plain(record: object) -> bool:
    """Whether an answer can be kept as JSON: dates, for one, cannot, and such an answer is simply not kept."""
    from tacit.ledger.journal import canonical

    try:
        canonical(record)
    except LedgerError:
        return False
    return True
