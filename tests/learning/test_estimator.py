"""What every private estimator keeps: a promise, public bounds, a book, no seeds, no data in errors, scikit-learn's API."""

from __future__ import annotations

import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from tacit.accounting import Adjacency, Guarantee, ParameterError, account
from tacit.calculus import codes_of
from tacit.learning import (
    DecisionTreeClassifier,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    PrivateEstimator,
    QuantileRegressor,
    Ridge,
)
from tacit.learning.estimator import RowSpace, interval
from tacit.learning.reading import declared_classes
from tacit.ledger import Budget, BudgetExceeded, Ledger, ReleaseFailed
from tacit.noise import SeedRefusedError, test_mode

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "bounds": (-3, 3)}
LABELS: dict[str, Any] = {"label_bounds": (-4, 4)}
MODELS: dict[str, PrivateEstimator] = {
    "logistic": LogisticRegression(**PROMISE, classes=[0, 1]),
    "logistic, pure": LogisticRegression(epsilon=1.0, delta=0, bounds=(-3, 3), classes=[0, 1]),
    "logistic, output": LogisticRegression(**PROMISE, classes=[0, 1], solver="output"),
    "multinomial, rho": LogisticRegression(rho=0.1, data_norm=4.0, classes=[0, 1, 2], adjacency="replace-one"),
    "svc": LinearSVC(**PROMISE, classes=[0, 1]),
    "linear": LinearRegression(**PROMISE, **LABELS),
    "linear, pure": LinearRegression(epsilon=1.0, delta=0, bounds=(-3, 3), **LABELS),
    "linear, moments": LinearRegression(**PROMISE, **LABELS, solver="moments"),
    "ridge": Ridge(**PROMISE, **LABELS),
    "lasso": Lasso(**PROMISE, **LABELS, steps=5),
    "huber": HuberRegressor(0.5, **PROMISE, **LABELS),
    "quantile": QuantileRegressor(**PROMISE, **LABELS),
    "poisson": PoissonRegressor(**PROMISE, label_bounds=(0, 5)),
}
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(float)


