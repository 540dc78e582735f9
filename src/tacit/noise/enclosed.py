"""Uniform words compared with numbers that are known through integer enclosures: exp(-x), and the boundaries of a
finite law. Where a word lies too near to be decided, it is extended with further random words and compared at a
higher precision. So precision chooses how fast the answer comes, never what it is.

`exp_bounds` works on integers only, so its enclosures are theorems at any precision:

>>> low, high = exp_bounds(Fraction(1), 64)
>>> low <= 6786177901268885274 < high, high - low <= 2  # 2^64 / e = 6786177901268885274.3...
(True, True)

`below_exp` decides for many uniforms at once whether each lies under its exp(-x). It first compares floating-point figures that are within
2^-40 of the truth; the one comparison in about 1e12 that this leaves open is settled by `below`, which extends the uniform until
`exp_bounds` decides.

A finite law is known through `Weights`: integers around 2^bits times each unnormalised weight, at any precision asked for. A `Table`
holds, for every boundary F_i of the cumulative distribution, the words between which 2^64 F_i is proved to lie. A uniform word outside
all these slivers decides its cell for certain; one inside (a chance of about 2^-64 a boundary) is extended until it is decided. So the
mass function is the law's own, not a 64-bit rounding of it.

>>> table = Table.of(Rationals((1, 2, 1)))
>>> quarter = 2**62
>>> table.lookup(np.array([0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter, 2**64 - 1], dtype=np.uint64)).tolist()
[0, 0, 1, 1, 2, 2]

Coins are such comparisons: with any rational probability p, with exp(-x) for rational x, or with odds of e^x times a fraction.

>>> bernoulli(1, size=3).tolist(), bernoulli_exp(0, size=2).tolist(), bernoulli(Fraction(1, 3)) in (0, 1)
([1, 1, 1], [1, 1], True)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from tacit.noise.source import WORD, Integers, Size, Words, shaped, words
from tacit.parameters import Number, nonnegative, probability
from tacit.parameters import count as whole

Bounds = Callable[[int], tuple[int, int]]  # bits -> integers around 2^bits times a number
SMALL = 8  # Taylor's series is used below 2^-SMALL
MARGIN = 2.0**-40
STEPS = 16  # the filter holds a table of exp(-i / STEPS) up to CUTOFF
CUTOFF = 64  # exp(-64) < 2^-92 is far below the margin


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low <= 2^bits exp(-x) <= high and high - low <= 2, for rational x >= 0.

    >>> exp_bounds(Fraction(0), 8), exp_bounds(Fraction(10**6), 64)
    ((256, 256), (0, 1))
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # exp(-x) < 2^-bits; checked first, as x may have thousands of digits
        return 0, 1
    halvings = max(0, (x.numerator // x.denominator).bit_length() + SMALL)
    one = bits + halvings + 16  # squaring doubles the relative error each time
    scaled = (x.numerator << one) // (x.denominator << halvings)
    low, high = _reciprocal_series(scaled, scaled + 1, one)
    for _ in range(halvings):
        low, high = low * low >> one, -(-high * high >> one)
    return low >> one - bits, -(-high >> one - bits)


def _reciprocal_series(least: int, most: int, one: int) -> tuple[int, int]:
    """Bounds of 2^one / exp(y) for y between least and most, in units of 2^-one and at most about 2^-SMALL."""
    under, term, order = 0, 1 << one, 0
    while term:
        under += term
        order += 1
        term = (term * least >> one) // order
    over, term, order = 0, 1 << one, 0
    while term > 1:
        over += term
        order += 1
        term = -((-term * most >> one) // order)  # rounded up: the floor of the negative, twice
    over += 2 * term  # the terms from here on fall at least by half each time
    square = 1 << 2 * one
    return square // over, -(-square // under)


def power_bounds(x: Fraction, count: int, bits: int) -> tuple[list[int], list[int]]:
    """Integers around 2^bits exp(-i x) for i = 0 .. count - 1; they lie at most 4 i apart.

    >>> [low <= high for low, high in zip(*power_bounds(Fraction(1, 3), 3, 40))]
    [True, True, True]
    """
    first_low, first_high = exp_bounds(x, bits)
    low, high = [1 << bits], [1 << bits]
    for _ in range(count - 1):
        low.append(low[-1] * first_low >> bits)
        high.append(-(-high[-1] * first_high >> bits))
    return low, high


def below(word: int, bounds: Bounds) -> bool:
    """Whether a uniform number that starts with `word` is less than the number that `bounds` encloses.

    The uniform is extended by fresh words until that is certain: after one word in all but 2^-64 of cases.
    """
    bits = WORD
    while True:
        low, high = bounds(bits)
        if word < low:
            return True
        if word >= high:
            return False
        word = word << WORD | int(words(1)[0])
        bits += WORD


def below_exp(uniforms: Words, x: NDArray[np.float64], exact: Callable[[int], Fraction]) -> NDArray[np.bool_]:
    """Whether each uniform lies under exp(-x), for `x` within a relative 2^-46 of `exact(i)`, the i-th exponent as a rational.

    With x = y (1 + e), exp(-x) differs from exp(-y) by at most |e| max(t exp(-t)) < 2^-47; the figure of `rough_exp` from exp(-x) by
    2^-46; the uniform from its first 53 bits by 2^-53. Together less than MARGIN = 2^-40.

    >>> below_exp(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), np.array([1.0, 1.0, 1.0]), lambda i: Fraction(1)).tolist()
    [True, False, False]
    """
    gap = rough_exp(x) - uniforms * 2.0**-WORD
    found: NDArray[np.bool_] = gap > 0
    for i in np.flatnonzero(np.abs(gap) <= MARGIN).tolist():
        rational = exact(i)
        found[i] = below(int(uniforms[i]), partial(exp_bounds, rational))
    return found


def rough_exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(-x) for x >= 0 within 2^-46, relative below CUTOFF; only additions, multiplications and a table made by `exp_bounds`.

    x = i / 16 + f with both parts exact. Taylor's series of degree 8 errs by less than (1/16)^9 / 9! < 2^-54 and its evaluation by
    less than 20 roundings of 2^-53, the product with the table's entry by two more. Beyond CUTOFF the figure is exp(-CUTOFF).

    >>> rough_exp(np.array([0.0, 1.0])).tolist()
    [1.0, 0.36787944117144233]
    """
    x = np.minimum(x, CUTOFF)
    step = (x * STEPS).astype(np.intp)
    rest = x - step * (1 / STEPS)
    series = rest * (-1 / 8) + 1
    for order in range(7, 0, -1):
        series *= rest
        series *= -1 / order
        series += 1
    series *= _table()[step]
    return series


