"""Columns of a table: take one, keep some, or read several as one vector. A choice of columns is a function of each row.

>>> from tacit.calculus import AddRemove, Integers, Space, table
>>> people = Space(table(age=Integers(0, 120), children=Integers(0, 20)), AddRemove())
>>> (people >> column("age"))({"age": [30, 200], "children": [1, 2]}).tolist()
[30, 120]
>>> (people >> vector("age", "children"))({"age": [30], "children": [2]}).tolist()
[[30, 2]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.calculus.domains import Domain, Integers, Lattice, Reals, Records, Rows, Vectors
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import Identifiers
from tacit.calculus.plan import Space, Step, Transformation
from tacit.calculus.rows import ROW_BY_ROW, records_domain, rows_domain


def keep_person(space: Space, what: str, names: tuple[str, ...] = ()) -> None:
    """Refuse to lose the column that says whose row it is while distances still count people."""
    if isinstance(space.metric, Identifiers) and space.metric.column not in names:
        owner = space.metric.column
        raise MetricError(f"{what} drops {owner!r}, which says whose row it is; put cap_rows({owner!r}, most) before it")


@dataclass(frozen=True)
class Column(Step):
    """One column of a table, as rows of single values."""

    name: str

    def bind(self, space: Space) -> Transformation:
        what = f"column({self.name!r})"
        records, rows, name = records_domain(space, what), rows_domain(space, what), self.name
        keep_person(space, what)
        output = Space(Rows(records[name], rows.size), space.metric)
        return Transformation(space, output, lambda data: data[name], lambda d: d, what, ROW_BY_ROW)


def column(name: str) -> Column:
    """One column as rows of single values."""
    return Column(name)


@dataclass(frozen=True)
class Select(Step):
    """Some columns of a table."""

    names: tuple[str, ...]

    def bind(self, space: Space) -> Transformation:
        what = f"select({', '.join(map(repr, self.names))})"
        records, rows, names = records_domain(space, what), rows_domain(space, what), self.names
        keep_person(space, what, names)
        output = Space(Rows(Records({name: records[name] for name in names}), rows.size), space.metric)
        return Transformation(space, output, lambda data: {name: data[name] for name in names}, lambda d: d, what, ROW_BY_ROW)


def select(*names: str) -> Select:
    """Keep these columns."""
    return Select(names)


@dataclass(frozen=True)
class VectorOf(Step):
    """Several columns of numbers, read as one vector a row."""

    names: tuple[str, ...]

    def bind(self, space: Space) -> Transformation:
        what = f"vector({', '.join(map(repr, self.names))})"
        records, rows, names = records_domain(space, what), rows_domain(space, what), self.names
        keep_person(space, what)
        if not names:
            raise DomainError("vector needs the names of the columns to read")
        vectors = Vectors(_hull([records[name] for name in names]), len(names))
        output = Space(Rows(vectors, rows.size), space.metric)
        return Transformation(space, output, lambda data: vectors.enforce_rows(_stacked(data, names)), lambda d: d, what, ROW_BY_ROW)


def _stacked(data: Any, names: tuple[str, ...]) -> np.ndarray:
    return np.array([np.asarray(data[name]) for name in names]).T


def _hull(domains: list[Domain]) -> Domain:
    """The least domain of the same kind that holds all of these."""
    kinds = {(type(d), d.granularity if isinstance(d, Lattice) else None) for d in domains}
    if len(kinds) != 1 or not isinstance(domains[0], (Integers, Lattice, Reals)):
        raise DomainError("the columns of a vector must be numbers of one kind: cast them, or round them to one granularity, first")
    lower = [d.lower for d in domains if isinstance(d, (Integers, Lattice, Reals))]
    upper = [d.upper for d in domains if isinstance(d, (Integers, Lattice, Reals))]
    low = None if None in lower else min(v for v in lower if v is not None)
    high = None if None in upper else max(v for v in upper if v is not None)
    match domains[0]:
        case Lattice():
            return Lattice(domains[0].granularity, low, high)
        case Reals():
            return Reals(low, high, missing=any(isinstance(d, Reals) and d.missing for d in domains))
    return Integers(low, high)  # type: ignore[arg-type]


def vector(*names: str) -> VectorOf:
    """Read columns of numbers of one kind as the coordinates of a vector."""
    return VectorOf(names)
