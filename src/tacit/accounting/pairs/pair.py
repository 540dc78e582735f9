"""Dominating pairs: the two output distributions that are as easy to tell apart as any two a mechanism can give.

A `Pair` is one direction of one step: its privacy loss is L = log(dP/dQ) under P, with the mass at infinity apart. Everything the
accountant needs of a mechanism is here: the cumulant function kappa(c) = log E[exp(c L)] on the real axis, quadrature nodes for the
complex one, masses of loss intervals for grids, and a bound on the decay of the characteristic function. Composing pairs over
the steps and taking the worse of the two directions at the end is sound for adaptively chosen mechanisms, because every step's
pair dominates whatever the past outputs were (Zhu, Dong, Wang 2022, Theorem 10).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.closed_form import hockey_stick, rho_from_pure
from tacit.errors import UnsupportedError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Nodes:
    """A finite stand-in for the loss distribution, exact enough on one vertical line.

    Its tilted characteristic function sum_j weight_j exp(i t loss_j) differs from the true one by at most `error + slope |t|`, for all
    |t| <= the reach it was built for; `weight` sums to 1 and log_mgf is log E[exp(c L); L finite] with absolute error `log_error`.
    """

    loss: Array
    weight: Array
    log_mgf: float
    error: float
    log_error: float
    slope: float = 0.0


class Pair(ABC):
    """One direction of a dominating pair (P, Q)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    #: Whether the reversed pair has the same loss distribution, so that one direction answers for both.
    symmetric: bool = False

    #: P-mass on outputs that Q cannot give: the part of delta that no epsilon buys back.
    infinite: float = 0.0

    #: Whether `kappa` is exact up to rounding, and not an upper bound worked out on bins of the loss.
    exact_cumulant: bool = True

    #: Whether this is, from below, all but the same as the pair it stands beside, so that one computation serves for both.
    close: bool = False

    @abstractmethod
    def reverse(self) -> Pair:
        """The pair (Q, P): the other direction of a symmetric relation."""

    @abstractmethod
    def kappa(self, c: float) -> float:
        """log E_P[exp(c L); L finite] for real c >= 0 and, where finite, for c in (-1, 0); infinity where the moment does not exist."""

    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The smallest closed interval that holds every finite loss; ends may be infinite."""

    def atoms(self) -> tuple[Array, Array]:
        """Finite losses of positive mass, and their P-masses."""
        return np.empty(0), np.empty(0)

    @abstractmethod
    def masses(self, edges: Array) -> tuple[Array, Array]:
        """P- and Q-mass of the atom-free part of the loss in each interval between consecutive edges, each with small relative error."""

    def nodes(self, c: float, reach: float) -> Nodes | None:
        """Quadrature nodes of the law tilted by exp(c L), good for frequencies up to `reach`; None where the pair has none."""
        return None

    def moments(self, c: Array) -> tuple[Array, Array, Array] | None:
        """kappa and its first two derivatives at several real points, for planning: accurate, not certified; None without nodes."""
        rows = []
        for point in c:
            nodes = self.nodes(float(point), 0.0)
            if nodes is None:
                return None
            mean = float(np.dot(nodes.weight, nodes.loss))
            rows.append((nodes.log_mgf, mean, float(np.dot(nodes.weight, (nodes.loss - mean) ** 2))))
        value, first, second = np.array(rows).T
        return value, first, second

    def hockey_stick(self, epsilon: float) -> tuple[float, float] | None:
        """Both ends of delta at epsilon >= 0 for one use, where the pair knows it better than by its masses."""
        return None

    def least_epsilon(self, delta: float) -> float | None:
        """The least epsilon >= 0 with at most this delta for one use, where the pair has a way of its own to find it."""
        return None

    def rho(self) -> float:
        """A rho for which one use is zCDP, both ways: by its largest loss, where the pair knows no better one."""
        if self.infinite > 0:
            raise UnsupportedError("a delta above 0 has no rho; use advanced, optimal or pld")
        top = max(self.support()[1], self.reverse().support()[1])
        if not math.isfinite(top):
            raise UnsupportedError(f"no rho is known for {self!r}; use rdp-improved or pld")
        return rho_from_pure(top)

    def decay(self, c: float, t: float) -> float:
        """A bound on |E exp((c+is) L)| / E exp(c L) that holds for every s >= t."""
        return 1.0


def cumulant(nodes: Callable[[float, float], Nodes], c: float) -> float:
    """kappa(c) by quadrature; too far out for the nodes infinity, which is a valid upper bound."""
    try:
        return nodes(c, 0.0).log_mgf
    except OverflowError:
        return math.inf


def upper_levels(components: Sequence[tuple[Pair, int]], c: Array) -> Array | None:
    """Upper bounds on the cumulant of a composition at several tilts; None where a pair has no quadrature."""
    level = np.zeros(len(c))
    for pair, count in components:
        found = pair.moments(c)
        if found is None:
            return None
        level = level + count * found[0]
    return inflated(level)


def inflated(level: Array) -> Array:
    """Figures for planning are accurate to about 1e-13 of their terms; this makes them upper bounds."""
    return level + 1e-9 * (1 + np.abs(level))


def single_delta(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Lower and upper end of delta at epsilon >= 0 for one use: P(L > eps) - e^eps Q(L > eps), from the masses above eps."""
    known = pair.hockey_stick(epsilon)
    if known is not None:
        return known
    p, q = pair.masses(np.array([epsilon, math.inf]))
    loss, mass = pair.atoms()
    above = loss > epsilon
    atoms = float(np.sum(mass[above] * -np.expm1(epsilon - loss[above])))
    return hockey_stick(float(p[0]), float(q[0]), epsilon, atoms=atoms, infinite=pair.infinite)


