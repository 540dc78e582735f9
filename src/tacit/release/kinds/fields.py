"""What kinds share: how a block is checked against the job, what a priced output says of itself, and figures as tables with
intervals, their files and their section of the report.

A kind of a field reads its block, plans and draws. One whose result is a `FieldAnswer` has the rest from here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tacit.accounting import Adjacency, Event, to_json
from tacit.errors import ParameterError
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.kinds import OutputPlan, Portion, Record, marked, table_files
from tacit.release.page import plain, template
from tacit.tables import Cut, Desk, TableError
from tacit.workloads import Measured, Wanted, Workload, bound, measured

if TYPE_CHECKING:
    from tacit.release.job import Job

#: Groups of figures that are drawn, and lines of each: a curve has at most 2,000 bins.
SHOWN, LINES = 8, 2_001
#: Figures of a part that are told on a terminal.
WORDED = 7
#: The confidence where no job says one, as in examples.
CONFIDENCE = 0.95


# --- a block against its job ---


def private_source(block: Any, desk: Desk, place: str) -> None:
    """Refuse a block whose source is not among the job's private ones."""
    if block.source not in desk.source.tables or block.source in desk.source.public:
        raise JobError("names no private source of the job", place=f"{place}.source")


def owned_rows(block: Any, column: str, holds: str, job: Job, desk: Desk, place: str, *, words: str, known: str) -> None:
    """Check a source whose rows belong to one owner each and name in `column` what is theirs, such as a file.

    `words` says which unit is needed, and `known` what is public, which is why nothing is added or removed.
    """
    private_source(block, desk, place)
    if getattr(block, column) not in job.columns_of(block.source):
        raise JobError(f"names no column of the source; it holds {holds}", place=f"{place}.{column}")
    unit = desk.unit
    if unit.person is None or unit.key is not None or unit.ends is not None or unit.window is not None or unit.automatic:
        raise JobError(words, place=place)
    if unit.adjacency is not Adjacency.REPLACE_ONE:
        raise JobError(f"{known}, so adjacency must be replace-one", place="unit.adjacency")


def owned_statement(desk: Desk | None, source: str, column: str) -> exp.Select:
    """Every row's owner and what it names."""
    assert desk is not None and desk.unit.person is not None  # checked by `owned_rows`
    columns = [exp.column(name, quoted=True) for name in (desk.unit.person, column)]
    return exp.Select(expressions=columns).from_(exp.to_table(source, quoted=True))


def counted(block: Any) -> str:
    """The count of a block's rows that meet its condition."""
    return f'SELECT COUNT(*) AS n FROM "{block.source}"' + ("" if block.where is None else f" WHERE ({block.where})")


def one_row(desk: Desk) -> Desk:
    """The desk for questions in which each person counts with one row, chosen at random where there are several."""
    return replace(desk, unit=replace(desk.unit, max_rows=1, max_groups=None, rows_per_group=None))


def one_cell(block: Any, desk: Desk, wanted: Wanted, cells: Mapping[str, Any] | None, what: str, place: str) -> tuple[Cut, Workload]:
    """The cells that a block's patients are counted in, each in one; `what` names such a cell."""
    try:
        cut, workload = bound(desk, wanted, cells, counted(block))
    except (ParameterError, TableError) as error:
        raise JobError(str(error), place=place) from None
    if cut.reach != 1:
        raise JobError(f"one {desk.unit.noun} would count {cut.reach} times; a patient is in one {what}", place=place)
    return cut, workload


def epsilon_of(portion: Portion, what: str) -> Any:
    """The price of a portion in epsilon, without delta."""
    found = portion.spend.laplace_epsilon
    if found is None:
        raise JobError(f"{what} a price in epsilon; give the job's budget in epsilon", place="budget")
    return found


@dataclass(frozen=True)
class Prepared:
    """A block that was checked, and the desk that answers it; examples have none."""

    spec: Any
    desk: Any

    @property
    def confidence(self) -> float:
        """The publication's."""
        return CONFIDENCE if self.desk is None else float(self.desk.confidence)


@dataclass(frozen=True)
class CountedOutput(Prepared):
    """A block whose patients are counted in one cell each. A kind names its figures."""

    cut: Cut
    workload: Workload
    patients: int | None  # where their number is expected
    plain: bool = True
    figures: tuple[str, ...] = ("cell",)


@dataclass(frozen=True)
class Priced:
    """A checked block with its part of the budget. A kind adds `event`, `size`, `score` and `errors_at`."""

    output: Any
    portion: Portion

    @property
    def spec(self) -> Any:
        """Its block of the job."""
        return self.output.spec

    @property
    def errors(self) -> Mapping[str, float]:
        """How far its figures may be off, with the publication's confidence."""
        return self.errors_at(self.output.confidence)

    def errors_at(self, confidence: float) -> Mapping[str, float]:
        """The same with another confidence."""
        raise NotImplementedError


