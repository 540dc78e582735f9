"""Coins fall with exactly the probability asked for: every word is decided as the number demands."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import ALL_ONES, LEVEL, LIVE, binomial_p, real, scripted

from tacit.accounting import ParameterError
from tacit.noise import bernoulli, bernoulli_exp, odds_bits, test_mode


@given(st.fractions(min_value=0, max_value=1))
def test_bernoulli_decides_every_word_rightly(p: Fraction) -> None:
    """The words below 2^64 p give 1. That is all of them, by enumeration at the edge: the next words split the one word in doubt."""
    edge, fraction = divmod(p * 2**64, 1)
    for word in {0, edge - 1, edge, edge + 1, ALL_ONES} & set(range(max(edge - 1, 0), min(edge + 2, 2**64))) | {0, ALL_ONES}:
        if word == edge and fraction:
            second = math.floor(fraction * 2**64)
            for next_word, heads in ((second - 1, 1), (second + 1, 0)):
                if 0 <= next_word <= ALL_ONES:
                    with scripted([word, next_word]):
                        assert bernoulli(p, size=1).tolist() == [heads]
            continue
        with scripted([word]) as used:
            assert bernoulli(p, size=1).tolist() == [int(word < edge)]
        assert used.used == 1


@pytest.mark.parametrize("x", [Fraction(1, 10**30), Fraction(1, 2), Fraction(3), Fraction(44)], ids=str)
def test_bernoulli_exp_decides_every_word_rightly(x: Fraction) -> None:
    with mpmath.workdps(80):
        scaled = mpmath.ldexp(mpmath.exp(-real(x)), 64)
        edge = int(mpmath.floor(scaled))
        second = int(mpmath.floor(mpmath.ldexp(scaled - edge, 64)))
    cases = [([0], 1), ([edge - 1], 1), ([edge, second - 1], 1), ([edge, second + 1], 0), ([edge + 1], 0), ([ALL_ONES], 0)]
    for script, heads in cases:
        if max(script) <= ALL_ONES and (len(script) == 2 or script[0] != edge):
            with scripted(script) as used:
                assert bernoulli_exp(x, size=1).tolist() == [heads]
            assert used.used == len(script)


def test_certain_coins() -> None:
    assert bernoulli(0, size=1000).sum() == 0 and bernoulli(1, size=1000).sum() == 1000
    assert bernoulli_exp(0, size=1000).sum() == 1000 and bernoulli_exp(1e300, size=1000).sum() == 0
    with scripted([0] * 20, then=0):  # the uniform 0.000... is below any positive number, however small
        assert bernoulli_exp(1000) == 1
    assert bernoulli(5e-324, size=100).sum() == 0


def test_frequencies() -> None:
    draws = 1_000_000
    for p in (0.5, 1 / 3, 1e-2):
        with test_mode(2):
            heads = int(bernoulli(p, size=draws).sum())
        assert binomial_p(heads, draws, p) > LEVEL
        assert binomial_p(heads, draws, p * 1.1) < LEVEL
    for x in (0.1, 1.0, 4.0):
        with test_mode(3):
            heads = int(bernoulli_exp(x, size=draws).sum())
        assert binomial_p(heads, draws, math.exp(-x)) > LEVEL
        assert binomial_p(heads, draws, math.exp(-x) * 0.9) < LEVEL


def test_single_coins_from_the_operating_system() -> None:
    heads = sum(bernoulli(Fraction(1, 4)) for _ in range(4000))
    assert binomial_p(heads, 4000, 0.25) > LIVE
    assert binomial_p(heads, 4000, 0.5) < LIVE


def test_shapes_and_types() -> None:
    assert type(bernoulli(0.5)) is int and type(bernoulli_exp(1)) is int
    assert bernoulli(0.5, size=(2, 3)).dtype == np.int64 and bernoulli_exp(0.5, size=(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("bad", [-0.1, 1.1, 2, math.nan, math.inf, "1", None, True], ids=repr)
def test_bad_probabilities_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match="p "):
        bernoulli(bad)


@pytest.mark.parametrize("bad", [-0.1, -1, math.nan, math.inf, "1", None, False], ids=repr)
def test_bad_exponents_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match="x "):
        bernoulli_exp(bad)


ODDS = [
    *((Fraction(0), 1, 1), (Fraction(1), 1, 1), (Fraction(1, 2), 1, 9999)),
    *((Fraction(2), 85, 256), (Fraction(40), 1, 3), (Fraction(8), 1, 2**40)),
]


@pytest.mark.parametrize(("x", "heads", "tails"), ODDS, ids=str)
def test_odds_bits_decide_every_word_rightly(x: Fraction, heads: int, tails: int) -> None:
    """A uniform number is below 2^64 p or not; its first byte decides where it can, else its word, else the words after that."""
    with mpmath.workdps(80):
        scaled = mpmath.ldexp(1 / (1 + tails * mpmath.exp(-real(x)) / heads), 64)
        edge = int(mpmath.floor(scaled))
        second = int(mpmath.floor(mpmath.ldexp(scaled - edge, 64)))
    top, rest = divmod(edge, 1 << 56)
    for byte in range(256):
        if byte != top:
            with scripted([byte]) as used:
                assert odds_bits(x, 1, heads=heads, tails=tails).tolist() == [byte < top]
            assert used.used <= 2  # at most one byte in doubt beside the one that holds the edge
    for below, following, told in ((rest - 1, [], True), (rest, [second - 1], True), (rest, [second + 1], False), (rest + 1, [], False)):
        if 0 <= below < 1 << 56 and (not following or 0 <= following[0] <= ALL_ONES) and not (following and x == 0):
            with scripted([top, below << 8, *following]):
                assert odds_bits(x, 1, heads=heads, tails=tails).tolist() == [told]


def test_odds_bits_fall_as_often_as_they_should() -> None:
    draws = 1_000_000
    for x, heads, tails in ((0.5, 1, 1), (1, 1, 15), (1, 85, 256), (4, 1, 1)):
        p = math.exp(x) * heads / (math.exp(x) * heads + tails)
        with test_mode(5):
            seen = int(odds_bits(x, draws, heads=heads, tails=tails).sum())
        assert binomial_p(seen, draws, p) > LEVEL
        # a coin of 8 bits alone, and one with the odds turned round, are found
        assert binomial_p(seen, draws, 1 - p) < LEVEL
        if abs(round(p * 256) / 256 - p) > 1e-3 / 2:
            assert binomial_p(seen, draws, p + 3e-3) < LEVEL
    assert odds_bits(3, 0).tolist() == [] and odds_bits(3, 17).shape == (17,)


def test_the_bits_of_one_call_do_not_depend_on_each_other() -> None:
    with test_mode(6):
        bits = odds_bits(1, 400_000)
    p = math.e / (math.e + 1)
    for lag in (1, 7, 8):
        both = int((bits[:-lag] & bits[lag:]).sum())
        # a sum of n - lag products; the variance of dependent neighbours is below 3 p^2 (1 - p^2) each; six deviations
        assert abs(both - (len(bits) - lag) * p * p) < 6 * math.sqrt(3 * len(bits) * p * p * (1 - p * p))


@pytest.mark.parametrize("bad", [{"heads": 0}, {"tails": 0}, {"heads": 1.5}, {"tails": -1}], ids=repr)
def test_bad_odds_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match=next(iter(bad))):
        odds_bits(1, 3, **bad)
