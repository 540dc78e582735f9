"""`kind: synthesis`: made-up rows that have the marginals of a source, and the noisy marginals they were made from.

The block names a source and its columns, which are used as the job declares them: categories, or bounds cut into bins.
Or it has `levels`, tables that belong together, and publishes a table for each. The whole price is reserved with the job;
every step of the method asks a filter for its part (`tacit.synthesis`). The rows and the measured marginals are
published side by side.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> job = parse(EXAMPLE.replace("outputs:", '''outputs:
...   - {name: rows, kind: synthesis, source: visits, columns: [region], weight: 1}'''))
>>> planned = plan(job)["rows"]
>>> planned.noise, planned.size
('gaussian', 1)
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tacit.accounting import Event, Guarantee, to_json
from tacit.errors import ParameterError
from tacit.mechanisms import half_width
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import JobPart, Number, OutputSpec
from tacit.release.kinds import Notice, Portion, Record, marked, table_files
from tacit.release.page import plain, template
from tacit.release.rehearsed_cells import CellFigures
from tacit.synthesis import (
    Constraint,
    DateColumn,
    Determines,
    EnginePlan,
    Impossible,
    Level,
    LevelsPlan,
    NoisyMarginal,
    NumberColumn,
    Ordered,
    Sums,
    Synthesizer,
    SyntheticRows,
    SyntheticTables,
    as_good_alone,
    counted,
    engine_plan,
    merged,
    plan_tables,
)
from tacit.tables import Cut, Desk, Periods, TableError

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Synthetic data"
#: Columns that the report draws.
SHOWN = 6
#: A price for what does not depend on it: whether a block can be planned, and how its rows are cut.
ANY_PRICE = Portion(Fraction(1), Guarantee(epsilon=1, delta="1e-9"), None)


class DeterminesSpec(JobPart):
    """A category that says what another column is."""

    source: str
    target: str
    values: dict[str, Any]


class RuleSpec(JobPart):
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


class DatesSpec(JobPart):
    """How a date is cut: `periods` of a `step` (day, week, month, quarter, year) from a first day on."""

    start: datetime.date | str
    step: str
    periods: int

    def column(self, name: str) -> DateColumn:
        """The column as synthesis takes it."""
        return DateColumn(name, Periods(self.start, self.step, self.periods).edges)


class LevelSpec(JobPart):
    """One of several tables that belong together, as `tacit.synthesis.Level` has it."""

    name: str
    columns: tuple[str, ...] = ()
    key: str | None = None
    of: str | None = None
    by: str | None = None
    most: int = 1
    up_to: int | None = None
    rows_of: str | None = None
    bins: dict[str, tuple[Number, ...]] = Field(default_factory=dict)
    dates: dict[str, DatesSpec] = Field(default_factory=dict)
    constraints: tuple[RuleSpec, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return _tuples(value)

    def level(self, desk: Desk) -> Level:
        """The level as synthesis takes it."""
        columns = _binned(desk, self.rows_of or self.name, self.columns, self.bins, self.dates)
        return Level(
            self.name, columns, key=self.key, of=self.of, by=self.by, most=self.most, up_to=self.up_to,
            rows_of=self.rows_of, constraints=[rule.constraint for rule in self.constraints],
        )  # fmt: skip


def _binned(
    desk: Desk, table: str, names: Sequence[str], bins: Mapping[str, Sequence[Any]], dates: Mapping[str, DatesSpec]
) -> list[str | NumberColumn | DateColumn]:
    """Names of declared columns, or columns with these edges, of whole numbers where the source has such, or of dates."""
    for block, given in (("bins", bins), ("dates", dates)):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ParameterError(f"{block} names {unknown[0]!r}, which is not among the columns")
    twice = [name for name in bins if name in dates]
    if twice:
        raise ParameterError(f"{twice[0]} stands in bins and in dates; dates cut a date, and bins a number")
    types = {c.lower(): t.upper() for c, t in desk.source.columns(table).items()} if table in desk.source.tables else {}
    found: list[str | NumberColumn | DateColumn] = []
    for name in names:
        if name in dates:
            found.append(dates[name].column(name))
            continue
        edges = tuple(float(edge) for edge in bins.get(name, ()))
        whole = "INT" in types.get(name.lower(), "") and all(edge.is_integer() for edge in edges)
        found.append(NumberColumn(name, edges, whole) if name in bins else name)
    return found


class SynthesisSpec(OutputSpec):
    """Made-up rows with some columns of a source, or of several tables. `bins` cuts a column of numbers at these edges
    instead of evenly, and `dates` a column of dates into periods."""

    source: str | None = None
    columns: tuple[str, ...] = ()
    levels: tuple[LevelSpec, ...] = ()
    method: Literal["auto", "oneshot", "aim", "mst", "mwem_pgm", "privbayes", "independent", "histogram"] = "auto"
    bins: dict[str, tuple[Number, ...]] = Field(default_factory=dict)
    dates: dict[str, DatesSpec] = Field(default_factory=dict)
    target: str | None = None
    constraints: tuple[RuleSpec, ...] = ()
    where: str | None = Field(default=None, min_length=1, max_length=100_000)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {k: tuple(v) if isinstance(v, list) else _tuples(v) if k == "bins" else v for k, v in value.items()}

    @model_validator(mode="after")
    def _no_accuracy(self) -> SynthesisSpec:
        if self.accuracy is not None:
            raise ValueError("synthetic rows have no accuracy that is known before; give a weight")
        single = [name for name in ("source", "columns", "target", "constraints", "where", "bins", "dates") if getattr(self, name)]
        if self.levels and single:
            raise ValueError(f"levels name their tables and columns themselves: leave out {single[0]}")
        if not self.levels and not (self.source and self.columns):
            raise ValueError("name a source and its columns, or levels")
        return self


Block = SynthesisSpec


@dataclass(frozen=True)
class SynthesisOutput:
    """A block that was checked. Its steps are admitted one by one, so it is priced in epsilon and delta."""

    spec: SynthesisSpec
    desk: Desk
    plain: bool = False
    figures: tuple[str, ...] = ()

    def at(self, portion: Portion) -> EnginePlan | LevelsPlan:
        """The plan for a price. No data is touched."""
        spec = self.spec
        if spec.levels:
            return plan_tables(self.desk, [one.level(self.desk) for one in spec.levels], portion.spend, method=spec.method)
        rows = f'SELECT COUNT(*) AS n FROM "{spec.source}"' + ("" if spec.where is None else f" WHERE ({spec.where})")
        columns = _binned(self.desk, spec.source or "", spec.columns, spec.bins, spec.dates)
        return engine_plan(
            self.desk, columns, portion.spend, method=spec.method, target=spec.target,
            constraints=[rule.constraint for rule in spec.constraints], rows=rows,
        )  # fmt: skip


def prepare(block: SynthesisSpec, job: Job, desk: Desk, place: str) -> SynthesisOutput:
    """Check the block against the job's sources and columns."""
    if not block.levels and (block.source not in desk.source.tables or block.source in desk.source.public):
        raise JobError("names no private source of the job", place=f"{place}.source")
    found = SynthesisOutput(block, desk)
    try:
        found.at(ANY_PRICE)
    except (ParameterError, TableError) as error:
        raise JobError(str(error), place=place) from None
    return found


