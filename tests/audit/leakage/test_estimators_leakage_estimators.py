"""The learning rules against slow, literal versions of the textbook's definitions, ties and duplicates included."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage.builders import spiky, truncated_geometric
from tacit.audit.leakage.estimators import RULES, examples, fit, k_nearest


def winners(votes: list[int]) -> set[int]:
    counts = Counter(votes)
    return {label for label, number in counts.items() if number == max(counts.values())}


def literal_vote(labels: list[int], points: list[tuple[int, ...]], query: tuple[int, ...], k: int) -> set[int]:
    """The majority of 15.54 to 15.56, every outcome that ties allow: squared distances of whole numbers, so equality is exact."""
    squares = [sum((a - b) ** 2 for a, b in zip(point, query, strict=True)) for point in points]
    ranked = sorted(zip(squares, labels, strict=True))
    distances = [distance for distance, _ in ranked]
    if k == len(ranked) or distances[k - 1] != distances[k]:
        return winners([label for _, label in ranked[:k]])
    block = [label for distance, label in ranked if distance == distances[k - 1]]
    before = [label for distance, label in ranked if distance < distances[k - 1]]
    return set().union(*(winners(before + [stand_in] * (k - len(before))) for stand_in in winners(block)))


samples = st.integers(1, 2).flatmap(
    lambda width: st.lists(st.tuples(st.integers(0, 3), st.tuples(*[st.integers(0, 6)] * width)), min_size=1, max_size=30)
)


@settings(max_examples=60)
@given(samples, st.sampled_from([1, 2, 3, 5]))
def test_votes_by_definition(sample: list[tuple[int, tuple[int, ...]]], k: int) -> None:
    labels, points = [label for label, _ in sample], [point for _, point in sample]
    k = min(k, len(labels))
    width = len(points[0])
    queries = [(x, *([4] * (width - 1))) for x in range(-1, 8)]
    found = fit(k_nearest(k), labels, np.array(points, dtype=float)).predict(np.array(queries, dtype=float))
    for query, label in zip(queries, found, strict=True):
        assert int(label) in literal_vote(labels, points, query, k)


@given(samples)
def test_nearest_by_definition(sample: list[tuple[int, tuple[int, ...]]]) -> None:
    labels, points = [label for label, _ in sample], [point for _, point in sample]
    found = fit("nearest", labels, np.array(points, dtype=float)).predict(np.array(points, dtype=float))
    for query, label in zip(points, found, strict=True):
        near = min(math.dist(query, p) for p in points)
        assert int(label) in winners([one for one, p in zip(labels, points, strict=True) if math.dist(query, p) == near])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=40))
def test_counting_by_definition(sample: list[tuple[int, int]]) -> None:
    labels, seen = [label for label, _ in sample], [point for _, point in sample]
    for kind in (np.array(seen), np.array([str(point) for point in seen])):
        found = fit("frequentist", labels, kind)
        for point in range(8):
            query = np.array([point]) if kind.dtype.kind == "i" else np.array([str(point)])
            mine = [label for label, other in sample if other == point]
            assert int(found.predict(query)[0]) in winners(mine or labels)


def test_ties_go_to_whom_came_first_and_never_to_the_lowest_label() -> None:
    assert fit("frequentist", [3, 1], [7, 7]).predict([7]).tolist() == [3]
    assert fit("nearest", [1, 3], [6.0, 8.0]).predict([7.0]).tolist() == [1]
    assert fit("nearest", [3, 1], [6.0, 8.0]).predict([7.0]).tolist() == [3]
    far = fit(k_nearest(3), [5, 2, 9], [4.0, 0.0, 2.0])
    assert far.predict([0.0, 4.0]).tolist() == [2, 5], "three votes of one each: the nearest voter decides"


def test_a_block_of_ties_larger_than_was_fetched() -> None:
    """Sixty points on a circle around the query: the whole circle must be counted, not the first few."""
    angle = np.linspace(0, 2 * math.pi, 60, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    labels = np.array([0] * 20 + [1] * 40)
    for rule in ("nearest", k_nearest(3), k_nearest(7)):
        assert fit(rule, labels, points).predict([[0.0, 0.0]]).tolist() == [1]


def test_the_number_of_neighbours() -> None:
    for n in (1, 5, 100, 1000, 75_000, 500_000):
        natural, common = RULES["knn-ln"].neighbours, RULES["knn-log10"].neighbours
        assert natural is not None and common is not None
        for k, log in ((natural(n), math.log(n)), (common(n), math.log10(n))):
            assert k % 2 == 1 and max(1, log) <= k < max(1, log) + 2
    assert RULES["nearest"].neighbours is not None and RULES["nearest"].neighbours(10**6) == 1
    assert RULES["frequentist"].neighbours is None
    assert all("Bayes risk" in rule.guarantee for rule in RULES.values())


@pytest.mark.parametrize("rule", ["frequentist", "nearest", "knn-ln", "knn-log10"])
def test_enough_examples_find_the_bayes_rule(rule: str) -> None:
    system = truncated_geometric(5, 20, 0.4)
    labels, seen = system.sample(100_000, generator(1))
    guess = fit(rule, labels, seen).predict(np.arange(20))
    assert system.risk_of(guess) == pytest.approx(system.bayes_risk(), rel=0.005)


def test_neighbours_mislead_where_neighbours_differ() -> None:
    """On spikes counting wins: every nearest unseen observation belongs to the other secret."""
    system = spiky(1000)
    labels, seen = system.sample(4000, generator(2))
    risks = {rule: system.risk_of(fit(rule, labels, seen).predict(np.arange(1000))) for rule in RULES}
    assert risks["frequentist"] < risks["nearest"] < risks["knn-log10"] < risks["knn-ln"]


def test_no_examples_and_few() -> None:
    assert fit("nearest", np.zeros(0, dtype=int), np.zeros(0)).predict([1.0, 2.0]).tolist() == [0, 0]
    assert fit(k_nearest(9), [1, 1, 0], [0.0, 1.0, 2.0]).predict([5.0]).tolist() == [1], "more neighbours than examples: all of them"
    assert fit("nearest", [1], [0.0]).predict(np.zeros(0)).tolist() == []


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: fit("best", [0], [0]), "rule"),
        (lambda: fit("nearest", [0.5], [0]), "labels"),
        (lambda: fit("nearest", [-1], [0]), "labels"),
        (lambda: fit("nearest", [0, 1], [0]), "observations"),
        (lambda: fit("nearest", [0], [math.nan]), "observations"),
        (lambda: fit("nearest", [0], ["a"]), "strings"),
        (lambda: fit("nearest", [5], [0.0], secrets=3), "secrets"),
        (lambda: fit("nearest", [0], [[0.0, 1.0]]).predict([1.0]), "coordinates"),
        (lambda: examples([0], [object()]), "observations"),
        (lambda: k_nearest(0), "k must"),
    ],
    ids=["rule", "fraction", "negative", "length", "nan", "strings", "secrets", "width", "objects", "k"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
