"""Marginals from whole rows: every person reports every feature, each by randomised response with an equal share of epsilon (LoPub).

The reports of one person say how her features go together, so every marginal of up to `order` features is answered, raw and unbiased or
as the table under which the reports are most likely (Ren et al. 2018), and rows can be made up from the pairs that depend most. Epsilon is
split where people could be, so deviations grow with the number of features to the power of the marginal's: `whole_rows` warns with the
factor. Take `marginal_shares` or `view_shares` where the marginals are known beforehand.

>>> import warnings
>>> from tacit.local import Collector, to_batch
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore")
...     protocol = whole_rows([2, 3], order=2, epsilon=4)
>>> answers = RowAnswers.of(Collector(protocol).ingest([to_batch(protocol, [(0, 2), (1, 0)] * 50_000)]))
>>> table, deviation = answers.marginal([0, 1])
>>> table.shape, bool(abs(table[0, 2] - 0.5) < 6 * deviation), answers.likely([1]).round(1).tolist()
((2, 3), True, [0.5, 0.0, 0.5])
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Composed, Event
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.marginals import FeatureRows, HadamardMarginals
from tacit.local.postprocess import iterative_bayes
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Interval, Randomiser, Reports, Table, named
from tacit.local.response import Response
from tacit.local.vectors import ShareOfEpsilonWarning
from tacit.parameters import Number, count

Array = NDArray[np.float64]
MOST = 1 << 22  # counts of a collector
LIKELY = 1 << 10  # cells of a table that is fitted by likelihood


@named
@dataclass(frozen=True)
class WholeRows(Randomiser):
    """All features of a row, each by randomised response with epsilon / features; a report is a row of symbols.

    The collector counts the combinations of every set of `order` features.

    Guarantee
        Statement: for any two rows, the report costs `event`, and epsilon in all.
        Conditions: the replacement of one person's row; one report a person.
        Proved in: `distribution`, the product of the features' laws, compared in fractions by `tacit.mechanisms.verify`.

    >>> WholeRows(8, 1, (2, 3), 2).cells
    6
    """

    sizes: tuple[int, ...] = ()
    order: int = 2

    kind: ClassVar[str] = "whole-rows"
    answered_by: ClassVar[str] = "RowAnswers"
    block: ClassVar[int] = 1 << 18

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sizes", tuple(count("each of sizes", each, least=2) for each in self.sizes))
        object.__setattr__(self, "order", count("order", self.order))
        if self.size != FeatureRows(self.sizes).size or self.order > len(self.sizes):
            raise ParameterError("size must be that of rows of these sizes, and order at most the number of features")
        if max(self.sizes) > 1 << 16:
            raise ParameterError("a feature must have at most 65,536 values")
        if math.comb(len(self.sizes), self.order) > MOST or self.cells > MOST:
            raise ParameterError(f"more than {MOST:,} combinations would be counted; take a lower order")

    @cached_property
    def inner(self) -> tuple[Response, ...]:
        """The randomisers of the features."""
        return tuple(Response(each, Fraction(self.epsilon) / len(self.sizes)) for each in self.sizes)

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets of features whose combinations are counted."""
        return tuple(itertools.combinations(range(len(self.sizes)), self.order))

    @property
    def event(self) -> Event:
        return Composed(*(each.event for each in self.inner)) if len(self.inner) > 1 else self.inner[0].event

    @property
    def width(self) -> int:
        return sum(each.width for each in self.inner)

    @cached_property
    def cells(self) -> int:
        """How many combinations are counted."""
        return sum(math.prod(self.sizes[each] for each in features) for features in self.sets)

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of one cell of a marginal of `order` features at the most; `share` is not used."""
        worst = sorted((max(_squares(each)) for each in self.inner), reverse=True)[: self.order]
        return math.prod(worst) / count("n", n)

    def distribution(self, value: int, *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        own = self._symbols(np.array([value]))[0].tolist()
        laws = [each.distribution(symbol, bits=bits) for each, symbol in zip(self.inner, own, strict=True)]
        found = {}
        for outcome in itertools.product(*laws):
            ends = [law[symbol] for law, symbol in zip(laws, outcome, strict=True)]
            found[outcome] = (math.prod((low for low, _ in ends), start=Fraction(1)), math.prod((h for _, h in ends), start=Fraction(1)))
        return found

    def _symbols(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The features of places, a column each; a code that is no value of its feature counts as 0."""
        bits, found = FeatureRows(self.sizes).bits, np.empty((len(values), len(self.sizes)), dtype=np.int64)
        for feature, (width, size) in enumerate(zip(bits, self.sizes, strict=True)):
            symbol = values >> sum(bits[feature + 1 :]) & (2**width - 1)
            found[:, feature] = np.where(symbol < size, symbol, 0)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        symbols = self._symbols(values)
        return np.stack([each._drawn(symbols[:, k]).astype(np.int64) for k, each in enumerate(self.inner)], axis=1)

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.hstack([each.to_bytes(reports[:, k]) for k, each in enumerate(self.inner)])

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found, good = np.empty((len(rows), len(self.inner)), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        start = 0
        for k, each in enumerate(self.inner):
            symbols, whole = each.from_bytes(np.ascontiguousarray(rows[:, start : start + each.width]))
            found[:, k], start = np.where(whole, symbols, 0), start + each.width
            good &= whole
        return found, good

    def add(self, table: Table, reports: Reports) -> None:
        for first in range(0, len(reports), self.block):
            part, start = reports[first : first + self.block], 0
            for features in self.sets:
                sizes = [self.sizes[each] for each in features]
                cells = math.prod(sizes)
                where = np.ravel_multi_index(tuple(part[:, each] for each in features), sizes)
                table[start : start + cells] += np.bincount(where, minlength=cells)
                start += cells


def _squares(one: Response) -> tuple[float, float]:
    """The mean square of one report's estimate of a value, for those who hold it and those who do not."""
    p, q = one.held, one.other
    return p * (1 - p) / one.gap**2 + 1, q * (1 - q) / one.gap**2


def whole_rows(sizes: Sequence[int], *, order: int, epsilon: Number) -> Protocol:
    """A protocol by which each person reports a whole row, for marginals of up to `order` features; it warns of what splitting costs.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     whole_rows([2] * 4, order=2, epsilon=4).randomiser.width
    4
    """
    rows = FeatureRows(tuple(sizes))
    found = WholeRows(rows.size, epsilon, rows.sizes, order)
    cells = 2 ** sum(sorted(rows.bits)[-found.order :])  # of a marginal, each of cells - 1 coefficients
    by_people = HadamardMarginals(rows.size, epsilon, rows.bits, found.order).variance(1) * (cells - 1) / cells**2
    factor = math.sqrt(found.variance(1) / by_people)
    if factor > 1:
        warnings.warn(
            f"epsilon is split over {len(rows.sizes)} features: deviations are up to {factor:.3g} times those of marginal_shares",
            ShareOfEpsilonWarning, stacklevel=2,
        )  # fmt: skip
    return Protocol(rows, found)


@dataclass(frozen=True)
class RowAnswers:
    """Marginals of the rows of the n people who reported."""

    randomiser: WholeRows
    n: int
    table: Table

    @classmethod
    def of(cls, collector: Collector) -> RowAnswers:
        """The answers that a collector's reports tell."""
        randomiser = collector.protocol.randomiser
        if not isinstance(randomiser, WholeRows):
            raise ParameterError("the collector counts no reports of whole rows; make the protocol with `whole_rows`")
        if collector.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        return cls(randomiser, collector.n, collector.table.copy())

    def _reported(self, features: Sequence[int]) -> Array:
        """The shares of reported combinations of these features."""
        wanted = [count("each of features", each, least=0) for each in features]
        sizes = self.randomiser.sizes
        if len(set(wanted)) < len(wanted) or not wanted or max(wanted) >= len(sizes):
            raise ParameterError(f"features must be different numbers from 0 to {len(sizes) - 1}")
        if len(wanted) > self.randomiser.order:
            raise ParameterError("the marginal has more features than were asked for; make the protocol with a higher order")
        start = 0
        for each in self.randomiser.sets:
            shape = [sizes[feature] for feature in each]
            if set(wanted) <= set(each):
                counts = self.table[start : start + math.prod(shape)].reshape(shape)
                rest = tuple(k for k, feature in enumerate(each) if feature not in wanted)
                kept = [feature for feature in each if feature in wanted]
                return np.asarray(counts.sum(axis=rest).transpose([kept.index(feature) for feature in wanted]) / self.n)
            start += math.prod(shape)
        raise AssertionError("every small set of features is in one of the counted ones")

    def marginal(self, features: Sequence[int]) -> tuple[Array, float]:
        """The shares of all combinations of these features' values, unbiased, and the deviation of one, at the most."""
        found = self._reported(features)
        for axis, feature in enumerate(features):
            one = self.randomiser.inner[feature]
            found = (found - one.other * found.sum(axis=axis, keepdims=True)) / one.gap
        # the mean square of one report's estimate is linear in the true table, for which the likeliest one stands
        square = np.maximum(found, 0.0)
        square = square / max(float(square.sum()), 1e-300)
        for axis, feature in enumerate(features):
            held, other = _squares(self.randomiser.inner[feature])
            square = other * square.sum(axis=axis, keepdims=True) + (held - other) * square
        return found, math.sqrt(float(square.max()) / self.n)

    def likely(self, features: Sequence[int]) -> Array:
        """The shares under which the reports are most likely, by expectation and maximisation: not negative, adding up to 1, biased."""
        seen = self._reported(features)
        if seen.size > LIKELY:
            raise ParameterError(f"the table has more than {LIKELY:,} cells; take the raw shares")
        channel: Array = np.ones((1, 1))
        for feature in features:
            one = self.randomiser.inner[feature]
            channel = np.asarray(np.kron(channel, one.other + one.gap * np.eye(one.size)), dtype=np.float64)
        return iterative_bayes(seen.ravel() * self.n, channel).reshape(seen.shape)

    @cached_property
    def tree(self) -> tuple[tuple[int, int], ...]:
        """The pairs of features that tell most of each other and join all features: a tree, by the likely tables (Chow, Liu 1968)."""
        if self.randomiser.order < 2:
            raise ParameterError("pairs were not counted; make the protocol with order=2")
        told = {pair: _information(self.likely(pair)) for pair in itertools.combinations(range(len(self.randomiser.sizes)), 2)}
        joined, found = {0}, []
        while len(joined) < len(self.randomiser.sizes):
            one, two = max((p for p in told if (p[0] in joined) != (p[1] in joined)), key=lambda p: (told[p], (-p[0], -p[1])))
            known, new = (one, two) if one in joined else (two, one)
            found.append((known, new))
            joined.add(new)
        return tuple(found)

    def rows(self, number: int) -> NDArray[np.int64]:
        """So many made-up rows: the first feature by its likely shares, then along the tree. They cost nothing more.

        Features that are not joined in the tree depend on each other only through those between them.
        """
        found = np.zeros((count("number", number), len(self.randomiser.sizes)), dtype=np.int64)
        found[:, 0] = _chosen(np.tile(self.likely([0]), (len(found), 1)))
        for known, new in self.tree:
            table = self.likely([known, new])
            given = table.sum(axis=1, keepdims=True)
            rows = np.divide(table, given, out=np.full_like(table, 1 / table.shape[1]), where=given > 0)
            found[:, new] = _chosen(rows[found[:, known]])
        return found


def _information(table: Array) -> float:
    """The mutual information of two features with these joint shares.

    >>> round(_information(np.array([[0.5, 0.0], [0.0, 0.5]])) / math.log(2), 12), _information(np.full((2, 2), 0.25))
    (1.0, 0.0)
    """
    apart = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    seen = table > 0
    return float((table[seen] * np.log(table[seen] / apart[seen])).sum())


def _chosen(shares: Array) -> NDArray[np.int64]:
    """One value for each row of shares."""
    drawn = (noise.words(len(shares)) >> np.uint64(11)).astype(np.float64) / 2.0**53
    ends = np.cumsum(shares, axis=1)
    return np.asarray(np.minimum((drawn[:, None] * ends[:, -1:] >= ends).sum(axis=1), shares.shape[1] - 1), dtype=np.int64)
