"""`kind: fairness`: how a decision treats groups, as rates and gaps with intervals, from one noisy count of a source's rows.

The source has a column of labels, one of predictions, and the columns of the groups; all of them have declared categories. The
question is one table of counts, planned, paid for and drawn like any other (`kind: table`); rates and gaps are
post-processing (`tacit.fairness`).

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> job = parse(EXAMPLE.replace("columns:", '''columns:
...   due: {type: integer, categories: [0, 1]}
...   given: {type: integer, categories: [0, 1]}''').replace("outputs:", '''outputs:
...   - {name: fair, kind: fairness, source: visits, label: due, prediction: given, groups: [region], positive: 1, weight: 1}'''))
>>> planned = plan(job)["fair"]
>>> planned.size, list(planned.errors)
(8, ['people'])
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, model_validator

from tacit.accounting import Event
from tacit.fairness import NOTIONS, RATES, Groups, PrivateRates, group_words, incompatible
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import OutputSpec, Scalar
from tacit.release.kinds import Notice, Portion, Record, fields, marked, table, table_files
from tacit.release.page import plain
from tacit.tables import Desk

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.release.job import Job

PRODUCT = "Rates and gaps by group"


class FairnessSpec(OutputSpec):
    """Which column is decided, which was true, which groups are compared, and which notions of fairness are asked about."""

    source: str
    label: str
    prediction: str
    positive: Scalar
    groups: tuple[str, ...] = Field(min_length=1)
    notions: tuple[str, ...] = ("equalized_odds",)
    where: str | None = Field(default=None, min_length=1, max_length=100_000)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _asks(self) -> FairnessSpec:
        unknown = [notion for notion in self.notions if notion not in NOTIONS and notion not in RATES]
        if unknown:
            raise ValueError(f"there is no notion {unknown[0]!r}; the notions are {', '.join(NOTIONS)}")
        columns = [self.label, self.prediction, *self.groups]
        if len(set(columns)) != len(columns):
            raise ValueError("label, prediction and groups must be different columns")
        return self


Block = FairnessSpec


@dataclass(frozen=True)
class FairnessOutput:
    """A block that was checked: a table of counts, and the groups that it is about."""

    spec: FairnessSpec
    counted: table.TableOutput
    declared: Groups
    labels: tuple[object, ...]
    predictions: tuple[object, ...]

    @property
    def plain(self) -> bool:
        return self.counted.plain

    @property
    def figures(self) -> Sequence[str]:
        return self.counted.figures


def prepare(block: FairnessSpec, job: Job, desk: Desk, place: str) -> FairnessOutput:
    """Check the block against the job's columns, and write the question that counts."""
    known: dict[str, tuple[object, ...]] = {}
    for where, column in (("label", block.label), ("prediction", block.prediction), *(("groups", name) for name in block.groups)):
        spec = job.columns.get(column)
        categories = None if spec is None else getattr(spec, "categories", None)
        if not categories:
            raise JobError(f"{column!r} needs its values declared: columns.{column}.categories", place=f"{place}.{where}")
        known[column] = tuple(categories)
    for column in (block.label, block.prediction):
        if block.positive not in known[column]:
            raise JobError(f"{block.positive!r} is no declared value of {column!r}", place=f"{place}.positive")
    columns = [*block.groups, block.label, block.prediction]
    quoted = ", ".join('"{}"'.format(column.replace('"', '""')) for column in columns)
    rows = f'FROM "{block.source}"' + ("" if block.where is None else f" WHERE ({block.where})")
    asked = table.TableSpec(
        name=block.name, title=block.title, weight=block.weight, accuracy=block.accuracy, loss=False,
        sql=f"SELECT {quoted}, COUNT(*) AS people {rows} GROUP BY {quoted}",
    )  # fmt: skip
    counted = table.prepare(asked, job, desk, place)
    declared = Groups.of({column: known[column] for column in block.groups})
    return FairnessOutput(block, counted, declared, known[block.label], known[block.prediction])


