"""A release job: what to publish about which data, for whose privacy, at what price. One YAML file, checked before anything is planned.

There are no defaults for epsilon, delta, bounds and caps: what is not written is an error that says where and what to write.

>>> job = parse(EXAMPLE)
>>> job.title, job.outputs[0].name, str(job.budget.typed().limits["epsilon"])
('Visits by region', 'by_region', '1')
>>> parse(EXAMPLE.replace("max_rows: 4", "max_row: 4"))
Traceback (most recent call last):
tacit.release.errors.JobError: unit.max_row: there is no such field; did you mean max_rows?; unit has adjacency, called, ...
>>> tree_of("title: Visits\\ntitle: Others")
Traceback (most recent call last):
tacit.release.errors.JobError: line 2: this is not YAML that a job may use: a field is given twice
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from tacit.accounting import AccountingError, Refusal
from tacit.exact import exact
from tacit.ledger import WINDOWS, LedgerError, days
from tacit.release import kinds
from tacit.release.errors import JobError
from tacit.release.faults import in_job, in_words, unknown
from tacit.release.job_parts import (
    MOST,
    AccountSpec,
    BudgetSpec,
    ColumnSpec,
    Contact,
    Expected,
    JobPart,
    OutputSpec,
    Publication,
    SeriesSpec,
    SourceSpec,
    TotalSpec,
    UnitSpec,
)
from tacit.release.policy import Policy
from tacit.release.preparation import Preparation, agree
from tacit.tables import CSV, Column, Schema, TableError, encoding_of, known_dialect

EXAMPLE = """
version: 1
title: Visits by region
purpose: Show how many visits each region had, so that beds can be planned.
sources:
  visits: {path: visits.parquet}
unit: {person: patient_id, max_rows: 4, adjacency: add-remove}
budget: {epsilon: 1, delta: 1e-6}
columns:
  patient_id: {type: integer}
  region: {type: text, categories: [north, south]}
outputs:
  - name: by_region
    sql: SELECT region, COUNT(*) AS visits FROM visits GROUP BY region
    weight: 1
publication: {folder: release, formats: [csv], confidence: 0.95}
"""

_LATER = {"node", "edge", "directed", "references", "delimiter", "reports", "protocol", "shuffled", "network", "clients", "load",
          "encoding", "format", "missing", "other", "called"}


def _of_its_kind(value: object) -> object:
    """An output's block, read by its kind; without a kind it is a table."""
    if not isinstance(value, dict):
        return value
    try:
        block = kinds.find(value.get("kind", "table")).Block
    except JobError as error:
        raise ValueError(error.message) from None
    return block.model_validate(value)


#: A fault inside a block is reported with its own place, because pydantic unfolds the errors of a model that a validator reads.
Block = Annotated[SerializeAsAny[OutputSpec], BeforeValidator(_of_its_kind)]


