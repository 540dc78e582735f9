"""Steps for people who own many rows: cap how many of them count, or make one row of each person.

Which rows of a person are kept depends on that person's own rows alone, by a keyed hash of their content. Other people's
rows do not matter, nor do the number and the order of the rows. A row without an identifier has no owner and is left out.

>>> from tacit.calculus import Identifiers, Integers, Space, count, table
>>> visits = Space(table(id=Integers(), cost=Integers(0, 50)), Identifiers("id"))
>>> plan = visits >> cap_rows("id", 2) >> count()
>>> plan({"id": [7] * 1000 + [8], "cost": [1] * 1001}), plan.map(1)
(3, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tacit.calculus.aggregates import times
from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Rows
from tacit.calculus.datasets import canonical, checked_salt, keys, owners, rows_of, take
from tacit.calculus.domains import Domain
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.functions import RAISED, guarded
from tacit.calculus.metrics import AddRemove, Hamming, Identifiers, ReplaceOne
from tacit.calculus.rows import members, records_domain
from tacit.parameters import count as whole


def _groups(data: Any, column: str, salt: bytes, *, people: bool) -> dict[Hashable, list[int]]:
    """The positions of the rows of each value of a column, in an order by content; where they are people, of each person."""
    named: list[Hashable] = owners(data, column) if people else keys(data[column])
    found: dict[Hashable, list[int]] = {}
    for i in canonical(data, salt):
        if named[i] is not None:
            found.setdefault(named[i], []).append(i)
    return found


@dataclass(frozen=True)
class CapRows(Step):
    """At most so many rows of each person."""

    column: str
    most: int
    salt: bytes = b""

    def bind(self, space: Space) -> Transformation:
        what = f"cap_rows({self.column!r}, {self.most})"
        records = records_domain(space, what)
        if space.metric != Identifiers(self.column):
            raise MetricError(f"{what} turns people into rows, and needs distances that count people: Identifiers({self.column!r})")
        column, most, salt = self.column, self.most, self.salt

        def run(data: Any) -> Any:
            kept = [i for group in _groups(data, column, salt, people=True).values() for i in group[:most]]
            return take(data, sorted(kept))

        proof = f"a person who comes or goes brings at most {most} rows, and other people's rows do not change"
        return Transformation(space, Space(Rows(records), AddRemove()), run, times(most), what, proof)


def cap_rows(column: str, most: int, *, salt: bytes = b"") -> CapRows:
    """Keep at most `most` rows of each person, named by `column`; distances count rows from here on."""
    return CapRows(column, whole("most", most), checked_salt(salt))


@dataclass(frozen=True)
class GroupBy(Step):
    """One row for each value of a column, made by a public function of that value's rows."""

    column: str
    function: Callable[[list[Any]], Any] = field(compare=False)
    output: Domain
    most: int | None = None
    salt: bytes = b""

    def bind(self, space: Space) -> Transformation:
        what = f"group_by({self.column!r})"
        records_domain(space, what)[self.column]
        match space.metric:
            case Identifiers() if space.metric.column == self.column:
                factor, proof = 1, "a person who comes or goes is one row"
            case AddRemove():
                factor, proof = 2, "one row changes one group: the old result goes and the new one comes"
            case ReplaceOne() | Hamming():
                factor, proof = 4, "an exchanged row changes two groups: two results go and two come"
            case _:
                raise MetricError(f"{what} mixes the rows of several people; group by {space.metric} or put cap_rows before it")

        def run(data: Any) -> Any:
            groups = _groups(data, self.column, self.salt, people=isinstance(space.metric, Identifiers)).values()
            made = [guarded(self.function, rows_of(take(data, group[: self.most]))) for group in groups]
            return members(self.output, (self.output.default if row is RAISED else row for row in made))

        return Transformation(space, Space(Rows(self.output), AddRemove()), run, times(factor), what, proof)


def group_by(column: str, function: Callable[[list[Any]], Any], output: Domain, *, most: int | None = None, salt: bytes = b"") -> GroupBy:
    """Make one row of each group of rows that share a value of `column`.

    The pure public function is given the group's rows, at most `most` of them, in an order that depends on their content only. What it
    returns is made a member of `output`; where it raises, the group counts as the default. Under `Identifiers(column)` the groups are
    people and the distance is unchanged; under add/remove it doubles (McSherry 2009).

    >>> from tacit.calculus import Identifiers, Integers, Space, table
    >>> visits = Space(table(id=Integers(), cost=Integers(0, 50)), Identifiers("id"))
    >>> plan = visits >> group_by("id", lambda rows: sum(row["cost"] for row in rows), Integers(0, 100))
    >>> sorted(plan({"id": [1, 1, 2], "cost": [10, 20, 50]}).tolist()), plan.map(1)
    ([30, 50], 1)
    """
    if not isinstance(output, Domain):
        raise DomainError(f"output must be the domain of a group's row, for example Integers(0, 10), not {type(output).__name__}")
    return GroupBy(column, function, output, None if most is None else whole("most", most), checked_salt(salt))
