"""The default method: a second round where scores are cheap, all Gaussian, within the budget and the cap."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.accounting import Gaussian
from tacit.synthesis.auto import Auto, worth_refining
from tacit.synthesis.independent import Independent


@pytest.mark.parametrize(("epsilon", "refined"), [(0.1, False), (10.0, True)])
def test_rounds_follow_the_budget(run: Any, epsilon: float, refined: bool) -> None:
    ran = run(Auto(), epsilon=epsilon, rows=20000)
    assert worth_refining(20000, 10, ran.measuring.whole) == refined
    assert all(isinstance(event, Gaussian) for event in ran.measuring.events)
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    if refined:
        assert max(ran.total_variation((place, place + 1)) for place in range(4)) < 0.02


def test_it_keeps_what_independent_columns_lose(run: Any) -> None:
    default, alone = run(Auto(), epsilon=3), run(Independent(), epsilon=3)
    assert default.total_variation((0, 1)) < alone.total_variation((0, 1)) / 5


def test_an_empty_table_and_a_cap(run: Any) -> None:
    assert run(Auto(last_steps=5), rows=0).spent_within_budget()
    assert run(Auto(last_steps=5, cap=60), epsilon=10).model.tree.cells <= 60
