"""`kind: synthesis`: made-up rows that have the marginals of a source, and the noisy marginals they were made from.

The block names a source and its columns, which are used as the job declares them: categories, or bounds cut into bins.
The whole price is reserved with the job; every step of the method asks a filter for its part (`tacit.synthesis`). The
rows and the measured marginals are published side by side.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> job = parse(EXAMPLE.replace("outputs:", '''outputs:
...   - {name: rows, kind: synthesis, source: visits, columns: [region], weight: 1}'''))
>>> planned = plan(job)["rows"]
>>> planned.noise, planned.size
('gaussian', 1)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from tacit.accounting import Event, Guarantee, to_json
from tacit.errors import ParameterError
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import Number, OutputSpec, Part
from tacit.release.kinds import Notice, Portion, Record, marked, table_files
from tacit.release.page import plain, template
from tacit.synthesis import (
    Constraint,
    Determines,
    EnginePlan,
    Impossible,
    NumberColumn,
    Ordered,
    Sums,
    Synthesizer,
    engine_plan,
)
from tacit.tables import Desk, TableError

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Synthetic data"
#: Columns that the report draws.
SHOWN = 6


class DeterminesSpec(Part):
    """A category that says what another column is."""

    source: str
    target: str
    values: dict[str, Any]


class RuleSpec(Part):
    """One rule that every made-up row keeps: exactly one of `order`, `sum`, `impossible` and `determines`."""

    order: tuple[str, ...] | None = None
    sum: dict[str, tuple[str, ...]] | None = None
    impossible: dict[str, tuple[Any, ...]] | None = None
    determines: DeterminesSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return _tuples(value)

    @model_validator(mode="after")
    def _one(self) -> RuleSpec:
        if len([one for one in (self.order, self.sum, self.impossible, self.determines) if one]) != 1:
            raise ValueError("a constraint is one of order, sum, impossible and determines")
        if self.sum is not None and len(self.sum) != 1:
            raise ValueError("a sum names one total: {nights: [weekdays, weekends]}")
        return self

    @property
    def constraint(self) -> Constraint:
        """The rule as synthesis takes it."""
        if self.order:
            return Ordered(self.order)
        if self.sum:
            ((total, parts),) = self.sum.items()
            return Sums(total, parts)
        if self.impossible:
            return Impossible(self.impossible)
        assert self.determines is not None  # one of the four is there
        return Determines(self.determines.source, self.determines.target, self.determines.values)


def _tuples(value: object) -> object:
    if isinstance(value, list):
        return tuple(_tuples(one) for one in value)
    return {key: _tuples(one) for key, one in value.items()} if isinstance(value, dict) else value


class SynthesisSpec(OutputSpec):
    """Made-up rows with some columns of a source. `bins` cuts a column of numbers at these edges instead of evenly."""

    source: str
    columns: tuple[str, ...] = Field(min_length=1)
    method: Literal["auto", "oneshot", "aim", "mst", "mwem_pgm", "privbayes", "independent", "histogram"] = "auto"
    bins: dict[str, tuple[Number, ...]] = Field(default_factory=dict)
    target: str | None = None
    constraints: tuple[RuleSpec, ...] = ()
    where: str | None = Field(default=None, min_length=1, max_length=100_000)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        found: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        if isinstance(found.get("bins"), dict):
            found["bins"] = {k: tuple(v) if isinstance(v, list) else v for k, v in found["bins"].items()}
        return found

    @model_validator(mode="after")
    def _no_accuracy(self) -> SynthesisSpec:
        if self.accuracy is not None:
            raise ValueError("synthetic rows have no accuracy that is known before; give a weight")
        return self


Block = SynthesisSpec


@dataclass(frozen=True)
class SynthesisOutput:
    """A block that was checked. Its steps are admitted one by one, so it is priced in epsilon and delta."""

    spec: SynthesisSpec
    desk: Desk
    plain: bool = False
    figures: tuple[str, ...] = ()

    def at(self, portion: Portion) -> EnginePlan:
        """The plan for a price. No data is touched."""
        spec = self.spec
        bins = {name: NumberColumn(name, tuple(float(edge) for edge in edges)) for name, edges in spec.bins.items()}
        rows = f'SELECT COUNT(*) AS n FROM "{spec.source}"' + ("" if spec.where is None else f" WHERE ({spec.where})")
        columns = [bins.get(name, name) for name in spec.columns]
        return engine_plan(
            self.desk, columns, portion.spend, method=spec.method, target=spec.target,
            constraints=[rule.constraint for rule in spec.constraints], rows=rows,
        )  # fmt: skip


def prepare(block: SynthesisSpec, job: Job, desk: Desk, place: str) -> SynthesisOutput:
    """Check the block against the job's sources and columns."""
    if block.source not in desk.source.tables or block.source in desk.source.public:
        raise JobError("names no private source of the job", place=f"{place}.source")
    unknown = [name for name in block.bins if name not in block.columns]
    if unknown:
        raise JobError(f"bins names {unknown[0]!r}, which is not among the columns", place=f"{place}.bins")
    found = SynthesisOutput(block, desk)
    try:
        found.at(Portion(Fraction(1), Guarantee(epsilon=1, delta="1e-9"), None))
    except (ParameterError, TableError) as error:
        raise JobError(str(error), place=place) from None
    return found


