"""Ordered values: prefixes, ranges, quantiles and the distribution function from one report a person.

A tree splits people over its levels; each reports the node that holds the value. Answers are made consistent: the shares of children add
up to their parent's, weighted by their variances. Haar coefficients need one bit and a place a person and suit few people; a flat table of
frequencies suits short ranges. Grids answer rectangles with a tree on each side.

>>> from tacit.local import Collector, to_batch
>>> protocol = range_shares(64, epsilon=2)
>>> collector = Collector(protocol).ingest([to_batch(protocol, [10, 20, 30, 40] * 25_000)])
>>> answer = RangeAnswers.of(collector)
>>> abs(answer.range(15, 35) - 0.5) < 0.05, 15 <= answer.quantile(0.4) <= 25
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.errors import ParameterError
from tacit.local.choose import frequencies
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.grouped import GroupedRandomiser, oracle
from tacit.local.hadamard import walsh
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Interval, Randomiser, Reports, SymbolRandomiser, Table, local_report, named, shares
from tacit.parameters import Number, count, positive, probability

Array = NDArray[np.float64]


def _height(size: int, branching: int) -> int:
    height = 1
    while branching**height < size:
        height += 1
    return height


def _nodes(size: int, branching: int) -> list[int]:
    """How many nodes the levels below the root have."""
    height = _height(size, branching)
    return [-(-size // branching ** (height - level)) for level in range(1, height + 1)]


@named
@dataclass(frozen=True)
class RangeTree(GroupedRandomiser):
    """The node of a random level of a tree over 0 .. size - 1 that holds the value, by a randomiser for frequencies."""

    branching: int = 4
    inner: str = "auto"

    kind: ClassVar[str] = "range-tree"
    answered_by: ClassVar[str] = "RangeAnswers"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "branching", count("branching", self.branching, least=2))
        _ = self.parts

    def _parts(self) -> list[Randomiser]:
        return [oracle(max(2, nodes), self.epsilon, self.inner) for nodes in _nodes(self.size, self.branching)]

    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(values // self.branching ** (len(self.parts) - 1 - group))


@named
@dataclass(frozen=True)
class Haar(SymbolRandomiser):
    """One randomised bit of a random level's Haar coefficients, seen through a random Hadamard function (Cormode et al. 2019).

    On a level of 2^l nodes the value's coefficients are 0 but for its node's: 1 in the left half, -1 in the right.
    """

    kind: ClassVar[str] = "haar"
    answered_by: ClassVar[str] = "RangeAnswers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height > 24:
            raise ParameterError("size must be at most 2^24 for Haar coefficients")

    @property
    def height(self) -> int:
        """How many levels there are; the size is rounded up to a power of two."""
        return (self.size - 1).bit_length()

    @property
    def symbols(self) -> int:
        return int(2 * (2**self.height - 1))

    @property
    def cells(self) -> int:
        return self.symbols // 2

    @property
    def scale(self) -> float:
        """(e^epsilon + 1) / (e^epsilon - 1)."""
        return 1 / math.tanh(float(self.epsilon) / 2)

    @property
    def event(self) -> LocalReport:
        # two values' bits differ always on the level where they part, and in half of all functions below it
        differ = (self.height + 1) / (2 * self.height)
        return local_report(self.epsilon, 2 / (self.odds + 1), differ / 2, (1 - differ) / 2)

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of one coefficient, at the most; `share` is not used."""
        return self.height * self.scale**2 / count("n", n)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        true, false = shares(self.epsilon, 1, 1, bits)
        found = {}
        for level in range(self.height):
            node, right = divmod(value >> (self.height - 1 - level), 2)
            for function in range(2**level):
                bit = ((function & node).bit_count() + right) & 1
                for said in (0, 1):
                    low, high = true if said == bit else false
                    part = self.height * 2**level
                    found[2 * (2**level - 1 + function) + said] = (low / part, high / part)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        level = noise.uniform_integers(self.height, len(values))
        # the leading bits of a number below 2^height are uniform too
        function = noise.uniform_integers(2**self.height, len(values)) >> (self.height - level)
        half = values >> (self.height - 1 - level)
        bit = np.bitwise_count(function & (half >> 1)) + (half & 1)
        lie = ~noise.odds_bits(self.epsilon, len(values))
        return self._short(2 * ((1 << level) - 1 + function) + (bit + lie) % 2)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            both = np.bincount(reports[start : start + self.block].astype(np.intp), minlength=self.symbols)
            table += both[0::2] - both[1::2]

    def coefficients(self, table: Table, n: int) -> list[Array]:
        """The unbiased coefficients of each level: what the left half of a node holds more than the right, in shares."""
        factor = self.height * self.scale / n
        levels = [table[2**level - 1 : 2 ** (level + 1) - 1] for level in range(self.height)]
        return [walsh(each).astype(np.float64) * factor for each in levels]


