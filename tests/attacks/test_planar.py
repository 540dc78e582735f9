"""Black-box attacks on planar Laplace noise: neighbouring places, near and far."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.calculus import L2, Integers, Space, Vectors
from tacit.mechanisms import planar_laplace

N = 1500


def reports(epsilon: Fraction, place: tuple[int, int], cut: tuple[int, int]) -> Draw:
    """Reports reduced to how far they lie along the line to the other place, and how far beside it, coarsely."""
    plan = Space(Vectors(Integers(), 2), L2()) >> planar_laplace(epsilon)
    length = math.hypot(*cut)

    def run(n: int) -> list[tuple[int, int]]:
        drawn = np.array([plan.function(np.array(place)) for _ in range(n)])
        along = (drawn @ np.array(cut)) / length
        beside = np.abs(drawn @ np.array([-cut[1], cut[0]])) / length
        return [(int(np.clip(a, -1, length + 1)), int(min(b, 3))) for a, b in zip(along, beside, strict=True)]

    return run


@pytest.mark.parametrize(("epsilon", "move"), [(Fraction(1), (1, 0)), (Fraction(1, 2), (3, 4))])
def test_places_leak_a_good_part_of_what_is_claimed_and_no_more(epsilon: Fraction, move: tuple[int, int]) -> None:
    claimed = float(epsilon) * math.hypot(*move)
    found = lower_bound(reports(epsilon, (0, 0), move), reports(epsilon, move, move), N)
    assert 0.4 * claimed < found <= claimed


def test_half_the_noise_is_caught() -> None:
    assert lower_bound(reports(Fraction(2), (0, 0), (1, 0)), reports(Fraction(2), (1, 0), (1, 0)), N) > 1
