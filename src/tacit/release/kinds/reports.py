"""`kind: reports`: what people's randomised reports tell, in a job like any other.

The source names reports and their protocol in place of rows. The devices paid before anything was sent, so the ledger books nothing: adding
up what was sent tells no more than it did. The plan, the report and the record say what was promised: "Local" (against everyone, the
collector included) or "Shuffle" (against all who see only the shuffled batches), and the price of all reports that one person ever
sends, which must fit the job's budget.

>>> import pathlib, tempfile
>>> from tacit.local import frequencies
>>> from tacit.release.job import parse
>>> from tacit.release.planning import plan
>>> base = pathlib.Path(tempfile.mkdtemp())
>>> frequencies(["smile", "wink", "cry"], epsilon=1).write(base / "emoji.json")
>>> found = plan(parse(EXAMPLE), base=base)
>>> found.cost.upper, {name: float(amount) for name, amount in found.charge.items()}
(1.0, {'pure': 0.0})
>>> round(found["emoji"].errors["share"], 4)
0.022
"""

from __future__ import annotations

import base64
import glob
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import field_validator

from tacit.accounting import Adjacency, Composed, Event, Repeated, Shuffled, account, rounded_up, to_json
from tacit.errors import ParameterError
from tacit.ledger import DataIdentity
from tacit.local import (
    BoundedVectors,
    Collector,
    Estimates,
    FeatureRows,
    MarginalAnswers,
    Mean,
    MeanVector,
    Numbers,
    Projected,
    Protocol,
    RangeAnswers,
    RowAnswers,
    SketchAnswers,
    UnitVectors,
    VectorRandomiser,
    ViewAnswers,
    batch_sizes,
    forged_for,
)
from tacit.mechanisms import half_width
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import Number, OutputSpec
from tacit.release.kinds import Deployment, Notice, Portion, Record, marked, table_files
from tacit.release.page import plain, template
from tacit.tables import Desk, DuckDB, Source

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Estimates from randomised reports"
#: A collector's own file of counts, by the end of its name; everything else is Arrow.
COUNTS = (".db", ".sqlite")
SHOWN = 40  # lines of a picture
PRINTED = 10  # lines on the screen
FEW = 10_000  # reporters below which a clear signal is rare (Erlingsson, Pihur, Korolova 2014)
LARGE = 5.0  # an epsilon above this is told in odds
Array = NDArray[np.float64]

EXAMPLE = """
version: 1
title: Emoji of the month
purpose: Show which emoji people use, so that the keyboard can offer them first.
sources:
  emoji: {reports: "in/*.arrow", protocol: emoji.json}
unit: {reports: 1, adjacency: replace-one}
budget: {epsilon: 1, delta: 0}
expected: {people: 10000}
outputs:
  - {name: emoji, kind: reports, source: emoji}
publication: {folder: release, formats: [csv], confidence: 0.95}
"""


class ReportsSpec(OutputSpec):
    """The estimates of one source of reports.

    `quantiles` are wanted of ordered values, `marginals` (lists of features, counted from 0) of rows, and `keys` of a sketch.
    """

    source: str
    weight: Number | None = 1
    quantiles: tuple[float, ...] = (0.25, 0.5, 0.75)
    marginals: tuple[tuple[int, ...], ...] = ()
    keys: tuple[str, ...] = ()

    @field_validator("quantiles", "keys", "marginals", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return (
            tuple(tuple(each) if isinstance(each, list) else each for each in value)
            if isinstance(value, list)
            else value
        )

    @field_validator("quantiles")
    @classmethod
    def _shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < each < 1 for each in value):
            raise ValueError("quantiles must lie between 0 and 1, such as 0.5")
        return value


Block = ReportsSpec


