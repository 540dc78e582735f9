"""Black-box attacks on the Gaussian mechanism at a positive delta."""

from __future__ import annotations

import numpy as np
import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.accounting import account
from tacit.calculus import L2, Integers, Space, Vectors
from tacit.mechanisms import GaussianMechanism, gaussian

N = 150_000


def draws(sigma: float, value: int) -> Draw:
    def run(n: int) -> list[int]:
        found: list[int] = (Space(Vectors(Integers(), n), L2()) >> gaussian(sigma)).function(np.full(n, value)).tolist()
        return found

    return run


@pytest.mark.parametrize(("sigma", "delta"), [(2.0, 0.01), (2.0, 0.1), (1.0, 0.05)])
def test_an_answer_leaks_nearly_what_is_claimed_and_no_more(sigma: float, delta: float) -> None:
    claimed = account((Space(Vectors(Integers(), 1), L2()) >> gaussian(sigma)).event(1)).epsilon(delta).upper
    found = lower_bound(draws(sigma, 0), draws(sigma, 1), N, delta=delta)
    assert 0.75 * claimed < found <= claimed


def test_a_calibrated_mechanism_keeps_its_promise_and_half_its_noise_does_not() -> None:
    sigma = float(GaussianMechanism.for_epsilon(1, 0.01).sigma)
    assert 0.7 < lower_bound(draws(sigma, 0), draws(sigma, 1), N, delta=0.01) <= 1
    assert lower_bound(draws(sigma / 2, 0), draws(sigma / 2, 1), N, delta=0.01) > 1


def test_noise_for_one_coordinate_is_not_enough_for_two() -> None:
    """The mutant: sigma calibrated to the largest coordinate instead of the Euclidean length."""

    def pairs(sigma: float, value: int) -> Draw:
        def run(n: int) -> list[int]:
            drawn = (Space(Vectors(Integers(), 2 * n), L2()) >> gaussian(sigma)).function(np.full(2 * n, value)).reshape(n, 2)
            found: list[int] = drawn.sum(axis=1).tolist()  # the sum decides between (0, 0) and (v, v)
            return found

        return run

    sigma = float(GaussianMechanism.for_epsilon(1, 0.01, 10).sigma)
    right = float(GaussianMechanism.for_epsilon(1, 0.01, 10 * 2**0.5).sigma)
    assert lower_bound(pairs(right, 0), pairs(right, 10), N, delta=0.01) <= 1
    assert lower_bound(pairs(sigma, 0), pairs(sigma, 10), N, delta=0.01) > 1
