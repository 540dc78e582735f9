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
    with pytest.raises(ParameterError, match="epsilon or error"):
        plan(n=10, size=2)
    with pytest.raises(ParameterError, match="ask more people"):
        plan(n=10, size=1000, error=1e-6)
    with pytest.raises(ParameterError, match="model"):
        plan(n=10, size=2, epsilon=1, model="magic")  # type: ignore[arg-type]


def test_people_needed_reach_the_deviation() -> None:
    for size in (2, 1000):
        n = people_needed(size=size, epsilon=1, deviation=0.005)
        assert math.sqrt(best(size, 1).variance(n)) <= 0.005 < math.sqrt(best(size, 1).variance(n - 1))


@pytest.mark.parametrize(("model", "size"), [("local", 2), ("shuffle", 2), ("central", 2), ("local", 300)])
def test_an_error_decides_the_epsilon(model: str, size: int) -> None:
    """The wanted deviation is reached, a smaller epsilon by a hundredth misses it, and the plan of that epsilon is the same plan."""
    n, error, place = 200_000, 0.004, ("local", "shuffle", "central").index(model)
    found = plan(n=n, size=size, error=error, model=model)  # type: ignore[arg-type]
    own = found.options[place]
    assert own.deviation <= error * (1 + 1e-3) and own.people <= n * 1.003
    less = plan(n=n, size=size, epsilon=0.98 * own.price, model=model).options[place]  # type: ignore[arg-type]
    assert less.deviation > error


def test_people_needed_and_shares_seen_stand_beside_every_model() -> None:
    found = plan(n=100_000, size=100, epsilon=1, error=0.001)
    local, shuffled, central = found.options
    assert local.people == people_needed(size=100, epsilon=1, deviation=0.001) == shuffled.people
    assert central.people == math.ceil(2 * math.sqrt(2) / 0.001)  # noise of scale 2 on counts
    assert local.detectable == pytest.approx(3.48 * local.deviation, rel=1e-2)  # the normal law at .05 / 200
    # Laplace noise of scale 2 / n: 95% that none of 100 counts is further off
    assert 100 * math.exp(-central.detectable * 100_000 / 2) == pytest.approx(0.05)
    text = str(found)
    assert f"{local.people:,}" in text and "people for 0.001" in text and "least share seen" in text
    # where no error is named it is the model's own, which its own people reach
    assert plan(n=12_345, size=7, epsilon=2).options[0].people == 12_345
