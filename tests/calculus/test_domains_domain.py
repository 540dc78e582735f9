"""What every domain offers, and the small helpers beneath it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.calculus import Anything, Domain, Integers, listed
from tacit.calculus.domains import plain


def test_anything_takes_anything() -> None:
    for value in (None, "text", 5, [1], {"a": 1}, np.zeros((2, 2))):
        assert Anything().member(value)
        assert Anything().complete(value) is value
        assert len(Anything().enforce(value)) >= 1
    assert Anything().contains(Integers())
    assert not Integers().contains(Anything())
    assert Anything().default is None


def test_the_base_class_promises_nothing() -> None:
    for call in (lambda d: d.member(1), lambda d: d.enforce(1), lambda d: d.default, lambda d: d.complete(1)):
        with pytest.raises(NotImplementedError):
            call(Domain())
    assert Domain().contains(Domain())


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.array([1, 2]), [1, 2]),
        (np.array(7), [7]),
        ("ab", ["ab"]),
        (b"ab", [b"ab"]),
        ({"a": 1}, [{"a": 1}]),
        (range(2), [0, 1]),
        (None, [None]),
        (np.ma.masked_array([1, 2], mask=[True, False]), [None, 2]),
    ],
    ids=["array", "scalar", "text", "bytes", "mapping", "range", "none", "masked"],
)
def test_columns_as_lists(given: Any, found: list[Any]) -> None:
    assert listed(given) == found


def test_numpy_scalars_become_plain() -> None:
    assert type(plain(np.float64(1.5))) is float
    assert plain("x") == "x"
