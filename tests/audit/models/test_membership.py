"""Attacks on models that memorise and on one that does not; calibrated thresholds; each interface the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.audit.toy_models import constant, ridge, toy

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.membership import (
    Attack,
    CalibratedAttack,
    GapAttack,
    LabelOnlyAttack,
    LikelihoodRatioAttack,
    LossAttack,
    PopulationAttack,
    Reference,
    ReferenceAttack,
    RobustAttack,
    ShadowAttack,
    order_statistic,
)
from tacit.audit.models.roc import roc

ATTACKS: list[Attack] = [
    LossAttack(), PopulationAttack(), GapAttack(), ShadowAttack(), ReferenceAttack(), CalibratedAttack(),
    LikelihoodRatioAttack(), RobustAttack(), LabelOnlyAttack(), LabelOnlyAttack("boundary", queries=6),
    LabelOnlyAttack("augmentation", augment=lambda x, i: x * (1 + i) / 5, queries=5),
]  # fmt: skip
IDS = [f"{i}-{attack.name}" for i, attack in enumerate(ATTACKS)]


def scene(train: Any, seed: int = 1, references: int = 8) -> dict[str, Any]:
    draw = generator(seed)
    members, others, population = toy(60, coins=draw), toy(60, coins=draw), toy(300, coins=draw)
    shadows = []
    for _ in range(references):
        own, fresh = toy(60, coins=draw), toy(60, coins=draw)
        shadows.append(Reference(train(own), own, fresh))
    return {
        "target": train(members),
        "references": shadows,
        "population": population,
        "records": (np.vstack([members[0], others[0]]), np.concatenate([members[1], others[1]])),
        "bits": np.arange(120) < 60,
    }


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
def test_members_of_a_model_that_memorises_are_found(attack: Attack) -> None:
    areas = []
    for seed in range(3):
        at = scene(ridge, seed)
        scores = attack.fit(at["target"], at["references"], at["population"]).score(at["records"])
        assert scores.shape == (120,) and np.isfinite(scores).all()
        areas.append(roc(scores, at["bits"]).auc)
    assert np.mean(areas) > 0.56


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
def test_a_model_that_ignores_its_data_gives_nothing_away(attack: Attack) -> None:
    areas = []
    for seed in range(3):
        at = scene(constant, seed, references=4)
        areas.append(roc(attack.fit(at["target"], at["references"], at["population"]).score(at["records"]), at["bits"]).auc)
    # The area of 60 against 60 deviates by 0.053; the mean of three by 0.031.
    assert abs(np.mean(areas) - 0.5) < 4 * 0.031


@pytest.mark.parametrize(
    "attack", [LossAttack(), PopulationAttack(), CalibratedAttack(), RobustAttack(), LikelihoodRatioAttack()], ids=lambda a: a.name
)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_false_alarms_are_kept_to_alpha(attack: Attack, alpha: float) -> None:
    draw, alarms, asked = generator(9), 0, 0
    at = scene(ridge, 2)
    for _ in range(10):
        fitted = attack.fit(at["target"], at["references"], toy(99, coins=draw))
        fresh = toy(200, coins=draw)
        alarms += int(fitted.predict(fresh, alpha).sum())
        asked += 200
    # Ten thresholds from 99 records each: the rate above one deviates by sqrt(alpha (1 - alpha) / 100), the mean of ten by a third of it.
    spread = np.sqrt(alpha * (1 - alpha) * (1 / 1000 + 1 / asked))
    assert alpha - 3 * spread - 0.01 < alarms / asked < alpha + 3 * spread


def test_a_plain_quantile_lets_too_many_through() -> None:
    """The mutant: the k-th of n values instead of the conformal order statistic, with few records."""
    draw = generator(10)
    ours = theirs = 0
    for _ in range(3000):
        known, fresh = np.sort(draw.normal(size=9)), draw.normal()
        ours += fresh > order_statistic(known, 0.2)
        theirs += fresh > known[int(np.ceil(0.8 * 9)) - 2]
    assert ours / 3000 == pytest.approx(0.2, abs=3 * 0.0073)
    assert theirs / 3000 > 0.25


def test_the_gap_attack_is_the_gap_in_accuracy() -> None:
    at = scene(ridge)
    right = at["target"].predict(at["records"][0]) == at["records"][1]
    curve = roc(GapAttack().fit(at["target"]).score(at["records"]), at["bits"])
    assert curve.advantage == pytest.approx(right[:60].mean() - right[60:].mean())


def test_shadow_thresholds_and_classifiers() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    at = scene(ridge, 4)
    known = at["references"]
    by_threshold = ShadowAttack().fit(at["target"], known)
    worlds = [(one.model, part, inside) for one in known for part, inside in ((one.members, True), (one.others, False))]
    losses = [(-by_threshold.signal(model, part), inside) for model, part, inside in worlds]
    worth = lambda c: sum(float(np.sum((loss <= c) == inside)) for loss, inside in losses)  # noqa: E731
    assert worth(-by_threshold.cut) == max(worth(c) for loss, _ in losses for c in loss.tolist())
    quantile = ShadowAttack(objective=0.1).fit(at["target"], known)
    let_through = np.mean([quantile.signal(one.model, one.others) > quantile.cut for one in known])
    assert 0.08 < let_through <= 0.1
    learnt = ShadowAttack(classifier=linear_model.LogisticRegression()).fit(at["target"], known)
    assert np.mean(learnt.decide(at["records"]) == at["bits"]) > 0.55


def test_references_that_held_the_record_do_not_count() -> None:
    told = lambda model, records: np.full(len(records), float(model))  # noqa: E731
    from tacit.audit.models.signals import Signal

    signal = Signal("told", told, 1.0)
    inside = np.array([[True], [False], [False]])
    assert ReferenceAttack(signal).fit(1.0, [5.0, 0.0, 0.5]).score([0], inside).tolist() == [1.0]
    assert CalibratedAttack(signal).fit(1.0, [5.0, 0.0, 0.5]).score([0], inside).tolist() == [0.75]
    assert ReferenceAttack(signal).fit(1.0, [5.0, 0.0, 0.5]).score([0]).tolist() == [pytest.approx(2 / 3)]


def test_a_score_does_not_depend_on_who_else_is_asked_about() -> None:
    at = scene(ridge)
    x, y = at["records"]
    for attack in ATTACKS:
        fitted = attack.fit(at["target"], at["references"], at["population"])
        shared = attack.name == "LiRA"  # one deviation is shared by all who are asked about when references are few
        alone, together = fitted.score((x[:1], y[:1])), fitted.score((x[:5], y[:5]))
        assert shared or alone[0] == pytest.approx(together[0]), attack.name


def test_fitting_leaves_the_attack_as_it_was() -> None:
    attack = LossAttack()
    attack.fit(constant(toy(5)))
    with pytest.raises(ParameterError, match="fit"):
        attack.score(toy(5))


@pytest.mark.parametrize(
    ("attack", "how"),
    [
        (ReferenceAttack(), {}),
        (RobustAttack(), {"references": [1]}),
        (PopulationAttack(), {}),
        (ShadowAttack(), {"references": [1]}),
    ],
    ids=["references", "population of rmia", "population", "shadows"],
)
def test_what_is_missing_is_named(attack: Attack, how: Any) -> None:
    with pytest.raises(ParameterError):
        attack.fit(object(), **how)


def test_a_threshold_needs_the_population() -> None:
    with pytest.raises(ParameterError, match="population"):
        LossAttack().fit(constant(toy(5))).threshold(0.1)
    with pytest.raises(ParameterError, match="augment"):
        LabelOnlyAttack("augmentation")
