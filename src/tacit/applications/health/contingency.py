"""Pearson's test on a noisy table, with a p-value that knows of the noise.

The table of two declared columns is counted once, with noise. The usual test would take the noise for an effect: at
1,000 patients and epsilon 0.1 it rejects a true null one time in four where an outcome has a share of .16. Here tables are
made up under independence with the noisy margins, given the same noise, and the p-value is the share of them whose
statistic is as large.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> arm = rng.choice(["drug", "placebo"], 2000)
>>> better = np.where(rng.random(2000) < np.where(arm == "drug", 0.6, 0.4), "yes", "no")
>>> found = contingency_test(arm, better, rows=["drug", "placebo"], columns=["yes", "no"], epsilon=1)
>>> found.table.shape, found.p_value < 0.01, found.event
((2, 2), True, Laplace(noise_multiplier=Fraction(1, 1)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.applications.health.simulation import SEED, noise_of
from tacit.applications.health.survival import Column, column_of, places_of
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.ledger import paying
from tacit.parameters import count
from tacit.workloads import Cells, Identity, Measured, Product, measured

if TYPE_CHECKING:
    from tacit.ledger import Account

Floats = NDArray[np.float64]
#: Tables that are made up for a p-value, and for one of many that a plan foretells. Their seed is public and one for all
#: publications, so that few of them would shift the level for all: 300 made it .063 in place of .05 for some margins.
DRAWS, FORETOLD = 20_000, 2_000
#: A cell that comes out below this is taken as this: Pearson's statistic divides by expected counts.
FLOOR = 0.5


@dataclass(frozen=True, eq=False)
class ContingencyPlan:
    """A table of two columns before it is counted. No data was touched.

    Guarantee
        Statement: `draw` costs `event`, one Laplace or Gaussian event; the statistic and its p-value cost nothing.
        Conditions: each patient is in one cell or in none; add-remove moves one cell by 1, replace-one two.
        Categories are declared.
        Proved in: the cells are disjoint; the test is post-processing. That its level is kept is no theorem but
        measured: margins and the number of patients are estimated.
        Correction: Section 9.3.2 of the source applies Pearson's test to a noisy table as it is, whose level is
        wrong: at 1,000 patients and epsilon 0.1 it is 0.14 in place of 0.05 for even margins, 0.26 for an outcome with a
        share of .16, and 0.33 for even margins under replace-one.
    """

    measured: Measured
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    names: tuple[str, str] = ("rows", "columns")

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.measured.event

    def draw(self, tables: Any) -> list[NDArray[Any]]:
        """The noisy counts. The caller has paid."""
        return self.measured.draw(tables)

    def table(self, released: Sequence[NDArray[Any]]) -> Floats:
        """The noisy table, rows by columns, unbiased: cells may be below 0."""
        return self._arranged(self.measured.selection.answers(self.measured.workload, released, self.measured.law)[0].values)

    def _arranged(self, values: Floats) -> Floats:
        return values if self.measured.workload.terms[0].columns == self.names else values.T

    @cached_property
    def noise(self) -> Floats:
        """Made-up draws of the noise of the whole table."""
        rng = np.random.default_rng(SEED)
        return np.array([self._arranged(one) for one in noise_of(self.measured, DRAWS, rng)])

    def test(self, noisy: Floats, draws: int = DRAWS) -> tuple[float, float]:
        """Pearson's statistic of a noisy table, and its p-value under independence with the same noise, by so many draws."""
        table = floored(noisy)
        found = pearson(table)
        share = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum() ** 2
        rng = np.random.default_rng(SEED)
        people = max(1, round(float(table.sum())))
        made = rng.multinomial(people, share.ravel(), size=draws).reshape(draws, *table.shape)
        null = statistics(floored(made + self.noise[:draws]))
        return found, float((1 + (null >= found - 1e-12).sum()) / (len(null) + 1))

    def rejections(self, law: ArrayLike, patients: int, *, level: float = 0.05, runs: int = 300) -> float:
        """How often the test rejects for patients of this law of the cells: its power, or its size under independence."""
        share = np.asarray(law, dtype=float)
        if share.shape != (len(self.rows), len(self.columns)) or (share < 0).any() or not np.isclose(share.sum(), 1):
            raise ParameterError("law must have a probability for every cell, which add up to 1")
        rng = np.random.default_rng(SEED + 1)
        made = rng.multinomial(count("patients", patients), share.ravel(), size=runs).reshape(runs, *share.shape)
        noise = [self._arranged(one) for one in noise_of(self.measured, runs, rng)]
        return float(np.mean([self.test(a + b, FORETOLD)[1] <= level for a, b in zip(made, noise, strict=True)]))


