"""Released tables in a database, for tools that read databases: a schema of PostgreSQL, or a DuckDB file.

A job's `publication.database` names it. What is written there is what the release's folder holds, after it was published: figures
with their noise, which anyone may query as often as they like for nothing. All tables of a release take the place of those of
the release before in one transaction. A table that Tacit did not write is never touched, so that a schema with private
tables cannot be named by mistake. The address of a server is in the environment, because it may hold a password.

>>> import pathlib, tempfile
>>> import duckdb, pyarrow as pa
>>> place = pathlib.Path(tempfile.mkdtemp())
>>> release = {"title": "Visits", "time": "2026-01-31", "run": "a1"}
>>> into(InDatabase(file="hospital.duckdb"), place, {"by_region": pa.table({"region": ["north"], "n": [12]})}, release)
>>> with duckdb.connect(str(place / "hospital.duckdb"), read_only=True) as database:
...     database.sql("SELECT n FROM released.by_region").fetchall()
[(12,)]
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tacit.accounting import PackageMissing
from tacit.release.errors import JobError
from tacit.release.job_parts import InDatabase

if TYPE_CHECKING:
    import duckdb
    import psycopg

PLACE = "publication.database"
#: The table that says which tables of a schema Tacit wrote, from which release.
LIST = "tacit_releases"
_COLUMNS = {"table_name": "TEXT", "title": "TEXT", "published": "TEXT", "run": "TEXT"}
FAILED = "the release is published in its folder, and the database was left as it was: {reason}; run the job again to write it there"


def tables_of(files: Mapping[str, bytes]) -> dict[str, pa.Table]:
    """The tables among a release's files, by name: those that were written as Parquet."""
    return {name.removesuffix(".parquet"): pq.read_table(io.BytesIO(data)) for name, data in files.items() if name.endswith(".parquet")}


def address_of(spec: InDatabase) -> str:
    """The address of the server, from the environment."""
    url = os.environ.get(spec.url_env or "", "")
    if not re.match(r"postgresql(\+psycopg)?://", url):
        raise JobError(f"the environment's {spec.url_env} must hold the address of a PostgreSQL database: postgresql://...", place=PLACE)
    return re.sub(r"^postgresql\+\w+://", "postgresql://", url)


def check(spec: InDatabase) -> None:
    """Refuse what cannot be written to, before anything is paid: no address, or a package that is missing."""
    if spec.file is None:
        address_of(spec)
        _psycopg()


def into(spec: InDatabase, base: Path, tables: Mapping[str, pa.Table], release: Mapping[str, str]) -> None:
    """Write a release's tables in one transaction. `release` has its title, time and run."""
    reason = ""
    try:
        if spec.file is not None:
            _into_duckdb(base / spec.file, spec.schema_name, tables, release)
        else:
            _into_postgresql(address_of(spec), spec.schema_name, tables, release)
    except JobError as error:
        reason = error.message
    except Exception as error:
        # a server's words may hold its address, and so a password
        reason = f"{type(error).__name__}"
    if reason:
        raise JobError(FAILED.format(reason=reason), place=PLACE)


def _mine(there: set[str], listed: set[str], tables: Mapping[str, pa.Table]) -> None:
    long = [name for name in tables if len(name.encode()) > 63]
    if long:
        raise JobError(f"{long[0]} is too long for a table's name in a database; at most 63 letters")
    foreign = sorted((set(tables) & there) - listed)
    if foreign or LIST in tables:
        raise JobError(f"the schema has a table {(foreign or [LIST])[0]} that Tacit did not write; name another schema")


# --- DuckDB -----------------------------------------------------------------------------------------------------------


def _into_duckdb(file: Path, schema: str, tables: Mapping[str, pa.Table], release: Mapping[str, str]) -> None:
    import duckdb

    with duckdb.connect(str(file)) as database:
        database.begin()
        try:
            _duckdb_tables(database, schema, tables, release)
        except BaseException:
            database.rollback()
            raise
        database.commit()


def _duckdb_tables(database: duckdb.DuckDBPyConnection, schema: str, tables: Mapping[str, pa.Table], release: Mapping[str, str]) -> None:
    # with the name of the database, because a schema may have the same one
    here = str(database.execute("SELECT current_database()").fetchall()[0][0])
    home = f"{_quoted(here)}.{_quoted(schema)}"
    database.execute(f"CREATE SCHEMA IF NOT EXISTS {home}")
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    database.execute(f"CREATE TABLE IF NOT EXISTS {home}.{LIST} ({columns})")
    named = "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_catalog = ?"
    there = {str(row[0]) for row in database.execute(named, [schema, here]).fetchall()}
    listed = {str(row[0]) for row in database.execute(f"SELECT table_name FROM {home}.{LIST}").fetchall()}
    _mine(there, listed, tables)
    for name, table in tables.items():
        database.register("tacit_new_table", table)
        database.execute(f"CREATE OR REPLACE TABLE {home}.{_quoted(name)} AS SELECT * FROM tacit_new_table")
        database.unregister("tacit_new_table")
        database.execute(f"DELETE FROM {home}.{LIST} WHERE table_name = ?", [name])
        database.execute(f"INSERT INTO {home}.{LIST} VALUES (?, ?, ?, ?)", _row(name, release))


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise PackageMissing(code="package-missing", package="psycopg", install="'tacit[postgres]'") from None
    return psycopg


def _into_postgresql(url: str, schema: str, tables: Mapping[str, pa.Table], release: Mapping[str, str]) -> None:
    connection: psycopg.Connection[Any]
    with _psycopg().connect(url) as connection, connection.cursor() as cursor:
        from psycopg import sql

        home = sql.Identifier(schema)
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"tacit {schema}",))
        cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(home))
        columns = sql.SQL(", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items()))
        list_ = sql.SQL(".").join([home, sql.Identifier(LIST)])
        cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(list_, columns))
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s", (schema,)
        )  # fmt: skip
        there = {str(row[0]) for row in cursor.fetchall()}
        cursor.execute(sql.SQL("SELECT table_name FROM {}").format(list_))
        _mine(there, {str(row[0]) for row in cursor.fetchall()}, tables)
        for name, table in tables.items():
            target = sql.SQL(".").join([home, sql.Identifier(name)])
            typed = [sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_kind(field.type))) for field in table.schema]
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(target))
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(target, sql.SQL(", ").join(typed)))
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(target)) as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
            cursor.execute(sql.SQL("DELETE FROM {} WHERE table_name = %s").format(list_), (name,))
            cursor.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s)").format(list_), _row(name, release))


def _row(name: str, release: Mapping[str, str]) -> tuple[str, str, str, str]:
    return name, release["title"], release["time"], release["run"]


def _kind(kind: pa.DataType) -> str:
    """PostgreSQL's type for a column of Arrow."""
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_integer(kind):
        return "NUMERIC" if pa.types.is_uint64(kind) else "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE PRECISION"
    if pa.types.is_decimal(kind):
        return "NUMERIC"
    if pa.types.is_date(kind):
        return "DATE"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "TEXT"
    raise JobError(f"a column of type {kind} has no form in PostgreSQL here; publish into a DuckDB file")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
