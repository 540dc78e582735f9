"""What would make a job better, in the order that deployments teach: bounds and caps first, then the split, the total last.

Every suggestion is a changed job that was planned again, so its errors are what that job would have. They are about noise; how much a lower
cap or a narrower bound cuts off depends on data, so it is said beside, and measured where dummy or public data is given to `rehearse`.

>>> from tacit.release.job import EXAMPLE, parse
>>> [found.kind for found in suggestions(parse(EXAMPLE))]
['caps', 'total']
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.exact import exact
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds import OutputPlan
from tacit.release.kinds.table import TablePlan, expected_size, least_cut
from tacit.release.planning import JobPlan, plan

#: An epsilon above this is not suggested: more budget is the last resort, and buys little.
MOST_EPSILON = 4


@dataclass(frozen=True)
class Suggestion:
    """A change, the errors before and after it (by output and figure), and what it costs in return.

    `worst` is there where a change helps the worst at the price of others: its relative error after over before.
    """

    kind: str
    change: str
    price: str
    job: Job
    before: Mapping[str, Mapping[str, float]]
    after: Mapping[str, Mapping[str, float]]
    worst: float | None = None

    @property
    def factor(self) -> float:
        """The geometric mean of errors after over errors before: 0.5 is half the error."""
        logs = [
            math.log(self.after[o][f] / self.before[o][f])
            for o in self.before
            for f in self.before[o]
            if self.before[o][f] > 0 and self.after[o][f] > 0
        ]
        return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0

    def __str__(self) -> str:
        if self.worst is not None:
            return (
                f"{self.change}: the largest relative error {self.worst:.2f} times what it is, others up to {self._most:.2f}. {self.price}"
            )
        return f"{self.change}: errors {self.factor:.2f} times what they are. {self.price}"

    @property
    def _most(self) -> float:
        return max(self.after[o][f] / self.before[o][f] for o in self.before for f in self.before[o] if self.before[o][f] > 0)


def suggestions(job: Job, planned: JobPlan | None = None, *, base: str | Path | None = None) -> list[Suggestion]:
    """Changes that help, in order: caps and bounds, then the split, then the total. `base` is the job's folder, as for `plan`."""
    now = planned or plan(job, base=base)
    if job.without_rows:
        return []  # the noise is in the reports already, or follows from the change of a load alone
    before = errors_of(now)
    found: list[Suggestion] = []
    for kind, change, price, changed in (*_caps(job), *_bounds(job), *_split(job, now), *_total(job)):
        try:
            after = errors_of(plan(changed, base=base))
        except JobError:
            continue  # the change makes the job impossible, so it is none
        worst = _worst(now, after) / _worst(now, before) if kind == "split" else None
        suggestion = Suggestion(kind, change, price, changed, before, after, worst)
        if (suggestion.factor if worst is None else worst) < 0.99:
            found.append(suggestion)
    return found


def errors_of(found: JobPlan) -> dict[str, dict[str, float]]:
    """Expected errors by output and figure: the noise, and what the caps cut off at the least, as far as the declared sizes tell."""
    return {output.spec.name: _total_errors(output, found.job) for output in found.outputs}


def _total_errors(output: OutputPlan, job: Job) -> dict[str, float]:
    found = dict(output.errors)
    if isinstance(output, TablePlan) and (cut := least_cut(output, job)):
        for recipe in output.plan.recipes:
            size = expected_size(recipe, output.rows)
            if recipe.aggregate.kind in ("count", "count_value", "sum") and size is not None:
                found[recipe.aggregate.name] += cut * size
    return found


Change = tuple[str, str, str, Job]


def _changed(job: Job, **parts: Any) -> Job:
    return job.model_copy(update=parts)


