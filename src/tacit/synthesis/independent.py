"""Independent columns: one-way marginals only, the baseline that every other method must beat.

The noise of each column is chosen so that the expected L1 errors add up to the least: with n cells and noise s a
column has error n s, and the sum is least where 1 / s^2 is proportional to n^(2/3).

>>> [round(share, 4) for share in shares((2, 16))]
[0.2, 0.8]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.synthesis.estimate import Model
from tacit.synthesis.measure import Measuring, check_tables


def shares(sizes: Sequence[int]) -> list[float]:
    """How a budget is divided over columns of these sizes."""
    weights = [size ** (2 / 3) for size in sizes]
    return [weight / sum(weights) for weight in weights]


def one_ways(measuring: Measuring, budget: float) -> None:
    """Measure every column that is not known, with a budget for all of them together."""
    columns = measuring.unknown
    for column, share in zip(columns, shares([measuring.sizes[column] for column in columns]), strict=True):
        measuring.marginal((column,), measuring.sigma_for(share * budget))


@dataclass(frozen=True)
class Independent:
    """Every column by itself."""

    steps: int = 200
    selects = False

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose cells do not fit into memory, before anything is paid for."""
        check_tables(sizes, 1)

    def fit(self, measuring: Measuring) -> Model:
        """Measure all columns with the whole budget."""
        one_ways(measuring, measuring.left)
        return measuring.fit(steps=self.steps)
