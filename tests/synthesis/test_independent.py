"""Independent columns: the allocation, and marginals that come back one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.synthesis.independent import Independent, shares


def test_shares_minimise_the_sum_of_errors() -> None:
    sizes = np.array([2.0, 7.0, 40.0])

    def error(logits: np.ndarray) -> float:
        part = np.exp(logits) / np.exp(logits).sum()
        return float((sizes / np.sqrt(part)).sum())

    best = minimize(error, np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(np.exp(best.x) / np.exp(best.x).sum(), shares(sizes.tolist()), atol=1e-5)


def test_columns_come_back_and_the_budget_is_spent(run: Any) -> None:
    ran = run(Independent(), epsilon=5)
    assert max(ran.total_variation((column,)) for column in range(5)) < 0.01
    assert ran.total_variation((0, 1)) > 0.2
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-8
    assert ran.model.total == pytest.approx(5000, abs=30)
