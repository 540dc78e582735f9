"""Domains: public sets of values, which are enforced and not believed. This module has those of single values.

`enforce` is total: whatever it is given, it returns members, one value at a time. So a value outside its declared domain
changes no guarantee and raises no error that depends on the data. Numbers are whole, multiples of a public granularity, or
floats as they come in a file; they are clamped to their public bounds, and what is not a number becomes the domain's
`default`. Vectors, records and data sets are in `tacit.calculus.collection_domains`.

>>> Integers(0, 10).enforce([3, 99, -1, "many"]).tolist()
[3, 10, 0, 0]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.calculus.errors import DomainError
from tacit.parameters import Number, count, number, positive


@dataclass(frozen=True)
class Domain:
    """A public set of values."""

    def member(self, value: Any) -> bool:
        """Whether one value is in the domain. For tests: asking it of private data tells something about them."""
        raise NotImplementedError

    def enforce(self, values: Any) -> Any:
        """Members, whatever was given: element by element for the domain of a single value, as a whole for a collection."""
        raise NotImplementedError

    def complete(self, value: Any) -> Any:
        """A member, whatever was given, where this domain is all of a plan's input."""
        return self.enforce(value)

    def contains(self, other: Domain) -> bool:
        """Whether every member of the other domain is a member of this one."""
        return self == other

    @property
    def default(self) -> Any:
        """The public value that stands for one that is missing or makes no sense."""
        raise NotImplementedError


@dataclass(frozen=True)
class Anything(Domain):
    """Values about which nothing is promised: a raw column, a free text. It contains every domain.

    >>> Anything().contains(Integers()), Anything().member("whatever")
    (True, True)
    """

    def member(self, value: Any) -> bool:
        return True

    def enforce(self, values: Any) -> Any:
        return values if isinstance(values, np.ndarray) and values.ndim else listed(values)

    def complete(self, value: Any) -> Any:
        return value

    def contains(self, other: Domain) -> bool:
        return True

    @property
    def default(self) -> None:
        return None


def listed(values: object) -> list[Any]:
    """The values of a column as Python objects; masked ones are None. A single value, or a text, is a column of one.

    >>> listed(np.array([1, 2])), listed("ab"), listed(None)
    ([1, 2], ['ab'], [None])
    """
    if isinstance(values, np.ndarray):
        return list(values.tolist()) if values.ndim else [values.item()]
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)):
        return list(values)
    return [values]


def plain(value: object) -> Any:
    """A numpy scalar as Python's own.

    >>> plain(np.int64(3))
    3
    """
    return value.item() if isinstance(value, np.generic) else value


def single(values: Any) -> Any:
    """The only value of a column of one; that there is one is public.

    >>> single([3])
    3
    """
    if len(values) != 1:
        raise DomainError("one value is needed, not several; for several use Vectors(element, length) or Rows(element)")
    return plain(values[0])


class Single(Domain):
    """A domain of single values: as all of a plan's input, one value is given and one comes out."""

    def complete(self, value: Any) -> Any:
        return single(self.enforce(value))


#: Integers of this size and beyond are kept as Python's own, so that sums stay exact.
WORD = 2**62


def as_numbers(values: Any) -> np.ndarray:
    """A flat array of floats, 64-bit integers or Python integers, one entry a row; what is not a number becomes NaN.

    >>> as_numbers([1, None, "2"]).tolist()
    [1.0, nan, nan]
    >>> as_numbers(np.ones((2, 50))).tolist()  # a row of fifty numbers is not a number
    [nan, nan]
    """
    if isinstance(values, np.ndarray) and values.ndim == 1 and not isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "ib":
            return values.astype(np.int64)
        if values.dtype.kind == "f":
            with np.errstate(over="ignore"):
                return values.astype(np.float64)
    read = [as_number(value) for value in listed(values)]
    whole = [value for value in read if isinstance(value, int)]
    if len(whole) == len(read):
        return integer_array(whole)
    if all(isinstance(value, float) or abs(value) < 2**53 for value in read):
        return np.array(read, dtype=float)
    return np.array(read, dtype=object)


