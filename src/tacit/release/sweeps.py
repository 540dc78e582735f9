"""Sweeps: one job rehearsed with many settings, on made-up or public rows, and its error split by each step.

A sweep changes parts of a job (epsilon, caps, bounds, the law of the noise, anything that a job file can say), rehearses each
combination and keeps what was found. The error of every figure is split into what rounding to a lattice, clamping to bounds, caps,
noise and post-processing did to it; the parts other than noise add up to the mean error. Runs are kept in a file, one line each, and
compared with later ones. Nothing of it is private, so it is for dummy or public data, as `rehearse` is.

>>> from tacit.release.job import EXAMPLE, parse
>>> import pyarrow as pa
>>> table = pa.table({"patient_id": list(range(600)), "region": ["north"] * 500 + ["south"] * 100})
>>> found = sweep(parse(EXAMPLE), {"visits": table}, {"budget.epsilon": ["0.5", "2"]}, data="dummy", runs=5)
>>> [trial.settings["budget.epsilon"] for trial in found], found[0].parts["noise"] > found[1].parts["noise"]
(['0.5', '2'], True)
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tacit.pictures import BLUE, GREY, ORANGE, RED, check_path
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds.table import TablePlan
from tacit.release.planning import plan
from tacit.release.rehearsal import cut_off, rehearse
from tacit.release.sources import opened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The steps in the order in which they are split off.
STEPS = ("rounding", "clamping", "caps", "noise", "post-processing")
COLOURS = {"rounding": GREY, "clamping": ORANGE, "caps": RED, "noise": BLUE, "post-processing": "black"}
CAPS = ("max_rows", "rows_per_group", "max_groups")
MOST = 1000  # combinations in one sweep


@dataclass(frozen=True)
class Trial:
    """One figure under one combination of settings: means over its groups.

    `error` is the mean of the groups' root mean square errors. In `parts` noise is the mean of the root mean square of what
    it adds to a group's answer, and every other step the mean size of what it moves an answer by on average.
    """

    settings: Mapping[str, Any]
    output: str
    figure: str
    error: float
    relative: float
    coverage: float
    parts: Mapping[str, float]


def combinations(settings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every choice of one value for each path.

    >>> combinations({"budget.epsilon": [1, 2], "unit.max_rows": [3]})
    [{'budget.epsilon': 1, 'unit.max_rows': 3}, {'budget.epsilon': 2, 'unit.max_rows': 3}]
    """
    if not settings or any(not len(values) for values in settings.values()):
        raise JobError("settings must name parts of the job, such as budget.epsilon, with at least one value each")
    size = math.prod(len(values) for values in settings.values())
    if size > MOST:
        raise JobError(f"these settings have {size} combinations, and at most {MOST} are tried in one sweep")
    return [dict(zip(settings, chosen, strict=True)) for chosen in itertools.product(*settings.values())]


def changed(job: Job, settings: Mapping[str, Any]) -> Job:
    """The job with some of its parts changed, checked as a job file is. A path names them with dots: `columns.age.bounds`."""
    told = job.model_dump(mode="json", exclude_unset=True, by_alias=True)
    for path, value in settings.items():
        *above, last = path.split(".")
        place: Any = told
        for name in above:
            if isinstance(place, list):
                place = next((part for part in place if isinstance(part, dict) and part.get("name") == name), None)
            else:
                place = place.get(name) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise JobError(f"settings has the path {path!r}, which the job does not have", place=path)
        place[last] = list(value) if isinstance(value, tuple) else value
    return Job.model_validate(told)


def sweep(
    job: Job, tables: Mapping[str, pa.Table], settings: Mapping[str, Sequence[Any]], *, data: str, runs: int = 20
) -> list[Trial]:
    """Rehearse the job with every combination of settings, on made-up tables (`data='dummy'`) or public ones (`data='public'`)."""
    found: list[Trial] = []
    for chosen in combinations(settings):
        found += _tried(changed(job, chosen), tables, chosen, data, runs)
    return found


def _tried(job: Job, tables: Mapping[str, pa.Table], chosen: Mapping[str, Any], data: str, runs: int) -> Iterator[Trial]:
    rehearsed = rehearse(job, tables, data=data, runs=runs)
    # Nothing is capped, and then also nothing clamped: the bounds of made-up or public rows may be read from them.
    uncapped = _uncapped(job, tables)
    clamped, rounded = _kept(uncapped, tables), _kept(_unclamped(uncapped, tables), tables)
    lines: dict[tuple[str, str], list[tuple[float, float, float, dict[str, float]]]] = {}
    for line in rehearsed.lines:
        if math.isnan(line.covered):
            continue  # made-up rows tell no interval, and their error is the model's as well
        key = (line.output, line.figure, line.group)
        rounding = rounded.get(key, line.truth) - line.truth
        clamping = clamped.get(key, line.truth) - line.truth - rounding
        parts = {
            "rounding": abs(rounding), "clamping": abs(clamping), "caps": abs(line.cut - clamping - rounding),
            "noise": line.spread, "post-processing": abs(line.post),
        }  # fmt: skip
        lines.setdefault((line.output, line.figure), []).append((line.size, abs(line.truth), line.covered, parts))
    for (output, figure), some in lines.items():
        many, truth = len(some), math.fsum(one[1] for one in some)
        error = math.fsum(one[0] for one in some)
        yield Trial(
            dict(chosen), output, figure, error / many, error / truth if truth else math.inf, math.fsum(one[2] for one in some) / many,
            {step: math.fsum(one[3][step] for one in some) / many for step in STEPS},
        )  # fmt: skip


