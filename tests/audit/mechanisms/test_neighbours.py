"""Pairs at distance 1, of every kind of data set, with the rows nobody expects in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Adjacency, ParameterError
from tacit.audit.mechanisms.neighbours import BUILT_IN, UNSEEN, joined, neighbours, size, taken
from tacit.calculus import AddRemove, ReplaceOne

KINDS: dict[str, Any] = {
    "list": [1, 2, 3],
    "tuple": (1.5, 2.0),
    "floats": np.array([1.0, 2.0]),
    "integers": np.array([1, 2]),
    "matrix": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "columns": {"a": [1, 2], "b": ["x", "y"]},
    "arrow": pa.table({"a": [1, 2], "b": ["x", "y"]}),
    "frame": pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    "records": [{"a": 1, "b": "x"}],
    "texts": ["a", "b"],
    "rows": [(1, 2.5), (2, 3.5)],
    "one": [7],
}


@pytest.mark.parametrize("relation", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_pairs_are_of_the_same_kind_and_one_row_apart(name: str, relation: Adjacency) -> None:
    data = KINDS[name]
    pairs = neighbours(data, relation, crowd=50)
    assert len(pairs) >= 5 and len({pair.label for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert type(pair.first) is type(pair.second) is type(data)
        assert abs(size(pair.first) - size(pair.second)) == (relation is Adjacency.ADD_REMOVE), pair
        if isinstance(data, np.ndarray):
            assert pair.second.dtype == data.dtype
    assert size(pairs[-1].first) == 50


def as_rows(data: Any) -> Any:
    return {name: list(column) for name, column in data.items()} if isinstance(data, dict) else list(data)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_the_distance_is_one_by_the_metrics_of_the_calculus(data: list[int]) -> None:
    for pair in neighbours(data):
        assert AddRemove().distance(pair.first, pair.second) == 1
    for pair in neighbours(data, "replace-one"):
        assert ReplaceOne().distance(pair.first, pair.second) <= 1


def test_what_nobody_expects_is_there() -> None:
    seen = [pair.second[-1] for pair in neighbours([0.5, 1.0]) if pair.label.startswith("add a row")]
    assert any(math.isnan(v) for v in seen) and {math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0} <= set(seen)
    assert any(0 < v < 2.3e-308 and v != 5e-324 for v in seen)
    assert [] in [pair.second for pair in neighbours([0.5])]
    texts = [pair.second["city"][-1] for pair in neighbours({"city": ["Graz", "Bonn"]}) if "row with" in pair.label]
    assert UNSEEN in texts and "" in texts and None in texts


def test_a_person_comes_twice_and_with_very_many_rows() -> None:
    data = {"id": [1, 2], "age": [30.0, 40.0]}
    labels = {pair.label: pair for pair in neighbours(data, person="id", crowd=1000)}
    assert labels["add the person of the first row again"].second["id"] == [1, 2, 1]
    crowd = labels["a new person with 1000 rows"].second
    assert size(crowd) == 1002 and set(crowd["id"][2:]) == {3}
    assert not any("'id'" in label for label in labels), "a row's owner is no value to play with"


def test_data_are_left_as_they_were_and_never_shown() -> None:
    data = np.array([[123456.5, 2.0]])
    pairs = neighbours(data)
    assert data.tolist() == [[123456.5, 2.0]] and "123456" not in repr(pairs)


def test_no_rows_no_pairs_and_refusals() -> None:
    assert neighbours([]) == []
    with pytest.raises(ParameterError, match="add-remove or replace-one"):
        neighbours([1], "zero-out")
    assert all(neighbours(data) for data in BUILT_IN.values())


def test_taking_and_joining_are_inverse() -> None:
    for data in KINDS.values():
        again = joined(taken(data, [0]), taken(data, range(1, size(data))))
        assert str(again) == str(data) or size(again) == size(data)


@pytest.mark.slow
def test_a_million_rows() -> None:
    pair = neighbours([1, 2], crowd=1_000_000)[-1]
    assert (size(pair.first), size(pair.second)) == (1_000_000, 999_999)
