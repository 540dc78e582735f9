"""Steps on one row at a time: each leaves the distance between data sets as it was.

Clamp, cast, impute, round, bin, encode or shorten the values: rows of single values, or with `column=` one column of a table.
Or choose columns of a table: take one, keep some, read several as one vector. Every step is total: whatever a row holds, a
member of the output's domain comes out.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, table
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 10)
>>> plan([-5, 3, 99]).tolist(), plan.map(1)
([0, 3, 10], 1)
>>> people = Space(table(age=Integers(0, 120), children=Integers(0, 20)), AddRemove())
>>> (people >> column("age"))({"age": [30, 200], "children": [1, 2]}).tolist()
[30, 120]
>>> (people >> vector("age", "children"))({"age": [30], "children": [2]}).tolist()
[[30, 2]]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tacit.calculus.chain import Space, Step, Transformation
from tacit.calculus.collection_domains import Ball, Categories, Records, Rows, Vectors
from tacit.calculus.datasets import held
from tacit.calculus.domains import Anything, Domain, Integers, Lattice, Reals, granule, listed
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import AddRemove, Hamming, Identifiers, ReplaceOne
from tacit.noise import round_to_lattice
from tacit.parameters import Number, number, positive

ROW_BY_ROW = "a function of each row alone is 1-stable (McSherry 2009; textbook 12.3, eq. 12.1)"
Function = Callable[[Any], Any]


def rows_domain(space: Space, what: str) -> Rows:
    """The domain of rows a step stands on, or a refusal."""
    if not isinstance(space.domain, Rows):
        raise DomainError(f"{what} works on rows, not on {space.domain}")
    if not isinstance(space.metric, (AddRemove, ReplaceOne, Hamming, Identifiers)):
        raise MetricError(f"{what} has no proof under {space.metric}; use AddRemove(), ReplaceOne(), Hamming() or Identifiers(column)")
    return space.domain


def records_domain(space: Space, what: str) -> Records:
    """The domain of the records of a table, or a refusal."""
    element = rows_domain(space, what).element
    if not isinstance(element, Records):
        raise DomainError(f"{what} works on a table with named columns, not on {space.domain}")
    return element


def exchanged(space: Space, what: str) -> bool:
    """Whether rows are exchanged (True) or come and go (False); a refusal under any other metric."""
    match space.metric:
        case AddRemove():
            return False
        case ReplaceOne() | Hamming():
            return True
    raise MetricError(f"{what} has no stability under {space.metric}; cap each person's rows first: cap_rows(column, most)")


@dataclass(frozen=True)
class RowWise(Step):
    """A step that treats every value by itself: `on` says what becomes of the domain of a value, and of a column of them."""

    verb: ClassVar[str]
    column: str | None = field(default=None, kw_only=True)

    def on(self, element: Domain) -> tuple[Domain, Function]:
        """The domain of the new values, and the function of a whole column."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The step as it is written, without `column`."""
        return f"{self.verb}({', '.join(str(getattr(self, part.name)) for part in fields(self) if part.name != 'column')})"

    def bind(self, space: Space) -> Transformation:
        domain = rows_domain(space, self.name)
        if self.column is None:
            element, function = self.on(domain.element)
            return Transformation(space, Space(Rows(element, domain.size), space.metric), function, lambda d: d, self.name, ROW_BY_ROW)
        records, column = records_domain(space, self.name), self.column
        if isinstance(space.metric, Identifiers) and space.metric.column == column:
            raise MetricError(f"{column!r} says whose row it is, and changing it could merge people; apply {self.name} after cap_rows")
        changed, inner = self.on(records[column])
        output = Space(Rows(Records({**dict(records.fields), column: changed}), domain.size), space.metric)
        name = f"{self.name[:-1]}, column={column!r})" if not self.name.endswith("()") else f"{self.name[:-1]}column={column!r})"
        return Transformation(space, output, lambda data: {**data, column: inner(data[column])}, lambda d: d, name, ROW_BY_ROW)


def _each(domain: Domain) -> Function:
    """What makes a column of members of a domain."""
    return domain.enforce_rows if isinstance(domain, Vectors) else domain.enforce


