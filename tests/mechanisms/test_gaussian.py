"""The Gaussian mechanism: rounded Gaussian noise, priced as the real one; analytic and classical calibration."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square, gaussian_mass

from tacit.accounting import Gaussian, ParameterError, account
from tacit.calculus import L2, Absolute, Integers, Lattice, Space, Vectors
from tacit.mechanisms import GaussianMechanism, gaussian
from tacit.mechanisms.gaussian import whole_length
from tacit.noise import test_mode

DRAWS = 200_000


def rounded_mass(sigma: float, k: int) -> float:
    with mpmath.workdps(30):
        low, high = ((mpmath.mpf(abs(k)) + mpmath.mpf(end)) / sigma for end in ("-0.5", "0.5"))
        return float(mpmath.ncdf(-low) - mpmath.ncdf(-high))


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), 7.5])
def test_the_noise_is_continuous_gaussian_noise_rounded(sigma: Fraction | float) -> None:
    plan = Space(Vectors(Integers(), DRAWS), L2()) >> gaussian(sigma)
    with test_mode(31):
        drawn = plan.function(np.zeros(DRAWS, dtype=np.int64))
    reach = max(1, int(2.5 * float(sigma)))
    cells = list(range(-reach, reach + 1))
    counts = [int((drawn == k).sum()) for k in cells]
    assert chi_square(counts, [rounded_mass(float(sigma), k) for k in cells], DRAWS) > LEVEL
    if sigma < 1:  # the mutant: the discrete Gaussian law
        assert chi_square(counts, [gaussian_mass(sigma, k) for k in cells], DRAWS) < LEVEL


@pytest.mark.parametrize("sigma", [0.4, 1.0, 5.0])
def test_rounding_never_costs_more_than_the_event_says(sigma: float) -> None:
    reach = math.ceil(12 * sigma) + 4
    law = np.array([rounded_mass(sigma, k) for k in range(-reach, reach + 1)])
    for shift in (1, 2):
        cost = account(Gaussian(sigma / shift))
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            found = np.maximum(law[shift:] - math.exp(epsilon) * law[:-shift], 0).sum()
            assert found <= cost.delta(epsilon).upper + 1e-12


def test_the_curve_is_that_of_the_distance_in_every_direction() -> None:
    """A diagonal move by (1, 1) costs no more than Gaussian(sigma / sqrt 2), and more than Gaussian(sigma)."""
    sigma, reach = 2.0, 24
    law = np.array([rounded_mass(sigma, k) for k in range(-reach, reach + 1)])
    still, moved = np.outer(law[1:], law[1:]), np.outer(law[:-1], law[:-1])
    event = (Space(Vectors(Integers(), 2), L2()) >> gaussian(2)).event(math.sqrt(2) * (1 + 1e-15))
    assert isinstance(event, Gaussian)
    for epsilon in (0.0, 0.5, 1.0):
        found = np.maximum(moved - math.exp(epsilon) * still, 0).sum()
        assert account(Gaussian(2.0)).delta(epsilon).upper < found <= account(event).delta(epsilon).upper


@given(st.fractions(0, 100))
def test_whole_vectors_within_a_distance_are_no_longer_than_stated(distance: Fraction) -> None:
    found = whole_length(distance)
    square = math.floor(distance**2)
    assert found**2 >= square
    assert found**2 <= square * (1 + Fraction(1, 2**60))


@settings(max_examples=40)
@given(st.floats(1e-3, 50), st.floats(1e-12, 0.1), st.fractions(Fraction(1, 100), 100))
def test_the_analytic_calibration_never_exceeds_its_target(epsilon: float, delta: float, sensitivity: Fraction) -> None:
    sigma = GaussianMechanism.for_epsilon(epsilon, delta, sensitivity).sigma
    assert account(Gaussian(Fraction(sigma) / sensitivity)).epsilon(delta).upper <= epsilon
    assert account(Gaussian(Fraction(sigma) * Fraction(9999, 10000) / sensitivity)).epsilon(delta).lower > epsilon * (1 - 1e-9)


def test_the_classical_calibration_is_refused_beyond_its_proof() -> None:
    assert GaussianMechanism.for_epsilon(1, 1e-5, calibration="classical").sigma == pytest.approx(4.844805, abs=5e-7)
    with pytest.raises(ParameterError, match="up to 1"):
        GaussianMechanism.for_epsilon(1.0001, 1e-5, calibration="classical")
    with pytest.raises(ParameterError, match="calibration"):
        GaussianMechanism.for_epsilon(1, 1e-5, calibration="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1, -1e-9, math.nan])
def test_delta_must_be_a_probability_strictly_inside(delta: float) -> None:
    """The textbook admits delta = 0, for which no sigma suffices (erratum E12)."""
    for calibration in ("analytic", "classical"):
        with pytest.raises(ParameterError, match="delta"):
            GaussianMechanism.for_epsilon(1, delta, calibration=calibration)  # type: ignore[arg-type]


@given(st.floats(0.5, 1e6), st.floats(1e-6, 0.9), st.integers(1, 100))
def test_for_accuracy_keeps_it_and_wastes_nothing(alpha: float, beta: float, dimension: int) -> None:
    made = GaussianMechanism.for_accuracy(alpha, beta, dimension=dimension)
    assert made.accuracy(beta, dimension=dimension) <= alpha
    assert gaussian(made.sigma * (1 + 1e-9)).accuracy(beta, dimension=dimension) > alpha


@given(st.floats(0.05, 100), st.floats(1e-9, 0.9))
def test_accuracy_on_whole_numbers_is_the_smallest_that_holds(sigma: float, beta: float) -> None:
    plan = Space(Integers(), Absolute()) >> gaussian(sigma)
    assert plan.accuracy is not None
    found = plan.accuracy(beta)
    with mpmath.workdps(30):
        assert mpmath.erfc((found + 0.5) / sigma / mpmath.sqrt(2)) <= beta * (1 + 1e-9)
        assert found == 0 or mpmath.erfc((found - 0.5) / sigma / mpmath.sqrt(2)) >= beta * (1 - 1e-9)


def test_rho_is_met_exactly_where_the_root_is_rational_and_from_above_elsewhere() -> None:
    assert GaussianMechanism.for_rho(Fraction(1, 8), 3).sigma == 6
    sigma = Fraction(GaussianMechanism.for_rho(Fraction(1, 10)).sigma)
    assert Fraction(1, 10) * (1 - Fraction(1, 2**60)) < 1 / (2 * sigma**2) <= Fraction(1, 10)


def test_the_scale_is_in_the_unit_of_the_answer() -> None:
    assert (Space(Lattice(Fraction(1, 8)), Absolute()) >> gaussian(3)).event(8) == Gaussian(3)
