"""Prices and plans in words, before anything is spent: no data is touched here.

The errors are half the widths of the intervals to come, for a group with a public guess of rows. They cover the noise; how much clamping
and capping cut off depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import Bound, Event, account
from tacit.exact import at_most, exact
from tacit.tables.errors import TableError
from tacit.tables.figures import expected
from tacit.tables.plan import Plan, multiplicity_of
from tacit.tables.relation import Relation

#: A price for an accuracy is found to this share of itself.
FINE = Fraction(1, 200)


@dataclass(frozen=True)
class Price:
    """What a question would cost, and how far each figure would be off at most, with the confidence, in a group of so many rows."""

    spend: str
    event: Event
    cost: Bound
    delta: float
    errors: Mapping[str, float]
    rows: int
    confidence: float

    @property
    def epsilon(self) -> float:
        """The certified epsilon of the whole question at its delta."""
        return self.cost.upper

    def __str__(self) -> str:
        errors = ", ".join(f"{name} within {error:.4g}" for name, error in self.errors.items())
        at = f" at delta {self.delta:g}" if self.delta else ""
        return f"costs epsilon {self.epsilon:.6g}{at}; with {self.confidence:.0%} confidence in a group of {self.rows} rows: {errors}"


def priced(plan: Plan, rows: int, confidence: float) -> Price:
    """The price of a plan."""
    delta = plan.spend.delta if plan.spend.epsilon is not None else Fraction(1, 10**6)
    cost = account(plan.event, plan.unit.adjacency).epsilon(at_most(delta))
    return Price(plan.spend.words, plan.event, cost, float(delta), expected(plan, rows, confidence), rows, confidence)


def price_for_accuracy(planned: Callable[[Fraction], Plan], wanted: Mapping[str, Any], rows: int, confidence: float) -> Plan:
    """The cheapest plan, to half a percent, whose figures are within the wanted errors; the price found is never too low."""
    if not isinstance(wanted, Mapping) or not wanted:
        raise TableError("accuracy names figures and their errors: accuracy={'n': 50}")
    goals = {name: exact(f"accuracy[{name!r}]", value) for name, value in wanted.items()}
    if any(goal <= 0 for goal in goals.values()):
        raise TableError("accuracy must be greater than 0: noise there will be")

    def good(plan: Plan) -> bool:
        errors = expected(plan, rows, confidence)
        unknown = [name for name in goals if name not in errors]
        if unknown:
            raise TableError(f"accuracy names {unknown[0]!r}, which is no figure of the question; there are {', '.join(errors)}")
        return all(errors[name] <= goal for name, goal in goals.items())

    low, high = Fraction(0), Fraction(1)
    best = planned(high)
    while not good(best):
        low, high = high, high * 2
        if high > 2**12:
            raise TableError("this accuracy costs more than any meaningful budget; ask for less, or tighten bounds and caps")
        best = planned(high)
    while low == 0 or high - low > FINE * high:
        middle = high / 4 if low == 0 else (low + high) / 2
        plan = planned(middle)
        if good(plan):
            best, high = plan, middle
        else:
            low = middle
        if high < Fraction(1, 2**30):
            break
    return best


def explained(plan: Plan, text: str, rows: int, confidence: float) -> str:
    """The plan in words, with the statement."""
    price = priced(plan, rows, confidence)
    unit, grouped = plan.unit, plan.question.grouped
    reach = unit.reach(grouped, multiplicity_of(plan.question))
    lines = [f"unit: {unit!r}, neighbours by {unit.adjacency.value}"]
    lines += [f"   {step}" for step in (plan.question.relation.steps if isinstance(plan.question.relation, Relation) else ())]
    if unit.person is None and unit.ends is not None:
        lines.append(f"1. caps: declared to hold already; one node touches at most {reach.rows} rows, at either end")
    elif unit.person is None:
        lines.append("1. rows: each is its own unit; one changes")
    elif unit.capped:
        lines.append(f"1. caps: declared to hold already; one unit has at most {reach.rows} rows")
    else:
        lines.append(f"1. caps: at most {reach.rows} rows of one unit in {reach.groups} groups are kept, chosen at random among its own")
    where = "kept where the filter is true, " if plan.question.where is not None else ""
    keys = f"{plan.keys.count} declared groups" if plan.keys.lists else "one group" if not grouped else "groups"
    chance = f"(an even chance with {plan.selection.people_needed} people)" if plan.selection else ""
    private = f", of which those that pass the selection appear {chance}" if plan.selection else ""
    lines.append(f"2. rows are {where}clamped, rounded to integers and added up in {keys}{private}")
    lines.append(f"3. noise: {plan.split.law}, together {plan.event!r}")
    for share in plan.shares:
        change = share.measure.most * float(share.measure.granularity)
        part = f"{float(share.part):.3g} of the budget"
        lines.append(f"   {share.measure.name}: a row adds at most {change:.6g}; deviation {share.deviation:.6g}; {part}")
    lines.append(f"4. {price}")
    return "\n".join([*lines, "statement:", text])