@dataclass(frozen=True)
class PlannedSynthesis:
    """A method with its price."""

    output: SynthesisOutput
    portion: Portion
    planned: EnginePlan
    noise: str = "gaussian"
    score: float = 0.0

    @property
    def spec(self) -> SynthesisSpec:
        return self.output.spec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def event(self) -> Event:
        return self.planned.event

    @property
    def size(self) -> int:
        return len(self.spec.columns)

    @property
    def errors(self) -> dict[str, float]:
        return {}

    def errors_at(self, confidence: float) -> dict[str, float]:
        """None that is known before: what is measured is chosen on the way."""
        return {}


def plan(output: SynthesisOutput, portion: Portion) -> PlannedSynthesis:
    """The method for a portion of the budget. No data is touched."""
    return PlannedSynthesis(output, portion, output.at(portion))


def notices(planned: PlannedSynthesis, job: Job, place: str) -> list[Notice]:
    """Few rows make a poor model."""
    rows = job.expected.rows
    cells = max(column.size for column in planned.planned.columns)
    if rows is None or rows >= 100 * cells:
        return []
    text = f"{rows:,} rows are few for columns of up to {cells} cells: independent columns may be as good; use fewer bins"
    return [Notice("few-rows", place, text)]


def explain(planned: PlannedSynthesis) -> tuple[str, str]:
    """What is done in words, and the first statement that is sent."""
    names = [(column.name,) for column in planned.planned.columns]
    text = planned.planned.cut.statement(names).sql(dialect=planned.output.desk.engine.dialect, pretty=True)
    return f"rows of {len(names)} columns by method {planned.spec.method}; at most {planned.event!r}", text


def draw(planned: PlannedSynthesis) -> Record:
    """Measure, fit and make the rows, once."""
    model, measuring = planned.planned.fit()
    measured, events = tuple(measuring.measured), tuple(measuring.events)
    made = Synthesizer(planned.planned.columns, model, measured, planned.event, events, True, planned.planned.constraints)
    marginals = [
        {
            "columns": [planned.planned.columns[place].name for place in one.columns],
            "counts": [plain(float(value)) for value in one.values.ravel()],
            "deviation": plain(float(one.sigma)),
        }
        for one in measured
    ]
    rows = made.sample().to_pydict()
    return {"rows": {name: [_plain(v) for v in values] for name, values in rows.items()}, "marginals": marginals}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@dataclass(frozen=True, repr=False)
class MadeRows:
    """Made-up rows by column, and the noisy marginals they were made from."""

    rows: Mapping[str, list[Any]]
    marginals: list[Record]
    private: bool

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.rows.values())))

    def __repr__(self) -> str:
        return f"{self.count:,} made-up rows of {len(self.rows)} columns, from {len(self.marginals)} measured tables"