@dataclass(frozen=True)
class PlannedCounts(Priced):
    """An output whose counts are measured by a plan of `tacit.workloads`, with its price. `output` is the checked block.

    A workload is the plainest of them; the fields' kinds make figures of their own from the counts.
    """

    measured: Measured

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

    def errors_at(self, confidence: float) -> dict[str, float]:
        """How far its figure may be off."""
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
    groups: Mapping[str, Sequence[str | float]]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    more: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def to_arrow(self) -> pa.Table:
        """One line for each figure."""
        return pa.table({**self.groups, "value": self.value, "low": self.low, "high": self.high, **self.more})

    @property
    def words(self) -> str:
        """A few of the figures, evenly spread, on one line."""
        step = max(1, -(-len(self.value) // WORDED))
        shown = range(0, len(self.value), step)
        names = [name for name in self.groups if len(self.groups) == 1 or len(set(self.groups[name])) > 1]
        told = [
            f"{' '.join(_label(self.groups[name][i]) for name in names)}: {self.value[i]:.4g} ({self.low[i]:.4g} to {self.high[i]:.4g})"
            for i in shown
        ]
        return f"{self.title}: {' and '.join(names)} {', '.join(told)}"

    @property
    def finite(self) -> bool:
        """Whether every figure is a number."""
        return all(math.isfinite(one) for one in (*self.value, *self.low, *self.high))


def _label(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


@dataclass(frozen=True, repr=False)
class FieldAnswer:
    """All figures of an output, and single ones in words.

    >>> part = FieldPart("arm drug", {"months": [0.0, 12.0]}, [1.0, 0.8393], [1.0, 0.8137], [1.0, 0.862])
    >>> FieldAnswer([part], {"median": "48"}, True)
    arm drug: months 0: 1 (1 to 1), 12: 0.8393 (0.8137 to 0.862)
    median: 48
    """

    parts: Sequence[FieldPart]
    told: Mapping[str, str]
    private: bool

    def __repr__(self) -> str:
        lines = [part.words for part in self.parts[:SHOWN]]
        lines += [f"{len(self.parts) - SHOWN} more are in the files"] if len(self.parts) > SHOWN else []
        lines += [f"{name}: {value}" for name, value in self.told.items()]
        return "\n".join(lines + ([] if self.private else ["NOT PRIVATE"]))


def refuse_unknown(wanted: Sequence[str], columns: set[str]) -> None:
    """Refuse a column that the job does not declare, with a ValueError, as blocks do."""
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        raise ValueError(f"{unknown[0]} is no declared column; there are {', '.join(sorted(columns))}")


def checks_of(result: FieldAnswer) -> list[tuple[str, bool]]:
    """Soundness of the figures; released numbers only."""
    return [("every figure is finite", all(part.finite for part in result.parts)), ("there are figures", bool(result.parts))]


def files_of(planned: OutputPlan, result: FieldAnswer, formats: Sequence[str]) -> dict[str, bytes]:
    """All figures as one table, in every format, and what is told in words."""
    table = pa.concat_tables([part.to_arrow() for part in result.parts])
    found = table_files(planned.spec.name, marked(table, result.private), formats)
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
        groups = {name: [_label(x) for x in values[:LINES]] for name, values in part.groups.items()}
        more = {name: [plain(float(x)) for x in values[:LINES]] for name, values in part.more.items()}
        parts.append({"title": part.title, "groups": groups, "more": more, **ends})
    return opening_of(planned, result, notes) | {
        "parts": parts,
        "told": {} if result is None else dict(result.told),
        "foretold": {name: plain(error) for name, error in planned.errors.items()},
        "noise": planned.noise,
    }


def opening_of(planned: Any, result: object | None, notes: Sequence[str] = ()) -> Record:
    """What the report says of every output: what it is called, whether it is there, its price, and what to know of it."""
    return {
        "name": planned.spec.name,
        "title": planned.spec.title,
        "answered": result is not None,
        "event": repr(planned.event),
        "notes": list(notes),
    }


def section_of(described: Record, confidence: str, together: Sequence[str] = ()) -> str:
    """Pictures of the first figures, what is told in words, and what the statistician asks.

    `together` are pictures of all figures, which take the place of one for each part.
    """
    drawn = [] if together else [pictures.table(p["groups"], p["title"], *ends_of(p)) for p in described["parts"][:SHOWN]]
    shown = len(described["parts"]) if together else len(drawn)
    return template("field.html").render(output={**described, "shown": shown}, together=together, pictures=drawn, confidence=confidence)


def ends_of(part: Record) -> tuple[list[float], list[float], list[float]]:
    """Values and the ends of their intervals, of a part of `described_of`."""
    value, low, high = ([math.nan if x is None else x for x in part[end]] for end in ("value", "low", "high"))
    return value, low, high


def review_of(private: bool, who: str) -> Mapping[str, str]:
    """What a reviewer asks."""
    return {
        "Do bounds or groups come from the data?": "No: bins, groups, sizes and bounds are declared in the job.",
        "Can the rounding of numbers leak?": "Sums are whole numbers and the noise is drawn on whole numbers"
        + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
        "Who bears the noise?": who,
    }
