"""Private gradient boosting: trees grown on noisy histograms of clipped gradients over public bins.

A level of a tree releases, for a few features drawn at random, one histogram of gradients and people by node and bin. Splits and leaf
values are read from it: no release is spent on the leaves. A person's gradient is clipped to length 1 and counted once in the histogram of
each feature, so a level costs one Gaussian release at sensitivity sqrt(features drawn), whatever its number of nodes.

>>> from tacit.noise import test_mode
>>> X = np.repeat([[0.1, 0.9], [0.8, 0.9], [0.2, 0.1], [0.9, 0.1]], 500, axis=0)
>>> y = np.repeat([0, 1, 0, 1], 500)
>>> model = GradientBoostingClassifier(epsilon=2, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> with test_mode(1):
...     float(model.fit(X, y).score(X, y))
1.0
>>> model.privacy_.upper <= 2
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee, ParameterError, Repeated
from tacit.calculus import codes_of
from tacit.learning.estimator import Array, Bounds, PrivateClassifier
from tacit.learning.linear.losses import softmax
from tacit.learning.trees.tree import Shape, Whole, to_bins
from tacit.ledger import Account
from tacit.mechanisms import farthest_table, noisy_table
from tacit.noise import permutation
from tacit.parameters import count, positive

PEOPLE = 0.5  # length of the part of a row that counts people, beside 1 for the gradient
FLOOR = 0.3  # of a step that is all noise on average: over many trees its direction still counts


@dataclass(frozen=True)
class BoostingPlan:
    """Rounds, levels of a tree and features of a level, fixed before the data is touched, and the releases that price them."""

    guarantee: Guarantee
    adjacency: Adjacency
    rounds: int
    depth: int
    features: int
    rate: float
    event: Event
    mu: float

    @classmethod
    def make(cls, guarantee: Guarantee, adjacency: Adjacency, *, rounds: int, depth: int, features: int, rate: float) -> BoostingPlan:
        """The least noise that keeps the guarantee."""
        releases = rounds * depth
        event, mu = guarantee.settle(lambda mu: Repeated(Gaussian(math.sqrt(releases) / mu, adjacency=adjacency), releases), adjacency)
        return cls(guarantee, adjacency, rounds, depth, features, rate, event, mu)

    @property
    def multiplier(self) -> float:
        """The noise multiplier of one level."""
        return math.sqrt(self.rounds * self.depth) / self.mu

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a bin's sum of gradients."""
        return self.multiplier * math.sqrt(1 + PEOPLE**2) * float(farthest_table(self.features, self.adjacency))

    def run(self, bins: Whole, codes: Whole, classes: int, parts: int) -> list[tuple[Shape, Array]]:
        """The trees, each with the scores it adds in every leaf."""
        known = codes >= 0
        target = np.zeros((len(bins), classes))
        target[known, codes[known]] = 1.0
        scores = np.zeros((len(bins), classes))
        found = []
        for _ in range(self.rounds):
            gradients = np.where(known[:, None], target - softmax(scores), 0.0)
            shape, values = self.tree(bins, gradients, known, parts)
            scores = scores + values[shape.leaves(bins)]
            found.append((shape, values))
        return found

    def tree(
        self, bins: Whole, gradients: Array, known: NDArray[np.bool_], parts: int, *,
        length: float = math.sqrt(2), newton: float | None = None, floor: float = FLOOR, doubt: float = 1.0,
    ) -> tuple[Shape, Array]:  # fmt: skip
        """One tree for the gradients: at each level the split of the largest noisy gain, in the last one with the values of its sides.

        Gradients are no longer than `length`: target minus shares have at most sqrt(2). `newton` is the inverse of a person's curvature;
        by default that of equal shares of the classes, (classes - 1) / classes^2, for each of the two sides of a difference. `floor` is
        the least part of a step that is kept however much of it is noise, and `doubt` how many times the noise of a side is taken off.
        """
        classes = gradients.shape[1]
        inverse = classes**2 / (classes - 1) / 2 if newton is None else newton
        feature, threshold = np.zeros(2**self.depth - 1, dtype=np.int64), np.zeros(2**self.depth - 1, dtype=np.int64)
        values = np.zeros((2**self.depth, classes))
        node = np.zeros(len(bins), dtype=np.int64)
        rows = np.hstack([np.full((len(bins), 1), PEOPLE), gradients / length])
        for level in range(self.depth):
            drawn = np.sort(permutation(bins.shape[1])[: self.features])
            cells = np.where(known[:, None], node[:, None] * parts + bins[:, drawn], -1)
            table = noisy_table(
                rows, cells, size=2**level * parts, bound=math.sqrt(1 + PEOPLE**2), multiplier=self.multiplier,
                adjacency=self.adjacency,
            )  # fmt: skip
            sums = table.reshape(len(drawn), 2**level, parts, classes + 1).cumsum(axis=2)
            left, right = sums[:, :, :-1], sums[:, :, -1:] - sums[:, :, :-1]
            gain = _gain(left, self.noise, np.arange(1, parts)) + _gain(right, self.noise, np.arange(parts - 1, 0, -1))
            for place in range(2**level):
                which, cut = divmod(int(gain[:, place].argmax()), parts - 1)
                inner = 2**level - 1 + place
                feature[inner], threshold[inner] = drawn[which], cut
                if level == self.depth - 1:
                    sides = (left[which, place, cut], right[which, place, cut])
                    spread = (cut + 1, parts - 1 - cut)
                    for side in (0, 1):
                        values[2 * place + side] = self._value(sides[side], spread[side], length, inverse, (floor, doubt))
            inner = node + 2**level - 1
            node = 2 * node + (bins[np.arange(len(bins)), feature[inner]] > threshold[inner])
        return Shape(feature, threshold), values

    def _value(self, sums: Array, bins: int, length: float, inverse: float, held: tuple[float, float]) -> Array:
        """A Newton step for a known curvature a person, shortened by the noise that it carries."""
        noise = self.noise * math.sqrt(bins)
        people = max(sums[0] / PEOPLE, noise / PEOPLE, 1.0)
        gradient = sums[1:] * length
        total = float(gradient @ gradient)
        kept = max(held[0], 1 - held[1] * len(gradient) * (length * noise) ** 2 / total) if total > 0 else 0.0
        step = self.rate * kept * gradient / people * inverse
        found: Array = np.clip(step, -2.0, 2.0)
        return found


