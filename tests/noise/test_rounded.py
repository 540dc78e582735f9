"""Rounded Laplace and Gaussian draws: the law is that of the rounded continuous variable, at every scale."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import chdtrc

from tacit.noise import rounded_gaussian, rounded_laplace, test_mode
from tacit.noise.gaussian import RoundedGaussianLaw, rounded_gaussian_law, shift

mpmath.mp.dps = 40


def gaussian_cell(sigma: Fraction, first: int, last: int) -> float:
    """P(first <= K <= last), by the normal distribution in 40 digits."""
    s = mpmath.mpf(sigma.numerator) / sigma.denominator
    return float(mpmath.ncdf((last + mpmath.mpf(1) / 2) / s) - mpmath.ncdf((first - mpmath.mpf(1) / 2) / s))


def laplace_cell(scale: Fraction, first: int, last: int) -> float:
    """P(first <= K <= last), by the Laplace distribution in 40 digits."""
    b = mpmath.mpf(scale.numerator) / scale.denominator

    def below(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(x / b) / 2 if x < 0 else 1 - mpmath.exp(-x / b) / 2

    return float(below(last + mpmath.mpf(1) / 2) - below(first - mpmath.mpf(1) / 2))


def cells(width: Fraction) -> list[tuple[int, int]]:
    """Some thirty intervals that cover the integers, finest around 0 and about an eighth of the scale wide."""
    step = max(1, math.floor(width / 8))
    edges = [-math.floor(100 * width) - 10, *range(-16 * step, 17 * step, step), math.floor(100 * width) + 11]
    return [(low, high - 1) for low, high in pairwise(edges)]


def p_value(drawn: NDArray[np.int64], law: list[tuple[tuple[int, int], float]]) -> float:
    """Chi-square over the cells that are expected at least five times; the others are pooled."""
    observed, expected, pooled = [], [], [0.0, 0.0]
    for (low, high), mass in law:
        seen, due = int(((drawn >= low) & (drawn <= high)).sum()), mass * len(drawn)
        if due >= 5:
            observed.append(seen)
            expected.append(due)
        else:
            pooled[0] += seen
            pooled[1] += due
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    if pooled[1] > 0.01:
        statistic += (pooled[0] - pooled[1]) ** 2 / pooled[1]
    return float(chdtrc(max(len(observed) - 1, 1), statistic))


SIGMAS = [Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(64), Fraction(1000), Fraction(10**6, 7)]
SIGMAS += [Fraction(2**50)]


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_gaussian_law(sigma: Fraction) -> None:
    with test_mode(20261116):
        drawn = rounded_gaussian(sigma, 200_000)
    assert p_value(drawn, [(cell, gaussian_cell(sigma, *cell)) for cell in cells(sigma)]) > 1e-6


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(7, 3), Fraction(1000), Fraction(2**50)], ids=str)
def test_laplace_law(scale: Fraction) -> None:
    with test_mode(20261116):
        drawn = rounded_laplace(scale, 200_000)
    assert p_value(drawn, [(cell, laplace_cell(scale, *cell)) for cell in cells(scale)]) > 1e-6


def test_the_check_catches_the_discrete_gaussian() -> None:
    # A mutant: at sigma = 1/2 the discrete law differs from the rounded one by 2 parts in 100.
    from tacit.noise import discrete_gaussian

    sigma = Fraction(1, 2)
    with test_mode(1):
        drawn = discrete_gaussian(sigma, 200_000)
    assert p_value(drawn, [(cell, gaussian_cell(sigma, *cell)) for cell in cells(sigma)]) < 1e-6


def test_the_check_catches_an_acceptance_that_forgets_the_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma = Fraction(1)
    law = RoundedGaussianLaw(sigma)
    law.rate *= 0.5  # accepts too often where the fraction is large
    law.bits += 5  # at a coarse table the mistake is worth a percent
    law.small = sigma / Fraction(2) ** law.bits
    with test_mode(1):
        drawn = law.draw(200_000)
    assert p_value(drawn, [(cell, gaussian_cell(sigma, *cell)) for cell in cells(sigma)]) < 1e-6


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(50), Fraction(12345)], ids=str)
def test_moments(sigma: Fraction) -> None:
    with test_mode(3):
        drawn = rounded_gaussian(sigma, 400_000).astype(float)
    ks = range(-40 * math.ceil(sigma), 40 * math.ceil(sigma) + 1) if sigma < 100 else []
    variance = sum(k * k * gaussian_cell(sigma, k, k) for k in ks if abs(k) <= 12 * sigma + 2) if ks else float(sigma) ** 2 + 1 / 12
    error = math.sqrt(2 * variance**2 / len(drawn)) + 1e-12
    assert abs(drawn.mean()) < 6 * math.sqrt(variance / len(drawn))
    assert abs(drawn.var() - variance) < 8 * error * max(1, 1 / float(sigma))


def test_the_doubtful_case_is_settled_by_more_bits() -> None:
    law = rounded_gaussian_law(Fraction(100))
    whole, leading, taken, rest = 30, 1, 2, 2**63
    part = (Fraction(leading) + Fraction(rest, 2**64)) / 2**taken
    exponent = law._exponent(whole, part)
    edge = int(mpmath.floor(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**64))
    with test_mode(5):
        outcomes = [law._settle(whole, leading, taken, rest, edge) for _ in range(400)]
        assert all(law._settle(whole, leading, taken, rest, edge - 3) for _ in range(20))
        assert not any(law._settle(whole, leading, taken, rest, edge + 3) for _ in range(20))
    # The uniform and f go on at random, so the edge itself falls on either side; which share is exact but immaterial here.
    assert 0 < sum(outcomes) < 400


@pytest.mark.parametrize("sigma", [Fraction(1, 10**6), Fraction(3, 10**3), Fraction(10**30), Fraction(31, 2)], ids=str)
def test_shift_brings_sigma_into_the_table(sigma: Fraction) -> None:
    assert 32 < sigma / Fraction(2) ** shift(sigma) <= 64


def test_huge_and_tiny_parameters() -> None:
    with test_mode(2):
        huge = rounded_gaussian(10**30, 200)
        assert huge.dtype == object and 10**28 < max(abs(k) for k in huge.tolist()) < 7 * 10**30
        assert len({k % 2 for k in huge.tolist()}) == 2, "the low bits are random too"
        assert rounded_laplace(10**30, 50).dtype == object
        assert set(rounded_gaussian(Fraction(1, 10**6), 100).tolist()) == {0}


def test_single_draws_are_python_integers() -> None:
    assert type(rounded_gaussian(3)) is int and type(rounded_laplace(3)) is int
