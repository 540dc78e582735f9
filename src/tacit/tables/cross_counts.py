"""Counts of a table's rows in cells of several columns at once: one capped statement, many tables.

Every column is cut into public cells: its declared categories, or ranges between declared edges. One statement caps
each person's rows and adds up the cells of every wanted set of columns (GROUPING SETS), so that only integers leave
the engine and a person's rows are the same in every table. A row with a value in no cell of some column counts in
no table.

>>> import pyarrow as pa
>>> from tacit.tables import Desk, Source, Unit
>>> visits = pa.table({"id": [1, 2, 3, 3], "sex": ["f", "m", "f", "f"], "age": [3, 40, 77, 78]})
>>> desk = Desk.of(Source.of(visits, name="visits"), Unit("id", max_rows=1))
>>> cut = Cut.of(desk, {"sex": ["f", "m"], "age": Brackets((0, 18, 65, 120))})
>>> {columns: table.tolist() for columns, table in cut.counts([("sex",), ("sex", "age"), ()]).items()}
{('sex',): [2, 1], ('sex', 'age'): [[1, 0, 1], [0, 1, 0]], (): 3}
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from tacit import noise
from tacit.exact import exact
from tacit.tables.desk import Desk
from tacit.tables.engines.types import NANOSECONDS, bare, kind_of, zoned
from tacit.tables.errors import Refused, TableError
from tacit.tables.forms import beside_nanoseconds, written
from tacit.tables.keys import Keys, Listed, literal
from tacit.tables.plan import multiplicity_of, types_of
from tacit.tables.question import Aggregate, Key, Question
from tacit.tables.statement import Wanted, key_name, statement
from tacit.tables.statistics import measure_name, row_count
from tacit.tables.unit import Unit
from tacit.tables.values import Value

#: More cells of one column than this are surely a mistake.
MOST = 10_000
#: Floats hold every whole number up to here.
EXACT = 2**53


@dataclass(frozen=True)
class Brackets:
    """Ranges of numbers: cell i goes from edge i up to edge i + 1, which only the last cell includes.

    Or of dates: the first day of each cell, and the day after the last.

    >>> Brackets((0, 18, 65, 120)).names
    ('0 to 18', '18 to 65', '65 to 120')
    """

    edges: tuple[Any, ...]

    def __post_init__(self) -> None:
        edges = tuple(self.edges) if self.of_days else tuple(exact("edge", edge) for edge in self.edges)
        if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
            raise TableError("edges must be at least two numbers, or two dates, in rising order, such as (0, 18, 65, 120)")
        object.__setattr__(self, "edges", tuple(self.edges))

    @property
    def of_days(self) -> bool:
        """Whether the edges are dates."""
        return all(isinstance(edge, datetime.date) and not isinstance(edge, datetime.datetime) for edge in self.edges)

    @property
    def names(self) -> tuple[str, ...]:
        """What each cell is called."""
        return tuple(f"{low} to {high}" for low, high in pairwise(self.edges))


@dataclass(frozen=True)
class Whole:
    """Every whole number between declared bounds. Values beyond them count in the first or the last cell."""

    low: int
    high: int

    @property
    def names(self) -> tuple[str, ...]:
        """What each cell is called."""
        return tuple(map(str, range(self.low, self.high + 1)))


#: How far the first day of one period is from that of the next: months, or days.
STEPS = {"day": (0, 1), "week": (0, 7), "month": (1, 0), "quarter": (3, 0), "year": (12, 0)}


@dataclass(frozen=True)
class Periods:
    """Days, weeks, months, quarters or years, one after the other from a public first day. What lies outside is in no cell.

    >>> Periods("2026-01-01", "month", 3).names
    ('2026-01', '2026-02', '2026-03')
    """

    start: datetime.date
    step: str
    count: int

    def __init__(self, start: datetime.date | str, step: str, count: int) -> None:
        try:
            first = datetime.date.fromisoformat(start) if isinstance(start, str) else start
        except ValueError:
            raise TableError(f"start must be a date such as 2026-01-31, not {start!r}") from None
        if not isinstance(first, datetime.date) or isinstance(first, datetime.datetime):
            raise TableError("start must be a date such as 2026-01-31")
        if step not in STEPS:
            raise TableError(f"step must be {', '.join(STEPS)}, not {step!r}")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MOST:
            raise TableError(f"there must be 1 to {MOST} periods, not {count!r}")
        if STEPS[step][0] and first.day != 1:
            raise TableError(f"periods of a {step} start on the first day of a month, not on {first.isoformat()}")
        object.__setattr__(self, "start", first)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "count", count)
        try:
            _ = self.edges
        except (ValueError, OverflowError):
            raise TableError(f"{count} periods of a {step} from {first.isoformat()} reach beyond the calendar") from None

    @property
    def edges(self) -> tuple[datetime.date, ...]:
        """The first day of every period, and the first day after the last."""
        months, days = STEPS[self.step]
        found = []
        for i in range(self.count + 1):
            month = self.start.year * 12 + self.start.month - 1 + i * months
            first = datetime.date(month // 12, month % 12 + 1, self.start.day) if months else self.start
            found.append(first + datetime.timedelta(days=i * days))
        return tuple(found)

    @property
    def names(self) -> tuple[str, ...]:
        """What each cell is called: its first day, as far as it is needed."""
        length = {"month": 7, "quarter": 7, "year": 4}.get(self.step, 10)
        return tuple(day.isoformat()[:length] for day in self.edges[:-1])


Cells = Sequence[Any] | Brackets | Whole | Periods


@dataclass(frozen=True)
class Cut:
    """A desk's table cut into cells: columns, the names of the cells of each, and the question that they are keys of."""

    desk: Desk
    question: Question
    names: Mapping[str, tuple[Any, ...]]
    unit: Unit
    numbered: bool
    outside: bool = False

    @staticmethod
    def of(
        desk: Desk, columns: Mapping[str, Sequence[Any] | Brackets | Periods | None] | Sequence[str], *, rows: str | None = None,
        outside: bool = False,
    ) -> Cut:
        """From cells for each column; what is None, or only named, is cut as the desk's columns are declared.

        `rows` is a question whose rows are counted, 'SELECT COUNT(*) FROM visits WHERE age > 17'; without it, those
        of the desk's first table. With `outside`, every column has one cell more, the last, for values that are
        in no other, and the outermost brackets are open: then every row counts. A question without columns has
        one number, the total.
        """
        given = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        if not given and rows is None:
            raise TableError("a count in cells needs columns, such as ['region', 'sex']")
        unit = desk.unit
        if unit.automatic:
            raise Refused("the cap is still to be found: session.find_cap(...); or declare it, max_rows=12")
        if unit.window is not None:
            raise Refused("cells are counted over all periods at once, so a unit with a window is not served; ask by SQL")
        base = desk.question(rows or f"SELECT COUNT(*) AS n FROM {_quoted(desk.source.tables[0])}")
        shaped = base.having is not None or base.limit is not None or base.offset
        if base.keys or shaped or len(base.aggregates) != 1 or base.aggregates[0].kind != "count":
            raise TableError("rows must be a plain count, such as SELECT COUNT(*) FROM visits WHERE age > 17")
        bare = tuple(Key(exp.column(name, quoted=True), name) for name in given)
        types = types_of(replace(base, keys=bare), desk.engine, unit)
        kinds = {key.name: kind_of(types[key.value]) for key in bare}
        cells = {name: _cells(desk, name, cell, kinds[name]) for name, cell in given.items()}
        names = {name: c.names if isinstance(c, Brackets | Whole | Periods) else tuple(c) for name, c in cells.items()}
        numbers = {key.name: _number(key, cells[key.name], types[key.value], outside) for key in bare}
        if outside:
            numbers = {name: _or_else(number, len(names[name])) for name, number in numbers.items()}
            for key in bare:
                if kinds[key.name] == "float":  # engines order NaN above all numbers
                    first = exp.If(this=desk.engine.is_nan(key.value.copy()), true=exp.Literal.number(len(names[key.name])))
                    numbers[key.name] = exp.cast(exp.Case(ifs=[first], default=numbers[key.name]), "BIGINT")
            names = {name: (*found, "(other)") for name, found in names.items()}
        keys = tuple(Key(numbers[key.name], key.name) for key in bare)
        person = None if unit.person is None else types[exp.column(unit.person, quoted=True)]
        numbered = person is not None and kind_of(person) == "float"
        counted = (Aggregate("count", None, "n"),)
        return Cut(desk, replace(base, keys=keys, aggregates=counted), names, _by_rows(unit), numbered, outside)

    @property
    def reach(self) -> int:
        """The most rows of one unit that are counted."""
        return self.unit.reach(True, multiplicity_of(self.question)).rows

    @property
    def counted(self) -> str:
        """Which rows count, in words: an error that is foretold is that of the noise on these, and says nothing of the others."""
        listed = list(self.names)
        if self.outside or not listed:
            return "every row counts; a value that is missing or in no cell is (other)" if listed else "every row counts"
        among = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
        return f"a row counts, in every table, only if {among} {'has' if len(listed) == 1 else 'all have'} a value in some cell"

    def _used(self, tables: Sequence[tuple[str, ...]]) -> tuple[Key, ...]:
        return tuple(key for key in self.question.keys if any(key.name in table for table in tables))

    def statement(self, tables: Sequence[tuple[str, ...]], salt: int = 0) -> exp.Select:
        """The one statement that counts every table. Columns that no table has are left out of it."""
        used = self._used(tables)
        places = {key.name: i for i, key in enumerate(used)}
        # With the numbers of cells known, a row is a few words while rows are drawn: ten million people fit in memory.
        sizes = tuple(len(self.names[key.name]) for key in used)
        wanted = Wanted(Keys(used, (), tuple(range(len(used)))), (row_count(),), self.unit, numbered=self.numbered, cells=sizes)
        found = statement(replace(self.question, keys=used), wanted, self.desk.engine, salt)
        sets = [
            exp.Tuple(expressions=[exp.column(key_name(places[name]), quoted=True) for name in table])
            for table in dict.fromkeys(tables)
        ]
        found.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
        return found

    def counts(self, tables: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], NDArray[np.int64]]:
        """The counts of every table. This touches the data: whoever calls it has paid, and publishes nothing of it."""
        result = self.desk.engine.run(self.statement(tables, noise.uniform_integers(2**60)))
        places = {key.name: i for i, key in enumerate(self._used(tables))}
        # The total of no rows is NULL.
        totals = result.column(measure_name(0)).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        cells, present = [], []
        for i in range(len(places)):
            column = result.column(key_name(i)) if key_name(i) in result.column_names else None
            found = np.full(len(totals), -1, dtype=np.int64)
            if column is not None:
                found = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            cells.append(found)
            present.append(found >= 0)
        shown = {}
        for table in dict.fromkeys(tables):
            mine = np.ones(len(totals), dtype=bool)
            for name, i in places.items():
                mine &= present[i] == (name in table)
            array = np.zeros(tuple(len(self.names[name]) for name in table), dtype=np.int64)
            if table:
                np.add.at(array, tuple(cells[places[name]][mine] for name in table), totals[mine])
            else:
                array[()] = totals[mine].sum()
            shown[table] = array
        return shown


