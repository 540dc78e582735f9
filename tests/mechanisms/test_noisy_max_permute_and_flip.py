"""Permute and flip: its exact law by two formulas, its price by enumeration, and that it never loses to the exponential mechanism."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc

from tacit.accounting import NoOp, ParameterError
from tacit.calculus import L1, Integers, Lattice, LInfinity, Space, Vectors
from tacit.mechanisms import PermuteAndFlip, exponential, permute_and_flip
from tacit.noise import test_mode as seeded


def law(scores, rate):
    """By inclusion and exclusion over which other coins show heads (McKenna and Sheldon 2020, Proposition 4)."""
    coins = [math.exp(rate * (s - max(scores))) for s in scores]
    found = []
    for i, coin in enumerate(coins):
        others = coins[:i] + coins[i + 1 :]
        total = 0.0
        for size in range(len(others) + 1):
            for chosen in itertools.combinations(others, size):
                total += (-1) ** size * math.prod(chosen) / (size + 1)
        found.append(coin * total)
    return found


def by_permutations(scores, rate):
    """The algorithm itself, over all orders."""
    coins = [math.exp(rate * (s - max(scores))) for s in scores]
    found = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            found[i] += reached * coins[i] / len(orders)
            reached *= 1 - coins[i]
    return found


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=5), st.floats(0.05, 3))
def test_two_formulas_of_the_law_agree(scores, rate):
    assert law(scores, rate) == pytest.approx(by_permutations(scores, rate), abs=1e-12)


def test_draws_follow_the_law_and_not_the_exponential_mechanisms():
    scores = [0, 2, 2, 5]
    plan = Space(Vectors(Integers(), 4), LInfinity()) >> permute_and_flip(Fraction(1, 2))
    with seeded(5):
        found = [plan.function(scores) for _ in range(4000)]

    def p_value(chances):
        expected = np.array(chances) * len(found)
        return float(chdtrc(3, ((np.bincount(found, minlength=4) - expected) ** 2 / expected).sum()))

    assert p_value(law(scores, 0.25)) > 1e-3
    assert p_value([float(low) for low, _ in exponential(Fraction(1, 2)).probabilities(scores)]) < 1e-9


def pairs(metric):
    for scores in itertools.product(range(3), repeat=3):
        for move in itertools.product((-1, 0, 1), repeat=3):
            other = tuple(s + m for s, m in zip(scores, move, strict=True))
            if metric.distance(scores, other) <= 1:
                yield scores, other


@pytest.mark.parametrize("metric", [LInfinity(), LInfinity(monotone=True), L1()], ids=repr)
def test_price_by_enumeration(metric):
    plan = Space(Vectors(Integers(), 3), metric) >> permute_and_flip(Fraction(3, 2))
    price = float(plan.event(1).epsilon)
    worst = max(abs(math.log(p / q)) for one, two in pairs(metric) for p, q in zip(law(one, 0.75), law(two, 0.75), strict=True))
    assert 0.95 * price < worst <= price * (1 + 1e-12)


def test_it_has_no_bounded_range_so_its_event_is_pure():
    losses = [[math.log(p / q) for p, q in zip(law(one, 0.75), law(two, 0.75), strict=True)] for one, two in pairs(LInfinity())]
    assert max(max(row) - min(row) for row in losses) > 1.5 * 1.05  # an exponential mechanism at this price has exactly 1.5


@given(st.lists(st.integers(-8, 8), min_size=2, max_size=5), st.floats(0.05, 3))
def test_never_worse_than_the_exponential_mechanism(scores, rate):
    weights = [math.exp(rate * (s - max(scores))) for s in scores]
    plain = sum(w * s for w, s in zip(weights, scores, strict=True)) / sum(weights)
    assert sum(p * s for p, s in zip(law(scores, rate), scores, strict=True)) >= plain - 1e-12


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=5), st.floats(0.1, 3), st.floats(0.01, 0.99))
def test_accuracy_holds_exactly(scores, epsilon, beta):
    alpha = permute_and_flip(epsilon).accuracy(beta, candidates=len(scores))
    missed = sum(p for p, s in zip(law(scores, epsilon / 2), scores, strict=True) if s < max(scores) - alpha)
    assert missed <= beta * (1 + 1e-9)


def test_accuracy_inverts_and_beats_the_exponential_mechanisms():
    found = PermuteAndFlip.for_accuracy(10, 0.05, candidates=50)
    assert 9.999 < found.accuracy(0.05, candidates=50) <= 10
    assert found.accuracy(0.05, candidates=50) < exponential(found.epsilon).accuracy(0.05, candidates=50)
    assert permute_and_flip(1).accuracy(0.05, candidates=1) == 0


def test_lattice_units_and_parameters():
    plan = Space(Vectors(Lattice(Fraction(1, 2)), 2), LInfinity()) >> PermuteAndFlip.for_epsilon(1, sensitivity=2)
    assert plan.event(4).epsilon == 1
    assert plan.event(0) == NoOp()
    with seeded(4):
        heads = sum(plan.function([0, 4]) for _ in range(4000))
    assert abs(heads / 4000 - law([0, 2], 0.25)[1]) < 0.03
    with pytest.raises(ParameterError, match="epsilon"):
        permute_and_flip(0)
