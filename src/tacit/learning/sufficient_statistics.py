"""Least squares from one noisy matrix: the second moment of (row, 1, label) holds everything a linear regression needs.

One release with exact Gaussian noise gives X'X, X'y, the number of rows and the means together, at the sensitivity of the whole vector
instead of a third of the budget each. Two things make its noise small: the three parts are weighted so that the noise falls where it does
least harm, and rows longer than a public reach are weighted down *together with their label* (Mallows 1975), which leaves a linear model
unbiased where clipping the row alone would not. The ridge adapts to the noise (as in AdaSSP, Wang 2018, which spends a third of its budget
on the least eigenvalue; here it is read off the release): an eigenvalue is inverted by Wiener's filter at the edge of the noise's spectrum.

>>> from tacit.noise import test_mode
>>> U = np.linspace(-1, 1, 2001)[:, None]
>>> plan = MomentPlan.make(Guarantee(epsilon=10, delta=1e-5), Adjacency.ADD_REMOVE, features=1, rows=2001)
>>> with test_mode(0):
...     found = plan.run(U, 0.5 * U[:, 0] + 0.1)
>>> found.coef.round(2), found.intercept.round(2)
(array([[0.5]]), array([0.1]))
>>> bool(abs(found.coef[0, 0] - 0.5) < 4 * found.bar.errors[0])
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee
from tacit.accounting.parameters import nonnegative
from tacit.learning.choice import UNKNOWN_ROWS
from tacit.learning.error_bars import NoiseBar, least_squares_noise
from tacit.learning.preconditioned_descent import LinearFit
from tacit.mechanisms.row_sums import farthest_moment, noisy_second_moment

Array = NDArray[np.float64]
ONE, LABEL = 0.3, 0.6  # lengths of the constant and of the label in a vector of length 1; the row has the rest
ROW = math.sqrt(1 - ONE**2 - LABEL**2)
REACH = 0.6  # rows beyond this part of the longest possible length are weighted down
PLENTY = 1000  # n mu above so many times the features: noise is negligible, and all rows weigh the same


@dataclass(frozen=True)
class MomentPlan:
    """One Gaussian release of a second moment, fixed before the data is touched.

    Guarantee
        Statement: costs Gaussian(multiplier). Conditions: labels are cut to [-1, 1] and rows weighted down to `reach` before anything is
        summed. Proved in: `noisy_second_moment` of vectors of length at most 1; all the rest is post-processing.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    features: int
    reach: float
    event: Event
    multiplier: float

    @classmethod
    def make(
        cls, guarantee: Guarantee, adjacency: Adjacency, features: int, rows: int | None = None, reach: float | None = None
    ) -> MomentPlan:
        """The least noise that keeps the guarantee. `reach` is by default 0.6 of the longest row of [-1, 1]^d, and all of it where a public
        number of rows makes noise negligible: then this is ordinary least squares."""
        event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
        part = 1.0 if (rows or UNKNOWN_ROWS) * mu >= PLENTY * features else REACH
        return cls(guarantee, adjacency, features, part * math.sqrt(features) if reach is None else float(reach), event, 1 / mu)

    def run(self, U: Array, labels: Array, alpha: float = 0.0) -> LinearFit:
        """The ridge regression of labels in [-1, 1]; `alpha` penalises the squared coefficients of rows in public units, not the
        intercept."""
        penalty, d = float(nonnegative("alpha", alpha)), self.features
        rows = np.nan_to_num(U)
        weight = np.minimum(1.0, self.reach / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
        parts = [ROW / self.reach * rows, np.full((len(U), 1), ONE), LABEL * np.clip(np.nan_to_num(labels), -1, 1)[:, None]]
        moment = noisy_second_moment(np.hstack(parts) * weight, bound=1.0, multiplier=self.multiplier, adjacency=self.adjacency)
        deviation = self.multiplier * farthest_moment(1.0, self.adjacency)
        gram, cross = moment[: d + 1, : d + 1], moment[: d + 1, d + 1]
        values, vectors = np.linalg.eigh(gram)
        edge = deviation * math.sqrt(2 * (d + 1))  # of the spectrum of noise alone: 2 sqrt(d) times the deviation beside the diagonal
        seen = np.maximum(values, 0.0)
        sound = (vectors * (seen + edge**2 / np.maximum(seen, edge))) @ vectors.T
        ridge = np.diag(np.append(np.full(d, penalty * (ROW / self.reach) ** 2), 0.0))
        inverse = np.linalg.inv(sound + ridge)
        theta = inverse @ cross
        units = np.append(np.full(d, ROW / self.reach), ONE) / LABEL  # of a coefficient for (row, 1) and a label of their own size
        bar = NoiseBar(least_squares_noise(inverse, theta, deviation), "first order", sampling=self._sampling(moment, inverse, theta))
        return LinearFit((theta * units)[None, :d], (theta * units)[d:], deviation, bar.through(np.diag(units)))

    def _sampling(self, moment: Array, inverse: Array, theta: Array) -> Array:
        """What the sample leaves uncertain: the variance of the residuals, read off the release, over the released moments.

        Weights are at most 1, so this is at most too large; rows with residuals of unequal variance are taken for equal.
        """
        gram, cross, labels = moment[:-1, :-1], moment[:-1, -1], moment[-1, -1]
        people = max(float(moment[-2, -2]) / ONE**2, 1.0)
        residual = max(float(labels - 2 * theta @ cross + theta @ gram @ theta), 0.0) / people
        found: Array = residual * inverse
        return found
