"""Cases and mutants of federations: sums of clients under central and distributed trust, questions, and six sabotages.

The cases look at one coordinate of a noisy sum with and without one client. The mutants are the ways in which federated
software has gone wrong: shares of noise for clients that dropped out, one seed for all shares, clipping by tensor that is
called flat, example counts as weights, metrics in the clear, and a sensitivity that is set apart from the clip.

>>> [mutant.name for mutant in mutants()][:2]
['federated: shares for the selected', 'federated: one seed for all shares']
>>> mutants()[0].caught() != "", mutants()[0].caught(broken=False)
(True, '')
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tacit import noise
from tacit.accounting import Gaussian
from tacit.audit.selftest.case import Case, Mutant, promise
from tacit.federated import Encoding, central, evaluation, histogram
from tacit.mechanisms import NoisySums

UNIT = promise(Gaussian(1))
SELECTED, SURVIVING = 10, 5


# --- what the clients and the server do ------------------------------------------------------------------------


def _central(present: bool, n: int, moved: float = 1.0, multiplier: float = 1.0) -> Any:
    """n sums under central trust, along the direction of one client's update of `moved` clips."""
    return central.noise(multiplier, 1.0).add(np.full(n, int(present * moved * central.CLIP), dtype=np.int64))


def _sent(present: bool, n: int, tensors: int = 1) -> Any:
    """The same from what a client sends: its update of four tensors, each clipped by itself or all together."""
    update = np.full(4, 100.0)
    parts = [central.to_lattice(part, 1.0) for part in np.split(update, tensors)]
    length = float(np.linalg.norm(np.concatenate(parts).astype(np.float64))) / central.CLIP
    return _central(present, n, moved=length)


def _encoding(survivors: int) -> Encoding:
    return Encoding(size=1, clip=1.0, clients=SELECTED, noise_multiplier=1.0, survivors=survivors, bits=16)


def _shared(present: bool, n: int, planned: int = SURVIVING) -> Any:
    """n sums of the shares of the survivors, which were dimensioned for so many."""
    encoding = _encoding(planned)
    return noise.skellam(SURVIVING * encoding.share_variance, size=n) + int(present * encoding.norm)


def _without_own(present: bool, n: int, seeds: int = SURVIVING) -> Any:
    """What a server that works with one client sees: the sum without every share that this client's seed explains."""
    encoding = _encoding(SURVIVING)
    left = SURVIVING - 1 if seeds == SURVIVING else 0
    drawn = noise.skellam(left * encoding.share_variance, size=n) if left else np.zeros(n, dtype=np.int64)
    return drawn + int(present * encoding.norm)


def _evaluated(present: bool, n: int, raw: bool = False) -> Any:
    """The mean loss on ten clients, one of which may be absent: with its noise, or as it is."""
    question = evaluation(most_loss=1.0, bins=1, clients=10, noise_multiplier=1.0, delta=1e-6)
    exact = (9 * 0.5 + present * 1.0) / 10
    if raw:
        return np.full(n, exact)
    return exact + NoisySums.of_scale("gaussian", 2**20).draw(n) * (question.plan.deviation() / 2**20)


def _counted(present: bool, n: int) -> Any:
    """One cell of a histogram with at most four contributions, all of which the client puts next to it."""
    question = histogram(["a", "b", "c", "d"], max_contributions=4, clients=10, noise_multiplier=1.0, delta=1e-6)
    # Along the direction of the client's four cells the sum moves by their norm.
    return central.noise(1.0, question.plan.clip).add(np.full(n, int(present * 2 / question.plan.clip * central.CLIP)))


# --- cases and mutants -----------------------------------------------------------------------------------------


def cases() -> list[Case]:
    """Sums with one client more or less, which must lose nearly what they claim and no more."""
    encoding = _encoding(SURVIVING)
    honest = promise(Gaussian(math.sqrt((SURVIVING - 1) * encoding.share_variance) / encoding.norm))
    made = [
        ("federated: clipped update, central trust", UNIT, _sent),
        ("federated: shares of the survivors", UNIT, _shared),
        ("federated: server with one client", honest, _without_own),
        ("federated: histogram", UNIT, _counted),
    ]
    return [Case(name, claim, partial(draw, False), partial(draw, True), 0.5, trials=20_000) for name, claim, draw in made]


def mutants() -> list[Mutant]:
    """Six sabotaged builds."""
    made: list[tuple[str, Any, Any, str]] = [
        ("shares for the selected", partial(_shared, planned=SELECTED), _shared, "noise shares for selected, not surviving clients"),
        ("one seed for all shares", partial(_without_own, seeds=1), _without_own, "every client draws the same share of noise"),
        ("clipping by tensor", partial(_sent, tensors=4), _sent, "each tensor is clipped by itself, and that is called flat"),
        ("counts as weights", partial(_central, moved=50.0), _central, "an update is weighted by its unclipped number of examples"),
        ("metrics in the clear", partial(_evaluated, raw=True), _evaluated, "losses are averaged without noise"),
        ("sensitivity apart from the clip", partial(_central, multiplier=1e-4), _central, "noise for 1e-4 under a clip of 1"),
    ]  # fmt: skip
    return [
        Mutant(f"federated: {name}", broken, right, (False, True), UNIT, trials=20_000, fault=fault, bulk=True)
        for name, broken, right, fault in made
    ]
