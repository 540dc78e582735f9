"""The solver: as near to the minimum as it says, for every smooth loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression as Plain

from tacit.learning.linear.losses import Loss, huber, logistic, multinomial, smoothed_hinge, smoothed_quantile, squared
from tacit.learning.linear.newton import descended, gradient, minimise, minimise_scores

CASES: dict[str, tuple[Loss, bool]] = {
    "logistic": (logistic, True),
    "smoothed hinge": (smoothed_hinge(0.3), True),
    "squared": (squared(), False),
    "huber": (huber(0.2), False),
    "quantile": (smoothed_quantile(0.7, 0.05), False),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ridge", [1e-2, 1.0, 30.0])
def test_the_point_is_within_the_distance(name: str, ridge: float) -> None:
    """Against SciPy's quasi-Newton method and against the strong-convexity bound on the distance."""
    loss, binary = CASES[name]
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(200, 4)) / 3
    y = (generator.random(200) < 0.5).astype(float) if binary else rows @ np.array([1.0, -1.0, 0.5, 0.0]) + generator.normal(size=200) / 10
    tilt = generator.normal(size=4)
    found = minimise(loss, rows, y, ridge=ridge, tilt=tilt, distance=1e-7)
    assert np.linalg.norm(gradient(loss, rows, y, found, ridge, tilt)) / ridge <= 1e-7

    def objective(theta: np.ndarray) -> float:
        return float(loss.value((rows @ theta)[:, None], y).sum() + ridge * theta @ theta / 2 + tilt @ theta)

    other = minimize(objective, np.zeros(4), jac=lambda t: gradient(loss, rows, y, t, ridge, tilt), method="BFGS", options={"gtol": 1e-9}).x
    assert found == pytest.approx(other, abs=1e-4)


def test_least_squares_has_its_closed_form() -> None:
    generator = np.random.default_rng(4)
    rows, y = generator.normal(size=(50, 3)), generator.normal(size=50)
    exact = np.linalg.solve(rows.T @ rows + 2 * np.eye(3), rows.T @ y)
    assert minimise(squared(), rows, y, ridge=2.0, tilt=np.zeros(3), distance=1e-10) == pytest.approx(exact, abs=1e-9)


def test_no_rows_at_all_leave_the_tilt() -> None:
    assert minimise(logistic, np.zeros((0, 2)), np.zeros(0), ridge=4.0, tilt=np.array([4.0, -8.0]), distance=1e-9).tolist() == [-1.0, 2.0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ridge", [0.01, 1.0, 100.0])
def test_one_score_is_a_case_of_several(name: str, ridge: float) -> None:
    loss, classed = CASES[name]
    generator = np.random.default_rng(6)
    rows = generator.uniform(-1, 1, (60, 4))
    y = generator.integers(0, 2, 60).astype(float) if classed else generator.normal(size=60)
    tilt = generator.normal(size=4)
    one = minimise(loss, rows, y, ridge=ridge, tilt=tilt, distance=1e-7)
    several = minimise_scores(loss, rows, y, ridge=ridge, tilt=tilt[None], distance=1e-7)
    assert np.linalg.norm(several[0] - one) <= 2e-7


@pytest.mark.parametrize("ridge", [0.1, 5.0])
def test_several_scores_have_the_minimum_of_scikit_learn(ridge: float) -> None:
    generator = np.random.default_rng(7)
    rows, y = generator.uniform(-1, 1, (80, 3)), generator.integers(0, 4, 80)
    found = minimise_scores(multinomial(4), rows, y.astype(float), ridge=ridge, tilt=np.zeros((4, 3)), distance=1e-8)
    plain = Plain(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, y)
    assert found == pytest.approx(plain.coef_, abs=1e-4)


def test_several_scores_without_rows_leave_the_tilt() -> None:
    tilt = np.array([[4.0, -8.0], [1.0, 0.0], [0.0, 2.0]])
    found = minimise_scores(multinomial(3), np.zeros((0, 2)), np.zeros(0), ridge=4.0, tilt=tilt, distance=1e-9)
    assert found == pytest.approx(-tilt / 4, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_without_newton_the_known_number_of_steps_is_enough(name: str) -> None:
    """The last resort alone, on rows that leave the objective badly conditioned (3,000 to 30,000): its own limit never stops it early."""
    loss, binary = CASES[name]
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(500, 5)) * np.array([1.0, 0.3, 0.01, 1.0, 0.1])
    y = (generator.random(500) < 0.5).astype(float) if binary else generator.normal(size=500)
    ridge, tilt = 0.1, generator.normal(size=5)
    smoothness = loss.curvature * float((rows * rows).sum()) + ridge
    calls = 0

    def slope_at(theta: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return gradient(loss, rows, y, theta, ridge, tilt)

    found = descended(slope_at, np.zeros(5), 1e-8, ridge=ridge, smoothness=smoothness)
    assert np.linalg.norm(gradient(loss, rows, y, found, ridge, tilt)) <= 1e-8
    assert found == pytest.approx(minimise(loss, rows, y, ridge=ridge, tilt=tilt, distance=1e-7), abs=2e-7)
    assert calls > 10, "it had something to do"


def test_a_plain_descent_would_not_be_done_in_as_many_steps() -> None:
    """The mutant: steps of one over the smoothness without momentum need the condition number of steps, not its root."""
    bends = np.array([1e6, 1.0])
    theta = np.zeros(2)
    steps = int(1e3 * (np.log(2) + 2 * (np.log(1e3) + np.log(np.sqrt(2)) - np.log(1e-8)))) + 2
    for _ in range(steps):
        theta = theta - (bends * theta - 1) / 1e6
    assert np.linalg.norm(bends * theta - 1) > 1e-3
    found = descended(lambda at: bends * at - 1, np.zeros(2), 1e-8, ridge=1.0, smoothness=1e6)
    assert np.linalg.norm(bends * found - 1) <= 1e-8
