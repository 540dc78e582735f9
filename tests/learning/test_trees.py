"""Trees: scores by enumeration, their sensitivity exactly, the law of the choice, and an attack that catches a doubled weight."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_breast_cancer
from tests.attacks.attack import Draw, lower_bound
from tests.learning.manners import check_manners, check_sklearn

from tacit.accounting import Adjacency, ParameterError, account
from tacit.learning.promise import Promise
from tacit.learning.trees import DecisionTreeClassifier, Shape, TreePlan, grow, largest, split_event, split_scores, to_bins
from tacit.noise import test_mode

PARTS, CLASSES = 4, 3
ROWS = arrays(np.int64, (6, 2), elements=st.integers(0, PARTS - 1))
CODES = arrays(np.int64, 6, elements=st.integers(0, CLASSES - 1))


@given(bins=ROWS, codes=CODES)
def test_scores_count_the_largest_classes_of_both_sides(bins: np.ndarray, codes: np.ndarray) -> None:
    found = split_scores(bins, codes, CLASSES, PARTS)
    for feature, cut in itertools.product(range(2), range(PARTS - 1)):
        sides = (codes[bins[:, feature] <= cut].tolist(), codes[bins[:, feature] > cut].tolist())
        assert found[feature, cut] == sum(max(side.count(k) for k in range(CLASSES)) for side in sides)


@given(bins=ROWS, codes=CODES)
def test_one_person_raises_every_score_by_0_or_1(bins: np.ndarray, codes: np.ndarray) -> None:
    """The condition of the guarantee: monotone, of sensitivity 1."""
    moved = split_scores(bins, codes, CLASSES, PARTS) - split_scores(bins[1:], codes[1:], CLASSES, PARTS)
    assert set(moved.ravel().tolist()) <= {0, 1}


def test_the_choice_has_the_law_that_is_priced() -> None:
    """Two candidates whose scores are 3 and 2: odds exp(epsilon), half of that under replace-one; the loss stays within the price."""
    bins, codes = np.array([[0], [1], [2]]), np.array([0, 1, 1])
    scores = split_scores(bins, codes, 2, 3).ravel().tolist()
    assert scores == [3, 2]
    for adjacency, weight in ((Adjacency.ADD_REMOVE, 1.0), (Adjacency.REPLACE_ONE, 0.5)):
        with test_mode(1):
            drawn = [
                int(grow(bins, codes, 2, parts=3, depth=1, epsilon=Fraction(1), adjacency=adjacency).threshold[0]) for _ in range(1500)
            ]
        p = 1 / (1 + math.exp(-weight))
        assert abs(drawn.count(0) / 1500 - p) < 5 * math.sqrt(p * (1 - p) / 1500)
        assert account(split_event(Fraction(1), adjacency), adjacency).epsilon(0).upper == pytest.approx(1)


def test_rows_find_their_leaves() -> None:
    shape = Shape(np.array([0, 1, 1]), np.array([1, 0, 2]))
    bins = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    assert shape.depth == 2 and shape.leaves(bins).tolist() == [0, 1, 2, 3]
    assert to_bins(np.array([[-1.0, -0.5, 0.0, 0.999, 1.0]]), 4).tolist() == [[0, 1, 2, 3, 3]]


def test_the_largest_price_that_keeps_the_promise() -> None:
    for promise in (Promise.of(epsilon=1, delta=0), Promise.of(epsilon=1, delta=1e-6), Promise.of(rho=0.2)):
        event, size = largest(promise, lambda size: split_event(size, Adjacency.ADD_REMOVE))
        assert promise.keeps(event) and not promise.keeps(split_event(size * Fraction(102, 100), Adjacency.ADD_REMOVE))
    tiny = Promise.of(epsilon=1e-9, delta=0)
    assert tiny.keeps(TreePlan.make(tiny, classes=2, depth=3, rows=None).event)


@pytest.mark.parametrize(
    "promise", [{"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 1.0, "delta": 0}, {"rho": 0.1, "adjacency": "replace-one"}],
    ids=["epsilon", "pure", "rho"],
)  # fmt: skip
def test_manners(promise: dict[str, Any], tmp_path: Path) -> None:
    check_manners(DecisionTreeClassifier(2, bounds=(-3, 3), classes=[0, 1], **promise), tmp_path)


def test_scikit_learns_checks() -> None:
    check_sklearn(DecisionTreeClassifier(3, epsilon=1000.0, delta=0, bounds=(-10, 10), classes=[0, 1]))


def test_breast_cancer() -> None:
    """diffprivlib's tree reaches 0.83 at epsilon 1; mean of three, with delta 0."""
    X, y = load_breast_cancer(return_X_y=True)
    bounds = (X.min(axis=0), X.max(axis=0))
    with test_mode(0):
        found = [
            DecisionTreeClassifier(epsilon=1, delta=0, bounds=bounds, classes=[0, 1]).fit(X[:455], y[:455]).score(X[455:], y[455:])
            for _ in range(3)
        ]
    assert np.mean(found) > 0.85


@pytest.mark.parametrize("change", [{"max_depth": 0}, {"bins": 1}, {"classes": None}, {"classes": [1]}], ids=repr)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    model = DecisionTreeClassifier(epsilon=1, delta=0, bounds=(0, 1), classes=[0, 1]).set_params(**change)
    with pytest.raises(ParameterError):
        model.fit(np.zeros((5, 3)), np.zeros(5))


def chosen(factor: int, bins: np.ndarray, codes: np.ndarray) -> Draw:
    def run(n: int) -> list[int]:
        return [
            int(grow(bins, codes, 2, parts=3, depth=1, epsilon=Fraction(factor), adjacency=Adjacency.ADD_REMOVE).threshold[0])
            for _ in range(n)
        ]

    return run


def test_a_choice_leaks_no_more_than_claimed_and_a_sharper_one_is_caught() -> None:
    """Claimed epsilon 1; the mutant weighs scores five times."""
    bins, codes = np.array([[0], [2], [1]]), np.array([0, 1, 0])
    claim = 1.0
    for factor, caught in ((1, False), (5, True)):
        found = lower_bound(chosen(factor, bins[:2], codes[:2]), chosen(factor, bins, codes), 800)
        assert (found > claim) == caught
