"""Rehearsals: parts of an error add up, baselines have their known errors, subgroups are told apart, and private data is refused."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from tests.release.jobs import changed
from tests.release.test_units import CLINIC, clinic

from tacit.release.errors import JobError
from tacit.release.job import parse
from tacit.release.rehearsal import Rehearsal, rehearse

#: One row a person, ten groups from large to small.
SIZES = [4000, 2000, 1200, 800, 400, 200, 100, 60, 30, 10]
NAMES = [f"g{i}" for i in range(10)]
JOB = changed(
    ("{rho: 0.5}", "{epsilon: 1, delta: 0}"),
    ("max_rows: 3", "max_rows: 1"),
    ("[north, south]", f"[{', '.join(NAMES)}]"),
    ("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM", "SELECT region, COUNT(*) AS n FROM"),
    ("FROM visits, weight: 1", "FROM visits, weight: 0.01"),
)


def _table() -> pa.Table:
    regions = [name for name, size in zip(NAMES, SIZES, strict=True) for _ in range(size)]
    count = len(regions)
    return pa.table(
        {
            "patient_id": [f"p{i}" for i in range(count)],
            "region": regions,
            "ward": ["A"] * count,
            "age": [float(i % 90) for i in range(count)],
        }
    )


@pytest.fixture(scope="module")
def found() -> Rehearsal:
    return rehearse(JOB, {"visits": _table()}, data="dummy", runs=30)


def test_the_truth_is_the_truth(found: Rehearsal) -> None:
    lines = [line for line in found.lines if line.output == "by_region"]
    assert [line.truth for line in lines] == SIZES == [line.people for line in lines]
    assert found.mark.startswith("NOT PRIVATE")


def test_nothing_is_cut_off_where_nobody_exceeds_a_cap(found: Rehearsal) -> None:
    assert all(line.cut == 0 for line in found.lines)


def test_a_private_release_beats_a_sample_of_two_fifths(found: Rehearsal) -> None:
    """The count c of a 40% sample is off by sqrt(0.6 c / 0.4); the noise is that of a Laplace count at nearly epsilon 1."""
    overall = found.overall()["by_region", "n"]
    assert overall["error"] < 2.5
    predicted = np.mean([math.sqrt(size * 0.6 / 0.4) for size in SIZES])
    assert overall["sample error"] == pytest.approx(predicted, rel=0.35)
    assert overall["error"] < overall["sample error"]


def test_suppression_drops_small_groups(found: Rehearsal) -> None:
    overall = found.overall()["by_region", "n"]
    assert overall["suppressed"] == pytest.approx(0.1) and overall["suppression error"] == pytest.approx(1.0)


def test_subgroups_are_told_apart() -> None:
    """Everybody in g9 has twenty rows, and the cap is one: the overall error hardly tells, the subgroup's does."""
    table = _table()
    extra = table.filter(pa.array([region == "g9" for region in table["region"].to_pylist()]))
    planted = pa.concat_tables([table, *([extra] * 19)])
    found = rehearse(JOB, {"visits": planted}, data="public", runs=5)
    by = found.by("by_region", "region")
    assert by["g9"]["n"]["cut"] == pytest.approx(190) and by["g0"]["n"]["cut"] == 0
    for line in found.lines:
        assert abs(line.cut + line.noise + line.post) <= line.size + 1e-9  # a mean error is never above its root mean square
    with pytest.raises(JobError, match="no key"):
        found.by("by_region", "ward")


def test_parts_add_up_in_every_run() -> None:
    found = rehearse(JOB, {"visits": _table()}, data="dummy", runs=1)
    for line in found.lines:
        assert abs(line.cut + line.noise + line.post) == pytest.approx(line.size, abs=1e-9)


def test_intervals_cover_what_they_say(found: Rehearsal) -> None:
    """30 runs of 10 groups at 95%: fewer than 266 of 300 covered happens with probability below 1e-6."""
    assert found.overall()["by_region", "n"]["coverage"] > 266 / 300


@pytest.mark.parametrize(
    ("options", "said"),
    [({"data": "production"}, "not for private data"), ({"data": "dummy", "runs": 0}, "runs must be")],
    ids=["role", "runs"],
)
def test_what_cannot_be_rehearsed_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        rehearse(JOB, {"visits": _table()}, **options)  # type: ignore[arg-type]


