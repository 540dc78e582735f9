"""What is public about tables: types, bounds and categories of columns, and foreign keys. Nothing of it is ever read from the data.

>>> schema = Schema.of({"age": (0, 110), "region": ["N", "S"], "cost": Column(bounds=(0, 5000), nullable=False)})
>>> schema.bounds["age"], schema.categories["region"]
((0, 110), ('N', 'S'))

Where there are several tables, a column may be named with its table, and one that names a row of another table says so:

>>> schema = Schema.of({"visit.person_id": Column(references="person.id"), "visit.cost": (0, 50), "drug.cost": (0, 80)})
>>> str(schema.links[0]), schema.bounds["cost"]
('visit.person_id -> person.id', (0, 80))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tacit.tables.errors import TableError
from tacit.tables.plan import interval_of
from tacit.tables.question import Question
from tacit.tables.relation import Field, Relation
from tacit.tables.statistics import Interval
from tacit.tables.unit import Link, links_of, parted


@dataclass(frozen=True)
class Column:
    """One column: its type (as the engine writes it), its bounds if it is a number, its categories if it has a public list of them.

    `references` names the table and key that its values are rows of: a foreign key, such as 'person.id'.
    """

    type: str | None = None
    bounds: tuple[Any, Any] | None = None
    categories: tuple[Any, ...] | None = None
    nullable: bool = True
    references: str | None = None

    def __post_init__(self) -> None:
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(self.categories))
        if self.references is not None:
            parted("references", self.references)
        if self.bounds is not None:
            if len(tuple(self.bounds)) != 2:
                raise TableError("bounds must be two numbers, such as (0, 100)")
            object.__setattr__(self, "bounds", tuple(self.bounds))


@dataclass(frozen=True)
class Schema:
    """The public columns of a session's tables, by name, or by table and name: 'visit.cost'."""

    columns: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bare = [name for name, column in self.columns.items() if column.references is not None and "." not in name]
        if bare:
            raise TableError(f"columns[{bare[0]!r}] references another table, so its own must be named too, such as 'visit.{bare[0]}'")

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
        """Bounds by column. Values are clamped to them, so where two tables bound a name differently, the wider hold for both."""
        found: dict[str, Any] = {name: column.bounds for name, column in self.columns.items() if column.bounds is not None}
        for name, (low, high) in list(found.items()):
            bare = name.rpartition(".")[2]
            if bare != name:
                known = found.get(bare, (low, high))
                found[bare] = (min(known[0], low), max(known[1], high))
        return found

    @property
    def categories(self) -> dict[str, tuple[Any, ...]]:
        """Public categories by column; a name that two tables list differently has none without its table."""
        found = {name: column.categories for name, column in self.columns.items() if column.categories is not None}
        for bare in {name.rpartition(".")[2] for name in found if "." in name} - set(found):
            lists = {listed for name, listed in found.items() if name.rpartition(".")[2] == bare}
            if len(lists) == 1:
                found[bare] = lists.pop()
        return found

    def bounds_of(self, question: Question, columns: Set[str]) -> dict[str, Any]:
        """Bounds by the names that a question has for its columns; `columns` are the names in the tables themselves.

        A renamed column keeps its bounds. A computed one, such as SUM(cost) AS cost by person, does not take those of its namesake.
        """
        declared, fields = self.bounds, _fields(question)
        found = dict(declared)
        for name in columns - {field_.name for field_ in fields} if fields else ():
            # A column that is not there: its bounds are not those of a figure that is called so.
            found.pop(name, None)
        for field_ in fields:
            own = _declared(declared, field_.declared_as)
            if own is not None:
                found[field_.name] = own
            elif field_.name in columns and field_.declared_as.rpartition(".")[2] != field_.name:
                found.pop(field_.name, None)
        return found

    def categories_of(self, question: Question, columns: Set[str]) -> dict[str, tuple[Any, ...]]:
        """Public categories by the names of a question's keys, as with bounds: those of UPPER(region) AS region are not the region's."""
        found, known = self.categories, {field_.name: field_ for field_ in _fields(question)}
        keys: dict[str, tuple[Any, ...]] = {}
        for key in question.keys:
            inner = key.value.this if isinstance(key.value, exp.Cast) else key.value
            field_ = known.get(inner.name) if isinstance(inner, exp.Column) else None
            own = _declared(found, field_.declared_as) if field_ is not None else None
            if own is None and (not known or key.name not in columns):
                own = found.get(key.name)
            if own is not None:
                keys[key.name] = own
        return keys

    @property
    def links(self) -> tuple[Link, ...]:
        """The declared foreign keys."""
        return links_of({name: column.references for name, column in self.columns.items() if column.references is not None})

    def interval(self, name: str) -> Interval | None:
        """The bounds of a column as an interval."""
        bounds = self.bounds.get(name)
        return None if bounds is None else interval_of(name, bounds)


def _fields(question: Question) -> tuple[Field, ...]:
    return (question.relation.fields or ()) if isinstance(question.relation, Relation) else ()


def _declared(found: Mapping[str, Any], name: str) -> Any:
    """What is declared of 'visits.age' under this name, or under its column's alone."""
    return found.get(name, found.get(name.rpartition(".")[2])) if name else None


def _column(name: str, value: Any) -> Column:
    if isinstance(value, Column):
        return value
    if isinstance(value, str):
        return Column(type=value)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in value):
        return Column(bounds=value)
    if isinstance(value, Mapping):
        unknown = set(value) - {"type", "bounds", "categories", "nullable", "references"}
        if unknown:
            raise TableError(f"columns[{name!r}] may say type, bounds, categories, nullable and references, not {sorted(unknown)[0]!r}")
        return Column(**value)
    if isinstance(value, Sequence):
        return Column(categories=tuple(value))
    raise TableError(f"columns[{name!r}] must be bounds such as (0, 100), a list of categories, a type, or a Column")
