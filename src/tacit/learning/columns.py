"""Different columns through different steps, for one price; and the steps that need nothing but what is declared.

An ordinary `OneHotEncoder` or `SimpleImputer` reads categories, means and medians from private rows for free. Those here
are told: `OneHotEncoder` gets its categories, `SimpleImputer` the value that stands for a missing one, and both cost
nothing. `ColumnTransformer` runs them, and private steps such as `StandardScaler`, on columns chosen by name or place,
side by side. It works alone or as a step of `tacit.learning.Pipeline`, on arrays and on data frames of pandas and polars.

>>> import pandas as pd
>>> rows = pd.DataFrame({"age": [30, 50, None], "city": ["Rome", "Oslo", "Atlantis"]})
>>> both = ColumnTransformer([
...     ("number", MinMaxScaler(bounds=(0, 100)), ["age"]),
...     ("text", OneHotEncoder([["Oslo", "Rome"]]), ["city"]),
... ])
>>> both.fit_transform(rows)
array([[0.3, 0. , 1. ],
       [0.5, 1. , 0. ],
       [0.5, 0. , 0. ]])
>>> both.event_, both.get_feature_names_out().tolist()
(NoOp(), ['number__age', 'text__city_Oslo', 'text__city_Rome'])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Bound, Composed, Event, NoOp, ParameterError, account
from tacit.calculus import codes_of, column_values
from tacit.learning.pipeline import RowByRow, idle, stated
from tacit.learning.reading import NUMBERS, Array, Labels, columns_of, float_matrix, names_of, numbers_of
from tacit.learning.scikit import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, check_feature_names, check_is_fitted, clone
from tacit.learning.unsupervised.scalers import MinMaxScaler
from tacit.ledger import Account, paying
from tacit.parameters import Number, number

__all__ = ["ColumnTransformer", "MinMaxScaler", "OneHotEncoder", "SimpleImputer"]


class OneHotEncoder(TransformerMixin, BaseEstimator):
    """One column of 0 and 1 for each declared category; a value that was not declared, or is missing, is 0 in all of them.

    Parameters
        categories: for each column the values that can occur, as lists in the order of the columns or by column name. They must be
        public, and are never read from the data.
        drop: "first" leaves out the first category of each column, as linear models may want; None keeps all.

    Guarantee
        Statement: costs nothing. Proved in: `fit` looks at the number of columns and their names alone, and a row's output depends on no
        other row.

    >>> OneHotEncoder([["no", "yes"], [1, 2, 3]], drop="first").fit_transform(np.array([["yes", 3], ["maybe", 1]], dtype=object))
    array([[1., 0., 1.],
           [0., 0., 0.]])
    """

    event_: Event

    def __init__(self, categories: Sequence[Sequence[object]] | Mapping[str, Sequence[object]], *, drop: str | None = None) -> None:
        self.categories = categories
        self.drop = drop

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check what was declared; no value is looked at."""
        if self.drop not in (None, "first"):
            raise ParameterError(f"drop must be None or 'first', not {self.drop!r}")
        check_feature_names(self, X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        if isinstance(self.categories, Mapping):
            if names is None or set(map(str, names)) != set(map(str, self.categories)):
                raise ParameterError("categories by column name must name exactly the columns of a data frame")
            lists: list[Sequence[object]] = [self.categories[str(name)] for name in names]
        else:
            lists = list(self.categories)
        if isinstance(self.categories, str) or any(isinstance(one, str) or not len(one) for one in lists):
            raise ParameterError("categories must list the values that can occur, one list for each column; they must be public")
        self.n_features_in_ = len(columns_of(X, len(lists)))
        if self.n_features_in_ != len(lists):
            raise ParameterError(f"categories has {len(lists)} lists for {self.n_features_in_} columns")
        self.categories_ = [_category_list(one) for one in lists]
        self.event_ = NoOp()
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Zeros and ones, the columns of one feature beside one another."""
        check_is_fitted(self)
        check_feature_names(self, X, reset=False)
        columns = columns_of(X, self.n_features_in_)
        if len(columns) != self.n_features_in_:
            raise ParameterError(f"X has {len(columns)} columns, and {self.n_features_in_} were declared")
        skipped = 1 if self.drop else 0
        blocks = []
        for column, (kept, places) in zip(columns, map(_sorted, self.categories_), strict=True):
            codes = codes_of(column if isinstance(column, np.ndarray) else column_values(column), kept)
            blocks.append((codes[:, None] == places[None, skipped:]).astype(np.float64))
        return np.hstack(blocks)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The name of the column and of the category, joined by an underscore."""
        check_is_fitted(self)
        names = _names_in(self, input_features)
        skipped = 1 if self.drop else 0
        lists = zip(names, self.categories_, strict=True)
        return np.array([f"{name}_{one}" for name, listed in lists for one in listed.tolist()[skipped:]], dtype=object)


def _category_list(listed: Sequence[object]) -> Labels:
    """Declared categories in the caller's order, all different."""
    found: Labels = np.asarray(list(listed))
    if found.ndim != 1 or len({str(one) for one in found.tolist()}) != len(found) or any(one != one for one in found.tolist()):
        raise ParameterError("the categories of a column must be different values, and none of them NaN")
    return found


def _sorted(listed: Labels) -> tuple[Labels, NDArray[np.int64]]:
    """Categories in the order that `codes_of` expects, and where each of the caller's is among them."""
    order = np.argsort(listed, kind="stable")
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return listed[order], places


def _names_in(step: Any, given: ArrayLike | None) -> list[str]:
    if given is not None:
        return [str(name) for name in np.asarray(given).tolist()]
    known = getattr(step, "feature_names_in_", None)
    return [f"x{i}" for i in range(step.n_features_in_)] if known is None else [str(name) for name in known]


class SimpleImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A declared value in the place of what is missing or no number; a mean or a median of private rows would have a price.

    `fill_value` is one number, or one for each column, and is public. `StandardScaler` releases means where they are worth paying for.

    Guarantee
        Statement: costs nothing. Proved in: a row's output depends on that row and on `fill_value` alone.

    >>> SimpleImputer(fill_value=0).fit_transform(np.array([[1.0, float("nan")], [float("inf"), 4.0]])).tolist()
    [[1.0, 0.0], [inf, 4.0]]
    """

    event_: Event

    def __init__(self, fill_value: ArrayLike = 0.0) -> None:
        self.fill_value = fill_value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check what was declared; no value is looked at."""
        width = float_matrix(self, X, reset=True).shape[1]
        given = np.asarray(self.fill_value, dtype=np.float64)
        if given.ndim > 1 or (given.ndim == 1 and len(given) != width) or not np.isfinite(given).all():
            raise ParameterError("fill_value must be a finite number, or one for each column")
        self.statistics_ = np.broadcast_to(given, (width,)).astype(np.float64)
        self.event_ = NoOp()
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The rows without missing values."""
        check_is_fitted(self)
        numbers = float_matrix(self, X, reset=False)
        return np.where(np.isnan(numbers), self.statistics_, numbers)


class ColumnTransformer(TransformerMixin, BaseEstimator):
    """Steps for columns, side by side, with one total.

    Parameters
        transformers: (name, step, columns) for each part. A step is private (carries `event_` once fitted), declared, learns nothing (then
        it sees one row at a time, as `RowByRow`), or is "passthrough" or "drop". A scikit-learn `OneHotEncoder` with its categories given
        is taken as the one here. Other steps are refused before the data is touched. Columns are a name, a place, or a list of either.
        remainder: what happens to columns in no part, "drop" or "passthrough" (read as numbers).
        delta: at which the total is stated; by default the sum of the steps' deltas.
        account: a ledger account; the total is reserved once, before the first step. No step has one of its own.

    Fitted: transformers_, event_, privacy_, private_.

    Guarantee
        Statement: fitting costs event_, the composition of the steps' events. Proved in: every step sees columns of the same people, so
        the prices add up as for one table; which columns is public.
    """

    event_: Event
    privacy_: Bound

    def __init__(
        self, transformers: list[tuple[str, Any, Any]], *, remainder: str = "drop", delta: Number | None = None,
        account: Account | None = None,
    ) -> None:  # fmt: skip
        self.transformers = transformers
        self.remainder = remainder
        self.delta = delta
        self.account = account

    def __sklearn_clone__(self) -> Self:
        """A clone shares the account."""
        own = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items() if name != "account"}
        return type(self)(**own, account=self.account)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def price(self, X: Any, y: object = None) -> Event:
        """What a fit to data of this shape will cost; the values are not looked at."""
        parts = self._parts(X, [self._step(name, step) for name, step, _ in self.transformers])
        rows = len(columns_of(X, None)[0]) if columns_of(X, None) else 0
        events = []
        for name, step, places, names in parts:
            if isinstance(step, str):
                continue
            copy = clone(step).fit(_frame(np.zeros((rows, len(places))), names))
            events.append(_event(name, copy))
        return _total(events)

    def fit(self, X: Any, y: object = None) -> Self:
        """Reserve the total, then fit every step to its columns."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: object = None, **_: object) -> Array:
        """Reserve the total, fit, and transform."""
        return self._fit(X).transform(X)

    def _fit(self, X: Any) -> Self:
        if self.remainder not in ("drop", "passthrough"):
            raise ParameterError(f"remainder must be 'drop' or 'passthrough', not {self.remainder!r}")
        adjacency, deltas, concentrated = stated([(name, step) for name, step, _ in self.transformers])
        event = self.price(X)
        delta = self.delta if self.delta is not None else (sum(deltas) if deltas and not concentrated else None)
        check_feature_names(self, X, reset=True)
        columns = columns_of(X, None)
        self.n_features_in_ = len(columns)
        parts = self._parts(X, [clone(self._step(name, step)) for name, step, _ in self.transformers])
        payer = None if isinstance(event, NoOp) else self.account
        with paying(payer, event, purpose="fit ColumnTransformer", delta=None if delta is None else float(delta) or None) as payment:
            for _, step, places, names in parts:
                if not isinstance(step, str):
                    step.fit(_part(columns, places, names))
        self.transformers_ = [(name, step, places) for name, step, places, _ in parts]
        self.event_ = event
        total = account(event, adjacency)
        self.privacy_ = total.epsilon(float(delta or 0.0)) if not concentrated else total.rho()
        self.private_ = payment.private
        return self

    def transform(self, X: Any) -> Array:
        """What the steps make of their columns, side by side."""
        check_is_fitted(self)
        check_feature_names(self, X, reset=False)
        columns, names = columns_of(X, self.n_features_in_), names_of(X)
        if len(columns) != self.n_features_in_:
            raise ParameterError(f"X has {len(columns)} columns, and {self.n_features_in_} were fitted")
        blocks = []
        for _, step, places in self.transformers_:
            if isinstance(step, str):
                blocks += [numbers_of(columns[i])[:, None] for i in places] if step == "passthrough" else []
                continue
            made = step.transform(_part(columns, places, None if names is None else [names[i] for i in places]))
            blocks.append(np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64))
        return np.hstack(blocks) if blocks else np.zeros((len(columns[0]) if columns else 0, 0))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The name of the part and of the step's own column, joined by two underscores."""
        check_is_fitted(self)
        known, found = _names_in(self, input_features), list[str]()
        for name, step, places in self.transformers_:
            inner = [known[i] for i in places]
            if step == "drop":
                continue
            if not isinstance(step, str) and hasattr(step, "get_feature_names_out"):
                inner = [str(one) for one in step.get_feature_names_out(inner)]
            elif isinstance(step, RowByRow):
                inner = [f"{name}{i}" for i in range(len(step.zero_))]
            found += [f"{name}__{one}" for one in inner]
        return np.array(found, dtype=object)

    def _step(self, name: str, step: Any) -> Any:
        """The step as it is run: declared, private, or one row at a time; others are refused."""
        if isinstance(step, str):
            if step not in ("drop", "passthrough"):
                raise ParameterError(f"part {name!r} must be a transformer, 'drop' or 'passthrough', not {step!r}")
            return step
        if getattr(step, "account", None) is not None:
            raise ParameterError(f"part {name!r} has an account of its own; give the account to the whole, which pays once")
        given = getattr(step, "categories", None)
        if type(step).__name__ == "OneHotEncoder" and not isinstance(step, OneHotEncoder):
            if given is None or isinstance(given, str):
                raise ParameterError(f"part {name!r} would read its categories from private rows; declare them: categories=[[...], ...]")
            return OneHotEncoder(given, drop="first" if getattr(step, "drop", None) == "first" else None)
        return RowByRow(step) if idle(step) and not isinstance(step, RowByRow) else step

    def _parts(self, X: Any, steps: list[Any]) -> list[tuple[str, Any, list[int], list[str] | None]]:
        """Every part with the places and names of its columns; what is left over comes last."""
        names, width = names_of(X), len(columns_of(X, None))
        parts, seen = [], set[int]()
        for (name, _, chosen), step in zip(self.transformers, steps, strict=True):
            places = _places(name, chosen, names, width)
            seen |= set(places)
            parts.append((name, step, places, None if names is None else [names[i] for i in places]))
        left = [i for i in range(width) if i not in seen]
        if left and self.remainder == "passthrough":
            parts.append(("remainder", "passthrough", left, None if names is None else [names[i] for i in left]))
        return parts


