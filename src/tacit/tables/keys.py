"""Keys to group by: declared and public, or selected privately; every declared group is answered, the empty ones with noise of their own.

A declared list becomes a small table that the rows are joined to, so that an engine hands back the number of a group and never a value.
Values are first brought to the column's own type: equal keys would let one row count twice, so a list with equal values is refused.

>>> listed = Listed.of(["region"], [["N"], ["S"]], ["VARCHAR"])
>>> listed.values
(('N',), ('S',))
>>> Listed.of(["day"], [["2026-01-31"]], ["DATE"]).values
((datetime.date(2026, 1, 31),),)
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tacit.tables.engines.engine import Engine
from tacit.tables.engines.types import NANOSECONDS, NANOSECONDS_END, bare, kind_of
from tacit.tables.errors import Refused, TableError
from tacit.tables.question import Key

#: More groups than this are surely a mistake: each of them is answered.
MOST = 10_000_000
#: Longer lists are handed over as a table where the engine takes one.
INLINE = 2_000

#: Whole numbers below this can be subtracted from each other in 64 bits.
FARTHEST = 2**61

#: Whole numbers beyond this are floats to some engine.
WIDEST = 10**37
#: Digits of a decimal number on every engine, half of them behind the point.
DIGITS = 38

KeyList = Mapping[Any, Sequence[Any] | None] | Sequence[Any]


def is_single(sql_type: str) -> bool:
    """Whether a type is that of floats of four bytes, of which 0.1 is another number than the float of eight."""
    return sql_type.upper() in ("FLOAT", "REAL", "FLOAT4")


def single(value: float) -> float:
    """The nearest float of four bytes; what is too large for one becomes infinite, and equals no key.

    >>> single(0.1), single(0.5)
    (0.10000000149011612, 0.5)
    """
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _typed(name: str, value: Any, kind: str, sql_type: str = "") -> Any:
    """A declared key in its column's type, or an error that names the column (the list is public, but is not repeated)."""
    value = value.item() if hasattr(value, "item") else value
    wanted = {"text": "texts", "integer": "whole numbers", "float": "numbers", "decimal": "numbers", "boolean": "True or False"}
    if value is None:
        return None
    if kind == "text" and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and math.isfinite(value):
        if kind == "integer" and value == int(value):
            return _within(name, int(value), WIDEST)
        if kind == "float":
            if is_single(sql_type) and not math.isfinite(single(float(value))):
                raise TableError(f"keys[{name!r}] must be numbers that the column's type can hold; one of them is not")
            return float(value)
        if kind == "decimal":
            return _decimal(name, Decimal(str(value)), sql_type)
    if kind == "date":
        if isinstance(value, datetime.datetime) and value.tzinfo is None and value.time() == datetime.time():
            return value.date()
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value
        if isinstance(value, str):
            return _parsed(name, datetime.date.fromisoformat, value)
    if kind == "timestamp":
        if isinstance(value, str):
            value = _parsed(name, datetime.datetime.fromisoformat, value)
        if isinstance(value, datetime.datetime):
            return _held(name, _without_zone(name, value), sql_type)
        if isinstance(value, datetime.date):
            return _held(name, datetime.datetime(value.year, value.month, value.day), sql_type)
    if kind == "other":
        raise Refused(f"{name} has a type that cannot be a key; cast it: GROUP BY CAST({name} AS VARCHAR)")
    raise TableError(f"keys[{name!r}] must be {wanted.get(kind, 'dates such as 2026-01-31')}, as the column is; one of them is not")


def _without_zone(name: str, value: datetime.datetime) -> datetime.datetime:
    """Noon and noon in UTC are two values here and one to an engine, so that a row with it would be in two groups."""
    if value.tzinfo is not None:
        raise TableError(f"keys[{name!r}] must be timestamps without a time zone, as the column is; one of them has one")
    return value


def _held(name: str, value: datetime.datetime, sql_type: str) -> datetime.datetime:
    """A key that the column's type can hold: the engine brings it to that type, and fails where it cannot."""
    if bare(sql_type) in NANOSECONDS and abs((value - datetime.datetime(1970, 1, 1)).total_seconds()) >= NANOSECONDS_END:
        raise TableError(f"keys[{name!r}] must lie between 1677 and 2262, as the column's nanoseconds do; one of them does not")
    return value


def _within(name: str, value: int, most: int) -> int:
    if abs(value) > most:
        raise TableError(f"keys[{name!r}] must be whole numbers within {most} of zero; one of them is not")
    return value


def _decimal(name: str, value: Decimal, sql_type: str) -> Decimal:
    """A key that the column's own type can hold: to be compared with another, a row would be cast to a type that it may not fit into."""
    size = re.search(r"\((\d+), *(\d+)\)", sql_type)
    # PostgreSQL's plain numbers have any number of digits.
    digits, decimals = (int(size[1]), int(size[2])) if size else (2 * DIGITS, DIGITS)
    # Not in decimals, which Python rounds to 28 digits.
    scaled = abs(Fraction(value)) * 10**decimals
    if scaled.denominator != 1 or scaled >= 10**digits:
        raise TableError(f"keys[{name!r}] must be below 1e{digits - decimals} with at most {decimals} decimals; one of them is not")
    return value


