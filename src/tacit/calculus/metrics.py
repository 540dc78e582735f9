"""Metrics: how far apart two inputs are. What is protected is a change of distance 1 under the metric of the private data.

Plans only compare metrics for equality; tests and stability checks measure with them (`distance`). A metric on data sets
names the neighbouring relation (`adjacency`) that distance 1 stands for; a metric on numbers has none of its own.

>>> AddRemove().distance([1, 2, 2], [2, 3])
3
>>> L1().distance([0, 3], [1, 1])
Fraction(3, 1)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tacit.accounting import Adjacency
from tacit.calculus.collection_domains import Graph, Graphs, Records, Rows, Vectors
from tacit.calculus.datasets import keys, length, owners, same, take
from tacit.calculus.domains import Domain, Integers, Lattice, Reals, listed, plain
from tacit.exact import root
from tacit.parameters import Number


@dataclass(frozen=True)
class Metric:
    """A distance between two members of a domain. `adjacency` is the relation that distance 1 stands for, None on numbers."""

    adjacency: ClassVar[Adjacency | None] = None

    def admits(self, domain: Domain) -> bool:
        """Whether this metric is defined on the domain."""
        raise NotImplementedError

    def distance(self, first: Any, second: Any) -> Number:
        """How far apart two values are; infinite where no number of steps leads from one to the other."""
        raise NotImplementedError

    def within(self, first: Any, second: Any, bound: Number) -> bool:
        """Whether two values are at most this far apart, decided exactly."""
        return self.distance(first, second) <= bound

    def counted(self, domain: Domain, data: Any) -> Any:
        """The part of raw data that this metric counts, before the domain is enforced: all of it."""
        return data


def as_multiset(data: Any) -> Counter[Hashable]:
    """Rows counted: a list or array of values, or a table's columns."""
    return Counter(keys(data))


@dataclass(frozen=True)
class AddRemove(Metric):
    """Rows added or removed, in no order. The number of rows is private."""

    adjacency = Adjacency.ADD_REMOVE

    def admits(self, domain: Domain) -> bool:
        # With a public size no row can come or go: the relation would be empty and the guarantee vacuous.
        return isinstance(domain, Rows) and domain.size is None

    def distance(self, first: Any, second: Any) -> int:
        one, two = as_multiset(first), as_multiset(second)
        return sum(((one - two) + (two - one)).values())


@dataclass(frozen=True)
class ReplaceOne(Metric):
    """Rows exchanged for others, in no order. The number of rows is public."""

    adjacency = Adjacency.REPLACE_ONE

    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, Rows)

    def distance(self, first: Any, second: Any) -> Number:
        one, two = as_multiset(first), as_multiset(second)
        if one.total() != two.total():
            return math.inf
        return (one - two).total()


@dataclass(frozen=True)
class Hamming(Metric):
    """Positions at which two equally long lists differ. The number of rows and their order are public."""

    adjacency = Adjacency.REPLACE_ONE

    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, (Rows, Vectors))

    def distance(self, first: Any, second: Any) -> Number:
        one, two = keys(first), keys(second)
        return math.inf if len(one) != len(two) else sum(a != b for a, b in zip(one, two, strict=True))


@dataclass(frozen=True)
class Identifiers(Metric):
    """People added or removed with all their rows: the rows that share a value of `column` come and go together.

    One person may own any number of rows, so nothing can be released before a cap: `cap_rows(column, most)`.
    Identifiers are never clamped, rounded or read as something else, which would make one person of two: a row
    whose identifier is missing, or is not in its domain as it is, has no owner and is left out.

    >>> Identifiers("id").distance({"id": [1, 1, 2]}, {"id": [2]})
    1
    """

    adjacency = Adjacency.ADD_REMOVE
    column: str

    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, Rows) and domain.size is None and isinstance(domain.element, Records) and self.column in domain.element

    def distance(self, first: Any, second: Any) -> int:
        one, two = self._owned(first), self._owned(second)
        # A person whose rows changed left and came back: two steps.
        return sum((1 if not (one.get(p) and two.get(p)) else 2) for p in one.keys() | two.keys() if one.get(p) != two.get(p))

    def _owned(self, data: Any) -> dict[Hashable, Counter[Hashable]]:
        owned: dict[Hashable, Counter[Hashable]] = {}
        for person, row in zip(owners(data, self.column), keys(data), strict=True):
            if person is not None:
                owned.setdefault(person, Counter())[row] += 1
        return owned

    def counted(self, domain: Domain, data: Any) -> Any:
        """The rows that belong to a person: their identifier is in its domain as it is."""
        if not isinstance(data, Mapping) or not isinstance(domain, Rows) or not isinstance(domain.element, Records):
            return data  # the domain refuses it
        columns = {name: data[name] if isinstance(data[name], np.ndarray) else listed(data[name]) for name in data}
        if self.column not in columns or len({length(column) for column in columns.values()}) > 1:
            return data
        given, inner = listed(columns[self.column]), domain.element[self.column]
        read = listed(inner.enforce_rows(given) if isinstance(inner, Vectors) else inner.enforce(given))
        people = owners({self.column: read}, self.column)
        pairs = zip(given, read, people, strict=True)
        kept = [i for i, (raw, found, person) in enumerate(pairs) if person is not None and same(raw, found)]
        return data if len(kept) == len(given) else take(columns, kept)


