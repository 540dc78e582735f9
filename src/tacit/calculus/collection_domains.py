"""Domains made of others: categories, vectors, records, the data sets themselves, and graphs.

Like those of numbers they are public and enforced: an unlisted category, a row of the wrong length or a missing field counts
as the domain's default, and raises nothing that depends on the data.

>>> table(age=Integers(0, 120)).enforce({"age": [30, 400, None]})["age"].tolist()
[30, 120, 0]
>>> Rows(Vectors(Integers(0, 1), 2)).enforce([[1, 0], [9, 9], "not a vector"]).tolist()
[[1, 0], [1, 1], [0, 0]]
>>> Graphs().member(Graph.of([("a", "b")])), Graphs(max_degree=0).member(Graph.of([("a", "b")]))
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from tacit.calculus.domains import Domain, Integers, Lattice, Single, granule, listed, plain
from tacit.calculus.errors import DomainError
from tacit.parameters import Number, count, positive


@dataclass(frozen=True)
class Categories(Single):
    """A public list of values; anything else counts as the `default`, the first one unless stated.

    >>> Categories(("no", "yes")).enforce(["yes", "perhaps"])
    ['yes', 'no']
    """

    values: tuple[Hashable, ...]
    other: Hashable | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise DomainError("values is empty; list the public categories")
        if any(value != value for value in self.values):
            raise DomainError("values lists NaN, which equals nothing; cast missing values to a category of their own")
        if len(set(self.values)) != len(self.values):
            raise DomainError("values lists a category twice")
        if self.other is not None and self.other not in self.values:
            raise DomainError("other must be one of values: it is the category that everything unlisted counts as")

    def member(self, value: Any) -> bool:
        return _find(self._known, plain(value)) is not None

    @property
    def _known(self) -> dict[Hashable, tuple[Hashable]]:
        return {value: (value,) for value in self.values}

    def enforce(self, values: Any) -> list[Hashable]:
        known, other = self._known, (self.default,)
        return [(_find(known, plain(value)) or other)[0] for value in listed(values)]

    def contains(self, other: Domain) -> bool:
        return isinstance(other, Categories) and set(other.values) <= set(self.values)

    @property
    def default(self) -> Hashable:
        return self.values[0] if self.other is None else self.other


def _find(known: dict[Hashable, tuple[Hashable]], value: Any) -> tuple[Hashable] | None:
    try:
        # Python's hash of a tuple in a tuple in ... runs out of stack, and ends the process
        if isinstance(value, (tuple, frozenset)) and not any(isinstance(one, (tuple, frozenset)) for one in known):
            return None
        return known.get(value) if _shallow(value) else None
    # unhashable, or an object whose comparison raises: it is not listed, and no error may say so
    except (Exception, SystemExit, GeneratorExit):
        return None


def _shallow(value: object, most: int = 50) -> bool:
    """Whether tuples in tuples end after a few levels."""
    level = [value]
    for _ in range(most):
        level = [inner for one in level if isinstance(one, (tuple, frozenset)) for inner in one]
        if not level:
            return True
    return False


def _elements(row: Any, most: int) -> list[Any] | None:
    """The elements of a row that should have so many; None where it cannot be read."""
    if isinstance(row, np.ndarray):
        return listed(row)
    try:
        return list(islice(row, most + 1)) if isinstance(row, Iterable) and not isinstance(row, (str, bytes, Mapping)) else [row]
    except (Exception, SystemExit, GeneratorExit):  # a function's generator that fails half-way
        return None


@dataclass(frozen=True)
class Vectors(Domain):
    """One vector of a public length with elements of one domain: an aggregate, a histogram, a list of scores.

    >>> Vectors(Integers(0, None), 3).member([1, 0, 2])
    True
    """

    element: Domain
    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", count("length", self.length))

    def member(self, value: Any) -> bool:
        given = listed(value)
        return len(given) == self.length and all(self.element.member(plain(v)) for v in given)

    def enforce(self, values: Any) -> Any:
        """One vector, element by element. Its length is public, and an error where it is not what was declared."""
        given = listed(values)
        if len(given) != self.length:
            raise DomainError(f"a vector of public length {self.length} is needed")
        return self.element.enforce(given)

    def enforce_rows(self, rows: Any) -> Any:
        """Many vectors, one a row: an array with a row each. A row of another length counts as the default."""
        given = [_elements(row, self.length) for row in listed(rows)]
        flat = [value for row in given for value in (row if row is not None and len(row) == self.length else self.default)]
        return _shaped(self.element.enforce(flat), len(given), self.length)

    def contains(self, other: Domain) -> bool:
        return isinstance(other, Vectors) and other.length == self.length and self.element.contains(other.element)

    @property
    def default(self) -> list[Any]:
        return [self.element.default] * self.length


def _shaped(flat: Any, rows: int, length: int) -> np.ndarray:
    if isinstance(flat, np.ndarray):
        return flat.reshape(rows, length)
    found = np.empty(rows * length, dtype=object)
    found[:] = flat
    return found.reshape(rows, length)


@dataclass(frozen=True)
class Ball(Vectors):
    """Vectors of whole numbers whose L1 or L2 norm (`p`) is at most `radius`, in the unit of the elements.

    >>> Ball(Integers(), 2, p=2, radius=5).enforce([30, 40]).tolist()
    [3, 4]
    """

    p: int = 2
    radius: Number = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.element, (Integers, Lattice)):
            raise DomainError(f"norms are clipped exactly, on whole numbers; round {self.element} first: round_to(granularity)")
        if not self.element.member(0):
            raise DomainError(f"a vector is shortened towards zero, and {self.element} does not allow it; shift the bounds to include 0")
        if self.p not in (1, 2):
            raise DomainError(f"p must be 1 or 2, not {self.p}")
        object.__setattr__(self, "radius", positive("radius", self.radius))

    @property
    def granules(self) -> Fraction:
        """The radius as the elements count it."""
        return Fraction(self.radius) / granule(self.element)

    def member(self, value: Any) -> bool:
        return super().member(value) and self._fits([int(v) for v in listed(value)])

    def _fits(self, vector: list[int]) -> bool:
        if self.p == 1:
            return sum(map(abs, vector)) <= self.granules
        return sum(v * v for v in vector) <= self.granules**2

    def clip(self, vector: list[int]) -> list[int]:
        """The vector shortened to the radius, each coordinate cut towards zero so that the norm is never above it. Exact.

        >>> Ball(Integers(), 2, p=1, radius=3).clip([5, -5])
        [1, -1]
        """
        if self._fits(vector):
            return vector
        if self.p == 1:
            norm, radius = sum(map(abs, vector)), self.granules
            cut = [abs(v) * radius.numerator // (norm * radius.denominator) for v in vector]
        else:
            square, top, bottom = sum(v * v for v in vector), self.granules.numerator, self.granules.denominator
            # floor(|v| r / |vector|) is the integer root of the floor of its square
            cut = [math.isqrt(v * v * top * top // (square * bottom * bottom)) for v in vector]
        return [c if v > 0 else -c for v, c in zip(vector, cut, strict=True)]

    def enforce(self, values: Any) -> Any:
        return self.element.enforce(self.clip(super().enforce(values).tolist()))

    def enforce_rows(self, rows: Any) -> Any:
        found = super().enforce_rows(rows)
        flat = [v for row in found.tolist() for v in self.clip(row)]
        return _shaped(self.element.enforce(flat), len(found), self.length)

    def contains(self, other: Domain) -> bool:
        inside = isinstance(other, Ball) and other.p == self.p and other.radius <= self.radius
        return inside and super().contains(other)


@dataclass(frozen=True)
class Records(Domain):
    """One record with named fields, each of its own domain.

    >>> Records(age=Integers(0, 120)).member({"age": 40})
    True
    """

    fields: tuple[tuple[str, Domain], ...]

    def __init__(self, fields: Mapping[str, Domain] | None = None, /, **named: Domain) -> None:
        found = {**(fields or {}), **named}
        if not found:
            raise DomainError("a record needs at least one field")
        object.__setattr__(self, "fields", tuple(found.items()))

    def __getitem__(self, name: str) -> Domain:
        for field, domain in self.fields:
            if field == name:
                return domain
        raise DomainError(f"there is no field {name!r}; the fields are {', '.join(n for n, _ in self.fields)}")

    def __contains__(self, name: str) -> bool:
        return any(field == name for field, _ in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def member(self, value: Any) -> bool:
        return isinstance(value, Mapping) and set(value) == set(self.names) and all(d.member(plain(value[n])) for n, d in self.fields)

    def enforce(self, values: Any) -> dict[str, Any]:
        return {name: plain(_column(domain, [_field(values, name, domain)])[0]) for name, domain in self.fields}

    def contains(self, other: Domain) -> bool:
        return isinstance(other, Records) and set(other.names) == set(self.names) and all(d.contains(other[n]) for n, d in self.fields)

    @property
    def default(self) -> dict[str, Any]:
        return {name: domain.default for name, domain in self.fields}


def _field(record: Any, name: str, domain: Domain) -> Any:
    """One field of a record, or the default where there is none or it cannot be read."""
    try:
        return record.get(name, domain.default) if isinstance(record, Mapping) else domain.default
    except (Exception, SystemExit, GeneratorExit):  # a mapping of a function's own
        return domain.default


def _column(domain: Domain, values: Any) -> Any:
    """A column of values of one domain."""
    return domain.enforce_rows(values) if isinstance(domain, Vectors) else domain.enforce(values)


@dataclass(frozen=True)
class Rows(Domain):
    """A data set: any number of rows of one domain, in no order. With `size`, exactly that many, and the number is public.

    Rows of single values are an array or a list; rows of vectors an array with a row each; rows of records (a table) are a mapping from
    column to array, all equally long.

    >>> Rows(Integers(0, 9)).enforce([1, 50]).tolist()
    [1, 9]
    >>> Rows(Records(age=Integers(0, 120))).enforce({"age": [30, 400]})["age"].tolist()
    [30, 120]
    """

    element: Domain
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", count("size", self.size, least=0))

    def member(self, value: Any) -> bool:
        if isinstance(self.element, Records):
            if not isinstance(value, Mapping) or set(value) != set(self.element.names):
                return False
            lengths = {len(column) for column in value.values()}
            fits = len(lengths) == 1 and all(all(d.member(plain(v)) for v in value[n]) for n, d in self.element.fields)
            return fits and (self.size is None or lengths == {self.size})
        return (self.size is None or len(value) == self.size) and all(self.element.member(plain(v)) for v in value)

    def enforce(self, values: Any) -> Any:
        found = self._table(values) if isinstance(self.element, Records) else _column(self.element, values)
        if self.size is not None:
            held = len(next(iter(found.values()))) if isinstance(found, Mapping) else len(found)
            if held != self.size:
                raise DomainError(f"the data must have the public number of rows, {self.size}; declare another size or put resize before")
        return found

    def _table(self, values: Any) -> dict[str, Any]:
        assert isinstance(self.element, Records)
        if not isinstance(values, Mapping):
            raise DomainError("a table is a mapping from column name to column")
        absent = [name for name in self.element.names if name not in values]
        if absent:
            raise DomainError(f"the table has no column {', '.join(absent)}")
        found = {name: _column(domain, values[name]) for name, domain in self.element.fields}
        if len({len(column) for column in found.values()}) > 1:
            raise DomainError("the columns of a table must be equally long")
        return found

    def contains(self, other: Domain) -> bool:
        return isinstance(other, Rows) and self.element.contains(other.element) and self.size in (None, other.size)

    @property
    def default(self) -> Any:
        rows = self.size or 0
        if isinstance(self.element, Records):
            return {name: [domain.default] * rows for name, domain in self.element.fields}
        return [self.element.default] * rows


def table(**columns: Domain) -> Rows:
    """The domain of a table with these columns.

    >>> table(age=Integers(0, 120), city=Categories(("Bonn", "Graz"))).element.names
    ('age', 'city')
    """
    return Rows(Records(columns))


@dataclass(frozen=True)
class Graph:
    """An undirected graph without loops: vertices, and edges as pairs of them.

    >>> star = Graph.of([("hub", leaf) for leaf in "abc"])
    >>> len(star.vertices), star.degree("hub")
    (4, 3)
    """

    vertices: frozenset[Hashable]
    edges: frozenset[frozenset[Hashable]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", frozenset(self.vertices))
        object.__setattr__(self, "edges", frozenset(frozenset(edge) for edge in self.edges))
        if any(len(edge) != 2 or not edge <= self.vertices for edge in self.edges):
            raise DomainError("an edge joins two different vertices of the graph")

    @staticmethod
    def of(edges: Iterable[tuple[Hashable, Hashable]], vertices: Iterable[Hashable] = ()) -> Graph:
        """The graph of these edges, and any further vertices; a loop or a repeated edge counts for nothing."""
        pairs = frozenset(frozenset(edge) for edge in edges if edge[0] != edge[1])
        return Graph(frozenset(vertices).union(*pairs) if pairs else frozenset(vertices), pairs)

    def degree(self, vertex: Hashable) -> int:
        return sum(vertex in edge for edge in self.edges)

    def without(self, vertex: Hashable) -> Graph:
        """The graph after one vertex left and took its edges along."""
        return Graph(self.vertices - {vertex}, frozenset(edge for edge in self.edges if vertex not in edge))


@dataclass(frozen=True)
class Graphs(Domain):
    """Undirected graphs; with `max_degree`, those in which no vertex has more edges than that."""

    max_degree: int | None = None

    def __post_init__(self) -> None:
        if self.max_degree is not None:
            object.__setattr__(self, "max_degree", count("max_degree", self.max_degree, least=0))

    def member(self, value: Any) -> bool:
        return isinstance(value, Graph) and (self.max_degree is None or all(value.degree(v) <= self.max_degree for v in value.vertices))

    def enforce(self, values: Any) -> Graph:
        if not isinstance(values, Graph):
            raise DomainError("a Graph is needed: Graph.of(edges)")
        if self.max_degree is not None:
            # Cutting edges is not stable under every relation, so it is never done silently.
            raise DomainError("a bound on degrees cannot be enforced in passing; use a Lipschitz extension, which needs none")
        return values

    def contains(self, other: Domain) -> bool:
        if not isinstance(other, Graphs):
            return False
        return self.max_degree is None or (other.max_degree is not None and other.max_degree <= self.max_degree)

    @property
    def default(self) -> Graph:
        return Graph(frozenset(), frozenset())