def _uncapped(job: Job, tables: Mapping[str, pa.Table]) -> Job:
    """The job with caps that no person reaches."""
    rows = max(1, *(table.num_rows for table in tables.values()))
    wide = {f"unit.{cap}": rows for cap in CAPS if getattr(job.unit, cap) is not None}
    return changed(job, wide) if wide else job


def _unclamped(job: Job, tables: Mapping[str, pa.Table]) -> Job:
    """The job with bounds that all rows lie within."""
    wide: dict[str, Any] = {}
    for name, column in job.columns.items():
        if column.bounds is None:
            continue
        low, high = (float(end) for end in column.bounds)
        for table in tables.values():
            if name in table.column_names and (pa.types.is_floating(table[name].type) or pa.types.is_integer(table[name].type)):
                ends = pc.min_max(table[name]).as_py()
                if ends["min"] is not None and math.isfinite(ends["min"]) and math.isfinite(ends["max"]):
                    low, high = min(low, ends["min"]), max(high, ends["max"])
        wide[f"columns.{name}.bounds"] = [f"{low:.17g}", f"{high:.17g}"]
    return changed(job, wide) if wide else job


def _kept(job: Job, tables: Mapping[str, pa.Table]) -> dict[tuple[str, str, tuple[Any, ...]], float]:
    """Every figure as a job's caps and bounds leave it, without noise."""
    source = opened(job, Path(), tables)
    return {
        (found.output, found.figure, found.group): found.kept
        for output in plan(job, source).outputs
        if isinstance(output, TablePlan)
        for found in cut_off(output, job, source.engine)
    }


# --- kept, compared, drawn -------------------------------------------------------------------------------------------------------------


def keep(trials: Iterable[Trial], path: str | PathLike[str], *, run: str) -> None:
    """Add trials to a file, one line of JSON each, under the name of this run."""
    with Path(path).open("a", encoding="utf-8") as file:
        for trial in trials:
            file.write(json.dumps({"run": run, **asdict(trial)}, sort_keys=True) + "\n")


def kept(path: str | PathLike[str]) -> dict[str, list[Trial]]:
    """All runs of a file, in the order in which they were added."""
    found: dict[str, list[Trial]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        found.setdefault(told.pop("run"), []).append(Trial(**told))
    return found


def compare(before: Sequence[Trial], after: Sequence[Trial]) -> list[tuple[Trial, Trial, float]]:
    """Trials of the same figure and settings in two runs, and the ratio of their errors, the worst first."""
    known = {(json.dumps(trial.settings, sort_keys=True), trial.output, trial.figure): trial for trial in before}
    pairs = [
        (known[key], trial, trial.error / known[key].error if known[key].error else math.inf)
        for trial in after
        if (key := (json.dumps(trial.settings, sort_keys=True), trial.output, trial.figure)) in known
    ]
    return sorted(pairs, key=lambda pair: -pair[2])


def picture(trials: Sequence[Trial], path: str | PathLike[str] | None = None) -> Figure:
    """Bars for each combination of settings, one picture for each figure: what each step contributes. Written to `path` if given."""
    from matplotlib.figure import Figure

    if not trials:
        raise JobError("there is no trial to draw; no output of the job could be compared")
    if path is not None:
        check_path(path)
    figures = list(dict.fromkeys((trial.output, trial.figure) for trial in trials))
    canvas = Figure(figsize=(7.2, 2.9 * len(figures)), dpi=130, layout="constrained")
    for axis, (output, name) in zip(canvas.subplots(len(figures), 1, squeeze=False)[:, 0], figures, strict=True):
        some = [trial for trial in trials if (trial.output, trial.figure) == (output, name)]
        base = [0.0] * len(some)
        for step in STEPS:
            sizes = [trial.parts[step] for trial in some]
            axis.bar(range(len(some)), sizes, bottom=base, color=COLOURS[step], label=step, width=0.7)
            base = [low + size for low, size in zip(base, sizes, strict=True)]
        labels = ["\n".join(f"{path.split('.')[-1]} {value}" for path, value in trial.settings.items()) for trial in some]
        axis.set(title=f"{output}: {name}", ylabel="error by step")
        axis.set_xticks(range(len(some)), labels, fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7, frameon=False)
    if path is not None:
        canvas.savefig(path)
    return canvas
