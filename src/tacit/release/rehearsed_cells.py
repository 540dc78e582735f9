"""Rehearsals of what is counted in cells: the answers of a workload, and the tables that made-up rows have.

A kind takes part by three functions of its module: `cells_of(output)` is how its rows are cut, `in_cells(planned)` which
figures follow from counts in the cells, and `told_in_cells(planned, result)` what a release says of them. The truth is
counted without caps; baselines are those of every rehearsal, of cells instead of groups.

>>> import pyarrow as pa
>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.rehearsal import rehearse
>>> job = parse(EXAMPLE.replace("outputs:", '''outputs:
...   - {name: regions, kind: workload, source: visits, marginals: {of: [region], up_to: 1}, weight: 1}'''))
>>> table = pa.table({"patient_id": list(range(600)), "region": ["north"] * 500 + ["south"] * 100})
>>> found = rehearse(job, {"visits": table}, data="dummy", runs=3)
>>> [(line.group, line.truth, line.people) for line in found.lines if line.output == "regions"]
[(('north',), 500.0, 500), (('south',), 100.0, 100)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.release import kinds
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds import OutputPlan
from tacit.release.sources import desk_of
from tacit.tables import Cut, Desk, Source, TableError, Unit
from tacit.tables.keys import Keys
from tacit.tables.statement import PEOPLE, Wanted, key_name, statement

#: The most figures of an output that are compared one by one.
MOST = 200_000
TOO_MANY = f"it has more than {MOST:,} figures; rehearse it with fewer columns or cells"
AT_ENDS = "its unit is a party to edges, and cells do not tell how many of these are in them; ask by SQL to compare it"
JOINED = "its rows are joined in a way that only a private count allows, so there is no truth to compare with"

Array = NDArray[Any]


@dataclass(frozen=True)
class CellFigures:
    """Figures that follow from counts in the cells of some columns: their name, how many, what each is about, and how they follow."""

    title: str
    columns: tuple[str, ...]
    count: int
    groups: Callable[[], list[tuple[Any, ...]]]  # made when they are compared: there may be millions
    answers: Callable[[Array], Array]


@dataclass(frozen=True)
class CellErrors:
    """The errors of one kind of figures, in arrays with an entry for each; `covered` is NaN where a release tells no interval."""

    title: str
    groups: list[tuple[Any, ...]]
    people: Array
    truth: Array
    cut: Array
    noise: Array
    size: Array
    covered: Array
    sample: Array
    spread: Array


def compares(output: OutputPlan) -> bool:
    """Whether a kind says how its figures follow from counts in cells."""
    return hasattr(kinds.of(output), "in_cells")


def why_not(output: OutputPlan) -> str:
    """Why an output's cells are not compared; empty where they are."""
    kind: Any = kinds.of(output)
    figures = kind.in_cells(output)
    if isinstance(figures, str):
        return figures
    desk: Desk = kind.cells_of(_output(output)).desk
    if desk.unit.ends is not None and desk.unit.person is None:
        return AT_ENDS
    return TOO_MANY if sum(one.count for one in figures) > MOST else ""


def errors(
    output: OutputPlan, job: Job, known: Source, samples: Sequence[Source], share: float, runs: int, edition: int
) -> Iterator[CellErrors]:
    """The errors of an output over so many runs, beside samples of `share` of the rows. `known` holds the rows that are true."""
    kind: Any = kinds.of(output)
    figures: list[CellFigures] = kind.in_cells(output)
    tables = list(dict.fromkeys(one.columns for one in figures))
    truths = _uncapped(output, job, known).counts(tables)
    people = _people(output, job, known, tables, truths)
    sampled = [_uncapped(output, job, one).counts(tables) for one in samples]
    kept, told = [], []
    for turn in range(runs):
        with noise.test_mode(edition * 1_000_003 + turn):
            kept.append(kind.cells_of(_output(output)).counts(tables))
        with noise.test_mode(edition + turn):
            told.append(kind.told_in_cells(output, kind.result(output, kind.draw(output), False, None)))
    for place, one in enumerate(figures):
        truth = one.answers(truths[one.columns]).ravel().astype(float)
        capped = np.array([one.answers(counts[one.columns]).ravel() for counts in kept], dtype=float)
        value = np.array([shown[place][0].ravel() for shown in told], dtype=float)
        wide = np.array([np.broadcast_to(shown[place][1], shown[place][0].shape).ravel() for shown in told], dtype=float)
        guess = np.array([one.answers(counts[one.columns]).ravel() / share for counts in sampled], dtype=float)
        inside = np.where(np.isnan(wide), np.nan, np.abs(value - truth) <= wide)
        yield CellErrors(
            one.title, one.groups(), one.answers(people[one.columns]).ravel(), truth, (capped - truth).mean(axis=0),
            (value - capped).mean(axis=0), _root(value - truth), inside.mean(axis=0), _root(guess - truth), _root(value - capped),
        )  # fmt: skip


def _root(errors: Array) -> Array:
    found: Array = np.sqrt((errors**2).mean(axis=0))
    return found


def _output(planned: Any) -> Any:
    """The checked block of a planned output."""
    return planned.output


def _cut_for(output: OutputPlan, job: Job, source: Source, unit: Unit) -> Cut:
    """The output's cells over other rows, for another unit."""
    kind: Any = kinds.of(output)
    desk = _for_unit(desk_of(job, source), unit)
    found: Cut = kind.cells_of(kind.prepare(output.spec, job, desk, ""))
    return found


def _for_unit(desk: Desk, unit: Unit) -> Desk:
    """The same tables for another unit."""
    return Desk.of(desk.source, unit, desk.schema, dialect=desk.dialect, confidence=desk.confidence)


def _uncapped(output: OutputPlan, job: Job, source: Source) -> Cut:
    """The output's cells over all rows; over those of people where its rows are joined through them."""
    unit = job.unit.typed()
    try:
        return _cut_for(output, job, source, Unit.row(unit.adjacency))
    except (JobError, TableError):
        return _cut_for(output, job, source, replace(unit, capped=True))


def _people(
    output: OutputPlan, job: Job, source: Source, tables: Sequence[tuple[str, ...]], rows: dict[tuple[str, ...], Array]
) -> dict[tuple[str, ...], Array]:
    """How many different units have a row in each cell, before any cap."""
    unit = job.unit.typed()
    if unit.person is None:
        return rows
    cut = _cut_for(output, job, source, replace(unit, capped=True))
    found = {}
    for table in tables:
        keys = tuple(key for key in cut.question.keys if key.name in table)
        wanted = Wanted(Keys(keys, (), tuple(range(len(keys)))), (), cut.unit, people=True, numbered=cut.numbered)
        lines = cut.desk.engine.run(statement(replace(cut.question, keys=keys), wanted, cut.desk.engine, 0))
        counts = np.zeros(tuple(len(cut.names[name]) for name in table), dtype=np.int64)
        places = {key.name: lines.column(key_name(i)).to_pylist() for i, key in enumerate(keys)}
        cells = zip(*(places[name] for name in table), strict=True) if table else iter([()] * lines.num_rows)
        for cell, many in zip(cells, lines.column(PEOPLE).to_pylist(), strict=True):
            if None not in cell:
                counts[cell] += many or 0
        found[table] = counts
    return found


__all__ = ["JOINED", "MOST", "CellErrors", "CellFigures", "compares", "errors", "why_not"]
