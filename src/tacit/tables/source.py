"""Where the data is: a file, a frame, a database table or a Spark table becomes an engine, the names of its tables, and an identity.

Nothing is read from rows to say what a table looks like. Parquet, frames and databases carry their types; a CSV file carries names only, so
its columns are texts unless `types` declares them, and what cannot be read as its type is NULL. (Sniffing types would make the shape of
the answer depend on single rows.) The ledger knows a table by its address or its bytes, and by its rows: a copy in another format, a
view, a link or a data frame of the same rows buys no second budget. `Known` says how, and what that costs.

>>> import pyarrow as pa
>>> source = Source.of(pa.table({"id": [1, 2], "age": [31, 40]}), name="visits")
>>> source.columns("visits")
{'id': 'BIGINT', 'age': 'BIGINT'}
>>> source.identity().kind
'table'
"""

from __future__ import annotations

import csv
import glob
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tacit.ledger import DataIdentity
from tacit.tables.engines.duckdb import RAW, DuckDB
from tacit.tables.engines.engine import Engine
from tacit.tables.errors import TableError
from tacit.tables.reading import ColumnReading, Transcoded, encoding_of

#: How files are told apart: by the end of their names.
PARQUET = (".parquet", ".pq", ".parq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
DUCKDB = (".duckdb", ".ddb", ".db")


@dataclass(frozen=True)
class Known:
    """What the ledger knows one private table by. `first` is quick to find; `rest` reads all rows, in their engine.

    The rows are read when the book does not know all of `first`, together with a mark that they were read: once for
    each new file, or each new state of a database file. What is found goes to the ledger alone, which keeps it under
    a secret; that it is known there already is told only to those who may open accounts.
    """

    first: Callable[[], tuple[DataIdentity, ...]]
    rest: Callable[[], tuple[DataIdentity, ...]] = tuple

    def found(self, known: Callable[[DataIdentity], bool] | None) -> tuple[DataIdentity, ...]:
        """All of it, or only what is quick where the book has the rest already."""
        first = self.first()
        mark = DataIdentity("read", _joined(list(first)).digest)
        if known is not None and all(known(one) for one in (*first, mark)):
            return first
        return (*first, *self.rest(), mark)


@dataclass(frozen=True)
class Source:
    """An engine with named tables. `public` names the tables that hold no people; all others are private.

    `identities()` is what the ledger knows the private tables by; see `Known`. `folder` is where files that rows name
    lie, such as pictures, where that is known.
    """

    engine: Engine
    tables: tuple[str, ...]
    public: frozenset[str] = frozenset()
    known: tuple[Known, ...] = field(
        default=(Known(lambda: (DataIdentity.declared("data"),)),), repr=False, compare=False
    )
    folder: Path | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(
        data: Any,
        *,
        name: str = "data",
        table: str | Sequence[str] | None = None,
        public: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        delimiter: str | None = None,
    ) -> Source:
        """The source for one table of almost any kind, or for several tables of one database.

        - a path or glob of CSV or Parquet files; `types` declares the columns of a CSV file;
        - an Arrow table, a pandas or polars frame, or a mapping of columns;
        - a DuckDB file and its `table`; an open DuckDB connection and its `table` (or `name`), or a relation of one,
          whose rows are copied as they are now; a postgresql:// address and its `table`;
        - a Spark Connect server, sc://host:15002, and its `table`;
        - a Spark data frame, or a Spark session and its `table`;
        - an engine, for one that you have made yourself.

        `table` may be a list of tables of one database, of which `public` names those that hold no people.
        """
        if isinstance(data, Source):
            return data
        if not isinstance(name, str) or not name:
            raise TableError("name must be what questions call the table, such as 'visits'")
        tables = () if table is None else (table,) if isinstance(table, str) else tuple(table)
        if set(public) - set(tables) or (tables and not set(tables) - set(public)):
            raise TableError("public must name some of the tables given as table=[...], and at least one table must be private")
        if isinstance(data, (str, os.PathLike)):
            return _addressed(os.fspath(data), name, tables, frozenset(public), dict(types or {}), delimiter)
        if types:
            raise TableError("types are declared for CSV files only; this source has types of its own")
        if hasattr(data, "run") and hasattr(data, "dialect"):
            names = tables or (name,)
            if len(names) == 1:
                return Source(data, names, frozenset(public), (_declared(name),))
            return Source(data, names, frozenset(public), tuple(_declared(f"{name}.{t}") for t in names if t not in public))
        if type(data).__module__.startswith("pyspark."):
            return _spark(data, name, tables, frozenset(public))
        if _is_connection(data):
            return _of_connection(data, name, tables, frozenset(public))
        return _framed(data, name)

    @staticmethod
    def several(
        tables: Mapping[str, Any],
        *,
        public: Sequence[str] = (),
        types: Mapping[str, Mapping[str, str]] | None = None,
        delimiters: Mapping[str, str] | None = None,
        readings: Mapping[str, Mapping[str, ColumnReading]] | None = None,
        encodings: Mapping[str, str] | None = None,
    ) -> Source:
        """Several files or frames under their names, in one DuckDB; `public` names those that hold no people.

        `readings` say how columns are read that are not stored as they are meant (`tacit.tables.reading`), `encodings` what a CSV
        file is written in.

        >>> import pyarrow as pa
        >>> both = Source.several({"visits": {"id": [1], "region": ["N"]}, "regions": {"region": ["N"], "size": [3]}}, public=["regions"])
        >>> both.tables, sorted(both.public)
        (('visits', 'regions'), ['regions'])
        """
        unknown = sorted(set(public) - set(tables))
        if unknown:
            raise TableError(f"public names {unknown[0]!r}, which is none of the tables {', '.join(tables)}")
        if not set(tables) - set(public):
            raise TableError("at least one table must be private; data without people needs no privacy")
        engine, identities, files = DuckDB(), list[Known](), list[str]()
        for name, data in tables.items():
            if isinstance(data, (str, os.PathLike)):
                found, mark = _files(os.fspath(data)), (delimiters or {}).get(name)
                written = (encodings or {}).get(name, "utf-8")
                files += _read(engine, name, found, dict((types or {}).get(name, {})), mark, (readings or {}).get(name), written)
                identity = _of_files(found, mark, written)
            else:
                identity = _register(engine, name, data, (readings or {}).get(name))
            if name not in public:
                identities.append(identity)
        if files:
            engine.only(files)
        return Source(engine, tuple(tables), frozenset(public), tuple(identities))

    def identities(self, known: Callable[[DataIdentity], bool] | None = None) -> tuple[DataIdentity, ...]:
        """What the ledger knows the private tables by: one that is asked about beside another still has its own budget's account.

        `known` says what a book has already (`Ledger.knows`); without it, everything is found.
        """
        return tuple(dict.fromkeys(one for table in self.known for one in table.found(known)))

    def fingerprints(self) -> tuple[DataIdentity, ...]:
        """One identity for each private table, from which other rows in its place can be told; of a server's table, its address."""
        return tuple(_joined(list(table.first())) for table in self.known)

    def identity(self) -> DataIdentity:
        """One identity for all of them."""
        return _joined(list(self.fingerprints()))

    def close(self) -> None:
        """Let go of files and connections."""
        close = getattr(self.engine, "close", None)
        if close is not None:
            close()

    def columns(self, table: str) -> dict[str, str]:
        """Names and types of a table's columns, from its declaration and never from rows."""
        if table not in self.tables:
            raise TableError(f"there is no table {table!r}; there are {', '.join(self.tables)}")
        return self.engine.columns(exp.to_table(table, quoted=True) if "." not in table else exp.to_table(table))

    def check(self, table: str, columns: Sequence[str]) -> None:
        """Refuse a column that a table does not have, with the names it has."""
        known = self.columns(table)
        for column in columns:
            if column not in known:
                near = next((name for name in known if name.casefold() == column.casefold()), None)
                hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(known)}"
                raise TableError(f"table {table!r} has no column {column!r}{hint}")


