"""Values of a row: their kind, and what is certain of their size and of their digits whatever the row is.

A size is (digits, decimals), as in DECIMAL(12, 2). Engines add, multiply and compare numbers exactly as long as a result has at most 38
digits; beyond that they raise an error or lose digits, so nothing is computed exactly unless its size is known to fit. PostgreSQL's plain
NUMERIC has any number of digits and needs no size.

>>> size_of("DECIMAL(12,2)"), size_of("BIGINT"), size_of("DECIMAL"), size_of(Fraction("12.99"))
((12, 2), (19, 0), None, (4, 2))
>>> sum_size((12, 2), (18, 3)), product_size((12, 2), (19, 0)), product_size((38, 10), (19, 0))
((19, 3), (32, 2), None)
>>> column("age", "INTEGER").kind, column("cost", "DECIMAL(12,2)").size
('integer', (12, 2))
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from tacit.tables.engines.types import (
    LISTED,
    NANOSECONDS,
    OTHER_TICKS,
    PADDED,
    PLAIN_TEXTS,
    UNSIGNED,
    WIDE,
    bare,
    kind_of,
    zoned,
)
from tacit.tables.errors import Refused

Size = tuple[int, int]

#: Digits of a decimal number on every engine.
DIGITS = 38
#: Bits of whole numbers by their type; those of more than 64 are no 64-bit integers, and are decimals without decimals here.
BITS = {
    "TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "INT": 31, "BIGINT": 63, "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32,
    "BYTE": 7, "SHORT": 15, "LONG": 63, "INT1": 7, "INT2": 15, "INT4": 31, "INT8": 63,
}  # fmt: skip
#: The digits of a 64-bit integer.
LONG: Size = (19, 0)
#: An expression may not become larger or deeper than this once it is made total: parsers and printers of SQL are recursive.
MOST_NODES, DEEPEST = 20_000, 120
_TYPE_NAMES = ("DOUBLE", "BIGINT", "INT", "TEXT", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMPTZ")
_DATA_TYPES = {name: exp.DataType.build(name) for name in _TYPE_NAMES} | {"TIMESTAMP_NS": exp.DataType(this=exp.DataType.Type.TIMESTAMP_NS)}


def size_of(of: str | Fraction) -> Size | None:
    """The size of a type or of a constant; None where it has none that is known, or more digits than engines have."""
    if isinstance(of, Fraction):
        decimals, rest = 0, of.denominator
        while rest != 1 and decimals <= DIGITS:
            decimals, rest = decimals + 1, (of * 10 ** (decimals + 1)).denominator
        digits = max(len(str(abs(int(of * 10**decimals)))), decimals, 1)
        return (digits, decimals) if rest == 1 and digits <= DIGITS else None
    name = of.upper()
    declared = re.fullmatch(r"(?:DECIMAL|NUMERIC)\((\d+), ?(\d+)\)", name)
    if declared:
        return int(declared[1]), int(declared[2])
    return (len(str(2 ** BITS[name])), 0) if name in BITS else (20, 0) if name == "UBIGINT" else None


def common_size(sizes: Sequence[Size]) -> Size | None:
    """The size that holds all of these, if it fits."""
    decimals = max(size[1] for size in sizes)
    return _fitting(max(size[0] - size[1] for size in sizes) + decimals, decimals)


def sum_size(first: Size, second: Size) -> Size | None:
    """The size of a sum or difference."""
    both = common_size([first, second])
    return None if both is None else _fitting(both[0] + 1, both[1])


def product_size(first: Size, second: Size) -> Size | None:
    """The size of a product. Spark counts one digit more than there can be."""
    return _fitting(first[0] + second[0] + 1, first[1] + second[1])


def quotient_size(first: Size, second: Size) -> Size | None:
    """The size of a quotient as Spark has it, with as many decimals as keep every quotient apart from 0; None where it leaves out some."""
    decimals = max(6, first[1] + second[0] + 1)
    return _fitting(first[0] - first[1] + second[1] + decimals, decimals)


def _fitting(digits: int, decimals: int) -> Size | None:
    return (digits, decimals) if digits <= DIGITS else None


def type_of_size(size: Size) -> str:
    """The type of a size."""
    return f"DECIMAL({size[0]}, {size[1]})"


def exact_literal(constant: Fraction, size: Size) -> exp.Expression:
    """A constant with all its digits and without an exponent, which would make it a float.

    >>> exact_literal(Fraction("-0.05"), (2, 2)).sql()
    '-0.05'
    """
    scaled = str(abs(int(constant * 10 ** size[1]))).rjust(size[1] + 1, "0")
    text = f"{scaled[: len(scaled) - size[1]]}.{scaled[len(scaled) - size[1] :]}" if size[1] else scaled
    number = exp.Literal.number(text)
    return exp.Neg(this=number) if constant < 0 else number


def beside_size(constant: Fraction, size: Size | None) -> tuple[Fraction, Size] | None:
    """A constant that lies to every number of this size as the given one does, and has few enough digits to be compared with it.

    >>> beside_size(Fraction("12.34567"), (38, 2)) is None, beside_size(Fraction("12.34567"), (36, 2))[0]
    (True, Fraction(2469, 200))
    >>> beside_size(Fraction(10**50), (12, 2))[0]
    Fraction(10000000000, 1)
    """
    own = size_of(constant)
    if own is not None and (size is None or common_size([own, size]) is not None):
        return constant, own
    if size is None:
        return None
    most = Fraction(10 ** (size[0] - size[1]))
    if abs(constant) >= most:
        constant = most if constant > 0 else -most
    else:
        step = Fraction(1, 10 ** size[1])
        constant = (constant // step) * step + step / 2
    own = size_of(constant)
    return (constant, own) if own is not None and common_size([own, size]) is not None else None


# --- values ---


@dataclass(frozen=True)
class Value:
    """A total expression: its kind, and what is certain of its size whatever the rows are.

    Kinds: integer, decimal, real (a column as it is), float (a guarded double), text, boolean, date, timestamp, nanoseconds (a finer
    timestamp, as it is), instant (a timestamp with a time zone), null, any (of unknown type), other. `wide`: a whole number of 64 bits
    without a sign, which may be compared as it is. `size`: the digits of an integer, decimal or constant (digits, decimals); a
    decimal without one is PostgreSQL's, of any length. `single`: a float of four bytes. `quotient`: computed here as a float from exact
    numbers, which PostgreSQL divides as decimals.
    `padded`: a text that PostgreSQL keeps filled up with blanks, char(n); here they are never seen. `listed`: a text of an enumeration,
    which its engine puts in the order of the enumeration's list.
    """

    sql: exp.Expression
    kind: str
    most: float = math.inf
    least: float = 0.0
    constant: Any = None
    name: str = ""
    wide: bool = False
    size: Size | None = None
    single: bool = False
    quotient: bool = False
    padded: bool = False
    listed: bool = False

    def __post_init__(self) -> None:
        if self.kind == "integer" and self.size is None:
            # Without digits it would count as one of PostgreSQL's numbers of any length, and a sum with it would not be checked to fit.
            object.__setattr__(self, "size", LONG)


def column(name: str, sql_type: str | None) -> Value:
    """A column of a relation, as the public type of it allows."""
    sql = exp.column(name, quoted=True)
    if sql_type is None:
        return Value(sql, "any", name=name)
    kind, name_of = kind_of(sql_type), bare(sql_type)
    if kind == "integer":
        wide, bits = name_of in UNSIGNED, BITS.get(name_of, 64 if name_of in UNSIGNED else 127 if name_of == "HUGEINT" else 128)
        size = size_of(name_of) or (39, 0)
        return Value(sql, "decimal" if name_of in WIDE else "integer", 2.0**bits, 1.0, name=name, wide=wide, size=size)
    if kind == "decimal":
        size_ = size_of(sql_type.upper())
        most, least = (math.inf, 0.0) if size_ is None else (10.0 ** (size_[0] - size_[1]), 10.0 ** -size_[1])
        return Value(sql, kind, most, least, name=name, size=size_)
    if kind == "text" and name_of not in PLAIN_TEXTS:
        return Value(cast(sql, "TEXT"), kind, name=name, padded=name_of in PADDED, listed=name_of in LISTED)
    if name_of in OTHER_TICKS:
        return Value(cast(sql, "TIMESTAMP"), kind, name=name)
    if name_of in NANOSECONDS:
        return Value(sql, "nanoseconds", name=name)
    own = "instant" if zoned(sql_type) else {"float": "real"}.get(kind, kind)
    return Value(sql, own, name=name, single=name_of in ("FLOAT", "REAL"))


def check_size(sql: exp.Expression) -> None:
    seen, level = 0, [sql]
    for _ in range(DEEPEST):
        seen += len(level)
        level = [child for node in level for child in node.iter_expressions()]
        if not level or seen > MOST_NODES:
            break
    if level or seen > MOST_NODES:
        raise Refused("an expression is too large once every step of it is made safe; compute parts of it in a sub-query")


def cast(sql: exp.Expression, name: str) -> exp.Cast:
    """CAST without the copy that sqlglot's own builder makes of everything below."""
    return exp.Cast(this=sql, to=_DATA_TYPES[name].copy())
