"""Junction trees: every clique has a node, columns run along the tree, and the size is known before."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.synthesis.junction_tree import cells, junction_tree


def random_cliques(draws: np.random.Generator, width: int) -> list[tuple[int, ...]]:
    count = int(draws.integers(0, 2 * width))
    return [tuple(sorted(draws.choice(width, int(draws.integers(1, 4)), replace=False).tolist())) for _ in range(count)]


@pytest.mark.parametrize("seed", range(40))
def test_a_tree_covers_cliques_and_keeps_columns_connected(seed: int) -> None:
    draws = np.random.default_rng(seed)
    width = int(draws.integers(3, 9))
    sizes = tuple(int(n) for n in draws.integers(1, 6, width))
    cliques = random_cliques(draws, width)
    tree = junction_tree(sizes, cliques)
    for clique in [*cliques, *((column,) for column in range(width))]:
        home = tree.home(clique)
        assert home is not None
        assert set(clique) <= set(tree.nodes[home])
    assert tree.parents[0] == -1
    assert all(parent < place for place, parent in enumerate(tree.parents))
    for place, (parent, shared) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        assert set(shared) == (set(tree.nodes[place]) & set(tree.nodes[parent]) if place else set())
    # running intersection: the nodes that hold a column form one piece
    for column in range(width):
        holding = [place for place, node in enumerate(tree.nodes) if column in node]
        assert sum(column not in tree.separators[place] for place in holding) == 1
    assert tree.cells == cells(sizes, cliques)
    assert tree.cells == sum(math.prod(sizes[c] for c in node) for node in tree.nodes)
    assert not any(set(a) <= set(b) for a, b in itertools.permutations(tree.nodes, 2))


def test_known_sizes() -> None:
    chain = [(i, i + 1) for i in range(9)]
    assert cells((3,) * 10, chain) == 9 * 9
    assert cells((2,) * 4, [(0, 1), (1, 2), (2, 3), (0, 3)]) == 16  # a ring of four: two triangles
    assert cells((5, 7), []) == 12
    # the cheap way round a ring: large columns are eliminated first, into small cliques
    assert cells((50, 2, 50, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]) == 2 * 50 * 2 * 2
