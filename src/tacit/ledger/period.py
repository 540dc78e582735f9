"""Periods of a privacy unit with a time window: user-months and the like. A period is named by the data, never by the clock.

>>> days("month", "2026-02")
(datetime.date(2026, 2, 1), datetime.date(2026, 2, 28))
>>> overlaps("month", "2026-02", "2026-01-15", "2026-02-01")
True
"""

from __future__ import annotations

import datetime
import re

from tacit.ledger.errors import LedgerError

_FORMS = {
    "day": (re.compile(r"(\d{4})-(\d{2})-(\d{2})"), "2026-01-31"),
    "week": (re.compile(r"(\d{4})-W(\d{2})"), "2026-W05"),
    "month": (re.compile(r"(\d{4})-(\d{2})"), "2026-01"),
    "quarter": (re.compile(r"(\d{4})-Q([1-4])"), "2026-Q1"),
    "year": (re.compile(r"(\d{4})"), "2026"),
}
WINDOWS = tuple(_FORMS)


def check_window(window: str | None) -> str | None:
    """A known window or none."""
    if window is not None and window not in _FORMS:
        raise LedgerError(f"window must be one of {', '.join(WINDOWS)} or None, not {window!r}")
    return window


def days(window: str, period: object) -> tuple[datetime.date, datetime.date]:
    """The first and last day of a period; an error shows how a period of this window is written."""
    form, example = _FORMS[window]
    match = form.fullmatch(period) if isinstance(period, str) else None
    if match is not None:
        numbers = [int(text) for text in match.groups()]
        try:
            return _span(window, numbers)
        except ValueError:
            pass
    raise LedgerError(f"period must name a {window} such as {example!r}, not {period!r}")


def _span(window: str, numbers: list[int]) -> tuple[datetime.date, datetime.date]:
    one = datetime.timedelta(days=1)
    match window:
        case "day":
            day = datetime.date(*numbers)
            return day, day
        case "week":
            first = datetime.date.fromisocalendar(numbers[0], numbers[1], 1)
            return first, first + 6 * one
        case "year":
            return datetime.date(numbers[0], 1, 1), datetime.date(numbers[0], 12, 31)
    months = 1 if window == "month" else 3
    start = numbers[1] if window == "month" else 3 * numbers[1] - 2
    first = datetime.date(numbers[0], start, 1)
    after = datetime.date(numbers[0] + (start + months - 1) // 12, (start + months - 1) % 12 + 1, 1)
    return first, after - one


def bounds(value: object, *, end: bool) -> datetime.date:
    """The day a stretch begins or ends on: a date, or any period's text, whose first or last day is meant.

    >>> bounds("2026-Q1", end=True), bounds("2026-01-15", end=False)
    (datetime.date(2026, 3, 31), datetime.date(2026, 1, 15))
    """
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    for window, (form, _) in _FORMS.items():
        if isinstance(value, str) and form.fullmatch(value):
            return days(window, value)[1 if end else 0]
    raise LedgerError(f"a stretch of time is given by dates or periods such as '2026-01-31', '2026-01' or '2026', not {value!r}")


def overlaps(window: str, period: str, since: object | None, until: object | None) -> bool:
    """Whether a period shares a day with the stretch from `since` to `until`, both included; None is open."""
    first, last = days(window, period)
    return (since is None or last >= bounds(since, end=False)) and (until is None or first <= bounds(until, end=True))
