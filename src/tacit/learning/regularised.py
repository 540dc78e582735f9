"""Objective and output perturbation as solvers of linear models: rows in public units in, a linear function out.

>>> plan = regularised_fit("objective", Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, logistic, features=3, rows=100)
>>> type(plan.method).__name__, plan.guarantee.typed_price(plan.event, plan.adjacency).upper <= 1
('ObjectivePerturbation', True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.learning.choice import UNKNOWN_ROWS, Solver
from tacit.learning.losses import Loss, logistic
from tacit.learning.objective_perturbation import RADIUS, ObjectivePerturbation
from tacit.learning.output_perturbation import OutputPerturbation
from tacit.learning.preconditioned_descent import REACH, LinearFit

Array = NDArray[np.float64]

__all__ = ["Regularised", "logistic", "regularised_fit"]


@dataclass(frozen=True)
class Regularised:
    """A planned fit of a linear model with one score a row."""

    guarantee: Guarantee
    adjacency: Adjacency
    method: ObjectivePerturbation | OutputPerturbation
    features: int

    @property
    def event(self) -> Event:
        return self.method.event

    def run(self, U: Array, labels: Array, known: NDArray[np.bool_] | None = None) -> LinearFit:
        """Rows are divided by the usual reach and joined by a constant 1, and the whole by sqrt(2), so that typical rows have length
        about 1."""
        reach = REACH * math.sqrt(self.features)
        rows = np.hstack([U / reach, np.ones((len(U), 1))]) / math.sqrt(2)
        if known is not None:
            rows, labels = rows * known[:, None], np.where(known, labels, 0.0)
        theta = self.method.run(rows, labels) / math.sqrt(2)
        units = np.append(np.full(self.features, 1 / reach), 1.0) / math.sqrt(2)
        return LinearFit(theta[None, :-1] / reach, theta[-1:], self.method.scale, self.method.bar().through(np.diag(units)))


def regularised_fit(
    solver: Solver, guarantee: Guarantee, adjacency: Adjacency, loss: Loss, *, features: int, rows: int | None, radius: float = RADIUS
) -> Regularised:
    """The plan of a solver for rows in the box [-1, 1]^features and parameters of a typical length of `radius`."""
    if solver == "objective":
        return Regularised(
            guarantee, adjacency, ObjectivePerturbation.plan(guarantee, adjacency, loss, features + 1, radius=radius), features
        )
    return Regularised(
        guarantee, adjacency, OutputPerturbation.plan(guarantee, adjacency, loss, features + 1, rows=rows or UNKNOWN_ROWS), features
    )
