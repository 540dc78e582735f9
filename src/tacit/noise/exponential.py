"""Exponentials with proven error: integers that enclose exp(-x), and a fast filter whose doubts are settled by them.

`exp_bounds` works on integers only, so its enclosures are theorems at any precision:

>>> low, high = exp_bounds(Fraction(1), 64)
>>> low <= 6786177901268885274 < high, high - low <= 2  # 2^64 / e = 6786177901268885274.3...
(True, True)

`below_exp` decides for many uniforms at once whether each lies under its exp(-x). It first compares floating-point figures that are within
2^-40 of the truth; the one comparison in about 1e12 that this leaves open is settled by `below`, which extends the uniform with
further random words until `exp_bounds` decides. So floating point chooses how fast the answer comes, never what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tacit.noise.source import WORD, Words, words

Bounds = Callable[[int], tuple[int, int]]  # bits -> integers around 2^bits times a number
SMALL = 8  # Taylor's series is used below 2^-SMALL
MARGIN = 2.0**-40
STEPS = 16  # the filter holds a table of exp(-i / STEPS) up to CUTOFF
CUTOFF = 64  # exp(-64) < 2^-92 is far below the margin


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low <= 2^bits exp(-x) <= high and high - low <= 2, for rational x >= 0.

    >>> exp_bounds(Fraction(0), 8), exp_bounds(Fraction(10**6), 64)
    ((256, 256), (0, 1))
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # exp(-x) < 2^-bits; checked first, as x may have thousands of digits
        return 0, 1
    halvings = max(0, (x.numerator // x.denominator).bit_length() + SMALL)
    one = bits + halvings + 16  # squaring doubles the relative error each time
    scaled = (x.numerator << one) // (x.denominator << halvings)
    low, high = _reciprocal_series(scaled, scaled + 1, one)
    for _ in range(halvings):
        low, high = low * low >> one, -(-high * high >> one)
    return low >> one - bits, -(-high >> one - bits)


def _reciprocal_series(least: int, most: int, one: int) -> tuple[int, int]:
    """Bounds of 2^one / exp(y) for y between least and most, in units of 2^-one and at most about 2^-SMALL."""
    under, term, order = 0, 1 << one, 0
    while term:
        under += term
        order += 1
        term = (term * least >> one) // order
    over, term, order = 0, 1 << one, 0
    while term > 1:
        over += term
        order += 1
        term = -((-term * most >> one) // order)  # rounded up: the floor of the negative, twice
    over += 2 * term  # the terms from here on fall at least by half each time
    square = 1 << 2 * one
    return square // over, -(-square // under)


def power_bounds(x: Fraction, count: int, bits: int) -> tuple[list[int], list[int]]:
    """Integers around 2^bits exp(-i x) for i = 0 .. count - 1; they lie at most 4 i apart.

    >>> [low <= high for low, high in zip(*power_bounds(Fraction(1, 3), 3, 40))]
    [True, True, True]
    """
    first_low, first_high = exp_bounds(x, bits)
    low, high = [1 << bits], [1 << bits]
    for _ in range(count - 1):
        low.append(low[-1] * first_low >> bits)
        high.append(-(-high[-1] * first_high >> bits))
    return low, high


def below(word: int, bounds: Bounds) -> bool:
    """Whether a uniform number that starts with `word` is less than the number that `bounds` encloses.

    The uniform is extended by fresh words until that is certain: after one word in all but 2^-64 of cases.
    """
    bits = WORD
    while True:
        low, high = bounds(bits)
        if word < low:
            return True
        if word >= high:
            return False
        word = word << WORD | int(words(1)[0])
        bits += WORD


def below_exp(uniforms: Words, x: NDArray[np.float64], exact: Callable[[int], Fraction]) -> NDArray[np.bool_]:
    """Whether each uniform lies under exp(-x), for `x` within a relative 2^-46 of `exact(i)`, the i-th exponent as a rational.

    With x = y (1 + e), exp(-x) differs from exp(-y) by at most |e| max(t exp(-t)) < 2^-47; the figure of `rough_exp` from exp(-x) by
    2^-46; the uniform from its first 53 bits by 2^-53. Together less than MARGIN = 2^-40.

    >>> below_exp(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), np.array([1.0, 1.0, 1.0]), lambda i: Fraction(1)).tolist()
    [True, False, False]
    """
    gap = rough_exp(x) - uniforms * 2.0**-WORD
    found: NDArray[np.bool_] = gap > 0
    for i in np.flatnonzero(np.abs(gap) <= MARGIN).tolist():
        rational = exact(i)
        found[i] = below(int(uniforms[i]), partial(exp_bounds, rational))
    return found


def rough_exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(-x) for x >= 0 within 2^-46, relative below CUTOFF; only additions, multiplications and a table made by `exp_bounds`.

    x = i / 16 + f with both parts exact. Taylor's series of degree 8 errs by less than (1/16)^9 / 9! < 2^-54 and its evaluation by
    less than 20 roundings of 2^-53, the product with the table's entry by two more. Beyond CUTOFF the figure is exp(-CUTOFF).

    >>> rough_exp(np.array([0.0, 1.0])).tolist()
    [1.0, 0.36787944117144233]
    """
    x = np.minimum(x, CUTOFF)
    step = (x * STEPS).astype(np.intp)
    rest = x - step * (1 / STEPS)
    series = rest * (-1 / 8) + 1
    for order in range(7, 0, -1):
        series *= rest
        series *= -1 / order
        series += 1
    series *= _table()[step]
    return series


@cache
def _table() -> NDArray[np.float64]:
    """exp(-i / STEPS), each within 2^-52 of itself."""
    bits = 256  # exp(-64) is above 2^-93, and the bounds lie at most 2^12 apart: far closer than a float can tell
    bounds = power_bounds(Fraction(1, STEPS), STEPS * CUTOFF + 1, bits)
    return np.array([(low + high) / (2 << bits) for low, high in zip(*bounds, strict=True)])
