"""Trees of regions: every node is a range of neighbouring leaves, and every level is measured with noise of its own.

`Hierarchy` asks for the count of every node of a public hierarchy; `RegionTree` measures its levels. Blocks of one level
may have any sizes. Least squares over such a tree needs no matrix: one pass up and one pass down, linear in the number
of nodes. `two_passes` is the same for nodes that carry vectors, each measured with a covariance matrix of its own.

>>> nodes = Hierarchy.of({"north": ["a", "b"], "south": ["c", "d", "e"]})
>>> nodes.names[:4], nodes.ends[:3]
(('all', 'north', 'south', 'a'), ((0, 4), (0, 1), (2, 4)))
>>> tree = RegionTree(5, nodes.cuts, (Fraction(1),) * 3)
>>> sums = tree.measure(np.array([1, 2, 3, 4, 5]), 0)
>>> [block.tolist() for block in sums]
[[15], [3, 12], [1, 2, 3, 4, 5]]
>>> tree.solve(tree.gather(sums, 0), 0).round(9).tolist()
[1.0, 2.0, 3.0, 4.0, 5.0]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from tacit.errors import ParameterError
from tacit.exact import root
from tacit.mechanisms import Law
from tacit.workloads.strategy import UNIT, Need, Strategy, dense_powers, range_ends
from tacit.workloads.workload import Array, Factor, Ranges

Cuts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Hierarchy(Ranges):
    """The count of every node of a hierarchy over the leaves 0, 1, ...: the whole first, the leaves last.

    `names` has one name for each node, `levels` the depth of each (0 for the whole), `parents` the place of the node
    above, -1 for the whole. `cuts` has for each level the first leaf of each of its nodes.
    """

    names: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    cuts: Cuts = ()

    @staticmethod
    def of(hierarchy: Any, whole: str = "all") -> Hierarchy:
        """From a mapping of names to mappings, and of the last ones to lists of leaves; all leaves equally deep.

        >>> Hierarchy.of({"north": ["a"], "south": {"c": ["d"]}})
        Traceback (most recent call last):
        tacit.errors.ParameterError: all leaves of a hierarchy must be equally deep, ...
        """
        nodes: list[tuple[str, int, int, int, int]] = []  # name, level, parent, first leaf, last leaf
        depths: set[int] = set()
        leaves = 0

        def walk(name: Any, inside: Any, level: int, parent: int) -> None:
            nonlocal leaves
            place, first = len(nodes), leaves
            nodes.append((str(name), level, parent, first, first))
            if inside is None:
                depths.add(level)
                leaves += 1
            elif isinstance(inside, Mapping) and inside:
                for child, more in inside.items():
                    walk(child, more, level + 1, place)
            elif isinstance(inside, Sequence) and not isinstance(inside, str) and len(inside):
                for child in inside:
                    walk(child, None, level + 1, place)
            else:
                raise ParameterError("a hierarchy is a mapping of names to mappings, or to lists of leaves: {'north': ['a', 'b']}")
            nodes[place] = (str(name), level, parent, first, leaves - 1)

        walk(whole, hierarchy, 0, -1)
        if len(depths) != 1:
            raise ParameterError("all leaves of a hierarchy must be equally deep, such as {'north': ['a', 'b'], 'south': ['c']}")
        order = sorted(range(len(nodes)), key=lambda i: (nodes[i][1], nodes[i][3]))
        place_of = {old: new for new, old in enumerate(order)}
        names = tuple(nodes[i][0] for i in order)
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ParameterError(f"every node of a hierarchy needs a name of its own; {twice!r} stands there twice")
        cuts = tuple(tuple(nodes[i][3] for i in order if nodes[i][1] == level) for level in range(max(depths) + 1))
        return Hierarchy(
            leaves, tuple((nodes[i][3], nodes[i][4]) for i in order), names, tuple(nodes[i][1] for i in order),
            tuple(place_of.get(nodes[i][2], -1) for i in order), cuts,
        )  # fmt: skip

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of the leaves."""
        return self.names[-self.size :]

    def labels(self, names: Sequence[str]) -> list[str]:
        return list(self.names)


