"""Auditing by poisoning (Jagielski, Ullman and Oprea 2020): k records are added which the training cannot hide, and their trace is sought.

Under epsilon a record, k of them are indistinguishable up to k epsilon, with delta (e^(k eps) - 1) / (e^eps - 1). So a test refutes every
epsilon for which its rates break that, and a coin-flip game is won with probability at most e^(k eps) / (1 + e^(k eps)): the form with
1 + e^eps below, which one finds printed, exceeds one.

>>> from tacit.audit.rates import OperatingPoint
>>> point = OperatingPoint(fpr=0.01, tpr=0.5, confidence=0.95)
>>> round(group_epsilon(point, records=1), 4), round(group_epsilon(point, records=4), 4)
(3.912, 0.978)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import generator, map_trials, spawn
from tacit.audit.models.games import size_of, take, trained
from tacit.audit.models.roc import evidence_of
from tacit.audit.rates import OperatingPoint
from tacit.parameters import count


def group_delta(epsilon: float, delta: float, records: int) -> float:
    """The delta of `records` of them at `records` times epsilon.

    >>> group_delta(0.0, 1e-6, 3) == 3e-6, round(group_delta(1.0, 1e-6, 2) / 1e-6, 4)
    (True, 3.7183)
    """
    if epsilon == 0:
        return min(1.0, records * delta)
    grown = records * epsilon
    return min(1.0, delta * math.expm1(min(grown, 700.0)) / math.expm1(min(epsilon, 700.0)))


def group_epsilon(point: OperatingPoint, *, records: int, delta: float = 0.0) -> float:
    """The largest epsilon a record, at `delta` a record, that a test with these rates on a group refutes."""
    k = count("records", records)

    def refuted(epsilon: float) -> bool:
        return point.epsilon(group_delta(epsilon, delta, k)) > k * epsilon

    if delta == 0:
        return point.epsilon() / k
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, point.epsilon(delta) / k + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def joined(data: Any, more: Any) -> Any:
    """Two data sets of one form, one after the other.

    >>> joined((np.array([1, 2]),), (np.array([3]),))
    (array([1, 2, 3]),)
    """
    if isinstance(data, dict):
        return {name: joined(column, more[name]) for name, column in data.items()}
    if isinstance(data, tuple):
        return tuple(joined(a, b) for a, b in zip(data, more, strict=True))
    return list(data) + list(more) if isinstance(data, list) else np.concatenate([np.asarray(data), np.asarray(more)])


def backdoor(x: Any, y: int, *, records: int, scale: float = 3.0, column: int | None = None) -> tuple[Any, Any]:
    """Poison for a classifier: `records` copies of one far point with a label that nothing else supports.

    The point lies along the direction in which the given inputs vary least (ClipBKD's choice: little else pulls on the weights there), or
    along one column. Its length is `scale` times the mean length of the inputs.

    >>> inputs = np.array([[1.0, 0.0], [-1.0, 0.1], [2.0, 0.0]])
    >>> poison, labels = backdoor(inputs, 1, records=2)
    >>> bool(abs(poison[0][1]) > abs(poison[0][0])), labels.tolist()
    (True, [1, 1])
    """
    inputs = np.asarray(x, dtype=np.float64)
    width = inputs.shape[1]
    direction = np.linalg.svd(inputs, full_matrices=True)[2][-1] if column is None else np.eye(width)[column]
    length = scale * float(np.mean(np.linalg.norm(inputs, axis=1)))
    return np.tile(length * direction, (count("records", records), 1)), np.full(records, y)


def audit_poisoning(
    train: Callable[..., Any],
    data: Any,
    poison: Any,
    statistic: Callable[[Any, Any], float],
    *,
    trials: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    seed: int | None = None,
    workers: int = 1,
    progress: bool = False,
) -> Evidence:
    """Train `trials` times, half of them with the poison; `statistic(model, poison)` should be higher where it is in.

    The bound is on epsilon for one record, by group privacy, with the number of poisoned records as the size of the group.

    >>> from tacit.audit.experiment import generator
    >>> total = lambda rows, seed: rows.sum() + generator(seed).laplace(0, 1)  # epsilon 1
    >>> found = audit_poisoning(total, np.zeros(5), np.ones(2), lambda model, poison: model, trials=4000, seed=1)
    >>> 0.7 < found.lower <= 1
    True
    """
    k = size_of(poison)
    if k < 1:
        raise ParameterError("the poison must hold at least one record")
    coins = generator(seed)
    bits = coins.permutation(np.arange(count("trials", trials, least=4)) % 2 == 0)
    seeds = [None if seed is None else int(one.integers(2**62)) for one in spawn(coins, trials)]
    worlds = (data, joined(data, poison))

    def one(play: tuple[bool, int | None]) -> float:
        return float(statistic(trained(train, take(worlds[play[0]], np.arange(size_of(worlds[play[0]]))), play[1]), poison))

    plays = list(zip((bool(bit) for bit in bits), seeds, strict=True))
    scores = map_trials(one, plays, workers=workers, progress=progress, what="poisoned trainings")
    game = f"worst case: fixed data with and without {k} poisoned records, training fresh"
    found = evidence_of(scores, bits, attack="poisoning", game=game, delta=min(1.0, k * delta), confidence=confidence, seed=seed)
    lower = 0.0 if found.point is None else group_epsilon(found.point, records=k, delta=delta)
    return Evidence(
        "poisoning", game, lower, float(delta), float(confidence), trials, details={"records": k, "group": found.lower, **found.details}
    )
