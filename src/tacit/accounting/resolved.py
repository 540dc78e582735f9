"""What a tree of events comes down to: pairs, Rényi curves, allocations, and what is disclosed; all that the engines compose.

A step is known by a dominating pair in each direction. Some are also known by a better bound on their Rényi divergences than their pair's:
the pair of the bounded-range class is the envelope of many laws, of which a mechanism has but one at a time, and the pair of discrete
Gaussian noise leaves out the far tails.

>>> from tacit.accounting.components import resolve
>>> from tacit.accounting import Adjacency, Exponential, Repeated
>>> parts = resolve(Repeated(Exponential(0.2), 10), Adjacency.ADD_REMOVE)
>>> round(float(renyi_curve(parts)(np.array([2.0]))[0]), 4)  # at most 10 * 2 * 0.2^2 / 8
0.0998
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.accounting.pairs import Array, Pair, Trivial

Curve = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Concentrated:
    """A bound on the Rényi divergences of one use, in both directions and over all orders > 1, and a rho for which it is zCDP."""

    curve: Curve
    rho: float


@dataclass(frozen=True, eq=False)
class Step:
    """`count` uses of a mechanism with a dominating pair in each direction.

    `floor` holds the pairs that some mechanism described by the event really attains; without it the pairs themselves are attained.
    `concentrated`, where there is one, bounds the divergences of the mechanism itself, which may be below those of its pair.
    """

    remove: Pair
    add: Pair
    count: int = 1
    floor: tuple[Pair, Pair] | None = None
    concentrated: Concentrated | None = None

    def lower(self) -> tuple[Pair, Pair]:
        """The pairs a lower bound may use."""
        return self.floor or (self.remove, self.add)


@dataclass(frozen=True, eq=False)
class RenyiStep:
    """`count` uses of something known only by a bound on its Rényi divergences, over all orders > 1, in both directions."""

    curve: Curve
    count: int = 1
    floor: tuple[Pair, Pair] = (Trivial(), Trivial())
    rho: float | None = None  # where the curve is a zCDP guarantee


@dataclass(frozen=True, eq=False)
class AllocationStep:
    """`count` epochs in each of which a record takes part in `selected` of `steps` Gaussian sums."""

    noise_multiplier: float
    steps: int
    selected: int
    count: int = 1


@dataclass(frozen=True, eq=False)
class Resolved:
    """Everything a tree composes; with a chance of at most `leak` in all, a batch was cut and counts as disclosed outright."""

    steps: tuple[Step, ...] = ()
    renyi: tuple[RenyiStep, ...] = ()
    allocations: tuple[AllocationStep, ...] = ()
    leak: float = 0.0

    def times(self, count: int) -> Resolved:
        """The same, `count` times."""
        return Resolved(
            tuple(replace(s, count=s.count * count) for s in self.steps),
            tuple(replace(s, count=s.count * count) for s in self.renyi),
            tuple(replace(s, count=s.count * count) for s in self.allocations),
            self.leak * count,
        )

    def plus(self, other: Resolved) -> Resolved:
        """Both."""
        return Resolved(self.steps + other.steps, self.renyi + other.renyi, self.allocations + other.allocations, self.leak + other.leak)


def renyi_curve(parts: Resolved) -> Curve:
    """The sum of all Rényi divergences, the worse direction at each order."""

    def curve(orders: Array) -> Array:
        orders = np.atleast_1d(np.asarray(orders, dtype=float))
        total = np.zeros((2, len(orders)))
        for step in parts.steps:
            if step.concentrated is not None:
                total += step.count * np.asarray(step.concentrated.curve(orders))
                continue
            for i, pair in enumerate((step.remove, step.add)):
                if pair.infinite > 0:
                    total[i] = np.inf
                else:
                    total[i] += step.count * np.array([_divergence(pair, a) for a in orders])
        for known in parts.renyi:
            total += known.count * np.asarray(known.curve(orders))
        return np.asarray(total.max(axis=0))

    return curve


def _divergence(pair: Pair, order: float) -> float:
    if order == math.inf:
        return max(0.0, pair.support()[1])
    return max(0.0, pair.kappa(order - 1) / (order - 1))
