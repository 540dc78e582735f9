"""DuckDB, embedded: the default engine. Files and data frames are read in place.

A database file is opened read-only, no extension is downloaded, Python variables cannot be named in a statement, and instants are in UTC.
What is public (names, types, public tables) is asked by a connection of its own, which waits for no statement about rows.

>>> import pyarrow as pa
>>> engine = DuckDB()
>>> engine.register("t", pa.table({"a": [1, 2, 3]}))
>>> from sqlglot import parse_one
>>> engine.run(parse_one("SELECT COUNT(*) AS n FROM t")).to_pydict()
{'n': [3]}

Statements are put into forms that DuckDB runs quickly, and in which no row can make one fail.

>>> from sqlglot import parse_one
>>> from tacit.tables.engines.engine import prepared
>>> prepared(parse_one("SELECT CAST(a AS BIGINT), LEAST(GREATEST(x, 0), CAST(1 AS DOUBLE)) FROM t"), quick).sql("duckdb")
'SELECT TRY_CAST(a AS BIGINT), CASE WHEN x BETWEEN 0 AND 1e0 THEN x WHEN x > 1e0 THEN 1e0 ELSE 0 END FROM t'
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from tacit.tables.engines.engine import (
    DECIMAL,
    INT64,
    KEPT,
    Packing,
    Words,
    collation_probe,
    constant,
    last_text,
    portable_key,
    prepared,
    refuse_collated,
    try_cast,
)
from tacit.tables.engines.types import COMPUTED, duckdb_type, kind_of
from tacit.tables.errors import EngineError, TableError
from tacit.tables.reading import ColumnReading, read_as

if TYPE_CHECKING:
    from tacit.tables.engines.views import Behind

#: Lists of public keys are kept as small tables of the connection, which spares planning them anew: so many, and none shorter than this.
LISTS, SHORTEST = 64, 8
#: What stands for the lists in the name of their tables.
LISTED = "tacit_keys_"
#: What stands before the name of a table whose columns are read in other ways than they are stored.
RAW = "tacit_raw_"
#: Types of whole numbers, as Arrow has them. So many lines of them come as Python's, and the rest as Arrow's.
WHOLE, FEW = {"BIGINT": INT64, "HUGEINT": DECIMAL, "DECIMAL(38,0)": DECIMAL}, 4096
#: DuckDB's own limit on how many lines ARG_MIN keeps.
MOST_KEPT = 10**6 - 1
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
        # A pandas column of objects is one of texts. DuckDB would look at rows to find a type, and one row would decide it.
        settings["pandas_analyze_sample"] = 0
        if threads is not None:
            settings["threads"] = threads
        if memory is not None:
            settings["memory_limit"] = memory
        self.portable = portable
        place = os.fspath(path)
        self._file = place != ":memory:"  # files and frames that are read in place have no collations
        self._connection = _connected(place, settings)
        # Types and names are asked beside the statement that runs: whoever had to wait for it would know how long the rows took.
        self._beside = self._connection.cursor()
        # DuckDB rounds a cast to whole numbers half to even; statements floor before they cast, so that no engine's habit matters.
        for connection in (self._connection, self._beside):
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")  # it would write to the standard output of whoever asks
        # The second is never held while the first is waited for.
        self._lock, self._beside_lock = threading.Lock(), threading.Lock()
        self._pending: dict[str, object] = {}
        self._lists: dict[str, str] = {}
        self._held: list[Any] = []
        self._types: dict[str, dict[str, str]] = {}
        self._scans: dict[str, exp.Expression] = {}

    def register(self, name: str, data: object, readings: Mapping[str, ColumnReading] | None = None) -> None:
        """Make an Arrow table or a data frame readable under a name; nothing is copied."""
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            _check(name, data)
        stored = f"{RAW}{name}" if readings else name
        with self._beside_lock:
            self._forget(name)
            self._beside.register(stored, data)
            self._pending[stored] = data
        # A statement that runs is not waited for: whatever comes after it registers the table first.
        if self._lock.acquire(blocking=False):
            try:
                self._catch_up()
            finally:
                self._lock.release()
        if readings:
            self._view(name, self._converted(_name(stored), readings))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The connection for rows, with every table that was registered while a statement ran."""
        with self._lock:
            self._catch_up()
            yield

    def _catch_up(self) -> None:
        while self._pending:
            with self._beside_lock:
                name = next(iter(self._pending), None)
                data = None if name is None else self._pending.pop(name)
            if name is not None:
                self._connection.register(name, data)

    def parquet(self, name: str, paths: Sequence[str], readings: Mapping[str, ColumnReading] | None = None) -> None:
        """Make Parquet files, or globs of them, readable under a name. Their types are in their headers."""
        scan = f"read_parquet({_list(paths)})"
        if readings:
            self._view(name, self._converted(scan, readings))
            return
        self._view(name, f"SELECT * FROM {scan}")
        files = exp.Array(expressions=[exp.Literal.string(path) for path in paths])
        self._scans[name] = exp.Anonymous(this="read_parquet", expressions=[files])

    def hold(self, what: Any) -> None:
        """Keep something, such as a copy of a file, until the engine is closed."""
        self._held.append(what)

    def _converted(self, scan: str, readings: Mapping[str, ColumnReading]) -> str:
        """A query of what is scanned, with columns read as declared. A format is for texts: what is stored as a date is one."""
        rows: list[Any] = []
        with self._beside_lock, suppress(duckdb.Error):
            rows = self._beside.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
        natives = {str(row[0]): str(row[1]) for row in rows}
        kinds = {name: kind_of(duckdb_type(native)) for name, native in natives.items()}
        for column, reading in readings.items():
            if (reading.formats or reading.marks is not None) and kinds.get(column, "text") != "text":
                raise TableError(f"{column!r} has a format, and is no text in the data; leave format out")
        chosen = [
            f"{readings[n].sql(_name(n), text=kind == 'text', stored=natives[n])} AS {_name(n)}" if n in readings else _name(n)
            for n, kind in kinds.items()
        ]
        return f"SELECT {', '.join(chosen) or '*'} FROM {scan}"

    def csv(
        self, name: str, paths: Sequence[str], names: Sequence[str], types: Mapping[str, str], *, delimiter: str = ",",
        readings: Mapping[str, ColumnReading] | None = None,
    ) -> None:
        """Make CSV files readable under a name: every column is a text, cast to its declared type. Nothing is sniffed from rows."""
        columns = ", ".join(f"{_quoted(n)}: 'VARCHAR'" for n in names)
        # A bare cast would be pushed into the scan, which then drops a row that fails it; of a CASE only the value becomes NULL.
        whole = {n: f"CASE WHEN LENGTH({_name(n)}) >= 0 THEN {_name(n)} END" for n in names}
        casts = [f"{read_as(whole[n], _type(n, types[n]))} AS {_name(n)}" if n in types else _name(n) for n in names]
        for place, column in enumerate(names):
            if column in (readings or {}):
                casts[place] = f"{(readings or {})[column].sql(whole[column])} AS {_name(column)}"
        how = "auto_detect = false, header = true, quote = '\"', escape = '\"', nullstr = '', null_padding = true, ignore_errors = true"
        # Several readers would start at places of their own, where a line break inside quotes looks like the end of a row: one person's
        # text would be read as rows of others. Strictly read, a stray quote loses all rows after it, and a stray line break is an error.
        how += ", parallel = false, strict_mode = false"
        self._view(
            name, f"SELECT {', '.join(casts)} FROM read_csv({_list(paths)}, {how}, delim = {_quoted(delimiter)}, columns = {{{columns}}})"
        )

    def _view(self, name: str, query: str) -> None:
        made = False
        with self._alone(), self._beside_lock, suppress(duckdb.Error):
            self._forget(name)
            for connection in (self._connection, self._beside):  # what is temporary is seen by its own connection alone
                connection.execute(f"CREATE OR REPLACE TEMP VIEW {_name(name)} AS {query}")
            made = True
        if not made:
            raise EngineError(f"DuckDB cannot read {name!r}: the file is missing, or not in the format its name says")

    def _forget(self, name: str) -> None:
        """What was known of a name that now means something else."""
        self._types.pop(name, None)
        self._scans.pop(name, None)

    def only(self, paths: Sequence[str]) -> None:
        """From now on no statement can open a file but these, and no setting can be changed."""
        with self._lock:
            self._connection.execute(f"SET allowed_paths = {_list(paths)}")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")

    def prepare(self, statement: exp.Expression) -> exp.Expression:
        """The statement in a form that no row can make fail."""
        return prepared(statement, quick)

    def run(self, statement: exp.Expression) -> pa.Table:
        text, lists = self._written(statement)
        kept = statement.meta.get(KEPT)
        found: pa.Table | None = None
        with self._alone(), suppress(Exception):
            self._list(lists)
            found = _fetched(self._connection, kept.parsed() if isinstance(kept, _Written) else text)
        if found is None:
            # The engine's words may quote a row, so they stop here, and no exception is chained to this one.
            raise EngineError(code="statement-failed", engine="DuckDB")
        return found

    def write(self, statement: exp.Expression) -> None:
        """Write the text of a statement ahead, and keep it with the statement: `run` has only to send it."""
        statement.meta.setdefault(KEPT, True)
        self._written(statement)

    def run_aside(self, statement: exp.Expression) -> pa.Table:
        """The result of a statement about public things, without waiting for one that runs."""
        text = self.prepare(statement).sql(dialect=self.dialect)
        found: pa.Table | None = None
        with self._beside_lock, suppress(Exception):
            found = _fetched(self._beside, text)
        if found is None:
            raise EngineError(code="statement-failed", engine="DuckDB")
        return found

    def _written(self, statement: exp.Expression) -> tuple[str, dict[str, str]]:
        """The text of a statement, with the lists of keys it names: each table's name and what it holds."""
        kept = statement.meta.get(KEPT)
        if isinstance(kept, _Written) and kept.engine is self:
            return kept.text, kept.lists
        tree, lists = self.prepare(statement), {}
        tree = tree.copy() if tree is statement else tree
        direct(tree, self._types, self._scans)
        for values in list(tree.find_all(exp.Values)):
            if len(values.expressions) >= SHORTEST and values.alias and all(map(_typed, zip(*values.expressions, strict=True))):
                content = values.sql(dialect=self.dialect)
                name = LISTED + hashlib.sha256(content.encode()).hexdigest()[:24]
                lists[name] = content
                alias = exp.TableAlias(this=exp.to_identifier(values.alias, quoted=True))
                values.replace(exp.Table(this=exp.to_identifier(name, quoted=True), alias=alias))
        text = last_text(tree, self.dialect)
        if kept is not None:
            statement.meta[KEPT] = _Written(self, text, lists)
        return text, lists

    def _list(self, lists: Mapping[str, str]) -> None:
        for name, content in lists.items():
            if name not in self._lists:
                self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_name(name)} AS SELECT * FROM {content}")
            self._lists[name] = self._lists.pop(name, content)  # the latest is the last
        for name in list(self._lists)[: max(0, len(self._lists) - max(LISTS, len(lists)))]:
            self._connection.execute(f"DROP TABLE IF EXISTS temp.{_name(name)}")
            del self._lists[name]

    def columns(self, relation: exp.Expression) -> dict[str, str]:
        query = exp.Select(expressions=[exp.Star()]).from_(relation.copy(), copy=False)
        text = self.prepare(query).sql(dialect=self.dialect)
        found = dict[str, str]()
        with self._beside_lock, suppress(duckdb.Error):
            bound = self._beside.sql(text)  # it is bound and not run; DESCRIBE would be run, and ask for the interpreter's lock five times
            found = {name: duckdb_type(str(kind)) for name, kind in zip(bound.columns, bound.types, strict=True)}
        if not found:
            raise EngineError("DuckDB knows no such table or column; check the names")
        # A name by which files are read here stands before any of the database's, so what the database defines need not be asked for.
        named = isinstance(relation, exp.Table) and relation.name not in self._scans
        made = self._definitions() if named else {}
        if isinstance(relation, exp.Table) and relation.name.casefold() in made:
            from tacit.tables.engines.views import may_fail

            found |= dict.fromkeys(may_fail(relation, lambda table: self._behind(table, made)), COMPUTED)
        texts = [name for name, kind in found.items() if kind == "VARCHAR"]
        if self._file and texts and isinstance(relation, exp.Table):
            alike = self.run_aside(collation_probe(relation, texts)).to_pylist()[0]
            refuse_collated([name for name in texts if alike[name]], relation.name)
        if isinstance(relation, exp.Table) and relation.args.get("db") is None and isinstance(relation.this, exp.Identifier):
            self._types[relation.name] = found
        return dict(found)

    def tables(self) -> list[str]:
        """The names of all tables and views."""
        with self._beside_lock:
            rows = self._beside.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
        return [str(row[0]) for row in rows if not str(row[0]).startswith(LISTED)]

    def content(self, table: str) -> tuple[str, int]:
        """A digest of all rows, and their number: the same for the same rows in any order, any format, any types that hold them.

        It is of private data: only the ledger may have it, which keeps it under a secret.
        """
        columns = sorted(self._described(table), key=lambda name: (name.casefold(), name))
        texts = ", ".join(f"lower(trim(CAST({_name(name)} AS VARCHAR))) AS u{i}" for i, name in enumerate(columns))
        numbers = ", ".join(f"u{i}, TRY_CAST(u{i} AS DOUBLE) AS d{i}" for i in range(len(columns)))
        cells = ", ".join(_CELL.format(u=f"u{i}", d=f"d{i}") for i in range(len(columns)))
        # Three layers, each with its own columns: as one expression DuckDB takes seconds to plan it for twenty columns.
        text = (
            "SELECT CAST(SUM(k) AS VARCHAR), CAST(bit_xor(k) AS VARCHAR), COUNT(*) "
            f"FROM (SELECT md5_number_lower(concat_ws(chr(31), {cells})) AS k "
            f"FROM (SELECT {numbers} FROM (SELECT {texts} FROM {_name(table)})))"
        )
        found: tuple[Any, ...] | None = None
        with self._alone(), suppress(duckdb.Error):
            found = self._connection.execute(text).fetchone()
        if found is None:
            raise EngineError(code="statement-failed", engine="DuckDB")
        return repr(([name.casefold() for name in columns], found)), int(found[2])

    def kinds(self, table: str) -> dict[str, str]:
        """The kind of every column, as it is stored."""
        return {name: kind_of(found) for name, found in self.columns(exp.to_table(table, quoted=True)).items()}

    def looked_at(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query in DuckDB's own words. They are the data's own: only for the eyes of the curator, who has them anyway."""
        found: list[tuple[Any, ...]] | None = None
        with self._alone(), suppress(duckdb.Error):
            found = self._connection.execute(text).fetchall()
        if found is None:
            raise EngineError(code="statement-failed", engine="DuckDB")
        return found

    def _described(self, table: str) -> dict[str, str]:
        rows: list[Any] | None = None
        with self._beside_lock, suppress(duckdb.Error):
            rows = self._beside.execute(f"DESCRIBE SELECT * FROM {_name(table)}").fetchall()
        if rows is None:
            raise EngineError("DuckDB knows no such table or column; check the names")
        return {str(row[0]): duckdb_type(str(row[1])) for row in rows}

    def _definitions(self) -> dict[str, str]:
        """The views of a database, and the tables with generated columns, in small letters; not those by which files are read here, whose
        columns cannot fail."""
        views = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal AND NOT temporary"
        tables = "SELECT table_name, sql FROM duckdb_tables() WHERE NOT internal AND NOT temporary AND contains(upper(sql), 'GENERATED')"
        with self._beside_lock:
            rows = self._beside.execute(f"{views} UNION ALL {tables}").fetchall()
        return {str(name).casefold(): str(text) for name, text in rows}

    def _behind(self, table: exp.Table, definitions: dict[str, str]) -> Behind:
        """What a name stands for. Generated columns are computed as they are read: an UPDATE puts in what an INSERT would refuse."""
        from tacit.tables.engines.views import Behind, query_of

        types, text = self._described(table.name), definitions.get(table.name.casefold())
        if text is None:
            return Behind(types)
        made = query_of(text, self.dialect)
        if not isinstance(made, exp.Create):
            return Behind(types, exp.Anonymous(this="unread"))
        named = made.this.expressions if isinstance(made.this, exp.Schema) else []
        if made.kind == "TABLE":
            columns = [column for column in named if isinstance(column, exp.ColumnDef)]
            found = ((column, column.find(exp.GeneratedAsIdentityColumnConstraint)) for column in columns)
            return Behind(types, generated={column.name: how.expression or exp.null() for column, how in found if how is not None})
        return Behind(types, made.expression, renamed=tuple(column.name for column in named))

    def bases(self, table: str) -> list[str]:
        """The tables that a view is made of, through other views; of a table, itself. One that reads anything else is refused."""
        with self._beside_lock:
            views = dict(self._beside.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall())
        found, open_ = dict[str, None](), [table]
        known = {name.casefold(): name for name in self.tables()}
        while open_:
            name = known.get(open_.pop().casefold(), "")
            if name in found:
                continue
            if name not in views:
                found[name] = None
                continue
            found[name] = None
            for reads in _read_by(str(views[name])):
                if reads.casefold() not in known:
                    raise TableError(code="view-reads-files", table=table)
                open_.append(reads)
        return [name for name in found if name not in views]

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        if self.portable:
            return portable_key(salt, values, WORDS)
        mixed = exp.Anonymous(this="hash", expressions=[exp.Literal.number(salt), *(value.copy() for value in values)])
        # Once is not even: of three groups it takes one half of the time, because hashes of several values are put together too simply.
        return exp.Anonymous(this="hash", expressions=[mixed])

    def drawn(self, rows: exp.Select, partition: Sequence[str], most: int, counted: str | None) -> exp.Select:
        """At most `most` lines of each partition, every choice of lines alike; with `counted`, one line of each says how many there were.

        A window over the lines costs the same, but cannot count them on the way.
        """
        values = [p.alias_or_name for p in rows.selects if p.alias_or_name not in partition]
        fields = [exp.PropertyEQ(this=exp.to_identifier(n, quoted=True), expression=_column(n)) for n in values]
        # ARG_MIN passes over lines whose value is NULL. A packed word never is; anything else is put into a structure, which is slower.
        alone = values == [Packing({}).name(0)]
        line = _column(values[0]) if alone else exp.Struct(expressions=fields)
        keys = [_column(name) for name in partition]
        one = most == 1 and counted is None  # no lists then: a third less time and memory
        drawn = exp.ArgMin(this=line, expression=exp.Rand()) if one else _chosen(line, most)
        chosen: list[Any] = [*keys, exp.alias_(drawn, "line_" if one else "lines_", quoted=True)]
        chosen += [] if counted is None else [exp.alias_(exp.Count(this=exp.Star()), counted, quoted=True)]
        lines = _selected(chosen, rows, "drawn_")
        lines.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        if not one:
            apart: list[Any] = [key.copy() for key in keys]
            apart.append(exp.alias_(_unnested(_column("lines_")), "line_", quoted=True))
            # Of two lists of different lengths the shorter is filled up with NULL: the number stands on one line.
            apart += [] if counted is None else [exp.alias_(_unnested(exp.array(_column(counted))), counted, quoted=True)]
            lines = _selected(apart, lines, "lists_")
        found: list[Any] = [key.copy() for key in keys]
        for name in values:
            part = exp.Anonymous(this="struct_extract", expressions=[_column("line_"), exp.Literal.string(name)])
            found.append(exp.alias_(_column("line_") if alone else part, name, quoted=True))
        return _selected([*found, *([] if counted is None else [_column(counted)])], lines, "lines_")

    def is_nan(self, value: exp.Expression) -> exp.Expression:
        return exp.Anonymous(this="isnan", expressions=[exp.cast(value, "DOUBLE")])

    def close(self) -> None:
        """Let go of files and memory."""
        with self._lock, self._beside_lock:
            self._beside.close()
            self._connection.close()
        for held in self._held:
            held.close()


class _Written:
    """The text of a statement on one engine, kept with the statement; read by DuckDB once, and bound to the data at every run."""

    def __init__(self, engine: DuckDB, text: str, lists: dict[str, str]) -> None:
        self.engine, self.text, self.lists = engine, text, lists
        self._parsed: Any = None

    def parsed(self) -> Any:
        """What DuckDB made of the text; to read it again would take longer than to add up a hundred thousand rows."""
        if self._parsed is None:
            (self._parsed,) = self.engine._connection.extract_statements(self.text)
        return self._parsed

    def __deepcopy__(self, memory: object) -> bool:
        """A copy of a statement may be changed, so it has no text yet."""
        return True


#: What a value is whatever its type: a number with the digits that a float keeps, an instant without what is zero, a text in small letters.
_CELL = (
    "CASE WHEN {u} IS NULL OR {u} IN ('', 'na', 'n/a', '#n/a', '<na>', 'nan', '-nan', 'nat', 'null', 'none') THEN '' "
    "WHEN {d} IS NOT NULL AND abs({d}) < 9007199254740992 AND {d} = floor({d}) "
    "THEN CAST(TRY_CAST({d} AS BIGINT) AS VARCHAR) "
    "WHEN {d} IS NOT NULL THEN COALESCE(CAST(TRY_CAST({d} AS FLOAT) AS VARCHAR), {u}) "
    "WHEN regexp_matches({u}, '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ t][0-9]{{2}}:') THEN "
    "regexp_replace(regexp_replace(regexp_replace(replace({u}, 't', ' '), '(z|[+]00(:?00)?)$', ''), "
    "'([.][0-9]*?)0+$', '\\1'), '( 00:00(:00)?)?[.]?$', '') "
    "ELSE {u} END"
)


def _read_by(view: str) -> list[str]:
    """The names of what a view reads; a function or a file that it reads is a name that no table has."""
    tree = sqlglot.parse_one(view, dialect="duckdb")
    own = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    query = tree.expression if isinstance(tree, exp.Create) else tree
    found = []
    for table in query.find_all(exp.Table):
        name = table.name if isinstance(table.this, exp.Identifier) else f"{table.sql()}()"
        if name.casefold() not in own:
            found.append(name)
    return found


def _fetched(connection: duckdb.DuckDBPyConnection, text: Any) -> pa.Table:
    """The result of one statement, a text or what DuckDB has read from one.

    It is bound once; a relation would be bound twice, which costs as much as a small answer. The first lines come as Python's numbers
    where they are whole: DuckDB makes Arrow of a result by another statement, and for each step of one it waits for the interpreter.
    """
    answer = connection.execute(text)
    named = [(str(column[0]), WHOLE.get(str(column[1]))) for column in answer.description or ()]
    few: pa.Table | None = None
    if named and all(kind is not None for _, kind in named):
        lines = answer.fetchmany(FEW)
        columns = list(zip(*lines, strict=True)) if lines else [()] * len(named)
        arrays = [_numbers(values, kind) for values, (_, kind) in zip(columns, named, strict=True)]
        few = pa.Table.from_arrays(arrays, [name for name, _ in named])
        if len(lines) < FEW:
            return few
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the rows are copied once more: they are few
        fetch: Any = getattr(answer, "to_arrow_table", None) or getattr(answer, "fetch_arrow_table", None)  # the older name
        table: pa.Table = fetch()
    return table if few is None else pa.concat_tables([few, table])


def _numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Whole numbers as DuckDB's own Arrow has them, those of 39 digits too, which Arrow would refuse to make a decimal of.

    Written as Arrow holds them, because `pyarrow.array` loads pandas to see whether that is what it was given.
    """
    size = kind.bit_width // 8
    held = b"".join(int(value or 0).to_bytes(size, "little", signed=True) for value in values)
    there: pa.Buffer | None = None
    if None in values:  # one bit of each, the first one lowest, says what is there
        bits = int("".join("0" if value is None else "1" for value in reversed(values)), 2)
        there = pa.py_buffer(bits.to_bytes((len(values) + 7) // 8, "little"))
    return pa.Array.from_buffers(kind, len(values), [there, pa.py_buffer(held)])


def _chosen(line: exp.Expression, most: int) -> exp.Expression:
    """A list of lines chosen at random."""
    if most <= MOST_KEPT:
        return exp.ArgMin(this=line, expression=exp.Rand(), count=exp.Literal.number(most))
    shuffled = exp.ArrayAgg(this=exp.Order(this=line, expressions=[exp.Ordered(this=exp.Rand())]))
    return exp.Anonymous(this="list_slice", expressions=[shuffled, exp.Literal.number(1), exp.Literal.number(most)])


def _unnested(values: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this="unnest", expressions=[values])


def _typed(column: Sequence[exp.Expression]) -> bool:
    """Whether a column of a list has a type of its own: one of nothing but NULLs would become a column of numbers."""
    return any(not isinstance(value, exp.Null) for value in column)


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _selected(chosen: Sequence[exp.Expression], rows: exp.Select, name: str) -> exp.Select:
    inner = exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return exp.Select(expressions=list(chosen)).from_(inner, copy=False)


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


def _check(name: str, data: pa.Table | pa.RecordBatch) -> None:
    """Refuse a table with texts that are none. DuckDB takes them as they are: a byte that no text has ends a text where rows are put in an
    order, and what then lies in place of a bounded number is added up."""
    valid = False
    with suppress(pa.ArrowInvalid):
        data.validate(full=True)
        valid = True
    if not valid:
        raise TableError(
            f"the Arrow table {name!r} is not valid: a text of it is not UTF-8, or its parts do not fit together (validate(full=True) says "
            "where); mend it, or cast such columns to binary"
        )


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


# --- forms that DuckDB runs quickly -------------------------------------------------------------------------


def quick(node: exp.Expression) -> exp.Expression:
    """Casts that do not fail, and bounds as comparisons: DuckDB's LEAST and GREATEST take five times as long.

    NULL and NaN end where the functions take them: at the lower bound, and at the upper.
    """
    if isinstance(node, exp.Least) and isinstance(node.this, exp.Greatest) and len(node.expressions) == len(node.this.expressions) == 1:
        value, low, high = node.this.this, node.this.expressions[0], node.expressions[0]
        inner = value.this if isinstance(value, exp.Cast) else value
        if isinstance(inner, exp.Column) and constant(low) and constant(high):
            # Most values lie within their bounds, so that is asked first.
            inside = exp.If(this=exp.Between(this=value.copy(), low=low.copy(), high=high.copy()), true=value.copy())
            above = exp.If(this=exp.GT(this=value.copy(), expression=high.copy()), true=high.copy())
            clamped = exp.Case(ifs=[inside, above], default=low.copy())
            clamped.meta[_CLAMPED] = inner
            return clamped
    if isinstance(node, exp.Case) and len(node.args["ifs"]) == 1 and node.this is None:
        return _inside_first(node)
    if isinstance(node, exp.Cast) and node.args["to"].this == exp.DataType.Type.DOUBLE:
        return _double(node.this) or try_cast(node)
    return try_cast(node)


def _double(value: exp.Expression) -> exp.Expression | None:
    """A number as DuckDB writes a DOUBLE, with an exponent: it is read as one at once. A long statement costs more than a short answer.

    >>> from sqlglot import parse_one
    >>> [_double(parse_one(text)).sql("duckdb") for text in ("0.1", "-50.0", "1e300")]
    ['0.1e0', '-50.0e0', '1e300']
    """
    sign, digits = isinstance(value, exp.Neg), value.this if isinstance(value, exp.Neg) else value
    if not isinstance(digits, exp.Literal) or digits.is_string or not math.isfinite(float(digits.this)):
        return None
    written = exp.Literal.number(digits.this if "e" in digits.this.lower() else f"{digits.this}e0")
    return exp.Neg(this=written) if sign else written


#: The mark, in the `meta` of a comparison with bounds, of the column that it is about.
_CLAMPED = "tacit_clamped"


def _inside_first(case: exp.Case) -> exp.Case:
    """CASE WHEN x is there THEN f(clamp(x)) END with the bounds asked first: most values lie within, and those are there.

    A value between two numbers is neither NULL nor NaN, so `f` of it needs no other question.
    """
    condition, value = case.args["ifs"][0].this, case.args["ifs"][0].args["true"]
    clamps = [found for found in value.find_all(exp.Case) if _CLAMPED in found.meta]
    if len(clamps) != 1 or not _is_there(condition, clamps[0].meta[_CLAMPED]):
        return case
    inside, above = clamps[0].args["ifs"]
    low, high = clamps[0].args["default"], above.args["true"]
    lowest, highest = (_worked_out(_with(value, end)) for end in (low, high))
    ifs = [exp.If(this=inside.this.copy(), true=_with(value, inside.args["true"]))]
    if _asks_nan(condition):
        # To DuckDB NaN is above infinity, and NULL is neither below nor above anything: the two comparisons ask for both.
        number = inside.this.this
        ifs.append(exp.If(this=exp.LT(this=number.copy(), expression=low.copy()), true=lowest))
        ifs.append(exp.If(this=exp.LTE(this=number.copy(), expression=exp.cast(exp.Literal.string("inf"), "DOUBLE")), true=highest))
    else:
        outside = exp.Case(ifs=[exp.If(this=above.this.copy(), true=highest)], default=lowest)
        ifs.append(exp.If(this=condition.copy(), true=outside))
    return exp.Case(ifs=ifs, default=case.args.get("default"))


def _worked_out(value: exp.Expression) -> exp.Expression:
    """A whole number in place of the formula that gives it, which DuckDB would otherwise work out for every question.

    Python's floating-point numbers are DuckDB's, and both round each step to the nearest.
    """
    if isinstance(value, exp.Cast) and value.args["to"].this == exp.DataType.Type.BIGINT and isinstance(value.this, exp.Floor):
        number = _number(value.this.this)
        if number is not None and abs(number) < 2**62:
            return exp.cast(exp.Literal.number(math.floor(number)), "BIGINT")
    return value


def _number(formula: exp.Expression) -> float | None:
    """A formula of numbers with an exponent, sums and products; None for anything else."""
    if isinstance(formula, exp.Paren):
        return _number(formula.this)
    if isinstance(formula, exp.Literal):
        return float(formula.this) if not formula.is_string and "e" in formula.this else None
    if isinstance(formula, exp.Neg):
        only = _number(formula.this)
        return None if only is None else -only
    if not isinstance(formula, (exp.Add, exp.Sub, exp.Mul)):
        return None
    left, right = _number(formula.this), _number(formula.expression)
    if left is None or right is None:
        return None
    return left + right if isinstance(formula, exp.Add) else left - right if isinstance(formula, exp.Sub) else left * right


def _is_there(condition: exp.Expression, column: exp.Expression) -> bool:
    """Whether a condition says that a column is neither NULL nor NaN, or one of both, and nothing else."""
    if isinstance(condition, exp.And):
        return _is_there(condition.this, column) and _is_there(condition.expression, column)
    if not isinstance(condition, exp.Not):
        return False
    asked = condition.this
    if isinstance(asked, exp.Is) and isinstance(asked.expression, exp.Null):
        return bool(asked.this.unnest() == column)
    if _is_nan(asked):
        found = asked.this if isinstance(asked, exp.IsNan) else asked.expressions[0]
        return bool((found.this if isinstance(found, exp.Cast) else found) == column)
    return False


def _is_nan(asked: exp.Expression) -> bool:
    return isinstance(asked, exp.IsNan) or (isinstance(asked, exp.Anonymous) and asked.name.lower() == "isnan")


def _asks_nan(condition: exp.Expression) -> bool:
    return any(isinstance(part, exp.Expression) and _is_nan(part) for part in condition.find_all(exp.IsNan, exp.Anonymous))


def direct(tree: exp.Expression, types: Mapping[str, Mapping[str, str]], scans: Mapping[str, exp.Expression]) -> None:
    """Casts to the type that a column has are dropped, and a view of files is read as the files: neither says anything else.

    `types` are the columns of tables, `scans` what the views are views of. Whatever is a name of the statement's own is left alone.

    >>> from sqlglot import parse_one
    >>> tree = parse_one('SELECT CAST("v" AS DOUBLE) FROM (SELECT CAST("v" AS DOUBLE) AS "v" FROM "q") AS "r"')
    >>> direct(tree, {"q": {"v": "DOUBLE"}}, {"q": parse_one("READ_PARQUET('a.parquet')")})
    >>> print(tree.sql("duckdb"))
    SELECT CAST("v" AS DOUBLE) FROM (SELECT "v" AS "v" FROM READ_PARQUET('a.parquet') AS "q") AS "r"
    """
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        name = table.name
        if name in own or table.args.get("db") is not None or table.args.get("joins") or not isinstance(table.this, exp.Identifier):
            continue
        if isinstance(table.parent, exp.From) and isinstance(table.parent.parent, exp.Select):
            _without_idle_casts(table.parent.parent, table.alias_or_name, types.get(name, {}))
        if name in scans:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
            table.replace(exp.Table(this=scans[name].copy(), alias=alias))


def _without_idle_casts(select: exp.Select, table: str, types: Mapping[str, str]) -> None:
    if select.args.get("joins") or select.args.get("laterals"):
        return
    for cast in list(select.find_all(exp.Cast)):
        column = cast.this
        mine = isinstance(column, exp.Column) and column.table in ("", table) and cast.parent_select is select
        if mine and types.get(column.name) == cast.args["to"].sql(dialect="duckdb"):
            cast.replace(column.copy())


def _with(value: exp.Expression, instead: exp.Expression) -> exp.Expression:
    """The value with something else in place of the marked comparison."""
    found = value.copy()
    marked = next(part for part in found.find_all(exp.Case) if _CLAMPED in part.meta)
    if marked is found:
        return instead.copy()
    marked.replace(instead.copy())
    return found
