"""Private decision trees, and random forests of them.

One tree chooses its splits by the exponential mechanism among public thresholds, and releases the class
counts of its leaves with exact noise. A forest has random splits, which cost nothing, and the counts of all
its leaves come from one noisy table. Use a tree for a model that can be read, or under pure privacy; a forest
for accuracy where there is a delta.

>>> from tacit.noise import test_mode
>>> X = np.repeat([[0.1, 0.9], [0.8, 0.9], [0.2, 0.1], [0.9, 0.1]], 200, axis=0)
>>> y = np.repeat(["a", "b", "a", "b"], 200)
>>> model = DecisionTreeClassifier(max_depth=1, epsilon=1, delta=0, bounds=(0, 1), classes=["a", "b"])
>>> with test_mode(1):
...     float(model.fit(X, y).score(X, y))
1.0
>>> model.privacy_.upper <= 1
True

*A tree.* All nodes of a level hold different people, so a level of any width costs one choice (parallel
composition: McSherry 2009, Theorem 4). The score of a split is how many people it would classify right, the
largest class on either side: one person changes it by 0 or 1, all scores in the same direction, so the choice
is twice as sharp as for Gini's index at the same price. Scores are whole numbers and the choice is exact.

Where the budget is too small for a choice to tell good splits from bad ones, which public numbers say, splits are random and cost nothing,
and all of the budget goes into the *labels* of the leaves: permute and flip (McKenna and Sheldon 2020) is surer of a leaf's largest class
than noisy counts are.

*A forest.* Every tree sees all people. One person is in one leaf of each of T trees, so the table has
sensitivity sqrt(T) and the counts of a tree carry sqrt(T) times the noise of one; summed over trees the noise
grows by another sqrt(T) and the signal by T: the forest is as accurate as if each tree had the whole budget.
Cutting the people into T disjoint parts loses a factor sqrt(T) against that. Under a budget too small for any
of it, the forest is one tree with private splits, whose choices are worth more than an average of guesses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import (
    Adjacency,
    Composed,
    Event,
    Exponential,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    Repeated,
)
from tacit.calculus import Integers, LInfinity, Vectors, codes_of
from tacit.calculus import Space as Scores
from tacit.learning.estimator import UNKNOWN_ROWS, Array, Bounds, PrivateClassifier
from tacit.learning.linear.losses import softmax
from tacit.ledger import Account
from tacit.mechanisms import PermuteAndFlip, farthest_table, noisy_table
from tacit.noise import choose, uniform_integers
from tacit.parameters import count

Whole = NDArray[np.int64]
LEAF_SHARE = 0.5  # of the price, for the counts of the leaves; the levels share the rest
DEEPEST = 6  # by default
SHARP = 0.5  # a choice among m splits is off by about log(m) / epsilon people; it is worth its price where a node holds half of that
GUESS_MARGIN = 0.3  # random thresholds of a single tree keep away from the ends of the bounds by this part of the range
POOR = 64.0  # rows times mu below which one tree with private splits is better than many with random ones
MANY = 60  # trees by default
DEEPEST_FOREST = 8
MARGIN = 0.15  # random thresholds keep away from the ends of the bounds by this part of the range, where few rows are


@dataclass(frozen=True)
class Shape:
    """The inner nodes of a full binary tree in breadth-first order: a row goes right where its feature's bin is above the threshold."""

    feature: Whole
    threshold: Whole

    @property
    def depth(self) -> int:
        return len(self.feature).bit_length()

    def leaves(self, bins: Whole) -> Whole:
        """The leaf of each row, 0 .. 2^depth - 1."""
        node, rows = np.zeros(len(bins), dtype=np.int64), np.arange(len(bins))
        for _ in range(self.depth):
            node = 2 * node + 1 + (bins[rows, self.feature[node]] > self.threshold[node])
        return node - len(self.feature)


def to_bins(U: Array, bins: int) -> Whole:
    """The public bin of every value: equal parts of [-1, 1].

    >>> to_bins(np.array([[-1.0, -0.1, 1.0]]), 4).tolist()
    [[0, 1, 3]]
    """
    return np.clip(np.floor((U + 1) / 2 * bins), 0, bins - 1).astype(np.int64)


def split_scores(bins: Whole, codes: Whole, classes: int, parts: int) -> Whole:
    """For every feature and threshold, the size of the largest class on the left plus that on the right; rows of one node."""
    features = bins.shape[1]
    places = (np.arange(features) * parts + bins) * classes + codes[:, None]
    table = np.bincount(places.ravel(), minlength=features * parts * classes).reshape(features, parts, classes)
    left = table.cumsum(axis=1)[:, :-1]
    right = table.sum(axis=1, keepdims=True) - left
    found: Whole = (left.max(axis=2) + right.max(axis=2)).astype(np.int64)
    return found


