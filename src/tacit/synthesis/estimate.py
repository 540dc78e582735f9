"""The model that fits noisy marginals best: accelerated entropic mirror descent on a junction tree.

Of all distributions with the closest marginals (least squares, each measurement weighted by its precision) it finds
the one of largest entropy, a graphical model (McKenna, Sheldon and Miklau 2019). It sees noisy figures only, so it
costs nothing. Several measurements of one marginal are first merged by inverse variance, and all are moved to one
total, the inverse-variance mean of theirs, which is the estimated number of rows.

>>> seen = [NoisyMarginal((0, 1), np.array([[30.0, 10.0], [20.0, 40.0]]), 1.0),
...         NoisyMarginal((1, 2), np.array([[45.0, 5.0], [10.0, 40.0]]), 1.0)]
>>> fitted = fit((2, 2, 2), seen)
>>> round(fitted.total, 6), fitted.marginal((0, 1)).round(4).tolist()
(100.0, [[30.0, 10.0], [20.0, 40.0]])

Potentials of overlapping marginals have free directions: a table of the shared columns may be added to one and taken
from another. Steps wander along them without end, so every `GAUGE` steps, and before a fit is handed on, each shared
part is moved to one home (`gauged`). A cell that is already empty to one part in 1e15 is pushed down no further.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Refusal
from tacit.synthesis.inference import Faces, Passing, axes_without, spread
from tacit.synthesis.junction_tree import Clique, JunctionTree, junction_tree

Floats = NDArray[np.float64]
#: For some cliques, which of their cells can occur.
Possible = Mapping[Clique, NDArray[np.bool_]]
STEPS = 400
GAUGE = 25
EMPTY = 1e-15  # a share of all rows that counts as none
WARM = 40.0  # how far below its greatest potential an inherited one may lie: e^-40 of a row is none


OVERFLOW = "the fit left the range of floating point: a measurement is too large for its noise, or not finite"


class EstimationError(Refusal, ArithmeticError):
    """The fit left the range of floating point. It has seen noisy figures only, so it may say so."""


@dataclass(frozen=True)
class NoisyMarginal:
    """A marginal measured with independent noise of deviation `sigma` on each cell."""

    columns: Clique
    values: Floats
    sigma: float

    @property
    def total(self) -> float:
        """The number of rows that it shows."""
        return float(self.values.sum())

    @property
    def precision(self) -> float:
        """One over the variance of its total."""
        return 1.0 / (self.values.size * self.sigma**2)


@dataclass
class Model:
    """A fitted distribution of rows: marginals of the nodes of a junction tree, and how many rows there are."""

    tree: JunctionTree
    total: float
    nodes: list[Floats]
    loss: float = 0.0
    potentials: Mapping[Clique, Floats] = field(default_factory=dict)
    support: list[Floats] | None = None  # positive where constraints leave a row possible

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Expected counts over any columns, in the given order. Columns of several nodes are joined along the tree.

        >>> two = fit((2, 3), [NoisyMarginal((0,), np.array([2.0, 6.0]), 1.0)])
        >>> two.marginal((1, 0)).tolist()
        [[0.666..., 2.0], [0.666..., 2.0], [0.666..., 2.0]]
        """
        wanted = tuple(sorted(set(columns)))
        home = self.tree.home(wanted)
        if home is not None:
            table = self.nodes[home].sum(axis=axes_without(self.tree.nodes[home], wanted))
        else:
            _, table = self._joined(0, wanted)
        return np.asarray(self.total * np.transpose(table, [wanted.index(column) for column in columns]))

    def _joined(self, place: int, wanted: Clique) -> tuple[Clique, Floats]:
        """The marginal of the wanted columns in and below a node, together with its separator."""
        tree = self.tree
        have, table = tree.nodes[place], self.nodes[place]
        inside = set(have)
        children = [child for child, parent in enumerate(tree.parents) if parent == place]
        parts = [(child, *self._joined(child, wanted)) for child in children]
        parts = [part for part in parts if set(part[1]) - inside]  # others only repeat what is here
        for child, columns, below in parts:
            shared = tree.separators[child]
            over = below.sum(axis=axes_without(columns, shared), keepdims=True)
            given = np.divide(below, over, out=np.zeros_like(below), where=over > 0)
            merged = tuple(sorted(set(have) | set(columns)))
            left = table.reshape(spread(tree.sizes, merged, have))
            table = left * given.reshape(spread(tree.sizes, merged, columns))
            have = merged
            rest = [other for later, other, _ in parts if later > child]
            needed = set(wanted) | set(tree.separators[place]) | {c for other in rest for c in other if c in inside}
            table, have = table.sum(axis=axes_without(have, tuple(needed))), tuple(c for c in have if c in needed)
        needed = set(wanted) | set(tree.separators[place])
        kept = tuple(column for column in have if column in needed)
        return kept, np.asarray(table.sum(axis=axes_without(have, kept)))