def profile(pair: Pair, epsilons: Array) -> Array:
    """Upper ends of delta for one use at many epsilons >= 0, in one pass over the masses."""
    order = np.argsort(epsilons)
    eps = np.asarray(epsilons, dtype=np.float64)[order]
    p, q = pair.masses(np.append(eps, math.inf))
    p, q = np.cumsum(p[::-1])[::-1], np.cumsum(q[::-1])[::-1]
    loss, mass = pair.atoms()
    rank = np.argsort(loss)
    loss, mass = loss[rank], mass[rank]
    above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)[np.searchsorted(loss, eps, side="right")]
    other = np.append(np.cumsum((mass * np.exp(-loss))[::-1])[::-1], 0.0)[np.searchsorted(loss, eps, side="right")]
    with np.errstate(divide="ignore"):
        tail = np.maximum(p - np.exp(np.minimum(eps + np.log(q), 0.0)), 0.0) + np.maximum(
            above - np.exp(np.minimum(eps + np.log(other), 0.0)), 0.0
        )
    found = np.empty(len(eps))
    found[order] = np.minimum(1.0, pair.infinite + tail + 1e-12 * (p + above) * (1 + eps))
    return found


class Trivial(Pair):
    """Two equal distributions: nothing is learned."""

    symmetric = True

    def reverse(self) -> Pair:
        return self

    def kappa(self, c: float) -> float:
        return 0.0

    def support(self) -> tuple[float, float]:
        return 0.0, 0.0

    def atoms(self) -> tuple[Array, Array]:
        return np.zeros(1), np.ones(1)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)

    def nodes(self, c: float, reach: float) -> Nodes:
        return Nodes(np.zeros(1), np.ones(1), 0.0, 0.0, 0.0)


class Disclosure(Pair):
    """Two distributions that never overlap: everything is learned."""

    infinite = 1.0
    symmetric = True

    def reverse(self) -> Pair:
        return self

    def kappa(self, c: float) -> float:
        return -math.inf

    def support(self) -> tuple[float, float]:
        return 0.0, 0.0

    def masses(self, edges: Array) -> tuple[Array, Array]:
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
