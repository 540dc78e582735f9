"""The plan of a federation: who is protected, against whom, at which price, before anything is sent.

`plan(...)` chooses the noise for a target and says, for each adversary, what a client loses at most: whoever sees
the models, the server, the server together with some clients. Every price is an event. Nothing is sent, and no data
is touched. The plan is a record with a fingerprint: server, clients and simulator work from the same one, and a
client's policy is compared with it before the client trains.

>>> made = plan(clients=100, population=10_000, size=2410, clip=1.0, rounds=50, epsilon=2, delta=1e-6)
>>> round(made.noise_multiplier, 4), made.against
(0.7737, 'model')
>>> {price.adversary: price.words for price in made.prices()}["server"]
'no promise: this server is trusted with every clipped update'

Guarantee
    Statement: whoever plays the named adversary learns from the whole run at most `events[adversary]` about the unit.
    Conditions: clients run `tacit.federated.client_app`, which clips and, under distributed trust, adds its share of
    noise; the server runs `tacit.federated.Private`. Under central trust the server is honest. A client that lies
    about its clip harms the sum, not the privacy of others.
    Proved in: the events' own theorems. The server chose the cohort, so nothing is credited for sampling against it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from tacit.accounting import (
    Adjacency,
    Event,
    Guarantee,
    MatrixMechanism,
    NonPrivate,
    Strategy,
    account,
    calibrate,
    from_json,
    to_json,
)
from tacit.errors import ParameterError
from tacit.federated import central
from tacit.federated.adaptive import AdaptiveClip
from tacit.federated.errors import FederatedError
from tacit.federated.selection import CohortRule, Everyone, PoissonClients, repeated, rule_from_record
from tacit.federated.unit import ClientUnit
from tacit.ledger import canonical
from tacit.parameters import count, positive, probability

if TYPE_CHECKING:
    from tacit.federated.secure_sum.keys import Register
from typing import TYPE_CHECKING

Trust = Literal["central", "distributed", "local", "silo"]
Adversary = Literal["model", "server", "server and clients"]
SMALLEST, LARGEST = 1e-100, 1e100  # clips and multipliers: beyond these, scales leave the range of floats
MOST_NUMBERS = 2**28  # a client makes room for so many when a server asks it to
WEIGHT = 0.25  # what a full weight adds to the vector, in clips: its noise is four times that of a clip

#: What the events say nothing about. It is printed under every plan.
NOT_PROMISED = (
    "A client that lies about its clip can shift a sum, under distributed trust by up to the modulus.",
    "When a client is reachable, how long it trains and that it refuses are seen by the server.",
    "Nothing is amplified against the server: it knows who took part.",
)


@dataclass(frozen=True)
class AdversaryPrice:
    """What one adversary can learn: the event, its epsilon at the plan's delta, and a sentence."""

    adversary: str
    event: Event
    epsilon: float
    words: str


