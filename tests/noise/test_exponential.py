"""Enclosures of exp(-x) are enclosures, narrow at any precision, and the fast filter never decides what they would not."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import ALL_ONES, real, scripted

from tacit.noise import enclosed
from tacit.noise.enclosed import below, below_exp, exp_bounds, power_bounds, rough_exp

EXPONENTS = [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(123457, 1000), Fraction(1, 10**40), Fraction(355, 113) ** 3, Fraction(0.1)]


def scaled(x: Fraction, bits: int) -> mpmath.mpf:
    """2^bits exp(-x), to 40 digits beyond the point; the caller holds a precision for it."""
    return mpmath.ldexp(mpmath.exp(-real(x)), bits)


@pytest.mark.parametrize("bits", [1, 8, 64, 128, 700])
@pytest.mark.parametrize("x", EXPONENTS, ids=[f"x{i}" for i in range(len(EXPONENTS))])
def test_bounds_enclose_the_exponential(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(bits + 200):
        assert low <= scaled(x, bits) <= high
    assert high - low <= 2 and high > 0


@given(st.fractions(min_value=0, max_value=500), st.integers(min_value=0, max_value=300))
def test_bounds_enclose_any_exponential(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(bits + 200):
        assert low <= scaled(x, bits) <= high
    assert high - low <= 2


def test_an_exponential_too_small_to_see_is_still_positive() -> None:
    assert exp_bounds(Fraction(10) ** 600, 128) == (0, 1)
    assert exp_bounds(Fraction(0), 128) == (2**128, 2**128)


@pytest.mark.parametrize("x", [Fraction(1, 64), Fraction(3, 2), Fraction(1, 10**9)], ids=["1/64", "3/2", "1e-9"])
def test_powers_enclose_every_power(x: Fraction) -> None:
    low, high = power_bounds(x, 300, 192)
    with mpmath.workprec(400):
        assert all(low[i] <= scaled(i * x, 192) <= high[i] for i in range(300))
    assert all(high[i] - low[i] <= 4 * i for i in range(300))


def test_the_rough_exponential_keeps_its_promise() -> None:
    """A relative error of 2^-46 is claimed; a hundred thousand points come nowhere near it."""
    with mpmath.workdps(30):
        x = np.concatenate([np.linspace(0, 64, 2001)[:-1], np.nextafter(np.arange(1, 1024) / 16, 0), [5e-324, 1e-17]])
        worst = max(abs(mpmath.mpf(float(y)) / mpmath.exp(-mpmath.mpf(float(v))) - 1) for v, y in zip(x, rough_exp(x), strict=True))
    assert worst < 2.0**-46
    assert rough_exp(np.array([64.0, 1e308, np.inf])).tolist() == [rough_exp(np.array([64.0]))[0]] * 3


@pytest.mark.parametrize("x", [Fraction(1, 7), Fraction(2), Fraction(30)], ids=str)
def test_the_filter_accepts_exactly_the_right_words(x: Fraction) -> None:
    """exp(-x) of all 2^64 words are accepted: those below the integer part of 2^64 exp(-x), and that one for its fraction."""
    with mpmath.workprec(300):
        whole = int(mpmath.floor(scaled(x, 64)))
        next_word = int(mpmath.floor(scaled(x, 128))) - (whole << 64)
    for word, further, accepted in [
        (0, [], True),
        (whole - 1, [], True),
        (whole, [next_word - 1], True),
        (whole, [next_word + 1], False),
        (whole + 1, [], False),
        (ALL_ONES, [], False),
    ]:
        with scripted(further) as used:
            found = below_exp(np.array([word], dtype=np.uint64), np.array([float(x)]), lambda i: x)
        assert found.tolist() == [accepted], (word, further)
        assert used.used == len(further), "no word is drawn that is not needed"


def test_the_exact_path_agrees_with_the_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    exact = [Fraction(int(k), 997) for k in generator.integers(0, 5000, 500)]
    uniforms = generator.integers(0, 2**64, 500, dtype=np.uint64)
    x = np.array([float(e) for e in exact])
    fast = below_exp(uniforms, x, lambda i: pytest.fail("no doubt expected"))
    monkeypatch.setattr(enclosed, "MARGIN", 2.0)  # every comparison is in doubt
    with scripted([]):
        assert (below_exp(uniforms, x, lambda i: exact[i]) == fast).all()
    assert 0 < fast.sum() < 500


def test_a_uniform_is_extended_as_often_as_it_takes() -> None:
    """Three words that agree with 2^192 / e in all their bits, then one that does not."""
    with mpmath.workprec(500):
        digits = int(mpmath.floor(scaled(Fraction(1), 256)))
    first, second, third, fourth = ((digits >> shift) & ALL_ONES for shift in (192, 128, 64, 0))
    for last, expected in ((fourth - 1, True), (fourth + 1, False)):
        with scripted([second, third, last]) as used:
            assert below(first, lambda bits: exp_bounds(Fraction(1), bits)) is expected
        assert used.used == 3
