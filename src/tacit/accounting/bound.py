"""A certified bracket: every figure the accountant returns, and how its published end is printed.

>>> Bound(1.0, 1.5, method="advanced composition").width
0.5
>>> rounded_up(1.00000001, 4)
'1.001'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from tacit.errors import AccountingError


@dataclass(frozen=True, slots=True)
class Bound:
    """The true figure lies in [lower, upper]; `method` says which theorem or computation gave the ends.

    `upper` is what may be published. `lower` says how much of it could be slack.
    """

    lower: float
    upper: float
    method: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower > self.upper:
            raise AccountingError(f"not a bracket: lower={self.lower!r}, upper={self.upper!r}")

    @property
    def width(self) -> float:
        """Upper minus lower; zero where both are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def intersect(self, other: Bound) -> Bound:
        """The tighter end of each side; two correct brackets always overlap.

        >>> Bound(0, 2, method="a").intersect(Bound(1, 3, method="b"))
        Bound(lower=1, upper=2, method='a')
        """
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        if lower > upper:
            raise AccountingError(f"two methods contradict each other: {self} and {other}; this is a bug, please report it")
        return Bound(lower, upper, self.method if self.upper <= other.upper else other.method)

    def worst(self, other: Bound) -> Bound:
        """The larger end of each side: the cost over two directions of the relation.

        >>> Bound(0, 2).worst(Bound(1, 1.5))
        Bound(lower=1, upper=2, method='')
        """
        return Bound(max(self.lower, other.lower), max(self.upper, other.upper), self.method if self.upper >= other.upper else other.method)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with no proof behind it. It has no upper end on purpose and cannot be used where a Bound is asked for."""

    value: float
    method: str

    def __float__(self) -> float:
        raise AccountingError(
            f"{self.method} is an estimate, not a guarantee, and refuses to be used as a number; read .value for a plot, "
            "or ask for a certified method"
        )


def rounded_up(value: float, digits: int) -> str:
    """A number to so many significant digits, never below it: what is printed can be published.

    >>> rounded_up(1.00000001, 4), rounded_up(0.1, 4), rounded_up(math.inf, 4)
    ('1.001', '0.1', 'inf')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    short = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value)))).normalize()
    return f"{short:f}" if -5 < short.adjusted() < 15 else f"{short:e}"