def _quoted(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))


def _by_rows(unit: Unit) -> Unit:
    """The unit capped by rows alone: groups differ from table to table."""
    if unit.person is None or unit.capped:
        return unit
    return replace(unit, max_rows=unit.most_rows, max_groups=None, rows_per_group=None)


def _cells(desk: Desk, name: str, given: Sequence[Any] | Brackets | Periods | None, kind: str) -> Cells:
    bounds = desk.schema.bounds.get(name)
    if isinstance(given, Brackets | Periods):
        found: Cells = given
    elif given is not None:
        found = tuple(given)
    elif name in desk.schema.categories:
        found = desk.schema.categories[name]
    elif bounds is not None and kind == "integer" and all(exact("bound", end).denominator == 1 for end in bounds):
        found = Whole(int(exact("bound", bounds[0])), int(exact("bound", bounds[1])))
    else:
        raise TableError(
            f"{name} has no cells: declare its categories, or whole bounds if it is a whole number, or cut it into brackets, "
            f"cells={{{name!r}: Brackets((0, 18, 65, 120))}}"
        )
    size = found.high - found.low + 1 if isinstance(found, Whole) else _size(found)
    if not 0 < size <= MOST:
        raise TableError(f"{name} has {size} cells; it must have 1 to {MOST}")
    return found


