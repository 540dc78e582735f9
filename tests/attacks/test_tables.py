"""Attacks on questions about tables: one unit moves the integer sums no further than its price says, whatever its rows are.

Neighbours are made by brute force, run through the real statement in DuckDB, and measured in the noise of the plan: more than 1 is a leak.
Each defence is also taken away, and the same check must then find the leak.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables import people
from tests.tables.people import AGGREGATES, REGIONS, Row, engine_on, exact_sums, hostile_rows, loss_between, planned, question, random_rows

from tacit.accounting import Adjacency
from tacit.noise import test_mode
from tacit.tables import EngineError, Question, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.plan import Plan
from tacit.tables.released import Exact, integers, release
from tacit.tables.split import Spend

UNITS = {
    "rows": Unit("id", max_rows=4),
    "groups": Unit("id", max_groups=2, rows_per_group=2),
    "both": Unit("id", max_rows=5, max_groups=3, rows_per_group=2),
}
#: Nothing is capped, so nothing is packed: packing clamps a second time, and would hide a missing clamp.
DECLARED = Unit("id", max_rows=1, capped=True)
SPENDS = {"gaussian": Spend(epsilon=Fraction(1), delta=Fraction(1, 10**6)), "laplace": Spend(epsilon=Fraction(1))}


def exchanged(unit: Unit) -> Unit:
    return replace(unit, adjacency=Adjacency.REPLACE_ONE)


def worst(name: str, unit: Unit, grouped: bool, law: str, seed: int) -> float:
    """The greatest move over hostile neighbours of a random table, in the plan's noise."""
    rows, hostile = random_rows(seed), hostile_rows(seed, 99)
    engine = engine_on(rows)
    plan = planned(question(name, grouped=grouped), unit, engine, spend=SPENDS[law], law=law)
    start, others = rows, [[*rows, *hostile], [row for row in rows if row[0] != 0]]  # a person comes; the one with most rows leaves
    if unit.adjacency is Adjacency.REPLACE_ONE:
        start, others = [*rows, *hostile], [[*rows, *hostile_rows(seed + 1000, 98)]]  # a person becomes another one
    base = sums_on(plan, engine, start)
    return max(loss_between(plan, base, sums_on(plan, engine, other)) for other in others)


def sums_on(plan: Plan, engine: DuckDB, rows: list[Row]) -> Exact:
    engine.register(people.TABLE, people.table(rows))
    return exact_sums(plan, engine)


@pytest.mark.parametrize("law", SPENDS)
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "whole"])
@pytest.mark.parametrize("name", AGGREGATES)
def test_no_unit_moves_the_sums_further_than_its_price(name: str, grouped: bool, law: str) -> None:
    for seed, unit in list(enumerate(UNITS.values()))[0 if grouped else 2 :: 2]:
        assert worst(name, unit if (seed + grouped) % 2 else exchanged(unit), grouped, law, seed) <= 1


@pytest.mark.parametrize("law", SPENDS)
@pytest.mark.parametrize("name", ["count", "count and mean", "variance", "pair", "quantiles"])
def test_a_single_row_moves_the_sums_no_further_than_its_price(name: str, law: str) -> None:
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE):
        unit = Unit.row(adjacency)
        rows = random_rows(3)
        engine = engine_on(rows)
        plan = planned(question(name, grouped=True), unit, engine, spend=SPENDS[law], law=law)
        start = exact_sums(plan, engine)
        for extra in [(1, "N", 1e308, -1e308), (1, "S", float("nan"), None), (1, "N", 100.0, 30.0), (1, "N", 0.0, -7.0)]:
            other = [*rows, extra] if adjacency is Adjacency.ADD_REMOVE else [extra, *rows[1:]]
            assert loss_between(plan, start, exact_sums(plan, engine_on(other))) <= 1


