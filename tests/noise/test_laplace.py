"""Geometric and discrete Laplace draws have the textbook mass function at every scale, in the middle, in the tails and in the low bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.noise.reference import ALL_ONES, LEVEL, binomial_p, chi_square, laplace_below, laplace_mass, real, scripted

from tacit.accounting import ParameterError
from tacit.noise import discrete_laplace, enclosed, geometric, laplace, test_mode
from tacit.noise.laplace import GeometricLaw, coarsening, geometric_law

DRAWS = 200_000
Sampler = Callable[[Fraction, int], NDArray[Any]]


def fit(sample: Sampler, scale: Fraction, seed: int = 1) -> float:
    """The p-value of draws in cells of about equal probability, by the closed form of the distribution function."""
    width = max(1, round(float(scale) / 8))
    reach = max(3, round(math.log(DRAWS / 40) * float(scale)) // width)
    edges = [width * i for i in range(-reach, reach + 1)]
    with mpmath.workdps(40):
        below = [laplace_below(scale, edge) for edge in edges]
        probabilities = [b - a for a, b in pairwise(below)]
        with test_mode(seed):
            values = sample(scale, DRAWS)
        counts = [int(((values >= a) & (values < b)).sum()) for a, b in pairwise(edges)]
        kept = [i for i, p in enumerate(probabilities) if p * DRAWS >= 10]
        return chi_square([counts[i] for i in kept], [probabilities[i] for i in kept], DRAWS)


SCALES = [Fraction(1, 2), Fraction(1), Fraction(10, 3), Fraction(64), Fraction(65), Fraction(1000), Fraction(10**6), Fraction(10**15 + 1)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_discrete_laplace_fits_its_mass_function(scale: Fraction) -> None:
    assert fit(discrete_laplace, scale) > LEVEL


def doubled_zero(scale: Fraction, count: int) -> NDArray[Any]:
    """A mutant: a random sign on a geometric draw reaches zero in two ways."""
    return geometric(scale, count) * np.random.default_rng(1).choice([-1, 1], count)


def rounded(scale: Fraction, count: int) -> NDArray[Any]:
    """A mutant: continuous noise rounded, which is another law."""
    return np.rint(np.random.default_rng(1).laplace(0, float(scale), count))


def too_narrow(scale: Fraction, count: int) -> NDArray[Any]:
    """A mutant: five per cent less noise."""
    return discrete_laplace(scale * Fraction(19, 20), count)


@pytest.mark.parametrize(
    ("mutant", "scale"),
    [(doubled_zero, 1), (doubled_zero, 10), (rounded, Fraction(1, 2)), (rounded, 1), (too_narrow, 10), (too_narrow, 10**6)],
    ids=["doubled zero 1", "doubled zero 10", "rounded 1/2", "rounded 1", "narrow 10", "narrow 1e6"],
)
def test_wrong_samplers_fail_the_same_check(mutant: Sampler, scale: Fraction) -> None:
    assert fit(mutant, Fraction(scale)) < LEVEL


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(50), Fraction(4000), Fraction(10**9)], ids=str)
def test_geometric_fits_its_mass_function(scale: Fraction) -> None:
    width = max(1, round(float(scale) / 8))
    cells = [i for i in range(200) if math.exp(-width * (i + 1) / float(scale)) * DRAWS * width / float(scale) > 20]
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / real(scale))
        probabilities = [q ** (width * i) - q ** (width * (i + 1)) for i in cells]
        with test_mode(2):
            values = geometric(scale, DRAWS)
        assert values.min() >= 0
        counts = [int((values // width == i).sum()) for i in cells]
        assert chi_square(counts, probabilities, DRAWS) > LEVEL
        assert chi_square(counts, probabilities[1:] + probabilities[:1], DRAWS) < LEVEL


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 2)], ids=str)
def test_enumeration_gives_the_mass_function(scale: Fraction) -> None:
    """All 2^64 words, found by bisection because cells are runs of words: each value gets its mass times 2^64, but for two words."""
    law = geometric_law(scale, True)
    cells = 2 * law.count + 2
    low, high = np.zeros(cells - 1, dtype=np.uint64), np.full(cells - 1, ALL_ONES, dtype=np.uint64)

    def cell_of(words: NDArray[np.uint64]) -> NDArray[np.intp]:
        with scripted([], then=0):
            return law.table.lookup(words)

    for _ in range(64):  # the first word in cell i + 1 or later
        middle = low + (high - low) // np.uint64(2)
        inside = cell_of(middle) > np.arange(cells - 1)
        high, low = np.where(inside, middle, high), np.where(inside, low, middle + np.uint64(1))
    starts = [0, *high.tolist(), 2**64]
    with mpmath.workdps(60):
        for value in range(-law.count, law.count):
            cell = value if value >= 0 else law.count + 1 + (-1 - value)
            # The public function, given a word of this cell, returns this value.
            with scripted([starts[cell]], then=0):
                assert discrete_laplace(scale, size=1).tolist() == [value]
            words = starts[cell + 1] - starts[cell]
            assert abs(words - mpmath.ldexp(laplace_mass(scale, value), 64)) <= 2
        beyond = 2**64 - sum(starts[c + 1] - starts[c] for c in range(cells) if c not in (law.count, cells - 1))
        assert abs(beyond - mpmath.ldexp(2 * mpmath.exp(-law.count / real(scale)) / (1 + mpmath.exp(-1 / real(scale))), 64) * (
            1 + mpmath.exp(-1 / real(scale))
        ) / 2) <= 4 * cells


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(200)], ids=str)
def test_the_law_goes_on_beyond_the_table(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tables that end after one scale a third of all draws start again, some many times; nothing changes."""
    monkeypatch.setattr(laplace, "REACH", 1)
    law = GeometricLaw(scale, two_sided=True)

    def short(_: Fraction, count: int) -> NDArray[Any]:
        return law.draw(count)

    def cut(_: Fraction, count: int) -> NDArray[Any]:
        end = law.count << law.bits
        return np.clip(law.draw(count), -end, end)

    assert fit(short, scale) > LEVEL
    assert fit(cut, scale) < LEVEL


