"""A release job: what to publish about which data, for whose privacy, at what price. One YAML file, checked before anything is planned.

There are no defaults for epsilon, delta, bounds and caps: what is not written is an error that says where and what to write.

>>> job = parse(EXAMPLE)
>>> job.title, job.outputs[0].name, str(job.budget.typed().limits["epsilon"])
('Visits by region', 'by_region', '1')
>>> parse(EXAMPLE.replace("max_rows: 4", "max_row: 4"))
Traceback (most recent call last):
tacit.release.errors.JobError: unit.max_row: there is no such field; unit has adjacency, capped, ...
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from tacit.accounting import Adjacency
from tacit.ledger import Budget, LedgerError
from tacit.ledger.exact import exact
from tacit.release.errors import JobError
from tacit.release.reading import LARGEST, tree_of
from tacit.tables import Column, Schema, TableError, Unit

EXAMPLE = """
version: 1
title: Visits by region
purpose: Show how many visits each region had, so that beds can be planned.
sources:
  visits: {path: visits.parquet}
unit: {person: patient_id, max_rows: 4, adjacency: add_remove}
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

Type = Literal["integer", "number", "decimal", "text", "boolean", "date", "timestamp"]
_LATER = {"node", "edge", "directed", "references"}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("must be a number")
    try:
        exact("it", value)
    except (ValueError, TypeError, ArithmeticError):
        raise ValueError("must be a finite number, such as 0.5 or 1e-6") from None
    return value


Number = Annotated[int | float | str, BeforeValidator(_number)]
Scalar = bool | int | float | str | datetime.date | datetime.datetime | None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SourceSpec(_Part):
    """Where a table is: a file (`path`, CSV or Parquet), or a database (`url` and `table`): postgresql://host/name, or a Spark Connect
    server, sc://host:15002. All tables of a job are files, or all are tables of one database. `public` tables are nobody's data."""

    path: str | None = None
    url: str | None = None
    table: str | None = None
    public: bool = False

    @model_validator(mode="after")
    def _one(self) -> SourceSpec:
        if (self.path is None) == (self.url is None):
            raise ValueError("a source has either path (a CSV or Parquet file) or url (a database, with table)")
        if self.url is not None and self.table is None:
            raise ValueError("a url needs table, the name of the table in the database")
        return self


