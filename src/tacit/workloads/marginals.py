"""The best way to measure many marginal tables at once, in closed form and without a matrix.

Every table of counts over some columns is the sum of residuals, one for each subset of those columns: what the
subset's own table adds to the tables of fewer columns. Residuals of different subsets are orthogonal, so each can
be measured with noise of its own and every table put together from them.

Under Gaussian noise the best scales are known in closed form (`residual_scales`; Xiao et al. 2023, ResidualPlanner).
A residual is measured as the whole table of its subset with independent noise on whole numbers, of which only the
differences along every column are kept: that costs less than the table itself, see `Residual`. Under Laplace noise
whole tables are measured, with weights that are searched for (`table_weights`; McKenna et al. 2018, OPT_M).

>>> sizes = {"a": 2, "b": 3, "c": 4}
>>> pairs = {("a", "b"): 1.0, ("a", "c"): 1.0, ("b", "c"): 1.0}
>>> round(residual_scales(sizes, pairs).total, 6)
50.850421
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from tacit.errors import ParameterError
from tacit.workloads.optimal import spread
from tacit.workloads.workload import Array

Columns = tuple[str, ...]
#: More subsets than this are refused: each of them is measured.
MOST = 2_000_000


def subsets(tables: Iterable[Columns], order: Sequence[str]) -> list[Columns]:
    """Every subset of every table, each once, small ones first, columns in one order.

    >>> subsets([("b", "a")], ["a", "b"])
    [(), ('a',), ('b',), ('a', 'b')]
    """
    place = {column: i for i, column in enumerate(order)}
    found: set[tuple[int, ...]] = set()
    for table in tables:
        places = sorted(place[column] for column in table)
        for size in range(len(places) + 1):
            found.update(itertools.combinations(places, size))
        if len(found) > MOST:
            raise ParameterError(f"these tables have over {MOST} subsets of columns; ask for tables of fewer columns")
    return [tuple(order[i] for i in one) for one in sorted(found, key=lambda one: (len(one), one))]


# --- Gaussian noise: residuals ---


@dataclass(frozen=True)
class ResidualScales:
    """The deviation of the noise of each residual, at the unit price; `total` is the weighted sum of all variances."""

    sizes: Mapping[str, int]
    deviations: Mapping[Columns, float]
    total: float

    def variance(self, table: Columns) -> float:
        """The variance of each cell of a table put together from its residuals."""
        inside = set(table)
        found = 0.0
        for size in range(len(table) + 1):
            for subset in itertools.combinations([c for c in self.sizes if c in inside], size):
                found += self.deviations[subset] ** 2 * share(self.sizes, subset, table)
        return found


def share(sizes: Mapping[str, int], subset: Columns, table: Columns) -> float:
    """What a residual's unit variance adds to each cell of a table: it is spread over the other columns' cells."""
    inside = set(subset)
    kept = math.prod((sizes[c] - 1) / sizes[c] for c in subset)
    return kept * math.prod(1.0 / sizes[c] ** 2 for c in table if c not in inside)


def cost(sizes: Mapping[str, int], subset: Columns) -> Fraction:
    """The squared distance that one row moves a residual: the product of (n - 1) / n over its columns.

    >>> cost({"a": 2, "b": 3}, ("a", "b"))
    Fraction(1, 3)
    """
    return math.prod((Fraction(sizes[c] - 1, sizes[c]) for c in subset), start=Fraction(1))


def residual_scales(sizes: Mapping[str, int], tables: Mapping[Columns, float]) -> ResidualScales:
    """The deviations of least weighted sum of variances over all cells of the tables, at the unit price.

    One row moves the residual of A by p_A in squared distance, so noise of variance s_A costs sum p_A / s_A; and
    the sum of variances is sum v_A s_A. By Cauchy-Schwarz the least of it at cost 1 is (sum sqrt(p_A v_A))^2, at
    s_A = S sqrt(p_A / v_A) with S = sum sqrt(p_A v_A).
    """
    order = list(sizes)
    place = {column: i for i, column in enumerate(order)}
    needed: dict[Columns, float] = dict.fromkeys(subsets(tables, order), 0.0)
    for table, weight in tables.items():
        ordered = sorted(table, key=place.__getitem__)
        # What each subset adds: (n - 1) / n for a column in it, 1 / n^2 for one that is not, once for every cell.
        parts: list[tuple[Columns, float]] = [((), weight * math.prod(sizes[column] for column in table))]
        for column in ordered:
            n = sizes[column]
            outside, inside = 1 / n**2, (n - 1) / n
            parts = [(subset, value * outside) for subset, value in parts] + [
                ((*subset, column), value * inside) for subset, value in parts
            ]
        for subset, value in parts:
            needed[subset] += value
    kept = {subset: (math.prod((sizes[c] - 1) / sizes[c] for c in subset), v) for subset, v in needed.items()}
    whole = sum(math.sqrt(p * v) for p, v in kept.values())
    # A column with a single cell has no residual: nothing moves it, and nothing needs to be drawn for it.
    deviations = {s: math.sqrt(whole * math.sqrt(p / v)) if p > 0 else 0.0 for s, (p, v) in kept.items()}
    return ResidualScales(sizes, deviations, whole**2)


def differenced(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The differences of neighbouring cells along every column: all that is kept of a noisy table.

    >>> differenced(np.array([[1, 5], [2, 9]])).tolist()
    [[3]]
    """
    for axis in range(table.ndim):
        table = np.diff(table, axis=axis)
    return table


