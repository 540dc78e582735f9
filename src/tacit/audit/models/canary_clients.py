"""Canary clients: a federation's rounds with clients that teach one direction each, audited in one run.

Every canary is a whole client, so what is measured is user-level privacy. It joins or stays away by a fair coin and sends
an update of full length along an axis of its own. Whoever sees the noisy sums guesses from the trace along that axis who
joined; many canaries in one run give a lower bound on what the run really loses (Steinke, Nasr, Jagielski 2023).

>>> from tacit.federated import plan
>>> made = plan(clients=300, size=300, clip=1.0, rounds=4, noise_multiplier=2.0, delta=1e-5)
>>> found = audit_clients(made, seed=1)
>>> 0 < found.lower < made.prices()[0].epsilon
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError, coefficients
from tacit.audit.claim import Evidence
from tacit.audit.experiment import generator
from tacit.audit.models.one_run import audit_one_run

if TYPE_CHECKING:
    from tacit.federated import FederatedPlan

Floats = NDArray[np.float64]
#: A run of a plan on some cohort: what it publishes, one row a round, as sums in clips.
Run = Callable[["FederatedPlan", Any], Floats]


def published_sums(plan: FederatedPlan, cohort: Any) -> Floats:
    """The noisy sums of every round of a simulated run, in clips: what whoever sees all models can work out."""
    from tacit.federated import simulate

    seen: list[Floats] = []

    def server(weights: Floats, mean: Floats, turn: int) -> Floats:
        seen.append(mean * plan.clients / plan.clip)
        return weights

    simulate(plan, np.zeros(plan.size), cohort, server=server)
    return np.array(seen)


def audit_clients(
    plan: FederatedPlan, *, canaries: int | None = None, confidence: float = 0.95, seed: int | None = None,
    run: Run = published_sums,
) -> Evidence:
    """A lower bound on epsilon at the plan's delta, from one run with canary clients in every round.

    `run` may be another implementation of the plan: a sabotaged one must come out above the plan's price.
    """
    number = min(plan.size, plan.clients) if canaries is None else canaries
    if not 1 <= number <= min(plan.size, plan.clients):
        raise ParameterError(f"canaries must be at most the clients and the numbers of a vector, not {number}")
    coins = generator(seed).random(number) < 0.5

    def cohort(weights: Floats, ids: NDArray[np.int64]) -> Floats:
        updates = np.zeros((len(ids), plan.size))
        for row, client in enumerate(ids):
            if client < number and coins[client]:
                updates[row, client] = 10.0 * plan.clip  # longer than the clip: clipping is part of what is attacked
        return updates

    scores = _whitened(plan, run(plan, cohort))[:number]
    return audit_one_run(scores, coins, delta=plan.delta, confidence=confidence, attack="canary clients, one run")


def _whitened(plan: FederatedPlan, seen: Floats) -> Floats:
    """The best linear score of each axis: a sum over rounds, of what the strategy makes of them where noise is correlated.

    With y = g + C^-1 z published, C y has independent noise, and the canary that is in every round moves it by C 1.
    """
    if plan.strategy is None:
        return np.asarray(seen.sum(axis=0))
    column = coefficients(plan.strategy)
    rounds = len(seen)
    matrix = sum(np.diag(np.full(rounds - lag, value), -lag) for lag, value in enumerate(column[:rounds]))
    return np.asarray((matrix @ np.ones(rounds)) @ (matrix @ seen))
