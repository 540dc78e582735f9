"""Trees of regions: two passes against dense weighted least squares, to 1e-9."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.workloads import Cells, Identity, Product, Total, best
from tacit.workloads.optimal import gaussian_optimum
from tacit.workloads.regions import Hierarchy, RegionTree, region_tree, two_passes
from tacit.workloads.strategy import Need, identity, squared_error
from tacit.workloads.workload import AllRanges, Predicates

PLACES = {"north": {"n1": ["a", "b", "c"], "n2": ["d"]}, "south": {"s1": ["e", "f"], "s2": ["g", "h", "i", "j"]}}
NODES = Hierarchy.of(PLACES)
TREES = [
    RegionTree(10, NODES.cuts, (Fraction(1),) * 4),
    RegionTree(10, NODES.cuts, (Fraction(1, 3), Fraction(2), Fraction(1, 7), Fraction(1))),
    RegionTree(10, NODES.cuts[1:], (Fraction(1, 2), Fraction(1, 3), Fraction(1))),
    RegionTree(10, (NODES.cuts[0], NODES.cuts[3]), (Fraction(1, 2), Fraction(1))),
    RegionTree(10, NODES.cuts[3:], (Fraction(5),)),
]


def test_a_hierarchy_is_a_tree_of_ranges() -> None:
    assert NODES.names[:7] == ("all", "north", "south", "n1", "n2", "s1", "s2") and NODES.leaves == tuple("abcdefghij")
    assert NODES.questions == 17 and NODES.ends[5] == (4, 5) and NODES.parents[5] == 2 and NODES.levels[5] == 2
    counts = np.arange(10)
    for name, answer in zip(NODES.names, NODES.answer(counts, 0).tolist(), strict=True):
        inside = _leaves_of(PLACES, name)
        assert answer == sum(ord(leaf) - ord("a") for leaf in inside)


def _leaves_of(tree: Any, name: str, inside: bool = False) -> list[str]:
    if name == "all":
        inside = True
    if isinstance(tree, list):
        return [leaf for leaf in tree if inside or leaf == name]
    return [leaf for key, more in tree.items() for leaf in _leaves_of(more, name, inside or key == name)]


@pytest.mark.parametrize("wrong", [{}, [], {"a": []}, {"a": "bc"}, {"a": ["b"], "c": {"d": ["e"]}}, {"a": ["b", "b"]}, {"a": ["a"]}, 3])
def test_what_is_no_hierarchy_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        Hierarchy.of(wrong)


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_two_passes_are_least_squares(tree: RegionTree) -> None:
    rows = np.concatenate([b * float(w) for b, w in zip(tree.measure(np.eye(10), 0), tree.weights, strict=True)])
    inverse = np.linalg.pinv(rows)
    random = np.random.default_rng(2)
    noisy = [random.integers(-50, 90, size=(len(starts), 3)) for starts in tree.cuts]
    stacked = np.concatenate([b * float(w) for b, w in zip(noisy, tree.weights, strict=True)])
    np.testing.assert_allclose(tree.solve(tree.gather(noisy, 0), 0), inverse @ stacked, atol=1e-9)
    turned = [block.T for block in noisy]
    np.testing.assert_allclose(tree.solve(tree.gather(turned, 1), 1), (inverse @ stacked).T, atol=1e-9)
    for factor in (NODES, Identity(10), Total(10), AllRanges(10), Predicates.of(random.normal(size=(3, 10)))):
        through = factor.matrix() @ inverse
        assert tree.error(Need.of(factor)) == pytest.approx((through**2).sum(), rel=1e-9)
        squares, fourths = tree.powers(factor, True)
        np.testing.assert_allclose(squares, (through**2).sum(axis=1), rtol=1e-9)
        np.testing.assert_allclose(fourths, (through**4).sum(axis=1), rtol=1e-9)  # type: ignore[arg-type]
        np.testing.assert_allclose(tree.powers(factor, False)[0], squares, rtol=1e-9)
    assert float(tree.norm("laplace")) == pytest.approx(np.abs(rows).sum(axis=0).max())
    assert float(tree.norm("gaussian")) == pytest.approx(np.sqrt((rows**2).sum(axis=0).max()))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_weights_of_levels_are_near_the_best(law: Any) -> None:
    need = Need.of(NODES)
    found = squared_error(region_tree(need, NODES, law), need, law)
    assert found <= squared_error(identity(10), need, law) and found <= squared_error(TREES[0], need, law) * (1 + 1e-9)
    random = np.random.default_rng(1)
    for _ in range(200):
        weights = tuple(Fraction(float(w)) for w in np.exp(random.normal(0, 1.5, 4)))
        assert found <= squared_error(RegionTree(10, NODES.cuts, weights), need, law) * (1 + 1e-6)
    if law == "gaussian":
        assert found < 1.1 * gaussian_optimum(need).error


def test_large_hierarchies_need_no_matrix() -> None:
    """8,000 leaves in 40 x 20 nodes: planned, and never worse than the leaves alone."""
    tree = {f"s{i}": {f"c{i}.{j}": [f"t{i}.{j}.{k}" for k in range(10)] for j in range(20)} for i in range(40)}
    nodes = Hierarchy.of(tree)
    need = Need.of(nodes)
    found = region_tree(need, nodes, "gaussian")
    assert squared_error(found, need, "gaussian") < 0.45 * squared_error(identity(8000), need, "gaussian")
    chosen = best(Product(place=nodes).on(Cells.of({"place": list(nodes.leaves)})), "gaussian")
    assert isinstance(chosen.strategies[0], RegionTree)  # type: ignore[attr-defined]


# --- vectors with any covariance ---


def test_vectors_with_any_covariance_are_estimated_best() -> None:
    """Against weighted least squares with one dense matrix; one inner node was not measured."""
    random = np.random.default_rng(3)
    parents, width = list(NODES.parents), 3
    leaves = [i for i in range(17) if i not in parents]
    values: list[Any] = [random.normal(0, 10, width) for _ in parents]
    covariances: list[Any] = [(a := random.normal(size=(width, width))) @ a.T + 0.1 * np.eye(width) for _ in parents]
    values[2] = covariances[2] = None
    found = two_passes(parents, values, covariances)
    rows, wanted = [], []
    for node in range(17):
        below = [leaf for leaf in leaves if _above(leaf, node, parents)]
        if values[node] is None:
            continue
        whiten = np.linalg.inv(np.linalg.cholesky(covariances[node]))
        row = np.zeros((width, 10 * width))
        for leaf in below:
            place = leaves.index(leaf) * width
            row[:, place : place + width] = whiten
        rows.append(row)
        wanted.append(whiten @ values[node])
    matrix = np.vstack(rows)
    cells, covariance = np.linalg.lstsq(matrix, np.concatenate(wanted), rcond=None)[0], np.linalg.inv(matrix.T @ matrix)
    for node in range(17):
        pick = np.zeros((width, 10 * width))
        for leaf in leaves:
            if _above(leaf, node, parents):
                place = leaves.index(leaf) * width
                pick[:, place : place + width] = np.eye(width)
        np.testing.assert_allclose(found.values[node], pick @ cells, atol=1e-9)
        np.testing.assert_allclose(found.covariances[node], pick @ covariance @ pick.T, atol=1e-9)


def _above(leaf: int, node: int, parents: list[int]) -> bool:
    while leaf != node and leaf >= 0:
        leaf = parents[leaf]
    return leaf == node


@pytest.mark.parametrize(
    "wrong", [([], [], []), ([-1], [None], [None]), ([0], [np.ones(1)], [np.eye(1)]), ([-1, 1], [np.ones(1)] * 2, [np.eye(1)] * 2)]
)
def test_what_is_no_tree_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        two_passes(*wrong)
