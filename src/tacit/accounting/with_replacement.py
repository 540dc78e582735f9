"""A Gaussian sum over draws with replacement, one record replaced: better than revealing how often the record was drawn.

Write w_k for the chance that the record is drawn k times, and d for the largest distance, in units of the noise, that one draw
makes when it is exchanged. Fix what the other draws would be. A test that accepts N(s) with probability Phi(g(s)) has a g that changes
by at most the distance (Neyman and Pearson), so with g = -x where the record is not drawn, it accepts after k draws of the old
record with at most Phi(k d - x_k) and after k draws of the new one with at least Phi(-x_k), where x_k >= x may be chosen at best. Hence

    HS_alpha <= max over x of (1 - alpha) w_0 Phi(-x) + sum over k >= 1 of w_k max over x_k >= x of (Phi(k d - x_k) - alpha Phi(-x_k)),

for alpha >= 1, in both directions and averaged over the other draws. Revealing k (Balle, Barthe, Gaboardi 2018, Theorem 10) charges each k
its own share of w_0, which is never less. The maximum over x is where sum w_k (exp(k d x - (k d)^2 / 2) - alpha)_+ = w_0 (alpha - 1), and
the P- and Q-mass of losses above log(alpha) are read off there.

From below stand two data sets that do occur: all records alike but for one, sum w_k N(k d, 1) against N(0, 1). Where a few draws
in all make the loss, x_k = x is best for every k and the two meet.

>>> pair = DrawnGaussian(0.5, [(1, 0.09), (2, 0.01)])
>>> from tacit.accounting.pairs import single_delta
>>> 0.021 < single_delta(pair, 0.0)[1] < 0.022  # at alpha = 1 every k may have its own test
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tacit.accounting import amplification, mixture
from tacit.accounting.pairs import Array, Pair
from tacit.accounting.sampled import END, BinnedPair, Mirrored
from tacit.accounting.special import log_ndtr, ndtr

_ROUNDS = 60
_STRIDE = 32  # of many points every so manieth is solved from scratch, and the others from there
_MANY = 100
_LEAST = -120.0  # draws so often that they are rarer than exp of this, all together, are given up as disclosed

Counts = Sequence[tuple[int, float]]  # how often a record is drawn, at least once, and the chance of that


def draw_counts(size: int, draws: int) -> tuple[list[tuple[int, float]], float]:
    """How often one of `size` records is drawn, with the chances of that, and the chance of more draws than listed.

    >>> draw_counts(2, 2)
    ([(1, 0.5), (2, 0.25)], 0.0)
    """
    if size == 1:
        return [(draws, 1.0)], 0.0
    log_chance = draws * math.log1p(-1 / size)
    counts: list[tuple[int, float]] = []
    for k in range(1, draws + 1):
        log_chance += math.log((draws - k + 1) / k) - math.log(size - 1)
        if log_chance < _LEAST and k > draws / size:
            return counts, math.exp(amplification.log_binomial_tail(draws, 1 / size, k - 1))
        counts.append((k, math.exp(log_chance)))
    return counts, 0.0


class _Half(BinnedPair):
    """The losses above 0 of the bound; below 0 it is never asked."""

    def __init__(self, shift: float, counts: Counts, given_up: float) -> None:
        super().__init__()
        self.infinite = given_up
        self._d = shift * np.array([float(k) for k, _ in counts])
        self._w = np.array([w for _, w in counts])
        self._never = max(0.0, 1 - math.fsum(w for _, w in counts) - given_up)

    def reverse(self) -> Pair:
        raise NotImplementedError("only losses above 0 are known")

    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    def thresholds(self, epsilon: Array) -> tuple[Array, Array]:
        """The best x and x_k at each epsilon in [0, inf), in increasing order."""
        d, w = self._d[:, None], self._w[:, None]
        alone = 0.5 * d + epsilon / d  # where the likelihood ratio of k draws is alpha
        goal = self._never * -np.expm1(-epsilon)
        # one k by itself reaches the goal to the right of the root; the sum is convex, so Newton's steps from there go down to it
        least, most = alone.min(axis=0), np.min(alone + np.log1p(goal / w) / d, axis=0)
        x = most
        if len(epsilon) > 64 * _STRIDE:
            places = np.unique(np.append(np.arange(0, len(epsilon), _STRIDE), len(epsilon) - 1))
            x = np.minimum(most, np.interp(np.arange(len(epsilon)), places, self.thresholds(epsilon[places])[0]))
        for _ in range(_ROUNDS):
            y = d * (x - alone)
            reached = w * np.exp(np.minimum(y, 700.0))
            reached[y <= 0] = 0.0
            slope = (d * reached).sum(axis=0)
            np.expm1(np.clip(y, 0.0, 700.0), out=reached)
            move = ((w * reached).sum(axis=0) - goal) / np.maximum(slope, 1e-300)
            x = np.clip(x - move, least, most)
            if np.all(np.abs(move) <= 1e-13 * x):  # the next step would be its square
                break
        return x, np.maximum(alone, x)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        finite = np.isfinite(edges)
        x, own = self.thresholds(np.maximum(edges[finite], 0.0))
        p, q = np.zeros(len(edges)), np.zeros(len(edges))
        never = self._never * ndtr(-x)
        p[finite] = never + self._w @ ndtr(self._d[:, None] - own)
        q[finite] = never + self._w @ ndtr(-own)
        return np.maximum(-np.diff(p), 0.0), np.maximum(-np.diff(q), 0.0)


class DrawnGaussian(Mirrored):
    """The symmetric pair of that bound: `shift` is d, `counts` lists k >= 1 with w_k, and `given_up` counts as disclosed."""

    def __init__(self, shift: float, counts: Counts, given_up: float = 0.0) -> None:
        self.shift, self.counts, self.given_up = shift, tuple(counts), given_up
        super().__init__(_Half(shift, self.counts, given_up))

    def __repr__(self) -> str:
        return f"DrawnGaussian({self.shift}, {len(self.counts)} counts)"

    def log_beyond(self, c: float) -> float:
        # x_k is at least k d / 2 + eps / (k d), so each k has at most the tail of its own Gaussian; the part that is never drawn
        # weighs at most exp(-eps) of the whole, since the Q-mass beyond a loss does
        d, w = self.shift * np.array([float(k) for k, _ in self.counts]), np.array([w for _, w in self.counts])
        terms = np.log(w) + 0.5 * c * (c + 1) * d * d + log_ndtr((c + 0.5) * d - END / d)
        return float(np.logaddexp.reduce(terms)) + 1e-12

    def trimmed(self, mass: float, steps: int = 1) -> DrawnGaussian:
        """The same with the rarest counts given up as disclosed, `mass` at most: an upper bound, easier to compose."""
        counts, spare = list(self.counts), mass - self.given_up
        while len(counts) > 1 and counts[-1][1] <= spare:
            spare -= counts.pop()[1]
        return self if len(counts) == len(self.counts) else DrawnGaussian(self.shift, counts, mass - spare)


class AttainedDraws(mixture.MixturePair):
    """sum w_k N(k d, 1) against N(0, 1): all records alike but for one, which do occur. The reversed pair has `away` False."""

    def __init__(self, shift: float, counts: Counts, *, away: bool = True) -> None:
        self.shift, self.counts, self.away = shift, tuple(counts), away
        drawn = [(k * shift, w) for k, w in self.counts]
        mixed = [(0.0, max(0.0, 1 - math.fsum(w for _, w in drawn))), *drawn]
        super().__init__(mixed) if away else super().__init__([(0.0, 1.0)], mixed)

    def reverse(self) -> Pair:
        return AttainedDraws(self.shift, self.counts, away=not self.away)

    def trimmed(self, mass: float, steps: int = 1) -> AttainedDraws:
        """A lower bound, easier to compose: more draws than the last that is kept count as that many, which tells less.

        Lowering a shift moves P down in the stochastic order, and the best tests are all half-lines, so no hockey-stick divergence grows.
        """
        counts, moved = list(self.counts), 0.0
        if steps * math.fsum(w for _, w in counts[1:]) >= _MANY:  # what hardly ever happens does not make the loss where so much does
            mass = max(mass, 0.01 / steps)
        while len(counts) > 1 and moved + counts[-1][1] <= mass:
            moved += counts.pop()[1]
        if not moved:
            return self
        last, weight = counts[-1]
        return AttainedDraws(self.shift, [*counts[:-1], (last, weight + moved)], away=self.away)
