"""`kind: survival`: survival curves of a source's patients, one for each group, from one noisy histogram.

>>> from tacit.release.kinds import find
>>> find("survival").Block(name="s", source="patients", time="months", event="died", bins={"upto": 120, "count": 60}, weight=1).time
'months'
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from tacit.applications.health import BEYOND, SurvivalPlan, edges_of
from tacit.errors import ParameterError
from tacit.release.errors import JobError
from tacit.release.job_parts import JobPart, Number, OutputSpec
from tacit.release.kinds import Notice, Portion, Record, fields
from tacit.release.page import DASHES, StepCurve, steps
from tacit.tables import Brackets, Desk
from tacit.workloads import Identity, Prefix, Product, Workload, best

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Survival curves"


class BinsSpec(JobPart):
    """Time bins of one width, from 0 up to a public time."""

    upto: Number
    count: int = Field(gt=0, le=2000)


class SurvivalSpec(OutputSpec):
    """Time to an event by group. `event` is 1 or true where it was observed and 0 or false where the patient was censored.

    `rows: one` says that a patient with several rows counts with one of them, chosen at random; without it the unit
    must have one row a patient. `where` is a condition in SQL.
    """

    source: str
    time: str
    event: str
    bins: BinsSpec | tuple[Number, ...]
    by: tuple[str, ...] = ()
    where: str | None = Field(default=None, min_length=1, max_length=100_000)
    rows: Literal["one"] | None = None

    @field_validator("by", "bins", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("bins")
    @classmethod
    def _rising(cls, value: BinsSpec | tuple[Number, ...]) -> BinsSpec | tuple[Number, ...]:
        try:
            edges_of(value.model_dump() if isinstance(value, BinsSpec) else value)
        except ParameterError as error:
            raise ValueError(str(error)) from None
        return value

    def check(self, columns: set[str]) -> None:
        """Every column is declared."""
        fields.refuse_unknown((*self.by, self.time, self.event), columns)

    @property
    def edges(self) -> tuple[float, ...]:
        """The public edges."""
        return edges_of(self.bins.model_dump() if isinstance(self.bins, BinsSpec) else self.bins)


Block = SurvivalSpec


@dataclass(frozen=True)
class SurvivalOutput(fields.CountedOutput):
    """A block that was checked, with the cells that patients are counted in."""

    figures: tuple[str, ...] = ("at risk",)
    _chosen: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def select(self, workload: Workload, law: Any) -> Any:
        """The strategy of least error, remembered."""
        if law not in self._chosen:
            self._chosen[law] = best(workload, law)
        return self._chosen[law]


def prepare(block: SurvivalSpec, job: Job, desk: Desk, place: str) -> SurvivalOutput:
    """Check the block against the job's sources and columns."""
    fields.private_source(block, desk, place)
    unit = desk.unit
    if unit.person is not None and unit.most_rows != 1:
        if block.rows is None or unit.capped:
            words = "a patient may have several rows; say rows: one, which keeps one of them at random, or declare max_rows: 1"
            raise JobError(words, place=f"{place}.rows")
        desk = fields.one_row(desk)
    columns = (*block.by, block.time, block.event)
    if len(set(columns)) != len(columns):
        raise JobError("time, event and by must be different columns", place=place)
    kinds: dict[str, Any] = {column: Identity for column in block.by}
    wanted = Product(**kinds, **{block.time: Prefix, block.event: Identity})
    declared = job.columns_of(block.source).get(block.event)
    seen: list[Any] = [True, False] if declared is not None and declared.type == "boolean" else [1, 0]
    cells: dict[str, Any] = {block.time: Brackets((*block.edges, BEYOND)), block.event: seen}
    cut, workload = fields.one_cell(block, desk, wanted, cells, "bin", place)
    return SurvivalOutput(block, desk, cut, workload, job.expected.people or job.expected.rows)


@dataclass(frozen=True)
class PlannedSurvival(fields.PlannedCounts):
    """Curves with their price and noise."""

    @property
    def curves(self) -> SurvivalPlan:
        """The plan of the curves."""
        spec, names = self.spec, self.output.cut.names
        groups = tuple(tuple(map(str, one)) for one in itertools.product(*(names[column] for column in spec.by)))
        return SurvivalPlan(self.measured, spec.edges, spec.time, spec.event, spec.by, groups)

    @cached_property
    def foretold(self) -> tuple[float, float] | None:
        """The mean and the largest error of a curve at the expected number of patients."""
        return None if self.output.patients is None else self.curves.foretold(self.output.patients)


def plan(output: SurvivalOutput, portion: Portion) -> PlannedSurvival:
    """What is measured for a portion of the budget. No data is touched."""
    return PlannedSurvival(output, portion, fields.measured_for(output, portion, select=output.select))


