"""Joint sensitivities: never below the greatest move over all vectors of rows, found by trying them, and reached by some of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from tests.tables.people import AGE, engine_on, exact_sums, planned, question

from tacit.accounting import Adjacency, Guarantee
from tacit.tables import Aggregate, TableError, Unit
from tacit.tables import statistics as measures
from tacit.tables.plan import Settings, make
from tacit.tables.statistics import LARGEST, Interval, Statistic, joint_absolute, joint_square, together

ONE = exp.Literal.number(1)
ROWS = Statistic("rows", ONE, 0, 1)
NULLS = Statistic("nulls", ONE, 0, 1, subject="x", branch="null")
TOTAL = Statistic("sum", ONE, -3, 3, subject="x", branch="value")
SIGMAS = [Fraction(2), Fraction(1), Fraction(5, 2)]
MEASURES = [ROWS, NULLS, TOTAL]
#: What a row can add to (rows, nulls, sum): it has x or lacks it.
VECTORS = [(1, 1, 0), *((1, 0, x) for x in (-3, 0, 3))]


def sums(rows: tuple[tuple[int, tuple[int, int, int]], ...]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for group, vector in rows:
        for place, value in enumerate(vector):
            found[group, place] = found.get((group, place), 0) + value
    return found


def square(first: dict[tuple[int, int], int], second: dict[tuple[int, int], int]) -> Fraction:
    keys = set(first) | set(second)
    return sum((Fraction((first.get(k, 0) - second.get(k, 0)) ** 2) / SIGMAS[k[1]] ** 2 for k in keys), Fraction(0))


def absolute(first: dict[tuple[int, int], int], second: dict[tuple[int, int], int]) -> Fraction:
    keys = set(first) | set(second)
    return sum((Fraction(abs(first.get(k, 0) - second.get(k, 0))) / SIGMAS[k[1]] for k in keys), Fraction(0))


def people(unit: Unit, groups: int) -> list[dict[tuple[int, int], int]]:
    """The sums of everybody who obeys the caps, over so many groups."""
    found = []
    for many in range(unit.most_rows + 1):
        for rows in itertools.combinations_with_replacement(list(itertools.product(range(groups), VECTORS)), many):
            counts = [sum(1 for g, _ in rows if g == group) for group in range(groups)]
            if sum(1 for c in counts if c) <= (unit.max_groups or 9) and max(counts, default=0) <= (unit.rows_per_group or 9):
                found.append(sums(rows))
    return found


@pytest.mark.parametrize(
    "unit",
    [Unit("id", max_rows=2), Unit("id", max_groups=2, rows_per_group=1), Unit("id", max_rows=3, max_groups=2, rows_per_group=2)],
    ids=["rows", "groups", "both"],
)
def test_the_bound_is_the_greatest_move(unit: Unit) -> None:
    everybody = people(unit, 2)
    assert max(square(p, {}) for p in everybody) == joint_square(MEASURES, SIGMAS, unit.reach(True))
    assert max(absolute(p, {}) for p in everybody) == joint_absolute(MEASURES, SIGMAS, unit.reach(True))


def test_people_in_few_declared_groups_move_few_counts() -> None:
    """Twenty-five visits in two regions are two people in the counts of people, not twenty-five."""
    counted, unit = Statistic("people", ONE, 0, 1, over="people"), Unit("id", max_rows=25)
    assert [joint_absolute([counted], [Fraction(1)], unit.reach(True, among=n)) for n in (None, 1, 2, 40)] == [25, 1, 2, 25]
    assert joint_square([counted], [Fraction(1)], unit.reach(True, among=2)) == 2
    exchanged = replace(unit, adjacency=Adjacency.REPLACE_ONE).reach(True, among=2)
    assert joint_absolute([counted], [Fraction(1)], exchanged) == 4


def test_exchanged_people_stay_below_the_bound() -> None:
    unit = Unit("id", max_rows=2, adjacency=Adjacency.REPLACE_ONE)
    everybody = people(unit, 2)
    worst = max(square(a, b) for a in everybody for b in everybody)
    assert joint_square(MEASURES, SIGMAS, replace_less(unit).reach(True)) < worst <= joint_square(MEASURES, SIGMAS, unit.reach(True))
    assert max(absolute(a, b) for a in everybody for b in everybody) <= joint_absolute(MEASURES, SIGMAS, unit.reach(True))


def replace_less(unit: Unit) -> Unit:
    """The mutant: the same unit taken for add/remove."""
    return replace(unit, adjacency=Adjacency.ADD_REMOVE)


def test_nulls_are_free_beside_a_sum_but_not_beside_everything() -> None:
    unit = Unit("id", max_rows=1)
    assert together([NULLS, TOTAL], [Fraction(1), Fraction(2)]) == 2
    assert together([ROWS, TOTAL], [Fraction(1), Fraction(2)]) == 3
    with_nulls = joint_square(MEASURES, [Fraction(1), Fraction(1), Fraction(3)], unit.reach(False))
    assert with_nulls == joint_square([ROWS, TOTAL], [Fraction(1), Fraction(3)], unit.reach(False)) == 2


def test_people_in_several_branches_are_not_taken_for_rows() -> None:
    """A measure over people may meet both branches, so it never shares a maximum."""
    people_measure = Statistic("people", ONE, 0, 1, subject="x", branch="null", over="people")
    assert together([people_measure, TOTAL], [Fraction(1), Fraction(2)]) == 3


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(1, 9))
def test_reach_is_the_worst_heap(max_rows: int, max_groups: int, rows_per_group: int, grouped: bool, among: int) -> None:
    """No person is in more groups than there are."""
    reach = Unit("id", max_rows=max_rows, max_groups=max_groups, rows_per_group=rows_per_group).reach(grouped, among=among)
    max_groups = min(max_groups, among) if grouped else max_groups
    most = min(max_rows, max_groups * rows_per_group)
    best = 0
    for total in range(most + 1):
        for heap in itertools.combinations_with_replacement(range(min(rows_per_group, total) + 1), min(max_groups, 6)):
            if sum(heap) == total:
                best = max(best, sum(h * h for h in heap))
    assert reach.groups == (min(max_groups, most) if grouped else 1)
    assert reach.rows == most and reach.heaped == (best if grouped else most**2)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_intervals_are_what_the_engine_will_see(low: float, width: float) -> None:
    if 0 < width < 1e-200:
        return
    interval = Interval(low, low + width)
    assert Fraction(float(interval.centre)) == interval.centre
    assert interval.lower <= interval.upper and interval.half >= (interval.upper - interval.lower) / 2


def test_bounds_too_close_to_scale_are_refused() -> None:
    with pytest.raises(TableError, match="apart"):
        Interval(Fraction(0), Fraction(1, 2**1000))


@given(st.floats(-1e300, 1e300), st.floats(0, 1e300), st.booleans())
def test_integers_fit_whatever_the_bounds_are(low: float, width: float, centred: bool) -> None:
    if 0 < width < 1e-200 or low + width > 1e300:
        return
    interval = Interval(low, low + width)
    measure = measures.total("x", AGE, exp.true(), interval, centred=centred)
    assert measure.most < LARGEST
    # One granule is nothing beside the bounds: the lattice is as fine as floating point, or 2^-28 of the width.
    assert measure.granularity <= max(interval.granularity, max(abs(interval.lower), abs(interval.upper)) / 2**51)


def test_bounds_far_from_zero_are_added_up_exactly() -> None:
    """(1e15, 1e15 + 1) in steps of 2^-28 would be integers of 78 bits, which an engine would drop."""
    engine = engine_on([(i, "N", 1e15 + i % 2, 0.0) for i in range(6)])
    asked = replace(question("count", grouped=False), aggregates=(Aggregate("sum", AGE, "s"),))
    settings = Settings({"age": (1e15, 1e15 + 1)}, {}, loss=False)
    plan = make(asked, Unit("id", max_rows=1), engine, settings, Guarantee(epsilon=Fraction(1)))
    found = exact_sums(plan, engine).sums[0][0] * plan.wanted.measures[0].granularity
    assert found == 6 * 10**15 + 3


def test_a_cap_beyond_64_bits_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(TableError, match=r"below 2\*\*62"):
        planned(question("count", grouped=True), Unit("id", max_rows=2**60), engine_on([]))
    assert planned(question("count", grouped=True), Unit("id", max_rows=2**40), engine_on([])).loss is not None