@dataclass(frozen=True)
class RegionTree(Strategy):
    """The sums of every node of some levels of a hierarchy, a weight for each level; the last level is the leaves.

    One row counts once on every level, so a tree costs the sum of the weights under Laplace noise and the root of the sum
    of their squares under Gaussian noise. With H the Gram matrix, each node adds w^2 times a block of ones to the blocks of
    its children, so H is inverted by Sherman and Morrison's formula, node by node: up for the sums, down for the shares.
    """

    size: int
    cuts: Cuts
    weights: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        assert len(self.cuts) == len(self.weights) and self.cuts[-1] == tuple(range(self.size))
        assert all(set(upper) <= set(lower) for upper, lower in zip(self.cuts, self.cuts[1:], strict=False))

    def norm(self, law: Law) -> Fraction:
        if law == "laplace":
            return sum(self.weights, Fraction(0))
        return root(sum((weight**2 for weight in self.weights), Fraction(0)))

    @cached_property
    def _starts(self) -> list[NDArray[np.int64]]:
        """For each level but the last the first child of every node, among the nodes of the next level."""
        return [np.searchsorted(lower, upper) for upper, lower in zip(self.cuts, self.cuts[1:], strict=False)]

    @cached_property
    def _squares(self) -> list[float]:
        return [float(weight) ** 2 for weight in self.weights]

    @cached_property
    def _inverses(self) -> tuple[list[Array], list[Array]]:
        """For every node the variance of its total: from what lies below it, and with its own measurement."""
        with_own = [np.full(self.size, 1 / self._squares[-1])]
        below: list[Array] = [np.full(self.size, math.inf)]
        for starts, square in zip(self._starts[::-1], self._squares[-2::-1], strict=True):
            children = np.add.reduceat(with_own[0], starts)
            below.insert(0, children)
            with_own.insert(0, children / (1 + square * children))
        return below, with_own

    @cached_property
    def _variances(self) -> list[Array]:
        """The variance of every node's total by least squares over the whole tree: the pass down."""
        below, with_own = self._inverses
        found = [with_own[0]]
        for level, starts in enumerate(self._starts):
            sizes = np.diff(np.append(starts, len(with_own[level + 1])))
            above = np.repeat(found[level] / below[level] ** 2 - 1 / below[level], sizes)
            found.append(with_own[level + 1] + with_own[level + 1] ** 2 * above)
        return found

    def node_variances(self, factor: Factor) -> Array | None:
        """The variance of each answer, for unit noise at weight 1; None where a question is no node of a measured level."""
        ends = range_ends(factor)
        if ends is None:
            return None
        known: dict[tuple[int, int], float] = {}
        for starts, variances in zip(self.cuts, self._variances, strict=True):
            lasts = np.append(np.array(starts[1:], dtype=np.int64), self.size) - 1
            known |= dict(zip(zip(starts, lasts.tolist(), strict=True), variances.tolist(), strict=True))
        found = [known.get(pair) for pair in zip(*(end.tolist() for end in ends), strict=True)]
        return None if None in found else np.array(found, dtype=np.float64)

    def error(self, need: Need) -> float:
        total = 0.0
        for weight, factor in need.factors:
            squares = self.node_variances(factor)
            total += weight * float((self.powers(factor, False)[0] if squares is None else squares).sum())
        return total

    def measure(self, counts: NDArray[Any], axis: int) -> list[NDArray[Any]]:
        return [np.add.reduceat(counts, np.array(starts), axis=axis) for starts in self.cuts]

    def gather(self, values: Sequence[NDArray[Any]], axis: int) -> Array:
        found: Array | None = None
        for value, starts, square in zip(values, self.cuts, self._squares, strict=True):
            sizes = np.diff(np.append(starts, self.size))
            spread = np.repeat(value.astype(np.float64), sizes, axis=axis) * square
            found = spread if found is None else found + spread
        assert found is not None
        return found

    def solve(self, gathered: Array, axis: int) -> Array:
        moved = np.moveaxis(gathered, axis, 0)
        shape = (-1, *[1] * (moved.ndim - 1))
        below, _ = self._inverses
        # Up: the totals of what lies below each node, were it alone.
        totals: list[Array] = [moved / self._squares[-1]]
        sums: list[Array] = []
        for level in range(len(self._starts) - 1, -1, -1):
            children = np.add.reduceat(totals[0], self._starts[level], axis=0)
            sums.insert(0, children)
            totals.insert(0, children / (1 + self._squares[level] * below[level].reshape(shape)))
        # Down: what the levels above take off every leaf.
        force = np.zeros_like(totals[0])
        for level, starts in enumerate(self._starts):
            inside = below[level].reshape(shape)
            own = (sums[level] - force * inside) / (1 + self._squares[level] * inside)
            sizes = np.diff(np.append(starts, len(self.cuts[level + 1])))
            force = np.repeat(force + self._squares[level] * own, sizes, axis=0)
        return np.moveaxis((moved - force) / self._squares[-1], 0, axis)

    def powers(self, factor: Factor, fourth: bool) -> tuple[Array, Array | None]:
        squares = self.node_variances(factor)
        if squares is None or (fourth and self.size <= 2048):
            return dense_powers(self, factor)
        return squares, None


