"""Signals of scikit-learn estimators, torch modules and plain functions agree where they are the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models import signals

X = generator(1).normal(size=(30, 4))
Y = (X[:, 0] + 0.5 * generator(2).normal(size=30) > 0).astype(int)


def fitted() -> Any:
    linear_model = pytest.importorskip("sklearn.linear_model")
    return linear_model.LogisticRegression().fit(X, Y)


def as_torch(model: Any) -> Any:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(4, 2).double()
    with torch.no_grad():
        layer.weight[0], layer.weight[1] = torch.zeros(4), torch.as_tensor(model.coef_[0])
        layer.bias[0], layer.bias[1] = 0.0, float(model.intercept_[0])
    return layer


@pytest.mark.parametrize("signal", [s for s in signals.SIGNALS if s not in (signals.SQUARED_ERROR, signals.GRADIENT_NORM)], ids=str)
def test_three_kinds_of_models_agree(signal: signals.Signal) -> None:
    model = fitted()
    records = X, Y
    expected = signal(model, records)
    np.testing.assert_allclose(signal(as_torch(model), records), expected, atol=1e-9)
    np.testing.assert_allclose(signal(model.predict_proba, {"x": X, "y": Y}), expected, atol=1e-12)


def test_signals_by_hand() -> None:
    model = lambda x: np.array([[0.7, 0.2, 0.1]])  # noqa: E731
    record = np.zeros((1, 2)), np.array([1])
    assert signals.LOSS(model, record)[0] == pytest.approx(np.log(0.2))
    assert signals.CONFIDENCE(model, record)[0] == pytest.approx(0.2)
    assert signals.LOGIT(model, record)[0] == pytest.approx(np.log(0.25))
    assert signals.HINGE(model, record)[0] == pytest.approx(np.log(0.2 / 0.7))
    assert signals.ENTROPY(model, record)[0] == pytest.approx(0.7 * np.log(0.7) + 0.2 * np.log(0.2) + 0.1 * np.log(0.1))
    assert signals.LABEL(model, record)[0] == 0


def test_gradient_length_of_a_torch_module_is_that_by_hand() -> None:
    """Softmax regression: the gradient is (p - onehot) times the input with a 1 for the bias."""
    layer = as_torch(fitted())
    p = signals.probabilities(layer, X)
    off = p - np.eye(2)[Y]
    by_hand = np.sqrt((off**2).sum(axis=1)) * np.sqrt(1 + (X**2).sum(axis=1))
    np.testing.assert_allclose(-signals.GRADIENT_NORM(layer, (X, Y)), by_hand, rtol=1e-9)


def test_gradient_length_of_other_models_orders_like_it() -> None:
    model = fitted()
    ours, torchs = signals.GRADIENT_NORM(model, (X, Y)), signals.GRADIENT_NORM(as_torch(model), (X, Y))
    np.testing.assert_allclose(torchs, np.sqrt(2) * ours, rtol=1e-9)


def test_a_class_the_model_never_saw_is_a_large_loss_and_no_error() -> None:
    model = fitted()
    found = signals.LOSS(model, (X[:2], np.array([0, 7])))
    assert np.isfinite(found).all() and found[1] < -20


def test_a_torch_module_is_left_in_its_mode() -> None:
    layer = as_torch(fitted())
    layer.train()
    signals.LOSS(layer, (X, Y))
    assert layer.training


def test_regression() -> None:
    assert signals.SQUARED_ERROR(lambda x: x[:, 0], (np.array([[1.0], [3.0]]), np.array([1.0, 1.0]))).tolist() == [0.0, -4.0]


@pytest.mark.parametrize("records", [np.zeros(3), {"z": 1}, (1, 2, 3)], ids=["array", "mapping", "triple"])
def test_records_without_labels_are_refused(records: Any) -> None:
    with pytest.raises(ParameterError, match="pair"):
        signals.LOSS(lambda x: x, records)


def test_something_that_is_no_model_is_refused() -> None:
    with pytest.raises(ParameterError, match="predict_proba"):
        signals.probabilities(3, X)