# --- where the reports are -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportSource(Source):
    """Sources of reports: their protocols, and the files that hold them. No report is read before the draw."""

    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @staticmethod
    def opened(job: Job, base: Path, *, there: bool) -> ReportSource:
        """The protocols; and where the files must be `there`, that they are, and no shuffled batch is too small."""
        protocols: dict[str, Protocol] = {}
        files: dict[str, tuple[str, ...]] = {}
        for name, source in job.sources.items():
            assert source.protocol is not None and source.reports is not None
            protocols[name] = _protocol(base / source.protocol, f"sources.{name}.protocol")
            if not there:
                continue
            files[name] = tuple(sorted(glob.glob(str(base / source.reports))))
            if not files[name]:
                words = "there is no such file; paths are relative to the job's own folder"
                raise JobError(words, place=f"sources.{name}.reports")
            if source.shuffled is not None:
                _large_enough(files[name], source.shuffled.at_least, f"sources.{name}.shuffled.at_least")
        return ReportSource(DuckDB(), (), protocols=protocols, files=files)

    def identities(self, known: Callable[[DataIdentity], bool] | None = None) -> tuple[DataIdentity, ...]:
        """Every protocol, and every file of reports by its bytes."""
        found = []
        for name, protocol in self.protocols.items():
            found += [DataIdentity("protocol", protocol.fingerprint), *map(DataIdentity.file, self.files[name])]
        return tuple(dict.fromkeys(found))

    def fingerprints(self) -> tuple[DataIdentity, ...]:
        """The same: other reports in their place are another run."""
        return self.identities()


def _protocol(path: Path, place: str) -> Protocol:
    try:
        return Protocol.read(path)
    except (OSError, UnicodeDecodeError):
        words = "the protocol cannot be read; write it with tacit local design --out"
    except ParameterError as error:
        words = str(error)
    raise JobError(words, place=place)


def _large_enough(files: Sequence[str], at_least: int, place: str) -> None:
    """The number of reports of a batch is public; a smaller batch than was priced tells more than was promised."""
    for file in files:
        if file.lower().endswith(COUNTS):
            raise JobError(
                "a file of counts does not say how large the batches were; name the shuffled batches",
                place=place,
            )
        if any(rows < at_least for rows in batch_sizes(file)):
            words = "a batch has fewer reports than at_least, so it tells more than is priced here; shuffle more at a time"
            raise JobError(words, place=place)


# --- planning ------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportsOutput:
    """A source of reports with its protocol, and how many people will report."""

    spec: ReportsSpec
    protocol: Protocol
    files: tuple[str, ...]
    people: int
    reports: int
    at_least: int | None
    confidence: float
    plain: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        return (FIGURES[self.protocol.randomiser.answered_by],)


#: What each sort of answer is called.
FIGURES = {
    "Estimates": "share", "Mean": "mean", "MeanVector": "mean", "RangeAnswers": "share up to a value", "MarginalAnswers": "share",
    "ViewAnswers": "share", "RowAnswers": "share", "SketchAnswers": "share",
}  # fmt: skip

#: Answers about some features of rows.
MARGINALS: dict[str, Any] = {"MarginalAnswers": MarginalAnswers, "ViewAnswers": ViewAnswers, "RowAnswers": RowAnswers}


def prepare(block: ReportsSpec, job: Job, desk: Desk, place: str) -> ReportsOutput:
    """Check the block against the job's sources."""
    source = desk.source
    if not isinstance(source, ReportSource) or block.source not in source.protocols:
        raise JobError("names no source of reports of the job", place=f"{place}.source")
    if block.accuracy is not None:
        raise JobError(
            "the devices' noise is fixed by the protocol; design another one for other errors",
            place=f"{place}.accuracy",
        )
    if sum(getattr(other, "source", None) == block.source for other in job.outputs) > 1:
        raise JobError("two outputs read these reports; one says all that they tell", place=f"{place}.source")
    protocol = source.protocols[block.source]
    answers = protocol.randomiser.answered_by
    if answers not in FIGURES:
        raise JobError(
            f"reports of this protocol are read by tacit.local.{answers}, not by a job",
            place=f"{place}.source",
        )
    if protocol.protects != "any two values":
        words = f"the protocol's price holds for {protocol.protects} only, so it is not local privacy and not published as such"
        raise JobError(words, place=f"{place}.source")
    if answers == "SketchAnswers" and not block.keys:
        raise JobError("a sketch is asked about keys: keys: [blue, green]", place=f"{place}.keys")
    if answers in MARGINALS and not block.marginals:
        raise JobError(
            "rows are asked about some of their features: marginals: [[0, 1], [2]]",
            place=f"{place}.marginals",
        )
    if job.expected.people is None:
        raise JobError("is missing; how many people report decides the error", place="expected.people")
    spec, unit = job.sources[block.source], job.unit.reports
    assert unit is not None
    at_least = None if spec.shuffled is None else spec.shuffled.at_least
    found = ReportsOutput(
        block,
        protocol,
        source.files.get(block.source, ()),
        job.expected.people,
        unit,
        at_least,
        job.publication.confidence,
    )
    _predicted(found)  # wrong features are an error now, not after the reports were read
    return found


