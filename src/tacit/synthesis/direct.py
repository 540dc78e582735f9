"""Given marginals: measure exactly those that are asked for, or fit a model to noisy ones from elsewhere.

`Direct` spends its budget on a public list of marginals, with precision in proportion to cells^(2/3), which makes the
sum of expected L1 errors least. Noisy figures that were already released cost nothing: hand them to `fit` with their
noise, or to `Direct(known=...)` to have them beside new ones.

>>> from tacit.synthesis.estimate import NoisyMarginal
>>> Direct(((0, 1),)).cliques
((0, 1),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.accounting import ParameterError
from tacit.synthesis.estimate import STEPS, Model, NoisyMarginal, fit
from tacit.synthesis.independent import shares
from tacit.synthesis.junction_tree import Clique, cells
from tacit.synthesis.measure import Measuring


@dataclass(frozen=True)
class Direct:
    """The marginals, as tuples of column numbers, noisy ones that are known, and the largest model in cells."""

    cliques: tuple[Clique, ...]
    known: tuple[NoisyMarginal, ...] = ()
    cap: int = 1_000_000
    steps: int = STEPS
    enough: float = 0.8
    selects = False

    def __post_init__(self) -> None:
        ordered = all(list(clique) == sorted(set(clique)) and clique for clique in self.cliques)
        if not ordered or not (self.cliques or self.known):
            raise ParameterError("give at least one marginal, each as column numbers in increasing order")

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns that there are not and models above the cap, before anything is paid for."""
        every = [*self.cliques, *(one.columns for one in self.known)]
        if any(column >= len(sizes) for clique in every for column in clique):
            raise ParameterError("a marginal names a column that there is not")
        needed = cells(sizes, every)
        if needed > self.cap:
            raise ParameterError(f"these marginals need a model of {needed} cells, above the cap of {self.cap}")

    def fit(self, measuring: Measuring) -> Model:
        """Measure the list with the whole budget, and fit it together with what is known."""
        self.check(measuring.sizes)
        sizes, budget = measuring.sizes, measuring.left
        lengths = [math.prod(sizes[column] for column in clique) for clique in self.cliques]
        for clique, share in zip(self.cliques, shares(lengths), strict=True):
            measuring.marginal(clique, measuring.sigma_for(share * budget * (1 - 1e-9)))
        return fit(sizes, [*measuring.measured, *self.known], steps=self.steps, enough=self.enough, possible=measuring.possible)