def test_tails() -> None:
    """Draws beyond 10 scales: their number is binomial with the exact probability; a table that ended there would give none."""
    draws = 2_000_000
    for seed, scale in enumerate((Fraction(3), Fraction(1000))):
        with test_mode(seed):
            values = discrete_laplace(scale, draws)
        for multiple in (10, 11):
            beyond = float(2 * laplace_below(scale, -multiple * int(scale)))
            count = int((np.abs(values) > multiple * int(scale)).sum())
            assert beyond * draws > 20
            assert binomial_p(count, draws, beyond) > LEVEL
            assert binomial_p(0, draws, beyond) < LEVEL


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(100), Fraction(10**7)], ids=str)
def test_moments(scale: Fraction) -> None:
    """Mean 0, variance 2 q / (1 - q)^2, E|K| = 2 q / (1 - q^2), within 5 deviations of their estimates."""
    with test_mode(4):
        values = discrete_laplace(scale, DRAWS).astype(float)
    q = math.exp(-1 / float(scale))
    variance, magnitude = 2 * q / math.expm1(-1 / float(scale)) ** 2, 2 * q / -math.expm1(-2 / float(scale))
    assert abs(values.mean()) < 5 * math.sqrt(variance / DRAWS)
    assert abs(np.abs(values).mean() - magnitude) < 5 * math.sqrt((variance - magnitude**2) / DRAWS)
    fourth = (values**4).mean()
    assert abs((values**2).mean() - variance) < 5 * math.sqrt((fourth - variance**2) / DRAWS)


@pytest.mark.parametrize("scale", [Fraction(1000), Fraction(2**40)], ids=["1000", "2^40"])
def test_low_bits_are_those_of_the_law(scale: Fraction) -> None:
    """k mod 8 is all but uniform for a wide law, whatever the sign and the other bits."""
    with test_mode(5):
        values = discrete_laplace(scale, DRAWS)
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / real(scale))
        probabilities = [q**r * (1 - q) / (1 - q**8) for r in range(8)]
    for part in (values[values >= 0], -1 - values[values < 0], values[(values >= 0) & (values % 16 < 8)]):
        counts = np.bincount((part % 8).astype(int), minlength=8)
        assert chi_square(counts, probabilities, len(part)) > LEVEL
        odd = counts * np.array([0.9, 1.1] * 4)  # a mutant: odd values come more often
        assert chi_square(odd, probabilities, int(odd.sum())) < LEVEL


def test_the_remainder_leans_to_zero() -> None:
    """Within a step of the quotient the law falls by 3 per cent, which two million draws see; a uniform remainder is caught."""
    draws, bits = 2_000_000, 20
    scale = Fraction(33 * 2**bits)
    assert coarsening(scale, 64) == bits
    with test_mode(9):
        eighths = (geometric(scale, draws) % 2**bits) >> bits - 3
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(1) / (33 * 8))
        probabilities = [q**r * (1 - q) / (1 - q**8) for r in range(8)]
    assert chi_square(np.bincount(eighths, minlength=8), probabilities, draws) > LEVEL
    uniform = np.random.default_rng(1).integers(0, 8, draws)
    assert chi_square(np.bincount(uniform, minlength=8), probabilities, draws) < LEVEL


