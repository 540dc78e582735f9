"""Values are read one by one; the attack on every estimator is `tests/attacks/test_one_value.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tacit.accounting import ParameterError
from tacit.calculus import codes_of
from tacit.learning.reading import column_of, declared_classes, declared_width, label_numbers, matrix


@pytest.mark.parametrize(
    "given",
    [
        np.array([[1, 2], [3, 4]]),
        np.array([["1", "2"], ["3", "4"]]),
        [[1, "2"], (3.0, b"4")],
        pd.DataFrame({"a": [1, 3], "b": ["2", 4]}),
        pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": pd.Categorical(["2", "4"])}),
        pa.table({"a": [1, 3], "b": ["2", "4"]}),
    ],
)
def test_every_container_of_the_same_values_is_the_same_matrix(given: Any) -> None:
    assert matrix(given, width=2).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_missing_values_of_every_library_are_missing() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [pd.NA, 2.0], "c": [pd.NaT, 3]})
    assert np.array_equal(matrix(frame), [[1, np.nan, np.nan], [np.nan, 2, 3]], equal_nan=True)


def test_the_width_is_declared_by_the_bounds() -> None:
    assert declared_width(([0, 0, 0], [1, 1, 1])) == declared_width((0, np.ones(3))) == 3
    assert declared_width((0, 1)) is declared_width(None) is declared_width("01") is declared_width(np.array([0, 1])) is None
    with pytest.raises(ParameterError) as caught:
        matrix([[1.0]])
    assert caught.value.code == "width-undeclared"


def test_columns_of_labels() -> None:
    with pytest.warns(UserWarning, match="column-vector"):
        assert list(column_of(np.array([[1], [0]]), 2)) == [1, 0]
    assert list(column_of([[1], 0], 2)) == list(column_of(pd.DataFrame({"y": [1, 0]}), 2)) == [1, 0]
    assert label_numbers(["1.5", None], 2)[0] == 1.5
    for wrong in (None, np.zeros((2, 2)), [1, 2, 3], np.float64(1)):
        with pytest.raises(ValueError):
            column_of(wrong, 2)


def test_whole_numbers_beyond_a_float_keep_their_class() -> None:
    classes = declared_classes([2**53, 2**53 + 1])
    assert codes_of([2**53 + 1, 2**53, 2**53 + 2, str(2**53)], classes).tolist() == [1, 0, -1, 0]
    assert codes_of(np.array([2**53 + 1, 2**53]), classes).tolist() == [1, 0]


def test_dates_are_labels_where_they_are_declared() -> None:
    classes = declared_classes(np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]"))
    given = [np.datetime64("2026-01-02"), "2026-01-01", None, "soon", 10**400]
    assert codes_of(given, classes).tolist() == [1, 0, -1, -1, -1]
    with pytest.raises(ParameterError, match="NaN"):
        declared_classes([0.0, float("nan")])
