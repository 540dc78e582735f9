"""Whole figures: non-negative, agreeing, near the estimates; the bias is the one that is said."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Measured, Prefix, Product, impossible, measured, reconstruct
from tacit.workloads.intervals import lifts
from tacit.workloads.plan import WorkloadAnswer
from tacit.workloads.reconstruct import agreeing, controlled, fitted_cells, running, simplex, whole_cells, whole_tables
from tacit.workloads.workload import Wanted

CELLS = Cells.of({"a": 2, "b": 3, "c": 5, "d": 8})
RANDOM = np.random.default_rng(4)


def counted(plan: Measured, rows: np.ndarray) -> dict[tuple[str, ...], np.ndarray]:
    """The tables of rows, given as one line of cell numbers for each column."""
    names, found = list(CELLS.names), {}
    for table in plan.selection.tables:
        array = np.zeros([CELLS.sizes[c] for c in table], dtype=np.int64)
        np.add.at(array, tuple(rows[names.index(c)] for c in table), 1)
        found[table] = array if table else np.asarray(rows.shape[1])
    return found


def rows_of(count: int, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.array([random.choice(n, count, p=random.dirichlet(np.full(n, 0.5))) for n in CELLS.shape])


# --- pieces ---


@pytest.mark.parametrize("total", [0.0, 1.0, 7.0, 40.0])
def test_the_simplex_is_the_nearest_point(total: float) -> None:
    """Against a general optimiser over the same set."""
    values = RANDOM.normal(0, 3, size=6)
    found = simplex(values, total)
    assert found.min() >= 0 and found.sum() == pytest.approx(total, abs=1e-9)
    start = np.full(6, total / 6)
    other = minimize(
        lambda x: ((x - values) ** 2).sum(), start, bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total}, options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    np.testing.assert_allclose(found, other.x, atol=1e-5)


def test_running_totals_are_off_by_a_half_at_most() -> None:
    for size, total in itertools.product((1, 2, 7, 40), (0, 1, 5, 1000)):
        values = RANDOM.gamma(0.5, size=size)
        found = running(values, total)
        assert found.sum() == total and found.min() >= 0
        np.testing.assert_array_less(np.abs(found.cumsum() - values.cumsum() * total / values.sum()), 0.5 + 1e-6)
    assert running(np.zeros(4), 6).tolist() == [2, 1, 2, 1]


def test_controlled_tables_have_their_sums_and_stay_near() -> None:
    for _ in range(50):
        shape = tuple(RANDOM.integers(1, 9, size=2))
        table = RANDOM.gamma(0.4, size=shape) * RANDOM.choice([0.2, 3.0])
        total = round(table.sum())
        rows, columns = running(table.sum(axis=1), total), running(table.sum(axis=0), total)
        found = controlled(table, rows, columns)
        assert found.min() >= 0
        assert found.sum(axis=1).tolist() == rows.tolist() and found.sum(axis=0).tolist() == columns.tolist()
        assert np.abs(found - table).max() < 3
    # sums that the table knows nothing of
    assert controlled(np.zeros((2, 2)), [0, 3], [2, 1]).tolist() == [[0, 0], [2, 1]]
    assert controlled(np.array([[5.0, 0.0], [0.0, 0.0]]), [0, 5], [0, 5]).tolist() == [[0, 0], [0, 5]]


def test_whole_cells_keep_the_sums_of_every_column() -> None:
    cells = RANDOM.gamma(0.3, size=(4, 5, 6)) * 2
    found = whole_cells(cells)
    assert found.min() >= 0 and found.sum() == round(cells.sum())
    for axis in range(3):
        others = tuple(a for a in range(3) if a != axis)
        assert np.abs(found.sum(axis=others) - cells.sum(axis=others)).max() < 1.2


def test_agreeing_tables_are_the_nearest() -> None:
    """Dykstra's projections against non-negative least squares over one table of all columns."""
    sizes = {"a": 2, "b": 3, "c": 3}
    names = [("a", "b"), ("b", "c")]
    estimates = {("a", "b"): RANDOM.normal(2, 3, (2, 3)), ("b", "c"): RANDOM.normal(2, 3, (3, 3))}
    found = agreeing(estimates, sizes, list(sizes), 12.0)
    rows, wanted = [], []
    for place in np.ndindex(2, 3, 3):
        unit = np.zeros((2, 3, 3))
        unit[place] = 1
        rows.append(np.concatenate([unit.sum(axis=2).ravel(), unit.sum(axis=0).ravel(), [1e4]]))
    wanted = np.concatenate([estimates[n].ravel() for n in names] + [np.array([12e4])])
    # Two tables that share a column always have a common table, so its cells are as free as the two tables.
    best = nnls(np.array(rows).T, wanted)[0].reshape(2, 3, 3)
    np.testing.assert_allclose(found[names[0]], best.sum(axis=2), atol=0.05)
    np.testing.assert_allclose(found[names[1]], best.sum(axis=0), atol=0.05)