@dataclass(frozen=True)
class TablePart:
    """One published table: its file's name, its columns with keys, and the columns of its model."""

    name: str
    title: str
    keys: tuple[str, ...]
    columns: tuple[Any, ...]
    model: tuple[Any, ...]


@dataclass(frozen=True)
class PlannedSynthesis:
    """A method with its price."""

    output: SynthesisOutput
    portion: Portion
    planned: EnginePlan | LevelsPlan
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
    def parts(self) -> list[TablePart]:
        """The tables that are published."""
        planned = self.planned
        if isinstance(planned, EnginePlan):
            return [TablePart(self.name, self.spec.title or self.name, (), planned.columns, planned.columns)]
        found = []
        for level in planned.tree.levels:
            keys = tuple(key for key in (level.by, level.key) if key)
            own, model = planned.columns[level.name][: len(level.columns)], planned.every(level)
            found.append(TablePart(f"{self.name}_{level.name}", level.name, keys, own, model))
        return found

    @property
    def size(self) -> int:
        return sum(len(part.columns) for part in self.parts)

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
    """Few rows, or little budget for them, make a poor model."""
    rows = job.expected.rows
    if rows is None:
        return []
    found = []
    cells = max(column.size for part in planned.parts for column in part.model)
    if rows < 100 * cells:
        text = f"{rows:,} rows are few for columns of up to {cells} cells: independent columns may be as good; use fewer bins"
        found.append(Notice("few-rows", place, text))
    plan = planned.planned
    if isinstance(plan, EnginePlan) and as_good_alone(rows, len(plan.columns), plan.budget, plan.cut.reach):
        text = (
            f"the budget is small for {rows:,} rows, at most {plan.cut.reach} of a person: which columns depend on one another "
            "cannot be told from the noise, so independent columns may be as good; give it more weight, lower the cap or use fewer columns"
        )
        found.append(Notice("small-budget", place, text))
    return found


