"""The standing differential test: random questions about every type of each engine, in four comparisons.

For every question that is accepted: without caps and noise its figures are those of the plain SQL, run by the engine itself, on ordinary
rows and on rows at the limits of every type; when one person with many rows comes or leaves, and the others' rows lie elsewhere, its
integers move no further than the price; and a table without rows, one with ordinary rows and one with rows at the limits have one outcome.
A question has a dozen figures, each of an expression of its own, and each figure counts as one.

Through a session every question is answered or refused, never anything else; nothing of the data is said, and the book has an entry for
every statement that was sent.
"""

from __future__ import annotations

import datetime
import math
import random
import traceback
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp
from tests.tables.engines import every_type
from tests.tables.engines.every_type import COLUMNS, Typed
from tests.tables.engines.places import Place
from tests.tables.people import loss_between, on_engine
from tests.tables.typed_questions import NANOSECONDS, Asked, Figure, Part, Questions

from tacit.accounting import Guarantee
from tacit.ledger import Budget, LedgerError
from tacit.tables import Desk, EngineError, Source, TableError, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.duckdb import _fetched as duckdb_fetched
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import fetched as spark_fetched
from tacit.tables.figures import MICROSECONDS, Exact, figures, integers
from tacit.tables.plan import Plan

SPEND = Guarantee(epsilon=1, delta="1e-3")
#: How many figures are compared: quickly, and with `make test-slow`.
FIGURES = {"duckdb": (800, 20_000), "postgres": (304, 20_000), "spark": (36, 2000)}
#: Figures in one question: a long statement costs DuckDB more than its parts do, and Spark less.
EACH = {"duckdb": 12, "postgres": 16, "spark": 36}
MANY = pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "many"])
#: Who comes and leaves, and how many rows she has.
LEAVING, HER_ROWS = 9, 30
#: Nothing is cut off from the others' rows, also where they are joined; the cap is declared; and a cap that cuts everybody's rows.
UNITS = {
    "wide": Unit("id", max_rows=64),
    "declared": Unit("id", max_rows=HER_ROWS, capped=True),
    "tight": Unit("id", max_rows=2),
    "groups": Unit("id", max_groups=2, rows_per_group=1),
}
TABLES = ("empty", "plain", "extreme", "more")
#: Columns of char(n).
PADDED = ("ch", "bp")
SECRETS = ("CANARY-3c1d", "8675309")


# ---- the tables ----------------------------------------------------------------------------------------------------------------------


def load(place: Place) -> None:
    """Each table with a number of the row beside its columns, and a public one with every value that a join may meet, some twice."""
    number = Typed("no", "BIGINT", "integer", ("1",), ("1",))
    columns = [*COLUMNS[place.name], number]
    lines = {size: every_type.lines(columns, size) for size in every_type.SIZES}
    hers = [row for size in ("extreme", "plain") for row in lines[size]] * 2
    rows = {**lines, "more": [*lines["extreme"], *([str(LEAVING), *row[1:]] for row in hers[:HER_ROWS])]}
    for size, found in rows.items():
        numbered = [[*row[:-1], str(place_)] for place_, row in enumerate(found)]
        if size == "more":
            random.Random(4).shuffle(numbered)
        every_type.put(place, f"every_{size}", columns, numbered)
    usable = [column for column in COLUMNS[place.name] if column.kind != "other"]
    names = [0, *(columns.index(column) + 1 for column in usable)]
    label = Typed("label", {"spark": "STRING"}.get(place.name, "VARCHAR"), "text", ("'l1'",), ("'l1'",))
    shared = [[row[i] for i in names] for row in (*lines["plain"][:4], *lines["extreme"][:4], lines["plain"][1])]
    every_type.put(place, "every_codes", [*usable, label], [[*row, f"'l{i % 3}'"] for i, row in enumerate(shared)])


