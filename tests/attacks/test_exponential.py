"""The exponential mechanism from outside: a good part of its price is found, never more; twice the rate is caught."""

from __future__ import annotations

from tests.attacks.attack import lower_bound

from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.mechanisms import exponential

FIRST, SECOND = [1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]


def attack(epsilon, seed):
    plan = Space(Vectors(Integers(), 6), LInfinity()) >> exponential(epsilon)
    draws = [(lambda n, s=s: [plan.function(s) for _ in range(n)]) for s in (FIRST, SECOND)]
    return lower_bound(*draws, 1000, seed=seed)


def test_a_good_part_of_the_price_is_found_and_no_more():
    assert 1.0 < attack(2, seed=1) <= 2


def test_forgetting_the_factor_two_is_caught():
    assert attack(4, seed=2) > 2  # weights exp(epsilon * score) at a claim of epsilon = 2
