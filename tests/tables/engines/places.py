"""The three engines behind one signature, for tests that put rows somewhere and ask about them.

`steady` chooses a person's rows by the salt alone, so that neighbours can be compared choice by choice; `usual` is the engine as a user
gets it, which draws random numbers. Both see the same tables.
"""

from __future__ import annotations

import atexit
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from sqlglot import exp
from tests.tables import people
from tests.tables.engines import servers
from tests.tables.people import Repeatable, Row

from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import Spark

ENGINES = ("duckdb", "postgres", "spark")


class SteadyPostgres(Postgres):
    """PostgreSQL's own hash in place of md5, which is quicker and as steady."""

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        text = exp.Anonymous(this="concat_ws", expressions=[exp.Literal.string("|"), *(value.copy() for value in values)])
        return exp.Anonymous(this="hashtextextended", expressions=[text, exp.Literal.number(salt)])


class SteadySpark(Spark):
    """Spark's own hash in place of md5, which is quicker and as steady."""

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        return exp.Anonymous(this="xxhash64", expressions=[exp.Literal.number(salt), *(value.copy() for value in values)])


@dataclass(frozen=True)
class Place:
    """An engine and a way to put a table into it."""

    name: str
    steady: Any
    usual: Any
    load: Callable[[str, pa.Table], None]
    #: Runs a statement as it is and returns its rows, or fails in the engine's own words.
    raw: Callable[[str], list[tuple[Any, ...]]]

    @property
    def slow(self) -> bool:
        """Whether every statement takes about a second, so that a test should send few."""
        return self.name == "spark"

    def put(self, rows: Iterable[Row]) -> None:
        """These people, and nobody else, in the table of `tests.tables.people`."""
        self.load(people.TABLE, people.table(rows))

    def session(self, unit: Unit, budget: Budget | None = None, *, steady: bool = False, **options: Any) -> Session:
        """A session on the table of people, or on another one by name, with a book of its own."""
        book = options.pop("ledger", None) or Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
        engine, name = self.steady if steady else self.usual, options.pop("name", people.TABLE)
        return Session(engine, unit=unit, budget=budget or Budget(epsilon=100, delta="1e-4"), name=name, ledger=book, **options)


@cache
def place(name: str) -> Place:
    """The engine of that name, started where it must be, with databases of its own."""
    return {"duckdb": _duckdb, "postgres": _postgres, "spark": _spark}[name]()


def _duckdb() -> Place:
    steady, usual = Repeatable(threads=1, portable=True), DuckDB(threads=1)

    def load(table: str, rows: pa.Table) -> None:
        steady.register(table, rows)
        usual.register(table, rows)

    return Place("duckdb", steady, usual, load, lambda text: usual._connection.execute(text).fetchall())


def _postgres() -> Place:
    url = servers.postgres("attacks")
    usual, steady = Postgres(url), SteadyPostgres(url, portable=True)
    for engine in (usual, steady):
        atexit.register(engine.close)

    def raw(text: str) -> list[tuple[Any, ...]]:
        with usual._connection.transaction(force_rollback=True):
            return usual._connection.execute(text.encode()).fetchall()

    return Place("postgres", steady, usual, lambda table, rows: servers.load_postgres(url, table, rows), raw)


def _spark() -> Place:
    session = servers.spark().session.newSession()
    usual = Spark(session)

    def load(table: str, rows: pa.Table) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyspark's own, on newer Python and pandas
            usual.register(table, rows)

    return Place(
        "spark", SteadySpark(session, portable=True), usual, load, lambda text: [tuple(row) for row in session.sql(text).collect()]
    )
