"""Aggregates: from rows, or from a graph, to numbers, with the sensitivity as a function of the distance.

Counts, sums and means of numbers and vectors; histograms over public categories; the scores by which a quantile is
chosen; and counts of edges where what is protected is an edge. Sums are of whole numbers, so they are exact in any
order; a real column is rounded to a lattice first. Which cells a histogram has is never read from the data.

>>> from tacit.calculus import AddRemove, Graphs, Integers, ReplaceOne, Rows, Space
>>> plan = Space(Rows(Integers(10, 20)), AddRemove()) >> total()
>>> plan([10, 20]), plan.map(1), (Space(Rows(Integers(10, 20)), ReplaceOne()) >> total()).map(1)
(30, 20, 10)
>>> plan = Space(Rows(Categories("abc")), AddRemove()) >> histogram()
>>> plan(["a", "c", "a"]).tolist(), plan.map(1), (Space(Rows(Categories("abc")), ReplaceOne()) >> histogram()).map(1)
([2, 0, 1], 1, 2)
>>> plan = Space(Graphs(), Edges()) >> edge_count()
>>> plan(Graph.of([("hub", i) for i in range(100)])), plan.map(1)
(100, 1)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Ball, Categories, Graph, Graphs, Rows, Vectors
from tacit.calculus.datasets import exact_sum, length
from tacit.calculus.domains import Domain, Integers, Lattice, Reals, granule, integer_array, whole_bounds
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import L1, L2, Absolute, Edges, LInfinity, Metric, Nodes
from tacit.calculus.rows import exchanged, records_domain, rows_domain
from tacit.exact import root
from tacit.parameters import Number, number, probability
from tacit.parameters import count as whole


def _known_norm(norm: Metric) -> Metric:
    if not isinstance(norm, (L1, L2, LInfinity)):
        raise MetricError(f"norm must be L1(), L2() or LInfinity(), not {norm}")
    return norm


def times(factor: Number) -> Callable[[Number], Number]:
    """The map of a transformation that is `factor`-stable.

    >>> times(3)(2)
    6
    """

    def stability(distance: Number) -> Number:
        return distance * factor

    return stability


@dataclass(frozen=True)
class Count(Step):
    """How many rows there are."""

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "count")
        if not exchanged(space, "count"):
            output, proof = Space(Integers(0, None), Absolute()), "one row more or less changes the count by one"
            return Transformation(space, output, length, lambda d: d, "count()", proof)
        known = Integers(0, None) if domain.size is None else Integers(domain.size, domain.size)
        proof = "the number of rows is public and does not change"
        return Transformation(space, Space(known, Absolute()), length, lambda d: 0, "count()", proof)


def count() -> Count:
    """The number of rows: 1-stable under add/remove, constant under replace-one (1.4 of the textbook)."""
    return Count()


def bounds_of(element: Integers | Lattice, what: str) -> tuple[int, int]:
    """The public bounds of whole numbers, in granules, or a refusal."""
    low, high = whole_bounds(element)
    if low is None or high is None:
        raise DomainError(f"{what} needs public bounds; put clamp(lower, upper) before it")
    return low, high


def _whole(element: Domain, what: str) -> Integers | Lattice:
    if not isinstance(element, (Integers, Lattice)):
        raise DomainError(f"{what} adds whole numbers, so that sums are exact; {element} must be rounded first: round_to(granularity)")
    return element


@dataclass(frozen=True)
class Total(Step):
    """The sum of whole numbers, or of vectors of them, with public bounds."""

    norm: Metric | None = None

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "total")
        replaced = exchanged(space, "total")
        element = domain.element
        if isinstance(element, Vectors):
            norm = L2() if self.norm is None else self.norm
            inner = _whole(element.element, "total")
            step = _vector_step(element, norm, replaced)
            output = Space(Vectors(_unbounded(inner), element.length), norm)
            reason = "a row changes the sum by at most its norm, an exchanged one by at most the distance of two rows"
            name = f"total({'' if self.norm is None else norm})"
            return Transformation(space, output, _column_sums(element.length), times(step), name, reason)
        if self.norm is not None:
            raise MetricError(f"norm is for sums of vectors; a sum of numbers is measured by Absolute(), so leave norm={self.norm} out")
        low, high = bounds_of(_whole(element, "total"), "total")
        output = Space(_unbounded(element), Absolute())
        if replaced:
            step, reason = high - low, "an exchanged row changes the sum by at most the width of the bounds"
        else:
            step, reason = max(abs(low), abs(high)), "one row changes the sum by at most the larger bound"
        return Transformation(space, output, exact_sum, times(step), "total()", reason)


def _unbounded(element: Domain) -> Domain:
    return Lattice(element.granularity) if isinstance(element, Lattice) else Integers()


def _column_sums(columns: int) -> Callable[[Any], np.ndarray]:
    def sums(rows: Any) -> np.ndarray:
        array = np.asarray(rows).reshape(-1, columns)
        return integer_array([exact_sum(array[:, i]) for i in range(columns)])

    return sums


def _vector_step(vectors: Vectors, norm: Metric, replaced: bool) -> Number:
    """The largest norm of one row, or of the difference of two, in granules: the least of what the box and the ball allow."""
    _known_norm(norm)
    low, high = whole_bounds(_whole(vectors.element, "total"))
    one_sided = (low is not None and low >= 0) or (high is not None and high <= 0)
    found: list[Number] = []
    if low is not None and high is not None:
        side = high - low if replaced else max(abs(low), abs(high))
        found.append(_box(side, vectors.length, norm, 2 * side if replaced else max(high, 0) - min(low, 0)))
    if isinstance(vectors, Ball):
        found.append(_ball(vectors, norm, replaced, one_sided))
    if not found:
        raise DomainError("total needs public bounds; put clamp(lower, upper) or clip_norm(p, radius) before it")
    return min(found)


def _box(side: int, size: int, norm: Metric, span: int) -> Number:
    """The norm of a vector with all coordinates as large as they may be; `span` is the largest rise plus the largest fall."""
    match norm:
        case L1():
            return size * side
        case L2():
            return root(Fraction(size * side * side))
    return span if isinstance(norm, LInfinity) and norm.monotone and size > 1 else side


def _ball(ball: Ball, norm: Metric, replaced: bool, one_sided: bool) -> Number:
    radius, size = ball.granules, ball.length
    longest = radius if not replaced else 2 * radius
    match norm:
        case L1():
            return longest if ball.p == 1 else root(longest**2 * size)
        case L2():
            # Two vectors without opposite signs have a scalar product of at least 0, so |a - b|^2 <= |a|^2 + |b|^2.
            return root(2 * radius**2) if replaced and one_sided else longest
    # The largest coordinate is at most either norm; rise plus fall is at most the L1 norm, and sqrt(2) times the L2 norm.
    if isinstance(norm, LInfinity) and norm.monotone:
        return longest if ball.p == 1 else root(2 * longest**2)
    return radius if replaced and one_sided else longest


def total(norm: Metric | None = None) -> Total:
    """The exact sum of clamped whole numbers (or granules of a lattice); of vectors, measured by `norm` (L2 unless stated).

    >>> from tacit.calculus import AddRemove, L1, ReplaceOne, Rows, Space, Vectors
    >>> points = Rows(Vectors(Integers(-1, 1), 4))
    >>> [(Space(points, metric) >> total(L1())).map(1) for metric in (AddRemove(), ReplaceOne())]
    [4, 8]
    """
    return Total(norm)


@dataclass(frozen=True)
class Mean(Step):
    """The sum over a public number of rows."""

    norm: Metric | None = None

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "mean")
        if not exchanged(space, "mean"):
            raise MetricError(
                "mean divides by the number of rows, which is private under add/remove; release total() and count() and divide them, "
                "or make the number public with resize(n, constant)"
            )
        if not domain.size:
            raise DomainError("mean needs the public number of rows, at least 1: Rows(..., size=n), or resize(n, constant) before it")
        plan = Total(self.norm).bind(space)
        # The sum in granules is the mean in granules n times as fine: nothing is divided, so nothing is rounded.
        inner = plan.output.domain
        fine = Lattice(plan.output.unit / domain.size, *_mean_bounds(domain))
        output = Space(Vectors(fine, inner.length) if isinstance(inner, Vectors) else fine, plan.output.metric)
        name = f"mean({'' if self.norm is None else self.norm})"
        return Transformation(space, output, plan.function, plan.stability, name, "the sum, in units of one over the public number of rows")


def _mean_bounds(rows: Rows) -> tuple[Number | None, Number | None]:
    element = rows.element.element if isinstance(rows.element, Vectors) else rows.element
    return (element.lower, element.upper) if isinstance(element, (Integers, Lattice)) else (None, None)


def mean(norm: Metric | None = None) -> Mean:
    """The exact mean of bounded numbers or vectors where the number of rows is public (textbook 1.4: width over n).

    >>> from tacit.calculus import Integers, ReplaceOne, Rows, Space
    >>> plan = Space(Rows(Integers(0, 100), size=4), ReplaceOne()) >> mean()
    >>> plan([0, 50, 51, 100]), plan.output.unit, plan.sensitivity()
    (201, Fraction(1, 4), Fraction(25, 1))
    """
    return Mean(norm)


# Histograms. Under add/remove one row changes one cell by 1, so d rows have L1, L2 and L-infinity norm at most d, which d
# copies of one row reach. An exchanged row leaves one cell for another: at most 2d, sqrt(2) d and d, which d copies moved
# from one cell to another reach.

ONE_CELL = "one row is in one cell; an exchanged row leaves one cell for another"


def cell_step(space: Space, norm: Metric, what: str) -> Number:
    """How much a histogram changes per row, in the norm asked for."""
    _known_norm(norm)
    if not exchanged(space, what):
        return 1
    if isinstance(norm, L2):
        return root(Fraction(2))
    return 1 if isinstance(norm, LInfinity) and not norm.monotone else 2


def _categories(domain: Domain, what: str) -> Categories:
    if not isinstance(domain, Categories):
        raise DomainError(f"{what} needs public categories, not {domain}; put cast(Categories(...)) or bins(edges) before it")
    return domain


@dataclass(frozen=True)
class Histogram(Step):
    """How many rows are in each public category."""

    norm: Metric

    def bind(self, space: Space) -> Transformation:
        categories = _categories(rows_domain(space, "histogram").element, "histogram")
        step = cell_step(space, self.norm, "histogram")
        output = Space(Vectors(Integers(0, None), len(categories.values)), self.norm)

        def cells(data: Any) -> np.ndarray:
            found = Counter(categories.enforce(data))
            return np.array([found[value] for value in categories.values], dtype=np.int64)

        return Transformation(space, output, cells, times(step), f"histogram({self.norm})", ONE_CELL)


def histogram(norm: Metric | None = None) -> Histogram:
    """The number of rows in each public category, in their order; distances by `norm`, L1 unless stated.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> (Space(Rows(Categories("ab")), AddRemove()) >> histogram(L2())).output.metric
    L2()
    """
    return Histogram(L1() if norm is None else norm)


@dataclass(frozen=True)
class Marginal(Step):
    """How many rows have each combination of several columns' public categories."""

    columns: tuple[str, ...]
    norm: Metric

    def bind(self, space: Space) -> Transformation:
        what = f"marginal({', '.join(map(repr, self.columns))})"
        records, columns = records_domain(space, what), self.columns
        domains = [_categories(records[name], what) for name in columns]
        step = cell_step(space, self.norm, what)
        output = Space(Vectors(Integers(0, None), math.prod(len(d.values) for d in domains)), self.norm)

        def cells(data: Any) -> np.ndarray:
            found = Counter(zip(*(d.enforce(data[name]) for d, name in zip(domains, columns, strict=True)), strict=True))
            return np.array([found[cell] for cell in product(*(d.values for d in domains))], dtype=np.int64)

        return Transformation(space, output, cells, times(step), what, ONE_CELL)


