"""Numbers and times in words, for people who do not read Greek letters. Templates use these as filters.

>>> number(6274.0, 978.7), number(54.475, 20.3), number(0.0123, 0.0007)
('6,270', '54', '0.01230')
>>> times(0.95), times(0.9), times(0.937)
('19 times in 20', '9 times in 10', '94% of the time')
>>> epsilon(0.0999995), epsilon(2.0), epsilon(0.00123)
('0.1', '2', '0.00123')
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

#: What a question's state is called on the pages, and what it means.
STATES: Mapping[str, tuple[str, str]] = {
    "quoted": ("In line", "It will be answered soon."),
    "waiting": ("Waits for approval", "It costs more than analysts may spend alone, so the privacy officer decides. Nothing is spent yet."),
    "running": ("Being answered", "The answer leaves at a fixed time, so that waiting tells nothing about the data."),
    "answered": ("Answered", "It was paid for once. Reading it again costs nothing."),
    "lost": ("Paid and lost", "It was paid for, and its answer was lost. It is never drawn again."),
    "refused": ("Refused", "Nothing was spent."),
    "declined": ("Declined", "The privacy officer declined it. Nothing was spent."),
}


def _finite(value: Any) -> float | str:
    """A finite number, or what is said in place of one."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return str(value)
    return found if math.isfinite(found) else "not known"


def number(value: Any, error: Any = None) -> str:
    """A figure with as many digits as its error leaves meaning: two of the error's own."""
    value = _finite(value)
    if isinstance(value, str):
        return value
    scale = abs(float(error)) if error is not None and math.isfinite(float(error)) and float(error) else abs(value)
    if not scale:
        return "0"
    digits = (1 if error is not None else 3) - math.floor(math.log10(scale))
    rounded = round(value, digits) + 0.0
    return f"{rounded:,.{max(0, min(digits, 12))}f}"


def significant(value: Any, digits: int = 2) -> str:
    """A number with so many leading digits, and thousands set apart.

    >>> significant(978.7), significant(55), significant(0.0617), significant(1234567)
    ('980', '55', '0.062', '1,200,000')
    """
    value = _finite(value)
    if isinstance(value, str):
        return value
    if not value:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    text = f"{rounded:,.{max(0, min(places, 15))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def epsilon(value: Any) -> str:
    """An amount of epsilon: three digits, and no row of zeros."""
    return significant(value, 3)


def delta(value: Any) -> str:
    """A delta as one in so many.

    >>> delta(1e-6), delta(2.5e-7), delta(0)
    ('1 in 1,000,000', '1 in 4,000,000', 'none')
    """
    value = float(value)
    return f"1 in {significant(1 / value, 2)}" if value > 0 else "none"


def times(confidence: Any) -> str:
    """A confidence as people say it."""
    known = {0.5: "1 time in 2", 0.8: "4 times in 5", 0.9: "9 times in 10", 0.95: "19 times in 20", 0.99: "99 times in 100"}
    return known.get(round(float(confidence), 6), f"{float(confidence):.0%} of the time")


def chance(value: Any) -> str:
    """The most that an even guess about someone becomes, by an epsilon: "from 50 in 100 to at most 52 in 100".

    >>> chance(0.1), chance(1)
    ('52.5 in 100', '73.1 in 100')
    """
    return f"{100 / (1 + math.exp(-min(float(value), 700.0))):.3g} in 100"


def when(value: Any) -> str:
    """A moment, in UTC, to the minute.

    >>> when("2026-11-17T23:37:05.351+00:00"), when(0.0), when(None)
    ('17 Nov 2026, 23:37 UTC', '1 Jan 1970, 00:00 UTC', '')
    """
    if value is None or value == "":
        return ""
    moment = datetime.datetime.fromtimestamp(value, datetime.UTC) if isinstance(value, int | float) else _parsed(str(value))
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def day(value: Any) -> str:
    """A date.

    >>> day("2027-12-31"), day(0.0)
    ('31 Dec 2027', '1 Jan 1970')
    """
    moment = datetime.datetime.fromtimestamp(value, datetime.UTC) if isinstance(value, int | float) else _parsed(str(value))
    return f"{moment.day} {moment:%b %Y}"


def _parsed(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def state(name: str) -> str:
    """What a state is called."""
    return STATES.get(name, (name, ""))[0]


def cell(value: Any) -> str:
    """A key of an answer as text; a date or number that JSON could not hold is written out."""
    if isinstance(value, Mapping) and len(value) == 1:
        return str(next(iter(value.values())))
    if value is None:
        return "(none)"
    return str(value)


def half(figures: Mapping[str, Any], line: int) -> float | None:
    """Half the width of a figure's interval; None where it has no ends."""
    low, high = figures["low"][line], figures["high"][line]
    if not all(isinstance(end, int | float) and math.isfinite(end) for end in (low, high)) or high <= low:
        return None
    return float(high - low) / 2


def protected(unit: Mapping[str, Any]) -> str:
    """Whom the guarantee protects, in words.

    >>> protected({"noun": "person", "whom": "patient_id", "max_rows": 16}), protected({"noun": "row", "whom": "row", "max_rows": None})
    ('each person, told apart by patient_id', 'each row')
    """
    own = "" if unit["whom"] == unit["noun"] else f", told apart by {unit['whom']}"
    return f"each {unit['noun']}{own}"


def fraction(text: str) -> str:
    """An exact amount of the book, such as 1/3, as a number.

    >>> fraction("1/3"), fraction("2")
    ('0.333', '2')
    """
    return epsilon(float(Fraction(text)))


def values(column: Mapping[str, Any]) -> str:
    """What a column may hold, as declared."""
    if column["person"]:
        return "tells people apart; it is never released"
    if column["categories"] is not None:
        return ", ".join(map(cell, column["categories"]))
    if column["bounds"] is not None:
        return f"{cell(column['bounds'][0])} to {cell(column['bounds'][1])}"
    return ""


def turned(columns: Mapping[str, list[Any]]) -> list[tuple[Any, ...]]:
    """Columns as rows."""
    return list(zip(*columns.values(), strict=True))


#: The filters of the templates.
FILTERS = {
    "number": number, "significant": significant, "epsilon": epsilon, "delta": delta, "times": times, "chance": chance, "when": when,
    "day": day, "state": state, "cell": cell,
}  # fmt: skip
