"""What the kinds of the fields share: figures as tables with intervals, their files, and their section of the report.

A kind of a field reads its block, plans and draws; its result is a `FieldAnswer`, and the functions here do the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.accounting import Adjacency, Event, to_json
from tacit.release import page as pictures
from tacit.release.kinds import OutputPlan, Portion, Record, marked, table_files
from tacit.release.page import plain, template
from tacit.workloads import Measured, measured

#: Groups of figures that are drawn, and lines of each.
SHOWN, LINES = 8, 400


@dataclass(frozen=True)
class PlannedCounts:
    """An output whose counts are measured by a plan of `tacit.workloads`, with its price. `output` is the checked block.

    A workload is the plainest of them; the fields' kinds make figures of their own from the counts.
    """

    output: Any
    portion: Portion
    measured: Measured

    @property
    def spec(self) -> Any:
        """Its block of the job."""
        return self.output.spec

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.measured.event

    @property
    def noise(self) -> str:
        """The law of its noise."""
        return self.measured.law

    @property
    def size(self) -> int:
        """How many numbers are published."""
        return self.measured.workload.questions

    @property
    def score(self) -> float:
        """The logarithm of its error."""
        return math.log(self.measured.expected_error)

    @property
    def errors(self) -> dict[str, float]:
        """How far its figure may be off, with the publication's confidence."""
        return self.errors_at(self.output.desk.confidence)

    def errors_at(self, confidence: float) -> dict[str, float]:
        """The same with another confidence."""
        return {self.output.figures[0]: sum(found := self.measured.widths(confidence)) / len(found)}

    def drawn(self) -> Record:
        """Count in the engine, add noise, once."""
        blocks = self.measured.draw(self.output.cut.counts(self.measured.selection.tables))
        return {"sums": [np.asarray(block).tolist() for block in blocks]}

    @property
    def statement(self) -> str:
        """The statement that is sent."""
        found = self.output.cut.statement(self.measured.selection.tables)
        return str(found.sql(dialect=self.output.desk.engine.dialect, pretty=True))


def measured_for(output: Any, portion: Portion, **more: Any) -> Measured:
    """The plan of an output's counts for a portion of the budget; each patient counts once."""
    law: Any = None if portion.law is None else "gaussian" if portion.law == "gaussian" else "laplace"
    replaced = output.desk.unit.adjacency is Adjacency.REPLACE_ONE
    return measured(output.workload, portion.spend, law=law, confidence=output.desk.confidence, replaced=replaced, **more)


@dataclass(frozen=True)
class FieldPart:
    """Figures of one title: what each is about, its value, and its interval."""

    title: str
    groups: Mapping[str, Sequence[str]]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    more: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def to_arrow(self) -> pa.Table:
        """One line for each figure."""
        return pa.table({**self.groups, "value": self.value, "low": self.low, "high": self.high, **self.more})

    @property
    def finite(self) -> bool:
        """Whether every figure is a number."""
        return all(math.isfinite(one) for one in (*self.value, *self.low, *self.high))


@dataclass(frozen=True)
class FieldAnswer:
    """All figures of an output, and single ones in words."""

    parts: Sequence[FieldPart]
    told: Mapping[str, str]
    private: bool


def refuse_unknown(wanted: Sequence[str], columns: set[str]) -> None:
    """Refuse a column that the job does not declare, with a ValueError, as blocks do."""
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        raise ValueError(f"{unknown[0]} is no declared column; there are {', '.join(sorted(columns))}")


def names_of(planned: OutputPlan, parts: int) -> list[str]:
    """The files of an output, without their endings."""
    return [planned.spec.name if parts == 1 else f"{planned.spec.name}_{i + 1}" for i in range(parts)]


def checks_of(result: FieldAnswer) -> list[tuple[str, bool]]:
    """Soundness of the figures; released numbers only."""
    return [("every figure is finite", all(part.finite for part in result.parts)), ("there are figures", bool(result.parts))]


def files_of(planned: OutputPlan, result: FieldAnswer, formats: Sequence[str]) -> dict[str, bytes]:
    """A table for each group of figures, in every format, and what is told in words."""
    found: dict[str, bytes] = {}
    for name, part in zip(names_of(planned, len(result.parts)), result.parts, strict=True):
        found |= table_files(name, marked(part.to_arrow(), result.private), formats)
    if result.told:
        found[f"{planned.spec.name}_told.json"] = json.dumps({**result.told, "private": result.private}, indent=1).encode()
    return found


def recorded_of(planned: Any, **more: object) -> Record:
    """Its part of release.json."""
    return {
        **more,
        "part": float(planned.portion.part),
        "price": planned.portion.spend.words,
        "event": json.loads(to_json(planned.event)),
        "noise": planned.noise,
    }


def described_of(planned: Any, result: FieldAnswer | None, notes: Sequence[str]) -> Record:
    """What the report shows."""
    parts: list[Record] = []
    for part in () if result is None else result.parts:
        ends = {name: [plain(float(x)) for x in getattr(part, name)[:LINES]] for name in ("value", "low", "high")}
        groups = {name: [str(x) for x in values[:LINES]] for name, values in part.groups.items()}
        parts.append({"title": part.title, "groups": groups, **ends})
    return {
        "name": planned.spec.name,
        "title": planned.spec.title,
        "answered": result is not None,
        "parts": parts,
        "told": {} if result is None else dict(result.told),
        "foretold": {name: plain(error) for name, error in planned.errors.items()},
        "noise": planned.noise,
        "event": repr(planned.event),
        "notes": list(notes),
    }


def section_of(described: Record, confidence: str) -> str:
    """Pictures of the first figures, what is told in words, and what the statistician asks."""
    drawn = [
        pictures.table(p["groups"], p["title"], *([math.nan if x is None else x for x in p[end]] for end in ("value", "low", "high")))
        for p in described["parts"][:SHOWN]
    ]
    return template("field.html").render(output={**described, "shown": len(drawn)}, pictures=drawn, confidence=confidence)


def review_of(private: bool, who: str) -> Mapping[str, str]:
    """What a reviewer asks."""
    return {
        "Do bounds or groups come from the data?": "No: bins, groups, sizes and bounds are declared in the job.",
        "Can the rounding of numbers leak?": "Sums are whole numbers and the noise is drawn on whole numbers"
        + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
        "Who bears the noise?": who,
    }
