"""Where randomness comes from: random words, who is told when they are not private, and what is uniform: bits, integers, orders.

Every random bit of the package comes from `words`. Outside `test_mode` all words come from the operating
system (`os.urandom`); there is no seed anywhere else. Inside it draws repeat, and every `watch` that is open
around them says so, so that whatever carries the result can be marked NOT PRIVATE.

>>> from tacit.noise import discrete_laplace
>>> with watch() as seen:
...     with test_mode(7):
...         first = discrete_laplace(10, size=4)
>>> seen.private
False
>>> with test_mode(7):
...     bool((discrete_laplace(10, size=4) == first).all())
True
>>> is_private()
True

Both follow the context (`contextvars`): tasks inherit them, and so does `contextvars.copy_context().run` in
another thread. A bare new thread starts outside test mode, which is the safe side.

**Words are never used twice.** Small requests are served from a buffer that is filled in bulk; a word is
overwritten with zero in the buffer as it leaves. A forked child drops what its parent had buffered, so no two
processes ever see the same word. What this does not promise: the interpreter gives no way to wipe every
intermediate copy, so an attacker who reads the memory of the process is outside the model.

What every sampler shares is here too: uniform integers, shapes, and values drawn ahead.

>>> set(uniform_integers(3, size=100).tolist()) <= {0, 1, 2}, sorted(permutation(5).tolist())
(True, [0, 1, 2, 3, 4])

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
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError, Refusal
from tacit.parameters import count as whole

Words = NDArray[np.uint64]
WORD = 64  # bits
BUFFER = 1 << 13  # words: 64 KiB a call, which costs no more per byte than a megabyte
PRODUCTION = "TACIT_PRODUCTION"


class Source(Protocol):
    """Where words come from. `private` says whether the operating system made them."""

    @property
    def private(self) -> bool: ...

    def words(self, count: int) -> Words: ...


class OperatingSystem:
    """The production source: a locked buffer in front of `os.urandom`.

    >>> source = OperatingSystem()
    >>> source.words(3).dtype, source.private
    (dtype('uint64'), True)
    """

    private = True

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop everything buffered, and the lock: after a fork another thread's lock would never be released."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._buffer: Words = np.zeros(0, dtype=np.uint64)
        self._next = 0

    def words(self, count: int) -> Words:
        """`count` independent uniform 64-bit words, in an array that belongs to the caller."""
        if os.getpid() != self._process:  # a fork that ran no hooks
            self.forget()
        if count >= BUFFER:
            return fresh(count)
        with self._lock:
            if self._next + count > len(self._buffer):
                self._buffer = fresh(BUFFER)
                self._next = 0
            start, self._next = self._next, self._next + count  # moved on before anything can interrupt: a word may be lost, never reused
            taken = self._buffer[start : start + count].copy()
            self._buffer[start : start + count] = 0
            return taken


def fresh(count: int) -> Words:
    """Words straight from the operating system, in writable memory.

    >>> len(fresh(4))
    4
    """
    return np.frombuffer(bytearray(os.urandom(count * (WORD // 8))), dtype=np.uint64)


SYSTEM = OperatingSystem()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=SYSTEM.forget)


class SeedRefusedError(Refusal, RuntimeError):
    """Test mode was asked for where only private draws are allowed."""


class Seen:
    """What a `watch` saw. `private` is False as soon as one draw inside came from a test source.

    `draws`, where asked for, lists the laws that were drawn from in test mode, with parameters and shape; never a value or a private draw.
    """

    def __init__(self, *, draws: bool = False) -> None:
        self.private = True
        self.draws: list[tuple[Hashable, Any]] | None = [] if draws else None

    @property
    def mark(self) -> str:
        """The words to print beside a result: empty, or NOT PRIVATE."""
        return "" if self.private else "NOT PRIVATE"


_current: ContextVar[Source | None] = ContextVar("tacit_noise_source", default=None)
_watches: ContextVar[tuple[Seen, ...]] = ContextVar("tacit_noise_watches", default=())


def words(count: int) -> Words:
    """Uniform 64-bit words from the source of this context.

    >>> len(words(2))
    2
    """
    source = _current.get()
    if source is None:
        return SYSTEM.words(count)
    if not source.private:
        for seen in _watches.get():
            seen.private = False
        note("words", count)
    return source.words(count)


def note(law: Hashable, size: Any) -> None:
    """Tell the watches that want to know, in test mode only, which law is drawn from."""
    if not is_private():
        for seen in _watches.get():
            if seen.draws is not None:
                seen.draws.append((law, size))


def is_private() -> bool:
    """Whether draws made now come from the operating system.

    >>> with test_mode(1):
    ...     is_private()
    False
    """
    source = _current.get()
    return source is None or source.private


class watch:
    """A context manager that tells whether all draws made inside it were private. Watches nest: an inner one hides nothing.

    With `draws=True` it also lists the laws that test mode was asked for, which is how an audit compares two runs.

    >>> with watch() as outer, watch() as inner, test_mode(1):
    ...     _ = words(1)
    >>> outer.private, inner.private, inner.mark
    (False, False, 'NOT PRIVATE')
    """

    def __init__(self, *, draws: bool = False) -> None:
        self._draws = draws
        self._tokens: list[Token[tuple[Seen, ...]]] = []

    def __enter__(self) -> Seen:
        seen = Seen(draws=self._draws)
        self._tokens.append(_watches.set((*_watches.get(), seen)))
        return seen

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _watches.reset(self._tokens.pop())


class test_mode:
    """A context manager in which draws repeat, for tests only: the results are NOT PRIVATE.

    Refused where the environment variable TACIT_PRODUCTION is set to anything but 0.
    """

    def __init__(self, seed: int) -> None:
        self._seed = whole("seed", seed, least=0)
        self._tokens: list[Token[Source | None]] = []

    def __enter__(self) -> None:
        if os.environ.get(PRODUCTION, "0") not in ("", "0"):
            raise SeedRefusedError(f"test mode is refused because {PRODUCTION} is set; unset it, or set it to 0, to draw from a seed")
        self._tokens.append(_current.set(Repeatable(self._seed)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _current.reset(self._tokens.pop())


class Repeatable:
    """A test source: the raw output of numpy's PCG64, whose stream is stable between versions."""

    private = False

    def __init__(self, seed: int) -> None:
        from numpy.random import PCG64  # only here: nothing else may reach a seeded generator

        self._generator = PCG64(seed)
        self._lock = threading.Lock()

    def words(self, count: int) -> Words:
        with self._lock:
            return self._generator.random_raw(count)


# --- shapes, and values drawn ahead ---

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
