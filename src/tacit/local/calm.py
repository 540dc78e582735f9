"""Marginals from views: people are split over a few small sets of features, and each reports the whole combination in one of them.

CALM's idea (Zhang et al. 2018): views of several features together hold every marginal that is asked for. What views share is averaged
by its variance, coefficient by coefficient, so all marginals agree; one that no view holds is filled in with the greatest entropy from
the parts that views do hold. `tacit.local.lopub` asks for whole rows instead.

>>> from tacit.local import Collector, to_batch
>>> protocol = view_shares([2, 2, 3, 2], order=2, epsilon=2)
>>> protocol.randomiser.views
((0, 1, 2, 3),)
>>> collector = Collector(protocol).ingest([to_batch(protocol, [(0, 1, 2, 0), (1, 1, 0, 0)] * 20_000)])
>>> table, deviation = ViewAnswers.of(collector).marginal([0, 2])
>>> bool(abs(table[0, 2] - 0.5) < 6 * deviation)
True
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.grouped import GroupedRandomiser, oracle
from tacit.local.marginals import FeatureRows, MarginalAnswers, feature_masks, inverse_transform
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Randomiser, named
from tacit.parameters import Number, count, positive

Array = NDArray[np.float64]
WIDE = 5  # bits of a view, unless a marginal needs more: beyond, the error of adding up cells outweighs fewer views
SETS = 200_000  # of features that views may have to cover


def cover(bits: Sequence[int], order: int, most: int = WIDE) -> tuple[tuple[int, ...], ...]:
    """Views of at most `most` bits, or as many as one set needs, that hold every set of `order` features; greedy, the same every time.

    >>> len(cover([1] * 6, 2, 3)), cover([1, 1, 1], 2, 3)
    (7, ((0, 1, 2),))
    """
    wanted = list(itertools.combinations(range(len(bits)), order))
    open_ = set(wanted)
    views: list[tuple[int, ...]] = []
    for first in wanted:
        if first not in open_:
            continue
        view = list(first)
        while True:
            room = most - sum(bits[each] for each in view)
            fitting = [each for each in range(len(bits)) if each not in view and bits[each] <= room]
            if not fitting:
                break
            smaller = list(itertools.combinations(view, order - 1))
            gains = {each: sum(tuple(sorted((*part, each))) in open_ for part in smaller) for each in fitting}
            best = max(fitting, key=lambda each: (gains[each], -each))
            if not gains[best]:
                break
            view.append(best)
        views.append(tuple(sorted(view)))
        open_ -= set(itertools.combinations(views[-1], order))
    return tuple(views)


@named
@dataclass(frozen=True)
class Views(GroupedRandomiser):
    """The combination of the features of a random view, by a randomiser for frequencies."""

    bits: tuple[int, ...] = ()
    views: tuple[tuple[int, ...], ...] = ()
    inner: str = "auto"

    kind: ClassVar[str] = "views"
    answered_by: ClassVar[str] = "ViewAnswers"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bits", tuple(count("each of bits", each) for each in self.bits))
        object.__setattr__(self, "views", tuple(tuple(count("a feature", each, least=0) for each in view) for view in self.views))
        if self.size != 2 ** sum(self.bits):
            raise ParameterError("size must be two to the number of bits")
        for view in self.views:
            if not view or len(set(view)) < len(view) or max(view) >= len(self.bits) or sum(self.bits[each] for each in view) > 20:
                raise ParameterError("views must be sets of features of at most 20 bits")
        if not self.views:
            raise ParameterError("views must be at least one")
        _ = self.parts

    def _parts(self) -> list[Randomiser]:
        return [oracle(2 ** sum(self.bits[each] for each in view), self.epsilon, self.inner) for view in self.views]

    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.zeros(len(values), dtype=np.int64)
        for feature in self.views[group]:
            width = self.bits[feature]
            found = found << width | (values >> sum(self.bits[feature + 1 :])) & (2**width - 1)
        return found


def view_shares(sizes: Sequence[int], *, order: int, epsilon: Number, most: int = WIDE, inner: str = "auto") -> Protocol:
    """A protocol for all marginals of up to `order` features with so many values each, by views of at most `most` bits.

    >>> len(view_shares([2] * 8, order=2, epsilon=1, most=4).randomiser.views) < 28
    True
    """
    positive("epsilon", epsilon)
    rows = FeatureRows(tuple(sizes))
    if not 1 <= count("order", order) <= len(rows.sizes):
        raise ParameterError("order must be at most the number of features")
    if sum(1 for _ in itertools.islice(itertools.combinations(rows.sizes, order), SETS + 1)) > SETS:
        raise ParameterError(f"there are more than {SETS:,} sets of features to cover; take a lower order")
    return Protocol(rows, Views(rows.size, epsilon, rows.bits, cover(rows.bits, order, count("most", most)), inner))


@dataclass(frozen=True)
class ViewAnswers:
    """Marginals that views hold, unbiased and agreeing with each other, and others filled in with the greatest entropy."""

    known: MarginalAnswers

    @classmethod
    def of(cls, collector: Collector) -> ViewAnswers:
        """The answers that a collector's reports tell."""
        randomiser, rows = collector.protocol.randomiser, collector.protocol.values
        if not isinstance(randomiser, Views) or not isinstance(rows, FeatureRows):
            raise ParameterError("the collector counts no reports of views; make the protocol with `view_shares`")
        found = [(share, float(variance.sum())) for _, share, variance in randomiser.shares(collector.table)]
        return cls(combined(rows, randomiser.views, found, collector.n))

    def marginal(self, features: Sequence[int]) -> tuple[Array, float | None]:
        """The shares of all combinations of these features' values, and the deviation of one.

        The deviation is None where no view holds the marginal: what is filled in rests on an assumption, not on reports.
        """
        wanted = list(features)
        sound = len(set(wanted)) == len(wanted) > 1 and set(wanted) <= set(range(len(self.known.rows.sizes)))
        if sound and not self.known.covered(wanted) and all(self.known.covered([each]) for each in wanted):
            return greatest_entropy(self.known, wanted), None
        return self.known.marginal(wanted)


