"""Uniform integers and permutations, exactly.

>>> set(uniform_integers(3, size=100).tolist()) <= {0, 1, 2}
True
>>> sorted(permutation(5).tolist())
[0, 1, 2, 3, 4]
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.noise.draws import Integers, Size, accepted, random_bits, shaped
from tacit.noise.entropy import WORD, Words
from tacit.noise.source import words
from tacit.parameters import count as whole


@overload
def uniform_integers(n: int, size: None = None) -> int: ...
@overload
def uniform_integers(n: int, size: Size) -> NDArray[Any]: ...
def uniform_integers(n: int, size: Size | None = None) -> int | NDArray[Any]:
    """Integers 0 .. n - 1 with equal probability; int64 up to n = 2^63, Python integers beyond.

    >>> uniform_integers(1)
    0
    """
    whole("n", n)
    return shaped(lambda missing: accepted(lambda k: _propose(int(n), k), missing), size)


def _propose(n: int, count: int) -> tuple[Integers, NDArray[np.bool_]]:
    """A number of many more bits modulo n, rejected where the last, incomplete run of n begins.

    The rejected chance is below n / 2^64, or 2^-64 for large n; up to 1/2 between 2^32 and 2^64.
    """
    if n <= 1 << 63:
        drawn = words(count)
        keep = drawn <= np.uint64((1 << WORD) - 1 - (1 << WORD) % n)
        return (drawn % np.uint64(n)).astype(np.int64), keep
    bits = n.bit_length() + WORD
    wide = random_bits(bits, count)
    return wide % n, (wide < (1 << bits) - (1 << bits) % n).astype(np.bool_)


def permutation(n: int) -> NDArray[np.int64]:
    """0 .. n - 1 in random order, all orders equally likely.

    The order in which n independent uniform reals sort. Each is known by its first word; where two words tie, all get a further one.

    >>> permutation(0).tolist()
    []
    """
    whole("n", n, least=0)
    keys: list[Words] = []
    while True:
        keys.insert(0, words(n))  # the last key of a lexical sort is its first criterion
        order = np.lexsort(keys)
        tied = np.ones(max(n - 1, 0), dtype=np.bool_)
        for key in keys:
            tied &= key[order][1:] == key[order][:-1]
        if not tied.any():
            return order.astype(np.int64)