def _size(cells: Sequence[Any] | Brackets | Periods) -> int:
    return len(cells.names) if isinstance(cells, Brackets | Periods) else len(cells)


def _or_else(number: exp.Expression, last: int) -> exp.Expression:
    return exp.Coalesce(this=number, expressions=[exp.Literal.number(last)])


def _number(key: Key, cells: Cells, sql_type: str, outside: bool = False) -> exp.Expression:
    """The place of a row's cell, NULL where it is in none: comparisons only, so that no row can make it fail."""
    if isinstance(cells, Whole):
        # Open at both ends: bounds move values to them.
        value = exp.cast(key.value.copy(), "DOUBLE")
        known = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
        if cells.low >= -EXACT and cells.high <= EXACT:
            return exp.Case(ifs=[exp.If(this=known, true=_counted_off(value, cells.low, cells.high))])
        below = _below(value, range(cells.low + 1, cells.high + 1))
        return exp.cast(exp.Case(ifs=[exp.If(this=known, true=_halved(below, 0, len(below)))]), "BIGINT")
    if isinstance(cells, Brackets):
        return _place(key, cells, sql_type, outside)
    if isinstance(cells, Periods):
        return _period(key, cells, sql_type)
    listed = Listed.of([key.name], [[value] for value in cells], [sql_type])
    ifs = []
    for place, (value,) in enumerate(listed.values):
        same: exp.Expression = exp.EQ(this=key.value.copy(), expression=literal(value, listed.kinds[0]))
        if value is None:
            same = exp.Is(this=key.value.copy(), expression=exp.null())
        ifs.append(exp.If(this=same, true=exp.Literal.number(place)))
    return exp.cast(exp.Case(ifs=ifs), "BIGINT")


