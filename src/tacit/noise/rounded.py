"""Continuous Laplace and Gaussian noise rounded to the nearest integer, exactly.

For a whole number x, round(x + Z) is x + round(Z). So adding one of these to an integer is the textbook mechanism with real noise, followed
by rounding: post-processing, with the textbook's price on any lattice and in any dimension.

>>> rounded_laplace(2, size=1000).dtype, rounded_gaussian(Fraction(5, 2), size=(2, 3)).shape
(dtype('int64'), (2, 3))

*Laplace.* |Z| is exponential, so it is below 1/2 with probability 1 - exp(-1 / (2 scale)), and what lies beyond 1/2 is exponential again:
its whole part is geometric.

*Gaussian.* Write |Z| = 2^b (m + f) with m whole, 0 <= f < 1, and s = sigma / 2^b between 32 and 64. A table proposes m with weight
exp(-m^2 / (2 s^2)), f is uniform, and the pair is accepted with probability exp(-f (2 m + f) / (2 s^2)), on average about 0.98:
together the density of |Z|. Rounding needs b + 1 bits of f. The acceptance test uses 64 more, and in the one case in about 1e12 that
those do not decide, further bits of f and of the uniform it is compared with, until proven bounds of the exponential do.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.noise.coin import bernoulli_exp
from tacit.noise.draws import Integers, Size, accepted, hand_out, join, random_bits
from tacit.noise.entropy import WORD, Words
from tacit.noise.exponential import MARGIN, below, exp_bounds, rough_exp
from tacit.noise.gaussian import LARGEST, gaussian_law
from tacit.noise.laplace import geometric_law
from tacit.noise.source import words
from tacit.parameters import Number, positive


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


class RoundedLaplaceLaw:
    """The law of a rounded Laplace variable."""

    def __init__(self, scale: Fraction) -> None:
        self.steps = geometric_law(scale, False)
        self.half = 1 / (2 * scale)

    def draw(self, count: int) -> Integers:
        beyond: Words = bernoulli_exp(self.half, count)  # 1 where |Z| is beyond 1/2
        sign = 1 - 2 * random_bits(1, count)
        found: Integers = self.steps.draw(count)
        if found.dtype != object and len(found) and int(found.max()) >> 61:
            found = found.astype(object)
        signed: Integers = (found + 1) * beyond * sign
        return signed


@lru_cache(maxsize=64)
def rounded_laplace_law(scale: Fraction) -> RoundedLaplaceLaw:
    """The law with its table, kept for the next draw."""
    return RoundedLaplaceLaw(scale)


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


@overload
def rounded_laplace(scale: Number, size: None = None) -> int: ...
@overload
def rounded_laplace(scale: Number, size: Size) -> NDArray[Any]: ...
def rounded_laplace(scale: Number, size: Size | None = None) -> int | NDArray[Any]:
    """round(Z) for Z with density exp(-|z| / scale) / (2 scale).

    One Python integer, or an array of int64 in the shape of `size`; of Python integers where the scale exceeds 2^55.

    >>> rounded_laplace(Fraction(1, 1000), size=3).tolist()  # anything but 0 has probability 1e-217
    [0, 0, 0]
    """
    exact = Fraction(positive("scale", scale))
    return hand_out(("rounded laplace", exact), rounded_laplace_law(exact).draw, size)
