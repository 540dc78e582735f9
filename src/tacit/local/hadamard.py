"""Hadamard response: one randomised bit of the value's Hadamard code, at a place that the person draws; and its block form.

The report is tiny and both ends are fast. For large epsilon its variance stays at 1 a person where others' falls towards 0, so
`frequencies` never takes it above epsilon 2. `BlockHadamard` gives every value a code in one of several blocks, which brings the variance
down to about twice the optimum where people are spread over the blocks; `Projective` is better, and stays so wherever people are.

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
from tacit.errors import ParameterError
from tacit.local.randomiser import Interval, Reports, SymbolRandomiser, Table, local_report, named, shares
from tacit.parameters import Number, count, probability


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

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        told = reports.astype(np.int64)[:, None]
        return np.asarray(np.bitwise_count(told >> 1 & values) % 2 == told & 1)

    def support(self, table: Table, n: int) -> Table:
        # a report (j, b) supports v where <j, v> = b, so supporters less the others are the transform of the differences
        return (walsh(table)[: self.size] + n) // 2


@named
@dataclass(frozen=True)
class BlockHadamard(SymbolRandomiser):
    """Hadamard response in `blocks` blocks, for large epsilon (Acharya, Sun, Zhang 2019).

    A report is a place of one block. Value v belongs to block v mod `blocks` and is supported by the half of the block's places j at which
    <j, 1 + v // blocks> is even; each of them is e^epsilon times as likely as any other place, in all blocks. Places of other blocks say
    nothing about v and count half, so that what speaks for v and against it is in balance; the share stays unbiased whatever the data.

    The variance depends on how many people hold values of the same block: `variance` is that of people spread evenly over the blocks, and
    estimates take it from the counted reports.

    >>> oracle = BlockHadamard(1000, epsilon=4)
    >>> oracle.blocks, oracle.places, round(oracle.variance(1), 4), round(Hadamard(1000, 4).variance(1), 4)
    (27, 64, 0.1493, 1.076)
    """

    blocks: int = 0

    kind: ClassVar[str] = "block-hadamard"
    largest: ClassVar[int] = 1 << 28

    def __post_init__(self) -> None:
        super().__post_init__()
        # (e - 1 + 2 b)^2 / (b (e - 1)^2), the variance of an even spread, is least at b = (e - 1) / 2
        best = min(max(1, round((self.odds - 1) / 2)), self.size, 1 << 16)
        object.__setattr__(self, "blocks", count("blocks", self.blocks or best))
        if self.blocks > self.size:
            raise ParameterError("blocks must be at most size")

    @property
    def places(self) -> int:
        """The places of a block: a power of two above the number of its values, since row 0 of the code tells nothing."""
        return 1 << (-(-self.size // self.blocks)).bit_length()

    @property
    def symbols(self) -> int:
        return self.blocks * self.places

    @property
    def rare(self) -> float:
        """The probability of one place that does not support the value."""
        return 2 / (self.places * (self.odds + 2 * self.blocks - 1))

    @property
    def held(self) -> float:
        return 0.5 + self.gap

    @property
    def other(self) -> float:
        return 0.5

    @property
    def gap(self) -> float:
        return self.rare * self.places * (self.odds - 1) / 4

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of an estimated share where those who do not hold the value are spread evenly over the blocks."""
        held = float(probability("share", share))
        return self._spread(held + (1 - held) / self.blocks, held) / count("n", n)

    def _spread(self, crowd: float, held: float) -> float:
        """n times the variance where this share of the people hold values of the same block, and this share the value itself."""
        seen = self.rare * self.places * (1 + crowd * (self.odds - 1) / 2)  # how many reports are of the block
        return seen / (2 * self.gap) ** 2 - held

    def estimates(self, table: Table, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        share = (self.support(table, n) / n - self.other) / self.gap
        seen = table.reshape(self.blocks, self.places).sum(axis=1)[np.arange(self.size) % self.blocks] / n
        return share, np.maximum(seen / (2 * self.gap) ** 2 - share, 0.0) / n  # the share as it is: cut at 0 it would be too large

    @property
    def event(self) -> LocalReport:
        # two values of different blocks are told apart best: of two values of one block, half of the places that favour one favour both.
        # Moving these to places that favour one value each keeps the mean of the blanket's Z and widens it, so this price covers both
        mass = self.symbols * self.rare
        if self.blocks == 1:
            return local_report(self.epsilon, mass, 0.25, 0.25)
        return local_report(self.epsilon, mass, 0.5 / self.blocks, 0.0)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        half = self.places // 2
        inside, outside = shares(self.epsilon, half, self.symbols - half, bits)
        own, row = value % self.blocks, 1 + value // self.blocks
        found = dict.fromkeys(range(self.symbols), outside)
        start = own * self.places
        return found | {start + place: inside for place in range(self.places) if (place & row).bit_count() % 2 == 0}

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        n, half = len(values), self.places // 2
        own, row = values % self.blocks, 1 + values // self.blocks
        inside = noise.odds_bits(self.epsilon, n, heads=half, tails=self.symbols - half)
        place = noise.uniform_integers(self.places, n)
        # where the value is not told: the other half of its block, or one of the other blocks, all places alike
        elsewhere = noise.uniform_integers(2 * self.blocks - 1, n)
        away = ~inside & (elsewhere > 0)
        block = np.where(away, (own + 1 + (elsewhere - 1) // 2) % self.blocks, own)
        odd = np.bitwise_count(place & row) % 2
        wrong = ~away & (odd != ~inside)
        place ^= np.where(wrong, row & -row, 0)  # flips the parity, and takes each place of one half to one of the other
        return self._short(block * self.places + place)

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        block, place = np.divmod(reports.astype(np.int64)[:, None], self.places)
        even = np.bitwise_count(place & (1 + values // self.blocks)) % 2 == 0
        return np.asarray((block == values % self.blocks) & even)

    def support(self, table: Table, n: int) -> NDArray[np.float64]:
        each = np.arange(self.size)
        told = walsh(table.reshape(self.blocks, self.places))[each % self.blocks, 1 + each // self.blocks]
        return np.asarray((n + told) / 2)


def walsh(table: Table) -> Table:
    """The Walsh-Hadamard transform along the last axis, in whole numbers."""
    found, half = table.copy(), 1
    while half < found.shape[-1]:
        pairs = found.reshape(-1, 2, half)
        upper, lower = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = upper + lower, upper - lower
        half *= 2
    return found