# ---- addresses -----------------------------------------------------------------------------------------------------------------------


def _addressed(
    address: str, name: str, tables: tuple[str, ...], public: frozenset[str], types: dict[str, str], delimiter: str | None
) -> Source:
    scheme = address.partition("://")[0].partition("+")[0] if "://" in address else ""
    if scheme in ("postgresql", "postgres"):
        from tacit.tables.engines.postgres import Postgres

        if not tables:
            raise TableError("a database has many tables: Source.of('postgresql://...', table='visits')")
        server = Postgres(address)
        return Source(server, tables, public, _of_tables(address, tables, public, _of_server(server)))
    if scheme == "sc":
        from tacit.tables.engines.spark import Spark

        if not tables:
            raise TableError("a Spark server has many tables: Source.of('sc://host:15002', table='visits')")
        cluster = Spark(connect=address)
        return Source(cluster, tables, public, _of_tables(address, tables, public, _of_content(cluster)))
    if scheme and scheme != "file":
        raise TableError(f"{scheme}:// is not supported; use a path, postgresql://, sc:// for Spark Connect, or hand in an engine")
    path = address.removeprefix("file://")
    if path.lower().endswith(DUCKDB):
        if not tables:
            raise TableError("a DuckDB file has many tables: Source.of('book.duckdb', table='visits')")
        engine = DuckDB(path)
        known = engine.tables()
        for table in tables:
            if table not in known:
                raise TableError(f"{path!r} has no table {table!r}; it has {', '.join(known) or 'none'}")
        for table in tables:
            engine.bases(table)  # refuses a view that reads what was not named
        return Source(engine, tables, public, tuple(_of_database(engine, path, t) for t in tables if t not in public))
    files, engine = _files(path), DuckDB()
    engine.only(_read(engine, name, files, types, delimiter))
    return Source(engine, (name,), frozenset(), (_of_files(files, delimiter),))


