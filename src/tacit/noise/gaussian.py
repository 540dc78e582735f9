"""Gaussian noise on the whole numbers with any rational sigma, exactly: discrete, and rounded from the real law.

`discrete_gaussian` gives an integer k with probability proportional to exp(-k^2 / (2 sigma^2)), as in
Canonne, Kamath and Steinke (2020). `rounded_gaussian` is continuous Gaussian noise rounded to the nearest
integer. For a whole number x, round(x + Z) is x + round(Z): adding it to an integer is the textbook mechanism
with real noise, followed by rounding, with the textbook's price on any lattice, in any dimension.

>>> discrete_gaussian(3, size=1000).dtype, rounded_gaussian(Fraction(5, 2), size=(2, 3)).shape
(dtype('int64'), (2, 3))

*Discrete.* Up to sigma = 64 the draw is one table look-up. Beyond, write t = 2^b m + r with sigma / 2^b at
most 64. The table gives m >= 0 with weight exp(-(2^b m)^2 / (2 sigma^2)); a fair sign s in {0, 1} and a
uniform r' below 2^b give r = r' + s; and t is accepted with probability exp(-(t^2 - (2^b m)^2) / (2
sigma^2)), on average at least 0.98. With s = 0 every t >= 0 is so reached in one way and becomes t; with s =
1 every t >= 1, and becomes -t. Each integer is proposed and accepted with a product proportional to its
weight, so the law is exact.

Beyond the end K of a table (8 sigma, a chance below 1e-14) the law is drawn by rejection: K + j has weight
proportional to exp(-j K / sigma^2) exp(-j^2 / (2 sigma^2)), so j is geometric of scale sigma^2 / K, accepted
with probability exp(-j^2 / (2 sigma^2)).

*Rounded.* Write |Z| = 2^b (m + f) with m whole, 0 <= f < 1, and s = sigma / 2^b between 32 and 64. A table
proposes m with weight exp(-m^2 / (2 s^2)), f is uniform, and the pair is accepted with probability exp(-f (2
m + f) / (2 s^2)), on average about 0.98: together the density of |Z|. Rounding needs b + 1 bits of f. The
acceptance test uses 64 more, and in the one case in about 1e12 that those do not decide, further bits of f
and of the uniform it is compared with, until proven bounds of the exponential do.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.noise.enclosed import MARGIN, Table, below, below_exp, exp_bounds, rough_exp
from tacit.noise.laplace import coarsening, geometric_law
from tacit.noise.source import WORD, Integers, Size, accepted, hand_out, join, random_bits, words
from tacit.parameters import Number, positive

LARGEST = 64  # sigma of a table
REACH = 8  # sigmas held in a table


@dataclass(frozen=True)
class GaussianWeights:
    """exp(-k^2 / (2 variance)) for k < count, for -k as well if `two_sided`, and last the sum over all further k."""

    variance: Fraction
    count: int
    two_sided: bool

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        one = 1 << bits
        step_low, step_high = exp_bounds(1 / self.variance, bits)
        ratio_low, ratio_high = exp_bounds(1 / (2 * self.variance), bits)
        low, high = [one], [one]
        # w(k + 1) / w(k) = exp(-(2 k + 1) / (2 variance)), which falls by exp(-1 / variance) each time.
        while len(low) <= self.count or high[-1] > 1:
            low.append(low[-1] * ratio_low >> bits)
            high.append(-(-high[-1] * ratio_high >> bits))
            ratio_low, ratio_high = ratio_low * step_low >> bits, -(-ratio_high * step_high >> bits)
        # From k = N on the weights fall faster than exp(-y), y = N / variance, and their sum is at most w(N) (1 + 1 / y).
        last = len(low) - 1
        beyond_low = sum(low[self.count :])
        beyond_high = sum(high[self.count : last]) + high[last] * (2 + int(self.variance / last))
        low, high = low[: self.count], high[: self.count]
        if self.two_sided:
            return [*low, *low[1:], 2 * beyond_low], [*high, *high[1:], 2 * beyond_high]
        return [*low, beyond_low], [*high, beyond_high]


class GaussianLaw:
    """The discrete Gaussian law of a sigma."""

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma
        self.bits = coarsening(sigma, LARGEST)
        self.small = sigma / 2**self.bits
        self.count: int = -(-REACH * self.small.numerator // self.small.denominator)
        self.table = Table.of(GaussianWeights(self.small**2, self.count, two_sided=not self.bits))
        # What each cell of the table stands for; the last one stands for `count` and more.
        values = [*range(self.count), *((-k for k in range(1, self.count)) if not self.bits else ()), self.count]
        self.values = np.array(values, dtype=np.int64)

    def draw(self, count: int) -> Integers:
        if self.bits:
            return accepted(self._propose, count)
        found: Integers = self.values[self.table.draw(count)]
        found, beyond = self._beyond(found)
        for i in beyond:
            found[i] *= 1 - 2 * int(random_bits(1, 1)[0])
        return found

    def _propose(self, count: int) -> tuple[Integers, NDArray[np.bool_]]:
        quotient = self.quotients(count)
        drawn = random_bits(self.bits + 1, count)
        negative = (drawn & 1).astype(np.bool_)
        remainder = (drawn >> 1) + (drawn & 1)
        part = remainder.astype(np.float64) * 2.0**-self.bits
        exponent = part * (2 * quotient.astype(np.float64) + part) * float(1 / (2 * self.small**2))
        magnitude = join(quotient, remainder, self.bits)
        keep = below_exp(words(count), exponent, lambda i: self._exponent(int(quotient[i]), int(magnitude[i])))
        return np.where(negative, -magnitude, magnitude), keep

    def quotients(self, count: int) -> Integers:
        """Whole m >= 0 with probability proportional to exp(-m^2 / (2 small^2)), where sigma exceeds LARGEST."""
        return self._beyond(self.values[self.table.draw(count)])[0]

    def _exponent(self, quotient: int, magnitude: int) -> Fraction:
        return Fraction(magnitude**2 - (quotient << self.bits) ** 2) / (2 * self.sigma**2)

    def _beyond(self, found: Integers) -> tuple[Integers, list[int]]:
        """Replace the last cell by a draw from the law beyond the table; also say where."""
        places = np.flatnonzero(found == self.count).tolist()
        for i in places:
            more = self._tail()
            if more >> 62:
                found = found.astype(object)
            found[i] = more
        return found, places

    def _tail(self) -> int:
        """A draw from the law of k given k >= count."""
        steps = geometric_law(self.small**2 / self.count, False)
        while True:
            excess = int(steps.draw(1)[0])
            exponent = Fraction(excess**2) / (2 * self.small**2)
            if below(int(words(1)[0]), partial(exp_bounds, exponent)):
                return self.count + excess


@lru_cache(maxsize=64)
def gaussian_law(sigma: Fraction) -> GaussianLaw:
    """The law with its table, kept for the next draw: parameters of noise are public."""
    return GaussianLaw(sigma)


def shift(sigma: Fraction) -> int:
    """The whole b, of either sign, with 32 < sigma / 2^b <= 64.

    >>> shift(Fraction(64)), shift(Fraction(65)), shift(Fraction(1)), shift(Fraction(1, 1000))
    (0, 1, -6, -15)
    """
    bits = sigma.numerator.bit_length() - sigma.denominator.bit_length() - LARGEST.bit_length()
    while sigma > LARGEST * Fraction(2) ** bits:
        bits += 1
    while 2 * sigma <= LARGEST * Fraction(2) ** bits:
        bits -= 1
    return bits


class RoundedGaussianLaw:
    """The law of a rounded Gaussian variable of standard deviation sigma."""

    def __init__(self, sigma: Fraction) -> None:
        self.bits = shift(sigma)
        self.small = sigma / Fraction(2) ** self.bits
        self.half = gaussian_law(2 * self.small)  # its table has weights exp(-m^2 / (2 small^2)) on m >= 0
        self.rate = float(1 / (2 * self.small**2))

    def draw(self, count: int) -> Integers:
        return accepted(self._propose, count)

    def _propose(self, count: int) -> tuple[Integers, NDArray[np.bool_]]:
        whole = self.half.quotients(count)
        taken = max(self.bits + 1, 0)  # bits of f that rounding needs
        drawn = random_bits(taken + 1, count)
        negative, leading = (drawn & 1).astype(np.bool_), drawn >> 1
        rest, uniform = words(count), words(count)
        part = (leading.astype(np.float64) + rest * 2.0**-WORD) * 2.0**-taken
        gap = rough_exp(part * (2 * whole.astype(np.float64) + part) * self.rate) - uniform * 2.0**-WORD
        keep: NDArray[np.bool_] = gap > 0
        for i in np.flatnonzero(np.abs(gap) <= MARGIN).tolist():
            keep[i] = self._settle(int(whole[i]), int(leading[i]), taken, int(rest[i]), int(uniform[i]))
        back = -self.bits
        magnitude = join(whole, (leading + 1) >> 1, self.bits) if back <= 0 else (whole + (1 << back - 1)) >> back
        return np.where(negative, -magnitude, magnitude), keep

    def _settle(self, whole: int, leading: int, taken: int, rest: int, uniform: int) -> bool:
        """Whether the uniform lies under the probability of acceptance, both extended as far as it takes."""
        known = WORD

        def bounds(bits: int) -> tuple[int, int]:
            nonlocal rest, known
            while known < bits + WORD:
                rest, known = rest << WORD | int(words(1)[0]), known + WORD
            unit = Fraction(1, 1 << (taken + known))
            least = (leading << known | rest) * unit
            return exp_bounds(self._exponent(whole, least + unit), bits)[0], exp_bounds(self._exponent(whole, least), bits)[1]

        return below(uniform, bounds)

    def _exponent(self, whole: int, part: Fraction) -> Fraction:
        return part * (2 * whole + part) / (2 * self.small**2)


@lru_cache(maxsize=64)
def rounded_gaussian_law(sigma: Fraction) -> RoundedGaussianLaw:
    """The law with its table, kept for the next draw: parameters of noise are public."""
    return RoundedGaussianLaw(sigma)


@overload
def discrete_gaussian(sigma: Number, size: None = None) -> int: ...
@overload
def discrete_gaussian(sigma: Number, size: Size) -> NDArray[Any]: ...
def discrete_gaussian(sigma: Number, size: Size | None = None) -> int | NDArray[Any]:
    """Integers k with probability proportional to exp(-k^2 / (2 sigma^2)).

    One Python integer, or an array of int64 in the shape of `size`; of Python integers where sigma exceeds 2^55.

    >>> discrete_gaussian(Fraction(1, 100), size=3).tolist()  # anything but 0 has probability 1e-2171
    [0, 0, 0]
    """
    exact = Fraction(positive("sigma", sigma))
    return hand_out(("gaussian", exact), gaussian_law(exact).draw, size)


@overload
def rounded_gaussian(sigma: Number, size: None = None) -> int: ...
@overload
def rounded_gaussian(sigma: Number, size: Size) -> NDArray[Any]: ...
def rounded_gaussian(sigma: Number, size: Size | None = None) -> int | NDArray[Any]:
    """round(Z) for Z normal of mean 0 and standard deviation sigma: k has the probability of [k - 1/2, k + 1/2].

    One Python integer, or an array of int64 in the shape of `size`; of Python integers where sigma exceeds 2^55.

    >>> rounded_gaussian(Fraction(1, 100), size=3).tolist()  # anything but 0 has probability 1e-545
    [0, 0, 0]
    """
    exact = Fraction(positive("sigma", sigma))
    return hand_out(("rounded gaussian", exact), rounded_gaussian_law(exact).draw, size)
