"""Numbers as they were typed, every rounding upwards, and roots against integer arithmetic that shares nothing with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.exact import at_least, at_most, exact, from_text, root, shown, tidy, to_text


@pytest.mark.parametrize(
    "value",
    [0.1, "0.1", "1/10", " 1 / 10 ", "1e-1", ".1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)],
    ids=lambda v: f"{type(v).__name__}-{v}",
)
def test_a_tenth_is_a_tenth(value: object) -> None:
    assert exact("epsilon", value) == Fraction(1, 10)


def test_whole_numbers() -> None:
    assert exact("n", 3) == exact("n", np.int64(3)) == exact("n", "3") == exact("n", 3.0) == 3


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, "nan", "inf", "1/0", "", "one", "1/2/3", "9" * 5000, "1e999999999"),
        *(Decimal("1e999999"), Decimal("NaN"), None, True, 1j),
    ],
    ids=lambda v: f"{type(v).__name__}-{str(v)[:12]}",
)
def test_what_is_no_number_is_refused_at_once(value: object) -> None:
    with pytest.raises(ParameterError, match="epsilon must be"):
        exact("epsilon", value)


@given(st.floats(min_value=0, allow_infinity=False))
def test_a_float_is_the_decimal_that_prints_as_it(x: float) -> None:
    assert float(exact("x", x)) == x
    assert exact("x", x) == Fraction(repr(x))


@given(st.fractions(min_value=0))
def test_text_is_an_exact_round_trip(value: Fraction) -> None:
    assert from_text(to_text(value)) == value


@pytest.mark.parametrize("text", ["2/4", "1/0", "1.5", " 1", "+1", "", "1/1", "nan", "1e3"])
def test_other_texts_are_no_stored_numbers(text: str) -> None:
    with pytest.raises((ValueError, ZeroDivisionError)):
        from_text(text)


@given(st.integers(0, 10**30), st.integers(1, 5000))
def test_tidying_never_lowers_and_hardly_raises(top: int, power: int) -> None:
    value = Fraction(top, 3**power)
    assert value <= tidy(value) < value + Fraction(1, 2**2048)
    assert tidy(value).denominator.bit_length() <= 2049


def test_denominators_do_not_grow_without_end() -> None:
    """2000 unrelated denominators: the exact sum has thousands of digits, the tidy one does not, and it is not below."""
    total, true = Fraction(0), Fraction(0)
    for n in range(3, 4003, 2):
        total, true = tidy(total + Fraction(1, n)), true + Fraction(1, n)
    assert true.denominator.bit_length() > 4000 and total.denominator.bit_length() <= 2049
    assert true <= total < true + Fraction(2000, 2**2048)


@given(st.fractions(min_value=0, max_value=10**6))
def test_the_float_below(value: Fraction) -> None:
    assert Fraction(at_most(value)) <= value < Fraction(math.nextafter(at_most(value), math.inf))
    assert Fraction(math.nextafter(at_least(value), -math.inf)) < value <= Fraction(at_least(value))


@given(st.fractions(min_value=0, max_value=10**6))
def test_people_see_amounts_rounded_against_their_hopes(value: Fraction) -> None:
    assert Fraction(shown(value, up=False)) <= value <= Fraction(shown(value, up=True))
    assert Fraction(shown(value)) <= value * Fraction(100001, 100000)


FRACTIONS = st.fractions(min_value=0, max_value=10**30, max_denominator=10**30)


def never_below(rooted: Callable[[Fraction], Fraction], square: Fraction) -> bool:
    return rooted(square) ** 2 >= square


@given(square=FRACTIONS)
def test_a_root_is_never_below_the_truth_and_above_it_by_a_part_in_2_to_the_64(square: Fraction) -> None:
    assert never_below(root, square)
    assert (root(square) / (1 + Fraction(1, 2**64))) ** 2 <= square


@given(square=FRACTIONS)
def test_a_rational_root_is_exact(square: Fraction) -> None:
    assert root(square**2) == square


def test_a_root_to_sixty_digits() -> None:
    with mpmath.workdps(60):
        for square in (Fraction(2), Fraction(1, 3), Fraction(10**40 + 1), Fraction(1, 10**40 + 1)):
            found = root(square)
            off = mpmath.mpf(found.numerator) / found.denominator / mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator) - 1
            assert 0 <= off <= mpmath.mpf(2) ** -64


def test_rounding_to_the_nearest_would_be_caught() -> None:
    def nearest(square: Fraction) -> Fraction:
        return Fraction(math.sqrt(square))

    assert not all(never_below(nearest, Fraction(n)) for n in range(2, 40))
    assert all(never_below(root, Fraction(n)) for n in range(2, 40))


def test_a_negative_number_has_no_root() -> None:
    with pytest.raises(ParameterError, match="negative"):
        root(Fraction(-1))
