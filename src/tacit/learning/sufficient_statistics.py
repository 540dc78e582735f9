"""Least squares from one noisy matrix: the second moment of (row, 1, label) holds everything a linear regression needs.

One release with exact Gaussian noise gives X'X, X'y, the number of rows and the means together, at the sensitivity of the whole vector
instead of a third of the budget each. The ridge adapts to the noise: eigenvalues below its level would be inverted into noise, so the
level is added to them (as in AdaSSP, Wang 2018, which spends a third of its budget on the least eigenvalue; here it is read off the
release).

>>> from tacit.noise import test_mode
>>> U = np.linspace(-1, 1, 2001)[:, None]
>>> plan = MomentPlan.make(Promise.of(epsilon=10, delta=1e-5), features=1)
>>> with test_mode(0):
...     found = plan.run(U, 0.5 * U[:, 0] + 0.1)
>>> found.coef.round(2), found.intercept.round(2)
(array([[0.5]]), array([0.1]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event
from tacit.accounting.parameters import nonnegative
from tacit.learning.noisy_sums import clip_rows, farthest, noisy_second_moment
from tacit.learning.preconditioned_descent import LinearFit
from tacit.learning.promise import Promise

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MomentPlan:
    """One Gaussian release of a second moment, fixed before the data is touched.

    Guarantee
        Statement: costs Gaussian(multiplier). Conditions: rows are clipped to `reach` and labels to [-1, 1] before anything is summed.
        Proved in: `noisy_second_moment` of vectors of length at most 1; all the rest is post-processing.
    """

    promise: Promise
    features: int
    reach: float
    event: Event
    multiplier: float

    @classmethod
    def make(cls, promise: Promise, features: int, reach: float | None = None) -> MomentPlan:
        """The least noise that keeps the promise. Rows are clipped to `reach`: all of [-1, 1]^d by default."""
        event, mu = promise.settle(lambda mu: promise.stated(1 / mu))
        return cls(promise, features, math.sqrt(features) if reach is None else float(reach), event, 1 / mu)

    def run(self, U: Array, labels: Array, alpha: float = 0.0) -> LinearFit:
        """The ridge regression of labels in [-1, 1]; `alpha` penalises the squared coefficients of rows in public units.

        The intercept is not penalised. Coefficients refer to the rows as given, whose clipping leaves them linear where nothing was
        clipped.
        """
        penalty, d = float(nonnegative("alpha", alpha)), self.features
        parts = [clip_rows(U, self.reach) / self.reach, np.ones((len(U), 1)), np.clip(np.nan_to_num(labels), -1, 1)[:, None]]
        moment = 3 * noisy_second_moment(
            np.hstack(parts) / math.sqrt(3), bound=1.0, multiplier=self.multiplier, adjacency=self.promise.adjacency
        )
        deviation = 3 * farthest(self.multiplier, self.promise.adjacency)
        gram, cross = moment[: d + 1, : d + 1], moment[: d + 1, d + 1]
        values, vectors = np.linalg.eigh(gram)
        # off-diagonal noise of variance s^2/2 has its spectrum within s sqrt(2 d); half of that separates signal from noise well
        level = deviation * math.sqrt((d + 1) / 2)
        kept = np.where(values > 4 * level, values, np.maximum(values, 0.0) + level)
        sound = (vectors * kept) @ vectors.T
        ridge = np.diag(np.append(np.full(d, penalty / self.reach**2), 0.0))
        theta = np.linalg.solve(sound + ridge, cross)
        return LinearFit(theta[None, :d] / self.reach, theta[d:], deviation)
