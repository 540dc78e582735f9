"""The one statement that is sent to the engine: it keeps at most the capped rows of each unit, and adds up integers.

Order: filter, drop groups that were not declared, cap, add. Which rows of a person survive the caps is a random
choice among that person's rows, on which no other rows have an influence. Where nothing is capped, rows are
added up by their own keys first, and the few sums are then looked up in the list of groups: a join of every row
would cost as much as all the rest (docs/decisions/0007-grouping-before-the-key-list.md).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tacit.tables.engines.engine import Engine, Packed, draw_of
from tacit.tables.keys import Keys, index_of, literal
from tacit.tables.question import Key, Question
from tacit.tables.statistics import Statistic, measure_name
from tacit.tables.unit import Unit

PERSON, ROW, DRAW, GROUP, PEOPLE = "unit_", "row_", "draw_", "group_", "people_"
#: Rows before the caps: of all people, the same on every line; or of those whose count is told on lines of this group.
SEEN, SEEN_HERE = "seen_", "seen_here_"


def key_name(index: int) -> str:
    """The internal name of a key, safe whatever the user called it."""
    return f"key_{index}"


@dataclass(frozen=True)
class Wanted:
    """What a statement is made of beside the question: keys, measures, unit, the period, and what else is to be counted.

    `people`: count the people in each group. `seen`: also add up all people's rows before the caps, each at most so many.
    `numbered`: people are floats, of which NaN is no person. `cells`: keys are numbers of cells, from 0 up to these.
    """

    keys: Keys
    measures: tuple[Statistic, ...]
    unit: Unit
    period: tuple[datetime.date, datetime.date] | None = None
    people: bool = False
    seen: int | None = None
    numbered: bool = False
    cells: tuple[int, ...] = ()

    @property
    def by_row(self) -> bool:
        """Whether rows must stay apart until the last sum: different values and cells cannot be added up twice."""
        return any(measure.over in ("distinct", "cells") for measure in self.measures)

    @property
    def capping(self) -> bool:
        """Whether the statement must cap."""
        return self.unit.person is not None and not self.unit.capped

    @property
    def adds_first(self) -> bool:
        """Whether rows may be added up by their own keys, and the sums looked up in the list: they can be added up twice."""
        plain = all(measure.over == "rows" for measure in self.measures)
        return plain and not self.capping and bool(self.keys.lists) and not self.keys.private and not self.people and self.seen is None

    def ranges(self) -> dict[str, tuple[int, int]]:
        """The public bounds of the integers of a row. A row that lacks a value adds 0, or is in the cell -1."""
        first = self.keys.first
        found = {GROUP: (first, first + max(1, self.keys.count) - 1)} if self.keys.lists else {}
        found |= {key_name(index): (0, size - 1) for index, size in enumerate(self.cells)}
        for index, measure in enumerate(self.measures):
            if measure.over == "cells" and measure.ladder is not None:
                found[measure_name(index)] = (-1, measure.ladder.cells - 1)
            elif measure.over in ("rows", "kept"):
                found[measure_name(index)] = (min(measure.low, 0), max(measure.high, 0))
        return found


def statement(question: Question, wanted: Wanted, engine: Engine, salt: int) -> exp.Select:
    """SELECT group, private keys and integer sums."""
    if wanted.adds_first:
        return _added_first(question, wanted, engine, salt)
    rows = _salted(_rows(question, wanted, engine), salt)
    keys = [_column(name) for name in group_columns(wanted.keys)]
    sums = [_column(measure_name(i)) for i, m in enumerate(wanted.measures) if m.over not in ("people", "seen")]
    # An engine that draws may count on the way; otherwise all rows are counted beside.
    counted = wanted.seen is not None and draw_of(engine) is not None and _by_person_alone(wanted)
    kept = _capped(rows, keys, sums, wanted, engine, salt, counted) if wanted.capping else rows
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
    if wanted.seen is not None and counted:
        chosen.append(_named(exp.Sum(this=_at_most(_column(SEEN_HERE), wanted.seen)), SEEN_HERE))
    elif wanted.seen is not None:
        all_rows = _salted(_rows(question, wanted, engine, bare=True), salt)
        chosen.append(_named(exp.Subquery(this=_seen(all_rows, wanted.seen)), SEEN))
    if len(sets) > 1:
        chosen.append(_named(exp.Count(this=exp.Star()), ROW))
    found = _select(chosen, _inner(kept, "kept_"))
    if len(sets) > 1:
        tuples = [exp.Tuple(expressions=[column.copy() for column in columns]) for columns in sets]
        found.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=tuples)]))
    elif keys:
        found.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return found


def needs_salt(question: Question, wanted: Wanted, engine: Engine) -> bool:
    """Whether the statement depends on its salt; if not, it can be sent again as it is, because the engine draws anew."""
    if getattr(engine, "portable", False) or (wanted.capping and wanted.unit.max_groups is not None and wanted.by_row):
        return True
    return any(number.meta.get(_MARKED) for number in rows_of(question).find_all(exp.Literal))


def _added_first(question: Question, wanted: Wanted, engine: Engine, salt: int) -> exp.Select:
    """Sums for each combination of keys that occurs, then those of the listed ones by their number."""
    tallies = Tallies.of(wanted.measures)
    raw = replace(wanted, keys=Keys(wanted.keys.keys, (), tuple(range(len(wanted.keys.keys)))), measures=tallies.measures)
    rows = _salted(_rows(question, raw, engine, missing=True, only=tallies.columns), salt)
    keys = [_column(key_name(i)) for i in range(len(wanted.keys.keys))]
    sums = [measure_name(i) for i in range(len(wanted.measures))]
    each = [_named(tallies.added(i, _column), name) for i, name in enumerate(sums)]
    grouped = exp.Group(expressions=[key.copy() for key in keys])
    if wanted.keys.consecutive and len(keys) == 1:
        # The keys number themselves, and other rows are passed over as they are read.
        only = rows.where(wanted.keys.lists[0].inside(wanted.keys.keys[0]), copy=False)
        plain = _select([_named(exp.cast(keys[0], "BIGINT"), GROUP), *each], _inner(only, "rows_"))
        plain.set("group", grouped)
        return plain
    inner = _select([*keys, *each], _inner(rows, "rows_"))
    inner.set("group", grouped)
    found = _numbered(wanted.keys, engine, [replace(k, value=_column(key_name(i))) for i, k in enumerate(wanted.keys.keys)])
    listed = found.kept(_select([_named(found.number, GROUP), *(_column(name) for name in sums)], _inner(inner, "sums_")))
    if all(one.distinct for one in wanted.keys.lists):
        return listed
    # Engines may group keys apart that they compare as equal (0.0 and -0.0), so the sums of one number are added up once more.
    twice = _select([_column(GROUP), *(_named(exp.Sum(this=_column(name)), name) for name in sums)], _inner(listed, "kept_"))
    twice.set("group", exp.Group(expressions=[_column(GROUP)]))
    return twice


@dataclass(frozen=True)
class _Numbered:
    """The number of a line's group, and what keeps the lines that have one: lists to join with, and conditions."""

    number: exp.Expression
    joins: list[tuple[exp.Expression, exp.Expression]]
    conditions: list[exp.Expression]

    def kept(self, lines: exp.Select) -> exp.Select:
        """The lines whose group has a number."""
        for relation, condition in self.joins:
            lines = lines.join(relation, on=condition, join_type="inner", copy=False)
        return lines.where(*self.conditions, copy=False) if self.conditions else lines


