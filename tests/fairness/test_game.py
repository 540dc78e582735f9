"""The game: both assignments of roles, the price, prices that are never negative, and a finite class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.errors import ParameterError
from tacit.fairness import Auditor, FairClassifier, FairnessError, fair_mixture, measured
from tacit.noise import test_mode as seeded

SEX = {"sex": ["F", "M"]}


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The label follows two features, one of which tells the group: the best classifier treats the groups unequally."""
    made = np.random.default_rng(seed)
    sex = made.choice(["F", "M"], n)
    X = made.uniform(-1, 1, (n, 3))
    X[:, 1] = np.clip(X[:, 1] + 0.7 * (sex == "M") - 0.35, -1, 1)
    y = (X[:, 0] + X[:, 1] + made.normal(0, 0.5, n) > 0).astype(int)
    return X, y, sex


def fitted(n: int = 6000, **terms: Any) -> FairClassifier:
    X, y, sex = rows(n)
    with seeded(3):
        return FairClassifier(
            **{"groups": SEX, "epsilon": 4, "delta": 1e-6, "bounds": (-1, 1), "rounds": 60, **terms}
        ).fit(X, y, sensitive_features=sex)


def judged(model: FairClassifier) -> tuple[float, float]:
    X, y, sex = rows(20_000, 7)
    found = measured(model.chances(X), y, groups=SEX, sensitive_features=sex)
    return found.overall["accuracy"], found.difference("equalized_odds")


def test_the_game_narrows_the_gap_for_some_accuracy() -> None:
    plain = judged(fitted(bound=1e-6))
    fair = judged(fitted(bound=0.8))
    assert fair[1] < 0.5 * plain[1] and fair[0] > plain[0] - 0.06


def test_the_other_assignment_of_roles() -> None:
    plain, fair = judged(fitted(bound=1e-6)), judged(fitted(roles="learner", bound=0.4))
    assert fair[1] < 0.75 * plain[1] and fair[0] > plain[0] - 0.08


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_all_rounds_are_one_price(relation: str) -> None:
    model = fitted(300, rounds=6, adjacency=relation)
    assert model.privacy_.upper <= 4 and not model.needs_group_
    assert Guarantee(epsilon=4, delta=1e-6).admits(model.event_, Adjacency.parse(relation))
    assert len(model.gaps_) == 6 and len(model.hypotheses_) == 3
    assert set(np.unique(model.predict(rows(50)[0]))) <= {0, 1}


def test_prices_are_never_negative_and_add_up_to_the_bound() -> None:
    auditor = Auditor(3, 0.05, 2.0)
    made = np.random.default_rng(1)
    for _ in range(20):
        rates = made.uniform(0, 1, (3, 2))
        excesses = auditor.excesses(rates)
        for prices in (auditor.best_response(excesses), auditor.weighed(excesses * 5, 1.0)):
            assert (prices >= 0).all() and prices.sum() <= 2.0 + 1e-12
    assert auditor.best_response(auditor.excesses(np.full((3, 2), 0.5))).sum() == 0
    # what the prices cost a group adds up to nothing over the groups: they move rates towards each other
    assert auditor.burdens(auditor.best_response(excesses)).sum() == pytest.approx(0)


def test_one_person_weighs_no_more_than_the_clip() -> None:
    """Whatever the prices: the gradient of one person is cut to the bound that the noise is for."""
    from tacit.mechanisms import clip_rows

    huge = np.array([[1e9, -1e9, 1e9, 1.0], [np.nan, np.inf, 0, 0]])
    assert (np.linalg.norm(clip_rows(huge, 1.0), axis=1) <= 1 + 1e-12).all()


def test_a_finite_class() -> None:
    made = np.random.default_rng(2)
    sex, merit = made.choice(["F", "M"], 8000), made.integers(0, 2, 8000)
    wrong_for_f = np.where((sex == "F") & (made.random(8000) < 0.3), 0, merit)
    noisy = np.where(made.random(8000) < 0.2, 1 - merit, merit)
    rules = np.column_stack([wrong_for_f, noisy, np.ones(8000)])
    with seeded(5):
        found = fair_mixture(rules, merit, groups=SEX, sensitive_features=sex, rho=0.5, rounds=30, bound=1.0)
    assert found.privacy.upper <= 0.5 and found.shares.sum() == pytest.approx(1)
    whole = measured(found.chances(rules), merit, groups=SEX, sensitive_features=sex)
    first = measured(rules[:, 0], merit, groups=SEX, sensitive_features=sex)
    assert whole.difference("equalized_odds") < first.difference("equalized_odds")


def test_refusals() -> None:
    X, y, sex = rows(40)
    for terms, error in (
        ({"groups": None}, FairnessError),
        ({"roles": "nobody"}, ParameterError),
        ({"classes": [0, 1, 2]}, ParameterError),
        ({"epsilon": 1, "delta": 0}, ParameterError),
        ({"bounds": None}, ParameterError),
    ):
        with pytest.raises(error):
            FairClassifier(**{"groups": SEX, "epsilon": 1, "delta": 1e-6, "bounds": (-1, 1), **terms}).fit(  # type: ignore[arg-type]
                X, y, sensitive_features=sex
            )
    with pytest.raises(FairnessError):
        fair_mixture(np.ones((4, 1)), [1] * 4, groups=SEX, sensitive_features=["F"] * 4, epsilon=1)
    odd: list[object] = [*y.tolist()[:-1], {"a": 1}]
    with seeded(1):
        FairClassifier(groups=SEX, epsilon=1, delta=1e-6, bounds=(-1, 1), rounds=3).fit(
            np.where(np.arange(3) == 1, np.nan, X), odd, sensitive_features=[*sex.tolist()[:-1], None]
        )
