"""Columns through their own steps: declared ones are free, private ones are paid for once, others are refused before a row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer as PlainColumns
from sklearn.impute import SimpleImputer as PlainImputer
from sklearn.preprocessing import FunctionTransformer
from sklearn.preprocessing import OneHotEncoder as PlainEncoder
from sklearn.preprocessing import StandardScaler as PlainScaler

from tacit.accounting import NoOp, ParameterError
from tacit.learning import ColumnTransformer, LogisticRegression, MinMaxScaler, OneHotEncoder, Pipeline, SimpleImputer, StandardScaler
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode

CITIES = ["Rome", "Oslo", "Lima"]  # not in alphabetical order


def people(rows: int = 3000, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "age": generator.uniform(0, 100, rows),
        "city": generator.choice([*CITIES, "elsewhere"], rows),
        "income": generator.uniform(0, 1e5, rows),
    })  # fmt: skip
    frame.loc[::7, "age"] = np.nan
    return frame, ((frame["income"] > 5e4) ^ (frame["city"] == "Oslo")).to_numpy().astype(int)


def whole(**given: Any) -> ColumnTransformer:
    parts = [
        ("numbers", SimpleImputer(50.0), ["age"]),
        ("city", OneHotEncoder([CITIES]), ["city"]),
        ("money", MinMaxScaler(bounds=(0, 1e5)), ["income"]),
    ]
    return ColumnTransformer(parts, **given)


def test_it_makes_what_scikit_learn_makes_with_the_same_declarations() -> None:
    frame, _ = people()
    plain = PlainColumns([
        ("numbers", PlainImputer(strategy="constant", fill_value=50.0), ["age"]),
        ("city", PlainEncoder(categories=[CITIES], handle_unknown="ignore", sparse_output=False), ["city"]),
        ("money", FunctionTransformer(lambda X: X / 1e5), ["income"]),
    ])  # fmt: skip
    ours = whole().fit(frame)
    assert ours.transform(frame) == pytest.approx(plain.fit_transform(frame))
    assert ours.event_ == NoOp() and ours.privacy_.upper == 0
    named = ["numbers__age", "city__city_Rome", "city__city_Oslo", "city__city_Lima", "money__income"]
    assert ours.get_feature_names_out().tolist() == named


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_in_and_out(kind: str) -> None:
    frame, _ = people(50)
    given: Any = frame if kind == "pandas" else pl.from_pandas(frame)
    made = whole().set_output(transform=kind).fit(given).transform(given)
    assert isinstance(made, pd.DataFrame if kind == "pandas" else pl.DataFrame) and list(made.columns)[1] == "city__city_Rome"
    assert np.asarray(made) == pytest.approx(whole().fit_transform(frame))


def test_a_pipeline_over_it_learns_and_pays_once(tmp_path: Path) -> None:
    frame, y = people()
    ledger = Ledger.open(f"sqlite:///{tmp_path}/book.db")
    account = ledger.account("rows", Budget(epsilon=5, delta=1e-5))
    parts = [("age", StandardScaler(epsilon=0.5, delta=1e-6, bounds=(0, 100)), ["age"]), *whole().transformers[1:]]
    model = Pipeline(
        [("columns", ColumnTransformer(parts)), ("fit", LogisticRegression(epsilon=2, delta=1e-6, data_norm=4, classes=[0, 1]))],
        account=account,
    )
    with test_mode(1):
        model.fit(frame, y)
    assert model.score(frame, y) > 0.6  # an exclusive or has a linear part only
    assert 1.5 < float(account.spent()["epsilon"]) <= 2.5
    with pytest.raises(BudgetExceeded):
        for _ in range(5):
            clone(model).fit(frame, y)
    ledger.close()


def test_its_own_account_pays_for_private_parts(tmp_path: Path) -> None:
    frame, _ = people(200)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/book.db")
    account = ledger.account("rows", Budget(epsilon=1, delta=1e-5))
    parts = [("age", StandardScaler(epsilon=0.6, delta=1e-6, bounds=(0, 100)), ["age"]), ("city", OneHotEncoder([CITIES]), "city")]
    ColumnTransformer(parts, account=account).fit(frame)
    assert 0.5 < float(account.spent()["epsilon"]) <= 0.6
    with pytest.raises(BudgetExceeded):
        ColumnTransformer(parts, account=account).fit(frame)
    ledger.close()


@pytest.mark.parametrize(
    "step", [PlainEncoder(), PlainImputer(strategy="mean"), PlainScaler(), PlainEncoder(categories="auto")], ids=lambda s: type(s).__name__
)
def test_what_reads_the_data_for_free_is_refused(step: Any) -> None:
    frame, _ = people(20)
    with pytest.raises(ParameterError):
        ColumnTransformer([("step", step, ["city" if isinstance(step, PlainEncoder) else "age"])]).fit(frame)


def test_scikit_learns_encoder_with_declared_categories_is_taken() -> None:
    frame, _ = people(20)
    made = ColumnTransformer([("city", PlainEncoder(categories=[CITIES]), ["city"])]).fit_transform(frame)
    assert made == pytest.approx(OneHotEncoder([CITIES]).fit_transform(frame[["city"]]))


def test_one_persons_values_change_no_other_row_and_raise_nothing() -> None:
    frame, _ = people(30)
    made = whole(remainder="passthrough").fit(frame).transform(frame)
    for wild in ("text", float("nan"), 1e308, -np.inf, None, 10**400, b"\xff", ["list"]):
        odd = frame.astype(object)
        odd.loc[3, "age"], odd.loc[3, "city"], odd.loc[3, "income"] = [wild], [wild], [wild]
        odd.at[3, "age"], odd.at[3, "city"], odd.at[3, "income"] = wild, wild, wild
        other = whole(remainder="passthrough").fit(odd).transform(odd)
        assert np.delete(other, 3, axis=0) == pytest.approx(np.delete(made, 3, axis=0)) and other.shape == made.shape
        assert np.isfinite(other[3, 1:]).all()


def test_free_functions_see_one_row_at_a_time() -> None:
    """The mutant would be a function that centres by the mean of all rows."""
    frame, _ = people(10)
    centred = ColumnTransformer([("centre", FunctionTransformer(lambda X: X - np.asarray(X).mean(0)), ["income"])]).fit_transform(frame)
    assert centred.tolist() == [[0.0]] * 10


@pytest.mark.parametrize("bad", [
    {"remainder": "keep"}, {"transformers": [("a", "other", ["age"])]}, {"transformers": [("a", SimpleImputer(0.0), ["nobody"])]},
    {"transformers": [("a", SimpleImputer(0.0), [7])]}, {"transformers": [("a", OneHotEncoder([["a"], ["b"]]), ["city"])]},
    {"transformers": [("a", OneHotEncoder([["a", "a"]]), ["city"])]}, {"transformers": [("a", SimpleImputer([1.0, 2.0]), ["age"])]},
], ids=str)  # fmt: skip
def test_bad_terms_are_refused(bad: dict[str, Any]) -> None:
    frame, _ = people(10)
    with pytest.raises(ParameterError):
        ColumnTransformer(**{"transformers": whole().transformers, **bad}).fit(frame)
