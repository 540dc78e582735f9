"""Sums of a dispatch by region, and smooth questions about a dispatch: offered with their price told first.

The true optimal dispatch moves when a load does, and it may move by more than the load. How much more is the
monotonicity ratio of the network (`tacit.applications.energy.monotonicity`), which is 2 for nine buses and thousands
for fourteen. `plan_regions` and `plan_query` find it, and say what the noise will be, before a load is touched;
`release` of the plan then pays and draws. For most networks the plan will say that `release_case` serves better.

>>> from tacit.applications.energy import Network, plan_regions
>>> plan = plan_regions(
...     Network.nine_buses(), {"west": [1, 4, 5, 9], "east": [2, 3, 6, 7, 8]}, change=5, epsilon=1, box=(30, 150)
... )
>>> round(plan.scale, 1), plan.event
(30.1, Laplace(noise_multiplier=1, adjacency=Adjacency.REPLACE_ONE))
>>> sorted(plan.release().sums)
['east generation', 'east load', 'west generation', 'west load']

Loads are first clamped to a public box, and a linear program certifies that every load in the box can be served. So
the dispatch exists for every network that could be there, and nothing fails because of one load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linprog

from tacit.accounting import Adjacency, Event
from tacit.applications.energy.dispatch import dispatch, first_points
from tacit.applications.energy.errors import EnergyError
from tacit.applications.energy.network import Cost, Network, region_matrix
from tacit.applications.energy.private_case import insist_on_unit, over, protected_unit
from tacit.applications.energy.sensitivity import Congestion, Monotonicity, monotonicity
from tacit.ledger import paying
from tacit.mechanisms import NoisySums
from tacit.parameters import Number, count, positive

if TYPE_CHECKING:
    from tacit.ledger import Account

Floats = NDArray[np.float64]
Query = Callable[[Floats, Floats], ArrayLike]

#: The change is so many granules.
FINE = 4096
#: What rounding down and the solver may move one sum, in granules.
ROUNDING = 2
#: Costs are moved by up to this share, the same for everyone, so that no two dispatches cost the same.
GENERIC = 1e-3
#: Questions are clamped to this size before noise; their answers are sums of MW.
LARGEST = 1e12


@dataclass(frozen=True)
class DispatchPlan:
    """Figures of the true dispatch, with their price: what one load can move, the noise, the draw.

    `names` are the figures. `stretch` bounds how far all figures together move for each MW by which generation and
    loads together move. `query` computes them from generation and loads.

    Guarantee
        Statement: releasing all figures once costs Laplace(1 / epsilon) for networks that differ in one load by at most
        `change` and have the same public tables.
        Conditions: the monotonicity ratio holds (with declared congestion: while no other limits bind together), the
        box is served by an affine policy, `stretch` bounds the question's slopes in l1.
        Proved in: book, Theorem 10.15 and Lemma 10.17. Generators that rise do so by at most (1 + ratio) change, those that
        fall by at most ratio * change, and the load by change: 2 (1 + ratio) change in all. Disjoint regions share this
        among their sums, so their number does not matter. Clamping to the box brings loads no further apart.
        Correction: the book writes the same noise variable on generation and load of a region, which cancels in their
        difference; each figure has its own here. Its Theorem 10.15 says that the slope is taken by the load; it is
        that of the question by its own arguments.
    """

    network: Network
    change: Number
    epsilon: Number
    box: tuple[Floats, Floats] = field(repr=False)
    names: tuple[str, ...]
    stretch: Fraction
    query: Query = field(repr=False)
    monotone: Monotonicity

    @property
    def unit(self) -> str:
        """What is protected."""
        return protected_unit(self.change)

    @property
    def reach(self) -> Fraction:
        """How far one load moves all figures together, rounded up."""
        ratio = Fraction(math.nextafter(self.monotone.ratio * (1 + 1e-9), math.inf))
        return 2 * (1 + ratio) * Fraction(self.change) * self.stretch

    @cached_property
    def noise(self) -> NoisySums:
        """The noise of every figure."""
        granule = Fraction(self.change) / FINE
        moved = math.ceil(self.reach / granule) + ROUNDING * len(self.names)
        return NoisySums.of_multiplier(
            "laplace", over(self.epsilon), moved, granularity=granule, adjacency=Adjacency.REPLACE_ONE
        )

    @property
    def event(self) -> Event:
        """What the release costs."""
        return self.noise.event

    @property
    def scale(self) -> float:
        """The scale of the noise of each figure, in the unit of the figures."""
        return self.noise.spread()

    def words(self) -> str:
        """What the price is, before it is paid."""
        typical = f"each figure gets Laplace noise of scale {self.scale:.4g} ({self.noise.error(0.95):.4g} at 95%)"
        served = float(self.box[1].sum())
        useless = f", and all loads together are at most {served:.4g} MW: release the loads instead (release_case)"
        return f"{self.monotone.words()}; so {typical}" + (useless if self.scale > served / 10 else "")

    def exact(self, network: Network) -> list[int]:
        """The figures of a network's dispatch in whole granules, without noise; nothing of it is published."""
        loads = np.clip(np.nan_to_num(network.loads[self.network.load_places], nan=0.0), *self.box)
        full = np.zeros(len(self.network.bus))
        full[self.network.load_places] = loads
        found = dispatch(_generic(self.network), full)
        figures = np.asarray(self.query(found.generation, loads), dtype=float).reshape(len(self.names))
        kept = np.clip(np.nan_to_num(figures, nan=0.0), -LARGEST, LARGEST)
        return [math.floor(Fraction(x) / self.noise.granularities[0]) for x in kept.tolist()]

    def draw(self, network: Network | None = None) -> list[int]:
        """Touch the loads, dispatch, add noise, once. To be called inside a payment."""
        figures = self.exact(self.network if network is None else network)
        return [int(x) for x in self.noise.add(np.array(figures, dtype=object))]

    def result(self, drawn: Sequence[int], *, private: bool = True, entry: int | None = None) -> ReleasedFigures:
        """The published figures."""
        granule = self.noise.granularities[0]
        return ReleasedFigures(self, dict(zip(self.names, (float(x * granule) for x in drawn), strict=True)), private, entry)

    def release(self, account: Account | None = None, *, purpose: str = "figures of a dispatch") -> ReleasedFigures:
        """Pay, then draw."""
        insist_on_unit(account, self.unit)
        with paying(account, self.event, purpose=purpose) as payment:
            drawn = self.draw()
        return self.result(drawn, private=payment.private, entry=payment.entry)


