"""Neighbouring data sets made to break things: one row more, one less, one exchanged, and rows with unusual values.

A leak shows only on the pair of inputs that triggers it, so the pairs matter more than the statistics: NaN, infinities,
the largest and the smallest floats, an empty data set, a category seen nowhere else, a second copy of a person, a
million rows. Lists, arrays, mappings of columns, Arrow tables and data frames come back as what they were.

>>> [pair.label for pair in neighbours([3, 1, 2], adversarial=False)]
['add a copy of the first row', 'remove the first row', 'remove the last row']
>>> pairs = neighbours({"age": [30, 40], "city": ["Bonn", "Graz"]}, person="age")
>>> [pair.second["age"] for pair in pairs if pair.label == "add the person of the first row again"]
[[30, 40, 30]]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, PackageMissing, ParameterError
from tacit.parameters import count

UNSEEN = "a category of no other row"
FLOATS: tuple[tuple[str, float], ...] = (
    ("NaN", math.nan),
    ("infinity", math.inf),
    ("minus infinity", -math.inf),
    ("1e308", 1e308),
    ("-1e308", -1e308),
    ("the largest float", sys.float_info.max),
    ("the smallest float", math.ulp(0.0)),
    ("a subnormal float", sys.float_info.min / 3),
    ("zero", 0.0),
)
INTEGERS: tuple[tuple[str, int], ...] = (
    ("the largest 64-bit integer", 2**63 - 1),
    ("the smallest 64-bit integer", -(2**63)),
    ("a million", 10**6),
    ("zero", 0),
)
TEXTS: tuple[tuple[str, str | None], ...] = (("a rare category", UNSEEN), ("an empty text", ""), ("nothing", None))
CROWD = 1_000_000
Data = Any  # a list, an array, a mapping of columns, or a table of pandas or pyarrow, which need not be installed
Name = Any  # of a column: a text, the number of a place, or None where rows are single values


@dataclass(frozen=True)
class Neighbours:
    """Two data sets at distance 1, and what was done to the first. The data are never shown."""

    label: str
    first: object = field(repr=False)
    second: object = field(repr=False)


def neighbours(
    data: Data, relation: Adjacency | str = Adjacency.ADD_REMOVE, *,
    adversarial: bool = True, person: str | None = None, crowd: int | None = None,
) -> list[Neighbours]:
    """Pairs of `data` with data sets at distance 1, the ordinary ones first.

    `relation` is add-remove (the number of rows is private) or replace-one. `person` names the column that says whose a row is. `crowd`
    adds a pair of so many rows (`CROWD` for a million), and a person who has them all. An adversarial value that a column of fixed type
    cannot hold is left out.
    """
    kind = Adjacency.parse(relation, name="relation")
    if kind is Adjacency.ZERO_OUT:
        raise ParameterError("relation must be add-remove or replace-one: what a zeroed row is, the mechanism knows; pass your own pairs")
    found = list(_add_remove(data, adversarial, person) if kind is Adjacency.ADD_REMOVE else _replace(data, adversarial))
    if crowd is not None:
        found += list(_crowded(data, count("crowd", crowd), kind, person))
    return found


def _add_remove(data: Data, adversarial: bool, person: str | None) -> Iterator[Neighbours]:
    rows = size(data)
    if rows:
        yield Neighbours("add a copy of the first row", data, joined(data, taken(data, [0])))
        yield Neighbours("remove the first row", data, taken(data, range(1, rows)))
        if rows > 1:
            yield Neighbours("remove the last row", data, taken(data, range(rows - 1)))
    if not adversarial or not rows:
        return
    for label, row in _odd_rows(data, person):
        yield Neighbours(f"add {label}", data, joined(data, row))
    yield Neighbours("the only row removed: nothing left", taken(data, [0]), taken(data, []))
    if person is not None:
        yield Neighbours("add the person of the first row again", data, joined(data, taken(data, [0])))


def _replace(data: Data, adversarial: bool) -> Iterator[Neighbours]:
    rows = size(data)
    if rows > 1:
        later, earlier = taken(data, range(1, rows)), taken(data, range(rows - 1))
        yield Neighbours("exchange the first row for a copy of the last", data, joined(later, taken(data, [rows - 1])))
        yield Neighbours("exchange the last row for a copy of the first", data, joined(earlier, taken(data, [0])))
    if not adversarial or not rows:
        return
    for label, row in _odd_rows(data, None):
        yield Neighbours(f"exchange the first row for {label}", data, joined(row, taken(data, range(1, rows))))


def _crowded(data: Data, rows: int, kind: Adjacency, person: str | None) -> Iterator[Neighbours]:
    if not size(data):
        return
    if person is not None and kind is Adjacency.ADD_REMOVE:
        owners = list(_column(data, person))
        stranger = UNSEEN if isinstance(owners[0], str) else max(owners) + 1
        row = _with(taken(data, [0]), person, stranger)
        yield Neighbours(f"a new person with {rows} rows", data, joined(data, taken(row, [0] * rows)))
    many = taken(data, [i % size(data) for i in range(rows)])
    second = taken(many, range(rows - 1))
    if kind is Adjacency.REPLACE_ONE:
        second = joined(second, taken(data, [0]))
    yield Neighbours(f"one of {rows} rows", many, second)


def _odd_rows(data: Data, person: str | None) -> Iterator[tuple[str, Data]]:
    """Copies of the first row with one odd value in them, as data sets of one row."""
    names = _names(data)
    for name in names:
        if person is not None and name == person:
            continue
        for label, value in _odd_values(_column(data, name)):
            try:
                row = _with(taken(data, [0]), name, value)
            except (TypeError, ValueError, OverflowError):
                continue  # the column's type cannot hold it, so no data set can
            yield (f"a row with {label}" if len(names) == 1 else f"a row with {label} in {name!r}"), row


def _odd_values(column: Sequence[object]) -> list[tuple[str, object]]:
    first = next((v for v in column if v is not None), None)
    if isinstance(first, (bool, np.bool_)):
        return [("true", True), ("false", False)]
    if isinstance(first, (int, np.integer)):
        held = isinstance(column, np.ndarray)
        return [*INTEGERS, *(() if held else FLOATS[:3])]
    if isinstance(first, (float, np.floating)):
        return list(FLOATS)
    return list(TEXTS)


# --- kinds of data sets ------------------------------------------------------------------------------------------------------------------


def _is_arrow(data: Data) -> bool:
    return type(data).__module__.startswith("pyarrow") and hasattr(data, "column_names")


def _is_frame(data: Data) -> bool:
    return type(data).__module__.startswith("pandas") and hasattr(data, "iloc") and hasattr(data, "columns")


def size(data: Data) -> int:
    """The number of rows.

    >>> size({"a": [1, 2, 3]}), size([])
    (3, 0)
    """
    if isinstance(data, Mapping):
        return len(next(iter(data.values()), ()))
    return int(data.num_rows) if _is_arrow(data) else len(data)


def taken(data: Data, rows: Sequence[int]) -> Data:
    """Some of the rows, held in the same way.

    >>> taken((1, 2, 3), [2, 0])
    (3, 1)
    """
    places = list(rows)
    if isinstance(data, Mapping):
        return {name: taken(column, places) for name, column in data.items()}
    if isinstance(data, np.ndarray):
        return data[np.array(places, dtype=np.intp)]
    if _is_arrow(data):
        import pyarrow as pa

        return data.take(pa.array(places, type=pa.int64()))
    if _is_frame(data):
        return data.iloc[places]
    return type(data)(data[i] for i in places) if isinstance(data, (list, tuple)) else [data[i] for i in places]


def joined(first: Data, second: Data) -> Data:
    """The rows of the first, then those of the second.

    >>> joined({"a": [1]}, {"a": [2]})
    {'a': [1, 2]}
    """
    if isinstance(first, Mapping):
        return {name: joined(column, second[name]) for name, column in first.items()}
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second])
    if _is_arrow(first):
        import pyarrow as pa

        return pa.concat_tables([first, second])
    if _is_frame(first):
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    return first + second


def _names(data: Data) -> list[Name]:
    if isinstance(data, Mapping):
        return list(data)
    if _is_arrow(data):
        return list(data.column_names)
    if _is_frame(data):
        return list(data.columns)
    if isinstance(data, np.ndarray) and data.ndim > 1:
        return list(range(data.shape[1]))
    first = data[0] if len(data) else None
    if isinstance(first, Mapping):
        return list(first)
    return list(range(len(first))) if isinstance(first, (list, tuple)) else [None]


def _column(data: Data, name: Name) -> Data:
    if isinstance(data, Mapping) or _is_frame(data):
        return data[name]
    if _is_arrow(data):
        return data[name].to_pylist()
    if name is None:
        return data
    return data[:, name] if isinstance(data, np.ndarray) else [row[name] for row in data]


def _with(row: Data, name: Name, value: object) -> Data:
    """A data set of one row with one value exchanged; an error where its type cannot hold it."""
    if isinstance(row, Mapping):
        return {key: _filled(column, value) if key == name else column for key, column in row.items()}
    if _is_arrow(row):
        import pyarrow as pa

        place = row.column_names.index(name)
        return row.set_column(place, row.schema.field(place), pa.array([value], type=row.schema.field(place).type))
    if _is_frame(row):
        import pandas as pd

        return row.assign(**{name: pd.array([value], dtype=row[name].dtype)})
    if isinstance(row, np.ndarray) and row.ndim > 1:
        changed = row.copy()
        changed[0, name] = _fits(row, value)
        return changed
    if name is None:
        return _filled(row, value)
    inner = row[0]
    if isinstance(inner, Mapping):
        return type(row)([{**inner, name: value}])
    return type(row)([type(inner)(value if i == name else v for i, v in enumerate(inner))])


def _filled(column: Data, value: object) -> Data:
    if isinstance(column, np.ndarray):
        return np.array([_fits(column, value)], dtype=column.dtype)
    return type(column)([value])


def _fits(column: NDArray[Any], value: Any) -> Any:
    if column.dtype.kind in "iu" and not np.iinfo(column.dtype).min <= value <= np.iinfo(column.dtype).max:
        raise OverflowError("out of the column's range")
    if column.dtype.kind == "U" and not isinstance(value, str):
        raise TypeError("no text")
    return value


# --- what a function receives ------------------------------------------------------------------------------------------------

Form = Literal["list", "pandas", "arrow"]
FORMS: tuple[str, ...] = ("list", "pandas", "arrow")


def described(data: Data) -> str:
    """What a function receives, in words.

    >>> described([3, 1]), described({"a": [1, 2]}), described([{"a": 1}])
    ('a list of 2 numbers', 'a mapping of 1 columns (a)', 'a list of 1 rows (mappings of a)')
    """
    if isinstance(data, Mapping):
        return f"a mapping of {len(data)} columns ({', '.join(map(str, data))})"
    if _is_arrow(data):
        return f"an Arrow table ({', '.join(map(str, data.column_names))})"
    if _is_frame(data):
        return f"a pandas data frame ({', '.join(map(str, data.columns))})"
    if isinstance(data, np.ndarray):
        return f"a numpy array of shape {data.shape}"
    first = data[0] if len(data) else None
    of = (
        f"rows (mappings of {', '.join(map(str, first))})"
        if isinstance(first, Mapping)
        else "rows" if isinstance(first, (list, tuple)) else "texts" if isinstance(first, str) else "numbers"
    )  # fmt: skip
    return f"a {type(data).__name__} of {len(data)} {of}"


def shaped(pair: Neighbours, form: str) -> Neighbours:
    """The pair in the form that a function takes: a list of rows, a pandas data frame or an Arrow table.

    A list of single values becomes a table with the column `value`.
    """
    if form not in FORMS:
        raise ParameterError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
    if form == "pandas" and find_spec("pandas") is None:
        raise PackageMissing(code="package-missing", package="pandas", install="pandas")
    return Neighbours(pair.label, _shaped(pair.first, pair, form), _shaped(pair.second, pair, form))


def _shaped(data: Data, pair: Neighbours, form: str) -> Data:
    import pyarrow as pa

    if isinstance(data, np.ndarray):
        data = data.tolist()
    if _is_frame(data):
        table = pa.Table.from_pandas(data, preserve_index=False)
    elif _is_arrow(data):
        table = data
    elif isinstance(data, Mapping):
        table = pa.table({str(name): list(column) for name, column in data.items()})
    else:
        # An empty list has the columns of its neighbour.
        sides: tuple[Data, ...] = (data, pair.first, pair.second)
        other = next((part for part in sides if len(part)), [0])
        if form == "list":
            return list(data)
        if isinstance(other[0], Mapping):
            table = pa.Table.from_pylist(list(data), schema=pa.Table.from_pylist(list(other)).schema)
        elif isinstance(other[0], (list, tuple)):
            names = [f"column_{place}" for place in range(len(other[0]))]
            table = pa.table({name: [row[place] for row in data] for place, name in enumerate(names)})
        else:
            table = pa.table({"value": pa.array(list(data), type=None if len(data) else pa.array(list(other)).type)})
    return table.to_pandas() if form == "pandas" else table.to_pylist() if form == "list" else table


#: What a function is tried on where no data is given.
BUILT_IN: dict[str, list[float]] = {
    "small whole numbers": [3, 1, 4, 1, 5],
    "one whole number": [1],
    "bits": [1, 0, 1, 1],
    "floats": [0.5, 1.25, 0.0, 1.0],
}
