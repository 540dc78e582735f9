"""Synthesis in an engine counts what synthesis in memory counts, and pays from the session's account."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit import workloads
from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger, PriceError
from tacit.synthesis import (
    CategoryColumn,
    DateColumn,
    EnginePlan,
    Level,
    NumberColumn,
    counted,
    engine_plan,
    from_session,
    synthesize,
    synthesize_tables,
)
from tacit.synthesis.in_engine import counts_of
from tacit.synthesis.synthesizer import capped
from tacit.tables import Session, TableError, Unit

SCHEMA = {"sex": ["f", "m"], "age": (0, 99), "cost": (0, 50)}


def opened(folder: Path, table: Any, unit: Unit | None = None) -> Session:
    book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
    budget = Budget(epsilon=2, delta="1e-6")
    return Session(
        table, unit=unit or Unit("id", max_rows=1), budget=budget, name="people", ledger=book, columns=SCHEMA
    )


def counted_by(planned: EnginePlan) -> Any:
    return counts_of(planned.cut, tuple(c.name for c in planned.columns), tuple(c.size for c in planned.columns))


def strange() -> dict[str, list[Any]]:
    return {
        "id": list(range(9)),
        "sex": ["f", "m", "F", None, "", "f", "m", "f", "\u0000"],
        "age": [0, 99, -1, 10**12, None, 50, 31, 32, 33],
        "cost": [0.0, 50.0, math.nan, math.inf, -math.inf, None, 1e-320, 25.0, 49.999],
    }


def test_the_engine_counts_what_memory_counts(tmp_path: Path) -> None:
    rows = strange()
    kinds = {"id": pa.int64(), "sex": pa.string(), "age": pa.int64(), "cost": pa.float64()}
    session = opened(tmp_path, pa.table({name: pa.array(values, kinds[name]) for name, values in rows.items()}))
    planned = engine_plan(session.desk, ["sex", "age", "cost"], Guarantee(epsilon=1, delta="1e-6"))
    sizes = tuple(column.size for column in planned.columns)
    cells = [column.encode(rows[column.name]) for column in planned.columns]
    for clique in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]:
        np.testing.assert_array_equal(counted_by(planned)(clique), counted(cells, sizes, clique))


def test_the_engine_counts_dates_as_memory_does(tmp_path: Path) -> None:
    """Days before, after and on the edges, moments of a day, and none."""
    edges = (datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), datetime.date(2026, 2, 2), datetime.date(2027, 1, 1))
    moments = [None, *(datetime.datetime(*day) for day in [(1, 1, 1), (2025, 12, 31, 23), (2026, 1, 1), (2026, 2, 1, 23), (2026, 2, 2),
                                                           (2026, 12, 31, 23, 59), (2027, 1, 1), (9999, 12, 31)])]  # fmt: skip
    days = [None if one is None else one.date() for one in moments]
    table = pa.table({"id": range(len(days)), "day": pa.array(days, pa.date32()), "moment": pa.array(moments, pa.timestamp("us"))})
    planned = engine_plan(opened(tmp_path, table).desk, [DateColumn("day", edges), DateColumn("moment", edges)], Guarantee(mu=1))
    cells = [column.encode(values) for column, values in zip(planned.columns, (days, moments), strict=True)]
    for clique in [(0,), (1,), (0, 1)]:
        np.testing.assert_array_equal(counted_by(planned)(clique), counted(cells, (4, 4), clique))
    with pytest.raises(ParameterError, match="day is a date, and has no bins: give DateColumn"):
        engine_plan(opened(tmp_path, table).desk, ["day"], Guarantee(mu=1))


def test_rows_have_the_measured_tables(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    sex = random.choice(["f", "m"], 8000, p=[0.7, 0.3])
    table = pa.table({"id": np.arange(8000), "sex": sex, "age": np.where(sex == "f", 30, 60) + random.integers(0, 9, 8000),
                      "cost": random.random(8000) * 50})  # fmt: skip
    session = opened(tmp_path, table)
    made = from_session(session, ["sex", "age", "cost"], epsilon=1)
    assert session.left()["epsilon"] >= 1 > session.left()["epsilon"] - 1e-6
    rows = made.sample().to_pandas()
    assert abs(len(rows) - 8000) < 400
    assert abs((rows.sex == "f").mean() - 0.7) < 0.05
    assert (rows[rows.sex == "f"].age < 45).mean() > 0.9 > 0.1 > (rows[rows.sex == "m"].age < 45).mean()
    with pytest.raises(BudgetExceeded):
        from_session(session, ["sex"], epsilon=1.5)


def test_a_person_with_many_rows_counts_for_the_cap(tmp_path: Path) -> None:
    table = pa.table({"id": [1] * 500 + [2], "sex": ["f"] * 500 + ["m"], "age": [40] * 501, "cost": [1.0] * 501})
    session = opened(tmp_path, table, Unit("id", max_rows=3))
    planned = engine_plan(session.desk, ["sex", "age"], Guarantee(epsilon=1, delta="1e-6"))
    assert counted_by(planned)((0,)).tolist() == [3, 1, 0] and planned.cut.reach == 3


def test_rows_without_a_person_are_left_out_in_memory_and_in_an_engine(tmp_path: Path) -> None:
    ids, sex = [1, None, 2, 2, None, 3], ["f", "f", "m", "m", "m", "f"]
    table = pa.table({"id": pa.array(ids, pa.int64()), "sex": sex, "age": [40] * 6, "cost": [1.0] * 6})
    planned = engine_plan(opened(tmp_path, table, Unit("id", max_rows=2)).desk, ["sex"], Guarantee(mu=1))
    kept = capped(ids, 2).tolist()
    column = planned.columns[0]
    assert counted_by(planned)((0,)).tolist() == [2, 2, 0]
    assert np.bincount(column.encode([sex[row] for row in kept]), minlength=column.size).tolist() == [2, 2, 0]


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ([], {}),
        (["sex", "sex"], {}),
        (["nothing"], {}),
        (["id"], {}),
        (["sex"], {"method": "magic"}),
        (["sex"], {"delta": 0}),
        ([CategoryColumn("sex", ("f",), other="other")], {}),
        ([NumberColumn("sex", (0.0, 1.0))], {}),
    ],
)
def test_what_cannot_be_planned_is_refused_before_payment(tmp_path: Path, columns: Any, more: Any) -> None:
    session = opened(tmp_path, pa.table({name: values[:0] for name, values in strange().items()}, schema=pa.schema(
        {"id": pa.int64(), "sex": pa.string(), "age": pa.int64(), "cost": pa.float64()})))  # fmt: skip
    with pytest.raises(Exception) as caught:
        from_session(session, columns, **{"epsilon": 1, **more})
    assert not isinstance(caught.value, TypeError | KeyError | AttributeError | ZeroDivisionError)
    assert session.left()["epsilon"] == 2


def test_replacing_people_is_refused(tmp_path: Path) -> None:
    session = opened(tmp_path, pa.table({"id": [1], "sex": ["f"]}), Unit("id", max_rows=1, adjacency="replace-one"))
    with pytest.raises(ParameterError, match="add-remove"):
        from_session(session, ["sex"], epsilon=1)


def test_a_session_in_place_of_rows(tmp_path: Path) -> None:
    people = pa.table({"id": range(600), "sex": ["f", "m"] * 300, "age": list(range(20, 80)) * 10})
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    session = Session(
        people, unit=Unit("id", max_rows=1), budget=Budget(epsilon=2, delta="1e-9"), name="people", ledger=book,
        columns={"sex": ["f", "m"], "age": (0, 99)},
    )  # fmt: skip
    made = synthesize(session, columns=["sex", "age"], target="age", epsilon=1, delta=1e-9)
    assert made.sample(3).column_names == ["sex", "age"] and made.marginal("age", "sex")
    assert round(float(session.left()["epsilon"]), 6) == 1
    with pytest.raises(ParameterError, match="knows its people"):
        synthesize(session, columns=["sex"], epsilon=1, delta=1e-9, person="id")


@pytest.mark.parametrize(("budget", "name", "share"), [(Budget(rho=1), "rho", 0.5), (Budget(mu=1), "mu", 1.0)])
def test_an_account_without_delta_takes_epsilon_and_delta_and_books_its_own(
    tmp_path: Path, budget: Budget, name: str, share: float
) -> None:
    """At epsilon 1 and delta 1e-9 the noise is that of mu = 1 / 5.4953 (specified); mu is booked as its square, rho as half."""
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = Session(pa.table({"id": [1, 2], "sex": ["f", "m"]}), unit=Unit("id", max_rows=1), budget=budget, name="people",
                      ledger=book, columns=SCHEMA)  # fmt: skip
    before = sum(session.left().values())
    made = synthesize(session, ["sex"], epsilon=1, delta=1e-9)
    assert float(before - sum(session.left().values())) == pytest.approx(share / 5.4953**2, rel=1e-4)
    assert made.events_ and math.isclose(5.4953 * float(getattr(made.event_, "mu", 0)), 1, rel_tol=1e-4)
    with pytest.raises(TableError, match=f"the account counts in {name}"):
        synthesize(session, ["sex"], epsilon=1)  # which delta would be a guess
    with pytest.raises(TableError, match=f"the account counts in {name}"):
        synthesize(session, ["sex"], epsilon=1, rho=1, delta=1e-9)


def test_mu_has_no_price_for_selections_and_says_so_before_a_row_is_read(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = Session(pa.table({"id": [1, 2], "sex": ["f", "m"]}), unit=Unit("id", max_rows=1), budget=Budget(mu=1), name="people",
                      ledger=book, columns=SCHEMA)  # fmt: skip
    with pytest.raises(PriceError, match="mu admits Gaussian noise"):
        synthesize(session, ["sex"], epsilon=1, delta=1e-9, method="aim")
    assert session.left()["mu2"] == 1


def test_one_account_pays_for_a_workload_in_rho_and_a_table_in_epsilon(tmp_path: Path) -> None:
    """The calls that the specification shows, on one session."""
    random = np.random.default_rng(2)
    table = pa.table({"id": range(3000), "sex": random.choice(["f", "m"], 3000), "age": random.integers(0, 100, 3000)})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = Session(table, unit=Unit("id", max_rows=1), budget=Budget(rho=1), name="people", ledger=book,
                      columns={"sex": ["f", "m"], "age": (0, 99)})  # fmt: skip
    pairs = workloads.plan(session, workloads.Marginals("sex", "age", up_to=2), rho=0.02)
    assert pairs.expected_error > 0 and float(session.left()["rho"]) == 1
    assert pairs.run().table("age", "sex").column_names == ["age", "sex", "value", "low", "high"]
    made = synthesize(session, columns=["sex", "age"], target="sex", epsilon=1, delta=1e-9)
    assert made.sample().to_arrow().column_names == ["sex", "age"] and len(made.marginal("age", "sex")) == 33 * 3
    made.report(tmp_path / "synthetic.html")
    assert "<html" in (tmp_path / "synthetic.html").read_text() and float(session.left()["rho"]) == pytest.approx(0.98 - 0.016557, abs=1e-5)


@pytest.mark.parametrize(
    ("columns", "method"),
    [
        (["sex", NumberColumn.between("age", 0, 99, 8000), NumberColumn.between("cost", 0, 50, 8000)], "auto"),
        (["sex", NumberColumn.between("age", 0, 99, 8000), NumberColumn.between("cost", 0, 50, 8000)], "histogram"),
        (["sex", NumberColumn.between("age", 0, 99, 8000), NumberColumn.between("cost", 0, 50, 8000)], "aim"),
    ],
)
def test_tables_that_do_not_fit_into_memory_are_refused_before_payment(tmp_path: Path, columns: list[Any], method: str) -> None:
    """Two columns of 8,000 bins have 64 million pairs. It was found out after the payment, by running out of memory or by the method."""
    session = opened(tmp_path, pa.table({"id": [1], "sex": ["f"], "age": [3], "cost": [1.0]}))
    with pytest.raises(ParameterError, match=r"cells.*above the cap of"):
        from_session(session, columns, epsilon=1, method=method)
    assert session.left()["epsilon"] == 2
    declared = [CategoryColumn("sex", ("f", "m")), *columns[1:]]
    with pytest.raises(ParameterError, match=r"cells.*above the cap of"):
        synthesize({"sex": ["f"], "age": [3], "cost": [1.0]}, declared, rho=1, method=method, account=session.account)
    assert session.left()["epsilon"] == 2
    assert from_session(session, ["sex", "age"], epsilon=0.1).sample(1).num_rows == 1


def test_levels_that_do_not_fit_into_memory_are_refused_before_payment() -> None:
    wide = [NumberColumn.between(name, 0, 1, 8000) for name in ("a", "b")]
    levels = [Level("people", [], key="id", rows_of="rows"), Level("rows", wide, of="people", by="id", most=2)]
    with pytest.raises(ParameterError, match="above the cap of"):
        synthesize_tables({"rows": {"id": [1], "a": [0.5], "b": [0.5]}}, levels, rho=1)


def test_names_of_columns_are_for_sessions() -> None:
    with pytest.raises(ParameterError, match="columns are declared, as 'sex' is not: CategoryColumn"):
        synthesize({"sex": ["f"]}, ["sex"], rho=1)