def test_every_source_needs_a_table() -> None:
    with pytest.raises(JobError, match="must have 'visits'"):
        rehearse(JOB, {}, data="dummy")


# --- questions as people write them -----------------------------------------------------------------------------------------------------


def _asked(sql: str, *more: tuple[str, str]) -> Rehearsal:
    job = changed(
        ("{rho: 0.5}", "{epsilon: 10, delta: 0}"),
        ("max_rows: 3", "max_rows: 1"),
        ("[north, south]", f"[{', '.join(NAMES)}]"),
        ("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region", sql),
        ("FROM visits, weight: 1", "FROM visits, weight: 0.01"),
        *more,
    )
    return rehearse(job, {"visits": _table()}, data="dummy", runs=3)


@pytest.mark.parametrize(
    ("sql", "figure"),
    [
        ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY n", "n"),
        ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 500 ORDER BY n DESC LIMIT 2", "n"),
        ("SELECT COUNT(*), region FROM visits GROUP BY region", "count(*)"),
        ("SELECT COUNT(*) AS how_many, region FROM visits GROUP BY 2", "how_many"),
    ],
    ids=["in order", "cut short", "unnamed", "key last"],
)
def test_every_group_is_compared_with_its_own_truth(sql: str, figure: str) -> None:
    """Groups differ by far more than the noise, so a line that meets another group's truth is off by hundreds."""
    found = _asked(sql)
    lines = [line for line in found.lines if line.output == "by_region"]
    assert [line.truth for line in lines] == SIZES and {line.figure for line in lines} == {figure}
    assert all(line.size < 15 and line.cut == 0 for line in lines) and not found.left_out


def test_what_is_computed_of_figures_is_compared_too() -> None:
    """A sample's counts are scaled wherever they stand: in a product they count, in a ratio they cancel."""
    sql = "SELECT region, COUNT(*) AS n, 2 * COUNT(*) AS twice, COUNT(*) / COUNT(*) AS one, MEDIAN(age) AS age FROM visits GROUP BY region"
    found = _asked(sql)
    lines = {(line.figure, line.group[0]): line for line in found.lines if line.output == "by_region"}
    for name, size in zip(NAMES, SIZES, strict=True):
        n, twice, one = (lines[figure, name] for figure in ("n", "twice", "one"))
        assert (n.truth, twice.truth, one.truth) == (size, 2 * size, 1)
        assert twice.size == pytest.approx(2 * n.size) and twice.sample == pytest.approx(2 * n.sample) and one.sample in (0, 1)
    assert 40 < lines["age", "g0"].truth < 50 and abs(lines["age", "g0"].cut) < 1 and not found.left_out


def test_what_is_not_compared_is_said() -> None:
    found = _asked("SELECT COUNT(*) AS n FROM visits GROUP BY region")
    assert "select them" in found.left_out["by_region"]
    private = ('GROUP BY region", weight: 1', 'GROUP BY region", weight: 1, keys: private')
    found = _asked("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", private, ("delta: 0}", "delta: 1e-6}"))
    assert "selected privately" in found.left_out["by_region"] and {line.output for line in found.lines} == {"overall"}


def test_a_sample_without_a_group_is_wrong_by_the_whole_figure() -> None:
    """The one person there is, aged 80, is missing from six samples in ten: each of those is off by 80."""
    sql = "SELECT region, AVG(age) AS age FROM visits GROUP BY region"
    job = changed(
        ("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region", sql), ("{rho: 0.5}", "{epsilon: 9, delta: 0}")
    )
    rows = {"patient_id": ["a"], "region": ["north"], "ward": ["A"], "age": [80.0]}
    found = rehearse(job, {"visits": pa.table(rows)}, data="dummy", runs=10)
    (line,) = [line for line in found.lines if line.figure == "age"]
    missed = (line.sample / 80) ** 2 * 10
    assert missed == pytest.approx(round(missed)) and 1 <= missed <= 10


# --- nodes and edges --------------------------------------------------------------------------------------------------------------------

