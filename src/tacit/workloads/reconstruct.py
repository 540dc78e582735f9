"""Figures without noise's oddities: none below 0, all whole, and every table adding up to every other.

Least squares gives unbiased figures that agree with each other but may be negative or broken. This module takes them
(never the data) and finds whole figures nearby: non-negative, with the same total, and consistent, so that men and
women add up to all in every published table. The price of it is a bias: a cell without rows can only move up, by at
most half of the expected size of its noise (b / 2 under Laplace noise of scale b), and cells with rows give that up.
So these figures are published beside the unbiased ones, never in their place.

>>> simplex(np.array([5.0, -1.0, 2.0]), 6.0).tolist()
[4.5, 0.0, 1.5]
>>> running(np.array([0.4, 0.4, 0.4, 1.8]), 3).tolist()
[0, 1, 0, 2]
>>> controlled(np.array([[0.5, 0.5], [0.5, 1.5]]), [1, 2], [1, 2]).tolist()
[[1, 0], [0, 2]]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.mechanisms import Law
from tacit.workloads.joint_strategy import EachAlone, Joined, JointStrategy, OneProduct
from tacit.workloads.marginals import Columns, assembled, subsets
from tacit.workloads.strategy import identity
from tacit.workloads.workload import Array, Cells, Identity, Term, Workload

Whole = NDArray[np.int64]
#: The most cells that are fitted together, and the most cells of all tables that are made to agree.
MOST_CELLS, MOST_OF_TABLES = 300_000, 5_000_000
#: Tables of three and more columns that overlap are repaired row by row; so many of them at most.
MOST_REPAIRED = 1000
#: Rounds of alternating projections, and of gradient steps.
ROUNDS, STEPS = 120, 400


def impossible(workload: Workload, selection: JointStrategy) -> str | None:
    """Why there would be no whole figures for a workload, in words; None if there are. No data is needed to know.

    >>> from tacit.workloads import Marginals, best
    >>> pairs = Marginals("a", "b", ways=2).on(Cells.of({"a": 2, "b": 3}))
    >>> impossible(pairs, best(pairs, "gaussian")) is None
    True
    """
    if isinstance(selection, OneProduct | EachAlone) and not _asks_tables(workload, selection):
        if workload.cells.total <= MOST_CELLS:
            return None
        if not isinstance(selection, Joined):
            return f"whole figures need at most {MOST_CELLS:,} cells of all columns together; these have {workload.cells.total:,}"
    tables = _largest(workload)
    cells = sum(math.prod(workload.cells.sizes[c] for c in table) for table in tables)
    if cells > MOST_OF_TABLES:
        return f"whole figures need tables of at most {MOST_OF_TABLES:,} cells together; these have {cells:,}"
    wide = sum(len(table) > 2 for table in tables)
    if wide > MOST_REPAIRED:
        return f"whole figures need at most {MOST_REPAIRED} tables of three and more columns; there are {wide}"
    return None


def whole_figures(
    workload: Workload, selection: JointStrategy, released: Sequence[NDArray[Any]], law: Law
) -> list[NDArray[Any]]:
    """The answers of every term from whole, non-negative counts that agree: arrays of the terms' shapes.

    Nothing but what was released is used, so this costs nothing.
    """
    why = impossible(workload, selection)
    if why is not None:
        raise ParameterError(why)
    together = not _asks_tables(workload, selection) and workload.cells.total <= MOST_CELLS
    if isinstance(selection, OneProduct | EachAlone) and together:
        counts = whole_cells(fitted_cells(selection, workload.cells, released))
        return workload.answers(counts)
    sizes = workload.cells.sizes
    asked = tuple(Term(tuple((c, Identity(sizes[c])) for c in table)) for table in _largest(workload))
    estimates = selection.answers(Workload(workload.cells, asked), released, law)
    made = whole_tables({t.columns: e.values for t, e in zip(asked, estimates, strict=True)})
    found = []
    for term in workload.terms:
        table = next(t for t in made if set(term.columns) <= set(t))
        found.append(Workload(workload.cells.only(list(table)), (term,)).answer(term, made[table]))
    return found


def _asks_tables(workload: Workload, selection: JointStrategy) -> bool:
    """Whether the tables can be taken as they are: all of them are asked for, and each cell was measured by itself or by residuals."""
    plain = not isinstance(selection, OneProduct) or all(s == identity(s.size) for s in selection.strategies)
    return plain and all(term.marginal for term in workload.terms)


def _largest(workload: Workload) -> list[Columns]:
    """The sets of columns of all terms that lie in no other, in the order of the cells."""
    names = list(workload.cells.names)
    sets = {frozenset(term.columns) for term in workload.terms if term.columns} or {frozenset(names[:1])}
    kept = [one for one in sets if not any(one < other for other in sets)]
    return sorted((tuple(c for c in names if c in one) for one in kept), key=lambda t: [names.index(c) for c in t])


# --- one vector ---


def simplex(values: Array, total: float) -> Array:
    """The nearest non-negative numbers with this sum: one amount is taken off, and what falls below 0 is 0."""
    flat = np.sort(values.ravel())[::-1]
    excess = (flat.cumsum() - total) / np.arange(1, flat.size + 1)
    kept = np.nonzero(flat > excess)[0]
    least = excess[kept[-1]] if total > 0 and len(kept) else math.inf
    return np.asarray(np.maximum(values - least, 0.0))


def running(values: Array, total: int) -> Whole:
    """Whole numbers with this sum whose running totals are off by at most a half: any range by at most 1.

    The values are non-negative; they are first scaled to the sum.
    """
    whole = float(values.sum())
    scaled = values * (total / whole) if whole > 0 else np.full(values.shape, total / values.size)
    marks = np.floor(scaled.cumsum() + 0.5).astype(np.int64)
    marks[-1] = total
    return np.diff(np.minimum(marks, total), prepend=0)


# --- tables with given sums ---


def controlled(table: Array, rows: Sequence[int] | Whole, columns: Sequence[int] | Whole) -> Whole:
    """A whole table with these sums of rows and columns, near the given one.

    The table is brought to the sums (Altschuler, Weed, Rigollet 2017: scale down, then add what is missing as a
    product), rounded down, and what is then missing is given to the cells with the largest fractions.
    """
    wanted_rows, wanted_columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    near = _with_sums(np.maximum(table, 0.0), wanted_rows.astype(np.float64), wanted_columns.astype(np.float64))
    found = np.floor(near + 1e-9).astype(np.int64)
    fractions = near - found
    left_rows, left_columns = (wanted_rows - found.sum(axis=1)).tolist(), (wanted_columns - found.sum(axis=0)).tolist()
    width = table.shape[1]
    for place in np.argsort(-fractions, axis=None, kind="stable").tolist():
        row, column = divmod(place, width)
        if left_rows[row] > 0 and left_columns[column] > 0:
            found[row, column] += 1
            left_rows[row] -= 1
            left_columns[column] -= 1
    # Rows and columns may be left that have no fraction in common.
    short = [column for column, missing in enumerate(left_columns) for _ in range(missing)]
    for row, missing in enumerate(left_rows):
        for _ in range(missing):
            found[row, short.pop()] += 1
    return found


def _with_sums(table: Array, rows: Array, columns: Array) -> Array:
    """A non-negative table with exactly these sums (up to rounding), by a few rounds of scaling and a remainder."""

    def ratio(wanted: Array, given: Array) -> Array:
        return np.divide(wanted, given, out=np.zeros_like(wanted), where=given > 0)

    found = table
    for _ in range(12):
        found = found * ratio(rows, found.sum(axis=1))[:, None]
        found = found * ratio(columns, found.sum(axis=0))
    found = found * np.minimum(ratio(rows, found.sum(axis=1)), 1.0)[:, None]
    left_rows, left_columns = rows - found.sum(axis=1), columns - found.sum(axis=0)
    left_rows, left_columns = left_rows.clip(min=0.0), left_columns.clip(min=0.0)
    missing = float(left_rows.sum())
    return np.asarray(found + np.outer(left_rows, left_columns) / missing) if missing > 1e-12 else found


def whole_cells(cells: Array) -> Whole:
    """Whole counts near non-negative ones, one column after the other; each column's own sums are off by at most 1."""
    total = round(float(cells.sum()))
    axes = range(cells.ndim)
    found = running(cells.sum(axis=tuple(axes[1:])), total)
    for axis in axes[1:]:
        margin = running(cells.sum(axis=tuple(a for a in axes if a != axis)), total)
        table = cells.sum(axis=tuple(axes[axis + 1 :])).reshape(-1, cells.shape[axis])
        found = controlled(table, found.ravel(), margin)
    return found.reshape(cells.shape)