def as_number(value: Any) -> int | float:
    """A value as a number, or NaN; never an error.

    >>> as_number(True), as_number("7"), as_number(None)
    (1, nan, nan)
    """
    if isinstance(value, (str, bytes, complex, np.complexfloating)) or (isinstance(value, np.ndarray) and value.ndim):
        return math.nan
    if value is np.ma.masked:  # whose conversion warns
        return math.nan
    try:
        if isinstance(value, (bool, np.bool_, int, np.integer)):
            return int(value)
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    except (Exception, SystemExit, GeneratorExit):  # whatever a foreign object's conversion raises: it would tell about the data
        return math.nan


def integer_array(values: Sequence[int]) -> np.ndarray:
    """Whole numbers in 64 bits where all of them fit with room to spare, else as Python's own."""
    small = all(-WORD < value < WORD for value in values)
    found = np.empty(len(values), dtype=np.int64 if small else object)
    found[:] = values
    return found


def _bound(name: str, value: Number | None) -> Number | None:
    if value is None:
        return None
    checked = number(name, value)
    if isinstance(checked, float) and math.isinf(checked):
        raise DomainError(f"{name} must be finite; leave it out for no bound")
    return checked


def _whole_bound(name: str, value: Number | None) -> int | None:
    checked = _bound(name, value)
    return None if checked is None else count(name, checked, least=-(10**400))


def _ordered(lower: Number | None, upper: Number | None) -> None:
    if lower is not None and upper is not None and lower > upper:
        raise DomainError(f"lower must not exceed upper, and {lower} > {upper}; swap them")


def _within(inner: tuple[Number | None, Number | None], outer: tuple[Number | None, Number | None]) -> bool:
    below = outer[0] is None or (inner[0] is not None and inner[0] >= outer[0])
    return below and (outer[1] is None or (inner[1] is not None and inner[1] <= outer[1]))


@dataclass(frozen=True)
class Integers(Single):
    """Whole numbers, with public bounds or without.

    >>> Integers(0, 3).member(2), Integers(0, 3).member(4)
    (True, False)
    """

    lower: int | None = None
    upper: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", _whole_bound("lower", self.lower))
        object.__setattr__(self, "upper", _whole_bound("upper", self.upper))
        _ordered(self.lower, self.upper)

    @classmethod
    def between(cls, lower: Number | None, upper: Number | None) -> Integers:
        """The same with bounds of any type of number, such as 2.0; they must be whole."""
        return cls(_whole_bound("lower", lower), _whole_bound("upper", upper))

    def member(self, value: Any) -> bool:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            return False
        return (self.lower is None or int(value) >= self.lower) and (self.upper is None or int(value) <= self.upper)

    def enforce(self, values: Any) -> np.ndarray:
        found = as_numbers(values)
        low = -WORD + 1 if self.lower is None else self.lower
        high = WORD - 1 if self.upper is None else self.upper
        if found.dtype == np.int64 and low > -WORD and high < WORD:
            # Values beyond a word are members of an unbounded domain and must stay what they are.
            beyond = (self.lower is None and bool((found < low).any())) or (self.upper is None and bool((found > high).any()))
            if not beyond:
                clipped: np.ndarray = np.clip(found, low, high)
                return clipped
        return integer_array([self._one(value) for value in found.tolist()])

    def _one(self, value: int | float) -> int:
        if isinstance(value, float):
            if math.isnan(value):
                return self.default
            if math.isinf(value):
                edge = self.upper if value > 0 else self.lower
                return self.default if edge is None else edge
            value = round(value)
        if self.lower is not None and value < self.lower:
            return self.lower
        if self.upper is not None and value > self.upper:
            return self.upper
        return int(value)

    def contains(self, other: Domain) -> bool:
        return isinstance(other, Integers) and _within((other.lower, other.upper), (self.lower, self.upper))

    @property
    def default(self) -> int:
        if self.lower is not None and self.lower > 0:
            return self.lower
        return self.upper if self.upper is not None and self.upper < 0 else 0


