"""Conversions of distances against all small vectors, and only in the directions that exist."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    DomainError,
    Hamming,
    Integers,
    Lattice,
    LInfinity,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
    as_add_remove,
    as_norm,
    count,
    total,
    unordered,
)
from tacit.exact import root

NORMS = (L1(), L2(), LInfinity(), LInfinity(monotone=True))
BOX = list(product(range(-3, 4), repeat=3))


@pytest.mark.parametrize("have", NORMS, ids=str)
@pytest.mark.parametrize("want", NORMS, ids=str)
def test_conversions_on_all_small_vectors(have: Any, want: Any) -> None:
    """For each known distance, the largest wanted one; where all coordinates are free the map is reached."""
    plan = Space(Vectors(Integers(), 3), have) >> as_norm(want)
    zero = (0, 0, 0)
    slack = 1 + Fraction(1, 2**60)
    for distance in (1, 2, 3):
        worst = max(want.distance(zero, v) for v in BOX if have.within(zero, v, distance))
        assert worst <= plan.map(distance) * slack
        if not (isinstance(have, L2) and distance > 1):  # a sphere need not pass through whole points
            assert plan.map(distance) <= worst * slack


def test_the_square_bound_holds_for_whole_numbers_only() -> None:
    whole = Space(Vectors(Integers(), 100), L2()) >> as_norm(L1())
    granules = Space(Vectors(Lattice(Fraction(1, 3)), 100), L2()) >> as_norm(L1())
    reals = Space(Vectors(Reals(), 100), L2()) >> as_norm(L1())
    assert whole.map(1) == granules.map(1) == 1
    assert whole.map(2) == 4
    assert whole.map(50) == 500
    assert reals.map(1) == 10
    assert reals.map(Fraction(1, 2)) == 5


def test_one_coordinate_is_one_coordinate() -> None:
    for have, want in product(NORMS, repeat=2):
        assert (Space(Vectors(Integers(), 1), have) >> as_norm(want)).map(3) == 3


def test_exchanges_count_twice() -> None:
    space = Space(Rows(Integers(0, 10), size=5), ReplaceOne())
    assert (space >> as_add_remove() >> count()).map(1) == 2
    assert (space >> as_add_remove() >> total()).map(1) == 20
    assert (space >> total()).map(1) == 10
    assert (space >> as_add_remove()).output.domain == Rows(Integers(0, 10))
    assert (Space(Rows(Integers()), Hamming()) >> unordered() >> as_add_remove()).map(3) == 6


def test_there_is_no_way_back() -> None:
    rows = Space(Rows(Integers()), AddRemove())
    with pytest.raises(MetricError, match="no way back"):
        rows >> as_add_remove()
    with pytest.raises(MetricError, match="unordered"):
        rows >> unordered()
    with pytest.raises(DomainError, match="norms measure vectors"):
        Space(Integers(), Absolute()) >> as_norm(L1())
    with pytest.raises(MetricError, match="no conversion"):
        Space(Vectors(Integers(), 2), Hamming()) >> as_norm(L1())
    assert root(Fraction(4)) == 2