def merged(measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """One measurement a marginal: repeated ones averaged by inverse variance.

    >>> twice = [NoisyMarginal((0,), np.array([4.0]), 1.0), NoisyMarginal((0,), np.array([9.0]), 2.0)]
    >>> merged(twice)[0].values.tolist(), round(merged(twice)[0].sigma**2, 6)
    ([5.0], 0.8)
    """
    together: dict[Clique, list[NoisyMarginal]] = {}
    for one in measured:
        together.setdefault(one.columns, []).append(one)
    found = []
    for columns, same in together.items():
        weight = sum(one.sigma**-2 for one in same)
        values = sum((one.values * one.sigma**-2 for one in same), np.zeros_like(same[0].values, dtype=float)) / weight
        found.append(NoisyMarginal(columns, np.asarray(values, dtype=np.float64), weight**-0.5))
    return found


def estimated_total(measured: Sequence[NoisyMarginal]) -> float:
    """The number of rows by inverse variance over all measurements, at least 1."""
    weight = sum(one.precision for one in measured)
    return max(1.0, sum(one.precision * one.total for one in measured) / weight) if weight else 1.0


def aligned(measured: Sequence[NoisyMarginal], total: float) -> list[NoisyMarginal]:
    """The same measurements, each moved evenly to this total."""
    return [
        NoisyMarginal(one.columns, one.values + (total - one.total) / one.values.size, one.sigma) for one in measured
    ]


def simplex(values: Floats, total: float) -> Floats:
    """The nearest table of counts >= 0 with this total, in Euclidean distance (Duchi et al. 2008).

    >>> simplex(np.array([5.0, -3.0, 2.0]), 6.0).tolist()
    [4.5, 0.0, 1.5]
    """
    down = np.sort(values.ravel())[::-1]
    excess = (np.cumsum(down) - total) / np.arange(1, down.size + 1)
    keep = int(np.flatnonzero(down > excess)[-1]) if (down > excess).any() else 0
    found: Floats = np.maximum(values - excess[keep], 0.0)
    return found


def one_way(column: int, measured: Sequence[NoisyMarginal], total: float) -> Floats:
    """The counts of one column, from all measurements that have it: inverse variance, then >= 0 with this total."""
    weight, sums = 0.0, np.zeros(1)
    for one in measured:
        if column in one.columns:
            axes = axes_without(one.columns, (column,))
            part = one.values.sum(axis=axes)
            precision = part.size / (one.values.size * one.sigma**2)
            weight, sums = weight + precision, sums + precision * part
    return simplex(sums / weight, total)


def fit(
    sizes: Sequence[int], measured: Sequence[NoisyMarginal], *, steps: int = STEPS, warm: Model | None = None,
    total: float | None = None, enough: float = 0.0, possible: Possible | None = None,
) -> Model:
    """The model of the measurements; `warm` is an earlier one to start from, of the same or fewer marginals.

    The loss of the true counts is about half the number of measured cells. A fit that goes far below follows the
    noise; with `enough`, steps end once the loss is at most this share of it. Cells that are not `possible` get
    no row at all.
    """
    if not measured:
        tree = junction_tree(sizes, possible or {})
        rows = 1.0 if total is None else total
        nodes = Passing(tree).marginals(barred(tree, possible or {})).nodes
        return Model(tree, rows, nodes, support=nodes if possible else None)
    single = merged(measured)
    rows = estimated_total(single) if total is None else max(1.0, total)
    return Descent(sizes, aligned(single, rows), rows, warm, possible or {}).run(steps, enough)


class Descent:
    """One fit. Marginals and potentials of all factors stand in one vector; a factor is a largest measured clique."""

    def __init__(
        self, sizes: Sequence[int], measured: Sequence[NoisyMarginal], total: float, warm: Model | None,
        possible: Possible,
    ) -> None:
        self.total = total
        cliques = [one.columns for one in measured]
        self.factors = largest(cliques)
        self.tree = junction_tree(sizes, [*self.factors, *possible])
        self.shapes = {clique: tuple(sizes[c] for c in clique) for clique in self.factors}
        self.slices: dict[Clique, slice] = {}
        start = 0
        for clique in self.factors:
            self.slices[clique] = slice(start, start + math.prod(self.shapes[clique]))
            start = self.slices[clique].stop
        self.length = start
        self.aim = np.zeros(start)
        self.weight = np.zeros(start)
        self.inner: list[tuple[slice, tuple[int, ...], tuple[int, ...], tuple[int, ...], Floats, float]] = []
        for one in measured:
            if one.columns in self.slices:
                where = self.slices[one.columns]
                self.aim[where], self.weight[where] = one.values.ravel(), one.sigma**-2
            else:
                # In the smallest factor that has it: its gradient is added there, not to a table of its own.
                home = min((c for c in self.factors if set(one.columns) <= set(c)), key=lambda c: math.prod(self.shapes[c]))
                self.inner.append((
                    self.slices[home], self.shapes[home], axes_without(home, one.columns),
                    spread(sizes, home, one.columns), np.asarray(one.values, dtype=np.float64), one.sigma**-2,
                ))  # fmt: skip
        self.expected = sum(one.values.size for one in measured) / 2
        self.eta = 2 * min(one.sigma for one in measured) ** 2 / total
        self.homes: list[list[Clique]] = [[] for _ in self.tree.nodes]  # the factors that every node holds
        for clique in self.factors:
            home_node = self.tree.home(clique)
            assert home_node is not None  # every clique lies in a node
            self.homes[home_node].append(clique)
        self.passing = Passing(self.tree, dict(enumerate(self.homes)))
        self.entering = [Faces(sizes, node, held) for node, held in zip(self.tree.nodes, self.homes, strict=True)]
        self.barred = barred(self.tree, possible) if possible else None
        self.support: list[Floats] | None = None
        self.dead = np.zeros(self.length, dtype=bool)
        if self.barred is not None:
            beliefs = self.passing.marginals(self.barred)
            self.support = beliefs.nodes
            for faces, held in zip(beliefs.faces, self.homes, strict=True):
                for clique in held:
                    self.dead[self.slices[clique]] = faces[clique].ravel() == 0
            # What was measured where nothing can be is noise, or rows that break the rules: no model can follow it.
            self.expected -= np.count_nonzero(self.dead & (self.weight > 0)) / 2
            self.weight[self.dead] = 0.0
        self.theta = self._independent(sizes, measured) if warm is None else self._inherited(warm)

    def _independent(self, sizes: Sequence[int], measured: Sequence[NoisyMarginal]) -> Floats:
        """Where a cold fit starts: every column as measured, independent of the others."""
        theta = np.zeros(self.length)
        for column in sorted({c for clique in self.factors for c in clique}):
            home = next(c for c in self.factors if column in c)
            share = np.maximum(one_way(column, measured, self.total) / self.total, 0.1 / self.total)
            view = theta[self.slices[home]].reshape(self.shapes[home])
            view += np.log(share).reshape(spread(sizes, home, (column,)))
        return theta

    def _inherited(self, warm: Model) -> Floats:
        """Potentials of an earlier fit, each folded into a factor that has its columns, and kept within `WARM`."""
        theta = np.zeros(self.length)
        for clique, table in warm.potentials.items():
            home = next((c for c in self.factors if set(clique) <= set(c)), None)
            if home is not None and tuple(self.tree.sizes[c] for c in clique) == table.shape:
                view = theta[self.slices[home]].reshape(self.shapes[home])
                view += table.reshape(spread(self.tree.sizes, home, clique))
        theta = self._gauge(theta)
        for where in self.slices.values():
            np.maximum(theta[where], theta[where].max() - WARM, out=theta[where])
        return theta

    def run(self, steps: int, enough: float = 0.0) -> Model:
        """So many steps of accelerated mirror descent; the best of all iterates by its loss."""
        target = enough * self.expected
        theta, eta, momentum = self.theta, self.eta, 0.0
        z, nodes = self._marginals(theta)
        x = z
        x_loss = z_loss = self._loss(z)
        best, best_theta, best_nodes = z_loss, theta, nodes
        floor = EMPTY * self.total
        for step in range(steps):
            if best < target:
                break
            a = (1 + math.sqrt(1 + 4 * momentum)) / 2
            t = a / (momentum + a)
            v = z if t == 1 else (1 - t) * x + t * z
            gradient = self._gradient(v)
            gradient[(z < floor) & (gradient > 0)] = 0.0
            gradient[self.dead] = 0.0
            proposed = theta - a * eta * gradient
            if step % GAUGE == GAUGE - 1:
                proposed = self._gauge(proposed)
            new, new_nodes = self._marginals(proposed)
            new_x = new if t == 1 else (1 - t) * x + t * new
            loss = self._loss(new_x)
            if loss <= x_loss:
                theta, z, x, x_loss = proposed, new, new_x, loss
                momentum += a
                eta *= 1.05
                z_loss = loss if t == 1 else self._loss(z)
                if z_loss < best:
                    best, best_theta, best_nodes = z_loss, theta, new_nodes
            else:
                eta, momentum = eta / 2, 0.0
                x, x_loss = z, z_loss
        if not math.isfinite(best):
            raise EstimationError(OVERFLOW)
        final = self._gauge(best_theta)
        potentials = {c: final[where].reshape(self.shapes[c]).copy() for c, where in self.slices.items()}
        return Model(self.tree, self.total, best_nodes, best, potentials, self.support)

    def _marginals(self, theta: Floats) -> tuple[Floats, list[Floats]]:
        """Expected counts of all factors, and the marginals of the nodes."""
        if not math.isfinite(float(theta.sum())):
            raise EstimationError(OVERFLOW)
        logs = [
            entering.spread_over({c: theta[self.slices[c]].reshape(self.shapes[c]) for c in held})
            for entering, held in zip(self.entering, self.homes, strict=True)
        ]
        if self.barred is not None:
            logs = [log + closed for log, closed in zip(logs, self.barred, strict=True)]
        beliefs = self.passing.marginals(logs)
        found = np.empty(self.length)
        for faces, held in zip(beliefs.faces, self.homes, strict=True):
            for clique in held:
                found[self.slices[clique]] = faces[clique].ravel()
        found *= self.total
        return found, beliefs.nodes

    def _loss(self, x: Floats) -> float:
        gap = x - self.aim
        found = 0.5 * float(np.dot(gap * self.weight, gap))
        for where, shape, axes, _, values, weight in self.inner:
            gap = np.add.reduce(x[where].reshape(shape), axis=axes) - values
            found += 0.5 * weight * float(np.vdot(gap, gap))
        return found

    def _gradient(self, x: Floats) -> Floats:
        found: Floats = (x - self.aim) * self.weight
        for where, shape, axes, among, values, weight in self.inner:
            gap = np.add.reduce(x[where].reshape(shape), axis=axes) - values
            view = found[where].reshape(shape)
            view += (weight * gap).reshape(among)
        return found

    def _gauge(self, theta: Floats) -> Floats:
        moved = gauged({c: theta[where].reshape(self.shapes[c]) for c, where in self.slices.items()})
        return np.concatenate([table.ravel() for table in moved.values()])


def barred(tree: JunctionTree, possible: Possible) -> list[Floats]:
    """For every node a table of log-potentials: minus infinity where a constraint forbids the cell, else 0."""
    found = [np.zeros([tree.sizes[column] for column in node]) for node in tree.nodes]
    for clique, table in possible.items():
        home = tree.home(clique)
        assert home is not None  # the tree was built with every constraint's columns
        among = spread(tree.sizes, tree.nodes[home], clique)
        found[home][np.broadcast_to(~table.reshape(among), found[home].shape)] = -math.inf
    return found


def gauged(potentials: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
    """The same model with every part that several potentials share in the first of them, and no constants.

    The part of a table that belongs to a set of columns is its interaction of exactly these columns, as in the
    analysis of variance; parts of different sets add up to the table.

    >>> moved = gauged({(0, 1): np.array([[0.0, 9.0], [0.0, 9.0]]), (1, 2): np.array([[1.0, 1.0], [-9.0, -9.0]])})
    >>> moved[0, 1].tolist(), moved[1, 2].tolist()
    ([[0.5, -0.5], [0.5, -0.5]], [[0.0, 0.0], [0.0, 0.0]])
    """
    found = {clique: np.array(table - table.mean()) for clique, table in potentials.items()}
    cliques = list(found)
    for place, clique in enumerate(cliques):
        homes: dict[Clique, Clique] = {}
        for earlier in cliques[:place]:
            shared = [c for c in clique if c in earlier]
            for size in range(1, len(shared) + 1):
                for part in itertools.combinations(shared, size):
                    homes.setdefault(part, earlier)
        means: dict[Clique, Floats] = {}
        table = found[clique]
        for part in sorted(homes, key=len):
            means[part] = table.mean(axis=axes_without(clique, part), keepdims=True)
        parts: dict[Clique, Floats] = {}
        for part in sorted(homes, key=len):
            # The mean over the other columns, less the parts of fewer columns; the constant is already gone.
            smaller = [parts[p] for p in parts if set(p) < set(part)]
            parts[part] = means[part] - sum(smaller, np.zeros((1,) * table.ndim))
        for part, value in parts.items():
            home = homes[part]
            table = table - value
            kept = tuple(s for s, c in zip(found[home].shape, home, strict=True))
            shape = tuple(n if c in part else 1 for n, c in zip(kept, home, strict=True))
            found[home] = found[home] + value.reshape(shape)
        found[clique] = table
    return found


def largest(cliques: Sequence[Clique]) -> list[Clique]:
    """The cliques that lie in no other one, each once, in order of appearance."""
    unique = list(dict.fromkeys(cliques))
    return [c for c in unique if not any(set(c) < set(other) for other in unique)]