def _numbered(keys: Keys, engine: Engine, named: Sequence[Key]) -> _Numbered:
    """The number of a line's group; `named` are the keys as the line has them. A list of consecutive numbers need not be looked up."""
    number: exp.Expression | None = None
    joins: list[tuple[exp.Expression, exp.Expression]] = []
    by_name = {key.name: key for key in named}
    if keys.consecutive:
        key = by_name[keys.lists[0].columns[0]]
        return _Numbered(exp.cast(exp.Paren(this=key.value.copy()), "BIGINT"), [], [keys.lists[0].inside(key)])
    for index, listed in enumerate(keys.lists):
        name = f"keys_{index}_"
        joins.append((listed.relation(name, engine), listed.matches(name, [by_name[column] for column in listed.columns])))
        place = _column(index_of(name), name)
        # Numbers of combinations in the order of Keys.combinations: the last list runs fastest.
        number = place if number is None else _after(number, len(listed.values), place)
    assert number is not None
    return _Numbered(exp.cast(number, "BIGINT"), joins, [])


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
    return (relation if isinstance(relation, exp.Expression) else relation.source).copy()


def _rows(
    question: Question, wanted: Wanted, engine: Engine, *, bare: bool = False, missing: bool = False, only: Sequence[int] | None = None
) -> exp.Select:
    """Every row as its person, group and integers; `bare`: its person alone; `missing`: keys as they are, also where there is none;
    `only`: no person, and no other integers than these."""
    unit, keys = wanted.unit, wanted.keys
    chosen: list[exp.Expression] = []
    conditions: list[exp.Expression] = []
    numbered = _numbered(keys, engine, keys.keys) if keys.lists else None
    if unit.person is not None:
        if only is None:
            chosen.append(_named(_column(unit.person), PERSON))
        # A row without an owner has no person to protect, so it counts for nothing.
        conditions.append(_present(_column(unit.person)))
        if wanted.numbered:
            # It is how a missing number is written where there is no NULL, and many who are missing are not one person.
            conditions.append(exp.Not(this=engine.is_nan(_column(unit.person))))
    if numbered is not None and not bare:
        chosen.append(_named(numbered.number, GROUP))
    for i in keys.private:
        if not bare:
            chosen.append(_named(keys.keys[i].value.copy(), key_name(i)))
        if not missing:
            conditions.append(_present(exp.Paren(this=keys.keys[i].value.copy())))
    for index, measure in enumerate(wanted.measures):
        if measure.over not in ("people", "seen") and not bare and (only is None or index in only):
            value = measure.integer.copy()
            if measure.over == "cells":
                # NULL marks the lines that are about a whole group, so a row is never without a cell.
                value = exp.Coalesce(this=value, expressions=[exp.Literal.number(-1)])
            bare_value = measure.over == "distinct" or whole(value)
            chosen.append(_named(value if bare_value else exp.cast(value, "BIGINT"), measure_name(index)))
    if wanted.period is not None and unit.when is not None:
        day = exp.cast(_column(unit.when), "DATE")
        conditions.append(exp.Between(this=day, low=literal(wanted.period[0], "date"), high=literal(wanted.period[1], "date")))
    if question.where is not None:
        conditions.append(exp.Paren(this=question.where.copy()))
    found = _select(chosen, rows_of(question))
    found = found if numbered is None else numbered.kept(found)
    return found.where(*conditions, copy=False) if conditions else found


