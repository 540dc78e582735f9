"""Black-box attacks on the geometric mechanism, whole and truncated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.calculus import L1, Integers, Space, Vectors
from tacit.mechanisms import geometric

N = 150_000


def draws(scale: Fraction, value: int, **bounds: int) -> Draw:
    def run(n: int) -> list[int]:
        found: list[int] = (Space(Vectors(Integers(), n), L1()) >> geometric(scale, **bounds)).function(np.full(n, value)).tolist()
        return found

    return run


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_a_count_leaks_nearly_what_is_claimed_and_no_more(epsilon: Fraction) -> None:
    found = lower_bound(draws(1 / epsilon, 0), draws(1 / epsilon, 1), N)
    assert 0.9 * epsilon < found <= epsilon


def test_truncation_saves_nothing_at_the_edge_and_costs_nothing() -> None:
    first, second = (draws(Fraction(1), value, lower=0, upper=3) for value in (0, 1))
    assert 0.9 < lower_bound(first, second, N) <= 1


def test_half_the_noise_is_caught() -> None:
    assert lower_bound(draws(Fraction(1, 2), 0), draws(Fraction(1, 2), 1), N) > 1


def test_truncation_by_throwing_answers_away_is_caught() -> None:
    """The mutant: instead of clamping, answers outside the bounds are drawn anew; near an edge the masses then depend on the value."""

    def redrawn(value: int) -> Draw:
        def run(n: int) -> list[int]:
            found = [x for x in draws(Fraction(2), value)(6 * n) if 0 <= x <= 3]
            return found[:n]

        return run

    # at the edge of [0, 3] the normaliser grows with the value: the ratio at 0 is e^0.66, and e^0.5 is claimed
    clamped = [draws(Fraction(2), value, lower=0, upper=3) for value in (0, 1)]
    assert lower_bound(*clamped, N) <= 0.5
    assert lower_bound(redrawn(0), redrawn(1), N // 4) > 0.5
