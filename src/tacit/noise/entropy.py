"""Random words from the operating system: never reused, safe across threads and forks.

Every random bit of the package comes from `words`, and outside `test_mode` (see `tacit.noise.source`) every word comes from
`os.urandom`. Small requests are served from a buffer that is filled in bulk; a word is overwritten with zero in the buffer as it leaves.
A forked child drops what its parent had buffered, so no two processes ever see the same word.

>>> source = OperatingSystem()
>>> source.words(3).dtype, source.private
(dtype('uint64'), True)

What this does not promise: the interpreter gives no way to wipe every intermediate copy, so an attacker who reads the memory of the
process is outside the model.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
WORD = 64  # bits
BUFFER = 1 << 13  # words: 64 KiB a call, which costs no more per byte than a megabyte


class Source(Protocol):
    """Where words come from. `private` says whether the operating system made them."""

    @property
    def private(self) -> bool: ...

    def words(self, count: int) -> Words: ...


class OperatingSystem:
    """The production source: a locked buffer in front of `os.urandom`."""

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
