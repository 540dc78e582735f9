"""Record and replay over the whole path, on every engine: on neighbouring tables the same statements are sent, the same shapes come back,
and the same scales of noise are drawn in the same order; only the integers differ, within what the event allows (Re:cord-play; arXiv
2602.17454)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables import people
from tests.tables.engines import places
from tests.tables.engines.places import Place
from tests.tables.people import BOUNDS, REGIONS, Row, hostile_rows, loss_between, question, random_rows

from tacit import noise
from tacit.accounting import Adjacency
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode
from tacit.tables import Unit
from tacit.tables.figures import integers


@dataclass
class Tape:
    """What left for the engine, and what was drawn."""

    statements: list[str] = field(default_factory=list)
    columns: list[list[str]] = field(default_factory=list)
    draws: list[tuple[str, Any, Any]] = field(default_factory=list)
    #: What came back, which is all that neighbours may differ in.
    tables: list[pa.Table] = field(default_factory=list, compare=False)


class Recorded:
    """An engine that writes down what it is asked."""

    def __init__(self, inner: Any, tape: Tape) -> None:
        self.inner, self.tape = inner, tape

    def run(self, statement: exp.Expression) -> pa.Table:
        found = self.inner.run(statement)
        self.tape.statements.append(statement.sql(dialect=self.inner.dialect))
        self.tape.columns.append(found.column_names)
        self.tape.tables.append(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def record(place: Place, rows: list[Row], unit: Unit, name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Tape, Any]:
    """Ask one question with a fixed salt and repeatable noise, and write everything down."""
    tape = Tape()
    place.put(rows)
    asked = place.session(unit, steady=True)
    people.on_engine(asked, Recorded(asked.engine, tape))
    with monkeypatch.context() as patch, test_mode(3):
        for law in ("rounded_laplace", "rounded_gaussian"):
            inner = getattr(noise, law)

            def drawn(scale: Any, size: Any, law: str = law, inner: Any = inner) -> Any:
                tape.draws.append((law, scale, size))
                return inner(scale, size)

            patch.setattr(noise, law, drawn)
        answer = asked.ask(question(name, grouped=True), epsilon=1, bounds=BOUNDS, **{"keys": {"region": REGIONS}, **options})
    return tape, answer


def moved(place: Place, unit: Unit, name: str, first: Tape, second: Tape) -> float:
    """How far apart the integers of two tapes are, over what the event allows."""
    plan = place.session(unit, steady=True).plan(question(name, grouped=True), epsilon=1, bounds=BOUNDS, keys={"region": REGIONS})
    return loss_between(plan, integers(first.tables[0], plan), integers(second.tables[0], plan))


REPLAYS = [
    *((engine, name) for engine in ("duckdb", "postgres") for name in ("count and mean", "quantiles", "everything")),
    ("spark", "everything"),
]


@pytest.mark.parametrize(("place", "name"), REPLAYS, indirect=["place"], ids=["-".join(case) for case in REPLAYS])
def test_neighbours_leave_the_same_trace(place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(11)
    for unit in (Unit("id", max_groups=2, rows_per_group=1), Unit("id", max_rows=3))[place.slow :]:
        first, answer = record(place, rows, unit, name, monkeypatch)
        for other in ([*rows, *hostile_rows(1, 99)], [row for row in rows if row[0] != 0]):
            second, answered = record(place, other, unit, name, monkeypatch)
            assert first == second
            assert len(first.statements) == 1
            assert answer.event == answered.event and answer.to_arrow().schema == answered.to_arrow().schema
            assert answer.cost == answered.cost and answer.noise == answered.noise
            assert 0 < moved(place, unit, name, first, second) <= 1


def test_exchanged_people_leave_the_same_trace(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Unit("id", max_rows=3, adjacency=Adjacency.REPLACE_ONE)
    rows = random_rows(12)
    first, _ = record(place, [*rows, *hostile_rows(1, 99)], unit, "everything", monkeypatch)
    second, _ = record(place, [*rows, *hostile_rows(2, 98)], unit, "everything", monkeypatch)
    assert first == second
    assert 0 < moved(place, unit, "everything", first, second) <= 1


def test_the_recorder_notices_rows_beyond_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a unit whose cap is claimed and not true of the rows."""
    place, rows = places.place("duckdb"), random_rows(11)
    unit = Unit("id", max_rows=3, capped=True)
    first, _ = record(place, rows, unit, "count and mean", monkeypatch)
    second, _ = record(place, [*rows, *[(99, "N", 1.0, 1.0)] * 40], unit, "count and mean", monkeypatch)
    assert first == second and moved(place, unit, "count and mean", first, second) > 1


def test_the_recorder_notices_a_scale_that_follows_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: noise scaled by what is in the table."""
    honest = NoisySums.add

    def following(noise: NoisySums, sums: Any, block: int = 0) -> Any:
        wider = 1 + int(np.abs(np.asarray(sums, dtype=float)).sum() > 0)
        return honest(replace(noise, scales=tuple(wider * scale for scale in noise.scales)), sums, block)

    monkeypatch.setattr(NoisySums, "add", following)
    rows = random_rows(11)
    place = places.place("duckdb")
    first, _ = record(place, rows, Unit("id", max_rows=3), "count and mean", monkeypatch)
    second, _ = record(place, [], Unit("id", max_rows=3), "count and mean", monkeypatch)
    assert first.statements == second.statements and first.draws != second.draws


def test_every_draw_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw for each measure of the plan, in the plan's scale, and no other."""
    for name in ("people", "pair", "quantiles", "everything"):
        tape, _ = record(places.place("duckdb"), random_rows(1), Unit("id", max_rows=3), name, monkeypatch)
        asked = people.session_on([], Unit("id", max_rows=3))
        plan = asked.plan(question(name, grouped=True), epsilon=1, bounds=BOUNDS, keys={"region": REGIONS})
        assert [scale for _, scale, _ in tape.draws] == [share.scale for share in plan.shares]
        assert {law for law, _, _ in tape.draws} == {f"rounded_{plan.split.law}"}
