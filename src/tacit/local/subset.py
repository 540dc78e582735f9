"""Subset selection: report a set of values of fixed size, which holds the true one more often than chance (Ye and Barg 2018).

Its variance is the optimum's, a little below that of unary encoding; its reports are long and both ends slow. It is here to compare with.

>>> oracle = Subset(100, epsilon=1)
>>> oracle.chosen, round(oracle.variance(1), 4)
(27, 3.5896)
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
    """A random subset of `chosen` values; each that holds the true one is e^epsilon times as likely as each that does not."""

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
        wanted = self.chosen - keep
        if self.chosen**2 <= self.size:
            return np.packbits(self._few(values, keep), axis=1)
        # a coin for each other value gives a random subset that is uniform given its size; values drawn at random are then added or
        # taken away until the size is right, which leaves it uniform
        found = noise.odds_bits(0, n * self.size, heads=self.chosen, tails=self.size - self.chosen).reshape(n, self.size)
        found[rows, values] = False
        missing = wanted - found.sum(axis=1)
        while len(open_ := np.flatnonzero(missing)):
            drawn = noise.uniform_integers(self.size, len(open_))
            more = missing[open_] > 0
            change = (found[open_, drawn] != more) & (drawn != values[open_])
            at, place = open_[change], drawn[change]
            found[at, place] = more[change]
            missing[at] -= np.where(more[change], 1, -1)
        found[rows, values] = keep
        return np.packbits(found, axis=1)

    def _few(self, values: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Rows of bits of small subsets: places are drawn one by one, and a person's all again where two are the same or one is her own.

        What is left is uniform, and how often this happens does not depend on the value.
        """
        n, k = len(values), self.chosen
        places, open_ = np.empty((n, k), dtype=np.int64), np.arange(n)
        while len(open_):
            drawn = noise.uniform_integers(self.size, len(open_) * k).reshape(-1, k)
            places[open_] = drawn
            ordered = np.sort(drawn, axis=1)
            again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) | (drawn == values[open_, None]).any(axis=1)
            open_ = open_[again]
        places[keep, 0] = values[keep]  # in place of one of the others
        found = np.zeros((n, self.size), dtype=np.bool_)
        found[np.arange(n)[:, None], places] = True
        return found

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found, whole = super().from_bytes(rows)
        return found, whole & (np.bitwise_count(rows).sum(axis=1) == self.chosen)