def _exact(value: Any) -> Fraction:
    return Fraction(plain(value))


def _is_number(domain: Domain) -> bool:
    return isinstance(domain, (Integers, Lattice, Reals))


@dataclass(frozen=True)
class Absolute(Metric):
    """The difference of two numbers. On a lattice it is counted in granules, as the values themselves are."""

    def admits(self, domain: Domain) -> bool:
        return _is_number(domain)

    def distance(self, first: Any, second: Any) -> Number:
        return abs(_exact(first) - _exact(second))


@dataclass(frozen=True)
class _Norm(Metric):
    """A norm of the difference of two vectors of numbers."""

    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, Vectors) and _is_number(domain.element)


@dataclass(frozen=True)
class L1(_Norm):
    """The sum of the coordinates' differences."""

    def distance(self, first: Any, second: Any) -> Number:
        return sum((abs(_exact(a) - _exact(b)) for a, b in zip(first, second, strict=True)), Fraction(0))


@dataclass(frozen=True)
class L2(_Norm):
    """The Euclidean distance, rounded up where it is irrational."""

    def distance(self, first: Any, second: Any) -> Number:
        return root(self._square(first, second))

    def within(self, first: Any, second: Any, bound: Number) -> bool:
        return self._square(first, second) <= Fraction(bound) ** 2

    def _square(self, first: Any, second: Any) -> Fraction:
        return sum(((_exact(a) - _exact(b)) ** 2 for a, b in zip(first, second, strict=True)), Fraction(0))


@dataclass(frozen=True)
class LInfinity(_Norm):
    """The largest of the coordinates' differences. With `monotone`, the largest rise plus the largest fall.

    Scores that only grow when a row is added are monotone: between neighbours no coordinate rises while another falls, both
    metrics agree, and selection, whose privacy loss is governed by rise plus fall, costs half.

    >>> LInfinity().distance([0, 0], [3, 1]), LInfinity(monotone=True).distance([0, 0], [3, 1])
    (Fraction(3, 1), Fraction(3, 1))
    >>> LInfinity().distance([0, 0], [3, -1]), LInfinity(monotone=True).distance([0, 0], [3, -1])
    (Fraction(3, 1), Fraction(4, 1))
    """

    monotone: bool = False

    def distance(self, first: Any, second: Any) -> Number:
        steps = [_exact(a) - _exact(b) for a, b in zip(first, second, strict=True)]
        rise, fall = max([Fraction(0), *steps]), -min([Fraction(0), *steps])
        return rise + fall if self.monotone else max(rise, fall)


@dataclass(frozen=True)
class Edges(Metric):
    """Edges added to or removed from a graph; its vertices are public."""

    adjacency = Adjacency.ADD_REMOVE

    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, Graphs)

    def distance(self, first: Graph, second: Graph) -> Number:
        return len(first.edges ^ second.edges) if first.vertices == second.vertices else math.inf


@dataclass(frozen=True)
class Nodes(Metric):
    """Vertices added to or removed from a graph, each with all its edges.

    Measured only between a graph and what is left after vertices have gone; that is what neighbours are.
    """

    adjacency = Adjacency.ADD_REMOVE

    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, Graphs)

    def distance(self, first: Graph, second: Graph) -> Number:
        large, small = (first, second) if len(first.vertices) >= len(second.vertices) else (second, first)
        gone = large.vertices - small.vertices
        left = frozenset(edge for edge in large.edges if not edge & gone)
        if small.vertices <= large.vertices and left == small.edges:
            return len(gone)
        return math.inf
