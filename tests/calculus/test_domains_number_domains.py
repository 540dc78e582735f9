"""Domains of numbers are enforced on anything at all, change no member, and contain what they say they contain."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.calculus import WORD, DomainError, Integers, Lattice, Reals, whole_bounds
from tacit.calculus.domains import as_number, as_numbers, integer_array


class Hostile:
    """An object whose conversions raise something unusual."""

    def __float__(self) -> float:
        raise RuntimeError("a secret")

    def __int__(self) -> int:
        raise ZeroDivisionError


NASTY: list[Any] = [
    *(None, "", "12", "nan", b"7", [], [1], {}, {"a": 1}, (), (1, 2), object(), Hostile(), True, False, np.True_),
    *(math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 2**63 - 1, -(2**63), 2**64, 10**400, -(10**400)),
    *(Fraction(1, 3), Fraction(10**400), Decimal("sNaN"), Decimal("1e400"), 1j, np.complex128(1), np.float32("inf"), np.uint64(2**64 - 1)),
    *(np.int8(-128), np.datetime64("2026-01-01"), np.timedelta64(1, "s"), np.array([1, 2]), np.array(3)),
]
nasty = st.sampled_from(NASTY)
numbers = st.one_of(st.integers(), st.floats(), st.fractions())
DOMAINS = [
    *(Integers(), Integers(0, 10), Integers(-5, None), Integers(None, -3), Integers(7, 7)),
    *(Integers(-(2**63), 2**63 - 1), Integers(2**70, 2**71)),
    *(Lattice(Fraction(1, 3)), Lattice(Fraction(1, 8), 0, 1), Lattice(0.5, None, -1)),
    *(Reals(), Reals(0, 1), Reals(0, 1, missing=False), Reals(missing=False), Reals(None, -2), Reals(Fraction(1, 3), Fraction(2, 3))),
    *(Reals(5e-324, 1e-320), Reals(-(10**400), 10**400)),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@settings(max_examples=30)
@given(st.lists(st.one_of(nasty, numbers), max_size=6))
def test_enforcing_is_total_and_settles(domain: Any, values: list[Any]) -> None:
    found = domain.enforce(values)
    assert len(found) == len(values)
    assert all(domain.member(v) for v in found.tolist())
    again = domain.enforce(found)
    assert [repr(v) for v in again.tolist()] == [repr(v) for v in found.tolist()]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@settings(max_examples=30)
@given(st.one_of(st.integers(), st.floats(), st.integers(min_value=2**61, max_value=2**65)))
def test_members_stay_what_they_are(domain: Any, value: Any) -> None:
    if isinstance(domain, Reals):
        value = float(value)
    if domain.member(value):
        found = domain.enforce([value]).tolist()[0]
        assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@settings(max_examples=30)
@given(st.lists(st.one_of(nasty, numbers), min_size=1, max_size=4), st.randoms())
def test_each_value_is_enforced_by_itself(domain: Any, values: list[Any], random: Any) -> None:
    """A value's result must not depend on its company, or one row could change another."""
    alone = [repr(domain.enforce([v]).tolist()[0]) for v in values]
    assert [repr(v) for v in domain.enforce(values).tolist()] == alone
    order = list(range(len(values)))
    random.shuffle(order)
    assert [repr(v) for v in domain.enforce([values[i] for i in order]).tolist()] == [alone[i] for i in order]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32, np.longdouble, bool])
def test_arrays_of_every_type(kind: Any) -> None:
    given_ = np.array([0, 1, 1], dtype=kind)
    assert Integers(0, 1).enforce(given_).tolist() == [0, 1, 1]
    assert Integers(None, 2**40).enforce(given_).tolist() == [0, 1, 1]
    assert Reals(0, 1).enforce(given_).tolist() == [0.0, 1.0, 1.0]


def test_a_row_of_many_numbers_is_not_many_rows() -> None:
    """A hundred numbers in one row would otherwise count a hundred times."""
    assert Integers(0, 1).enforce(np.ones((2, 100), dtype=int)).tolist() == [0, 0]
    assert Reals(0, 1, missing=False).enforce([[1, 1], [1]]).tolist() == [0.0, 0.0]


