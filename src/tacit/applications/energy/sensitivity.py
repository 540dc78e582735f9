"""How far one load moves a dispatch: the Jacobian of the optimal power flow, and its monotonicity ratio.

Near almost all loads, which generators and lines are at their limits does not change, and the dispatch is linear:
`jacobian` gives its slope. If a load grows, some generators may fall while others rise by more than the load. The
ratio of `monotonicity` is the largest fall for one MW, over every set of limits that can bind together; the noise of
`release_regions` and `release_query` grows with it. It depends on the network alone, not on costs, limits or loads.

>>> from tacit.applications.energy import Network, monotonicity
>>> found = monotonicity(Network.nine_buses())
>>> round(found.ratio, 6), found.sets, found.bus, found.generators, found.lines
(2.008102, 60, 9, (1,), ((8, 9),))

The number of sets explodes with the size of the network. Beyond `LIMIT` sets `monotonicity` refuses: the operator
declares which limits may bind together (`Congestion`), and the promise holds while no others do. A maximum over
sampled sets is no bound, so none is offered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.applications.energy.errors import EnergyError
from tacit.applications.energy.network import GEN_BUS, Network

Floats = NDArray[np.float64]

#: The most sets that are checked one by one.
LIMIT = 100_000
#: A system whose smallest singular value is below this share of its largest has no unique solution.
SINGULAR = 1e-9
#: Systems that are solved at once.
BATCH = 4096


@dataclass(frozen=True)
class Congestion:
    """Limits that bind together: the buses of generators at a limit, and lines at theirs, by the buses at their ends."""

    generators: tuple[int, ...] = ()
    lines: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Monotonicity:
    """The largest fall of generation, in MW for each MW by which one load grows, and where it happens.

    `bus` is the load, `generators` (by their buses) and `lines` (by their ends) are at their limits, `response` is
    what every generator does for one MW more. With `declared` congestion, the ratio holds for those sets alone.
    """

    ratio: float
    sets: int
    declared: bool
    bus: int
    generators: tuple[int, ...]
    lines: tuple[tuple[int, int], ...]
    response: tuple[float, ...]

    def scale(self, change: float, epsilon: float) -> float:
        """The scale of Laplace noise on regional sums, in MW: 2 (1 + ratio) change / epsilon (Lemma 10.17).

        >>> from tacit.applications.energy import Network, monotonicity
        >>> round(monotonicity(Network.nine_buses()).scale(change=5, epsilon=1), 2)
        30.08
        """
        return 2 * (1 + self.ratio) * change / epsilon

    def words(self) -> str:
        """What the ratio means, in a sentence."""
        lines = ", ".join(f"{a}-{b}" for a, b in self.lines) or "none"
        over = "every set of limits that can bind together" if not self.declared else "the declared congestion only"
        return (
            f"when the load of bus {self.bus} grows by 1 MW while lines {lines} are full, generators that fall do so by "
            f"{self.ratio:.6g} MW in all, and others rise by {1 + self.ratio:.6g} MW; the largest over {over} ({self.sets} sets). "
            f"Sums of generation need noise {1 + self.ratio:.6g} times as large as in a network where none ever falls"
        )


def jacobian(network: Network, congestion: Congestion) -> Floats:
    """How many MW each generator moves for one MW more at each bus, while exactly these limits bind.

    Rows are generators, columns buses. One generator more is free than lines are full.

    Guarantee
        Statement: where the binding set is locally constant, this is the derivative of the dispatch by the loads.
        Conditions: as many limits bind as there are generators, less one; free generators stand at different buses.
        Proved in: the changes x of the free generators serve one MW more at bus j, so they add up to 1; full lines stay
        full, so H (x - e_j) = 0 in each, H being the distribution factors. The book's Theorem 10.11 is the same system
        with angles in place of distribution factors.
        Correction: as printed, the second block of Z selects buses of all generators (it must be those at a limit, or
        the matrix is not square), the rows of the result are loads (they must be generators), and the sign is that of
        injections, not of demand.
    """
    free, lines = _chosen(network, congestion)
    if len(free) != len(lines) + 1:
        raise EnergyError(
            f"{len(free)} generators are free and {len(lines)} lines are full; a dispatch is determined when one "
            "generator more is free than lines are full"
        )
    system = _systems(network, np.array([free]), np.array([lines], dtype=np.int64).reshape(1, -1))
    solved, good = _solve(system, _sides(network, np.array([lines], dtype=np.int64).reshape(1, -1), np.arange(len(network.bus))))
    if not good[0]:
        raise EnergyError("these limits cannot bind together: the lines' flows do not determine the free generators")
    found = np.zeros((len(network.gen), len(network.bus)))
    found[list(free)] = solved[0]
    return found


def monotonicity(
    network: Network, congestion: Iterable[Congestion] | None = None, *, limit: int = LIMIT
) -> Monotonicity:
    """The monotonicity ratio: by enumeration of all sets of limits, or of those that are declared.

    Guarantee
        Statement: for loads that differ at one bus by at most d MW, generators that fall do so by at most ratio * d in
        all, and those that rise by at most (1 + ratio) * d.
        Conditions: the dispatch is single-valued (generic costs), the loads between the two can be served, and (with
        declared congestion) only declared sets bind between them.
        Proved in: on the segment between the loads the dispatch is continuous and piecewise linear; on each piece its
        slope is the Jacobian of some independent set of binding limits, and the ratio is the maximum over all of them.
    """
    if congestion is None:
        total = count_sets(network)
        if total > limit:
            raise EnergyError(code="congestion-sets-needed", sets=total, limit=limit)
        chosen: Iterator[tuple[tuple[int, ...], tuple[int, ...]]] = _all_sets(network)
    else:
        listed = [_chosen(network, one) for one in congestion]
        if not listed:
            raise EnergyError("no congestion is declared; give at least one set, Congestion() for none at a limit but generators")
        for free, lines in listed:
            if len(free) != len(lines) + 1:
                raise EnergyError(
                    f"a declared set has {len(free)} free generators and {len(lines)} full lines; it needs one generator "
                    "more than lines (list the other generators as being at a limit)"
                )
        chosen = iter(listed)
    best: tuple[float, int, tuple[int, ...], tuple[int, ...], Floats] | None = None
    valid = 0
    for size, group in itertools.groupby(sorted(chosen, key=lambda one: len(one[1])), key=lambda one: len(one[1])):
        while batch := list(itertools.islice(group, BATCH)):
            loose = np.array([one[0] for one in batch], dtype=np.int64)
            full = np.array([one[1] for one in batch], dtype=np.int64).reshape(len(batch), size)
            solved, good = _solve(_systems(network, loose, full), _sides(network, full, network.load_places))
            valid += int(good.sum())
            falls = np.where(good[:, None], np.maximum(0.0, -solved).sum(axis=1), -1.0)
            place, load = np.unravel_index(int(falls.argmax()), falls.shape)
            if best is None or falls[place, load] > best[0]:
                best = float(falls[place, load]), int(load), batch[place][0], batch[place][1], solved[place, :, load]
    if best is None or best[0] < 0:
        raise EnergyError("no set of limits determines a dispatch; look at the network, or at the declared sets")
    return _told(network, best, valid, congestion is not None)


def count_sets(network: Network) -> int:
    """How many sets of limits there are to check: as many limits as generators, less one, out of generators and lines."""
    return math.comb(len(network.gen) + len(network.branch), len(network.gen) - 1)


def _told(
    network: Network, best: tuple[float, int, tuple[int, ...], tuple[int, ...], Floats], sets: int, declared: bool
) -> Monotonicity:
    ratio, load, free, lines, solved = best
    response = np.zeros(len(network.gen))
    response[list(free)] = solved
    fixed = [int(network.gen[i, GEN_BUS]) for i in range(len(network.gen)) if i not in free]
    ends = tuple((int(network.buses[network.ends[i, 0]]), int(network.buses[network.ends[i, 1]])) for i in lines)
    return Monotonicity(
        max(0.0, ratio), sets, declared, int(network.load_buses[load]), tuple(fixed), ends, tuple(response.tolist())
    )


def _all_sets(network: Network) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Free generators and full lines of every set; free generators stand at different buses."""
    generators = range(len(network.gen))
    for full in range(min(len(network.gen) - 1, len(network.branch)) + 1):
        for free in itertools.combinations(generators, full + 1):
            if len(set(network.generator_places[list(free)].tolist())) == len(free):
                for lines in itertools.combinations(range(len(network.branch)), full):
                    yield free, lines


