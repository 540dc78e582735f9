"""Aggregates: from rows to numbers, with the sensitivity as a function of the distance.

Sums are of whole numbers, so they are exact in any order; a real column is rounded to a lattice first.

>>> from tacit.calculus import AddRemove, Integers, ReplaceOne, Rows, Space, clamp
>>> plan = Space(Rows(Integers(10, 20)), AddRemove()) >> total()
>>> plan([10, 20]), plan.map(1), (Space(Rows(Integers(10, 20)), ReplaceOne()) >> total()).map(1)
(30, 20, 10)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Ball, Rows, Vectors
from tacit.calculus.datasets import length
from tacit.calculus.domains import Domain, Integers, Lattice, integer_array, listed, whole_bounds
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import L1, L2, Absolute, AddRemove, Hamming, LInfinity, Metric, ReplaceOne, root
from tacit.calculus.rows import rows_domain
from tacit.parameters import Number

CAP_FIRST = "cap each person's rows first: cap_rows(column, most)"


def exact_sum(values: Any) -> int:
    """The sum of whole numbers, exact whatever their size and order.

    >>> exact_sum(np.full(4, 2**62))
    18446744073709551616
    """
    array = values
    if not isinstance(array, np.ndarray) or array.dtype != np.int64:
        return int(sum(listed(array)))
    # Two halves of 32 bits cannot overflow below 2**31 rows, and their sums are recombined in Python's integers.
    return int((array >> 32).sum(dtype=np.int64)) * 2**32 + int((array & 0xFFFFFFFF).sum(dtype=np.int64))


def times(factor: Number) -> Callable[[Number], Number]:
    """The map of a transformation that is `factor`-stable.

    >>> times(3)(2)
    6
    """

    def stability(distance: Number) -> Number:
        return distance * factor

    return stability


@dataclass(frozen=True)
class Count(Step):
    """How many rows there are."""

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "count")
        output = Space(Integers(0, None), Absolute())
        match space.metric:
            case AddRemove():
                return Transformation(space, output, length, lambda d: d, "count()", "one row more or less changes the count by one")
            case ReplaceOne() | Hamming():
                output = Space(Integers(0, None) if domain.size is None else Integers(domain.size, domain.size), Absolute())
                return Transformation(space, output, length, lambda d: 0, "count()", "the number of rows is public and does not change")
        raise MetricError(f"count has no stability under {space.metric}; {CAP_FIRST}")


def count() -> Count:
    """The number of rows: 1-stable under add/remove, constant under replace-one (1.4 of the textbook)."""
    return Count()


def bounds_of(element: Integers | Lattice, what: str) -> tuple[int, int]:
    """The public bounds of whole numbers, in granules, or a refusal."""
    low, high = whole_bounds(element)
    if low is None or high is None:
        raise DomainError(f"{what} needs public bounds; put clamp(lower, upper) before it")
    return low, high


def _whole(element: Domain, what: str) -> Integers | Lattice:
    if not isinstance(element, (Integers, Lattice)):
        raise DomainError(f"{what} adds whole numbers, so that sums are exact; {element} must be rounded first: round_to(granularity)")
    return element


@dataclass(frozen=True)
class Total(Step):
    """The sum of whole numbers, or of vectors of them, with public bounds."""

    norm: Metric | None = None

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "total")
        replaced = _replaced(space, "total")
        element = domain.element
        if isinstance(element, Vectors):
            norm = L2() if self.norm is None else self.norm
            inner = _whole(element.element, "total")
            step = _vector_step(element, norm, replaced)
            output = Space(Vectors(_unbounded(inner), element.length), norm)
            reason = "a row changes the sum by at most its norm, an exchanged one by at most the distance of two rows"
            name = f"total({'' if self.norm is None else norm})"
            return Transformation(space, output, _column_sums(element.length), times(step), name, reason)
        if self.norm is not None:
            raise MetricError(f"norm is for sums of vectors; a sum of numbers is measured by Absolute(), so leave norm={self.norm} out")
        low, high = bounds_of(_whole(element, "total"), "total")
        output = Space(_unbounded(element), Absolute())
        if replaced:
            step, reason = high - low, "an exchanged row changes the sum by at most the width of the bounds"
        else:
            step, reason = max(abs(low), abs(high)), "one row changes the sum by at most the larger bound"
        return Transformation(space, output, exact_sum, times(step), "total()", reason)


def _replaced(space: Space, what: str) -> bool:
    """Whether rows are exchanged; False where they come and go; a refusal for anything else."""
    match space.metric:
        case AddRemove():
            return False
        case ReplaceOne() | Hamming():
            return True
    raise MetricError(f"{what} has no stability under {space.metric}; {CAP_FIRST}")


def _unbounded(element: Domain) -> Domain:
    return Lattice(element.granularity) if isinstance(element, Lattice) else Integers()


def _column_sums(columns: int) -> Callable[[Any], np.ndarray]:
    def sums(rows: Any) -> np.ndarray:
        array = np.asarray(rows).reshape(-1, columns)
        return integer_array([exact_sum(array[:, i]) for i in range(columns)])

    return sums


def _vector_step(vectors: Vectors, norm: Metric, replaced: bool) -> Number:
    """The largest norm of one row, or of the difference of two, in granules: the least of what the box and the ball allow."""
    if not isinstance(norm, (L1, L2, LInfinity)):
        raise MetricError(f"norm must be L1(), L2() or LInfinity(), not {norm}")
    inner = _whole(vectors.element, "total")
    low, high = whole_bounds(inner)
    one_sided = (low is not None and low >= 0) or (high is not None and high <= 0)
    found: list[Number] = []
    if low is not None and high is not None:
        side = high - low if replaced else max(abs(low), abs(high))
        found.append(_box(side, vectors.length, norm, 2 * side if replaced else max(high, 0) - min(low, 0)))
    if isinstance(vectors, Ball):
        found.append(_ball(vectors, norm, replaced, one_sided))
    if not found:
        raise DomainError("total needs public bounds; put clamp(lower, upper) or clip_norm(p, radius) before it")
    return min(found)


def _box(side: int, size: int, norm: Metric, span: int) -> Number:
    """The norm of a vector with all coordinates as large as they may be; `span` is the largest rise plus the largest fall."""
    match norm:
        case L1():
            return size * side
        case L2():
            return root(Fraction(size * side * side))
    return span if isinstance(norm, LInfinity) and norm.monotone and size > 1 else side


def _ball(ball: Ball, norm: Metric, replaced: bool, one_sided: bool) -> Number:
    radius, size = ball.granules, ball.length
    longest = radius if not replaced else 2 * radius
    match norm:
        case L1():
            return longest if ball.p == 1 else root(longest**2 * size)
        case L2():
            # Two vectors without opposite signs have a scalar product of at least 0, so |a - b|^2 <= |a|^2 + |b|^2.
            return root(2 * radius**2) if replaced and one_sided else longest
    # The largest coordinate is at most either norm; rise plus fall is at most the L1 norm, and sqrt(2) times the L2 norm.
    if isinstance(norm, LInfinity) and norm.monotone:
        return longest if ball.p == 1 else root(2 * longest**2)
    return radius if replaced and one_sided else longest


def total(norm: Metric | None = None) -> Total:
    """The exact sum of clamped whole numbers (or granules of a lattice); of vectors, measured by `norm` (L2 unless stated).

    >>> from tacit.calculus import AddRemove, L1, ReplaceOne, Rows, Space, Vectors
    >>> points = Rows(Vectors(Integers(-1, 1), 4))
    >>> [(Space(points, metric) >> total(L1())).map(1) for metric in (AddRemove(), ReplaceOne())]
    [4, 8]
    """
    return Total(norm)


@dataclass(frozen=True)
class Mean(Step):
    """The sum over a public number of rows."""

    norm: Metric | None = None

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "mean")
        if not _replaced(space, "mean"):
            raise MetricError(
                "mean divides by the number of rows, which is private under add/remove; release total() and count() and divide them, "
                "or make the number public with resize(n, constant)"
            )
        if not domain.size:
            raise DomainError("mean needs the public number of rows, at least 1: Rows(..., size=n), or resize(n, constant) before it")
        plan = Total(self.norm).bind(space)
        # The sum in granules is the mean in granules n times as fine: nothing is divided, so nothing is rounded.
        inner = plan.output.domain
        fine = Lattice(plan.output.unit / domain.size, *_mean_bounds(domain))
        output = Space(Vectors(fine, inner.length) if isinstance(inner, Vectors) else fine, plan.output.metric)
        name = f"mean({'' if self.norm is None else self.norm})"
        return Transformation(space, output, plan.function, plan.stability, name, "the sum, in units of one over the public number of rows")


def _mean_bounds(rows: Rows) -> tuple[Number | None, Number | None]:
    element = rows.element.element if isinstance(rows.element, Vectors) else rows.element
    return (element.lower, element.upper) if isinstance(element, (Integers, Lattice)) else (None, None)


def mean(norm: Metric | None = None) -> Mean:
    """The exact mean of bounded numbers or vectors where the number of rows is public (textbook 1.4: width over n).

    >>> from tacit.calculus import Integers, ReplaceOne, Rows, Space
    >>> plan = Space(Rows(Integers(0, 100), size=4), ReplaceOne()) >> mean()
    >>> plan([0, 50, 51, 100]), plan.output.unit, plan.sensitivity()
    (201, Fraction(1, 4), Fraction(25, 1))
    """
    return Mean(norm)
