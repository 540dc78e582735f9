"""The client's side of a round without the messages: check the plan, pay, train, and make the one vector that leaves.

Nothing in here knows Flower. The simulator, the in-process grid and real nodes all send what `Device.vector` makes.

>>> import numpy as np
>>> from tacit.federated.plan import plan
>>> from tacit.federated.policy import Policy
>>> policy = Policy("p", budget="eps=9, delta=1e-5", expires="2099-01-01", clip=1, noise=0.1, trust=("central",),
...                 participations=2, workloads=("any",), code=("any",))
>>> device = Device(policy, ClientBook(None, policy))
>>> made = plan(clients=10, size=2, clip=1, rounds=2, epsilon=8, delta=1e-5)
>>> device.check(made, 1.0)
>>> device.vector(made, lambda: (np.array([3.0, 4.0]), 7), run="r", turn=1, threshold=1.0).round(6).tolist()
[0.6, 0.8]
>>> device.vector(made, lambda: 1 / 0, run="r", turn=2, threshold=1.0).tolist()   # a failure looks like a zero update
[0.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.federated import central
from tacit.federated.errors import FederatedError
from tacit.federated.plan import FederatedPlan
from tacit.federated.policy import ClientBook, Policy
from tacit.ledger import ReleaseFailed

Floats = NDArray[np.float64]
#: Trains, and gives the update with the number of examples behind it.
Work = Callable[[], tuple[NDArray[Any], int]]


@dataclass
class Device:
    """A policy and a book."""

    policy: Policy
    book: ClientBook

    def check(self, plan: FederatedPlan, threshold: float, code: str | None = None) -> None:
        """Refuse what the policy does not allow; `threshold` is the clip of this round, `code` the hash of what will run."""
        self.policy.check(plan, code=code, today=self.book.day())
        fits = threshold == plan.clip if plan.adaptive is None else plan.adaptive.covers(threshold)
        if not 0 < threshold <= self.policy.clip or not fits:
            raise FederatedError(code="federated-clip", given=threshold, most=self.policy.clip)

    def vector(self, plan: FederatedPlan, work: Work, *, run: str, turn: int, threshold: float) -> Floats:
        """The vector of this round, clipped to `plan.radius(threshold)`. Call `check` first.

        The book is written before `work` is called. Whatever goes wrong in it looks like an
        update of zero: whether it fails may depend on the data.
        """
        payment = self.book.enter(plan, run=run, turn=turn)
        update, examples = np.zeros(plan.size), 0
        try:
            with payment.touching():
                found, number = work()
                flat = np.asarray(found, dtype=np.float64).ravel()
                if flat.shape == (plan.size,):
                    update, examples = flat, max(0, int(number))
            payment.commit()
        except ReleaseFailed:
            pass  # a round that failed looks like one that taught nothing
        return composed(plan, update, examples, threshold)


@np.errstate(all="ignore")
def composed(plan: FederatedPlan, update: NDArray[Any], examples: int, threshold: float) -> Floats:
    """Update, weight and flag as one vector of norm at most `plan.radius(threshold)`.

    >>> from tacit.federated.plan import plan as planned
    >>> made = planned(clients=10, size=1, clip=2, rounds=1, epsilon=8, delta=1e-5, weight_cap=100)
    >>> composed(made, np.array([10.0]), 50, 2.0).tolist()
    [1.0, 0.25]
    """
    flat, length = central.clipped(update, threshold)
    parts = [flat]
    if plan.weight_cap is not None:
        weight = min(examples, plan.weight_cap) / plan.weight_cap
        parts = [flat * weight, np.array([weight * plan.weight_size * threshold])]
    if plan.adaptive is not None:
        within = 0.5 if length <= threshold else -0.5
        parts.append(np.array([within * plan.adaptive.flag_size(plan.noise_multiplier) * threshold]))
    return np.concatenate(parts)
