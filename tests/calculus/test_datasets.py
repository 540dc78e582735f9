"""Keys tell rows apart exactly where a function could, and the canonical order depends on the multiset alone."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calculus.test_domains_number_domains import NASTY

from tacit.calculus import Anything, Records, length, take
from tacit.calculus.datasets import canonical, held, key, keys, rows_of

values = st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.sampled_from(NASTY))
KINDS = [0, 0.0, -0.0, False, "0", b"0", None, "None", math.nan, "nan", (0,), {"a": 0}, 1, 1.0, True]


def test_keys_of_different_values_differ() -> None:
    assert len({key(v) for v in KINDS}) == len(KINDS)
    assert key(math.nan) == key(float("-nan")) == key(np.float64("nan"))
    assert key(np.int64(3)) == key(3)
    assert key([1, 2]) == key(np.array([1, 2])) == key((1, 2))
    assert key({"b": 1, "a": 2}) == key({"a": 2, "b": 1})


@settings(max_examples=40)
@given(st.lists(values, max_size=7), st.randoms(), st.binary(max_size=64))
def test_the_canonical_order_forgets_the_order(rows: list[Any], random: Any, salt: bytes) -> None:
    moved = list(rows)
    random.shuffle(moved)
    one = [key(rows[i]) for i in canonical(rows, salt)]
    two = [key(moved[i]) for i in canonical(moved, salt)]
    assert one == two
    assert Counter(one) == Counter(key(v) for v in rows)


def test_keys_of_hostile_objects_raise_nothing() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise ValueError("a secret")

    inside: list[Any] = []
    inside.append(inside)
    for value in (Mute(), inside, 10**5000, -(10**5000), Fraction(10**5000), {Mute(): 1}, np.array(3)):
        assert canonical([value, value]) in ([0, 1], [1, 0])
    assert key(10**5000) != key(10**5000 + 1)
    assert key(Fraction(1, 10**5000)) != key(Fraction(2, 10**5000))


def test_the_salt_changes_the_order() -> None:
    rows = list(range(50))
    orders = {tuple(canonical(rows, bytes([salt]))) for salt in range(10)}
    assert len(orders) == 10


def test_the_order_is_not_that_of_the_values() -> None:
    """Otherwise a cap would keep the smallest rows and bias every answer."""
    order = canonical(list(range(1000)))
    ranks = np.empty(1000)
    ranks[order] = np.arange(1000)
    assert abs(np.corrcoef(ranks, np.arange(1000))[0, 1]) < 0.15  # 4.7 standard deviations, and the order is fixed


def test_rows_and_columns() -> None:
    data = {"a": np.array([1, 2, 3]), "b": ["x", "y", "z"]}
    assert length(data) == 3
    assert rows_of(take(data, [2, 0])) == [{"a": 3, "b": "z"}, {"a": 1, "b": "x"}]
    assert rows_of(take(data, [])) == []
    assert held(Records(a=Anything(), b=Anything()), rows_of(data)) == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    assert held(Anything(), iter([1, 2])) == [1, 2]
    assert len(keys(data)) == 3
    row = rows_of(data)[0]
    row["a"] = 99
    assert data["a"][0] == 1
