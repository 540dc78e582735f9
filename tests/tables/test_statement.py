"""Statements: one for each question, integers only, caps that hold for everybody, sums that an independent count confirms."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from tests.noise.reference import LIVE, binomial_p
from tests.tables.people import AGGREGATES, REGIONS, TABLE, engine_on, exact_sums, planned, question, random_rows, table

from tacit.tables import Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.relation import Catalog, Relation, Table
from tacit.tables.sql import parse
from tacit.tables.statement import GROUP, SALT, Tallies, _salted, needs_salt, salt_marked, whole
from tacit.tables.statistics import Interval, Statistic, measure_name, null_count, present_count, row_count, squares, total


@pytest.mark.one_in(2)
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "whole"])
@pytest.mark.parametrize("name", AGGREGATES)
def test_only_integers_come_back(name: str, grouped: bool) -> None:
    engine = engine_on(random_rows(1))
    plan = planned(question(name, grouped=grouped), Unit("id", max_rows=3), engine)
    table = engine.run(plan.statement(engine, 5))
    for field in table.schema:
        assert pa.types.is_integer(field.type) or (pa.types.is_decimal(field.type) and field.type.scale == 0)
    assert (GROUP in table.column_names) == grouped


def test_without_binding_caps_the_sums_are_python_s() -> None:
    rows = random_rows(9, people=40)
    engine = engine_on(rows)
    plan = planned(question("everything", grouped=True), Unit("id", max_rows=1000), engine)
    exact = exact_sums(plan, engine)
    kept = [row for row in rows if row[0] is not None and row[1] in REGIONS]

    def present(value: Any) -> bool:
        return value is not None and not math.isnan(value)

    by_name = {measure.name: found for measure, found in zip(plan.wanted.measures, exact.sums, strict=True)}
    regions = Counter(row[1] for row in kept)
    assert by_name["rows"].tolist() == [regions[region] for region in REGIONS]
    assert by_name["people"].tolist() == [len({row[0] for row in kept if row[1] == region}) for region in REGIONS]
    # A COUNT counts NaN like any value, and all of them are one.
    there = [[row[3] for row in kept if row[1] == region and row[3] is not None] for region in REGIONS]
    different = [len({"NaN" if math.isnan(cost) else cost for cost in costs}) for costs in there]
    assert by_name['different "cost", NaN too'].tolist() == different
    assert by_name['rows with "cost", NaN too'].tolist() == [len(costs) for costs in there]
    with_cost = [sum(1 for row in kept if row[1] == region and present(row[3])) for region in REGIONS]
    assert by_name['rows with "cost"'].tolist() == with_cost
    assert by_name["rows before the caps"].tolist() == [len(kept)]
    total = next(m for m in plan.wanted.measures if m.name.startswith('sum of "cost"'))
    for place, region in enumerate(REGIONS):
        values = [min(max(row[3], -7.0), 30.0) - 11.5 for row in kept if row[1] == region and present(row[3])]  # type: ignore[type-var]
        found = float(exact.sums[plan.wanted.measures.index(total)][place] * total.granularity)
        assert found == pytest.approx(sum(values), abs=1e-6 * (1 + len(values)))
    cells = next(found for measure, found in zip(plan.wanted.measures, exact.sums, strict=True) if measure.over == "cells")
    assert cells.sum(axis=1).tolist() == [sum(1 for row in kept if row[1] == region and present(row[2])) for region in REGIONS]


@pytest.mark.parametrize("portable", [False, True], ids=["fast", "portable"])
@pytest.mark.parametrize("by_row", [False, True], ids=["sums", "rows"])
def test_caps_hold_for_everybody(by_row: bool, portable: bool) -> None:
    rows = [(person, region, 1.0, float(i)) for person in range(5) for region in REGIONS for i in range(6)]
    engine = engine_on(rows, portable=portable)
    for unit, most, per_group in ((Unit("id", max_rows=7), 7, 6), (Unit("id", max_groups=2, rows_per_group=3), 6, 3)):
        plan = planned(question("everything" if by_row else "count", grouped=True), unit, engine)
        for salt in (1, 2):
            counts = exact_sums(plan, engine, salt).sums[0]
            assert counts.sum() == 5 * most and max(counts) <= 5 * per_group
        whole = planned(question("count", grouped=False), unit, engine)
        assert exact_sums(whole, engine).sums[0].tolist() == [5 * most]


def test_the_choice_follows_the_salt_and_nobody_else() -> None:
    rows = [(1, region, 1.0, float(i)) for region in REGIONS[:3] for i in range(20)]
    engine, unit = engine_on(rows), Unit("id", max_rows=5)
    plan = planned(question("count", grouped=True), unit, engine)
    choices = {tuple(exact_sums(plan, engine, salt).sums[0].tolist()) for salt in range(12)}
    assert len(choices) > 4
    others = engine_on([*rows, *((2, "empty", 3.0, float(i)) for i in range(50))])
    for salt in range(4):
        alone, beside = exact_sums(plan, engine, salt).sums[0].tolist(), exact_sums(plan, others, salt).sums[0].tolist()
        assert alone[:3] == beside[:3]


def test_a_statement_reads_well_on_every_dialect() -> None:
    plan = planned(question("everything", grouped=True), Unit("id", max_groups=2, rows_per_group=2), engine_on([]))
    tree = plan.statement(engine_on([]), 3)
    for dialect in ("duckdb", "postgres", "spark"):
        assert "GROUPING SETS" in tree.sql(dialect=dialect)


@pytest.mark.parametrize("portable", [False, True], ids=["fast", "portable"])
def test_every_row_has_the_same_chance_however_many_are_alike(portable: bool) -> None:
    """A person with 9 rows of 0 and one of 100, of which one is kept: the 100 in a tenth of the draws, not in half of them."""
    many = 800
    engine = DuckDB(threads=1, portable=portable)
    engine.register(TABLE, table([(person, "N", 100.0 if i == 4 else 0.0, 0.0) for person in range(many) for i in range(10)]))
    for keys, unit in (({}, Unit("id", max_rows=1)), (None, Unit("id", max_groups=1, rows_per_group=1))):
        plan = planned(question("count and mean", grouped=keys is None), unit, engine, keys=keys, loss=False)
        total = next(i for i, measure in enumerate(plan.wanted.measures) if measure.name.startswith("sum"))
        sums = exact_sums(plan, engine, 11).sums
        share = float(sums[total][0] * plan.wanted.measures[total].granularity) / many / 100 + 0.5
        assert sums[0][0] == many
        assert binomial_p(round(share * many), many, 0.1) > LIVE / 2  # two draws of the engine's own
        assert binomial_p(many // 2, many, 0.1) < LIVE / 2, "half of them would be seen"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "unit", [Unit("id", max_rows=2), Unit("id", max_groups=2, rows_per_group=1), Unit("id", max_rows=3, capped=True)], ids=repr
)
@pytest.mark.parametrize("name", ["count and mean", "everything"])
@pytest.mark.parametrize("portable", [False, True], ids=["fast", "portable"])
def test_a_statement_depends_on_its_salt_where_it_says_so(name: str, unit: Unit, portable: bool) -> None:
    engine = engine_on([], portable=portable)
    plan = planned(question(name, grouped=True), unit, engine)
    texts = {plan.statement(engine, salt).sql("duckdb") for salt in (1, 10**17 + 3)}
    uses = needs_salt(plan.question, plan.wanted, engine)
    # An engine that is portable may still have nothing to order.
    assert len(texts) == (2 if uses and not unit.capped else 1)
    assert uses == (portable or (unit.max_groups is not None and name == "everything"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unit", [Unit("id", max_rows=2), Unit("id", max_groups=1, rows_per_group=2)], ids=repr)
@pytest.mark.parametrize("name", ["count", "quantiles", "everything"])
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "whole"])
def test_rows_before_the_caps_are_counted_alike(name: str, unit: Unit, grouped: bool) -> None:
    """On the way, by the engine that draws, or beside, by another statement: everybody's rows, up to some of each person."""
    rows = [(1, "N", 1.0, 1.0)] * 50 + [(2, "S", None, None)] * 7 + [(2, "unlisted", 1.0, 1.0)] * 9 + [(None, "N", 1.0, 1.0)] * 4
    rows += [(person, "Ω-北", float("nan"), 2.0) for person in range(3, 40)]
    for portable in (False, True):
        engine = engine_on(rows, portable=portable)
        plan = planned(question(name, grouped=grouped), unit, engine)
        assert plan.loss is not None and plan.loss.most < 50
        truth = plan.loss.most + min(7 + (0 if grouped else 9), plan.loss.most) + 37
        assert exact_sums(plan, engine).sums[plan.loss.seen].tolist() == [truth]
    empty = engine_on([], portable=False)
    assert plan.loss is not None and exact_sums(plan, empty).sums[plan.loss.seen].tolist() == [0]


