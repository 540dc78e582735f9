"""Measures added up where nothing is capped: with as few columns as they need.

A row that lacks a value has NULL in its column, which sums pass over; so the column of a sum also tells how many rows have the value and,
beside the count of all rows, how many lack it. A row is counted as lacking a value exactly where it adds nothing to its sum: that the two
exclude each other, which the price relies on (see `tacit.tables.measure`), holds by construction.

>>> from tacit.tables.measure import Interval, null_count, row_count, total
>>> x, present = exp.column("x"), exp.column("present")
>>> found = Tallies.of([row_count(), total("x", x, present, Interval(0, 100), centred=True), null_count("x", present)])
>>> [found.added(i, lambda name: exp.column(name)).sql() for i in range(3)]
['COUNT(*)', 'SUM(sum_1)', 'COUNT(*) - COUNT(sum_1)']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tacit.tables.measure import Measure, measure_name

ZERO, ONE = exp.Literal.number(0), exp.Literal.number(1)


@dataclass(frozen=True)
class Tallies:
    """The measures of a question with NULL for what is not there, and how each is added up: `counts` says of which column, if any,
    the rows with a value are counted; `lacking` that those without are wanted."""

    measures: tuple[Measure, ...]
    counts: tuple[int | None, ...]
    lacking: tuple[bool, ...]

    @staticmethod
    def of(measures: Sequence[Measure]) -> Tallies:
        """How to add up measures that all run over rows."""
        valued = {_condition(m).sql(): i for i, m in reversed(list(enumerate(measures))) if _adds_values(m)}
        found: list[tuple[Measure, int | None, bool]] = []
        for index, measure in enumerate(measures):
            if not isinstance(measure.integer, exp.Case) or not _simple(measure.integer):
                found.append((measure, None, False))
                continue
            then, other = _branches(measure.integer)
            lacking = (then, other) == (ZERO, ONE)
            if lacking or (then, other) == (ONE, ZERO):
                lender = valued.get(_condition(measure).sql())
                # Where a sum has the same condition its column is counted, and this one is not looked at.
                column = replace(measure, integer=_if(_condition(measure), ONE) if lender is None else ONE.copy())
                found.append((column, index if lender is None else lender, lacking))
            else:
                found.append((replace(measure, integer=_if(_condition(measure), then)) if other == ZERO else measure, None, False))
        columns, counts, lacking_ = zip(*found, strict=True)
        return Tallies(tuple(columns), tuple(counts), tuple(lacking_))

    @property
    def columns(self) -> tuple[int, ...]:
        """The measures whose columns are looked at."""
        summed = [i for i, counted in enumerate(self.counts) if counted is None and self.measures[i].integer != ONE]
        return tuple(sorted({*summed, *(counted for counted in self.counts if counted is not None)}))

    def added(self, index: int, column: Callable[[str], exp.Expression]) -> exp.Expression:
        """The sum of one measure over rows whose columns are named by `measure_name`."""
        everything = exp.Count(this=exp.Star())
        counted = self.counts[index]
        if counted is None:
            return everything if self.measures[index].integer == ONE else exp.Sum(this=column(measure_name(index)))
        present = exp.Count(this=column(measure_name(counted)))
        return exp.Sub(this=everything, expression=present) if self.lacking[index] else present


def _adds_values(measure: Measure) -> bool:
    """Whether a measure is 0 where a condition does not hold, and otherwise a rounded value, which is never NULL."""
    case = measure.integer
    if not isinstance(case, exp.Case) or not _simple(case):
        return False
    then, other = _branches(case)
    return other == ZERO and isinstance(then, exp.Cast) and isinstance(then.this, exp.Floor)


def whole(value: exp.Expression) -> bool:
    """Whether a value is a 64-bit integer as it is written: a cast to one, or nothing, by a condition.

    >>> whole(exp.cast(exp.column("x"), "BIGINT")), whole(exp.column("x"))
    (True, False)
    """
    if isinstance(value, exp.Case):
        return value.args.get("default") in (None, ZERO) and all(whole(branch.args["true"]) for branch in value.args["ifs"])
    return isinstance(value, exp.Cast) and bool(value.args["to"].this == exp.DataType.Type.BIGINT)


def _simple(case: exp.Case) -> bool:
    return len(case.args["ifs"]) == 1 and case.this is None


def _condition(measure: Measure) -> exp.Expression:
    found: exp.Expression = measure.integer.args["ifs"][0].this
    return found


def _branches(case: exp.Case) -> tuple[exp.Expression, exp.Expression | None]:
    return case.args["ifs"][0].args["true"], case.args.get("default")


def _if(condition: exp.Expression, value: exp.Expression) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
