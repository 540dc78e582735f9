"""PrivBayes: the score's sensitivity by brute force, a network without circles, its price."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Guarantee
from tacit.noise import test_mode as seeded
from tacit.synthesis.measure import Measuring, concentrated_budget
from tacit.synthesis.privbayes import MOVED, PrivBayes, dependence, parent_sets
from tacit.synthesis.sample import counted


def tables(rows: int, shape: tuple[int, int]) -> list[np.ndarray]:
    """All tables of so many rows."""
    cells = shape[0] * shape[1]
    found = []
    for cuts in itertools.combinations(range(rows + cells - 1), cells - 1):
        ends = [-1, *cuts, rows + cells - 1]
        found.append(np.diff(ends).reshape(shape) - 1)
    return found


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 7), ((2, 3), 5), ((3, 3), 3)])
def test_one_row_moves_the_score_by_at_most_two(shape: tuple[int, int], most: int) -> None:
    worst = 0
    for rows in range(most + 1):
        for table in tables(rows, shape):
            for cell in range(table.size):
                more = table.copy()
                more.flat[cell] += 1
                worst = max(worst, abs(dependence(more) - dependence(table)))
    assert 1 <= worst <= MOVED


def test_random_large_tables_stay_within_it_too() -> None:
    draws = np.random.default_rng(0)
    for _ in range(200):
        table = draws.integers(0, int(draws.integers(1, 40)), (4, 6))
        more = table.copy()
        more.flat[draws.integers(24)] += 1
        assert abs(dependence(more) - dependence(table)) <= MOVED


def test_the_score_is_the_distance_from_independence_rounded_up() -> None:
    table = np.array([[7, 2, 1], [0, 4, 5]])
    rows = int(table.sum())
    exact = sum(
        abs(table[i, j] - Fraction(int(table[i].sum()) * int(table[:, j].sum()), rows))
        for i, j in itertools.product(range(2), range(3))
    )
    assert dependence(table) == math.ceil(exact / 2)


def test_the_network_has_no_circle_and_costs_what_it_says(run: Any) -> None:
    ran = run(PrivBayes(), epsilon=10)
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    assert max(ran.total_variation((place, place + 1)) for place in range(4)) < 0.06
    assert {column for one in ran.measuring.measured for column in one.columns} == set(range(5))


def test_parents_come_before_their_children() -> None:
    draws = np.random.default_rng(2)
    sizes = (3, 3, 3)
    first = draws.integers(0, 3, 4000)
    second = np.where(draws.random(4000) < 0.8, first, draws.integers(0, 3, 4000))
    data = [first, second, np.where(draws.random(4000) < 0.8, second, draws.integers(0, 3, 4000))]
    budget, _ = concentrated_budget(Guarantee(epsilon=10, delta=1e-9))
    measuring = Measuring(sizes, lambda columns: counted(data, sizes, columns), budget)
    with seeded(3):
        network = PrivBayes(degree=1).network(measuring, measuring.left / 2)
    known: set[int] = set()
    for column, parents in network:
        assert set(parents) <= known
        assert len(parents) <= 1
        known.add(column)
    edges = {tuple(sorted((column, *parents))) for column, parents in network if parents}
    assert edges == {(0, 1), (1, 2)}


def test_an_empty_table_and_small_tables(run: Any) -> None:
    assert run(PrivBayes(steps=5), rows=0).spent_within_budget()
    assert run(PrivBayes(steps=5, table_cap=8), epsilon=3).spent_within_budget()
    assert parent_sets((2, 30), (1,), 2, most=10) == [()]
