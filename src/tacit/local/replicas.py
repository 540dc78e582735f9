"""Draw and discard: a model that many devices train without the server ever holding one device's update for long.

The server keeps k copies of a model. A device gets a random one, moves it by a randomised update and sends it back, and a random copy is
overwritten. An update costs its local price whatever becomes of it. The mean of the copies is the model, with less noise than any one
copy (Pihur et al. 2018).

>>> replicas = Replicas(np.zeros(3), copies=8)
>>> drawn = replicas.draw()
>>> replicas.discard(noised(drawn, np.array([1.0, 0.0, 0.0]), epsilon=1, rate=0.1))
>>> replicas.mean().shape
(3,)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Event
from tacit.errors import ParameterError
from tacit.local.telemetry import OneBitMean
from tacit.parameters import Number, count, positive

Array = NDArray[np.float64]
FINE = 1 << 20  # steps into which [-1, 1] is divided


def update_event(epsilon: Number) -> Event:
    """The price of one update.

    >>> update_event(1)
    RandomizedResponse(epsilon=1, categories=2)
    """
    return OneBitMean(FINE, epsilon).event


def noised(model: Array, update: Array, *, epsilon: Number, rate: float) -> Array:
    """The model moved by `rate` times an unbiased, randomised form of an update clipped to [-1, 1] in each coordinate.

    One coordinate is drawn without looking, one bit of it is told by `OneBitMean`, and the result stands for all coordinates. What is
    not finite counts as 0.

    Guarantee
        Statement: what is returned costs `update_event(epsilon)`, for any two updates.
        Conditions: the model and `rate` are public, or known to the server; one update a person, or one payment for each.
        Proved in: the coordinate does not depend on the update, and the bit is `OneBitMean`'s.
    """
    if update.shape != model.shape or model.ndim != 1:
        raise ParameterError("update must have the model's length")
    size = positive("rate", rate)
    oracle = OneBitMean(FINE, epsilon)
    place = noise.uniform_integers(len(model))
    known = np.clip(np.nan_to_num(update, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
    # all coordinates are rounded, so that nothing but the bit depends on the drawn one
    whole = np.rint((known + 1.0) / 2 * FINE).astype(np.int64)
    bit = bool(oracle.privatise(whole[place : place + 1])[0])
    odds = math.exp(float(epsilon))
    moved = model.copy()
    moved[place] += float(size) * len(model) * (odds + 1) / (odds - 1) * (1.0 if bit else -1.0)
    return moved


class Replicas:
    """The server's copies of a model."""

    def __init__(self, model: Array, *, copies: int) -> None:
        self.copies = np.tile(np.asarray(model, dtype=np.float64), (count("copies", copies), 1))

    def draw(self) -> Array:
        """A random copy, for a device."""
        return np.array(self.copies[noise.uniform_integers(len(self.copies))], dtype=np.float64)

    def discard(self, moved: Array) -> None:
        """Overwrite a random copy with what a device sent; what does not fit or is not finite is ignored."""
        given = np.asarray(moved)
        if given.shape == self.copies.shape[1:] and given.dtype.kind == "f" and np.isfinite(given).all():
            self.copies[noise.uniform_integers(len(self.copies))] = given

    def mean(self) -> Array:
        """The model: the mean of the copies."""
        return np.asarray(self.copies.mean(axis=0))