@dataclass(frozen=True)
class FederatedPlan:
    """What a run does, to whom, at which price. Made by `plan`.

    `clients` is the number of clients expected in a round, the fixed public divisor. `least` is how few may be left
    under distributed trust before a round is void, `honest` how many of these are taken to be honest.
    """

    name: str
    trust: Trust
    unit: ClientUnit
    clients: int
    size: int
    clip: float
    rounds: int
    noise_multiplier: float
    delta: float
    selection: CohortRule
    against: Adversary
    participations: int
    separation: int = 1
    strategy: Strategy | None = None
    adaptive: AdaptiveClip | None = None
    weight_cap: int | None = None
    dropouts: float = 0.0
    colluding: float = 0.0
    shares: Mapping[str, Any] = field(default_factory=dict)
    question: Mapping[str, Any] | None = None
    register: str | None = None
    inside: Event | None = None

    # --- the vector ------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """How many numbers leave a client: the update, its weight and its flag where there are such."""
        return self.size + (self.weight_cap is not None) + (self.adaptive is not None)

    @property
    def weight_size(self) -> float:
        """What a full weight stands for in the vector, in thresholds."""
        return 0.0 if self.weight_cap is None else WEIGHT

    def radius(self, threshold: float | None = None) -> float:
        """The norm that the whole vector is clipped to, when the update is clipped at `threshold`."""
        inside = 1.0 + self.weight_size**2
        flag = 0.0 if self.adaptive is None else self.adaptive.flag_size(self.noise_multiplier) / 2
        return float((self.clip if threshold is None else threshold) * (inside + flag**2) ** 0.5)

    def deviation(self, threshold: float | None = None) -> float:
        """The standard deviation of the noise in each coordinate of the mean, when all clients answer."""
        if self.trust == "distributed":
            from tacit.federated.distributed import encoding_of

            return encoding_of(self, threshold).deviation(self.clients) / self.clients
        if self.trust == "silo":
            return 0.0  # the noise is inside the silos' models
        draws = self.clients if self.trust == "local" else 1
        return self.noise_multiplier * self.radius(threshold) * math.sqrt(draws) / self.clients

    @property
    def least(self) -> int:
        """The fewest clients that may be left when a sum is unmasked."""
        return self.clients - _at_least(self.dropouts, self.clients)

    @property
    def honest(self) -> int:
        """How many of the fewest survivors are honest, when the colluding clients are among them."""
        return self.least - self.with_server

    @property
    def with_server(self) -> int:
        """How many clients may work together with the server."""
        return _at_least(self.colluding, self.clients)

    # --- the price -------------------------------------------------------------------------------------------

    def step(self) -> Event:
        """The price of one round for a client that takes part in it, under central, local or silo trust."""
        if self.inside is not None:
            return self.inside
        if self.trust == "local":  # the server knows who reports, so one vector takes the place of another
            return central.noise(self.noise_multiplier, self.clip, Adjacency.REPLACE_ONE).event
        return central.noise(self.noise_multiplier, self.clip, self.selection.adjacency).event

    @property
    def credited(self) -> bool:
        """Whether sampling counts against whoever sees the models."""
        whole = self.participations >= self.selection.participations(self.rounds)
        return self.trust == "central" and self.selection.credited and whole and self.strategy is None

    @cached_property
    def events(self) -> dict[str, Event]:
        """For each adversary, what it learns from the whole run about one unit."""
        if self.trust == "central":
            run = self._central()
            none: Event = NonPrivate()
            return {"model": self.unit.event(run), "server": none, "server and clients": none}
        if self.trust == "local":
            run = self.unit.event(repeated(self.step(), self.participations))
            return {"model": run, "server": run, "server and clients": run}
        if self.trust == "silo":  # a person in several silos is in several trainings, each of which adds its own noise
            run = repeated(self.step(), self.participations * self.unit.clients)
            return {"model": run, "server": run, "server and clients": run}
        from tacit.federated.distributed import events_of

        return {name: self.unit.event(event) for name, event in events_of(self).items()}

    def _central(self) -> Event:
        if self.strategy is not None:
            times = (self.participations, self.separation)
            return MatrixMechanism(self.noise_multiplier, self.strategy, *times)
        if self.participations < self.selection.participations(self.rounds):
            # Books that refuse further rounds make a client's part depend on its past, which no theorem on samples covers.
            return repeated(self.step(), self.participations)
        return self.selection.event(self.step(), rounds=self.rounds, participations=self.participations)

    @property
    def event(self) -> Event:
        """The price against the adversary that the target was set for: what the server's account pays."""
        return self.events[self.against]

    @property
    def client_event(self) -> Event:
        """What a client's own book pays: the strongest adversary that the trust covers, whatever the server aims at."""
        return self.events["model" if self.trust == "central" else "server and clients"]

    @property
    def adjacency(self) -> Adjacency:
        """The relation that the prices are stated for."""
        return self.event.stated or Adjacency.ADD_REMOVE

    def prices(self) -> list[AdversaryPrice]:
        """The price against each adversary."""
        return [self._price(name, event) for name, event in self.events.items()]

    def _price(self, adversary: str, event: Event) -> AdversaryPrice:
        if isinstance(event, NonPrivate):
            words = "no promise: this server is trusted with every clipped update"
            return AdversaryPrice(adversary, event, float("inf"), words)
        found = _epsilon(event, self.delta)
        credit = adversary == "model" and self.credited
        words = f"epsilon {found:.4g} at delta {self.delta:g}{', sampling counted' if credit else ''}"
        return AdversaryPrice(adversary, event, found, words)

    # --- as a record -----------------------------------------------------------------------------------------

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form that `from_record` reads; it is what clients get."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["unit"] = dict(vars(self.unit))
        record["selection"] = self.selection.to_record()
        record["shares"] = dict(self.shares)
        record["adaptive"] = None if self.adaptive is None else self.adaptive.to_record()
        # The accountant's own form of a strategy is inside an event's.
        held = None if self.strategy is None else MatrixMechanism(1, self.strategy)
        record["strategy"] = None if held is None else to_json(held)
        record["inside"] = None if self.inside is None else to_json(self.inside)
        return record

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> FederatedPlan:
        """The plan that `to_record` wrote; every number is checked again.

        >>> made = plan(clients=10, size=3, clip=1, rounds=2, noise_multiplier=1, delta=1e-5)
        >>> FederatedPlan.from_record(made.to_record()) == made
        True
        """
        given = dict(record)
        if set(given) != {f.name for f in fields(FederatedPlan)}:
            raise ParameterError("this is not the record of a federated plan of this version")
        held = None if given["strategy"] is None else from_json(given["strategy"])
        if held is not None and not isinstance(held, MatrixMechanism):
            raise ParameterError("the strategy of a plan is stored inside a matrix mechanism")
        made = FederatedPlan(**{
            **given,
            "unit": ClientUnit(**given["unit"]),
            "selection": rule_from_record(given["selection"]),
            "adaptive": None if given["adaptive"] is None else AdaptiveClip(**given["adaptive"]),
            "strategy": None if held is None else held.strategy,
            "inside": None if given["inside"] is None else from_json(given["inside"]),
        })  # fmt: skip
        return made.checked()

    def checked(self) -> FederatedPlan:
        """This plan, after its numbers were checked; a client does this with whatever a server sends."""
        if self.trust not in get_args(Trust):
            raise ParameterError(f"trust must be one of {', '.join(get_args(Trust))}, not {self.trust!r}")
        for name in ("clients", "size", "rounds", "participations", "separation"):
            count(name, getattr(self, name))
        for name in ("clip", "noise_multiplier"):
            if not SMALLEST <= float(positive(name, getattr(self, name))) <= LARGEST:
                raise ParameterError(f"{name} must be between {SMALLEST:g} and {LARGEST:g}")
        if not 0 < float(probability("delta", self.delta)) < 1:
            raise ParameterError("delta must be between 0 and 1")
        if self.against not in get_args(Adversary) or not isinstance(self.name, str) or len(self.name) > 200:
            raise ParameterError("a plan has a name of at most 200 letters and one of the adversaries as its target")
        if self.length > MOST_NUMBERS:
            raise ParameterError(f"a plan sums at most {MOST_NUMBERS:,} numbers")
        for name in ("dropouts", "colluding"):
            probability(name, getattr(self, name))
        if self.strategy is not None and self.trust != "central":
            raise FederatedError(code="federated-correlated-trust", trust=self.trust)
        if self.strategy is not None and self.selection.credited:
            raise ParameterError("correlated noise has no proof with sampled cohorts; leave population out")
        if self.strategy is not None and self.strategy.length != self.rounds:
            raise ParameterError(f"the strategy is for {self.strategy.length} rounds, not {self.rounds}")
        if self.honest < 2:
            raise ParameterError("dropouts and colluding leave fewer than two honest clients; lower them")
        if (self.inside is None) == (self.trust == "silo"):
            raise ParameterError("inside, what one training of a silo costs its people, goes with trust='silo', and only with it")
        if self.trust == "silo" and (self.weight_cap is not None or self.adaptive is not None or self.question is not None):
            raise ParameterError("a silo lets out its private model alone: no weights, flags or answers without noise")
        if self.register is not None and (self.trust != "distributed" or not isinstance(self.register, str)):
            raise ParameterError("a register signs the keys of secure sums, so it goes with distributed trust")
        if self.weight_cap is not None:
            count("weight_cap", self.weight_cap)
        return self

    @cached_property
    def text(self) -> str:
        """The one JSON text of the plan."""
        return canonical(self.to_record())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the text: what policies list, and what every message of a round is bound to."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __str__(self) -> str:
        return described(self)


