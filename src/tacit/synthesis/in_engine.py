"""Synthetic rows for a session's table: marginals are counted where the rows are, and the session's account pays.

Columns are taken as the session declares them: categories, or bounds cut into bins. One statement counts all single
columns, one all pairs, and further tables are counted when a method asks for them; rows never leave the engine.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> people = pa.table({"id": range(1000), "sex": ["f", "m"] * 500, "age": list(range(20, 70)) * 20})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(people, unit=Unit("id", max_rows=1), budget=Budget(epsilon=2, delta="1e-9"), name="people",
...     ledger=book, columns={"sex": ["f", "m"], "age": (0, 99)})
>>> made = from_session(session, ["sex", "age"], epsilon=1)
>>> made.sample(3).column_names, round(float(session.left()["epsilon"]), 6)
(['sex', 'age'], 1.0)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee, ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import paying
from tacit.synthesis.columns import CategoryColumn, Column, DateColumn, NumberColumn
from tacit.synthesis.constraints import Constraint, Tables, possible
from tacit.synthesis.junction_tree import Clique
from tacit.synthesis.measure import Counts, Measuring, check_sizes, concentrated_budget, gaussian_budget
from tacit.synthesis.neural import IN_MEMORY, NEURAL
from tacit.synthesis.synthesizer import Method, Synthesizer, aimed, method_named
from tacit.tables import Brackets, Cut, Desk, EngineError, Session, kind_of

#: Bins of a column that is declared by its bounds.
BINS = 32
#: How a job cuts a date.
DATES = "{start: 2026-01-01, step: month, periods: 12}"
#: The most cells of all tables of pairs that are counted by one statement.
TOGETHER = 20_000_000


@dataclass(frozen=True, eq=False, repr=False)
class EnginePlan:
    """What would be fitted to a desk's table, and its price. No data was touched."""

    cut: Cut
    columns: tuple[Column, ...]
    method: Method
    budget: Guarantee
    event: Event
    constraints: tuple[Constraint, ...] = ()

    def __repr__(self) -> str:
        return f"a synthetic table of {len(self.columns)} columns by {self.method!r}, for at most {self.event!r}"

    @property
    def possible(self) -> Tables:
        """Which cells the constraints leave."""
        return possible(self.columns, self.constraints)

    def fit(self) -> tuple[Any, Measuring]:
        """Count, measure and fit. The caller has paid."""
        sizes = tuple(column.size for column in self.columns)
        counts = counts_of(self.cut, tuple(column.name for column in self.columns), sizes)
        measuring = Measuring(sizes, counts, self.budget, max_rows=self.cut.reach, possible=self.possible)
        return self.method.fit(measuring), measuring


def counts_of(cut: Cut, names: tuple[str, ...], sizes: tuple[int, ...]) -> Counts:
    """Exact counts of a table, counted together with all others of as many columns where that is one or two."""
    known: dict[Clique, NDArray[np.int64]] = {}

    def counted(clique: Clique) -> NDArray[np.int64]:
        if clique not in known:
            wanted = [clique]
            ordered = sorted(clique) == list(clique)
            if len(clique) <= 2 and ordered:
                alike = list(itertools.combinations(range(len(names)), len(clique)))
                if sum(math.prod(sizes[place] for place in one) for one in alike) <= TOGETHER:
                    wanted = alike
            found = cut.counts([tuple(names[place] for place in one) for one in wanted])
            known.update({one: found[tuple(names[place] for place in one)] for one in wanted})
        return known[clique]

    return counted


def plan(
    desk: Desk, columns: Sequence[str | Column], spend: Guarantee, *, method: str | Method = "auto",
    target: str | None = None, constraints: Sequence[Constraint] = (), rows: str | None = None,
) -> EnginePlan:
    """What is fitted for a price; refusals depend on what is declared alone."""
    checked_desk(desk)
    if isinstance(method, str) and method in NEURAL:
        raise ParameterError(IN_MEMORY)
    chosen = method_named(method)
    declared = tuple(declared_column(desk, one) if isinstance(one, str) else one for one in columns)
    names = [column.name for column in declared]
    if not names or len(set(names)) < len(names):
        raise ParameterError("declare at least one column, and each name once")
    check_sizes(chosen, [column.size for column in declared])
    cut = Cut.of(desk, {column.name: engine_cells(column) for column in declared}, rows=rows, outside=True)
    budget, event = (concentrated_budget if chosen.selects else gaussian_budget)(spend)
    possible(declared, constraints)  # refuses rules that cannot be kept
    return EnginePlan(cut, declared, aimed(chosen, names, target), budget, event, tuple(constraints))


