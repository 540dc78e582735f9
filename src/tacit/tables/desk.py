"""A desk answers questions about one source for one unit: plan, statement, integers, noise, figures. It has no account.

Planning touches no data. `draw` does, so whoever calls it has reserved the plan's event before: a session pays question by question, a
release job pays once for all its outputs. What was worked out from public things only (questions, plans, statements) is remembered, and
found again by exactly the same question and declarations.

>>> import pyarrow as pa
>>> visits = pa.table({"id": [1, 1, 2, 3], "region": ["N", "S", "N", "N"]})
>>> desk = Desk.of(Source.of(visits, name="visits"), Unit("id", max_rows=2), {"region": ["N", "S"]})
>>> plan = desk.plan(desk.question("SELECT region, COUNT(*) AS n FROM visits GROUP BY region"), Guarantee(epsilon=1))
>>> plan.event
Laplace(noise_multiplier=Fraction(1, 1))
>>> answer = desk.answer(plan, desk.draw(plan)[0], delta=Fraction(0), private=True)
>>> answer.keys
{'region': ['N', 'S']}
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from sqlglot import exp

from tacit import noise
from tacit.accounting import Bound, Event, Guarantee, account
from tacit.exact import at_most, exact
from tacit.tables import plan as plans
from tacit.tables.answer import Answer
from tacit.tables.bias import Lost
from tacit.tables.dialects import known_dialect
from tacit.tables.engines.engine import KEPT, Engine, run_aside
from tacit.tables.errors import TableError
from tacit.tables.figures import Released, answer_of, expected, integers, release
from tacit.tables.plan import Plan, Settings
from tacit.tables.question import Question
from tacit.tables.relation import Catalog, Relation, Schema, Table
from tacit.tables.source import Source
from tacit.tables.sql import parse
from tacit.tables.statement import needs_salt, salt_marked
from tacit.tables.unit import Unit

#: How much is remembered. A question that is read and planned takes three places, of some 30 KB together; its
#: statement, as it is sent and as the engine has it, takes some 350 KB. So plans are kept of more questions than
#: are under way at once as a rule, each planned once for its price and its draw, and statements of few.
PLANS, STATEMENTS = 1024, 48
Found = TypeVar("Found")
Planned = TypeVar("Planned")


@dataclass(frozen=True)
class Desk:
    """A source, whom it is about, and what is public about it. `replace(desk, unit=...)` is the same desk for another unit.

    `dialect` is the SQL that questions are written in. With `loss`, every question also measures what the caps cut off, with a small
    part of its price. `epoch` names the public stretch of time in which a kept answer stands for an identical question.
    """

    source: Source
    unit: Unit
    schema: Schema
    catalog: Catalog
    dialect: str
    confidence: float = 0.95
    loss: bool = True
    epoch: str = ""
    _memory: Recall = field(default_factory=lambda: Recall(PLANS), repr=False, compare=False)
    _sent: Recall = field(default_factory=lambda: Recall(STATEMENTS), repr=False, compare=False)

    @staticmethod
    def of(
        source: Source,
        unit: Unit,
        columns: Schema | Mapping[str, Any] | None = None,
        *,
        dialect: str | None = None,
        confidence: float = 0.95,
        loss: bool = True,
    ) -> Desk:
        """A desk for a source. The names and types of its columns are read here, and no row."""
        schema, engine = Schema.of(columns), source.engine
        tables = {name: Table(source.columns(name), public=name in source.public) for name in source.tables}

        def counted(statement: exp.Select) -> int:
            """A number about public tables. At least 1, because a plan is also made where a public table is not there yet."""
            return max(1, int(run_aside(engine, statement).column(0).to_pylist()[0] or 0))

        unit = spelt(unit, tables)
        catalog = Catalog(tables, unit, counted, salt_marked(engine), schema.links)
        spoken = engine.dialect if dialect is None else known_dialect(dialect)
        return Desk(source, unit, schema, catalog, spoken, confidence, loss)

    @property
    def engine(self) -> Engine:
        """Where the rows are."""
        return self.source.engine

    def recalled(self, key: Hashable | None, held: tuple[object, ...], make: Callable[[], Found]) -> Found:
        """What `make` gave for the same key and the same objects. They are held, so no other object can have their numbers."""
        parts = None if key is None else (key, *map(id, held))
        return self._memory.get(parts, lambda: (held, make()))[1]

    # --- before the data is touched -----------------------------------------------------------------------------------------------

    def question(self, given: Question | str) -> Question:
        """A question from SQL; one that was read already is handed back."""
        if not isinstance(given, str):
            return given
        return self.recalled((given, self.dialect), (self.catalog,), lambda: parse(given, self.dialect, self.catalog))

    def plan(
        self, question: Question, spend: Guarantee, *, bounds: Mapping[str, Any] | None = None,
        keys: Any = None, weights: Mapping[str, Any] | None = None, law: str | None = None,
        loss: bool | None = None, period: tuple[datetime.date, datetime.date] | None = None, beyond: bool | None = None,
    ) -> Plan:
        """What would be measured, with which noise, for this price. What is declared here goes before what the columns say."""
        columns = self.catalog.columns
        if keys is None or isinstance(keys, Mapping):
            keys = {**self.schema.categories_of(question, columns), **(keys or {})}
            _check_keys(question, keys)
        known = {**self.schema.bounds_of(question, columns), **(bounds or {})}
        settings = Settings(known, keys, weights or {}, law, self.loss if loss is None else bool(loss), bool(beyond), period)
        unit = self._unit_for(question)
        same = frozen({
            "bounds": known, "keys": keys, "weights": settings.weights, "law": law, "loss": settings.loss,
            "beyond": settings.beyond,
        })  # fmt: skip
        key = None if same is None else ("prepared", unit, same, period)
        # of many prices of one question only the noise differs
        return self.recalled(
            key, (question, self.engine), lambda: plans.prepare(question, unit, self.engine, settings)
        ).at(spend)

    def _unit_for(self, question: Question) -> Unit:
        """The unit with the caps that the question itself asks for; whom it protects cannot be changed by asking."""
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

    def price(self, plan: Plan, rows: int = 1000) -> Price:
        """The cost of a plan, and the error of each figure in a group of so many rows."""
        return priced(plan, rows, self.confidence)

    def explain(self, plan: Plan, rows: int = 1000) -> str:
        """The plan in words: the statement, how far one unit reaches at each step, the noise, the errors to expect."""
        text = plan.statement(self.engine, 0).sql(dialect=self.engine.dialect, pretty=True)
        return explained(plan, text, rows, self.confidence)

    # --- the data -----------------------------------------------------------------------------------------------------------------

    def draw(self, plan: Plan) -> tuple[Released, str]:
        """Touch the data and add the noise: what may be released, and the text of the statement. The caller has paid for it.

        An exception from here may quote a row. `tacit.ledger.paying` keeps it from being seen.
        """
        statement, text = self._statement(plan)
        return release(integers(self.engine.run(statement), plan), plan), text

    def made_up_draws(self, plan: Plan, times: int) -> list[tuple[Any, ...]]:
        """The noisy sums of many draws on one reading of the rows. For audits on made-up rows: of private rows every draw has a price."""
        exact = integers(self.engine.run(self._statement(plan)[0]), plan)
        return [release(exact, plan).sums for _ in range(times)]

    def text_of(self, plan: Plan) -> str:
        """The statement's text, the same for the same plan: without a salt."""
        if needs_salt(plan.question, plan.wanted, self.engine):
            return plan.statement(self.engine, 0).sql(dialect=self.engine.dialect)
        return self._statement(plan)[1]

    def _statement(self, plan: Plan) -> tuple[exp.Select, str]:
        """The statement with a salt of its own, and its text; the same again where the engine itself draws."""
        held = (plan, self.engine)
        sent = self._sent.get((id(plan), id(self.engine)), lambda: (held, _Sent()))[1]
        if sent.statement is not None:
            return sent.statement, sent.text
        found = plan.statement(self.engine, noise.uniform_integers(2**60))
        text = found.sql(dialect=self.engine.dialect)
        if not needs_salt(plan.question, plan.wanted, self.engine):
            found.meta[KEPT] = True
            sent.statement, sent.text = found, text
        return found, text

    # --- afterwards ---------------------------------------------------------------------------------------------------------------

    def answer(
        self, plan: Plan, released: Released, *, delta: Fraction, private: bool, entry: int | None = None,
        text: str = "", notes: tuple[str, ...] = (), also: Lost | None = None,
    ) -> Answer:
        """The figures of what was released, with their intervals and the price, told at `delta`."""
        return answer_of(
            plan, released, delta=delta, confidence=self.confidence, private=private, entry=entry, statement=text, notes=notes, also=also,
        )


