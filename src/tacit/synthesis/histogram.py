"""The full-domain baseline: noise on every cell of the whole table, then sampling. For small domains only.

It loses no dependence, and its error grows with the number of cells over the number of rows, since every empty cell
that noise fills is wrong. The whole table must stay under the cap.

>>> Histogram(cap=1000).cap
1000
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.accounting import ParameterError
from tacit.synthesis.estimate import Model, barred, estimated_total, simplex
from tacit.synthesis.junction_tree import junction_tree
from tacit.synthesis.measure import Measuring


@dataclass(frozen=True)
class Histogram:
    """The largest table, in cells."""

    cap: int = 1_000_000
    selects = False

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse a table above the cap, before anything is paid for."""
        needed = math.prod(sizes)
        if needed > self.cap:
            raise ParameterError(f"the whole table has {needed} cells, above the cap of {self.cap}; use another method")

    def fit(self, measuring: Measuring) -> Model:
        """One measurement of everything, projected to counts that are not negative."""
        self.check(measuring.sizes)
        everything = tuple(range(measuring.width))
        seen = measuring.marginal(everything, measuring.sigma_for(measuring.left))
        total = estimated_total([seen])
        tree = junction_tree(measuring.sizes, [everything])
        (closed,) = barred(tree, measuring.possible)
        found = np.zeros(measuring.sizes)
        found[closed == 0] = simplex(seen.values[closed == 0], total) / total
        return Model(tree, total, [found], support=None if not measuring.possible else [np.exp(closed)])
