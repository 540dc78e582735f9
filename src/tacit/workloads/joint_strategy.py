"""What a plan measures, over all columns: one product, every term by itself, residuals, or whole tables.

Each selection names the tables of counts that it needs, turns them into blocks of whole-numbered sums, and turns the
noisy sums back into answers by least squares. How far one row moves all blocks, and the error of every answer, follow
from public numbers alone. `best` compares them by computed error and takes the least.

>>> from tacit.workloads.workload import AllRanges, Cells, Marginals, Product
>>> ranges = Product(age=AllRanges).on(Cells.of({"age": 4}))
>>> one = best(ranges, "gaussian")
>>> type(one).__name__, round(unit_error(one, ranges, "gaussian"), 4)
('OneProduct', 16.4409)
>>> tables = Marginals("a", "b", "c", ways=2).on(Cells.of({"a": 2, "b": 3, "c": 4}))
>>> type(best(tables, "gaussian")).__name__, round(unit_error(best(tables, "gaussian"), tables, "gaussian"), 4)
('Residuals', 50.8504)
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.exact import root
from tacit.mechanisms import Law
from tacit.workloads import marginals
from tacit.workloads.marginals import Columns
from tacit.workloads.optimal import search
from tacit.workloads.strategy import Need, Strategy, identity
from tacit.workloads.workload import Array, Cells, Term, Workload

#: The most cells of one table of counts that is made.
LARGEST = 20_000_000
#: More rows than any table has.
MOST_ROWS = 2**40
#: Fractions of scales are multiples of this.
FINE = 2**40
#: Least squares over separate products: at most so many unknowns, and so many answers times measurements.
UNKNOWNS, COMBINED = 1500, 2 * 10**8

Counts = Mapping[Columns, NDArray[Any]]


@dataclass(frozen=True)
class Answers:
    """The answers of one term: estimates, and for unit noise the sums of squares and of fourth powers in each.

    Without fourth powers the interval takes the heaviest tail that the law allows.
    """

    values: Array
    squares: Array
    fourths: Array | None


class JointStrategy(ABC):
    """Blocks of whole-numbered sums of counts. Block k is measured with noise of scale 1 / weights[k]."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """How far one row can move one of the sums, at most."""

    @property
    @abstractmethod
    def tables(self) -> list[Columns]:
        """The tables of counts that are needed, by their columns in the order of the cells."""

    @property
    @abstractmethod
    def weights(self) -> tuple[Fraction, ...]:
        """One weight for each block."""

    @abstractmethod
    def norm(self, law: Law) -> Fraction:
        """How far one row moves all blocks, each in its scale; never below the truth."""

    @abstractmethod
    def error(self, workload: Workload) -> float:
        """The weighted sum of squared errors for noise of variance 1 at weight 1."""

    @abstractmethod
    def measure(self, counts: Counts) -> list[NDArray[Any]]:
        """The sums of every block, in whole numbers."""

    def released(self, noisy: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """What is kept of the noisy sums: all of it, unless a proof needs less."""
        return noisy

    @abstractmethod
    def answers(self, workload: Workload, released: Sequence[NDArray[Any]], law: Law) -> list[Answers]:
        """The answers of every term by least squares."""

    @abstractmethod
    def describe(self) -> str:
        """In a few words, for reports."""


# --- one product ---


@dataclass(frozen=True, eq=False)
class OneProduct(JointStrategy):
    """A strategy for each column: every combination of their sums is measured, from one table of all columns."""

    columns: Columns
    strategies: tuple[Strategy, ...]

    @property
    def tables(self) -> list[Columns]:
        return [self.columns]

    @cached_property
    def _blocks(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(len(s.weights)) for s in self.strategies)))

    @property
    def weights(self) -> tuple[Fraction, ...]:
        return tuple(
            math.prod((s.weights[k] for s, k in zip(self.strategies, block, strict=True)), start=Fraction(1))
            for block in self._blocks
        )

    def norm(self, law: Law) -> Fraction:
        return math.prod((s.norm(law) for s in self.strategies), start=Fraction(1))

    def error(self, workload: Workload) -> float:
        return sum(term.weight * self.term_error(workload, term) for term in workload.terms)

    def term_error(self, workload: Workload, term: Term) -> float:
        """The summed squared error of one term's answers."""
        factors = dict(workload.factors(term))
        pairs = zip(self.columns, self.strategies, strict=True)
        return math.prod(strategy.error(Need.of(factors[column])) for column, strategy in pairs)

    @property
    def largest(self) -> int:
        return math.prod(strategy.largest for strategy in self.strategies)

    def measure(self, counts: Counts) -> list[NDArray[Any]]:
        found = [widened(counts[self.columns], self.largest)]
        for axis, strategy in enumerate(self.strategies):
            found = [part for table in found for part in strategy.measure(table, axis)]
        return found

    def answers(self, workload: Workload, released: Sequence[NDArray[Any]], law: Law) -> list[Answers]:
        parts: list[NDArray[Any]] = list(released)
        for axis in reversed(range(len(self.strategies))):
            strategy = self.strategies[axis]
            size = len(strategy.weights)
            parts = [strategy.gather(parts[i : i + size], axis) for i in range(0, len(parts), size)]
        cells: Array = parts[0]
        for axis, strategy in enumerate(self.strategies):
            cells = strategy.solve(cells, axis)
        values = workload.answers(cells)
        return [Answers(np.asarray(v), *self.powers(workload, t, law)) for v, t in zip(values, workload.terms, strict=True)]

    def powers(self, workload: Workload, term: Term, law: Law) -> tuple[Array, Array | None]:
        """Sums of squares and fourth powers of each answer: products over the columns."""
        factors = dict(workload.factors(term))
        squares, fourths = np.ones(()), np.ones(()) if law == "laplace" else None
        for column, strategy in zip(self.columns, self.strategies, strict=True):
            two, four = strategy.powers(factors[column], law == "laplace")
            squares = np.multiply.outer(squares, two)
            fourths = None if fourths is None or four is None else np.multiply.outer(fourths, four)
        own = [self.columns.index(column) for column in term.columns]
        rest = [i for i in range(len(self.columns)) if i not in own]
        order = (*own, *rest)

        def arranged(found: Array) -> Array:
            return np.asarray(np.transpose(found, order).reshape(term.shape))

        return arranged(squares), None if fourths is None else arranged(fourths)

    def describe(self) -> str:
        kinds = ", ".join(f"{c}: {type(s).__name__.lower()}" for c, s in zip(self.columns, self.strategies, strict=True))
        return f"sums over {math.prod(s.size for s in self.strategies)} cells ({kinds})"


