"""Crowds: small ones stay behind, sizes have their noise, and the price covers a person who changes crowds."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tacit.accounting import Adjacency, Shuffled, account
from tacit.errors import ParameterError
from tacit.local import Collector, CrowdShuffler, frequencies, to_batch
from tacit.noise import test_mode as seeded

PROTOCOL = frequencies(["yes", "no"], epsilon=1)


def released(sizes: dict[str, int], threshold: int = 5, epsilon: float = 1, delta: float = 1e-2) -> dict[str, int]:
    shuffler = CrowdShuffler(PROTOCOL, threshold=threshold, epsilon=epsilon, delta=delta)
    for crowd, people in sizes.items():
        shuffler.add(to_batch(PROTOCOL, ["yes"] * people), [crowd] * people)
    return {crowd: batch.num_rows for crowd, batch in shuffler.release().items()}


def test_a_huge_epsilon_holds_back_next_to_nothing() -> None:
    assert CrowdShuffler(PROTOCOL, threshold=2, epsilon=5000, delta=1e-6).shift == 2


def test_the_shift_is_the_least_that_keeps_delta() -> None:
    for epsilon in (0.1, 0.5, 1.0, 3.0):
        for delta in (1e-2, 1e-6, 1e-10):
            shift, ratio = CrowdShuffler(PROTOCOL, threshold=2, epsilon=epsilon, delta=delta).shift, math.exp(-epsilon)
            negative = ratio ** (shift + 1) / (1 + ratio)  # the tail of the discrete Laplace law, in closed form
            allowed = delta / (1 + math.exp(epsilon))
            assert negative <= allowed * (1 + 1e-9)
            assert shift == 0 or negative / ratio**2 > allowed  # two less would not do


def test_a_crowd_of_one_is_never_released_and_small_ones_hardly() -> None:
    with seeded(1):
        seen = Counter(name for _ in range(60) for name in released({"one": 1, "four": 4, "sixty": 60}))
    assert seen == {"sixty": 60}


def test_sizes_have_discrete_laplace_noise() -> None:
    """The released size is 40 - shift - Z; a hundred draws against the law, by its mean and deviation."""
    with seeded(2):
        sizes = [released({"a": 40})["a"] for _ in range(100)]
    shift, ratio = CrowdShuffler(PROTOCOL, threshold=5, epsilon=1, delta=1e-2).shift, math.exp(-1)
    spread = math.sqrt(2 * ratio) / (1 - ratio)
    assert abs(sum(sizes) / 100 - (40 - shift)) < 6 * spread / 10
    assert max(sizes) <= 40 and len(set(sizes)) > 3


def test_the_price_is_that_of_two_crowds() -> None:
    shuffler = CrowdShuffler(PROTOCOL, threshold=1000, epsilon=0.1, delta=1e-7)
    whole = account(shuffler.event, Adjacency.REPLACE_ONE).epsilon(1e-6).upper
    value = account(Shuffled(PROTOCOL.event, 1000), Adjacency.REPLACE_ONE).epsilon(1e-6).upper
    assert value + 0.2 < whole < 2 * value + 0.25


def test_the_collector_reads_what_is_released_and_rubbish_is_counted() -> None:
    shuffler = CrowdShuffler(PROTOCOL, threshold=20, epsilon=2, delta=1e-3)
    batch = to_batch(PROTOCOL, ["no"] * 100)
    shuffler.add(batch, ["a"] * 100).add(batch, ["b"] * 100).add(to_batch(PROTOCOL, ["no"], nonces=False), ["a"])
    shuffler.add(to_batch(PROTOCOL, ["no"]), [7])  # type: ignore[list-item]
    assert shuffler.dropped == {"repeated": 100, "mixed": 1, "malformed": 1}
    found = shuffler.release()
    assert list(found) == ["a"] and found["a"].schema.names == ["report"]
    assert Collector(PROTOCOL, nonces=False).ingest(found["a"]).n == found["a"].num_rows
    assert shuffler.release() == {}
    with pytest.raises(ParameterError, match="one text"):
        shuffler.add(batch, ["a"])
    for threshold, epsilon, delta in ((1, 1, 1e-6), (5, 0, 1e-6), (5, 1, 0)):
        with pytest.raises(ParameterError):
            CrowdShuffler(PROTOCOL, threshold=threshold, epsilon=epsilon, delta=delta)


def test_by_brute_force_a_moved_person_costs_no_more_than_the_price() -> None:
    """Two crowds of a few people, one person moves: exact laws of the two released sizes, and the hockey-stick divergence at the price."""
    epsilon, delta, threshold = 0.5, 0.2, 2
    shuffler = CrowdShuffler(PROTOCOL, threshold=threshold, epsilon=epsilon, delta=delta)
    ratio, shift = math.exp(-epsilon), shuffler.shift

    def law(people: int) -> dict[int, float]:
        found: dict[int, float] = {}
        for z in range(-200, 201):
            left = people - max(0, z + shift)
            mass = (1 - ratio) / (1 + ratio) * ratio ** abs(z)
            found[left if left >= threshold else 0] = found.get(left if left >= threshold else 0, 0.0) + mass
        return found

    for first, second in ((12, 12), (5, 30), (1, 3), (2, 1)):
        before, after = (law(first), law(second)), (law(first - 1), law(second + 1))
        for one, other in ((before, after), (after, before)):
            lost = sum(
                max(0.0, one[0].get(a, 0) * one[1].get(b, 0) - math.exp(2 * epsilon) * other[0].get(a, 0) * other[1].get(b, 0))
                for a in {*one[0]}
                for b in {*one[1]}
            )
            assert lost <= 2 * delta
    # a shift of 0 would be caught: a crowd's full size shows with probability one half
    assert shift > 0