@dataclass
class Asking:
    """An engine with the tables, and a desk for each unit."""

    place: Place
    desks: dict[str, Desk]

    @staticmethod
    def on(place: Place) -> Asking:
        load(place)
        source = Source(place.steady, ("every_plain", "every_codes"), frozenset({"every_codes"}))
        return Asking(place, {name: Desk.of(source, unit, loss=False) for name, unit in UNITS.items()})

    def optimised(self, whether: bool) -> None:
        """Whether DuckDB's optimiser is on. It takes most of the time of a long statement, and may run expressions in another order."""
        if self.place.name == "duckdb":
            self.place.steady._connection.execute(f"PRAGMA {'enable' if whether else 'disable'}_optimizer")

    def plan(self, asked: Asked, mode: str) -> Plan | None:
        """The plan of a question; None where it is refused."""
        desk = self.desks[mode]
        keys = None if not asked.key.text else {"k": None if asked.keys is None else list(asked.keys)}
        try:
            return desk.plan(desk.question(self.written(asked.text)), SPEND, bounds=asked.bounds, keys=keys)
        except TableError:
            return None

    def written(self, text: str) -> str:
        """A question in the engine's own dialect."""
        dialect = self.place.steady.dialect
        return text if dialect == "duckdb" else sqlglot.transpile(text, read="duckdb", write=dialect)[0]

    def accepted(self, asked: Asked, mode: str) -> tuple[Asked, Plan | None]:
        """The question with those of its figures that are not refused: all at once, and where that is refused, by halves."""
        plan = self.plan(asked, mode)
        if plan is not None or len(asked.figures) == 1:
            return asked, plan
        kept: list[int] = []

        def halves(chosen: list[int]) -> None:
            if self.plan(asked.only(chosen), mode) is not None:
                kept.extend(chosen)
            elif len(chosen) > 1:
                halves(chosen[: len(chosen) // 2])
                halves(chosen[len(chosen) // 2 :])

        halves(list(range(len(asked.figures) // 2)))
        halves(list(range(len(asked.figures) // 2, len(asked.figures))))
        narrowed = asked.only(kept)
        return narrowed, self.plan(narrowed, mode) if kept else None


# ---- what an engine says ---------------------------------------------------------------------------------------------------------------


class Sent:
    """A statement that is written once and sent to several tables of the same columns."""

    def __init__(self, engine: Any, plan: Plan) -> None:
        self.engine, self.plan = engine, plan
        statement = plan.statement(engine, 7)
        self.lists: dict[str, str] = {}
        if isinstance(engine, DuckDB):
            self.text, self.lists = engine._written(statement)
        else:
            self.text = engine._written(statement) if hasattr(engine, "_written") else engine.prepare(statement).sql(dialect=engine.dialect)

    def on(self, table: str) -> Exact:
        """The integers of a table, by the engine's own ways to fetch them; what fails there is an EngineError."""
        text = self.text.replace("every_plain", table)
        found: pa.Table | None = None
        try:
            if isinstance(self.engine, DuckDB):
                with self.engine._lock:
                    self.engine._list(self.lists)
                    found = duckdb_fetched(self.engine._connection, text)
            elif isinstance(self.engine, Postgres):
                found = self.engine._fetched(text, self.engine._connection, self.engine._lock)
            else:
                found = spark_fetched(self.engine.session, text)
        except Exception as problem:
            raise EngineError(code="statement-failed", engine=type(self.engine).__name__) from problem
        return integers(found, self.plan)


def canonical(value: Any) -> Any:
    """A key as it is compared: one text for all that is equal, whatever an engine hands over."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return str(_WIDE.add(number.normalize(_WIDE), 0)) if number.is_finite() else str(number)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day).isoformat()
    return value.isoformat() if isinstance(value, datetime.datetime) else value


_WIDE = Context(prec=60)


def shown(value: Any, asked: Asked) -> Any:
    """A key as an engine shows it, to be compared: PostgreSQL's char(n) has blanks there, and nanoseconds are texts."""
    if value is not None and asked.keyed_by(PADDED):
        return value.rstrip(" ")
    if value is not None and asked.keyed_by(NANOSECONDS) and len(value) <= MICROSECONDS and value[:1].isdigit():
        value = datetime.datetime.fromisoformat(value)
    return canonical(value)


def lines_of(plan: Plan, exact: Exact) -> dict[Any, list[float]]:
    """The figures of every group without noise, by its key."""
    found = figures(plan, [np.asarray(row, dtype=float) for row in exact.sums], 0.95)
    columns = [found[recipe.aggregate.name].value for recipe in plan.recipes]
    keys = plan.keys.groups([number for number, _ in exact.groups], [values for _, values in exact.groups])
    return {tuple(map(canonical, key)): [float(column[place]) for column in columns] for place, key in enumerate(keys)}


def plainly(asking: Asking, asked: Asked, chosen: Sequence[int], table: str, whole: bool = True) -> dict[int, dict[Any, Any]]:
    """The plain SQL for each of these figures, by key: all at once, and where the engine fails on that, one by one or by halves."""
    if not chosen:
        return {}
    text = asking.written(asked.plain(tuple(chosen))).replace("every_plain", table)
    try:
        rows = asking.place.raw(text)
    except Exception:  # each engine has its own, and what it cannot answer cannot be compared
        if asking.place.name == "postgres":
            asking.place.usual._connection.rollback()
        if len(chosen) == 1 or (whole and not _has_rows(asking, asked, table)):
            return {}
        middle = len(chosen) // 2
        return {i: lines for half in (chosen[:middle], chosen[middle:]) for i, lines in plainly(asking, asked, half, table, False).items()}
    if not asked.key.text:
        return {figure: {(): rows[0][place]} for place, figure in enumerate(chosen)}
    keys = [shown(row[0], asked) for row in rows]
    return {figure: {(key,): row[place + 1] for key, row in zip(keys, rows, strict=True)} for place, figure in enumerate(chosen)}


def _has_rows(asking: Asking, asked: Asked, table: str) -> bool:
    """Whether the engine can make the rows at all: where a condition or a key fails, so does every figure, and none need be tried."""
    alone = replace(asked, figures=(Figure("COUNT(*)", "COUNT(*)"),))
    try:
        asking.place.raw(asking.written(alone.plain((0,))).replace("every_plain", table))
    except Exception:  # as above
        if asking.place.name == "postgres":
            asking.place.usual._connection.rollback()
        return False
    return True


def near(ours: float, plain: Any, counted: bool) -> bool:
    if plain is None:
        return True  # a mean of nothing is the middle of the bounds
    return round(ours) == int(plain) if counted else abs(ours - float(plain)) <= 1e-4 * max(1.0, abs(float(plain)))


def otherwise(asking: Asking, asked: Asked, plan: Plan, exact: Exact, table: str, everywhere: bool) -> list[str]:
    """Which figures of a table are not those of the plain SQL; with `everywhere`, of those alone that are to be the same at the limits."""
    chosen = [i for i, f in enumerate(asked.figures) if f.plain and (not everywhere or f.same)]
    if everywhere and not asked.same:
        return []
    ours, found = lines_of(plan, exact), []
    for figure, lines in plainly(asking, asked, chosen, table).items():
        made = asked.figures[figure]
        counted = made.text.startswith("COUNT")
        for key, line in ours.items():
            plain = lines.get(key, 0 if counted else None)
            if not near(line[figure], plain, counted):
                found.append(f"{made.text} is {line[figure]:g} for {plain} of {key} in {table}: {asked.only([figure]).text}")
        if asked.key.text and asked.keys is None:
            missing = [key for key in lines if key not in ours and None not in key]
            found += [f"{missing} of {table} is no group: {asked.only([figure]).text}"] if missing else []
    return found


def moved(plan: Plan, first: Exact, second: Exact) -> float:
    """How far apart two sets of integers are, over what the price allows; groups that were not listed are 0 where nobody is in them."""
    if plan.keys.private:
        groups = list(dict.fromkeys([*first.groups, *second.groups]))
        first, second = (_on_groups(plan, exact, groups) for exact in (first, second))
        changed = [a - b for a, b in zip(first.people, second.people, strict=True) if a != b]
        if len(changed) > plan.reach.groups or any(abs(step) > 1 for step in changed):
            return math.inf
    return loss_between(plan, first, second)


def _on_groups(plan: Plan, exact: Exact, groups: list[Any]) -> Exact:
    places = {group: place for place, group in enumerate(exact.groups)}

    def spread(row: Any) -> Any:
        empty = np.zeros(np.shape(row)[1:], dtype=np.int64)
        found = np.array([row[places[group]] if group in places else empty for group in groups], dtype=object)
        return found.reshape(len(groups), *np.shape(row)[1:])

    return Exact(groups, [spread(row) for row in exact.sums], [exact.people[places[g]] if g in places else 0 for g in groups])


# ---- the comparisons -----------------------------------------------------------------------------------------------------------------


def differences(asking: Asking, asked: Asked, plan: Plan, *, tables: Sequence[str] = TABLES, sent: Plan | None = None) -> list[str]:
    """What is wrong with a question: nothing, where all is well. `sent`: whose statement is run, if not that of the plan."""
    statement = Sent(asking.place.steady, sent or plan)
    try:
        results = {table: statement.on(f"every_{table}") for table in tables}
    except EngineError:
        return [f"a row made it fail: {asked.text}"]
    found = []
    if moved(plan, results["extreme"], results["more"]) > 1 + 1e-9:
        found.append(f"one person moves it further than its price: {asked.text}")
    if "plain" in tables:
        found += otherwise(asking, asked, plan, results["plain"], "every_plain", False)
        found += otherwise(asking, asked, plan, results["extreme"], "every_extreme", True)
    return found


@dataclass
class Tally:
    """What was asked so far: figures that were compared, statements, those that were refused, and all that is wrong."""

    compared: int = 0
    statements: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


def run(asking: Asking, wanted: int, first: int = 0, each: int | None = None) -> Tally:
    """Questions until so many figures were compared."""
    tally, seed, each = Tally(), first, each or EACH[asking.place.name]
    while tally.compared < wanted and seed < first + wanted:
        asking.optimised(seed % 3 == 0)
        stream = Questions(asking.place.name, seed)
        made = stream.asked(each)
        mode = "wide" if seed % 12 == 0 else "declared"
        asked, plan = asking.accepted(made, mode)
        seed += 1
        tally.refused += len(made.figures) - (len(asked.figures) if plan is not None else 0)
        if plan is None:
            continue
        # Whether an engine takes a statement at all is the same of all tables: one without rows is asked now and then.
        tally.wrong += differences(asking, asked, plan, tables=TABLES if seed % 4 == 0 else TABLES[1:])
        tally.compared += len(asked.figures)
        tally.statements += 1
        if seed % 8 == 1:
            # A cap that cuts everybody's rows: what is kept of the others must not change.
            cut = asking.plan(asked, "groups" if asked.key.text and seed % 16 == 1 else "tight")
            tally.wrong += [] if cut is None else differences(asking, asked, cut, tables=TABLES[2:])
    return tally


@MANY
def test_random_questions_of_every_type(place: Place, many: bool) -> None:
    wanted = FIGURES[place.name][many]
    tally = run(Asking.on(place), wanted)
    assert not tally.wrong, "\n".join(tally.wrong[:5])
    assert tally.compared >= wanted and tally.refused <= tally.compared


@pytest.mark.parametrize("place", ["duckdb", "postgres"], indirect=True)
def test_columns_of_other_types_are_refused_before_a_row_is_read(place: Place) -> None:
    """Whatever is done with a list, a structure, an interval, a time, a range or a blob."""
    asking = Asking.on(place)
    desk, stream = asking.desks["tight"], Questions(place.name, 5)
    for _ in range(150):
        text = f"SELECT {asking.written(stream.unsupported())} AS q FROM every_plain"
        with pytest.raises(TableError):
            desk.plan(desk.question(text), SPEND, bounds={"q": (0, 1)})


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_the_comparisons_notice(place: Place) -> None:
    """The mutants: another question than was asked, a price for less than was measured, and a row that makes the engine fail."""
    asking = Asking.on(place)
    counted = "COUNT(CASE WHEN s64 IS NOT NULL THEN 1 END)"
    asked = Asked((Figure(counted, counted),), "every_plain")
    free, tight = asking.plan(asked, "declared"), asking.plan(asked, "tight")
    assert free is not None and tight is not None
    assert not differences(asking, asked, free)
    other = replace(asked, figures=(Figure(counted, counted.replace("NOT NULL", "NULL")),))
    assert any("is no group" in line or " for " in line for line in differences(asking, other, free))
    assert any("further than its price" in line for line in differences(asking, asked, tight, sent=free))
    # The rows' own sum, unguarded: it fails at the limits, and nowhere else.
    statement = Sent(place.steady, free)
    statement.text = 'SELECT SUM(CAST(s64 + s64 AS BIGINT)) AS "sum_0" FROM every_plain'
    assert statement.on("every_plain").sums and statement.on("every_empty").sums
    with pytest.raises(EngineError):
        statement.on("every_extreme")


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_a_new_group_is_seen_by_the_price(place: Place) -> None:
    """A mutant of the comparison by groups: a person who is in more groups than her caps allow is noticed."""
    asking = Asking.on(place)
    asked = Asked((Figure("COUNT(*)", "COUNT(*)"),), "every_plain", key=Part("s64"))
    free, tight = asking.plan(asked, "declared"), asking.plan(asked, "tight")
    assert free is not None and tight is not None and tight.keys.private
    assert not differences(asking, asked, tight, tables=TABLES[2:])
    assert differences(asking, asked, tight, tables=TABLES[2:], sent=free)


# ---- through a session ---------------------------------------------------------------------------------------------------------------

#: How many answers are drawn: Spark takes seconds for each.
ANSWERS = {"duckdb": (30, 300), "postgres": (25, 300), "spark": (2, 20)}


@dataclass
class Counted:
    """An engine that counts the statements it is sent."""

    inner: Any
    sent: list[str] = field(default_factory=list)

    def run(self, statement: exp.Expression) -> pa.Table:
        self.sent.append(type(statement).__name__)
        return self.inner.run(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def secrets(place: Place) -> None:
    """Extreme rows with secrets among the texts and the whole numbers, under the name that is asked about."""
    columns = [*COLUMNS[place.name], Typed("no", "BIGINT", "integer", ("1",), ("1",))]
    rows = [[*row[:-1], str(number)] for number, row in enumerate(every_type.lines(columns, "extreme"))]
    texts, numbers = ([i for i, c in enumerate(columns, 1) if c.name in names] for names in (("vc",), ("s32", "s64")))
    for place_, row in enumerate(rows):
        for i in (*texts, *numbers):
            if place_ % 3 == 0:
                row[i] = f"CAST('{SECRETS[0] if i in texts else SECRETS[1]}' AS {columns[i - 1].native})"
    every_type.put(place, "every_plain", columns, rows)


def asking_session(place: Place) -> tuple[Any, Counted]:
    """A session on the rows with secrets, and a public table beside them; its statements are counted."""
    load(place)
    secrets(place)
    session = place.session(Unit("id", max_rows=2), Budget(epsilon=10_000, delta="1e-3"), loss=False, name="every_plain")
    source = replace(session.source, tables=("every_plain", "every_codes"), public=frozenset({"every_codes"}))
    session.desk = Desk.of(source, session.unit, loss=False)
    engine = Counted(session.engine)
    on_engine(session, engine)
    return session, engine


def entries(session: Any) -> int:
    return sum(1 for _ in session.ledger.entries())


@MANY
def test_random_questions_are_answered_or_refused(place: Place, many: bool) -> None:
    """Half of them are broken: words are taken out, doubled or put elsewhere."""
    wanted = ANSWERS[place.name][many]
    session, engine = asking_session(place)
    dialect, answered, refused = session.engine.dialect, 0, 0
    for seed in range(10 * wanted):
        if answered >= wanted and refused >= 3:
            break
        stream = Questions(place.name, 100_000 + seed)
        asked = stream.asked(stream.rng.randrange(1, 4))
        text, options = stream.broken() if seed % 2 else asked.text, {}
        if seed % 2 == 0:
            text = text if dialect == "duckdb" else sqlglot.transpile(text, read="duckdb", write=dialect)[0]
            options = {"keys": {"k": list(asked.keys)}} if asked.keys is not None else {}
        booked, left, sent = entries(session), session.left()["epsilon"], len(engine.sent)
        said = ""
        try:
            answer = session.sql(text, epsilon=1, delta="1e-9", bounds={f"q{i}": (-5, 10) for i in range(4)}, **options)
            answered += 1
            said = repr(answer.event) + repr(answer.noise) + answer.statement
        except EngineError:
            raise AssertionError(f"a row made this fail: {text}") from None
        except (TableError, LedgerError) as problem:  # anything else is a fault
            refused += 1
            said = "".join(traceback.format_exception(problem))
        assert not any(secret in said for secret in SECRETS), text
        ran, entered = len(engine.sent) - sent, entries(session) - booked
        assert ran <= 1, text
        assert (entered > 0) == (ran > 0) == (session.left()["epsilon"] < left), text
    assert answered >= wanted // 2 and refused >= 1
    assert session.ledger.verify().ok


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_a_statement_without_an_entry_is_noticed(place: Place) -> None:
    """The mutant: an engine that is asked behind the book's back."""
    session, engine = asking_session(place)
    plan = session.plan("SELECT COUNT(*) AS n FROM every_plain", epsilon=1)
    booked = entries(session)
    engine.run(plan.statement(engine, 1))
    assert len(engine.sent) == 1 and entries(session) == booked


@MANY
def test_the_order_of_the_others_changes_nothing(place: Place, many: bool) -> None:
    """With a cap that cuts everybody's rows: the same rows in another order give the same integers."""
    asking = Asking.on(place)
    columns = [*COLUMNS[place.name], Typed("no", "BIGINT", "integer", ("1",), ("1",))]
    rows = [[*row[:-1], str(number)] for number, row in enumerate(every_type.lines(columns, "extreme"))]
    every_type.put(place, "every_mixed", columns, random.Random(7).sample(rows, len(rows)))
    wanted = (1 if place.slow else 6) * (10 if many else 1)
    for seed in range(200_000, 200_000 + wanted):
        asked, plan = asking.accepted(Questions(place.name, seed).asked(5), "tight")
        if plan is not None:
            statement = Sent(place.steady, plan)
            assert moved(plan, statement.on("every_extreme"), statement.on("every_mixed")) == 0, asked.text
