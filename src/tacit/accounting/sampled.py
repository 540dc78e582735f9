"""Sampling as a map on pairs: Poisson, without and with replacement, for any base pair that a grid can read.

Removing a record from a Poisson sample compares (1-q) Q + q P with Q (Zhu, Dong, Wang 2022, Theorem 11). Replacing one in a
sample of fixed size has no such single pair, but its hockey-stick curve is that of the same mixture for alpha >= 1 and the mirror
image below 1 (the same theorem; Balle, Barthe, Gaboardi 2018, Theorem 9), which `Mirrored` builds. Sampling with replacement
reveals how often a record was drawn, at no loss in the bound (Theorem 10 there), so its base is a `Revealed` mixture over groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tacit.accounting.pairs import Array, Pair

_BINS = 4096
END = 800.0  # losses beyond this are not tabulated


class BinnedPair(Pair):
    """A pair known by its masses alone; its cumulant is bounded from above on a fine partition of the loss."""

    def __init__(self) -> None:
        self._table = lru_cache(maxsize=1)(self._make_table)
        self._value = lru_cache(maxsize=256)(self._kappa)

    def _make_table(self) -> tuple[Array, Array]:
        low, high = (min(max(end, -END), END) for end in self.support())
        scale = 0.01  # bins are fine near 0 and grow with the loss
        edges = scale * np.sinh(np.linspace(math.asinh(low / scale), math.asinh(high / scale), _BINS + 1))
        p, q = self.masses(edges)
        # Each bin's mass is split onto its ends so that P and Q both keep theirs: the largest moments the bin allows.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            top = (p - q * np.exp(edges[:-1])) / -np.expm1(-np.diff(edges))
        top = np.clip(np.nan_to_num(top, nan=0.0), 0.0, p)
        loss, mass = self.atoms()
        below = self.masses(np.array([-np.inf, edges[0]]))[0]
        beyond = self.masses(np.array([edges[-1], np.inf]))[0] if high < END else np.zeros(1)  # a rounding of the last edge
        return np.concatenate([edges[:-1], edges[1:], edges[[-1, 0]], loss]), np.concatenate([p - top, top, beyond, below, mass])

    def log_beyond(self, c: float) -> float:
        """An upper bound on log E[exp(c L)] over the finite losses that the table does not reach."""
        if self.support()[1] <= END:
            return -math.inf
        mass = float(self.masses(np.array([END, np.inf]))[0][0])
        if mass == 0:
            return -math.inf
        return math.log(mass) + c * END if c <= 0 else math.inf

    def _kappa(self, c: float) -> float:
        """An upper bound on kappa for c >= 0 or c <= -1, where exp(c l) is convex in exp(-l)."""
        loss, mass = self._table()
        keep = mass > 0
        exponent = np.append(np.log(mass[keep]) + c * loss[keep], self.log_beyond(c))
        peak = float(exponent.max())
        return peak if not math.isfinite(peak) else peak + math.log(float(np.exp(exponent - peak).sum()))

    def kappa(self, c: float) -> float:
        return self._value(c)

    def moments(self, c: Array) -> tuple[Array, Array, Array]:
        loss, mass = self._table()
        loss, mass = loss[mass > 0], mass[mass > 0]
        exponent = np.log(mass) + c[:, None] * loss
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        total = weight.sum(axis=1)
        mean = weight @ loss / total
        second = np.maximum(weight @ loss**2 / total - mean * mean, 1e-300)
        return np.array([self.kappa(float(x)) for x in c]), mean, second


class PoissonPair(BinnedPair):
    """((1-q) Q + q P, Q) for a base pair (P, Q): a record removed from a Poisson sample."""

    def __init__(self, base: Pair, rate: float) -> None:
        super().__init__()
        self.base, self.rate = base, rate
        self.infinite = rate * base.infinite

    def __repr__(self) -> str:
        return f"PoissonPair({self.base!r}, {self.rate})"

    def reverse(self) -> Pair:
        return _Reversed(self)

    def _loss(self, base: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.where(base > 700, base + math.log(self.rate), np.log1p(self.rate * np.expm1(np.minimum(base, 700.0))))

    def support(self) -> tuple[float, float]:
        low, high = self.base.support()
        return math.log1p(-self.rate) if self._unseen() > 0 else float(self._loss(np.array([low]))[0]), float(
            self._loss(np.array([high]))[0]
        )

    def _unseen(self) -> float:
        """Q-mass of the base where P has none: a smallest possible loss, log(1 - q)."""
        return self.base.reverse().infinite

    def atoms(self) -> tuple[Array, Array]:
        loss, p = self.base.atoms()
        q = p * np.exp(-loss)
        loss, p = self._loss(loss), (1 - self.rate) * q + self.rate * p
        if (unseen := self._unseen()) > 0:
            loss, p = np.append(loss, math.log1p(-self.rate)), np.append(p, (1 - self.rate) * unseen)
        return loss, p

    def masses(self, edges: Array) -> tuple[Array, Array]:
        floor = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            small = np.log1p(np.expm1(np.minimum(edges, 700.0)) / self.rate)
            base = np.where(edges <= floor, -np.inf, np.where(edges > 700, edges - math.log(self.rate), small))
        p, q = self.base.masses(base)
        return (1 - self.rate) * q + self.rate * p, q


class Revealed(BinnedPair):
    """A mixture of pairs in which the output tells which pair was used."""

    def __init__(self, pairs: Sequence[Pair], weights: Sequence[float]) -> None:
        super().__init__()
        self.pairs, self.weights = tuple(pairs), tuple(weights)
        self.infinite = sum(w * p.infinite for p, w in zip(self.pairs, self.weights, strict=True))

    def __repr__(self) -> str:
        return f"Revealed({len(self.pairs)} pairs)"

    def reverse(self) -> Pair:
        return Revealed([p.reverse() for p in self.pairs], self.weights)

    def support(self) -> tuple[float, float]:
        ends = [p.support() for p in self.pairs]
        return min(e[0] for e in ends), max(e[1] for e in ends)

    def atoms(self) -> tuple[Array, Array]:
        parts = [p.atoms() for p in self.pairs]
        return np.concatenate([a for a, _ in parts]), np.concatenate([w * m for (_, m), w in zip(parts, self.weights, strict=True)])

    def masses(self, edges: Array) -> tuple[Array, Array]:
        p, q = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        for pair, weight in zip(self.pairs, self.weights, strict=True):
            a, b = pair.masses(edges)
            p, q = p + weight * a, q + weight * b
        return p, q


class Mirrored(BinnedPair):
    """The symmetric pair whose losses above 0 are those of `half`; below 0 stands their mirror image, at 0 what is left."""

    def __init__(self, half: Pair) -> None:
        super().__init__()
        self.half = half
        self.symmetric = True
        self.infinite = half.infinite

    def __repr__(self) -> str:
        return f"Mirrored({self.half!r})"

    def reverse(self) -> Pair:
        return self

    def support(self) -> tuple[float, float]:
        high = max(self.half.support()[1], 0.0)
        return -high, high

    def _positive_atoms(self) -> tuple[Array, Array]:
        loss, p = self.half.atoms()
        keep = loss > 0
        return loss[keep], p[keep]

    def atoms(self) -> tuple[Array, Array]:
        loss, p = self._positive_atoms()
        q = p * np.exp(-loss)
        cp, cq = self.half.masses(np.array([0.0, np.inf]))
        rest = max(0.0, 1.0 - float(p.sum() + q.sum() + cp[0] + cq[0]) - self.infinite)
        return np.concatenate([-loss, [0.0], loss]), np.concatenate([q, [rest], p])

    def masses(self, edges: Array) -> tuple[Array, Array]:
        # only the edges on its own side matter to each half, and where they are the same, once is enough
        k = int(np.searchsorted(edges, 0.0))
        if k > 0 and len(edges) == 2 * k + 1 and np.array_equal(edges[: k + 1], -edges[k:][::-1]):
            p, q = self.half.masses(edges[k:])
            return np.concatenate([q[::-1], p]), np.concatenate([p[::-1], q])
        p, q = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        if k < len(edges):
            first = max(k - 1, 0)
            above = self.half.masses(np.maximum(edges[first:], 0.0))
            p[first:], q[first:] = above
        if k > 0:
            below = self.half.masses(np.maximum(-edges[: k + 1][::-1], 0.0))
            p[:k] += below[1][::-1][: len(p[:k])]
            q[:k] += below[0][::-1][: len(q[:k])]
        return p, q


class _Reversed(BinnedPair):
    """(Q, P) for a pair (P, Q) known by its masses."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        loss, p = pair.atoms()
        q = pair.masses(np.array([-np.inf, np.inf]))[1]
        self.infinite = max(0.0, 1.0 - float(np.sum(p * np.exp(-loss)) + q.sum()))
        if self.infinite < 1e-12:  # rounding of masses that add up to one
            self.infinite = 0.0

    def __repr__(self) -> str:
        return f"{self.pair!r}.reverse()"

    def reverse(self) -> Pair:
        return self.pair

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        return -high, -low

    def atoms(self) -> tuple[Array, Array]:
        loss, p = self.pair.atoms()
        return -loss[::-1], (p * np.exp(-loss))[::-1]

    def masses(self, edges: Array) -> tuple[Array, Array]:
        p, q = self.pair.masses(-edges[::-1])
        return q[::-1], p[::-1]


def poisson(remove: Pair, add: Pair, rate: float) -> tuple[Pair, Pair]:
    """Both directions of a Poisson sample, from both directions of the base."""
    return PoissonPair(remove, rate), PoissonPair(add.reverse(), rate).reverse()