def test_the_bound_is_reached() -> None:
    """Otherwise the check above could pass for a plan that wastes noise: a full contribution costs all that is paid for."""
    unit = Unit("id", max_groups=2, rows_per_group=2)
    engine = engine_on([])
    for name in ("count", "count and mean"):
        plan = planned(question(name, grouped=True), unit, engine, loss=False)
        full = [(1, region, 100.0, 0.0) for region in ("N", "S") for _ in range(2)]
        assert 0.999 < loss_between(plan, exact_sums(plan, engine), exact_sums(plan, engine_on(full))) <= 1


# ---- mutants: each defence taken away ---------------------------------------------------------------------------------------------------


def moved_by(plan_of: Any, rows: list[Row]) -> float:
    plan = plan_of(engine_on([]))
    return loss_between(plan, exact_sums(plan, engine_on([])), exact_sums(plan, engine_on(rows)))


def test_without_the_cap_the_check_fails() -> None:
    unit = Unit("id", max_rows=4)
    many = [(1, "N", 50.0, 0.0)] * 100

    def plan_of(engine: Any, mutant: bool = True) -> Any:
        plan = planned(question("count", grouped=True), unit, engine)
        return replace(plan, wanted=replace(plan.wanted, unit=replace(unit, capped=True))) if mutant else plan

    assert moved_by(lambda engine: plan_of(engine, False), many) <= 1 < moved_by(plan_of, many)


def test_without_the_clamp_the_check_fails() -> None:
    def plan_of(engine: Any, mutant: bool = True) -> Any:
        plan = planned(question("two means", grouped=False), DECLARED, engine)
        if not mutant:
            return plan

        def unclamped(node: exp.Expression) -> exp.Expression:
            return node.this.this if isinstance(node, exp.Least) else node

        measures = tuple(replace(m, integer=m.integer.transform(unclamped)) for m in plan.wanted.measures)
        return replace(plan, wanted=replace(plan.wanted, measures=measures))

    far = [(1, "N", 500.0, 900.0)]
    assert moved_by(lambda engine: plan_of(engine, False), far) <= 1 < moved_by(plan_of, far)


def test_without_the_centre_the_check_fails() -> None:
    def plan_of(engine: Any, mutant: bool = True) -> Any:
        plan = planned(question("count and mean", grouped=False), DECLARED, engine)
        if not mutant:
            return plan

        def uncentred(node: exp.Expression) -> exp.Expression:
            return node.this if isinstance(node, exp.Sub) else node

        measures = tuple(replace(m, integer=m.integer.transform(uncentred)) for m in plan.wanted.measures)
        return replace(plan, wanted=replace(plan.wanted, measures=measures))

    top = [(1, "N", 100.0, 0.0)]
    assert moved_by(lambda engine: plan_of(engine, False), top) <= 1 < moved_by(plan_of, top)


def test_an_exchange_needs_more_than_a_removal() -> None:
    """Noise for add/remove, neighbours by exchange: the check must notice."""
    unit = Unit("id", max_rows=1)
    plan = planned(question("two means", grouped=False), unit, engine_on([]), loss=False)
    one, other = exact_sums(plan, engine_on([(1, "N", 0.0, -7.0)])), exact_sums(plan, engine_on([(1, "N", 100.0, 30.0)]))
    right = planned(question("two means", grouped=False), exchanged(unit), engine_on([]), loss=False)
    assert loss_between(right, one, other) <= 1 < loss_between(plan, one, other)


# ---- keys -------------------------------------------------------------------------------------------------------------------------------


def test_empty_groups_have_noise_of_their_own() -> None:
    """595 empty groups that all say "14" tell which groups are empty (opendp#2344)."""
    keys = [f"k{i}" for i in range(400)]
    with test_mode(5):
        answer = people.session_on([], Unit("id", max_rows=3)).ask(question("count", grouped=True), epsilon=1, keys={"region": keys})
    assert shared(answer["n"]) is False
    assert shared(np.full(400, answer["n"][0]))  # the mutant: one draw for all of them


def shared(values: Any) -> bool:
    """Whether values repeat more than independent noise of a deviation of some units would."""
    return len(np.unique(values)) < 20


