"""The unit of privacy: whom the guarantee protects, and how much one of them may contribute.

>>> Unit("patient_id", max_rows=12)
Unit(person='patient_id', max_rows=12)
>>> Unit("patient_id", max_groups=4, rows_per_group=3).most_rows
12
>>> Unit.row()
Unit(row)
>>> Unit("patient_id", max_rows=12, window="month", when="admitted").window
'month'

A row is followed to the person it is about along declared foreign keys. They are public, and never found in the data. The column that one
points to is a key: at most one row has each value of it. Where the data break that, a row counts for every person it leads to, each time
within that person's caps.

>>> links = links_of({"visit.person_id": "person.id", "drug.visit_id": "visit.id"})
>>> [str(link) for link in ways("drug", "person.id", links)[0]]
['drug.visit_id -> visit.id', 'visit.person_id -> person.id']
>>> ways("person", "person.id", links), ways("ward", "person.id", links)
([()], [])
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tacit.accounting import Adjacency, ParameterError
from tacit.ledger import WINDOWS
from tacit.parameters import Number, count, nonnegative, probability
from tacit.tables.errors import Refused, TableError

#: A word for a unit: it stands in sentences, files and pages, so it is nothing but a word.
CALLED = re.compile("[a-zà-öø-ÿ]+(?:[ -][a-zà-öø-ÿ]+){0,2}")


@dataclass(frozen=True)
class Auto:
    """A bound or a cap to be found privately: what it may cost, and the range it is looked for in."""

    epsilon: Number
    most: int = 1024
    quantile: float = 0.95

    def __post_init__(self) -> None:
        nonnegative("epsilon", self.epsilon)
        object.__setattr__(self, "most", count("most", self.most))
        probability("quantile", self.quantile)


def auto(epsilon: Number, *, most: int = 1024, quantile: float = 0.95) -> Auto:
    """A cap or bounds chosen privately for `epsilon`: a cap that about a share `quantile` of people stays below, at most `most`.

    >>> auto(0.1).most
    1024
    """
    return Auto(epsilon, most, quantile)


@dataclass(frozen=True)
class Reach:
    """How far one unit's rows can spread: over how many groups, in all, and the greatest sum of squared rows in a group; and for whom."""

    groups: int
    rows: int
    heaped: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @property
    def exchanged(self) -> bool:
        """Whether neighbours differ by an exchange."""
        return self.adjacency is Adjacency.REPLACE_ONE