@dataclass(frozen=True)
class PlannedReports:
    """Reports with their price, which the devices have paid."""

    output: ReportsOutput
    portion: Portion

    @property
    def spec(self) -> ReportsSpec:
        return self.output.spec

    @property
    def local(self) -> Event:
        """The price of all reports of one person, against everyone."""
        return _times(self.output.protocol.event, self.output.reports)

    @property
    def event(self) -> Event:
        """The price against those for whom the release is: the collector too, or all who see only shuffled batches."""
        at_least = self.output.at_least
        return (
            self.local
            if at_least is None
            else _times(Shuffled(self.output.protocol.event, at_least), self.output.reports)
        )

    @property
    def noise(self) -> str:
        return f"the devices' own ({self.output.protocol.randomiser.kind})"

    @property
    def size(self) -> int:
        if self.output.figures == ("mean",):
            return int(getattr(self.output.protocol.randomiser, "dimensions", 1))
        return (
            len(self.spec.keys) or self.output.protocol.size
            if not self.spec.marginals
            else len(self.spec.marginals)
        )

    @property
    def score(self) -> float:
        return math.log(_predicted(self.output))

    @property
    def errors(self) -> dict[str, float]:
        return self.errors_at(self.output.confidence)

    def errors_at(self, confidence: float) -> dict[str, float]:
        wide = float(half_width([1.0], "gaussian", confidence)[0])
        return {self.output.figures[0]: wide * _predicted(self.output)}


def _times(event: Event, reports: int) -> Event:
    return event if reports == 1 else Repeated(event, reports)


def _predicted(output: ReportsOutput) -> float:
    """The deviation of one figure at the most, as it will be when the expected people have reported."""
    protocol, n = output.protocol, output.people
    randomiser, holding = protocol.randomiser, protocol.values
    spread = math.sqrt(randomiser.variance(n))
    match randomiser.answered_by:
        case "Mean":
            assert isinstance(holding, Numbers)
            return spread * float(holding.upper - holding.lower) / 2
        case "MeanVector":
            assert isinstance(randomiser, VectorRandomiser) and isinstance(holding, BoundedVectors | UnitVectors | Projected)
            return float(np.max(holding.restored(np.zeros(randomiser.dimensions))[1])) * spread
        case "RangeAnswers":
            return RangeAnswers.expected_deviation(protocol, n)
        case "MarginalAnswers" | "ViewAnswers" | "RowAnswers":
            assert isinstance(holding, FeatureRows)
            sizes = holding.sizes
            if any(not 0 <= each < len(sizes) for features in output.spec.marginals for each in features):
                raise JobError(f"marginals name features from 0 to {len(sizes) - 1}", place="outputs")
    return spread


def plan(output: ReportsOutput, portion: Portion) -> PlannedReports:
    """The price is the protocol's, whatever the portion."""
    return PlannedReports(output, portion)


def notices(planned: PlannedReports, job: Job, place: str) -> list[Notice]:
    """Too few reporters, and reports that tell too much by themselves."""
    found = []
    epsilon = _epsilon(planned.local)
    if planned.output.people < FEW:
        found.append(
            Notice(
                "few reporters",
                "expected.people",
                f"fewer than {FEW:,} people report; little but noise will be visible",
            )
        )
    if epsilon > LARGE:
        words = f"what one device sends raises the odds of any value up to {math.exp(min(epsilon, 700.0)):,.0f} times"
        found.append(
            Notice(
                "large reports",
                place,
                f"{words}, for whoever sees single reports. Promise fewer reports, or ask for less",
            )
        )
    return found


def explain(planned: PlannedReports) -> tuple[str, str]:
    """What the devices did, in words; there is no statement."""
    told = planned.output.protocol.describe()
    words = (
        f"reports of {told['randomiser']} over {told['values']} values at epsilon {told['epsilon']:g}, {told['bytes']} bytes each; one "
        f"person draws {planned.output.reports} at the most, for {planned.event!r}. Nothing is paid here: the devices paid"
    )
    files = ", ".join(planned.output.files) or planned.spec.source
    return words, f"reports {files} of protocol {planned.output.protocol.fingerprint.hex()}"


# --- reading -------------------------------------------------------------------------------------------------------------------------


def draw(planned: PlannedReports) -> Record:
    """Count the reports. Nothing is drawn: what the devices drew is added up."""
    output = planned.output
    sort = False if output.at_least is not None else None
    found = Collector(output.protocol, nonces=sort)
    for file in output.files:
        if file.lower().endswith(COUNTS):
            found.merge(Collector(output.protocol, file))
        else:
            found.ingest_stream(file)
    counts = base64.b64encode(zlib.compress(found.table.astype("<i8").tobytes())).decode()
    return {"n": found.n, "dropped": dict(sorted(found.dropped.items())), "counts": counts}


