"""Rates by group: who is selected, who is wrongly selected, who is wrongly passed over, and how far groups differ.

`Groups` declares the protected attributes and their values. `rates` counts predictions, labels and groups and
gives every rate with the names of fairlearn (`by_group`, `difference`, `ratio`). It is exact arithmetic on rows
that may be looked at: public, made-up or development data. For private people use
`tacit.fairness.private_rates`, which makes the same figures from noisy counts.

>>> found = rates([1, 0, 1, 0], [1, 0, 0, 0], sensitive_features={"sex": ["F", "F", "M", "M"]}, groups={"sex": ["F", "M"]})
>>> found.by_group["true_positive_rate"]
{'F': 1.0, 'M': 0.0}
>>> found.difference("equalized_odds")
1.0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.calculus import codes_of, column_values
from tacit.fairness.errors import FairnessError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
#: The values of one attribute, or of several: "F", or ("F", "20-29").
Key = object


def group_words(key: Key) -> str:
    """What a group is called: an intersection by all of its values.

    >>> group_words(("F", "a")), group_words("M")
    ('F · a', 'M')
    """
    return " · ".join(map(str, key)) if isinstance(key, tuple) else str(key)

#: Each rate as (cells of the numerator, cells of the denominator); a cell is (label, prediction).
RATES: dict[str, tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]] = {
    "selection_rate": (frozenset({(0, 1), (1, 1)}), frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})),
    "true_positive_rate": (frozenset({(1, 1)}), frozenset({(1, 0), (1, 1)})),
    "false_positive_rate": (frozenset({(0, 1)}), frozenset({(0, 0), (0, 1)})),
    "accuracy": (frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})),
    "error": (frozenset({(0, 1), (1, 0)}), frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})),
    "base_rate": (frozenset({(1, 0), (1, 1)}), frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})),
    "precision": (frozenset({(1, 1)}), frozenset({(0, 1), (1, 1)})),
}
#: A notion of fairness asks these rates to be equal in all groups.
NOTIONS: dict[str, tuple[str, ...]] = {
    "equalized_odds": ("true_positive_rate", "false_positive_rate"),
    "equal_opportunity": ("true_positive_rate",),
    "demographic_parity": ("selection_rate",),
    "predictive_parity": ("precision",),
}
_CLASH = (
    "{first} and {second} cannot both hold where groups differ in their base rates, except for a predictor that is "
    "never wrong or one that ignores the person (Kleinberg, Mullainathan, Raghavan 2017): say which one matters here"
)
_CLASHES = [
    {"equalized_odds", "demographic_parity"},
    {"equalized_odds", "predictive_parity"},
    {"demographic_parity", "predictive_parity"},
]


@dataclass(frozen=True)
class Groups:
    """The protected attributes and their declared values; public. A person with another value is in no group."""

    attributes: tuple[tuple[str, tuple[object, ...]], ...]

    @classmethod
    def of(cls, groups: Mapping[str, Iterable[object]] | Groups) -> Groups:
        """Groups as a caller declares them.

        >>> Groups.of({"sex": ["F", "M"], "age": ["young", "old"]}).shape
        (2, 2)
        """
        if isinstance(groups, Groups):
            return groups
        if not isinstance(groups, Mapping) or not groups:
            raise FairnessError(code="groups-undeclared")
        found = []
        for name, values in groups.items():
            listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else ()
            # Values that are read as one, such as 1 and "1", would be one group under two names.
            if len(listed) < 2 or not _distinct(listed):
                raise FairnessError(code="groups-values", attribute=str(name))
            found.append((str(name), listed))
        return cls(tuple(found))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, in order."""
        return tuple(name for name, _ in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(len(values) for _, values in self.attributes)

    @property
    def size(self) -> int:
        """How many groups there are: every combination of the attributes' values."""
        return math.prod(self.shape)

    @property
    def keys(self) -> list[Key]:
        """The groups by name: one value, or a tuple with one value of each attribute."""
        combined = itertools.product(*(values for _, values in self.attributes))
        return [key[0] if len(key) == 1 else key for key in combined]

    def columns(self, sensitive_features: object, rows: int) -> list[Any]:
        """One column for each attribute, as long as the labels are. Only containers are looked at, no value."""
        found = self._columns(sensitive_features)
        for name, column in zip(self.names, found, strict=True):
            if len(column) != rows:
                raise FairnessError(code="rows-differ", column=name)
        return found

    def codes(self, columns: Sequence[Any]) -> Integers:
        """The group of every row, as a place in `keys`; -1 for a row with an undeclared value. Nothing raises."""
        found: Integers = np.zeros(len(columns[0]), dtype=np.int64)
        known = np.ones(len(found), dtype=bool)
        for (_, values), column in zip(self.attributes, columns, strict=True):
            kinds = _array(values)
            ordered = np.unique(kinds)
            place = codes_of(column, ordered)
            back = np.argsort(kinds)  # the declared order, which need not be the sorted one
            found = found * len(values) + np.where(place >= 0, back[np.maximum(place, 0)], 0)
            known &= place >= 0
        coded: Integers = np.where(known, found, -1)
        return coded

    def _columns(self, given: Any) -> list[Any]:
        """One column for each attribute, from a mapping, a data frame, or the only column."""
        if given is None:
            raise FairnessError(code="features-missing")
        if not isinstance(given, Mapping) and not _framed(given):
            if len(self.attributes) > 1:  # nothing in it may be looked at to find the attributes' names
                raise FairnessError(code="attribute-missing", attribute=self.names[0])
            return [listed(given)]
        names = list(given.column_names if hasattr(given, "column_names") else getattr(given, "columns", given))
        absent = [name for name in self.names if name not in names]
        if absent:
            raise FairnessError(code="attribute-missing", attribute=absent[0])
        return [listed(given[name]) for name in self.names]


def _framed(given: object) -> bool:
    return hasattr(given, "columns") or hasattr(given, "column_names")


def _array(values: Sequence[object]) -> NDArray[Any]:
    """Declared values in one array of the narrowest common kind: numbers, texts, or objects."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(value) for value in plain}
    if kinds <= {str} or kinds <= {bool} or kinds <= {int} or kinds <= {int, float}:
        return np.array(plain)
    return np.array([str(value) for value in plain])


def _distinct(values: Sequence[object]) -> bool:
    """Whether each declared value is told from the others when it is read."""
    kinds = np.unique(_array(values))
    return len(kinds) == len(values) and sorted(codes_of(kinds, kinds).tolist()) == list(range(len(kinds)))


def listed(column: Any) -> Any:
    """A column as an array with one axis or a list of values; only its container decides which.

    >>> listed(np.array([[1], [0]])).tolist()
    [1, 0]
    """
    if isinstance(column, np.ndarray):
        if column.ndim == 2 and column.shape[1] == 1:
            column = column[:, 0]
        if column.ndim != 1:
            raise FairnessError(code="column-shape")
        return column
    if not isinstance(column, Iterable):
        raise FairnessError(code="column-shape")
    return column_values(column)


def binary(column: Any, positive: object) -> Integers:
    """1 where a value is the positive one, 0 for any other value; numbers and texts alike.

    >>> binary(["yes", "no", None, 7], "yes").tolist()
    [1, 0, 0, 0]
    """
    found: Integers = (codes_of(column, _array([positive])) == 0).astype(np.int64)
    return found


@dataclass(frozen=True)
class People:
    """The columns that rates are made of, all of one length. No value has been looked at yet."""

    groups: Groups
    label: Any
    prediction: Any
    features: list[Any]
    positive: object = 1

    @classmethod
    def of(
        cls, y: object, predicted: object, sensitive_features: object, groups: Mapping[str, Iterable[object]] | Groups,
        positive: object = 1,
    ) -> People:  # fmt: skip
        """Columns as a caller gives them; what can be refused by containers and lengths is refused here."""
        declared, label, prediction = Groups.of(groups), listed(y), listed(predicted)
        if len(label) != len(prediction):
            raise FairnessError(code="rows-differ", column="predicted")
        return cls(declared, label, prediction, declared.columns(sensitive_features, len(label)), positive)

    def confusion(self) -> Integers:
        """Counts of (group, label, prediction), an array of shape (groups, 2, 2). Rows in no declared group are left out.

        >>> People.of([1, 0], [1, 1], ["F", "X"], {"sex": ["F", "M"]}).confusion().tolist()
        [[[0, 0], [0, 1]], [[0, 0], [0, 0]]]
        """
        found: Integers = self.cells()[:-1].reshape(self.groups.size, 2, 2)
        return found

    def cells(self) -> Integers:
        """The same counts in one row, and behind them the number of people in no declared group.

        >>> People.of([1, 0], [1, 1], ["F", "X"], {"sex": ["F", "M"]}).cells().tolist()
        [0, 0, 0, 1, 0, 0, 0, 0, 1]
        """
        label, guess = binary(self.label, self.positive), binary(self.prediction, self.positive)
        group, size = self.groups.codes(self.features), self.groups.size
        cells = np.where(group >= 0, (group * 2 + label) * 2 + guess, size * 4)
        return np.asarray(np.bincount(cells, minlength=size * 4 + 1), dtype=np.int64)


@dataclass(frozen=True)
class Rates:
    """Rates of declared groups, from counts of (group, label, prediction). Counts may be noisy."""

    groups: Groups
    counts: Array

    def at(self, *attributes: str) -> Rates:
        """The same over some of the attributes only: the other attributes' groups are added up."""
        kept = attributes or self.groups.names
        for name in kept:
            if name not in self.groups.names:
                raise FairnessError(code="attribute-missing", attribute=name)
        axes = [self.groups.names.index(name) for name in kept]
        table = np.asarray(self.counts, dtype=np.float64).reshape(*self.groups.shape, 2, 2)
        others = tuple(axis for axis in range(len(self.groups.names)) if axis not in axes)
        left = table.sum(axis=others)
        # The axes that are left stand in the order of declaration; put them into the order asked for.
        order = [sorted(axes).index(axis) for axis in axes]
        turned = np.transpose(left, (*order, len(axes), len(axes) + 1))
        chosen = Groups(tuple(self.groups.attributes[axis] for axis in axes))
        return Rates(chosen, turned.reshape(chosen.size, 2, 2))

    def sums(self, rate: str) -> tuple[Array, Array]:
        """The counts above and below the fraction line of a rate, one for each group."""
        if rate not in RATES:
            raise FairnessError(code="rate-unknown", given=rate, known=", ".join(RATES))
        above, below = RATES[rate]
        return self._added(above), self._added(below)

    def _added(self, cells: Iterable[tuple[int, int]]) -> Array:
        return sum((self.counts[:, label, guess] for label, guess in cells), np.zeros(len(self.counts)))

    def rate(self, name: str) -> Array:
        """One rate of every group; NaN for a group in which it has no denominator."""
        above, below = self.sums(name)
        with np.errstate(all="ignore"):
            return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)

    @property
    def by_group(self) -> dict[str, dict[Key, float]]:
        """Every rate of every group."""
        return {name: dict(zip(self.groups.keys, self.rate(name).tolist(), strict=True)) for name in RATES}

    @property
    def overall(self) -> dict[str, float]:
        """Every rate of all groups together."""
        merged = Rates(Groups((("all", ("all",)),)), self.counts.sum(axis=0)[None].astype(np.float64))
        return {name: float(merged.rate(name)[0]) for name in RATES}

    def difference(self, notion: str) -> float:
        """The largest gap between two groups in the rates that a notion (or one rate) is about; groups without the rate are left out."""
        return max(_gap(self.rate(name)) for name in rates_of(notion))

    def ratio(self, notion: str) -> float:
        """The smallest ratio between two groups in the same rates; 1 is equal."""
        return min(_ratio(self.rate(name)) for name in rates_of(notion))


