"""Total forms: values of a row that no engine can fail on, and what is certain of their size whatever the row is.

Guards stand around the arguments, each of which is written once. Division by zero, a logarithm of a negative, a text that is no number, a
number beyond 1e150: each gives NULL, on every engine.

>>> from tacit.tables.values import column
>>> arithmetic(exp.Div(), number(column("a", "INTEGER")), number(column("b", "INTEGER"))).sql.sql("duckdb")
'(CAST("a" AS DOUBLE) / NULLIF(CAST("b" AS DOUBLE), CAST(0 AS DOUBLE)))'
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tacit.tables.dialects import FLOATING
from tacit.tables.engines.types import NANOSECONDS_END
from tacit.tables.errors import Refused, TableError
from tacit.tables.values import (
    DIGITS,
    LONG,
    Value,
    beside_size,
    cast,
    check_size,
    common_size,
    exact_literal,
    product_size,
    quotient_size,
    size_of,
    sum_size,
    type_of_size,
)

if TYPE_CHECKING:
    import duckdb

#: Numbers of greater magnitude are NULL, so that a product of two never overflows (PostgreSQL raises an error where others give infinity).
GREATEST = 1e150
#: (x + c) - c is x for every x above 1e-114, and 0 or at least LEAST in magnitude for all: no product or quotient underflows (an error
#: there too).
FLUSH, LEAST = 1e-130, 2.0**-486
#: exp(340) is below the greatest number, exp(-340) above the least one.
EXPONENT = 340

ALLOWED = (
    "+ - * / %, comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL, LIKE, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, "
    "CEIL, TRUNC, SIGN, SQRT, LN, LOG, EXP, POWER, MOD, DIV, LOWER, UPPER, LENGTH, SUBSTRING, LEFT, RIGHT, STARTS_WITH, CONCAT, TRIM, "
    "REPLACE, REGEXP_MATCHES, REGEXP_EXTRACT and REGEXP_REPLACE (on DuckDB), STRPTIME, EXTRACT, YEAR, QUARTER, MONTH, DAY, DATE_TRUNC, "
    "DATE_DIFF in days, dates + INTERVAL, AT TIME ZONE, CAST"
)
#: Dates may be moved so many years beyond those that are read; PostgreSQL's begin 4713 years before its first.
FARTHEST_YEARS = 3000.0
NUMBERS = ("integer", "decimal", "real", "float", "any")
_NUMBER = "^[+-]?[0-9]{1,15}([.][0-9]{1,15})?([eE][+-]?[0-9]{1,2})?$"
_DATE = (
    "(([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
    "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
)
_TIMESTAMP = f"^{_DATE}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{{1,6}})?)?)?$"


def extreme_of(function: type[exp.Expression], first: exp.Expression, *others: exp.Expression) -> exp.Expression:
    """LEAST, GREATEST or COALESCE as all three engines have them; unless told that they skip NULL, sqlglot writes other forms."""
    made = function(this=first, expressions=list(others))
    if function is not exp.Coalesce:
        made.set("ignore_nulls", True)
    return made


def unless_missing(parts: list[exp.Expression], sql: exp.Expression) -> exp.Expression:
    """The value where all its parts are there, else NULL."""
    for part in parts:
        check_size(part)
    there: Any = exp.and_(*(exp.Not(this=exp.Is(this=exp.Paren(this=part.copy()), expression=exp.null())) for part in parts), copy=False)
    return exp.Case(ifs=[exp.If(this=there, true=sql)])


def double(number: float) -> exp.Expression:
    text = repr(abs(number))
    literal = exp.Literal.number(text.removesuffix(".0"))
    return cast(exp.Neg(this=literal) if number < 0 else literal, "DOUBLE")


def limited(sql: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The value if it lies strictly between two constants, else NULL; so is NaN, which all engines order last. The value is written once.

    LEAST and GREATEST skip NULL on all three engines, so a NULL becomes the lower limit, and NULLIF makes it NULL again.
    """
    inside = extreme_of(exp.Least, extreme_of(exp.Greatest, sql, low), high)
    return exp.Nullif(this=exp.Nullif(this=inside, expression=high.copy()), expression=low.copy())


def settled(value: Value, most: float = GREATEST) -> Value:
    """Within the greatest number, or NULL."""
    if value.most < most or (value.most == most and most == GREATEST):
        return value
    return replace(value, sql=limited(value.sql, double(-most), double(most)), most=most)


def flushed(value: Value, flush: float = FLUSH, least: float = LEAST) -> Value:
    """Zero where it is so small that a product could underflow."""
    if value.least >= least:
        return value
    there = exp.Paren(this=exp.Add(this=value.sql, expression=double(flush)))
    return replace(value, sql=exp.Paren(this=exp.Sub(this=there, expression=double(flush))), least=least, most=value.most * 2)


def number(value: Value, what: str = "arithmetic") -> Value:
    """A finite double, or NULL."""
    value = replace(value, wide=False)
    if value.kind == "float":
        return value
    if value.constant is not None and value.kind == "integer":
        return Value(
            double(float(value.constant)), "float", abs(float(value.constant)), abs(float(value.constant)) or math.inf, value.constant
        )
    if value.kind == "integer":
        return Value(cast(value.sql, "DOUBLE"), "float", value.most, value.least)
    if value.kind == "decimal" and value.size is not None:
        return Value(cast(value.sql, "DOUBLE"), "float", value.most, value.least)
    if value.kind == "decimal":
        # PostgreSQL's numbers may be larger and smaller than a double can be, and the cast is then an error.
        ends = exp.Literal.number("-1e37"), exp.Literal.number("1e37")
        return Value(cast(exp.Round(this=limited(value.sql, *ends), decimals=exp.Literal.number(30)), "DOUBLE"), "float", 1e37, 1e-31)
    if value.kind == "real":
        return settled(Value(cast(value.sql, "DOUBLE"), "float"))
    if value.kind == "any":
        return settled(Value(exp.TryCast(this=value.sql, to=exp.DataType.build("DOUBLE"), safe=True), "float"))
    if value.kind == "null":
        return Value(cast(exp.null(), "DOUBLE"), "float", 0.0, math.inf)
    name = value.name or "..."
    if value.kind == "text":
        raise Refused(code="text-not-number", column=value.name or "an operand", written=name, what=what)
    fix = {
        "date": f"EXTRACT(YEAR FROM {name}), or DATE_DIFF('day', DATE '2020-01-01', {name})",
        **dict.fromkeys(
            ("timestamp", "nanoseconds"), f"EXTRACT(YEAR FROM {name}), or DATE_DIFF('day', DATE '2020-01-01', CAST({name} AS DATE))"
        ),
        "boolean": f"CAST({name} AS INTEGER), which is 0 or 1",
    }.get(value.kind, "a CASE that says which number each stands for")
    raise Refused(f"{what} needs numbers, and {value.name or 'an operand'} is {_a(value.kind)}; write {fix}")


def seen_whole(value: Value, what: str) -> Value:
    """A text for what sees blanks at its end; refused where PostgreSQL would see those that fill up a char(n)."""
    if value.padded:
        raise Refused(code="text-padded", column=value.name or "a value", what=what)
    return as_text(value, what)


def in_order(value: Value, what: str) -> Value:
    """A value for what puts values in order; refused where the engine has another order for it than for texts."""
    if value.listed:
        raise Refused(code="text-listed", column=value.name or "a value", what=what)
    return value


def unpadded(values: list[Value]) -> list[Value]:
    """Constants beside a char(n) without the blanks at their ends, which PostgreSQL does not compare."""
    others = [v for v in values if v.constant is None and v.kind != "null"]
    if not others or not all(v.padded for v in others):
        return values
    return [
        replace(v, sql=exp.Literal.string(v.constant.rstrip(" ")), constant=v.constant.rstrip(" ")) if isinstance(v.constant, str) else v
        for v in values
    ]


def _a(kind: str) -> str:
    """A kind with its article.

    >>> _a("integer"), _a("text")
    ('an integer', 'a text')
    """
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def as_text(value: Value, what: str) -> Value:
    if value.kind == "text":
        return value
    if value.kind in ("any", "null"):
        return Value(cast(value.sql, "TEXT"), "text", name=value.name)
    raise Refused(
        f"{what} needs a text, and {value.name or 'an operand'} is {_a(value.kind)}; "
        f"write CAST({value.name or '...'} AS VARCHAR)"
    )


def _day(year: int, month: int, day: int, kind: str) -> exp.Expression:
    return cast(exp.Literal.string(f"{year:04}-{month:02}-{day:02}"), "DATE" if kind == "date" else "TIMESTAMP")


def dated(value: Value) -> exp.Expression:
    """A date or timestamp within the years that all engines share, 1 to 9999: others, and infinite ones, are NULL.

    `most` are the years that a value may lie beyond them because it was moved; no engine fails on some thousand.
    """
    if value.most <= FARTHEST_YEARS:
        return value.sql
    check_size(value.sql)
    last = "9999-12-31" if value.kind == "date" else "9999-12-31 23:59:59.999999"
    high = cast(exp.Literal.string(last), "DATE" if value.kind == "date" else "TIMESTAMP")
    return inside(value.sql, _day(1, 1, 1, value.kind), high)


