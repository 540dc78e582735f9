"""The parts of a release job, one class for each block of the file: what may be written there, and what is wrong with what was.

>>> BudgetSpec.model_validate({"epsilon": 1, "delta": "1e-6"}).typed()
Budget(epsilon=1, delta=1e-6)
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from tacit.accounting import Adjacency, Guarantee
from tacit.exact import exact
from tacit.ledger import Budget
from tacit.release.errors import JobError
from tacit.tables import CSV, ColumnReading, Unit, date_formats, encoding_of, number_marks

Type = Literal["integer", "number", "decimal", "text", "boolean", "date", "timestamp"]
#: The sizes of numbers in a job: what lies beyond is a slip, and its squares would leave floating point.
LEAST, MOST = Fraction(1, 10**60), Fraction(10) ** 60
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("must be a number")
    try:
        size = abs(exact("it", value))
    except (ValueError, TypeError, ArithmeticError):
        raise ValueError("must be a finite number, such as 0.5 or 1e-6") from None
    if size and not LEAST <= size <= MOST:
        raise JobError(code="number-out-of-range")
    return value


Number = Annotated[int | float | str, BeforeValidator(_number)]
Scalar = bool | int | float | str | datetime.date | datetime.datetime | None


class JobPart(BaseModel):
    """A block: fields that are not known are refused, types are not guessed, and nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ShuffledSpec(JobPart):
    """A shuffler stood between people and the collector, and let no batch go with fewer honest reports than this."""

    at_least: int = Field(ge=1)


class ClientsSourceSpec(JobPart):
    """Clients that keep their data: whom they trust, how many may drop out or collude, and the window in which each answers once."""

    trust: Literal["central", "distributed"]
    window: str = Field(min_length=1, max_length=200)
    dropouts: float = Field(default=0.0, ge=0, lt=1)
    colluding: float = Field(default=0.0, ge=0, lt=1)


class SourceSpec(JobPart):
    """Where a table is: a file (`path`, CSV or Parquet), or a database (`url` and `table`): postgresql://host/name, or a Spark Connect
    server, sc://host:15002. All tables of a job are files, or all are tables of one database. `public` tables hold no people.
    `delimiter` stands between the values of a CSV file, where that is no comma; `encoding` is what it is written in, where that is not
    UTF-8.

    Or reports that people's devices randomised: `reports` names Arrow files (with * for many) or a collector's file of counts, `protocol`
    the protocol's own file, and `shuffled` what a shuffler promises.

    Or `clients`, people's devices or silos that are asked through a Flower grid and keep their data.

    Or a power network: `network` names a MATPOWER case (.m) or a pandapower network (.json), whose loads are private."""

    path: str | None = None
    url: str | None = None
    table: str | None = None
    public: bool = False
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    encoding: str | None = None
    reports: str | None = Field(default=None, min_length=1)
    protocol: str | None = Field(default=None, min_length=1)
    shuffled: ShuffledSpec | None = None
    network: str | None = Field(default=None, min_length=1)
    clients: ClientsSourceSpec | None = None

    @model_validator(mode="after")
    def _one(self) -> SourceSpec:
        if self.clients is not None:
            if self.model_fields_set != {"clients"}:
                raise ValueError("a source of clients has clients: {trust: ..., window: ...}, and nothing of a table")
            return self
        if self.network is not None:
            if self.model_fields_set != {"network"}:
                raise ValueError("a source that is a network has network, the name of its file, and nothing else")
            return self
        if (self.reports is None) != (self.protocol is None) or (self.shuffled is not None and self.reports is None):
            raise ValueError("reports and protocol stand together, and shuffled beside them only")
        if self.reports is not None:
            if self.path is not None or self.url is not None or self.table is not None or self.public or self.delimiter is not None:
                raise ValueError("a source of reports has reports, protocol and shuffled, and nothing of a table")
            return self
        if (self.path is None) == (self.url is None):
            raise ValueError("a source has either path (a CSV or Parquet file) or url (a database, with table)")
        if self.url is not None and self.table is None:
            raise ValueError("a url needs table, the name of the table in the database")
        if self.delimiter is not None and not (self.path or "").lower().endswith(CSV):
            raise ValueError("delimiter belongs to a CSV file")
        if self.encoding is not None:
            encoding_of(self.encoding)
            if not (self.path or "").lower().endswith(CSV):
                raise ValueError("encoding belongs to a CSV file; other files and databases say themselves how texts are written")
        return self


