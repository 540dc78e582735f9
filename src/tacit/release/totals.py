"""Tables of one release that add up to the same total: `totals:` of a job.

Each table of a release has noise of its own, so the regions of one and the wards of another add up to different totals. Where
the job says that a figure of several tables has one total, the tables are made to agree by least squares: the common total is the mean
of all of theirs, weighted by how exact each is, and every group takes its part of what its table was off. It is post-processing of
released figures, so it costs nothing, and figures become more exact, not less. Non-negative and whole figures agree too.

What it cannot do is make tables agree that count different rows. So it is refused for questions with filters, joins or caps on groups,
and left out where the totals are further apart than their noise explains (`tacit.release.comparing`).

>>> agreeing(np.array([5.4, -0.9, 2.2]), 7.0, nonnegative=True, whole=True).tolist()
[5.0, 0.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.release.errors import JobError
from tacit.release.kinds.table import TablePlan
from tacit.release.planning import JobPlan
from tacit.tables import Answer, Figures

Floats = NDArray[np.float64]
#: Figures that are sums over the rows of their groups.
ADDED = ("count", "count_value", "sum")


def check(plan: JobPlan) -> None:
    """Refuse totals of tables that surely do not count the same rows. It looks at the questions alone."""
    for number, spec in enumerate(plan.job.totals):
        place = f"totals[{number}]"
        planned = {output.spec.name: output for output in plan.outputs}
        tables: set[str] = set()
        for name in spec.outputs:
            found = planned[name]
            if not isinstance(found, TablePlan):
                raise JobError(f"{name} is no table; workloads make their figures agree by themselves", place=place)
            why = _why_not(found, spec.figure)
            if why:
                raise JobError(f"{spec.figure} of {name} {why}", place=place)
            tables |= set(found.plan.question.tables)
        if len(tables) != 1:
            raise JobError(f"the outputs ask {' and '.join(sorted(tables))}, which have different rows", place=place)
        expressions = {_asked(planned[name], spec.figure) for name in spec.outputs}
        if len(expressions) != 1:
            raise JobError(f"{spec.figure} is not the same figure in all of these outputs", place=place)


def _asked(found: Any, figure: str) -> str:
    aggregate = next(recipe.aggregate for recipe in found.plan.recipes if recipe.aggregate.name == figure)
    return f"{aggregate.kind} {aggregate.value.sql() if aggregate.value is not None else ''}"


def _why_not(found: TablePlan, figure: str) -> str:
    recipe = next((recipe for recipe in found.plan.recipes if recipe.aggregate.name == figure), None)
    unit, question = found.plan.unit, found.plan.question
    if recipe is None or recipe.aggregate.kind not in ADDED:
        return "is no count or sum of rows, so it does not add up to a total"
    if not found.whole_table or question.where is not None:
        return "is about a part of the rows (a filter, a join, a sub-query, or partial: true), so its total is another one"
    if found.private_keys or question.levels or question.outputs or question.having is not None or question.limit is not None:
        return "has lines that are selected, computed or sub-totals; ask for plain groups whose values are declared"
    if question.grouped and (unit.max_groups is not None or unit.rows_per_group is not None):
        return "is capped by groups, so tables with other groups count other rows; cap a unit's rows with max_rows alone"
    return ""


def made_to_agree(plan: JobPlan, bare: Mapping[str, Answer], finished: Mapping[str, Any]) -> dict[str, Any]:
    """The answers with their totals agreeing. `bare` are the tables before non-negativity and rounding."""
    made = dict(finished)
    chosen = {output.spec.name: output for output in plan.outputs if isinstance(output, TablePlan)}
    for spec in plan.job.totals:
        names = [name for name in spec.outputs if name in bare]
        if len(names) < 2:
            continue
        variances = {name: _variances(bare[name].figures[spec.figure]) for name in names}
        if not all(np.isfinite(v).all() and v.sum() > 0 for v in variances.values()):
            continue
        totals = {name: float(bare[name].figures[spec.figure].value.sum()) for name in names}
        weights = {name: 1 / float(variances[name].sum()) for name in names}
        whole = sum(weights.values())
        common = sum(weights[name] * totals[name] for name in names) / whole
        rounded = any(spec.figure in chosen[name].spec.postprocess.whole for name in names)
        positive = any(spec.figure in chosen[name].spec.postprocess.nonnegative for name in names)
        goal = max(common, 0.0) if positive else common
        goal = float(np.rint(goal)) if rounded else goal
        for name in names:
            old = bare[name].figures[spec.figure]
            moved = _moved(old, variances[name], common, 1 / whole, gaussian=all(part.law == "gaussian" for part in bare[name].noise))
            value = agreeing(moved.value, goal, nonnegative=positive, whole=rounded)
            low, high = (np.maximum(end, 0.0) if positive else end for end in (moved.low, moved.high))
            ends = (np.floor(low), np.ceil(high)) if rounded else (low, high)
            figures = {**made[name].figures, spec.figure: replace(moved, value=value, low=ends[0], high=ends[1])}
            others = " and ".join(other for other in names if other != name)
            note = f"{spec.figure} was made to add up to the same total as that of {others}: post-processing, which costs nothing"
            raw = made[name].raw_figures or made[name].figures
            made[name] = replace(made[name], figures=figures, raw_figures=raw, notes=(*made[name].notes, note))
    return made


def _variances(figures: Figures) -> Floats:
    """The variances of groups, in squared half widths: all intervals have one confidence."""
    return np.asarray(((figures.high - figures.low) / 2) ** 2, dtype=np.float64)


def _moved(figures: Figures, variance: Floats, common: float, of_common: float, *, gaussian: bool) -> Figures:
    """Every group takes its part of what the total was off. A group is what it was beside its total, which is independent of that, and its
    part of the common total; Gaussian intervals become narrower by that, others keep their width."""
    part = variance / variance.sum()
    value = figures.value + part * (common - figures.value.sum())
    half = np.sqrt(variance * (1 - part) + part**2 * of_common) if gaussian else np.sqrt(variance)
    return replace(figures, value=value, low=value - half, high=value + half)


def agreeing(values: Floats, total: float, *, nonnegative: bool, whole: bool) -> Floats:
    """The nearest values that add up to a total: none below 0 where that is asked, whole ones by their largest remainders."""
    found = np.asarray(values, dtype=np.float64) + (total - float(np.sum(values))) / len(values)
    if nonnegative:
        # The nearest point of a simplex: one number is taken from all, and what would be below 0 is 0 (Held, Wolfe and Crowder 1974).
        down = np.sort(found)[::-1]
        over = (np.cumsum(down) - total) / np.arange(1, len(down) + 1)
        last = max(int(np.count_nonzero(down - over > 0)) - 1, 0)
        found = np.maximum(found - over[last], 0.0)
    if whole:
        floor = np.floor(found)
        missing = round(total - float(floor.sum()))
        order = np.argsort(-(found - floor), kind="stable")
        floor[order[: max(0, missing)]] += 1
        found = floor
    return found

