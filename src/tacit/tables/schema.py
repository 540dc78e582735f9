"""What is public about a table: types, bounds and categories of its columns. Nothing of it is ever read from the data.

>>> schema = Schema.of({"age": (0, 110), "region": ["N", "S"], "cost": Column(bounds=(0, 5000), nullable=False)})
>>> schema.bounds["age"], schema.categories["region"]
((0, 110), ('N', 'S'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.tables.errors import TableError
from tacit.tables.measure import Interval
from tacit.tables.plan import interval_of


@dataclass(frozen=True)
class Column:
    """One column: its type (as the engine writes it), its bounds if it is a number, its categories if it has a public list of them."""

    type: str | None = None
    bounds: tuple[Any, Any] | None = None
    categories: tuple[Any, ...] | None = None
    nullable: bool = True

    def __post_init__(self) -> None:
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(self.categories))
        if self.bounds is not None:
            if len(tuple(self.bounds)) != 2:
                raise TableError("bounds must be two numbers, such as (0, 100)")
            object.__setattr__(self, "bounds", tuple(self.bounds))


@dataclass(frozen=True)
class Schema:
    """The public columns of a session's tables, by name."""

    columns: Mapping[str, Column] = field(default_factory=dict)

    @staticmethod
    def of(given: Schema | Mapping[str, Any] | None) -> Schema:
        """From a mapping: a pair of numbers is bounds, a list is categories, a text is a type."""
        if given is None:
            return Schema()
        if isinstance(given, Schema):
            return given
        return Schema({name: _column(name, value) for name, value in given.items()})

    @property
    def bounds(self) -> dict[str, Any]:
        """Bounds by column."""
        return {name: column.bounds for name, column in self.columns.items() if column.bounds is not None}

    @property
    def categories(self) -> dict[str, tuple[Any, ...]]:
        """Public categories by column."""
        return {name: column.categories for name, column in self.columns.items() if column.categories is not None}

    def interval(self, name: str) -> Interval | None:
        """The bounds of a column as an interval."""
        bounds = self.bounds.get(name)
        return None if bounds is None else interval_of(name, bounds)


def _column(name: str, value: Any) -> Column:
    if isinstance(value, Column):
        return value
    if isinstance(value, str):
        return Column(type=value)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in value):
        return Column(bounds=value)
    if isinstance(value, Mapping):
        unknown = set(value) - {"type", "bounds", "categories", "nullable"}
        if unknown:
            raise TableError(f"columns[{name!r}] may say type, bounds, categories and nullable, not {sorted(unknown)[0]!r}")
        return Column(**value)
    if isinstance(value, Sequence):
        return Column(categories=tuple(value))
    raise TableError(f"columns[{name!r}] must be bounds such as (0, 100), a list of categories, a type, or a Column")