CALL_JOB = """
version: 1
title: Calls
purpose: Plan lines.
sources: {calls: {path: calls.parquet}}
unit: UNIT
budget: {epsilon: 4, delta: 0}
columns:
  src: {type: integer}
  dst: {type: integer}
  place: {type: text, categories: [city, village]}
outputs:
  - {name: by_place, sql: "SELECT place, COUNT(*) AS calls FROM calls GROUP BY place ORDER BY calls", weight: 1}
publication: {folder: out, formats: [csv], confidence: 0.95}
"""


def _calls() -> pa.Table:
    """A ring of 400 people in the city, where everybody calls the next once in either direction; 10 pairs in the village, 20 times each."""
    city = [(i, (i + 1) % 400) for i in range(400)]
    village = [(1000 + 2 * i, 1001 + 2 * i) for i in range(10) for _ in range(20)]
    ends = [*city, *((b, a) for a, b in city), *village]
    src, dst = zip(*ends, strict=True)
    return pa.table({"src": src, "dst": dst, "place": ["city"] * 800 + ["village"] * 200})


@pytest.mark.parametrize(
    ("unit", "word", "units", "cut", "share"),
    [
        ("{edge: [src, dst], max_rows: 2, adjacency: add-remove}", "edges", [400, 10], [0, -180], 0.4),
        ("{edge: [src, dst], max_rows: 2, directed: true, adjacency: add-remove}", "edges", [800, 10], [0, -180], 0.4),
        ("{node: [src, dst], max_rows: 20, capped: true, adjacency: add-remove}", "nodes", [400, 20], [0, 0], 0.16),
    ],
    ids=["edge", "directed", "node"],
)
def test_calls_in_every_unit(unit: str, word: str, units: list[int], cut: list[float], share: float) -> None:
    found = rehearse(parse(CALL_JOB.replace("UNIT", unit)), {"calls": _calls()}, data="public", runs=10)
    assert found.unit == word and [line.truth for line in found.lines] == [800, 200]
    assert [line.people for line in found.lines] == units and [line.cut for line in found.lines] == cut
    assert [line.suppressed for line in found.lines] == [False, True]
    by = found.by("by_place", "place")
    assert by["village"]["calls"]["suppression error"] == 200 and by["city"]["calls"]["suppression error"] == 0
    # A pair of the village calls 20 times, so its sample's count is off by 20 sqrt(10 (1 - p) / p); ten samples are within twice of it
    # but for a chance of 1e-3 each way, and the edition fixes them.
    predicted = 20 * math.sqrt(10 * (1 - share) / share)
    assert predicted / 2 < by["village"]["calls"]["sample error"] < 2 * predicted


def test_people_of_several_tables() -> None:
    """The clinic's people have six drugs each and a cap of four; half of their drugs are of either ward."""
    found = rehearse(parse(CLINIC), clinic(), data="dummy", runs=4)
    assert found.unit == "people" and not found.left_out
    by = found.by("by_ward", "ward")
    lines = {(line.output, line.figure, *line.group): line for line in found.lines}
    assert lines["by_ward", "drugs", "x"].truth == 150 and lines["by_ward", "drugs", "x"].people == 50
    assert lines["by_ward", "drugs", "x"].cut + lines["by_ward", "drugs", "y"].cut == pytest.approx(-100)
    assert lines["people", "people"].truth == 50 and lines["people", "people"].cut == 0
    assert by["x"]["price"]["error"] > 0


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (20, []),
        (19, ["20 nodes of calls have more than 19 rows, up to 20"]),
        (4, ["20 nodes of calls have more than 4 rows, up to 20"]),
    ],
)
def test_a_cap_that_is_only_declared_is_checked(most: int, said: list[str]) -> None:
    """The village's twenty nodes have twenty calls each, the 400 of the city four."""
    unit = f"{{node: [src, dst], max_rows: {most}, capped: true, adjacency: add-remove}}"
    found = rehearse(parse(CALL_JOB.replace("UNIT", unit)), {"calls": _calls()}, data="public", runs=1)
    assert [line.partition("data: ")[2].partition(". ")[0] for line in found.broken] == said


def test_a_cap_that_is_enforced_is_never_broken() -> None:
    unit = "{edge: [src, dst], max_rows: 1, adjacency: add-remove}"
    assert not rehearse(parse(CALL_JOB.replace("UNIT", unit)), {"calls": _calls()}, data="public", runs=1).broken