def fresh(name: str) -> Any:
    return clone(MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_carries_its_price_and_keeps_its_promise(name: str) -> None:
    model = fresh(name).fit(X, Y)
    relation = Adjacency.REPLACE_ONE if model.adjacency == "replace-one" else Adjacency.ADD_REMOVE
    priced = account(model.event_, relation)
    again = priced.rho() if model.rho is not None else priced.epsilon(model.delta)
    assert again.upper == model.privacy_.upper
    promised = model.rho if model.rho is not None else model.epsilon
    assert 0.9 * promised < model.privacy_.upper <= promised
    assert model.private_ and model.n_features_in_ == 3
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("name", MODELS)
def test_nothing_about_the_values_raises(name: str) -> None:
    """NaN, infinities, 1e308, unknown labels, one row, no rows: no error, no warning, finite parameters."""
    bad = X.copy()
    bad[0], bad[1], bad[2, 0], bad[3] = np.nan, np.inf, 1e308, 5e-324
    labels = Y.copy()
    labels[0], labels[1], labels[2] = np.nan, np.inf, -1e308
    for rows in (60, 1, 0):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = fresh(name).fit(bad[:rows], labels[:rows])
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert len(model.predict(bad)) == 60


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("missing", ["promise", "bounds", "labels"])
def test_what_is_missing_is_an_error_not_a_warning(name: str, missing: str) -> None:
    model = fresh(name)
    if missing == "promise":
        model.set_params(epsilon=None, delta=None, rho=None)
    elif missing == "bounds":
        model.set_params(bounds=None, data_norm=None)
    else:
        model.set_params(**({"classes": None} if "classes" in model.get_params() else {"label_bounds": None}))
    with pytest.raises(ParameterError):
        model.fit(X, Y)
    assert not hasattr(model, "event_")


@pytest.mark.parametrize("name", MODELS)
def test_seeds_are_refused_outside_test_mode_and_marked_inside(name: str) -> None:
    model = fresh(name).set_params(random_state=3)
    with pytest.raises(SeedRefusedError):
        model.fit(X, Y)
    with test_mode(9):
        first = clone(model).fit(X, Y)
        second = clone(model).fit(X, Y)
        third = clone(model).set_params(random_state=4).fit(X, Y)
    # 60 rows are too few for a slope in some of them, so the intercept is looked at too
    def drawn(fitted: Any) -> list[float]:
        return [*np.ravel(fitted.coef_), *np.ravel(fitted.intercept_)]

    assert not first.private_ and drawn(first) == drawn(second) and drawn(first) != drawn(third)
    assert drawn(fresh(name).fit(X, Y)) != drawn(fresh(name).fit(X, Y)) or name == "lasso"


def test_the_book_is_asked_first_and_a_clone_spends_from_the_same_account(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    visits = book.account("visits", Budget(epsilon=2, delta=1e-4))
    model = LogisticRegression(**PROMISE, classes=[0, 1], account=visits)
    model.fit(X, Y)
    clone(model).fit(X, Y)
    touched = []

    class Watched(LogisticRegression):
        def _solve(self, *arguments: Any) -> Any:
            found = super()._solve(*arguments)
            touched.append(True)
            return found

    with pytest.raises(BudgetExceeded):
        Watched(**PROMISE, classes=[0, 1], account=visits).fit(X, Y)
    assert not touched
    assert float(visits.spent()["epsilon"]) == pytest.approx(2, rel=1e-6)


def test_a_fit_that_fails_after_the_data_was_touched_stays_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    visits = book.account("visits", Budget(epsilon=5, delta=1e-4))
    monkeypatch.setattr("tacit.learning.linear.classifiers._descent", lambda *_: 1 / 0)
    with pytest.raises(ReleaseFailed):
        LogisticRegression(**PROMISE, classes=[0, 1], account=visits).fit(X, Y)
    assert float(visits.spent()["epsilon"]) == pytest.approx(1, rel=1e-6)


def test_a_grid_search_is_charged_for_every_fit(tmp_path: Path) -> None:
    """Two candidates, three folds and one refit: seven fits."""
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
    visits = book.account("visits", Budget(rho=10))
    model = LogisticRegression(rho=0.1, bounds=(-3, 3), classes=[0, 1], account=visits)
    search = GridSearchCV(model, {"n_public": [40, 60]}, cv=3).fit(X, Y.astype(int))
    assert float(visits.spent()["rho"]) == pytest.approx(0.7, rel=1e-6)
    assert search.best_estimator_.privacy_.upper <= 0.1


@pytest.mark.parametrize("name", MODELS)
def test_models_survive_pickling(name: str) -> None:
    model = fresh(name).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X)) and copy.event_ == model.event_


def test_feature_names_are_remembered_and_checked() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = fresh("linear").fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])


