"""Calibration by group, exact and private."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Laplace
from tacit.fairness import FairnessError, calibration, private_calibration
from tacit.fairness.calibration import cells_of, scores_of
from tacit.noise import test_mode as seeded

SEX = {"sex": ["F", "M"]}


def scored(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores that are right for F and .2 too high for M."""
    made = np.random.default_rng(seed)
    scores, sex = made.uniform(0.2, 1, n), made.choice(["F", "M"], n)
    return scores, (made.random(n) < scores - 0.2 * (sex == "M")).astype(int), sex


def test_a_constant_at_the_mean_is_calibrated_and_the_bayes_predictor_too() -> None:
    made = np.random.default_rng(1)
    share = made.uniform(0, 1, 50_000)
    y = (made.random(50_000) < share).astype(int)
    assert calibration(np.full(50_000, y.mean()), y).error() == pytest.approx(0, abs=0.005)
    assert calibration(share, y, cells=10).error(least=0.02) == pytest.approx(0, abs=0.02)


def test_the_group_that_is_off_is_found() -> None:
    scores, y, sex = scored(40_000)
    found = calibration(scores, y, groups=SEX, sensitive_features=sex, cells=10)
    assert found.error("F", least=0.01) < 0.05 < 0.12 < found.error("M", least=0.01)
    with seeded(2):
        private = private_calibration(scores, y, groups=SEX, sensitive_features=sex, cells=10, epsilon=1)
    assert private.event == Laplace(1)
    assert private.error("M", least=0.01) == pytest.approx(found.error("M", least=0.01), abs=0.02)
    assert private.counts.sum() == pytest.approx(40_000, abs=200)
    exact, noisy = found.curve("M"), private.curve("M")
    covered = [one.low <= true.value <= one.high for (_, true), (_, one) in zip(exact, noisy, strict=True) if not np.isnan(true.value)]
    assert sum(covered) >= len(covered) - 2


def test_scores_are_read_one_by_one() -> None:
    assert scores_of([0.1, "x", np.nan, -5, 10**400, True]).tolist() == [0.1, 0.5, 0.5, 0.0, 1.0, 1.0]
    assert cells_of(np.array([1.0, 0.0]), 7).tolist() == [6, 0]


def test_refusals_and_pictures(tmp_path: object) -> None:
    with pytest.raises(FairnessError):
        calibration([0.5], [1, 0])
    scores, y, sex = scored(3000)
    with seeded(1):
        private_calibration(scores, y, groups=SEX, sensitive_features=sex, epsilon=1, cells=8).plot(path=f"{tmp_path}/c.png")
