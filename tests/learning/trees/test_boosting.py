"""Boosting: the first split and its values by enumeration, releases that are priced, gradients no longer than claimed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Gaussian, Guarantee, ParameterError, Repeated
from tacit.learning.linear.losses import softmax
from tacit.learning.trees.boosting import BoostingPlan, GradientBoostingClassifier
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


@given(scores=st.lists(st.floats(-50, 50), min_size=2, max_size=5), label=st.integers(0, 1))
def test_a_gradient_is_no_longer_than_the_row_allows(scores: list[float], label: int) -> None:
    """|target - shares| is at most sqrt(2), so the row's part for it, divided by that, is at most 1 long: nothing is clipped."""
    target = np.eye(len(scores))[label]
    assert np.linalg.norm(target - softmax(np.array([scores]))[0]) <= math.sqrt(2) * (1 + 1e-12)


@pytest.mark.parametrize("depth", [1, 2])
def test_without_noise_the_split_separates_and_the_values_are_newton_steps(depth: int) -> None:
    generator = np.random.default_rng(0)
    bins = generator.integers(0, 8, (400, 1))
    codes = (bins[:, 0] > 4).astype(np.int64)
    plan = BoostingPlan.make(Guarantee(rho=1e9), AR, rounds=1, depth=depth, features=1, rate=0.5)
    with test_mode(1):
        [(shape, values)] = plan.run(bins, codes, 2, 8)
    assert shape.feature[0] == 0 and shape.threshold[0] == 4
    # at equal shares the gradient is +-1/2 a person and the curvature 1/4; half of the step for the second coordinate
    assert values[0] == pytest.approx([0.5 * 0.5 * 4 / 2, -0.5 * 0.5 * 4 / 2], rel=1e-2)
    assert values[-1] == pytest.approx([-0.5, 0.5], rel=1e-2)
    assert (np.argmax(values[shape.leaves(bins)], axis=1) == codes).all()


def test_every_level_is_priced_and_the_noise_grows_with_the_features_drawn() -> None:
    plan = BoostingPlan.make(Guarantee(rho=0.1), AR, rounds=10, depth=3, features=4, rate=1.0)
    assert isinstance(plan.event, Repeated) and plan.event.count == 30 and isinstance(plan.event.event, Gaussian)
    assert float(plan.event.event.noise_multiplier) == pytest.approx(plan.multiplier, rel=1e-9)
    assert plan.noise == pytest.approx(2 * math.sqrt(1.25) * plan.multiplier)


@pytest.mark.parametrize(
    "promise", [{"epsilon": 1.0, "delta": 1e-5, "max_depth": 2, "max_features": 2}, {"rho": 0.1, "adjacency": "replace-one"}],
    ids=["epsilon", "rho"],
)  # fmt: skip
def test_api(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(GradientBoostingClassifier(3, bounds=(-3, 3), classes=[0, 1], **promise), tmp_path)


def test_scikit_learns_checks() -> None:
    check_sklearn(GradientBoostingClassifier(10, epsilon=1000.0, delta=1e-3, bounds=(-10, 10), classes=[0, 1], learning_rate=1.0))


def test_breast_cancer_at_epsilon_1() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    bounds = (X.min(axis=0), X.max(axis=0))
    with test_mode(0):
        model = GradientBoostingClassifier(epsilon=1, delta=1e-5, bounds=bounds, classes=[0, 1]).fit(X[:455], y[:455])
    assert model.score(X[455:], y[455:]) > 0.8
    assert ((model.decision_function(X) > 0) == (model.predict(X) == 1)).all()


@pytest.mark.parametrize(
    "change", [{"n_estimators": 0}, {"learning_rate": 0}, {"learning_rate": 11}, {"max_depth": 0}, {"bins": 1}, {"delta": 0}], ids=repr
)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    model = GradientBoostingClassifier(2, epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1]).set_params(**change)
    with pytest.raises(ParameterError):
        model.fit(np.zeros((5, 3)), np.zeros(5))
