"""Released totals beside what was expected, and beside each other. It costs nothing, because it reads
released figures alone.

A file in the wrong encoding, dates that are not read, or a column that was exchanged for another one give
figures that are exact to the noise and wrong. Such a release mostly contradicts something that is public: the
declared number of rows or people, or another table that counts the same rows. `mismatches` lists what the
noise cannot explain; a run then holds the release back until it is accepted.

Which rows are compared: those of outputs that ask one table without a filter. Where caps are enforced, rows
before the caps are compared, as far as they were measured (each person's up to a few times the cap), so that
a low cap is no mismatch.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> job = parse(EXAMPLE.replace("columns:", "expected: {people: 2000, rows: 5000}\\ncolumns:", 1))
>>> mismatches(plan(job), {})
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp, parse_one

from tacit.mechanisms import half_width
from tacit.release.kinds.table import TablePlan
from tacit.release.planning import JobPlan
from tacit.tables import Answer

#: A comparison calls a mismatch by mistake at most so often: intervals are far wider than those that are
#: published.
SURE = 1 - 1e-6


@dataclass(frozen=True)
class ReleasedTotal:
    """A number that was released, with ends that hold the truth all but surely: rows of a table, or people."""

    output: str
    what: str
    value: float
    low: float
    high: float


def mismatches(plan: JobPlan, answers: Mapping[str, Any]) -> list[str]:
    """What the released totals contradict, in sentences; empty where nothing does."""
    return [*_against_expected(plan, answers), *_against_each_other(plan, answers)]


def _whole(output: TablePlan) -> str:
    """The one table that an output asks without a filter; empty where it asks something else."""
    if not output.whole_table:
        return ""
    tree = parse_one(output.spec.sql, read=output.output.desk.dialect)
    return next(tree.find_all(exp.Table)).name


def _tables(plan: JobPlan, answers: Mapping[str, Any]) -> list[tuple[TablePlan, Answer, str]]:
    found = [
        (output, answers.get(output.spec.name)) for output in plan.outputs if isinstance(output, TablePlan)
    ]
    return [(output, answer, _whole(output)) for output, answer in found if answer is not None]


def _added(output: TablePlan, answer: Answer, index: int) -> tuple[float, float]:
    """A measure added up over all groups, and how far the noise can take it."""
    share = output.plan.shares[index]
    row = np.asarray(answer.raw[share.measure.name], dtype=float)
    return float(row.sum() * share.granule), float(
        half_width(np.full(len(row), share.spread), share.law, SURE)[0]
    )


def _measured(output: TablePlan, kind: str) -> int | None:
    """The measure that a count was asked for as; None where there is none that adds up to a total."""
    for recipe in output.plan.recipes:
        if recipe.aggregate.kind == kind and len(recipe.value) == 1 and not output.private_keys:
            return recipe.value[0][0]
    return None


def rows_of(output: TablePlan, answer: Answer) -> ReleasedTotal | None:
    """The rows that an output asks about, before the caps where these are enforced."""
    if output.plan.loss is not None:
        value, wide = _added(output, answer, output.plan.loss.seen)
    else:
        place = _measured(output, "count")
        enforced = output.plan.unit.person is not None and not output.plan.unit.capped
        if place is None or enforced:
            return None
        value, wide = _added(output, answer, place)
    return ReleasedTotal(output.name, "rows", value, value - wide, value + wide)


def _people_of(output: TablePlan, answer: Answer) -> ReleasedTotal | None:
    place = None if output.plan.question.grouped else _measured(output, "count_person")
    if place is None:
        return None
    value, wide = _added(output, answer, place)
    return ReleasedTotal(output.name, "people", value, value - wide, value + wide)


def _against_expected(plan: JobPlan, answers: Mapping[str, Any]) -> Iterator[str]:
    expected, private = (
        plan.job.expected,
        [name for name, source in plan.job.sources.items() if not source.public],
    )
    if len(private) != 1 or plan.job.unit.window is not None:
        return
    for output, answer, table in _tables(plan, answers):
        if table != private[0]:
            continue
        for total, declared in (
            (rows_of(output, answer), expected.rows),
            (_people_of(output, answer), expected.people),
        ):
            if total is None or declared is None:
                continue
            slack = expected.tolerance * declared
            if total.high < declared - slack or total.low > declared + slack:
                few = total.high < declared
                why = (
                    "values that are not read or not declared lose their rows"
                    if few
                    else "rows may be there twice"
                )
                yield (
                    f"{output.name} counts about {total.value:,.0f} {total.what}, and "
                    f"expected.{total.what} is {declared:,}: "
                    f"more than the noise ({total.high - total.value:,.0f}) and the tolerance "
                    f"({expected.tolerance:.0%}) explain. {why.capitalize()}"
                    + (f"; {_reach(output)}" if few and total.what == "rows" else "")
                )


def _reach(output: TablePlan) -> str:
    return "check the columns that it is grouped by" + (
        f", or whether many have more than {output.plan.loss.most} rows"
        if output.plan.loss is not None
        else ""
    )


def _kept_of(output: TablePlan, answer: Answer) -> ReleasedTotal | None:
    """The rows that were counted, after the caps. Where these only limit a unit's rows, tables of the same rows count the same
    number, whatever they are grouped by; its noise is far smaller than that of the rows before the caps."""
    unit, place = output.plan.unit, _measured(output, "count")
    if place is None or unit.max_groups is not None or unit.rows_per_group is not None:
        return None
    value, wide = _added(output, answer, place)
    return ReleasedTotal(output.name, "rows", value, value - wide, value + wide)


def _against_each_other(plan: JobPlan, answers: Mapping[str, Any]) -> Iterator[str]:
    alike: dict[tuple[str, str, int | None], list[ReleasedTotal]] = {}
    for output, answer, table in _tables(plan, answers):
        most = None if output.plan.loss is None else output.plan.loss.most
        for kind, total in (("kept", _kept_of(output, answer)), ("seen", rows_of(output, answer))):
            if table and total is not None:
                alike.setdefault((kind, table, most), []).append(total)
    said: set[frozenset[str]] = set()
    for (_, table, _), totals in alike.items():
        for pair, words in _unequal(table, totals, plan.job.expected.tolerance):
            if pair not in said:
                said.add(pair)
                yield words


def _unequal(table: str, totals: Sequence[ReleasedTotal], tolerance: float) -> Iterator[tuple[frozenset[str], str]]:
    """The outputs that disagree with the one that surely counts the most rows."""
    largest = max(totals, key=lambda total: total.low)
    for less in totals:
        if largest.low * (1 - tolerance) > less.high:
            yield (
                frozenset((less.output, largest.output)),
                f"{less.output} counts about {less.value:,.0f} rows of {table}, and {largest.output} about "
                f"{largest.value:,.0f}: more apart than the noise and the tolerance ({tolerance:.0%}) explain. Rows "
                f"without a declared value are in no group of {less.output}",
            )
