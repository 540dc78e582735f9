"""Metrics against brute force: the shortest path of single steps in a small universe, and the axioms of a metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Adjacency, ParameterError
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Anything,
    Edges,
    Graph,
    Graphs,
    Hamming,
    Identifiers,
    Integers,
    LInfinity,
    Metric,
    MetricError,
    Nodes,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
    table,
)
from tacit.exact import root

MULTISETS = [tuple(rows) for n in range(4) for rows in combinations_with_replacement("abc", n)]


def paths(start: Any, steps: Callable[[Any], Iterable[Any]], universe: set[Any]) -> dict[Any, int]:
    """The least number of single steps to everything that can be reached."""
    found, frontier = {start: 0}, [start]
    while frontier:
        reached = []
        for here in frontier:
            for there in steps(here):
                if there in universe and there not in found:
                    found[there] = found[here] + 1
                    reached.append(there)
        frontier = reached
    return found


def _add_remove(rows: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield from (tuple(sorted((*rows, new))) for new in "abc")
    yield from (rows[:i] + rows[i + 1 :] for i in range(len(rows)))


def _replace(rows: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield from (tuple(sorted((*rows[:i], new, *rows[i + 1 :]))) for i in range(len(rows)) for new in "abc")


@pytest.mark.parametrize(("metric", "steps"), [(AddRemove(), _add_remove), (ReplaceOne(), _replace)], ids=["add-remove", "replace-one"])
def test_distances_of_multisets_are_shortest_paths(metric: Metric, steps: Any) -> None:
    for start in MULTISETS:
        reached = paths(start, steps, set(MULTISETS))
        for end in MULTISETS:
            assert metric.distance(list(start), list(reversed(end))) == reached.get(end, math.inf)


def test_an_exchange_is_two_of_add_and_remove() -> None:
    for one, two in product(MULTISETS, repeat=2):
        if len(one) == len(two):
            assert AddRemove().distance(one, two) == 2 * ReplaceOne().distance(one, two)


def test_identifier_distance_is_the_shortest_path_over_people() -> None:
    """A person holds a set of rows; one step removes a person with all rows, or adds one with any."""
    holdings = [(), ("x",), ("y",), ("x", "y")]
    universe = set(product(holdings, repeat=2))

    def steps(state: Any) -> Iterator[Any]:
        for i in range(2):
            if state[i]:
                yield tuple(() if j == i else s for j, s in enumerate(state))
            else:
                yield from (tuple(h if j == i else s for j, s in enumerate(state)) for h in holdings if h)

    def as_data(state: Any) -> dict[str, Any]:
        pairs = [(person, row) for person, rows in enumerate(state) for row in rows]
        return {"id": [p for p, _ in pairs], "row": [r for _, r in pairs]}

    for start in universe:
        reached = paths(start, steps, universe)
        for end in universe:
            assert Identifiers("id").distance(as_data(start), as_data(end)) == reached[end]


def test_hamming_counts_positions() -> None:
    assert Hamming().distance([1, 2, 3], [1, 3, 2]) == 2
    assert ReplaceOne().distance([1, 2, 3], [1, 3, 2]) == 0
    assert Hamming().distance([1], [1, 2]) == math.inf
    assert Hamming().distance({"a": [1, 2], "b": [1, 2]}, {"a": [1, 2], "b": [1, 3]}) == 1
    assert Hamming().distance(np.array([[1, 2], [3, 4]]), [[1, 2], [3, 5]]) == 1


GRAPHS = [Graph.of(edges, range(3)) for n in range(4) for edges in combinations([(0, 1), (0, 2), (1, 2)], n)]


def test_edges_and_nodes_by_brute_force() -> None:
    for one, two in product(GRAPHS, repeat=2):
        assert Edges().distance(one, two) == len(one.edges ^ two.edges)
        for gone in ([], [0], [0, 2]):
            small = one
            for vertex in gone:
                small = small.without(vertex)
            assert Nodes().distance(one, small) == Nodes().distance(small, one) == len(gone)
        if one.edges != two.edges:
            assert Nodes().distance(one, two) == math.inf
    assert Edges().distance(GRAPHS[0], GRAPHS[0].without(0)) == math.inf


rows = st.lists(st.sampled_from([0, 1, 2, 0.0, -0.0, math.nan, None, "NaN", True]), max_size=4)
vectors = st.lists(st.fractions(min_value=-9, max_value=9, max_denominator=4), min_size=3, max_size=3)


@pytest.mark.parametrize("metric", [AddRemove(), ReplaceOne(), Hamming()], ids=str)
@settings(max_examples=30)
@given(rows, rows, rows)
def test_data_metrics_are_metrics(metric: Metric, a: Any, b: Any, c: Any) -> None:
    assert metric.distance(a, a) == 0
    assert metric.distance(a, b) == metric.distance(b, a)
    assert metric.distance(a, c) <= metric.distance(a, b) + metric.distance(b, c)


@pytest.mark.parametrize("metric", [L1(), L2(), LInfinity(), LInfinity(monotone=True)], ids=str)
@settings(max_examples=30)
@given(vectors, vectors, vectors)
def test_vector_metrics_are_metrics(metric: Metric, a: Any, b: Any, c: Any) -> None:
    assert metric.distance(a, a) == 0
    assert metric.distance(a, b) == metric.distance(b, a)
    # the roots are rounded up by at most one part in 2^64 each
    assert metric.distance(a, c) <= (metric.distance(a, b) + metric.distance(b, c)) * (1 + Fraction(1, 2**60))
    assert metric.within(a, b, metric.distance(a, b))


@given(vectors, vectors)
def test_norms_are_ordered(a: Any, b: Any) -> None:
    large, wide, one, two = (m.distance(a, b) for m in (LInfinity(), LInfinity(monotone=True), L1(), L2()))
    assert large <= wide <= 2 * large
    assert wide <= one
    assert large <= two <= one * (1 + Fraction(1, 2**60))
    steps = [y - x for x, y in zip(a, b, strict=True)]
    if min(steps) >= 0 or max(steps) <= 0:
        assert wide == large


def test_within_decides_where_a_rounded_root_cannot() -> None:
    assert L2().within([0, 0], [2, 2], 2 * root(Fraction(2)))
    assert not L2().within([0, 0], [1, 1], Fraction(14142135623730950488, 10**19))
    assert not L2().within([0], [2], 1)
    # a bound between the true root of 2 and the one rounded up at 2^-64
    close = Fraction(math.isqrt(2 * 10**60) + 1, 10**30)
    assert close < L2().distance([0, 0], [1, 1])
    assert L2().within([0, 0], [1, 1], close)


def test_rise_and_fall() -> None:
    assert LInfinity(monotone=True).distance([0, 0, 0], [3, -1, 2]) == 4
    assert LInfinity().distance([0, 0, 0], [3, -1, 2]) == 3
    assert LInfinity(monotone=True).distance([0, 0], [-3, -1]) == 3


@given(st.fractions(min_value=0, max_value=10**12))
def test_roots_are_rounded_up_and_tight(square: Fraction) -> None:
    found = root(square)
    assert found >= 0 and found * found >= square
    with mpmath.workdps(60):
        exact = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
        assert mpmath.mpf(found.numerator) / found.denominator <= exact * (1 + mpmath.mpf(2) ** -64) + mpmath.mpf(10) ** -50
    assert root(square**2) == square
    with pytest.raises(ParameterError):
        root(Fraction(-1))


def test_what_each_metric_measures() -> None:
    people = table(id=Integers(), age=Integers())
    assert AddRemove().admits(Rows(Anything())) and not AddRemove().admits(Rows(Anything(), size=3))
    assert ReplaceOne().admits(Rows(Anything(), size=3)) and not ReplaceOne().admits(Integers())
    assert Identifiers("id").admits(people) and not Identifiers("name").admits(people) and not Identifiers("id").admits(Rows(Integers()))
    assert Hamming().admits(Vectors(Anything(), 2)) and not Hamming().admits(Integers())
    assert Absolute().admits(Reals()) and not Absolute().admits(Vectors(Reals(), 1))
    for norm in (L1(), L2(), LInfinity()):
        assert norm.admits(Vectors(Integers(), 2)) and not norm.admits(Integers()) and not norm.admits(Vectors(Anything(), 2))
    assert Edges().admits(Graphs()) and Nodes().admits(Graphs()) and not Edges().admits(Rows(Anything()))
    with pytest.raises(MetricError, match="does not measure"):
        Space(Rows(Integers(), size=3), AddRemove())


def test_relations() -> None:
    for metric in (AddRemove(), Identifiers("id"), Edges(), Nodes()):
        assert metric.adjacency is Adjacency.ADD_REMOVE
    for metric in (ReplaceOne(), Hamming()):
        assert metric.adjacency is Adjacency.REPLACE_ONE
    assert Absolute().adjacency is None and L1().adjacency is None
    assert Absolute().distance(np.int64(3), 5) == 2
