"""Private selection from outside: a good part of its price is found, never more; a number of tries that is not random is caught."""

from __future__ import annotations

from fractions import Fraction

from tests.attacks.attack import lower_bound

from tacit.accounting import PureDP
from tacit.calculus import AddRemove, Integers, Measurement, Rows, Space
from tacit.mechanisms import candidate_selection
from tacit.noise import bernoulli

ROWS = Space(Rows(Integers(0, 1)), AddRemove())
HALF = Fraction(622459, 10**6)  # e^(1/2) / (1 + e^(1/2)), rounded down


def response(rows):
    return bernoulli(1 - HALF if len(rows) else HALF)


BASE = Measurement(ROWS, response, lambda d: PureDP(Fraction(1, 2) * d), "response", "randomised response at epsilon 1/2")


def attack(run, seed):
    draws = [(lambda n, rows=rows: [run(rows) for _ in range(n)]) for rows in ([1], [])]
    return lower_bound(*draws, 1500, seed=seed)


def test_a_good_part_of_the_price_is_found_and_no_more():
    plan = ROWS >> candidate_selection([BASE], score=lambda y: y, mean=4)
    assert 0.5 < attack(plan.function, seed=1) <= 1.5


def test_a_fixed_number_of_tries_is_caught():
    """Six tries always: all six must fail for a 0, which costs six times one try."""
    draws = [(lambda n, p=p: bernoulli(p, size=(n, 6)).max(axis=1).tolist()) for p in (1 - HALF, HALF)]
    assert lower_bound(*draws, 20_000, seed=2) > 1.5
