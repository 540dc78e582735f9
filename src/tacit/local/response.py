"""Randomised response among k categories: report the value, with odds e^epsilon to 1 against each other one (direct encoding).

Best for few categories, up to about 3 e^epsilon + 2; beyond that its variance grows with their number.

>>> oracle = Response(4, epsilon=1)
>>> oracle.event
RandomizedResponse(epsilon=1, categories=4)
>>> oracle.privatise([0, 3, 1]).shape
(3,)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import RandomizedResponse
from tacit.local.randomiser import Interval, Reports, SymbolRandomiser, Table, named, shares


@named
@dataclass(frozen=True)
class Response(SymbolRandomiser):
    """The value with probability e^epsilon / (e^epsilon + size - 1), else another one, all alike (Warner 1965; Kairouz et al. 2016)."""

    kind: ClassVar[str] = "response"
    largest: ClassVar[int] = 1 << 32

    @property
    def symbols(self) -> int:
        return self.size

    @property
    def held(self) -> float:
        return self.odds / (self.odds + self.size - 1)

    @property
    def other(self) -> float:
        return 1 / (self.odds + self.size - 1)

    @property
    def event(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon, self.size)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        kept, other = shares(self.epsilon, 1, self.size - 1, bits)
        return {report: kept if report == value else other for report in range(self.size)}

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        lie = ~noise.odds_bits(self.epsilon, len(values), tails=self.size - 1)
        # drawn for all, so that the time does not tell who lied
        step = 1 + noise.uniform_integers(self.size - 1, len(values))
        return self._short((values + lie * step) % self.size)

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(reports.astype(np.int64)[:, None] == values)

    def support(self, table: Table, n: int) -> Table:
        return table.copy()