def from_session(
    session: Session, columns: Sequence[str | Column], *, guarantee: Guarantee | str | None = None,
    epsilon: Typed | None = None, delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
    method: str | Method = "auto", target: str | None = None, constraints: Sequence[Constraint] = (),
    rows: str | None = None,
    purpose: str = "synthetic table",
) -> Synthesizer:
    """A model of a session's table within a guarantee, paid from its account before a row is read.

    `columns` are names of declared columns, or columns with bins of your own (`NumberColumn`, `CategoryColumn`).
    `rows` is a plain count whose rows are meant: 'SELECT COUNT(*) FROM visits WHERE age > 17'. An account in rho or mu
    also takes an epsilon with its delta, and books what is drawn in its own currency.
    """
    spend = asked_of(session, guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    planned = plan(session.desk, columns, spend, method=method, target=target, constraints=constraints, rows=rows)
    with paying(
        session.account, planned.event, purpose=purpose, analyst=session.analyst, delta=delta_of(session, spend), error=EngineError
    ) as payment:
        model, measuring = planned.fit()
    measured, events = tuple(measuring.measured), tuple(measuring.events)
    return Synthesizer(
        planned.columns, model, measured, planned.event, events, payment.private, planned.constraints
    )


def asked_of(session: Session, guarantee: Guarantee | str | None = None, **amounts: Typed | None) -> Guarantee:
    """What is asked of a session: in its account's currency, or as epsilon and delta where the account counts in rho or mu.

    Epsilon and delta say how much noise is drawn. It is Gaussian, so the account books its event in its own currency.
    """
    given = {name for name, amount in amounts.items() if amount is not None}
    if session.account.budget.currency in ("rho", "mu") and guarantee is None and given == {"epsilon", "delta"}:
        return Guarantee(epsilon=amounts["epsilon"], delta=amounts["delta"]).positive()
    return session.spend_of(guarantee, **amounts)


def delta_of(session: Session, spend: Guarantee) -> Fraction | None:
    """The delta that an entry may use, where the account has one."""
    return spend.delta or None if "delta" in session.account.budget.limits else None


def checked_desk(desk: Desk) -> None:
    """Refuse a unit for which nothing is proved."""
    if desk.unit.adjacency is not Adjacency.ADD_REMOVE:
        raise ParameterError("synthesis is proved for people who come or go: the unit needs adjacency add-remove")


def declared_column(desk: Desk, name: str, table: str | None = None) -> Column:
    """The column as the desk's schema has it, of one table where several have it."""
    keys = [name] if table is None else [f"{table}.{name}", name]
    categories = next((desk.schema.categories[key] for key in keys if key in desk.schema.categories), None)
    bounds = next((desk.schema.bounds[key] for key in keys if key in desk.schema.bounds), None)
    if categories is not None:
        return CategoryColumn(name, tuple(categories))
    if bounds is None and kind_in(desk, name, table) in ("date", "timestamp"):
        raise ParameterError(f"{name} is a date, and has no bins: give DateColumn({name!r}, edges); in a job, dates: {{{name}: {DATES}}}")
    if bounds is None:
        raise ParameterError(f"{name} has neither categories nor bounds; declare them, or give a column with bins of its own")
    low, high = (exact("bound", end) for end in bounds)
    whole = kind_in(desk, name, table) == "integer" and low.denominator == high.denominator == 1
    return NumberColumn.between(name, float(low), float(high), BINS, whole=whole)


def kind_in(desk: Desk, name: str, table: str | None) -> str:
    """What a column of a table holds: integer, float, text, date and so on; empty where there is none of this name."""
    tables = desk.source.tables if table is None else [table]
    types = {c.lower(): t for one in tables if one in desk.source.tables for c, t in desk.source.columns(one).items()}
    return kind_of(types.get(name.lower(), ""))


def engine_cells(column: Column) -> Sequence[Any] | Brackets:
    """How the engine cuts a column into the same cells; what is in none of them is the last cell, as it is there."""
    if isinstance(column, CategoryColumn) and column.other is None:
        return column.values
    if isinstance(column, NumberColumn | DateColumn):
        return Brackets(column.edges)
    raise ParameterError(f"{column.name}: in an engine columns are categories without an other, or numbers or dates in bins")