def widened(counts: NDArray[Any], factor: int) -> NDArray[Any]:
    """Counts in integers that `factor` times all rows fits into: of 64 bits, or Python's own.

    The type follows from the factor, which is public. Were it chosen by the counts, one row could change what is
    published. No table has more than `MOST_ROWS` rows; a cell beyond that is cut, which moves no two tables further apart.
    """
    kept: NDArray[Any] = np.minimum(counts, MOST_ROWS)
    return kept.astype(object) if wider_than_64_bits(factor) else kept.astype(np.int64)


def wider_than_64_bits(factor: int) -> bool:
    """Whether `factor` times all rows of a table may need integers of more than 64 bits."""
    return factor * MOST_ROWS >= 2**62


def product_for(workload: Workload, law: Law, rounds: int = 3) -> OneProduct | None:
    """The best product, one column after the other (HDMM's search for unions of products); None if cells are too many.

    With all other columns fixed, the error is that of one column with each term's questions weighted by the error of
    its other columns.
    """
    if workload.cells.total > LARGEST:
        return None
    columns = tuple(workload.cells.names)
    chosen: dict[str, Strategy] = {c: identity(n) for c, n in workload.cells.sizes.items()}
    told = [dict(workload.factors(term)) for term in workload.terms]
    for _ in range(1 if len(columns) == 1 or len(told) == 1 else rounds):
        for column in columns:
            others = [
                term.weight * math.prod(chosen[c].error(Need.of(f[c])) for c in columns if c != column)
                for term, f in zip(workload.terms, told, strict=True)
            ]
            largest = max(others)
            merged: dict[Any, float] = {}
            for weight, factors in zip(others, told, strict=True):
                merged[factors[column]] = merged.get(factors[column], 0.0) + round(weight / largest, 6)
            chosen[column] = search(Need(tuple((w, f) for f, w in merged.items() if w > 0)), law)
    return OneProduct(columns, tuple(chosen[c] for c in columns))


