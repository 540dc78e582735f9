"""Constraints: what every made-up row obeys, because everyone knows that real rows do. Declared, and free.

Four kinds: `Determines` (one column follows from another), `Impossible` (values that do not occur together), `Ordered`
(start <= end) and `Sums` (a total of other columns). They are built into the model as cells that cannot occur, and
where bins are wider than a value, values are drawn so that they hold exactly. A missing value breaks no rule but those
that name it. Rules that no row without missing values can keep are refused from the declared columns alone.

>>> from tacit.synthesis.columns import CategoryColumn, NumberColumn
>>> columns = [CategoryColumn("sex", ("f", "m")), CategoryColumn("pregnant", (True, False)),
...            NumberColumn("start", (0, 5, 10), whole=True), NumberColumn("end", (0, 5, 10), whole=True)]
>>> rules = [Impossible({"sex": ["m"], "pregnant": [True]}), Ordered(("start", "end"))]
>>> tables = possible(columns, rules)
>>> tables[0, 1].tolist()  # a row for f, m, missing
[[True, True, True], [False, True, True], [True, True, True]]
>>> tables[2, 3].tolist()  # a start from 5 to 10 has no end below 5
[[True, True, True], [False, True, True], [True, True, True]]
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.synthesis.columns import CategoryColumn, Cells, Column, DateColumn, NumberColumn, same_text
from tacit.synthesis.estimate import Floats, barred
from tacit.synthesis.inference import Passing
from tacit.synthesis.junction_tree import Clique, cells, junction_tree

#: The largest model that constraints alone may need, in cells.
CAP = 1_000_000
CONTRADICTION = "no row without missing values can keep all of these constraints"


@dataclass(frozen=True)
class Determines:
    """The category `source` says what `target` is: {"nurse": "ward", "surgeon": "theatre"}. Others are free."""

    source: str
    target: str
    values: Mapping[Any, Any]


@dataclass(frozen=True)
class Impossible:
    """Values that do not occur together: a list of categories (None is missing), or (low, high) for numbers and dates,
    from one edge of the bins to another."""

    values: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Ordered:
    """Columns of numbers or of dates, each at most the next where both are known."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Sums:
    """A column of numbers that is the sum of others, where all of them are known."""

    total: str
    parts: tuple[str, ...]


Constraint = Determines | Impossible | Ordered | Sums
Tables = dict[Clique, NDArray[np.bool_]]


def possible(columns: Sequence[Column | None], constraints: Sequence[Constraint], *, cap: int = CAP) -> Tables:
    """Which cells can occur, for every set of columns that a constraint joins. Refuses what cannot be kept.

    A column whose cells are not declared is None here, and no constraint can name it.
    """
    places = {column.name: place for place, column in enumerate(columns) if column is not None}
    listed = {column.name: column for column in columns if column is not None}
    settled: set[str] = set()
    found: Tables = {}
    for one in constraints:
        for name in _named(one):
            if name not in places:
                raise ParameterError(f"a constraint names {name}, which is not among the columns, or has no declared bins")
        for name in _drawn(one):
            if name in settled:
                raise ParameterError(f"{name} stands in two constraints that say what its value is; use one")
            settled.add(name)
        for names, table in _tables(one, listed, cap):
            order = sorted(range(len(names)), key=lambda axis: places[names[axis]])
            clique = tuple(places[names[axis]] for axis in order)
            turned = np.transpose(table, order)
            found[clique] = found[clique] & turned if clique in found else turned
    sizes = [1 if column is None else column.size for column in columns]
    needed = cells(sizes, found)
    if found and needed > cap:
        raise ParameterError(f"these constraints need a model of {needed} cells, above the cap of {cap}: use fewer bins")
    _kept_by_some_row(sizes, found)
    return found


def _kept_by_some_row(sizes: Sequence[int], tables: Tables) -> None:
    if not tables:
        return
    known = {}
    for clique, table in tables.items():
        known[clique] = table.copy()
        for axis in range(table.ndim):
            np.moveaxis(known[clique], axis, 0)[-1] = False  # the last cell of a column is a missing value
    tree = junction_tree(sizes, known)
    try:
        Passing(tree).marginals(barred(tree, known))
    except ParameterError:
        raise ParameterError(CONTRADICTION) from None


def _named(one: Constraint) -> tuple[str, ...]:
    """The columns of a constraint, each once."""
    if isinstance(one, Determines):
        names: tuple[str, ...] = (one.source, one.target)
    elif isinstance(one, Impossible):
        names = tuple(one.values)
    elif isinstance(one, Ordered):
        names = tuple(one.columns)
    else:
        names = (one.total, *one.parts)
    if len(set(names)) < len(names) or len(names) < (1 if isinstance(one, Impossible) else 2):
        raise ParameterError("a constraint names at least two columns, and each once")
    return names