def _caps(job: Job) -> Iterator[Change]:
    unit = job.unit
    for name in ("max_rows", "rows_per_group", "max_groups"):
        cap = getattr(unit, name)
        if cap is not None and cap > 1 and not unit.capped:
            lower = max(1, cap // 2)
            who = "people" if unit.typed().noun == "person" else f"{unit.typed().noun}s"
            text = f"Rows of {who} above the cap are cut off: figures lean towards {who} with few rows; rehearse it on dummy or public data"
            yield "caps", f"unit.{name}: {lower} in place of {cap}", text, _changed(job, unit=unit.model_copy(update={name: lower}))
        people, rows = job.expected.people, job.expected.rows
        if cap is not None and not unit.capped and people is not None and rows is not None and rows > people * unit.typed().most_rows:
            # More rows a person than are kept: a higher cap loses less, and may well be worth its noise.
            higher = max(cap + 1, math.ceil(2 * cap * rows / (people * unit.typed().most_rows)))
            text = "Fewer rows are cut off, and the noise grows with the cap; both are in the errors"
            yield "caps", f"unit.{name}: {higher} in place of {cap}", text, _changed(job, unit=unit.model_copy(update={name: higher}))


def _bounds(job: Job) -> Iterator[Change]:
    for name, column in job.columns.items():
        if column.bounds is None:
            continue
        low, high = (exact("bound", end) for end in column.bounds)
        if high == low:
            continue
        # Half the width: from the end that is farther from zero, or from both where zero lies between.
        half = (high - low) / 2
        ends = (low, low + half) if low >= 0 else (high - half, high) if high <= 0 else (low / 2, high / 2)
        bounds = tuple(f"{float(end):.6g}" for end in ends)
        columns = {**job.columns, name: column.model_copy(update={"bounds": bounds})}
        text = "Values beyond are counted as the bound itself: sums and means of a long tail come closer to the middle"
        said = f"columns.{name}.bounds: [{bounds[0]}, {bounds[1]}] in place of [{float(low):g}, {float(high):g}]"
        yield "bounds", said, text, _changed(job, columns=columns)


def _split(job: Job, now: JobPlan) -> Iterator[Change]:
    """Weights that even out relative errors of counts: an error is about one over the root (Gaussian) or the size (Laplace) of a share."""
    weighted = _weighted(now)
    if len(weighted) < 2:
        return
    relative = {output.name: _relative(output, output.errors) for output in weighted}
    power = 1 if "laplace" in now.noise else 2
    mean = math.fsum(math.log(value) for value in relative.values()) / len(relative)
    if max(relative.values()) < 1.2 * min(relative.values()):
        return
    outputs = []
    for spec in job.outputs:
        if spec.weight is not None and spec.name in relative:
            weight = float(exact("weight", spec.weight)) * (relative[spec.name] / math.exp(mean)) ** (power / 2)
            spec = spec.model_copy(update={"weight": float(f"{weight:.3g}")})
        outputs.append(spec)
    shown = ", ".join(f"{spec.name}: {spec.weight:g}" for spec in outputs if isinstance(spec.weight, float))
    text = "What gets more is paid for by what gets less: ask your readers what matters"
    yield "split", f"weights {shown}", text, _changed(job, outputs=tuple(outputs))


def _weighted(now: JobPlan) -> list[TablePlan]:
    """The tables that have a weight: what the figures of another kind are expected to be is not known here."""
    return [output for output in now.outputs if isinstance(output, TablePlan) and output.spec.weight is not None]


def _relative(output: TablePlan, errors: Mapping[str, float]) -> float:
    """The largest error of a table, relative to what its figures are expected to be."""
    found = []
    for recipe in output.plan.recipes:
        size = float(output.rows)
        if recipe.intervals:
            width = float(recipe.intervals[0].upper - recipe.intervals[0].lower)
            size = width * (output.rows if recipe.aggregate.kind == "sum" else 1)
        found.append(errors[recipe.aggregate.name] / max(size, 1e-300))
    return max(max(found), 1e-300)


def _worst(now: JobPlan, errors: Mapping[str, Mapping[str, float]]) -> float:
    return max(_relative(output, errors[output.name]) for output in _weighted(now))


def _total(job: Job) -> Iterator[Change]:
    budget = job.budget
    name = "rho" if budget.rho is not None else "epsilon"
    amount = exact(name, getattr(budget, name))
    if amount * 2 > MOST_EPSILON:
        return
    text = "The last resort: doubling epsilon squares what an attacker can gain, and noise only halves"
    if name == "rho":
        text = "The last resort: epsilon grows with the root of rho, and noise shrinks with it"
    changed = budget.model_copy(update={name: str(amount * 2)})
    yield "total", f"budget.{name}: {float(amount * 2):g} in place of {float(amount):g}", text, _changed(job, budget=changed)
