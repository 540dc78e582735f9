"""How much one caller may send: rates a minute, and the size, depth and slowness of a body.

Rates are counted in each process, by person, or by address where nobody is known yet, over a sliding minute. A
body is read within its limits before it is parsed, so that a large, slow or deeply nested one costs little.

>>> rates = CallRates(clock=iter([0.0, 1.0, 2.0, 70.0]).__next__)
>>> [rates.allow("ann", "price", 2) for _ in range(4)]
[0, 0, 58, 0]
>>> depth('{"a": [[1]]}'), depth('"[[["')
(3, 0)
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from tacit.server.errors import ServiceError

_MINUTE = 60.0
#: Callers that are remembered at once; the one that called longest ago is forgotten first.
MOST = 50_000


class CallRates:
    """Counts of calls over the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], deque[float]] = {}

    def allow(self, caller: str, kind: str, most: int) -> int:
        """0 where the call is within the rate, or the seconds to wait."""
        now = self._clock()
        with self._lock:
            calls = self._calls.pop((caller, kind), None) or deque[float]()
            while calls and calls[0] <= now - _MINUTE:
                calls.popleft()
            self._calls[caller, kind] = calls
            while len(self._calls) > MOST:
                self._calls.pop(next(iter(self._calls)))
            if len(calls) >= most:
                return max(1, math.ceil(calls[0] + _MINUTE - now))
            calls.append(now)
            return 0

    def insist(self, caller: str, kind: str, most: int) -> None:
        """Refuse a call beyond the rate."""
        seconds = self.allow(caller, kind, most)
        if seconds:
            raise ServiceError(code="rate-limited", seconds=seconds)


def depth(text: str) -> int:
    """How deeply JSON is nested, without parsing it."""
    deepest = level = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            quoted = True
        elif character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest
