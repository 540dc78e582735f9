"""Trivial and disclosing pairs, and the single-step profile in one pass."""

import numpy as np
import pytest

from tacit.accounting.finite import leaky_randomised_response
from tacit.accounting.laplace import laplace
from tacit.accounting.mixture import poisson_gaussian
from tacit.accounting.pairs import Disclosure, Trivial, profile, single_delta


@pytest.mark.parametrize("pair", [laplace(1.0), poisson_gaussian(0.1, 0.7), leaky_randomised_response(1.0, 1e-3), Trivial()], ids=repr)
def test_profile_is_the_upper_end_at_every_point(pair) -> None:
    epsilons = np.array([2.0, 0.0, 0.5, 1.0, 5.0])
    found = profile(pair, epsilons)
    for eps, value in zip(epsilons, found, strict=True):
        low, high = single_delta(pair, float(eps))
        assert low - 1e-15 <= value <= high + 1e-11 * (1 + eps)


def test_the_two_extremes() -> None:
    assert single_delta(Disclosure(), 3.0) == (pytest.approx(1), 1.0)
    assert single_delta(Trivial(), 0.0) == (0.0, 0.0)
    assert Trivial().kappa(3.0) == 0 and Disclosure().reverse().infinite == 1
    assert Trivial().moments(np.array([1.0]))[0][0] == 0
