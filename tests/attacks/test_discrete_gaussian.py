"""Black-box attacks on the discrete Gaussian mechanism at a positive delta."""

from __future__ import annotations

import numpy as np
import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.accounting import account
from tacit.calculus import L2, Absolute, Integers, Space, Vectors
from tacit.mechanisms import discrete_gaussian
from tacit.mechanisms.discrete_gaussian import DiscreteGaussianMechanism

N = 150_000


def draws(sigma: float, value: int) -> Draw:
    def run(n: int) -> list[int]:
        found: list[int] = (Space(Vectors(Integers(), n), L2()) >> discrete_gaussian(sigma)).function(np.full(n, value)).tolist()
        return found

    return run


@pytest.mark.parametrize(("sigma", "distance", "delta"), [(2.0, 1, 0.01), (3.0, 2, 0.05), (0.6, 1, 0.01)])
def test_an_answer_leaks_nearly_what_is_claimed_and_no_more(sigma: float, distance: int, delta: float) -> None:
    claimed = account((Space(Integers(), Absolute()) >> discrete_gaussian(sigma)).event(distance)).epsilon(delta).upper
    found = lower_bound(draws(sigma, 0), draws(sigma, distance), N, delta=delta)
    assert 0.75 * claimed < found <= claimed


def test_half_the_noise_is_caught() -> None:
    sigma = float(DiscreteGaussianMechanism.for_epsilon(1, 0.01).sigma)
    assert lower_bound(draws(sigma, 0), draws(sigma, 1), N, delta=0.01) <= 1
    assert lower_bound(draws(sigma / 2, 0), draws(sigma / 2, 1), N, delta=0.01) > 1


def test_the_vector_price_holds_for_a_diagonal_move() -> None:
    """(0, 0) against (1, 1): concentrated DP at squared length 2."""

    def pairs(value: int) -> Draw:
        def run(n: int) -> list[int]:
            drawn = (Space(Vectors(Integers(), 2 * n), L2()) >> discrete_gaussian(2)).function(np.full(2 * n, value)).reshape(n, 2)
            found: list[int] = drawn.sum(axis=1).tolist()
            return found

        return run

    claimed = account((Space(Vectors(Integers(), 2), L2()) >> discrete_gaussian(2)).event(1.5)).epsilon(0.01).upper
    assert 0.5 * claimed < lower_bound(pairs(0), pairs(1), N, delta=0.01) <= claimed