# --- all cells together ---


def fitted_cells(selection: OneProduct | EachAlone, cells: Cells, released: Sequence[NDArray[Any]]) -> Array:
    """Non-negative cells that explain the measurements best, with the total of least squares.

    The squared distance to every measured sum, each in its scale, is made small by accelerated projected gradient.
    """
    parts: list[tuple[OneProduct, float, Sequence[NDArray[Any]]]] = []
    if isinstance(selection, OneProduct):
        parts.append((selection, 1.0, released))
    else:
        place = 0
        for part, share in zip(selection.parts, selection.shares, strict=True):
            parts.append((part, float(share) ** 2, released[place : place + len(part.weights)]))
            place += len(part.weights)
    names = list(cells.names)

    def gathered(part: OneProduct, blocks: Sequence[NDArray[Any]]) -> Array:
        """Measured sums back on the cells of all columns."""
        found = list(blocks)
        for axis in reversed(range(len(part.strategies))):
            strategy, many = part.strategies[axis], len(part.strategies[axis].weights)
            found = [strategy.gather(found[i : i + many], axis) for i in range(0, len(found), many)]
            found = [np.take(one, range(strategy.size), axis=axis) for one in found]  # without the cells filled up
        return found[0].reshape([n if c in part.columns else 1 for c, n in cells.sizes.items()])

    def summed(x: Array, part: OneProduct) -> list[NDArray[Any]]:
        blocks: list[NDArray[Any]] = [x.sum(axis=tuple(i for i, c in enumerate(names) if c not in part.columns))]
        for axis, strategy in enumerate(part.strategies):
            blocks = [block for table in blocks for block in strategy.measure(table, axis)]
        return blocks

    def normal(x: Array) -> Array:
        return np.asarray(sum(share * gathered(part, summed(x, part)) for part, share, _ in parts) + np.zeros(cells.shape))

    wanted = np.asarray(sum(share * gathered(part, blocks) for part, share, blocks in parts) + np.zeros(cells.shape))
    steepest, direction = 1.0, np.ones(cells.shape)
    for _ in range(30):
        direction = normal(direction)
        steepest = float(np.linalg.norm(direction))
        direction = direction / steepest
    steepest *= 1.05
    free = _solved(normal, wanted)
    total = float(max(0, round(float(free.sum()))))
    x = simplex(free, total)
    ahead, momentum = x, 1.0
    for _ in range(STEPS):
        new = simplex(ahead - (normal(ahead) - wanted) / steepest, total)
        if float(((ahead - new) * (new - x)).sum()) > 0:  # past the best: start afresh
            momentum, ahead = 1.0, x
            new = simplex(x - (normal(x) - wanted) / steepest, total)
        later = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead, momentum = new + (momentum - 1) / later * (new - x), later
        moved, x = float(np.abs(new - x).max()), new
        if moved < 1e-4:
            break
    return x


