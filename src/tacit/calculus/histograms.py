"""Histograms over public categories, joint ones too, and the scores by which a quantile is chosen.

Every public cell is there, also where nobody is in it; which cells there are is never read from the data.

>>> from tacit.calculus import AddRemove, Categories, ReplaceOne, Rows, Space
>>> plan = Space(Rows(Categories("abc")), AddRemove()) >> histogram()
>>> plan(["a", "c", "a"]).tolist(), plan.map(1)
([2, 0, 1], 1)
>>> (Space(Rows(Categories("abc")), ReplaceOne()) >> histogram()).map(1)
2

Under add/remove one row changes one cell by 1, so d rows have L1, L2 and L-infinity norm at most d, which d copies of one row reach. An
exchanged row leaves one cell for another: at most 2d, sqrt(2) d and d, which d copies moved from one cell to another reach.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tacit.calculus.aggregates import CAP_FIRST, times
from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Categories, Vectors
from tacit.calculus.domains import Domain, Integers, Lattice, Reals
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import L1, L2, AddRemove, Hamming, LInfinity, Metric, ReplaceOne, root
from tacit.calculus.rows import records_domain, rows_domain
from tacit.parameters import Number, number, probability

PROOF = "one row is in one cell; an exchanged row leaves one cell for another"


def cell_step(space: Space, norm: Metric, what: str) -> Number:
    """How much a histogram changes per row, in the norm asked for."""
    if not isinstance(norm, (L1, L2, LInfinity)):
        raise MetricError(f"norm must be L1(), L2() or LInfinity(), not {norm}")
    match space.metric:
        case AddRemove():
            return 1
        case ReplaceOne() | Hamming():
            if isinstance(norm, L2):
                return root(Fraction(2))
            return 1 if isinstance(norm, LInfinity) and not norm.monotone else 2
    raise MetricError(f"{what} has no stability under {space.metric}; {CAP_FIRST}")


def _categories(domain: Domain, what: str) -> Categories:
    if not isinstance(domain, Categories):
        raise DomainError(f"{what} needs public categories, not {domain}; put cast(Categories(...)) or bins(edges) before it")
    return domain


@dataclass(frozen=True)
class Histogram(Step):
    """How many rows are in each public category."""

    norm: Metric

    def bind(self, space: Space) -> Transformation:
        categories = _categories(rows_domain(space, "histogram").element, "histogram")
        step = cell_step(space, self.norm, "histogram")
        output = Space(Vectors(Integers(0, None), len(categories.values)), self.norm)

        def cells(data: Any) -> np.ndarray:
            found = Counter(categories.enforce(data))
            return np.array([found[value] for value in categories.values], dtype=np.int64)

        return Transformation(space, output, cells, times(step), f"histogram({self.norm})", PROOF)


def histogram(norm: Metric | None = None) -> Histogram:
    """The number of rows in each public category, in their order; distances by `norm`, L1 unless stated.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> (Space(Rows(Categories("ab")), AddRemove()) >> histogram(L2())).output.metric
    L2()
    """
    return Histogram(L1() if norm is None else norm)


@dataclass(frozen=True)
class Marginal(Step):
    """How many rows have each combination of several columns' public categories."""

    columns: tuple[str, ...]
    norm: Metric

    def bind(self, space: Space) -> Transformation:
        what = f"marginal({', '.join(map(repr, self.columns))})"
        records, columns = records_domain(space, what), self.columns
        domains = [_categories(records[name], what) for name in columns]
        step = cell_step(space, self.norm, what)
        output = Space(Vectors(Integers(0, None), math.prod(len(d.values) for d in domains)), self.norm)

        def cells(data: Any) -> np.ndarray:
            found = Counter(zip(*(d.enforce(data[name]) for d, name in zip(domains, columns, strict=True)), strict=True))
            return np.array([found[cell] for cell in product(*(d.values for d in domains))], dtype=np.int64)

        return Transformation(space, output, cells, times(step), what, PROOF)


def marginal(*columns: str, norm: Metric | None = None) -> Marginal:
    """The joint histogram of columns of categories; the last column varies fastest.

    >>> from tacit.calculus import AddRemove, Space, table
    >>> people = Space(table(sex=Categories("fm"), smokes=Categories(("no", "yes"))), AddRemove())
    >>> (people >> marginal("sex", "smokes"))({"sex": ["f", "f", "m"], "smokes": ["no", "yes", "no"]}).tolist()
    [1, 1, 1, 0]
    """
    if not columns or len(set(columns)) != len(columns):
        raise DomainError("name the columns of the marginal, each once")
    return Marginal(columns, L1() if norm is None else norm)


@dataclass(frozen=True)
class QuantileScores(Step):
    """How good each public candidate is as a quantile."""

    candidates: tuple[Number, ...]
    level: Fraction

    def bind(self, space: Space) -> Transformation:
        what = f"quantile_scores(level={self.level})"
        element = rows_domain(space, what).element
        if not isinstance(element, (Integers, Lattice, Reals)):
            raise DomainError(f"{what} orders numbers, not {element}; cast them first: cast(Reals())")
        below, above = self.level.denominator - self.level.numerator, self.level.numerator
        match space.metric:
            case AddRemove():
                step, reason = max(below, above), "a row adds to one of the two counts"
            case ReplaceOne() | Hamming():
                step, reason = below + above, "an exchanged row leaves one of the two counts for the other"
            case _:
                raise MetricError(f"{what} has no stability under {space.metric}; {CAP_FIRST}")
        unit = element.granularity if isinstance(element, Lattice) else Fraction(1)
        candidates = [Fraction(candidate) / unit for candidate in self.candidates]

        def scores(data: Any) -> np.ndarray:
            values = element.enforce(data)
            known = sorted(value for value in values.tolist() if value == value)
            counts = [(bisect_left(known, c), len(known) - bisect_right(known, c)) for c in candidates]
            return np.array([-abs(below * less - above * more) for less, more in counts], dtype=np.int64)

        output = Space(Vectors(Lattice(Fraction(1, self.level.denominator), None, 0), len(candidates)), LInfinity())
        return Transformation(space, output, scores, times(step), what, reason)


def quantile_scores(candidates: Iterable[Number], level: Number = Fraction(1, 2)) -> QuantileScores:
    """The score -|(1 - level) #(x < c) - level #(x > c)| of each public candidate c; missing values count on neither side.

    Held in units of one over the denominator of `level`, so that it is exact: max(level, 1 - level) per row added or removed, 1 per
    row exchanged.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> plan = Space(Rows(Integers(0, 9)), AddRemove()) >> quantile_scores([2, 4, 6])
    >>> plan([1, 4, 8]).tolist(), plan.map(1), plan.sensitivity()
    ([-1, 0, -1], 1, Fraction(1, 2))
    """
    given = tuple(number("candidates", c) for c in candidates)
    if not given or any(isinstance(c, float) and math.isinf(c) for c in given):
        raise DomainError("candidates must be finite numbers, at least one")
    exact = Fraction(probability("level", level)) if not isinstance(level, float) else Fraction(str(probability("level", level)))
    return QuantileScores(given, exact)
