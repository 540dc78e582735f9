"""The attack on regional sums: how well can one load be guessed from them?

Published sums of a region's generation and load look harmless. An attacker who knows the other loads subtracts them;
one who knows nothing splits a sum over the region's buses within their public limits. `disaggregate` makes both
guesses, and `attack_regions` repeats them on made-up releases of a public network, for several epsilons, beside the
guess of an attacker who has seen no release at all.

>>> from tacit.applications.energy import Network, disaggregate
>>> network, regions = Network.nine_buses(), {"west": [5, 9], "east": [7]}
>>> disaggregate(network, regions, {"west load": 215.0, "east load": 100.0}, known={5: 90.0}).tolist()
[90.0, 100.0, 125.0]
>>> disaggregate(network, regions, {"west load": 215.0, "east load": 100.0}).tolist()
[107.5, 100.0, 107.5]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.applications.energy.network import Network, region_matrix
from tacit.applications.energy.regions import plan_regions
from tacit.applications.energy.sensitivity import Congestion
from tacit.parameters import Number, count

Floats = NDArray[np.float64]

#: Projections onto sums and limits, one after the other.
ROUNDS = 200


def disaggregate(
    network: Network, regions: Mapping[str, Sequence[int]], sums: Mapping[str, float], *,
    known: Mapping[int, float] | None = None, box: tuple[ArrayLike, ArrayLike] = (0.0, np.inf),
) -> Floats:
    """The guess of every load, in the order of `load_buses`, from published sums '<region> load'.

    The loads of least norm that add up to the sums, clipped to the public `box`, and again until both hold or nothing
    moves. `known` are loads the attacker knows, by bus.
    """
    member = region_matrix(regions, network)[:, network.load_places]
    wanted = np.array([float(sums[f"{name} load"]) for name in regions])
    low, high = (np.broadcast_to(np.asarray(end, dtype=float), len(network.load_buses)) for end in box)
    fixed = np.array([bus in (known or {}) for bus in network.load_buses])
    guess = np.array([(known or {}).get(bus, 0.0) for bus in network.load_buses], dtype=float)
    loose = member * ~fixed
    for _ in range(ROUNDS):
        missing = wanted - member @ guess
        # Loads at a limit in the direction that is missing cannot help any more.
        able = loose * np.where(missing[:, None] > 0, guess < high, guess > low)
        shares = able.sum(axis=1)
        if not np.any((np.abs(missing) > 1e-9) & (shares > 0)):
            break
        step = np.where(shares > 0, missing / np.maximum(shares, 1), 0.0)
        guess = np.where(fixed, guess, np.clip(guess + able.T @ step, low, high))
    return guess


@dataclass(frozen=True)
class Disaggregation:
    """How far guesses of one load are off on average, in MW, at one epsilon."""

    epsilon: float
    scale: float
    knowing_all_others: float
    knowing_nothing: float
    without_release: float


def attack_regions(
    network: Network, regions: Mapping[str, Sequence[int]], *, bus: int, change: Number, epsilons: Iterable[Number],
    box: tuple[ArrayLike, ArrayLike], congestion: Iterable[Congestion] | None = None, runs: int = 200,
) -> list[Disaggregation]:
    """The mean error of guessing the load of `bus` from regional sums, for each epsilon, over made-up releases.

    For networks whose loads are public or made up: it looks at the true load, and pays nothing. The attacker without a
    release guesses the middle of the box.
    """
    place = network.load_buses.index(int(bus))
    truth = float(network.loads[network.load_places[place]])
    others = {other: float(network.loads[network.places[other]]) for other in network.load_buses if other != bus}
    low, high = (np.broadcast_to(np.asarray(end, dtype=float), len(network.load_buses))[place] for end in box)
    declared = None if congestion is None else tuple(congestion)
    found = []
    for epsilon in epsilons:
        plan = plan_regions(network, regions, change=change, epsilon=epsilon, box=box, congestion=declared)
        knowing, guessing = [], []
        for _ in range(count("runs", runs)):
            sums = plan.result(plan.draw()).sums
            knowing.append(abs(disaggregate(network, regions, sums, known=others, box=box)[place] - truth))
            guessing.append(abs(disaggregate(network, regions, sums, box=box)[place] - truth))
        found.append(
            Disaggregation(
                float(epsilon), plan.scale, float(np.mean(knowing)), float(np.mean(guessing)), abs((low + high) / 2 - truth)
            )
        )
    return found