def explain(planned: PlannedSynthesis) -> tuple[str, str]:
    """What is done in words, and the first statement that is sent."""
    found = planned.planned
    if isinstance(found, LevelsPlan):
        statement = found.statement(found.tree.root.name)
        caps = [f"at most {one.most} rows of {one.name} for each of {one.of}" for one in found.tree.levels[1:]]
        words = f"tables {', '.join(one.name for one in found.tree.levels)} ({'; '.join(caps)})"
    else:
        statement = found.cut.statement([(column.name,) for column in found.columns])
        words = f"rows of {len(found.columns)} columns"
    text = statement.sql(dialect=planned.output.desk.engine.dialect, pretty=True)
    return f"{words} by method {planned.spec.method}; at most {planned.event!r}", text


def draw(planned: PlannedSynthesis) -> Record:
    """Measure, fit and make the rows, once."""
    found = planned.planned
    if isinstance(found, LevelsPlan):
        fitted = found.fit()
        tables = SyntheticTables(found.tree, fitted, planned.event, True).sample()
        return {
            "tables": {
                part.level.name: _drawn(tables[part.level.name], part.every, part.measured) for part in fitted
            }
        }
    model, measuring = found.fit()
    measured, events = tuple(measuring.measured), tuple(measuring.events)
    made = Synthesizer(found.columns, model, measured, planned.event, events, True, found.constraints)
    return _drawn(made.sample(), found.columns, measured)


def _drawn(rows: SyntheticRows, columns: Sequence[Any], measured: Sequence[NoisyMarginal]) -> Record:
    marginals = [
        {
            "columns": [columns[place].name for place in one.columns],
            "counts": [plain(float(value)) for value in one.values.ravel()],
            "deviation": plain(float(one.sigma)),
        }
        for one in measured
    ]
    return {"rows": {name: [_plain(v) for v in values] for name, values in rows.to_pydict().items()}, "marginals": marginals}


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


@dataclass(frozen=True, repr=False)
class MadeTables:
    """What a draw made: one table, or one for each level."""

    tables: tuple[MadeRows, ...]
    private: bool

    def __repr__(self) -> str:
        return "; ".join(map(repr, self.tables))


def result(planned: PlannedSynthesis, drawn: Record, private: bool, entry: int | None) -> MadeTables:
    """The rows and the marginals of a draw."""
    every = drawn["tables"].values() if "tables" in drawn else [drawn]
    return MadeTables(tuple(MadeRows(one["rows"], one["marginals"], private) for one in every), private)


def cells_of(output: SynthesisOutput) -> Cut:
    """How the rows are cut, for a rehearsal."""
    found = output.at(ANY_PRICE)
    assert isinstance(found, EnginePlan)  # `in_cells` says why levels are not compared
    return found.cut


