"""Declared foreign keys: which column of a table names a row of another, so that a row can be followed to the person it is about.

A link is public and is declared, never found in the data. The column it points to is a key: at most one row has each value of it. Where
the data break that, a row counts for every person it leads to, each time within that person's caps.

>>> links = links_of({"visit.person_id": "person.id", "drug.visit_id": "visit.id"})
>>> [str(link) for link in ways("drug", "person.id", links)[0]]
['drug.visit_id -> visit.id', 'visit.person_id -> person.id']
>>> ways("person", "person.id", links), ways("ward", "person.id", links)
([()], [])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.tables.errors import Refused, TableError


@dataclass(frozen=True)
class Link:
    """A foreign key: each value of `column` in `table` is one of `to_column` in `to_table`."""

    table: str
    column: str
    to_table: str
    to_column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column} -> {self.to_table}.{self.to_column}"


def parted(what: str, name: object) -> tuple[str, str]:
    """A table and a column of it, from 'person.id'; the table's own name may have dots."""
    table, dot, column = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not dot or not table or not column:
        raise TableError(f"{what} must be a table and its column, such as 'person.id', not {name!r}")
    return table, column


def links_of(given: Mapping[str, str]) -> tuple[Link, ...]:
    """Links from {'visit.person_id': 'person.id'}."""
    return tuple(Link(*parted("a column with a foreign key", name), *parted(f"what {name} references", to)) for name, to in given.items())


def ways(table: str, key: str, links: Sequence[Link]) -> list[tuple[Link, ...]]:
    """All ways from a table's rows to a key, along links. The key's own table has the empty way.

    Rows of the key's table that lead to other rows of it (an employee's manager) have several owners, and a circle leads nowhere:
    both are refused.
    """
    goal, _ = parted("key", key)
    found: list[tuple[Link, ...]] = [()] if table == goal else []
    for link in links:
        if link.table == table:
            found += _onward((link,), goal, links)
    return found


def _onward(way: tuple[Link, ...], goal: str, links: Sequence[Link]) -> list[tuple[Link, ...]]:
    here = way[-1].to_table
    if len({link.table for link in way}) < len(way) or here in {link.table for link in way}:
        raise Refused(
            f"the foreign keys from {way[0].table} lead round in a circle ({', '.join(map(str, way))}), so a row may belong to any number "
            "of people; leave one of them undeclared only if it is not about people, or ask about a table outside the circle"
        )
    found = [way] if here == goal else []
    for link in links:
        if link.table == here:
            found += _onward((*way, link), goal, links)
    return found
