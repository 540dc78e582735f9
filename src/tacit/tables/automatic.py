"""Bounds and caps found privately, for a price: noisy counts over public cells that double in width.

The cells are public and each row (or person) is in one of them, so this is an ordinary question: COUNT(*) by a public key. Bounds are the
outermost cells that stand out of the noise; a cap is where the wanted share of people stays below. Where nothing stands out, the whole
public range is returned, and says so.

>>> cap_from([500, 300, 150, 60, 0], 0.9, 1000, 20)
4
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from sqlglot import exp

from tacit.ledger import Account
from tacit.ledger.errors import BudgetExceeded
from tacit.ledger.pricing import price
from tacit.mechanisms import cell_edges
from tacit.tables.plan import Plan
from tacit.tables.question import Aggregate, Key, Question

#: Cells on either side of 0: values up to 2^40 in size are told apart.
CELLS = 40
#: The chance that a cell without rows passes for one with rows, over all cells.
BETA = 1e-3
#: What bounds are at most, where nothing stands out.
WIDEST = (-Fraction(2) ** CELLS, Fraction(2) ** CELLS)
CELL, COUNT, ROWS = "cell", "rows", "rows_"


def bounds_question(relation: exp.Expression, value: exp.Expression, where: exp.Expression | None) -> Question:
    """How many rows have a value in each cell."""
    number = exp.cast(value.copy(), "DOUBLE")
    return Question(relation, (Key(_cell(number), CELL),), (Aggregate("count", None, COUNT),), where)


def cap_question(relation: exp.Expression, person: str, where: exp.Expression | None) -> tuple[Question, list[int]]:
    """How many people have so many rows, in doubling cells; one line a person by construction, and the public cells."""
    column = exp.column(person, quoted=True)
    counted = exp.alias_(exp.Count(this=exp.Star()), ROWS, quoted=True)
    people = exp.Select(expressions=[column, counted]).from_(relation.copy(), copy=False)
    if where is not None:
        people = people.where(where.copy(), copy=False)
    people.set("group", exp.Group(expressions=[column.copy()]))
    inner = exp.Subquery(this=people, alias=exp.TableAlias(this=exp.to_identifier("people_", quoted=True)))
    key = Key(_cell(exp.cast(exp.column(ROWS, quoted=True), "DOUBLE")), CELL)
    return Question(inner, (key,), (Aggregate("count", None, COUNT),)), list(range(CELLS + 1))


def _cell(number: exp.Expression) -> exp.Expression:
    """The cell of a number: comparisons only, so that no engine can fail on it; NULL and NaN are in none that is listed."""
    ifs = [exp.If(this=_between(number, -1, 1), true=exp.Literal.number(0))]
    for power in range(1, CELLS + 1):
        last = power == CELLS
        for sign in (1, -1):
            ends = (2.0 ** (power - 1), sys.float_info.max if last else 2.0**power)
            low, high = ends if sign > 0 else (-ends[1], -ends[0])
            ifs.append(exp.If(this=_between(number, low, high), true=_signed(sign * power)))
    return exp.cast(exp.Case(ifs=ifs), "BIGINT")


def _between(number: exp.Expression, low: float, high: float) -> exp.Expression:
    return exp.Between(this=number.copy(), low=exp.cast(_signed(low), "DOUBLE"), high=exp.cast(_signed(high), "DOUBLE"))


def _signed(value: float) -> exp.Expression:
    literal = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=literal) if value < 0 else literal


def afford(account: Account, planned: Sequence[Plan], period: str | None = None) -> None:
    """Refuse several questions that do not fit together into what is left, before the first of them is paid."""
    left, limits = account.left(period), tuple(account.budget.limits)
    charges = [price(plan.event, limits, plan.unit.adjacency, delta=plan.spend.delta or None) for plan in planned]
    asked = {name: sum((charge[name] for charge in charges), Fraction(0)) for name in limits}
    short = [name for name in limits if name in left and asked[name] > left[name]]
    if short:
        shown = f"{short[0]} {float(asked[short[0]]):g}, and {float(left[short[0]]):g} is left"
        raise BudgetExceeded(
            f"the question and the bounds and caps to be found for it cost {shown}; nothing was spent. Declare them, or ask for less",
            account=account.name,
            left=left,
            asked=asked,
            fits="bounds and caps that are declared cost nothing",
        )


def cap_from(counts: Sequence[float], share: float, most: int, threshold: float) -> int:
    """The least cell's end that so large a share of people does not exceed; cells that do not stand out count as empty.

    >>> cap_from([500, 300, 150, 60, 0], 0.9, 1000, 20)
    4
    """
    kept = [count if count > threshold else 0.0 for count in counts]
    running = np.cumsum(kept)
    if not running[-1] > 0:
        return 1
    place = int(np.argmax(running >= share * running[-1]))
    return max(1, min(most, int(cell_edges(place)[1])))