def test_groups_are_chosen_evenly() -> None:
    """One of three groups of 1500 people: a third each. The engine's own draws: right ones fail in one run of 1e9."""
    many = 1500
    engine = DuckDB(threads=1)
    engine.register(TABLE, table([(person, region, 1.0, 1.0) for person in range(many) for region in REGIONS[:3]]))
    for name in ("count", "everything"):
        plan = planned(question(name, grouped=True), Unit("id", max_groups=1, rows_per_group=1), engine, loss=False)
        counts = exact_sums(plan, engine, 10**17 + 1).sums[0].tolist()
        assert sum(counts) == many
        assert min(binomial_p(count, many, 1 / 3) for count in counts[:3]) > LIVE / 6
        assert binomial_p(many // 2, many, 1 / 3) < LIVE / 6, "a group taken half of the time would be seen"


def test_a_join_of_private_tables_is_capped_in_an_order_of_its_own_each_time() -> None:
    """The sides of a join are thinned before they meet, in an order keyed by the question's salt, not by a constant."""
    engine = DuckDB(threads=1)
    engine.register(TABLE, table(random_rows(1)))
    unit = Unit("id", max_rows=3)
    catalog = Catalog({TABLE: Table(engine.columns(exp.to_table(TABLE)))}, unit, shuffle=salt_marked(engine))
    text = f"SELECT COUNT(*) AS n FROM {TABLE} a JOIN {TABLE} b ON a.id = b.id WHERE a.region <> '{SALT}'"
    plan = planned(parse(text, "duckdb", catalog), unit, engine)
    first, second = (plan.statement(engine, salt).sql(dialect="duckdb") for salt in (1000, 2000))
    assert first != second and "1004" in first and "2004" in second
    # A number of the user's that looks like the mark stays, and the mark itself is nowhere.
    assert first.count(str(SALT)) == second.count(str(SALT)) == 1
    assert needs_salt(plan.question, plan.wanted, engine)
    # Other rows are kept under other salts: the mutant, a constant key, always keeps the same.
    rows = table([(1, "N", float(i), 0.0) for i in range(40)])
    engine.register(TABLE, rows)
    picked = parse(f"SELECT SUM(b.age) AS s FROM {TABLE} a JOIN (SELECT id, age FROM {TABLE}) b ON a.id = b.id", "duckdb", catalog)
    relation = picked.relation
    assert isinstance(relation, Relation)
    sums = {str(engine.run(_kept(relation, salt)).to_pydict()) for salt in range(6)}
    assert len(sums) > 1


def _kept(relation: Relation, salt: int) -> exp.Select:
    return _salted(exp.Select(expressions=[exp.Sum(this=exp.column("age", quoted=True))]).from_(relation.expression(), copy=False), salt)


# --- tallies ------------------------------------------------------------------------------------------------


V = exp.column("v", quoted=True)
ENGINE = DuckDB(threads=1)
PRESENT = exp.And(
    this=exp.Not(this=exp.Is(this=exp.Paren(this=V.copy()), expression=exp.null())), expression=exp.Not(this=ENGINE.is_nan(V.copy()))
)
INTERVAL = Interval(-3, 10)
VALUES = st.none() | st.sampled_from([math.nan, math.inf, -math.inf, -3.0, 10.0, -0.0, 1e308, 5e-324]) | st.floats(-20, 20)


def sums(measures: list[Statistic], values: list[float | None], tallies: Tallies | None = None) -> list[int]:
    """What the engine adds up."""
    tallies = tallies or Tallies.of(measures)
    ENGINE.register("t", pa.table({"v": pa.array(values, pa.float64())}))
    columns = [exp.alias_(tallies.measures[i].integer.copy(), measure_name(i), quoted=True) for i in tallies.columns]
    rows = exp.Select(expressions=columns or [V.copy()]).from_("t")
    added = [exp.alias_(tallies.added(i, lambda name: exp.column(name, quoted=True)), f"added_{i}") for i in range(len(measures))]
    found = ENGINE.run(exp.Select(expressions=added).from_(exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier("r")))))
    return [int(column[0].as_py() or 0) for column in found.columns]