def inside(sql: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The value where it lies between two constants or is one of them, else NULL."""
    return exp.Case(ifs=[exp.If(this=exp.Between(this=sql, low=low, high=high), true=sql.copy())])


def in_zone(value: Value) -> str:
    """Why a moment is no date: what to write instead."""
    name = value.name or "..."
    return f"{name} is a moment, and its date depends on the time zone; say which: {name} AT TIME ZONE 'UTC' is a timestamp"


def cut_off(value: Value) -> Value:
    """A number without its decimals: towards zero."""
    check_size(value.sql)
    below = exp.LT(this=value.sql, expression=double(0.0))
    sql = exp.Case(ifs=[exp.If(this=below, true=exp.Ceil(this=value.sql.copy()))], default=exp.Floor(this=value.sql.copy()))
    return Value(sql, "float", value.most, 1.0)


def to_even(value: Value) -> Value:
    """A number rounded to a whole one, halves to the even one: beyond 2^52 doubles have no halves, and rounding to them does just that.

    From 2^51 on the number is left as it is: what is then cast to a whole number has at most one half too many.
    """
    check_size(value.sql)
    x, far = value.sql, double(1.5 * 2.0**52)
    there = exp.Paren(this=exp.Add(this=x, expression=far))
    near = exp.Paren(this=exp.Sub(this=there, expression=far.copy()))
    inside = exp.LT(this=exp.Abs(this=x.copy()), expression=double(2.0**51))
    return Value(exp.Case(ifs=[exp.If(this=inside, true=near)], default=x.copy()), "float", value.most + 1, 1.0)


def whole_quotient(left: Value, right: Value) -> Value:
    """How often one whole number is contained in another, towards zero; exact below 2^53."""
    return as_whole(cut_off(arithmetic(exp.Div(), left, right)))


def public(constant: Fraction) -> Value:
    """A constant of the question as a value."""
    if constant.denominator == 1 and abs(constant) < 2**63:
        literal = exp.Literal.number(str(abs(constant)))
        size = float(abs(constant))
        sql = exp.Neg(this=literal) if constant < 0 else literal
        return Value(sql, "integer", size, size or math.inf, constant, size=size_of(constant))
    if not Fraction(1, 10**140) < abs(constant) < 10**140:
        raise TableError("a number in a question must lie between 1e-140 and 1e140 in magnitude, or be 0")
    size = abs(float(constant))
    return Value(double(float(constant)), "float", size, size, constant, size=size_of(constant))


def constant_of(node: exp.Literal) -> Value:
    if node.is_string:
        return Value(node.copy(), "text", constant=node.this)
    if not re.fullmatch(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?", node.this) or not re.search("[0-9]", node.this):
        raise TableError("a number in a question must be written like 12, 1.5 or 1e-3")
    if len(node.this) > 60:
        raise TableError("a number in a question must have at most 60 characters")
    found = public(Fraction(node.this.rstrip(".") if not node.this.startswith(".") else f"0{node.this}"))
    if not node.meta.get(FLOATING):
        return found
    return Value(double(float(found.constant)), "float", found.most, found.least, Fraction(float(found.constant)))


def in_digits(node: exp.Expression, left: Value, right: Value) -> Value | None:
    """A sum, difference or product without rounding, where its digits fit; None where they do not, or a side is a float.

    Whole numbers stay 64-bit integers where the result is sure to be one, and otherwise become decimals: adding a decimal zero does that
    on every engine, and cannot fail as a cast could.
    """
    if not exact(left) or not exact(right) or (left.constant is not None and right.constant is not None):
        return None
    times = isinstance(node, exp.Mul)
    left, right = _in_64_bits(written_out(left)), _in_64_bits(written_out(right))
    most = left.most * right.most if times else left.most + right.most
    least = left.least * right.least if times else min(left.least, right.least, 1.0)
    if left.kind == right.kind == "integer" and most < 2.0**63:
        # One side of 64 bits makes the result one of 64; a long chain of sums stays short.
        first = left.sql if left.sql.meta.get(_LONG) else cast(left.sql, "BIGINT")
        second = cast(right.sql, "BIGINT") if isinstance(right.sql, exp.Column) else right.sql
        made = exp.Paren(this=type(node)(this=first, expression=second))
        made.meta[_LONG] = True
        return Value(made, "integer", most, 1.0, size=(19, 0))
    if left.size is None or right.size is None:
        sides = [v if v.size is not None or v.most < 1e37 else held(v) for v in (left, right)]
        most = sides[0].most * sides[1].most if times else sides[0].most + sides[1].most
        if most > 1e100:
            return None
        return Value(exp.Paren(this=type(node)(this=sides[0].sql, expression=sides[1].sql)), "decimal", most, 0.0)
    # A column of a person's own figures has the digits of 64 bits here, and may have fewer in the engine: MAX of a short one. DuckDB would
    # then keep the result in 64 bits, where it may not fit.
    left, right = _as_long(left), _as_long(right)
    assert left.size is not None and right.size is not None
    whole = left.size[1] == right.size[1] == 0
    size = (product_size if times else sum_size)(left.size, right.size)
    if size is None and whole and most < 1e38:
        size = (DIGITS, 0)
    if size is None:
        return None
    first = left.sql
    if size[0] > _IN_64_BITS and max(left.size[0], right.size[0]) <= _IN_64_BITS:
        # Of two that fit into 64 bits DuckDB makes a third that must.
        wide = (_IN_64_BITS + 1, left.size[1])
        size = (product_size if times else sum_size)(wide, right.size)
        if size is None:
            return None
        first = exp.Cast(this=left.sql, to=exp.DataType.build(type_of_size(wide)))
    elif left.kind == right.kind == "integer" or left.constant is not None or _unsigned(left) or _unsigned(right):
        first = exp.Paren(this=exp.Add(this=left.sql, expression=_NOTHING.copy()))
        if sum_size(left.size, (1, 0)) is None:
            return None
    return Value(exp.Paren(this=type(node)(this=first, expression=right.sql)), "decimal", most, least, size=size)


def _in_64_bits(value: Value) -> Value:
    """A computed whole number as one of 64 bits, which is what its digits say: an engine may have it in fewer."""
    if value.kind != "integer" or value.size != LONG or isinstance(value.sql, exp.Column) or value.constant is not None:
        return value
    return value if value.sql.meta.get(_LONG) else replace(value, sql=cast(value.sql, "BIGINT"))


def _as_long(value: Value) -> Value:
    """The same for columns."""
    column = value.kind == "integer" and value.size == LONG and isinstance(value.sql, exp.Column)
    return replace(value, sql=cast(value.sql, "BIGINT")) if column else value


#: The mark of a sum that is a 64-bit integer.
_LONG = "tacit_long"
#: Digits of a decimal that DuckDB keeps in 64 bits.
_IN_64_BITS = 18
#: A decimal zero: whatever is added to it becomes a decimal.
_NOTHING = exp.Cast(this=exp.Literal.number(0), to=exp.DataType.build("DECIMAL(1, 0)"))


def held(value: Value) -> Value:
    """One of PostgreSQL's numbers below 1e37, so that no product of some is beyond what it can hold; NaN and others are NULL."""
    ends = exp.Literal.number("-1e37"), exp.Literal.number("1e37")
    return replace(value, sql=limited(value.sql, *ends), most=1e37)


def narrowed(value: Value, *, whole: bool = False) -> Value:
    """A decimal without decimals (`whole`: which is known to have none) as a 64-bit integer, NULL where it is none of those."""
    if value.kind != "decimal" or not (whole or (value.size is not None and not value.size[1])):
        return value
    sql = value.sql
    if value.most >= 2.0**63:
        ends = exp.Neg(this=exp.Literal.number(2**63 + 1)), exp.Literal.number(2**63)
        sql = limited(sql, *ends)
    return Value(cast(sql, "BIGINT"), "integer", 2.0**63, 1.0, name=value.name, size=(19, 0))


def rounded_decimal(value: Value, places: int) -> Value:
    """A decimal rounded to so many places, halves away from zero: all engines have this one alike."""
    if value.kind == "integer" or (value.size is not None and value.size[1] <= places):
        return value
    sql = exp.Round(this=value.sql, decimals=exp.Literal.number(places))
    size = None if value.size is None else (min(value.size[0] - value.size[1] + places + 1, DIGITS), places)
    return replace(value, sql=sql, most=value.most + 1, least=10.0**-places, size=size, constant=None)


def arithmetic(node: exp.Expression, left: Value, right: Value) -> Value:
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        found = in_digits(node, left, right)
        if found is not None:
            return found
    quotient = all(exact(side) or side.quotient for side in (left, right))
    made = replace(_in_floats(node, number(left), number(right)), quotient=quotient)
    sides = [side for side in (left, right) if exact(side) and side.size is not None]
    if len(sides) == 2 and any(side.kind == "decimal" for side in sides):
        sizes = [side.size for side in sides if side.size is not None]
        if not isinstance(node, exp.Div) or quotient_size(*sizes) is None:
            return shortened(made)
    return made


def shortened(value: Value) -> Value:
    """A value that is computed as a float here, while an engine that keeps decimals has to leave out digits of it (`SHORTENED`)."""
    sql = value.sql.copy()
    sql.meta[SHORTENED] = True
    return replace(value, sql=sql)


def _in_floats(node: exp.Expression, left: Value, right: Value) -> Value:
    match node:
        case exp.Add() | exp.Sub():
            sql = type(node)(this=left.sql, expression=right.sql)
            least = 1.0 if left.least == right.least == 1.0 and left.most + right.most < 2.0**53 else 0.0
            return settled(Value(exp.Paren(this=sql), "float", left.most + right.most, least))
        case exp.Mul():
            left, right = settled(left), settled(right)
            if left.least * right.least < 1e-300:
                left, right = flushed(left), flushed(right)
            product = exp.Mul(this=left.sql, expression=right.sql)
            return settled(Value(exp.Paren(this=product), "float", left.most * right.most, left.least * right.least))
    left, right = flushed(settled(left)), flushed(settled(right))
    bottom = right.sql if right.constant else exp.Nullif(this=right.sql, expression=double(0.0))
    quotient = Value(exp.Paren(this=exp.Div(this=left.sql, expression=bottom)), "float", left.most / min(right.least, 1e300), 0.0)
    return settled(replace(quotient, least=left.least / max(right.most, 1e-300) if right.most else math.inf))


def divided(value: Value, by: int) -> Value:
    return value if by == 1 else arithmetic(exp.Div(), value, public(Fraction(by)))


def logarithm(value: Value) -> Value:
    zero = double(0.0)
    positive = exp.Nullif(this=extreme_of(exp.Greatest, flushed(settled(value)).sql, zero), expression=zero.copy())
    return Value(exp.Ln(this=positive), "float", 400.0, 1e-17)


def exponential(value: Value) -> Value:
    inside = settled(replace(value, most=math.inf), float(EXPONENT))
    return Value(exp.Exp(this=inside.sql), "float", math.exp(EXPONENT), math.exp(-EXPONENT))


def cut(sql: exp.Expression, start: int, length: int) -> exp.Expression:
    return exp.Substring(this=sql, start=exp.Literal.number(start), length=exp.Literal.number(length))


def matching(value: Value, pattern: str) -> exp.Expression:
    """The text where it has the form of a number or date, else NULL."""
    check_size(value.sql)
    return exp.Case(ifs=[exp.If(this=exp.RegexpLike(this=value.sql, expression=exp.Literal.string(pattern)), true=value.sql.copy())])


def read_number(value: Value) -> Value:
    """A text read as a number: NULL where it is none."""
    if value.kind != "text":
        return value
    return Value(cast(matching(value, _NUMBER), "DOUBLE"), "float", 1e115, 1e-130)


def as_whole(value: Value) -> Value:
    """Rounded to a whole number, ties up; NULL beyond 2^53."""
    if value.kind == "integer":
        return value
    if value.kind == "boolean" and isinstance(value.sql, exp.Column):
        # In this form its bounds are seen.
        ifs = [exp.If(this=value.sql, true=exp.Literal.number(1)), exp.If(this=exp.Not(this=value.sql.copy()), true=exp.Literal.number(0))]
        return Value(exp.Case(ifs=ifs), "integer", 1.0, 1.0)
    if value.kind == "boolean":
        return Value(cast(value.sql, "INT"), "integer", 1.0, 1.0)
    if value.kind == "decimal" and value.constant is None and exact(value):
        return narrowed(rounded_decimal(value if value.size is not None else held(value), 0), whole=True)
    inside = settled(replace(number(read_number(value), "a whole number"), most=math.inf), 2.0**53)
    return Value(cast(exp.Floor(this=exp.Add(this=inside.sql, expression=double(0.5))), "BIGINT"), "integer", 2.0**53, 1.0)


def as_date(value: Value, kind: str) -> Value:
    name, value = "DATE" if kind == "date" else "TIMESTAMP", in_microseconds(value)
    if value.kind in ("date", "timestamp"):
        return value if value.kind == kind else Value(cast(dated(value), name), kind, value.most if value.most <= FARTHEST_YEARS else 0.0)
    if value.constant is not None and value.kind == "text":
        return written(value.constant, kind)
    if value.kind == "null":
        return Value(cast(exp.null(), name), kind)
    if value.kind == "instant":
        raise Refused(in_zone(value))
    text = as_text(value, f"CAST AS {name}")
    return Value(cast(matching(text, f"^{_DATE}$" if kind == "date" else _TIMESTAMP), name), kind)


#: The parts of a date that STRPTIME reads: how many digits each has, and where it stands in a timestamp as all engines read it.
_FORM = {"%Y": (4, "year"), "%m": (2, "month"), "%d": (2, "day"), "%H": (2, "hour"), "%M": (2, "minute"), "%S": (2, "second")}


def in_form(text: Value, form: str, kind: str) -> Value:
    """A text of a fixed form, such as %d.%m.%Y, as a date or timestamp; NULL where it has another form, or is no day there is.

    The parts are cut out by their places and put together as all engines read them, so that no engine's own reader is asked.
    """
    places: dict[str, tuple[int, int]] = {}
    pattern, start, rest = "", 1, form
    while rest:
        sign = rest[:2]
        if sign in _FORM:
            size, name = _FORM[sign]
            if name in places:
                raise Refused(f"the format {form[:40]!r} has {sign} twice")
            places[name] = (start, size)
            pattern, start, rest = f"{pattern}[0-9]{{{size}}}", start + size, rest[2:]
        elif rest[0] == "%" or not (rest[0].isascii() and rest[0].isprintable()):
            raise Refused(f"the format {form[:40]!r} is not understood; it is made of {', '.join(_FORM)} and plain characters")
        else:
            pattern, start, rest = f"{pattern}[{rest[0]}]" if rest[0] not in "^]\\[-" else f"{pattern}\\{rest[0]}", start + 1, rest[1:]
    if not {"year", "month", "day"} <= set(places) or len(form) > 40:
        raise Refused(f"the format {form[:40]!r} must have %Y, %m and %d, once each, and at most 40 characters")
    check_size(text.sql)
    whole = exp.Case(ifs=[exp.If(this=exp.RegexpLike(this=text.sql, expression=exp.Literal.string(f"^{pattern}$")), true=text.sql.copy())])

    def part(name: str) -> exp.Expression:
        return cut(whole.copy(), *places[name]) if name in places else exp.Literal.string("00")

    marks = (("year", "-"), ("month", "-"), ("day", " "), ("hour", ":"), ("minute", ":"), ("second", ""))
    used = marks if kind == "timestamp" else marks[:3]
    sql: exp.Expression | None = None
    for place, (name, mark) in enumerate(used):
        sql = part(name) if sql is None else exp.DPipe(this=sql, expression=part(name))
        if mark and place < len(used) - 1:
            sql = exp.DPipe(this=sql, expression=exp.Literal.string(mark))
    assert sql is not None
    return as_date(Value(exp.Paren(this=sql), "text"), kind)


@lru_cache(maxsize=1)
def _empty_database() -> duckdb.DuckDBPyConnection:
    """Opening one takes longer than any pattern."""
    import duckdb

    return duckdb.connect()


@lru_cache(maxsize=256)
def check_pattern(pattern: str) -> None:
    """Refuse a regular expression that RE2 does not understand: look-around and references to what was found, which take time without
    limit, and slips. It is tried on an empty text, before any row is read."""
    import duckdb

    fault = False
    try:
        _empty_database().cursor().execute("SELECT regexp_matches('', ?)", [pattern]).fetchall()
    except duckdb.Error:
        fault = True
    if fault:
        raise Refused("this is no regular expression of RE2, which has no look-around and no references to groups; write it without them")


#: Functions of regular expressions, which only an engine may run whose time they cannot blow up.
#: The mark of what is a float here and a decimal with fewer digits to Spark, which rounds -1e-10 to 0 before it compares.
SHORTENED = "shortened"
REGULAR = ("REGEXP_MATCHES", "REGEXP_FULL_MATCH", "REGEXP_EXTRACT", "REGEXP_REPLACE")


def in_microseconds(value: Value) -> Value:
    """Nanoseconds as the engine's own functions of dates take them; other values as they are."""
    return Value(cast(value.sql, "TIMESTAMP"), "timestamp", name=value.name) if value.kind == "nanoseconds" else value


def _in_nanoseconds(value: Value) -> Value | None:
    """A constant as a timestamp of nanoseconds; None where it lies beyond them."""
    head, _, rest = str(value.constant).partition(".")
    found = _parsed(head, "timestamp")
    if len(rest) > 9 or (rest and not rest.isdecimal()):
        raise TableError("a timestamp beside nanoseconds must have at most nine decimals")
    if abs((found - datetime.datetime(1970, 1, 1)).total_seconds()) >= NANOSECONDS_END:
        return None
    return replace(value, sql=cast(exp.Literal.string(f"{found.isoformat(sep=' ')}.{rest or '0'}"), "TIMESTAMP_NS"), kind="nanoseconds")


def of_nanoseconds(values: list[Value], kinds: set[str], what: str) -> list[Value]:
    """Nanoseconds and constants brought to one type: theirs, or where a constant lies beyond it, microseconds."""
    if kinds != {"nanoseconds"}:
        named = next((v.name for v in values if v.kind == "nanoseconds" and v.name), "...")
        raise Refused(
            f"the operands of {what} must be of one kind, and one has nanoseconds; write CAST({named} AS TIMESTAMP)"
        )
    if any(v.kind not in ("nanoseconds", "null", "text", "date", "timestamp") for v in values):
        raise Refused(f"the operands of {what} must be of one kind; CAST one of them")
    missing = Value(cast(exp.null(), "TIMESTAMP_NS"), "nanoseconds")
    made = [v if v.kind == "nanoseconds" else missing if v.kind == "null" else _in_nanoseconds(v) for v in values]
    found = [v for v in made if v is not None]
    return found if len(found) == len(made) else [as_kind(in_microseconds(v), "timestamp", what) for v in values]


_TURNED: dict[type[exp.Expression], type[exp.Expression]] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}


