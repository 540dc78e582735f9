"""What mechanisms that add noise share: on which spaces they stand, and how noise is added without overflow."""

from __future__ import annotations

from fractions import Fraction
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
    Categories,
    DomainError,
    Integers,
    Lattice,
    LInfinity,
    MetricError,
    Reals,
    Rows,
    Space,
    Vectors,
)
from tacit.mechanisms import Mechanism, discrete_gaussian, gaussian, geometric, laplace, planar_laplace, staircase
from tacit.mechanisms.mechanism import Numbers, add, numbers_of

WORD = 2**62
INTEGERS = Space(Integers(), Absolute())
CENTS = Space(Lattice(Fraction(1, 100)), Absolute())
L1_SPACE = Space(Vectors(Integers(), 3), L1())
L2_SPACE = Space(Vectors(Integers(), 3), L2())
SCALED: dict[str, Mechanism] = {
    "laplace": laplace(2),
    "geometric": geometric(2),
    "gaussian": gaussian(2),
    "discrete_gaussian": discrete_gaussian(2),
    "staircase": staircase(1, 2),
}


@pytest.mark.parametrize("name", ["laplace", "geometric"])
def test_l1_noise_on_an_l2_metric_is_refused_and_the_fix_is_named(name: str) -> None:
    assert SCALED[name].bind(L1_SPACE)
    with pytest.raises(MetricError, match="gaussian"):
        SCALED[name].bind(L2_SPACE)


@pytest.mark.parametrize("name", ["gaussian", "discrete_gaussian"])
def test_l2_noise_on_an_l1_metric_is_refused_and_the_fix_is_named(name: str) -> None:
    assert SCALED[name].bind(L2_SPACE)
    with pytest.raises(MetricError, match="cast"):
        SCALED[name].bind(L1_SPACE)


@pytest.mark.parametrize("name", SCALED)
def test_noise_is_never_added_to_floats_rows_or_other_distances(name: str) -> None:
    for space in (Space(Reals(0, 1), Absolute()), Space(Rows(Integers(0, 1)), AddRemove())):
        with pytest.raises(DomainError, match=r"round_to|aggregate"):
            SCALED[name].bind(space)
    with pytest.raises(MetricError):
        SCALED[name].bind(Space(Vectors(Integers(), 3), LInfinity()))


def test_planar_noise_needs_a_plane() -> None:
    with pytest.raises(DomainError, match="length 2"):
        planar_laplace(1).bind(L2_SPACE)
    with pytest.raises(MetricError):
        planar_laplace(1).bind(Space(Vectors(Integers(), 2), L1()))


@pytest.mark.parametrize("name", SCALED)
def test_a_distance_of_zero_costs_nothing_and_releases_what_the_domain_promises(name: str) -> None:
    plan = SCALED[name].bind(INTEGERS)
    assert repr(plan.event(0)) == "NoOp()"
    assert repr(plan.event(Fraction(1, 2))) == "NoOp()"  # whole numbers cannot differ by a half
    assert type(plan.release(5).value) is int
    on_cents = SCALED[name].bind(CENTS).function(500)
    assert type(on_cents) is float
    assert Fraction(repr(on_cents)) % Fraction(1, 100) == 0


@pytest.mark.parametrize("name", ["laplace", "geometric"])
def test_vectors_come_back_as_arrays(name: str) -> None:
    drawn = SCALED[name].bind(L1_SPACE).function(np.array([1, 2, 3]))
    assert drawn.dtype == np.int64 and drawn.shape == (3,)
    cents = SCALED[name].bind(Space(Vectors(Lattice(Fraction(1, 4)), 3), L1())).function(np.array([1, 2, 3]))
    assert cents.dtype == np.float64 and np.all(cents * 4 == np.rint(cents * 4))


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_single_sums_are_exact_whatever_their_size(value: int, noise: int) -> None:
    assert add(Numbers(Fraction(1), None, True), value, noise) == value + noise


@given(st.lists(st.tuples(st.integers(-WORD, WORD), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=5))
def test_vector_sums_never_wrap_around(pairs: list[tuple[int, int]]) -> None:
    values, noise = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    total = add(Numbers(Fraction(1), len(pairs), True), values, noise)
    assert total.tolist() == [v + z for v, z in pairs]


def test_a_wrapping_sum_would_be_caught() -> None:
    """The mutant: adding machine words without looking."""
    with np.errstate(over="ignore"):
        wrapped: Any = np.array([WORD]) + np.array([2**63 - 1])
    assert wrapped.tolist() != [WORD + 2**63 - 1]
    assert add(Numbers(Fraction(1), 1, True), np.array([WORD]), np.array([2**63 - 1])).tolist() == [WORD + 2**63 - 1]


def test_one_number_is_one_number() -> None:
    with pytest.raises(DomainError, match="Vectors"):
        laplace(1).bind(INTEGERS).release([1, 2])


def test_numbers_of_names_the_dimension() -> None:
    assert numbers_of(L1_SPACE, "laplace", L1, "").dimension == 3
    assert numbers_of(INTEGERS, "laplace", L1, "").dimension == 1
    with pytest.raises(DomainError):
        numbers_of(Space(Rows(Categories(("a",))), AddRemove()), "laplace", L1, "")


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "2", None, True])
@pytest.mark.parametrize("make", [laplace, geometric, gaussian, discrete_gaussian, planar_laplace, staircase], ids=lambda f: f.__name__)
def test_no_scale_is_ever_zero_or_senseless(make: Any, bad: Any) -> None:
    """A missing or zero scale is a refusal, never an answer without noise."""
    with pytest.raises(ValueError, match=r"scale|sigma|epsilon"):
        make(bad)
