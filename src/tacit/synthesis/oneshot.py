"""One-shot: score all pairs at once, choose a model that fits the memory, share the budget out, fit once.

All steps are Gaussian, so the price is exact in mu. A part of the budget measures every column; a part scores every
pair (its L1 distance from independence) with noise; the rest measures a set of pairs whose junction tree stays under
the cap. The set and the noise of each pair maximise the predicted gain, scores less expected noise; the allocation is
the one of SWIFT (Maddock et al. 2024): precision proportional to (weight times effective cells) ^ (2/3).

>>> kept, budgets = allocation(np.array([100.0, 5.0]), np.array([20.0, 20.0]), 1.0)
>>> kept, budgets.tolist()
([0], [1.0])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.synthesis.aim import HALF_NORMAL
from tacit.synthesis.estimate import STEPS, Model, NoisyMarginal, estimated_total, merged, one_way
from tacit.synthesis.independent import one_ways
from tacit.synthesis.inference import axes_without
from tacit.synthesis.junction_tree import Clique, cells
from tacit.synthesis.measure import Measuring, check_tables
from tacit.synthesis.score import distances

Floats = NDArray[np.float64]
GRANULES = 64  # of scores in one row: what is expected of a pair is no whole number


@dataclass(frozen=True)
class OneShot:
    """The method's settings: shares of the budget for columns and for scores, the largest model in cells, and the
    number of a target column, whose pairs count `weight` times."""

    columns: float = 0.3
    scores: float = 0.05
    cap: int = 300_000
    steps: int = STEPS
    enough: float = 0.65
    target: int | None = None
    weight: float = 3.0
    selects = False

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose pairs do not fit into memory, before anything is paid for."""
        check_tables(sizes, 2)

    def fit(self, measuring: Measuring) -> Model:
        """Columns, scores of all pairs, the chosen pairs, one fit."""
        whole = measuring.left
        one_ways(measuring, self.columns * whole)
        pairs = measuring.pairs
        if pairs:
            scores = noisy_distances(measuring, pairs, independent_pairs(measuring, pairs), self.scores * whole)
            weights = target_weights(pairs, self.target, self.weight)
            measure_best(measuring, pairs, scores, measuring.left, self.cap, weights=weights)
        return measuring.fit(steps=self.steps, enough=self.enough)


def independent_pairs(measuring: Measuring, pairs: Sequence[Clique]) -> list[Floats]:
    """What the measured columns make one expect of each pair, were they independent but for the constraints."""
    if measuring.possible:
        model = measuring.fit(steps=100)
        return [model.marginal(pair) for pair in pairs]
    total = estimated_total(measuring.seen)
    alone = [one_way(column, measuring.seen, total) for column in range(measuring.width)]
    return [np.outer(alone[a], alone[b]) / total for a, b in pairs]


def target_weights(pairs: Sequence[Clique], target: int | None, weight: float) -> Floats:
    """How much each pair matters: those with the target, where there is one, `weight` times as much.

    >>> target_weights([(0, 1), (1, 2)], 2, 3.0).tolist()
    [1.0, 3.0]
    """
    return np.array([weight if target is not None and target in pair else 1.0 for pair in pairs])


def noisy_distances(measuring: Measuring, pairs: Sequence[Clique], expected: Sequence[Floats], cost: float) -> Floats:
    """L1 distances between the data and what is expected, all with the same noise, for this cost together."""
    exact = distances([measuring.exact(pair) for pair in pairs], expected, granules=GRANULES)
    sigma = measuring.sigma_for(cost) * math.sqrt(len(pairs)) * GRANULES * (1 + 1e-9)
    return measuring.noisy_scores(exact, moved=GRANULES, sigma=sigma) / GRANULES


def supports(measuring: Measuring) -> Floats:
    """How many cells of each column are filled, as far as its noise tells: a cell below the noise counts in part."""
    found = np.ones(measuring.width)
    alone = [one for one in measuring.measured if len(one.columns) == 1]
    for one in measuring.known:
        for column in one.columns:
            values = one.values.sum(axis=axes_without(one.columns, (column,)))
            alone.append(NoisyMarginal((column,), values, one.sigma * math.sqrt(one.values.size / values.size)))
    for one in merged(alone):
        filled = float(np.clip(one.values / (2 * one.sigma), 0, 1).sum())
        found[one.columns[0]] = min(max(1.0, filled), one.values.size)
    return found


def measure_best(
    measuring: Measuring, pairs: Sequence[Clique], scores: Floats, budget: float, cap: int, *,
    most: int | None = None, weights: Floats | None = None, believe: float = 1.0, thrift: float = 0.0,
) -> list[Clique]:
    """Choose pairs under the cap by their scores, divide the budget over those that pay, and measure them.

    `most` limits their number, `weights` says how much each matters. A fit averages noise out, so only the share
    `believe` of a pair's noise is held against it; with `thrift`, gains are divided by that power of a pair's cells,
    which leaves room under the cap for more of them.
    """
    filled = supports(measuring)
    weights = np.ones(len(pairs)) if weights is None else weights
    size = np.array([filled[a] * filled[b] for a, b in pairs]) * weights
    scores = scores * weights
    noise = measuring.sigma_for(budget) * HALF_NORMAL * believe
    held = measuring.held
    chosen: list[int] = []
    # A pair is worth its score less the noise of its cells, if it were one of as many as there are columns.
    gains = scores - noise * math.sqrt(min(most or measuring.width, measuring.width)) * size
    lengths = np.array([float(measuring.sizes[a] * measuring.sizes[b]) for a, b in pairs])
    gains = np.where(gains > 0, gains / lengths**thrift, gains)
    for place in np.argsort(-gains, kind="stable").tolist():
        if most is not None and len(chosen) >= most:
            break
        if scores[place] > 0 and cells(measuring.sizes, [*held, pairs[place]]) <= cap:
            chosen.append(place)
            held.append(pairs[place])
    if not chosen:  # no pair depends on anything that can be told, or none fits: columns by themselves
        one_ways(measuring, budget * (1 - 1e-9))
        return []
    noises = size * noise * math.sqrt(budget)
    kept, costs = allocation(scores[chosen], noises[chosen], budget)
    before = measuring.held
    # Fewer cliques can make a larger tree, as elimination is greedy: then the least useful pairs go as well.
    while len(kept) > 1 and cells(measuring.sizes, [*before, *(pairs[chosen[place]] for place in kept)]) > cap:
        chosen = [chosen[place] for place in kept[:-1]]
        kept, costs = allocation(scores[chosen], noises[chosen], budget)
    found = [pairs[chosen[place]] for place in kept]
    for pair, cost in zip(found, costs.tolist(), strict=True):
        measuring.marginal(pair, measuring.sigma_for(cost * (1 - 1e-9)))
    return found


def allocation(gains: Floats, noises: Floats, budget: float) -> tuple[list[int], Floats]:
    """Which candidates to measure and what to spend on each: the sum of gains less expected noise is largest.

    `noises[i]` is the expected L1 noise of candidate i at a budget of 1; at a budget b it is noises[i] / sqrt(b). For
    a set the best split is proportional to noises^(2/3), and its noise is (sum of noises^(2/3))^(3/2) / sqrt(budget).
    """
    weights = noises ** (2 / 3)
    order = np.argsort(-gains / weights, kind="stable")
    value = np.cumsum(gains[order]) - np.cumsum(weights[order]) ** 1.5 / math.sqrt(budget)
    kept = order[: int(np.argmax(value)) + 1]
    return kept.tolist(), budget * weights[kept] / weights[kept].sum()
