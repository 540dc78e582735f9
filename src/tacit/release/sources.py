"""Where a job's rows are: an engine with its tables, and what the ledger knows the data by. Opening reads schemas, never rows.

Planning uses `blank`: tables of the declared types with no rows at all, so that a plan cannot depend on data. Running uses `opened`, which
refuses before anything is charged when a table does not have the declared columns and types.

>>> from tacit.release.job import EXAMPLE, parse
>>> from sqlglot import parse_one
>>> blank(parse(EXAMPLE)).engine.run(parse_one("SELECT COUNT(*) AS n FROM visits")).to_pydict()
{'n': [0]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from tacit.ledger import DataIdentity, Ledger
from tacit.release import kinds
from tacit.release.errors import JobError
from tacit.release.faults import in_job
from tacit.release.job import Job
from tacit.tables import CSV, DUCKDB, PARQUET, ColumnReading, Desk, DuckDB, Engine, Source, TableError, kind_of

#: The engine's type for each declared one.
TYPES = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "decimal": "DECIMAL(38,9)",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
_ARROW = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "decimal": pa.decimal128(38, 9),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
#: Which kinds of column an engine may have for a declared type: a number may be stored as an integer, not the other way round.
_FITS = {"integer": ("integer",), "number": ("float", "integer", "decimal"), "decimal": ("decimal", "integer")}


def desk_of(job: Job, source: Source) -> Desk:
    """The desk where a job's questions are planned and drawn."""
    with kinds.placed("sources"):
        return Desk.of(
            source, job.unit.typed(), job.schema_(), dialect=job.dialect, confidence=job.publication.confidence
        )


def _public(job: Job) -> frozenset[str]:
    return frozenset(name for name, source in job.sources.items() if source.public)


def blank(job: Job, base: Path | None = None) -> Source:
    """The job's tables as declared, without rows. Public tables may be read, so those that are files below `base` are there with theirs."""
    if job.on_devices:
        return _reports(job, base or Path("."))
    if job.of_networks:
        return _networks(job, base or Path("."))
    if job.of_clients:
        return _clients(job, None)
    engine = DuckDB()
    for name, source in job.sources.items():
        columns = job.columns_of(name)
        path = base / source.path if base is not None and source.public and source.path is not None else None
        if path is not None and path.is_file() and path.name.lower().endswith(PARQUET):
            engine.parquet(name, [str(path.resolve())], _readings(job).get(name))
        elif path is not None and path.is_file() and path.name.lower().endswith(CSV):
            engine.register(name, table_of(job, name, path))
        else:
            # not `pa.array([])`, which imports pandas where it is installed
            engine.register(name, pa.schema([(n, _ARROW[c.type]) for n, c in columns.items()]).empty_table())
    return Source(engine, tuple(job.sources), _public(job), folder=base)


def table_of(job: Job, name: str, path: str | Path) -> pa.Table:
    """All rows of a file that stands in for a source, with the declared types. Only for data that is public."""
    types = {name: {n: TYPES[c.type] for n, c in job.columns_of(name).items()}} if str(path).lower().endswith(CSV) else {}
    found = _read(
        lambda: Source.several(
            {name: str(path)}, types=types, delimiters=_delimiters(job), readings=_readings(job), encodings=_encodings(job)
        ),
        f"sources.{name}",
    )
    try:
        matched(job, found.engine, [name])
        every = exp.Select(expressions=[exp.Star()]).from_(exp.to_table(name, quoted=True))
        return _read(lambda: found.engine.run(every), f"sources.{name}")
    finally:
        found.close()


def opened(job: Job, base: Path, tables: Mapping[str, Any] | None = None) -> Source:
    """The job's tables where they are; `tables` stand in for sources, by name (for rehearsals and tests).

    The schema is compared with the declared one here, before anything is reserved.
    """
    if job.on_devices:
        if tables:
            raise JobError("tables cannot stand in for reports", place="sources")
        return _reports(job, base, there=True)
    if job.of_networks:
        if tables:
            raise JobError("tables cannot stand in for networks", place="sources")
        return _networks(job, base)
    if job.of_clients:
        return _clients(job, tables or {})
    given: dict[str, Any] = {}
    types: dict[str, dict[str, str]] = {}
    for name, source in job.sources.items():
        if tables is not None and name in tables:
            given[name] = tables[name]
        elif source.path is not None and not source.path.lower().endswith(DUCKDB):
            path = base / source.path
            if not path.is_file():
                raise _no_file(name, source.path)
            if path.name.lower().endswith(CSV):
                types[name] = {n: TYPES[c.type] for n, c in job.columns_of(name).items()}
            given[name] = str(path)
    if not given:
        found = _database(job, base)
    elif len(given) == len(job.sources):
        public = [name for name in job.sources if name in _public(job)]
        found = _read(
            lambda: Source.several(
                given, public=public, types=types, delimiters=_delimiters(job), readings=_readings(job),
                encodings={name: written for name, written in _encodings(job).items() if isinstance(given[name], str)},
            ),
            f"sources.{next(iter(given))}",
        )
    else:
        raise JobError("a database cannot be mixed with other sources; put all tables into it, or none", place="sources")
    matched(job, found.engine)
    return replace(found, folder=base)


