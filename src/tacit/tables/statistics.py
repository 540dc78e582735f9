r"""The whole numbers that a question adds up, how far one unit can move them, and the noise they get.

A `Statistic` is what one row adds to a sum. `joint_square` and `joint_absolute` bound what one unit can do to all sums of a
question together, and `split` shares the question's budget among them and picks Laplace or Gaussian noise.

**The split.** Each statistic has a demand; demands become shares of the budget, and the question as a whole is one
Gaussian event (the squared distances of `tacit.tables.statistics.joint_square`, in units of each statistic's sigma,
add up) or one Laplace event (`joint_absolute`). A statistic that excludes others in every row takes the same share as
they do, for nothing. The law with the smaller error, weighted by the shares, is taken.

>>> from tacit.tables.statistics import row_count
>>> from tacit.tables.unit import Unit
>>> found = split([row_count()], [Fraction(1)], Unit("id", max_rows=3).reach(False), Guarantee(epsilon="1/2"))
>>> found.event, found.shares[0].scale
(Laplace(noise_multiplier=Fraction(2, 1)), Fraction(6, 1))

**The reach.** Each row becomes integers between public bounds, before any sum; a sum of integers is exact and does
not depend on the order of rows. A value that is NULL or NaN adds nothing. Values are centred in their bounds, which
halves what one row can do.

What a row can do is bounded jointly. Statistics have a *subject* (a value that a row has or lacks) and a *branch* of
it, and a row is in one branch: a row that lacks x adds to the count of NULLs of x, and then nothing to x's sum. So
the count of NULLs is free beside the sum.

>>> reach = Unit("id", max_groups=4, rows_per_group=2).reach(True)
>>> nulls, total = Statistic("nulls", exp.Literal.number(1), 0, 1, subject="x", branch="null"), \
...     Statistic("sum", exp.Literal.number(1), -50, 50, subject="x", branch="value")
>>> joint_square([total], [Fraction(50)], reach), joint_square([nulls, total], [Fraction(1), Fraction(50)], reach)
(Fraction(16, 1), Fraction(16, 1))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from sqlglot import exp

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.exact import at_most, exact, root
from tacit.mechanisms import Law, NoisySums
from tacit.noise import granularity_for
from tacit.tables.errors import TableError
from tacit.tables.ranks import CellLadder
from tacit.tables.unit import Reach

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
class Statistic:
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
    ladder: CellLadder | None = None
    #: The most granules that all rows of one unit add up to before they are rounded, where that is less than their number times `most`.
    shared: int | None = None

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

    def square_of(self, reach: Reach) -> int:
        """The square of the most that one unit can move the vector of the groups' sums of this measure alone.

        An exchanged unit takes one vector away and adds another: |a - b|^2 <= |a|^2 + |b|^2 where both have one sign, else twice that.
        """
        times = {"people": reach.groups, "seen": 1, "kept": 1}.get(self.over, reach.heaped)
        alone = times * self.square
        if self.shared is not None:
            alone = min(alone, (self.shared + reach.rows) ** 2)
        return alone * (1 if not reach.exchanged else 4 if self.signed else 2)

    def absolute_of(self, reach: Reach) -> int:
        """The most that one unit can move the sums of all groups, absolutely added."""
        times = {"people": reach.groups, "seen": 1, "kept": 1}.get(self.over, reach.rows)
        alone = times * self.absolute
        if self.shared is not None:
            alone = min(alone, self.shared + reach.rows)  # rounding moves each row by less than a granule
        return alone * (2 if reach.exchanged else 1)


def together(measures: Sequence[Statistic], parts: Sequence[Fraction]) -> Fraction:
    """The sum of the parts, of which a row (or a person) causes those of one branch of each subject."""
    branches: dict[tuple[str, str], dict[str, Fraction]] = {}
    for place, (measure, part) in enumerate(zip(measures, parts, strict=True)):
        # Only a row's own measures exclude each other; a person may have rows in several branches. What a person's rows share is no row's.
        by_row = measure.over in ("rows", "distinct", "cells") and measure.subject and measure.shared is None
        subject = ("row", measure.subject) if by_row else ("own", str(place))
        found = branches.setdefault(subject, {})
        found[measure.branch] = found.get(measure.branch, Fraction(0)) + part
    return sum((max(found.values()) for found in branches.values()), Fraction(0))


def joint_square(measures: Sequence[Statistic], sigmas: Sequence[Fraction], reach: Reach) -> Fraction:
    """The squared distance that one unit can move all sums by, each measured in its noise's sigma.

    A unit's rows in one group add vectors, so their sum is at most their number times the longest row; that longest row is in one branch of
    every subject. For exchanged units see `Statistic.square_of`: the weights 2 and 4 are inside the maximum.
    """
    return together(measures, [m.square_of(reach) / s**2 for m, s in zip(measures, sigmas, strict=True)])


def joint_absolute(measures: Sequence[Statistic], scales: Sequence[Fraction], reach: Reach) -> Fraction:
    """The absolute sum of all moves that one unit can cause, each measured in its noise's scale."""
    return together(measures, [Fraction(m.absolute_of(reach)) / s for m, s in zip(measures, scales, strict=True)])


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
        if self.upper > self.lower:
            return granularity_for(self.upper - self.lower, FINENESS)
        # A constant: on a lattice of whole numbers 0.5 would be 1.
        return granularity_for(abs(self.lower), FINENESS) if self.lower else Fraction(1)

    @cached_property
    def centre(self) -> Fraction:
        """The middle, as a floating-point number on the lattice where it has one."""
        middle = (self.lower + self.upper) / 2
        return Fraction(float(round(middle / self.granularity) * self.granularity))

    @cached_property
    def half(self) -> Fraction:
        """The greatest distance from the middle."""
        return max(self.upper - self.centre, self.centre - self.lower, Fraction(1, 2**1000))


