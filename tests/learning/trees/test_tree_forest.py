"""Forests: counts by a loop, one release for all trees, one tree where the budget is small, better than the peer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Gaussian, Guarantee, ParameterError
from tacit.learning.trees.tree import MARGIN, ForestPlan, RandomForestClassifier, log_shares, random_shape
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


def test_counts_are_those_of_a_loop_and_cost_one_release() -> None:
    generator = np.random.default_rng(0)
    bins, codes = generator.integers(0, 8, (50, 3)), generator.integers(-1, 2, 50)
    plan = ForestPlan.make(Guarantee(rho=1e8), AR, trees=4, depth=2, rows=None)
    with test_mode(1):
        shapes, counts = plan.run(bins, codes, 2, 8)
    expected = np.zeros((4, 4, 2))
    for tree, shape in enumerate(shapes):
        for leaf, code in zip(shape.leaves(bins), codes, strict=True):
            if code >= 0:
                expected[tree, leaf, code] += 1
    assert counts == pytest.approx(expected, abs=0.01)
    assert isinstance(ForestPlan.make(Guarantee(rho=0.1), AR, trees=9, depth=2, rows=None).event, Gaussian)
    assert plan.noise == pytest.approx(2 / plan.mu), "a person is in every one of the four trees"


def test_random_splits_ask_one_question_a_level_within_the_bounds() -> None:
    with test_mode(2):
        shape = random_shape(5, 3, 32, MARGIN)
        assert random_shape(1, 2, 2, MARGIN).threshold.tolist() == [0, 0, 0]
    assert len(set(shape.feature[1:3])) == 1 and len(set(shape.threshold[3:])) == 1
    assert (shape.threshold >= 4).all() and (shape.threshold <= 26).all() and (shape.feature < 5).all()


def test_shares_without_noise_are_shares() -> None:
    counts = np.array([[[30.0, 10.0], [0.0, 20.0]], [[15.0, 15.0], [15.0, 15.0]]])
    shares, prior = log_shares(counts, 1e-9)
    assert np.exp(prior) == pytest.approx([0.5, 0.5])
    assert np.exp(shares[0, 0] + prior) == pytest.approx([0.75, 0.25])
    assert np.isfinite(log_shares(np.full((2, 2, 2), -5.0), 1.0)[0]).all()


@pytest.mark.parametrize(
    "promise",
    [{"epsilon": 1.0, "delta": 1e-5, "n_estimators": 5}, {"epsilon": 1.0, "delta": 0}, {"rho": 0.1, "adjacency": "replace-one"}],
    ids=["epsilon", "pure", "rho"],
)
def test_api(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(RandomForestClassifier(bounds=(-3, 3), classes=[0, 1], max_depth=2, **promise), tmp_path)


def test_scikit_learns_checks() -> None:
    check_sklearn(RandomForestClassifier(20, epsilon=1000.0, delta=1e-3, bounds=(-10, 10), classes=[0, 1]))


def test_digits_at_epsilon_1() -> None:
    """diffprivlib's forest reaches 0.47 with the same bounds."""
    X, y = load_digits(return_X_y=True)
    with test_mode(0):
        model = RandomForestClassifier(epsilon=1, delta=1e-5, bounds=(0, 16), classes=range(10)).fit(X[:1400], y[:1400])
    assert len(model.trees_) == 60
    assert model.score(X[1400:], y[1400:]) > 0.7
    assert model.predict_proba(X[:3]).sum(axis=1) == pytest.approx(1)


def test_a_small_budget_buys_one_tree() -> None:
    with test_mode(0):
        model = RandomForestClassifier(epsilon=0.1, delta=1e-5, bounds=(0, 1), classes=[0, 1]).fit(np.zeros((10, 2)), np.zeros(10))
    assert len(model.trees_) == 1
    with pytest.raises(ParameterError, match="delta"):
        model.set_params(delta=0, n_estimators=5).fit(np.zeros((10, 2)), np.zeros(10))
