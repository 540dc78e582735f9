"""Private trees, forests and boosting for regression.

A label in its public bounds becomes t in [-1, 1], and a person a pair ((1 + t) / 2, (1 - t) / 2): two parts of one person, whose sum over
a leaf says how many there are, and whose difference what their labels add up to. A pair has length 1 in every norm, so that a leaf's mean
costs no more than its count (`pair_table`). A forest has random splits and one such table; a tree chooses its splits by the exponential
mechanism; boosting reads both from noisy histograms of clipped residuals. Use boosting for accuracy where there is a delta, a forest or a
tree under pure privacy.

>>> from tacit.noise import test_mode
>>> X = np.linspace(0, 1, 4000)[:, None]
>>> y = np.where(X[:, 0] > 0.5, 8.0, 2.0)
>>> model = DecisionTreeRegressor(max_depth=1, epsilon=1, delta=0, bounds=(0, 1), label_bounds=(0, 10))
>>> with test_mode(1):
...     model.fit(X, y).predict([[0.2], [0.9]]).round(1)
array([2., 8.])
>>> model.privacy_.upper <= 1
True

*The split of a tree.* With r the label less the released mean of the node, on a lattice of whole numbers in [-Q, Q], a split is scored by
|sum of r on the left| + |sum of r on the right|: the fall of the absolute deviation that two constants would bring where labels lie
apart. One person moves one of the two sums, by at most Q.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting import Adjacency, Composed, Event, Exponential, Gaussian, Guarantee, Laplace, ParameterError, Repeated
from tacit.learning.estimator import UNKNOWN_ROWS, Array, Bounds, PrivateEstimator, label_interval
from tacit.learning.reading import label_numbers
from tacit.learning.scikit import RegressorMixin
from tacit.learning.trees.boosting import BoostingPlan
from tacit.learning.trees.tree import DEEPEST, DEEPEST_FOREST, MARGIN, Shape, Whole, largest, random_shape, to_bins
from tacit.ledger import Account
from tacit.mechanisms import Law, NoisySums, farthest_table
from tacit.noise import choose
from tacit.parameters import count, positive

PAIR_BITS = 24
UNITS = 32  # whole numbers for half the range of the labels, in the scores of splits
LEAF_SHARE, CENTRE_SHARE = 0.5, 0.2  # of the price for the leaves; of that of a level for the means of its nodes
EACH = 20.0  # rows times epsilon that a leaf of a tree should hold
MANY = 40  # trees of a forest
SPREAD = 0.05  # a typical variance of the means of leaves, for labels in [-1, 1]
CLIPS = (1.0, 0.9, 0.25)  # residuals of boosting are cut at the first, which falls by the second every round, down to the third


def pair_totals(t: Array, cells: Whole, size: int) -> Whole:
    """For each view and cell, the sums of (1 + t) / 2 and (1 - t) / 2 in units of 2^-24, as integers: (views, size, 2).

    >>> (pair_totals(np.array([1.0, 0.0, 0.5]), np.array([[0], [0], [-1]]), 1) / 2**24).tolist()
    [[[1.5, 0.5]]]
    """
    whole = 1 << PAIR_BITS
    first = np.rint((1 + np.clip(np.nan_to_num(t), -1.0, 1.0)) / 2 * whole).astype(np.int64)
    pair = np.column_stack([first, whole - first])
    total = np.zeros((cells.shape[1], size, 2), dtype=np.int64)
    for view in range(cells.shape[1]):
        inside = (cells[:, view] >= 0) & (cells[:, view] < size)
        np.add.at(total[view], cells[inside, view], pair[inside])
    return total


def pair_table(t: Array, cells: Whole, *, size: int, multiplier: float, adjacency: Adjacency, laplace: bool) -> Array:
    """How many people are in each cell of each view and what their labels in [-1, 1] add up to, with noise: (views, size, 2).

    Guarantee
        Statement: costs Laplace(multiplier) or Gaussian(multiplier) under the relation given.
        Conditions: cells and labels of a person depend on that person's values and on what was released before.
        Proved in: a pair has two integers of at least 0 that add up to 2^24, so its l1 length is that, its Euclidean length at most that,
        and two of them are at most sqrt(2) apart: what `farthest_table` states for counts. Rounded noise on integers post-processes the
        textbook mechanism; sum and difference of a pair post-process the release.
    """
    law: Law = "laplace" if laplace else "gaussian"
    moved = farthest_table(cells.shape[1], adjacency, laplace=laplace, counts=True) * (1 << PAIR_BITS)
    noise = NoisySums.of_multiplier(law, multiplier, moved, granularity=Fraction(1, 1 << PAIR_BITS), adjacency=adjacency)
    pairs = noise.release(pair_totals(t, cells, size))
    return np.stack([pairs.sum(axis=2), pairs[:, :, 0] - pairs[:, :, 1]], axis=2)


def leaf_values(table: Array, variance: float) -> Array:
    """Means of leaves from noisy (people, sum) pairs, (..., leaves, 2), drawn to the mean of all by what the noise demands.

    `variance` is that of the noise of one number of the table.
    """
    people, total = max(float(table[..., 0].mean(axis=0).sum()), 1.0), float(table[..., 1].mean(axis=0).sum())
    mean = float(np.clip(total / people, -1.0, 1.0))
    held = np.maximum(table[..., 0], 1.0)
    kept = held**2 * SPREAD / (held**2 * SPREAD + variance)
    found: Array = np.clip(mean + kept * (table[..., 1] / held - mean), -1.0, 1.0)
    return found


class PlannedTrees(Protocol):
    """What will be released, fixed before the data is touched."""

    @property
    def event(self) -> Event: ...

    def run(self, bins: Whole, t: Array, parts: int) -> list[tuple[Shape, Array]]:
        """The trees, each with the value of every leaf; a prediction is the sum over trees."""


def split_scores(bins: Whole, rest: Whole, parts: int) -> Whole:
    """For every feature and threshold, |sum of rest on the left| + |sum on the right|; rows of one node."""
    features = bins.shape[1]
    places = (np.arange(features) * parts + bins).ravel()
    # whole numbers of at most UNITS: floats hold their sums exactly
    table = np.bincount(places, weights=np.repeat(rest, features), minlength=features * parts).reshape(features, parts)
    left = table.cumsum(axis=1)[:, :-1]
    found: Whole = (np.abs(left) + np.abs(table.sum(axis=1, keepdims=True) - left)).astype(np.int64)
    return found


@dataclass(frozen=True)
class TreePlan:
    """One tree with private splits: its depth, and the price of its parts.

    Guarantee
        Statement: costs `event`: for every level the means of its nodes and one choice, and the leaves.
        Proved in: all nodes of a level hold different people. `pair_table` for means and leaves; a person moves the score of a split of
        their node by at most UNITS, so choices with weights exp(epsilon score / (2 UNITS)) have losses in a range of width epsilon. One
        who is exchanged does so twice, in one node or in two, so the weights have half that rate.
    """

    adjacency: Adjacency
    depth: int
    size: Fraction
    event: Event

    @classmethod
    def make(cls, guarantee: Guarantee, adjacency: Adjacency, *, depth: int | None, rows: int | None) -> TreePlan:
        """The sharpest tree that keeps the guarantee."""
        strength = guarantee.gaussian_mu if guarantee.floats.epsilon is None else guarantee.floats.epsilon
        known = (rows or UNKNOWN_ROWS) * strength * LEAF_SHARE
        deep = min(max(math.floor(math.log2(max(known / EACH, 1.0))), 1), DEEPEST)
        levels = deep if depth is None else count("max_depth", depth)
        event, size = _sharpest(guarantee, adjacency, levels)
        return cls(adjacency, levels, size, event)

    def run(self, bins: Whole, t: Array, parts: int) -> list[tuple[Shape, Array]]:
        centre, choice, leaf = _prices(self.size, self.depth)
        rate = choice / (UNITS * (4 if self.adjacency is Adjacency.REPLACE_ONE else 2))
        feature, threshold = np.zeros(2**self.depth - 1, dtype=np.int64), np.zeros(2**self.depth - 1, dtype=np.int64)
        node = np.zeros(len(bins), dtype=np.int64)
        for level in range(self.depth):
            table = pair_table(
                t, node[:, None], size=2**level, multiplier=float(1 / centre), adjacency=self.adjacency, laplace=True
            )[0]
            means = np.clip(table[:, 1] / np.maximum(table[:, 0], 1.0), -1.0, 1.0)
            rest = np.clip(np.rint((t - means[node]) * UNITS), -UNITS, UNITS).astype(np.int64)
            for place in range(2**level):
                here = node == place
                chosen = choose(split_scores(bins[here], rest[here], parts).ravel(), multiplier=rate)
                feature[2**level - 1 + place], threshold[2**level - 1 + place] = divmod(chosen, parts - 1)
            inner = node + 2**level - 1
            node = 2 * node + (bins[np.arange(len(bins)), feature[inner]] > threshold[inner])
        table = pair_table(t, node[:, None], size=2**self.depth, multiplier=float(1 / leaf), adjacency=self.adjacency, laplace=True)
        deviation = math.sqrt(2) / float(leaf) * float(farthest_table(1, self.adjacency, laplace=True))
        return [(Shape(feature, threshold), leaf_values(table, 2 * deviation**2)[0])]


def _prices(size: Fraction, levels: int) -> tuple[Fraction, Fraction, Fraction]:
    """The epsilon of a level's means, of its choice, and of the leaves; inverses of the first and last are floats, as noise needs them."""

    def rounded(epsilon: Fraction) -> Fraction:
        return 1 / Fraction(math.nextafter(float(1 / epsilon), math.inf))

    level = size * (1 - Fraction(LEAF_SHARE)) / levels
    return rounded(level * Fraction(CENTRE_SHARE)), level * (1 - Fraction(CENTRE_SHARE)), rounded(size * Fraction(LEAF_SHARE))


