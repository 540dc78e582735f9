"""Exact numbers: fractions as they were typed, their square roots, and floats on the safe side of them.

A float is read as the decimal that was typed: 0.1 is one tenth, so ten of them are exactly 1. What is booked
is rounded up.

>>> exact("epsilon", 0.1) * 10, exact("epsilon", "1/3"), exact("delta", "1e-6")
(Fraction(1, 1), Fraction(1, 3), Fraction(1, 1000000))
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real

from tacit.errors import ParameterError

Typed = int | float | Fraction | Decimal | str

_RATIO = re.compile(r"\s*([+-]?[0-9]{1,1000})\s*/\s*([0-9]{1,1000})\s*")
_DECIMAL = re.compile(r"\s*[+-]?([0-9]{1,1000}(\.[0-9]{0,1000})?|\.[0-9]{1,1000})([eE][+-]?[0-9]{1,4})?\s*")
_EXPONENT = 400  # beyond floating point; a longer one would only fill the memory
_BITS = 2048  # denominators are kept exactly up to here; beyond, totals are rounded up by less than 2**-2048


def exact(name: str, value: object) -> Fraction:
    """A finite number as a fraction; a float is the decimal the user typed.

    >>> exact("rho", float("nan"))
    Traceback (most recent call last):
    tacit.errors.ParameterError: rho must be a finite number, not nan
    """
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal, str)):
        kind = type(value).__name__
        raise ParameterError(
            f"{name} must be a number (int, float, Fraction, Decimal, or text such as '1/10'), not {kind}"
        )
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Rational):
        return Fraction(value)
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _EXPONENT:
            raise ParameterError(f"{name} must be a finite number of ordinary size, not {value}")
        return Fraction(value)
    number = float(value)
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be a finite number, not {number}")
    return Fraction(float.__repr__(number))


def _text(name: str, value: str) -> Fraction:
    ratio = _RATIO.fullmatch(value)
    if ratio is not None and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2]))
    if _DECIMAL.fullmatch(value) is not None:
        number = Decimal(value.strip())
        if abs(number.adjusted()) <= _EXPONENT:
            return Fraction(number)
    raise ParameterError(f"{name} must be a number such as '0.1', '1e-6' or '1/10', not {value[:40]!r}")


def tidy(value: Fraction) -> Fraction:
    """The value itself while its denominator is of sane length, else the next multiple of 2**-2048 above it.

    Sums of thousands of unrelated denominators would otherwise grow without end. Rounding up never favours
    the spender.

    >>> small = Fraction(1, 3**2000)
    >>> tidy(Fraction(1, 3)) == Fraction(1, 3), 0 < tidy(small) - small < Fraction(1, 2**2048)
    (True, True)
    """
    if value.denominator.bit_length() <= _BITS + 1:
        return value
    return Fraction(-((-value.numerator << _BITS) // value.denominator), 1 << _BITS)


def from_float(value: float) -> Fraction:
    """The binary value of a computed float, exactly: an upper end from the accountant stays one."""
    return Fraction(value)


def to_text(value: Fraction | None) -> str:
    """A fraction as stored text; None (no bound is known) as "inf".

    >>> to_text(Fraction(1, 10)), to_text(Fraction(3)), to_text(None)
    ('1/10', '3', 'inf')
    """
    return "inf" if value is None else str(value)


def from_text(text: str) -> Fraction | None:
    """The inverse of `to_text`; anything else is a ValueError.

    >>> from_text("1/10"), from_text("inf")
    (Fraction(1, 10), None)
    """
    if text == "inf":
        return None
    top, slash, bottom = text.partition("/")
    value = Fraction(int(top), int(bottom)) if slash else Fraction(int(top))
    if str(value) != text:
        raise ValueError("not in lowest terms")
    return value


def at_most(value: Fraction) -> float:
    """The largest float not above the value.

    >>> at_most(Fraction(1, 10)) <= Fraction(1, 10) < math.nextafter(at_most(Fraction(1, 10)), 1)
    True
    """
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def at_least(value: Fraction) -> float:
    """The smallest float not below the value.

    >>> at_least(Fraction(1, 3)) > Fraction(1, 3), at_least(Fraction(1, 2))
    (True, 0.5)
    """
    return -at_most(-value)


def root(square: Fraction) -> Fraction:
    """The square root of a fraction: exact where it is rational, else too large by at most 2**-64 of it.

    A length that is rounded up asks for more noise, not less.

    >>> root(Fraction(9, 4)), 0 <= root(Fraction(2)) ** 2 - 2 < 1e-18
    (Fraction(3, 2), True)
    """
    if square < 0:
        raise ParameterError("a square root of a negative number")
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    shift = 2 ** (66 + max(0, square.denominator.bit_length() - square.numerator.bit_length()))
    scaled = -(-square.numerator * shift * shift // square.denominator)
    return Fraction(math.isqrt(scaled - 1) + 1, shift)


def shown(value: Fraction | None, *, up: bool = True, digits: int = 6) -> str:
    """A short decimal for people: spent amounts are rounded up, what is left is rounded down.

    >>> shown(Fraction(1, 3)), shown(Fraction(1, 3), up=False), shown(Fraction(1, 2)), shown(None)
    ('0.333334', '0.333333', '0.5', 'unbounded')
    """
    if value is None:
        return "unbounded"
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR, Emax=10**6, Emin=-(10**6))
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    return f"{number:f}" if number == 0 or -5 < number.adjusted() < 9 else f"{number:e}".replace("e+", "e")
