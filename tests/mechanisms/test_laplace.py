"""The Laplace mechanism: its law on the lattice, its price in any dimension, its accuracy both ways."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square

from tacit.accounting import Adjacency, DiscreteLaplace, Laplace, account
from tacit.calculus import L1, Absolute, AddRemove, Integers, Lattice, ReplaceOne, Rows, Space, Vectors, clamp, count, total
from tacit.mechanisms import LaplaceMechanism, laplace
from tacit.noise import test_mode

DRAWS = 200_000


def rounded_mass(scale: float, k: int) -> float:
    """P[round(Z) = k] by integrating the density over [k - 1/2, k + 1/2]."""
    with mpmath.workdps(30):
        below = lambda x: mpmath.exp(x / scale) / 2 if x <= 0 else 1 - mpmath.exp(-x / scale) / 2  # noqa: E731
        return float(below(k + mpmath.mpf("0.5")) - below(k - mpmath.mpf("0.5")))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), 7.5])
def test_the_noise_is_continuous_laplace_noise_rounded(scale: Fraction | float) -> None:
    plan = Space(Vectors(Integers(), DRAWS), L1()) >> laplace(scale)
    with test_mode(11):
        drawn = plan.function(np.zeros(DRAWS, dtype=np.int64))
    reach = int(5 * float(scale))
    cells = list(range(-reach, reach + 1))
    counts = [int((drawn == k).sum()) for k in cells]
    assert chi_square(counts, [rounded_mass(float(scale), k) for k in cells], DRAWS) > LEVEL
    # the mutant: a discrete Laplace law of the same scale, whose mass at 0 is another
    mutant = [math.tanh(0.5 / float(scale)) * math.exp(-abs(k) / float(scale)) for k in cells]
    assert float(scale) > 5 or chi_square(counts, mutant, DRAWS) < LEVEL


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(10)])
def test_rounding_never_costs_more_than_the_event_says(scale: Fraction) -> None:
    """From above: the hockey stick of the enumerated rounded law never exceeds that of the continuous one that prices it."""
    reach = math.ceil(60 * scale)
    law = np.array([rounded_mass(float(scale), k) for k in range(-reach, reach + 1)])
    for shift in (1, 3):
        cost = account(Laplace(scale / shift))
        first, second = law[shift:], law[:-shift]
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            found = np.maximum(first - math.exp(epsilon) * second, 0).sum()
            assert found <= cost.delta(epsilon).upper + 1e-12


def test_the_rounded_law_is_not_priced_as_the_discrete_one() -> None:
    """The mutant: below scale 1 the discrete Laplace law of the same scale has another curve."""
    discrete, rounded = account(DiscreteLaplace(Fraction(1, 3))), account(Laplace(Fraction(1, 3)))
    assert discrete.delta(0.0).upper != pytest.approx(rounded.delta(0.0).upper, rel=1e-3)


def test_several_coordinates_cost_what_one_costs() -> None:
    """Moving two coordinates by 1 and 2: the enumerated curve lies below that of one coordinate moved by 3, and reaches it at 3/scale."""
    scale = 2.0
    reach = 80
    law = np.array([rounded_mass(scale, k) for k in range(-reach, reach + 1)])
    size = 2 * reach - 5
    still = np.outer(law[3 : 3 + size], law[3 : 3 + size])
    moved = np.outer(law[2 : 2 + size], law[1 : 1 + size])
    alone = account(Laplace(Fraction(2, 3)))
    for epsilon in (0.0, 0.3, 0.7, 1.0, 1.4):
        found = np.maximum(moved - math.exp(epsilon) * still, 0).sum()
        assert found <= alone.delta(epsilon).upper + 1e-12
    assert np.log(moved / still).max() == pytest.approx(1.5, abs=1e-9)
    # the mutant prices the vector as one move by the larger step, 2
    cheaper = account(Laplace(Fraction(1)))
    assert any(np.maximum(moved - math.exp(e) * still, 0).sum() > cheaper.delta(e).upper + 1e-6 for e in (0.0, 0.3, 0.7, 1.0))


@given(st.fractions(Fraction(1, 1000), 1000), st.fractions(0, 50))
def test_the_map_is_a_function_of_the_distance(scale: Fraction, distance: Fraction) -> None:
    event = (Space(Integers(), Absolute()) >> laplace(scale)).event(distance)
    steps = math.floor(distance)
    if not steps:
        assert repr(event) == "NoOp()"
    else:
        assert isinstance(event, Laplace) and Fraction(event.noise_multiplier) == scale / steps


def test_the_same_noise_costs_ten_times_as_much_after_a_sum_to_ten() -> None:
    rows = Space(Rows(Integers()), AddRemove())
    counted, summed = rows >> count() >> laplace(2), rows >> clamp(0, 10) >> total() >> laplace(2)
    assert counted.release([1]).epsilon().upper == 0.5
    assert summed.release([1]).epsilon().upper == 5.0
    assert (Space(Rows(Integers(-1, 1)), ReplaceOne()) >> total() >> laplace(2)).event(1) == Laplace(1, adjacency=Adjacency.REPLACE_ONE)


def test_the_scale_is_in_the_unit_of_the_answer() -> None:
    coarse = Space(Lattice(Fraction(1, 4)), Absolute()) >> laplace(2)
    assert coarse.event(4) == Laplace(2)  # four granules are one unit
    with test_mode(3):
        drawn = (Space(Vectors(Lattice(Fraction(1, 4)), DRAWS), L1()) >> laplace(2)).function(np.zeros(DRAWS, dtype=np.int64))
    assert np.all(drawn * 4 == np.rint(drawn * 4))
    assert np.abs(drawn).mean() == pytest.approx(2, rel=0.02)  # E|Z| = scale


@given(st.floats(0.01, 100), st.floats(1e-6, 0.9))
def test_accuracy_on_whole_numbers_is_the_smallest_that_holds(scale: float, beta: float) -> None:
    plan = Space(Integers(), Absolute()) >> laplace(scale)
    assert plan.accuracy is not None
    found = plan.accuracy(beta)
    assert found == int(found)
    assert math.exp(-(found + 0.5) / scale) <= beta * (1 + 1e-12)
    assert found == 0 or math.exp(-(found - 0.5) / scale) >= beta * (1 - 1e-12)


def test_textbook_accuracy_does_not_hold_on_whole_numbers() -> None:
    """ln 20 = 2.9957 is the bound before rounding: a rounded draw exceeds it with probability e^-2.5, more than 0.05."""
    assert math.exp(-2.5) > 0.05
    assert laplace(1).accuracy(0.05) < 3
    assert laplace(1).accuracy(0.05, granularity=1) == 3


@given(st.floats(0.5, 1e6), st.floats(1e-6, 0.9), st.integers(1, 100))
def test_for_accuracy_keeps_it_and_wastes_nothing(alpha: float, beta: float, dimension: int) -> None:
    made = LaplaceMechanism.for_accuracy(alpha, beta, dimension=dimension)
    assert made.accuracy(beta, dimension=dimension) <= alpha
    assert laplace(made.scale * (1 + 1e-9)).accuracy(beta, dimension=dimension) > alpha


@given(st.floats(1e-6, 100), st.fractions(Fraction(1, 1000), 1000))
def test_for_epsilon_is_exact(epsilon: float, sensitivity: Fraction) -> None:
    made = LaplaceMechanism.for_epsilon(epsilon, sensitivity)
    assert Fraction(made.scale) == sensitivity / Fraction(epsilon)
    assert account(Laplace(Fraction(made.scale) / sensitivity)).epsilon(0).upper == epsilon


def test_the_empirical_error_respects_the_stated_one() -> None:
    plan = Space(Vectors(Integers(), 10), L1()) >> laplace(5)
    assert plan.accuracy is not None
    bound = plan.accuracy(0.1)
    with test_mode(5):
        drawn = np.array([np.abs(plan.function(np.zeros(10, dtype=np.int64))).max() for _ in range(4000)])
    missed = int((drawn > bound).sum())
    assert missed <= 400 + 6 * math.sqrt(4000 * 0.1 * 0.9)
    assert int((drawn > bound - 2).sum()) > 400  # one or two granules less would not do
