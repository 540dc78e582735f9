"""DP-FTRL over rounds: the server's noise in one round takes back part of that of earlier rounds.

No sampling is needed and none is credited, which suits devices that come when they can (Kairouz et al. 2021). What
must hold instead is how often a client takes part and how far apart: the plan states both, and the clients' own books
keep to them. The server remembers earlier noise, so this goes with central trust only.

>>> from tacit.accounting import Tree
>>> from tacit.federated.plan import plan
>>> made = plan(clients=100, size=10, clip=1, rounds=8, epsilon=2, delta=1e-6, strategy=Tree(8), participations=2, separation=4)
>>> made.event
MatrixMechanism(noise_multiplier=..., strategy=Tree(steps=8, reduced=False), participations=2, separation=4, fixed=False)

Guarantee
    Statement: the sums of all rounds cost one `MatrixMechanism` of the plan's multiplier, strategy, participations and
    separation.
    Conditions: at most so many participations, so far apart; each vector has norm at most the plan's radius.
    Proved in: `tacit.accounting.strategies`; reading and rounding in floats is charged as in `tacit.deep.correlated`
    (docs/decisions/0022): the noise is larger by what they can add to a move.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.plan import FederatedPlan
from tacit.federated.sums import CentralSum
from tacit.mechanisms import NoisySums


class CorrelatedSums:
    """The noise of one run. It belongs to this run alone: a resumed run begins a new strategy and pays for it."""

    def __init__(self, plan: FederatedPlan) -> None:
        from tacit.deep import Correlated, FullBatch

        if plan.strategy is None:
            raise ParameterError("a plan without a strategy has independent noise")
        self.plan = plan
        self._noise = Correlated(plan.strategy, FullBatch(size=plan.clients))
        farthest = plan.clients / plan.noise_multiplier
        rounding = self._noise.rounding(plan.length, farthest)
        if not plan.noise_multiplier * rounding < 0.5:
            raise ParameterError("noise_multiplier is too large for so many rounds and numbers: rounding would cost as much")
        #: How much larger the noise is for what reading sums in floats can add to a client's move.
        self.inflation = (1 + 2.0**-48) / (1 - plan.noise_multiplier * rounding)

    def noisy(self, total: CentralSum) -> NDArray[np.float64]:
        """The sum of the next round with its noise, in the unit of the updates."""
        import torch

        radius = self.plan.radius(total.threshold)
        sigma = Fraction(self.plan.noise_multiplier * radius * self.inflation)
        sums = torch.from_numpy(total.total * (radius / 2**30))
        self._noise.ready(self.plan.length)
        found = self._noise.add(sums, NoisySums.of_scale("gaussian", sigma), 1.0)
        return np.asarray(found.numpy(), dtype=np.float64)
