"""Selection of keys: within the price, the canary hardly ever, the common keys nearly always."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from tests.tables.people import Row, engine_on, planned, question, session_on

from tacit.accounting import Adjacency, Guarantee, account
from tacit.mechanisms import GaussianSelection, LaplaceSelection, OptimalSelection
from tacit.noise import test_mode
from tacit.tables import Refused, Unit
from tacit.tables.plan import Plan
from tacit.tables.selection import _best

SPEND = Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6))

UNITS = [Unit("id", max_rows=1), Unit("id", max_groups=10, rows_per_group=2), Unit("id", max_rows=4, adjacency=Adjacency.REPLACE_ONE)]


def plan_of(unit: Unit, law: str | None = None, name: str = "count") -> Plan:
    return planned(question(name, grouped=True), unit, engine_on([]), spend=SPEND, keys={}, law=law)


@pytest.mark.parametrize("law", [None, "laplace", "gaussian"])
@pytest.mark.parametrize("unit", UNITS, ids=["one", "groups", "exchanged"])
def test_keys_and_figures_together_cost_the_price(unit: Unit, law: str | None) -> None:
    plan = plan_of(unit, law, "count and mean")
    assert 0.7 < account(plan.event, unit.adjacency).epsilon(1e-6).upper <= 1 + 1e-9
    assert plan.selection is not None and plan.selection.people_needed > 5


def test_a_key_of_one_person_appears_with_probability_delta() -> None:
    """Exactly, from the rule itself: at most delta for a person with one key, and for one with as many as the cap allows."""
    for unit in (Unit("id", max_rows=1), Unit("id", max_groups=10, rows_per_group=1)):
        plan = plan_of(unit)
        assert plan.selection is not None
        assert plan.selection.rule.chance(1) <= 1e-6


def test_common_keys_appear_and_rare_ones_do_not() -> None:
    rows: list[Row] = [(i, "flu", 1.0, 1.0) for i in range(2000)] + [(i, "gout", 1.0, 1.0) for i in range(2000)] + [(5, "rare", 1.0, 1.0)]
    session = session_on(rows, Unit("id", max_groups=2, rows_per_group=1))
    with test_mode(1):
        for name in ("count", "quantiles"):
            answer = session.ask(question(name, grouped=True), epsilon=1, bounds={"age": (0, 100), "cost": (0, 9)})
            assert list(answer.keys["region"]) == ["flu", "gout"]


def test_rows_as_units_cannot_select() -> None:
    with pytest.raises(Refused, match="person"):
        planned(question("count", grouped=True), Unit.row(), engine_on([]), spend=SPEND, keys={})


@pytest.mark.parametrize("groups", [1, 2, 3, 5, 8, 16, 40, 120])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.05", "1e-8"), ("0.25", "1e-6"), ("2", "1e-5")])
def test_no_rule_that_was_left_out_needs_fewer_people(groups: int, epsilon: str, delta: str) -> None:
    """Optimal composition for the optimal rule is slow to find; it would never have been the best by more than a rounding."""
    price = Fraction(epsilon), Fraction(delta)
    every = min(rule.for_budget(*price, groups).people_needed() for rule in (LaplaceSelection, GaussianSelection, OptimalSelection))
    assert _best(*price, groups).people_needed() <= every * 1.02


def test_rules_are_planned_quickly() -> None:
    """A tenth of a second of this process, for prices that were never asked for: 0.02 alone; the best of five, as machines are shared."""
    taken = []
    for step in range(5):
        start = time.process_time()
        _best(Fraction(1, 4) + Fraction(step, 1000), Fraction(1, 10**6), 1000)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.1
