"""MWEM with a graphical model: a fixed number of rounds, each measures the marginal on which the model is worst.

It is MWEM (Hardt, Ligett and McSherry 2012) with the graphical model in place of the table of all cells (McKenna,
Sheldon and Miklau 2019): replay of all measurements and the last iterate come with the fit. Half of each round's
price chooses, half measures. Unlike `aim` its noise and number of rounds are fixed.

>>> round_price(1.0, 10)
(0.05, 0.05)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.synthesis.aim import HALF_NORMAL, SizeCheck, affordable, worst
from tacit.synthesis.estimate import STEPS, Model
from tacit.synthesis.measure import Measuring, check_tables


def round_price(budget: float, rounds: int) -> tuple[float, float]:
    """What a round pays for its choice and for its marginal."""
    return budget / rounds / 2, budget / rounds / 2


@dataclass(frozen=True)
class MwemPgm:
    """Rounds (0: as many as there are columns), the largest model in cells, steps of the fits."""

    rounds: int = 0
    cap: int = 130_000
    steps: int = 100
    last_steps: int = STEPS
    enough: float = 0.8
    selects = True

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose pairs do not fit into memory, before anything is paid for."""
        check_tables(sizes, 2)

    def fit(self, measuring: Measuring) -> Model:
        """From the uniform start, so many rounds on all pairs; a single column is measured as it is."""
        candidates = list(itertools.combinations(range(measuring.width), min(2, measuring.width)))
        rounds = self.rounds or measuring.width
        choice, marginal = round_price(measuring.left * (1 - 1e-9), rounds)
        epsilon, sigma = affordable(measuring, choice * (1 - 1e-9)), measuring.sigma_for(marginal)
        exact = [measuring.exact(candidate) for candidate in candidates]
        penalty = np.array([round(HALF_NORMAL * sigma * table.size) for table in exact])
        fitting = SizeCheck(measuring.sizes)
        model = measuring.fit()
        for number in range(rounds):
            held = measuring.held
            open_ = [i for i, c in enumerate(candidates) if c in held or fitting.size(held, c) <= self.cap]
            open_ = open_ or list(range(len(candidates)))
            pick = worst(measuring, model, candidates, exact, open_, np.ones_like(penalty), penalty, epsilon)
            measuring.marginal(candidates[pick], sigma)
            steps = self.last_steps if number == rounds - 1 else self.steps
            model = measuring.fit(steps=steps, warm=model, enough=self.enough)
        return model
