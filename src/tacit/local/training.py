"""Models trained from randomised gradients: gradient descent in rounds, and least squares in one round.

In each round the server sends the model, and a person answers with one randomised coordinate of the clipped gradient, with the whole
epsilon (`SampledCoordinates`). Every person takes part in *one* round: people are split, not epsilon. Least squares needs no rounds: a
person reports one entry of the products of features and label, and the server solves with a ridge of the noise's own size (Smith, Thakurta,
Upadhyay 2017).

>>> random = np.random.default_rng(1)
>>> rows = random.uniform(-1, 1, (60_000, 3))
>>> labels = rows @ [0.5, -0.3, 0.0]
>>> found = trained(rows, labels, epsilon=4, rounds=6, rate=0.7)
>>> bool(abs(found.weights - [0.5, -0.3, 0.0]).max() < 0.2)
True
>>> protocol = least_squares_moments(3, epsilon=4)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Event
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.protocol import Protocol
from tacit.local.reports import to_batch
from tacit.local.vectors import MeanVector, vector_means
from tacit.parameters import Number, count, nonnegative, positive

Array = NDArray[np.float64]
Gradient = Callable[[Array, Array, Array], Array]


def _squared(weights: Array, rows: Array, labels: Array) -> Array:
    return np.asarray(2 * (rows @ weights - labels)[:, None] * rows)


def _hinge(weights: Array, rows: Array, labels: Array) -> Array:
    return np.asarray(np.where((labels * (rows @ weights) < 1)[:, None], -labels[:, None] * rows, 0.0))


def _logistic(weights: Array, rows: Array, labels: Array) -> Array:
    margin = np.clip(labels * (rows @ weights), -700.0, 700.0)
    return np.asarray(-(labels / (1 + np.exp(margin)))[:, None] * rows)


#: Gradients of a person's loss: (x'w - y)^2; max(0, 1 - y x'w) and log(1 + e^(-y x'w)) for labels -1 and 1.
LOSSES: dict[str, Gradient] = {"squared": _squared, "hinge": _hinge, "logistic": _logistic}


def as_floats(given: Any) -> Array:
    """A table or a column as floats, NaN for what is no number: one person's text must neither raise nor show in an error.

    >>> as_floats([[1, "a"], [None, "2"]]).tolist()
    [[1.0, nan], [nan, 2.0]]
    """
    try:
        return np.array(given, dtype=np.float64)
    except Exception:
        pass
    try:
        table = np.asarray(given, dtype=object)
    except Exception:
        raise ParameterError("rows must be a table of numbers, all of one length") from None
    return np.array([_float(value) for value in table.ravel()], dtype=np.float64).reshape(table.shape)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:
        return math.nan


def bounded(given: Any, columns: int | None) -> Array:
    """Numbers between -1 and 1: what lies beyond is cut off, what is no number is 0. No value raises an error.

    >>> bounded([[2.0, float("nan")]], 2).tolist()
    [[1.0, 0.0]]
    """
    found = as_floats(given)
    if found.ndim != (1 if columns is None else 2) or (columns is not None and found.shape[1] != columns):
        raise ParameterError("rows must be a table of numbers, and labels one number a row")
    return np.clip(np.nan_to_num(found, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)


@dataclass(frozen=True)
class GradientRound:
    """One round: the public model, and what a person of this round reports of the own gradient.

    Guarantee
        Statement: a report costs `event`, for any two persons' features and labels.
        Conditions: one round a person; the model comes from earlier people's reports only.
        Proved in: entries are clipped to [-1, 1] whatever the data, and `SampledCoordinates` keeps its price for any two such vectors.
    """

    weights: Array
    loss: str
    epsilon: Number

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ParameterError(f"loss must be one of {', '.join(LOSSES)}, not {self.loss!r}")

    @property
    def protocol(self) -> Protocol:
        """The protocol of the round."""
        return vector_means(len(self.weights), bounds=(-1, 1), epsilon=self.epsilon)

    @property
    def event(self) -> Event:
        """The price of one report."""
        return self.protocol.event

    def gradients(self, rows: Any, labels: Any) -> Array:
        """Each person's clipped gradient, as their device computes it."""
        x, y = bounded(rows, len(self.weights)), bounded(labels, None)
        return np.clip(LOSSES[self.loss](self.weights, x, y), -1.0, 1.0)

    def reports(self, rows: Any, labels: Any) -> Any:
        """What the devices of these people send, as one batch."""
        return to_batch(self.protocol, self.gradients(rows, labels))

    def moved(self, collector: Collector, *, rate: Number, ridge: Number = 0) -> GradientRound:
        """The next round's model: a step against the estimated mean gradient."""
        mean = MeanVector.of(collector).value + 2 * float(nonnegative("ridge", ridge)) * self.weights
        return GradientRound(self.weights - float(positive("rate", rate)) * mean, self.loss, self.epsilon)


