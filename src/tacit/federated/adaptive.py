"""Adaptive clipping: the threshold follows a quantile of the clients' norms, learned with noise that is charged.

Every client adds one number to its vector, half a unit up or down: whether its update was within the threshold.
The noisy sum of these moves the threshold (Andrew, Thakkar, McMahan, Ramaswamy 2021). The number is part of the one
vector that is clipped, noised and, under distributed trust, masked; so the price of a round stays Gaussian(z), and
the update itself gets a little more noise.

>>> round(update_multiplier(1.0, 5.0), 7), round(update_multiplier(0.6, 2.5), 7)
(1.0050378, 0.6043672)
>>> threshold = AdaptiveClip(start=0.1, clients=100)
>>> round(threshold.next(0.1, 0.0), 6)   # no client within the threshold: half of the clients too few
0.110517

Guarantee
    Statement: vector and count together cost Gaussian(z) a round, for any threshold chosen from what was published.
    Conditions: add/remove of one client; the update has norm at most C, its flag is +1/2 or -1/2, an absent client
    adds 0 to both.
    Proved in: scaled to equal noise the client moves the vector by sqrt(C^2 + (z' C / (2 b))^2) under noise z' C,
    z' = (z^-2 - (2 b)^-2)^(-1/2), which is 1/z of the noise. Printed rules that count *clipped* updates and subtract
    them as if they were unclipped run away from the quantile; the tests hold both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.errors import ParameterError
from tacit.parameters import count, number, positive

STEP = 0.2  # eta of Andrew et al. 2021, section 3.1
SMALLEST, LARGEST = 1e-6, 1e6  # times the start: thresholds beyond are noise


def update_multiplier(noise_multiplier: float, count_deviation: float) -> float:
    """The noise multiplier of the update where the count's noise has this deviation, for `noise_multiplier` in all.

    >>> update_multiplier(20, 5)
    Traceback (most recent call last):
    tacit.errors.ParameterError: count_deviation must be more than half of noise_multiplier (10), not 5
    """
    z, deviation = float(positive("noise_multiplier", noise_multiplier)), float(positive("count_deviation", count_deviation))
    if z >= 2 * deviation:
        raise ParameterError(f"count_deviation must be more than half of noise_multiplier ({z / 2:g}), not {deviation:g}")
    return float((z**-2 - (2 * deviation) ** -2) ** -0.5)


@dataclass(frozen=True)
class AdaptiveClip:
    """The threshold's rule. `quantile` of the clients should be within it; `clients` is the fixed public divisor.

    `deviation` is that of the noise in the count of clients, by default a twentieth of their number.
    """

    start: float
    clients: int
    quantile: float = 0.5
    step: float = STEP
    deviation: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", float(positive("start", self.start)))
        object.__setattr__(self, "clients", count("clients", self.clients))
        object.__setattr__(self, "step", float(positive("step", self.step)))
        if not 0 < number("quantile", self.quantile) < 1:
            raise ParameterError(f"quantile must be between 0 and 1, not {self.quantile}")
        object.__setattr__(self, "deviation", float(self.deviation or self.clients / 20))
        positive("deviation", self.deviation)

    def flag_size(self, noise_multiplier: float) -> float:
        """What a flag of 1 stands for in the vector, in thresholds."""
        return update_multiplier(noise_multiplier, self.deviation) / self.deviation

    def radius(self, noise_multiplier: float) -> float:
        """The norm of the whole vector, update and flag, in thresholds."""
        return math.hypot(1.0, self.flag_size(noise_multiplier) / 2)

    def next(self, threshold: float, within: float) -> float:
        """The next threshold from the noisy share of clients within this one; it stays within a public range."""
        moved = threshold * math.exp(-self.step * (within - self.quantile))
        return min(max(moved, self.start * SMALLEST), self.start * LARGEST)

    def covers(self, threshold: float) -> bool:
        """Whether a threshold is one that this rule can reach."""
        return self.start * SMALLEST <= threshold <= self.start * LARGEST

    def share(self, flags: float) -> float:
        """The noisy share of clients within the threshold, from the noisy sum of flags.

        Flags are signed halves and the divisor is fixed, so a client that is missing counts as one half.
        """
        return 0.5 + flags / self.clients

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form: the arguments."""
        return dict(vars(self))