@dataclass(frozen=True)
class Clamp(RowWise):
    """Every value moved to the nearest end of a public interval."""

    verb = "clamp"
    lower: Number
    upper: Number

    def on(self, element: Domain) -> tuple[Domain, Function]:
        bounded: Domain
        match element:
            case Integers():
                Integers.between(self.lower, self.upper)  # refuses what is not whole or not in order
                bounded = Integers.between(*self._image(element.lower, element.upper))
            case Lattice():
                Lattice(element.granularity, self.lower, self.upper)
                bounded = Lattice(element.granularity, *self._image(element.lower, element.upper))
            case Reals():
                Reals(self.lower, self.upper)
                bounded = Reals(*self._image(element.lower, element.upper), missing=element.missing)
            case Vectors():
                bounded = Vectors(self.on(element.element)[0], element.length)
            case _:
                raise DomainError(f"clamp works on numbers, not on {element}; cast them first: cast(Reals())")
        return bounded, _each(bounded)

    def _image(self, lower: Number | None, upper: Number | None) -> tuple[Number, Number]:
        """What the interval of the domain becomes: bounds that were tighter stay so."""
        low = self.lower if lower is None else min(max(lower, self.lower), self.upper)
        return low, self.upper if upper is None else min(max(upper, self.lower), self.upper)


def clamp(lower: Number, upper: Number, *, column: str | None = None) -> Clamp:
    """Clamp each value to [lower, upper]; the bounds are public and never read from the data."""
    return Clamp(number("lower", lower), number("upper", upper), column=column)


@dataclass(frozen=True)
class Cast(RowWise):
    """Every value read as a member of another domain."""

    verb = "cast"
    domain: Domain

    def on(self, element: Domain) -> tuple[Domain, Function]:
        target = self.domain
        if isinstance(target, (Integers, Reals)):
            return target, lambda values: target.enforce([_read(value) for value in listed(values)])
        if isinstance(target, (Categories, Anything)):
            return target, target.enforce
        raise DomainError(f"cast reads values as Integers, Reals, Categories or Anything, not as {target}; for a lattice use round_to")


def _read(value: Any) -> Any:
    """A text as the number it spells, if it does."""
    if not isinstance(value, (str, bytes)):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return None


def cast(domain: Domain, *, column: str | None = None) -> Cast:
    """Read each value as one of the domain: texts as the numbers they spell, what cannot be read as missing or as the default.

    >>> from tacit.calculus import AddRemove, Anything, Rows, Space
    >>> plan = Space(Rows(Anything()), AddRemove()) >> cast(Reals())
    >>> plan(["1.5", "many", None, 2]).tolist()
    [1.5, nan, nan, 2.0]
    """
    return Cast(domain, column=column)


@dataclass(frozen=True)
class Impute(RowWise):
    """Missing numbers replaced by a public constant."""

    verb = "impute"
    constant: Number

    def on(self, element: Domain) -> tuple[Domain, Function]:
        if not isinstance(element, Reals):
            raise DomainError(f"impute fills in missing numbers, and {element} has none; cast(Reals()) first if it should")
        filled = Reals(element.lower, element.upper, missing=False)
        if not filled.member(self.constant):
            raise DomainError(f"constant must lie between the public bounds of the column, and {self.constant} does not")
        return filled, lambda values: filled.enforce(np.where(np.isnan(known := element.enforce(values)), float(self.constant), known))


def impute(constant: Number, *, column: str | None = None) -> Impute:
    """Replace missing values by a public constant.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> (Space(Rows(Reals(0, 9)), AddRemove()) >> impute(5))([1.0, None]).tolist()
    [1.0, 5.0]
    """
    return Impute(number("constant", constant), column=column)


@dataclass(frozen=True)
class RoundTo(RowWise):
    """Every real number rounded to the nearest multiple of a public granularity."""

    verb = "round_to"
    granularity: Fraction

    def on(self, element: Domain) -> tuple[Domain, Function]:
        if isinstance(element, Vectors):
            inner, function = self.on(element.element)
            rounded = Vectors(inner, element.length)
            return rounded, lambda rows: rounded.enforce_rows(function(element.enforce_rows(rows).ravel()).reshape(-1, element.length))
        if not isinstance(element, Reals):
            raise DomainError(f"round_to rounds real numbers, not {element}; whole numbers need no rounding")
        step = self.granularity
        # Rounding to the nearest is monotone, so the bounds of the values become those of their multiples.
        low, high = (None if bound is None else round(Fraction(bound) / step) * step for bound in (element.lower, element.upper))
        lattice = Lattice(step, low, high)
        return lattice, lambda values: lattice.enforce(round_to_lattice(element.enforce(values), step))