def _chosen(network: Network, congestion: Congestion) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Free generators and full lines as places in the tables. A bus's generators are at their limits together."""
    known = set(network.gen[:, GEN_BUS].astype(int).tolist())
    unknown = [bus for bus in congestion.generators if bus not in known]
    if unknown:
        raise EnergyError(f"there is no generator at bus {unknown[0]}; generators are named by their buses")
    free = tuple(i for i, bus in enumerate(network.gen[:, GEN_BUS].astype(int)) if int(bus) not in congestion.generators)
    if len(set(network.generator_places[list(free)].tolist())) < len(free):
        raise EnergyError("two generators of one bus cannot both be free; join them into one")
    pairs = [{int(network.buses[a]), int(network.buses[b])} for a, b in network.ends]
    lines = []
    for line in congestion.lines:
        if set(line) not in pairs:
            raise EnergyError(f"there is no line {line[0]}-{line[1]}; lines are named by the buses at their ends")
        lines.append(pairs.index(set(line)))
    if len(set(lines)) < len(lines):
        raise EnergyError("a line is declared twice in one set")
    return free, tuple(lines)


def _systems(network: Network, free: NDArray[np.int64], lines: NDArray[np.int64]) -> Floats:
    """For every set the matrix whose rows say: changes add up to what is served; each full line stays full."""
    count, size = free.shape
    found = np.ones((count, size, size))
    found[:, 1:, :] = network.ptdf[lines[:, :, None], network.generator_places[free][:, None, :]]
    return found


def _sides(network: Network, lines: NDArray[np.int64], loads: Sequence[int] | NDArray[np.int64]) -> Floats:
    """What these rows amount to for one MW more at each load."""
    count, size = lines.shape
    found = np.ones((count, size + 1, len(loads)))
    found[:, 1:, :] = network.ptdf[lines[:, :, None], np.asarray(loads)[None, None, :]]
    return found


def _solve(systems: Floats, sides: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Solutions of all systems, and which of them have a unique one."""
    values = np.linalg.svd(systems, compute_uv=False)
    good = values[:, -1] > SINGULAR * values[:, 0]
    safe = np.where(good[:, None, None], systems, np.eye(systems.shape[1])[None])
    return np.asarray(np.linalg.solve(safe, sides), dtype=np.float64), good
