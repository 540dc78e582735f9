"""Messages against the sum over all rows: with zeros, in logarithms, and where probabilities would underflow."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.synthesis.inference import Faces, Passing
from tacit.synthesis.junction_tree import JunctionTree, junction_tree

SIZES = (2, 3, 2, 4, 2)
CLIQUES = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]


def enumerated(tree: JunctionTree, logs: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
    """log Z and the marginals by going through every row, in extended precision."""
    weights = {}
    for row in itertools.product(*(range(size) for size in tree.sizes)):
        weights[row] = sum(float(log[tuple(row[c] for c in node)]) for node, log in zip(tree.nodes, logs, strict=True))
    most = max(weights.values())
    total = math.fsum(math.exp(w - most) for w in weights.values())
    found = [np.zeros(log.shape) for log in logs]
    for row, weight in weights.items():
        for node, table in zip(tree.nodes, found, strict=True):
            table[tuple(row[c] for c in node)] += math.exp(weight - most) / total
    return most + math.log(total), found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("wide", [1.0, 30.0])
def test_marginals_equal_enumeration(seed: int, wide: float) -> None:
    draws = np.random.default_rng(seed)
    passing = Passing(junction_tree(SIZES, CLIQUES[: 2 + seed % 4]))
    logs = [wide * draws.standard_normal(shape) for shape in passing.shapes]
    if seed % 3 == 0:  # some cells cannot occur
        for log in logs:
            log[draws.random(log.shape) < 0.2] = -np.inf
    log_z, nodes = enumerated(passing.tree, logs)
    for found in (passing._by_probabilities(logs), passing._by_logarithms(logs)):
        assert found is not None
        assert found.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-11)
        for mine, exact in zip(found.nodes, nodes, strict=True):
            np.testing.assert_allclose(mine, exact, rtol=1e-9, atol=1e-12)
            assert (mine[exact == 0] == 0).all()


@pytest.mark.parametrize("size", [700.0, 2000.0, 1e5])
def test_potentials_beyond_floating_point_are_summed_in_logarithms(size: float) -> None:
    # What warm starts drifted to: a huge table of the shared column in one potential, its negative in the other.
    draws = np.random.default_rng(1)
    passing = Passing(junction_tree((3, 4, 3), [(0, 1), (1, 2)]))
    plain = [draws.standard_normal(shape) for shape in passing.shapes]
    drift = size * np.array([-1.0, 0.3, 0.5, 1.0])
    moved = [plain[0] + drift, plain[1] - drift[:, None]]
    kept, found = passing.marginals(plain), passing.marginals(moved)
    assert not kept.in_logs
    assert found.in_logs
    for mine, exact in zip(found.nodes, kept.nodes, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-9, atol=size * 1e-15)


def test_without_logarithms_the_same_potentials_are_silently_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.synthesis.inference.WIDEST", math.inf)
    passing = Passing(junction_tree((3, 4, 3), [(0, 1), (1, 2)]))
    drift = 2000 * np.array([-1.0, 0.3, 0.5, 1.0])
    with pytest.raises(ParameterError), np.errstate(all="ignore"):
        passing.marginals([np.zeros((3, 4)) + drift, np.zeros((4, 3)) - drift[:, None]])


def test_excluding_every_row_is_an_error() -> None:
    passing = Passing(junction_tree((2, 2, 2), [(0, 1), (1, 2)]))
    with pytest.raises(ParameterError, match="no row is possible"):
        passing.marginals([np.full((2, 2), -np.inf), np.zeros((2, 2))])
    contradiction = [np.array([[0.0, -np.inf]] * 2), np.array([[-np.inf] * 2, [0.0] * 2])]
    with pytest.raises(ParameterError, match="no row is possible"):
        passing.marginals(contradiction)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (9, 30, 8, 3), (1, 7000, 1), (30, 1, 2, 150)])
def test_shared_sums_are_the_sums(shape: tuple[int, ...]) -> None:
    """Small and large tables, over every set of axes, and the way back; einsum is the oracle."""
    draws = np.random.default_rng(1)
    node = tuple(range(len(shape)))
    every = [part for size in range(len(shape) + 1) for part in itertools.combinations(node, size)]
    faces = Faces(shape, node, every)
    table = draws.random(shape)
    found = faces.of(table)
    parts = {part: draws.random([shape[axis] for axis in part]) for part in every[1:]}
    for part in every:
        np.testing.assert_allclose(found[part], np.einsum(table, node, part), rtol=1e-12)
    spread_out = sum(np.einsum(part, axes, np.ones(shape), node, node) for axes, part in parts.items())
    np.testing.assert_allclose(faces.spread_over(parts), spread_out, rtol=1e-12)
    kept = {axes: part.copy() for axes, part in parts.items()}
    faces.spread_over(parts)
    assert all(np.array_equal(kept[axes], part) for axes, part in parts.items())  # nothing is added in place