class UnitSpec(JobPart):
    """Whom the guarantee protects; caps and adjacency have no defaults.

    `person` names a column; `row` is true; `node` is a key such as person.id, to which rows lead along foreign keys, or the two ends of a
    table of edges; `edge` is the two ends of edges that are protected as such. `reports` is for jobs that read reports: how often one
    person's device draws for each source, at the most and for good. `clients` is for jobs that ask clients: in how many of them one
    person may be. `called` is the word for what `person` tells apart, such as household; without it, it is a person.
    """

    person: str | None = None
    called: str | None = None
    row: bool = False
    node: str | tuple[str, str] | None = None
    edge: tuple[str, str] | None = None
    reports: int | None = Field(default=None, ge=1)
    clients: int | None = Field(default=None, ge=1)
    load: Number | None = None
    directed: bool = False
    max_rows: int | None = None
    max_groups: int | None = None
    rows_per_group: int | None = None
    adjacency: Literal["add-remove", "replace-one"]
    capped: bool = False
    window: str | None = None
    when: str | None = None

    @field_validator("adjacency", mode="before")
    @classmethod
    def _spelled(cls, value: object) -> object:
        """Older jobs write add_remove."""
        return value.replace("_", "-") if isinstance(value, str) else value

    @field_validator("node", "edge", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _sound(self) -> UnitSpec:
        if self.load is not None:
            if self.model_fields_set != {"load", "adjacency"} or self.adjacency != "replace-one" or exact("load", self.load) <= 0:
                raise ValueError("a unit of networks is {load: <MW by which one may differ>, adjacency: replace-one}")
            return self
        if self.clients is not None:
            if self.model_fields_set != {"clients", "adjacency"} or self.adjacency != "add-remove":
                raise ValueError("a unit of clients is {clients: <in how many of them one person may be>, adjacency: add-remove}")
            return self
        if self.reports is not None:
            if self.model_fields_set != {"reports", "adjacency"} or self.adjacency != "replace-one":
                words = "a person's values are replaced by others"
                raise ValueError(f"a unit of reports is {{reports: <how many>, adjacency: replace-one}}: {words}")
            return self
        if sum((self.row, self.person is not None, self.node is not None, self.edge is not None)) != 1:
            raise ValueError(
                "a unit is one of person: <column>, with a cap such as max_rows: 12; row: true; node: <table.column>, with foreign keys "
                "under columns, or node: [src, dst], with capped: true; edge: [src, dst]"
            )
        if self.directed and self.edge is None:
            raise ValueError("directed belongs to edge: [src, dst]")
        if self.window is not None and self.person is None:
            raise ValueError("window belongs to person: <column>")
        self.typed()
        return self

    def typed(self) -> Unit:
        """The unit of the tables package."""
        relation = Adjacency.parse(self.adjacency)
        if self.load is not None:
            from tacit.applications.energy import protected_unit  # loads scipy, which other jobs do without

            return Unit(protected_unit(exact("load", self.load)), 1, adjacency=relation, capped=True)
        if self.clients is not None:
            return Unit("client", self.clients, adjacency=relation, capped=True)
        if self.reports is not None:
            return Unit("reporter", self.reports, adjacency=relation, capped=True)
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
        return Unit(
            self.person, *caps, adjacency=relation, capped=self.capped, window=self.window, when=self.when, called=self.called
        )


class BudgetSpec(JobPart):
    """A limit: epsilon with delta (0 for pure), or rho. `reserve` is the share that only corrections may use.

    It may be written as the text of a guarantee: `budget: eps=1, delta=1e-6`. Beside rho, `delta` says where its epsilon is told, and
    where an account that counts in epsilon and delta charges it.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    reserve: Number = 0

    @model_validator(mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = Guarantee.parse(value)
        if found.currency in ("mu", "renyi"):
            raise ValueError("a job's budget is epsilon with delta, or rho; mu and Rényi orders are not planned for")
        amounts = {"rho": found.rho} if found.rho is not None else {"epsilon": found.epsilon, "delta": found.delta}
        return {name: str(amount) for name, amount in amounts.items()}

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
        self.typed()
        return self

    def typed(self) -> Budget:
        """The budget of the ledger."""
        if self.rho is not None:
            return Budget(rho=self.rho, reserve=self.reserve)
        return Budget(epsilon=self.epsilon, delta=self.delta, reserve=self.reserve)


class AccountSpec(JobPart):
    """The ledger account that the job is paid from, where it is more than this one job: its name and the limit for all jobs together."""

    name: str = Field(min_length=1, max_length=200)
    budget: BudgetSpec


class SeriesSpec(JobPart):
    """A release that is made again for every period, about the same people: one account for all of it.

    `budget` is what one of them may lose in every period (`per: period`) or in all periods together (`per: total`). With a budget per
    period, what one person loses grows with the periods.
    """

    name: str = Field(min_length=1, max_length=200)
    every: Literal["day", "week", "month", "quarter", "year"]
    budget: BudgetSpec
    per: Literal["period", "total"]


#: What YAML makes of values of each type; dates may also be written as texts.
_CATEGORIES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "decimal": (int, float, str),
    "text": (str,),
    "boolean": (bool,),
    "date": (datetime.date, str),
    "timestamp": (datetime.datetime, datetime.date, str),
}


class ColumnSpec(JobPart):
    """What is public about a column. Where there are several sources, `table` says whose column it is, or its name does: visit.cost.

    `references` is a foreign key: the table and key that its values name rows of, such as person.id.

    Files are rarely as clean as their code book. `encoding` is what the texts of a CSV file are written in; `format` how dates
    (dd.mm.yyyy) or numbers (1.234,56) are; `missing` lists the codes for what is not there, such as [-9, 999]; and `other` is a value that
    takes the place of every one that is not among the categories. Without `other`, rows with such values are in no group.
    """

    type: Type
    encoding: str | None = None
    format: str | tuple[str, ...] | None = None
    missing: tuple[Scalar, ...] | None = None
    other: Scalar = None
    bounds: tuple[Number, Number] | None = None
    categories: tuple[Scalar, ...] | None = None
    nullable: bool = True
    table: str | None = None
    references: str | None = None

    @field_validator("bounds", "categories", "format", "missing", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """The values that a row may have: the categories, and what stands for all others."""
        if self.categories is None or self.other is None or self.other in self.categories:
            return self.categories
        return (*self.categories, self.other)

    @property
    def as_stored(self) -> bool:
        """Whether its values are read as they are stored."""
        return self.format is None and not self.missing and self.other is None

    def reading(self, engine_type: str) -> ColumnReading:
        """How its values are read, where the engine has this type for it."""
        dated = self.type in ("date", "timestamp")
        return ColumnReading(
            engine_type,
            formats=date_formats(self.format) if dated and self.format is not None else (),
            marks=number_marks(str(self.format)) if not dated and self.format is not None else None,
            missing=self.missing or (),
            known=self.categories or (),
            other=self.other,
        )

    def _readable(self) -> None:
        """What says how values are read, checked; a slip here would make all of them missing."""
        if self.encoding is not None:
            encoding_of(self.encoding)
        if self.format is not None:
            if self.type in ("date", "timestamp"):
                date_formats(self.format)
            elif self.type in ("integer", "number", "decimal") and isinstance(self.format, str):
                number_marks(self.format)
            else:
                raise ValueError("format is for dates, timestamps and numbers; one way to write numbers, or several to write dates")
        if self.missing is not None and (not self.missing or None in self.missing or len(self.missing) > 1000):
            raise ValueError("missing lists the codes for what is not there, such as [-9, 999]; what is empty is missing anyway")
        number = (int, float)
        if self.missing and self.type in ("integer", "number", "decimal"):
            if not all(isinstance(code, (*number, str)) and not isinstance(code, bool) for code in self.missing):
                raise ValueError("missing lists numbers, or texts as they stand in the file")
        elif self.missing and not all(isinstance(code, (str, datetime.date)) for code in self.missing):
            raise ValueError(f"missing of a column of type {self.type} lists texts as they stand in the file; put numbers in quotes")
        if self.other is not None:
            if self.categories is None:
                raise ValueError("other takes the place of values that are not among the categories; list those")
            if type(self.other) not in _CATEGORIES[self.type]:
                raise ValueError(f"other must be of the column's type, {self.type}")

    @model_validator(mode="after")
    def _sound(self) -> ColumnSpec:
        self._readable()
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
            kinds = _CATEGORIES[self.type]
            if not all(value is None or type(value) in kinds for value in self.categories):
                hint = (
                    "; YAML takes yes, no, on, off, numbers and dates for something else: put them in quotes" if self.type == "text" else ""
                )
                raise ValueError(f"categories must be of the column's type, {self.type}{hint}")
        return self


class Accuracy(JobPart):
    """Errors wanted: every figure within so much (or each figure within its own), with this confidence."""

    within: Number | dict[str, Number]
    confidence: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _sound(self) -> Accuracy:
        wanted = self.within.values() if isinstance(self.within, dict) else [self.within]
        if not wanted or any(exact("within", value) < 0 for value in wanted):
            raise ValueError("within must be an error of 0 or more, or one for each figure")
        return self


class OutputSpec(JobPart):
    """What every kind of output says: its name, and what it deserves of the budget (`weight`) or how exact it must be (`accuracy`).

    A kind's own block adds its fields (`tacit.release.kinds`). `later` are fields that came after the first jobs were written, with the
    value that says nothing: with it they are left out of the job's fingerprint.
    """

    later: ClassVar[Mapping[str, Any]] = {}

    kind: str = "table"
    name: str
    title: str = ""
    weight: Number | None = None
    accuracy: Accuracy | None = None

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not NAME.fullmatch(self.name):
            raise ValueError("name must be letters, digits, - and _, starting with a letter: it becomes a file name")
        if (self.weight is None) == (self.accuracy is None):
            raise ValueError("an output has a weight (its part of the budget) or an accuracy (within, confidence)")
        if self.weight is not None and exact("weight", self.weight) <= 0:
            raise ValueError("weight must be greater than 0")
        return self

    def check(self, columns: set[str]) -> None:
        """Refuse, with a ValueError, what does not go together with the columns that the job declares."""


class TotalSpec(JobPart):
    """A figure of several tables that has one total, because they count the same rows in other groups (`tacit.release.totals`)."""

    figure: str = Field(min_length=1)
    outputs: tuple[str, ...] = Field(min_length=2)

    @field_validator("outputs", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class InDatabase(JobPart):
    """A database that released tables are written to as well: a DuckDB `file`, or a PostgreSQL server.

    The server's address is in the environment variable that `url_env` names. `schema_name` holds released tables only.
    """

    file: str | None = None
    url_env: str | None = None
    schema_name: str = "released"

    @model_validator(mode="after")
    def _one(self) -> InDatabase:
        if (self.file is None) == (self.url_env is None):
            raise ValueError("name a file (DuckDB), or url_env: the environment variable with the address of a PostgreSQL server")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", self.schema_name):
            raise ValueError("schema_name is letters, digits and _, at most 63, such as released")
        return self


class Publication(JobPart):
    """Where and how the release is written; the folder must not exist yet.

    `intervals` says which interval columns tables have: those of the noise (`n_low`, `n_high`), those with the estimated bias of caps and
    bounds too (`n_total_low`, `n_total_high`), both or none.
    """

    folder: str = Field(min_length=1)
    formats: tuple[Literal["csv", "parquet"], ...]
    confidence: float = Field(gt=0, lt=1)
    intervals: tuple[Literal["noise", "total"], ...] = ("noise",)
    database: InDatabase | None = None

    @field_validator("formats", "intervals", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _some(self) -> Publication:
        if not self.formats or len(set(self.formats)) < len(self.formats):
            raise ValueError("formats lists csv, parquet or both")
        return self


class Contact(JobPart):
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


class Expected(JobPart):
    """Sizes that the curator declares to be public, for predictions, warnings and comparisons: no guarantee rests on them.

    `missing` is the share of rows where a column has no value, by column. Released totals that are farther from `people` and `rows` than
    `tolerance` (a share) and their noise hold the publication back.
    """

    people: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=1)
    missing: dict[str, float] = Field(default_factory=dict)
    tolerance: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _shares(self) -> Expected:
        if not all(0 <= share < 1 for share in self.missing.values()):
            raise ValueError("missing has for each column the share of rows without a value: {age: 0.2}")
        return self
