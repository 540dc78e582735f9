"""The server's side of a round without the messages: what arrives becomes one noisy sum, and the sum a mean.

>>> import numpy as np
>>> from tacit.federated.plan import plan
>>> made = plan(clients=2, size=2, clip=1, rounds=1, noise_multiplier=1e-6, delta=1e-5)
>>> total = CentralSum(made, threshold=1.0)
>>> [total.add(central.to_lattice(np.array(v), 1.0).tobytes()) for v in ([0.6, 0.8], [1.0, 0.0])], total.add(b"junk")
([True, True], False)
>>> mean_of(made, total.noisy(), 1.0).update.round(3).tolist()
[0.8, 0.4]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.federated import central
from tacit.federated.plan import FederatedPlan

Floats = NDArray[np.float64]
FEWEST = 0.1  # of the expected weight: a noisy weight below it is taken for it, so that no quotient explodes


class CentralSum:
    """Adds up vectors that come without masks. Memory is two vectors, however many clients there are."""

    def __init__(self, plan: FederatedPlan, threshold: float) -> None:
        self.plan, self.threshold = plan, threshold
        self._total = np.zeros(plan.length, dtype=np.int64)

    def add(self, sent: bytes) -> bool:
        """Take one client's message. False: it has not the form or the norm of this round and is left out."""
        local = self.plan.trust == "local"
        if not isinstance(sent, bytes) or len(sent) != (8 if local else 4) * self.plan.length:
            return False
        vector = np.frombuffer(sent, dtype="<i8" if local else "<i4")
        if not (central.plausible(vector, self.plan.noise_multiplier) if local else central.exact_norm_fits(vector)):
            return False
        self._total += vector
        return True

    @property
    def total(self) -> NDArray[np.int64]:
        """The exact sum in granules, for tests and simulations; it is not private."""
        return self._total

    def noisy(self) -> Floats:
        """The sum with the plan's noise, in the unit of the updates. Drawn once.

        Under local and silo trust the noise is in the vectors already.
        """
        if self.plan.trust in ("local", "silo"):
            exact = self._total * (self.plan.radius(self.threshold) / central.CLIP)
            del self._total
            return np.asarray(exact, dtype=np.float64)
        noise = central.noise(self.plan.noise_multiplier, self.plan.radius(self.threshold), self.plan.selection.adjacency)
        found = np.asarray(noise.release(self._total), dtype=np.float64)
        del self._total
        return found


@dataclass(frozen=True)
class RoundMean:
    """What a round gives: the mean update, and the noisy share of clients within the threshold where it adapts."""

    update: Floats
    within: float | None
    weight: float


def mean_of(plan: FederatedPlan, noisy: NDArray[Any], threshold: float) -> RoundMean:
    """The mean from a noisy sum: a function of the sum and of public numbers."""
    update, rest = noisy[: plan.size], list(noisy[plan.size :])
    divisor = float(plan.clients)
    if plan.weight_cap is not None:
        divisor = max(float(rest.pop(0)) / (plan.weight_size * threshold), FEWEST * plan.clients)
    within = None
    if plan.adaptive is not None:
        size = plan.adaptive.flag_size(plan.noise_multiplier) * threshold
        within = plan.adaptive.share(float(rest.pop(0)) / size)
    return RoundMean(np.asarray(update / divisor, dtype=np.float64), within, divisor)