def beside_nanoseconds(operator: type[exp.Expression], left: Value, right: Value) -> Value | None:
    """Nanoseconds compared with a date or timestamp of any year, which the engine would bring to nanoseconds and fail on; None for others.

    In microseconds, to which the engine rounds it, a value lies on the same side of every other timestamp or is equal to it; then what was
    rounded off decides.
    """
    if right.kind == "nanoseconds" and left.kind != "nanoseconds":
        left, right, operator = right, left, _TURNED.get(operator, operator)
    constant = right.constant is not None and right.kind in ("text", "date", "timestamp")
    if left.kind != "nanoseconds" or not (constant or right.kind in ("date", "timestamp")):
        return None
    if constant and _in_nanoseconds(right) is not None:
        return None
    check_size(right.sql)
    coarse, other = cast(left.sql.copy(), "TIMESTAMP"), as_kind(right, "timestamp", "a comparison").sql
    # Rounded, the first and the last of them lie beyond nanoseconds: a cast would fail on one row, so there the comparison is NULL.
    back = exp.TryCast(this=coarse.copy(), to=exp.DataType(this=exp.DataType.Type.TIMESTAMP_NS))
    alike = exp.If(this=exp.EQ(this=coarse, expression=other), true=operator(this=left.sql.copy(), expression=back))
    sql = exp.Case(ifs=[alike], default=operator(this=coarse.copy(), expression=other.copy()))
    return Value(exp.Paren(this=sql), "boolean")


