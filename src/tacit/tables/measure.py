"""Measures: the whole numbers an engine adds up for us, and how far one unit can move all their sums together.

Each row becomes integers between public bounds, before any sum; a sum of integers is exact and does not depend on the order of rows.
A value that is NULL or NaN adds nothing. Values are centred in their bounds, which halves what one row can do.

What a row can do is bounded jointly. Measures have a *subject* (a value that a row has or lacks) and a *branch* of it, and a row is in one
branch: a row that lacks x adds to the count of NULLs of x, and then nothing to x's sum. So the count of NULLs is free beside the sum.

>>> from tacit.tables.unit import Unit
>>> unit = Unit("id", max_groups=4, rows_per_group=2)
>>> nulls, total = Measure("nulls", exp.Literal.number(1), 0, 1, subject="x", branch="null"), \\
...     Measure("sum", exp.Literal.number(1), -50, 50, subject="x", branch="value")
>>> joint_square([total], [Fraction(50)], unit, True), joint_square([nulls, total], [Fraction(1), Fraction(50)], unit, True)
(Fraction(16, 1), Fraction(16, 1))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from sqlglot import exp

from tacit.accounting import Adjacency
from tacit.noise import granularity_for
from tacit.tables.errors import TableError
from tacit.tables.ranks import Ladder
from tacit.tables.unit import Unit

#: Granules between the bounds of a column: fine enough that rounding is far below any noise, coarse enough that 2^33 rows fit into 64 bits.
FINENESS = 28
#: A row's integer stays below this: it has to fit into 64 bits with room. Sums do not: all engines add 64-bit integers up in wider ones.
LARGEST = 2**62
#: Bits of a floating-point number: a finer lattice than its last one tells nothing apart.
DIGITS = 52
#: Bounds closer than this cannot be told apart by the engines' numbers once they are scaled.
NARROWEST = Fraction(1, 2**900)

#: What a sum runs over: rows; people (each once in a group); different values; rows of each cell of a ladder; all rows of the question
#: before the caps (`seen`) and after them (`kept`), over all groups.
Over = Literal["rows", "people", "distinct", "cells", "seen", "kept"]


def measure_name(index: int) -> str:
    """The internal name of a question's measure, as a column of its statement."""
    return f"sum_{index}"


@dataclass(frozen=True)
class Measure:
    """A row's integer contribution: an expression with values in [low, high], each worth `granularity` of the column's unit.

    For `distinct` the expression is the value whose different values are counted, for `cells` the number of the row's cell (-1: none).
    """

    name: str
    integer: exp.Expression
    low: int
    high: int
    granularity: Fraction = Fraction(1)
    subject: str = ""
    branch: str = ""
    over: Over = "rows"
    ladder: Ladder | None = None

    @property
    def most(self) -> int:
        """The most that one row can add, up or down."""
        return max(abs(self.low), abs(self.high))

    @cached_property
    def square(self) -> int:
        """The greatest squared length of what one row adds."""
        return self.most**2 if self.ladder is None else self.ladder.totals.square()

    @cached_property
    def absolute(self) -> int:
        """The greatest absolute sum of what one row adds, as Laplace noise needs it."""
        return self.most if self.ladder is None else self.ladder.totals.absolute()

    @property
    def signed(self) -> bool:
        """Whether it can go both ways."""
        return self.low < 0 < self.high

    def square_of(self, unit: Unit, grouped: bool, multiplicity: int = 1) -> int:
        """The square of the most that one unit can move the vector of the groups' sums of this measure alone.

        An exchanged unit takes one vector away and adds another: |a - b|^2 <= |a|^2 + |b|^2 where both have one sign, else twice that.
        """
        reach = unit.reach(grouped, multiplicity)
        times = {"people": reach.groups, "seen": 1, "kept": 1}.get(self.over, reach.heaped)
        return times * self.square * (1 if not exchanged(unit) else 4 if self.signed else 2)

    def absolute_of(self, unit: Unit, grouped: bool, multiplicity: int = 1) -> int:
        """The most that one unit can move the sums of all groups, absolutely added."""
        reach = unit.reach(grouped, multiplicity)
        times = {"people": reach.groups, "seen": 1, "kept": 1}.get(self.over, reach.rows)
        return times * self.absolute * (2 if exchanged(unit) else 1)


def exchanged(unit: Unit) -> bool:
    """Whether neighbours differ by an exchange."""
    return unit.adjacency is Adjacency.REPLACE_ONE


