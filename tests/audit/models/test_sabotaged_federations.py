"""Six sabotaged builds of the federation itself, attacked by canary clients in one run: each comes out above its claim.

The faults are put into the code that runs: the clients' apps over a Flower grid, or the shares that they draw. The same attack on
the right build stays below. Some faults need two places broken, because a client's lattice and the server both check the norm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.federated.apps import policy

from tacit import federated
from tacit.audit.models import audit_clients, audit_question
from tacit.audit.models.canary_clients import published_sums
from tacit.audit.models.one_run import audit_one_run
from tacit.federated import InProcessGrid, Private, central, client_app, device, distributed, encoding, on_weights, sums

NUMBER, TENSORS = 128, 64


def weak_plan(**changes: Any) -> Any:
    """A strong promise: noise of four clips, epsilon 1.0 at 1e-5."""
    terms: dict[str, Any] = {"clients": NUMBER, "size": NUMBER, "clip": 1.0, "rounds": 1, "noise_multiplier": 4.0, "delta": 1e-5}
    return federated.plan(**{**terms, **changes})


def over_grid(plan: Any, cohort: Any, examples: int = 1) -> Any:
    """The noisy sums of a plan that runs on client apps through a grid, in clips: what whoever sees the models has."""
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    logging.getLogger("flwr").setLevel(logging.ERROR)
    zeros = np.zeros(plan.size)

    def train(arrays: Any, context: Any) -> Any:
        return {"w": arrays["w"] + cohort(zeros, np.array([context.node_config["partition-id"]]))[0]}, examples

    app = client_app(on_weights(train), policy=policy(budget="eps=1000, delta=1e-3"), book=None)
    found = Private(FedAvg(), plan, None).start(InProcessGrid(app, nodes=plan.clients), ArrayRecord({"w": Array(zeros)}))
    return found.arrays["w"].numpy()[None] * plan.clients / plan.clip


def claim_of(made: Any, adversary: str = "model") -> float:
    plan = getattr(made, "plan", made)
    return float(next(price for price in plan.prices() if price.adversary == adversary).epsilon)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Break what a client does last, and what the server checks: `lattice(update, clip)` is sent as it comes."""

    def breaking(lattice: Callable[[Any, float], Any]) -> None:
        monkeypatch.setattr(central, "to_lattice", lattice)
        monkeypatch.setattr(central, "exact_norm_fits", lambda sent: True)

    return breaking


def as_it_is(update: Any, clip: float) -> Any:
    """The lattice without clipping."""
    return np.clip(np.trunc(np.asarray(update) * (central.CLIP / clip)), -(2**31), 2**31 - 1).astype(np.int32)


# --- 1: shares for selected instead of surviving clients -------------------------------------------------------------


def test_shares_for_the_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = weak_plan(clients=51_200, trust="distributed", noise_multiplier=10.0, bits=32, scaled_clip=1000.0)
    made = replace(planned, dropouts=1 - NUMBER / 51_200)  # more than a graph could carry: what is attacked are the shares
    assert made.least == NUMBER
    claim = claim_of(made, "server")
    assert audit_clients(made, adversary="server", seed=1).lower <= claim < 1
    right = distributed.encoding_of
    monkeypatch.setattr(distributed, "encoding_of", lambda *given: replace(right(*given), survivors=made.clients))
    assert audit_clients(made, adversary="server", seed=1).lower > claim


# --- 2: one seed for all shares -----------------------------------------------------------------------------------------


def test_one_seed_for_all_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with one client knows that client's share, and so every other one."""
    made = weak_plan(trust="distributed", dropouts=0.0, colluding=1 / NUMBER)
    claim = claim_of(made, "server and clients")

    def without_known(plan: Any, cohort: Any) -> Any:
        """The sum, less as many times the known share as there are clients."""
        share = known(plan)
        drawn = published_sums(plan, cohort, "server and clients")
        words = np.mod(share * plan.honest, 1 << int(plan.shares["bits"])).astype(np.uint64)
        code, seed = distributed.encoding_of(plan), distributed.seed_of(plan, "simulated", 1)
        return drawn - code.decode(words, seed)[None, : plan.size] / plan.clip

    @lru_cache(maxsize=1)
    def known(plan: Any) -> Any:
        return np.asarray(plain(distributed.encoding_of(plan).share_variance, size=distributed.encoding_of(plan).dimension))

    plain = encoding.noise.skellam
    assert audit_clients(made, adversary="server and clients", seed=2, run=without_known).lower <= claim
    monkeypatch.setattr(encoding.noise, "skellam", lambda variance, size=None: known(made).copy())
    assert audit_clients(made, adversary="server and clients", seed=2, run=without_known).lower > claim


# --- 3: clipping by tensor ------------------------------------------------------------------------------------------------


