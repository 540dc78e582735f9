"""Columns: every value has a cell, cells go back to the column's type, and nothing in the data raises."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tacit.errors import ParameterError
from tacit.synthesis.columns import CategoryColumn, Column, DateColumn, NumberColumn

DAYS = DateColumn("day", tuple(datetime.date(2026, month, 1) for month in (1, 2, 3, 4)))
COLUMNS: list[Column] = [
    CategoryColumn("sex", ("f", "m")),
    CategoryColumn("region", ("north", "south"), other="other"),
    CategoryColumn("smokes", (True, False)),
    NumberColumn.between("age", 0, 99, 10, whole=True),
    NumberColumn("cost", (0.0, 1.5, 10.0, 1e6)),
    DAYS,
]


class Awkward:
    """A value that raises whatever is done to it."""

    def __str__(self) -> str:
        raise RuntimeError("secret")

    def __float__(self) -> float:
        raise RuntimeError("secret")

    __repr__ = __str__


STRANGE = [None, float("nan"), float("inf"), -float("inf"), 1e308, 10**400, -(10**400), "", "x" * 1000, b"\xff", True]
STRANGE += [decimal.Decimal("NaN"), datetime.date.max, datetime.datetime.min, pd.NaT, pd.NA, np.float32("nan"), [], {}]
STRANGE += [Awkward(), np.datetime64("NaT"), 1 + 2j]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_no_value_breaks_a_column(column: Column) -> None:
    found = column.encode(STRANGE)
    assert len(found) == len(STRANGE)
    assert ((found >= 0) & (found < column.size)).all()
    assert column.encode([]).shape == (0,)
    assert len(column.labels()) == column.size


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_what_a_cell_becomes_lies_in_that_cell(column: Column) -> None:
    cells = np.repeat(np.arange(column.size), 50)
    values = column.decode(cells, np.random.default_rng(0))
    assert column.encode(values).tolist() == cells.tolist()
    assert all(value is None for value in values[-50:])


def test_values_outside_go_where_it_is_said() -> None:
    assert COLUMNS[0].encode(["q"]).tolist() == [2]  # no "other": missing
    assert COLUMNS[1].encode(["east", None, "south"]).tolist() == [2, 3, 1]
    assert COLUMNS[3].encode([-7, 1000, 99, 9.999]).tolist() == [0, 9, 9, 0]
    assert DAYS.encode([datetime.date(1900, 1, 1), datetime.datetime(2027, 1, 1)]).tolist() == [0, 2]
    assert COLUMNS[2].encode([True, np.bool_(False), 1]).tolist() == [0, 1, 2]


def test_declarations_are_checked() -> None:
    for wrong in (
        lambda: CategoryColumn("a", ()),
        lambda: CategoryColumn("a", ("x", "x")),
        lambda: NumberColumn("a", (1.0, 1.0)),
        lambda: NumberColumn("a", (0.0, float("nan"))),
        lambda: NumberColumn.between("a", 3, 3),
    ):
        with pytest.raises(ParameterError):
            wrong()


@pytest.mark.parametrize(
    "edges",
    [
        (), (datetime.date(2026, 1, 1),), (datetime.date(2026, 1, 2), datetime.date(2026, 1, 1)), ("2026-01-01", "2026-02-01"),
        (datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)),
    ],
)  # fmt: skip
def test_edges_that_are_no_rising_dates_are_refused_when_they_are_written(edges: tuple[Any, ...]) -> None:
    """They were found out after the payment."""
    with pytest.raises(ParameterError, match="at least two dates, increasing"):
        DateColumn("day", edges)