def _parsed(name: str, reader: Any, value: str) -> Any:
    try:
        return reader(value)
    except ValueError:
        raise TableError(f"keys[{name!r}] must be dates written like 2026-01-31; one of them is not") from None


@dataclass(frozen=True)
class Listed:
    """A public list of tuples of some of the key columns."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    kinds: tuple[str, ...]
    singles: tuple[bool, ...] = ()

    @staticmethod
    def of(columns: Sequence[str], tuples: Sequence[Sequence[Any]], types: Sequence[str]) -> Listed:
        """The list in the columns' types, or a refusal."""
        kinds = tuple(kind_of(t) for t in types)
        values = []
        for row in tuples:
            if len(row) != len(columns):
                raise TableError(f"every key must have {len(columns)} values, one for each of {', '.join(columns)}")
            values.append(tuple(_typed(n, v, k, t) for n, v, k, t in zip(columns, row, kinds, types, strict=True)))
        if not values:
            raise TableError(f"keys of {', '.join(columns)} are empty; list at least one, or leave them out to have them selected")
        singles = tuple(is_single(t) for t in types)
        found = Listed(tuple(columns), tuple(values), kinds, singles)
        if len(set(found.compared)) != len(values):
            raise TableError(f"keys of {', '.join(columns)} must be different from each other, as the engine compares them; two are equal")
        return found

    @cached_property
    def compared(self) -> tuple[tuple[Any, ...], ...]:
        """The values as the engine has them: in a column of four-byte floats 0.1 is the nearest of those."""
        if not any(self.singles):
            return self.values
        pairs = (zip(row, self.singles, strict=True) for row in self.values)
        return tuple(tuple(single(v) if short and v is not None else v for v, short in row) for row in pairs)

    @cached_property
    def start(self) -> int | None:
        """The first of the values, where they are consecutive whole numbers in order: then a value tells its own place.

        >>> Listed.of(["month"], [[m] for m in range(1, 13)], ["BIGINT"]).start, Listed.of(["k"], [[1], [3]], ["BIGINT"]).start
        (1, None)
        """
        if self.kinds != ("integer",) or self.values[0][0] is None:
            return None
        first = self.values[0][0]
        consecutive = all(row[0] == first + place for place, row in enumerate(self.values))
        return first if consecutive and -FARTHEST < first < FARTHEST else None

    @property
    def distinct(self) -> bool:
        """Whether engines group these values as they compare them: 0.0 and -0.0 are equal, and not always one group."""
        return not {"float", "other"} & set(self.kinds)

    def inside(self, key: Key) -> exp.Expression:
        """That a row's key is one of the consecutive values."""
        low, high = (literal(row[0], "integer") for row in (self.values[0], self.values[-1]))
        return exp.Between(this=exp.Paren(this=key.value.copy()), low=low, high=high)

    def relation(self, name: str, engine: Engine) -> exp.Expression:
        """A table of the list: its number, and one column for each key."""
        names = [index_of(name), *(place_of(name, i) for i in range(len(self.columns)))]
        register = getattr(engine, "register", None)
        if len(self.values) > INLINE and register is not None:
            content = hashlib.sha256(repr((self.columns, self.values)).encode()).hexdigest()[:16]
            columns = [pa.array(range(len(self.values)), pa.int64()), *(pa.array(list(c)) for c in zip(*self.compared, strict=True))]
            register(f"tacit_keys_{content}", pa.table(dict(zip(names, columns, strict=True))))
            alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
            return exp.Table(this=exp.to_identifier(f"tacit_keys_{content}", quoted=True), alias=alias)
        rows = [
            exp.Tuple(expressions=[exp.Literal.number(i), *(literal(v, k) for v, k in zip(row, self.kinds, strict=True))])
            for i, row in enumerate(self.compared)
        ]
        alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=[exp.to_identifier(n, quoted=True) for n in names])
        return exp.Values(expressions=rows, alias=alias)

    def matches(self, name: str, keys: Sequence[Key]) -> exp.Expression:
        """That a row has the keys of a line of the list; NULL is a key where it is listed."""
        conditions: list[exp.Expression] = []
        for i, key in enumerate(keys):
            if all(row[i] is None for row in self.values):
                # A column of nothing but NULLs has no type that a key could be compared with.
                conditions.append(exp.Is(this=exp.Paren(this=key.value.copy()), expression=exp.null()))
                continue
            column = exp.column(place_of(name, i), table=name, quoted=True)
            equal = exp.NullSafeEQ if any(row[i] is None for row in self.values) else exp.EQ
            conditions.append(equal(this=exp.Paren(this=key.value.copy()), expression=column))
        return both(conditions)


def index_of(name: str) -> str:
    """The column of a list's numbers. With a space, so that it is not likely to be the name of a column that is grouped by."""
    return f"tacit {name} index"


def place_of(name: str, place: int) -> str:
    """The column of a list's values of one key."""
    return f"tacit {name} {place}"