@cache
def _table() -> NDArray[np.float64]:
    """exp(-i / STEPS), each within 2^-52 of itself."""
    bits = 256  # exp(-64) is above 2^-93, and the bounds lie at most 2^12 apart: far closer than a float can tell
    bounds = power_bounds(Fraction(1, STEPS), STEPS * CUTOFF + 1, bits)
    return np.array([(low + high) / (2 << bits) for low, high in zip(*bounds, strict=True)])


# --- a finite law ----------------------------------------------------------------------------------------------------

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
        certain, possible = self.buckets(bits)
        return np.where(certain == possible, certain, -1)

    def buckets(self, bits: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each value of a word's leading bits: how many boundaries surely lie at or below its first word, and how many may
        lie below its last one."""
        low = np.arange(1 << bits, dtype=np.uint64) << np.uint64(WORD - bits)
        high = low + np.uint64((1 << WORD - bits) - 1)
        return np.searchsorted(self.last, low, side="left"), np.searchsorted(self.first, high, side="right")

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


# --- coins ---


@overload
def bernoulli(p: Number, size: None = None) -> int: ...
@overload
def bernoulli(p: Number, size: Size) -> NDArray[Any]: ...
def bernoulli(p: Number, size: Size | None = None) -> int | NDArray[Any]:
    """1 with probability p, else 0.

    >>> bernoulli(0)
    0
    """
    exact = Fraction(probability("p", p))
    top, under = exact.numerator, exact.denominator
    return _tosses(lambda bits: ((top << bits) // under, -((-top << bits) // under)), size)


@overload
def bernoulli_exp(x: Number, size: None = None) -> int: ...
@overload
def bernoulli_exp(x: Number, size: Size) -> NDArray[Any]: ...
def bernoulli_exp(x: Number, size: Size | None = None) -> int | NDArray[Any]:
    """1 with probability exp(-x), else 0, for x >= 0.

    >>> bernoulli_exp(10**9)  # 1 has probability 10^-434294481
    0
    """
    exact = Fraction(nonnegative("x", x))
    return _tosses(lambda bits: exp_bounds(exact, bits), size)


def odds_bits(x: Number, count: int, *, heads: int = 1, tails: int = 1) -> NDArray[np.bool_]:
    """So many independent bits, each true with odds of e^x heads to tails, for x >= 0: probability e^x heads / (e^x heads + tails).

    The first byte of a uniform number decides all but one in 256; these get the rest of their word, and more where that is needed.

    >>> odds_bits(10**4, 3, tails=10**6).tolist()  # False has probability 10^-4337
    [True, True, True]
    """
    exact = Fraction(nonnegative("x", x))
    for_, against = whole("heads", heads), whole("tails", tails)

    def bounds(bits: int) -> tuple[int, int]:
        more = bits + 64 + against.bit_length()
        low, high = exp_bounds(exact, more)  # around 2^more e^-x
        total = for_ << more
        return (total << bits) // (total + against * high), -((-total << bits) // (total + against * low))

    low, high = bounds(WORD)
    first = words(-(-count // 8)).view(np.uint8)[:count]
    # bytes below the first end surely decide for heads, bytes from the last end on surely do not
    sure, last = low >> (WORD - 8), -(-high >> (WORD - 8))
    found = first < sure if sure < 256 else np.ones(count, dtype=np.bool_)
    if sure < last:
        (open_,) = np.nonzero((first >= sure) & (first < last) if last < 256 else first >= sure)
        rest = words(len(open_)) >> np.uint64(8)
        drawn = (first[open_].astype(np.uint64) << np.uint64(WORD - 8)) | rest
        heads_ = drawn <= np.uint64(low - 1) if low else np.zeros(len(open_), dtype=np.bool_)
        doubtful = (drawn <= np.uint64(high - 1)) & ~heads_ if high else np.zeros(len(open_), dtype=np.bool_)
        for i in np.flatnonzero(doubtful).tolist():
            heads_[i] = below(int(drawn[i]), bounds)
        found[open_] = heads_
    return found


def _tosses(bounds: Bounds, size: Size | None) -> int | NDArray[Any]:
    low, high = bounds(WORD)

    def bulk(count: int) -> Integers:
        drawn = words(count)
        # A boundary at 2^64 itself is beyond every word, so the comparisons are with the word before each boundary.
        heads = drawn <= np.uint64(low - 1) if low else np.zeros(count, dtype=np.bool_)
        doubtful = (drawn <= np.uint64(high - 1)) & ~heads if high else np.zeros(count, dtype=np.bool_)
        for i in np.flatnonzero(doubtful).tolist():
            heads[i] = below(int(drawn[i]), bounds)
        return heads.astype(np.int64)

    return shaped(bulk, size)
