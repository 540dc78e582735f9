"""Where random words come from, and who is told when they are not private.

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
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Refusal
from tacit.parameters import count

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
        self._seed = count("seed", seed, least=0)
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