@dataclass(frozen=True)
class Trained:
    """A model, the price of one person's report, and the model after each round."""

    weights: Array
    event: Event
    path: tuple[Array, ...]

    def predict(self, rows: Any) -> Array:
        """The model's scores for rows of features."""
        return np.asarray(bounded(rows, len(self.weights)) @ self.weights)


def trained(
    rows: Any, labels: Any, *, epsilon: Number, rounds: int, rate: Number, loss: str = "squared", ridge: Number = 0
) -> Trained:
    """All rounds on people whose rows are here, as their devices would do it; each person is in one round, drawn at random.

    Features and labels lie between -1 and 1; what lies beyond is cut off. The last half of the rounds is averaged, which costs nothing
    and evens out the noise of single steps.
    """
    turns = count("rounds", rounds)
    x = np.asarray(rows)
    if x.ndim != 2 or len(x) < 2 * turns:
        raise ParameterError("rows must be a table with at least two people a round")
    y = np.asarray(labels)
    if y.shape != (len(x),):
        raise ParameterError("labels must be one number a row")
    step = GradientRound(np.zeros(x.shape[1]), loss, epsilon)
    path = []
    for k, group in enumerate(np.array_split(noise.permutation(len(x)), turns)):
        collector = Collector(step.protocol).ingest(step.reports(x[group], y[group]))
        step = step.moved(collector, rate=float(positive("rate", rate)) / math.sqrt(1 + k / 4), ridge=ridge)
        path.append(step.weights)
    return Trained(np.mean(path[turns // 2 :], axis=0), step.event, tuple(path))


# --- one round ---


def least_squares_moments(features: int, *, epsilon: Number) -> Protocol:
    """A protocol for the products that least squares needs: features with features, and features with the label.

    >>> least_squares_moments(3, epsilon=1).randomiser.dimensions
    9
    """
    d = count("features", features)
    return vector_means(d * (d + 1) // 2 + d, bounds=(-1, 1), epsilon=epsilon)


def moments(rows: Any, labels: Any, features: int) -> Array:
    """Each person's products, as their device computes them: x_i x_j for i <= j, then x_i y. All lie between -1 and 1."""
    x, y = bounded(rows, count("features", features)), bounded(labels, None)
    first, second = np.triu_indices(features)
    return np.concatenate([x[:, first] * x[:, second], x * y[:, None]], axis=1)


@dataclass(frozen=True)
class LeastSquares:
    """Weights from one round of reports, and the ridge that was added."""

    weights: Array
    ridge: float
    n: int

    @classmethod
    def of(cls, collector: Collector, features: int, *, ridge: Number | None = None) -> LeastSquares:
        """The weights that a collector's reports tell; without a `ridge` it is as large as the noise of the products' matrix.

        A symmetric noise matrix with deviation s in each entry has eigenvalues of up to about 2 s sqrt(features).
        """
        d = count("features", features)
        found = MeanVector.of(collector)
        if len(found.value) != d * (d + 1) // 2 + d:
            raise ParameterError("the collector's protocol is not that of `least_squares_moments` for so many features")
        matrix = np.zeros((d, d))
        matrix[np.triu_indices(d)] = found.value[: d * (d + 1) // 2]
        matrix = matrix + np.triu(matrix, 1).T
        own = 2 * float(found.deviation[0]) * math.sqrt(d) if ridge is None else float(nonnegative("ridge", ridge))
        values, vectors = np.linalg.eigh(matrix)
        # what the noise brought below the ridge is lifted to it: true matrices of products have no negative eigenvalues
        weights = vectors @ ((vectors.T @ found.value[d * (d + 1) // 2 :]) / (np.maximum(values, 0.0) + max(own, 1e-12)))
        return cls(weights, own, found.n)


def partition_users(people: int, questions: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """People split at random into groups of nearly equal size, one for each question: the default way to ask several.

    >>> sorted(len(group) for group in partition_users(10, ["a", "b", "c"]).values())
    [3, 3, 4]
    """
    if not questions or len(set(questions)) < len(questions):
        raise ParameterError("questions must be different names, at least one")
    return dict(zip(questions, np.array_split(noise.permutation(count("people", people)), len(questions)), strict=True))
