"""Rehearsals: parts of an error add up, baselines have their known errors, subgroups are told apart, and private data is refused."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from tests.release.jobs import changed

from tacit.release.compare import Rehearsal, rehearse
from tacit.release.errors import JobError

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
