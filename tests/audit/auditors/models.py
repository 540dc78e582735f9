"""Auditors of trained models: games of membership, poisoning, and canaries in gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from tests.audit.auditors.auditor import (
    GAUSSIAN,
    SMALL,
    Auditor,
    best_seen,
)

from tacit.audit.experiment import Generator
from tacit.audit.models.canaries import audit_gradients, audit_poisoning
from tacit.audit.models.games import MembershipGame
from tacit.audit.models.membership import (
    Attack,
    CalibratedAttack,
    LikelihoodRatioAttack,
    LossAttack,
    PopulationAttack,
    ReferenceAttack,
    RobustAttack,
)
from tacit.audit.models.report import audit_model
from tacit.audit.models.signals import Signal
from tacit.audit.rates import epsilon_of

NOISY = Signal("what the model says of the record", lambda model, records: model[np.asarray(records, dtype=np.int64)], 1.0)
POSITIVE = Signal("the same, positive", lambda model, records: expit(model[np.asarray(records, dtype=np.int64)]), 1.0)


class Said:
    """A training that says of each of `size` records whether it was there, with Laplace noise of its own: epsilon 1."""

    def __init__(self, draw: Generator, size: int) -> None:
        self.draw, self.size = draw, size

    def __call__(self, data: Any) -> Any:
        return np.bincount(np.asarray(data, dtype=np.int64), minlength=self.size) + self.draw.laplace(size=self.size)


def one_of_three(draw: Generator) -> Callable[[Any], float]:
    """Randomised response over three values, epsilon 1."""

    def train(data: Any) -> float:
        others = [value for value in (0.0, 1.0, 2.0) if value != data[0]]
        return float(data[0] if draw.random() < math.e / (math.e + 2) else others[int(draw.integers(2))])

    return train


def games() -> Iterator[Auditor]:
    for name, replace in (("worst case", False), ("fixed record", True)):
        yield Auditor(
            f"MembershipGame, {name}", "games.GameResult.evidence", "Laplace, epsilon 1", 1.0,
            lambda draw, seed, name=name, replace=replace: played(draw, seed, name, replace).evidence(seed=seed).lower,  # type: ignore[misc]
            lambda draw, seed, name=name, replace=replace: seen_in(played(draw, seed, name, replace)), 0.05,  # type: ignore[misc]
        )  # fmt: skip
    yield Auditor(
        "MembershipGame, average", "games.GameResult.evidence", "randomised response over 3 values, epsilon 1", 1.0,
        lambda draw, seed: averaged(draw, seed).evidence(seed=seed).lower,
        lambda draw, seed: estimate_of(averaged(draw, seed)), 0.05,
    )  # fmt: skip
    attacks: dict[str, tuple[Attack, str]] = {
        "loss": (LossAttack(NOISY), "membership.LossAttack"),
        "population": (PopulationAttack(NOISY), "membership.PopulationAttack"),
        "difficulty calibrated": (CalibratedAttack(NOISY), "membership.CalibratedAttack"),
        "reference": (ReferenceAttack(NOISY), "membership.ReferenceAttack"),
        "LiRA online": (LikelihoodRatioAttack(NOISY), "membership.LikelihoodRatioAttack"),
        "LiRA offline": (LikelihoodRatioAttack(NOISY), "membership.LikelihoodRatioAttack"),
        "RMIA": (RobustAttack(POSITIVE), "membership.RobustAttack"),
    }
    for name, (chosen, covers) in attacks.items():
        yield Auditor(
            f"fixed model, {name}", covers, "Laplace, epsilon 1, for each of 200 records", 1.0,
            lambda draw, seed, name=name, chosen=chosen: fixed_model(draw, seed, chosen, name != "LiRA offline"),  # type: ignore[misc]
            lambda draw, seed, name=name, chosen=chosen: fixed_model(draw, seed, chosen, name != "LiRA offline", seen=True),  # type: ignore[misc]
            0.1,
        )  # fmt: skip
    yield Auditor(
        "audit_model, whole report", "report.audit_model", "Laplace, epsilon 1, for each of 200 records", 1.0,
        lambda draw, seed: max(verdict.evidence.lower for verdict in modelled(draw, seed).verdicts),
        lambda draw, seed: max(best_seen(one.scores, one.bits) for one in modelled(draw, seed).results), 0.1,
    )  # fmt: skip
    yield Auditor(
        "audit_poisoning, two records", "canaries.audit_poisoning", "Laplace, epsilon 1 a record", 1.0,
        lambda draw, seed: poisoned(draw, seed).lower, lambda draw, seed: poisoned(draw, seed).details["group"], 0.3,
    )  # fmt: skip
    yield Auditor(
        "audit_gradients", "canaries.audit_gradients", "a step of private gradient descent, mu 1", GAUSSIAN,
        lambda _, seed: gradients(seed, noise=1.0), lambda _, seed: gradients(seed, noise=0.5), 0.1, mutant_runs=60,
    )  # fmt: skip


def played(draw: Generator, seed: int, name: str, replace: bool) -> Any:
    population = (np.arange(6) == 0).astype(float)
    game = MembershipGame(lambda data: float(np.sum(data) + draw.laplace()), population, 2, name, record=0, replace=replace, seed=seed)
    return game.run(lambda model, _: model, trials=80)


def averaged(draw: Generator, seed: int) -> Any:
    game = MembershipGame(one_of_three(draw), np.arange(3.0), 1, "average", seed=seed)
    return game.run(lambda model, record: float(model == record[0]), trials=80)


def seen_in(result: Any) -> float:
    return best_seen(result.scores, result.bits)


def estimate_of(result: Any) -> float:
    return epsilon_of(float(result.scores[~result.bits].mean()), float(result.scores[result.bits].mean()))


def fixed_model(draw: Generator, seed: int, chosen: Attack, online: bool, *, seen: bool = False) -> float:
    size = 260
    game = MembershipGame(Said(draw, size), np.arange(size), 100, "fixed model", seed=seed)
    references, inside = game.train_references(6)
    rest = np.setdiff1d(np.arange(size), game.candidates)
    result = game.run_all([chosen], 200, references=references, inside=inside if online else None, population=rest)[0]
    if seen:
        return best_seen(result.scores, result.bits)
    return result.evidence(seed=seed).lower


def modelled(draw: Generator, seed: int) -> Any:
    attacks = [LossAttack(NOISY), CalibratedAttack(NOISY)]
    return audit_model(Said(draw, 260), np.arange(260), "eps=1", attacks=attacks, size=100, references=3, signal=NOISY, seed=seed)


def poisoned(draw: Generator, seed: int) -> Any:
    def train(rows: Any) -> float:
        return float(rows.sum() + draw.laplace())

    return audit_poisoning(train, np.zeros(1), np.ones(2), lambda model, _: model, trials=200, seed=seed)


def gradients(seed: int, noise: float) -> float:
    from tacit.deep import FullBatch, make_private

    how: Any = {"noise_multiplier": noise, "clip": 1.0, "sampler": FullBatch(200), "steps": 1, "loss_reduction": "sum"}
    return audit_gradients(lambda *parts: make_private(*parts, **how), canaries=200, delta=SMALL, seed=seed).lower