def round_to(granularity: Number, *, column: str | None = None) -> RoundTo:
    """Round to whole multiples of a public granularity, on which sums are exact. A missing value counts as the multiple nearest to 0.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> plan = Space(Rows(Reals(0, 1)), AddRemove()) >> round_to(Fraction(1, 8))
    >>> plan([0.3, 2.0, float("nan")]).tolist(), plan.output.domain.element.multiples
    ([2, 8, 0], (0, 8))
    """
    return RoundTo(Fraction(positive("granularity", granularity)), column=column)


@dataclass(frozen=True)
class Bins(RowWise):
    """Every number replaced by the number of the public interval it lies in."""

    edges: tuple[Number, ...]

    @property
    def name(self) -> str:
        return f"bins([{', '.join(map(str, self.edges))}])"

    def on(self, element: Domain) -> tuple[Domain, Function]:
        if not isinstance(element, (Integers, Lattice, Reals)):
            raise DomainError(f"bins sorts numbers into intervals, not {element}; cast them first: cast(Reals())")
        missing = isinstance(element, Reals) and element.missing
        cells = Categories(tuple(range(len(self.edges) + 1 + missing)))
        edges: Sequence[Number] = [Fraction(edge) / granule(element) for edge in self.edges]

        def place(values: Any) -> list[int]:
            # Python compares integers, floats and fractions exactly; NaN gets a cell of its own, the last.
            return [len(edges) + 1 if value != value else bisect_right(edges, value) for value in element.enforce(values).tolist()]

        return cells, place


def bins(edges: Iterable[Number], *, column: str | None = None) -> Bins:
    """Sort numbers into the intervals between public edges: below the first, [first, second), ..., from the last on.

    Cells are numbered from 0. Where numbers may be missing there is one more cell for them, the last.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> (Space(Rows(Reals()), AddRemove()) >> bins([0, 10]))([-1.0, 0.0, 9.5, 10.0, None])
    [0, 1, 1, 2, 3]
    """
    given = tuple(number("edges", edge) for edge in edges)
    if not given or any(isinstance(e, float) and abs(e) == float("inf") for e in given):
        raise DomainError("edges must be finite numbers, at least one")
    if any(a >= b for a, b in pairwise(given)):
        raise DomainError("edges must increase; sort them and remove duplicates")
    return Bins(given, column=column)


@dataclass(frozen=True)
class ClipNorm(RowWise):
    """Every vector shortened to a public L1 or L2 norm."""

    verb = "clip_norm"
    p: int
    radius: Number

    def on(self, element: Domain) -> tuple[Domain, Function]:
        if not isinstance(element, Vectors):
            raise DomainError(f"clip_norm shortens vectors, not {element}; put vector(*columns) before it")
        ball = Ball(element.element, element.length, self.p, self.radius)
        return ball, ball.enforce_rows


def clip_norm(p: int, radius: Number, *, column: str | None = None) -> ClipNorm:
    """Shorten each vector of whole numbers to norm at most `radius`; exact, coordinates are cut towards zero.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> plan = Space(Rows(Vectors(Integers(), 2)), AddRemove()) >> clip_norm(2, 5)
    >>> plan([[30, 40], [1, 2]]).tolist()
    [[3, 4], [1, 2]]
    """
    return ClipNorm(p, positive("radius", radius), column=column)


@dataclass(frozen=True)
class OneHot(RowWise):
    """Every category replaced by the vector that is 1 at its place and 0 elsewhere."""

    verb = "one_hot"

    def on(self, element: Domain) -> tuple[Domain, Function]:
        if not isinstance(element, Categories):
            raise DomainError(f"one_hot needs public categories, not {element}; put cast(Categories(...)) or bins(edges) before it")
        values, ball = element.values, Ball(Integers(0, 1), len(element.values), 1, 1)
        return ball, lambda column: ball.enforce_rows([[int(value == v) for v in values] for value in element.enforce(column)])


