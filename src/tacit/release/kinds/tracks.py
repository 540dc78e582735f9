"""`kind: tracks`: in which key frames of a video objects were seen, by randomised response, and unbiased counts from it.

The source is a tracker's table with one row for each object and frame; the object is the job's person. Key frames are
public and declared. Each object's presence in all of them is one report that costs the output's part of the budget, so
few key frames give good counts and many none: the plan says which, and refuses more than the budget can carry.

>>> spec = TracksSpec(name="plaza", kind="tracks", source="seen", frame="frame", keyframes={"upto": 900, "every": 300}, weight=1)
>>> spec.frames
(0, 300, 600)
>>> from fractions import Fraction
>>> planned = plan(TracksOutput(spec, None, 500), Portion(Fraction(1), Guarantee(epsilon=3), None))
>>> planned.event, round(planned.errors_at(0.95)["objects"], 1)
(Repeated(event=RandomizedResponse(epsilon=Fraction(1, 1), categories=2), count=3), 42.1)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator
from sqlglot import exp

from tacit.accounting import Event, Guarantee
from tacit.applications.vision import Presence, presence_bits
from tacit.release import page as pictures
from tacit.release.job_parts import JobPart, OutputSpec
from tacit.release.kinds import Notice, Portion, Record, fields, marked, table_files
from tacit.release.page import template
from tacit.tables import Desk

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Tables of aggregates"
#: Objects that errors are foretold for where the job declares none.
USUAL = 100


class KeyFramesSpec(JobPart):
    """Every so many frames from 0 on, below `upto`."""

    upto: int = Field(ge=1)
    every: int = Field(ge=1)


class TracksSpec(OutputSpec):
    """Presence of objects in key frames: a list of frame numbers, or {upto, every}."""

    source: str
    frame: str
    keyframes: tuple[int, ...] | KeyFramesSpec

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        given = value.get("keyframes") if isinstance(value, dict) else None
        return {**value, "keyframes": tuple(given)} if isinstance(value, dict) and isinstance(given, list) else value

    @model_validator(mode="after")
    def _in_order(self) -> TracksSpec:
        if not self.frames or len(self.frames) > 1000 or any(b <= a for a, b in pairwise(self.frames)):
            raise ValueError("keyframes are 1 to 1000 frame numbers in increasing order, or {upto: 900, every: 90}")
        return self

    @property
    def frames(self) -> tuple[int, ...]:
        """The key frames."""
        given = self.keyframes
        return tuple(range(0, given.upto, given.every)) if isinstance(given, KeyFramesSpec) else given


Block = TracksSpec


@dataclass(frozen=True)
class TracksOutput(fields.Prepared):
    """A block that was checked. Randomised response is priced by itself, in epsilon and delta."""

    objects: int
    plain: bool = False
    figures: tuple[str, ...] = ("objects",)


def prepare(block: TracksSpec, job: Job, desk: Desk, place: str) -> TracksOutput:
    """Check the block against the job's source and unit."""
    fields.owned_rows(
        block, "frame", "the number of the frame", job, desk, place,
        words="tracks need an object: unit: {person: <the object's column>, max_rows: ...}, without a window",
        known="every object reports and their number is public",
    )
    return TracksOutput(block, desk, job.expected.people or USUAL)


@dataclass(frozen=True)
class PlannedTracks(fields.Priced):
    """Presence with its price."""

    presence: Presence
    noise: str = "randomised response"

    @property
    def event(self) -> Event:
        return self.presence.event

    @property
    def size(self) -> int:
        return len(self.spec.frames)

    @property
    def score(self) -> float:
        return math.log(self.errors_at(0.95)["objects"])

    def errors_at(self, confidence: float) -> dict[str, float]:
        """How far the count of a key frame may be off, among the declared number of objects."""
        return {"objects": self.presence.error(self.output.objects, confidence)}


def plan(output: TracksOutput, portion: Portion) -> PlannedTracks:
    """Randomised response for a portion of the budget. No data is touched."""
    epsilon = fields.epsilon_of(portion, "presence bits have")
    return PlannedTracks(output, portion, Presence(len(output.spec.frames), Guarantee(epsilon=epsilon)))


def notices(planned: PlannedTracks, job: Job, place: str) -> Iterable[Notice]:
    """Refuse more key frames than the budget can carry for the declared objects."""
    objects, most = planned.output.objects, planned.presence.carries(planned.output.objects)
    if planned.presence.keyframes > most:
        advice = f"use at most {most} key frames, or a larger budget" if most else "use a larger budget"
        text = (
            f"{planned.presence.keyframes} key frames are more bits than the budget can carry for {objects} objects: a count would be "
            f"off by more than all of them; {advice}"
        )
        yield Notice("too-many-bits", f"{place}.keyframes", text, refuses=job.expected.people is not None)


