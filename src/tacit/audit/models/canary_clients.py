"""Canary clients: a federation's rounds, or a question, with clients that teach one direction each, audited in one run.

Every canary is a whole client, so what is measured is user-level privacy. It joins or stays away by a fair coin and sends
an update of full length along an axis of its own. Whoever sees the noisy sums guesses from the trace along that axis who
joined; many canaries in one run give a lower bound on what the run really loses (Steinke, Nasr, Jagielski 2023).

The adversaries are those of the plan's prices. Each sees the worst round that the plan allows: `model` and `server` the sum
of the fewest survivors, and a server with colluding clients that sum without the shares of these, so with the honest ones'
noise alone. Under central trust the server holds the sums before the noise; there is no promise against it, and the bound
shows why.

>>> from tacit.federated import plan
>>> made = plan(clients=300, size=300, clip=1.0, rounds=4, noise_multiplier=2.0, delta=1e-5)
>>> found = audit_clients(made, seed=1)
>>> 0 < found.lower < made.prices()[0].epsilon
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError, coefficients
from tacit.audit.claim import Evidence
from tacit.audit.experiment import generator
from tacit.audit.models.one_run import audit_one_run

if TYPE_CHECKING:
    from tacit.federated import ClientQuestion, FederatedPlan

Floats = NDArray[np.float64]
Adversary = Literal["model", "server", "server and clients"]
#: A run of a plan on some cohort: what it publishes, one row a round, as sums in clips.
Run = Callable[["FederatedPlan", Any], Floats]


def published_sums(plan: FederatedPlan, cohort: Any, adversary: Adversary = "model") -> Floats:
    """The sums of every round of a simulated run, in clips, as an adversary has them."""
    from tacit.federated import central, simulate

    seen: list[Floats] = []

    def server(weights: Floats, mean: Floats, turn: int) -> Floats:
        seen.append(mean * plan.clients / plan.clip)
        return weights

    bare = plan.trust == "central" and adversary != "model"
    run = simulate(plan, np.zeros(plan.size), cohort, server=server, population=_present(plan, adversary), keep_totals=bare)
    return np.array([total[: plan.size] / central.CLIP for total in run.totals]) if bare else np.array(seen)


def _present(plan: FederatedPlan, adversary: Adversary) -> int:
    """How many clients' vectors and noise are in what the adversary has, in the worst round that the plan allows."""
    if plan.selection.credited:  # a sample is drawn from all of them
        return int(getattr(plan.selection, "population", 0) or plan.clients)
    return plan.honest if adversary == "server and clients" else plan.least


def audit_clients(
    plan: FederatedPlan, *, adversary: Adversary = "model", canaries: int | None = None, confidence: float = 0.95,
    seed: int | None = None, run: Run | None = None,
) -> Evidence:
    """A lower bound on epsilon at the plan's delta, from one run with canary clients in every round.

    `run` may be another implementation of the plan: a sabotaged one must come out above the plan's price.
    """
    most = min(plan.size, _present(plan, adversary))
    number = most if canaries is None else canaries
    if not 1 <= number <= most:
        raise ParameterError(f"canaries must be at most the clients that are left and the numbers of a vector, not {number}")
    coins = generator(seed).random(number) < 0.5

    def cohort(weights: Floats, ids: NDArray[np.int64]) -> Floats:
        updates = np.zeros((len(ids), plan.size))
        for row, client in enumerate(ids):
            if client < number and coins[client]:
                updates[row, client] = 10.0 * plan.clip  # longer than the clip: clipping is part of what is attacked
        return updates

    seen = published_sums(plan, cohort, adversary) if run is None else run(plan, cohort)
    scores = _whitened(plan, seen)[:number]
    return audit_one_run(scores, coins, delta=plan.delta, confidence=confidence, attack="canary clients, one run")


def audit_question(
    question: ClientQuestion, *, adversary: Adversary = "model", confidence: float = 0.95, seed: int | None = None,
    answers: Callable[[list[Any]], Floats] | None = None,
) -> Evidence:
    """The same for a histogram: every canary has a key of its own, or none. `answers(values)` may be another implementation.

    >>> from tacit.federated import histogram
    >>> songs = histogram(list(range(200)), max_contributions=1, clients=200, noise_multiplier=1.0, delta=1e-5)
    >>> 0 < audit_question(songs, seed=2).lower < songs.plan.prices()[0].epsilon
    True
    """
    plan, labels = question.plan, question.labels
    bare = plan.trust == "central" and adversary != "model"
    present = _present(plan, adversary)
    number = min(len(labels), present)
    coins = generator(seed).random(number) < 0.5
    values = [[labels[i]] if i < number and coins[i] else [] for i in range(present)]
    if answers is not None:
        scores = answers(values)
    elif bare:
        scores = np.array([float(bool(value)) for value in values])
    else:  # every client draws its own share, so that the noise is that of those who are left
        scores = question.simulate(values, in_law=False).values
    return audit_one_run(scores[:number], coins, delta=plan.delta, confidence=confidence, attack="canary clients, one question")


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
