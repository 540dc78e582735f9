"""Checks on numbers that come from users: each error names the parameter, its range and the value given."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Rational, Real

from tacit.accounting.errors import ParameterError

Number = int | float | Fraction


def number(name: str, value: object) -> Number:
    """A finite or infinite real number, never NaN, never a bool; numpy scalars become Python numbers.

    >>> number("q", Fraction(1, 2))
    Fraction(1, 2)
    """
    if type(value) is Fraction:  # what is exact already is asked for most often
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(f"{name} must be a number (int, float or Fraction), not {type(value).__name__}")
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        return Fraction(value)
    result = float(value)
    if math.isnan(result):
        raise ParameterError(f"{name} is NaN; give a number")
    return result


def positive(name: str, value: object) -> Number:
    """A number in (0, infinity)."""
    result = number(name, value)
    if not 0 < result < math.inf:
        raise ParameterError(f"{name} must be positive and finite, not {result}")
    try:
        fits = 0 < float(result) < math.inf
    except OverflowError:
        fits = False
    if not fits:
        raise ParameterError(f"{name} is outside the range of floating point; rescale it")
    return result


def nonnegative(name: str, value: object) -> Number:
    """A number in [0, infinity)."""
    result = number(name, value)
    if not 0 <= result < math.inf:
        raise ParameterError(f"{name} must be zero or more and finite, not {result}")
    return result


def probability(name: str, value: object) -> Number:
    """A number in [0, 1]."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise ParameterError(f"{name} must be between 0 and 1, not {result}")
    return result


def count(name: str, value: object, *, least: int = 1) -> int:
    """A whole number, at least `least`.

    >>> count("steps", 10)
    10
    """
    result = number(name, value)
    if (isinstance(result, float) and not math.isfinite(result)) or result != int(result):
        raise ParameterError(f"{name} must be a whole number, not {result}")
    if result < least:
        raise ParameterError(f"{name} must be at least {least}, not {result}")
    return int(result)
