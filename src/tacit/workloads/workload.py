"""Many counting questions at once: which ones, over which cells, never as one big matrix.

A table is counted in cells: one for each combination of its columns' values (`Cells`). A workload is a weighted
list of products of questions about single columns (`Total`, `Identity`, `Prefix`, `AllRanges`, `Ranges`,
`Predicates`). Its Gram matrix, its norms and its answers follow from those of the single columns, so a workload
over a million cells, or over a hundred columns, stays small.

>>> cells = Cells.of({"sex": ["f", "m"], "age": 4})
>>> ages = Product(age=AllRanges).on(cells)
>>> ages.questions, ages.terms[0].factor("age").gram()[0].tolist()
(10, [4.0, 3.0, 2.0, 1.0])
>>> both = (Marginals("sex", "age", up_to=2) + 2 * Product(age=Prefix)).on(cells)
>>> [(term.columns, term.questions, term.weight) for term in both.terms]
[(('sex',), 2, 1.0), (('age',), 4, 1.0), (('sex', 'age'), 8, 1.0), (('age',), 4, 2.0)]
>>> ages.answers(np.array([[1, 0, 2, 0], [0, 5, 0, 1]]))[0].tolist()
[1, 6, 8, 9, 5, 7, 8, 2, 3, 1]
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.parameters import count

Array = NDArray[np.float64]
#: The longest column whose Gram matrix is written out; longer ones have only what is known in closed form.
LONGEST = 4096


# --- questions about one column ---


@dataclass(frozen=True)
class Factor(ABC):
    """Counting questions about one column with `size` cells: one row of a matrix each."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", count("size", self.size))

    @property
    @abstractmethod
    def questions(self) -> int:
        """How many rows the matrix has."""

    def matrix(self) -> Array:
        """The questions as rows. Only for short columns."""
        return np.asarray(self.answer(np.eye(_short(self.size)), 0), dtype=np.float64)

    def gram(self) -> Array:
        """The matrix multiplied by its own transpose: what decides every error."""
        rows = self.matrix()
        return np.asarray(rows.T @ rows)

    def trace(self) -> float:
        """The sum of squares of the matrix: the squared error of the questions when cells have unit noise."""
        return self.heaped(1)

    def heaped(self, block: int) -> float:
        """The sum, over blocks of so many neighbouring cells, of all entries of the Gram matrix in the block."""
        sums = np.add.reduceat(self.matrix(), np.arange(0, self.size, block), axis=1)
        return float((sums**2).sum())

    @abstractmethod
    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        """The answers from counts in cells, along one axis."""

    def spread(self, covariance: Array) -> Array:
        """The variance of each answer, from the covariance of the cells."""
        rows = self.matrix()
        return np.asarray(np.einsum("ij,ij->i", rows @ covariance, rows))

    def labels(self, names: Sequence[str]) -> list[str]:
        """What each question asks, from the names of the cells."""
        return [f"question {i}" for i in range(self.questions)]


@dataclass(frozen=True)
class Identity(Factor):
    """Each cell by itself."""

    @property
    def questions(self) -> int:
        return self.size

    def gram(self) -> Array:
        return np.eye(_short(self.size))

    def heaped(self, block: int) -> float:
        return float(self.size)

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        return counts

    def spread(self, covariance: Array) -> Array:
        return np.diag(covariance).copy()

    def labels(self, names: Sequence[str]) -> list[str]:
        return list(names)


@dataclass(frozen=True)
class Total(Factor):
    """All cells together."""

    @property
    def questions(self) -> int:
        return 1

    def gram(self) -> Array:
        return np.ones((_short(self.size), self.size))

    def heaped(self, block: int) -> float:
        whole, rest = divmod(self.size, block)
        return float(whole * block**2 + rest**2)

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        return np.asarray(counts.sum(axis=axis, keepdims=True))

    def spread(self, covariance: Array) -> Array:
        return np.array([covariance.sum()])

    def labels(self, names: Sequence[str]) -> list[str]:
        return ["total"]