#: Where a relation caps rows before a join, its order is keyed by this mark until the statement is made with a salt of its own.
SALT = 2**59 - 1
_MARKED = "tacit_salt"


def salt_marked(engine: Engine) -> Callable[[list[exp.Expression]], exp.Expression]:
    """A pseudorandom order of rows for relations, which are made before the question has its salt: the mark stands for it."""

    def shuffle(values: list[exp.Expression]) -> exp.Expression:
        found = engine.shuffle_key(SALT, values)
        for number in found.find_all(exp.Literal):
            if number.this == str(SALT):
                number.meta[_MARKED] = True
        return found

    return shuffle


def _salted(rows: exp.Select, salt: int) -> exp.Select:
    """The rows with the question's own salt where the mark is; a number of the user's that looks like it is left alone."""
    for number in list(rows.find_all(exp.Literal)):
        if number.meta.get(_MARKED):
            number.set("this", str(salt + 4))
    return rows


def _present(value: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=value, expression=exp.null()))


def _after(number: exp.Expression, size: int, place: exp.Expression) -> exp.Expression:
    return exp.Add(this=exp.Mul(this=exp.Paren(this=number), expression=exp.Literal.number(size)), expression=place)


def _seen(rows: exp.Select, most: int) -> exp.Select:
    """All people's rows before the caps, at most `most` of each person."""
    each = _select([_named(exp.Count(this=exp.Star()), ROW)], _inner(rows, "seen_rows_"))
    each.set("group", exp.Group(expressions=[_column(PERSON)]))
    return _select([exp.Sum(this=_at_most(_column(ROW), most))], _inner(each, "seen_people_"))


def _at_most(value: exp.Expression, most: int) -> exp.Expression:
    """The value cut at a limit; NULL stays NULL, which LEAST would pass over."""
    limit = exp.Literal.number(most)
    return exp.Case(ifs=[exp.If(this=exp.GT(this=value.copy(), expression=limit), true=limit.copy())], default=value.copy())


