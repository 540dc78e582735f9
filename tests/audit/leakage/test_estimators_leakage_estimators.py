"""The learning rules against slow, literal versions of the textbook's definitions, ties and duplicates included."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage import audit_local, estimate_risk, support_vectors
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


# --- support vectors ----------------------------------------------------------------------------------------------------------------


def widest_margin(labels: list[int], points: list[float], width: float, cost: float) -> tuple[np.ndarray, float]:
    """The dual of the soft margin, solved by a general method: the weight of each example, and the shift."""
    sign = np.where(np.array(labels) == 1, 1.0, -1.0)
    kernel = np.exp(-((np.array(points)[:, None] - np.array(points)[None, :]) ** 2) / width**2)
    table = sign[:, None] * sign[None, :] * kernel
    solved = minimize(lambda a: 0.5 * a @ table @ a - a.sum(), np.full(len(sign), cost / 2), jac=lambda a: table @ a - 1,
                      bounds=[(0, cost)] * len(sign), constraints=[LinearConstraint(sign[None, :], 0, 0)], method="SLSQP",
                      options={"ftol": 1e-14, "maxiter": 2_000})  # fmt: skip
    weights = solved.x * sign
    free = (solved.x > 1e-4 * cost) & (solved.x < (1 - 1e-4) * cost)
    return weights, float(np.mean(sign[free] - kernel[free] @ weights))


def test_support_vectors_by_the_dual_problem() -> None:
    draws = generator(3)
    labels = draws.integers(2, size=40).tolist()
    points = [float(x) for x in draws.normal(size=40) + 2.0 * np.array(labels)]
    weights, shift = widest_margin(labels, points, 1.5, 40 ** (1 / 3) / (0.02 * 40))
    queries = np.linspace(-3, 5, 81)
    margin = np.exp(-((queries[:, None] - np.array(points)[None, :]) ** 2) / 1.5**2) @ weights + shift
    found = fit(support_vectors(1.5), labels, points).predict(queries)
    sure = np.abs(margin) > 0.02
    assert sure.sum() > 60 and found[sure].tolist() == (margin[sure] > 0).astype(int).tolist()


def test_support_vectors_approach_the_bayes_risk_of_two_secrets() -> None:
    system = truncated_geometric(2, 40, 0.15)
    errors = []
    for size in (30, 3_000):
        labels, columns = system.sample(size, generator(4))
        guesses = fit(support_vectors(8.0), labels, columns.astype(float)).predict(system.observations)
        errors.append(system.risk_of(guesses))
    assert all(error >= system.bayes_risk() for error in errors)
    assert errors[1] <= system.bayes_risk() * 1.02


def test_support_vectors_count_equal_examples_and_one_secret() -> None:
    """At one point ten examples of one secret stand against three of the other, and the other way round at a second."""
    labels, points = [0] * 10 + [1] * 3 + [0] * 3 + [1] * 10, [0.0] * 13 + [9.0] * 13
    assert fit(support_vectors(1.0), labels, points).predict([0.0, 9.0]).tolist() == [0, 1]
    assert fit("svm", [1, 1], [0.0, 5.0]).predict([2.0]).tolist() == [1]
    assert fit("svm", [0, 1, 0], [[0.0, 1.0], [4.0, 5.0], [0.0, 1.0]]).predict(np.zeros((0, 2))).tolist() == []
    assert fit("svm", [0, 1], [3.0, 3.0]).predict([3.0]).tolist() in ([0], [1])


def test_what_is_proved_of_support_vectors_is_told() -> None:
    assert "not taken from the examples" in support_vectors().guarantee and support_vectors(1.0).guarantee.endswith("(Steinwart 2005)")
    labels, columns = truncated_geometric(3, 30, 0.3).sample(60, generator(1))
    seen = columns.astype(float)
    told = estimate_risk(support_vectors(3.0), (labels, seen), (labels, seen))
    assert any("two secrets" in caveat for caveat in told.caveats)
    pair = estimate_risk(support_vectors(3.0), (labels % 2, seen), (labels % 2, seen))
    assert pair.caveats == ()
    with pytest.raises(ParameterError, match="strings have none"):
        fit("svm", [0, 1], ["a", "b"])
    with pytest.raises(ParameterError, match="width"):
        support_vectors(0.0)


def test_an_audit_takes_support_vectors() -> None:
    def laplace(secrets: np.ndarray, own: np.random.Generator) -> np.ndarray:
        return np.asarray(secrets + own.laplace(scale=0.5, size=len(secrets)))

    found = audit_local(laplace, 2, 3_000, generator(2), rules=["svm"])
    assert 0.9 < found.epsilon_lower < 2.0 and found.estimate.rule == "svm"
