"""Dates and moments: functions of them that no engine can fail on.

Days are counted and parts taken between the years 1 and 9999; what lies beyond is NULL. A
moment (a timestamp with a time zone) has a date only where a zone is named, at AT TIME ZONE 'UTC'. Words that mean
other days in other dialects carry a mark (`tacit.tables.dialects`).

>>> from sqlglot import parse_one
>>> from tacit.tables.expressions import total
>>> total(parse_one("DATE_DIFF('day', a, b) > 3", read="duckdb"), {"a": "DATE", "b": "DATE"}).kind
'boolean'
>>> total(parse_one("YEAR(at)"), {"at": "TIMESTAMP WITH TIME ZONE"})
Traceback (most recent call last):
...
tacit.tables.errors.Refused: at is a moment, and its date depends on the time zone; say which: at AT TIME ZONE 'UTC' is a timestamp
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tacit.tables.dialects import OTHER_WEEK, SUNDAY
from tacit.tables.errors import Refused, TableError
from tacit.tables.forms import FARTHEST_YEARS, as_date, dated, in_microseconds, in_zone, inside
from tacit.tables.values import Value, cast, check_size

#: The parts of a date that may be asked for, with what they can be where that is certain.
PARTS = {
    "YEAR": None,
    "QUARTER": (1, 4),
    "MONTH": (1, 12),
    "WEEK": (1, 53),
    "DAY": (1, 31),
    "DOY": (1, 366),
    "HOUR": (0, 23),
    "MINUTE": (0, 59),
}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")
_OTHER_NAMES = {"ISOWEEK": "WEEK", "WEEKOFYEAR": "WEEK", "DAYOFMONTH": "DAY", "DAYOFYEAR": "DOY", "MM": "MONTH", "MON": "MONTH"}
_WEEKDAYS = ("ISODOW", "DAYOFWEEKISO", "DAYOFWEEK_ISO", "DOW_ISO")
#: Dates are moved by at most so many; PostgreSQL fails where a calendar goes back more than 4713 years before its first.
_STEPS = {"DAY": 100_000, "WEEK": 10_000, "MONTH": 12_000, "YEAR": 1_000}

Read = Callable[[exp.Expression], Value]


def dated_value(node: exp.Expression, read: Read) -> Value | None:
    """The value of a function of dates; None where a node is none. `read` gives the values of its parts."""
    read = _coarsely(read)
    match node:
        case exp.TsOrDsToDate() | exp.Date():
            return as_date(read(node.this), "date")
        case exp.TimeStrToTime():
            value = read(node.this)
            return value if value.kind in ("date", "timestamp") else as_date(value, "timestamp")
        case exp.AtTimeZone():
            return _at_zone(node, read)
        case exp.DateDiff() | exp.TsOrDsDiff():
            return _difference(node, read)
        case exp.DateAdd() | exp.DateSub() | exp.TsOrDsAdd() | exp.TimestampAdd() | exp.TimestampSub():
            step = node.expression
            count, unit = (step.this, step.args.get("unit")) if isinstance(step, exp.Interval) else (step, node.args.get("unit"))
            return moved_by(read, node.this, count, unit, -1 if isinstance(node, (exp.DateSub, exp.TimestampSub)) else 1)
        case exp.Extract():
            name = node.this.name.upper()
            if name in (*_WEEKDAYS, "DOW", "DAYOFWEEK"):
                return _weekday(read, node, node.expression, iso=name in _WEEKDAYS)
            _iso(node)
            return _part(read, name, node.expression)
        case exp.Year() | exp.Quarter() | exp.Month() | exp.Day() | exp.Hour() | exp.Minute() | exp.DayOfMonth() | exp.DayOfYear():
            return _part(read, node.key.upper(), node.this)
        case exp.Week() | exp.WeekOfYear():
            _iso(node)
            return _part(read, "WEEK", node.this)
        case exp.DayOfWeek() | exp.DayOfWeekIso():
            return _weekday(read, node, node.this, iso=isinstance(node, exp.DayOfWeekIso))
        case exp.DateTrunc() | exp.TimestampTrunc():
            return _truncated(node, read)
    return None


def _coarsely(read: Read) -> Read:
    """Functions of dates take nanoseconds as the engine's own do: in microseconds."""
    return lambda node: in_microseconds(read(node))


