"""Losses with the constants that privacy and convergence stand on: how steep, how curved, of what rank.

A loss here is a function of the scores of a row (its inner products with the parameters) and of the label. What a person contributes to a
gradient is the derivative by the scores, times the row; so with rows of length at most R a loss of slope s is s R-Lipschitz, and one of
curvature c has a Hessian with eigenvalues at most c R^2 and rank at most the number of scores.

A slope can be enforced, by clipping; a curvature cannot, it has to be proved. Losses given by a user therefore have their derivatives
clipped to the slope they state, and `certified` says whether the constants were derived here, which objective perturbation insists on.

>>> logistic.lipschitz(data_norm=2.0), logistic.smoothness(data_norm=2.0), logistic.rank
(2.0, 1.0, 1)
>>> round(float(logistic.value(np.zeros((1, 1)), np.array([1.0]))[0]), 6)
0.693147
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError
from tacit.mechanisms import clip_rows
from tacit.parameters import nonnegative, number, positive

Array = NDArray[np.float64]
Function = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Loss:
    """A loss l(scores, label): `value` gives one number a row, `derivative` one number for each score.

    `slope` bounds the Euclidean length of the derivative (it is enforced by clipping), `curvature` the largest eigenvalue of the second
    derivative, infinite where there is none; `strong` is a lower bound on the second derivative.
    """

    name: str
    value: Function
    derivative: Function
    slope: float
    curvature: float
    rank: int = 1
    strong: float = 0.0
    convex: bool = True
    certified: bool = False
    total: float | None = None  # a bound on the sum of the absolute derivatives, where one better than slope * sqrt(scores) is known

    def lipschitz(self, data_norm: float) -> float:
        """The Lipschitz constant in the parameters for rows of length at most data_norm."""
        return self.slope * float(positive("data_norm", data_norm))

    def smoothness(self, data_norm: float) -> float:
        """The largest eigenvalue of one person's Hessian."""
        return self.curvature * float(positive("data_norm", data_norm)) ** 2

    def total_slope(self, scores: int) -> float:
        """A bound on the sum of the absolute derivatives by the scores.

        >>> logistic.total_slope(1), multinomial(10).total_slope(10)
        (1.0, 2.0)
        """
        return self.slope * math.sqrt(scores) if self.total is None else self.total

    @property
    def smooth(self) -> bool:
        return math.isfinite(self.curvature)

    def clipped(self, scores: Array, labels: Array) -> Array:
        """The derivative, clipped to a length of `slope` whatever the function returns; NaN counts as 0."""
        found = np.asarray(self.derivative(scores, labels), dtype=np.float64)
        if found.shape[1] == 1 and math.isfinite(self.slope):  # the length of one number
            return np.clip(np.where(np.isnan(found), 0.0, found), -self.slope, self.slope)
        return clip_rows(found, self.slope) if math.isfinite(self.slope) else np.nan_to_num(found)

    def require_smooth(self, what: str) -> None:
        """Refuse a loss without a second derivative, or without a proof of its bound, where the proof of privacy needs one."""
        if not self.smooth:
            raise ParameterError(
                f"{what} needs a twice differentiable loss: {self.name} has a kink, at which the output can equal a person's value; "
                "use huber(threshold), smoothed_hinge(width) or smoothed_quantile(level, width)"
            )
        if not self.certified:
            raise ParameterError(
                f"{what} rests on the curvature of the loss, which clipping cannot enforce: use a loss with a proof, or "
                "gradient descent, whose privacy rests on clipping alone"
            )


def custom(name: str, value: Function, derivative: Function, *, slope: float, curvature: float = math.inf, outputs: int = 1) -> Loss:
    """A loss of your own. Its derivative is clipped to `slope`; privacy never rests on its curvature.

    >>> mine = custom("cosh", lambda s, y: np.log(np.cosh(s[:, 0] - y)), lambda s, y: np.tanh(s - y[:, None]), slope=1, curvature=1)
    >>> mine.certified
    False
    """
    return Loss(name, value, derivative, float(positive("slope", slope)), float(number("curvature", curvature)), rank=outputs)


def _sign(labels: Array) -> Array:
    """Labels 0 and 1 as -1 and 1, as a column; any other label counts as one of them, so that no slope is longer than is stated."""
    return np.where(labels[:, None] > 0.5, 1.0, -1.0)


def _logistic_value(scores: Array, labels: Array) -> Array:
    return np.logaddexp(0.0, -_sign(labels) * scores)[:, 0]


def _logistic_derivative(scores: Array, labels: Array) -> Array:
    # the share of class 1 less the label: one pass of tanh, whatever the signs
    found: Array = np.tanh(scores / 2)
    found *= 0.5
    found -= 0.5 * _sign(labels)
    return found


#: ln(1 + exp(-y s)) for labels 0 and 1 (y = -1 and 1): slope 1, curvature 1/4.
logistic = Loss("logistic", _logistic_value, _logistic_derivative, 1.0, 0.25, certified=True)


def softmax(scores: Array) -> Array:
    """Probabilities in proportion to exp(scores), row by row.

    >>> softmax(np.array([[0.0, 1000.0]]))
    array([[0., 1.]])
    """
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return found


def log_probabilities(shares: Array) -> Array:
    """Logarithms of probabilities; one of 0 counts as the least normal float."""
    return np.log(np.maximum(shares, np.finfo(np.float64).tiny))