def floored(noisy: Floats) -> Floats:
    """The table, or each of many, with no cell below one half, scaled back to its noisy total."""
    cells = (-2, -1)
    found = np.maximum(noisy, FLOOR)
    total = np.maximum(noisy.sum(axis=cells, keepdims=True), FLOOR * noisy.shape[-2] * noisy.shape[-1])
    return np.asarray(found * (total / found.sum(axis=cells, keepdims=True)))


def pearson(table: Floats) -> float:
    """Pearson's chi-square of a table, without correction.

    >>> round(pearson(np.array([[120.0, 80.0], [80.0, 120.0]])), 9)
    16.0
    """
    return float(statistics(table))


def statistics(tables: Floats) -> Floats:
    """Pearson's chi-square of a table, or of each of many: the last two axes are rows and columns."""
    total = tables.sum(axis=(-2, -1), keepdims=True)
    expected = tables.sum(axis=-1, keepdims=True) * tables.sum(axis=-2, keepdims=True) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(expected > 0, (tables - expected) ** 2 / expected, 0.0)
    return np.asarray(parts.sum(axis=(-2, -1)))


def plan_contingency(
    rows: Sequence[Any], columns: Sequence[Any], guarantee: Guarantee, *, adjacency: Adjacency | str = Adjacency.ADD_REMOVE
) -> ContingencyPlan:
    """Plan a table of two columns with declared categories."""
    named = [tuple(map(str, one)) if not isinstance(one, str) else () for one in (rows, columns)]
    for name, values in zip(("rows", "columns"), named, strict=True):
        if len(values) < 2 or len(set(values)) != len(values):
            raise ParameterError(f"{name} must be at least two different categories that are declared, such as ['yes', 'no']")
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    workload = Product(rows=Identity, columns=Identity).on(Cells.of({"rows": list(named[0]), "columns": list(named[1])}))
    plan = measured(workload, guarantee, replaced=relation is Adjacency.REPLACE_ONE)
    return ContingencyPlan(plan, named[0], named[1])


@dataclass(frozen=True, eq=False)
class ContingencyAnswer:
    """A noisy table, unbiased, and the test of independence on it."""

    plan: ContingencyPlan
    table: Floats
    statistic: float
    p_value: float
    private: bool = True
    entry: int | None = None

    @property
    def event(self) -> Event:
        """What was done to the data."""
        return self.plan.event

    def __repr__(self) -> str:
        mark = "" if self.private else " NOT PRIVATE"
        return f"ContingencyAnswer(statistic={self.statistic:.3f}, p_value={self.p_value:.4f}){mark}"


def contingency_test(
    first: ArrayLike, second: ArrayLike, *, rows: Sequence[Any], columns: Sequence[Any], epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    account: Account | None = None, purpose: str = "",
) -> ContingencyAnswer:
    """Count two columns of patients, one row each, with noise, and test whether they are independent.

    A value that is none of the declared categories counts for nothing.
    """
    spend = Guarantee.of(epsilon=epsilon, delta=delta, rho=rho).positive()
    plan = plan_contingency(rows, columns, spend, adjacency=adjacency)
    given = [column_of(one) for one in (first, second)]
    if len(given[0]) != len(given[1]):
        raise ParameterError("both columns must have one value for each patient")
    with paying(account, plan.event, purpose=purpose or "contingency table", delta=spend.delta or None) as payment:
        released = plan.draw({plan.measured.selection.tables[0]: _counted(given, plan)})
    noisy = plan.table(released)
    return ContingencyAnswer(plan, noisy, *plan.test(noisy), payment.private, payment.entry)


def _counted(given: Sequence[Column], plan: ContingencyPlan) -> NDArray[np.int64]:
    places = [places_of(values, names) for values, names in zip(given, (plan.rows, plan.columns), strict=True)]
    good = (places[0] >= 0) & (places[1] >= 0)
    found = np.zeros((len(plan.rows), len(plan.columns)), dtype=np.int64)
    np.add.at(found, (places[0][good], places[1][good]), 1)
    return found if plan.measured.selection.tables[0] == plan.names else found.T
