"""What is remembered is found by exactly the same declarations, and by no others."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.tables.recall import LONGEST, Recall, frozen

#: Pairs that Python takes for equal, and a plan does not.
ALIKE = [(1, True), (0, False), (1, 1.0), (0.0, -0.0), (1, Fraction(1)), (1, Decimal(1)), ("1", b"1"), ([1], (1,)), ({"a": 1}, [("a", 1)])]
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.fractions()
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@pytest.mark.parametrize(("one", "other"), ALIKE, ids=str)
def test_what_looks_alike_is_told_apart(one: Any, other: Any) -> None:
    assert frozen(one) != frozen(other)
    assert frozen([one]) != frozen([other]) and frozen({"k": one}) != frozen({"k": other})


@given(NESTED, NESTED)
def test_equal_where_the_two_are_written_alike(one: Any, other: Any) -> None:
    assert frozen(one) is not None
    assert (frozen(one) == frozen(other)) == (repr(one) == repr(other))


UNKNOWN = [object(), np.arange(3), np.float64(1), {1, 2}, [object()], list(range(LONGEST + 1)), range(10**9)]


@pytest.mark.parametrize("value", UNKNOWN, ids=["object", "array", "scalar", "set", "inside", "long", "range"])
def test_what_is_not_known_is_not_remembered(value: Any) -> None:
    assert frozen(value) is None


def test_a_date_is_no_instant() -> None:
    assert frozen(datetime.date(2026, 1, 1)) != frozen(datetime.datetime(2026, 1, 1))


def test_the_oldest_is_forgotten_and_failures_are_not_kept() -> None:
    memory, made = Recall(most=2), list[str]()

    def make(name: str) -> str:
        made.append(name)
        if name == "bad":
            raise ValueError
        return name

    for name in ("a", "b", "a", "c", "a", "b"):
        assert memory.get(name, lambda name=name: make(name)) == name  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]
    for _ in range(2):
        with pytest.raises(ValueError):
            memory.get("bad", lambda: make("bad"))
    assert [memory.get(None, lambda: make("n")) for _ in range(2)] == ["n", "n"] and made.count("n") == 2