def residual_of(differences: NDArray[np.int64]) -> Array:
    """The residual with these differences: the one table with them whose sums along every column are zero.

    >>> residual_of(np.array([[3]])).tolist()
    [[0.75, -0.75], [-0.75, 0.75]]
    """
    table = differences.astype(object) if differences.dtype == object else differences
    for axis in range(table.ndim):
        start = np.zeros_like(np.take(table, [0], axis=axis)) if table.shape[axis] else None
        if start is None:  # a column with one cell
            shape = list(table.shape)
            shape[axis] = 1
            table = np.zeros(shape, dtype=table.dtype)
        else:
            table = np.concatenate([start, table.cumsum(axis=axis)], axis=axis)
    found = np.asarray(table, dtype=np.float64)
    for axis in range(found.ndim):
        found = found - found.mean(axis=axis, keepdims=True)
    return found


def assembled(residuals: Mapping[Columns, Array], table: Columns, sizes: Mapping[str, int]) -> Array:
    """A table put together from the residuals of its subsets, each spread evenly over the other columns."""
    total = np.zeros(tuple(sizes[c] for c in table))
    for length in range(len(table) + 1):
        for places in itertools.combinations(range(len(table)), length):
            subset = tuple(table[i] for i in places)
            shape = [sizes[c] if i in places else 1 for i, c in enumerate(table)]
            others = math.prod(sizes[c] for i, c in enumerate(table) if i not in places)
            total = total + residuals[subset].reshape(shape) / others
    return total


# --- Laplace noise: whole tables with weights ---


@dataclass(frozen=True)
class TableWeights:
    """Weights of the tables that are measured, summing to 1, and the summed squared error at epsilon 1."""

    sizes: Mapping[str, int]
    weights: Mapping[Columns, float]
    total: float


def table_weights(sizes: Mapping[str, int], tables: Mapping[Columns, float], starts: int = 100) -> TableWeights:
    """Weights theta of tables, of any subset of the columns, for least error.

    The error is 2 (sum theta)^2 sum_B dim_B omega_B / kappa_B over residuals B, with
    kappa_B = sum over measured a containing B of theta_a^2 prod_{i not in a} n_i and
    omega_B the same sum over the tables that are asked. It is not convex, so several starts are tried, the
    tables as they are asked and the full table always among them.
    """
    order = list(sizes)
    asked = {tuple(c for c in order if c in set(table)): weight for table, weight in tables.items()}
    residuals = subsets(asked, order)
    full = tuple(order)
    # Every subset of all columns may be measured, where they are few; else those of the tables, and the full one.
    measured = subsets([full], order) if len(order) <= 10 else [*residuals, full]
    if len(residuals) * len(measured) > 4_000_000:
        raise ParameterError(f"{len(residuals)} subsets are too many for Laplace noise; use Gaussian noise")
    volume = math.prod(sizes.values())
    outside = np.array([volume / math.prod(sizes[c] for c in a) for a in measured])
    sets = [frozenset(a) for a in measured]
    inner = [frozenset(b) for b in residuals]
    holds = np.array([[b <= a for a in sets] for b in inner], dtype=np.float64)
    dims = np.array([math.prod(sizes[c] - 1 for c in b) for b in residuals], dtype=np.float64)
    omega = np.array(
        [
            sum(w * volume / math.prod(sizes[c] for c in t) for t, w in asked.items() if b <= frozenset(t))
            for b in inner
        ]
    )
    need = dims * omega

    def objective(theta: Array) -> tuple[float, Array]:
        kappa = holds @ (theta**2 * outside)
        total = float((need / kappa).sum())
        slope = -(holds.T @ (need / kappa**2)) * 2 * theta * outside / total + 2 / theta.sum()
        return math.log(theta.sum() ** 2 * total), np.asarray(slope)

    begins = [np.where([a in asked for a in measured], 1.0, 1e-3), np.where([a == full for a in measured], 1.0, 1e-3)]
    begins += [spread(start, len(measured)) ** 4 for start in range(1, 1 + (starts if len(measured) <= 100 else 4))]
    best: tuple[float, Array] | None = None
    for begin in begins:
        # The full table has a floor, so that every residual is measured by something.
        bounds = [(1e-6 if a == full else 0.0, None) for a in measured]
        options = {"maxiter": 3000, "maxfun": 6000}
        found = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    theta = best[1] / best[1].sum()
    kept = {table: weight for table, weight in zip(measured, theta.tolist(), strict=True) if weight > 1e-5}
    return TableWeights(sizes, kept, 2 * math.exp(best[0]))
