"""DAWA: find where neighbouring cells are alike, then measure one count for each stretch of them.

Three tenths of the price cut a column's cells into buckets with nearly equal counts; the rest measures the buckets
with the best strategy for the questions (Li, Hay, Miklau and Wang 2014). On sparse or smooth histograms at small
epsilon this halves the error of the best strategy that does not look at the data; on rough ones it loses what the
cutting cost. Cells of a bucket get equal shares of its count, a bias that intervals leave out.

Buckets are found by halving what bends (`tacit.workloads.flat_tree`), or as in the paper, by least total cost
(`search="cheapest"`), which is worse on every kind of histogram that was tried and stays for comparison.

>>> from tacit.accounting import Guarantee
>>> from tacit.workloads.workload import AllRanges, Cells, Product
>>> plan = with_dawa(Product(age=AllRanges).on(Cells.of({"age": 64})), Guarantee(epsilon=1))
>>> plan.event.events[0]
PureDP(epsilon=Fraction(3, 10))
>>> counts = np.repeat([0, 1000, 0, 0], 16)
>>> record = plan.draw({("age",): counts})
>>> all(edge in record["edges"] for edge in (0, 16, 32, 64)), len(record["edges"]) < 40
(True, True)
>>> [own.values.shape for own in plan.answers(record)]
[(2080,)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ZCDP, Adjacency, Composed, Event, Guarantee, PureDP
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.mechanisms import Law, NoisySums
from tacit.noise import geometric
from tacit.parameters import count
from tacit.tables import Session
from tacit.workloads.adaptive import AdaptivePlan, Given, Record, planned
from tacit.workloads.flat_tree import FlatTree, from_flat
from tacit.workloads.intervals import half_widths
from tacit.workloads.joint_strategy import JointStrategy, OneProduct, widened
from tacit.workloads.optimal import search as searched
from tacit.workloads.optimal import weighted_tree
from tacit.workloads.plan import Measured, TermAnswers, measured, written
from tacit.workloads.strategy import Levels, Need, Strategy, identity, squared_error
from tacit.workloads.workload import LONGEST, AllRanges, Array, Cells, Factor, Term, Wanted, Workload

#: The part of the price that finds buckets by halving; the rest measures them.
HALVING = Fraction(3, 10)
#: Parts of the price for the number of rows and for the partition of least cost; the rest measures the buckets.
ROWS, PARTITION = Fraction(1, 100), Fraction(1, 4)
Search = Literal["halving", "cheapest"]
#: More buckets than this get weighted trees; fewer get the full search for a strategy.
SEARCHED = 96
#: The least price of the partition: below, its noise exceeds every count.
LEAST_EPSILON = Fraction(1, 2**36)


# --- the partition ---


@dataclass(frozen=True)
class Partition:
    """The least noisy cost: each bucket costs its distance from flat, minus geometric noise, plus a public penalty.

    The distance of a bucket from flat is min over c of sum |x_i - c|, a whole number. Candidates are the intervals of
    2^j cells that start at multiples of 2^(j-1), cut off at the end of the column.

    Guarantee
        Statement: one row more or less changes the probability of every partition by a factor of at most exp(epsilon / k),
        k = `reach`; so a unit of `reach` rows costs epsilon.
        Conditions: every interval, also a single cell, has fresh geometric noise of scale 2 reach / epsilon; penalties are public;
        ties go to the partition whose last bucket is shortest, then its last but one, and so on; only the partition is published.
        Proved here: a row in cell i moves the distance of an interval by at most 1, and only of those that hold i, since the
        distance is a minimum of functions that a row moves by 1. Let b be the bucket of a partition P that holds i, and
        fix all noise but that of b. P and partitions with b in common differ by an amount that neither the row nor the noise
        of b touches. All others move by at most 1 against P's own move of at most 1. So P is chosen iff the noise of b
        is at least some t, which a row moves by at most 2, and P(noise >= t) = exp(-max(t, 0) / scale).
        Several rows: one after the other.
        Correction: noise may be left out for no interval, not even for single cells, whose distance is 0 whatever the data. Else
        nothing stands against the moves of all longer intervals at once: with Laplace noise the loss of three cells is
        3/2 epsilon and grows with the number of intervals, with one-sided noise it has no bound.
    """

    size: int
    epsilon: Fraction
    reach: int = 1

    def __post_init__(self) -> None:
        if self.epsilon < LEAST_EPSILON:
            raise ParameterError("the share of the price for the partition is too small to tell any two cells apart; give more")

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on each cost, in rows."""
        return 2 * self.reach / self.epsilon

    @cached_property
    def intervals(self) -> list[tuple[int, int, int]]:
        """The candidates: level, first cell, and the cell after the last; shorter levels first.

        >>> Partition(3, Fraction(1)).intervals
        [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 0, 2), (1, 1, 3), (2, 0, 3)]
        """
        found = [(0, start, start + 1) for start in range(self.size)]
        level = 1
        while 2 ** (level - 1) < self.size:
            width = 2**level
            starts = range(0, max(1, self.size - width // 2), width // 2)
            found += [(level, start, min(start + width, self.size)) for start in starts]
            level += 1
        return found

    def distances(self, counts: NDArray[np.int64]) -> list[int]:
        """How far each candidate is from flat: the sum of distances from the median."""
        found: list[int] = []
        by_level: dict[int, list[tuple[int, int]]] = {}
        for level, start, end in self.intervals:
            by_level.setdefault(level, []).append((start, end))
        for level, spans in by_level.items():
            full = [start for start, end in spans if end - start == 2**level]
            if full:
                rows = counts[np.array(full)[:, None] + np.arange(2**level)]
                found += from_flat(rows).tolist()
            found += [int(from_flat(counts[None, start:end])[0]) for start, end in spans[len(full) :]]
        return found

    def penalties(self, rows: float) -> list[int]:
        """The public penalty of each candidate, in rows.

        Joining two buckets into one of L cells may cost up to theta(L) = scale * clip((N / L)^0.3, 1, most), and
        `most` falls from 3.3 to 2.3 as rows * epsilon grows from 2e3 to 2e5. A long bucket bends more ranges than a short
        one, so it must be flatter. Fixed on the columns of one half of a collection (benchmarks/bench_dawa.py).
        """
        strength = max(1.0, rows * float(self.epsilon / PARTITION) / self.reach)
        most = min(3.0, max(2.0, 3 - 0.5 * math.log10(strength / 2000))) + 0.3
        saved = [0.0]
        for level in range(1, self.intervals[-1][0] + 1):
            wide = min(most, max(1.0, (self.size / 2**level) ** 0.3))
            saved.append(2 * saved[-1] - float(self.scale) * wide)
        return [round(saved[level]) for level, _, _ in self.intervals]

    def draw(self, counts: NDArray[np.int64], rows: float) -> list[int]:
        """The edges of the chosen buckets, from 0 to the number of cells. The caller has paid."""
        noise = geometric(self.scale, size=len(self.intervals)).tolist()
        costs = zip(self.distances(counts), noise, self.penalties(rows), strict=True)
        return self.cheapest([distance - drawn + penalty for distance, drawn, penalty in costs])

    def cheapest(self, costs: list[int]) -> list[int]:
        """The edges of the partition of least total cost, exactly, in whole numbers of any length.

        >>> Partition(3, Fraction(1)).cheapest([1, 1, 1, 3, 1, 3])
        [0, 1, 3]
        """
        ending: list[list[tuple[int, int]]] = [[] for _ in range(self.size + 1)]
        for (_, start, end), cost in zip(self.intervals, costs, strict=True):
            ending[end].append((start, cost))
        best, before = [0], [0]
        for own in ending[1:]:
            # min keeps the first of equals, and shorter intervals stand first
            start, cost = min(own, key=lambda pair: best[pair[0]] + pair[1])
            best.append(best[start] + cost)
            before.append(start)
        edges = [self.size]
        while edges[-1]:
            edges.append(before[edges[-1]])
        return edges[::-1]


# --- the buckets ---


@dataclass(frozen=True)
class Bucketed(Factor):
    """Questions about cells, asked of buckets of them: every cell of a bucket holds an equal share.

    >>> from tacit.workloads.workload import Prefix
    >>> Bucketed.of(Prefix(4), (0, 1, 4)).matrix().round(3).tolist()
    [[1.0, 0.0], [1.0, 0.333], [1.0, 0.667], [1.0, 1.0]]
    """

    inner: Factor | None = None
    edges: tuple[int, ...] = ()

    @staticmethod
    def of(inner: Factor, edges: tuple[int, ...]) -> Bucketed:
        """The questions on the buckets between these edges."""
        return Bucketed(len(edges) - 1, inner, edges)

    @property
    def asked(self) -> Factor:
        """The questions about cells."""
        assert self.inner is not None
        return self.inner

    @property
    def questions(self) -> int:
        return self.asked.questions

    def expanded(self, counts: NDArray[Any], axis: int) -> Array:
        """The counts of buckets on their cells, in equal shares."""
        widths = np.diff(self.edges)
        shape = [1] * counts.ndim
        shape[axis] = -1
        return np.repeat(counts / widths.reshape(shape), widths, axis=axis)

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        return self.asked.answer(self.expanded(counts, axis), axis)

    @cached_property
    def _gram(self) -> Array:
        starts, widths = np.array(self.edges[:-1]), np.diff(self.edges)
        if isinstance(self.asked, AllRanges):  # the Gram matrix over cells is (least + 1)(N - most)
            first = np.arange(1, self.asked.size + 1, dtype=np.float64)
            last = first[::-1]
            before = np.repeat((np.cumsum(first) - first)[starts], widths)
            within = last * (2 * (np.cumsum(first) - first - before) + first)
            found = np.triu(np.outer(np.add.reduceat(first, starts), np.add.reduceat(last, starts)), 1)
            sums = found + found.T + np.diag(np.add.reduceat(within, starts))
            return np.asarray(sums / np.outer(widths, widths))
        sums = np.add.reduceat(np.add.reduceat(self.asked.gram(), starts, axis=0), starts, axis=1)
        return np.asarray(sums / np.outer(widths, widths))

    def gram(self) -> Array:
        return self._gram

    def heaped(self, block: int) -> float:
        starts = np.arange(0, self.size, block)
        return float(sum(self._gram[start : start + block, start : start + block].sum() for start in starts))

    def spread(self, covariance: Array) -> Array:
        return self.asked.spread(self.expanded(self.expanded(covariance, 0), 1))


def on_buckets(workload: Workload, edges: tuple[int, ...]) -> Workload:
    """The same questions about buckets of the one column."""
    (column,) = workload.cells.names
    terms = []
    for term in workload.terms:
        (_, factor), *_ = workload.factors(term)
        terms.append(Term(((column, Bucketed.of(factor, edges)),), term.weight))
    return Workload(Cells.of({column: len(edges) - 1}), tuple(terms))


def for_buckets(workload: Workload, law: Law) -> JointStrategy:
    """The strategy of least computed error for few buckets; the best weighted tree for many."""
    (column,) = workload.cells.names
    need = Need(tuple((term.weight, term.factors[0][1]) for term in workload.terms))
    size = need.size
    if size <= SEARCHED:
        return OneProduct((column,), (searched(need, law),))
    tried: list[Strategy] = [identity(size), *(weighted_tree(need, law, b, starts=6) for b in (2, 4, 16))]
    return OneProduct((column,), (min(tried, key=lambda one: squared_error(one, need, law)),))


def covariance(strategy: Strategy) -> Array:
    """The covariance of the estimates for noise of deviation 1 at weight 1."""
    whole = replace(strategy, size=strategy.padded) if isinstance(strategy, Levels) else strategy
    return whole.solve(np.eye(whole.size), 0)[: strategy.size, : strategy.size]


# --- both together ---


@dataclass(frozen=True, eq=False)
class Dawa:
    """Questions about one column, with prices of the number of rows, the partition and the buckets.

    Guarantee
        Statement: `draw` costs `event`: what the number of rows (if it is bought), the partition and the measured buckets cost together.
        Conditions: the buckets are measured within `spend`'s last part, whatever the partition (`measured` checks it).
        Proved in: composition of mechanisms each of which may depend on what earlier ones published.
    """

    workload: Workload
    rows: Fraction | int  # the epsilon that buys the number of rows; or that number, if it is public
    public: bool
    partition: Partition | FlatTree
    spend: Guarantee
    replaced: bool = False
    law: Law | None = None
    confidence: float = 0.95

    @property
    def adjacency(self) -> Adjacency:
        """Which tables are neighbours."""
        return Adjacency.REPLACE_ONE if self.replaced else Adjacency.ADD_REMOVE

    @property
    def event(self) -> Event:
        """Rows, partition, buckets; known before the data is touched."""
        parts = [self._stated(self.partition.epsilon), self.spend.as_event(self.adjacency)]
        if not self.public:
            parts.insert(0, self._stated(Fraction(self.rows)))
        return Composed(*parts)

    def _stated(self, epsilon: Fraction) -> Event:
        """A pure part in the currency of the price: rho = epsilon^2 / 2 (Bun, Steinke 2016, 1.4)."""
        if self.spend.rho is not None:
            return ZCDP(epsilon**2 / 2, adjacency=self.adjacency)
        return PureDP(epsilon, adjacency=self.adjacency)

    @property
    def column(self) -> str:
        """The column that all questions are about."""
        return next(iter(self.workload.cells.names))

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The one table of counts that is needed."""
        return [(self.column,)]

    def buckets(self, edges: tuple[int, ...]) -> Measured:
        """What is measured on a partition. No data is touched."""
        reach = self.partition.reach // (2 if self.replaced else 1)
        return measured(
            on_buckets(self.workload, edges), self.spend, reach=reach, replaced=self.replaced, law=self.law,
            confidence=self.confidence, select=for_buckets,
        )  # fmt: skip

    def draw(self, counts: Mapping[tuple[str, ...], NDArray[Any]]) -> Record:
        """The edges of the buckets and the noisy sums over them. The caller has paid."""
        table = widened(counts[(self.column,)], 1)
        rows = int(self.rows)
        if not self.public:
            rows = NoisySums.of_multiplier("laplace", 1 / Fraction(self.rows), moved=self.partition.reach).add(int(table.sum()))
        found = self.partition
        edges = sorted(found.edges(table)) if isinstance(found, FlatTree) else found.draw(table, float(rows))
        plan = self.buckets(tuple(edges))
        released = plan.draw({(self.column,): np.add.reduceat(table, edges[:-1])})
        return {"rows": rows, "edges": edges, "sums": [written(block) for block in released]}

    def answers(self, record: Record) -> list[TermAnswers]:
        """The figures of every term; intervals cover the noise, not the flattening within buckets."""
        plan = self.buckets(tuple(record["edges"]))
        assert isinstance(plan.selection, OneProduct)
        (strategy,) = plan.selection.strategies
        released = [np.array(values, dtype=np.float64) for values in record["sums"]]
        found = strategy.solve(strategy.gather(released, 0), 0)
        spread = covariance(strategy)
        figures = []
        for term, coarse in zip(self.workload.terms, plan.workload.terms, strict=True):
            factor = coarse.factors[0][1]
            assert isinstance(factor, Bucketed)
            values = np.asarray(factor.answer(found, 0), dtype=np.float64).reshape(term.shape)
            widths = half_widths(factor.spread(spread), None, plan.law, self.confidence) * plan.scale
            figures.append(TermAnswers(self.workload.cells, term, values, widths.reshape(term.shape)))
        return figures

    def cells(self, record: Record) -> Array:
        """The estimated count of every cell."""
        plan = self.buckets(tuple(record["edges"]))
        assert isinstance(plan.selection, OneProduct)
        (strategy,) = plan.selection.strategies
        released = [np.array(values, dtype=np.float64) for values in record["sums"]]
        widths = np.diff(record["edges"])
        return np.repeat(strategy.solve(strategy.gather(released, 0), 0) / widths, widths)

    def describe(self) -> str:
        """In a few words, for reports."""
        return f"DAWA: buckets of alike cells of {self.column}, then sums over buckets"


def with_dawa(
    workload: Workload, guarantee: Guarantee, *, reach: int = 1, replaced: bool = False, law: Law | None = None,
    confidence: float = 0.95, search: Search = "halving", expected_rows: int | None = None,
) -> Dawa:  # fmt: skip
    """DAWA for questions about one column of at most 4,096 cells. No data is touched.

    A partition of least cost needs to know about how many rows there are: `expected_rows`, where that is public; otherwise a
    hundredth of the price buys it. Halving does not ask.

    >>> from tacit.workloads.workload import Cells, Prefix, Product
    >>> with_dawa(Product(age=Prefix).on(Cells.of({"age": 100})), Guarantee(rho="0.1")).event.events[1]
    ZCDP(rho=Fraction(7, 100))
    """
    if search not in ("halving", "cheapest"):
        raise ParameterError(f"search must be 'halving' or 'cheapest', not {search!r}")
    spend = guarantee.positive()
    narrow = workload.narrowed()
    if len(narrow.cells.names) != 1:
        raise ParameterError(f"DAWA answers questions about one column, and these are about {len(narrow.cells.names)}")
    if narrow.cells.total > LONGEST:
        raise ParameterError(f"DAWA takes at most {LONGEST} cells, not {narrow.cells.total}; cut the column into fewer")
    halving = search == "halving"
    known = 0 if halving else None if expected_rows is None else count("expected_rows", expected_rows)
    first, second = ROWS if known is None else Fraction(0), HALVING if halving else PARTITION
    prices = [_pure(spend, share) for share in (first, second)]
    moved = count("reach", reach) * (2 if replaced else 1)
    last = 1 - first - second
    rest = spend.share(last)
    if spend.epsilon is not None:  # the other parts need no delta
        rest = Guarantee(epsilon=spend.epsilon * last, delta=spend.delta)
    cells = narrow.cells.total
    partition = FlatTree((cells,), prices[1], moved) if halving else Partition(cells, prices[1], moved)
    return Dawa(
        narrow, prices[0] if known is None else known, known is not None, partition, rest, replaced, law, confidence
    )


def _pure(spend: Guarantee, share: Fraction) -> Fraction:
    found = spend.share(share).laplace_epsilon if share else Fraction(0)
    if found is None:
        raise ParameterError(f"a partition has no price in {spend}; give epsilon (with or without delta) or rho")
    return found


def plan_dawa(
    session: Session, wanted: Wanted, *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, cells: Given | None = None, rows: str | None = None,
    law: Law | None = None, search: Search = "halving", expected_rows: int | None = None, purpose: str = "",
) -> AdaptivePlan:  # fmt: skip
    """Plan questions about one column of a session's table by DAWA. Nothing is spent and no data is touched.

    `cells` and `rows` are those of `plan`; `search` and `expected_rows` those of `with_dawa`.
    See `tacit.workloads.adaptive` for an example.
    """

    def make(workload: Workload, spend: Guarantee, reach: int, replaced: bool, confidence: float) -> Dawa:
        return with_dawa(
            workload, spend, reach=reach, replaced=replaced, law=law, confidence=confidence, search=search,
            expected_rows=expected_rows,
        )  # fmt: skip

    return planned(
        session, wanted, make, guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, cells=cells, rows=rows, purpose=purpose
    )
