"""The floor of a classifier: the private shares of the classes, and when a slope is more than noise.

`Prior` is what a classifier predicts when nothing else was learned. A fit buys it first, with a small share, and
starts its scores there. `kept` says how much of a slope to keep, by the energy that noise alone would have: so
the model falls back to the larger class where its own noise would hide the signal.

>>> kept(25.0, 2.0, 2), kept(3.0, 2.0, 2)
(0.92, 0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.learning.linear.purse import Purse

Array = NDArray[np.float64]
# shares of the purse: the first look; where there is little more to learn a second one, and a look at what was learned
FIRST, FIRST_PURE, SECOND, SECOND_PURE, CHECK = 0.03, 0.06, 0.08, 0.35, 0.2
PROOF, PROOF_PURE = 0.2, 1.5  # deviations by which scores must agree with the labels
CLEAR = 1.0  # deviations by which the energy of a slope must stand out from that of noise


@dataclass(frozen=True)
class Prior:
    """Released shares of the classes, and the number of rows: public, or the released sum of the classes."""

    shares: Array
    rows: float
    few: bool  # whether there is so little to learn that it has to be looked at

    @classmethod
    def buy(cls, codes: NDArray[np.int64], classes: int, purse: Purse, rows: int | None, *, few: float) -> Prior:
        """Counts of the classes; where rows times strength is below `few`, a second look at them."""
        counts, noise = purse.counts(codes[:, None], classes, FIRST_PURE if purse.pure else FIRST)
        n = float(rows) if rows is not None else max(float(counts.sum()), noise, 1.0)
        poor = n * purse.strength < few
        if poor:
            again, other = purse.counts(codes[:, None], classes, SECOND_PURE if purse.pure else SECOND)
            counts = (counts / noise**2 + again / other**2) / (noise**-2 + other**-2)
            noise = (noise**-2 + other**-2) ** -0.5
        return cls(class_shares(counts[0], noise), n, poor)

    @property
    def scores(self) -> Array:
        """The scores that stand for these shares: one for two classes, one a class otherwise."""
        logs = np.log(self.shares)
        return logs[1:] - logs[:1] if len(logs) == 2 else logs


def agrees(scores: Array, codes: NDArray[np.int64], prior: Prior, reach: float, purse: Purse) -> bool:
    """Whether scores around their level agree with the labels beyond noise: one number, their covariance, is released.

    `scores` has a column for each score, and `reach` is a released length at which a person's part is cut.
    """
    truth = codes[:, None] == np.arange(len(prior.shares))
    rest = (truth - prior.shares) * (codes >= 0)[:, None]
    part = (rest[:, 1:] if scores.shape[1] == 1 else rest) * scores / max(reach, 1e-12)
    (total,), noise = purse.box_sum(np.clip(part.sum(axis=1, keepdims=True), -1.0, 1.0), CHECK)
    return bool(total > (PROOF_PURE if purse.pure else PROOF) * noise)


def class_shares(counts: Array, noise: float) -> Array:
    """Shares of the classes from noisy counts, none below a class of one deviation of the noise.

    >>> class_shares(np.array([90.0, 10.0]), 1.0).round(2), class_shares(np.array([95.0, -10.0]), 5.0).round(2)
    (array([0.9, 0.1]), array([0.95, 0.05]))
    """
    held = np.maximum(counts, max(noise, 1.0))
    found: Array = held / held.sum()
    return found


def kept(energy: float, chance: float, size: int) -> float:
    """The factor for a slope of this energy where noise alone would have `chance`, in so many directions.

    It is 0 where the energy is not clearly more than that of noise, whose deviation is sqrt(2 / size) of its mean, and
    James and Stein's factor (1961) beyond.
    """
    if energy <= chance * (1 + CLEAR * math.sqrt(2 / size)):
        return 0.0
    return 1 - chance / energy
