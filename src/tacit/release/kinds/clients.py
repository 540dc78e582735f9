"""`kind: clients`: a question to people's devices or to silos, asked through a Flower grid, in a job like any other.

The source says whom to trust and in which window a client answers once; the rows stay on the clients. Planning needs no
client. A run needs a grid, so it is called inside a Flower ServerApp: `run(job, tables={"phones": grid})`. The price is
booked before the first message, and a round with too few survivors stays booked.

>>> from tacit.release.job import parse
>>> from tacit.release.planning import plan
>>> found = plan(parse(EXAMPLE))
>>> round(found["emoji"].errors["clients"], 1), type(found["emoji"].event).__name__
(30.2, 'Gaussian')
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import field_validator

from tacit import federated
from tacit.accounting import Event, to_json
from tacit.errors import ParameterError
from tacit.ledger import DataIdentity
from tacit.mechanisms import half_width
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import Number, OutputSpec
from tacit.release.kinds import Deployment, Notice, Portion, Record, marked, table_files
from tacit.release.page import plain, template
from tacit.tables import Desk, DuckDB, Source

if TYPE_CHECKING:
    from tacit.federated import ClientQuestion, WordSearch
    from tacit.release.job import Job

PRODUCT = "Figures from federated clients"
SHOWN = 40  # lines of a picture
ASK = "clients are reached through a Flower grid: in the main function of a ServerApp, run(job, tables={name: grid})"

EXAMPLE = """
version: 1
title: Emoji of the week
purpose: Show which emoji people use, so that the keyboard can offer them first.
sources:
  phones: {clients: {trust: central, window: 2026-W47}}
unit: {clients: 1, adjacency: add-remove}
budget: {epsilon: 0.25, delta: 1e-6}
expected: {people: 10000}
outputs:
  - {name: emoji, kind: clients, source: phones, question: histogram, keys: [smile, wink, cry], max_contributions: 1, weight: 1}
publication: {folder: release, formats: [csv], confidence: 0.95}
"""


class ClientsSpec(OutputSpec):
    """One question. `keys` are public; `bounds` are those of a number or, as four numbers, of a map; `edges` those of a quantile.

    A search (`heavy_hitters`) has an `alphabet` or the four `bounds` of a map, and a `length`: of words, or of halvings. What it
    finds is not known before; its `prefixes` are how many beginnings are followed at a time.

    A client's app answers a question by its name, which is the name of the output.
    """

    source: str
    question: Literal["count", "sum", "mean", "histogram", "top_k", "quantile", "heatmap", "heavy_hitters"]
    weight: Number | None = 1
    keys: tuple[str | int, ...] = ()
    max_contributions: int | None = None
    k: int | None = None
    bounds: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    share: float = 0.5
    shape: tuple[int, ...] = ()
    alphabet: str | None = None
    length: int = 0
    prefixes: int = 64

    @field_validator("keys", "shape", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("bounds", "edges", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        if not isinstance(value, list) or any(isinstance(each, bool) for each in value):
            return value
        return tuple(float(each) if isinstance(each, int) else each for each in value)

    def asked(self, **how: Any) -> ClientQuestion | WordSearch:
        """The question for a price."""
        how = {"name": self.name, **how}
        match self.question:
            case "count":
                return federated.count(**how)
            case "sum" | "mean":
                if len(self.bounds) != 2:
                    raise ParameterError("bounds must be [lower, upper]: a client's number is clamped to them")
                return (federated.sum if self.question == "sum" else federated.mean)(*self.bounds, **how)
            case "histogram":
                return federated.histogram(list(self.keys), max_contributions=self.max_contributions, **how)
            case "top_k":
                return federated.top_k(list(self.keys), self.k or 0, max_contributions=self.max_contributions, **how)
            case "quantile":
                return federated.quantile(self.share, list(self.edges), **how)
            case "heavy_hitters":
                if (self.alphabet is None) == (len(self.bounds) != 4):
                    raise ParameterError("heavy_hitters has an alphabet of letters, or bounds: [left, bottom, right, top], and a length")
                over: Any = self.alphabet if self.alphabet is not None else self.bounds
                return federated.heavy_hitters(over, self.length, prefixes=self.prefixes, **how)
        if len(self.bounds) != 4 or len(self.shape) != 2:
            raise ParameterError("a heatmap has bounds: [left, bottom, right, top] and shape: [rows, columns]")
        return federated.heatmap(self.bounds, self.shape, max_contributions=self.max_contributions, **how)


Block = ClientsSpec


# --- where the clients are --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClientSource(Source):
    """Sources that are clients, and the grids through which they are asked; planning has none."""

    grids: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @staticmethod
    def opened(job: Job, grids: Mapping[str, Any] | None) -> ClientSource:
        """The job's clients; where they are to be asked, every source has a grid."""
        for name in job.sources:
            if grids is not None and not hasattr(grids.get(name), "send_and_receive"):
                raise JobError(ASK, place=f"sources.{name}.clients")
        return ClientSource(DuckDB(), (), grids=grids or {}, names=tuple(job.sources))

    def identities(self, known: Callable[[DataIdentity], bool] | None = None) -> tuple[DataIdentity, ...]:
        """The name of each fleet: what its clients hold cannot be looked at."""
        return tuple(DataIdentity("clients", hashlib.sha256(name.encode()).digest()) for name in self.names)

    def fingerprints(self) -> tuple[DataIdentity, ...]:
        return self.identities()