def test_a_key_of_one_person_does_not_appear() -> None:
    rows: list[Row] = [(i, "common", 1.0, 1.0) for i in range(500)] + [(7, "CANARY", 1.0, 1.0)]
    session = people.session_on(rows, Unit("id", max_groups=2, rows_per_group=1))
    for _ in range(5):
        answer = session.ask(question("count", grouped=True), epsilon=1)
        assert list(answer.keys["region"]) == ["common"]  # with delta 1e-6 the canary appears once in a million runs
        assert "CANARY" not in repr(answer)


def test_declared_keys_are_all_there_and_others_never() -> None:
    rows = random_rows(1)
    answer = people.session_on(rows, Unit("id", max_rows=3)).ask(question("count", grouped=True), epsilon=1, keys={"region": REGIONS})
    assert list(answer.keys["region"]) == REGIONS


# ---- what is said ------------------------------------------------------------------------------------------------------------------------

CANARY = "CANARY-7f3a"


class Broken:
    """An engine that fails with the data in its words."""

    dialect = "duckdb"

    def __init__(self, inner: Any, error: Exception) -> None:
        self.inner, self.error = inner, error

    def run(self, statement: exp.Expression) -> pa.Table:
        raise self.error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("error", [ValueError(CANARY), RuntimeError(CANARY), KeyError(CANARY)], ids=["value", "runtime", "key"])
def test_a_failure_says_nothing_of_the_data_and_stays_spent(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    session = people.session_on([(1, CANARY, 1.0, 1.0)], Unit("id", max_rows=3))
    before = session.left()["epsilon"]
    session.engine = Broken(session.engine, error)  # type: ignore[assignment]
    with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
        session.ask(question("count", grouped=True), epsilon=1, keys={"region": REGIONS})
    said = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert CANARY not in said
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert session.left()["epsilon"] <= before - Fraction(99, 100)


@pytest.mark.parametrize("rows", [[], random_rows(2), [(1, "N", float("nan"), float("inf"))] * 50], ids=["empty", "random", "nan"])
def test_every_aggregate_is_finite_on_every_table(rows: list[Row]) -> None:
    session = people.session_on(rows, Unit("id", max_rows=2))
    for grouped in (True, False):
        answer = session.ask(question("everything", grouped=grouped), epsilon=1, bounds=people.BOUNDS, keys={"region": REGIONS})
        for found in answer.figures.values():
            for part in (found.value, found.low, found.high):
                assert np.isfinite(part).all() and len(part) == (4 if grouped else 1)
            assert (found.low <= found.value).all() and (found.value <= found.high).all()


def test_a_person_with_a_hundred_thousand_rows_counts_like_any_other() -> None:
    unit = Unit("id", max_groups=2, rows_per_group=3)
    many = pa.concat_tables([people.table([(5, "N", 1e308, 3.0)])] * 1).take(pa.array(np.zeros(100_000, dtype=np.int64)))
    engine = engine_on([])
    plan = planned(question("count and mean", grouped=True), unit, engine)
    start = exact_sums(plan, engine)
    engine.register(people.TABLE, many)
    assert loss_between(plan, start, integers(engine.run(plan.statement(engine, 7)), plan)) <= 1


def test_noise_is_added_to_everything_that_is_released() -> None:
    """Two releases of the same integers differ in every measure, ladders and totals included."""
    engine = engine_on(random_rows(4))
    plan = planned(question("everything", grouped=True), Unit("id", max_rows=2), engine)
    exact: Exact = exact_sums(plan, engine)
    first, second = release(exact, plan), release(exact, plan)
    for one, other in zip(first.sums, second.sums, strict=True):
        assert one.shape == other.shape and (one != other).mean() > 0.5


def test_where_is_inside_its_parentheses() -> None:
    """A filter written as `a OR b` must not let rows without an owner in."""
    rows: list[Row] = [(None, "N", 50.0, 1.0)] * 40
    condition = exp.Or(this=exp.Boolean(this=True), expression=exp.Boolean(this=False))
    asked = Question(exp.to_table(people.TABLE), (), AGGREGATES["count"], condition)
    engine = engine_on(rows)
    plan = planned(asked, Unit("id", max_rows=2), engine, keys={})
    assert exact_sums(plan, engine).sums[0].tolist() == [0]
