"""Principal components: those of linear algebra without noise, noise at the right edge, scikit-learn's API, far better than the peer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as Plain
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Composed, Guarantee, ParameterError
from tacit.learning.unsupervised.pca import PCA, Shares, principal_axes
from tacit.noise import test_mode


def test_without_noise_the_axes_are_those_of_linear_algebra() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 4)) * [0.2, 0.1, 0.05, 0.02] @ np.linalg.qr(generator.normal(size=(4, 4)))[0] + 0.1
    plain = Plain(3).fit(X)
    with test_mode(1):
        model = PCA(3, epsilon=1e8, delta=1e-2, bounds=(-1, 1), reach=2.0, n_public=400).fit(X)
    assert np.abs((model.components_ * plain.components_).sum(axis=1)) == pytest.approx(1, abs=1e-4)
    assert model.mean_ == pytest.approx(X.mean(axis=0), abs=1e-4)
    # rows are on a lattice of 2^16 granules for a length of 2
    assert model.explained_variance_ == pytest.approx(plain.explained_variance_ * 399 / 400, rel=1e-3, abs=1e-5)
    assert model.explained_variance_ratio_ == pytest.approx(plain.explained_variance_ratio_, rel=1e-3, abs=2e-4)
    back = model.inverse_transform(model.transform(X))
    assert np.abs(back - X).max() < 0.1  # the fourth axis is left out


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_edge_is_where_noise_ends(adjacency: Adjacency) -> None:
    """No data at all: the largest eigenvalue of the noise is near the edge (within 30% for d = 40), and the price is the shares'."""
    guarantee = Guarantee(rho=0.1)
    shares = Shares(0.0, 0.0, 1.0)
    with test_mode(2):
        found = principal_axes(np.zeros((0, 40)), adjacency, shares, guarantee.gaussian_mu, rows=10, reach=0.5)
    assert found.leading(1)[0][0] == pytest.approx(found.edge, rel=0.3)
    event = Composed(*shares.events(adjacency, guarantee.gaussian_mu))
    assert guarantee.typed_price(event, adjacency).upper == pytest.approx(0.1)
    # an off-diagonal entry's deviation, from the definition: bound^2 times how far, times the multiplier, over sqrt(2) and rows
    far = 1 if adjacency is Adjacency.ADD_REMOVE else math.sqrt(2)
    entry = 0.25 * 40 * far / guarantee.gaussian_mu / math.sqrt(2) / 10
    assert found.moment[np.triu_indices(40, 1)].std() == pytest.approx(entry, rel=0.15)


@pytest.mark.parametrize("promise", [{"epsilon": 1.0, "delta": 1e-5}, {"rho": 0.1, "adjacency": "replace-one"}], ids=["epsilon", "rho"])
def test_api(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(PCA(2, bounds=(-3, 3), **promise), tmp_path)


def test_scikit_learns_checks() -> None:
    check_sklearn(PCA(1, epsilon=1000.0, delta=1e-3, bounds=(-10, 10)))


def test_digits_at_epsilon_1() -> None:
    """diffprivlib's ten axes hold 0.15 of the variance, the true ones 0.74."""
    X = load_digits().data
    with test_mode(0):
        model = PCA(10, epsilon=1, delta=1e-5, bounds=(0, 16)).fit(X)
    cov = np.cov(X.T)
    assert np.trace(model.components_ @ cov @ model.components_.T) / np.trace(cov) > 0.55
    assert model.get_feature_names_out().tolist()[:2] == ["pca0", "pca1"]


@pytest.mark.parametrize("change", [{"n_components": 4}, {"n_components": 0}, {"reach": 0}, {"reach": 3}, {"delta": 0}], ids=repr)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        PCA(epsilon=1, delta=1e-6, bounds=(0, 1)).set_params(**change).fit(np.zeros((5, 3)))
