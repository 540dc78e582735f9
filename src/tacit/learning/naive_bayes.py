"""Private Gaussian naive Bayes: counts, sums and squares of every class in one noisy table.

Means and variances are read off the table and shrunk by the noise that they are known to carry. All of the
budget goes into the one release. Use this classifier where features are roughly independent within a class,
and people are too few for logistic regression.

>>> from tacit.noise import test_mode
>>> X = np.array([[0.1, 0.9], [0.8, 0.2], [0.2, 0.7], [0.9, 0.1]] * 200)
>>> y = np.array([0, 1, 0, 1] * 200)
>>> model = GaussianNB(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> with test_mode(1):
...     float(model.fit(X, y).score(X, y))
1.0
>>> model.privacy_.upper <= 1
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Gaussian, Guarantee
from tacit.calculus import codes_of
from tacit.learning.estimator import Array, Bounds, PrivateClassifier, RowSpace
from tacit.learning.linear.losses import log_probabilities, softmax
from tacit.ledger import Account
from tacit.mechanisms import clip_rows, farthest_table, noisy_table

COUNT, SQUARES = 0.5, 0.3  # weights of the count and of the squares in a row, beside 1 for the values themselves
REACH = 0.5  # rows are clipped to this part of the longest possible length
FLOOR = 0.15  # of a difference that is all noise on average: its direction still says something
LEAST, MOST = 0.01, 4.0  # variances, in units of that length for a row; below the least one feature would decide alone


class GaussianNB(PrivateClassifier):
    """Private naive Bayes with a Gaussian for each class and feature.

    Parameters
        epsilon, delta, rho, mu, guarantee: what it may cost; delta must be positive, the noise is Gaussian.
        bounds, data_norm, classes: public; see `tacit.learning.LogisticRegression`.
        adjacency, account, random_state: see `tacit.learning.estimator`.

    Fitted: theta_ and var_ (classes by features, in the units of the data), class_prior_, class_count_ (noisy), classes_, event_,
    privacy_, and noise_, the standard deviation of the noise of one class's sum of one feature, in units where the bounds are -1 and 1.
    Rows, in training and in prediction, are clipped to half of the longest length that the bounds allow.

    Guarantee
        Statement: fitting costs event_, one Gaussian release, whatever the values in X and y.
        Conditions: bounds and classes are public; a person is one row.
        Proved in: `row_sums.noisy_table` of the rows (count, x, x^2); the rest is post-processing.
    """

    def __init__(
        self, *,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, classes: ArrayLike | None = None, adjacency: str = "add-remove",
        account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, adjacency=adjacency, account=account, random_state=random_state,
        )  # fmt: skip
        self.classes = classes

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the guarantee and fit. Rows whose label was not declared count for nothing."""
        request, classes, labels = self._labelled(X, y)
        space, adjacency = request.space, request.adjacency
        event, mu = request.guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
        with self._spend(event, request.guarantee):
            V, codes = self._rows(space, request.numbers), codes_of(labels, classes)
            found = moments(V, codes, len(classes), 1 / mu, adjacency)
        self.space_, self.classes_ = space, classes
        self.class_count_, self.class_prior_ = found.counts, found.counts / found.counts.sum()
        self.moments_, self.noise_ = found, found.noise * REACH
        self.theta_ = space.centre + REACH * found.means * space.half
        self.var_ = found.variances * (REACH * space.half) ** 2
        return self

    @staticmethod
    def _rows(space: RowSpace, numbers: Array) -> Array:
        return clip_rows(space.scale(numbers) / REACH, math.sqrt(numbers.shape[1]))

    def _scores(self, X: ArrayLike) -> Array:
        numbers = self._fitted(X)
        V, found = self._rows(self.space_, numbers), self.moments_
        scores = np.empty((len(V), len(self.classes_)))
        for place in range(len(self.classes_)):
            far = (V - found.means[place]) ** 2 / found.variances[place] + np.log(found.variances[place])
            scores[:, place] = math.log(self.class_prior_[place]) + found.offset[place] - 0.5 * far.sum(axis=1)
        return scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, in the order of classes_."""
        return softmax(self._scores(X))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithms of the probabilities."""
        return log_probabilities(self.predict_proba(X))


@dataclass(frozen=True)
class Moments:
    """Released moments of each class; `offset` is the log-likelihood that noise in the means takes from a class on average."""

    counts: Array
    means: Array
    variances: Array
    offset: Array
    noise: float


def moments(V: Array, codes: NDArray[np.int64], classes: int, multiplier: float, adjacency: Adjacency) -> Moments:
    """Released moments of each class, for rows of length at most sqrt(d).

    Means are shrunk towards the mean of all rows, and variances towards the pooled ones, by what their known noise demands
    (James and Stein 1961; positive part).
    """
    d = V.shape[1]
    root = math.sqrt(d)
    squares = SQUARES * clip_rows(V * V - 1, root)
    rows = np.hstack([np.full((len(V), 1), COUNT * root), V, squares])
    bound = root * math.sqrt(1 + COUNT**2 + SQUARES**2)
    table = noisy_table(rows, codes[:, None], size=classes, bound=bound, multiplier=multiplier, adjacency=adjacency)[0]
    noise = multiplier * bound * float(farthest_table(1, adjacency))  # of a sum
    counts = np.maximum(table[:, 0] / (COUNT * root), noise / (COUNT * root))  # below its noise a count says nothing
    sums, second = table[:, 1 : d + 1], table[:, d + 1 :] / SQUARES
    level, everyone = noise / counts, counts.sum()
    middle = sums.sum(axis=0) / everyone
    means, kept = _shrunk(sums / counts[:, None], middle, level)
    share = counts / everyone
    within = np.clip(second.sum(axis=0) / everyone + 1 - (share[:, None] * means**2).sum(axis=0), LEAST, MOST)
    typical = float(within.mean())
    within = typical + (within - typical) * _weight(within - typical, noise * math.sqrt(classes) / everyone / SQUARES)
    raw = np.clip(second / counts[:, None] + 1 - means**2, LEAST, MOST)
    variances = np.maximum(_shrunk(raw, within, level / SQUARES)[0], LEAST)
    offset = 0.5 * (kept * level) ** 2 * (1 / variances).sum(axis=1)
    return Moments(counts, means, variances, offset, noise)


def _weight(differences: Array, noise: float) -> float:
    """How much of the differences to keep: one minus the part of their square that noise explains."""
    total = float((differences**2).sum())
    return max(FLOOR, 1 - differences.size * noise**2 / total) if total > 0 else 0.0


def _shrunk(values: Array, target: Array, noise: Array) -> tuple[Array, Array]:
    """Each row of values drawn towards the target as far as its noise demands, and how much was kept of each."""
    kept = np.array([_weight(row - target, float(level)) for row, level in zip(values, noise, strict=True)])
    return target + (values - target) * kept[:, None], kept