def region_tree(need: Need, nodes: Hierarchy, law: Law) -> RegionTree:
    """The weights of a hierarchy's levels of least error; a level of hardly any weight is left out."""
    levels = len(nodes.cuts)

    def of(logs: Array) -> RegionTree:
        weights = np.exp(logs - logs.max())
        kept = [i for i in range(levels) if i == levels - 1 or weights[i] > 1e-3]
        rounded = [Fraction(max(1, round(float(weights[i]) / float(UNIT)))) * UNIT for i in kept]
        return RegionTree(nodes.size, tuple(nodes.cuts[i] for i in kept), tuple(rounded))

    def objective(logs: Array) -> float:
        weights = np.exp(logs - logs.max())
        whole = RegionTree(nodes.size, nodes.cuts, tuple(Fraction(float(w)) for w in weights))
        norm = float(weights.sum() if law == "laplace" else math.sqrt((weights**2).sum()))
        return math.log(norm**2 * whole.error(need))

    starts = [np.zeros(levels), np.linspace(0, 2, levels), np.linspace(2, 0, levels)]
    tried = [np.where(np.arange(levels) == levels - 1, 0.0, -20.0)]  # the leaves alone
    for start in starts if levels > 1 else []:
        tried.append(minimize(objective, start, method="L-BFGS-B", bounds=[(-12.0, 12.0)] * levels).x)
    found = [of(logs) for logs in tried]
    scores = [float(tree.norm(law)) ** 2 * _covered(tree, need) for tree in found]
    return found[int(np.argmin(scores))]


def _covered(tree: RegionTree, need: Need) -> float:
    """The error of a tree; of one without some levels, for short columns only."""
    known = all(tree.node_variances(factor) is not None for _, factor in need.factors)
    return tree.error(need) if known or tree.size <= 4096 else math.inf


# --- vectors with any covariance ---


@dataclass(frozen=True, eq=False)
class Passed:
    """The best linear unbiased estimate of every node and its covariance matrix."""

    values: list[Array]
    covariances: list[Array]


def two_passes(
    parents: Sequence[int], values: Sequence[Array | None], covariances: Sequence[Array | None]
) -> Passed:
    """The best linear unbiased estimate of vectors on a tree whose nodes are the sums of their children.

    Node i lies below `parents[i]` (-1 for the root), and parents come before their children. `values[i]` was measured
    with the covariance matrix `covariances[i]`, independently of the others; both are None where nothing was measured,
    which no leaf may be. Upwards a node is combined with the sum of its children by inverse variance; downwards what
    that changed is shared out by the children's covariances. Linear in the number of nodes.

    >>> one = np.eye(1)
    >>> found = two_passes([-1, 0, 0], [np.array([9.0]), np.array([4.0]), np.array([2.0])], [one, one, one])
    >>> [value.round(6).tolist() for value in found.values], found.covariances[0].round(6).tolist()
    ([[8.0], [5.0], [3.0]], [[0.666667]])
    """
    count = len(parents)
    if not count or not len(values) == len(covariances) == count or parents[0] != -1:
        raise ParameterError("give a parent, a value and a covariance for every node, the root (-1) first")
    if any(not 0 <= parent < i for i, parent in enumerate(parents) if i):
        raise ParameterError("parents must come before their children")
    width = next((len(v) for v in values if v is not None), 0)
    sums = [np.zeros(width) for _ in range(count)]
    spreads = [np.zeros((width, width)) for _ in range(count)]
    leaf = [True] * count
    for parent in parents[1:]:
        leaf[parent] = False
    estimates: list[Array] = [np.zeros(width)] * count
    widths: list[Array] = [np.zeros((width, width))] * count
    for i in range(count - 1, -1, -1):
        value, covariance = values[i], covariances[i]
        if value is None or covariance is None:
            if leaf[i]:
                raise ParameterError("every leaf needs a measurement")
            estimates[i], widths[i] = sums[i], spreads[i]
        elif leaf[i]:
            estimates[i], widths[i] = np.asarray(value, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
        else:
            gain = np.linalg.solve((spreads[i] + covariance).T, spreads[i].T).T  # spread (spread + covariance)^-1
            estimates[i] = sums[i] + gain @ (value - sums[i])
            widths[i] = spreads[i] - gain @ spreads[i]
        if i:
            sums[parents[i]] = sums[parents[i]] + estimates[i]
            spreads[parents[i]] = spreads[parents[i]] + widths[i]
    final, spread = list(estimates), list(widths)
    for i in range(1, count):
        parent = parents[i]
        gain = np.linalg.solve(spreads[parent].T, widths[i].T).T  # own width over that of all children
        final[i] = estimates[i] + gain @ (final[parent] - sums[parent])
        spread[i] = widths[i] + gain @ (spread[parent] - spreads[parent]) @ gain.T
    return Passed(final, spread)
