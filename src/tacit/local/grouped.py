"""People split into groups: each reports to one of several randomisers for frequencies, drawn without looking at the value.

Splitting people costs less than splitting epsilon: each report has the whole epsilon. Trees of ranges, views of marginals and grids are
such randomisers; they differ in how a value's place becomes a place in its group.

>>> from tacit.local import Response
>>> mixed_event([Response(2, 1), Response(4, 1)]).alpha < Response(2, 1).other
True
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport, RandomizedResponse
from tacit.errors import ParameterError
from tacit.local.choose import best
from tacit.local.randomiser import KINDS, Interval, Randomiser, Reports, Table
from tacit.parameters import Number, count

Array = NDArray[np.float64]
HEAD = 2  # bytes that name the group
MOST = 4096  # groups


def mixed_event(randomisers: Sequence[Randomiser]) -> LocalReport:
    """The price of a report by one of these, all of one epsilon, drawn alike and told: masses are averages."""
    masses = np.zeros(3)
    for one in randomisers:
        event = one.event
        if isinstance(event, RandomizedResponse):
            other = 1 / (one.odds + event.categories - 1)
            masses += other, event.categories * other, 0
        else:
            assert isinstance(event, LocalReport)
            masses += float(event.alpha or 0), float(event.blanket), float(event.blanket * event.both)
    alpha, blanket, both = masses / len(randomisers)
    return LocalReport(randomisers[0].epsilon, alpha * (1 + 1e-14), min(1.0, blanket), both / blanket if blanket else 0)


def oracle(size: int, epsilon: Number, kind: str) -> Randomiser:
    """A randomiser for frequencies by its kind, or the best one for "auto".

    >>> oracle(3, 1, "auto").kind
    'response'
    """
    if kind == "auto":
        return best(size, epsilon)
    if kind not in KINDS or KINDS[kind].answered_by != "Estimates":
        raise ParameterError(f"oracle must be auto or a kind for frequencies, not {kind!r}")
    return KINDS[kind](size, epsilon)


@dataclass(frozen=True)
class GroupedRandomiser(Randomiser):
    """A randomiser that draws one of its `parts` and reports to it; a report is a row of bytes: group, payload, zeros."""

    block: ClassVar[int] = 1 << 18

    @cached_property
    def parts(self) -> tuple[Randomiser, ...]:
        """The randomisers of the groups."""
        found = tuple(self._parts())
        if len(found) > MOST:
            raise ParameterError(f"there are {len(found):,} groups, and at most {MOST:,} are allowed")
        return found

    @abstractmethod
    def _parts(self) -> list[Randomiser]:
        """The randomisers of the groups."""

    @abstractmethod
    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places in a group of values' places."""

    @property
    def event(self) -> LocalReport:
        return mixed_event(self.parts)

    @property
    def width(self) -> int:
        return HEAD + max(part.width for part in self.parts)

    @property
    def cells(self) -> int:
        return sum(1 + part.cells for part in self.parts)

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of one share in its group, at the worst group; `share` as for frequencies."""
        return max(part.variance(1, share) for part in self.parts) * len(self.parts) / count("n", n)

    def distribution(self, value: int, *, bits: int = 128) -> dict[Any, Interval]:
        found = {}
        for group, part in enumerate(self.parts):
            place = int(self.mapped(group, np.array([value]))[0])
            for outcome, (low, high) in part.distribution(place, bits=bits).items():
                found[group, outcome] = (low / len(self.parts), high / len(self.parts))
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        which = noise.uniform_integers(len(self.parts), len(values))
        rows = np.zeros((len(values), self.width), dtype=np.uint8)
        rows[:, :HEAD] = which.astype("<u2").view(np.uint8).reshape(-1, HEAD)
        for group, part in enumerate(self.parts):
            (own,) = np.nonzero(which == group)
            if len(own):
                drawn = part.privatise(self.mapped(group, values[own]))
                rows[own, HEAD : HEAD + part.width] = part.to_bytes(drawn)
        return rows

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.asarray(reports, dtype=np.uint8)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        which = _groups(rows)
        good = np.zeros(len(rows), dtype=np.bool_)
        for group, part in enumerate(self.parts):
            (own,) = np.nonzero(which == group)
            if len(own):
                _, whole = part.from_bytes(np.ascontiguousarray(rows[own, HEAD : HEAD + part.width]))
                good[own] = whole & ~rows[own, HEAD + part.width :].any(axis=1)
        return rows, good

    def add(self, table: Table, reports: Reports) -> None:
        which = _groups(reports)
        start = 0
        for group, part in enumerate(self.parts):
            (own,) = np.nonzero(which == group)
            if len(own):
                payload, _ = part.from_bytes(np.ascontiguousarray(reports[own, HEAD : HEAD + part.width]))
                table[start] += len(own)
                part.add(table[start + 1 : start + 1 + part.cells], payload)
            start += 1 + part.cells

    def shares(self, table: Table) -> list[tuple[int, Array, Array]]:
        """For each group its people, the unbiased shares among them, and these' variances."""
        found, start = [], 0
        for part in self.parts:
            n, counts = int(table[start]), table[start + 1 : start + 1 + part.cells]
            start += 1 + part.cells
            if n == 0:
                raise ParameterError("a group has no reports yet; nothing can be estimated")
            found.append((n, *part.estimates(counts, n)))
        return found


def _groups(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.ascontiguousarray(rows[:, :HEAD]).view("<u2").ravel().astype(np.int64)
