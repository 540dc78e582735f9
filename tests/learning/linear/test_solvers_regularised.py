"""Objective and output perturbation as solvers of linear models: in the limit, the regularised fit itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from tacit.accounting import Adjacency, Guarantee
from tacit.learning.linear.losses import logistic
from tacit.learning.linear.solvers import regularised_fit
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


@pytest.mark.parametrize("solver", ["objective", "output"])
def test_with_a_huge_budget_it_is_the_plain_model(solver: str) -> None:
    generator = np.random.default_rng(0)
    U = generator.uniform(-0.5, 0.5, size=(3000, 2))
    y = (generator.random(3000) < 1 / (1 + np.exp(-3 * U[:, 0] - 1))).astype(float)
    with test_mode(1):
        found = regularised_fit(solver, Guarantee(epsilon=1e4, delta=1e-5), AR, logistic, features=2, rows=3000).run(U, y)  # type: ignore[arg-type]
    plain = Plain(C=np.inf).fit(U, y)
    assert found.coef[0] == pytest.approx(plain.coef_[0], abs=0.25) and found.intercept == pytest.approx(plain.intercept_, abs=0.1)
