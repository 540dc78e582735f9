"""`kind: network`: a power network whose loads are protected and whose re-optimised cost is kept.

The source names a MATPOWER case or a pandapower network, the unit says by how many MW one load may differ, and the block what
is public about the cost. What is drawn is noisy loads (`tacit.applications.energy.CasePlan`); the published case is made of them.
The relation is a distance, not a person: the ledger books it under its own unit.

>>> import pathlib, tempfile
>>> from tacit.applications.energy import Network
>>> from tacit.release.job import parse
>>> from tacit.release.planning import plan
>>> base = pathlib.Path(tempfile.mkdtemp())
>>> text = Network.nine_buses().to_matpower(base / "case9.m")
>>> found = plan(parse(EXAMPLE), base=base)
>>> found["loads"].event, found["loads"].errors
(Laplace(noise_multiplier=1, adjacency=Adjacency.REPLACE_ONE), {'load': 14.98...})
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import model_validator

from tacit.accounting import Event
from tacit.applications.energy import CasePlan, EnergyError, Network, PaidCost, ReleasedCase, dispatch
from tacit.errors import PackageMissing, ParameterError
from tacit.exact import exact
from tacit.ledger import DataIdentity
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.job_parts import JobPart, Number, OutputSpec
from tacit.release.kinds import Deployment, Notice, Portion, Record, fields, marked, table_files
from tacit.release.page import plain, template
from tacit.tables import Desk, DuckDB, Source

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Network cases"
SHOWN = 40  # loads in the report's picture; all of them are in the files
#: What plain noise above this share of the mean load says: the published loads are mostly noise.
MOSTLY = 1.0

EXAMPLE = """
version: 1
title: Winter peak
purpose: Give researchers a network that solves like ours.
sources:
  grid: {network: case9.m}
unit: {load: 5, adjacency: replace-one}
budget: {epsilon: 1, delta: 0}
outputs:
  - {name: loads, kind: network, source: grid, buses: file, cost: {public: 5216.03}, band: 0.01, weight: 1}
