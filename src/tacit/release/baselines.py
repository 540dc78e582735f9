"""What a rehearsal compares with: the figures without privacy, a 40% sample of the protected units, and groups too small to be shown.

All three speak of the job's own unit, whichever it is. A person, a row, an edge (all rows between two parties) or a row of a key's table
is in the sample with all rows that are about it, or with none. A node at both ends of its edges is in no row of the sample unless it was
chosen: what is left is the graph among those chosen, in which an edge has a chance of 16%, and so counts are scaled by that. Groups are
suppressed when fewer than 25 different units have a row in them.

>>> import pyarrow as pa
>>> from tacit.release.job import EXAMPLE, parse
>>> visits = pa.table({"patient_id": [1, 1, 2], "region": ["north", "south", "north"]})
>>> owners = owners_of(parse(EXAMPLE), {"visits": visits})
>>> owners["visits"].row.tolist(), len(set(owners["visits"].owner.tolist()))
([0, 1, 2], 2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp, parse_one

from tacit.ledger import days
from tacit.release.desk import Desk
from tacit.release.job import Job
from tacit.release.planning import OutputPlan
from tacit.release.sources import blank
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import Engine
from tacit.tables.errors import TableError
from tacit.tables.histogram import unfolded
from tacit.tables.keys import literal
from tacit.tables.measure import Measure, measure_name
from tacit.tables.owners import owned
from tacit.tables.relation import Catalog, named, nested
from tacit.tables.sql import parse
from tacit.tables.statement import GROUP, PEOPLE, Wanted, statement
from tacit.tables.unit import Unit

#: The share of units in a sample, as some statistical offices publish.
SAMPLE = 0.4
#: Groups with fewer units than this are not shown by those who suppress small groups.
SUPPRESSED = 25

Coins = Callable[[int], NDArray[np.bool_]]


@dataclass(frozen=True)
class Owners:
    """Whose rows a table holds: pairs of a row and a number that stands for its owner. A row is kept if one of its owners is (`every`:
    if all of them are)."""

    row: NDArray[np.int64]
    owner: NDArray[np.int64]
    every: bool = False

    def kept(self, rows: int, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of so many rows are in a sample of the chosen owners."""
        found = np.full(rows, self.every)
        if self.every:
            np.logical_and.at(found, self.row, chosen[self.owner])
        else:
            np.logical_or.at(found, self.row, chosen[self.owner])
        return found


# ---- samples -------------------------------------------------------------------------------------------------------------------------


def owners_of(job: Job, tables: Mapping[str, pa.Table]) -> dict[str, Owners]:
    """The owners of the rows of every private table, numbered alike in all of them; a row that nobody owns stands for itself."""
    unit, known = job.unit.typed(), _Numbers()
    by_node = unit.ends is not None and unit.person is None
    found = {}
    for name in (name for name, source in job.sources.items() if not source.public):
        table = tables[name]
        if unit.ends is not None and by_node and set(unit.ends) <= set(table.column_names):
            first, second = (table.column(end).to_pylist() for end in unit.ends)
            listed = [pair for row in range(table.num_rows) for pair in _ends(row, first[row], second[row])]
        else:
            listed = _listed(job, name, tables) if unit.person is not None else []
            there = {row for row, _ in listed}
            listed += [(row, None) for row in range(table.num_rows) if row not in there]
        rows, owners = np.array([row for row, _ in listed], np.int64), np.array([known.of(one) for _, one in listed], np.int64)
        found[name] = Owners(rows, owners, by_node)
    return found


