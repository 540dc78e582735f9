"""Search over inputs: from one data set to the neighbouring pair on which a function leaks most.

`neighbours` makes pairs by fixed patterns. A leak may need an input that no pattern has: a threshold that is crossed, a
branch that is taken when two rows agree. In the manner of DP-Finder (Bichsel et al. 2018) a pair is changed a little at a
time, one row of both data sets or the row in which they differ, and a change is kept where few samples tell the two inputs
apart better. Gradients are not needed, so any function will do. At the end the best pair is attacked with samples of its
own, so that nothing of the search has to be paid for: the bound holds with its stated confidence.

>>> from tacit.noise import discrete_laplace
>>> def trusting(rows):  # noise for a difference of 5, epsilon 1; but a sum of exactly 12 is answered without any
...     return sum(rows) + (0 if sum(rows) == 12 else discrete_laplace(5))
>>> found = search_inputs(trusting, [0, 1, 1], values=range(6), rounds=60, trials=2000, seed=1)
>>> found.evidence.lower > 1, sum(found.pair.first) == 12 or sum(found.pair.second) == 12
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.accounting import Adjacency, ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator
from tacit.audit.mechanisms.neighbours import Neighbours
from tacit.audit.mechanisms.outputs import Encoded, outcomes
from tacit.audit.mechanisms.search import WORST, attack, sampled
from tacit.parameters import count

FEW = 60  # samples on either input for each pair that is looked at
FRESH = 5  # in so many looks one starts from a new pair, so that the search leaves a flat place
BINS = 12
AGAIN = 6


@dataclass(frozen=True)
class FoundInputs:
    """The pair that leaks most of all that were looked at, what an attack on it finds, and how many pairs were looked at."""

    pair: Neighbours
    evidence: Evidence
    looked_at: int


def search_inputs(
    function: Callable[[Any], object], start: Sequence[Any], *, values: Sequence[Any],
    relation: Adjacency | str = Adjacency.ADD_REMOVE, rounds: int = 100, trials: int = 10_000, delta: float = 0.0,
    confidence: float = 0.95, seed: int | None = None,
) -> FoundInputs:  # fmt: skip
    """Search for the neighbouring pair of lists of rows on which `function` leaks most, and attack it.

    `values` are the rows that a data set may have; `start` is where the search begins. `rounds` pairs are looked at on few samples, and
    the best one is sampled `trials` times afresh.
    """
    kind = Adjacency.parse(relation, name="relation")
    if kind is Adjacency.ZERO_OUT:
        raise ParameterError("relation must be add-remove or replace-one: what a zeroed row is, the mechanism knows")
    pool, shared = list(values), list(start)
    if not pool:
        raise ParameterError("values must hold at least one row that a data set may have")
    coins = generator(seed)
    current, looks = (shared, pool[0], pool[-1]), count("rounds", rounds)
    at = _told_apart(function, _pair(*current, kind), FEW, seed)
    seen = [(at, _pair(*current, kind))]
    for look in range(looks):
        moved = _moved(*current, pool, coins, fresh=look % FRESH == FRESH - 1)
        pair = _pair(*moved, kind)
        found = _told_apart(function, pair, FEW, None if seed is None else seed + look + 1)
        seen.append((found, pair))
        # a fresh start is followed only if it is better; a small step also where it is as good, to cross flat ground
        if found >= at:
            current, at = moved, found
    # of the pairs that looked best some were lucky: they are looked at again, with more samples
    again = [pair for _, pair in sorted(seen, key=lambda one: -one[0])[:AGAIN]]
    best = max(again, key=lambda pair: _told_apart(function, pair, 5 * FEW, None if seed is None else seed + looks + 1))
    game = f"{WORST}; {best.label}"
    evidence = attack(
        outcomes(function, best.first), outcomes(function, best.second), count("trials", trials, least=40), delta=delta,
        confidence=confidence, seed=None if seed is None else seed + 7919 * (looks + 1), game=game,
    )  # fmt: skip
    return FoundInputs(best, evidence, looks + 1)


def _pair(shared: Sequence[Any], own: Any, other: Any, kind: Adjacency) -> Neighbours:
    """Rows that both data sets have, and the row in which they differ."""
    second = [*shared] if kind is Adjacency.ADD_REMOVE else [*shared, other]
    return Neighbours("found by a search over inputs", [*shared, own], second)


def _moved(
    shared: list[Any], own: Any, other: Any, pool: Sequence[Any], coins: Generator, *, fresh: bool
) -> tuple[list[Any], Any, Any]:
    """A pair near the given one, or a fresh one: a row changed, copied, added or taken away, or another row in which the two differ."""

    def drawn() -> Any:
        return pool[int(coins.integers(len(pool)))]

    if fresh:
        return [drawn() for _ in range(int(coins.integers(max(1, 2 * len(shared)) + 1)))], drawn(), drawn()
    rows, move = list(shared), int(coins.integers(6))
    place = int(coins.integers(len(rows))) if rows else 0
    if move == 0 and rows:
        rows[place] = drawn()
    elif move == 1 and rows:  # a step to the next value that a row may have
        near = pool.index(rows[place]) + int(coins.integers(2)) * 2 - 1 if rows[place] in pool else 0
        rows[place] = pool[min(max(near, 0), len(pool) - 1)]
    elif move == 2:
        rows.insert(place, rows[place] if rows and coins.integers(2) else drawn())
    elif move == 3 and rows:
        rows.pop(place)
    elif move == 4:
        own = drawn()
    else:
        other = drawn()
    return rows, own, other


def _told_apart(function: Callable[[Any], object], pair: Neighbours, samples: int, seed: int | None) -> float:
    """How well few samples tell two inputs apart: the largest log ratio of the shares of one set of outputs, each with one more sample.

    An estimate to search by, and no bound. Numbers in outputs are cut into bins by the quantiles of both sides together.
    """
    first, second = sampled(outcomes(function, pair.first), outcomes(function, pair.second), samples, seed)
    worst = 0.0
    atoms, place = np.unique(np.concatenate([first.atom, second.atom]), return_inverse=True)
    if len(atoms) <= BINS:  # few different outputs, of any type: each is a set of its own
        shares = [np.bincount(side, minlength=len(atoms)) + 1.0 for side in (place[:samples], place[samples:])]
        worst = float(np.abs(np.log(shares[0] / shares[1])).max())
    for one, two in zip(_columns(first), _columns(second), strict=False):
        both = np.concatenate([one, two])
        different = np.unique(both)
        edges = different if len(different) <= BINS else np.unique(np.quantile(both, np.linspace(0, 1, BINS + 1)[1:-1]))
        shares = [np.bincount(np.searchsorted(edges, side, "right"), minlength=len(edges) + 1) + 1.0 for side in (one, two)]
        # tails too: a threshold is the usual test
        for left, right in ((shares[0], shares[1]), (np.cumsum(shares[0]), np.cumsum(shares[1])),
                            (np.cumsum(shares[0][::-1]), np.cumsum(shares[1][::-1]))):  # fmt: skip
            worst = max(worst, float(np.abs(np.log(left / right)).max()))
    return worst


def _columns(seen: Encoded) -> list[np.ndarray]:
    return [np.nan_to_num(column, nan=-1e300, posinf=1e300, neginf=-1e300) for column in np.asarray(seen.features, dtype=float).T]
