"""The one statement that is sent to the engine: it keeps at most the capped rows of each unit, and adds up integers.

Order: filter, drop groups that nobody declared, cap, add. Which rows of a person survive the caps is a random choice among her own, which
nobody else's rows have a say in.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tacit.tables.engines.engine import Engine
from tacit.tables.engines.packing import Packed
from tacit.tables.keys import Keys, literal
from tacit.tables.measure import Measure
from tacit.tables.question import Question
from tacit.tables.unit import Unit

PERSON, ROW, DRAW, GROUP, SEEN, PEOPLE = "unit_", "row_", "draw_", "group_", "seen_", "people_"


def key_name(index: int) -> str:
    """The internal name of a key, safe whatever the user called it."""
    return f"key_{index}"


def measure_name(index: int) -> str:
    """The internal name of a measure."""
    return f"sum_{index}"


@dataclass(frozen=True)
class Wanted:
    """What a statement is made of beside the question: keys, measures, unit, the period, and what else is to be counted.

    `people`: count the people in each group. `seen`: also add up everybody's rows before the caps, each at most so many.
    """

    keys: Keys
    measures: tuple[Measure, ...]
    unit: Unit
    period: tuple[datetime.date, datetime.date] | None = None
    people: bool = False
    seen: int | None = None

    @property
    def by_row(self) -> bool:
        """Whether rows must stay apart until the last sum: different values and cells cannot be added up twice."""
        return any(measure.over in ("distinct", "cells") for measure in self.measures)

    def ranges(self) -> dict[str, tuple[int, int]]:
        """The public bounds of the integers of a row. A row that lacks a value adds 0, or is in the cell -1."""
        found = {GROUP: (0, max(1, self.keys.count) - 1)} if self.keys.lists else {}
        for index, measure in enumerate(self.measures):
            if measure.over == "cells" and measure.ladder is not None:
                found[measure_name(index)] = (-1, measure.ladder.cells - 1)
            elif measure.over in ("rows", "kept"):
                found[measure_name(index)] = (min(measure.low, 0), max(measure.high, 0))
        return found


def statement(question: Question, wanted: Wanted, engine: Engine, salt: int) -> exp.Select:
    """SELECT group, private keys and integer sums."""
    rows = _rows(question, wanted, engine)
    keys = [_column(name) for name in group_columns(wanted.keys)]
    sums = [_column(measure_name(i)) for i, m in enumerate(wanted.measures) if m.over not in ("people", "seen")]
    seen = None if wanted.seen is None else _seen(rows.copy(), wanted.seen)
    kept = rows
    if wanted.unit.person is not None and not wanted.unit.capped:
        kept = _capped(rows, keys, sums, wanted, engine, salt)
    chosen: list[exp.Expression] = [key.copy() for key in keys]
    sets: list[list[exp.Column]] = [keys]
    for index, measure in enumerate(wanted.measures):
        name = measure_name(index)
        match measure.over:
            case "rows" | "kept":
                chosen.append(_named(exp.Sum(this=_column(name)), name))
            case "people":
                chosen.append(_named(_different(_column(PERSON)), name))
            case "distinct":
                chosen.append(_named(_different(_column(name)), name))
            case "cells":
                chosen.append(_column(name))
                sets.append([*keys, _column(name)])
    if wanted.people:
        chosen.append(_named(_different(_column(PERSON)), PEOPLE))
    if seen is not None:
        chosen.append(_named(exp.Subquery(this=seen), SEEN))
    if len(sets) > 1:
        chosen.append(_named(exp.Count(this=exp.Star()), ROW))
    found = _select(chosen, _inner(kept, "kept_"))
    if len(sets) > 1:
        tuples = [exp.Tuple(expressions=[column.copy() for column in columns]) for columns in sets]
        found.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=tuples)]))
    elif keys:
        found.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return found


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def _named(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _inner(query: exp.Select, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


def _select(chosen: Sequence[exp.Expression], source: exp.Expression) -> exp.Select:
    """SELECT ... FROM ...; sqlglot's own builders copy the whole tree at every step."""
    return exp.Select(expressions=list(chosen)).from_(source, copy=False)


