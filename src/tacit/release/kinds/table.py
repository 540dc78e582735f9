"""`kind: table`, which is also meant where no kind is given: one question in SQL, published as a table of figures with intervals.

The question is planned and drawn at the job's desk (`tacit.tables.Desk`). What is drawn is integers with noise and the groups they are
about; everything after that is post-processing.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> planned = plan(parse(EXAMPLE)).outputs[0]
>>> planned.name, planned.groups, planned.size
('by_region', 2, 2)
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator, model_validator
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tacit.accounting import Event, Guarantee, Note, to_json
from tacit.exact import exact
from tacit.ledger import days
from tacit.mechanisms import half_width
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.faults import WORDS
from tacit.release.job_parts import JobPart, Number, OutputSpec, Scalar
from tacit.release.kinds import Notice, Portion, Record, marked, placed, table_files
from tacit.release.page import bracket, listed, plain, template, who_pays
from tacit.tables import Answer, Asked, Desk, Figures, Lost, Plan, Question, Recipe, Released, both_ways, explained, rows_lost
from tacit.tables.figures import expected

if TYPE_CHECKING:
    from tacit.release.job import Job

#: Rows of a group that errors are foretold for where the job declares no sizes.
ASSUMED_ROWS = 1000
#: The delta that a price in rho is also told at, in epsilon.
SHOWN_DELTA = Fraction(1, 10**6)
#: Rows of a table that the report shows; all of them are in the files.
SHOWN = 200
PRODUCT = "Tables of aggregates"


# --- its block of the job -------------------------------------------------------------------------------------------------------------


class Postprocess(JobPart):
    """Free changes to released figures; the figures as released are published beside."""

    nonnegative: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @field_validator("nonnegative", "whole", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class Range(JobPart):
    """Where every released value of a figure must lie for the release to be published."""

    least: float | None = Field(default=None, allow_inf_nan=False)
    most: float | None = Field(default=None, allow_inf_nan=False)


class TableSpec(OutputSpec):
    """One table: a question, and what it deserves of the budget (`weight`) or how exact it must be (`accuracy`).

    `bounds` are those of what the question computes: a column of a sub-query, by its name. `loss: false` saves the small part of the
    budget that tells how many rows the caps cut off; `beyond: true` spends one to tell how many values lie beyond their bounds.
    `partial: true` says that the groups are some of the rows on purpose, so that their total is compared with nothing.
    """

    later: ClassVar[Mapping[str, Any]] = {"kind": "table", "loss": True, "bounds": {}, "beyond": False, "partial": False}

    sql: str = Field(min_length=1, max_length=100_000)
    weights: dict[str, Number] = Field(default_factory=dict)
    keys: Literal["private"] | tuple[str, ...] | dict[str, Literal["private"] | tuple[Scalar, ...]] | None = None
    postprocess: Postprocess = Postprocess()
    checks: dict[str, Range] = Field(default_factory=dict)
    rows_per_group: int | None = Field(default=None, ge=1)
    bounds: dict[str, tuple[Number, Number]] = Field(default_factory=dict)
    loss: bool = True
    beyond: bool = False
    partial: bool = False

    @field_validator("bounds", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()} if isinstance(value, dict) else value

    @field_validator("keys", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if isinstance(value, list):
            return tuple(value)
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _in_order(self) -> TableSpec:
        if any(exact("bound", low) > exact("bound", high) for low, high in self.bounds.values()):
            raise ValueError("bounds must be [lower, upper]; swap them")
        return self

    def check(self, columns: set[str]) -> None:
        twice = [name for name in self.bounds if name in columns]
        if twice:
            raise ValueError(
                f"{self.name}: {twice[0]} is a column, so its bounds stand under columns.{twice[0]}; here are those of other values"
            )


Block = TableSpec


# --- before the data is touched ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableOutput:
    """A question that was read, and the public values of its keys; None for those to be selected privately."""

    spec: TableSpec
    job: Job
    desk: Desk
    place: str
    question: Question
    keys: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        return None not in self.keys.values()

    @property
    def figures(self) -> list[str]:
        return [aggregate.name for aggregate in self.question.aggregates]


def prepare(block: TableSpec, job: Job, desk: Desk, place: str) -> TableOutput:
    """Read the question and its keys."""
    with placed(f"{place}.sql"):
        question = desk.question(block.sql)
    if question.asked != Asked():
        raise JobError("price and unit are the job's, not the question's; leave OPTIONS out", place=f"{place}.sql")
    return TableOutput(block, job, desk, place, question, keys_of(block, desk, question, place))


def keys_of(block: TableSpec, desk: Desk, question: Question, place: str) -> dict[str, Any]:
    """The public values of each key, None for those to be selected privately. What is neither declared nor 'private' is refused."""
    categories = desk.schema.categories_of(question, desk.catalog.columns)
    given: Mapping[str, Any] = block.keys if isinstance(block.keys, dict) else {}
    names = [key.name for key in question.keys]
    unknown = [name for name in (block.keys if isinstance(block.keys, (dict, tuple)) else ()) if name not in names]
    if unknown:
        raise JobError(f"names {unknown[0]!r}, which the question is not grouped by", place=f"{place}.keys")
    found: dict[str, Any] = {}
    for name, known in zip(names, (key.listed for key in question.keys), strict=True):
        if known is not None:
            found[name] = known
        elif block.keys == "private" or given.get(name) == "private":
            found[name] = None
        elif name in given:
            found[name] = given[name]
        elif name in categories:
            found[name] = categories[name]
        else:
            raise JobError(
                f"the values of {name!r} are in the data; list them under columns.{name}.categories or keys.{name}, "
                f"or write keys: {{{name}: private}} to have them selected privately",
                place=f"{place}.keys",
            )
    return found


@dataclass(frozen=True)
class TablePlan:
    """A question with its price and noise. Errors are those of a group of `rows` rows, `assumed` where the job declares no sizes."""

    output: TableOutput
    portion: Portion
    plan: Plan
    noise: str
    event: Event
    #: What other tables of the same release tell of the rows that the caps take, when its figures are made.
    elsewhere: Lost | None = None

    @property
    def spec(self) -> TableSpec:
        return self.output.spec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def part(self) -> Fraction:
        return self.portion.part

    @property
    def spend(self) -> Guarantee:
        return self.portion.spend

    @property
    def groups(self) -> int:
        return self.plan.keys.count

    @cached_property
    def _rows(self) -> int | None:
        """How many rows a group has, as far as the job says."""
        rows = self.output.job.expected.rows
        if self.spec.rows_per_group is not None:
            return self.spec.rows_per_group
        return max(1, rows // self.groups) if rows is not None and self.output.plain else None

    @property
    def rows(self) -> int:
        return ASSUMED_ROWS if self._rows is None else self._rows

    @cached_property
    def whole_table(self) -> bool:
        """Whether the question is about all rows of one table: without a filter, a join or a sub-query."""
        if self.spec.partial:
            return False
        try:
            tree = parse_one(self.spec.sql, read=self.output.desk.dialect)
        except SqlglotError:
            return False
        narrowed = tree.find(exp.Where, exp.Join, exp.Subquery, exp.CTE, exp.SetOperation, exp.Filter, exp.Window)
        return len(list(tree.find_all(exp.Table))) == 1 and narrowed is None

    @property
    def assumed(self) -> bool:
        return self._rows is None

    @property
    def size(self) -> int:
        return self.groups * len(self.plan.recipes)

    @property
    def score(self) -> float:
        return math.fsum(float(share.part) * math.log(share.deviation) for share in self.plan.shares)

    @property
    def private_keys(self) -> bool:
        return self.plan.selection is not None

    @property
    def people_needed(self) -> int | None:
        """How many people a privately selected key needs to appear with an even chance; None where keys are declared."""
        return None if self.plan.selection is None else self.plan.selection.people_needed

    @cached_property
    def errors(self) -> dict[str, float]:
        return self.errors_at(self.output.desk.confidence)

    def errors_at(self, confidence: float) -> dict[str, float]:
        """With the declared share of missing values: a mean of half the rows has more noise."""
        found = expected(self.plan, self.rows, confidence)
        for recipe in self.plan.recipes:
            there = self._there(recipe)
            if there < 1:
                found[recipe.aggregate.name] = expected(self.plan, max(1, round(self.rows * there)), confidence)[recipe.aggregate.name]
        return found

    def _there(self, recipe: Recipe) -> float:
        """The share of rows that have the values of a figure, as far as the job declares what is missing."""
        shares = self.output.job.expected.missing
        values = [value for value in (recipe.aggregate.value, recipe.aggregate.other) if value is not None]
        named = {node.name for value in values for node in value.find_all(exp.Column)}
        return math.prod(1 - shares[name] for name in named if name in shares)


def plan(output: TableOutput, portion: Portion) -> TablePlan:
    """The plan of a question at a price."""
    spec, job = output.spec, output.job
    with placed(output.place):
        span = None if job.unit.window is None else days(job.unit.window, job.period or "")
        weights = {name: exact(f"weights[{name!r}]", value) for name, value in spec.weights.items()}
        bounds = {name: (exact("bound", low), exact("bound", high)) for name, (low, high) in spec.bounds.items()}
        found = output.desk.plan(
            output.question, portion.spend, bounds=bounds, keys=output.keys, weights=weights,
            law=portion.law, loss=spec.loss, period=span, beyond=spec.beyond,
        )
    names = {*output.figures, *(shown.name for shown in output.question.outputs)}
    unknown = [name for name in (*spec.postprocess.nonnegative, *spec.postprocess.whole, *spec.checks) if name not in names]
    if unknown:
        raise JobError(f"{unknown[0]!r} is no figure of this output; there are {', '.join(sorted(names))}", place=output.place)
    return TablePlan(output, portion, found, found.split.law, found.event)


def explain(planned: TablePlan) -> tuple[str, str]:
    """The question step by step, and the statement."""
    desk = planned.output.desk
    statement = planned.plan.statement(desk.engine, 0).sql(dialect=desk.engine.dialect, pretty=True)
    return explained(planned.plan, statement, planned.rows, desk.confidence), statement


# --- warnings ---------------------------------------------------------------------------------------------------------------------------


def notices(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """The red flags of one table."""
    for rule in (_noisy, _cut_by_caps, _rare_keys, _free_text, _many_groups, _joins, _exact_wanted):
        yield from rule(planned, job, place)


def _noisy(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """Noise larger than the figure it is added to."""
    if planned.assumed:
        return
    errors = planned.errors
    for recipe in planned.plan.recipes:
        name = recipe.aggregate.name
        value = expected_size(recipe, planned.rows)
        if value is None or errors[name] < value:
            continue
        counted = recipe.aggregate.kind in (*_COUNTS, "sum")
        found = f"in a group where about {value:.3g} is expected" if counted else "which is all that its bounds leave open"
        yield Notice(
            "noise above value",
            place,
            f"{name} of {planned.name!r} would be off by up to {errors[name]:.3g}, {found}; "
            "use fewer or larger groups, lower caps, tighter bounds, or more weight",
        )


_COUNTS = ("count", "count_value", "count_person", "count_distinct")
#: A loss to caps that is foretold and exceeds this share is said.
CUT_NOTICE = 0.1


def least_cut(planned: TablePlan, job: Job) -> float:
    """The share of rows that the caps cut at the least, from the declared sizes: people have more rows on average than are kept.

    That average may not exceed the cap, so no spread of the rows over people makes the loss smaller (Jensen's inequality).
    """
    people, rows, unit = job.expected.people, job.expected.rows, planned.plan.unit
    if people is None or rows is None or unit.person is None or unit.capped or not planned.whole_table:
        return 0.0
    return max(0.0, 1 - planned.plan.reach.rows * people / rows)


def _cut_by_caps(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """Caps below what people have on average."""
    cut = least_cut(planned, job)
    if cut <= CUT_NOTICE:
        return
    counted = [recipe.aggregate.name for recipe in planned.plan.recipes if recipe.aggregate.kind in (*_COUNTS, "sum")]
    mean = (job.expected.rows or 0) / (job.expected.people or 1)
    names = listed(counted or [recipe.aggregate.name for recipe in planned.plan.recipes])
    yield Notice(
        "cut off by caps",
        f"{place}" if not counted else place,
        f"{names} of {planned.name!r} {'are' if len(counted) > 1 else 'is'} {'mostly ' if cut > 0.5 else ''}cut off by the caps: "
        f"at least {cut:.0%} of the rows, because one {planned.plan.unit.noun} has {mean:.3g} on average and "
        f"{planned.plan.reach.rows} are kept. Raise the caps to what most of them have, "
        "or count each of them once",
    )


def expected_size(recipe: Recipe, rows: int) -> float | None:
    """What a figure may be expected to be: a count the rows of its group, a sum half of the most they can add up to; of what lies between
    bounds, half of what they leave open."""
    kind = recipe.aggregate.kind
    if kind in _COUNTS:
        return float(rows)
    if kind == "corr":
        return 1.0
    if not recipe.intervals:
        return None
    low, high = float(recipe.intervals[0].lower), float(recipe.intervals[0].upper)
    if kind == "sum":
        return rows * max(abs(low), abs(high)) / 2
    return (high - low) / 2 if kind in ("avg", "quantile", "median", "min", "max") else None


def _rare_keys(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """Keys that are selected privately and that too few people have."""
    needed = planned.people_needed
    have = planned.rows if not planned.assumed else job.expected.people
    if needed is not None and have is not None and needed > have:
        yield Notice(
            "rare keys",
            place,
            f"a key of {planned.name!r} appears only where about {needed} people have it, and {have} are expected"
            f"{' in all' if planned.assumed else ' in a group'}: the table will be all but empty. Declare the keys, or raise its weight",
        )


def _free_text(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """Texts that are published as they are found."""
    question = planned.plan.question
    for index in planned.plan.keys.private:
        value = question.keys[index].value
        spec = next((c for n, c in job.columns.items() if isinstance(value, exp.Column) and n.rpartition(".")[2] == value.name), None)
        if spec is not None and spec.type == "text":
            yield Notice(
                "free text",
                f"{place}.keys",
                f"the values of {question.keys[index].name!r} that many people share are published as they are written: codes "
                "are fine, what people typed themselves is not; list the public values where there is a code book",
            )


def _many_groups(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """More groups than people, or than rows to put into them."""
    rows, people = job.expected.rows, job.expected.people
    size = rows if rows is not None else people
    if size is not None and planned.groups > 1 and planned.groups * 10 > size:
        yield Notice(
            "many groups",
            place,
            f"{planned.groups} groups for about {size} {'rows' if rows is not None else 'people'}: most would hold fewer than ten. "
            "Coarsen the keys (age ranges, larger regions, longer periods) or leave a key out",
        )


def _joins(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """Private tables joined on something."""
    private = {name for name, source in job.sources.items() if not source.public}
    try:
        tables = {table.name for table in parse_one(planned.spec.sql, read="duckdb").find_all(exp.Table)}
    except SqlglotError:
        return
    if len(tables & private) > 1:
        yield Notice(
            "private join",
            f"{place}.sql",
            "joins private tables: one person's rows multiply, so caps cut more off; "
            "publish from each table where that answers the question",
        )


def _exact_wanted(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """An accuracy that only exact figures have."""
    wanted = planned.spec.accuracy
    if wanted is None:
        return
    goals = wanted.within.values() if isinstance(wanted.within, dict) else [wanted.within]
    counted = [recipe for recipe in planned.plan.recipes if recipe.aggregate.kind.startswith("count")]
    if counted and min(exact("within", goal) for goal in goals) < 1:
        yield Notice(
            "exact figures",
            f"{place}.accuracy",
            "a count within less than 1 is an exact count: it changes when one person's data do, and that is what must not be seen. "
            "Ask which error would still do",
        )


# --- drawing, and what becomes of it ----------------------------------------------------------------------------------------------------


def draw(planned: TablePlan) -> Record:
    """The noisy integers and their groups."""
    return record_of(planned.output.desk.draw(planned.plan)[0])


def record_of(released: Released) -> Record:
    """What was drawn, as JSON."""
    return {**released.to_record(), "groups": [[_typed(value) for value in group] for group in released.groups]}


def _typed(value: Any) -> Any:
    """Keys as JSON: dates and decimals are marked."""
    for kind, name in ((datetime.datetime, "timestamp"), (datetime.date, "date")):
        if isinstance(value, kind):
            return {name: value.isoformat()}
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _untyped(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    (name, text), *_ = value.items()
    readers: dict[str, Any] = {"timestamp": datetime.datetime.fromisoformat, "date": datetime.date.fromisoformat, "decimal": Decimal}
    return readers[name](text)


def released_of(drawn: Record) -> Released:
    """The inverse of `record_of`."""
    return Released.from_record({**drawn, "groups": [[_untyped(value) for value in group] for group in drawn["groups"]]})


def result(planned: TablePlan, drawn: Record, private: bool, entry: int | None) -> Answer:
    """The figures, post-processed as the job says."""
    return answered(planned, released_of(drawn), private, entry)


def unfinished(planned: TablePlan, drawn: Record, private: bool, entry: int | None) -> Answer:
    """The figures as they were drawn, before non-negativity and rounding."""
    plain = planned.spec.model_copy(update={"postprocess": Postprocess()})
    return answered(replace(planned, output=replace(planned.output, spec=plain)), released_of(drawn), private, entry)


def answered(planned: TablePlan, released: Released, private: bool, entry: int | None) -> Answer:
    """The answer that a draw amounts to."""
    found = planned.plan
    delta = found.spend.delta or SHOWN_DELTA if found.selection is not None or found.split.law == "gaussian" else Fraction(0)
    answer = planned.output.desk.answer(
        found, released, delta=delta, private=private, entry=entry, notes=_undeclared(planned), also=_missing(planned, released)
    )
    answer = replace(answer, notes=tuple(note.said(WORDS) if isinstance(note, Note) else note for note in answer.notes))
    post = planned.spec.postprocess
    return answer.finished(nonnegative=post.nonnegative, whole=post.whole) if post.nonnegative or post.whole else answer


def _undeclared(planned: TablePlan) -> tuple[str, ...]:
    """What becomes of rows whose keys have values that are not declared, in words; public."""
    said = []
    for key in planned.plan.question.keys:
        value = key.value
        spec = next(
            (c for n, c in planned.output.job.columns.items() if isinstance(value, exp.Column) and n.rpartition(".")[2] == value.name), None
        )
        if spec is None or spec.categories is None or planned.output.keys.get(key.name) is None:
            continue
        if spec.other is not None:
            said.append(f"rows where {key.name} has none of the declared values are counted under {spec.other}")
        else:
            said.append(f"rows where {key.name} has none of the declared values, or none at all, are in no group")
    return tuple(said)


def _missing(planned: TablePlan, released: Released) -> Lost | None:
    """What else is known of the rows that the caps took: from their declared number, and from other tables of the release."""
    return both_ways(_expected(planned, released), planned.elsewhere)


def _expected(planned: TablePlan, released: Released) -> Lost | None:
    """Rows that are expected and not there, as a loss: caps leave out more than was measured where people have very many rows.

    Only for a question about all rows of the one private table, whose number is declared.
    """
    job, plan = planned.output.job, planned.plan
    private = [name for name, source in job.sources.items() if not source.public]
    whole = plan.question.where is None and len(private) == 1 and job.unit.window is None and planned.whole_table
    if job.expected.rows is None or not whole or plan.loss is None:
        return None
    rows, counted = plan.shares[plan.loss.kept], released.sums[plan.loss.kept]
    wide = float(half_width(np.full(len(counted), rows.spread), rows.law, planned.output.desk.confidence)[0])
    share = max(0.0, 1 - float(np.sum(counted)) / job.expected.rows)
    slack = job.expected.tolerance + wide / job.expected.rows
    return Lost(share, max(0.0, share - slack), min(1.0, share + slack), job.expected.rows * (1 + job.expected.tolerance))


def told_by_others(drawn: Mapping[str, tuple[TablePlan, Record]]) -> dict[str, TablePlan]:
    """The plans, each with what the other tables of a release tell of the rows that the caps take. It reads what was released.

    Tables that are all about the rows of one table, under caps on a unit's rows alone, lose the same rows. The one that measured it
    best speaks for all, so that a table with a small part of the budget does not stand there as if nothing was lost.
    """
    found: dict[tuple[Any, ...], list[tuple[str, Lost]]] = {}
    for name, (planned, record) in drawn.items():
        told = rows_lost(planned.plan, released_of(record), planned.output.desk.confidence)
        if told is not None and _same_rows(planned):
            found.setdefault(_same_rows(planned), []).append((name, told))
    made = {name: planned for name, (planned, _) in drawn.items()}
    for alike in found.values():
        best, told = min(alike, key=lambda one: one[1].high - one[1].low)
        made |= {name: replace(made[name], elsewhere=told) for name, _ in alike if name != best}
    return made


def _same_rows(planned: TablePlan) -> tuple[Any, ...]:
    """What two tables must share to lose the same rows; empty where that is not known."""
    unit, question = planned.plan.unit, planned.plan.question
    if not planned.whole_table or question.where is not None or unit.max_groups is not None or unit.rows_per_group is not None:
        return ()
    if not question.tables:
        return ()
    return (*sorted(question.tables), unit.most_rows)


def checks(planned: TablePlan, result: Answer) -> list[tuple[str, bool]]:
    """Soundness of a table; it reads released figures and public parameters only."""
    found: list[tuple[str, bool]] = []
    names = [recipe.aggregate.name for recipe in planned.plan.recipes]
    question = planned.plan.question
    keys = [key.name for key in question.keys]
    if question.outputs:
        found.append(("has the columns that were asked for", {*result.keys, *result.figures} == {shown.name for shown in question.outputs}))
    else:
        found.append(("has the figures that were asked for", list(result.figures) == names))
        found.append(("has the keys that were asked for", list(result.keys) == keys))
    shape = all(len(values) == result.rows for values in result.keys.values())
    for figures in result.figures.values():
        shape = shape and len(figures.value) == len(figures.low) == len(figures.high) == result.rows
    found.append(("every column has a value for every group", shape))
    groups = list(zip(*result.keys.values(), strict=False)) if keys else [()]
    shortened = question.having is not None or question.limit is not None or question.offset > 0
    if not question.outputs:
        found.append(("no group appears twice", len(set(groups)) == len(groups)))
    if not planned.private_keys and not question.outputs and not shortened:
        wanted = planned.plan.keys.groups(range(planned.groups), [()] * planned.groups) if keys else [()]
        found.append(("every declared group is there", set(groups) == set(wanted)))
    # what is computed of several figures may have no value (a ratio of nothing), so only the figures themselves must have one
    for name, figures in ((name, figures) for name, figures in result.figures.items() if name in names):
        ends = (figures.low, figures.value, figures.high)
        found.append((f"{name} is finite everywhere", all(bool(np.isfinite(part).all()) for part in ends)))
        found.append((f"{name} lies in its interval", bool(((figures.low <= figures.value) & (figures.value <= figures.high)).all())))
    for name, allowed in planned.spec.checks.items():
        least, most = (other if end is None else end for end, other in ((allowed.least, -np.inf), (allowed.most, np.inf)))
        value = result.figures[name].value
        found.append((f"{name} is between {least:g} and {most:g}", bool(((value >= least) & (value <= most)).all())))
    return found


#: A figure is rounded to this part of its interval's half width: finer digits are noise.
FINER = 100


def table_of(answer: Answer, planned: TablePlan | None = None) -> pa.Table:
    """Keys and figures with their intervals; where figures were post-processed, the released ones stand beside as `<name>_raw`.

    Counts are whole numbers. Other figures have the digits that their interval leaves any meaning to. Intervals are rounded outward.
    """
    table = answer.to_arrow()
    intervals = ("noise",) if planned is None else planned.output.job.publication.intervals
    columns: dict[str, Any] = {name: table.column(name) for name in answer.keys}
    raw: dict[str, Any] = {}
    for name, found in answer.figures.items():
        counted = planned is not None and _whole_numbers(planned, name)
        digits = 0 if counted else _digits(found)
        columns[name] = _rounded(found.value, digits, counted, np.rint)
        ends = {"noise": ("_low", "_high"), "total": ("_total_low", "_total_high")}
        for kind in intervals:
            if kind == "total" and found.bias is None:
                continue
            for end, suffix, way in zip(found.interval(kind), ends[kind], (np.floor, np.ceil), strict=True):
                columns[f"{name}{suffix}"] = _rounded(end, digits, counted, way)
        released = (answer.raw_figures or {}).get(name)
        if released is not None and released.value is not found.value:
            raw[f"{name}_raw"] = _rounded(released.value, digits, counted, np.rint)
    columns |= raw
    return marked(pa.table(columns).replace_schema_metadata(table.schema.metadata), answer.private)


def _whole_numbers(planned: TablePlan, shown: str) -> bool:
    """Whether a column is a count, whose noise is whole too."""
    names = {one.name: one.value.name for one in planned.plan.question.outputs if isinstance(one.value, exp.Column)}
    name = names.get(shown, shown) if planned.plan.question.outputs else shown
    for recipe in planned.plan.recipes:
        if recipe.aggregate.name == name and recipe.kind == "linear" and recipe.aggregate.kind in _COUNTS:
            return all(planned.plan.shares[index].granule == 1 and factor == int(factor) for index, factor in recipe.value)
    return False


def _digits(found: Figures) -> int:
    """Decimals that tell a hundredth of the narrowest interval's half width apart."""
    halves = (found.high - found.low) / 2
    halves = halves[np.isfinite(halves) & (halves > 0)]
    return 12 if not len(halves) else int(min(12, max(0, math.ceil(-math.log10(float(halves.min()) / FINER)))))


def _rounded(values: Any, digits: int, whole: bool, way: Any) -> pa.Array:
    """A column to so many decimals, rounded in one way; whole numbers where all of them are."""
    if whole and bool(np.isfinite(values).all()) and bool((np.abs(values) < 2**53).all()):
        return pa.array(way(values).astype(np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.round(way(values * 10.0**digits) / 10.0**digits, digits)
    return pa.array(np.where(np.isfinite(found), found, values))


def files(planned: TablePlan, result: Answer, formats: Sequence[str]) -> dict[str, bytes]:
    """The table in every format."""
    return table_files(planned.name, table_of(result, planned), formats)


def dictionary(planned: TablePlan, result: Answer) -> list[Record]:
    """What each column of the published table is, for the data dictionary."""
    job, confidence = planned.output.job, planned.output.desk.confidence
    found: list[Record] = []
    keys = {key.name: key for key in planned.plan.question.keys}
    for field in table_of(result, planned).schema:
        name = field.name
        base, _, end = name.rpartition("_")
        kind = _FRICTIONLESS.get(str(field.type), "number" if pa.types.is_floating(field.type) else "string")
        entry: Record = {"name": name, "type": kind}
        if name in result.keys:
            spec = next((c for n, c in job.columns.items() if n.rpartition(".")[2] == name), None)
            entry["description"] = "the groups" + ("" if name not in keys or not planned.private_keys else ", selected privately")
            if spec is not None and spec.listed is not None and spec.type == "text":
                entry["constraints"] = {"enum": [value for value in spec.listed if value is not None]}
                if spec.other is not None:
                    entry["description"] += f"; {spec.other} are all values that are not listed"
        elif name in result.figures:
            entry["description"] = f"{name} with noise; {_meaning(planned, name)}"
        elif name == "not_private":
            entry["description"] = "this release was drawn in test mode"
        elif end == "raw":
            entry["description"] = f"{base} as it was released, before post-processing"
        else:
            about = "noise and estimated bias" if base.endswith("_total") else "noise"
            which = "lower" if end == "low" else "upper"
            entry["description"] = f"{which} end of the {confidence:.4g} interval of {base.removesuffix('_total')}, for {about}"
        found.append(entry)
    return found


_FRICTIONLESS = {"int64": "integer", "uint64": "integer", "double": "number", "bool": "boolean", "string": "string", "date32[day]": "date"}


def _meaning(planned: TablePlan, shown: str) -> str:
    """What a figure is, in its own SQL."""
    for recipe in planned.plan.recipes:
        if recipe.aggregate.name == shown:
            value = recipe.aggregate.value
            of = "" if value is None else f" of {value.name or value.sql()}"
            bounds = recipe.intervals[0] if recipe.intervals else None
            clamped = f", clamped to {float(bounds.lower):g} to {float(bounds.upper):g}" if bounds is not None else ""
            return f"{recipe.aggregate.kind.replace('_', ' ')}{of}{clamped}"
    return "computed of other figures"


def recorded(planned: TablePlan, result: Answer) -> Record:
    """The question, its price and its noise."""
    return {
        "sql": planned.spec.sql,
        "part": float(planned.part),
        "price": planned.spend.words,
        "event": json.loads(to_json(planned.event)),
        "keys": "selected privately" if planned.private_keys else "public",
        "noise": [{"measure": n.measure, "law": n.law, "deviation": n.deviation} for n in result.noise],
        "columns": {"keys": list(result.keys), "figures": list(result.figures)},
        "figures": {name: found for name in result.figures if (found := linear(planned, name)) is not None},
        **({"biased": biased(result)} if result.biased else {}),
        "notes": list(result.notes),
    }


def linear(planned: TablePlan, shown: str) -> Record | None:
    """The noise of a figure that is a sum with noise: its law and the spreads of its parts. By these, figures of several periods can be
    compared with honest intervals. None for other figures."""
    for recipe in planned.plan.recipes:
        if recipe.aggregate.name == shown and recipe.kind == "linear":
            shares = [(planned.plan.shares[index], factor) for index, factor in recipe.value]
            rounding = sum(abs(factor) * share.granule / 2 for share, factor in shares)
            return {"law": shares[0][0].law, "spreads": [factor * share.spread for share, factor in shares], "rounding": rounding}
    return None


def biased(result: Answer) -> list[Record]:
    """The figures that caps or bounds cut by more than their interval shows, with their total intervals."""
    found: list[Record] = []
    for name, lines in result.biased.items():
        low, high = result.interval(name, "total")
        for i in lines:
            group = [None if value is None else str(value) for value in (values[i] for values in result.keys.values())]
            found.append({"figure": name, "group": group, "total_low": plain(float(low[i])), "total_high": plain(float(high[i]))})
    return found


def post_processing(planned: TablePlan) -> list[str]:
    """What was done to the figures."""
    return [name for name in ("nonnegative", "whole") if getattr(planned.spec.postprocess, name)]


# --- its section of the report ----------------------------------------------------------------------------------------------------------


def described(planned: TablePlan, result: Answer | None) -> Record:
    """One table: the figures as published, how they were made, what to know about them."""
    found: Record = {
        "name": planned.name,
        "title": planned.spec.title,
        "sql": planned.spec.sql.strip(),
        "answered": result is not None,
        "expected": {name: plain(error) for name, error in planned.errors.items()},
        "expected_rows": f"{planned.rows:,}" + (" (assumed)" if planned.assumed else ""),
        "noise": [{"measure": s.measure.name, "law": s.law.capitalize(), "deviation": plain(s.deviation)} for s in planned.plan.shares],
        "event": repr(planned.event),
        "cost": {"lower": "", "upper": "", "delta": "", "method": "not run"},
        "notes": [*(() if result is None else result.notes), *_clamps(planned), *_finishing(planned), *_selection(planned)],
        "who_pays": _who_pays(planned),
        **{"groups": {}, "figures": {}, "released": {}, "rows": 0},
    }
    if result is None:
        return found
    released = result.raw_figures or {}
    return {
        **found,
        "cost": bracket(result.cost, result.delta),
        "groups": {name: ["(missing)" if value is None else str(value) for value in values] for name, values in result.keys.items()},
        "figures": {name: _figures(figure, _whole_numbers(planned, name)) for name, figure in result.figures.items()},
        "released": {name: _figures(f) for name, f in released.items() if not bool((f.value == result.figures[name].value).all())},
        "rows": result.rows,
    }


def _who_pays(planned: TablePlan) -> Record | None:
    """What the noise does to groups of several sizes, for the first count of the table."""
    ones = [share for share in planned.plan.shares if share.measure.high == 1 and share.measure.low in (0, 1)]
    counted = [share for share in ones if share.measure.over in ("rows", "people")]
    if not counted:
        return None
    noise = counted[0]
    if noise.law == "gaussian":
        return who_pays(noise.measure.name, noise.deviation, "gaussian", noise.deviation)
    return who_pays(noise.measure.name, noise.deviation, "laplace", noise.spread)


def _figures(found: Figures, whole: bool = False) -> Record:
    """A column as JSON; counts as whole numbers, with their intervals rounded outward, as they are published."""
    ways = {"value": np.rint, "low": np.floor, "high": np.ceil} if whole else {}
    told: Record = {
        name: [plain(float(x)) for x in ways.get(name, np.asarray)(getattr(found, name))] for name in ("value", "low", "high")
    }
    if whole:
        told["whole"] = True
    if found.biased.any():
        low, high = found.interval("total")
        told |= {"total_low": [plain(float(x)) for x in low], "total_high": [plain(float(x)) for x in high]}
        told["biased"] = [bool(one) for one in found.biased]
    return told


def section(described: Record, confidence: str) -> str:
    """The pictures, the table, and what the statistician asks."""
    def numbers(values: Sequence[float | None]) -> list[float]:
        return [math.nan if value is None else value for value in values]

    drawn = {
        name: pictures.table(
            described["groups"], name, *(numbers(f[end]) for end in ("value", "low", "high")),
            total=(numbers(f["total_low"]), numbers(f["total_high"])) if "biased" in f else None,
        )
        for name, f in described["figures"].items()
    }
    cut = [name for name, figure in described["figures"].items() if "biased" in figure]
    said = f"{listed(cut)} {'is' if len(cut) == 1 else 'are'}" if cut else ""
    output = {**described, "shown": min(described["rows"], SHOWN), "cut": said}
    return template("table.html").render(output=output, picture=drawn, confidence=confidence)


def review(outputs: Sequence[TablePlan], private: bool) -> dict[str, str]:
    """What a reviewer asks about tables."""
    keys = "selected privately" if any(output.private_keys for output in outputs) else "declared in advance"
    return {
        "Do bounds or groups come from the data?": "No bounds do: they are declared in the job. "
        f"Groups are {keys}; none is taken over from the data without noise.",
        "Can the rounding of numbers leak?": "Sums are whole numbers and exact; the noise is drawn on whole numbers"
        + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
        "Who bears the noise?": "Every group of a table gets noise of the same size, so small groups have the larger relative "
        "error: see the intervals.",
    }


def _clamps(planned: TablePlan) -> list[str]:
    said = []
    for recipe in planned.plan.recipes:
        for value, interval in zip((recipe.aggregate.value, recipe.aggregate.other), recipe.intervals, strict=False):
            if value is not None:
                ends = f"{float(interval.lower):g} to {float(interval.upper):g}"
                said.append(
                    f"{value.name or value.sql()} is clamped to its declared bounds, {ends}, before "
                    f"{recipe.aggregate.name} is computed. The intervals are about the clamped values; what lies beyond the bounds moves "
                    "the figure by an amount that they do not show."
                )
    return list(dict.fromkeys(said))


def _finishing(planned: TablePlan) -> list[str]:
    post = planned.spec.postprocess
    said = []
    if post.nonnegative:
        lifted = "which lifts small figures a little; where that changed a figure, the one released stands beside"
        said.append(f"Below zero, {listed(post.nonnegative)} was set to 0, {lifted}.")
    if post.whole:
        said.append(f"{listed(post.whole)} was rounded to whole numbers.")
    return said


def _selection(planned: TablePlan) -> list[str]:
    rule = planned.plan.selection
    if rule is None:
        grouped = planned.plan.question.grouped
        return ["Groups were declared in advance; an empty one shows noise around 0."] if grouped else []
    return [
        f"Groups were selected privately: one with {rule.people_needed} people appears with an even chance, smaller ones rarely. "
        "That a group is missing does not mean that it is empty."
    ]
