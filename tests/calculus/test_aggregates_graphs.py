"""Graph statistics under edges: the largest change over all pairs of small graphs."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from tacit.accounting import ParameterError
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    DomainError,
    Edges,
    Graph,
    Graphs,
    Integers,
    LInfinity,
    MetricError,
    Nodes,
    Rows,
    Space,
    degree_histogram,
    edge_count,
)

PAIRS = list(combinations(range(4), 2))
ALL = [Graph.of([pair for i, pair in enumerate(PAIRS) if code >> i & 1], range(4)) for code in range(64)]
SPACE = Space(Graphs(), Edges())


def neighbours() -> list[tuple[Graph, Graph]]:
    return [(ALL[code], ALL[code ^ (1 << i)]) for code in range(64) for i in range(6)]


@pytest.mark.parametrize("norm", [L1(), L2(), LInfinity(), LInfinity(monotone=True)], ids=str)
def test_degrees_by_brute_force(norm: Any) -> None:
    plan = SPACE >> degree_histogram(3, norm)
    worst = max(norm.distance(plan(a), plan(b)) for a, b in neighbours())
    assert worst == plan.map(1)
    assert plan.map(2) == 2 * plan.map(1)


def test_edges_by_brute_force() -> None:
    plan = SPACE >> edge_count()
    assert max(abs(plan(a) - plan(b)) for a, b in neighbours()) == plan.map(1) == 1


def test_a_vertex_may_have_any_number_of_edges() -> None:
    star = Graph.of([("hub", i) for i in range(100)])
    assert (SPACE >> edge_count())(star) - (SPACE >> edge_count())(star.without("hub")) == 100
    nodes = Space(Graphs(), Nodes())
    for step in (edge_count(), degree_histogram(3)):
        with pytest.raises(MetricError, match=r"Lipschitz|Edges"):
            nodes >> step
    assert (Space(Graphs(max_degree=100), Nodes()) >> edge_count()).map(2) == 200


def test_degrees_beyond_the_largest_share_the_last_cell() -> None:
    plan = SPACE >> degree_histogram(1)
    assert plan(Graph.of([(0, 1), (0, 2)], range(5))).tolist() == [2, 3]
    assert (SPACE >> degree_histogram(3, L2())).map(1) ** 2 - 8 < Fraction(1, 10**15)
    with pytest.raises(ParameterError, match="largest"):
        degree_histogram(0)
    with pytest.raises(MetricError, match="norm"):
        SPACE >> degree_histogram(1, Absolute())
    with pytest.raises(DomainError, match="graphs"):
        Space(Rows(Integers()), AddRemove()) >> edge_count()
