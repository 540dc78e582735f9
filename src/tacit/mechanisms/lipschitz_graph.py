"""Statistics of graphs that one person can change only a little: Lipschitz extensions for node privacy.

A person who leaves takes all their edges along, so the number of edges or triangles can fall by any amount. The functions
here equal the true count on graphs of degree at most D, and on every graph one vertex changes them by at most what it could
change on those.

>>> from tacit.calculus import Graph, Graphs, Nodes
>>> plan = Space(Graphs(), Nodes()) >> lipschitz_edge_count(max_degree=3)
>>> star = Graph.of([("hub", leaf) for leaf in range(10)])
>>> plan(star) / 2, plan.map(1)  # counted in halves: 3 edges of 10, and one vertex changes at most 3
(3.0, 6)
>>> (Space(Graphs(), Nodes()) >> triangle_count(max_degree=3)).map(1) / 64  # counted in 64ths: 3 triangles, C(3, 2)
3.0

The value of a linear program comes out of floating-point arithmetic, which has no sensitivity. It is therefore bracketed by feasible
solutions of both sides in whole numbers, and rounded down to a lattice; where the bracket does not settle which step, an exact simplex
does. What is released is a function of the graph alone.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacit.accounting import ParameterError
from tacit.calculus import (
    L1,
    Absolute,
    DomainError,
    Edges,
    Graph,
    Graphs,
    Integers,
    Lattice,
    MetricError,
    Nodes,
    Space,
    Step,
    Transformation,
    Vectors,
)
from tacit.mechanisms.accuracy import rounded_up
from tacit.mechanisms.laplace import LaplaceMechanism
from tacit.mechanisms.mechanism import Additive
from tacit.parameters import Number, count, positive

STEP = Fraction(1, 64)
#: Added before rounding down, so that the edge of a step lies far from every fraction with a small denominator, as values of such programs
#: are: the golden section is the number hardest to approximate. So a narrow bracket settles the step.
_OFFSET = STEP * Fraction(381966011250105, 10**15)
_FIXED = 2**40

Copies = Sequence[frozenset[Hashable]]


def per_change(space: Space, what: str, *, node: int, edge: int) -> Callable[[Number], Number]:
    """The stability map: so many steps for a vertex with its edges, so many for an edge."""
    if not isinstance(space.domain, Graphs):
        raise DomainError(f"{what} works on graphs, not on {space.domain}")
    match space.metric:
        case Nodes():
            factor = node
        case Edges():
            factor = edge
        case _:
            raise MetricError(f"{what} is proved for Nodes() and Edges(), not for {space.metric}")
    return lambda distance: factor * math.floor(distance)


def _widest(alpha: Number, beta: Number, *, dimension: int = 1, granularity: Fraction) -> LaplaceMechanism:
    return LaplaceMechanism.for_accuracy(alpha, beta, dimension=dimension, granularity=granularity)


def edge_flow(graph: Graph, max_degree: int) -> int:
    """The maximum flow from a source to left copies of the vertices (capacity D), along edges both ways (1), from right copies to a sink.

    It is twice the number of edges where no degree exceeds D. A vertex carries at most 2 D of it; an edge at most 2.

    >>> edge_flow(Graph.of([(a, b) for a in range(6) for b in range(a)]), 3) / 2
    9.0
    """
    if not graph.edges:
        return 0
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    place = {vertex: i for i, vertex in enumerate(graph.vertices)}
    n = len(place)
    source, sink = 2 * n, 2 * n + 1
    ends = [tuple(place[v] for v in edge) for edge in graph.edges]
    tails = [*([source] * n), *(a for a, _ in ends), *(b for _, b in ends), *range(n, 2 * n)]
    heads = [*range(n), *(n + b for _, b in ends), *(n + a for a, _ in ends), *([sink] * n)]
    # no vertex carries more than its n - 1 edges, so a larger capacity means nothing and might not fit a word
    limit = min(max_degree, n)
    capacity = np.array([limit] * n + [1] * (2 * len(ends)) + [limit] * n, dtype=np.int32)
    return int(maximum_flow(csr_array((capacity, (tails, heads)), shape=(2 * n + 2, 2 * n + 2)), source, sink).flow_value)


@dataclass(frozen=True)
class EdgeCount(Step):
    """The number of edges, extended from graphs of degree at most `max_degree`; counted in halves.

    Guarantee
        Statement: one vertex with its edges changes the value by at most max_degree, one edge by at most 1; it equals the number of edges
        on graphs of degree at most max_degree.
        Conditions: vertex or edge distance; any graph.
        Proved in: Kasiviswanathan, Nissim, Raskhodnikova and Smith 2013 (flow). Without a vertex at most its two capacities are lost.
    """

    max_degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_degree", count("max_degree", self.max_degree))

    def bind(self, space: Space) -> Transformation:
        stability = per_change(space, "lipschitz_edge_count", node=2 * self.max_degree, edge=2)
        output = Space(Lattice(Fraction(1, 2), 0, None), Absolute())
        name = f"lipschitz_edge_count(max_degree={self.max_degree})"
        return Transformation(space, output, lambda graph: edge_flow(graph, self.max_degree), stability, name, "KNRS 2013, flow")

    def accuracy(self, beta: Number, *, noise: Additive) -> float:
        """The error with this noise after it, on graphs of degree at most `max_degree`, exceeded with probability at most beta.

        On other graphs the count is also too low, by what only the graph knows.

        >>> from tacit.mechanisms.laplace import laplace
        >>> lipschitz_edge_count(max_degree=3).accuracy(0.05, noise=laplace(3))
        9.0
        """
        return noise.accuracy(beta, granularity=Fraction(1, 2))

    def for_accuracy(self, alpha: Number, beta: Number) -> LaplaceMechanism:
        """The widest Laplace noise to chain after this step that keeps the error within alpha except with probability beta.

        >>> from tacit.calculus import Nodes
        >>> step = lipschitz_edge_count(max_degree=3)
        >>> plan = Space(Graphs(), Nodes()) >> step >> step.for_accuracy(9, 0.05)
        >>> plan.accuracy(0.05)
        9.0
        """
        return _widest(alpha, beta, granularity=Fraction(1, 2))


def lipschitz_edge_count(*, max_degree: int) -> EdgeCount:
    """The number of edges of a graph, for node or edge privacy."""
    return EdgeCount(max_degree)


def triangles(graph: Graph) -> Copies:
    """The vertex sets of all triangles."""
    return cliques(graph, 3)


def cliques(graph: Graph, size: int) -> Copies:
    """The vertex sets of all complete subgraphs of a size."""
    near = _neighbours(graph)
    place = {vertex: i for i, vertex in enumerate(graph.vertices)}
    found: list[tuple[tuple[Hashable, ...], frozenset[Hashable]]] = [((v,), near[v]) for v in graph.vertices]
    for _ in range(size - 1):
        found = [((*c, v), rest & near[v]) for c, rest in found for v in rest if place[v] > place[c[-1]]]
    return [frozenset(c) for c, _ in found]


def stars(graph: Graph, leaves: int) -> Copies:
    """The vertex sets of all stars with this many leaves, one for each choice of centre and leaves."""
    near = _neighbours(graph)
    return [frozenset((centre, *chosen)) for centre in graph.vertices for chosen in itertools.combinations(near[centre], leaves)]


def _neighbours(graph: Graph) -> dict[Hashable, frozenset[Hashable]]:
    near: dict[Hashable, set[Hashable]] = {vertex: set() for vertex in graph.vertices}
    for edge in graph.edges:
        one, two = edge
        near[one].add(two)
        near[two].add(one)
    return {vertex: frozenset(others) for vertex, others in near.items()}


def bracket(copies: Copies, bound: int) -> tuple[Fraction, Fraction]:
    """Certified ends around the program's value: the largest sum of x_c over the copies *that exist*, 0 <= x_c <= 1, `bound` at a vertex.

    The solver only proposes. Its x is cut to [0, 1] and scaled down until no vertex is overloaded; its vertex prices y are made
    nonnegative, and each copy pays what they leave of 1. Both are feasible by construction and are summed in whole numbers.

    >>> k4 = Graph.of([(a, b) for a in range(4) for b in range(a)])
    >>> low, high = bracket(triangles(k4), 1)
    >>> bool(low <= Fraction(4, 3) <= high), float(high - low) < 1e-6
    (True, True)
    """
    if not copies:
        return Fraction(0), Fraction(0)
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    vertices = {v: i for i, v in enumerate(dict.fromkeys(v for c in copies for v in c))}
    members = [[vertices[v] for v in c] for c in copies]
    rows, columns = [i for m in members for i in m], [j for j, m in enumerate(members) for _ in m]
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(vertices), len(copies)))
    solved = linprog(-np.ones(len(copies)), A_ub=matrix, b_ub=np.full(len(vertices), float(bound)), bounds=(0, 1), method="highs")
    if solved.status != 0:
        return Fraction(0), Fraction(len(copies))
    shares = [int(x * _FIXED) for x in np.clip(np.nan_to_num(solved.x), 0, 1).tolist()]
    loads = [0] * len(vertices)
    for share, m in zip(shares, members, strict=True):
        for i in m:
            loads[i] += share
    low = Fraction(sum(shares), _FIXED) * min(Fraction(1), Fraction(bound * _FIXED, max(*loads, 1)))
    # a price above a whole copy buys nothing more; and no value that a solver proposes may raise
    prices = [math.ceil(y * _FIXED) for y in np.clip(np.nan_to_num(-solved.ineqlin.marginals), 0, 1).tolist()]
    high = bound * sum(prices) + sum(max(0, _FIXED - sum(prices[i] for i in m)) for m in members)
    return low, min(Fraction(high, _FIXED), Fraction(len(copies)))


def exact_value(copies: Copies, bound: int) -> Fraction:
    """The program's value in fractions, by the simplex method with Bland's rule, which always ends. Slow: for what a bracket leaves open.

    >>> exact_value(triangles(Graph.of([(a, b) for a in range(5) for b in range(a)])), 3)
    Fraction(5, 1)
    """
    vertices = list(dict.fromkeys(v for c in copies for v in c))
    width = len(copies)
    rows = [[Fraction(v in c) for c in copies] for v in vertices] + [[Fraction(i == j) for j in range(width)] for i in range(width)]
    return exact_maximum([Fraction(1)] * width, rows, [Fraction(bound)] * len(vertices) + [Fraction(1)] * width)


def exact_maximum(gains: Sequence[Fraction], rows: Sequence[Sequence[Fraction]], limits: Sequence[Fraction]) -> Fraction:
    """The most of gains . x over x >= 0 with rows . x <= limits, none of which is negative; the maximum must exist.

    >>> one = Fraction(1)
    >>> exact_maximum([one, one], [[one, 2 * one], [2 * one, one]], [one, one])
    Fraction(2, 3)
    """
    width, height = len(gains), len(rows)
    table = [[*row, *(Fraction(i == j) for j in range(height)), limits[i]] for i, row in enumerate(rows)]
    gain = [*gains, *([Fraction(0)] * (height + 1))]
    basis = [width + i for i in range(height)]
    while True:
        enter = next((j for j in range(width + height) if gain[j] > 0), None)
        if enter is None:
            return -gain[-1]
        ratios = [(table[i][-1] / table[i][enter], basis[i], i) for i in range(height) if table[i][enter] > 0]
        _, _, leave = min(ratios)
        pivot = table[leave][enter]
        table[leave] = [value / pivot for value in table[leave]]
        basis[leave] = enter
        for row in (*(table[i] for i in range(height) if i != leave), gain):
            factor = row[enter]
            if factor:
                for j, value in enumerate(table[leave]):
                    if value:
                        row[j] -= factor * value


def settled(copies: Copies, bound: int) -> int:
    """The program's value plus a public offset, rounded down to steps: a whole number that depends on the graph alone."""
    low, high = (math.floor((end + _OFFSET) / STEP) for end in bracket(copies, bound))
    return low if low == high else math.floor((exact_value(copies, bound) + _OFFSET) / STEP)


