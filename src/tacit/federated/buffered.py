"""Asynchronous rounds with a fixed buffer: an update counts as soon as enough of them have come.

Clients train on whatever model they got, and the server steps whenever `plan.clients` updates have arrived. The size of
the buffer is public and fixed, so the divisor is; who fills it is whoever comes, so nothing is credited for sampling.
One client fills at most one place of a buffer, and at most `plan.participations` in all.

>>> import numpy as np
>>> from tacit.federated.plan import plan
>>> from tacit.federated.selection import Arriving
>>> made = plan(clients=2, size=1, clip=1, rounds=3, epsilon=50, delta=1e-6, selection=Arriving(2))
>>> server = BufferedRounds(made, np.zeros(1))
>>> sent = central.to_lattice(np.array([0.5]), 1.0).tobytes()
>>> [server.offer(client, sent) for client in (1, 1, 2)], server.version
([True, False, True], 1)

Guarantee
    Statement: all models together cost `plan.event`, with no credit for sampling.
    Conditions: central trust; each buffer is one round of the plan; a client's second update for a buffer is refused.
    Proved in: a buffer is a sum of vectors of bounded norm, one a client. Which clients are in it may depend on timing
    and on earlier models, as adaptive composition allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated import central
from tacit.federated.plan import FederatedPlan
from tacit.federated.sums import CentralSum, mean_of
from tacit.ledger import Account, paying

Floats = NDArray[np.float64]

__all__ = ["BufferedRounds", "central"]


class BufferedRounds:
    """The server of an asynchronous run. `version` counts the steps; `weights` are those of the last one."""

    def __init__(
        self, plan: FederatedPlan, start: NDArray[np.float64], account: Account | None = None, *,
        server: Callable[[Floats, Floats, int], Floats] | None = None,
    ) -> None:
        if plan.trust != "central" or plan.selection.credited or plan.strategy is not None:
            raise ParameterError("a buffer takes whoever comes, with independent noise, under central trust")
        self.plan, self.weights, self.version = plan, np.array(start, dtype=np.float64).ravel(), 0
        self._server = server or (lambda weights, mean, _: weights + mean)
        self._payment = paying(account, plan.event, purpose=plan.name, delta=plan.delta).open()
        self._times: Counter[int] = Counter()
        self._begin()

    def _begin(self) -> None:
        self._sum, self._here = CentralSum(self.plan, self.plan.clip), set[int]()

    def offer(self, client: int, sent: bytes) -> bool:
        """Take one client's vector; False: it is refused. The buffer that becomes full is released at once."""
        if self.version >= self.plan.rounds or client in self._here or self._times[client] >= self.plan.participations:
            return False
        with self._payment.touching():
            if not self._sum.add(sent):
                return False
            self._here.add(client)
            self._times[client] += 1
            if len(self._here) == self.plan.clients:
                mean = mean_of(self.plan, self._sum.noisy(), self.plan.clip).update
                self.version += 1
                self.weights = self._server(self.weights, mean, self.version)
                self._begin()
        if self.version == self.plan.rounds:
            self._payment.commit()
        return True
