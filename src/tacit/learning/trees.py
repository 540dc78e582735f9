"""Private decision trees: splits chosen by the exponential mechanism among public thresholds, class counts of the leaves with exact noise.

All nodes of a level hold different people, so a level of any width costs one choice (parallel composition: McSherry 2009, Theorem 4). The
score of a split is how many people it would classify right, the largest class on either side: one person changes it by 0 or 1, all scores
in the same direction, so the choice is twice as sharp as for Gini's index at the same price. Scores are whole numbers and the choice is
exact.

>>> from tacit.noise import test_mode
>>> X = np.repeat([[0.1, 0.9], [0.8, 0.9], [0.2, 0.1], [0.9, 0.1]], 200, axis=0)
>>> y = np.repeat(["a", "b", "a", "b"], 200)
>>> model = DecisionTreeClassifier(max_depth=1, epsilon=1, delta=0, bounds=(0, 1), classes=["a", "b"])
>>> with test_mode(1):
...     float(model.fit(X, y).score(X, y))
1.0
>>> model.privacy_.upper <= 1
True
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Composed, Event, Exponential, Laplace, Repeated
from tacit.accounting.parameters import count
from tacit.learning.choice import UNKNOWN_ROWS
from tacit.learning.estimator import PrivateEstimator, Space, codes_of, declared_classes, declared_rows
from tacit.learning.grouped_sums import farthest_table, noisy_table
from tacit.learning.promise import Promise
from tacit.noise import choose

try:
    from sklearn.base import ClassifierMixin  # type: ignore[import-untyped,unused-ignore]
except ImportError as error:  # pragma: no cover - the extra is there in development
    raise ImportError("tacit.learning needs scikit-learn: pip install 'tacit[learn]'") from error

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
LEAF_SHARE = 0.5  # of the price, for the counts of the leaves; the levels share the rest
DEEPEST = 6  # by default


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
        found: Whole = node - len(self.feature)
        return found


def to_bins(U: Array, bins: int) -> Whole:
    """The public bin of every value: equal parts of [-1, 1].

    >>> to_bins(np.array([[-1.0, -0.1, 1.0]]), 4).tolist()
    [[0, 1, 3]]
    """
    found: Whole = np.clip(np.floor((U + 1) / 2 * bins), 0, bins - 1).astype(np.int64)
    return found


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


def split_event(epsilon: Fraction, adjacency: Adjacency) -> Exponential:
    """The price of one level."""
    return Exponential(epsilon, monotone=adjacency is Adjacency.ADD_REMOVE, adjacency=adjacency)


def largest(promise: Promise, make: Callable[[Fraction], Event]) -> tuple[Event, Fraction]:
    """make(size), and size: the largest multiple of 2^-10 of a power of two whose event keeps the promise; the price grows with size."""
    assert promise.epsilon is not None or promise.rho is not None
    limit = promise.epsilon if promise.epsilon is not None else math.sqrt(2 * (promise.rho or 0.0))
    unit = Fraction(2) ** (math.floor(math.log2(limit)) - 10)
    low, high = 0, 1024
    while high < 2**20 and promise.keeps(make(high * unit)):
        low, high = high, 2 * high
    while high - low > max(1, low // 256):
        middle = (low + high) // 2
        low, high = (middle, high) if promise.keeps(make(middle * unit)) else (low, middle)
    size = max(low, 1) * unit
    event = make(size)
    while not promise.keeps(event):  # only for a promise that even 1024 parts of it do not keep
        size = size / 2
        event = make(size)
    return event, size


class DecisionTreeClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc,unused-ignore]
    """A private decision tree.

    Parameters
        max_depth: levels of splits; by default as many as leave more people in a leaf than noise, and at least log2 of the classes; at
        most 6.
        bins: thresholds cut the public bounds of a feature into this many equal parts.
        epsilon, delta, rho, bounds, data_norm, classes, adjacency, n_public, account, random_state: see
        `tacit.learning.LogisticRegression`; delta=0 is welcome.

    Fitted: tree_ (the splits), counts_ (noisy class counts of the leaves), classes_, event_, privacy_, and noise_, the standard deviation
    of a count.

    Guarantee
        Statement: fitting costs event_, at most what was promised, for any values in X and y.
        Conditions: bounds, classes and n_public are public; a person is one row.
        Proved in: `grow`, and `grouped_sums.noisy_table` for the counts.
    """

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        bins: int = 16,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        bounds: Any = None,
        data_norm: float | None = None,
        classes: ArrayLike | None = None,
        adjacency: str = "add-remove",
        n_public: int | None = None,
        account: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.bins = bins
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.data_norm = data_norm
        self.classes = classes
        self.adjacency = adjacency
        self.n_public = n_public
        self.account = account
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the promise and grow. Rows whose label was not declared count for nothing."""
        promise = self._promise()
        classes, parts = declared_classes(self.classes), count("bins", self.bins, least=2)
        numbers = self._numbers(X, reset=True)
        space = Space.of(numbers.shape[1], bounds=self.bounds, data_norm=self.data_norm)
        labels = self._targets(y, len(numbers), numeric=False)
        rows = declared_rows(self.n_public, len(numbers), promise.adjacency)
        plan = TreePlan.make(promise, classes=len(classes), depth=self.max_depth, rows=rows)
        with self._spend(plan.event, promise):
            bins, codes = to_bins(space.scale(numbers), parts), codes_of(labels, classes)
            shape, counts = plan.run(bins, codes, len(classes), parts)
        self.space_, self.classes_, self.parts_ = space, classes, parts
        self.tree_, self.counts_, self.noise_ = shape, counts, plan.noise
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Shares of the classes in each row's leaf, drawn towards equal shares as the noise of the counts demands."""
        numbers = self._fitted(X)
        bins = to_bins(self.space_.scale(numbers), self.parts_)
        counts = np.maximum(self.counts_, 0.0) + self.noise_ * 0.5
        found: Array = (counts / counts.sum(axis=1, keepdims=True))[self.tree_.leaves(bins)]
        return found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest noisy count in each row's leaf."""
        numbers = self._fitted(X)
        bins = to_bins(self.space_.scale(numbers), self.parts_)
        found: NDArray[Any] = self.classes_[self.counts_.argmax(axis=1)[self.tree_.leaves(bins)]]
        return found


