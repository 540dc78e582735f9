"""How far caps and bounds take figures from the truth, estimated from what was released. Bias is said beside
a figure as noise is.

An interval covers the noise. It says nothing about rows that a cap left out or values that a bound cut,
because these are properties of the data. Two released numbers tell about them: the share of rows that the
caps left out, and how many values lay beyond their bounds. From these follow a range in which the truth lies
beside the figure, and the *total* interval: noise plus that range.

**What is assumed.** Every group lost about the same share of its rows; few people have many times the cap
(`past_reach`); lost rows may have any value between the bounds; and values beyond their bounds are beyond by
at most as much as the bounds are wide. This is an estimate, not a guarantee: of privacy it takes nothing. A
loss that the noise hides is not taken for none: the total interval then reaches as far as the rows before the
caps allow.

>>> import numpy as np
>>> counted = of_count(Figures(np.array([5166.0]), np.array([5092.0]), np.array([5240.0])), Lost(0.53, 0.52, 0.54))
>>> np.round(counted.high).tolist(), np.round(counted.sure).tolist()
([6383.0], [5825.0])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.mechanisms import half_width
from tacit.tables.answer import Bias, Figures, Floats
from tacit.tables.plan import Linear, Plan, Recipe

#: A loss that is nearly everything is taken for this share, so that what is divided by the rest stays finite.
MOST_LOST = 0.99


@dataclass(frozen=True)
class Lost:
    """The share of rows that something took, as it was released: the estimate, and an interval that holds it
    with the confidence. `rows` is how many rows there are at most, before anything was taken.
    """

    share: float
    low: float
    high: float
    rows: float = math.inf

    @property
    def known(self) -> bool:
        """Whether the noise leaves anything to be said."""
        return self.high - self.low <= 0.9


NOTHING = Lost(0.0, 0.0, 0.0)


def past_reach(lost: Lost, reach: float) -> Lost:
    """A loss whose upper end allows for people with more rows than were counted of them, `reach` times the cap.

    What the caps cut is E[(X - cap)+] for X rows of one person, and what was counted of it ends at `reach` caps. Under a tail of Pareto's
    law with index 2, which has no variance and is heavier than those of most tables, a part 1 / reach of it lies beyond, so the
    counted part is multiplied by reach / (reach - 1).

    >>> past_reach(Lost(0.5, 0.4, 0.6, rows=100.0), 4)
    Lost(share=0.5, low=0.4, high=0.6666666666666666, rows=120.0)
    """
    if reach <= 1:
        return lost
    more = 1 + lost.high / (reach - 1)
    return Lost(lost.share, lost.low, 1 - (1 - lost.high) / more, lost.rows * more)


def both_ways(measured: Lost | None, declared: Lost | None) -> Lost | None:
    """One estimate of two: what both intervals allow; where they exclude each other, the larger loss, because
    a measured one does not see people with very many rows.

    >>> both_ways(Lost(0.1, 0.0, 0.3, rows=900), Lost(0.05, 0.0, 0.15))
    Lost(share=0.1, low=0.0, high=0.15, rows=900)
    """
    if measured is None or declared is None:
        return declared if measured is None else measured
    low, high = max(measured.low, declared.low), min(measured.high, declared.high)
    if low > high:
        return max(measured, declared, key=lambda lost: lost.share)
    return Lost(min(high, max(low, measured.share)), low, high, min(measured.rows, declared.rows))


def of_count(
    found: Figures, lost: Lost, *, upwards: bool = True, rows: Floats | None = None, heaped: int = 1, each: float = 1.0
) -> Bias:
    """What is missing from a count, or from a sum of values of one sign: a share of the rows is, so about as much of the sum.

    Which rows the caps keep is chosen at random, so that a group may lose more than its share: by two deviations of a
    binomial draw of its `rows`, of which as many as are `heaped` in one unit are kept or lost together. No group has more than
    all rows that there are, with at most `each` in a row.
    """
    most, about = min(lost.high, MOST_LOST), min(lost.share, MOST_LOST) if lost.low > 0 else 0.0
    end = np.maximum(found.high if upwards else -found.low, 0.0)
    many = np.maximum(end if rows is None else rows, 1.0)
    chance = 2 * np.sqrt(most * heaped / many)
    size = end * (most + np.where(most > 0, chance, 0.0)) / (1 - most)
    size = np.minimum(size, np.maximum(lost.rows * each - end, 0.0))
    sure = np.maximum(found.value if upwards else -found.value, 0.0) * about / (1 - about)
    nothing = np.zeros_like(found.value)
    return Bias(nothing, size, sure) if upwards else Bias(-size, nothing, sure)


def of_mean(found: Figures, lost: Lost, low: float, high: float) -> Bias:
    """A mean of what the caps left: that of all rows lies between it and what the lost rows, whatever they
    were, would make of it.
    """
    share = min(lost.high, 1.0)
    nothing = np.zeros_like(found.value)
    return Bias(
        np.minimum(share * (low - found.high), 0.0), np.maximum(share * (high - found.low), 0.0), nothing
    )


def of_bounds(rows: Floats | float, beyond: Lost, width: float) -> Bias:
    """What values beyond the bounds add or take, if each is beyond by as much as the bounds are wide; surely,
    none at all.
    """
    size = np.asarray(beyond.high * width * np.maximum(rows, 0.0), dtype=np.float64)
    typical = np.asarray(beyond.low * width / 2 * np.maximum(rows, 0.0), dtype=np.float64)
    return Bias(-size, size, typical)


def biases(
    plan: Plan, sums: Sequence[Floats], found: Mapping[str, Figures], lost: Lost | None, confidence: float
) -> dict[str, Bias]:
    """The bias of every figure that an estimate is known for. `sums` are the noisy sums in granules."""
    values = [
        np.asarray(row, dtype=float) * share.granule for share, row in zip(plan.shares, sums, strict=True)
    ]
    groups = len(next(iter(found.values())).value) if found else 0
    made: dict[str, Bias] = {}
    for recipe in plan.recipes:
        name = recipe.aggregate.name
        if name in found:
            bias = _of(recipe, plan, found[name], NOTHING if lost is None else lost, values)
            if bias is not None:
                made[name] = _with_bounds(plan, recipe, bias, values, groups, confidence)
    return made


def _of(recipe: Recipe, plan: Plan, found: Figures, lost: Lost, values: Sequence[Floats]) -> Bias | None:
    """What the caps take from one figure."""
    kind = recipe.aggregate.kind
    grouped = bool(plan.question.keys)
    heaped = plan.unit.spread(grouped)[1]
    if kind == "count_person" and not grouped:
        lost = NOTHING  # whoever has a row has one left
    if kind in ("count", "count_value", "count_person"):
        return of_count(found, lost, heaped=heaped)
    if not recipe.intervals:
        return None
    low, high = float(recipe.intervals[0].lower), float(recipe.intervals[0].upper)
    if kind == "sum" and (low >= 0 or high <= 0):
        # Values differ, so that a sum varies more than a count; twice the rows together allow for it.
        each = max(abs(low), abs(high))
        return of_count(found, lost, upwards=low >= 0, rows=_rows(plan, recipe, values), heaped=2 * heaped, each=each)
    if kind == "avg":
        return of_mean(found, lost, low, high)
    if recipe.kind == "quantile":
        wide = min(1.0, 10 * lost.high)
        nothing = np.zeros_like(found.value)
        return Bias(
            np.minimum(wide * (low - found.high), 0.0), np.maximum(wide * (high - found.low), 0.0), nothing
        )
    return None


def _with_bounds(
    plan: Plan, recipe: Recipe, bias: Bias, values: Sequence[Floats], groups: int, confidence: float
) -> Bias:
    """The same with what lies beyond the bounds, where that was counted."""
    place = dict(plan.beyond).get(recipe.aggregate.name)
    if place is None:
        return bias
    share = plan.shares[place]
    counted, wide = float(np.sum(values[place])), float(half_width([share.spread], share.law, confidence)[0])
    rows = _rows(plan, recipe, values)
    whole = max(float(np.sum(rows)), 1.0)
    ends = [min(1.0, max(0.0, end / whole)) for end in (counted, counted - wide, counted + wide)]
    width = float(recipe.intervals[0].upper - recipe.intervals[0].lower)
    per = rows if recipe.aggregate.kind == "sum" else np.ones(groups)
    other = of_bounds(per, Lost(*ends), width)
    return Bias(
        bias.low + other.low, bias.high + other.high, np.maximum(bias.sure, other.sure), bias.why + other.why
    )


def _rows(plan: Plan, recipe: Recipe, values: Sequence[Floats]) -> Floats:
    """About how many rows each group has: by a count that was asked for, or an even part of the rows that the
    caps left.
    """
    count: Linear = recipe.count
    if not count:
        rows = next((i for i, share in enumerate(plan.shares) if share.measure.name == "rows"), None)
        count = () if rows is None else ((rows, 1.0),)
    if count:
        found = np.zeros_like(values[count[0][0]])
        for index, factor in count:
            found = found + factor * values[index]
        return np.maximum(found, 0.0)
    kept = float(np.sum(values[plan.loss.kept])) if plan.loss is not None else 0.0
    groups = plan.keys.count if plan.keys.lists else 1
    return np.full(groups, max(kept, 0.0) / max(groups, 1))
