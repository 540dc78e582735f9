"""More private first-order methods of chapter 6: Frank-Wolfe over any set, mirror descent, cutting planes, online-to-batch, supports.

All but the last two see the data through one noisy sum of clipped gradients a step, so that their price is `Repeated(Gaussian)` whatever
the loss is; they differ in what they do with the sum. Use Frank-Wolfe where projections are dear and linear minima cheap, mirror descent
for shares of a whole, cutting planes in few dimensions, online-to-batch where each person is seen once, and a support where few features
matter.

>>> plan = NoisySteps.plan(Guarantee(epsilon=1, delta=1e-6), Adjacency.ADD_REMOVE, clip=1.0, steps=50)
>>> plan.event == Repeated(Gaussian(plan.multiplier), 50)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Exponential, Gaussian, Guarantee, ParameterError, Repeated
from tacit.learning.textbook.ftrl import FollowTheLeader
from tacit.learning.textbook.sets import Box, L1Ball, L2Ball
from tacit.learning.trees.tree import largest
from tacit.mechanisms import noisy_sum
from tacit.noise import choose
from tacit.parameters import count, positive

Array = NDArray[np.float64]
#: The gradient of every person's loss at a point: one row for each person.
Gradients = Callable[[Array], Array]
UNITS = 1 << 20  # whole numbers for the largest product of a feature and a label, in the scores of a support


@dataclass(frozen=True)
class NoisySteps:
    """Noisy sums of clipped gradients, fixed before the data is touched.

    Guarantee
        Statement: all sums together cost `event`, Repeated(Gaussian(multiplier), steps), whatever is done with them.
        Conditions: none on the loss; every gradient is clipped to length `clip`. Proved in: `mechanisms.noisy_sum`, adaptive composition.
    """

    adjacency: Adjacency
    clip: float
    steps: int
    multiplier: float
    event: Event

    @classmethod
    def plan(cls, guarantee: Guarantee, adjacency: Adjacency, *, clip: float, steps: int) -> NoisySteps:
        """The least noise for so many steps that keeps the guarantee."""
        turns, bound = count("steps", steps), float(positive("clip", clip))
        event, mu = guarantee.settle(lambda mu: Repeated(Gaussian(math.sqrt(turns) / mu, adjacency=adjacency), turns), adjacency)
        return cls(adjacency, bound, turns, math.sqrt(turns) / mu, event)

    def gradient(self, gradients: Gradients, theta: Array) -> Array:
        """The noisy sum of gradients at a point."""
        return noisy_sum(gradients(theta), bound=self.clip, multiplier=self.multiplier, adjacency=self.adjacency)


def lowest(constraint: L1Ball | L2Ball | Box, direction: Array) -> Array:
    """The point of a set with the least inner product: what Frank-Wolfe needs instead of a projection.

    >>> lowest(L2Ball(2), np.array([3.0, 4.0])), lowest(L1Ball(2, radius=2.0), np.array([3.0, -4.0]))
    (array([-0.6, -0.8]), array([0., 2.]))
    """
    if isinstance(constraint, L2Ball):
        length = float(np.linalg.norm(direction))
        return -constraint.radius * direction / length if length > 0 else np.zeros(constraint.dimension)
    if isinstance(constraint, L1Ball):
        found = np.zeros(constraint.dimension)
        place = int(np.abs(direction).argmax())
        found[place] = -constraint.radius * np.sign(direction[place])
        return found
    ends = [constraint.project(np.full(constraint.dimension, sign * np.inf)) for sign in (-1, 1)]
    chosen: Array = np.where(direction > 0, ends[0], ends[1])
    return chosen


def frank_wolfe(plan: NoisySteps, gradients: Gradients, constraint: L1Ball | L2Ball | Box) -> Array:
    """Frank-Wolfe over a general set: a noisy gradient, its linear minimum, a step of 2 / (t + 2) towards it.

    Talwar, Thakurta, Zhang 2015 (the second variant of section 6.4). Without noise the excess is at most 2 Gamma / (T + 2), with Gamma the
    curvature; a constant step, as printed in Algorithms 5 and 6, does not converge.
    """
    theta = constraint.project(np.zeros(constraint.dimension))
    for turn in range(plan.steps):
        theta = theta + 2 / (turn + 2) * (lowest(constraint, plan.gradient(gradients, theta)) - theta)
    return theta


def mirror_descent(plan: NoisySteps, gradients: Gradients, dimension: int, length: float) -> Array:
    """Entropic mirror descent on the simplex: shares are multiplied by exp(-length * noisy gradient); the mean of the points.

    Without noise, for gradients of at most G in every coordinate, the excess is at most ln(p) / (length T) + length G^2 / 2 (Beck and
    Teboulle 2003, as used by Talwar, Thakurta and Zhang 2014).
    """
    logs, total = np.zeros(count("dimension", dimension)), np.zeros(dimension)
    step = float(positive("length", length))
    for _ in range(plan.steps):
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        total = total + shares
        logs = logs - step * plan.gradient(gradients, shares)
    return total / plan.steps


def cutting_planes(plan: NoisySteps, gradients: Gradients, ball: L2Ball) -> Array:
    """The ellipsoid method with noisy gradients: each step keeps the half of an ellipsoid in which the loss may fall; its last centre.

    Without noise the volume falls by exp(-1 / (2 (p + 1))) a step (Grötschel, Lovász and Schrijver 1988), so that few dimensions need few
    steps, and few steps little noise. A centre outside the ball is cut by its own direction, which sees no data and costs nothing.
    """
    p = ball.dimension
    centre, shape = np.zeros(p), np.eye(p) * ball.radius**2
    for _ in range(plan.steps):
        noisy = plan.gradient(gradients, ball.project(centre))
        cut = centre if np.linalg.norm(centre) > ball.radius else noisy
        size = float(cut @ shape @ cut)
        if not size > 0:
            continue
        if p == 1:
            half = math.sqrt(float(shape[0, 0])) / 2
            centre, shape = centre - half * np.sign(cut), np.array([[half * half]])
            continue
        along = shape @ cut / math.sqrt(size)
        centre = centre - along / (p + 1)
        shape = p * p / (p * p - 1) * (shape - 2 / (p + 1) * np.outer(along, along))
        shape = (shape + shape.T) / 2
    return ball.project(centre)


def online_to_batch(leader: FollowTheLeader, gradients: Iterable[Callable[[Array], Array] | None]) -> Array:
    """The mean of the points of an online method over one pass: its excess is at most the regret over the number of people.

    `gradients` has one person's gradient as a function of the point, None for one who is absent; it stops at the length of the stream. The
    book resamples people with replacement (6.50 to 6.55), which costs up to ln(n / delta) times the noise for people who appear often; one
    pass in an order that does not depend on the data needs none of it, and holds for the population where people are drawn independently.

    Guarantee
        Statement: costs `leader.event`, under zero-out. Proved in: `FollowTheLeader`; a mean post-processes its models.
    """
    total, seen = np.zeros(leader.constraint.dimension), 0
    for one in gradients:
        if seen == leader.sums.n:
            break
        total, seen = total + leader.theta, seen + 1
        leader.partial_fit(None if one is None else one(leader.theta))
    return total / max(seen, 1)


@dataclass(frozen=True)
class SupportSelection:
    """Which few features to fit: the largest |sum of x_j y|, chosen one after another by the exponential mechanism.

    Kifer, Smith, Thakurta 2012 and Smith, Thakurta 2013: where features are nearly uncorrelated and few matter, the support is found
    exactly once n is about s log(p) / epsilon, and what follows pays for s dimensions instead of p.

    >>> plan = SupportSelection.plan(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, size=2)
    >>> plan.epsilon * 2 <= 1
    True

    Guarantee
        Statement: costs `event`, Repeated(Exponential(epsilon), size).
        Conditions: features and labels are cut to [-1, 1]. Proved in: a score is the absolute value of a sum of whole numbers of at most
        UNITS, so a person moves it by at most that, twice when exchanged; weights are exp(epsilon score / (2 sensitivity)), and every round
        chooses among what is left.
    """

    adjacency: Adjacency
    size: int
    epsilon: Fraction
    event: Event

    @classmethod
    def plan(cls, guarantee: Guarantee, adjacency: Adjacency, *, size: int) -> SupportSelection:
        """The sharpest choice of so many features that keeps the guarantee."""
        rounds = count("size", size)
        event, epsilon = largest(
            guarantee, adjacency, lambda each: Repeated(Exponential(each, monotone=False, adjacency=adjacency), rounds)
        )
        return cls(adjacency, rounds, epsilon, event)

    @staticmethod
    def scores(X: Array, y: Array) -> NDArray[np.int64]:
        """|sum of x_j y| in whole numbers, UNITS for the largest product of one person; missing values count as 0."""
        products = np.clip(np.nan_to_num(X), -1.0, 1.0) * np.clip(np.nan_to_num(y), -1.0, 1.0)[:, None]
        found: NDArray[np.int64] = np.abs(np.rint(products * UNITS).astype(np.int64).sum(axis=0))
        return found

    def run(self, X: Array, y: Array) -> list[int]:
        """The chosen features, in the order of choice."""
        if self.size > X.shape[1]:
            raise ParameterError(f"size must be at most the number of features, {X.shape[1]}, not {self.size}")
        rate = self.epsilon / (2 * UNITS * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1))
        scores, left, found = self.scores(X, y), list(range(X.shape[1])), list[int]()
        for _ in range(self.size):
            found.append(left.pop(choose(scores[left], multiplier=rate)))
        return found
