"""Scalers: by public bounds, which costs nothing, or by private moments and quantiles, which is charged.

Without a guarantee a scaler uses the public bounds alone and its event is `NoOp()`. With one it looks at the data within those bounds.

>>> free = MinMaxScaler(bounds=([0, -1], [10, 1])).fit(np.zeros((3, 2)))
>>> free.transform([[5.0, 1.0], [float("nan"), 7.0]])
array([[0.5, 1. ],
       [0.5, 1. ]])
>>> free.event_
NoOp()
>>> from tacit.noise import test_mode
>>> with test_mode(1):
...     scaler = StandardScaler(epsilon=1, delta=1e-6, bounds=(0, 10)).fit(np.tile([[2.0], [4.0]], (2000, 1)))
>>> scaler.mean_.round(1), scaler.scale_.round(1), scaler.privacy_.upper <= 1
(array([3.]), array([1.]), True)
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit import calculus
from tacit.accounting import Adjacency, Bound, Composed, Gaussian, Guarantee, NoOp, ParameterError, Repeated
from tacit.learning.estimator import Array, Bounds, PrivateEstimator, RowSpace
from tacit.learning.reading import matrix
from tacit.learning.scikit import OneToOneFeatureMixin, TransformerMixin
from tacit.learning.trees.tree import largest
from tacit.ledger import Account
from tacit.mechanisms import farthest, noisy_sum, quantile
from tacit.parameters import number

COUNT, SQUARES = 0.5, 0.7  # weights of the count and of the squares in a row, beside 1 for the values themselves
GRID = 1 << 12  # public values between which a quantile is chosen


class Scaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """What the scalers share: a shift and a scale for each feature, for values cut to the public bounds."""

    def __init__(
        self, *,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        adjacency: str = "add-remove", account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            adjacency=adjacency, account=account, random_state=random_state,
        )  # fmt: skip

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Use the public bounds, or spend the guarantee on finding better ones."""
        public = all(given is None for given in (self.epsilon, self.delta, self.rho, self.mu, self.guarantee))
        asked = None if public else self._asked()
        Adjacency.parse(self.adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
        numbers = self._numbers(X, reset=True)
        self._check()
        space = RowSpace.of(numbers.shape[1], bounds=self.bounds)
        if asked is None:
            self.event_, self.privacy_, self.private_ = NoOp(), Bound(0.0, 0.0), True
            self._publish(space, -np.ones(numbers.shape[1]), np.ones(numbers.shape[1]))
        else:
            self._learn(space, numbers, *asked)
        self.space_ = space
        return self

    def _check(self) -> None:
        """Check the parameters of this scaler."""

    def _learn(self, space: RowSpace, numbers: Array, guarantee: Guarantee, adjacency: Adjacency) -> None:
        raise NotImplementedError

    def _publish(self, space: RowSpace, low: Array, high: Array) -> None:
        raise NotImplementedError

    def _inside(self, X: ArrayLike) -> Array:
        numbers = self._fitted(X)
        return self.space_.centre + self.space_.half * self.space_.scale(numbers)


class StandardScaler(Scaler):
    """Values minus a mean, divided by a deviation.

    Parameters
        bounds: public bounds of the features; required. Without a guarantee their middle and half width are used, free of charge.
        epsilon, delta, rho, mu, guarantee: with a guarantee (delta positive), a noisy mean and deviation of the values within the bounds.
        adjacency, account, random_state: see `tacit.learning.estimator`.

    Fitted: mean_, scale_, var_, event_, privacy_, and noise_, the standard deviation of a mean's noise in units of the bounds' half width.

    Guarantee
        Statement: fitting costs event_: nothing, or one Gaussian release of count, sums and squares.
        Conditions: bounds are public; a person is one row. Proved in: `row_sums.noisy_sum`.
    """

    def _learn(self, space: RowSpace, numbers: Array, guarantee: Guarantee, adjacency: Adjacency) -> None:
        event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
        d = numbers.shape[1]
        root, bound = math.sqrt(d), math.sqrt(d * (1 + COUNT**2 + SQUARES**2))
        with self._spend(event, guarantee):
            U = space.scale(numbers)
            rows = np.hstack([np.full((len(U), 1), COUNT * root), U, SQUARES * (2 * U * U - 1)])
            found = noisy_sum(rows, bound=bound, multiplier=1 / mu, adjacency=adjacency)
        noise = farthest(bound, adjacency) / mu
        people = max(found[0] / (COUNT * root), noise / (COUNT * root), 1.0)
        mean = np.clip(found[1 : d + 1] / people, -1.0, 1.0)
        second = (found[d + 1 :] / SQUARES / people + 1) / 2
        # a variance below its own noise is not known to be that small
        variance = np.clip(second - mean**2, min(noise / people / 2, 1.0), 1.0)
        self.noise_ = noise / people
        deviation = np.sqrt(variance)
        self._publish(space, mean - deviation, mean + deviation)

    def _publish(self, space: RowSpace, low: Array, high: Array) -> None:
        self.mean_ = space.centre + space.half * (low + high) / 2
        self.scale_ = np.where(space.half > 0, space.half, 1.0) * (high - low) / 2
        self.var_ = self.scale_**2

    def transform(self, X: ArrayLike) -> Array:
        """Values, cut to the public bounds, in deviations from the mean."""
        inside = self._inside(X)
        return (inside - self.mean_) / self.scale_

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Back to the units of the data."""
        return matrix(X, width=len(self.scale_)) * self.scale_ + self.mean_


class MinMaxScaler(Scaler):
    """Values moved to [0, 1], by the public bounds or by two private quantiles of every feature; values beyond are cut.

    Parameters
        bounds: public bounds of the features; required. Without a guarantee they are used as they are, free of charge.
        epsilon, delta, rho, mu, guarantee: with a guarantee, quantiles within the bounds by the exponential
        mechanism; delta=0 works too.
        tail: the part of the rows beyond each of the two quantiles.
        adjacency, account, random_state: see `tacit.learning.estimator`.

    Fitted: data_min_, data_max_, scale_, event_, privacy_.

    Guarantee
        Statement: fitting costs event_: nothing, or two exponential mechanisms for each feature.
        Conditions: bounds are public; a person is one row. Proved in: `tacit.mechanisms.quantile` (Smith 2011).
    """

    def __init__(
        self, *, tail: float = 0.05,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        adjacency: str = "add-remove", account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            adjacency=adjacency, account=account, random_state=random_state,
        )  # fmt: skip
        self.tail = tail

    def _check(self) -> None:
        if not 0 < float(number("tail", self.tail)) < 0.5:
            raise ParameterError(f"tail must be above 0 and below 0.5, not {self.tail}")

    def _learn(self, space: RowSpace, numbers: Array, guarantee: Guarantee, adjacency: Adjacency) -> None:
        d, replaced = numbers.shape[1], adjacency is Adjacency.REPLACE_ONE
        metric = calculus.ReplaceOne() if replaced else calculus.AddRemove()
        grid = calculus.Space(calculus.Rows(calculus.Integers(0, GRID)), metric)
        tails = (Fraction(self.tail), 1 - Fraction(self.tail))

        def plans(size: Fraction) -> list[Any]:
            return [grid >> quantile(q, epsilon=size) for q in tails]

        event, size = largest(guarantee, adjacency, lambda size: Composed(*(Repeated(plan.event(1), d) for plan in plans(size))))
        with self._spend(event, guarantee):
            values = np.round((space.scale(numbers) + 1) / 2 * GRID).astype(np.int64)
            low, high = ([plan.release(column.tolist()).value for column in values.T] for plan in plans(size))
        ends = np.sort(np.array([low, high], dtype=np.float64), axis=0)
        ends[1] = np.maximum(ends[1], ends[0] + 1)
        self._publish(space, ends[0] / GRID * 2 - 1, ends[1] / GRID * 2 - 1)

    def _publish(self, space: RowSpace, low: Array, high: Array) -> None:
        self.data_min_ = space.centre + space.half * low
        self.data_max_ = space.centre + space.half * high
        width = self.data_max_ - self.data_min_
        self.scale_ = 1 / np.where(width > 0, width, 1.0)

    def transform(self, X: ArrayLike) -> Array:
        """Values in [0, 1]."""
        inside = self._inside(X)
        return np.clip((inside - self.data_min_) * self.scale_, 0.0, 1.0)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Back to the units of the data."""
        return matrix(X, width=len(self.scale_)) / self.scale_ + self.data_min_
