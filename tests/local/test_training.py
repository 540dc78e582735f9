"""Gradient descent in rounds and least squares in one round, against plain solutions."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, account
from tacit.errors import ParameterError
from tacit.local import Collector, GradientRound, LeastSquares, as_batch, least_squares_moments, moments, partition_users, trained
from tacit.local.training import LOSSES, bounded
from tacit.noise import test_mode as seeded

WEIGHTS = np.array([0.6, -0.4, 0.2])


def people(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (n, 3))
    return rows, np.clip(rows @ WEIGHTS + random.normal(0, 0.05, n), -1, 1)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_gradients_are_those_of_the_loss(loss: str) -> None:
    losses = {
        "squared": lambda w, x, y: (x @ w - y) ** 2,
        "hinge": lambda w, x, y: max(0.0, 1 - y * (x @ w)),
        "logistic": lambda w, x, y: np.log1p(np.exp(-y * (x @ w))),
    }
    random = np.random.default_rng(3)
    for _ in range(20):
        w, x, y = random.normal(0, 0.5, 3), random.uniform(-1, 1, 3), float(random.choice([-1, 1]))
        found = LOSSES[loss](w, x[None, :], np.array([y]))[0]
        for k in range(3):
            step = np.eye(3)[k] * 1e-6
            numeric = (losses[loss](w + step, x, y) - losses[loss](w - step, x, y)) / 2e-6
            assert found[k] == pytest.approx(numeric, abs=1e-5)


def test_one_round_moves_by_the_mean_gradient_within_its_deviation() -> None:
    rows, labels = people(40_000)
    step = GradientRound(np.zeros(3), "squared", 4)
    with seeded(1):
        collector = Collector(step.protocol).ingest(step.reports(rows, labels))
    moved = step.moved(collector, rate=1)
    exact = -np.clip(LOSSES["squared"](np.zeros(3), rows, labels), -1, 1).mean(axis=0)
    # six deviations of a sampled coordinate's mean
    assert (np.abs(moved.weights - exact) < 6 * step.protocol.randomiser.variance(40_000) ** 0.5).all()
    assert account(step.event, Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(4)


def test_training_comes_near_the_plain_solution() -> None:
    rows, labels = people(120_000)
    with seeded(2):
        found = trained(rows, labels, epsilon=4, rounds=8, rate=0.7)
    assert np.abs(found.weights - WEIGHTS).max() < 0.1
    error, none = np.mean((found.predict(rows) - labels) ** 2), np.mean(labels**2)
    assert error < 0.1 * none


def test_a_classifier_is_found_too() -> None:
    rows, scores = people(60_000)
    labels = np.where(scores > 0, 1.0, -1.0)
    for loss in ("logistic", "hinge"):
        with seeded(3):
            found = trained(rows, labels, epsilon=4, rounds=8, rate=2, loss=loss)
        assert np.mean(np.sign(found.predict(rows)) == labels) > 0.9, loss


def test_least_squares_in_one_round() -> None:
    rows, labels = people(200_000)
    protocol = least_squares_moments(3, epsilon=4)
    with seeded(4):
        held = protocol.places(moments(rows, labels, 3))
        collector = Collector(protocol).ingest(as_batch(protocol, protocol.randomiser.privatise(held)))
    found = LeastSquares.of(collector, 3)
    assert np.abs(found.weights - WEIGHTS).max() < 0.15
    plain = LeastSquares.of(collector, 3, ridge=0)
    assert found.ridge > plain.ridge == 0
    # without noise the products give the plain solution
    exact = moments(rows, labels, 3).mean(axis=0)
    matrix = np.zeros((3, 3))
    matrix[np.triu_indices(3)] = exact[:6]
    matrix += np.triu(matrix, 1).T
    np.testing.assert_allclose(np.linalg.solve(matrix, exact[6:]), np.linalg.lstsq(rows, labels, rcond=None)[0], atol=1e-9)
    with pytest.raises(ParameterError, match="least_squares_moments"):
        LeastSquares.of(collector, 4)


def test_odd_rows_neither_raise_nor_reach_beyond_the_clip() -> None:
    odd = np.array([[np.nan, np.inf, -np.inf], [1e308, -1e308, 0.0]])
    assert np.abs(bounded(odd, 3)).max() <= 1 and not np.isnan(bounded(odd, 3)).any()
    step = GradientRound(np.full(3, 1e6), "squared", 1)
    assert np.abs(step.gradients(odd, [np.nan, 5])).max() <= 1
    assert step.reports(odd, [np.nan, 5]).num_rows == 2
    assert np.abs(moments(odd, [np.inf, np.nan], 3)).max() <= 1
    with pytest.raises(ParameterError):
        GradientRound(np.zeros(2), "absolute", 1)
    with pytest.raises(ParameterError):
        trained(np.zeros((3, 2)), np.zeros(3), epsilon=1, rounds=2, rate=1)


def test_people_are_split_and_each_is_asked_once() -> None:
    with seeded(5):
        groups = partition_users(100, ["a", "b", "c"])
    assert sorted(np.concatenate(list(groups.values())).tolist()) == list(range(100))
    with pytest.raises(ParameterError):
        partition_users(10, ["a", "a"])


def test_one_persons_text_neither_raises_nor_shows() -> None:
    rows, labels = people(40)
    odd = rows.astype(object)
    odd[3] = ["a secret", None, 10**400]
    assert bounded(odd, 3)[3].tolist() == [0.0, 0.0, 1.0]
    assert trained(odd, labels, epsilon=1, rounds=2, rate=1).weights.shape == (3,)
    with pytest.raises(ParameterError) as refused:
        bounded([["a secret", 1.0], [1.0]], 2)
    assert "secret" not in str(refused.value)