def _files(path: str) -> list[str]:
    """The files of a path or a glob, as they are now; a glob is not looked at again, so that data do not grow under a budget."""
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else [path]
    for file in found:
        if not os.path.isfile(file):
            raise TableError(f"there is no file {file!r}; check the path (a directory is read as {os.path.join(file, '*.parquet')!r})")
    if not found:
        raise TableError(f"no file matches {path!r}")
    return [os.path.abspath(file) for file in found]


def _read(
    engine: DuckDB, name: str, files: list[str], types: dict[str, str], delimiter: str | None,
    readings: Mapping[str, ColumnReading] | None = None, encoding: str = "utf-8",
) -> list[str]:
    """Make files readable under a name; what the engine has to open for it: the files, or copies of them in UTF-8."""
    ends = {end for file in files for end in (*PARQUET, *CSV) if file.lower().endswith(end)}
    if ends and ends <= set(PARQUET):
        if types:
            raise TableError("types are declared for CSV files only; a Parquet file has types of its own")
        if encoding not in ("utf-8", "marked"):
            raise TableError("encoding belongs to a CSV file; the texts of a Parquet file are UTF-8")
        engine.parquet(name, files, readings)
    elif ends and ends <= set(CSV):
        mark = delimiter or ("\t" if any(".tsv" in end for end in ends) else ",")
        if encoding == "marked" or encoding_of(encoding) != "utf-8":
            copies = [Transcoded(file, encoding) for file in files]
            for copy in copies:
                engine.hold(copy)
            files = [copy.path for copy in copies]
        names = _header(files, mark)
        other = next((one for one in ";\t|" if delimiter is None and len(names) == 1 and one in names[0]), None)
        if other is not None:
            # Not the line itself, which may be a row.
            raise TableError(
                f"the first line of {os.path.basename(files[0])!r} has no {mark!r} in it but {other!r}, so that is what "
                f"separates its columns; say delimiter={other!r}: Source.of(path, name={name!r}, delimiter={other!r}) "
                "for a session, delimiter under sources in a job"
            )
        unknown = sorted(set(types) - set(names))
        if unknown:
            # Where none of the names is there, the first line may be a row, which is not shown.
            header = bool(set(types) & set(names))
            seen = f"its header has {', '.join(names)}" if header else f"its first line must be a header, with {mark!r} between"
            raise TableError(f"types names {unknown[0]!r}, which is no column of the file; {seen}")
        engine.csv(name, files, names, types, delimiter=mark, readings=readings)
    else:
        raise TableError(f"{files[0]!r} is neither CSV nor Parquet by its name; known ends are {', '.join((*CSV, *PARQUET, *DUCKDB))}")
    return files


