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
from tacit.noise import bernoulli, bernoulli_exp, test_mode


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
