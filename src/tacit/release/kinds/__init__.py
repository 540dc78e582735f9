"""Kinds of output: the protocol by which any room puts something into a release job.

An output's `kind:` names a line of `KINDS`, a module that is imported when a job uses it. The module has the functions of `Kind`: it reads
its block of the job, plans for a share of the budget without data, draws once, and turns what was drawn into files, a section of the report
and a part of release.json. Everything else is the job's one path and the same for all kinds: sharing the budget out, paying before the data
is touched, going on after a crash, publishing all or nothing. docs/kinds.md writes a kind from scratch.

>>> find("table").Block.__name__
'TableSpec'
>>> find("tabel")
Traceback (most recent call last):
tacit.release.errors.JobError: kind must be table or workload or synthesis...; did you mean table?
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tacit.accounting import AccountingError, Event, Guarantee
from tacit.ledger import LedgerError
from tacit.release.errors import JobError
from tacit.release.faults import in_job, nearest
from tacit.tables import MARK, Desk, TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.release.job import Job
    from tacit.release.job_parts import OutputSpec

Record = dict[str, Any]


@dataclass(frozen=True)
class Portion:
    """What one output gets of the job's budget: its part, that part as a price, and the noise to use (None: whichever is better)."""

    part: Fraction
    spend: Guarantee
    law: str | None


@dataclass(frozen=True)
class Notice:
    """A warning: its rule, where in the job, and what to do. `refuses` marks what no budget can repair."""

    rule: str
    place: str
    text: str
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


@contextmanager
def placed(place: str) -> Iterator[None]:
    """What a room refuses of the job, as an error of the job that says where."""
    try:
        yield
    except (TableError, LedgerError, AccountingError) as error:
        raise in_job(error, place) from None


class Output(Protocol):
    """An output that was read and checked, before it has a price. No row was read for it."""

    @property
    def plain(self) -> bool:
        """Whether it costs all of a price as one Gaussian event (a price in mu) or one Laplace event (in epsilon).

        An output that is not plain is priced in epsilon and delta, and the job searches for what fits.
        """

    @property
    def figures(self) -> Sequence[str]:
        """The figures that an accuracy may be asked for."""


class OutputPlan(Protocol):
    """An output with its price: everything about it but the data."""

    @property
    def spec(self) -> OutputSpec:
        """Its block of the job."""

    @property
    def portion(self) -> Portion:
        """What it gets of the budget."""

    @property
    def event(self) -> Event:
        """What is done to the data."""

    @property
    def noise(self) -> str:
        """The law of its noise, in a word."""

    @property
    def size(self) -> int:
        """How many numbers are published."""

    @property
    def score(self) -> float:
        """The logarithm of its errors, by which the job compares laws of noise: 0.69 less is half the error."""

    @property
    def errors(self) -> Mapping[str, float]:
        """How far each figure may be off, with the publication's confidence."""

    def errors_at(self, confidence: float) -> Mapping[str, float]:
        """The same with another confidence."""


class Kind(Protocol):
    """The functions that a module of `KINDS` has. `result` is whatever the kind makes of a draw: a table's is an `Answer`."""

    Block: type[OutputSpec]
    #: What is published, for the registry of deployments.
    PRODUCT: str

    def prepare(self, block: Any, job: Job, desk: Desk, place: str) -> Output:
        """Check a block against the rest of the job. `place` is where it stands, such as outputs[2], for errors."""

    def plan(self, output: Any, portion: Portion) -> OutputPlan:
        """What will be measured for a portion of the budget. No data is touched."""

    def notices(self, planned: Any, job: Job, place: str) -> Iterable[Notice]:
        """What a curator should hear before spending."""

    def explain(self, planned: Any) -> tuple[str, str]:
        """What is done to the data, in words, and the statement that is sent."""

    def draw(self, planned: Any) -> Record:
        """Touch the data and add the noise, once: what was drawn, as JSON. It was paid for, and errors are withheld by the job."""

    def result(self, planned: Any, drawn: Record, private: bool, entry: int | None) -> Any:
        """The figures of a draw. No data is touched from here on."""

    def checks(self, planned: Any, result: Any) -> list[tuple[str, bool]]:
        """What must hold for the release to be published, and whether it does."""

    def files(self, planned: Any, result: Any, formats: Sequence[str]) -> dict[str, bytes]:
        """The files that are published, by name."""

    def recorded(self, planned: Any, result: Any) -> Record:
        """Its part of release.json: public parameters, and no figure."""

    def post_processing(self, planned: Any) -> Sequence[str]:
        """What is done to released figures afterwards, in words, for the registry."""

    def described(self, planned: Any, result: Any | None) -> Record:
        """All that the report says of it, as JSON; `result` is None where it was left out."""

    def section(self, described: Record, confidence: str) -> str:
        """Its section of the report, as HTML, made of `described` alone. Every text in it is escaped."""

    def review(self, outputs: Sequence[Any], private: bool) -> Mapping[str, str]:
        """Answers for the reviewer about all outputs of this kind: some of `tacit.release.report.ASKED`."""


