"""Private principal components: a noisy centre, then a noisy second moment around it, then ordinary linear algebra.

The noise on the second moment is a symmetric Gaussian matrix at the Frobenius sensitivity of one row (Analyze Gauss: Dwork, Talwar,
Thakurta, Zhang 2014, Algorithm 1). Two things make it small: the noisy centre is taken off first, and rows are clipped to a part of the
longest length that the bounds allow; clipping shortens rows and leaves their directions, so axes survive it.

>>> from tacit.noise import test_mode
>>> line = np.linspace(-1, 1, 2001)
>>> X = np.column_stack([line, line, 0 * line])
>>> model = PCA(1, epsilon=1, delta=1e-6, bounds=(-1, 1))
>>> with test_mode(1):
...     axis = model.fit(X).components_[0]
>>> bool(abs(axis @ [0.5**0.5, 0.5**0.5, 0]) > 0.99), model.privacy_.upper <= 1
(True, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting import Adjacency, Composed, Event, Gaussian, Guarantee, ParameterError
from tacit.learning.estimator import Array, Bounds, PrivateEstimator
from tacit.learning.linear.solvers import COUNT_SHARE, row_count, shrink
from tacit.learning.reading import matrix
from tacit.learning.scikit import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from tacit.ledger import Account
from tacit.mechanisms import farthest, farthest_moment, noisy_second_moment, noisy_sum
from tacit.parameters import count, number

CENTRE_SHARE = 0.1
CENTRE_REACH = 0.8  # rows are clipped to this part of the longest length before their mean is taken


@dataclass(frozen=True)
class Axes:
    """Released: the number of rows, their centre, and the second moment around it, in public units; `edge` is the largest eigenvalue
    that noise alone would show (2 sqrt(d) times the deviation of an off-diagonal entry: Wigner 1955)."""

    rows: float
    centre: Array
    moment: Array
    edge: float

    def leading(self, components: int) -> tuple[Array, Array]:
        """The largest eigenvalues, falling, and their eigenvectors as rows, each with its largest entry positive."""
        values, vectors = np.linalg.eigh(self.moment)
        axes = vectors[:, ::-1][:, :components].T
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
        return values[::-1][:components], axes * np.where(signs == 0, 1.0, signs)[:, None]


@dataclass(frozen=True)
class Shares:
    """Parts of the squared budget for the count, the centre and the second moment."""

    count: float
    centre: float
    shape: float

    def events(self, adjacency: Adjacency, mu: float) -> list[Event]:
        """The Gaussian releases at a total of mu, without those that are not made."""
        return [Gaussian(1 / (mu * math.sqrt(share)), adjacency=adjacency) for share in (self.count, self.centre, self.shape) if share > 0]


def principal_axes(U: Array, adjacency: Adjacency, shares: Shares, mu: float, *, rows: int | None, reach: float) -> Axes:
    """Release count, centre and second moment of rows in the public units of `RowSpace`.

    Guarantee
        Statement: costs the composition of `shares.events`. Proved in: `row_sums`.
    """
    d, relation = U.shape[1], adjacency
    n = row_count(U, rows, mu, shares.count, relation)
    centre = np.zeros(d)
    if shares.centre:
        bound, multiplier = CENTRE_REACH * math.sqrt(d), 1 / (mu * math.sqrt(shares.centre))
        centre = noisy_sum(U, bound=bound, multiplier=multiplier, adjacency=relation) / n
        centre = np.clip(shrink(centre, multiplier * farthest(bound, relation) / n), -1.0, 1.0)
    bound, multiplier = reach * math.sqrt(d), 1 / (mu * math.sqrt(shares.shape))
    moment = noisy_second_moment(U - centre, bound=bound, multiplier=multiplier, adjacency=relation) / n
    return Axes(n, centre, moment, math.sqrt(2 * d) * multiplier * farthest_moment(bound, relation) / n)


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Private principal component analysis.

    Parameters
        n_components: how many axes; all by default.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, adjacency, n_public, account, random_state: see
        `tacit.learning.estimator`. Delta must be positive. Features are measured in units of their public
        bounds, so a feature with wide bounds does not dominate.
        reach: rows are clipped to this part of the longest possible length around the released centre.

    Fitted: components_ (rows of length 1, orthogonal, in units of the bounds), mean_ (in the units of the data), explained_variance_ and
    explained_variance_ratio_ (noisy, of clipped rows), n_components_, event_, privacy_, and noise_: eigenvalues below it are noise.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X.
        Conditions: bounds and n_public are public; a person is one row.
        Proved in: `principal_axes`; eigenvectors are post-processing.
    """

    def __init__(
        self, n_components: int | None = None, *, reach: float = 0.4,
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
        self.n_components = n_components
        self.reach = reach

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Spend the guarantee and find the axes."""
        request = self._request(X)
        adjacency, features, rows, space = request.adjacency, request.features, request.rows, request.space
        components = features if self.n_components is None else count("n_components", self.n_components)
        if components > features:
            raise ParameterError(f"n_components must be at most the number of features, {features}, not {components}")
        reach = checked_reach(self.reach)
        counted = 0.0 if rows is not None else COUNT_SHARE
        shares = Shares(counted, CENTRE_SHARE, 1 - counted - CENTRE_SHARE)
        event, mu = request.guarantee.settle(lambda mu: Composed(*shares.events(adjacency, mu)), adjacency)
        with self._spend(event, request.guarantee):
            found = principal_axes(request.scaled(), adjacency, shares, mu, rows=rows, reach=reach)
        values, axes = found.leading(components)
        total = max(float(np.trace(found.moment)), float(np.maximum(values, 0).sum()), np.finfo(np.float64).tiny)
        self.space_, self.n_components_ = space, components
        self.components_, self.centre_ = axes, found.centre
        self.mean_ = space.centre + space.half * found.centre
        self.explained_variance_ = np.maximum(values, 0.0)
        self.explained_variance_ratio_ = self.explained_variance_ / total
        self.noise_ = found.edge
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Rows, cut to the public bounds, as coordinates along the axes; in units of the bounds."""
        numbers = self._fitted(X)
        return (self.space_.scale(numbers) - self.centre_) @ self.components_.T

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Coordinates as rows in the units of the data."""
        units = matrix(X, width=len(self.components_)) @ self.components_ + self.centre_
        return self.space_.centre + units * self.space_.half

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


def checked_reach(reach: object) -> float:
    """A part of the longest length: above 0, at most 2 (a row and a centre can be two radii apart)."""
    found = float(number("reach", reach))
    if not 0 < found <= 2:
        raise ParameterError(f"reach must be above 0 and at most 2, not {found}")
    return found
