"""Bounds and caps by noisy counts: cells cover the line once, and the cell an engine finds is the one a person would."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from sqlglot import exp

from tacit.mechanisms import cell_edges
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.session import CELLS, _cell, cap_from

VALUES = [0.0, -0.0, 1.0, 1.5, 2.0, 2.0000001, -1.0, -3.0, 1e12, 1e300, -1e300, 5e-324, 0.5, -0.25, 4.0, 1023.0, 1025.0]


def test_the_engine_s_cell_holds_the_value() -> None:
    engine = DuckDB(threads=1)
    odd = [float("nan"), float("inf"), None]
    engine.register("t", pa.table({"x": pa.array([*VALUES, *odd], pa.float64())}))
    query = exp.Select(expressions=[exp.alias_(_cell(exp.column("x")), "c")]).from_("t")
    found = engine.run(query).column("c").to_pylist()
    for value, cell in zip(VALUES, found, strict=False):
        low, high = cell_edges(cell)
        assert low <= max(min(Fraction(value), Fraction(2) ** CELLS), -(Fraction(2) ** CELLS)) <= high
    assert found[len(VALUES) :] == [None, None, None]


@pytest.mark.parametrize(("share", "cap"), [(0.4, 1), (0.5, 1), (0.8, 2), (0.95, 4), (1.0, 8)])
def test_caps_leave_the_share_below(share: float, cap: int) -> None:
    assert cap_from([500, 300, 150, 50, 0, 0], share, 1000, 20) == cap


def test_without_people_the_cap_is_one_and_never_more_than_the_most() -> None:
    assert cap_from([3, -8, 2], 0.9, 1000, 20) == 1
    assert cap_from([0] * 20 + [900], 0.9, 100, 20) == 100