def range_shares(size: int, *, epsilon: Number, method: str = "tree", branching: int = 4, inner: str = "auto") -> Protocol:
    """A protocol for ranges of the whole numbers 0 .. size - 1, by a "tree", by "haar" coefficients or by a "flat" table.

    >>> range_shares(256, epsilon=1, method="haar").randomiser.width
    2
    """
    size, _ = count("size", size, least=2), positive("epsilon", epsilon)
    if method == "flat":
        return frequencies(size, epsilon=epsilon, kind=inner)
    if method not in ("tree", "haar"):
        raise ParameterError(f"method must be tree, haar or flat, not {method!r}")
    return Protocol(size, RangeTree(size, epsilon, branching, inner) if method == "tree" else Haar(size, epsilon))


# --- answers ---


def consistent(levels: list[Array], variances: list[Array], branching: int) -> list[Array]:
    """The estimates with the least variance among those in which children add up to their parent, and the first level to 1.

    Exact for independent errors: from the leaves up each node is weighed against its children, from the root down what children lack
    or have too much is shared among them by their variances (Hay et al. 2010, for any variances).

    >>> found = consistent([np.array([0.6, 0.6]), np.array([0.2, 0.2, 0.5, 0.1])], [np.ones(2), np.ones(4)], 2)
    >>> [round(float(x), 3) for x in found[0]]
    [0.467, 0.533]
    """
    weighed, spread = [levels[-1]], [variances[-1]]
    for own, variance in zip(levels[-2::-1], variances[-2::-1], strict=True):
        starts = np.arange(0, len(weighed[0]), branching)
        below, rough = np.add.reduceat(weighed[0], starts), np.add.reduceat(spread[0], starts)
        weight = np.divide(rough, rough + variance, out=np.full(len(own), 0.5), where=rough + variance > 0)
        weighed.insert(0, weight * own + (1 - weight) * below)
        spread.insert(0, (1 - weight) * rough)
    found, parents = [], np.ones(1)
    for level, (own, variance) in enumerate(zip(weighed, spread, strict=True)):
        parent = np.arange(len(own)) // branching if level else np.zeros(len(own), dtype=np.int64)
        lacking = parents - np.bincount(parent, weights=own, minlength=len(parents))
        total = np.bincount(parent, weights=variance, minlength=len(parents))
        even = np.bincount(parent, minlength=len(parents))
        part = np.where(total[parent] > 0, variance / np.where(total > 0, total, 1)[parent], 1 / even[parent])
        parents = own + part * lacking[parent]
        found.append(parents)
    return found