class _Numbers:
    """A number for each owner; what has no owner gets one that nobody else has."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}
        self.next = count()

    def of(self, owner: Any) -> int:
        if owner is None:
            return next(self.next)
        if owner not in self.known:
            self.known[owner] = next(self.next)
        return self.known[owner]


def _ends(row: int, first: Any, second: Any) -> list[tuple[int, Any]]:
    """Both parties to an edge. A loop, or an end that is not known, has a stranger for its other end, so that every edge has two."""
    return [(row, first), (row, None if second == first else second)]


def _listed(job: Job, name: str, tables: Mapping[str, pa.Table]) -> list[tuple[int, Any]]:
    """Rows and their owners, as the planner follows columns, foreign keys and ends."""
    number = "row_"
    while any(number in table.column_names for table in tables.values()):
        number += "_"
    engine = DuckDB()
    for other, table in tables.items():
        engine.register(other, table.append_column(number, pa.array(range(table.num_rows), pa.int64())))
    catalog = Desk(job, engine).catalog
    person = catalog.unit.person or ""
    try:
        rows = owned(name, catalog)
    except TableError:
        return []  # nobody owns its rows, and no question is about them
    chosen = [exp.column(person, quoted=True), exp.column(number, quoted=True)]
    table = engine.run(exp.Select(expressions=chosen).from_(rows.expression(), copy=False))
    pairs = zip(table.column(1).to_pylist(), table.column(0).to_pylist(), strict=True)
    engine.close()
    return [(place, one) for place, one in pairs if one is not None]


def beyond(job: Job, owners: Mapping[str, Owners]) -> dict[str, tuple[int, int]]:
    """Where data break a cap that is only declared: how many units of each table have more rows, and the most that one of them has."""
    if not job.unit.capped:
        return {}
    counts = {name: np.bincount(some.owner) for name, some in owners.items() if some.owner.size}
    most = job.unit.typed().most_rows
    return {name: (int((many > most).sum()), int(many.max())) for name, many in counts.items() if many.max() > most}


def sampled(tables: Mapping[str, pa.Table], owners: Mapping[str, Owners], coins: Coins) -> dict[str, pa.Table]:
    """The rows of a 40% sample of units; public tables stay whole. `coins` throws so many, each heads with that chance."""
    last = max((int(some.owner.max()) for some in owners.values() if some.owner.size), default=-1)
    chosen = coins(last + 1)
    return {
        name: table.filter(pa.array(owners[name].kept(table.num_rows, chosen))) if name in owners else table
        for name, table in tables.items()
    }


def chance(job: Job) -> float:
    """The chance of a row to be in a sample; what is counted there is divided by it."""
    unit = job.unit.typed()
    return SAMPLE**2 if unit.ends is not None and unit.person is None else SAMPLE


# ---- the figures without privacy -------------------------------------------------------------------------------------------------------


def plain(output: OutputPlan, job: Job, engine: Engine, share: float = 1.0) -> exp.Expression:
    """The output's own SQL, to be run as it stands: on all rows of the period, with their owners where the question may name them.

    Rows that lead to nobody are among them. They count for nothing in a release, so they are among what it cuts off. All groups are
    there, whatever HAVING and LIMIT would show, and the columns have the names that they have in a release. With a `share`, counts and
    sums are divided by it, wherever they stand in an expression: what a sample says about everybody.
    """
    tree: Any = parse_one(output.spec.sql, read=Desk(job, engine).dialect)
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    tree, _ = unfolded(tree)
    for clause in ("having", "order", "limit", "offset"):
        tree.set(clause, None)
    question = output.plan.question
    whole = [*(key.name for key in question.keys), *(aggregate.name for aggregate in question.aggregates)]
    names = [one.name for one in question.outputs] or whole
    if len(names) == len(tree.expressions):
        shown = [exp.alias_(part.unalias(), name, quoted=True) for part, name in zip(tree.expressions, names, strict=True)]
        tree.set("expressions", shown)
    unit = job.unit.typed()
    if share != 1:
        _scale(tree, share, unit.person)
    if unit.key is None and unit.ends is None and unit.window is None:
        return tree  # type: ignore[no-any-return]
    catalog = Desk(job, engine).catalog
    private = {name.lower(): name for name, source in job.sources.items() if not source.public}
    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in [node for node in tree.find_all(exp.Table) if node.name.lower() in private and node.name.lower() not in own]:
        rows = owned(private[node.name.lower()], catalog)
        source = rows.expression()
        for join in source.find_all(exp.Join):
            join.set("kind", None)
            join.set("side", "LEFT")
        query = exp.Select(expressions=[exp.Star()]).from_(source, copy=False)
        if unit.window is not None and unit.when in rows.names:
            first, last = (literal(day, "date") for day in days(unit.window, job.period or ""))
            day = exp.cast(exp.column(unit.when or "", quoted=True), "DATE")
            query = query.where(exp.Between(this=day, low=first, high=last), copy=False)
        node.replace(nested(query, node.alias_or_name))
    return tree  # type: ignore[no-any-return]


def _scale(tree: exp.Select, share: float, person: str | None) -> None:
    """Divide what grows with the number of rows or people; means, quantiles and counts of different values stay as they are."""
    for shown in tree.expressions:
        for node in list(shown.find_all(exp.Count, exp.CountIf, exp.Sum)):
            inner = node.this.expressions if isinstance(node.this, exp.Distinct) else []
            if inner and not (isinstance(inner[0], exp.Column) and inner[0].name == person):
                continue
            whole = node.parent if isinstance(node.parent, exp.Filter) else node
            whole.replace(exp.Paren(this=exp.Div(this=whole.copy(), expression=exp.Literal.number(repr(share)), typed=False)))


# ---- how many are in a group -----------------------------------------------------------------------------------------------------------


def units_in(output: OutputPlan, job: Job, engine: Engine) -> list[int]:
    """How many different units have a row in each group, before any cap: people, rows, edges, or nodes at either end."""
    planned = output.plan
    unit, question = planned.unit, planned.question
    if unit.ends is not None and unit.person is None:
        desk = Desk(job, engine)
        catalog = _by_node(desk.catalog)
        unit, question = catalog.unit, parse(output.spec.sql, desk.dialect, catalog)
    everybody = replace(unit, capped=True)
    if unit.person is None:
        wanted = Wanted(planned.keys, (Measure("rows", exp.Literal.number(1), 0, 1),), everybody, planned.wanted.period)
        name = measure_name(0)
    else:
        wanted, name = Wanted(planned.keys, (), everybody, planned.wanted.period, people=True), PEOPLE
    found = engine.run(statement(question, wanted, engine, 0)).to_pylist()
    if not planned.keys.lists:
        return [int(found[0][name] or 0)] if found else [0]
    by_group = {int(row[GROUP]) - planned.keys.first: int(row[name] or 0) for row in found}
    return [by_group.get(place, 0) for place in range(output.groups)]


def _by_node(catalog: Catalog) -> Catalog:
    """The same tables with every edge twice, once for each of its ends, which owns it."""
    ends = catalog.unit.ends or ("", "")
    node = "node_"
    while any(node in (table.columns or {}) for table in catalog.tables.values()):
        node += "_"
    tables = {}
    for name, table in catalog.tables.items():
        if not table.public and table.columns is not None:
            sides = [
                exp.Select(
                    expressions=[
                        named(exp.cast(exp.column(end, quoted=True), "TEXT"), node),
                        *(exp.column(n, quoted=True) for n in table.columns),
                    ]
                ).from_(exp.to_table(name, quoted=True), copy=False)
                for end in ends
            ]
            both = exp.Union(this=sides[0], expression=sides[1], distinct=False)
            table = replace(table, columns={node: "VARCHAR", **table.columns}, source=nested(both, "ends_"))
        tables[name] = table
    return replace(catalog, tables=tables, unit=Unit(node, max_rows=1, capped=True))


def keys_of(job: Job) -> dict[str, list[str]]:
    """The key columns of every output."""
    desk = Desk(job, blank(job))
    return {spec.name: [key.name for key in desk.question(place).keys] for place, spec in enumerate(job.outputs)}


__all__ = ["SAMPLE", "SUPPRESSED", "Owners", "beyond", "chance", "keys_of", "owners_of", "plain", "sampled", "units_in"]
