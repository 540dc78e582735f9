"""Columns: how values become cell numbers and cells become values again. Everything here is declared, and free.

Every value has a cell, whatever it is, so that no row can change a shape or raise an error. Categories that were not
declared go to "other" where there is one, else to missing; numbers and dates outside the bounds count in the nearest
bin; what is missing, not a number or of another type is missing, a cell of its own.

>>> age = NumberColumn("age", (0, 30, 60, 90), whole=True)
>>> age.encode([25, 61, -5, 1e308, None, "n/a", float("nan")]).tolist()
[0, 2, 0, 2, 3, 3, 3]
>>> age.size, CategoryColumn("sex", ("f", "m")).encode(["m", "x", None]).tolist()
(4, [1, 2, 2])
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError

Cells = NDArray[np.int64]
Values = Sequence[Any] | NDArray[Any]


class Coded(Sequence[Any]):
    """A column of texts as its different values and the place of every row's among them: a million rows cost one
    look-up for each different value.

    >>> rows = Coded(["f", "m", None], np.array([0, 2, 1, 0]))
    >>> list(rows), CategoryColumn("sex", ("m", "f")).encode(rows).tolist()
    (['f', None, 'm', 'f'], [1, 2, 0, 1])
    """

    def __init__(self, values: list[Any], places: NDArray[np.int64]) -> None:
        self.values, self.places = values, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, row: Any) -> Any:
        return self.values[self.places[row]]

    def __iter__(self) -> Iterator[Any]:
        return (self.values[place] for place in self.places.tolist())

    def taken(self, rows: NDArray[np.int64]) -> Coded:
        """Some of the rows."""
        return Coded(self.values, self.places[rows])


class Column(Protocol):
    """What a column of any type offers."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """The Arrow type of its values."""
        ...

    @property
    def size(self) -> int:
        """How many cells it has, with the one for missing values."""
        ...

    def encode(self, values: Values) -> Cells:
        """The cell of every value; total, so that it never raises."""
        ...

    def decode(self, cells: Cells, draws: np.random.Generator) -> list[Any]:
        """A value of the column's type for every cell; None where it is missing."""
        ...

    def labels(self) -> list[str]:
        """The cells in words."""
        ...


@dataclass(frozen=True)
class CategoryColumn:
    """Declared values: texts, booleans, codes. With `other`, values that were not declared have a cell of that name."""

    name: str
    values: tuple[Any, ...]
    other: Any = None

    def __post_init__(self) -> None:
        if not self.values or len({same_text(value) for value in self.values}) < len(self.values):
            raise ParameterError(f"the categories of {self.name} must be at least one, and each once")

    @property
    def kind(self) -> str:
        kinds = {type(value) for value in (*self.values, *([] if self.other is None else [self.other]))}
        return {bool: "bool", int: "int64", float: "double"}.get(kinds.pop(), "string") if len(kinds) == 1 else "string"

    @property
    def size(self) -> int:
        return len(self.values) + (self.other is not None) + 1

    def encode(self, values: Values) -> Cells:
        if isinstance(values, Coded):
            return self.encode(values.values)[values.places] if len(values) else np.zeros(0, dtype=np.int64)
        places = {same_text(value): place for place, value in enumerate(self.values)}
        missing = self.size - 1
        otherwise = missing - 1 if self.other is not None else missing
        found = np.empty(len(values), dtype=np.int64)
        for row, value in enumerate(values):
            key = same_text(value)
            found[row] = missing if key is None else places.get(key, otherwise)
        return found

    def decode(self, cells: Cells, draws: np.random.Generator) -> list[Any]:
        listed = [*self.values, *([] if self.other is None else [self.other])]
        listed = [*(map(str, listed) if self.kind == "string" else listed), None]
        return [listed[cell] for cell in cells.tolist()]

    def labels(self) -> list[str]:
        return [str(value) for value in self.values] + ([] if self.other is None else [str(self.other)]) + ["missing"]