@dataclass(frozen=True)
class RangeAnswers:
    """Shares of all prefixes of 0 .. size - 1 among the n people who reported, with deviations at the most.

    `prefixes[x]` is the share below x, for x from 0 to size; nothing is cut off at 0 or 1. `raw` are the unbiased ones before anything
    was made consistent.
    """

    size: int
    n: int
    prefixes: Array
    deviations: Array
    raw: Array

    @classmethod
    def of(cls, collector: Collector, *, consistency: bool = True) -> RangeAnswers:
        """The answers that a collector's reports tell: a tree's, Haar coefficients' or a flat table's."""
        randomiser, n = collector.protocol.randomiser, collector.n
        if n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        if isinstance(randomiser, Haar):
            return cls._haar(randomiser, collector.table, n)
        if isinstance(randomiser, RangeTree):
            nodes = _nodes(randomiser.size, randomiser.branching)
            found = [(each[:k], wide[:k]) for (_, each, wide), k in zip(randomiser.shares(collector.table), nodes, strict=True)]
            levels, variances = [each for each, _ in found], [wide for _, wide in found]
            return cls.from_levels(levels, variances, randomiser.branching, n, consistency=consistency)
        if randomiser.answered_by != "Estimates":
            raise ParameterError("the collector counts no reports of ordered values; make the protocol with `range_shares`")
        estimates = collector.estimate()
        raw = np.concatenate([[0.0], np.cumsum(estimates.share)])
        fixed = raw.copy()
        if consistency:  # all shares together are 1: what is lacking is shared alike
            fixed += (1 - raw[-1]) * np.arange(len(raw)) / (len(raw) - 1)
        return cls(len(raw) - 1, n, fixed, np.sqrt(np.concatenate([[0.0], np.cumsum(estimates.deviation**2)])), raw)

    @classmethod
    def from_levels(
        cls, levels: list[Array], variances: list[Array], branching: int, n: int, *, consistency: bool = True
    ) -> RangeAnswers:
        """The answers from the shares of the nodes of each level below the root and their variances."""
        size, height = len(levels[-1]), len(levels)
        ends = np.arange(size + 1)
        raw, spread = np.zeros(size + 1), np.zeros(size + 1)
        for level, (own, variance) in enumerate(zip(levels, variances, strict=True)):
            # on each level, the nodes from the parent's first child to the one that the prefix ends in
            last = ends // branching ** (height - 1 - level)
            first = last // branching * branching if level else np.zeros(size + 1, dtype=np.int64)
            for total, each in ((raw, own), (spread, variance)):
                sums = np.concatenate([[0.0], np.cumsum(each)])
                total += sums[last] - sums[first]
        fixed = raw
        if consistency:
            fixed = np.concatenate([[0.0], np.cumsum(consistent(levels, variances, branching)[-1])])
        return cls(size, n, fixed, np.sqrt(spread), raw)

    @classmethod
    def _haar(cls, randomiser: Haar, table: Table, n: int) -> RangeAnswers:
        size, whole = randomiser.size, 2**randomiser.height
        ends = np.arange(whole + 1)
        found, squares = ends / whole, np.zeros(whole + 1)
        for level, own in enumerate(randomiser.coefficients(table, n)):
            block = whole >> level
            node, within = ends // block, ends % block
            weight = np.minimum(within, block - within) / block
            found += weight * own[np.minimum(node, len(own) - 1)]
            squares += weight**2
        deviations = np.sqrt(squares * randomiser.variance(n))
        return cls(size, n, found[: size + 1], deviations[: size + 1], found[: size + 1])

    @staticmethod
    def expected_deviation(protocol: Protocol, n: int) -> float:
        """The largest deviation of a prefix that n people's reports will have, before consistency lowers it."""
        randomiser = protocol.randomiser
        if isinstance(randomiser, Haar):
            return math.sqrt(randomiser.height * randomiser.variance(n)) / 2
        if isinstance(randomiser, RangeTree):
            groups = len(randomiser.parts)
            worst = [min(randomiser.branching - 1, part.size) * part.variance(1) for part in randomiser.parts]
            return math.sqrt(sum(worst) * groups / n)
        return math.sqrt(randomiser.size * randomiser.variance(n))

    def prefix(self, x: int) -> float:
        """The share of values below x."""
        return float(self.prefixes[self._end("x", x)])

    def range(self, start: int, stop: int) -> float:
        """The share of values from `start` on and below `stop`."""
        low, high = self._end("start", start), self._end("stop", stop)
        if low > high:
            raise ParameterError("start must not be beyond stop")
        return float(self.prefixes[high] - self.prefixes[low])

    def range_deviation(self, start: int, stop: int) -> float:
        """The deviation of a range, at the most: that of its two prefixes together."""
        return float(np.hypot(self.deviations[self._end("start", start)], self.deviations[self._end("stop", stop)]))

    def cdf(self) -> Array:
        """The distribution function: the share of values up to and including each one, made to rise from 0 to 1."""
        return np.asarray(np.maximum.accumulate(np.clip(self.prefixes[1:], 0.0, 1.0)))

    def quantile(self, share: Number) -> int:
        """The least value with at least this share of people up to it."""
        wanted = float(probability("share", share))
        return min(int(np.searchsorted(self.cdf(), wanted, side="left")), self.size - 1)

    def _end(self, name: str, x: int) -> int:
        if not 0 <= count(name, x, least=0) <= self.size:
            raise ParameterError(f"{name} must be from 0 to {self.size}")
        return int(x)


# --- two dimensions ---


@domain
@dataclass(frozen=True)
class GridCells(Domain):
    """Pairs of whole numbers, below `rows` and below `columns`; what is no such pair counts as (0, 0)."""

    rows: int
    columns: int

    kind: ClassVar[str] = "grid-cells"

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            object.__setattr__(self, name, count(name, getattr(self, name), least=2))

    @property
    def size(self) -> int:
        return self.rows * self.columns

    def place(self, value: object) -> int:
        pair = value.tolist() if isinstance(value, np.ndarray) else value
        row, column = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (-1, -1)
        whole = all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in (row, column))
        return int(row) * self.columns + int(column) if whole and 0 <= row < self.rows and 0 <= column < self.columns else 0

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "iu" and values.shape[1] == 2:
            row, column = values[:, 0], values[:, 1]
            inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
            return np.where(inside, row * self.columns + column, 0).astype(np.int64)
        return super().places(values)