def _by_person_alone(wanted: Wanted) -> bool:
    """Whether there is one cap, on a person's rows."""
    unit = wanted.unit
    return wanted.capping and (not wanted.keys.keys or (unit.rows_per_group is None and unit.max_groups is None))


def _capped(
    rows: exp.Select, keys: list[exp.Column], sums: list[exp.Column], wanted: Wanted, engine: Engine, salt: int, counted: bool
) -> exp.Select:
    """At most `max_rows` rows of each person; in at most `max_groups` groups, `rows_per_group` in each. With `counted`, see `_sampled`."""
    unit, person, ranges = wanted.unit, _column(PERSON), wanted.ranges()
    if not keys:
        return _sampled(rows, [person], ranges, unit.most_rows, engine, salt, counted)
    if isinstance(unit.max_rows, int):
        rows = _sampled(rows, [person], ranges, unit.max_rows, engine, salt, counted)
    if unit.rows_per_group is not None:
        rows = _sampled(rows, [person, *keys], ranges, unit.rows_per_group, engine, salt + 1)
    if unit.max_groups is not None:
        if wanted.by_row:
            # Groups are told apart by their keys where the pseudorandom order does not: never two in one place.
            return _first(rows, [person], [engine.shuffle_key(salt + 2, [person, *keys]), *keys], unit.max_groups, dense=True)
        # One line for each person and group; then a random choice of the person's groups.
        totals = [_named(exp.Sum(this=total.copy()), total.name) for total in sums]
        grouped = _select([person.copy(), *(key.copy() for key in keys), *totals], _inner(rows, "in_groups_"))
        grouped.set("group", exp.Group(expressions=[person.copy(), *(key.copy() for key in keys)]))
        if getattr(engine, "portable", False):
            return _first(grouped, [person], [engine.shuffle_key(salt + 2, [person, *keys])], unit.max_groups)
        rows = _first(_with_draw(grouped, "lines_"), [person], [_column(DRAW)], unit.max_groups)
    return rows


def _with_draw(rows: exp.Select, name: str) -> exp.Select:
    """The lines with a random number each: a column of its own, as engines refuse it inside a window, or would draw it twice."""
    columns = [_column(projection.alias_or_name) for projection in rows.selects]
    return _select([*columns, _named(exp.Rand(), DRAW)], _inner(rows, name))


def _sampled(
    rows: exp.Select,
    partition: list[exp.Column],
    ranges: Mapping[str, tuple[int, int]],
    most: int,
    engine: Engine,
    salt: int,
    counted: bool = False,
) -> exp.Select:
    """A random choice of `most` lines of each partition, in which every line has the same chance, equal lines too.

    Ordering by a keyed hash of the values alone would keep equal lines together, and so draw among different values instead of among
    lines: a mean would be wrong. So each line gets a random number of the engine's. An engine that is asked to be `portable` has no such
    numbers: there lines are numbered in the order of a keyed hash (between equal ones it does not matter), and the numbers are put into a
    second keyed order. With `counted`, where the engine draws itself, one line of each partition says in `SEEN_HERE` how many there were.
    """
    packed = Packed.of(rows, [column.name for column in partition], ranges)
    kept = [_column(name) for name in packed.values]
    if getattr(engine, "portable", False):
        apart = {column.name for column in partition}
        values = [column for column in kept if column.name not in apart]
        place = _window(exp.RowNumber(), partition, [engine.shuffle_key(salt, [*partition, *values]), *values])
        numbered = _select([*kept, _named(place, DRAW)], _inner(packed.rows, "numbered_"))
        found = _first(numbered, partition, [engine.shuffle_key(salt + 3, [*partition, _column(DRAW)])], most)
    elif (draw := draw_of(engine)) is not None:
        found = draw(packed.rows, [c.name for c in partition], most, SEEN_HERE if counted else None)
    else:
        found = _first(_with_draw(packed.rows, "drawn_"), partition, [_column(DRAW)], most)
    return (replace(packed, names=(*packed.names, SEEN_HERE)) if counted else packed).unpacked(found)


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


# --- sums where nothing is capped -----------------------------------------------------------------------------------------------------
# A row that lacks a value has NULL in its column, which sums pass over; so the column of a sum also tells how many rows have the value and,
# beside the count of all rows, how many lack it. A row is counted as lacking a value exactly where it adds nothing to its sum: that the two
# exclude each other, which the price relies on (see `tacit.tables.statistics`), holds by construction.