def interval_of(name: str, declared: Any) -> Interval:
    """Declared bounds as an interval, or an error that says what bounds look like."""
    try:
        low, high = declared
        ends = exact("lower bound", low), exact("upper bound", high)
    except (TypeError, ValueError):
        raise TableError(f"the bounds of {name} must be two finite numbers, such as (0, 100)") from None
    if ends[0] > ends[1]:
        raise TableError(f"the bounds of {name} must be (lower, upper), and {low} > {high}; swap them")
    if max(abs(end) for end in ends) > 10**300:
        raise TableError(f"the bounds of {name} must lie within 1e300 of zero")
    return Interval(*ends)


def row_count() -> Statistic:
    """One for each row."""
    return Statistic("rows", exp.Literal.number(1), 0, 1)


def people_count(name: str) -> Statistic:
    """One for each person in a group."""
    return Statistic("people", exp.column(name, quoted=True), 0, 1, over="people")


def present_count(subject: str, present: exp.Expression) -> Statistic:
    """One for each row that has the value."""
    return Statistic(f"rows with {subject}", _where(present, exp.Literal.number(1)), 0, 1, subject=subject, branch="value")


def null_count(subject: str, present: exp.Expression) -> Statistic:
    """One for each row that lacks the value."""
    absent = exp.Case(ifs=[exp.If(this=present.copy(), true=exp.Literal.number(0))], default=exp.Literal.number(1))
    return Statistic(f"rows without {subject}", absent, 0, 1, subject=subject, branch="null")


def distinct_count(subject: str, value: exp.Expression, present: exp.Expression) -> Statistic:
    """How many different values there are: a row can change that by one, whatever the others are."""
    kept = exp.Case(ifs=[exp.If(this=present.copy(), true=value.copy())])
    return Statistic(f"different {subject}", kept, 0, 1, subject=subject, branch="value", over="distinct")


def total(subject: str, value: exp.Expression, present: exp.Expression, interval: Interval, *, centred: bool) -> Statistic:
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
    return Statistic(name, _where(present, _rounded(moved, 1 / step)), low, high, step, subject, "value")


