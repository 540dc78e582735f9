"""Numbers as people type them: decimals, powers of ten and fractions, read exactly, with an error that names the option.

>>> exact("--sampling", "256/60000")
Fraction(8, 1875)
>>> exact("--delta", "1e-5")
Fraction(1, 100000)
>>> number("--noise", "1.1")
1.1
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TypeVar

T = TypeVar("T")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_LONGEST = 80  # characters; a longer number is a mistake, and its powers of ten could fill the memory


class OptionError(Exception):
    """A request that cannot be understood; the message is one line that names the option and the fix."""


def shown(text: object) -> str:
    """What was typed, for an error message: one line, not too long."""
    quoted = repr(text)
    return quoted if len(quoted) <= 48 else f"{quoted[:45]}..."


def exact(option: str, text: str) -> Fraction:
    """The exact value of a number or of a fraction of two numbers, within the range of floating point."""
    parts = text.strip().split("/")
    if len(text) > _LONGEST or len(parts) > 2 or not all(_DECIMAL.fullmatch(part.strip()) for part in parts):
        raise OptionError(f"{option} must be a number such as 0.01, 1e-5 or 256/60000, not {shown(text)}")
    values = [Fraction(part.strip()) for part in parts]
    if len(values) == 2 and values[1] == 0:
        raise OptionError(f"{option} divides by zero: {shown(text)}")
    value = values[0] / values[1] if len(values) == 2 else values[0]
    if abs(value) > Fraction(10) ** 300 or 0 < abs(value) < Fraction(1, 10**300):
        raise OptionError(f"{option} must lie between 1e-300 and 1e300 in size, not {shown(text)}")
    return value


def number(option: str, text: str) -> float | Fraction:
    """A fraction where a fraction was typed, else a float."""
    value = exact(option, text)
    return value if "/" in text else float(value)


def positive(option: str, text: str) -> float | Fraction:
    """A number above zero.

    >>> positive("--noise", "-1")
    Traceback (most recent call last):
    tacit.cli.numbers.OptionError: --noise must be above 0, not '-1'
    """
    value = number(option, text)
    if value <= 0:
        raise OptionError(f"{option} must be above 0, not {shown(text)}")
    return value


def share(option: str, text: str) -> Fraction:
    """A rate in (0, 1], exactly."""
    value = exact(option, text)
    if not 0 < value <= 1:
        raise OptionError(f"{option} must be above 0 and at most 1, not {shown(text)}; it is the share of the records in one step")
    return value


def probability(option: str, text: str) -> float:
    """A number in [0, 1]."""
    value = float(exact(option, text))
    if not 0 <= value <= 1:
        raise OptionError(f"{option} must be between 0 and 1, not {shown(text)}")
    return value


def whole(option: str, text: str) -> int:
    """A whole number, at least 1; 1e6 is one.

    >>> whole("--steps", "1e4")
    10000
    """
    value = exact(option, text)
    if value.denominator != 1 or value < 1:
        raise OptionError(f"{option} must be a whole number of at least 1, not {shown(text)}")
    if value > 10**15:
        raise OptionError(f"{option} must be at most 1e15, not {shown(text)}")
    return int(value)


def several(option: str, texts: Iterable[str] | None, read: Callable[[str, str], T], example: str) -> list[T]:
    """The values of an option that may be repeated or hold a list with commas; at least one.

    >>> several("--delta", ["1e-5,1e-6", "1e-7"], probability, "1e-5")
    [1e-05, 1e-06, 1e-07]
    """
    found = [read(option, part) for text in texts or () for part in text.split(",")]
    if not found:
        raise OptionError(f"{option} is missing; give for example {option} {example}")
    return found


def proved_digits(lower: float, upper: float, *, least: int = 7, most: int = 17) -> int:
    """How many significant digits a bracket settles, and two more: what is printed beyond them would be noise.

    >>> proved_digits(1.0, 1.5), proved_digits(1.0, 1 + 1e-12), proved_digits(2.0, 2.0)
    (7, 14, 17)
    """
    if not 0 < lower <= upper < math.inf or lower == upper:
        return most if lower == upper else least
    return min(max(math.ceil(-math.log10((upper - lower) / upper)) + 2, least), most)
