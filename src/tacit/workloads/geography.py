"""Counts of every region of a public hierarchy, from the whole down to the smallest, which add up.

A column of a session's table names the smallest region of a row; a hierarchy says which regions lie in which. All
levels are measured together at one price and joined by least squares, so a county's figure uses what its state and its
tracts tell. Then, from the top down, whole figures, none below 0, are found that add up exactly. The unbiased figures
with their intervals are published beside them.

Figures that the law fixes or that are known anyway, such as the population of each state, may be declared
`unprotected`: they are given by the curator, never read from the table, and every figure is made to agree with them.
What they say about people is outside the guarantee, so the report and the registry record name them.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> people = pa.table({"id": range(900), "county": ["a", "b", "c"] * 300, "sex": ["f", "m"] * 450})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(people, unit=Unit("id", max_rows=1), budget=Budget(rho=1), name="people", ledger=book,
...     columns={"sex": ["f", "m"]})
>>> states = {"north": ["a", "b"], "south": ["c"]}
>>> planned = regions(session, "county", states, by=["sex"], rho=0.1, unprotected={"all": 900})
>>> answer = planned.run()
>>> lines = answer.table("county", "sex", whole=True).to_pylist()
>>> sum(line["whole"] for line in lines if line["county"] == "all")
900
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.mechanisms import Law
from tacit.tables import Brackets, Periods, Session
from tacit.workloads.intervals import half_widths, lifts
from tacit.workloads.joint_strategy import OneProduct
from tacit.workloads.plan import Measured, TermAnswers, WorkloadAnswer, WorkloadPlan, plan
from tacit.workloads.reconstruct import Whole, controlled, running, simplex
from tacit.workloads.regions import Hierarchy
from tacit.workloads.workload import Array, Identity, Product, Total, Wanted


def wanted_of(column: str, nodes: Hierarchy, by: Sequence[str] = ()) -> Wanted:
    """The questions: every node of a hierarchy, for every combination of the cells of other columns."""
    if column in by or len(set(by)) != len(by):
        raise ParameterError("by must name other columns than that of the regions, each once")
    return Product(**{column: nodes, **dict.fromkeys(by, Identity)})


@dataclass(frozen=True)
class Invariants:
    """Totals of nodes that are known and not protected: a name and a count of rows each.

    >>> Invariants.of(Hierarchy.of({"north": ["a", "b"], "south": ["c"]}), {"north": 5, "all": 4})
    Traceback (most recent call last):
    tacit.errors.ParameterError: the unprotected total of 'all' is 4, and those inside it make 5
    """

    nodes: Hierarchy
    totals: tuple[tuple[str, int], ...]

    @staticmethod
    def of(nodes: Hierarchy, totals: Mapping[str, int] | None) -> Invariants:
        """Checked against the hierarchy and each other; nothing here is private."""
        for name, value in (totals or {}).items():
            if name not in nodes.names:
                raise ParameterError(f"unprotected names {name!r}, which is no node of the hierarchy")
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ParameterError(f"the unprotected total of {name!r} must be a whole number of rows, 0 or more")
        found = Invariants(nodes, tuple((totals or {}).items()))
        found.known()
        return found

    def known(self) -> tuple[dict[int, int], list[int]]:
        """The nodes whose totals follow, with them; and for every node the least that it can have."""
        given = {self.nodes.names.index(name): value for name, value in self.totals}
        children = children_of(self.nodes)
        known, least = dict(given), [0] * len(children)
        for i in range(len(children) - 1, -1, -1):
            inside = sum(least[c] for c in children[i])
            every = bool(children[i]) and all(c in known for c in children[i])
            if i in given and (given[i] < inside or (every and given[i] != inside)):
                raise ParameterError(f"the unprotected total of {self.nodes.names[i]!r} is {given[i]}, and those inside it make {inside}")
            if every:
                known[i] = inside
            least[i] = known.get(i, inside)
        return known, least

    @property
    def places(self) -> list[int]:
        """The nodes whose totals are given; without those that follow from others, so that none is said twice."""
        given = [self.nodes.names.index(name) for name, _ in self.totals]
        children = children_of(self.nodes)
        known, _ = Invariants(self.nodes, tuple(t for t in self.totals)).known()
        return [i for i in given if not (children[i] and all(c in known for c in children[i]))]

    def words(self, column: str) -> str:
        """For reports and the registry: which figures are not protected."""
        names = [name for name, _ in self.totals]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return f"exact totals of {column}, given by the curator and not protected: {shown}"


def children_of(nodes: Hierarchy) -> list[list[int]]:
    """The nodes right below each node."""
    found: list[list[int]] = [[] for _ in nodes.names]
    for i, parent in enumerate(nodes.parents):
        if parent >= 0:
            found[parent].append(i)
    return found


@dataclass(frozen=True, eq=False)
class RegionsPlan:
    """A plan for all regions. No data was touched."""

    inner: WorkloadPlan
    invariants: Invariants

    @property
    def event(self) -> Any:
        """What is done to the data."""
        return self.inner.event

    @property
    def expected_error(self) -> float:
        """The root of the mean squared error over all figures, before the unprotected totals help."""
        return self.inner.expected_error

    def explain(self) -> str:
        """The plan in words, with the statement."""
        unprotected = [self.invariants.words(str(self.inner.measured.workload.columns[0]))] if self.invariants.totals else []
        return "\n".join([*unprotected, self.inner.explain()])

    def run(self) -> RegionsAnswer:
        """Pay, count, add noise."""
        found = self.inner.run()
        return RegionsAnswer(found.measured, found.released, found.private, found.entry, self.invariants)


def regions(
    session: Session, column: str, hierarchy: Hierarchy | Mapping[str, Any], *, by: Sequence[str] = (),
    unprotected: Mapping[str, int] | None = None, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
    cells: Mapping[str, Sequence[Any] | Brackets | Periods | None] | None = None, rows: str | None = None, law: Law | None = None,
    purpose: str = "",
) -> RegionsPlan:
    """Plan the counts of every region, for each cell of the columns in `by`. Nothing is spent and no data is touched.

    The hierarchy maps names to mappings, and the last ones to lists of the values of the column; rows with other
    values count nowhere. `unprotected` maps names of nodes to totals that are known and not protected.
    """
    nodes = hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy.of(hierarchy)
    invariants = Invariants.of(nodes, unprotected)
    inner = plan(
        session, wanted_of(column, nodes, by), guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu,
        cells={**(cells or {}), column: list(nodes.leaves)}, rows=rows, law=law, purpose=purpose,
    )  # fmt: skip
    return RegionsPlan(inner, invariants)


@dataclass(frozen=True, eq=False, repr=False)
class RegionsAnswer(WorkloadAnswer):
    """The figures of all regions, from sums that were measured once, made to agree with the unprotected totals."""

    invariants: Invariants | None = None

    @cached_property
    def figures(self) -> list[TermAnswers]:
        (own,) = self.measured.answers(self.released)
        assert self.invariants is not None
        return [conditioned(self.measured, own, self.invariants) if self.invariants.totals else own]

    @cached_property
    def whole(self) -> list[NDArray[Any]]:
        """Whole figures, none below 0, that add up from the smallest region to the whole."""
        assert self.invariants is not None
        values = self.figures[0].values
        return [top_down(values.reshape(len(values), -1), self.invariants).reshape(values.shape)]


def conditioned(measured: Measured, own: TermAnswers, invariants: Invariants) -> TermAnswers:
    """The best linear unbiased estimate when some nodes' totals are known, and its intervals.

    With C the covariance of the leaves, D that of the other columns' cells and M the known sums of leaves, the estimate
    moves by C M' (M C M')^-1 (known - estimated), spread over the cells by D 1 / (1' D 1); the variance falls by as much.
    """
    selection, nodes = measured.selection, invariants.nodes
    assert isinstance(selection, OneProduct)
    column = own.term.columns[0]
    factors = dict(measured.workload.factors(own.term))
    strategies = dict(zip(selection.columns, selection.strategies, strict=True))
    places = invariants.places
    given = dict(invariants.totals)
    ends = np.array([nodes.ends[i] for i in places])
    leaf = np.arange(nodes.size)[:, None]
    sums = ((leaf >= ends[:, 0]) & (leaf <= ends[:, 1])).astype(np.float64)  # one column for each known total
    padded = getattr(strategies[column], "padded", nodes.size)
    through = strategies[column].solve(np.vstack([sums, np.zeros((padded - nodes.size, len(places)))]), 0)  # C M'
    middle = sums.T @ through
    # The other columns' cells: what noise in their total does to each of them.
    shape, spread, whole = own.values.shape[1:], np.ones(()), 1.0
    for other in own.term.columns[1:]:
        strategy = strategies[other]
        size = factors[other].size
        filled = np.zeros(getattr(strategy, "padded", size))
        filled[:size] = 1.0
        each = strategy.solve(filled, 0)
        spread, whole = np.multiply.outer(spread, each), whole * float(each.sum())
    for other in selection.columns:
        if other not in own.term.columns:
            whole *= float(strategies[other].powers(Total(strategies[other].size), False)[0][0])
    estimated = own.values.reshape(len(own.values), -1).sum(axis=1)[places]
    missing = np.array([given[nodes.names[i]] for i in places]) - estimated
    at_nodes = nodes.answer(through, 0)
    moved = at_nodes @ np.linalg.solve(middle, missing)
    values = own.values + np.multiply.outer(moved, spread / spread.sum()).reshape(-1, *shape)
    (answers,) = selection.answers(measured.workload, [np.zeros(s) for s in measured.shapes], measured.law)
    saved = np.einsum("ij,ij->i", at_nodes, np.linalg.solve(middle, at_nodes.T).T)
    squares = answers.squares - np.multiply.outer(saved, spread**2 / whole).reshape(-1, *shape)
    # What is known exactly has no variance; roundings may leave a trace of it.
    squares = np.where(squares < 1e-9 * answers.squares, 0.0, squares)
    widths = half_widths(squares, None, measured.law, measured.confidence) * measured.scale
    return replace(own, values=values, widths=widths, lifts=lifts(squares, None, measured.law) * measured.scale)


def top_down(values: Array, invariants: Invariants) -> Whole:
    """Whole, non-negative figures for every node and cell that add up, from the whole down.

    At each node its own whole figures are shared out among its children: first their totals, then the cells, by
    controlled rounding of the children's estimates.

    >>> nodes = Hierarchy.of({"north": ["a", "b"], "south": ["c"]})
    >>> values = np.array([[9.6], [6.1], [3.5], [7.0], [-0.9], [3.5]])
    >>> top_down(values, Invariants.of(nodes, None)).ravel().tolist()
    [10, 6, 4, 6, 0, 4]
    """
    nodes = invariants.nodes
    children = children_of(nodes)
    known, least = invariants.known()
    totals = values.sum(axis=1)
    made = np.zeros(values.shape, dtype=np.int64)
    whole = known.get(0, max(least[0], math.floor(float(totals[0]) + 0.5)))
    made[0] = running(simplex(values[0], float(whole)), whole)
    for node, inside in enumerate(children):
        if not inside:
            continue
        rest = int(made[node].sum()) - sum(least[c] for c in inside)
        free = [c for c in inside if c not in known]
        wanted = {c: least[c] for c in inside}
        if free:
            above = np.array([totals[c] - least[c] for c in free])
            for c, more in zip(free, running(simplex(above, float(rest)), rest).tolist(), strict=True):
                wanted[c] += more
        near = np.array([simplex(values[inside, cell], float(made[node, cell])) for cell in range(values.shape[1])]).T
        made[inside] = controlled(near, [wanted[c] for c in inside], made[node])
    return made
