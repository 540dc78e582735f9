"""Losses: derivatives against finite differences, constants against brute force, kinks refused where the proof needs none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.learning.linear import losses
from tacit.learning.linear.losses import Loss, custom, huber, multinomial, poisson, smoothed_hinge, smoothed_quantile, squared

SINGLE = {
    "logistic": (losses.logistic, [0.0, 1.0]),
    "squared": (squared(2.0), [-1.0, 0.3, 1.0]),
    "huber": (huber(0.5), [-1.0, 0.3, 1.0]),
    "smoothed hinge": (smoothed_hinge(0.5), [0.0, 1.0]),
    "smoothed quantile": (smoothed_quantile(0.8, 0.2), [-1.0, 0.3, 1.0]),
    "poisson": (poisson(6.0, 1.5), [0.0, 2.0, 6.0]),
}
GRID = np.linspace(-4, 4, 4001) + 1e-4


@pytest.mark.parametrize("name", SINGLE)
def test_the_derivative_is_the_slope_of_the_value_and_the_constants_hold(name: str) -> None:
    loss, labels = SINGLE[name]
    steepest = curved = 0.0
    for label in labels:
        y, h = np.full(len(GRID), label), 1e-6
        slope = loss.derivative(GRID[:, None], y)[:, 0]
        measured = (loss.value(GRID[:, None] + h, y) - loss.value(GRID[:, None] - h, y)) / (2 * h)
        assert slope == pytest.approx(measured, abs=2e-5)
        bends = np.diff(slope) / np.diff(GRID)
        assert bends.min() >= -1e-9, "convex"
        steepest, curved = max(steepest, float(np.abs(slope).max())), max(curved, float(bends.max()))
    assert steepest <= loss.slope * (1 + 1e-12) and curved <= loss.curvature * (1 + 1e-9)
    assert steepest > 0.9 * loss.slope and curved > 0.9 * loss.curvature, "the constants are tight"


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_the_multinomial_hessian_has_the_stated_eigenvalue_and_rank(classes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=classes) * 3
    p = losses.softmax(scores[None, :])[0]
    values = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))
    loss = multinomial(classes)
    assert values.max() <= loss.curvature + 1e-12 and (values > 1e-14).sum() <= loss.rank
    label = np.array([seed % classes])
    derivative = loss.derivative(scores[None, :], label)
    assert np.linalg.norm(derivative) <= loss.slope and np.abs(derivative).sum() <= loss.total_slope(classes) == 2
    h = 1e-6
    for k in range(classes):
        step = h * (np.arange(classes) == k)
        measured = (loss.value((scores + step)[None, :], label) - loss.value((scores - step)[None, :], label)) / (2 * h)
        assert derivative[0, k] == pytest.approx(measured[0], abs=1e-6)


def test_a_users_loss_is_clipped_to_its_stated_slope_and_never_trusted_for_its_curvature() -> None:
    lying = custom("lie", lambda s, y: 1e6 * s[:, 0], lambda s, y: np.full_like(s, 1e6), slope=1.0, curvature=0.1)
    assert np.abs(lying.clipped(np.zeros((3, 1)), np.zeros(3))).max() <= 1
    broken = custom("nan", lambda s, y: s[:, 0], lambda s, y: np.full_like(s, np.nan), slope=1.0)
    assert np.isfinite(broken.clipped(np.zeros((3, 1)), np.zeros(3))).all()
    with pytest.raises(ParameterError, match="clipping cannot enforce"):
        lying.require_smooth("objective perturbation")


@pytest.mark.parametrize("loss", [losses.absolute, losses.hinge], ids=["absolute", "hinge"])
def test_kinks_are_refused_with_the_way_out(loss: Loss) -> None:
    with pytest.raises(ParameterError, match=r"huber\(threshold\)"):
        loss.require_smooth("objective perturbation")
    assert math.isinf(loss.smoothness(1.0))


@pytest.mark.parametrize("make", [lambda: smoothed_quantile(1.0), lambda: squared(0.0), lambda: huber(-1), lambda: multinomial(1)])
def test_bad_parameters_are_refused(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]