@dataclass(frozen=True)
class Answers:
    """Figures of one source: groups of lines, each with its unbiased value and interval, and further columns for the file."""

    title: str
    groups: Mapping[str, Sequence[Any]]
    value: Array
    low: Array
    high: Array
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_arrow(self, figure: str) -> pa.Table:
        """As a table."""
        ends = {figure.replace(" ", "_"): self.value, "low": self.low, "high": self.high}
        return pa.table({**{name: list(values) for name, values in self.groups.items()}, **ends, **self.more})


@dataclass(frozen=True)
class ReportsAnswer:
    """What the reports of one source told: how many were counted, how many dropped, and the figures."""

    n: int
    dropped: Mapping[str, int]
    parts: tuple[Answers, ...]
    private: bool

    def __str__(self) -> str:
        lines = [f"{self.n:,} reports counted, {sum(self.dropped.values()):,} dropped"]
        for part in self.parts:
            order = (
                np.argsort(-part.value, kind="stable")
                if part.title == "shares"
                else np.arange(len(part.value))
            )
            for i in order[:PRINTED]:
                name = " · ".join(str(values[i]) for values in part.groups.values()) or part.title
                lines.append(f"  {name}: {part.value[i]:.4g} ({part.low[i]:.4g} to {part.high[i]:.4g})")
            if len(order) > PRINTED:
                lines.append(f"  and {len(order) - PRINTED:,} more in the files")
        return "\n".join(lines)


def result(planned: PlannedReports, drawn: Record, private: bool, entry: int | None) -> ReportsAnswer:
    """The estimates of what was counted."""
    protocol = planned.output.protocol
    table = np.frombuffer(zlib.decompress(base64.b64decode(drawn["counts"])), dtype="<i8").astype(np.int64)
    counted = Collector.restored(protocol, table, drawn["n"], drawn["dropped"])
    parts = _answers(planned, counted) if counted.n >= 2 else ()
    return ReportsAnswer(counted.n, dict(counted.dropped), tuple(parts), private)


def _answers(planned: PlannedReports, counted: Collector) -> list[Answers]:
    spec, confidence = planned.spec, planned.output.confidence
    wide = float(half_width([1.0], "gaussian", confidence)[0])
    match counted.protocol.randomiser.answered_by:
        case "Mean":
            mean = Mean.of(counted)
            low, high = mean.interval(confidence)
            return [Answers("mean", {}, np.array([mean.value]), np.array([low]), np.array([high]))]
        case "MeanVector":
            vector = MeanVector.of(counted)
            ends = vector.interval(confidence)
            return [
                Answers(
                    "mean of each coordinate",
                    {"coordinate": list(range(len(vector.value)))},
                    vector.value,
                    *ends,
                )
            ]
        case "RangeAnswers":
            return _ordered(planned, RangeAnswers.of(counted), wide)
        case "SketchAnswers":
            shares, deviation = SketchAnswers.of(counted).shares(list(spec.keys))
            return [
                Answers(
                    "shares", {"key": spec.keys}, shares, shares - wide * deviation, shares + wide * deviation
                )
            ]
        case "MarginalAnswers" | "ViewAnswers" | "RowAnswers" as sort:
            asked: Any = MARGINALS[sort].of(counted)
            return [_marginal(asked, features, wide) for features in spec.marginals]
    return [_shares(counted.estimate(), confidence)]


def _shares(found: Estimates, confidence: float) -> Answers:
    low, high = found.interval(confidence)
    least, most = found.interval(confidence, together=True)
    labels = (
        [str(label) for label in found.labels]
        if len({type(label) for label in found.labels}) > 1
        else list(found.labels)
    )
    more = {
        "low_together": least,
        "high_together": most,
        "count": found.count,
        "processed": found.processed(),
    }
    return Answers("shares", {"value": labels}, found.share, low, high, more)


