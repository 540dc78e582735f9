"""What `tacit selftest` attacks in energy: each release on two neighbours, and the faults that its source prints.

>>> [case.name for case in cases()], part().name
(['energy: a load of a case', 'energy: a complex load', 'energy: a paid cost', 'energy: regional sums',
  'energy: requested energy', 'energy: the busiest day', 'energy: a load profile'], 'energy')
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Guarantee
from tacit.applications.energy.charging import DayPlan, plan_busiest_day, plan_histogram
from tacit.applications.energy.dispatch import dispatch
from tacit.applications.energy.meters import checked_clamp, profile_question
from tacit.applications.energy.network import Network
from tacit.applications.energy.private_case import CasePlan, PaidCost
from tacit.applications.energy.regions import DispatchPlan, plan_regions
from tacit.audit.selftest import Case, Mutant, Part, promise
from tacit.mechanisms import NoisySums
from tacit.tables import Desk, Plan, Source, Unit

Array = NDArray[Any]

REPLACE = Adjacency.REPLACE_ONE
REGIONS = {"west": [1, 4, 5, 9], "north": [2, 7, 8], "east": [3, 6]}
#: Two networks that differ in one load by 5 MW, with line 8-9 full: what the worst case of nine buses needs.
LOADS = ((90.0, 100.0, 120.0), (90.0, 100.0, 125.0))


def part() -> Part:
    """The cases and mutants of energy."""
    return Part("energy", ("duckdb", "pyarrow", "scipy"), "", cases, mutants)


def cases() -> list[Case]:
    """Right releases: each loses nearly what it claims."""
    return [_load(), _complex_load(), _paid_cost(), _regions(), _histogram(), _day(), _profile()]


def mutants() -> list[Mutant]:
    """Faults, most of them printed in the source, which must be caught."""
    return [*_load_mutants(), *_region_mutants(), *_day_mutants(), *_profile_mutants()]


def _repeat(draw: Callable[[], object], n: int) -> Array:
    return np.array([draw() for _ in range(n)])


# --- loads ----------------------------------------------------------------------------------------------------------


def _of_one_bus() -> CasePlan:
    """A network with one declared load, so that a draw is one number."""
    return CasePlan(Network.nine_buses().declare_load_buses([9]), 5, 1, 5216, 0.01)


def _load() -> Case:
    plan = _of_one_bus()

    def drawn(load: float, n: int) -> Array:
        held = plan.network.with_loads([load])
        return _repeat(lambda: plan.draw(held)["loads"][0], n) // 16

    return Case("energy: a load of a case", promise(plan.event, REPLACE), partial(drawn, 120.0), partial(drawn, 125.0), 0.6, 4_000)


def _complex_load() -> Case:
    plan = CasePlan(Network.nine_buses().declare_load_buses([9]), 5, 1, 5216, 0.01, model="ac")

    def drawn(active: float, reactive: float, n: int) -> Array:
        held = plan.network.with_loads([active], [reactive])
        # The coordinate along which the two loads differ, by 3 and 4, has the loss; what is across it is noise.
        return _repeat(lambda: round(_along(plan.draw(held))), n)

    return Case(
        "energy: a complex load", promise(plan.event, REPLACE), partial(drawn, 100.0, 40.0), partial(drawn, 103.0, 44.0), 0.3,
        12_000, why="the planar law is looked at along one line, and its tails fall off in all directions",
    )  # fmt: skip


def _along(drawn: dict[str, Any]) -> float:
    return 0.6 * (float(drawn["loads"][0]) - 100) + 0.8 * (float(drawn["reactive"][0]) - 40)


def _paid_cost() -> Case:
    plan = CasePlan(Network.nine_buses().declare_load_buses([9]), 5, 1000, PaidCost(1, 1), 0.01)
    noise = plan.cost_noise
    assert noise is not None
    costs = [_optimum(plan, load) for load in (300.0, 305.0)]

    def drawn(cost: int, n: int) -> Array:
        return np.asarray(noise.add(np.full(n, cost, dtype=np.int64))) // 16

    # One MW more is shed at the price of 1, so the cost moves by all that is priced.
    return Case(
        "energy: a paid cost", promise(noise.event, REPLACE), partial(drawn, costs[0]), partial(drawn, costs[1]), 0.7, 20_000
    )


def _optimum(plan: CasePlan, load: float) -> int:
    """The cost in granules, where everything beyond the least generation is shed: found once, as a draw would."""
    assert isinstance(plan.cost, PaidCost) and plan.cost_noise is not None
    found = dispatch(plan.network.with_loads([load]), price=float(plan.cost.price), tolerance=1e-9).cost
    return math.floor(Fraction(found) / plan.cost_noise.granularities[0])


def _load_mutants() -> list[Mutant]:
    plan = _of_one_bus()
    granule = float(plan.granule)

    def right(load: float, n: int) -> Array:
        return np.asarray(plan.noise.add(np.full(n, int(load / granule), dtype=np.int64))) // 16

    def inverse(load: float, n: int) -> Array:
        """The scale is change times epsilon where it is change over epsilon."""
        wrong = NoisySums.of_scale("laplace", plan.noise.scales[0] / 9)  # epsilon 3 asked for: 5 / 3 is taken for 5 * 3
        return np.asarray(wrong.add(np.full(n, int(load / granule), dtype=np.int64))) // 16

    def one_sided(load: float, n: int) -> Array:
        """Noise below 0 is cut off before it is added, so no published load is below the true one."""
        noise = np.asarray(plan.noise.draw(n))
        return np.asarray((int(load / granule) + np.maximum(noise, 0)) // 16)

    def leaked(load: float, n: int) -> Array:
        """The reactive load is published as it is, and follows the load by a power factor."""
        noisy = right(load, n)
        return noisy * 1000 + round(load * 0.3)

    pair = (120.0, 125.0)
    return [
        Mutant("energy: 1/epsilon taken for epsilon", inverse, right, pair, bulk=True),
        Mutant("energy: one-sided clamp of noise", one_sided, right, pair, bulk=True),
        Mutant("energy: true reactive load beside a noisy one", leaked, right, pair, bulk=True),
    ]


# --- sums of a dispatch ---------------------------------------------------------------------------------------------


def _congested() -> Network:
    """Nine buses whose line 8-9 is full and whose first generator is at its least: where sums move most."""
    network = Network.nine_buses()
    text = network.to_matpower().replace("\t8\t9\t0.032\t0.161\t0.306\t250", "\t8\t9\t0.032\t0.161\t0.306\t100")
    text = text.replace("\t2\t1500\t0\t3\t0.11\t5\t150", "\t2\t1500\t0\t3\t0\t50\t150")
    text = text.replace("\t3\t0.085\t1.2\t600", "\t3\t0\t1.2\t600").replace("\t3\t0.1225\t1\t335", "\t3\t0\t2\t335")
    return Network.from_matpower(text)


def _sums(load: tuple[float, ...]) -> tuple[DispatchPlan, Array]:
    """The plan and the true sums of a dispatch, in granules, found once."""
    network = _congested()
    plan = plan_regions(network, REGIONS, change=5, epsilon=1, box=(60, 125))
    return plan, np.array(plan.exact(network.with_loads(load)), dtype=np.int64)


def _told(noisy: Array, first: Array, second: Array) -> Array:
    """What the best attacker looks at: each sum between its two true values, added up along the moves, in a few steps."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    moved = (np.clip(noisy, low, high) - first) * np.sign(second - first)
    return np.asarray(moved.sum(axis=1) * 24 // np.abs(second - first).sum())


def _regions() -> Case:
    (plan, first), (_, second) = (_sums(load) for load in LOADS)

    def drawn(sums: Array, n: int) -> Array:
        return _told(np.asarray(plan.noise.add(np.tile(sums, (n, 1)))), first, second)

    return Case(
        "energy: regional sums", promise(plan.event, REPLACE), partial(drawn, first), partial(drawn, second), 0.6, 100_000,
        why="three sums must all be far out for the whole loss, which is rare",
    )  # fmt: skip


def _region_mutants() -> list[Mutant]:
    (plan, first), (_, second) = (_sums(load) for load in LOADS)
    noise, sums = plan.noise, {0: first, 1: second}

    def right(which: int, n: int) -> Array:
        return _told(np.asarray(noise.add(np.tile(sums[which], (n, 1)))), first, second)

    def monotone(which: int, n: int) -> Array:
        """The noise is that of a monotone network, though one generator falls by twice the load."""
        small = NoisySums.of_scale("laplace", noise.scales[0] / 3)
        return _told(np.asarray(small.add(np.tile(sums[which], (n, 1)))), first, second)

    def apart(which: int, n: int) -> Array:
        noisy = np.asarray(noise.add(np.tile(sums[which], (n, 1))))
        return np.asarray((noisy[:, 0] - noisy[:, 1]) // 512)

    def shared(which: int, n: int) -> Array:
        """Generation and load of a region get the same noise, so their difference is exact."""
        noisy = sums[which] + np.asarray(noise.draw((n, 1)))
        return np.asarray((noisy[:, 0] - noisy[:, 1]) // 512)

    return [
        Mutant("energy: region sums with shared noise", shared, apart, (0, 1), bulk=True),
        Mutant("energy: region sums as in a monotone network", monotone, right, (0, 1), bulk=True, trials=20_000),
    ]


# --- charging -------------------------------------------------------------------------------------------------------


def _desk(energies: list[float]) -> Desk:
    import pyarrow as pa

    days = [date(2019, 11, 1 + place % 2) for place in range(len(energies))]
    rows = pa.table({"day": pa.array(days, pa.date32()), "kwh_delivered": pa.array(energies, pa.float64())})
    return Desk.of(Source.of(rows, name="charging"), Unit.row())


#: Twenty sessions, and one more.
ENERGIES = ((15.0,) * 20, (*(15.0,) * 20, 12.0))
#: One session of 1,000 kWh more on the first day: it counts for the clamp.
SESSIONS = ((50.0, 130.0), (50.0, 130.0, 1000.0))


# Counted when they are first drawn from, and once: whoever only asks for the names of the cases starts no engine.
@cache
def _counted(energies: tuple[float, ...]) -> Array:
    plan = plan_histogram(_desk(list(energies)), (0, 10, 20), epsilon=1, column="kwh_delivered")
    return plan.cut.counts([("kwh_delivered",)])[("kwh_delivered",)]


@cache
def _scores(energies: tuple[float, ...]) -> Array:
    plan = _day_plan(energies)
    counts = plan.cut.counts([("day", "kwh_delivered")])[("day", "kwh_delivered")]
    return np.asarray(counts[:-1, :-1] @ plan.weights)


@cache
def _day_plan(energies: tuple[float, ...]) -> DayPlan:
    return plan_busiest_day(_desk(list(energies)), "2019-11-01", days=2, clamp=100, epsilon=1)


def _histogram() -> Case:
    plan = plan_histogram(_desk(list(ENERGIES[0])), (0, 10, 20), epsilon=1, column="kwh_delivered")

    def drawn(which: int, n: int) -> Array:
        return np.asarray(plan.noise.add(np.tile(_counted(ENERGIES[which]), (n, 1))))[:, 1]

    return Case("energy: requested energy", promise(plan.event), partial(drawn, 0), partial(drawn, 1), 0.8, 20_000)


def _chosen(scores: Array, n: int) -> Array:
    measurement = _day_plan(SESSIONS[0]).measurement
    return _repeat(lambda: measurement.function(list(map(int, scores))), n)


def _clamped(which: int, n: int) -> Array:
    return _chosen(_scores(SESSIONS[which]), n)


def _day() -> Case:
    return Case(
        "energy: the busiest day", promise(_day_plan(SESSIONS[0]).event), partial(_clamped, 0), partial(_clamped, 1), 0.25, 10_000,
        why="between two days the monotone mechanism spreads its epsilon over both losses",
    )  # fmt: skip


def _day_mutants() -> list[Mutant]:
    def unclamped(which: int, n: int) -> Array:
        """A session counts with all of its energy, whatever was declared."""
        return _chosen(_scores(SESSIONS[0]) + np.array([1000 * which, 0]), n)

    return [Mutant("energy: a busiest day without its clamp", unclamped, _clamped, (0, 1), bulk=True)]


# --- meters ---------------------------------------------------------------------------------------------------------


#: Three households with a reading in each of two intervals, and one more that uses all it may, and claims to use 1e308.
READINGS = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5, 1e308))
#: A kWh on the lattice of sums, for readings of at most 2.
KWH = 2**27


@cache
def _profile_plan(readings: tuple[float, ...]) -> tuple[Desk, Plan]:
    import pyarrow as pa

    homes = len(readings)
    rows = pa.table({"household": [*range(homes)] * 2, "interval": [0] * homes + [1] * homes, "kwh": pa.array(readings * 2, pa.float64())})
    desk = Desk.of(Source.of(rows, name="meters"), Unit("household", max_groups=2, rows_per_group=1))
    question = desk.question(profile_question("meters", "interval", "kwh"))
    return desk, desk.plan(question, Guarantee(epsilon=1), bounds={"kwh": checked_clamp((0, 2))}, keys={"interval": [0, 1]})


def _between(noisy: Array) -> Array:
    """What the best attacker looks at: each interval between its two true sums, both added up, in a few steps."""
    low = 3 * KWH // 2
    return np.asarray(np.clip(noisy - low, 0, 2 * KWH).sum(axis=1) * 24 // (4 * KWH))


def _profiles(which: int, n: int) -> Array:
    desk, plan = _profile_plan(READINGS[which])
    return _between(np.array([one[0].astype(np.int64) for one in desk.made_up_draws(plan, n)]))


def _profile() -> Case:
    _, plan = _profile_plan(READINGS[0])
    return Case(
        "energy: a load profile", promise(plan.event), partial(_profiles, 0), partial(_profiles, 1), 0.5, 8_000,
        why="both intervals must be far out for the whole loss, and a little of it is paid for the curator's check",
    )  # fmt: skip


def _profile_mutants() -> list[Mutant]:
    def noisy(which: int, n: int, scale: int) -> Array:
        sums = np.full((n, 2), 3 * KWH // 2 + 2 * KWH * which, dtype=np.int64)
        return _between(np.asarray(NoisySums.of_scale("laplace", scale).add(sums), dtype=np.int64))

    def right(which: int, n: int) -> Array:
        return noisy(which, n, 4 * KWH)

    def one_interval(which: int, n: int) -> Array:
        """A household has readings in two intervals, and each sum gets the noise for one."""
        return noisy(which, n, 2 * KWH)

    return [Mutant("energy: one interval's price for a profile", one_interval, right, (0, 1), bulk=True, trials=20_000)]
