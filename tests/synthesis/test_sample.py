"""Sampled rows: in the model's shares up to whole rows, never in an empty cell, the same for every number of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.noise import test_mode as seeded
from tacit.synthesis.estimate import Model
from tacit.synthesis.inference import Passing
from tacit.synthesis.junction_tree import junction_tree
from tacit.synthesis.sample import counted, sampled, stratified

SIZES = (3, 4, 2, 5)


def random_model(seed: int, rows: float) -> Model:
    draws = np.random.default_rng(seed)
    passing = Passing(junction_tree(SIZES, [(0, 1), (1, 2), (2, 3)]))
    logs = [2 * draws.standard_normal(shape) for shape in passing.shapes]
    for log in logs:
        log[draws.random(log.shape) < 0.25] = -np.inf
        log.flat[0] = 0.0
    return Model(passing.tree, rows, passing.marginals(logs).nodes)


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_the_model_and_empty_cells_stay_empty(seed: int) -> None:
    model = random_model(seed, 20000)
    with seeded(seed):
        rows = sampled(model)
    assert len(rows) == 4
    for pair in itertools.combinations(range(4), 2):
        expected = model.marginal(pair)
        found = counted(rows, SIZES, pair)
        assert found.sum() == 20000
        assert (found[expected == 0] == 0).all()
        if model.tree.home(pair) is not None:
            # Independent draws of 20,000 rows have a total variation of about sqrt(cells / rows) / 2.5 = .01. Along
            # three nodes, groups round to whole rows each: at most a row for each cell and separator value.
            assert np.abs(found - expected).sum() / 2 / 20000 < 0.003
        else:
            assert np.abs(found - expected).sum() / 2 / 20000 < 0.02


def test_independent_draws_would_not_pass() -> None:
    model = random_model(0, 20000)
    node = model.nodes[0].ravel()
    drawn = np.random.default_rng(0).multinomial(20000, node)
    assert np.abs(drawn - 20000 * node).sum() / 2 / 20000 > 0.003


def test_one_group_gets_every_cell_within_one_row() -> None:
    draws = np.random.default_rng(1)
    weights = draws.dirichlet(np.ones(7))[None, :]
    cell = stratified(weights, np.zeros(1000, dtype=np.int64), draws)
    assert np.abs(np.bincount(cell, minlength=7) - 1000 * weights[0]).max() <= 1 + 1e-9


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_any_number_of_rows(rows: int) -> None:
    with seeded(1):
        found = sampled(random_model(1, 100), rows)
    assert [len(column) for column in found] == [rows] * 4
    assert all(((column >= 0) & (column < size)).all() for column, size in zip(found, SIZES, strict=True))