@pytest.mark.parametrize("wanted", [Product(d=AllRanges), Product(c=Identity, d=Prefix), Product(d=AllRanges) + Product(c=Prefix)])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_fitted_cells_are_the_best_non_negative_ones(wanted: Wanted, law: Any) -> None:
    """Against non-negative least squares on the dense matrix of measured sums, with the total as a heavy row."""
    spend = Guarantee(epsilon="0.3") if law == "laplace" else Guarantee(rho="0.01")
    plan = measured(wanted.on(CELLS), spend, law=law)
    with seeded(3):
        released = plan.draw(counted(plan, rows_of(60)))
    cells, columns = plan.workload.cells, []
    for place in np.ndindex(*cells.shape):
        unit = np.zeros(cells.shape, dtype=np.int64)
        unit[place] = 1
        tables = {t: unit.sum(axis=tuple(i for i, c in enumerate(cells.names) if c not in t)) for t in plan.selection.tables}
        blocks = plan.selection.measure(tables)
        columns.append(np.concatenate([b.astype(float).ravel() * float(w) for b, w in zip(blocks, plan.selection.weights, strict=True)]))
    matrix = np.array(columns).T
    noisy = np.concatenate([b.astype(float).ravel() * float(w) for b, w in zip(released, plan.selection.weights, strict=True)])
    found = fitted_cells(plan.selection, cells, released)  # type: ignore[arg-type]
    total = found.sum()
    assert total == pytest.approx(max(0, round((np.linalg.pinv(matrix) @ noisy).sum())), abs=1.0)
    heavy = 1e3
    best, _ = nnls(np.vstack([matrix, np.full(cells.total, heavy)]), np.append(noisy, heavy * total))
    least = float(((matrix @ best - noisy) ** 2).sum())
    assert float(((matrix @ found.ravel() - noisy) ** 2).sum()) == pytest.approx(least, rel=1e-3)


# --- whole workloads ---


@pytest.mark.parametrize("rows", [0, 30, 3000])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("up_to", [2, 3, 4])
def test_tables_are_whole_and_agree(up_to: int, law: Any, rows: int) -> None:
    wanted = Marginals("a", "b", "c", "d", up_to=up_to)
    spend = Guarantee(epsilon="0.5") if law == "laplace" else Guarantee(rho="0.02")
    plan = measured(wanted.on(CELLS), spend, law=law)
    with seeded(rows + up_to):
        answer = WorkloadAnswer(plan, tuple(plan.draw(counted(plan, rows_of(rows)))), True)
    by_columns = {own.term.columns: whole for own, whole in zip(answer.figures, answer.whole, strict=True)}
    assert all(whole.min() >= 0 and whole.dtype == np.int64 for whole in by_columns.values())
    for (one, table), (other, more) in itertools.product(by_columns.items(), repeat=2):
        shared = tuple(c for c in one if c in other)
        left = table.sum(axis=tuple(i for i, c in enumerate(one) if c not in shared))
        right = more.sum(axis=tuple(i for i, c in enumerate(other) if c not in shared))
        np.testing.assert_array_equal(left, right)
    total = answer.figures[0].values.sum()
    assert by_columns[("a",)].sum() == pytest.approx(max(0, total), abs=1 if up_to == 2 else 60)
    again = WorkloadAnswer.from_record(plan, answer.to_record(), True, None)
    for one_whole, other_whole in zip(answer.whole, again.whole, strict=True):
        np.testing.assert_array_equal(one_whole, other_whole)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_sparse_tables_gain_by_it(law: Any) -> None:
    """Mean squared errors of 12 draws of tables with many empty cells: the whole ones are below the unbiased ones.

    A mutant that rounds without asking for non-negative figures first has the error of least squares and fails.
    """
    spend = Guarantee(epsilon="0.2") if law == "laplace" else Guarantee(rho="0.004")
    plan = measured(Marginals("a", "b", "c", "d", up_to=3).on(CELLS), spend, law=law)
    rows = rows_of(300)
    names, errors = list(CELLS.names), np.zeros(2)
    with seeded(5):
        for _ in range(12):
            answer = WorkloadAnswer(plan, tuple(plan.draw(counted(plan, rows))), True)
            for own, whole in zip(answer.figures, answer.whole, strict=True):
                truth = np.zeros(own.values.shape)
                np.add.at(truth, tuple(rows[names.index(c)] for c in own.term.columns), 1)
                errors += ((own.values - truth) ** 2).sum(), ((whole - truth) ** 2).sum()
    assert errors[1] < 0.75 * errors[0]