# --- every term by itself ---


@dataclass(frozen=True, eq=False)
class EachAlone(JointStrategy):
    """Every term has a product of its own and a share of the budget; a term is answered from its own sums."""

    parts: tuple[OneProduct, ...]
    shares: tuple[Fraction, ...]

    @property
    def tables(self) -> list[Columns]:
        return list(dict.fromkeys(part.columns for part in self.parts))

    @property
    def weights(self) -> tuple[Fraction, ...]:
        return tuple(w * s for part, s in zip(self.parts, self.shares, strict=True) for w in part.weights)

    def norm(self, law: Law) -> Fraction:
        each = [part.norm(law) * share for part, share in zip(self.parts, self.shares, strict=True)]
        return sum(each, Fraction(0)) if law == "laplace" else root(sum((e**2 for e in each), Fraction(0)))

    def error(self, workload: Workload) -> float:
        return sum(
            term.weight * part.term_error(alone(workload, term), term) / float(share) ** 2
            for term, part, share in zip(workload.terms, self.parts, self.shares, strict=True)
        )

    @property
    def largest(self) -> int:
        return max(part.largest for part in self.parts)

    def measure(self, counts: Counts) -> list[NDArray[Any]]:
        return [block for part in self.parts for block in part.measure(counts)]

    def answers(self, workload: Workload, released: Sequence[NDArray[Any]], law: Law) -> list[Answers]:
        starts = np.cumsum([0, *(len(part.weights) for part in self.parts)]).tolist()
        planned = [part.columns for part in self.parts] == [alone(workload, term).columns for term in workload.terms]
        found = []
        for i, term in enumerate(workload.terms):
            k = i if planned else covering([part.columns for part in self.parts], term)
            part, scale = self.parts[k], 1 / float(self.shares[k])
            own = Workload(workload.cells.only(list(part.columns)), (term,))
            (answers,) = part.answers(own, released[starts[k] : starts[k + 1]], law)
            fourths = None if answers.fourths is None else answers.fourths * scale**4
            found.append(Answers(answers.values, answers.squares * scale**2, fourths))
        return found

    def describe(self) -> str:
        return f"{len(self.parts)} groups of questions, each by itself"


def covering(tables: Sequence[Columns], term: Term) -> int:
    """The place of the first table with all columns of a term; refused where there is none."""
    found = next((i for i, table in enumerate(tables) if set(term.columns) <= set(table)), None)
    if found is None:
        raise ParameterError(f"no measured table has all of {', '.join(term.columns)}; there are no answers about them together")
    return found


def alone(workload: Workload, term: Term) -> Workload:
    """One term over the cells of its own columns; of one column where it has none."""
    columns = term.columns or list(workload.cells.names)[:1]
    return Workload(workload.cells.only(list(columns)), (term,))


def each_alone(workload: Workload, law: Law) -> EachAlone | None:
    """Every term by itself, with the shares of least weighted error."""
    parts, errors = [], []
    for term in workload.terms:
        own = alone(workload, term)
        part = product_for(own, law)
        if part is None:
            return None
        parts.append(part)
        errors.append(term.weight * part.term_error(own, term) * float(part.norm(law)) ** 2)
    # sum e / s^2 with s1 + s2 + ... = 1, or with squares that add up to 1
    power = 1 / 3 if law == "laplace" else 1 / 4
    raw = [error**power / float(part.norm(law)) for error, part in zip(errors, parts, strict=True)]
    return EachAlone(tuple(parts), tuple(Fraction(max(1, round(r / max(raw) * FINE)), FINE) for r in raw))


