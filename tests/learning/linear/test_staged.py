"""Staged least squares: a floor it keeps, labels whose range it finds, and ordinary least squares in the limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression as Plain

from tacit.accounting import Adjacency, Guarantee, mu_for
from tacit.learning import LinearRegression
from tacit.learning.linear import staged
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.staged import LabelRange, label_range
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


def wages(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Skewed labels in a wide public range: their deviation is about a fiftieth of its half width."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (rows, 6))
    return X, np.minimum(np.exp(1.2 + X[:, 0] + 0.5 * X[:, 1] + generator.normal(0, 0.4, rows)), 400.0)


def mean_score(delta: float, epsilon: float, table: Any, labels: tuple[float, float], seeds: int = 4) -> float:
    found = []
    for seed in range(seeds):
        X, y = table(seed)
        with test_mode(seed):
            model = LinearRegression(epsilon=epsilon, delta=delta, bounds=(-1, 1), label_bounds=labels).fit(X[::2], y[::2])
        found.append(model.score(X[1::2], y[1::2]))
    return float(np.mean(found))


def private_constant(delta: float, epsilon: float, X: np.ndarray, y: np.ndarray, labels: tuple[float, float]) -> float:
    """The expected R2 of the noisy mean of labels in their public bounds: noisy sum over noisy number, half of the rows."""
    t = 2 * (y - labels[0]) / (labels[1] - labels[0]) - 1
    noise = 2 / mu_for(epsilon, delta) ** 2 if delta else 2 * (2 / epsilon) ** 2  # both sums at once: length sqrt(2), or sum 2
    return -noise * (1 + t.mean() ** 2) / (len(t) / 2) ** 2 / t.var()


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_it_is_never_far_below_a_constant_and_rises_with_epsilon(delta: float) -> None:
    noise = np.random.default_rng(8)
    tables: list[tuple[Any, tuple[float, float]]] = [
        (lambda seed: wages(8000, seed), (0.0, 400.0)),
        (lambda seed: (noise.uniform(-1, 1, (4000, 12)), noise.normal(0, 0.3, 4000)), (-2.0, 2.0)),  # nothing to learn
    ]
    for table, labels in tables:
        scores = [mean_score(delta, epsilon, table, labels) for epsilon in (0.1, 1.0, 10.0)]
        # beside the private constant with all of the budget, whose loss has a closed form: noise of the mean over the variance
        floors = [private_constant(delta, epsilon, *table(0), labels) for epsilon in (0.1, 1.0)]
        assert scores[0] > floors[0] - 0.05 and scores[1] > floors[1] - 0.02 and scores[2] > -0.02
        assert scores[1] > scores[0] - 0.03 and scores[2] > scores[1] - 0.03


def test_the_range_of_skewed_labels_is_found_and_without_it_the_fit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = wages(8000, 0)
    open_score = Plain().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    kept = mean_score(1e-6, 1.0, lambda seed: wages(8000, seed), (0.0, 400.0))
    monkeypatch.setattr(staged, "label_range", lambda *given: LabelRange(-1.0, 1.0))
    lost = mean_score(1e-6, 1.0, lambda seed: wages(8000, seed), (0.0, 400.0))
    assert kept > open_score - 0.1 > lost


@pytest.mark.parametrize("guarantee", [Guarantee(rho=1e6), Guarantee(epsilon=1e5, delta=0)])
def test_the_tree_finds_the_quantiles_where_noise_is_small(guarantee: Guarantee) -> None:
    """The oracle: all labels, to within a leaf; and almost nothing is cut off."""
    labels = np.random.default_rng(3).normal(0.2, 0.02, 5000)
    with test_mode(1):
        found = label_range(labels, Purse.of(guarantee, AR), 5000.0, 0.1)
    leaf = 2 / (1 << staged.LEVELS)
    assert abs(found.lower - labels.min()) <= 2 * leaf and abs(found.upper - labels.max()) <= 2 * leaf
    assert found.units(np.array([-9.0, 9.0])).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("terms", [{"rho": 1e9}, {"epsilon": 1e6, "delta": 0}])
def test_it_is_least_squares_in_the_limit(terms: dict[str, float]) -> None:
    generator = np.random.default_rng(4)
    X = generator.uniform(-1, 1, (4000, 3))
    y = X @ np.array([1.0, -0.5, 0.2]) + 0.3 + generator.normal(0, 0.2, 4000)
    with test_mode(1):
        mine = LinearRegression(**terms, bounds=(-1, 1), label_bounds=(-4, 4)).fit(X, y)  # type: ignore[arg-type]
    plain = Plain().fit(X, y)
    assert mine.coef_ == pytest.approx(plain.coef_, abs=5e-3) and mine.intercept_ == pytest.approx(plain.intercept_, abs=5e-3)
    assert mine.solver_ == "staged"


def test_cut_tails_of_labels_do_not_shorten_a_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noiseless slope of 3 came out as 2.74 when the last stage cut labels as the search for a direction does: the mutant."""
    X = np.linspace(0, 10, 5001)[:, None]

    def slope(epsilon: float, delta: float, seeds: int) -> float:
        found = []
        for seed in range(seeds):
            with test_mode(seed):
                model = LinearRegression(epsilon=epsilon, delta=delta, bounds=(0, 10), label_bounds=(0, 40)).fit(X, 3 * X[:, 0] + 1)
            found.append(float(model.coef_[0]))
        return float(np.mean(found))

    assert slope(2.0, 1e-6, 5) == pytest.approx(3, abs=0.06) and slope(2.0, 0.0, 5) == pytest.approx(3, abs=0.06)
    assert slope(0.5, 0.0, 8) > 2.9
    monkeypatch.setattr(staged, "CLEAN", 0.0)
    assert slope(0.5, 0.0, 8) < 2.9


def test_the_counts_of_a_tree_are_those_of_least_squares() -> None:
    """The oracle: numpy's least squares for the leaves, with a root that weighs so much that it is exact."""
    generator = np.random.default_rng(2)
    levels = [generator.normal(10, 3, 2 << level) for level in range(3)]
    rows, seen = [], []
    for level, counts in enumerate(levels):
        for node, count in enumerate(counts):
            rows.append(np.repeat(np.arange(2 << level) == node, 8 // (2 << level)).astype(float))
            seen.append(count)
    leaves = np.linalg.lstsq(np.array([*rows, 1e7 * np.ones(8)]), np.array([*seen, 1e7 * 40.0]), rcond=None)[0]
    found = staged._agreeing(levels, 40.0)
    assert found[-1] == pytest.approx(leaves, abs=1e-5) and found[0] == pytest.approx(leaves.reshape(2, 4).sum(axis=1), abs=1e-5)
