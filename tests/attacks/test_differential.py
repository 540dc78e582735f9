"""The standing differential test: random questions about every type of each engine, in three comparisons.

For every question that is accepted: without caps and noise its integers are those of the plain SQL, run by the engine itself; when one
person leaves, and the others' rows lie elsewhere, they move no further than the price; and a table without rows, one with ordinary rows
and one with rows at the limits of every type have one outcome. Each statement has eight figures, and each figure is a question.

Questions of dates and of numbers at their limits that the plain SQL answers otherwise are compared on ordinary rows alone.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import sqlglot
from sqlglot import exp, parse_one
from tests.tables.engines import every_type
from tests.tables.engines.every_type import COLUMNS
from tests.tables.engines.places import Place
from tests.tables.people import loss_between
from tests.tables.typed_questions import Asked, Questions

from tacit.accounting import Guarantee
from tacit.tables import Desk, EngineError, Source, TableError, Unit
from tacit.tables.dialects import spoken
from tacit.tables.expressions import total
from tacit.tables.figures import Exact, integers
from tacit.tables.plan import Plan
from tacit.tables.relation import Field, asked_of

SPEND = Guarantee(epsilon=1)
#: How many statements of eight figures: quickly, and with `make test-slow`.
STATEMENTS = {"duckdb": (30, 2500), "postgres": (6, 2500), "spark": (1, 250)}
#: The person who leaves.
LEAVING = 3
MANY = pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "many"])


def load(place: Place) -> None:
    columns = COLUMNS[place.name]
    every_type.load(place)
    others = [row for row in every_type.lines(columns, "extreme") if row[0] != str(LEAVING)]
    random.Random(4).shuffle(others)
    every_type.put(place, "every_others", columns, others)
    boolean = [column for column in columns if column.name == "bo"]
    every_type.put(place, "every_codes", boolean, [["1", "true"], ["2", "true"], ["3", "false"]])


def desk_on(place: Place, most: int) -> Desk:
    source = Source(place.steady, ("every_plain", "every_codes"), frozenset({"every_codes"}))
    return Desk.of(source, Unit("id", max_rows=most), loss=False)


def on(place: Place, plan: Plan, table: str) -> Exact:
    """The exact integers of a plan, asked of another table of the same columns."""
    statement = plan.statement(place.steady, 7)
    for node in list(statement.find_all(exp.Table)):
        if node.name == "every_plain":
            node.set("this", exp.to_identifier(table, quoted=True))
    return integers(place.steady.run(statement), plan)


def plans(desk: Desk, text: str) -> Plan | None:
    try:
        return desk.plan(desk.question(text), SPEND)
    except TableError:
        return None


def narrowed(desk: Desk, asked: Asked, dialect: str) -> tuple[str, int]:
    """The statement with the figures that are accepted by themselves, and their number."""
    kept = tuple(figure for figure in asked.figures if _accepted(desk, figure, dialect))
    return (written(replace(asked, figures=kept).text, dialect), len(kept)) if kept else ("", 0)


def _accepted(desk: Desk, figure: str, dialect: str) -> bool:
    """Whether what a figure counts can be asked about; moments cannot be counted apart."""
    columns = desk.catalog.tables["every_plain"].columns or {}
    inner = spoken(parse_one(f"SELECT {written(figure, dialect)}", read=dialect), dialect).expressions[0].this
    distinct = isinstance(inner, exp.Distinct)
    try:
        found = total(inner.expressions[0] if distinct else inner, lambda node: asked_of(Field(node.name, columns[node.name])))
    except TableError:
        return False
    return not distinct or found.kind != "instant"


def written(text: str, dialect: str) -> str:
    return text if dialect == "duckdb" else sqlglot.transpile(text, read="duckdb", write=dialect)[0]


def differences(place: Place, text: str, capped: Plan, free: Plan, sent: Plan | None = None) -> list[str]:
    """What is wrong with a question: nothing, where all is well. `sent`: whose statement is run, if not that of `capped`."""
    found = []
    try:
        results = {table: on(place, sent or capped, f"every_{table}") for table in ("empty", "plain", "extreme", "others")}
    except EngineError:
        return [f"a row made it fail: {text}"]
    if loss_between(capped, results["extreme"], results["others"]) > 1:
        found.append(f"one person moves it further than its price: {text}")
    plain = answered(place, text)
    ours = figures(free, on(place, free, "every_plain"))
    if plain is not None and plain != ours:
        wrong = [f"f{i}: {a} is {b}" for i, (a, b) in enumerate(zip(ours, plain, strict=True)) if a != b]
        found.append(f"{', '.join(wrong)} in plain SQL: {text}")
    return found


def figures(plan: Plan, exact: Exact) -> list[int]:
    """The counts that the recipes make of the integers, without noise."""
    return [round(sum(factor * int(exact.sums[place][0]) for place, factor in recipe.value)) for recipe in plan.recipes]


def answered(place: Place, text: str) -> list[int] | None:
    """The plain SQL; None where the engine fails on it."""
    try:
        rows = place.raw(text)
    except Exception:  # each engine has its own, and what it cannot answer cannot be compared
        if place.name == "postgres":
            place.usual._connection.rollback()
        return None
    return [int(value) for value in rows[0]]


def compared(place: Place, statements: int, first: int = 0) -> tuple[int, list[str]]:
    """How many figures were compared, and all that is wrong."""
    load(place)
    capped, free = desk_on(place, 2), desk_on(place, 10_000)
    done, wrong = 0, list[str]()
    for seed in range(first, first + statements):
        text, count = narrowed(capped, Questions(place.name, seed).asked(), place.steady.dialect)
        pair = (plans(capped, text), plans(free, text)) if count else (None, None)
        if pair[0] is None or pair[1] is None:
            continue
        wrong += differences(place, text, pair[0], pair[1])
        done += count
    return done, wrong


@MANY
def test_random_questions_of_every_type(place: Place, many: bool) -> None:
    statements = STATEMENTS[place.name][many]
    done, wrong = compared(place, statements)
    assert not wrong, "\n".join(wrong[:5])
    assert done >= 3 * statements or place.slow


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_the_comparisons_notice(place: Place) -> None:
    """The mutants: another question than was asked, a price for less than was measured, and a row that makes the engine fail."""
    load(place)
    capped, free = desk_on(place, 2), desk_on(place, 10_000)
    text = "SELECT COUNT(CASE WHEN s64 IS NOT NULL THEN 1 END) AS f0 FROM every_plain"
    first, second = plans(capped, text), plans(free, text)
    assert first is not None and second is not None
    assert not differences(place, text, first, second)
    assert differences(place, text.replace("NOT NULL", "NULL"), first, second)
    assert differences(place, text, first, second, sent=second)
    failing = "SELECT SUM(CAST(s64 + s64 AS BIGINT)) AS f0 FROM every_extreme"
    assert answered(place, failing) is None