@dataclass(frozen=True, eq=False)
class Joined(EachAlone):
    """Every term has a product of its own, and all answers are put together by least squares over all of them.

    The unknowns are the residuals of every set of columns that a product tells apart: tables that agree on what they
    share, and no others, are put together from them. So two products over the same column, or over columns that share
    only the total, help each other, and their answers agree.
    """

    cells: Cells

    @cached_property
    def _basis(self) -> dict[Columns, Array]:
        """For every product's columns the matrix that makes its table of residuals."""
        order, sizes = list(self.cells.names), self.cells.sizes
        tables = list(dict.fromkeys(part.columns for part in self.parts))
        found: dict[Columns, list[Array]] = {table: [] for table in tables}
        for subset in marginals.subsets(tables, order):
            width = math.prod(sizes[c] - 1 for c in subset)
            for table in tables:
                block = np.zeros((math.prod(sizes[c] for c in table), width))
                if set(subset) <= set(table):
                    each = [_contrasts(sizes[c]) if c in subset else np.full((sizes[c], 1), 1 / sizes[c]) for c in table]
                    block = np.ones((1, 1))
                    for matrix in each:
                        block = np.kron(block, matrix)
                found[table].append(block)
        return {table: np.hstack(blocks) for table, blocks in found.items()}

    @cached_property
    def _rows(self) -> Array:
        """What is measured of the residuals, each row times its weight."""
        rows = []
        for part, share in zip(self.parts, self.shares, strict=True):
            basis = self._basis[part.columns]
            blocks = [basis.reshape(*(self.cells.sizes[c] for c in part.columns), -1)]
            for axis, strategy in enumerate(part.strategies):
                blocks = [found for block in blocks for found in strategy.measure(block, axis)]
            rows += [b.reshape(-1, basis.shape[1]) * float(w * share) for b, w in zip(blocks, part.weights, strict=True)]
        return np.vstack(rows)

    @cached_property
    def _covariance(self) -> Array:
        """Of the estimated residuals, for noise of variance 1 at weight 1."""
        return np.asarray(np.linalg.inv(self._rows.T @ self._rows))

    def _place(self, term: Term) -> tuple[Workload, Columns]:
        """A term over the cells of the first product whose columns hold it."""
        columns = list(self._basis)[covering(list(self._basis), term)]
        return Workload(self.cells.only(list(columns)), (term,)), columns

    def error(self, workload: Workload) -> float:
        found = 0.0
        for term in workload.terms:
            own, columns = self._place(term)
            gram: Array = np.ones((1, 1))
            for _, factor in own.factors(term):
                gram = np.asarray(np.kron(gram, factor.gram()), dtype=np.float64)
            basis = self._basis[columns]
            found += term.weight * float(((gram @ basis) * (basis @ self._covariance)).sum())
        return found

    def answers(self, workload: Workload, released: Sequence[NDArray[Any]], law: Law) -> list[Answers]:
        sums = np.concatenate([b.astype(np.float64).ravel() * float(w) for b, w in zip(released, self.weights, strict=True)])
        through = self._covariance @ self._rows.T
        found = []
        for term in workload.terms:
            own, columns = self._place(term)
            shape = own.cells.shape
            values = own.answer(term, (self._basis[columns] @ (through @ sums)).reshape(shape))
            squares, fourths = np.zeros(values.shape), np.zeros(values.shape)
            step = max(1, 2**22 // max(values.size, 1))
            for start in range(0, through.shape[1], step):
                cells = (self._basis[columns] @ through[:, start : start + step]).reshape(*shape, -1)
                weights = own.answer(term, cells) ** 2
                squares += weights.sum(axis=-1)
                fourths += (weights**2).sum(axis=-1)
            found.append(Answers(np.asarray(values), squares, fourths))
        return found

    def describe(self) -> str:
        return f"{len(self.parts)} groups of questions, combined"


def _contrasts(size: int) -> Array:
    """Columns of unit length, orthogonal to each other and to the constant one (Helmert's)."""
    place = np.arange(1, size)
    rows = np.where(np.arange(size)[:, None] < place, 1.0, 0.0)
    rows[place, place - 1] = -place
    return np.asarray(rows / np.sqrt(place * (place + 1.0)))


def joined(alone: EachAlone, workload: Workload) -> EachAlone:
    """The same measurements with least squares over all of them, where that is affordable."""
    sizes, tables = workload.cells.sizes, {part.columns for part in alone.parts}
    unknowns = sum(math.prod(sizes[c] for c in table) for table in tables)
    measured = sum(math.prod(len(s.measure(np.zeros(s.size), 0)) * s.size for s in part.strategies) for part in alone.parts)
    if unknowns > UNKNOWNS or measured * workload.questions > COMBINED:
        return alone
    return Joined(alone.parts, alone.shares, workload.cells)


# --- marginal tables ---


@dataclass(frozen=True, eq=False)
class Residuals(JointStrategy):
    """Residuals of marginal tables under Gaussian noise, the best there is (see `tacit.workloads.marginals`).

    Guarantee
        Statement: publishing the differences of every noisy table costs Gaussian noise of the multiplier
        1 / sqrt(sum of w_A^2 p_A), p_A = product of (n_i - 1) / n_i over the subset's columns, w_A the block's weight.
        Conditions: counts are scaled by the product of the sizes of the subset's columns, so that the noise lies on a
        lattice on which 1 / n_i is a whole number; only differences along every column are kept.
        Proved here: a table that is constant along a column has no differences. So the noisy differences of two
        neighbouring tables u and u + e have the same law as those of u and u + e - c, for any table c of whole numbers
        in the lattice that is constant along some column, and the noise prices e - c. Take for c what e has beyond its
        residual: it is a sum of tables each constant along a column, and on the scaled lattice it is whole. Then
        e - c is the residual of e, of squared length p_A; the differences are post-processing. Several rows of one
        person add up, and so do their residuals.
    """

    scales: marginals.ResidualScales

    @property
    def tables(self) -> list[Columns]:
        return list(self.scales.deviations)

    def scaling(self, subset: Columns) -> int:
        """What counts are multiplied by, so that all shares are whole."""
        return math.prod(self.scales.sizes[c] for c in subset)

    @cached_property
    def _shares(self) -> dict[Columns, Fraction]:
        """The weight of each residual in units of a row: one over its deviation; 0 where nothing can move it."""
        least = min(d for d in self.scales.deviations.values() if d > 0)
        return {
            subset: Fraction(max(1, round(least / deviation * FINE)), FINE) if deviation > 0 else Fraction(0)
            for subset, deviation in self.scales.deviations.items()
        }

    @property
    def weights(self) -> tuple[Fraction, ...]:
        return tuple(share / self.scaling(subset) or Fraction(1) for subset, share in self._shares.items())

    def norm(self, law: Law) -> Fraction:
        squares = (share**2 * marginals.cost(self.scales.sizes, subset) for subset, share in self._shares.items())
        return root(sum(squares, Fraction(0)))

    def error(self, workload: Workload) -> float:
        return sum(term.weight * term.questions * self.variance(self.ordered(term)) for term in workload.terms)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {column: place for place, column in enumerate(self.scales.sizes)}

    @cached_property
    def _variances(self) -> dict[Columns, float]:
        """The variance of each residual, for noise of variance 1 at weight 1; 0 where nothing can move it."""
        return {subset: 1 / float(share) ** 2 if share else 0.0 for subset, share in self._shares.items()}

    def ordered(self, term: Term) -> Columns:
        """The columns of a term in the order of the cells."""
        return tuple(sorted(term.columns, key=self._places.__getitem__))

    def variance(self, table: Columns) -> float:
        """The variance of each cell of a table, for noise of variance 1 at weight 1."""
        return sum(
            marginals.share(self.scales.sizes, subset, table) * self._variances[subset]
            for length in range(len(table) + 1)
            for subset in itertools.combinations(table, length)
        )

    @property
    def largest(self) -> int:
        return max(self.scaling(subset) for subset in self._shares)

    def measure(self, counts: Counts) -> list[NDArray[Any]]:
        found = []
        for subset in self._shares:
            scaling = self.scaling(subset)
            found.append(widened(counts[subset], scaling) * scaling)
        return found

    def released(self, noisy: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [marginals.differenced(table) for table in noisy]

    def answers(self, workload: Workload, released: Sequence[NDArray[Any]], law: Law) -> list[Answers]:
        residuals = {
            subset: marginals.residual_of(differences) / self.scaling(subset)
            for subset, differences in zip(self._shares, released, strict=True)
        }
        found = []
        for term in workload.terms:
            table = self.ordered(term)
            covering(list(self._shares), term)
            values = _asked_of(term, marginals.assembled(residuals, table, self.scales.sizes), workload)
            squares = np.full(values.shape, self.variance(table)) if term.marginal else self._spread(term)
            found.append(Answers(values, squares, None))
        return found

    def _spread(self, term: Term) -> Array:
        return spread(term, self._variances.__getitem__, self.ordered(term))

    def describe(self) -> str:
        return f"{len(self.scales.deviations)} residuals of marginal tables"


@dataclass(frozen=True, eq=False)
class WholeTables(JointStrategy):
    """Marginal tables under Laplace noise, each with a weight; answers combine all that tell something."""

    sizes: Mapping[str, int]
    shares: Mapping[Columns, Fraction]
    _known: dict[Columns, dict[Columns, float]] = field(default_factory=dict, repr=False)

    @property
    def tables(self) -> list[Columns]:
        return list(self.shares)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        return tuple(self.shares.values())

    def norm(self, law: Law) -> Fraction:
        shares = self.shares.values()
        return sum(shares, Fraction(0)) if law == "laplace" else root(sum((s**2 for s in shares), Fraction(0)))

    def precision(self, table: Columns, subset: Columns) -> float:
        """How precisely a measured table tells a residual: its weight squared, over the cells summed for each."""
        others = math.prod(self.sizes[c] for c in table if c not in subset)
        return float(self.shares[table]) ** 2 / others

    def telling(self, subset: Columns) -> dict[Columns, float]:
        """The tables that hold a residual, with how precisely each tells it."""
        if subset not in self._known:
            self._known[subset] = {t: self.precision(t, subset) for t in self.shares if set(subset) <= set(t)}
        return self._known[subset]

    def error(self, workload: Workload) -> float:
        return sum(term.weight * term.questions * self.variance(self.ordered(term)) for term in workload.terms)

    def ordered(self, term: Term) -> Columns:
        """The columns of a term in the order of the cells."""
        return tuple(c for c in self.sizes if c in term.columns)

    def variance(self, table: Columns) -> float:
        """The variance of each cell of a table, for noise of variance 1 at weight 1."""
        return sum(
            marginals.share(self.sizes, subset, table) / sum(self.telling(subset).values())
            for length in range(len(table) + 1)
            for subset in itertools.combinations(table, length)
        )

    @property
    def largest(self) -> int:
        return 1

    def measure(self, counts: Counts) -> list[NDArray[Any]]:
        return [widened(counts[table], 1) for table in self.shares]

    def answers(self, workload: Workload, released: Sequence[NDArray[Any]], law: Law) -> list[Answers]:
        noisy = dict(zip(self.shares, released, strict=True))
        residuals: dict[Columns, Array] = {}
        found = []
        for term in workload.terms:
            table = self.ordered(term)
            covering(list(self.shares), term)
            for length in range(len(table) + 1):
                for subset in itertools.combinations(table, length):
                    if subset not in residuals:
                        residuals[subset] = self._residual(subset, noisy)
            values = _asked_of(term, marginals.assembled(residuals, table, self.sizes), workload)
            if term.marginal:
                squares, fourths = np.full(values.shape, self.variance(table)), np.full(values.shape, self.fourths(table))
                found.append(Answers(values, squares, fourths))
            else:
                found.append(Answers(values, spread(term, lambda s: 1 / sum(self.telling(s).values()), table), None))
        return found

    def _residual(self, subset: Columns, noisy: Mapping[Columns, NDArray[Any]]) -> Array:
        telling = self.telling(subset)
        whole = sum(telling.values())
        total = np.zeros(tuple(self.sizes[c] for c in subset))
        for table, precision in telling.items():
            summed = noisy[table].astype(np.float64).sum(axis=tuple(i for i, c in enumerate(table) if c not in subset))
            total = total + marginals.residual_of(marginals.differenced(summed)) * (precision / whole)
        return total

    def fourths(self, table: Columns) -> float:
        """The sum of fourth powers of what unit noise adds to a cell: the same for all cells of a table."""
        total = 0.0
        for measured, share in self.shares.items():
            common = [c for c in table if c in measured]
            apart = math.prod(self.sizes[c] for c in measured if c not in common)
            for size in range(len(common) + 1):
                for equal in itertools.combinations(common, size):
                    weight = 0.0
                    for length in range(len(common) + 1):
                        for subset in itertools.combinations(common, length):
                            telling = self.telling(subset)
                            part = telling[measured] / sum(telling.values())
                            part *= math.prod((c in equal) - 1 / self.sizes[c] for c in subset)
                            part /= math.prod(self.sizes[c] for c in table if c not in subset)
                            weight += part
                    cells = apart * math.prod(self.sizes[c] - 1 for c in common if c not in equal)
                    total += cells * (weight / float(share)) ** 4
        return total

    def describe(self) -> str:
        return f"{len(self.shares)} marginal tables, combined"


def _asked_of(term: Term, table: Array, workload: Workload) -> Array:
    """The answers of a term from the table of its columns, which stand in the order of the cells."""
    own = Workload(workload.cells.only(list(term.columns)), (term,)) if term.columns else None
    return np.asarray(table if own is None else own.answer(term, table))


def spread(term: Term, variance: Callable[[Columns], float], order: Columns) -> Array:
    """The variance of each answer of any questions about a table that is put together from residuals.

    The noise of residual A has the covariance variance(A) times the product of I - J / n over its columns, and is spread
    evenly over the others: a question q adds |q|^2 - (sum q)^2 / n for a column in A, and (sum q / n)^2 for one that is not.
    """
    inside, outside = {}, {}
    for column, factor in term.factors:
        rows = factor.matrix()
        sums = rows.sum(axis=1)
        inside[column] = (rows**2).sum(axis=1) - sums**2 / factor.size
        outside[column] = (sums / factor.size) ** 2
    found = np.zeros(term.shape)
    for length in range(len(order) + 1):
        for subset in itertools.combinations(order, length):
            part = np.asarray(variance(subset))
            for column, _ in term.factors:
                part = np.multiply.outer(part, inside[column] if column in subset else outside[column])
            found = found + part
    return found


# --- choosing ---


def candidates(workload: Workload, law: Law) -> list[JointStrategy]:
    """Everything that is tried for a workload. Single cells of all columns are among them where they are few enough."""
    found: list[JointStrategy | None] = []
    small = workload.cells.total <= LARGEST
    if small:
        columns = tuple(workload.cells.names)
        found.append(OneProduct(columns, tuple(identity(n) for n in workload.cells.shape)))
    if all(term.marginal for term in workload.terms):
        tables: dict[Columns, float] = {}
        places = {column: place for place, column in enumerate(workload.cells.names)}
        for term in workload.terms:
            key = tuple(sorted(term.columns, key=places.__getitem__))
            tables[key] = tables.get(key, 0.0) + term.weight
        if law == "gaussian":
            found.append(Residuals(marginals.residual_scales(workload.cells.sizes, tables)))
        elif len(workload.cells.sizes) <= 10 and small:
            weights = marginals.table_weights(workload.cells.sizes, tables).weights
            shares = {t: Fraction(max(1, round(w * FINE)), FINE) for t, w in weights.items()}
            found.append(WholeTables(workload.cells.sizes, shares))
        if law == "laplace":
            found.append(_as_asked(workload, tables))
    else:
        found.append(product_for(workload, law))
        apart = each_alone(workload, law) if len(workload.terms) > 1 else None
        found.append(None if apart is None else joined(apart, workload))
    return [one for one in found if one is not None]


def _as_asked(workload: Workload, tables: Mapping[Columns, float]) -> WholeTables:
    """The tables as they are asked for, weighted for least error if each were answered from itself, then combined."""
    sizes = workload.cells.sizes
    raw = {t: (w * math.prod(sizes[c] for c in t)) ** (1 / 3) for t, w in tables.items()}
    most = max(raw.values())
    return WholeTables(sizes, {t: Fraction(max(1, round(r / most * FINE)), FINE) for t, r in raw.items()})


def unit_error(selection: JointStrategy, workload: Workload, law: Law) -> float:
    """The weighted sum of squared errors at the unit price: Laplace noise at epsilon 1, Gaussian noise at sigma 1."""
    return (2 if law == "laplace" else 1) * float(selection.norm(law)) ** 2 * selection.error(workload)


def best(workload: Workload, law: Law) -> JointStrategy:
    """The candidate of least computed error."""
    found = candidates(workload, law)
    if not found:
        raise ParameterError(
            f"some questions are over more than {LARGEST:,} cells at once; ask about fewer columns together, or cut them into fewer cells"
        )
    return min(found, key=lambda one: unit_error(one, workload, law))
