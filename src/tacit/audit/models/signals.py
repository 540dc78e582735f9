"""What an attacker measures of a model on a record: the signals that all attacks on models use.

Models are scikit-learn classifiers and regressors, torch modules, or any object with `predict_proba(x)` (or a callable
that returns probabilities). A signal is called with a model and records and gives one number for each record, oriented
so that a higher one speaks for membership.

>>> model = lambda x: np.array([[0.9, 0.1], [0.4, 0.6]])
>>> records = np.zeros((2, 3)), np.array([0, 0])
>>> LABEL(model, records).tolist(), np.round(LOSS(model, records), 4).tolist()
([1.0, 0.0], [-0.1054, -0.9163])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError

Floats = NDArray[np.float64]
Labels = NDArray[Any]  # numbers or texts
# Models and data belong to other libraries, which need not be installed; what is asked of them is checked when it is asked.
Model = Any  # a scikit-learn estimator, a torch module, or a callable
Records = Any  # arrays, lists, frames or tables, alone, in a tuple, or in a mapping
Inputs = Any  # what a model takes
TINY = 1e-12  # probabilities are kept this far from 0 and 1, so that losses and logits are finite


@dataclass(frozen=True)
class Signal:
    """A measurement of a model on records; `access` says what an attacker must be able to see for it."""

    name: str
    measure: Callable[[Model, Records], Floats]
    sign: float
    access: str = "black box: class probabilities"

    def __call__(self, model: Model, records: Records) -> Floats:
        return self.sign * np.nan_to_num(np.asarray(self.measure(model, records), dtype=np.float64), nan=0.0, posinf=1e30, neginf=-1e30)

    def __str__(self) -> str:
        return self.name


def features_labels(records: Records) -> tuple[Inputs, Labels]:
    """Inputs and labels of records: a pair, or a mapping with x (or X) and y.

    >>> features_labels({"x": [[1.0]], "y": [0]})[1].tolist()
    [0]
    """
    if isinstance(records, Mapping):
        key = "x" if "x" in records else "X"
        if key in records and "y" in records:
            return np.asarray(records[key]), np.asarray(records["y"])
    elif isinstance(records, tuple | list) and len(records) == 2:
        return records[0], np.asarray(records[1])
    raise ParameterError("records must be a pair (inputs, labels), or a mapping with x and y, for this signal; or write another signal")


def _is_torch(model: Model) -> bool:
    torch = sys.modules.get("torch")  # a torch module cannot exist where torch was never imported
    return torch is not None and isinstance(model, torch.nn.Module)


def probabilities(model: Model, x: Inputs) -> Floats:
    """Class probabilities of a model, one row for each record."""
    if _is_torch(model):
        return _torch_probabilities(model, x)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x), dtype=np.float64)
    if hasattr(model, "decision_function"):
        return _softmax(np.asarray(model.decision_function(x), dtype=np.float64))
    if callable(model):
        return np.asarray(model(x), dtype=np.float64)
    raise ParameterError(f"{type(model).__name__} has neither predict_proba nor decision_function and cannot be called; wrap it")


def _torch_probabilities(model: Model, x: Inputs) -> Floats:
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            first = next(model.parameters(), None)
            seen = torch.as_tensor(np.asarray(x))
            if seen.is_floating_point() and first is not None:
                seen = seen.to(first.dtype)
            outputs = model(seen)
    finally:
        model.train(was_training)
    return _softmax(outputs.double().cpu().numpy())


def _softmax(scores: Floats) -> Floats:
    rows = scores.reshape(len(scores), -1)
    if rows.shape[1] == 1:
        rows = np.hstack([np.zeros_like(rows), rows])
    grown = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def positions(model: Model, y: Labels, width: int) -> NDArray[np.int64]:
    """The column of each record's own class; -1 where the model has never seen it."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        found = np.asarray(y).astype(np.int64)
        return np.where((found >= 0) & (found < width), found, -1)
    place = {value: i for i, value in enumerate(np.asarray(classes).tolist())}
    return np.array([place.get(value, -1) for value in np.asarray(y).tolist()], dtype=np.int64)


def own_probability(model: Model, records: Records) -> Floats:
    """The probability the model gives to each record's own label."""
    x, y = features_labels(records)
    rows = probabilities(model, x)
    if rows.ndim == 1 or rows.shape[1] == 1:
        one = rows.reshape(-1)
        rows = np.column_stack([1 - one, one])
    place = positions(model, y, rows.shape[1])
    return np.where(place >= 0, rows[np.arange(len(rows)), place], 0.0)


