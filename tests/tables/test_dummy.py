"""Made-up rows have the table's columns and stay within what is declared; they are made without a look at the data."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.tables.test_session import UNIT, silent

from tacit.ledger import Budget, Ledger
from tacit.tables import Schema, Session, TableError
from tacit.tables.dummy import like

SECRET = 48_151_623
INSTANT = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def awkward() -> pa.Table:
    return pa.table(
        {
            "id": [SECRET],
            "region": ["zebra-7719"],
            "age": [SECRET],
            "cost": [float(SECRET)],
            "paid": [Decimal("48151623.5")],
            "day": [datetime.date(1915, 1, 6)],
            "at": pa.array([INSTANT], pa.timestamp("us", tz="UTC")),
            "smoker": [True],
            "tags": [["zebra-7719"]],
            "blob": [b"zebra-7719"],
            "odd \"name\"": [SECRET],
        }
    )


def session_of(ledger: Ledger, data: Any = None, name: str = "visits") -> Session:
    return Session(
        awkward() if data is None else data,
        unit=UNIT,
        budget=Budget(epsilon=1000, delta="1e-6"),
        name=name,
        ledger=ledger,
        columns={"age": (0, 110), "cost": (0, 5), "region": ["N", "S"]},
    )


@pytest.fixture
def ledger(tmp_path: Any) -> Ledger:
    return Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")


def test_the_columns_are_those_of_the_table_and_no_row_is_read(ledger: Ledger) -> None:
    session = silent(session_of(ledger))
    made = session.dummy(200)
    assert made.num_rows == 200 and made.column_names == awkward().column_names
    assert str(SECRET) not in str(made.to_pydict()) and "zebra" not in str(made.to_pydict())
    ages = [age for age in made["age"].to_pylist() if age is not None]
    assert min(ages) >= 0 and max(ages) <= 110 and set(made["region"].to_pylist()) == {"N", "S", None}
    assert len(set(made["id"].to_pylist())) <= 50 and None not in made["id"].to_pylist()
    assert made["tags"].null_count == made["blob"].null_count == 200
    assert session.left() == session_of(ledger).left()


@pytest.mark.parametrize(
    "question",
    [
        "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region",
        "SELECT COUNT(*) AS n FROM visits WHERE smoker AND day >= DATE '2025-06-01'",
        "SELECT COUNT(*) AS n FROM visits WHERE EXTRACT(HOUR FROM at AT TIME ZONE 'UTC') < 12",
        "SELECT SUM(cost) AS c, MEDIAN(age) AS m FROM visits WHERE paid > 3.5",
    ],
)
def test_a_question_about_them_is_a_question_about_the_data(question: str, ledger: Ledger) -> None:
    """The same plan, and an answer."""
    real = session_of(ledger)
    made = session_of(ledger, real.dummy(300), "rehearsal")
    text = question.replace("visits", "rehearsal")
    assert real.plan(question, epsilon=1).event == made.plan(text, epsilon=1).event
    assert made.sql(text, epsilon=1).rows in (1, 2)


def test_the_edition_decides() -> None:
    types = {"a": "BIGINT", "b": "character varying", "c": "timestamp without time zone", "d": "ENUM('x', 'y')"}
    first, same, other = (like(types, Schema(), "t", 50, edition=edition) for edition in (1, 1, 2))
    assert first.equals(same) and not first.equals(other)
    assert first.schema.field("c").type == pa.timestamp("us")


def test_a_table_that_is_not_there_and_silly_rows_are_refused(ledger: Ledger) -> None:
    session = session_of(ledger)
    with pytest.raises(TableError, match="no table"):
        session.dummy(table="other")
    with pytest.raises(TableError, match="rows"):
        session.dummy(-1)

