"""The tables are those of a field, for every order in use: enumerated, with the axioms as the oracle."""

from __future__ import annotations

import cmath

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.local.fields import field, prime_power


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 9, 16, 25, 27])
def test_the_axioms(order: int) -> None:
    f, every = field(order), np.arange(order)
    plus, times = f.plus, f.times
    for table in (plus, times):
        assert (table == table.T).all()  # commutative
        assert (table[table[:, :, None], every[None, None, :]] == table[every[:, None, None], table[None, :, :]]).all()  # associative
    assert (plus[0] == every).all() and (times[1] == every).all() and not times[0].any()
    left, right = times[every[:, None, None], plus[None, :, :]], plus[times[:, :, None], times[:, None, :]]
    assert (left == right).all()  # distributive
    assert (plus[every, f.minus] == 0).all() and (times[every[1:], f.inverse[1:]] == 1).all()


@pytest.mark.parametrize("order", [2, 3, 4, 8, 9, 25])
def test_the_characters_are_all_characters_once(order: int) -> None:
    """Row a of `dual` names y -> trace(a y): additive in y, different for every a, and they sum to 0 except for a = 0."""
    f = field(order)
    digits = np.array([[y // f.prime**k % f.prime for k in range(f.degree)] for y in range(order)])
    phase = f.dual @ digits.T % f.prime
    for y in range(order):
        assert (phase[:, f.plus[y]] == (phase + phase[:, [y]]) % f.prime).all()
    assert len({tuple(row) for row in f.dual.tolist()}) == order
    sums = [sum(cmath.exp(2j * cmath.pi * int(p) / f.prime) for p in row) for row in phase]
    assert abs(sums[0] - order) < 1e-9 and max(map(abs, sums[1:])) < 1e-9
    assert (phase == phase.T).all()  # trace(a y) = trace(y a)


def test_orders_that_are_none() -> None:
    assert [q for q in range(2, 33) if prime_power(q)] == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]
    for order in (6, 12, 257, 1):
        with pytest.raises(ParameterError, match="order"):
            field(order)
