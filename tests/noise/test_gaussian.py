"""Discrete Gaussian draws have the textbook mass function at every sigma, in the middle, in the tails and in the low bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.noise.reference import ALL_ONES, LEVEL, binomial_p, chi_square, gaussian_below, gaussian_mass, gaussian_total, real, scripted

from tacit.accounting import ParameterError
from tacit.noise import discrete_gaussian, enclosed, gaussian, test_mode
from tacit.noise.gaussian import GaussianLaw, gaussian_law

DRAWS = 200_000
Sampler = Callable[[Fraction, int], NDArray[Any]]


@cache
def cells(sigma: Fraction) -> tuple[list[int], list[Any]]:
    """Edges and exact probabilities of runs of integers, from sums of the mass function, or of the normal law where sigma is huge."""
    width = max(1, round(float(sigma) / 8))
    reach = max(2, round(3.5 * float(sigma) / width))
    edges = [width * i for i in range(-reach, reach + 1)]
    if sigma >= 10**4:
        below: list[Any] = [gaussian_below(sigma, edge) for edge in edges]
        return edges, [b - a for a, b in pairwise(below)]
    with mpmath.workdps(25):
        total, rate = gaussian_total(sigma), -1 / (2 * real(sigma) ** 2)
        mass = {k: mpmath.exp(rate * k * k) / total for k in range(edges[-1] + 1)}
        return edges, [mpmath.fsum(mass[abs(k)] for k in range(a, b)) for a, b in pairwise(edges)]


def fit(sample: Sampler, sigma: Fraction, draws: int = DRAWS) -> float:
    edges, probabilities = cells(sigma)
    with test_mode(1):
        values = sample(sigma, draws)
    counts = np.histogram(values.astype(float), bins=np.array(edges, dtype=float) - 0.5)[0]
    kept = [i for i, p in enumerate(probabilities) if p * draws >= 10]
    return chi_square(counts[kept], [probabilities[i] for i in kept], draws)


SIGMAS = [Fraction(1, 2), Fraction(1), Fraction(10, 3), Fraction(64), Fraction(65), Fraction(1000), Fraction(10**6), Fraction(10**15 + 1)]


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_discrete_gaussian_fits_its_mass_function(sigma: Fraction) -> None:
    assert fit(discrete_gaussian, sigma) > LEVEL


def rounded(sigma: Fraction, count: int) -> NDArray[Any]:
    """A mutant: continuous noise rounded, which is another law."""
    return np.rint(np.random.default_rng(1).normal(0, float(sigma), count))


def too_narrow(sigma: Fraction, count: int) -> NDArray[Any]:
    """A mutant: five per cent less noise."""
    return discrete_gaussian(sigma * Fraction(19, 20), count)


def all_accepted(sigma: Fraction, count: int) -> NDArray[Any]:
    """A mutant: no proposal is rejected."""
    return GaussianLaw(sigma)._propose(count)[0]


@pytest.mark.parametrize(
    ("mutant", "sigma"),
    [(rounded, Fraction(1, 2)), (rounded, 1), (too_narrow, 10), (too_narrow, 10**6)],
    ids=["rounded 1/2", "rounded 1", "narrow 10", "narrow 1e6"],
)
def test_wrong_samplers_fail_the_same_check(mutant: Sampler, sigma: Fraction) -> None:
    assert fit(mutant, Fraction(sigma)) < LEVEL


def test_the_acceptance_matters() -> None:
    """Where a step of the quotient is widest against sigma, a million draws see the difference that the acceptance makes."""
    sigma = Fraction(33 * 2**14)
    assert gaussian_law(sigma).bits == 14
    assert fit(discrete_gaussian, sigma, 1_000_000) > LEVEL
    assert fit(all_accepted, sigma, 1_000_000) < LEVEL


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(5, 2)], ids=str)
def test_enumeration_gives_the_mass_function(sigma: Fraction) -> None:
    """All 2^64 words, found by bisection because cells are runs of words: each value gets its mass times 2^64, but for two words."""
    law = gaussian_law(sigma)
    count = len(law.values)
    low, high = np.zeros(count - 1, dtype=np.uint64), np.full(count - 1, ALL_ONES, dtype=np.uint64)
    for _ in range(64):
        middle = low + (high - low) // np.uint64(2)
        with scripted([], then=0):
            inside = law.table.lookup(middle) > np.arange(count - 1)
        high, low = np.where(inside, middle, high), np.where(inside, low, middle + np.uint64(1))
    starts = [0, *high.tolist(), 2**64]
    seen = set()
    with mpmath.workdps(60):
        for cell in range(count - 1):
            with scripted([starts[cell]], then=0):
                value = int(discrete_gaussian(sigma, size=1)[0])
            seen.add(value)
            assert abs(starts[cell + 1] - starts[cell] - mpmath.ldexp(gaussian_mass(sigma, value), 64)) <= 2
    assert seen == set(range(1 - law.count, law.count))


def test_enumeration_of_the_acceptance() -> None:
    """Beyond sigma = 64: every pair of sign and remainder of a given quotient is accepted for just as many words as the weight says."""
    sigma = Fraction(65 * 4)
    law = gaussian_law(sigma)
    step = 2**law.bits
    quotient = 5
    start = int(law.table.last[quotient - 1]) + 1  # a word that the table turns into this quotient
    with mpmath.workdps(60):
        rate = 1 / (2 * real(sigma) ** 2)
        for negative in (0, 1):
            for remainder in range(step):
                drawn = (remainder << 1 | negative) << 64 - law.bits - 1
                size = quotient * step + remainder + negative
                accept = mpmath.exp(-(size**2 - (quotient * step) ** 2) * rate)
                edge = int(mpmath.floor(mpmath.ldexp(accept, 64)))
                for word, kept in ((edge - 1, True), (edge + 1, False)):
                    if word > ALL_ONES:
                        continue
                    with scripted([start, drawn, word], then=0) as used:
                        value, keep = law._propose(1)
                    assert value.tolist() == [-size if negative else size] and keep.tolist() == [kept] and used.used == 3


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(3), Fraction(200)], ids=str)
def test_the_law_goes_on_beyond_the_table(sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tables that end after one sigma a third of all draws come from beyond; nothing changes."""
    monkeypatch.setattr(gaussian, "REACH", 1)
    law = GaussianLaw(sigma)

    def short(_: Fraction, count: int) -> NDArray[Any]:
        return law.draw(count)

    def cut(_: Fraction, count: int) -> NDArray[Any]:
        end = law.count << law.bits
        return np.clip(law.draw(count), -end, end)

    assert fit(short, sigma, 10_000) > LEVEL
    assert fit(cut, sigma, 10_000) < LEVEL


