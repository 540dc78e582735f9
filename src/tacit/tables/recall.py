"""A short memory of what was worked out from public things: plans and statements of questions that are asked again.

Nothing that the data has a say in is kept. What is kept is found again by exactly the same question and declarations: a number is told
apart from a text or a truth value that compares as equal, and what cannot be told for sure is not remembered.

>>> memory = Recall(most=2)
>>> memory.get(frozen({"region": ["N", "S"]}), lambda: "planned"), memory.get(frozen({"region": ["N", "S"]}), lambda: "planned again")
('planned', 'planned')
>>> frozen([1]) == frozen([True]), frozen([1]) == frozen([1.0]), frozen(object()) is None
(False, False, True)
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from tacit.accounting import Guarantee

Found = TypeVar("Found")

#: Values that cannot change, and are equal only where they mean the same (within one type).
PLAIN = (str, int, float, bool, bytes, type(None), Fraction, Decimal, datetime.date, datetime.datetime, Guarantee)
#: Of these, equal values of one type are the same value.
ALIKE = {str, int, bool, bytes, Fraction}
#: Longer declarations are not remembered: comparing them would cost what is to be saved.
LONGEST = 20_000


def frozen(value: Any) -> Hashable | None:
    """A value that equals another's exactly where the two mean the same; None for what is not known to."""
    seen = 0

    def of(part: Any) -> Hashable:
        nonlocal seen
        seen += len(part) if type(part) in (list, tuple, range) else 1
        if seen > LONGEST:
            raise _Unknown
        if type(part) in PLAIN:
            # repr tells -0.0 from 0.0, and NaN is itself.
            return (type(part), repr(part) if isinstance(part, float) else part)
        if type(part) is range:
            part = list(part)
        if type(part) in (list, tuple):
            kinds = set(map(type, part))
            if len(kinds) == 1 and kinds <= ALIKE:
                return (type(part), *kinds, tuple(part))  # of one type, so that nobody need look at each
            return (type(part), None, tuple(of(item) for item in part))
        if isinstance(part, Mapping):
            return (dict, tuple((of(name), of(item)) for name, item in part.items()))
        return _refuse()

    try:
        return of(value)
    except _Unknown:
        return None


class _Unknown(Exception):
    pass


def _refuse() -> Hashable:
    raise _Unknown


class Recall:
    """The last `most` things worked out, by what they were worked out from."""

    def __init__(self, most: int = 64) -> None:
        self.most = most
        self._kept: dict[Hashable, Any] = {}

    def get(self, key: Hashable | None, make: Callable[[], Found]) -> Found:
        """What is kept under the key, or what `make` gives; without a key nothing is kept. What raises is not kept either."""
        if key is None:
            return make()
        missing = object()
        found: Any = self._kept.pop(key, missing)
        if found is missing:
            found = make()
        self._kept[key] = found
        while len(self._kept) > self.most:
            self._kept.pop(next(iter(self._kept)), None)
        return found  # type: ignore[no-any-return]
