"""Plans: shared parts are measured once, the price is kept, demands follow weights, and what cannot be bounded is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.tables.people import AGE, AGGREGATES, BOUNDS, COST, REGIONS, engine_on, planned, question

from tacit.accounting import Composed, Guarantee, account
from tacit.tables import Aggregate, Question, Refused, TableError, Unit
from tacit.tables.plan import LOSS_PARTS, multiplicity_of, types_of
from tacit.tables.statement import rows_of
from tacit.tables.statistics import interval_of

UNIT = Unit("id", max_rows=3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "spend", [Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6)), Guarantee(epsilon=Fraction(1))], ids=["approximate", "pure"]
)
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "whole"])
@pytest.mark.parametrize("name", AGGREGATES)
def test_every_plan_keeps_its_price_and_uses_it(name: str, grouped: bool, spend: Guarantee) -> None:
    plan = planned(question(name, grouped=grouped), UNIT, engine_on([]), spend=spend)
    cost = account(plan.event).epsilon(float(spend.delta)).upper
    assert 0.99 < cost <= 1
    assert {share.law for share in plan.shares} == {plan.split.law} and plan.spend == spend


def test_a_count_serves_the_mean_beside_it() -> None:
    """COUNT and AVG: rows, the sum, and NULLs, which cost nothing because a row that lacks x adds nothing to its sum."""
    names = [m.name for m in planned(question("count and mean", grouped=True), UNIT, engine_on([]), loss=False).wanted.measures]
    assert len(names) == len(set(names)) == 3 and names[0] == "rows" and any("without" in name for name in names)
    alone = planned(question("count", grouped=True), UNIT, engine_on([]), loss=False)
    assert [m.name for m in alone.wanted.measures] == ["rows"]


def test_equal_figures_get_equal_parts_and_weights_move_them() -> None:
    asked = Question(rows_of(question("count", grouped=False)), (), (Aggregate("sum", AGE, "a"), Aggregate("sum", COST, "c")))
    even = planned(asked, UNIT, engine_on([]), loss=False)
    assert [share.part for share in even.shares] == [Fraction(1, 2)] * 2
    heavy = planned(asked, UNIT, engine_on([]), loss=False, weights={"a": 3})
    assert [share.part for share in heavy.shares] == [Fraction(3, 4), Fraction(1, 4)]
    assert heavy.shares[0].deviation < even.shares[0].deviation < heavy.shares[1].deviation * 40


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_loss_takes_its_part_under_each_law(law: str) -> None:
    plan = planned(question("sum", grouped=False), UNIT, engine_on([]), law=law)
    assert plan.loss is not None
    parts = sum(plan.shares[i].part for i in {plan.loss.seen, plan.loss.kept})
    assert parts == LOSS_PARTS[law]


def test_the_better_law_is_taken() -> None:
    """One count at epsilon 1: Laplace. Ten groups that a person may all be in: Gaussian, whose noise grows with the root of ten."""
    spend = Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert planned(question("count", grouped=False), Unit("id", max_rows=1), engine_on([]), spend=spend).split.law == "laplace"
    spread = Unit("id", max_groups=60, rows_per_group=1)
    listed = {"region": [f"region {number}" for number in range(60)]}
    assert planned(question("count", grouped=True), spread, engine_on([]), spend=spend, keys=listed).split.law == "gaussian"
    assert planned(question("count", grouped=True), spread, engine_on([]), spend=spend).split.law == "laplace", "two groups are declared"


def test_private_keys_compose_a_selection_with_the_figures() -> None:
    plan = planned(question("count", grouped=True), UNIT, engine_on([]), keys={})
    assert plan.selection is not None and isinstance(plan.event, Composed) and plan.wanted.people
    assert account(plan.event).epsilon(1e-6).upper <= 1


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("sum", {"weights": {"nothing": 1}}, "no aggregate of the question"),
        ("sum", {"weights": {"s": 0}}, "greater than 0"),
        ("sum", {"law": "uniform"}, "noise must be"),
    ],
)
def test_settings_that_mean_nothing_are_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TableError, match=said):
        planned(question(name, grouped=False), UNIT, engine_on([]), **settings)


def test_a_value_without_bounds_is_refused_with_what_to_declare() -> None:
    from sqlglot import parse_one

    asked = Question(rows_of(question("count", grouped=False)), (), (Aggregate("sum", parse_one("id * 1.5"), "s"),))
    with pytest.raises(Refused, match=r"has no bounds.*bounds="):
        planned(asked, UNIT, engine_on([]))


@pytest.mark.parametrize("wrong", [(1,), (5, 1), ("x", 2), (0, 1e301), (0, float("nan")), None, 7], ids=str)
def test_bounds_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(TableError, match="bounds of age"):
        interval_of("age", wrong)


def test_types_are_public_and_multiplicity_is_known() -> None:
    asked = question("everything", grouped=True)
    found = types_of(asked, engine_on([]))
    assert set(found.values()) == {"VARCHAR", "DOUBLE", "BIGINT"} and multiplicity_of(asked) == 1
    with pytest.raises(TableError, match="no such table or column"):
        types_of(Question(asked.relation, (), (Aggregate("sum", parse_column("missing"), "s"),)), engine_on([]))


def parse_column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(name, quoted=True)


def test_a_plan_touches_no_rows() -> None:
    """The same plan on an empty table and on a full one."""
    from tests.tables.people import random_rows

    for name in ("everything", "pair"):
        one, other = (planned(question(name, grouped=True), UNIT, engine_on(rows)) for rows in ([], random_rows(3)))
        assert one == other and one.keys.count == len(REGIONS) and set(BOUNDS) == {"age", "cost"}
