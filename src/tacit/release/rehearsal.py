"""Rehearsals: a job repeated on dummy or public data, its errors by group and subgroup, beside what is done without privacy.

The errors are split into what the caps and bounds cut off, what the noise adds, and what post-processing changes; the three add up. The
baselines are a 40% sample of people, as some statistical offices publish, and suppression of groups of fewer than 25 people; neither
gives a guarantee (Desfontaines and Task, on benchmarks). Where the job protects rows, edges or nodes, "people" are those.
Everything is drawn in test mode, so nothing of a rehearsal is private: hence no real data.

>>> from tacit.release.job import EXAMPLE, parse
>>> import pyarrow as pa
>>> table = pa.table({"patient_id": list(range(600)), "region": ["north"] * 500 + ["south"] * 100})
>>> found = rehearse(parse(EXAMPLE), {"visits": table}, data="dummy", runs=5)
>>> [(line.group, line.truth) for line in found.lines]
[(('north',), 500.0), (('south',), 100.0)]

**Baselines.** All three (the plain figures, the sample, the suppressed groups) speak of the job's own unit, whichever
it is. A person, a row, an edge (all rows between two parties) or a row of a key's table is in the sample with all
rows that are about it, or with none. A node at both ends of its edges is in no row of the sample unless it was
chosen: what is left is the graph among those chosen, in which an edge has a chance of 16%, and so counts are scaled
by that. Groups are suppressed when fewer than 25 different units have a row in them.

>>> visits = pa.table({"patient_id": [1, 1, 2], "region": ["north", "south", "north"]})
>>> owners = owners_of(parse(EXAMPLE), {"visits": visits})
>>> owners["visits"].row.tolist(), len(set(owners["visits"].owner.tolist()))
([0, 1, 2], 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp, parse_one

from tacit import noise
from tacit.ledger import days
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds.table import TablePlan, TableSpec, answered, described
from tacit.release.page import dots, number, template
from tacit.release.planning import plan
from tacit.release.rehearsed_cells import JOINED, CellErrors, compares, errors, why_not
from tacit.release.sources import blank, desk_of, opened
from tacit.tables import MARK, DuckDB, Engine, EngineError, Plan, Released, Source, TableError, Unit
from tacit.tables.figures import Exact, integers, release
from tacit.tables.keys import literal
from tacit.tables.lines import columns
from tacit.tables.relation import Catalog, named, nested, owned
from tacit.tables.sql import parse, unfolded
from tacit.tables.statement import GROUP, PEOPLE, Wanted, statement
from tacit.tables.statistics import Statistic, measure_name

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
    """The owners of the rows of every private table, numbered alike in all of them; a row without an owner stands for itself."""
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
    """A number for each owner; what has no owner gets a number of its own."""

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
    public = frozenset(other for other, source in job.sources.items() if source.public)
    catalog = desk_of(job, Source(engine, tuple(tables), public)).catalog
    person = catalog.unit.person or ""
    try:
        rows = owned(name, catalog)
    except TableError:
        return []  # its rows have no owner, and no question is about them
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


def plain(output: TablePlan, job: Job, share: float = 1.0) -> exp.Expression:
    """The output's own SQL, to be run as it stands: on all rows of the period, with their owners where the question may name them.

    Rows that lead to no person are among them. They count for nothing in a release, so they are among what it cuts off. All groups are
    there, whatever HAVING and LIMIT would show, and the columns have the names that they have in a release. With a `share`, counts and
    sums are divided by it, wherever they stand in an expression: what a sample says about all people.
    """
    desk = output.output.desk
    parsed: Any = parse_one(output.spec.sql, read=desk.dialect)
    while isinstance(parsed, exp.Subquery):
        parsed = parsed.this
    tree, _ = unfolded(parsed)
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
        return tree
    catalog = desk.catalog
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
    return tree


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


def units_in(output: TablePlan, job: Job, engine: Engine) -> list[int]:
    """How many different units have a row in each group, before any cap: people, rows, edges, or nodes at either end."""
    planned = output.plan
    unit, question = planned.unit, planned.question
    if unit.ends is not None and unit.person is None:
        desk = output.output.desk
        catalog = _by_node(desk.catalog)
        unit, question = catalog.unit, parse(output.spec.sql, desk.dialect, catalog)
    uncut = replace(unit, capped=True)
    if unit.person is None:
        wanted = Wanted(planned.keys, (Statistic("rows", exp.Literal.number(1), 0, 1),), uncut, planned.wanted.period)
        name = measure_name(0)
    else:
        wanted, name = Wanted(planned.keys, (), uncut, planned.wanted.period, people=True), PEOPLE
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
    """The key columns of every table."""
    desk = desk_of(job, blank(job))
    tables = [spec for spec in job.outputs if isinstance(spec, TableSpec)]
    return {spec.name: [key.name for key in desk.question(spec.sql).keys] for spec in tables}


#: Data that a rehearsal may be about: what it computes is not private.
ROLES = ("dummy", "public")
#: Why a job that reads reports is not rehearsed.
NO_ROWS = "a network has no rows to make up; release a public case, such as one of MATPOWER's, to see what comes out"
ON_CLIENTS = "the rows stay on the clients, so none are made up; ask an app with made-up answers through InProcessGrid"
ON_DEVICES = "reports are randomised already, so there are no rows to make up; try tacit local randomise on made-up answers"


def why_no_rows(job: Job) -> str:
    """Why a job without tables is not rehearsed, and what to do instead."""
    return ON_DEVICES if job.on_devices else ON_CLIENTS if job.of_clients else NO_ROWS



@dataclass(frozen=True)
class RehearsedFigure:
    """One figure of one group: the truth, and mean errors over all runs. `suppressed` is whether the second baseline drops the group.

    `people` counts the job's units. `cut` + `noise` + `post` is the mean error of the release; `size` is its root mean square, and
    `sample` that of a 40% sample.
    """

    output: str
    figure: str
    group: tuple[Any, ...]
    people: int
    truth: float
    cut: float
    noise: float
    post: float
    size: float
    covered: float
    sample: float
    suppressed: bool
    #: The root mean square of what the noise alone adds, beside its mean in `noise`: which rows the caps keep is drawn as well.
    spread: float = 0.0


@dataclass(frozen=True)
class Rehearsal:
    """All lines, and their summaries; `left_out` says of each output that was not compared why, and `broken` which declared caps the data
    break. Marked: it is not private."""

    job: Job
    runs: int
    lines: tuple[RehearsedFigure, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    mark: str = MARK
    #: What is foretold for groups by their sizes, for each output that counts.
    foretold: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Whom errors and baselines are about, in one word: people, rows, edges or nodes."""
        return self.job.unit.typed().nouns

    def overall(self) -> dict[tuple[str, str], dict[str, float]]:
        """Mean sizes of errors for each figure, of the release and of both baselines."""
        return {key: _summary(lines) for key, lines in _grouped(self.lines, lambda line: (line.output, line.figure)).items()}

    def by(self, output: str, key: str) -> dict[Any, dict[str, dict[str, float]]]:
        """The same for each value of one key column: who pays for the noise."""
        names = self.keys.get(output)
        if names is None:
            raise JobError(f"{output!r} is no output of the job; there are {', '.join(self.keys)}")
        if key not in names:
            raise JobError(f"{key!r} is no key of {output!r}; there are {', '.join(names) or 'none'}")
        lines = [line for line in self.lines if line.output == output]
        place = names.index(key)
        found: dict[Any, dict[str, dict[str, float]]] = {}
        for (value, figure), some in _grouped(lines, lambda line: (line.group[place], line.figure)).items():
            found.setdefault(value, {})[figure] = _summary(some)
        return found

    def page(self, key: str) -> str:
        """Who pays, as a page: the errors of every group of one key, beside what is foretold by its size."""
        outputs = [name for name, keys in self.keys.items() if key in keys and name not in self.left_out]
        if not outputs:
            known = sorted({one for keys in self.keys.values() for one in keys})
            raise JobError(f"{key!r} is no key of an output; there are {', '.join(known) or 'none'}")
        shown = [
            {"name": name, "figures": self._drawn(name, key), "who_pays": self.foretold.get(name)} for name in outputs
        ]
        return template("rehearsal.html").render(
            title=self.job.title, key=key, mark=self.mark, runs=self.runs, unit=self.unit, outputs=shown
        )

    def _drawn(self, output: str, key: str) -> list[dict[str, Any]]:
        """One picture and one table for each figure."""
        place = self.keys[output].index(key)
        lines = [line for line in self.lines if line.output == output]
        found: dict[str, list[dict[str, Any]]] = {}
        for (value, figure), some in _grouped(lines, lambda line: (line.group[place], line.figure)).items():
            numbers = _summary(some)
            truth = sum(abs(line.truth) for line in some) / len(some)
            share = 100 * numbers["error"] / truth if truth else math.nan
            found.setdefault(figure, []).append({
                "value": "(missing)" if value is None else str(value), "share": share,
                "people": f"{sum(line.people for line in some):,}", "error": number(numbers["error"]),
                "relative": "–" if math.isnan(share) else f"{share:.2g} %", "cut": number(numbers["cut"]),
                "coverage": f"{numbers['coverage']:.0%}", "sample": number(numbers["sample error"]),
                "suppressed": f"{numbers['suppressed']:.0%}",
            })  # fmt: skip
        return [
            {"name": figure, "rows": rows, "picture": _shares([row["value"] for row in rows], [row["share"] for row in rows])}
            for figure, rows in found.items()
        ]

    @cached_property
    def keys(self) -> dict[str, list[str]]:
        """The key columns of every output."""
        return keys_of(self.job)


