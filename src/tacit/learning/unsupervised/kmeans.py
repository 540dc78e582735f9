"""Private k-means: a noisy centre and noisy principal axes first, then a few noisy steps of Lloyd's algorithm among those axes.

A released cluster centre carries noise in every dimension it is released in, so the steps work only in the axes whose spread stands out
of the noise (Kannan, Salmasian, Vempala 2005: clusters survive a projection on the leading axes). The first centres cost nothing: they
are the k-means centres of a normal distribution with the released moments, found on a public grid of points. A step releases, for each
cluster, its size and the sum of its rows' *distances from the present centre*, clipped to the released spread, which is far less than the
bounds allow; centres move as far as the known noise of the step permits.

>>> from tacit.noise import test_mode
>>> X = np.repeat([[0.2, 0.2], [0.2, 0.8], [0.8, 0.5]], 500, axis=0)
>>> model = KMeans(3, epsilon=1, delta=1e-6, bounds=(0, 1))
>>> with test_mode(1):
...     round(float(np.sqrt(model.fit(X).inertia(X) / len(X))), 1)
0.0
>>> model.privacy_.upper <= 1
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tacit.accounting import Adjacency, Composed, Event, Gaussian, Guarantee, Repeated
from tacit.learning.estimator import UNKNOWN_ROWS, Array, Bounds, PrivateEstimator
from tacit.learning.linear.solvers import COUNT_SHARE
from tacit.learning.scikit import ClusterMixin, TransformerMixin
from tacit.learning.unsupervised.pca import Shares, checked_reach, principal_axes
from tacit.ledger import Account
from tacit.mechanisms import clip_rows, farthest_table, noisy_table
from tacit.parameters import count

MOST_AXES = 8
COUNT_WEIGHT = 0.5  # length of the part of a row that counts, beside 1 for the rest
POINTS = 1000  # of the public grid on which the first centres are found


@dataclass(frozen=True)
class Plan:
    """What will be released, fixed before the data is touched."""

    shares: Shares
    steps: int
    event: Event
    mu: float

    @classmethod
    def make(cls, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None, steps: int) -> Plan:
        """Steps are taken where n mu exceeds twice the number of features; below that even the mean is hardly known, and gets most."""
        rich = (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu >= 2 * features and steps > 0
        counted = 0.0 if rows is not None else COUNT_SHARE
        shares = Shares(counted, 0.15, 0.35) if rich else Shares(counted, 0.85 - counted, 0.15)
        taken = steps if rich else 0
        left = 1 - shares.count - shares.centre - shares.shape

        def event(mu: float) -> Event:
            parts = shares.events(adjacency, mu)
            if taken:
                parts.append(Repeated(Gaussian(math.sqrt(taken / left) / mu, adjacency=adjacency), taken))
            return Composed(*parts)

        found, mu = guarantee.settle(event, adjacency)
        return cls(shares, taken, found, mu)

    @property
    def step_multiplier(self) -> float:
        """The noise multiplier of one step."""
        return math.sqrt(self.steps / (1 - self.shares.count - self.shares.centre - self.shares.shape)) / self.mu


class KMeans(TransformerMixin, ClusterMixin, PrivateEstimator):
    """Private k-means clustering.

    Parameters
        n_clusters: how many clusters. steps: how many noisy steps of Lloyd's algorithm.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, adjacency, n_public, account, random_state: see
        `tacit.learning.estimator`. Delta must be positive. Distances are measured in units of the public
        bounds.
        reach: rows are clipped to this part of the longest possible length around the released centre when the axes are released.

    Fitted: cluster_centers_ (in the units of the data), n_iter_, n_axes_, event_, privacy_. Labels of the training rows are not kept:
    they would be private. Where the budget does not carry more than a mean, centres lie close together: that is all that is known.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X.
        Conditions: bounds and n_public are public; a person is one row.
        Proved in: `pca.principal_axes`, and `row_sums.noisy_table` for every step, given the centres before it.
    """

    def __init__(
        self, n_clusters: int = 8, *, steps: int = 3, reach: float = 0.4,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, adjacency: str = "add-remove", n_public: int | None = None,
        account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, adjacency=adjacency, n_public=n_public, account=account,
            random_state=random_state,
        )  # fmt: skip
        self.n_clusters = n_clusters
        self.steps = steps
        self.reach = reach

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Spend the guarantee and find the centres."""
        request = self._request(X)
        adjacency, space, rows = request.adjacency, request.space, request.rows
        clusters, steps, reach = count("n_clusters", self.n_clusters), count("steps", self.steps, least=0), checked_reach(self.reach)
        plan = Plan.make(request.guarantee, adjacency, features=request.features, rows=rows, steps=steps)
        with self._spend(plan.event, request.guarantee):
            U = request.scaled()
            found = principal_axes(U, adjacency, plan.shares, plan.mu, rows=rows, reach=reach)
            values, axes = found.leading(min(MOST_AXES, request.features))
            seen = max(1, int((values > found.edge).sum()))
            spread = np.maximum(values[:seen] - found.edge / 2, 1e-4) if values[0] > found.edge else np.full(1, 1e-4)
            flat = (U - found.centre) @ axes[:seen].T
            centres = normal_centres(clusters, np.sqrt(spread))
            for _ in range(plan.steps):
                centres = lloyd_step(flat, centres, spread, plan.step_multiplier, adjacency)
        self.space_, self.n_iter_, self.n_axes_ = space, plan.steps, seen
        self.centres_ = np.clip(found.centre + centres @ axes[:seen], -1.0, 1.0)
        self.cluster_centers_ = space.centre + self.centres_ * space.half
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Distances to the centres, in units of the bounds."""
        numbers = self._fitted(X)
        return np.sqrt(distances(self.space_.scale(numbers), self.centres_))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The nearest centre of each row."""
        found: NDArray[np.int64] = self.transform(X).argmin(axis=1)
        return found

    def fit_predict(self, X: ArrayLike, y: object = None, **_: object) -> NDArray[np.int64]:
        """Fit, then the nearest centre of each row; the labels themselves are not private."""
        return self.fit(X).predict(X)

    def inertia(self, X: ArrayLike) -> float:
        """The sum of squared distances to the nearest centre, in units of the bounds: not private; for public test data."""
        return float((self.transform(X).min(axis=1, initial=math.inf) ** 2).sum())

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Minus the inertia."""
        return -self.inertia(X)


def distances(rows: Array, centres: Array) -> Array:
    """Squared distances of every row to every centre.

    >>> distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]))
    array([[25.]])
    """
    squares = (rows * rows).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres * centres).sum(axis=1)
    found: Array = np.maximum(squares, 0.0)
    return found


def lloyd_step(rows: Array, centres: Array, spread: Array, multiplier: float, adjacency: Adjacency) -> Array:
    """One noisy step: every cluster's size and the sum of its rows' differences from the centre, at one Gaussian(multiplier).

    A centre moves by the noisy mean difference, times prior / (prior + noise): the best linear estimate where the part of the spread
    that one cluster covers is the prior (Efron and Morris 1973).
    """
    clusters, axes = centres.shape
    nearest = distances(rows, centres).argmin(axis=1)
    radius = math.sqrt(float(spread.sum()))
    parts = np.hstack([np.full((len(rows), 1), COUNT_WEIGHT * radius), clip_rows(rows - centres[nearest], radius)])
    bound = radius * math.sqrt(1 + COUNT_WEIGHT**2)
    table = noisy_table(parts, nearest[:, None], size=clusters, bound=bound, multiplier=multiplier, adjacency=adjacency)[0]
    noise = bound * multiplier * float(farthest_table(1, adjacency))
    sizes = np.maximum(table[:, 0], noise) / (COUNT_WEIGHT * radius)
    prior = float(spread.mean()) / clusters ** (2 / axes)
    kept = prior / (prior + (noise / sizes) ** 2)
    found: Array = centres + table[:, 1:] / sizes[:, None] * kept[:, None]
    return found


def public_grid(points: int, axes: int) -> Array:
    """Points that fill the unit cube evenly (an additive recurrence with the generalised golden ratio: Roberts 2018), made normal.

    >>> grid = public_grid(1000, 2)
    >>> np.abs(grid.mean(axis=0)).max() < 0.02, np.abs(grid.std(axis=0) - 1).max() < 0.02
    (np.True_, np.True_)
    """
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (axes + 1))
    steps = ratio ** -np.arange(1.0, axes + 1)
    inside = (0.5 + np.arange(1, points + 1)[:, None] * steps) % 1.0
    found: Array = ndtri(np.clip(inside, 1e-6, 1 - 1e-6))
    return found


def normal_centres(clusters: int, deviations: Array) -> Array:
    """The centres of k-means for a normal distribution with these deviations: farthest points first, then Lloyd's steps. No data.

    >>> normal_centres(2, np.array([1.0])).ravel().round(1).tolist()  # plus and minus sqrt(2 / pi)
    [-0.8, 0.8]
    """
    points = public_grid(max(POINTS, 10 * clusters), len(deviations)) * deviations
    chosen = [int((points**2).sum(axis=1).argmax())]
    nearest = distances(points, points[chosen])[:, 0]
    for _ in range(clusters - 1):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances(points, points[chosen[-1:]])[:, 0])
    centres = points[chosen]
    for _ in range(20):
        labels = distances(points, centres).argmin(axis=1)
        centres = np.array([points[labels == k].mean(axis=0) if (labels == k).any() else centres[k] for k in range(clusters)])
    return centres