def test_beyond_the_table_at_its_real_end() -> None:
    """The last cell, forced: the excess over 8 sigma is geometric of scale sigma / 8 times exp(-j^2 / (2 sigma^2)); both signs come."""
    law = gaussian_law(Fraction(3))
    with test_mode(3):
        drawn = [law._tail() for _ in range(3000)]
    with mpmath.workdps(30):
        weight = [mpmath.exp(-(k**2) / (2 * real(9))) for k in range(24, 60)]
        probabilities = [w / mpmath.fsum(weight) for w in weight]
    counts, probabilities = [drawn.count(24), drawn.count(25)], probabilities[:2]
    assert chi_square(counts, probabilities, 3000) > LEVEL
    assert min(drawn) == 24 and max(drawn) > 25
    ends = set()
    for bit in (0, ALL_ONES):
        with scripted([ALL_ONES, 0, 0, bit], then=0):  # the last cell, no excess, accepted, a sign
            ends.add(int(discrete_gaussian(3, size=1)[0]))
    assert ends == {24, -24}


def test_tails() -> None:
    """Draws beyond 4 sigma: their number is binomial with the exact probability."""
    draws = 2_000_000
    for seed, sigma in enumerate((Fraction(3), Fraction(1000))):
        with test_mode(seed):
            values = discrete_gaussian(sigma, draws)
        with mpmath.workdps(30):
            total = gaussian_total(sigma)
            start = 4 * int(sigma)
            beyond = float(2 * mpmath.fsum(mpmath.exp(-(k**2) / (2 * real(sigma) ** 2)) for k in range(start + 1, 3 * start)) / total)
        count = int((np.abs(values) > start).sum())
        assert beyond * draws > 20
        assert binomial_p(count, draws, beyond) > LEVEL
        assert binomial_p(0, draws, beyond) < LEVEL


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(100), Fraction(10**7)], ids=str)
def test_moments(sigma: Fraction) -> None:
    """The variance is sigma^2 to 1e-7 from sigma = 1 on (Canonne, Kamath and Steinke 2020: never more)."""
    with test_mode(4):
        values = discrete_gaussian(sigma, DRAWS).astype(float) / float(sigma)
    assert abs(values.mean()) < 5 / math.sqrt(DRAWS)
    assert abs((values**2).mean() - 1) < 5 * math.sqrt(2 / DRAWS)
    assert abs((values**3).mean()) < 5 * math.sqrt(15 / DRAWS)
    assert abs((values**4).mean() - 3) < 5 * math.sqrt(96 / DRAWS) + 1e-6


