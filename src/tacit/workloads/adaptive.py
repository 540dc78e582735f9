"""Methods that look at the data before they choose what to measure, on a session's table: price first, data later.

A method (`dawa`, `mwem`) states its whole price before it sees a count, and spends within it. `AdaptivePlan` pays
that price once, counts in the engine, and hands the counts to the method; what comes back is a record of published
numbers, from which all answers follow. Intervals cover the noise that was added, not what a method smooths away.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> from tacit.workloads import AllRanges, Product, plan_dawa
>>> people = pa.table({"id": range(900), "age": [30, 31, 70] * 300})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(people, unit=Unit("id", max_rows=1), budget=Budget(epsilon=1), name="people", ledger=book,
...     columns={"age": (0, 99)})
>>> ranges = plan_dawa(session, Product(age=AllRanges), epsilon=0.5)
>>> answer = ranges.run()
>>> answer.table("age").num_rows, float(session.left()["pure"])
(5050, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.tables import Brackets, Cut, Session
from tacit.workloads.plan import TermAnswers, bound
from tacit.workloads.workload import Wanted, Workload

#: Published numbers by name, as JSON has them.
Record = dict[str, Any]
Given = Mapping[str, Sequence[Any] | Brackets | None]


class Method(Protocol):
    """Everything but the data: questions, price, and how counts become published numbers and those become answers."""

    @property
    def workload(self) -> Workload:
        """The questions."""
        ...

    @property
    def event(self) -> Event:
        """What is done to the data, known before it is touched."""
        ...

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The tables of counts that are needed."""
        ...

    def draw(self, counts: Mapping[tuple[str, ...], NDArray[Any]]) -> Record:
        """What may be published. The caller has paid."""
        ...

    def answers(self, record: Record) -> list[TermAnswers]:
        """The figures of every term. No data is touched."""
        ...

    def describe(self) -> str:
        """In a few words, for reports."""
        ...


@dataclass(frozen=True, eq=False)
class AdaptivePlan:
    """What would be done to a session's table, at which price. No data was touched."""

    session: Session
    cut: Cut
    method: Method
    spend: Guarantee
    purpose: str = ""

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.method.event

    def explain(self) -> str:
        """The plan in words, and the statement."""
        text = self.cut.statement(self.method.tables).sql(dialect=self.session.engine.dialect, pretty=True)
        reach = f"one {self.session.unit.noun} adds at most {self.cut.reach} rows"
        return f"{self.method.workload.questions} answers by {self.method.describe()}; {self.cut.counted}; {reach}.\n\n{text}"

    def run(self) -> AdaptiveAnswer:
        """Pay, count, choose, measure. What fails after the payment stays spent and says nothing of why."""
        with self.session.paying(self.event, self.spend, self.purpose, "plan.explain() shows the statement") as payment:
            record = self.method.draw(self.cut.counts(self.method.tables))
        return AdaptiveAnswer(self.method, record, payment.private, payment.entry)


@dataclass(frozen=True, eq=False, repr=False)
class AdaptiveAnswer:
    """All answers of a method, from what it published."""

    method: Method
    record: Record
    private: bool = True
    entry: int | None = None

    @cached_property
    def figures(self) -> list[TermAnswers]:
        """The answers of every term, in the order of the workload."""
        return self.method.answers(self.record)

    def __repr__(self) -> str:
        return f"{self.method.workload.questions} answers by {self.method.describe()}"

    def table(self, *columns: str) -> pa.Table:
        """The answers about exactly these columns: value, low, high. The interval is that of the noise alone."""
        for found in self.figures:
            if found.term.columns and set(found.term.columns) == set(columns):
                return found.to_arrow().select([*columns, "value", "low", "high"])
        asked = "; ".join(", ".join(f.term.columns) for f in self.figures if f.term.columns)
        raise ParameterError(f"no answers about exactly {', '.join(columns)} were asked for; there are {asked}")


def planned(
    session: Session, wanted: Wanted, make: Callable[[Workload, Guarantee, int, bool, float], Method], *,
    guarantee: Guarantee | str | None, epsilon: Typed | None, delta: Typed | None, rho: Typed | None,
    cells: Given | None, rows: str | None, purpose: str,
) -> AdaptivePlan:  # fmt: skip
    """A method over a session's columns. Nothing is spent and no data is touched."""
    if not isinstance(session, Session):
        raise ParameterError(f"session must be a tacit.Session, not {type(session).__name__}")
    if not isinstance(wanted, Wanted):
        raise ParameterError("wanted must say what is asked, such as Product(age=AllRanges)")
    spend = session.spend_of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=None)
    cut, workload = bound(session.desk, wanted, cells, rows)
    replaced = session.unit.adjacency is Adjacency.REPLACE_ONE
    return AdaptivePlan(session, cut, make(workload, spend, cut.reach, replaced, session.desk.confidence), spend, purpose)