def _place(key: Key, cells: Brackets, sql_type: str, outside: bool) -> exp.Expression:
    kind = kind_of(sql_type)
    if cells.of_days:
        return _day(key, cells, sql_type, outside)
    if kind not in ("integer", "float", "decimal"):
        raise Refused(f"{key.name} is no number, so it has no edges; give its categories as a list")
    value = exp.cast(key.value.copy(), "DOUBLE")
    inside: exp.Expression = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    if not outside:
        least = exp.GTE(this=value.copy(), expression=_edge(cells.edges[0]))
        most = exp.LTE(this=value.copy(), expression=_edge(cells.edges[-1]))
        inside = exp.And(this=least, expression=most)
    if kind == "integer" and _one_by_one(cells.edges):
        return exp.Case(ifs=[exp.If(this=inside, true=_counted_off(value, int(cells.edges[0]), int(cells.edges[-1]) - 1))])
    below = _below(value, cells.edges)
    return exp.cast(exp.Case(ifs=[exp.If(this=inside, true=_halved(below, 1, len(below) - 1, -1))]), "BIGINT")


def _one_by_one(edges: Sequence[Any]) -> bool:
    """Whether edges are whole numbers without a gap, so small that a float holds each."""
    ends = [exact("edge", edge) for edge in edges]
    return all(high - low == 1 for low, high in pairwise(ends)) and ends[0].denominator == 1 and max(-ends[0], ends[-1]) <= EXACT


