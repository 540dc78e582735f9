"""Planar Laplace noise: cells against adaptive quadrature, draws against cells, and the promise per metre kept exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import dblquad

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage import builders as module
from tacit.audit.leakage.builders import Grid, planar_geometric, planar_laplace, sample_planar_laplace

MAP = Grid(3, 3, 150)


ASKEW = Grid(4, 5, 131.7, left=-20, bottom=-50)  # a line passes a tenth of a metre from a secret


@pytest.mark.parametrize("outputs", [MAP.around(1, 2), MAP.around(0, 3), ASKEW], ids=["wide", "tight", "askew"])
def test_cells_by_quadrature(outputs: Grid) -> None:
    rate = math.log(4) / 100
    channel = planar_laplace(MAP, outputs, 4)
    x, y = outputs.edges()
    for s, (i, j) in itertools.product((0, 5), [(0, 0), (1, 2), (outputs.columns - 1, 1), (2, outputs.rows - 1), (2, 2)]):
        sx, sy = MAP.centres()[s]
        far = 4000.0
        left, right = -far if i == 0 else x[i], far if i == outputs.columns - 1 else x[i + 1]
        low, high = -far if j == 0 else y[j], far if j == outputs.rows - 1 else y[j + 1]
        # cut at the secret, where the density has its tip
        xs, ys = sorted({left, right, min(max(sx, left), right)}), sorted({low, high, min(max(sy, low), high)})
        mass = sum(
            dblquad(lambda v, u: math.exp(-rate * math.hypot(u, v)), a - sx, b - sx, c - sy, d - sy, epsabs=1e-9, epsrel=1e-9)[0]
            for (a, b), (c, d) in itertools.product(itertools.pairwise(xs), itertools.pairwise(ys))
        )
        assert channel.matrix[s, j * outputs.columns + i] == pytest.approx(rate**2 / (2 * math.pi) * mass, rel=1e-7)


@pytest.mark.parametrize("nu", [1.05, 2, 8, 1e6])
def test_rows_sum_to_one_before_they_are_scaled(nu: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells and tails cover the plane: what the quadrature misses is below 1e-10."""
    seen: list[float] = []
    whole = module._integrals

    def watched(x: np.ndarray, y: np.ndarray, cell: float, rate: float) -> np.ndarray:
        table = whole(x, y, cell, rate)
        seen.append(float(table.sum()))
        return table

    monkeypatch.setattr(module, "_integrals", watched)
    planar_laplace(Grid(1, 1, 150), Grid(7, 5, 60, left=-100, bottom=-80), nu)
    assert seen == pytest.approx([1.0], abs=1e-10)


def test_the_promise_per_metre_holds_for_cells() -> None:
    """Reporting a cell is post-processing; rescaled densities on the same square break the promise (see the planar geometric)."""
    pairs = list(itertools.combinations(range(9), 2))
    metres = [math.dist(MAP.centres()[s], MAP.centres()[t]) for s, t in pairs]
    for nu in (2, 8):
        kept = planar_laplace(MAP, MAP.around(0, 3), nu).epsilon(pairs, distances=metres)
        assert kept <= math.log(nu) / 100 * (1 + 1e-9)
        assert kept > 0.9 * math.log(nu) / 100
        assert planar_geometric(MAP, MAP.around(0, 3), nu).epsilon(pairs, distances=metres) > math.log(nu) / 100


def test_draws_fall_into_cells_as_the_matrix_says() -> None:
    """Within six deviations on every cell; noise twice as wide is caught by the same check."""
    outputs = MAP.around(1, 1)
    size = 60_000

    def worst(nu: float) -> float:
        secrets, points = sample_planar_laplace(MAP, nu, size, generator(2), prior=np.arange(1, 10) / 45)
        x, y = outputs.edges()
        i = np.clip(np.searchsorted(x, points[:, 0]) - 1, 0, outputs.columns - 1)
        j = np.clip(np.searchsorted(y, points[:, 1]) - 1, 0, outputs.rows - 1)
        found = np.bincount(secrets * 25 + j * outputs.columns + i, minlength=9 * 25).reshape(9, 25) / size
        joint = planar_laplace(MAP, outputs, 4, prior=np.arange(1, 10) / 45).joint()
        return float((np.abs(found - joint) / np.sqrt(joint * (1 - joint) / size)).max())

    assert worst(4) < 6 < 20 < worst(2)


def test_secrets_outside_are_refused() -> None:
    with pytest.raises(ParameterError, match="outputs"):
        planar_laplace(MAP, Grid(1, 1, 100), 4)
    with pytest.raises(ParameterError, match="nu"):
        planar_laplace(MAP, MAP, 1)
