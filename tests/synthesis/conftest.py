"""A small population with a strong chain, and a runner of methods on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Composed, Guarantee
from tacit.ledger import price
from tacit.noise import test_mode as seeded
from tacit.synthesis.estimate import Model
from tacit.synthesis.measure import RELATION, Measuring, concentrated_budget, gaussian_budget
from tacit.synthesis.sample import counted

SIZES = (4, 5, 3, 6, 2)


@dataclass
class Ran:
    """A method's model, what it drew, and the guarantee and rows that it had."""

    model: Model
    measuring: Measuring
    guarantee: Guarantee
    rows: list[np.ndarray]

    def total_variation(self, columns: tuple[int, ...]) -> float:
        exact = counted(self.rows, SIZES, columns)
        return float(np.abs(self.model.marginal(columns) / self.model.total - exact / max(1, exact.sum())).sum() / 2)

    def spent_within_budget(self) -> bool:
        part = next(iter(self.measuring.budget.limits))
        return price(Composed(*self.measuring.events), [part], RELATION)[part] <= self.measuring.budget.limits[part]


def chained(rows: int, seed: int = 0) -> list[np.ndarray]:
    """Each column is a noisy function of the one before."""
    draws = np.random.default_rng(seed)
    found = [draws.integers(0, SIZES[0], rows)]
    for size in SIZES[1:]:
        random = draws.integers(0, size, rows)
        found.append(np.where(draws.random(rows) < 0.7, found[-1] % size, random))
    return found


@pytest.fixture
def run() -> Any:
    def running(method: Any, *, epsilon: float = 1.0, rows: int = 5000, max_rows: int = 1, seed: int = 1) -> Ran:
        data = chained(rows)
        guarantee = Guarantee(epsilon=epsilon, delta=1e-9)
        budget, event = (concentrated_budget if method.selects else gaussian_budget)(guarantee)
        assert guarantee.admits(event, RELATION)
        measuring = Measuring(SIZES, lambda columns: counted(data, SIZES, columns), budget, max_rows=max_rows)
        with seeded(seed):
            return Ran(method.fit(measuring), measuring, guarantee, data)

    return running