def _counted_off(value: exp.Expression, low: int, high: int) -> exp.Expression:
    """How far a whole number is above `low`, in a statement whose length does not grow with the cells: it is cut off at both ends first,
    so that no row can make the cast fail."""
    least, most = _edge(low), _edge(high)
    ifs = [
        exp.If(this=exp.LT(this=value.copy(), expression=least), true=least.copy()),
        exp.If(this=exp.LT(this=value.copy(), expression=most), true=value.copy()),
    ]
    return exp.cast(exp.Paren(this=exp.Sub(this=exp.Case(ifs=ifs, default=most.copy()), expression=least.copy())), "BIGINT")


def _halved(below: Sequence[exp.Expression], low: int, high: int, offset: int = 0) -> exp.Expression:
    """How many of some rising marks a value has reached, found by halving: ten thousand cells take fourteen comparisons a row.

    `below` says of each mark whether the value is below it. The marks are those from `low` up to `high`; those before are
    reached, and counted if `offset` does not take them off.
    """
    if low == high:
        return exp.Literal.number(low + offset)
    middle = (low + high) // 2
    left, right = _halved(below, low, middle, offset), _halved(below, middle + 1, high, offset)
    return exp.Case(ifs=[exp.If(this=below[middle].copy(), true=left)], default=right)


def _below(value: exp.Expression, marks: Sequence[Any]) -> list[exp.Expression]:
    """For every mark, whether a number is below it."""
    return [exp.LT(this=value.copy(), expression=_edge(mark)) for mark in marks]


def _day(key: Key, cells: Brackets, sql_type: str, outside: bool) -> exp.Expression:
    """The place of a row's day among edges that are dates."""
    below = _days_before(key, cells.edges, sql_type)
    known = exp.Not(this=exp.Is(this=key.value.copy(), expression=exp.null()))
    inside = known if outside else _from_to(below)
    return exp.cast(exp.Case(ifs=[exp.If(this=inside, true=_halved(below, 1, len(below) - 1, -1))]), "BIGINT")


def _period(key: Key, cells: Periods, sql_type: str) -> exp.Expression:
    below = _days_before(key, cells.edges, sql_type)
    return exp.cast(exp.Case(ifs=[exp.If(this=_from_to(below), true=_halved(below, 1, len(below) - 1, -1))]), "BIGINT")


def _from_to(below: Sequence[exp.Expression]) -> exp.Expression:
    """Whether a day has reached the first edge and not the last."""
    reached = exp.Not(this=exp.Paren(this=below[0].copy()))
    return exp.And(this=reached, expression=exp.Paren(this=below[-1].copy()))


def _days_before(key: Key, edges: Sequence[datetime.date], sql_type: str) -> list[exp.Expression]:
    """For every edge, whether a row's day is before it."""
    kind = kind_of(sql_type)
    if kind not in ("date", "timestamp") or zoned(sql_type):
        raise Refused(f"{key.name} must be a date, or a timestamp without a time zone, to be cut into periods")
    midnight = datetime.time()
    days = [day if kind == "date" else datetime.datetime.combine(day, midnight) for day in edges]
    return [_before(key.value.copy(), day, kind, bare(sql_type) in NANOSECONDS) for day in days]


def _before(value: exp.Expression, edge: datetime.date, kind: str, fine: bool) -> exp.Expression:
    found = None
    if fine and isinstance(edge, datetime.datetime):
        found = beside_nanoseconds(exp.LT, Value(value, "nanoseconds"), written(edge.isoformat(sep=" "), "timestamp"))
    return exp.LT(this=value, expression=literal(edge, kind)) if found is None else found.sql


def _edge(value: Any) -> exp.Expression:
    number = exp.Literal.number(repr(abs(float(value))))
    # the type is built, not parsed: a parse for each of thousands of edges took most of the planning
    return exp.Cast(this=exp.Neg(this=number) if value < 0 else number, to=exp.DataType(this=exp.DataType.Type.DOUBLE))
