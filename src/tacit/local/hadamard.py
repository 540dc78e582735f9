"""Hadamard response: one randomised bit of the value's Hadamard code, at a place that the person draws.

The report is tiny and both ends are fast. For large epsilon its variance stays at 1 a person where others' falls towards 0, so
`frequencies` never takes it above epsilon 2.

>>> oracle = Hadamard(1000, epsilon=1)
>>> oracle.width, round(oracle.variance(1), 4)
(2, 4.6827)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.local.randomiser import Interval, Reports, SymbolRandomiser, Table, local_report, named, shares


@named
@dataclass(frozen=True)
class Hadamard(SymbolRandomiser):
    """A place j of the code, all alike, and the bit <j, value> mod 2, true with odds e^epsilon to 1 (Acharya, Sun, Zhang 2019)."""

    kind: ClassVar[str] = "hadamard"
    largest: ClassVar[int] = 1 << 32

    @property
    def places(self) -> int:
        """The length of the code: the least power of two from the size on."""
        return 1 << (self.size - 1).bit_length()

    @property
    def symbols(self) -> int:
        return 2 * self.places

    @property
    def cells(self) -> int:
        return self.places

    @property
    def held(self) -> float:
        return self.odds / (self.odds + 1)

    @property
    def other(self) -> float:
        return 0.5

    @property
    def event(self) -> LocalReport:
        return local_report(self.epsilon, 2 / (self.odds + 1), 0.25, 0.25)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        true, false = shares(self.epsilon, 1, 1, bits)
        found = {}
        for place in range(self.places):
            bit = (place & value).bit_count() & 1
            for said in (0, 1):
                low, high = true if said == bit else false
                found[2 * place + said] = (low / self.places, high / self.places)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        place = noise.uniform_integers(self.places, len(values))
        lie = ~noise.odds_bits(self.epsilon, len(values))
        return self._short(2 * place + (np.bitwise_count(place & values) + lie) % 2)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            both = np.bincount(reports[start : start + self.block].astype(np.intp), minlength=self.symbols)
            table += both[0::2] - both[1::2]

    def support(self, table: Table, n: int) -> Table:
        # a report (j, b) supports v where <j, v> = b, so supporters less the others are the transform of the differences
        return (walsh(table)[: self.size] + n) // 2


def walsh(table: Table) -> Table:
    """The Walsh-Hadamard transform, in whole numbers."""
    found, half = table.copy(), 1
    while half < len(found):
        pairs = found.reshape(-1, 2, half)
        upper, lower = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = upper + lower, upper - lower
        half *= 2
    return found
