"""A semi-supervised student: no rounds are the plain student; unlabelled inputs help where classes lie in clusters; it costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from tacit.accounting import ParameterError
from tacit.deep import Ensemble, LaplaceVotes, semi_supervised_student
from tacit.deep.pate import train_student


def logistic(x: Any, y: Any) -> LogisticRegression:
    return LogisticRegression(C=10.0).fit(x, y)


def clusters(number: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Two round clusters in ten dimensions; the best rule errs with probability Phi(-2), .023."""
    generator = np.random.default_rng(draw)
    labels = generator.integers(2, size=number)
    return generator.normal(size=(number, 10)) + (2 * labels[:, None] - 1) * 2 / np.sqrt(10), labels


def middles(x: Any, y: Any) -> Any:
    """Clusters of one shape around their means."""
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1.0).fit(x, y)


def test_without_rounds_it_is_the_plain_student() -> None:
    x, y = clusters(40, 0)
    y = np.where(np.arange(40) % 5 == 0, -1, y)
    plain = train_student(logistic, x, y)
    ours = semi_supervised_student(logistic, x, y, x[:3], rounds=0)
    assert np.array_equal(plain.coef_, ours.coef_)


def test_a_confidence_beyond_reach_adds_nothing() -> None:
    x, y = clusters(40, 0)
    given = np.where(np.arange(40) < 30, y, -1)
    ours = semi_supervised_student(lambda a, b: logistic(a, b), x, given, x, confidence=1.0, rounds=2)
    assert np.allclose(train_student(logistic, x, given).coef_, ours.coef_)


def test_inputs_without_answers_help() -> None:
    """Four answers, 480 inputs without: over 16 draws the student is better on average, and by a good deal."""
    plain, ours = [], []
    for draw in range(16):
        x, y = clusters(500, draw)
        given = np.full(20, -1)
        places = np.concatenate([np.flatnonzero(y[:20] == k)[:2] for k in (0, 1)])
        given[places] = y[places]
        new, truth = clusters(1000, 1000 + draw)
        plain.append(train_student(middles, x[:20], given).score(new, truth))
        ours.append(semi_supervised_student(middles, x[:20], given, x[20:], confidence=0.8, rounds=5).score(new, truth))
    gain = np.array(ours) - np.array(plain)
    assert gain.mean() > 3 * gain.std() / np.sqrt(16)


def test_it_costs_what_the_answers_cost() -> None:
    x, y = clusters(300, 1)
    teachers = [lambda new, k=k: (new.sum(1) > 0).astype(int) for k in range(100)]
    ensemble = Ensemble(teachers, classes=2, votes=LaplaceVotes(gamma=0.2))
    answers = ensemble.label(x[:10])
    before = ensemble.event
    student = semi_supervised_student(logistic, x[:10], answers, x[10:])
    assert ensemble.event is before
    assert student.score(x, y) > 0.9


def test_refusals() -> None:
    x, y = clusters(10, 0)
    with pytest.raises(ParameterError, match="one label for each"):
        semi_supervised_student(logistic, x, y[:3], x)
    with pytest.raises(ParameterError, match="one row of probabilities"):
        semi_supervised_student(lambda a, b: lambda new: np.zeros(3), x, y, x)
