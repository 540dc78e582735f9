"""The exponential mechanism for empirical risk: a point of a public grid, likelier the less its loss.

It gives pure privacy and needs no convexity; use it in few dimensions, where a grid is small. What counts is
the *range* of one person's loss over the grid: with c the factor in the exponent, all privacy losses lie in
an interval of width c times that range. So c = epsilon / range is epsilon-DP when a person is added or
removed; the textbook's epsilon / (2 L |C|) is half of that, and right for exchanging one.

>>> grid = np.linspace(-1, 1, 41)[:, None]
>>> plan = ExponentialERM(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, grid, lipschitz=1.0)
>>> plan.width, plan.event
(2.0, Exponential(epsilon=1.0, monotone=False))
>>> round(tail_bound(10, 1.0, 2.0, 1.0), 2), expected_excess_bound(10, 0.5)
(209.36, 20.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Exponential, Guarantee, ParameterError
from tacit.noise import choose
from tacit.parameters import count, positive

Array = NDArray[np.float64]
#: Every person's loss at every candidate: (people, candidates).
Losses = Callable[[Array], Array]
GRANULES = 1 << 20


def expected_excess_bound(dimension: int, exponent: float) -> float:
    """E excess <= p / c for log-concave densities exp(-c L) on a convex set.

    >>> expected_excess_bound(1, 1 / 4)
    4.0
    """
    return count("dimension", dimension) / float(positive("exponent", exponent))


def tail_bound(dimension: int, lipschitz: float, diameter: float, epsilon: float, t: float = 1.0) -> float:
    """(6.15): the excess that is exceeded with probability at most exp(-t); with t = 1 it bounds the expectation too.

    >>> round(tail_bound(1, 1.0, 2.0, 1.0), 2)
    51.16
    """
    # tail integral: the expectation of the bound is its value at t = 1
    return 8 * lipschitz * diameter / epsilon * ((dimension + 1) * math.log(3) + t)


@dataclass(frozen=True)
class ExponentialERM:
    """Sample from a grid with probability proportional to exp(-c sum of losses), exactly.

    `candidates` are the points of the grid, one a row; `lipschitz` bounds how fast one person's loss changes and is enforced: losses are
    taken relative to the first candidate and cut to the width. In one dimension a grid as fine as you like costs nothing but time.

    Guarantee
        Statement: costs Exponential(epsilon): all privacy losses within a range of epsilon.
        Conditions: candidates and width are public. No convexity.
        Proved in: McSherry and Talwar 2007; Durfee and Rogers 2019 for the range. Losses are whole numbers of granules, and the width
        counts one more granule for rounding. Correction: Algorithm 1's exponent is half of what add/remove allows; the proof of Theorem
        6.4 prints e^(-epsilon/2) for both ends.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    candidates: Array
    lipschitz: float

    def __post_init__(self) -> None:
        if self.candidates.ndim != 2 or not len(self.candidates):
            raise ParameterError("candidates must be a matrix with one public candidate a row")
        positive("lipschitz", self.lipschitz)
        if self.guarantee.floats.epsilon is None:
            raise ParameterError("the exponential mechanism here keeps an epsilon; give epsilon, and delta=0")
        _ = self.event  # an event checks epsilon and the relation, before anything is drawn

    @property
    def width(self) -> float:
        """The largest range of one person's loss: Lipschitz constant times diameter."""
        lowest, highest = self.candidates.min(axis=0), self.candidates.max(axis=0)
        return self.lipschitz * float(np.linalg.norm(highest - lowest))

    @property
    def exponent(self) -> float:
        """The factor c of the summed loss."""
        assert self.guarantee.floats.epsilon is not None
        pairs = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        return self.guarantee.floats.epsilon / (pairs * max(self.width, 1e-300)) * GRANULES / (GRANULES + 2)

    @property
    def event(self) -> Event:
        assert self.guarantee.floats.epsilon is not None
        return Exponential(self.guarantee.floats.epsilon, adjacency=self.adjacency)

    def scores(self, losses: Array) -> NDArray[np.int64]:
        """Total losses in granules: each person's lie within GRANULES + 1 of one another."""
        granule = max(self.width, 1e-300) / GRANULES
        known = np.clip(np.nan_to_num(losses, nan=0.0, posinf=1e300, neginf=-1e300), -1e300, 1e300)
        lifted = known - known.min(axis=1, keepdims=True)
        whole = np.rint(np.minimum(lifted / granule, float(GRANULES))).astype(np.int64)
        found: NDArray[np.int64] = whole.sum(axis=0)
        return found

    def run(self, losses: Losses) -> Array:
        """One candidate, drawn exactly from the law."""
        assert self.guarantee.floats.epsilon is not None
        pairs = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        rate = Fraction(self.guarantee.floats.epsilon) / (pairs * (GRANULES + 1))
        place = choose(-self.scores(losses(self.candidates)), multiplier=rate)
        found: Array = self.candidates[place]
        return found