def _shares(labels: list[str], shares: list[float]) -> str:
    """Relative errors as bars from 0, one for each group."""
    value = np.array(shares)
    return dots(labels, value, np.zeros(len(value)), value, title="relative error, %")


def rehearse(job: Job, tables: Mapping[str, pa.Table], *, data: str, runs: int = 20, edition: int = 1) -> Rehearsal:
    """Run a job's outputs so many times on made-up tables (`data='dummy'`) or public ones (`data='public'`)."""
    if data not in ROLES:
        raise JobError(
            f"data must be {' or '.join(repr(role) for role in ROLES)}: a rehearsal prints true figures, so it is not for private data"
        )
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= 10_000:
        raise JobError(f"runs must be a whole number between 1 and 10000, not {runs!r}")
    if job.without_rows:
        raise JobError(why_no_rows(job), place="sources")
    missing = [name for name in job.sources if name not in tables]
    if missing:
        raise JobError(f"tables must have {missing[0]!r}", place=f"sources.{missing[0]}")
    source = opened(job, Path(), tables)
    random = np.random.default_rng(edition)
    # NaN is no value in a release, so it is none in the truth.
    known = {name: pa.table({c: _known(table.column(c)) for c in table.column_names}) for name, table in tables.items()}
    truth = opened(job, Path(), known)
    owners = owners_of(job, known)
    samples = [opened(job, Path(), sampled(known, owners, lambda count: random.random(count) < SAMPLE)) for _ in range(min(runs, 10))]
    found: list[RehearsedFigure] = []
    left_out: dict[str, str] = {}
    foretold: dict[str, Any] = {}
    for output in plan(job, source).outputs:
        if not isinstance(output, TablePlan):
            why = why_not(output) if compares(output) else f"it is no table but {output.spec.kind}, so there are no groups to compare"
            try:
                compared = [] if why else list(errors(output, job, truth, samples, chance(job), runs, edition))
            except (JobError, TableError, EngineError):
                compared, why = [], JOINED
            found.extend(line for one in compared for line in _of_cells(output.spec.name, one))
            if why:
                left_out[output.spec.name] = why
            continue
        names, why = _figures(output)
        foretold[output.name] = described(output, None)["who_pays"]
        try:
            engines = [one.engine for one in samples]
            found.extend(_lines(_whole(output), names, job, source.engine, truth.engine, engines, runs, edition))
        except EngineError:
            why = "its SQL means something only to a private question, so there is no truth to compare with"
        if why:
            left_out[output.name] = why
    broken = tuple(_broken(job, name, *numbers) for name, numbers in beyond(job, owners).items())
    return Rehearsal(job, runs, tuple(found), left_out, broken, foretold=foretold)


