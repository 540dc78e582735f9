"""Attribute inference: fill the missing attribute with every value it may have and keep the one the model knows best.

A guess that a statistician could make from the rest of the record is no breach by the model. So the figure that counts is the *advantage*:
how much more often the guess is right for members than for other records of the same population (Yeom et al. 2018, Experiment 3).

>>> table = {(1.0, 0.0): 0.9}
>>> model = lambda x: np.array([[1 - table.get(tuple(row), 0.5), table.get(tuple(row), 0.5)] for row in x.tolist()])
>>> records = np.array([[1.0, 0.0]]), np.array([1])
>>> infer_attribute(model, records, column=1, values=[0.0, 1.0]).tolist()
[0.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError
from tacit.audit.models.signals import LOSS, Floats, Signal, features_labels
from tacit.audit.rates import lower_rate, upper_rate
from tacit.parameters import probability


def infer_attribute(
    model: Any, records: Any, *, column: int, values: Sequence[float], prior: Sequence[float] | None = None, signal: Signal = LOSS
) -> Floats:
    """The likeliest value of one column of the inputs for every record; what the column really holds is not looked at.

    With the loss as signal, the score of a value is its log-likelihood plus the logarithm of its prior. Ties go to the first value.
    """
    x, y = features_labels(records)
    inputs = np.asarray(x, dtype=np.float64)
    if not 0 <= column < inputs.shape[1] or not len(values):
        raise ParameterError(f"column must be between 0 and {inputs.shape[1] - 1}, and at least one value must be possible")
    weights = np.full(len(values), 1 / len(values)) if prior is None else np.asarray(prior, dtype=np.float64)
    if weights.shape != (len(values),) or (weights < 0).any() or not weights.sum() > 0:
        raise ParameterError("prior must hold one weight, zero or more, for each value")
    scores = []
    for value in values:
        filled = inputs.copy()
        filled[:, column] = value
        scores.append(signal(model, (filled, y)))
    with np.errstate(divide="ignore"):
        table = np.array(scores) + np.log(weights / weights.sum())[:, None]
    return np.asarray(np.asarray(values, dtype=np.float64)[table.argmax(axis=0)])


@dataclass(frozen=True)
class AttributeRisk:
    """How often the guess is right, for members and for others, and the difference between them with its confidence."""

    members: float
    others: float
    baseline: float
    advantage: float
    advantage_interval: tuple[float, float]
    confidence: float

    def __str__(self) -> str:
        low, high = self.advantage_interval
        return (
            f"the attribute is guessed right for {self.members:.1%} of members and {self.others:.1%} of others (most common value: "
            f"{self.baseline:.1%}); advantage {self.advantage:+.3f}, between {low:+.3f} and {high:+.3f} at {self.confidence:.0%} confidence"
        )


def attribute_risk(
    model: Any,
    members: Any,
    others: Any,
    *,
    column: int,
    values: Sequence[float],
    prior: Sequence[float] | None = None,
    signal: Signal = LOSS,
    confidence: float = 0.95,
) -> AttributeRisk:
    """The attack on members of the data and on others, whose attribute is known to the auditor. Exact intervals, half of the error each."""
    hits = []
    truths: list[NDArray[Any]] = []
    for records in (members, others):
        truth = np.asarray(features_labels(records)[0], dtype=np.float64)[:, column]
        guess = infer_attribute(model, records, column=column, values=values, prior=prior, signal=signal)
        hits.append((int(np.sum(guess == truth)), len(truth)))
        truths.append(truth)
    error = (1 - float(probability("confidence", confidence))) / 4
    (a, n), (b, m) = hits
    ends = (lower_rate(a, n, error) - upper_rate(b, m, error), upper_rate(a, n, error) - lower_rate(b, m, error))
    everyone = np.concatenate(truths)
    baseline = max(float(np.mean(everyone == value)) for value in values)
    return AttributeRisk(a / n, b / m, baseline, a / n - b / m, ends, float(confidence))
