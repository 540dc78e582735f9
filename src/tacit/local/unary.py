"""Unary encoding: one bit for every value, each randomised by itself; symmetric (SUE) or optimised (OUE).

The optimised form keeps the true bit with probability 1/2 and turns every other one on with probability 1 / (e^epsilon + 1), which
gives the least variance there is for large domains, 4 e^epsilon / (e^epsilon - 1)^2 a person, for reports of one bit a value.

>>> oracle = Unary(100, epsilon=1)
>>> oracle.width, round(oracle.variance(1), 5)
(13, 3.68269)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.local.randomiser import Interval, Randomiser, Reports, Table, local_report, named
from tacit.mechanisms import exp_bracket


@dataclass(frozen=True)
class BitRandomiser(Randomiser):
    """A randomiser whose report is a row of bits, one for each value, packed into bytes from the highest bit on."""

    largest: ClassVar[int] = 1 << 32

    @property
    def block(self) -> int:  # type: ignore[override]
        """Rows at once: about 2^24 bits."""
        return max(1, min(1 << 12, (1 << 24) // self.size))

    @property
    def width(self) -> int:
        return (self.size + 7) // 8

    @property
    def cells(self) -> int:
        return self.size

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.asarray(reports, dtype=np.uint8)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        spare = 8 * self.width - self.size
        return rows, (rows[:, -1] & ((1 << spare) - 1)) == 0 if spare else np.ones(len(rows), dtype=np.bool_)

    def add(self, table: Table, reports: Reports) -> None:
        # up to 255 rows add up in bytes, which is what the processor adds fastest
        for start in range(0, len(reports), 255):
            rows = np.unpackbits(reports[start : start + 255], axis=1, count=self.size)
            table += np.add.reduce(rows, axis=0, dtype=np.uint8)

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(reports[:, values // 8] >> (7 - values % 8).astype(np.uint8) & 1, dtype=np.bool_)

    def support(self, table: Table, n: int) -> Table:
        return table.copy()

    def _law(self, value: int, held: Interval, other: Interval) -> dict[tuple[int, ...], Interval]:
        """The law of all rows of bits, from the chance of a one at the value and elsewhere."""
        found = {}
        for row in itertools.product((0, 1), repeat=self.size):
            low = high = Fraction(1)
            for place, bit in enumerate(row):
                least, most = held if place == value else other
                least, most = (least, most) if bit else (1 - most, 1 - least)
                low, high = low * least, high * most
            found[row] = (low, high)
        return found


@named
@dataclass(frozen=True)
class Unary(BitRandomiser):
    """Optimised unary encoding (Wang, Blocki, Li, Jha 2017)."""

    kind: ClassVar[str] = "unary"

    @property
    def held(self) -> float:
        return 0.5

    @property
    def other(self) -> float:
        return 1 / (self.odds + 1)

    @property
    def event(self) -> LocalReport:
        u = self.other
        return local_report(self.epsilon, (self.odds + 1) / (2 * self.odds), u * (1 - u), u * u)

    def distribution(self, value: int, *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        low, high = exp_bracket(self.epsilon, bits)
        half = Fraction(1, 2)
        return self._law(value, (half, half), (1 / (high + 1), 1 / (low + 1)))

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        bits = ~noise.odds_bits(self.epsilon, len(values) * self.size).reshape(len(values), self.size)
        bits[np.arange(len(values)), values] = noise.uniform_integers(2, len(values)).astype(np.bool_)
        return np.packbits(bits, axis=1)


@named
@dataclass(frozen=True)
class SymmetricUnary(BitRandomiser):
    """Symmetric unary encoding: every bit by randomised response with epsilon / 2 (basic RAPPOR; Erlingsson, Pihur, Korolova 2014)."""

    kind: ClassVar[str] = "symmetric-unary"

    @property
    def held(self) -> float:
        return 1 / (1 + math.exp(-float(self.epsilon) / 2))

    @property
    def other(self) -> float:
        return 1 / (1 + math.exp(float(self.epsilon) / 2))

    @property
    def event(self) -> LocalReport:
        return LocalReport(self.epsilon, self.other**2 * (1 + 1e-14))

    def distribution(self, value: int, *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        low, high = exp_bracket(Fraction(self.epsilon) / 2, bits)
        return self._law(value, (low / (low + 1), high / (high + 1)), (1 / (high + 1), 1 / (low + 1)))

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        true = noise.odds_bits(Fraction(self.epsilon) / 2, len(values) * self.size).reshape(len(values), self.size)
        bits = ~true
        rows = np.arange(len(values))
        bits[rows, values] = true[rows, values]
        return np.packbits(bits, axis=1)
