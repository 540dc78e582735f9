"""Two tails the contour needs: of the characteristic function at high frequencies, and of the loss where it is heavy.

>>> from tacit.accounting.laplace import laplace
>>> 0.9 < tail(laplace(0.1), 1.0, 1e6) < 1  # two atoms never die out
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.accounting.mixture import MixturePair
from tacit.accounting.pairs import Array, Pair
from tacit.accounting.saddle import Components, Declined, inflated


def _spread(loss: Array, weight: Array, t: float) -> float:
    """A bound on |sum_j w_j exp(i s l_j)| for every s in [t, 2t].

    1 - |psi(s)|^2 = E[1 - cos(s (L - L'))] is at least 2 s^2 / pi^2 times E[(L - L')^2] over pairs closer than pi / (2t): those in the same
    or in neighbouring bins of width pi / (4t).
    """
    if (loss.max() - loss.min()) * t > 1e12:  # every loss in a bin of its own
        return 1.0
    bins = np.floor((loss - loss.min()) * (4 * t / math.pi)).astype(np.int64)
    labels, bins = np.unique(bins, return_inverse=True)
    mass = np.bincount(bins, weight)
    mean = np.bincount(bins, weight * loss) / np.maximum(mass, 1e-300)
    square = np.bincount(bins, weight * (loss - mean[bins]) ** 2)
    near = np.diff(labels) == 1
    pairs = 2 * float(np.dot(mass, square))
    cross = mass[1:] * square[:-1] + mass[:-1] * square[1:] + mass[1:] * mass[:-1] * np.diff(mean) ** 2
    pairs += 2 * float(cross[near].sum())
    return math.sqrt(max(0.0, 1 - 2 * t * t / math.pi**2 * pairs))


def tail(pair: Pair, c: float, t: float) -> float:
    """A bound on the tilted characteristic function that holds for every frequency >= t."""
    bound = pair.decay(c, t)
    if isinstance(pair, MixturePair) or bound < 0.25:
        return bound
    nodes = pair.nodes(c, 0.0)
    if nodes is None or pair.decay(c, 1e12 * t) == 1.0:
        return bound
    worst = 0.0
    for _ in range(40):  # in doubling bands, until the monotone bound alone is below what the bands have given
        worst = max(worst, min(pair.decay(c, t), _spread(nodes.loss, nodes.weight, t) + 1e-12))
        t *= 2
        far = pair.decay(c, t)
        if far <= worst or worst == 1.0:
            return worst
    return max(worst, far)


@dataclass(frozen=True, slots=True)
class Jumps:
    """Bounds on P(L > x) by the largest single loss: where a heavy tail makes Chernoff's bound weak.

    Either some step's loss exceeds a, which a union bound caps, or none does, and Chernoff's bound holds for the truncated losses
    with a far larger tilt.
    """

    x: Array
    log_tail: Array

    def series(self, c: float, level: Array, tilts: Array, epsilon: float, period: float) -> float:
        """sum over m >= 1 of exp(c m W) P(L > eps + m W): eight terms from the table, the rest by Chernoff's bound."""
        m = np.arange(1, 9)
        place = np.searchsorted(self.x, epsilon + m * period, side="right") - 1
        if place[0] < 0 or not len(tilts):
            return math.inf
        near = float(np.exp(np.minimum(c * m * period + self.log_tail[place], 700.0)).sum())
        return near + geometric(level - tilts * epsilon - 9 * (tilts - c) * period, (tilts - c) * period)


def binned(pair: Pair, reach: float) -> tuple[Array, Array]:
    """Losses up to `reach`, with masses that bound every moment exp(c L) with c >= 0 or c <= -1 from above.

    Bins are fine where the loss is concentrated; each bin's mass goes to its ends so that P and Q both keep theirs, and what lies
    below the first bin is moved up to it. What lies above `reach` is left out.
    """
    low, high = pair.support()
    found = pair.moments(np.zeros(1))
    if found is None:
        raise Declined("a pair has no quadrature")
    _, mean, variance = found
    scale = math.sqrt(float(variance[0])) / 20
    low = max(low, float(mean[0]) - 400 * scale)
    top_loss = max(min(high, reach), low)
    edges = low + scale * np.sinh(np.linspace(0, math.asinh((top_loss - low) / scale), 3000))
    p, q = pair.masses(edges)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        top = np.nan_to_num((p - q * np.exp(edges[:-1])) / -np.expm1(-np.diff(edges)), nan=0.0)
    top = np.clip(top, 0.0, p)
    loss, mass = pair.atoms()
    inside = loss <= top_loss
    below = pair.masses(np.array([-np.inf, edges[0]]))[0]
    return np.concatenate([edges[:-1], edges[1:], [edges[0]], loss[inside]]), np.concatenate([p - top, top, below, mass[inside]])


def find_jumps(components: Components, reach: float) -> Jumps:
    """Tabulate the tail on losses up to `reach`."""
    x = np.geomspace(reach * 1e-4, reach, 60)
    laws = [(*binned(pair, reach), count) for pair, count in components]
    log_tail = np.full(len(x), 0.0)
    for i, point in enumerate(x):
        for share in (1.02, 1.5, 2.0, 3.0):
            a = point / share
            c = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]) / a
            union, level = 0.0, np.zeros(len(c))
            for place, mass, count in laws:
                inside = place < a
                union += count * float(mass[~inside].sum() + max(0.0, 1 - float(mass.sum())))
                level += count * np.log(np.maximum(np.exp(np.minimum(c[:, None] * place[inside], 700.0)) @ mass[inside], 1e-300))
            rest = float(np.min(inflated(level) - c * point))
            log_tail[i] = min(log_tail[i], float(np.logaddexp(math.log(max(union, 1e-300)), rest)))
    return Jumps(x, np.minimum.accumulate(log_tail))


def geometric(log_first: Array, log_ratio: Array) -> float:
    """The smallest of several geometric series, given the logs of first term and of one over the ratio."""
    if not len(log_first):
        return math.inf
    return float(np.min(np.exp(np.minimum(log_first, 700.0)) / -np.expm1(-log_ratio)))