@functools.lru_cache(maxsize=256)
def _sharpest(guarantee: Guarantee, adjacency: Adjacency, levels: int) -> tuple[Event, Fraction]:
    """The event and size of the sharpest tree; kept, as every fit with one guarantee asks the accountant the same."""

    def event(size: Fraction) -> Event:
        centre, choice, leaf = _prices(size, levels)
        chosen = Exponential(choice, monotone=False, adjacency=adjacency)
        looks = Repeated(Laplace(1 / centre, adjacency=adjacency), levels)
        return Composed(looks, Repeated(chosen, levels), Laplace(1 / leaf, adjacency=adjacency))

    return largest(guarantee, adjacency, event)


@dataclass(frozen=True)
class ForestPlan:
    """Trees of random splits, and the one table that prices them: Gaussian, or Laplace under pure privacy."""

    adjacency: Adjacency
    trees: int
    depth: int
    laplace: bool
    multiplier: float
    event: Event

    @classmethod
    def make(
        cls, guarantee: Guarantee, adjacency: Adjacency, *, trees: int | None, depth: int | None, rows: int | None
    ) -> ForestPlan:
        """Fewer and shallower trees where privacy is pure: the noise of a leaf grows with their number there."""
        pure = guarantee.pure
        strength = float(guarantee.floats.epsilon or 0.0) if pure else guarantee.gaussian_mu
        number = (8 if pure else MANY) if trees is None else count("n_estimators", trees)
        known = (rows or UNKNOWN_ROWS) * strength / (number if pure else 1)
        deep = min(max(round(0.6 * math.log2(max(known, 1.0))), 2), DEEPEST_FOREST)
        levels = deep if depth is None else count("max_depth", depth)
        if pure:
            multiplier = math.nextafter(1 / (strength * (1 - 1e-9)), math.inf)
            event: Event = Laplace(multiplier, adjacency=adjacency)
        else:
            event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
            multiplier = 1 / mu
        assert guarantee.keeps(event, adjacency)
        return cls(adjacency, number, levels, pure, multiplier, event)

    def run(self, bins: Whole, t: Array, parts: int) -> list[tuple[Shape, Array]]:
        shapes = [random_shape(bins.shape[1], self.depth, parts, MARGIN) for _ in range(self.trees)]
        cells = np.column_stack([shape.leaves(bins) for shape in shapes])
        table = pair_table(
            t, cells, size=2**self.depth, multiplier=self.multiplier, adjacency=self.adjacency, laplace=self.laplace
        )
        moved = float(farthest_table(self.trees, self.adjacency, laplace=self.laplace, counts=True))
        one = 2 * (moved * self.multiplier) ** 2 * (2 if self.laplace else 1)
        values = leaf_values(table, one / self.trees)  # what is left of the noise in a mean over trees
        return [(shape, value / self.trees) for shape, value in zip(shapes, values, strict=True)]