def _no_file(name: str, path: str) -> JobError:
    """The path as the job has it, with the period filled in."""
    return JobError(f"there is no file {path!r}; paths are relative to the job's own folder", place=f"sources.{name}.path")


def as_stored(job: Job, base: Path, name: str) -> DuckDB:
    """One source as its file has it, before anything is read as declared: for the curator's check. Bytes that are no UTF-8 are marked
    where the job reads UTF-8."""
    source = job.sources[name]
    path = base / (source.path or "")
    if not path.is_file():
        raise _no_file(name, source.path or "")
    if path.name.lower().endswith(DUCKDB):
        found = _read(lambda: Source.of(str(path), table=source.table or name), f"sources.{name}")
    else:
        encoding = job.encoding_of(name)
        written = {name: "marked" if encoding == "utf-8" and path.name.lower().endswith(CSV) else encoding}
        found = _read(lambda: Source.several({name: str(path)}, delimiters=_delimiters(job), encodings=written), f"sources.{name}")
    assert isinstance(found.engine, DuckDB)
    return found.engine


def _reports(job: Job, base: Path, *, there: bool = False) -> Source:
    """Sources of reports: protocols are read, and where `there`, the sizes of batches are looked at. No report is."""
    from tacit.release.kinds.reports import ReportSource

    return ReportSource.opened(job, base, there=there)


def _clients(job: Job, grids: Mapping[str, Any] | None) -> Source:
    """Sources that are clients; `grids`, by name, are where they are asked. Planning has none."""
    from tacit.release.kinds.clients import ClientSource

    return ClientSource.opened(job, grids)


def _networks(job: Job, base: Path) -> Source:
    """Sources that are power networks. Their public tables are read; their loads are looked at by the draw alone."""
    from tacit.release.kinds.network import NetworkSource

    return NetworkSource.opened(job, base)


def identities(source: Source, ledger: Ledger) -> tuple[tuple[DataIdentity, ...], tuple[DataIdentity, ...]]:
    """What the ledger knows the private tables by, and one fingerprint for each. Files are read once for it."""
    return _read(lambda: (source.identities(ledger.knows), source.fingerprints()), "sources")


def files_beside(outputs: Sequence[kinds.OutputPlan]) -> tuple[DataIdentity, ...]:
    """Each file of private data that outputs read beside the sources, by its bytes: one of them that is known is known data."""
    paths = dict.fromkeys(path for output in outputs for path in kinds.private_files(output))
    return _read(lambda: tuple(dict.fromkeys(DataIdentity.file(path) for path in paths)), "outputs")


def _delimiters(job: Job) -> dict[str, str]:
    return {name: source.delimiter for name, source in job.sources.items() if source.delimiter is not None}


def _encodings(job: Job) -> dict[str, str]:
    return {name: job.encoding_of(name) for name in job.sources}


def _readings(job: Job) -> dict[str, dict[str, ColumnReading]]:
    """The columns of each source that are not read as they are stored."""
    return {
        name: {n: c.reading(TYPES[c.type]) for n, c in job.columns_of(name).items() if not c.as_stored} for name in job.sources
    }


def _database(job: Job, base: Path) -> Source:
    """Tables of one database, under their own names there."""
    for name, columns in _readings(job).items():
        if columns:
            raise JobError(
                "format, missing and other are for files; of a database's column write it into the question: STRPTIME, NULLIF or CASE",
                place=f"columns.{next(iter(columns))}" if name else "",
            )
    addresses = {name: source.url if source.url is not None else str(base / (source.path or "")) for name, source in job.sources.items()}
    first = next(iter(addresses))
    for name, source in job.sources.items():
        if source.table != name:
            raise JobError(
                f"questions call a database's table by its own name; call this source {source.table}", place=f"sources.{name}.table"
            )
        if addresses[name] != addresses[first]:
            raise JobError("all tables must be in one database, which answers each question in one statement", place=f"sources.{name}")
    public = sorted(_public(job))
    return _read(lambda: Source.of(addresses[first], name=first, table=list(addresses), public=public), f"sources.{first}")


T = TypeVar("T")


def _read(work: Callable[[], T], place: str) -> T:
    """The result of opening something. What the package itself says is public; the words of a reader or a server may quote a row."""
    words = "it cannot be opened with the declared columns; check the path or url, the table and the types"
    try:
        return work()
    except TableError as error:
        found = in_job(error, place)
    except Exception as error:
        found = JobError(f"{words} ({type(error).__name__})", place=place)
    raise found


def matched(job: Job, engine: Engine, names: Sequence[str] | None = None) -> None:
    """Refuse a table that lacks a declared column or has it in another type: a public property, known without reading a row."""
    for name in job.sources if names is None else names:
        found: dict[str, str] | None = None
        try:
            found = engine.columns(exp.to_table(name, quoted=True))
        except Exception:
            found = None
        if found is None:
            raise JobError("the engine cannot open this table; check path, url and table", place=f"sources.{name}")
        for column, spec in job.columns_of(name).items():
            if column not in found:
                raise JobError(f"table {name!r} has no such column; the job and the data have drifted apart", place=f"columns.{column}")
            if kind_of(found[column]) not in _FITS.get(spec.type, (spec.type,)):
                raise JobError(
                    f"is declared as {spec.type}, but table {name!r} has {found[column]}; correct type, or the data",
                    place=f"columns.{column}",
                )
