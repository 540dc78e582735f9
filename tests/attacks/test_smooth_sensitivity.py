"""Attacks on smooth sensitivity: the pair of spec 06 A4.9, where the local sensitivity jumps from nothing to everything."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.attacks.attack import lower_bound

from tacit import noise
from tacit.calculus import Integers, ReplaceOne, Rows, Space
from tacit.mechanisms import smooth_median
from tacit.mechanisms.smooth_sensitivity import Quantile

WIDTH = 8
FLAT, STEEP = np.array([0, 0, 0, 0, WIDTH]), np.array([0, 0, 0, WIDTH, WIDTH])


@pytest.mark.parametrize(("delta", "reached"), [(None, 0.45), (0.01, 0.25)])
def test_the_price_is_approached_and_not_exceeded(delta: float | None, reached: float) -> None:
    """With Laplace noise half of epsilon is kept for the change of scale, which shows only in the far tails."""
    epsilon = 2.0
    plan = Space(Rows(Integers(0, WIDTH)), ReplaceOne()) >> smooth_median(epsilon=epsilon, delta=delta)
    data = [np.array([0, 0, WIDTH, WIDTH, WIDTH]), STEEP]
    found = lower_bound(*(lambda n, x=x: [plan.function(x) for _ in range(n)] for x in data), 3000, delta=delta or 0.0)
    assert reached * epsilon <= found <= epsilon


def test_noise_scaled_by_the_local_sensitivity_is_caught() -> None:
    """The mutant: exact where the local sensitivity is 0, and so told apart with any epsilon."""

    def naive(data: np.ndarray) -> int:
        local = int(Quantile(Fraction(1, 2)).sensitivities(data, 0, WIDTH, 0)[0])
        value = int(np.median(data))
        return value + int(noise.discrete_laplace(local)) if local else value

    found = lower_bound(*(lambda n, x=x: [naive(x) for _ in range(n)] for x in (FLAT, STEEP)), 2000)
    assert found > 2
    plan = Space(Rows(Integers(0, WIDTH)), ReplaceOne()) >> smooth_median(epsilon=1)
    kept = lower_bound(*(lambda n, x=x: [plan.function(x) for _ in range(n)] for x in (FLAT, STEEP)), 2000)
    assert kept <= 1
