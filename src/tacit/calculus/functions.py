"""Functions supplied by the user, run on one row at a time.

The function sees a copy of one row and nothing else. What it returns is made a member of the declared domain; where it raises, a public
default is used, or the row is dropped. So a function that fails on one row, returns nonsense or emits a million rows changes neither
whether an answer comes nor the guarantee.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space
>>> numbers = Space(Rows(Integers(0, 9)), AddRemove())
>>> (numbers >> map_rows(lambda x: 12 // x, Integers(0, 12)))([0, 3, 4]).tolist()
[0, 4, 3]
>>> plan = numbers >> flat_map(lambda x: range(7), 3, Integers(0, 6))
>>> plan([5]).tolist(), plan.map(1)
([0, 1, 2], 3)

The function must be pure: a global list, a file or a clock would carry something from one row to another. The guarantee
does not cover that, nor how long the function takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from tacit.calculus.aggregates import times
from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Records, Rows
from tacit.calculus.datasets import rows_of, take
from tacit.calculus.domains import Domain, Reals
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import AddRemove, Hamming, Identifiers, ReplaceOne
from tacit.calculus.rows import ROW_BY_ROW, members, records_domain, rows_domain
from tacit.parameters import count as whole

ALONE = "each row alone decides, so an exchanged row is at worst one row gone and another come"
RAISED = object()  # what a function that raised returned


def guarded(function: Callable[[Any], Any], row: Any) -> Any:
    """What a function returns for a row, or a mark that it raised; no error and no warning of it leaves here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(row)
    except (Exception, SystemExit, GeneratorExit):
        return RAISED