def written(text: str, kind: str) -> Value:
    """A date in the question, checked here so that no engine has to."""
    if kind == "timestamp" and len(text.partition(".")[2]) > 6:
        raise TableError("a timestamp in a question must have at most six decimals")
    found = _parsed(text, kind)
    shown = found.isoformat(sep=" ") if isinstance(found, datetime.datetime) else found.isoformat()
    return Value(cast(exp.Literal.string(shown), "DATE" if kind == "date" else "TIMESTAMP"), kind, constant=shown)


def _parsed(text: str, kind: str) -> Any:
    reader = datetime.date.fromisoformat if kind == "date" else datetime.datetime.fromisoformat
    try:
        found = reader(text)
    except ValueError:
        raise TableError(
            f"a {kind} in a question must be written like {'2026-01-31' if kind == 'date' else '2026-01-31 12:00:00'}"
        ) from None
    if isinstance(found, datetime.datetime) and found.tzinfo is not None:
        raise TableError("a timestamp in a question must have no time zone")
    return found


def as_number(value: Value, kinds: set[str], what: str, plain: bool) -> Value:
    if value.constant is not None and value.kind == "text":
        if not re.fullmatch(_NUMBER, value.constant):
            raise TableError(f"the text compared with a number in {what} must be a number")
        value = public(Fraction(value.constant))
    if kinds == {"integer"} and value.kind in ("integer", "null"):
        return value if value.kind == "integer" else Value(cast(exp.null(), "BIGINT"), "integer", 0.0, math.inf)
    if plain and value.kind in ("integer", "real") and value.constant is None:
        return value
    return number(value, what)