def together(measures: Sequence[Measure], parts: Sequence[Fraction]) -> Fraction:
    """The sum of the parts, of which a row (or a person) causes those of one branch of each subject."""
    branches: dict[tuple[str, str], dict[str, Fraction]] = {}
    for place, (measure, part) in enumerate(zip(measures, parts, strict=True)):
        # Only a row's own measures exclude each other; a person may have rows in several branches.
        by_row = measure.over in ("rows", "distinct", "cells") and measure.subject
        subject = ("row", measure.subject) if by_row else ("own", str(place))
        found = branches.setdefault(subject, {})
        found[measure.branch] = found.get(measure.branch, Fraction(0)) + part
    return sum((max(found.values()) for found in branches.values()), Fraction(0))


def joint_square(
    measures: Sequence[Measure], sigmas: Sequence[Fraction], unit: Unit, grouped: bool, multiplicity: int = 1
) -> Fraction:
    """The squared distance that one unit can move all sums by, each measured in its noise's sigma.

    A unit's rows in one group add vectors, so their sum is at most their number times the longest row; that longest row is in one branch of
    every subject. For exchanged units see `Measure.square_of`: the weights 2 and 4 are inside the maximum.
    """
    return together(measures, [m.square_of(unit, grouped, multiplicity) / s**2 for m, s in zip(measures, sigmas, strict=True)])


def joint_absolute(
    measures: Sequence[Measure], scales: Sequence[Fraction], unit: Unit, grouped: bool, multiplicity: int = 1
) -> Fraction:
    """The absolute sum of all moves that one unit can cause, each measured in its noise's scale."""
    return together(measures, [Fraction(m.absolute_of(unit, grouped, multiplicity)) / s for m, s in zip(measures, scales, strict=True)])


# ---- the measures -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class Interval:
    """The public bounds of a value as the engines see them (floating point), the middle and the lattice between them.

    >>> Interval(0, 100).centre, Interval(0, 100).half
    (Fraction(50, 1), Fraction(50, 1))
    """

    lower: Fraction
    upper: Fraction

    def __init__(self, lower: Fraction | int | float, upper: Fraction | int | float) -> None:
        object.__setattr__(self, "lower", Fraction(float(lower)))
        object.__setattr__(self, "upper", Fraction(float(upper)))
        if self.lower < self.upper < self.lower + NARROWEST:
            raise TableError("bounds must be equal or at least 1e-270 apart; scale the column first")

    @cached_property
    def granularity(self) -> Fraction:
        return granularity_for(self.upper - self.lower, FINENESS) if self.upper > self.lower else Fraction(1)

    @cached_property
    def centre(self) -> Fraction:
        """The middle, as a floating-point number on the lattice where it has one."""
        middle = (self.lower + self.upper) / 2
        return Fraction(float(round(middle / self.granularity) * self.granularity))

    @cached_property
    def half(self) -> Fraction:
        """The greatest distance from the middle."""
        return max(self.upper - self.centre, self.centre - self.lower, Fraction(1, 2**1000))


def row_count() -> Measure:
    """One for each row."""
    return Measure("rows", exp.Literal.number(1), 0, 1)


def people_count(name: str) -> Measure:
    """One for each person in a group."""
    return Measure("people", exp.column(name, quoted=True), 0, 1, over="people")


def present_count(subject: str, present: exp.Expression) -> Measure:
    """One for each row that has the value."""
    return Measure(f"rows with {subject}", _where(present, exp.Literal.number(1)), 0, 1, subject=subject, branch="value")


def null_count(subject: str, present: exp.Expression) -> Measure:
    """One for each row that lacks the value."""
    absent = exp.Case(ifs=[exp.If(this=present.copy(), true=exp.Literal.number(0))], default=exp.Literal.number(1))
    return Measure(f"rows without {subject}", absent, 0, 1, subject=subject, branch="null")


def distinct_count(subject: str, value: exp.Expression, present: exp.Expression) -> Measure:
    """How many different values there are: a row can change that by one, whatever the others are."""
    kept = exp.Case(ifs=[exp.If(this=present.copy(), true=value.copy())])
    return Measure(f"different {subject}", kept, 0, 1, subject=subject, branch="value", over="distinct")


