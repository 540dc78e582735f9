"""One price for a fit whose later steps depend on what its earlier steps released.

A `Purse` holds the whole of a guarantee and gives it out in shares: of the squared mu where noise is Gaussian,
of epsilon under pure privacy. How the rest is used may depend on anything released before, because both totals
are proved filters; the event is that of the whole, and is known before any data is touched. Use it for fits
that look at the number of rows or the spread of the labels before they decide what to release next.

>>> purse = Purse.of(Guarantee(epsilon=1, delta=1e-6), Adjacency.ADD_REMOVE)
>>> purse.event == Gaussian(1 / purse.strength)
True
>>> from tacit.noise import test_mode
>>> with test_mode(1):
...     sums, deviation = purse.box_sum(np.ones((1000, 3)), 0.5)
>>> bool(np.all(abs(sums - 1000) < 5 * deviation)), purse.left
(True, 0.5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, ApproxDP, Composed, Event, Gaussian, Guarantee, PureDP
from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.learning.linear.pure import box_lattice, box_scale, deviation, noisy_box_sum, noisy_box_sums
from tacit.mechanisms import LATTICE_BITS, farthest, farthest_moment, farthest_table, noisy_max, noisy_second_moment, noisy_sum, noisy_table

Array = NDArray[np.float64]
CELLS = 1 << 17  # products held at once
SPARE = 1e-9  # shares are floats: their sum may exceed 1 by rounding, and the whole is smaller by this


@dataclass
class Purse:
    """A guarantee to be spent in shares, by one fit.

    Guarantee
        Statement: everything drawn from a purse together costs `event`, however the shares are chosen.
        Conditions: the shares add up to at most 1, which `take` enforces; each release is bounded as its method says.
        Proved in: Gaussian releases whose 1/multiplier^2 add up to at most mu^2, chosen one after another, are
        mu-GDP (Smith, Thakurta 2022, Theorem 1.1); pure epsilons chosen in the same way add up (Rogers, Roth,
        Ullman, Vadhan 2016).
    """

    adjacency: Adjacency
    pure: bool
    strength: float  # the total mu, or epsilon
    event: Event
    left: float = 1.0

    @classmethod
    def of(cls, guarantee: Guarantee, adjacency: Adjacency, *, pure: bool = False) -> Purse:
        """All of a guarantee; `pure` spends its epsilon without its delta."""
        if guarantee.pure or pure:
            assert guarantee.floats.epsilon is not None
            epsilon = guarantee.floats.epsilon * (1 - SPARE)
            event: Event = PureDP(epsilon, adjacency=adjacency)
            assert guarantee.keeps(event, adjacency)
            return cls(adjacency, True, epsilon * (1 - SPARE), event)
        event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
        return cls(adjacency, False, mu, event)

    @classmethod
    def pair(cls, guarantee: Guarantee, adjacency: Adjacency, part: float) -> tuple[Event, Purse, Purse]:
        """A Gaussian and a pure purse under one price: the pure one has this part of epsilon, the other the rest, with all of delta.

        >>> event, gaussian, pure = Purse.pair(Guarantee(epsilon=10, delta=1e-6), Adjacency.ADD_REMOVE, 0.8)
        >>> round(pure.strength, 6), round(gaussian.strength, 3)
        (8.0, 0.448)
        """
        epsilon, delta = guarantee.floats.epsilon, guarantee.floats.delta
        assert epsilon is not None and delta is not None
        pure = cls.of(Guarantee(epsilon=epsilon * part, delta=0), adjacency)
        gaussian = cls.of(Guarantee(epsilon=epsilon * (1 - part) * (1 - SPARE), delta=delta * (1 - SPARE)), adjacency)
        # what the Gaussian part costs at most; the two prices then add up without a numerical composition
        first = ApproxDP(epsilon * (1 - part) * (1 - SPARE), delta * (1 - SPARE), adjacency=adjacency)
        event = Composed(first, pure.event)
        assert guarantee.keeps(event, adjacency)
        return event, gaussian, pure

    @classmethod
    def after(cls, guarantee: Guarantee, adjacency: Adjacency, part: float) -> tuple[Event, Purse, Purse, Purse]:
        """A pure purse with a part of epsilon, and two others of which one may be used after it: a Gaussian one, and a pure one.

        Each of the two costs at most the rest of epsilon, with all of delta, so which one is used may depend on what the first released.

        >>> event, first, gaussian, pure = Purse.after(Guarantee(epsilon=1, delta=1e-6), Adjacency.ADD_REMOVE, 0.06)
        >>> round(first.strength, 6), round(gaussian.strength, 3), round(pure.strength, 6)
        (0.06, 0.223, 0.94)
        """
        event, gaussian, first = cls.pair(guarantee, adjacency, part)
        epsilon = guarantee.floats.epsilon
        assert epsilon is not None
        return event, first, gaussian, cls.of(Guarantee(epsilon=epsilon * (1 - part) * (1 - SPARE), delta=0), adjacency)

    def take(self, share: float) -> float:
        """The mu or epsilon of a share of the whole; a share that is not there is refused."""
        if not 0 < share <= self.left + SPARE:
            raise RuntimeError(f"a share of {share} was asked for where {self.left} is left")
        self.left = max(self.left - share, 0.0)
        whole = self.strength * (1 - SPARE)
        return whole * share if self.pure else whole * math.sqrt(share)

    def apart(self, share: float) -> Purse:
        """A purse with a share of this one."""
        part = self.take(share)
        event = PureDP(part, adjacency=self.adjacency) if self.pure else Gaussian(1 / part, adjacency=self.adjacency)
        return Purse(self.adjacency, self.pure, part, event)

    def box_noise(self, width: int, share: float) -> float:
        """The standard deviation of the noise that `box_sum` puts on a coordinate."""
        if self.pure:
            return deviation(width) * farthest(1.0, self.adjacency) / (self.strength * share)
        return farthest(math.sqrt(width), self.adjacency) / (self.strength * math.sqrt(share))

    def box_sum(self, rows: Array, share: float) -> tuple[Array, float]:
        """The sum of rows with coordinates in [-1, 1], and the standard deviation of its noise."""
        width = rows.shape[1]
        noise, part = self.box_noise(width, share), self.take(share)
        if self.pure:
            return noisy_box_sum(rows, epsilon=part, adjacency=self.adjacency), noise
        return noisy_sum(rows, bound=math.sqrt(width), multiplier=1 / part, adjacency=self.adjacency), noise

    def weighted_sum(self, rows: Array, weights: Array, share: float) -> tuple[Array, Array]:
        """The sums of coordinates in [-1, 1] that do not matter equally, and the standard deviation of each one's noise.

        Gaussian noise on a coordinate is in proportion to 1 / weight; pure noise is that of the box, and the same for all.
        """
        if self.pure:
            sums, noise = self.box_sum(rows, share)
            return sums, np.full(len(weights), noise)
        length = float(np.linalg.norm(weights))
        sums, noise = self.ball_sum(np.clip(rows, -1.0, 1.0) * weights / length, share)
        return sums * length / weights, noise * length / weights

    def weighted_noise(self, weights: Array, share: float) -> Array:
        """The standard deviations that `weighted_sum` would have."""
        if self.pure:
            return np.full(len(weights), self.box_noise(len(weights), share))
        found: Array = farthest(float(np.linalg.norm(weights)), self.adjacency) / (self.strength * math.sqrt(share)) / weights
        return found

    def ball_sum(self, rows: Array, share: float) -> tuple[Array, float]:
        """The same for rows that are clipped to length 1 first; a pure epsilon pays for the box around that ball."""
        if self.pure:
            return self.box_sum(rows, share)
        part = self.take(share)
        noise = farthest(1.0, self.adjacency) / part
        return noisy_sum(rows, bound=1.0, multiplier=1 / part, adjacency=self.adjacency), noise

    def moment(self, rows: Array, share: float) -> tuple[Array, float]:
        """The sum of x x^T over rows, clipped to length 1, or to [-1, 1] in each coordinate where privacy is pure; and the
        standard deviation of the noise beside the diagonal."""
        width = rows.shape[1]
        if not self.pure:
            part = self.take(share)
            found = noisy_second_moment(rows, bound=1.0, multiplier=1 / part, adjacency=self.adjacency)
            return found, farthest_moment(1.0, self.adjacency) / part / math.sqrt(2)
        upper = np.triu_indices(width)
        inside = np.clip(rows, -1.0, 1.0)
        block = max(1, CELLS // len(upper[0]))
        parts = (inside[start : start + block] for start in range(0, len(inside), block))
        products = (part[:, upper[0]] * part[:, upper[1]] for part in parts)
        noise, epsilon = self.box_noise(len(upper[0]), share), self.take(share)
        sums = noisy_box_sums(products, len(upper[0]), epsilon=epsilon, adjacency=self.adjacency)
        found = np.zeros((width, width))
        found[upper] = sums
        return found + np.triu(found, 1).T, noise

    def counts(self, cells: NDArray[np.int64], size: int, share: float, weights: Array | None = None) -> tuple[Array, float]:
        """For each view (a column of `cells`), how many people are in each of `size` cells, or their weights of at most 1 together;
        and the standard deviation."""
        noise, part = self.count_noise(cells.shape[1], share), self.take(share)
        found = noisy_table(
            np.ones((len(cells), 1)) if weights is None else weights[:, None], cells, size=size, bound=1.0,
            multiplier=1 / part, adjacency=self.adjacency,
            laplace=self.pure, counts=not self.pure,
        )  # fmt: skip
        return found[:, :, 0], noise

    def count_noise(self, views: int, share: float) -> float:
        """The standard deviation of the noise that `counts` puts on a count."""
        moved = float(farthest_table(views, self.adjacency, laplace=self.pure, counts=not self.pure))
        whole = math.sqrt(2) / share if self.pure else 1 / math.sqrt(share)
        return moved * whole / self.strength

    def choice_scale(self, share: float) -> float:
        """The scale of the exponential noise that `choice` puts on a sum."""
        return farthest(1.0, self.adjacency) / (self.strength * share)

    def choice(self, parts: Array, ahead: Array, share: float) -> int:
        """The column whose parts in [0, 1] have the greatest sum over people, with a public number `ahead` of each and with exponential
        noise, of which a pure epsilon pays for the scale 1 / epsilon: adding a person makes no sum smaller and none larger by more
        than 1, and exchanging one makes a sum larger by 1 and another smaller by 1 at most (report noisy max, Ding et al. 2021).

        >>> from tacit.noise import test_mode
        >>> purse = Purse.of(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE)
        >>> with test_mode(1):
        ...     purse.choice(np.tile([0.0, 1.0, 0.5], (1000, 1)), np.zeros(3), 0.4), purse.left
        (1, 0.6)
        """
        if not self.pure:
            raise RuntimeError("a choice is paid for with a pure epsilon")
        scale = box_scale(self.take(share), self.adjacency)
        totals: list[int] = box_lattice(np.maximum(parts, 0.0)).sum(axis=0).tolist()
        sums = [total + round(float(more) * (1 << LATTICE_BITS)) for total, more in zip(totals, ahead, strict=True)]
        space = Space(Vectors(Integers(), len(sums)), LInfinity(monotone=True))
        return int(noisy_max(scale).bind(space).release(sums).value)

    def rows(self, U: Array, declared: int | None, share: float) -> float:
        """The number of rows: declared, or bought with a share; at least its own noise, below which it says nothing."""
        if declared is not None:
            return float(declared)
        (total,), noise = self.box_sum(np.ones((len(U), 1)), share)
        return float(max(total, noise, 1.0))