def as_constant(value: Value) -> Value:
    """A text constant as a number; one that is none stays a text."""
    return public(Fraction(value.constant)) if re.fullmatch(_NUMBER, value.constant) else value


def one_of(sql: exp.Expression, values: list[Value]) -> Value:
    """A value that is one of several of one kind."""
    known = [v for v in values if v.kind != "null"] or values
    kind, sizes = known[0].kind, [v.size for v in known if v.size is not None]
    if {v.kind for v in known} == {"integer", "decimal"}:
        kind = "decimal"
    size = common_size(sizes) if len(sizes) == len(known) and kind in ("integer", "decimal") else None
    if kind == "decimal" and size is None and len(sizes) == len(known):
        kind, sql = "float", cast(sql, "DOUBLE")
    padded, listed = any(v.padded for v in values), any(v.listed for v in values)
    most, least = max(v.most for v in values), min(v.least for v in values)
    return Value(sql, kind, most, least, size=size, padded=padded, listed=listed)


def beside_single(value: Value) -> Value:
    """What is compared with a float of four bytes, left to the engine: DuckDB rounds 0.1 to four bytes, PostgreSQL and Spark do not."""
    if value.constant is not None:
        return written_out(value) if value.size is not None else number(value)
    return value if value.kind in ("integer", "real", "null") or value.size is not None else number(value)