@dataclass(frozen=True)
class Prefix(Factor):
    """The first cell, the first two, and so on: running totals.

    >>> Prefix(3).gram().tolist()
    [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    """

    @property
    def questions(self) -> int:
        return self.size

    def gram(self) -> Array:
        place = np.arange(_short(self.size), dtype=np.float64)
        return np.asarray(self.size - np.maximum.outer(place, place))

    def heaped(self, block: int) -> float:
        whole, rest = np.divmod(np.arange(1, self.size + 1, dtype=np.float64), block)
        return float((whole * block**2 + rest**2).sum())

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        return counts.cumsum(axis=axis)

    def spread(self, covariance: Array) -> Array:
        return np.diag(covariance.cumsum(axis=0).cumsum(axis=1)).copy()

    def labels(self, names: Sequence[str]) -> list[str]:
        return [f"up to {name}" for name in names]


@dataclass(frozen=True)
class AllRanges(Factor):
    """Every range of neighbouring cells: (0, 0), (0, 1), ..., in that order.

    >>> AllRanges(3).gram().tolist()
    [[3.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 3.0]]
    """

    @property
    def questions(self) -> int:
        return self.size * (self.size + 1) // 2

    def gram(self) -> Array:
        place = np.arange(_short(self.size), dtype=np.float64)
        least, most = np.minimum.outer(place, place), np.maximum.outer(place, place)
        return np.asarray((least + 1) * (self.size - most))

    def heaped(self, block: int) -> float:
        place = np.arange(self.size, dtype=np.float64)
        start = (place // block) * block  # the first cell of the block
        before = (place * (place + 1) - start * (start + 1)) / 2  # (i + 1) over earlier cells of the block
        return float(((self.size - place) * (2 * before + place + 1)).sum())

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        first, last = np.triu_indices(self.size)
        return _between(counts, axis, first, last)

    def spread(self, covariance: Array) -> Array:
        return _ranges_spread(covariance, *np.triu_indices(self.size))

    def labels(self, names: Sequence[str]) -> list[str]:
        return _range_labels(names, [(i, j) for i in range(self.size) for j in range(i, self.size)])


@dataclass(frozen=True)
class Ranges(Factor):
    """Chosen ranges of neighbouring cells, each by its first and last cell.

    >>> Ranges(4, ((0, 1), (1, 3))).matrix().tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]
    """

    ends: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = tuple((int(first), int(last)) for first, last in self.ends)
        if not ends:
            raise ParameterError("ranges is empty; give at least one pair of a first and a last cell")
        if any(not 0 <= first <= last < self.size for first, last in ends):
            raise ParameterError(f"ranges must be pairs of a first and a last cell, 0 to {self.size - 1}; one is not")
        object.__setattr__(self, "ends", ends)

    @property
    def questions(self) -> int:
        return len(self.ends)

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        first, last = np.array(self.ends).T
        return _between(counts, axis, first, last)

    def heaped(self, block: int) -> float:
        first, last = np.array(self.ends, dtype=np.int64).T
        return float(overlap_squares(first, last, block).sum())

    def spread(self, covariance: Array) -> Array:
        first, last = np.array(self.ends).T
        return _ranges_spread(covariance, first, last)

    def labels(self, names: Sequence[str]) -> list[str]:
        return _range_labels(names, self.ends)


@dataclass(frozen=True, eq=False)
class Predicates(Factor):
    """Any questions: a matrix with one row each and one column for each cell.

    >>> Predicates.of([[1, 0, 1], [0, 1, 1]]).gram().tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]]
    """

    rows: Array = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    @staticmethod
    def of(rows: Any) -> Predicates:
        """From anything that is a matrix."""
        found = np.array(rows, dtype=np.float64)
        if found.ndim != 2 or 0 in found.shape or not np.isfinite(found).all():
            raise ParameterError("predicates must be a matrix of finite numbers, one row a question, one column a cell")
        if not found.any(axis=1).all():
            raise ParameterError("predicates has a question that counts no cell; leave it out, its answer is 0")
        return Predicates(found.shape[1], found)

    @property
    def questions(self) -> int:
        return len(self.rows)

    def matrix(self) -> Array:
        return self.rows

    def answer(self, counts: NDArray[Any], axis: int) -> NDArray[Any]:
        return np.moveaxis(np.tensordot(self.rows, counts, axes=(1, axis)), 0, axis)


def _short(size: int) -> int:
    if size > LONGEST:
        raise ParameterError(f"a column of {size} cells is too long for a matrix; at most {LONGEST}")
    return size


def _between(counts: NDArray[Any], axis: int, first: Any, last: Any) -> NDArray[Any]:
    """Sums over ranges along an axis, as differences of running totals."""
    running = np.moveaxis(counts, axis, 0).cumsum(axis=0)
    running = np.concatenate([np.zeros_like(running[:1]), running])
    return np.moveaxis(running[np.asarray(last) + 1] - running[np.asarray(first)], 0, axis)


def _ranges_spread(covariance: Array, first: Any, last: Any) -> Array:
    sums = np.zeros((len(covariance) + 1,) * 2)
    sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    low, high = np.asarray(first), np.asarray(last) + 1
    return np.asarray(sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low])