@dataclass(frozen=True)
class SubgraphCount(Step):
    """The number of copies of a small pattern, extended from graphs of degree at most `max_degree`; counted in 64ths.

    Guarantee
        Statement: one vertex with its edges, or one edge, changes the value by at most `per_vertex`, the number of copies that contain one
        vertex of a graph of degree at most max_degree; on such graphs it is the number of copies.
        Conditions: vertex or edge distance; any graph. Time depends on the graph and is not hidden.
        Proved in: Kasiviswanathan, Nissim, Raskhodnikova and Smith 2013 (linear program). A solution without the vertex is a solution with
        it, and one with it loses at most per_vertex without; graphs that differ in an edge have all but an endpoint in common. Rounding
        down after a fixed offset keeps a bound that is a whole number of steps.
        Correction: copies that do not exist have no variable; the textbook creates them all the same (E14).
    """

    pattern: str
    max_degree: int
    size: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_degree", count("max_degree", self.max_degree))
        object.__setattr__(self, "size", count("size", self.size, least=2))
        if self.pattern not in ("clique", "star"):
            raise DomainError(f"pattern must be 'clique' or 'star', not {self.pattern!r}")

    @property
    def per_vertex(self) -> int:
        """The most copies that contain one vertex where degrees are at most max_degree; at least 1.

        >>> triangle_count(max_degree=5).per_vertex, star_count(2, max_degree=3).per_vertex
        (10, 9)
        """
        degree = self.max_degree
        if self.pattern == "clique":
            return max(1, math.comb(degree, self.size - 1))
        # as the centre, or as a leaf of each neighbour
        return max(1, math.comb(degree, self.size) + degree * math.comb(degree - 1, self.size - 1))

    def copies(self, graph: Graph) -> Copies:
        """The copies that exist."""
        return cliques(graph, self.size) if self.pattern == "clique" else stars(graph, self.size)

    def bind(self, space: Space) -> Transformation:
        steps = self.per_vertex * STEP.denominator
        stability = per_change(space, f"{self.pattern}_count", node=steps, edge=steps)
        output = Space(Lattice(STEP, 0, None), Absolute())
        name = f"{self.pattern}_count({self.size}, max_degree={self.max_degree})"
        bound = self.per_vertex
        return Transformation(space, output, lambda graph: settled(self.copies(graph), bound), stability, name, "KNRS 2013, E14")

    def accuracy(self, beta: Number, *, noise: Additive) -> float:
        """The error with this noise after it, on graphs of degree at most `max_degree`; a step of 1/64 more than the noise's own, since
        the count is rounded."""
        return rounded_up(noise.accuracy(beta, granularity=STEP) + float(STEP))

    def for_accuracy(self, alpha: Number, beta: Number) -> LaplaceMechanism:
        """The widest Laplace noise to chain after this step that keeps the error within alpha except with probability beta.

        >>> step = triangle_count(max_degree=3)
        >>> step.accuracy(0.05, noise=step.for_accuracy(20, 0.05)) <= 20
        True
        """
        left = Fraction(positive("alpha", alpha)) - STEP
        if left <= 0:
            raise ParameterError("alpha is below 1/64, the step that counts are rounded to; raise it")
        return _widest(left * (1 - Fraction(1, 2**40)), beta, granularity=STEP)


