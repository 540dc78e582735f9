"""Cube perturbation: the density of the exact minimiser for neighbouring data, what is drawn against what is priced, plans, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Guarantee, ParameterError, PureDP
from tacit.learning.linear import pure as cube_perturbation
from tacit.learning.linear import pure as noise_module
from tacit.learning.linear.classifiers import one_against_rest
from tacit.learning.linear.losses import Loss, hinge, logistic, multinomial, smoothed_hinge
from tacit.learning.linear.pure import CONSTANT, STEP, TILT_STEP, CubePerturbation, deviation
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE

LOSSES: dict[str, tuple[Callable[[], Loss], int]] = {
    "logistic": (lambda: logistic, 1),
    "smoothed hinge": (lambda: smoothed_hinge(0.5), 1),
    "multinomial": (lambda: multinomial(3), 3),
    "one against the rest": (lambda: one_against_rest(3), 3),
}


def log_density(plan: CubePerturbation, rows: np.ndarray, labels: np.ndarray, theta: np.ndarray) -> float:
    """Of the exact minimiser at theta: the log of the tilt's density there plus the log determinant of the Hessian, by differences."""
    k, width = theta.shape
    scores, h = rows @ theta.T, 1e-5
    tilt = -(plan.loss.derivative(scores, labels).T @ rows + plan.ridge * theta)
    hessian = plan.ridge * np.eye(k * width)
    for j in range(k):
        move = h * np.eye(k)[j]
        bends = (plan.loss.derivative(scores + move, labels) - plan.loss.derivative(scores - move, labels)) / (2 * h)
        for i in range(k):
            hessian[i * width : (i + 1) * width, j * width : (j + 1) * width] += (rows * bends[:, [i]]).T @ rows
    return float(-np.abs(tilt).max(axis=1).sum() / plan.tilt_scale + np.linalg.slogdet((hessian + hessian.T) / 2)[1])


def worst_ratio(plan: CubePerturbation, seed: int, turns: int = 60) -> float:
    """The largest log ratio found over neighbours and parameters, small and large; half of the rows are corners of the cube."""
    generator, outputs, worst = np.random.default_rng(seed), plan.outputs, 0.0
    top = 2 if outputs == 1 else outputs
    for turn in range(turns):
        rows = generator.uniform(-1, 1, (4, plan.features)) if turn % 2 else generator.choice([-1.0, 1.0], (4, plan.features))
        rows, labels = np.hstack([rows, np.full((4, 1), CONSTANT)]), generator.integers(0, top, 4).astype(np.float64)
        theta = generator.choice([0.01, 1.0, 30.0]) * generator.normal(size=(outputs, plan.features + 1))
        whole, less = log_density(plan, rows[:3], labels[:3], theta), log_density(plan, rows[:2], labels[:2], theta)
        pair = (whole, less)
        if plan.adjacency is Adjacency.REPLACE_ONE:
            pair = (whole, log_density(plan, rows[[0, 1, 3]], labels[[0, 1, 3]], theta))
        worst = max(worst, abs(pair[0] - pair[1]))
    return worst


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_exact_minimisers_density_ratio_stays_within_its_price(name: str, epsilon: float, adjacency: Adjacency) -> None:
    make, outputs = LOSSES[name]
    plan = CubePerturbation.plan(
        Guarantee(epsilon=epsilon, delta=0), adjacency, make(), features=2, outputs=outputs, rows=50
    )
    main = plan.tilt_epsilon + plan.determinant
    assert main == pytest.approx(0.78 * epsilon)
    assert 0.3 * main < worst_ratio(plan, 1) <= main


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_too_little_ridge_or_noise_is_caught(name: str) -> None:
    """The mutants: a ridge a thousand times smaller, whose determinant nobody paid for; and a tilt priced by the Euclidean slope over rows
    taken to have length 1."""
    make, outputs = LOSSES[name]
    plan = CubePerturbation.plan(Guarantee(epsilon=2, delta=0), AR, make(), features=2, outputs=outputs, rows=50)
    main = plan.tilt_epsilon + plan.determinant
    assert worst_ratio(replace(plan, ridge=plan.ridge / 1000), 1) > main
    short = plan.loss.slope / plan.loss.total_slope(outputs) / math.sqrt(2)
    assert worst_ratio(replace(plan, tilt_scale=plan.tilt_scale * short), 1) > main


