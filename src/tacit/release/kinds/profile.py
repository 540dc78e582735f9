"""`kind: profile`: the energy of all households together in every interval, such as a day of half hours.

The block names the column of the interval and that of the readings, lists the public intervals, and clamps a reading. It is
the table question it stands for (`tacit.applications.energy.load_profile`), planned and drawn as one; whom it protects is
the job's unit, which should be the household with its caps.

>>> ProfileSpec(kind="profile", name="day", source="meters", interval="hour", value="kwh", intervals=[7, 8], clamp=[0, 4], weight=1).hours
(7, 8)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import field_validator, model_validator

from tacit.applications.energy import profile_question
from tacit.exact import exact
from tacit.release.job_parts import JobPart, Number, OutputSpec, Scalar
from tacit.release.kinds import Portion, Record, fields, table
from tacit.tables import Desk

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Load profiles"
#: More intervals than this are surely a mistake.
MOST = 10_000


class Intervals(JobPart):
    """Whole numbers from the first to the last."""

    first: int
    last: int

    @model_validator(mode="after")
    def _some(self) -> Intervals:
        if not 0 <= self.last - self.first < MOST:
            raise ValueError(f"intervals go from first to last, at most {MOST} of them")
        return self


class ProfileSpec(OutputSpec):
    """A profile: the sum of `value` in every `interval`, each reading clamped to `clamp`, which has no default."""

    source: str
    interval: str
    value: str
    intervals: Intervals | tuple[Scalar, ...]
    clamp: tuple[Number, Number]

    @field_validator("intervals", "clamp", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _in_order(self) -> ProfileSpec:
        if not exact("clamp", self.clamp[0]) < exact("clamp", self.clamp[1]):
            raise ValueError("clamp is [least, most] of one reading, with least below most, such as [0, 5]")
        if not self.hours or len(set(self.hours)) < len(self.hours):
            raise ValueError("intervals lists the public intervals, each once, or says {first: 0, last: 47}")
        return self

    @property
    def hours(self) -> tuple[Any, ...]:
        """The public intervals."""
        if isinstance(self.intervals, Intervals):
            return tuple(range(self.intervals.first, self.intervals.last + 1))
        return self.intervals

    def check(self, columns: set[str]) -> None:
        missing = [name for name in (self.interval, self.value) if name not in columns]
        if missing:
            raise ValueError(f"{self.name}: {missing[0]} is not in columns; add it with its type")


Block = ProfileSpec


def prepare(block: ProfileSpec, job: Job, desk: Desk, place: str) -> table.TableOutput:
    """The question that the profile stands for, checked."""
    fields.private_source(block, desk, place)
    asked = table.TableSpec(
        kind="profile", name=block.name, title=block.title, weight=block.weight, accuracy=block.accuracy,
        sql=profile_question(block.source, block.interval, block.value), keys={block.interval: block.hours},
        bounds={block.value: block.clamp},
    )  # fmt: skip
    return table.prepare(asked, job, desk, place)


def plan(output: table.TableOutput, portion: Portion) -> table.TablePlan:
    """The plan of the question at a price."""
    return table.plan(output, portion)


notices, explain, draw, result, checks = table.notices, table.explain, table.draw, table.result, table.checks
files, recorded, post_processing, section = table.files, table.recorded, table.post_processing, table.section


def described(planned: table.TablePlan, result: Any | None) -> Record:
    """A table, with what a reader of profiles should know."""
    found = table.described(planned, result)
    note = "A profile shows what most households do; of one household it shows no more than the promise allows."
    return {**found, "notes": [*found["notes"], note]}


def review(outputs: Sequence[table.TablePlan], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about profiles."""
    return {
        **table.review(outputs, private),
        "Do bounds or groups come from the data?": "No: the clamp of a reading and the intervals are declared in the job.",
    }