@pytest.mark.parametrize("sigma", [Fraction(1000), Fraction(2**40)], ids=["1000", "2^40"])
def test_low_bits_are_uniform(sigma: Fraction) -> None:
    """By Poisson summation k mod 8 is uniform to exp(-2 pi^2 (sigma / 8)^2), which is nothing; also given another bit."""
    with test_mode(5):
        values = discrete_gaussian(sigma, DRAWS)
    for part in (values, values[values % 16 >= 8], values[values % 32 < 16]):
        counts = np.bincount((part % 8).astype(int), minlength=8)
        assert chi_square(counts, [mpmath.mpf(1) / 8] * 8, len(part)) > LEVEL
        assert chi_square(np.append(counts[1:], counts[0] + len(part) // 50), [mpmath.mpf(1) / 8] * 8, len(part) + len(part) // 50) < LEVEL


def test_the_exact_path_gives_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every acceptance settled in integers nothing changes, word for word."""
    with test_mode(12):
        fast = discrete_gaussian(1000, 2000)
    monkeypatch.setattr(enclosed, "MARGIN", 2.0)
    with test_mode(12):
        assert (discrete_gaussian(1000, 2000) == fast).all()


def test_symmetry() -> None:
    with test_mode(6):
        for sigma in (Fraction(2), Fraction(100)):
            values = discrete_gaussian(sigma, DRAWS)
            positive, negative = int((values > 0).sum()), int((values < 0).sum())
            assert binomial_p(positive, positive + negative, 0.5) > LEVEL


def test_huge_sigmas_are_python_integers() -> None:
    with test_mode(7):
        values = discrete_gaussian(Fraction(10) ** 30, 4000)
        single = discrete_gaussian(1e300)
    assert values.dtype == object and all(type(v) is int for v in values) and type(single) is int
    sizes = np.array([v / 1e30 for v in values])
    assert abs((sizes**2).mean() - 1) < 5 * math.sqrt(2 / 4000)
    edges = np.linspace(-2, 2, 17)
    counts = np.histogram(sizes, bins=edges)[0]
    probabilities = [gaussian_below(10**30, int(b * 10**30)) - gaussian_below(10**30, int(a * 10**30)) for a, b in pairwise(edges.tolist())]
    assert chi_square(counts, probabilities, 4000) > LEVEL


def test_tiny_sigmas() -> None:
    for sigma in (Fraction(1, 20), 1e-3, 1e-300):
        assert not discrete_gaussian(sigma, 1000).any()
    with scripted([ALL_ONES], then=0):
        assert discrete_gaussian(Fraction(1, 1000), size=1).tolist() == [0]


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True, 1j, [1.0], Fraction(-1, 3), 10**400], ids=repr)
def test_bad_sigmas_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match="sigma"):
        discrete_gaussian(bad)


def test_shapes_and_types() -> None:
    assert type(discrete_gaussian(5)) is int and type(discrete_gaussian(np.float32(500))) is int
    assert discrete_gaussian(500, size=0).shape == (0,)
    assert discrete_gaussian(5, size=(2, 3)).dtype == np.int64
