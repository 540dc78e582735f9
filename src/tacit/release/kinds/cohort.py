"""`kind: cohort`: how many patients match, read by a public prior and loss; each patient counts once.

>>> from tacit.release.kinds import find
>>> find("cohort").Block(name="c", source="patients", at_most=1000, weight=1).at_most
1000
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from tacit.accounting import Event
from tacit.applications.health import CohortAnswer, CohortPlan, asymmetric, plan_cohort, prevalence
from tacit.errors import ParameterError
from tacit.release.errors import JobError
from tacit.release.job_parts import JobPart, OutputSpec
from tacit.release.kinds import Notice, Portion, Record, fields
from tacit.tables import Desk, TableError

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Counts of cohorts"


class LossSpec(JobPart):
    """What one patient too many and one too few cost."""

    over: float = Field(gt=0)
    under: float = Field(gt=0)


class CohortSpec(OutputSpec):
    """How many patients match `where`; `at_most` is a public bound. `prevalence` is a prior, `loss` what errors cost."""

    source: str
    at_most: int = Field(gt=0, le=10_000_000)
    where: str | None = Field(default=None, min_length=1, max_length=100_000)
    prevalence: float | None = Field(default=None, gt=0, lt=1)
    loss: LossSpec | None = None


Block = CohortSpec


@dataclass(frozen=True)
class CohortOutput(fields.Prepared):
    """A block that was checked. Its noise is the two-sided geometric law, so it is priced in epsilon."""

    plain: bool = False
    figures: tuple[str, ...] = ("patients",)

    def planned(self, epsilon: Any) -> CohortPlan:
        return plan_cohort(self.desk, fields.counted(self.spec), epsilon=epsilon, at_most=self.spec.at_most)


def prepare(block: CohortSpec, job: Job, desk: Desk, place: str) -> CohortOutput:
    """Check the block against the job's sources."""
    fields.private_source(block, desk, place)
    found = CohortOutput(block, desk)
    try:
        found.planned(1)
    except (ParameterError, TableError) as error:
        raise JobError(str(error), place=place) from None
    return found


@dataclass(frozen=True)
class PlannedCohort(fields.Priced):
    """A count with its price."""

    counted: CohortPlan
    noise: str = "two-sided geometric"
    size: int = 1

    @property
    def event(self) -> Event:
        return self.counted.event

    @property
    def score(self) -> float:
        return -math.log(float(self.counted.epsilon))

    def errors_at(self, confidence: float) -> dict[str, float]:
        return {"patients": self.counted.error(confidence)}


def plan(output: CohortOutput, portion: Portion) -> PlannedCohort:
    """The count at this price. No data is touched."""
    return PlannedCohort(output, portion, output.planned(fields.epsilon_of(portion, "a cohort has")))


def notices(planned: PlannedCohort, job: Job, place: str) -> list[Notice]:
    """Nothing: a count says by itself how far it may be off."""
    return []


def explain(planned: PlannedCohort) -> tuple[str, str]:
    """The chance to be near the truth, and the statement."""
    near = ", ".join(f"{planned.counted.within(e):.0%} within {e}" for e in (1, 5, 20))
    text = planned.counted.cut.statement([()]).sql(dialect=planned.output.desk.engine.dialect, pretty=True)
    return f"one count with two-sided geometric noise, {planned.event!r}; it is right with probability {near}", text


def draw(planned: PlannedCohort) -> Record:
    """Count in the engine, add noise, once."""
    return {"noisy": planned.counted.draw()}


def result(planned: PlannedCohort, drawn: Record, private: bool, entry: int | None) -> fields.FieldAnswer:
    """The count of least expected loss, and the interval of the posterior."""
    spec = planned.spec
    prior = None if spec.prevalence is None else prevalence(spec.prevalence, spec.at_most)
    more = {} if spec.loss is None else {"loss": asymmetric(spec.loss.over, spec.loss.under)}
    found = CohortAnswer(
        drawn["noisy"], spec.at_most, planned.counted.epsilon, planned.event, private, entry, prior, **more
    )
    low, high = found.interval(planned.output.confidence)
    value = float(found.value)
    part = fields.FieldPart("patients", {"cohort": [spec.name]}, [value], [float(min(low, value))], [float(max(high, value))])
    return fields.FieldAnswer([part], {"noisy count, for other priors and losses": str(found.noisy)}, private)


def checks(planned: PlannedCohort, result: fields.FieldAnswer) -> list[tuple[str, bool]]:
    """The count lies in its public range."""
    return [*fields.checks_of(result), ("the count is in its range", 0 <= result.parts[0].value[0] <= planned.spec.at_most)]


files, section = fields.files_of, fields.section_of


def recorded(planned: PlannedCohort, result: fields.FieldAnswer) -> Record:
    """Its public parameters and price."""
    spec = planned.spec
    loss = None if spec.loss is None else spec.loss.model_dump()
    return fields.recorded_of(planned, source=spec.source, at_most=spec.at_most, prevalence=spec.prevalence, loss=loss)


def post_processing(planned: PlannedCohort) -> list[str]:
    """What is done to the noisy count."""
    return ["clamped to its public range", "the answer of least expected loss under a public prior"]


def described(planned: PlannedCohort, result: fields.FieldAnswer | None) -> Record:
    """What the report shows."""
    return fields.described_of(planned, result, [
        "Each patient counts once, however many rows match.",
        "The interval is of the posterior under the prior that the job states (none: every count alike).",
    ])  # fmt: skip


def review(outputs: Sequence[PlannedCohort], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about cohorts."""
    return fields.review_of(private, "A count is about all patients of the cohort at once; small cohorts are hidden most.")
