"""Reading rows and labels: value by value, each into a number or a declared class, whatever it is.

numpy and pandas choose one type for a whole column, so one person's text among integers would change every
other person's value. Here a value is read by itself: a text that spells a number is that number, and what is
no number is missing. The shape comes from the container (an array, a data frame) or from what the caller
declared, never from a row. A container of a type that holds no numbers is refused, before anything is paid.

>>> matrix([[1, "2.5"], ["n/a", 10**400], "not a row"], width=2).tolist()
[[1.0, 2.5], [nan, inf], [nan, nan]]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.calculus import column_values, number_of
from tacit.learning.scikit import BaseEstimator, DataConversionWarning, check_array, check_feature_names, check_n_features

Array = NDArray[np.float64]
#: Labels of classes: numbers, texts, whatever the caller declares.
Labels = NDArray[np.generic]

NUMBERS = "biuf"  # numpy's letters for booleans, integers and floats
VALUES = "OUST"  # and for objects and texts, which are read one by one


def numbers_of(values: Iterable[object]) -> Array:
    """A column of values as floats.

    >>> numbers_of(["1", None, 3]).tolist()
    [1.0, nan, 3.0]
    """
    return np.array([number_of(value) for value in values], dtype=np.float64)


def declared_width(bounds: object) -> int | None:
    """The number of features where the bounds list one for each; None where they do not.

    >>> declared_width(([0, 0], 1)), declared_width((0, 1))
    (2, None)
    """
    if isinstance(bounds, Mapping):
        return len(bounds)
    ends = list(bounds) if isinstance(bounds, (Sequence, np.ndarray)) and not isinstance(bounds, str) else []
    lengths = [len(end) for end in ends if isinstance(end, (list, tuple)) or (isinstance(end, np.ndarray) and end.ndim == 1)]
    return lengths[0] if len(ends) == 2 and lengths else None


def matrix(X: object, *, width: int | None = None) -> Array:
    """Rows as floats. `width` is the declared number of features; lists of rows need it, arrays and data frames do not.

    A row of a list that has another length, or is no row, counts as one in which everything is missing.
    """
    if X is None or isinstance(X, np.matrix) or _sparse(X):
        check_array(X, dtype=np.float64)  # it refuses these by their type alone
    columns = _columns(X)
    if columns is not None:
        read = [_column(column) for column in columns]
        return np.stack(read, axis=1) if read else np.zeros((len(cast(Sized, X)), 0))
    if isinstance(X, (list, tuple)):
        return _listed(X, width)
    array = _as_array(X)
    if array.ndim == 1 and array.dtype.kind == "O" and width is not None:
        return _listed(array.tolist(), width)  # what becomes of a list when one of its rows has another length
    if array.ndim != 2:
        # the words that scikit-learn's users know, without the array that scikit-learn shows
        raise ValueError(
            f"Expected 2D array, got {'scalar' if not array.ndim else f'{array.ndim}D'} array instead. Reshape your data "
            "either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it "
            "contains a single sample."
        )
    return _floats(array, "X")


def columns_of(X: Any, width: int | None) -> list[Any]:
    """The columns of a data frame, an array or a list of rows, with their values as they are; lists of rows need a declared width.

    >>> columns_of([["a", 1], ["b"]], 2)
    [['a', None], [1, None]]
    """
    columns = _columns(X)
    if columns is not None:
        return columns
    if isinstance(X, (list, tuple)):
        if width is None:
            raise ParameterError(code="width-undeclared")
        rows = [row if isinstance(row, (list, tuple)) and len(row) == width else [None] * width for row in X]
        return [[row[i] for row in rows] for i in range(width)]
    array = _as_array(X)
    if array.ndim != 2:
        raise ValueError(f"Expected 2D array, got {array.ndim}D array instead.")
    return [array[:, i] for i in range(array.shape[1])]


def names_of(X: Any) -> list[str] | None:
    """The names of a data frame's columns; None for other containers."""
    found = getattr(X, "columns", None) if hasattr(X, "iloc") or hasattr(X, "get_columns") else getattr(X, "column_names", None)
    return None if found is None else [str(name) for name in found]


def _listed(rows: Sequence[object], width: int | None) -> Array:
    if width is None:
        raise ParameterError(code="width-undeclared")
    found = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        cells = row.tolist() if isinstance(row, np.ndarray) and row.ndim == 1 else row
        if isinstance(cells, (list, tuple)) and len(cells) == width:
            found[i] = numbers_of(cells)
    return found


def _sparse(values: object) -> bool:
    return hasattr(values, "tocoo") and hasattr(values, "nnz")