def in_cells(planned: PlannedSynthesis) -> list[CellFigures] | str:
    """The figures of a rehearsal: how many rows are in each cell of single columns, and of pairs of columns."""
    if isinstance(planned.planned, LevelsPlan):
        return "tables that belong together are compared with private rows by tacit.synthesis.evaluate, one by one"
    columns = planned.planned.columns
    found = []
    for ways, title in ((1, "single columns"), (2, "pairs of columns")):
        for some in itertools.combinations(columns, ways):
            names = tuple(column.name for column in some)
            found.append(CellFigures(title, names, math.prod(one.size for one in some), partial(_cells, some), lambda counts: counts))
    return found


def _cells(columns: Sequence[Any]) -> list[tuple[str, ...]]:
    named = " by ".join(column.name for column in columns)
    return [(named, *cell) for cell in itertools.product(*(column.labels() for column in columns))]


def told_in_cells(planned: PlannedSynthesis, result: MadeTables) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """How many made-up rows are in each of those cells. They tell no interval."""
    (part,), (made,) = planned.parts, result.tables
    table = _table(part, made)
    cells = [column.encode(table.column(column.name).to_pylist()) for column in part.columns]
    sizes = tuple(column.size for column in part.columns)
    cliques = [clique for ways in (1, 2) for clique in itertools.combinations(range(len(sizes)), ways)]
    return [(counted(cells, sizes, clique), np.array(math.nan)) for clique in cliques]


def _table(part: TablePart, made: MadeRows) -> pa.Table:
    kinds = {**{key: pa.int64() for key in part.keys}, **{c.name: pa.type_for_alias(c.kind) for c in part.columns}}
    days = {c.name for c in part.columns if isinstance(c, DateColumn)}  # as texts, in what was drawn
    rows = {name: [_date(day) for day in values] if name in days else values for name, values in made.rows.items()}
    return pa.table({name: pa.array(values, type=kinds[name]) for name, values in rows.items()})


def _date(day: str | None) -> datetime.date | None:
    return None if day is None else datetime.date.fromisoformat(day)


def checks(planned: PlannedSynthesis, result: MadeTables) -> list[tuple[str, bool]]:
    """Every row has every column, every value lies where it was declared, and every key leads to a row."""
    whole = inside = True
    for part, made in zip(planned.parts, result.tables, strict=True):
        sizes = {len(values) for values in made.rows.values()}
        whole &= list(made.rows) == [*part.keys, *(column.name for column in part.columns)] and len(sizes) == 1
        for column in part.columns:
            if isinstance(column, NumberColumn):
                values = [v for v in made.rows[column.name] if v is not None]
                inside &= all(column.edges[0] <= v <= column.edges[-1] for v in values)
            if isinstance(column, DateColumn):
                days = [_date(v) for v in made.rows[column.name] if v is not None]
                inside &= all(day is not None and column.edges[0] <= day < column.edges[-1] for day in days)
    found = [("every row has every column", whole), ("every number and date lies within its bins", inside)]
    if isinstance(planned.planned, LevelsPlan):
        found.append(("every row has a parent, and no parent more rows than declared", _whole_keys(planned.planned, result)))
    return found


def _whole_keys(planned: LevelsPlan, result: MadeTables) -> bool:
    tables = {level.name: made.rows for level, made in zip(planned.tree.levels, result.tables, strict=True)}
    for level in planned.tree.levels[1:]:
        above = planned.tree.named(level.of or "")
        counts = Counter(tables[level.name][level.by or ""])
        keys = tables[above.name][above.key or ""]
        if len(set(keys)) < len(keys) or not set(counts) <= set(keys) or max(counts.values(), default=0) > level.up_to:
            return False
    return True


def files(planned: PlannedSynthesis, result: MadeTables, formats: Sequence[str]) -> dict[str, bytes]:
    """The rows in every format, and the marginals as JSON, for every table."""
    found: dict[str, bytes] = {}
    for part, made in zip(planned.parts, result.tables, strict=True):
        labels = {column.name: column.labels() for column in part.model}
        measured = json.dumps({"cells": labels, "marginals": made.marginals}, indent=1).encode()
        found |= table_files(part.name, marked(_table(part, made), made.private), formats)
        found[f"{part.name}_marginals.json"] = measured
    return found


