"""Checks on numbers that come from users.

Each error names the parameter, its range and the value given. Checks are for declared parameters, which are
public; a value from the data never comes here.

>>> probability("delta", 2)
Traceback (most recent call last):
tacit.errors.ParameterError: delta must be between 0 and 1, not 2
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Rational, Real

from tacit.errors import ParameterError

Number = int | float | Fraction


def number(name: str, value: object) -> Number:
    """A finite or infinite real number, never NaN, never a bool; numpy scalars become Python numbers.

    >>> number("q", Fraction(1, 2))
    Fraction(1, 2)
    """
    if type(value) is Fraction:  # what is exact already is asked for most often
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _outside(name, "a number (int, float or Fraction)", type(value).__name__)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        return Fraction(value)
    result = float(value)
    if math.isnan(result):
        raise ParameterError(f"{name} is NaN; give a number")
    return result


def _outside(name: str, allowed: str, given: object) -> ParameterError:
    return ParameterError(code="parameter-range", parameter=name, range=allowed, given=given)


def positive(name: str, value: object) -> Number:
    """A number in (0, infinity)."""
    result = number(name, value)
    if not 0 < result < math.inf:
        raise _outside(name, "positive and finite", result)
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
        raise _outside(name, "zero or more and finite", result)
    return result


def probability(name: str, value: object) -> Number:
    """A number in [0, 1]."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise _outside(name, "between 0 and 1", result)
    return result


def count(name: str, value: object, *, least: int = 1) -> int:
    """A whole number, at least `least`.

    >>> count("steps", 10)
    10
    """
    result = number(name, value)
    if (isinstance(result, float) and not math.isfinite(result)) or result != int(result):
        raise _outside(name, "a whole number", result)
    if result < least:
        raise _outside(name, f"at least {least}", result)
    return int(result)
