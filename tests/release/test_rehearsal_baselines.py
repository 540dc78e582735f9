"""Baselines in every unit: whose rows a sample holds, what the figures are without privacy, and how many units a group has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.release.jobs import changed
from tests.release.test_units import CALLS, CLINIC, clinic

from tacit.release.job import Job, parse
from tacit.release.planning import plan
from tacit.release.rehearsal import chance, owners_of, plain, sampled, units_in
from tacit.release.sources import opened

_HERE = Path()
EDGE, NODE = (
    "{edge: [src, dst], max_rows: 2, adjacency: add-remove}",
    "{node: [src, dst], max_rows: 9, capped: true, adjacency: add-remove}",
)
KINDS = {
    "edge": EDGE,
    "directed": EDGE.replace("max_rows", "directed: true, max_rows"),
    "node": NODE,
}
GROUPED = CALLS.replace("columns:", "columns:\n  place: {type: text, categories: [a, b, c]}").replace(
    "SELECT COUNT(*) AS calls FROM calls", '"SELECT place, COUNT(*) AS calls FROM calls GROUP BY place"'
)


def calls(kind: str, text: str = GROUPED) -> Job:
    return parse(text.replace(EDGE, KINDS[kind]))


def edges(pairs: list[tuple[str | None, str | None, str]]) -> dict[str, pa.Table]:
    src, dst, place = zip(*pairs, strict=True) if pairs else ((), (), ())
    text = pa.string()
    return {"calls": pa.table({"src": pa.array(src, text), "dst": pa.array(dst, text), "place": pa.array(place, text)})}


def whose(kind: str, src: Any, dst: Any) -> Callable[[Any, Any], Any]:
    return {"edge": frozenset((src, dst)), "directed": (src, dst)}[kind]  # type: ignore[return-value]


EDGES = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.sampled_from("abc")), max_size=25)


@settings(max_examples=25)
@given(EDGES, st.sampled_from(["edge", "directed"]))
def test_rows_between_the_same_two_are_one_edge(pairs: list[Any], kind: str) -> None:
    owners = owners_of(calls(kind), edges(pairs))["calls"]
    assert sorted(owners.row.tolist()) == list(range(len(pairs)))
    number = dict(zip(owners.row.tolist(), owners.owner.tolist(), strict=True))
    for i, (a, b, _) in enumerate(pairs):
        for j, (c, d, _) in enumerate(pairs):
            assert (number[i] == number[j]) == (whose(kind, a, b) == whose(kind, c, d))


@given(EDGES, st.sets(st.sampled_from("abcd")))
def test_a_sample_of_nodes_is_the_graph_among_them(pairs: list[Any], chosen: set[str]) -> None:
    """The coin of a loop's second end is thrown for it alone; here it shows heads."""
    tables = edges(pairs)
    owners = owners_of(calls("node"), tables)
    numbers = owners["calls"]
    named = {int(n): pairs[int(row)][0] for row, n in zip(numbers.row[::2], numbers.owner[::2], strict=True)}
    named |= {
        int(n): pairs[int(r)][1]
        for r, n in zip(numbers.row[1::2], numbers.owner[1::2], strict=True)
        if pairs[int(r)][0] != pairs[int(r)][1]
    }
    kept = sampled(tables, owners, lambda count: np.array([named.get(i) in chosen or i not in named for i in range(count)], np.bool_))
    found = list(zip(*(kept["calls"].column(name).to_pylist() for name in ("src", "dst", "place")), strict=True))
    assert found == [pair for pair in pairs if {pair[0], pair[1]} <= chosen]


def test_every_edge_has_the_chance_that_counts_are_divided_by() -> None:
    """500 loops, 500 edges without a known end and 500 others, all apart: each kind kept 80 of 500 times on average, over 200 samples.

    The number kept in all samples has a standard deviation of at most sqrt(200 * 500 * 0.16 * 0.84) = 116; beyond six is a chance of 2e-9.
    """
    rows = [(f"l{i}", f"l{i}", "a") for i in range(500)] + [(f"n{i}", None, "b") for i in range(500)]
    rows += [(f"x{i}", f"y{i}", "c") for i in range(500)]
    job, tables, draws = calls("node"), edges(rows), np.random.default_rng(5)
    owners = owners_of(job, tables)
    total: Counter[str] = Counter()
    for _ in range(200):
        total.update(sampled(tables, owners, lambda count: draws.random(count) < 0.4)["calls"]["place"].to_pylist())
    assert chance(job) == pytest.approx(0.16) and chance(calls("edge")) == 0.4
    for kind in "abc":
        assert abs(total[kind] - 200 * 500 * 0.16) < 6 * 116
    # the wrong scale is caught: kept with one coin, a loop would come 0.4 of the time
    assert abs(200 * 500 * 0.4 - 200 * 500 * 0.16) > 6 * 116