def moved_by(read: Read, date: exp.Expression, count: exp.Expression | None, unit: exp.Expression | None, sign: int) -> Value:
    """A date some days, weeks, months or years later."""
    name = unit.name.upper().removesuffix("S") if unit is not None else ""
    while isinstance(count, (exp.Neg, exp.Paren)):
        count, sign = count.this, -sign if isinstance(count, exp.Neg) else sign
    text = count.this if isinstance(count, exp.Literal) else ""
    value = in_microseconds(read(date))
    if value.kind == "text":
        value = as_date(value, "date")
    if value.kind not in ("date", "timestamp") or not text.isdigit() or int(text[:9]) > _STEPS.get(name, -1):
        raise Refused(
            f"a date is moved by a constant number of {', '.join(_STEPS)}, at most 1000 years of them: day + INTERVAL 30 DAY; "
            "where both are columns, compare DATE_DIFF('day', a, b) with a number"
        )
    return moved(value, sign * int(text), name)


def _at_zone(node: exp.Expression, read: Read) -> Value:
    value, zone = read(node.this), node.args["zone"]
    if value.kind != "instant":
        raise Refused(f"AT TIME ZONE is for timestamps that have a time zone, and {value.name or 'the operand'} has none; leave it out")
    if not isinstance(zone, exp.Literal) or not _is_zone(zone.this):
        raise TableError("the time zone must be the constant name of one, such as 'UTC' or 'Europe/Oslo'")
    return at_zone(value, zone.this)


def _difference(node: exp.Expression, read: Read) -> Value:
    unit = node.args.get("unit")
    values = [read(part) for part in (node.expression, node.this)]
    values = [as_date(v, "date") if v.kind == "text" and v.constant is not None else v for v in values]
    if any(v.kind == "instant" for v in values):
        raise Refused(in_zone(next(v for v in values if v.kind == "instant")))
    # Of two timestamps some dialects count midnights and others whole days, so their dates are asked for, unless one is a date.
    kinds = {v.kind for v in values}
    if (unit is not None and unit.name.upper() not in ("DAY", "DAYS")) or not kinds <= {"date", "timestamp"} or kinds == {"timestamp"}:
        raise Refused(
            "DATE_DIFF counts days between two dates: DATE_DIFF('day', CAST(a AS DATE), CAST(b AS DATE)); for months and years take "
            "EXTRACT(YEAR FROM b) - EXTRACT(YEAR FROM a)"
        )
    return days_between(values[0], values[1])


