"""Losses and accuracies of a model on clients that were held out, as questions with a price.

A model's figures on people's data are data about these people: averaging them without noise tells who joined. Here
they are one vector a client (loss, accuracy, and the bin of its accuracy), summed with noise, so that means and a
histogram over clients come out of one payment.

>>> import numpy as np
>>> from tacit.federated.plan import plan
>>> question = evaluation(most_loss=4.0, bins=5, clients=1000, epsilon=4, delta=1e-6)
>>> figures = question.simulate([(1.0, 0.9)] * 500 + [(2.0, 0.5)] * 500)
>>> bool(abs(figures.loss - 1.5) < 0.1), bool(abs(figures.accuracy - 0.7) < 0.05), figures.histogram.shape
(True, True, (5,))

Guarantee
    Statement: the figures cost `question.plan.event` for one client.
    Conditions: losses are clamped to [0, most_loss] and accuracies to [0, 1] on the device; fixed public divisors.
    Proved in: a client's vector has norm at most sqrt(3): each of its three parts has norm at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.federated.analytics import ROOM, cohort_of, noisy_sum
from tacit.federated.messages import Ask, Layout
from tacit.federated.plan import FederatedPlan
from tacit.federated.plan import plan as planned
from tacit.ledger import Account, paying
from tacit.parameters import count, positive

if TYPE_CHECKING:
    from flwr.app import ArrayRecord
    from flwr.serverapp import Grid

    from tacit.federated.secure_sum.keys import Register

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ModelFigures:
    """Noisy means over clients, the share of clients in each bin of accuracy, and the deviations of the noise."""

    loss: float
    accuracy: float
    histogram: Floats
    loss_deviation: float
    deviation: float


@dataclass(frozen=True)
class ModelQuestion:
    """A question for the figures of a model."""

    plan: FederatedPlan

    def ask(
        self, grid: Grid, arrays: ArrayRecord, account: Account | None = None, *, window: str, timeout: float = 3600,
        register: Register | None = None,
    ) -> ModelFigures:
        """Ask the clients of a Flower grid about a model; a client answers once in each window and question."""
        from tacit.federated.rounds import Rounds

        model = {name: array.numpy() for name, array in arrays.items()}
        layout = Layout.of(model)
        rounds = Rounds(self.plan, run=window, register=register)
        with paying(account, self.plan.event, purpose=self.plan.name, run=window, delta=self.plan.delta):
            nodes = self.plan.selection.cohort(list(grid.get_node_ids()), 1)
            ask = Ask(phase="vector", plan=self.plan.text, run=window, turn=1, threshold=self.plan.clip,
                      layout=layout.text, model=layout.packed(model))  # fmt: skip
            noisy = rounds.noisy_sum(grid, ask, nodes, timeout)
        return self.figures(noisy)

    def simulate(self, values: Iterable[tuple[float, float]], account: Account | None = None) -> ModelFigures:
        """The figures for (loss, accuracy) of clients at hand; the noise is drawn once."""
        terms = self.plan.question
        assert terms is not None
        with paying(account, self.plan.event, purpose=self.plan.name, delta=self.plan.delta):
            vectors = (evaluated(terms, value) for value in cohort_of(self.plan, values))
            noisy = noisy_sum(self.plan, vectors, window="simulated")
        return self.figures(noisy)

    def figures(self, noisy: Floats) -> ModelFigures:
        """The figures from a noisy sum; divisors are the planned number of clients."""
        terms = self.plan.question
        assert terms is not None
        mean, deviation = noisy / self.plan.clients, self.plan.deviation()
        most = float(terms["most_loss"])
        return ModelFigures(float(mean[0]) * most, float(mean[1]), mean[2:], deviation * most, deviation)


def evaluation(*, most_loss: float, bins: int = 10, **how: Any) -> ModelQuestion:
    """A question for loss and accuracy; losses above `most_loss` count as that. `how` is that of `plan`."""
    cells = count("bins", bins)
    terms = {"kind": "evaluation", "most_loss": float(positive("most_loss", most_loss)), "bins": cells}
    made = planned(size=2 + cells, clip=math.sqrt(3) * ROOM, rounds=1, **{"name": "evaluation", **how})
    return ModelQuestion(replace(made, question=terms))


def evaluated(terms: Mapping[str, Any], figures: Any) -> Floats:
    """One client's vector. It is total: what is no pair of numbers counts as no answer.

    >>> evaluated({"most_loss": 4.0, "bins": 2}, (1.0, 1.0)).tolist()
    [0.25, 1.0, 0.0, 1.0]
    >>> evaluated({"most_loss": 4.0, "bins": 2}, (float("nan"), 0.2)).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    bins = int(terms["bins"])
    found = np.zeros(2 + bins)
    try:
        loss, accuracy = (float(value) for value in figures)
    except Exception:  # whatever a client's figures are
        return found
    if not (math.isfinite(loss) and math.isfinite(accuracy)):
        return found
    right = min(max(accuracy, 0.0), 1.0)
    found[:2] = min(max(loss / float(terms["most_loss"]), 0.0), 1.0), right
    found[2 + min(int(right * bins), bins - 1)] = 1.0
    return found
