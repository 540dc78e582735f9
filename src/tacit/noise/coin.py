"""Coins with any rational probability p, exp(-x) for rational x, or odds of e^x times a fraction, exactly.

>>> bernoulli(1, size=3).tolist(), bernoulli_exp(0, size=2).tolist()
([1, 1, 1], [1, 1])
>>> bernoulli(Fraction(1, 3)) in (0, 1)
True

A word is compared with integers that enclose 2^64 times the probability; one that falls between them is extended.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.noise.draws import Integers, Size, shaped
from tacit.noise.entropy import WORD
from tacit.noise.exponential import Bounds, below, exp_bounds
from tacit.noise.source import words
from tacit.parameters import Number, nonnegative, probability
from tacit.parameters import count as whole


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