def _header(files: list[str], delimiter: str) -> list[str]:
    """The names in the first line, which must be the same in all files."""
    import gzip

    if len(delimiter) != 1:
        raise TableError(f"delimiter must be one character, such as ';', not {delimiter!r}")
    headers = []
    for file in files:
        with gzip.open(file, "rb") if file.endswith(".gz") else open(file, "rb") as stream:
            lines = (line.decode("utf-8-sig" if number == 0 else "utf-8", "replace") for number, line in enumerate(stream))
            headers.append(next(csv.reader(lines, delimiter=delimiter), []))
    names = headers[0]
    if not names or len({name.casefold() for name in names}) != len(names) or not all(names):
        # Not the line itself: where the header is missing, it is a row.
        raise TableError("the first line of a CSV file must be its header: a different name, not empty, for every column")
    if any(header != names for header in headers):
        raise TableError("the CSV files have different headers; give files of one table")
    return names


# ---- frames and sessions -------------------------------------------------------------------------------------------------------------


def _framed(data: Any, name: str) -> Source:
    engine = DuckDB()
    return Source(engine, (name,), frozenset(), (_register(engine, name, data),))


def _is_connection(data: Any) -> bool:
    return type(data).__name__ == "DuckDBPyConnection"


def _of_connection(data: Any, name: str, tables: tuple[str, ...], public: frozenset[str]) -> Source:
    """Tables of a connection that the caller holds: copied as they are now, because it can change and is not ours to lock down."""
    engine, identities = DuckDB(), list[Known]()
    for table in tables or (name,):
        try:
            relation = data.table(table)
        except Exception:
            raise TableError(
                f"the connection has no table {table!r}; name one of its tables: Source.of(connection, table='visits')"
            ) from None
        known = _register(engine, table, relation)
        if table not in public:
            identities.append(known)
    return Source(engine, tables or (name,), public, tuple(identities))


def _register(engine: DuckDB, name: str, data: Any, readings: Mapping[str, ColumnReading] | None = None) -> Known:
    if isinstance(data, Mapping):
        made: pa.Table | None = None
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            made = pa.table(dict(data))
        if made is None:  # outside of the handler: what Arrow says shows the values
            raise TableError("a mapping is read as columns of one table, each a list of values of one type; give one table")
        data = made
    if type(data).__name__ == "DuckDBPyRelation":
        data = data.to_arrow_table()
    known = isinstance(data, (pa.Table, pa.RecordBatch)) or type(data).__module__.partition(".")[0] in ("pandas", "polars")
    if not known:
        raise TableError(
            f"a {type(data).__name__} cannot be a source; give a path, an Arrow table, a pandas or polars frame, a DuckDB "
            "connection or relation, an address or an engine"
        )
    engine.register(name, data, readings)
    stored = f"{RAW}{name}" if readings else name  # the rows as they are: what a job declares must not make other data of them
    return Known(lambda: (_content(engine, stored),), lambda: (_of_rows(engine, stored),))


def _spark(data: Any, name: str, tables: tuple[str, ...], public: frozenset[str]) -> Source:
    from tacit.tables.engines.spark import Spark

    if hasattr(data, "createOrReplaceTempView"):
        engine = Spark(data.sparkSession)
        engine.register(name, data)
        content = _of_content(engine)
        return Source(engine, (name,), frozenset(), (Known(lambda: (DataIdentity.declared(name), *content(name))),))
    if not tables:
        raise TableError("a Spark session has many tables: Source.of(session, table='visits')")
    cluster = Spark(data)
    return Source(cluster, tables, public, _of_tables("spark://catalog/tables", tables, public, _of_content(cluster)))


