"""AIM: the numbers of the specification, annealing within the filter, a model under its cap."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.synthesis.aim import AIM, SizeCheck, first_round, workload_weights
from tacit.synthesis.junction_tree import cells


@pytest.mark.parametrize(
    ("rho", "sigma", "epsilon"),
    [(0.000177138447, 867.587, 0.000768415), (0.0149730577, 94.36569, 0.00706471), (1.0907857044, 11.05604, 0.0602989)],
)
def test_first_rounds_of_the_specification(rho: float, sigma: float, epsilon: float) -> None:
    assert first_round(15, rho) == pytest.approx((sigma, epsilon), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 10.0])
def test_rounds_spend_the_budget_and_no_more(run: Any, epsilon: float) -> None:
    ran = run(AIM(steps=20, last_steps=100), epsilon=epsilon)
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    if epsilon == 10:
        assert max(ran.total_variation((place, place + 1)) for place in range(4)) < 0.03


def test_the_model_stays_under_its_cap(run: Any) -> None:
    ran = run(AIM(steps=10, last_steps=10, cap=60), epsilon=10)
    assert ran.model.tree.cells <= 60


def test_an_empty_table_raises_nothing(run: Any) -> None:
    assert run(AIM(steps=5, last_steps=5), rows=0).spent_within_budget()


def test_pairs_share_twice_as_much_as_columns() -> None:
    weights = workload_weights(15, 2)
    assert weights[0,] == 14
    assert weights[0, 1] == 28


def test_sizes_are_remembered_until_something_is_added() -> None:
    check = SizeCheck((2, 3, 4))
    assert check.size([(0, 1)], (1, 2)) == cells((2, 3, 4), [(0, 1), (1, 2)])
    assert check.size([(0, 1), (0, 2)], (1, 2)) == 24