# --- planning -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClientsOutput:
    """A question with whom it trusts. Its price has a delta, so the job searches for what fits."""

    spec: ClientsSpec
    how: Mapping[str, Any]
    window: str
    grid: Any
    confidence: float
    plain: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        return ({"sum": "sum", "mean": "mean"}.get(self.spec.question, "clients"),)


def prepare(block: ClientsSpec, job: Job, desk: Desk, place: str) -> ClientsOutput:
    """Check the block against the job's sources."""
    source = desk.source
    if not isinstance(source, ClientSource) or block.source not in source.names:
        raise JobError("names no source of clients of the job", place=f"{place}.source")
    if job.expected.people is None:
        raise JobError("is missing; how many clients answer decides the error, and divides nothing", place="expected.people")
    if job.budget.delta == 0 or job.budget.epsilon is None:
        raise JobError("sums of clients have Gaussian noise, which needs epsilon and a delta", place="budget")
    spec = job.sources[block.source].clients
    assert spec is not None and job.unit.clients is not None
    how: dict[str, Any] = {"clients": job.expected.people, "trust": spec.trust, "dropouts": spec.dropouts, "colluding": spec.colluding}
    how["unit"] = federated.ClientUnit("user", clients=job.unit.clients)
    found = ClientsOutput(block, how, spec.window, source.grids.get(block.source), job.publication.confidence)
    try:
        block.asked(**how, noise_multiplier=10.0, delta=1e-6)  # wrong keys and bounds are said now
    except (federated.FederatedError, ParameterError) as error:
        raise JobError(str(error), place=place) from None
    return found


@dataclass(frozen=True)
class PlannedClients:
    """A question with its price."""

    output: ClientsOutput
    portion: Portion

    @cached_property
    def asked(self) -> ClientQuestion | WordSearch:
        """The question with the least noise for its price."""
        amounts = self.portion.spend.floats
        if not amounts.epsilon or not amounts.delta:  # a share without a delta buys next to nothing
            return self.spec.asked(**self.output.how, noise_multiplier=1e6, delta=1e-9)
        return self.spec.asked(**self.output.how, epsilon=float(amounts.epsilon), delta=float(amounts.delta))

    @property
    def spec(self) -> ClientsSpec:
        return self.output.spec

    @property
    def event(self) -> Event:
        return self.asked.plan.event

    @property
    def noise(self) -> str:
        return "skellam shares" if self.asked.plan.trust == "distributed" else "gaussian"

    @property
    def size(self) -> int:
        from tacit.federated import WordSearch

        return self.asked.plan.size if isinstance(self.asked, WordSearch) else len(self.asked.labels)

    @property
    def searching(self) -> bool:
        """Whether what is named in the answer comes out of it."""
        return self.spec.question == "heavy_hitters"

    @property
    def score(self) -> float:
        return math.log(self.deviation)

    @property
    def deviation(self) -> float:
        """Of one figure, when the expected clients have answered."""
        asked: Any = self.asked
        if self.searching:
            return float(asked.deviation)
        return float(asked.answered(np.full(asked.plan.size, float(self.output.how["clients"]))).deviation)

    @property
    def errors(self) -> dict[str, float]:
        return self.errors_at(self.output.confidence)

    def errors_at(self, confidence: float) -> dict[str, float]:
        return {self.output.figures[0]: float(half_width([1.0], "gaussian", confidence)[0]) * self.deviation}


