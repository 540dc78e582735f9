"""Graphs, and the domain of them.

>>> Graphs().member(Graph.of([("a", "b")])), Graphs(max_degree=0).member(Graph.of([("a", "b")]))
(True, False)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from tacit.accounting.parameters import count
from tacit.calculus.domain import Domain
from tacit.calculus.errors import DomainError


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
        inside = isinstance(other, Graphs) and other.max_degree is not None
        return isinstance(other, Graphs) and (self.max_degree is None or (inside and (other.max_degree or 0) <= self.max_degree))

    @property
    def default(self) -> Graph:
        return Graph(frozenset(), frozenset())
