"""The default method: one-shot, and where the budget carries it more rounds against the fitted model.

Columns first, then rounds: score all pairs (against independence, later against the model), measure those that pay,
fit. The number of rounds and the share of the columns follow from how well scores can be told, the noise of a score
over the number of rows, which is known once the columns are measured: with little budget one round and half of it
for the columns, with much five rounds and a fifth; where scores are lost in their noise no round, and all of it for
the columns. All steps are Gaussian, so the price is exact in mu.

>>> for epsilon, cost in ((0.01, 0.000004), (0.1, 0.0004), (1, 0.033), (10, 2.37)):
...     noise = told(50_000, pairs=105, cost=cost)
...     print(epsilon, rounds_of(noise), round(columns_of(noise), 2))
0.01 0 0.5
0.1 1 0.49
1 3 0.21
10 5 0.17
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.accounting import Guarantee
from tacit.synthesis.estimate import STEPS, Model, estimated_total
from tacit.synthesis.independent import one_ways
from tacit.synthesis.measure import Measuring, check_tables
from tacit.synthesis.oneshot import independent_pairs, measure_best, noisy_distances, target_weights
from tacit.synthesis.score import model_counts

COLUMNS = 0.17  # the least share of the columns
# The noise of a score, as a share of the rows, above which columns alone were better: on all six tables used for tuning,
# and from where on they were on most of them.
LOST, DOUBTFUL = 0.4, 0.13


def told(rows: float, pairs: int, cost: float, scores: float = 0.05) -> float:
    """The noise of a score of one round of all pairs, as a share of the rows, at this budget for one row."""
    return math.sqrt(pairs / (scores * cost)) / rows


def rounds_of(noise: float, lost: float = LOST) -> int:
    """How many rounds pay: none where scores are lost in their noise, five where they are nearly exact."""
    return 0 if noise > lost else 1 if noise > 0.02 else 3 if noise > 0.002 else 5


def as_good_alone(rows: float, columns: int, budget: Guarantee, max_rows: int = 1) -> bool:
    """Whether independent columns are predicted to be as good as any model of pairs, from public figures alone.

    >>> [as_good_alone(50_000, 15, Guarantee(mu=mu)) for mu in (0.002, 0.02)], as_good_alone(50_000, 15, Guarantee(mu=0.02), max_rows=16)
    ([True, False], True)
    """
    amounts = budget.floats
    squared = 2 * amounts.rho if amounts.rho is not None else (amounts.mu or 0.0) ** 2
    pairs = columns * (columns - 1) // 2
    return pairs > 0 and told(max(1.0, rows), pairs, squared / max_rows**2) > DOUBTFUL


def enough_of(rounds: int) -> float:
    """When the last fit is near enough: where scores can be told it may follow the measurements more closely."""
    return 0.65 if rounds <= 1 else 0.35


def columns_of(noise: float) -> float:
    """The share of the budget that measures columns."""
    return min(0.5, COLUMNS + 7 * noise)


@dataclass(frozen=True)
class Auto:
    """The method's settings: the share of scores, the first round's share of the rest, the largest model in cells,
    steps of the fits, the number of a target column, whose pairs count `weight` times, and the noise of scores (as a
    share of the rows) above which columns are measured alone."""

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
    lost: float = LOST
    selects = False

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose pairs do not fit into memory, before anything is paid for."""
        check_tables(sizes, 2)

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
        if more > 0.02 and noise <= self.lost:  # less is better spent on pairs
            one_ways(measuring, more * whole)
        rounds, weights = rounds_of(noise, self.lost), target_weights(pairs, self.target, self.weight)
        if rounds == 0:
            one_ways(measuring, measuring.left)
            return measuring.fit(steps=self.last_steps, enough=enough_of(1) if self.enough is None else self.enough)
        near = independent_pairs(measuring, pairs)
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