def _places(part: str, chosen: Any, names: list[str] | None, width: int) -> list[int]:
    """The places of columns that are chosen by name or place."""
    listed = [chosen] if isinstance(chosen, (str, int, np.integer)) else list(chosen)
    found = []
    for one in listed:
        if isinstance(one, str):
            if names is None or one not in names:
                raise ParameterError(f"part {part!r} names a column that X does not have: {one!r}")
            found.append(names.index(one))
        else:
            place = int(number("column", one))
            if not -width <= place < width:
                raise ParameterError(f"part {part!r} chooses column {place} of {width}")
            found.append(place % width)
    return found


def _part(columns: list[Any], places: list[int], names: list[str] | None) -> Any:
    """The chosen columns in one container, whose type follows from the columns' declared types, not from the values."""
    if all(isinstance(getattr(columns[i], "dtype", None), np.dtype) and columns[i].dtype.kind in NUMBERS for i in places):
        return _frame(np.column_stack([np.asarray(columns[i], dtype=np.float64) for i in places]), names)
    values = np.empty((len(columns[0]) if columns else 0, len(places)), dtype=object)
    for place, i in enumerate(places):
        for row, value in enumerate(column_values(columns[i])):  # one by one: numpy would look into values that are lists
            values[row, place] = value
    return _frame(values, names)


def _frame(values: NDArray[Any], names: list[str] | None) -> Any:
    if names is None:
        return values
    import pandas

    # the type is told: pandas would make a column of dates out of objects that are all dates, and one that is none would undo it
    return pandas.DataFrame(values, columns=names, dtype=values.dtype)


def _event(name: str, step: Any) -> Event:
    found = getattr(step, "event_", None)
    if not isinstance(found, Event):
        raise ParameterError(f"part {name!r} ({type(step).__name__}) carries no event_: it reads the data and nothing says what that costs")
    return found


def _total(events: list[Event]) -> Event:
    paid = [event for event in events if not isinstance(event, NoOp)]
    return (paid[0] if len(paid) == 1 else Composed(*paid)) if paid else NoOp()
