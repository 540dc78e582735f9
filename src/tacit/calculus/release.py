"""What comes out of a measurement: the value, and everything that must travel with it.

A release drawn from seeded noise says NOT PRIVATE wherever it goes, through post-processing too; one that rests on an unproved
claim names the claim and prints no epsilon.

>>> from tacit.accounting import PureDP
>>> Release(41, PureDP(1)).map(lambda v: v + 1)
Release(42, PureDP(epsilon=1))
>>> Release(41, PureDP(1), private=False)
Release(41, PureDP(epsilon=1), NOT PRIVATE: drawn in test mode)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tacit.accounting import Adjacency, Bound, Event, account
from tacit.accounting.parameters import Number
from tacit.calculus.errors import UnprovedError


@dataclass(frozen=True, repr=False)
class Release:
    """A value that may be published, with the event that prices it."""

    value: Any
    event: Event
    adjacency: Adjacency | None = None
    private: bool = True
    unproved: tuple[str, ...] = ()

    def map(self, function: Callable[[Any], Any]) -> Release:
        """Post-processing: free, and the marks stay."""
        return replace(self, value=function(self.value))

    def epsilon(self, delta: Number = 0) -> Bound:
        """What this release costs at a delta, from both sides."""
        if not self.private:
            raise UnprovedError("this value was drawn in test mode from a seed, so it is NOT PRIVATE and has no epsilon")
        if self.unproved:
            raise UnprovedError(f"no epsilon without a proof: this release rests on {', '.join(self.unproved)}")
        return account(self.event, self.adjacency or Adjacency.ADD_REMOVE).epsilon(float(delta))

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must know before anything else."""
        unproved = (f"UNPROVED: {', '.join(self.unproved)}",) if self.unproved else ()
        return (*unproved, *(() if self.private else ("NOT PRIVATE: drawn in test mode",)))

    def __repr__(self) -> str:
        return f"Release({', '.join([repr(self.value), repr(self.event), *self.marks])})"