@dataclass(frozen=True)
class FairnessPlan:
    """The counts with their price and noise."""

    output: FairnessOutput
    counted: table.TablePlan

    @property
    def spec(self) -> FairnessSpec:
        return self.output.spec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def portion(self) -> Portion:
        return self.counted.portion

    @property
    def event(self) -> Event:
        return self.counted.event

    @property
    def noise(self) -> str:
        return self.counted.noise

    @property
    def size(self) -> int:
        return self.counted.size

    @property
    def score(self) -> float:
        return self.counted.score

    @property
    def errors(self) -> Mapping[str, float]:
        return self.counted.errors

    def errors_at(self, confidence: float) -> Mapping[str, float]:
        return self.counted.errors_at(confidence)

    @cached_property
    def rate_error(self) -> float | None:
        """How far a rate of an average group may be off, where the job says how many rows there are; by half of them at a label."""
        rows = self.output.counted.job.expected.rows
        return None if rows is None else self.errors["people"] / max(rows / self.output.declared.size / 2, 1)


def plan(output: FairnessOutput, portion: Portion) -> FairnessPlan:
    """The counts at a price."""
    return FairnessPlan(output, table.plan(output.counted, portion))


def notices(planned: FairnessPlan, job: Job, place: str) -> Iterable[Notice]:
    """Notions that exclude each other, and rates that the noise would hide."""
    for sentence in incompatible(*planned.spec.notions):
        yield Notice("notions exclude each other", f"{place}.notions", sentence)
    off = planned.rate_error
    if off is not None and off > 0.1:
        text = f"the rate of an average group would be off by up to {off:.2g}; compare fewer groups, or give it more weight"
        yield Notice("rates mostly noise", place, text)


def explain(planned: FairnessPlan) -> tuple[str, str]:
    """The table of counts, step by step, and its statement."""
    return table.explain(planned.counted)


def draw(planned: FairnessPlan) -> Record:
    """The noisy counts."""
    return table.draw(planned.counted)


def result(planned: FairnessPlan, drawn: Record, private: bool, entry: int | None) -> PrivateRates:
    """Counts put into order: by group, label and prediction."""
    answer = table.result(planned.counted, drawn, private, entry)
    output = planned.output
    counts = np.zeros((output.declared.size, 2, 2), dtype=np.int64)
    places = {key if isinstance(key, tuple) else (key,): i for i, key in enumerate(output.declared.keys)}
    columns = [answer.keys[name] for name in (*output.spec.groups, output.spec.label, output.spec.prediction)]
    labels, predictions = ((len(values) - 1, 1) for values in (output.labels, output.predictions))
    for *group, label, guess, value in zip(*columns, answer.figures["people"].value, strict=True):
        at = places[tuple(group)]
        counts[at, int(label == output.spec.positive), int(guess == output.spec.positive)] += round(float(value))
    noise = planned.counted.plan.split.noise
    confidence = output.counted.desk.confidence
    return PrivateRates(output.declared, counts, noise, answer.cost, private, confidence, parts=(
        labels[0] * predictions[0], labels[0] * predictions[1], labels[1] * predictions[0], labels[1] * predictions[1],
    ))  # fmt: skip


def checks(planned: FairnessPlan, result: PrivateRates) -> list[tuple[str, bool]]:
    """Soundness of the figures; released ones only."""
    inside = all(0 <= one.low <= one.high <= 1 for of in result.by_group.values() for one in of.values())
    return [
        ("every group is there", len(result.counts) == planned.output.declared.size),
        ("every interval lies between 0 and 1", inside),
    ]


def files(planned: FairnessPlan, result: PrivateRates, formats: Sequence[str]) -> dict[str, bytes]:
    """Every rate of every group, and the gaps."""
    found = table_files(f"{planned.name}_rates", marked(result.to_arrow(), result.private), formats)
    return found | table_files(f"{planned.name}_gaps", marked(gaps_of(planned, result), result.private), formats)


