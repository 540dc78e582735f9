"""Poisson and Skellam numbers of any rational mean or variance, exactly and in bulk.

A Poisson variable of mean m is k with probability e^-m m^k / k!. Weights relative to the mode follow from
each other by the rational factors m / k, so a table of them is as exact as one likes. A Skellam variable is
the difference of two independent Poisson ones; sums of Skellam variables are Skellam, which is what noise in
shares needs.

>>> poisson(Fraction(5, 2), size=1000).dtype, skellam(100, size=(2, 3)).shape
(dtype('int64'), (2, 3))

Beyond the ends of a table (8 standard deviations and more from the mode, a chance below 1e-14) the law is
drawn by rejection: above the last cell K the weights are m^j / ((K + 1) .. (K + j)), so j is geometric of
ratio m / K, accepted with the product of K / (K + i); below the first cell they fall by k / m, and a
geometric number of ratio K / m is accepted with the product of (K - i) / K. Both take rational coins.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.noise.enclosed import Table, bernoulli
from tacit.noise.source import Integers, Size, hand_out
from tacit.parameters import Number, nonnegative

REACH = 9  # standard deviations on each side of the mode that a table covers, and as many numbers more
LARGEST = 2**30  # a greater mean would need a table of more than half a million cells
_SMALL = 1 << 20  # units of a weight that is negligible: a table asks for 64 bits more than it decides by


class PoissonWeights:
    """Weights of low .. high, then of all that is above and, where there is any, of all that is below; the
    mode has weight 1."""

    def __init__(self, mean: Fraction, low: int, high: int) -> None:
        self.mean, self.low, self.high = mean, low, high

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        """Integers around 2^bits times each weight. Every step rounds once, so after k steps they are at
        most k apart."""
        mode = int(self.mean)
        up_low, up_high, above = self._rising(bits)
        down_low, down_high, below = self._falling(bits)
        right, left = self.high - mode, mode - self.low
        least = [*reversed(down_low[:left]), 1 << bits, *up_low[:right], sum(up_low[right:])]
        most = [*reversed(down_high[:left]), 1 << bits, *up_high[:right], sum(up_high[right:]) + above]
        if self.low > 0:
            least.append(sum(down_low[left:]))
            most.append(sum(down_high[left:]) + below)
        return least, most

    def _rising(self, bits: int) -> tuple[list[int], list[int], int]:
        """Weights above the mode until they are negligible, and a bound on what follows: each is at most m /
        k of the one before."""
        top, under, k = self.mean.numerator, self.mean.denominator, int(self.mean)
        low, high = [], []
        a = b = 1 << bits
        while k <= self.high or b > _SMALL:
            k += 1
            a, b = a * top // (under * k), -(-b * top // (under * k))
            low.append(a)
            high.append(b)
        return low, high, int(b / (1 - self.mean / (k + 1))) + 1

    def _falling(self, bits: int) -> tuple[list[int], list[int], int]:
        """The same below the mode, where each is k / m of the one before; the last is that of 0."""
        top, under, k = self.mean.numerator, self.mean.denominator, int(self.mean)
        low, high = [], []
        a = b = 1 << bits
        while k > 0 and (k >= self.low or b > _SMALL):
            a, b = a * under * k // top, -(-b * under * k // top)
            k -= 1
            low.append(a)
            high.append(b)
        return low, high, (int(b / (1 - k / self.mean)) + 1 if k > 0 else 0)


class PoissonLaw:
    """The Poisson law of a mean, with its table."""

    def __init__(self, mean: Fraction) -> None:
        self.mean = mean
        mode = int(mean)
        reach = REACH * (isqrt(mode) + 1) + REACH
        self.low, self.high = max(0, mode - reach), mode + reach
        self.table = Table.of(PoissonWeights(mean, self.low, self.high))

    def draw(self, count: int) -> Integers:
        """So many numbers; a cell beyond an end of the table is replaced by a draw from there."""
        found: Integers = self.table.draw(count).astype(np.int64)
        found += self.low
        for i in np.flatnonzero(found > self.high).tolist():
            found[i] = self._above() if found[i] == self.high + 1 else self._below()
        return found

    def _above(self) -> int:
        """A number given that it is above the table's last."""
        start = self.high + 1
        ratio = self.mean / start
        while True:
            more = _geometric(ratio)
            if all(bernoulli(Fraction(start, start + i)) for i in range(1, more + 1)):
                return start + more

    def _below(self) -> int:
        """A number given that it is below the table's first."""
        start = self.low - 1
        ratio = start / self.mean
        while True:
            less = _geometric(ratio)
            if less <= start and all(bernoulli(Fraction(start - i + 1, start)) for i in range(1, less + 1)):
                return start - less


def _geometric(ratio: Fraction) -> int:
    """k with probability (1 - ratio) ratio^k."""
    found = 0
    while ratio and bernoulli(ratio):
        found += 1
    return found


@lru_cache(maxsize=64)
def poisson_law(mean: Fraction) -> PoissonLaw:
    """The law with its table, kept for the next draw: parameters of noise are public."""
    return PoissonLaw(mean)


@overload
def poisson(mean: Number, size: None = None) -> int: ...
@overload
def poisson(mean: Number, size: Size) -> NDArray[Any]: ...
def poisson(mean: Number, size: Size | None = None) -> int | NDArray[Any]:
    """Integers k >= 0 with probability e^-mean mean^k / k!; one Python integer, or an array of int64 in the
    shape of `size`.

    >>> poisson(0)
    0
    """
    exact = _checked("mean", mean)
    if exact == 0:
        return 0 if size is None else np.zeros(size, dtype=np.int64)
    return hand_out(("poisson", exact), poisson_law(exact).draw, size)


@overload
def skellam(variance: Number, size: None = None) -> int: ...
@overload
def skellam(variance: Number, size: Size) -> NDArray[Any]: ...
def skellam(variance: Number, size: Size | None = None) -> int | NDArray[Any]:
    """The difference of two independent Poisson numbers of mean variance / 2: symmetric, of this variance.

    >>> skellam(0, size=3).tolist()
    [0, 0, 0]
    """
    half = _checked("variance", variance) / 2
    if half == 0:
        return 0 if size is None else np.zeros(size, dtype=np.int64)
    law = poisson_law(half)
    return hand_out(("skellam", half), lambda count: law.draw(count) - law.draw(count), size)


def _checked(name: str, value: Number) -> Fraction:
    exact = Fraction(nonnegative(name, value))
    if exact > LARGEST:
        raise ParameterError(
            f"{name} must be at most 2^30, not {float(exact):.6g}; "
            "use discrete Gaussian noise, or a coarser lattice"
        )
    return exact
