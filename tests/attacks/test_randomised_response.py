"""Black-box attacks on randomised response."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.attacks.attack import Draw, lower_bound

from tacit.mechanisms import from_coins, randomised_response

N = 150_000


def draws(epsilon: Fraction, categories: int, value: int) -> Draw:
    return lambda n: randomised_response(epsilon, categories).privatise(np.full(n, value)).tolist()


@pytest.mark.parametrize(("epsilon", "categories"), [(Fraction(1, 2), 2), (Fraction(1), 2), (Fraction(1), 5), (Fraction(3), 8)])
def test_a_report_leaks_nearly_what_is_claimed_and_no_more(epsilon: Fraction, categories: int) -> None:
    found = lower_bound(draws(epsilon, categories, 0), draws(epsilon, categories, categories - 1), N)
    assert 0.93 * epsilon < found <= epsilon


def test_coins_leak_nearly_ln_3() -> None:
    coins = from_coins()
    found = lower_bound(lambda n: coins.privatise(np.ones(n)).tolist(), lambda n: coins.privatise(np.zeros(n)).tolist(), N)
    assert 0.95 * math.log(3) < found <= math.log(3)


def test_odds_against_all_others_together_are_caught() -> None:
    """The mutant: the truth with probability E/(1 + E), else any other of five: each of those is four times too rare."""
    keep = math.e / (1 + math.e)

    def reports(value: int) -> Draw:
        def run(n: int) -> list[int]:
            rng = np.random.default_rng(value)
            other = (value + rng.integers(1, 5, n)) % 5
            found: list[int] = np.where(rng.random(n) < keep, value, other).tolist()
            return found

        return run

    assert lower_bound(reports(0), reports(1), N) > 1