def marginal(*columns: str, norm: Metric | None = None) -> Marginal:
    """The joint histogram of columns of categories; the last column varies fastest.

    >>> from tacit.calculus import AddRemove, Space, table
    >>> people = Space(table(sex=Categories("fm"), smokes=Categories(("no", "yes"))), AddRemove())
    >>> (people >> marginal("sex", "smokes"))({"sex": ["f", "f", "m"], "smokes": ["no", "yes", "no"]}).tolist()
    [1, 1, 1, 0]
    """
    if not columns or len(set(columns)) != len(columns):
        raise DomainError("name the columns of the marginal, each once")
    return Marginal(columns, L1() if norm is None else norm)


@dataclass(frozen=True)
class QuantileScores(Step):
    """How good each public candidate is as a quantile."""

    candidates: tuple[Number, ...]
    level: Fraction

    def bind(self, space: Space) -> Transformation:
        what = f"quantile_scores(level={self.level})"
        element = rows_domain(space, what).element
        if not isinstance(element, (Integers, Lattice, Reals)):
            raise DomainError(f"{what} orders numbers, not {element}; cast them first: cast(Reals())")
        below, above = self.level.denominator - self.level.numerator, self.level.numerator
        if exchanged(space, what):
            step, reason = below + above, "an exchanged row leaves one of the two counts for the other"
        else:
            step, reason = max(below, above), "a row adds to one of the two counts"
        candidates = [Fraction(candidate) / granule(element) for candidate in self.candidates]

        def scores(data: Any) -> np.ndarray:
            values = element.enforce(data)
            known = sorted(value for value in values.tolist() if value == value)
            counts = [(bisect_left(known, c), len(known) - bisect_right(known, c)) for c in candidates]
            return np.array([-abs(below * less - above * more) for less, more in counts], dtype=np.int64)

        output = Space(Vectors(Lattice(Fraction(1, self.level.denominator), None, 0), len(candidates)), LInfinity())
        return Transformation(space, output, scores, times(step), what, reason)