# ---- identities ----------------------------------------------------------------------------------------------------------------------


Rest = Callable[[str], tuple[DataIdentity, ...]]


def _declared(name: str) -> Known:
    return Known(lambda: (DataIdentity.declared(name),))


def _of_tables(address: str, tables: tuple[str, ...], public: frozenset[str], rest: Rest) -> tuple[Known, ...]:
    """Each private table of a server by its address and name, and by what the server itself says of it, each time."""

    def of(table: str) -> Known:
        return Known(lambda: (DataIdentity.source(address, table=table), *rest(table)))

    return tuple(of(table) for table in tables if table not in public)


def _of_server(server: Any) -> Rest:
    """The tables behind a name of a PostgreSQL server, by the server's own numbers for itself and for them."""
    return lambda table: tuple(DataIdentity("server", _hashed(one)) for one in server.relations(table))


def _of_content(engine: Any) -> Rest:
    """A Spark table by its rows."""
    return lambda table: (DataIdentity("spark", _hashed(engine.content(table))),)


def _of_database(engine: DuckDB, path: str, table: str) -> Known:
    """A table of a DuckDB file by its address and the state of the file; by its rows; and by those of the tables that it views."""
    address = Path(path).resolve()

    def first() -> tuple[DataIdentity, ...]:
        state = os.stat(address)
        stamp = DataIdentity("state", _hashed(f"{address}\n{table}\n{state.st_size}\n{state.st_mtime_ns}"))
        return DataIdentity.source(address.as_uri(), table=table), stamp

    def rest() -> tuple[DataIdentity, ...]:
        bases = [base for base in engine.bases(table) if base != table]
        addresses = [DataIdentity.source(address.as_uri(), table=base) for base in bases]
        return (*addresses, *(_content(engine, name, str(address)) for name in (table, *bases)))

    return Known(first, rest)


def _of_files(files: list[str], delimiter: str | None, encoding: str = "utf-8") -> Known:
    def content() -> tuple[DataIdentity, ...]:
        # Every column of a CSV file as the text it is: what a job declares must not make other data of it.
        engine = DuckDB()
        try:
            _read(engine, "data", files, {}, delimiter, encoding=encoding)
            return (_content(engine, "data", *files),)
        finally:
            engine.close()

    return Known(lambda: (_joined([DataIdentity.file(file) for file in files]),), content)


def _content(engine: DuckDB, table: str, *place: str) -> DataIdentity:
    """A table by its rows, whatever its format. Where there are none there is nothing to recognise, and its place is taken."""
    content, rows = engine.content(table)
    return DataIdentity("table", _hashed(content if rows else repr((content, table, place))))


def _hashed(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _joined(parts: list[DataIdentity]) -> DataIdentity:
    """One identity for several, in any order."""
    if len(parts) == 1:
        return parts[0]
    return DataIdentity("content", hashlib.sha256(b"".join(sorted(part.digest for part in parts))).digest())


def _of_rows(engine: DuckDB, name: str) -> DataIdentity:
    """A frame by its rows as earlier versions knew it, so that an account in an old book is still found."""
    columns = sorted(engine.columns(exp.to_table(name, quoted=True)))
    text = exp.Anonymous(this="row", expressions=[exp.column(column, quoted=True) for column in columns])
    number = exp.Anonymous(this="md5_number_lower", expressions=[exp.cast(text, "TEXT")])
    sums = [exp.alias_(exp.func("SUM", number), "a"), exp.alias_(exp.Anonymous(this="bit_xor", expressions=[number.copy()]), "b")]
    found = engine.run(exp.Select(expressions=[*sums, exp.alias_(exp.Count(this=exp.Star()), "n")]).from_(exp.to_table(name, quoted=True)))
    values = [str(value) for value in found.to_pylist()[0].values()]
    content = repr((columns, values) if values[-1] != "0" else (columns, values, name))
    return DataIdentity("rows", hashlib.sha256(b"rows\0" + content.encode()).digest())
