"""Attacks through the order of rows: where rows lie is everybody's doing, so nothing that is computed of one person's may depend on it.

A sum of floats, the first of two rows of one day, and which of her rows a cap keeps before a join would each change for all people at
once when one of them comes and an engine then meets the rows in another order. Here the rows themselves are put into other orders.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables.engines.places import Place
from tests.tables.people import exact_sums, session_on

from tacit.tables import Unit, from_clause, joins
from tacit.tables.relation import Relation
from tacit.tables.sql import parse

PEOPLE = 40
#: Of every person: a large number, its opposite and a small one; all of one day; each column missing in another row.
ROWS = [
    (person, 7, value, None if place == 1 else person + place, person + place if place != 2 else None)
    for person in range(PEOPLE)
    for place, value in enumerate((2.0**70, -(2.0**70), 1.0 + person))
]
#: What a question makes of a person's own rows, and how far its figures may lie.
QUESTIONS = {
    "sum": "SELECT SUM(t) AS s FROM (SELECT id, SUM(x) AS t FROM visits GROUP BY id) w",
    "mean": "SELECT SUM(t) AS s FROM (SELECT id, AVG(x) AS t FROM visits GROUP BY id) w",
    "number": "SELECT SUM(t) AS s FROM (SELECT id, x AS t, ROW_NUMBER() OVER (PARTITION BY id ORDER BY day) AS p "
    "FROM visits) w WHERE p = 1",
    "join": "SELECT SUM(v.y) AS s, COUNT(v.z) AS n FROM visits v JOIN visits w ON v.id = w.id AND v.day = w.day",
}
BOUNDS = {"t": (-100, 100), "y": (0, 100), "v.y": (0, 100)}


def orders() -> list[list[tuple[Any, ...]]]:
    mixed = ROWS.copy()
    random.Random(5).shuffle(mixed)
    return [ROWS, ROWS[::-1], sorted(ROWS, key=lambda row: abs(row[2])), mixed]


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    kinds = {"id": pa.int64(), "day": pa.int64(), "x": pa.float64(), "y": pa.int64(), "z": pa.int64()}
    return pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def sums_in(place: Place, rows: Sequence[tuple[Any, ...]], text: str) -> list[Any]:
    place.load("visits", table(rows))
    session = place.session(Unit("id", max_rows=1), steady=True, loss=False)
    plan = session.plan(text, epsilon=1, bounds=BOUNDS)
    return [sums.tolist() for sums in exact_sums(plan, place.steady).sums]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_order_of_rows_changes_nothing(place: Place, name: str) -> None:
    asked = orders()[:: 3 if place.slow else 1]
    found = [sums_in(place, rows, QUESTIONS[name]) for rows in asked]
    assert all(sums == found[0] for sums in found)


def test_sums_are_what_they_are(place: Place) -> None:
    """Not merely the same in every order: the large numbers cancel, and the small one of each person is left."""
    place.load("visits", table(ROWS))
    session = place.session(Unit("id", max_rows=1), steady=True, loss=False)
    plan = session.plan(QUESTIONS["sum"], epsilon=1, bounds=BOUNDS)
    share = plan.shares[0].measure
    assert exact_sums(plan, place.steady).sums[0][0] * share.granularity == sum(1 + person for person in range(PEOPLE))


def test_a_persons_sum_is_the_sum_of_her_rows(place: Place) -> None:
    """To the last bit or two, whatever the sizes; beside numbers that are beyond all others, or none."""
    draw = random.Random(11)
    sizes = [1e-25, 1e-9, 0.1, 7.0, 1e6, 1e15, 1e23]
    alike = range(9, 14)  # whose numbers are all of one size
    values = {who: [draw.uniform(-1, 1) * sizes[(who + (who not in alike) * n) % 7] for n in range(30)] for who in range(14)}
    rows = [(person, 7, value, person, None) for person, own in values.items() for value in [*own, 1e30, float("nan"), float("inf"), None]]
    place.load("visits", table(rows))
    catalog = place.session(Unit("id", max_rows=1)).desk.catalog
    text = "SELECT COUNT(*) FROM (SELECT id, SUM(x) AS s, AVG(x) AS m, SUM(y) AS w, SUM(z) AS n FROM visits GROUP BY id) t"
    asked = parse(text, place.usual.dialect, catalog).relation
    assert isinstance(asked, Relation)
    found = place.usual.run(exp.Select(expressions=[exp.Star()]).from_(asked.expression())).to_pylist()
    assert len(found) == len(values)
    for row in found:
        own = values[row["id"]]
        near = 1e-15 * math.fsum(map(abs, own)) + 1e-28  # a hundred-trillionth of a trillionth is the finest step
        assert abs(row["s"] - math.fsum(own)) <= near and abs(row["m"] - math.fsum(own) / 30) <= near
        assert row["w"] == 34 * row["id"] and row["n"] is None


def test_floats_added_up_as_floats_follow_the_order() -> None:
    """The mutant: DuckDB's own sum of the same rows."""
    found = set()
    for rows in orders():
        with duckdb.connect() as own:
            own.register("visits", table(rows))
            found |= set(own.execute("SELECT SUM(t) FROM (SELECT id, SUM(x) AS t FROM visits GROUP BY id)").fetchall())
    assert len(found) > 1


@pytest.mark.parametrize(("module", "name"), [(from_clause, "number"), (joins, "join")], ids=["number", "join"])
def test_rows_that_are_not_told_apart_follow_the_order(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: an order that stops at what was asked for, or at a hash which takes different rows for one."""
    monkeypatch.setattr(module, "told_apart", lambda rows: [])

    def moved(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        session = session_on(table(rows), Unit("id", max_rows=1), loss=False)
        engine: Any = session.engine
        engine.portable = True
        engine.shuffle_key = lambda salt, values: _forgetful(values)
        plan = session.plan(QUESTIONS[name], epsilon=1, bounds=BOUNDS)
        return [sums.tolist() for sums in exact_sums(plan, engine).sums]

    found = [moved(rows) for rows in orders()]
    assert any(sums != found[0] for sums in found)


def _forgetful(values: Sequence[Any]) -> Any:
    """The number of a person, as the texts of (1, NULL) and (NULL, 1) would be the same."""
    return values[0].copy()
