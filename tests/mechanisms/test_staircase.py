"""The staircase mechanism: its law by enumeration, its exact epsilon, its optimality, its accuracy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square

from tacit.accounting import ParameterError, PureDP
from tacit.calculus import L1, Absolute, Integers, Lattice, MetricError, Space, Vectors
from tacit.mechanisms import staircase, staircase_draw, verify
from tacit.mechanisms.geometric import tail as geometric_tail
from tacit.mechanisms.staircase import StaircaseMechanism, best_share, expected_magnitude, tail
from tacit.noise import test_mode

DRAWS = 200_000


def masses(epsilon: float, wide: int, share: int, reach: int) -> np.ndarray:
    """The law by walking its steps: level k for the first `share` values of step k, level k + 1 for the rest of it."""
    half = [math.exp(-epsilon * (m // wide + (m % wide >= share))) for m in range(reach + 1)]
    both = np.array(half[:0:-1] + half)
    return both / both.sum()


@pytest.mark.parametrize(
    ("epsilon", "wide", "share"),
    [(1.0, 1, 1), (0.5, 4, 1), (0.5, 4, 4), (2.0, 5, 2), (3.0, 7, 3), (0.25, 20, 1)],
)
def test_draws_follow_the_law(epsilon: float, wide: int, share: int) -> None:
    """Covers all three ways of placing a draw inside its step: one level, a listed choice, a rejection."""
    with test_mode(51):
        drawn = staircase_draw(Fraction(epsilon), wide, share, DRAWS)
    law = masses(epsilon, wide, share, 4000)
    cells = [k for k in range(-60, 61) if law[k + 4000] * DRAWS >= 20]
    counts = [int((drawn == k).sum()) for k in cells]
    assert chi_square(counts, [law[k + 4000] for k in cells], DRAWS) > LEVEL
    if share < wide:  # the mutant: the share at the wrong end of each step
        wrong = masses(epsilon, wide, wide - share, 4000)
        assert wide == 2 * share or chi_square(counts, [wrong[k + 4000] for k in cells], DRAWS) < LEVEL


@pytest.mark.parametrize(
    ("epsilon", "wide", "share"), [(Fraction(1), 1, 1), (Fraction(1, 2), 3, 1), (Fraction(2), 4, 2), (Fraction(3), 3, 3)]
)
def test_the_leak_is_exactly_epsilon_up_to_the_sensitivity(epsilon: Fraction, wide: int, share: int) -> None:
    made = staircase(epsilon, wide, share)
    for distance in range(1, wide + 1):
        found = verify(made, [(x, x + distance) for x in range(3)])
        assert found.epsilon.upper == pytest.approx(float(epsilon), rel=1e-12)
    beyond = verify(made, [(0, wide + 1)])
    assert float(epsilon) * (1 + 1e-9) < beyond.epsilon.upper <= 2 * float(epsilon) * (1 + 1e-12)


def test_a_share_that_straddles_two_steps_is_caught() -> None:
    """The mutant: steps one shorter than the sensitivity; some move then crosses two levels."""
    made = StaircaseMechanism(Fraction(1), 2, 1)
    assert verify(made, [(0, 3)]).epsilon.lower > 1.5


def test_the_price_grows_in_steps_of_the_sensitivity() -> None:
    plan = Space(Integers(), Absolute()) >> staircase(Fraction(1, 2), 10)
    assert [plan.event(d) for d in (1, 10, Fraction(21, 2), 11, 20, 21)] == [
        PureDP(Fraction(1, 2)),
        PureDP(Fraction(1, 2)),
        PureDP(Fraction(1, 2)),
        PureDP(1),
        PureDP(1),
        PureDP(Fraction(3, 2)),
    ]


@given(st.floats(0.05, 5), st.integers(1, 12), st.data())
def test_closed_forms_against_the_enumerated_law(epsilon: float, wide: int, data: st.DataObject) -> None:
    share = data.draw(st.integers(1, wide))
    reach = math.ceil(wide * (45 / epsilon + 2))
    law = masses(epsilon, wide, share, reach)
    size = np.abs(np.arange(-reach, reach + 1))
    assert expected_magnitude(epsilon, wide, share) == pytest.approx(float((law * size).sum()), rel=1e-9)
    for error in (0, 1, wide - 1, wide, 2 * wide + 1):
        assert tail(epsilon, wide, share, error) == pytest.approx(float(law[size > error].sum()), rel=1e-9, abs=1e-15)


@settings(max_examples=50)
@given(st.floats(0.02, 12), st.integers(1, 60))
def test_the_share_is_the_best_of_all(epsilon: float, wide: int) -> None:
    best = min(expected_magnitude(epsilon, wide, share) for share in range(1, wide + 1))
    assert expected_magnitude(epsilon, wide, best_share(epsilon, wide)) <= best * (1 + 1e-12)


def test_it_errs_less_than_any_geometric_noise_of_the_same_price() -> None:
    for epsilon, wide in ((1.0, 10), (4.0, 10), (8.0, 100)):
        decay = math.exp(-epsilon / wide)
        geometric = 2 * decay / (1 - decay**2)
        assert staircase(epsilon, wide).expected_error <= geometric
    assert staircase(8, 100).expected_error < 0.2 * 100 / 8  # at high epsilon a small part of what Laplace noise errs


def test_with_sensitivity_one_it_is_the_geometric_mechanism() -> None:
    for error in range(6):
        assert tail(0.5, 1, 1, error) == pytest.approx(geometric_tail(2.0, error), rel=1e-12)


@given(st.floats(0.05, 5), st.integers(1, 30), st.floats(1e-6, 0.9))
def test_accuracy_is_the_smallest_whole_error_that_holds(epsilon: float, wide: int, beta: float) -> None:
    made = staircase(epsilon, wide)
    found = int(made.accuracy(beta))
    steps = made.steps()
    assert tail(epsilon, *steps, found) <= beta * (1 + 1e-9)
    assert found == 0 or tail(epsilon, *steps, found - 1) > beta * (1 - 1e-9)


def test_for_accuracy_keeps_it() -> None:
    made = StaircaseMechanism.for_accuracy(30, 0.05, sensitivity=10)
    assert made.accuracy(0.05) <= 30 < staircase(float(made.epsilon) * 0.99, 10).accuracy(0.05)
    with pytest.raises(ParameterError, match="alpha"):
        StaircaseMechanism.for_accuracy(0.5, 0.05)


def test_the_sensitivity_is_in_the_unit_of_the_answer_and_rounded_up_to_granules() -> None:
    made = staircase(1, Fraction(5, 2))
    assert made.steps(Fraction(1, 2))[0] == 5
    assert made.steps(Fraction(1))[0] == 3
    plan = Space(Lattice(Fraction(1, 2)), Absolute()) >> made
    assert plan.event(5) == PureDP(1) and plan.event(6) == PureDP(2)
    assert isinstance(plan.release(4).value, float)


def test_vectors_and_slow_laws_are_refused_before_any_data() -> None:
    with pytest.raises(MetricError, match="laplace"):
        staircase(1, 2).bind(Space(Vectors(Integers(), 2), L1()))
    with pytest.raises(ParameterError, match="granularity"):
        staircase(20, 10**6).bind(Space(Integers(), Absolute()))
    with pytest.raises(ParameterError, match="share"):
        staircase(1, 2, 3)
    with pytest.raises(ParameterError, match="within"):
        staircase(1, 2).distribution(100)


def test_large_steps_are_drawn_in_big_integers() -> None:
    with test_mode(52):
        drawn = staircase_draw(Fraction(1, 10**6), 2**40, 2**39, 200)
    assert drawn.dtype == object and max(abs(x) for x in drawn.tolist()) > 2**55
