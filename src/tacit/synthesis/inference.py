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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.synthesis.junction_tree import Clique, JunctionTree

Floats = NDArray[np.float64]
#: exp(-708) is the smallest normal float; beyond this width of a node, messages are logarithms.
WIDEST = 600.0


@dataclass(frozen=True)
class Beliefs:
    """What a pass found: the logarithm of the normaliser, and the marginal of every node, each adding up to 1."""

    log_z: float
    nodes: list[Floats]
    in_logs: bool = False


class Passing:
    """The passes on one tree. Shapes and axes are worked out once, as a fit runs hundreds of passes."""

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree
        self.shapes = [tuple(tree.sizes[column] for column in node) for node in tree.nodes]
        self._out: list[tuple[int, ...]] = []  # axes of a node that its parent does not have
        self._in_child: list[tuple[int, ...]] = []  # the separator's shape among the node's axes
        self._in_parent: list[tuple[int, ...]] = []
        self._parent_out: list[tuple[int, ...]] = []  # axes of the parent that the separator lacks
        self._children: list[list[int]] = [[] for _ in tree.nodes]
        for place, (node, parent, shared) in enumerate(
            zip(tree.nodes, tree.parents, tree.separators, strict=True)
        ):
            self._out.append(axes_without(node, shared))
            self._in_child.append(spread(tree.sizes, node, shared))
            above = tree.nodes[parent] if parent >= 0 else ()
            self._in_parent.append(spread(tree.sizes, above, shared))
            self._parent_out.append(axes_without(above, shared))
            if parent >= 0:
                self._children[parent].append(place)

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
            message = np.add.reduce(table, axis=self._out[place]) if self._out[place] else table
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
        for place in range(1, count):
            parent = self.tree.parents[place]
            above = tables[parent]
            outside = self._parent_out[place]
            separator = np.add.reduce(above, axis=outside) if outside else above
            sent = messages[place]
            ratio = np.divide(separator, sent, out=np.zeros_like(sent), where=sent > 0)
            table = tables[place]
            table *= ratio.reshape(self._in_child[place])
            table /= table.sum()
        return Beliefs(log_z, tables)

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
                messages[place] = log_sum(table, self._out[place])
        log_z = float(log_sum(tables[0], tuple(range(tables[0].ndim))))
        if not log_z > -math.inf:
            raise ParameterError(IMPOSSIBLE)
        tables[0] = tables[0] - log_z
        for place in range(1, count):
            separator = log_sum(tables[self.tree.parents[place]], self._parent_out[place])
            sent = messages[place]
            with np.errstate(invalid="ignore"):
                ratio = np.where(sent > -math.inf, separator - sent, -math.inf)
            tables[place] = tables[place] + ratio.reshape(self._in_child[place])
        found = [np.exp(table) for table in tables]
        return Beliefs(log_z, [table / table.sum() for table in found], in_logs=True)


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