def test_masked_values_are_missing() -> None:
    hidden = np.ma.masked_array([1.0, 5.0], mask=[False, True])
    found = Reals(0, 9).enforce(hidden).tolist()
    assert found[0] == 1.0
    assert math.isnan(found[1])


def test_values_beyond_a_word_stay_exact() -> None:
    assert Integers().enforce(np.array([2**63 - 1, -(2**63)])).tolist() == [2**63 - 1, -(2**63)]
    assert Integers().enforce([10**30, 1]).tolist() == [10**30, 1]
    assert Integers(0, None).enforce([10**30, -1]).tolist() == [10**30, 0]


def test_infinities_go_to_the_nearer_bound() -> None:
    assert Integers(0, 10).enforce([math.inf, -math.inf]).tolist() == [10, 0]
    assert Integers(0, None).enforce([math.inf, -math.inf]).tolist() == [0, 0]
    assert Reals(0, 10).enforce([math.inf, -math.inf]).tolist() == [10.0, 0.0]


def test_bounds_between_floats_are_kept_inside() -> None:
    third = Reals(Fraction(1, 3), Fraction(2, 3), missing=False)
    low, high = third.enforce([0.0, 1.0]).tolist()
    assert Fraction(1, 3) <= Fraction(low) and Fraction(high) <= Fraction(2, 3)


bound = st.one_of(st.none(), st.integers(-5, 5))


@given(bound, bound, bound, bound, st.booleans())
def test_containment_means_members(a: Any, b: Any, c: Any, d: Any, missing: bool) -> None:
    if (a is not None and b is not None and a > b) or (c is not None and d is not None and c > d):
        return
    for outer, inner in (
        (Integers(a, b), Integers(c, d)),
        (Lattice(1, a, b), Lattice(1, c, d)),
        (Reals(a, b), Reals(c, d, missing=missing)),
        (Reals(a, b, missing=False), Integers(c, d)),
    ):
        probes = range(-9, 10) if not isinstance(inner, Reals) else [float(v) for v in range(-9, 10)]
        inside = all(outer.member(v) for v in probes if inner.member(v))
        assert outer.contains(inner) == inside
    assert not Reals(a, b, missing=False).contains(Reals(a, b, missing=True))
    assert not Integers(a, b).contains(Reals(a, b))
    assert not Lattice(1, a, b).contains(Lattice(Fraction(1, 2), a, b))


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_the_default_is_a_member(domain: Any) -> None:
    assert domain.member(domain.default)
    assert domain.complete(None) == domain.default or math.isnan(domain.complete(None))


def test_one_value_stays_one_value() -> None:
    assert Integers(0, 9).complete(50) == 9
    assert type(Integers(0, 9).complete(np.int64(5))) is int
    assert Lattice(1, 0, 9).complete(50) == 9
    assert Reals(0, 9).complete([50]) == 9.0
    with pytest.raises(DomainError, match="Vectors"):
        Integers(0, 9).complete([1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integers(3, 1), "swap"),
        (lambda: Integers(0.5, 1), "whole number"),
        (lambda: Integers(0, math.inf), "leave it out"),
        (lambda: Reals(math.nan, 1), "NaN"),
        (lambda: Lattice(Fraction(1, 2), Fraction(1, 3)), "multiple of granularity"),
        (lambda: Lattice(0), "positive"),
        (lambda: Reals(Fraction(1, 10**400), Fraction(2, 10**400)), "no float"),
    ],
    ids=["order", "whole", "finite", "nan", "multiple", "granularity", "empty"],
)
def test_wrong_bounds_are_refused(make: Any, message: str) -> None:
    with pytest.raises((DomainError, ParameterError), match=message):
        make()


def test_helpers() -> None:
    assert as_numbers(np.array(["a"], dtype=object)).tolist()[0] != 0
    assert as_number(Fraction(10**400)) == math.inf
    assert integer_array([WORD - 1]).dtype == np.int64
    assert integer_array([WORD]).dtype == object
    assert whole_bounds(Integers(1, None)) == (1, None)
