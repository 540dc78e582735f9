"""Values read one by one, each into a number or into one of the declared labels.

A library that chooses one type for a whole column lets one person's text change every other person's value.
Here a value is read by itself, into the type that was declared; what does not fit is NaN, or no label. Nothing
raises, whatever the value is, and neither does taking values out of the columns of a data frame (`column_values`).

>>> codes_of([1, "0", "many", None, 2**70, 1.0], np.array([0, 1])).tolist()
[1, 0, -1, -1, -1, 1]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.calculus.domains import as_number

#: How a float is written: with a point, with an exponent, or with both.
_WHOLE_FLOAT = re.compile(r"-?\d+(\.\d+(e\+\d+)?|e\+\d+)", re.ASCII)
#: Labels of classes: numbers, texts, whatever the caller declares.
Labels = NDArray[np.generic]


def column_values(column: Any) -> list[Any]:
    """The values of a column of pandas, polars, Arrow or numpy, or of any other container, as Python objects; missing ones are None or NaN.

    A value that its container cannot hand over is None: a text of broken bytes, or an instant beyond Python's calendar
    inside a list. Asked for the whole column the libraries raise, before anything is paid for, and some show the value.

    >>> import pyarrow as pa
    >>> column_values(pa.array([b"Ada", b"\\xff", None]).view(pa.string()))
    ['Ada', None, None]
    """
    if isinstance(column, np.ndarray):
        return list(column.tolist())  # None for what is masked
    for whole, places in (("to_pylist", column), ("to_list", getattr(column, "iloc", column))):
        if hasattr(column, whole):
            try:
                found: list[Any] = getattr(column, whole)()
                return found
            except Exception:
                return [_handed(places, place) for place in range(len(column))]
    return list(column)


def _handed(column: Any, place: int) -> object:
    try:
        found = column[place]
        return found.as_py() if hasattr(found, "as_py") else found
    except Exception:
        return None


def number_of(value: object) -> float:
    """One value as a float: texts are read as the numbers they spell, what is no number is NaN. It never raises.

    >>> number_of("1e3"), number_of(b"7"), number_of(True), number_of(10**400), number_of({"a": 1})
    (1000.0, 7.0, 1.0, inf, nan)
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return math.nan  # which numbers they hold depends on their unit
    if isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except ValueError:
            return math.nan
    found = as_number(value)
    try:
        return float(found)
    except OverflowError:
        return math.inf if found > 0 else -math.inf


def codes_of(y: Iterable[object], classes: Labels) -> NDArray[np.int64]:
    """The place of each label in the declared classes, -1 for a label that was not declared; such rows count for nothing.

    A label is read into the type of the classes: among classes that are numbers, "1" and 1.0 are 1; among texts, 1.0 is "1".

    >>> codes_of(np.array([1, 0, 7]), np.array([0, 1])).tolist()
    [1, 0, -1]
    >>> codes_of(["b", b"a", 1, ["b"]], np.array(["a", "b"])).tolist()
    [1, 0, -1, -1]
    """
    kind = classes.dtype.kind
    if isinstance(y, np.ndarray) and y.dtype.kind in "bi" and kind in "bi" and not isinstance(y, np.ma.MaskedArray):
        known, given = classes.astype(np.int64), y.astype(np.int64)
        place = np.minimum(np.searchsorted(known, given), len(known) - 1)
        return np.where(known[place] == given, place, -1).astype(np.int64)
    read = _reader(classes)
    keys = classes.astype(np.int64).tolist() if kind in "mM" else classes.tolist()
    if kind in "UT":
        keys = [_text(key) for key in keys]
    places = {key: place for place, key in enumerate(keys)}
    values = y.tolist() if isinstance(y, np.ndarray) and y.dtype.kind not in "mM" else y
    return np.array([_place(places, read, value) for value in values], dtype=np.int64)


def _place(places: dict[Hashable, int], read: Callable[[Any], Hashable], value: object) -> int:
    try:
        found = read(value)
        return -1 if found is None else places.get(found, -1)
    except (Exception, SystemExit, GeneratorExit):  # whatever a foreign object does: it is no declared label
        return -1


def _reader(classes: Labels) -> Callable[[Any], Hashable]:
    """How one value is read into the type of the classes; None where it cannot be."""
    kind = classes.dtype.kind
    if kind in "iub":
        return _whole
    if kind == "f":
        return number_of
    if kind in "UT":
        return _text
    if kind == "S":
        return lambda value: value.encode() if isinstance(value, str) else value
    if kind in "mM":
        stamp: Any = np.datetime64 if kind == "M" else np.timedelta64
        declared: Any = classes.dtype
        unit = np.datetime_data(declared)[0]
        return lambda value: int(stamp(value, unit).astype(np.int64))
    return lambda value: value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> int | None:
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return int(value)
    if isinstance(value, (str, bytes)) and value in ("True", "False", b"True", b"False"):
        return int(value in ("True", b"True"))  # as numpy writes them among texts
    found = number_of(value)
    return int(found) if found.is_integer() else None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, (str, bool, int, float, np.bool_, np.integer, np.floating)):
        return None
    text = str(value)
    # A library turns whole numbers into floats as soon as one of them is missing: 1.0 must stay the text "1".
    return str(int(float(text))) if _WHOLE_FLOAT.fullmatch(text) and float(text).is_integer() else text
