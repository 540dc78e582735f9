"""Two shapes of one statement: rows added up by their own keys before the list is looked up, or after. The integers are the same."""

from __future__ import annotations

import datetime
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one
from tests.tables.people import AGE, COST, TABLE, column

from tacit.accounting import Guarantee
from tacit.tables import Aggregate, Key, Question, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import KEPT
from tacit.tables.figures import integers
from tacit.tables.plan import Plan, Settings, make
from tacit.tables.statement import Wanted

SUMS = (Aggregate("count", None, "n"), Aggregate("avg", AGE, "m"), Aggregate("sum", COST, "s"), Aggregate("count_value", COST, "k"))
BOUNDS = {"age": (0, 100), "cost": (-7, 30)}
CAPPED = Unit("id", max_rows=5, capped=True)
REGIONS = st.sampled_from(["N", "S", "n", "N ", "", "elsewhere", None])
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan"), float("inf"), None])
ROWS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), REGIONS, st.integers(0, 3) | st.none(), NUMBERS, NUMBERS, NUMBERS), max_size=30
)


ENGINE = DuckDB(threads=1)


def engine_with(rows: list[tuple[Any, ...]]) -> DuckDB:
    """The one engine, with these rows."""
    names = ("id", "region", "year", "weight", "age", "cost")
    kinds = (pa.int64(), pa.string(), pa.int64(), pa.float64(), pa.float64(), pa.float64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    ENGINE.register(TABLE, pa.table({n: pa.array(list(c), k) for n, c, k in zip(names, columns, kinds, strict=True)}))
    return ENGINE


def plan_of(
    engine: DuckDB,
    keys: list[Key],
    listed: Any,
    aggregates: tuple[Aggregate, ...] = SUMS,
    unit: Unit = CAPPED,
    where: exp.Expression | None = None,
) -> Plan:
    asked = Question(exp.to_table(TABLE), tuple(keys), aggregates, where)
    return make(asked, unit, engine, Settings(BOUNDS, listed), Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6)))


def sums_of(plan: Plan, engine: DuckDB, statement: exp.Select | None = None) -> list[list[int]]:
    return [found.tolist() for found in integers(engine.run(statement or plan.statement(engine, 3)), plan).sums]


def shapes(plan: Plan, engine: DuckDB) -> tuple[exp.Select, exp.Select]:
    """The statement in the new shape and in the old one."""
    assert plan.wanted.adds_first
    new = plan.statement(engine, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wanted, "adds_first", property(lambda self: False))
        old = plan.statement(engine, 3)
    assert new != old
    for statement in (new, old):
        statement.meta[KEPT] = True
    return new, old


def both(plan: Plan, engine: DuckDB) -> tuple[list[list[int]], list[list[int]]]:
    """The integers of the new shape and of the old one."""
    new, old = shapes(plan, engine)
    return sums_of(plan, engine, new), sums_of(plan, engine, old)


REGION, YEAR, WEIGHT = Key(column("region"), "region"), Key(column("year"), "year"), Key(column("weight"), "weight")
BANDS = Key(parse_one("CASE WHEN \"year\" > 1 THEN 'late' WHEN \"year\" >= 0 THEN 'early' END"), "band")
LISTS: dict[str, tuple[list[Key], Any]] = {
    "one": ([REGION], {"region": ["N", "S", "nowhere"]}),
    "null": ([REGION], {"region": ["S", None]}),
    "nothing but null": ([REGION], {"region": [None]}),
    "two lists": ([REGION, YEAR], {"region": ["N", "S", ""], "year": [0, 2, None]}),
    "tuples": ([REGION, YEAR], [("N", 0), ("S", None), (None, 3), ("nowhere", 9)]),
    "tuples and a list": ([REGION, YEAR, WEIGHT], {("year", "region"): [(0, "N"), (1, "S")], "weight": [0.0, 2.5]}),
    "floats": ([WEIGHT], {"weight": [0.0, 1.0, 7.0]}),
    "expression": ([BANDS], {"band": ["late", "early", None]}),
    "many": ([YEAR], {"year": list(range(40))}),
}


@cache
def planned(name: str) -> tuple[Plan, exp.Select, exp.Select]:
    plan = plan_of(engine_with([]), *LISTS[name])
    return plan, *shapes(plan, ENGINE)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LISTS)
@settings(max_examples=15)
@given(rows=ROWS)
def test_the_integers_are_the_same(name: str, rows: list[tuple[Any, ...]]) -> None:
    plan, new, old = planned(name)
    engine = engine_with(rows)
    assert sums_of(plan, engine, new) == sums_of(plan, engine, old)


@settings(max_examples=10)
@given(rows=ROWS)
def test_where_and_rows_as_units(rows: list[tuple[Any, ...]]) -> None:
    engine = engine_with(rows)
    new, old = both(plan_of(engine, *LISTS["one"], unit=Unit.row(), where=parse_one('"year" > 0')), engine)
    assert new == old
    counted = [sum(1 for row in rows if row[1] == region and row[2] is not None and row[2] > 0) for region in ("N", "S", "nowhere")]
    assert new[0] == counted