def _weekday(read: Read, node: exp.Expression, inner: exp.Expression, *, iso: bool) -> Value:
    value, sunday = read(inner), node.meta.get(SUNDAY)
    if value.kind not in ("date", "timestamp"):
        raise Refused(f"EXTRACT(ISODOW FROM ...) takes a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
    if not iso and sunday is None:
        raise Refused("the first day of a week differs between dialects; EXTRACT(ISODOW FROM day) is 1 for Monday to 7 for Sunday")
    return weekday(value, None if iso else sunday)


def _part(read: Read, name: str, inner: exp.Expression) -> Value:
    value, name = read(inner), _OTHER_NAMES.get(name, name)
    if value.kind == "instant":
        raise Refused(in_zone(value))
    if name not in PARTS or value.kind not in ("date", "timestamp") or (name in ("HOUR", "MINUTE") and value.kind == "date"):
        raise Refused(f"EXTRACT takes {', '.join(PARTS)}, ISODOW of a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
    found = cast(exp.Extract(this=exp.Var(this=name), expression=dated(value)), "BIGINT")
    return Value(found, "integer", 10_000.0, 1.0)


def _truncated(node: exp.Expression, read: Read) -> Value:
    unit, value = node.args["unit"].name.upper(), read(node.this)
    unit = _OTHER_NAMES.get(unit, unit)
    if value.kind == "instant":
        raise Refused(in_zone(value))
    if isinstance(node.args["unit"], exp.WeekStart):
        if unit != "MONDAY":
            raise Refused("WEEK begins on another day than Monday here; ask for ISOWEEK, or WEEK(MONDAY)")
        unit = "WEEK"
    elif unit == "WEEK" and node.args["unit"].name.upper() == "WEEK":
        _iso(node)
    if unit not in _UNITS or value.kind not in ("date", "timestamp") or node.args.get("zone") is not None:
        raise Refused(f"DATE_TRUNC takes {', '.join(_UNITS)} and a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
    stamp = cast(dated(value), "TIMESTAMP")
    sql = exp.TimestampTrunc(this=stamp, unit=exp.Var(this=unit))
    return Value(cast(sql, "DATE") if value.kind == "date" else sql, value.kind, (value.most if value.most <= FARTHEST_YEARS else 0.0) + 1)


def _iso(node: exp.Expression) -> None:
    """Refuse weeks that do not begin on Monday."""
    dialect = node.meta.get(OTHER_WEEK)
    if dialect is not None and "WEEK" in (node.key.upper()[:4], node.name.upper(), getattr(node.args.get("unit"), "name", "").upper()):
        raise Refused(f"WEEK is not the ISO week in {dialect}; ask for ISOWEEK, which begins on Monday, or group by the day")


def _is_zone(name: str) -> bool:
    import zoneinfo  # few questions name a zone

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def at_zone(value: Value, zone: str) -> Value:
    """A moment as the clocks of a time zone show it; NULL outside the years that all engines share."""
    ends = ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00")
    low, high = (cast(exp.Literal.string(end), "TIMESTAMPTZ") for end in ends)
    check_size(value.sql)
    return Value(exp.AtTimeZone(this=inside(value.sql, low, high), zone=exp.Literal.string(zone)), "timestamp", 1.0)


def days_between(first: Value, last: Value) -> Value:
    """Whole days from one date to another."""
    ends = {"this": cast(dated(last), "DATE"), "expression": cast(dated(first), "DATE")}
    return Value(cast(exp.Paren(this=exp.DateDiff(**ends, unit=exp.Var(this="DAY"))), "BIGINT"), "integer", 4e6, 1.0)


def weekday(value: Value, sunday: int | None) -> Value:
    """1 for Monday to 7 for Sunday; or from Sunday on, which is 0 or 1. Computed of days, because engines name this part differently."""
    # The first day of the calendar was a Monday; the last Sunday before it cannot be written.
    start = Value(cast(exp.Literal.string("0001-01-01" if sunday is None else "0001-01-07"), "DATE"), "date")
    days = exp.DateDiff(this=cast(dated(value), "DATE"), expression=start.sql, unit=exp.Var(this="DAY"))
    # The first week is counted from the Sunday at its end: a week more keeps the remainder from being negative.
    ahead = exp.Add(this=exp.Paren(this=cast(exp.Paren(this=days), "BIGINT")), expression=exp.Literal.number(7))
    place = exp.Mod(this=exp.Paren(this=ahead), expression=exp.Literal.number(7))
    first = 1 if sunday is None else sunday
    return Value(exp.Paren(this=exp.Add(this=exp.Paren(this=place), expression=exp.Literal.number(first))), "integer", 7.0, 1.0)


def moved(value: Value, count: int, unit: str) -> Value:
    """A date or timestamp so many days, weeks, months or years later; at the end of a month, its last day."""
    amount, unit = (7 * count, "DAY") if unit == "WEEK" else (12 * count, "MONTH") if unit == "YEAR" else (count, unit)
    stamp = cast(dated(value), "TIMESTAMP")
    step = exp.Interval(this=exp.Literal.string(str(abs(amount))), unit=exp.Var(this=unit))
    sql = exp.Paren(this=(exp.Sub if amount < 0 else exp.Add)(this=stamp, expression=step))
    farther = (value.most if value.most <= FARTHEST_YEARS else 0.0) + 1001
    return Value(cast(sql, "DATE") if value.kind == "date" else sql, value.kind, farther)