def _broken(job: Job, name: str, units: int, most: int) -> str:
    unit = job.unit.typed()
    said = f"{units:,} {unit.nouns} of {name} have" if units > 1 else f"one {unit.noun} of {name} has"
    return (
        f"capped: true is not true of these data: {said} more than {unit.most_rows} rows, up to {most:,}. If yours are alike, the "
        f"guarantee does not hold: raise max_rows to what is known to hold{'' if unit.person is None else ', or leave capped out'}"
    )


def _known(column: Any) -> Any:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def _figures(output: TablePlan) -> tuple[list[str], str]:
    """The figures that are compared, by the names they are shown under; or why none can be."""
    question = output.plan.question
    if output.private_keys:
        return [], "its keys are selected privately, so each run has other groups; declare the keys to compare it"
    if not question.outputs:
        return [recipe.aggregate.name for recipe in output.plan.recipes], ""
    shown = {one.name: one.value for one in question.outputs}
    keys = {key.name for key in question.keys}
    if keys - set(shown):
        return [], "it does not show the columns it is grouped by; select them to compare it"
    return [name for name, value in shown.items() if {node.name for node in value.find_all(exp.Column)} - keys], ""


def _whole(output: TablePlan) -> TablePlan:
    """The output with all its groups in their own order: what HAVING, ORDER BY and LIMIT show differs from run to run."""
    question = replace(output.plan.question, having=None, order=(), limit=None)
    return replace(output, plan=replace(output.plan, question=question))


