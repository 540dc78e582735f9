"""The card of a fair classifier says first whether it must know the group in use; and each kind of result draws itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tacit.fairness import (
    EqualizedOdds,
    FairClassifier,
    all_of,
    fair_card,
    fair_lp,
    fair_mixture,
    learn_submetric,
    measured,
    multicalibrate,
    plot_parts,
)
from tacit.learning import LogisticRegression
from tacit.noise import test_mode as seeded

SEX = {"sex": ["F", "M"]}


def rows(n: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = np.random.default_rng(0)
    sex, y = made.choice(["F", "M"], n), made.integers(0, 2, n)
    return np.column_stack([np.clip(y + made.normal(0, 0.8, n), -3, 3), made.uniform(-1, 1, n)]), y, sex


def corrected(**terms: float) -> EqualizedOdds:
    X, y, sex = rows()
    model = LogisticRegression(**({"rho": 0.2} if "rho" in terms else {"epsilon": 0.9, "delta": 1e-6}), bounds=(-3, 3), classes=[0, 1])  # type: ignore[arg-type]
    with seeded(1):
        return EqualizedOdds(model, groups=SEX, gap=0.05, **terms).fit(X, y, sensitive_features=sex)  # type: ignore[arg-type]


def played() -> FairClassifier:
    X, y, sex = rows()
    with seeded(2):
        return FairClassifier(groups=SEX, epsilon=2, delta=1e-6, bounds=(-3, 3), rounds=6).fit(X, y, sensitive_features=sex)


def test_a_classifier_that_needs_the_group_says_so() -> None:
    card = fair_card(corrected(epsilon=0.1))
    assert card.record["needs_group"] and "needs the group in use (sex: F, M)" in str(card).splitlines()[0]
    assert "must be told the group" in str(card) and "NOT PRIVATE" in str(card) and "at delta 1e-06" in card.record["price"]
    assert set(card.record["accepted"]) == {"F", "M"} and card.record["gap"]["low"] <= card.record["gap"]["high"]
    assert json.loads(card.to_json()) == card.record
    assert fair_card(corrected(rho=0.01)).record["price"].startswith("rho 0.21")


def test_a_classifier_that_does_not_says_that() -> None:
    card = fair_card(played())
    assert not card.record["needs_group"] and "does not need the group in use" in str(card) and "must be told" not in str(card)
    with pytest.raises(NotFittedError):
        fair_card(FairClassifier(groups=SEX))


def test_a_picture_for_each(tmp_path: Path) -> None:
    X, y, sex = rows()
    corrected(epsilon=0.1).plot(path=tmp_path / "correction.png")
    played().plot(path=tmp_path / "game.png")
    with seeded(3):
        mixed = fair_mixture(np.column_stack([y, 1 - y]), y, groups=SEX, sensitive_features=sex, rho=0.5, rounds=3, gap=0.1)
        better = multicalibrate(np.full(len(y), 0.3), y, SEX, sensitive_features=sex, epsilon=1, delta=1e-6)
    mixed.plot(path=tmp_path / "mixture.svg")
    better.plot(path=tmp_path / "multicalibration.png")
    metric = np.abs(X[:9, :1] - X[:9, 0]) / 6
    for divergence in ("tv", "inf"):
        fair_lp(X[:9] ** 2, metric, divergence).plot(path=tmp_path / f"{divergence}.png")  # type: ignore[arg-type]
    learn_submetric(range(9), lambda r, x: metric[r, x], alpha=0.1).plot(path=tmp_path / "submetric.png")
    terms = {"groups": SEX, "sensitive_features": ["F", "F", "M", "M"]}
    one, other = [1, 0, 1, 0], [1, 0, 0, 1]
    parts = {name: measured(part, [1] * 4, **terms) for name, part in (("one", one), ("both", all_of(one, other)))}  # type: ignore[arg-type]
    figure = plot_parts(parts, path=tmp_path / "parts.png")
    assert [bar.get_height() for bar in figure.axes[0].patches] == [0.0, 0.5]
    assert len(list(tmp_path.iterdir())) == 8