@dataclass(frozen=True, repr=False)
class Unit:
    """One person with all of their rows (`person` names the column that tells people apart), or a single row.

    A person's rows are capped before anything is computed: at `max_rows` in all, or at `max_groups` groups of a question with at most
    `rows_per_group` rows in each. Which are kept is chosen at random. With `window` ('day', 'month', ...) and `when`, a public
    date column, the unit is what a person does within one such period, and each question is about one period.
    `capped=True` declares that the data already obey the caps, so that no capping is run; the guarantee then rests on that.
    `called` is the word for one unit in everything that people read: household, device. Without it a unit with a `person` is a person.
    `Unit.node` protects a person with the rows of many tables, or a party to edges; `Unit.edge` a relation between two.
    """

    person: str | None = None
    max_rows: int | Auto | None = None
    max_groups: int | None = None
    rows_per_group: int | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    capped: bool = False
    window: str | None = None
    when: str | None = None
    key: str | None = None
    ends: tuple[str, str] | None = None
    directed: bool = False
    called: str | None = None

    def __post_init__(self) -> None:
        try:
            relation = Adjacency.parse(self.adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
        except ParameterError as error:
            raise TableError(str(error)) from None
        object.__setattr__(self, "adjacency", relation)  # "replace-one" is read too
        if self.called is not None and not (isinstance(self.called, str) and CALLED.fullmatch(self.called)):
            raise TableError("called must be a word for one unit, in the singular and in small letters, such as 'household'")
        if self.called is not None and (self.person is None or self.key is not None or self.ends is not None):
            raise TableError("called names what a column tells apart, such as household_id; rows, nodes and edges have names")
        if (self.window is None) != (self.when is None):
            raise TableError(code="window-incomplete")
        if self.window is not None and self.window not in WINDOWS:
            raise TableError(f"window must be one of {', '.join(WINDOWS)}, not {self.window!r}")
        if (self.key is not None or self.ends is not None) and self.window is not None:
            raise TableError("window: a person within a period is told by columns of the person's own rows; edges and nodes have no window")
        if self.ends is not None and self.person is None:
            self._check_node()
            return
        if self.person is None:
            if (self.max_rows, self.max_groups, self.rows_per_group) != (1, 1, 1):
                raise TableError("a unit needs the column that tells people apart: Unit('patient_id', max_rows=12); or write Unit.row()")
            return
        if not isinstance(self.person, str) or not self.person:
            raise TableError("person must be the name of a column, such as 'patient_id'")
        for name in ("max_rows", "max_groups", "rows_per_group"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Auto):
                object.__setattr__(self, name, count(name, value))
        if self.max_rows is None and (self.max_groups is None or self.rows_per_group is None):
            raise TableError(code="cap-missing")

    @staticmethod
    def row(adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Unit:
        """Every row is its own unit. Only for data with at most one row a person: otherwise it protects no person."""
        return Unit(None, 1, 1, 1, adjacency, True)

    def _check_node(self) -> None:
        """A node at both ends of its edges: the caps are declared, because none can be enforced (see `tacit.tables.relation`)."""
        if not self.capped or isinstance(self.max_rows, Auto) or self.max_rows is None:
            raise TableError(code="cap-not-enforceable")
        for name in ("max_rows", "max_groups", "rows_per_group"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, count(name, value))

    @staticmethod
    def edge(
        source: str | None = None, target: str | None = None, *, max_rows: int | None = None,
        max_groups: int | None = None, rows_per_group: int | None = None, directed: bool = False,
        adjacency: Adjacency = Adjacency.ADD_REMOVE, capped: bool = False,
    ) -> Unit:
        """One relation between two parties. It protects who met whom, not who took part.

        Without columns it is one row of a table of edges. With the columns of the two parties it is all rows between them, in either
        direction unless `directed`, capped as a person's rows are: a table that lists each edge twice, or each message, is protected too.

        >>> Unit.edge("caller", "called", max_rows=5)
        Unit.edge('caller', 'called', max_rows=5)
        """
        if source is None and target is None:
            if directed or (max_rows, max_groups, rows_per_group) not in ((None,) * 3, (1, None, None)):
                raise TableError("an edge with caps or a direction needs its two columns: Unit.edge('src', 'dst', max_rows=5)")
            return Unit.row(adjacency)
        ends = _ends((source, target))
        caps = (max_rows, max_groups, rows_per_group)
        return Unit(f"{ends[0]}_{ends[1]}_", *caps, adjacency, capped, ends=ends, directed=directed)

    @staticmethod
    def node(
        key: str | None = None,
        *,
        ends: tuple[str, str] | None = None,
        max_rows: int | Auto | None = None,
        max_groups: int | None = None,
        rows_per_group: int | None = None,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        capped: bool = False,
    ) -> Unit:
        """A row of one table, with all rows of all tables that lead to it along declared foreign keys: `Unit.node('person.id', ...)`.

        Or, with `ends`, a party to the rows of a table of edges, at whichever end: then `max_rows` is the greatest degree, and must be
        declared to hold. In questions the owner of a row is called after the key, person_id.

        >>> Unit.node("person.id", max_rows=12).person
        'person_id'
        >>> Unit.node(ends=("src", "dst"), max_rows=50, capped=True)
        Unit.node(ends=('src', 'dst'), max_rows=50, capped=True)
        """
        if (key is None) == (ends is None):
            raise TableError(
                "a node is a row, Unit.node('person.id', max_rows=12), or a party to edges, Unit.node(ends=('src', 'dst'), ...)"
            )
        caps = (max_rows, max_groups, rows_per_group)
        if ends is not None:
            return Unit(None, *caps, adjacency, capped, ends=_ends(ends))
        table, column = parted("a node", key)
        return Unit(f"{table.rpartition('.')[2]}_{column}", *caps, adjacency, capped, key=key)

    @property
    def whom(self) -> str:
        """What the ledger calls the unit: two units that protect different things have different names."""
        if self.ends is not None:
            return f"{'node' if self.person is None else 'edge'} {self.ends[0]}{'->' if self.directed else '-'}{self.ends[1]}"
        return self.key or self.person or "row"

    @property
    def noun(self) -> str:
        """What one unit is, in a word: a person, a row of the key's table, an edge, a node, a row."""
        if self.ends is not None:
            return "node" if self.person is None else "edge"
        if self.key is not None:
            return parted("key", self.key)[0].rpartition(".")[2]
        return "row" if self.person is None else self.called or "person"

    @property
    def nouns(self) -> str:
        """Several of them.

        >>> Unit("home", max_rows=2).nouns, Unit("home", max_rows=2, called="family").nouns, Unit.row().nouns
        ('people', 'families', 'rows')
        """
        if self.noun == "person":
            return "people"
        return f"{self.noun[:-1]}ies" if self.noun.endswith("y") and self.noun[-2:-1] not in "aeiou" else f"{self.noun}s"

    @property
    def automatic(self) -> bool:
        """Whether the cap is still to be found."""
        return isinstance(self.max_rows, Auto)

    def with_cap(self, rows: int) -> Unit:
        """The unit with the cap that was found."""
        return replace(self, max_rows=rows)

    @property
    def most_rows(self) -> int:
        """The most rows of one unit that can reach an answer."""
        if isinstance(self.max_rows, Auto):
            raise TableError("the cap is still to be found privately; ask a question, or session.find_cap(...)")
        grouped = self.max_groups * self.rows_per_group if self.max_groups is not None and self.rows_per_group is not None else None
        return min(cap for cap in (self.max_rows, grouped) if cap is not None)

    def spread(self, grouped: bool) -> tuple[int, int]:
        """The most groups that one unit can touch, and the most rows it can have in one of them."""
        if not grouped:
            return 1, self.most_rows
        most = self.most_rows
        return min(self.max_groups or most, most), min(self.rows_per_group or most, most)

    def reach(self, grouped: bool, multiplicity: int = 1, *, among: int | None = None) -> Reach:
        """How one unit's rows can lie, where each row of the data may stand for `multiplicity` rows of the question.

        No unit is in more groups than there are: `among` is their number, where all of them are declared.

        Squares are greatest where rows are heaped: as many full groups as the caps allow, and the rest in one more. Caps are applied to
        the question's rows, so the multiplicity matters only where nothing is capped.
        """
        groups, rows = self.spread(grouped)
        total = self.most_rows
        if self.person is None or self.capped:
            total *= multiplicity
            groups, rows = (groups * multiplicity if grouped else 1), rows * multiplicity
        if grouped and among is not None:
            groups = min(groups, max(among, 1))
        total = min(total, groups * rows)
        return Reach(min(groups, total), total, (total // rows) * rows**2 + (total % rows) ** 2, self.adjacency)

    def __repr__(self) -> str:
        if self.person is None and self.ends is None:
            return "Unit(row)"
        caps = [f"{n}={getattr(self, n)}" for n in ("max_rows", "max_groups", "rows_per_group") if getattr(self, n) is not None]
        caps += [f"window={self.window!r}", f"when={self.when!r}"] if self.window else []
        caps += ["directed=True"] if self.directed else []
        caps += ["capped=True"] if self.capped else []
        caps += [f"called={self.called!r}"] if self.called else []
        if self.key is not None:
            return f"Unit.node({', '.join([repr(self.key), *caps])})"
        if self.ends is not None:
            named = [f"ends={self.ends!r}"] if self.person is None else [repr(end) for end in self.ends]
            return f"Unit.{'node' if self.person is None else 'edge'}({', '.join([*named, *caps])})"
        return f"Unit({', '.join([f'person={self.person!r}', *caps])})"


def _ends(given: object) -> tuple[str, str]:
    found = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(found) != 2 or not all(isinstance(end, str) and end for end in found) or found[0] == found[1]:
        raise TableError("the two ends of an edge must be two columns, such as ('src', 'dst')")
    return found


# --- foreign keys -----------------------------------------------------------------------------------------------------------------------


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