def _lines(
    output: TablePlan, names: list[str], job: Job, engine: Engine, known: Engine, samples: list[Engine], runs: int, edition: int
) -> Iterator[RehearsedFigure]:
    if not names:
        return
    planned = output.plan
    groups = planned.keys.groups(range(output.groups), [()] * output.groups) if planned.keys.keys else [()]
    truth = _true(output, names, job, known, groups)
    people = units_in(output, job, known)
    cut = {name: np.zeros(len(groups)) for name in names}
    noisy, post, square, covered, spread = ({name: np.zeros(len(groups)) for name in names} for _ in range(5))
    for turn in range(runs):
        exact = integers(engine.run(planned.statement(engine, edition * 1_000_003 + turn)), planned)
        _, unnoised = columns(planned, _encoded(exact, planned, groups), job.publication.confidence)
        with noise.test_mode(edition + turn):
            drawn = release(exact, planned)
        answer = answered(output, drawn, False, None)
        raw = answer.raw_figures or answer.figures
        for name in names:
            value, drew, told = (_there(some[name].value) for some in (unnoised, raw, answer.figures))
            cut[name] += (value - truth[name]) / runs
            noisy[name] += (drew - value) / runs
            spread[name] += (drew - value) ** 2 / runs
            post[name] += (told - drew) / runs
            square[name] += (told - truth[name]) ** 2 / runs
            covered[name] += ((raw[name].low <= truth[name]) & (truth[name] <= raw[name].high)) / runs
    sample = {name: np.zeros(len(groups)) for name in names}
    for one in samples:
        guess = _true(output, names, job, one, groups, chance(job))
        for name in names:
            sample[name] += (_there(guess[name]) - truth[name]) ** 2 / len(samples)
    for place, group in enumerate(groups):
        for name in names:
            if math.isfinite(truth[name][place]):
                yield RehearsedFigure(
                    output.name, name, group, people[place], float(truth[name][place]), float(cut[name][place]), float(noisy[name][place]),
                    float(post[name][place]), math.sqrt(square[name][place]), float(covered[name][place]), math.sqrt(sample[name][place]),
                    people[place] < SUPPRESSED, math.sqrt(spread[name][place]),
                )  # fmt: skip


def _of_cells(output: str, one: CellErrors) -> Iterator[RehearsedFigure]:
    """A line for each figure of an output that is counted in cells."""
    numbers = (one.people, one.truth, one.cut, one.noise, one.size, one.covered, one.sample, one.spread)
    for group, row in zip(one.groups, zip(*(part.tolist() for part in numbers), strict=True), strict=True):
        people, truth, cut, noisy, size, covered, sample, spread = row
        few = people < SUPPRESSED
        yield RehearsedFigure(output, one.title, group, int(people), truth, cut, noisy, 0.0, size, covered, sample, few, spread)