def result(planned: PlannedSynthesis, drawn: Record, private: bool, entry: int | None) -> MadeRows:
    """The rows and the marginals of a draw."""
    return MadeRows(drawn["rows"], drawn["marginals"], private)


def _table(planned: PlannedSynthesis, result: MadeRows) -> pa.Table:
    kinds = {column.name: pa.type_for_alias(column.kind) for column in planned.planned.columns}
    return pa.table({name: pa.array(values, type=kinds[name]) for name, values in result.rows.items()})


def checks(planned: PlannedSynthesis, result: MadeRows) -> list[tuple[str, bool]]:
    """Every row has every column, and every value lies where it was declared."""
    sizes = {len(values) for values in result.rows.values()}
    whole = list(result.rows) == list(planned.spec.columns) and len(sizes) == 1
    inside = True
    for column in planned.planned.columns:
        if isinstance(column, NumberColumn):
            values = [v for v in result.rows[column.name] if v is not None]
            inside = inside and all(column.edges[0] <= v <= column.edges[-1] for v in values)
    return [("every row has every column", whole), ("every number lies within its bins", inside)]


def files(planned: PlannedSynthesis, result: MadeRows, formats: Sequence[str]) -> dict[str, bytes]:
    """The rows in every format, and the marginals as JSON."""
    labels = {column.name: column.labels() for column in planned.planned.columns}
    measured = json.dumps({"cells": labels, "marginals": result.marginals}, indent=1).encode()
    rows = marked(_table(planned, result), result.private)
    return {**table_files(planned.name, rows, formats), f"{planned.name}_marginals.json": measured}


def recorded(planned: PlannedSynthesis, result: MadeRows) -> Record:
    """The method and its price."""
    return {
        "source": planned.spec.source,
        "columns": list(planned.spec.columns),
        "method": planned.spec.method,
        "part": float(planned.portion.part),
        "price": planned.portion.spend.words,
        "event": json.loads(to_json(planned.event)),
        "marginals": [one["columns"] for one in result.marginals],
    }


def post_processing(planned: PlannedSynthesis) -> list[str]:
    """Rows are drawn from a model of the measurements."""
    return ["graphical model"]


def described(planned: PlannedSynthesis, result: MadeRows | None) -> Record:
    """What the report shows: the measured tables of single columns, and what was measured."""
    columns = {column.name: column for column in planned.planned.columns}
    parts: list[Record] = []
    for one in () if result is None else result.marginals:
        if len(one["columns"]) == 1 and len(parts) < SHOWN:
            name, wide = one["columns"][0], 1.96 * float(one["deviation"] or 0)
            labels = columns[name].labels()
            counts = [float(value or 0) for value in one["counts"]]
            parts.append({
                "title": name, "groups": {name: labels}, "value": counts,
                "low": [value - wide for value in counts], "high": [value + wide for value in counts],
            })  # fmt: skip
    made = 0 if result is None else len(next(iter(result.rows.values())))
    return {
        "name": planned.name,
        "title": planned.spec.title,
        "answered": result is not None,
        "parts": parts,
        "method": planned.spec.method,
        "event": repr(planned.event),
        "rows": made,
        "measured": [] if result is None else [" by ".join(one["columns"]) for one in result.marginals],
        "notes": [
            "These rows are made up. They have, about, the tables that were measured, and nothing else of the people.",
            "Figures that were not measured together, and small groups, can be far from the truth: use the measured "
            "tables with their noise where exact figures matter.",
            "Their number is estimated from the measurements.",
        ],
    }


def section(described: Record, confidence: str) -> str:
    """Pictures of the measured single columns, and what the statistician asks."""
    drawn = [pictures.table(p["groups"], p["title"], p["value"], p["low"], p["high"]) for p in described["parts"]]
    return template("synthesis.html").render(output=described, pictures=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedSynthesis], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about synthetic rows."""
    return {
        "Do bounds or groups come from the data?": "No: categories, bounds and bins are declared in the job, and the number of rows is "
        "estimated from noisy counts.",
        "Who bears the noise?": "Combinations that few people have are blurred most, and what was not measured together is not kept.",
    }
