"""Attacks on sample and aggregate: the erratum's mutant under-noises by a factor of two, and is caught."""

from __future__ import annotations

import numpy as np
from tests.attacks.attack import lower_bound

from tacit import noise
from tacit.calculus import AddRemove, Integers, Rows, Space
from tacit.mechanisms import block_mean, sample_aggregate

STEP = sample_aggregate(lambda block: 1 if len(block) else -1, blocks=1, bounds=(-1, 1), granularity=1)
DATA = [np.array([], dtype=np.int64), np.array([5])]


def test_the_price_is_approached_and_not_exceeded() -> None:
    plan = Space(Rows(Integers(0, 9)), AddRemove()) >> STEP >> block_mean(epsilon=1)
    found = lower_bound(*(lambda n, x=x: [plan.function(x) for _ in range(n)] for x in DATA), 2500)
    assert 0.6 <= found <= 1


def test_an_aggregator_for_added_answers_is_caught() -> None:
    """The sum clamped to [-1, 1] has sensitivity 1 under add/remove; used on a changed answer, it moves by 2."""

    def careless(data: np.ndarray) -> int:
        return int(STEP.answers(data).sum()) + int(noise.discrete_laplace(1))

    assert lower_bound(*(lambda n, x=x: [careless(x) for _ in range(n)] for x in DATA), 2500) > 1.5
