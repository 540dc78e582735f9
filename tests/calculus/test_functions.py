"""Functions of the user: total, cut to size, each row by itself, and no error of theirs comes out."""

from __future__ import annotations

import itertools
import sys
import warnings
from typing import Any

import pytest

from tacit.accounting import ParameterError
from tacit.calculus import (
    AddRemove,
    Anything,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    MetricError,
    Reals,
    Records,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
    drop_missing,
    filter_rows,
    flat_map,
    map_rows,
    table,
)

NUMBERS = Space(Rows(Integers(0, 9)), AddRemove())
PEOPLE = Space(table(id=Integers(), age=Reals()), Identifiers("id"))


def _exit(row: Any) -> Any:
    sys.exit(3)


def _warn(row: Any) -> int:
    warnings.warn("the row was seen", stacklevel=1)
    return 4


def _recurse(row: Any) -> Any:
    return _recurse(row)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: 12 // x, [1, 4]),
        (lambda x: x["age"], [1, 1]),
        (lambda x: "nonsense", [0, 0]),
        (lambda x: 10**9, [9, 9]),
        (lambda x: [1, 2, 3], [0, 0]),
        (_exit, [1, 1]),
        (_warn, [4, 4]),
        (_recurse, [1, 1]),
    ],
    ids=["division", "type", "text", "huge", "list", "exit", "warning", "recursion"],
)
def test_whatever_a_function_does_a_member_comes_out(function: Any, found: list[int]) -> None:
    plan = NUMBERS >> map_rows(function, Integers(0, 9), default=1)
    assert plan([0, 3]).tolist() == found


def test_a_failing_row_changes_no_other_row() -> None:
    plan = NUMBERS >> map_rows(lambda x: 12 // x, Integers(0, 99))
    assert plan([3, 0, 4]).tolist() == [4, 0, 3]
    assert plan([3, 4]).tolist() == [4, 3]


def test_a_function_cannot_write_into_the_data() -> None:
    space = Space(table(a=Integers()), AddRemove())
    given = {"a": [1, 2]}

    def spoil(row: dict[str, Any]) -> int:
        row["a"] = 99
        return 0

    (space >> map_rows(spoil, Integers()))(given)
    assert given == {"a": [1, 2]}


def test_rows_of_records_and_vectors() -> None:
    made = NUMBERS >> map_rows(lambda x: {"half": x / 2, "junk": 1}, Records(half=Reals(0, 3), other=Integers(1, 2)))
    found = made([4, 8])
    assert found["half"].tolist() == [2.0, 3.0] and found["other"].tolist() == [1, 1]
    assert (NUMBERS >> map_rows(lambda x: [x] * (1 + x % 2), Vectors(Integers(), 2)))([1, 2]).tolist() == [[1, 1], [0, 0]]
    with pytest.raises(DomainError, match="domain of its results"):
        NUMBERS >> map_rows(abs, int)  # type: ignore[arg-type]


def test_filters() -> None:
    plan = NUMBERS >> filter_rows(lambda x: 6 // x > 1)
    assert plan([0, 1, 3, 6]).tolist() == [1, 3]
    assert plan.map(2) == 2
    for metric in (ReplaceOne(), Hamming()):
        exchanged = Space(Rows(Integers(0, 9), size=4), metric) >> filter_rows(lambda x: x > 3)
        assert exchanged.output == Space(Rows(Integers(0, 9)), AddRemove())
        assert exchanged.map(1) == 2
    assert (Space(Rows(Anything()), AddRemove()) >> filter_rows(lambda x: "yes"))([1]) == [1]


def test_flat_map_cuts_and_drops() -> None:
    plan = NUMBERS >> flat_map(lambda x: range(7), 3, Integers(0, 6))
    assert plan([5, 5]).tolist() == [0, 1, 2, 0, 1, 2]
    assert plan.map(1) == 3
    endless = NUMBERS >> flat_map(lambda x: itertools.count(x), 2, Integers())
    assert endless([5]).tolist() == [5, 6]
    failing = NUMBERS >> flat_map(lambda x: (12 // (x - i) for i in range(2)), 2, Integers())
    assert failing([1, 4]).tolist() == [3, 4]
    assert (NUMBERS >> flat_map(lambda x: x, 2, Integers()))([1]).tolist() == []
    assert (Space(Rows(Integers()), ReplaceOne()) >> flat_map(lambda x: [x], 3, Integers())).map(1) == 6
    with pytest.raises(ParameterError, match="most"):
        flat_map(list, 0, Integers())


def test_missing_rows_are_dropped() -> None:
    plan = Space(table(a=Reals(0, 9), b=Integers()), AddRemove()) >> drop_missing("a")
    found = plan({"a": [1.0, None, 99.0], "b": [1, 2, 3]})
    assert found["a"].tolist() == [1.0, 9.0] and found["b"].tolist() == [1, 3]
    assert plan.output.domain == table(a=Reals(0, 9, missing=False), b=Integers())
    assert (Space(Rows(Reals()), ReplaceOne()) >> drop_missing()).map(1) == 2
    with pytest.raises(DomainError, match="has none"):
        NUMBERS >> drop_missing()


def test_no_function_can_pass_a_row_on_to_somebody_else() -> None:
    data = {"id": [1, 1, 2], "age": [5, 6, 7]}
    plan = PEOPLE >> map_rows(lambda row: {"id": 7, "x": row["age"]}, Records(x=Integers(0, 9)))
    assert plan(data)["id"].tolist() == [1, 1, 2]
    many = PEOPLE >> flat_map(lambda row: [{"id": 7, "x": 1}] * 5, 2, Records(id=Integers(), x=Integers()))
    assert many(data)["id"].tolist() == [1, 1, 1, 1, 2, 2]
    assert many.map(1) == 1
    for step in (map_rows(lambda row: 1, Integers()), flat_map(lambda row: [1], 1, Integers())):
        with pytest.raises(MetricError, match="cap_rows"):
            PEOPLE >> step
