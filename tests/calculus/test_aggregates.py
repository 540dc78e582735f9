"""Counts, sums and means: exact whatever the order, with the textbook's sensitivities and refusals."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Ball,
    Categories,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    Lattice,
    LInfinity,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
    clip_norm,
    count,
    exact_sum,
    mean,
    resize,
    round_to,
    table,
    total,
)

NORMS = (L1(), L2(), LInfinity(), LInfinity(monotone=True))


@given(st.lists(st.integers(-(2**70), 2**70), max_size=20), st.randoms())
def test_sums_are_exact_in_any_order(values: list[int], random: Any) -> None:
    data = Integers().enforce(values)
    assert exact_sum(data) == sum(values)
    random.shuffle(values)
    assert exact_sum(Integers().enforce(values)) == exact_sum(data)


def test_sums_neither_wrap_nor_round() -> None:
    """The repeated failures of sums in other libraries: 2^50 added 1024 times to small values, and sums beyond a word."""
    big = np.full(1024, 2**50)
    ones = np.ones(1024, dtype=np.int64)
    assert exact_sum(np.concatenate([big, ones])) == exact_sum(np.concatenate([ones, big])) == 2**60 + 1024
    assert exact_sum(np.full(5, 2**62)) == 5 * 2**62
    assert exact_sum(np.full(5, -(2**62))) == -5 * 2**62
    assert exact_sum(np.full(3, 2**63 - 1)) == 3 * (2**63 - 1)
    assert exact_sum([2**63, -1]) == 2**63 - 1
    assert exact_sum(np.array([], dtype=np.int64)) == 0


@pytest.mark.parametrize(("low", "high", "one", "exchanged"), [(10, 20, 20, 10), (-1, 1, 1, 2), (-7, -3, 7, 4), (0, 0, 0, 0)])
def test_the_sensitivity_of_a_sum(low: int, high: int, one: int, exchanged: int) -> None:
    assert (Space(Rows(Integers(low, high)), AddRemove()) >> total()).map(1) == one
    for metric in (ReplaceOne(), Hamming()):
        assert (Space(Rows(Integers(low, high)), metric) >> total()).map(1) == exchanged


def test_bounds_at_the_limits_of_a_word_stay_exact() -> None:
    wide = Rows(Integers(-(2**63), 2**63 - 1))
    assert (Space(wide, ReplaceOne()) >> total()).map(1) == 2**64 - 1
    assert (Space(wide, AddRemove()) >> total()).map(3) == 3 * 2**63


def test_counts() -> None:
    assert (Space(Rows(Reals()), AddRemove()) >> count()).map(4) == 4
    fixed = Space(Rows(Reals(), size=3), ReplaceOne()) >> count()
    assert fixed.map(4) == 0
    assert fixed.output.domain == Integers(3, 3)
    assert (Space(table(a=Reals()), AddRemove()) >> count())({"a": [1, 2]}) == 2


def test_what_is_refused_and_how_to_mend_it() -> None:
    people = Space(table(id=Integers(), n=Integers(0, 1)), Identifiers("id"))
    for step in (count(), total(), mean()):
        with pytest.raises(MetricError, match="cap_rows"):
            people >> step
    with pytest.raises(MetricError, match=r"total\(\) and count\(\)"):
        Space(Rows(Integers(0, 1)), AddRemove()) >> mean()
    with pytest.raises(DomainError, match="resize"):
        Space(Rows(Integers(0, 1)), ReplaceOne()) >> mean()
    with pytest.raises(DomainError, match="clip_norm"):
        Space(Rows(Vectors(Integers(), 2)), AddRemove()) >> total()
    with pytest.raises(DomainError, match="round_to"):
        Space(Rows(Categories("ab")), AddRemove()) >> total()
    with pytest.raises(MetricError, match="norm"):
        Space(Rows(Integers(0, 1)), AddRemove()) >> total(L1())
    with pytest.raises(MetricError, match="norm"):
        Space(Rows(Vectors(Integers(0, 1), 2)), AddRemove()) >> total(Absolute())
    with pytest.raises(DomainError, match="rows"):
        Space(Integers(), Absolute()) >> count()


def test_a_mean_is_exact_and_its_unit_carries_the_division() -> None:
    plan = Space(Rows(Lattice(Fraction(1, 2), 0, 3), size=3), ReplaceOne()) >> mean()
    assert plan.output.domain == Lattice(Fraction(1, 6), 0, 3)
    assert plan([1, 2, 6]) * plan.output.unit == Fraction(3, 2)
    assert plan.sensitivity() == 1
    vectors = Space(Rows(Vectors(Integers(0, 1), 2), size=4), ReplaceOne()) >> mean(L1())
    assert vectors([[1, 0], [1, 1], [0, 0], [1, 0]]).tolist() == [3, 1]
    assert vectors.sensitivity() == Fraction(1, 2)
    assert (Space(Rows(Integers(0, 9)), AddRemove()) >> resize(3, 0) >> mean())([1, 2]) == 3


def ball_members(ball: Ball) -> list[tuple[int, ...]]:
    return [v for v in product(range(-4, 5), repeat=ball.length) if ball.member(v)]


@pytest.mark.parametrize("norm", NORMS, ids=str)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("element", [Integers(-4, 4), Integers(0, 4), Integers(-1, 4)], ids=str)
def test_sums_of_vectors_against_all_pairs(norm: Any, p: int, element: Any) -> None:
    """All members of a small ball: one row may change the sum by its norm, an exchange by the distance of two."""
    for vectors in (Ball(element, 2, p, 3), Vectors(Integers(max(element.lower, -2), 2), 2)):
        rows = ball_members(vectors) if isinstance(vectors, Ball) else list(product(range(max(element.lower, -2), 3), repeat=2))
        zero = (0,) * vectors.length
        one = max(norm.distance(zero, row) for row in rows)
        two = max(norm.distance(a, b) for a, b in product(rows, repeat=2))
        add = (Space(Rows(vectors), AddRemove()) >> total(norm)).map(1)
        exchange = (Space(Rows(vectors), ReplaceOne()) >> total(norm)).map(1)
        slack = 1 + Fraction(1, 2**60)
        assert one <= add * slack and two <= exchange * slack
        if not isinstance(vectors, Ball):
            assert add <= one * slack and exchange <= two * slack


def test_clipping_before_a_sum_of_vectors_on_a_lattice() -> None:
    plan = Space(Rows(Vectors(Reals(missing=False), 2)), AddRemove()) >> round_to(Fraction(1, 10)) >> clip_norm(2, 1) >> total()
    assert plan.sensitivity() == 1
    assert plan([[30.0, 40.0], [0.1, 0.0]]).tolist() == [7, 8]
