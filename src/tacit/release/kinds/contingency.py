"""`kind: contingency`: a table of two declared columns, and whether they are independent, the noise included.

>>> from tacit.release.kinds import find
>>> find("contingency").Block(name="t", source="patients", rows="arm", columns="better", weight=1).rows
'arm'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from tacit.applications.health import ContingencyPlan
from tacit.mechanisms import half_width
from tacit.release.errors import JobError
from tacit.release.job_parts import OutputSpec
from tacit.release.kinds import Notice, Portion, Record, fields
from tacit.tables import Desk
from tacit.workloads import Identity, Product

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Contingency tables"


class ContingencySpec(OutputSpec):
    """Two columns whose categories the job declares; each patient counts once."""

    source: str
    rows: str
    columns: str
    where: str | None = Field(default=None, min_length=1, max_length=100_000)

    def check(self, columns: set[str]) -> None:
        """Both columns are declared."""
        fields.refuse_unknown((self.rows, self.columns), columns)


Block = ContingencySpec


@dataclass(frozen=True)
class ContingencyOutput(fields.CountedOutput):
    """A block that was checked, with its cells."""


def prepare(block: ContingencySpec, job: Job, desk: Desk, place: str) -> ContingencyOutput:
    """Check the block against the job's sources and declared categories."""
    fields.private_source(block, desk, place)
    if block.rows == block.columns:
        raise JobError("rows and columns must be different columns", place=f"{place}.columns")
    if desk.unit.person is not None and not desk.unit.capped:
        desk = fields.one_row(desk)
    kinds: dict[str, Any] = {block.rows: Identity, block.columns: Identity}
    cut, workload = fields.one_cell(block, desk, Product(**kinds), None, "cell", place)
    if min(len(cut.names[block.rows]), len(cut.names[block.columns])) < 2:
        raise JobError("a test needs at least two categories of each column", place=place)
    return ContingencyOutput(block, desk, cut, workload, job.expected.people or job.expected.rows)


@dataclass(frozen=True)
class PlannedContingency(fields.PlannedCounts):
    """A table with its price and noise."""

    @property
    def table(self) -> ContingencyPlan:
        """The plan of the test."""
        names, spec = self.output.cut.names, self.spec
        rows, columns = (tuple(map(str, names[one])) for one in (spec.rows, spec.columns))
        return ContingencyPlan(self.measured, rows, columns, (spec.rows, spec.columns))


def plan(output: ContingencyOutput, portion: Portion) -> PlannedContingency:
    """What is measured for a portion of the budget. No data is touched."""
    return PlannedContingency(output, portion, fields.measured_for(output, portion))


def power(planned: PlannedContingency) -> tuple[float, float] | None:
    """Size and power at the expected number of patients, for equal margins and a shift of 0.05 in opposite corners."""
    if planned.output.patients is None:
        return None
    table = planned.table
    even = np.full((len(table.rows), len(table.columns)), 1 / (len(table.rows) * len(table.columns)))
    shift = min(0.05, float(even[0, 0]))
    moved = even.copy()
    moved[0, 0] += shift
    moved[-1, -1] += shift
    moved[0, -1] -= shift
    moved[-1, 0] -= shift
    patients = planned.output.patients
    return table.rejections(even, patients, runs=100), table.rejections(moved, patients, runs=100)


def notices(planned: PlannedContingency, job: Job, place: str) -> list[Notice]:
    """A table that is mostly noise."""
    patients = planned.output.patients
    cells = planned.size
    if patients is None or planned.errors["cell"] <= patients / cells:
        return []
    words = f"a cell may be off by {planned.errors['cell']:,.3g} and holds {patients / cells:,.3g} patients on average"
    return [Notice("mostly-noise", place, f"{words}; use fewer categories, or give it more weight")]


def explain(planned: PlannedContingency) -> tuple[str, str]:
    """Size and power, and the statement."""
    told = power(planned)
    words = f"a table of {planned.size} cells with {planned.noise} noise, {planned.event!r}"
    if told is not None:
        words += f"; at level 0.05 the test rejects {told[0]:.0%} of true nulls and {told[1]:.0%} for a shift of 0.05, by made-up patients"
    return words, planned.statement


def draw(planned: PlannedContingency) -> Record:
    """Count in the engine, add noise, once."""
    return planned.drawn()


def result(planned: PlannedContingency, drawn: Record, private: bool, entry: int | None) -> fields.FieldAnswer:
    """The noisy table and its test."""
    table = planned.table
    noisy = table.table([np.array(block, dtype=float) for block in drawn["sums"]])
    statistic, p_value = table.test(noisy)
    scale = planned.measured.noise.spread()
    wide = float(half_width([scale], planned.noise, planned.output.confidence)[0]) + 0.5
    pairs = [(a, b) for a in table.rows for b in table.columns]
    groups = {planned.spec.rows: [a for a, _ in pairs], planned.spec.columns: [b for _, b in pairs]}
    flat = noisy.ravel()
    told = {"test of independence": f"statistic {statistic:.3f}, p = {p_value:.4f} (noise included)"}
    part = fields.FieldPart("patients", groups, flat.tolist(), (flat - wide).tolist(), (flat + wide).tolist())
    return fields.FieldAnswer([part], told, private)


def checks(planned: PlannedContingency, result: fields.FieldAnswer) -> list[tuple[str, bool]]:
    """Every cell is there."""
    return [*fields.checks_of(result), ("every cell is there", len(result.parts[0].value) == planned.size)]


files, section = fields.files_of, fields.section_of


def recorded(planned: PlannedContingency, result: fields.FieldAnswer) -> Record:
    """Its public parameters and price."""
    return fields.recorded_of(planned, source=planned.spec.source, rows=planned.spec.rows, columns=planned.spec.columns)


def post_processing(planned: PlannedContingency) -> list[str]:
    """What is done to the noisy cells."""
    return ["for the test alone: cells of at least one half, scaled to the noisy total", "a simulated p-value"]


def described(planned: PlannedContingency, result: fields.FieldAnswer | None) -> Record:
    """What the report shows."""
    return fields.described_of(planned, result, [
        "Cells are unbiased and may be negative. A patient with several rows counts with one of them, chosen at random.",
        "The p-value compares with tables that are made up under independence and given the same noise.",
        "A patient whose value is none of the declared categories counts for nothing.",
    ])  # fmt: skip


def review(outputs: Sequence[PlannedContingency], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about contingency tables."""
    return fields.review_of(private, "Rare categories: every cell has the same noise.")
