"""Follow the regularised leader with noisy prefix sums: one pass over a stream, every model published as it goes.

The sums of gradients come from a binary tree of noisy blocks. A record is in floor(lg n) + 1 published blocks: ceil(lg n), as printed, is
one too few whenever n is a power of two, and none at all for n = 1.

>>> [tree_levels(n) for n in (1, 2, 1000, 1024)]
[1, 2, 10, 11]
>>> round(book_tree_multiplier(1000, 1.0, 1e-5), 4), round(book_tree_multiplier(1024, 1.0, 1e-5), 4)
(15.8196, 16.5917)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee, ParameterError, Repeated, tree_block, tree_blocks, tree_levels
from tacit.learning.reading import matrix
from tacit.learning.textbook.sets import ConstraintSet
from tacit.mechanisms import NoisySums, bits_for, to_lattice
from tacit.noise import from_lattice
from tacit.parameters import count, positive

Array = NDArray[np.float64]


def book_tree_multiplier(n: int, epsilon: float, delta: float) -> float:
    """Theorem 6.13 with the corrected depth: sqrt(2 (floor(lg n) + 1) (ln(1/delta) + epsilon)) / epsilon."""
    return math.sqrt(2 * tree_levels(n) * (math.log(1 / delta) + epsilon)) / epsilon


def regret_bound(n: int, dimension: int, clip: float, ridge: float, multiplier: float, length: float, beta: float) -> float:
    """Average regret against a point of this length, with probability 1 - beta: Theorem 6.15 with L^2 for L, Delta/(2 n) for Delta/2."""
    noise = clip**2 * multiplier * math.sqrt(dimension * tree_levels(n) * math.log(n / beta))
    return (noise + clip**2) / ridge + ridge * length**2 / (2 * n)


@dataclass
class PrefixSums:
    """Running sums of vectors of length at most `clip`, each published with Gaussian noise, over a stream of `n` items.

    At time t the sum of the last 2^i items is measured, 2^i the largest power of two that divides t; a prefix is a sum of such blocks.

    Guarantee
        Statement: the whole stream costs Repeated(Gaussian(multiplier), floor(lg n) + 1) when one item is replaced by nothing (zero-out).
        Proved in: Dwork, Naor, Pitassi, Rothblum 2010; blocks of one size are disjoint, so that an item is in one of each size; adaptive by
        the adaptivity of Gaussian composition. Correction: see the module.
    """

    n: int
    dimension: int
    clip: float
    multiplier: float
    time: int = 0
    _items: list[NDArray[np.int64]] = field(default_factory=list, repr=False)
    _blocks: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        count("n", self.n)
        count("dimension", self.dimension)
        positive("clip", self.clip)
        positive("multiplier", self.multiplier)

    @cached_property
    def noise(self) -> NoisySums:
        """The noise of one block, in which a record moves the sum by at most `clip`."""
        width = 1 << bits_for(self.dimension)
        return NoisySums.of_multiplier(
            "gaussian", self.multiplier, width, granularity=Fraction(1, width), adjacency=Adjacency.ZERO_OUT
        )

    @property
    def event(self) -> Event:
        return Repeated(self.noise.event, tree_levels(self.n))

    def add(self, item: Array | None) -> None:
        """Take one item; None stands for an absent record and counts as zero."""
        if self.time == self.n:
            raise ParameterError(f"the stream of {self.n} items is over; another one is another spend")
        self.time += 1
        # read value by value: an item of another length, or with a text in it, must not raise
        vector = np.nan_to_num(matrix([item], width=self.dimension), nan=0.0, posinf=np.inf, neginf=-np.inf)
        self._items.append(to_lattice(vector, self.clip)[0][0])
        size = tree_block(self.time)
        total = np.sum(self._items[-size:], axis=0)
        self._blocks[self.time] = self.noise.add(total)

    def get(self) -> Array:
        """The noisy sum of everything so far: as many blocks as the time has ones in binary."""
        total = np.zeros(self.dimension, dtype=np.int64)
        for _, end in tree_blocks(self.time):
            total = total + self._blocks[end]
        return from_lattice(total, self.noise.granularities[0]) * self.clip


@dataclass
class FollowTheLeader:
    """DP-FTRL: theta_{t+1} minimises <noisy sum of gradients, theta> + ridge/2 |theta|^2 over the set, that is, the projection of
    -sum/ridge.

    Guarantee
        Statement: all models together cost `event`, under zero-out, in one pass and in any order; Theorem 6.14.
    """

    sums: PrefixSums
    constraint: ConstraintSet
    ridge: float
    theta: Array = field(init=False)

    def __post_init__(self) -> None:
        positive("ridge", self.ridge)
        self.theta = self.constraint.project(np.zeros(self.constraint.dimension))

    @classmethod
    def plan(cls, guarantee: Guarantee, constraint: ConstraintSet, *, n: int, clip: float, ridge: float) -> FollowTheLeader:
        """The least noise that keeps the guarantee for a stream of n records, stated for zero-out."""
        levels = tree_levels(n)
        relation = Adjacency.ZERO_OUT
        _, mu = guarantee.settle(lambda mu: Repeated(Gaussian(math.sqrt(levels) / mu, adjacency=relation), levels), relation)
        return cls(PrefixSums(n, constraint.dimension, clip, math.sqrt(levels) / mu), constraint, ridge)

    @property
    def event(self) -> Event:
        return self.sums.event

    def partial_fit(self, gradient: Array | None) -> Array:
        """Take the gradient of the next record at the current point (None for an absent record); the next point."""
        self.sums.add(gradient)
        self.theta = self.constraint.project(-self.sums.get() / self.ridge)
        return self.theta
