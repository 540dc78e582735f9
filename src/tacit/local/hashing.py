"""Local hashing: the person draws a hash function, hashes the value to g symbols and reports the function and a randomised symbol.

With g about e^epsilon + 1 the variance is that of optimised unary encoding, for reports of 17 bytes whatever the number of values. The
collector pays: every report is compared with every value. `Projective` is as accurate with a fast collector.

>>> oracle = LocalHash(1000, epsilon=1)
>>> oracle.symbols, round(oracle.variance(1), 5)
(4, 3.69165)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.errors import ParameterError
from tacit.local.randomiser import Interval, Randomiser, Reports, Table, local_report, named, shares
from tacit.parameters import Number, count

_REPORT = np.dtype([("a", "<u8"), ("b", "<u8"), ("symbol", "<u2")])


def best_symbols(epsilon: Number) -> int:
    """The whole number of symbols with the least variance, (e - 1 + g)^2 / ((e - 1)^2 (g - 1)) with e = e^epsilon.

    >>> best_symbols(0.5), best_symbols(2)
    (3, 8)
    """
    odds = math.exp(float(epsilon))
    near = {max(2, math.floor(odds) + 1), max(2, math.ceil(odds) + 1)}
    return min(min(near, key=lambda g: (odds - 1 + g) ** 2 / (g - 1)), 2**16)


@named
@dataclass(frozen=True)
class LocalHash(Randomiser):
    """Local hashing to `symbols` symbols (Wang, Blocki, Li, Jha 2017).

    The hash of place x is the top of (a x + b) mod 2^64, a and b uniform: strongly universal on 32 bits (Dietzfelbinger 1996), scaled
    to the symbols, so each has probability 1 / symbols within 2^-32. A wrong symbol has probability 1 / (e^epsilon + symbols - 1)
    each; the textbook's 1 / (e^epsilon + 1) does not add up to 1 (erratum E3).
    """

    symbols: int = 0

    kind: ClassVar[str] = "local-hash"
    largest: ClassVar[int] = 1 << 32

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.symbols or best_symbols(self.epsilon)
        object.__setattr__(self, "symbols", count("symbols", chosen, least=2))
        if self.symbols > 2**16:
            raise ParameterError("symbols must be at most 65,536")

    @property
    def held(self) -> float:
        return self.odds / (self.odds + self.symbols - 1)

    @property
    def other(self) -> float:
        return 1 / self.symbols

    @property
    def event(self) -> LocalReport:
        g = self.symbols
        return local_report(self.epsilon, g / (self.odds + g - 1), (1 - 1 / g) / g, 1 / g**2)

    @property
    def width(self) -> int:
        return 18

    @property
    def cells(self) -> int:
        return self.size

    def distribution(self, value: int, *, bits: int = 128) -> dict[tuple[int, int], Interval]:
        """The law given the hash function, for a few of them: the digits of the place to the base `symbols`, and a constant.

        The function is drawn without looking at the value, so the two laws of one function decide; any two places differ in a digit.
        """
        kept, other = shares(self.epsilon, 1, self.symbols - 1, bits)
        found, digits = {}, 1
        while self.symbols**digits < self.size:
            digits += 1
        for function, own in enumerate([*(value // self.symbols**k % self.symbols for k in range(digits)), 0]):
            for said in range(self.symbols):
                low, high = kept if said == own else other
                found[function, said] = (low / (digits + 1), high / (digits + 1))
        return found

    def hashed(self, a: NDArray[np.uint64], b: NDArray[np.uint64], values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The symbol of each place under each function."""
        with np.errstate(over="ignore"):
            top = (a * values + b) >> np.uint64(32)
        return (top * np.uint64(self.symbols)) >> np.uint64(32)

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        found = np.empty(len(values), dtype=_REPORT)
        found["a"], found["b"] = noise.words(len(values)), noise.words(len(values))
        true = self.hashed(found["a"], found["b"], values.astype(np.uint64)).astype(np.int64)
        lie = ~noise.odds_bits(self.epsilon, len(values), tails=self.symbols - 1)
        step = 1 + noise.uniform_integers(self.symbols - 1, len(values))
        found["symbol"] = (true + lie * step) % self.symbols
        return found

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.ascontiguousarray(reports, dtype=_REPORT).view(np.uint8).reshape(-1, _REPORT.itemsize)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found = np.ascontiguousarray(rows).view(_REPORT).ravel()
        return found, found["symbol"] < self.symbols

    def add(self, table: Table, reports: Reports) -> None:
        # the symbol is an interval of the 64-bit value a x + b; the next place is one addition away
        g = self.symbols
        ends = np.array([-(-(s << 32) // g) << 32 for s in range(g + 1)], dtype=object)
        first = np.array([int(e) for e in ends[:-1]], dtype=np.uint64)
        length = np.array([(int(ends[s + 1]) - int(ends[s])) % 2**64 for s in range(g)], dtype=np.uint64)
        for start in range(0, len(reports), 1 << 13):
            part = reports[start : start + (1 << 13)]
            step = np.ascontiguousarray(part["a"])
            with np.errstate(over="ignore"):
                at = part["b"] - first[part["symbol"]]
                limit = length[part["symbol"]]
                inside = np.empty(len(part), dtype=np.bool_)
                for place in range(self.size):
                    np.less(at, limit, out=inside)
                    table[place] += np.count_nonzero(inside)
                    at += step

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        hashed = self.hashed(reports["a"][:, None], reports["b"][:, None], values.astype(np.uint64))
        return np.asarray(hashed == reports["symbol"][:, None])

    def support(self, table: Table, n: int) -> Table:
        return table.copy()
