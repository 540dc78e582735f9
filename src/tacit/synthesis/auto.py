"""The default method: one-shot, and where the budget carries it a second round against the fitted model.

The first round is `oneshot`: columns, scores of all pairs against independence, the pairs that pay. Where scores can
be bought again for little, because their noise is small against the number of rows that was measured, a second round
scores all pairs against the model, keeps room under the cap for what it finds, and measures what still pays. All steps
are Gaussian, so the price is exact in mu.

>>> worth_refining(rows=50_000, pairs=105, cost=0.0004), worth_refining(rows=50_000, pairs=105, cost=2.4)
(False, True)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from tacit.synthesis.estimate import STEPS, Model, estimated_total, fit, one_way
from tacit.synthesis.independent import one_ways
from tacit.synthesis.measure import Measuring
from tacit.synthesis.oneshot import measure_best, noisy_distances
from tacit.synthesis.score import model_counts

TOLD = 0.005  # scores are worth buying again where their noise is below this share of the rows


def worth_refining(rows: float, pairs: int, cost: float, scores: float = 0.05) -> bool:
    """Whether the noise of each score, for its share of the budget, is small against the rows."""
    return math.sqrt(pairs / (scores * cost)) < TOLD * rows


@dataclass(frozen=True)
class Auto:
    """The method's settings: shares for columns and scores, the first round's share of the rest and of the cap."""

    columns: float = 0.3
    scores: float = 0.05
    first: float = 0.85
    first_cap: float = 0.9
    cap: int = 300_000
    steps: int = 150
    last_steps: int = STEPS
    enough: float = 0.65
    selects = False

    def fit(self, measuring: Measuring) -> Model:
        """Columns, then one or two rounds of scores, pairs and a fit."""
        whole, sizes = measuring.left, measuring.sizes
        one_ways(measuring, self.columns * whole)
        pairs = list(itertools.combinations(range(measuring.width), 2))
        total = estimated_total(measuring.measured)
        if not pairs:
            return fit(sizes, measuring.measured, steps=self.last_steps, enough=self.enough)
        again = worth_refining(total, len(pairs), whole / measuring.max_rows**2, self.scores)
        alone = [one_way(column, measuring.measured, total) for column in range(measuring.width)]
        expected = [np.outer(alone[a], alone[b]) / total for a, b in pairs]
        scored = noisy_distances(measuring, pairs, expected, self.scores * whole / (1 + again))
        if again:
            budget = self.first * (measuring.left - self.scores * whole / 2)
            measure_best(measuring, pairs, scored, budget, int(self.first_cap * self.cap))
            model = fit(sizes, measuring.measured, steps=self.steps, enough=self.enough)
            near = [table.astype(np.float64) for table in model_counts(model, pairs)]
            scored = noisy_distances(measuring, pairs, near, self.scores * whole / 2)
        measure_best(measuring, pairs, scored, measuring.left, self.cap)
        return fit(sizes, measuring.measured, steps=self.last_steps, enough=self.enough)
