"""One-bit means and bit-flip histograms: chances in closed form, unbiased, variances as stated, lifetimes that cost what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.noise.reference import LEVEL, binomial_p, chi_square

from tacit.accounting import Repeated
from tacit.errors import ParameterError
from tacit.local import SymmetricUnary
from tacit.local.telemetry import BitFlip, OneBitMean, RoundingDevice


@pytest.mark.parametrize("value", [0, 3, 10])
def test_the_chance_of_a_one(value: int) -> None:
    oracle, n = OneBitMean(10, 1), 100_000
    chance = 1 / (math.e + 1) + value / 10 * (math.e - 1) / (math.e + 1)
    ones = int(oracle.privatise(np.full(n, value)).sum())
    assert binomial_p(ones, n, chance) > LEVEL
    if value != 5:
        assert binomial_p(ones, n, 1 - chance) < LEVEL  # the wrong direction


def test_the_mean_is_unbiased_with_its_variance() -> None:
    """2,000 groups of 50: the mean within 5 deviations, the variance within 15% (5 deviations of a variance)."""
    oracle, people, groups = OneBitMean(20, 1), 50, 2000
    bits = oracle.privatise(np.full(people * groups, 5)).reshape(groups, people)
    found = np.array([oracle.mean(row) for row in bits])
    assert abs(found.mean() - 5) < 5 * math.sqrt(oracle.variance(people, 5) / groups)
    assert found.var() == pytest.approx(oracle.variance(people, 5), rel=5 * math.sqrt(2 / groups))
    assert oracle.variance(people, 5) <= oracle.variance(people)


def test_odd_numbers_raise_nothing() -> None:
    oracle = OneBitMean(10, 20)  # tells nearly the truth
    odd = [True, None, math.nan, "x", 10**30, -5, 3.5, []]
    assert oracle.privatise(odd).tolist() == [False] * 4 + [True] + [False] * 3
    assert oracle.privatise(np.array([2**63], dtype=np.uint64)).tolist() == [True]
    with pytest.raises(ParameterError, match="fewer than two"):
        oracle.mean(np.array([True]))


def test_rounding_points_are_unbiased_and_memories_fixed() -> None:
    oracle = OneBitMean(12, 1)
    devices = [RoundingDevice(oracle, 4) for _ in range(4000)]
    for value in (0, 1, 6, 11, 12):
        rounded = np.array([device.rounded(value) for device in devices])
        assert set(rounded.tolist()) <= {value // 4 * 4, -(-value // 4) * 4}
        assert abs(rounded.mean() - value) < 6 * 2 / math.sqrt(4000)
    one = devices[0]
    history = [one.report(v % 13) for v in range(500)]
    assert history == [one.report(v % 13) for v in range(500)]  # nothing is drawn again
    assert all(one.report(v) == one.report(one.rounded(v)) for v in range(13))
    assert one.event == Repeated(oracle.event, 4)  # 0, 4, 8, 12
    with pytest.raises(ParameterError, match="divide"):
        RoundingDevice(oracle, 5)


@pytest.mark.parametrize(("buckets", "sampled"), [(8, 1), (8, 3), (8, 8)])
def test_shares_are_unbiased_with_their_variance(buckets: int, sampled: int) -> None:
    oracle, people, groups = BitFlip(buckets, 2, sampled), 100, 1500
    places, bits = oracle.privatise(np.zeros(people * groups, dtype=np.int64))
    found = np.array([oracle.shares(places[k : k + people], bits[k : k + people]) for k in range(0, people * groups, people)])
    deviation = np.sqrt(oracle.variance(people) / groups)
    assert (np.abs(found.mean(axis=0)[1:]) < 6 * deviation).all() and abs(found.mean(axis=0)[0] - 1) < 12 * deviation
    half = math.e
    exact = (half / (half - 1) ** 2) * buckets / (sampled * people)  # each told bit has variance p q / (p - q)^2
    assert oracle.variance(people) == pytest.approx(exact)
    # how often a bucket is told varies too, but what it tells is 0 on average where nobody holds it, so it adds nothing
    assert found[:, 1:].var() == pytest.approx(oracle.variance(people), rel=5 * math.sqrt(2 / groups))


def test_all_bits_are_symmetric_unary_encoding() -> None:
    assert BitFlip(9, 1, 9).variance(1) == pytest.approx(SymmetricUnary(9, 1).variance(1))


def test_places_are_a_uniform_sample_whatever_the_value() -> None:
    """Ordered pairs of five places, 20 of them: chi-square at 1e-6, for two values."""
    for value in (0, 4):
        places, _ = BitFlip(5, 1, 2).privatise(np.full(20_000, value))
        counts = np.bincount(places[:, 0] * 5 + places[:, 1], minlength=25)
        assert not counts[::6].any()  # no place twice
        assert chi_square([c for k, c in enumerate(counts) if k % 6], [1 / 20] * 20, 20_000) > LEVEL
    with pytest.raises(ParameterError, match="sampled"):
        BitFlip(5, 1, 6)