def of_decimal(function: type[exp.Expression], value: Value) -> Value | None:
    """ABS, FLOOR or CEIL of an exact number; None where the digits do not fit."""
    if function is exp.Abs:
        if value.kind == "integer":
            whole = replace(value, sql=cast(value.sql, "BIGINT"))
            made = in_digits(exp.Add(), value, public(Fraction(0))) if value.most >= 2.0**63 else whole
            return None if made is None else replace(made, sql=exp.Abs(this=made.sql), constant=None)
        made_ = exp.Abs(this=value.sql)
        # Spark rounds to 34 digits on the way and fails where the result does not fit: it is told the type, and goes another way.
        named = made_ if value.size is None else exp.Cast(this=made_, to=exp.DataType.build(type_of_size(value.size)))
        return replace(value, sql=named, constant=None)
    if value.kind == "integer" or (value.size is not None and not value.size[1]):
        return value
    if value.size is None:
        return replace(held(value), sql=function(this=held(value).sql), constant=None)  # PostgreSQL's own
    # Moved by a little less than a half, which no number of this size lies at, and rounded: engines have other types for FLOOR.
    near = Fraction(1, 2) - Fraction(1, 2 * 10 ** value.size[1])
    moved_ = in_digits(exp.Sub() if function is exp.Floor else exp.Add(), value, public(near))
    return None if moved_ is None else rounded_decimal(moved_, 0)


def cut_decimals(value: Value) -> Value:
    """A decimal without its decimals: towards zero."""
    check_size(value.sql)
    down, up = of_decimal(exp.Floor, value), of_decimal(exp.Ceil, value)
    if down is None or up is None:
        return rounded_decimal(value, 0)
    below = exp.LT(this=value.sql.copy(), expression=exp.Literal.number(0))
    return replace(down, sql=exp.Case(ifs=[exp.If(this=below, true=up.sql)], default=down.sql.copy()))


