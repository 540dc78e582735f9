"""The rates of private convex optimisation: what good algorithms reach, and what none can beat.

`RateCard` holds the rates at given public numbers, `hard_instance` draws data on which the lower bound is
tight. Rates are for the excess of a *summed* loss of Lipschitz constant 1 over a set of diameter 1, up to
constants (and logarithms for strongly convex losses); scale by L |C|. A solver whose error on the hard
instance lies far below the lower bound is not private, whatever it claims.

>>> card = RateCard.of(dimension=100, rows=10_000, epsilon=1.0, delta=1e-6)
>>> round(card.convex, 1), round(card.lower, 1), round(card.population, 4)
(37.2, 10.0, 0.0137)
>>> RateCard.of(dimension=100, rows=10_000, epsilon=1.0).convex
100.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.noise import uniform_integers
from tacit.parameters import count, nonnegative, positive

Array = NDArray[np.float64]
#: The packing and fingerprinting bounds hold with small constants; a mean excess below this part of the scale is taken as broken.
SUSPICIOUS = 1 / 20


@dataclass(frozen=True)
class RateCard:
    """Rates at given public numbers.

    `convex` and `strongly_convex` are reached by known algorithms, and none goes below `lower` (Theorem
    6.26). `population` is the excess true risk of a mean loss, and `l1` the same over the l1 ball.
    """

    dimension: int
    rows: int
    epsilon: float
    delta: float
    convex: float
    lower: float
    strongly_convex: float
    population: float
    l1: float

    @classmethod
    def of(cls, *, dimension: int, rows: int, epsilon: float, delta: float = 0.0, strength: float = 1.0) -> RateCard:
        """The card for p = dimension, n = rows; delta = 0 is the pure column. `strength` is the strong convexity of one person's loss."""
        p, n = count("dimension", dimension), count("rows", rows)
        eps, slack, strong = float(positive("epsilon", epsilon)), float(nonnegative("delta", delta)), float(positive("strength", strength))
        if slack == 0:
            convex, lower, curved = p / eps, min(n, p / eps), p**2 * max(math.log(n), 1.0) / (n * strong * eps**2)
            population = 1 / math.sqrt(n) + p / (eps * n)
            sparse = math.sqrt(math.log(max(p, 2)) / n) + math.log(max(p, 2)) / math.sqrt(n * eps)
        else:
            logs = math.log(1 / slack)
            convex, lower, curved = math.sqrt(p * logs) / eps, min(n, math.sqrt(p) / eps), p * logs / (n * strong * eps**2)
            population = 1 / math.sqrt(n) + math.sqrt(p * logs) / (eps * n)
            sparse = math.sqrt(math.log(max(p, 2)) / n) + math.sqrt(math.log(max(p, 2)) * logs) / (n * eps) ** (2 / 3)
        return cls(p, n, eps, slack, min(convex, n), lower, min(curved, n), population, sparse)


def hard_instance(rows: int, dimension: int, epsilon: float, *, pure: bool = False) -> Array:
    """Points of the cube {-1, 1}^p / sqrt(p) whose sum has about the length M = min(n, p/epsilon), sqrt(p)/epsilon with a delta (Theorem
    6.25).

    M of the rows agree on a random sign pattern, the others cancel in pairs. With the loss -<theta, d> on the unit ball, finding the
    minimum means finding the direction of the sum, which differs at random from instance to instance.
    """
    n, p = count("rows", rows), count("dimension", dimension)
    agree = min(n, max(1, round((p if pure else math.sqrt(p)) / float(positive("epsilon", epsilon)))))
    agree -= (n - agree) % 2
    agree = max(agree, n % 2)
    pattern = 2.0 * uniform_integers(2, p) - 1
    others = 2.0 * uniform_integers(2, ((n - agree) // 2, p)) - 1
    return np.vstack([np.tile(pattern, (agree, 1)), others, -others]) / math.sqrt(p)


def linear_excess(points: Array, theta: Array) -> float:
    """The excess of -<theta, sum of points> over its minimum on the unit ball."""
    total = points.sum(axis=0)
    return float(np.linalg.norm(total) - theta @ total)


def too_good_to_be_private(excesses: Sequence[float], *, dimension: int, rows: int, epsilon: float, delta: float = 0.0) -> bool:
    """Whether a mean excess on hard instances lies so far below the lower bound that the solver cannot be private at this epsilon.

    >>> too_good_to_be_private([0.01, 0.02], dimension=100, rows=1000, epsilon=0.1, delta=1e-6)
    True
    """
    floor = RateCard.of(dimension=dimension, rows=rows, epsilon=epsilon, delta=delta).lower
    return float(np.mean(excesses)) < SUSPICIOUS * floor
