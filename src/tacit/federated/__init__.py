"""Federated learning and analytics: clients keep the promise, Flower carries the messages.

Raw data stays on the clients. The server sees noisy sums, and the plan says against whom each epsilon holds.

>>> made = plan(clients=100, size=2410, clip=1.0, rounds=10, epsilon=8, delta=1e-5)
>>> print(made.prices()[0].words)
epsilon 8 at delta 1e-05
"""

# Imports inside functions: flwr takes seconds to load and is an extra, and so are cryptography and torch.

from typing import TYPE_CHECKING

from tacit.federated import central
from tacit.federated.adaptive import AdaptiveClip
from tacit.federated.errors import FederatedError, RoundVoid, SumRefused
from tacit.federated.plan import AdversaryPrice, FederatedPlan, plan
from tacit.federated.selection import Arriving, CheckIns, CohortRule, Everyone, FixedCohort, PoissonClients, Separation
from tacit.federated.unit import ClientUnit
from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.federated.analytics import (
        ClientAnswers,
        ClientQuestion,
        count,
        heatmap,
        histogram,
        mean,
        quantile,
        sum,
        top_k,
    )
    from tacit.federated.buffered import BufferedRounds
    from tacit.federated.client import client_app, on_weights
    from tacit.federated.encoding import Encoding, flatten, rounded_norm, unflatten
    from tacit.federated.evaluation import ModelFigures, ModelQuestion, evaluation
    from tacit.federated.grid import InProcessGrid
    from tacit.federated.policy import ClientBook, Policy, code_hash
    from tacit.federated.secure_sum.client import SumClient
    from tacit.federated.secure_sum.graph import MaskGraph, graph_for
    from tacit.federated.secure_sum.keys import ClientIdentity, Register
    from tacit.federated.secure_sum.server import SumServer
    from tacit.federated.secure_sum.wire import SumRound
    from tacit.federated.silos import SiloRun, train_silos
    from tacit.federated.simulate import SimulatedRun, batched_sgd, simulate
    from tacit.federated.sketches import SketchQuestion, sketch
    from tacit.federated.strategy import Private
    from tacit.federated.threats import KeyLog, as_table, who_sees
    from tacit.federated.tuning import tune
    from tacit.federated.words import WordSearch, heavy_hitters

__getattr__, __dir__ = lazily(__name__, {
    "analytics": (
        "ClientAnswers", "ClientQuestion", "count", "heatmap", "histogram", "mean", "quantile", "sum", "top_k",
    ),
    "buffered": ("BufferedRounds",),
    "client": ("client_app", "on_weights"),
    "encoding": ("Encoding", "flatten", "rounded_norm", "unflatten"),
    "evaluation": ("ModelFigures", "ModelQuestion", "evaluation"),
    "grid": ("InProcessGrid",),
    "policy": ("ClientBook", "Policy", "code_hash"),
    "secure_sum.client": ("SumClient",),
    "secure_sum.graph": ("MaskGraph", "graph_for"),
    "secure_sum.keys": ("ClientIdentity", "Register"),
    "secure_sum.server": ("SumServer",),
    "secure_sum.wire": ("SumRound",),
    "silos": ("SiloRun", "train_silos"),
    "simulate": ("SimulatedRun", "batched_sgd", "simulate"),
    "sketches": ("SketchQuestion", "sketch"),
    "strategy": ("Private",),
    "threats": ("KeyLog", "as_table", "who_sees"),
    "tuning": ("tune",),
    "words": ("WordSearch", "heavy_hitters"),
})  # fmt: skip

# the plan
__all__ = ["AdaptiveClip", "AdversaryPrice", "ClientUnit", "FederatedPlan", "plan"]
# who takes part
__all__ += ["Arriving", "CheckIns", "CohortRule", "Everyone", "FixedCohort", "PoissonClients", "Separation"]
# the device, the server and Flower between them
__all__ += ["ClientBook", "InProcessGrid", "Policy", "Private", "client_app", "code_hash", "on_weights"]
# questions to clients
__all__ += ["ClientAnswers", "ClientQuestion", "ModelFigures", "ModelQuestion", "WordSearch", "count", "evaluation"]
__all__ += ["heatmap", "heavy_hitters", "histogram", "mean", "quantile", "sketch", "sum", "top_k"]
__all__ += ["SketchQuestion"]
# other ways to run
__all__ += ["BufferedRounds", "SiloRun", "SimulatedRun", "batched_sgd", "simulate", "train_silos", "tune"]
# the lattice of central trust, a module
__all__ += ["central"]
# who sees what
__all__ += ["KeyLog", "as_table", "who_sees"]
# from an update to whole numbers, and back
__all__ += ["Encoding", "flatten", "rounded_norm", "unflatten"]
# sums under masks
__all__ += ["ClientIdentity", "MaskGraph", "Register", "SumClient", "SumRound", "SumServer", "graph_for"]
# refusals
__all__ += ["FederatedError", "RoundVoid", "SumRefused"]