class Job(JobPart):
    """A job as it was written. `digest()` is its fingerprint: the same for the same content, however the file is laid out."""

    version: Literal[1]
    title: str = Field(min_length=1, max_length=500)
    purpose: str = Field(min_length=1, max_length=10_000)
    sources: dict[str, SourceSpec] = Field(min_length=1)
    unit: UnitSpec
    budget: BudgetSpec
    account: AccountSpec | None = None
    series: SeriesSpec | None = None
    period: str | None = None
    expected: Expected = Expected()
    dialect: str | None = None
    columns: dict[str, ColumnSpec]
    outputs: tuple[Block, ...] = Field(min_length=1, max_length=1000)
    totals: tuple[TotalSpec, ...] = ()
    publication: Publication
    registry: Contact = Contact()
    policy: Policy | None = None
    preparation: Preparation | None = None

    @model_validator(mode="after")
    def _within_policy(self) -> Job:
        if self.policy is None:
            return self
        strangers = sorted(set(self.policy.datasets) - set(self.sources))
        if strangers:
            raise JobError(f"names {strangers[0]!r}, which is none of the sources {', '.join(self.sources)}", place="policy.datasets")
        if self.policy.exceeded_by(self.budget.typed().guarantee):
            raise JobError(
                f"the budget {self.budget.typed().guarantee} is more than the policy's maximum, {self.policy.maximum}; "
                "lower it, or have the policy changed by those who set it", place="budget",
            )  # fmt: skip
        return self

    @field_validator("dialect")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        return None if value is None else known_dialect(value)

    @field_validator("outputs", "totals", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="before")
    @classmethod
    def _no_columns(cls, value: object) -> object:
        """A job that reads reports or networks has no columns to declare: the protocol, or the case, says what there is."""
        sources = value.get("sources") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(sources, dict) or "columns" in value:
            return value
        some = any(isinstance(source, dict) and (source.keys() & {"reports", "network", "clients"}) for source in sources.values())
        return {**value, "columns": {}} if some else value

    @property
    def on_devices(self) -> bool:
        """Whether it reads reports that were randomised, and paid for, on people's devices."""
        return any(source.reports is not None for source in self.sources.values())

    @property
    def of_networks(self) -> bool:
        """Whether it publishes power networks."""
        return any(source.network is not None for source in self.sources.values())

    @property
    def of_clients(self) -> bool:
        """Whether it asks clients that keep their data."""
        return any(source.clients is not None for source in self.sources.values())

    @property
    def without_rows(self) -> bool:
        """Whether there are no tables to make up, check or serve."""
        return self.on_devices or self.of_networks or self.of_clients

    def _of_clients(self) -> None:
        """Clients have books of their own and answer once in a window, so they are not mixed with rows."""
        if not all(source.clients is not None for source in self.sources.values()) or self.columns or self.dialect is not None:
            raise ValueError("a job asks clients or reads tables, not both; clients have no columns and no dialect. Write two jobs")
        if self.unit.clients is None:
            raise ValueError("a job that asks clients has unit: {clients: <in how many of them one person may be>, adjacency: add-remove}")
        if any(output.kind != "clients" for output in self.outputs):
            raise ValueError("sources of clients are asked by outputs with kind: clients")

    def _of_networks(self) -> None:
        """A load that differs is another unit than a person, and their losses are never added up, so they are not mixed."""
        if not all(source.network is not None for source in self.sources.values()) or self.columns or self.dialect is not None:
            raise ValueError("a job reads networks or tables, not both; networks have no columns and no dialect. Write two jobs")
        if self.unit.load is None:
            raise ValueError("a job that publishes networks has unit: {load: <MW by which one may differ>, adjacency: replace-one}")
        if any(output.kind != "network" for output in self.outputs):
            raise ValueError("sources that are networks are read by outputs with kind: network")

    def _of_reports(self) -> None:
        """Reports and rows have other readers, other prices and other books, so they are not mixed."""
        if not all(source.reports is not None for source in self.sources.values()) or self.columns or self.dialect is not None:
            raise ValueError("a job reads reports or tables, not both; reports have no columns and no dialect. Write two jobs")
        if self.unit.reports is None:
            raise ValueError("a job that reads reports has unit: {reports: <draws of one person, for good>, adjacency: replace-one}")
        if any(output.kind != "reports" for output in self.outputs):
            raise ValueError("sources of reports are read by outputs with kind: reports")

    @model_validator(mode="after")
    def _consistent(self) -> Job:
        if self.on_devices:
            self._of_reports()
        elif self.of_networks:
            self._of_networks()
        elif self.of_clients:
            self._of_clients()
        elif self.unit.clients is not None or any(output.kind == "clients" for output in self.outputs):
            raise ValueError("unit: {clients: ...} and kind: clients are for sources with clients")
        elif self.unit.load is not None or any(output.kind == "network" for output in self.outputs):
            raise ValueError("unit: {load: ...} and kind: network are for sources with network")
        elif not self.columns:
            raise ValueError("columns is empty; declare the columns of the sources with their types")
        elif self.unit.reports is not None or any(output.kind == "reports" for output in self.outputs):
            raise ValueError("unit: {reports: ...} and kind: reports are for sources with reports and protocol")
        names = [output.name.casefold() for output in self.outputs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two outputs are named {twice[0]!r}; each becomes a file of its own")
        self._add_up({output.name for output in self.outputs})
        known = {self._full(name) for name in self.columns}
        for name, column in self.columns.items():
            table = self._table_of(name)
            if table is None and len(self.sources) > 1:
                raise ValueError(f"columns.{name} needs table, or its table in its name, such as visits.{name}: there are several sources")
            if table is not None and table not in self.sources:
                raise ValueError(f"columns.{name}.table names no source; there are {', '.join(self.sources)}")
            self._same_encoding(name)
            if column.references is not None and column.references not in known:
                raise ValueError(f"columns.{name}.references must be a table and its column, both in this job, such as person.id")
        bare = {name.rpartition(".")[2] for name in known}
        for output in self.outputs:
            output.check(bare)
        for column_name in (self.unit.person, self.unit.when, *(self.unit.edge or ())):
            if column_name is not None and column_name not in bare:
                raise ValueError(f"the unit's column {column_name!r} is not in columns; add it with its type")
        self._as_they_are()
        if isinstance(self.unit.node, str) and self.unit.node not in known:
            raise ValueError(f"the unit's key {self.unit.node!r} is not in columns; add it with its type")
        if self.series is None and (self.period is None) != (self.unit.window is None):
            raise ValueError("period belongs to a series, or to a unit with a window: period: 2026-03 for window: month")
        if self.series is not None:
            self._in_series(self.series)
        if self.unit.window is not None and self.period is not None:
            days(self.unit.window, self.period)
        dated = [column for name, column in self.columns.items() if self._bare(name) == self.unit.when]
        if any(column.type not in ("date", "timestamp") for column in dated):
            raise ValueError(f"the unit's column {self.unit.when!r} tells when, so its type must be date or timestamp")
        if all(source.public for source in self.sources.values()):
            raise ValueError("every source is public, so there are no people to protect")
        if self.preparation is not None:
            agree(self)
        return self

    def _add_up(self, names: set[str]) -> None:
        """Totals name outputs of this job, and every figure has one total at most."""
        told: set[tuple[str, str]] = set()
        for spec in self.totals:
            for name in spec.outputs:
                if name not in names:
                    raise ValueError(f"totals names {name!r}, which is no output; there are {', '.join(sorted(names))}")
                if (name, spec.figure) in told:
                    raise ValueError(f"totals names {spec.figure} of {name} twice; one entry lists all tables of one total")
                told.add((name, spec.figure))

    def _as_they_are(self) -> None:
        """Columns that tell people apart are read as they are: a value for all others, or a way to write numbers, could make one person of
        two, whose rows would then share one cap."""
        ends = self.unit.node if isinstance(self.unit.node, tuple) else ()
        people = {self.unit.person, *(self.unit.edge or ()), *ends}
        for name, column in self.columns.items():
            apart = self._bare(name) in people or self._full(name) == self.unit.node or column.references is not None
            if apart and (column.other is not None or column.format is not None):
                raise ValueError(f"columns.{name} tells people apart, so its values are read as they are; leave other and format out")
            source = self.sources.get(self._table_of(name) or next(iter(self.sources)))
            if apart and column.type in ("number", "decimal") and source is not None and (source.path or "").lower().endswith(CSV):
                raise ValueError(f"columns.{name} tells people apart, and numbers of a CSV file are rounded; its type is integer or text")

    def _in_series(self, series: SeriesSpec) -> None:
        """A series has one account, which is its own, and periods of one length."""
        if self.account is not None:
            raise ValueError("a series has an account of its own; leave account out")
        if self.unit.window is not None and self.unit.window != series.every:
            raise ValueError(f"unit.window is {self.unit.window} and series.every is {series.every}; a series is made of the unit's "
                             "periods")
        if self.period is not None:
            days(series.every, self.period)

    def _same_encoding(self, name: str) -> None:
        """A file is read in one encoding. What is said of a column is said of its file, so it must be said alike."""
        written = self.columns[name].encoding
        source = self.sources[self._table_of(name) or next(iter(self.sources))]
        if written is None:
            return
        if not (source.path or "").lower().endswith(CSV):
            raise ValueError(f"columns.{name}.encoding belongs to a CSV file; other files and databases say themselves how texts are "
                             "written")
        table = self._table_of(name) or next(iter(self.sources))
        said = {column.encoding for column in self.columns_of(table).values()} | {source.encoding}
        if len({encoding_of(one) for one in said if one is not None}) > 1:
            raise ValueError(f"columns.{name}.encoding: a file is read in one encoding; mixed reads UTF-8 and Latin letters side by side")

    def encoding_of(self, table: str) -> str:
        """What a source's file is written in."""
        said = [self.sources[table].encoding, *(column.encoding for column in self.columns_of(table).values())]
        written = next((one for one in said if one is not None), None)
        return "utf-8" if written is None else encoding_of(written)

    def schema_(self) -> Schema:
        """Bounds, categories and foreign keys for the planner."""
        return Schema(
            {
                name if c.references is None else self._full(name): Column(
                    bounds=None if c.bounds is None else (exact("bound", c.bounds[0]), exact("bound", c.bounds[1])),
                    categories=c.listed,
                    references=c.references,
                )
                for name, c in self.columns.items()
            }
        )

    def _table_of(self, name: str) -> str | None:
        """The source that a column is declared for: by its field, or by its name."""
        column = self.columns[name]
        return column.table if column.table is not None else name.rpartition(".")[0] or None

    def _bare(self, name: str) -> str:
        return name.rpartition(".")[2] if self.columns[name].table is None else name

    def _full(self, name: str) -> str:
        """The column with its table in front."""
        return f"{self._table_of(name) or next(iter(self.sources))}.{self._bare(name)}"

    def columns_of(self, table: str) -> dict[str, ColumnSpec]:
        """The declared columns of one source, by their names in it."""
        return {self._bare(name): column for name, column in self.columns.items() if self._table_of(name) in (None, table)}

    def digest(self) -> str:
        """A hash of the content: stable under order of fields, comments and layout."""
        tree = self.model_dump(mode="json")
        # An old spelling, which older jobs have: the same job keeps its fingerprint.
        tree["unit"]["adjacency"] = tree["unit"]["adjacency"].replace("-", "_")
        for part in (tree["unit"], *tree["columns"].values(), *tree["sources"].values()):
            # Fields that came later are left out where they say nothing, so that older jobs keep their fingerprint.
            for name in _LATER & set(part):
                if part[name] in (None, False):
                    del part[name]
        for name in ("dialect", "policy", "preparation", "series"):
            if tree[name] is None:
                del tree[name]
        for name, silent in (("missing", {}), ("tolerance", 0.1)):
            if tree["expected"][name] == silent:
                del tree["expected"][name]
        if not tree["totals"]:
            del tree["totals"]
        if tree["publication"]["intervals"] == ["noise"]:
            del tree["publication"]["intervals"]
        # where else the figures are written changes nothing about them
        del tree["publication"]["database"]
        for output, spec in zip(tree["outputs"], self.outputs, strict=True):
            for name, silent in spec.later.items():
                if output[name] == silent:
                    del output[name]
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def parse(text: str, *, period: str | None = None) -> Job:
    """A job from YAML text; every fault is a `JobError` that names the place. `period` is the one that a series is run for.

    >>> monthly = EXAMPLE.replace("visits.parquet", "'visits-{period}.parquet'").replace("by region", "by region, {period}").replace(
    ...     "columns:", "series: {name: visits, every: month, budget: {epsilon: 12, delta: 1e-5}, per: total}\\ncolumns:")
    >>> job = parse(monthly, period="2026-02")
    >>> job.title, job.sources["visits"].path
    ('Visits by region, 2026-02', 'visits-2026-02.parquet')
    """
    tree = tree_of(text)
    _ordinary(tree, ())
    tree = for_period(tree, period)
    try:
        return Job.model_validate(tree)
    except ValidationError as error:
        raise _explained(error, tree) from None
    except (TableError, LedgerError, AccountingError) as error:
        raise in_job(error) from None
    except (RecursionError, OverflowError):
        raise JobError("the job cannot be read; it is nested too deeply, or a number is too large") from None


def for_period(tree: dict[str, Any], period: str | None) -> dict[str, Any]:
    """The fields of a job for one period: placeholders in its title and purpose, in paths, in titles of outputs and in the folder are
    filled in. Without a period they stay, and the job can be planned but not run."""
    if period is None:
        given = tree.get("period")
        period = given if isinstance(given, str) and isinstance(tree.get("series"), dict) else None
    elif not isinstance(tree.get("series"), dict) and not isinstance(tree.get("unit"), dict):
        return tree
    if period is None:
        return tree
    series, unit = tree.get("series"), tree.get("unit")
    every = series.get("every") if isinstance(series, dict) else unit.get("window") if isinstance(unit, dict) else None
    if every is None:
        raise JobError("a period is for a series: series: {name: ..., every: month, budget: ..., per: period}", place="period")
    try:
        first, _ = days(str(every), period) if every in WINDOWS else (None, None)
    except LedgerError as error:
        raise JobError(str(error), place="period") from None
    words = {"period": period}
    if first is not None:
        words |= {"year": f"{first.year:04}", "month": f"{first.month:02}", "day": f"{first.day:02}"}
        words["quarter"] = str((first.month + 2) // 3)

    def filled(value: object) -> object:
        if isinstance(value, str):
            for name, word in words.items():
                value = value.replace(f"{{{name}}}", word)
        return value

    def fields(block: object, *names: str) -> object:
        return {n: filled(v) if n in names else v for n, v in block.items()} if isinstance(block, dict) else block

    found = {**tree, "period": period}
    found |= {name: filled(tree[name]) for name in ("title", "purpose") if name in tree}
    if isinstance(tree.get("sources"), dict):
        found["sources"] = {name: fields(source, "path", "table", "reports") for name, source in tree["sources"].items()}
    if isinstance(tree.get("outputs"), list):
        found["outputs"] = [fields(output, "title") for output in tree["outputs"]]
    if "publication" in tree:
        found["publication"] = fields(tree["publication"], "folder")
    return found


def _ordinary(value: object, place: tuple[int | str, ...]) -> None:
    """Refuse whole numbers beyond every measure, wherever they stand: nothing that is computed from them would be finite."""
    if isinstance(value, dict):
        for name, below in value.items():
            _ordinary(below, (*place, str(name)))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            _ordinary(below, (*place, number))
    elif isinstance(value, int) and abs(value) > MOST:
        raise JobError(code="number-out-of-range", place=_place(place))


def load(path: str | Path, *, period: str | None = None) -> Job:
    """Read and check a job file; `period` is the one that a series is run for."""
    text = text_of(path)
    try:
        return parse(text, period=period)
    except JobError as error:
        raise error.within(str(path)) from None


def text_of(path: str | Path) -> str:
    """The text of a job file."""
    file = Path(path)
    text: str | None = None
    try:
        if file.stat().st_size > LARGEST:
            raise JobError(f"the file has more than {LARGEST} bytes; a job is a page of text", file=str(path))
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
    if text is None:
        raise JobError(f"the job cannot be read: {reason}; check the path", file=str(path))
    return text


def all_faults(text: str, *, period: str | None = None) -> list[JobError]:
    """Everything that is wrong with a job's text, as far as it can be told at once; empty where it can be read.

    >>> [str(fault) for fault in all_faults(EXAMPLE.replace("max_rows: 4", "max_row: 4").replace("0.95", "95"))]
    ['unit.max_row: there is no such field; did you mean max_rows?; ...', 'publication.confidence: must be less than 1; write 95 % as 0.95']
    """
    try:
        tree = for_period(tree_of(text), period)
        _ordinary(tree, ())
        Job.model_validate(tree)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        unknown_in = {tuple(fault["loc"])[:-1] for fault in faults if fault["type"] == "extra_forbidden"}
        found: list[JobError] = []
        for fault in faults:
            # A misspelt field is both unknown and missing, and what a block's own check then says follows from it.
            place = tuple(fault["loc"])
            if fault["type"] != "extra_forbidden" and ((place[:-1] in unknown_in and fault["type"] == "missing") or place in unknown_in):
                continue
            told = _explained_one(fault, tree)
            if str(told) not in map(str, found):
                found.append(told)
        return found
    except JobError as error:
        return [error]
    except (TableError, LedgerError, AccountingError) as error:
        return [in_job(error)]
    except (RecursionError, OverflowError):
        return [JobError("the job cannot be read; it is nested too deeply, or a number is too large")]
    return []


def _place(location: tuple[int | str, ...], tree: Any = None) -> str:
    """outputs[2].sql; what pydantic adds about the members of a union is left out, unless the job itself has a field of that name.

    >>> _place(("columns", "date", "bounds", 0, "int"), {"columns": {"date": {"bounds": ["a", "b"]}}})
    'columns.date.bounds[0]'
    """
    text = ""
    for part in location:
        there = isinstance(tree, Mapping) and part in tree
        if isinstance(part, int):
            text += f"[{part}]"
            tree = tree[part] if isinstance(tree, list) and part < len(tree) else None
        elif not there and (part in ("dict", "str", "int", "float", "bool", "date", "datetime") or "[" in part):
            continue
        else:
            text += f".{part}" if text else part
            tree = tree[part] if there else None
    return text


def _explained(error: ValidationError, tree: Mapping[str, Any]) -> JobError:
    """The first fault in words, with what may be written. Inputs are not repeated: a url may hold a password."""
    faults = error.errors(include_url=False, include_input=False)
    # a misspelt field is both unknown and missing: the first says more
    return _explained_one(next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0]), tree)