@settings(max_examples=25)
@given(
    epsilon=st.floats(1e-4, 1e4),
    features=st.integers(1, 200),
    classes=st.integers(2, 12),
    rows=st.one_of(st.none(), st.integers(1, 10**6)),
    adjacency=st.sampled_from([Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]),
)
def test_plans_keep_their_promise_and_spend_it(epsilon: float, features: int, classes: int, rows: int | None, adjacency: Adjacency) -> None:
    guarantee = Guarantee(epsilon=epsilon, delta=0)
    loss, outputs = (logistic, 1) if classes == 2 else (multinomial(classes), classes)
    plan = CubePerturbation.plan(guarantee, adjacency, loss, features=features, outputs=outputs, rows=rows)
    assert 0.999 * epsilon < guarantee.typed_price(plan.event, adjacency).upper <= epsilon
    assert plan.determinant <= 0.51 * 0.78 * epsilon
    # the tilt pays for the largest change of the norm and a cell; the output noise for twice the distance to the minimiser
    change = (1 if adjacency is Adjacency.ADD_REMOVE else 2) * (1 if classes == 2 else 2)
    assert plan.tilt_scale >= (change + outputs * float(TILT_STEP)) / plan.tilt_epsilon
    size = outputs * (features + 1)
    apart = plan.solver_distance + math.sqrt(size) / 2 * (float(STEP) + float(TILT_STEP) / plan.ridge)
    assert plan.output_scale >= 2 * apart * math.sqrt(outputs) / (0.02 * epsilon) * (1 - 1e-9)


@pytest.mark.parametrize("rows", [None, 40])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_noise_that_is_drawn_is_the_noise_that_is_priced(
    rows: int | None, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarantee = Guarantee(epsilon=1, delta=0)
    plan = CubePerturbation.plan(guarantee, adjacency, multinomial(3), features=4, outputs=3, rows=rows)
    drawn: list[tuple[Fraction, int]] = []

    def spy(scale: Fraction, dimension: int) -> np.ndarray:
        drawn.append((scale, dimension))
        return np.zeros(dimension, dtype=np.int64)

    for module in (noise_module, cube_perturbation):
        monkeypatch.setattr(module, "cube_noise", spy)
    plan.run(np.zeros((9, 4)), np.zeros(9), np.ones(9, dtype=np.bool_))
    centre, _, rest = (float(part.epsilon) for part in plan.event.events if isinstance(part, PureDP))  # type: ignore[attr-defined]
    moved = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    assert drawn[0] == (Fraction(moved << 24) / Fraction(centre), 4 if rows else 5)
    assert drawn[1:4] == [(Fraction(plan.tilt_scale) / TILT_STEP, 5)] * 3
    assert drawn[4:] == [(Fraction(plan.output_scale) / STEP, 5)] * 3 and rest == pytest.approx(0.02)


def test_without_people_the_model_is_the_tilt_over_the_ridge() -> None:
    plan = CubePerturbation.plan(Guarantee(epsilon=1, delta=0), AR, logistic, features=1999, outputs=1, rows=10)
    with test_mode(3):
        found = plan.released(np.zeros((0, 2000)), np.zeros(0))
    left = deviation(2000) * plan.tilt_scale / plan.ridge
    assert found.std() == pytest.approx(left, rel=0.1)
    assert math.sqrt(2000) * left == pytest.approx(1.0, rel=0.1), "noise alone leads to parameters of length 1"
    assert deviation(2000) * plan.output_scale < 0.05 * left, "the distance costs little"
    assert plan.bar().errors[0] >= left


@pytest.mark.parametrize("rows", [None, 20_000])
def test_the_centre_is_near_the_mean_and_vanishes_in_noise(rows: int | None) -> None:
    U = np.tile([0.5, -0.25, 0.0], (20_000, 1))
    with test_mode(1):
        near = CubePerturbation.plan(Guarantee(epsilon=1, delta=0), AR, logistic, features=3, outputs=1, rows=rows).centre(U)
        far = CubePerturbation.plan(Guarantee(epsilon=1e-5, delta=0), AR, logistic, features=3, outputs=1, rows=rows).centre(U)
    assert near == pytest.approx([0.5, -0.25, 0.0], abs=0.02) and np.abs(far).max() <= 1


@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4))
def test_no_value_raises(values: list[float]) -> None:
    plan = CubePerturbation.plan(Guarantee(epsilon=1, delta=0), AR, logistic, features=2, outputs=1, rows=2)
    fitted = plan.run(np.array(values).reshape(2, 2), np.array([0.0, 1.0]), np.array([True, False]))
    assert np.isfinite(fitted.coef).all() and np.isfinite(fitted.intercept).all()


def test_refusals() -> None:
    for guarantee in (Guarantee(epsilon=1, delta=1e-6), Guarantee(rho=1), Guarantee(mu=1)):
        with pytest.raises(ParameterError, match="pure"):
            CubePerturbation.plan(guarantee, AR, logistic, features=2, outputs=1, rows=None)
    with pytest.raises(ParameterError, match="kink"):
        CubePerturbation.plan(Guarantee(epsilon=1, delta=0), AR, hinge, features=2, outputs=1, rows=None)