@dataclass(frozen=True)
class NumberColumn:
    """Numbers in declared bins: edge i up to edge i + 1, the last one closed. Values are uniform within a bin.

    With `whole`, values are whole numbers, and so should be the edges.
    """

    name: str
    edges: tuple[float, ...]
    whole: bool = False

    def __post_init__(self) -> None:
        ends = np.asarray(self.edges, dtype=np.float64)
        if ends.size < 2 or not np.isfinite(ends).all() or not (np.diff(ends) > 0).all():
            raise ParameterError(f"the edges of {self.name} must be at least two finite numbers, increasing")

    @staticmethod
    def between(name: str, low: float, high: float, bins: int = 32, *, whole: bool = False) -> NumberColumn:
        """Bins of equal width between two declared bounds; of whole width for whole numbers.

        >>> NumberColumn.between("age", 0, 9, 4, whole=True).edges
        (0.0, 2.0, 5.0, 8.0, 10.0)
        """
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ParameterError(f"the bounds of {name} must be finite and in order, the lower one first")
        if whole:
            edges = np.unique(np.rint(np.linspace(low, high + 1, min(bins, int(high - low) + 1) + 1)))
        else:
            edges = np.linspace(low, high, bins + 1)
        return NumberColumn(name, tuple(edges.tolist()), whole)

    @property
    def kind(self) -> str:
        return "int64" if self.whole else "double"

    @property
    def size(self) -> int:
        return len(self.edges)  # one bin fewer than edges, and one cell for missing values

    def encode(self, values: Values) -> Cells:
        numbers = as_numbers(values)
        known = ~np.isnan(numbers)
        inside = np.searchsorted(np.asarray(self.edges[1:-1]), np.where(known, numbers, 0.0), side="right")
        return np.where(known, inside, self.size - 1).astype(np.int64)

    def decode(self, cells: Cells, draws: np.random.Generator) -> list[Any]:
        edges = np.asarray(self.edges)
        missing = cells == self.size - 1
        bin_ = np.where(missing, 0, cells)
        low, high = edges[bin_], edges[bin_ + 1]
        if self.whole:
            first = np.ceil(low)
            last = np.maximum(first, np.ceil(high) - 1)
            drawn = first + np.floor(draws.random(len(cells)) * (last - first + 1))
            return [None if gone else int(value) for value, gone in zip(drawn.tolist(), missing.tolist(), strict=True)]
        drawn = low + draws.random(len(cells)) * (high - low)
        return [None if gone else value for value, gone in zip(drawn.tolist(), missing.tolist(), strict=True)]

    def labels(self) -> list[str]:
        """The bins in words; of whole numbers those that a bin holds.

        >>> NumberColumn("age", (0, 1, 18, 65), whole=True).labels(), NumberColumn("cost", (0, 0.5, 1)).labels()
        (['0', '1 to 17', '18 to 64', 'missing'], ['0 to 0.5', '0.5 to 1', 'missing'])
        """
        bins = list(pairwise(self.edges))
        if self.whole and all(float(edge).is_integer() for edge in self.edges):
            found = [str(int(low)) if high - low == 1 else f"{int(low)} to {int(high) - 1}" for low, high in bins]
        else:
            found = [f"{low:g} to {high:g}" for low, high in bins]
        return [*found, "missing"]


@dataclass(frozen=True)
class DateColumn:
    """Dates in declared bins: the first days of the bins, and the day after the last.

    >>> stay = DateColumn("admitted", (datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), datetime.date(2026, 3, 1)))
    >>> stay.encode([datetime.date(2026, 2, 3), "2026-01-09", "never", None]).tolist()
    [1, 0, 2, 2]
    """

    name: str
    edges: tuple[datetime.date, ...]

    def __post_init__(self) -> None:
        dates = all(isinstance(edge, datetime.date) and not isinstance(edge, datetime.datetime) for edge in self.edges)
        if not dates or len(self.edges) < 2 or any(low >= high for low, high in itertools.pairwise(self.edges)):
            raise ParameterError(f"the edges of {self.name} must be at least two dates, increasing, such as datetime.date(2026, 1, 1)")

    @property
    def days(self) -> NumberColumn:
        """The same bins, in days."""
        return NumberColumn(self.name, tuple(float(edge.toordinal()) for edge in self.edges), whole=True)

    @property
    def kind(self) -> str:
        return "date32"

    @property
    def size(self) -> int:
        return len(self.edges)

    def encode(self, values: Values) -> Cells:
        return self.days.encode(as_days(values))

    def decode(self, cells: Cells, draws: np.random.Generator) -> list[Any]:
        drawn = self.days.decode(cells, draws)
        return [None if day is None else datetime.date.fromordinal(day) for day in drawn]

    def labels(self) -> list[str]:
        last = [high - datetime.timedelta(days=1) for high in self.edges[1:]]
        bins = zip(self.edges[:-1], last, strict=True)
        found = [low.isoformat() if low == high else f"{low.isoformat()} to {high.isoformat()}" for low, high in bins]
        return [*found, "missing"]


def as_numbers(values: Values) -> NDArray[np.float64]:
    """Values as floats; NaN for what is none. Infinities stay, and fall into the outermost bins."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if isinstance(values, Coded):
        return as_numbers(values.values)[values.places] if len(values) else np.zeros(0)
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    if value is None or isinstance(value, bool | np.bool_):
        return math.nan if value is None else float(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # whatever a value in the data does must not show
        return math.nan


def as_days(values: Values) -> NDArray[np.float64]:
    """Dates, and texts that begin like 2026-01-31, as days from the first of the year 1; NaN for what is none."""
    if isinstance(values, Coded):
        return as_days(values.values)[values.places] if len(values) else np.zeros(0)
    return np.array([_day(value) for value in values], dtype=np.float64)


def _day(value: Any) -> float:
    try:
        if isinstance(value, datetime.date):  # a datetime is one too
            return float(value.toordinal())
        return float(datetime.date.fromisoformat(str(value)[:10]).toordinal())
    except Exception:
        return math.nan


def same_text(value: Any) -> Any:
    """What makes two values the same category: their text, so that 1, 1.0, True and "1" from a file are told apart
    only where their texts differ. None for a missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        value = int(value) if value.is_integer() else value
    try:
        return str(value)
    except Exception:
        return None
