"""Views of joined tables: each is counted once, at one price for all, and answers every later question about it for free.

A view is a SELECT over the session's tables: joins of private tables on the person or along declared keys, joins with
public tables, conditions. The desk bounds what one person can do to it, as for any question: her rows are capped after
the joins. For every view a workload says what will be asked, and one statement counts all of its tables
(Kotsogiannis et al. 2019, PrivateSQL). After that, `count` answers from what was published.

>>> import pathlib, tempfile
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Source, Unit
>>> from tacit.workloads import Marginals
>>> tables = {"visits": {"id": [i // 2 for i in range(800)], "ward": ["a", "b"] * 400},
...     "patients": {"id": list(range(400)), "sex": ["f", "m", "f", "m"] * 100}}
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(Source.several(tables), unit=Unit("id", max_rows=2), budget=Budget(rho=1), name="clinic", ledger=book,
...     columns={"ward": ["a", "b"], "sex": ["f", "m"]})
>>> stays = View("SELECT v.ward, p.sex FROM visits v JOIN patients p ON v.id = p.id", Marginals("ward", "sex", up_to=2))
>>> planned = views(session, {"stays": stays}, rho=0.5)
>>> found = planned.run()["stays"]
>>> value, low, high = found.count(ward="a", sex="f")
>>> abs(value - 200) < 40, low < value < high
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.accounting import Adjacency, Composed, Event, Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.tables import Brackets, Cut, Periods, Session
from tacit.workloads.intervals import half_widths
from tacit.workloads.plan import Measured, WorkloadAnswer, bound, measured
from tacit.workloads.workload import Factor, Predicates, Ranges, Term, Wanted, Workload


@dataclass(frozen=True)
class View:
    """A SELECT over the session's tables, what will be asked about its columns, and how much its errors matter."""

    select: str
    wanted: Wanted
    cells: Mapping[str, Sequence[Any] | Brackets | Periods | None] = field(default_factory=dict)
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.select, str) or not self.select.strip():
            raise ParameterError("a view is a SELECT, such as 'SELECT v.ward, p.sex FROM visits v JOIN patients p ON v.id = p.id'")
        if not isinstance(self.wanted, Wanted):
            raise ParameterError("wanted must say what is asked about the view, such as Marginals('ward', 'sex', up_to=2)")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ParameterError(f"weight must be greater than 0, not {self.weight}")

    @property
    def rows(self) -> str:
        """The plain count whose rows are those of the view."""
        return f"SELECT COUNT(*) AS n FROM ({self.select.strip().rstrip(';')}) AS seen"


@dataclass(frozen=True, eq=False)
class ViewsPlan:
    """What is measured of every view, at one price together. No data was touched."""

    session: Session
    spend: Guarantee
    parts: Mapping[str, tuple[Cut, Measured]]
    purpose: str = ""

    @property
    def event(self) -> Event:
        """What is done to the data, for all views together."""
        events = [plan.event for _, plan in self.parts.values()]
        return events[0] if len(events) == 1 else Composed(*events)

    @property
    def expected_errors(self) -> dict[str, float]:
        """For every view the root of the mean squared error over what it was planned for."""
        return {name: plan.expected_error for name, (_, plan) in self.parts.items()}

    def explain(self) -> str:
        """Every view in words, with its statement."""
        found = []
        for name, (cut, plan) in self.parts.items():
            text = cut.statement(plan.selection.tables).sql(dialect=self.session.engine.dialect, pretty=True)
            found.append(
                f"{name}: {plan.workload.questions} answers from {plan.selection.describe()}; {plan.law} noise; a typical answer is off "
                f"by {plan.expected_error:.4g}; {cut.counted}; one {self.session.unit.noun} adds at most {cut.reach} rows.\n\n{text}"
            )
        return "\n\n".join(found)

    def run(self) -> dict[str, ViewAnswer]:
        """Pay once, count every view with one statement, add noise. What fails after the payment stays spent."""
        with self.session.paying(self.event, self.spend, self.purpose, "plan.explain() shows the statements") as payment:
            drawn = {name: tuple(plan.draw(cut.counts(plan.selection.tables))) for name, (cut, plan) in self.parts.items()}
        return {
            name: ViewAnswer(plan, drawn[name], payment.private, payment.entry) for name, (_, plan) in self.parts.items()
        }


def views(
    session: Session, seen: Mapping[str, View], *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None, purpose: str = "",
) -> ViewsPlan:
    """Plan the views of a session's tables, the price shared out by their weights. Nothing is spent and no data is touched."""
    if not seen or not all(isinstance(view, View) for view in seen.values()):
        raise ParameterError("give at least one view: {'stays': View('SELECT ...', Marginals('ward', 'sex', up_to=2))}")
    spend = session.spend_of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
    shares = [spend] if len(seen) == 1 else spend.split([view.weight for view in seen.values()])
    replaced = session.unit.adjacency is Adjacency.REPLACE_ONE
    parts = {}
    for (name, view), share in zip(seen.items(), shares, strict=True):
        cut, workload = bound(session.desk, view.wanted, view.cells, view.rows)
        plan = measured(workload, share, reach=cut.reach, replaced=replaced, confidence=session.desk.confidence)
        parts[name] = (cut, plan)
    return ViewsPlan(session, spend, parts, purpose)



@dataclass(frozen=True, eq=False, repr=False)
class ViewAnswer(WorkloadAnswer):
    """A view's published sums. `table` has what it was planned for, `count` anything else that they tell."""

    def count(self, **conditions: str | list[str] | tuple[str, str]) -> tuple[float, float, float]:
        """How many rows of the view meet the conditions: value, low, high. It costs nothing, as often as it is asked.

        A condition on a column is a cell (`sex="f"`), a list of cells (`ward=["a", "c"]`), or a first and a last cell
        (`age=("18", "64")`); columns without one are added up. A few columns can be asked about together only if a
        table with all of them was measured.
        """
        plan = self.measured
        factors: list[tuple[str, Factor]] = []
        for column, asked in conditions.items():
            plan.workload.cells.check([column])
            factors.append((column, _factor(column, asked, plan.workload.cells.names[column])))
        term = Term(tuple(factors))
        (own,) = plan.selection.answers(Workload(plan.workload.cells, (term,)), self.released, plan.law)
        width = float(half_widths(own.squares, own.fourths, plan.law, plan.confidence).ravel()[0]) * plan.scale
        value = float(own.values.ravel()[0])
        return value, value - width, value + width


def _factor(column: str, asked: Any, names: Sequence[str]) -> Factor:
    """One question about a column's cells."""

    def place(name: Any) -> int:
        if name not in names:
            raise ParameterError(f"{column} has no cell {name!r}; there are {', '.join(list(names)[:8])}")
        return names.index(name)

    if isinstance(asked, tuple) and len(asked) == 2:
        first, last = place(asked[0]), place(asked[1])
        if first > last:
            raise ParameterError(f"{asked[0]} comes after {asked[1]} among the cells of {column}")
        return Ranges(len(names), ((first, last),))
    if isinstance(asked, list) and asked and len(set(asked)) == len(asked):
        row = np.zeros((1, len(names)))
        row[0, [place(name) for name in asked]] = 1.0
        return Predicates.of(row)
    if isinstance(asked, str):
        return Ranges(len(names), ((place(asked), place(asked)),))
    raise ParameterError(f"the condition on {column} must be a cell, a list of different cells, or a first and a last one")