def explain(planned: PlannedTracks) -> tuple[str, str]:
    """What is done in words, and the statement that is sent."""
    words = (
        f"presence in {planned.presence.keyframes} key frames; each bit is turned round with probability {planned.presence.flip:.4f}: "
        f"{planned.event!r} for one object"
    )
    return words, _statement(planned).sql()


def _statement(planned: PlannedTracks) -> exp.Select:
    return fields.owned_statement(planned.output.desk, planned.spec.source, planned.spec.frame).distinct()


def draw(planned: PlannedTracks) -> Record:
    """Read the tracks and randomise every object's presence, once."""
    table = planned.output.desk.engine.run(_statement(planned))
    objects, frames = (table.column(place).to_pylist() for place in range(2))
    seen = [(who, frame) for who, frame in zip(objects, frames, strict=True) if who is not None and who == who]  # NaN is none
    bits = presence_bits(seen, planned.spec.frames)
    return {"reports": ["".join(map(str, row)) for row in planned.presence.reports(bits).tolist()]}


@dataclass(frozen=True, repr=False)
class MadeTracks:
    """Randomised presence, a row for each object, and the counts that follow."""

    reports: np.ndarray[Any, Any]
    counts: list[float]
    within: float
    private: bool

    def __repr__(self) -> str:
        return f"counts of {len(self.reports)} objects in {len(self.counts)} key frames"


def result(planned: PlannedTracks, drawn: Record, private: bool, entry: int | None) -> MadeTracks:
    """The counts of a draw."""
    rows = drawn["reports"]
    reports = np.array([[int(bit) for bit in row] for row in rows], dtype=np.int64).reshape(len(rows), planned.presence.keyframes)
    within = planned.presence.error(max(1, len(rows)), planned.output.confidence)
    return MadeTracks(reports, [float(value) for value in planned.presence.counts(reports)], within, private)


def _table(planned: PlannedTracks, result: MadeTracks) -> pa.Table:
    low, high = ([value + side * result.within for value in result.counts] for side in (-1, 1))
    return pa.table({"frame": list(planned.spec.frames), "objects": result.counts, "low": low, "high": high})


def checks(planned: PlannedTracks, result: MadeTracks) -> list[tuple[str, bool]]:
    """A count for every key frame, and bits only."""
    bits = bool(np.isin(result.reports, (0, 1)).all())
    return [("every key frame has a count", len(result.counts) == planned.size), ("reports are bits", bits)]


def files(planned: PlannedTracks, result: MadeTracks, formats: Sequence[str]) -> dict[str, bytes]:
    """The counts, and the randomised presence from which anything else can be computed."""
    name, frames = planned.spec.name, planned.spec.frames
    presence = pa.table({f"frame_{frame}": result.reports[:, place] for place, frame in enumerate(frames)})
    found = table_files(name, marked(_table(planned, result), result.private), formats)
    return {**found, **table_files(f"{name}_presence", marked(presence, result.private), formats)}


def recorded(planned: PlannedTracks, result: MadeTracks) -> Record:
    """The method and its price."""
    return fields.recorded_of(
        planned, source=planned.spec.source, keyframes=list(planned.spec.frames), flip=planned.presence.flip
    )


def unprotected(planned: PlannedTracks) -> list[str]:
    """What is taken to be known."""
    return ["how many objects there are in the video"]


def post_processing(planned: PlannedTracks) -> list[str]:
    """Counts are estimated from the reports."""
    return ["unbiased estimate"]


def described(planned: PlannedTracks, result: MadeTracks | None) -> Record:
    """What the report shows: the counts with their errors."""
    counts = [] if result is None else result.counts
    within = 0.0 if result is None else result.within
    notes = [
        "Each object's presence in the key frames was randomised before anything was counted: two objects look alike, up to epsilon.",
        "Counts are estimated without bias, so some may be below 0. How many objects there are is taken to be known.",
    ]
    return fields.opening_of(planned, result, notes) | {
        "objects": 0 if result is None else len(result.reports),
        "frames": [str(frame) for frame in planned.spec.frames],
        "value": counts,
        "low": [value - within for value in counts],
        "high": [value + within for value in counts],
        "flip": f"{planned.presence.flip:.4f}",
    }


def section(described: Record, confidence: str) -> str:
    """A picture of the counts."""
    frames, value, low, high = (described[name] for name in ("frames", "value", "low", "high"))
    drawn = pictures.table({"frame": frames}, "objects", value, low, high) if value else ""
    return template("tracks.html").render(output=described, picture=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedTracks], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about tracks."""
    return {
        "Do bounds or groups come from the data?": "No: key frames are declared in the job.",
        "Who bears the noise?": "Every count alike: its error does not depend on how many objects are seen.",
    }

