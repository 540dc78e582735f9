"""Naive Bayes: right without noise, scikit-learn's API, and an attack that stays below the claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.attacks.attack import Draw, lower_bound
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.naive_bayes import GaussianNB, moments
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE

EPSILON, DELTA = 1.0, 0.05


def test_without_noise_the_moments_are_those_of_the_classes() -> None:
    """Two classes whose rows are short enough not to be clipped: closed forms."""
    generator = np.random.default_rng(0)
    codes = np.repeat([0, 1], 500)
    X = generator.uniform(-0.4, 0.4, (1000, 3)) + np.where(codes == 1, 0.05, -0.05)[:, None]
    with test_mode(1):
        model = GaussianNB(epsilon=1e7, delta=1e-2, bounds=(-1, 1), classes=[0, 1]).fit(X, codes)
    for k in (0, 1):
        assert model.theta_[k] == pytest.approx(X[codes == k].mean(axis=0), abs=1e-3)
        assert model.var_[k] == pytest.approx(X[codes == k].var(axis=0), rel=0.02)
    assert model.class_prior_ == pytest.approx([0.5, 0.5], abs=1e-3)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("promise", [{"epsilon": 1.0, "delta": 1e-5}, {"rho": 0.1, "adjacency": "replace-one"}], ids=["epsilon", "rho"])
def test_api(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(GaussianNB(bounds=(-3, 3), classes=[0, 1], **promise), tmp_path)


def test_scikit_learns_checks() -> None:
    check_sklearn(GaussianNB(epsilon=1000.0, delta=1e-3, bounds=(-10, 10), classes=[0, 1]))


def test_pure_privacy_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="delta"):
        GaussianNB(epsilon=1, delta=0, bounds=(0, 1), classes=[0, 1]).fit(np.zeros((3, 1)), [0, 1, 0])


def test_digits_at_epsilon_1() -> None:
    """diffprivlib reaches 0.15 with the same bounds."""
    X, y = load_digits(return_X_y=True)
    with test_mode(0):
        model = GaussianNB(epsilon=1, delta=1e-5, bounds=(0, 16), classes=range(10)).fit(X[:1400], y[:1400])
    assert model.score(X[1400:], y[1400:]) > 0.75


def released(factor: float, rows: np.ndarray) -> Draw:
    codes, multiplier = np.zeros(len(rows), dtype=np.int64), factor / Guarantee(epsilon=EPSILON, delta=DELTA).gaussian_mu

    def run(n: int) -> list[int]:
        found = (moments(rows, codes, 1, multiplier, AR) for _ in range(n))
        return [int(np.floor(2 * m.means[0, 0] * m.counts[0] + m.counts[0])) for m in found]

    return run


def test_the_moments_leak_no_more_than_claimed_and_less_noise_is_caught() -> None:
    """One more person at the largest value moves count and sum together."""
    few, more = np.full((20, 1), 1.0), np.full((21, 1), 1.0)
    assert lower_bound(released(1.0, few), released(1.0, more), 300, delta=DELTA) <= EPSILON
    assert lower_bound(released(0.15, few), released(0.15, more), 300, delta=DELTA) > EPSILON