def one_hot(*, column: str | None = None) -> OneHot:
    """A vector for each category, with a single 1.

    >>> from tacit.calculus import AddRemove, Rows, Space
    >>> (Space(Rows(Categories("abc")), AddRemove()) >> one_hot())(["c", "a"]).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    return OneHot(column=column)


def members(domain: Domain, rows: Iterable[Any]) -> Any:
    """Rows one by one, whatever they are, as a data set of this element."""
    if isinstance(domain, Records):
        return Rows(domain).enforce(held(domain, (domain.enforce(row) for row in rows)))
    return _each(domain)(list(rows))


def keep_person(space: Space, what: str, names: tuple[str, ...] = ()) -> None:
    """Refuse to lose the column that says whose row it is while distances still count people."""
    if isinstance(space.metric, Identifiers) and space.metric.column not in names:
        owner = space.metric.column
        raise MetricError(f"{what} drops {owner!r}, which says whose row it is; put cap_rows({owner!r}, most) before it")


@dataclass(frozen=True)
class Column(Step):
    """One column of a table, as rows of single values."""

    name: str

    def bind(self, space: Space) -> Transformation:
        what = f"column({self.name!r})"
        records, rows, name = records_domain(space, what), rows_domain(space, what), self.name
        keep_person(space, what)
        output = Space(Rows(records[name], rows.size), space.metric)
        return Transformation(space, output, lambda data: data[name], lambda d: d, what, ROW_BY_ROW)


def column(name: str) -> Column:
    """One column as rows of single values."""
    return Column(name)


@dataclass(frozen=True)
class Select(Step):
    """Some columns of a table."""

    names: tuple[str, ...]

    def bind(self, space: Space) -> Transformation:
        what = f"select({', '.join(map(repr, self.names))})"
        records, rows, names = records_domain(space, what), rows_domain(space, what), self.names
        keep_person(space, what, names)
        output = Space(Rows(Records({name: records[name] for name in names}), rows.size), space.metric)
        return Transformation(space, output, lambda data: {name: data[name] for name in names}, lambda d: d, what, ROW_BY_ROW)


def select(*names: str) -> Select:
    """Keep these columns."""
    return Select(names)


@dataclass(frozen=True)
class VectorOf(Step):
    """Several columns of numbers, read as one vector a row."""

    names: tuple[str, ...]

    def bind(self, space: Space) -> Transformation:
        what = f"vector({', '.join(map(repr, self.names))})"
        records, rows, names = records_domain(space, what), rows_domain(space, what), self.names
        keep_person(space, what)
        if not names:
            raise DomainError("vector needs the names of the columns to read")
        vectors = Vectors(_hull([records[name] for name in names]), len(names))
        output = Space(Rows(vectors, rows.size), space.metric)

        def stacked(data: Any) -> Any:
            return vectors.enforce_rows(np.array([np.asarray(data[name]) for name in names]).T)

        return Transformation(space, output, stacked, lambda d: d, what, ROW_BY_ROW)


def _hull(domains: list[Domain]) -> Domain:
    """The least domain of the same kind that holds all of these."""
    kinds = {(type(d), d.granularity if isinstance(d, Lattice) else None) for d in domains}
    if len(kinds) != 1 or not isinstance(domains[0], (Integers, Lattice, Reals)):
        raise DomainError("the columns of a vector must be numbers of one kind: cast them, or round them to one granularity, first")
    lower = [d.lower for d in domains if isinstance(d, (Integers, Lattice, Reals))]
    upper = [d.upper for d in domains if isinstance(d, (Integers, Lattice, Reals))]
    low = None if None in lower else min(v for v in lower if v is not None)
    high = None if None in upper else max(v for v in upper if v is not None)
    match domains[0]:
        case Lattice():
            return Lattice(domains[0].granularity, low, high)
        case Reals():
            return Reals(low, high, missing=any(isinstance(d, Reals) and d.missing for d in domains))
    return Integers.between(low, high)


def vector(*names: str) -> VectorOf:
    """Read columns of numbers of one kind as the coordinates of a vector."""
    return VectorOf(names)
