"""An audit of a job: its own plan, statements and noise, attacked on made-up rows with and without one person.

The accountant bounds what a release can leak from above. This attacks the very same draws from below: the job is planned as for
its data, the tables are made up, and one person is planted who does the most that the caps allow, always in the same cell and at the
ends of the bounds. A likelihood-ratio test, learnt on other draws, tells the two tables apart as often as it can, and its error
rates give a lower bound on epsilon that holds with a stated confidence. No private row is touched and nothing is paid.

A low figure proves nothing: it says that this attack found no more. A figure above the accountant's would prove a fault.

>>> from tacit.release.job import EXAMPLE, parse
>>> found = audit_job(parse(EXAMPLE), trials=400, rows=200)
>>> found.lower <= found.upper, found.attacked, found.broken
(True, ('by_region',), False)
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.audit import rank_attack
from tacit.exact import at_most
from tacit.ledger import days
from tacit.release.dummy import tables_for
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.job_parts import ColumnSpec
from tacit.release.kinds.table import TablePlan
from tacit.release.planning import JobPlan, plan
from tacit.release.sources import opened

Floats = NDArray[np.float64]
#: Made-up rows beside the planted person; how many does not matter to the noise.
ROWS = 400
#: Draws of each of the two tables that the verdict is about; as many again are for learning the test.
TRIALS = 4000
#: How surely the lower bound holds.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class JobAudit:
    """What an attack on a job found: a lower bound on epsilon at `delta`, beside the accountant's upper one.

    `attacked` and `left` are the outputs that the attack saw and those that it did not; the bound is for the attacked ones together.
    """

    lower: float
    upper: float
    delta: float
    confidence: float
    trials: int
    attacked: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def broken(self) -> bool:
        """Whether the attack found more than was promised."""
        return self.lower > self.upper

    def record(self) -> dict[str, Any]:
        """As JSON, for the report."""
        return {**asdict(self), "attacked": list(self.attacked), "left": list(self.left)}


def audit_job(job: Job, *, rows: int = ROWS, trials: int = TRIALS, edition: int = 7) -> JobAudit:
    """Attack the tables of a job on made-up rows. Other kinds of output have attacks of their own, and are named as left out."""
    if job.on_devices or job.of_networks:
        raise JobError("this audit plants a person in a table; reports and networks have attacks of their own (tacit selftest)")
    made = tables_for(job, rows, edition=edition)
    table = _private(job)
    without = {**made, table: _one_row_each(made[table], job.unit.typed().person)}
    planted = {**made, table: pa.concat_tables([without[table], _person(job, table, made[table].schema)])}
    draws, attacked, left = _drawn(job, without, trials)
    others, _, _ = _drawn(job, planted, trials)
    found = plan(job)
    cost = found.cost
    if not attacked:
        return JobAudit(0.0, cost.upper, float(found.delta), CONFIDENCE, 0, (), left)
    outside, inside = _scores(draws, others)
    delta = at_most(found.delta)
    evidence = rank_attack(outside, inside, delta=delta, confidence=CONFIDENCE, attack="likelihood ratio", game="one person planted")
    return JobAudit(evidence.lower, cost.upper, float(delta), CONFIDENCE, evidence.trials, attacked, left)


def _private(job: Job) -> str:
    private = [name for name, source in job.sources.items() if not source.public]
    if len(private) != 1 or job.unit.node is not None or job.unit.edge is not None:
        raise JobError("this audit plants a person in one private table; jobs of several, of nodes or of edges are not audited here")
    return private[0]


def _one_row_each(table: pa.Table, person: str | None) -> pa.Table:
    """The first row of each person. Nothing is cut from such a table, so that both readings have the same rows of all others: a choice
    that came out differently would look like a leak."""
    if person is None:
        return table
    seen: dict[Any, int] = {}
    for place, owner in enumerate(table[person].to_pylist()):
        if owner is not None:
            seen.setdefault(owner, place)
    return table.take(pa.array(list(seen.values()), pa.int64()))


def _person(job: Job, table: str, schema: pa.Schema) -> pa.Table:
    """Someone with as many rows as count, all in one cell and at the ends of the bounds."""
    unit, columns = job.unit.typed(), job.columns_of(table)
    rows = max(1, unit.most_rows)
    span = None if unit.window is None else days(unit.window, job.period or "")
    values = {name: _value(columns[name], span if name == unit.when else None) for name in schema.names}
    if unit.person is not None:
        values[unit.person] = "planted" if columns[unit.person].type == "text" else 2**40
    return pa.table({name: pa.array([values[name]] * rows).cast(schema.field(name).type) for name in schema.names})


def _value(column: ColumnSpec, span: tuple[datetime.date, datetime.date] | None) -> Any:
    if column.categories:
        return next(value for value in column.categories if value is not None)
    if column.bounds is not None:
        return float(max(column.bounds, key=lambda end: abs(float(end))))
    day = datetime.date(2026, 1, 15) if span is None else span[0]
    moment = datetime.datetime(day.year, day.month, day.day)
    return {"text": "planted", "boolean": True, "date": day, "timestamp": moment}.get(column.type, 1)


def _drawn(job: Job, tables: Mapping[str, pa.Table], trials: int) -> tuple[list[Floats], tuple[str, ...], tuple[str, ...]]:
    """All released sums of every table in every trial, for learning and for the verdict."""
    from pathlib import Path

    source = opened(job, Path("."), tables)
    try:
        planned: JobPlan = plan(job, source)
        usable = [output for output in planned.outputs if isinstance(output, TablePlan) and not output.private_keys]
        found = []
        for output in usable:
            drawn = output.output.desk.draws(output.plan, 2 * trials)
            found.append(np.array([_flat(sums) for sums in drawn], dtype=np.float64))
        names = tuple(output.spec.name for output in usable)
        return found, names, tuple(output.spec.name for output in planned.outputs if output.spec.name not in names)
    finally:
        source.close()


def _flat(sums: Sequence[Any]) -> Floats:
    return np.concatenate([np.asarray(row, dtype=np.float64).ravel() for row in sums])


def _scores(without: Sequence[Floats], planted: Sequence[Floats]) -> tuple[Floats, Floats]:
    """The score of each trial of the second half, by a test that was learnt on the first: where the means differ, over the noise."""
    outside, inside = np.zeros(len(without[0]) // 2), np.zeros(len(without[0]) // 2)
    for first, second in zip(without, planted, strict=True):
        half = len(first) // 2
        spread = first[:half].var(axis=0) + second[:half].var(axis=0)
        step = second[:half].mean(axis=0) - first[:half].mean(axis=0)
        # What differs by less than chance explains is left out: its noise would only blur the rest.
        seen = np.abs(step) > 3 * np.sqrt(spread / half)
        weight = np.where(seen, step / np.maximum(spread, 1e-300), 0.0)
        outside += first[half:] @ weight
        inside += second[half:] @ weight
    return outside, inside
