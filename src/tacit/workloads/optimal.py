"""The best strategy for a column: certified for Gaussian noise, searched for under Laplace noise.

For Gaussian noise the least error over all strategies is a convex problem, and `gaussian_optimum` solves it with
a certificate: no strategy of any kind is better than `least`. For Laplace noise no such method is known; `search`
tries weighted trees and HDMM's p-Identity matrices (McKenna et al. 2018) from several starts, and the identity is
always among the candidates, so the result is never worse.

>>> from tacit.workloads.workload import AllRanges
>>> best = gaussian_optimum(Need.of(AllRanges(4)))
>>> round(best.error, 6), best.gap < 1e-6
(16.440887, True)
>>> found = search(Need.of(AllRanges(32)), "laplace")
>>> 10000 < squared_error(found, Need.of(AllRanges(32)), "laplace") < 10730
True
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from tacit.mechanisms import Law
from tacit.workloads import plan_cache
from tacit.workloads.regions import Hierarchy, region_tree
from tacit.workloads.strategy import (
    UNIT,
    Dense,
    Levels,
    Need,
    Strategy,
    differences,
    identity,
    levels,
    squared_error,
    widths_for,
)
from tacit.workloads.workload import Array, Identity, Total

#: The longest column that matrices are searched for; longer ones get weighted trees, which need none.
SEARCHED = 1024
#: A certificate narrower than this ends the search for the Gaussian optimum; longer columns stop earlier.
GAP, WIDER_GAP = 1e-9, 1e-5
#: A strategy from a file is taken if no other is better by more than this.
CERTIFIED = 1e-3


@dataclass(frozen=True)
class Optimum:
    """The least error of Gaussian strategies: attained up to `error`, impossible below `least`."""

    error: float
    least: float
    matrix: Array
    multipliers: Array  # those of the constraints, which certify `least`

    @property
    def gap(self) -> float:
        """How far `error` may be from the best, relatively."""
        return self.error / self.least - 1


def gaussian_optimum(need: Need, steps: int = 200) -> Optimum:
    """min tr(G X^-1) over X with diagonal at most 1, where X is the Gram matrix of the strategy.

    With D = diag v, v <- diag((D^1/2 G D^1/2)^1/2) is iterated. At any v > 0, 2 tr((D^1/2 G D^1/2)^1/2) - sum v
    is a lower bound (weak duality with multipliers v), and X = D^-1/2 (D^1/2 G D^1/2)^1/2 D^-1/2, scaled to a
    diagonal of at most 1, attains the upper one.
    """
    gram = need.gram()
    # A column of questions that are few has a singular Gram matrix; the strategy must still tell all cells apart.
    # Where a cell is in no question, that takes more than rounding: it is told apart by a millionth of what the others are.
    ridge = 1e-12 if float(np.diag(gram).min()) > 0 else 1e-6
    gram = gram + np.eye(len(gram)) * max(ridge * float(np.trace(gram)) / len(gram), 1e-300)
    v = np.sqrt(np.diag(gram))
    gap = GAP if len(gram) <= 64 else WIDER_GAP
    best: tuple[float, Array] | None = None
    least, multipliers = 0.0, v
    for _ in range(steps):
        scale = np.sqrt(v)
        values, vectors = eigh(gram * np.outer(scale, scale), check_finite=False)
        middle = (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T
        trace = float(np.trace(middle))
        if 2 * trace - float(v.sum()) > least:
            least, multipliers = 2 * trace - float(v.sum()), v
        square = middle / np.outer(scale, scale)
        widest = float(np.diag(square).max())
        if best is None or trace * widest < best[0]:
            best = (trace * widest, square / widest)
        if best[0] <= least * (1 + gap):
            break
        v = np.maximum(np.diag(middle), 1e-12 * float(np.diag(middle).max()))
    assert best is not None
    values, vectors = eigh(best[1], check_finite=False)
    return Optimum(best[0], least, np.sqrt(values.clip(min=0.0))[:, None] * vectors.T, multipliers)


def certified(need: Need, multipliers: Array) -> float:
    """What the error of no Gaussian strategy is below, by these multipliers: weak duality, whatever they are.

    >>> from tacit.workloads.workload import AllRanges
    >>> found = gaussian_optimum(Need.of(AllRanges(4)))
    >>> round(certified(Need.of(AllRanges(4)), found.multipliers), 6), certified(Need.of(AllRanges(4)), np.ones(4)) < 16.44
    (16.440887, True)
    """
    scale = np.sqrt(multipliers)
    values = np.linalg.eigvalsh(need.gram() * np.outer(scale, scale)).clip(min=0.0)
    return 2 * float(np.sqrt(values).sum()) - float(multipliers.sum())


def spread(start: int, size: int) -> Array:
    """Numbers all over [0, 1), for the start of a search over public numbers: the same for the same start.

    >>> spread(1, 3).round(3).tolist()
    [0.922, 0.74, 0.074]
    """
    waves = 43758.5453 * np.sin(12.9898 * start + 78.233 * np.arange(size))
    return np.asarray(waves - np.floor(waves))


def weighted_tree(need: Need, law: Law, branching: int, starts: int = 24) -> Levels:
    """The best weights for a tree's levels: a smooth problem in as many numbers as there are levels.

    Under Laplace noise it has many local minima, and the best trees of some hundred cells have two or three levels, so all
    trees of so few are tried as well.
    """
    widths = widths_for(need.size, branching)
    g, sizes = differences(need, widths), np.array(widths, dtype=np.float64)

    def objective(logs: Array) -> tuple[float, Array]:
        weights = np.exp(logs)
        tails = (weights**2 * sizes)[::-1].cumsum()[::-1]
        norm = float(weights.sum() if law == "laplace" else math.sqrt((weights**2).sum()))
        total = float((g / tails).sum())
        slope = -(g / tails**2).cumsum() * 2 * weights**2 * sizes / total
        normed = weights / norm if law == "laplace" else weights**2 / norm**2
        return math.log(norm**2 * total), np.asarray(slope + 2 * normed)

    count = len(widths)
    tries: list[tuple[Array, Sequence[int]]] = [
        (np.zeros(count) if start == 0 else 6 * spread(start, count) - 3, range(count)) for start in range(starts)
    ]
    if law == "laplace":
        tries += [(np.zeros(count), (*above, count - 1)) for kept in (1, 2) for above in itertools.combinations(range(count - 1), kept)]
    best: tuple[float, Array] | None = None
    for begin, kept_levels in tries:
        bounds = [(-25.0, 25.0) if level in kept_levels else (-25.0, -25.0) for level in range(count)]
        begin = np.clip(begin, *np.transpose(bounds))
        found = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds)
        if best is None or found.fun < best[0]:
            best = (float(found.fun), np.exp(found.x - found.x.max()))
    assert best is not None
    return levels(need.size, branching, [float(w) if w > 1e-3 else 0.0 for w in best[1]])


def p_identity(need: Need, extra: int, *, steps: int = 600, start: int = 1) -> Dense:
    """The identity with `extra` further rows, every column scaled to sum 1: least error under Laplace noise.

    With Theta the further rows, s = 1 + their column sums, C = S G S and R = (I + Theta Theta^T)^-1 the error is
    tr C - tr(R Theta C Theta^T); its gradient costs as much as it does.
    """
    gram = need.gram()
    size = len(gram)

    def objective(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(extra, size)
        s = 1 + theta.sum(axis=0)
        scaled = gram * np.outer(s, s)
        small = np.linalg.inv(np.eye(extra) + theta @ theta.T)
        left = small @ theta
        through = left @ scaled
        value = float(np.trace(scaled) - (through * theta).sum())
        inner = through - (through @ theta.T) @ left
        diagonal = np.diag(scaled) - np.einsum("ij,ij->j", theta, through)
        slope = -2 * inner + (2 * diagonal / s)[None, :]
        return value / whole, (slope / whole).ravel()

    whole = float(np.trace(gram))
    begin = 0.5 * spread(start, extra * size)
    found = minimize(
        objective, begin, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(begin),
        options={"maxiter": steps, "maxfun": 2 * steps},
    )  # fmt: skip
    theta = found.x.reshape(extra, size)
    return Dense.rounded(np.vstack([np.eye(size), theta]) / (1 + theta.sum(axis=0)))


@lru_cache(maxsize=64)
def search(need: Need, law: Law) -> Strategy:
    """The strategy of least computed error for one column. The same need is searched for once, also across processes."""
    key = plan_cache.digest(need, law)
    if key is not None:
        kept = plan_cache.load(key, need.size)
        found = None if kept is None else _trusted(need, law, kept)
        if found is not None:
            return found
    candidates: list[Strategy] = [identity(need.size)]
    simple = all(isinstance(factor, Identity | Total) for _, factor in need.factors)
    if need.size > 2 and not simple:
        branchings = [b for b in (2, 3, 4, 5, 8, 16, 32) if b < need.size]
        candidates += [weighted_tree(need, law, branching) for branching in branchings]
    multipliers: Array | None = None
    for nodes in dict.fromkeys(factor for _, factor in need.factors if isinstance(factor, Hierarchy)):
        candidates.append(region_tree(need, nodes, law))
    if need.size <= SEARCHED:
        if law == "gaussian":
            best = gaussian_optimum(need)
            multipliers = best.multipliers
            candidates.append(Dense.rounded(best.matrix))
        else:
            extras = sorted({1, 2, max(1, need.size // 16)}) if need.size <= 128 else [need.size // 16]
            starts = 3 if need.size <= 128 else 1
            candidates += [p_identity(need, extra, start=start) for extra in extras for start in range(1, starts + 1)]
    chosen = min(candidates, key=lambda strategy: squared_error(strategy, need, law))
    if key is not None and isinstance(chosen, Dense):
        plan_cache.store(key, chosen.matrix, multipliers)
    return chosen


def _trusted(need: Need, law: Law, kept: plan_cache.Stored) -> Dense | None:
    """A matrix from a file, if it is as good as a search would find: its error is computed anew, and so is its certificate.

    Under Gaussian noise nothing is better by more than a thousandth; under Laplace noise, where nothing can be certified, it beats
    single cells and two weighted trees. Its price never comes from the file.
    """
    found = Dense(kept.matrix, (UNIT,))
    try:
        error = squared_error(found, need, law)
    except np.linalg.LinAlgError:
        return None
    if law == "gaussian":
        least = 0.0 if kept.multipliers is None else certified(need, kept.multipliers)
        return found if 0 < error <= least * (1 + CERTIFIED) else None
    rivals = [identity(need.size), weighted_tree(need, law, 2, starts=4), weighted_tree(need, law, 16, starts=4)]
    return found if 0 < error <= min(squared_error(rival, need, law) for rival in rivals) else None


def singular_value_bound(need: Need, law: Law) -> float:
    """What the summed squared error of no strategy is below, at the unit price (Li, Miklau 2013).

    >>> from tacit.workloads.workload import AllRanges
    >>> round(singular_value_bound(Need.of(AllRanges(4)), "gaussian"), 6)
    16.312243
    """
    values = np.linalg.eigvalsh(need.gram()).clip(min=0.0)
    least = float(np.sqrt(values).sum()) ** 2 / need.size
    return least * (2 if law == "laplace" else 1)