def _columns(X: Any) -> list[Any] | None:
    """The columns of a data frame, or None: pandas, polars, pyarrow."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return [X.iloc[:, i] for i in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    if hasattr(X, "column_names") and hasattr(X, "column"):
        return [X.column(i) for i in range(X.num_columns)]
    return None


def _column(column: Any) -> Array:
    """One column of a data frame as floats, by the column's declared type."""
    kind = getattr(column.dtype, "kind", None) if hasattr(column, "dtype") else None
    if kind in ("M", "m", "c", "V") or (kind is None and _temporal(column)):
        raise ParameterError(code="values-not-numbers", what=f"a column of X of type {_type(column)}")
    if isinstance(getattr(column, "dtype", None), np.dtype) and kind is not None and kind in NUMBERS:
        return _floats(np.asarray(column), "X")
    return numbers_of(column_values(column))


def _type(column: Any) -> str:
    return str(getattr(column, "dtype", getattr(column, "type", "")))


def _temporal(column: Any) -> bool:
    """Whether a column of polars or pyarrow holds dates or times."""
    temporal: Callable[[], Any] | None = getattr(getattr(column, "dtype", None), "is_temporal", None)
    if temporal is not None:
        return bool(temporal())
    return str(getattr(column, "type", "")).startswith(("date", "time", "duration"))


def _as_array(values: Any) -> NDArray[Any]:
    """An array, or what makes itself one: its type is the container's."""
    return values if isinstance(values, np.ndarray) else np.asarray(values)


def _floats(array: NDArray[Any], what: str) -> Array:
    """An array as floats, by its declared type; entries under a mask are missing."""
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: {what} has type {array.dtype}")
    if kind not in NUMBERS + VALUES:
        raise ParameterError(code="values-not-numbers", what=f"{what} of type {array.dtype}")
    if kind in VALUES:
        return numbers_of(array.ravel().tolist()).reshape(array.shape)
    with np.errstate(all="ignore"):
        found: Array = np.asarray(array, dtype=np.float64)
    masked = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    return found if masked is None else np.where(masked, np.nan, found)


def float_matrix(estimator: BaseEstimator, X: ArrayLike, *, reset: bool, width: int | None = None) -> Array:
    """X as a matrix of floats, its names and number of features checked or kept; values, and how many rows, are not."""
    check_feature_names(estimator, X, reset=reset)
    found = matrix(X, width=width if reset else getattr(estimator, "n_features_in_", width))
    if not found.shape[1]:
        raise ValueError("Found array with 0 feature(s) while a minimum of 1 is required.")
    check_n_features(estimator, found, reset=reset)
    return found


# Labels


def column_of(y: Any, rows: int) -> Sequence[object] | NDArray[Any]:
    """y as one column of values, as long as X; only its container and its length can raise."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    found: Any = y
    if _sparse(y):
        check_array(y, dtype=np.float64)
    columns = _columns(y)
    if columns is not None:
        if len(columns) != 1:
            raise ValueError("y should be a 1d array, got several columns instead")
        found = columns[0]
    if isinstance(found, (list, tuple)):
        found = [_unwrapped(value) for value in found]
    elif hasattr(found, "to_list") or hasattr(found, "to_pylist"):
        kind = getattr(getattr(found, "dtype", None), "kind", "O")
        plain = isinstance(getattr(found, "dtype", None), np.dtype) and kind in NUMBERS
        found = np.asarray(found) if plain else column_values(found)
    else:
        found = _as_array(found)
        if found.ndim == 2 and found.shape[1] == 1:
            text = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, )."
            warnings.warn(text, DataConversionWarning, stacklevel=3)
            found = found.ravel()
        if found.ndim != 1:
            raise ValueError(f"y should be a 1d array, got an array of {found.ndim} dimensions instead")
    if len(found) != rows:
        raise ValueError("Found input variables with inconsistent numbers of samples: X and y must have the same number of rows")
    checked: Sequence[object] | NDArray[Any] = found
    return checked


def _unwrapped(value: object) -> object:
    """The only value of a row of one: y may be a column."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return value[0]
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value


def label_numbers(y: Any, rows: int) -> Array:
    """The labels of a regression, as floats."""
    found = column_of(y, rows)
    return _floats(found, "y") if isinstance(found, np.ndarray) else numbers_of(found)


def declared_classes(classes: ArrayLike | None) -> Labels:
    """The public list of labels, sorted. It is never read from the data: which labels occur is private.

    >>> declared_classes(["yes", "no"]).tolist()
    ['no', 'yes']
    """
    if classes is None:
        raise ParameterError("classes is missing: list the labels that can occur, such as classes=[0, 1]; they must be public")
    found: Labels = np.unique(np.asarray(classes))
    if found.ndim != 1 or len(found) < 2 or len(found) != np.size(np.asarray(classes)):
        raise ParameterError("classes must be a list of at least two different labels")
    if any(label != label for label in found.tolist()):
        raise ParameterError("classes lists NaN, which equals no label; leave it out, and such rows count for nothing")
    return found