def predicted(model: Model, x: Inputs) -> Labels:
    """The labels a model answers with, and nothing else."""
    if not _is_torch(model) and hasattr(model, "predict"):
        return np.asarray(model.predict(x))
    rows = probabilities(model, x)
    best = (rows.reshape(-1) > 0.5).astype(np.int64) if rows.ndim == 1 or rows.shape[1] == 1 else rows.argmax(axis=1)
    classes = getattr(model, "classes_", None)
    return best if classes is None else np.asarray(classes)[best]


def label(model: Model, records: Records) -> Floats:
    """1 where the model's label is right."""
    x, y = features_labels(records)
    return np.asarray(predicted(model, x) == y, dtype=np.float64)


def loss(model: Model, records: Records) -> Floats:
    """Cross entropy of each record."""
    return -np.log(np.clip(own_probability(model, records), TINY, 1.0))


def squared_error(model: Model, records: Records) -> Floats:
    """The squared error of a regressor on each record."""
    x, y = features_labels(records)
    answered = np.asarray(model.predict(x) if hasattr(model, "predict") else model(x), dtype=np.float64)
    return (answered.reshape(len(answered), -1)[:, 0] - np.asarray(y, dtype=np.float64)) ** 2


def logit(model: Model, records: Records) -> Floats:
    """The logarithm of the odds of the own label: nearly normal over trainings, which LiRA relies on."""
    p = np.clip(own_probability(model, records), TINY, 1 - TINY)
    return np.asarray(np.log(p) - np.log1p(-p))


def entropy(model: Model, records: Records) -> Floats:
    """How undecided the model is on each record."""
    rows = np.clip(probabilities(model, features_labels(records)[0]), TINY, 1.0)
    return np.asarray(-(rows * np.log(rows)).sum(axis=1))


def hinge(model: Model, records: Records) -> Floats:
    """The logarithm of the own probability less the largest other: how far on the right side the record lies."""
    x, y = features_labels(records)
    rows = np.log(np.clip(probabilities(model, x), TINY, 1.0))
    place = positions(model, y, rows.shape[1])
    own = np.where(place >= 0, rows[np.arange(len(rows)), place], np.log(TINY))
    others = rows.copy()
    others[np.arange(len(rows)), np.maximum(place, 0)] = -np.inf
    return np.asarray(own - others.max(axis=1))


def gradient_norm(model: Model, records: Records) -> Floats:
    """The length of each record's gradient: of a torch module by itself; of others by p - 1 times the length of the input.

    For a linear classifier with cross entropy the second is the gradient with respect to the record's own class's weights.
    """
    x, y = features_labels(records)
    if not _is_torch(model):
        rows = np.asarray(x, dtype=np.float64).reshape(len(y), -1)
        return np.asarray((1 - own_probability(model, records)) * np.sqrt(1 + (rows**2).sum(axis=1)))
    import torch

    lengths = []
    first = next(model.parameters())
    for row, own in zip(torch.as_tensor(np.asarray(x)), torch.as_tensor(np.asarray(y)), strict=True):
        cost = torch.nn.functional.cross_entropy(model(row.to(first.dtype)[None]), own.long()[None])
        parts = torch.autograd.grad(cost, [p for p in model.parameters() if p.requires_grad])
        lengths.append(math.sqrt(sum(float((part.double() ** 2).sum()) for part in parts)))
    return np.array(lengths)


LABEL = Signal("label", label, 1.0, "label only")
LOSS = Signal("loss", loss, -1.0)
SQUARED_ERROR = Signal("squared error", squared_error, -1.0, "black box: predictions")
CONFIDENCE = Signal("confidence", own_probability, 1.0)
LOGIT = Signal("logit", logit, 1.0)
ENTROPY = Signal("entropy", entropy, -1.0)
HINGE = Signal("hinge", hinge, 1.0)
GRADIENT_NORM = Signal("gradient norm", gradient_norm, -1.0, "white box: gradients")
SIGNALS = (LABEL, LOSS, CONFIDENCE, LOGIT, ENTROPY, HINGE, GRADIENT_NORM, SQUARED_ERROR)