def group_columns(keys: Keys) -> list[str]:
    """The columns that tell groups apart: the number of the public combination, and the values of private keys."""
    return [*([GROUP] if keys.lists else []), *(key_name(i) for i in keys.private)]


def _different(value: exp.Expression) -> exp.Expression:
    return exp.Count(this=exp.Distinct(expressions=[value]))


def rows_of(question: Question) -> exp.Expression:
    """The question's rows as something to select from."""
    relation = question.relation
    return relation.copy() if isinstance(relation, exp.Expression) else relation.expression()


def _rows(question: Question, wanted: Wanted, engine: Engine) -> exp.Select:
    """Every row as its person, group and integers."""
    unit, keys = wanted.unit, wanted.keys
    chosen: list[exp.Expression] = []
    conditions: list[exp.Expression] = []
    joins: list[tuple[exp.Expression, exp.Expression]] = []
    number: exp.Expression | None = None
    for index, listed in enumerate(keys.lists):
        name = f"keys_{index}_"
        joins.append((listed.relation(name, engine), listed.matches(name, keys.of(listed))))
        place = _column("index_", name)
        # Numbers of combinations in the order of Keys.combinations: the last list runs fastest.
        number = place if number is None else _after(number, len(listed.values), place)
    if unit.person is not None:
        chosen.append(_named(_column(unit.person), PERSON))
        # A row without an owner belongs to nobody who could be protected, so it counts for nothing.
        conditions.append(_present(_column(unit.person)))
    if number is not None:
        chosen.append(_named(exp.cast(number, "BIGINT"), GROUP))
    for i in keys.private:
        chosen.append(_named(keys.keys[i].value.copy(), key_name(i)))
        conditions.append(_present(exp.Paren(this=keys.keys[i].value.copy())))
    for index, measure in enumerate(wanted.measures):
        if measure.over not in ("people", "seen"):
            value = measure.integer.copy()
            if measure.over == "cells":
                # NULL marks the lines that are about a whole group, so a row is never without a cell.
                value = exp.Coalesce(this=value, expressions=[exp.Literal.number(-1)])
            chosen.append(_named(value if measure.over == "distinct" else exp.cast(value, "BIGINT"), measure_name(index)))
    if wanted.period is not None and unit.when is not None:
        day = exp.cast(_column(unit.when), "DATE")
        conditions.append(exp.Between(this=day, low=literal(wanted.period[0], "date"), high=literal(wanted.period[1], "date")))
    if question.where is not None:
        conditions.append(exp.Paren(this=question.where.copy()))
    found = _select(chosen, rows_of(question))
    for relation, condition in joins:
        found = found.join(relation, on=condition, join_type="inner", copy=False)
    return found.where(*conditions, copy=False) if conditions else found


def _present(value: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=value, expression=exp.null()))


def _after(number: exp.Expression, size: int, place: exp.Expression) -> exp.Expression:
    return exp.Add(this=exp.Mul(this=exp.Paren(this=number), expression=exp.Literal.number(size)), expression=place)


def _seen(rows: exp.Select, most: int) -> exp.Select:
    """Everybody's rows before the caps, each person's at most `most`."""
    each = _select([_named(exp.Count(this=exp.Star()), ROW)], _inner(rows, "seen_rows_"))
    each.set("group", exp.Group(expressions=[_column(PERSON)]))
    clipped = exp.Least(this=_column(ROW), expressions=[exp.Literal.number(most)])
    return _select([exp.Sum(this=clipped)], _inner(each, "seen_people_"))