def gaps_of(planned: FairnessPlan, result: PrivateRates) -> pa.Table:
    """The gap and the ratio of every notion that was asked about."""
    import pyarrow as pa

    rows = []
    for notion in planned.spec.notions:
        for what, one in (("difference", result.difference(notion)), ("ratio", result.ratio(notion))):
            rows.append({"notion": notion, "figure": what, "value": one.value, "low": one.low, "high": one.high})
    return pa.Table.from_pylist(rows)


def recorded(planned: FairnessPlan, result: PrivateRates) -> Record:
    """What was counted, and its price."""
    spec = planned.spec
    return fields.recorded_of(
        planned, source=spec.source, groups=list(spec.groups), notions=list(spec.notions),
        files=[f"{planned.name}_rates", f"{planned.name}_gaps"],
    )  # fmt: skip


def post_processing(planned: FairnessPlan) -> list[str]:
    """Rates are ratios of noisy counts."""
    return ["rates, gaps and ratios of noisy counts"]


def described(planned: FairnessPlan, result: PrivateRates | None) -> Record:
    """What the report shows."""
    found: Record = fields.opening_of(planned, result, [
        "Group sizes are private: denominators are noisy counts too. Intervals cover the noise, not the choice of the people.",
        "A person with an undeclared value is in no group. Fairness of a part says nothing about a whole: measure the pipeline.",
        *incompatible(*planned.spec.notions),
    ])  # fmt: skip
    found |= {"notions": list(planned.spec.notions), "gaps": [], "rates": {}, "groups": []}
    if result is None:
        return found
    shown = dict.fromkeys(rate for notion in planned.spec.notions for rate in NOTIONS.get(notion, (notion,)))
    found["groups"] = [group_words(key) for key in result.groups.keys]
    for rate in shown:
        of = result.estimates(rate)
        found["rates"][rate] = {end: [plain(getattr(one, end)) for one in of] for end in ("value", "low", "high")}
    found["gaps"] = [
        {"notion": row["notion"], "figure": row["figure"], **{end: plain(row[end]) for end in ("value", "low", "high")}}
        for row in gaps_of(planned, result).to_pylist()
    ]
    found["notes"] += result.notes
    return found


def section(described: Record, confidence: str) -> str:
    """The rates of every group as pictures, and the gaps as a table."""
    if not described["answered"]:
        return "<p>This output was left out.</p>"

    def numbers(values: Sequence[float | None]) -> list[float]:
        return [float("nan") if value is None else value for value in values]

    drawn = [
        pictures.table({"group": described["groups"]}, rate.replace("_", " "), *(numbers(of[end]) for end in ("value", "low", "high")))
        for rate, of in described["rates"].items()
    ]
    rows = "".join(
        f"<tr><td>{html.escape(str(gap['notion']).replace('_', ' '))}</td><td>{gap['figure']}</td>"
        + "".join(f'<td class="n">{"not known" if gap[end] is None else format(gap[end], ".3f")}</td>' for end in ("value", "low", "high"))
        + "</tr>"
        for gap in described["gaps"]
    )
    head = "<tr><th>notion</th><th>figure</th>" + "".join(f'<th class="n">{end}</th>' for end in ("value", "low", "high")) + "</tr>"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in described["notes"])
    told = f"<p>With {html.escape(confidence)} confidence; all gaps of a notion hold at once.</p>"
    figures = "".join(f"<figure>{one}</figure>" for one in drawn)
    return f'{figures}<div class="scroll"><table>{head}{rows}</table></div>{told}<ul>{notes}</ul>'


def review(outputs: Sequence[FairnessPlan], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about fairness."""
    return {
        "Who bears the noise?": "Every cell of (group, label, prediction) gets noise of the same size, so rates of small groups have the "
        "wider intervals; where the noise leaves nothing to say, the figure says so.",
        "Do bounds or groups come from the data?": "No: groups, labels and predictions are declared in the job.",
    }
