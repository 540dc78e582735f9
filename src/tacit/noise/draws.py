"""From random words to what the caller gets: bits, integers, orders, coins; and shapes and pools for every
sampler.

Uniform integers, permutations, and coins with any rational probability p, exp(-x) for rational x, or odds of
e^x times a fraction, all exactly:

>>> set(uniform_integers(3, size=100).tolist()) <= {0, 1, 2}, sorted(permutation(5).tolist())
(True, [0, 1, 2, 3, 4])
>>> bernoulli(1, size=3).tolist(), bernoulli_exp(0, size=2).tolist(), bernoulli(Fraction(1, 3)) in (0, 1)
([1, 1, 1], [1, 1], True)

**Timing.** `hand_out` serves a single value from a pool that was drawn in bulk before: a call hands out the
next one, in the order drawn, whatever it is, so the time of the call does not depend on the value. Now and
then a call refills the pool first; when that happens is a matter of counting. A pool never leaves its process
(a forked child starts with none) and is not used in test mode. Short arrays are handed out in the same way,
from the second one of a law on: most of what a hundred draws cost is the same for one draw as for thousands.

In bulk, time depends on the draws through the number of proposals a sampler rejects and the number of words
it must extend. Rejected proposals are thrown away before any value is placed, and given how many there were
the accepted values are independent draws of the law: the time says nothing about them. One exception is rarer
than any attack can use: a value beyond the end of a table (20 scales of a discrete Laplace, 8 of a discrete
Gaussian) takes a second look-up.

>>> hand_out(("always one",), lambda count: np.ones(count, dtype=np.int64), (2, 2)).tolist()
[[1, 1], [1, 1]]
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.noise.enclosed import Bounds, below, exp_bounds
from tacit.noise.source import WORD, Words, is_private, note, words
from tacit.parameters import Number, nonnegative, probability
from tacit.parameters import count as whole

Size = int | tuple[int, ...]
Integers = NDArray[Any]  # int64, or Python integers in an object array where they may not fit
Bulk = Callable[[int], Integers]
CHUNK = 1 << 15  # draws at a time: intermediate arrays stay in the processor's cache
POOL = 256  # values drawn ahead; small enough to stay in the fastest cache, so that handing one out takes the same time wherever it lies
POOLS = 64
SHORT = 512  # the longest array that comes from a pool,
AHEAD = 8 * SHORT  # and how many values are then drawn at once
NARROW = 49  # bits of a remainder below which values fit into int64 unless a draw exceeds 2^13 table steps


def shape_of(size: Size | None) -> tuple[int, ...]:
    """The shape that `size` asks for.

    >>> shape_of(None), shape_of(3), shape_of((2, 0))
    ((), (3,), (2, 0))
    """
    if size is None:
        return ()
    sides = size if isinstance(size, tuple) else (size,)
    return tuple(whole("size", side, least=0) for side in sides)


def in_bulk(bulk: Bulk, count: int) -> Integers:
    """`count` values in order, drawn in pieces of at most CHUNK."""
    if count <= CHUNK:
        return bulk(count)
    return np.concatenate([bulk(min(CHUNK, count - start)) for start in range(0, count, CHUNK)])


def shaped(bulk: Bulk, size: Size | None) -> int | NDArray[Any]:
    """One Python integer, or an array of the shape asked for, drawn now."""
    shape = shape_of(size)
    if size is None:
        return int(bulk(1)[0])
    return in_bulk(bulk, math.prod(shape)).reshape(shape)


def hand_out(key: Hashable, bulk: Bulk, size: Size | None) -> int | NDArray[Any]:
    """The same, but private values come from the pools of `key`, which names the law and its parameters: they must be public."""
    if not is_private():
        note(key, size)
        return shaped(bulk, size)
    if size is None:
        return POOLS_OF_THIS_PROCESS.take(key, bulk)
    shape = shape_of(size)
    count = math.prod(shape)
    return (in_bulk(bulk, count) if count > SHORT else POOLS_OF_THIS_PROCESS.take_several(key, bulk, count)).reshape(shape)


class Pools:
    """Values drawn ahead, a queue for each law; the law used longest ago makes room for a new one."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._queues: OrderedDict[Hashable, list[int]] = OrderedDict()
        self._stores: OrderedDict[Hashable, Integers] = OrderedDict()

    def take(self, key: Hashable, bulk: Bulk) -> int:
        """The next single value of a law."""
        if os.getpid() != self._process:
            self.forget()
        with self._lock:
            queue = self._queues.get(key)
            if not queue:
                # A list popped from its end and filled in reverse is a queue: values leave in the order drawn.
                queue = self._queues[key] = bulk(POOL).tolist()[::-1]
                if len(self._queues) > POOLS:
                    self._queues.popitem(last=False)
            self._queues.move_to_end(key)
            return queue.pop()

    def take_several(self, key: Hashable, bulk: Bulk, count: int) -> Integers:
        """The next few values of a law: an array of their own, never a view of what others will get."""
        if os.getpid() != self._process:
            self.forget()
        with self._lock:
            store = self._stores.pop(key, None)
            if store is None:
                # A law that is used once, as in most scripts, is not worth drawing ahead for.
                found, left = bulk(count), np.empty(0, dtype=np.int64)
            else:
                self._stores[key] = store  # at the end now: used last
                if len(store) < count:
                    store = np.concatenate([store, bulk(AHEAD)])
                found, left = store[:count].copy(), store[count:]
            self._stores[key] = left
            if len(self._stores) > POOLS:
                self._stores.popitem(last=False)
            return found


POOLS_OF_THIS_PROCESS = Pools()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOLS_OF_THIS_PROCESS.forget)


def accepted(propose: Callable[[int], tuple[Integers, NDArray[np.bool_]]], count: int) -> Integers:
    """Rejection sampling: propose as many as are missing, keep the accepted ones in order, until there are `count`."""
    pieces: list[Integers] = []
    missing = count
    while True:
        proposals, keep = propose(missing)
        pieces.append(proposals[keep])
        missing -= len(pieces[-1])
        if not missing:
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def random_bits(bits: int, count: int) -> Integers:
    """Uniform integers below 2^bits: int64 up to 63 bits, Python integers beyond.

    >>> random_bits(0, 3).tolist(), random_bits(200, 3).dtype
    ([0, 0, 0], dtype('O'))
    """
    if bits < 0:
        raise ParameterError(f"bits must be zero or more, not {bits}")
    if bits == 0:
        return np.zeros(count, dtype=np.int64)
    if bits < WORD:
        return (words(count) >> np.uint64(WORD - bits)).astype(np.int64)
    each = -(-bits // WORD)
    raw = words(count * each).tobytes()
    width, excess = each * (WORD // 8), each * WORD - bits
    found = np.empty(count, dtype=object)
    found[:] = [int.from_bytes(raw[i * width : (i + 1) * width], "little") >> excess for i in range(count)]
    return found


def join(quotient: Integers, remainder: Integers, bits: int) -> Integers:
    """quotient 2^bits + remainder, in Python integers where int64 might overflow.

    >>> join(np.array([3]), np.array([1]), 4).tolist(), join(np.array([2**40]), np.array([1]), 40).dtype
    ([49], dtype('O'))
    """
    if bits > NARROW or (quotient.dtype != object and len(quotient) and int(quotient.max()) >> 62 - bits):
        quotient, remainder = quotient.astype(object), remainder.astype(object)
    found: Integers = quotient * (1 << bits) + remainder
    return found


# --- uniform integers and orders ---


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
