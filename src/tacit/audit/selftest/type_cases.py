"""Mutants of questions about odd types, ties and joins.

An engine that fails where a secret holds is an answer without noise; a choice among a person's rows that looks at where they lie moves
with everyone's rows; a join that compares less than was counted makes more rows than are priced. The real code stands beside each, on
the same rows.

>>> [mutant.name for mutant in mutants()][0]
'tables: a type that is matched by how its name begins'
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from tacit.accounting import Guarantee
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import Mutant
from tacit.tables import Desk, EngineError, Source, TableError, Unit

#: So many answers: what the fault shows, it shows in every one.
TRIALS = 150

Answers = Callable[[Any, int], NDArray[np.float64]]


def _outcome(types: Mapping[str, str]) -> Answers:
    """Whether a question about person 17 is answered, by her age; `types` replaces what the engine says of columns."""

    def run(age: int, n: int) -> NDArray[np.float64]:
        people = pa.table({"id": [17], "age": [age], "tags": [["b"]]})
        desk = Desk.of(Source.of(people, name="people"), Unit("id", max_rows=1), loss=False)
        known = {name: types.get(name, kind) for name, kind in (desk.catalog.tables["people"].columns or {}).items()}
        table = replace(desk.catalog.tables["people"], columns=known)
        desk = replace(desk, catalog=replace(desk.catalog, tables={"people": table}))
        answered = 0.0
        try:
            question = desk.question("SELECT COUNT(*) AS n FROM people WHERE age >= 64 AND tags = 'a'")
            desk.draw(desk.plan(question, Guarantee(epsilon=1)))
            answered = 1.0
        except (TableError, EngineError):
            pass
        return np.full(n, answered)

    return run


def _view(judged: bool) -> Answers:
    """Whether a question about a view that computes a number from a text is answered, by the age of the one person in it."""

    def run(age: int, n: int) -> NDArray[np.float64]:
        engine: Any = Source.of(pa.table({"id": [17], "age": [age], "code": ["no"]}), name="people").engine
        with engine._lock:
            engine._connection.execute("CREATE VIEW seen AS SELECT id, age, CAST(code AS INTEGER) AS code FROM people")
        blind: Any = mock.patch("tacit.tables.engines.views.may_fail", lambda table, look: frozenset())
        answered = 0.0
        with contextlib.suppress(TableError, EngineError), contextlib.nullcontext() if judged else blind:
            desk = Desk.of(Source(engine, ("seen",)), Unit("id", max_rows=1), loss=False)
            desk.draw(desk.plan(desk.question("SELECT COUNT(*) AS n FROM seen WHERE age >= 64 AND code > 0"), Guarantee(epsilon=1)))
            answered = 1.0
        return np.full(n, answered)

    return run


def _answers(desk: Desk, text: str, n: int) -> NDArray[np.float64]:
    """n answers to a count, each with noise of its own."""
    plan = desk.plan(desk.question(text), Guarantee(epsilon=1))
    drawn = (desk.answer(plan, desk.draw(plan)[0], delta=Fraction(0), private=True) for _ in range(n))
    return np.array([float(answer.figures["n"].value[0]) for answer in drawn])


def _choice(order: Callable[[Any], list[exp.Expression]] | None) -> Answers:
    """How many people's chosen row has the text 'a', where each has two rows alike but for it; `order` replaces what tells rows apart.

    The person leaves, and then the other rows lie the other way round: as in a table that was written anew.
    """

    def run(there: bool, n: int) -> NDArray[np.float64]:
        rows = [(person, text) for person in range(60) for text in ("a", "b") if there or person]
        rows = rows if there else rows[::-1]
        people = pa.table({"id": [row[0] for row in rows], "c": [row[1] for row in rows], "k": [1] * len(rows)})
        first = "SELECT id, c, ROW_NUMBER() OVER (PARTITION BY id ORDER BY k) AS p FROM t"
        text = f"SELECT COUNT(*) AS n FROM ({first}) w WHERE p = 1 AND c = 'a'"
        with contextlib.ExitStack() as stack:
            for module in ("from_clause", "joins") if order is not None else ():
                stack.enter_context(mock.patch(f"tacit.tables.{module}.told_apart", order))
            return _answers(Desk.of(Source.of(people, name="t"), Unit("id", max_rows=1), loss=False), text, n)

    return run


def _join(counted: Callable[..., exp.Expression] | None) -> Answers:
    """How many rows one visit becomes in a join with codes that are one float; `counted` replaces what is counted there."""

    def run(there: bool, n: int) -> NDArray[np.float64]:
        visits = pa.table({"k": pa.array([2.0**60] * int(there), pa.float64())})
        codes = pa.table({"k": pa.array(range(2**60, 2**60 + 100), pa.int64())})
        source = Source.several({"visits": visits, "codes": codes}, public=["codes"])
        with mock.patch("tacit.tables.joins._one_where_equal", counted) if counted is not None else contextlib.nullcontext():
            return _answers(Desk.of(source, Unit.row(), loss=False), "SELECT COUNT(*) AS n FROM visits v JOIN codes c ON v.k = c.k", n)

    return run


def _missing_or_not(relation: Any) -> list[exp.Expression]:
    """The old order: only whether a value is there."""
    return [exp.Is(this=exp.column(field.name, quoted=True), expression=exp.null()) for field in relation.fields or ()]


def _by_column(own: Any, other: Any, sql: exp.Expression) -> exp.Expression:
    """The old count: the column itself, whatever the join compares."""
    return exp.column(own.name, quoted=True)


def mutants() -> list[Mutant]:
    """Faults, each caught by what it does to the outcome."""
    one = Claim.of(epsilon=1)
    return [
        Mutant(
            "tables: a type that is matched by how its name begins", _outcome({"tags": "VARCHAR"}), _outcome({}), (64, 30), one, TRIALS,
            "A list of texts counts as a text, and the engine fails where a row gets as far.", bulk=True,
        ),
        Mutant(
            "tables: a view that fails on a row", _view(False), _view(True), (64, 30), one, TRIALS,
            "The engine computes a view's column inside the paid statement, and fails where a row gets as far.", bulk=True,
        ),
        Mutant(
            "tables: ties broken by where everyone's rows lie", _choice(_missing_or_not), _choice(None), (True, False), one, TRIALS,
            "One person leaves, and another row of each other person is kept.", bulk=True,
        ),
        Mutant(
            "tables: a join that compares less than is counted", _join(_by_column), _join(None), (True, False), one, TRIALS,
            "Whole numbers that are one float are one in the join, so one row becomes 100.", bulk=True,
        ),
    ]  # fmt: skip
