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
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from tacit.calculus.collection_domains import Records
from tacit.calculus.domains import Domain, listed, plain
from tacit.calculus.errors import DomainError

DEEP = 20  # levels of nesting up to which a key is nested like its value
LONG = 1 << 17  # parts of a value beyond which it is taken for a list inside itself
UNREADABLE = "unreadable"


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
        return _key(plain(value)) if _depth(value) <= DEEP else ("deep", *_flat(value))
    except (Exception, SystemExit, GeneratorExit):  # a foreign object that cannot be shown: no error may tell of it
        return (UNREADABLE, type(value).__name__)


def _depth(value: object) -> int:
    """How deep lists, tuples and records are nested, without a call for each level; at most DEEP + 1."""
    level, depth = [value], 0
    while level and depth <= DEEP:
        inner = [v for one in level if isinstance(one, (list, tuple)) for v in one]
        inner += [v for one in level if isinstance(one, Mapping) for pair in one.items() for v in pair]
        level, depth = inner, depth + 1
    return depth - 1 if not level else depth


def _flat(value: object) -> list[Hashable]:
    """The key of a value that is nested too deep for Python's own calls: its parts one after another."""
    ahead, found = [value], list[Hashable]()
    while ahead:
        one = plain(ahead.pop())
        one = one.tolist() if isinstance(one, np.ndarray) else one
        if isinstance(one, Mapping):
            one = [part for pair in sorted(one.items(), key=lambda pair: repr(key(pair[0]))) for part in pair]
        if isinstance(one, (list, tuple)):
            found.append(("list", len(one)))
            ahead.extend(reversed(one))
        else:
            found.append(_key(one))
        if len(found) > LONG:
            raise ValueError("a list inside itself")
    return found


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


def owners(data: Any, column: str) -> list[Hashable | None]:
    """Who owns each row, by the column that names people; None where it has no owner.

    A missing identifier (None, NaN, NaT) and one that cannot be read name no person, in every step alike.

    >>> owners({"id": [7, None, float("nan"), "7"]}, "id")
    [('int', '0x7'), None, None, ('str', '7')]
    """
    return [None if missing(value) or found[0] == UNREADABLE else found for value, found in _with_keys(data[column])]


def _with_keys(column: Any) -> list[tuple[Any, Any]]:
    values = listed(column)
    return [(value, key(value)) for value in values]


def missing(value: object) -> bool:
    """Whether a value says that there is none: None, NaN in any type of number, NaT, pandas' NA.

    >>> missing(None), missing(float("nan")), missing(0), missing("")
    (True, True, False, False)
    """
    value = plain(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (str, bytes, list, tuple, Mapping, np.ndarray)):
        return False
    try:
        return bool(value != value)
    except Exception:  # a foreign object, or a signalling NaN
        return isinstance(value, Decimal)


def same(value: object, read: object) -> bool:
    """Whether a domain left a value as it was: equal numbers of any type, else the very same value.

    >>> same(3.0, 3), same(3.4, 3), same(True, 1), same("3", 3), same([1, 2], [1.0, 2.0])
    (True, False, False, False, True)
    """
    value, read = plain(value), plain(read)
    if isinstance(value, np.ndarray) or isinstance(read, np.ndarray):
        value, read = (one.tolist() if isinstance(one, np.ndarray) else one for one in (value, read))
    if isinstance(value, (list, tuple)) and isinstance(read, (list, tuple)) and _depth(value) <= DEEP:
        return len(value) == len(read) and all(same(a, b) for a, b in zip(value, read, strict=True))
    if isinstance(value, bool) or isinstance(read, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        return key(value) == key(read)
    try:
        return isinstance(read, (int, float, Decimal, Fraction)) and bool(value == read)
    except Exception:  # a signalling NaN
        return False


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
