"""Canary clients: user-level lower bounds stay under the claim for each kind of run, and a sabotaged run comes out above."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit import federated
from tacit.accounting import ParameterError, SquareRoot
from tacit.audit.models import audit_clients
from tacit.audit.models.canary_clients import published_sums

PLANS: dict[str, dict[str, Any]] = {
    "DP-FedAvg": {"rounds": 4, "noise_multiplier": 1.0},
    "DP-FTRL": {"rounds": 4, "noise_multiplier": 2.0, "strategy": SquareRoot(4)},
    "distributed": {"rounds": 1, "noise_multiplier": 1.0, "trust": "distributed", "dropouts": 0.3},
}


def planned(name: str, size: int = 200) -> Any:
    return federated.plan(clients=size, size=size, clip=1.0, delta=1e-5, **PLANS[name])


@pytest.mark.parametrize("name", PLANS)
def test_the_bound_is_below_the_claim_and_above_nothing(name: str) -> None:
    made = planned(name)
    claim = made.prices()[0].epsilon
    found = audit_clients(made, seed=3)
    assert 0.1 < found.lower <= claim


def test_a_run_that_clips_at_ten_times_the_clip_is_found() -> None:
    made = planned("DP-FedAvg")

    def sabotaged(plan: Any, cohort: Any) -> Any:
        return published_sums(replace(plan, clip=10.0), lambda weights, ids: 10 * cohort(weights, ids))

    # Noise for a clip of 1 under a clip of 10 is noise of a tenth of the multiplier.
    weak = lambda plan, cohort: published_sums(replace(plan, noise_multiplier=0.1), cohort)  # noqa: E731
    claimed = federated.plan(clients=200, size=200, clip=1.0, rounds=1, noise_multiplier=1.5, delta=1e-5)
    price = claimed.prices()[0].epsilon
    assert audit_clients(claimed, seed=4).lower <= price < audit_clients(claimed, seed=4, run=weak).lower
    assert audit_clients(made, seed=4, run=sabotaged).lower <= made.prices()[0].epsilon  # scaled as a whole, it keeps its promise


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_the_bound_holds_in_19_of_20_runs(name: str) -> None:
    """F14: at a confidence of 95 %, at most 5 of 40 bounds may exceed the claim (chance 1 %)."""
    made = planned(name)
    claim = made.prices()[0].epsilon
    assert sum(audit_clients(made, seed=seed).lower > claim for seed in range(40)) <= 5


def test_canaries_must_fit() -> None:
    with pytest.raises(ParameterError):
        audit_clients(planned("DP-FedAvg", 20), canaries=21)


def test_questions_are_audited_by_clients_with_a_cell_each() -> None:
    from tacit.audit.models.one_run import audit_one_run

    question = federated.histogram(list(range(300)), max_contributions=1, clients=300, noise_multiplier=1.0, delta=1e-5)
    coins = np.random.default_rng(5).random(300) < 0.5
    answer = question.simulate([[place] if coin else [] for place, coin in enumerate(coins)])
    found = audit_one_run(answer.values, coins, delta=1e-5)
    assert 0 < found.lower <= question.plan.prices()[0].epsilon