@dataclass(frozen=True)
class SquaredBoosting:
    """Boosting of the squared loss: every level of a tree is one histogram of residuals, clipped to a public schedule."""

    plan: BoostingPlan

    @property
    def event(self) -> Event:
        return self.plan.event

    def run(self, bins: Whole, t: Array, parts: int) -> list[tuple[Shape, Array]]:
        scores, known = np.zeros((len(bins), 1)), np.ones(len(bins), dtype=np.bool_)
        doubt = 1 + 2 * math.log(max(self.plan.features * (parts - 1), 1))  # the largest of so many squares of noise
        found = []
        for turn in range(self.plan.rounds):
            clip = max(CLIPS[0] * CLIPS[1] ** turn, CLIPS[2])
            residuals = np.clip(t[:, None] - scores, -clip, clip)
            shape, values = self.plan.tree(bins, residuals, known, parts, length=clip, newton=1.0, floor=0.0, doubt=doubt)
            scores = np.clip(scores + values[shape.leaves(bins)], -1.0, 1.0)
            found.append((shape, values[:, 0]))
        return found


class TreeRegressor(RegressorMixin, PrivateEstimator):
    """What regressors made of trees share: rows go into public bins, labels into [-1, 1], and a prediction adds up the trees."""

    bins: int
    label_bounds: Bounds | None

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None) -> PlannedTrees:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the guarantee and grow. A missing label counts as the middle of its bounds; nothing about the values raises."""
        request, (lower, upper) = self._request(X), label_interval(self.label_bounds)
        parts = count("bins", self.bins, least=2)
        labels = label_numbers(y, len(request.numbers))
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        plan = self._plan(request.guarantee, request.adjacency, features=request.features, rows=request.rows)
        with self._spend(plan.event, request.guarantee):
            t = np.clip((np.where(np.isnan(labels), middle, labels) - middle) / half, -1.0, 1.0)
            trees = plan.run(to_bins(request.scaled(), parts), t, parts)
        self.space_, self.parts_, self.trees_ = request.space, parts, trees
        self.label_middle_, self.label_half_ = middle, half
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The sum of the trees' values, within the bounds of the labels."""
        numbers = self._fitted(X)
        bins = to_bins(self.space_.scale(numbers), self.parts_)
        scores = np.sum([values[shape.leaves(bins)] for shape, values in self.trees_], axis=0)
        found: Array = self.label_middle_ + self.label_half_ * np.clip(scores, -1.0, 1.0)
        return found


