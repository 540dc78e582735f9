"""Trees for regression: integers move by at most the price, leaves are means without noise, noise is as large as it is priced, and no worse
than the mean of the labels."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor as Plain
from tests.learning.sklearn_api import check_api, check_sklearn

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning import DecisionTreeRegressor, GradientBoostingRegressor, RandomForestRegressor
from tacit.learning.trees import regression
from tacit.learning.trees.regression import UNITS, ForestPlan, TreePlan, leaf_values, pair_table, pair_totals, split_scores
from tacit.mechanisms import farthest_table
from tacit.noise import test_mode

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-1, 1))
WHOLE = 1 << 24
PUBLIC: dict[str, Any] = {"bounds": (0, 1), "label_bounds": (-1, 1)}


def steps(n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """Labels by a tree of depth 2 on the bins of the estimators, and a little noise."""
    generator = np.random.default_rng(4)
    X = generator.random((n, 3))
    y = np.where(X[:, 0] > 0.5, np.where(X[:, 1] > 0.25, 0.8, 0.1), -0.6)
    return X, y + generator.normal(0, 0.05, n)


@given(t=arrays(np.float64, 3, elements=ANY), cells=arrays(np.int64, (3, 4), elements=st.integers(-1, 2)))
def test_one_person_moves_the_integers_by_at_most_the_price(t: np.ndarray, cells: np.ndarray) -> None:
    """Exact: without the first person, and with the first exchanged for the last; in the norm of either law."""
    total, without = pair_totals(t[:2], cells[:2], 2), pair_totals(t[1:2], cells[1:2], 2)
    for other, relation in ((without, AR), (pair_totals(t[1:], cells[1:], 2), RO)):
        moved = [int(x) for x in (total - other).ravel()]
        assert sum(x * x for x in moved) <= (farthest_table(4, relation, counts=True) * WHOLE) ** 2
        assert sum(map(abs, moved)) <= farthest_table(4, relation, laplace=True, counts=True) * WHOLE


@given(bins=arrays(np.int64, (5, 2), elements=st.integers(0, 3)), rest=arrays(np.int64, 5, elements=st.integers(-UNITS, UNITS)))
def test_a_score_moves_by_at_most_the_units(bins: np.ndarray, rest: np.ndarray) -> None:
    with_all, without = split_scores(bins, rest, 4), split_scores(bins[:4], rest[:4], 4)
    assert np.abs(with_all - without).max() <= UNITS
    # by enumeration
    left = [[abs(int(rest[bins[:, f] <= c].sum())) + abs(int(rest[bins[:, f] > c].sum())) for c in range(3)] for f in range(2)]
    assert with_all.tolist() == left


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("relation", [AR, RO])
def test_the_noise_has_the_variance_that_is_priced(relation: Adjacency, laplace: bool) -> None:
    """20,000 cells: 4 deviations of a variance are 4 % for Gaussian noise, 6 % for Laplace. People and sums each carry two parts."""
    with test_mode(3):
        table = pair_table(np.zeros(0), np.zeros((0, 1), dtype=np.int64), size=20_000, multiplier=3.0, adjacency=relation, laplace=laplace)
    moved = float(farthest_table(1, relation, laplace=laplace, counts=True))
    expected = 2 * (3 * moved) ** 2 * (2 if laplace else 1)
    assert table[0, :, 0].var() == pytest.approx(expected, rel=0.07) and table[0, :, 1].var() == pytest.approx(expected, rel=0.07)


def test_without_noise_a_tree_is_the_plain_one() -> None:
    """Where labels are those of a tree, the splits are found and the leaves are means: scikit-learn's predictions on binned features."""
    X, y = steps()
    bins = np.floor(X * 16)
    plain = Plain(max_depth=2).fit(bins, y).predict(bins)
    with test_mode(1):
        model = DecisionTreeRegressor(2, epsilon=1e4, delta=0, **PUBLIC).fit(X, y)
    assert model.predict(X) == pytest.approx(plain, abs=0.01)