def rates_of(notion: str) -> tuple[str, ...]:
    """The rates that a notion compares; a rate's own name stands for itself.

    >>> rates_of("equalized_odds")
    ('true_positive_rate', 'false_positive_rate')
    """
    if notion in NOTIONS:
        return NOTIONS[notion]
    if notion in RATES:
        return (notion,)
    raise FairnessError(code="notion-unknown", given=notion, known=", ".join(NOTIONS))


def incompatible(*notions: str) -> list[str]:
    """A sentence for each two notions that exclude each other; empty where none do.

    >>> len(incompatible("equalized_odds", "demographic_parity")), incompatible("equalized_odds", "equal_opportunity")
    (1, [])
    """
    for notion in notions:
        rates_of(notion)
    pairs = itertools.combinations(dict.fromkeys(notions), 2)
    return [_CLASH.format(first=one, second=other) for one, other in pairs if {one, other} in _CLASHES]


def _gap(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.max() - known.min()) if len(known) else math.nan


def _ratio(values: Array) -> float:
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan
    return float(known.min() / known.max()) if known.max() > 0 else 1.0


def rates(
    y: ArrayLike,
    predicted: ArrayLike,
    *,
    sensitive_features: object,
    groups: Mapping[str, Iterable[object]] | Groups,
    positive: object = 1,
) -> Rates:
    """Exact rates of rows that may be looked at. Nothing here is private: use `private_rates` for people's records."""
    people = People.of(y, predicted, sensitive_features, groups, positive)
    return Rates(people.groups, people.confusion().astype(np.float64))


def equalized_odds_difference(
    y_true: ArrayLike, y_pred: ArrayLike, *, sensitive_features: object, groups: Mapping[str, Iterable[object]]
) -> float:
    """The larger of the gaps in true and in false positive rates, as fairlearn names it; of public rows."""
    return rates(y_true, y_pred, sensitive_features=sensitive_features, groups=groups).difference("equalized_odds")


def equal_opportunity_difference(
    y_true: ArrayLike, y_pred: ArrayLike, *, sensitive_features: object, groups: Mapping[str, Iterable[object]]
) -> float:
    """The gap in true positive rates; of public rows."""
    return rates(y_true, y_pred, sensitive_features=sensitive_features, groups=groups).difference("equal_opportunity")


def demographic_parity_difference(
    y_true: ArrayLike, y_pred: ArrayLike, *, sensitive_features: object, groups: Mapping[str, Iterable[object]]
) -> float:
    """The gap in selection rates; of public rows."""
    return rates(y_true, y_pred, sensitive_features=sensitive_features, groups=groups).difference("demographic_parity")
