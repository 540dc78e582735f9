"""Coins with any rational probability p, or exp(-x) for rational x, exactly.

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
