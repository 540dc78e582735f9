"""Which way to answer a workload, from public facts alone: the questions, the price and, if it is known, the number of rows.

Strategies that do not look at the data have an error that is computed, and the least one is recommended. Methods that
look at the data have none before they ran; for them the error is told for the best and for the worst data. No data is
touched and nothing is spent.

>>> from tacit.accounting import Guarantee
>>> from tacit.workloads.workload import AllRanges, Cells, Product
>>> ranges = Product(age=AllRanges).on(Cells.of({"age": 64}))
>>> found = recommend(ranges, Guarantee(epsilon=1))
>>> found.best.name, found.best.exact, round(found.best.error, 2)
('plan: sums over 64 cells (age: dense)', True, 5.55)
>>> print(found)
plan: sums over 64 cells (age: dense) ... computed
...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.mechanisms import Law
from tacit.parameters import count
from tacit.workloads.bounds import mwem_error, warnings_for
from tacit.workloads.dawa import with_dawa
from tacit.workloads.joint_strategy import unit_error
from tacit.workloads.mwem import with_mwem
from tacit.workloads.plan import compared, measured
from tacit.workloads.privtree import with_privtree
from tacit.workloads.workload import LONGEST, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Rows times epsilon in a cell, on average, below which flat stretches are worth looking for: a cell holds less than its noise.
THIN = 1.0
#: Columns from which made-up rows are the more useful answer to marginal tables.
WIDE = 5


@dataclass(frozen=True)
class Way:
    """One way to answer: its name, its typical error (root mean square), and why.

    `exact` errors are computed. Others lie between `error`, for data that suit the method best, and `at_worst`; where no
    error is known before, both are None.
    """

    name: str
    error: float | None
    exact: bool
    why: str
    at_worst: float | None = None

    def __str__(self) -> str:
        if self.exact:
            return f"{self.name:<52} {self.error:>9,.4g}   {self.why}"
        if self.error is None or self.at_worst is None:
            return f"{self.name:<52} {'?':>9}   {self.why}"
        return f"{self.name:<52} {self.error:>9,.4g}   to {self.at_worst:,.4g}: {self.why}"


@dataclass(frozen=True)
class Recommendation:
    """Ways to answer a workload, the computed ones first, best first; `best` is the one to take."""

    ways: tuple[Way, ...]
    best: Way
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*(str(way) for way in self.ways), *(f"! {text}" for text in self.warnings)])


def recommend(
    workload: Workload, guarantee: Guarantee, *, rows: int | None = None, reach: int = 1, replaced: bool = False,
    online: bool = False,
) -> Recommendation:
    """Ways to answer `workload` within `guarantee`, with their errors.

    `rows` is the number of rows if it is public, roughly; `reach` the most rows of a person. With `online`, questions come one at
    a time, each after the answers to those before.

    >>> from tacit.workloads.workload import AllRanges, Cells, Product
    >>> recommend(Product(x=AllRanges).on(Cells.of({"x": 32})), Guarantee(rho="0.1"), online=True).best.name
    'open_online'
    """
    expected = None if rows is None else count("rows", rows)
    narrow = workload.narrowed()
    computed = sorted(_computed(narrow, guarantee, reach, replaced), key=lambda way: way.error or 0.0)
    others = list(_others(narrow, guarantee, expected, reach, replaced, computed[0]))
    chosen = computed[0]
    thin = expected is not None and _strength(guarantee) * expected / reach < THIN * narrow.cells.total
    looking = next((way for way in others if way.name == "plan_dawa"), None)
    if thin and looking is not None:
        chosen = looking
    if online:
        why = "questions in the span of what was measured are free; updates are paid for at the start"
        others.append(Way("open_online", None, False, why))
        chosen = others[-1]
    planned = measured(narrow, guarantee, reach=reach, replaced=replaced)
    told = () if expected is None else tuple(warnings_for(planned, expected))
    return Recommendation((*computed, *others), chosen, told)


def _strength(guarantee: Guarantee) -> float:
    """The epsilon of Laplace noise at this price."""
    found = guarantee.laplace_epsilon
    return float("inf") if found is None else float(found)


def _computed(workload: Workload, guarantee: Guarantee, reach: int, replaced: bool) -> Iterator[Way]:
    """Every strategy that does not look at the data, under every law that the price allows."""
    laws: list[Law] = []
    if guarantee.laplace_epsilon is not None:
        laws.append("laplace")
    if guarantee.noise_multiplier is not None:
        laws.append("gaussian")
    questions = sum(term.weight * term.questions for term in workload.terms)
    for law in laws:
        plan = measured(workload, guarantee, reach=reach, replaced=replaced, law=law)
        unit = (unit_error(plan.selection, workload, law) / questions) ** 0.5
        for name, error in compared(workload, law).items():
            at_price = plan.expected_error * (error / unit if unit else 1.0)
            label = "plan" if len(laws) == 1 else f"plan, {law} noise"
            yield Way(f"{label}: {name}", at_price, True, "computed")
    if not laws:
        raise ParameterError(f"no noise has a price in {guarantee}; give epsilon, epsilon with delta, rho or mu")


def _others(
    workload: Workload, guarantee: Guarantee, rows: int | None, reach: int, replaced: bool, plain: Way
) -> Iterator[Way]:
    """Methods that look at the data, as far as they take the questions."""
    columns = workload.cells.names
    if len(columns) == 1 and workload.cells.total <= LONGEST and guarantee.laplace_epsilon is not None:
        dawa = with_dawa(workload, guarantee, reach=reach, replaced=replaced, expected_rows=rows)
        flat = dawa.buckets((0, workload.cells.total)).expected_error
        share = 1.0 if dawa.spend.rho is None else 0.5
        kept = float(dawa.spend.limits[next(iter(dawa.spend.limits))] / guarantee.limits[next(iter(guarantee.limits))])
        why = "a column with flat stretches or few rows; the worst is what no flat stretch costs, and bias where buckets bend"
        yield Way("plan_dawa", flat, False, why, at_worst=(plain.error or 0.0) / kept**share)
    try:
        with_privtree(workload, guarantee, reach=reach, replaced=replaced)
        yield Way("plan_privtree", None, False, "tight clusters on a map or a long column: errors relative to the count")
    except ParameterError:
        pass
    try:
        mwem = with_mwem(workload, guarantee, reach=reach, replaced=replaced, expected_rows=rows)
        worst = None
        if rows is not None and workload.cells.total > 1 and workload.questions > 1:
            worst = mwem_error(rows, workload.cells.total, workload.questions, mwem.rounds, _strength(guarantee) / reach)
        known = (0.0, min(worst, float(rows or 0))) if worst is not None else (None, None)
        yield Way("plan_mwem", known[0], False, "very many questions at a very small price; no intervals", at_worst=known[1])
    except ParameterError:
        pass
    if len(columns) >= WIDE and all(term.marginal for term in workload.terms):
        yield Way("synthesis: auto", None, False, "made-up rows that have these tables, about, and can be asked anything else")
