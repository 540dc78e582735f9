"""Weights of rows and classes, and C: no person's part grows, and the fit is that of scikit-learn where noise is small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression as Plain

from tacit.accounting import ParameterError
from tacit.learning import LogisticRegression
from tacit.learning.linear.weights import Weighing
from tacit.mechanisms import row_sums
from tacit.noise import test_mode

ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-3, 30))
CLASSES = np.array([0, 1])


def rows_and_labels(n: int = 40_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    X = generator.uniform(-1, 1, (n, 2))
    y = (generator.random(n) < 1 / (1 + np.exp(2.5 - 2 * X[:, 0] + X[:, 1]))).astype(int)
    return X, y, generator.uniform(0, 5, n) * (1 + (X[:, 0] > 0))


@given(arrays(np.float64, 4, elements=ANY), st.floats(1e-3, 1e6))
def test_every_weight_is_between_0_and_1(weights: np.ndarray, bound: float) -> None:
    found = Weighing.of(CLASSES, {0: 3.0, 1: 0.5}, weights, bound).people(np.array([0, 1, -1, 0]))
    assert found is not None and (found >= 0).all() and (found <= 1).all() and found[2] == 0


def test_integers_move_by_at_most_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table, product and moment that a weighted fit sums, with and without the heaviest person; the mutant forgets the bound."""
    seen: list[np.ndarray] = []
    tables, products = row_sums.table_totals, row_sums._products

    def table(*args: Any) -> Any:
        found = tables(*args)
        seen.append(found[0] / found[1])
        return found

    def product(left: Any, right: Any) -> Any:
        found = products(left, right)
        seen.append(found / 2.0**32)
        return found

    monkeypatch.setattr(row_sums, "table_totals", table)
    monkeypatch.setattr(row_sums, "_products", product)
    monkeypatch.setattr(row_sums.NoisySums, "add", lambda self, sums, block=0: sums)  # no noise: the same points in both runs
    X, y, weights = rows_and_labels(300)
    weights[-1] = 1e308

    def sums(people: int, **mutant: Any) -> list[np.ndarray]:
        seen.clear()
        model = LogisticRegression(
            epsilon=1, delta=1e-6, bounds=(-1, 1), classes=[0, 1], solver="descent", class_weight={0: 1, 1: 3}, weight_bound=10,
            n_public=300,
        )
        with test_mode(1):
            model.fit(X[:people], y[:people], sample_weight=weights[:people])
        return list(seen)

    def farthest() -> float:
        # the first table is the counts of the classes; later steps start from points that differ, so one release is compared
        return float(np.linalg.norm(sums(300)[0] - sums(299)[0]))

    assert 0 < farthest() <= 1 + 1e-9
    monkeypatch.setattr(Weighing, "people", lambda self, codes: np.minimum(np.asarray(self.given), 1e6)[: len(codes)])
    monkeypatch.setattr(row_sums, "to_lattice", lambda rows, bound: ((rows * 2**20).astype(np.int64), 1 << 20))
    assert farthest() > 1e3


@pytest.mark.parametrize("solver", ["descent", "tilted"])
@pytest.mark.parametrize("weighed", ["people", "classes", "balanced"])
def test_the_fit_is_scikit_learns_where_noise_is_small(solver: str, weighed: str) -> None:
    """The oracle is the weighted maximum without noise. Predictions at the same places; a fit without weights is far from it."""
    X, y, weights = rows_and_labels()
    delta = 1e-6 if solver == "descent" else 0
    public: dict[str, Any] = {"epsilon": 200, "delta": delta, "bounds": (-1, 1), "classes": [0, 1], "solver": solver}
    given, bound, table = None, None, None
    if weighed == "people":
        weights = np.where(y == 1, 9.0, 1.0)
        given, bound = weights, 10.0
    elif weighed == "classes":
        table = {0: 1.0, 1: 8.0}
    else:
        table = "balanced"
    oracle = Plain(C=1e6, class_weight=table).fit(X, y, sample_weight=given)
    with test_mode(2):
        found = LogisticRegression(**public, class_weight=table, weight_bound=bound).fit(X, y, sample_weight=given)
        plain = LogisticRegression(**public).fit(X, y)
    at = np.random.default_rng(5).uniform(-1, 1, (500, 2))
    expected = oracle.predict_proba(at)[:, 1]
    assert np.abs(found.predict_proba(at)[:, 1] - expected).max() < 0.04
    assert np.abs(plain.predict_proba(at)[:, 1] - expected).max() > 0.2
    assert found.privacy_.upper <= 200 and found.event_ == plain.event_


@pytest.mark.parametrize("solver", ["descent", "tilted"])
@pytest.mark.parametrize("C", [1e-3, 1e-4])
def test_c_is_scikit_learns(solver: str, C: float) -> None:
    """Rows in [-1, 1] are their own public units: slopes as short as scikit-learn's at the same C, and far from those without one."""
    X, y, _ = rows_and_labels()
    oracle = Plain(C=C).fit(X, y)
    delta = 1e-6 if solver == "descent" else 0
    with test_mode(2):
        found = LogisticRegression(C=C, epsilon=200, delta=delta, bounds=(-1, 1), classes=[0, 1], solver=solver).fit(X, y)
    # descent takes 24 steps, which leave some of the way where classes are unequal
    assert found.coef_ == pytest.approx(oracle.coef_, rel=0.05 if solver == "tilted" else 0.35, abs=0.02)
    assert np.abs(Plain(C=1e6).fit(X, y).coef_).max() > 1.15 * np.abs(oracle.coef_).max()


def test_refusals_name_no_value() -> None:
    X, y, weights = rows_and_labels(50)
    public: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1]}
    with pytest.raises(ParameterError, match="weight_bound is missing"):
        LogisticRegression(**public).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="one number for each row"):
        LogisticRegression(**public, weight_bound=1).fit(X, y, sample_weight=weights[:3])
    for wrong in ("even", {2: 1.0}, {0: -1.0}, {0: 0.0, 1: 0.0}):
        with pytest.raises(ParameterError, match="class_weight"):
            LogisticRegression(**public, class_weight=wrong).fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="need solver"):
        LogisticRegression(epsilon=1, delta=0, bounds=(-1, 1), classes=[0, 1], solver="cube", C=1.0).fit(X, y)
    with pytest.raises(ParameterError, match="C must be"):
        LogisticRegression(**public, C=0).fit(X, y)


def test_weights_that_are_no_numbers_raise_nothing() -> None:
    X, y, _ = rows_and_labels(60)
    strange: list[object] = [float("nan"), "heavy", None, -5, 1e308, float("inf")] * 10
    with test_mode(1):
        model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(-1, 1), classes=[0, 1], weight_bound=2).fit(X, y, sample_weight=strange)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("nasty", [[2, 3], "secret", None, float("nan"), 10**400, {}, b"x", 1e308])
def test_what_one_person_gives_as_a_weight_raises_nothing(nasty: object) -> None:
    """A list in one place made an array of another shape, and a refusal before payment: an oracle at no price."""
    weighing = Weighing.of(np.array([0, 1]), None, [1.0, nasty, 2.0], 2.0, rows=3)
    found = weighing.people(np.array([0, 1, 1]))
    assert found is not None and found.shape == (3,) and found[[0, 2]].tolist() == [0.5, 1.0] and 0 <= found[1] <= 1
    with pytest.raises(ValueError, match="sample_weight must be one number"):
        Weighing.of(np.array([0, 1]), None, [1.0, nasty], 2.0, rows=3)