def quantile_scores(candidates: Iterable[Number], level: Number = Fraction(1, 2)) -> QuantileScores:
    """The score -|(1 - level) #(x < c) - level #(x > c)| of each public candidate c; missing values count on neither side.

    Held in units of one over the denominator of `level`, so that it is exact: max(level, 1 - level) per row added or removed, 1 per
    row exchanged.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> plan = Space(Rows(Integers(0, 9)), AddRemove()) >> quantile_scores([2, 4, 6])
    >>> plan([1, 4, 8]).tolist(), plan.map(1), plan.sensitivity()
    ([-1, 0, -1], 1, Fraction(1, 2))
    """
    given = tuple(number("candidates", c) for c in candidates)
    if not given or any(isinstance(c, float) and math.isinf(c) for c in given):
        raise DomainError("candidates must be finite numbers, at least one")
    exact = Fraction(probability("level", level)) if not isinstance(level, float) else Fraction(str(probability("level", level)))
    return QuantileScores(given, exact)


# Graphs, where what is protected is an edge. Where it is a whole vertex with its edges, one vertex may have any number of
# them and nothing simple is stable: use the Lipschitz extensions of `tacit.mechanisms`.

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
        return Transformation(space, output, lambda graph: len(graph.edges), times(factor), "edge_count()", proof)


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
        factor: Number = 4
        if isinstance(_known_norm(self.norm), L2):
            factor = root(Fraction(8))
        elif isinstance(self.norm, LInfinity) and not self.norm.monotone:
            factor = 2
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
