"""Exact draws from a finite law, at the price of a table look-up.

A law is known through `Weights`: integers around 2^bits times each unnormalised weight, at any precision asked for. A `Table` holds, for
every boundary F_i of the cumulative distribution, the words between which 2^64 F_i is proved to lie. A uniform word outside all these
slivers decides its cell for certain. One inside (a chance of about 2^-64 a boundary) is extended with further random words and compared
with boundaries of higher precision until it is decided. So the mass function is the law's own, not a 64-bit rounding of it.

>>> table = Table.of(Rationals((1, 2, 1)))
>>> quarter = 2**62
>>> table.lookup(np.array([0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter, 2**64 - 1], dtype=np.uint64)).tolist()
[0, 0, 1, 1, 2, 2]
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.noise.source import WORD, Words, words

GUARD = 64  # bits beyond those asked for: weights may be off by 2^40 units and a boundary is still known to 2^-20 of a word
INDEX = 14  # leading bits of a word that find most cells at once; 128 KiB a table


class Weights(Protocol):
    """Positive weights of a law, not normalised, the largest at least 1/2."""

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        """Integers below and above 2^bits times each weight, for bits >= 64; the upper ones positive, less than 2^40 apart."""
        ...


@dataclass(frozen=True)
class Rationals:
    """Weights given as positive integers: their proportions are exact.

    >>> Rationals((1, 3)).bounds(2)
    ([4, 12], [4, 12])
    """

    weights: tuple[int, ...]

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        exact = [weight << bits for weight in self.weights]
        return exact, exact


def boundaries(weights: Weights, bits: int) -> tuple[list[int], list[int]]:
    """Integers with low_i <= 2^bits F_i <= high_i for the inner boundaries F_1 < ... of the cumulative distribution.

    F is A / (A + R) with A the weight before the boundary and R that after it: least for the least A and the greatest R.

    >>> boundaries(Rationals((1, 1, 1)), 4)
    ([5, 10], [6, 11])
    """
    low, high = weights.bounds(bits + GUARD)
    least, most = list(accumulate(low)), list(accumulate(high))
    lower = [(a << bits) // (a + most[-1] - b) for a, b in zip(least[:-1], most[:-1], strict=True)]
    upper = [-((-b << bits) // (b + least[-1] - a)) for a, b in zip(least[:-1], most[:-1], strict=True)]
    return lower, upper


class Table:
    """A finite law on 0 .. n - 1, ready to be drawn from.

    `first` and `last` are, for each inner boundary in order, the first and the last word that do not decide it; `last` is one less than
    `first` where the boundary is exactly between two words. `Table.of` computes both from the weights.
    """

    def __init__(self, weights: Weights, first: Words, last: Words, *, indexed: bool) -> None:
        self.weights = weights
        self.first = first
        self.last = last
        self._index = self.index(INDEX) if indexed else None

    @classmethod
    def of(cls, weights: Weights, *, indexed: bool = True) -> Table:
        """The table of these weights; an index of leading bits pays for itself after some thousand draws."""
        lower, upper = boundaries(weights, WORD)
        first = np.array([min(low, 2**WORD - 1) for low in lower], dtype=np.uint64)
        last = np.array([high - 1 for high in upper], dtype=np.uint64)
        # Bounds of increasing numbers, made increasing themselves: still bounds, and a search may stop at the nearest one.
        return cls(weights, np.minimum.accumulate(first[::-1])[::-1].copy(), np.maximum.accumulate(last), indexed=indexed)

    def draw(self, count: int) -> NDArray[np.intp]:
        """`count` independent cells."""
        return self.lookup(words(count))

    def lookup(self, uniforms: Words) -> NDArray[np.intp]:
        """The cell in which each uniform lies."""
        if self._index is None:
            return self._search(uniforms)
        found = self._index[(uniforms >> np.uint64(WORD - INDEX)).astype(np.intp)]
        open_ = np.flatnonzero(found < 0)
        if len(open_):
            found[open_] = self._search(uniforms[open_])
        return found

    def index(self, bits: int) -> NDArray[np.intp]:
        """The cell for each value of a word's leading bits, or -1 where those alone do not decide."""
        low = np.arange(1 << bits, dtype=np.uint64) << np.uint64(WORD - bits)
        high = low + np.uint64((1 << WORD - bits) - 1)
        certain = np.searchsorted(self.last, low, side="left")  # boundaries proved to lie at or below the first word of the bucket
        possible = np.searchsorted(self.first, high, side="right")  # boundaries that may lie below its last word
        return np.where(certain == possible, certain, -1)

    def _search(self, uniforms: Words) -> NDArray[np.intp]:
        found = np.searchsorted(self.first, uniforms, side="right")
        if len(self.first):
            doubtful = (found > 0) & (uniforms <= self.last[found - 1])
            for i in np.flatnonzero(doubtful).tolist():
                found[i] = self._settle(int(uniforms[i]))
        return found

    def _settle(self, word: int) -> int:
        """Extend the uniform that starts with `word` until its cell is certain."""
        bits = WORD
        while True:
            word = word << WORD | int(words(1)[0])
            bits += WORD
            lower, upper = boundaries(self.weights, bits)
            lower, upper = list(accumulate(reversed(lower), min))[::-1], list(accumulate(upper, max))
            certain = bisect_right(upper, word)  # high <= word: the uniform is at or beyond the boundary
            possible = bisect_right(lower, word)  # low <= word: it may be
            if certain == possible:
                return certain