@named
@dataclass(frozen=True)
class GridTree(GroupedRandomiser):
    """The pair of nodes, of a random level of the rows' tree and one of the columns', that holds a place of a grid."""

    columns: int = 2
    branching: int = 4
    inner: str = "auto"

    kind: ClassVar[str] = "grid-tree"
    answered_by: ClassVar[str] = "GridAnswers"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("columns", "branching"):
            object.__setattr__(self, name, count(name, getattr(self, name), least=2))
        if self.size % self.columns or self.size == self.columns:
            raise ParameterError("size must be at least two rows of columns")
        _ = self.parts

    @property
    def _levels(self) -> tuple[list[int], list[int]]:
        return _nodes(self.size // self.columns, self.branching), _nodes(self.columns, self.branching)

    def _parts(self) -> list[Randomiser]:
        down, across = self._levels
        return [oracle(max(2, a * b), self.epsilon, self.inner) for a in down for b in across]

    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        down, across = self._levels
        one, two = divmod(group, len(across))
        row = values // self.columns // self.branching ** (len(down) - 1 - one)
        column = values % self.columns // self.branching ** (len(across) - 1 - two)
        return np.asarray(row * across[two] + column)


def grids(rows: int, columns: int, *, epsilon: Number, branching: int = 4, inner: str = "auto") -> Protocol:
    """A protocol for rectangles of a grid, a tree on each side.

    >>> grids(16, 16, epsilon=1).randomiser.variance(10**6) > 0
    True
    """
    cells = GridCells(rows, columns)
    return Protocol(cells, GridTree(cells.size, epsilon, cells.columns, branching, inner))


@dataclass(frozen=True)
class GridAnswers:
    """Shares of rectangles of a grid among the n people who reported; `levels[i][j]` holds the shares of pairs of nodes, unbiased."""

    rows: int
    columns: int
    n: int
    branching: int
    levels: tuple[tuple[Array, ...], ...]
    variances: tuple[tuple[Array, ...], ...]

    @classmethod
    def of(cls, collector: Collector) -> GridAnswers:
        """The answers that a collector's reports tell."""
        randomiser = collector.protocol.randomiser
        if not isinstance(randomiser, GridTree):
            raise ParameterError("the collector counts no reports of a grid; make the protocol with `grids`")
        down, across = randomiser._levels
        found = iter(randomiser.shares(collector.table))
        levels, variances = [], []
        for a in down:
            both = [(share[: a * b].reshape(a, b), wide[: a * b].reshape(a, b)) for b in across for _, share, wide in [next(found)]]
            levels.append(tuple(share for share, _ in both))
            variances.append(tuple(wide for _, wide in both))
        size = randomiser.size // randomiser.columns
        return cls(size, randomiser.columns, collector.n, randomiser.branching, tuple(levels), tuple(variances))

    def rectangle(self, rows: tuple[int, int], columns: tuple[int, int]) -> tuple[float, float]:
        """The share of values with start <= row < stop, and columns likewise, and its deviation."""
        down, across = self._cover(rows, self.rows, "rows"), self._cover(columns, self.columns, "columns")
        share = spread = 0.0
        for i, first, last in down:
            for j, left, right in across:
                share += float(self.levels[i][j][first:last, left:right].sum())
                spread += float(self.variances[i][j][first:last, left:right].sum())
        return share, math.sqrt(spread)

    def _cover(self, given: tuple[int, int], size: int, name: str) -> list[tuple[int, int, int]]:
        """The fewest runs of nodes, as level and half-open run, that make up an interval."""
        start, stop = given
        if not 0 <= count(name, start, least=0) <= count(name, stop, least=0) <= size:
            raise ParameterError(f"{name} must be a start and a stop from 0 to {size}")
        height, found = _height(size, self.branching), []
        for level in range(height - 1, -1, -1):
            if level == 0:
                found.append((0, start, stop))
                break
            up, down = -(-start // self.branching), stop // self.branching
            if stop == -(-size // self.branching ** (height - 1 - level)):
                down = -(-stop // self.branching)  # the last node may have fewer children
            if up >= down:
                found.append((level, start, stop))
                break
            found += [(level, start, up * self.branching), (level, down * self.branching, stop)]
            start, stop = up, down
        return [(level, first, last) for level, first, last in found if first < last]
