"""The worst of several pairs: one pair whose hockey-stick curve is, at every alpha, the largest of theirs.

Where a changed record may touch any one of several mechanisms, but only one, as with disjoint parts of the data, the two output laws are
those of one of the pairs; which one is not known. The pointwise maximum of their curves is convex, decreasing, 1 at alpha = 0 and at
least (1 - alpha)_+, as they are, so it is the curve of a pair (Zhu, Dong, Wang 2022, Proposition 8), and that pair dominates each of them.
So it may be composed with others, where a maximum of composed figures would only hold if the same part were touched every time.

Where the i-th curve is the largest, minus its slope is the Q-mass and its height the P-mass less alpha times that: the tails beyond
a loss are those of the pair that is worst there. Where two curves cross, the loss has an atom; masses of intervals include it.

>>> from tacit.accounting.finite import leaky_randomised_response
>>> from tacit.accounting.mixture import gaussian
>>> from tacit.accounting.pairs import single_delta
>>> both = WorstPair([gaussian(2.0), leaky_randomised_response(0.5, 0.0)])
>>> [round(single_delta(both, e)[1], 4) for e in (0.0, 1.0)]  # the second is worse at 0, and costs nothing beyond 1/2
[0.2449, 0.0068]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tacit.accounting.grid import from_the_right
from tacit.accounting.pairs import Array, Pair
from tacit.accounting.sampled import BinnedPair


class WorstPair(BinnedPair):
    """The pair whose curve is the pointwise maximum of those of `pairs`."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.pairs = tuple(pairs)
        self.infinite = max(pair.infinite for pair in self.pairs)
        self.symmetric = all(pair.symmetric for pair in self.pairs)

    def __repr__(self) -> str:
        return f"WorstPair({', '.join(map(repr, self.pairs))})"

    def reverse(self) -> Pair:
        # HS_a(Q||P) = 1 - a + a HS_1/a(P||Q) grows with the latter, so the reversed maximum is the maximum of the reversed
        return WorstPair([pair.reverse() for pair in self.pairs])

    def support(self) -> tuple[float, float]:
        ends = [pair.support() for pair in self.pairs]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        p = np.empty((len(self.pairs), len(edges)))
        q = np.empty_like(p)
        for i, pair in enumerate(self.pairs):
            p[i], q[i] = _tails(pair, edges)
        with np.errstate(over="ignore", invalid="ignore"):
            height = p - np.where(q > 0, np.exp(np.minimum(edges, 700.0)), 0.0) * q
        # beyond every loss what counts is the mass at infinity, and below all of them nothing is left to choose
        height[:, edges == math.inf] = np.array([[pair.infinite] for pair in self.pairs])
        worst = np.argmax(np.where(np.isnan(height), -np.inf, height), axis=0)
        at = np.arange(len(edges))
        return np.maximum(-np.diff(p[worst, at]), 0.0), np.maximum(-np.diff(q[worst, at]), 0.0)


def _tails(pair: Pair, edges: Array) -> tuple[Array, Array]:
    """P-mass, infinity included, and Q-mass of all losses beyond each edge."""
    p, q = pair.masses(np.append(edges, math.inf))
    p, q = from_the_right(p), from_the_right(q)
    loss, mass = pair.atoms()
    order = np.argsort(loss)
    loss, mass = loss[order], mass[order]
    place = np.searchsorted(loss, edges, side="right")
    p = p + np.append(from_the_right(mass), 0.0)[place] + pair.infinite
    q = q + np.append(from_the_right(mass * np.exp(-loss)), 0.0)[place]
    return p, q