def squares(subject: str, value: exp.Expression, present: exp.Expression, interval: Interval) -> Statistic:
    """((value - centre) / half)^2 - 1/2, between -1/2 and 1/2."""
    unit = _unit(value, interval)
    moved = exp.Sub(this=exp.Mul(this=unit, expression=unit.copy()), expression=_literal(Fraction(1, 2)))
    most = 2 ** (FINENESS - 1) + 1
    whole = _where(present, _rounded(exp.Paren(this=moved), Fraction(2**FINENESS)))
    return Statistic(f"squares of {subject}", whole, -most, most, Fraction(1, 2**FINENESS), subject, "value")


def products(
    subject: str, values: tuple[exp.Expression, exp.Expression], present: exp.Expression, intervals: tuple[Interval, Interval]
) -> Statistic:
    """The product of two centred values in units of their halves, between -1 and 1."""
    first, second = (_unit(value, interval) for value, interval in zip(values, intervals, strict=True))
    most = 2**FINENESS + 1
    whole = _where(present, _rounded(exp.Paren(this=exp.Mul(this=first, expression=second)), Fraction(2**FINENESS)))
    return Statistic(f"products of {subject}", whole, -most, most, Fraction(1, 2**FINENESS), subject, "value")


def cells(subject: str, value: exp.Expression, present: exp.Expression, interval: Interval, ladder: CellLadder) -> Statistic:
    """The number of the cell a value is in, -1 where there is none."""
    width = (ladder.upper - ladder.lower) / ladder.cells
    moved = _minus(_clamped(value, interval), ladder.lower)
    scaled = exp.Mul(this=moved, expression=_literal(1 / width)) if width else _literal(Fraction(0))
    place = exp.Least(this=exp.Floor(this=scaled), expressions=[_literal(Fraction(ladder.cells - 1))])
    whole = exp.Case(ifs=[exp.If(this=present.copy(), true=exp.cast(place, "BIGINT"))], default=exp.Literal.number(-1))
    return Statistic(f"cells of {subject}", whole, 0, 1, Fraction(1), subject, "value", "cells", ladder)


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


#: Scales are rounded up to this many significant bits, which costs next to nothing and keeps the sampler's arithmetic short.
BITS = 30


@dataclass(frozen=True)
class Share:
    """The noise of one measure: its block of the question's noisy sums, and its part of the budget."""

    measure: Statistic
    noise: NoisySums
    block: int
    part: Fraction

    @property
    def law(self) -> Law:
        return self.noise.law

    @property
    def scale(self) -> Fraction:
        """The scale of a Laplace law or the sigma of a Gaussian one, in granules."""
        return self.noise.scales[self.block]

    @cached_property
    def granule(self) -> float:
        """What one step of the released integers is worth."""
        return float(self.measure.granularity)

    @cached_property
    def spread(self) -> float:
        """The scale in the measure's unit."""
        return self.noise.spread(self.block)

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the noise, in the measure's unit; of a running total where cells are measured."""
        return self.noise.deviation(self.block)


@dataclass(frozen=True)
class Split:
    """Noise for every measure of a question, each a block of `noise`, and the parts of the budget that they take."""

    measures: tuple[Statistic, ...]
    noise: NoisySums
    parts: tuple[Fraction, ...]

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """Statistic by measure."""
        pairs = zip(self.measures, self.parts, strict=True)
        return tuple(Share(measure, self.noise, block, part) for block, (measure, part) in enumerate(pairs))

    @property
    def event(self) -> Event:
        """What all of them cost together."""
        return self.noise.event

    @property
    def law(self) -> Law:
        return self.noise.law


def parts_of(measures: Sequence[Statistic], demands: Sequence[Fraction]) -> list[Fraction]:
    """Shares of the budget in proportion to the demands; a measure without demand takes what its subject's other branches take."""
    branches: dict[tuple[str, str], Fraction] = {}
    for measure, demand in zip(measures, demands, strict=True):
        key = (measure.subject, measure.branch)
        branches[key] = branches.get(key, Fraction(0)) + demand
    own = {(m.subject, m.branch): sum(1 for n in measures if (n.subject, n.branch) == (m.subject, m.branch)) for m in measures}
    found = []
    for measure, demand in zip(measures, demands, strict=True):
        if demand == 0:
            others = [value for (subject, branch), value in branches.items() if subject == measure.subject and branch != measure.branch]
            demand = max(others, default=Fraction(0)) / own[measure.subject, measure.branch]
        if demand == 0:
            raise TableError(f"{measure.name} has no share of the budget; give it a weight")
        found.append(demand)
    whole = sum((max(v for (s, _), v in branches.items() if s == subject) for subject in {s for s, _ in branches} if subject), Fraction(0))
    whole += sum((d for m, d in zip(measures, demands, strict=True) if not m.subject), Fraction(0))
    return [demand / whole for demand in found]


