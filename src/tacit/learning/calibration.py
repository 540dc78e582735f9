"""Calibrated probabilities for a private classifier: what share of people really have the class that a model gives a probability to.

A fitted model's probabilities are too sure or not sure enough where noise, shrinking or the model itself bend them.
`CalibratedClassifier` takes a model that is fitted already (private by its own price), sorts people by its score for each class into
public bins, and releases one noisy table of how many there are and how many have the class. A logistic curve through that table (Platt
1999), drawn to the model's own probabilities by what the noise demands, maps scores to probabilities. Use rows that the model was not
fitted on where there are enough.

>>> from tacit.learning.linear.classifiers import LinearSVC
>>> from tacit.noise import test_mode
>>> X = np.linspace(0, 1, 4000)[:, None]
>>> y = (np.arange(4000) % 10 < 10 * X[:, 0]).astype(int)  # a share of x
>>> public = {"epsilon": 1, "delta": 1e-6, "bounds": (0, 1), "classes": [0, 1]}
>>> with test_mode(1):
...     model = CalibratedClassifier(LinearSVC(**public).fit(X[::2], y[::2]), epsilon=1, delta=1e-6).fit(X[1::2], y[1::2])
>>> model.predict_proba([[0.25], [0.75]])[:, 1].round(1)
array([0.2, 0.8])
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Event, Gaussian, Guarantee, Laplace, ParameterError
from tacit.calculus import codes_of
from tacit.learning.estimator import Array, Labels, PrivateClassifier
from tacit.learning.reading import column_of
from tacit.learning.scikit import check_is_fitted
from tacit.ledger import Account
from tacit.mechanisms import farthest_table, noisy_table
from tacit.parameters import count

REACH = 8.0  # log odds beyond which scores are cut
TURNS = 50  # of Newton's method for two numbers
PULL = 4.0  # people that hold a curve to the model's own probabilities, beside two deviations of the noise


class CalibratedClassifier(PrivateClassifier):
    """A fitted private classifier with probabilities that are shares of people.

    Parameters
        estimator: a classifier of this package that is fitted; its price was paid by its own fit.
        bins: parts of the public range of log odds, [-8, 8].
        epsilon, delta, rho, mu, guarantee, adjacency, account, random_state: what calibrating may cost on top.

    Fitted: classes_, curves_ (slope and level of the log odds of each class, by those of the model), table_ (people and people of the
    class, by class and bin, noisy), event_, privacy_.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y; the model's own price comes on top.
        Conditions: the model was released or is private with respect to the same people; a person is one row.
        Proved in: a person's bins are a function of the person's row and of the released model; `noisy_table` with one view a class, each a
        bin and whether the person has the class. The curve post-processes the table.
    """

    def __init__(
        self, estimator: Any, *, bins: int = 16,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, adjacency: str = "add-remove",
        account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, adjacency=adjacency, account=account,
            random_state=random_state,
        )  # fmt: skip
        self.estimator = estimator
        self.bins = bins

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the guarantee and calibrate. Rows whose label was not declared count for nothing."""
        guarantee, adjacency = self._asked()
        check_is_fitted(self.estimator)
        if not isinstance(self.estimator, PrivateClassifier):
            raise ParameterError("estimator must be a fitted classifier of tacit.learning: the price of another one is not known")
        classes, parts = self.estimator.classes_, count("bins", self.bins, least=2)
        numbers = self.estimator._numbers(X, reset=False)
        labels = column_of(y, len(numbers))
        views = 1 if len(classes) == 2 else len(classes)
        pure = guarantee.pure
        if pure:
            epsilon = float(guarantee.floats.epsilon or 0.0) * (1 - 1e-9)
            multiplier = math.nextafter(1 / epsilon, math.inf)
            event: Event = Laplace(multiplier, adjacency=adjacency)
        else:
            event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
            multiplier = 1 / mu
        with self._spend(event, guarantee):
            codes = codes_of(labels, classes)
            places = to_places(self._odds(numbers), parts)
            has = codes[:, None] == (np.arange(len(classes)) if views > 1 else np.array([1]))
            cells = np.where((codes >= 0)[:, None], 2 * places + has, -1)
            table = noisy_table(
                np.ones((len(cells), 1)), cells, size=2 * parts, bound=1.0, multiplier=multiplier, adjacency=adjacency,
                laplace=pure, counts=not pure,
            )  # fmt: skip
        deviation = float(farthest_table(views, adjacency, laplace=pure, counts=not pure)) * multiplier * (math.sqrt(2) if pure else 1.0)
        pairs = table.reshape(views, parts, 2)
        self.table_ = np.stack([pairs.sum(axis=2), pairs[:, :, 1]], axis=2)
        self.curves_ = np.array([platt(pairs[view], deviation) for view in range(views)])
        self.classes_, self.n_features_in_ = classes, self.estimator.n_features_in_
        return self

    def _odds(self, numbers: Array) -> Array:
        """The model's log odds of each class against the others; one column for two classes."""
        model = self.estimator
        if hasattr(model, "predict_proba"):
            shares = np.clip(model.predict_proba(numbers), 1e-12, 1 - 1e-12)
            odds: Array = np.log(shares) - np.log1p(-shares)
            return odds[:, 1:] if shares.shape[1] == 2 else odds
        scores: Array = model.decision_function(numbers)
        return 2 * (scores[:, None] if scores.ndim == 1 else scores)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, in the order of classes_."""
        check_is_fitted(self)
        odds = np.clip(self._odds(self.estimator._numbers(X, reset=False)), -REACH, REACH)
        shares = 1 / (1 + np.exp(-(odds * self.curves_[:, 0] + self.curves_[:, 1])))
        if len(self.classes_) == 2:
            return np.hstack([1 - shares, shares])
        found: Array = shares / shares.sum(axis=1, keepdims=True)
        return found

    def predict(self, X: ArrayLike) -> Labels:
        """The class with the highest probability."""
        found: Labels = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found


def to_places(odds: Array, parts: int) -> NDArray[np.int64]:
    """The public bin of each log odds.

    >>> to_places(np.array([[-100.0], [0.1], [float("nan")]]), 4).ravel().tolist()
    [0, 2, 2]
    """
    inside = np.clip(np.nan_to_num(odds), -REACH, REACH)
    return np.clip(np.floor((inside + REACH) / (2 * REACH) * parts), 0, parts - 1).astype(np.int64)


def platt(pairs: Array, deviation: float) -> Array:
    """Slope and level of log odds by noisy counts of (others, people of the class) in each bin; (1, 0) leaves the model as it is.

    Bins are weighed with their people and counts below their noise count for nothing; as many imagined people as two deviations, spread
    over the bins with the model's own shares, hold the curve where nothing else does.

    >>> middles = (np.arange(8) + 0.5) / 8 * 16 - 8
    >>> people = 1000 / (1 + np.exp(-(0.5 * middles + 0.3)))
    >>> platt(np.column_stack([1000 - people, people]), 0.0).round(2)
    array([0.5, 0.3])
    """
    parts = len(pairs)
    middles = (np.arange(parts) + 0.5) / parts * 2 * REACH - REACH
    seen = np.where(pairs.sum(axis=1, keepdims=True) > 2 * deviation, np.maximum(pairs, 0.0), 0.0)
    own = 1 / (1 + np.exp(-middles))
    extra = (PULL + 2 * deviation) / parts if deviation > 0 else 0.0
    people, hits = seen.sum(axis=1) + extra, seen[:, 1] + extra * own
    design, found = np.column_stack([middles, np.ones(parts)]), np.array([1.0, 0.0])
    for _ in range(TURNS):
        shares = 1 / (1 + np.exp(-np.clip(design @ found, -50, 50)))
        slope = design.T @ (hits - people * shares)
        bend = (design * (people * shares * (1 - shares) + 1e-9)[:, None]).T @ design + 1e-9 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        found = found + step / max(1.0, float(np.abs(step).max()))
    return np.array([max(found[0], 0.0), found[1]])  # a higher score never means a smaller share
