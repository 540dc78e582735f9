"""Poisson and Skellam draws have their laws, in the table, beyond its ends and in bulk."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2
from scipy.stats import poisson as oracle
from scipy.stats import skellam as skellam_oracle

from tacit.errors import ParameterError
from tacit.noise import poisson, skellam
from tacit.noise.enclosed import Table
from tacit.noise.poisson import PoissonLaw, PoissonWeights


def fits(drawn: np.ndarray, mass: np.ndarray, values: np.ndarray) -> bool:
    """Chi-square over the values that are expected at least five times, and the rest as one cell: error rate
    1e-6."""
    often = mass * len(drawn) >= 5
    seen = np.array([(drawn == value).sum() for value in values[often]])
    seen, wanted = (
        np.append(seen, len(drawn) - seen.sum()),
        np.append(mass[often], 1 - mass[often].sum()) * len(drawn),
    )
    return bool(chi2.sf(((seen - wanted) ** 2 / np.maximum(wanted, 1e-9)).sum(), len(seen) - 1) > 1e-6)


@pytest.mark.parametrize(
    "mean", [Fraction(1, 10), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(1000, 3)]
)
def test_poisson_numbers_have_their_law(mean: Fraction) -> None:
    drawn = poisson(mean, size=60_000)
    values = np.arange(max(0, int(mean - 4 * math.sqrt(mean) - 2)), int(mean + 4 * math.sqrt(mean) + 4))
    assert fits(drawn, oracle.pmf(values, float(mean)), values)
    assert not fits(drawn + 1, oracle.pmf(values, float(mean)), values)  # the mutant: one too many


@pytest.mark.parametrize("variance", [0.2, 3, 150])
def test_skellam_numbers_have_their_law(variance: float) -> None:
    drawn = skellam(variance, size=60_000)
    values = np.arange(-int(4 * math.sqrt(variance)) - 2, int(4 * math.sqrt(variance)) + 3)
    assert fits(drawn, skellam_oracle.pmf(values, variance / 2, variance / 2), values)
    # the mutant: a tenth more variance
    assert not fits(
        skellam(variance * 1.1, size=60_000), skellam_oracle.pmf(values, variance / 2, variance / 2), values
    )


class Narrow(PoissonLaw):
    """A law whose table ends close to the mode, so that both tails are drawn from."""

    def __init__(self, mean: Fraction, low: int, high: int) -> None:
        self.mean, self.low, self.high = mean, low, high
        self.table = Table.of(PoissonWeights(mean, low, high))


def test_what_lies_beyond_the_table_has_its_law_too() -> None:
    values = np.arange(8, 35)
    assert fits(Narrow(Fraction(20), 18, 22).draw(2000), oracle.pmf(values, 20), values)
    assert fits(Narrow(Fraction(3, 2), 1, 1).draw(1000), oracle.pmf(np.arange(7), 1.5), np.arange(7))
    assert fits(Narrow(Fraction(3, 2), 0, 1).draw(1000), oracle.pmf(np.arange(7), 1.5), np.arange(7))


@pytest.mark.parametrize("mean", [Fraction(1, 3), Fraction(25, 2), Fraction(10**6, 7), Fraction(2**24)])
def test_weights_enclose_the_law(mean: Fraction) -> None:
    """Against high-precision masses: ratios to the mode, and the whole of both tails, within what a table
    may be off."""
    import mpmath

    law = PoissonLaw(mean)
    low, high = PoissonWeights(mean, law.low, law.high).bounds(160)
    assert (
        all(a <= b for a, b in zip(low, high, strict=True))
        and max(b - a for a, b in zip(low, high, strict=True)) < 2**40
    )
    with mpmath.workdps(60):
        m, mode = mpmath.mpf(mean.numerator) / mean.denominator, int(mean)
        for value in {law.low, mode, law.high, (mode + law.high) // 2}:
            log = (value - mode) * mpmath.log(m) - mpmath.loggamma(value + 1) + mpmath.loggamma(mode + 1)
            weight = mpmath.exp(log) * mpmath.mpf(2) ** 160
            place = value - law.low
            assert (
                low[place] * (1 - mpmath.mpf(10) ** -40)
                <= weight
                <= high[place] * (1 + mpmath.mpf(10) ** -40)
            )
        if mean > 10**6:
            return  # the oracle of the tail does not converge there
        above = mpmath.gammainc(law.high + 1, 0, m, regularized=True)
        mass = mpmath.exp(-m + mode * mpmath.log(m) - mpmath.loggamma(mode + 1))
        ahead = law.high - law.low + 1
        assert (
            low[ahead] * (1 - mpmath.mpf(10) ** -20)
            <= above / mass * mpmath.mpf(2) ** 160
            <= high[ahead] * (1 + mpmath.mpf(10) ** -20)
        )


def test_shapes_single_numbers_and_limits() -> None:
    assert isinstance(poisson(3), int) and isinstance(skellam(3), int)
    assert (
        poisson(3, size=(2, 4)).shape == (2, 4)
        and poisson(0, size=3).tolist() == [0, 0, 0]
        and skellam(0) == 0
    )
    assert skellam(2.0**26, size=4000).var() == pytest.approx(
        2.0**26, rel=0.11
    )  # 5 deviations of a variance from 4,000 numbers
    for wrong in (-1, math.nan, 2.0**31, math.inf, "3"):
        with pytest.raises(ParameterError):
            poisson(wrong)  # type: ignore[arg-type]
        with pytest.raises(ParameterError):
            skellam(wrong)  # type: ignore[arg-type]