@dataclass(frozen=True)
class Lattice(Single):
    """Real numbers that are multiples of a public `granularity`, held as those whole multiples.

    >>> prices = Lattice(Fraction(1, 100), 0, 5)
    >>> prices.multiples
    (0, 500)
    >>> prices.member(250), prices.member(501)
    (True, False)
    """

    granularity: Fraction
    lower: Number | None = None
    upper: Number | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "granularity", Fraction(positive("granularity", self.granularity)))
        for name in ("lower", "upper"):
            value = _bound(name, getattr(self, name))
            if value is not None:
                value = Fraction(value)
                if (value / self.granularity).denominator != 1:
                    raise DomainError(f"{name} must be a multiple of granularity, and {value} is not one of {self.granularity}")
            object.__setattr__(self, name, value)
        _ordered(self.lower, self.upper)

    @property
    def multiples(self) -> tuple[int | None, int | None]:
        """The bounds, counted in granules."""
        low = None if self.lower is None else int(Fraction(self.lower) / self.granularity)
        high = None if self.upper is None else int(Fraction(self.upper) / self.granularity)
        return low, high

    @property
    def whole(self) -> Integers:
        """The same values as plain integers: how many granules."""
        return Integers(*self.multiples)

    def member(self, value: Any) -> bool:
        return self.whole.member(value)

    def enforce(self, values: Any) -> np.ndarray:
        return self.whole.enforce(values)

    def contains(self, other: Domain) -> bool:
        return isinstance(other, Lattice) and other.granularity == self.granularity and self.whole.contains(other.whole)

    @property
    def default(self) -> int:
        return self.whole.default


@dataclass(frozen=True)
class Reals(Single):
    """Floating-point numbers as they come in a file: NaN is a member unless `missing=False`.

    No noise is ever added to these; round them to a lattice first.

    >>> Reals(0, 1, missing=False).enforce([0.5, float("nan"), float("inf")]).tolist()
    [0.5, 0.0, 1.0]
    """

    lower: Number | None = None
    upper: Number | None = None
    missing: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", _bound("lower", self.lower))
        object.__setattr__(self, "upper", _bound("upper", self.upper))
        _ordered(self.lower, self.upper)
        if self._low > self._high:
            raise DomainError("no float lies between lower and upper; widen them")

    @property
    def _low(self) -> float:
        return -math.inf if self.lower is None else _inside(self.lower, up=True)

    @property
    def _high(self) -> float:
        return math.inf if self.upper is None else _inside(self.upper, up=False)

    def member(self, value: Any) -> bool:
        found = as_number(value)
        if math.isnan(found):
            return self.missing and isinstance(value, float)
        return (self.lower is None or found >= self.lower) and (self.upper is None or found <= self.upper)

    def enforce(self, values: Any) -> np.ndarray:
        found = as_numbers(values)
        if found.dtype == object:
            found = np.array([_float(value) for value in found.tolist()], dtype=float)
        found = np.clip(found.astype(float), self._low, self._high)
        return found if self.missing else np.where(np.isnan(found), self.default, found)

    def contains(self, other: Domain) -> bool:
        if not isinstance(other, (Reals, Integers)):
            return False
        if isinstance(other, Reals) and other.missing and not self.missing:
            return False
        return _within((other.lower, other.upper), (self.lower, self.upper))

    @property
    def default(self) -> float:
        if self.lower is not None and self.lower > 0:
            return self._low
        return self._high if self.upper is not None and self.upper < 0 else 0.0


def _float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _inside(bound: Number, *, up: bool) -> float:
    """The float nearest to a bound that lies on its inner side."""
    found = _float(bound)
    if math.isinf(found):
        return math.nextafter(found, 0.0) if (found > 0) != up else found
    if up and found < bound:
        return math.nextafter(found, math.inf)
    return math.nextafter(found, -math.inf) if not up and found > bound else found


def whole_bounds(domain: Integers | Lattice) -> tuple[int | None, int | None]:
    """The public bounds of whole numbers; on a lattice, counted in granules.

    >>> whole_bounds(Lattice(Fraction(1, 2), 0, 3))
    (0, 6)
    """
    return domain.multiples if isinstance(domain, Lattice) else (domain.lower, domain.upper)


def granule(domain: Domain) -> Fraction:
    """What one whole number of a domain stands for: the granularity of a lattice, else 1.

    >>> granule(Lattice(Fraction(1, 2))), granule(Integers())
    (Fraction(1, 2), Fraction(1, 1))
    """
    return domain.granularity if isinstance(domain, Lattice) else Fraction(1)
