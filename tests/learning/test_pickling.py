"""Models with an account: they pickle, run in other processes and pay there; bounds go by the names of columns."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import cross_val_score

from tacit.accounting import ParameterError
from tacit.learning import LogisticRegression
from tacit.ledger import Budget, Ledger

GENERATOR = np.random.default_rng(1)
X = GENERATOR.uniform(0, 1, (400, 2))
Y = (X[:, 0] > 0.5).astype(int)


def test_two_processes_pay_into_one_book(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/book.db")
    account = ledger.account("rows", Budget(epsilon=10, delta=1e-4))
    model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1], account=account)
    cross_val_score(model, X, Y, cv=3, n_jobs=2, error_score="raise")
    assert float(account.spent()["epsilon"]) == pytest.approx(3, rel=1e-3)
    ledger.close()


def test_a_fitted_model_leaves_its_account_behind_and_says_so(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/book.db")
    account = ledger.account("rows", Budget(epsilon=10, delta=1e-4))
    model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1], account=account).fit(X, Y)
    stored = pickle.dumps(model)
    ledger.close()
    (tmp_path / "book.db").unlink()
    loaded = pickle.loads(stored)
    assert np.array_equal(loaded.predict(X), model.predict(X)) and loaded.account is None
    assert str(tmp_path).encode() not in stored, "where the book lies is not in a published model"
    with pytest.raises(ParameterError, match="rows"):
        loaded.fit(X, Y)


def test_bounds_go_by_name() -> None:
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        model = LogisticRegression(epsilon=1, delta=1e-6, bounds={"b": (0, 2), "a": (-1, 1)}, classes=[0, 1]).fit(frame, Y)
        assert model.space_.centre.tolist() == [0, 1] and list(model.feature_names_in_) == ["a", "b"]


@pytest.mark.parametrize("bounds", [{"a": (0, 1)}, {"a": (0, 1), "b": (0, 1), "c": (0, 1)}, {"a": (0, 1), "b": 3}])
def test_other_columns_are_refused(bounds: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        LogisticRegression(epsilon=1, delta=1e-6, bounds=bounds, classes=[0, 1]).fit(pd.DataFrame(X, columns=["a", "b"]), Y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="names"):
        LogisticRegression(epsilon=1, delta=1e-6, bounds={"a": (0, 1), "b": (0, 1)}, classes=[0, 1]).fit(X, Y)
