"""`kind: gwas`: the variants that differ most between cases and controls, from PLINK files beside the job.

>>> from tacit.release.kinds import find
>>> find("gwas").Block(name="g", file="study.bed", cases=893, controls=1244, k=3, weight=1).k
3
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from tacit.accounting import Adjacency, Event
from tacit.applications.health import GENOME_WIDE, Genotypes, GwasPlan, allele_counts, groups_of, plan_gwas
from tacit.errors import ParameterError
from tacit.release.errors import JobError
from tacit.release.job_parts import Number, OutputSpec
from tacit.release.kinds import Notice, Portion, Record, fields
from tacit.tables import Desk

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Genome-wide association"


class GwasSpec(OutputSpec):
    """The k variants of a PLINK file; case and control numbers are public. `threshold: private` pays for one from the data.

    `statistics` is the share of the price that is kept for the statistics of the chosen variants, 0 for none.
    """

    file: str = Field(min_length=1)
    cases: int = Field(gt=0)
    controls: int = Field(gt=0)
    k: int = Field(gt=0)
    gamma: Number | None = None
    threshold: Literal["public", "private"] = "public"
    statistics: Number = 0
    missing: Literal["none", "one", "two"] = "none"


Block = GwasSpec


@dataclass(frozen=True)
class GwasOutput:
    """A block that was checked; the file is opened if it is there, and none of its genotypes is read."""

    spec: GwasSpec
    study: Genotypes | None
    confidence: float
    plain: bool = False
    figures: tuple[str, ...] = ("chosen",)
    bed: Path | None = None

    def planned(self, epsilon: Any) -> GwasPlan:
        spec = self.spec
        gamma = None if spec.threshold == "private" else GENOME_WIDE if spec.gamma is None else spec.gamma
        variants = max(spec.k, 1_000) if self.study is None else self.study.variants
        return plan_gwas(
            cases=spec.cases, controls=spec.controls, variants=variants, k=spec.k, epsilon=epsilon, gamma=gamma,
            statistics=spec.statistics,
        )


def prepare(block: GwasSpec, job: Job, desk: Desk, place: str) -> GwasOutput:
    """Check the block, and the files where they are."""
    if desk.unit.adjacency is not Adjacency.REPLACE_ONE:
        words = "genotypes are replaced while cases and controls keep their public numbers: unit: {adjacency: replace-one}"
        raise JobError(words, place="unit.adjacency")
    if desk.unit.window is not None or desk.unit.most_rows != 1:
        words = "a person has one row of genotypes, for good: unit: {person: <column>, max_rows: 1, ...}, without a window"
        raise JobError(words, place="unit")
    if block.accuracy is not None:
        raise JobError("a selection has a weight; how often it is right depends on the variants", place=f"{place}.accuracy")
    if block.threshold == "private" and block.gamma is not None:
        raise JobError("a private threshold is chosen from the data; leave out gamma", place=f"{place}.gamma")
    folder: Path | None = desk.source.folder
    study = None
    try:
        if folder is not None:
            study = Genotypes.plink(folder / block.file, missing=block.missing)
            groups_of(study, None, block.cases, block.controls)
        bed = None if folder is None else (folder / block.file).with_suffix(".bed")
        found = GwasOutput(block, study, job.publication.confidence, bed=bed)
        found.planned(1)
    except ParameterError as error:
        raise JobError(str(error), place=place) from None
    return found


@dataclass(frozen=True)
class PlannedGwas(fields.Priced):
    """A study with its price."""

    chosen: GwasPlan
    noise: str = "exponential selection"

    @property
    def size(self) -> int:
        return int(self.spec.k)

    @property
    def event(self) -> Event:
        return self.chosen.event

    @property
    def score(self) -> float:
        return -math.log(float(self.chosen.select_epsilon))

    def errors_at(self, confidence: float) -> dict[str, float]:
        """How many people's genotypes a chosen variant may be nearer to or farther from the threshold than one left out."""
        accuracy = self.chosen.selection.accuracy
        assert accuracy is not None
        return {"chosen": float(accuracy(1 - confidence))}


def plan(output: GwasOutput, portion: Portion) -> PlannedGwas:
    """The selection at this price. No genotype is read."""
    return PlannedGwas(output, portion, output.planned(fields.epsilon_of(portion, "a selection has")))


def notices(planned: PlannedGwas, job: Job, place: str) -> list[Notice]:
    """A private threshold takes most of its meaning from its noise."""
    hidden = planned.chosen.threshold_noise
    if hidden is None:
        return []
    words = f"the private threshold gets noise of scale {hidden.spread():.0f} in chi-square units"
    return [Notice("noisy-threshold", f"{place}.threshold", f"{words}; a public gamma finds more")]


def explain(planned: PlannedGwas) -> tuple[str, str]:
    """What is chosen and how; there is no statement."""
    words = f"{planned.spec.k} variants by exponential selection on distances to a threshold, {planned.event!r}"
    return words, f"allele counts of {planned.spec.file}"


def draw(planned: PlannedGwas) -> Record:
    """Count alleles a block at a time, choose, add noise, once."""
    study = planned.output.study
    assert study is not None, "the file is checked before anything is paid"
    groups = groups_of(study, None, planned.spec.cases, planned.spec.controls)
    return planned.chosen.draw(*allele_counts(study, groups))


def result(planned: PlannedGwas, drawn: Record, private: bool, entry: int | None) -> fields.FieldAnswer:
    """The chosen variants, and their statistics if these were paid for."""
    study = planned.output.study
    assert study is not None
    found = planned.chosen.read(drawn, study.names, private, entry)
    order = [float(i + 1) for i in range(len(found.names))]
    values = order if found.statistics is None else [float(x) for x in found.statistics]
    title = "order of choice" if found.statistics is None else "chi-square, from noisy counts"
    part = fields.FieldPart(title, {"variant": list(found.names)}, values, values, values)
    return fields.FieldAnswer([part], {"threshold": f"{found.gamma:.4f}"}, private)


def checks(planned: PlannedGwas, result: fields.FieldAnswer) -> list[tuple[str, bool]]:
    """k different variants."""
    names = result.parts[0].groups["variant"]
    return [*fields.checks_of(result), ("as many variants as were asked for", len(names) == planned.spec.k)]


files, section = fields.files_of, fields.section_of


def recorded(planned: PlannedGwas, result: fields.FieldAnswer) -> Record:
    """Its public parameters and price."""
    spec = planned.spec
    return fields.recorded_of(planned, file=spec.file, cases=spec.cases, controls=spec.controls, k=spec.k, threshold=spec.threshold)


def post_processing(planned: PlannedGwas) -> list[str]:
    """What is done to noisy counts."""
    return ["allelic statistics from noisy counts"] if planned.chosen.statistics_noise else []


def described(planned: PlannedGwas, result: fields.FieldAnswer | None) -> Record:
    """What the report shows."""
    return fields.described_of(planned, result, [
        "Who is a case and who a control, and how many, is public; genotypes are protected.",
        "A missing genotype counts as a public number of copies.",
    ])  # fmt: skip


def review(outputs: Sequence[PlannedGwas], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about association studies."""
    return fields.review_of(private, "Variants near the threshold are chosen or left out by chance.")


def private_files(planned: PlannedGwas) -> list[Path]:
    """The genotypes, which no source of the job holds."""
    output = planned.output
    return [] if output.bed is None else [output.bed]


def protects(planned: PlannedGwas) -> str:
    """What of one person is protected, where that is not all of her data."""
    return "genotypes"
