"""The interface: declare columns, say how much privacy, get rows, marginals with intervals, and the event.

`synthesize(rows, columns, epsilon=, delta=)` fits a method to a table and pays for it once, before a row is read.
The number of rows is never counted: it is estimated from the measured marginals. What `sample` and `marginal` return
is post-processing and free.

>>> import pyarrow as pa
>>> from tacit.noise import test_mode
>>> from tacit.synthesis.columns import CategoryColumn, NumberColumn
>>> people = pa.table({"sex": ["f", "m"] * 500, "age": list(range(20, 70)) * 20})
>>> declared = [CategoryColumn("sex", ("f", "m")), NumberColumn.between("age", 0, 99, 10, whole=True)]
>>> with test_mode(1):
...     made = synthesize(people, declared, mu=1, method="oneshot")
...     table = made.sample(200)
>>> table.num_rows, table.column_names, made.event_
(200, ['sex', 'age'], GDP(mu=...))
>>> cell = made.marginal("sex")[0]
>>> cell.values, cell.low < 500 < cell.high
(('f',), True)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee, ParameterError
from tacit.calculus import column_values
from tacit.exact import Typed
from tacit.ledger import Account, paying
from tacit.mechanisms import half_width
from tacit.noise import permutation
from tacit.parameters import count
from tacit.synthesis.aim import AIM
from tacit.synthesis.auto import Auto
from tacit.synthesis.bins import Bought, budget_beside, shares_of
from tacit.synthesis.columns import Cells, Coded, Column, Values, same_text
from tacit.synthesis.constraints import Constraint, possible, settle
from tacit.synthesis.direct import Direct
from tacit.synthesis.estimate import Model, NoisyMarginal, merged
from tacit.synthesis.histogram import Histogram
from tacit.synthesis.independent import Independent
from tacit.synthesis.inference import axes_without
from tacit.synthesis.measure import Measuring, check_sizes
from tacit.synthesis.mst import MST
from tacit.synthesis.mwem_pgm import MwemPgm
from tacit.synthesis.neural import IN_MEMORY, NEURAL, Neural, PateGan
from tacit.synthesis.oneshot import OneShot
from tacit.synthesis.privbayes import PrivBayes
from tacit.synthesis.sample import Rows, counted, generator, sampled
from tacit.synthesis.synthetic_rows import SyntheticRows
from tacit.tables import Session

if TYPE_CHECKING:
    import pyarrow as pa


#: The share of the budget that buys bins and categories, where some are not declared.
BINS = "0.2"


class Method(Protocol):
    """A way to choose and measure marginals. `selects` says whether it uses the exponential mechanism."""

    @property
    def selects(self) -> bool: ...

    def fit(self, measuring: Measuring) -> Model:
        """Measure within the budget, and fit."""
        ...


#: The methods by name, with their default settings.
METHODS: Mapping[str, Method] = {
    "auto": Auto(), "oneshot": OneShot(), "aim": AIM(), "mst": MST(), "mwem_pgm": MwemPgm(),
    "privbayes": PrivBayes(), "independent": Independent(), "histogram": Histogram(),
}  # fmt: skip


@dataclass(frozen=True)
class MarginalCell:
    """One cell of a marginal: its values in words, the model's count and, where the marginal was measured, an
    interval for the true count from the measurements alone. It covers with the stated confidence, cell by cell."""

    values: tuple[str, ...]
    count: float
    low: float | None
    high: float | None


@dataclass(frozen=True, repr=False)
class Synthesizer:
    """A fitted model: `sample` makes rows, `marginal` tells counts, `event_` is what it all cost."""

    columns: tuple[Column, ...]
    model: Model
    measured_: tuple[NoisyMarginal, ...]
    event_: Event
    events_: tuple[Event, ...]
    private_: bool
    constraints: tuple[Constraint, ...] = ()

    def __repr__(self) -> str:
        rows = f"{max(0, round(self.rows_)):,} rows, estimated, of {len(self.columns)} columns"
        return f"{rows}, from {len(self.measured_)} measured tables; {self.event_!r}"

    @property
    def rows_(self) -> float:
        """The estimated number of rows."""
        return self.model.total

    def sample(self, rows: int | None = None) -> SyntheticRows:
        """Made-up rows, by default as many as are estimated; `to_arrow`, `to_pandas` and `to_polars` hand them on."""
        import pyarrow as pa

        wanted = None if rows is None else count("rows", rows, least=0)
        draws = generator()
        return SyntheticRows(pa.table(decoded(self.columns, self.cells(wanted, draws), self.constraints, draws)))

    def cells(self, rows: int | None, draws: np.random.Generator) -> Rows:
        """Made-up rows as cell numbers, one array a column."""
        return sampled(self.model, rows, draws)

    def marginal(self, *names: str, confidence: float = 0.95) -> list[MarginalCell]:
        """Counts over some columns, all cells in order; with intervals where measurements cover these columns."""
        places = self._places(names)
        table = self.model.marginal(places)
        known = self._measured(tuple(sorted(places)), confidence)
        labels = [self.columns[place].labels() for place in places]
        found = []
        for cell in itertools.product(*(range(size) for size in table.shape)):
            low = high = None
            if known is not None:
                seen, wide = known
                value = float(seen[tuple(cell[places.index(place)] for place in sorted(places))])
                low, high = value - wide, value + wide
            words = tuple(label[number] for label, number in zip(labels, cell, strict=True))
            found.append(MarginalCell(words, float(table[cell]), low, high))
        return found

    def report(self, path: str | Path) -> None:
        """Write a page (its name ends in .html) of what was measured and what it cost: released figures only."""
        from tacit.synthesis.report_page import write

        write(self, path)

    def _places(self, names: Sequence[str]) -> tuple[int, ...]:
        known = [column.name for column in self.columns]
        for name in names:
            if name not in known:
                raise ParameterError(f"there is no column {name}; there are {', '.join(known)}")
        if not names or len(set(names)) < len(names):
            raise ParameterError("name at least one column, and each once")
        return tuple(known.index(name) for name in names)

    def _measured(self, places: tuple[int, ...], confidence: float) -> tuple[np.ndarray, float] | None:
        """The measurements of a marginal, summed to it and merged by inverse variance, and half an interval."""
        summed = []
        for one in merged(self.measured_):
            if set(places) <= set(one.columns):
                values = one.values.sum(axis=axes_without(one.columns, places))
                summed.append(NoisyMarginal(places, values, one.sigma * (one.values.size / values.size) ** 0.5))
        if not summed:
            return None
        (best,) = merged(summed)
        return best.values, float(half_width([best.sigma], "gaussian", confidence)[0])


def decoded(
    columns: Sequence[Column], cells: Sequence[Cells], constraints: Sequence[Constraint], draws: np.random.Generator
) -> dict[str, pa.Array]:
    """Values for cells, which keep the constraints, as Arrow arrays of the columns' types."""
    import pyarrow as pa

    kinds = {column.name: pa.type_for_alias(column.kind) for column in columns}
    decoding = ((column.name, column.decode(part, draws)) for column, part in zip(columns, cells, strict=True))
    if not constraints:  # a column at a time: lists of a million values are large
        return {name: pa.array(values, type=kinds[name]) for name, values in decoding}
    made = dict(decoding)
    settle(constraints, columns, cells, made, draws)
    return {name: pa.array(values, type=kinds[name]) for name, values in made.items()}