def in_every_tensor(plan: Any, seed: int, examples: int = 1) -> float:
    """Canaries with one large number in each of 64 tensors; the score is what they share."""
    coins = np.random.default_rng(seed).random(NUMBER) < 0.5

    def cohort(weights: Any, ids: Any) -> Any:
        found = np.zeros((len(ids), TENSORS, NUMBER))
        for row, client in enumerate(ids):
            found[row, :, client] = 10.0 * coins[client]
        return found.reshape(len(ids), -1)

    scores = over_grid(plan, cohort, examples)[0].reshape(TENSORS, NUMBER).sum(axis=0)
    return float(audit_one_run(scores, coins, delta=plan.delta).lower)


def test_clipping_by_tensor_that_is_called_flat(unchecked: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    made = weak_plan(size=TENSORS * NUMBER)
    claim, right = claim_of(made), central.to_lattice

    def by_tensor(update: Any, clip: float) -> Any:
        return np.concatenate([right(part, clip) for part in np.split(np.asarray(update), TENSORS)])

    def clipped(update: Any, clip: float) -> Any:
        return np.asarray(update, dtype=np.float64).copy(), float(np.linalg.norm(update))

    assert in_every_tensor(made, 3) <= claim
    whole = central.clipped
    with monkeypatch.context() as half:  # the flat clip before is enough by itself
        half.setattr(central, "to_lattice", by_tensor)
        assert in_every_tensor(made, 3) <= claim
    unchecked(by_tensor)
    monkeypatch.setattr(device.central, "clipped", clipped)
    monkeypatch.setattr(central, "to_lattice", lambda update, clip: _with(whole, by_tensor, update, clip, monkeypatch))
    assert in_every_tensor(made, 3) > claim


def _with(whole: Any, lattice: Any, update: Any, clip: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The lattice of each tensor clips by itself, with the clip that the vector as a whole no longer has."""
    with monkeypatch.context() as inner:
        inner.setattr(central, "clipped", whole)
        return lattice(update, clip)


# --- 4: unclipped example counts as weights ----------------------------------------------------------------------------


def test_example_counts_as_weights(unchecked: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with twelve times the examples that a weight is capped at. The server's quotient by the noisy weight is common to all
    canaries and moves no guess."""
    made = weak_plan(size=TENSORS * NUMBER, weight_cap=10, noise_multiplier=6.0)
    claim = claim_of(made)
    assert in_every_tensor(made, 4, examples=120) <= claim

    def composed(plan: Any, update: Any, examples: int, threshold: float) -> Any:
        flat, _ = central.clipped(update, threshold)
        weight = examples / plan.weight_cap
        return np.concatenate([flat * weight, [weight * plan.weight_size * threshold]])

    monkeypatch.setattr(device, "composed", composed)
    assert in_every_tensor(made, 4, examples=120) <= claim  # the lattice clips once more
    unchecked(as_it_is)
    assert in_every_tensor(made, 4, examples=120) > claim


# --- 5: raw evaluation metrics -------------------------------------------------------------------------------------------


def test_evaluation_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Canaries whose accuracy falls into a bin of their own, or who stay away."""
    from flwr.app import Array, ArrayRecord

    question = federated.evaluation(most_loss=1.0, bins=NUMBER, clients=NUMBER, noise_multiplier=4.0, delta=1e-5)
    coins = np.random.default_rng(5).random(NUMBER) < 0.5

    def figures(arrays: Any, context: Any) -> Any:
        place = int(context.node_config["partition-id"])
        return (0.5, (place + 0.5) / NUMBER) if coins[place] else (float("nan"), 0.0)

    def attacked() -> float:
        app = client_app(evaluate=figures, policy=policy(clip=2.0), book=None)
        found = question.ask(InProcessGrid(app, nodes=NUMBER), ArrayRecord({"w": Array(np.zeros(1))}), window="2026")
        return float(audit_one_run(found.histogram, coins, delta=1e-5).lower)

    claim = claim_of(question)
    assert attacked() <= claim
    monkeypatch.setattr(sums.CentralSum, "noisy", lambda self: self.total * (self.plan.radius(self.threshold) / central.CLIP))
    assert attacked() > claim


# --- 6: sensitivity apart from the clip --------------------------------------------------------------------------------


def test_a_sensitivity_that_is_set_apart_from_the_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    made = weak_plan()
    claim, right = claim_of(made), central.noise
    assert audit_clients(made, seed=6, run=over_grid).lower <= claim
    monkeypatch.setattr(central, "noise", lambda multiplier, clip, *more: right(multiplier * 0.01, clip, *more))
    assert audit_clients(made, seed=6, run=over_grid).lower > claim
    question = federated.histogram(list(range(NUMBER)), max_contributions=1, clients=NUMBER, noise_multiplier=4.0, delta=1e-5)
    assert audit_question(question, seed=6).lower > claim
