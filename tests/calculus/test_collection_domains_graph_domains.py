"""Graphs are simple and undirected, and a bound on degrees is never enforced in passing."""

from __future__ import annotations

import pytest

from tacit.calculus import DomainError, Graph, Graphs, Integers

STAR = Graph.of([("hub", leaf) for leaf in "abc"])


def test_graphs_drop_loops_and_copies() -> None:
    graph = Graph.of([(1, 2), (2, 1), (3, 3)], vertices=[9])
    assert graph.vertices == {1, 2, 9}
    assert len(graph.edges) == 1
    assert Graph.of([]).vertices == frozenset()


def test_an_edge_needs_two_vertices_of_the_graph() -> None:
    for edges in ([{1}], [{1, 2, 3}], [{1, 7}]):
        with pytest.raises(DomainError, match="two different vertices"):
            Graph(frozenset({1, 2, 3}), frozenset(frozenset(e) for e in edges))


def test_a_vertex_takes_its_edges_along() -> None:
    assert STAR.without("hub") == Graph.of([], vertices="abc")
    assert len(STAR.without("a").edges) == 2


def test_the_domain_of_graphs() -> None:
    assert Graphs().member(STAR) and Graphs(3).member(STAR) and not Graphs(2).member(STAR)
    assert not Graphs().member([("a", "b")])
    assert Graphs().contains(Graphs(2)) and Graphs(3).contains(Graphs(2))
    assert not Graphs(2).contains(Graphs()) and not Graphs(2).contains(Graphs(3)) and not Graphs().contains(Integers())
    assert Graphs(0).member(Graphs(0).default)
    assert Graphs().enforce(STAR) is STAR
    with pytest.raises(DomainError, match=r"Graph\.of"):
        Graphs().enforce([(1, 2)])
    with pytest.raises(DomainError, match="Lipschitz"):
        Graphs(2).enforce(STAR)
