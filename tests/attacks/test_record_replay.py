"""Record and replay over the whole path: on neighbouring tables the same statements are sent, the same shapes come back, and the same
scales of noise are drawn in the same order; only the integers differ, within what the event allows (Re:cord-play; arXiv 2602.17454)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables import people
from tests.tables.people import BOUNDS, REGIONS, Row, hostile_rows, question, random_rows

from tacit import noise
from tacit.accounting import Adjacency
from tacit.noise import test_mode
from tacit.tables import Unit


@dataclass
class Tape:
    """What left for the engine, and what was drawn."""

    statements: list[str] = field(default_factory=list)
    columns: list[list[str]] = field(default_factory=list)
    draws: list[tuple[str, Any, Any]] = field(default_factory=list)


class Recorded:
    """An engine that writes down what it is asked."""

    dialect = "duckdb"

    def __init__(self, inner: Any, tape: Tape) -> None:
        self.inner, self.tape = inner, tape

    def run(self, statement: exp.Expression) -> pa.Table:
        found = self.inner.run(statement)
        self.tape.statements.append(statement.sql(dialect="duckdb"))
        self.tape.columns.append(found.column_names)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def record(rows: list[Row], unit: Unit, name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Tape, Any]:
    """Ask one question with a fixed salt and repeatable noise, and write everything down."""
    tape = Tape()
    asked = people.session_on(rows, unit)
    asked.engine = Recorded(asked.engine, tape)  # type: ignore[assignment]
    with monkeypatch.context() as patch, test_mode(3):
        for law in ("rounded_laplace", "rounded_gaussian"):
            inner = getattr(noise, law)

            def drawn(scale: Any, size: Any, law: str = law, inner: Any = inner) -> Any:
                tape.draws.append((law, scale, size))
                return inner(scale, size)

            patch.setattr(noise, law, drawn)
        answer = asked.ask(question(name, grouped=True), epsilon=1, bounds=BOUNDS, **{"keys": {"region": REGIONS}, **options})
    return tape, answer


@pytest.mark.parametrize("name", ["count and mean", "quantiles", "everything"])
def test_neighbours_leave_the_same_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(11)
    for unit in (Unit("id", max_rows=3), Unit("id", max_groups=2, rows_per_group=1)):
        first, answer = record(rows, unit, name, monkeypatch)
        for other in ([*rows, *hostile_rows(1, 99)], [row for row in rows if row[0] != 0]):
            second, answered = record(other, unit, name, monkeypatch)
            assert first == second
            assert len(first.statements) == 1
            assert answer.event == answered.event and answer.to_arrow().schema == answered.to_arrow().schema
            assert answer.cost == answered.cost and answer.noise == answered.noise


def test_exchanged_people_leave_the_same_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Unit("id", max_rows=3, adjacency=Adjacency.REPLACE_ONE)
    rows = random_rows(12)
    first, _ = record([*rows, *hostile_rows(1, 99)], unit, "everything", monkeypatch)
    second, _ = record([*rows, *hostile_rows(2, 98)], unit, "everything", monkeypatch)
    assert first == second


def test_the_recorder_notices_a_scale_that_follows_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: noise scaled by what is in the table."""
    from tacit.tables import released

    honest = released.noisy

    def following(share: Any, sums: Any) -> Any:
        return honest(replace(share, scale=share.scale * (1 + int(np.abs(np.asarray(sums, dtype=float)).sum() > 0))), sums)

    monkeypatch.setattr(released, "noisy", following)
    rows = random_rows(11)
    first, _ = record(rows, Unit("id", max_rows=3), "count and mean", monkeypatch)
    second, _ = record([], Unit("id", max_rows=3), "count and mean", monkeypatch)
    assert first.statements == second.statements and first.draws != second.draws


def test_every_draw_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw for each measure of the plan, in the plan's scale, and no other."""
    for name in ("people", "pair", "quantiles", "everything"):
        tape, _ = record(random_rows(1), Unit("id", max_rows=3), name, monkeypatch)
        asked = people.session_on([], Unit("id", max_rows=3))
        plan = asked.plan(question(name, grouped=True), epsilon=1, bounds=BOUNDS, keys={"region": REGIONS})
        assert [scale for _, scale, _ in tape.draws] == [share.scale for share in plan.shares]
        assert {law for law, _, _ in tape.draws} == {f"rounded_{plan.split.law}"}
