"""Who is at risk: records and groups, beside the averages of a curve, and what a promise permits of each figure.

An average hides the few who are exposed most. The risk of a record is the attack's success over many trainings with and without it; the
risk of a group is the curve of its members alone.

>>> scores = np.array([[0.9, 0.1, 0.5], [0.8, 0.4, 0.5], [0.2, 0.3, 0.5], [0.1, 0.2, 0.5]])
>>> inside = np.array([[True, False, True], [True, True, False], [False, True, True], [False, False, False]])
>>> per_record_risk(scores, inside).tolist()
[1.0, 1.0, 0.5]
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.audit.rates import most_accuracy, most_advantage
from tacit.audit.roc import Roc, roc


def per_record_risk(scores: ArrayLike, inside: ArrayLike) -> NDArray[np.float64]:
    """For each record (column), how often a training with it scores higher than one without, ties half; NaN-free: 1/2 where unknown.

    `scores[i, j]` is record j's score under model i, and `inside[i, j]` says whether model i was trained on it.
    """
    values, members = np.asarray(scores, dtype=np.float64), np.asarray(inside, dtype=bool)
    if values.shape != members.shape or values.ndim != 2:
        raise ParameterError("scores and inside must be two tables of the same shape: models by records")
    return np.array([_risk(values[:, j], members[:, j]) for j in range(values.shape[1])])


def _risk(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    return 0.5 if members.all() or not members.any() else roc(scores, members).auc


def per_group(scores: ArrayLike, bits: ArrayLike, groups: Sequence[Hashable]) -> dict[Hashable, Roc]:
    """The curve of each group that has members and non-members in the trial.

    >>> found = per_group([3, 1, 2, 2], [True, False, True, False], ["a", "a", "b", "b"])
    >>> {name: curve.auc for name, curve in found.items()}
    {'a': 1.0, 'b': 0.5}
    """
    values, members = np.asarray(scores, dtype=np.float64), np.asarray(bits, dtype=bool)
    if len(groups) != len(values):
        raise ParameterError("one group for each score is needed")
    found: dict[Hashable, Roc] = {}
    for name in dict.fromkeys(groups):
        mask = np.array([group == name for group in groups])
        if members[mask].any() and not members[mask].all():
            found[name] = roc(values[mask], members[mask])
    return found


def most_auc(epsilon: float, delta: float = 0.0) -> float:
    """The largest area under the curve that (epsilon, delta) permits.

    The curve is bounded by two lines which meet where the advantage is largest, a, so the area is at most (1 + a) / 2 when delta is 0; with
    delta the lines start at height delta and end that far before 1, and the area is that of the polygon below them.

    >>> round(most_auc(1), 6), round(most_auc(1, 0.1), 6)
    (0.731059, 0.782157)
    """
    if delta >= 1:
        return 1.0
    corner = (1 - delta) / (1 + math.exp(epsilon))  # the false positive rate where the lines meet
    height = 1 - corner
    rising = corner * (delta + height) / 2
    falling = (1 - delta - corner) * (height + 1) / 2
    return rising + falling + delta


def permitted(epsilon: float, delta: float = 0.0) -> dict[str, float]:
    """What a promise leaves to the best attack in the game of the worst case.

    >>> {name: round(value, 4) for name, value in permitted(1).items()}
    {'accuracy': 0.7311, 'advantage': 0.4621, 'auc': 0.7311}
    """
    return {
        "accuracy": most_accuracy(epsilon, delta),
        "advantage": most_advantage(epsilon, delta),
        "auc": most_auc(epsilon, delta),
    }
