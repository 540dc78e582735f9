"""Noisy top-k from outside: part of its price is found, never more; twice the rate is caught."""

from __future__ import annotations

from tests.attacks.attack import lower_bound

from tacit.accounting import account
from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.mechanisms import top_k

FIRST, SECOND = [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]


def attack(epsilon, seed, delta=0.0, n=700):
    plan = Space(Vectors(Integers(), 5), LInfinity()) >> top_k(2, epsilon)
    draws = [(lambda n, s=s: [tuple(plan.function(s)) for _ in range(n)]) for s in (FIRST, SECOND)]
    return plan.event(1), lower_bound(*draws, n, delta=delta, seed=seed)


def test_part_of_the_price_is_found_and_no_more():
    event, found = attack(2, seed=2, delta=0.1)
    assert 0.8 < found <= account(event).epsilon(0.1).upper


def test_forgetting_the_factor_two_is_caught():
    """Weights exp(epsilon * score), charged as if they were exp(epsilon * score / 2)."""
    claimed, _ = attack(2, seed=3, n=1)
    _, found = attack(4, seed=3, delta=0.1)
    assert found > account(claimed).epsilon(0.1).upper
