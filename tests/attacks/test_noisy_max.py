"""Report noisy max from outside: a good part of its price is found, never more; publishing the noisy maximum as well is caught at once."""

from __future__ import annotations

from tests.attacks.attack import lower_bound

from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.mechanisms import noisy_max
from tacit.noise import geometric


def outputs(run, scores):
    return lambda n: [run(scores) for _ in range(n)]


def test_a_good_part_of_the_price_is_found_and_no_more():
    for noise, least in (("exponential", 1.0), ("gumbel", 0.7)):
        run = (Space(Vectors(Integers(), 4), LInfinity()) >> noisy_max(1, noise)).function
        found = lower_bound(outputs(run, [1, 0, 0, 0]), outputs(run, [0, 1, 1, 1]), 1000, seed=1)
        assert least < found <= 2


def test_publishing_the_noisy_maximum_is_caught():
    def mutant(scores):
        noisy = scores + geometric(1, size=len(scores))
        return int(noisy.argmax()), int(noisy.max())

    assert lower_bound(outputs(mutant, [0, 0]), outputs(mutant, [1, 1]), 1000, seed=2) > 2