def _solved(normal: Any, wanted: Array) -> Array:
    """Least squares without bounds, by conjugate gradients."""
    x = np.zeros_like(wanted)
    left = wanted.copy()
    way, size = left, float((left**2).sum())
    stop = 1e-20 * size
    for _ in range(300):
        if size <= stop:
            break
        through = normal(way)
        step = size / float((way * through).sum())
        x, left = x + step * way, left - step * through
        size, before = float((left**2).sum()), size
        way = left + size / before * way
    return x


# --- overlapping tables ---


def whole_tables(estimates: Mapping[Columns, Array]) -> dict[Columns, Whole]:
    """Whole, non-negative tables near the estimates, which agree on all columns that they share.

    >>> pairs = {("sex", "age"): np.array([[3.2, 1.1], [-0.4, 2.0]]), ("sex", "town"): np.array([[2.2, 2.1], [1.5, 0.1]])}
    >>> made = whole_tables(pairs)
    >>> {columns: table.sum(axis=1).tolist() for columns, table in made.items()}
    {('sex', 'age'): [4, 2], ('sex', 'town'): [4, 2]}
    """
    order = list(dict.fromkeys(c for table in estimates for c in table))
    sizes = {c: table.shape[names.index(c)] for names, table in estimates.items() for c in names}
    first = next(iter(estimates.values()))
    total = max(0, round(float(first.sum())))
    if len(estimates) == 1:
        return {names: whole_cells(simplex(table, float(total))) for names, table in estimates.items()}
    real = agreeing(estimates, sizes, order, float(total))
    made: dict[Columns, Whole] = {}
    sums: dict[Columns, Array] = {}
    for subset in subsets(estimates, order):
        held = next(names for names in real if set(subset) <= set(names))
        sums[subset] = _margin(real[held], held, subset)
        if len(subset) == 1:
            made[subset] = running(sums[subset], total)
        elif len(subset) == 2:
            made[subset] = controlled(sums[subset], made[subset[:1]], made[subset[1:]])
        elif subset:
            made[subset] = _completed(sums[subset], subset, made)
    found = {names: made[_ordered(names, order)] for names in estimates}
    if any(len(names) > 2 for names in estimates):
        _repair(found, real, sizes)
    return found


def _ordered(names: Columns, order: Sequence[str]) -> Columns:
    return tuple(c for c in order if c in names)


