"""Graph statistics: extensions that equal the count where degrees are small, and never change by more than promised."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Laplace, ParameterError
from tacit.calculus import L1, AddRemove, DomainError, Edges, Graph, Graphs, Integers, MetricError, Nodes, Rows, Space
from tacit.mechanisms import (
    LaplaceMechanism,
    clique_count,
    edge_flow,
    laplace,
    lipschitz_degree_histogram,
    lipschitz_edge_count,
    lipschitz_graph,
    star_count,
    triangle_count,
)
from tacit.mechanisms.lipschitz_graph import STEP, SubgraphCount, bracket, cliques, exact_value, settled, stars, triangles

NODES, EDGES = Space(Graphs(), Nodes()), Space(Graphs(), Edges())


@st.composite
def graphs(draw: st.DrawFn, most: int = 7) -> Graph:
    n = draw(st.integers(1, most))
    pairs = list(itertools.combinations(range(n), 2))
    chosen = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return Graph.of([pair for pair, kept in zip(pairs, chosen, strict=True) if kept], range(n))


def degree(graph: Graph) -> int:
    return max((graph.degree(v) for v in graph.vertices), default=0)


def toggled(graph: Graph, one: int, two: int) -> Graph:
    return Graph(graph.vertices, graph.edges ^ {frozenset((one, two))})


@given(graphs(), st.integers(1, 5))
def test_edges_node_by_node(graph: Graph, bound: int) -> None:
    whole = edge_flow(graph, bound)
    for vertex in graph.vertices:
        assert 0 <= whole - edge_flow(graph.without(vertex), bound) <= (NODES >> lipschitz_edge_count(max_degree=bound)).map(1)
    for pair in itertools.combinations(graph.vertices, 2):
        assert abs(whole - edge_flow(toggled(graph, *pair), bound)) <= (EDGES >> lipschitz_edge_count(max_degree=bound)).map(1)
    assert whole <= 2 * len(graph.edges)
    if degree(graph) <= bound:
        assert whole == 2 * len(graph.edges)


def flow_by_cuts(graph: Graph, bound: int) -> int:
    """Oracle: the least cut, over all choices of left and right copies on the source's side."""
    vertices = list(graph.vertices)
    best = math.inf
    for lefts in itertools.product((0, 1), repeat=len(vertices)):
        for rights in itertools.product((0, 1), repeat=len(vertices)):
            left, right = (dict(zip(vertices, side, strict=True)) for side in (lefts, rights))
            cut = bound * (lefts.count(0) + rights.count(1))
            cut += sum(left[a] and not right[b] for edge in graph.edges for a, b in (tuple(edge), tuple(edge)[::-1]))
            best = min(best, cut)
    return int(best)


@given(graphs(most=4), st.integers(1, 3))
@settings(max_examples=30)
def test_the_flow_is_the_least_cut(graph: Graph, bound: int) -> None:
    assert edge_flow(graph, bound) == flow_by_cuts(graph, bound)


@pytest.mark.parametrize(
    "step",
    [triangle_count(max_degree=2), triangle_count(max_degree=3), star_count(2, max_degree=2), clique_count(4, max_degree=3)],
    ids=str,
)
@given(graph=graphs(most=6))
@settings(max_examples=25)
def test_subgraphs_node_by_node(step: SubgraphCount, graph: Graph) -> None:
    node, edge = (NODES >> step).map(1), (EDGES >> step).map(1)
    value = settled(step.copies(graph), step.per_vertex)
    for vertex in graph.vertices:
        assert 0 <= value - settled(step.copies(graph.without(vertex)), step.per_vertex) <= node
    for pair in itertools.islice(itertools.combinations(graph.vertices, 2), 4):
        assert abs(value - settled(step.copies(toggled(graph, *pair)), step.per_vertex)) <= edge
    if degree(graph) <= step.max_degree:
        assert value * STEP == len(step.copies(graph))


@given(graphs(most=6), st.integers(1, 4))
@settings(max_examples=40)
def test_the_bracket_holds_the_exact_value(graph: Graph, bound: int) -> None:
    for copies in (triangles(graph), stars(graph, 2)[:12]):
        low, high = bracket(copies, bound)
        exact = exact_value(copies, bound) if copies else Fraction(0)
        assert low <= exact <= high and high - low < 1e-6
        assert settled(copies, bound) == math.floor(exact * 64 + (3 - Fraction(math.isqrt(5 * 10**30), 10**15)) / 2)


def test_a_useless_solver_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The released number is a function of the graph: with the widest bracket the exact simplex gives the same."""
    k5 = triangles(Graph.of(itertools.combinations(range(5), 2)))
    good = settled(k5, 3)
    monkeypatch.setattr(lipschitz_graph, "bracket", lambda copies, bound: (Fraction(0), Fraction(len(copies))))
    assert settled(k5, 3) == good == 5 * 64


@pytest.mark.parametrize("said", [np.nan, np.inf, -np.inf, 1e300])
def test_what_a_solver_says_cannot_raise(said: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that is none, from a solver that calls itself done: an error would depend on the graph."""
    import scipy.optimize

    k5, true = triangles(Graph.of(itertools.combinations(range(5), 2))), scipy.optimize.linprog

    def wrong(*arguments: object, **options: object) -> object:
        found = true(*arguments, **options)
        found.x, found.ineqlin.marginals = np.full_like(found.x, said), np.full_like(found.ineqlin.marginals, said)
        return found

    monkeypatch.setattr(scipy.optimize, "linprog", wrong)
    low, high = bracket(k5, 3)
    assert low <= exact_value(k5, 3) <= high and settled(k5, 3) == 5 * 64