def split(
    measures: Sequence[Statistic], demands: Sequence[Fraction], reach: Reach, spend: Guarantee, law: str | None = None
) -> Split:
    """Noise for every measure, within the price."""
    spend.positive()
    parts = parts_of(measures, demands)
    found: dict[str, Split] = {}
    if spend.laplace_epsilon is not None and law != "gaussian":
        found["laplace"] = _laplace(measures, parts, reach, spend.laplace_epsilon)
    if spend.noise_multiplier is not None and law != "laplace":
        found["gaussian"] = _gaussian(measures, parts, reach, spend)
    if not found:
        raise TableError(f"{law} noise has no price in this currency; use an account with epsilon and delta, or with rho")
    return next(iter(found.values())) if len(found) == 1 else better(found["gaussian"], found["laplace"])


def better(gaussian: Split, laplace: Split) -> Split:
    """The law with the smaller errors, as logarithms weighted by what each measure deserves."""
    pairs = zip(gaussian.shares, laplace.shares, strict=True)
    ratio = math.fsum(float(g.part) * math.log(g.deviation / p.deviation) for g, p in pairs)
    return gaussian if ratio < 0 else laplace


def _laplace(measures: Sequence[Statistic], parts: Sequence[Fraction], reach: Reach, epsilon: Fraction) -> Split:
    scales = [_short(m.absolute_of(reach) / (p * epsilon)) for m, p in zip(measures, parts, strict=True)]
    moved = joint_absolute(measures, scales, reach)
    assert moved <= epsilon
    return _split(measures, parts, "laplace", scales, 1 / moved, reach.adjacency)


def _gaussian(measures: Sequence[Statistic], parts: Sequence[Fraction], reach: Reach, spend: Guarantee) -> Split:
    multiplier = spend.noise_multiplier
    assert multiplier is not None
    lengths = [root(m.square_of(reach) / p) for m, p in zip(measures, parts, strict=True)]
    step = Fraction(1, 2**28)
    for attempt in itertools.count():
        sigmas = [_short(multiplier * length) for length in lengths]
        # The largest float below what the sigmas together amount to: a short number to write down, and never above the truth.
        joint = Fraction(at_most(1 / root(joint_square(measures, sigmas, reach))))
        found = _split(measures, parts, "gaussian", sigmas, joint, reach.adjacency)
        if spend.admits(found.event, reach.adjacency):
            return found
        # What the roundings and the bracket's own width may cost. At a tiny epsilon that is more than a few such steps.
        multiplier *= 1 + step
        step *= 2 if attempt >= 16 else 1
    raise AssertionError("unreachable")


def _split(
    measures: Sequence[Statistic], parts: Sequence[Fraction], law: Law, scales: Sequence[Fraction], multiplier: Fraction,
    adjacency: Adjacency,
) -> Split:  # fmt: skip
    granularities, ladders = tuple(m.granularity for m in measures), tuple(m.ladder for m in measures)
    noise = NoisySums(law, tuple(scales), multiplier, adjacency, granularities, ladders)
    return Split(tuple(measures), noise, tuple(parts))


def _short(value: Fraction) -> Fraction:
    """The value with at most BITS significant bits, rounded up; short fractions stay as they are."""
    if value.denominator < 2**BITS and value.numerator < 2 ** (2 * BITS):
        return value
    power = value.numerator.bit_length() - value.denominator.bit_length() - BITS
    unit = Fraction(2) ** power
    return -(-value // unit) * unit
