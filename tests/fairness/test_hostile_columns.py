"""Columns and terms of an attacker: one person's value changes no other's, and nothing fails once it is paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from tacit.errors import ParameterError
from tacit.fairness import (
    EqualizedOdds,
    FairClassifier,
    FairnessError,
    calibration,
    correct,
    disparate_impact,
    fair_mixture,
    private_rates,
    rates,
)
from tacit.learning import LogisticRegression
from tacit.noise import test_mode as seeded

SEX = {"sex": ["F", "M"]}


def model(**terms: Any) -> LogisticRegression:
    return LogisticRegression(**terms, bounds=(-1, 1), classes=[0, 1])


@pytest.mark.parametrize("values", [[1, "1", 2], [1, 1.0], [2**53, 2**53 + 1, 0.5], ["1", "1.0"], ["a", "a\0"]])
def test_declared_values_that_are_read_as_one_are_refused(values: list[object]) -> None:
    with pytest.raises(FairnessError) as error:
        rates([1], [1], sensitive_features=[1], groups={"a": values})
    assert error.value.code == "groups-values"


def test_a_missing_value_that_makes_floats_of_a_column_moves_only_its_person() -> None:
    for last in (1, None, "x"):
        for column in (pd.Series([1, 2, last]), np.array([1, 2, last]), np.array([1.0, 2.0, last])):
            found = rates([1] * 3, [1] * 3, sensitive_features=column, groups={"a": ["1", "2"]}).counts
            assert found.sum() == 2 + (last == 1)


def test_a_text_of_broken_bytes_shows_in_no_error() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], dtype=np.int32).tobytes())
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"F\xff")])
    assert rates([1, 1], [1, 1], sensitive_features=broken, groups=SEX).counts.sum() == 1


def test_columns_with_two_axes() -> None:
    tall = np.array([[1], [0]])
    assert private_rates(tall, tall, sensitive_features=np.array([["F"], ["M"]]), groups=SEX, epsilon=1).counts.shape == (2, 2, 2)
    for wrong in (np.ones((2, 2)), np.array(1), 7):
        with pytest.raises(FairnessError) as error:
            private_rates(wrong, [1, 0], sensitive_features=["F", "M"], groups=SEX, epsilon=1)
        assert error.value.code == "column-shape"
    with pytest.raises(FairnessError) as error:
        rates([1], [1], sensitive_features=np.array([["F", "a"]]), groups={**SEX, "race": ["a", "b"]})
    assert error.value.code == "attribute-missing"


def test_one_text_among_decisions_changes_no_other_persons() -> None:
    from tacit.fairness.game import _said

    assert _said(np.asarray([[1, 0], [1, 1], ["x", 1]])).tolist() == [[1, 0], [1, 1], [0, 1]]


@pytest.mark.parametrize("terms", [{"least": 0.0}, {"least": 2.0}, {"bound": -1.0}, {"bound": 0.0}])
def test_terms_without_a_limit_on_weights_are_refused_before_they_are_paid(terms: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        fair_mixture(np.ones((2, 2)), [1, 0], groups=SEX, sensitive_features=["F", "M"], epsilon=1, **terms)
    with pytest.raises(ParameterError):
        FairClassifier(groups=SEX, rho=1, bounds=(-1, 1), **terms).fit(np.ones((2, 2)), [1, 0], sensitive_features=["F", "M"])


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("terms", [{"mu": 1}, {"epsilon": 1}, {"rho": 0.5}, {"epsilon": 1, "delta": 1e-6}])
def test_a_mixture_costs_at_most_what_was_asked_for(terms: dict[str, float], adjacency: str) -> None:
    found = fair_mixture(np.ones((2, 2)), [1, 0], groups=SEX, sensitive_features=["F", "M"], rounds=3, adjacency=adjacency, **terms)
    assert 0.9 * terms.get("mu", 0) < found.privacy.upper <= max(terms.values())


@pytest.mark.parametrize(
    ("given", "own"),
    [({"guarantee": "eps=1, delta=1e-6"}, {"epsilon": 1}), ({"rho": 0.1}, {"epsilon": 1}), ({"mu": 0.1}, {"mu": 1})],
)
def test_model_and_correction_are_priced_in_any_currency(given: dict[str, Any], own: dict[str, Any]) -> None:
    fair = EqualizedOdds(model(**given), groups=SEX, **own)
    fair.fit(np.zeros((40, 2)), [1, 0] * 20, sensitive_features=["F", "M"] * 20)
    assert 0 < fair.privacy_.upper <= 2


def test_labels_that_are_floats_are_the_declared_ones() -> None:
    with seeded(1):
        fair = EqualizedOdds(model(rho=1), groups=SEX, mu=1e6)
        fair.fit(np.zeros((40, 2)), np.ones(40), sensitive_features=["F", "M"] * 20)
    assert fair.rates_.counts[:, 1].sum() == 40


def test_a_public_model_that_refuses_one_row_fails_for_that_person_alone() -> None:
    made = np.random.default_rng(3)
    X, sex = made.uniform(-1, 1, (60, 2)), ["F", "M"] * 30
    y = (X[:, 0] > 0).astype(int)
    public = Plain().fit(X, y)
    X[5] = np.nan
    with seeded(2):
        fair = EqualizedOdds(public, groups=SEX, mu=1e6, prefit=True).fit(X, y, sensitive_features=sex)
    assert fair.rates_.counts.sum() == 60
    with pytest.raises(FairnessError):
        EqualizedOdds(public, groups=SEX, epsilon=1, prefit=True).fit(X[:9], y, sensitive_features=sex)
    with pytest.raises(Exception, match="not fitted"):
        EqualizedOdds(Plain(), groups=SEX, epsilon=1, prefit=True).fit(X, y, sensitive_features=sex)


def test_a_public_model_is_corrected_at_a_tenth_of_epsilon_as_without_noise() -> None:
    """30,000 made-up rows: the smallest cell has some 1,500 people, the noise a deviation of 14."""
    made = np.random.default_rng(7)
    n = 30_000
    sex, X = made.choice(["F", "M"], n), made.uniform(-1, 1, (n, 1))
    y = (made.random(n) < 1 / (1 + np.exp(-np.where(sex == "F", 6, 2) * X[:, 0]))).astype(int)

    class Public:
        def predict(self, rows: np.ndarray) -> np.ndarray:
            return (rows[:, 0] > 0).astype(int)

    exact = rates(y, Public().predict(X), sensitive_features=sex, groups=SEX).counts
    best = correct(exact, gap=0.02)
    with seeded(11):
        fair = EqualizedOdds(Public(), groups=SEX, epsilon=0.1, prefit=True).fit(X, y, sensitive_features=sex)
    found = (exact[:, 0] * fair.correction_.accept + exact[:, 1] * (1 - fair.correction_.accept)).sum() / n
    assert fair.privacy_.upper <= 0.1 and abs(found - best.error) <= 0.005


def test_what_is_not_private_says_so() -> None:
    terms: dict[str, Any] = {"y": [1, 0], "groups": SEX, "sensitive_features": ["F", "M"]}
    with seeded(1):
        drawn = disparate_impact([1, 0], [1, 0], epsilon=1, **terms)
    assert not drawn.private and "NOT PRIVATE" in str(drawn)
    assert disparate_impact([1, 0], [1, 0], epsilon=1, **terms).private
    assert not disparate_impact([1, 0], [1, 0], data="made-up", **terms).private
    assert not calibration([0.5], [1]).private
