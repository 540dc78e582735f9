"""What people hold, where it is no short public list: numbers, and in their own modules vectors, words, keys and rows.

A domain maps anything a person may hold to a place 0 .. size - 1, which is what a randomiser takes, and never raises: what does not belong
has a public default. It travels in the protocol's text.

>>> ages = Numbers(0, 100, points=101)
>>> ages.place(37.2), ages.place(1e9), ages.place(float("nan")), ages.place("old")
(37, 100, 50, 50)
>>> from_description(ages.describe()) == ages
True
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.exact import exact, from_text, to_text
from tacit.parameters import Number, count

#: Kinds of domains by the name that travels, filled by `domain`.
KINDS: dict[str, type[Domain]] = {}


def domain(kind: type[Domain]) -> type[Domain]:
    """Make a class of domains known by its `kind`, for protocols that arrive as text."""
    KINDS[kind.kind] = kind
    return kind


@dataclass(frozen=True)
class Domain(ABC):
    """A public set of values. Subclasses are frozen dataclasses of whole numbers, fractions, texts and tuples of these."""

    kind: ClassVar[str] = ""
    #: Between which values a report's price holds. Whatever says less than this is not local privacy and must not be called so.
    protects: ClassVar[str] = "any two values"

    @property
    @abstractmethod
    def size(self) -> int:
        """How many places there are."""

    @abstractmethod
    def place(self, value: object) -> Any:
        """The place of a value; what does not belong has a public one."""

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        """The places of many values."""
        return np.array([self.place(value) for value in values], dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        """Everything that is decided, for a protocol's text."""
        found: dict[str, Any] = {"kind": self.kind}
        for each in fields(self):
            value = getattr(self, each.name)
            found[each.name] = {"exact": to_text(value)} if isinstance(value, Fraction) else value
        return found


def from_description(given: Mapping[str, Any]) -> Domain:
    """The domain that `describe` described."""
    rest = dict(given)
    kind = KINDS.get(str(rest.pop("kind", "")))
    if kind is None:
        raise ParameterError(f"the kind of values must be one of {', '.join(sorted(KINDS))}")
    expected = [each.name for each in fields(kind)]
    if sorted(rest) != sorted(expected):
        raise ParameterError(f"{kind.kind} has {', '.join(expected)}, and nothing else")
    return kind(**{name: _read(value) for name, value in rest.items()})


def _read(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"exact"}:
        return from_text(str(value["exact"]))
    return tuple(_read(each) for each in value) if isinstance(value, list) else value


@domain
@dataclass(frozen=True)
class Numbers(Domain):
    """Numbers between two public bounds, rounded to the nearest of `points` equally spaced ones; beyond a bound, to the bound.

    What is no number counts as the middle. Rounding moves a mean by at most half a step, 1/131,072 of the range unless `points` says
    otherwise.
    """

    lower: Number
    upper: Number
    points: int = 2**16 + 1

    kind: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", exact("lower", self.lower))
        object.__setattr__(self, "upper", exact("upper", self.upper))
        if not self.lower < self.upper or max(abs(Fraction(self.lower)), abs(Fraction(self.upper))) > 10**300:
            raise ParameterError("the lower bound must be below the upper one, and both at most 1e300 in size")
        object.__setattr__(self, "points", count("points", self.points, least=3))
        if self.points % 2 == 0 or self.points > 2**20 + 1:
            raise ParameterError("points must be odd, so that there is a middle, and at most 2^20 + 1")

    @property
    def size(self) -> int:
        return self.points

    def place(self, value: object) -> int:
        return int(self.places([value])[0])

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            with np.errstate(over="ignore"):  # a warning would tell of a value
                given = values.astype(np.float64)
        else:
            given = np.fromiter((_as_float(value) for value in values), dtype=np.float64)
        low, high = float(self.lower), float(self.upper)
        given = np.where(np.isnan(given), low + (high - low) / 2, np.clip(given, low, high))
        share = (given - low) / (high - low)
        return np.clip(np.rint(share * (self.points - 1)), 0, self.points - 1).astype(np.int64)

    def number(self, t: float) -> float:
        """The number at t, which runs from -1 at the lower bound to 1 at the upper one."""
        low, high = float(self.lower), float(self.upper)
        return (low + high) / 2 + t * (high - low) / 2


def _as_float(value: object) -> float:
    """A number, or NaN for everything else; no value raises."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, np.integer, np.floating)):
        return math.nan
    # the methods of the classes themselves, since those of a class derived from them could raise
    if isinstance(value, int):
        value = int.__int__(value)
    elif isinstance(value, float):
        return float.__float__(value)
    try:
        with np.errstate(over="ignore"):
            return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