def _gain(sums: Array, noise: float, bins: Whole) -> Array:
    """The fall of the loss that a side of a split promises, less what noise alone would promise: |gradient|^2 / people."""
    deviation = noise * np.sqrt(bins)
    people = np.maximum(sums[..., 0] / PEOPLE, 2 * deviation)
    expected = (sums.shape[-1] - 1) * deviation**2
    found: Array = ((sums[..., 1:] ** 2).sum(axis=-1) - expected) / people
    return found


class GradientBoostingClassifier(PrivateClassifier):
    """Private gradient boosting of the logistic loss, for two classes or more.

    Parameters
        n_estimators: trees; many short steps average the noise out.
        learning_rate, max_depth: the length of a step and the levels of a tree.
        max_features: how many features each level looks at, drawn at random. bins: parts of the public bounds of a feature.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, classes, adjacency, account, random_state: see
        `tacit.learning.LogisticRegression`; delta must be positive.

    Fitted: trees_ (shape and leaf values), classes_, event_, privacy_, and noise_, the standard deviation of a bin's sum of gradients.

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds, classes and n_public are public; a person is one row.
        Proved in: `row_sums.noisy_table` for every level, given the trees before it; adaptive composition of Gaussian releases.
    """

    def __init__(
        self, n_estimators: int = 100, *, learning_rate: float = 0.3, max_depth: int = 1,
        max_features: int = 1, bins: int = 8,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, classes: ArrayLike | None = None, adjacency: str = "add-remove",
        account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, adjacency=adjacency, account=account, random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_features = max_features
        self.bins = bins
        self.classes = classes

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the guarantee and fit. Rows whose label was not declared count for nothing."""
        request, classes, labels = self._labelled(X, y)
        parts = count("bins", self.bins, least=2)
        rate = float(positive("learning_rate", self.learning_rate))
        if rate > 10:
            raise ParameterError(f"learning_rate must be above 0 and at most 10, not {rate}")
        plan = BoostingPlan.make(
            request.guarantee,
            request.adjacency,
            rounds=count("n_estimators", self.n_estimators),
            depth=count("max_depth", self.max_depth),
            features=min(count("max_features", self.max_features), request.features),
            rate=rate,
        )
        with self._spend(plan.event, request.guarantee):
            bins, codes = to_bins(request.scaled(), parts), codes_of(labels, classes)
            trees = plan.run(bins, codes, len(classes), parts)
        self.space_, self.classes_, self.parts_ = request.space, classes, parts
        self.trees_, self.noise_ = trees, plan.noise
        return self

    def _scores(self, X: ArrayLike) -> Array:
        numbers = self._fitted(X)
        bins = to_bins(self.space_.scale(numbers), self.parts_)
        found: Array = np.sum([values[shape.leaves(bins)] for shape, values in self.trees_], axis=0)
        return found

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores: one a row for two classes, positive for the second; one a class otherwise."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, in the order of classes_."""
        return softmax(self._scores(X))