def combined(
    rows: FeatureRows, views: Sequence[Sequence[int]], found: Sequence[tuple[Array, float]], n: int
) -> MarginalAnswers:
    """Coefficients of all views, those of several views weighted by their variances, which are the sums of the cells'."""
    sums: dict[int, tuple[float, float]] = {}
    for view, (share, variance) in zip(views, found, strict=True):
        theta = inverse_transform(share) * len(share)
        weight = 1 / max(variance, 1e-300)
        for mask, value in zip(feature_masks(rows.bits, view).tolist(), theta.tolist(), strict=True):
            total, precision = sums.get(mask, (0.0, 0.0))
            sums[mask] = total + weight * value, precision + weight
    known = {mask: (total / precision, 1 / precision) for mask, (total, precision) in sums.items()}
    return MarginalAnswers(rows, n, {**known, 0: (1.0, 0.0)})


def greatest_entropy(known: MarginalAnswers, features: Sequence[int], rounds: int = 200) -> Array:
    """The table of greatest entropy whose parts are the known marginals, by iterative proportional fitting.

    What is negative in a part counts as 0.
    """
    sizes = [known.rows.sizes[each] for each in features]
    places = range(len(features))
    parts: list[tuple[int, ...]] = []
    for k in range(len(features) - 1, 0, -1):
        for part in itertools.combinations(places, k):
            if known.covered([features[each] for each in part]) and not any(set(part) <= set(larger) for larger in parts):
                parts.append(part)
    table = np.full(sizes, 1 / np.prod(sizes))
    wanted = []
    for part in parts:
        share = np.maximum(known.marginal([features[each] for each in part])[0], 0)
        wanted.append(share / max(share.sum(), 1e-300))
    for _ in range(rounds):
        for part, share in zip(parts, wanted, strict=True):
            rest = tuple(each for each in places if each not in part)
            have = table.sum(axis=rest, keepdims=True)
            shape = [sizes[each] if each in part else 1 for each in places]
            table = table * np.divide(share.reshape(shape), have, out=np.zeros(shape), where=have > 0)
    return np.asarray(table)
