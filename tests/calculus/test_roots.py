"""Roots against integer arithmetic that shares nothing with them: never below the truth, and never far above it."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.calculus import metrics
from tacit.calculus.errors import MetricError
from tacit.calculus.roots import root

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
    with pytest.raises(MetricError, match="negative"):
        root(Fraction(-1))


def test_the_metrics_still_offer_it() -> None:
    assert metrics.root is root


def test_a_root_loads_no_metrics() -> None:
    code = "import sys, tacit.calculus.roots\nprint('tacit.calculus.metrics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False"]
