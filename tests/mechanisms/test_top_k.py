"""Noisy top-k: the law of peeling, the price of composed bounded ranges, and calibration that never exceeds its target."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtrc

from tacit.accounting import Exponential, NoOp, Repeated, account
from tacit.calculus import DomainError, Integers, LInfinity, Space, Vectors
from tacit.mechanisms import top_k
from tacit.mechanisms.top_k import TopK
from tacit.noise import test_mode as seeded


def law(scores, rate, k):
    """The law of Plackett and Luce: what one shot of Gumbel noise gives."""
    found = {}
    for order in itertools.permutations(range(len(scores)), k):
        chance, left = 1.0, set(range(len(scores)))
        for i in order:
            chance *= math.exp(rate * scores[i]) / sum(math.exp(rate * scores[j]) for j in left)
            left.discard(i)
        found[order] = chance
    return found


def p_value(found, chances):
    counts = Counter(found)
    return float(chdtrc(len(chances) - 1, sum((counts[o] - len(found) * p) ** 2 / (len(found) * p) for o, p in chances.items())))


def test_peeling_is_one_shot_gumbel():
    rng = np.random.default_rng(8)
    scores = np.array([0.0, 1.0, 2.0, 2.0])
    noisy = scores * 0.5 + rng.gumbel(size=(60_000, 4))
    found = [tuple(row[:2].tolist()) for row in np.argsort(-noisy, axis=1)]
    assert p_value(found, law(scores, 0.5, 2)) > 1e-3


def test_draws_follow_the_law_and_order_matters():
    scores = [0, 2, 3, 1]
    plan = Space(Vectors(Integers(), 4), LInfinity()) >> top_k(2, epsilon=1)
    with seeded(6):
        found = [tuple(plan.function(scores)) for _ in range(4000)]
    assert all(len(set(pair)) == 2 for pair in found)
    assert p_value(found, law(scores, 0.5, 2)) > 1e-3
    assert p_value([pair[::-1] for pair in found], law(scores, 0.5, 2)) < 1e-9


def test_price_by_enumeration():
    plan = Space(Vectors(Integers(), 3), LInfinity()) >> top_k(2, epsilon=1)
    event = plan.event(1)
    assert event == Repeated(Exponential(Fraction(1)), 2)
    priced = account(event)
    worst = 0.0
    sticks = dict.fromkeys((0.25, 0.5, 1.0), 0.0)
    for scores in itertools.product(range(3), repeat=3):
        for move in itertools.product((-1, 0, 1), repeat=3):
            p, q = law(scores, 0.5, 2), law([s + m for s, m in zip(scores, move, strict=True)], 0.5, 2)
            worst = max(worst, max(abs(math.log(p[o] / q[o])) for o in p))
            for epsilon in sticks:
                sticks[epsilon] = max(sticks[epsilon], sum(max(0.0, p[o] - math.exp(epsilon) * q[o]) for o in p))
    assert 1 < worst <= 2
    for epsilon, delta in sticks.items():
        assert delta <= priced.delta(epsilon).upper + 1e-12


def test_calibration_never_exceeds_the_target_and_uses_it():
    for monotone in (False, True):
        found = TopK.for_epsilon(30, 1, delta=1e-6, sensitivity=2, monotone=monotone)
        plan = Space(Vectors(Integers(), 50), LInfinity(monotone=monotone)) >> found
        spent = account(plan.event(2)).epsilon(1e-6).upper
        assert 0.999 < spent <= 1
    plain = TopK.for_epsilon(4, 1)
    assert (Space(Vectors(Integers(), 5), LInfinity()) >> plain).event(1) == Repeated(Exponential(Fraction(1, 4)), 4)


def test_accuracy_and_refusals():
    assert top_k(5, 1).accuracy(0.05, candidates=100) == pytest.approx(2 * math.log(100 * 5 / 0.05))
    assert TopK.for_accuracy(10, 0.05, candidates=100, k=5).accuracy(0.05, candidates=100) <= 10
    with pytest.raises(DomainError, match="at most the number of candidates"):
        Space(Vectors(Integers(), 2), LInfinity()) >> top_k(3, 1)
    space = Space(Vectors(Integers(), 3), LInfinity())
    assert (space >> top_k(3, 1)).event(0) == NoOp()
    assert sorted((space >> top_k(3, 1)).release([10**40, float("nan"), 5]).value) == [0, 1, 2]