class UnitSpec(_Part):
    """Whom the guarantee protects; caps and adjacency have no defaults.

    `person` names a column; `row` is true; `node` is a key such as person.id, to which rows lead along foreign keys, or the two ends of a
    table of edges; `edge` is the two ends of edges that are protected as such.
    """

    person: str | None = None
    row: bool = False
    node: str | tuple[str, str] | None = None
    edge: tuple[str, str] | None = None
    directed: bool = False
    max_rows: int | None = None
    max_groups: int | None = None
    rows_per_group: int | None = None
    adjacency: Literal["add_remove", "replace_one"]
    capped: bool = False
    window: str | None = None
    when: str | None = None

    @field_validator("node", "edge", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _sound(self) -> UnitSpec:
        if sum((self.row, self.person is not None, self.node is not None, self.edge is not None)) != 1:
            raise ValueError(
                "a unit is one of person: <column>, with a cap such as max_rows: 12; row: true; node: <table.column>, with foreign keys "
                "under columns, or node: [src, dst], with capped: true; edge: [src, dst]"
            )
        if self.directed and self.edge is None:
            raise ValueError("directed belongs to edge: [src, dst]")
        if self.window is not None and self.person is None:
            raise ValueError("window belongs to person: <column>")
        try:
            self.typed()
        except ValueError as error:
            raise ValueError(str(error)) from None
        return self

    def typed(self) -> Unit:
        """The unit of the tables package."""
        relation = {"add_remove": Adjacency.ADD_REMOVE, "replace_one": Adjacency.REPLACE_ONE}[self.adjacency]
        if self.row:
            return Unit.row(relation)
        caps = (self.max_rows, self.max_groups, self.rows_per_group)
        if self.node is not None or self.edge is not None:
            named = {"max_rows": caps[0], "max_groups": caps[1], "rows_per_group": caps[2]}
            if self.edge is not None:
                first, second = self.edge
                return Unit.edge(source=first, target=second, directed=self.directed, adjacency=relation, capped=self.capped, **named)
            key, ends = (self.node, None) if isinstance(self.node, str) else (None, self.node)
            return Unit.node(key, ends=ends, **named, adjacency=relation, capped=self.capped)
        return Unit(self.person, *caps, adjacency=relation, capped=self.capped, window=self.window, when=self.when)


class BudgetSpec(_Part):
    """A limit: epsilon with delta (0 for pure), or rho. `reserve` is the share that only corrections may use.

    Beside rho, `delta` says where its epsilon is told, and where an account that counts in epsilon and delta charges it.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    reserve: Number = 0

    @model_validator(mode="after")
    def _sound(self) -> BudgetSpec:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("a budget is epsilon with delta, or rho; there is no default, because it is a decision")
        if self.epsilon is not None and self.delta is None:
            raise ValueError("delta is missing; write well below one over the number of people, such as 1e-6, or 0 for pure epsilon")
        if self.rho is not None and self.delta is not None and not 0 < exact("delta", self.delta) < 1:
            raise ValueError("delta beside rho must lie between 0 and 1, such as 1e-6: it is where the epsilon is told")
        amount = exact("budget", self.epsilon if self.epsilon is not None else self.rho)
        if not 0 < amount <= 10**4:
            raise ValueError("epsilon or rho must be greater than 0, and at most 10000")
        if not 0 <= exact("reserve", self.reserve) < 1:
            raise ValueError("reserve must be a share of at least 0 and below 1")
        try:
            self.typed()
        except LedgerError as error:
            raise ValueError(str(error)) from None
        return self

    def typed(self) -> Budget:
        """The budget of the ledger."""
        if self.rho is not None:
            return Budget(rho=exact("rho", self.rho), reserve=exact("reserve", self.reserve))
        delta = exact("delta", self.delta)
        return Budget(epsilon=exact("epsilon", self.epsilon), delta=delta or None, reserve=exact("reserve", self.reserve))


class AccountSpec(_Part):
    """The ledger account that the job is paid from, where it is more than this one job: its name and the limit for all jobs together."""

    name: str = Field(min_length=1, max_length=200)
    budget: BudgetSpec


class ColumnSpec(_Part):
    """What is public about a column. Where there are several sources, `table` says whose column it is, or its name does: visit.cost.

    `references` is a foreign key: the table and key that its values name rows of, such as person.id.
    """

    type: Type
    bounds: tuple[Number, Number] | None = None
    categories: tuple[Scalar, ...] | None = None
    nullable: bool = True
    table: str | None = None
    references: str | None = None

    @field_validator("bounds", "categories", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _sound(self) -> ColumnSpec:
        if self.bounds is not None:
            low, high = (exact("bound", end) for end in self.bounds)
            if low > high:
                raise ValueError("bounds must be [lower, upper]; swap them")
            if self.type not in ("integer", "number", "decimal"):
                raise ValueError(f"bounds are for numbers, not for {self.type}")
        if self.categories is not None:
            if not self.categories:
                raise ValueError("categories is empty; list the public values, or leave it out")
            if len({(type(value), value) for value in self.categories}) < len(self.categories):
                raise ValueError("categories lists a value twice")
        return self


class Accuracy(_Part):
    """Errors wanted: every figure within so much (or each figure within its own), with this confidence."""

    within: Number | dict[str, Number]
    confidence: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _sound(self) -> Accuracy:
        wanted = self.within.values() if isinstance(self.within, dict) else [self.within]
        if not wanted or any(exact("within", value) < 0 for value in wanted):
            raise ValueError("within must be an error of 0 or more, or one for each figure")
        return self


class Postprocess(_Part):
    """Free changes to released figures; the figures as released are published beside."""

    nonnegative: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @field_validator("nonnegative", "whole", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class Range(_Part):
    """Where every released value of a figure must lie for the release to be published."""

    least: float | None = Field(default=None, allow_inf_nan=False)
    most: float | None = Field(default=None, allow_inf_nan=False)


class OutputSpec(_Part):
    """One table: a question, and what it deserves of the budget (`weight`) or how exact it must be (`accuracy`)."""

    name: str
    title: str = ""
    sql: str = Field(min_length=1, max_length=100_000)
    weight: Number | None = None
    accuracy: Accuracy | None = None
    weights: dict[str, Number] = {}
    keys: Literal["private"] | tuple[str, ...] | dict[str, Literal["private"] | tuple[Scalar, ...]] | None = None
    postprocess: Postprocess = Postprocess()
    checks: dict[str, Range] = {}
    rows_per_group: int | None = Field(default=None, ge=1)

    @field_validator("keys", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if isinstance(value, list):
            return tuple(value)
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _sound(self) -> OutputSpec:
        if not NAME.fullmatch(self.name):
            raise ValueError("name must be letters, digits, - and _, starting with a letter: it becomes a file name")
        if (self.weight is None) == (self.accuracy is None):
            raise ValueError("an output has a weight (its part of the budget) or an accuracy (within, confidence)")
        if self.weight is not None and exact("weight", self.weight) <= 0:
            raise ValueError("weight must be greater than 0")
        return self


class Publication(_Part):
    """Where and how the release is written; the folder must not exist yet."""

    folder: str = Field(min_length=1)
    formats: tuple[Literal["csv", "parquet"], ...]
    confidence: float = Field(gt=0, lt=1)

    @field_validator("formats", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _some(self) -> Publication:
        if not self.formats or len(set(self.formats)) < len(self.formats):
            raise ValueError("formats lists csv, parquet or both")
        return self


class Contact(_Part):
    """What the deployments registry asks for and only the curator knows."""

    curator: str = ""
    region: str = ""
    sector: str = ""
    intended_use: str = ""
    authors: tuple[str, ...] = ()

    @field_validator("authors", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class Expected(_Part):
    """Sizes that the curator declares to be public, for predictions and warnings only: nothing rests on them."""

    people: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=1)


class Job(_Part):
    """A job as it was written. `digest()` is its fingerprint: the same for the same content, however the file is laid out."""

    version: Literal[1]
    title: str = Field(min_length=1, max_length=500)
    purpose: str = Field(min_length=1, max_length=10_000)
    sources: dict[str, SourceSpec] = Field(min_length=1)
    unit: UnitSpec
    budget: BudgetSpec
    account: AccountSpec | None = None
    period: str | None = None
    expected: Expected = Expected()
    columns: dict[str, ColumnSpec] = Field(min_length=1)
    outputs: tuple[OutputSpec, ...] = Field(min_length=1, max_length=1000)
    publication: Publication
    registry: Contact = Contact()

    @field_validator("outputs", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _consistent(self) -> Job:
        names = [output.name.casefold() for output in self.outputs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two outputs are named {twice[0]!r}; each becomes a file of its own")
        known = {self._full(name) for name in self.columns}
        for name, column in self.columns.items():
            table = self._table_of(name)
            if table is None and len(self.sources) > 1:
                raise ValueError(f"columns.{name} needs table, or its table in its name, such as visits.{name}: there are several sources")
            if table is not None and table not in self.sources:
                raise ValueError(f"columns.{name}.table names no source; there are {', '.join(self.sources)}")
            if column.references is not None and column.references not in known:
                raise ValueError(f"columns.{name}.references must be a table and its column, both in this job, such as person.id")
        bare = {name.rpartition(".")[2] for name in known}
        for column_name in (self.unit.person, self.unit.when, *(self.unit.edge or ())):
            if column_name is not None and column_name not in bare:
                raise ValueError(f"the unit's column {column_name!r} is not in columns; add it with its type")
        if isinstance(self.unit.node, str) and self.unit.node not in known:
            raise ValueError(f"the unit's key {self.unit.node!r} is not in columns; add it with its type")
        if (self.period is None) != (self.unit.window is None):
            raise ValueError("period belongs to a unit with a window: period: 2026-03 for window: month")
        if all(source.public for source in self.sources.values()):
            raise ValueError("every source is public, so there is nobody to protect")
        return self

    def schema_(self) -> Schema:
        """Bounds, categories and foreign keys for the planner."""
        return Schema(
            {
                name if c.references is None else self._full(name): Column(
                    bounds=None if c.bounds is None else (exact("bound", c.bounds[0]), exact("bound", c.bounds[1])),
                    categories=c.categories,
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
        for part in (tree["unit"], *tree["columns"].values()):
            # Fields that came later are left out where they say nothing, so that older jobs keep their fingerprint.
            for name in _LATER & set(part):
                if part[name] in (None, False):
                    del part[name]
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def parse(text: str) -> Job:
    """A job from YAML text; every fault is a `JobError` that names the place."""
    tree = tree_of(text)
    try:
        return Job.model_validate(tree)
    except ValidationError as error:
        raise _explained(error) from None
    except (TableError, LedgerError, RecursionError, OverflowError) as error:
        raise JobError(str(error) or "the job cannot be read") from None


def load(path: str | Path) -> Job:
    """Read and check a job file."""
    file = Path(path)
    text: str | None = None
    try:
        if file.stat().st_size > LARGEST:
            raise JobError(f"the file has more than {LARGEST} bytes; a job is a page of text", file=str(path))
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:
        reason = type(error).__name__
    if text is None:
        raise JobError(f"the job cannot be read: {reason}; check the path", file=str(path))
    try:
        return parse(text)
    except JobError as error:
        raise error.within(str(path)) from None


def _place(location: tuple[int | str, ...]) -> str:
    """outputs[2].sql; what pydantic adds about the members of a union is left out."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part in ("dict", "str", "int", "float", "bool", "date", "datetime") or "[" in part:
            continue
        else:
            text += f".{part}" if text else part
    return text


def _explained(error: ValidationError) -> JobError:
    """The first fault in words, with what may be written. Inputs are not repeated: a url may hold a password."""
    faults = error.errors(include_url=False, include_input=False)
    # a misspelt field is both unknown and missing: the first says more
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    location, kind = tuple(first["loc"]), first["type"]
    place = _place(location)
    if kind == "extra_forbidden":
        parent = _place(location[:-1])
        return JobError(f"there is no such field; {parent or 'a job'} has {', '.join(_fields(location[:-1]))}", place=place)
    if kind == "missing":
        return JobError("is missing; it has no default, because it is a decision", place=place)
    return JobError(str(first["msg"]).removeprefix("Value error, "), place=place)


def _fields(location: tuple[int | str, ...]) -> list[str]:
    parts: Mapping[str, type[_Part]] = {
        "sources": SourceSpec, "unit": UnitSpec, "budget": BudgetSpec, "account": AccountSpec, "columns": ColumnSpec, "outputs": OutputSpec,
        "publication": Publication, "registry": Contact, "expected": Expected, "accuracy": Accuracy, "postprocess": Postprocess,
        "checks": Range,
    }  # fmt: skip
    for part in reversed(location):
        if isinstance(part, str) and part in parts:
            return sorted(parts[part].model_fields)
    return sorted(Job.model_fields)
