"""`kind: workload`: many counts at once, such as all pair tables of some columns, consistent with each other and with intervals.

The block names the questions: `marginals` (tables of combinations), `ranges` (running totals or ranges of a column). What is
measured for them, and with which noise, is chosen by the computed error (`tacit.workloads`). All answers come from one
draw, so tables that share a column agree on it.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> job = parse(EXAMPLE.replace("outputs:", '''outputs:
...   - {name: pairs, kind: workload, source: visits, marginals: {of: [region], up_to: 1}, weight: 1}'''))
>>> planned = plan(job)["pairs"]
>>> planned.size, list(planned.errors)
(2, ['region'])
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tacit.accounting import Adjacency, to_json
from tacit.errors import ParameterError
from tacit.mechanisms import Law
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import JobPart, Number, OutputSpec
from tacit.release.kinds import Notice, Portion, Record, marked, table_files
from tacit.release.kinds.fields import PlannedCounts, Prepared, counted, private_source
from tacit.release.page import plain, template, who_pays
from tacit.release.rehearsed_cells import CellFigures
from tacit.tables import Brackets, Cut, Desk, Periods, TableError
from tacit.workloads import (
    AllRanges,
    Axis,
    Hierarchy,
    Invariants,
    Marginals,
    Prefix,
    Product,
    RegionsAnswer,
    View,
    Wanted,
    Workload,
    WorkloadAnswer,
    best,
    bound,
    impossible,
    measured,
    wanted_boxes,
    wanted_cells,
    wanted_of,
    wanted_over_time,
)

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Tables of aggregates"
#: Groups of answers that the report draws; all of them are in the files.
SHOWN = 6
#: The most boxes of a map that are published one by one.
BOXES = 20_000
BIASED = (
    "The files also have whole figures, none below 0, that add up in every table. They are biased: a cell without rows gains up to "
    "what the table below says, and cells with rows lose it. For averages and tests take the unbiased ones."
)
KINDS_OF_RANGES = {"all": AllRanges, "prefix": Prefix}


class MarginalsSpec(JobPart):
    """Tables of every combination of some columns: of exactly `ways` of them, or of at most `up_to`."""

    of: tuple[str, ...] = Field(min_length=1)
    ways: int | None = Field(default=None, ge=1)
    up_to: int | None = Field(default=None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _one(self) -> MarginalsSpec:
        if (self.ways is None) == (self.up_to is None):
            raise ValueError("marginals have either ways (exactly so many columns) or up_to (at most so many)")
        return self


def _listed(block: object) -> object:
    """A block whose `by` is a list of columns, as job files write it, with a tuple in its place."""
    by = block.get("by") if isinstance(block, dict) else None
    return {**block, "by": tuple(by)} if isinstance(block, dict) and isinstance(by, list) else block


class RegionsSpec(JobPart):
    """Every node of a public hierarchy over a column's values: names of mappings, and of lists of values at last.

    `by` are columns whose cells are told apart in every node. `unprotected` are totals of nodes that are known and not protected.
    """

    column: str
    hierarchy: dict[str, Any] = Field(min_length=1)
    by: tuple[str, ...] = ()
    unprotected: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return _listed(value)

    @cached_property
    def invariants(self) -> Invariants:
        """The hierarchy with the totals that are not protected, checked."""
        return Invariants.of(Hierarchy.of(self.hierarchy), self.unprotected)


class SeriesSpec(JobPart):
    """Counts over time: a date column cut into `periods` of a `step` (day, week, month, quarter, year) from a first day on.

    All stretches of time are answered, or with `asked: prefix` running totals; `by` are columns whose cells are told apart.
    """

    column: str
    start: datetime.date | str
    step: str
    periods: int
    by: tuple[str, ...] = ()
    asked: Literal["ranges", "prefix"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return _listed(value)

    @property
    def cut(self) -> Periods:
        """The periods, checked."""
        return Periods(self.start, self.step, self.periods)


class AxisSpec(JobPart):
    """A column of coordinates, cut into equally wide cells between two public ends."""

    column: str
    low: float
    high: float
    cells: int

    @property
    def cut(self) -> Axis:
        """The axis that the block describes."""
        return Axis(self.column, self.low, self.high, self.cells)


class MapSpec(JobPart):
    """A map of two columns, measured so that boxes have a small error. Cells are published; all boxes too, where they are few."""

    x: AxisSpec
    y: AxisSpec


class WorkloadSpec(OutputSpec):
    """Counts of a source's rows: marginal tables, ranges, or both; or regions of a hierarchy; or a series over time; or a map.

    `ranges` says for a column `all` (every range of neighbouring cells) or `prefix` (running totals). `cells` cuts a column that
    has neither categories nor whole bounds into brackets: a list of their edges. `where` is a condition in SQL on the rows.
    `view` is a SELECT over the job's sources, such as a join, whose rows are counted in place of the source's.
    With `other`, tables have a cell for what is missing or in no other cell, so that every row counts in all of them.
    With `whole`, figures without fractions and none below 0, which agree in all tables, stand beside the unbiased ones.
    """

    source: str
    marginals: MarginalsSpec | None = None
    ranges: dict[str, Literal["all", "prefix"]] = Field(default_factory=dict)
    cells: dict[str, tuple[Number, ...]] = Field(default_factory=dict)
    where: str | None = Field(default=None, min_length=1, max_length=100_000)
    view: str | None = Field(default=None, min_length=1, max_length=100_000)
    whole: bool = False
    other: bool = False
    regions: RegionsSpec | None = None
    series: SeriesSpec | None = None
    map: MapSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _edges(cls, value: object) -> object:
        if isinstance(value, dict) and isinstance(value.get("cells"), dict):
            cells = {k: tuple(v) if isinstance(v, list) else v for k, v in value["cells"].items()}
            return {**value, "cells": cells}
        return value

    @model_validator(mode="after")
    def _asks(self) -> WorkloadSpec:
        if self.view is not None and self.where is not None:
            raise ValueError("a view has its own WHERE; leave out where")
        alone = [name for name in ("regions", "series", "map") if getattr(self, name) is not None]
        if len(alone) > 1 or (alone and (self.marginals is not None or self.ranges)):
            raise ValueError(f"{alone[0]} stand in an output of their own, without other questions")
        if self.marginals is None and not self.ranges and not alone:
            raise ValueError("a workload asks for marginals or ranges: marginals: {of: [region, sex], up_to: 2}")
        return self

    @property
    def wanted(self) -> Wanted:
        """The questions by the names of columns."""
        if self.regions is not None:
            return wanted_of(self.regions.column, self.regions.invariants.nodes, self.regions.by)
        if self.series is not None:
            return wanted_over_time(self.series.column, self.series.cut, self.series.by, self.series.asked)
        if self.map is not None:
            columns = (self.map.x.column, self.map.y.column)
            boxes = math.prod(n * (n + 1) // 2 for n in (self.map.x.cells, self.map.y.cells))
            return wanted_cells(*columns) + wanted_boxes(*columns) if boxes <= BOXES else wanted_cells(*columns)
        asked: list[Wanted] = [Product(**{column: KINDS_OF_RANGES[kind]}) for column, kind in self.ranges.items()]
        if self.marginals is not None:
            asked.insert(0, Marginals(*self.marginals.of, ways=self.marginals.ways, up_to=self.marginals.up_to))
        found = asked[0]
        for more in asked[1:]:
            found = found + more
        return found


Block = WorkloadSpec


@dataclass(frozen=True)
class WorkloadOutput(Prepared):
    """The questions over the columns' cells; what is measured is chosen once for each law of noise."""

    cut: Cut
    workload: Workload
    plain: bool = True
    _chosen: dict[Law, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(titles(self.workload))

    def select(self, workload: Workload, law: Law) -> Any:
        """The selection of least error, remembered: a job plans an output many times for different prices."""
        if law not in self._chosen:
            shown = self.spec.map
            aim = workload if shown is None else wanted_boxes(shown.x.column, shown.y.column).on(workload.cells)
            self._chosen[law] = best(aim, law)
        return self._chosen[law]


def titles(workload: Workload) -> list[str]:
    """A name for the answers of each term, each once: its columns, and what is asked of them where it is more than every cell."""
    found: list[str] = []
    for term in workload.terms:
        kinds = {AllRanges: " (ranges)", Prefix: " (running totals)"}
        name = " by ".join(f"{column}{kinds.get(type(factor), '')}" for column, factor in term.factors) or "total"
        found.append(name if name not in found else f"{name} again")
    return found


def prepare(block: WorkloadSpec, job: Job, desk: Desk, place: str) -> WorkloadOutput:
    """Check the block against the job's sources and columns."""
    private_source(block, desk, place)
    try:
        rows = counted(block) if block.view is None else View(block.view, block.wanted).rows
        cells: dict[str, Any] = {column: Brackets(edges) for column, edges in block.cells.items()}
        if block.regions is not None:
            cells[block.regions.column] = list(block.regions.invariants.nodes.leaves)
        if block.series is not None:
            cells[block.series.column] = block.series.cut
        if block.map is not None:
            cells |= {axis.column: Brackets(axis.cut.edges) for axis in (block.map.x, block.map.y)}
        cut, workload = bound(desk, block.wanted, cells, rows, other=block.other)
    except (ParameterError, TableError) as error:
        raise JobError(str(error), place=place) from None
    return WorkloadOutput(block, desk, cut, workload)


@dataclass(frozen=True)
class PlannedWorkload(PlannedCounts):
    """A workload with its price and noise."""

    output: WorkloadOutput

    @property
    def name(self) -> str:
        """The output's name."""
        return str(self.spec.name)

    def errors_at(self, confidence: float) -> dict[str, float]:
        """How far each group of answers may be off."""
        return dict(zip(self.output.figures, self.measured.widths(confidence), strict=True))

    @property
    def file_names(self) -> list[str]:
        """The file of each group of answers, without its ending: by columns where their names allow it."""
        found = []
        for i, term in enumerate(self.output.workload.terms):
            columns = "_".join(term.columns) or "total"
            safe = columns.replace("_", "").isalnum() and columns.isascii()
            name = f"{self.name}_{columns}" if safe else f"{self.name}_{i + 1}"
            found.append(name if name not in found else f"{name}_{i + 1}")
        return found


def plan(output: WorkloadOutput, portion: Portion) -> PlannedWorkload:
    """What is measured for a portion of the budget. No data is touched."""
    law: Law | None = None if portion.law is None else "gaussian" if portion.law == "gaussian" else "laplace"
    found = measured(
        output.workload, portion.spend, reach=output.cut.reach, law=law, confidence=output.desk.confidence,
        replaced=output.desk.unit.adjacency is Adjacency.REPLACE_ONE, select=output.select,
    )  # fmt: skip
    return PlannedWorkload(output, portion, found)


def notices(planned: PlannedWorkload, job: Job, place: str) -> list[Notice]:
    """Where the noise of a cell exceeds what is in it on average, the table says little."""
    rows = job.expected.rows
    found: list[Notice] = []
    fitted = planned.spec.whole and planned.spec.regions is None  # regions are rounded from the top down, however many
    why = impossible(planned.measured.workload, planned.measured.selection) if fitted else None
    if why is not None:
        found.append(Notice("no-whole-figures", f"{place}.whole", why, refuses=True))
    if rows is None:
        return found
    for term, (title, error) in zip(planned.output.workload.terms, planned.errors.items(), strict=True):
        cells = math.prod(planned.output.workload.cells.sizes[column] for column in term.columns)
        if error > rows / cells:
            text = f"{title}: figures may be off by {error:,.3g}, and a cell has {rows / cells:,.3g} rows on average"
            found.append(Notice("mostly-noise", place, f"{text}; ask for tables of fewer columns or cells, or give it more weight"))
    return found


def explain(planned: PlannedWorkload) -> tuple[str, str]:
    """What is measured in words, and the statement that is sent."""
    found = planned.measured
    words = (
        f"{planned.size} answers from {found.selection.describe()}, with {found.law} noise: {found.event!r}; a typical answer is off "
        f"by {found.expected_error:.4g}; {planned.output.cut.counted}"
    )
    text = planned.output.cut.statement(found.selection.tables).sql(dialect=planned.output.desk.engine.dialect, pretty=True)
    return words, text


def draw(planned: PlannedWorkload) -> Record:
    """Count in the engine, add noise, once."""
    found = planned.measured
    drawn = found.draw(planned.output.cut.counts(found.selection.tables))
    return {"sums": WorkloadAnswer(found, tuple(drawn), True).to_record()}


def result(planned: PlannedWorkload, drawn: Record, private: bool, entry: int | None) -> WorkloadAnswer:
    """All answers, by least squares from what was drawn."""
    found = WorkloadAnswer.from_record(planned.measured, drawn["sums"], private, entry)
    if planned.spec.regions is None:
        return found
    return RegionsAnswer(found.measured, found.released, private, entry, planned.spec.regions.invariants)


def cells_of(output: WorkloadOutput) -> Cut:
    """How the rows are cut, for a rehearsal."""
    return output.cut


def in_cells(planned: PlannedWorkload) -> list[CellFigures]:
    """The figures of a rehearsal: the answers of every term, from counts in the cells of its columns."""
    cells, found = planned.output.workload.cells, []
    for title, term in zip(planned.output.figures, planned.output.workload.terms, strict=True):
        own = Workload(cells.only(term.columns), (term,))
        found.append(CellFigures(title, tuple(own.cells.names), term.questions, partial(_groups, own), partial(_answers, own)))
    return found


def _groups(workload: Workload) -> list[tuple[str, ...]]:
    (term,) = workload.terms
    return list(itertools.product(*(factor.labels(workload.cells.names[column]) for column, factor in term.factors)))


def _answers(workload: Workload, counts: NDArray[Any]) -> NDArray[Any]:
    (found,) = workload.answers(counts)
    return found


def told_in_cells(planned: PlannedWorkload, result: WorkloadAnswer) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The answers of a release and half their intervals, as `in_cells` has them."""
    return [(own.values, own.widths) for own in result.figures]


def checks(planned: PlannedWorkload, result: WorkloadAnswer) -> list[tuple[str, bool]]:
    """Soundness of the answers; released figures and public parameters only."""
    finite = all(bool(np.isfinite(own.values).all() and np.isfinite(own.widths).all()) for own in result.figures)
    asked = [own.values.shape == term.shape for own, term in zip(result.figures, planned.output.workload.terms, strict=True)]
    return [("every answer is there", all(asked)), ("every answer is finite", finite)]


def files(planned: PlannedWorkload, result: WorkloadAnswer, formats: Sequence[str]) -> dict[str, bytes]:
    """A table for each group of answers, in every format."""
    found: dict[str, bytes] = {}
    for i, (name, own) in enumerate(zip(planned.file_names, result.figures, strict=True)):
        table = own.to_arrow(result.whole[i] if planned.spec.whole else None)
        found |= table_files(name, marked(table, result.private), formats)
    return found


def recorded(planned: PlannedWorkload, result: WorkloadAnswer) -> Record:
    """The questions, their price and what was measured."""
    return {
        "source": planned.spec.source,
        "answers": dict(zip(planned.output.figures, (term.questions for term in planned.output.workload.terms), strict=True)),
        "part": float(planned.portion.part),
        "price": planned.portion.spend.words,
        "event": json.loads(to_json(planned.event)),
        "noise": planned.noise,
        "measured": planned.measured.selection.describe(),
        "files": planned.file_names,
        **({"unprotected": unprotected(planned)} if unprotected(planned) else {}),
    }


def unprotected(planned: PlannedWorkload) -> list[str]:
    """Exact figures that the curator gave and that the guarantee does not cover, in words."""
    asked = planned.spec.regions
    return [] if asked is None or not asked.unprotected else [asked.invariants.words(asked.column)]


def post_processing(planned: PlannedWorkload) -> list[str]:
    """Answers are combined from what was measured."""
    return ["least squares", *(["whole figures, none below 0, that agree"] if planned.spec.whole else [])]


def described(planned: PlannedWorkload, result: WorkloadAnswer | None) -> Record:
    """What the report shows of it."""
    parts: list[Record] = []
    for i, (title, term) in enumerate(zip(planned.output.figures, planned.output.workload.terms, strict=True)):
        part: Record = {"title": title, "answers": term.questions, "file": planned.file_names[i], "within": plain(planned.errors[title])}
        if result is not None and i < SHOWN:
            table = result.figures[i].to_arrow().to_pydict()
            part |= {name: [plain(x) for x in table.pop(name)] for name in ("value", "low", "high")}
            part["groups"] = table
        lifts = None if result is None else result.figures[i].lifts
        if lifts is not None:
            part["lift"] = plain(float(lifts.mean()))
        parts.append(part)
    return {
        "name": planned.name,
        "title": planned.spec.title,
        "answered": result is not None,
        "parts": parts,
        "measured": planned.measured.selection.describe(),
        "noise": planned.noise,
        "event": repr(planned.event),
        "whole": planned.spec.whole,
        "who_pays": who_pays(
            "an answer with the mean error of all of them", planned.measured.expected_error, "gaussian", planned.measured.expected_error
        ),
        "notes": [
            "All answers come from one draw: tables that share columns agree on them.",
            "Figures are unbiased and may be negative; a cell without rows shows noise around 0.",
            f"{planned.output.cut.counted[0].upper()}{planned.output.cut.counted[1:]}.",
            *([BIASED] if planned.spec.whole else []),
            *(f"Outside the guarantee: {words}." for words in unprotected(planned)),
        ],
    }


def section(described: Record, confidence: str) -> str:
    """Pictures of the first groups of answers, and what the statistician asks."""
    drawn = []
    for part in described["parts"][:SHOWN]:
        if "groups" in part:
            ends = ([math.nan if x is None else x for x in part[end]] for end in ("value", "low", "high"))
            named = "rows by " + part["title"].replace(" by ", " and ") if part["groups"] else "rows"
            drawn.append(pictures.table(part["groups"], named, *ends))
    return template("workload.html").render(output={**described, "shown": len(drawn)}, pictures=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedWorkload], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about workloads."""
    return {
        "Do bounds or groups come from the data?": "No: categories, bounds and brackets are declared in the job.",
        "Can the rounding of numbers leak?": "Counts are whole numbers and the noise is drawn on whole numbers"
        + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
    }
