"""Periods against the calendar of the standard library."""

from __future__ import annotations

import calendar
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.ledger import LedgerError
from tacit.ledger.spec import WINDOWS, bounds, days, overlaps

DATES = st.dates(min_value=datetime.date(1900, 1, 1), max_value=datetime.date(2200, 1, 1))


def period_of(window: str, day: datetime.date) -> str:
    """The name of the period that a day lies in."""
    year, week, _ = day.isocalendar()
    return {
        "day": day.isoformat(),
        "week": f"{year}-W{week:02}",
        "month": f"{day:%Y-%m}",
        "quarter": f"{day.year}-Q{(day.month + 2) // 3}",
        "year": f"{day.year}",
    }[window]


@given(st.sampled_from(WINDOWS), DATES)
def test_a_period_holds_exactly_its_days(window: str, day: datetime.date) -> None:
    first, last = days(window, period_of(window, day))
    assert first <= day <= last
    assert period_of(window, first) == period_of(window, last) == period_of(window, day)
    one = datetime.timedelta(days=1)
    assert period_of(window, first - one) != period_of(window, day) != period_of(window, last + one)


@given(st.sampled_from(WINDOWS), DATES, DATES, DATES)
def test_overlap_is_sharing_a_day(window: str, day: datetime.date, since: datetime.date, until: datetime.date) -> None:
    first, last = days(window, period_of(window, day))
    shared = max(first, since) <= min(last, until)
    if since <= until:
        assert overlaps(window, period_of(window, day), since, until) == shared
    assert overlaps(window, period_of(window, day), None, None)


def test_leap_days_and_long_years() -> None:
    assert days("month", "2028-02")[1].day == calendar.monthrange(2028, 2)[1] == 29
    assert days("week", "2026-W53") == (datetime.date(2026, 12, 28), datetime.date(2027, 1, 3))
    assert bounds("2026", end=True) == datetime.date(2026, 12, 31)
    assert bounds(datetime.datetime(2026, 5, 1, 12), end=False) == datetime.date(2026, 5, 1)


@pytest.mark.parametrize(
    ("window", "period"),
    [
        *(("month", "2026-13"), ("month", "2026-1"), ("day", "2026-02-30"), ("week", "2027-W53")),
        *(("quarter", "2026-Q5"), ("year", "26"), ("year", 2026)),
    ],
    ids=str,
)
def test_what_names_no_period_is_refused_with_an_example(window: str, period: object) -> None:
    with pytest.raises(LedgerError, match=f"must name a {window} such as"):
        days(window, period)
    with pytest.raises(LedgerError, match="stretch of time"):
        bounds("soon", end=True)
