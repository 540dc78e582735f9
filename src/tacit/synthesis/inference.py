"""Exact marginals of a graphical model: messages up and down a junction tree.

A model is proportional to exp of a sum of log-potentials, one table a node. One pass up and one down give log Z and
the marginal of every node. Messages are probabilities, which is fast; where they could leave the range of floating
point (log-potentials and messages together range over more than 600), the same pass runs in logarithms. A log-potential
of minus infinity is a cell that cannot occur; 0/0 is 0.

>>> from tacit.synthesis.junction_tree import junction_tree
>>> passing = Passing(junction_tree((2, 2, 2), [(0, 1), (1, 2)]))
>>> found = passing.marginals([np.log([[1.0, 3.0], [2.0, 2.0]]), np.zeros((2, 2))])
>>> round(float(np.exp(found.log_z)), 9), found.nodes[1].tolist()
(16.0, [[0.1875, 0.1875], [0.3125, 0.3125]])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.synthesis.junction_tree import Clique, JunctionTree

Floats = NDArray[np.float64]
#: exp(-708) is the smallest normal float; beyond this width of a node, messages are logarithms.
WIDEST = 600.0
#: Cells of a table for which one sum over several axes is as fast as several shared sums.
SMALL = 4096


@dataclass(frozen=True)
class Beliefs:
    """What a pass found: the logarithm of the normaliser, and the marginal of every node, each adding up to 1."""

    log_z: float
    nodes: list[Floats]
    in_logs: bool = False
    faces: tuple[dict[Clique, Floats], ...] = ()  # of every node, the marginals that the pass was asked for


class Passing:
    """The passes on one tree. Shapes and axes are worked out once, as a fit runs hundreds of passes.

    `asked` names for some nodes cliques whose marginals are wanted as well.
    """

    def __init__(self, tree: JunctionTree, asked: Mapping[int, Sequence[Clique]] | None = None) -> None:
        self.tree = tree
        self.shapes = [tuple(tree.sizes[column] for column in node) for node in tree.nodes]
        self._up: list[Faces] = []  # a node's table summed to what it shares with its parent
        self._down: list[Faces] = []  # a node's marginal summed to what its children share, and to what was asked for
        self._asked = [tuple((asked or {}).get(place, ())) for place in range(len(tree.nodes))]
        self._in_child: list[tuple[int, ...]] = []  # the separator's shape among the node's axes
        self._in_parent: list[tuple[int, ...]] = []
        self._children: list[list[int]] = [[] for _ in tree.nodes]
        for place, (node, parent, shared) in enumerate(
            zip(tree.nodes, tree.parents, tree.separators, strict=True)
        ):
            self._up.append(Faces(tree.sizes, node, [shared]))
            self._in_child.append(spread(tree.sizes, node, shared))
            above = tree.nodes[parent] if parent >= 0 else ()
            self._in_parent.append(spread(tree.sizes, above, shared))
            if parent >= 0:
                self._children[parent].append(place)
        for place, node in enumerate(tree.nodes):
            wanted = [tree.separators[child] for child in self._children[place]]
            self._down.append(Faces(tree.sizes, node, [*wanted, *self._asked[place]]))

    def marginals(self, logs: Sequence[Floats]) -> Beliefs:
        """Log Z and the marginals of the model whose node tables of log-potentials these are."""
        found = self._by_probabilities(logs)
        return self._by_logarithms(logs) if found is None else found

    def _by_probabilities(self, logs: Sequence[Floats]) -> Beliefs | None:
        count = len(logs)
        tables: list[Floats] = [np.empty(0)] * count
        messages: list[Floats] = [np.empty(0)] * count
        widths = [0.0] * count
        log_z = 0.0
        for place in range(count - 1, -1, -1):  # children before parents
            log = logs[place]
            highest = float(log.max())
            lowest = float(log.min())
            if not math.isfinite(lowest):
                lowest, highest = _finite_range(log)
            width = highest - lowest + sum(widths[child] for child in self._children[place])
            if not width <= WIDEST:
                return None
            table = np.exp(log - highest)
            log_z += highest
            for child in self._children[place]:
                table *= messages[child].reshape(self._in_parent[child])
            tables[place] = table
            if not place:
                break
            message = self._up[place].of(table)[self.tree.separators[place]]
            most = float(message.max())
            if not most > 0:
                raise ParameterError(IMPOSSIBLE)
            log_z += math.log(most)
            messages[place] = message / most
            low = float(messages[place].min())
            if not low > 0:
                low = float(messages[place][messages[place] > 0].min())
            widths[place] = -math.log(low)
        mass = float(tables[0].sum())
        if not mass > 0:
            raise ParameterError(IMPOSSIBLE)
        log_z += math.log(mass)
        tables[0] /= mass
        faces = [self._down[0].of(tables[0])]
        for place in range(1, count):  # parents before children
            separator = faces[self.tree.parents[place]][self.tree.separators[place]]
            sent = messages[place]
            ratio = np.divide(separator, sent, out=np.zeros_like(sent), where=sent > 0)
            table = tables[place]
            table *= ratio.reshape(self._in_child[place])
            table /= table.sum()
            faces.append(self._down[place].of(table))
        return Beliefs(log_z, tables, faces=tuple(faces))

    def _by_logarithms(self, logs: Sequence[Floats]) -> Beliefs:
        count = len(logs)
        tables: list[Floats] = [np.empty(0)] * count
        messages: list[Floats] = [np.empty(0)] * count
        for place in range(count - 1, -1, -1):
            table = np.array(logs[place], dtype=np.float64)
            for child in self._children[place]:
                table += messages[child].reshape(self._in_parent[child])
            tables[place] = table
            if place:
                messages[place] = log_sum(table, axes_without(self.tree.nodes[place], self.tree.separators[place]))
        log_z = float(log_sum(tables[0], tuple(range(tables[0].ndim))))
        if not log_z > -math.inf:
            raise ParameterError(IMPOSSIBLE)
        tables[0] = tables[0] - log_z
        for place in range(1, count):
            above = self.tree.parents[place]
            separator = log_sum(tables[above], axes_without(self.tree.nodes[above], self.tree.separators[place]))
            sent = messages[place]
            with np.errstate(invalid="ignore"):
                ratio = np.where(sent > -math.inf, separator - sent, -math.inf)
            tables[place] = tables[place] + ratio.reshape(self._in_child[place])
        found = [np.exp(table) for table in tables]
        found = [table / table.sum() for table in found]
        faces = tuple(down.of(table) for down, table in zip(self._down, found, strict=True))
        return Beliefs(log_z, found, in_logs=True, faces=faces)


class Faces:
    """Marginals of one table over several sets of its columns: one axis is summed at a time, the longest first, and
    sets that begin the same way share the sums. `spread_over` is the way back: tables added up over a larger one.

    >>> faces = Faces((2, 3, 4), (0, 1, 2), [(0, 1), (1,)])
    >>> found = faces.of(np.arange(24.0).reshape(2, 3, 4))
    >>> found[0, 1].tolist(), found[1,].tolist()
    ([[6.0, 22.0, 38.0], [54.0, 70.0, 86.0]], [60.0, 92.0, 124.0])
    >>> faces.spread_over({(0, 1): np.ones((2, 3)), (1,): np.array([1.0, 2.0, 3.0])})[0, :, 0].tolist()
    [2.0, 3.0, 4.0]
    """

    def __init__(self, sizes: Sequence[int], node: Clique, wanted: Sequence[Clique]) -> None:
        self.node = node
        self.shape = tuple(sizes[column] for column in node)
        self.wanted = tuple(dict.fromkeys(wanted))
        # In a small table calls cost more than sums: there every marginal is one sum over all its axes.
        self.small = math.prod(self.shape) <= SMALL
        self._axes = [(kept, axes_without(node, kept)) for kept in self.wanted]
        self._among = {kept: spread(sizes, node, kept) for kept in self.wanted}
        self._steps: dict[Clique, tuple[Clique, int]] = {}  # a set, the next larger one, and the axis there that goes
        for kept in self.wanted:
            current = node
            for column in sorted(set(node) - set(kept), key=lambda column: (-sizes[column], column)):
                smaller = tuple(other for other in current if other != column)
                self._steps.setdefault(smaller, (current, current.index(column)))
                current = smaller
        self._shapes = {part: tuple(sizes[column] for column in part) for part in (*self._steps, node)}

    def of(self, table: Floats) -> dict[Clique, Floats]:
        """The wanted marginals."""
        if self.small:
            return {kept: np.add.reduce(table, axis=axes) if axes else table for kept, axes in self._axes}
        found = {self.node: table}
        for smaller, (larger, axis) in self._steps.items():
            found[smaller] = sum_axis(found[larger], axis)
        return found

    def spread_over(self, tables: Mapping[Clique, Floats]) -> Floats:
        """The sum of tables over wanted sets, each the same along all other columns."""
        if self.small:
            if len(tables) == 1 and self.node in tables:
                return tables[self.node]
            whole = np.zeros(self.shape)
            for kept, table in tables.items():
                whole += table.reshape(self._among[kept])
            return whole
        return self._spread_by_steps(tables)

    def _spread_by_steps(self, tables: Mapping[Clique, Floats]) -> Floats:
        sums: dict[Clique, Floats] = {}
        for part in reversed(self._steps):
            own = tables.get(part)
            if own is not None:
                sums[part] = sums[part] + own if part in sums else own
            if part not in sums:
                continue
            larger, axis = self._steps[part]
            wide = np.expand_dims(sums[part], axis)
            if larger in sums:
                sums[larger] += wide
            else:
                sums[larger] = np.repeat(wide, self._shapes[larger][axis], axis=axis)
        whole = sums.get(self.node)
        own = tables.get(self.node)
        if own is None:
            return np.zeros(self.shape) if whole is None else whole
        return own if whole is None else whole + own


def sum_axis(table: Floats, axis: int) -> Floats:
    """The sum over one axis. A product with ones is up to fifty times as fast as a sum over a short inner axis."""
    shape = table.shape
    before, size, after = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    ones = np.ones(size)
    if after == 1:
        found = table.reshape(before, size) @ ones
    elif before == 1:
        found = ones @ table.reshape(size, after)
    else:
        found = np.matmul(ones, table.reshape(before, size, after))
    return np.asarray(found.reshape(shape[:axis] + shape[axis + 1 :]))


IMPOSSIBLE = "no row is possible: the cells that are excluded leave nothing"


def axes_without(node: Clique, kept: Clique) -> tuple[int, ...]:
    """The axes of a node's table that belong to none of the kept columns."""
    return tuple(axis for axis, column in enumerate(node) if column not in kept)


def spread(sizes: Sequence[int], node: Clique, columns: Clique) -> tuple[int, ...]:
    """The shape in which a table over some columns multiplies a table over a node that has them."""
    return tuple(sizes[column] if column in columns else 1 for column in node)


def log_sum(table: Floats, axes: tuple[int, ...]) -> Floats:
    """log of the sum of exp over the axes; minus infinity where nothing is left.

    >>> float(log_sum(np.array([-2000.0, -2000.0]), (0,)).round(3))
    -1999.307
    """
    if not axes:
        return table
    most = table.max(axis=axes, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(np.exp(table - most).sum(axis=axes)) + most.squeeze(axis=axes)
    return found


def _finite_range(log: Floats) -> tuple[float, float]:
    finite = log[np.isfinite(log)]
    if not len(finite):
        raise ParameterError(IMPOSSIBLE)
    return float(finite.min()), float(finite.max())
