"""Laplace noise on the whole numbers with any rational scale, exactly: geometric, discrete, and rounded from
the real law.

With q = exp(-1 / scale), `geometric` gives k >= 0 with probability (1 - q) q^k, and `discrete_laplace` any
integer k with probability (1 - q) / (1 + q) q^|k|: the two-sided geometric law of Ghosh, Roughgarden and
Sundararajan (2012).

`rounded_laplace` is continuous Laplace noise rounded to the nearest integer. For a whole number x, round(x +
Z) is x + round(Z): adding it to an integer is the textbook mechanism with real noise, followed by rounding,
with the textbook's price.

>>> discrete_laplace(2, size=1000).dtype, rounded_laplace(2, size=1000).dtype
(dtype('int64'), dtype('int64'))
>>> geometric(Fraction(1, 3)) >= 0
True

Three facts make the draw a table look-up, with nothing rounded:

- A discrete Laplace variable is m with probability 1 / (1 + q) and -1 - m otherwise, with m geometric. No value is rejected for being a
  second zero.
- The quotient and the remainder of m by 2^b are independent. The quotient is geometric of scale / 2^b, which is at most 64; the
  remainder r is uniform below 2^b, accepted with probability exp(-r / scale), which is more than exp(-1/32).
- The law is memoryless: beyond the end of its table the quotient starts again.

For real noise |Z| is exponential, so it is below 1/2 with probability 1 - exp(-1 / (2 scale)), and what lies
beyond 1/2 is exponential again: its whole part is geometric.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.noise.enclosed import Table, below_exp, bernoulli_exp, exp_bounds, power_bounds
from tacit.noise.source import Integers, Size, Words, accepted, hand_out, join, random_bits, words
from tacit.parameters import Number, positive

LARGEST = 64  # scale of a quotient
REACH = 20  # scales held in a table: beyond lies exp(-20)


@dataclass(frozen=True)
class GeometricWeights:
    """exp(-i / scale) for i < count and the whole rest, then the same `ratio` times, ratio = exp(-1 / fine), if `fine` is given."""

    scale: Fraction
    count: int
    fine: Fraction | None = None

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        low, high = power_bounds(1 / self.scale, self.count + 1, bits)
        # The rest is q^count / (1 - q), and 1 - q is at least 1/65.
        low[-1] = (low[-1] << bits) // ((1 << bits) - low[1])
        high[-1] = -((-high[-1] << bits) // ((1 << bits) - high[1]))
        if self.fine is not None:
            ratio_low, ratio_high = exp_bounds(1 / self.fine, bits)
            low += [weight * ratio_low >> bits for weight in low]
            high += [-(-weight * ratio_high >> bits) for weight in high]
        return low, high


class GeometricLaw:
    """The geometric law of a scale, one- or two-sided."""

    def __init__(self, scale: Fraction, *, two_sided: bool) -> None:
        self.scale = scale
        self.two_sided = two_sided
        self.bits = coarsening(scale, LARGEST)
        quotient = scale / 2**self.bits
        self.count: int = -(-REACH * quotient.numerator // quotient.denominator)
        self.table = Table.of(GeometricWeights(quotient, self.count, scale if two_sided else None))

    def draw(self, count: int) -> Integers:
        cells = self.table.draw(count)
        magnitude = self._magnitude(cells)
        if self.bits:
            magnitude = join(magnitude, self._remainder(count), self.bits)
        return np.where(cells > self.count, -1 - magnitude, magnitude) if self.two_sided else magnitude

    def _magnitude(self, cells: NDArray[np.intp]) -> Integers:
        """The quotient: which of its table's cells, and again from its end for the last one."""
        found: Integers = (cells % (self.count + 1)).astype(np.int64)
        beyond = np.flatnonzero(found == self.count)
        if len(beyond):
            found[beyond] += self._magnitude(self.table.draw(len(beyond)))
        return found

    def _remainder(self, count: int) -> Integers:
        step = 1 << self.bits
        ratio, shrink = float(step / self.scale), 2.0**-self.bits

        def propose(missing: int) -> tuple[Integers, NDArray[np.bool_]]:
            found = random_bits(self.bits, missing)
            exponent = found.astype(np.float64) * shrink * ratio
            return found, below_exp(words(missing), exponent, lambda i: int(found[i]) / self.scale)

        return accepted(propose, count)


def coarsening(scale: Fraction, largest: int) -> int:
    """The least b >= 0 with scale / 2^b <= largest.

    >>> coarsening(Fraction(64), 64), coarsening(Fraction(129, 2), 64), coarsening(Fraction(10**6), 64)
    (0, 1, 14)
    """
    return ((-(-scale.numerator // scale.denominator) - 1) // largest).bit_length()


@lru_cache(maxsize=64)
def geometric_law(scale: Fraction, two_sided: bool) -> GeometricLaw:
    """The law with its table, kept for the next draw: parameters of noise are public."""
    return GeometricLaw(scale, two_sided=two_sided)


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
def discrete_laplace(scale: Number, size: None = None) -> int: ...
@overload
def discrete_laplace(scale: Number, size: Size) -> NDArray[Any]: ...
def discrete_laplace(scale: Number, size: Size | None = None) -> int | NDArray[Any]:
    """Integers k with probability proportional to exp(-|k| / scale).

    One Python integer, or an array of int64 in the shape of `size`; of Python integers where the scale exceeds 2^55.

    >>> discrete_laplace(Fraction(1, 1000), size=3).tolist()  # anything but 0 has probability 1e-434
    [0, 0, 0]
    """
    exact = Fraction(positive("scale", scale))
    return hand_out(("laplace", exact), geometric_law(exact, True).draw, size)


@overload
def geometric(scale: Number, size: None = None) -> int: ...
@overload
def geometric(scale: Number, size: Size) -> NDArray[Any]: ...
def geometric(scale: Number, size: Size | None = None) -> int | NDArray[Any]:
    """Integers k >= 0 with probability (1 - q) q^k, where q = exp(-1 / scale).

    >>> geometric(5, size=(2, 3)).shape
    (2, 3)
    """
    exact = Fraction(positive("scale", scale))
    return hand_out(("geometric", exact), geometric_law(exact, False).draw, size)


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