def synthesize(
    rows: Any, columns: Sequence[Any], *, guarantee: Guarantee | str | None = None,
    epsilon: Typed | None = None, delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
    method: str | Method | Neural | PateGan = "auto", target: str | None = None,
    constraints: Sequence[Constraint] = (), person: str | None = None, max_rows: int = 1,
    account: Account | None = None, purpose: str = "synthetic table",
) -> Synthesizer:
    """A model of the rows (an Arrow table, a pandas or polars frame, or a mapping of columns) within a guarantee.

    Every row is one person's, unless `person` names the column that says whose it is: then at most `max_rows` rows of
    each, drawn at random, are kept, and all noise grows by that factor; rows without a person are left out. The
    whole price is booked with `account` before a value is read. Columns whose bins or categories are bought
    (`BoughtNumbers`, `BoughtDates`, `BoughtCategories`) share a fifth of the budget. What depends on the column `target` is
    kept better than the rest. Every made-up row keeps the `constraints`, which name declared columns.
    A `Session` in place of rows is `from_session`: it knows its columns, its people and its account.
    """
    if isinstance(rows, Session):
        from tacit.synthesis.in_engine import from_session

        if isinstance(method, Neural | PateGan):
            raise ParameterError(IN_MEMORY)
        if person is not None or max_rows != 1 or account is not None:
            raise ParameterError("a session knows its people and its account: leave out person=, max_rows= and account=")
        return from_session(
            rows, columns, guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu, method=method,
            target=target, constraints=constraints, purpose=purpose,
        )  # fmt: skip
    declared: tuple[Column | Bought, ...] = tuple(columns)
    for one in declared:
        if isinstance(one, str):
            raise ParameterError(
                f"columns are declared, as {one!r} is not: CategoryColumn({one!r}, ...), NumberColumn({one!r}, ...), or "
                f"BoughtNumbers({one!r}) and BoughtCategories({one!r}) for what is not known; a session knows its columns by name"
            )
    names = [column.name for column in declared]
    if not names or len(set(names)) < len(names):
        raise ParameterError("declare at least one column, and each name once")
    whole = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    most = count("max_rows", max_rows)
    if most > 1 and person is None:
        raise ParameterError("max_rows above 1 needs person=, the column that says whose row it is: it is enforced")
    if isinstance(method, Neural | PateGan) or (isinstance(method, str) and method in NEURAL):
        from tacit.synthesis.neural_synthesizer import train

        return train(
            rows, columns, whole, method, target=target, constraints=constraints, person=person, most=most,
            account=account, purpose=purpose,
        )  # fmt: skip
    chosen = aimed(method_named(method), names, target)
    bought = [column for column in declared if isinstance(column, Bought)]
    shares = dict(zip((one.name for one in bought), shares_of(bought, whole, Fraction(BINS)), strict=True))
    budget, event = budget_beside([one.event(shares[one.name], most) for one in bought], whole, chosen.selects)
    if not (isinstance(chosen, Direct | Histogram) and bought):
        check_sizes(chosen, [column.most if isinstance(column, Bought) else column.size for column in declared])
    rules = possible(
        [None if isinstance(one, Bought) else one for one in declared], constraints
    )
    parts = {name: column_of(rows, name) for name in names}
    owner = None if person is None else column_of(rows, person)
    payment = paying(account, event, purpose=purpose, delta=whole.delta or None)
    with payment:
        values = {name: values_of(part) for name, part in parts.items()}
        owners: Values = [] if owner is None else [same_text(one) for one in values_of(owner)]
        if owner is not None:
            kept = capped(owners, most)
            owners = [owners[row] for row in kept.tolist()]
            values = {name: taken(part, kept) for name, part in values.items()}
        settled = tuple(_settled(column, values[column.name], owners, shares, most) for column in declared)
        sizes = tuple(column.size for column in settled)
        cells = [column.encode(values.pop(column.name)).astype(np.int32) for column in settled]
        measuring = Measuring(sizes, lambda clique: counted(cells, sizes, clique), budget, max_rows=most, possible=rules)
        model = chosen.fit(measuring)
    return Synthesizer(
        settled, model, tuple(measuring.measured), event, tuple(measuring.events), payment.private, tuple(constraints)
    )


