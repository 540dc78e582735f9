"""Histograms: bins are public and answered all, a row is in one or none, and the price is that of one count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables.people import Repeatable, exact_sums, loss_between, planned, random_rows, session_on, table

from tacit.noise import test_mode
from tacit.tables import Unit
from tacit.tables.builder import Query
from tacit.tables.errors import Refused, TableError
from tacit.tables.relation import Catalog, Table
from tacit.tables.sql import parse

TYPES = {"id": "BIGINT", "region": "VARCHAR", "age": "DOUBLE", "cost": "DOUBLE"}
CATALOG = Catalog({"visits": Table(TYPES)}, Unit("id", max_rows=3))
TEXT = "SELECT HISTOGRAM(age, 0, 18, 65.5, 100) AS n FROM visits"


def counted(text: str, rows: Any, unit: Unit) -> list[int]:
    engine = Repeatable(threads=1, portable=True)
    engine.register("visits", rows)
    plan = planned(parse(text, "duckdb", Catalog({"visits": Table(TYPES)}, unit)), unit, engine, keys={})
    return [int(n) for n in exact_sums(plan, engine).sums[0]]


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.sampled_from([0.0, -0.0, 18.0, 65.5, 100.0, 1.0])), max_size=30),
    edges=st.lists(st.floats(-200, 200).map(lambda x: round(x, 2)), min_size=2, max_size=6, unique=True).map(sorted),
)
def test_bins_count_as_numpy_counts(values: list[float | None], edges: list[float]) -> None:
    rows = table([(i, "N", value, 0.0) for i, value in enumerate(values)])
    found = counted(f"SELECT HISTOGRAM(age, {', '.join(f'{edge:f}' for edge in edges)}) AS n FROM visits", rows, Unit("id", max_rows=1))
    inside = [value for value in values if value is not None and np.isfinite(value)]
    assert found == np.histogram(inside, edges)[0].tolist()


def test_all_bins_together_cost_what_one_count_costs() -> None:
    session = session_on([], Unit("id", max_rows=3))
    fine = session.plan("SELECT HISTOGRAM(age, " + ", ".join(map(str, range(101))) + ") AS n FROM visits", epsilon=1, loss=False)
    one = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, loss=False)
    assert fine.keys.count == 100 and fine.event == one.event
    assert fine.shares[0].scale == one.shares[0].scale  # the mutant, a budget divided over bins, would have a hundred times as much


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_one_person_moves_the_bins_no_further_than_the_price(law: str) -> None:
    unit = Unit("id", max_rows=4)
    engine = Repeatable(threads=1, portable=True)
    rows = random_rows(5)
    engine.register("visits", table(rows))
    asked = parse("SELECT region, HISTOGRAM(age, 0, 1, 50, 100) AS n FROM visits GROUP BY region", "duckdb", CATALOG)
    plan = planned(asked, unit, engine, law=law)
    base = exact_sums(plan, engine)
    for person in range(6):
        engine.register("visits", table([row for row in rows if row[0] != person]))
        assert loss_between(plan, base, exact_sums(plan, engine)) <= 1 + 1e-9


def test_an_answer_has_a_row_for_each_bin(tmp_path: Path) -> None:
    session = session_on(random_rows(3), Unit("id", max_rows=3))
    with test_mode(2):
        answer = session.sql(TEXT + " ORDER BY n DESC", epsilon=1)
    assert sorted(answer.keys["age"]) == ["[0, 18)", "[18, 65.5)", "[65.5, 100]"]
    assert answer["n"].tolist() == sorted(answer["n"], reverse=True)
    figure = answer.plot(path=str(tmp_path / "bins.png"))
    bars = {(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in figure.axes[0].patches}
    assert bars == {(0, 18), (18, 47.5), (65.5, 34.5)} and (tmp_path / "bins.png").stat().st_size > 1000


def test_categories_are_counted() -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "region": ["N", "S", "N", "other"], "age": [1.0] * 4, "cost": [1.0] * 4})
    assert counted("SELECT HISTOGRAM(region, 'S', 'N', 'W') AS n FROM visits", rows, Unit("id", max_rows=1)) == [1, 2, 0]
    session = session_on(rows, Unit("id", max_rows=1), columns={"region": ["N", "S"]})
    with test_mode(1):
        assert session.sql("SELECT HISTOGRAM(region) AS n FROM visits", epsilon=1).keys["region"] == ["N", "S"]


def test_the_builder_means_the_same() -> None:
    query = Query.of("visits", CATALOG)
    assert query.histogram("age", "n", bins=[0, 18, 65.5, 100]).question == parse(TEXT, "duckdb", CATALOG)
    even = query.histogram("age", "n", bins=4, bounds=(-10, 10)).question
    assert even == parse("SELECT HISTOGRAM(age, -10, -5, 0, 5, 10) AS n FROM visits", "duckdb", CATALOG)
    both = query.group_by("region").histogram("LEAST(age, 9)", "n", bins=[0, 5, 9]).question
    assert both == parse("SELECT region, HISTOGRAM(LEAST(age, 9), 0, 5, 9) AS n FROM visits GROUP BY 1", "duckdb", CATALOG)
    assert [key.name for key in both.keys] == ["region", "bin"]
    assert query.histogram("region", bins=["N"]).question.keys[0].listed == ("N",)
    for wrong in (
        {"bins": 5},
        {"bins": 0, "bounds": (0, 1)},
        {"bins": [1]},
        {"bins": [2, 1]},
        {"bins": [1, "a"]},
        {"bins": [0, float("inf")]},
    ):
        with pytest.raises((TableError, ValueError)):
            _ = query.histogram("age", **wrong).question  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT HISTOGRAM() FROM visits",
        "SELECT HISTOGRAM(age, 5) FROM visits",
        "SELECT HISTOGRAM(age, 5, 5) FROM visits",
        "SELECT HISTOGRAM(age, 5, age) FROM visits",
        "SELECT HISTOGRAM(age, 5, 'x') FROM visits",
        "SELECT HISTOGRAM(age, 1 + 1, 3) FROM visits",
        "SELECT HISTOGRAM(region, 'N', 'N') FROM visits",
        "SELECT HISTOGRAM(region, 1, 2) FROM visits",
        "SELECT HISTOGRAM(age, 0, 1) / 2 FROM visits",
        "SELECT HISTOGRAM(age, 0, 1), HISTOGRAM(cost, 0, 1) FROM visits",
        "SELECT HISTOGRAM(age, 0, 1), AVG(cost) FROM visits",
        "SELECT HISTOGRAM(age, 0, 1) FILTER (WHERE age > 0) FROM visits",
        "SELECT COUNT(*) FROM visits HAVING HISTOGRAM(age, 0, 1) > 2",
        "SELECT HISTOGRAM(age, 0, 1) AS n FROM visits GROUP BY 1",
        "SELECT HISTOGRAM(age, 0, 1) AS n FROM visits ORDER BY 1",
        "SELECT HISTOGRAM(id, 'x') AS n FROM visits",
        f"SELECT HISTOGRAM(age, {', '.join(map(str, range(600)))}) FROM visits",
    ],
)
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        session_on([], Unit("id", max_rows=1)).plan(parse(text, "duckdb", CATALOG), epsilon=1)


def test_a_job_knows_the_bins_of_its_question() -> None:
    from tests.release.jobs import changed

    from tacit.release.planning import plan

    job = changed(("SELECT COUNT(*) AS n FROM visits", "'SELECT HISTOGRAM(age, 0, 50, 110) AS n FROM visits'"))
    assert plan(job)["overall"].groups == 2


def test_refusals_say_what_to_write() -> None:
    with pytest.raises(Refused, match="ask for other aggregates in a question of their own"):
        parse("SELECT HISTOGRAM(age, 0, 1), AVG(cost) FROM visits", "duckdb", CATALOG)