def test_leaves_are_drawn_to_the_mean_by_their_noise() -> None:
    table = np.array([[[100.0, 50.0], [100.0, -50.0]]])
    assert leaf_values(table, 0.0)[0] == pytest.approx([0.5, -0.5])
    assert np.abs(leaf_values(table, 1e9)[0]).max() < 1e-3


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (DecisionTreeRegressor(epsilon=1, delta=0, **PUBLIC), 0.9),
        (DecisionTreeRegressor(epsilon=1, delta=1e-6, **PUBLIC), 0.9),
        (RandomForestRegressor(epsilon=1, delta=0, **PUBLIC), 0.3),
        (RandomForestRegressor(epsilon=1, delta=1e-6, **PUBLIC), 0.4),
        (GradientBoostingRegressor(epsilon=1, delta=1e-6, **PUBLIC), 0.75),
    ],
)
def test_labels_by_a_tree_are_learned(model: Any, least: float) -> None:
    """Mean R2 of three fits; the plain tree has .99. The mutant: labels in another order, which nothing can learn."""
    X, y = steps()
    with test_mode(5):
        found = [r2_score(y, model.fit(X, y).predict(X)) for _ in range(3)]
        mixed = r2_score(y, model.fit(X, np.random.default_rng(0).permutation(y)).predict(X))
    assert np.mean(found) > least and mixed < 0.1
    assert model.privacy_.upper <= 1


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, RandomForestRegressor, GradientBoostingRegressor])
def test_little_budget_is_not_far_below_the_mean_of_the_labels(kind: Any) -> None:
    """R2 at mu .025, epsilon .1 at a delta of 1e-6, on labels that have nothing to do with the rows, mean of five fits: at most .1 below
    0."""
    generator = np.random.default_rng(1)
    X, y = generator.random((4000, 4)), generator.normal(0.2, 0.3, 4000)
    with test_mode(2):
        found = [r2_score(y, kind(mu=0.025, **PUBLIC).fit(X, y).predict(X)) for _ in range(5)]
    assert np.mean(found) > -0.1


@pytest.mark.parametrize("promise", [{"epsilon": 1.0, "delta": 0.0}, {"rho": 0.5, "adjacency": "replace-one"}])
def test_the_api_of_trees_and_forests(promise: dict[str, Any], tmp_path: Path) -> None:
    for number, kind in enumerate((DecisionTreeRegressor, RandomForestRegressor)):
        place = tmp_path / str(number)
        place.mkdir()
        check_api(kind(bounds=(-3, 3), label_bounds=(0, 1), **promise), place)


@pytest.mark.parametrize("promise", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5, "adjacency": "replace-one"}])
def test_the_api_of_boosting(promise: dict[str, Any], tmp_path: Path) -> None:
    check_api(GradientBoostingRegressor(3, bounds=(-3, 3), label_bounds=(0, 1), **promise), tmp_path)
    with pytest.raises(ParameterError):
        GradientBoostingRegressor(learning_rate=2.0, **PUBLIC, **promise).fit(*steps(20))


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(4, epsilon=1000.0, delta=0.0, bounds=(-10, 10), label_bounds=(-300, 300)),
        RandomForestRegressor(5, max_depth=4, epsilon=1000.0, delta=1e-3, bounds=(-10, 10), label_bounds=(-300, 300)),
        GradientBoostingRegressor(20, epsilon=1000.0, delta=1e-3, bounds=(-10, 10), label_bounds=(-300, 300)),
    ],
)
def test_scikit_learns_own_suite(model: Any) -> None:
    check_sklearn(model)


def test_plans_know_no_data_and_keep_their_guarantee() -> None:
    for guarantee in (Guarantee(epsilon=1, delta=0), Guarantee(rho=0.5)):
        for relation in (AR, RO):
            assert guarantee.keeps(TreePlan.make(guarantee, relation, depth=3, rows=None).event, relation)
            assert guarantee.keeps(ForestPlan.make(guarantee, relation, trees=None, depth=None, rows=500).event, relation)
    centre, choice, leaf = regression._prices(Fraction(1), 3)
    assert 3 * (centre + choice) + leaf <= 1 and math.isclose(float(3 * (centre + choice) + leaf), 1)