def _ordered(planned: PlannedReports, found: RangeAnswers, wide: float) -> list[Answers]:
    spread = wide * found.deviations[1:]
    up_to = found.prefixes[1:]
    parts = [
        Answers(
            "share up to and including a value",
            {"value": list(range(found.size))},
            up_to,
            up_to - spread,
            up_to + spread,
        )
    ]
    # a quantile's ends are where the ends of the shares cross its level
    cdf, places = found.cdf(), []
    for share in planned.spec.quantiles:
        ends = [
            min(int(np.searchsorted(side, share)), found.size - 1) for side in (cdf + spread, cdf - spread)
        ]
        places.append((found.quantile(share), *ends))
    if places:
        value, low, high = np.array(places, dtype=np.float64).T
        parts.append(Answers("quantiles", {"quantile": list(planned.spec.quantiles)}, value, low, high))
    return parts


def _marginal(asked: Any, features: Sequence[int], wide: float) -> Answers:
    shares, deviation = asked.marginal(features)
    spread = math.nan if deviation is None else wide * deviation
    places = np.indices(shares.shape).reshape(len(features), -1)
    groups = {f"feature {each}": places[k].tolist() for k, each in enumerate(features)}
    flat = shares.ravel()
    return Answers(f"features {', '.join(map(str, features))}", groups, flat, flat - spread, flat + spread)


def checks(planned: PlannedReports, result: ReportsAnswer) -> list[tuple[str, bool]]:
    """Enough reports, and in a shuffled batch as many as were promised."""
    at_least = planned.output.at_least
    finite = all(bool(np.isfinite(part.value).all()) for part in result.parts)
    enough = (
        "there are as many reports as were promised to the shuffled",
        at_least is None or result.n >= at_least,
    )
    return [
        ("there are at least two reports of the protocol", result.n >= 2),
        enough,
        ("every estimate is finite", finite),
    ]


# --- publishing ----------------------------------------------------------------------------------------------------------------------


def _names(planned: PlannedReports, parts: int) -> list[str]:
    return [planned.spec.name if i == 0 else f"{planned.spec.name}_{i + 1}" for i in range(parts)]


def files(planned: PlannedReports, result: ReportsAnswer, formats: Sequence[str]) -> dict[str, bytes]:
    """A table for each group of figures."""
    found: dict[str, bytes] = {}
    for name, part in zip(_names(planned, len(result.parts)), result.parts, strict=True):
        figure = "value_at" if part.title == "quantiles" else planned.output.figures[0]
        found |= table_files(name, marked(part.to_arrow(figure), result.private), formats)
    return found


def recorded(planned: PlannedReports, result: ReportsAnswer) -> Record:
    """The protocol, how many reports, and their prices: of one, and of all that one person ever sends."""
    return {
        "source": planned.spec.source,
        "protocol": json.loads(planned.output.protocol.to_json()),
        "fingerprint": planned.output.protocol.fingerprint.hex(),
        "reports": result.n,
        "dropped": dict(result.dropped),
        "at_least": planned.output.at_least,
        "event": json.loads(to_json(planned.event)),
        "one report": json.loads(to_json(planned.output.protocol.event)),
        "lifetime": json.loads(to_json(planned.local)),
        "noise": planned.noise,
        "files": _names(planned, len(result.parts)),
    }


def post_processing(planned: PlannedReports) -> list[str]:
    """Estimates are computed from counts of reports."""
    return ["unbiased estimates from counts of reports"]


def described(planned: PlannedReports, result: ReportsAnswer | None) -> Record:
    """What the report shows."""
    protocol, parts = planned.output.protocol, []
    for part in () if result is None else result.parts:
        order = np.arange(len(part.value))
        if "value" in part.groups and part.title == "shares" and len(order) > SHOWN:
            order = np.argsort(-part.value, kind="stable")[:SHOWN]
        groups = {name: [str(values[i]) for i in order.tolist()] for name, values in part.groups.items()}
        ends = {
            name: [plain(float(getattr(part, name)[i])) for i in order.tolist()]
            for name in ("value", "low", "high")
        }
        parts.append({"title": part.title, "groups": groups, "lines": len(part.value), **ends})
    frequencies = protocol.randomiser.answered_by == "Estimates"
    return {
        "name": planned.spec.name,
        "title": planned.spec.title,
        "answered": result is not None,
        "reports": None if result is None else result.n,
        "dropped": {} if result is None else dict(result.dropped),
        "parts": parts,
        "within": plain(next(iter(planned.errors.values()))),
        "figure": planned.output.figures[0],
        "protocol": {
            "fingerprint": protocol.fingerprint.hex(),
            **{k: str(v) for k, v in protocol.describe().items()},
        },
        "forged": forged_for(protocol, 0.01) if frequencies else None,
        "event": repr(planned.event),
        "one": repr(protocol.event),
        "notes": [
            "Estimates are unbiased: shares may lie below 0 or above 1, and a value that no one holds shows noise around 0.",
            "What a device held outside the public list was counted as the list's default.",
            "No collector can tell a forged report from an unlucky draw; what forged ones can do is said below.",
        ],
    }


