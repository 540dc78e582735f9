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
from tacit.tables import CSV, Unit

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


class Part(BaseModel):
    """A block: fields that are not known are refused, types are not guessed, and nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SourceSpec(Part):
    """Where a table is: a file (`path`, CSV or Parquet), or a database (`url` and `table`): postgresql://host/name, or a Spark Connect
    server, sc://host:15002. All tables of a job are files, or all are tables of one database. `public` tables are nobody's data.
    `delimiter` stands between the values of a CSV file, where that is no comma."""

    path: str | None = None
    url: str | None = None
    table: str | None = None
    public: bool = False
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)

    @model_validator(mode="after")
    def _one(self) -> SourceSpec:
        if (self.path is None) == (self.url is None):
            raise ValueError("a source has either path (a CSV or Parquet file) or url (a database, with table)")
        if self.url is not None and self.table is None:
            raise ValueError("a url needs table, the name of the table in the database")
        if self.delimiter is not None and not (self.path or "").lower().endswith(CSV):
            raise ValueError("delimiter belongs to a CSV file")
        return self


class UnitSpec(Part):
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


class BudgetSpec(Part):
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


class AccountSpec(Part):
    """The ledger account that the job is paid from, where it is more than this one job: its name and the limit for all jobs together."""

    name: str = Field(min_length=1, max_length=200)
    budget: BudgetSpec


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


class ColumnSpec(Part):
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
            kinds = _CATEGORIES[self.type]
            if not all(value is None or type(value) in kinds for value in self.categories):
                hint = (
                    "; YAML takes yes, no, on, off, numbers and dates for something else: put them in quotes" if self.type == "text" else ""
                )
                raise ValueError(f"categories must be of the column's type, {self.type}{hint}")
        return self


class Accuracy(Part):
    """Errors wanted: every figure within so much (or each figure within its own), with this confidence."""

    within: Number | dict[str, Number]
    confidence: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _sound(self) -> Accuracy:
        wanted = self.within.values() if isinstance(self.within, dict) else [self.within]
        if not wanted or any(exact("within", value) < 0 for value in wanted):
            raise ValueError("within must be an error of 0 or more, or one for each figure")
        return self


class OutputSpec(Part):
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


class Publication(Part):
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


class Contact(Part):
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


class Expected(Part):
    """Sizes that the curator declares to be public, for predictions and warnings only: nothing rests on them."""

    people: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=1)