publication: {folder: release, formats: [csv], confidence: 0.95}
"""


class CostSpec(JobPart):
    """What is public about the cost: the number (`public`), or a cap on what one MW can cost (`price`) and the `share` of the output's
    price that buys the cost."""

    public: Number | None = None
    price: Number | None = None
    share: Number | None = None

    @model_validator(mode="after")
    def _one(self) -> CostSpec:
        if (self.public is None) == (self.price is None) or (self.price is None) != (self.share is None):
            raise ValueError("cost is {public: <money for an hour>}, or {price: <cap for a MWh>, share: 0.25} to pay for it")
        if self.share is not None and not 0 < exact("share", self.share) < 1:
            raise ValueError("share must lie between 0 and 1: the part of the output's price that buys the cost")
        return self


class NetworkSpec(OutputSpec):
    """A released case: its source, what is public about its cost, and the band within which the cost is kept.

    `lowest` is the public least load of a bus in MW. `buses: file` declares that which buses have a load is public, as the file shows
    it; `buses: all` gives every bus a load, so that not even this is told. There is no default: it is the curator's decision.
    `power_factor` sets reactive loads, which are 0 without it. Complex loads are released from Python (`release_case`, model='ac').
    """

    source: str
    cost: CostSpec
    band: float
    buses: Literal["file", "all"]
    lowest: float = 0.0
    power_factor: float | None = None


Block = NetworkSpec


# --- where the networks are -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkSource(Source):
    """Sources that are networks, and the files that hold them."""

    networks: Mapping[str, Network] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def opened(job: Job, base: Path) -> NetworkSource:
        """The networks of a job; a file that does not parse is refused here, with its line, before anything is paid."""
        networks: dict[str, Network] = {}
        files: dict[str, str] = {}
        for name, source in job.sources.items():
            assert source.network is not None
            place, path = f"sources.{name}.network", base / source.network
            if not path.is_file():
                raise JobError("there is no such file; paths are relative to the job's own folder", place=place)
            try:
                networks[name] = Network.read(path)
            except (EnergyError, PackageMissing) as error:
                raise JobError(str(error), place=place).coded_as(error) from None
            files[name] = str(path)
        return NetworkSource(DuckDB(), (), networks=networks, files=files)

    def identities(self, known: Callable[[DataIdentity], bool] | None = None) -> tuple[DataIdentity, ...]:
        """Every file by its bytes, and every network by its loads: a case that is written otherwise is the same data."""
        found = [DataIdentity.file(path) for path in self.files.values()]
        for network in self.networks.values():
            held = [network.buses.tolist(), network.loads.tolist(), network.reactive.tolist()]
            found.append(DataIdentity.rows([list(row) for row in zip(*held, strict=True)]))
        return tuple(dict.fromkeys(found))

    def fingerprints(self) -> tuple[DataIdentity, ...]:
        """The same: another file in its place is another run."""
        return self.identities()


# --- planning -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkOutput:
    """A network with what is wanted of it. Its price is pure, so the job searches for what fits."""

    spec: NetworkSpec
    network: Network
    change: Fraction
    confidence: float
    plain: bool = False
    figures: tuple[str, ...] = ("load",)
    _made: dict[Fraction, CasePlan] = field(default_factory=dict, repr=False, compare=False)

    def case(self, epsilon: Fraction) -> CasePlan:
        """The plan of the release at a price, made once for each: a job asks for many prices."""
        if epsilon not in self._made:
            spec, cost = self.spec, self.spec.cost
            told: Any = None if cost.public is None else exact("public", cost.public)
            own = epsilon
            if cost.price is not None:
                part = exact("share", cost.share)
                own, told = epsilon * (1 - part), PaidCost(epsilon * part, exact("price", cost.price))
            self._made[epsilon] = CasePlan(
                self.network, self.change, own, told, spec.band, spec.lowest, power_factor=spec.power_factor
            )
        return self._made[epsilon]


def prepare(block: NetworkSpec, job: Job, desk: Desk, place: str) -> NetworkOutput:
    """Check the block against the network. Only its public tables are used."""
    source = desk.source
    if not isinstance(source, NetworkSource) or block.source not in source.networks:
        raise JobError("names no network of the job", place=f"{place}.source")
    network = source.networks[block.source]
    network = network if block.buses == "file" else network.declare_load_buses()
    found = NetworkOutput(block, network, exact("load", job.unit.load), job.publication.confidence)
    try:
        found.case(Fraction(1))  # a cost out of reach is said now
    except (EnergyError, ParameterError) as error:
        raise JobError(str(error), place=place).coded_as(error) from None
    return found


@dataclass(frozen=True)
class PlannedNetwork(fields.Priced):
    """A release of a network with its price."""

    @cached_property
    def case(self) -> CasePlan:
        """The plan of the release."""
        found: CasePlan = self.output.case(self.portion.spend.laplace_epsilon or Fraction(1))
        return found

    @property
    def event(self) -> Event:
        return self.case.event

    @property
    def noise(self) -> str:
        return "laplace"

    @property
    def size(self) -> int:
        return len(self.output.network.load_buses)

    @property
    def score(self) -> float:
        return math.log(self.case.scale)

    def errors_at(self, confidence: float) -> dict[str, float]:
        return {"load": self.case.error(confidence)}


def plan(output: NetworkOutput, portion: Portion) -> PlannedNetwork:
    """The release at a price. No load is touched."""
    return PlannedNetwork(output, portion)


def notices(planned: PlannedNetwork, job: Job, place: str) -> list[Notice]:
    """Noise that is larger than what the network can serve at a bus on average."""
    network = planned.output.network
    mean = network.capacity / max(1, len(network.load_buses))
    if planned.case.scale < MOSTLY * mean:
        return []
    text = f"the noise of a load has scale {planned.case.scale:,.3g} MW, and the network can serve {mean:,.3g} MW a load on average"
    return [Notice("mostly-noise", place, f"{text}; protect a smaller change, or give it more weight")]


def explain(planned: PlannedNetwork) -> tuple[str, str]:
    """What is done to the loads, in words; there is no statement."""
    case = planned.case
    words = (
        f"{planned.size} loads of {planned.output.network.name} get {planned.noise} noise of scale {case.scale:.4g} MW: {case.event!r}; "
        f"then the likeliest loads whose cheapest dispatch costs what is told within {case.band:.3g}"
    )
    return words, f"loads of {planned.spec.source}"


def draw(planned: PlannedNetwork) -> Record:
    """Touch the loads and add noise, once."""
    return planned.case.draw()


def result(planned: PlannedNetwork, drawn: Record, private: bool, entry: int | None) -> ReleasedCase:
    """The published case."""
    return planned.case.result(drawn, private=private, entry=entry)


def checks(planned: PlannedNetwork, result: ReleasedCase) -> list[tuple[str, bool]]:
    """The case is read again from its file, dispatched, and its cost compared."""
    again = Network.from_matpower(result.to_matpower())
    cost = dispatch(again).cost
    return [
        ("every load is finite", bool(np.isfinite(result.loads).all())),
        ("the re-optimised cost is within the band", abs(cost / result.cost - 1) <= planned.case.band),
    ]


def files(planned: PlannedNetwork, result: ReleasedCase, formats: Sequence[str]) -> dict[str, bytes]:
    """The case as .m, as pandapower's JSON where pandapower is installed, and its loads as a table."""
    name = planned.spec.name
    mark = "" if result.private else "% NOT PRIVATE: drawn in test mode\n"
    found = {f"{name}.m": (mark + result.to_matpower()).encode()}
    if importlib.util.find_spec("pandapower") is not None:
        import pandapower

        found[f"{name}.json"] = pandapower.to_json(result.to_pandapower(), None).encode()
    import pyarrow as pa

    network = result.network
    table = pa.table({"bus": list(network.load_buses), "mw": result.loads, "mvar": network.reactive[network.load_places]})
    return found | table_files(f"{name}_loads", marked(table, result.private), formats)


