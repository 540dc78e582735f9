"""MST: a tree of the pairs that depend most, measured once (McKenna, Miklau and Sheldon 2021).

A third of the budget measures all columns, a third chooses the edges of a spanning tree by the exponential mechanism
(score: L1 distance from what independent columns predict), a third measures the chosen pairs. It is fast and keeps
the strongest dependences; what depends on two other columns, such as a label, is lost.

>>> noise(15, rho=0.0149730577)
(38.76466..., 37.45022..., 0.0534042...)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.synthesis.aim import affordable
from tacit.synthesis.estimate import STEPS, Model
from tacit.synthesis.measure import Measuring, check_tables
from tacit.synthesis.oneshot import GRANULES, independent_pairs
from tacit.synthesis.score import distances


def noise(columns: int, rho: float) -> tuple[float, float, float]:
    """The noise of columns and of pairs, and the epsilon of each choice, for a third of rho each."""
    third, pairs = rho / 3, max(1, columns - 1)
    return math.sqrt(columns / (2 * third)), math.sqrt(pairs / (2 * third)), math.sqrt(8 * third / pairs)


@dataclass(frozen=True)
class MST:
    """The method's settings: how many steps a fit takes, and when it is near enough (see `estimate.fit`)."""

    steps: int = STEPS
    enough: float = 0.0
    selects = True

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose pairs do not fit into memory, before anything is paid for."""
        check_tables(sizes, 2)

    def fit(self, measuring: Measuring) -> Model:
        """Measure columns, choose a tree, measure its pairs, fit."""
        width = measuring.width
        single, paired, epsilon = noise(width, measuring.left / 2 * (1 - 1e-9))
        # In mu a choice costs more than in rho.
        epsilon = min(epsilon, affordable(measuring, measuring.left / 3 / max(1, width - 1) * (1 - 1e-9)))
        for column in range(width):
            measuring.marginal((column,), single * measuring.max_rows)
        candidates = list(itertools.combinations(range(width), 2))
        expected = independent_pairs(measuring, candidates)
        scores = distances([measuring.exact(pair) for pair in candidates], expected, granules=GRANULES)
        part = list(range(width))
        chosen = []
        for _ in range(width - 1):
            open_ = [place for place, (a, b) in enumerate(candidates) if part[a] != part[b]]
            pick = candidates[open_[measuring.choose(scores[open_], moved=GRANULES, epsilon=epsilon)]]
            chosen.append(pick)
            joined, gone = part[pick[0]], part[pick[1]]
            part = [joined if label == gone else label for label in part]
        for pair in chosen:
            measuring.marginal(pair, paired * measuring.max_rows)
        return measuring.fit(steps=self.steps, enough=self.enough)
