"""Real values on a public lattice: rounded to whole multiples before noise, so that outputs for neighbouring data share one support.

Floating-point noise leaks its input in the low bits of the sum (Mironov 2012). Here a value becomes an integer multiple of a granularity
that depends on public parameters only, integer noise is added, and the sum is scaled back once, at the end.

>>> step = granularity_for(0.1)
>>> step, round_to_lattice(0.3, Fraction(1, 8)), from_lattice(3, Fraction(1, 8))
(Fraction(1, 68719476736), 2, 0.375)

Rounding moves a value by up to half a step, so two values at distance d come to lie up to `steps_apart(d, granularity)` steps apart:
that is the sensitivity to use for the integers.

>>> steps_apart(1, Fraction(1, 8)), steps_apart(Fraction(1, 3), Fraction(1, 8))
(8, 3)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Integral
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.parameters import Number, nonnegative, number, positive
from tacit.parameters import count as whole

LIMIT = 1 << 62  # multiples beyond are cut off, so that a sum of two still fits into int64
FINE = 32  # a step is at most scale / 2^FINE: rounding a million summands moves the sum by 1e-4 of the scale


def granularity_for(scale: Number, bits: int = FINE) -> Fraction:
    """The greatest power of two that is at most scale / 2^bits.

    >>> granularity_for(1, bits=3), granularity_for(1000, bits=3)
    (Fraction(1, 8), Fraction(64, 1))
    """
    target = Fraction(positive("scale", scale)) / 2 ** whole("bits", bits, least=0)
    power = target.numerator.bit_length() - target.denominator.bit_length()
    found = Fraction(1 << power) if power >= 0 else Fraction(1, 1 << -power)
    return found if found <= target else found / 2


def steps_apart(distance: Number, granularity: Number) -> int:
    """The most steps that two values at most `distance` apart can be apart after rounding.

    A distance strictly between n and n + 1 steps can become n + 1. Exactly n steps stay n, unless n is odd: half-way values go to the
    even neighbour, and so 1/2 and 3/2 become 0 and 2.

    >>> [steps_apart(distance, 1) for distance in (0, 0.25, 1, 1.5, 2, 3)]
    [0, 1, 2, 2, 2, 4]
    """
    steps = Fraction(nonnegative("distance", distance)) / Fraction(positive("granularity", granularity))
    complete = steps.numerator // steps.denominator
    return complete if complete == steps and complete % 2 == 0 else complete + 1


@overload
def round_to_lattice(values: Number, granularity: Number, bounds: tuple[Number, Number] | None = None) -> int: ...
@overload
def round_to_lattice(values: NDArray[Any], granularity: Number, bounds: tuple[Number, Number] | None = None) -> NDArray[np.int64]: ...
def round_to_lattice(
    values: Number | NDArray[Any], granularity: Number, bounds: tuple[Number, Number] | None = None
) -> int | NDArray[np.int64]:
    """The multiple of `granularity` nearest to each value, as an integer; half-way values go to the even one.

    The exact value of a float is rounded, not a quotient in floating point. Values beyond `bounds`, infinite ones included, count as the
    nearer bound; without bounds, or where these are wider, multiples are cut off at 2^62 either way. NaN becomes the multiple nearest
    to 0: impute before, if it should be something else. Nothing about the values raises an error. A granularity that is a power of two
    is rounded to by whole arrays at a time; any other, and integer values, one by one.

    >>> round_to_lattice(np.array([0.5, 1.5, -2.6, float("nan"), float("inf")]), 1, bounds=(-2, 10)).tolist()
    [0, 2, -2, 0, 10]
    """
    step = Fraction(positive("granularity", granularity))
    least, most = _limits(step, bounds)
    if not isinstance(values, np.ndarray):
        given = number("values", 0.0 if values != values else values)
        return min(max(_nearest(given, step), least), most)
    if values.dtype.kind == "f" and values.dtype.itemsize <= 8:
        return _round_floats(values.astype(np.float64), step, least, most)
    if values.dtype.kind in "iu":
        return _one_by_one(values, lambda value: min(max(_nearest(int(value), step), least), most), np.int64)
    raise ParameterError(f"values must be numbers (int or float), not an array of {values.dtype}")


def _limits(step: Fraction, bounds: tuple[Number, Number] | None) -> tuple[int, int]:
    """The least and the greatest multiple."""
    if bounds is None:
        return -LIMIT, LIMIT
    if len(bounds) != 2:
        raise ParameterError("bounds must be two numbers, the lower and the upper bound")
    lower, upper = (number(name, bound) for name, bound in zip(("the lower bound", "the upper bound"), bounds, strict=True))
    if not lower <= upper:
        raise ParameterError(f"bounds must be in order, lower then upper, not {lower} and {upper}")
    least, most = (min(max(_nearest(bound, step), -LIMIT), LIMIT) for bound in (lower, upper))
    return least, most


def _nearest(value: Number, step: Fraction) -> int:
    """value / step rounded to the nearest integer, ties to even; infinities are cut off."""
    if isinstance(value, float) and math.isinf(value):
        return LIMIT if value > 0 else -LIMIT
    return round(Fraction(value) / step)


def _round_floats(values: NDArray[np.float64], step: Fraction, least: int, most: int) -> NDArray[np.int64]:
    values = np.where(np.isnan(values), 0.0, values)
    power = _power_of_two(step)
    if power is None:
        return _one_by_one(values, lambda value: min(max(_nearest(float(value), step), least), most), np.int64)
    # Scaling by a power of two is exact, or ends in infinity, or below the least normal number, where the nearest integer is 0.
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, -power)
    nearest: NDArray[np.int64] = np.rint(np.clip(scaled, -float(LIMIT), float(LIMIT))).astype(np.int64)
    return np.minimum(np.maximum(nearest, least), most)


@overload
def from_lattice(multiples: int, granularity: Number) -> float: ...
@overload
def from_lattice(multiples: NDArray[Any], granularity: Number) -> NDArray[np.float64]: ...
def from_lattice(multiples: int | NDArray[Any], granularity: Number) -> float | NDArray[np.float64]:
    """The float nearest to each multiple of `granularity`; beyond the range of floating point, infinity.

    >>> from_lattice(np.array([1, -3]), Fraction(1, 10)).tolist()
    [0.1, -0.3]
    """
    step = Fraction(positive("granularity", granularity))
    if not isinstance(multiples, np.ndarray):
        return _product(_any_integer(multiples), step)
    if multiples.dtype.kind not in "iuO":
        raise ParameterError(f"multiples must be integers, not an array of {multiples.dtype}")
    power = _power_of_two(step)
    # One rounding, from 64 bits to 53; the scaling is exact while results are normal: |multiple| is at least 1, at most 2^64.
    if multiples.dtype != object and power is not None and -1022 <= power < 1023 - 64:
        return np.ldexp(multiples.astype(np.float64), power)
    return _one_by_one(multiples, lambda multiple: _product(int(multiple), step), np.float64)


def _any_integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"multiples must be integers, not {type(value).__name__}")
    return int(value)


def _product(multiple: int, step: Fraction) -> float:
    try:
        return multiple * step.numerator / step.denominator  # a quotient of integers is correctly rounded
    except OverflowError:
        return math.inf if multiple > 0 else -math.inf


def _power_of_two(step: Fraction) -> int | None:
    """The exponent, if the step is a power of two."""
    power = step.numerator.bit_length() - step.denominator.bit_length()
    return power if Fraction(2) ** power == step else None


def _one_by_one(values: NDArray[Any], function: Callable[[Any], int | float], kind: type[Any]) -> NDArray[Any]:
    return np.array([function(value) for value in values.ravel().tolist()], dtype=kind).reshape(values.shape)