def overlap_squares(first: NDArray[np.int64], last: NDArray[np.int64], width: int) -> Array:
    """For each range of cells the sum, over blocks of so many cells, of its squared overlap with the block.

    >>> overlap_squares(np.zeros(4, dtype=np.int64), np.arange(4), 2).tolist()
    [1.0, 4.0, 5.0, 8.0]
    """
    start, stop = first.astype(np.float64), last + 1.0
    one, other = np.floor(start / width), np.floor(last / width)
    head, tail = (one + 1) * width - start, stop - other * width
    apart = head**2 + tail**2 + (other - one - 1) * float(width) ** 2
    return np.where(one == other, (stop - start) ** 2, apart)


def _range_labels(names: Sequence[str], ends: Sequence[tuple[int, int]]) -> list[str]:
    """What ranges of cells are called: '0 to 18' and '18 to 65' make '0 to 65', any other cells 'first to last'."""
    parts = [name.split(" to ") for name in names]
    chained = all(len(part) == 2 for part in parts) and all(one[1] == two[0] for one, two in itertools.pairwise(parts))
    if chained:
        return [f"{parts[first][0]} to {parts[last][1]}" for first, last in ends]
    return [names[first] if first == last else f"{names[first]} to {names[last]}" for first, last in ends]


# --- cells ---


