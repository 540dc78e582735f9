"""Attacks on the recursive mechanism: a star with and without its hub, and two ways to take a bound for less than it costs."""

from __future__ import annotations

from collections import Counter

import numpy as np
from tests.attacks.attack import lower_bound

from tacit import noise
from tacit.calculus import Graph, Graphs, Nodes, Space
from tacit.mechanisms import NoisySums, edge_flow, recursive_clique_count
from tacit.mechanisms.recursive import RecursiveCount, place_on

EPSILON = 2
STAR = Graph.of([("hub", leaf) for leaf in range(10)])
PAIR = (STAR, STAR.without("hub"))
RULE = recursive_clique_count(2, epsilon=EPSILON, growth=0.5)


def in_bulk(graph: Graph, rule: RecursiveCount, share: float, n: int) -> list[tuple[int, int]]:
    """What the plan does, with the place worked out once: bound and noisy count, the latter in twelfths of its noise."""
    place = place_on(rule.ladder, rule.copies(graph)) + rule.lift
    bounds = [rule.bound_at(int(at)) for at in place + noise.rounded_laplace(1 / share, n)]
    found = []
    for bound, times in sorted(Counter(bounds).items()):
        noisy = rule.noise(bound).add(np.full(times, edge_flow(graph, bound)))
        found += [(bound, step) for step in (12 * noisy // int(rule.noise(bound).scales[0])).tolist()]
    # sorted by bound, so put back into a random order: the attack chooses on one half and measures on the other
    return [found[i] for i in noise.permutation(n)]


def test_the_price_is_approached_and_not_exceeded() -> None:
    plan = Space(Graphs(), Nodes()) >> RULE
    assert sum(1 / event.noise_multiplier for event in plan.event(1).inner) == EPSILON
    found = lower_bound(*(lambda n, g=g: in_bulk(g, RULE, EPSILON / 2, n) for g in PAIR), 20_000)
    assert 0.5 * EPSILON <= found <= EPSILON
    bounds = lower_bound(*(lambda n, g=g: [bound for bound, _ in in_bulk(g, RULE, EPSILON / 2, n)] for g in PAIR), 20_000)
    assert 0.3 * EPSILON <= bounds <= EPSILON / 2, "the bound alone costs half"


def test_the_plan_itself_does_not_exceed_it() -> None:
    plan = Space(Graphs(), Nodes()) >> RULE
    draws = [lambda n, g=g: [(a.bound, a.value > a.bound) for a in (plan.function(g) for _ in range(n))] for g in PAIR]
    assert 0.2 * EPSILON <= lower_bound(*draws, 1500) <= EPSILON


def test_a_place_with_half_the_noise_is_caught() -> None:
    found = lower_bound(*(lambda n, g=g: [bound for bound, _ in in_bulk(g, RULE, EPSILON, n)] for g in PAIR), 20_000)
    assert found > EPSILON / 2


def test_the_true_largest_degree_as_the_bound_is_caught() -> None:
    """The noise of the count is right for that bound, and the bound gives the hub away."""

    def careless(graph: Graph, n: int) -> list[int]:
        bound = max(1, *(graph.degree(v) for v in graph.vertices))
        sums = NoisySums.of_multiplier("laplace", 2 / EPSILON, moved=2 * bound)
        return np.asarray(sums.add(np.full(n, edge_flow(graph, bound)))).tolist()

    assert lower_bound(*(lambda n, g=g: careless(g, n) for g in PAIR), 20_000) > EPSILON
