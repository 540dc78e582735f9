"""The interface: paid first, blind to what the data holds, honest intervals, the same shapes for any rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger, ReleaseFailed
from tacit.noise import test_mode as seeded
from tacit.synthesis.columns import CategoryColumn, NumberColumn
from tacit.synthesis.direct import Direct
from tacit.synthesis.estimate import Model
from tacit.synthesis.histogram import Histogram
from tacit.synthesis.measure import Measuring
from tacit.synthesis.synthesizer import METHODS, capped, synthesize

COLUMNS = [CategoryColumn("sex", ("f", "m")), NumberColumn.between("age", 0, 99, 10, whole=True), NumberColumn("cost", (0.0, 1.0, 9.0))]


def people(rows: int) -> dict[str, list[object]]:
    draws = np.random.default_rng(0)
    sex = np.where(draws.random(rows) < 0.4, "f", "m")
    age = np.where(sex == "f", draws.integers(20, 60, rows), draws.integers(40, 90, rows))
    return {"sex": sex.tolist(), "age": age.tolist(), "cost": (9 * draws.random(rows)).tolist()}


@pytest.mark.parametrize("frame", [dict, pa.table, pd.DataFrame, pl.DataFrame])
def test_tables_of_any_make(frame: type) -> None:
    with seeded(1):
        made = synthesize(frame(people(3000)), COLUMNS, epsilon=5, delta=1e-9)
        rows = made.sample()
    assert rows.schema == pa.schema([("sex", pa.string()), ("age", pa.int64()), ("cost", pa.float64())])
    assert abs(rows.num_rows - 3000) < 100
    assert made.marginal("sex")[0].count == pytest.approx(1200, abs=60)
    assert Guarantee(epsilon=5, delta=1e-9).admits(made.event_, Adjacency.ADD_REMOVE)
    assert not made.private_


@pytest.mark.parametrize("method", sorted(METHODS))
def test_strange_tables_change_no_shape_and_no_price(method: str) -> None:
    tables = [
        {"sex": [], "age": [], "cost": []},
        {"sex": [None] * 50, "age": [float("nan")] * 50, "cost": ["?"] * 50},
        {"sex": ["f"] * 50, "age": [30] * 50, "cost": [1e308] * 50},
        {"sex": ["never declared"] * 50, "age": [-1] * 50, "cost": [float("inf")] * 50},
    ]
    with seeded(2):
        made = [synthesize(table, COLUMNS, rho=0.5, method=method) for table in tables]
        assert len({one.sample(10).schema for one in made}) == 1
        assert len({str(one.event_) for one in made}) == 1
        assert {len(one.marginal("sex", "age")) for one in made} == {3 * 11}


def test_the_account_is_asked_before_a_value_is_read(tmp_path: Path) -> None:
    account = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(rho=0.1))

    class Untouchable(list[object]):
        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("read")

    table = {**people(10), "sex": Untouchable()}
    with pytest.raises(BudgetExceeded):
        synthesize(table, COLUMNS, rho=0.2, account=account)
    with seeded(1):
        synthesize(people(100), COLUMNS, rho=0.05, account=account)
    assert str(account.spent()) == "rho 0.05"
    with pytest.raises(ReleaseFailed) as raised:
        synthesize(table, COLUMNS, rho=0.05, account=account)
    assert "read" not in str(raised.value).split()
    assert raised.value.__context__ is None
    assert str(account.spent()) == "rho 0.1"


def test_rows_are_capped_for_each_person() -> None:
    with seeded(4):
        kept = capped(["ann"] * 1000 + ["bob", None, None, "cy"], 2)
    assert (kept < 1000).sum() == 2
    assert len(kept) == 2 + 1 + 1  # rows without a person are left out
    with seeded(4):
        assert capped([None, float("nan"), pd.NA], 2).tolist() == capped([], 2).tolist() == []
    table = people(1000) | {"who": ["ann"] * 999 + ["bob"]}
    with seeded(4):
        made = synthesize(table, COLUMNS, mu=5, person="who", max_rows=3, method="independent")
    assert made.rows_ < 60  # four rows and their noise, not a thousand
    with pytest.raises(ParameterError, match="person="):
        synthesize(table, COLUMNS, mu=5, max_rows=3)


def test_the_number_of_rows_is_estimated_and_not_counted() -> None:
    with seeded(6):
        found = {round(synthesize(people(500), COLUMNS, rho=0.01, method="independent").rows_) for _ in range(5)}
    assert len(found) > 1


def test_intervals_cover_as_often_as_they_say() -> None:
    table = people(2000)
    truth = pd.crosstab(table["sex"], pd.cut(np.array(table["age"]), np.arange(0, 101, 10), right=False), dropna=False)
    exact = truth.loc["f"].to_numpy()
    hits = []
    with seeded(9):
        for _ in range(60):
            made = synthesize(table, COLUMNS, rho=0.05, method=FixedPair())
            cells = made.marginal("sex", "age")[:10]
            hits += [cell.low <= count <= cell.high for cell, count in zip(cells, exact, strict=True)]  # type: ignore[operator]
    # 600 intervals of 95 %: the share deviates by .009, and 4 of that is one in 16,000
    assert np.mean(hits) == pytest.approx(0.95, abs=0.036)


class FixedPair:
    """A method that measures one pair."""

    selects = False

    def fit(self, measuring: Measuring) -> Model:
        from tacit.synthesis.estimate import fit

        measuring.marginal((0, 1), measuring.sigma_for(measuring.left))
        return fit(measuring.sizes, measuring.measured, steps=5)


def test_what_was_not_measured_has_no_interval() -> None:
    with seeded(1):
        made = synthesize(people(500), COLUMNS, rho=1, method="independent")
    assert all(cell.low is None for cell in made.marginal("sex", "age"))
    assert sum(cell.count for cell in made.marginal("sex", "age")) == pytest.approx(made.rows_)


def test_refusals_depend_on_the_schema_only() -> None:
    for wrong in (
        lambda: synthesize(people(1), COLUMNS, rho=1, method="best"),
        lambda: synthesize(people(1), [CategoryColumn("colour", ("red",))], rho=1),
        lambda: synthesize(people(1), [], rho=1),
        lambda: synthesize(people(1), COLUMNS, epsilon=1),
        lambda: synthesize(people(1), [COLUMNS[0], COLUMNS[0]], rho=1),
    ):
        with pytest.raises(ParameterError):
            wrong()


def test_a_model_above_its_cap_is_refused_before_it_is_paid_for(tmp_path: Path) -> None:
    account = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(rho=1))
    for method in (Histogram(cap=10), Direct(((0, 1),), cap=10), Direct(((0, 7),))):
        with pytest.raises(ParameterError):
            synthesize(people(5), COLUMNS, rho=0.5, method=method, account=account)
    assert str(account.spent()) == "rho 0"


@pytest.mark.parametrize("method", sorted(METHODS))
def test_one_column_is_a_table(method: str) -> None:
    with seeded(3):
        made = synthesize(people(400), COLUMNS[:1], rho=1, method=method)
        assert made.sample(5).num_rows == 5
    assert made.marginal("sex")[0].count == pytest.approx(160, abs=40)


def test_a_printed_synthesizer_is_one_line() -> None:
    with seeded(1):
        made = synthesize({"x": ["a", "b"] * 500}, [CategoryColumn("x", ("a", "b"))], mu=1)
    assert "rows, estimated, of 1 columns" in repr(made) and "; GDP(mu=" in repr(made) and len(repr(made)) < 120
