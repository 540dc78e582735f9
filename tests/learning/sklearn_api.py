"""What every private estimator must do, checked in one place for those that share nothing but their base."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from tacit.accounting import Adjacency, ParameterError, account
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import SeedRefusedError, test_mode

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)

# scikit-learn's own checks that ask for what privacy forbids; everything else must pass.
EXPECTED = {
    "check_dtype_object": "an object among numbers is a missing value; refusing it would be an answer",
    "check_regressors_train": "a list of rows needs its number of features declared",
    "check_transformer_data_not_an_array": "the same",
    "check_estimators_empty_data_messages": "the number of rows is private: no rows at all must not raise",
    "check_supervised_y_no_nan": "whether a label is infinite is private",
    "check_classifiers_classes": "classes are declared, not read from the labels",
    "check_classifiers_train": "fits data with two and with three classes, which are declared once",
    "check_classifiers_regression_target": "labels that were not declared count for nothing; refusing them would be an answer",
    "check_estimator_sparse_array": "the suite sets with_mean on whatever is called StandardScaler; sparse data is refused by shape",
    "check_estimator_sparse_matrix": "the same",
    "check_clustering": "labels of the training rows are private and not kept",
}


def check_api(model: Any, path: Any, *, floor: float = 0.9) -> None:
    """Price within the promise; nothing about the values raises; the book is asked; seeds only in test mode; pickles and clones."""
    fitted = clone(model).fit(X, Y)
    stated = Adjacency.parse(model.adjacency)
    assert isinstance(stated, Adjacency)
    priced = account(fitted.event_, stated)
    again = priced.rho() if model.rho is not None else priced.epsilon(model.delta)
    promised = model.rho if model.rho is not None else model.epsilon
    assert again.upper == fitted.privacy_.upper
    assert floor * promised < fitted.privacy_.upper <= promised
    assert fitted.private_ and fitted.n_features_in_ == 3
    answer = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(getattr(copy, answer.__name__)(X), answer(X)) and copy.event_ == fitted.event_

    bad = X.copy()
    bad[0], bad[1], bad[2, 0], bad[3] = np.nan, np.inf, 1e308, 5e-324
    labels = Y.astype(float)
    labels[0], labels[1], labels[2] = np.nan, np.inf, 7.0
    for rows in (60, 1, 0):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            spoilt = clone(model).fit(bad[:rows], labels[:rows])
            assert np.isfinite(getattr(spoilt, answer.__name__)(bad)).all()
        assert spoilt.event_ == fitted.event_ or model.adjacency == "replace-one", "the price does not depend on the data"

    for change in ({"epsilon": -1.0, "delta": 1e-6, "rho": None}, {"bounds": None}, {"adjacency": "neighbours"}):
        with pytest.raises(ParameterError):
            clone(model).set_params(**change).fit(X, Y)

    seeded = clone(model).set_params(random_state=3)
    with pytest.raises(SeedRefusedError):
        seeded.fit(X, Y)
    with test_mode(9):
        first, second = clone(seeded).fit(X, Y), clone(seeded).fit(X, Y)
    assert not first.private_ and np.array_equal(getattr(first, answer.__name__)(X), getattr(second, answer.__name__)(X))

    book = Ledger.open(f"sqlite:///{path / 'book.db'}")
    budget = Budget(rho=1.5 * model.rho) if model.rho is not None else Budget(epsilon=1.5 * model.epsilon, delta=1e-2)
    visits = book.account("visits", budget, adjacency=stated)
    clone(model).set_params(account=visits).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        clone(model).set_params(account=visits).fit(X, Y)


def check_sklearn(model: Any, least: int = 30) -> None:
    """scikit-learn's own suite, but for what privacy forbids."""
    with test_mode(3), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(model, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed, failed
    assert sum(r["status"] == "passed" for r in results) >= least
