"""Tables of people for the tests of `tacit.tables`: adversarial rows, neighbours, and how far apart two sets of integers are."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tacit.accounting import Gaussian, Guarantee, Laplace
from tacit.ledger import Budget, Ledger
from tacit.tables import Aggregate, Key, Question, Session, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.figures import Exact, integers
from tacit.tables.plan import Plan, Settings, make

Row = tuple[Any, str | None, float | None, float | None]
TABLE = "visits"
BOUNDS = {"age": (0, 100), "cost": (-7, 30)}
REGIONS = ["N", "S", "Ω-北", "empty"]
VALUES = [0.0, -0.0, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), None, 5e-324, 99.9999, 50.0, 100.0, 3.25, -6.5, 29.75]


def table(rows: Iterable[Row]) -> pa.Table:
    """Rows (id, region, age, cost) as Arrow, with types that do not depend on what is in them."""
    lists: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    kinds = (pa.int64(), pa.string(), pa.float64(), pa.float64())
    names = ("id", "region", "age", "cost")
    return pa.table({name: pa.array(values, kind) for name, values, kind in zip(names, lists, kinds, strict=True)})


def random_rows(seed: int, people: int = 12, rows: int = 60) -> list[Row]:
    """Rows with every awkward value, people with many rows, and rows of nobody."""
    draw = np.random.default_rng(seed)
    places = [*REGIONS, None, "unlisted"]
    found: list[Row] = []
    for _ in range(rows):
        owner = None if draw.random() < 0.05 else int(draw.integers(people) ** 2 // people)
        found.append((owner, places[draw.integers(6)], VALUES[draw.integers(len(VALUES))], VALUES[draw.integers(len(VALUES))]))
    return found


def hostile_rows(seed: int, person: int) -> list[Row]:
    """A person who does her worst: many rows, at the ends of everything, heaped and spread."""
    draw = np.random.default_rng(seed)
    ends = [1e308, -1e308, float("inf"), float("nan"), None, 100.0, 0.0]
    many = int(draw.integers(1, 80))
    return [(person, REGIONS[int(draw.integers(4))], ends[draw.integers(7)], ends[draw.integers(7)]) for _ in range(many)]


def column(name: str) -> exp.Expression:
    return exp.column(name, quoted=True)


AGE, COST, REGION = column("age"), column("cost"), column("region")

AGGREGATES: dict[str, tuple[Aggregate, ...]] = {
    "count": (Aggregate("count", None, "n"),),
    "present": (Aggregate("count_value", AGE, "n"),),
    "people": (Aggregate("count_person", column("id"), "n"),),
    "distinct": (Aggregate("count_distinct", AGE, "n"),),
    "sum": (Aggregate("sum", COST, "s"),),
    "count and mean": (Aggregate("count", None, "n"), Aggregate("avg", AGE, "m")),
    "count and sum": (Aggregate("count", None, "n"), Aggregate("sum", COST, "s")),
    "two means": (Aggregate("avg", COST, "m"), Aggregate("avg", AGE, "a")),
    "variance": (Aggregate("var_samp", AGE, "v"), Aggregate("stddev", COST, "s")),
    "quantiles": (Aggregate("median", AGE, "q"), Aggregate("quantile", COST, "p", quantile=Fraction(9, 10)), Aggregate("count", None, "n")),
    "pair": (Aggregate("covariance", AGE, "c", COST), Aggregate("correlation", AGE, "r", COST)),
    "everything": (
        Aggregate("count", None, "n"),
        Aggregate("count_value", COST, "k"),
        Aggregate("count_person", column("id"), "p"),
        Aggregate("count_distinct", COST, "d"),
        Aggregate("avg", AGE, "m"),
        Aggregate("sum", COST, "s"),
        Aggregate("var", COST, "v"),
        Aggregate("max", AGE, "x"),
    ),
}


def question(name: str, *, grouped: bool, where: exp.Expression | None = None) -> Question:
    keys = (Key(REGION, "region"),) if grouped else ()
    return Question(exp.to_table(TABLE), keys, AGGREGATES[name], where)


class Repeatable(DuckDB):
    """An engine whose choice of rows follows the salt alone, so that neighbours can be compared choice by choice; quicker than md5."""

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        return exp.Anonymous(this="hash", expressions=[exp.Literal.number(salt), *(value.copy() for value in values)])


def engine_on(rows: Iterable[Row], *, portable: bool = True) -> DuckDB:
    """An engine with the rows: one whose choice follows the salt, or with `portable=False` the default one, which draws."""
    engine = Repeatable(threads=1, portable=True) if portable else DuckDB(threads=1)
    engine.register(TABLE, table(rows))
    return engine


def planned(
    asked: Question, unit: Unit, engine: DuckDB, *, spend: Guarantee | None = None, keys: Mapping[Any, Any] | None = None, **settings: Any
) -> Plan:
    declared = {"region": REGIONS} if keys is None else keys
    return make(asked, unit, engine, Settings(BOUNDS, declared, **settings), spend or Guarantee(epsilon=1, delta=1e-6))


def exact_sums(plan: Plan, engine: DuckDB, salt: int = 7) -> Exact:
    return integers(engine.run(plan.statement(engine, salt)), plan)


def loss_between(plan: Plan, first: Exact, second: Exact) -> float:
    """How far apart two sets of integers are, measured in their noise, over what the event allows: at most 1 where the plan is right."""
    square, absolute = Fraction(0), Fraction(0)
    for share, one, other in zip(plan.shares, first.sums, second.sums, strict=True):
        ladder = share.measure.ladder
        matrix = None if ladder is None else ladder.encoder(share.law).T
        change = (np.asarray(one) - np.asarray(other)) if matrix is None else (np.asarray(one) - np.asarray(other)) @ matrix
        steps = [abs(int(step)) for step in change.ravel().tolist()]
        square += Fraction(sum(step**2 for step in steps)) / share.scale**2
        absolute += Fraction(sum(steps)) / share.scale
    event = plan.split.event
    assert isinstance(event, (Gaussian, Laplace))
    limit = 1 / Fraction(event.noise_multiplier)
    return float(absolute / limit) if isinstance(event, Laplace) else float(square / limit**2)


def session_on(rows: Sequence[Row] | pa.Table, unit: Unit, budget: Budget | Guarantee | str | None = None, **options: Any) -> Session:
    """A session with a book of its own."""
    book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
    data = rows if isinstance(rows, pa.Table) else table(rows)
    return Session(data, unit=unit, budget=budget or Budget(epsilon=100, delta="1e-4"), name=TABLE, ledger=book, **options)


def on_engine(session: Session, engine: Any) -> Session:
    """The session with another engine in the place of its own."""
    session.desk = replace(session.desk, source=replace(session.source, engine=engine))
    return session
