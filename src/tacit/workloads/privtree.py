"""PrivTree: halve a box as long as it looks full, then count the boxes that are left.

Points in one or two columns are counted in a fine public grid. From the whole grid downwards, a box is halved along
every column if its count, less a little for each level and plus noise, is above 0; half of the price pays for all of these
decisions, however deep they go, and half for the noisy counts of the boxes at the end (Zhang, Xiao and Xie 2016).
Dense places get small boxes, empty ones large boxes. Cells of a box get equal shares of its count.

>>> from tacit.accounting import Guarantee
>>> from tacit.workloads.workload import Cells, Identity, Product
>>> plan = with_privtree(Product(x=Identity, y=Identity).on(Cells.of({"x": 64, "y": 64})), Guarantee(epsilon=1))
>>> plan.tree.scale, round(float(plan.tree.step), 2)
(Fraction(14, 3), 6.47)
>>> counts = np.zeros((64, 64), dtype=np.int64)
>>> counts[:4, :4] = 500
>>> record = plan.draw({("x", "y"): counts})
>>> dense = plan.boxes(record, [[0, 0]], [[4, 4]])
>>> abs(float(dense.values[0]) - 8000) < 200, len(record["leaves"]) < 2000
(True, True)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ZCDP, Adjacency, Composed, Event, Guarantee, PureDP
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.mechanisms import NoisySums
from tacit.parameters import count
from tacit.tables import Session
from tacit.workloads.adaptive import AdaptivePlan, Given, Record, planned
from tacit.workloads.intervals import half_widths
from tacit.workloads.joint_strategy import widened
from tacit.workloads.plan import TermAnswers
from tacit.workloads.strategy import CHUNK
from tacit.workloads.workload import Array, Wanted, Workload

#: Decisions are made on multiples of one over this many rows.
GRANULES = 256
#: The most cells of the grid.
LARGEST = 2**24
#: The least price of a row in the tree: below, the steps of its levels leave 64 bits.
LEAST_EPSILON = Fraction(1, 2**36)


@dataclass(frozen=True)
class Tree:
    """Which boxes are halved. A leaf is (level, place of the box along each column, in boxes of that level).

    Guarantee
        Statement: publishing the tree costs epsilon for a unit of `reach` rows, whatever its depth.
        Conditions: with beta = 2^columns and e = epsilon / reach, at most (2 beta - 1) / (beta - 1) ln(beta): a box at
        level l with c rows is halved iff max(c - l step, bar) + Laplace noise > 0, noise of scale
        (2 beta - 1) / ((beta - 1) e), step at least scale * ln(beta), bar at least -step.
        Proved in: Zhang, Xiao and Xie 2016, Theorem 3.1; here with the two roundings. A row raises c along one path. A leaf that
        it makes less likely loses at most 1 / scale. Boxes that it makes more likely to be halved: their c - l step falls by
        at least `step` a level, and the loss at x >= 0 is at most exp(-x / scale) / scale. One box at least lies
        above 0 before those sum to (1 + 1/beta + ...) / scale; below 0 at most one box moves by a whole row, and one
        that the bar holds moves by a < 1, which shifts the others up by as much: a + exp((1 - a) / scale) / (beta - 1)
        is at most 1 + 1 / (beta - 1) as long as exp(1 / scale) <= beta, the condition on e. Noise rounded to granules
        post-processes continuous noise with the threshold at half a granule. Several rows: one after the other.
        Correction: the printed algorithm (4.5.2) omits the bar. Without it every level of a deep path below 0 loses 1 / scale.
    """

    shape: tuple[int, ...]
    epsilon: Fraction
    reach: int = 1

    def __post_init__(self) -> None:
        if self.epsilon / self.reach < LEAST_EPSILON:
            raise ParameterError("the share of the price for the tree is too small to tell full boxes from empty ones; give more")

    @property
    def fan(self) -> int:
        """Into how many boxes a box is cut, at most."""
        return int(2 ** len(self.shape))

    @property
    def row(self) -> Fraction:
        """The epsilon of one row; a large one is used only up to where the proof holds."""
        most = Fraction(2 * self.fan - 1, self.fan - 1) * Fraction(math.floor(math.log(self.fan) * 10**6), 10**6)
        return min(self.epsilon / self.reach, most)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise, in rows."""
        return Fraction(2 * self.fan - 1, self.fan - 1) / self.row

    @property
    def step(self) -> Fraction:
        """What a level costs, in rows: at least scale * ln(fan), a multiple of a granule."""
        return Fraction(math.floor(float(self.scale) * math.log(self.fan) * GRANULES) + 1, GRANULES)

    @property
    def depth(self) -> int:
        """The levels until every box is one cell."""
        return max(math.ceil(math.log2(size)) for size in self.shape)

    def widths(self, level: int) -> tuple[int, ...]:
        """The cells of a box of this level along each column."""
        return tuple(max(1, 2 ** math.ceil(math.log2(size)) >> level) for size in self.shape)

    def pyramid(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The counts of the boxes of every level, from the whole to the cells."""
        padded = np.zeros(self.widths(0), dtype=np.int64)
        padded[tuple(slice(0, size) for size in self.shape)] = counts
        found = [padded]
        for level in range(self.depth - 1, -1, -1):
            table = found[-1]
            for axis, (wide, now) in enumerate(zip(self.widths(level), self.widths(level + 1), strict=True)):
                if wide > now:
                    halves = (*table.shape[:axis], table.shape[axis] // 2, 2, *table.shape[axis + 1 :])
                    table = table.reshape(halves).sum(axis=axis + 1)
            found.append(table)
        return found[::-1]

    def halved(self, counts: NDArray[np.int64], level: int) -> NDArray[np.bool_]:
        """The decisions for boxes of one level, from their counts."""
        step = int(self.step * GRANULES)
        # The bar stands one granule higher: noise on the lattice has its threshold at half a granule.
        biased = np.maximum(counts * GRANULES - level * step, 1 - step)
        noisy = NoisySums.of_scale("laplace", self.scale * GRANULES).add(biased)
        return np.asarray(noisy > 0, dtype=bool)

    def draw(self, counts: NDArray[np.int64]) -> list[list[int]]:
        """The leaves. The caller has paid."""
        tables = self.pyramid(counts)
        leaves: list[list[int]] = []
        boxes = np.zeros((1, len(self.shape)), dtype=np.int64)
        for level, table in enumerate(tables):
            cut = np.zeros(len(boxes), dtype=bool)
            if level < self.depth:
                cut = self.halved(table[tuple(boxes.T)], level)
            leaves += [[level, *box] for box in boxes[~cut].tolist()]
            boxes = self._children(boxes[cut], level)
            if not len(boxes):
                break
        return leaves

    def _children(self, boxes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """The parts of boxes that hold a cell of the grid: boxes beyond its end are empty in public."""
        if not len(boxes) or level == self.depth:
            return boxes[:0]
        wide, now = self.widths(level), self.widths(level + 1)
        steps = [range(w // n) for w, n in zip(wide, now, strict=True)]
        base = boxes * np.array([w // n for w, n in zip(wide, now, strict=True)])
        found = np.concatenate([base + np.array(offset) for offset in itertools.product(*steps)])
        inside = (found * np.array(now) < np.array(self.shape)).all(axis=1)
        return np.asarray(found[inside])

    def spans(self, leaves: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first cell of each leaf along each column, and the cell after its last within the grid."""
        table = np.array(leaves, dtype=np.int64)
        widths = np.array([self.widths(level) for level in range(self.depth + 1)])[table[:, 0]]
        low = table[:, 1:] * widths
        return low, np.minimum(low + widths, np.array(self.shape))


@dataclass(frozen=True)
class Counted:
    """Counts of boxes, and how far the noise in each may reach."""

    values: Array
    widths: Array


@dataclass(frozen=True, eq=False)
class PrivTree:
    """Questions about one or two columns, with the prices of the tree and of its leaves.

    Guarantee
        Statement: `draw` costs `event`: the tree, then Laplace noise on the counts of disjoint boxes.
        Conditions: a unit has at most `reach` rows.
        Proved in: composition; disjoint counts move by at most `reach` together.
    """

    workload: Workload
    tree: Tree
    leaf_epsilon: Fraction
    replaced: bool = False
    in_rho: bool = False
    confidence: float = 0.95

    @property
    def adjacency(self) -> Adjacency:
        """Which tables are neighbours."""
        return Adjacency.REPLACE_ONE if self.replaced else Adjacency.ADD_REMOVE

    @cached_property
    def leaf_noise(self) -> NoisySums:
        """The noise on the count of a leaf."""
        return NoisySums.of_multiplier("laplace", 1 / self.leaf_epsilon, moved=self.tree.reach, adjacency=self.adjacency)

    @property
    def event(self) -> Event:
        """Tree and leaves; known before the data is touched."""
        prices = (self.tree.epsilon, self.leaf_epsilon)
        if self.in_rho:
            return Composed(*(ZCDP(price**2 / 2, adjacency=self.adjacency) for price in prices))
        return Composed(*(PureDP(price, adjacency=self.adjacency) for price in prices))

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The one table of counts that is needed."""
        return [tuple(self.workload.cells.names)]

    def draw(self, counts: Mapping[tuple[str, ...], NDArray[Any]]) -> Record:
        """The leaves and their noisy counts. The caller has paid."""
        table = widened(counts[self.tables[0]], 1)
        leaves = self.tree.draw(table)
        pyramid = self.tree.pyramid(table)
        exact = np.array([pyramid[level][tuple(box)] for level, *box in leaves], dtype=np.int64)
        return {"leaves": leaves, "counts": [int(value) for value in self.leaf_noise.add(exact)]}

    def boxes(self, record: Record, low: Any, high: Any) -> Counted:
        """Counts of boxes between two corners, in cells (fractions of cells too); the interval is that of the noise alone."""
        first, last = self.tree.spans(record["leaves"])
        corners = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        noisy = np.array(record["counts"], dtype=np.float64)
        sums = [np.zeros(len(corners[0])) for _ in range(3)]
        for start in range(0, len(noisy), 4096):
            own = slice(start, start + 4096)
            inner = np.minimum(corners[1][:, None], last[own]) - np.maximum(corners[0][:, None], first[own])
            parts = (inner.clip(min=0.0) / (last[own] - first[own])).prod(axis=2)
            for total, power in zip(sums, (parts * noisy[own], parts**2, parts**4), strict=True):
                total += power.sum(axis=1)
        return Counted(sums[0], self._widths(sums[1], sums[2]))

    def _widths(self, squares: Array, fourths: Array) -> Array:
        return half_widths(squares, fourths, "laplace", self.confidence) * self.leaf_noise.spread()

    def answers(self, record: Record) -> list[TermAnswers]:
        """The figures of every term; intervals cover the noise, not the even spread within boxes."""
        names = list(self.workload.cells.names)
        first, last = self.tree.spans(record["leaves"])
        noisy = np.array(record["counts"], dtype=np.float64)
        found = []
        for term in self.workload.terms:
            factors = dict(self.workload.factors(term))
            sums = [np.zeros(tuple(factors[name].questions for name in names)) for _ in range(3)]
            for start in range(0, len(noisy), CHUNK):
                own = slice(start, start + CHUNK)
                parts = []
                for axis, name in enumerate(names):
                    place = np.arange(self.tree.shape[axis])[:, None]
                    inside = (place >= first[own, axis]) & (place < last[own, axis])
                    share: Array = np.divide(inside, last[own, axis] - first[own, axis])
                    parts.append(np.asarray(factors[name].answer(share, 0)))
                for total, power, weights in zip(sums, (1, 2, 4), (noisy[own], 1.0, 1.0), strict=True):
                    left = parts[0] ** power * weights
                    total += left.sum(axis=1) if len(parts) == 1 else left @ (parts[1] ** power).T
            order = [names.index(column) for column in term.columns]
            rest = [axis for axis in range(len(names)) if axis not in order]
            values, squares, fourths = (np.transpose(total, (*order, *rest)).reshape(term.shape) for total in sums)
            found.append(TermAnswers(self.workload.cells, term, values, self._widths(squares, fourths)))
        return found

    def describe(self) -> str:
        """In a few words, for reports."""
        return f"PrivTree: boxes of {' and '.join(self.workload.cells.names)} as small as they are full"


def with_privtree(
    workload: Workload, guarantee: Guarantee, *, reach: int = 1, replaced: bool = False, confidence: float = 0.95
) -> PrivTree:
    """PrivTree for questions about one or two columns. No data is touched.

    >>> from tacit.workloads.workload import AllRanges, Cells, Product
    >>> with_privtree(Product(age=AllRanges).on(Cells.of({"age": 100})), Guarantee(epsilon=2)).event
    Composed(PureDP(epsilon=Fraction(1, 1)), PureDP(epsilon=Fraction(1, 1)))
    """
    spend = guarantee.positive()
    narrow = workload.narrowed()
    if len(narrow.cells.names) > 2:
        raise ParameterError(f"PrivTree answers questions about one or two columns, and these are about {len(narrow.cells.names)}")
    if narrow.cells.total > LARGEST:
        raise ParameterError(f"PrivTree takes a grid of at most {LARGEST} cells, not {narrow.cells.total}; cut the columns into fewer")
    half = spend.share(Fraction(1, 2)).laplace_epsilon
    if half is None:
        raise ParameterError(f"a tree has no price in {spend}; give epsilon or rho")
    moved = count("reach", reach) * (2 if replaced else 1)
    return PrivTree(narrow, Tree(narrow.cells.shape, half, moved), half, replaced, spend.rho is not None, confidence)


def gridded(points: Any, bounds: Any, cells: int) -> NDArray[np.int64]:
    """Points, one row each, counted in a grid of so many cells along each column; those outside the bounds count nowhere.

    >>> gridded([[0.1], [0.9], [7.0]], [(0, 1)], 4).tolist()
    [1, 0, 0, 1]
    """
    table = np.asarray(points, dtype=np.float64)
    low, high = np.asarray(bounds, dtype=np.float64).T
    inside = ((table >= low) & (table <= high)).all(axis=1)
    places = ((table[inside] - low) / (high - low) * cells).astype(np.int64).clip(max=cells - 1)
    found = np.zeros((cells,) * len(low), dtype=np.int64)
    np.add.at(found, tuple(places.T), 1)
    return found


def plan_privtree(
    session: Session, wanted: Wanted, *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, cells: Given | None = None, rows: str | None = None,
    purpose: str = "",
) -> AdaptivePlan:  # fmt: skip
    """Plan questions about one or two columns of a session's table by PrivTree. Nothing is spent and no data is touched.

    `cells` and `rows` are those of `plan`. See `tacit.workloads.adaptive` for an example with DAWA.
    """

    def make(workload: Workload, spend: Guarantee, reach: int, replaced: bool, confidence: float) -> PrivTree:
        return with_privtree(workload, spend, reach=reach, replaced=replaced, confidence=confidence)

    return planned(
        session, wanted, make, guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, cells=cells, rows=rows, purpose=purpose
    )
