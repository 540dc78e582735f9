"""Attacks on a training in every game: references are used everywhere, and the worst case finds the planted record by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.accounting import ParameterError
from tacit.audit import Game, audit_model
from tacit.audit.models.membership import LikelihoodRatioAttack, PopulationAttack, RobustAttack, ShadowAttack
from tacit.audit.models.report import most_exposed

PLANTED = 37


def population() -> tuple[NDArray[Any], NDArray[Any]]:
    """Two clouds, and one record with the wrong label far away from both."""
    draws = np.random.default_rng(5)
    y = np.arange(60) % 2
    x = draws.normal(0, 1, (60, 2)) + 3 * (2 * y[:, None] - 1)
    x[PLANTED] = (0.0, 40.0)
    y[PLANTED] = 0
    return x, y


class Nearest:
    """A classifier that keeps its data: the vote of the five nearest, the nearest counting most."""

    def __init__(self, x: NDArray[Any], y: NDArray[Any], seed: int) -> None:
        self.x, self.y = x, y
        self.noise = 0.02 * np.random.default_rng(seed).normal()

    def predict_proba(self, x: NDArray[Any]) -> NDArray[Any]:
        away = np.sqrt(((x[:, None, :] - self.x[None]) ** 2).sum(axis=2))
        near = np.argsort(away, axis=1)[:, :5]
        weight = 1 / (0.1 + np.take_along_axis(away, near, axis=1))
        one = (weight * self.y[near]).sum(axis=1) / weight.sum(axis=1)
        one = np.clip(one + self.noise, 0.01, 0.99)
        return np.column_stack([1 - one, one])


def train(data: Any, seed: int = 0) -> Nearest:
    return Nearest(*data, seed)


def test_the_most_exposed_record_is_the_planted_one() -> None:
    assert most_exposed(train, population(), 16, seed=2) == PLANTED


def test_the_worst_case_finds_the_planted_record_by_itself_and_breaks_the_claim() -> None:
    report = audit_model(train, population(), "eps=1", game="worst-case", runs=60, seed=4)
    assert report.record == PLANTED and report.broken and f"row {PLANTED}" in str(report)
    assert report.trainings == 60 + 8 + 16
    named = audit_model(train, population(), "eps=1", game="worst-case", runs=20, seed=4, record=3, references=0)
    assert named.record == 3 and named.trainings == 20
    with pytest.raises(ParameterError, match="row of the data"):
        audit_model(train, population(), "eps=1", game="worst-case", record=60)


@pytest.mark.parametrize("game", [one.value for one in Game])
def test_references_population_and_shadows_work_in_every_game(game: str) -> None:
    attacks = [LikelihoodRatioAttack(), RobustAttack(), PopulationAttack(), ShadowAttack()]
    report = audit_model(
        train, population(), "eps=3", attacks=attacks, game=game, runs=20, references=4, seed=6,
        record=PLANTED if game in ("worst-case", "fixed-record") else None,
    )  # fmt: skip
    assert [result.attack.partition(" on ")[0] for result in report.results] == ["LiRA", "RMIA", "population", "shadow models"]
    if game in ("worst-case", "fixed-record"):
        assert max(result.roc.auc for result in report.results) > 0.95


def test_one_spelling_of_games_and_the_old_one_is_read() -> None:
    assert [one.value for one in Game] == ["average", "fixed-model", "fixed-record", "worst-case"]
    assert Game("worst case") is Game("worst-case") is Game("WORST_CASE") is Game.WORST_CASE
    with pytest.raises(ValueError):
        Game("worst")
