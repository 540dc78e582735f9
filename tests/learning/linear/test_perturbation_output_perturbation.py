"""Output perturbation: no neighbour moves the minimiser further than its sensitivity, and some move it nearly as far."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.learning.linear.losses import logistic, smoothed_hinge
from tacit.learning.linear.newton import minimise
from tacit.learning.linear.perturbation import OutputPerturbation, farthest_minimiser
from tacit.noise import test_mode


@pytest.mark.parametrize("loss", [logistic, smoothed_hinge(0.2)], ids=lambda loss: loss.name)
def test_one_person_moves_the_minimiser_by_at_most_the_sensitivity(loss: object) -> None:
    generator = np.random.default_rng(0)
    farthest = 0.0
    ridge = 0.5
    for _ in range(60):
        n = int(generator.integers(0, 4))
        rows = generator.normal(size=(n + 1, 3))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        y = generator.integers(0, 2, size=n + 1).astype(float)
        both = [minimise(loss, rows[:k], y[:k], ridge=ridge, tilt=np.zeros(3), distance=1e-9) for k in (n, n + 1)]  # type: ignore[arg-type]
        farthest = max(farthest, float(np.linalg.norm(both[0] - both[1])))
    bound = farthest_minimiser(1.0, ridge, Adjacency.ADD_REMOVE)
    assert 0.3 * bound < farthest <= bound


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_noise_is_that_of_the_promise(delta: float) -> None:
    guarantee, adjacency = Guarantee(epsilon=1, delta=delta), Adjacency.REPLACE_ONE
    plan = OutputPerturbation.plan(guarantee, adjacency, logistic, 400, ridge=10.0)
    assert guarantee.typed_price(plan.event, adjacency).upper <= 1
    assert plan.sensitivity == pytest.approx(0.2, rel=1e-3) and plan.sensitivity > 0.2
    with test_mode(2):
        drawn = plan.run(np.zeros((3, 400)), np.zeros(3))
    expected = plan.sensitivity * 20 * np.sqrt(2) if delta == 0 else plan.sensitivity / guarantee.gaussian_mu
    assert drawn.std() == pytest.approx(expected, rel=0.2)
