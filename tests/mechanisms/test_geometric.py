"""The geometric mechanism: mass function, price by enumeration, truncated form, accuracy from the mass function."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square, laplace_mass

from tacit.accounting import DiscreteLaplace, ParameterError, account
from tacit.calculus import L1, Absolute, DomainError, Integers, Lattice, Space, Vectors
from tacit.mechanisms import GeometricMechanism, geometric, verify
from tacit.mechanisms.geometric import tail
from tacit.mechanisms.verify import delta
from tacit.noise import test_mode

DRAWS = 200_000


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), 6.25])
def test_the_noise_has_the_discrete_laplace_law(scale: Fraction | float) -> None:
    plan = Space(Vectors(Integers(), DRAWS), L1()) >> geometric(scale)
    with test_mode(21):
        drawn = plan.function(np.zeros(DRAWS, dtype=np.int64))
    cells = list(range(-int(4 * scale), int(4 * scale) + 1))
    counts = [int((drawn == k).sum()) for k in cells]
    assert chi_square(counts, [laplace_mass(scale, k) for k in cells], DRAWS) > LEVEL
    # the mutant: 0 counted from both sides, as a sampler with a sign and a magnitude does without a rejection
    doubled = [float(laplace_mass(scale, k)) * (2 if k == 0 else 1) for k in cells]
    over = [mass / (1 + float(laplace_mass(scale, 0))) for mass in doubled]
    assert chi_square(counts, over, DRAWS) < LEVEL


@pytest.mark.parametrize(("scale", "upper"), [(Fraction(1, 2), 3), (Fraction(2), 6), (Fraction(7, 3), 5)])
def test_the_truncated_mechanism_leaks_exactly_its_epsilon(scale: Fraction, upper: int) -> None:
    made = geometric(scale, lower=0, upper=upper)
    found = verify(made, [(x, x + 1) for x in range(upper)], epsilon=1 / scale)
    assert found.epsilon.lower == pytest.approx(float(1 / scale), rel=1e-12)
    assert found.epsilon.upper == pytest.approx(float(1 / scale), rel=1e-12)
    assert found.delta is not None and found.delta[1] < Fraction(1, 10**30)
    two = verify(made, [(0, 2)])
    assert two.epsilon.upper <= float(2 / scale) * (1 + 1e-12)


@pytest.mark.parametrize("distance", [1, 2])
def test_clamping_is_post_processing_and_the_event_covers_it(distance: int) -> None:
    made = geometric(2, lower=0, upper=9)
    cost = account(DiscreteLaplace(2, distance))
    for epsilon in (0.0, 0.2, 0.4, 0.9):
        worst = max(delta(made.distribution(x), made.distribution(x + distance), epsilon)[1] for x in range(8))
        assert float(worst) <= cost.delta(epsilon).upper + 1e-12
        if distance == 1:  # a threshold in the middle is inside the bounds, so nothing of the leak is lost at epsilon 0
            assert epsilon > 0 or float(worst) == pytest.approx(cost.delta(0.0).lower, rel=1e-9)


def test_the_truncated_law_fits_what_is_drawn() -> None:
    made = geometric(2, lower=0, upper=4)
    plan = Space(Vectors(Integers(0, 4), DRAWS), L1()) >> made
    with test_mode(22):
        drawn = plan.function(np.full(DRAWS, 1))
    law = made.distribution(1)
    counts = [int((drawn == k).sum()) for k in range(5)]
    assert chi_square(counts, [float(law[k][0]) for k in range(5)], DRAWS) > LEVEL
    other = made.distribution(2)
    assert chi_square(counts, [float(other[k][0]) for k in range(5)], DRAWS) < LEVEL


def test_masses_add_up_wherever_the_value_lies() -> None:
    for value in (-5, 0, 2, 9):
        law = geometric(Fraction(3, 2), lower=0, upper=3).distribution(value)
        assert sum(m[0] for m in law.values()) <= 1 <= sum(m[1] for m in law.values())
    assert geometric(1, lower=2, upper=2).distribution(5) == {2: (1, 1)}


@given(st.floats(0.05, 1000), st.floats(1e-9, 0.9))
def test_accuracy_is_the_smallest_whole_error_that_holds(scale: float, beta: float) -> None:
    found = geometric(scale).accuracy(beta)
    assert found == int(found)
    assert tail(scale, int(found)) <= beta * (1 + 1e-10)
    assert found == 0 or tail(scale, int(found) - 1) > beta * (1 - 1e-10)


def test_the_tail_is_the_sum_of_the_masses() -> None:
    for scale, error in ((0.5, 0), (2.0, 3), (10.0, 25)):
        beyond = 2 * sum(laplace_mass(scale, k) for k in range(error + 1, error + 2000))
        assert tail(scale, error) == pytest.approx(float(beyond), rel=1e-12)


@given(st.floats(1, 1e4), st.floats(1e-6, 0.5))
def test_for_accuracy_keeps_it_and_wastes_nothing(alpha: float, beta: float) -> None:
    made = GeometricMechanism.for_accuracy(alpha, beta)
    assert made.accuracy(beta) <= alpha < geometric(made.scale * (1 + 1e-9)).accuracy(beta)


def test_for_epsilon_is_exact() -> None:
    made = GeometricMechanism.for_epsilon(Fraction(1, 3), 2)
    assert made.scale == 6
    assert (Space(Integers(), Absolute()) >> made).event(2) == DiscreteLaplace(6, 2)


def test_vectors_cost_what_one_coordinate_costs() -> None:
    """f_b(1 - f_a) = f_(a+b) at the corners: moving two coordinates by 1 and 1 stays below one moved by 2."""
    scale, reach = 1.5, 60
    law = np.array([float(laplace_mass(scale, k)) for k in range(-reach, reach + 1)])
    size = 2 * reach - 1
    still, moved = np.outer(law[1 : 1 + size], law[1 : 1 + size]), np.outer(law[:size], law[:size])
    alone, cheaper = account(DiscreteLaplace(scale, 2)), account(DiscreteLaplace(scale, 1))
    for epsilon in (0.0, 0.4, 0.8, 1.2):
        assert np.maximum(moved - math.exp(epsilon) * still, 0).sum() <= alone.delta(epsilon).upper + 1e-12
    # the mutant prices the vector as one move by the larger step, 1: no loss beyond 2/3 would be left
    assert np.maximum(moved - math.exp(0.8) * still, 0).sum() > cheaper.delta(0.8).upper + 1e-3


def test_bounds_are_checked_before_any_data() -> None:
    with pytest.raises(ParameterError, match="lower"):
        geometric(1, lower=3, upper=2)
    with pytest.raises(ParameterError, match="upper"):
        geometric(1, upper=2.5)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="lattice"):
        geometric(1, lower=0).bind(Space(Lattice(Fraction(1, 4)), Absolute()))
    with pytest.raises(ParameterError, match="lower and upper"):
        geometric(1).distribution(0)


def test_one_sided_bounds_clamp_one_side() -> None:
    plan = Space(Integers(), Absolute()) >> geometric(3, lower=0)
    assert plan.name == "geometric(scale=3, lower=0)"
    with test_mode(4):
        drawn = [plan.function(0) for _ in range(300)]
    assert min(drawn) == 0 and max(drawn) > 0
