"""Pearson's test on noisy tables: its level and power, the naive one's, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.accounting import Guarantee
from tacit.applications.health import contingency_test, pearson, plan_contingency
from tacit.applications.health.contingency import floored, statistics
from tacit.errors import ParameterError

EVEN = np.full((2, 2), 0.25)
SHIFTED = np.array([[0.3, 0.2], [0.2, 0.3]])


def plan(epsilon, **more):
    return plan_contingency(["a", "b"], ["c", "d"], Guarantee(epsilon=epsilon), **more)


@pytest.mark.parametrize(("patients", "epsilon", "theory"), [(200, "1/2", 0.126), (1000, "1/10", 0.33)])
def test_the_naive_test_takes_noise_for_an_effect(patients: int, epsilon: str, theory: float) -> None:
    """Under replace-one, as the source has it; the statistic of a true null grows by 1 + 8 (2 / epsilon)^2 / n."""
    rng = np.random.default_rng(1)
    limit = chi2.ppf(0.95, 1)
    scale = plan(epsilon, adjacency="replace-one").measured.noise.spread()
    made = rng.multinomial(patients, EVEN.ravel(), size=2000).reshape(-1, 2, 2) + np.rint(rng.laplace(0, scale, (2000, 2, 2)))
    assert np.mean([pearson(floored(one)) > limit for one in made]) == pytest.approx(theory, abs=0.03)


@pytest.mark.parametrize(("patients", "epsilon", "power"), [(1000, "1/10", 0.8)])
def test_the_level_is_kept_and_effects_are_found(patients: int, epsilon, power: float) -> None:
    """200 tables: at most .05 plus 3 standard errors; the power is that of the specification, less 3 standard errors."""
    made = plan(epsilon, adjacency="replace-one")
    assert made.rejections(EVEN, patients, runs=200) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
    assert made.rejections(SHIFTED, patients, runs=60) >= power - 3 * math.sqrt(0.25 / 60)


@pytest.mark.slow
@pytest.mark.parametrize(("patients", "epsilon", "power"), [(200, "1/2", 0.6), (1000, "1/10", 0.88), (1000, 1, 1.0)])
def test_the_power_of_the_specification(patients: int, epsilon, power: float) -> None:
    found = plan(epsilon, adjacency="replace-one").rejections(SHIFTED, patients, runs=1000)
    print(patients, epsilon, found)
    assert found >= power - 0.06


@pytest.mark.slow
@pytest.mark.parametrize(("patients", "epsilon"), [(200, "1/2"), (1000, "1/10"), (1000, 1)])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("share", [0.5, 0.16])
def test_the_level_is_kept_in_two_thousand(patients: int, epsilon, relation: str, share: float) -> None:
    """Also where margins are uneven. With 300 draws behind each p-value the last of these was rejected in .063."""
    made, rng = plan(epsilon, adjacency=relation), np.random.default_rng(77)
    tables = rng.multinomial(patients, np.outer([0.5, 0.5], [share, 1 - share]).ravel(), size=2000)
    noise = np.rint(rng.laplace(0, float(made.measured.noise.scales[0]), (2000, 4))) / made.measured.parts
    found = np.mean([made.test(one.reshape(2, 2))[1] <= 0.05 for one in tables + noise])
    print(patients, epsilon, relation, share, found)
    assert found <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_the_draws_behind_a_p_value_do_not_shift_its_level() -> None:
    """All publications share them, so their own error shifts the level of all: 20,000 draws of a share of .05 are off by .0015."""
    made = plan(1)
    assert len(made.noise) == 20_000
    shares = [float(np.mean(statistics(floored(250.0 + made.noise[i : i + 10_000])) > 0.05)) for i in (0, 10_000)]
    assert abs(shares[0] - shares[1]) < 4 * math.sqrt(0.25 / 5_000)


def test_without_noise_the_table_is_the_table() -> None:
    rows = ["a"] * 5 + ["b"] * 3 + ["c", None, 7]
    columns = ["x", "y"] * 4 + ["x", "x", "x"]
    found = contingency_test(np.array(rows, dtype=object), columns, rows=["a", "b"], columns=["x", "y"], epsilon=5000)
    assert np.round(found.table).tolist() == [[3, 2], [1, 2]]
    assert found.statistic == pytest.approx(pearson(np.array([[3.0, 2.0], [1.0, 2.0]])), abs=0.01)  # a little noise is left


@pytest.mark.parametrize(
    "more", [{"rows": ["a"]}, {"rows": "ab"}, {"columns": ["x", "x"]}, {"epsilon": 0}, {"epsilon": None}, {"adjacency": "zero-out"}]
)
def test_what_is_undeclared_is_refused(more: dict) -> None:
    with pytest.raises(ParameterError):
        contingency_test(["a"], ["x"], **{"rows": ["a", "b"], "columns": ["x", "y"], "epsilon": 1, **more})


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ParameterError):
        contingency_test(["a"], ["x", "y"], rows=["a", "b"], columns=["x", "y"], epsilon=1)
    with pytest.raises(ParameterError):
        plan(1).rejections(np.ones((2, 3)), 100)