def _drawn(one: Constraint) -> tuple[str, ...]:
    """The columns whose values, not only cells, a constraint settles."""
    if isinstance(one, Impossible):
        return ()
    return (one.target,) if isinstance(one, Determines) else _named(one)


def _tables(
    one: Constraint, columns: Mapping[str, Column], cap: int
) -> list[tuple[tuple[str, ...], NDArray[np.bool_]]]:
    """The possible cells of one constraint, by the names of its columns."""
    if isinstance(one, Determines):
        return [((one.source, one.target), _determined(one, columns[one.source], columns[one.target]))]
    if isinstance(one, Impossible):
        return [(tuple(one.values), ~_together([_some(columns[name], given) for name, given in one.values.items()]))]
    if isinstance(one, Ordered):
        if len({isinstance(columns[name], DateColumn) for name in one.columns}) > 1:
            raise ParameterError("dates and numbers have no order; order columns of one kind")
        spans = {name: _span(columns[name]) for name in one.columns}
        # Some values are in order if and only if no first value lies above the last one of a later column.
        return [
            ((a, b), _with_missing(spans[a][0][:, None] <= spans[b][1][None, :]))
            for a, b in itertools.combinations(one.columns, 2)
        ]
    names = (one.total, *one.parts)
    if any(isinstance(columns[name], DateColumn) for name in names):
        raise ParameterError("dates cannot be added")
    if _whole(columns[one.total]) and not all(_whole(columns[name]) for name in one.parts):
        raise ParameterError(f"{one.total} is whole, and a sum of numbers that are not need not be")
    if math.prod(columns[name].size for name in names) > cap:
        raise ParameterError(f"the sum {one.total} needs more than {cap} cells: use fewer bins")
    spans = {name: _span(columns[name]) for name in names}
    low, high = (
        sum((end.reshape([-1 if axis == place else 1 for axis in range(len(names))])
             for place, end in enumerate([spans[name][side] for name in names]) if place), np.zeros([1] * len(names)))
        for side in (0, 1)
    )  # fmt: skip
    first, last = (end.reshape([-1, *[1] * len(one.parts)]) for end in spans[one.total])
    whole = all(_whole(columns[name]) for name in names)
    meets = (low <= last) & (first <= high) if whole else (low < last) & (first < high)
    return [(names, _with_missing(meets))]


def _determined(one: Determines, source: Column, target: Column) -> NDArray[np.bool_]:
    if not isinstance(source, CategoryColumn):
        raise ParameterError(f"{one.source} must have categories to say what {one.target} is")
    found = np.ones((source.size, target.size), dtype=bool)
    for value, given in one.values.items():
        from_, to = (int(column.encode([word])[0]) for column, word in ((source, value), (target, given)))
        if from_ >= len(source.values) or to == target.size - 1 or not _inside(target, given):
            raise ParameterError(f"a value that {one.source} or {one.target} does not have is named by a constraint")
        found[from_] = np.arange(target.size) == to
    return found


def _inside(column: Column, value: Any) -> bool:
    """Whether a declared value is one of the column's own, not one that encoding moves to the nearest cell."""
    if isinstance(column, CategoryColumn):
        return same_text(value) in {same_text(known) for known in column.values}
    first, last = _span(column)
    number = float(value.toordinal() if isinstance(value, datetime.date) else value)
    return bool(first[0] <= number <= last[-1]) and (not _whole(column) or number.is_integer())


def _some(column: Column, given: Sequence[Any]) -> NDArray[np.bool_]:
    """The cells that a list of categories or a range of bins names."""
    found = np.zeros(column.size, dtype=bool)
    if isinstance(column, CategoryColumn):
        for value in given:
            cell = int(column.encode([value])[0])
            if value is not None and same_text(value) not in {same_text(known) for known in (*column.values, column.other)}:
                raise ParameterError(f"a constraint names a value that {column.name} does not have")
            found[cell] = True
        return found
    edges = list(getattr(column, "edges", ()))
    if len(given) != 2 or any(end not in edges for end in given) or not given[0] < given[1]:
        raise ParameterError(f"a range of {column.name} must go from one edge of its bins to a higher one")
    found[edges.index(given[0]) : edges.index(given[1])] = True
    return found


