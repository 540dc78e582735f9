"""K-means: a step is Lloyd's without noise, clusters are found with it, better than one cluster and than the peer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.attacks.attack import Draw, lower_bound
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.unsupervised.kmeans import KMeans, distances, lloyd_step, normal_centres
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE

EPSILON, DELTA = 1.0, 0.05


def test_without_noise_a_step_is_lloyds() -> None:
    """Rows near two centres: the new centres are the means of the rows that are nearest, by a loop."""
    generator = np.random.default_rng(0)
    rows = np.vstack([generator.normal(-1, 0.1, (300, 2)), generator.normal(1, 0.1, (200, 2))])
    start = np.array([[-0.7, -0.7], [0.7, 0.7]])
    with test_mode(1):
        found = lloyd_step(rows, start, np.ones(2), 1e-5, AR)
    nearest = [min((0, 1), key=lambda k: math.dist(row, start[k])) for row in rows]
    for k in (0, 1):
        assert found[k] == pytest.approx(rows[np.array(nearest) == k].mean(axis=0), abs=1e-3)


def test_distances_are_euclidean() -> None:
    generator = np.random.default_rng(1)
    rows, centres = generator.normal(size=(5, 3)), generator.normal(size=(4, 3))
    assert np.sqrt(distances(rows, centres)) == pytest.approx(np.array([[math.dist(r, c) for c in centres] for r in rows]))


def test_the_first_centres_are_those_of_a_normal_distribution() -> None:
    """Two centres for one axis are at plus and minus sqrt(2 / pi) deviations; more clusters leave less within."""
    middle = 3 * math.sqrt(2 / math.pi)
    assert np.sort(normal_centres(2, np.array([3.0])).ravel()) == pytest.approx([-middle, middle], rel=0.02)
    assert normal_centres(5, np.array([1.0, 0.5])).shape == (5, 2)


@pytest.mark.parametrize("promise", [{"epsilon": 1.0, "delta": 1e-5}, {"rho": 0.1, "adjacency": "replace-one"}], ids=["epsilon", "rho"])
def test_api(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(KMeans(2, bounds=(-3, 3), **promise), tmp_path)


def test_scikit_learns_checks() -> None:
    check_sklearn(KMeans(2, epsilon=1000.0, delta=1e-3, bounds=(-10, 10)))


def test_digits_beat_one_cluster_at_epsilon_1() -> None:
    """diffprivlib ends at 1.6 times the inertia of one cluster; ten without privacy at 0.56."""
    X = load_digits().data
    with test_mode(0):
        model = KMeans(10, epsilon=1, delta=1e-5, bounds=(0, 16)).fit(X[:1400])
    test = X[1400:]
    assert model.inertia(test) / (((test - X[:1400].mean(axis=0)) / 8) ** 2).sum() < 0.8
    assert not hasattr(model, "labels_"), "labels of the training rows are private"


@pytest.mark.parametrize("change", [{"n_clusters": 0}, {"steps": -1}, {"reach": 0}, {"delta": 0}], ids=repr)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        KMeans(epsilon=1, delta=1e-6, bounds=(0, 1)).set_params(**change).fit(np.zeros((5, 3)))


def step(factor: float, rows: np.ndarray) -> Draw:
    multiplier = factor / Guarantee(epsilon=EPSILON, delta=DELTA).gaussian_mu

    def run(n: int) -> list[int]:
        return [int(np.floor(8 * lloyd_step(rows, np.zeros((1, 1)), np.ones(1), multiplier, AR)[0, 0])) for _ in range(n)]

    return run


def test_a_step_leaks_no_more_than_claimed_and_less_noise_is_caught() -> None:
    """One person far away, beside ten at the centre."""
    few, more = np.zeros((10, 1)), np.vstack([np.zeros((10, 1)), [[1e6]]])
    assert lower_bound(step(1.0, few), step(1.0, more), 300, delta=DELTA) <= EPSILON
    assert lower_bound(step(0.1, few), step(0.1, more), 300, delta=DELTA) > EPSILON