ZERO, ONE = exp.Literal.number(0), exp.Literal.number(1)


@dataclass(frozen=True)
class Tallies:
    """The measures of a question with NULL for what is not there, and how each is added up: `counts` says of which column, if any,
    the rows with a value are counted; `lacking` that those without are wanted.

    >>> from tacit.tables.statistics import Interval, null_count, row_count, total
    >>> x, present = exp.column("x"), exp.column("present")
    >>> found = Tallies.of([row_count(), total("x", x, present, Interval(0, 100), centred=True), null_count("x", present)])
    >>> [found.added(i, lambda name: exp.column(name)).sql() for i in range(3)]
    ['COUNT(*)', 'SUM(sum_1)', 'COUNT(*) - COUNT(sum_1)']
    """

    measures: tuple[Statistic, ...]
    counts: tuple[int | None, ...]
    lacking: tuple[bool, ...]

    @staticmethod
    def of(measures: Sequence[Statistic]) -> Tallies:
        """How to add up measures that all run over rows."""
        valued = {_condition(m).sql(): i for i, m in reversed(list(enumerate(measures))) if _adds_values(m)}
        found: list[tuple[Statistic, int | None, bool]] = []
        for index, measure in enumerate(measures):
            if not isinstance(measure.integer, exp.Case) or not _simple(measure.integer):
                found.append((measure, None, False))
                continue
            then, other = _branches(measure.integer)
            lacking = (then, other) == (ZERO, ONE)
            if lacking or (then, other) == (ONE, ZERO):
                lender = valued.get(_condition(measure).sql())
                # Where a sum has the same condition its column is counted, and this one is not looked at.
                column = replace(measure, integer=_if(_condition(measure), ONE) if lender is None else ONE.copy())
                found.append((column, index if lender is None else lender, lacking))
            else:
                found.append((replace(measure, integer=_if(_condition(measure), then)) if other == ZERO else measure, None, False))
        columns, counts, lacking_ = zip(*found, strict=True)
        return Tallies(tuple(columns), tuple(counts), tuple(lacking_))

    @property
    def columns(self) -> tuple[int, ...]:
        """The measures whose columns are looked at."""
        summed = [i for i, counted in enumerate(self.counts) if counted is None and self.measures[i].integer != ONE]
        return tuple(sorted({*summed, *(counted for counted in self.counts if counted is not None)}))

    def added(self, index: int, column: Callable[[str], exp.Expression]) -> exp.Expression:
        """The sum of one measure over rows whose columns are named by `measure_name`."""
        everything = exp.Count(this=exp.Star())
        counted = self.counts[index]
        if counted is None:
            return everything if self.measures[index].integer == ONE else exp.Sum(this=column(measure_name(index)))
        present = exp.Count(this=column(measure_name(counted)))
        return exp.Sub(this=everything, expression=present) if self.lacking[index] else present


def _adds_values(measure: Statistic) -> bool:
    """Whether a measure is 0 where a condition does not hold, and otherwise a rounded value, which is never NULL."""
    case = measure.integer
    if not isinstance(case, exp.Case) or not _simple(case):
        return False
    then, other = _branches(case)
    return other == ZERO and isinstance(then, exp.Cast) and isinstance(then.this, exp.Floor)


def whole(value: exp.Expression) -> bool:
    """Whether a value is a 64-bit integer as it is written: a cast to one, or nothing, by a condition.

    >>> whole(exp.cast(exp.column("x"), "BIGINT")), whole(exp.column("x"))
    (True, False)
    """
    if isinstance(value, exp.Case):
        return value.args.get("default") in (None, ZERO) and all(whole(branch.args["true"]) for branch in value.args["ifs"])
    return isinstance(value, exp.Cast) and bool(value.args["to"].this == exp.DataType.Type.BIGINT)


def _simple(case: exp.Case) -> bool:
    return len(case.args["ifs"]) == 1 and case.this is None


def _condition(measure: Statistic) -> exp.Expression:
    found: exp.Expression = measure.integer.args["ifs"][0].this
    return found


def _branches(case: exp.Case) -> tuple[exp.Expression, exp.Expression | None]:
    return case.args["ifs"][0].args["true"], case.args.get("default")


def _if(condition: exp.Expression, value: exp.Expression) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
