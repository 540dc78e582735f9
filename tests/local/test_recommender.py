"""Matrix factorisation: gradients of all entries, no profile in a report, better than item means."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, account
from tacit.errors import ParameterError
from tacit.local import ItemProfiles, factorised
from tacit.local.recommender import known_ratings
from tacit.noise import test_mode as seeded


def people(n: int, items: int = 8, rated: float = 0.8, seed: int = 1) -> np.ndarray:
    """Ratings of two tastes: what one half likes, the other does not."""
    random = np.random.default_rng(seed)
    taste = random.uniform(-1, 1, n)
    item = np.where(np.arange(items) % 2 == 0, 0.9, -0.9)
    found = np.clip(taste[:, None] * item[None, :] + random.normal(0, 0.05, (n, items)), -1, 1)
    return np.where(random.random((n, items)) < rated, found, np.nan)


def test_the_gradient_is_that_of_the_squared_errors_and_covers_all_entries() -> None:
    random = np.random.default_rng(4)
    model = ItemProfiles(random.normal(0, 0.3, (2, 5)), 1)
    ratings = people(3, items=5)
    own = model.own_profiles(ratings)
    gradients = model.gradients(ratings)
    assert gradients.shape == (3, 10)

    def loss(profiles: np.ndarray, person: int) -> float:
        return float(np.nansum((ratings[person] - own[person] @ profiles) ** 2))

    for person in range(3):
        for entry in range(10):
            step = np.zeros(10)
            step[entry] = 1e-6
            up, down = (loss(model.profiles + sign * step.reshape(2, 5), person) for sign in (1, -1))
            assert gradients[person, entry] == pytest.approx(np.clip((up - down) / 2e-6, -1, 1), abs=1e-5)
    unrated = np.isnan(ratings)
    assert (gradients.reshape(3, 2, 5)[np.repeat(unrated[:, None, :], 2, axis=1)] == 0).all()


def test_a_report_has_one_length_whatever_was_rated() -> None:
    model = ItemProfiles.start(items=6, factors=2, epsilon=1)
    assert model.protocol.randomiser.dimensions == 12  # type: ignore[attr-defined]
    nothing, all_ = np.full((50, 6), np.nan), np.ones((50, 6))
    assert model.reports(nothing).schema == model.reports(all_).schema
    assert account(model.event, Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(1)


def test_it_beats_item_means() -> None:
    ratings = people(120_000)
    with seeded(3):
        model = factorised(ratings, factors=1, epsilon=4, rounds=8, rate=4)
    fresh = people(2000, seed=9)
    hidden = fresh.copy()
    target = ~np.isnan(fresh) & (np.arange(8) >= 4)
    hidden[:, 4:] = np.nan
    means = np.nanmean(ratings, axis=0)
    ours = np.sqrt(np.mean((model.predict(hidden) - fresh)[target] ** 2))
    baseline = np.sqrt(np.mean((means[None, :] - fresh)[target] ** 2))
    assert ours < 0.5 * baseline


def test_odd_ratings_neither_raise_nor_reach_beyond_the_clip() -> None:
    odd = [[np.nan, np.inf], [1e308, -5.0]]
    assert known_ratings(odd, 2).tolist()[1] == [1.0, -1.0]
    model = ItemProfiles(np.full((1, 2), 1e3), 1)
    assert np.abs(model.gradients(odd)).max() <= 1
    with pytest.raises(ParameterError):
        model.gradients([[1.0, 2.0, 3.0]])
    with pytest.raises(ParameterError):
        factorised(np.zeros((3, 2)), factors=1, epsilon=1, rounds=2, rate=1)


def test_no_device_fails_whatever_it_rated() -> None:
    odd = np.array([["a secret", 1.0, None], [1.0, 1.0, 1.0], [None, None, None]] * 4, dtype=object)
    assert factorised(odd, factors=2, epsilon=1, rounds=2, rate=1).profiles.shape == (2, 3)
    alike = ItemProfiles(np.full((2, 3), 1e12), 1, ridge=1e-9)  # the ridge is lost beside these, and the matrix is singular
    assert np.isfinite(alike.gradients(odd)).all()
    with pytest.raises(ParameterError):
        ItemProfiles(np.ones((2, 3)), 1, ridge=0)
