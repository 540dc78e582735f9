"""The default method: one-shot, and where the budget carries it more rounds against the fitted model.

Columns first, then rounds: score all pairs (against independence, later against the model), measure those that pay,
fit. The number of rounds and the share of the columns follow from how well scores can be told, the noise of a score
over the number of rows, which is known once the columns are measured: with little budget one round and half of it
for the columns, with much five rounds and a fifth. All steps are Gaussian, so the price is exact in mu.

>>> for epsilon, cost in ((0.1, 0.0004), (1, 0.033), (10, 2.37)):
...     noise = told(50_000, pairs=105, cost=cost)
...     print(epsilon, rounds_of(noise), round(columns_of(noise), 2))
0.1 1 0.49
1 3 0.21
10 5 0.17
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.synthesis.estimate import STEPS, Model, estimated_total
from tacit.synthesis.independent import one_ways
from tacit.synthesis.measure import Measuring
from tacit.synthesis.oneshot import independent_pairs, measure_best, noisy_distances, target_weights
from tacit.synthesis.score import model_counts

COLUMNS = 0.17  # the least share of the columns


def told(rows: float, pairs: int, cost: float, scores: float = 0.05) -> float:
    """The noise of a score of one round of all pairs, as a share of the rows, at this budget for one row."""
    return math.sqrt(pairs / (scores * cost)) / rows


def rounds_of(noise: float) -> int:
    """How many rounds pay: one where scores are lost in their noise, five where they are nearly exact."""
    return 1 if noise > 0.02 else 3 if noise > 0.002 else 5


def enough_of(rounds: int) -> float:
    """When the last fit is near enough: where scores can be told it may follow the measurements more closely."""
    return 0.65 if rounds == 1 else 0.35


def columns_of(noise: float) -> float:
    """The share of the budget that measures columns."""
    return min(0.5, COLUMNS + 7 * noise)


@dataclass(frozen=True)
class Auto:
    """The method's settings: the share of scores, the first round's share of the rest, the largest model in cells,
    steps of the fits, and the number of a target column, whose pairs count `weight` times."""

    scores: float = 0.05
    first: float = 0.3
    believe: float = 0.6
    thrift: float = 0.3
    cap: int = 300_000
    steps: int = 100
    last_steps: int = STEPS
    enough: float | None = None  # by default what `enough_of` says
    target: int | None = None
    weight: float = 3.0
    selects = False

    def fit(self, measuring: Measuring) -> Model:
        """Columns, then rounds of scores, pairs and a fit."""
        whole, width = measuring.left, measuring.width
        one_ways(measuring, COLUMNS * whole)
        pairs = measuring.pairs
        if not pairs:
            one_ways(measuring, measuring.left)
            return measuring.fit(steps=self.last_steps, enough=enough_of(1) if self.enough is None else self.enough)
        rows = estimated_total(measuring.seen)
        noise = told(rows, len(pairs), whole / measuring.max_rows**2, self.scores)
        more = columns_of(noise) - COLUMNS
        if more > 0.02:  # less is better spent on pairs
            one_ways(measuring, more * whole)
        near = independent_pairs(measuring, pairs)
        rounds, weights = rounds_of(noise), target_weights(pairs, self.target, self.weight)
        for number in range(1, rounds + 1):
            last = number == rounds
            scored = noisy_distances(measuring, pairs, near, self.scores * whole / rounds)
            budget = measuring.left - self.scores * whole * (rounds - number) / rounds
            if not last:
                budget *= self.first if number == 1 else 1 / (rounds - number + 1)
            measure_best(
                measuring, pairs, scored, budget, self.cap * number // rounds,
                most=None if last else max(3, math.ceil(2.5 * width / rounds)),
                weights=weights, believe=self.believe, thrift=self.thrift,
            )  # fmt: skip
            near_enough = enough_of(rounds if last else 1) if self.enough is None else self.enough
            model = measuring.fit(steps=self.last_steps if last else self.steps, enough=near_enough)
            if not last:
                near = [table.astype(np.float64) for table in model_counts(model, pairs)]
        return model
