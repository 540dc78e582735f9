"""Canary clients: user-level lower bounds stay under the claim for each kind of run and each adversary."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tacit import federated
from tacit.accounting import ParameterError, SquareRoot
from tacit.audit.models import audit_clients, audit_question
from tacit.audit.models.canary_clients import published_sums

SHARES: dict[str, Any] = {"trust": "distributed", "dropouts": 0.3, "colluding": 0.2}
PLANS: dict[str, dict[str, Any]] = {
    "DP-FedAvg": {"rounds": 4, "noise_multiplier": 1.0},
    "DP-FedAvg, a sample": {"rounds": 4, "noise_multiplier": 0.7, "population": 400},
    "DP-FedAvg, distributed": {"rounds": 4, "noise_multiplier": 1.5, **SHARES},
    "DP-FTRL": {"rounds": 4, "noise_multiplier": 2.0, "strategy": SquareRoot(4)},
    "distributed noise": {"rounds": 1, "noise_multiplier": 1.0, **SHARES},
    "distributed noise, Gaussian": {"rounds": 1, "noise_multiplier": 1.0, "noise": "discrete-gaussian", **SHARES},
}
QUESTIONS: dict[str, dict[str, Any]] = {"analytics": {}, "analytics, distributed": SHARES}
ADVERSARIES = ("model", "server", "server and clients")


def planned(name: str, size: int = 200) -> Any:
    return federated.plan(clients=size, size=size, clip=1.0, delta=1e-5, **PLANS[name])


def asked(name: str) -> Any:
    return federated.histogram(list(range(200)), max_contributions=1, clients=200, noise_multiplier=1.0, delta=1e-5, **QUESTIONS[name])


def held(name: str, adversary: Any, seed: int) -> tuple[float, float, str]:
    """What the adversary finds, and what the plan claims against it, as a number and in words."""
    if name in QUESTIONS:
        question = asked(name)
        lower, plan = audit_question(question, adversary=adversary, seed=seed).lower, question.plan
    else:
        plan = planned(name)
        lower = audit_clients(plan, adversary=adversary, seed=seed).lower
    price = next(price for price in plan.prices() if price.adversary == adversary)
    return lower, price.epsilon, price.words


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("name", [*PLANS, *QUESTIONS])
def test_the_bound_is_below_the_claim_and_above_nothing(name: str, adversary: str) -> None:
    lower, claim, words = held(name, adversary, seed=3)
    assert 0.1 < lower <= claim
    if claim == math.inf:  # a trusted server: nothing is claimed, and it finds what whoever sees the models cannot
        assert words.startswith("no promise") and lower > max(2, held(name, "model", seed=3)[0])


@pytest.mark.parametrize("name", ["distributed noise", "analytics, distributed"])
def test_colluding_clients_find_more(name: str) -> None:
    """Averaged over runs: less noise is left, as the higher claim says."""
    found = {who: sum(held(name, who, seed=seed)[0] for seed in range(6)) for who in ("server", "server and clients")}
    claims = {who: held(name, who, seed=1)[1] for who in found}
    assert claims["server"] < claims["server and clients"] and found["server"] < found["server and clients"] * 1.05


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
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("name", [*PLANS, *QUESTIONS])
def test_the_bound_holds_in_19_of_20_runs(name: str, adversary: str) -> None:
    """F14: at a confidence of 95 %, at most 5 of 40 bounds may exceed the claim (chance 1 %)."""
    found = [held(name, adversary, seed) for seed in range(40)]
    assert sum(lower > claim for lower, claim, _ in found) <= 5


def test_canaries_must_fit() -> None:
    with pytest.raises(ParameterError):
        audit_clients(planned("DP-FedAvg", 20), canaries=21)
