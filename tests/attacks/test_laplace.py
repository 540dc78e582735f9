"""Black-box attacks on the Laplace mechanism reach most of its claimed price and never exceed it; half the noise is caught."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.accounting import account
from tacit.calculus import L1, Integers, Lattice, Space, Vectors
from tacit.mechanisms import laplace

N = 150_000


def draws(scale: float | Fraction, value: int, granularity: Fraction | None = None) -> Draw:
    """Independent answers on one value: the coordinates of a long vector."""

    def run(n: int) -> list[float]:
        element = Integers() if granularity is None else Lattice(granularity)
        found: list[float] = (Space(Vectors(element, n), L1()) >> laplace(scale)).function(np.full(n, value)).tolist()
        return found

    return run


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_a_count_leaks_nearly_what_is_claimed_and_no_more(epsilon: Fraction) -> None:
    found = lower_bound(draws(1 / epsilon, 0), draws(1 / epsilon, 1), N)
    assert 0.9 * epsilon < found <= epsilon


def test_half_the_noise_is_caught() -> None:
    assert lower_bound(draws(Fraction(1, 2), 0), draws(Fraction(1, 2), 1), N) > 1


def test_on_a_lattice_the_scale_is_in_real_units() -> None:
    """Four granules of a quarter are one unit; the mutant counts the scale in granules and so adds a quarter of the noise."""
    step = Fraction(1, 4)
    assert 0.9 < lower_bound(draws(1, 0, step), draws(1, 4, step), N) <= 1
    assert lower_bound(draws(Fraction(1, 4), 0, step), draws(Fraction(1, 4), 4, step), N) > 1


def test_neighbours_share_one_support() -> None:
    """Answers on 0 and 1 lie on the same grid with the same low bits: the float version of this mechanism gives itself away here."""
    step = Fraction(1, 10)
    first, second = (set(draws(2, value, step)(60_000)) for value in (0, 1))
    near = {x for x in first | second if abs(x) < 6}
    assert near <= first and near <= second


def test_two_coordinates_cost_what_their_l1_distance_costs() -> None:
    def pairs(value: tuple[int, int]) -> Draw:
        def run(n: int) -> list[tuple[int, ...]]:
            plan = Space(Vectors(Integers(), 2 * n), L1()) >> laplace(2)
            drawn = plan.function(np.tile(value, n)).reshape(n, 2)
            # the losses only depend on where an answer lies relative to the two values
            return [tuple(row) for row in np.clip(drawn, -1, 2).tolist()]

        return run

    found = lower_bound(pairs((0, 0)), pairs((1, 1)), N)
    assert 0.9 < found <= 1


def test_the_curve_beyond_pure_epsilon_is_reached_too() -> None:
    """At delta 0.05 the attack comes near the accountant's epsilon, which is below the pure one."""
    plan = Space(Vectors(Integers(), 1), L1()) >> laplace(1)
    claimed = account(plan.event(1)).epsilon(0.05).upper
    found = lower_bound(draws(1, 0), draws(1, 1), N, delta=0.05)
    assert 0.8 * claimed < found <= claimed < 1
    assert math.isfinite(claimed)