def recorded(planned: PlannedNetwork, result: ReleasedCase) -> Record:
    """The price, the noise and the band; no load."""
    case = planned.case
    return fields.recorded_of(
        planned, source=planned.spec.source, protects=case.unit, scale=case.scale, band=case.band,
        cost="public" if case.cost_noise is None else "paid for", loads=planned.size,
    )


def post_processing(planned: PlannedNetwork) -> list[str]:
    """How loads are restored from noise."""
    return ["likeliest loads whose cheapest dispatch is feasible and costs what is told, within a band"]


def described(planned: PlannedNetwork, result: ReleasedCase | None) -> Record:
    """What the report shows of it."""
    found = fields.opening_of(planned, result) | {
        "unit": planned.case.unit, "scale": plain(planned.case.scale), "within": plain(planned.errors["load"]),
        "band": plain(planned.case.band), "loads": planned.size, "network": planned.output.network.name,
    }  # fmt: skip
    if result is not None:
        shown = slice(0, SHOWN)
        found |= {
            "buses": [str(bus) for bus in result.network.load_buses[shown]], "mw": [plain(x) for x in result.loads[shown].tolist()],
            "noisy": [plain(x) for x in result.noisy[shown].tolist()], "cost": plain(result.cost), "again": plain(result.dispatch.cost),
        }  # fmt: skip
    return found


def section(described: Record, confidence: str) -> str:
    """A picture of the loads and what was kept."""
    drawn = ""
    if described["answered"]:
        width = described["within"] or 0.0
        mw, noisy = ([math.nan if x is None else x for x in described[name]] for name in ("mw", "noisy"))
        low, high = ([x + sign * width for x in noisy] for sign in (-1, 1))
        drawn = pictures.table({"bus": described["buses"]}, "MW", mw, low, high)
    return template("network.html").render(output={**described, "shown": SHOWN}, picture=drawn, confidence=confidence)


def review(outputs: Sequence[PlannedNetwork], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about networks."""
    return {
        "Do bounds or groups come from the data?": "Loads are clamped to the capacity of all generators, which is public. Which buses have "
        "a load is taken to be public" + ("." if all(one.spec.buses == "file" for one in outputs) else ", or every bus has one."),
        "Can the rounding of numbers leak?": "Loads are rounded down to whole granules, and the noise is drawn on whole numbers"
        + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
        "Who bears the noise?": "Every load gets noise of the same size, so small loads have the larger relative error.",
    }


# --- what is promised -----------------------------------------------------------------------------------------------


def deployment(outputs: Sequence[PlannedNetwork]) -> Deployment:
    """The words of a promise about a distance: a load that differs, not a person who is there or not."""
    unit = outputs[0].case.unit
    relation = f"two networks with the same public tables that differ in {unit}"
    return Deployment(
        model="Central",
        actors="the operator holds the loads and adds the noise",
        booked="The price was booked before any load was touched, in an account of its own unit. It is never added to the epsilon of "
        "people, stays booked whatever happens afterwards, and no draw is repeated.",
        unit={
            "one": unit, "short": unit, "relation": relation,
            "cap": "a load that differs by more is protected less, in proportion",
        },
        promise=[
            f"Whoever sees the published networks can hardly tell apart {relation}. This holds against anyone, with any other knowledge, "
            "all other loads included."
        ],
        limits=[
            "The network itself: buses, branches, generators, limits, costs, and which buses have a load.",
            "The cost of an hour, where it is declared public.",
            "A load that differs by more than the declared change: twice the change is protected half as well.",
            "Several networks of the same grid, such as one for every hour: each is another release, and losses add up.",
        ],
        domain="; ".join(f"{one.spec.source}: {one.size:,} loads" for one in outputs),
        parameters=f"for {unit}",
        composition="all outputs of the job are one event",
        mechanisms={"noise": ", ".join(dict.fromkeys(one.noise for one in outputs))},
        record={"protects": unit},
        about="It is about loads between the declared least and the capacity of all generators; others count as these ends.",
    )  # fmt: skip