def total(subject: str, value: exp.Expression, present: exp.Expression, interval: Interval, *, centred: bool) -> Measure:
    """round((clamp(value) - centre) / granularity): a power of two scales exactly, so all engines round alike.

    Bounds far from zero, as (1e15, 1e15 + 1), need a coarser lattice where they are not centred: integers have 62 bits.
    """
    step, centre = interval.granularity, interval.centre if centred else Fraction(0)
    farthest = max(abs(interval.lower), abs(interval.upper))
    if not centred and farthest:
        step = max(step, granularity_for(farthest, DIGITS))
    moved = _minus(_clamped(value, interval), centre)
    low = round((interval.lower - centre) / step) - 1
    high = round((interval.upper - centre) / step) + 1
    name = f"sum of {subject}" + (f" - {float(centre):g}" if centre else "")
    return Measure(name, _where(present, _rounded(moved, 1 / step)), low, high, step, subject, "value")


def squares(subject: str, value: exp.Expression, present: exp.Expression, interval: Interval) -> Measure:
    """((value - centre) / half)^2 - 1/2, between -1/2 and 1/2."""
    unit = _unit(value, interval)
    moved = exp.Sub(this=exp.Mul(this=unit, expression=unit.copy()), expression=_literal(Fraction(1, 2)))
    most = 2 ** (FINENESS - 1) + 1
    whole = _where(present, _rounded(exp.Paren(this=moved), Fraction(2**FINENESS)))
    return Measure(f"squares of {subject}", whole, -most, most, Fraction(1, 2**FINENESS), subject, "value")


def products(
    subject: str, values: tuple[exp.Expression, exp.Expression], present: exp.Expression, intervals: tuple[Interval, Interval]
) -> Measure:
    """The product of two centred values in units of their halves, between -1 and 1."""
    first, second = (_unit(value, interval) for value, interval in zip(values, intervals, strict=True))
    most = 2**FINENESS + 1
    whole = _where(present, _rounded(exp.Paren(this=exp.Mul(this=first, expression=second)), Fraction(2**FINENESS)))
    return Measure(f"products of {subject}", whole, -most, most, Fraction(1, 2**FINENESS), subject, "value")


def cells(subject: str, value: exp.Expression, present: exp.Expression, interval: Interval, ladder: Ladder) -> Measure:
    """The number of the cell a value is in, -1 where there is none."""
    width = (ladder.upper - ladder.lower) / ladder.cells
    moved = _minus(_clamped(value, interval), ladder.lower)
    scaled = exp.Mul(this=moved, expression=_literal(1 / width)) if width else _literal(Fraction(0))
    place = exp.Least(this=exp.Floor(this=scaled), expressions=[_literal(Fraction(ladder.cells - 1))])
    whole = exp.Case(ifs=[exp.If(this=present.copy(), true=exp.cast(place, "BIGINT"))], default=exp.Literal.number(-1))
    return Measure(f"cells of {subject}", whole, 0, 1, Fraction(1), subject, "value", "cells", ladder)


def _where(present: exp.Expression, value: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=present.copy(), true=value)], default=exp.Literal.number(0))


def _clamped(value: exp.Expression, interval: Interval) -> exp.Expression:
    number = exp.cast(value.copy(), "DOUBLE")
    raised = exp.Greatest(this=number, expressions=[_literal(interval.lower)])
    return exp.Least(this=raised, expressions=[_literal(interval.upper)])


def _minus(value: exp.Expression, centre: Fraction) -> exp.Expression:
    return exp.Paren(this=exp.Sub(this=value, expression=_literal(centre)))


def _unit(value: exp.Expression, interval: Interval) -> exp.Expression:
    """(clamp(value) - centre) / half, between -1 and 1 in floating point too: a correctly rounded quotient does not exceed 1."""
    return exp.Paren(this=exp.Div(this=_minus(_clamped(value, interval), interval.centre), expression=_literal(interval.half)))


def _rounded(value: exp.Expression, times: Fraction) -> exp.Expression:
    scaled = exp.Add(this=exp.Mul(this=value, expression=_literal(times)), expression=_literal(Fraction(1, 2)))
    return exp.cast(exp.Floor(this=scaled), "BIGINT")


def _literal(value: Fraction) -> exp.Expression:
    """A public number, exactly as the engine's floating point will have it."""
    number = repr(float(abs(value)))
    literal = exp.Literal.number(number)
    return exp.cast(exp.Neg(this=literal) if value < 0 else literal, "DOUBLE")
