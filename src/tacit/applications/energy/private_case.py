"""A network case that may be published: its loads hidden, its cost kept.

`release_case` adds exact Laplace noise to every load, then takes the likeliest loads whose cheapest dispatch exists
and costs what it should, within a band. Only the noise touches the data: the rest works on noisy loads and a cost
that is public or was paid for. The result is written as a MATPOWER case or a pandapower network that solves.

>>> from tacit.applications.energy import Network, dispatch, release_case
>>> network = Network.nine_buses()
>>> public = 5216.03  # the operator publishes its hourly cost anyway
>>> released = release_case(network, change=5, epsilon=1, cost=public, band=0.01)
>>> abs(dispatch(released.network).cost / public - 1) <= 0.01
True
>>> released.unit, released.event, round(released.scale, 6)
('one load by at most 5 MW', Laplace(noise_multiplier=1, adjacency=Adjacency.REPLACE_ONE), 5.0)

What is protected is a distance, not a person: two networks that differ in one load by at most `change` MW are hard to
tell apart. A load that differs by twice as much is protected half as well. The ledger books it under a unit of its
own, and it is never added to the epsilon of people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.accounting import Adjacency, Composed, Event, PureDP
from tacit.applications.energy.dispatch import Dispatch, Program, dispatch, first_points, solve
from tacit.applications.energy.errors import EnergyError
from tacit.applications.energy.network import Network
from tacit.calculus import L2, Lattice, Measurement, Space, Vectors
from tacit.ledger import paying
from tacit.mechanisms import NoisySums, planar_laplace
from tacit.parameters import Number, number, positive

if TYPE_CHECKING:
    from tacit.ledger import Account

Floats = NDArray[np.float64]

#: A change is at least so many granules, and so is the scale of the noise: rounding is then beside the point.
FINE = 1024
#: Pieces that a parabola is cut into for the restoration; chords lie above it, so the band is kept.
PIECES = 48
#: Limits are kept back by this share, so that a solver has room around the released loads.
MARGIN = 1e-3
#: The band is aimed at with this share to spare, for the rounding of solvers.
SPARE = 1e-3
#: At most so many cuts; then a line search ends it, which always succeeds.
CUTS = 25
#: The share of a paid cost within which it is solved, and the MW by which a solver may miss a row of its program.
SOLVED, MISSED = Fraction(1, 10**9), Fraction(1, 10**7)
#: Halvings of the line search.
HALVINGS = 60


def protected_unit(change: Number, measure: str = "MW") -> str:
    """What a release of loads protects, as the ledger and reports write it.

    >>> protected_unit(5), protected_unit(Fraction(1, 2))
    ('one load by at most 5 MW', 'one load by at most 0.5 MW')
    """
    return f"one load by at most {float(change):g} {measure}"


@dataclass(frozen=True)
class PaidCost:
    """A cost that is not public and is paid for: the cost of the dispatch with shedding at `price`, with Laplace noise.

    `price` is a public cap, in money for a MWh: what one MW more can cost at most. The noise has scale
    price * change / epsilon, so a realistic cap serves far better than a value of lost load of 10,000.
    """

    epsilon: Number
    price: Number

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        positive("price", self.price)


@dataclass(frozen=True)
class CasePlan:
    """A release of a network's loads before any load is touched: noise, price, and what is known of the cost.

    `network` is used for its public tables alone until `draw` is called.

    Guarantee
        Statement: releasing `draw` costs `event` for two networks with the same public tables that differ in one load by
        at most `change`: Laplace(1 / epsilon) on the loads (with a paid cost composed with Laplace(1 / its epsilon)), or
        PureDP(epsilon) for complex loads within `change` MVA of each other.
        Conditions: the buses that have a load are public, and the cost is public or paid for here.
        Proved in: clamping to public limits and rounding down to granules move two loads apart by no more than the change
        in whole granules, in one coordinate, so the l1 distance is that change (book, Lemma 10.14; for complex loads
        Andrés et al. 2013, with sqrt(2) granules more for rounding two coordinates). Everything after the noise is
        post-processing. The paid cost moves by at most price * change, because one MW more can be shed where it
        arises; its granules allow for one more for rounding down, and for twice the error of the solver, by public bounds.
        Correction: the book's restoration (10.9) takes the true cost for public; then it is no post-processing. And it asks
        that some dispatch of the restored loads costs about as much; the cheapest one may be 24% below.
    """

    network: Network
    change: Number
    epsilon: Number
    cost: Number | PaidCost
    band: float
    lowest: float = 0.0
    model: str = "dc"
    power_factor: float | None = None

    def __post_init__(self) -> None:
        positive("change", self.change)
        positive("epsilon", self.epsilon)
        if not 0 < float(positive("band", self.band)) < 1:
            raise EnergyError("band must lie between 0 and 1: the share by which the cost may differ, such as 0.01")
        if self.model not in ("dc", "ac"):
            raise EnergyError("model must be 'dc' (loads in MW) or 'ac' (complex loads)")
        if self.power_factor is not None and not 0 < float(positive("power_factor", self.power_factor)) <= 1:
            raise EnergyError("power_factor must be above 0 and at most 1, such as 0.95")
        if not self.network.load_buses:
            raise EnergyError("the network has no load bus; declare which buses have loads with declare_load_buses")
        if not isinstance(self.cost, PaidCost):
            positive("cost", self.cost)
            self._reachable(float(self.cost))

    # --- prices -----------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """What is protected."""
        return protected_unit(self.change, "MW" if self.model == "dc" else "MVA")

    @property
    def scale(self) -> float:
        """The scale of the noise of one load, in MW: change / epsilon."""
        return float(Fraction(self.change) / Fraction(self.epsilon))

    @cached_property
    def granule(self) -> Fraction:
        """The step of the lattice of loads, in MW: a power of two of steps make a change."""
        return Fraction(self.change) / parts_of(self.epsilon)

    @cached_property
    def noise(self) -> NoisySums:
        """The noise of loads in MW."""
        moved = Fraction(self.change) / self.granule
        return NoisySums.of_multiplier(
            "laplace", over(self.epsilon), moved, granularity=self.granule, adjacency=Adjacency.REPLACE_ONE
        )

    @cached_property
    def planar(self) -> Measurement:
        """The noise of one complex load."""
        rate = Fraction(self.epsilon) / (self.granule * self._steps)
        found = Space(Vectors(Lattice(self.granule), 2), L2()) >> planar_laplace(rate)
        assert isinstance(found, Measurement)
        return found

    @property
    def _steps(self) -> Fraction:
        """How far rounding down leaves two complex loads apart, in granules: less than sqrt(2) more than they were."""
        return Fraction(self.change) / self.granule + Fraction(3, 2)

    @cached_property
    def cost_noise(self) -> NoisySums | None:
        """The noise of a paid cost."""
        if not isinstance(self.cost, PaidCost):
            return None
        moved = Fraction(self.cost.price) * Fraction(self.change)
        parts = parts_of(self.cost.epsilon)
        solver = max(1, math.ceil(2 * self._solver_error(Fraction(self.cost.price)) * parts / moved))
        return NoisySums.of_multiplier(
            "laplace", over(self.cost.epsilon), parts + 1 + solver, granularity=moved / parts, adjacency=Adjacency.REPLACE_ONE
        )

    def _solver_error(self, price: Fraction) -> Fraction:
        """How far a paid cost may be from the optimum, by public tables alone: loads are clamped to the capacity."""
        network = self.network
        ends = zip(network.costs, network.generator_limits, strict=True)
        generated = sum(Fraction(float(np.abs(cost.at(limits)).max())) for cost, limits in ends)
        largest = generated + price * Fraction(network.capacity) * len(network.bus)
        return SOLVED * (1 + largest) + MISSED * price * (len(network.bus) + len(network.branch))

    @property
    def event(self) -> Event:
        """What the release costs."""
        loads: Event = self.noise.event if self.model == "dc" else PureDP(self.epsilon, adjacency=Adjacency.REPLACE_ONE)
        return loads if self.cost_noise is None else Composed(loads, self.cost_noise.event)

    def error(self, confidence: float) -> float:
        """What the noise of one load exceeds with probability at most 1 - confidence, in MW; before the restoration."""
        if self.model == "dc" or self.planar.accuracy is None:
            return self.noise.error(confidence)
        return float(self.planar.accuracy(1 - confidence))

    # --- what is public about the cost ------------------------------------------------------------------------------

    @cached_property
    def _restoring(self) -> _Restoring:
        return _Restoring(self.network, self.lowest)

    def _reachable(self, cost: float) -> None:
        """Refuse a public cost that no loads of this network have, before anything is paid."""
        least, most = self._restoring.range
        if least > cost * (1 + self.band) or most < cost * (1 - self.band):
            raise EnergyError(code="cost-out-of-reach", cost=cost, band=self.band, least=least, most=most)

    # --- the data ---------------------------------------------------------------------------------------------------

    def draw(self, network: Network | None = None) -> dict[str, Any]:
        """Touch the loads and add noise, once: whole numbers of granules, as JSON. To be called inside a payment."""
        held = self.network if network is None else network
        places = held.load_places
        capacity = Fraction(held.capacity)
        active = np.array([_granules(x, capacity, self.granule) for x in held.loads[places].tolist()], dtype=object)
        found: dict[str, Any] = {}
        if self.model == "dc":
            found["loads"] = [int(x) for x in self.noise.add(active)]
        else:
            passive = [_granules(x, capacity, self.granule) for x in held.reactive[places].tolist()]
            pairs = [self.planar.function([p, q]) for p, q in zip(active.tolist(), passive, strict=True)]
            found["loads"], found["reactive"] = ([float(pair[i]) for pair in pairs] for i in (0, 1))
        if self.cost_noise is not None and isinstance(self.cost, PaidCost):
            optimum = dispatch(held, price=float(self.cost.price), tolerance=float(SOLVED)).cost
            found["cost"] = self.cost_noise.add(math.floor(Fraction(optimum) / self.cost_noise.granularities[0]))
        return found

    def result(self, drawn: dict[str, Any], *, private: bool = True, entry: int | None = None) -> ReleasedCase:
        """The published case, from what was drawn. No load is touched from here on."""
        values = np.array(drawn["loads"], dtype=object if self.model == "dc" else float)
        noisy = np.array([float(x * self.granule) for x in values]) if self.model == "dc" else values
        least, most = self._restoring.range
        cost = float(self.cost) if not isinstance(self.cost, PaidCost) else self._told_cost(drawn["cost"])
        # A noisy cost may lie where no loads have it; the nearest cost that some have is taken.
        cost = min(max(cost, least), most) if isinstance(self.cost, PaidCost) else cost
        restored = self._restoring.restore(noisy, cost, self.band)
        reactive = self._reactive(restored.loads, drawn)
        network = replace(self.network.with_loads(restored.loads, reactive), name=f"{self.network.name}_released")
        return ReleasedCase(self, network, noisy, cost, restored.dispatch, restored.cuts, private, entry)

    def _told_cost(self, granules: int) -> float:
        assert self.cost_noise is not None
        return float(granules * self.cost_noise.granularities[0])

    def _reactive(self, loads: Floats, drawn: dict[str, Any]) -> Floats:
        """Reactive loads: their own noise, or a public power factor, or none. The true ones would tell the loads."""
        if self.model == "ac":
            return np.array(drawn["reactive"], dtype=float)
        if self.power_factor is None:
            return np.zeros(len(loads))
        found: Floats = loads * math.tan(math.acos(float(self.power_factor)))
        return found


def parts_of(epsilon: Number) -> int:
    """How many granules a change has: a power of two, so that the noise of this epsilon has many as well."""
    return int(2 ** max(10, math.ceil(math.log2(FINE * float(epsilon)))))


def over(epsilon: Number) -> Number:
    """One over epsilon, exactly, and plain where it is whole."""
    found = 1 / Fraction(epsilon)
    return found.numerator if found.denominator == 1 else found


def _granules(load: float, capacity: Fraction, granule: Fraction) -> int:
    """A load in whole granules, rounded down exactly; NaN is 0, and no load exceeds the capacity of all generators.

    >>> _granules(1.26, Fraction(100), Fraction(1, 2)), _granules(math.nan, Fraction(100), Fraction(1, 2))
    (2, 0)
    >>> _granules(math.inf, Fraction(100), Fraction(1, 2)), _granules(-1e308, Fraction(100), Fraction(1, 2))
    (200, -200)
    """
    if math.isnan(load):
        return 0
    exact = capacity if load == math.inf else -capacity if load == -math.inf else Fraction(load)
    return math.floor(min(max(exact, -capacity), capacity) / granule)


@dataclass(frozen=True, repr=False)
class ReleasedCase:
    """A published case: `network` has the released loads, `noisy` are the loads with plain noise, `cost` is what was aimed at."""

    plan: CasePlan
    network: Network
    noisy: Floats
    cost: float
    dispatch: Dispatch
    cuts: int
    private: bool
    entry: int | None

    def __repr__(self) -> str:
        words = f"{len(self.network.load_buses)} loads, each with noise of scale {self.scale:.4g} MW; re-optimised it costs"
        mark = "" if self.private else ", NOT PRIVATE"
        return f"ReleasedCase({self.network.name!r}: {words} {self.dispatch.cost:,.2f}, where {self.cost:,.2f} was told{mark})"

    @property
    def event(self) -> Event:
        """What it cost."""
        return self.plan.event

    @property
    def unit(self) -> str:
        """What is protected."""
        return self.plan.unit

    @property
    def scale(self) -> float:
        """The scale of the noise, in MW."""
        return self.plan.scale

    @property
    def loads(self) -> Floats:
        """The released loads of `network.load_buses`, in MW."""
        found: Floats = self.network.loads[self.network.load_places]
        return found

    def to_matpower(self, path: str | Path | None = None) -> str:
        """The case in MATPOWER's format."""
        return self.network.to_matpower(path, generation=self.dispatch.generation)

    def to_pandapower(self, path: str | Path | None = None) -> Any:
        """The case as a pandapower network, and as its JSON file."""
        return self.network.to_pandapower(path, generation=self.dispatch.generation)


