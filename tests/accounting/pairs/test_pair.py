"""Trivial and disclosing pairs, and the single-step profile in one pass."""

import math

import numpy as np
import pytest

from tacit.accounting.engines import compose
from tacit.accounting.engines import contour as saddle
from tacit.accounting.pairs.finite import leaky_randomised_response
from tacit.accounting.pairs.laplace import laplace
from tacit.accounting.pairs.mixture import poisson_gaussian
from tacit.accounting.pairs.pair import Disclosure, Trivial, profile, single_delta, upper_levels


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


class Unknown(Trivial):
    """A pair without quadrature: nobody knows where its losses lie."""

    def nodes(self, c: float, reach: float) -> None:
        return None


def test_a_pair_without_quadrature_has_no_moments_and_no_quick_bound() -> None:
    """That is None, all the way up, and never a number: quick bounds then say nothing."""
    parts = [(laplace(1.0), 1), (Unknown(), 2)]
    assert Unknown().moments(np.zeros(1)) is None and upper_levels(parts, np.ones(2)) is None
    assert compose.epsilon_cap(parts, 1e-3) == math.inf and compose.delta_cap(parts, 0.5) == 1.0
    assert math.isfinite(compose.epsilon_cap(parts[:1], 1e-3)) and compose.delta_cap(parts[:1], 0.5) < 1
    with pytest.raises(saddle.Declined, match="quadrature"):
        saddle.plan(parts, np.ones(2))
