"""Exact numbers: how many digits whole numbers and decimals have, so that engines add, multiply and compare them without rounding.

A size is (digits, decimals), as in DECIMAL(12, 2). Engines compute exactly as long as a result has at most 38 digits; beyond that they
raise an error or lose digits, so nothing is computed exactly unless its size is known to fit. PostgreSQL's plain NUMERIC has any number
of digits and needs no size.

>>> size_of("DECIMAL(12,2)"), size_of("BIGINT"), size_of("DECIMAL"), size_of(Fraction("12.99"))
((12, 2), (19, 0), None, (4, 2))
>>> summed((12, 2), (18, 3)), multiplied((12, 2), (19, 0)), multiplied((38, 10), (19, 0))
((19, 3), (32, 2), None)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

Size = tuple[int, int]

#: Digits of a decimal number on every engine.
DIGITS = 38
#: Bits of whole numbers by their type; those of more than 64 are no 64-bit integers, and are decimals without decimals here.
BITS = {
    "TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "INT": 31, "BIGINT": 63, "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32,
    "BYTE": 7, "SHORT": 15, "LONG": 63, "INT1": 7, "INT2": 15, "INT4": 31, "INT8": 63,
}  # fmt: skip


def size_of(of: str | Fraction) -> Size | None:
    """The size of a type or of a constant; None where it has none that is known, or more digits than engines have."""
    if isinstance(of, Fraction):
        decimals, rest = 0, of.denominator
        while rest != 1 and decimals <= DIGITS:
            decimals, rest = decimals + 1, (of * 10 ** (decimals + 1)).denominator
        digits = max(len(str(abs(int(of * 10**decimals)))), decimals, 1)
        return (digits, decimals) if rest == 1 and digits <= DIGITS else None
    name = of.upper()
    declared = re.fullmatch(r"(?:DECIMAL|NUMERIC)\((\d+), ?(\d+)\)", name)
    if declared:
        return int(declared[1]), int(declared[2])
    return (len(str(2 ** BITS[name])), 0) if name in BITS else (20, 0) if name == "UBIGINT" else None


def common(sizes: Sequence[Size]) -> Size | None:
    """The size that holds all of these, if it fits."""
    decimals = max(size[1] for size in sizes)
    return _fitting(max(size[0] - size[1] for size in sizes) + decimals, decimals)


def summed(first: Size, second: Size) -> Size | None:
    """The size of a sum or difference."""
    both = common([first, second])
    return None if both is None else _fitting(both[0] + 1, both[1])


def multiplied(first: Size, second: Size) -> Size | None:
    """The size of a product. Spark counts one digit more than there can be."""
    return _fitting(first[0] + second[0] + 1, first[1] + second[1])


def divided(first: Size, second: Size) -> Size | None:
    """The size of a quotient as Spark has it, with as many decimals as keep every quotient apart from 0; None where it leaves out some."""
    decimals = max(6, first[1] + second[0] + 1)
    return _fitting(first[0] - first[1] + second[1] + decimals, decimals)


def _fitting(digits: int, decimals: int) -> Size | None:
    return (digits, decimals) if digits <= DIGITS else None


def named(size: Size) -> str:
    """The type of a size."""
    return f"DECIMAL({size[0]}, {size[1]})"


def literal(constant: Fraction, size: Size) -> exp.Expression:
    """A constant with all its digits and without an exponent, which would make it a float.

    >>> literal(Fraction("-0.05"), (2, 2)).sql()
    '-0.05'
    """
    scaled = str(abs(int(constant * 10 ** size[1]))).rjust(size[1] + 1, "0")
    text = f"{scaled[: len(scaled) - size[1]]}.{scaled[len(scaled) - size[1] :]}" if size[1] else scaled
    number = exp.Literal.number(text)
    return exp.Neg(this=number) if constant < 0 else number


def beside(constant: Fraction, size: Size | None) -> tuple[Fraction, Size] | None:
    """A constant that lies to every number of this size as the given one does, and has few enough digits to be compared with it.

    >>> beside(Fraction("12.34567"), (38, 2)) is None, beside(Fraction("12.34567"), (36, 2))[0], beside(Fraction(10**50), (12, 2))[0]
    (True, Fraction(2469, 200), Fraction(10000000000, 1))
    """
    own = size_of(constant)
    if own is not None and (size is None or common([own, size]) is not None):
        return constant, own
    if size is None:
        return None
    most = Fraction(10 ** (size[0] - size[1]))
    if abs(constant) >= most:
        constant = most if constant > 0 else -most
    else:
        step = Fraction(1, 10 ** size[1])
        constant = (constant // step) * step + step / 2
    own = size_of(constant)
    return (constant, own) if own is not None and common([own, size]) is not None else None
