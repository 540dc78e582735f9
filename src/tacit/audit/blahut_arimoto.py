"""Two fixed points of Blahut (1972) and Arimoto (1972), each with a bound on what is left to gain.

`capacity` finds the prior under which a channel tells most about its secret; `rate_distortion` finds the channel that tells least about the
secret among those with as small an expected distortion. Both stop when upper and lower bound meet, not when steps become small.

>>> import numpy as np
>>> from tacit.audit.channel import Channel
>>> found = capacity(Channel(np.array([[0.9, 0.1], [0.1, 0.9]])))
>>> round(found.bound.upper / math.log(2), 6)  # 1 - h(0.1) bits
0.531004
>>> best = rate_distortion([0.5, 0.5], [[0, 1], [1, 0]], beta=math.log(9))
>>> round(best.distortion, 6), round(best.rate / math.log(2), 6)
(0.1, 0.531004)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.bound import Bound
from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count, nonnegative, positive
from tacit.audit.channel import Channel, distribution

__all__ = ["Capacity", "RateDistortion", "capacity", "rate_distortion"]

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Capacity:
    """The capacity in nats, the prior that attains its lower end, and the number of steps taken."""

    bound: Bound
    prior: Reals
    steps: int


def capacity(channel: Channel, *, width: float = 1e-9, most: int = 100_000) -> Capacity:
    """Shannon's capacity of a channel, enclosed: I(p) below, the largest divergence of a row from the mixture above.

    Stops when the bracket is `width` wide, or after `most` steps with the bracket as it stands, which is valid all the same.

    >>> round(capacity(Channel(np.eye(8))).bound.lower / math.log(2), 9)
    3.0
    """
    width, most = float(positive("width", width)), count("most", most)
    prior = np.full(channel.secrets, 1 / channel.secrets)
    low, high, best, steps = 0.0, math.inf, prior, 0
    while steps < most:
        steps += 1
        law = np.asarray(prior @ channel.matrix).ravel()
        gaps = channel.divergences(law)
        here = float(prior[prior > 0] @ gaps[prior > 0])
        if here >= low:
            low, best = here, prior
        high = min(high, float(gaps.max()))
        if high - low <= width:
            break
        prior = prior * np.exp(gaps - gaps.max())
        prior = prior / prior.sum()
    slack = 4e-15 * (1 + high)  # the rounding of sums over the matrix
    return Capacity(Bound(max(0.0, low - slack), max(high, low) + slack, "Blahut-Arimoto"), best, steps)


@dataclass(frozen=True, eq=False)
class RateDistortion:
    """The channel of least mutual information at its distortion: `objective` is rate + beta * distortion, in nats.

    `gap` bounds how far the objective lies above the least possible; `trace` holds the objective after each step.
    """

    channel: Channel
    rate: float
    distortion: float
    beta: float
    gap: float
    trace: tuple[float, ...]

    @property
    def objective(self) -> float:
        return self.rate + self.beta * self.distortion

    def support(self, least: float = 1e-9) -> int:
        """How many observations occur with probability above `least`."""
        return int((self.channel.marginal() > least).sum())


def rate_distortion(
    prior: ArrayLike,
    distortion: ArrayLike,
    beta: float,
    *,
    observations: ArrayLike | None = None,
    gap: float = 1e-6,
    most: int = 10_000,
) -> RateDistortion:
    """The channel that minimises I(S; O) + beta * E[distortion(S, O)] (section 15.7.2; Cover and Thomas 2006, section 10.8).

    The iteration is q(o) = sum_s pi(s) C[s, o], C[s, o] proportional to q(o) e^(-beta d(s, o)). It stops when the objective is proved
    to lie within `gap` of the least (Csiszár 1974: the logarithm of the largest factor by which q grows), or after `most` steps.

    >>> found = rate_distortion([0.5, 0.5], [[0, 1], [1, 0]], beta=0)  # nothing to be near to: nothing is told
    >>> found.rate
    0.0
    """
    weights = np.asarray(distortion, dtype=np.float64)
    if weights.ndim != 2 or not weights.size or not np.isfinite(weights).all():
        raise ParameterError("distortion must be a matrix of finite numbers: a row for each secret, a column for each observation")
    belief = distribution("prior", prior, weights.shape[0])
    beta = float(nonnegative("beta", beta))
    gap, most = float(positive("gap", gap)), count("most", most)
    least = weights.min(axis=1)
    kernel = np.exp(-beta * (weights - least[:, None]))  # the shift cancels in every row and keeps it from vanishing
    offset = beta * float(belief @ least)
    law = np.full(weights.shape[1], 1 / weights.shape[1])
    trace: list[float] = []
    for _ in range(most):
        mass = kernel @ law
        trace.append(offset - float(belief @ np.log(mass)))  # the objective at the channel this law makes
        growth = (belief / mass) @ kernel
        left = math.log(float(growth.max()))
        if left <= gap:
            break
        law = law * growth
        law /= law.sum()
    mass = kernel @ law
    left = max(0.0, math.log(float(((belief / mass) @ kernel).max())))
    matrix = kernel
    matrix *= law
    matrix /= mass[:, None]
    channel = Channel(matrix, belief, observations)
    cost = float(belief @ np.einsum("so,so->s", matrix, weights))
    return RateDistortion(channel, channel.mutual_information(), cost, beta, left, tuple(trace))