class DecisionTreeRegressor(TreeRegressor):
    """A private regression tree.

    Parameters
        max_depth: levels of splits; by default as many as leave more people in a leaf than noise, at most 6.
        bins: thresholds cut the public bounds of a feature into this many equal parts.
        label_bounds: public (lower, upper) of the labels; required.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, adjacency, n_public, account, random_state: see
        `tacit.learning.LogisticRegression`; delta=0 works too.

    Fitted: trees_ (the splits, and the values of the leaves for labels in [-1, 1]), event_, privacy_.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds, label_bounds and n_public are public; a person is one row.
        Proved in: `TreePlan`.
    """

    def __init__(
        self, max_depth: int | None = None, *, bins: int = 16,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds, data_norm=data_norm,
            adjacency=adjacency, n_public=n_public, account=account, random_state=random_state,
        )  # fmt: skip
        self.max_depth = max_depth
        self.bins = bins
        self.label_bounds = label_bounds

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None) -> PlannedTrees:
        return TreePlan.make(guarantee, adjacency, depth=self.max_depth, rows=rows)


class RandomForestRegressor(TreeRegressor):
    """A private random forest for regression: the mean over trees with random splits.

    Parameters
        n_estimators: trees; by default 40, or 8 where delta is 0. max_depth: levels of splits, by default by the budget.
        bins, label_bounds and the others: see `DecisionTreeRegressor`.

    Fitted: trees_ (splits, and each leaf's share of the prediction for labels in [-1, 1]), event_, privacy_.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds, label_bounds and n_public are public; a person is one row.
        Proved in: `pair_table` with one view for each tree; random splits see no data.
    """

    def __init__(
        self, n_estimators: int | None = None, *, max_depth: int | None = None, bins: int = 32,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds, data_norm=data_norm,
            adjacency=adjacency, n_public=n_public, account=account, random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.bins = bins
        self.label_bounds = label_bounds

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None) -> PlannedTrees:
        return ForestPlan.make(guarantee, adjacency, trees=self.n_estimators, depth=self.max_depth, rows=rows)


class GradientBoostingRegressor(TreeRegressor):
    """Private gradient boosting of the squared loss, with residuals cut to a public schedule.

    Parameters
        n_estimators: trees; many short steps average the noise out. learning_rate, max_depth: the length of a step and the levels of a
        tree. max_features: how many features each level looks at, drawn at random.
        bins, label_bounds and the others: see `DecisionTreeRegressor`; delta must be positive.

    Fitted: trees_ (splits, and what each leaf adds for labels in [-1, 1]), event_, privacy_.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds and label_bounds are public; a person is one row.
        Proved in: `BoostingPlan`: `noisy_table` for every level, given the trees before it; adaptive composition of Gaussian releases.
    """

    def __init__(
        self, n_estimators: int = 100, *, learning_rate: float = 0.3, max_depth: int = 1, max_features: int = 1, bins: int = 8,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds, data_norm=data_norm,
            adjacency=adjacency, n_public=n_public, account=account, random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_features = max_features
        self.bins = bins
        self.label_bounds = label_bounds

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None) -> PlannedTrees:
        rate = float(positive("learning_rate", self.learning_rate))
        if rate > 1:
            raise ParameterError(f"learning_rate must be above 0 and at most 1, not {rate}")
        rounds, depth = count("n_estimators", self.n_estimators), count("max_depth", self.max_depth)
        drawn = min(count("max_features", self.max_features), features)
        return SquaredBoosting(BoostingPlan.make(guarantee, adjacency, rounds=rounds, depth=depth, features=drawn, rate=rate))