def _settled(
    column: Column | Bought, values: Values, owners: Values, shares: Mapping[str, Guarantee], most: int
) -> Column:
    """A declared column as it is, a bought one with its bins or categories."""
    if isinstance(column, Bought):
        return column.column(values, owners, shares[column.name], most)
    return column


def capped(owners: Values, most: int) -> Cells:
    """Which rows to keep so that no person has more than so many; rows without a person are left out, as in tables.

    >>> from tacit.noise import test_mode
    >>> with test_mode(1):
    ...     capped(["ann", "bob", "ann", None, "ann", None], 3).tolist()
    [0, 1, 2, 4]
    """
    keys = [same_text(owner) for owner in owners]
    owned = np.array([place for place, key in enumerate(keys) if key is not None], dtype=np.int64)
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(keys[place], len(numbers)) for place in owned.tolist()], dtype=np.int64)
    order = permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    grouped = codes[order]
    starts = np.searchsorted(grouped, grouped, side="left")
    found: Cells = np.sort(owned[order[np.arange(len(order)) - starts < most]])
    return found


def aimed(method: Method, names: Sequence[str], target: str | None) -> Method:
    """The method with the place of its target, for those that can weigh one.

    >>> aimed(OneShot(), ["age", "income"], "income").target
    1
    """
    if target is None:
        return method
    if target not in names:
        raise ParameterError(f"the target {target} is not among the columns")
    if not isinstance(method, Auto | OneShot | AIM):
        raise ParameterError("this method treats all columns alike; for a target use auto, oneshot or aim")
    return replace(method, target=names.index(target))


def method_named(method: str | Method) -> Method:
    """A method by its name, or as it is."""
    if not isinstance(method, str):
        return method
    if method not in METHODS:
        raise ParameterError(f"there is no method {method}; there are {', '.join([*METHODS, *NEURAL])}")
    return METHODS[method]


def column_of(rows: Any, name: str) -> Any:
    """One column of a table in memory; which columns there are is public, what they hold is not looked at."""
    known = getattr(rows, "column_names", None) or getattr(rows, "columns", None)
    present = list(rows) if known is None and isinstance(rows, Mapping) else list(known if known is not None else [])
    if name not in present:
        raise ParameterError(f"the table has no column {name}")
    return rows[name]


def values_of(column: Any) -> Values:
    """The values of a column: numbers without gaps as a numpy array, texts of Arrow by their different values, else a list."""
    found: Values
    if hasattr(column, "to_pylist"):
        found = _of_arrow(column)
    elif isinstance(column, np.ndarray):
        found = column if column.dtype.kind in "biuf" else column.tolist()
    else:
        found = column_values(column)
    return found


def _of_arrow(column: Any) -> Values:
    import pyarrow as pa

    kind = column.type
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return np.asarray(column.to_numpy())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        coded = whole.dictionary_encode(null_encoding="encode")
        return Coded(column_values(coded.dictionary), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
    return column_values(column)


def taken(values: Values, rows: NDArray[np.int64]) -> Values:
    """Some of the rows of a column."""
    if isinstance(values, np.ndarray):
        return values[rows]
    return values.taken(rows) if isinstance(values, Coded) else [values[row] for row in rows.tolist()]
