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
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split
from tests.attacks.attack import Draw, lower_bound
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Guarantee, ParameterError, PureDP, account
from tacit.learning.trees.tree import (
    DecisionTreeClassifier,
    Shape,
    TreePlan,
    grow,
    largest,
    leaf_labels,
    split_event,
    split_scores,
    to_bins,
)
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE

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
    for guarantee in (Guarantee(epsilon=1), Guarantee(epsilon=1, delta=1e-6), Guarantee(rho=0.2), Guarantee(mu=0.5)):
        event, size = largest(guarantee, AR, lambda size: split_event(size, AR))
        assert guarantee.keeps(event, AR) and not guarantee.keeps(split_event(size * Fraction(102, 100), AR), AR)
    tiny = Guarantee(epsilon=1e-9)
    assert tiny.keeps(TreePlan.make(tiny, AR, classes=2, depth=3, rows=None, splits=9).event, AR)


def test_splits_are_chosen_where_a_choice_is_worth_its_price() -> None:
    """By public numbers alone: 13 features in 16 bins, 3 classes; the guess costs one pure epsilon, the choice levels and counts."""
    guarantee, adjacency = Guarantee(epsilon=0.1, delta=0), AR
    guess = TreePlan.make(guarantee, adjacency, classes=3, depth=None, rows=142, splits=195)
    choice = TreePlan.make(guarantee, adjacency, classes=3, depth=None, rows=5000, splits=195)
    assert not guess.chosen and guess.depth == 3 and isinstance(guess.event, PureDP) and guarantee.keeps(guess.event, adjacency)
    assert choice.chosen and choice.depth == 5 and not isinstance(choice.event, PureDP) and guarantee.keeps(choice.event, adjacency)
    assert guess.noise == pytest.approx(10, rel=0.01), "one over epsilon: a scale of exponential noise"
    replaced = TreePlan.make(Guarantee(epsilon=0.1, delta=0), Adjacency.REPLACE_ONE, classes=3, depth=None, rows=142, splits=195)
    assert replaced.noise == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize(("adjacency", "rate"), [(Adjacency.ADD_REMOVE, 0.7), (Adjacency.REPLACE_ONE, 0.35)])
def test_labels_of_leaves_have_the_law_of_permute_and_flip(adjacency: Adjacency, rate: float) -> None:
    """Counts 4, 3 and 3 in one leaf, none in the other: probabilities by going through all orders of the three coins."""
    heads = [1.0, math.exp(-rate), math.exp(-rate)]
    expected = np.zeros(3)
    for order in itertools.permutations(range(3)):
        left = 1 / 6
        for candidate in order:
            expected[candidate] += left * heads[candidate]
            left *= 1 - heads[candidate]
    leaf, codes = np.zeros(11, dtype=np.int64), np.array([0] * 4 + [1] * 3 + [2] * 3 + [-1])
    with test_mode(3):
        drawn = np.array([leaf_labels(leaf, codes, 2, 3, epsilon=Fraction(7, 10), adjacency=adjacency) for _ in range(1500)])
    for column, law in ((0, expected), (1, np.full(3, 1 / 3))):
        shares = np.bincount(drawn[:, column], minlength=3) / 1500
        assert np.abs(shares - law).max() < 5 * math.sqrt(0.25 / 1500)
    sharper = [1.0, math.exp(-3 * rate), math.exp(-3 * rate)]  # the mutant: three times the rate would be seen
    assert abs(np.mean(drawn[:, 0] == 0) - (sharper[0] - 2 / 3 * sharper[1])) > 5 * math.sqrt(0.25 / 1500)


def test_one_person_moves_the_odds_of_a_label_by_no_more_than_epsilon() -> None:
    """Exact, by enumeration of orders: for all counts of two classes up to 3 and one person more, either way."""

    def law(counts: tuple[int, int], rate: float) -> np.ndarray:
        best = max(counts)
        heads = [math.exp(rate * (c - best)) for c in counts]
        first = 0.5 * heads[0] + 0.5 * (1 - heads[1]) * heads[0]
        return np.array([first, 1 - first])

    def worst(rate: float) -> float:
        pairs = [((a, b), (a + 1, b)) for a, b in itertools.product(range(4), repeat=2)]
        return max(float(np.abs(np.log(law(low, rate) / law(high, rate))).max()) for low, high in pairs)

    assert worst(0.7) <= 0.7 + 1e-12 < worst(0.8)


def test_wine_at_a_tenth() -> None:
    """A tree of chosen splits, all that its budget would pay for, is right for 0.48 of them; 0.33 is chance. Mean of 30."""
    X, y = load_wine(return_X_y=True)
    model, found = DecisionTreeClassifier(epsilon=0.1, delta=0, bounds=(X.min(axis=0), X.max(axis=0)), classes=[0, 1, 2]), []
    for seed in range(30):
        Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
        with test_mode(seed):
            found.append(model.set_params(n_public=len(Xa)).fit(Xa, ya).score(Xb, yb))
    assert np.mean(found) > 0.52


@pytest.mark.parametrize(
    "promise", [{"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 1.0, "delta": 0}, {"rho": 0.1, "adjacency": "replace-one"}],
    ids=["epsilon", "pure", "rho"],
)  # fmt: skip
def test_api(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(DecisionTreeClassifier(2, bounds=(-3, 3), classes=[0, 1], **promise), tmp_path)


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
