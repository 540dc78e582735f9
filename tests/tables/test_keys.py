"""Keys: equal ones are refused, types are the column's, numbers of combinations are what they say, long lists work."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables.people import column
from tests.tables.test_statistics_split import MICRO

from tacit.accounting import Guarantee
from tacit.tables import Aggregate, Key, Question, Refused, TableError, Unit
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.types import kind_of
from tacit.tables.figures import integers
from tacit.tables.keys import Keys, Listed, keys_of
from tacit.tables.plan import Settings, make

SPEND = Guarantee(epsilon=Fraction(1), delta=MICRO)
A, B = Key(column("a"), "a"), Key(column("b"), "b")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 1.0], "BIGINT"),
        ([1, Decimal(1)], "BIGINT"),
        ([0.0, -0.0], "DOUBLE"),
        (["2026-01-31", datetime.date(2026, 1, 31)], "DATE"),
        (["a", "a"], "VARCHAR"),
        ([np.int64(3), 3], "INTEGER"),
        ([None, None], "VARCHAR"),
    ],
    ids=["int", "decimal", "zero", "date", "text", "numpy", "null"],
)
def test_equal_keys_would_count_a_row_twice(values: list[Any], kind: str) -> None:
    with pytest.raises(TableError, match="equal"):
        Listed.of(["a"], [[value] for value in values], [kind])


@pytest.mark.parametrize(
    ("value", "kind"),
    [("1", "BIGINT"), (1, "VARCHAR"), (1.5, "INTEGER"), (float("nan"), "DOUBLE"), (True, "BIGINT"), ("soon", "DATE"), (b"x", "BLOB")],
    ids=["text", "number", "part", "nan", "truth", "word", "bytes"],
)
def test_keys_of_another_type_are_refused(value: Any, kind: str) -> None:
    with pytest.raises(TableError) as caught:
        Listed.of(["a"], [[value]], [kind])
    assert "'a'" in str(caught.value) or "a has" in str(caught.value)


def test_empty_and_uneven_lists_are_refused() -> None:
    with pytest.raises(TableError, match="empty"):
        Listed.of(["a"], [], ["BIGINT"])
    with pytest.raises(TableError, match="2 values"):
        keys_of((A, B), [(1, 2), (1,)], ["BIGINT", "BIGINT"])
    with pytest.raises(TableError, match="groups"):
        keys_of((A, B), {"a": range(10**4), "b": range(10**4)}, ["BIGINT", "BIGINT"])


def asked(*keys: Key) -> Question:
    return Question(exp.to_table("t"), keys, (Aggregate("count", None, "n"),))


def counts(data: pa.Table, question: Question, keys: Any) -> dict[tuple[Any, ...], int]:
    engine = DuckDB(threads=1)
    engine.register("t", data)
    plan = make(question, Unit("id", max_rows=100), engine, Settings(keys=keys), SPEND)
    exact = integers(engine.run(plan.statement(engine, 1)), plan)
    full = plan.keys.groups([number for number, _ in exact.groups], [values for _, values in exact.groups])
    return dict(zip(full, exact.sums[0].tolist(), strict=True))


DATA = pa.table({"id": [1, 2, 3, 4, 5], "a": ["x", "y", "x", None, "it's; --"], "b": [1, 2, 2, 1, 7]})


def test_every_combination_has_its_own_count() -> None:
    found = counts(DATA, asked(A, B), {"a": ["x", "y", "z"], "b": [1, 2]})
    assert found == {("x", 1): 1, ("x", 2): 1, ("y", 1): 0, ("y", 2): 1, ("z", 1): 0, ("z", 2): 0}


def test_listed_tuples_null_and_quotes() -> None:
    assert counts(DATA, asked(A, B), [("x", 1), (None, 1), ("it's; --", 7)]) == {("x", 1): 1, (None, 1): 1, ("it's; --", 7): 1}
    assert counts(DATA, asked(B, A), {("b", "a"): [(2, "y"), (9, "y")]}) == {(2, "y"): 1, (9, "y"): 0}
    assert counts(DATA, asked(A), pa.table({"a": ["y", "x"]})) == {("y",): 1, ("x",): 2}


def test_dates_are_dates() -> None:
    days = pa.table({"id": [1, 2], "a": [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], "b": [1.5, 2.5]})
    assert list(counts(days, asked(A), {"a": ["2026-01-02", "2026-01-03"]}).values()) == [1, 0]
    assert list(counts(days, asked(B), {"b": [1.5, 3]}).values()) == [1, 0]


def test_a_long_list_goes_over_as_a_table() -> None:
    many = pa.table({"id": range(20_000), "a": [f"k{i % 10_000}" for i in range(20_000)]})
    found = counts(many, asked(A), {"a": [f"k{i}" for i in range(9_000)] + ["nobody"]})
    assert set(found.values()) == {0, 2} and len(found) == 9_001 and found["nobody",] == 0


def test_kinds_that_cannot_be_keys_are_refused() -> None:
    assert kind_of("STRUCT(a INTEGER)") == "other"
    with pytest.raises(Refused, match="cast"):
        keys_of((A,), {"a": [1]}, ["STRUCT(a INTEGER)"])


def test_public_and_private_keys_mix() -> None:
    found = keys_of((A, B), {"b": [1, 2]}, ["VARCHAR", "BIGINT"])
    assert found.private == (0,) and found.count == 2
    assert found.groups([0, 1], [("u",), ("v",)]) == [("u", 1), ("v", 2)]


@pytest.mark.parametrize(
    ("values", "start"),
    [([1, 2, 3], 1), ([-2, -1, 0], -2), ([7], 7), ([1, 3], None), ([2, 1], None), ([None], None), ([1, 2, None], None), ([2**61], None)],
    ids=str,
)
def test_consecutive_numbers_number_themselves(values: list[int | None], start: int | None) -> None:
    listed = Listed.of(["k"], [[value] for value in values], ["BIGINT"])
    assert listed.start == start
    assert Listed.of(["k"], [[value] for value in (1.0, 2.0)], ["DOUBLE"]).start is None
    keys = Keys((Key(exp.column("k"), "k"),), (listed,))
    assert keys.consecutive == (start is not None) and keys.first == (start or 0)
    assert keys.listed == [(value,) for value in values]


def test_only_floats_are_compared_otherwise_than_they_are_grouped() -> None:
    kinds = {"BIGINT": 1, "VARCHAR": "a", "DATE": "2026-01-31", "BOOLEAN": True, "DOUBLE": 0.0, "DECIMAL(4,1)": 1}
    found = {kind: Listed.of(["k"], [[value]], [kind]).distinct for kind, value in kinds.items()}
    assert found == {**dict.fromkeys(kinds, True), "DOUBLE": False}


@pytest.mark.parametrize("wrong", ["N", {"k": "N"}, {"k": b"N"}, 5, {"k": 5}, [{"other": "N"}]])
def test_one_text_is_no_list(wrong: Any) -> None:
    """Python would take a text letter by letter, and every one of them for a group."""
    with pytest.raises(TableError, match=r"must be a list of values|must say k"):
        keys_of((Key(column("k"), "k"),), wrong, ["VARCHAR"])


def test_midnight_is_a_date() -> None:
    noon = datetime.datetime(2026, 1, 31, 12)
    assert Listed.of(["day"], [[datetime.datetime(2026, 1, 31)]], ["DATE"]).values == ((datetime.date(2026, 1, 31),),)
    for wrong in (noon, datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)):
        with pytest.raises(TableError, match="dates"):
            Listed.of(["day"], [[wrong]], ["DATE"])