def test_a_text_among_the_numbers_counts_as_missing_and_shows_up_nowhere() -> None:
    pandas = pytest.importorskip("pandas")
    mixed = X.astype(object)
    mixed[3, 1], mixed[4, 0] = "secret", "0.5"
    labels = Y.astype(object)
    labels[5] = "hidden"
    for rows in (mixed, pandas.DataFrame(mixed, columns=["a", "b", "c"]), mixed.astype(str)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isfinite(fresh("linear").fit(rows, labels).coef_).all()
            assert np.isfinite(fresh("logistic").fit(rows, labels).coef_).all()


# scikit-learn's own checks that ask for what privacy forbids; everything else must pass.
EXPECTED = {
    "check_dtype_object": "an object among numbers is a missing value; refusing it would be an answer",
    "check_regressors_train": "a list of rows needs its number of features declared",
    "check_transformer_data_not_an_array": "the same",
    "check_estimators_empty_data_messages": "the number of rows is private: no rows at all must not raise",
    "check_supervised_y_no_nan": "whether a label is infinite is private: it is clamped, not refused",
    "check_classifiers_classes": "classes are declared, not read from the labels",
    "check_classifiers_train": "fits data with two and with three classes, which are declared once",
    "check_all_zero_sample_weights_error": "whether all weights are zero is private",
    "check_sample_weight_equivalence_on_dense_data": "a row twice and a row of weight two are two data sets, with noise of their own",
    "check_class_weight_classifiers": "weighs classes that were not declared",
    "check_classifiers_regression_target": "labels that were not declared count for nothing; refusing them would be an answer",
}


@pytest.mark.parametrize("name", ["logistic", "linear", "ridge"])
def test_scikit_learns_checks(name: str) -> None:
    model = fresh(name).set_params(epsilon=1000.0, delta=1e-3, bounds=(-10, 10))
    model.set_params(**({"weight_bound": 10} if name == "logistic" else {"label_bounds": (-10, 10)}))
    with test_mode(3), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(model, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    assert {r["check_name"] for r in results if r["status"] == "failed"} == set()
    assert sum(r["status"] == "passed" for r in results) >= 40


def test_public_units() -> None:
    box = RowSpace.of(2, bounds=([0, -1], [10, 1]))
    assert box.scale(np.array([[5.0, 1.0], [-7.0, 0.5]])).tolist() == [[0.0, 1.0], [-1.0, 0.5]]
    coef, intercept = box.unscale(np.array([[2.0, 3.0]]), np.array([1.0]))
    rows = np.array([[4.0, 0.2], [9.0, -0.7]])
    assert rows @ coef.T + intercept == pytest.approx(box.scale(rows) @ np.array([[2.0], [3.0]]) + 1)
    ball = RowSpace.of(4, data_norm=6.0)
    assert np.linalg.norm(ball.scale(np.full((1, 4), 1e9))) == pytest.approx(2)
    assert RowSpace.of(1, bounds=(3, 3)).scale(np.array([[8.0]])).tolist() == [[0.0]]


@pytest.mark.parametrize("bounds", [(1, 0), (0,), "01", ([0, 0, 0], 1), (0, math.inf), (math.nan, 1)])
def test_bad_bounds_are_refused(bounds: Any) -> None:
    with pytest.raises(ParameterError):
        interval("bounds", bounds, 2)


def test_classes_are_declared() -> None:
    assert declared_classes([3, 1]).tolist() == [1, 3]
    assert codes_of(np.array(["b", "z"]), np.array(["a", "b"])).tolist() == [1, -1]
    for bad in ([1], [1, 1], None):
        with pytest.raises(ParameterError):
            declared_classes(bad)


GIVEN = [{"guarantee": Guarantee(epsilon=1, delta=1e-5)}, {"guarantee": "eps=1, delta=1e-5"}]


@pytest.mark.parametrize("given", GIVEN, ids=["value", "text"])
def test_a_guarantee_is_the_same_as_its_shorthand(given: dict[str, Any]) -> None:
    """The same noise to the last bit, and a parameter like any other: cloned, shown, set."""
    X, y = np.linspace(-1, 1, 60).reshape(30, 2), np.tile([0, 1], 15)
    fitted = []
    for asked in ({"epsilon": 1, "delta": 1e-5}, given):
        model = clone(LogisticRegression(bounds=(-1, 1), classes=[0, 1], random_state=3, **asked))
        assert {name: model.get_params()[name] for name in asked} == asked
        with test_mode(1):
            fitted.append(model.fit(X, y))
    assert fitted[0].coef_.tolist() == fitted[1].coef_.tolist() and fitted[0].event_ == fitted[1].event_
    assert fitted[0].privacy_ == fitted[1].privacy_
    with pytest.raises(ParameterError, match="not both"):
        LogisticRegression(bounds=(-1, 1), classes=[0, 1], epsilon=1, delta=0, **given).fit(X, y)


def test_mu_is_a_currency_of_models() -> None:
    X, y = np.linspace(-1, 1, 60).reshape(30, 2), np.tile([0, 1], 15)
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1], mu=0.5).fit(X, y)
    assert 0.4999 < model.privacy_.upper <= 0.5
    assert account(model.event_, Adjacency.ADD_REMOVE).gdp().mu.upper <= 0.5
    tree = DecisionTreeClassifier(2, bounds=(-1, 1), classes=[0, 1], mu=0.5).fit(X, y)
    assert tree.privacy_.upper <= 0.5
    with pytest.raises(ParameterError, match="not in mu"):
        Lasso(bounds=(-1, 1), label_bounds=(0, 1), mu=0.5).fit(X, y)
    with pytest.raises(ParameterError, match="Rényi"):
        LogisticRegression(bounds=(-1, 1), classes=[0, 1], guarantee=Guarantee(renyi={2: 1})).fit(X, y)
