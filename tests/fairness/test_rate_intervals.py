"""Intervals of rates: the law they stand on, by enumeration, and how often they cover, by enumeration where the lattice is small."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.fairness.rate_intervals import RateTest, halvings, noise_law, rate_interval
from tacit.mechanisms import Law, NoisySums

#: Rates with small and large denominators: where the statistic has few values, and where it has many.
RATES = (0.0, 0.02, 0.1, 0.2, 0.25, 0.3, 1 / 3, 0.4, 7 / 15, 0.5, 0.6, 2 / 3, 0.9, 0.99, 1.0)


def chance(scale: float, k: int) -> float:
    """The chance of round(Laplace) to be k, from the integral of its density."""
    if k == 0:
        return 1 - math.exp(-0.5 / scale)
    return (math.exp(-(abs(k) - 0.5) / scale) - math.exp(-(abs(k) + 0.5) / scale)) / 2


def pairs(scale: float, reach: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of two noises up to a reach, with their chances."""
    k = np.arange(-reach, reach + 1)
    one = np.array([chance(scale, int(x)) for x in k])
    inside, outside = (x.ravel() for x in np.meshgrid(k, k, indexing="ij"))
    return inside, outside, np.outer(one, one).ravel()


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_the_tail_is_that_of_all_pairs(scale: float, rate: float) -> None:
    inside, outside, weight = pairs(scale, 60)
    test = RateTest((1, 1), NoisySums.of_scale("laplace", scale), 0.95)
    combined = (1 - rate) * inside - rate * outside
    for size in (0.0, 0.5, 1.0, 2.7, 4.5, 9.0):
        for tie, counted in ((-1e-3, combined >= size - 1e-9), (1e-3, combined > size + 1e-9)):
            assert test.tail(np.array([rate]), np.array([size]), tie)[0] == pytest.approx(weight[counted].sum(), abs=1e-8)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_law_of_several_cells_is_the_convolution(law: Law) -> None:
    one = noise_law(law, 2.0, 1)
    three, mine = np.convolve(np.convolve(one, one), one), noise_law(law, 2.0, 3)
    middle, reach = len(three) // 2, min(len(three), len(mine)) // 2
    assert np.abs(three[middle - reach : middle + reach + 1] - mine[len(mine) // 2 - reach : len(mine) // 2 + reach + 1]).max() < 1e-10
    assert mine.sum() == pytest.approx(1.0) and noise_law(law, 2.0, 0).tolist() == [1.0]


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0])
def test_the_test_covers_by_enumeration(epsilon: float) -> None:
    """The chance that the true rate is kept, over all pairs of noises: 95 % within half a point, exactly and not by runs."""
    inside, outside, weight = pairs(1 / epsilon, math.ceil(9 / epsilon))
    test = RateTest((1, 1), NoisySums.of_scale("laplace", 1 / epsilon), 0.95)
    found = {}
    for rate in RATES:
        values, which = np.unique(np.round((1 - rate) * inside - rate * outside, 6), return_inverse=True)
        masses = np.bincount(which.ravel(), weight)
        some = masses > 1e-7  # the rest cannot matter to the fourth digit
        rejected = test.rejected(np.full(some.sum(), rate), values[some])
        found[rate] = 1 - float(masses[some][rejected].sum())
    assert min(found.values()) >= 0.945 and max(found.values()) <= 0.955


@pytest.mark.parametrize(("above", "below"), [(25, 50), (2, 15), (40_000, 50_000)])
def test_the_interval_covers_by_enumeration(above: int, below: int) -> None:
    """The ends themselves, at epsilon 1: whatever lies beyond the pairs that are tried has less than a thousandth."""
    noise, hits = NoisySums.of_scale("laplace", 1), 0.0
    for inside, outside, weight in zip(*pairs(1.0, 9), strict=True):
        if weight < 1e-5:
            continue
        low, high = rate_interval(above + inside, below + inside + outside, (1, 1), noise, 0.95)
        hits += float(weight) * (low <= above / below <= high)
    assert 0.945 <= hits <= 0.956


