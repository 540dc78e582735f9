"""Attacks on propose-test-release: a stable pair for the noise, and the mutant that forgets the test."""

from __future__ import annotations

import numpy as np
from tests.attacks.attack import lower_bound

from tacit import noise
from tacit.calculus import Integers, ReplaceOne, Rows, Space
from tacit.mechanisms import propose_median

EPSILON, DELTA = 2.0, 0.05


def test_the_price_is_approached_and_not_exceeded() -> None:
    plan = Space(Rows(Integers(0, 100)), ReplaceOne()) >> propose_median(bound=10, epsilon=EPSILON, delta=DELTA)
    # two clusters a bound apart: the test passes, and the median moves by the whole bound; that is the answer's half of epsilon
    data = [np.array([30] * 9 + [40] * 10), np.array([30] * 10 + [40] * 9)]
    found = lower_bound(*(lambda n, x=x: [plan.function(x) for _ in range(n)] for x in data), 2_500)
    assert 0.35 * EPSILON <= found <= EPSILON


def test_releasing_without_the_test_is_caught() -> None:
    data = [np.array([0] * 4 + [100] * 3), np.array([0] * 3 + [100] * 4)]

    def careless(x: np.ndarray) -> int:
        return int(np.sort(x)[3]) + int(noise.discrete_laplace(10 / (EPSILON / 2)))

    assert lower_bound(*(lambda n, x=x: [careless(x) for _ in range(n)] for x in data), 3000, delta=DELTA) > EPSILON
    plan = Space(Rows(Integers(0, 100)), ReplaceOne()) >> propose_median(bound=10, epsilon=EPSILON, delta=DELTA)
    assert lower_bound(*(lambda n, x=x: [plan.function(x) for _ in range(n)] for x in data), 3000, delta=DELTA) <= EPSILON