def plan(
    *, clients: int, size: int, clip: float, rounds: int, epsilon: float | None = None, delta: float,
    noise_multiplier: float | None = None, trust: Trust = "central", population: int | None = None,
    selection: CohortRule | None = None, dropouts: float = 0.0, colluding: float = 0.0,
    unit: ClientUnit | str = "user", participations: int | None = None, separation: int = 1,
    strategy: Strategy | None = None, adaptive: AdaptiveClip | bool = False, weight_cap: int | None = None,
    against: Adversary | None = None, name: str = "training", register: Register | None = None, inside: Event | None = None,
    **shares: Any,
) -> FederatedPlan:
    """The plan with the least noise that meets (epsilon, delta) against the strongest adversary its trust covers.

    Instead of `epsilon` a `noise_multiplier` may be given, and the plan says what it costs. `population` makes the
    cohort a Poisson sample of so many registered clients; `selection` is any other rule. `participations` and
    `separation` are limits that the clients' own books keep. `against` sets the target for another adversary.
    Under local trust every client adds all of the noise for itself, on its device. Under silo trust every client trains
    privately inside, as with `tacit.deep`, at the price `inside` for each round; its training gives back (arrays, event).
    `register` is for distributed trust and lists the identities of clients: keys are signed, and the promise holds
    against a server that breaks the protocol. `shares` are for it, too: `bits`, and `noise`, "discrete-gaussian" or
    "skellam".

    >>> print(plan(clients=20, size=10, clip=1, rounds=5, noise_multiplier=4, delta=1e-5).prices()[0].words)
    epsilon 2.258 at delta 1e-05
    """
    expected, turns = count("clients", clients), count("rounds", rounds)
    if [epsilon, noise_multiplier, inside].count(None) != 2:
        raise ParameterError("give epsilon with delta, or noise_multiplier with delta; for silos, inside with delta")
    if not 0 < probability("delta", delta) < 1:
        raise ParameterError(f"delta must be between 0 and 1, well below one over the number of clients, not {delta}")
    if selection is None:
        selection = Everyone(expected) if population is None else PoissonClients(expected, population)
    elif population is not None:
        raise ParameterError("give population or selection, not both: the rule says how large the population is")
    if adaptive is True:
        adaptive = AdaptiveClip(float(clip), expected)
    most = min(turns, selection.participations(turns), -(-turns // count("separation", separation)))
    made = FederatedPlan(
        name=name, trust=trust, unit=ClientUnit.of(unit), clients=expected, size=count("size", size),
        clip=float(positive("clip", clip)), rounds=turns, noise_multiplier=1.0, delta=float(delta),
        selection=selection, against=against or ("model" if trust == "central" else "server and clients"),
        participations=most if participations is None else min(most, count("participations", participations)),
        separation=separation, strategy=strategy, adaptive=adaptive or None, weight_cap=weight_cap,
        dropouts=float(dropouts), colluding=float(colluding), register=None if register is None else register.fingerprint,
        inside=inside,
    )  # fmt: skip
    if register is not None and len(register) < expected:
        raise ParameterError(f"the register has {len(register)} identities, and the plan asks {expected} clients")
    if trust == "distributed":
        from tacit.federated.distributed import designed

        return designed(made.checked(), epsilon=epsilon, noise_multiplier=noise_multiplier, **shares)
    if shares:
        raise ParameterError(f"{', '.join(shares)}: only plans with trust='distributed' have shares of noise")
    if trust == "silo":
        return made.checked()
    if noise_multiplier is not None:
        return replace(made, noise_multiplier=float(positive("noise_multiplier", noise_multiplier))).checked()
    return replace(made, noise_multiplier=noise_for(made.checked(), Guarantee(epsilon=epsilon, delta=delta))).checked()


def _at_least(share: float, clients: int) -> int:
    """A share of the clients as a number, rounded up: the promise must hold for the share that was stated.

    >>> _at_least(0.3, 100), _at_least(1 / 3, 6), _at_least(0.34, 6)
    (30, 2, 3)
    """
    return math.ceil(clients * share - 1e-9)


@lru_cache(maxsize=64)
def _epsilon(event: Event, delta: float) -> float:
    """The price at a delta; adversaries often share an event, and a plan is printed more than once."""
    return account(event, event.stated).epsilon(delta).upper


def noise_for(made: FederatedPlan, target: Guarantee) -> float:
    """The least noise multiplier at which a plan under central trust meets a target."""

    def event(multiplier: float) -> Event:
        return replace(made, noise_multiplier=multiplier, adaptive=None).event

    return _noise_for(event, target, made.adjacency)


def _noise_for(event: Callable[[float], Event], target: Guarantee, adjacency: Adjacency) -> float:
    return calibrate(event, guarantee=target, adjacency=adjacency)


def described(plan: FederatedPlan) -> str:
    """The plan as a page of text: prices first, then how it works, then what it does not promise.

    >>> print(described(plan(clients=20, size=10, clip=1, rounds=5, noise_multiplier=4, delta=1e-5)).splitlines()[0])
    Plan "training": 5 rounds of 20 clients, each sending 10 numbers
    """
    lines = [
        f'Plan "{plan.name}": {plan.rounds} rounds of {plan.clients} clients, each sending {plan.length:,} numbers',
        f"Protected: {plan.unit}; trust: {plan.trust}; cohorts: {_cohorts(plan)}",
        "Price:",
    ]
    titles = {"model": "whoever sees the models", "server": "the server", "server and clients": _together(plan)}
    width = max(len(title) for title in titles.values())
    for price in plan.prices():
        mark = "  <- the target" if price.adversary == plan.against else ""
        lines.append(f"  {titles[price.adversary]:<{width}}  {price.words}{mark}")
    if plan.trust == "silo":
        lines.append(f"Each silo trains privately inside, at {plan.inside!r} a round; its model is clipped at {plan.clip:g}")
    else:
        lines.append(
            f"Clip {plan.clip:g}{' at first, then the median of the norms' if plan.adaptive else ''}; noise multiplier "
            f"{plan.noise_multiplier:.6g}; noise in a coordinate of the mean {plan.deviation():.4g}"
        )
    if plan.strategy is not None:
        lines.append(f"Noise is correlated over the rounds by {type(plan.strategy).__name__}")
    if plan.participations < plan.rounds or plan.separation > 1:
        lines.append(
            f"A client takes part at most {plan.participations} times, {plan.separation} rounds apart; its own book says so"
        )
    lines += [f"{title}: {fact}" for title, fact in _shares(plan)]
    return "\n".join([*lines, "Not promised:", *(f"  {sentence}" for sentence in NOT_PROMISED)])


def _cohorts(plan: FederatedPlan) -> str:
    rule = plan.selection
    population = getattr(rule, "population", None)
    return type(rule).__name__ + (f" of {population:,}" if population else "")


def _together(plan: FederatedPlan) -> str:
    return f"the server with {plan.with_server} clients"


def _shares(plan: FederatedPlan) -> list[tuple[str, str]]:
    if plan.trust != "distributed":
        return []
    from tacit.federated.distributed import facts_of

    return facts_of(plan)


__all__ = ["NOT_PROMISED", "Adversary", "AdversaryPrice", "FederatedPlan", "Trust", "plan", "repeated"]