def counted(values: list[float | None]) -> dict[str, int]:
    """The oracle, row by row."""
    there = [v for v in values if v is not None and not math.isnan(v)]
    step, centre = float(INTERVAL.granularity), float(INTERVAL.centre)
    added = sum(math.floor((min(max(v, -3.0), 10.0) - centre) / step + 0.5) for v in there)
    return {"rows": len(values), "sum": added, "null": len(values) - len(there), "value": len(there)}


def measures() -> dict[str, Statistic]:
    return {
        "rows": row_count(),
        "sum": total("v", V, PRESENT, INTERVAL, centred=True),
        "null": null_count("v", PRESENT),
        "value": present_count("v", PRESENT),
    }


NAMES = [("rows", "sum", "null"), ("null", "value"), ("value", "sum", "null", "rows"), ("rows",), ("sum",)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", NAMES, ids="-".join)
@settings(max_examples=25)
@given(values=st.lists(VALUES, max_size=12))
def test_the_sums_are_those_of_a_count_in_python(names: tuple[str, ...], values: list[float | None]) -> None:
    expected = counted(values)
    assert sums([measures()[name] for name in names], values) == [expected[name] for name in names]


def test_the_rows_without_a_value_are_not_the_rows_with_it() -> None:
    """The mutant, through the same count."""
    asked, values = [measures()[name] for name in ("rows", "sum", "null")], [1.0, None, math.nan, 2.0, 3.0]
    right = Tallies.of(asked)
    assert right.counts == (None, None, 1) and right.lacking == (False, False, True) and right.columns == (1,)
    wrong = Tallies(right.measures, right.counts, (False, False, False))
    assert sums(asked, values)[2] == 2 != sums(asked, values, wrong)[2] == 3


def test_only_a_sum_under_the_same_condition_is_counted() -> None:
    """A value that is there says nothing of another."""
    other = exp.column("w", quoted=True)
    asked = [measures()["sum"], null_count("w", exp.Not(this=exp.Is(this=other, expression=exp.null())))]
    assert Tallies.of(asked).counts == (None, 1)


def test_squares_lend_their_column_too() -> None:
    asked = [squares("v", V, PRESENT, INTERVAL), measures()["null"]]
    assert Tallies.of(asked).counts == (None, 0)
    values: list[Any] = [None, 3.5, math.nan, -50.0]
    unit = [(min(max(v, -3.0), 10.0) - float(INTERVAL.centre)) / float(INTERVAL.half) for v in (3.5, -50.0)]
    assert sums(asked, values) == [sum(math.floor((u * u - 0.5) * 2**28 + 0.5) for u in unit), 2]


def test_what_is_a_whole_number_is_not_cast_again() -> None:
    nothing = exp.Case(ifs=[exp.If(this=PRESENT.copy(), true=exp.cast(V.copy(), "BIGINT"))])
    assert whole(nothing) and whole(measures()["sum"].integer)
    assert not whole(exp.Literal.number(1)) and not whole(exp.cast(V.copy(), "DOUBLE")) and not whole(measures()["value"].integer)
