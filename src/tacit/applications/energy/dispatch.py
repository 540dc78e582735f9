"""The economic dispatch as one linear program: direct-current optimal power flow with HiGHS.

`dispatch` finds the cheapest generation for the loads of a network. With a `price` for lost load, shedding and
spilling make it total: every load, however absurd, has a dispatch, and one more MW anywhere moves the cost by at most
that price, because it can always be shed or spilt where it arises. Parabolic costs are cut into pieces that are
made finer around the optimum until a certified gap is closed.

>>> from tacit.applications.energy import Network, dispatch
>>> found = dispatch(Network.nine_buses())
>>> round(found.cost, 2), found.generation.round(3).tolist(), found.congested
(5216.03, [86.564, 134.378, 94.058], ())

This is a calculation on the loads themselves: its results are private. `release_case` publishes loads that were
protected, and `release_regions` sums of a dispatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linprog

from tacit.applications.energy.errors import EnergyError
from tacit.applications.energy.network import Cost, Network
from tacit.parameters import positive

Floats = NDArray[np.float64]

#: Pieces that a parabola is cut into at first, and how much finer each step makes them.
PIECES, FINER = 12, 8
#: At most so many refinements; each divides the width of pieces by FINER.
ROUNDS = 12
#: A limit counts as reached within this share of it, beyond what the solver's own tolerance allows.
AT_LIMIT = 1e-6


@dataclass(frozen=True)
class Dispatch:
    """The cheapest generation. `prices` are what one more MW costs at each bus; `lower` is a certified lower bound on the cost.

    `at_limit` are the generators at a limit, `congested` the branches at theirs: the binding sets of the textbook.
    """

    cost: float
    lower: float
    generation: Floats
    angles: Floats
    flows: Floats
    prices: Floats
    shed: Floats
    spilt: Floats
    at_limit: tuple[int, ...]
    congested: tuple[int, ...]


@dataclass(frozen=True)
class Pieces:
    """Costs as linear pieces: generator, width in MW and slope of each, and the cost of all generators at their least."""

    owners: NDArray[np.int64]
    widths: Floats
    slopes: Floats
    base: float

    @staticmethod
    def of(network: Network, points: Sequence[Floats]) -> Pieces:
        """The chords between the points of every generator: never below the cost itself."""
        owners, widths, slopes, base = [], [], [], 0.0
        for place, (cost, at) in enumerate(zip(network.costs, points, strict=True)):
            values = cost.at(at)
            base += float(values[0])
            width = np.diff(at)
            owners.append(np.full(len(width), place))
            widths.append(width)
            slopes.append(np.diff(values) / width)
        whole = np.concatenate(owners).astype(np.int64) if owners else np.zeros(0, np.int64)
        return Pieces(whole, np.concatenate(widths), np.concatenate(slopes), base)


class Program:
    """The rows of the linear program of a network: pieces of generation, angles and flows.

    Variables are one for each piece, the angle of each bus, the flow of each branch. Rows are the balance of each
    bus (generation minus what flows away), the flow of each branch, and angles across branches that limit them.
    """

    def __init__(self, network: Network, points: Sequence[Floats]) -> None:
        self.network, self.points = network, points
        self.pieces = Pieces.of(network, points)
        buses, branches, parts = len(network.bus), len(network.branch), len(self.pieces.owners)
        self.starts = (0, parts, parts + buses, parts + buses + branches)
        at = sparse.csr_array(
            (np.ones(parts), (network.generator_places[self.pieces.owners], np.arange(parts))), shape=(buses, parts)
        )
        balance = sparse.hstack([at, sparse.csr_array((buses, buses)), -network.incidence])
        across = network.incidence.T * network.susceptance[:, None]
        flow = sparse.hstack([sparse.csr_array((branches, parts)), across, -sparse.eye_array(branches)])
        self.equal = sparse.vstack([balance, flow]).tocsr()
        #: Injections that do not depend on loads: the least generation, minus shunts.
        least = np.bincount(network.generator_places, weights=network.generator_limits[:, 0], minlength=buses)
        self.fixed = least - network.shunts
        limited = np.flatnonzero(np.isfinite(network.angle_limits).any(axis=1))
        self.angled = sparse.hstack(
            [sparse.csr_array((len(limited), parts)), network.incidence.T[limited], sparse.csr_array((len(limited), branches))]
        ).tocsr()
        self.angle_bounds = network.angle_limits[limited]
        angles = np.tile([-np.inf, np.inf], (buses, 1))
        angles[network.reference] = 0.0
        self.bounds = np.vstack(
            [
                np.column_stack([np.zeros(parts), self.pieces.widths]), angles,
                np.column_stack([-network.flow_limits, network.flow_limits]),
            ]
        )  # fmt: skip
        self.cost = np.concatenate([self.pieces.slopes, np.zeros(buses + branches)])

    @property
    def width(self) -> int:
        """How many variables there are."""
        return self.starts[-1]

    def right_side(self, loads: Floats) -> Floats:
        """What the equal rows amount to for these loads."""
        return np.concatenate([loads - self.fixed, self.network.shifted])

    def inequalities(self) -> tuple[Any, Floats]:
        """Angles across branches, as rows of at most."""
        low, high = self.angle_bounds.T if len(self.angle_bounds) else (np.zeros(0), np.zeros(0))
        upper, lower = np.isfinite(high), np.isfinite(low)
        return sparse.vstack([self.angled[upper], -self.angled[lower]]).tocsr(), np.concatenate([high[upper], -low[lower]])

    def generation(self, values: Floats) -> Floats:
        """The MW of every generator, from the values of the variables."""
        pieces = values[: self.starts[1]]
        found: Floats = self.network.generator_limits[:, 0] + np.bincount(
            self.pieces.owners, weights=pieces, minlength=len(self.network.gen)
        )
        return found


def solve(cost: Floats, equal: Any, right: Floats, bounds: Floats, below: Any, most: Floats) -> Any | None:
    """The solution of a linear program, or None where it has none."""
    rows = {} if below.shape[0] == 0 else {"A_ub": below, "b_ub": most}
    found = linprog(cost, A_eq=equal, b_eq=right, bounds=bounds, method="highs", **rows)
    return found if found.status == 0 else None


def first_points(network: Network) -> list[Floats]:
    """Where each cost is cut at first: a parabola into equal pieces, pieces at their own ends."""
    found = []
    for cost, (low, high) in zip(network.costs, network.generator_limits, strict=True):
        if low == high:
            found.append(np.array([low]))
        elif cost.points:
            inner = [x for x in cost.points if low < x < high]
            found.append(np.array([low, *inner, high]))
        else:
            found.append(np.linspace(low, high, PIECES + 1 if cost.square else 2))
    return found


def finer(network: Network, points: Sequence[Floats], generation: Floats) -> list[Floats]:
    """The same cuts, with finer ones around the present generation where a cost is a parabola."""
    found: list[Floats] = []
    for cost, own, power, (low, high) in zip(network.costs, points, generation, network.generator_limits, strict=True):
        if not cost.square or len(own) < 2:
            found.append(own)
            continue
        place = int(np.clip(np.searchsorted(own, power), 1, len(own) - 1))
        near = own[max(place - 2, 0) : place + 2]
        width = np.diff(near).min()
        window = np.linspace(max(low, power - width), min(high, power + width), 2 * FINER + 1)
        coarse = np.linspace(low, high, PIECES + 1)
        merged = np.unique(np.concatenate([coarse, near, window]))
        found.append(merged[np.concatenate([[True], np.diff(merged) > 1e-9 * (high - low)])])
        found[-1][-1] = high
    return found


def dispatch(
    network: Network, loads: ArrayLike | None = None, *, price: float | None = None, tolerance: float = 1e-13
) -> Dispatch:
    """The cheapest generation for the network's loads, or for other `loads`, one number for each bus.

    Without a `price`, loads that cannot be served raise `EnergyError`. With one, in money for a MWh, they are shed (or
    generation is spilt) at that price, and there always is a dispatch; a load that is NaN or infinite counts as 0 or
    as the capacity of all generators. `tolerance` is the share of the cost within which a parabola is solved.
    """
    wanted = clamped(network, network.loads if loads is None else np.asarray(loads, dtype=float), price is not None)
    points = first_points(network)
    curved = any(cost.square for cost in network.costs)
    found = _solved(network, points, wanted, price)
    for _ in range(ROUNDS):
        if found is None or not curved or found.cost - found.lower <= tolerance * (1 + abs(found.cost)):
            break
        points = finer(network, points, found.generation)
        found = _solved(network, points, wanted, price)
    if found is None:
        raise EnergyError("no generation within the limits serves these loads; give price= to allow for shedding")
    return found


def clamped(network: Network, loads: Floats, total: bool) -> Floats:
    """Loads that a program can be given: where it must be total, NaN is 0, and the rest at most the capacity in size.

    Clamping a load to public limits brings no two loads further apart, so bounds on sensitivity stay what they are.
    """
    if loads.shape != (len(network.bus),):
        raise EnergyError(f"loads must be {len(network.bus)} numbers, one for each bus")
    if not total:
        if not np.isfinite(loads).all():
            raise EnergyError("a load is not a finite number; give price= to take it for 0 or for the capacity")
        return loads
    return np.clip(np.nan_to_num(loads, nan=0.0, posinf=np.inf, neginf=-np.inf), -network.capacity, network.capacity)


def _solved(network: Network, points: Sequence[Floats], loads: Floats, price: float | None) -> Dispatch | None:
    """One program with the costs cut at these points."""
    program = Program(network, points)
    cost, equal, bounds = program.cost, program.equal, program.bounds
    buses = len(network.bus)
    below, most = program.inequalities()
    if price is not None:
        lost = float(positive("price", price))
        both = sparse.vstack(
            [sparse.hstack([sparse.eye_array(buses), -sparse.eye_array(buses)]), sparse.csr_array((len(network.branch), 2 * buses))]
        )
        equal = sparse.hstack([equal, both]).tocsr()
        cost = np.concatenate([cost, np.full(2 * buses, lost)])
        bounds = np.vstack([bounds, np.tile([0.0, np.inf], (2 * buses, 1))])
        below = sparse.hstack([below, sparse.csr_array((below.shape[0], 2 * buses))]).tocsr()
    found = solve(cost, equal, program.right_side(loads), bounds, below, most)
    if found is None:
        return None
    values = np.asarray(found.x)
    generation = program.generation(values)
    prices = np.asarray(found.eqlin.marginals)[:buses]
    exact = sum(float(own.at(power)) for own, power in zip(network.costs, generation, strict=True))
    extra = values[program.width :]
    shed, spilt = (extra[:buses], extra[buses:]) if price is not None else (np.zeros(buses), np.zeros(buses))
    penalty = 0.0 if price is None else float(price) * float(shed.sum() + spilt.sum())
    total = program.pieces.base + float(found.fun)
    lower = total - sum(_slack(*each) for each in zip(network.costs, points, prices[network.generator_places], strict=True))
    flows = values[program.starts[2] : program.starts[3]]
    limits = network.generator_limits
    near = AT_LIMIT * (1 + np.abs(limits).max(axis=1))
    fixed = np.flatnonzero((generation <= limits[:, 0] + near) | (generation >= limits[:, 1] - near))
    finite = np.where(np.isfinite(network.flow_limits), network.flow_limits, 0.0)
    full = np.flatnonzero(np.isfinite(network.flow_limits) & (np.abs(flows) >= finite - AT_LIMIT * (1 + finite)))
    return Dispatch(
        exact + penalty, min(lower, exact + penalty), generation, values[program.starts[1] : program.starts[2]], flows,
        prices, shed, spilt, tuple(fixed.tolist()), tuple(full.tolist()),
    )  # fmt: skip


def _slack(cost: Cost, points: Floats, price: float) -> float:
    """How much higher the least of cost minus price times power is for the chords than for the cost itself.

    Subtracted from the optimum of the chords it leaves the Lagrangian bound for these prices, which is below the
    optimum of the true costs, for these loads and, with the prices as slopes, for all others.
    """
    if not cost.square or len(points) < 2:
        return 0.0
    chords = float((cost.at(points) - price * points).min())
    best = float(np.clip((price - cost.linear) / (2 * cost.square), points[0], points[-1]))
    return max(0.0, chords - (float(cost.at(best)) - price * best))