def test_the_sign_has_the_probability_of_the_whole_law() -> None:
    """P(K < 0) = q / (1 + q) with q of the whole scale, not that of the quotient, which two million signs tell apart."""
    draws, scale = 2_000_000, 33 * 2**20
    with test_mode(11):
        negative = int((discrete_laplace(scale, draws) < 0).sum())
    assert binomial_p(negative, draws, float(laplace_below(scale, 0))) > LEVEL
    assert binomial_p(negative, draws, float(laplace_below(33, 0))) < LEVEL


def test_the_exact_path_gives_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every acceptance settled in integers nothing changes, word for word."""
    with test_mode(12):
        fast = discrete_laplace(1000, 2000)
    monkeypatch.setattr(enclosed, "MARGIN", 2.0)
    with test_mode(12):
        assert (discrete_laplace(1000, 2000) == fast).all()


def test_huge_scales_are_python_integers() -> None:
    with test_mode(6):
        values = discrete_laplace(Fraction(10) ** 30, 4000)
        single = discrete_laplace(1e300)
        wide = geometric(2.0**1000, 3)
    assert values.dtype == object and all(type(v) is int for v in values)
    assert type(single) is int and wide.dtype == object
    sizes = np.array([abs(v) / 1e30 for v in values])
    assert abs(sizes.mean() - 1) < 5 / math.sqrt(4000)
    # All low bits are in play: 64 bits of the value are uniform, to 1 in 1e20.
    low = np.array([v % 16 for v in values])
    assert chi_square(np.bincount(low, minlength=16), [1 / 16] * 16, 4000) > LEVEL


def test_huge_scales_fit() -> None:
    with test_mode(8):
        values = discrete_laplace(10**30, 20_000)
    edges = [i * 10**29 for i in range(-40, 41)]
    counts = [int(sum(a <= v < b for v in values)) for a, b in pairwise(edges)]
    probabilities = [laplace_below(10**30, b) - laplace_below(10**30, a) for a, b in pairwise(edges)]
    assert chi_square(counts, probabilities, 20_000) > LEVEL


def test_tiny_scales() -> None:
    """At epsilon = 50 anything but zero has probability 3.9e-22; at scale 1e-300 not even the exponent fits a float."""
    assert float(2 * laplace_below(Fraction(1, 50), 0)) == pytest.approx(3.857e-22, rel=1e-3)
    for scale in (Fraction(1, 50), 1e-3, 1e-300):
        assert not discrete_laplace(scale, 1000).any() and not geometric(scale, 1000).any()
    with scripted([ALL_ONES], then=0):  # the one word in 2^64 that may lead elsewhere is settled, not guessed
        assert discrete_laplace(Fraction(1, 1000), size=1).tolist() == [0]


def test_a_float_stands_for_its_exact_value() -> None:
    with test_mode(1):
        a = discrete_laplace(0.1, 50)
    with test_mode(1):
        assert (discrete_laplace(Fraction(3602879701896397, 36028797018963968), 50) == a).all()
    assert geometric_law(Fraction(0.1), True) is not geometric_law(Fraction(1, 10), True)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 3), Fraction(64), 64 + Fraction(1, 10**9), Fraction(10**50, 7)], ids=["1/3", "64", "64+", "1e50/7"]
)
def test_coarsening_is_the_least_that_suffices(scale: Fraction) -> None:
    bits = coarsening(scale, 64)
    assert scale / 2**bits <= 64
    assert bits == 0 or scale / 2 ** (bits - 1) > 64


@pytest.mark.parametrize("draw", [discrete_laplace, geometric])
@pytest.mark.parametrize(
    "bad", [0, -1, -0.0, math.nan, math.inf, -math.inf, "1", None, True, 1j, Decimal(1), [1.0], Fraction(-1, 3), 10**400], ids=repr
)
def test_bad_scales_are_refused_by_name(draw: Callable[..., Any], bad: Any) -> None:
    with pytest.raises(ParameterError, match="scale"):
        draw(bad)
    with pytest.raises(ParameterError, match="scale"):
        draw(bad, size=0)


@pytest.mark.parametrize("bad", [-1, 1.5, "3", (2, -1), math.nan, (1, None)], ids=repr)
def test_bad_sizes_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match="size"):
        discrete_laplace(1, size=bad)


def test_shapes_and_types() -> None:
    assert type(discrete_laplace(5)) is int and type(geometric(np.float64(5))) is int
    assert discrete_laplace(5, size=0).shape == (0,)
    assert discrete_laplace(1000, size=(2, 0, 3)).shape == (2, 0, 3)
    assert discrete_laplace(np.int64(5), size=(2, 3)).dtype == np.int64
    assert geometric(Fraction(7, 3), size=()).shape == ()
