"""Black-box attacks on Laplace noise by Euclidean distance in four dimensions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from tests.attacks.attack import Draw, lower_bound

from tacit.calculus import L2, Integers, Space, Vectors
from tacit.mechanisms import spherical_laplace

N = 600


def reports(epsilon: Fraction, place: tuple[int, ...]) -> Draw:
    """Reports reduced to the first coordinate and how far they lie beside its axis, coarsely."""
    plan = Space(Vectors(Integers(), 4), L2()) >> spherical_laplace(epsilon)

    def run(n: int) -> list[tuple[int, int]]:
        drawn = np.array([plan.function(np.array(place)) for _ in range(n)])
        beside = np.linalg.norm(drawn[:, 1:], axis=1)
        return [(int(np.clip(x, -2, 4)), int(min(b, 6) // 2)) for x, b in zip(drawn[:, 0], beside, strict=True)]

    return run


def test_points_leak_part_of_what_is_claimed_and_no_more() -> None:
    found = lower_bound(reports(Fraction(1, 2), (0, 0, 0, 0)), reports(Fraction(1, 2), (2, 0, 0, 0)), N)
    assert 0.1 < found <= 1


def test_a_third_of_the_noise_is_caught() -> None:
    assert lower_bound(reports(Fraction(3, 2), (0, 0, 0, 0)), reports(Fraction(3, 2), (2, 0, 0, 0)), N) > 1