def recorded(planned: PlannedSynthesis, result: MadeTables) -> Record:
    """The method and its price."""
    common = {
        "method": planned.spec.method,
        "part": float(planned.portion.part),
        "price": planned.portion.spend.words,
        "event": json.loads(to_json(planned.event)),
    }
    marginals = [[one["columns"] for one in made.marginals] for made in result.tables]
    if not planned.spec.levels:
        return {"source": planned.spec.source, "columns": list(planned.spec.columns), **common, "marginals": marginals[0]}
    levels = [
        {"name": one.name, "of": one.of, "most": one.most, "columns": list(one.columns), "marginals": measured}
        | ({} if one.up_to is None else {"up_to": one.up_to})
        for one, measured in zip(planned.spec.levels, marginals, strict=True)
    ]
    return {"levels": levels, **common}


def post_processing(planned: PlannedSynthesis) -> list[str]:
    """Rows are drawn from a model of the measurements."""
    return ["graphical model"]


def _singles(marginals: Sequence[Record], names: Sequence[str]) -> list[tuple[str, list[float], float]]:
    """The measured single columns: name, counts and deviation, of all measurements of a column together."""
    seen = [
        NoisyMarginal((names.index(one["columns"][0]),), np.array(one["counts"], dtype=float), float(one["deviation"]))
        for one in marginals
        if len(one["columns"]) == 1
    ]
    return [(names[one.columns[0]], one.values.round(2).tolist(), one.sigma) for one in merged(seen)]


def described(planned: PlannedSynthesis, result: MadeTables | None) -> Record:
    """What the report shows: for every table the measured single columns, and what was measured."""
    tables = []
    wide = float(half_width([1.0], "gaussian", float(planned.output.desk.confidence))[0])
    for place, part in enumerate(planned.parts):
        made = None if result is None else result.tables[place]
        columns = {column.name: column for column in part.model}
        parts: list[Record] = []
        singles = () if made is None else _singles(made.marginals, list(columns))
        for name, counts, deviation in singles[:SHOWN]:
            parts.append({
                "title": name, "groups": {name: columns[name].labels()}, "value": counts,
                "low": [value - wide * deviation for value in counts], "high": [value + wide * deviation for value in counts],
            })  # fmt: skip
        times = Counter(" by ".join(one["columns"]) for one in (() if made is None else made.marginals))
        measured = [name if number == 1 else f"{name} ({number} times)" for name, number in times.items()]
        rows = 0 if made is None else made.count
        tables.append({
            "title": part.title if planned.spec.levels else "", "parts": parts, "rows": rows, "measured": measured,
            "more": len(singles) - len(parts),
        })  # fmt: skip
    notes = [
        "These rows are made up. They have, about, the tables that were measured, and nothing else of the people.",
        "Figures that were not measured together, and small groups, can be far from the truth: use the measured "
        "tables with their noise where exact figures matter.",
        "Their number is estimated from the measurements.",
    ]
    if planned.spec.levels:
        notes.append("Keys are numbers from 1 and mean nothing. Rows of one parent are alike only as far as the parent says.")
    return {
        "name": planned.name,
        "title": planned.spec.title,
        "answered": result is not None,
        "tables": tables,
        "method": planned.spec.method,
        "event": repr(planned.event),
        "notes": notes,
    }


def section(described: Record, confidence: str) -> str:
    """Pictures of the measured single columns, and what the statistician asks."""
    drawn = [
        [pictures.table(p["groups"], f"rows by {p['title']}", p["value"], p["low"], p["high"]) for p in one["parts"]]
        for one in described["tables"]
    ]
    return template("synthesis.html").render(output=described, pictures=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedSynthesis], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about synthetic rows."""
    return {
        "Do bounds or groups come from the data?": "No: categories, bounds and bins are declared in the job, and the number of rows is "
        "estimated from noisy counts.",
        "Who bears the noise?": "Combinations that few people have are blurred most, and what was not measured together is not kept.",
    }
