"""Steps on a data set as a whole: drop copies, unite, add public rows, bring to a public size, join with a public table.

A data set is a multiset: which rows a step keeps depends on what they are, not on where they stand.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, clamp
>>> numbers = Space(Rows(Integers(0, 9)), AddRemove())
>>> sorted((numbers >> distinct())([3, 3, 1]).tolist())
[1, 3]
>>> (numbers >> union(clamp(0, 5), clamp(0, 9))).map(1)  # every row is used twice
2
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.calculus.aggregates import times
from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Records, Rows
from tacit.calculus.datasets import canonical, checked_salt, keys, length, rows_of, take
from tacit.calculus.domains import Domain, Integers, Lattice, Reals, listed
from tacit.calculus.errors import CalculusError, DomainError, MetricError
from tacit.calculus.functions import loses_rows
from tacit.calculus.metrics import AddRemove, Identifiers, ReplaceOne
from tacit.calculus.rows import members, records_domain, rows_domain
from tacit.parameters import count as whole


@dataclass(frozen=True)
class Distinct(Step):
    """Each row once."""

    def bind(self, space: Space) -> Transformation:
        rows = rows_domain(space, "distinct")
        output, factor = loses_rows(space, rows.element)
        return Transformation(space, output, _once, times(factor), "distinct()", "a row comes or goes only with its last copy")


def _once(data: Any) -> Any:
    first: dict[Hashable, int] = {}
    for i, row in enumerate(keys(data)):
        first.setdefault(row, i)
    return take(data, list(first.values()))


def distinct() -> Distinct:
    """Drop the copies of a row."""
    return Distinct()


def _together(element: Domain, parts: Sequence[Any]) -> Any:
    """Data sets of one element put one after another."""
    if isinstance(element, Records):
        return {name: _joined([part[name] for part in parts]) for name in element.names}
    return _joined(list(parts))


def _joined(columns: list[Any]) -> Any:
    if all(isinstance(column, np.ndarray) for column in columns):
        kinds = {column.dtype for column in columns}
        return np.concatenate([column.astype(object) for column in columns] if len(kinds) > 1 else columns)
    return [value for column in columns for value in listed(column)]


@dataclass(frozen=True)
class Union(Step):
    """What several transformations make of the same data, together."""

    branches: tuple[Step, ...]

    def bind(self, space: Space) -> Transformation:
        plans = [branch.bind(space) for branch in self.branches]
        made = [plan for plan in plans if isinstance(plan, Transformation)]
        if not made or len(made) != len(plans):
            raise CalculusError("union puts transformations together; give it steps that end in rows, not in noise")
        first = made[0].output
        elements = [_element(plan.output) for plan in made]
        widest = [element for element in elements if all(element.contains(other) for other in elements)]
        if any(plan.output.metric != first.metric for plan in made) or not widest:
            raise DomainError("the branches of a union must end in rows of one domain, measured one way; clamp or cast them alike")
        if not isinstance(first.metric, (AddRemove, ReplaceOne)):
            raise MetricError(f"a union has no stability under {first.metric}; put cap_rows(column, most) or unordered() before it")
        sizes = [plan.output.domain.size for plan in made if isinstance(plan.output.domain, Rows)]
        size = None if None in sizes else sum(n for n in sizes if n is not None)
        element, unproved = widest[0], tuple(name for plan in made for name in plan.unproved)
        return Transformation(
            space,
            Space(Rows(element, size), first.metric),
            lambda data: _together(element, [plan.function(data) for plan in made]),
            lambda d: sum((plan.map(d) for plan in made), start=0),
            f"union({', '.join(plan.name for plan in made)})",
            None if unproved else "the distances of the branches add up, as every row is used in each",
            unproved=unproved,
        )


def _element(space: Space) -> Domain:
    if not isinstance(space.domain, Rows):
        raise DomainError(f"union puts rows together, not {space.domain}")
    return space.domain.element


def union(*branches: Step) -> Union:
    """What each of the steps makes of the data, in one data set; each use is charged."""
    return Union(branches)


@dataclass(frozen=True)
class Append(Step):
    """The data and some public rows."""

    rows: Any = field(compare=False)

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, "append")
        if isinstance(space.metric, Identifiers):
            raise MetricError("public rows may name a person who is in the data; put cap_rows(column, most) before append")
        extra = Rows(domain.element).enforce(self.rows)
        size = None if domain.size is None else domain.size + length(extra)
        return Transformation(
            space,
            Space(Rows(domain.element, size), space.metric),
            lambda data: _together(domain.element, [data, extra]),
            lambda d: d,
            f"append({length(extra)} public rows)",
            "the same rows on both sides",
        )


def append(rows: Any) -> Append:
    """Add public rows, made members of the domain."""
    return Append(rows)


@dataclass(frozen=True)
class Resize(Step):
    """A public number of rows: some dropped, or a public constant added."""

    size: int
    constant: Any = field(default=None, compare=False)
    salt: bytes = b""

    def bind(self, space: Space) -> Transformation:
        domain, size, salt = rows_domain(space, "resize"), self.size, self.salt
        if isinstance(space.metric, Identifiers):
            raise MetricError("resize counts rows, not people; put cap_rows(column, most) before it")
        filler = members(domain.element, [domain.element.default if self.constant is None else self.constant])
        if not (self.constant is None or rows_of(filler) == [self.constant] or domain.element.member(self.constant)):
            raise DomainError(f"constant must be a row of {domain.element}")

        def run(data: Any) -> Any:
            kept = take(data, canonical(data, salt)[:size])
            missing = size - length(kept)
            return _together(domain.element, [kept, take(filler, [0] * missing)]) if missing else kept

        return Transformation(
            space,
            Space(Rows(domain.element, size), ReplaceOne()),
            run,
            lambda d: d,
            f"resize({size})",
            # Pad the data with endless constants at the end of the order: the output is the first n of it. One row more pushes out at most
            # one, one row less lets in at most one, and an exchange that does both at once changes at most one of the first n.
            "the first n rows of an order by content: one row more or less exchanges at most one of them",
        )


def resize(size: int, constant: Any = None, *, salt: bytes = b"") -> Resize:
    """Make the number of rows public: keep `size` of them, or fill up with a public constant (the domain's default unless stated).

    Which rows are kept is decided by a keyed hash of their content, so it depends on the multiset alone and equal rows stay together; use
    another `salt` for another choice. The price: rows beyond `size` do not count, and constants do.

    >>> from tacit.calculus import AddRemove, Integers, Rows, Space
    >>> plan = Space(Rows(Integers(0, 9)), AddRemove()) >> resize(4, 5)
    >>> sorted(plan([1, 2]).tolist()), plan.output.metric, plan.map(1)
    ([1, 2, 5, 5], ReplaceOne(), 1)
    """
    return Resize(whole("size", size), constant, checked_salt(salt))


@dataclass(frozen=True)
class JoinPublic(Step):
    """Each row with the rows of a public table that share its key."""

    on: str
    public: Mapping[str, Any] = field(compare=False)
    domains: tuple[tuple[str, Domain], ...]

    def bind(self, space: Space) -> Transformation:
        what = f"join_public({self.on!r})"
        records, on = records_domain(space, what), self.on
        clash = [name for name, _ in self.domains if name in records]
        if clash:
            raise DomainError(f"the table has a column {', '.join(clash)} already; rename it in the public table")
        matches = _by_key(_readable(records[on], self.public[on]))
        added = {name: Rows(domain).enforce(self.public[name]) for name, domain in self.domains}
        most = max((len(found) for found in matches.values()), default=0)
        output, factor = loses_rows(space, Records({**dict(records.fields), **dict(self.domains)}), most)

        def run(data: Any) -> dict[str, Any]:
            pairs = [(i, j) for i, row in enumerate(keys(data[on])) for j in matches.get(row, ())]
            left, right = take(data, [i for i, _ in pairs]), take(added, [j for _, j in pairs])
            return {**left, **right}

        proof = f"a row meets at most {most} rows of the public table"
        return Transformation(space, output, run, times(factor), what, proof)


def _readable(domain: Domain, column: Any) -> Any:
    """The public keys as the private column holds its own: 1 and 1.0 are different keys."""
    return domain.enforce(column) if isinstance(domain, (Integers, Lattice, Reals)) else column


def _by_key(column: Any) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for i, value in enumerate(keys(column)):
        found.setdefault(value, []).append(i)
    return found


def join_public(on: str, public: Mapping[str, Any], **columns: Domain) -> JoinPublic:
    """Join with a public table on a column both have; `columns` are the domains of the public columns to add.

    Rows without a match are dropped. A row is multiplied at most as often as the public table repeats a key.

    >>> from tacit.calculus import AddRemove, Categories, Space, table
    >>> cities = {"city": ["Bonn", "Graz", "Graz"], "river": ["Rhein", "Mur", "Andritz"]}
    >>> rivers = Categories(("Rhein", "Mur", "Andritz"))
    >>> people = Space(table(city=Categories(("Bonn", "Graz", "Wien"))), AddRemove())
    >>> plan = people >> join_public("city", cities, river=rivers)
    >>> plan({"city": ["Graz", "Wien"]}), plan.map(1)
    ({'city': ['Graz', 'Graz'], 'river': ['Mur', 'Andritz']}, 2)
    """
    absent = [name for name in (on, *columns) if name not in public]
    if absent:
        raise DomainError(f"the public table has no column {', '.join(absent)}")
    if len({len(public[name]) for name in (on, *columns)}) > 1:
        raise DomainError("the columns of the public table must be equally long")
    if not columns:
        raise DomainError("name at least one column of the public table with its domain")
    return JoinPublic(on, public, tuple(columns.items()))


