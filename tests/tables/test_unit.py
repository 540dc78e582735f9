"""Units: caps are needed, checked and never negative; reach follows them."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.accounting import AccountingError, Adjacency
from tacit.tables import TableError, Unit, auto


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"person": "id"},
        {"person": "id", "max_groups": 3},
        {"person": "", "max_rows": 1},
        {"person": 5, "max_rows": 1},
        {"person": "id", "max_rows": 1, "window": "month"},
        {"person": "id", "max_rows": 1, "window": "decade", "when": "day"},
        {"person": "id", "max_rows": 1, "adjacency": Adjacency.ZERO_OUT},
    ],
    ids=["nothing", "no cap", "half a cap", "empty", "number", "no date", "no window", "zero out"],
)
def test_units_that_protect_nobody_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TableError):
        Unit(**wrong)


@pytest.mark.parametrize("cap", [0, -1, 1.5, float("nan"), "3", True], ids=str)
def test_caps_are_whole_numbers_above_zero(cap: Any) -> None:
    with pytest.raises((TableError, AccountingError, TypeError)):
        Unit("id", max_rows=cap)


def test_multiplicity_counts_where_nothing_is_capped() -> None:
    assert Unit.row().reach(True, multiplicity=4).rows == 4
    assert Unit("id", max_rows=3, capped=True).reach(True, multiplicity=4).rows == 12
    assert Unit("id", max_rows=3).reach(True, multiplicity=4).rows == 3


def test_an_unknown_cap_is_no_cap() -> None:
    unit = Unit("id", max_rows=auto(0.1))
    assert unit.automatic
    with pytest.raises(TableError, match="to be found"):
        _ = unit.most_rows
    assert unit.with_cap(7).most_rows == 7


def test_edges_are_rows() -> None:
    assert Unit.edge() == Unit.row() and repr(Unit.edge()) == "Unit(row)"
