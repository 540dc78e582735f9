"""Black-box attacks on the staircase mechanism."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.mechanisms import staircase, staircase_draw

N = 100_000


def draws(epsilon: Fraction, wide: int, share: int, value: int) -> Draw:
    return lambda n: (staircase_draw(epsilon, wide, share, n) + value).tolist()


@pytest.mark.parametrize(("epsilon", "wide"), [(Fraction(1), 1), (Fraction(1), 3), (Fraction(2), 5)])
def test_every_move_up_to_the_sensitivity_leaks_at_most_what_is_claimed(epsilon: Fraction, wide: int) -> None:
    steps = staircase(epsilon, wide).steps()
    found = [lower_bound(draws(epsilon, *steps, 0), draws(epsilon, *steps, move), N) for move in range(1, wide + 1)]
    assert max(found) <= epsilon
    assert max(found) > 0.85 * epsilon


def test_steps_narrower_than_the_sensitivity_are_caught() -> None:
    """The mutant: steps of 2 for a sensitivity of 3, which one move crosses twice."""
    assert lower_bound(draws(Fraction(1), 2, 1, 0), draws(Fraction(1), 2, 1, 3), N) > 1
