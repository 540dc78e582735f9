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
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.faults import WORDS, placed
from tacit.release.job_parts import Number, OutputSpec, Part, Scalar
from tacit.release.kinds import Notice, Portion, Record, marked, table_files
from tacit.release.page import bracket, listed, plain, template
from tacit.tables import Answer, Asked, Desk, Figures, Plan, Question, Recipe, Released, explained
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


class Postprocess(Part):
    """Free changes to released figures; the figures as released are published beside."""

    nonnegative: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @field_validator("nonnegative", "whole", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class Range(Part):
    """Where every released value of a figure must lie for the release to be published."""

    least: float | None = Field(default=None, allow_inf_nan=False)
    most: float | None = Field(default=None, allow_inf_nan=False)


class TableSpec(OutputSpec):
    """One table: a question, and what it deserves of the budget (`weight`) or how exact it must be (`accuracy`).

    `bounds` are those of what the question computes: a column of a sub-query, by its name. `loss: false` saves the small part of the
    budget that tells how many rows the caps cut off.
    """

    later: ClassVar[Mapping[str, Any]] = {"kind": "table", "loss": True, "bounds": {}}

    sql: str = Field(min_length=1, max_length=100_000)
    weights: dict[str, Number] = Field(default_factory=dict)
    keys: Literal["private"] | tuple[str, ...] | dict[str, Literal["private"] | tuple[Scalar, ...]] | None = None
    postprocess: Postprocess = Postprocess()
    checks: dict[str, Range] = Field(default_factory=dict)
    rows_per_group: int | None = Field(default=None, ge=1)
    bounds: dict[str, tuple[Number, Number]] = Field(default_factory=dict)
    loss: bool = True

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
        return expected(self.plan, self.rows, confidence)


def plan(output: TableOutput, portion: Portion) -> TablePlan:
    """The plan of a question at a price."""
    spec, job = output.spec, output.job
    with placed(output.place):
        span = None if job.unit.window is None else days(job.unit.window, job.period or "")
        weights = {name: exact(f"weights[{name!r}]", value) for name, value in spec.weights.items()}
        bounds = {name: (exact("bound", low), exact("bound", high)) for name, (low, high) in spec.bounds.items()}
        found = output.desk.plan(
            output.question, portion.spend, bounds=bounds, keys=output.keys, weights=weights,
            law=portion.law, loss=spec.loss, period=span,
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
    for rule in (_noisy, _rare_keys, _free_text, _many_groups, _joins, _exact_wanted):
        yield from rule(planned, job, place)


def _noisy(planned: TablePlan, job: Job, place: str) -> Iterator[Notice]:
    """Noise larger than the figure it is added to."""
    if planned.assumed:
        return
    errors = planned.errors
    for recipe in planned.plan.recipes:
        name = recipe.aggregate.name
        value = _size(recipe, planned.rows)
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


def _size(recipe: Recipe, rows: int) -> float | None:
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


def answered(planned: TablePlan, released: Released, private: bool, entry: int | None) -> Answer:
    """The answer that a draw amounts to."""
    found = planned.plan
    delta = found.spend.delta or SHOWN_DELTA if found.selection is not None or found.split.law == "gaussian" else Fraction(0)
    answer = planned.output.desk.answer(found, released, delta=delta, private=private, entry=entry)
    answer = replace(answer, notes=tuple(note.said(WORDS) if isinstance(note, Note) else note for note in answer.notes))
    post = planned.spec.postprocess
    return answer.finished(nonnegative=post.nonnegative, whole=post.whole) if post.nonnegative or post.whole else answer


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


def table_of(answer: Answer) -> pa.Table:
    """Keys and figures with their intervals; where figures were post-processed, the released ones stand beside as `<name>_raw`."""
    table = answer.to_arrow()
    for name, figures in (answer.raw_figures or {}).items():
        if figures is not answer.figures[name]:
            table = table.append_column(f"{name}_raw", pa.array(figures.value))
    return marked(table, answer.private)


def files(planned: TablePlan, result: Answer, formats: Sequence[str]) -> dict[str, bytes]:
    """The table in every format."""
    return table_files(planned.name, table_of(result), formats)


def recorded(planned: TablePlan, result: Answer) -> Record:
    """The question, its price and its noise."""
    return {
        "sql": planned.spec.sql,
        "part": float(planned.part),
        "price": planned.spend.words,
        "event": json.loads(to_json(planned.event)),
        "keys": "selected privately" if planned.private_keys else "public",
        "noise": [{"measure": n.measure, "law": n.law, "deviation": n.deviation} for n in result.noise],
        "notes": list(result.notes),
    }


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
        **{"groups": {}, "figures": {}, "released": {}, "rows": 0},
    }
    if result is None:
        return found
    released = result.raw_figures or {}
    return {
        **found,
        "cost": bracket(result.cost, result.delta),
        "groups": {name: ["(missing)" if value is None else str(value) for value in values] for name, values in result.keys.items()},
        "figures": {name: _figures(figure) for name, figure in result.figures.items()},
        "released": {name: _figures(f) for name, f in released.items() if not bool((f.value == result.figures[name].value).all())},
        "rows": result.rows,
    }


def _figures(found: Figures) -> Record:
    return {name: [plain(float(x)) for x in getattr(found, name)] for name in ("value", "low", "high")}


def section(described: Record, confidence: str) -> str:
    """The pictures, the table, and what the statistician asks."""
    def numbers(values: Sequence[float | None]) -> list[float]:
        return [math.nan if value is None else value for value in values]

    drawn = {
        name: pictures.table(described["groups"], name, *(numbers(f[end]) for end in ("value", "low", "high")))
        for name, f in described["figures"].items()
    }
    output = {**described, "shown": min(described["rows"], SHOWN)}
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
        return ["Groups were declared in advance; one that nobody is in shows noise around 0."] if grouped else []
    return [
        f"Groups were selected privately: one with {rule.people_needed} people appears with an even chance, smaller ones rarely. "
        "That a group is missing does not mean that nobody is in it."
    ]