@dataclass(frozen=True)
class ReleasedFigures:
    """Published figures of a dispatch, by name."""

    plan: DispatchPlan
    sums: Mapping[str, float]
    private: bool
    entry: int | None

    def within(self, confidence: float = 0.95) -> float:
        """How far one figure is off at most, with this confidence."""
        return self.plan.noise.error(confidence)


def plan_regions(
    network: Network, regions: Mapping[str, Sequence[int]], *, change: Number, epsilon: Number,
    box: tuple[ArrayLike, ArrayLike], congestion: Iterable[Congestion] | None = None,
) -> DispatchPlan:
    """Generation and load of disjoint regions, summed (Lemma 10.17). `regions` name the buses of each.

    `box` is the public range of loads, in MW: two numbers for all, or two arrays with one for each of `load_buses`.
    `congestion` declares which limits may bind together where there are too many sets to check them all.
    """
    member = region_matrix(regions, network)
    of_generators, of_loads = member[:, network.generator_places], member[:, network.load_places]

    def sums(generation: Floats, loads: Floats) -> Floats:
        return np.column_stack([of_generators @ generation, of_loads @ loads]).ravel()

    names = tuple(f"{name} {what}" for name in regions for what in ("generation", "load"))
    return _planned(network, change, epsilon, box, congestion, names, Fraction(1), sums)


def plan_query(
    network: Network, query: Query, *, outputs: int, slope: Number, change: Number, epsilon: Number,
    box: tuple[ArrayLike, ArrayLike], congestion: Iterable[Congestion] | None = None,
) -> DispatchPlan:
    """A smooth question about generation and loads (Theorem 10.15), with so many `outputs`.

    `query(generation, loads)` has partial derivatives of at most `slope` in size; that is declared, and the guarantee
    rests on it. The noise grows with slope times outputs.
    """
    many = count("outputs", outputs)
    stretch = Fraction(positive("slope", slope)) * many
    names = tuple(f"output {i + 1}" for i in range(many))
    return _planned(network, change, epsilon, box, congestion, names, stretch, query)


def _planned(
    network: Network, change: Number, epsilon: Number, box: tuple[ArrayLike, ArrayLike],
    congestion: Iterable[Congestion] | None, names: tuple[str, ...], stretch: Fraction, query: Query,
) -> DispatchPlan:
    positive("change", change)
    positive("epsilon", epsilon)
    ends = tuple(np.broadcast_to(np.asarray(end, dtype=float), len(network.load_buses)).copy() for end in box)
    if len(ends) != 2 or not np.isfinite(ends).all() or np.any(ends[0] > ends[1]):
        raise EnergyError("box must be the least and the largest load, in MW, such as (0, 150)")
    if not serves(network, ends[0], ends[1]):
        raise EnergyError(
            "no affine policy serves every load of the box, so the dispatch may not exist for some; make the box smaller"
        )
    found = monotonicity(network, congestion)
    return DispatchPlan(network, change, epsilon, (ends[0], ends[1]), names, stretch, query, found)


