"""Equalized odds by correction: the programme against a grid, the price of model and correction together, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from tacit.accounting import Adjacency, Composed
from tacit.errors import ParameterError
from tacit.fairness import EqualizedOdds, FairnessError, Groups, correct, expected_rates
from tacit.learning import LogisticRegression
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode as seeded

SEX = {"sex": ["F", "M"]}


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two groups, the second with labels that are harder to tell."""
    made = np.random.default_rng(seed)
    sex = made.choice(["F", "M"], n)
    X = made.uniform(-1, 1, (n, 3))
    steep = np.where(sex == "F", 6.0, 2.0)
    y = (made.random(n) < 1 / (1 + np.exp(-steep * (X[:, 0] + 0.3 * (sex == "F"))))).astype(int)
    return X, y, sex


def model(**terms: Any) -> LogisticRegression:
    return LogisticRegression(**{"epsilon": 2, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1], "n_public": 4000, **terms})


def test_the_correction_against_a_grid() -> None:
    counts = np.array([[[300, 100], [60, 240]], [[150, 20], [80, 110]]], dtype=float)
    rule = correct(counts, gap=0.05)
    assert rule.gap <= 0.05 + 1e-9
    shares, best = counts / counts.sum(axis=2, keepdims=True), np.inf
    line = np.linspace(0, 1, 15)
    for accept in itertools.product(line, repeat=4):
        p = np.array(accept).reshape(2, 2)
        rates = np.einsum("glp,gp->gl", shares, p)
        if np.abs(rates[0] - rates[1]).max() <= 0.05:
            wrong = (counts[:, 0] * p).sum() + (counts[:, 1] * (1 - p)).sum()
            best = min(best, wrong / counts.sum())
    assert rule.error <= best + 1e-9
    assert rule.error >= best - 0.03  # the grid is coarse


def test_noise_that_makes_counts_negative_still_has_a_correction() -> None:
    for seed in range(20):
        counts = np.random.default_rng(seed).integers(-50, 50, (3, 2, 2))
        assert correct(counts, gap=0.0).gap <= 1e-7


def test_model_and_correction_are_one_price() -> None:
    X, y, sex = rows(4000)
    with seeded(1):
        fair = EqualizedOdds(model(), groups=SEX, epsilon=0.5, gap=0.03).fit(X, y, sensitive_features=sex)
        alone = model().fit(X, y)
    assert isinstance(fair.event_, Composed)
    assert alone.privacy_.upper < fair.privacy_.upper <= 2.5
    assert fair.needs_group_ and not fair.private_
    counts = np.zeros((2, 2, 2))
    X2, y2, sex2 = rows(20_000, 9)
    np.add.at(counts, ((sex2 == "M").astype(int), y2, fair.estimator_.predict(X2).astype(int)), 1)
    groups = Groups.of(SEX)
    before, after = counts, expected_rates(counts, fair.correction_, groups)
    from tacit.fairness import Rates

    assert after.difference("equalized_odds") < 0.5 * Rates(groups, before).difference("equalized_odds")
    assert fair.gap_.low <= 0.03 + 1e-9 <= fair.gap_.high + 0.03
    drawn = fair.predict(X2, sensitive_features=sex2)
    assert set(np.unique(drawn)) <= {0, 1}
    assert fair.score(X2, y2, sensitive_features=sex2) == pytest.approx(float((drawn == y2).mean()), abs=0.02)


def test_it_is_paid_for_whole_or_not_at_all(tmp_path: object) -> None:
    X, y, sex = rows(300)
    account = Ledger.open(f"sqlite:///{tmp_path}/book.db").account("a", Budget(epsilon=2.2, delta=1e-5))
    with pytest.raises(BudgetExceeded):
        EqualizedOdds(model(), groups=SEX, epsilon=0.5, account=account).fit(X, y, sensitive_features=sex)
    assert float(account.left()["epsilon"]) == 2.2
    fair = EqualizedOdds(model(epsilon=1), groups=SEX, epsilon=0.5, account=account).fit(X, y, sensitive_features=sex)
    assert float(account.left()["epsilon"]) == pytest.approx(2.2 - fair.privacy_.upper, abs=0.35)


def test_a_model_that_is_not_private_is_refused_unless_it_is_public() -> None:
    X, y, sex = rows(300)
    with pytest.raises(ParameterError):
        EqualizedOdds(Plain(), groups=SEX, epsilon=1).fit(X, y, sensitive_features=sex)
    public = Plain().fit(*rows(500, 5)[:2])
    fair = EqualizedOdds(public, groups=SEX, epsilon=1, prefit=True).fit(X, y, sensitive_features=sex)
    assert not isinstance(fair.event_, Composed) and fair.privacy_.upper <= 1


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"groups": None}, FairnessError),
        ({"gap": 2.0}, ParameterError),
        ({"smallest": 3, "gap": 0.001}, FairnessError),
        ({"adjacency": "replace-one"}, ParameterError),
        ({"epsilon": None}, ParameterError),
    ],
)
def test_refusals(terms: dict[str, Any], error: type[Exception]) -> None:
    X, y, sex = rows(50)
    with pytest.raises(error):
        EqualizedOdds(model(), **{"groups": SEX, "epsilon": 1, **terms}).fit(X, y, sensitive_features=sex)


def test_clones_share_the_account_and_odd_rows_raise_nothing() -> None:
    from sklearn.base import clone

    fair = EqualizedOdds(model(), groups=SEX, epsilon=1)
    assert clone(fair).groups is SEX
    X, y, sex = rows(60)
    odd = X.copy()
    odd[0] = [np.nan, np.inf, 1e308]
    labels: list[object] = [*y.tolist()]
    labels[1] = "many"
    who: list[object] = [*sex.tolist()]
    who[2] = None
    with seeded(3):
        found = EqualizedOdds(model(), groups=SEX, epsilon=1).fit(odd, labels, sensitive_features=who)
    assert found.predict(odd, sensitive_features=who).shape == (60,)
    assert found.rates_.event.adjacency is Adjacency.ADD_REMOVE


def test_a_model_whose_price_follows_the_data_publishes_nothing() -> None:
    """The pipeline is priced on zeros; a model that costs more on the data is not handed out."""

    class Growing(LogisticRegression):
        def fit(self, X: Any, y: Any) -> Growing:
            super().fit(X, y)
            if np.any(np.asarray(X) != 0):
                self.event_ = Composed(self.event_, self.event_)
            return self

    X, y, sex = rows(60)
    asked = {"epsilon": 1, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1], "n_public": 60}
    with seeded(1), pytest.raises(ParameterError, match="price changed"):
        EqualizedOdds(Growing(**asked), groups=SEX, epsilon=1).fit(X, y, sensitive_features=sex)
