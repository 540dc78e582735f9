"""DuckDB, embedded: the default engine. Files and data frames are read in place.

A database file is opened read-only, no extension is downloaded, Python variables cannot be named in a statement, and instants are in UTC.

>>> import pyarrow as pa
>>> engine = DuckDB()
>>> engine.register("t", pa.table({"a": [1, 2, 3]}))
>>> from sqlglot import parse_one
>>> engine.run(parse_one("SELECT COUNT(*) AS n FROM t")).to_pydict()
{'n': [3]}
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from tacit.tables.engines.order import Words, portable_key
from tacit.tables.engines.total import never_failing
from tacit.tables.errors import EngineError, TableError

WORDS = Words(exp.DataType.Type.TEXT, "typeof", ("DOUBLE", "FLOAT"), ("TIMESTAMP WITH TIME ZONE",), "epoch_us")


class DuckDB:
    """A DuckDB connection, in memory or on a file that is opened read-only. `memory` is a limit such as '4GB'.

    >>> DuckDB(threads=1, memory="1GB").dialect
    'duckdb'
    """

    dialect = "duckdb"

    def __init__(
        self, path: str | os.PathLike[str] = ":memory:", *, threads: int | None = None, memory: str | None = None, portable: bool = False
    ) -> None:
        settings: dict[str, Any] = {"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}
        if threads is not None:
            settings["threads"] = threads
        if memory is not None:
            settings["memory_limit"] = memory
        self.portable = portable
        place = os.fspath(path)
        self._connection = _connected(place, settings)
        # DuckDB rounds a cast to whole numbers half to even; statements floor before they cast, so that no engine's habit matters.
        self._connection.execute("SET TimeZone = 'UTC'")
        self._lock = threading.Lock()

    def register(self, name: str, data: object) -> None:
        """Make an Arrow table or a data frame readable under a name; nothing is copied."""
        with self._lock:
            self._connection.register(name, data)

    def parquet(self, name: str, paths: Sequence[str]) -> None:
        """Make Parquet files, or globs of them, readable under a name. Their types are in their headers."""
        self._view(name, f"SELECT * FROM read_parquet({_list(paths)})")

    def csv(self, name: str, paths: Sequence[str], names: Sequence[str], types: Mapping[str, str], *, delimiter: str = ",") -> None:
        """Make CSV files readable under a name: every column is a text, cast to its declared type. Nothing is sniffed from rows."""
        columns = ", ".join(f"{_quoted(n)}: 'VARCHAR'" for n in names)
        # A bare cast would be pushed into the scan, which then drops a row that fails it; of a CASE only the value becomes NULL.
        whole = {n: f"CASE WHEN LENGTH({_name(n)}) >= 0 THEN {_name(n)} END" for n in names}
        casts = [f"TRY_CAST({whole[n]} AS {_type(n, types[n])}) AS {_name(n)}" if n in types else _name(n) for n in names]
        how = "auto_detect = false, header = true, quote = '\"', escape = '\"', nullstr = '', null_padding = true, ignore_errors = true"
        self._view(
            name, f"SELECT {', '.join(casts)} FROM read_csv({_list(paths)}, {how}, delim = {_quoted(delimiter)}, columns = {{{columns}}})"
        )

    def _view(self, name: str, query: str) -> None:
        made = False
        with self._lock, suppress(duckdb.Error):
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {_name(name)} AS {query}")
            made = True
        if not made:
            raise EngineError(f"DuckDB cannot read {name!r}: the file is missing, or not in the format its name says")

    def only(self, paths: Sequence[str]) -> None:
        """From now on no statement can open a file but these, and no setting can be changed."""
        with self._lock:
            self._connection.execute(f"SET allowed_paths = {_list(paths)}")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")

    def prepare(self, statement: exp.Expression) -> exp.Expression:
        """The statement in a form that no row can make fail."""
        return never_failing(statement)

    def run(self, statement: exp.Expression) -> pa.Table:
        text = self.prepare(statement).sql(dialect=self.dialect)
        found: pa.Table | None = None
        with self._lock, suppress(Exception):
            found = self._connection.sql(text).to_arrow_table()
        if found is None:
            # The engine's words may quote a row, so they stop here, and no exception is chained to this one.
            raise EngineError("DuckDB could not run the statement; session.explain(...) shows it")
        return found

    def columns(self, relation: exp.Expression) -> dict[str, str]:
        query = exp.Select(expressions=[exp.Star()]).from_(relation.copy(), copy=False)
        text = self.prepare(query).sql(dialect=self.dialect)
        rows: list[Any] | None = None
        with self._lock, suppress(duckdb.Error):
            rows = self._connection.execute(f"DESCRIBE {text}").fetchall()
        if rows is None:
            raise EngineError("DuckDB knows no such table or column; check the names")
        return {str(row[0]): str(row[1]) for row in rows}

    def tables(self) -> list[str]:
        """The names of all tables and views."""
        with self._lock:
            return [
                str(row[0]) for row in self._connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
            ]

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        if self.portable:
            return portable_key(salt, values, WORDS)
        return exp.Anonymous(this="hash", expressions=[exp.Literal.number(salt), *(value.copy() for value in values)])

    def is_nan(self, value: exp.Expression) -> exp.Expression:
        return exp.Anonymous(this="isnan", expressions=[exp.cast(value, "DOUBLE")])

    def close(self) -> None:
        """Let go of files and memory."""
        with self._lock:
            self._connection.close()


def _connected(place: str, settings: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    problem = ""
    if place != ":memory:" and not os.path.exists(place):
        raise TableError(f"there is no file {place!r}; check the path, or use DuckDB() for data in memory")
    try:
        return duckdb.connect(place, read_only=place != ":memory:", config=settings)
    except duckdb.Error:
        if place == ":memory:":
            problem = "threads must be a whole number above 0, and memory a size such as '4GB'"
        else:
            problem = (
                f"{place!r} cannot be opened as a DuckDB database for reading: another program is writing to it, or it is something else"
            )
    raise TableError(problem)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _list(paths: Sequence[str]) -> str:
    return f"[{', '.join(_quoted(path) for path in paths)}]"


def _type(column: str, given: str) -> str:
    """A declared type as DuckDB writes it; anything but the name of a type is refused."""
    known = re.fullmatch(r"[A-Za-z]+( [A-Za-z]+)*( ?\(\d+(, ?\d+)?\))?", given) is not None
    with suppress(Exception):
        found = exp.DataType.build(given, dialect="duckdb")
        if known and found.this != exp.DataType.Type.USERDEFINED:
            return found.sql(dialect="duckdb")
    raise TableError(f"types[{column!r}] is {given!r}, which is no type; write BIGINT, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP")
