"""Bounds and caps by noisy counts: cells cover the line once, and the cell an engine finds is the one a person would."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from tacit.mechanisms import cell_edges
from tacit.tables import Session, Source, Unit, auto
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


def test_the_cut_of_a_join_is_found_privately(tmp_path: Path) -> None:
    """Private truncation of joins (Kotsogiannis et al. 2019): the cap is on the rows after the join, is paid for, and lies where most
    people's rows do, not where those of one person are."""
    draws = np.random.default_rng(2)
    visits = pa.table({"id": draws.integers(0, 1000, 3000)})
    stays = pa.table({"id": np.concatenate([draws.integers(0, 1000, 2000), np.full(500, 7)])})
    source = Source.several({"visits": visits, "stays": stays})
    unit = Unit("id", max_rows=auto(0.5, most=4096))
    session = Session(source, unit=unit, budget="eps=3", name="x", ledger=tmp_path / "t.db", loss=False)
    answer = session.sql("SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.id = s.id", epsilon=1)
    each = dict(Counter(visits["id"].to_pylist()))
    other = dict(Counter(stays["id"].to_pylist()))
    rows = np.array([each[i] * other[i] for i in each if i in other])
    cap = next(int(note.partition("max_rows=")[2].partition(",")[0]) for note in answer.notes if "max_rows=" in note)
    assert np.quantile(rows, 0.8) <= cap <= 64 < rows.max()
    assert answer["n"][0] == pytest.approx(np.minimum(rows, cap).sum(), abs=30 * cap)
    assert next(iter(session.left().values())) == Fraction(3, 2)