def test_keys_that_are_equal_but_grouped_apart_are_added_up() -> None:
    """0.0 and -0.0 are one key: two lines of one group would leave one of them out."""
    engine = engine_with([(1, "N", 0, 0.0, 5.0, 1.0), (2, "N", 0, -0.0, 5.0, 1.0), (3, "N", 0, 1.0, 5.0, 1.0)])
    plan = plan_of(engine, *LISTS["floats"])
    table = engine.run(plan.statement(engine, 1))
    assert sorted(table.column("group_").to_pylist()) == [0, 1]
    assert sums_of(plan, engine)[0] == [2, 1, 0]


def test_no_key_of_the_data_comes_back() -> None:
    engine = engine_with([(1, "CANARY", 0, 0.0, 5.0, 1.0), (2, "N", 0, 0.0, 5.0, 1.0)])
    table = engine.run(plan_of(engine, *LISTS["one"]).statement(engine, 1))
    assert table.num_rows == 1 and "CANARY" not in str(table.to_pydict())
    assert table.column_names[0] == "group_" and all(name.startswith("sum_") for name in table.column_names[1:])


@pytest.mark.parametrize("kind", ["count_person", "count_distinct", "median"])
def test_what_cannot_be_added_up_twice_is_joined_first(kind: str) -> None:
    engine = engine_with([])
    value = column("id") if kind == "count_person" else AGE
    assert not plan_of(engine, *LISTS["one"], aggregates=(Aggregate(kind, value, "x"),)).wanted.adds_first


def test_capped_rows_are_joined_first() -> None:
    """Rows of groups that nobody declared must not use up a person's cap."""
    rows = [(1, "elsewhere", 0, 0.0, 1.0, 1.0)] * 50 + [(1, "N", 0, 0.0, 1.0, 1.0)] * 3
    engine = engine_with(rows)
    plan = plan_of(engine, *LISTS["one"], unit=Unit("id", max_rows=3))
    assert not plan.wanted.adds_first
    assert sums_of(plan, engine)[0] == [3, 0, 0]


def test_dates_and_public_lists_longer_than_a_statement() -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(3000)]
    engine = DuckDB(threads=1)
    engine.register(TABLE, pa.table({"id": [1, 2], "day": [days[7], datetime.date(1999, 1, 1)], "age": [1.0, 2.0], "cost": [1.0, 2.0]}))
    plan = plan_of(engine, [Key(column("day"), "day")], {"day": days})
    new, old = both(plan, engine)
    assert new == old and sum(new[0]) == 1 and new[0][7] == 1


FARTHEST = [-(2**63), 2**63 - 1, -3, -2, -1, 0, 1, 2, 3]


@pytest.mark.parametrize("unit", [CAPPED, Unit("id", max_rows=10**6)], ids=["declared", "capped"])
@settings(max_examples=15)
@given(rows=st.lists(st.tuples(st.sampled_from([1, 2, None]), st.sampled_from([*FARTHEST, None]), NUMBERS), max_size=20))
def test_consecutive_keys_number_themselves(unit: Unit, rows: list[tuple[Any, ...]]) -> None:
    """No list is looked up; nothing that a row says can overflow, and the numbers are those of a count in Python."""
    engine = engine_with([(person, "N", year, 0.0, age, 1.0) for person, year, age in rows])
    plan = plan_of(engine, [YEAR], {"year": [-2, -1, 0, 1]}, (Aggregate("count", None, "n"), Aggregate("avg", AGE, "m")), unit)
    statement = plan.statement(engine, 3)
    assert statement.find(exp.Join) is None and statement.find(exp.Values) is None
    kept = {year: [age for person, key, age in rows if person is not None and key == year] for year in (-2, -1, 0, 1)}
    found = sums_of(plan, engine, statement)
    assert found[0] == [len(ages) for ages in kept.values()]
    total = next(i for i, measure in enumerate(plan.wanted.measures) if measure.name.startswith("sum of"))
    step = float(plan.wanted.measures[total].granularity)
    # ages are multiples of a half, so the lattice holds them exactly
    centred = [sum(min(max(age, 0.0), 100.0) - 50 for age in ages if age is not None and age == age) for ages in kept.values()]
    assert [value * step for value in found[total]] == centred


def test_a_list_with_a_gap_is_looked_up() -> None:
    engine = engine_with([(1, "N", 2, 0.0, 5.0, 1.0), (1, "N", 1, 0.0, 5.0, 1.0)])
    plan = plan_of(engine, [YEAR], {"year": [0, 2]})
    assert plan.statement(engine, 3).find(exp.Join) is not None
    assert sums_of(plan, engine)[0] == [0, 1]


def test_the_sums_of_keys_that_are_grouped_as_they_are_compared_are_added_up_once() -> None:
    engine = engine_with([])
    grouped = {name: len(list(plan_of(engine, *LISTS[name]).statement(engine, 3).find_all(exp.Group))) for name in ("one", "floats")}
    assert grouped == {"one": 1, "floats": 2}