def away(value: Value) -> Value:
    """A float rounded to a whole number, halves away from zero. Beyond 2^52 floats are whole."""
    check_size(value.sql)
    half, far = double(math.nextafter(0.5, 0.0)), double(2.0**52)
    x = value.sql
    ifs = [
        exp.If(this=exp.GTE(this=exp.Abs(this=x), expression=far), true=x.copy()),
        exp.If(this=exp.LT(this=x.copy(), expression=double(0.0)), true=exp.Ceil(this=exp.Sub(this=x.copy(), expression=half))),
    ]
    sql = exp.Case(ifs=ifs, default=exp.Floor(this=exp.Add(this=x.copy(), expression=half.copy())))
    return Value(sql, "float", value.most * 2 + 1, 1.0)


def without_common_size(values: list[Value]) -> bool:
    """Whether exact numbers are met of which no decimal can hold all digits."""
    others = [v for v in values if v.kind != "null" and v.constant is None]
    sizes = [v.size for v in others if v.size is not None]
    return bool(sizes) and len(sizes) == len(others) and all(exact(v) for v in others) and common_size(sizes) is None


def exact(value: Value) -> bool:
    """Whether a value is a whole number or a decimal, or a constant that can be written as one."""
    if value.constant is not None:
        return value.kind in ("integer", "float") and value.size is not None
    return value.kind in ("integer", "decimal") and (value.size is None or value.size[0] <= DIGITS)


def written_out(value: Value) -> Value:
    """A constant with all its digits, as a decimal; another value as it is."""
    if value.constant is None or value.size is None:
        return value
    kind = "integer" if value.size[1] == 0 and value.kind == "integer" else "decimal"
    return replace(value, sql=exact_literal(value.constant, value.size), kind=kind)


def exactly(values: list[Value], plain: bool) -> list[Value] | None:
    """Numbers of one kind without rounding, where all are exact and one size holds them all; None where that cannot be.

    Constants that are only compared (`plain`) may have more digits than that: another that lies alike to all such numbers stands for one.
    """
    known = [v for v in values if v.kind != "null"]
    others = [v for v in known if v.constant is None]
    if not all(exact(v) for v in others) or not all(v.constant is None or isinstance(v.constant, Fraction) for v in known):
        return None
    sizes = [v.size for v in others if v.size is not None]
    free = len(sizes) < len(others)
    size = common_size(sizes) if sizes else None
    if sizes and size is None and not free:
        return None
    found: list[Value] = []
    for v in values:
        if v.constant is not None and plain:
            near = beside_size(v.constant, None if free else size)
            if near is None:
                return None
            v = replace(v, constant=near[0], size=near[1])
        if v.constant is not None and (not exact(v) or v.size is None):
            return None
        found.append(written_out(v))
    present = [v.size for v in found if v.kind != "null" and v.size is not None]
    whole = free or not present or common_size(present) is not None
    return found if whole else None


def comparable(values: list[Value]) -> bool:
    """Whether whole numbers may be compared as they are, one of them without a sign: doubles would take neighbours for equal."""
    whole = all(v.kind in ("integer", "null") or v.wide or (v.constant is not None and _fits_unsigned(v.constant)) for v in values)
    return (whole and any(v.wide for v in values)) or (all(_huge(v) for v in values) and len({v.most for v in values}) == 1)


def _unsigned(value: Value) -> bool:
    """Whether an engine may hold this as 64 bits without a sign, of which it makes sums and products that must fit into them: a column, or
    what a choice or a MAX has made of one, which has its digits."""
    return value.wide or (value.kind == "decimal" and value.size == (20, 0))


def _huge(value: Value) -> bool:
    """Whether this is a column of 128 bits; two of one type are compared without a conversion, which could fail."""
    return bool(value.name) and value.kind == "decimal" and value.size == (39, 0) and value.most >= 2.0**127


def _fits_unsigned(constant: Any) -> bool:
    return isinstance(constant, Fraction) and constant.denominator == 1 and -(2**63) < constant < 2**64


def as_it_is(value: Value) -> Value:
    """A whole number for a comparison without rounding."""
    if value.constant is None:
        return value
    literal = exp.Literal.number(str(abs(value.constant)))
    return replace(value, sql=exp.Neg(this=literal) if value.constant < 0 else literal)


def as_kind(value: Value, kind: str, what: str) -> Value:
    if value.kind == kind:
        return value
    if kind == "text":
        return as_text(value, what)
    if kind in ("date", "timestamp") and (
        value.kind in ("date", "timestamp", "null") or (value.constant is not None and value.kind == "text")
    ):
        return as_date(value, kind)
    if value.kind == "null":
        return Value(cast(exp.null(), "BOOLEAN"), kind)
    if kind == "boolean" and value.constant in (0, 1) and value.kind == "integer":
        return Value(exp.Boolean(this=bool(value.constant)), kind, constant=bool(value.constant))
    raise Refused(f"the operands of {what} must be of one kind, and they are {kind} and {value.kind}; CAST one of them")


def whole_constant(node: exp.Expression | None, default: int, low: int, high: int, what: str) -> int:
    if node is None:
        return default
    if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit() or not low <= int(node.this[:9]) <= high:
        raise Refused(f"{what} must be a whole constant from {low} to {high}")
    return int(node.this)