def notices(planned: PlannedSurvival, job: Job, place: str) -> list[Notice]:
    """What the curves will be off by, where the number of patients is expected."""
    found = planned.foretold
    if found is None:
        return []
    words = f"a curve will be off by {found[0]:.3f} on average and {found[1]:.3f} at its worst, by made-up patients"
    if found[0] <= 0.05:
        return []
    return [Notice("mostly-noise", place, f"{words}; use fewer bins or groups, or give it more weight")]


def explain(planned: PlannedSurvival) -> tuple[str, str]:
    """What is measured in words, and the statement that is sent."""
    found, told = planned.measured, planned.foretold
    words = f"{len(planned.curves.groups)} curves over {planned.curves.bins} bins from {found.selection.describe()}, {found.law} noise"
    if told is not None:
        words += f"; a curve is off by {told[0]:.3f} on average and {told[1]:.3f} at its worst, by made-up patients"
    return words, planned.statement


def draw(planned: PlannedSurvival) -> Record:
    """Count in the engine, add noise, once."""
    return planned.drawn()


def result(planned: PlannedSurvival, drawn: Record, private: bool, entry: int | None) -> fields.FieldAnswer:
    """The curves of what was drawn, and the log-rank test where there are groups."""
    released = [np.array(block, dtype=float) for block in drawn["sums"]]
    curves = planned.curves
    found = curves.curves(released, planned.output.confidence)
    parts, told = [], {}
    for group, curve in found.items():
        title = " ".join(f"{column} {value}" for column, value in zip(planned.spec.by, group, strict=True)) or "all patients"
        keys: dict[str, Sequence[Any]] = {column: [value] * len(curve.edges) for column, value in zip(planned.spec.by, group, strict=True)}
        value, low, high = (one.tolist() for one in (curve.survival, curve.lower, curve.upper))
        more = {"at_risk": curve.at_risk.tolist(), "cumulative_hazard": curve.cumulative_hazard.tolist()}
        parts.append(fields.FieldPart(title, {**keys, planned.spec.time: list(curve.edges)}, value, low, high, more))
        median = curve.median_survival_time_
        told[f"median, {title}"] = f"{median:g}" if math.isfinite(median) else "not reached"
        told[f"restricted mean, {title}"] = f"{curve.restricted_mean():.4g}"
    if len(found) > 1:
        test = curves.log_rank(released)
        told["log-rank test of equal hazards"] = f"statistic {test.statistic:.3f}, p = {test.p_value:.4f} (noise included)"
    return fields.FieldAnswer(parts, told, private)


def checks(planned: PlannedSurvival, result: fields.FieldAnswer) -> list[tuple[str, bool]]:
    """Curves are finite and never rise."""
    falls = all(bool((np.diff(part.value) <= 1e-12).all()) for part in result.parts)
    return [*fields.checks_of(result), ("no curve rises", falls)]


files = fields.files_of


def section(described: Record, confidence: str) -> str:
    """The curves as those who read them know them, with bands and numbers at risk, a few in each picture."""
    curves = []
    for part in described["parts"]:
        *_, times = part["groups"].values()
        name = part["title"] if len(described["parts"]) == 1 else " ".join(column[0] for column in list(part["groups"].values())[:-1])
        value, low, high = fields.ends_of(part)
        curves.append(StepCurve(name, [float(time) for time in times], value, low, high, part["more"]["at_risk"]))
    across = next((list(part["groups"])[-1] for part in described["parts"]), "")
    many = len(DASHES)
    drawn = [steps(curves[i : i + many], title="survival", across=across) for i in range(0, len(curves), many)]
    return fields.section_of(described, confidence, drawn)


def recorded(planned: PlannedSurvival, result: fields.FieldAnswer) -> Record:
    """The curves' public parameters and price."""
    spec = planned.spec
    return fields.recorded_of(
        planned, source=spec.source, time=spec.time, observed=spec.event, by=list(spec.by), edges=list(spec.edges),
        measured=planned.measured.selection.describe(),
    )


def post_processing(planned: PlannedSurvival) -> list[str]:
    """What is done to the released sums."""
    return ["least squares", "isotonic regression of running counts", "product-limit estimate", "simulated intervals and tests"]


def described(planned: PlannedSurvival, result: fields.FieldAnswer | None) -> Record:
    """What the report shows."""
    return fields.described_of(planned, result, [
        "The curve at a time is the estimated share that lives to it or beyond; the last bin, beyond, is not drawn.",
        "Intervals cover which patients happened to be sampled and the noise together; they are simulated, no guarantee.",
        "Numbers at risk are estimates: how many patients there are is private.",
        "A time that is missing, negative or infinite, and an event that is neither 1 nor 0, count for nothing.",
    ])  # fmt: skip


def review(outputs: Sequence[PlannedSurvival], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about survival curves."""
    return fields.review_of(private, "Small groups, and late times at which few patients are left.")
