"""Pipelines: one event, one line in the book, reserved before the data is touched; steps without a price are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline as Plain
from sklearn.preprocessing import Normalizer
from sklearn.preprocessing import StandardScaler as Careless

from tacit.accounting import Adjacency, Composed, Gaussian, NoOp, ParameterError, account
from tacit.learning import LogisticRegression
from tacit.learning.naive_bayes import GaussianNB
from tacit.learning.pipeline import Pipeline, pipeline_event
from tacit.learning.unsupervised.kernel_features import RandomFourierFeatures
from tacit.learning.unsupervised.pca import PCA
from tacit.learning.unsupervised.scalers import MinMaxScaler, StandardScaler
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)


def steps(**promise: Any) -> list[tuple[str, Any]]:
    given = promise or {"rho": 0.1}
    return [
        ("reduce", PCA(2, bounds=(-3, 3), **given)),
        ("classify", GaussianNB(data_norm=2.0, classes=[0, 1], **given)),
    ]


def test_the_total_is_the_composition_and_equals_its_closed_form() -> None:
    """Gaussian releases add up in rho: 0.1 + 0.1."""
    model = Pipeline(steps()).fit(X, Y)
    assert model.event_ == Composed(model[0].event_, model[1].event_) == pipeline_event(model)
    assert model.privacy_.upper == pytest.approx(0.2, rel=1e-6) and model.privacy_.upper <= 0.2
    assert model.private_ and model.predict(X).shape == (200,)


def test_one_event_costs_less_than_the_sum_of_its_parts() -> None:
    model = Pipeline(steps(epsilon=0.5, delta=1e-6)).fit(X, Y)
    assert model.privacy_.upper == account(model.event_).epsilon(2e-6).upper < 0.9


def test_the_book_is_charged_once_and_asked_first(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    visits = book.account("visits", Budget(rho=0.3))
    Pipeline(steps(), account=visits).fit(X, Y)
    assert float(visits.spent()["rho"]) == pytest.approx(0.2, rel=1e-6)
    alone = book.account("alone", Budget(rho=1))
    Pipeline(steps()[:1], account=alone).fit_transform(X)
    assert float(alone.spent()["rho"]) == pytest.approx(0.1, rel=1e-6)
    touched = []

    class Watched(PCA):
        def fit(self, X: Any, y: Any = None) -> Any:
            touched.append(bool(np.any(X)))
            return super().fit(X, y)

    second = Pipeline([("reduce", Watched(2, rho=0.1, bounds=(-3, 3))), steps()[1]], account=visits)
    with pytest.raises(BudgetExceeded):
        second.fit(X, Y)
    assert touched == [False], "only the rehearsal on zeros ran"
    assert float(visits.spent()["rho"]) == pytest.approx(0.2, rel=1e-6)


def test_a_clone_spends_from_the_same_account_and_a_search_pays_for_every_fit(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    visits = book.account("visits", Budget(rho=10))
    model = Pipeline(steps(), account=visits)
    assert clone(model).account is visits
    GridSearchCV(model, {"reduce__n_components": [1, 2]}, cv=2).fit(X, Y)
    assert float(visits.spent()["rho"]) == pytest.approx(5 * 0.2, rel=1e-6)


def test_steps_without_a_price_are_refused_and_those_that_learn_nothing_are_free() -> None:
    with pytest.raises(ParameterError, match="scale"):
        Pipeline([("scale", Careless()), steps()[1]]).fit(X, Y)
    free = [("scale", MinMaxScaler(bounds=(-3, 3))), ("unit", Normalizer()), ("kernel", RandomFourierFeatures(6)), ("skip", "passthrough")]
    model = Pipeline([*free, ("classify", GaussianNB(data_norm=1.0, classes=[0, 1], rho=0.1))]).fit(X, Y)
    assert isinstance(model.event_, Gaussian) and model.event_ == model[-1].event_
    assert Pipeline(free).fit(X).event_ == NoOp()


def test_scikit_learns_own_pipeline_works_too() -> None:
    model = Plain(steps()).fit(X, Y)
    assert pipeline_event(model) == Composed(model[0].event_, model[1].event_)
    with pytest.raises(ParameterError, match="scale"):
        pipeline_event(Plain([("scale", Careless())]).fit(X))


def test_mixed_relations_and_accounts_of_steps_are_refused(tmp_path: Path) -> None:
    other = GaussianNB(data_norm=2.0, classes=[0, 1], rho=0.1, adjacency="replace-one")
    with pytest.raises(ParameterError, match="different relations"):
        Pipeline([steps()[0], ("classify", other)]).fit(X, Y)
    visits = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("visits", Budget(rho=1))
    owned = StandardScaler(rho=0.1, bounds=(-3, 3), account=visits)
    with pytest.raises(ParameterError, match="account"):
        Pipeline([("scale", owned), steps()[1]]).fit(X, Y)


def test_nested_pipelines_and_other_relations() -> None:
    inner = Pipeline([("scale", StandardScaler(rho=0.05, bounds=(-3, 3), adjacency="replace-one"))])
    last = LogisticRegression(rho=0.05, data_norm=3.0, classes=[0, 1], adjacency="replace-one")
    model = Pipeline([("inner", inner), ("classify", last)]).fit(X, Y)
    assert account(model.event_, Adjacency.REPLACE_ONE).rho().upper == model.privacy_.upper <= 0.1
    with test_mode(1):
        assert Pipeline(steps()).fit(X, Y).private_ is False


def test_nothing_about_the_values_raises() -> None:
    bad = X.copy()
    bad[0], bad[1], bad[2] = np.nan, np.inf, 1e308
    model = Pipeline(steps())
    assert model.fit(bad, Y).event_ == Pipeline(steps()).fit(X[:1], Y[:1]).event_