def release_case(
    network: Network, *, change: Number, epsilon: Number, cost: Number | PaidCost, band: float = 0.01,
    lowest: float = 0.0, model: str = "dc", power_factor: float | None = None, account: Account | None = None,
    purpose: str = "a network case",
) -> ReleasedCase:
    """Publish a network with protected loads whose re-optimised cost lies within `band` of `cost`.

    `change` is how far one load may differ, in MW, and is part of the claim. `cost` is public, in money for an hour, or
    a `PaidCost`. `lowest` is the public least load of a bus; give a negative one where buses may feed in. With
    model='ac' loads are complex and get planar Laplace noise in MVA; without it reactive loads are 0, or follow from
    a public `power_factor`. Which buses have a load is public. `CasePlan` has the guarantee.
    """
    plan = CasePlan(network, change, epsilon, cost, band, float(number("lowest", lowest)), model, power_factor)
    insist_on_unit(account, plan.unit)
    with paying(account, plan.event, purpose=purpose) as payment:
        drawn = plan.draw()
    return plan.result(drawn, private=payment.private, entry=payment.entry)


def insist_on_unit(account: Account | None, unit: str) -> None:
    """Refuse an account that protects something else: losses of different units are not added up."""
    if account is not None and account.spec.unit != unit:
        raise EnergyError(code="unit-differs", unit=account.spec.unit, needed=unit)