@dataclass(frozen=True)
class CutOff:
    """One figure of one group as it is, and as caps and bounds leave it, without any noise: NOT PRIVATE."""

    output: str
    figure: str
    group: tuple[Any, ...]
    truth: float
    kept: float


def cut_off(output: TablePlan, job: Job, engine: Engine) -> list[CutOff]:
    """What caps and bounds take from every figure of a table, in the data themselves. For the curator's check, and nothing that is shown
    to others; empty where figures cannot be compared."""
    whole = _whole(output)
    names, _ = _figures(output)
    if not names:
        return []
    planned = whole.plan
    groups = planned.keys.groups(range(whole.groups), [()] * whole.groups) if planned.keys.keys else [()]
    truth = _true(whole, names, job, engine, groups)
    exact = integers(engine.run(planned.statement(engine, 1)), planned)
    _, kept = columns(planned, _encoded(exact, planned, groups), job.publication.confidence)
    return [
        CutOff(output.name, name, group, float(truth[name][place]), float(kept[name].value[place]))
        for name in names
        for place, group in enumerate(groups)
        if math.isfinite(truth[name][place]) and math.isfinite(kept[name].value[place])
    ]


def _there(values: Any) -> Any:
    """Values, and 0 where there is none (a mean of no rows, a ratio of nothing): that is wrong by the whole figure, as suppression is."""
    return np.where(np.isfinite(values), values, 0.0)


def _encoded(exact: Exact, planned: Plan, groups: list[tuple[Any, ...]]) -> Released:
    """What a release would be without noise; the cells of a quantile become the sums that noise is added to."""
    ladders = [(share.measure.ladder, share.law) for share in planned.shares]
    sums = (row if ladder is None else row @ ladder.encoder(law).T for row, (ladder, law) in zip(exact.sums, ladders, strict=True))
    return Released(groups, tuple(sums))


def _true(
    output: TablePlan, names: list[str], job: Job, engine: Engine, groups: list[tuple[Any, ...]], share: float = 1.0
) -> dict[str, Any]:
    """The figures without privacy; a count of no rows is 0, a mean of no rows is unknown."""
    table = engine.run(plain(output, job, share))
    values = {name: table.column(place).to_pylist() for place, name in enumerate(table.column_names)}
    keys = list(zip(*(values.get(key.name, ()) for key in output.plan.question.keys), strict=True)) if groups != [()] else [()]
    places = {key: place for place, key in enumerate(keys)}
    kinds = {recipe.aggregate.name: recipe.aggregate.kind for recipe in output.plan.recipes}
    found: dict[str, Any] = {}
    for name in names:
        kind = kinds.get(name, "")
        empty = 0.0 if kind == "sum" or kind.startswith("count") else math.nan
        found[name] = np.array([_number(values[name][places[g]], empty) if g in places else empty for g in groups])
    return found


def _number(value: Any, empty: float) -> float:
    return empty if value is None or isinstance(value, (str, bytes)) else float(value)


def _grouped(lines: Any, key: Any) -> dict[Any, list[RehearsedFigure]]:
    found: dict[Any, list[RehearsedFigure]] = {}
    for line in lines:
        found.setdefault(key(line), []).append(line)
    return found


def _summary(lines: list[RehearsedFigure]) -> dict[str, float]:
    """Mean sizes of errors; a suppressed group is counted as its whole figure, and a kept one as exact."""
    count = len(lines)
    return {
        "groups": float(count),
        "error": math.fsum(line.size for line in lines) / count,
        "cut": math.fsum(abs(line.cut) for line in lines) / count,
        "coverage": math.fsum(line.covered for line in lines) / count,
        "sample error": math.fsum(line.sample for line in lines) / count,
        "suppression error": math.fsum(abs(line.truth) for line in lines if line.suppressed) / count,
        "suppressed": sum(line.suppressed for line in lines) / count,
    }


__all__ = [
    "SAMPLE", "SUPPRESSED", "CutOff", "Owners", "Rehearsal", "RehearsedFigure", "beyond", "chance", "cut_off", "keys_of",
    "owners_of", "plain", "rehearse", "sampled", "units_in",
]  # fmt: skip