def grow(bins: Whole, codes: Whole, classes: int, *, parts: int, depth: int, epsilon: Fraction, adjacency: Adjacency) -> Shape:
    """A tree of private splits.

    Guarantee
        Statement: costs `split_event(epsilon)` for every level.
        Proved in: a person who comes or goes raises or lowers scores of one node by 0 or 1, so with weights exp(epsilon * score) the losses
        lie in a range of width epsilon (Dong, Durfee, Rogers 2020, Corollary 3.3). One who is exchanged does so twice, in one node or
        in two, so the weights are exp(epsilon * score / 2).
    """
    known = codes >= 0
    bins, codes = bins[known], codes[known]
    rate = epsilon / (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    feature, threshold = np.zeros(2**depth - 1, dtype=np.int64), np.zeros(2**depth - 1, dtype=np.int64)
    node = np.zeros(len(bins), dtype=np.int64)
    for level in range(depth):
        for place in range(2**level - 1, 2 ** (level + 1) - 1):
            here = node == place
            chosen = choose(split_scores(bins[here], codes[here], classes, parts).ravel(), multiplier=rate)
            feature[place], threshold[place] = divmod(chosen, parts - 1)
        node = 2 * node + 1 + (bins[np.arange(len(bins)), feature[node]] > threshold[node])
    return Shape(feature, threshold)


def random_shape(features: int, depth: int, parts: int, margin: float) -> Shape:
    """A tree whose levels each ask one random question, with thresholds at least `margin` of the range from its ends; no data is involved.

    >>> random_shape(1, 2, 3, 0.4).threshold.tolist() in ([0, 0, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1])
    True
    """
    feature = np.asarray(uniform_integers(features, size=depth))
    least = min(math.floor(parts * margin), (parts - 2) // 2)
    threshold = least + np.asarray(uniform_integers(max(parts - 1 - 2 * least, 1), size=depth))
    level = np.array([(node + 1).bit_length() - 1 for node in range(2**depth - 1)])
    return Shape(feature[level].astype(np.int64), threshold[level].astype(np.int64))


def split_event(epsilon: Fraction, adjacency: Adjacency) -> Exponential:
    """The price of one level."""
    return Exponential(epsilon, monotone=adjacency is Adjacency.ADD_REMOVE, adjacency=adjacency)


def largest(guarantee: Guarantee, adjacency: Adjacency, make: Callable[[Fraction], Event]) -> tuple[Event, Fraction]:
    """make(size), and size: the largest multiple of 2^-10 of a power of two whose event keeps the guarantee; the price grows with size."""
    limit = guarantee.gaussian_mu if guarantee.floats.epsilon is None else guarantee.floats.epsilon
    unit = Fraction(2) ** (math.floor(math.log2(limit)) - 10)
    low, high = 0, 1024
    while high < 2**20 and guarantee.keeps(make(high * unit), adjacency):
        low, high = high, 2 * high
    while high - low > max(1, low // 256):
        middle = (low + high) // 2
        low, high = (middle, high) if guarantee.keeps(make(middle * unit), adjacency) else (low, middle)
    size = max(low, 1) * unit
    event = make(size)
    while not guarantee.keeps(event, adjacency):  # only for a guarantee that even 1024 parts of it do not keep
        size = size / 2
        event = make(size)
    return event, size


class Planned(Protocol):
    """What will be released about trees, fixed before the data is touched."""

    @property
    def event(self) -> Event: ...

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a count."""

    def run(self, bins: Whole, codes: Whole, classes: int, parts: int) -> tuple[list[Shape], Array]:
        """The trees and the noisy class counts of their leaves, an array (trees, leaves, classes)."""


class TreeClassifier(PrivateClassifier):
    """What classifiers made of trees share: rows go into public bins, a plan releases trees and counts, a subclass reads them."""

    def __init__(
        self, max_depth: int | None = None, *, bins: int = 16,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, classes: ArrayLike | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, adjacency=adjacency, n_public=n_public, account=account,
            random_state=random_state,
        )  # fmt: skip
        self.max_depth = max_depth
        self.bins = bins
        self.classes = classes

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, classes: int, features: int, rows: int | None) -> Planned:
        """One tree with private splits, as sharp as the guarantee allows; a subclass may plan more trees."""
        splits = features * (count("bins", self.bins, least=2) - 1)
        return TreePlan.make(guarantee, adjacency, classes=classes, depth=self.max_depth, rows=rows, splits=splits)

    def _keep(self, shapes: list[Shape], counts: Array, noise: float) -> None:
        """Take what was released."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the guarantee and grow. Rows whose label was not declared count for nothing."""
        request, classes, labels = self._labelled(X, y)
        parts = count("bins", self.bins, least=2)
        guarantee, features, rows = request.guarantee, request.features, request.rows
        plan = self._plan(guarantee, request.adjacency, classes=len(classes), features=features, rows=rows)
        with self._spend(plan.event, guarantee):
            bins, codes = to_bins(request.scaled(), parts), codes_of(labels, classes)
            shapes, counts = plan.run(bins, codes, len(classes), parts)
        self.space_, self.classes_, self.parts_ = request.space, classes, parts
        self._keep(shapes, counts, plan.noise)
        return self

    def _bins(self, X: ArrayLike) -> Whole:
        """The public bins of rows to predict for."""
        numbers = self._fitted(X)
        return to_bins(self.space_.scale(numbers), self.parts_)


class DecisionTreeClassifier(TreeClassifier):
    """A private decision tree.

    Parameters
        max_depth: levels of splits; by default as many as leave more people in a leaf than noise, and at least log2 of the classes; at
        most 6. One more than log2 of the classes where splits are random.
        bins: thresholds cut the public bounds of a feature into this many equal parts.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, classes, adjacency, n_public, account, random_state: see
        `tacit.learning.LogisticRegression`; delta=0 works too.

    Fitted: tree_ (the splits), counts_ (noisy class counts of the leaves), classes_, event_, privacy_, and noise_, the standard deviation
    of a count. Where only labels were paid for (see above), counts_ gives a leaf's share of the public number of rows to its label.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds, classes and n_public are public; a person is one row.
        Proved in: `grow`, and `row_sums.noisy_table` for the counts; or `leaf_labels` for random splits.
    """

    def _keep(self, shapes: list[Shape], counts: Array, noise: float) -> None:
        self.tree_, self.counts_, self.noise_ = shapes[0], counts[0], noise

    def predict_proba(self, X: ArrayLike) -> Array:
        """Shares of the classes in each row's leaf, drawn towards equal shares as the noise of the counts demands."""
        bins = self._bins(X)
        counts = np.maximum(self.counts_, 0.0) + self.noise_ * 0.5
        found: Array = (counts / counts.sum(axis=1, keepdims=True))[self.tree_.leaves(bins)]
        return found

    def _scores(self, X: ArrayLike) -> Array:
        """The noisy class counts of each row's leaf."""
        bins = self._bins(X)
        found: Array = self.counts_[self.tree_.leaves(bins)]
        return found


@dataclass(frozen=True)
class TreePlan:
    """One tree, fixed before the data is touched: its depth, whether splits are chosen or random, and the price of its parts."""

    guarantee: Guarantee
    adjacency: Adjacency
    depth: int
    chosen: bool
    rows: int | None
    size: Fraction
    event: Event

    @classmethod
    def make(
        cls, guarantee: Guarantee, adjacency: Adjacency, *, classes: int, depth: int | None, rows: int | None, splits: int
    ) -> TreePlan:
        """The sharpest tree that keeps the guarantee, for so many possible splits of a node.

        A tree needs log2(classes) levels, or there are classes without a leaf. Splits are chosen where the last of these levels is worth
        it: where its nodes hold more people than SHARP times the error of the exponential mechanism.
        """
        strength = guarantee.gaussian_mu if guarantee.floats.epsilon is None else guarantee.floats.epsilon
        wanted, known = math.ceil(math.log2(classes)), (rows or UNKNOWN_ROWS) * strength * LEAF_SHARE
        chosen = known / 2 ** (wanted - 1) / wanted >= SHARP * math.log(max(splits, 2))
        if depth is not None:
            levels = count("max_depth", depth)
        else:
            levels = min(max(math.floor(math.log2(max(known / 6, 1.0))), wanted) if chosen else wanted + 1, max(DEEPEST, wanted))
        found, size = _sharpest(guarantee, adjacency, levels if chosen else 0)
        return cls(guarantee, adjacency, levels, chosen, rows, size, found)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a count; for labels, of the noise that permuting and flipping amounts to."""
        if not self.chosen:
            return 1 / float(_flip_rate(self.size, self.adjacency))
        leaf = _parts(self.size, self.depth)[1]
        return math.sqrt(2) / float(leaf) * float(farthest_table(1, self.adjacency, laplace=True))

    def run(self, bins: Whole, codes: Whole, classes: int, parts: int) -> tuple[list[Shape], Array]:
        """The released tree and the noisy class counts of its leaves."""
        relation, leaves = self.adjacency, 2**self.depth
        if not self.chosen:
            shape = random_shape(bins.shape[1], self.depth, parts, GUESS_MARGIN)
            labels = leaf_labels(shape.leaves(bins), codes, leaves, classes, epsilon=self.size, adjacency=relation)
            return [shape], (np.eye(classes)[labels] * (self.rows or UNKNOWN_ROWS) / leaves)[None]
        level, leaf = _parts(self.size, self.depth)
        shape = grow(bins, codes, classes, parts=parts, depth=self.depth, epsilon=level, adjacency=relation)
        cells = np.where(codes >= 0, shape.leaves(bins) * classes + codes, -1)[:, None]
        counts = noisy_table(
            np.ones((len(bins), 1)), cells, size=leaves * classes, bound=1.0, multiplier=float(1 / leaf),
            adjacency=relation, laplace=True,
        )  # fmt: skip
        return [shape], counts.reshape(1, leaves, classes)


def leaf_labels(leaf: Whole, codes: Whole, leaves: int, classes: int, *, epsilon: Fraction, adjacency: Adjacency) -> Whole:
    """The largest class of every leaf, by permute and flip.

    Guarantee
        Statement: costs PureDP(epsilon).
        Conditions: which leaf a person is in depends on that person's row and on public splits.
        Proved in: a person who comes or goes raises or lowers one count of one leaf by 1, so the scores are monotone (McKenna and Sheldon
        2020, Theorem 1 and its remark on monotone scores) and the other leaves stay as they are. One who is exchanged does so twice, in
        one leaf or in two, at half the rate each.
    """
    known = codes >= 0
    table = np.bincount(leaf[known] * classes + codes[known], minlength=leaves * classes).reshape(leaves, classes)
    flip = PermuteAndFlip(2 * _flip_rate(epsilon, adjacency)).bind(Scores(Vectors(Integers(), classes), LInfinity()))
    return np.array([flip.release(row).value for row in table.tolist()], dtype=np.int64)


def _flip_rate(epsilon: Fraction, adjacency: Adjacency) -> Fraction:
    """The weight of one person in the exponent of a coin."""
    return epsilon / (2 if adjacency is Adjacency.REPLACE_ONE else 1)


@functools.lru_cache(maxsize=256)
def _sharpest(guarantee: Guarantee, adjacency: Adjacency, levels: int) -> tuple[Event, Fraction]:
    """The event and size of the sharpest tree of so many chosen levels; kept, as every fit with one guarantee asks the accountant the same.

    No levels stand for random splits and labels.
    """
    relation = adjacency

    def event(size: Fraction) -> Event:
        if not levels:
            return PureDP(size, adjacency=relation)
        level, leaf = _parts(size, levels)
        return Composed(Repeated(split_event(level, relation), levels), Laplace(1 / leaf, adjacency=relation))

    return largest(guarantee, adjacency, event)


def _parts(size: Fraction, levels: int) -> tuple[Fraction, Fraction]:
    """The epsilon of a level and of the leaves; the latter such that its inverse is a float, as the noise needs it."""
    leaf = 1 / Fraction(math.nextafter(float(1 / (size * Fraction(LEAF_SHARE))), math.inf))
    return size * (1 - Fraction(LEAF_SHARE)) / levels, leaf


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
        deep = min(max(round(0.5 * math.log2(max(known, 1.0))), 3), DEEPEST_FOREST)
        levels = deep if depth is None else count("max_depth", depth)
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
        Proved in: `row_sums.noisy_table` with one view for each tree; or `TreePlan`.
    """

    def __init__(
        self, n_estimators: int | None = None, *, max_depth: int | None = None, bins: int = 32,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, classes: ArrayLike | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            max_depth, bins=bins, epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee,
            bounds=bounds, data_norm=data_norm, classes=classes, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators

    def _plan(self, guarantee: Guarantee, adjacency: Adjacency, *, classes: int, features: int, rows: int | None) -> Planned:
        poor = guarantee.pure or (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu < POOR
        if self.n_estimators is None and poor:
            return super()._plan(guarantee, adjacency, classes=classes, features=features, rows=rows)
        trees = MANY if self.n_estimators is None else count("n_estimators", self.n_estimators)
        return ForestPlan.make(guarantee, adjacency, trees=trees, depth=self.max_depth, rows=rows)

    def _keep(self, shapes: list[Shape], counts: Array, noise: float) -> None:
        self.trees_, self.counts_, self.noise_ = shapes, counts, noise
        self.log_shares_, self.log_prior_ = log_shares(counts, noise)

    def _scores(self, X: ArrayLike) -> Array:
        """Logarithms of a product: the class's shares in the row's leaves, relative to those of all rows."""
        bins = self._bins(X)
        parts = [shares[shape.leaves(bins)] for shape, shares in zip(self.trees_, self.log_shares_, strict=True)]
        found: Array = np.sum(parts, axis=0) + self.log_prior_
        return found

    def predict_proba(self, X: ArrayLike) -> Array:
        """Shares of the classes: the geometric mean over the trees."""
        return softmax(self._scores(X) / len(self.trees_))


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
