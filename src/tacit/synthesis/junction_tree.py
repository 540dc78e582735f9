"""Junction trees: which columns must be held together so that a model of some marginals can be computed exactly.

Columns are numbers, and a clique is an increasing tuple of them. Greedy elimination (the column whose clique has
the fewest cells goes first) gives the nodes; a tree of largest overlaps joins them. `cells` is the size of the
model and needs no table: it is asked before anything is built.

>>> tree = junction_tree((2, 3, 4, 5), [(0, 1), (1, 2), (3,)])
>>> tree.nodes, tree.cells, cells((2, 3, 4, 5), [(0, 1), (1, 2), (0, 2)])
(((0, 1), (1, 2), (3,)), 23, 29)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tacit.errors import ParameterError

Clique = tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Nodes, the parent of each (-1 for the root) and what it shares with it. Parents come before children.

    Parts that share no column are joined by an empty separator, so that there is always one tree.
    """

    sizes: tuple[int, ...]
    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]

    @property
    def cells(self) -> int:
        """How many numbers the model has."""
        return sum(math.prod(self.sizes[column] for column in node) for node in self.nodes)

    def home(self, columns: Clique) -> int | None:
        """The smallest node that holds these columns, or None."""
        wanted = set(columns)
        holding = [place for place, node in enumerate(self.nodes) if wanted <= set(node)]
        return min(holding, key=lambda place: math.prod(self.sizes[c] for c in self.nodes[place]), default=None)


    def walk(self, given: Clique = ()) -> list[tuple[int, Clique]]:
        """The nodes in an order in which rows can be drawn, each with those of its columns that are known by then.

        It starts at the smallest node that holds the given columns, which are known from the start.

        >>> junction_tree((2, 2, 2), [(0, 1), (1, 2)]).walk((2,))
        [(1, (2,)), (0, (1,))]
        """
        if not given:
            return list(enumerate(self.separators))
        start = self.home(given)
        if start is None:
            raise ParameterError("no node of the tree holds all given columns")
        near: list[list[int]] = [[] for _ in self.nodes]
        for place, parent in enumerate(self.parents):
            if parent >= 0:
                near[place].append(parent)
                near[parent].append(place)
        found, seen = [(start, given)], {start}
        for place, _ in found:  # grows while it is walked
            for other in near[place]:
                if other not in seen:
                    seen.add(other)
                    shared = self.separators[other if self.parents[other] == place else place]
                    found.append((other, shared))
        return found


def eliminate(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[int]:
    """The nodes of a junction tree, as sets of bits, one bit a column; every column is in one of them."""
    width = len(sizes)
    near = [1 << column for column in range(width)]
    for clique in cliques:
        mask = 0
        for column in clique:
            mask |= 1 << column
        for column in clique:
            near[column] |= mask
    weight = [math.log(size) for size in sizes]

    def total(mask: int) -> float:
        found = 0.0
        while mask:
            low = mask & -mask
            found += weight[low.bit_length() - 1]
            mask ^= low
        return found

    costs = {column: total(near[column]) for column in range(width)}
    nodes: list[int] = []
    while costs:
        first = min(costs, key=costs.__getitem__)  # the lowest column of those that tie
        mask = near[first]
        del costs[first]
        if not any(mask & ~node == 0 for node in nodes):
            nodes.append(mask)
        rest = mask & ~(1 << first)
        members = rest
        while members:
            low = members & -members
            column = low.bit_length() - 1
            members ^= low
            joined = (near[column] | rest) & ~(1 << first)
            if joined != near[column]:
                near[column] = joined
            costs[column] = total(joined)
    return nodes


def cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """The size of the model of these cliques, without building it."""
    return sum(math.prod(sizes[column] for column in _columns(mask)) for mask in eliminate(sizes, cliques))


def junction_tree(sizes: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
    """A junction tree over all columns in which every clique lies in a node.

    >>> junction_tree((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]).nodes  # a ring gets a chord
    ((0, 1, 3), (1, 2, 3))
    """
    nodes = sorted(_columns(mask) for mask in eliminate(sizes, cliques))
    # A tree of largest overlaps has the running intersection property (Jensen and Jensen 1994).
    order, parents, overlap = [0], {0: -1}, {}
    for place in range(1, len(nodes)):
        overlap[place] = (len(set(nodes[place]) & set(nodes[0])), 0)
    while overlap:
        nearest = max(overlap, key=lambda place: (overlap[place][0], -place))
        parents[nearest] = order.index(overlap.pop(nearest)[1])
        order.append(nearest)
        for place, (shared, _) in overlap.items():
            common = len(set(nodes[place]) & set(nodes[nearest]))
            if common > shared:
                overlap[place] = (common, nearest)
    placed = tuple(nodes[place] for place in order)
    above = tuple(parents[place] for place in order)
    separators = tuple(
        tuple(sorted(set(node) & set(placed[parent]))) if parent >= 0 else ()
        for node, parent in zip(placed, above, strict=True)
    )
    return JunctionTree(tuple(sizes), placed, above, separators)


def _columns(mask: int) -> Clique:
    return tuple(column for column in range(mask.bit_length()) if mask >> column & 1)
