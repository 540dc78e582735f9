"""The bound holds at the error it states, and it sees what the plain search misses at high confidence."""

from __future__ import annotations

import math

import pytest

from tacit.audit.experiment import Generator, generator
from tacit.audit.search import attack
from tacit.audit.selftest.pushing import pushed


def coin(chance: float, coins: Generator):
    return lambda n: (coins.random(n) < chance).astype(int)


def test_it_exceeds_the_truth_no_more_often_than_it_says() -> None:
    """Randomised response at ln 3, error 0.2: at most 20 of 100 expected above; 40 would be five standard deviations off."""
    truth, above = math.log(3), 0
    for seed in range(100):
        coins = generator(seed)
        above += pushed(coin(0.25, coins), coin(0.75, coins), 400, error=0.2, seed=seed).lower > truth
    assert above <= 40


def test_a_bound_without_its_union_would_be_caught_by_the_same_count() -> None:
    """The mutant: the best of several point estimates is above the truth in most runs."""
    above = 0
    for seed in range(60):
        coins = generator(seed)
        hits = [sum(coin(chance, coins)(400).tolist()) for chance in (0.25, 0.75)]
        estimates = (math.log(hits[1] / hits[0]), math.log((400 - hits[0]) / (400 - hits[1])))
        above += max(estimates) > math.log(3)
    assert above > 60 * 0.4


def test_few_samples_at_high_confidence() -> None:
    coins = generator(3)
    pair = coin(0.3, coins), coin(0.14, coins)
    assert pushed(*pair, 4000, error=1e-8, seed=1).lower > 0.2
    coins = generator(3)
    assert attack(coin(0.3, coins), coin(0.14, coins), 4000, confidence=1 - 1e-8, seed=1).lower > 0.2


@pytest.mark.parametrize("error", [1e-3, 1e-8])
def test_the_confidence_is_that_of_the_whole(error: float) -> None:
    coins = generator(5)
    found = pushed(coin(0.1, coins), coin(0.9, coins), 2000, error=error, seed=2)
    assert found.confidence == 1 - error and found.point is not None and found.point.confidence == 1 - error
    assert 0 < found.lower < math.log(9)