def _explained_one(first: Mapping[str, Any], tree: Mapping[str, Any]) -> JobError:
    """One fault in words."""
    location, kind = tuple(first["loc"]), first["type"]
    place = _place(location, tree)
    if kind == "extra_forbidden":
        return JobError(unknown(str(location[-1]), _place(location[:-1], tree), _fields(location[:-1], tree)), place=place)
    if kind == "missing" and not isinstance(location[-1], int):
        return JobError("is missing; it has no default, because it is a decision", place=place)
    if kind == "missing":
        location, first = location[:-1], {**first, "type": "too_short", "loc": location[:-1], "ctx": {"min_length": 2}}
    refusal = first.get("ctx", {}).get("error")
    named = refusal.place if isinstance(refusal, JobError) and not location else ""  # a check of the whole job knows which part it is about
    found = JobError(in_words(first), place=named or _place(location, tree))
    return found.coded_as(refusal) if isinstance(refusal, Refusal) else found


def _fields(location: tuple[int | str, ...], tree: Any) -> list[str]:
    """What may be written at a place, found by walking down the blocks and what stands there."""
    block: type[JobPart] = Job
    for part in location:
        if isinstance(part, int):
            tree = tree[part] if isinstance(tree, list) else None
        else:
            tree = tree.get(part) if isinstance(tree, dict) else None
        if isinstance(part, str) and part in block.model_fields:
            block = _block_in(block.model_fields[part].annotation) or block
        if block is OutputSpec and isinstance(tree, dict):
            block = kinds.find(tree.get("kind", "table")).Block
    return sorted(block.model_fields)