def serves(network: Network, low: ArrayLike, high: ArrayLike) -> bool:
    """Whether some affine policy serves every load between `low` and `high`, one number for each load bus.

    True is a certificate: generation P + A (d - centre), with columns of A that add up to 1, keeps every limit for every
    d in the box, by one linear program over P and A. False means only that no such policy was found.

    >>> from tacit.applications.energy import Network
    >>> serves(Network.nine_buses(), [0] * 3, [150] * 3), serves(Network.nine_buses(), [0] * 3, [400] * 3)
    (False, False)
    >>> serves(Network.nine_buses(), [30] * 3, [150] * 3)
    True
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    centre, radius = (low + high) / 2, (high - low) / 2
    generators, loads = len(network.gen), len(low)
    limited = np.flatnonzero(np.isfinite(network.flow_limits))
    if np.isfinite(network.angle_limits).any():
        raise EnergyError("a branch limits its angle; give it a limit in MW instead, which the certificate knows")
    factors = network.ptdf[limited]
    at_generators, at_loads = factors[:, network.generator_places], factors[:, network.load_places]
    # Variables: P, A (generator by generator), and bounds on |A| and on what a load adds to a flow.
    policy = generators * loads
    flows = len(limited) * loads
    width = generators + 2 * policy + flows
    own = sparse.kron(sparse.eye_array(generators), radius[None, :])
    lines = sparse.kron(sparse.eye_array(len(limited)), radius[None, :])
    spread = sparse.kron(sparse.csr_array(at_generators), sparse.eye_array(loads))  # (H A) for each line and load
    none = sparse.csr_array
    eye = sparse.eye_array
    blocks = [
        # |A| <= its bound, |H A - H| <= its bound
        ([none((policy, generators)), eye(policy), -eye(policy), none((policy, flows))], np.zeros(policy)),
        ([none((policy, generators)), -eye(policy), -eye(policy), none((policy, flows))], np.zeros(policy)),
        ([none((flows, generators)), spread, none((flows, policy)), -eye(flows)], at_loads.ravel()),
        ([none((flows, generators)), -spread, none((flows, policy)), -eye(flows)], -at_loads.ravel()),
    ]
    # A phase shifter is a pair of injections at its ends, and its own flow lacks what it takes away.
    shifts = factors @ (network.incidence @ network.shifted) - network.shifted[limited]
    fixed = at_loads @ centre + factors @ network.shunts - shifts
    room = network.flow_limits[limited]
    least, most = network.generator_limits.T
    blocks += [
        ([eye(generators), none((generators, policy)), own, none((generators, flows))], most),
        ([-eye(generators), none((generators, policy)), own, none((generators, flows))], -least),
        ([at_generators, none((len(limited), policy)), none((len(limited), policy)), lines], room + fixed),
        ([-at_generators, none((len(limited), policy)), none((len(limited), policy)), lines], room - fixed),
    ]
    below = sparse.vstack([sparse.hstack(row) for row, _ in blocks]).tocsr()
    sums = sparse.kron(np.ones((1, generators)), eye(loads))
    equal = sparse.vstack(
        [
            sparse.hstack([np.ones((1, generators)), none((1, width - generators))]),
            sparse.hstack([none((loads, generators)), sums, none((loads, policy + flows))]),
        ]
    ).tocsr()
    total = np.concatenate([[centre.sum() + network.shunts.sum()], np.ones(loads)])
    free = np.tile([-np.inf, np.inf], (generators + policy, 1))
    bounds = np.vstack([free, np.tile([0.0, np.inf], (policy + flows, 1))])
    found: Any = linprog(
        np.zeros(width), A_ub=below, b_ub=np.concatenate([side for _, side in blocks]), A_eq=equal, b_eq=total,
        bounds=bounds, method="highs",
    )  # fmt: skip
    return bool(found.status == 0)


def _generic(network: Network) -> Network:
    """The network with costs of linear pieces, each generator's moved a little, the same for everyone.

    A dispatch then has one optimum, which is continuous in the loads, as the theorem assumes.
    """
    largest = max(1.0, max(abs(float(np.diff(cost.at([low, high]))[0]) / max(high - low, 1e-9))
                           for cost, (low, high) in zip(network.costs, network.generator_limits, strict=True)))  # fmt: skip
    found = []
    for place, (cost, at) in enumerate(zip(network.costs, first_points(network), strict=True)):
        moved = GENERIC * largest * math.modf((place + 1) * (math.sqrt(5) - 1) / 2)[0]  # spread out evenly
        if len(at) < 2:
            found.append(Cost(0.0, moved, 0.0))
        else:
            values = cost.at(at) + moved * at
            found.append(Cost(0.0, 0.0, 0.0, tuple(at.tolist()), tuple(values.tolist())))
    return replace(network, costs=tuple(found))
