"""Shares of noise add up to the noise that is priced."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import poisson, polya_share, skellam_share
from tacit.noise import test_mode as seeded


def test_polya_shares_add_up_to_discrete_laplace() -> None:
    """5 people, scale 2, 4,000 sums: each frequency within 4.5 deviations (nine cells, error rate 6e-5)."""
    with seeded(5):
        sums = np.array([sum(polya_share(2, 5) for _ in range(5)) for _ in range(4000)])
    a = math.exp(-0.5)
    for x in range(-4, 5):
        p = (1 - a) / (1 + a) * a ** abs(x)
        assert abs((sums == x).mean() - p) < 4.5 * math.sqrt(p * (1 - p) / 4000)


def test_a_share_for_too_few_people_would_be_seen() -> None:
    """The mutant: shares for ten people, of which five add one. Variance 4 where 7.87 is priced."""
    with seeded(6):
        sums = np.array([sum(polya_share(2, 10) for _ in range(5)) for _ in range(2000)])
    assert sums.var() < 5.5  # the priced noise has 2a / (1 - a)^2 = 7.8, deviation of the estimate about .5


@pytest.mark.parametrize("mean", [Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_poisson_draws_have_their_law(mean: Fraction) -> None:
    with seeded(7):
        drawn = np.array([poisson(mean) for _ in range(4000)])
    for k in range(6):
        p = math.exp(-mean) * float(mean) ** k / math.factorial(k)
        assert abs((drawn == k).mean() - p) < 4.5 * math.sqrt(p * (1 - p) / 4000) + 1e-9


def test_skellam_shares_add_up() -> None:
    with seeded(8):
        sums = np.array([sum(skellam_share(6, 3) for _ in range(3)) for _ in range(2000)])
    assert abs(sums.mean()) < 4.5 * math.sqrt(6 / 2000) and sums.var() == pytest.approx(6, rel=0.15)
    with pytest.raises(ParameterError):
        poisson(-1)