def _block_in(annotation: Any) -> type[JobPart] | None:
    """The block that a field holds, by itself or in a list or mapping."""
    if isinstance(annotation, type) and issubclass(annotation, JobPart):
        return annotation
    return next((found for part in get_args(annotation) if (found := _block_in(part)) is not None), None)


# --- YAML -------------------------------------------------------------------------------------------------------------------------------
# Neither can it run code, nor grow beyond its size, nor hide a field behind another one of its name.

#: A job is written by hand; a larger file is a mistake or an attack. Key lists of a hundred thousand values fit.
LARGEST = 8_000_000
#: YAML nested deeper than this is no job.
DEEPEST = 40


#: What mostly lies behind what the YAML reader says.
_HINTS = {
    "mapping values": "; a text that has ': ' in it stands in quotes, or on lines of its own after |",
    "expected ':'": "; a text that has a comma or ': ' in it stands in quotes, or on lines of its own after |",
    "but got '{'": "; a text with a placeholder such as {period} stands in quotes",
    "block end": "; fields of one block start in one column",
    "\\t": "; indent with spaces, not with tabs",
}


def tree_of(text: str) -> dict[str, Any]:
    """The fields of a job file; whatever is wrong with the text is a `JobError` with its line."""
    if len(text) > LARGEST:
        raise JobError(f"a job of more than {LARGEST} characters is not read; put long key lists into categories once")
    fault, place = "", ""
    tree: Any = None
    try:
        tree = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or "it cannot be read")
        fault = f"this is not YAML that a job may use: {problem}{next((hint for words, hint in _HINTS.items() if words in problem), '')}"
        place = f"line {mark.line + 1}" if mark else ""
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError, LookupError):
        fault = "this is not YAML that can be read: a value or its nesting is malformed"
    if fault:
        raise JobError(fault, place=place)
    if not isinstance(tree, dict):
        raise JobError("a job is a mapping of fields: version, title, purpose, sources, unit, budget, columns, outputs, publication")
    if not all(isinstance(key, str) for key in tree):
        raise JobError("the names of fields are texts")
    return tree


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases (a small file could grow without end) and without a field given twice (the first would be lost)."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not used in jobs", self._mark())
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, "nested too deeply", self._mark())
        found = super().compose_node(parent, index)
        self.depth -= 1
        return found

    def _mark(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen if isinstance(key.value, str) else False:
                raise yaml.constructor.ConstructorError(None, None, "a field is given twice", key.start_mark)
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)
