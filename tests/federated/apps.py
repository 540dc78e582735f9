"""Apps, policies and plans that the tests of this folder share."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from tacit import federated
from tacit.federated import FederatedPlan, InProcessGrid, Policy, Private, client_app, on_weights


def policy(**changes: Any) -> Policy:
    """A policy that allows what the tests do, unless they change it."""
    terms: dict[str, Any] = {
        "name": "tests", "budget": "eps=60, delta=1e-5", "expires": "2099-01-01", "clip": 1.0, "noise": 0.01,
        "trust": ("central", "distributed"), "participations": 100, "workloads": ("any",), "code": ("any",),
    }  # fmt: skip
    return Policy(**{**terms, **changes})


def plan(**changes: Any) -> FederatedPlan:
    terms: dict[str, Any] = {"clients": 6, "size": 4, "clip": 1.0, "rounds": 2, "noise_multiplier": 1.0, "delta": 1e-5}
    return federated.plan(**{**terms, **changes})


def start(size: int = 4) -> Any:
    from flwr.app import Array, ArrayRecord

    return ArrayRecord({"w": Array(np.zeros(size))})


def pushing(context: Any) -> Any:
    """What node i's data teach: a step of length i / 100 along one axis."""
    node = int(context.node_config["partition-id"]) + 1
    moved = np.zeros(4)
    moved[node % 4] = node / 100
    return moved


def app(train: Any = None, *, book: Any = None, **changes: Any) -> Any:
    chosen = train or (lambda arrays, context: {"w": arrays["w"] + pushing(context)})
    return client_app(on_weights(chosen), policy=policy(**changes), book=book)


def run(made: FederatedPlan, client: Any, *, nodes: int | None = None, faults: Any = None, account: Any = None, **more: Any) -> Any:
    """A run with FedAvg; the strategy and the result."""
    from flwr.serverapp.strategy import FedAvg

    logging.getLogger("flwr").setLevel(logging.ERROR)
    strategy = Private(FedAvg(), made, account, run=more.pop("run", "test"))
    grid = InProcessGrid(client, nodes=nodes or made.clients, faults=faults)
    return strategy, strategy.start(grid, start(made.size), **more)