@dataclass(frozen=True)
class Cells:
    """The columns that are counted and the public names of the cells of each."""

    names: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(columns: Mapping[str, int | Sequence[Any]]) -> Cells:
        """From the number of cells of each column, or their names.

        >>> Cells.of({"sex": ["f", "m"], "month": 12}).sizes
        {'sex': 2, 'month': 12}
        """
        if not isinstance(columns, Mapping) or not columns:
            raise ParameterError("cells need columns: {'sex': ['f', 'm'], 'age': 100}")
        names: dict[str, tuple[str, ...]] = {}
        for column, given in columns.items():
            size = count(f"cells of {column}", given) if isinstance(given, int) else len(given)
            if not size:
                raise ParameterError(f"{column} has no cells; give at least one")
            names[column] = tuple(map(str, range(size) if isinstance(given, int) else given))
        return Cells(names)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of cells of each column."""
        return {column: len(names) for column, names in self.names.items()}

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, in order: the shape of an array of counts."""
        return tuple(self.sizes.values())

    @property
    def total(self) -> int:
        """The number of combinations."""
        return math.prod(self.shape)

    def axis(self, column: str) -> int:
        """The place of a column."""
        self.check([column])
        return list(self.names).index(column)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a column that has no cells."""
        for column in columns:
            if column not in self.names:
                raise ParameterError(f"there is no column {column!r} among the cells; there are {', '.join(self.names)}")

    def only(self, columns: Sequence[str]) -> Cells:
        """The same for some columns, in the order of the cells."""
        self.check(columns)
        return Cells({column: names for column, names in self.names.items() if column in set(columns)})


# --- workloads ---


@dataclass(frozen=True)
class Term:
    """A product of questions about single columns; the other columns are summed over. Errors count `weight` times."""

    factors: tuple[tuple[str, Factor], ...]
    weight: float = 1.0

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are told apart."""
        return tuple(column for column, _ in self.factors)

    @property
    def questions(self) -> int:
        """How many answers it has."""
        return math.prod(factor.questions for _, factor in self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """The answers along each of its columns."""
        return tuple(factor.questions for _, factor in self.factors)

    @property
    def marginal(self) -> bool:
        """Whether it asks for every combination of its columns, and nothing else."""
        return all(isinstance(factor, Identity) for _, factor in self.factors)

    def factor(self, column: str) -> Factor:
        """The questions about a column."""
        return dict(self.factors)[column]


@dataclass(frozen=True)
class Workload:
    """Questions over cells: a list of terms, whose answers are given in this order."""

    cells: Cells
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.terms:
            raise ParameterError("a workload needs at least one question")

    @property
    def questions(self) -> int:
        """How many answers there are."""
        return sum(term.questions for term in self.terms)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that any question tells apart, in the order of the cells."""
        used = {column for term in self.terms for column in term.columns}
        return tuple(column for column in self.cells.names if column in used)

    def narrowed(self) -> Workload:
        """The same questions over the cells of the columns they use; of one column where they use none."""
        return replace(self, cells=self.cells.only(self.columns or list(self.cells.names)[:1]))

    def factors(self, term: Term) -> Iterator[tuple[str, Factor]]:
        """The questions of a term about every column: the total of those that it does not tell apart."""
        told = dict(term.factors)
        for column, size in self.cells.sizes.items():
            yield column, told.get(column) or Total(size)

    def norm(self, order: int) -> float:
        """How far one row of the table moves all answers together: in sum (1) or in Euclidean distance (2).

        >>> Product(age=AllRanges).on(Cells.of({"age": 4})).norm(1)
        6.0
        """
        sums = np.zeros((1,) * len(self.cells.sizes))
        for term in self.terms:
            column_sums = np.ones((1,) * len(self.cells.sizes)) * term.weight**order
            for column, factor in term.factors:
                axis = self.cells.axis(column)
                shape = [-1 if i == axis else 1 for i in range(len(self.cells.sizes))]
                powers = (np.abs(factor.matrix()) ** order).sum(axis=0)
                column_sums = column_sums * powers.reshape(shape)
            sums = sums + column_sums
        return float(sums.max() ** (1 / order))

    def answers(self, counts: NDArray[Any]) -> list[NDArray[Any]]:
        """The answers of each term from counts in cells, without its weight: arrays of the terms' shapes."""
        if counts.shape != self.cells.shape:
            raise ParameterError(f"counts must have the shape {self.cells.shape}, one entry a cell, not {counts.shape}")
        return [self.answer(term, counts) for term in self.terms]

    def answer(self, term: Term, counts: NDArray[Any]) -> NDArray[Any]:
        """The answers of one term from counts in cells; further axes of the counts stay behind those of the term."""
        summed = counts.sum(axis=tuple(i for i, c in enumerate(self.cells.names) if c not in term.columns))
        told = self.told(term)
        for axis, (_, factor) in enumerate(told):
            summed = factor.answer(summed, axis)
        order = [list(dict(told)).index(column) for column in term.columns]
        return np.transpose(summed, [*order, *range(len(order), summed.ndim)]) if order else np.asarray(summed)

    def told(self, term: Term) -> list[tuple[str, Factor]]:
        """The columns of a term in the order of the cells."""
        own = dict(term.factors)
        return [(column, own[column]) for column in self.cells.names if column in own]


# --- what a user asks for, before the cells are known ---


class Wanted(ABC):
    """Questions by the names of columns. `on` puts them over cells; they can be added up and weighted."""

    def on(self, cells: Cells) -> Workload:
        """The workload over these cells."""
        return Workload(cells, tuple(self.terms(cells)))

    @abstractmethod
    def terms(self, cells: Cells) -> Iterator[Term]:
        """The questions, one product after the other."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Every column that a question names, in the order in which they are first named."""

    def __add__(self, other: Wanted) -> Wanted:
        return Sum((self, other))

    def __rmul__(self, weight: float) -> Wanted:
        return Weighted(self, float(weight))


@dataclass(frozen=True)
class Weighted(Wanted):
    """The same questions, whose errors matter `weight` times as much."""

    asked: Wanted
    weight: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ParameterError(f"weight must be greater than 0, not {self.weight}")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.asked.columns

    def terms(self, cells: Cells) -> Iterator[Term]:
        for term in self.asked.terms(cells):
            yield replace(term, weight=term.weight * self.weight)


@dataclass(frozen=True)
class Sum(Wanted):
    """Several lists of questions, one after the other."""

    parts: tuple[Wanted, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    def terms(self, cells: Cells) -> Iterator[Term]:
        for part in self.parts:
            yield from part.terms(cells)


@dataclass(frozen=True)
class Marginals(Wanted):
    """Tables of every combination of some columns: all choices of `ways` of them, or of 1 to `up_to`.

    >>> len(Marginals("a", "b", "c", ways=2).on(Cells.of({"a": 2, "b": 3, "c": 4})).terms)
    3
    """

    names: tuple[str, ...]
    ways: int | None
    up_to: int | None

    def __init__(self, *columns: str, ways: int | None = None, up_to: int | None = None) -> None:
        if not columns or len(set(columns)) != len(columns) or not all(isinstance(c, str) for c in columns):
            raise ParameterError("marginals need columns, each named once: Marginals('sex', 'age', up_to=2)")
        if (ways is None) == (up_to is None):
            raise ParameterError("marginals need either ways= (exactly so many columns) or up_to= (at most so many)")
        most = count("ways" if ways is not None else "up_to", ways if ways is not None else up_to)
        if most > len(columns):
            raise ParameterError(f"there are {len(columns)} columns, so tables of {most} columns do not exist")
        object.__setattr__(self, "names", columns)
        object.__setattr__(self, "ways", ways)
        object.__setattr__(self, "up_to", up_to)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def terms(self, cells: Cells) -> Iterator[Term]:
        cells.check(self.columns)
        sizes = [self.ways] if self.ways is not None else range(1, (self.up_to or 0) + 1)
        for size in sizes:
            for chosen in itertools.combinations(self.columns, size or 0):
                yield Term(tuple((column, Identity(cells.sizes[column])) for column in chosen))


@dataclass(frozen=True)
class Product(Wanted):
    """Every combination of questions about some columns, the others summed over.

    A column's questions are a kind (`Identity`, `Prefix`, `AllRanges`), pairs of a first and a last cell, or
    a `Predicates`.

    >>> Product(age=AllRanges, sex=Identity).on(Cells.of({"sex": 2, "age": 4})).questions
    20
    """

    kinds: tuple[tuple[str, Any], ...]

    def __init__(self, **kinds: Any) -> None:
        object.__setattr__(self, "kinds", tuple(kinds.items()))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column, _ in self.kinds)

    def terms(self, cells: Cells) -> Iterator[Term]:
        cells.check([column for column, _ in self.kinds])
        yield Term(tuple((column, _factor(column, kind, cells.sizes[column])) for column, kind in self.kinds))


def _factor(column: str, kind: Any, size: int) -> Factor:
    if isinstance(kind, type) and issubclass(kind, Factor) and kind in (Identity, Total, Prefix, AllRanges):
        return kind(size)
    if isinstance(kind, Factor):
        if kind.size != size:
            raise ParameterError(f"the questions about {column} are over {kind.size} cells, and it has {size}")
        return kind
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        return Ranges(size, tuple(kind))
    raise ParameterError(f"{column} must be Identity, Total, Prefix, AllRanges, a list of ranges or Predicates")
