"""Selection of keys: within the price, the canary hardly ever, the common keys nearly always."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.tables.people import Row, engine_on, planned, question, session_on

from tacit.accounting import Adjacency, account
from tacit.noise import test_mode
from tacit.tables import Refused, Unit
from tacit.tables.plan import Plan
from tacit.tables.split import Spend

SPEND = Spend(epsilon=Fraction(1), delta=Fraction(1, 10**6))

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
