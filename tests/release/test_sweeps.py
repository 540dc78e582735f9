"""Sweeps: each step's part of the error against a hand count, settings that change what they say, runs that are kept and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tacit.release.errors import JobError
from tacit.release.job import EXAMPLE, Job, parse
from tacit.release.sweeps import STEPS, Trial, changed, combinations, compare, keep, kept, picture, sweep

COSTS = (
    EXAMPLE.replace("region: {type: text", "cost: {type: number, bounds: [0, 100]}\n  region: {type: text")
    .replace("COUNT(*) AS visits", "SUM(cost) AS total")
    .replace("epsilon: 1", "epsilon: 50")
)


def visits() -> pa.Table:
    """100 people: 50 in the north with one visit of 40 each; 50 in the south with six visits each, one of 160 and five of 30."""
    north = [(p, "north", 40.0) for p in range(50)]
    south = [(p, "south", cost) for p in range(50, 100) for cost in (160.0, *[30.0] * 5)]
    people, regions, costs = zip(*north, *south, strict=True)
    return pa.table({"patient_id": people, "region": regions, "cost": costs})


def costs() -> Job:
    return parse(COSTS)


def test_each_step_has_the_part_that_is_counted_by_hand() -> None:
    """Means over two regions. Clamping takes 60 from 50 visits in the south: 3,000, so 1,500. Four of six visits are kept, which are on
    average two thirds of what clamping left, (100 + 150) * 50: a third of 12,500, so 2,083; 0.5 % is the spread of which are drawn."""
    (found,) = sweep(costs(), {"visits": visits()}, {"unit.max_rows": [4]}, data="dummy", runs=20)
    assert found.parts["clamping"] == pytest.approx(1500, abs=0.5)
    assert found.parts["caps"] == pytest.approx(12_500 / 6, rel=0.05)
    assert found.parts["rounding"] < 1
    assert found.parts["post-processing"] == 0


def test_wider_caps_and_bounds_remove_their_parts() -> None:
    grid = {"unit.max_rows": [4, 6], "columns.cost.bounds": [["0", "100"], ["0", "160"]]}
    found = {(t.settings["unit.max_rows"], t.settings["columns.cost.bounds"][1]): t.parts
             for t in sweep(costs(), {"visits": visits()}, grid, data="dummy", runs=4)}  # fmt: skip
    assert len(found) == 4
    assert found[6, "100"]["caps"] < 1 < found[4, "100"]["caps"] and found[6, "160"]["caps"] < 1
    assert found[4, "160"]["clamping"] < 1 and found[6, "160"]["clamping"] < 1 < found[6, "100"]["clamping"]
    # what is won on one side is paid on the other: the noise grows with both
    assert found[4, "100"]["noise"] < found[6, "160"]["noise"]


def test_noise_falls_with_epsilon_as_it_must() -> None:
    """Standard deviations from 100 runs of two regions have a relative error of about 1 / sqrt(400): 0.05; the ratio must be 4."""
    found = sweep(parse(EXAMPLE), {"visits": visits()}, {"budget.epsilon": ["0.5", "2"]}, data="public", runs=100)
    ratio = found[0].parts["noise"] / found[1].parts["noise"]
    assert 3.2 < ratio < 5
    assert all(trial.coverage > 0.85 for trial in found if trial.parts["caps"] < 1)


def test_settings_are_parts_of_a_job() -> None:
    job = changed(parse(EXAMPLE), {"budget.epsilon": "0.25", "outputs.by_region.weight": 2, "unit.max_rows": 3})
    assert str(job.budget.epsilon) == "0.25" and job.unit.max_rows == 3 and job.outputs[0].weight == 2
    assert combinations({"a": [1, 2], "b": "xy"}) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    for path in ("nowhere.epsilon", "outputs.none.weight", "title.x"):
        with pytest.raises(JobError, match="does not have"):
            changed(parse(EXAMPLE), {path: 1})
    with pytest.raises(ValueError, match="epsilon"):
        changed(parse(EXAMPLE), {"budget.epsilon": "-1"})
    for settings in ({}, {"budget.epsilon": []}, {"budget.epsilon": list(range(1, 1002))}):
        with pytest.raises(JobError):
            combinations(settings)
    with pytest.raises(JobError, match="dummy"):
        sweep(parse(EXAMPLE), {"visits": visits()}, {"budget.epsilon": ["1"]}, data="private")


def test_runs_are_kept_compared_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    one = [Trial({"unit.max_rows": m}, "t", "n", 10.0 * m, 0.1, 0.95, dict.fromkeys(STEPS, 2.0 * m)) for m in (1, 2)]
    two = [Trial({"unit.max_rows": m}, "t", "n", 15.0, 0.1, 0.95, dict.fromkeys(STEPS, 3.0)) for m in (1, 2, 3)]
    keep(one, file, run="monday")
    keep(two, file, run="tuesday")
    assert kept(file) == {"monday": one, "tuesday": two}
    assert [(after.settings["unit.max_rows"], ratio) for _, after, ratio in compare(one, two)] == [(1, 1.5), (2, 0.75)]
    drawn = picture(two, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes()[:4] == b"\x89PNG"
    bars = drawn.axes[0].containers
    assert len(bars) == len(STEPS) and np.sum([bar[0].get_height() for bar in bars]) == pytest.approx(15)
    with pytest.raises(JobError, match="draw"):
        picture([])