def triangle_count(*, max_degree: int) -> SubgraphCount:
    """The number of triangles."""
    return SubgraphCount("clique", max_degree, 3)


def clique_count(size: int, *, max_degree: int) -> SubgraphCount:
    """The number of complete subgraphs with `size` vertices."""
    return SubgraphCount("clique", max_degree, size)


def star_count(leaves: int, *, max_degree: int) -> SubgraphCount:
    """The number of stars with so many leaves."""
    return SubgraphCount("star", max_degree, leaves)


@dataclass(frozen=True)
class DegreeHistogram(Step):
    """How many vertices have 0, 1, ..., max_degree edges, after edges were laid one by one as long as both ends had room.

    Guarantee
        Statement: one vertex with its edges changes the histogram by at most 2 max_degree + 1 in L1, one edge by at most 4; on graphs of
        degree at most max_degree it is the true one.
        Conditions: vertex or edge distance; vertices whose names (`repr`) differ.
        Proved in: Day, Li and Lyu 2016, re-derived. Edges are laid in an order that depends on each edge alone. Let D(v) be the difference
        of the degrees with and without a vertex u. An edge of u that is laid raises the sum of |D| over the others by at most 1, and at
        most max_degree are laid. Any other edge that is laid in one run only is refused in the other at an end where that run is ahead:
        there |D| falls by 1, and at the other end it rises by at most 1. So at most max_degree vertices change bins, and u is in one bin
        more.
    """

    max_degree: int
    key: bytes = b"tacit"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_degree", count("max_degree", self.max_degree))

    def histogram(self, graph: Graph) -> np.ndarray:
        """The counts."""
        room = dict.fromkeys(graph.vertices, self.max_degree)
        for edge in sorted(graph.edges, key=self._order):
            one, two = edge
            if room[one] and room[two]:
                room[one], room[two] = room[one] - 1, room[two] - 1
        found = np.zeros(self.max_degree + 1, dtype=np.int64)
        for left in room.values():
            found[self.max_degree - left] += 1
        return found

    def _order(self, edge: frozenset[Hashable]) -> bytes:
        names = "|".join(sorted(repr(vertex) for vertex in edge))
        return hashlib.blake2b(names.encode(), key=self.key[:64], digest_size=16).digest()

    def bind(self, space: Space) -> Transformation:
        stability = per_change(space, "lipschitz_degree_histogram", node=2 * self.max_degree + 1, edge=4)
        output = Space(Vectors(Integers(0, None), self.max_degree + 1), L1())
        name = f"lipschitz_degree_histogram(max_degree={self.max_degree})"
        return Transformation(space, output, self.histogram, stability, name, "Day, Li, Lyu 2016")

    def accuracy(self, beta: Number, *, noise: Additive) -> float:
        """The error of all bins at once with this noise after it, on graphs of degree at most `max_degree`."""
        return noise.accuracy(beta, dimension=self.max_degree + 1, granularity=1)

    def for_accuracy(self, alpha: Number, beta: Number) -> LaplaceMechanism:
        """The widest Laplace noise to chain after this step that keeps all bins within alpha except with probability beta.

        >>> step = lipschitz_degree_histogram(max_degree=4)
        >>> step.accuracy(0.05, noise=step.for_accuracy(20, 0.05))
        20.0
        """
        return _widest(alpha, beta, dimension=self.max_degree + 1, granularity=Fraction(1))


def lipschitz_degree_histogram(*, max_degree: int, key: bytes = b"tacit") -> DegreeHistogram:
    """The degree histogram, for node or edge privacy. The key decides in which order edges are laid."""
    return DegreeHistogram(max_degree, key)
