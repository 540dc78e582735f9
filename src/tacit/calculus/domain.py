"""What a domain is: a public set of values that is enforced, not believed.

`enforce` is total: whatever it is given, it returns a member, one value at a time, so that a value outside its declared domain changes
no guarantee and raises no error that depends on the data.

>>> Anything().contains(Anything()), Anything().member("whatever")
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.calculus.errors import DomainError


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
        """A member, whatever was given, where this domain is all of a plan's input: a single number stays a single number."""
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
    """Values nothing is promised about: a raw column, a free text. Every domain lies in it."""

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


def listed(values: Any) -> list[Any]:
    """The values of a column as Python objects; masked ones are None. A single value, or a text, is a column of one.

    >>> listed(np.array([1, 2])), listed("ab"), listed(None)
    ([1, 2], ['ab'], [None])
    """
    if isinstance(values, np.ndarray):
        return list(values.tolist()) if values.ndim else [values.item()]
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)):
        return list(values)
    return [values]


def plain(value: Any) -> Any:
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