def _together(parts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    found = np.ones(tuple(len(part) for part in parts), dtype=bool)
    for axis, part in enumerate(parts):
        found &= part.reshape([-1 if axis == other else 1 for other in range(len(parts))])
    return found


def _with_missing(table: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """One more cell along every axis, for missing values, which keep every rule."""
    return np.pad(table, [(0, 1)] * table.ndim, constant_values=True)


def _whole(column: Column) -> bool:
    return isinstance(column, DateColumn) or bool(getattr(column, "whole", False))


def _span(column: Column) -> tuple[Floats, Floats]:
    """The first and the last value of every bin, as numbers."""
    bins = column.days if isinstance(column, DateColumn) else column
    if not isinstance(bins, NumberColumn):
        raise ParameterError(f"{column.name} has categories; orders and sums need numbers or dates in bins")
    edges = np.asarray(bins.edges, dtype=np.float64)
    if not bins.whole:
        return edges[:-1], edges[1:]
    first = np.ceil(edges[:-1])
    return first, np.maximum(first, np.ceil(edges[1:]) - 1)


def settle(
    constraints: Sequence[Constraint], columns: Sequence[Column], rows: Sequence[Cells],
    made: dict[str, list[Any]], draws: np.random.Generator,
) -> None:
    """Replace the values of constrained columns by ones in the same bins that keep the constraints exactly."""
    known = {column.name: (column, part) for column, part in zip(columns, rows, strict=True)}
    for one in constraints:
        if isinstance(one, Determines):
            column = known[one.target][0]
            text = isinstance(column, CategoryColumn) and column.kind == "string"
            given = {same_text(value): str(to) if text else _typed(column, to) for value, to in one.values.items()}
            made[one.target] = [
                given.get(same_text(value), kept)
                for value, kept in zip(made[one.source], made[one.target], strict=True)
            ]
        elif isinstance(one, Ordered):
            _settle_order([known[name] for name in one.columns], made, draws)
        elif isinstance(one, Sums):
            _settle_sum([known[name] for name in (one.total, *one.parts)], made, draws)


def _typed(column: Column, value: Any) -> Any:
    if isinstance(column, NumberColumn):
        return int(value) if column.whole else float(value)
    return value


def _settle_order(parts: Sequence[tuple[Column, Cells]], made: dict[str, list[Any]], draws: np.random.Generator) -> None:
    """From the first column on, each between the one before and the least end of those to come."""
    spans = [_rowwise(column, rows, unknown=(-math.inf, math.inf)) for column, rows in parts]
    before = np.full(len(parts[0][1]), -math.inf)
    for place, (column, rows) in enumerate(parts):
        missing = rows == column.size - 1
        low = np.maximum(spans[place][0], before)
        high = np.minimum.reduce([last for _, last in spans[place:]])
        drawn = _uniform(np.where(missing, 0.0, low), np.where(missing, 0.0, high), _whole(column), draws)
        before = np.where(missing, before, drawn)
        made[column.name] = _values(column, drawn, missing)


def _settle_sum(parts: Sequence[tuple[Column, Cells]], made: dict[str, list[Any]], draws: np.random.Generator) -> None:
    """Parts one after another, each so that the rest can still reach the bin of the total; then the total."""
    known = np.logical_and.reduce([rows != column.size - 1 for column, rows in parts])
    spans = [_rowwise(column, rows, unknown=(0.0, 0.0)) for column, rows in parts]
    (first, last), rest = spans[0], spans[1:]
    so_far = np.zeros(len(known))
    for place, (column, _) in enumerate(parts[1:]):
        least = sum((low for low, _ in rest[place + 1 :]), np.zeros(len(known)))
        most = sum((high for _, high in rest[place + 1 :]), np.zeros(len(known)))
        low = np.maximum(rest[place][0], first - so_far - most)
        high = np.minimum(rest[place][1], last - so_far - least)
        drawn = _uniform(np.where(known, low, 0.0), np.where(known, high, 0.0), _whole(column), draws)
        so_far = so_far + drawn
        _put(column, drawn, known, made)
    _put(parts[0][0], so_far, known, made)


def _put(column: Column, drawn: Floats, where: NDArray[np.bool_], made: dict[str, list[Any]]) -> None:
    new = _values(column, drawn, ~where)
    made[column.name] = [
        value if there else kept for value, kept, there in zip(new, made[column.name], where.tolist(), strict=True)
    ]


def _rowwise(column: Column, rows: Cells, unknown: tuple[float, float]) -> tuple[Floats, Floats]:
    first, last = (np.append(ends, other) for ends, other in zip(_span(column), unknown, strict=True))
    return first[rows], last[rows]


def _uniform(low: Floats, high: Floats, whole: bool, draws: np.random.Generator) -> Floats:
    place = draws.random(len(low))
    if whole:
        return np.asarray(np.minimum(np.ceil(low) + np.floor(place * (np.floor(high) - np.ceil(low) + 1)), high))
    return np.asarray(np.minimum(np.maximum(low + place * (high - low), low), high))


def _values(column: Column, drawn: Floats, missing: NDArray[np.bool_]) -> list[Any]:
    kind: Any = float
    if isinstance(column, DateColumn):
        kind = lambda day: datetime.date.fromordinal(int(day))  # noqa: E731
    elif _whole(column):
        kind = int
    return [None if gone else kind(value) for value, gone in zip(drawn.tolist(), missing.tolist(), strict=True)]
