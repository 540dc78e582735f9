"""Calibration: the table's cells are priced, the curve is the oracle's without noise, and probabilities become shares of people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from tacit.accounting import Adjacency, Gaussian, Guarantee, Laplace, ParameterError
from tacit.learning import CalibratedClassifier, DecisionTreeClassifier, GaussianNB, LinearSVC, LogisticRegression
from tacit.learning.calibration import platt, to_places
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.mechanisms import farthest_table
from tacit.mechanisms.row_sums import table_totals
from tacit.noise import test_mode

PUBLIC: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1]}


def rows_and_labels(n: int, seed: int, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, 3))
    scores = np.column_stack([np.zeros(n), 3 * X[:, 0] - X[:, 1], 2 * X[:, 2]][:classes])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return X, (generator.random((n, 1)) > shares.cumsum(axis=1)).sum(axis=1)


def error(model: Any, X: np.ndarray, y: np.ndarray, column: int = 1) -> float:
    """The mean distance of probability and share over ten bins, weighted by people."""
    given = model.predict_proba(X)[:, column]
    places = np.minimum((given * 10).astype(int), 9)
    gaps = [abs(given[places == b].mean() - (y[places == b] == column).mean()) * (places == b).mean() for b in np.unique(places)]
    return float(np.sum(gaps))


class Overconfident(LogisticRegression):
    """A model whose scores are four times too long."""

    def decision_function(self, X: Any) -> np.ndarray:
        return 4 * super().decision_function(X)


@pytest.mark.parametrize("promise", [{"epsilon": 1, "delta": 1e-6}, {"epsilon": 1, "delta": 0}, {"rho": 0.1, "adjacency": "replace-one"}])
def test_probabilities_become_shares(promise: dict[str, Any]) -> None:
    """A model that is far too sure is off by more than .1 before and less than .03 after; its price is what was asked for."""
    X, y = rows_and_labels(6000, 1)
    Xc, yc = rows_and_labels(6000, 2)
    Xt, yt = rows_and_labels(20_000, 3)
    with test_mode(1):
        model = Overconfident(**PUBLIC).fit(X, y)
        found = CalibratedClassifier(model, **promise).fit(Xc, yc)
    assert error(model, Xt, yt) > 0.1 and error(found, Xt, yt) < 0.03
    guarantee = Guarantee.of(None, **{key: value for key, value in promise.items() if key != "adjacency"})
    assert guarantee.keeps(found.event_, Adjacency.parse(found.adjacency)) and isinstance(found.event_, Gaussian | Laplace)
    assert (found.predict(Xt) == model.predict(Xt)).mean() > 0.97


@pytest.mark.parametrize("kind", [LinearSVC, GaussianNB, DecisionTreeClassifier])
def test_every_classifier_can_be_calibrated(kind: Any) -> None:
    X, y = rows_and_labels(6000, 1)
    Xt, yt = rows_and_labels(20_000, 3)
    with test_mode(1):
        found = CalibratedClassifier(kind(**PUBLIC).fit(X[:3000], y[:3000]), epsilon=1, delta=1e-6).fit(X[3000:], y[3000:])
    assert error(found, Xt, yt) < 0.06


def test_several_classes_add_up_to_one() -> None:
    X, y = rows_and_labels(9000, 1, 3)
    Xt, yt = rows_and_labels(20_000, 3, 3)
    with test_mode(1):
        model = LogisticRegression(**{**PUBLIC, "classes": [0, 1, 2]}).fit(X[:4000], y[:4000])
        found = CalibratedClassifier(model, epsilon=1, delta=1e-6).fit(X[4000:], y[4000:])
    shares = found.predict_proba(Xt)
    assert shares.shape == (20_000, 3) and shares.sum(axis=1) == pytest.approx(1)
    assert max(error(found, Xt, yt, column) for column in range(3)) < 0.06


def test_the_curve_is_that_of_a_plain_fit_without_noise() -> None:
    """The oracle: scikit-learn's logistic regression of the labels on the middles of the bins."""
    generator = np.random.default_rng(0)
    odds = generator.normal(0, 3, 5000)
    labels = generator.random(5000) < 1 / (1 + np.exp(-(0.4 * odds - 0.5)))
    places = to_places(odds[:, None], 16)[:, 0]
    middles = (places + 0.5) / 16 * 16 - 8
    oracle = Plain(C=1e9).fit(middles[:, None], labels)
    pairs = np.column_stack([np.bincount(places[~labels], minlength=16), np.bincount(places[labels], minlength=16)]).astype(float)
    assert platt(pairs, 0.0) == pytest.approx([oracle.coef_[0, 0], oracle.intercept_[0]], abs=2e-3)
    assert platt(np.zeros((16, 2)), 5.0) == pytest.approx([1.0, 0.0], abs=1e-3)  # nothing seen: the model as it is


def test_one_person_moves_the_table_by_one_cell_of_each_class() -> None:
    cells = np.array([[0, 5, 2], [1, 5, -1]])
    moved = table_totals(np.ones((2, 1)), cells, 6, 1.0, True)[0] - table_totals(np.ones((1, 1)), cells[:1], 6, 1.0, True)[0]
    assert float((moved.astype(float) ** 2).sum()) <= float(farthest_table(3, Adjacency.ADD_REMOVE, counts=True) ** 2) * 2.0**48


def test_strange_rows_raise_nothing_and_the_book_is_asked(tmp_path: Any) -> None:
    X, y = rows_and_labels(200, 1)
    model = LogisticRegression(**PUBLIC).fit(X, y)
    bad = X.copy()
    bad[0], bad[1], bad[2] = np.nan, np.inf, 1e308
    found = CalibratedClassifier(model, epsilon=1, delta=0).fit(bad, ["x", None, *y[2:].tolist()])
    assert np.isfinite(found.predict_proba(bad)).all() and found.private_
    visits = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("visits", Budget(epsilon=1.5, delta=1e-4))
    CalibratedClassifier(model, epsilon=1, delta=1e-6, account=visits).fit(X, y)
    with pytest.raises(BudgetExceeded):
        CalibratedClassifier(model, epsilon=1, delta=1e-6, account=visits).fit(X, y)
    with pytest.raises(ParameterError, match="fitted classifier of tacit"):
        CalibratedClassifier(Plain().fit(X, y), epsilon=1, delta=0).fit(X, y)