def multinomial(classes: int) -> Loss:
    """Cross-entropy of softmax scores; labels are places of classes. Slope sqrt(2), curvature 1/2 (Böhning 1992), rank classes - 1; the
    absolute derivatives, 1 - p for the label and p for the others, sum to 2 (1 - p), at most 2.

    >>> multinomial(3).rank
    2
    """
    if classes < 2:
        raise ParameterError(f"classes must be at least 2, not {classes}")

    def value(scores: Array, labels: Array) -> Array:
        top = scores.max(axis=1)
        found: Array = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(len(scores)), labels.astype(int)]
        return found

    def derivative(scores: Array, labels: Array) -> Array:
        found: Array = softmax(scores) - (labels.astype(int)[:, None] == np.arange(classes))
        return found

    return Loss(f"multinomial({classes})", value, derivative, math.sqrt(2), 0.5, rank=classes - 1, certified=True, total=2.0)


def squared(reach: float = math.inf) -> Loss:
    """(s - y)^2 / 2 while |s - y| is at most `reach`, and linear beyond: without a reach its slope is unbounded and it cannot be private.

    >>> squared(2.0).slope, squared().slope
    (2.0, inf)
    """
    limit = float(number("reach", reach))
    if not limit > 0:
        raise ParameterError(f"reach must be positive, not {limit}")

    def value(scores: Array, labels: Array) -> Array:
        gap = np.abs(scores[:, 0] - labels)
        inner = np.minimum(gap, limit)
        return inner * inner / 2 + np.where(gap > inner, inner * (gap - inner), 0.0)

    def derivative(scores: Array, labels: Array) -> Array:
        return np.clip(scores - labels[:, None], -limit, limit)

    return Loss("squared" if math.isinf(limit) else f"squared({limit:g})", value, derivative, limit, 1.0, certified=True)


def huber(threshold: float) -> Loss:
    """Huber's loss (1964): squared up to the threshold, absolute beyond. Slope `threshold`, curvature 1.

    >>> huber(1.5).derivative(np.array([[9.0]]), np.array([0.0])).tolist()
    [[1.5]]
    """
    return replace(squared(float(positive("threshold", threshold))), name=f"huber({threshold:g})")


def smoothed_hinge(width: float = 0.5) -> Loss:
    """max(0, 1 - y s) with the kink replaced by a parabola over 1 +- width. Slope 1, curvature 1 / (2 width).

    >>> smoothed_hinge(0.5).curvature
    1.0
    """
    h = float(positive("width", width))

    def value(scores: Array, labels: Array) -> Array:
        gap = 1 - (_sign(labels) * scores)[:, 0]
        return np.where(gap <= -h, 0.0, np.where(gap >= h, gap, (gap + h) ** 2 / (4 * h)))

    def derivative(scores: Array, labels: Array) -> Array:
        sign = _sign(labels)
        return -sign * np.clip((1 - sign * scores + h) / (2 * h), 0.0, 1.0)

    return Loss(f"smoothed_hinge({h:g})", value, derivative, 1.0, 1 / (2 * h), certified=True)


def smoothed_quantile(level: float = 0.5, width: float = 0.1) -> Loss:
    """The pinball loss of a quantile with its kink replaced by a parabola over +- width. Slope max(level, 1 - level), curvature 1/(2
    width).

    >>> smoothed_quantile(0.9).slope
    0.9
    """
    q, h = float(number("level", level)), float(positive("width", width))
    if not 0 < q < 1:
        raise ParameterError(f"level must be between 0 and 1, both excluded, not {q}")

    def value(scores: Array, labels: Array) -> Array:
        gap = labels - scores[:, 0]
        inner = np.where(gap <= -h, (q - 1) * gap, gap * gap / (4 * h) + (q - 0.5) * gap + h / 4)
        return np.where(gap >= h, q * gap, inner)

    def derivative(scores: Array, labels: Array) -> Array:
        gap = labels[:, None] - scores
        return -np.clip(gap / (2 * h) + q - 0.5, q - 1, q)

    return Loss(f"smoothed_quantile({q:g}, {h:g})", value, derivative, max(q, 1 - q), 1 / (2 * h), certified=True)


def poisson(largest_label: float, largest_score: float) -> Loss:
    """exp(s) - y s, labels in [0, largest_label], continued linearly beyond |s| = largest_score: what makes its slope finite.

    >>> poisson(10.0, 2.0).curvature == math.exp(2.0)
    True
    """
    most, end = float(positive("largest_label", largest_label)), float(nonnegative("largest_score", largest_score))

    def value(scores: Array, labels: Array) -> Array:
        s = scores[:, 0]
        inner = np.clip(s, -end, end)
        return np.exp(inner) + np.exp(inner) * (s - inner) - np.clip(labels, 0.0, most) * s

    def derivative(scores: Array, labels: Array) -> Array:
        return np.exp(np.clip(scores, -end, end)) - np.clip(labels, 0.0, most)[:, None]

    return Loss(f"poisson({most:g}, {end:g})", value, derivative, max(most, math.exp(end)), math.exp(end), certified=True)


#: |s - y| and max(0, 1 - y s) as they are: no curvature, so that objective perturbation refuses them.
absolute = Loss(
    "absolute",
    lambda scores, labels: np.abs(scores[:, 0] - labels),
    lambda scores, labels: np.sign(scores - labels[:, None]),
    1.0,
    math.inf,
    certified=True,
)
hinge = Loss(
    "hinge",
    lambda scores, labels: np.maximum(0.0, 1 - (_sign(labels) * scores)[:, 0]),
    lambda scores, labels: -_sign(labels) * (_sign(labels) * scores < 1),
    1.0,
    math.inf,
    certified=True,
)