def test_sides_that_share_alike_cover_too_much() -> None:
    """The mutant: a rate of one half at epsilon 1, with half of the chance to be wrong on either side, has 96.3 % or 91.5 %."""
    inside, outside, weight = pairs(1.0, 40)
    size = np.abs(inside - outside)
    alike = [1 - float(weight[size >= least].sum()) for least in range(1, 12)]
    assert min(abs(one - 0.95) for one in alike) > 0.012
    test = RateTest((1, 1), NoisySums.of_scale("laplace", 1), 0.95)
    first, second = test.shares(np.array([0.5]))
    assert first[0] < 0.02 < 0.03 < second[0]


def test_widths_of_the_normal_law_do_not_cover() -> None:
    """The mutant: the deviation of the noise times 1.96. Laplace tails are heavier at 99 %, and a rate of 0 or 1 has one noise only."""
    inside, _, weight = pairs(2.0, 60)
    for confidence, times in ((0.99, 2.5758), (0.999, 3.2905)):
        wrong = np.abs(inside) > times * 2.0 * math.sqrt(2)
        assert 1 - float(weight[wrong].sum()) < confidence - 0.1 * (1 - confidence)
        test = RateTest((1, 1), NoisySums.of_scale("laplace", 2), confidence)
        rejected = test.rejected(np.zeros(121), np.arange(-60, 61).astype(float))
        kept = 1 - sum(chance(2.0, k) for k, out in zip(range(-60, 61), rejected, strict=True) if out)
        assert kept >= confidence - 0.2 * (1 - confidence)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_large_scales_are_stretched(law: Law) -> None:
    """At scale 1,000 the interval is the one at scale 10 on counts a hundredth as large, but for the lattice."""
    large = rate_interval(30_000.0, 100_000.0, (1, 1), NoisySums.of_scale(law, 1000), 0.95)
    small = rate_interval(300.0, 1000.0, (1, 1), NoisySums.of_scale(law, 10), 0.95)
    assert large == pytest.approx(small, abs=5e-4)
    if law == "gaussian":  # Fieller's quadratic, with the normal quantile
        c, a, b = 1.959964**2 * 1000.0**2, 30_000.0, 100_000.0
        ends = np.roots([b * b - 2 * c, -2 * a * b + 2 * c, a * a - c])
        assert sorted(ends) == pytest.approx(large, abs=2e-4)


def test_a_sample_of_people_is_wider() -> None:
    """With hardly any noise the interval about the population is Wilson's."""
    low, high = rate_interval(30.0, 100.0, (1, 1), NoisySums.of_scale("laplace", 0.05), 0.95, population=True)
    z = 1.959964
    middle, half = (30 + z * z / 2) / (100 + z * z), z * math.sqrt(100 * 0.3 * 0.7 + z * z / 4) / (100 + z * z)
    assert (low, high) == pytest.approx((middle - half, middle + half), abs=2e-3)


@pytest.mark.parametrize("counts", [(0.0, 0.0), (-50.0, -80.0), (5.0, -3.0), (1e300, 1e300), (-400.0, 50.0), (500.0, 50.0)])
def test_absurd_counts_have_an_interval(counts: tuple[float, float]) -> None:
    for scale in (0.01, 1, 10, 10**6):
        low, high = rate_interval(*counts, (2, 3), NoisySums.of_scale("laplace", scale), 0.95)
        assert 0 <= low <= high <= 1


def test_halvings() -> None:
    assert [halvings(1.0, 1.0), halvings(8.0, 1.0), halvings(0.0, 1.0)] == [0, 3, 0]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("below", [50, 500, 5000, 50_000])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_intervals_cover_95_percent(below: int, rate: float, epsilon: float) -> None:
    """95 % within 1.5 points over 2,000 runs, for groups of 50 to 50,000 people."""
    made, above, runs = np.random.default_rng(11), round(below * rate), 2000
    noise, hits = NoisySums.of_scale("laplace", 1 / epsilon), 0
    # Runs with the same noise have the same interval, which is worked out once.
    drawn = np.unique(np.round(made.laplace(0, 1 / epsilon, (runs, 2))), axis=0, return_counts=True)
    for (inside, outside), times in zip(*drawn, strict=True):
        low, high = rate_interval(above + inside, below + inside + outside, (1, 1), noise, 0.95)
        hits += int(times) * (low <= above / below <= high)
    assert 0.935 <= hits / runs <= 0.965
