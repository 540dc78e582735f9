"""The discrete Gaussian mechanism: its law, its price from the mass function and by concentrated DP, its accuracy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square, gaussian_mass

from tacit.accounting import ZCDP, DiscreteGaussian, ParameterError, account
from tacit.calculus import L2, Absolute, Integers, Lattice, Space, Vectors
from tacit.exact import root
from tacit.mechanisms import discrete_gaussian
from tacit.mechanisms.discrete_gaussian import DiscreteGaussianMechanism, discrete_gaussian_error
from tacit.noise import test_mode

DRAWS = 200_000


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), 7.5])
def test_the_noise_has_the_discrete_gaussian_law(sigma: Fraction | float) -> None:
    plan = Space(Vectors(Integers(), DRAWS), L2()) >> discrete_gaussian(sigma)
    with test_mode(41):
        drawn = plan.function(np.zeros(DRAWS, dtype=np.int64))
    reach = max(1, int(2.5 * float(sigma)))
    cells = list(range(-reach, reach + 1))
    counts = [int((drawn == k).sum()) for k in cells]
    assert chi_square(counts, [gaussian_mass(sigma, k) for k in cells], DRAWS) > LEVEL
    wider = [gaussian_mass(Fraction(sigma) * Fraction(105, 100), k) for k in cells]  # the mutant: five percent more noise
    assert chi_square(counts, wider, DRAWS) < LEVEL


@pytest.mark.parametrize(("sigma", "distance"), [(Fraction(1, 2), 1), (Fraction(2), 1), (Fraction(2), 3)])
def test_the_price_of_one_number_is_its_enumerated_curve(sigma: Fraction, distance: int) -> None:
    event = (Space(Integers(), Absolute()) >> discrete_gaussian(sigma)).event(distance)
    assert event == DiscreteGaussian(sigma, distance)
    cost = account(event)
    with mpmath.workdps(40):
        law = [gaussian_mass(sigma, k) for k in range(-40, 41 + distance)]
        for epsilon in (0.0, 0.5, 1.5):
            gain = mpmath.exp(epsilon)
            found = mpmath.fsum(max(0, law[i] - gain * law[i + distance]) for i in range(81))
            assert cost.delta(epsilon).lower * (1 - 1e-9) <= float(found) <= cost.delta(epsilon).upper * (1 + 1e-9)


def test_a_vector_costs_concentrated_dp_and_one_step_costs_its_own_curve() -> None:
    plan = Space(Vectors(Integers(), 4), L2()) >> discrete_gaussian(2)
    assert plan.event(1) == DiscreteGaussian(2, 1)
    assert plan.event(root(Fraction(2))) == ZCDP(Fraction(1, 4))
    assert plan.event(Fraction(5, 2)) == ZCDP(Fraction(6, 8))  # whole vectors within 2.5 have a squared length of at most 6
    assert (Space(Vectors(Integers(), 1), L2()) >> discrete_gaussian(2)).event(3) == DiscreteGaussian(2, 3)


@pytest.mark.parametrize("order", [1.5, 2, 8])
def test_concentrated_dp_holds_in_several_dimensions(order: float) -> None:
    """The Rényi divergence of the enumerated product law, for every whole move of squared length up to 3, against rho * order."""
    sigma = 0.8
    with mpmath.workdps(30):
        law = {k: gaussian_mass(sigma, k) for k in range(-30, 31)}

        def divergence(shift: int) -> mpmath.mpf:
            total = mpmath.fsum(law[k - shift] ** order * law[k] ** (1 - order) for k in range(-25, 26))
            return mpmath.log(total) / (order - 1)

        each = {shift: divergence(shift) for shift in (0, 1)}
        for move in itertools.product((0, 1), repeat=3):
            found, square = sum(each[s] for s in move), sum(move)
            assert float(found) <= square / (2 * sigma**2) * order + 1e-12
        # attained for whole orders in the limit, so half the rho would be a lie
        assert order != 2 or float(each[1]) > 0.9 * order / (2 * sigma**2)


def test_the_price_is_in_granules() -> None:
    plan = Space(Lattice(Fraction(1, 4)), Absolute()) >> discrete_gaussian(3)
    assert plan.event(4) == DiscreteGaussian(12, 4)


@settings(max_examples=40)
@given(st.floats(0.1, 300), st.floats(1e-9, 0.9))
def test_accuracy_is_the_smallest_whole_error_that_holds(sigma: float, beta: float) -> None:
    found = discrete_gaussian_error(sigma, beta)
    reach = math.ceil(40 * sigma) + 2
    mass = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    far = np.abs(np.arange(-reach, reach + 1))

    def missed(error: int) -> float:
        return float(np.sort(mass[far > error]).sum() / np.sort(mass).sum())

    assert missed(found) <= beta * (1 + 1e-9)
    assert found == 0 or missed(found - 1) > beta * (1 - 1e-9)


def test_the_bound_for_large_sigma_is_above_the_exact_one() -> None:
    """Where both are at hand they differ by at most two granules."""
    from tacit.mechanisms.accuracy import gaussian_error

    for sigma in (50.0, 1000.0, 9999.0):
        for beta in (0.3, 0.01, 1e-8):
            assert 0 <= math.ceil(gaussian_error(sigma, beta)) + 1 - discrete_gaussian_error(sigma, beta) <= 2
    assert discrete_gaussian_error(1e8, 0.05) == pytest.approx(1.959964e8, rel=1e-6)


@settings(max_examples=30)
@given(st.floats(1, 1e4), st.floats(1e-6, 0.5))
def test_for_accuracy_keeps_it(alpha: float, beta: float) -> None:
    made = DiscreteGaussianMechanism.for_accuracy(alpha, beta)
    assert made.accuracy(beta) <= alpha


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(1, 1e-5, 1), (0.1, 1e-6, 1), (4, 1e-9, 3)])
def test_the_calibration_never_exceeds_its_target(epsilon: float, delta: float, sensitivity: int) -> None:
    made = DiscreteGaussianMechanism.for_epsilon(epsilon, delta, sensitivity)
    assert account(DiscreteGaussian(made.sigma, sensitivity)).epsilon(delta).upper <= epsilon
    assert account(DiscreteGaussian(float(made.sigma) * 0.99, sensitivity)).epsilon(delta).lower > epsilon


def test_delta_must_be_positive() -> None:
    with pytest.raises(ParameterError, match="delta"):
        DiscreteGaussianMechanism.for_epsilon(1, 0)


def test_rho_is_met() -> None:
    made = DiscreteGaussianMechanism.for_rho(Fraction(1, 10), 2)
    event = (Space(Vectors(Integers(), 9), L2()) >> made).event(2)
    assert isinstance(event, ZCDP) and Fraction(1, 10) * (1 - Fraction(1, 2**60)) < event.rho <= Fraction(1, 10)
