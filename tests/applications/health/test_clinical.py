"""Model cards: exact AUC against scikit-learn, paid ones near them, parts, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tacit.applications.health import clinical_card
from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger


def patients(n: int = 3000):
    rng = np.random.default_rng(1)
    sick = (rng.random(n) < 0.4).astype(int)
    sex, year = rng.choice(["f", "m"], n), rng.uniform(2018, 2026, n)
    weak = np.where(sex == "f", 0.05, 0.25)
    scores = {"private": np.clip(0.4 + weak * sick + 0.15 * rng.normal(size=n), 0, 1)}
    scores["plain"] = np.clip(0.3 + 0.3 * sick + 0.15 * rng.normal(size=n), 0, 1)
    return sick, scores, sex, year


def test_exact_figures_are_those_of_scikit_learn() -> None:
    sick, scores, sex, year = patients()
    card = clinical_card(sick, scores, groups=sex, names=["f", "m"], when=year, split=2024)
    parts = {"all": sick >= 0, "f": sex == "f", "m": sex == "m", "before the split": year < 2024, "after the split": year >= 2024}
    for part, inside in parts.items():
        for model, score in scores.items():
            assert card[part, model].auc == pytest.approx(roc_auc_score(sick[inside], score[inside]), abs=1e-12)
    assert card.gaps()["f"] > card.gaps()["m"] + 0.1 and card.event is None and "no guarantee" in str(card)


def test_a_paid_card_is_near_and_paid_once(tmp_path: Path) -> None:
    sick, scores, sex, year = patients()
    paid = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}").account("card", Budget(epsilon=2))
    exactly = clinical_card(sick, scores, groups=sex, names=["f", "m"], when=year, split=2024)
    card = clinical_card(sick, scores, groups=sex, names=["f", "m"], when=year, split=2024, epsilon=2, bins=20, account=paid)
    assert paid.left()["pure"] == 0 and Fraction(card.event.noise_multiplier) == Fraction(1, 2)
    for row in card.rows:
        assert row.low - 0.03 <= exactly[row.part, row.model].auc <= row.high + 0.03
    assert clinical_card(sick, scores, epsilon=1, adjacency="replace-one").event.adjacency.value == "replace-one"


def test_one_patient_moves_one_cell_of_each_model() -> None:
    from tacit.applications.health.clinical import _histogram, _Parts

    given = {"labels": np.array([1, 0, 2, 1]), "scores of a": np.array([0.2, np.nan, 0.3, 7.0])}
    given["scores of b"] = np.array([0.1, 1.0, 0.5, -3.0])
    found = _histogram(given, ("a", "b"), _Parts(("",), False), None, 10)
    assert found[0].sum() == 2 and found[1].sum() == 3 and found[0, 0, 0, 1].tolist()[-1] == 1


@pytest.mark.parametrize(
    "more", [{"scores": {}}, {"groups": ["a"]}, {"names": ["a"]}, {"split": 3}, {"scores": {"a": [0.1, 0.2]}}, {"bins": 1}, {"epsilon": 0}]
)
def test_what_is_undeclared_is_refused(more: dict) -> None:
    with pytest.raises(ParameterError):
        clinical_card([1], **{"scores": {"a": [0.5]}, **more})
