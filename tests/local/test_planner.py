"""The planner's figures are the randomisers' and the accountant's own."""

from __future__ import annotations

import math

import pytest

from tacit.accounting import ParameterError
from tacit.local import best, people_needed, plan


def test_a_binary_share_in_three_models() -> None:
    """Specification 10: central (.1, 1e-6), 100,000 people: shuffled error .00051 against .0316 local and 1.4e-4 central."""
    local, shuffled, central = plan(n=100_000, size=2, epsilon=0.1, delta=1e-6, model="shuffle").options
    assert local.deviation == pytest.approx(0.0316, rel=2e-3) and central.deviation == pytest.approx(1.414e-4, rel=1e-3)
    assert shuffled.deviation == pytest.approx(0.000508, rel=2e-3) and shuffled.report == pytest.approx(3.707, abs=2e-3)
    assert shuffled.price <= 0.1


def test_warnings_are_about_odds_and_few_people() -> None:
    few = plan(n=500, size=4, epsilon=6)
    assert any("403 times" in text for text in few.warnings) and any("10,000" in text for text in few.warnings)
    assert plan(n=10**6, size=4, epsilon=1).warnings == ()
    with pytest.raises(ParameterError, match="model"):
        plan(n=10, size=2, epsilon=1, model="magic")  # type: ignore[arg-type]


def test_people_needed_reach_the_deviation() -> None:
    for size in (2, 1000):
        n = people_needed(size=size, epsilon=1, deviation=0.005)
        assert math.sqrt(best(size, 1).variance(n)) <= 0.005 < math.sqrt(best(size, 1).variance(n - 1))