def section(described: Record, confidence: str) -> str:
    """Pictures of the figures, what was dropped, and what forged reports could have done."""
    drawn = [
        pictures.table(
            p["groups"],
            p["title"],
            *([math.nan if x is None else x for x in p[end]] for end in ("value", "low", "high")),
        )
        for p in described["parts"]
    ]
    return template("reports.html").render(output=described, pictures=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedReports], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about reports."""
    return {
        "Do bounds or groups come from the data?": "No: the values are the protocol's public list, fixed before anything was sent.",
        "Can the rounding of numbers leak?": "Reports are whole numbers with exact odds, drawn on the devices; here they are added up.",
        "Who bears the noise?": "Every value alike: the deviation of a share hardly depends on how many people hold it.",
    }


# --- who adds the noise --------------------------------------------------------------------------------------------------------------


def deployment(outputs: Sequence[PlannedReports]) -> Deployment:
    """Local or shuffled, against whom, and the price of all reports that one person ever sends."""
    local = Composed(*(one.local for one in outputs)) if len(outputs) > 1 else outputs[0].local
    shuffled = all(one.output.at_least is not None for one in outputs)
    reports, sources = outputs[0].output.reports, len(outputs)
    alone = rounded_up(_epsilon(local), 4)
    one = rounded_up(max(_epsilon(each.output.protocol.event) for each in outputs), 4)
    times = "one report" if reports == 1 else f"{reports} reports"
    cap = f"at most {times} of one person{f' for each of {sources} sources' if sources > 1 else ''}, for good, as the devices' books keep"
    whom = "all who see only the shuffled batches" if shuffled else "everyone, the collector included"
    if shuffled:
        least = min(one.output.at_least or 0 for one in outputs)
        actors = f"devices randomise; a shuffler mixes at least {least:,} reports and is trusted not to tell who sent what"
        words = [
            f"Every value was randomised on its person's own device. Against {whom}, the shuffled price above holds. Against the shuffler "
            f"and whoever watches devices send, ε ≤ {alone} holds for all reports of one person together."
        ]
    else:
        actors = "devices randomise; no collector is trusted"
        words = [
            f"Every value was randomised on its person's own device before it was sent. The promise holds against {whom}, and against "
            "whoever takes the collector's data."
        ]
    missing = [
        "What is true of whole groups: shares of values are what is published.",
        "That a person has reported at all, when, and from which address: reports hide values, not their senders.",
        "The public list of values, the randomiser and its odds.",
        *(["When a value changes, where a device may report more than once."] if reports > 1 else []),
        "Other protocols that the same person reports to: losses add up, and only the device's own book knows them all.",
    ]
    return Deployment(
        model="Shuffle" if shuffled else "Local",
        actors=actors,
        booked=(
            f"The devices paid before they sent anything: ε ≤ {one} for one report, ε ≤ {alone} for all that one person ever sends. "
            "The ledger books nothing: adding up what was sent tells no more."
        ),
        unit={
            "one": "one person with all reports",
            "short": "each person who reports",
            "cap": cap,
            "relation": "replace one: all values of one person are exchanged for any others; how many people report is public",
        },
        promise=words,
        limits=missing,
        domain="; ".join(f"{o.spec.source}: {o.output.protocol.size:,} public values" for o in outputs),
        parameters=(
            f"against {whom}, for all reports that one person ever sends; one report: epsilon {one}; "
            f"all without a shuffler: {alone}"
        ),
        composition=f"{times} of one person for each of {sources} protocol{'s' if sources > 1 else ''}; the release adds nothing",
        mechanisms={
            "noise": ", ".join(dict.fromkeys(o.noise for o in outputs)),
            "floating_point": "reports are drawn exactly, with rational odds, from the device's entropy",
            "access_control": "every device keeps a book of its own and refuses when its lifetime budget is spent",
        },
        record={
            "against": whom, "one report": one, "lifetime": alone, "reports of one person": reports,
            "shuffled at least": [o.output.at_least for o in outputs],
        },
    )  # fmt: skip


def _epsilon(event: Event) -> float:
    """The pure price of local events."""
    return account(event, Adjacency.REPLACE_ONE).epsilon(0).upper