def _margin(table: NDArray[Any], names: Columns, subset: Columns) -> NDArray[Any]:
    summed = table.sum(axis=tuple(i for i, c in enumerate(names) if c not in subset))
    kept = [c for c in names if c in subset]
    return np.asarray(np.transpose(summed, [kept.index(c) for c in subset]))


def agreeing(estimates: Mapping[Columns, Array], sizes: Mapping[str, int], order: Sequence[str], total: float) -> dict[Columns, Array]:
    """The nearest non-negative tables with one total that agree on what they share: Dykstra's alternating projections."""
    inside = {names: [s for n in range(len(names) + 1) for s in combinations(names, n)] for names in estimates}
    x = dict(estimates)
    shift = {names: np.zeros(table.shape) for names, table in estimates.items()}
    result = x
    for _ in range(ROUNDS):
        sums: dict[Columns, Any] = {}
        weights: dict[Columns, float] = {}
        for names, table in x.items():
            moved = table + shift[names]
            kept = np.maximum(moved, 0.0)
            shift[names] = moved - kept
            for subset in inside[names]:
                own = kept.sum(axis=tuple(i for i, c in enumerate(names) if c not in subset))
                for axis in range(own.ndim):
                    own = own - own.mean(axis=axis, keepdims=True)
                others = math.prod(sizes[c] for c in names if c not in subset)
                sums[subset] = sums.get(subset, 0.0) + own / others
                weights[subset] = weights.get(subset, 0.0) + 1 / others
        residuals = {subset: np.asarray(value / weights[subset]) for subset, value in sums.items()}
        residuals[()] = np.asarray(total)
        x = {names: assembled(residuals, names, sizes) for names in estimates}
        result = x
        if all(float(table.min()) > -0.02 for table in x.values()):
            break
    return {names: np.maximum(table, 0.0) for names, table in result.items()}


def _completed(real: Array, names: Columns, made: Mapping[Columns, Whole]) -> Whole:
    """A whole table of three or more columns whose sums are exactly the smaller tables.

    Cells away from every column's fullest value are rounded; the others follow from the sums, and may be negative.
    """
    fullest = [int(made[(c,)].argmax()) for c in names]
    away = [np.array([i for i in range(n) if i != f], dtype=np.int64) for n, f in zip(real.shape, fullest, strict=True)]
    found = np.zeros(real.shape, dtype=np.int64)
    found[np.ix_(*away)] = np.rint(real[np.ix_(*away)]).astype(np.int64)
    for axis in range(real.ndim):
        others = names[:axis] + names[axis + 1 :]
        held = [np.arange(n) if a < axis else away[a] for a, n in enumerate(real.shape) if a != axis]
        rest = found.sum(axis=axis)  # the slice that is filled in is still 0
        place = np.ix_(*held)
        slots = [*held[:axis], np.array([fullest[axis]]), *held[axis:]]
        found[np.ix_(*slots)] = np.expand_dims(made[others][place] - rest[place], axis)
    return found


def _repair(tables: dict[Columns, Whole], real: Mapping[Columns, Array], sizes: Mapping[str, int]) -> None:
    """Make negative cells 0 by putting rows in and taking others out: whole rows, so that all tables go on agreeing."""
    negative = [(names, tuple(place)) for names, table in tables.items() for place in np.argwhere(table < 0).tolist()]

    def change(row: Mapping[str, int], by: int) -> None:
        for names, table in tables.items():
            table[tuple(row[c] for c in names)] += by

    def filled(row: dict[str, int], taken: bool) -> dict[str, int]:
        """The row with its other columns chosen: where counts are most below the estimates, or where there are rows."""
        for column, size in sizes.items():
            if column in row:
                continue
            score = np.full(size, math.inf) if taken else np.zeros(size)
            for names, table in tables.items():
                if column in names:
                    held = tuple(row.get(c, slice(None)) for c in names)
                    free = [c for c in names if c not in row]
                    part = (table if taken else real[names] - table)[held]
                    own = part.sum(axis=tuple(i for i, c in enumerate(free) if c != column))
                    score = np.minimum(score, own) if taken else score + own
            row[column] = int(score.argmax())
        return row

    for names, place in negative:
        while tables[names][place] < 0:
            change(filled(dict(zip(names, place, strict=True)), False), 1)
            # Take one out where counts are most above the estimates, if that leaves no cell negative.
            excess = tables[names] - real[names]
            excess = np.where(tables[names] > 0, excess, -math.inf)
            full = np.unravel_index(int(excess.argmax()), excess.shape)
            row = filled({c: int(i) for c, i in zip(names, full, strict=True)}, True)
            if all(table[tuple(row[c] for c in t)] > 0 for t, table in tables.items()):
                change(row, -1)