def brute_copies(graph: Graph, size: int) -> int:
    return sum(all(frozenset(p) in graph.edges for p in itertools.combinations(c, 2)) for c in itertools.combinations(graph.vertices, size))


@given(graphs())
def test_copies_are_those_of_enumeration(graph: Graph) -> None:
    assert len(triangles(graph)) == brute_copies(graph, 3) and len(set(triangles(graph))) == len(triangles(graph))
    assert len(cliques(graph, 4)) == brute_copies(graph, 4)
    for leaves in (2, 3):
        assert len(stars(graph, leaves)) == sum(math.comb(graph.degree(v), leaves) for v in graph.vertices)


@given(graphs(most=6), st.integers(2, 4))
def test_per_vertex_bounds_the_copies_at_a_vertex(graph: Graph, size: int) -> None:
    for step in (SubgraphCount("clique", max(1, degree(graph)), size), SubgraphCount("star", max(1, degree(graph)), size)):
        for vertex in graph.vertices:
            assert sum(vertex in copy for copy in step.copies(graph)) <= step.per_vertex


@given(graphs(most=9), st.integers(1, 5))
@settings(max_examples=150)
def test_degree_histograms_move_within_their_bounds(graph: Graph, bound: int) -> None:
    step = lipschitz_degree_histogram(max_degree=bound)
    whole = step.histogram(graph)
    assert whole.sum() == len(graph.vertices)
    for vertex in graph.vertices:
        assert L1().distance(whole, step.histogram(graph.without(vertex))) <= (NODES >> step).map(1) == 2 * bound + 1
    for pair in itertools.combinations(graph.vertices, 2):
        assert L1().distance(whole, step.histogram(toggled(graph, *pair))) <= (EDGES >> step).map(1) == 4
    if degree(graph) <= bound:
        assert whole.tolist() == [sum(graph.degree(v) == d for v in graph.vertices) for d in range(bound + 1)]


def test_cutting_degrees_naively_is_not_stable() -> None:
    """The mutant drops every vertex of too large a degree: one vertex more can empty the whole histogram."""
    ring = Graph.of([(i, (i + 1) % 20) for i in range(20)])
    wheel = Graph.of([*((i, (i + 1) % 20) for i in range(20)), *(("hub", i) for i in range(20))])
    bound = 2

    def naive(graph: Graph) -> np.ndarray:
        degrees = [graph.degree(v) for v in graph.vertices if graph.degree(v) <= bound]
        return np.bincount(degrees, minlength=bound + 1)

    step = lipschitz_degree_histogram(max_degree=bound)
    assert L1().distance(naive(ring), naive(wheel)) > 2 * bound + 1
    assert L1().distance(step.histogram(ring), step.histogram(wheel)) <= 2 * bound + 1


def test_the_true_count_is_not_stable() -> None:
    """The mutant calibrates the plain count to D: a hub alone changes it by more."""
    star = Graph.of([("hub", i) for i in range(10)])
    plain = len(star.edges) - len(star.without("hub").edges)
    assert plain > 3 == (edge_flow(star, 3) - edge_flow(star.without("hub"), 3)) / 2


def test_plans_and_their_prices() -> None:
    plan = NODES >> lipschitz_edge_count(max_degree=3) >> LaplaceMechanism.for_epsilon(1, sensitivity=3)
    assert plan.privacy(1) == Laplace(1) and plan.check(1, epsilon=1)
    assert (NODES >> triangle_count(max_degree=4) >> LaplaceMechanism.for_epsilon(Fraction(1, 2), sensitivity=6)).privacy(1) == Laplace(2)
    assert (EDGES >> lipschitz_degree_histogram(max_degree=4) >> laplace(scale=4)).privacy(1) == Laplace(1)
    assert plan.release(Graph.of([(1, 2)])).private
    assert (NODES >> star_count(2, max_degree=3)).map(2) == 2 * 9 * 64
    empty = Graph(frozenset(), frozenset())
    for step in (lipschitz_edge_count(max_degree=2), triangle_count(max_degree=2), star_count(2, max_degree=2)):
        assert (NODES >> step)(empty) == 0


def test_refusals() -> None:
    for step in (lipschitz_edge_count(max_degree=2), triangle_count(max_degree=2), lipschitz_degree_histogram(max_degree=2)):
        with pytest.raises(DomainError):
            Space(Rows(Integers()), AddRemove()) >> step
    with pytest.raises(DomainError, match="pattern"):
        SubgraphCount("path", 3)
    with pytest.raises(ParameterError, match="max_degree"):
        lipschitz_edge_count(max_degree=0)
    assert issubclass(MetricError, ValueError)