@dataclass(frozen=True)
class Deployment:
    """Who adds the noise and against whom the promise holds, where that is not a trusted curator: what a kind says of it.

    `model` is the registry's word. `unit` has the words one, short, cap and relation; `record` is for release.json;
    `about` says of what the intervals beside figures hold.
    """

    model: str
    actors: str
    booked: str
    unit: Mapping[str, str]
    promise: Sequence[str]
    limits: Sequence[str]
    domain: str
    parameters: str
    composition: str
    mechanisms: Mapping[str, str]
    record: Record
    about: str = "It is about the people whose reports were counted."


# --- what kinds that publish tables share ---

#: What a spreadsheet takes for the beginning of a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def marked(table: pa.Table, private: bool) -> pa.Table:
    """The table, with a column that says so where it was drawn in test mode."""
    import pyarrow as pa

    return table if private else table.append_column("not_private", pa.array([MARK] * table.num_rows))


def table_files(name: str, table: pa.Table, formats: Sequence[str]) -> dict[str, bytes]:
    """A table in every format of the publication, by file name."""
    from pyarrow import csv, parquet

    found = {}
    for form in formats:
        buffer = io.BytesIO()
        if form == "csv":
            csv.write_csv(as_text(table), buffer)
        else:
            parquet.write_table(table, buffer)
        found[f"{name}.{form}"] = buffer.getvalue()
    return found


def as_text(table: pa.Table) -> pa.Table:
    """The table for a CSV file: a text that a spreadsheet would run as a formula has an apostrophe in front, which makes it a text there.

    >>> import pyarrow as pa
    >>> as_text(pa.table({"k": ["=1+1", "a", None], "n": [-1, 2, 3]})).column("k").to_pylist()
    ["'=1+1", 'a', None]
    """
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            values = [f"'{v}" if v is not None and v.startswith(FORMULAS) else v for v in table.column(place).to_pylist()]
            table = table.set_column(place, column, pa.array(values, column.type))
    names = [f"'{name}" if name.startswith(FORMULAS) else name for name in table.column_names]
    return table.rename_columns(names)


#: Every kind and the module that has its functions, or an object that has them.
KINDS: dict[str, str | Kind] = {
    "table": "tacit.release.kinds.table",
    "workload": "tacit.release.kinds.workload",
    "synthesis": "tacit.release.kinds.synthesis",
    "reports": "tacit.release.kinds.reports",
    "clients": "tacit.release.kinds.clients",
    "profile": "tacit.release.kinds.profile",
    "network": "tacit.release.kinds.network",
    "fairness": "tacit.release.kinds.fairness",
    "model": "tacit.release.kinds.model",
    "images": "tacit.release.kinds.images",
    "tracks": "tacit.release.kinds.tracks",
    "survival": "tacit.release.kinds.survival",
    "cohort": "tacit.release.kinds.cohort",
    "contingency": "tacit.release.kinds.contingency",
    "gwas": "tacit.release.kinds.gwas",
}


def find(name: object) -> Kind:
    """The kind of this name."""
    if not isinstance(name, str) or name not in KINDS:
        raise JobError(f"kind must be {' or '.join(KINDS)}{nearest(str(name), list(KINDS))}")
    found = KINDS[name]
    return cast(Kind, import_module(found)) if isinstance(found, str) else found


def of(planned: OutputPlan) -> Kind:
    """The kind of a planned output."""
    return find(planned.spec.kind)


def protects(planned: OutputPlan) -> str:
    """What of one unit's data an output protects, in words, if its kind has a function of this name that says so; empty for all of them.

    Such as 'up to 360 pixels of each picture'. Amounts for different things are never added up: all outputs of a job agree in this.
    """
    said = getattr(of(planned), "protects", None)
    return "" if said is None else str(said(planned))


def unprotected(planned: OutputPlan) -> list[str]:
    """What an output publishes that the guarantee does not cover, in words, if its kind has a function of this name that says so."""
    said = getattr(of(planned), "unprotected", None)
    return [] if said is None else list(said(planned))


def private_files(planned: OutputPlan) -> list[Path]:
    """Files with private data that an output reads beside the job's sources, if its kind has a function of this name that lists them.

    The ledger knows the data by their bytes too, so that they get no second budget beside another table.
    """
    said = getattr(of(planned), "private_files", None)
    return [] if said is None else list(said(planned))


def deployment(outputs: Sequence[OutputPlan]) -> Deployment | None:
    """How a job's outputs are deployed; None where a trusted curator adds the noise. All outputs of a job are deployed alike."""
    said = getattr(of(outputs[0]), "deployment", None)
    return None if said is None else cast(Deployment, said(outputs))


def dictionary(planned: OutputPlan, result: Any) -> list[Record] | None:
    """What each column of an output's tables is, for the data dictionary, if its kind has a function of this name that says so."""
    said = getattr(of(planned), "dictionary", None)
    return None if said is None else list(said(planned, result))
