"""Subset selection: report a set of values of fixed size, which holds the true one more often than chance (Ye and Barg 2018).

Its variance is the optimum's, a little below that of unary encoding; its reports are long and both ends slow. It is here to compare with.

>>> oracle = Subset(100, epsilon=1)
>>> oracle.chosen, round(oracle.variance(1), 4)
(27, 3.5727)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.errors import ParameterError
from tacit.local.randomiser import Interval, Reports, local_report, named, shares
from tacit.local.unary import BitRandomiser
from tacit.parameters import count


@named
@dataclass(frozen=True)
class Subset(BitRandomiser):
    """A uniformly random subset of `chosen` values among those that hold the true one, with odds that make each e^epsilon times as likely."""

    chosen: int = 0

    kind: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        super().__post_init__()
        best = max(1, round(self.size / (self.odds + 1)))
        object.__setattr__(self, "chosen", count("chosen", self.chosen or best, least=1))
        if self.chosen >= self.size:
            raise ParameterError("chosen must be below size")

    @property
    def held(self) -> float:
        return self.odds * self.chosen / (self.odds * self.chosen + self.size - self.chosen)

    @property
    def other(self) -> float:
        with_, without = (self.chosen - 1) / (self.size - 1), self.chosen / (self.size - 1)
        return self.held * with_ + (1 - self.held) * without

    @property
    def event(self) -> LocalReport:
        d, w = self.size, self.chosen
        one, both = w * (d - w) / (d * (d - 1)), w * (w - 1) / (d * (d - 1))
        return local_report(self.epsilon, d / (self.odds * w + d - w), one, both)

    def distribution(self, value: int, *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        holding, not_ = math.comb(self.size - 1, self.chosen - 1), math.comb(self.size - 1, self.chosen)
        inside, outside = shares(self.epsilon, holding, not_, bits)
        subsets = itertools.combinations(range(self.size), self.chosen)
        return {chosen: inside if value in chosen else outside for chosen in subsets}

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        n, rows = len(values), np.arange(len(values))
        keep = noise.odds_bits(self.epsilon, n, heads=self.chosen, tails=self.size - self.chosen)
        # the others in random order; the first so many of them are in, one less where the value itself is
        keys = noise.words(n * self.size).reshape(n, self.size)
        keys[rows, values] = np.uint64(2**64 - 1)
        wanted = self.chosen - keep
        borders = np.partition(keys, [max(self.chosen - 2, 0), self.chosen - 1], axis=1)
        border = borders[rows, np.maximum(wanted - 1, 0)]
        found = (keys <= border[:, None]) & (wanted > 0)[:, None]
        found[rows, values] = False
        (tied,) = np.nonzero(found.sum(axis=1) != wanted)
        for row in tied.tolist():  # two equal keys on the border, of 64 random bits: a further random order settles it
            order = np.lexsort((noise.permutation(self.size), keys[row]))
            order = order[order != values[row]]
            found[row] = False
            found[row, order[: wanted[row]]] = True
        found[rows, values] = keep
        return np.packbits(found, axis=1)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found, whole = super().from_bytes(rows)
        return found, whole & (np.bitwise_count(rows).sum(axis=1) == self.chosen)
