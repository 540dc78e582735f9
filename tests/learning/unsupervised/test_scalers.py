"""Scalers: free by public bounds, exact moments and quantiles without noise, charged where private."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import NoOp, ParameterError
from tacit.learning.unsupervised.scalers import MinMaxScaler, StandardScaler
from tacit.noise import SeedRefusedError, test_mode

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal([1.0, -2.0], [0.5, 0.1], (2000, 2))


@pytest.mark.parametrize("scaler", [StandardScaler(bounds=(-4, 4)), MinMaxScaler(bounds=(-4, 4))], ids=["standard", "min-max"])
def test_public_bounds_are_free_and_the_data_does_not_matter(scaler: Any) -> None:
    one, other = clone(scaler).fit(X), clone(scaler).fit(np.full((3, 2), np.nan))
    assert one.event_ == NoOp() and one.privacy_.upper == 0
    assert np.array_equal(one.transform(X), other.transform(X))
    assert one.inverse_transform(one.transform(X)) == pytest.approx(np.clip(X, -4, 4))
    with pytest.raises(ParameterError):
        clone(scaler).set_params(bounds=None).fit(X)


def test_without_noise_moments_are_those_of_the_data() -> None:
    with test_mode(1):
        model = StandardScaler(epsilon=1e7, delta=1e-2, bounds=(-4, 4)).fit(X)
    assert model.mean_ == pytest.approx(X.mean(axis=0), abs=1e-3)
    assert model.scale_ == pytest.approx(X.std(axis=0), rel=0.02)
    scaled = model.transform(X)
    assert scaled.mean(axis=0) == pytest.approx([0, 0], abs=0.02) and scaled.std(axis=0) == pytest.approx([1, 1], rel=0.02)


def test_with_a_large_budget_quantiles_are_those_of_the_data() -> None:
    with test_mode(1):
        model = MinMaxScaler(tail=0.1, epsilon=100, delta=0, bounds=(-4, 4)).fit(X)
    step = 8 / 4096  # of the public grid
    assert model.data_min_ == pytest.approx(np.quantile(X, 0.1, axis=0), abs=3 * step)
    assert model.data_max_ == pytest.approx(np.quantile(X, 0.9, axis=0), abs=3 * step)
    assert model.transform(X).min() >= 0 and model.transform(X).max() <= 1


@pytest.mark.parametrize(
    "model",
    [
        StandardScaler(epsilon=1.0, delta=1e-5, bounds=(-3, 3)),
        StandardScaler(rho=0.1, bounds=(-3, 3), adjacency="replace-one"),
        MinMaxScaler(epsilon=1.0, delta=0, bounds=(-3, 3)),
        MinMaxScaler(epsilon=1.0, delta=0, bounds=(-3, 3), adjacency="replace-one"),
    ],
    ids=["standard, epsilon", "standard, rho", "min-max, pure", "min-max, replaced"],
)
def test_api(model: Any, tmp_path: Path) -> None:
    check_api(model, tmp_path)


@pytest.mark.parametrize(
    "model", [StandardScaler(epsilon=1000.0, delta=1e-3, bounds=(-10, 10)), MinMaxScaler(bounds=(-10, 10))], ids=["standard", "min-max"]
)
def test_scikit_learns_checks(model: Any) -> None:
    check_sklearn(model)


@pytest.mark.parametrize("tail", [0, 0.5, -1], ids=repr)
def test_bad_tails_are_refused(tail: float) -> None:
    with pytest.raises(ParameterError, match="tail"):
        MinMaxScaler(tail=tail, bounds=(0, 1)).fit(X)


def test_half_a_promise_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        StandardScaler(delta=1e-6, bounds=(0, 1)).fit(X)
    with pytest.raises(SeedRefusedError):
        StandardScaler(epsilon=1, delta=1e-6, bounds=(0, 1), random_state=1).fit(X)