@dataclass(frozen=True)
class TreePlan:
    """One tree, fixed before the data is touched: its depth, the price of a level and of the leaves."""

    promise: Promise
    depth: int
    size: Fraction
    event: Event

    @classmethod
    def make(cls, promise: Promise, *, classes: int, depth: int | None, rows: int | None) -> TreePlan:
        """The sharpest tree that keeps the promise."""
        if depth is None:
            strength = promise.epsilon if promise.epsilon is not None else math.sqrt(2 * (promise.rho or 0.0))
            people = (rows or UNKNOWN_ROWS) * strength * LEAF_SHARE / 6
            wanted = math.ceil(math.log2(classes))  # with fewer levels there are classes without a leaf
            levels = min(max(math.floor(math.log2(max(people, 1.0))), wanted), DEEPEST)
        else:
            levels = count("max_depth", depth)
        found, size = _sharpest(promise, levels)
        return cls(promise, levels, size, found)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a count."""
        leaf = _parts(self.size, self.depth)[1]
        return math.sqrt(2) / float(leaf) * float(farthest_table(1, self.promise.adjacency, laplace=True))

    def run(self, bins: Whole, codes: Whole, classes: int, parts: int) -> tuple[Shape, Array]:
        """The released tree and the noisy class counts of its leaves."""
        level, leaf = _parts(self.size, self.depth)
        relation = self.promise.adjacency
        shape = grow(bins, codes, classes, parts=parts, depth=self.depth, epsilon=level, adjacency=relation)
        cells = np.where(codes >= 0, shape.leaves(bins) * classes + codes, -1)[:, None]
        ones = np.ones((len(bins), 1))
        counts = noisy_table(
            ones, cells, size=2**self.depth * classes, bound=1.0, multiplier=float(1 / leaf), adjacency=relation, laplace=True
        )
        return shape, counts.reshape(2**self.depth, classes)


@functools.lru_cache(maxsize=256)
def _sharpest(promise: Promise, levels: int) -> tuple[Event, Fraction]:
    """The event and size of the sharpest tree of so many levels; kept, as every fit with one promise asks the accountant the same."""
    relation = promise.adjacency

    def event(size: Fraction) -> Event:
        level, leaf = _parts(size, levels)
        return Composed(Repeated(split_event(level, relation), levels), Laplace(1 / leaf, adjacency=relation))

    return largest(promise, event)


def _parts(size: Fraction, levels: int) -> tuple[Fraction, Fraction]:
    """The epsilon of a level and of the leaves; the latter such that its inverse is a float, as the noise needs it."""
    leaf = 1 / Fraction(math.nextafter(float(1 / (size * Fraction(LEAF_SHARE))), math.inf))
    return size * (1 - Fraction(LEAF_SHARE)) / levels, leaf