def plan(output: ClientsOutput, portion: Portion) -> PlannedClients:
    """The question at a price. No client is asked."""
    return PlannedClients(output, portion)


def notices(planned: PlannedClients, job: Job, place: str) -> list[Notice]:
    """Whom the server must be trusted with."""
    if planned.asked.plan.trust != "central":
        return []
    words = "the server sees every client's clipped answer before the noise; trust: distributed asks under masks"
    return [Notice("trusted server", f"sources.{planned.spec.source}.clients.trust", words)]


def explain(planned: PlannedClients) -> tuple[str, str]:
    """What clients send and what is added, in words; there is no statement."""
    made = planned.asked.plan
    words = (
        f"each client sends one vector of {made.size:,} numbers of norm at most {made.clip:.4g}, once in {planned.output.window}; "
        f"{made.trust} trust, noise multiplier {made.noise_multiplier:.4g}: {made.event!r}"
    )
    return words, f"question {planned.spec.name} to the clients of {planned.spec.source}"


# --- asking -------------------------------------------------------------------------------------------------------------


def draw(planned: PlannedClients) -> Record:
    """Ask the clients, once. The job has paid, so nothing is booked here."""
    asked: Any = planned.asked
    found = asked.ask(planned.output.grid, None, window=planned.output.window)
    if planned.searching:
        labels = [word if isinstance(word, str) else f"row {word[0]}, column {word[1]}" for word in found]
        return {"labels": labels, "values": list(found.values()), "deviation": asked.deviation}
    return {"values": [float(value) for value in found.values], "deviation": found.deviation}


@dataclass(frozen=True)
class ClientsAnswer:
    """The figures of a question, with the deviation of their noise."""

    labels: tuple[str, ...]
    value: Any
    deviation: float
    private: bool

    def __str__(self) -> str:
        order = np.argsort(-self.value, kind="stable")[:10] if len(self.labels) > 10 else range(len(self.labels))
        return "\n".join(f"  {self.labels[i]}: {self.value[i]:,.4g} (deviation {self.deviation:.3g})" for i in order)


def result(planned: PlannedClients, drawn: Record, private: bool, entry: int | None) -> ClientsAnswer:
    """The figures of what was drawn; a quantile is read off its histogram."""
    asked: Any = planned.asked
    values = np.array(drawn["values"], dtype=np.float64)
    labels = list(drawn["labels"]) if planned.searching else [str(label) for label in asked.labels]
    if planned.spec.question == "quantile":
        edges = planned.spec.edges
        labels = [f"{edges[i]:g} to {edges[i + 1]:g}" for i in range(len(values))]
        labels.append(f"quantile {planned.spec.share:g}")
        point = asked.value(federated.ClientAnswers(asked.labels, values, drawn["deviation"], asked.plan))
        values = np.append(values, point)
    return ClientsAnswer(tuple(labels), values, float(drawn["deviation"]), private)


def checks(planned: PlannedClients, result: ClientsAnswer) -> list[tuple[str, bool]]:
    """Every figure is a number."""
    return [("every figure is finite", bool(np.isfinite(result.value).all()))]


# --- publishing ---------------------------------------------------------------------------------------------------------


def files(planned: PlannedClients, result: ClientsAnswer, formats: Sequence[str]) -> dict[str, bytes]:
    """One table: label, figure, ends of its interval; a quantile has no interval."""
    wide = float(half_width([1.0], "gaussian", planned.output.confidence)[0]) * result.deviation
    ends = np.full(len(result.labels), wide)
    if planned.spec.question == "quantile":
        ends[-1] = np.nan
    figure = planned.output.figures[0]
    names = pa.array(result.labels, pa.string())  # a search may find none
    table = pa.table({"label": names, figure: result.value, "low": result.value - ends, "high": result.value + ends})
    return table_files(planned.spec.name, marked(table, result.private), formats)