def _capped(
    rows: exp.Select, keys: list[exp.Column], sums: list[exp.Column], wanted: Wanted, engine: Engine, salt: int
) -> exp.Select:
    """At most `max_rows` rows of each person; in at most `max_groups` groups, `rows_per_group` in each."""
    unit, person, ranges = wanted.unit, _column(PERSON), wanted.ranges()
    if not keys:
        return _sampled(rows, [person], ranges, unit.most_rows, engine, salt)
    if isinstance(unit.max_rows, int):
        rows = _sampled(rows, [person], ranges, unit.max_rows, engine, salt)
    if unit.rows_per_group is not None:
        rows = _sampled(rows, [person, *keys], ranges, unit.rows_per_group, engine, salt + 1)
    if unit.max_groups is not None:
        order = engine.shuffle_key(salt + 2, [person, *keys])
        if wanted.by_row:
            # Groups are told apart by their keys where the pseudorandom order does not: never two in one place.
            return _first(rows, [person], [order, *keys], unit.max_groups, dense=True)
        # One line for each person and group; then a random choice of her groups.
        totals = [_named(exp.Sum(this=total.copy()), total.name) for total in sums]
        grouped = _select([person.copy(), *(key.copy() for key in keys), *totals], _inner(rows, "in_groups_"))
        grouped.set("group", exp.Group(expressions=[person.copy(), *(key.copy() for key in keys)]))
        rows = _first(grouped, [person], [order], unit.max_groups)
    return rows


def _sampled(
    rows: exp.Select, partition: list[exp.Column], ranges: Mapping[str, tuple[int, int]], most: int, engine: Engine, salt: int
) -> exp.Select:
    """A random choice of `most` lines of each partition, in which every line has the same chance, equal lines too.

    Ordering by a keyed hash of the values alone would keep equal lines together, and so draw among different values instead of among
    lines: a mean would be wrong. So each line gets a random number of the engine's. An engine that is asked to be `portable` has no such
    numbers: there lines are numbered in the order of a keyed hash (between equal ones it does not matter), and the numbers are put into a
    second keyed order.
    """
    packed = Packed.of(rows, [column.name for column in partition], ranges)
    kept = [_column(name) for name in packed.values]
    if getattr(engine, "portable", False):
        apart = {column.name for column in partition}
        values = [column for column in kept if column.name not in apart]
        place = _window(exp.RowNumber(), partition, [engine.shuffle_key(salt, [*partition, *values])])
        numbered = _select([*kept, _named(place, DRAW)], _inner(packed.rows, "numbered_"))
        found = _first(numbered, partition, [engine.shuffle_key(salt + 3, [*partition, _column(DRAW)])], most)
    else:
        # A column of its own: engines refuse random numbers inside a window, or would draw them twice.
        found = _first(_select([*kept, _named(exp.Rand(), DRAW)], _inner(packed.rows, "drawn_")), partition, [_column(DRAW)], most)
    return packed.unpacked(found)


def _window(function: exp.Expression, partition: Sequence[exp.Expression], order: Sequence[exp.Expression]) -> exp.Window:
    found = exp.Window(this=function, partition_by=[column.copy() for column in partition])
    if order:
        found.set("order", exp.Order(expressions=[exp.Ordered(this=value.copy()) for value in order]))
    return found


def _first(
    rows: exp.Select,
    partition: Sequence[exp.Expression],
    order: Sequence[exp.Expression],
    most: int,
    *,
    dense: bool = False,
) -> exp.Select:
    """The first `most` lines of each partition in an order; with `dense`, all lines of the first `most` places."""
    place = _window(exp.DenseRank() if dense else exp.RowNumber(), partition, order)
    names = [projection.alias_or_name for projection in rows.selects]
    placed = _select([*(_column(n) for n in names), _named(place, ROW)], _inner(rows, "rows_"))
    found = _select([_column(n) for n in names], _inner(placed, "placed_"))
    return found.where(exp.LTE(this=_column(ROW), expression=exp.Literal.number(most)), copy=False)
