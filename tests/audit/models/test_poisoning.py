"""Privacy against poisoning: bounds by enumeration, and trainings measured against them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models import least_cost, most_success, poisoning_success, records_needed


@pytest.mark.parametrize("records", [0, 1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_chain_of_randomised_responses_attains_the_bound(records: int, epsilon: float) -> None:
    """Each record moves the odds of an answer by exactly e^eps: nothing larger is allowed, and for small p it is attained."""
    for p in (1e-6, 0.01, 0.4):
        bound = most_success(p, epsilon=epsilon, records=records)
        odds = p / (1 - p) * math.exp(records * epsilon)
        assert odds / (1 + odds) <= bound * (1 + 1e-12)
        assert bound <= 1
        assert bound == pytest.approx(min(math.exp(records * epsilon) * p, 1 - math.exp(-records * epsilon) * (1 - p)))
    assert most_success(1e-6, epsilon=epsilon, records=records) == pytest.approx(1e-6 * math.exp(records * epsilon))


def test_delta_of_a_group_by_steps() -> None:
    """k steps of p -> e^eps p + delta."""
    p = 0.001
    for _ in range(4):
        p = math.exp(0.3) * p + 1e-4
    assert most_success(0.001, epsilon=0.3, records=4, delta=1e-4) == pytest.approx(p)
    assert most_success(0.5, epsilon=100.0, records=100, delta=1e-5) == 1.0


def test_costs_and_records_agree() -> None:
    """The exponential cost of a Laplace answer: its mean falls by just e^-eps a record, as the theorem allows."""
    grid = np.linspace(-200, 200, 200_001)
    density = np.exp(-np.abs(grid)) / 2  # epsilon 1 a unit
    cost = np.exp(-0.999999 * np.maximum(grid, 0) - 30 * np.maximum(-grid, 0))
    means = [np.trapezoid(cost * np.interp(grid - k, grid, density), grid) for k in (0, 1, 2)]
    assert all(means[k] >= least_cost(float(means[0]), epsilon=1.0, records=k) for k in (0, 1, 2))
    for goal in (0.5, 0.1, 0.01):
        k = records_needed(1.0, goal, epsilon=0.7)
        assert least_cost(1.0, epsilon=0.7, records=k) <= goal < least_cost(1.0, epsilon=0.7, records=k - 1)
    assert records_needed(1.0, 1.0, epsilon=1.0) == 0
    with pytest.raises(ParameterError, match="goal"):
        records_needed(1.0, 2.0, epsilon=1.0)


def noisy_mean(epsilon: float) -> Any:
    def train(rows: Any, seed: int) -> float:
        return float(np.clip(rows, 0, 1).sum() + generator(seed).laplace(0, 1 / epsilon))

    return train


CLEAN = np.zeros(50)


def test_a_private_training_resists_and_one_that_lies_is_refuted() -> None:
    """The attacker wants a sum above 2.5, with 3 records more. At epsilon .3 that works rarely; a training that claims .3 and
    draws the noise of 3 is refuted."""
    poisoned = np.concatenate([CLEAN, np.full(3, 1e9)])

    def works(total: float) -> bool:
        return total > 2.5

    plan: dict[str, Any] = {"records": 3, "trials": 1000, "confidence": 1 - 1e-6, "seed": 1}
    honest = poisoning_success(noisy_mean(0.3), CLEAN, poisoned, works, epsilon=0.3, **plan)
    truth = 0.5 * math.exp(-0.3 * 2.5), 1 - 0.5 * math.exp(-0.3 * 0.5)
    assert (honest.clean, honest.poisoned) == (pytest.approx(truth[0], abs=0.08), pytest.approx(truth[1], abs=0.08))  # 5 deviations
    assert not honest.refuted
    assert truth[1] <= most_success(truth[0], epsilon=0.3, records=3)
    liar = poisoning_success(noisy_mean(3.0), CLEAN, poisoned, works, epsilon=0.3, **plan)
    assert liar.refuted
    assert liar.poisoned > 0.85