def recorded(planned: PlannedClients, result: ClientsAnswer) -> Record:
    """The plan and its prices; no figure."""
    made = planned.asked.plan
    return {
        "source": planned.spec.source, "question": planned.spec.question, "plan": json.loads(made.text), "fingerprint": made.fingerprint,
        "window": planned.output.window, "event": json.loads(to_json(planned.event)), "noise": planned.noise,
        "prices": {price.adversary: price.words for price in made.prices()}, "part": float(planned.portion.part),
        "price": planned.portion.spend.words,
    }  # fmt: skip


def post_processing(planned: PlannedClients) -> list[str]:
    """What is made of the noisy sum."""
    made = {"mean": "noisy sum over noisy count", "quantile": "a point of the noisy histogram",
            "heavy_hitters": "beginnings of words below a threshold are left out"}  # fmt: skip
    return [made[planned.spec.question]] if planned.spec.question in made else []


def described(planned: PlannedClients, result: ClientsAnswer | None) -> Record:
    """What the report shows."""
    made = planned.asked.plan
    found: Record = {
        "name": planned.spec.name, "title": planned.spec.title, "answered": result is not None, "question": planned.spec.question,
        "figure": planned.output.figures[0], "within": plain(next(iter(planned.errors.values()))), "trust": made.trust,
        "window": planned.output.window, "clients": planned.output.how["clients"], "event": repr(planned.event),
        "fingerprint": made.fingerprint,
        "prices": [[price.adversary, price.words] for price in made.prices()], "plan": str(made).splitlines(),
    }  # fmt: skip
    if result is not None:
        order = np.argsort(-result.value, kind="stable")[:SHOWN].tolist() if len(result.labels) > SHOWN else range(len(result.labels))
        found |= {"labels": [result.labels[i] for i in order], "value": [plain(float(result.value[i])) for i in order],
                  "lines": len(result.labels)}  # fmt: skip
    return found


def section(described: Record, confidence: str) -> str:
    """A picture of the figures, and against whom each price holds."""
    drawn = ""
    if described["answered"] and described["labels"]:  # a search may find nothing
        width = described["within"] or 0.0
        value = [math.nan if x is None else x for x in described["value"]]
        ends = ([x + sign * width for x in value] for sign in (-1, 1))
        drawn = pictures.table({"label": described["labels"]}, described["figure"], value, *ends)
    return template("clients.html").render(output={**described, "shown": SHOWN}, picture=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedClients], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about clients."""
    return {
        "Do bounds or groups come from the data?": "No: keys, edges and bounds stand in the job, and clients keep to them.",
        "Can the rounding of numbers leak?": "Clients send whole numbers, cut to size; noise is drawn on whole numbers"
        + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
        "Who bears the noise?": "Every figure alike, so rare keys have the larger relative error.",
    }


def deployment(outputs: Sequence[PlannedClients]) -> Deployment:
    """Who adds the noise, and against whom the price holds."""
    made = outputs[0].asked.plan
    shared = made.trust == "distributed"
    whom = "the server too, with the stated share of clients on its side" if shared else "all who see the published figures"
    actors = (
        "clients add their shares of the noise and send masked vectors; the server sees the noisy sum"
        if shared
        else "clients send clipped vectors; a trusted server adds them up and adds the noise"
    )
    return Deployment(
        model="Federated",
        actors=actors,
        booked="The price was booked before the first message, and each client's own book has paid as well. A round with too few "
        "survivors stays booked, and no round is repeated.",
        unit={
            "one": str(made.unit), "short": "each client", "cap": "one answer in a window, of bounded size, as the clients' books keep",
            "relation": "add or remove one client" if not shared else "one client's answer or none; who took part is known",
        },
        promise=[f"The promise holds against {whom}. Raw data stay on the clients."],
        limits=[
            "When a client is reachable, and that it refuses, is seen by the server.",
            "A client that lies can shift a sum.",
            *(["The server is trusted with every clipped answer."] if not shared else []),
        ],
        domain="; ".join(f"{one.spec.source}: {one.size:,} public cells" for one in outputs),
        parameters=f"against {whom}",
        composition="all questions of the job are one event",
        mechanisms={"noise": ", ".join(dict.fromkeys(one.noise for one in outputs)),
                    "access_control": "every client keeps a policy and a book of its own, and refuses by itself"},
        record={"against": whom, "trust": made.trust},
    )  # fmt: skip