def test_a_sample_of_people_takes_their_rows_of_every_table() -> None:
    job, tables, draws = parse(CLINIC), clinic(), np.random.default_rng(2)
    owners = owners_of(job, tables)
    for _ in range(5):
        kept = sampled(tables, owners, lambda count: draws.random(count) < 0.4)
        people = set(kept["person"]["id"].to_pylist())
        assert 0 < len(people) < 50
        visits = kept["visit"].to_pylist()
        assert {row["person_id"] for row in visits} == people and len(visits) == 2 * len(people)
        assert {row["visit_id"] for row in kept["drug"].to_pylist()} == {row["id"] for row in visits}
        assert kept["drug"].num_rows == 6 * len(people)


def test_rows_of_nobody_are_sampled_one_by_one() -> None:
    tables = clinic()
    tables["drug"] = pa.table({"visit_id": pa.array([None, 999, 0, 0], pa.int64()), "price": [1.0, 1.0, 1.0, 1.0]})
    owners = owners_of(parse(CLINIC), tables)["drug"]
    number = dict(zip(owners.row.tolist(), owners.owner.tolist(), strict=True))
    assert number[2] == number[3] and len({number[0], number[1], number[2]}) == 3


@settings(max_examples=25)
@given(EDGES, st.sampled_from(["edge", "directed", "node"]))
def test_units_of_each_group(pairs: list[Any], kind: str) -> None:
    job = calls(kind)
    source = opened(job, _HERE, edges(pairs))
    wanted = []
    for place in "abc":
        here = [(a, b) for a, b, c in pairs if c == place]
        wanted.append(len({end for pair in here for end in pair}) if kind == "node" else len({whose(kind, a, b) for a, b in here}))
    assert units_in(plan(job, source).outputs[0], job, source.engine) == wanted


def test_people_behind_foreign_keys_and_joins() -> None:
    job = parse(CLINIC)
    source = opened(job, _HERE, clinic())
    planned = plan(job, source)
    assert units_in(planned["by_ward"], job, source.engine) == [50, 50] and units_in(planned["people"], job, source.engine) == [50]


def test_the_truth_may_name_the_owner_and_holds_what_nobody_owns() -> None:
    text = CLINIC.replace(
        "SELECT COUNT(DISTINCT person_id) AS people FROM drug", '"SELECT COUNT(*) AS n, COUNT(DISTINCT person_id) AS people FROM drug"'
    )
    job, tables = parse(text), clinic()
    tables["drug"] = pa.concat_tables([tables["drug"], pa.table({"visit_id": [999], "price": [1.0]})])
    source = opened(job, _HERE, tables)
    assert source.engine.run(plain(plan(job, source)["people"], job)).to_pylist() == [{"n": 301, "people": 50}]


def test_the_truth_of_a_period_is_about_that_period() -> None:
    job = changed(
        ("max_rows: 3, adjacency", "max_rows: 3, window: month, when: day, adjacency"),
        ("columns:", "period: 2026-02\ncolumns:\n  day: {type: date}"),
        ("{rho: 0.5}", "{epsilon: 1, delta: 1e-6}"),
    )
    days = ["2026-01-31", "2026-02-01", "2026-02-28", "2026-03-01"]
    columns = {"patient_id": list("abcd"), "region": ["north"] * 4, "ward": ["A"] * 4, "age": [1.0] * 4}
    table = pa.table({**columns, "day": pa.array(days).cast(pa.date32())})
    source = opened(job, _HERE, {"visits": table})
    for output in plan(job, source).outputs:
        assert [row["n"] for row in source.engine.run(plain(output, job)).to_pylist()] == [2]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT COUNT(*), region FROM visits GROUP BY 2", {("count(*)", 2), ("region", "north")}),
        (
            "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 9 ORDER BY n LIMIT 1",
            {("region", "north"), ("n", 2)},
        ),
        ("SELECT HISTOGRAM(age, 0, 50, 110) AS n FROM visits", {("age", "[0, 50)"), ("n", 2)}),
    ],
    ids=["unnamed", "cut short", "histogram"],
)
def test_columns_have_the_names_of_the_release(sql: str, wanted: set[tuple[str, Any]]) -> None:
    job = changed(
        ("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region", sql), ("{rho: 0.5}", "{epsilon: 1, delta: 0}")
    )
    columns = {"patient_id": ["a", "b"], "region": ["north"] * 2, "ward": ["A"] * 2, "age": [1.0] * 2}
    source = opened(job, _HERE, {"visits": pa.table(columns)})
    (row,) = source.engine.run(plain(plan(job, source).outputs[0], job)).to_pylist()
    assert set(row.items()) == wanted


def test_a_sub_query_that_is_called_as_a_table_is_left_alone() -> None:
    job = calls(
        "edge",
        CALLS.replace("SELECT COUNT(*) AS calls FROM calls", "WITH calls AS (SELECT src FROM calls) SELECT COUNT(*) AS n FROM calls"),
    )
    source = opened(job, _HERE, edges([("a", "b", "a")]))
    assert source.engine.run(plain(plan(job, source).outputs[0], job)).to_pylist() == [{"n": 1}]
