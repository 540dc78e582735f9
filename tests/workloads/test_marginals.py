"""Marginal tables: closed forms against the specified numbers and against least squares on the written-out matrix."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.workloads import Cells, Marginals, Workload
from tacit.workloads.joint_strategy import JointStrategy, Residuals, WholeTables, best, candidates, unit_error
from tacit.workloads.marginals import cost, differenced, residual_of, residual_scales, table_weights

SIX = [2, 3, 5, 8, 10, 20]
ADULT = [37, 9, 32, 16, 16, 7, 15, 6, 5, 2, 32, 32, 33, 42, 2]


def tables_of(sizes: list[int], ways: list[int]) -> tuple[dict[str, int], dict[tuple[str, ...], float], int]:
    named = {f"c{i}": n for i, n in enumerate(sizes)}
    tables = {t: 1.0 for k in ways for t in itertools.combinations(named, k)}
    return named, tables, sum(math.prod(named[c] for c in t) for t in tables)


@pytest.mark.parametrize(
    ("sizes", "ways", "expected"),
    [
        (SIX, [1], 2.073256), (SIX, [2], 2.871873), (SIX, [3], 3.030439), (SIX, [1, 2], 2.987318), (SIX, [1, 2, 3], 3.324527),
        ([10] * 6, [1], 2.304541), ([10] * 6, [2], 3.458886), ([10] * 6, [3], 3.842735), ([10] * 6, [1, 2, 3], 4.272182),
        (ADULT, [1], 3.368041), (ADULT, [2], 7.779901), (ADULT, [3], 14.212205), (ADULT, [1, 2, 3], 14.423986),
    ],
)  # fmt: skip
def test_gaussian_scales_in_closed_form(sizes: list[int], ways: list[int], expected: float) -> None:
    named, tables, cells = tables_of(sizes, ways)
    assert math.sqrt(residual_scales(named, tables).total / cells) == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(("ways", "at_most"), [([2], 13.958), ([3], 14.035), ([1, 2, 3], 16.527)])
def test_laplace_weights(ways: list[int], at_most: float) -> None:
    named, tables, cells = tables_of(SIX, ways)
    found = table_weights(named, tables)
    assert math.sqrt(found.total / cells) <= at_most
    # and the formula is what least squares gives, on a smaller table
    small, wanted, _ = tables_of([2, 3, 4], ways)
    weights = table_weights(small, wanted)
    assert weights.total == pytest.approx(2 * written_out_error(small, wanted, weights.weights), rel=1e-4)


def marginal_matrix(sizes: dict[str, int], table: tuple[str, ...]) -> np.ndarray:
    rows = np.ones((1, 1))
    for column, size in sizes.items():
        rows = np.kron(rows, np.eye(size) if column in table else np.ones((1, size)))
    return rows


def written_out_error(sizes: dict[str, int], wanted, weights) -> float:  # type: ignore[no-untyped-def]
    strategy = np.concatenate([marginal_matrix(sizes, t) * w for t, w in weights.items()])
    questions = np.concatenate([marginal_matrix(sizes, t) for t in wanted])
    return float(((questions @ np.linalg.pinv(strategy)) ** 2).sum() * sum(weights.values()) ** 2)


@pytest.mark.parametrize("shape", [(2,), (3, 4), (2, 3, 2), (4, 1), ()])
def test_residuals_have_no_sums_and_the_same_differences(shape: tuple[int, ...]) -> None:
    table = np.random.default_rng(1).integers(-50, 50, size=shape)
    found = residual_of(differenced(table))
    assert found.shape == shape
    for axis in range(len(shape)):
        np.testing.assert_allclose(found.sum(axis=axis), 0, atol=1e-9)
    np.testing.assert_allclose(differenced(found), differenced(table), atol=1e-9)


@pytest.mark.parametrize("sizes", [{"a": 2, "b": 3}, {"a": 5}, {"a": 2, "b": 2, "c": 3}])
def test_a_row_moves_a_residual_by_its_cost_on_whole_numbers(sizes: dict[str, int]) -> None:
    """The proof of the price: what is subtracted is whole on the scaled lattice, and has no differences."""
    scaling = math.prod(sizes.values())
    unit = np.full(tuple(sizes.values()), Fraction(0), dtype=object)
    unit[(0,) * len(sizes)] = Fraction(scaling)
    residual = unit
    for axis, size in enumerate(sizes.values()):
        residual = residual - residual.sum(axis=axis, keepdims=True) / size
    taken_away = unit - residual
    assert all(Fraction(value).denominator == 1 for value in taken_away.ravel())
    assert not np.any(differenced(taken_away) != 0)
    assert sum(value**2 for value in residual.ravel()) / Fraction(scaling) ** 2 == cost(sizes, tuple(sizes))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_answers_without_noise_are_the_counts(law) -> None:  # type: ignore[no-untyped-def]
    cells = Cells.of({"a": 3, "b": 4, "c": 2})
    workload = Marginals("c", "a", "b", up_to=2).on(cells)
    for selection in candidates(workload, law):
        check(workload, selection, law)
    kinds = {type(one) for one in candidates(workload, law)}
    assert (Residuals if law == "gaussian" else WholeTables) in kinds


def check(workload: Workload, selection: JointStrategy, law) -> None:  # type: ignore[no-untyped-def]
    cells = workload.cells
    counts = np.random.default_rng(2).integers(0, 30, size=cells.shape)
    names = list(cells.names)
    made = {t: counts.sum(axis=tuple(i for i, c in enumerate(names) if c not in t)) for t in selection.tables}
    found = selection.answers(workload, selection.released(selection.measure(made)), law)
    for own, exact in zip(found, workload.answers(counts), strict=True):
        np.testing.assert_allclose(own.values, exact, atol=1e-8)


def test_residuals_beat_tables_measured_by_themselves() -> None:
    workload = Marginals("a", "b", "c", ways=2).on(Cells.of({"a": 2, "b": 3, "c": 4}))
    assert unit_error(best(workload, "gaussian"), workload, "gaussian") == pytest.approx(50.850421, abs=1e-5)
    assert 3 * (6 + 8 + 12) > 50.850421  # each by itself with a third of the budget


@pytest.mark.parametrize("columns", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_very_many_columns_are_planned_without_their_product(columns: int) -> None:
    named, tables, cells = tables_of([10] * columns, [1, 2, 3])
    found = residual_scales(named, tables)
    assert len(found.deviations) == sum(math.comb(columns, k) for k in range(4)) and found.total > 0
    assert cells == sum(math.comb(columns, k) * 10**k for k in (1, 2, 3))
