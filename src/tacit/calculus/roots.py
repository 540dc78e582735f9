"""Square roots of fractions, never below the truth: a length that is rounded up asks for more noise, not less.

It is apart from the metrics so that a plan of questions can take a root without loading them.

>>> root(Fraction(9, 4)), root(Fraction(2)) ** 2 > 2
(Fraction(3, 2), True)
"""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.calculus.errors import MetricError


def root(square: Fraction) -> Fraction:
    """The square root of a fraction: exact where it is rational, else above the truth by at most 2**-64 of it.

    >>> root(Fraction(9, 4)), 0 <= root(Fraction(2)) ** 2 - 2 < 1e-18
    (Fraction(3, 2), True)
    """
    if square < 0:
        raise MetricError("a square root of a negative number")
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    shift = 2 ** (66 + max(0, square.denominator.bit_length() - square.numerator.bit_length()))
    scaled = -(-square.numerator * shift * shift // square.denominator)
    return Fraction(math.isqrt(scaled - 1) + 1, shift)
