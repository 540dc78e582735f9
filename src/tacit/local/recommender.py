"""Recommendations from ratings that stay on devices: matrix factorisation with randomised gradients of the item profiles.

A rating of person i for item j is taken to be u_i' v_j. Profiles u_i never leave their devices; the item profiles V are public and
trained in rounds (Shin et al. 2018). A device fits its own u_i to its ratings, computes the gradient of its squared errors with respect
to *all* of V (zero where it rated nothing, so that what was rated is hidden too), clips every entry to [-1, 1] and reports one randomised
entry with the whole epsilon. Each person takes part in one round: people are split, not epsilon.

>>> ratings = np.array([[1.0, np.nan, -1.0], [np.nan, 0.5, 0.5]])
>>> model = ItemProfiles.start(items=3, factors=2, epsilon=1)
>>> model.gradients(ratings).shape  # l * m entries, rated or not
(2, 6)
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Event
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.protocol import Protocol
from tacit.local.reports import to_batch
from tacit.local.training import as_floats
from tacit.local.vectors import MeanVector, vector_means
from tacit.parameters import Number, count, positive

Array = NDArray[np.float64]


def known_ratings(given: Any, items: int) -> Array:
    """Ratings between -1 and 1, a row a person; NaN is an item that was not rated, and so is what is no number.

    >>> known_ratings([[5.0, float("inf")]], 2).tolist()
    [[1.0, nan]]
    """
    found = as_floats(given)
    if found.ndim != 2 or found.shape[1] != items:
        raise ParameterError(f"ratings must be a table with {items} columns, NaN where an item was not rated")
    found[~np.isfinite(found)] = np.nan
    return np.clip(found, -1.0, 1.0)


def _solved(grams: Array, right: Array) -> Array:
    """Each person's solution; zeros where rounding left a matrix singular, since a device that fails tells what it rated."""
    found = np.zeros_like(right)
    try:
        found[:] = np.linalg.solve(grams, right[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        for person in range(len(right)):
            with contextlib.suppress(np.linalg.LinAlgError):
                found[person] = np.linalg.solve(grams[person], right[person])
    return np.nan_to_num(found)


@dataclass(frozen=True)
class ItemProfiles:
    """Public profiles of items, `factors` numbers each, and how a person's device answers to them.

    Guarantee
        Statement: a report costs `event`, for any two persons' ratings, rated or not.
        Conditions: one round a person; the profiles come from earlier people's reports only.
        Proved in: the gradient has an entry for every factor and item, each clipped to [-1, 1]; `SampledCoordinates` keeps its price
        for any two such vectors.
    """

    profiles: Array
    epsilon: Number
    ridge: float = 0.1

    def __post_init__(self) -> None:
        positive("ridge", self.ridge)

    @classmethod
    def start(cls, *, items: int, factors: int, epsilon: Number) -> ItemProfiles:
        """Small random profiles, drawn without data: all zero would leave every gradient zero."""
        shape = (count("factors", factors), count("items", items, least=2))
        random = np.random.default_rng(noise.words(4).tolist())
        return cls(random.normal(0, 0.5 / math.sqrt(shape[0]), shape), positive("epsilon", epsilon))

    @property
    def protocol(self) -> Protocol:
        """The protocol of a round: one of factors times items coordinates."""
        return vector_means(self.profiles.size, bounds=(-1, 1), epsilon=self.epsilon)

    @property
    def event(self) -> Event:
        """The price of one report."""
        return self.protocol.event

    # --- the device ---

    def own_profiles(self, ratings: Any) -> Array:
        """Each person's profile: the ridge solution for the own ratings. It stays on the device."""
        rated = known_ratings(ratings, self.profiles.shape[1])
        seen, values = ~np.isnan(rated), np.nan_to_num(rated)
        grams = np.einsum("nm,lm,km->nlk", seen.astype(np.float64), self.profiles, self.profiles)
        grams += self.ridge * np.eye(len(self.profiles))
        return _solved(grams, values @ self.profiles.T)

    def gradients(self, ratings: Any) -> Array:
        """Each person's clipped gradient with respect to all item profiles: -2 y_ij (r_ij - u_i' v_j) u_i."""
        rated = known_ratings(ratings, self.profiles.shape[1])
        own = self.own_profiles(rated)
        error = np.where(np.isnan(rated), 0.0, np.nan_to_num(rated) - own @ self.profiles)
        found = -2 * own[:, :, None] * error[:, None, :]
        return np.clip(np.nan_to_num(found), -1.0, 1.0).reshape(len(rated), -1)

    def reports(self, ratings: Any) -> Any:
        """What the devices of these people send, as one batch."""
        return to_batch(self.protocol, self.gradients(ratings))

    def predict(self, ratings: Any) -> Array:
        """The ratings that a device foretells for all items from its own ratings."""
        return np.asarray(self.own_profiles(ratings) @ self.profiles)

    # --- the server ---

    def moved(self, collector: Collector, *, rate: Number) -> ItemProfiles:
        """The next round's profiles: a step against the estimated mean gradient."""
        mean = MeanVector.of(collector).value.reshape(self.profiles.shape)
        return replace(self, profiles=self.profiles - float(positive("rate", rate)) * mean)


def factorised(
    ratings: Any, *, factors: int, epsilon: Number, rounds: int, rate: Number, start: ItemProfiles | None = None
) -> ItemProfiles:
    """All rounds on people whose ratings are here, as their devices would do it; each person is in one round, drawn at random.

    >>> people = np.where(np.arange(4000)[:, None] % 2 == 0, [0.9, 0.9, -0.9], [-0.9, -0.9, 0.9])
    >>> factorised(people, factors=1, epsilon=4, rounds=4, rate=2).profiles.shape
    (1, 3)
    """
    given, turns = as_floats(ratings), count("rounds", rounds)
    if given.ndim != 2 or len(given) < 2 * turns:
        raise ParameterError("ratings must be a table with at least two people a round")
    model = start or ItemProfiles.start(items=given.shape[1], factors=factors, epsilon=epsilon)
    path = []
    for k, group in enumerate(np.array_split(noise.permutation(len(given)), turns)):
        collector = Collector(model.protocol).ingest(model.reports(given[group]))
        model = model.moved(collector, rate=float(positive("rate", rate)) / math.sqrt(1 + k / 4))
        path.append(model.profiles)
    return replace(model, profiles=np.mean(path[turns // 2 :], axis=0))