def both(conditions: Sequence[exp.Expression]) -> exp.Expression:
    found = conditions[0]
    for condition in conditions[1:]:
        found = exp.And(this=found, expression=condition)
    return found


def literal(value: Any, kind: str) -> exp.Expression:
    """A public value as SQL."""
    if value is None:
        return exp.null()
    match kind:
        case "text":
            return exp.Literal.string(value)
        case "boolean":
            return exp.Boolean(this=value)
        case "date":
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case "timestamp":
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP")
    # A number with an exponent would be a float, and abs() of a decimal rounds it.
    number = exp.Literal.number(format(value.copy_abs(), "f") if isinstance(value, Decimal) else str(abs(value)))
    signed = exp.Neg(this=number) if value < 0 else number
    return exp.cast(signed, "DOUBLE") if kind == "float" else signed


@dataclass(frozen=True)
class Keys:
    """How a question is grouped: public lists, whose combinations are all answered, and columns to be selected privately."""

    keys: tuple[Key, ...]
    lists: tuple[Listed, ...] = ()
    private: tuple[int, ...] = ()

    @property
    def consecutive(self) -> bool:
        """Whether the public keys are one list of consecutive whole numbers: then a group's number in the statement is its key itself."""
        return len(self.lists) == 1 and self.lists[0].start is not None

    @property
    def first(self) -> int:
        """The number that a statement has for the first group."""
        return (self.lists[0].start or 0) if self.consecutive else 0

    @cached_property
    def count(self) -> int:
        """How many public combinations there are."""
        return math.prod(len(listed.values) for listed in self.lists)

    @property
    def most(self) -> int | None:
        """How many groups there can be at most, where that is public: without columns that are to be selected."""
        return None if self.private else self.count

    def of(self, listed: Listed) -> list[Key]:
        """The keys that a list is about, in its order."""
        by_name = {key.name: key for key in self.keys}
        return [by_name[name] for name in listed.columns]

    def combinations(self) -> list[tuple[Any, ...]]:
        """The values of the public key columns for each number of a group."""
        return [tuple(itertools.chain.from_iterable(parts)) for parts in itertools.product(*(listed.values for listed in self.lists))]

    @cached_property
    def listed(self) -> list[tuple[Any, ...]]:
        """The keys of every public combination in the question's order, where no column is private."""
        return self.groups(range(self.count), [()] * self.count) if self.keys else [()]

    def groups(self, numbers: Sequence[int], chosen: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Full keys in the question's order, from the numbers of public combinations and the values of private columns."""
        public = [name for listed in self.lists for name in listed.columns]
        places = {name: i for i, name in enumerate(public)}
        order = [(0, places[key.name]) if key.name in places else (1, self.private.index(i)) for i, key in enumerate(self.keys)]
        combinations = self.combinations() if self.lists else [()]
        found = []
        for number, values in zip(numbers, chosen, strict=True):
            parts = (combinations[number], values)
            found.append(tuple(parts[which][place] for which, place in order))
        return found


def keys_of(keys: tuple[Key, ...], declared: KeyList, types: Sequence[str]) -> Keys:
    """What was declared about the keys: a list for each column, a list of tuples, or nothing for what is to be selected."""
    if not keys:
        return Keys(())
    names = [key.name for key in keys]
    type_of = dict(zip(names, types, strict=True))
    if isinstance(declared, pa.Table):
        declared = [tuple(row[n] for n in names) for row in declared.select(names).to_pylist()]
    if not isinstance(declared, Mapping):
        given = _listing("keys", declared)
        if any(isinstance(row, Mapping) and not set(names) <= set(row) for row in given):
            raise TableError(f"each of the keys must say {', '.join(names)}; one of them does not")
        rows = [tuple(row[n] for n in names) if isinstance(row, Mapping) else row if isinstance(row, tuple) else (row,) for row in given]
        return _checked(Keys(keys, (Listed.of(names, rows, types),)))
    groups = [name for name in declared if isinstance(name, tuple)]
    lists, covered = [], set[str]()
    for group in groups:
        if set(group) <= set(names):
            lists.append(Listed.of(group, _listing(f"keys[{group!r}]", declared[group] or ()), [type_of[n] for n in group]))
            covered |= set(group)
    for name, listed in zip(names, (key.listed for key in keys), strict=True):
        values = listed if listed is not None else declared.get(name)
        if name not in covered and values is not None:
            lists.append(Listed.of([name], [(value,) for value in _listing(f"keys[{name!r}]", values)], [type_of[name]]))
            covered.add(name)
    return _checked(Keys(keys, tuple(lists), tuple(i for i, name in enumerate(names) if name not in covered)))


def _listing(what: str, given: Any) -> list[Any]:
    """A list as it was given; a single text is none, though Python would take it letter by letter."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TableError(f"{what} must be a list of values, such as ['N', 'S'], also where there is only one")
    return list(given)


def _checked(found: Keys) -> Keys:
    if found.count > MOST:
        raise TableError(code="groups-too-many", groups=found.count, most=MOST)
    return found