def _named(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", type(function).__name__)


@dataclass(frozen=True)
class MapRows(Step):
    """A public function of each row."""

    function: Callable[[Any], Any] = field(compare=False)
    output: Domain
    default: Any = None

    def bind(self, space: Space) -> Transformation:
        what = f"map_rows({_named(self.function)})"
        rows = rows_domain(space, what)
        target = _keeps_person(space, self.output, what)
        default = self.output.default if self.default is None else self.default

        def run(data: Any) -> Any:
            found = [guarded(self.function, row) for row in rows_of(data)]
            return _restored(space, members(target, (default if value is RAISED else value for value in found)), data)

        return Transformation(space, Space(Rows(target, rows.size), space.metric), run, lambda d: d, what, ROW_BY_ROW)


def _keeps_person(space: Space, output: Domain, what: str) -> Domain:
    """Where distances count people, the rows a function makes must still say whose they are."""
    if not isinstance(output, Domain):
        raise DomainError(f"{what} needs the domain of its results, for example Integers(0, 10), not {type(output).__name__}")
    if not isinstance(space.metric, Identifiers):
        return output
    owner = space.metric.column
    if not isinstance(output, Records):
        raise MetricError(f"{what} drops {owner!r}, which says whose row it is; put cap_rows({owner!r}, most) before it")
    return Records({**dict(output.fields), owner: records_domain(space, what)[owner]})


def _restored(space: Space, made: Any, data: Any, positions: list[int] | None = None) -> Any:
    """The owner of each row, copied from the row it was made of: no function may pass a row on to another person."""
    if not isinstance(space.metric, Identifiers):
        return made
    owner = data[space.metric.column]
    return {**made, space.metric.column: owner if positions is None else take(owner, positions)}


def map_rows(function: Callable[[Any], Any], output: Domain, default: Any = None) -> MapRows:
    """Apply a pure public function to each row; results are made members of `output`, errors become `default`."""
    return MapRows(function, output, default)


def loses_rows(space: Space, element: Domain, most: int = 1) -> tuple[Space, int]:
    """The space of what a step that makes up to `most` rows of each leaves, and its stability.

    A row that is exchanged may be dropped on one side and kept on the other, so the number of rows is no longer public.
    """
    if isinstance(space.metric, (ReplaceOne, Hamming)):
        return Space(Rows(element), AddRemove()), 2 * most
    if isinstance(space.metric, Identifiers):
        return Space(Rows(element), space.metric), 1
    return Space(Rows(element), space.metric), most


@dataclass(frozen=True)
class FilterRows(Step):
    """The rows of which a public predicate is true."""

    predicate: Callable[[Any], Any] = field(compare=False)

    def bind(self, space: Space) -> Transformation:
        what = f"filter_rows({_named(self.predicate)})"
        output, factor = loses_rows(space, rows_domain(space, what).element)

        def run(data: Any) -> Any:
            found = [guarded(lambda row: bool(self.predicate(row)), row) for row in rows_of(data)]
            return take(data, [i for i, keep in enumerate(found) if keep is True])

        return Transformation(space, output, run, times(factor), what, ALONE)


def filter_rows(predicate: Callable[[Any], Any]) -> FilterRows:
    """Keep the rows of which the pure public predicate is true; where it raises, the row is dropped.

    >>> from tacit.calculus import AddRemove, Integers, ReplaceOne, Rows, Space
    >>> adults = filter_rows(lambda age: age >= 18)
    >>> (Space(Rows(Integers(0, 120)), AddRemove()) >> adults)([5, 18, 40]).tolist()
    [18, 40]
    >>> (Space(Rows(Integers(0, 120)), ReplaceOne()) >> adults).map(1)
    2
    """
    return FilterRows(predicate)


@dataclass(frozen=True)
class DropMissing(Step):
    """The rows that have a number, or a number in one column."""

    column: str | None = None

    def bind(self, space: Space) -> Transformation:
        what = f"drop_missing({'' if self.column is None else repr(self.column)})"
        column = self.column
        element = rows_domain(space, what).element if column is None else records_domain(space, what)[column]
        if not isinstance(element, Reals):
            raise DomainError(f"{what} drops rows whose number is missing, and {element} has none; cast(Reals()) first if it should")
        full: Domain = Reals(element.lower, element.upper, missing=False)
        if column is not None:
            full = Records({**dict(records_domain(space, what).fields), column: full})
        output, factor = loses_rows(space, full)

        def run(data: Any) -> Any:
            values = element.enforce(data if column is None else data[column])
            return take(data, np.flatnonzero(~np.isnan(values)).tolist())

        return Transformation(space, output, run, times(factor), what, ALONE)


def drop_missing(column: str | None = None) -> DropMissing:
    """Drop the rows whose number, or whose number in a column, is missing.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> (Space(Rows(Reals(0, 9)), AddRemove()) >> drop_missing())([1.0, None, 3.0]).tolist()
    [1.0, 3.0]
    """
    return DropMissing(column)


@dataclass(frozen=True)
class FlatMap(Step):
    """Up to `most` rows made of each row by a public function."""

    function: Callable[[Any], Iterable[Any]] = field(compare=False)
    most: int
    output: Domain

    def bind(self, space: Space) -> Transformation:
        what = f"flat_map({_named(self.function)}, {self.most})"
        rows_domain(space, what)
        target = _keeps_person(space, self.output, what)
        output, factor = loses_rows(space, target, self.most)

        def run(data: Any) -> Any:
            made, origin = [], []
            for i, row in enumerate(rows_of(data)):
                found = guarded(lambda given: list(islice(self.function(given), self.most)), row)
                if found is not RAISED:
                    made += found
                    origin += [i] * len(found)
            return _restored(space, members(target, made), data, origin)

        return Transformation(space, output, run, times(factor), what, "each row makes at most that many (Airavat; textbook 12.3)")


def flat_map(function: Callable[[Any], Iterable[Any]], most: int, output: Domain) -> FlatMap:
    """Make at most `most` rows of each: what the function emits beyond is cut off, and a function that raises emits none."""
    return FlatMap(function, whole("most", most), output)