def test_bias_is_as_said() -> None:
    """Cells without rows: clipped alone they gain b / 2 (Laplace), s / sqrt(2 pi) (Gaussian); whole figures gain less, above 0.

    600 draws of 40 cells, 5 standard errors. The unbiased figures have no bias; a mutant without the total held
    fixed gains b / 2 in every cell and fails.
    """
    cells = Cells.of({"a": 40})
    for law, spend in (("laplace", Guarantee(epsilon="0.5")), ("gaussian", Guarantee(rho="0.125"))):
        plan = measured(Marginals("a", ways=1).on(cells), spend, law=law)  # type: ignore[arg-type]
        counts = np.zeros(40, dtype=np.int64)
        counts[:4] = 400
        plain, clipped, whole = [], [], []
        with seeded(8):
            for _ in range(600):
                answer = WorkloadAnswer(plan, tuple(plan.draw({("a",): counts})), True)
                values = answer.figures[0].values[4:]
                plain.append(values.mean())
                clipped.append(np.maximum(values, 0).mean())
                whole.append(answer.whole[0][4:].mean())
        said = float(answer.figures[0].lifts[4])
        assert said == pytest.approx(plan.scale / 2 if law == "laplace" else plan.scale / math.sqrt(2 * math.pi), rel=1e-9)
        error = np.std(clipped) / math.sqrt(600)
        assert abs(np.mean(plain)) < 5 * np.std(plain) / math.sqrt(600)
        assert abs(np.mean(clipped) - said) < 5 * error + 0.02  # noise on whole numbers has a slightly smaller mean size
        assert 0.1 * said < np.mean(whole) < 0.8 * said


def test_lifts_of_combinations_lie_between_the_two_laws() -> None:
    ones = np.ones(1)
    several = [float(lifts(ones, ones / m, "laplace")[0]) for m in (1, 2, 8, 1e6)]
    assert several == sorted(several) and several[0] == pytest.approx(0.5)
    assert several[-1] == pytest.approx(1 / math.sqrt(math.pi), rel=1e-4)
    assert float(lifts(ones, None, "laplace")[0]) == pytest.approx(several[-1], rel=1e-4)
    draws = np.random.default_rng(1).laplace(size=(400_000, 2)).sum(axis=1) / math.sqrt(2)
    assert several[1] == pytest.approx(float(np.maximum(draws, 0).mean()), abs=0.006)


def test_what_is_too_large_is_refused_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = measured(Product(c=AllRanges, d=Prefix).on(CELLS), Guarantee(rho=1))
    tables = measured(Marginals("a", "b", "c", "d", up_to=3).on(CELLS), Guarantee(rho=1))
    assert impossible(ranges.workload, ranges.selection) is None and impossible(tables.workload, tables.selection) is None
    monkeypatch.setattr(reconstruct, "MOST_CELLS", 39)
    monkeypatch.setattr(reconstruct, "MOST_OF_TABLES", 100)
    assert "40" in str(impossible(ranges.workload, ranges.selection))
    assert "tables" in str(impossible(tables.workload, tables.selection))
    zeros = tuple(np.zeros(shape, dtype=np.int64) for shape in tables.shapes)
    with pytest.raises(ParameterError, match="whole figures need"):
        _ = WorkloadAnswer(tables, zeros, True).whole


def test_negative_corners_are_repaired() -> None:
    """Overlapping tables of three columns of nearly nothing: rounding leaves negative cells, and whole rows mend them."""
    random = np.random.default_rng(2)
    columns = "abcd"
    cells = random.gamma(0.15, size=(4, 4, 4, 4))
    tables = {
        tuple(t): cells.sum(axis=tuple(i for i, c in enumerate(columns) if c not in t)) + random.normal(0, 1, (4, 4, 4))
        for t in itertools.combinations(columns, 3)
    }
    made = whole_tables(tables)
    for (one, table), (other, more) in itertools.combinations(made.items(), 2):
        shared = [c for c in one if c in other]
        left = table.sum(axis=tuple(i for i, c in enumerate(one) if c not in shared))
        assert (left == more.sum(axis=tuple(i for i, c in enumerate(other) if c not in shared))).all()
    assert all(table.min() >= 0 for table in made.values())
