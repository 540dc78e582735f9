"""The algebra of workloads against matrices that are written out."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Predicates, Prefix, Product, Ranges, Total
from tacit.workloads.workload import Factor

FACTORS: list[Factor] = [
    Identity(7), Total(7), Prefix(7), AllRanges(7), Ranges(7, ((0, 3), (2, 6), (5, 5))),
    Predicates.of(np.arange(21).reshape(3, 7) % 4 - 1),
]  # fmt: skip


def written_out(factor: Factor) -> np.ndarray:
    """The matrix from its definition, one question after the other."""
    n = factor.size
    match factor:
        case Identity():
            ranges = [(i, i) for i in range(n)]
        case Total():
            ranges = [(0, n - 1)]
        case Prefix():
            ranges = [(0, i) for i in range(n)]
        case AllRanges():
            ranges = [(i, j) for i in range(n) for j in range(i, n)]
        case Ranges():
            ranges = list(factor.ends)
        case _:
            assert isinstance(factor, Predicates)
            return factor.rows
    return np.array([[float(low <= cell <= high) for cell in range(n)] for low, high in ranges])


@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: type(f).__name__)
def test_a_factor_is_its_matrix(factor: Factor) -> None:
    rows = written_out(factor)
    counts = np.random.default_rng(1).integers(0, 9, size=(3, 7, 2))
    assert factor.questions == len(rows)
    np.testing.assert_allclose(factor.matrix(), rows)
    np.testing.assert_allclose(factor.gram(), rows.T @ rows)
    assert factor.trace() == pytest.approx((rows**2).sum())
    np.testing.assert_allclose(factor.answer(counts, 1), np.einsum("qc,acb->aqb", rows, counts))
    covariance = np.cov(np.random.default_rng(2).normal(size=(7, 50)))
    np.testing.assert_allclose(factor.spread(covariance), np.diag(rows @ covariance @ rows.T))
    assert len(factor.labels([str(i) for i in range(7)])) == len(rows)


@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("block", [1, 2, 3, 4, 8])
def test_what_is_heaped_in_blocks(factor: Factor, block: int) -> None:
    rows = written_out(factor)
    sums = [rows[:, start : start + block].sum(axis=1) for start in range(0, 7, block)]
    assert factor.heaped(block) == pytest.approx(sum(float((s**2).sum()) for s in sums))


def test_a_workload_is_the_product_of_its_factors() -> None:
    cells = Cells.of({"a": 3, "b": ["x", "y"], "c": 4})
    workload = (Product(c=Prefix, a=AllRanges) + 3 * Marginals("a", "b", "c", ways=2)).on(cells)
    counts = np.random.default_rng(3).integers(0, 20, size=cells.shape)
    ranges, prefix = written_out(AllRanges(3)), written_out(Prefix(4))
    answers = workload.answers(counts)
    np.testing.assert_array_equal(answers[0], np.einsum("pc,ra,abc->pr", prefix, ranges, counts))
    np.testing.assert_array_equal(answers[1], counts.sum(axis=2))
    np.testing.assert_array_equal(answers[3], counts.sum(axis=0))
    # one row in each cell of the first term, times 1 + 3 * 3 for the tables that hold it
    rows = np.kron(prefix, ranges)
    assert workload.norm(1) == pytest.approx(np.abs(rows).sum(axis=0).max() + 9)
    assert workload.norm(2) == pytest.approx(np.sqrt((rows**2).sum(axis=0).max() + 27))


def test_norms_of_all_ranges() -> None:
    ranges = Product(age=AllRanges).on(Cells.of({"age": 4}))
    assert ranges.questions == 10
    assert (ranges.norm(1), ranges.norm(2)) == (6, pytest.approx(6**0.5))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Cells.of({}),
        lambda: Cells.of({"a": 0}),
        lambda: Cells.of({"a": []}),
        lambda: Marginals(),
        lambda: Marginals("a", "a", ways=1),
        lambda: Marginals("a", ways=2),
        lambda: Marginals("a", ways=1, up_to=1),
        lambda: Marginals("z", ways=1).on(Cells.of({"a": 2})),
        lambda: Product(z=Prefix).on(Cells.of({"a": 2})),
        lambda: Product(a="prefix").on(Cells.of({"a": 2})),
        lambda: Product(a=[(0, 2)]).on(Cells.of({"a": 2})),
        lambda: Product(a=[]).on(Cells.of({"a": 2})),
        lambda: Product(a=Prefix(3)).on(Cells.of({"a": 2})),
        lambda: 0 * Marginals("a", ways=1),
        lambda: float("nan") * Marginals("a", ways=1),
        lambda: Predicates.of([[np.nan]]),
        lambda: Predicates.of([1, 2]),
    ],
)
def test_bad_questions_are_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError):
        wrong()


def test_a_question_about_no_cell_is_refused() -> None:
    with pytest.raises(ParameterError, match="counts no cell"):
        Predicates.of([[0, 0], [1, 0]])
