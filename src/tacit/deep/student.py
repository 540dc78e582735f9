"""A semi-supervised student of teachers: few answers, many public inputs without one.

Answers of an ensemble cost privacy, public inputs do not. The student learns from what was answered, labels the other public inputs by
itself where it is sure enough, and learns again from all of them, for some rounds (Papernot et al. 2017, Section 4, train their student
with unlabelled public data; self-training is the simplest way). All of it is post-processing of the answers, and costs nothing. It helps
a model of where the classes lie; a rule that is only surer of its own mistakes after each round gets worse: compare both on public records.

>>> import numpy as np
>>> questions, unlabelled = np.array([0.0, 1.0]), np.linspace(0, 1, 11)
>>> def fit(x, y):
...     first, second = x[y == 0].mean(), x[y == 1].mean()
...     odds = lambda new: 1 / (1 + np.exp(20 * (abs(new - first) - abs(new - second))))
...     return lambda new: np.stack([odds(new), 1 - odds(new)], axis=1)
>>> student = semi_supervised_student(fit, questions, [0, 1], unlabelled, confidence=0.9)
>>> student(np.array([0.2])).argmax(1).tolist()
[0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.parameters import count, probability

#: From inputs to the probabilities of the classes, one row for each input.
Scores = Callable[[Any], ArrayLike]


def semi_supervised_student(
    fit: Callable[[Any, NDArray[np.int64]], Any], questions: Any, labels: ArrayLike, unlabelled: Any, *,
    confidence: float = 0.9, rounds: int = 3,
) -> Any:
    """A student of the answered questions (label not -1) and of public inputs without an answer.

    `fit(inputs, labels)` returns a model: a function to the probabilities of the classes, or with a `predict_proba`. Inputs whose
    likeliest class has at least the `confidence` join the next round under it; an answer is never overruled.
    """
    given = np.asarray(labels, dtype=np.int64)
    if len(given) != len(questions):
        raise ParameterError(f"there must be one label for each of the {len(questions)} questions, not {len(given)}")
    sure = float(probability("confidence", confidence))
    answered = np.flatnonzero(given >= 0)
    asked, own = np.asarray(questions), given[answered]
    open_inputs = np.concatenate([asked[given < 0], np.asarray(unlabelled)])
    model = fit(asked[answered], own)
    for _ in range(count("rounds", rounds, least=0)):
        scores = np.asarray(model.predict_proba(open_inputs) if hasattr(model, "predict_proba") else model(open_inputs), dtype=np.float64)
        if scores.shape[:1] != (len(open_inputs),) or scores.ndim != 2:
            raise ParameterError("a student must return one row of probabilities for each input")
        kept = scores.max(axis=1) >= sure
        model = fit(np.concatenate([asked[answered], open_inputs[kept]]), np.concatenate([own, scores[kept].argmax(axis=1)]))
    return model
