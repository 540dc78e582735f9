"""Statistics of graphs, where what is protected is an edge.

Where it is a whole vertex with its edges, one vertex may have any number of them and nothing simple is stable: use the Lipschitz
extensions among the mechanisms.

>>> from tacit.calculus import Edges, Graph, Graphs, Space
>>> star = Graph.of([("hub", i) for i in range(100)])
>>> plan = Space(Graphs(), Edges()) >> edge_count()
>>> plan(star), plan.map(1)
(100, 1)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacit.calculus.aggregates import times
from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Graph, Graphs, Vectors
from tacit.calculus.domains import Integers
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import L1, L2, Absolute, Edges, LInfinity, Metric, Nodes, root
from tacit.parameters import Number
from tacit.parameters import count as whole


def _graphs(space: Space, what: str) -> Graphs:
    if not isinstance(space.domain, Graphs):
        raise DomainError(f"{what} works on graphs, not on {space.domain}")
    return space.domain


@dataclass(frozen=True)
class EdgeCount(Step):
    """How many edges a graph has."""

    def bind(self, space: Space) -> Transformation:
        domain = _graphs(space, "edge_count")
        output = Space(Integers(0, None), Absolute())
        match space.metric:
            case Edges():
                factor, proof = 1, "one edge more or less"
            case Nodes() if domain.max_degree is not None:
                factor, proof = domain.max_degree, "a vertex takes along at most as many edges as its degree"
            case _:
                raise MetricError(
                    f"edge_count has no stability under {space.metric}: one vertex may have any number of edges. "
                    "Use a Lipschitz extension, or protect edges: Edges()"
                )
        return Transformation(space, output, _edges, times(factor), "edge_count()", proof)


def _edges(graph: Graph) -> int:
    return len(graph.edges)


def edge_count() -> EdgeCount:
    """The number of edges: 1-stable where edges are protected."""
    return EdgeCount()


@dataclass(frozen=True)
class DegreeHistogram(Step):
    """How many vertices have each degree up to a public one."""

    largest: int
    norm: Metric

    def bind(self, space: Space) -> Transformation:
        what = f"degree_histogram({self.largest})"
        _graphs(space, what)
        if not isinstance(space.metric, Edges):
            raise MetricError(f"{what} has no stability under {space.metric}: one vertex may change every degree; protect edges: Edges()")
        # An edge moves its two ends one cell up. Both from the same cell is the worst: -2 there and +2 next to it.
        factor: Number
        match self.norm:
            case L1():
                factor = 4
            case L2():
                factor = root(Fraction(8))
            case LInfinity():
                factor = 4 if self.norm.monotone else 2
            case _:
                raise MetricError(f"norm must be L1(), L2() or LInfinity(), not {self.norm}")
        largest = self.largest

        def cells(graph: Graph) -> np.ndarray:
            degrees = Counter(vertex for edge in graph.edges for vertex in edge)
            found = Counter(min(degrees[vertex], largest) for vertex in graph.vertices)
            return np.array([found[degree] for degree in range(largest + 1)], dtype=np.int64)

        output = Space(Vectors(Integers(0, None), largest + 1), self.norm)
        return Transformation(space, output, cells, times(factor), what, "an edge moves two vertices by one degree each")


def degree_histogram(largest: int, norm: Metric | None = None) -> DegreeHistogram:
    """The number of vertices of degree 0, 1, ..., `largest` or more.

    >>> from tacit.calculus import Edges, Graph, Graphs, Space
    >>> plan = Space(Graphs(), Edges()) >> degree_histogram(2)
    >>> plan(Graph.of([("hub", i) for i in range(5)])).tolist(), plan.map(1)
    ([0, 5, 1], 4)
    """
    return DegreeHistogram(whole("largest", largest), L1() if norm is None else norm)
