"""How data sets are held, and what can be done to them whatever they contain.

Rows of single values are an array or a list, rows of vectors an array with a row each, and a table is a mapping from column
name to column. A data set has no order: a step that picks some of its rows does so in `canonical` order, that of a keyed
hash of each row's content, so that the choice depends on the rows and not on where they stand.

>>> take({"age": [30, 40], "city": ["Bonn", "Graz"]}, [1])
{'age': [40], 'city': ['Graz']}
>>> canonical([3, 1, 2]) == canonical([2, 3, 1]), length({"age": [30, 40]})
(False, 2)
>>> [[3, 1, 2][i] for i in canonical([3, 1, 2])] == [[2, 3, 1][i] for i in canonical([2, 3, 1])]
True
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from tacit.calculus.collection_domains import Records
from tacit.calculus.domains import Domain, listed, plain
from tacit.calculus.errors import DomainError


def length(data: Any) -> int:
    """The number of rows of a list, an array or a table."""
    return len(next(iter(data.values()))) if isinstance(data, Mapping) else len(data)


def take(data: Any, positions: Sequence[int]) -> Any:
    """The rows at these positions, in this order."""
    if isinstance(data, Mapping):
        return {name: take(column, positions) for name, column in data.items()}
    if isinstance(data, np.ndarray):
        return data[np.asarray(positions, dtype=np.intp)]
    return [data[i] for i in positions]


def exact_sum(values: Any) -> int:
    """The sum of whole numbers, exact whatever their size and order.

    >>> exact_sum(np.full(4, 2**62))
    18446744073709551616
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        return int(sum(listed(values)))
    # Two halves of 32 bits cannot overflow below 2**31 rows, and their sums are recombined in Python's integers.
    return int((values >> 32).sum(dtype=np.int64)) * 2**32 + int((values & 0xFFFFFFFF).sum(dtype=np.int64))


def rows_of(data: Any) -> list[Any]:
    """The rows one by one: values, lists, or dictionaries; each its own copy.

    >>> rows_of({"age": np.array([30, 40])})
    [{'age': 30}, {'age': 40}]
    """
    if isinstance(data, Mapping):
        return [dict(zip(data, row, strict=True)) for row in zip(*(listed(column) for column in data.values()), strict=True)]
    return listed(data)


def held(element: Domain, rows: Iterable[Any]) -> Any:
    """Rows one by one, put together as a data set of this element.

    >>> held(Records(age=Domain()), [{"age": 30}, {"age": 40}])
    {'age': [30, 40]}
    """
    given = list(rows)
    if isinstance(element, Records):
        return {name: [row[name] for row in given] for name in element.names}
    return given


def key(value: object) -> Hashable:
    """What makes a row this row: equal for two values that nothing can tell apart, and only for those.

    NaN is itself here; 0.0 and -0.0, 1 and 1.0 and True are different, since a function of them may be.

    >>> key(float("nan")) == key(float("nan")), key(1) == key(1.0), key([1, 2]) == key([2, 1])
    (True, False, False)
    """
    try:
        return _key(plain(value))
    except Exception:  # a foreign object that cannot be shown, or a list inside itself: no error may tell of it
        return ("unreadable", type(value).__name__)


def _key(value: object) -> Hashable:
    if isinstance(value, float):
        # The payload of a NaN is no value of the data.
        return ("float", "nan") if math.isnan(value) else ("float", value, math.copysign(1.0, value))
    if isinstance(value, np.ndarray):
        return _key(value.tolist())
    if isinstance(value, (list, tuple)):
        return ("list", *(_key(plain(v)) for v in value))
    if isinstance(value, Mapping):
        return ("record", *sorted(((repr(_key(plain(k))), _key(plain(v))) for k, v in value.items()), key=repr))
    if isinstance(value, int) and not isinstance(value, bool):
        return ("int", hex(value))  # Python refuses to write very long integers in decimal
    if isinstance(value, Fraction):
        return ("Fraction", hex(value.numerator), hex(value.denominator))
    if value is None or isinstance(value, (bool, str, bytes)):
        return (type(value).__name__, value)
    return (type(value).__name__, repr(value))


def keys(data: Any) -> list[Hashable]:
    """The key of each row."""
    if isinstance(data, Mapping):
        names = sorted(data)
        columns = [listed(data[name]) for name in names]
        return [tuple(key(v) for v in row) for row in zip(*columns, strict=True)]
    return [key(value) for value in listed(data)]


def checked_salt(salt: bytes) -> bytes:
    """A key of the hash behind `canonical` that is short enough for it; or a refusal."""
    if not isinstance(salt, bytes) or len(salt) > 64:
        raise DomainError("salt must be at most 64 bytes")
    return salt


def canonical(data: Any, salt: bytes = b"") -> list[int]:
    """The positions of the rows in an order that depends only on what the rows are: that of a keyed hash of their content.

    Equal rows are next to each other, and which of them comes first makes no difference.
    """
    found = [repr(k).encode("utf-8", "backslashreplace") for k in keys(data)]
    digests = [blake2b(text, digest_size=16, key=salt).digest() for text in found]
    return sorted(range(len(found)), key=lambda i: (digests[i], found[i]))
