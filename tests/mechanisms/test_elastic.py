"""Elastic sensitivity: the size of a join by nested loops, the bound near all small tables, and the noise beside a global bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.calculus import Integers, ReplaceOne, Rows, Space
from tacit.mechanisms import elastic_join_size
from tacit.mechanisms.elastic import JoinSize, join_rows


def joined(rows: tuple[int, ...], keys: int, tables: int) -> int:
    """By nested loops over the rows."""
    sides = [[row % keys for row in rows if row // keys == table] for table in range(tables)]
    return sum(1 for combination in product(*sides) if len(set(combination)) == 1)


CASES = [(2, 4, 2), (3, 3, 2), (1, 5, 2), (2, 3, 3)]


@pytest.mark.parametrize(("keys", "size", "tables"), CASES)
def test_the_size_is_that_of_nested_loops(keys: int, size: int, tables: int) -> None:
    statistic = JoinSize(keys, size, tables)
    sizes = [joined(rows, keys, tables) for rows in product(range(keys * tables), repeat=size)]
    found = [statistic.value(np.array(rows), 0, 0) for rows in product(range(keys * tables), repeat=size)]
    assert found == sizes and max(sizes) == statistic.range(0, 0)[1]


@pytest.mark.parametrize(("keys", "size", "tables"), CASES)
def test_near_every_small_table_the_bound_holds_and_is_smooth(keys: int, size: int, tables: int) -> None:
    """All data sets and all their neighbours. The mutant is a frequency that is taken for a constant: it is not smooth."""
    statistic, kinds = JoinSize(keys, size, tables), keys * tables
    near = {rows: statistic.sensitivities(np.array(rows), 0, 0, 4) for rows in product(range(kinds), repeat=size)}
    constant_fails = False
    for rows, bounds in near.items():
        for place, other in product(range(size), range(kinds)):
            neighbour = (*rows[:place], other, *rows[place + 1 :])
            assert abs(joined(rows, keys, tables) - joined(neighbour, keys, tables)) <= bounds[0]
            assert (bounds[:-1] <= near[neighbour][1:]).all()
            constant_fails |= bounds[0] > near[neighbour][0]
    assert constant_fails


def test_its_noise_is_that_of_frequencies_and_not_of_all_rows() -> None:
    """40,000 rows whose keys occur a few times: a global bound would be 20,000, and the answer is within hundreds."""
    draws = np.random.default_rng(1)
    keys, each = 20_000, 20_000
    rows = join_rows(draws.integers(0, keys, each), draws.integers(0, keys, each), keys=keys)
    plan = Space(Rows(Integers(0, 2 * keys - 1), size=2 * each), ReplaceOne()) >> elastic_join_size(keys, 2 * each, epsilon=1, delta=1e-6)
    truth = JoinSize(keys, 2 * each).value(rows, 0, 0)
    errors = [abs(plan.release(rows.tolist()).value - truth) for _ in range(3)]
    assert np.median(errors) < 1000 and truth > 15_000


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="2\\^60"):
        JoinSize(10, 10**10)
    with pytest.raises(ParameterError):
        elastic_join_size(0, 5, epsilon=1)


def test_the_bound_of_one_row_is_none_for_a_person_with_several() -> None:
    """Why a session does not offer it (decision 0101). A person with three rows in each table replaces them: the join moves by more than
    the bound of one row, and by at most the sum of the bounds at the distances that lie between, which is what a person would be charged.
    """
    others = ([0] * 4 + [1] * 2, [0] * 4 + [2] * 2)
    before = join_rows(others[0] + [0] * 3, others[1] + [0] * 3, keys=4)
    after = join_rows(others[0] + [3] * 3, others[1] + [1] * 3, keys=4)
    size = JoinSize(4, len(before))
    moved = abs(size.value(before, 0, 7) - size.value(after, 0, 7))
    near = size.sensitivities(before, 0, 7, 6)
    assert moved > near[0]
    assert moved <= sum(int(bound) for bound in near[:6])