def spelt(unit: Unit, tables: Mapping[str, Table]) -> Unit:
    """The unit with its person's column as the private tables spell it, where they have it in other letters: ID for id."""
    names = [name for table in tables.values() if not table.public for name in table.columns or ()]
    if unit.person is None or unit.key is not None or unit.ends is not None or unit.person in names:
        return unit
    alike = {name for name in names if name.lower() == unit.person.lower()}
    return replace(unit, person=alike.pop()) if len(alike) == 1 else unit


@dataclass
class _Sent:
    """A statement that can be sent again as it is, once there is one."""

    statement: exp.Select | None = None
    text: str = ""


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


# --- prices and plans in words ----------------------------------------------------------------------------------------------------------


#: A price for an accuracy is found to this share of itself.
FINE = Fraction(1, 200)


class Words(str):
    """A text of several lines, which a notebook and the interpreter show as lines."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


@dataclass(frozen=True, repr=False)
class Price:
    """What a question would cost, and how far each figure would be off at most, with the confidence, in a group of so many rows."""

    spend: str
    event: Event
    cost: Bound
    delta: float
    errors: Mapping[str, float]
    rows: int
    confidence: float

    @property
    def epsilon(self) -> float:
        """The certified epsilon of the whole question at its delta."""
        return self.cost.upper

    def __repr__(self) -> str:
        return f"Price({self})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{html.escape(name)}</td><td>± {error:.4g}</td></tr>" for name, error in self.errors.items())
        at = f" at delta {self.delta:g}" if self.delta else ""
        head = f"<tr><th>figure</th><th>error, {self.confidence:.0%}, in a group of {self.rows} rows</th></tr>"
        return f"<p>costs epsilon <b>{self.epsilon:.6g}</b>{at}</p><table>{head}{rows}</table>"

    def __str__(self) -> str:
        errors = ", ".join(f"{name} within {error:.4g}" for name, error in self.errors.items())
        at = f" at delta {self.delta:g}" if self.delta else ""
        return f"costs epsilon {self.epsilon:.6g}{at}; with {self.confidence:.0%} confidence in a group of {self.rows} rows: {errors}"


def priced(plan: Plan, rows: int, confidence: float) -> Price:
    """The price of a plan."""
    delta = plan.spend.delta if plan.spend.epsilon is not None else Fraction(1, 10**6)
    cost = account(plan.event, plan.unit.adjacency).epsilon(at_most(delta))
    return Price(plan.spend.words, plan.event, cost, float(delta), expected(plan, rows, confidence), rows, confidence)


def price_for_accuracy(
    planned: Callable[[Fraction], Planned], wanted: Mapping[str, Any], errors: Callable[[Planned], Mapping[str, float]]
) -> Planned:
    """The cheapest plan, to half a percent, whose figures are within the wanted errors; the price found is never too low."""
    if not isinstance(wanted, Mapping) or not wanted:
        raise TableError("accuracy names figures and their errors: accuracy={'n': 50}")
    goals = {name: exact(f"accuracy[{name!r}]", value) for name, value in wanted.items()}
    if any(goal <= 0 for goal in goals.values()):
        raise TableError("accuracy must be greater than 0: every answer has noise")

    def good(plan: Planned) -> bool:
        found = errors(plan)
        unknown = [name for name in goals if name not in found]
        if unknown:
            raise TableError(f"accuracy names {unknown[0]!r}, which is no figure of the question; there are {', '.join(found)}")
        return all(found[name] <= goal for name, goal in goals.items())

    low, high = Fraction(0), Fraction(1)
    best = planned(high)
    while not good(best):
        low, high = high, high * 2
        if high > 2**12:
            raise TableError("this accuracy costs more than any meaningful budget; ask for less, or tighten bounds and caps")
        best = planned(high)
    while low == 0 or high - low > FINE * high:
        middle = high / 4 if low == 0 else (low + high) / 2
        plan = planned(middle)
        if good(plan):
            best, high = plan, middle
        else:
            low = middle
        if high < Fraction(1, 2**30):
            break
    return best


def explained(plan: Plan, text: str, rows: int, confidence: float) -> str:
    """The plan in words, with the statement."""
    price = priced(plan, rows, confidence)
    unit, grouped = plan.unit, plan.question.grouped
    reach = plan.reach
    lines = [f"unit: {unit!r}, neighbours by {unit.adjacency.value}"]
    lines += [f"   {step}" for step in (plan.question.relation.steps if isinstance(plan.question.relation, Relation) else ())]
    if unit.person is None and unit.ends is not None:
        lines.append(f"1. caps: declared to hold already; one node touches at most {reach.rows} rows, at either end")
    elif unit.person is None:
        lines.append("1. rows: each is its own unit; one changes")
    elif unit.capped:
        lines.append(f"1. caps: declared to hold already; one unit has at most {reach.rows} rows")
    else:
        lines.append(f"1. caps: at most {reach.rows} rows of one unit in {reach.groups} groups are kept, chosen at random among its own")
    where = "kept where the filter is true, " if plan.question.where is not None else ""
    keys = f"{plan.keys.count} declared groups" if plan.keys.lists else "one group" if not grouped else "groups"
    chance = f"(an even chance with {plan.selection.people_needed} people)" if plan.selection else ""
    private = f", of which those that pass the selection appear {chance}" if plan.selection else ""
    lines.append(f"2. rows are {where}clamped, rounded to integers and added up in {keys}{private}")
    if any(aggregate.value is not None for aggregate in plan.question.aggregates):
        lines.append("   a value that is NULL or NaN adds nothing; only COUNT of a value counts NaN, as the engine does")
    lines.append(f"3. noise: {plan.split.law}, together {plan.event!r}")
    for share in plan.shares:
        change = share.measure.most * float(share.measure.granularity)
        part = f"{float(share.part):.3g} of the budget"
        lines.append(f"   {share.measure.name}: a row adds at most {change:.6g}; deviation {share.deviation:.6g}; {part}")
    lines.append(f"4. {price}")
    return "\n".join([*lines, "statement:", text])


# --- memory ---------------------------------------------------------------------------------------------------------------------------

#: Values that cannot change, and are equal only where they mean the same (within one type).
PLAIN = (str, int, float, bool, bytes, type(None), Fraction, Decimal, datetime.date, datetime.datetime, Guarantee)
#: Of these, equal values of one type are the same value.
ALIKE = {str, int, bool, bytes, Fraction}
#: Longer declarations are not remembered: comparing them would cost what is to be saved.
LONGEST = 20_000


def frozen(value: Any) -> Hashable | None:
    """A value that equals another's exactly where the two mean the same; None for what is not known to."""
    seen = 0

    def of(part: Any) -> Hashable:
        nonlocal seen
        seen += len(part) if type(part) in (list, tuple, range) else 1
        if seen > LONGEST:
            raise _Unknown
        if type(part) in PLAIN:
            # repr tells -0.0 from 0.0, and NaN is itself.
            return (type(part), repr(part) if isinstance(part, float) else part)
        if type(part) is range:
            part = list(part)
        if type(part) in (list, tuple):
            kinds = set(map(type, part))
            if len(kinds) == 1 and kinds <= ALIKE:
                return (type(part), *kinds, tuple(part))  # of one type, so that the parts need not be looked at one by one
            return (type(part), None, tuple(of(item) for item in part))
        if isinstance(part, Mapping):
            return (dict, tuple((of(name), of(item)) for name, item in part.items()))
        return _refuse()

    try:
        return of(value)
    except _Unknown:
        return None


class _Unknown(Exception):
    pass


def _refuse() -> Hashable:
    raise _Unknown


class Recall:
    """The last `most` things worked out, by what they were worked out from."""

    def __init__(self, most: int = 64) -> None:
        self.most = most
        self._kept: dict[Hashable, Any] = {}

    def get(self, key: Hashable | None, make: Callable[[], Found]) -> Found:
        """What is kept under the key, or what `make` gives; without a key nothing is kept. What raises is not kept either."""
        if key is None:
            return make()
        missing = object()
        kept = self._kept.pop(key, missing)  # in one step: other threads ask too
        found: Found = make() if kept is missing else kept
        self._kept[key] = found
        while len(self._kept) > self.most:
            self._kept.pop(next(iter(self._kept)), None)
        return found
