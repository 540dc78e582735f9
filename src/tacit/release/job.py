"""A release job: what to publish about which data, for whose privacy, at what price. One YAML file, checked before anything is planned.

There are no defaults for epsilon, delta, bounds and caps: what is not written is an error that says where and what to write.

>>> job = parse(EXAMPLE)
>>> job.title, job.outputs[0].name, str(job.budget.typed().limits["epsilon"])
('Visits by region', 'by_region', '1')
>>> parse(EXAMPLE.replace("max_rows: 4", "max_row: 4"))
Traceback (most recent call last):
tacit.release.errors.JobError: unit.max_row: there is no such field; did you mean max_rows?; unit has adjacency, capped, ...
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from tacit.accounting import AccountingError, Refusal
from tacit.exact import exact
from tacit.ledger import LedgerError, days
from tacit.release.errors import JobError
from tacit.release.faults import in_job, in_words, unknown
from tacit.release.job_parts import (
    AccountSpec,
    Accuracy,
    BudgetSpec,
    ColumnSpec,
    Contact,
    Expected,
    OutputSpec,
    Part,
    Postprocess,
    Publication,
    Range,
    SourceSpec,
    UnitSpec,
)
from tacit.release.reading import LARGEST, tree_of
from tacit.tables import Column, Schema, TableError
from tacit.tables.dialects import known_dialect

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

_LATER = {"node", "edge", "directed", "references", "delimiter"}


class Job(Part):
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
    dialect: str | None = None
    columns: dict[str, ColumnSpec] = Field(min_length=1)
    outputs: tuple[OutputSpec, ...] = Field(min_length=1, max_length=1000)
    publication: Publication
    registry: Contact = Contact()

    @field_validator("dialect")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        return None if value is None else known_dialect(value)

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
        for output in self.outputs:
            twice = [name for name in output.bounds if name in bare]
            if twice:
                raise ValueError(
                    f"{output.name}: {twice[0]} is a column, so its bounds stand under columns.{twice[0]}; here are those of other values"
                )
        for column_name in (self.unit.person, self.unit.when, *(self.unit.edge or ())):
            if column_name is not None and column_name not in bare:
                raise ValueError(f"the unit's column {column_name!r} is not in columns; add it with its type")
        if isinstance(self.unit.node, str) and self.unit.node not in known:
            raise ValueError(f"the unit's key {self.unit.node!r} is not in columns; add it with its type")
        if (self.period is None) != (self.unit.window is None):
            raise ValueError("period belongs to a unit with a window: period: 2026-03 for window: month")
        if self.unit.window is not None:
            days(self.unit.window, self.period)
        dated = [column for name, column in self.columns.items() if self._bare(name) == self.unit.when]
        if any(column.type not in ("date", "timestamp") for column in dated):
            raise ValueError(f"the unit's column {self.unit.when!r} tells when, so its type must be date or timestamp")
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
        # An old spelling, which older jobs have: the same job keeps its fingerprint.
        tree["unit"]["adjacency"] = tree["unit"]["adjacency"].replace("-", "_")
        for part in (tree["unit"], *tree["columns"].values(), *tree["sources"].values()):
            # Fields that came later are left out where they say nothing, so that older jobs keep their fingerprint.
            for name in _LATER & set(part):
                if part[name] in (None, False):
                    del part[name]
        if tree["dialect"] is None:
            del tree["dialect"]
        for output in tree["outputs"]:
            if output["loss"]:
                del output["loss"]
            if not output["bounds"]:
                del output["bounds"]
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def parse(text: str) -> Job:
    """A job from YAML text; every fault is a `JobError` that names the place."""
    tree = tree_of(text)
    try:
        return Job.model_validate(tree)
    except ValidationError as error:
        raise _explained(error) from None
    except (TableError, LedgerError, AccountingError) as error:
        raise in_job(error) from None
    except (RecursionError, OverflowError):
        raise JobError("the job cannot be read; it is nested too deeply, or a number is too large") from None


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
        reason = getattr(error, "strerror", None) or type(error).__name__
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
        return JobError(unknown(str(location[-1]), _place(location[:-1]), _fields(location[:-1])), place=place)
    if kind == "missing" and not isinstance(location[-1], int):
        return JobError("is missing; it has no default, because it is a decision", place=place)
    if kind == "missing":
        location, first = location[:-1], {**first, "type": "too_short", "loc": location[:-1], "ctx": {"min_length": 2}}
    found, refusal = JobError(in_words(first), place=_place(location)), first.get("ctx", {}).get("error")
    return found.coded_as(refusal) if isinstance(refusal, Refusal) else found


def _fields(location: tuple[int | str, ...]) -> list[str]:
    parts: Mapping[str, type[Part]] = {
        "sources": SourceSpec, "unit": UnitSpec, "budget": BudgetSpec, "account": AccountSpec, "columns": ColumnSpec, "outputs": OutputSpec,
        "publication": Publication, "registry": Contact, "expected": Expected, "accuracy": Accuracy, "postprocess": Postprocess,
        "checks": Range,
    }  # fmt: skip
    for part in reversed(location):
        if isinstance(part, str) and part in parts:
            return sorted(parts[part].model_fields)
    return sorted(Job.model_fields)
