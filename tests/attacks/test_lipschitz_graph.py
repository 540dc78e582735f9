"""Attacks on node-private counts: the hub of a star, present or not."""

from __future__ import annotations

from tests.attacks.attack import lower_bound

from tacit import noise
from tacit.calculus import Graph, Graphs, Nodes, Space
from tacit.mechanisms import LaplaceMechanism, edge_flow, lipschitz_edge_count

STAR = Graph.of([("hub", leaf) for leaf in range(10)])
BOUND = 3


def test_the_price_is_approached_and_not_exceeded() -> None:
    plan = Space(Graphs(), Nodes()) >> lipschitz_edge_count(max_degree=BOUND) >> LaplaceMechanism.for_epsilon(1, sensitivity=BOUND)
    assert plan.event(1).noise_multiplier == 1
    # the flow is computed once a graph: drawing is what is repeated
    halves = [edge_flow(STAR, BOUND), edge_flow(STAR.without("hub"), BOUND)]
    found = lower_bound(*(lambda n, h=h: (h + noise.rounded_laplace(2 * BOUND, n)).tolist() for h in halves), 20_000)
    assert 0.8 <= found <= 1


def test_the_plain_count_with_the_same_noise_is_caught() -> None:
    counts = [len(STAR.edges), 0]
    found = lower_bound(*(lambda n, c=c: (2 * c + noise.rounded_laplace(2 * BOUND, n)).tolist() for c in counts), 20_000)
    assert found > 2