# --- restoration ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Restored:
    """Loads with a feasible dispatch, and how many cuts it took; the line search counts as one."""

    loads: Floats
    dispatch: Dispatch
    cuts: int


class _Restoring:
    """The restoration as linear programs, for one network. It works on public tables and noisy loads."""

    def __init__(self, network: Network, lowest: float) -> None:
        self.network, self.lowest = network, lowest
        inner = _kept_back(network)
        points = [
            np.linspace(own[0], own[-1], PIECES + 1) if cost.square and len(own) > 1 else own
            for cost, own in zip(inner.costs, first_points(inner), strict=True)
        ]
        self.program = Program(inner, points)
        self.places = network.load_places
        loads = len(self.places)
        at = sparse.csr_array((np.ones(loads), (self.places, np.arange(loads))), shape=(len(network.bus), loads))
        below = sparse.csr_array((len(network.branch), loads))
        #: A load is its noisy value plus what is added, minus what is taken away.
        self.equal = sparse.hstack([self.program.equal, -sparse.vstack([at, below]), sparse.vstack([at, below])]).tocsr()
        self.angles, self.angle_most = self.program.inequalities()

    @cached_property
    def range(self) -> tuple[float, float]:
        """The least cost that any loads of the network have, and the cost of the largest loads that it can serve."""
        loads = len(self.places)
        cheap = self._solved(np.concatenate([self.program.cost, np.zeros(2 * loads)]), np.zeros(loads), [], [])
        return self.program.pieces.base + float(cheap.fun), self.largest[1].cost

    @cached_property
    def largest(self) -> tuple[Floats, Dispatch]:
        """The loads of the largest sum that can be served, with their dispatch: a public witness for the line search."""
        loads = len(self.places)
        wanted = np.concatenate([np.zeros(self.program.width), -np.ones(loads), np.ones(loads)])
        found = self._loads(self._solved(wanted, np.zeros(loads), [], []), np.zeros(loads))
        return found, self._dispatched(found)

    def restore(self, noisy: Floats, cost: float, band: float) -> Restored:
        """The likeliest loads under Laplace noise that can be served at a cheapest cost within the band.

        Likeliest is nearest in the sum of absolute differences. The cost is convex in the loads, so the loads whose cost
        is at most the upper end are a convex set, described by the program itself. The lower end is met by cuts: the
        cost lies above its tangent, so loads whose tangent reaches the lower end cost at least that.
        """
        low, high = cost * (1 - band * (1 - SPARE)), cost * (1 + band * (1 - SPARE))
        distance = np.concatenate([np.zeros(self.program.width), np.ones(2 * len(self.places))])
        upper = np.concatenate([self.program.cost, np.zeros(2 * len(self.places))])
        rows, most = [upper], [high - self.program.pieces.base]
        found, own = self.largest
        for cuts in range(CUTS):
            solution = self._try(distance, noisy, rows, most)
            if solution is None:
                break
            found = self._loads(solution, noisy)
            own = self._dispatched(found)
            if own.lower >= low:
                return Restored(found, own, cuts)
            prices = own.prices[self.places]
            rows.append(np.concatenate([np.zeros(self.program.width), -prices, prices]))
            most.append(own.lower - low + float(prices @ (noisy - found)))
        return self._searched(found, own, (low, high), cuts + 1)

    def _searched(self, cheap: Floats, own: Dispatch, band: tuple[float, float], cuts: int) -> Restored:
        """Loads on the line from cheap ones to the largest, where the cost passes through the band.

        The largest loads cost at least its lower end: that was checked, or the cost was moved there. The cost is continuous
        on the line, and every point between two that can be served can be served.
        """
        dear, dispatched = self.largest
        if own.lower >= band[0] or dispatched.cost <= band[1]:
            return Restored(dear, dispatched, cuts)
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            share = (low + high) / 2
            loads = (1 - share) * cheap + share * dear
            own = self._dispatched(loads)
            if own.lower >= band[0] and own.cost <= band[1]:
                return Restored(loads, own, cuts)
            low, high = (share, high) if own.lower < band[0] else (low, share)
        return Restored(loads, own, cuts)

    def _dispatched(self, loads: Floats) -> Dispatch:
        full = np.zeros(len(self.network.bus))
        full[self.places] = loads
        return dispatch(self.network, full, tolerance=1e-7)

    def _loads(self, solution: Any, noisy: Floats) -> Floats:
        moved = np.asarray(solution.x)[self.program.width :]
        count = len(self.places)
        found: Floats = noisy + moved[:count] - moved[count:]
        return found

    def _solved(self, cost: Floats, noisy: Floats, rows: list[Floats], most: list[float]) -> Any:
        found = self._try(cost, noisy, rows, most)
        if found is None:
            raise EnergyError("no loads of this network can be served within its limits; look at the limits of generators and lines")
        return found

    def _try(self, cost: Floats, noisy: Floats, rows: list[Floats], most: list[float]) -> Any | None:
        """The best loads for a linear aim, under the rows that were added; None where there are none."""
        full = np.zeros(len(self.network.bus))
        full[self.places] = noisy
        wide = sparse.hstack([self.angles, sparse.csr_array((self.angles.shape[0], 2 * len(self.places)))])
        below = sparse.vstack([wide, *(sparse.csr_array(row[None, :]) for row in rows)]).tocsr()
        highest = np.full(len(noisy), self.network.capacity)
        added = np.column_stack([np.maximum(0.0, self.lowest - noisy), np.maximum(0.0, highest - noisy)])
        taken = np.column_stack([np.maximum(0.0, noisy - highest), np.maximum(0.0, noisy - self.lowest)])
        bounds = np.vstack([self.program.bounds, added, taken])
        return solve(cost, self.equal, self.program.right_side(full), bounds, below, np.concatenate([self.angle_most, most]))


def _kept_back(network: Network) -> Network:
    """The network with limits kept back by a small share, so that a solver finds room around what is released."""
    from tacit.applications.energy.network import PMAX, PMIN, RATE_A

    gen, branch = network.gen.copy(), network.branch.copy()
    room = MARGIN * (gen[:, PMAX] - gen[:, PMIN])
    gen[:, PMAX] -= room
    gen[:, PMIN] += room
    branch[:, RATE_A] *= 1 - MARGIN
    return replace(network, gen=gen, branch=branch)
