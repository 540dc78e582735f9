"""A private random forest: trees with random splits, which cost nothing, and the class counts of all their leaves in one noisy table.

Every tree sees all people. One person is in one leaf of each of T trees, so the table has sensitivity sqrt(T) and the counts of a tree
carry sqrt(T) times the noise of one; summed over trees the noise grows by another sqrt(T) and the signal by T: the forest is as accurate as
if each tree had the whole budget. Cutting the people into T disjoint parts loses a factor sqrt(T) against that. Under a budget too small
for any of it, the forest is one tree with private splits (`trees`), whose choices are worth more than an average of guesses.

>>> from tacit.noise import test_mode
>>> X = np.repeat([[0.1, 0.9], [0.8, 0.9], [0.2, 0.1], [0.9, 0.1]], 500, axis=0)
>>> y = np.repeat([0, 1, 1, 0], 500)
>>> model = RandomForestClassifier(epsilon=2, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> with test_mode(1):
...     float(model.fit(X, y).score(X, y))
1.0
>>> model.privacy_.upper <= 2
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee
from tacit.learning.linear.choice import UNKNOWN_ROWS
from tacit.learning.linear.losses import softmax
from tacit.learning.trees.tree import Array, Shape, TreeClassifier, TreePlan, Whole, random_shape
from tacit.mechanisms import farthest_table, noisy_table
from tacit.parameters import count

POOR = 64.0  # rows times mu below which one tree with private splits is better than many with random ones
MANY = 60  # trees by default
DEEPEST = 8
MARGIN = 0.15  # random thresholds keep away from the ends of the bounds by this part of the range, where few rows are


@dataclass(frozen=True)
class ForestPlan:
    """How many trees of random splits, how deep, and the one Gaussian release that prices them."""

    guarantee: Guarantee
    adjacency: Adjacency
    trees: int
    depth: int
    event: Event
    mu: float

    @classmethod
    def make(cls, guarantee: Guarantee, adjacency: Adjacency, *, trees: int, depth: int | None, rows: int | None) -> ForestPlan:
        """Depth grows with half the logarithm of rows times mu: the leaves that hold more people than noise."""
        known = (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu
        levels = min(max(round(0.5 * math.log2(max(known, 1.0))), 3), DEEPEST) if depth is None else count("max_depth", depth)
        event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
        return cls(guarantee, adjacency, trees, levels, event, mu)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a count."""
        return float(farthest_table(self.trees, self.adjacency, counts=True)) / self.mu

    def run(self, bins: Whole, codes: Whole, classes: int, parts: int) -> tuple[list[Shape], Array]:
        """The trees and their noisy class counts, an array (trees, leaves, classes)."""
        shapes = [random_shape(bins.shape[1], self.depth, parts, MARGIN) for _ in range(self.trees)]
        cells = np.column_stack([np.where(codes >= 0, shape.leaves(bins) * classes + codes, -1) for shape in shapes])
        size = 2**self.depth * classes
        counts = noisy_table(
            np.ones((len(bins), 1)), cells, size=size, bound=1.0, multiplier=1 / self.mu, adjacency=self.adjacency, counts=True
        )
        return shapes, counts.reshape(self.trees, 2**self.depth, classes)


class RandomForestClassifier(TreeClassifier):
    """A private random forest.

    Parameters
        n_estimators: trees with random splits; by default 60, or one tree with private splits where the budget is too small for them,
        or where delta is 0.
        max_depth: levels of splits, by default by the budget. bins: thresholds cut the public bounds of a feature into so many parts.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, classes, adjacency, n_public, account, random_state: see
        `tacit.learning.LogisticRegression`.

    Fitted: trees_, counts_ (noisy), classes_, event_, privacy_, and noise_, the standard deviation of a count.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds, classes and n_public are public; a person is one row.
        Proved in: `row_sums.noisy_table` with one view for each tree; or `trees.TreePlan`.
    """

    def __init__(
        self,
        n_estimators: int | None = None,
        *,
        max_depth: int | None = None,
        bins: int = 32,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        guarantee: Guarantee | str | None = None,
        bounds: Any = None,
        data_norm: float | None = None,
        classes: ArrayLike | None = None,
        adjacency: str = "add-remove",
        n_public: int | None = None,
        account: Any = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            max_depth, bins=bins, epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee,
            bounds=bounds, data_norm=data_norm, classes=classes, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, classes: int, features: int, rows: int | None) -> TreePlan | ForestPlan:
        poor = guarantee.pure or (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu < POOR
        if self.n_estimators is None and poor:
            splits = features * (count("bins", self.bins, least=2) - 1)
            return TreePlan.make(guarantee, adjacency, classes=classes, depth=self.max_depth, rows=rows, splits=splits)
        trees = MANY if self.n_estimators is None else count("n_estimators", self.n_estimators)
        return ForestPlan.make(guarantee, adjacency, trees=trees, depth=self.max_depth, rows=rows)

    def _keep(self, shapes: list[Shape], counts: Array, noise: float) -> None:
        self.trees_, self.counts_, self.noise_ = shapes, counts, noise
        self.log_shares_, self.log_prior_ = log_shares(counts, noise)

    def _scores(self, X: ArrayLike) -> Array:
        bins = self._bins(X)
        parts = [shares[shape.leaves(bins)] for shape, shares in zip(self.trees_, self.log_shares_, strict=True)]
        found: Array = np.sum(parts, axis=0) + self.log_prior_
        return found

    def predict_proba(self, X: ArrayLike) -> Array:
        """Shares of the classes: the geometric mean over the trees."""
        return softmax(self._scores(X) / len(self.trees_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class whose shares in a row's leaves, each relative to its share of all rows, have the largest product."""
        scores = self._scores(X)
        found: NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return found


def log_shares(counts: Array, noise: float) -> tuple[Array, Array]:
    """Logarithms of the classes' shares of each leaf relative to the shares of all rows, and of the latter.

    Leaves are drawn towards the shares of all rows by as many imagined people as two deviations of the noise. A single tree takes the
    noisy counts as they are.
    """
    if len(counts) == 1:
        return np.log(np.maximum(counts, 0.0) + noise / 2), np.zeros(counts.shape[2])
    everyone = np.maximum(counts.sum(axis=(0, 1)) / len(counts), noise / len(counts))
    prior = everyone / everyone.sum()
    filled = np.maximum(counts, 0.0) + 2 * noise * prior
    shares: Array = np.log(filled / filled.sum(axis=2, keepdims=True)) - np.log(prior)
    return shares, np.log(prior)
