"""Oracles for the samplers, sharing no code with them: exact masses in mpmath, a chi-square test, and a source with scripted words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtrc, ndtr

from tacit.noise import source

DIGITS = 60
LEVEL = 1e-6  # of tests on fixed seeds: they pass once and for all; a wrong law must fall below
LIVE = 1e-9  # the chance that a right sampler fails a test on live entropy
ALL_ONES = 2**64 - 1


def real(x: Fraction | float) -> Any:
    exact = Fraction(x)
    return mpmath.mpf(exact.numerator) / exact.denominator


@mpmath.workdps(DIGITS)
def laplace_mass(scale: Fraction | float, k: int) -> Any:
    """(1 - q) / (1 + q) q^|k| = tanh(1 / (2 scale)) exp(-|k| / scale)."""
    return mpmath.tanh(1 / (2 * real(scale))) * mpmath.exp(-abs(k) / real(scale))


@mpmath.workdps(DIGITS)
def laplace_below(scale: Fraction | float, k: int) -> Any:
    """P(K < k)."""
    q = mpmath.exp(-1 / real(scale))
    return q ** (1 - k) / (1 + q) if k <= 0 else 1 - q**k / (1 + q)


@mpmath.workdps(DIGITS)
def gaussian_total(sigma: Fraction | float) -> Any:
    """The sum of exp(-k^2 / (2 sigma^2)) over all integers, by the theta function."""
    return mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * real(sigma) ** 2)))


@mpmath.workdps(DIGITS)
def gaussian_mass(sigma: Fraction | float, k: int) -> Any:
    return mpmath.exp(-(k**2) / (2 * real(sigma) ** 2)) / gaussian_total(sigma)


def gaussian_below(sigma: Fraction | float, k: int) -> float:
    """P(K < k) by the normal law at half-integers: within 1 / (24 sigma^2) of the truth, for large sigma only."""
    assert sigma >= 1e4
    return float(ndtr((k - 0.5) / float(sigma)))


def chi_square(counts: Sequence[int] | NDArray[Any], probabilities: Sequence[Any], draws: int) -> float:
    """The p-value of these counts, with all that is not counted as one more cell; cells are expected to hold 10 or more."""
    observed = [int(c) for c in counts]
    expected = [float(p) * draws for p in probabilities]
    rest = draws * float(1 - mpmath.fsum(probabilities))
    if rest >= 10:
        observed.append(draws - sum(observed))
        expected.append(rest)
    else:  # too rare for a cell of its own
        observed[-1] += draws - sum(observed)
        expected[-1] += max(rest, 0)
    assert min(expected) >= 10 and abs(sum(expected) - draws) < 1e-6 * draws
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(chdtrc(len(observed) - 1, statistic))


def binomial_p(count: int, draws: int, probability: float) -> float:
    """Twice the smaller tail."""
    return float(2 * min(bdtr(count, draws, probability), bdtrc(count - 1, draws, probability) if count else 1.0, 0.5))


class Scripted:
    """A source that hands out the given words, then `then` for ever, and counts them."""

    def __init__(self, script: Sequence[int] | NDArray[Any], then: int | None = None) -> None:
        self.script = np.asarray(script, dtype=np.uint64)
        self.then = then
        self.used = 0

    private = False

    def words(self, count: int) -> NDArray[np.uint64]:
        end = self.used + count
        if end > len(self.script):
            assert self.then is not None, "the script is at its end"
            self.script = np.concatenate([self.script, np.full(end - len(self.script), self.then, dtype=np.uint64)])
        taken = self.script[self.used : end].copy()
        self.used = end
        return taken


@contextmanager
def scripted(script: Sequence[int] | NDArray[Any], then: int | None = None) -> Iterator[Scripted]:
    """Draws inside use exactly these words."""
    made = Scripted(script, then)
    token = source._current.set(made)
    try:
        yield made
    finally:
        source._current.reset(token)


def spearman_z(times: NDArray[Any], sizes: NDArray[Any]) -> float:
    """Rank correlation over its deviation: standard normal if the draws are independent of the clock, however that drifts."""

    def ranks(x: NDArray[Any]) -> NDArray[np.float64]:
        _, place, repeats = np.unique(x, return_inverse=True, return_counts=True)
        middle = np.cumsum(repeats) - (repeats - 1) / 2
        return middle[place] - (len(x) + 1) / 2

    a, b = ranks(times), ranks(sizes)
    return float((a @ b) / math.sqrt((a @ a) * (b @ b)) * math.sqrt(len(a) - 1))
