"""Draw and discard: updates are unbiased and move one coordinate, nothing odd raises, training finds a planted point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import RandomizedResponse
from tacit.errors import ParameterError
from tacit.local.replicas import Replicas, noised, update_event


def test_an_update_is_unbiased_and_moves_one_coordinate() -> None:
    """8,000 updates; each coordinate's mean within 6 deviations, of variance at most d c^2. The mutant without its scale fails."""
    update, n = np.array([0.5, -1.0, 0.0]), 8_000
    moves = np.array([noised(np.zeros(3), update, epsilon=1, rate=1.0) for _ in range(n)])
    assert (np.count_nonzero(moves, axis=1) == 1).all()
    c = (math.e + 1) / (math.e - 1)
    limit = 6 * math.sqrt(3 * c * c / n)
    assert np.abs(moves.mean(axis=0) - update).max() < limit < np.abs(moves.mean(axis=0) / 3 - update).max()
    assert set(np.round(np.abs(moves[moves != 0]), 9)) == {round(3 * c, 9)}  # the size tells nothing
    assert update_event(1) == RandomizedResponse(1, 2)


def test_odd_updates_look_like_any_other() -> None:
    for odd in ([math.nan] * 2, [math.inf, -math.inf], [1e308, -1e308], [0.0, 0.0]):
        assert np.isfinite(noised(np.zeros(2), np.array(odd), epsilon=1, rate=0.1)).all()
    with pytest.raises(ParameterError, match="length"):
        noised(np.zeros(2), np.zeros(3), epsilon=1, rate=0.1)


def test_replicas_ignore_what_does_not_fit() -> None:
    replicas = Replicas(np.ones(2), copies=4)
    for odd in (np.array([math.nan, 0]), np.zeros(3), np.array(["a", "b"]), np.array([math.inf, 1])):
        replicas.discard(odd)
    assert (replicas.copies == 1).all()
    replicas.discard(np.zeros(2))
    assert (replicas.copies == 0).all(axis=1).sum() == 1
    drawn = replicas.draw()
    drawn += 100
    assert replicas.copies.max() == 1  # a device gets a copy of a copy


def test_training_finds_the_mean_of_what_people_hold() -> None:
    """10,000 people pull the model to their point (.5, -.3): the mean of 8 copies ends within .3 of it, from .58 away."""
    target, replicas = np.array([0.5, -0.3]), Replicas(np.zeros(2), copies=8)
    for _ in range(10_000):
        drawn = replicas.draw()
        replicas.discard(noised(drawn, target - drawn, epsilon=2, rate=0.004))
    assert np.linalg.norm(replicas.mean() - target) < 0.3
